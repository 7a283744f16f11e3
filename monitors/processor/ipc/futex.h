/* SPDX-License-Identifier: MIT */
/*
 * Futexes: what other parts need of them.
 */
#pragma once

#include <lib/types.h>

struct aspace;
struct task;

void futex_init(void);
/* Wake up to @nr waiters of the word at @addr; returns how many. */
unsigned int futex_wake_addr(struct aspace *as, uint64_t addr, unsigned int nr);
/*
 * The calling task @ends, or calls exec: mutexes on its robust list that it still holds are marked,
 * and a waiter of each is woken; those that lend priority go to their waiters. Before
 * clear_child_tid, with the address space still there. May sleep.
 */
void futex_task_exit(struct task *t, bool ends);
