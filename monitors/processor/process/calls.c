/* SPDX-License-Identifier: MIT */
/*
 * System calls on the process itself: identity, exit, limits, prctl, arch_prctl, and facts about the system.
 */
#include <arch/cpu.h>
#include <arch/fpu.h>
#include <arch/uaccess.h>
#include <kernel/random.h>
#include <kernel/time.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <mm/frame.h>
#include <processor/aspace.h>
#include <processor/excache.h>
#include <processor/process.h>
#include <processor/syscall.h>

/* --- identity ------------------------------------------------------------------------ */

/* getpid() */
long sys_getpid(const struct syscall_args *args)
{
	return process_current()->pid;
}

/* gettid() */
long sys_gettid(const struct syscall_args *args)
{
	return task_current()->tid;
}

/* getppid() */
long sys_getppid(const struct syscall_args *args)
{
	return process_current()->ppid;
}

static long id_of(uint64_t pid, uint32_t id)
{
	const struct process *p = process_current();

	return pid == 0 || pid == p->pid ? (long)id : -ESRCH;
}

/* getpgrp() */
long sys_getpgrp(const struct syscall_args *args)
{
	return process_current()->pgid;
}

/* getpgid(pid) */
long sys_getpgid(const struct syscall_args *args)
{
	return id_of((uint32_t)args->a[0], process_current()->pgid);
}

/* getsid(pid) */
long sys_getsid(const struct syscall_args *args)
{
	return id_of((uint32_t)args->a[0], process_current()->sid);
}

/* getuid() */
long sys_getuid(const struct syscall_args *args)
{
	return process_current()->cred.uid;
}

/* geteuid() */
long sys_geteuid(const struct syscall_args *args)
{
	return process_current()->cred.uid;
}

/* getgid() */
long sys_getgid(const struct syscall_args *args)
{
	return process_current()->cred.gid;
}

/* getegid() */
long sys_getegid(const struct syscall_args *args)
{
	return process_current()->cred.gid;
}

/* getgroups(size, list) */
long sys_getgroups(const struct syscall_args *args)
{
	struct proto_cred cred;
	const int size = (int)args->a[0];

	process_cred(&cred);
	if (size < 0 || (size && (uint32_t)size < cred.nr_groups))
		return -EINVAL;
	if (size && copy_to_user((void __user *)args->a[1], cred.groups,
				 cred.nr_groups * sizeof(cred.groups[0])))
		return -EFAULT;
	return cred.nr_groups;
}

/* set_tid_address(ptr) */
long sys_set_tid_address(const struct syscall_args *args)
{
	struct task *t = task_current();

	t->clear_child_tid = args->a[0];
	return t->tid;
}

/* --- the end ------------------------------------------------------------------------- */

/* exit(code) */
long sys_exit(const struct syscall_args *args)
{
	task_exit(((uint32_t)args->a[0] & 0xff) << 8);
}

/* exit_group(code) */
long sys_exit_group(const struct syscall_args *args)
{
	const uint32_t status = ((uint32_t)args->a[0] & 0xff) << 8;

	process_exit_group(process_current(), status);
	task_exit(status);
}

/* --- arch_prctl, prctl --------------------------------------------------------------- */

#define ARCH_SET_GS 0x1001
#define ARCH_SET_FS 0x1002
#define ARCH_GET_FS 0x1003
#define ARCH_GET_GS 0x1004

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

#define PR_GET_DUMPABLE 3
#define PR_SET_DUMPABLE 4
#define PR_SET_NAME     15
#define PR_GET_NAME     16

static long set_name(uint64_t uname)
{
	struct process *p = process_current();
	char name[COMM_LEN];
	const ssize_t len = strncpy_from_user(name, (const char __user *)uname, sizeof(name));

	if (len == -EFAULT)
		return -EFAULT;
	name[COMM_LEN - 1] = '\0';
	mutex_lock(&p->lock);
	strlcpy(p->comm, name, sizeof(p->comm));
	mutex_unlock(&p->lock);
	return 0;
}

/* prctl(option, a2, a3, a4, a5) */
long sys_prctl(const struct syscall_args *args)
{
	struct process *p = process_current();
	char name[COMM_LEN];

	switch (args->a[0]) {
	case PR_SET_NAME:
		return set_name(args->a[1]);
	case PR_GET_NAME:
		mutex_lock(&p->lock);
		memcpy(name, p->comm, sizeof(name));
		mutex_unlock(&p->lock);
		return copy_to_user((void __user *)args->a[1], name, sizeof(name));
	case PR_GET_DUMPABLE:
		return 1;
	case PR_SET_DUMPABLE:
		return args->a[1] == 1 ? 0 : -EINVAL;
	default:
		return -EINVAL;
	}
}

/* --- limits, usage ------------------------------------------------------------------- */

static int rlimit_set(struct process *p, enum rlimit_kind kind, const struct rlimit *new)
{
	if (new->cur > new->max)
		return -EINVAL;
	if (new->max > p->rlimits[kind].max && p->cred.uid != 0)
		return -EPERM;
	if (kind == RLIM_NOFILE && new->max > 1048576)
		return -EPERM;
	p->rlimits[kind] = *new;
	return 0;
}

static long rlimit_call(uint64_t kind, uint64_t unew, uint64_t uold)
{
	struct process *p = process_current();
	struct rlimit new, old;
	int err = 0;

	if (kind >= RLIM_NR)
		return -EINVAL;
	if (unew && copy_from_user(&new, (const void __user *)unew, sizeof(new)))
		return -EFAULT;
	mutex_lock(&p->lock);
	old = p->rlimits[kind];
	if (unew)
		err = rlimit_set(p, (enum rlimit_kind)kind, &new);
	mutex_unlock(&p->lock);
	if (!err && uold)
		err = copy_to_user((void __user *)uold, &old, sizeof(old));
	return err;
}

/* getrlimit(kind, lim) */
long sys_getrlimit(const struct syscall_args *args)
{
	if (!args->a[1])
		return -EFAULT;
	return rlimit_call((uint32_t)args->a[0], 0, args->a[1]);
}

/* setrlimit(kind, lim) */
long sys_setrlimit(const struct syscall_args *args)
{
	if (!args->a[1])
		return -EFAULT;
	return rlimit_call((uint32_t)args->a[0], args->a[1], 0);
}

/* prlimit64(pid, kind, new, old) */
long sys_prlimit64(const struct syscall_args *args)
{
	if (args->a[0] && (uint32_t)args->a[0] != process_current()->pid)
		return -ESRCH;
	return rlimit_call((uint32_t)args->a[1], args->a[2], args->a[3]);
}

struct rusage_user {
	int64_t utime[2], stime[2];
	int64_t rest[14];
};
static_assert(sizeof(struct rusage_user) == 144, "struct rusage is ABI");

/* getrusage(who, usage) */
long sys_getrusage(const struct syscall_args *args)
{
	const int who = (int)args->a[0];
	struct rusage_user ru = { 0 };
	uint64_t ns;

	if (who < -1 || who > 1)
		return -EINVAL;
	if (who != -1) { /* children: none yet */
		ns = thread_cpu_ns(thread_current());
		ru.utime[0] = (int64_t)(ns / 1000000000u);
		ru.utime[1] = (int64_t)(ns % 1000000000u / 1000);
	}
	return copy_to_user((void __user *)args->a[1], &ru, sizeof(ru));
}

/* times(buf): clock ticks of 10 ms since boot */
long sys_times(const struct syscall_args *args)
{
	const int64_t tms[4] = { (int64_t)(thread_cpu_ns(thread_current()) / 10000000u), 0, 0, 0 };

	if (args->a[0] && copy_to_user((void __user *)args->a[0], tms, sizeof(tms)))
		return -EFAULT;
	return (long)(time_now_ns() / 10000000u);
}

/* --- the system ---------------------------------------------------------------------- */

struct utsname_user {
	char sysname[65], nodename[65], release[65], version[65], machine[65], domainname[65];
};

/* uname(buf): the release is the Linux interface that is provided, as programs check it */
long sys_uname(const struct syscall_args *args)
{
	static const struct utsname_user name = {
		.sysname = "Linux",
		.nodename = "tessera",
		.release = "6.1.0-tessera",
		.version = "Tessera",
		.machine = "x86_64",
		.domainname = "(none)",
	};

	return copy_to_user((void __user *)args->a[0], &name, sizeof(name));
}

struct sysinfo_user {
	int64_t uptime;
	uint64_t loads[3], totalram, freeram, sharedram, bufferram, totalswap, freeswap;
	uint16_t procs, pad;
	uint32_t pad2;
	uint64_t totalhigh, freehigh;
	uint32_t mem_unit;
	uint32_t pad3;
};
static_assert(sizeof(struct sysinfo_user) == 112, "struct sysinfo is ABI");

/* sysinfo(info): memory is the cache that this processor has */
long sys_sysinfo(const struct syscall_args *args)
{
	struct sysinfo_user si = {
		.uptime = (int64_t)(time_now_ns() / 1000000000u),
		.totalram = (frames_total_count()) << PAGE_SHIFT,
		.freeram = frames_free_count() << PAGE_SHIFT,
		.procs = 1,
		.mem_unit = 1,
	};

	return copy_to_user((void __user *)args->a[0], &si, sizeof(si));
}

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

/* sched_yield() */
long sys_sched_yield(const struct syscall_args *args)
{
	thread_yield();
	return 0;
}

/* sched_getaffinity(pid, len, mask): bytes written */
long sys_sched_getaffinity(const struct syscall_args *args)
{
	const unsigned int cpus = cpu_online_count();
	uint64_t mask[16] = { 0 };
	const uint64_t len = MIN(args->a[1], (uint64_t)sizeof(mask));

	if (args->a[0] && (uint32_t)args->a[0] != task_current()->tid)
		return -ESRCH;
	if (args->a[1] * 8 < cpus || (args->a[1] & 7))
		return -EINVAL;
	for (unsigned int i = 0; i < cpus && i < 1024; i++)
		mask[i / 64] |= 1ull << (i % 64);
	if (copy_to_user((void __user *)args->a[2], mask, len))
		return -EFAULT;
	return (long)MIN(len, (uint64_t)ALIGN_UP(DIV_ROUND_UP(cpus, 8u), 8u));
}
