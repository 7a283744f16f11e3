// SPDX-License-Identifier: MIT
/*
 * Restartable sequences: rseq(), what leaves a sequence, and membarrier() of their kind. Prints the
 * same as on Linux.
 */
#include "call.h"

#include <linux/membarrier.h>
#include <linux/rseq.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/rseq.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>

#define SIG 0x53053053u /* what glibc registers with; rseq_section() has it too */

static struct rseq *area(void)
{
	return (struct rseq *)((char *)__builtin_thread_pointer() + __rseq_offset);
}

static long rseq_call(void *at, unsigned int len, int flags, unsigned int sig)
{
	return syscall(SYS_rseq, at, len, flags, sig);
}

static void only(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	CHECK(sched_setaffinity(0, sizeof(set), &set) == 0);
}

/* The frame of a sequence: @body runs until label 2; what interrupts it goes to label 4. */
#define SECTION(body)                                                  \
	".pushsection __rseq_cs, \"aw\"\n\t.balign 32\n"               \
	"3:\n\t.long 0, 0\n\t.quad 1f, 2f - 1f, 4f\n\t.popsection\n\t" \
	".pushsection __rseq_abort, \"ax\"\n\t.long 0x53053053\n"      \
	"4:\n\tjmp %l[out]\n\t.popsection\n\t"                         \
	"leaq 3b(%%rip), %%rax\n\tmovq %%rax, 8(%[area])\n"            \
	"1:\n\t" body "\n2:\n\t"

static volatile int entered, stop;

/* Turn round in a sequence until something leaves it: true. @stop: false. */
static __attribute__((noinline)) bool spin_in_sequence(void)
{
	__asm__ goto(SECTION("movl $1, %[entered]\n6:\n\tpause\n\tcmpl $0, %[stop]\n\tje 6b")
		     :
		     : [area] "r"(area()), [entered] "m"(entered), [stop] "m"(stop)
		     : "rax", "memory", "cc"
		     : out);
	return false;
out:
	return true;
}

/* Add one to counters[cpu], without an atomic instruction; false: left before that. */
static __attribute__((noinline)) bool count_here(uint64_t *counters)
{
	struct rseq *rs = area();
	const uint32_t cpu = __atomic_load_n(&rs->cpu_id_start, __ATOMIC_RELAXED);

	__asm__ goto(SECTION("cmpl %[cpu], 4(%[area])\n\tjne %l[out]\n\t"
			     "movq (%[at]), %%rcx\n\tincq %%rcx\n\tmovq %%rcx, (%[at])")
		     :
		     : [area] "r"(rs), [cpu] "r"(cpu), [at] "r"(&counters[cpu * 8])
		     : "rax", "rcx", "memory", "cc"
		     : out);
	return true;
out:
	return false;
}

static void registering(void)
{
	static struct rseq own __attribute__((aligned(32)));
	struct rseq *libs = area();

	printf("by the library: %d\n", __rseq_size != 0 && libs->cpu_id < 4096);
	printf("features: %ld, %ld\n", getauxval(AT_RSEQ_FEATURE_SIZE) >= 28 ? 28l : 0l,
	       (long)getauxval(AT_RSEQ_ALIGN));
	call("again", rseq_call(libs, 32, 0, SIG));
	call("another word", rseq_call(libs, 32, 0, 1));
	call("another area", rseq_call(&own, 32, 0, SIG));
	call("out, another word", rseq_call(libs, 32, RSEQ_FLAG_UNREGISTER, 1));
	call("out, another area", rseq_call(&own, 32, RSEQ_FLAG_UNREGISTER, SIG));
	call("out, another length", rseq_call(libs, 64, RSEQ_FLAG_UNREGISTER, SIG));
	call("out", rseq_call(libs, 32, RSEQ_FLAG_UNREGISTER, SIG));
	printf("then: %u, %u\n", libs->cpu_id_start, libs->cpu_id);
	call("out again", rseq_call(libs, 32, RSEQ_FLAG_UNREGISTER, SIG));
	call("short", rseq_call(&own, 28, 0, SIG));
	call("not aligned", rseq_call((char *)&own + 16, 32, 0, SIG));
	call("flags", rseq_call(&own, 32, 4, SIG));
	call("not the program's", rseq_call((void *)-4096l, 32, 0, SIG));
	only(0);
	own.cpu_id = 77;
	call("own", rseq_call(&own, 32, 0, SIG));
	printf("cpu: %u, %u\n", own.cpu_id_start, own.cpu_id);
	only(1);
	printf("moved: %u, %u\n", own.cpu_id_start, own.cpu_id);
	call("own out", rseq_call(&own, 32, RSEQ_FLAG_UNREGISTER, SIG));
	call("back", rseq_call(libs, 32, 0, SIG));
}

static volatile int at_abort;

static void on_alarm(int signo, siginfo_t *info, void *context)
{
	const ucontext_t *uc = context;

	(void)signo, (void)info;
	/* Only an abort address has the word before it. */
	at_abort |= *(const uint32_t *)(uc->uc_mcontext.gregs[REG_RIP] - 4) == SIG;
}

static void by_a_signal(void)
{
	const struct sigaction act = { .sa_sigaction = on_alarm, .sa_flags = SA_SIGINFO };
	const struct itimerval often = { { 0, 5000 }, { 0, 5000 } };
	const struct itimerval off = { 0 };

	CHECK(sigaction(SIGALRM, &act, NULL) == 0 && setitimer(ITIMER_REAL, &often, NULL) == 0);
	/* The end of a time slice may leave it first. */
	while (!at_abort)
		CHECK(spin_in_sequence());
	CHECK(setitimer(ITIMER_REAL, &off, NULL) == 0);
	printf("left by a signal; the area names no sequence: %d\n", area()->rseq_cs == 0);
}

static void by_another_program(void)
{
	const pid_t pid = fork();

	if (!pid)
		for (;;)
			;
	printf("left by another on the CPU: %d\n", spin_in_sequence());
	kill(pid, SIGKILL);
	CHECK(waitpid(pid, NULL, 0) == pid);
}

static void *spinner(void *arg)
{
	(void)arg;
	only(0);
	return (void *)(uintptr_t)spin_in_sequence();
}

static void by_a_barrier(void)
{
	pthread_t th;
	void *left;

	call("not registered",
	     syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ, 0, 0));
	call("register",
	     syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ, 0, 0));
	entered = 0;
	CHECK(pthread_create(&th, NULL, spinner, NULL) == 0);
	while (!entered)
		sched_yield();
	call("barrier elsewhere", syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ,
					  MEMBARRIER_CMD_FLAG_CPU, 4096));
	call("barrier", syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ,
				MEMBARRIER_CMD_FLAG_CPU, 0));
	CHECK(pthread_join(th, &left) == 0);
	printf("left by a barrier: %d\n", left != NULL);
	call("of another kind", syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0));
	call("registered", syscall(SYS_membarrier, 1 << 9, 0, 0));
	call("code",
	     syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0));
	call("code barrier",
	     syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0));
	call("flags", syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE, 1, 0));
}

#define THREADS 4
#define ROUNDS  20000

static uint64_t counters[2 * 8];

static void *counter(void *arg)
{
	(void)arg;
	for (int i = 0; i < ROUNDS; i++) {
		if (i % 1000 == 0)
			only(i / 1000 % 2);
		while (!count_here(counters))
			;
	}
	return NULL;
}

static void counting(void)
{
	pthread_t th[THREADS];

	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_create(&th[i], NULL, counter, NULL) == 0);
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_join(th[i], NULL) == 0);
	printf("counted: %lu\n", counters[0] + counters[8]);
}

static void *plain_thread(void *arg)
{
	(void)arg;
	call("a thread's out", rseq_call(area(), 32, RSEQ_FLAG_UNREGISTER, SIG));
	call("a thread's again", rseq_call(area(), 32, RSEQ_FLAG_UNREGISTER, SIG));
	return NULL;
}

static void inheriting(char **argv)
{
	static struct rseq own __attribute__((aligned(32)));
	pthread_t th;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		call("a child's", rseq_call(area(), 32, 0, SIG));
		call("a child's barriers", syscall(SYS_membarrier, 1 << 9, 0, 0));
		fflush(stdout);
		execl(argv[0], argv[0], "fresh", NULL);
		_exit(1);
	}
	CHECK(waitpid(pid, NULL, 0) == pid);
	CHECK(pthread_create(&th, NULL, plain_thread, NULL) == 0 && pthread_join(th, NULL) == 0);
	fflush(stdout);
	pid = vfork();
	if (!pid) { /* it shares the memory: nothing is registered */
		const long err = rseq_call(&own, 32, 0, SIG);

		_exit(err != 0 || rseq_call(&own, 32, RSEQ_FLAG_UNREGISTER, SIG));
	}
	int status;

	CHECK(waitpid(pid, &status, 0) == pid);
	printf("of vfork: %#x\n", (unsigned int)status);
}

/* How a child ends that goes on with @cs in an area of its own. */
static void bad(const char *what, const struct rseq_cs *cs, uint32_t flags, bool bad_area)
{
	static struct rseq_cs there __attribute__((aligned(32)));
	pid_t pid;
	int status;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		struct rseq *own = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
					MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		CHECK(rseq_call(area(), 32, RSEQ_FLAG_UNREGISTER, SIG) == 0);
		there = *cs;
		own->flags = flags;
		CHECK(rseq_call(own, 32, 0, SIG) == 0);
		only(0);
		own->rseq_cs = (uintptr_t)&there;
		if (bad_area)
			munmap(own, 4096);
		only(1);
		only(0); /* one of them moves it: the area is written */
		_exit(own->rseq_cs != 0);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	printf("%s: %#x\n", what, (unsigned int)status);
}

static void bad_ones(void)
{
	const uint64_t here = (uintptr_t)count_here;
	struct rseq_cs cs = { .start_ip = here, .post_commit_offset = 16, .abort_ip = here + 64 };

	bad("no such word", &cs, 0, false);
	cs.version = 1;
	bad("version", &cs, 0, false);
	cs.version = 0;
	cs.abort_ip = here + 8;
	bad("abort inside", &cs, 0, false);
	cs.abort_ip = 1ull << 48;
	bad("abort beyond the program", &cs, 0, false);
	cs.abort_ip = here + 64;
	cs.post_commit_offset = -here;
	bad("as long as all", &cs, 0, false);
	cs.start_ip = 1ull << 63;
	bad("start beyond the program", &cs, 0, false);
	bad("no area", &cs, 0, true);
}

int main(int argc, char **argv)
{
	if (argc > 1) {
		call("after exec, barriers", syscall(SYS_membarrier, 1 << 9, 0, 0));
		call("after exec, out", rseq_call(area(), 32, RSEQ_FLAG_UNREGISTER, SIG));
		return 0;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	registering();
	by_a_signal();
	by_another_program();
	by_a_barrier();
	counting();
	inheriting(argv);
	bad_ones();
	return 0;
}
