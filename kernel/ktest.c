/* SPDX-License-Identifier: MIT */
/*
 * In-kernel test runner.
 *
 * Flow:	ktest=<glob> picks cases by "suite.case"; they run one after the other in
 *		one thread after the init calls (monitors left out); TAP goes to the
 *		serial line without log prefixes; then the machine is left with 0 or 1.
 * Failure:	a case that runs longer than ktest.timeout seconds ends the run with
 *		"Bail out!" and status 1; a panic ends it by panic=.
 */
#include <kernel/bootparam.h>
#include <kernel/ktest_run.h>
#include <kernel/panic.h>
#include <kernel/printk.h>
#include <kernel/reboot.h>
#include <kernel/time.h>
#include <kernel/timer.h>
#include <lib/fmt.h>
#include <lib/ktest.h>
#include <lib/string.h>

static const char *ktest_glob;
static uint32_t case_timeout_s = 30;

BOOT_PARAM("ktest", string, ktest_glob,
	   "run the in-kernel tests that match this glob (suite.case; commas separate), then exit");
BOOT_PARAM("ktest.timeout", u32, case_timeout_s, "seconds that one in-kernel test may take");

bool ktest_requested(void)
{
	return ktest_glob != NULL;
}

static void tap(const char *fmt, ...) __printf(1, 2);
static void tap(const char *fmt, ...)
{
	char line[400];
	va_list ap;
	size_t len;

	va_start(ap, fmt);
	len = vscnprintf(line, sizeof(line) - 1, fmt, ap);
	va_end(ap);
	line[len++] = '\n';
	console_write(line, len);
}

void ktest_fail(struct ktest *t, const char *file, int line, const char *fmt, ...)
{
	char msg[300];
	va_list ap;

	va_start(ap, fmt);
	(void)vscnprintf(msg, sizeof(msg), fmt, ap);
	va_end(ap);
	t->nr_failed++;
	tap("# %s:%d: %s", file, line, msg);
}

void ktest_skip(struct ktest *t, const char *reason)
{
	t->skip_reason = reason;
}

static void on_timeout(void *arg)
{
	const struct ktest *t = arg;

	tap("Bail out! %s.%s took longer than %u s", t->suite, t->name, case_timeout_s);
	backtrace_print();
	machine_poweroff(EXIT_STATUS_TEST_FAIL);
}

static bool selected(const struct ktest_suite *s, const struct ktest_case *c)
{
	char full[160];

	snprintf(full, sizeof(full), "%s.%s", s->name, c->name);
	return str_glob_match(ktest_glob, full);
}

static bool run_case(const struct ktest_suite *s, const struct ktest_case *c, unsigned int nr)
{
	struct ktest t = { .suite = s->name, .name = c->name };
	const unsigned int ubsan = ubsan_report_count();
	const uint64_t start = time_now_ns();
	struct timer watchdog;
	bool ok;

	timer_init(&watchdog, on_timeout, &t);
	timer_set(&watchdog, start + case_timeout_s * NSEC_PER_SEC);
	c->run(&t);
	(void)timer_cancel(&watchdog);
	ok = t.nr_failed == 0 && ubsan_report_count() == ubsan;
	tap("%s %u %s.%s%s%s # %lu us", ok ? "ok" : "not ok", nr, s->name, c->name,
	    t.skip_reason ? " # SKIP " : "", t.skip_reason ? t.skip_reason : "",
	    (time_now_ns() - start) / 1000);
	return ok;
}

void ktest_run_and_exit(void)
{
	unsigned int count = 0;
	unsigned int nr = 0;
	unsigned int failed = 0;

	for (const struct ktest_suite *const *s = __ktest_start; s < __ktest_end; s++) {
		for (const struct ktest_case *c = (*s)->cases; c->name; c++)
			count += selected(*s, c);
	}
	tap("TAP version 13");
	tap("1..%u", count);
	for (const struct ktest_suite *const *s = __ktest_start; s < __ktest_end; s++) {
		for (const struct ktest_case *c = (*s)->cases; c->name; c++) {
			if (selected(*s, c) && !run_case(*s, c, ++nr))
				failed++;
		}
	}
	tap("# %u of %u failed", failed, count);
	machine_poweroff(failed || count == 0 ? EXIT_STATUS_TEST_FAIL : EXIT_STATUS_OK);
}
