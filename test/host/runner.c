/* SPDX-License-Identifier: MIT */
/*
 * Run KTEST suites on the host as cmocka tests.
 *
 * <program> [GLOB]: GLOB matches "suite.case" ("lib.*,proto.pm.*").
 *
 * Flow:	walk the .ktest section, make one cmocka test of each case that matches, run them.
 *		A case notes its failures through ktest_fail(); the wrapper fails the cmocka test
 *		once the case has returned, so threads of a case may fail it too.
 * Failure:	a case that does not end within TESSERA_TEST_TIMEOUT seconds (240) is named and the
 *		program aborts. Sanitizers abort at once.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include <lib/fmt.h>
#include <lib/ktest.h>

static const char *running_suite;
static const char *running_case;
static pthread_mutex_t fail_lock = PTHREAD_MUTEX_INITIALIZER;

void ktest_fail(struct ktest *t, const char *file, int line, const char *fmt, ...)
{
	va_list ap;

	pthread_mutex_lock(&fail_lock);
	t->nr_failed++;
	fprintf(stderr, "%s:%d: %s.%s: ", file, line, t->suite, t->name);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	pthread_mutex_unlock(&fail_lock);
}

void ktest_skip(struct ktest *t, const char *reason)
{
	t->skip_reason = reason;
}

static void on_timeout(int sig)
{
	(void)sig;
	(void)dprintf(STDERR_FILENO, "%s.%s: no end in sight, aborting\n", running_suite,
		      running_case);
	abort();
}

static unsigned int timeout_s(void)
{
	const char *s = getenv("TESSERA_TEST_TIMEOUT");
	uint32_t v;

	return s && kstrtou32(s, 10, &v) == 0 ? v : 240;
}

struct selected {
	const struct ktest_suite *suite;
	const struct ktest_case *c;
	char name[160];
};

static void run_case(void **state)
{
	const struct selected *sel = *state;
	struct ktest t = { .suite = sel->suite->name, .name = sel->c->name };

	running_suite = t.suite;
	running_case = t.name;
	alarm(timeout_s());
	sel->c->run(&t);
	alarm(0);
	if (t.nr_failed)
		fail_msg("%u expectation(s) not met", t.nr_failed);
	if (t.skip_reason) {
		print_message("%s: %s\n", sel->name, t.skip_reason);
		skip();
	}
}

/* Collect the cases that match; @out may be NULL to count them only. */
static size_t select_cases(const char *glob, struct selected *out)
{
	size_t n = 0;

	for (const struct ktest_suite *const *s = __ktest_start; s < __ktest_end; s++) {
		for (const struct ktest_case *c = (*s)->cases; c->name; c++) {
			struct selected sel = { .suite = *s, .c = c };

			scnprintf(sel.name, sizeof(sel.name), "%s.%s", (*s)->name, c->name);
			if (!str_glob_match(glob, sel.name))
				continue;
			if (out)
				out[n] = sel;
			n++;
		}
	}
	return n;
}

int main(int argc, char **argv)
{
	const char *glob = argc > 1 ? argv[1] : "*";
	const size_t n = select_cases(glob, NULL);
	struct CMUnitTest *tests = calloc(n + 1, sizeof(*tests));
	struct selected *selected = calloc(n + 1, sizeof(*selected));
	int failed;

	if (!tests || !selected)
		return 1;
	signal(SIGALRM, on_timeout);
	select_cases(glob, selected);
	for (size_t i = 0; i < n; i++) {
		tests[i].name = selected[i].name;
		tests[i].test_func = run_case;
		tests[i].initial_state = &selected[i];
	}
	failed = _cmocka_run_group_tests(argv[0], tests, n, NULL, NULL);
	free(selected);
	free(tests);
	return failed ? 1 : 0;
}
