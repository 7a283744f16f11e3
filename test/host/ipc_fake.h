/* SPDX-License-Identifier: MIT */
/*
 * The surroundings of pipes and locks: tasks with credentials, and files without descriptors.
 */
#pragma once

#include <kernel/wait.h>
#include <processor/vfs/file.h>

struct kmem_account;

/*
 * Let the calling thread be a task of user @uid, whose program has fake_account (NULL: it is
 * charged for nothing).
 */
void fake_task(uint32_t uid);
extern struct kmem_account *fake_account;
extern unsigned int fake_sigpipes; /* atomic */

/* Threads that sleep at @wq. */
unsigned int fake_sleepers(struct waitqueue *wq);

/*
 * User memory on a silent node: after fake_slow_begin() the first copy to or from it waits until
 * fake_slow_answer().
 */
extern uint8_t fake_slow_page[PAGE_SIZE];
void fake_slow_begin(void);
void fake_slow_answer(void);
/* For the thread that copies: wait for fake_slow_go(). */
void fake_slow_wait(void);
/* For a watcher, or called with NULL: let that thread go on, and wait until it waits. True. */
bool fake_slow_go(struct watcher *w);

/* inode_getattr() calls it; NULL: there are no attributes. */
struct file_attr;
struct inode;
extern int (*fake_getattr)(struct inode *inode, struct file_attr *attr);
