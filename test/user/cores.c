/* SPDX-License-Identifier: MIT */
/*
 * Core files. "file": a process of four threads is ended with known registers; its core file is
 * copied to stdout, and stderr says what a reader has to find. "rules": when there is a file, and
 * what of it; prints the same on a Linux whose core_pattern is "core". "pattern": names by
 * /proc/sys/kernel/core_pattern, which it changes. "kill": a dump that is killed.
 */
#include "user.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static char marker[32] = "the bytes of a variable";
static char *shared;
static char *hidden;  /* five pages, of which the second to the fourth are not to be dumped */
static int nr_marked; /* threads whose registers say which they are */
static volatile int sink;

static void limit_core(uint64_t bytes)
{
	const struct rlimit r = { bytes, RLIM_INFINITY };

	CHECK(setrlimit(RLIMIT_CORE, &r) == 0);
}

/* --- registers ---------------------------------------------------------------------------- */

/* In pause(), or in a loop of its own, with numbers that name the thread. */
static void *thread(void *arg)
{
	const uint64_t nr = (uint64_t)(uintptr_t)arg;

	if (nr == 3) {
		__asm__ volatile("movq %0, %%r12\n\tmovq %0, %%xmm5\n\t"
				 "lock incl %1\n\t1: pause\n\tjmp 1b"
				 :
				 : "r"(0x7000 + nr), "m"(nr_marked)
				 : "r12", "xmm5", "memory");
		__builtin_unreachable();
	}
	__asm__ volatile("movq %0, %%r12\n\tmovq %1, %%r13\n\tlock incl %3\n\t"
			 "1: movl %2, %%eax\n\tsyscall\n\tjmp 1b"
			 :
			 : "r"(0x7000 + nr), "r"(~nr), "i"(SYS_pause), "m"(nr_marked)
			 : "rax", "rcx", "r11", "r12", "r13", "memory");
	__builtin_unreachable();
}

extern char fault_here[];

static void fault(void)
{
	__asm__ volatile("movq $0x0101010101010101, %%rbx\n\t"
			 "movq $0x0202020202020202, %%r12\n\t"
			 "movq $0x0303030303030303, %%r13\n\t"
			 "movq $0x0404040404040404, %%r14\n\t"
			 "movq $0x0505050505050505, %%r15\n\t"
			 "movq $0x0606060606060606, %%r8\n\t"
			 "movq %%r8, %%xmm7\n\t"
			 "xorl %%eax, %%eax\n\t"
			 ".globl fault_here\nfault_here:\n\t"
			 "movl $1, 0x1234(%%rax)\n"
			 :
			 :
			 : "rax", "rbx", "r8", "r12", "r13", "r14", "r15", "xmm7", "memory");
}

static void with_threads(void)
{
	pthread_attr_t attr;
	pthread_t t;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 65536);
	for (uintptr_t i = 1; i <= 3; i++)
		CHECK(pthread_create(&t, &attr, thread, (void *)i) == 0);
	while (__atomic_load_n(&nr_marked, __ATOMIC_ACQUIRE) < 3)
		sched_yield();
	fault();
}

static int run(void (*fn)(void))
{
	int status;
	const pid_t pid = fork();

	if (!pid) {
		fn();
		_exit(7);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	return status;
}

static void copy_out(const char *name)
{
	static char buf[65536];
	const int fd = open(name, O_RDONLY);
	ssize_t n;

	CHECK(fd >= 0);
	while ((n = read(fd, buf, sizeof(buf))) > 0)
		CHECK(write(1, buf, (size_t)n) == n);
	CHECK(n == 0);
	close(fd);
}

static void file(void)
{
	int status;

	shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(shared != MAP_FAILED);
	strcpy(shared, "shared memory");
	hidden = mmap(NULL, 5 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(hidden != MAP_FAILED);
	for (int i = 0; i < 5; i++)
		sprintf(hidden + i * PAGE, "page %d", i);
	CHECK(madvise(hidden + PAGE, 3 * PAGE, MADV_DONTDUMP) == 0);
	CHECK(madvise(hidden + 2 * PAGE, PAGE, MADV_DODUMP) == 0);
	limit_core(RLIM_INFINITY);
	status = run(with_threads);
	copy_out("core");
	fprintf(stderr, "%#x %#lx %#lx %#lx %#lx\n", status, (unsigned long)fault_here,
		(unsigned long)marker, (unsigned long)shared, (unsigned long)hidden);
}

/* --- rules -------------------------------------------------------------------------------- */

static void say(const char *what, int status)
{
	struct stat st;

	printf("%s: signal %d core %d file", what, WTERMSIG(status), !!WCOREDUMP(status));
	if (stat("core", &st))
		printf(" none\n");
	else
		printf(" mode %o\n", st.st_mode & 0777);
	(void)!unlink("core");
}

static void undumpable(void)
{
	CHECK(prctl(PR_SET_DUMPABLE, 0) == 0);
	abort();
}

static void by_term(void)
{
	raise(SIGTERM);
}

static void by_quit(void)
{
	raise(SIGQUIT);
}

static void no_limit(void)
{
	limit_core(0);
	abort();
}

static void tiny_limit(void)
{
	limit_core(100);
	abort();
}

static void sparse(void)
{
	char *p = mmap(NULL, 1024 * MB, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	CHECK(p != MAP_FAILED);
	p[100 * MB] = p[500 * MB] = p[1000 * MB] = 1;
	sink = p[700 * MB];
	abort();
}

static void short_file(void)
{
	limit_core(8192);
	abort();
}

static void file_limit(void)
{
	const struct rlimit r = { 12288, 12288 };

	signal(SIGXFSZ, SIG_IGN);
	CHECK(setrlimit(RLIMIT_FSIZE, &r) == 0);
	abort();
}

static void make_old_file(const char *other)
{
	const int fd = open("core", O_CREAT | O_WRONLY, 0600);

	CHECK(fd >= 0 && write(fd, "old", 3) == 3);
	close(fd);
	if (other)
		CHECK(link("core", other) == 0);
}

static void sizes(const char *what, int status)
{
	struct stat st;

	CHECK(stat("core", &st) == 0);
	printf("%s: core %d size %s space %s\n", what, !!WCOREDUMP(status),
	       st.st_size > (long)(1024 * MB) ? "1 GiB" : "small",
	       st.st_blocks * 512 <= 12288           ? "cut"
	       : st.st_blocks * 512 < (long)(4 * MB) ? "little"
						     : "much");
	CHECK(unlink("core") == 0);
}

static void child_info(void)
{
	siginfo_t info;
	const pid_t pid = fork();

	if (!pid)
		abort();
	CHECK(waitid(P_PID, (id_t)pid, &info, WEXITED) == 0);
	printf("waitid: %s %d\n", info.si_code == CLD_DUMPED ? "dumped" : "?", info.si_status);
	CHECK(unlink("core") == 0);
}

static void rules(void)
{
	say("the limit of before", run(no_limit));
	limit_core(RLIM_INFINITY);
	say("abort", run(abort));
	say("term", run(by_term));
	say("quit", run(by_quit));
	say("not dumpable", run(undumpable));
	say("100 bytes", run(tiny_limit));
	sizes("cut short", run(short_file));
	sizes("file limit", run(file_limit));
	sizes("sparse", run(sparse));
	make_old_file(NULL);
	say("replaced", run(abort));
	make_old_file("other");
	say("other name", run(abort));
	CHECK(unlink("other") == 0);
	CHECK(symlink("target", "core") == 0);
	say("link", run(abort));
	child_info();
}

/* --- names -------------------------------------------------------------------------------- */

static void put(const char *path, const char *what)
{
	const int fd = open(path, O_WRONLY);
	const ssize_t n = write(fd, what, strlen(what));

	if (n < 0)
		printf("%s: %s\n", what, strerror(errno));
	close(fd);
}

static void named(const char *pattern)
{
	char name[64];
	int status;
	pid_t pid;

	put("/proc/sys/kernel/core_pattern", pattern);
	pid = fork();
	if (!pid)
		abort();
	CHECK(waitpid(pid, &status, 0) == pid);
	snprintf(name, sizeof(name), "cores-%d.6", pid);
	printf("%s: core %d %s\n", pattern, !!WCOREDUMP(status),
	       access(name, F_OK) ? "no file of that name" : "named");
	(void)!unlink(name);
}

static void pattern(void)
{
	put("/proc/sys/kernel/core_pattern", "|/bin/sh");
	limit_core(RLIM_INFINITY);
	named("%e-%p.%s");
	named("none/%e-%p.%s");
	put("/proc/sys/kernel/core_pattern", "core");
	put("/proc/sys/kernel/core_uses_pid", "1");
	run(abort);
	printf("uses pid: %s\n", access("core", F_OK) ? "yes" : "no");
	put("/proc/sys/kernel/core_uses_pid", "0");
}

/* --- a dump that is killed ------------------------------------------------------------------ */

static void large(void)
{
	char *p = mmap(NULL, 24 * MB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED);
	memset(p, 1, 24 * MB);
	with_threads();
}

static void killed(void)
{
	struct stat st = { 0 };
	int status;
	pid_t pid;

	limit_core(RLIM_INFINITY);
	pid = fork();
	if (!pid)
		large();
	while (stat("core", &st) || st.st_size < (long)MB)
		sched_yield();
	CHECK(kill(pid, SIGKILL) == 0);
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(stat("core", &st) == 0);
	printf("killed: signal %d, %s\n", WTERMSIG(status),
	       st.st_size < (long)(24 * MB) ? "cut short" : "whole");
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	char dir[] = "/tmp/coresXXXXXX";

	setvbuf(stdout, NULL, _IONBF, 0);
	CHECK(mkdtemp(dir) && chdir(dir) == 0);
	if (!strcmp(what, "file"))
		file();
	else if (!strcmp(what, "rules"))
		rules();
	else if (!strcmp(what, "pattern"))
		pattern();
	else if (!strcmp(what, "kill"))
		killed();
	return 0;
}
