/* SPDX-License-Identifier: MIT */
/*
 * Parsing of numbers, sizes and switches. The input comes from outside: the
 * whole string must fit the form, overflow is an error, and the result is written
 * only on success.
 */
#include <lib/errno.h>
#include <lib/fmt.h>
#include <lib/string.h>

/* Value of a digit in any base up to 36, or 36 and more when it is none. */
static unsigned int digit_value(char c)
{
	if (c >= '0' && c <= '9')
		return (unsigned int)(c - '0');
	if (c >= 'a' && c <= 'z')
		return (unsigned int)(c - 'a') + 10;
	if (c >= 'A' && c <= 'Z')
		return (unsigned int)(c - 'A') + 10;
	return 36;
}

/* Skip the prefix that base 0 or 16 allows; returns the base to use. */
static unsigned int take_prefix(const char **s, unsigned int base)
{
	const char *p = *s;
	const bool hex = p[0] == '0' && (p[1] == 'x' || p[1] == 'X') && digit_value(p[2]) < 16;

	if (hex && (base == 0 || base == 16)) {
		*s = p + 2;
		return 16;
	}
	if (base == 0)
		return p[0] == '0' && p[1] ? 8 : 10;
	return base;
}

/* Read digits up to the first that is none; *s moves there. */
static int take_digits(const char **s, unsigned int base, uint64_t *out)
{
	const char *p = *s;
	uint64_t v = 0;

	for (; digit_value(*p) < base; p++) {
		if (__builtin_mul_overflow(v, (uint64_t)base, &v) ||
		    __builtin_add_overflow(v, (uint64_t)digit_value(*p), &v))
			return -ERANGE;
	}
	if (p == *s)
		return -EINVAL;
	*s = p;
	*out = v;
	return 0;
}

int kstrtou64(const char *s, unsigned int base, uint64_t *out)
{
	uint64_t v;
	int err;

	if (base == 1 || base > 36)
		return -EINVAL;
	if (*s == '+')
		s++;
	base = take_prefix(&s, base);
	err = take_digits(&s, base, &v);
	if (err)
		return err;
	if (*s)
		return -EINVAL;
	*out = v;
	return 0;
}

int kstrtos64(const char *s, unsigned int base, int64_t *out)
{
	const bool negative = *s == '-';
	uint64_t v;
	int err;

	if (negative && s[1] == '+')
		return -EINVAL;
	err = kstrtou64(negative ? s + 1 : s, base, &v);
	if (err)
		return err;
	if (v > (uint64_t)INT64_MAX + (negative ? 1 : 0))
		return -ERANGE;
	*out = (int64_t)(negative ? -v : v);
	return 0;
}

int kstrtou32(const char *s, unsigned int base, uint32_t *out)
{
	uint64_t v;
	int err = kstrtou64(s, base, &v);

	if (err)
		return err;
	if (v > UINT32_MAX)
		return -ERANGE;
	*out = (uint32_t)v;
	return 0;
}

int kstrtos32(const char *s, unsigned int base, int32_t *out)
{
	int64_t v;
	int err = kstrtos64(s, base, &v);

	if (err)
		return err;
	if (v < INT32_MIN || v > INT32_MAX)
		return -ERANGE;
	*out = (int32_t)v;
	return 0;
}

/* The shift for a unit such as "K" or "MiB", or -1. */
static int unit_shift(const char *unit)
{
	static const char letters[] = "KMGTPE";
	char upper;
	const char *at;

	if (!*unit || strcasecmp(unit, "B") == 0)
		return 0;
	upper = *unit >= 'a' && *unit <= 'z' ? (char)(*unit - 'a' + 'A') : *unit;
	at = strchr(letters, upper);
	if (!at)
		return -1;
	if (unit[1] && strcasecmp(unit + 1, "B") != 0 && strcasecmp(unit + 1, "iB") != 0)
		return -1;
	return 10 * (int)(at - letters + 1);
}

int parse_size(const char *s, uint64_t *out)
{
	const unsigned int base = take_prefix(&s, 0) == 16 ? 16 : 10;
	uint64_t v;
	int shift;
	int err;

	err = take_digits(&s, base, &v);
	if (err)
		return err;
	shift = unit_shift(s);
	if (shift < 0)
		return -EINVAL;
	if (v > UINT64_MAX >> shift)
		return -ERANGE;
	*out = v << shift;
	return 0;
}

int parse_bool(const char *s, bool *out)
{
	static const struct {
		const char *word;
		bool value;
	} words[] = {
		{ "1", true },    { "y", true },      { "yes", true }, { "on", true },
		{ "true", true }, { "0", false },     { "n", false },  { "no", false },
		{ "off", false }, { "false", false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		if (strcasecmp(s, words[i].word) == 0) {
			*out = words[i].value;
			return 0;
		}
	}
	return -EINVAL;
}
