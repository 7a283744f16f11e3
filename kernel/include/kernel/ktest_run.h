/* SPDX-License-Identifier: MIT */
/*
 * The in-kernel test runner (boot parameter ktest=).
 */
#pragma once

#include <lib/types.h>

bool ktest_requested(void);
/* Run what the parameter names and leave the machine with the result. */
void ktest_run_and_exit(void) __attribute__((noreturn));

/* ubsan.c: undefined behaviour that it has reported so far. */
unsigned int ubsan_report_count(void);
