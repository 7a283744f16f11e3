/* SPDX-License-Identifier: MIT */
/*
 * The kernel log.
 *
 * Flow:	format on the caller's stack, then under log_lock copy into the ring and
 *		write to the serial port, so that lines never mix.
 * Context:	anywhere.  In a panic or NMI the lock is not waited for.
 * Limits:	a line is cut at LINE_MAX bytes; the ring keeps the newest
 *		CONFIG_LOG_RING_KB.
 */
#include <kernel/printk.h>

#include <arch/serial.h>
#include <kernel/bootparam.h>
#include <kernel/panic_state.h>
#include <kernel/preempt.h>
#include <kernel/spinlock.h>
#include <kernel/time.h>
#include <lib/errno.h>
#include <lib/fmt.h>
#include <lib/string.h>

#define LINE_MAX  480u
#define RING_SIZE ((size_t)CONFIG_LOG_RING_KB * 1024)

static struct spinlock log_lock = SPINLOCK_INIT("log", RANK_CONSOLE);
static char ring[RING_SIZE] __guarded_by(&log_lock);
static uint64_t ring_end __guarded_by(&log_lock); /* bytes ever written */
static uint32_t log_level = LOG_INFO;
static uint32_t node_id;

BOOT_PARAM_RANGE("node", u32, node_id, 0, 65535, "id of this node, unique in the cluster");

static const char *const level_names[] = { "error", "warning", "info", "debug" };

static int set_log_level(const char *value)
{
	static const char *const names[] = { "err", "warn", "info", "debug" };

	for (uint32_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (strcmp(value, names[i]) == 0) {
			log_level = i;
			return 0;
		}
	}
	return -EINVAL;
}
BOOT_PARAM_CB("loglevel", set_log_level,
	      "lines to print and keep: err, warn, info (default) or debug");

uint32_t log_node_id(void)
{
	return node_id;
}

static void ring_put_locked(const char *s, size_t len) __must_hold(&log_lock)
{
	assert_spin_held(&log_lock);
	while (len) {
		const size_t at = ring_end % RING_SIZE;
		const size_t n = MIN(len, RING_SIZE - at);

		memcpy(ring + at, s, n);
		ring_end += n;
		s += n;
		len -= n;
	}
}

size_t log_read(char *buf, size_t len)
{
	const unsigned long flags = spin_lock_irqsave(&log_lock);
	size_t n = MIN(len, RING_SIZE);

	n = MIN(n, ring_end);
	for (size_t i = 0; i < n; i++)
		buf[i] = ring[(ring_end - n + i) % RING_SIZE];
	spin_unlock_irqrestore(&log_lock, flags);
	return n;
}

static void emit(const char *s, size_t len, bool keep)
{
	unsigned long flags;

	/* An NMI may have interrupted the lock's holder on this very CPU. */
	if ((panic_in_progress() && panic_is_mine()) || percpu_read(preempt_count) >= PREEMPT_NMI) {
		serial_write(s, len);
		return;
	}
	flags = spin_lock_irqsave(&log_lock);
	if (keep)
		ring_put_locked(s, len);
	serial_write(s, len);
	spin_unlock_irqrestore(&log_lock, flags);
}

void console_write(const char *s, size_t len)
{
	emit(s, len, false);
}

void printk(enum log_level level, const char *fmt, ...)
{
	char line[LINE_MAX];
	const uint64_t us = tsc_scale.mult ? time_now_ns() / 1000 : 0;
	va_list ap;
	size_t len;

	if (level > log_level)
		return;
	len = scnprintf(line, sizeof(line) - 1, "[%5lu.%06lu] node%u %s: ", us / 1000000,
			us % 1000000, node_id, level_names[level]);
	va_start(ap, fmt);
	len += vscnprintf(line + len, sizeof(line) - 1 - len, fmt, ap);
	va_end(ap);
	if (line[len - 1] != '\n')
		line[len++] = '\n';
	emit(line, len, true);
}

bool log_ratelimit_ok(struct log_ratelimit *rl, uint32_t *dropped)
{
	const uint64_t now = time_now_ns();
	uint64_t last = __atomic_load_n(&rl->last_ns, __ATOMIC_RELAXED);

	if ((last && now - last < NSEC_PER_SEC) ||
	    !__atomic_compare_exchange_n(&rl->last_ns, &last, now, false, __ATOMIC_RELAXED,
					 __ATOMIC_RELAXED)) {
		__atomic_add_fetch(&rl->dropped, 1, __ATOMIC_RELAXED);
		return false;
	}
	*dropped = __atomic_exchange_n(&rl->dropped, 0, __ATOMIC_RELAXED);
	if (*dropped)
		printk(LOG_WARN, "(%u lines like the next one were left out)\n", *dropped);
	return true;
}
