/* SPDX-License-Identifier: MIT */
/*
 * System calls that tell facts about the machine, the same that /proc and /sys tell.
 */
#include <abi/prctl.h>
#include <abi/sysinfo.h>
#include <arch/cpu.h>
#include <arch/uaccess.h>
#include <kernel/preempt.h>
#include <kernel/printk.h>
#include <kernel/time.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <mm/kmap.h>
#include <processor/ns/ns.h>
#include <processor/process/cred.h>
#include <processor/process/process.h>
#include <processor/syscall/syscall.h>

#include "system_private.h"

/* uname(buf): the release is the Linux interface that is provided, as programs check it */
long sys_uname(const struct syscall_args *args)
{
	struct linux_new_utsname name = {
		.sysname = SYSTEM_NAME,
		.release = SYSTEM_RELEASE,
		.version = SYSTEM_VERSION,
		.machine = SYSTEM_MACHINE,
	};
	struct uts_names names;

	uts_names(&names);
	strlcpy(name.nodename, names.node, sizeof(name.nodename));
	strlcpy(name.domainname, names.domain, sizeof(name.domainname));
	if (READ_ONCE(process_current()->personality) & UNAME26)
		strlcpy(name.release, SYSTEM_UNAME26, sizeof(name.release));
	return copy_to_user((void __user *)args->a[0], &name, sizeof(name));
}

/* sysinfo(info): memory is that of the memory nodes, see docs/design/procfs.md */
long sys_sysinfo(const struct syscall_args *args)
{
	struct linux_sysinfo si = { .mem_unit = 1 };
	struct system_memory m;
	uint32_t loads[3], running, total;

	system_memory(&m);
	system_loadavg(loads);
	system_threads(&running, &total);
	si.uptime = (int64_t)(time_now_ns() / NSEC_PER_SEC);
	for (int i = 0; i < 3; i++)
		si.loads[i] = (uint64_t)loads[i] << (16 - LOADAVG_SHIFT);
	si.totalram = m.total;
	si.freeram = m.free;
	si.sharedram = m.usage.shared << PAGE_SHIFT;
	si.procs = (uint16_t)MIN(total, (uint32_t)UINT16_MAX);
	return copy_to_user((void __user *)args->a[0], &si, sizeof(si));
}

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

enum syslog_action {
	SYSLOG_CLOSE = 0,
	SYSLOG_OPEN = 1,
	SYSLOG_READ_ALL = 3,
	SYSLOG_SIZE_UNREAD = 9,
	SYSLOG_SIZE_BUFFER = 10,
};

/* The newest @len bytes of the log of this node. */
static long log_to_user(uint64_t user, size_t len)
{
	char *buf;
	long ret;

	len = MIN(len, (size_t)CONFIG_LOG_RING_KB * 1024);
	buf = len ? vmalloc(len) : NULL;
	if (!buf)
		return len ? -ENOMEM : 0;
	ret = (long)log_read(buf, len);
	if (copy_to_user((void __user *)user, buf, (size_t)ret))
		ret = -EFAULT;
	vfree(buf);
	return ret;
}

/*
 * syslog(action, buf, len): the log is the node's, so no program can take lines out of it or
 * clear it
 */
long sys_syslog(const struct syscall_args *args)
{
	const int action = (int)args->a[0], len = (int)args->a[2];

	if (action < SYSLOG_CLOSE || action > SYSLOG_SIZE_BUFFER)
		return -EINVAL;
	if (!capable(CAP_SYSLOG))
		return -EPERM;
	switch (action) {
	case SYSLOG_CLOSE:
	case SYSLOG_OPEN:
		return 0;
	case SYSLOG_READ_ALL:
		return !args->a[1] || len < 0 ? -EINVAL : log_to_user(args->a[1], (size_t)len);
	case SYSLOG_SIZE_UNREAD:
		return 0;
	case SYSLOG_SIZE_BUFFER:
		return CONFIG_LOG_RING_KB * 1024;
	default:
		return -EPERM;
	}
}
