/* SPDX-License-Identifier: MIT */
/*
 * Questions of other parts of the managers' service to the host's table of members.
 *
 * Context:	threads that may sleep, without locks.
 */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>

/*
 * May this incarnation of a processor speak about @vnode? -ESTALE: it is no member; -EACCES: GPM
 * has not placed the vNode there.
 */
int host_vnode_check(uint32_t vnode, uint32_t node, uint32_t incarn) __must_check;
/*
 * This host was started again, and for as long as a lease lasts a processor of the view may still
 * come that @knows does not know.
 */
bool host_awaits_processors(bool (*knows)(uint32_t node, uint32_t incarn));
