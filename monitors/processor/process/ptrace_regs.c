/* SPDX-License-Identifier: MIT */
/*
 * ptrace(): registers of a stopped task.
 *
 * Context:	the tracer; the task is stopped and frozen, so its frame and its FPU image stay.
 * Failure:	a value that the CPU or the kernel could not bear is refused (EIO, EINVAL), and
 *		nothing has changed.
 */
#include <abi/elf.h>
#include <abi/prctl.h>
#include <abi/ptrace.h>
#include <arch/cpu.h>
#include <arch/fpu.h>
#include <arch/uaccess.h>
#include <kernel/panic.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <processor/mm/aspace.h>

#include "process.h"
#include "ptrace_private.h"
#include "user_regs.h"

/* --- general registers ---------------------------------------------------------------- */

static void read_regs(struct task *t, struct linux_user_regs *u)
{
	const struct user_bases b = { t->thread->user.fs_base, t->thread->user.gs_base };

	ASSERT(t->trace.freezes);
	user_regs_get(user_regs_of(t->thread), &b, u);
	if (t->trace.step_set)
		u->eflags &= ~(uint64_t)RFLAGS_TF;
}

static int write_regs(struct task *t, const struct linux_user_regs *u)
{
	struct user_bases b = { t->thread->user.fs_base, t->thread->user.gs_base };
	struct pt_regs *regs = user_regs_of(t->thread);
	int err;

	ASSERT(t->trace.freezes);
	err = user_regs_set(regs, &b, u);
	if (err)
		return err;
	if (u->eflags & RFLAGS_TF)
		t->trace.step_set = false; /* the program's own now */
	else if (t->trace.step_set)
		regs->rflags |= RFLAGS_TF;
	t->thread->user.fs_base = b.fs; /* loaded when the task goes on */
	t->thread->user.gs_base = b.gs;
	return 0;
}

long ptrace_getregs(struct task *t, uint64_t udata)
{
	struct linux_user_regs u;

	read_regs(t, &u);
	return copy_to_user((void __user *)udata, &u, sizeof(u)) ? -EFAULT : 0;
}

long ptrace_setregs(struct task *t, uint64_t udata)
{
	struct linux_user_regs u;

	if (copy_from_user(&u, (const void __user *)udata, sizeof(u)))
		return -EFAULT;
	return write_regs(t, &u);
}

/* --- struct user ---------------------------------------------------------------------- */

static bool user_offset_ok(uint64_t off)
{
	return off < sizeof(struct linux_user) && !(off & 7);
}

#define DEBUGREG_AT(i) (offsetof(struct linux_user, debugreg) + 8 * (i))

static bool is_debugreg(uint64_t off)
{
	return off >= DEBUGREG_AT(0) && off <= DEBUGREG_AT(7);
}

static uint64_t read_debugreg(const struct debug_regs *d, uint64_t off)
{
	const uint64_t i = (off - DEBUGREG_AT(0)) / 8;

	if (i < NR_BREAKPOINTS)
		return d->addr[i];
	return i == 6 ? d->status | DR6_RESERVED : i == 7 ? d->control : 0;
}

static long write_debugreg(struct task *t, uint64_t off, uint64_t value)
{
	struct debug_regs d = t->thread->user.debug;
	const uint64_t i = (off - DEBUGREG_AT(0)) / 8;
	int err;

	if (i == 4 || i == 5)
		return -EIO;
	if (i < NR_BREAKPOINTS)
		d.addr[i] = value;
	else if (i == 6)
		d.status = value & (DR6_HITS | DR6_STEP);
	else
		d.control = value;
	err = i < NR_BREAKPOINTS && value >= USER_TOP ? -EINVAL : debug_regs_check(&d);
	if (!err)
		debug_set(t->thread, &d);
	return err;
}

long ptrace_peekuser(struct task *t, uint64_t off, uint64_t udata)
{
	struct linux_user_regs u;
	uint64_t value = 0;

	if (!user_offset_ok(off))
		return -EIO;
	if (off < sizeof(u)) {
		read_regs(t, &u);
		memcpy(&value, (const uint8_t *)&u + off, sizeof(value));
	} else if (is_debugreg(off)) {
		value = read_debugreg(&t->thread->user.debug, off);
	}
	return put_user_u64(value, (void __user *)udata) ? -EFAULT : 0;
}

long ptrace_pokeuser(struct task *t, uint64_t off, uint64_t value)
{
	struct linux_user_regs u;

	if (!user_offset_ok(off))
		return -EIO;
	if (is_debugreg(off))
		return write_debugreg(t, off, value);
	if (off >= sizeof(u))
		return -EIO;
	read_regs(t, &u);
	memcpy((uint8_t *)&u + off, &value, sizeof(value));
	return write_regs(t, &u);
}

/* --- FPU ------------------------------------------------------------------------------ */

/* As PTRACE_GETREGSET shows it; to be freed. NULL: no memory. */
static uint8_t *read_xstate(struct task *t)
{
	struct fpu_state *fpu = t->thread->user.fpu;
	uint8_t *image = kmalloc(fpu_size());

	ASSERT(t->trace.freezes);
	if (image)
		user_xstate_get(image, fpu_image(fpu), fpu_size(), fpu_xfeatures());
	return image;
}

/* @image has fpu_size() bytes; the word with the features is not the hardware's. */
static long write_xstate(struct task *t, uint8_t *image)
{
	ASSERT(t->trace.freezes);
	memset(image + 464, 0, 48);
	return fpu_set_image(t->thread->user.fpu, image, fpu_size());
}

static long move_xstate(struct task *t, uint64_t udata, size_t len, bool set)
{
	uint8_t *image = read_xstate(t);
	long err = 0;

	if (!image)
		return -ENOMEM;
	ASSERT(len <= fpu_size());
	if (!set) {
		err = copy_to_user((void __user *)udata, image, len);
	} else {
		err = copy_from_user(image, (const void __user *)udata, len);
		/*
		 * The first part holds as the tracer writes it, also what was in its initial
		 * state.
		 */
		if (!err && len <= USER_FPREGS_SIZE && len < fpu_size())
			image[USER_FPREGS_SIZE] |= 3;
		if (!err)
			err = write_xstate(t, image);
		else
			err = -EFAULT;
	}
	kfree(image);
	return err;
}

long ptrace_getfpregs(struct task *t, uint64_t udata)
{
	return move_xstate(t, udata, USER_FPREGS_SIZE, false);
}

long ptrace_setfpregs(struct task *t, uint64_t udata)
{
	return move_xstate(t, udata, USER_FPREGS_SIZE, true);
}

/* --- sets ----------------------------------------------------------------------------- */

static long move_general(struct task *t, uint64_t udata, size_t len, bool set)
{
	struct linux_user_regs u;

	read_regs(t, &u);
	if (!set)
		return copy_to_user((void __user *)udata, &u, len) ? -EFAULT : 0;
	if (copy_from_user(&u, (const void __user *)udata, len))
		return -EFAULT;
	return write_regs(t, &u);
}

long ptrace_regset(struct task *t, uint64_t kind, uint64_t uiov, bool set)
{
	uint64_t iov[2];
	uint64_t size;
	long err;

	if (copy_from_user(iov, (const void __user *)uiov, sizeof(iov)))
		return -EFAULT;
	switch ((uint32_t)kind) {
	case NT_PRSTATUS:
		size = sizeof(struct linux_user_regs);
		break;
	case NT_PRFPREG:
		size = USER_FPREGS_SIZE;
		break;
	case NT_X86_XSTATE:
		if (fpu_size() <= USER_FPREGS_SIZE)
			return -ENODEV;
		size = fpu_size();
		break;
	default:
		return -EINVAL;
	}
	if (iov[1] & 7)
		return -EINVAL;
	iov[1] = MIN(iov[1], size);
	if (kind == NT_X86_XSTATE && set && iov[1] != size)
		return -EFAULT;
	if (kind == NT_PRSTATUS)
		err = move_general(t, iov[0], (size_t)iov[1], set);
	else
		err = move_xstate(t, iov[0], (size_t)iov[1], set);
	if (err)
		return err;
	return put_user_u64(iov[1], (void __user *)(uiov + 8)) ? -EFAULT : 0;
}

/* --- others --------------------------------------------------------------------------- */

long ptrace_arch_prctl(struct task *t, uint64_t code, uint64_t addr)
{
	struct linux_user_regs u;
	uint64_t *base;

	read_regs(t, &u);
	base = code == ARCH_SET_FS || code == ARCH_GET_FS ? &u.fs_base : &u.gs_base;
	switch (code) {
	case ARCH_GET_FS:
	case ARCH_GET_GS:
		return put_user_u64(*base, (void __user *)addr) ? -EFAULT : 0;
	case ARCH_SET_FS:
	case ARCH_SET_GS:
		if (!user_range_ok(addr, 1))
			return -EPERM;
		*base = addr;
		return write_regs(t, &u);
	default:
		return -EINVAL;
	}
}

#define INSN_MAX 15u

/* Does the instruction at @rip set TF itself? */
static bool sets_tf(struct task *t, uint64_t rip)
{
	struct aspace *as = process_aspace(t->process);
	uint8_t code[INSN_MAX];
	size_t len = 0;

	if (as) {
		len = aspace_read_memory(as, rip, code, sizeof(code));
		aspace_put(as);
	}
	return user_code_sets_tf(code, len);
}

void ptrace_step(struct task *t, bool on)
{
	struct pt_regs *regs = user_regs_of(t->thread);
	const bool had = regs->rflags & RFLAGS_TF;

	if (!on) {
		if (t->trace.step_set)
			regs->rflags &= ~(uint64_t)RFLAGS_TF;
		t->trace.step_set = false;
		return;
	}
	regs->rflags |= RFLAGS_TF;
	if (sets_tf(t, regs->rip))
		t->trace.step_set = false;
	else if (!had)
		t->trace.step_set = true;
}
