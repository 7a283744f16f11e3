/* SPDX-License-Identifier: MIT */
/*
 * Real-time policies: what is accepted, what is told and handed on, and who runs first. Prints the
 * same as on Linux. Must be root.
 */
#include "call.h"

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#define DEADLINE 6
#define RESET    0x40000000

struct attr {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
};

static int set(int policy, int prio)
{
	return sched_setscheduler(0, policy, &(struct sched_param){ prio });
}

static long set_deadline(uint64_t runtime, uint64_t deadline, uint64_t period, uint64_t flags)
{
	struct attr a = { .size = sizeof(a),
			  .policy = DEADLINE,
			  .flags = flags,
			  .runtime = runtime,
			  .deadline = deadline,
			  .period = period };

	return syscall(SYS_sched_setattr, 0, &a, 0);
}

/* The caller, as all calls and /proc tell it. */
static void tell(const char *what)
{
	const char *turn = "none";
	struct attr a = { 0 };
	struct sched_param par;
	struct timespec ts;
	char text[1024], *at;
	long fields[42] = { 0 };
	ssize_t n;
	int fd;

	CHECK(sched_getparam(0, &par) == 0 && sched_rr_get_interval(0, &ts) == 0);
	CHECK(syscall(SYS_sched_getattr, 0, &a, sizeof(a), 0) == 0);
	fd = open("/proc/self/stat", O_RDONLY);
	n = read(fd, text, sizeof(text) - 1);
	CHECK(n > 0);
	close(fd);
	text[n] = '\0';
	at = strrchr(text, ')') + 2;
	for (int i = 3; i < 42; i++, at = strchr(at, ' ') + 1)
		fields[i] = atol(at);
	/* Of one that shares it depends on what else runs. */
	if (a.policy == SCHED_OTHER)
		turn = "as it comes";
	else if (ts.tv_sec || ts.tv_nsec)
		turn = ts.tv_nsec == 100000000 ? "100 ms" : "some";
	printf("%s: policy %d %u priority %d %u flags %d turn %s\n", what, sched_getscheduler(0),
	       a.policy, par.sched_priority, a.priority, (int)a.flags, turn);
	if (a.policy != DEADLINE) /* newer kernels tell the length of a slice there */
		a.runtime = 0;
	printf("  runtime %lu deadline %lu period %lu, in proc %ld %ld %ld\n", (long)a.runtime,
	       (long)a.deadline, (long)a.period, a.policy ? fields[18] : 0, fields[40], fields[41]);
}

static pid_t child(void)
{
	fflush(stdout);
	return fork();
}

static void end_of(pid_t pid)
{
	int status;

	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

static void tell_in_child(const char *what)
{
	const pid_t pid = child();

	if (pid == 0) {
		tell(what);
		fflush(stdout);
		_exit(0);
	}
	if (pid < 0)
		call(what, pid);
	else
		end_of(pid);
}

static void values(void)
{
	call("fifo", set(SCHED_FIFO, 5));
	tell("fifo");
	tell_in_child("its child");
	call("priority 0", set(SCHED_FIFO, 0));
	call("priority 100", set(SCHED_RR, 100));
	call("rr", set(SCHED_RR, 99));
	tell("rr");
	call("another priority", sched_setparam(0, &(struct sched_param){ 3 }));
	tell("then");
	call("priority 0", sched_setparam(0, &(struct sched_param){ 0 }));
	call("reset on fork", set(SCHED_RR | RESET, 7));
	tell("with it");
	tell_in_child("its child");
	call("deadline, here", set(DEADLINE, 0));
	call("deadline", set_deadline(10000000, 30000000, 40000000, 0));
	tell("deadline");
	tell_in_child("its child");
	call("no period", set_deadline(10000000, 30000000, 0, 1));
	tell("no period");
	tell_in_child("its child");
	call("no runtime", set_deadline(0, 30000000, 30000000, 0));
	call("little runtime", set_deadline(1023, 30000000, 30000000, 0));
	call("runtime too long", set_deadline(20000000, 10000000, 30000000, 0));
	call("deadline too late", set_deadline(10000000, 40000000, 30000000, 0));
	call("short period", set_deadline(50000, 90000, 90000, 0));
	call("long period", set_deadline(10000000, 5000000000, 5000000000, 0));
	call("endless", set_deadline(10000000, 1ull << 63, 1ull << 63, 0));
	call("other, with a priority", set(SCHED_OTHER, 1));
	call("other", set(SCHED_OTHER, 0));
	tell("other");
}

/* Each wants nine tenths of a CPU. */
static void reservations(void)
{
	pid_t pids[64];
	int fd[2], nr = 0, pid, err = 0;
	char c;

	CHECK(pipe(fd) == 0);
	while (!err && nr < 64) {
		pid = child();
		CHECK(pid >= 0);
		if (!pid) {
			c = set_deadline(90000000, 100000000, 100000000, 0) < 0 ? (char)errno : 0;
			CHECK(write(fd[1], &c, 1) == 1);
			for (;;)
				pause();
		}
		pids[nr++] = pid;
		CHECK(read(fd[0], &c, 1) == 1);
		err = c;
	}
	printf("too many reservations: %s, %s\n", strerrorname_np(err),
	       nr > 1 ? "not the first" : "first");
	for (int i = 0; i < nr; i++) {
		kill(pids[i], SIGKILL);
		CHECK(waitpid(pids[i], NULL, 0) == pids[i]);
	}
	/* Linux takes a reservation back when the time is over for which it was given. */
	while (set_deadline(90000000, 100000000, 100000000, 0) < 0)
		CHECK(errno == EBUSY);
	call("other", set(SCHED_OTHER, 0));
}

static void as_a_user(void)
{
	const struct rlimit none = { 0, 0 };
	const pid_t pid = child();

	CHECK(pid >= 0);
	if (pid) {
		end_of(pid);
		return;
	}
	CHECK(set(SCHED_RR | RESET, 9) == 0);
	CHECK(setrlimit(RLIMIT_RTPRIO, &none) == 0 && setuid(1234) == 0);
	call("a user, the same", set(SCHED_RR | RESET, 9));
	call("lower", set(SCHED_RR | RESET, 8));
	call("higher", set(SCHED_RR | RESET, 10));
	call("another policy", set(SCHED_FIFO | RESET, 8));
	call("not reset", set(SCHED_RR, 8));
	call("deadline", set_deadline(10000000, 30000000, 30000000, 1));
	call("other", set(SCHED_OTHER | RESET, 0));
	call("back", set(SCHED_RR | RESET, 1));
	fflush(stdout);
	_exit(0);
}

/* --- order: all on one CPU -------------------------------------------------------------------- */

static volatile int *mark;

/*
 * A child of priority @prio waits; it is woken by one of priority 10. The second time counts: all
 * pages are there then.
 */
static void woken(const char *what, int prio)
{
	int fd[2], ready[2];
	char c = 0;
	pid_t pid;

	CHECK(pipe(fd) == 0 && pipe(ready) == 0 && set(SCHED_FIFO, 10) == 0);
	pid = child();
	CHECK(pid >= 0);
	if (!pid) {
		int later = 0;

		CHECK(set(SCHED_FIFO, prio) == 0);
		for (int i = 0; i < 2; i++) {
			CHECK(write(ready[1], "r", 1) == 1 && read(fd[0], &c, 1) == 1);
			later = *mark;
		}
		printf("%s: %s\n", what, later ? "later" : "at once");
		fflush(stdout);
		_exit(0);
	}
	for (int i = 0; i < 2; i++) {
		CHECK(read(ready[0], &c, 1) == 1);
		*mark = 0;
		/* The lowest of all now, until it waits; then it is this one's turn again. */
		CHECK(set(SCHED_FIFO, 1) == 0 && set(SCHED_FIFO, 10) == 0);
		CHECK(write(fd[1], "x", 1) == 1);
		*mark = 1;
	}
	end_of(pid);
	close(fd[0]);
	close(fd[1]);
	close(ready[0]);
	close(ready[1]);
}

/* A loop with the highest priority does not keep others off the CPU for ever. */
static void bound(void)
{
	int fd[2];
	char c;
	pid_t pid;

	*mark = 0;
	CHECK(pipe(fd) == 0 && set(SCHED_OTHER, 0) == 0);
	pid = child();
	CHECK(pid >= 0);
	if (!pid) {
		CHECK(read(fd[0], &c, 1) == 1);
		*mark = 1;
		_exit(0);
	}
	CHECK(set(SCHED_FIFO, 99) == 0 && write(fd[1], "x", 1) == 1);
	while (!*mark)
		;
	CHECK(set(SCHED_OTHER, 0) == 0);
	end_of(pid);
	printf("others run, too\n");
}

static void order(void)
{
	cpu_set_t all, one;
	int cpu = 0;

	CHECK(sched_getaffinity(0, sizeof(all), &all) == 0);
	while (!CPU_ISSET(cpu, &all))
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	CHECK(sched_setaffinity(0, sizeof(one), &one) == 0);
	woken("a greater priority", 20);
	woken("the same priority", 10);
	woken("a smaller priority", 5);
	bound();
	CHECK(sched_setaffinity(0, sizeof(all), &all) == 0);
}

int main(void)
{
	mark = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(mark != MAP_FAILED && set(SCHED_OTHER, 0) == 0);
	values();
	reservations();
	as_a_user();
	order();
	return 0;
}
