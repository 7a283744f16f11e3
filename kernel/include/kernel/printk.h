/* SPDX-License-Identifier: MIT */
/*
 * The kernel log: levelled lines into a ring, and to the serial port.
 *
 *	#define PR_FMT "excache: "   before the includes, once per file
 *	pr_info("%u sets\n", n);
 *
 * Context:	anywhere, NMI included; irq-safe.  One call is one line (a missing
 *		newline is added).
 * Flow:	Line: "[    1.234567] node3 info: excache: 64 sets"
 */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>

enum log_level {
	LOG_ERR,
	LOG_WARN,
	LOG_INFO,
	LOG_DEBUG,
};

#ifndef PR_FMT
# define PR_FMT ""
#endif

void printk(enum log_level level, const char *fmt, ...) __printf(2, 3);

#define pr_err(fmt, ...)   printk(LOG_ERR, PR_FMT fmt, ##__VA_ARGS__)
#define pr_warn(fmt, ...)  printk(LOG_WARN, PR_FMT fmt, ##__VA_ARGS__)
#define pr_info(fmt, ...)  printk(LOG_INFO, PR_FMT fmt, ##__VA_ARGS__)
#define pr_debug(fmt, ...) printk(LOG_DEBUG, PR_FMT fmt, ##__VA_ARGS__)

/* At most one line a second from this place; the next one tells how many were dropped. */
#define pr_warn_ratelimited(fmt, ...)                                \
	do {                                                         \
		static struct log_ratelimit _rl;                     \
		uint32_t _dropped;                                   \
		if (log_ratelimit_ok(&_rl, &_dropped))               \
			printk(LOG_WARN, PR_FMT fmt, ##__VA_ARGS__); \
	} while (0)

struct log_ratelimit {
	uint64_t last_ns; /* atomic */
	uint32_t dropped; /* atomic */
};
bool log_ratelimit_ok(struct log_ratelimit *rl, uint32_t *dropped);

/* Bytes straight to the serial port, no prefix (TAP output). */
void console_write(const char *s, size_t len);
/* Copy the newest at most @len bytes of the log ring; returns the count. */
size_t log_read(char *buf, size_t len);
/* The number printed as "nodeN" (boot parameter node=). */
uint32_t log_node_id(void);
