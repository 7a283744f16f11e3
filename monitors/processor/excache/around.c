/* SPDX-License-Identifier: MIT */
/*
 * Fault-around: a fault in a mapping of a file maps the cached pages next to it as well, without a
 * message.
 *
 * Flow:	many spaces map the lines of a file, and those are never dirty, so the page table
 *		entries made here have no struct line_map each.  A file has a window of
 *		AROUND_PAGES lines per AROUND_PAGES pages; a space that maps some of them hangs one
 *		record on the window, with a bit per page.  Only mappings in which no private copy
 *		can hide the file's page take part: shared ones, and private ones that never could
 *		be written (VMA_PRISTINE).
 * Invariants:	a window names a VALID line or one that fills, and only while that has its tag; a
 *		bit is set exactly while the page's entry maps the window's line and says
 *		PGT_AROUND.  Such entries give no right to write.
 * Locking:	object.lock guards the windows, their lines and their lists of records;
 *		aspace.lock, inside it, the page table, the tree of the space's records and their
 *		bits.  A line of a file loses its tag under object.lock (line_detach_locked()), so
 *		the holder of object.lock needs no lock of a set.
 * Failure:	without memory, fewer pages are mapped; the next fault maps its own page.
 * Limits:	a record of another file that still has pages where this one would begin keeps
 *		its place; the fault then maps its page alone.
 */
#include "prefetch.h"

#include <kernel/counter.h>
#include <kernel/panic.h>
#include <lib/errno.h>
#include <mm/slab.h>
#include <processor/mm/aspace.h>

#include "cache_private.h"

COUNTER(around_faults, "fault.around", "faults that mapped cached pages of a file together");
COUNTER(around_mapped, "fault.around_pages", "pages that those faults mapped");

struct file_window {
	struct line *lines[AROUND_PAGES];
	uint32_t nr_lines;
	struct list_head spaces; /* struct around */
};

struct around {
	struct rb_node
		node; /* aspace.lock: aspace.around, by vpn; out of it: aspace.lock no more */
	struct list_head link; /* object.lock: file_window.spaces */
	struct aspace *as;     /* const */
	struct object *file;   /* const; counted */
	uint64_t window;       /* const: which one of the file */
	uint64_t vpn;          /* const: the first page that the mapping has of the window */
	unsigned int first;    /* const: its place in the window */
	uint64_t pages;        /* aspace.lock: bit i: page i of the window is mapped */
};

static_assert(AROUND_PAGES == 64, "a bit for each page");

/* --- windows ------------------------------------------------------------------------- */

void window_add_locked(struct object *file, struct line *line)
{
	const uint64_t index = line->pgoff / AROUND_PAGES;
	struct file_window *w = radix_lookup(&file->windows, index);

	assert_spin_held(&file->lock);
	if (!w) {
		w = kzalloc(sizeof(*w));
		if (!w)
			return;
		list_init(&w->spaces);
		if (radix_insert(&file->windows, index, w)) {
			kfree(w);
			return;
		}
	}
	w->lines[line->pgoff % AROUND_PAGES] = line;
	w->nr_lines++;
}

static void window_free_if_unused_locked(struct object *file, uint64_t index, struct file_window *w)
{
	assert_spin_held(&file->lock);
	if (w->nr_lines > 0 || !list_empty(&w->spaces))
		return;
	(void)radix_remove(&file->windows, index);
	kfree(w);
}

/* Page @i of the window is not mapped in the space of @a any more. */
static void page_unmap(struct around *a, unsigned int i)
{
	const vaddr_t vaddr = (a->vpn + i - a->first) << PAGE_SHIFT;

	spin_lock(&a->as->lock);
	if (a->pages & BIT64(i)) {
		a->pages &= ~BIT64(i);
		pgtable_unmap(a->as->pt, vaddr, NULL);
		tlb_flush_range(a->as->pt, vaddr, vaddr + PAGE_SIZE);
	}
	spin_unlock(&a->as->lock);
}

void window_remove_locked(struct object *file, struct line *line)
{
	const uint64_t index = line->pgoff / AROUND_PAGES;
	struct file_window *w = radix_lookup(&file->windows, index);
	const unsigned int i = (unsigned int)(line->pgoff % AROUND_PAGES);
	struct around *a;

	assert_spin_held(&file->lock);
	if (!w || w->lines[i] != line)
		return; /* there was no memory for it */
	list_for_each_entry(a, &w->spaces, link)
		page_unmap(a, i);
	w->lines[i] = NULL;
	w->nr_lines--;
	window_free_if_unused_locked(file, index, w);
}

bool window_clear_accessed(struct object *file, struct line *line)
{
	const uint64_t index = line->pgoff / AROUND_PAGES;
	const unsigned int i = (unsigned int)(line->pgoff % AROUND_PAGES);
	bool used = false;
	struct file_window *w;
	struct around *a;

	spin_lock(&file->lock);
	w = radix_lookup(&file->windows, index);
	if (w && w->lines[i] == line) {
		list_for_each_entry(a, &w->spaces, link) {
			spin_lock(&a->as->lock);
			if (a->pages & BIT64(i))
				used |= pgtable_test_clear_accessed(
					a->as->pt, (a->vpn + i - a->first) << PAGE_SHIFT);
			spin_unlock(&a->as->lock);
		}
	}
	spin_unlock(&file->lock);
	return used;
}

bool window_is_mapped(struct object *file, const struct line *line)
{
	const unsigned int i = (unsigned int)(line->pgoff % AROUND_PAGES);
	const struct file_window *w;
	const struct around *a;
	bool mapped = false;

	spin_lock(&file->lock);
	w = radix_lookup(&file->windows, line->pgoff / AROUND_PAGES);
	if (w && w->lines[i] == line) {
		list_for_each_entry(a, &w->spaces, link) {
			spin_lock(&a->as->lock);
			mapped = a->pages & BIT64(i);
			spin_unlock(&a->as->lock);
			if (mapped)
				break;
		}
	}
	spin_unlock(&file->lock);
	return mapped;
}

void windows_destroy(struct object *file)
{
	lock_not_needed(&file->lock, "the last reference is gone");
	ASSERT(file->windows.count == 0);
	radix_destroy(&file->windows);
}

/* --- records ------------------------------------------------------------------------- */

static int around_cmp(const struct rb_node *x, const struct rb_node *y)
{
	const struct around *a = rb_entry(x, struct around, node);
	const struct around *b = rb_entry(y, struct around, node);

	return a->vpn < b->vpn ? -1 : a->vpn > b->vpn;
}

/* The first record that begins at @vpn or behind it. */
static struct around *first_from_locked(struct aspace *as, uint64_t vpn)
{
	struct around *best = NULL;
	struct rb_node *n;

	assert_spin_held(&as->lock);
	n = as->around.node;
	while (n) {
		struct around *a = rb_entry(n, struct around, node);

		if (a->vpn >= vpn) {
			best = a;
			n = n->left;
		} else {
			n = n->right;
		}
	}
	return best;
}

/* Its record is out of the space's tree: off the window, and freed. */
static void record_free(struct around *a)
{
	struct object *file = a->file;

	spin_lock(&file->lock);
	list_del(&a->link);
	window_free_if_unused_locked(file, a->window, radix_lookup(&file->windows, a->window));
	spin_unlock(&file->lock);
	object_put(file);
	kfree(a);
}

/* The part of a window that a mapping shows. */
struct part {
	struct object *file;
	uint64_t window;
	uint64_t vpn;
	unsigned int first, nr;
};

/* The record of @p in @as, found or made; NULL: no memory. */
static struct around *record_locked(struct aspace *as, struct file_window *w, const struct part *p)
{
	struct around *a = first_from_locked(as, p->vpn);

	assert_spin_held(&as->lock);
	if (a && a->vpn == p->vpn)
		return a->file == p->file && a->window == p->window && a->first == p->first ? a
											    : NULL;
	a = kmalloc(sizeof(*a));
	if (!a)
		return NULL;
	*a = (struct around){
		.as = as,
		.file = p->file,
		.window = p->window,
		.vpn = p->vpn,
		.first = p->first,
	};
	object_get(p->file);
	list_add_tail(&a->link, &w->spaces);
	rb_insert(&a->node, &as->around, around_cmp);
	return a;
}

/* --- mapping ------------------------------------------------------------------------- */

/*
 * May @line be mapped at once? What is to be executed has been made safe for it by the fault that
 * came first.
 */
static bool usable(const struct line *line, uint32_t prot)
{
	return line && __atomic_load_n(&line->state, __ATOMIC_ACQUIRE) == LINE_VALID &&
	       (!(prot & VMA_PROT_EXEC) || (READ_ONCE(line->flags) & LINE_EXEC_OK));
}

/* The part of the window behind @vaddr that @v shows whole pages of. False: @vaddr is in none. */
static bool find_part(const struct vma *v, vaddr_t vaddr, struct part *p)
{
	const uint64_t vpn = vaddr >> PAGE_SHIFT, start = v->start >> PAGE_SHIFT;
	const uint64_t pgoff = v->pgoff + (vpn - start);
	const uint64_t before = MIN(pgoff % AROUND_PAGES, vpn - start);
	uint64_t end = v->end >> PAGE_SHIFT;

	if (v->file_bytes != UINT64_MAX)
		end = MIN(end, start + (v->file_bytes >> PAGE_SHIFT));
	if (vpn >= end)
		return false;
	p->file = v->file;
	p->window = pgoff / AROUND_PAGES;
	p->vpn = vpn - before;
	p->first = (unsigned int)(pgoff % AROUND_PAGES - before);
	p->nr = (unsigned int)MIN(end - p->vpn, (uint64_t)AROUND_PAGES - p->first);
	return true;
}

/*
 * Both locks are held. Which pages of the part are mapped this way now; @nr_new of them were not.
 * Entries of before have the rights of this vma: mprotect() takes them away.
 */
static uint64_t map_locked(struct aspace *as, struct file_window *w, const struct part *p,
			   uint32_t prot, uint64_t seq, unsigned int *nr_new)
{
	const unsigned int pgt = PGT_AROUND | PGT_READ | ((prot & VMA_PROT_EXEC) ? PGT_EXEC : 0);
	paddr_t frames[AROUND_PAGES];
	struct around *a;
	uint64_t mapped;

	assert_spin_held(&as->lock);
	/* Ranges that are blocked, and guards, may lie in it: rare enough to do without. */
	if (as->seq.map != seq || !list_empty(&as->blocked) ||
	    ranges_meet(&as->guards, p->vpn << PAGE_SHIFT, (p->vpn + p->nr) << PAGE_SHIFT))
		return 0;
	a = record_locked(as, w, p);
	if (!a)
		return 0;
	for (unsigned int i = 0; i < p->nr; i++) {
		const struct line *line = w->lines[p->first + i];

		frames[i] = usable(line, prot) ? line_paddr(line) : 0;
	}
	mapped = pgtable_map_absent(as->pt, p->vpn << PAGE_SHIFT, frames, p->nr, pgt);
	*nr_new = (unsigned int)__builtin_popcountll(mapped);
	a->pages |= mapped << p->first;
	return a->pages >> p->first;
}

bool around_map(struct aspace *as, const struct vma *v, vaddr_t vaddr, const struct layout_seq *seq)
{
	const uint32_t prot = v->prot;
	struct file_window *w;
	unsigned int nr_new = 0;
	uint64_t mapped = 0;
	struct part p;

	if (v->file->kind != OBJECT_FILE || !(v->flags & (VMA_SHARED | VMA_PRISTINE)) ||
	    !find_part(v, vaddr, &p))
		return false;
	spin_lock(&p.file->lock);
	w = radix_lookup(&p.file->windows, p.window);
	if (w && usable(w->lines[p.first + (vaddr >> PAGE_SHIFT) - p.vpn], prot)) {
		spin_lock(&as->lock);
		mapped = map_locked(as, w, &p, prot, seq->map, &nr_new);
		spin_unlock(&as->lock);
	}
	spin_unlock(&p.file->lock);
	if (nr_new) {
		counter_inc(&around_faults);
		counter_add(&around_mapped, nr_new);
	}
	/*
	 * The page itself may have been mapped by another thread just now. If it is not among
	 * them, it is mapped in another way, whose rights are for the general way to judge.
	 */
	return mapped & BIT64((vaddr >> PAGE_SHIFT) - p.vpn);
}

/* --- unmapping ----------------------------------------------------------------------- */

/* Those pages of @a that lie in [first, end) of the space. */
static void record_unmap_locked(struct around *a, uint64_t first, uint64_t end, struct tlb_batch *b)
{
	assert_spin_held(&a->as->lock);
	for (uint64_t left = a->pages; left; left &= left - 1) {
		const unsigned int i = (unsigned int)__builtin_ctzll(left);
		const uint64_t vpn = a->vpn + i - a->first;

		if (vpn - first >= end - first)
			continue;
		a->pages &= ~BIT64(i);
		pgtable_unmap(a->as->pt, vpn << PAGE_SHIFT, NULL);
		tlb_batch_add(b, vpn << PAGE_SHIFT);
	}
}

void around_unmap(struct aspace *as, vaddr_t start, vaddr_t end, bool keep)
{
	const uint64_t first = start >> PAGE_SHIFT, last = end >> PAGE_SHIFT;
	struct around *a, *next, *gone = NULL;
	struct tlb_batch b;

	spin_lock(&as->lock);
	tlb_batch_init(&b, as->pt);
	a = first_from_locked(as, first - MIN(first, (uint64_t)AROUND_PAGES - 1));
	for (; a && a->vpn < last; a = next) {
		next = rb_entry_or_null(rb_next(&a->node), struct around, node);
		record_unmap_locked(a, first, last, &b);
		if (keep || a->pages)
			continue;
		rb_erase(&a->node, &as->around);
		a->node.left = gone ? &gone->node : NULL;
		gone = a;
	}
	if (b.nr || b.full)
		tlb_batch_flush(&b);
	spin_unlock(&as->lock);
	for (; gone; gone = next) {
		next = rb_entry_or_null(gone->node.left, struct around, node);
		record_free(gone);
	}
}

/*
 * In no order: records of this space are found by their window alone from here on, over the other
 * link.
 */
static void free_tree(struct rb_node *n)
{
	while (n) {
		struct rb_node *right = n->right;

		free_tree(n->left);
		record_free(rb_entry(n, struct around, node));
		n = right;
	}
}

void around_end(struct aspace *as)
{
	struct rb_node *root;

	lock_not_needed(&as->lock, "no thread uses the space any more");
	root = as->around.node;
	as->around = RB_ROOT;
	free_tree(root);
}
