/* SPDX-License-Identifier: MIT */
/*
 * Host shim of <kernel/lock_debug.h>: locks are checked in every configuration.
 */
#pragma once

#include <lib/types.h>

#define LOCK_DEBUG_TRY    0x1u
#define LOCK_DEBUG_SHARED 0x2u

#define lock_not_needed(lock, why) ((void)0)

void lock_debug_assert_held(const void *lock, const char *name, uint32_t how);
