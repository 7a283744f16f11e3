/* SPDX-License-Identifier: MIT */
/*
 * ExCache: where lines are mapped, and dropping or flushing ranges of pages.
 *
 * Ordering:	a page table entry is removed and TLBs are flushed before a line's dirty bit is
 *		read for the last time; only then is the frame reused or sent. Lines that are
 *		dropped for good need no dirty bit: several are unmapped and detached, then comes
 *		one flush, then their frames are free.
 * Locking:	a set's lock, inside it object.lock and aspace.lock; none across a wait.
 */
#include "cache_private.h"

#include <arch/cpu.h>
#include <kernel/panic.h>
#include <mm/slab.h>
#include <processor/mm/aspace.h>

#include "prefetch.h"

/* --- mappings ------------------------------------------------------------------------ */

/* Clear the PTE behind @map and flush; notes a write. */
static void map_clear_locked(struct line *line, struct line_map *map)
{
	struct pgtable_entry old;

	assert_spin_held(&set_of_line(line)->lock);
	/*
	 * Flushed before the lock is dropped: an owner of the space that finds no PTE any more may
	 * free the page table.
	 */
	spin_lock(&map->as->lock);
	pgtable_unmap(map->as->pt, map->vaddr, &old);
	if (old.present)
		tlb_flush_range(map->as->pt, map->vaddr, map->vaddr + PAGE_SIZE);
	spin_unlock(&map->as->lock);
	if (old.present && old.dirty)
		line->flags |= LINE_DIRTY;
}

static void map_remove_locked(struct line *line, struct line_map *map)
{
	assert_spin_held(&set_of_line(line)->lock);
	line->nr_maps--;
	if (map == &line->first_map) {
		map->as = NULL;
		return;
	}
	list_del(&map->link);
	kfree(map);
}

void line_unmap_all_locked(struct line *line)
{
	struct line_map *map, *tmp;

	assert_spin_held(&set_of_line(line)->lock);
	if (line->first_map.as) {
		map_clear_locked(line, &line->first_map);
		map_remove_locked(line, &line->first_map);
	}
	list_for_each_entry_safe(map, tmp, &line->maps, link) {
		map_clear_locked(line, map);
		map_remove_locked(line, map);
	}
}

static bool map_is_dirty(const struct line_map *map)
{
	struct pgtable_entry e;
	bool dirty;

	spin_lock(&map->as->lock);
	dirty = pgtable_query(map->as->pt, map->vaddr, &e) && e.dirty;
	spin_unlock(&map->as->lock);
	return dirty;
}

bool line_is_dirty_locked(const struct line *line)
{
	const struct line_map *map;

	assert_spin_held(&set_of_line(line)->lock);
	if (line->flags & LINE_DIRTY)
		return true;
	if (line->first_map.as && map_is_dirty(&line->first_map))
		return true;
	list_for_each_entry(map, &line->maps, link) {
		if (map_is_dirty(map))
			return true;
	}
	return false;
}

static void map_write_protect(const struct line_map *map)
{
	struct pgtable_entry e;

	spin_lock(&map->as->lock);
	if (pgtable_query(map->as->pt, map->vaddr, &e) && ((e.prot & PGT_WRITE) || e.dirty)) {
		(void)pgtable_protect(map->as->pt, map->vaddr, e.prot & ~PGT_WRITE);
		(void)pgtable_test_clear_dirty(map->as->pt, map->vaddr);
		tlb_flush_range(map->as->pt, map->vaddr, map->vaddr + PAGE_SIZE);
	}
	spin_unlock(&map->as->lock);
}

void line_write_protect_locked(struct line *line)
{
	const struct line_map *map;

	assert_spin_held(&set_of_line(line)->lock);
	if (line->first_map.as)
		map_write_protect(&line->first_map);
	list_for_each_entry(map, &line->maps, link)
		map_write_protect(map);
}

/* --- changes that are flushed together -------------------------------------------------- */

static void gather(struct tlb_gather *g, struct pgtable *pt, vaddr_t vaddr)
{
	unsigned int i;

	for (i = 0; i < g->nr && g->tlb[i].pt != pt; i++)
		;
	if (i == GATHER_SPACES) {
		tlb_flush_range(pt, vaddr, vaddr + PAGE_SIZE); /* many spaces: rare */
		return;
	}
	if (i == g->nr)
		tlb_batch_init(&g->tlb[g->nr++], pt);
	tlb_batch_add(&g->tlb[i], vaddr);
}

void tlb_gather_flush(struct tlb_gather *g)
{
	for (unsigned int i = 0; i < g->nr; i++)
		tlb_batch_flush(&g->tlb[i]);
	g->nr = 0;
}

static void map_unmap_gather_locked(struct line *line, struct line_map *map, struct tlb_gather *g)
{
	struct pgtable_entry old;

	assert_spin_held(&set_of_line(line)->lock);
	spin_lock(&map->as->lock);
	pgtable_unmap(map->as->pt, map->vaddr, &old);
	if (old.present)
		gather(g, map->as->pt, map->vaddr);
	spin_unlock(&map->as->lock);
	/*
	 * A CPU sets the bit in the entry before its first store, and there is none any more: so
	 * this is the last word, before the flush as well.
	 */
	if (old.present && old.dirty)
		line->flags |= LINE_DIRTY;
	map_remove_locked(line, map);
}

void line_unmap_gather_locked(struct line *line, struct tlb_gather *g)
{
	struct line_map *map, *tmp;

	assert_spin_held(&set_of_line(line)->lock);
	if (line->first_map.as)
		map_unmap_gather_locked(line, &line->first_map, g);
	list_for_each_entry_safe(map, tmp, &line->maps, link)
		map_unmap_gather_locked(line, map, g);
}

static bool map_clean_gather(const struct line_map *map, struct tlb_gather *g)
{
	bool dirty;

	spin_lock(&map->as->lock);
	dirty = pgtable_test_clear_dirty(map->as->pt, map->vaddr);
	if (dirty)
		gather(g, map->as->pt, map->vaddr);
	spin_unlock(&map->as->lock);
	return dirty;
}

bool line_clean_gather_locked(struct line *line, struct tlb_gather *g)
{
	bool dirty = line->flags & LINE_DIRTY;
	struct line_map *map;

	assert_spin_held(&set_of_line(line)->lock);
	/* A pin may be a thread that writes through the kernel's mapping and marks it later. */
	ASSERT(line->pins == 0);
	line->flags &= (uint8_t)~LINE_DIRTY;
	if (line->first_map.as)
		dirty |= map_clean_gather(&line->first_map, g);
	list_for_each_entry(map, &line->maps, link)
		dirty |= map_clean_gather(map, g);
	return dirty;
}

/* --- use -------------------------------------------------------------------------------- */

COUNTER(excache_looks, "excache.looks", "lines whose accessed bits a policy looked at");

static bool map_clear_accessed(const struct line_map *map)
{
	bool used;

	spin_lock(&map->as->lock);
	used = pgtable_test_clear_accessed(map->as->pt, map->vaddr);
	spin_unlock(&map->as->lock);
	return used;
}

bool line_clear_accessed_locked(struct cache_set *set, struct line *line)
{
	struct line_map *map;
	bool used = false;

	assert_spin_held(&set->lock);
	counter_inc(&excache_looks);
	if (line->first_map.as)
		used = map_clear_accessed(&line->first_map);
	list_for_each_entry(map, &line->maps, link)
		used |= map_clear_accessed(map);
	if (line->obj->kind == OBJECT_FILE)
		used |= window_clear_accessed(line->obj, line);
	/* Fault-around maps what was fetched ahead without asking for it. */
	if (used && (line->flags & LINE_PREFETCH)) {
		line->flags &= (uint8_t)~LINE_PREFETCH;
		prefetch_note_used(line->obj, false);
	}
	return used;
}

static struct line_map *map_find_locked(struct line *line, const struct aspace *as, vaddr_t vaddr)
{
	struct line_map *map;

	assert_spin_held(&set_of_line(line)->lock);
	if (line->first_map.as == as && line->first_map.vaddr == vaddr)
		return &line->first_map;
	list_for_each_entry(map, &line->maps, link) {
		if (map->as == as && map->vaddr == vaddr)
			return map;
	}
	return NULL;
}

void excache_unmap_pte(struct aspace *as, vaddr_t vaddr, paddr_t paddr)
{
	struct line *line = line_of_paddr(paddr);
	struct cache_set *set = set_of_line(line);
	struct line_map *map;

	spin_lock(&set->lock);
	/*
	 * Evicted and perhaps reused elsewhere since the caller looked: then the PTE is gone as
	 * well.
	 */
	map = line->set == (uint32_t)(set - excache.sets) ? map_find_locked(line, as, vaddr) : NULL;
	if (map) {
		map_clear_locked(line, map);
		map_remove_locked(line, map);
	}
	spin_unlock(&set->lock);
}

/* The mapping (@as, @vaddr) of @line, new or already there; NULL: no memory. */
static struct line_map *map_add_locked(struct line *line, struct aspace *as, vaddr_t vaddr)
{
	struct line_map *map = map_find_locked(line, as, vaddr);

	assert_spin_held(&set_of_line(line)->lock);
	if (map)
		return map;
	if (!line->first_map.as) {
		map = &line->first_map;
	} else {
		map = kmalloc(sizeof(*map));
		if (!map)
			return NULL;
		list_add_tail(&map->link, &line->maps);
	}
	map->as = as;
	map->vaddr = vaddr;
	line->nr_maps++;
	return map;
}

static unsigned int pgt_of(uint32_t prot)
{
	return ((prot & VMA_PROT_READ) ? PGT_READ : 0) |
	       ((prot & VMA_PROT_WRITE) ? PGT_WRITE | PGT_READ : 0) |
	       ((prot & VMA_PROT_EXEC) ? PGT_EXEC | PGT_READ : 0);
}

/* -EEXIST: *old is another frame that is still mapped there, or has no struct line_map. */
static int map_line_locked(struct aspace *as, vaddr_t vaddr, struct line *line, uint32_t prot,
			   const struct layout_seq *seq, struct pgtable_entry *old)
{
	const unsigned int pgt = pgt_of(prot);
	const paddr_t paddr = line_paddr(line);
	struct line_map *map;
	int err;

	assert_spin_held(&as->lock);
	old->present = false;
	if (as->seq.map != seq->map || (seq->cow != COW_ANY && as->seq.cow != seq->cow))
		return -EAGAIN;
	if (pgtable_query(as->pt, vaddr, old) && (old->paddr != paddr || (old->prot & PGT_AROUND)))
		return -EEXIST;
	map = map_add_locked(line, as, vaddr);
	if (!map)
		return -ENOMEM;
	if (old->present) {
		/*
		 * A rights change keeps accessed and dirty; wider rights need no flush elsewhere.
		 */
		pgtable_protect(as->pt, vaddr, pgt);
		tlb_flush_range(as->pt, vaddr, vaddr + PAGE_SIZE);
		return 0;
	}
	err = pgtable_map(as->pt, vaddr, paddr, pgt);
	if (err)
		map_remove_locked(line, map);
	return err;
}

bool line_map_first_locked(struct line *line, struct aspace *as, vaddr_t vaddr, uint32_t prot,
			   uint64_t seq)
{
	bool ok;

	assert_spin_held(&set_of_line(line)->lock);
	ASSERT(line->nr_maps == 0);
	spin_lock(&as->lock);
	ok = as->seq.map == seq &&
	     pgtable_map_new(as->pt, vaddr, excache.base + line_offset(line), pgt_of(prot)) == 0;
	if (ok) {
		line->first_map.as = as;
		line->first_map.vaddr = vaddr;
		line->nr_maps = 1;
	}
	spin_unlock(&as->lock);
	return ok;
}

int excache_map(struct aspace *as, vaddr_t vaddr, struct line *line, uint32_t prot,
		const struct layout_seq *seq)
{
	struct cache_set *set = set_of_line(line);
	struct pgtable_entry old;
	int err;

	if ((prot & VMA_PROT_EXEC) && !(READ_ONCE(line->flags) & LINE_EXEC_OK))
		frame_rewrite_for_exec(line_data(line));
	do {
		spin_lock(&set->lock);
		if (prot & VMA_PROT_EXEC)
			line->flags |= LINE_EXEC_OK;
		spin_lock(&as->lock);
		err = map_line_locked(as, vaddr, line, prot, seq, &old);
		spin_unlock(&as->lock);
		spin_unlock(&set->lock);
		if (err == -EEXIST && (old.prot & PGT_AROUND))
			around_unmap(as, vaddr, vaddr + PAGE_SIZE, true);
		else if (err == -EEXIST)
			excache_unmap_pte(as, vaddr, old.paddr);
	} while (err == -EEXIST);
	return err;
}

/* --- ranges -------------------------------------------------------------------------- */

#define RANGE_BATCH 64

/* Up to RANGE_BATCH pages of [first, end) that have a line, in no order. @clean: not marked. */
static size_t collect(struct object *obj, uint64_t first, uint64_t end, bool clean,
		      uint64_t *pgoffs)
{
	struct line *line;
	size_t nr = 0;

	spin_lock(&obj->lock);
	list_for_each_entry(line, &obj->lines, obj_link) {
		if (line->pgoff - first >= end - first || (clean && line->file_dirty))
			continue;
		pgoffs[nr++] = line->pgoff;
		if (nr == RANGE_BATCH)
			break;
	}
	spin_unlock(&obj->lock);
	return nr;
}

/*
 * Lines that are dropped together: out of their sets, not yet on the free list, and perhaps still
 * in TLBs for the page table of @as.
 */
struct drop {
	struct aspace *as; /* NULL: flush every mapping at once */
	struct list_head gone;
	struct tlb_batch tlb;
};

static void drop_begin(struct drop *d, struct aspace *as)
{
	d->as = as;
	list_init(&d->gone);
	if (as)
		tlb_batch_init(&d->tlb, READ_ONCE(as->pt)); /* stays as long as the space */
}

/* Flush, then the frames may be used again. */
static void drop_finish(struct drop *d)
{
	if (d->as)
		tlb_batch_flush(&d->tlb);
	line_free_give_all(&d->gone);
}

/* The contents do not matter any more: a mapping in d->as goes without a look at its dirty bit. */
static void drop_unmap_locked(struct drop *d, struct line *line)
{
	bool present;

	assert_spin_held(&set_of_line(line)->lock);
	if (!d->as || line->first_map.as != d->as) {
		line_unmap_all_locked(line);
		return;
	}
	/* Others' page tables may go as soon as they map nothing: these are flushed now. */
	spin_lock(&d->as->lock);
	present = pgtable_clear(d->as->pt, line->first_map.vaddr);
	spin_unlock(&d->as->lock);
	if (present)
		tlb_batch_add(&d->tlb, line->first_map.vaddr);
	map_remove_locked(line, &line->first_map);
	if (line->nr_maps > 0)
		line_unmap_all_locked(line);
}

/* How lines are dropped. */
#define DROP_FLUSH    0x1u /* dirty ones are stored first */
#define DROP_KILLABLE 0x2u /* -EINTR instead of a wait of a thread that is to be killed */
#define DROP_CLEAN    0x4u /* not those that are marked: file_dirty.h */

/* Drop one line, once nothing uses it. */
static int drop_one(struct object *obj, uint64_t pgoff, unsigned int how, struct drop *d)
{
	const bool flush = how & DROP_FLUSH;
	struct cache_set *set = &excache.sets[set_index(obj, pgoff)];
	struct line *line, *queue = NULL;
	struct object *put = NULL;
	uint64_t gen;
	int err;

	for (;;) {
		spin_lock(&set->lock);
		gen = set->gen;
		line = set_find_locked(set, obj, pgoff);
		if (!line || ((how & DROP_CLEAN) && line->file_dirty))
			break;
		if (line->state == LINE_VALID && line->pins == 0) {
			if (flush)
				line_unmap_all_locked(line);
			else
				drop_unmap_locked(d, line);
			if (flush && (line->flags & LINE_DIRTY)) {
				const bool may = writeback_begin(obj, pgoff);

				BUG_ON(!may); /* the caller holds off collapses */
				start_writeback_locked(set, line);
				queue = line;
			} else {
				put = line_detach_locked(set, line);
				list_add(&line->set_link, &d->gone);
			}
			break;
		}
		spin_unlock(&set->lock);
		/* The line's user may wait for a frame: for one of ours, perhaps. */
		drop_finish(d);
		err = set_wait(set, gen, how & DROP_KILLABLE);
		if (err)
			return err;
	}
	spin_unlock(&set->lock);
	if (queue)
		writeback_queue(queue);
	if (put)
		object_put(put);
	return 0;
}

/* Start the write-back of every dirty line, so that they share messages; drop_one() then waits. */
static void flush_start(struct object *obj, const uint64_t *pgoffs, size_t nr)
{
	for (size_t i = 0; i < nr; i++) {
		struct cache_set *set = &excache.sets[set_index(obj, pgoffs[i])];
		struct line *line;

		spin_lock(&set->lock);
		line = set_find_locked(set, obj, pgoffs[i]);
		if (line && line->state == LINE_VALID && line->pins == 0) {
			line_unmap_all_locked(line);
			if ((line->flags & LINE_DIRTY) && writeback_begin(obj, pgoffs[i]))
				start_writeback_locked(set, line);
			else
				line = NULL;
		} else {
			line = NULL;
		}
		spin_unlock(&set->lock);
		if (line)
			writeback_queue(line);
	}
}

static int drop_pages(struct object *obj, struct aspace *as, const uint64_t *pgoffs, size_t nr,
		      unsigned int how)
{
	struct drop d;
	int err = 0;

	drop_begin(&d, as);
	if (how & DROP_FLUSH)
		flush_start(obj, pgoffs, nr);
	for (size_t i = 0; i < nr && !err; i++)
		err = drop_one(obj, pgoffs[i], how, &d);
	drop_finish(&d);
	return err;
}

static int drop_range(struct object *obj, struct aspace *as, uint64_t first, uint64_t end,
		      unsigned int how)
{
	uint64_t pgoffs[RANGE_BATCH];
	size_t nr;
	int err;

	if (first >= end)
		return 0;
	/* A short range is looked up page by page, a long one by what there is. */
	if (end - first <= RANGE_BATCH) {
		for (nr = 0; nr < end - first; nr++)
			pgoffs[nr] = first + nr;
		return drop_pages(obj, as, pgoffs, nr, how);
	}
	do {
		nr = collect(obj, first, end, how & DROP_CLEAN, pgoffs);
		err = drop_pages(obj, as, pgoffs, nr, how);
	} while (nr > 0 && !err);
	return err;
}

void excache_drop(struct object *obj, uint64_t first, uint64_t end)
{
	(void)drop_range(obj, NULL, first, end, 0);
}

int excache_drop_killable(struct object *obj, uint64_t first, uint64_t end)
{
	return drop_range(obj, NULL, first, end, DROP_KILLABLE);
}

int excache_drop_clean(struct object *obj, uint64_t first, uint64_t end)
{
	return drop_range(obj, NULL, first, end, DROP_KILLABLE | DROP_CLEAN);
}

void excache_drop_top(struct aspace *as, uint64_t first, uint64_t end)
{
	(void)drop_range(as->anon, as, first, end, 0);
}

int excache_flush(struct object *obj, uint64_t first, uint64_t end)
{
	const int err = drop_range(obj, NULL, first, end, DROP_FLUSH | DROP_KILLABLE);

	if (err)
		return err;
	return obj->kind == OBJECT_FILE ? 0 : READ_ONCE(obj->failed);
}

/* --- ranges that stay until the home has agreed ------------------------------------------ */

enum quiet {
	RANGE_QUIET,
	RANGE_CHANGES, /* a line begins or ends a write-back at this moment */
	RANGE_BUSY,    /* *pgoff's line fills or is being written back */
};

static enum quiet range_is_quiet(struct object *obj, uint64_t *pgoff)
{
	enum quiet quiet = RANGE_QUIET;
	struct line *line;
	size_t nr = 0;

	spin_lock(&obj->lock);
	list_for_each_entry(line, &obj->lines, obj_link) {
		const uint8_t state = __atomic_load_n(&line->state, __ATOMIC_ACQUIRE);

		nr += state == LINE_WRITEBACK || state == LINE_CLEANING;
		if (state == LINE_VALID ||
		    line->pgoff - obj->kept_first >= obj->kept_end - obj->kept_first)
			continue;
		*pgoff = line->pgoff;
		quiet = RANGE_BUSY;
		break;
	}
	/* A line that was chosen before the range was kept is counted, and soon in its state. */
	if (quiet == RANGE_QUIET && nr != obj->nr_writebacks)
		quiet = RANGE_CHANGES;
	spin_unlock(&obj->lock);
	return quiet;
}

static int line_quiesce(struct object *obj, uint64_t pgoff)
{
	struct cache_set *set = &excache.sets[set_index(obj, pgoff)];
	const struct line *line;
	uint64_t gen;
	bool busy;
	int err;

	do {
		spin_lock(&set->lock);
		gen = set->gen;
		line = set_find_locked(set, obj, pgoff);
		busy = line && line->state != LINE_VALID;
		spin_unlock(&set->lock);
		err = busy ? set_wait(set, gen, true) : 0;
	} while (busy && !err);
	return err;
}

int excache_keep(struct aspace *as, uint64_t first, uint64_t end)
{
	struct object *obj = as->anon;
	enum quiet quiet;
	uint64_t pgoff = 0;
	bool idle;
	int err = 0;

	spin_lock(&obj->lock);
	obj->kept_first = first;
	obj->kept_end = end;
	idle = obj->nr_writebacks == 0 && obj->nr_ahead == 0;
	spin_unlock(&obj->lock);
	/* Only a fault that is under way fills otherwise, and none can begin in the range. */
	if (idle && atomic_read_acquire(&as->nr_faults) == 0)
		return 0;
	while (!err && (quiet = range_is_quiet(obj, &pgoff)) != RANGE_QUIET) {
		if (quiet == RANGE_BUSY)
			err = line_quiesce(obj, pgoff);
		else
			cpu_relax();
	}
	return err;
}

void excache_keep_end(struct aspace *as)
{
	struct object *obj = as->anon;

	spin_lock(&obj->lock);
	obj->kept_first = obj->kept_end = 0;
	spin_unlock(&obj->lock);
	releases_wake();
}
