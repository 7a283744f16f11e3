/* SPDX-License-Identifier: MIT */
/*
 * The kernel's side of the vDSO: its frames, its place in a space, the data page.
 *
 * Locking:	vdso_lock around writing the data page; the code never changes; aspace.lock for page
 *		tables.
 * Ordering:	vvar.seq is odd before the first field changes and even after the last.
 * See:		vvar.h, user.c, docs/design/procfs.md
 */
#define PR_FMT "vdso: "

#include "vdso.h"

#include <arch/cpu.h>
#include <arch/tsc.h>
#include <kernel/bootparam.h>
#include <kernel/initcall.h>
#include <kernel/panic.h>
#include <kernel/printk.h>
#include <kernel/spinlock.h>
#include <kernel/time.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <mm/frame.h>

#include "vvar_private.h"

enum vdso_mode {
	MODE_OFF,     /* programs get no vDSO */
	MODE_SYSCALL, /* it calls the kernel */
	MODE_TSC,     /* it reads the time stamp counter, where that can be trusted */
};

static enum vdso_mode mode = MODE_TSC;

static int parse_mode(const char *value)
{
	static const char *const names[] = { "off", "syscall", "tsc" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (strcmp(value, names[i]) == 0) {
			mode = (enum vdso_mode)i;
			return 0;
		}
	}
	return -EINVAL;
}
BOOT_PARAM_CB("vdso", parse_mode,
	      "clocks of programs: tsc (default), syscall (in the vDSO) or off");

extern const char vdso_image[], vdso_image_end[];

static struct spinlock vdso_lock = SPINLOCK_INIT("vdso", RANK_LEAF);
static struct vvar *vvar __guarded_by(&vdso_lock); /* NULL before init */
static paddr_t vvar_paddr;                         /* const after init */
static paddr_t text_paddr;                         /* const after init: contiguous */
static unsigned int nr_text;                       /* const after init: pages */

/* The kernel's own clock is the TSC; programs may read it too where all CPUs count alike. */
static uint32_t find_flags(void)
{
	uint32_t flags = 0;

	if (mode == MODE_TSC && (cpu_features.tsc_invariant || cpu_is_virtual()))
		flags |= VVAR_TSC;
	if (mode == MODE_TSC && cpu_features.rdtscp)
		flags |= VVAR_AUX;
	return flags;
}

void vvar_write(struct vvar *v)
{
	ASSERT(!(v->seq & 1)); /* writers are serialised */
	__atomic_store_n(&v->seq, v->seq + 1, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	v->flags = find_flags();
	v->tsc_base = tsc_scale.base;
	v->mult = tsc_scale.mult;
	v->shift = tsc_scale.shift;
	v->real_offset = time_boot_real_ns();
	__atomic_store_n(&v->seq, v->seq + 1, __ATOMIC_RELEASE);
}

static void clock_changed(void)
{
	const unsigned long flags = spin_lock_irqsave(&vdso_lock);

	if (vvar)
		vvar_write(vvar);
	spin_unlock_irqrestore(&vdso_lock, flags);
}

const struct vvar *vvar_get(void)
{
	return READ_ONCE(vvar);
}

static int vdso_init(void)
{
	const size_t len = (size_t)(vdso_image_end - vdso_image);
	struct frame *data, *text;

	ASSERT_BEFORE(monitor); /* where programs start */
	if (mode == MODE_OFF)
		return 0;
	data = frame_alloc(0, FRAME_ZERO);
	text = frame_alloc_contig(DIV_ROUND_UP(len, PAGE_SIZE), 1);
	if (!data || !text)
		return -ENOMEM;
	nr_text = (unsigned int)DIV_ROUND_UP(len, PAGE_SIZE);
	memset(frame_to_virt(text), 0, nr_text * PAGE_SIZE);
	memcpy(frame_to_virt(text), vdso_image, len);
	text_paddr = frame_to_paddr(text);
	vvar_paddr = frame_to_paddr(data);
	lock_not_needed(&vdso_lock, "nothing else knows the page yet");
	vvar = frame_to_virt(data);
	time_on_step(clock_changed);
	clock_changed();
	if (mode == MODE_TSC && !(vvar->flags & VVAR_TSC))
		pr_info("the TSC of this CPU cannot be trusted: clocks are system calls\n");
	return 0;
}
INITCALL(core, vdso_init);

/* --- in a space ---------------------------------------------------------------------- */

vaddr_t vdso_place(uint64_t random)
{
	/* Behind the data page, and never at the very ends: nothing adjoins. */
	const uint64_t places = ((USER_TOP - SPACE_TOP) >> PAGE_SHIFT) - nr_text - 3;

	if (!nr_text)
		return 0;
	return SPACE_TOP + ((2 + random % places) << PAGE_SHIFT);
}

int vdso_fault(struct aspace *as, vaddr_t addr, enum fault_access access)
{
	const vaddr_t start = as->vdso - PAGE_SIZE;
	struct pgtable_entry e;
	int err = 0;

	if (!as->vdso || addr < start || addr >= as->vdso + nr_text * PAGE_SIZE)
		return -EFAULT;
	ASSERT(start >= SPACE_TOP && as->vdso + nr_text * PAGE_SIZE <= USER_TOP);
	if ((access & FAULT_ACC_WRITE) || ((access & FAULT_ACC_EXEC) && addr < as->vdso))
		return -EACCES;
	spin_lock(&as->lock);
	for (unsigned int i = 0; i <= nr_text && !err; i++) {
		const vaddr_t va = start + i * PAGE_SIZE;

		if (pgtable_query(as->pt, va, &e))
			continue; /* another thread was faster */
		err = i == 0 ? pgtable_map(as->pt, va, vvar_paddr, PGT_READ)
			     : pgtable_map(as->pt, va, text_paddr + (i - 1) * PAGE_SIZE,
					   PGT_READ | PGT_EXEC);
	}
	spin_unlock(&as->lock);
	return err;
}

bool vdso_parts(const struct aspace *as, struct vdso_part parts[2])
{
	if (!as->vdso)
		return false;
	parts[0] = (struct vdso_part){ as->vdso - PAGE_SIZE, as->vdso, "[vvar]", false };
	parts[1] = (struct vdso_part){ as->vdso, as->vdso + nr_text * PAGE_SIZE, "[vdso]", true };
	return true;
}
