/* SPDX-License-Identifier: MIT */
/*
 * Host shim: kmalloc, slab caches and vmalloc over malloc, so that AddressSanitizer sees every
 * object; with failure on demand.
 */
#include <malloc.h>
#include <stdlib.h>

#include <kernel/panic.h>
#include <lib/alloc.h>
#include <lib/string.h>
#include <mm/kmap.h>
#include <mm/slab.h>
#include <shim/shim.h>

struct kmem_cache {
	size_t size;
	size_t align;
	size_t in_use; /* atomic */
};

static long fail_after = -1;
static size_t nr_live;
static size_t bytes_live;

void shim_fail_alloc_after(long n)
{
	__atomic_store_n(&fail_after, n, __ATOMIC_SEQ_CST);
}

static bool must_fail(void)
{
	long left = __atomic_load_n(&fail_after, __ATOMIC_SEQ_CST);

	while (left > 0 && !__atomic_compare_exchange_n(&fail_after, &left, left - 1, false,
							__ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
	}
	return left == 0;
}

static void *get(size_t size, size_t align)
{
	void *p;

	if (must_fail())
		return NULL;
	if (posix_memalign(&p, MAX(align, sizeof(void *)), size ? size : 1) != 0)
		return NULL;
	__atomic_fetch_add(&nr_live, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&bytes_live, malloc_usable_size(p), __ATOMIC_RELAXED);
	return p;
}

static void put(const void *p)
{
	void *q = (void *)(uintptr_t)p;

	if (!p)
		return;
	__atomic_fetch_sub(&nr_live, 1, __ATOMIC_RELAXED);
	__atomic_fetch_sub(&bytes_live, malloc_usable_size(q), __ATOMIC_RELAXED);
	free(q);
}

/* As the kernel promises: the size's power of two, from 16 up to a page. */
static size_t kmalloc_align(size_t size)
{
	size_t align = 16;

	while (align < size && align < PAGE_SIZE)
		align *= 2;
	return align;
}

void *kmalloc(size_t size)
{
	return get(size, kmalloc_align(size));
}

void *kzalloc(size_t size)
{
	void *p = kmalloc(size);

	return p ? memset(p, 0, size) : NULL;
}

void *kcalloc(size_t n, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(n, size, &bytes))
		return NULL;
	return kzalloc(bytes);
}

void *krealloc(void *p, size_t size)
{
	void *q = kmalloc(size);

	if (q && p) {
		memcpy(q, p, MIN(size, malloc_usable_size(p)));
		put(p);
	}
	return q;
}

void kfree(const void *p)
{
	put(p);
}

size_t ksize(const void *p)
{
	return malloc_usable_size((void *)(uintptr_t)p);
}

char *kstrdup(const char *s)
{
	const size_t len = strlen(s) + 1;
	char *p = kmalloc(len);

	return p ? memcpy(p, s, len) : NULL;
}

struct kmem_cache *kmem_cache_create(const char *name, size_t size, size_t align)
{
	struct kmem_cache *c = get(sizeof(*c), 16);

	(void)name;
	if (c)
		*c = (struct kmem_cache){ .size = size, .align = align ? align : 16 };
	return c;
}

void kmem_cache_destroy(struct kmem_cache *c)
{
	BUG_ON(kmem_cache_in_use(c) != 0);
	put(c);
}

void *kmem_cache_alloc(struct kmem_cache *c)
{
	void *p = get(c->size, c->align);

	if (p)
		__atomic_fetch_add(&c->in_use, 1, __ATOMIC_RELAXED);
	return p;
}

void kmem_cache_free(struct kmem_cache *c, void *obj)
{
	if (!obj)
		return;
	__atomic_fetch_sub(&c->in_use, 1, __ATOMIC_RELAXED);
	put(obj);
}

size_t kmem_cache_in_use(const struct kmem_cache *c)
{
	return __atomic_load_n(&c->in_use, __ATOMIC_RELAXED);
}

size_t shim_allocs_live(void)
{
	return __atomic_load_n(&nr_live, __ATOMIC_RELAXED);
}

size_t slab_bytes_in_use(void)
{
	return __atomic_load_n(&bytes_live, __ATOMIC_RELAXED);
}

static void lib_put(void *p)
{
	put(p);
}

static const struct lib_alloc_ops slab_ops = { .alloc = kmalloc, .free = lib_put };

static void __attribute__((constructor)) use_slab_in_lib(void)
{
	lib_alloc_set_ops(&slab_ops);
}

void *vmalloc(size_t len)
{
	void *p = get(ALIGN_UP(len, PAGE_SIZE), PAGE_SIZE);

	return p ? memset(p, 0, len) : NULL;
}

void vfree(const void *p)
{
	put(p);
}

/* Consistent with phys_to_virt(), which is all that a host test can ask for. */
paddr_t vmalloc_to_phys(const void *p)
{
	return virt_to_phys(p);
}

/* There is no device memory on the host: a test maps its fake device itself. */
void __iomem *mmio_map(paddr_t paddr, size_t len)
{
	(void)len;
	return phys_to_virt(paddr);
}

void __iomem *mmio_map_wc(paddr_t paddr, size_t len)
{
	return mmio_map(paddr, len);
}

void mmio_unmap(volatile void __iomem *addr)
{
	(void)addr;
}
