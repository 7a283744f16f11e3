/* SPDX-License-Identifier: MIT */
/*
 * Memory and string functions.
 *
 * Limits:	Build: compiled so that the compiler does not turn these loops into calls of the
 *		very functions they are. On the host only what the C library lacks is built.
 * Flow:	Speed: copies and fills move quadwords by "rep movsq/stosq": an emulated CPU takes
 *		one step per unit, so byte-wise "rep movsb" would cost eight times as much.
 */
#define LIB_STRING_DEFINES
#include <lib/string.h>

size_t strlcpy(char *dst, const char *src, size_t size)
{
	const size_t len = strlen(src);

	if (size) {
		const size_t n = MIN(len, size - 1);

		memcpy(dst, src, n);
		dst[n] = '\0';
	}
	return len;
}

bool str_has_prefix(const char *s, const char *prefix)
{
	while (*prefix) {
		if (*s++ != *prefix++)
			return false;
	}
	return true;
}

/* One alternative, which ends at '\0' or ','. On a mismatch the last '*' takes one byte more. */
static bool glob_match_one(const char *pat, const char *s)
{
	const char *star = NULL;
	const char *star_s = NULL;

	while (*s) {
		if (*pat == '*') {
			star = ++pat;
			star_s = s;
		} else if (*pat && *pat != ',' && (*pat == '?' || *pat == *s)) {
			pat++;
			s++;
		} else if (star) {
			pat = star;
			s = ++star_s;
		} else {
			return false;
		}
	}
	while (*pat == '*')
		pat++;
	return *pat == '\0' || *pat == ',';
}

bool str_glob_match(const char *pattern, const char *s)
{
	for (;;) {
		if (glob_match_one(pattern, s))
			return true;
		while (*pattern && *pattern != ',')
			pattern++;
		if (!*pattern)
			return false;
		pattern++;
	}
}

#ifndef __TESSERA_HOST__

/* A quadword at any address that may alias anything. */
typedef uint64_t __attribute__((__may_alias__, __aligned__(1))) any_u64;

/* Below this many bytes a plain loop beats the start-up cost of "rep". */
# define REP_MIN 64

/* Lowest address first, so it also serves a move to a lower address. */
static void copy_forward(uint8_t *d, const uint8_t *s, size_t n)
{
	if (n >= REP_MIN) {
		size_t words = n / 8;

		__asm__ volatile("rep movsq" : "+D"(d), "+S"(s), "+c"(words) : : "memory");
		n %= 8;
	}
	for (; n >= 8; n -= 8, d += 8, s += 8)
		*(any_u64 *)d = *(const any_u64 *)s;
	while (n--)
		*d++ = *s++;
}

void *memcpy(void *restrict dst, const void *restrict src, size_t n)
{
	copy_forward(dst, src, n);
	return dst;
}

void *memmove(void *dst, const void *src, size_t n)
{
	uint8_t *d = (uint8_t *)dst + n;
	const uint8_t *s = (const uint8_t *)src + n;

	if ((uintptr_t)dst - (uintptr_t)src >= n) { /* @dst is below @src, or they are apart */
		copy_forward(dst, src, n);
		return dst;
	}
	for (; n >= 8; n -= 8) {
		d -= 8;
		s -= 8;
		*(any_u64 *)d = *(const any_u64 *)s;
	}
	while (n--)
		*--d = *--s;
	return dst;
}

void *memset(void *dst, int c, size_t n)
{
	const uint64_t fill = 0x0101010101010101ULL * (uint8_t)c;
	uint8_t *d = dst;

	if (n >= REP_MIN) {
		size_t words = n / 8;

		__asm__ volatile("rep stosq" : "+D"(d), "+c"(words) : "a"(fill) : "memory");
		n %= 8;
	}
	for (; n >= 8; n -= 8, d += 8)
		*(any_u64 *)d = fill;
	while (n--)
		*d++ = (uint8_t)c;
	return dst;
}

int memcmp(const void *a, const void *b, size_t n)
{
	const uint8_t *x = a;
	const uint8_t *y = b;

	for (; n >= 8 && *(const any_u64 *)x == *(const any_u64 *)y; n -= 8) {
		x += 8;
		y += 8;
	}
	for (; n; n--, x++, y++) {
		if (*x != *y)
			return *x - *y;
	}
	return 0;
}

void *memchr(const void *s, int c, size_t n)
{
	for (const uint8_t *p = s; n--; p++) {
		if (*p == (uint8_t)c)
			return (void *)(uintptr_t)p;
	}
	return NULL;
}

size_t strlen(const char *s)
{
	const char *p = s;

	while (*p)
		p++;
	return (size_t)(p - s);
}

size_t strnlen(const char *s, size_t max)
{
	size_t n = 0;

	while (n < max && s[n])
		n++;
	return n;
}

int strcmp(const char *a, const char *b)
{
	while (*a && *a == *b) {
		a++;
		b++;
	}
	return (uint8_t)*a - (uint8_t)*b;
}

int strncmp(const char *a, const char *b, size_t n)
{
	for (; n; n--, a++, b++) {
		if (*a != *b || !*a)
			return (uint8_t)*a - (uint8_t)*b;
	}
	return 0;
}

static int to_lower(char c)
{
	return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : (uint8_t)c;
}

int strcasecmp(const char *a, const char *b)
{
	while (*a && to_lower(*a) == to_lower(*b)) {
		a++;
		b++;
	}
	return to_lower(*a) - to_lower(*b);
}

char *strchrnul(const char *s, int c)
{
	while (*s && *s != (char)c)
		s++;
	return (char *)(uintptr_t)s;
}

char *strchr(const char *s, int c)
{
	char *p = strchrnul(s, c);

	return *p == (char)c ? p : NULL;
}

char *strrchr(const char *s, int c)
{
	const char *last = NULL;

	do {
		if (*s == (char)c)
			last = s;
	} while (*s++);
	return (char *)(uintptr_t)last;
}

char *strstr(const char *s, const char *sub)
{
	for (;; s++) {
		if (str_has_prefix(s, sub))
			return (char *)(uintptr_t)s;
		if (!*s)
			return NULL;
	}
}

size_t strcspn(const char *s, const char *set)
{
	size_t n = 0;

	while (s[n] && !strchr(set, s[n]))
		n++;
	return n;
}

#endif /* !__TESSERA_HOST__ */
