/* SPDX-License-Identifier: MIT */
/*
 * mmap's flags, its devices and its offsets; mremap of length 0; what madvise, mlock and mincore
 * do to pages; remap_file_pages; stacks that grow; what is locked. Prints the same as on Linux.
 */
#include "user.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#define ANON (MAP_PRIVATE | MAP_ANONYMOUS)
#define RW   (PROT_READ | PROT_WRITE)

static void call(const char *what, long ret)
{
	const int err = errno;

	printf("%s: %s\n", what, ret == -1 ? strerrorname_np(err) : "done");
}

static char *map(const char *what, size_t len, int prot, int flags, int fd, off_t off)
{
	char *p = (char *)syscall(SYS_mmap, NULL, len, prot, flags, fd, off);

	call(what, (long)p);
	return p;
}

/* --- /dev/zero ------------------------------------------------------------------------- */

static void zeroes(void)
{
	const int fd = open("/dev/zero", O_RDWR), ro = open("/dev/zero", O_RDONLY);
	const int wo = open("/dev/zero", O_WRONLY), null = open("/dev/null", O_RDWR);
	const int full = open("/dev/full", O_RDWR);
	char *a, *b, *c;
	int status;
	pid_t pid;

	CHECK(fd >= 0 && ro >= 0 && wo >= 0 && null >= 0 && full >= 0);
	a = map("zero, private", 2 * PAGE, RW, MAP_PRIVATE, fd, 0);
	b = map("zero, shared", 2 * PAGE, RW, MAP_SHARED, fd, 0);
	c = map("zero, shared again", 2 * PAGE, RW, MAP_SHARED, fd, 0);
	map("zero, private of a read-only one", PAGE, RW, MAP_PRIVATE, ro, 0);
	map("zero, shared of a read-only one", PAGE, RW, MAP_SHARED, ro, 0);
	map("zero, of a write-only one", PAGE, PROT_READ, MAP_PRIVATE, wo, 0);
	map("zero, far", PAGE, RW, MAP_PRIVATE, fd, (off_t)1 << 62);
	map("zero, wrapping", 2 * PAGE, RW, MAP_SHARED, fd, -(off_t)PAGE);
	map("null", PAGE, RW, MAP_PRIVATE, null, 0);
	map("full", PAGE, RW, MAP_PRIVATE, full, 0);
	CHECK(a[0] == 0 && a[PAGE] == 0 && b[0] == 0 && c[PAGE] == 0);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		a[0] = b[0] = 7;
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	printf("the child wrote: private %d, shared %d, another %d\n", a[0], b[0], c[0]);
	a = map("zero, shared to read", PAGE, PROT_READ, MAP_SHARED, ro, 0);
	call("made writable", mprotect(a, PAGE, RW));
	close(fd);
	close(ro);
	close(wo);
	close(null);
	close(full);
}

/* --- flags ----------------------------------------------------------------------------- */

static void flags(int shm)
{
	static const struct {
		const char *what;
		int flags;
		int anon;
	} all[] = {
		{ "no type", 0, 0 },
		{ "type 4", 4, 0 },
		{ "anonymous, type 4", 4 | MAP_ANONYMOUS, 1 },
		{ "anonymous, private and shared", MAP_PRIVATE | MAP_SHARED | MAP_ANONYMOUS, 1 },
		{ "validated", MAP_SHARED_VALIDATE, 0 },
		{ "validated, sync", MAP_SHARED_VALIDATE | MAP_SYNC, 0 },
		{ "shared, sync", MAP_SHARED | MAP_SYNC, 0 },
		{ "validated, unknown", MAP_SHARED_VALIDATE | 1 << 25, 0 },
		{ "shared, unknown", MAP_SHARED | 1 << 25, 0 },
		{ "validated, ignored ones", MAP_SHARED_VALIDATE | MAP_DENYWRITE | MAP_NORESERVE,
		  0 },
		{ "validated, fixed elsewhere", MAP_SHARED_VALIDATE | MAP_FIXED_NOREPLACE, 0 },
		{ "shared, growing", MAP_SHARED | MAP_GROWSDOWN, 0 },
		{ "private file, growing", MAP_PRIVATE | MAP_GROWSDOWN, 0 },
		{ "shared anonymous, growing", MAP_SHARED | MAP_ANONYMOUS | MAP_GROWSDOWN, 1 },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		map(all[i].what, PAGE, RW, all[i].flags, all[i].anon ? -1 : shm, 0);
	map("no file", PAGE, PROT_WRITE, MAP_SHARED, -1, 0);
	map("anonymous, any offset", 2 * PAGE, RW, MAP_SHARED | MAP_ANONYMOUS, -1, -(off_t)PAGE);
}

/* Addresses of 31 bits. */
static void low(void)
{
	char *const want = (char *)0x50000000;
	char *p = mmap(NULL, 16 * PAGE, RW, ANON | MAP_32BIT, -1, 0), *q;

	printf("low: %d\n", p != MAP_FAILED && (uintptr_t)p + 16 * PAGE <= 1UL << 31);
	memset(p, 1, 16 * PAGE);
	q = mmap(want, PAGE, RW, ANON | MAP_32BIT, -1, 0);
	printf("where it was wanted: %d\n", q == want);
	q = mmap(want, PAGE, RW, ANON | MAP_32BIT, -1, 0);
	printf("that is taken: %d\n", q != want && (uintptr_t)q < 1UL << 31);
	q = mmap((char *)(1UL << 46), PAGE, RW, ANON | MAP_32BIT, -1, 0);
	printf("wanted too high: %d\n", (uintptr_t)q < 1UL << 31);
	call("too large", (long)mmap(NULL, 1UL << 31, RW, ANON | MAP_32BIT | MAP_NORESERVE, -1, 0));
	q = mmap((char *)(1UL << 46), PAGE, RW, ANON | MAP_32BIT | MAP_FIXED, -1, 0);
	printf("fixed: %d\n", q == (char *)(1UL << 46));
}

/* --- offsets ---------------------------------------------------------------------------- */

static void offsets(const char *what, int fd)
{
	static const uint64_t all[] = { 1UL << 40, INT64_MAX - PAGE + 1, 1UL << 63, -PAGE };
	char b[16];
	struct iovec iov = { b, sizeof(b) };

	printf("%s\n", what);
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		printf("%#lx\n", all[i]);
		map("private", PAGE, PROT_READ, MAP_PRIVATE, fd, (off_t)all[i]);
		map("shared", 2 * PAGE, PROT_READ, MAP_SHARED, fd, (off_t)all[i]);
	}
	call("pread at the end of all", pread(fd, b, 1, INT64_MAX));
	call("pread just before", pread(fd, b, 1, INT64_MAX - 1));
	call("pread over it", pread(fd, b, sizeof(b), INT64_MAX - 8));
	call("preadv over it", preadv(fd, &iov, 1, INT64_MAX - 8));
	call("pread of nothing", pread(fd, b, 0, INT64_MAX));
}

/* --- mremap of length 0 ----------------------------------------------------------------- */

static void duplicates(int shm)
{
	char *p = mmap(NULL, 4 * PAGE, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	char *own = mmap(NULL, 4 * PAGE, RW, ANON, -1, 0);
	char *file = mmap(NULL, 2 * PAGE, RW, MAP_SHARED, shm, 0);
	char *q;

	CHECK(p != MAP_FAILED && own != MAP_FAILED && file != MAP_FAILED);
	p[0] = 1;
	p[PAGE] = 2;
	file[PAGE] = 3;
	q = mremap(p, 0, 2 * PAGE, MREMAP_MAYMOVE);
	CHECK(q != MAP_FAILED && q != p);
	q[1] = 5;
	printf("twice: %d %d, and back %d\n", q[0], q[PAGE], p[1]);
	q = mremap(p + PAGE, 0, PAGE, MREMAP_MAYMOVE);
	CHECK(q != MAP_FAILED);
	printf("its second page: %d\n", q[0]);
	q = mremap(p, 0, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, own);
	CHECK(q == own);
	printf("at a place: %d\n", own[0]);
	q = mremap(file + PAGE, 0, PAGE, MREMAP_MAYMOVE);
	CHECK(q != MAP_FAILED);
	q[1] = 6;
	printf("of a file: %d %d\n", q[0], file[PAGE + 1]);
	CHECK(munmap(p, 4 * PAGE) == 0);
	printf("outlives the first: %d\n", own[0]);
	call("where it is", (long)mremap(file, 0, PAGE, 0));
	call("private", (long)mremap(own + PAGE, 0, PAGE, MREMAP_MAYMOVE));
	call("a hole", (long)mremap(p, 0, PAGE, MREMAP_MAYMOVE));
}

/* --- pages that are there ---------------------------------------------------------------- */

static int resident(const char *p, size_t pages)
{
	unsigned char vec[64];
	int n = 0;

	CHECK(pages <= sizeof(vec) && mincore((void *)p, pages * PAGE, vec) == 0);
	for (size_t i = 0; i < pages; i++)
		n += vec[i] & 1;
	return n;
}

static void presence(int shm, int self)
{
	char *own = mmap(NULL, 16 * PAGE, RW, ANON, -1, 0);
	char *shared = mmap(NULL, 4 * PAGE, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	char *none = mmap(NULL, PAGE, PROT_NONE, ANON, -1, 0);
	char *ro = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, self, 0);
	char *file = mmap(NULL, 8 * PAGE, RW, MAP_PRIVATE, shm, 0);
	int status;
	pid_t pid;

	CHECK(own != MAP_FAILED && shared != MAP_FAILED && none != MAP_FAILED);
	CHECK(ro != MAP_FAILED && file != MAP_FAILED);
	CHECK(madvise(own, 16 * PAGE, MADV_NOHUGEPAGE) == 0);
	printf("fresh: %d\n", resident(own, 16));
	own[PAGE] = 1;
	printf("one touched: %d\n", resident(own, 16));
	call("mlock", mlock(own + 4 * PAGE, 4 * PAGE));
	printf("locked: %d\n", resident(own, 16));
	call("mlock on fault", (long)syscall(SYS_mlock2, own + 12 * PAGE, 4 * PAGE, 1));
	printf("not touched: %d\n", resident(own + 12 * PAGE, 4));
	call("populate, read", madvise(own + 8 * PAGE, 2 * PAGE, MADV_POPULATE_READ));
	call("populate, write", madvise(own + 10 * PAGE, 2 * PAGE, MADV_POPULATE_WRITE));
	printf("populated: %d\n", resident(own + 8 * PAGE, 4));
	printf("%d\n", own[8 * PAGE] | own[10 * PAGE]);
	call("populate, write what is read-only", madvise(ro, PAGE, MADV_POPULATE_WRITE));
	call("populate, read it", madvise(ro, PAGE, MADV_POPULATE_READ));
	call("populate nothing", madvise(none, PAGE, MADV_POPULATE_READ));
	call("populate behind the end", madvise(file + 4 * PAGE, PAGE, MADV_POPULATE_READ));
	call("populate no pages", madvise(own, 0, MADV_POPULATE_WRITE));
	call("mlock nothing", mlock(none, PAGE));
	call("mlock behind the end", mlock(file + 4 * PAGE, PAGE));
	munlock(own, 16 * PAGE);
	call("free", madvise(own, 4 * PAGE, MADV_FREE));
	file[0] = 77;
	call("free of a file", madvise(file, PAGE, MADV_FREE));
	call("free of shared memory", madvise(shared, PAGE, MADV_FREE));
	printf("%d\n", file[0]);
	call("do fork", madvise(own, PAGE, MADV_DOFORK));
	call("keep on fork", madvise(own, PAGE, MADV_KEEPONFORK));
	call("cold", madvise(own, PAGE, MADV_COLD));
	call("page out", madvise(own, PAGE, MADV_PAGEOUT));
	call("unknown", madvise(own, PAGE, 26));
	CHECK(munmap(none, PAGE) == 0);
	call("populate a hole", madvise(none, PAGE, MADV_POPULATE_READ));
	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		CHECK(mlock(shared, 3 * PAGE) == 0);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	printf("locked by a child: %d\n", resident(shared, 4));
}

/* --- remap_file_pages -------------------------------------------------------------------- */

static void show_pages(const char *what, const char *p, int pages)
{
	printf("%s: ", what);
	for (int i = 0; i < pages; i++)
		putchar(p[i * PAGE] ? p[i * PAGE] : '0');
	putchar('\n');
}

static void nonlinear(int shm)
{
	char *p = mmap(NULL, 8 * PAGE, RW, MAP_SHARED, shm, 0), *again;
	char *own = mmap(NULL, 2 * PAGE, RW, ANON, -1, 0);
	char *anon = mmap(NULL, 4 * PAGE, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED && own != MAP_FAILED && anon != MAP_FAILED);
	CHECK(ftruncate(shm, 8 * PAGE) == 0);
	for (int i = 0; i < 8; i++)
		p[i * PAGE] = (char)('a' + i);
	call("the last two first", syscall(SYS_remap_file_pages, p, 2 * PAGE, 0, 6, 0));
	call("the first, to the byte",
	     syscall(SYS_remap_file_pages, p + 7 * PAGE + 5, PAGE + 77, 0, 0, MAP_NONBLOCK));
	show_pages("now", p, 8);
	p[0] = 'G';
	again = mmap(NULL, 8 * PAGE, PROT_READ, MAP_SHARED, shm, 0);
	CHECK(again != MAP_FAILED);
	show_pages("the file", again, 8);
	call("over three mappings", syscall(SYS_remap_file_pages, p, 8 * PAGE, 0, 0, 0));
	show_pages("as it was", p, 8);
	call("to read", syscall(SYS_remap_file_pages, again, PAGE, 0, 3, 0));
	show_pages("now", again, 8);
	call("stays read-only", mprotect(again, PAGE, PROT_READ));
	call("rights", syscall(SYS_remap_file_pages, p, PAGE, PROT_READ, 1, 0));
	call("nothing", syscall(SYS_remap_file_pages, p, PAGE - 1, 0, 1, 0));
	call("pages that wrap", syscall(SYS_remap_file_pages, p, 2 * PAGE, 0, -1UL, 0));
	call("pages too far", syscall(SYS_remap_file_pages, p, 2 * PAGE, 0, 1UL << 60, 0));
	call("a range that wraps", syscall(SYS_remap_file_pages, p, -PAGE, 0, 1, 0));
	CHECK(munmap(p + 4 * PAGE, PAGE) == 0);
	call("over a hole", syscall(SYS_remap_file_pages, p, 8 * PAGE, 0, 1, 0));
	call("a hole", syscall(SYS_remap_file_pages, p + 4 * PAGE, PAGE, 0, 1, 0));
	call("private memory", syscall(SYS_remap_file_pages, own, PAGE, 0, 1, 0));
	anon[2 * PAGE] = 'z';
	call("memory that is shared", syscall(SYS_remap_file_pages, anon, PAGE, 0, 2, 0));
	show_pages("now", anon, 4);
}

/* --- stacks that grow ---------------------------------------------------------------------- */

static char *room; /* of 1,000 pages; the top ones are a stack */
static char *stack;

/* A child touches page @page of the room. */
static void touch(const char *what, int page, void (*prepare)(void))
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		if (prepare)
			prepare();
		room[page * PAGE] = 1;
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	printf("%s: %s\n", what, WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "done");
}

static void limit_to_16(void)
{
	const struct rlimit lim = { 16 * PAGE, RLIM_INFINITY };

	CHECK(setrlimit(RLIMIT_STACK, &lim) == 0);
}

static void map_500(int prot)
{
	CHECK(mmap(room + 500 * PAGE, PAGE, prot, ANON | MAP_FIXED, -1, 0) != MAP_FAILED);
}

static void map_500_open(void)
{
	map_500(PROT_READ);
}

static void map_500_closed(void)
{
	map_500(PROT_NONE);
}

static void fill_gap(void)
{
	CHECK(read(open("/dev/zero", O_RDONLY), room + 970 * PAGE, 8 * PAGE) == 8 * (ssize_t)PAGE);
}

static void growing(void)
{
	unsigned char vec[1];
	char *p;

	room = mmap(NULL, 1000 * PAGE, PROT_NONE, ANON, -1, 0);
	CHECK(room != MAP_FAILED && munmap(room, 1000 * PAGE) == 0);
	stack = mmap(room + 990 * PAGE, 2 * PAGE, RW, ANON | MAP_FIXED | MAP_GROWSDOWN, -1, 0);
	CHECK(stack == room + 990 * PAGE);
	stack[0] = 7;
	stack[-1] = 8;
	call("the next page", mincore(stack - PAGE, PAGE, vec));
	call("and the one below", mincore(stack - 2 * PAGE, PAGE, vec));
	stack[-10 * (ssize_t)PAGE] = 9;
	printf("%d %d %d\n", stack[0], stack[-1], stack[-5 * (ssize_t)PAGE]);
	call("all between", mincore(stack - 10 * PAGE, 12 * PAGE, (unsigned char[12]){ 0 }));
	touch("one more", 979, NULL);
	touch("by a system call", 970, fill_gap);
	touch("within the limit", 976, limit_to_16);
	touch("more than the limit", 975, limit_to_16);
	touch("away from another", 756 + 1, map_500_open);
	touch("near another", 756, map_500_open);
	touch("near one that cannot be used", 501, map_500_closed);
	touch("above it", 992, NULL);
	p = mmap(room + 900 * PAGE, PAGE, RW, ANON, -1, 0);
	CHECK(p != MAP_FAILED);
	printf("a hint in its room: %s\n", p == room + 900 * PAGE ? "taken" : "not taken");
	p = mmap(room + 700 * PAGE, PAGE, RW, ANON, -1, 0);
	printf("below it: %s\n", p == room + 700 * PAGE ? "taken" : "not taken");
	touch("what does not grow", 699, NULL);
	CHECK(mprotect(stack - 10 * PAGE, 5 * PAGE, PROT_READ) == 0);
	touch("read-only now", 979, NULL);
	call("a guard at its end", madvise(stack - 10 * PAGE, PAGE, 102));
	touch("the guard", 980, NULL);
	touch("below the guard", 979, NULL);
	call("no guard", madvise(stack - 10 * PAGE, PAGE, 103));
	CHECK(munmap(room, 1000 * PAGE) == 0);
}

/* --- what is locked ------------------------------------------------------------------------ */

static long locked_kib(void)
{
	char text[4096], *at;
	const int fd = open("/proc/self/status", O_RDONLY);
	ssize_t n = read(fd, text, sizeof(text) - 1);

	CHECK(n > 0);
	close(fd);
	text[n] = '\0';
	at = strstr(text, "VmLck:");
	CHECK(at);
	return atol(at + 6);
}

static void tell_locked(const char *what)
{
	printf("%s: %ld kB locked\n", what, locked_kib());
}

/*
 * Linux may refuse a call for a part that is locked and one that is not, which are two mappings
 * there. Whether it does is not told: what is locked, and there, has to be the same then.
 */
static void part_moves(void)
{
	char *p = mmap(NULL, 16 * PAGE, RW, ANON, -1, 0), *q;
	char *to = mmap(NULL, 32 * PAGE, RW, ANON, -1, 0);

	CHECK(p != MAP_FAILED && to != MAP_FAILED);
	CHECK(madvise(p, 16 * PAGE, MADV_NOHUGEPAGE) == 0 && mlock(p, PAGE) == 0);
	q = mremap(p, 16 * PAGE, 17 * PAGE, MREMAP_MAYMOVE);
	p = q != MAP_FAILED ? q : p;
	printf("the first page is locked, and it grows: %d there\n", resident(p, 16));
	tell_locked("grown");
	q = mremap(p, 16 * PAGE, 16 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to);
	p = q != MAP_FAILED ? q : p;
	tell_locked("moved");
	call("unlocked there", munlock(p, PAGE));
	tell_locked("unlocked");
	CHECK(mlock(p + 4 * PAGE, 4 * PAGE) == 0);
	q = mremap(p, 8 * PAGE, 8 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to + 16 * PAGE);
	p = q != MAP_FAILED ? q : p;
	tell_locked("its first half was not locked");
	(void)!mremap(p, 6 * PAGE, 6 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to + 24 * PAGE);
	tell_locked("a part of that moved");
	CHECK(munlockall() == 0);
	tell_locked("unlocked");
}

static void as_a_user(char *p)
{
	const struct rlimit lim = { 4 * PAGE, 4 * PAGE };
	char *q;

	tell_locked("a child");
	CHECK(setrlimit(RLIMIT_MEMLOCK, &lim) == 0);
	CHECK(geteuid() != 0 || setuid(1234) == 0);
	call("three pages", mlock(p, 3 * PAGE));
	call("two more", mlock(p + 3 * PAGE, 2 * PAGE));
	call("the same and one more", mlock(p, 4 * PAGE));
	call("a mapping beyond the limit", (long)mmap(NULL, PAGE, RW, ANON | MAP_LOCKED, -1, 0));
	call("all", mlockall(MCL_CURRENT));
	call("two less", munlock(p, 2 * PAGE));
	CHECK(munlock(p, 8 * PAGE) == 0);
	part_moves();
	CHECK(mlock(p + 2 * PAGE, 2 * PAGE) == 0);
	q = mmap(NULL, 2 * PAGE, RW, ANON | MAP_LOCKED, -1, 0);
	call("a mapping within it", (long)q);
	call("that grows", (long)mremap(q, 2 * PAGE, 3 * PAGE, MREMAP_MAYMOVE));
	tell_locked("at the end");
	fflush(stdout);
	_exit(0);
}

static void locked(void)
{
	char *p = mmap(NULL, 16 * PAGE, RW, ANON, -1, 0), *q;
	int status;
	long before;
	pid_t pid;

	CHECK(p != MAP_FAILED);
	CHECK(munlockall() == 0);
	tell_locked("nothing");
	CHECK(mlock(p + 2 * PAGE, 6 * PAGE) == 0);
	tell_locked("six pages");
	call("invalidate", msync(p, 16 * PAGE, MS_INVALIDATE));
	call("invalidate others", msync(p + 8 * PAGE, 8 * PAGE, MS_INVALIDATE | MS_SYNC));
	call("sync", msync(p, 16 * PAGE, MS_SYNC));
	call("not needed", madvise(p + 2 * PAGE, PAGE, MADV_DONTNEED));
	call("not needed though locked", madvise(p + 2 * PAGE, PAGE, 24));
	call("free", madvise(p + 2 * PAGE, PAGE, MADV_FREE));
	call("cold", madvise(p + 2 * PAGE, PAGE, MADV_COLD));
	call("page out", madvise(p + 2 * PAGE, PAGE, MADV_PAGEOUT));
	call("a guard", madvise(p + 2 * PAGE, PAGE, 102));
	call("a guard less", madvise(p + 2 * PAGE, PAGE, 103));
	CHECK(mlock(p, 3 * PAGE) == 0);
	tell_locked("eight");
	CHECK(munmap(p + 3 * PAGE, PAGE) == 0);
	tell_locked("one is gone");
	call("lock up to a hole", mlock(p + 2 * PAGE, 4 * PAGE));
	call("unlock over it", munlock(p, 5 * PAGE));
	tell_locked("then");
	CHECK(mmap(p + 4 * PAGE, PAGE, RW, ANON | MAP_FIXED, -1, 0) == p + 4 * PAGE);
	tell_locked("one is replaced");
	q = mmap(NULL, 4 * PAGE, RW, ANON | MAP_LOCKED, -1, 0);
	CHECK(q != MAP_FAILED);
	printf("locked by mmap: %d there\n", resident(q, 4));
	tell_locked("by mmap");
	q = mremap(q, 4 * PAGE, 64 * PAGE, MREMAP_MAYMOVE);
	CHECK(q != MAP_FAILED);
	printf("grown: %d there\n", resident(q, 64));
	tell_locked("grown");
	CHECK(mremap(q, 64 * PAGE, 2 * PAGE, 0) == q);
	tell_locked("shrunk");
	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid)
		as_a_user(mmap(NULL, 8 * PAGE, RW, ANON, -1, 0));
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	CHECK(mlockall(MCL_FUTURE) == 0);
	before = locked_kib();
	q = mmap(NULL, 8 * PAGE, RW, ANON, -1, 0);
	CHECK(q != MAP_FAILED);
	printf("from then on: %ld kB, %d there\n", locked_kib() - before, resident(q, 8));
	CHECK(munlockall() == 0);
	tell_locked("nothing");
	q = mmap(NULL, 8 * PAGE, RW, ANON, -1, 0);
	CHECK(q != MAP_FAILED);
	tell_locked("nothing");
}

int main(int argc, char **argv)
{
	char path[] = "/dev/shm/mapflags.XXXXXX";
	const int shm = mkstemp(path);
	const int self = open(argv[0], O_RDONLY);

	(void)argc;
	setvbuf(stdout, NULL, _IOLBF, 0);
	CHECK(shm >= 0 && self >= 0 && unlink(path) == 0);
	CHECK(ftruncate(shm, 4 * PAGE) == 0);
	zeroes();
	flags(shm);
	low();
	offsets("in memory", shm);
	offsets("of the root", self);
	duplicates(shm);
	presence(shm, self);
	nonlinear(shm);
	growing();
	locked();
	return 0;
}
