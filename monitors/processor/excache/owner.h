/* SPDX-License-Identifier: MIT */
/* Messages to the owners of pages. */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>

struct vregion;

/*
 * The body of an answer -EREMCHG, which is hostile: entry *@index of the vRegion array. -EMSGSIZE,
 * -EPROTO.
 */
int owner_redirect_decode(const void *body, size_t len, uint64_t *index, struct vregion *out)
	__must_check;
