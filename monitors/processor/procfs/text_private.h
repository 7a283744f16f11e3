/* SPDX-License-Identifier: MIT */
/*
 * Text that grows while it is written: what a file of /proc or /sys says.
 *
 * Failure:	sticky: after the first -ENOMEM nothing more is added, and text.err says so.
 */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>

struct kmem_account;

struct text {
	char *buf; /* not terminated */
	size_t len, size;
	int err;
	struct kmem_account *account; /* charged for the buffer; NULL: it is freed soon */
};

void text_printf(struct text *t, const char *fmt, ...) __printf(2, 3);
void text_bytes(struct text *t, const void *bytes, size_t len);
void text_puts(struct text *t, const char *s);
void text_putc(struct text *t, char c);
/*
 * @s with blanks, tabs, newlines and back slashes as \ooo, as /proc/mounts has them; and those of
 * @more.
 */
void text_escaped(struct text *t, const char *s, const char *more);
/* Blanks up to column @column of the line that begins at byte @line. */
void text_pad(struct text *t, size_t line, size_t column);
/*
 * CPUs 0 to @nr - 1 as a list: "0-3"; CPUs @first to @end - 1 as a mask for @possible: "f",
 * "1,ffffffff".
 */
void text_cpu_list(struct text *t, unsigned int nr);
void text_cpu_mask(struct text *t, unsigned int first, unsigned int end, unsigned int possible);
void text_free(struct text *t);

/*
 * The number that was written to a file of /proc/sys, as Linux reads it: blanks around it; decimal,
 * 0x or 0; nothing else. -EINVAL: that it is not, or it is more than @max.
 */
int text_number(const char *buf, size_t len, uint64_t max, uint64_t *value) __must_check;
/* Two of them. One alone is the first, and the second stays as it is; more are not looked at. */
int text_pair(const char *buf, size_t len, uint32_t max, uint32_t values[2]) __must_check;
/* The same for a number of [min, max] that may be negative. */
int text_signed(const char *buf, size_t len, int min, int max, int *value) __must_check;
