/* SPDX-License-Identifier: MIT */
/*
 * RLIMIT_AS, RLIMIT_DATA and RLIMIT_STACK: what may be mapped. Prints the same as on Linux.
 */
#include "call.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define ANON (MAP_PRIVATE | MAP_ANONYMOUS)
#define RW   (PROT_READ | PROT_WRITE)

static void limit(int kind, rlim_t soft)
{
	struct rlimit r;

	CHECK(getrlimit(kind, &r) == 0);
	r.rlim_cur = soft;
	CHECK(setrlimit(kind, &r) == 0);
}

/* Only whether it was refused: addresses differ. */
static char *mapped(const char *what, void *p)
{
	call(what, p == MAP_FAILED ? -1 : 0);
	return p;
}

static char *anon(const char *what, size_t len, int prot)
{
	return mapped(what, mmap(NULL, len, prot, ANON, -1, 0));
}

static void address_space(void)
{
	char *p, *q, *r;
	void *brk;
	int id;

	puts("--- RLIMIT_AS");
	p = anon("before", 20 * MB, RW);
	limit(RLIMIT_AS, 1000 * MB);
	q = anon("900 MB", 900 * MB, PROT_NONE);
	CHECK(munmap(q, 900 * MB) == 0);
	q = anon("2000 MB", 2000 * MB, PROT_NONE);
	q = anon("900 MB again", 900 * MB, PROT_NONE);
	r = anon("too much", 200 * MB, PROT_NONE);
	mapped("over a part of it", mmap(q, 200 * MB, RW, ANON | MAP_FIXED, -1, 0));
	mapped("over its end", mmap(q + 800 * MB, 200 * MB, RW, ANON | MAP_FIXED_NOREPLACE, -1, 0));
	mapped("shared", mmap(NULL, 200 * MB, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
	mapped("mremap, larger", mremap(p, 20 * MB, 220 * MB, MREMAP_MAYMOVE));
	mapped("mremap, as large", p = mremap(p, 20 * MB, 20 * MB, MREMAP_MAYMOVE));
	id = shmget(IPC_PRIVATE, 200 * MB, 0600);
	CHECK(id >= 0);
	call("shmat", shmat(id, NULL, 0) == (void *)-1 ? -1 : 0);
	CHECK(shmctl(id, IPC_RMID, NULL) == 0);
	brk = sbrk(0);
	call("brk", brk == sbrk(200 * MB) ? 0 : -1);
	CHECK(sbrk(0) == brk);
	call("mprotect needs nothing", mprotect(q + 300 * MB, 100 * MB, RW));
	CHECK(munmap(q, 300 * MB) == 0);
	r = anon("now", 200 * MB, PROT_NONE);
	CHECK(munmap(r, 200 * MB) == 0);
	limit(RLIMIT_AS, PAGE);
	anon("a page", PAGE, RW);
	call("munmap", munmap(q + 300 * MB, 600 * MB));
	limit(RLIMIT_AS, RLIM_INFINITY);
	anon("no limit", 2000 * MB, PROT_NONE);
	CHECK(munmap(p, 20 * MB) == 0);
}

static void data_segment(void)
{
	char *p, *q;
	void *brk;

	puts("--- RLIMIT_DATA");
	limit(RLIMIT_DATA, 100 * MB);
	p = anon("read only", 200 * MB, PROT_READ);
	mapped("shared", mmap(NULL, 200 * MB, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
	anon("to be written", 200 * MB, RW);
	q = anon("80 MB", 80 * MB, RW);
	call("mprotect of 100 MB", mprotect(p, 100 * MB, RW));
	call("mprotect of 1 MB", mprotect(p, MB, RW));
	call("the same again", mprotect(p, MB, RW));
	CHECK(mprotect(q, 40 * MB, PROT_READ) == 0);
	mapped("40 MB of it are not", mmap(NULL, 30 * MB, RW, ANON, -1, 0));
	mapped("in the place of some", mmap(q + 40 * MB, 40 * MB, RW, ANON | MAP_FIXED, -1, 0));
	mapped("mremap", mremap(q + 40 * MB, 40 * MB, 140 * MB, MREMAP_MAYMOVE));
	mapped("mremap of what is not written",
	       mremap(p + 100 * MB, 50 * MB, 150 * MB, MREMAP_MAYMOVE));
	brk = sbrk(0);
	call("brk", sbrk(110 * MB) == (void *)-1 ? -1 : 0);
	CHECK(sbrk(0) == brk);
	limit(RLIMIT_DATA, PAGE);
	call("brk, with a limit of a page", sbrk(PAGE) == (void *)-1 ? -1 : 0);
	limit(RLIMIT_DATA, 0);
	anon("with a limit of 0", MB, RW);
	limit(RLIMIT_DATA, RLIM_INFINITY);
	anon("no limit", 200 * MB, RW);
}

/* Limits of a child are those of its parent; its memory counts as its own. */
static void child(void)
{
	pid_t pid;
	char *q;

	puts("--- fork");
	limit(RLIMIT_AS, 16000 * MB);
	q = anon("12000 MB", 12000 * MB, PROT_NONE);
	CHECK(q != MAP_FAILED);
	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		anon("too much for the child", 4000 * MB, PROT_NONE);
		CHECK(munmap(q, 12000 * MB) == 0);
		anon("not any more", 4000 * MB, PROT_NONE);
		fflush(stdout);
		_exit(0);
	}
	CHECK(waitpid(pid, NULL, 0) == pid);
	anon("too much for the parent", 4000 * MB, PROT_NONE);
	CHECK(munmap(q, 12000 * MB) == 0);
	limit(RLIMIT_AS, RLIM_INFINITY);
}

static sigjmp_buf back;
static char alternate[64 * 1024];

static void overflow(int signo)
{
	siglongjmp(back, signo);
}

/* Use the stack down to @kb below here; 0, or the signal that it was. */
static int __attribute__((noinline)) use_stack(size_t kb)
{
	const int signo = sigsetjmp(back, 1);

	if (signo)
		return signo;
	for (size_t i = 1; i <= kb / 4; i++) {
		volatile char *at = (char *)__builtin_frame_address(0) - i * PAGE;

		*at = 1;
	}
	return 0;
}

static void stack(void)
{
	const stack_t ss = { .ss_sp = alternate, .ss_size = sizeof(alternate) };
	const struct sigaction sa = { .sa_handler = overflow, .sa_flags = SA_ONSTACK };

	puts("--- RLIMIT_STACK");
	CHECK(sigaltstack(&ss, NULL) == 0 && sigaction(SIGSEGV, &sa, NULL) == 0);
	limit(RLIMIT_STACK, MB);
	printf("512 KB of 1 MB: %d\n", use_stack(512));
	printf("2 MB of 1 MB: %d\n", use_stack(2048));
	limit(RLIMIT_STACK, 4 * MB);
	printf("2 MB of 4 MB: %d\n", use_stack(2048));
	limit(RLIMIT_STACK, MB);
	printf("what has grown stays: %d\n", use_stack(2048));
	printf("3 MB of 1 MB: %d\n", use_stack(3072));
	limit(RLIMIT_STACK, 8 * MB);
	limit(RLIMIT_AS, PAGE);
	printf("no address space: %d\n", use_stack(4096));
	limit(RLIMIT_AS, RLIM_INFINITY);
	printf("and with: %d\n", use_stack(4096));
}

int main(void)
{
	setvbuf(stdout, NULL, _IOFBF, 1 << 16);
	address_space();
	data_segment();
	child();
	stack();
	fflush(stdout);
	return 0;
}
