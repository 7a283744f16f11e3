/* SPDX-License-Identifier: MIT */
/*
 * Signal frames on the user's stack, as Linux lays them out on x86-64.
 */
#pragma once

#include <lib/compiler.h>

#include "signal.h"

/* Push a frame and point @regs at the handler. -EFAULT: the stack cannot be written. */
int signal_frame_push(struct pt_regs *regs, const struct linux_siginfo *info,
		      const struct linux_sigaction *act, uint64_t old_mask) __must_check;
