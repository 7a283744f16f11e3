/* SPDX-License-Identifier: MIT */
/*
 * cachestat: pages of a memfd, by range, and who may ask. Prints the same on both. argv[1]: a
 * directory on a disk, whose files' dirty pages are counted, too.
 */
#include "call.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define NR   1000
#define STAT 451 /* as yet in no header of the C library */

struct range {
	uint64_t off, len;
};
struct stats {
	uint64_t cache, dirty, writeback, evicted, recently;
};

static long cachestat(int fd, uint64_t off, uint64_t len, struct stats *st)
{
	const struct range r = { off, len };

	memset(st, 0xff, sizeof(*st));
	return syscall(STAT, fd, &r, st, 0);
}

/* Pages of memory, wherever they are. */
static void pages(const char *what, int fd, uint64_t off, uint64_t len)
{
	struct stats st;

	call(what, cachestat(fd, off, len, &st));
	printf("  %lu pages, %lu dirty, %lu being written\n",
	       (unsigned long)(st.cache + st.evicted), (unsigned long)st.dirty,
	       (unsigned long)st.writeback);
}

static void memory(void)
{
	const int fd = memfd_create("pages", 0);
	static char page[PAGE];
	char *p;

	CHECK(fd >= 0);
	pages("empty", fd, 0, 0);
	for (int i = 0; i < NR; i++)
		CHECK(write(fd, page, PAGE) == PAGE);
	pages("all", fd, 0, 0);
	pages("by length", fd, 0, NR * PAGE);
	pages("a part", fd, 10 * PAGE, 20 * PAGE);
	pages("two bytes of two pages", fd, PAGE - 1, 2);
	pages("one byte", fd, PAGE, 1);
	pages("behind the end", fd, NR * PAGE, PAGE);
	pages("from the last", fd, NR * PAGE - 1, 0);
	pages("a length that wraps", fd, 2 * PAGE, -PAGE);
	pages("an offset at the end", fd, -1UL, 2);
	pages("all there can be", fd, 0, -1UL);
	CHECK(ftruncate(fd, 1L << 40) == 0);
	pages("a hole", fd, NR * PAGE, 1UL << 39);
	pages("with a hole", fd, 0, 0);
	p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 1L << 30);
	CHECK(p != MAP_FAILED);
	*p = 1;
	pages("by a mapping", fd, 1UL << 30, 0);
	CHECK(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 100 * PAGE) == 0);
	pages("punched", fd, 0, NR * PAGE);
	CHECK(munmap(p, PAGE) == 0 && ftruncate(fd, 3 * PAGE) == 0 && write(fd, "x", 0) == 0);
	pages("truncated", fd, 0, 0);
	close(fd);
}

static void kinds(void)
{
	struct stats st;
	struct range r = { 0 };
	int fds[2], fd;

	CHECK(pipe(fds) == 0);
	pages("a pipe", fds[0], 0, 0);
	fd = open("/", O_RDONLY);
	pages("a directory", fd, 0, 0);
	close(fd);
	fd = open("/dev/null", O_RDWR);
	pages("a device", fd, 0, 0);
	call("flags", syscall(STAT, fd, &r, &st, 1));
	call("no range", syscall(STAT, fd, 8, &st, 1));
	call("nowhere to", syscall(STAT, fd, &r, 8, 0));
	close(fd);
	fd = open("/", O_PATH);
	call("a path", cachestat(fd, 0, 0, &st));
	close(fd);
	call("no descriptor", syscall(STAT, -1, 8, 8, 1));
	close(fds[0]);
	close(fds[1]);
}

/* Only those who may write to a file may know. */
static void rights(const char *dir)
{
	char name[128];
	struct stats st;
	int fd, open_before;

	snprintf(name, sizeof(name), "%s/cachestats-%d", dir, getpid());
	open_before = open(name, O_CREAT | O_RDWR, 0644);
	fd = open(name, O_RDONLY);
	CHECK(open_before >= 0 && fd >= 0);
	call("the owner's", cachestat(fd, 0, 0, &st));
	CHECK(chmod(name, 0444) == 0);
	call("read only", cachestat(fd, 0, 0, &st));
	if (getuid() == 0) {
		CHECK(seteuid(1234) == 0);
		call("another one's", cachestat(fd, 0, 0, &st));
		call("open for writing", cachestat(open_before, 0, 0, &st));
		CHECK(seteuid(0) == 0 && chmod(name, 0666) == 0 && seteuid(1234) == 0);
		call("that all may write to", cachestat(fd, 0, 0, &st));
		CHECK(seteuid(0) == 0);
	}
	close(fd);
	close(open_before);
	CHECK(unlink(name) == 0);
}

/* Of a file on a disk: which pages are cached is nobody's business, which are dirty is. */
static void dirty(const char *what, int fd, uint64_t off, uint64_t len)
{
	struct stats st;

	CHECK(cachestat(fd, off, len, &st) == 0 && st.cache >= st.dirty);
	printf("%s: %lu dirty, %lu being written\n", what, (unsigned long)st.dirty,
	       (unsigned long)st.writeback);
}

static void mapped(const char *dir)
{
	char name[128], *p;
	int fd;

	snprintf(name, sizeof(name), "%s/cachestats-%d", dir, getpid());
	fd = open(name, O_CREAT | O_RDWR, 0644);
	CHECK(fd >= 0 && ftruncate(fd, 4 * PAGE) == 0);
	p = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(p != MAP_FAILED);
	dirty("never touched", fd, 0, 0);
	p[0] = p[3 * PAGE] = 1;
	dirty("stored to", fd, 0, 0);
	dirty("the second and third", fd, PAGE, 2 * PAGE);
	CHECK(fsync(fd) == 0);
	dirty("synchronised", fd, 0, 0);
	p[0] = 2;
	dirty("stored to again", fd, 0, 0);
	CHECK(munmap(p, 4 * PAGE) == 0 && fsync(fd) == 0);
	close(fd);
	CHECK(unlink(name) == 0);
}

int main(int argc, char **argv)
{
	memory();
	kinds();
	rights(argc > 1 ? argv[1] : "/tmp");
	if (argc > 1)
		mapped(argv[1]);
	return 0;
}
