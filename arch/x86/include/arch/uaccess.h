/* SPDX-License-Identifier: MIT */
/*
 * Access to user memory of the current thread.
 *
 * Context:	a user thread, preemption on; may sleep (a fault may fetch a line).
 * Failure:	-EFAULT when the range leaves user space or a page cannot be had;
 *		how much was copied by then is not specified, except for the
 *		_partial forms, which return the number of bytes NOT copied.
 */
#pragma once

#include <arch/layout.h>
#include <lib/compiler.h>
#include <lib/types.h>

static inline bool user_range_ok(uint64_t uaddr, size_t len)
{
	return uaddr <= USER_TOP && len <= USER_TOP - uaddr;
}

int copy_from_user(void *dst, const void __user *src, size_t len) __must_check;
int copy_to_user(void __user *dst, const void *src, size_t len) __must_check;
size_t copy_from_user_partial(void *dst, const void __user *src, size_t len) __must_check;
size_t copy_to_user_partial(void __user *dst, const void *src, size_t len) __must_check;
size_t clear_user_partial(void __user *dst, size_t len) __must_check;
/*
 * Copy a NUL-terminated string of at most @size bytes with its NUL.  Returns
 * its length without the NUL, -EFAULT, or -ENAMETOOLONG when no NUL was found.
 */
ssize_t strncpy_from_user(char *dst, const char __user *src, size_t size) __must_check;
int get_user_u32(uint32_t *val, const void __user *src) __must_check;
int get_user_u64(uint64_t *val, const void __user *src) __must_check;
int put_user_u32(uint32_t val, void __user *dst) __must_check;
int put_user_u64(uint64_t val, void __user *dst) __must_check;
/*
 * Until user_faults_on(), which must come, the current thread's accesses to user memory fail where
 * they would fault, and never sleep. For a thread that holds what a fault may wait for. They nest.
 */
void user_faults_off(void);
void user_faults_on(void);
/* Atomic compare-and-exchange on a user word (futex); *old gets what was there. */
int cmpxchg_user_u32(uint32_t *old, void __user *dst, uint32_t expect, uint32_t val) __must_check;
