/* SPDX-License-Identifier: MIT */
/*
 * The owner of an open file: the task, process or process group that signals about the file go to.
 */
#pragma once

#include <lib/compiler.h>
#include <stdint.h>

struct linux_siginfo;

struct file_owner {
	int32_t type;       /* F_OWNER_* */
	uint32_t nr;        /* 0: none */
	uint32_t uid, euid; /* of the task that named it: may it signal the receivers? */
};

/*
 * The calling task names @nr, 0: it takes the name back. -EINVAL: no such type; -ESRCH: nothing has
 * that number.
 */
int owner_make(int32_t type, uint32_t nr, struct file_owner *out) __must_check;
/* The number if that owner is still there, else 0. */
uint32_t owner_number(const struct file_owner *o);
/*
 * Send @info to those of the owner that may be signalled. One whose queue is full gets SIGIO
 * instead of a real-time signal. Any thread.
 */
void owner_signal(const struct file_owner *o, const struct linux_siginfo *info);
