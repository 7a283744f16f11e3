/* SPDX-License-Identifier: MIT */
/*
 * Growing text.
 */
#include "text_private.h"

#include <kernel/panic.h>
#include <lib/errno.h>
#include <lib/fmt.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <processor/account/account.h>

#define FIRST_SIZE 512u

static bool reserve(struct text *t, size_t more)
{
	size_t size = MAX(t->size, (size_t)FIRST_SIZE);
	char *buf;

	if (t->err)
		return false;
	if (more <= t->size - t->len)
		return true;
	while (size - t->len < more)
		size *= 2;
	t->err = kmem_charge(t->account, size - t->size);
	if (t->err)
		return false;
	buf = krealloc(t->buf, size);
	if (!buf) {
		kmem_uncharge(t->account, size - t->size);
		t->err = -ENOMEM;
		return false;
	}
	t->buf = buf;
	t->size = size;
	return true;
}

void text_bytes(struct text *t, const void *bytes, size_t len)
{
	if (!reserve(t, len))
		return;
	ASSERT(len <= t->size - t->len);
	memcpy(t->buf + t->len, bytes, len);
	t->len += len;
}

void text_puts(struct text *t, const char *s)
{
	text_bytes(t, s, strlen(s));
}

void text_putc(struct text *t, char c)
{
	text_bytes(t, &c, 1);
}

static bool is_blank(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

/* The characters between blanks, as a string. False: that is too long for a number. */
static bool number_word(const char *buf, size_t len, char *word, size_t size)
{
	size_t n;

	while (len && is_blank(*buf)) {
		buf++;
		len--;
	}
	while (len && is_blank(buf[len - 1]))
		len--;
	if (len >= size)
		return false;
	for (n = 0; n < len && buf[n]; n++)
		word[n] = buf[n];
	word[n] = '\0';
	return n == len;
}

int text_number(const char *buf, size_t len, uint64_t max, uint64_t *value)
{
	char word[24];
	uint64_t v;

	if (!number_word(buf, len, word, sizeof(word)) || word[0] == '+' ||
	    kstrtou64(word, 0, &v) || v > max)
		return -EINVAL;
	*value = v;
	return 0;
}

int text_pair(const char *buf, size_t len, uint32_t max, uint32_t values[2])
{
	uint32_t read[2] = { 0, values[1] };
	unsigned int nr = 0;
	size_t at = 0;

	for (; nr < 2; nr++) {
		uint64_t value;
		size_t end;

		while (at < len && is_blank(buf[at]))
			at++;
		for (end = at; end < len && !is_blank(buf[end]); end++)
			;
		ASSERT(at <= end && end <= len);
		if (end == at)
			break;
		if (text_number(buf + at, end - at, max, &value))
			return -EINVAL;
		read[nr] = (uint32_t)value;
		at = end;
	}
	if (!nr)
		return -EINVAL;
	values[0] = read[0];
	values[1] = read[1];
	return 0;
}

int text_signed(const char *buf, size_t len, int min, int max, int *value)
{
	char word[24];
	int32_t v;

	if (!number_word(buf, len, word, sizeof(word)) || kstrtos32(word, 0, &v) || v < min ||
	    v > max)
		return -EINVAL;
	*value = v;
	return 0;
}

void text_printf(struct text *t, const char *fmt, ...)
{
	va_list ap;
	int len;

	if (!reserve(t, 128))
		return;
	va_start(ap, fmt);
	len = vsnprintf(t->buf + t->len, t->size - t->len, fmt, ap);
	va_end(ap);
	if ((size_t)len >= t->size - t->len) { /* with its NUL it did not fit */
		if (!reserve(t, (size_t)len + 1))
			return;
		va_start(ap, fmt);
		len = vsnprintf(t->buf + t->len, t->size - t->len, fmt, ap);
		va_end(ap);
	}
	ASSERT((size_t)len < t->size - t->len); /* its NUL fits too */
	t->len += (size_t)len;
}

void text_escaped(struct text *t, const char *s, const char *more)
{
	for (; *s; s++) {
		if (strchr(" \t\n\\", *s) || strchr(more, *s))
			text_printf(t, "\\%03o", (unsigned char)*s);
		else
			text_putc(t, *s);
	}
}

void text_pad(struct text *t, size_t line, size_t column)
{
	while (!t->err && t->len - line < column)
		text_putc(t, ' ');
}

void text_cpu_list(struct text *t, unsigned int nr)
{
	if (nr == 1)
		text_puts(t, "0");
	else
		text_printf(t, "0-%u", nr - 1);
}

void text_cpu_mask(struct text *t, unsigned int first, unsigned int end, unsigned int possible)
{
	const unsigned int cpus = MAX(end, possible);

	for (unsigned int w = (cpus + 31) / 32; w-- > 0;) {
		uint32_t mask = 0;

		for (unsigned int cpu = MAX(first, 32 * w); cpu < MIN(end, 32 * (w + 1)); cpu++)
			mask |= 1u << (cpu % 32);
		/*
		 * As Linux: the topmost word has the digits that the CPUs need, the others eight.
		 */
		text_printf(t, "%0*x%s", 32 * (w + 1) >= cpus ? (int)((cpus - 32 * w + 3) / 4) : 8,
			    mask, w ? "," : "");
	}
}

void text_free(struct text *t)
{
	kmem_uncharge(t->account, t->size);
	kfree(t->buf);
	*t = (struct text){ .account = t->account };
}
