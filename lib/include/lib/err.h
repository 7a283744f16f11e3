/* SPDX-License-Identifier: MIT */
/*
 * A negative errno carried in a pointer: the last page of the address space
 * is never mapped, so its addresses can stand for errors.
 */
#pragma once

#include <lib/errno.h>
#include <lib/types.h>

#define ERR_MAX 4095

static inline void *__must_check ERR_PTR(long err)
{
	return (void *)(intptr_t)err;
}

static inline long __must_check PTR_ERR(__force const void *ptr)
{
	return (long)(intptr_t)ptr;
}

static inline bool __must_check IS_ERR(__force const void *ptr)
{
	return unlikely((uintptr_t)ptr >= (uintptr_t)-ERR_MAX);
}

static inline bool __must_check IS_ERR_OR_NULL(__force const void *ptr)
{
	return unlikely(!ptr) || IS_ERR(ptr);
}

/* Pass an error pointer on under another pointer type. */
static inline void *__must_check ERR_CAST(const void *ptr)
{
	return (void *)(uintptr_t)ptr;
}

static inline int __must_check PTR_ERR_OR_ZERO(__force const void *ptr)
{
	return IS_ERR(ptr) ? (int)PTR_ERR(ptr) : 0;
}
