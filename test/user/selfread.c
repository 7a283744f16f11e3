/* SPDX-License-Identifier: MIT */
/*
 * Reads and writes of a file whose user buffer is a mapping of the same file, which is not in the
 * page table yet, while another thread cuts the file and makes it grow again. Each call moves its
 * bytes or says EFAULT, and both threads come to their end.
 *
 *	selfread ROUNDS [PATH]		PATH: a tmpfs; else a memfd
 */
#include "user.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/uio.h>

static int fd;
static unsigned long rounds;
static volatile int done;

static void *cut(void *arg)
{
	static const char page[PAGE] = { 1 };

	while (!done) {
		CHECK(ftruncate(fd, PAGE) == 0 && ftruncate(fd, 4 * PAGE) == 0);
		CHECK(pwrite(fd, page, PAGE, 2 * PAGE) == PAGE);
	}
	return arg;
}

static void may_fault(ssize_t ret)
{
	CHECK(ret >= 0 || errno == EFAULT);
}

static void abuse(char *map)
{
	struct iovec iov[3] = { { map + 3 * PAGE, 100 }, { NULL, 0 }, { map + PAGE + 5, 3000 } };

	for (unsigned long i = 0; i < rounds; i++) {
		may_fault(pread(fd, map + 3 * PAGE, PAGE, 2 * PAGE));
		may_fault(pwrite(fd, map + 3 * PAGE, PAGE, 2 * PAGE));
		/* Across two pages, at odd addresses. */
		may_fault(pread(fd, map + 2 * PAGE + 1003, PAGE, 2 * PAGE + 7));
		may_fault(pwrite(fd, map + 2 * PAGE + 1003, PAGE, 2 * PAGE + 7));
		may_fault(preadv(fd, iov, 3, 2 * PAGE));
		may_fault(pwritev(fd, iov, 3, 2 * PAGE));
	}
}

/* Alone, what comes out is known: from a mapping that nothing has touched, and into one. */
static void alone(void)
{
	static char text[PAGE + 50];
	char *map;

	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = (char)(i % 251);
	CHECK(ftruncate(fd, 0) == 0 && ftruncate(fd, 8 * PAGE) == 0);
	CHECK(pwrite(fd, text, sizeof(text), 11) == sizeof(text));
	map = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(map != MAP_FAILED);
	CHECK(pread(fd, map + 5 * PAGE - 3, sizeof(text), 11) == sizeof(text));
	CHECK(memcmp(map + 5 * PAGE - 3, text, sizeof(text)) == 0);
	CHECK(munmap(map, 8 * PAGE) == 0);
	map = mmap(NULL, 8 * PAGE, PROT_READ, MAP_SHARED, fd, 0);
	CHECK(map != MAP_FAILED);
	CHECK(pwrite(fd, map + 5 * PAGE - 3, sizeof(text), 2 * PAGE + 9) == sizeof(text));
	CHECK(pread(fd, map, 1, 0) == -1 && errno == EFAULT);
	CHECK(memcmp(map + 2 * PAGE + 9, text, sizeof(text)) == 0);
	CHECK(munmap(map, 8 * PAGE) == 0);
}

int main(int argc, char **argv)
{
	pthread_t other;
	char *map;

	rounds = arg_number(argc, argv, 1, 1000);
	fd = argc > 2 ? open(argv[2], O_CREAT | O_RDWR | O_EXCL, 0600) : memfd_create("self", 0);
	CHECK(fd >= 0);
	if (argc > 2)
		CHECK(unlink(argv[2]) == 0);
	alone();
	CHECK(ftruncate(fd, 4 * PAGE) == 0);
	map = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(map != MAP_FAILED && pthread_create(&other, NULL, cut, NULL) == 0);
	abuse(map);
	done = 1;
	CHECK(pthread_join(other, NULL) == 0);
	puts("neither hangs");
	return 0;
}
