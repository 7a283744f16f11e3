/* SPDX-License-Identifier: MIT */
/*
 * The surroundings of pipes and locks: tasks with credentials, and files without descriptors.
 */
#pragma once

#include <processor/vfs/file.h>

struct kmem_account;

/*
 * Let the calling thread be a task of user @uid, whose program has fake_account (NULL: it is
 * charged for nothing).
 */
void fake_task(uint32_t uid);
extern struct kmem_account *fake_account;
extern unsigned int fake_sigpipes; /* atomic */
