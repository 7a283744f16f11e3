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
	bool outside;
	char *buf;
	int err = proc_get(s, &ref);

	if (err)
		return err;
	buf = kmalloc(FS_PATH_MAX);
	mutex_lock(&ref.process->lock);
	if (!ref.process->exe_path || !buf)
		err = buf ? -ENOENT : -ENOMEM;
	else
		strlcpy(buf, ref.process->exe_path, FS_PATH_MAX);
	mutex_unlock(&ref.process->lock);
	proc_put(&ref);
	if (!err)
		err = path_text_strip(fs_current(), buf, &outside);
	if (!err)
		text_puts(t, buf);
	kfree(buf);
	return err;
}

/* Where the process looks for files, referenced. -ESRCH, -ENOENT: a zombie. */
static int fs_of(const struct pseudo_subject *s, struct fs_state **fs)
{
	struct proc_ref ref;
	int err = proc_get(s, &ref);

	if (err)
		return err;
	*fs = process_fs(ref.process);
	proc_put(&ref);
	return *fs ? 0 : -ENOENT;
}

/* The working directory, referenced. */
static int cwd_of(const struct pseudo_subject *s, struct path *out)
{
	struct fs_state *fs;
	int err = fs_of(s, &fs);

	if (err)
		return err;
	err = fs_state_cwd(fs, out);
	fs_state_put(fs);
	return err;
}

/* The root directory, referenced. */
static int root_of(const struct pseudo_subject *s, struct path *out)
{
	struct fs_state *fs;
	int err = fs_of(s, &fs);

	if (err)
		return err;
	err = fs_state_root(fs, out);
	if (!err && !out->inode) {
		mounts_root_path(fs->mounts, out);
		out->text = kstrdup("/");
		if (!out->text) {
			path_put(out);
			err = -ENOMEM;
		}
	}
	fs_state_put(fs);
	return err;
}

/* The text of a link to @at, which it takes over. */
static int put_place(struct text *t, struct path *at)
{
	char *buf = kmalloc(FS_PATH_MAX);
	bool outside;
	int gone = buf ? path_text_for(fs_current(), at, buf, &outside) : -ENOMEM;

	path_put(at);
	if (!gone || gone == -ENOENT) {
		text_puts(t, buf);
		if (gone)
			text_puts(t, " (deleted)");
		gone = 0;
	}
	kfree(buf);
	return gone;
}

int link_pid_cwd(struct text *t, const struct pseudo_subject *s)
{
	struct path at;
	const int err = cwd_of(s, &at);

	return err ? err : put_place(t, &at);
}

int magic_pid_cwd(const struct pseudo_subject *s, struct path *to)
{
	return cwd_of(s, to);
}

int link_pid_root(struct text *t, const struct pseudo_subject *s)
{
	struct path at;
	const int err = root_of(s, &at);

	return err ? err : put_place(t, &at);
}

int magic_pid_root(const struct pseudo_subject *s, struct path *to)
{
	return root_of(s, to);
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

/* The mounts that a process sees, with the paths that they have for it. */
struct mount_list {
	struct fs_state *fs;
	uint32_t id; /* of the last one */
	struct mount_info mi;
};

static struct mount_list *mount_list_begin(const struct pseudo_subject *s)
{
	struct mount_list *l = kmalloc(sizeof(*l));
	int err;

	if (!l)
		return ERR_PTR(-ENOMEM);
	l->id = 0;
	err = fs_of(s, &l->fs);
	if (!err)
		return l;
	kfree(l);
	return ERR_PTR(err);
}

/* The next one below the root of the process: 1; 0 at the end. */
static int mount_list_next(struct mount_list *l)
{
	bool outside = true;
	int err = 0;

	while (!err && outside) {
		if (!mounts_info(l->fs->mounts, l->id, &l->mi))
			return 0;
		l->id = l->mi.id;
		err = path_text_strip(l->fs, l->mi.at, &outside);
	}
	return err ? err : 1;
}

static void mount_list_end(struct mount_list *l)
{
	fs_state_put(l->fs);
	kfree(l);
}

/* Both kinds of options in one, as /proc/mounts has them. */
static void put_all_options(struct text *t, const struct mount_info *mi)
{
	const char *more = strchr(mi->super, ',');

	text_puts(t, mi->options);
	if (more)
		text_puts(t, more);
}

SHOW(show_pid_mounts)
{
	struct mount_list *l = mount_list_begin(s);
	int more;

	if (IS_ERR(l))
		return PTR_ERR(l);
	while ((more = mount_list_next(l)) > 0) {
		text_escaped(t, l->mi.source, "#");
		text_putc(t, ' ');
		text_escaped(t, l->mi.at, "");
		text_printf(t, " %s ", l->mi.type);
		put_all_options(t, &l->mi);
		text_puts(t, " 0 0\n");
	}
	mount_list_end(l);
	return more;
}

SHOW(show_pid_mountinfo)
{
	struct mount_list *l = mount_list_begin(s);
	int more;

	if (IS_ERR(l))
		return PTR_ERR(l);
	while ((more = mount_list_next(l)) > 0) {
		text_printf(t, "%u %u %u:%u ", l->mi.id, l->mi.parent_id,
			    (unsigned int)(l->mi.dev >> 8), (unsigned int)(l->mi.dev & 0xff));
		text_escaped(t, l->mi.root, "");
		text_putc(t, ' ');
		text_escaped(t, l->mi.at, "");
		text_printf(t, " %s - %s ", l->mi.options, l->mi.type);
		text_escaped(t, l->mi.source, "#");
		text_printf(t, " %s\n", l->mi.super);
	}
	mount_list_end(l);
	return more;
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
