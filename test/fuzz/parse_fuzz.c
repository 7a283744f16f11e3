/* SPDX-License-Identifier: MIT */
/*
 * Fuzz the parsers and the formatter of lib/: whatever parses as a number prints and parses to the
 * same; formatting any text stays inside its buffer and agrees on the length.
 */
#include <stdlib.h>

#include <lib/fmt.h>
#include <lib/string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check_numbers(const char *s)
{
	char text[32];
	uint64_t v;
	uint64_t again;
	int64_t i;
	int64_t j;
	bool b;

	if (kstrtou64(s, 0, &v) == 0) {
		scnprintf(text, sizeof(text), "%#lx", (unsigned long)v);
		if (kstrtou64(text, 0, &again) != 0 || again != v)
			abort();
	}
	if (kstrtos64(s, 10, &i) == 0) {
		scnprintf(text, sizeof(text), "%ld", (long)i);
		if (kstrtos64(text, 10, &j) != 0 || i != j)
			abort();
	}
	(void)(parse_size(s, &v) == 0 && parse_bool(s, &b) == 0);
}

/*
 * A format from outside with integers only: those need no argument of their own but the one given.
 */
static void check_format(const char *s)
{
	char small[16];
	char large[4096];
	char format[64];
	size_t n = 0;
	size_t whole;

	for (; *s && n < sizeof(format) - 3; s++) {
		if (strchr("-+ #0123456789.", *s))
			format[n++] = *s;
	}
	memmove(format + 1, format, n);
	format[0] = '%';
	format[n + 1] = 'd';
	format[n + 2] = '\0';
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-security"
	whole = scnprintf(large, sizeof(large), format, -42);
	n = scnprintf(small, sizeof(small), format, -42);
#pragma GCC diagnostic pop
	if (n > sizeof(small) - 1 || strlen(small) != n || memcmp(small, large, n) != 0)
		abort();
	if (strlen(large) != whole)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	char *s = malloc(len + 1);
	size_t half;

	if (!s)
		return 0;
	memcpy(s, data, len);
	s[len] = '\0';
	check_numbers(s);
	check_format(s);
	half = strlen(s) / 2;
	(void)str_glob_match(s + half, s);
	free(s);
	return 0;
}
