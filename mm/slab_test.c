/* SPDX-License-Identifier: MIT */
#include <lib/ktest.h>
#include <lib/string.h>
#include <mm/frame.h>
#include <mm/kmap.h>
#include <mm/slab.h>

static void every_size(struct ktest *t)
{
	static const size_t sizes[] = {
		0,    1,    15,   16,   17,   64,   65,    100,     255,
		1000, 2047, 2048, 2049, 4096, 4097, 70000, 1 << 20, 3 << 20
	};
	const size_t before = slab_bytes_in_use();

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		uint8_t *p = kmalloc(sizes[i]);

		ASSERT_TRUE(t, p != NULL);
		EXPECT_GE(t, ksize(p), sizes[i]);
		EXPECT_EQ(t,
			  (uintptr_t)p % (sizes[i] > 2048  ? PAGE_SIZE
					  : sizes[i] >= 64 ? 64
							   : 16),
			  0);
		memset(p, 0xee, sizes[i]);
		kfree(p);
	}
	EXPECT_EQ(t, slab_bytes_in_use(), before);
	kfree(NULL);
}

static void too_large_is_null(struct ktest *t)
{
	EXPECT_TRUE(t, kmalloc(SIZE_MAX) == NULL);
	EXPECT_TRUE(t, kmalloc(1ul << 40) == NULL);
	EXPECT_TRUE(t, kcalloc(SIZE_MAX / 2, 4) == NULL);
	EXPECT_TRUE(t, kmem_cache_create("huge", 1ul << 30, 0) == NULL);
	EXPECT_TRUE(t, kmem_cache_create("odd", 64, 3) == NULL);
}

static void objects_do_not_overlap(struct ktest *t)
{
	static uint64_t *objs[500];
	struct kmem_cache *c = kmem_cache_create("test-72", 72, 8);

	ASSERT_TRUE(t, c != NULL);
	for (unsigned int i = 0; i < ARRAY_SIZE(objs); i++) {
		objs[i] = kmem_cache_alloc(c);
		ASSERT_TRUE(t, objs[i] != NULL);
		for (unsigned int k = 0; k < 9; k++)
			objs[i][k] = i;
	}
	EXPECT_EQ(t, kmem_cache_in_use(c), ARRAY_SIZE(objs));
	for (unsigned int i = 0; i < ARRAY_SIZE(objs); i++) {
		for (unsigned int k = 0; k < 9; k++)
			EXPECT_EQ(t, objs[i][k], i);
	}
	/* Free every other one, take them again, free all. */
	for (unsigned int i = 0; i < ARRAY_SIZE(objs); i += 2)
		kmem_cache_free(c, objs[i]);
	for (unsigned int i = 0; i < ARRAY_SIZE(objs); i += 2)
		objs[i] = kmem_cache_alloc(c);
	for (unsigned int i = 0; i < ARRAY_SIZE(objs); i++)
		kmem_cache_free(c, objs[i]);
	EXPECT_EQ(t, kmem_cache_in_use(c), 0);
	kmem_cache_destroy(c);
}

static void all_frames_come_back(struct ktest *t)
{
	struct kmem_cache *c = kmem_cache_create("test-big", 3000, 64);
	const uint64_t before = frames_free_count();
	void *objs[40];

	ASSERT_TRUE(t, c != NULL);
	for (unsigned int i = 0; i < ARRAY_SIZE(objs); i++)
		objs[i] = kmem_cache_alloc(c);
	EXPECT_LT(t, frames_free_count(), before);
	for (unsigned int i = 0; i < ARRAY_SIZE(objs); i++)
		kmem_cache_free(c, objs[i]);
	kmem_cache_destroy(c);
	EXPECT_EQ(t, frames_free_count(), before);
}

static void realloc_keeps_contents(struct ktest *t)
{
	char *p = kstrdup("tessera");

	ASSERT_TRUE(t, p != NULL);
	p = krealloc(p, 5000);
	ASSERT_TRUE(t, p != NULL);
	EXPECT_STREQ(t, p, "tessera");
	p = krealloc(p, 10);
	ASSERT_TRUE(t, p != NULL);
	EXPECT_STREQ(t, p, "tessera");
	EXPECT_LE(t, ksize(p), 32);
	kfree(p);
}

static void exhaustion_is_null(struct ktest *t)
{
	const uint64_t before = frames_free_count();
	void **chain = NULL;
	void **p;

	while ((p = kmalloc(256 * 1024))) {
		*p = chain;
		chain = p;
	}
	EXPECT_TRUE(t, vmalloc(64 << 20) == NULL);
	while (chain) {
		p = *chain;
		kfree(chain);
		chain = p;
	}
	/* vmalloc may have made kernel table pages, which stay. */
	EXPECT_GE(t, frames_free_count() + 64, before);
}

static void vmalloc_ranges(struct ktest *t)
{
	uint8_t *a = vmalloc(10000);
	uint8_t *b = vmalloc(1);
	paddr_t pages[2];
	uint64_t *v;

	ASSERT_TRUE(t, a && b);
	EXPECT_EQ(t, (uintptr_t)a & PAGE_MASK_LOW, 0);
	for (unsigned int i = 0; i < 10000; i++)
		ASSERT_EQ(t, a[i], 0);
	memset(a, 0x5a, 3 * PAGE_SIZE);
	EXPECT_EQ(t, b[0], 0);
	pages[0] = vmalloc_to_phys(a + PAGE_SIZE);
	pages[1] = vmalloc_to_phys(a);
	v = vmap(pages, 2);
	ASSERT_TRUE(t, v != NULL);
	v[0] = 1;
	v[PAGE_SIZE / 8] = 2;
	EXPECT_EQ(t, *(uint64_t *)(void *)a, 2);
	EXPECT_EQ(t, *(uint64_t *)(void *)(a + PAGE_SIZE), 1);
	vunmap(v);
	EXPECT_EQ(t, vmalloc_to_phys(v), ~0ul);
	vfree(a);
	vfree(b);
	EXPECT_TRUE(t, vmalloc(0) == NULL);
	EXPECT_TRUE(t, vmalloc(1ul << 50) == NULL);
}

static void dma_memory(struct ktest *t)
{
	const uint64_t before = frames_free_count();
	paddr_t paddr;
	uint64_t *p = dma_alloc(5 * PAGE_SIZE + 1, &paddr);

	ASSERT_TRUE(t, p != NULL);
	EXPECT_EQ(t, paddr & PAGE_MASK_LOW, 0);
	EXPECT_EQ(t, virt_to_phys(p), paddr);
	for (unsigned int i = 0; i < 6 * PAGE_SIZE / 8; i++)
		ASSERT_EQ(t, p[i], 0);
	EXPECT_EQ(t, frames_free_count(), before - 6);
	dma_free(p, 5 * PAGE_SIZE + 1);
	EXPECT_EQ(t, frames_free_count(), before);
	EXPECT_TRUE(t, dma_alloc(0, &paddr) == NULL);
}

static const struct ktest_case slab_cases[] = {
	KTEST(every_size),
	KTEST(too_large_is_null),
	KTEST(objects_do_not_overlap),
	KTEST(all_frames_come_back),
	KTEST(realloc_keeps_contents),
	KTEST(exhaustion_is_null),
	KTEST(vmalloc_ranges),
	KTEST(dma_memory),
	{ 0 },
};
static const struct ktest_suite slab_suite = { .name = "mm.slab", .cases = slab_cases };
KTEST_SUITE(slab_suite);
