/* SPDX-License-Identifier: MIT */
/*
 * lwIP's own unit tests, from the source that the kernel is built with, against our options and our
 * port (memory, random numbers, the lock); only the clock is theirs.
 *
 * Flow:	a suite of theirs is a case here. Each of its tests runs in a process of its own,
 *		from a stack that has just been initialized, as their framework has it.
 * Limits:	left out are the tests of parts that are not built (sockets and other calls with
 *		threads, MDNS, MQTT), and of lwIP's own heap. lwip/lwipopts.h says how the options
 *		differ.
 */
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <lib/ktest.h>
#include <shim/shim.h>

#include "../../net/lwip/lwip_priv.h"
#include "lwip_check.h"

#include <lwip/memp.h>
#include <lwip/netif.h>
#include <lwip/stats.h>

struct Suite {
	const char *name;
	testfunc *tests;
	size_t nr_tests;
	SFun setup, teardown;
};

/* The clock of the tests, in milliseconds. */
uint32_t lwip_sys_now;

uint32_t __wrap_sys_now(void);
uint32_t __wrap_sys_now(void)
{
	return lwip_sys_now;
}

/* No card. */
void interfaces_kick_locked(void)
{
}

/* In place of a thread of lwIP's: what interfaces have sent to themselves arrives. */
int tcpip_thread_poll_one(void);
int tcpip_thread_poll_one(void)
{
	netif_poll_all();
	return 0;
}

static mem_size_t heap_at_first;

/* --- what the tests call ------------------------------------------------------------------ */

void unit_fail(const char *file, int line, const char *what)
{
	const char *base = strrchr(file, '/');

	fprintf(stderr, "%s:%d: %s\n", base ? base + 1 : file, line, what);
	_exit(1);
}

Suite *create_suite(const char *name, testfunc *tests, size_t num_tests, SFun setup, SFun teardown)
{
	Suite *s = malloc(sizeof(*s));
	testfunc *copy = malloc(num_tests * sizeof(*copy)); /* theirs lies on the stack */

	if (!s || !copy)
		abort();
	memcpy(copy, tests, num_tests * sizeof(*copy));
	*s = (Suite){ name, copy, num_tests, setup, teardown };
	return s;
}

/* Elements of pools are of the heap in our port; what is left is bytes of the heap alone. */
static mem_size_t heap_beside_pools(void)
{
	mem_size_t bytes = lwip_stats.mem.used;

	for (unsigned int i = 0; i < MEMP_MAX; i++)
		bytes -= lwip_stats.memp[i]->used * LWIP_MEM_ALIGN_SIZE(memp_pools[i]->size);
	return bytes;
}

void lwip_check_ensure_no_alloc(unsigned int skip)
{
	fail_unless((skip & SKIP_HEAP) || heap_beside_pools() == heap_at_first);
	for (unsigned int i = 0; i < MEMP_MAX; i++)
		fail_unless((skip & SKIP_POOL(i)) || !lwip_stats.memp[i]->used);
}

/* --- running them ------------------------------------------------------------------------- */

static void run_one(const Suite *s, const TTest *test)
{
	if (shim_initcalls_run())
		_exit(2);
	stack_lock();
	/* The timers that the stack begins with. */
	lwip_stats.mem.used = 0;
	heap_at_first = heap_beside_pools();
	if (s->setup)
		s->setup();
	test->run(0);
	if (s->teardown)
		s->teardown();
	stack_unlock();
	fflush(NULL);
	_exit(0);
}

static void run_suite(struct ktest *t, Suite *(*make)(void))
{
	Suite *s = make();

	EXPECT_GT(t, s->nr_tests, 0u);
	for (size_t i = 0; i < s->nr_tests; i++) {
		int status = -1;
		pid_t pid;

		fflush(NULL);
		pid = fork();
		if (!pid)
			run_one(s, s->tests[i]);
		if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
			ktest_fail(t, __FILE__, __LINE__, "%s ended with status %#x",
				   s->tests[i]->name, (unsigned int)status);
	}
	free(s->tests);
	free(s);
}

#define CASE(name)                                \
	Suite *name##_suite(void);                \
	static void name##_tests(struct ktest *t) \
	{                                         \
		run_suite(t, name##_suite);       \
	}

CASE(def)
CASE(dhcp)
CASE(etharp)
CASE(ip4)
CASE(ip6)
CASE(netif)
CASE(pbuf)
CASE(tcp)
CASE(tcp_oos)
CASE(timers)
CASE(udp)
CASE(window)

static const struct ktest_case cases[] = {
	KTEST(def_tests),
	KTEST(dhcp_tests),
	KTEST(etharp_tests),
	KTEST(ip4_tests),
	KTEST(ip6_tests),
	KTEST(netif_tests),
	KTEST(pbuf_tests),
	KTEST(tcp_tests),
	KTEST(tcp_oos_tests),
	KTEST(timers_tests),
	KTEST(udp_tests),
	KTEST(window_tests),
	{ 0 },
};
static const struct ktest_suite suite = { .name = "lwip.unit", .cases = cases };
KTEST_SUITE(suite);
