/* SPDX-License-Identifier: MIT */
/*
 * Address spaces: life, the copy of the vma list, blocked ranges.
 *
 * Invariants:	vmas of the copy do not overlap; each VMA_FILE one holds a reference of its
 *		object; seq.map grows before the effect of a layout change can be seen in the page
 *		table.
 * Locking:	aspace.lock for all of it; memory is allocated before it is taken where that may
 *		fail.
 */
#define PR_FMT "aspace: "

#include "aspace.h"

#include <kernel/counter.h>
#include <kernel/panic.h>
#include <kernel/printk.h>
#include <kernel/time.h>
#include <kernel/work.h>
#include <lib/err.h>
#include <lib/hash.h>
#include <managers/placement.h>
#include <mm/slab.h>
#include <processor/client/nodes.h>
#include <processor/excache/credit.h>
#include <processor/excache/excache.h>
#include <processor/excache/late.h>
#include <processor/excache/prefetch.h>
#include <processor/excache/reclaim.h>

#include "advice.h"
#include "anon.h"
#include "attach.h"
#include "file_maps.h"
#include "kmem.h"
#include "lease.h"
#include "vma.h"

#define COLLAPSE_THREADS 64 /* collapses that wait for owners at a time */

static struct workqueue *collapse_wq; /* const after start */
static atomic64_t nr_collapse_runs;
static struct waitqueue collapsed = WAITQUEUE_INIT(collapsed); /* woken when one has ended */

static bool aspace_collapse(struct aspace *as, bool wait);
static void anon_collapse_soon(const struct anon_collapse *m);

/* --- life ---------------------------------------------------------------------------- */

static void collapse_ran(struct aspace *as)
{
	atomic64_inc(&nr_collapse_runs);
	if (as)
		__atomic_add_fetch(&as->collapse_runs, 1, __ATOMIC_RELEASE);
	wake_all(&collapsed);
}

static void collapse_work(struct work *w)
{
	struct aspace *as = container_of(w, struct aspace, collapse_work);

	(void)aspace_collapse(as, true);
	collapse_ran(as);
	aspace_put(as);
}

static const struct excache_ops cache_ops = {
	.space_home = gmm_home_for,
	.file_node = file_cache_node,
	.unchain = anon_unchain,
	.collapse_soon = anon_collapse_soon,
	.failed = anon_failed,
};

int aspace_init(void (*kill_failed)(void))
{
	anon_init(kill_failed);
	collapse_wq = workqueue_create("collapse", COLLAPSE_THREADS);
	return IS_ERR(collapse_wq) ? PTR_ERR(collapse_wq) : excache_init(&cache_ops);
}

void aspace_node_gone(uint32_t node)
{
	anon_node_gone(node);
	object_shared_node_gone(node);
	credit_forget(node);
}

struct aspace *aspace_create(uint64_t id, uint32_t home)
{
	struct object *anon = anon_create(id, home, hash64(id) >> 1);

	return IS_ERR(anon) ? (struct aspace *)anon : aspace_create_for(anon);
}

struct aspace *aspace_create_for(struct object *anon)
{
	struct aspace *as = kzalloc(sizeof(*as));
	int err = -ENOMEM;

	if (!as)
		goto out_put;
	spin_lock_init(&as->lock, "aspace", RANK_SPIN_ASPACE);
	as->pt = pgtable_create();
	err = IS_ERR(as->pt) ? PTR_ERR(as->pt) : 0;
	if (err)
		goto out_free;
	as->anon = anon;
	refcount_set(&as->refs, 1);
	mutex_init(&as->map_lock, "aspace.map", RANK_ASPACE);
	as->vmas = RB_ROOT;
	as->around = RB_ROOT;
	list_init(&as->blocked);
	waitqueue_init(&as->unblocked);
	waitqueue_init(&as->quiet);
	work_init(&as->collapse_work, collapse_work);
	anon_add_space(as);
	return as;
out_free:
	kfree(as);
out_put:
	object_put(anon);
	return ERR_PTR(err);
}

void aspace_put(struct aspace *as)
{
	if (!refcount_dec_and_test(&as->refs))
		return;
	/* Only a task of the space faults or changes its layout, and none is left. */
	ASSERT(atomic_read(&as->nr_faults) == 0);
	ASSERT(list_empty(&as->blocked));
	anon_remove_space(as);
	around_end(as);
	aspace_unmap_range(as, 0, SPACE_TOP);
	file_maps_end(as);
	object_put(as->anon);
	aspace_clear_vmas(as, 0, SPACE_TOP); /* shared objects go after what maps them */
	if (as->exe) {
		object_run_end(as->exe);
		object_put(as->exe);
	}
	credit_trim();
	lease_end(as);
	lock_not_needed(&as->lock, "the last reference is gone");
	pgtable_destroy(as->pt);
	attach_end(as);
	ranges_end(&as->seals);
	ranges_end(&as->guards);
	advice_end(as);
	ranges_end(&as->locked.ranges);
	if (as->guest)
		as->guest->space_ends(as->guest);
	kmem_uncharge_space(as);
	kfree(as);
}

/* --- vmas ---------------------------------------------------------------------------- */

struct vma *vma_first_behind_locked(struct aspace *as, vaddr_t addr)
{
	struct vma *best = NULL;
	struct rb_node *n;

	assert_spin_held(&as->lock);
	n = as->vmas.node;
	while (n) {
		struct vma *v = rb_entry(n, struct vma, node);

		if (v->end > addr) {
			best = v;
			n = n->left;
		} else {
			n = n->right;
		}
	}
	return best;
}

static __maybe_unused bool range_is_free_locked(struct aspace *as, vaddr_t start, vaddr_t end)
{
	const struct vma *next;

	assert_spin_held(&as->lock);
	next = vma_first_behind_locked(as, start);
	return !next || next->start >= end;
}

static bool blocked_locked(const struct aspace *as, vaddr_t addr)
{
	const struct blocked_range *r;

	assert_spin_held(&as->lock);
	list_for_each_entry(r, &as->blocked, link) {
		if (addr >= r->start && addr < r->end)
			return true;
	}
	return false;
}

static int find_vma_locked(struct aspace *as, vaddr_t addr, struct vma *out, struct layout_seq *seq)
{
	struct vma *v;

	assert_spin_held(&as->lock);
	v = vma_first_behind_locked(as, addr);
	*seq = as->seq;
	if (!v || v->start > addr)
		return -ENOENT;
	*out = *v;
	if (out->file)
		object_get(out->file);
	return 0;
}

int aspace_find_vma(struct aspace *as, vaddr_t addr, struct vma *out, struct layout_seq *seq)
{
	int err;

	spin_lock(&as->lock);
	err = find_vma_locked(as, addr, out, seq);
	spin_unlock(&as->lock);
	return err;
}

int aspace_fault_begin(struct aspace *as, vaddr_t addr, struct vma *out, struct layout_seq *seq)
{
	int err = -EAGAIN;

	spin_lock(&as->lock);
	if (!blocked_locked(as, addr)) {
		atomic_inc(&as->nr_faults);
		err = find_vma_locked(as, addr, out, seq);
		if (!err && unlikely(ranges_meet(&as->guards, addr, addr + 1)))
			out->flags |= VMA_GUARD;
	}
	spin_unlock(&as->lock);
	return err;
}

static bool anon_allows(const struct vma *v, unsigned int access)
{
	if (v->file || !v->prot)
		return false;
	if ((access & FAULT_ACC_WRITE) && !(v->prot & VMA_PROT_WRITE))
		return false;
	return !(access & FAULT_ACC_EXEC) || (v->prot & VMA_PROT_EXEC);
}

struct touch aspace_touch_begin(struct aspace *as, vaddr_t addr, unsigned int access)
{
	struct touch t = { 0 };
	struct vma *v;

	spin_lock(&as->lock);
	v = as->near;
	if (!v || addr < v->start || addr >= v->end)
		v = vma_first_behind_locked(as, addr);
	if (v && v->start <= addr && anon_allows(v, access) && list_empty(&as->blocked) &&
	    !ranges_meet(&as->guards, addr, addr + 1)) {
		as->near = v;
		t.prot = v->prot;
		t.seq = as->seq.map;
		atomic_inc(&as->nr_faults);
	}
	spin_unlock(&as->lock);
	if (t.prot && as->anon->backing) { /* the top stays, now that the fault is under way */
		aspace_fault_end(as);
		t.prot = 0;
	}
	return t;
}

void aspace_fault_end(struct aspace *as)
{
	ASSERT(atomic_read(&as->nr_faults) > 0);
	/* A waiter sets quiescing before it reads the count: it sees our zero, or we see it. */
	if (atomic_dec_and_test(&as->nr_faults) && atomic_read_acquire(&as->quiescing))
		wake_all(&as->quiet);
}

void vma_release(struct vma *vma)
{
	if (vma->file)
		object_put(vma->file);
	vma->file = NULL;
}

int vma_cmp(const struct rb_node *a, const struct rb_node *b)
{
	const struct vma *va = rb_entry(a, struct vma, node);
	const struct vma *vb = rb_entry(b, struct vma, node);

	return va->start < vb->start ? -1 : va->start > vb->start;
}

void vma_trim_front(struct vma *v, vaddr_t start)
{
	const uint64_t cut = start - v->start;

	v->start = start;
	v->pgoff += cut >> PAGE_SHIFT;
	if (v->file_bytes != UINT64_MAX)
		v->file_bytes = v->file_bytes > cut ? v->file_bytes - cut : 0;
}

/*
 * Split the vma that spans @addr, if one does, using *@spare; the spare is consumed if used.
 * A split needs no memory that the caller has not brought.
 */
static void split_locked(struct aspace *as, vaddr_t addr, struct vma **spare)
{
	struct vma *back = *spare;
	struct vma *v;

	assert_spin_held(&as->lock);
	v = vma_first_behind_locked(as, addr);
	if (!v || v->start >= addr)
		return;
	*spare = NULL;
	*back = *v;
	if (back->file)
		object_get(back->file);
	v->end = addr;
	vma_trim_front(back, addr);
	rb_insert(&back->node, &as->vmas, vma_cmp);
	as->nr_vmas++;
}

/*
 * Unhook every vma in [start, end) onto the list of nodes behind *gone (linked through node.left).
 */
static void remove_locked(struct aspace *as, vaddr_t start, vaddr_t end, struct vma **gone)
{
	struct vma *v;

	assert_spin_held(&as->lock);
	v = vma_first_behind_locked(as, start);
	as->near = NULL;
	while (v && v->start < end) {
		struct rb_node *next = rb_next(&v->node);

		rb_erase(&v->node, &as->vmas);
		as->nr_vmas--;
		v->node.left = *gone ? &(*gone)->node : NULL;
		*gone = v;
		v = rb_entry_or_null(next, struct vma, node);
	}
}

static void free_gone(struct vma *gone)
{
	while (gone) {
		struct vma *next = rb_entry_or_null(gone->node.left, struct vma, node);

		vma_release(gone);
		kfree(gone);
		gone = next;
	}
}

/* Two spare vmas for splits at both ends of a range; false: no memory. */
static bool spares_get(struct vma *spare[2])
{
	spare[0] = kmalloc(sizeof(struct vma));
	spare[1] = kmalloc(sizeof(struct vma));
	return spare[0] && spare[1];
}

static void spares_free(struct vma *spare[2])
{
	kfree(spare[0]);
	kfree(spare[1]);
}

/* Flags that the home does not know stay when the copy of a vma is renewed. */
static void inherit_locked(struct aspace *as, struct vma *fresh)
{
	const struct vma *old;

	assert_spin_held(&as->lock);
	old = vma_first_behind_locked(as, fresh->start);
	if (!old || old->start >= fresh->end || !fresh->file || old->file != fresh->file)
		return;
	if (old->start <= fresh->start && old->end >= fresh->end && !(fresh->prot & VMA_PROT_WRITE))
		fresh->flags |= old->flags & VMA_PRISTINE;
}

int aspace_set_vma(struct aspace *as, const struct vma *v, uint64_t seq)
{
	struct vma *fresh = kmalloc(sizeof(*fresh));
	struct vma *spare[2], *gone = NULL;
	int err = 0;

	if (!spares_get(spare) || !fresh) {
		spares_free(spare);
		kfree(fresh);
		return -ENOMEM;
	}
	*fresh = (struct vma){ .start = v->start,
			       .end = v->end,
			       .prot = v->prot,
			       .flags = v->flags,
			       .file = v->file,
			       .pgoff = v->pgoff,
			       .file_bytes = v->file_bytes };
	if (v->file)
		object_get(v->file);
	spin_lock(&as->lock);
	if (seq == SEQ_ANY || seq == as->seq.map) {
		inherit_locked(as, fresh);
		split_locked(as, v->start, &spare[0]);
		split_locked(as, v->end, &spare[1]);
		remove_locked(as, v->start, v->end, &gone);
		ASSERT(range_is_free_locked(as, v->start, v->end));
		rb_insert(&fresh->node, &as->vmas, vma_cmp);
		as->nr_vmas++;
		as->seq.map++;
	} else {
		fresh->node.left = NULL;
		gone = fresh;
		err = -EAGAIN;
	}
	spin_unlock(&as->lock);
	free_gone(gone);
	spares_free(spare);
	return err;
}

/* A copy of the first vma that ends behind @addr; false: there is none. */
bool aspace_next_vma(struct aspace *as, vaddr_t addr, vaddr_t end, struct vma *out)
{
	struct vma *v;

	spin_lock(&as->lock);
	v = vma_first_behind_locked(as, addr);
	if (v && v->start >= end)
		v = NULL;
	if (v) {
		*out = *v;
		if (out->file)
			object_get(out->file);
	}
	spin_unlock(&as->lock);
	return v != NULL;
}

int aspace_copy_vmas(struct aspace *from, struct aspace *to)
{
	vaddr_t addr = 0;
	struct vma v;

	while (aspace_next_vma(from, addr, UINT64_MAX, &v)) {
		struct vma *copy = kmalloc(sizeof(*copy));

		if (!copy) {
			vma_release(&v);
			return -ENOMEM;
		}
		*copy = v;
		addr = v.end;
		spin_lock(&to->lock);
		rb_insert(&copy->node, &to->vmas, vma_cmp);
		to->nr_vmas++;
		spin_unlock(&to->lock);
	}
	return 0;
}

void aspace_clear_vmas(struct aspace *as, vaddr_t start, vaddr_t end)
{
	struct vma *spare[2], *gone = NULL;

	if (!spares_get(spare)) {
		/* Forget whole vmas instead: the copy is filled again from the owner. */
		struct vma *v;

		spares_free(spare);
		spin_lock(&as->lock);
		v = vma_first_behind_locked(as, start);
		if (v)
			start = MIN(start, v->start);
		remove_locked(as, start, end, &gone);
		as->seq.map++;
		spin_unlock(&as->lock);
		free_gone(gone);
		return;
	}
	spin_lock(&as->lock);
	split_locked(as, start, &spare[0]);
	split_locked(as, end, &spare[1]);
	remove_locked(as, start, end, &gone);
	as->seq.map++;
	spin_unlock(&as->lock);
	free_gone(gone);
	spares_free(spare);
}

void aspace_set_vma_flags(struct aspace *as, vaddr_t start, vaddr_t end, uint32_t flags)
{
	struct vma *v;

	spin_lock(&as->lock);
	v = vma_first_behind_locked(as, start);
	while (v && v->start < end) {
		/* Of one that reaches beyond the range, the rest may have private copies. */
		v->flags |= v->start >= start && v->end <= end ? flags : flags & ~VMA_PRISTINE;
		v = rb_entry_or_null(rb_next(&v->node), struct vma, node);
	}
	spin_unlock(&as->lock);
}

void aspace_not_pristine(struct aspace *as, vaddr_t addr)
{
	struct vma *v;

	spin_lock(&as->lock);
	v = vma_first_behind_locked(as, addr);
	if (v && v->start <= addr) {
		v->flags &= ~VMA_PRISTINE;
		as->seq.map++;
	}
	spin_unlock(&as->lock);
}

void aspace_protect_vmas(struct aspace *as, vaddr_t start, vaddr_t end, uint32_t prot)
{
	struct vma *spare[2], *v;

	if (!spares_get(spare)) {
		spares_free(spare);
		aspace_clear_vmas(as, start, end);
		return;
	}
	spin_lock(&as->lock);
	split_locked(as, start, &spare[0]);
	split_locked(as, end, &spare[1]);
	v = vma_first_behind_locked(as, start);
	while (v && v->start < end) {
		v->prot = prot;
		if (prot & VMA_PROT_WRITE)
			v->flags &= ~VMA_PRISTINE;
		v = rb_entry_or_null(rb_next(&v->node), struct vma, node);
	}
	as->seq.map++;
	spin_unlock(&as->lock);
	spares_free(spare);
}

struct object *aspace_file_object(struct aspace *as, const struct file_id *file)
{
	struct object *obj = NULL;
	struct vma *v;

	spin_lock(&as->lock);
	rb_for_each_entry(v, &as->vmas, node) {
		if (v->file && v->file->kind == OBJECT_FILE &&
		    file_id_equal(&v->file->file, file)) {
			obj = v->file;
			object_get(obj);
			break;
		}
	}
	spin_unlock(&as->lock);
	return obj;
}

/* --- page table and blocking --------------------------------------------------------- */

#define UNMAP_BATCH 64

struct unmap_batch {
	size_t nr;
	struct {
		vaddr_t vaddr;
		paddr_t paddr;
	} pte[UNMAP_BATCH];
};

static int unmap_collect(vaddr_t vaddr, const struct pgtable_entry *e, void *arg)
{
	struct unmap_batch *b = arg;

	b->pte[b->nr].vaddr = vaddr;
	b->pte[b->nr].paddr = e->paddr;
	return ++b->nr == UNMAP_BATCH;
}

void aspace_unmap_range(struct aspace *as, vaddr_t start, vaddr_t end)
{
	struct unmap_batch b;

	around_unmap(as, start, end, false);
	do {
		b.nr = 0;
		spin_lock(&as->lock);
		(void)pgtable_walk_tracked(as->pt, start, end, unmap_collect, &b);
		spin_unlock(&as->lock);
		for (size_t i = 0; i < b.nr; i++)
			excache_unmap_pte(as, b.pte[i].vaddr, b.pte[i].paddr);
		if (b.nr)
			start = b.pte[b.nr - 1].vaddr + PAGE_SIZE;
	} while (b.nr == UNMAP_BATCH);
	reclaim_barrier(); /* entries that we did not find any more are gone from TLBs, too */
}

void aspace_write_protect(struct aspace *as, vaddr_t start, vaddr_t end)
{
	spin_lock(&as->lock);
	if (pgtable_write_protect(as->pt, start, end) > 0)
		tlb_flush_all(as->pt);
	spin_unlock(&as->lock);
	reclaim_barrier(); /* the same of entries that reclaim has removed */
}

void aspace_block(struct aspace *as, struct blocked_range *r, vaddr_t start, vaddr_t end)
{
	r->start = start;
	r->end = end;
	spin_lock(&as->lock);
	list_add(&r->link, &as->blocked);
	as->seq.map++;
	spin_unlock(&as->lock);
}

void aspace_unblock(struct aspace *as, struct blocked_range *r)
{
	spin_lock(&as->lock);
	list_del(&r->link);
	as->seq.map++;
	spin_unlock(&as->lock);
	wake_all(&as->unblocked);
}

int aspace_quiesce(struct aspace *as, bool killable)
{
	int err;

	assert_mutex_held(&as->map_lock);
	atomic_or(&as->quiescing, 1);
	err = wait_event_mode(&as->quiet, atomic_read_acquire(&as->nr_faults) == 0,
			      killable ? WAIT_KILLABLE : WAIT_PLAIN, WAIT_FOREVER);
	atomic_set(&as->quiescing, 0);
	return err;
}

/*
 * Objects that only @as can see any more become one with its top, if that can be had. False: it
 * would have to wait, for a lock, a fault or a node, and the caller does not @wait.
 */
static bool aspace_collapse(struct aspace *as, bool wait)
	__no_lock_analysis("takes the lock or not, as the caller says")
{
	struct blocked_range all;
	bool done = true;

	if (wait)
		mutex_lock(&as->map_lock);
	else if (!mutex_trylock(&as->map_lock))
		return false;
	if (anon_can_collapse(as)) {
		aspace_block(as, &all, 0, SPACE_TOP);
		if (wait)
			(void)aspace_quiesce(as, false);
		else
			done = atomic_read_acquire(&as->nr_faults) == 0;
		if (done) /* after an error: tried again before the next fork */
			done = anon_collapse(as, wait) != -EAGAIN;
		aspace_unblock(as, &all);
	}
	mutex_unlock(&as->map_lock);
	return done;
}

static void collapse_frozen_work(struct work *w)
{
	struct object *shadow = container_of(w, struct object, collapse_work);

	(void)anon_collapse_frozen(shadow, true);
	collapse_ran(NULL);
	object_put(shadow);
}

struct object *anon_create(uint64_t id, uint32_t home, uint64_t seed)
{
	struct object *obj = object_anon_create(id, home, 0, seed);

	if (!IS_ERR(obj))
		work_init(&obj->collapse_work, collapse_frozen_work);
	return obj;
}

/* Works that wait already have a reference of their own. */
void aspace_collapse_frozen_later(struct object *shadow)
{
	if (!work_queue(collapse_wq, &shadow->collapse_work))
		object_put(shadow);
}

static void collapse_later(struct aspace *as)
{
	if (!work_queue(collapse_wq, &as->collapse_work))
		aspace_put(as);
}

/*
 * Now, or in a thread of its own if it has to wait for something: the caller may be a thread that
 * ends. Consumes the reference.  Sleeps, but for no node.
 */
static void anon_collapse_soon(const struct anon_collapse *m)
{
	if (m->shadow && anon_collapse_frozen(m->shadow, false) == -EAGAIN)
		aspace_collapse_frozen_later(m->shadow);
	else if (m->shadow)
		object_put(m->shadow);
	else if (aspace_collapse(m->as, false))
		aspace_put(m->as);
	else
		collapse_later(m->as);
}

int aspace_collapse_first(struct aspace *as)
{
	const uint64_t runs = __atomic_load_n(&as->collapse_runs, __ATOMIC_ACQUIRE);

	if (!anon_collapse_asks(as))
		return 0;
	aspace_get(as);
	collapse_later(as);
	return wait_event_killable(&collapsed,
				   __atomic_load_n(&as->collapse_runs, __ATOMIC_ACQUIRE) != runs);
}

/* Until none is left to be done, or none has been done for as long as a node may be silent. */
static bool collapses_wait(uint64_t until)
{
	int64_t runs = atomic64_read(&nr_collapse_runs);

	while (!workqueue_flush(collapse_wq, until)) {
		if (runs == atomic64_read(&nr_collapse_runs))
			return false;
		runs = atomic64_read(&nr_collapse_runs);
		until = time_after_ns(BACKLOG_SILENT_NS);
	}
	return true;
}

bool aspace_drain(void)
{
	const uint64_t until = time_after_ns(BACKLOG_SILENT_NS);
	bool all;

	/* In the order in which one leads to the other. */
	all = late_calls_wait() == 0;
	all &= object_ends_wait() == 0;
	all &= collapses_wait(until);
	(void)destroy_drain(false);
	return all && destroy_waiting() == 0;
}

static uint64_t ends_left(void)
{
	return late_calls_left() + object_ends_left() + destroy_waiting();
}
GAUGE(ends_gauge, "process.ends_left", "what programs that have ended left to be done at nodes",
      ends_left);

static bool is_blocked(struct aspace *as, vaddr_t addr)
{
	bool blocked;

	spin_lock(&as->lock);
	blocked = blocked_locked(as, addr);
	spin_unlock(&as->lock);
	return blocked;
}

int aspace_wait_unblocked(struct aspace *as, vaddr_t addr)
{
	return wait_event_killable(&as->unblocked, !is_blocked(as, addr));
}
