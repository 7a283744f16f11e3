/* SPDX-License-Identifier: MIT */
/*
 * Seals of files in memory. Prints the same as on Linux.
 */
#include "call.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#define SEAL_EXEC 0x20 /* as yet in no header of the C library */
#define NOEXEC    0x8u
#define EXEC      0x10u
#define RW        (PROT_READ | PROT_WRITE)
#define PUNCH     (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE)

static int make(unsigned int flags, off_t size)
{
	const int fd = memfd_create("sealed", flags);

	CHECK(fd >= 0 && ftruncate(fd, size) == 0);
	return fd;
}

static int seal(int fd, int seals)
{
	return fcntl(fd, F_ADD_SEALS, seals);
}

static void seals_are(const char *what, int fd)
{
	const int seals = fcntl(fd, F_GET_SEALS);

	if (seals < 0)
		call(what, seals);
	else
		printf("%s: seals %#x\n", what, (unsigned int)seals);
}

/* Another open file of the same file. */
static int again(int fd, int flags)
{
	char name[64];
	int other;

	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	other = open(name, flags);
	CHECK(other >= 0);
	return other;
}

/* Only whether it was refused: addresses differ. */
static void *mapped(const char *what, int fd, int prot, int flags)
{
	void *p = mmap(NULL, 2 * PAGE, prot, flags, fd, 0);

	call(what, p == MAP_FAILED ? -1 : 0);
	return p;
}

static void made(void)
{
	const unsigned int flags[] = { 0,     MFD_ALLOW_SEALING,          NOEXEC,
				       EXEC,  EXEC | MFD_ALLOW_SEALING,   NOEXEC | EXEC,
				       0x20u, NOEXEC | MFD_ALLOW_SEALING, 0x1000u };

	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		const int fd = memfd_create("made", flags[i]);
		struct stat st;

		printf("flags %#x: ", flags[i]);
		if (fd < 0) {
			call("made", fd);
			continue;
		}
		CHECK(fstat(fd, &st) == 0);
		printf("mode %o, ", st.st_mode);
		seals_are("made", fd);
		close(fd);
	}
}

static void arguments(void)
{
	const int plain = make(0, PAGE), fd = make(MFD_ALLOW_SEALING, PAGE),
		  ro = again(fd, O_RDONLY);
	int ends[2];

	CHECK(pipe(ends) == 0);
	call("a seal on one that has F_SEAL_SEAL", seal(plain, F_SEAL_SHRINK));
	call("no seal on it", seal(plain, 0));
	call("no seal", seal(fd, 0));
	call("a seal that there is not", seal(fd, 0x40));
	call("every bit", seal(fd, -1));
	call("by one that may only read", seal(ro, F_SEAL_SHRINK));
	call("a pipe", seal(ends[1], F_SEAL_SHRINK));
	call("its other end", seal(ends[0], F_SEAL_SHRINK));
	seals_are("a pipe", ends[0]);
	call("one", seal(fd, F_SEAL_SHRINK));
	call("the same again", seal(fd, F_SEAL_SHRINK));
	seals_are("told to one that may only read", ro);
	call("the last one", seal(fd, F_SEAL_SEAL));
	call("one more", seal(fd, F_SEAL_GROW));
	seals_are("in the end", fd);
	close(ends[0]);
	close(ends[1]);
	close(plain);
	close(ro);
	close(fd);
}

/* Every change, of a file of two pages. */
static void changes(const char *what, int seals)
{
	const int fd = make(MFD_ALLOW_SEALING, 2 * PAGE);
	static char buf[3 * PAGE];
	struct stat st;
	int other;

	memset(buf, 'x', sizeof(buf));
	CHECK(write(fd, buf, 100) == 100);
	printf("--- %s\n", what);
	call("added", seal(fd, seals));
	seals_are("so", fd);
	call("pwrite inside", pwrite(fd, buf, 10, 50));
	call("pwrite of nothing", pwrite(fd, buf, 0, 50));
	call("pwrite up to the end", pwrite(fd, buf, PAGE, PAGE));
	call("pwrite over the end", pwrite(fd, buf, 20, 2 * PAGE - 10));
	call("pwrite behind the end", pwrite(fd, buf, 1, 3 * PAGE));
	CHECK(fstat(fd, &st) == 0);
	printf("size %lld\n", (long long)st.st_size);
	CHECK(lseek(fd, 0, SEEK_END) >= 0);
	call("write at the end", write(fd, buf, 1));
	call("ftruncate to the same", ftruncate(fd, st.st_size));
	call("ftruncate, smaller", ftruncate(fd, PAGE));
	call("ftruncate, larger", ftruncate(fd, 5 * PAGE));
	call("fallocate inside", fallocate(fd, 0, 0, PAGE));
	call("fallocate behind the end", fallocate(fd, 0, 5 * PAGE, PAGE));
	call("the same, with the size kept",
	     fallocate(fd, FALLOC_FL_KEEP_SIZE, 5 * PAGE, 2 * PAGE));
	call("a hole", fallocate(fd, PUNCH, 0, PAGE));
	CHECK(fstat(fd, &st) == 0);
	printf("size %lld, first byte %d\n", (long long)st.st_size,
	       pread(fd, buf, 1, 0) == 1 ? buf[0] : -1);
	call("chmod", fchmod(fd, 0700));
	call("chmod of rights to execute", fchmod(fd, 0600));
	other = again(fd, O_RDWR);
	call("write by another open file", pwrite(other, "y", 1, 0));
	close(other);
	printf("open with O_TRUNC: ");
	snprintf(buf, sizeof(buf), "/proc/self/fd/%d", fd);
	other = open(buf, O_RDWR | O_TRUNC);
	call("", other < 0 ? -1 : 0);
	if (other >= 0)
		close(other);
	close(fd);
}

static void maps(const char *what, int seals)
{
	const int fd = make(MFD_ALLOW_SEALING, 2 * PAGE), ro = again(fd, O_RDONLY);
	char *p;

	printf("--- maps, %s\n", what);
	call("added", seal(fd, seals));
	mapped("shared, to be written", fd, RW, MAP_SHARED);
	p = mapped("private, to be written", fd, RW, MAP_PRIVATE);
	*p = 'p';
	p = mapped("shared, of one that may only read", ro, PROT_READ, MAP_SHARED);
	call("which becomes writable", mprotect(p, 2 * PAGE, RW));
	printf("first byte %d\n", *p);
	CHECK(munmap(p, 2 * PAGE) == 0);
	close(fd);
	close(ro);
}

/* A mapping that can be written, or could be, is in the way of F_SEAL_WRITE. */
static void busy(void)
{
	const int fd = make(MFD_ALLOW_SEALING, 2 * PAGE), ro = again(fd, O_RDONLY);
	char *p = mapped("shared", fd, RW, MAP_SHARED), *q;

	puts("--- busy");
	*p = 'b';
	call("F_SEAL_WRITE", seal(fd, F_SEAL_WRITE));
	call("with others", seal(fd, F_SEAL_WRITE | F_SEAL_GROW));
	call("because of SEAL_EXEC", seal(fd, SEAL_EXEC));
	seals_are("none", fd);
	call("mprotect", mprotect(p, 2 * PAGE, PROT_READ));
	call("F_SEAL_WRITE", seal(fd, F_SEAL_WRITE));
	CHECK(mprotect(p, 2 * PAGE, RW) == 0);
	*p = 'c';
	CHECK(munmap(p, PAGE) == 0);
	call("half of it", seal(fd, F_SEAL_WRITE));
	q = mremap(p + PAGE, PAGE, 3 * PAGE, MREMAP_MAYMOVE);
	CHECK(q != MAP_FAILED);
	call("moved", seal(fd, F_SEAL_WRITE));
	CHECK(munmap(q, 3 * PAGE) == 0);
	p = mapped("shared, to be read", fd, PROT_READ, MAP_SHARED);
	call("F_SEAL_WRITE", seal(fd, F_SEAL_WRITE));
	CHECK(munmap(p, 2 * PAGE) == 0);
	p = mapped("shared, of one that may only read", ro, PROT_READ, MAP_SHARED);
	q = mapped("private", fd, RW, MAP_PRIVATE);
	call("F_SEAL_WRITE", seal(fd, F_SEAL_WRITE));
	seals_are("in the end", fd);
	q[0] = 'q';
	printf("%c\n", p[0]);
	CHECK(munmap(p, 2 * PAGE) == 0 && munmap(q, 2 * PAGE) == 0);
	close(fd);
	close(ro);
}

/* Only a child has the mapping, and only a grandchild. */
static void children(void)
{
	const int fd = make(MFD_ALLOW_SEALING, 2 * PAGE);
	char *p = mapped("shared", fd, RW, MAP_SHARED), c = 0;
	int ends[2], up[2];
	pid_t child;

	puts("--- children");
	fflush(stdout);
	CHECK(pipe(ends) == 0 && pipe(up) == 0);
	child = fork();
	CHECK(child >= 0);
	if (!child) {
		const pid_t grandchild = fork();

		if (!grandchild) {
			close(ends[1]);
			CHECK(read(ends[0], &c, 1) == 1 && read(ends[0], &c, 1) == 0);
			*p = 'g';
			_exit(0);
		}
		CHECK(munmap(p, 2 * PAGE) == 0 && write(up[1], "m", 1) == 1);
		close(ends[1]);
		close(ends[0]);
		CHECK(waitpid(grandchild, NULL, 0) == grandchild);
		_exit(0);
	}
	CHECK(munmap(p, 2 * PAGE) == 0 && read(up[0], &c, 1) == 1);
	call("a grandchild maps it", seal(fd, F_SEAL_WRITE));
	CHECK(write(ends[1], "g", 1) == 1);
	close(ends[1]);
	CHECK(waitpid(child, NULL, 0) == child);
	call("it has ended", seal(fd, F_SEAL_WRITE));
	CHECK(pread(fd, &c, 1, 0) == 1);
	printf("%c\n", c);
	close(ends[0]);
	close(up[0]);
	close(up[1]);
	close(fd);
}

/* F_SEAL_FUTURE_WRITE lets mappings that there are be. */
static void future(void)
{
	const int fd = make(MFD_ALLOW_SEALING, 2 * PAGE);
	char *p = mapped("shared", fd, RW, MAP_SHARED), *q;

	puts("--- future");
	call("F_SEAL_FUTURE_WRITE", seal(fd, F_SEAL_FUTURE_WRITE));
	*p = 'f';
	call("mprotect", mprotect(p, 2 * PAGE, PROT_READ));
	call("and back", mprotect(p, 2 * PAGE, RW));
	p[1] = 'u';
	mapped("one more, to be written", fd, RW, MAP_SHARED);
	q = mapped("one more, to be read", fd, PROT_READ, MAP_SHARED);
	call("which becomes writable", mprotect(q, 2 * PAGE, RW));
	printf("%c%c\n", q[0], q[1]);
	call("F_SEAL_WRITE", seal(fd, F_SEAL_WRITE));
	mapped("after that, to be written", fd, RW, MAP_SHARED);
	CHECK(munmap(p, 2 * PAGE) == 0);
	call("F_SEAL_WRITE", seal(fd, F_SEAL_WRITE));
	seals_are("in the end", fd);
	close(fd);
}

/* Other ways of writing, and other files. */
static void others(void)
{
	const int fd = make(MFD_ALLOW_SEALING, 2 * PAGE), from = make(0, PAGE);
	char name[] = "/dev/shm/memfds-XXXXXX";
	struct iovec v[2] = { { "ab", 2 }, { "cd", 2 } };
	const int file = mkstemp(name);
	int ends[2];
	off_t off = 0;

	puts("--- others");
	CHECK(file >= 0 && pipe(ends) == 0 && write(ends[1], "pipe", 4) == 4);
	seals_are("a file of /dev/shm", file);
	call("which gets none", seal(file, F_SEAL_SHRINK));
	CHECK(unlink(name) == 0);
	seals_are("a directory", open("/tmp", O_RDONLY | O_DIRECTORY));
	call("F_SEAL_WRITE", seal(fd, F_SEAL_WRITE));
	call("writev", writev(fd, v, 2));
	call("splice", splice(ends[0], NULL, fd, NULL, 4, 0));
	call("sendfile", sendfile(fd, from, &off, 10));
	call("read", read(fd, name, 4));
	close(ends[0]);
	close(ends[1]);
	close(file);
	close(from);
	close(fd);
}

int main(void)
{
	made();
	arguments();
	changes("none", 0);
	changes("shrink", F_SEAL_SHRINK);
	changes("grow", F_SEAL_GROW);
	changes("shrink and grow", F_SEAL_SHRINK | F_SEAL_GROW);
	changes("write", F_SEAL_WRITE);
	changes("future write", F_SEAL_FUTURE_WRITE);
	changes("exec", SEAL_EXEC);
	maps("write", F_SEAL_WRITE);
	maps("future write", F_SEAL_FUTURE_WRITE);
	maps("exec", SEAL_EXEC);
	busy();
	children();
	future();
	others();
	return 0;
}
