/* SPDX-License-Identifier: MIT */
/*
 * futex(2) as one thread sees it: checks, counts, timeouts, what WAKE_OP does to a word. Prints
 * the same on both.
 */
#include "alarms.h"
#include "user.h"

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

static uint32_t *word; /* two, in private memory */
static uint32_t *shared;

static long futex(uint32_t *a, int op, uint32_t val, const void *timeout, uint32_t *b,
		  uint32_t val3)
{
	return syscall(SYS_futex, a, op, val, timeout, b, val3);
}

static void result(const char *what, long ret)
{
	printf("%s: %ld%s%s\n", what, ret, ret < 0 ? " " : "",
	       ret < 0 ? strerrorname_np(errno) : "");
}

static struct timespec after(clockid_t clock, long ms)
{
	struct timespec t;

	CHECK(clock_gettime(clock, &t) == 0);
	t.tv_nsec += ms * 1000000;
	t.tv_sec += t.tv_nsec / 1000000000;
	t.tv_nsec %= 1000000000;
	return t;
}

static void checks(void)
{
	const struct timespec bad[3] = { { -1, 0 }, { 0, 1000000000 }, { 0, -1 } };
	const struct timespec zero = { 0, 0 };
	uint32_t *const odd = (uint32_t *)((char *)word + 2);
	uint32_t *const kernel = (uint32_t *)0xffff888000000000UL;
	uint32_t *const nothing = (uint32_t *)0x1000;

	for (int i = 0; i < 2; i++) {
		const int p = i ? FUTEX_PRIVATE_FLAG : 0;

		printf("private %d\n", i);
		result("wait, other value", futex(word, FUTEX_WAIT | p, 1, NULL, NULL, 0));
		result("wait, odd", futex(odd, FUTEX_WAIT | p, 1, NULL, NULL, 0));
		result("wait, kernel", futex(kernel, FUTEX_WAIT | p, 1, NULL, NULL, 0));
		result("wait, nothing", futex(nothing, FUTEX_WAIT | p, 1, NULL, NULL, 0));
		for (int k = 0; k < 3; k++)
			result("wait, bad time", futex(word, FUTEX_WAIT | p, 1, &bad[k], NULL, 0));
		result("wait, time nowhere", futex(word, FUTEX_WAIT | p, 0, (void *)8, NULL, 0));
		result("wait, no time", futex(word, FUTEX_WAIT | p, 0, &zero, NULL, 0));
		result("wait, no bits", futex(word, FUTEX_WAIT_BITSET | p, 0, NULL, NULL, 0));
		result("wait, no bits, odd", futex(odd, FUTEX_WAIT_BITSET | p, 0, NULL, NULL, 0));
		result("wait, long ago", futex(word, FUTEX_WAIT_BITSET | p, 0, &zero, NULL, 1));
		result("wait, real, long ago",
		       futex(word, FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME | p, 0, &zero, NULL,
			     1));
		result("plain wait, real",
		       futex(word, FUTEX_WAIT | FUTEX_CLOCK_REALTIME | p, 0, &zero, NULL, 0));
		result("wake, real",
		       futex(word, FUTEX_WAKE | FUTEX_CLOCK_REALTIME | p, 0, &zero, NULL, 0));
		result("wake", futex(word, FUTEX_WAKE | p, 1, NULL, NULL, 0));
		result("wake, odd", futex(odd, FUTEX_WAKE | p, 1, NULL, NULL, 0));
		result("wake, kernel", futex(kernel, FUTEX_WAKE | p, 1, NULL, NULL, 0));
		result("wake, nothing", futex(nothing, FUTEX_WAKE | p, 1, NULL, NULL, 0));
		result("wake, no bits", futex(word, FUTEX_WAKE_BITSET | p, 1, NULL, NULL, 0));
		result("requeue", futex(word, FUTEX_REQUEUE | p, 1, (void *)1, word + 1, 0));
		result("requeue, itself", futex(word, FUTEX_REQUEUE | p, 1, (void *)1, word, 0));
		result("requeue, odd", futex(word, FUTEX_REQUEUE | p, 1, (void *)1, odd, 0));
		result("requeue, negative",
		       futex(word, FUTEX_REQUEUE | p, 1, (void *)-1L, word + 1, 0));
		result("compare", futex(word, FUTEX_CMP_REQUEUE | p, 1, (void *)1, word + 1, 0));
		result("compare, other",
		       futex(word, FUTEX_CMP_REQUEUE | p, 1, (void *)1, word + 1, 5));
		result("unknown", futex(word, 99 | p, 1, NULL, NULL, 0));
	}
}

static void ops(void)
{
	static const int args[] = { 0, 1, 7, 0x800, 0xfff };

	for (int op = 0; op < 6; op++) {
		for (size_t i = 0; i < sizeof(args) / sizeof(args[0]); i++) {
			long ret;

			word[1] = 0x12345678;
			ret = futex(word, FUTEX_WAKE_OP | FUTEX_PRIVATE_FLAG, 1, (void *)1,
				    word + 1, FUTEX_OP((unsigned)op, args[i], i % 6, 3));
			printf("op %d %#x: %ld, %#x\n", op, args[i], ret, word[1]);
			if (op < 5 && i < 3) {
				ret = futex(word, FUTEX_WAKE_OP, 1, (void *)1, word + 1,
					    FUTEX_OP((op | 8u), args[i], i, -3));
				printf("shifted: %ld, %#x\n", ret, word[1]);
			}
		}
	}
	result("comparison",
	       futex(word, FUTEX_WAKE_OP, 1, (void *)1, word + 1, FUTEX_OP(0, 0, 6, 0)));
	result("nowhere", futex(word, FUTEX_WAKE_OP, 1, (void *)1, (uint32_t *)0x1000, 0));
	CHECK(mprotect(word, PAGE, PROT_READ) == 0);
	result("read-only",
	       futex(word, FUTEX_WAKE_OP | FUTEX_PRIVATE_FLAG, 1, (void *)1, word + 1, 0));
	result("wait read-only", futex(word, FUTEX_WAIT, 77, NULL, NULL, 0));
	CHECK(mprotect(word, PAGE, PROT_READ | PROT_WRITE) == 0);
	*word = 0;
}

static void slept(const char *what, clockid_t clock, const struct timespec *from, long ret, long ms)
{
	struct timespec now;
	long took;

	CHECK(clock_gettime(clock, &now) == 0);
	took = (now.tv_sec - from->tv_sec) * 1000 + (now.tv_nsec - from->tv_nsec) / 1000000;
	result(what, ret);
	if (took < ms - 1)
		printf("too early: %ld ms\n", took);
}

static void waits(void)
{
	const struct timespec rel = { 0, 60000000 };
	struct timespec from, until;

	clock_gettime(CLOCK_MONOTONIC, &from);
	slept("relative", CLOCK_MONOTONIC, &from, futex(word, FUTEX_WAIT, 0, &rel, NULL, 0), 60);
	from = after(CLOCK_MONOTONIC, 0);
	until = after(CLOCK_MONOTONIC, 60);
	slept("absolute", CLOCK_MONOTONIC, &from,
	      futex(word, FUTEX_WAIT_BITSET, 0, &until, NULL, 4), 60);
	from = after(CLOCK_REALTIME, 0);
	until = after(CLOCK_REALTIME, 60);
	slept("real", CLOCK_REALTIME, &from,
	      futex(word, FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME, 0, &until, NULL, 4), 60);
	from = after(CLOCK_MONOTONIC, 0);
	slept("shared memory", CLOCK_MONOTONIC, &from, futex(shared, FUTEX_WAIT, 0, &rel, NULL, 0),
	      60);
}

static void interrupted(int flags, const char *what)
{
	const struct timespec rel = { 1000, 0 };

	printf("%s\n", what);
	alarms_start(flags, -1);
	result("with a timeout", alarms_end(futex(word, FUTEX_WAIT, 0, &rel, NULL, 0)));
	if (flags & SA_RESTART)
		return;
	alarms_start(flags, -1);
	result("without", alarms_end(futex(word, FUTEX_WAIT, 0, NULL, NULL, 0)));
}

struct waitv {
	uint64_t val;
	uint64_t uaddr;
	uint32_t flags;
	uint32_t reserved;
};

static void vector(void)
{
	struct waitv v[3] = { { 0, (uintptr_t)word, 2 | 128, 0 },
			      { 0, (uintptr_t)(word + 1), 2, 0 },
			      { 0, (uintptr_t)shared, 2, 0 } };
	struct timespec t = after(CLOCK_MONOTONIC, 30);

	word[1] = 0;
	result("waitv", syscall(SYS_futex_waitv, v, 3, 0, &t, CLOCK_MONOTONIC));
	t = after(CLOCK_REALTIME, 30);
	result("waitv real", syscall(SYS_futex_waitv, v, 3, 0, &t, CLOCK_REALTIME));
	result("waitv clock", syscall(SYS_futex_waitv, v, 3, 0, &t, CLOCK_BOOTTIME));
	result("waitv none", syscall(SYS_futex_waitv, v, 0, 0, &t, CLOCK_REALTIME));
	result("waitv many", syscall(SYS_futex_waitv, v, 129, 0, &t, CLOCK_REALTIME));
	result("waitv flags", syscall(SYS_futex_waitv, v, 3, 1, &t, CLOCK_REALTIME));
	v[2].val = 1;
	result("waitv other value", syscall(SYS_futex_waitv, v, 3, 0, &t, CLOCK_REALTIME));
	v[2].val = 1ull << 32;
	result("waitv large value", syscall(SYS_futex_waitv, v, 3, 0, &t, CLOCK_REALTIME));
	v[2].val = 0;
	v[1].reserved = 1;
	result("waitv reserved", syscall(SYS_futex_waitv, v, 3, 0, &t, CLOCK_REALTIME));
	v[1].reserved = 0;
	v[1].flags = 1;
	result("waitv size", syscall(SYS_futex_waitv, v, 3, 0, &t, CLOCK_REALTIME));
	result("waitv nowhere", syscall(SYS_futex_waitv, 8, 3, 0, &t, CLOCK_REALTIME));
}

static void robust(void)
{
	size_t len = 0;
	void *head = NULL, *self = &len;

	result("set", syscall(SYS_set_robust_list, self, 24));
	result("get", syscall(SYS_get_robust_list, 0, &head, &len));
	printf("%s, %zu\n", head == self ? "mine" : "another's", len);
	result("get by id", syscall(SYS_get_robust_list, getpid(), &head, &len));
	result("set, size", syscall(SYS_set_robust_list, self, 16));
	result("get, nobody", syscall(SYS_get_robust_list, 1 << 30, &head, &len));
	result("get, nowhere", syscall(SYS_get_robust_list, 0, 8, &len));
	/* The robust list that is set when the program ends leads nowhere. */
	result("set nonsense", syscall(SYS_set_robust_list, 0x7fff00001234, 24));
}

int main(void)
{
	word = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(word != MAP_FAILED);
	shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		shared = word + 8;
	checks();
	ops();
	waits();
	interrupted(0, "a handler");
	interrupted(SA_RESTART, "a handler that restarts");
	vector();
	robust();
	return 0;
}
