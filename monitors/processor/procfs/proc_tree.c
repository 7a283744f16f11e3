/* SPDX-License-Identifier: MIT */
/*
 * /proc: the tree of names.
 *
 * The tree that is mounted first shows the vNode's numbers. mount(2) in a PID namespace makes a
 * tree of its own, with the tasks and the numbers of that namespace.
 */
#include <kernel/initcall.h>
#include <lib/errno.h>
#include <lib/fmt.h>
#include <lib/string.h>
#include <processor/account/account.h>
#include <processor/ns/ns.h>

#include "proc_private.h"

/* --- names that are numbers ---------------------------------------------------------- */

static int parse_id(const char *name, uint32_t *id)
{
	if (name[0] < '1' || name[0] > '9' || kstrtou32(name, 10, id))
		return -ENOENT;
	return 0;
}

/* /proc/<tid> is there too, as on Linux, but not listed. */
static int find_process(struct pseudo_subject *s, const char *name)
{
	struct process *p;
	struct task *t = NULL;
	uint32_t id;

	if (parse_id(name, &id))
		return -ENOENT;
	id = pid_from_vnr_in(id, s->pid_ns);
	p = process_find(id);
	if (!p) {
		t = task_find(id);
		if (!t)
			return -ENOENT;
		s->tid = id;
		p = t->process;
	}
	s->pid = p->pid;
	s->start_ns = p->start_ns;
	if (t)
		task_put(t);
	else
		process_put(p);
	return 0;
}

static int next_process(const struct pseudo_subject *s, uint64_t *nr, char name[PSEUDO_NAME_MAX])
{
	uint32_t pid = (uint32_t)*nr;
	struct process *p = *nr < PID_MAX ? process_next(s->pid_ns, &pid) : NULL;

	if (!p)
		return -ENOENT;
	process_put(p);
	snprintf(name, PSEUDO_NAME_MAX, "%u", pid);
	*nr = (uint64_t)pid + 1;
	return 0;
}

static int find_task(struct pseudo_subject *s, const char *name)
{
	struct proc_ref ref;
	uint32_t id;
	int err;

	if (parse_id(name, &id))
		return -ENOENT;
	s->tid = pid_from_vnr_in(id, s->pid_ns);
	if (!s->tid)
		return -ENOENT;
	err = proc_get(s, &ref);
	if (!err)
		proc_put(&ref);
	return err == -ESRCH ? -ENOENT : err;
}

static int next_task(const struct pseudo_subject *s, uint64_t *nr, char name[PSEUDO_NAME_MAX])
{
	const struct pseudo_subject whole = { .pid = s->pid, .start_ns = s->start_ns };
	uint32_t tid = (uint32_t)*nr;
	struct proc_ref ref;
	struct task *t;
	int err;

	if (*nr >= PID_MAX)
		return -ENOENT;
	err = proc_get(&whole, &ref);
	if (err)
		return err == -ESRCH ? -ENOENT : err;
	t = process_next_task(ref.process, s->pid_ns, &tid);
	proc_put(&ref);
	if (!t)
		return -ENOENT;
	task_put(t);
	snprintf(name, PSEUDO_NAME_MAX, "%u", tid);
	*nr = (uint64_t)tid + 1;
	return 0;
}

/* --- a process and a thread ---------------------------------------------------------- */

#define TRACED_FILE(n, perm, fn) \
	{ .name = (n), .mode = S_IFREG | (perm), .traced = true, .show = (fn) }
#define TRACED_LINK(n, fn, to) \
	{ .name = (n), .mode = S_IFLNK | 0777, .traced = true, .link = (fn), .magic_link = (to) }
#define MEMORY_FILE(n, perm, o) \
	{ .name = (n), .mode = S_IFREG | (perm), .traced = true, .ops = (o) }
#define USER_FILE(n, fn)           { .name = (n), .mode = S_IFREG | 0644, .opened = (fn) }
#define NUMBERED_DIR(n, perm, dyn) { .name = (n), .mode = S_IFDIR | (perm), .dynamic = (dyn) }

/* Names that both a thread's directory and a process's have. */
#define COMMON_NODES                                                                               \
	TRACED_FILE("auxv", 0400, show_pid_auxv), PSEUDO_FILE("cgroup", 0444, show_pid_cgroup),    \
		PSEUDO_FILE("cmdline", 0444, show_pid_cmdline),                                    \
		PSEUDO_WRITABLE("comm", 0644, show_pid_comm, store_pid_comm),                      \
		PSEUDO_FILE("cpuset", 0444, show_pid_cpuset),                                      \
		TRACED_LINK("cwd", link_pid_cwd, magic_pid_cwd),                                   \
		TRACED_FILE("environ", 0400, show_pid_environ),                                    \
		TRACED_LINK("exe", link_pid_exe, NULL), NUMBERED_DIR("fd", 0500, &proc_fds),       \
		NUMBERED_DIR("fdinfo", 0555, &proc_fdinfos),                                       \
		USER_FILE("gid_map", proc_open_gid_map),                                           \
		PSEUDO_FILE("limits", 0444, show_pid_limits),                                      \
		PSEUDO_WRITABLE("loginuid", 0644, show_pid_loginuid, store_pid_loginuid),          \
		TRACED_FILE("maps", 0444, show_pid_maps), MEMORY_FILE("mem", 0600, &proc_mem_ops), \
		PSEUDO_FILE("mountinfo", 0444, show_pid_mountinfo),                                \
		PSEUDO_FILE("mounts", 0444, show_pid_mounts), PSEUDO_DIR("net", proc_net_nodes),   \
		TRACED_FILE("numa_maps", 0444, show_pid_numa_maps),                                \
		{ .name = "ns", .mode = S_IFDIR | 0511, .children = proc_ns_nodes },               \
		PSEUDO_FILE("oom_score", 0444, show_pid_oom_score),                                \
		PSEUDO_WRITABLE("oom_score_adj", 0644, show_pid_oom_score_adj,                     \
				store_pid_oom_score_adj),                                          \
		TRACED_FILE("personality", 0400, show_pid_personality),                            \
		USER_FILE("projid_map", proc_open_projid_map),                                     \
		TRACED_LINK("root", link_pid_root, magic_pid_root),                                \
		PSEUDO_FILE("sessionid", 0444, show_pid_sessionid),                                \
		USER_FILE("setgroups", proc_open_setgroups),                                       \
		TRACED_FILE("smaps", 0444, show_pid_smaps),                                        \
		TRACED_FILE("smaps_rollup", 0444, show_pid_smaps_rollup),                          \
		PSEUDO_FILE("stat", 0444, show_pid_stat),                                          \
		PSEUDO_FILE("statm", 0444, show_pid_statm),                                        \
		PSEUDO_FILE("status", 0444, show_pid_status),                                      \
		USER_FILE("uid_map", proc_open_uid_map),                                           \
		PSEUDO_FILE("wchan", 0444, show_pid_wchan)

static const struct pseudo_node task_nodes[] = { COMMON_NODES, { 0 } };
static const struct pseudo_node task_node = PSEUDO_DIR("", task_nodes);
static const struct pseudo_dynamic tasks = {
	.node = &task_node,
	.find = find_task,
	.next = next_task,
};

static const struct pseudo_node process_nodes[] = {
	COMMON_NODES,
	PSEUDO_WRITABLE("coredump_filter", 0644, show_pid_coredump_filter,
			store_pid_coredump_filter),
	NUMBERED_DIR("task", 0555, &tasks),
	{ 0 },
};
static const struct pseudo_node process_node = PSEUDO_DIR("", process_nodes);
static const struct pseudo_dynamic processes = {
	.node = &process_node,
	.find = find_process,
	.next = next_process,
};

/* --- the root ------------------------------------------------------------------------ */

/*
 * A walk for the launcher, which is no process, finds nothing behind these two, nor does a process
 * outside of the tree's namespace.
 */
static int link_self(struct text *t, const struct pseudo_subject *s)
{
	const uint32_t pid = task_current() ? proc_nr(s, process_current()->pid) : 0;

	if (!pid)
		return -ENOENT;
	text_printf(t, "%u", pid);
	return 0;
}

static int link_thread_self(struct text *t, const struct pseudo_subject *s)
{
	const uint32_t pid = task_current() ? proc_nr(s, process_current()->pid) : 0;

	if (!pid)
		return -ENOENT;
	text_printf(t, "%u/task/%u", pid, proc_nr(s, task_current()->tid));
	return 0;
}

static int link_mounts(struct text *t, const struct pseudo_subject *s)
{
	text_puts(t, "self/mounts");
	return 0;
}

static int link_net(struct text *t, const struct pseudo_subject *s)
{
	text_puts(t, "self/net");
	return 0;
}

static const struct pseudo_node root_nodes[] = {
	PSEUDO_FILE("cgroups", 0444, show_cgroups),
	PSEUDO_FILE("cmdline", 0444, show_cmdline),
	PSEUDO_FILE("cpuinfo", 0444, show_cpuinfo),
	PSEUDO_FILE("devices", 0444, show_devices),
	PSEUDO_FILE("filesystems", 0444, show_filesystems),
	PSEUDO_FILE("interrupts", 0444, show_interrupts),
	PSEUDO_FILE("loadavg", 0444, show_loadavg),
	PSEUDO_FILE("meminfo", 0444, show_meminfo),
	PSEUDO_LINK("mounts", link_mounts),
	PSEUDO_LINK("net", link_net),
	PSEUDO_FILE("partitions", 0444, show_partitions),
	PSEUDO_LINK("self", link_self),
	PSEUDO_FILE("stat", 0444, show_stat),
	PSEUDO_FILE("swaps", 0444, show_swaps),
	PSEUDO_DIR("sys", proc_sys_nodes),
	PSEUDO_DIR("sysvipc", proc_sysvipc_nodes),
	PSEUDO_LINK("thread-self", link_thread_self),
	PSEUDO_FILE("uptime", 0444, show_uptime),
	PSEUDO_FILE("version", 0444, show_version),
	PSEUDO_FILE("vmstat", 0444, show_vmstat),
	{ 0 },
};
static const struct pseudo_node root_node = {
	.name = "",
	.mode = S_IFDIR | 0555,
	.children = root_nodes,
	.dynamic = &processes,
};

/* --- the file systems ---------------------------------------------------------------- */

static int proc_root(const struct fs_type *type, struct inode **out)
{
	return pseudo_root(type, &root_node, NULL, out);
}

/* One that was made in a PID namespace. */
struct proc_fs {
	struct fs_type type;
	struct pid_ns *ns; /* const; counted */
};

static int made_root(const struct fs_type *type, struct inode **out)
{
	return pseudo_root(type, &root_node, container_of(type, struct proc_fs, type)->ns, out);
}

static void proc_drop(struct fs_type *type)
{
	struct proc_fs *fs = container_of(type, struct proc_fs, type);

	pid_ns_put(fs->ns);
	kmem_free(fs);
}

static bool proc_is_shared(void)
{
	return !pid_ns_current();
}

/* As with the one that is shared, options mean nothing. */
static int proc_make(const char *data, struct fs_type **out)
{
	struct proc_fs *fs = kmem_alloc(kmem_current(), sizeof(*fs));

	if (!fs)
		return -ENOMEM;
	*fs = (struct proc_fs){ .type = { .name = "proc",
					  .at = "/",
					  .magic = 0x9fa0,
					  .create_error = -ENOENT,
					  .noexec = true,
					  .made_up = true,
					  .root = made_root,
					  .drop = proc_drop,
					  .dev = fs_new_dev() },
				.ns = pid_ns_get(pid_ns_current()) };
	*out = &fs->type;
	return 0;
}

static struct fs_type procfs = {
	.name = "proc",
	.at = "/proc",
	.options = "nosuid,nodev,relatime",
	.magic = 0x9fa0,
	.create_error = -ENOENT, /* as Linux: no name can be made here */
	.noexec = true,
	.made_up = true,
	.for_users = true,
	.made_of = NS_PID,
	.reveals = true,
	.root = proc_root,
	.make = proc_make,
	.is_shared = proc_is_shared,
};

static int proc_init(void)
{
	return fs_register(&procfs);
}
INITCALL(fs, proc_init);
