/* SPDX-License-Identifier: MIT */
/*
 * Pins: what a fault of user memory may have to wait for.
 *
 * Flow:	a thread that takes such a thing says so, and again when it has given it back; the
 *		fault path asserts that its thread has none. So a copy to or from user memory under
 *		a pin is made with faults off (user_faults_off()), or debug builds end.
 * Context:	the thread that has taken a pin gives it back.
 */
#pragma once

#include <kernel/thread.h>
#include <lib/assert.h>

#ifdef CONFIG_DEBUG
static inline void pin_taken(void)
{
	thread_current()->nr_pins++;
}

static inline void pin_given_back(void)
{
	ASSERT(thread_current()->nr_pins > 0);
	thread_current()->nr_pins--;
}

static inline void assert_no_pins(void)
{
	ASSERT(thread_current()->nr_pins == 0);
}
#else
static inline void pin_taken(void)
{
}

static inline void pin_given_back(void)
{
}

static inline void assert_no_pins(void)
{
}
#endif
