/* SPDX-License-Identifier: MIT */
/*
 * System calls on the process itself: identity, exit, arch_prctl, random numbers.
 */
#include <abi/prctl.h>
#include <arch/cpu.h>
#include <arch/fpu.h>
#include <arch/uaccess.h>
#include <kernel/random.h>
#include <kernel/time.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <mm/frame.h>
#include <processor/excache/excache.h>
#include <processor/mm/aspace.h>
#include <processor/syscall/syscall.h>

#include "process.h"

/* --- identity ------------------------------------------------------------------------ */

/* getpid() */
long sys_getpid(const struct syscall_args *args)
{
	return process_vpid(process_current());
}

/* gettid() */
long sys_gettid(const struct syscall_args *args)
{
	return task_vtid(task_current());
}

/* getppid() */
long sys_getppid(const struct syscall_args *args)
{
	const struct process *p = process_current();

	if (unlikely(p->pid_ns))
		return pid_vnr_in(process_ppid(p), p->pid_ns);
	return process_ppid(p);
}

/* set_tid_address(ptr) */
long sys_set_tid_address(const struct syscall_args *args)
{
	struct task *t = task_current();

	t->clear_child_tid = args->a[0];
	return task_vtid(t);
}

/* --- the end ------------------------------------------------------------------------- */

/* exit(code) */
long sys_exit(const struct syscall_args *args)
{
	const uint32_t status = ((uint32_t)args->a[0] & 0xff) << 8;

	trace_exiting(status);
	task_exit(status);
}

/* exit_group(code) */
long sys_exit_group(const struct syscall_args *args)
{
	const uint32_t status = ((uint32_t)args->a[0] & 0xff) << 8;

	trace_exiting(status);
	process_exit_group(process_current(), status);
	task_exit(status);
}

/* --- arch_prctl ---------------------------------------------------------------------- */

/* arch_prctl(code, addr) */
long sys_arch_prctl(const struct syscall_args *args)
{
	const uint64_t addr = args->a[1];

	switch (args->a[0]) {
	case ARCH_SET_FS:
	case ARCH_SET_GS:
		if (!user_range_ok(addr, 1))
			return -EPERM;
		if (args->a[0] == ARCH_SET_FS)
			thread_set_fs_base(addr);
		else
			thread_set_gs_base(addr);
		return 0;
	case ARCH_GET_FS:
		return put_user_u64(thread_fs_base(), (void __user *)addr);
	case ARCH_GET_GS:
		return put_user_u64(thread_gs_base(), (void __user *)addr);
	default:
		return -EINVAL;
	}
}

/* --- personality --------------------------------------------------------------------- */

/*
 * personality(persona): kept and told, whatever it is; 0xffffffff only asks. UNAME26,
 * STICKY_TIMEOUTS, READ_IMPLIES_EXEC and, of programs that are executed from then on,
 * ADDR_NO_RANDOMIZE do what they say; the others mean nothing to a 64-bit program of Linux either,
 * but MMAP_PAGE_ZERO.
 */
long sys_personality(const struct syscall_args *args)
{
	const uint32_t want = (uint32_t)args->a[0];
	struct process *p = process_current();
	const uint32_t old = READ_ONCE(p->personality);

	if (want == UINT32_MAX)
		return old;
	WRITE_ONCE(p->personality, want);
	return old;
}

/* --- randomness ---------------------------------------------------------------------- */

/* getrandom(buf, len, flags) */
long sys_getrandom(const struct syscall_args *args)
{
	const uint64_t len = MIN(args->a[1], (uint64_t)0x7ffff000);
	uint8_t buf[256];
	uint64_t done = 0;

	/* RANDOM 2 and INSECURE 4 exclude each other. */
	if (((uint32_t)args->a[2] & ~7u) || (args->a[2] & 6) == 6)
		return -EINVAL;
	while (done < len) {
		const size_t n = (size_t)MIN(len - done, (uint64_t)sizeof(buf));

		random_bytes(buf, n);
		if (copy_to_user((void __user *)(args->a[0] + done), buf, n))
			return done ? (long)done : -EFAULT;
		done += n;
		if (done % PAGE_SIZE == 0 && signal_pending())
			break;
	}
	return (long)done;
}
