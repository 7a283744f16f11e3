/* SPDX-License-Identifier: MIT */
/*
 * Objects that arguments refer to: descriptors of every kind, and memory whose pages are readable
 * and writable, read-only, and missing in turn. Calls close and unmap them; pools_refresh() brings
 * back what is gone.
 */
#include "sysfuzz.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>

#define VREGION (2 * MB)

static long from_path(const char *path, long how)
{
	return RAW(SYS_openat, AT_FDCWD, (long)path, how | O_NONBLOCK, 0600);
}

/* The descriptor kind number @i, or a negative errno where this system has none. */
static long make_fd(unsigned int i)
{
	static int pair[2];
	static const uint64_t set = 0xffff;

	switch (i % 32) {
	case 0:
		return from_path("/data/text.small", O_RDONLY);
	case 1:
		return from_path("a", O_RDWR | O_CREAT);
	case 2:
		return from_path("b", O_RDWR | O_CREAT | O_APPEND);
	case 3:
		return from_path(".", O_RDONLY | O_DIRECTORY);
	case 4:
		return from_path("/", O_RDONLY | O_DIRECTORY);
	case 5:
		return from_path("/proc/self/fd", O_RDONLY | O_DIRECTORY);
	case 6:
	case 8:
		pair[0] = pair[1] = -1;
		(void)RAW(SYS_pipe2, (long)pair, i % 32 == 6 ? O_NONBLOCK : 0);
		return pair[0];
	case 7:
	case 9:
		return pair[1];
	case 10:
		return RAW(SYS_eventfd2, 3, 0);
	case 11:
	case 12:
		return RAW(SYS_epoll_create1, 0);
	case 13:
		return RAW(SYS_timerfd_create, CLOCK_MONOTONIC, 0);
	case 14:
		return RAW(SYS_signalfd4, -1, (long)&set, 8, 0);
	case 15:
		return RAW(SYS_pidfd_open, RAW(SYS_getpid, 0), 0);
	case 16:
		return RAW(SYS_memfd_create, (long)"fuzz", 0);
	case 17:
		return from_path("/dev/null", O_RDWR);
	case 18:
		return from_path("/dev/zero", O_RDWR);
	case 19:
		return from_path("/dev/urandom", O_RDWR);
	case 20:
		return from_path("/proc/self/status", O_RDONLY);
	case 21:
		return from_path("/proc/self/maps", O_RDONLY);
	case 22:
		return from_path("/dev/ptmx", O_RDWR | O_NOCTTY);
	case 23:
		return from_path("/dev/tty", O_RDWR | O_NOCTTY);
	case 24:
		return from_path("/dev/shm/fuzz-a", O_RDWR | O_CREAT);
	case 25:
		return from_path("/dev", O_RDONLY | O_DIRECTORY);
	case 26:
		return from_path("d0", O_RDONLY | O_DIRECTORY);
	case 27:
		return from_path("a", O_PATH);
	case 28:
		return i < 32 ? from_path("/proc/self/task", O_RDONLY | O_DIRECTORY)
			      : from_path("/proc/self/ns/uts", O_RDONLY);
	case 29:
		return RAW(SYS_inotify_init1, O_NONBLOCK);
	case 30:
		return i < 32 ? RAW(SYS_socket, 1, 1, 0)
			      : RAW(SYS_mq_open, (long)"a", O_RDWR | O_CREAT | O_NONBLOCK, 0600, 0);
	default:
		return from_path("fifo", O_RDWR);
	}
}

/* A socket of @family at the loopback address and a port that all children share, or unbound. */
static long make_inet(int family, int type, unsigned int port, bool listens)
{
	const struct sockaddr_in in = { .sin_family = AF_INET,
					.sin_port = htons((unsigned short)port),
					.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	const struct sockaddr_in6 in6 = { .sin6_family = AF_INET6,
					  .sin6_port = htons((unsigned short)port),
					  .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	const long fd = RAW(SYS_socket, family, type, 0);

	/* Another child may have the port: the socket stays without a name then. */
	if (port)
		(void)RAW(SYS_bind, fd, family == AF_INET ? (long)&in : (long)&in6,
			  family == AF_INET ? sizeof(in) : sizeof(in6));
	if (listens)
		(void)RAW(SYS_listen, fd, 3);
	return fd;
}

/* With a path in the directory of the child, or an abstract name that all children share. */
static long make_unix(int type, const char *name, bool listens)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	const long fd = RAW(SYS_socket, AF_UNIX, type, 0);

	strcpy(un.sun_path, name);
	if (*name == '@')
		un.sun_path[0] = '\0';
	else
		(void)RAW(SYS_unlinkat, AT_FDCWD, (long)name, 0);
	(void)RAW(SYS_bind, fd, (long)&un, offsetof(struct sockaddr_un, sun_path) + strlen(name));
	if (listens)
		(void)RAW(SYS_listen, fd, 3);
	return fd;
}

/* The socket that has number @i among the pool's. */
static long make_socket(unsigned int i)
{
	static int pair[2];

	switch (i) {
	case 0:
	case 2:
	case 4:
		pair[0] = pair[1] = -1;
		(void)RAW(SYS_socketpair, AF_UNIX,
			  i == 0   ? SOCK_STREAM
			  : i == 2 ? SOCK_DGRAM | SOCK_NONBLOCK
				   : SOCK_SEQPACKET,
			  0, (long)pair);
		return pair[0];
	case 1:
	case 3:
	case 5:
		return pair[1];
	case 6:
		return make_inet(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, FUZZ_PORT, true);
	case 7:
		return make_inet(AF_INET, SOCK_STREAM, 0, false);
	case 8:
		return make_inet(AF_INET, SOCK_DGRAM, FUZZ_PORT, false);
	case 9:
		return make_inet(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0, false);
	case 10:
		return make_inet(AF_INET6, SOCK_STREAM, FUZZ_PORT + 1, true);
	case 11:
		return make_inet(AF_INET6, SOCK_STREAM | SOCK_NONBLOCK, 0, false);
	case 12:
		return make_inet(AF_INET6, SOCK_DGRAM, FUZZ_PORT + 1, false);
	case 13:
		return RAW(SYS_socket, AF_NETLINK, SOCK_RAW, 0);
	case 14:
		return make_unix(SOCK_STREAM | SOCK_NONBLOCK, "@fuzz", true);
	default:
		return make_unix(SOCK_DGRAM, "sock", false);
	}
}

static void refresh_fds(void)
{
	long got[FD_POOL];
	unsigned int n = 0;

	/* open() takes the lowest free number: those beyond the pool go at the end. */
	for (unsigned int i = 0; i < FD_POOL - 3; i++) {
		long fd;

		if (RAW(SYS_fcntl, 3 + (long)i, F_GETFD) >= 0)
			continue;
		fd = i + 3 < FIRST_SOCKET ? make_fd(i) : make_socket(i + 3 - FIRST_SOCKET);
		if (fd >= FD_POOL)
			got[n++] = fd;
	}
	for (unsigned int i = 0; i < n; i++)
		RAW(SYS_close, got[i]);
}

static char *map(char *at, size_t size, long prot, long how, long fd, long off)
{
	const long got =
		RAW(SYS_mmap, (long)at, (long)size, prot, how | (at ? MAP_FIXED : 0), fd, off);

	return got < 0 && got > -4096 ? NULL : (char *)got;
}

/* One page in 16 is not there, one is read-only; each call is a message to the memory node. */
static void cut(char *area)
{
	for (unsigned long i = 0; i < AREA_PAGES; i += 16) {
		RAW(SYS_mprotect, (long)(area + (i + 3) * PAGE), PAGE, PROT_READ);
		RAW(SYS_munmap, (long)(area + (i + 8) * PAGE), PAGE);
	}
}

static void fill_area(struct pools *pools, unsigned int i)
{
	const size_t size = AREA_PAGES * PAGE;
	const long both = PROT_READ | PROT_WRITE;
	char *at = pools->area[i], *got;
	long fd;

	switch (i) {
	case 0:
		got = map(at, size, both, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		break;
	case 1:
		got = map(at, size, both, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		break;
	case 2:
	case 3:
		fd = i == 2 ? from_path("mapped", O_RDWR | O_CREAT)
			    : RAW(SYS_memfd_create, (long)"map", 0);
		RAW(SYS_ftruncate, fd, (long)(size - 5 * PAGE - 100));
		got = map(at, size, both, MAP_SHARED, fd, 0);
		RAW(SYS_close, fd);
		break;
	default:
		fd = from_path("/proc/self/exe", O_RDONLY);
		got = map(at, size, both, MAP_PRIVATE, fd, 0);
		RAW(SYS_close, fd);
		break;
	}
	if (got)
		pools->area[i] = got;
	if (pools->area[i])
		cut(pools->area[i]);
}

void pools_refresh(struct pools *pools)
{
	refresh_fds();
	fill_area(pools, pools->filled++ % NR_AREAS);
}

/* Put a page where a worker has met a hole; false if that is none of the areas. */
bool pools_repair(struct pools *pools, unsigned long addr)
{
	for (unsigned int i = 0; i < NR_AREAS; i++) {
		const unsigned long at = (unsigned long)pools->area[i];

		if (at && addr >= at && addr < at + AREA_PAGES * PAGE + PAGE)
			return map((char *)(addr & ~(PAGE - 1)), PAGE, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != NULL;
	}
	return false;
}

void pools_make(struct pools *pools, struct worker *w)
{
	char *wide = map(NULL, 4 * VREGION, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)w;
	mkdir("d0", 0700);
	mkdir("d1", 0700);
	(void)!symlink("a", "link");
	(void)!symlink("link2", "link2");
	mkfifo("fifo", 0600);
	/* Half of it on either side of a vRegion's border. */
	pools->area[0] = (char *)((((unsigned long)wide + 2 * VREGION) & ~(VREGION - 1)) -
				  AREA_PAGES / 2 * PAGE);
	for (unsigned int i = 0; i < NR_AREAS; i++)
		fill_area(pools, i);
	for (unsigned int i = 0; i < NR_WORKERS; i++) {
		pools->scratch[i] = map(NULL, SCRATCH_PAGES * PAGE, PROT_READ | PROT_WRITE,
					MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		CHECK(pools->scratch[i]);
	}
	for (unsigned int i = 0; i < NR_AREAS; i++)
		CHECK(pools->area[i]);
	refresh_fds();
}
