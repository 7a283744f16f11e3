/* SPDX-License-Identifier: MIT */
/*
 * Page faults: from an address to a line in the page table.
 *
 * Flow:	perhaps a first touch of anonymous memory that is not shared:
 *		excache_touch() does it all. Else: blocked? wait -> vma from the copy, or asked
 *		from the owner -> rights -> line (anonymous: in the cache, or p-local zero, or
 *		fetched; private file page: in the cache as a copy, or fetched copy, or the file's
 *		line read-only, copied on the first write) -> map, unless the layout has changed
 *		meanwhile: then again from the start.
 * Context:	the faulting thread, no lock held; sleeps in RPCs.
 * See:		docs/design/excache.md, "life of a page fault"
 */
#include <arch/uaccess.h>
#include <kernel/counter.h>
#include <kernel/panic.h>
#include <kernel/pins.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <mm/frame.h>
#include <processor/account/account.h>
#include <processor/excache/excache.h>
#include <processor/excache/file_dirty.h>
#include <processor/excache/prefetch.h>
#include <processor/excache/steps.h>
#include <processor/vdso/vdso.h>

#include "anon.h"
#include "aspace.h"
#include "kmem.h"
#include "remote.h"

COUNTER(fault_count, "fault.count", "page faults of user addresses");
COUNTER(fault_cow, "fault.cow", "private file pages copied on write");
COUNTER(fault_retry, "fault.retries", "faults that began again because the layout changed");

/* Bytes of the file that page @vaddr of @v shows: PAGE_SIZE, less at the tail, 0 behind it. */
static uint64_t file_part(const struct vma *v, vaddr_t vaddr)
{
	const uint64_t off = vaddr - v->start;

	if (v->file_bytes <= off)
		return 0;
	return MIN(v->file_bytes - off, (uint64_t)PAGE_SIZE);
}

/* The file's or shared object's own line behind @vaddr, pinned. */
static int file_line(const struct vma *v, vaddr_t vaddr, struct line **out)
{
	const uint64_t pgoff = v->pgoff + ((vaddr - v->start) >> PAGE_SHIFT);
	int err;

	if (v->file->kind == OBJECT_SHARED)
		return object_shared_fault(v->file, pgoff, out);
	err = excache_get(v->file, pgoff, EXCACHE_FIND, out);

	if (err != -ENOENT)
		return err;
	err = excache_get(v->file, pgoff, EXCACHE_FETCH, out);
	if (!err)
		prefetch_fault(v->file, pgoff, ((v->end - vaddr) >> PAGE_SHIFT) - 1);
	return err;
}

/* The same, to be mapped for writing. */
static int file_line_to_write(const struct vma *v, vaddr_t vaddr, struct line **out)
{
	const uint64_t pgoff = v->pgoff + ((vaddr - v->start) >> PAGE_SHIFT);
	uint64_t changes;
	int err;

	if (v->file->kind == OBJECT_SHARED)
		return file_line(v, vaddr, out);
	do {
		err = file_dirty_check(v->file, pgoff, &changes);
		/* A truncation that comes now drops the line, or the node tells of the end. */
		if (!err)
			err = file_line(v, vaddr, out);
		if (err || file_dirty_mark(*out, changes))
			return err;
		excache_put(*out);
		err = file_dirty_wait(v->file, pgoff);
	} while (!err);
	return err;
}

/* A private copy of the file's page (or of the zeroes behind the file's part). */
static int cow_line(struct aspace *as, const struct vma *v, vaddr_t vaddr, uint64_t seq,
		    struct line **out)
{
	const uint64_t part = file_part(v, vaddr);
	struct line *line, *file;
	int err;

	err = excache_get_at(as->anon, vaddr >> PAGE_SHIFT, part ? EXCACHE_COPY : EXCACHE_ZERO, as,
			     seq, &line);
	if (err || part == 0) {
		*out = line;
		return err;
	}
	/* Did another task make it meanwhile? A line found is VALID, a claimed one is not. */
	if (excache_is_valid(line)) {
		*out = line;
		return 0;
	}
	err = file_line(v, vaddr, &file);
	if (err) {
		excache_abandon(line, err);
		return err;
	}
	copy_page(line_data(line), line_data(file));
	if (part < PAGE_SIZE)
		memset((uint8_t *)line_data(line) + part, 0, PAGE_SIZE - part);
	excache_put(file);
	excache_publish(line);
	counter_inc(&fault_cow);
	*out = line;
	return 0;
}

struct resolved {          /* what is to be mapped */
	struct line *line; /* pinned */
	uint32_t prot;
	bool newest; /* no private copy can replace it: see COW_ANY */
};

/* Private page @vpn is behind the top of the chain, in the pinned line r->line. */
static int resolve_behind(struct aspace *as, uint64_t vpn, enum fault_access access, uint64_t seq,
			  struct resolved *r)
{
	struct line *src = r->line;
	int err;

	if (!(access & FAULT_ACC_WRITE)) {
		r->prot &= ~(uint32_t)VMA_PROT_WRITE;
		r->newest = false;
		return 0;
	}
	err = anon_copy(as, vpn, seq, src, &r->line);
	excache_put(src);
	return err;
}

/* The line to map at @vaddr and with which rights. */
static int resolve(struct aspace *as, const struct vma *v, vaddr_t vaddr, enum fault_access access,
		   uint64_t seq, struct resolved *r)
{
	const uint64_t vpn = vaddr >> PAGE_SHIFT;
	struct object *from;
	int err;

	/* A page that may be written may be read, also if it cannot be mapped for writing yet. */
	*r = (struct resolved){ .prot = v->prot | VMA_PROT_READ, .newest = true };
	if (v->file && (v->flags & VMA_SHARED)) {
		if (access & FAULT_ACC_WRITE)
			return file_line_to_write(v, vaddr, &r->line);
		if (v->file->kind == OBJECT_FILE)
			r->prot &= ~(uint32_t)VMA_PROT_WRITE; /* the first store marks it */
		return file_line(v, vaddr, &r->line);
	}
	err = anon_find(as, vpn, seq, &from, &r->line);
	if (!err && from != as->anon)
		return resolve_behind(as, vpn, access, seq, r);
	if (err != -ENOENT)
		return err;
	if (!v->file)
		return excache_get_at(as->anon, vpn, EXCACHE_ZERO, as, seq, &r->line);
	if ((access & FAULT_ACC_WRITE) || file_part(v, vaddr) < PAGE_SIZE)
		return cow_line(as, v, vaddr, seq, &r->line);
	r->prot &= ~(uint32_t)VMA_PROT_WRITE;
	r->newest = false;
	return file_line(v, vaddr, &r->line);
}

static int check_rights(const struct vma *v, enum fault_access access)
{
	/* As on the hardware, what may be written or executed may be read. */
	if ((access & FAULT_ACC_WRITE) &&
	    (!(v->prot & VMA_PROT_WRITE) || (v->file && v->file->kind == OBJECT_FILE &&
					     !v->file->live && (v->flags & VMA_SHARED))))
		return -EACCES;
	if ((access & FAULT_ACC_EXEC) && !(v->prot & VMA_PROT_EXEC))
		return -EACCES;
	return v->prot ? 0 : -EACCES;
}

/* The fault is under way, and @v the vma. */
static int fault_in_vma(struct aspace *as, const struct vma *v, vaddr_t vaddr,
			enum fault_access access, struct layout_seq *seq)
{
	struct resolved r;
	int err = check_rights(v, access);

	if (!err && v->file && !(access & FAULT_ACC_WRITE) && around_map(as, v, vaddr, seq))
		return 0;
	if (err)
		return err;
	prefetch_begin(as, v, seq->map);
	err = resolve(as, v, vaddr, access, seq->map, &r);
	if (!err) {
		if (r.newest)
			seq->cow = COW_ANY;
		err = excache_map(as, vaddr, r.line, r.prot, seq);
		steps_mark(STEP_ENTER);
		excache_put(r.line);
	}
	prefetch_end();
	return err;
}

/*
 * The same for a copy that the rights of @v do not allow. Nothing that the program may not do is
 * entered into the page table. A store that is made again, as the layout has changed, does no harm.
 */
static int force_in_vma(struct aspace *as, const struct vma *v, vaddr_t addr,
			struct layout_seq *seq, const struct forced_copy *f)
{
	const vaddr_t vaddr = addr & ~(vaddr_t)(PAGE_SIZE - 1);
	struct resolved r;
	uint8_t *at;
	int err;

	if (f->write && (v->flags & VMA_SHARED) && !(v->prot & VMA_PROT_WRITE))
		return -EACCES;
	if (f->write && (v->flags & VMA_PRISTINE)) {
		aspace_not_pristine(as, addr);
		return -EAGAIN;
	}
	err = resolve(as, v, vaddr, f->write ? FAULT_ACC_WRITE : FAULT_ACC_READ, seq->map, &r);
	if (err)
		return err;
	at = (uint8_t *)line_data(r.line) + (addr - vaddr);
	if (f->write) {
		memcpy(at, f->buf, f->len);
		line_mark_dirty(r.line);
		if (r.newest)
			seq->cow = COW_ANY;
		/* The program's next access must not find the page of before. */
		if (v->prot)
			err = excache_map(as, vaddr, r.line, r.prot, seq);
	} else {
		memcpy(f->buf, at, f->len);
	}
	excache_put(r.line);
	return err;
}

/* 0 mapped (or copied, if there is @f), -EAGAIN begin again, else the error. */
static int fault_once(struct aspace *as, vaddr_t addr, enum fault_access access,
		      const struct forced_copy *f)
{
	const vaddr_t vaddr = addr & ~(vaddr_t)(PAGE_SIZE - 1);
	struct layout_seq seq;
	struct vma v;
	int err;

	while ((err = aspace_fault_begin(as, vaddr, &v, &seq)) == -EAGAIN) {
		err = aspace_wait_unblocked(as, vaddr);
		if (err)
			return err;
	}
	if (err) {
		err = remote_fill_vma(as, vaddr, seq.map);
		err = err ? err : -EAGAIN;
	} else {
		err = v.flags & VMA_GUARD ? -EFAULT
		      : f                 ? force_in_vma(as, &v, addr, &seq, f)
					  : fault_in_vma(as, &v, vaddr, access, &seq);
		vma_release(&v);
	}
	if (err == -EHOSTDOWN)
		object_fail(as->anon, err, vaddr >> PAGE_SHIFT);
	aspace_fault_end(as);
	return err;
}

static bool first_touch(struct aspace *as, vaddr_t vaddr, enum fault_access access)
{
	const struct touch t = aspace_touch_begin(as, vaddr, access);
	bool done;

	if (!t.prot)
		return false;
	done = excache_touch(as, vaddr, t.prot | VMA_PROT_READ, t.seq);
	aspace_fault_end(as);
	return done;
}

static __noinline int fault_slow(struct aspace *as, vaddr_t addr, vaddr_t vaddr,
				 enum fault_access access, const struct forced_copy *f)
{
	const bool vdso = addr >= SPACE_TOP;
	int err;

	if (!user_range_ok(addr, 1))
		return -EFAULT;
	for (;;) {
		/* A page that was lost would read as one that never was. */
		if (!vdso && READ_ONCE(as->failed))
			return -ENOMEM;
		err = vdso ? vdso_fault(as, vaddr, access) : fault_once(as, addr, access, f);
		if (err == -EDQUOT)
			kmem_more_tables(as);
		else if (err != -EAGAIN)
			return err;
		else
			counter_inc(&fault_retry);
	}
}

static __noinline int fault_measured(struct aspace *as, vaddr_t addr, vaddr_t vaddr,
				     enum fault_access access)
{
	struct miss_steps steps;
	int err;

	steps_begin(&steps);
	err = fault_slow(as, addr, vaddr, access, NULL);
	steps_end(&steps);
	return err;
}

int aspace_fault(struct aspace *as, vaddr_t addr, enum fault_access access)
{
	const vaddr_t vaddr = addr & ~(vaddr_t)(PAGE_SIZE - 1);

	assert_no_pins(); /* a range that is to go waits for pins, and this fault for the range */
	counter_inc(&fault_count);
	if (unlikely(kmem_is_short()))
		kmem_trim(as);
	/* A space that has lost a page gets no new ones: its tasks are to die. */
	if (addr < SPACE_TOP && !READ_ONCE(as->failed) && first_touch(as, vaddr, access))
		return 0;
	return unlikely(steps_on) ? fault_measured(as, addr, vaddr, access)
				  : fault_slow(as, addr, vaddr, access, NULL);
}

int aspace_force(struct aspace *as, vaddr_t addr, const struct forced_copy *f)
{
	const vaddr_t vaddr = addr & ~(vaddr_t)(PAGE_SIZE - 1);

	assert_no_pins();
	ASSERT(addr < SPACE_TOP && addr - vaddr + f->len <= PAGE_SIZE);
	return fault_slow(as, addr, vaddr, f->write ? FAULT_ACC_WRITE : FAULT_ACC_READ, f);
}
