/* SPDX-License-Identifier: MIT */
/*
 * Address spaces: life, copies of the vma list, the vRegion array and the stored bitmap.
 *
 * Invariants:	vmas of the copy do not overlap; each PM_VMA_FILE one holds a reference of its object;
 *		map_seq grows before the effect of a layout change can be seen in the page table.
 * Locking:	aspace.lock for all of it; memory is allocated before it is taken where that may fail.
 */
#define PR_FMT "aspace: "

#include <processor/aspace.h>

#include <kernel/panic.h>
#include <kernel/printk.h>
#include <lib/err.h>
#include <mm/frame.h>
#include <mm/slab.h>
#include <processor/credit.h>
#include <processor/excache.h>
#include <processor/process.h>
#include <processor/remote.h>

#define STORED_SHIFT     15 /* pages in one bitmap page */
#define STORED_WORD(vpn) (((vpn) & ((1u << STORED_SHIFT) - 1)) / 64)
#define STORED_BIT(vpn)  (1ULL << ((vpn) % 64))

/* --- life ---------------------------------------------------------------------------- */

struct aspace *aspace_create(uint64_t id, uint32_t home)
{
	struct aspace *as = kzalloc(sizeof(*as));

	if (!as)
		return ERR_PTR(-ENOMEM);
	as->pt = pgtable_create();
	if (IS_ERR(as->pt)) {
		const int err = PTR_ERR(as->pt);

		kfree(as);
		return ERR_PTR(err);
	}
	as->id = id;
	as->home = home;
	refcount_set(&as->refs, 1);
	mutex_init(&as->map_lock, "aspace.map", RANK_ASPACE);
	spin_lock_init(&as->lock, "aspace", RANK_SPIN_ASPACE);
	as->vmas = RB_ROOT;
	radix_init(&as->vregions);
	radix_init(&as->stored);
	list_init(&as->blocked);
	waitqueue_init(&as->unblocked);
	object_init_anon(&as->anon, as);
	return as;
}

static void destroy_tables(struct aspace *as)
{
	struct vregion *vr;
	void *page;
	uint64_t index;

	radix_for_each(vr, &as->vregions, index)
		kfree(vr);
	radix_destroy(&as->vregions);
	radix_for_each(page, &as->stored, index)
		frame_free(virt_to_frame(page), 0);
	radix_destroy(&as->stored);
}

void aspace_put(struct aspace *as)
{
	if (!refcount_dec_and_test(&as->refs))
		return;
	aspace_unmap_range(as, 0, PM_USER_TOP);
	excache_drop(&as->anon, 0, UINT64_MAX);
	aspace_clear_vmas(as, 0, PM_USER_TOP);
	if (as->vregion_size)
		remote_destroy(as);
	credit_trim();
	pgtable_destroy(as->pt);
	destroy_tables(as);
	object_put(&as->anon);
}

void aspace_free(struct aspace *as)
{
	kfree(as);
}

void aspace_set_process(struct aspace *as, struct process *p)
{
	spin_lock(&as->lock);
	as->process = p;
	spin_unlock(&as->lock);
}

void aspace_fail(struct aspace *as, int error, vaddr_t addr)
{
	struct process *p;
	int expected = 0;

	if (!__atomic_compare_exchange_n(&as->failed, &expected, error, false, __ATOMIC_SEQ_CST,
					 __ATOMIC_RELAXED))
		return;
	pr_err("space %#llx: page %#llx is lost (error %d): its program is killed\n",
	       (unsigned long long)as->id, (unsigned long long)addr, error);
	spin_lock(&as->lock);
	p = as->process;
	if (p)
		process_get(p);
	spin_unlock(&as->lock);
	if (!p)
		return;
	process_kill(p, SIGKILL);
	process_put(p);
}

/* --- vmas ---------------------------------------------------------------------------- */

static struct vma *vma_first_behind_locked(struct aspace *as, vaddr_t addr)
{
	struct rb_node *n = as->vmas.node;
	struct vma *best = NULL;

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

static bool blocked_locked(const struct aspace *as, vaddr_t addr)
{
	const struct blocked_range *r;

	list_for_each_entry(r, &as->blocked, link) {
		if (addr >= r->start && addr < r->end)
			return true;
	}
	return false;
}

static int find_vma_locked(struct aspace *as, vaddr_t addr, struct vma *out, uint64_t *seq)
{
	struct vma *v = vma_first_behind_locked(as, addr);

	*seq = as->map_seq;
	if (!v || v->start > addr)
		return -ENOENT;
	*out = *v;
	if (out->file)
		object_get(out->file);
	return 0;
}

int aspace_find_vma(struct aspace *as, vaddr_t addr, struct vma *out, uint64_t *seq)
{
	int err;

	spin_lock(&as->lock);
	err = find_vma_locked(as, addr, out, seq);
	spin_unlock(&as->lock);
	return err;
}

int aspace_find_vma_unblocked(struct aspace *as, vaddr_t addr, struct vma *out, uint64_t *seq)
{
	int err;

	spin_lock(&as->lock);
	err = blocked_locked(as, addr) ? -EAGAIN : find_vma_locked(as, addr, out, seq);
	spin_unlock(&as->lock);
	return err;
}

void vma_release(struct vma *vma)
{
	if (vma->file)
		object_put(vma->file);
	vma->file = NULL;
}

static int vma_cmp(const struct rb_node *a, const struct rb_node *b)
{
	const struct vma *va = rb_entry(a, struct vma, node);
	const struct vma *vb = rb_entry(b, struct vma, node);

	return va->start < vb->start ? -1 : va->start > vb->start;
}

/* Move the start of @v to @start, keeping what it shows there. */
static void vma_trim_front(struct vma *v, vaddr_t start)
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
	struct vma *v = vma_first_behind_locked(as, addr);
	struct vma *back = *spare;

	if (!v || v->start >= addr)
		return;
	*spare = NULL;
	*back = *v;
	if (back->file)
		object_get(back->file);
	v->end = addr;
	vma_trim_front(back, addr);
	rb_insert(&back->node, &as->vmas, vma_cmp);
}

/* Unhook every vma in [start, end) onto the list of nodes behind *gone (linked through node.left). */
static void remove_locked(struct aspace *as, vaddr_t start, vaddr_t end, struct vma **gone)
{
	struct vma *v = vma_first_behind_locked(as, start);

	while (v && v->start < end) {
		struct rb_node *next = rb_next(&v->node);

		rb_erase(&v->node, &as->vmas);
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

int aspace_set_vma(struct aspace *as, const struct pm_vma *v, struct object *file)
{
	struct vma *fresh = kmalloc(sizeof(*fresh));
	struct vma *spare[2], *gone = NULL;

	if (!spares_get(spare) || !fresh) {
		spares_free(spare);
		kfree(fresh);
		return -ENOMEM;
	}
	*fresh = (struct vma){ .start = v->start,
			       .end = v->end,
			       .prot = v->prot,
			       .flags = v->flags,
			       .file = file,
			       .pgoff = v->pgoff,
			       .file_bytes = v->file_bytes };
	if (file)
		object_get(file);
	spin_lock(&as->lock);
	split_locked(as, v->start, &spare[0]);
	split_locked(as, v->end, &spare[1]);
	remove_locked(as, v->start, v->end, &gone);
	rb_insert(&fresh->node, &as->vmas, vma_cmp);
	as->map_seq++;
	spin_unlock(&as->lock);
	free_gone(gone);
	spares_free(spare);
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
		as->map_seq++;
		spin_unlock(&as->lock);
		free_gone(gone);
		return;
	}
	spin_lock(&as->lock);
	split_locked(as, start, &spare[0]);
	split_locked(as, end, &spare[1]);
	remove_locked(as, start, end, &gone);
	as->map_seq++;
	spin_unlock(&as->lock);
	free_gone(gone);
	spares_free(spare);
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
		v = rb_entry_or_null(rb_next(&v->node), struct vma, node);
	}
	as->map_seq++;
	spin_unlock(&as->lock);
	spares_free(spare);
}

struct object *aspace_file_object(struct aspace *as, const struct proto_file *file)
{
	struct object *obj = NULL;
	struct vma *v;

	spin_lock(&as->lock);
	rb_for_each_entry(v, &as->vmas, node) {
		if (v->file && v->file->file.ino == file->ino && v->file->file.gen == file->gen &&
		    v->file->file.node == file->node) {
			obj = v->file;
			object_get(obj);
			break;
		}
	}
	spin_unlock(&as->lock);
	return obj;
}

/* --- vRegions ------------------------------------------------------------------------ */

int aspace_owner_cached(struct aspace *as, vaddr_t addr, uint32_t *owner)
{
	const struct vregion *vr;
	int err = -ENOENT;

	if (!as->vregion_size)
		return -ENOENT;
	spin_lock(&as->lock);
	vr = radix_lookup(&as->vregions, addr / as->vregion_size);
	if (vr && vr->owner) {
		*owner = vr->owner;
		err = 0;
	}
	spin_unlock(&as->lock);
	return err;
}

int aspace_set_vregion(struct aspace *as, const struct pm_vregion *v)
{
	struct vregion *fresh = kmalloc(sizeof(*fresh));
	struct vregion *vr;
	int err = 0;

	spin_lock(&as->lock);
	vr = radix_lookup(&as->vregions, v->index);
	if (!vr) {
		err = fresh ? radix_insert(&as->vregions, v->index, fresh) : -ENOMEM;
		if (!err) {
			*fresh = (struct vregion){ .owner = v->owner, .version = v->version };
			fresh = NULL;
		}
	} else if (v->version >= vr->version) {
		vr->owner = v->owner;
		vr->version = v->version;
	}
	spin_unlock(&as->lock);
	kfree(fresh);
	return err;
}

int aspace_moved(struct aspace *as, const void *body, size_t len)
{
	struct pm_vregion v;
	const int err = pm_moved_decode(body, len, &v);

	return err ? err : aspace_set_vregion(as, &v);
}

void aspace_forget_owner(struct aspace *as, vaddr_t addr)
{
	struct vregion *vr;

	spin_lock(&as->lock);
	vr = radix_lookup(&as->vregions, addr / as->vregion_size);
	if (vr)
		vr->owner = 0;
	spin_unlock(&as->lock);
}

int aspace_owner(struct aspace *as, vaddr_t addr, uint32_t *owner)
{
	int err = aspace_owner_cached(as, addr, owner);

	if (err == -ENOENT) {
		err = remote_vregions(as, addr / as->vregion_size, 1);
		if (!err)
			err = aspace_owner_cached(as, addr, owner);
		if (err == -ENOENT)
			err = -EFAULT; /* the home says that nobody owns it */
	}
	return err;
}

/* --- stored bitmap ------------------------------------------------------------------- */

static bool stored_locked(const struct aspace *as, uint64_t vpn)
{
	const uint64_t *page = radix_lookup(&as->stored, vpn >> STORED_SHIFT);

	return page && (page[STORED_WORD(vpn)] & STORED_BIT(vpn));
}

bool aspace_stored(struct aspace *as, uint64_t vpn)
{
	bool stored;

	spin_lock(&as->lock);
	stored = stored_locked(as, vpn);
	spin_unlock(&as->lock);
	return stored;
}

bool aspace_may_fill(struct aspace *as, uint64_t vpn, uint64_t seq, bool fresh)
{
	bool ok;

	spin_lock(&as->lock);
	ok = as->map_seq == seq && !(fresh && stored_locked(as, vpn));
	spin_unlock(&as->lock);
	return ok;
}

int aspace_set_stored(struct aspace *as, uint64_t vpn)
{
	uint64_t *page;
	int err = 0;

	spin_lock(&as->lock);
	page = radix_lookup(&as->stored, vpn >> STORED_SHIFT);
	if (!page) {
		struct frame *f = frame_alloc(0, FRAME_ZERO | FRAME_NOWAIT);

		err = f ? radix_insert(&as->stored, vpn >> STORED_SHIFT, frame_to_virt(f))
			: -ENOMEM;
		if (!err)
			page = frame_to_virt(f);
		else if (f)
			frame_free(f, 0);
	}
	if (page)
		page[STORED_WORD(vpn)] |= STORED_BIT(vpn);
	spin_unlock(&as->lock);
	return err;
}

/* The first stored page of [vpn, end), or end. Skips what has no bitmap. */
static uint64_t next_stored_locked(struct aspace *as, uint64_t vpn, uint64_t end, uint64_t **word)
{
	while (vpn < end) {
		uint64_t index = vpn >> STORED_SHIFT;
		uint64_t *page = radix_next(&as->stored, &index);

		if (!page)
			return end;
		vpn = MAX(vpn, index << STORED_SHIFT);
		for (; vpn < end && vpn >> STORED_SHIFT == index; vpn++) {
			*word = &page[STORED_WORD(vpn)];
			if (!**word)
				vpn |= 63;
			else if (**word & STORED_BIT(vpn))
				return vpn;
		}
	}
	return end;
}

void aspace_clear_stored(struct aspace *as, uint64_t first_vpn, uint64_t end_vpn)
{
	uint64_t *word;
	uint64_t vpn;

	spin_lock(&as->lock);
	vpn = next_stored_locked(as, first_vpn, end_vpn, &word);
	while (vpn < end_vpn) {
		*word &= ~STORED_BIT(vpn);
		vpn = next_stored_locked(as, vpn + 1, end_vpn, &word);
	}
	spin_unlock(&as->lock);
}

int aspace_move_stored(struct aspace *as, uint64_t from_vpn, uint64_t nr, uint64_t to_vpn)
{
	const uint64_t end = from_vpn + nr;
	uint64_t *word;
	uint64_t vpn = from_vpn;
	int err = 0;

	while (!err) {
		spin_lock(&as->lock);
		vpn = next_stored_locked(as, vpn, end, &word);
		if (vpn < end)
			*word &= ~STORED_BIT(vpn);
		spin_unlock(&as->lock);
		if (vpn >= end)
			break;
		err = aspace_set_stored(as, vpn - from_vpn + to_vpn);
	}
	return err;
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

	do {
		b.nr = 0;
		spin_lock(&as->lock);
		(void)pgtable_walk(as->pt, start, end, unmap_collect, &b);
		spin_unlock(&as->lock);
		for (size_t i = 0; i < b.nr; i++)
			excache_unmap_pte(as, b.pte[i].vaddr, b.pte[i].paddr);
		if (b.nr)
			start = b.pte[b.nr - 1].vaddr + PAGE_SIZE;
	} while (b.nr == UNMAP_BATCH);
}

void aspace_block(struct aspace *as, struct blocked_range *r, vaddr_t start, vaddr_t end)
{
	r->start = start;
	r->end = end;
	spin_lock(&as->lock);
	list_add(&r->link, &as->blocked);
	as->map_seq++;
	spin_unlock(&as->lock);
}

void aspace_unblock(struct aspace *as, struct blocked_range *r)
{
	spin_lock(&as->lock);
	list_del(&r->link);
	as->map_seq++;
	spin_unlock(&as->lock);
	wake_all(&as->unblocked);
}

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
