/* SPDX-License-Identifier: MIT */
/*
 * For the tests of file systems on images: a directory of one's own, e2fsprogs' tools in it, and
 * what must hold for a test to mean anything. See image_kit.c.
 */
#pragma once

#include <stdio.h>
#include <stdlib.h>

#include <lib/ktest.h>

/* Not what is tested: the test program ends. */
#define MUST(cond)                                                         \
	do {                                                               \
		if (!(cond)) {                                             \
			fprintf(stderr, "line %d: %s\n", __LINE__, #cond); \
			abort();                                           \
		}                                                          \
	} while (0)

/* The exit status of a shell command, or -1. */
int shell(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* A new directory NAME.XXXXXX, in memory where the host has a file system for that; its path. */
void image_dir(char dir[64], const char *name);
/*
 * e2fsck finds nothing wrong with @name in @dir, or the test fails and its words are shown. At the
 * end of a test (@last) the directory goes, but after a failure.
 */
void image_is_clean(struct ktest *t, const char *dir, const char *name, bool last);
