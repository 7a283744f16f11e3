/* SPDX-License-Identifier: MIT */
/*
 * Memory for lib/ code: a table that the layer with an allocator fills in.
 *
 * Locking:	none; the table is set once, before any other CPU or thread runs.
 * Failure:	before the table is set every allocation fails.
 */
#include <lib/alloc.h>
#include <lib/string.h>

#ifdef __TESSERA_HOST__
# include <stdlib.h>

static const struct lib_alloc_ops host_ops = { .alloc = malloc, .free = free };
static const struct lib_alloc_ops *alloc_ops = &host_ops;
#else
static const struct lib_alloc_ops *alloc_ops;
#endif

void lib_alloc_set_ops(const struct lib_alloc_ops *ops)
{
	alloc_ops = ops;
}

void *lib_alloc(size_t size)
{
	return alloc_ops ? alloc_ops->alloc(size) : NULL;
}

void *lib_zalloc(size_t size)
{
	void *p = lib_alloc(size);

	if (p)
		memset(p, 0, size);
	return p;
}

void lib_free(void *p)
{
	if (p)
		alloc_ops->free(p);
}
