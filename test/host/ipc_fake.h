/* SPDX-License-Identifier: MIT */
/*
 * The surroundings of pipes and locks: tasks with credentials, and files without descriptors.
 */
#pragma once

#include <processor/vfs/file.h>

/* Let the calling thread be a task of user @uid. */
void fake_task(uint32_t uid);
extern unsigned int fake_sigpipes; /* atomic */
