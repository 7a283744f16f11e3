/* SPDX-License-Identifier: MIT */
/*
 * The vNode whose lock guards namespaces.
 */
#include <processor/process/process.h>

struct vnode root_vnode = { .lock = SPINLOCK_INIT("vnode", RANK_SPIN_TREE) };
