/* SPDX-License-Identifier: MIT */
/*
 * The part of Check, a framework for tests in C, that lwIP's unit tests use: they run by KTEST, see
 * lwip_unit_test.c. A test that fails ends at once.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define CHECK_MAJOR_VERSION 0
#define CHECK_MINOR_VERSION 15

typedef void (*SFun)(void);

typedef struct TTest {
	const char *name;
	void (*run)(int i);
} TTest;

typedef struct Suite Suite;

#define START_TEST(test)                                                     \
	static void test##_run(int _i);                                      \
	static const TTest test##_is = { #test, test##_run };                \
	static const TTest *const test __attribute__((unused)) = &test##_is; \
	static void test##_run(int _i __attribute__((unused)))
#define END_TEST

void unit_fail(const char *file, int line, const char *what) __attribute__((noreturn));

#define fail_if(cond, ...)                                    \
	do {                                                  \
		if (cond)                                     \
			unit_fail(__FILE__, __LINE__, #cond); \
	} while (0)
#define fail_unless(cond, ...)                                \
	do {                                                  \
		if (!(cond))                                  \
			unit_fail(__FILE__, __LINE__, #cond); \
	} while (0)
#define fail(...)               unit_fail(__FILE__, __LINE__, "fail()")
#define ck_assert(cond)         fail_unless(cond)
#define ck_assert_int_eq(a, b)  fail_unless((a) == (b))
#define ck_assert_uint_eq(a, b) fail_unless((a) == (b))
