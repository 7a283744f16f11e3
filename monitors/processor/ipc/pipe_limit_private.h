/* SPDX-License-Identifier: MIT */
/*
 * How many pages the pipes of a user, and of the node, may fill.
 */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>

struct kmem_account;
struct pipe_user;

/* Counted; NULL: no memory. */
struct pipe_user *pipe_user_get(uint32_t uid);
void pipe_user_put(struct pipe_user *u);
/*
 * Slots for a new pipe of program @a: @want, fewer for a user who has many, 0 when there are none.
 */
uint32_t pipe_charge_new(struct pipe_user *u, struct kmem_account *a, uint32_t want);
/* -EPERM when a user would have too many, -ENOMEM when the node would. */
int pipe_recharge(struct pipe_user *u, struct kmem_account *a, uint32_t old, uint32_t new)
	__must_check;
void pipe_uncharge(struct pipe_user *u, struct kmem_account *a, uint32_t nr);
