/* SPDX-License-Identifier: MIT */
/*
 * System calls that tell facts about the machine, the same that /proc and /sys tell.
 */
#include <arch/cpu.h>
#include <arch/uaccess.h>
#include <kernel/preempt.h>
#include <lib/errno.h>
#include <processor/syscall.h>

/* getcpu(cpu, node, unused): there is one NUMA node */
long sys_getcpu(const struct syscall_args *args)
{
	uint32_t cpu;

	preempt_disable();
	cpu = cpu_id();
	preempt_enable();
	if (args->a[0] && put_user_u32(cpu, (void __user *)args->a[0]))
		return -EFAULT;
	if (args->a[1] && put_user_u32(0, (void __user *)args->a[1]))
		return -EFAULT;
	return 0;
}
