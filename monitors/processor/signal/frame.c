/* SPDX-License-Identifier: MIT */
/*
 * Signal frames: push one for a handler, and rt_sigreturn.
 *
 * Layout of a frame, lowest address first: return address, struct ucontext, siginfo; above them the
 * XSAVE image, 64-byte aligned. At the handler's entry the stack pointer is 8 below a multiple of
 * 16.
 *
 * Failure:	everything that rt_sigreturn reads back may have been changed by the program: flags
 *		and selectors are sanitised, the FPU image is checked, a bad frame raises SIGSEGV.
 * See:		System V ABI for x86-64; Linux's ucontext as glibc and musl declare it.
 */
#include <abi/sigcontext.h>
#include <arch/fpu.h>
#include <arch/trap.h>
#include <arch/uaccess.h>
#include <kernel/thread.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <processor/process/process.h>
#include <processor/syscall/syscall.h>

#include "signal_private.h"

#define FP_SW_RESERVED 464 /* offset in the legacy area */
#define FXSAVE_SIZE    512
#define RED_ZONE       128

int siginfo_to_user(uint64_t uinfo, const struct linux_siginfo *info)
{
	const struct siginfo_user user = { .info = *info };

	return copy_to_user((void __user *)uinfo, &user, sizeof(user));
}

struct frame_user {
	uint64_t return_address;
	struct linux_ucontext uc;
	struct siginfo_user info;
};

static void fill_context(struct linux_sigcontext *sc, const struct pt_regs *r,
			 const struct signal_task *st, uint64_t old_mask)
{
	sc->r8 = r->r8;
	sc->r9 = r->r9;
	sc->r10 = r->r10;
	sc->r11 = r->r11;
	sc->r12 = r->r12;
	sc->r13 = r->r13;
	sc->r14 = r->r14;
	sc->r15 = r->r15;
	sc->rdi = r->rdi;
	sc->rsi = r->rsi;
	sc->rbp = r->rbp;
	sc->rbx = r->rbx;
	sc->rdx = r->rdx;
	sc->rax = r->rax;
	sc->rcx = r->rcx;
	sc->rsp = r->rsp;
	sc->rip = r->rip;
	sc->eflags = r->rflags;
	sc->cs = SEL_USER_CS;
	sc->ss = SEL_USER_DS;
	sc->err = st->error;
	sc->trapno = st->trapno;
	sc->oldmask = old_mask;
	sc->cr2 = st->cr2;
}

static void restore_context(struct pt_regs *r, const struct linux_sigcontext *sc)
{
	r->r8 = sc->r8;
	r->r9 = sc->r9;
	r->r10 = sc->r10;
	r->r11 = sc->r11;
	r->r12 = sc->r12;
	r->r13 = sc->r13;
	r->r14 = sc->r14;
	r->r15 = sc->r15;
	r->rdi = sc->rdi;
	r->rsi = sc->rsi;
	r->rbp = sc->rbp;
	r->rbx = sc->rbx;
	r->rdx = sc->rdx;
	r->rax = sc->rax;
	r->rcx = sc->rcx;
	r->rsp = sc->rsp;
	r->rip = sc->rip;
	r->rflags = sc->eflags;
	user_regs_sanitise(r);
	r->orig_rax = UINT64_MAX; /* not to be restarted */
}

/* The FPU image with what Linux adds to it, at @at (64-byte aligned). */
static int push_fpu(uint64_t at, struct fpu_state *fpu)
{
	const size_t size = fpu_size();
	const struct linux_fp_sw_bytes sw = {
		.magic1 = FP_XSTATE_MAGIC1,
		.extended_size = (uint32_t)size + 4,
		.xfeatures = fpu_xfeatures(),
		.xstate_size = (uint32_t)size,
	};
	int err = copy_to_user((void __user *)at, fpu_image(fpu), size);

	if (!err)
		err = copy_to_user((void __user *)(at + FP_SW_RESERVED), &sw, sizeof(sw));
	return err ? err : put_user_u32(FP_XSTATE_MAGIC2, (void __user *)(at + size));
}

/*
 * Where the frame grows down from: the alternate stack's top for a handler that wants it and is not
 * on it yet. 0: the frame would run out of the alternate stack that the program is on.
 */
static uint64_t frame_top(const struct pt_regs *regs, const struct linux_sigaction *act,
			  const struct linux_stack *ss, uint64_t need)
{
	const bool armed = !(ss->flags & SS_DISABLE) && ss->size;
	const bool on = armed && regs->rsp > ss->sp && regs->rsp - ss->sp <= ss->size;
	const uint64_t sp = regs->rsp - RED_ZONE;

	if ((act->flags & SA_ONSTACK) && armed && (!on || (ss->flags & SS_AUTODISARM)))
		return need <= ss->size ? ss->sp + ss->size : 0;
	if (on && (sp < ss->sp || sp - ss->sp < need))
		return 0;
	return sp;
}

int signal_frame_push(struct pt_regs *regs, const struct linux_siginfo *info,
		      const struct linux_sigaction *act, uint64_t old_mask)
{
	struct fpu_state *fpu = thread_current()->user.fpu;
	struct signal_task *st = &task_current()->sig;
	struct linux_stack *ss = &st->altstack;
	struct frame_user *f = kzalloc(sizeof(*f));
	const uint64_t top = frame_top(regs, act, ss, sizeof(*f) + fpu_size() + 4 + 63 + 23);
	uint64_t fp_at, at;
	int err = -EFAULT;

	if (!f)
		return -ENOMEM;
	fp_at = (top - fpu_size() - 4) & ~63ull;
	at = ((fp_at - sizeof(*f)) & ~15ull) - 8;
	if (!(act->flags & SA_RESTORER) || !top || at > top || !user_range_ok(at, top - at))
		goto out;
	f->return_address = act->restorer;
	f->uc.flags = UC_FP_XSTATE | UC_SIGCONTEXT_SS;
	f->uc.stack.sp = ss->sp;
	f->uc.stack.flags = ss->flags;
	f->uc.stack.size = ss->size;
	f->uc.sigmask = old_mask;
	fill_context(&f->uc.mcontext, regs, st, old_mask);
	f->uc.mcontext.fpstate = fp_at;
	f->info.info = *info;
	err = push_fpu(fp_at, fpu);
	if (!err)
		err = copy_to_user((void __user *)at, f, sizeof(*f));
	if (err)
		goto out;
	regs->rsp = at;
	regs->rip = act->handler;
	regs->rdi = (uint64_t)info->signo;
	regs->rsi = at + offsetof(struct frame_user, info);
	regs->rdx = at + offsetof(struct frame_user, uc);
	regs->rax = 0;
	regs->rflags &= ~(uint64_t)0x500; /* DF and TF clear at function entry */
	regs->orig_rax = UINT64_MAX;
	user_regs_sanitise(regs);
	if (ss->flags & SS_AUTODISARM)
		*ss = (struct linux_stack){ .flags = SS_DISABLE };
out:
	kfree(f);
	return err;
}

/* Is there a whole XSAVE image, as push_fpu() leaves it, or only the 512 bytes of FXSAVE? */
static bool has_xstate(uint64_t at, const struct linux_fp_sw_bytes *sw)
{
	uint32_t magic2;

	return sw->magic1 == FP_XSTATE_MAGIC1 && sw->xstate_size == fpu_size() &&
	       sw->extended_size == fpu_size() + 4 && !(sw->xfeatures & ~fpu_xfeatures()) &&
	       !get_user_u32(&magic2, (const void __user *)(at + fpu_size())) &&
	       magic2 == FP_XSTATE_MAGIC2;
}

static int pop_fpu(uint64_t at, struct fpu_state *fpu)
{
	struct linux_fp_sw_bytes sw;
	uint8_t *image;
	size_t size;
	int err;

	if (!at) {
		fpu_reset(fpu);
		return 0;
	}
	if (at & 63)
		return -EFAULT;
	if (copy_from_user(&sw, (const void __user *)(at + FP_SW_RESERVED), sizeof(sw)))
		return -EFAULT;
	size = has_xstate(at, &sw) ? fpu_size() : FXSAVE_SIZE;
	image = kmalloc(size);
	if (!image)
		return -ENOMEM;
	err = copy_from_user(image, (const void __user *)at, size);
	if (!err) {
		/* Linux's own words are not part of the hardware's image. */
		memset(image + FP_SW_RESERVED, 0, sizeof(sw));
		err = fpu_set_image(fpu, image, size);
	}
	kfree(image);
	return err;
}

/* The alternate stack of when the signal came; nonsense is not taken over. */
static void restore_altstack(struct task *t, const struct linux_ucontext *uc)
{
	const uint32_t flags = uc->stack.flags & ~SS_ONSTACK;

	if (flags & SS_DISABLE)
		t->sig.altstack = (struct linux_stack){ .flags = SS_DISABLE };
	else if (!(flags & ~SS_AUTODISARM) && uc->stack.size >= MINSIGSTKSZ)
		t->sig.altstack = (struct linux_stack){ .sp = uc->stack.sp,
							.flags = flags,
							.size = uc->stack.size };
}

static bool is_canonical(uint64_t addr)
{
	return (uint64_t)((int64_t)(addr << 16) >> 16) == addr;
}

/* rt_sigreturn(): back to where the signal came */
long sys_rt_sigreturn(const struct syscall_args *args)
{
	const struct linux_siginfo bad = { .signo = SIGSEGV, .code = SI_KERNEL };
	struct task *t = task_current();
	struct linux_ucontext *uc = kmalloc(sizeof(*uc));
	struct pt_regs *regs = syscall_regs(args);
	int err = -ENOMEM;

	t->sig.restart.fn = NULL; /* a call that waits to go on does not outlive the handler */
	if (uc)
		/* The handler's return has popped the first word of the frame. */
		err = copy_from_user(uc, (const void __user *)regs->rsp, sizeof(*uc));
	if (!err)
		err = pop_fpu(uc->mcontext.fpstate, thread_current()->user.fpu);
	if (err) {
		kfree(uc);
		signal_force(t, &bad);
		return 0;
	}
	restore_context(regs, &uc->mcontext);
	if (!is_canonical(uc->mcontext.rip)) { /* what the jump there would have raised */
		t->sig.trapno = TRAP_GP;
		t->sig.error = 0;
		signal_force(t, &bad);
	}
	restore_altstack(t, uc);
	signal_set_mask(uc->sigmask);
	kfree(uc);
	return (long)regs->rax;
}
