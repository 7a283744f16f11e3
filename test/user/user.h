/* SPDX-License-Identifier: MIT */
/*
 * Shared by the guest programs: they print the same on Tessera as on Linux, so that a test can
 * compare byte for byte, and end with status 1 and one line on stderr when they find a fault
 * themselves.
 */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAGE 4096UL
#define MB   (1UL << 20)

__attribute__((noreturn, format(printf, 1, 2))) static inline void die(const char *fmt, ...)
{
	va_list ap;

	fflush(stdout);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(1);
}

#define CHECK(cond)                                                                    \
	do {                                                                           \
		if (!(cond))                                                           \
			die("%s:%d: %s (errno %d)", __FILE__, __LINE__, #cond, errno); \
	} while (0)

/* Do it, and print what it was and what came of it. */
#define T(e)                                                        \
	do {                                                        \
		errno = 0;                                          \
		const long r_ = (long)(e);                          \
		printf("%s = %ld%s%s\n", #e, r_, r_ < 0 ? " " : "", \
		       r_ < 0 ? strerror(errno) : "");              \
	} while (0)

/* A new file with @text. -1, and errno. */
static inline int make_file(const char *path, const char *text)
{
	const int fd = open(path, O_CREAT | O_EXCL | O_WRONLY, 0644);
	const ssize_t len = fd < 0 ? -1 : write(fd, text, strlen(text));

	if (fd >= 0)
		close(fd);
	return len < 0 ? -1 : 0;
}

/* Repeatable numbers. */
static inline uint64_t next_random(uint64_t *state)
{
	uint64_t x = *state;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return *state = x;
}

#define HASH_INIT 0xcbf29ce484222325UL

static inline uint64_t hash_word(uint64_t h, uint64_t v)
{
	return (h ^ v) * 0x100000001b3UL;
}

static inline uint64_t hash_bytes(uint64_t h, const void *p, size_t len)
{
	const unsigned char *b = p;

	for (size_t i = 0; i < len; i++)
		h = hash_word(h, b[i]);
	return h;
}

static inline unsigned long arg_number(int argc, char **argv, int i, unsigned long missing)
{
	return i < argc ? strtoul(argv[i], NULL, 0) : missing;
}
