/* SPDX-License-Identifier: MIT */
/*
 * Names of core files: the pattern, and what it says about a process.
 *
 * Invariants:	what a process chooses itself (its name, its program's path) adds no '/' to the
 *		name, and is no name of a directory.
 * Locking:	pattern_lock guards the pattern.
 */
#include "core.h"

#include <kernel/spinlock.h>
#include <lib/errno.h>
#include <lib/fmt.h>
#include <lib/string.h>

uint32_t core_uses_pid;

static struct spinlock pattern_lock = SPINLOCK_INIT("core.pattern", RANK_SPIN_MONITOR);
static char pattern[CORE_PATTERN_MAX] __guarded_by(&pattern_lock) = "core";

void core_pattern_get(char *out)
{
	spin_lock(&pattern_lock);
	memcpy(out, pattern, CORE_PATTERN_MAX);
	spin_unlock(&pattern_lock);
}

int core_pattern_set(const char *buf, size_t len)
{
	size_t end = 0;

	while (end < len && buf[end] && buf[end] != '\n')
		end++;
	if (end >= CORE_PATTERN_MAX || (end && buf[0] == '|'))
		return -EINVAL;
	spin_lock(&pattern_lock);
	memcpy(pattern, buf, end);
	pattern[end] = '\0';
	spin_unlock(&pattern_lock);
	return 0;
}

struct name {
	char *out;
	size_t len, size;
};

static void put_char(struct name *n, char c)
{
	if (n->len < n->size)
		n->out[n->len] = c;
	n->len++;
}

static void put_number(struct name *n, uint64_t value)
{
	char digits[24];

	snprintf(digits, sizeof(digits), "%llu", (unsigned long long)value);
	for (const char *s = digits; *s; s++)
		put_char(n, *s);
}

/* As Linux: '!' for a slash, and for the first letter of a name of a directory. */
static void put_escaped(struct name *n, const char *s)
{
	const bool dots = !strcmp(s, ".") || !strcmp(s, "..");

	if (!*s)
		put_char(n, '!');
	for (size_t i = 0; s[i]; i++)
		put_char(n, s[i] == '/' || (dots && !i) ? '!' : s[i]);
}

/* False: there is no such letter; Linux leaves it out. */
static bool put_fact(struct name *n, char letter, const struct core_name_facts *f)
{
	switch (letter) {
	case '%':
		put_char(n, '%');
		break;
	case 'p':
	case 'P':
		put_number(n, f->pid);
		break;
	case 'i':
	case 'I':
		put_number(n, f->tid);
		break;
	case 'u':
		put_number(n, f->uid);
		break;
	case 'g':
		put_number(n, f->gid);
		break;
	case 'd':
		put_number(n, f->dumpable);
		break;
	case 's':
		put_number(n, (uint64_t)f->signo);
		break;
	case 't':
		put_number(n, (uint64_t)f->time_s);
		break;
	case 'h':
		put_escaped(n, f->hostname);
		break;
	case 'e':
		put_escaped(n, f->comm);
		break;
	case 'E':
		put_escaped(n, f->exe);
		break;
	case 'c':
		put_number(n, f->limit);
		break;
	default:
		return false;
	}
	return true;
}

int core_name(const char *fmt, bool uses_pid, const struct core_name_facts *f, char *out,
	      size_t size)
{
	struct name n = { .out = out, .size = size };
	bool pid = false;

	for (const char *s = fmt; *s; s++) {
		if (*s != '%') {
			put_char(&n, *s);
			continue;
		}
		if (!*++s)
			break;
		if (put_fact(&n, *s, f))
			pid |= *s == 'p' || *s == 'P';
	}
	if (uses_pid && !pid) {
		put_char(&n, '.');
		put_number(&n, f->pid);
	}
	put_char(&n, '\0');
	return n.len <= n.size ? 0 : -ENAMETOOLONG;
}
