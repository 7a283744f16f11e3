/* SPDX-License-Identifier: MIT */
/*
 * Memory for lib/ code, which must not know who provides it: the kernel's slab
 * allocator puts its functions here at init; on the host it is malloc.
 */
#pragma once

#include <lib/types.h>

struct lib_alloc_ops {
	void *(*alloc)(size_t size);
	void (*free)(void *p);
};

/* @ops stays in use; call before anything allocates. */
void lib_alloc_set_ops(const struct lib_alloc_ops *ops);

/* NULL when there is no memory. lib_free(NULL) does nothing. */
void *lib_alloc(size_t size) __must_check;
void *lib_zalloc(size_t size) __must_check;
void lib_free(void *p);
