/* SPDX-License-Identifier: MIT */
/*
 * Shared writable mappings of files of a disk, in the directory that the argument names: coherent
 * with read and write, rights, ends of files, truncation, holes, msync. Prints the same as on
 * Linux, and leaves files for the test to look at, some of which nobody has synchronised.
 */
#include "user.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define BIG (16 * MB)

static sigjmp_buf back;

static void on_bus(int signo)
{
	siglongjmp(back, signo);
}

static void said(const char *what, long ret)
{
	const int err = errno;

	printf("%s: %s\n", what, ret == -1 ? strerrorname_np(err) : "done");
}

/* Store @c at @p: does that end with SIGBUS? */
static void stored(const char *what, char *p, char c)
{
	if (sigsetjmp(back, 1) == 0) {
		*(volatile char *)p = c;
		printf("%s: stored\n", what);
	} else {
		printf("%s: SIGBUS\n", what);
	}
}

static int make(const char *name, size_t size)
{
	const int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);

	CHECK(fd >= 0 && ftruncate(fd, (off_t)size) == 0);
	return fd;
}

static char *map(int fd, size_t len, int prot)
{
	char *p = mmap(NULL, len, prot, MAP_SHARED, fd, 0);

	CHECK(p != MAP_FAILED);
	return p;
}

static void has(const char *what, int fd, off_t at, const char *want)
{
	char got[64] = "";

	CHECK(pread(fd, got, strlen(want), at) == (ssize_t)strlen(want));
	printf("%s: %s\n", what, strcmp(got, want) ? got : "as it should be");
}

static void coherence(void)
{
	int fd = make("coherent", 3 * PAGE + 100), status;
	char *p = map(fd, 4 * PAGE, PROT_READ | PROT_WRITE), *q;
	struct stat before, after;

	memcpy(p + PAGE, "stored", 6);
	has("a store is read", fd, PAGE, "stored");
	CHECK(pwrite(fd, "WRITTEN", 7, PAGE + 3) == 7);
	printf("a write shows: %.10s\n", p + PAGE);
	q = map(fd, PAGE * 2, PROT_READ);
	printf("and in another mapping: %.10s\n", q + PAGE);
	if (fork() == 0) {
		memcpy(p + 2 * PAGE, "a child's", 9);
		_exit(0);
	}
	CHECK(wait(&status) > 0 && status == 0);
	has("a child's store", fd, 2 * PAGE, "a child's");
	/* From and to the file itself. */
	CHECK(pwrite(fd, p + 2 * PAGE, 9, 20) == 9);
	CHECK(pread(fd, p + 40, 9, 2 * PAGE) == 9);
	printf("itself: %.9s %.9s\n", p + 20, p + 40);
	CHECK(msync(p, 4 * PAGE, MS_SYNC) == 0 && fstat(fd, &before) == 0);
	usleep(20000);
	p[0] = 'x';
	CHECK(msync(p, PAGE, MS_SYNC) == 0 && fstat(fd, &after) == 0);
	printf("mtime: %s\n", before.st_mtim.tv_sec == after.st_mtim.tv_sec &&
					      before.st_mtim.tv_nsec == after.st_mtim.tv_nsec
				      ? "the same"
				      : "newer");
	CHECK(munmap(p, 4 * PAGE) == 0 && munmap(q, 2 * PAGE) == 0 && close(fd) == 0);
	fd = open("coherent", O_RDONLY);
	has("after munmap and close", fd, PAGE, "stoWRITTEN");
	close(fd);
}

static void rights(void)
{
	int rw = make("rights", PAGE), ro = open("rights", O_RDONLY);
	char *p;

	p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, ro, 0);
	said("writable, read-only descriptor", p == MAP_FAILED ? -1 : 0);
	p = map(ro, 2 * PAGE, PROT_READ);
	said("made writable", mprotect(p, PAGE, PROT_READ | PROT_WRITE));
	/* A call that fails half way does not give the right. */
	CHECK(munmap(p + PAGE, PAGE) == 0);
	said("over a hole", mprotect(p, 2 * PAGE, PROT_READ));
	said("made writable", mprotect(p, PAGE, PROT_READ | PROT_WRITE));
	CHECK(munmap(p, PAGE) == 0);
	p = map(rw, PAGE, PROT_READ);
	said("made writable, descriptor for both", mprotect(p, PAGE, PROT_READ | PROT_WRITE));
	p[9] = '!';
	has("and stored into", ro, 9, "!");
	said("made read-only", mprotect(p, PAGE, PROT_READ));
	printf("there still: %c\n", p[9]);
	close(rw);
	close(ro);
}

static void ends(void)
{
	int fd = make("ends", 2 * PAGE + 10);
	char *p = map(fd, 8 * PAGE, PROT_READ | PROT_WRITE);
	struct stat st;

	stored("behind the last page", p + 3 * PAGE, 'x');
	stored("in the last page, behind the end", p + 2 * PAGE + 11, 'x');
	CHECK(fstat(fd, &st) == 0);
	printf("size %ld\n", (long)st.st_size);
	CHECK(msync(p, 3 * PAGE, MS_SYNC) == 0 && ftruncate(fd, 6 * PAGE) == 0);
	printf("longer: %d\n", p[2 * PAGE + 11]);
	stored("in a new page", p + 5 * PAGE + 5, 'n');
	CHECK(ftruncate(fd, PAGE + 7) == 0);
	stored("in a page that has gone", p + 5 * PAGE + 5, 'x');
	CHECK(ftruncate(fd, 6 * PAGE) == 0);
	printf("it comes back empty: %d\n", p[5 * PAGE + 5]);
	memset(p + 3 * PAGE, 'h', 3 * PAGE);
	said("punch",
	     fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 3 * PAGE + 100, PAGE + 100));
	printf("left %c hole %d %d right %c\n", p[3 * PAGE + 99], p[3 * PAGE + 100],
	       p[4 * PAGE + 199], p[4 * PAGE + 200]);
	p = mremap(p, 8 * PAGE, 16 * PAGE, MREMAP_MAYMOVE);
	CHECK(p != MAP_FAILED);
	memcpy(p + PAGE, "moved", 5);
	has("after mremap", fd, PAGE, "moved");
	close(fd);
	stored("without a descriptor", p + 9, 'd');
	/* It is still mapped when the program ends. */
}

static void syncs(void)
{
	int fd = make("syncs", 4 * PAGE);
	char *p = map(fd, 4 * PAGE, PROT_READ | PROT_WRITE);

	memset(p, 's', 4 * PAGE);
	said("sync", msync(p, 4 * PAGE, MS_SYNC));
	said("async", msync(p, 4 * PAGE, MS_ASYNC));
	said("invalidate", msync(p, 4 * PAGE, MS_INVALIDATE));
	said("both", msync(p, 4 * PAGE, MS_SYNC | MS_ASYNC));
	said("other flags", msync(p, 4 * PAGE, 8));
	said("not at a page", msync(p + 1, PAGE, MS_SYNC));
	said("nothing", msync(p, 0, MS_SYNC));
	CHECK(munmap(p + PAGE, PAGE) == 0);
	p[3 * PAGE] = 't';
	said("a hole", msync(p, 4 * PAGE, MS_SYNC));
	said("fsync", fsync(fd));
	said("fdatasync", fdatasync(fd));
	CHECK(close(fd) == 0);
}

/* More than may be dirty: stores wait for write-back, and none is lost. */
static void much(void)
{
	const int fd = make("much", BIG);
	char *p = map(fd, BIG, PROT_READ | PROT_WRITE);
	uint64_t sum = 0, want = 0, v, state = 7;

	for (size_t at = 0; at < BIG; at += PAGE) {
		v = next_random(&state);
		memcpy(p + at + at / PAGE % 500 * 8, &v, 8);
		want += v;
	}
	for (size_t at = 0; at < BIG; at += PAGE) {
		CHECK(pread(fd, &v, 8, (off_t)(at + at / PAGE % 500 * 8)) == 8);
		sum += v;
	}
	printf("much: %s\n", sum == want ? "as it should be" : "lost");
	close(fd);
}

int main(int argc, char **argv)
{
	struct sigaction sa = { .sa_handler = on_bus };

	CHECK(argc == 2 && chdir(argv[1]) == 0);
	CHECK(sigaction(SIGBUS, &sa, NULL) == 0);
	coherence();
	rights();
	ends();
	syncs();
	much();
	return 0;
}
