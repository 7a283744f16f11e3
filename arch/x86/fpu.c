/* SPDX-License-Identifier: MIT */
/*
 * User FPU state: who owns the registers, and saving them.
 *
 * Invariants:	Owner: fpu_owner of a CPU is the state whose values are in its registers, or
 *		NULL.  The kernel leaves the registers as they are (clear_page() borrows one),
 *		so they stay live across kernel threads.
 * Flow:	Save: with one CPU, only when another state wants the registers.  With more,
 *		at every switch away, because the thread may go on elsewhere.
 *		Format: standard XSAVE image (FXSAVE on CPUs without it).
 */
#define PR_FMT "fpu: "

#include <arch/cpu.h>
#include <arch/fpu.h>
#include <arch/percpu.h>
#include <kernel/panic.h>
#include <kernel/preempt.h>
#include <kernel/printk.h>
#include <lib/byteorder.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <mm/slab.h>

#include "arch_private.h"

#define XCR0_X87 BIT64(0)
#define XCR0_SSE BIT64(1)
#define XCR0_AVX BIT64(2)

#define FXSAVE_SIZE    512u
#define XSAVE_HEADER   64u
#define FX_FCW         0u
#define FX_MXCSR       24u
#define FX_MXCSR_MASK  28u
#define FCW_DEFAULT    0x037fu
#define MXCSR_DEFAULT  0x1f80u
#define MXCSR_MASK_OLD 0xffbfu /* of CPUs that do not say: all but DAZ */

struct fpu_state {
	uint32_t cpu; /* where the registers were last loaded */
	uint8_t image[] __aligned(64);
};

static DEFINE_PERCPU(struct fpu_state *, fpu_owner);
static struct kmem_cache *fpu_cache;
bool clear_page_by_sse; /* entry.S; const once the first CPU is set up */
static uint32_t image_size = FXSAVE_SIZE;
static uint64_t xfeatures = XCR0_X87 | XCR0_SSE;
static uint32_t mxcsr_mask = MXCSR_MASK_OLD; /* const once the first CPU is set up */

static void image_save(struct fpu_state *f)
{
	const uint32_t lo = (uint32_t)xfeatures;
	const uint32_t hi = (uint32_t)(xfeatures >> 32);

	if (cpu_features.xsaveopt)
		__asm__ volatile("xsaveopt64 (%0)" ::"r"(f->image), "a"(lo), "d"(hi) : "memory");
	else if (cpu_features.xsave)
		__asm__ volatile("xsave64 (%0)" ::"r"(f->image), "a"(lo), "d"(hi) : "memory");
	else
		__asm__ volatile("fxsave64 (%0)" ::"r"(f->image) : "memory");
}

static void image_restore(struct fpu_state *f)
{
	const uint32_t lo = (uint32_t)xfeatures;
	const uint32_t hi = (uint32_t)(xfeatures >> 32);

	if (cpu_features.xsave)
		__asm__ volatile("xrstor64 (%0)" ::"r"(f->image), "a"(lo), "d"(hi) : "memory");
	else
		__asm__ volatile("fxrstor64 (%0)" ::"r"(f->image) : "memory");
}

static bool is_loaded(const struct fpu_state *f)
{
	return percpu_read(fpu_owner) == f && f->cpu == cpu_id();
}

/*
 * The image of @f is to change, so the registers do not count as its values any more; preemption
 * off.
 */
static void disown(const struct fpu_state *f)
{
	ASSERT(!preemptible() || !local_irqs_enabled());
	if (percpu_read(fpu_owner) != f)
		return;
	percpu_write(fpu_owner, NULL);
	percpu_write(exit_work.fpu_stale, 1);
}

/* Bring the image up to date if the registers of this CPU hold it; preemption off. */
static void sync_image(struct fpu_state *f)
{
	ASSERT(!preemptible() || !local_irqs_enabled());
	if (is_loaded(f))
		image_save(f);
}

void fpu_reset(struct fpu_state *f)
{
	preempt_disable();
	disown(f);
	memset(f->image, 0, image_size);
	put_unaligned_le16(FCW_DEFAULT, f->image + FX_FCW);
	put_unaligned_le32(MXCSR_DEFAULT, f->image + FX_MXCSR);
	put_unaligned_le32(mxcsr_mask, f->image + FX_MXCSR_MASK);
	if (cpu_features.xsave)
		put_unaligned_le64(xfeatures, f->image + FXSAVE_SIZE); /* XSTATE_BV */
	preempt_enable();
}

struct fpu_state *fpu_alloc(void)
{
	struct fpu_state *f = kmem_cache_alloc(fpu_cache);

	if (f) {
		f->cpu = UINT32_MAX;
		fpu_reset(f);
	}
	return f;
}

void fpu_free(struct fpu_state *f)
{
	if (!f)
		return;
	preempt_disable();
	for_each_cpu(cpu) {
		struct fpu_state **owner = per_cpu_ptr(&fpu_owner, cpu);
		struct fpu_state *owned = f;

		/* Only a CPU on which f is no longer running can still name it. */
		__atomic_compare_exchange_n(owner, &owned, NULL, false, __ATOMIC_SEQ_CST,
					    __ATOMIC_RELAXED);
	}
	preempt_enable();
	kmem_cache_free(fpu_cache, f);
}

void fpu_copy(struct fpu_state *to, struct fpu_state *from)
{
	preempt_disable();
	sync_image(from);
	disown(to);
	memcpy(to->image, from->image, image_size);
	preempt_enable();
}

void fpu_park(struct fpu_state *f)
{
	preempt_disable();
	sync_image(f);
	disown(f);
	/* Not loaded anywhere: a switch away does not save what another thread may change now. */
	f->cpu = UINT32_MAX;
	preempt_enable();
}

size_t fpu_size(void)
{
	return image_size;
}

uint64_t fpu_xfeatures(void)
{
	return xfeatures;
}

const void *fpu_image(struct fpu_state *f)
{
	preempt_disable();
	sync_image(f);
	preempt_enable();
	return f->image;
}

int fpu_set_image(struct fpu_state *f, const void *image, size_t len)
{
	const uint8_t *img = image;
	static const uint8_t zero[XSAVE_HEADER - 8];

	if (len < FXSAVE_SIZE || len > image_size)
		return -EINVAL;
	if (get_unaligned_le32(img + FX_MXCSR) & ~mxcsr_mask)
		return -EINVAL;
	if (cpu_features.xsave && len > FXSAVE_SIZE) {
		if (len < FXSAVE_SIZE + XSAVE_HEADER ||
		    (get_unaligned_le64(img + FXSAVE_SIZE) & ~xfeatures) ||
		    memcmp(img + FXSAVE_SIZE + 8, zero, sizeof(zero)) != 0)
			return -EINVAL;
		/* Components past the end of a short image must not be claimed present. */
		if (len < image_size &&
		    (get_unaligned_le64(img + FXSAVE_SIZE) & ~(XCR0_X87 | XCR0_SSE)))
			return -EINVAL;
	}
	preempt_disable();
	disown(f);
	memset(f->image, 0, image_size);
	memcpy(f->image, img, len);
	if (cpu_features.xsave && len == FXSAVE_SIZE)
		put_unaligned_le64(XCR0_X87 | XCR0_SSE, f->image + FXSAVE_SIZE);
	preempt_enable();
	return 0;
}

void fpu_switch_out(struct fpu_state *f)
{
	sync_image(f);
}

void fpu_switch_in(const struct fpu_state *f)
{
	percpu_write(exit_work.fpu_stale, !is_loaded(f));
}

void fpu_restore_for_user(struct fpu_state *f)
{
	struct fpu_state *owner = percpu_read(fpu_owner);

	percpu_write(exit_work.fpu_stale, 0);
	if (likely(is_loaded(f)))
		return;
	/* With several CPUs it was saved when it left, and may be freed by now. */
	if (cpu_online_count() == 1 && owner && owner->cpu == cpu_id())
		image_save(owner);
	image_restore(f);
	f->cpu = cpu_id();
	percpu_write(fpu_owner, f);
}

/* Which bits of MXCSR this CPU knows: a program may set each of them, DAZ among them. */
static void read_mxcsr_mask(void)
{
	uint8_t image[FXSAVE_SIZE] __aligned(16) = { 0 };
	uint32_t mask;

	__asm__ volatile("fxsave64 (%0)" ::"r"(image) : "memory");
	mask = get_unaligned_le32(image + FX_MXCSR_MASK);
	if (mask)
		mxcsr_mask = mask;
}

void fpu_init_cpu(void)
{
	struct cpuid_regs r;

	if (cpu_features.xsave) {
		if (cpu_features.avx)
			xfeatures |= XCR0_AVX;
		__asm__ volatile("xsetbv" ::"c"(0), "a"((uint32_t)xfeatures),
				 "d"((uint32_t)(xfeatures >> 32)));
		r = cpuid(0xd, 0);
		image_size = r.ebx; /* size for what XCR0 has on */
	}
	__asm__ volatile("fninit");
	if (fpu_cache)
		return;
	read_mxcsr_mask();
	fpu_cache = kmem_cache_create("fpu", sizeof(struct fpu_state) + image_size, 64);
	if (!fpu_cache)
		panic("no memory for FPU state");
	clear_page_by_sse = !cpu_features.erms;
	pr_info("%u bytes of state%s\n", image_size, cpu_features.avx ? ", AVX" : "");
}
