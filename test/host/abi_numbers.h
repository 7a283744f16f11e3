/* SPDX-License-Identifier: MIT */
/*
 * Between abi_test.c and the two files that know Linux's numbers: abi_uapi.c from the kernel's
 * headers, abi_libc.c from the C library's, which has some that the former lack.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The elements are made by abi.mk from <abi/...>: the same names in all three tables. */
struct abi_number {
	const char *name;
	int64_t value;
	bool known; /* the headers have this name */
};

extern const struct abi_number abi_uapi[], abi_libc[];

#define SAME_SIZE(ours, theirs) \
	static_assert(sizeof(struct linux_##ours) == sizeof(theirs), #ours " differs in size")
#define SAME_MEMBER(ours, a, theirs, b)                                                       \
	static_assert(offsetof(struct linux_##ours, a) == offsetof(theirs, b), #ours "." #a); \
	static_assert(sizeof(((struct linux_##ours *)0)->a) == sizeof(((theirs *)0)->b),      \
		      #ours "." #a " differs in size")
