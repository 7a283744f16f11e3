/* SPDX-License-Identifier: MIT */
/*
 * The smaller files of /proc/<pid>: command line, environment, links, limits, mounts, settings.
 */
#include "proc_private.h"

#include <abi/prctl.h>
#include <lib/err.h>
#include <lib/fmt.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <processor/mm/frames.h>
#include <processor/process/core.h>
#include <processor/process/oom_score.h>
#include <processor/vfs/path.h>

#include "system_private.h"

/* --- memory of the process ----------------------------------------------------------- */

/*
 * A program that has written over the end of its arguments means the environment behind them, too:
 * ps shows a title.
 */
SHOW(show_pid_cmdline)
{
	struct aspace *as;
	char *nul;
	const int err = proc_aspace(s, &as);

	if (err || !as)
		return err;
	proc_put_memory(t, as, as->arg_start, as->arg_end);
	if (t->len && t->buf[t->len - 1] && as->env_start == as->arg_end) {
		proc_put_memory(t, as, as->env_start, as->env_end);
		nul = memchr(t->buf, '\0', t->len);
		if (nul)
			t->len = (size_t)(nul - t->buf) + 1;
	}
	aspace_put(as);
	return 0;
}

SHOW(show_pid_environ)
{
	struct aspace *as;
	const int err = proc_aspace(s, &as);

	if (err || !as)
		return err;
	proc_put_memory(t, as, as->env_start, as->env_end);
	aspace_put(as);
	return 0;
}

SHOW(show_pid_auxv)
{
	struct aspace *as;
	const int err = proc_aspace(s, &as);

	if (err || !as)
		return err;
	proc_put_memory(t, as, as->auxv_start, as->auxv_end);
	aspace_put(as);
	return 0;
}

/* --- links --------------------------------------------------------------------------- */

int link_pid_exe(struct text *t, const struct pseudo_subject *s)
{
	struct proc_ref ref;
	int err = proc_get(s, &ref);

	if (err)
		return err;
	mutex_lock(&ref.process->lock);
	if (ref.process->exe_path)
		text_puts(t, ref.process->exe_path);
	else
		err = -ENOENT;
	mutex_unlock(&ref.process->lock);
	proc_put(&ref);
	return err;
}

/* The working directory, referenced. -ESRCH, -ENOENT: a zombie. */
static int cwd_of(const struct pseudo_subject *s, struct path *out)
{
	struct fs_state *fs;
	struct proc_ref ref;
	int err = proc_get(s, &ref);

	if (err)
		return err;
	fs = process_fs(ref.process);
	proc_put(&ref);
	if (!fs)
		return -ENOENT;
	err = fs_state_cwd(fs, out);
	fs_state_put(fs);
	return err;
}

int link_pid_cwd(struct text *t, const struct pseudo_subject *s)
{
	char *buf = kmalloc(FS_PATH_MAX);
	struct path at = { 0 };
	int err = buf ? cwd_of(s, &at) : -ENOMEM;

	if (!err) {
		const int gone = path_text(&at, buf);

		text_puts(t, buf);
		if (gone == -ENOENT)
			text_puts(t, " (deleted)");
		path_put(&at);
	}
	kfree(buf);
	return err;
}

int magic_pid_cwd(const struct pseudo_subject *s, struct path *to)
{
	return cwd_of(s, to);
}

int link_pid_root(struct text *t, const struct pseudo_subject *s)
{
	text_puts(t, "/");
	return 0;
}

/* --- name ---------------------------------------------------------------------------- */

SHOW(show_pid_comm)
{
	char comm[COMM_LEN];
	struct proc_ref ref;
	const int err = proc_get(s, &ref);

	if (err)
		return err;
	mutex_lock(&ref.process->lock);
	strlcpy(comm, ref.task ? ref.task->comm : ref.process->comm, sizeof(comm));
	mutex_unlock(&ref.process->lock);
	proc_put(&ref);
	text_printf(t, "%s\n", comm);
	return 0;
}

int store_pid_comm(const struct pseudo_subject *s, const char *buf, size_t len)
{
	struct proc_ref ref;
	char comm[COMM_LEN];
	int err = proc_get(s, &ref);

	if (err)
		return err;
	strlcpy(comm, buf, sizeof(comm));
	if (len && len < sizeof(comm) && comm[len - 1] == '\n')
		comm[len - 1] = '\0';
	if (ref.process != process_current()) {
		err = -EINVAL;
	} else {
		if (!ref.task) /* the process has the name of its first task */
			ref.task = task_find(s->pid);
		mutex_lock(&ref.process->lock);
		if (ref.task)
			strlcpy(ref.task->comm, comm, sizeof(ref.task->comm));
		if (!s->tid || s->tid == s->pid)
			strlcpy(ref.process->comm, comm, sizeof(ref.process->comm));
		mutex_unlock(&ref.process->lock);
	}
	proc_put(&ref);
	return err;
}

/* --- limits -------------------------------------------------------------------------- */

static void put_limit(struct text *t, uint64_t value)
{
	if (value == RLIM_INFINITY)
		text_printf(t, "%-20s ", "unlimited");
	else
		text_printf(t, "%-20llu ", (unsigned long long)value);
}

SHOW(show_pid_limits)
{
	static const struct {
		const char *name, *unit;
	} names[RLIM_NLIMITS] = {
		[RLIMIT_CPU] = { "Max cpu time", "seconds" },
		[RLIMIT_FSIZE] = { "Max file size", "bytes" },
		[RLIMIT_DATA] = { "Max data size", "bytes" },
		[RLIMIT_STACK] = { "Max stack size", "bytes" },
		[RLIMIT_CORE] = { "Max core file size", "bytes" },
		[RLIMIT_RSS] = { "Max resident set", "bytes" },
		[RLIMIT_NPROC] = { "Max processes", "processes" },
		[RLIMIT_NOFILE] = { "Max open files", "files" },
		[RLIMIT_MEMLOCK] = { "Max locked memory", "bytes" },
		[RLIMIT_AS] = { "Max address space", "bytes" },
		[RLIMIT_LOCKS] = { "Max file locks", "locks" },
		[RLIMIT_SIGPENDING] = { "Max pending signals", "signals" },
		[RLIMIT_MSGQUEUE] = { "Max msgqueue size", "bytes" },
		[RLIMIT_NICE] = { "Max nice priority", "" },
		[RLIMIT_RTPRIO] = { "Max realtime priority", "" },
		[RLIMIT_RTTIME] = { "Max realtime timeout", "us" },
	};
	struct linux_rlimit limits[RLIM_NLIMITS];
	struct proc_ref ref;
	const int err = proc_get(s, &ref);

	if (err)
		return err;
	mutex_lock(&ref.process->lock);
	memcpy(limits, ref.process->rlimits, sizeof(limits));
	mutex_unlock(&ref.process->lock);
	proc_put(&ref);
	text_printf(t, "%-25s %-20s %-20s %-10s\n", "Limit", "Soft Limit", "Hard Limit", "Units");
	for (int i = 0; i < RLIM_NLIMITS; i++) {
		text_printf(t, "%-25s ", names[i].name);
		put_limit(t, limits[i].cur);
		put_limit(t, limits[i].max);
		text_printf(t, "%-10s\n", names[i].unit);
	}
	return 0;
}

/* --- mounts -------------------------------------------------------------------------- */

#define OPTIONS_MAX    256
#define FIRST_MOUNT_ID 20u

SHOW(show_pid_mounts)
{
	struct mounts *m = mounts_get();
	char options[OPTIONS_MAX];
	struct mount_info mi;

	if (IS_ERR(m))
		return PTR_ERR(m);
	for (size_t i = 0; mounts_info(m, i, &mi, options, sizeof(options)); i++) {
		text_escaped(t, mi.source, "#");
		text_putc(t, ' ');
		text_escaped(t, mi.at, "");
		text_printf(t, " %s %s 0 0\n", mi.type, mi.options);
	}
	return 0;
}

/* The number of the mount whose device is @dev. */
static unsigned int mount_id(struct mounts *m, uint64_t dev)
{
	char options[OPTIONS_MAX];
	struct mount_info mi;

	for (size_t i = 0; mounts_info(m, i, &mi, options, sizeof(options)); i++) {
		if (mi.dev == dev)
			return FIRST_MOUNT_ID + (unsigned int)i;
	}
	return FIRST_MOUNT_ID;
}

SHOW(show_pid_mountinfo)
{
	struct mounts *m = mounts_get();
	char options[OPTIONS_MAX];
	struct mount_info mi;

	if (IS_ERR(m))
		return PTR_ERR(m);
	for (size_t i = 0; mounts_info(m, i, &mi, options, sizeof(options)); i++) {
		/* The root has nothing above it: its parent is number 1, which has no line. */
		text_printf(t, "%u %u %u:%u / ", FIRST_MOUNT_ID + (unsigned int)i,
			    i ? mount_id(m, mi.root_dev) : 1, (unsigned int)(mi.dev >> 8),
			    (unsigned int)(mi.dev & 0xff));
		text_escaped(t, mi.at, "");
		text_printf(t, " %s - %s ", mi.options, mi.type);
		text_escaped(t, mi.source, "#");
		text_printf(t, " %s\n", strncmp(mi.options, "ro", 2) ? "rw" : "ro");
	}
	return 0;
}

SHOW(show_pid_personality)
{
	struct proc_ref ref;
	const int err = proc_get(s, &ref);

	if (err)
		return err;
	text_printf(t, "%08x\n", READ_ONCE(ref.process->personality));
	proc_put(&ref);
	return 0;
}

/* --- what is the same for all -------------------------------------------------------- */

#define CONSTANT(fn, string)                       \
	SHOW(fn)                                   \
	{                                          \
		struct proc_ref ref;               \
		const int err = proc_get(s, &ref); \
                                                   \
		if (err)                           \
			return err;                \
		proc_put(&ref);                    \
		text_puts(t, string);              \
		return 0;                          \
	}

CONSTANT(show_pid_cgroup, "0::/\n")
CONSTANT(show_pid_cpuset, "/\n")
CONSTANT(show_pid_loginuid, "4294967295")
CONSTANT(show_pid_id_map, "         0          0 4294967295\n")
CONSTANT(show_pid_wchan, "0")

/* --- who has to end when a memory node has no frame left ------------------------------ */

SHOW(show_pid_oom_score)
{
	struct aspace *as;
	struct proc_ref ref;
	uint64_t total, frames = 0;
	int err = proc_get(s, &ref);

	if (err)
		return err;
	total = system_memory_total() >> PAGE_SHIFT;
	as = process_aspace(ref.process);
	if (as) {
		frames = aspace_frames(as, 0);
		aspace_put(as);
	}
	text_printf(t, "%u\n",
		    oom_score(oom_badness(frames, total, READ_ONCE(ref.process->oom_adj)), total));
	proc_put(&ref);
	return 0;
}

SHOW(show_pid_oom_score_adj)
{
	struct proc_ref ref;
	const int err = proc_get(s, &ref);

	if (err)
		return err;
	text_printf(t, "%d\n", READ_ONCE(ref.process->oom_adj));
	proc_put(&ref);
	return 0;
}

/* As Linux: nobody goes below what root has set, but root. */
static int set_oom_adj(struct process *p, int adj)
{
	const bool may = capable(CAP_SYS_RESOURCE);
	int err = 0;

	spin_lock(&p->vnode->lock);
	if (adj < p->oom_adj_min && !may) {
		err = -EACCES;
	} else {
		WRITE_ONCE(p->oom_adj, adj);
		if (may)
			WRITE_ONCE(p->oom_adj_min, adj);
	}
	spin_unlock(&p->vnode->lock);
	return err;
}

int store_pid_oom_score_adj(const struct pseudo_subject *s, const char *buf, size_t len)
{
	struct proc_ref ref;
	int err, adj;

	err = text_signed(buf, len, OOM_ADJ_MIN, OOM_ADJ_MAX, &adj);
	if (!err)
		err = proc_get(s, &ref);
	if (err)
		return err;
	err = set_oom_adj(ref.process, adj);
	proc_put(&ref);
	return err;
}

/* --- core files ------------------------------------------------------------------------ */

SHOW(show_pid_coredump_filter)
{
	struct proc_ref ref;
	const int err = proc_get(s, &ref);

	if (err)
		return err;
	text_printf(t, "%08x\n", READ_ONCE(ref.process->core_filter));
	proc_put(&ref);
	return 0;
}

int store_pid_coredump_filter(const struct pseudo_subject *s, const char *buf, size_t len)
{
	struct proc_ref ref;
	uint64_t value;
	int err = text_number(buf, len, UINT32_MAX, &value);

	if (!err)
		err = proc_get(s, &ref);
	if (err)
		return err;
	WRITE_ONCE(ref.process->core_filter, (uint32_t)value & CORE_FILTER_ALL);
	proc_put(&ref);
	return 0;
}
