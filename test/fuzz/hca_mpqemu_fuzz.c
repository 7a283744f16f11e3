/* SPDX-License-Identifier: MIT */
/*
 * Fuzz the HCA model's front end for QEMU's multi-process protocol: the input is what arrives on
 * the device's socket, with a descriptor of some RAM riding along.
 *
 * Property: garbage ends the attachment, not the process; no descriptor is leaked.
 */
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../../tools/hca/loop.h"

#define RAM_SIZE (1u << 20)

static int ram = -1;

static void send_with_fd(int sock, const uint8_t *data, size_t size, int fd)
{
	char control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec iov = { (void *)(uintptr_t)data, size };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (fd >= 0) {
		struct cmsghdr *c;

		msg.msg_control = control;
		msg.msg_controllen = sizeof(control);
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &fd, sizeof(int));
	}
	(void)sendmsg(sock, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct vm_options o = { .lid = 0 };
	struct fabric *f = fabric_create();
	const char *why;
	struct loop l;
	int pair[2], probe;

	if (ram < 0) {
		log_open("/dev/null");
		ram = memfd_create("ram", MFD_CLOEXEC);
		if (ram < 0 || ftruncate(ram, RAM_SIZE))
			abort();
	}
	if (!f || !loop_init(&l, f) ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair))
		abort();
	o.fd = pair[0];
	l.stay = true;
	if (!vm_attach(&l, &o, &why))
		abort();
	while (size) {
		const size_t n = MIN((size_t)(data[0] ? data[0] : 1), size);

		send_with_fd(pair[1], data, n, data[0] & 1 ? ram : -1);
		loop_poll(&l);
		data += n;
		size -= n;
	}
	close(pair[1]);
	for (unsigned i = 0; i < 64 && l.nr_vms; i++)
		loop_poll(&l);
	if (l.nr_vms)
		abort();
	close(l.epfd);
	fabric_destroy(f);
	probe = dup(ram);
	if (probe > 64)
		abort();
	close(probe);
	return 0;
}
