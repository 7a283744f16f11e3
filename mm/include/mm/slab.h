/* SPDX-License-Identifier: MIT */
/*
 * Slab allocator and kmalloc.
 *
 * kmalloc() serves any size: up to 2 KiB from size classes, above that whole
 * pages from the frame allocator.  All memory is in the direct map and
 * physically contiguous.  Alignment: 16 bytes, from 64 bytes on a cache line
 * (64), from 2 KiB on a page.
 * Context:	anywhere, interrupt handlers included; never sleeps.
 * Failure:	NULL.
 *		Debug: with CONFIG_DEBUG, freed objects are poisoned and every object has a
 *		red zone; overruns, use after free (on reallocation) and double frees
 *		panic with the cache's name.
 */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>

struct kmem_cache;

void *kmalloc(size_t size) __attribute__((malloc));
void *kzalloc(size_t size) __attribute__((malloc));
/* Checks the product for overflow. */
void *kcalloc(size_t n, size_t size) __attribute__((malloc));
/* Keeps the contents up to the smaller size; on NULL the old block stays. */
void *krealloc(void *p, size_t size);
void kfree(const void *p);
/* Usable bytes behind @p. */
size_t ksize(const void *p);
char *kstrdup(const char *s);

/* @align: a power of two or 0 for the default.  ERR-free: NULL when out of memory. */
struct kmem_cache *kmem_cache_create(const char *name, size_t size, size_t align);
void *kmem_cache_alloc(struct kmem_cache *c);
void kmem_cache_free(struct kmem_cache *c, void *obj);
/* Objects in use, for leak tests. */
size_t kmem_cache_in_use(const struct kmem_cache *c);
/* For tests: the kernel's own caches stay. Every object must have been freed. */
void kmem_cache_destroy(struct kmem_cache *c);

void slab_init(void);
/* Bytes handed out by kmalloc and all caches. */
size_t slab_bytes_in_use(void);
