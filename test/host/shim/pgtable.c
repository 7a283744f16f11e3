/* SPDX-License-Identifier: MIT */
/*
 * Host shim: user page tables as a radix tree of entries, and user memory as plain memory.
 *
 * Threads that call shim_cpu_enter() have a TLB; tests may count flushes. The accessed and dirty
 * bits are set by the test, through shim_pgtable_touch() or shim_cpu_access().
 */
#include <pthread.h>
#include <stdlib.h>

#include <arch/pgtable.h>
#include <arch/uaccess.h>
#include <kernel/panic.h>
#include <kernel/thread.h>
#include <lib/err.h>
#include <lib/radix.h>
#include <lib/string.h>
#include <mm/kmap.h>
#include <mm/slab.h>
#include <shim/pgtable.h>

struct pgtable {
	pthread_mutex_t lock;
	struct radix_tree entries; /* struct pgtable_entry by page number; lock */
	struct radix_tree tables;  /* of 2 MiB each, in which something has been mapped; lock */
	size_t budget;             /* no more of them; lock */
};

#define TABLE_PAGES 512u

unsigned int shim_nr_tlb_flushes;

struct pgtable *pgtable_create(void)
{
	struct pgtable *pt = kzalloc(sizeof(*pt));

	if (!pt)
		return ERR_PTR(-ENOMEM);
	pthread_mutex_init(&pt->lock, NULL);
	radix_init(&pt->entries);
	radix_init(&pt->tables);
	pt->budget = SIZE_MAX;
	return pt;
}

void pgtable_destroy(struct pgtable *pt)
{
	struct pgtable_entry *e;
	uint64_t index;

	radix_for_each(e, &pt->entries, index)
		kfree(e);
	radix_destroy(&pt->entries);
	radix_destroy(&pt->tables);
	pthread_mutex_destroy(&pt->lock);
	kfree(pt);
}

static struct pgtable_entry *find(const struct pgtable *pt, vaddr_t vaddr)
{
	return radix_lookup(&pt->entries, vaddr >> PAGE_SHIFT);
}

static int make_table(struct pgtable *pt, vaddr_t vaddr)
{
	const uint64_t index = (vaddr >> PAGE_SHIFT) / TABLE_PAGES;

	if (radix_lookup(&pt->tables, index))
		return 0;
	return pt->tables.count < pt->budget ? radix_insert(&pt->tables, index, pt) : -EDQUOT;
}

void pgtable_set_budget(struct pgtable *pt, size_t nr)
{
	pt->budget = nr;
}

int pgtable_map(struct pgtable *pt, vaddr_t vaddr, paddr_t paddr, unsigned int prot)
{
	struct pgtable_entry *e;
	int err = 0;

	pthread_mutex_lock(&pt->lock);
	e = find(pt, vaddr);
	if (!e)
		err = make_table(pt, vaddr);
	if (!e && !err) {
		e = kmalloc(sizeof(*e));
		err = e ? radix_insert(&pt->entries, vaddr >> PAGE_SHIFT, e) : -ENOMEM;
	}
	if (err)
		kfree(e);
	else
		*e = (struct pgtable_entry){ .paddr = paddr, .prot = prot, .present = true };
	pthread_mutex_unlock(&pt->lock);
	return err;
}

uint64_t pgtable_map_absent(struct pgtable *pt, vaddr_t vaddr, const paddr_t *frames,
			    unsigned int nr, unsigned int prot)
{
	struct pgtable_entry e;
	uint64_t mapped = 0;

	for (unsigned int i = 0; i < nr; i++, vaddr += PAGE_SIZE) {
		if (frames[i] && !pgtable_query(pt, vaddr, &e) &&
		    !pgtable_map(pt, vaddr, frames[i], prot))
			mapped |= 1ull << i;
	}
	return mapped;
}

int pgtable_map_new(struct pgtable *pt, vaddr_t vaddr, paddr_t paddr, unsigned int prot)
{
	struct pgtable_entry old;

	return pgtable_query(pt, vaddr, &old) ? -EEXIST : pgtable_map(pt, vaddr, paddr, prot);
}

void pgtable_unmap(struct pgtable *pt, vaddr_t vaddr, struct pgtable_entry *old)
{
	struct pgtable_entry *e;

	pthread_mutex_lock(&pt->lock);
	e = radix_remove(&pt->entries, vaddr >> PAGE_SHIFT);
	pthread_mutex_unlock(&pt->lock);
	if (old)
		*old = e ? *e : (struct pgtable_entry){ 0 };
	kfree(e);
}

bool pgtable_clear(struct pgtable *pt, vaddr_t vaddr)
{
	struct pgtable_entry old;

	pgtable_unmap(pt, vaddr, &old);
	return old.present;
}

bool pgtable_protect(struct pgtable *pt, vaddr_t vaddr, unsigned int prot)
{
	struct pgtable_entry *e;

	pthread_mutex_lock(&pt->lock);
	e = find(pt, vaddr);
	if (e)
		e->prot = prot;
	pthread_mutex_unlock(&pt->lock);
	return e != NULL;
}

bool pgtable_query(const struct pgtable *pt, vaddr_t vaddr, struct pgtable_entry *out)
{
	struct pgtable *mutable_pt = (struct pgtable *)(uintptr_t)pt;
	const struct pgtable_entry *e;

	pthread_mutex_lock(&mutable_pt->lock);
	e = find(pt, vaddr);
	*out = e ? *e : (struct pgtable_entry){ 0 };
	pthread_mutex_unlock(&mutable_pt->lock);
	return out->present;
}

bool shim_pgtable_touch(struct pgtable *pt, vaddr_t vaddr, bool write)
{
	struct pgtable_entry *e;
	bool ok;

	pthread_mutex_lock(&pt->lock);
	e = find(pt, vaddr);
	ok = e && (e->prot & (write ? PGT_WRITE : PGT_READ));
	if (ok) {
		e->accessed = true;
		e->dirty |= write;
	}
	pthread_mutex_unlock(&pt->lock);
	return ok;
}

bool pgtable_test_clear_accessed(struct pgtable *pt, vaddr_t vaddr)
{
	struct pgtable_entry *e;
	bool was = false;

	pthread_mutex_lock(&pt->lock);
	e = find(pt, vaddr);
	if (e) {
		was = e->accessed;
		e->accessed = false;
	}
	pthread_mutex_unlock(&pt->lock);
	return was;
}

bool pgtable_test_clear_dirty(struct pgtable *pt, vaddr_t vaddr)
{
	struct pgtable_entry *e;
	bool was = false;

	pthread_mutex_lock(&pt->lock);
	e = find(pt, vaddr);
	if (e) {
		was = e->dirty;
		e->dirty = false;
	}
	pthread_mutex_unlock(&pt->lock);
	return was;
}

bool pgtable_set_dirty(struct pgtable *pt, vaddr_t vaddr)
{
	struct pgtable_entry *e;

	pthread_mutex_lock(&pt->lock);
	e = find(pt, vaddr);
	if (e)
		e->dirty = true;
	pthread_mutex_unlock(&pt->lock);
	return e;
}

int pgtable_walk(struct pgtable *pt, vaddr_t start, vaddr_t end,
		 int (*fn)(vaddr_t vaddr, const struct pgtable_entry *e, void *arg), void *arg)
{
	uint64_t index = start >> PAGE_SHIFT;
	struct pgtable_entry *e;
	int ret = 0;

	while (ret == 0) {
		struct pgtable_entry copy;

		pthread_mutex_lock(&pt->lock);
		e = radix_next(&pt->entries, &index);
		if (e)
			copy = *e;
		pthread_mutex_unlock(&pt->lock);
		if (!e || index << PAGE_SHIFT >= end)
			break;
		ret = fn(index << PAGE_SHIFT, &copy, arg); /* may unmap this page */
		index++;
	}
	return ret;
}

struct tracked {
	int (*fn)(vaddr_t vaddr, const struct pgtable_entry *e, void *arg);
	void *arg;
};

static int if_tracked(vaddr_t vaddr, const struct pgtable_entry *e, void *arg)
{
	const struct tracked *w = arg;

	return (e->prot & PGT_AROUND) ? 0 : w->fn(vaddr, e, w->arg);
}

int pgtable_walk_tracked(struct pgtable *pt, vaddr_t start, vaddr_t end,
			 int (*fn)(vaddr_t vaddr, const struct pgtable_entry *e, void *arg),
			 void *arg)
{
	struct tracked w = { fn, arg };

	return pgtable_walk(pt, start, end, if_tracked, &w);
}

size_t pgtable_write_protect(struct pgtable *pt, vaddr_t start, vaddr_t end)
{
	uint64_t index = start >> PAGE_SHIFT;
	struct pgtable_entry *e;
	size_t nr = 0;

	pthread_mutex_lock(&pt->lock);
	while ((e = radix_next(&pt->entries, &index)) && index << PAGE_SHIFT < end) {
		nr += (e->prot & PGT_WRITE) != 0;
		e->prot &= ~PGT_WRITE;
		index++;
	}
	pthread_mutex_unlock(&pt->lock);
	return nr;
}

size_t pgtable_table_pages(const struct pgtable *pt)
{
	return pt->tables.count;
}

size_t pgtable_prune(struct pgtable *pt)
{
	uint64_t index, first;
	size_t nr = 0;
	void *table;

	pthread_mutex_lock(&pt->lock);
	radix_for_each(table, &pt->tables, index) {
		first = index * TABLE_PAGES;
		if (radix_next(&pt->entries, &first) && first / TABLE_PAGES == index)
			continue;
		(void)radix_remove(&pt->tables, index);
		nr++;
	}
	pthread_mutex_unlock(&pt->lock);
	return nr;
}

void pgtable_activate(struct pgtable *pt)
{
	(void)pt;
}

/* --- TLBs ---------------------------------------------------------------------------- */

#define NR_SHIM_CPUS 8
#define TLB_ENTRIES  64

struct tlb_entry {
	const struct pgtable *pt; /* NULL: none */
	vaddr_t page;
	paddr_t paddr;
	bool writable, dirty;
};

static struct shim_cpu {
	pthread_mutex_t lock; /* held for an access, and to flush */
	bool used;            /* atomic */
	struct tlb_entry tlb[TLB_ENTRIES];
} cpus[NR_SHIM_CPUS] = { [0 ... NR_SHIM_CPUS - 1] = { .lock = PTHREAD_MUTEX_INITIALIZER } };

static _Thread_local struct shim_cpu *this_cpu;

void shim_cpu_enter(void)
{
	for (unsigned int i = 0; i < NR_SHIM_CPUS; i++) {
		if (__atomic_exchange_n(&cpus[i].used, true, __ATOMIC_ACQ_REL))
			continue;
		this_cpu = &cpus[i];
		return;
	}
	abort();
}

static void cpu_empty(struct shim_cpu *cpu)
{
	pthread_mutex_lock(&cpu->lock);
	memset(cpu->tlb, 0, sizeof(cpu->tlb));
	pthread_mutex_unlock(&cpu->lock);
}

void shim_cpu_leave(void)
{
	cpu_empty(this_cpu);
	__atomic_store_n(&this_cpu->used, false, __ATOMIC_RELEASE);
	this_cpu = NULL;
}

/* Load the entry of @page, as the hardware does: a store sets the dirty bit first. */
static bool tlb_walk(struct tlb_entry *t, struct pgtable *pt, vaddr_t page, bool write)
{
	struct pgtable_entry *e;
	bool ok;

	pthread_mutex_lock(&pt->lock);
	e = find(pt, page);
	ok = e && (e->prot & (write ? PGT_WRITE : PGT_READ));
	if (ok) {
		e->accessed = true;
		e->dirty |= write;
		*t = (struct tlb_entry){ pt, page, e->paddr, e->prot & PGT_WRITE, e->dirty };
	}
	pthread_mutex_unlock(&pt->lock);
	return ok;
}

bool shim_cpu_access(struct pgtable *pt, vaddr_t vaddr, uint64_t *val, bool write)
{
	const vaddr_t page = ALIGN_DOWN(vaddr, PAGE_SIZE);
	struct tlb_entry *t = &this_cpu->tlb[(page >> PAGE_SHIFT) % TLB_ENTRIES];
	uint64_t *word;
	bool ok;

	pthread_mutex_lock(&this_cpu->lock);
	ok = t->pt == pt && t->page == page && (!write || (t->writable && t->dirty));
	if (!ok)
		ok = tlb_walk(t, pt, page, write);
	if (ok) {
		word = (uint64_t *)phys_to_virt(t->paddr) + vaddr % PAGE_SIZE / sizeof(*word);
		if (write)
			__atomic_store_n(word, *val, __ATOMIC_RELAXED);
		else
			*val = __atomic_load_n(word, __ATOMIC_RELAXED);
	}
	pthread_mutex_unlock(&this_cpu->lock);
	return ok;
}

static void count_flush(void)
{
	__atomic_fetch_add(&shim_nr_tlb_flushes, 1, __ATOMIC_RELAXED);
	for (unsigned int i = 0; i < NR_SHIM_CPUS; i++) {
		if (__atomic_load_n(&cpus[i].used, __ATOMIC_ACQUIRE))
			cpu_empty(&cpus[i]);
	}
}

void tlb_flush_range(struct pgtable *pt, vaddr_t start, vaddr_t end)
{
	(void)pt;
	(void)start;
	(void)end;
	count_flush();
}

void tlb_flush_all(struct pgtable *pt)
{
	(void)pt;
	count_flush();
}

void tlb_batch_flush(struct tlb_batch *b)
{
	if (b->nr || b->full)
		count_flush();
	b->nr = 0;
	b->full = false;
}

/* --- user memory: the test's own --- */

static uint64_t bad_start, bad_end;

void shim_user_bad(const void *start, size_t len)
{
	bad_start = (uint64_t)(uintptr_t)start;
	bad_end = bad_start + len;
}

/* A page that the next fault maps. */
static uint64_t unmapped_page;
unsigned int shim_nr_user_faults;
void (*shim_user_fault)(void);

void shim_user_unmapped(const void *page)
{
	unmapped_page = ALIGN_DOWN((uint64_t)(uintptr_t)page, PAGE_SIZE);
	shim_nr_user_faults = 0;
}

/* Bytes from @a on before the page that is not mapped, if a fault is not allowed to map it. */
static size_t mapped_part(uint64_t a, size_t len)
{
	if (!unmapped_page || a >= unmapped_page + PAGE_SIZE || a + len <= unmapped_page)
		return len;
	if (thread_current()->faults_off)
		return a < unmapped_page ? (size_t)(unmapped_page - a) & ~(size_t)7 : 0;
	unmapped_page = 0;
	shim_nr_user_faults++;
	if (shim_user_fault)
		shim_user_fault();
	return len;
}

void user_faults_off(void)
{
	thread_current()->faults_off++;
}

void user_faults_on(void)
{
	ASSERT(thread_current()->faults_off > 0);
	thread_current()->faults_off--;
}

/* Bytes from @addr on that can be accessed. */
static size_t user_part(const void *addr, size_t len)
{
	const uint64_t a = (uint64_t)(uintptr_t)addr;

	if (!user_range_ok(a, len) || (len && a < USER_BASE))
		return 0;
	len = mapped_part(a, len);
	if (a >= bad_end || a + len <= bad_start)
		return len;
	return a < bad_start ? (size_t)(bad_start - a) : 0;
}

size_t copy_from_user_partial(void *dst, const void __user *src, size_t len)
{
	const size_t n = user_part(src, len);

	if (n)
		memcpy(dst, src, n);
	return len - n;
}

size_t copy_to_user_partial(void __user *dst, const void *src, size_t len)
{
	const size_t n = user_part(dst, len);

	if (n)
		memcpy(dst, src, n);
	return len - n;
}

int copy_from_user(void *dst, const void __user *src, size_t len)
{
	return copy_from_user_partial(dst, src, len) ? -EFAULT : 0;
}

int copy_to_user(void __user *dst, const void *src, size_t len)
{
	return copy_to_user_partial(dst, src, len) ? -EFAULT : 0;
}

size_t clear_user_partial(void __user *dst, size_t len)
{
	const size_t n = user_part(dst, len);

	if (n)
		memset(dst, 0, n);
	return len - n;
}

ssize_t strncpy_from_user(char *dst, const char __user *src, size_t size)
{
	size_t n;

	if (size && ((uintptr_t)src < USER_BASE || (uintptr_t)src >= USER_TOP))
		return -EFAULT;
	n = strnlen(src, size);
	if (n == size)
		return -ENAMETOOLONG;
	memcpy(dst, src, n + 1);
	return (ssize_t)n;
}

int get_user_u32(uint32_t *val, const void __user *src)
{
	return copy_from_user(val, src, sizeof(*val));
}

int get_user_u64(uint64_t *val, const void __user *src)
{
	return copy_from_user(val, src, sizeof(*val));
}

int put_user_u32(uint32_t val, void __user *dst)
{
	return copy_to_user(dst, &val, sizeof(val));
}

int put_user_u64(uint64_t val, void __user *dst)
{
	return copy_to_user(dst, &val, sizeof(val));
}

void (*shim_user_changed)(uint32_t *at);

int cmpxchg_user_u32(uint32_t *old, void __user *dst, uint32_t expect, uint32_t val)
{
	if (user_part((const void __force *)dst, sizeof(val)) < sizeof(val))
		return -EFAULT;
	__atomic_compare_exchange_n((uint32_t *)dst, &expect, val, false, __ATOMIC_SEQ_CST,
				    __ATOMIC_SEQ_CST);
	*old = expect;
	if (shim_user_changed)
		shim_user_changed((uint32_t *)dst);
	return 0;
}
