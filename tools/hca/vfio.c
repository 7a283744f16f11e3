/* SPDX-License-Identifier: MIT */
/*
 * HCA model: front end for the vfio-user protocol (QEMU 10.1 and later).
 *
 * Flow:	a Unix socket for each HCA; one client at a time.  A message is
 *		received in two exact reads, header and body, so that descriptors
 *		that came along are this message's.  The client keeps the MSI-X
 *		table and gives an eventfd for each vector that it wants.
 * Failure:	a request that cannot be served is answered with an errno.  Bytes
 *		that are no message, or answers that are not read, end this
 *		connection, and no other; the HCA is then as after a reset and
 *		the next client may come.
 * Limits:	MEM_REGIONS mappings; MAX_BODY bytes of body.  A region that the
 *		client gives no descriptor for, or not for both directions, is known
 *		but cannot be reached: nothing is asked of the client.
 */
#include "vfio.h"
#include "loop.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define MAX_XFER 4096u
#define MAX_BODY (sizeof(struct vu_access) + MAX_XFER)
#define MAX_FDS  NR_MSIX
#define SAID_FDS 16u /* in a message, as we tell the client: QEMU 11.1 calls more malformed */
#define PER_TURN 16  /* messages of one client before the others have theirs */

struct conn {
	struct watch w;
	struct vfio_dev *dev;
	bool negotiated;
	size_t have; /* of the message, header included */
	struct vu_header hdr;
	uint8_t body[MAX_BODY];
	int fds[MAX_FDS];
	unsigned nr_fds;
};

struct vfio_dev {
	struct watch w;        /* the listening socket */
	struct vfio_dev *next; /* of those that listen */
	char path[108];
	struct loop *loop;
	struct hca *h;
	struct conn *conn; /* NULL: nobody is there */
	bool left;         /* a client was there and is not counted any more */
	int irq[NR_MSIX];  /* eventfds, -1 = none */
	struct vu_dma_unmap absent[MEM_REGIONS]; /* mappings out of reach */
	unsigned nr_absent;
};

static struct vfio_dev *listening;

/* ---- interrupts ---- */

static void signal_vector(struct vfio_dev *d, unsigned vector)
{
	struct pollfd p = { .fd = d->irq[vector], .events = POLLOUT };
	const uint64_t one = 1;

	/* A counter that is full would have us wait; it tells all that there is to tell. */
	if (p.fd >= 0 && poll(&p, 1, 0) == 1 && p.revents & POLLOUT &&
	    write(p.fd, &one, sizeof(one)) < 0)
		hca_log(d->h, "MSI-X vector %u: %m", vector);
}

static void vfio_msi(struct hca *h, unsigned vector, uint64_t addr, uint32_t data)
{
	struct vfio_dev *d = h->front_priv;

	(void)addr;
	(void)data;
	if (d->irq[vector] >= 0)
		signal_vector(d, vector);
	else
		h->msix_pending |= BIT(vector);
}

static const struct front_ops vfio_ops = {
	.name = "vfio-user",
	.msi = vfio_msi,
	.keeps_msix = true,
};

static void irq_set(struct vfio_dev *d, unsigned vector, int fd)
{
	if (d->irq[vector] >= 0)
		close(d->irq[vector]);
	d->irq[vector] = fd;
	if (fd >= 0 && d->h->msix_pending & BIT(vector)) {
		d->h->msix_pending &= ~BIT(vector);
		signal_vector(d, vector);
	}
}

/* Anything else might have us wait. */
static bool is_eventfd(int fd)
{
	char name[40], target[40];
	ssize_t n;

	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	n = readlink(name, target, sizeof(target) - 1);
	if (n < 0)
		return false;
	target[n] = '\0';
	return !strcmp(target, "anon_inode:[eventfd]") && !fcntl(fd, F_SETFL, O_NONBLOCK);
}

static int take_eventfds(struct conn *c, const struct vu_irq_set *s)
{
	if (c->nr_fds && c->nr_fds != s->count)
		return EINVAL;
	for (unsigned i = 0; i < c->nr_fds; i++) {
		if (!is_eventfd(c->fds[i]))
			return EINVAL;
	}
	for (unsigned i = 0; i < s->count; i++) {
		irq_set(c->dev, s->start + i, c->nr_fds ? c->fds[i] : -1);
	}
	c->nr_fds = 0;
	return 0;
}

static int set_irqs(struct conn *c, size_t len)
{
	struct vfio_dev *d = c->dev;
	struct vu_irq_set s;
	const uint8_t *bools = c->body + sizeof(s);

	if (len < sizeof(s))
		return EINVAL;
	memcpy(&s, c->body, sizeof(s));
	if (s.index >= VU_NR_IRQS || s.flags & ~VU_DATA_ACTIONS)
		return EINVAL;
	if (s.index != VU_IRQ_MSIX)
		return s.count ? EINVAL : 0; /* there are none to set */
	if (s.start > NR_MSIX || s.count > NR_MSIX - s.start)
		return EINVAL;
	switch (s.flags) {
	case VU_DATA_EVENTFD | VU_ACTION_TRIGGER:
		return take_eventfds(c, &s);
	case VU_DATA_NONE | VU_ACTION_TRIGGER:
		for (unsigned i = 0; s.count == 0 && s.start == 0 && i < NR_MSIX; i++)
			irq_set(d, i, -1);
		for (unsigned i = 0; i < s.count; i++)
			signal_vector(d, s.start + i);
		return 0;
	case VU_DATA_BOOL | VU_ACTION_TRIGGER:
		if (len - sizeof(s) < s.count)
			return EINVAL;
		for (unsigned i = 0; i < s.count; i++) {
			if (bools[i])
				signal_vector(d, s.start + i);
		}
		return 0;
	default:
		return EINVAL;
	}
}

/* ---- memory ---- */

static bool overlaps(uint64_t a, uint64_t a_len, uint64_t b, uint64_t b_len)
{
	return a < b + b_len && b < a + a_len;
}

static bool is_mapped(const struct vfio_dev *d, const struct vu_dma_map *m)
{
	const struct guest_mem *mem = &d->h->mem;

	for (unsigned i = 0; i < mem->nr; i++) {
		if (overlaps(mem->r[i].gpa, mem->r[i].len, m->address, m->size))
			return true;
	}
	for (unsigned i = 0; i < d->nr_absent; i++) {
		if (overlaps(d->absent[i].address, d->absent[i].size, m->address, m->size))
			return true;
	}
	return false;
}

static int map_region(struct guest_mem *mem, const struct vu_dma_map *m, int fd)
{
	struct stat st;
	void *p;

	if (mem->nr == MEM_REGIONS)
		return ENOSPC;
	if (fstat(fd, &st) || m->offset & 4095 || m->offset > (uint64_t)st.st_size ||
	    m->size > (uint64_t)st.st_size - m->offset)
		return EINVAL;
	p = mmap(NULL, m->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)m->offset);
	if (p == MAP_FAILED)
		return errno;
	mem->r[mem->nr++] = (struct mem_region){
		.gpa = m->address, .len = m->size, .host = p, .map = p, .map_len = m->size
	};
	return 0;
}

static int dma_map(struct conn *c, size_t len)
{
	struct vfio_dev *d = c->dev;
	struct vu_dma_map m;

	if (len < sizeof(m))
		return EINVAL;
	memcpy(&m, c->body, sizeof(m));
	if (m.argsz < sizeof(m) || m.size == 0 || (m.address | m.size) & 4095 ||
	    m.address + m.size < m.address || c->nr_fds > 1)
		return EINVAL;
	if (is_mapped(d, &m))
		return EEXIST;
	if (c->nr_fds && (m.flags & 3) == (VU_DMA_READ | VU_DMA_WRITE))
		return map_region(&d->h->mem, &m, c->fds[0]);
	if (d->nr_absent == MEM_REGIONS)
		return ENOSPC;
	d->absent[d->nr_absent++] = (struct vu_dma_unmap){ .address = m.address, .size = m.size };
	return 0;
}

static void unmap_all(struct vfio_dev *d)
{
	struct guest_mem *mem = &d->h->mem;

	while (mem->nr) {
		mem->nr--;
		munmap(mem->r[mem->nr].map, mem->r[mem->nr].map_len);
	}
	mem->last = 0;
	d->nr_absent = 0;
}

static int dma_unmap(struct vfio_dev *d, const struct vu_dma_unmap *u)
{
	struct guest_mem *mem = &d->h->mem;

	if (u->argsz < sizeof(*u))
		return EINVAL;
	if (u->flags == VU_UNMAP_ALL && u->address == 0 && u->size == 0) {
		unmap_all(d);
		return 0;
	}
	if (u->flags)
		return EINVAL;
	for (unsigned i = 0; i < mem->nr; i++) {
		if (mem->r[i].gpa != u->address || mem->r[i].len != u->size)
			continue;
		munmap(mem->r[i].map, mem->r[i].map_len);
		mem->r[i] = mem->r[--mem->nr];
		mem->last = 0;
		return 0;
	}
	for (unsigned i = 0; i < d->nr_absent; i++) {
		if (d->absent[i].address != u->address || d->absent[i].size != u->size)
			continue;
		d->absent[i] = d->absent[--d->nr_absent];
		return 0;
	}
	return ENOENT;
}

/* ---- regions ---- */

static uint64_t region_size(uint32_t index)
{
	switch (index) {
	case 0:
		return BAR0_SIZE;
	case 2:
		return BAR2_SIZE;
	case VU_REGION_CONFIG:
		return sizeof(((struct hca *)NULL)->cfg);
	default:
		return 0;
	}
}

/* A BAR takes the sizes that a CPU has; configuration space any. */
static bool access_ok(const struct vu_access *a)
{
	const uint64_t size = a->region < VU_NR_REGIONS ? region_size(a->region) : 0;

	if (a->count == 0 || a->offset > size || a->count > size - a->offset)
		return false;
	return a->region == VU_REGION_CONFIG || a->count == 1 || a->count == 2 || a->count == 4 ||
	       a->count == 8;
}

static void region_read(struct hca *h, const struct vu_access *a, uint8_t *data)
{
	uint64_t v;

	if (a->region != VU_REGION_CONFIG) {
		v = bar_read(h, a->region, a->offset, a->count);
		memcpy(data, &v, a->count);
		return;
	}
	for (uint32_t i = 0; i < a->count; i++)
		data[i] = (uint8_t)pci_cfg_read(h, (uint32_t)a->offset + i, 1);
}

static void region_write(struct vfio_dev *d, const struct vu_access *a, const uint8_t *data)
{
	uint64_t v = 0;
	uint32_t dword;

	if (a->region != VU_REGION_CONFIG) {
		memcpy(&v, data, a->count);
		d->loop->fabric->now_ns = host_time_ns();
		bar_write(d->h, a->region, a->offset, v, a->count);
		return;
	}
	for (uint32_t i = 0; i < a->count; i += 4) {
		const uint32_t n = MIN(a->count - i, 4u);

		dword = 0;
		memcpy(&dword, data + i, n);
		pci_cfg_write(d->h, (uint32_t)a->offset + i, dword, n);
	}
}

/* ---- messages ---- */

/* Answer with @len bytes of the body.  False: the client does not read. */
static bool reply(struct conn *c, int error, size_t len)
{
	struct vu_header h = {
		.id = c->hdr.id,
		.command = c->hdr.command,
		.size = (uint32_t)(sizeof(h) + (error ? 0 : len)),
		.flags = VU_TYPE_REPLY | (error ? VU_ERROR : 0),
		.error = (uint32_t)error,
	};
	struct iovec iov[2] = { { &h, sizeof(h) }, { c->body, error ? 0 : len } };
	const struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2 };
	ssize_t n;

	if (c->hdr.flags & VU_NO_REPLY)
		return true;
	do {
		n = sendmsg(c->w.fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
	} while (n < 0 && errno == EINTR);
	return n == (ssize_t)h.size;
}

/* Only what the client has proposed may be in the answer. */
static size_t capabilities(const char *proposed, char *out, size_t size)
{
	static const struct {
		const char *name;
		unsigned value;
	} caps[] = { { "\"max_msg_fds\"", SAID_FDS },
		     { "\"max_data_xfer_size\"", MAX_XFER },
		     { "\"max_dma_maps\"", MEM_REGIONS },
		     { "\"pgsizes\"", 4096 } };
	size_t n = (size_t)snprintf(out, size, "{\"capabilities\":{");
	bool first = true;

	for (size_t i = 0; i < ARRAY_SIZE(caps); i++) {
		if (!strstr(proposed, caps[i].name))
			continue;
		n += (size_t)snprintf(out + n, size - n, "%s%s:%u", first ? "" : ",", caps[i].name,
				      caps[i].value);
		first = false;
	}
	return n + (size_t)snprintf(out + n, size - n, "}}") + 1;
}

static bool version(struct conn *c, size_t len)
{
	uint16_t v[2];
	char out[256];
	size_t n;

	if (len < sizeof(v))
		return false;
	memcpy(v, c->body, sizeof(v));
	if (v[0] != VU_MAJOR || (len > sizeof(v) && c->body[len - 1] != '\0'))
		return false;
	v[1] = MIN(v[1], (uint16_t)VU_MINOR);
	n = capabilities(len > sizeof(v) ? (const char *)c->body + sizeof(v) : "", out,
			 sizeof(out));
	memcpy(c->body, v, sizeof(v));
	memcpy(c->body + sizeof(v), out, n);
	c->negotiated = true;
	return reply(c, 0, sizeof(v) + n);
}

static bool device_info(struct conn *c, size_t len)
{
	const struct vu_device_info info = { .argsz = sizeof(info),
					     .flags = VU_DEVICE_RESETS | VU_DEVICE_PCI,
					     .nr_regions = VU_NR_REGIONS,
					     .nr_irqs = VU_NR_IRQS };

	if (len < sizeof(info))
		return reply(c, EINVAL, 0);
	memcpy(c->body, &info, sizeof(info));
	return reply(c, 0, sizeof(info));
}

static bool region_info(struct conn *c, size_t len)
{
	struct vu_region_info r;

	if (len < sizeof(r))
		return reply(c, EINVAL, 0);
	memcpy(&r, c->body, sizeof(r));
	if (r.index >= VU_NR_REGIONS || r.argsz < sizeof(r))
		return reply(c, EINVAL, 0);
	r = (struct vu_region_info){ .argsz = sizeof(r),
				     .index = r.index,
				     .size = region_size(r.index) };
	r.flags = r.size ? VU_REGION_READS | VU_REGION_WRITES : 0;
	memcpy(c->body, &r, sizeof(r));
	return reply(c, 0, sizeof(r));
}

static bool irq_info(struct conn *c, size_t len)
{
	struct vu_irq_info r;

	if (len < sizeof(r))
		return reply(c, EINVAL, 0);
	memcpy(&r, c->body, sizeof(r));
	if (r.index >= VU_NR_IRQS || r.argsz < sizeof(r))
		return reply(c, EINVAL, 0);
	r.argsz = sizeof(r);
	r.count = r.index == VU_IRQ_MSIX ? NR_MSIX : 0;
	r.flags = r.count ? VU_IRQ_EVENTFD | VU_IRQ_NORESIZE : 0;
	memcpy(c->body, &r, sizeof(r));
	return reply(c, 0, sizeof(r));
}

static bool region_access(struct conn *c, size_t len, bool write)
{
	struct vu_access a;

	if (len < sizeof(a))
		return reply(c, EINVAL, 0);
	memcpy(&a, c->body, sizeof(a));
	if (!access_ok(&a) || (write && len - sizeof(a) < a.count))
		return reply(c, EINVAL, 0);
	if (write) {
		region_write(c->dev, &a, c->body + sizeof(a));
		return reply(c, 0, sizeof(a));
	}
	region_read(c->dev->h, &a, c->body + sizeof(a));
	return reply(c, 0, sizeof(a) + a.count);
}

/* Handle a whole message.  False: end the connection. */
static bool dispatch(struct conn *c)
{
	const size_t len = c->hdr.size - sizeof(c->hdr);
	struct vu_dma_unmap u;

	if ((c->hdr.flags & VU_TYPE_MASK) != 0 || c->negotiated != (c->hdr.command != VU_VERSION))
		return false;
	switch (c->hdr.command) {
	case VU_VERSION:
		return version(c, len);
	case VU_DMA_MAP:
		return reply(c, dma_map(c, len), 0);
	case VU_DMA_UNMAP:
		if (len < sizeof(u))
			return reply(c, EINVAL, 0);
		memcpy(&u, c->body, sizeof(u));
		return reply(c, dma_unmap(c->dev, &u), sizeof(u));
	case VU_GET_INFO:
		return device_info(c, len);
	case VU_GET_REGION_INFO:
		return region_info(c, len);
	case VU_GET_IRQ_INFO:
		return irq_info(c, len);
	case VU_SET_IRQS:
		return reply(c, set_irqs(c, len), 0);
	case VU_REGION_READ:
	case VU_REGION_WRITE:
		return region_access(c, len, c->hdr.command == VU_REGION_WRITE);
	case VU_DEVICE_RESET:
		pci_device_reset(c->dev->h);
		return reply(c, 0, 0);
	default:
		return reply(c, EOPNOTSUPP, 0);
	}
}

static void drop_fds(struct conn *c)
{
	while (c->nr_fds)
		close(c->fds[--c->nr_fds]);
}

static void keep_fds(struct conn *c, struct msghdr *msg)
{
	for (struct cmsghdr *m = CMSG_FIRSTHDR(msg); m; m = CMSG_NXTHDR(msg, m)) {
		const size_t n = (m->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (m->cmsg_level != SOL_SOCKET || m->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(m) + i * sizeof(int), sizeof(int));
			if (c->nr_fds < MAX_FDS)
				c->fds[c->nr_fds++] = fd;
			else
				close(fd);
		}
	}
}

/* Read on towards @want bytes of the message: 1 = there, 0 = not yet, -1 = the end. */
static int receive(struct conn *c, size_t want)
{
	char control[CMSG_SPACE(MAX_FDS * sizeof(int))];
	const bool head = c->have < sizeof(c->hdr);
	struct iovec iov = { head ? (uint8_t *)&c->hdr + c->have
				  : c->body + (c->have - sizeof(c->hdr)),
			     want - c->have };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	ssize_t n;

	if (c->have == want)
		return 1;
	n = recvmsg(c->w.fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0)
		return -1;
	keep_fds(c, &msg);
	c->have += (size_t)n;
	return c->have == want;
}

static void conn_end(struct conn *c, const char *why)
{
	struct vfio_dev *d = c->dev;

	if (why)
		hca_log(d->h, "client ended: %s", why);
	drop_fds(c);
	for (unsigned i = 0; i < NR_MSIX; i++)
		irq_set(d, i, -1);
	pci_device_reset(d->h);
	unmap_all(d);
	d->conn = NULL;
	d->left = true;
	loop_remove(d->loop, &c->w);
	if (--d->loop->nr_vms == 0 && !d->loop->stay)
		d->loop->quit = true;
}

static void conn_ready(struct watch *w, uint32_t events)
{
	struct conn *c = container_of(w, struct conn, w);
	int got;

	(void)events;
	for (unsigned i = 0; i < PER_TURN; i++) {
		got = c->have < sizeof(c->hdr) ? receive(c, sizeof(c->hdr)) : 1;
		if (got == 1) {
			if (c->hdr.size < sizeof(c->hdr) ||
			    c->hdr.size - sizeof(c->hdr) > MAX_BODY) {
				conn_end(c, "malformed message");
				return;
			}
			got = receive(c, c->hdr.size);
		}
		if (got == 0)
			return;
		if (got < 0) {
			conn_end(c, NULL);
			return;
		}
		c->have = 0;
		if (!dispatch(c)) {
			conn_end(c, "malformed message, or answers are not read");
			return;
		}
		drop_fds(c);
	}
}

static void conn_release(struct watch *w)
{
	free(container_of(w, struct conn, w));
}

/* Serve the client on @fd, which is ours from here on.  False: not possible now. */
bool vfio_serve(struct vfio_dev *d, int fd)
{
	struct conn *c = d->conn ? NULL : calloc(1, sizeof(*c));

	if (c) {
		c->dev = d;
		c->w = (struct watch){ .fd = fd, .ready = conn_ready, .release = conn_release };
	}
	if (!c || !loop_add(d->loop, &c->w, EPOLLIN)) {
		free(c);
		close(fd);
		return false;
	}
	d->conn = c;
	if (d->left)
		d->loop->nr_vms++;
	d->left = false;
	return true;
}

static void listener_ready(struct watch *w, uint32_t events)
{
	struct vfio_dev *d = container_of(w, struct vfio_dev, w);
	const int fd = accept4(w->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	(void)events;
	if (fd >= 0 && !vfio_serve(d, fd))
		hca_log(d->h, "a second client was turned away");
}

static void listener_release(struct watch *w)
{
	(void)w;
}

/* A new HCA behind vfio-user, with nobody there yet.  NULL: @why. */
struct vfio_dev *vfio_create(struct loop *l, const struct vm_options *o, const char **why)
{
	struct vfio_dev *d = calloc(1, sizeof(*d));

	if (d)
		d->h = hca_create(l->fabric, o->name, o->lid, o->guid);
	if (!d || !d->h) {
		*why = d ? "the LID is taken or out of range" : "no memory";
		free(d);
		return NULL;
	}
	d->loop = l;
	d->w.fd = -1;
	d->h->front = &vfio_ops;
	d->h->front_priv = d;
	d->h->was_reset = true; /* a BAR's upper half answers from the start */
	for (unsigned i = 0; i < NR_MSIX; i++)
		d->irq[i] = -1;
	l->nr_vms++;
	return d;
}

/* The connection must be gone. */
void vfio_destroy(struct vfio_dev *d)
{
	hca_destroy(d->h);
	free(d);
}

/* The socket appears under its name when it listens. */
bool vfio_listen(struct vfio_dev *d, const char *path)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return false;
	if (strlen(path) + sizeof(".new") > sizeof(sun.sun_path)) {
		errno = ENAMETOOLONG;
		goto out;
	}
	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s.new", path);
	unlink(sun.sun_path);
	(void)umask(077);
	d->w = (struct watch){ .fd = fd, .ready = listener_ready, .release = listener_release };
	if (bind(fd, (struct sockaddr *)&sun, sizeof(sun)) || listen(fd, 2) ||
	    rename(sun.sun_path, path) || !loop_add(d->loop, &d->w, EPOLLIN))
		goto out;
	strcpy(d->path, path);
	d->next = listening;
	listening = d;
	return true;
out:
	close(fd);
	d->w.fd = -1;
	return false;
}

/* Remove the sockets' names; the process is about to end. */
void vfio_close_all(void)
{
	for (const struct vfio_dev *d = listening; d; d = d->next)
		unlink(d->path);
}
