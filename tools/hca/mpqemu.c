/* SPDX-License-Identifier: MIT */
/*
 * HCA model: front end for QEMU's multi-process protocol (x-pci-proxy-dev).
 *
 * Flow:	a message is a 16-byte header {int cmd; pad; size_t size} and `size`
 *		bytes, in host byte order; descriptors come along by SCM_RIGHTS.  QEMU
 *		waits for a RET to every access, so the work that a doorbell triggers
 *		within its budget is done when the guest's store ends.
 * Failure:	a message that makes no sense ends this VM's attachment, and no other.
 */
#include "loop.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum mp_cmd {
	MP_SYNC_SYSMEM,
	MP_RET,
	MP_CFG_WRITE,
	MP_CFG_READ,
	MP_BAR_WRITE,
	MP_BAR_READ,
	MP_SET_IRQFD,
	MP_DEVICE_RESET,
};

#define MP_REGIONS 8

struct mp_header {
	int32_t cmd;
	uint32_t pad;
	uint64_t size;
};

struct mp_sysmem {
	uint64_t gpas[MP_REGIONS];
	uint64_t sizes[MP_REGIONS];
	uint64_t offsets[MP_REGIONS];
};

struct mp_cfg {
	uint32_t addr;
	uint32_t val;
	int32_t len;
};

struct mp_bar {
	uint64_t addr;
	uint64_t val;
	uint32_t size;
	uint8_t memory;
	uint8_t pad[3];
};

#define MP_BODY    sizeof(struct mp_sysmem)
#define MP_MAX_FDS 32
#define MSI_WINDOW 0xfee00000ull
#define MSI_SIZE   0x100000ull
#define PER_TURN   16 /* messages of one VM before the others have theirs */

struct vm {
	struct watch w;
	struct loop *loop;
	struct hca *h;
	struct qtest *qtest;
	uint8_t buf[2 * (sizeof(struct mp_header) + MP_BODY)];
	size_t have;
	int fds[MP_MAX_FDS];
	unsigned nr_fds;
};

static void mp_msi(struct hca *h, unsigned vector, uint64_t addr, uint32_t data)
{
	struct vm *vm = h->front_priv;

	(void)vector;
	if (addr - MSI_WINDOW >= MSI_SIZE) {
		hca_log(h, "MSI-X vector %u: address %llx is not an interrupt", vector,
			(unsigned long long)addr);
		return;
	}
	if (vm->qtest)
		qtest_writel(vm->qtest, addr, data);
}

static bool send_ret(struct vm *vm, uint64_t val);

/* A socket that takes no answer has no VM behind it, which its next event says. */
static void mp_answer(struct hca *h, uint32_t val)
{
	(void)send_ret(h->front_priv, val);
}

static const struct front_ops mp_ops = {
	.name = "mpqemu",
	.msi = mp_msi,
	.answer = mp_answer,
	.one_at_once = true,
};

/* ---- guest memory ---- */

static void region_unmap(struct mem_region *r)
{
	if (r->map)
		munmap(r->map, r->map_len);
	r->map = NULL;
}

/* Use what is mapped already: QEMU repeats itself while firmware runs. */
static bool region_reuse(struct guest_mem *old, struct mem_region *r)
{
	for (unsigned i = 0; i < old->nr; i++) {
		struct mem_region *o = &old->r[i];

		if (!o->map || o->dev != r->dev || o->ino != r->ino || o->offset != r->offset ||
		    o->len != r->len)
			continue;
		r->map = o->map;
		r->map_len = o->map_len;
		r->host = o->host;
		o->map = NULL;
		return true;
	}
	return false;
}

static bool region_map(struct guest_mem *old, struct mem_region *r, int fd)
{
	const uint64_t slack = r->offset & 4095;
	struct stat st;

	if (fstat(fd, &st) || r->len == 0 || r->offset > (uint64_t)st.st_size ||
	    r->len > (uint64_t)st.st_size - r->offset || r->gpa + r->len < r->gpa)
		return false;
	r->dev = st.st_dev;
	r->ino = st.st_ino;
	if (region_reuse(old, r))
		return true;
	r->map_len = r->len + slack;
	r->map = mmap(NULL, r->map_len, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		      (off_t)(r->offset - slack));
	if (r->map == MAP_FAILED) {
		r->map = NULL;
		return false;
	}
	r->host = (uint8_t *)r->map + slack;
	return true;
}

static void take_fds(struct vm *vm, int *fds, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		fds[i] = i < vm->nr_fds ? vm->fds[i] : -1;
	n = MIN(n, vm->nr_fds);
	vm->nr_fds -= n;
	memmove(vm->fds, vm->fds + n, vm->nr_fds * sizeof(vm->fds[0]));
}

static void sync_sysmem(struct vm *vm, const struct mp_sysmem *m)
{
	struct guest_mem new = { 0 }, old = vm->h->mem;
	int fds[MP_REGIONS];
	unsigned n = 0;

	while (n < MP_REGIONS && m->sizes[n])
		n++;
	take_fds(vm, fds, n);
	for (unsigned i = 0; i < n; i++) {
		struct mem_region r = { .gpa = m->gpas[i],
					.len = m->sizes[i],
					.offset = m->offsets[i] };

		if (fds[i] < 0 || !region_map(&old, &r, fds[i]))
			hca_log(vm->h, "RAM at %llx (%llu bytes) cannot be mapped: is it shared?",
				(unsigned long long)r.gpa, (unsigned long long)r.len);
		else
			new.r[new.nr++] = r;
		if (fds[i] >= 0)
			close(fds[i]);
	}
	for (unsigned i = 0; i < old.nr; i++)
		region_unmap(&old.r[i]);
	vm->h->mem = new;
}

/* ---- messages ---- */

static bool send_ret(struct vm *vm, uint64_t val)
{
	struct {
		struct mp_header h;
		uint64_t val;
	} msg = { .h = { .cmd = MP_RET, .size = sizeof(val) }, .val = val };
	ssize_t n;

	do {
		n = send(vm->w.fd, &msg, sizeof(msg), MSG_NOSIGNAL | MSG_DONTWAIT);
	} while (n < 0 && errno == EINTR);
	return n == sizeof(msg); /* QEMU has one request out, so there is room */
}

static uint64_t do_bar(struct vm *vm, const struct mp_bar *b, bool write)
{
	unsigned bar;
	uint64_t off;

	if ((b->size != 1 && b->size != 2 && b->size != 4 && b->size != 8) ||
	    !pci_bar_locate(vm->h, b->addr, &bar, &off)) {
		vm->h->stats.bad_accesses++;
		return write ? 0 : ~0ull;
	}
	if (!write)
		return bar_read(vm->h, bar, off, b->size);
	vm->loop->fabric->now_ns = host_time_ns();
	bar_write(vm->h, bar, off, b->val, b->size);
	hca_wait_flush(vm->loop->fabric);
	return 0;
}

/* A read that is answered later: QEMU says nothing else until then. */
static bool is_wait(struct vm *vm, const struct mp_bar *b)
{
	unsigned bar;
	uint64_t off;

	return pci_bar_locate(vm->h, b->addr, &bar, &off) &&
	       hca_wait_begin(vm->h, bar, off, b->size);
}

static void drop_irqfds(struct vm *vm)
{
	int fds[2];

	take_fds(vm, fds, 2);
	for (unsigned i = 0; i < 2; i++) {
		if (fds[i] >= 0)
			close(fds[i]);
	}
}

static size_t body_size(int32_t cmd)
{
	switch (cmd) {
	case MP_SYNC_SYSMEM:
		return sizeof(struct mp_sysmem);
	case MP_CFG_WRITE:
	case MP_CFG_READ:
		return sizeof(struct mp_cfg);
	case MP_BAR_WRITE:
	case MP_BAR_READ:
		return sizeof(struct mp_bar);
	default:
		return 0;
	}
}

/* Handle one whole message.  False: end the attachment. */
static bool dispatch(struct vm *vm, const struct mp_header *hdr, const uint8_t *body)
{
	struct mp_sysmem mem;
	struct mp_cfg cfg;
	struct mp_bar bar;

	if (hdr->size < body_size(hdr->cmd))
		return false;
	switch (hdr->cmd) {
	case MP_SYNC_SYSMEM:
		memcpy(&mem, body, sizeof(mem));
		sync_sysmem(vm, &mem);
		return true;
	case MP_SET_IRQFD:
		drop_irqfds(vm);
		return true;
	case MP_CFG_WRITE:
	case MP_CFG_READ:
		memcpy(&cfg, body, sizeof(cfg));
		if (cfg.len < 0 || cfg.len > 4)
			return false;
		if (hdr->cmd == MP_CFG_READ)
			return send_ret(vm, pci_cfg_read(vm->h, cfg.addr, (unsigned)cfg.len));
		pci_cfg_write(vm->h, cfg.addr, cfg.val, (unsigned)cfg.len);
		return send_ret(vm, 0);
	case MP_BAR_WRITE:
	case MP_BAR_READ:
		memcpy(&bar, body, sizeof(bar));
		if (hdr->cmd == MP_BAR_READ && is_wait(vm, &bar))
			return true;
		return send_ret(vm, do_bar(vm, &bar, hdr->cmd == MP_BAR_WRITE));
	case MP_DEVICE_RESET:
		pci_device_reset(vm->h);
		return send_ret(vm, 0);
	default:
		return false;
	}
}

/* Handle what is in the buffer.  False: it makes no sense. */
static bool consume(struct vm *vm)
{
	size_t off = 0;

	while (vm->have - off >= sizeof(struct mp_header)) {
		struct mp_header hdr;

		memcpy(&hdr, vm->buf + off, sizeof(hdr));
		if (hdr.size > MP_BODY)
			return false;
		if (vm->have - off < sizeof(hdr) + hdr.size)
			break;
		if (!dispatch(vm, &hdr, vm->buf + off + sizeof(hdr)))
			return false;
		off += sizeof(hdr) + hdr.size;
	}
	vm->have -= off;
	memmove(vm->buf, vm->buf + off, vm->have);
	return true;
}

static void keep_fds(struct vm *vm, struct msghdr *msg)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		size_t n;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
			if (vm->nr_fds < MP_MAX_FDS)
				vm->fds[vm->nr_fds++] = fd;
			else
				close(fd);
		}
	}
}

static ssize_t receive(struct vm *vm)
{
	char control[CMSG_SPACE(MP_REGIONS * sizeof(int))];
	struct iovec iov = { vm->buf + vm->have, sizeof(vm->buf) - vm->have };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	const ssize_t n = recvmsg(vm->w.fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	if (n > 0)
		keep_fds(vm, &msg);
	return n;
}

static void vm_leave(struct vm *vm, const char *why)
{
	struct hca *h = vm->h;

	if (why)
		hca_log(h, "detached: %s", why);
	hca_wait_drop(h);
	hca_reset(h);
	h->gone = true;
	for (unsigned i = 0; i < h->mem.nr; i++)
		region_unmap(&h->mem.r[i]);
	h->mem.nr = 0;
	h->front_priv = NULL;
	for (unsigned i = 0; i < vm->nr_fds; i++)
		close(vm->fds[i]);
	if (vm->qtest)
		qtest_close(vm->qtest);
	loop_remove(vm->loop, &vm->w);
	if (--vm->loop->nr_vms == 0 && !vm->loop->stay)
		vm->loop->quit = true;
}

static void vm_ready(struct watch *w, uint32_t events)
{
	struct vm *vm = container_of(w, struct vm, w);

	(void)events;
	for (unsigned i = 0; i < PER_TURN; i++) {
		const ssize_t n = receive(vm);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n <= 0) {
			vm_leave(vm, n < 0 ? "socket error" : NULL);
			return;
		}
		vm->have += (size_t)n;
		if (!consume(vm)) {
			vm_leave(vm, "malformed message from QEMU");
			return;
		}
		if (vm->have == 0)
			return; /* QEMU waits for our answer before it says more */
	}
}

static void vm_release(struct watch *w)
{
	free(container_of(w, struct vm, w));
}

/* Add a VM to the running fabric.  The descriptor is ours from here on. */
bool vm_attach(struct loop *l, const struct vm_options *o, const char **why)
{
	struct vm *vm = calloc(1, sizeof(*vm));
	struct hca *h = vm ? hca_create(l->fabric, o->name, o->lid, o->guid) : NULL;

	if (!h) {
		*why = vm ? "the LID is taken or out of range" : "no memory";
		free(vm);
		return false;
	}
	vm->loop = l;
	vm->h = h;
	vm->w = (struct watch){ .fd = o->fd, .ready = vm_ready, .release = vm_release };
	h->front = &mp_ops;
	h->front_priv = vm;
	if (o->qtest[0])
		vm->qtest = qtest_open(l, h, o->qtest);
	if ((o->qtest[0] && !vm->qtest) || !loop_add(l, &vm->w, EPOLLIN)) {
		*why = vm->qtest || !o->qtest[0] ? "bad descriptor" : "bad qtest descriptor";
		if (vm->qtest)
			qtest_close(vm->qtest);
		hca_destroy(h);
		free(vm);
		return false;
	}
	l->nr_vms++;
	return true;
}

static bool parse_number(const char *s, uint64_t max, uint64_t *out)
{
	char *end;

	errno = 0;
	*out = strtoull(s, &end, 0);
	return *s && !*end && !errno && *out <= max;
}

/* fd=N[,qtest=PATH|fd:N][,lid=L][,guid=G][,name=S]; @text is cut up. */
bool vm_options_parse(char *text, struct vm_options *o, const char **why)
{
	uint64_t n;
	char *save;

	memset(o, 0, sizeof(*o));
	o->fd = -1;
	for (char *key = strtok_r(text, ",", &save); key; key = strtok_r(NULL, ",", &save)) {
		char *val = strchr(key, '=');

		*why = key;
		if (!val)
			return false;
		*val++ = '\0';
		if (!strcmp(key, "fd") && parse_number(val, INT32_MAX, &n))
			o->fd = (int)n;
		else if (!strcmp(key, "lid") && parse_number(val, MAX_LID, &n))
			o->lid = (uint16_t)n;
		else if (!strcmp(key, "guid") && parse_number(val, UINT64_MAX, &n))
			o->guid = n;
		else if (!strcmp(key, "name") && strlen(val) < sizeof(o->name) &&
			 !strpbrk(val, "\"\\"))
			strcpy(o->name, val);
		else if (!strcmp(key, "qtest") && strlen(val) < sizeof(o->qtest))
			strcpy(o->qtest, val);
		else
			return false;
	}
	*why = "fd";
	return o->fd >= 0;
}
