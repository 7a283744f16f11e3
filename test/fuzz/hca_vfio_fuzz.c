/* SPDX-License-Identifier: MIT */
/*
 * Fuzz the HCA model's vfio-user front end: the input is a list of messages. For each, a byte for
 * the command, one for the length of the body, one for what rides along, then the body.
 *
 * Property: whatever comes ends as an answer or as the end of the connection; no mapping and no
 * descriptor is left behind.
 */
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../../tools/hca/loop.h"
#include "../../tools/hca/vfio.h"

#define RAM_SIZE   (1u << 20)
#define WITH_RAM   1u
#define WITH_EVENT 2u
#define LIE        4u /* about the length */
#define FLAGS      8u
#define REPEAT     0x30u /* more of the same descriptor */

static int ram = -1, event = -1;

static void send_message(int sock, const void *data, size_t size, int fd, unsigned nr)
{
	char control[CMSG_SPACE(4 * sizeof(int))] = { 0 };
	struct iovec iov = { (void *)(uintptr_t)data, size };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (fd >= 0) {
		struct cmsghdr *c;

		msg.msg_control = control;
		msg.msg_controllen = CMSG_SPACE(nr * sizeof(int));
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(nr * sizeof(int));
		for (unsigned i = 0; i < nr; i++)
			memcpy(CMSG_DATA(c) + i * sizeof(int), &fd, sizeof(int));
	}
	(void)sendmsg(sock, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void send_version(int sock)
{
	static const char json[] = "{\"capabilities\":{\"max_msg_fds\":8,\"pgsizes\":4096}}";
	uint8_t buf[sizeof(struct vu_header) + 4 + sizeof(json)] = { 0 };
	const struct vu_header h = { .command = VU_VERSION, .size = sizeof(buf) };

	memcpy(buf, &h, sizeof(h));
	buf[sizeof(h) + 2] = VU_MINOR;
	memcpy(buf + sizeof(h) + 4, json, sizeof(json));
	send_message(sock, buf, sizeof(buf), -1, 0);
}

static void send_fuzzed(int sock, const uint8_t *in, const uint8_t *body, size_t len)
{
	uint8_t buf[sizeof(struct vu_header) + 256] = { 0 };
	const unsigned with = in[2];
	struct vu_header h = { .id = in[0],
			       .command = in[0] & 31,
			       .size = (uint32_t)(sizeof(h) + len) };

	if (with & LIE)
		h.size += (int8_t)in[1];
	if (with & FLAGS)
		h.flags = in[0] >> 3;
	memcpy(buf, &h, sizeof(h));
	memcpy(buf + sizeof(h), body, len);
	send_message(sock, buf, sizeof(h) + len,
		     with & WITH_RAM     ? ram
		     : with & WITH_EVENT ? event
					 : -1,
		     1 + ((with & REPEAT) >> 4));
}

static void drain(int sock)
{
	static uint8_t buf[8192];

	while (recv(sock, buf, sizeof(buf), MSG_DONTWAIT) > 0)
		;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct vm_options o = { .fd = -1 };
	struct fabric *f = fabric_create();
	struct vfio_dev *d;
	const char *why;
	struct loop l;
	int pair[2], probe;

	if (ram < 0) {
		log_open("/dev/null");
		ram = memfd_create("ram", MFD_CLOEXEC);
		event = eventfd(0, EFD_CLOEXEC);
		if (ram < 0 || event < 0 || ftruncate(ram, RAM_SIZE))
			abort();
	}
	if (!f || !loop_init(&l, f) ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair))
		abort();
	l.stay = true;
	d = vfio_create(&l, &o, &why);
	if (!d || !vfio_serve(d, pair[0]))
		abort();
	if (size && data[0] != 0xff)
		send_version(pair[1]);
	while (size >= 3 && l.nr_vms) {
		const size_t n = MIN((size_t)data[1], size - 3);

		send_fuzzed(pair[1], data, data + 3, n);
		loop_poll(&l);
		drain(pair[1]);
		data += 3 + n;
		size -= 3 + n;
	}
	close(pair[1]);
	for (unsigned i = 0; i < 64 && l.nr_vms; i++)
		loop_poll(&l);
	if (l.nr_vms || f->hcas[0]->mem.nr)
		abort();
	vfio_destroy(d);
	close(l.epfd);
	fabric_destroy(f);
	probe = dup(ram);
	if (probe > 64)
		abort();
	close(probe);
	return 0;
}
