/* SPDX-License-Identifier: MIT */
/*
 * Host shim: the frame allocator, over an arena that is mapped where <arch/layout.h> says.
 *
 * A free frame is poisoned for AddressSanitizer, so use after free is caught.
 *
 * Locking:	frames_lock, a leaf.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <kernel/panic.h>
#include <lib/bitmap.h>
#include <lib/string.h>
#include <mm/frame.h>
#include <mm/kmap.h>
#include <shim/shim.h>

#ifdef __SANITIZE_ADDRESS__
# include <sanitizer/asan_interface.h>
#else
# define ASAN_POISON_MEMORY_REGION(p, n)   ((void)(p), (void)(n))
# define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif

/* Physical address 0 and the first megabytes are nobody's, as on the machine. */
#define ARENA_FIRST_PFN 4096ULL
#define ARENA_DEFAULT   (256ULL << 20)

struct frame *frame_table;
pfn_t frame_max_pfn;

static pthread_mutex_t frames_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t *used;     /* bit per frame of the arena; frames_lock */
static uint64_t nr_frames; /* in the arena */
static uint64_t nr_used;   /* frames_lock */
static uint64_t hint;      /* no free frame below; frames_lock */
static long fail_after = -1;

static void *arena_base(void)
{
	return phys_to_virt(ARENA_FIRST_PFN << PAGE_SHIFT);
}

static void arena_map(uint64_t bytes)
{
	void *at;

	nr_frames = bytes >> PAGE_SHIFT;
	frame_max_pfn = ARENA_FIRST_PFN + nr_frames;
	at = mmap(arena_base(), bytes, PROT_READ | PROT_WRITE,
		  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
	frame_table = mmap(NULL, frame_max_pfn * sizeof(struct frame), PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	used = calloc(BITMAP_WORDS(nr_frames), sizeof(*used));
	if (at != arena_base() || frame_table == MAP_FAILED || !used) {
		perror("shim: frame arena");
		abort();
	}
	hint = 0;
	ASAN_POISON_MEMORY_REGION(at, bytes);
}

static void __attribute__((constructor)) arena_start(void)
{
	arena_map(ARENA_DEFAULT);
}

static void __attribute__((destructor)) arena_stop(void)
{
	free(used);
	used = NULL;
}

void shim_frames_init(uint64_t bytes)
{
	BUG_ON(nr_used != 0);
	ASAN_UNPOISON_MEMORY_REGION(arena_base(), nr_frames << PAGE_SHIFT);
	munmap(arena_base(), nr_frames << PAGE_SHIFT);
	munmap(frame_table, frame_max_pfn * sizeof(struct frame));
	free(used);
	arena_map(bytes);
}

void shim_fail_frame_after(long n)
{
	__atomic_store_n(&fail_after, n, __ATOMIC_SEQ_CST);
}

/* Is this allocation one that the test wants to fail?  frames_lock is held. */
static bool must_fail(void)
{
	if (fail_after < 0)
		return false;
	if (fail_after == 0)
		return true;
	fail_after--;
	return false;
}

struct frame *frame_alloc_contig(uint64_t nr_pages, uint64_t align_pages)
{
	struct frame *f = NULL;
	uint64_t at = nr_frames;

	pthread_mutex_lock(&frames_lock);
	if (nr_pages && nr_pages <= nr_frames && !must_fail())
		at = bitmap_find_zero_area(used, nr_frames, hint, nr_pages,
					   MIN(align_pages, ARENA_FIRST_PFN));
	if (at < nr_frames) {
		bitmap_set_range(used, at, nr_pages);
		nr_used += nr_pages;
		hint = bitmap_find_next_zero(used, nr_frames, hint);
		f = &frame_table[ARENA_FIRST_PFN + at];
		*f = (struct frame){ .state = FRAME_USED };
		list_init(&f->link);
		for (uint64_t i = 1; i < nr_pages; i++)
			f[i] = (struct frame){ .state = FRAME_TAIL };
		ASAN_UNPOISON_MEMORY_REGION(frame_to_virt(f), nr_pages << PAGE_SHIFT);
	}
	pthread_mutex_unlock(&frames_lock);
	return f;
}

static void give_back(struct frame *f, uint64_t nr_pages)
{
	const uint64_t at = frame_to_pfn(f) - ARENA_FIRST_PFN;

	pthread_mutex_lock(&frames_lock);
	for (uint64_t i = 0; i < nr_pages; i++) {
		if (!bitmap_test(used, at + i))
			panic("frame %#lx freed twice", (unsigned long)(frame_to_pfn(f) + i));
		f[i] = (struct frame){ .state = FRAME_FREE };
	}
	bitmap_clear_range(used, at, nr_pages);
	nr_used -= nr_pages;
	hint = MIN(hint, at);
	ASAN_POISON_MEMORY_REGION(frame_to_virt(f), nr_pages << PAGE_SHIFT);
	pthread_mutex_unlock(&frames_lock);
}

void frame_free_contig(struct frame *f, uint64_t nr_pages)
{
	BUG_ON(f->state != FRAME_USED);
	give_back(f, nr_pages);
}

struct frame *frame_alloc(unsigned int order, unsigned int flags)
{
	struct frame *f;

	if (order > FRAME_MAX_ORDER)
		return NULL;
	f = frame_alloc_contig(1ULL << order, 1ULL << order);
	if (!f)
		return NULL;
	f->order = (uint8_t)order;
	if (flags & FRAME_ZERO)
		memset(frame_to_virt(f), 0, PAGE_SIZE << order);
	else
		memset(frame_to_virt(f), 0xa5,
		       PAGE_SIZE << order); /* code that relies on zeroes sees it */
	return f;
}

void frame_free(struct frame *f, unsigned int order)
{
	if (f->state != FRAME_USED)
		panic("frame %#lx freed twice", (unsigned long)frame_to_pfn(f));
	BUG_ON(f->order != order);
	give_back(f, 1ULL << order);
}

uint64_t frames_free_count(void)
{
	return nr_frames - __atomic_load_n(&nr_used, __ATOMIC_RELAXED);
}

uint64_t frames_total_count(void)
{
	return nr_frames;
}

void clear_page(void *page)
{
	memset(page, 0, PAGE_SIZE);
}

void copy_page(void *dst, const void *src)
{
	memcpy(dst, src, PAGE_SIZE);
}

unsigned int frame_check(void)
{
	return 0;
}

void *dma_alloc(size_t size, paddr_t *paddr)
{
	const uint64_t nr = DIV_ROUND_UP(size, PAGE_SIZE);
	struct frame *f = frame_alloc_contig(nr, 1);

	if (!f)
		return NULL;
	*paddr = frame_to_paddr(f);
	return memset(frame_to_virt(f), 0, nr << PAGE_SHIFT);
}

void dma_free(void *p, size_t size)
{
	frame_free_contig(virt_to_frame(p), DIV_ROUND_UP(size, PAGE_SIZE));
}
