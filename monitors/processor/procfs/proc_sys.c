/* SPDX-License-Identifier: MIT */
/*
 * /proc/sys: limits and settings, as they hold. Commitment can be set: the memory
 * nodes hear of it.
 */
#include <kernel/initcall.h>
#include <kernel/panic.h>
#include <kernel/random.h>
#include <lib/string.h>
#include <processor/ipc/filelease.h>
#include <processor/ipc/mqueue.h>
#include <processor/mm/commit.h>
#include <processor/mm/kmem.h>
#include <processor/ns/user_count.h>
#include <processor/process/core.h>
#include <processor/process/process.h>
#include <processor/socket/ping_range.h>
#include <processor/vfs/aio.h>
#include <processor/vfs/file.h>
#include <processor/vfs/notify.h>

#include "proc_private.h"
#include "system_private.h"

#define CONSTANT(fn, string)               \
	static SHOW(fn)                    \
	{                                  \
		text_puts(t, string "\n"); \
		return 0;                  \
	}

CONSTANT(show_osrelease, SYSTEM_RELEASE)
CONSTANT(show_ostype, SYSTEM_NAME)
CONSTANT(show_kversion, SYSTEM_VERSION)
CONSTANT(show_ngroups_max, STRINGIFY(CRED_GROUPS_MAX))
CONSTANT(show_cap_last_cap, "40")
CONSTANT(show_zero, "0")
CONSTANT(show_two, "2")
CONSTANT(show_mmap_min_addr, "65536")
CONSTANT(show_entropy, "256")
CONSTANT(show_nr_open, "1048576")
CONSTANT(show_somaxconn, "4096")
CONSTANT(show_pipe_max, "1048576")

static SHOW(show_core_pattern)
{
	char pattern[CORE_PATTERN_MAX];

	core_pattern_get(pattern);
	text_printf(t, "%s\n", pattern);
	return 0;
}

static int store_core_pattern(const struct pseudo_subject *s, const char *buf, size_t len)
{
	return core_pattern_set(buf, len);
}

static SHOW(show_core_uses_pid)
{
	text_printf(t, "%u\n", READ_ONCE(core_uses_pid));
	return 0;
}

static int store_core_uses_pid(const struct pseudo_subject *s, const char *buf, size_t len)
{
	uint64_t value;
	const int err = text_number(buf, len, INT32_MAX, &value);

	if (!err)
		WRITE_ONCE(core_uses_pid, (uint32_t)value);
	return err;
}

static SHOW(show_pid_max)
{
	text_printf(t, "%u\n", PID_MAX);
	return 0;
}

static SHOW(show_max_map_count)
{
	text_printf(t, "%u\n", kmem_max_map_count());
	return 0;
}

static int store_max_map_count(const struct pseudo_subject *s, const char *buf, size_t len)
{
	uint64_t nr;
	const int err = text_number(buf, len, INT32_MAX, &nr);

	return err ? err : kmem_set_max_map_count(nr);
}

static SHOW(show_file_max)
{
	text_printf(t, "%llu\n", (unsigned long long)file_max());
	return 0;
}

static SHOW(show_file_nr)
{
	text_printf(t, "%llu\t0\t%llu\n", (unsigned long long)file_count(),
		    (unsigned long long)file_max());
	return 0;
}

static void put_uuid(struct text *t, uint8_t b[16])
{
	b[6] = (uint8_t)((b[6] & 0x0f) | 0x40); /* version 4: random */
	b[8] = (uint8_t)((b[8] & 0x3f) | 0x80);
	for (int i = 0; i < 16; i++)
		text_printf(t, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", b[i]);
	text_putc(t, '\n');
}

static SHOW(show_uuid)
{
	uint8_t b[16];

	random_bytes(b, sizeof(b));
	put_uuid(t, b);
	return 0;
}

static uint8_t boot_id[16]; /* const after init */

static int boot_id_init(void)
{
	ASSERT_BEFORE(monitor); /* where programs start */
	random_bytes(boot_id, sizeof(boot_id));
	return 0;
}
INITCALL(core, boot_id_init);

static SHOW(show_boot_id)
{
	uint8_t b[16];

	memcpy(b, boot_id, sizeof(b));
	put_uuid(t, b);
	return 0;
}

/* --- commitment: see docs/design/memory.md ------------------------------------------------- */

static int show_commit(struct text *t, uint64_t (*field)(const struct commit_policy *p))
{
	struct commit_policy policy;
	const int err = commit_policy_get(&policy);

	if (err)
		return err == -ENOMEM ? err : -EIO;
	text_printf(t, "%llu\n", (unsigned long long)field(&policy));
	return 0;
}

static int store_commit(const char *buf, size_t len, uint64_t max,
			void (*change)(struct commit_policy *p, uint64_t value))
{
	uint64_t value;
	int err = text_number(buf, len, max, &value);

	if (!err)
		err = commit_policy_set(change, value);
	return err == -EHOSTDOWN ? -EIO : err;
}

static uint64_t mode_of(const struct commit_policy *p)
{
	return p->mode;
}

static void set_mode(struct commit_policy *p, uint64_t value)
{
	p->mode = (uint32_t)value;
}

/* As Linux, the one that is set last counts. */
static uint64_t ratio_of(const struct commit_policy *p)
{
	return p->kbytes ? 0 : p->ratio;
}

static void set_ratio(struct commit_policy *p, uint64_t value)
{
	p->ratio = (uint32_t)value;
	p->kbytes = 0;
}

static uint64_t kbytes_of(const struct commit_policy *p)
{
	return p->kbytes;
}

static void set_kbytes(struct commit_policy *p, uint64_t value)
{
	p->kbytes = value;
	p->ratio = 0;
}

static SHOW(show_overcommit)
{
	return show_commit(t, mode_of);
}

static SHOW(show_overcommit_ratio)
{
	return show_commit(t, ratio_of);
}

static SHOW(show_overcommit_kbytes)
{
	return show_commit(t, kbytes_of);
}

static int store_overcommit(const struct pseudo_subject *s, const char *buf, size_t len)
{
	return store_commit(buf, len, COMMIT_MODES - 1, set_mode);
}

static int store_overcommit_ratio(const struct pseudo_subject *s, const char *buf, size_t len)
{
	return store_commit(buf, len, INT32_MAX, set_ratio);
}

static int store_overcommit_kbytes(const struct pseudo_subject *s, const char *buf, size_t len)
{
	return store_commit(buf, len, INT64_MAX, set_kbytes);
}

/* --- the tree ------------------------------------------------------------------------------ */

static const struct pseudo_node random_nodes[] = {
	PSEUDO_FILE("boot_id", 0444, show_boot_id),
	PSEUDO_FILE("entropy_avail", 0444, show_entropy),
	PSEUDO_FILE("poolsize", 0444, show_entropy),
	PSEUDO_FILE("uuid", 0444, show_uuid),
	{ 0 },
};

static const struct pseudo_node kernel_nodes[] = {
	PSEUDO_FILE("cap_last_cap", 0444, show_cap_last_cap),
	PSEUDO_WRITABLE("core_pattern", 0644, show_core_pattern, store_core_pattern),
	PSEUDO_WRITABLE("core_uses_pid", 0644, show_core_uses_pid, store_core_uses_pid),
	PSEUDO_WRITABLE("domainname", 0644, show_domainname, store_domainname),
	PSEUDO_WRITABLE("hostname", 0644, show_hostname, store_hostname),
	PSEUDO_WRITABLE("msg_next_id", 0644, show_msg_next_id, store_msg_next_id),
	PSEUDO_WRITABLE("msgmax", 0644, show_msgmax, store_msgmax),
	PSEUDO_WRITABLE("msgmnb", 0644, show_msgmnb, store_msgmnb),
	PSEUDO_WRITABLE("msgmni", 0644, show_msgmni, store_msgmni),
	PSEUDO_FILE("ngroups_max", 0444, show_ngroups_max),
	PSEUDO_FILE("osrelease", 0444, show_osrelease),
	PSEUDO_FILE("ostype", 0444, show_ostype),
	PSEUDO_FILE("pid_max", 0444, show_pid_max),
	PSEUDO_DIR("random", random_nodes),
	PSEUDO_FILE("randomize_va_space", 0444, show_two),
	PSEUDO_WRITABLE("sem", 0644, show_sem_limits, store_sem_limits),
	PSEUDO_WRITABLE("sem_next_id", 0644, show_sem_next_id, store_sem_next_id),
	PSEUDO_WRITABLE("shm_next_id", 0644, show_shm_next_id, store_shm_next_id),
	PSEUDO_FILE("shm_rmid_forced", 0444, show_zero),
	PSEUDO_WRITABLE("shmall", 0644, show_shmall, store_shmall),
	PSEUDO_WRITABLE("shmmax", 0644, show_shmmax, store_shmmax),
	PSEUDO_WRITABLE("shmmni", 0644, show_shmmni, store_shmmni),
	PSEUDO_FILE("version", 0444, show_kversion),
	{ 0 },
};

static const struct pseudo_node vm_nodes[] = {
	PSEUDO_WRITABLE("max_map_count", 0644, show_max_map_count, store_max_map_count),
	PSEUDO_FILE("mmap_min_addr", 0444, show_mmap_min_addr),
	PSEUDO_WRITABLE("overcommit_kbytes", 0644, show_overcommit_kbytes, store_overcommit_kbytes),
	PSEUDO_WRITABLE("overcommit_memory", 0644, show_overcommit, store_overcommit),
	PSEUDO_WRITABLE("overcommit_ratio", 0644, show_overcommit_ratio, store_overcommit_ratio),
	PSEUDO_FILE("swappiness", 0444, show_zero),
	{ 0 },
};

#define INOTIFY_LIMIT(name, var)                                                             \
	static SHOW(show_##name)                                                             \
	{                                                                                    \
		text_printf(t, "%u\n", READ_ONCE(var));                                      \
		return 0;                                                                    \
	}                                                                                    \
	static int store_##name(const struct pseudo_subject *s, const char *buf, size_t len) \
	{                                                                                    \
		uint64_t value;                                                              \
		const int err = text_number(buf, len, INT32_MAX, &value);                    \
                                                                                             \
		if (!err)                                                                    \
			WRITE_ONCE(var, (uint32_t)value);                                    \
		return err;                                                                  \
	}

INOTIFY_LIMIT(max_queued_events, notify_max_events)
INOTIFY_LIMIT(max_user_instances, notify_max_groups)
INOTIFY_LIMIT(max_user_watches, notify_max_watches)

static const struct pseudo_node inotify_nodes[] = {
	PSEUDO_WRITABLE("max_queued_events", 0644, show_max_queued_events, store_max_queued_events),
	PSEUDO_WRITABLE("max_user_instances", 0644, show_max_user_instances,
			store_max_user_instances),
	PSEUDO_WRITABLE("max_user_watches", 0644, show_max_user_watches, store_max_user_watches),
	{ 0 },
};

#define MQUEUE_LIMIT(name, min, max)                                                            \
	static SHOW(show_mq_##name)                                                             \
	{                                                                                       \
		text_printf(t, "%u\n", READ_ONCE(mqueue_limits()->name));                       \
		return 0;                                                                       \
	}                                                                                       \
	static int store_mq_##name(const struct pseudo_subject *s, const char *buf, size_t len) \
	{                                                                                       \
		uint64_t value;                                                                 \
		const int err = text_number(buf, len, (max), &value);                           \
                                                                                                \
		if (err || (int64_t)value < (min))                                              \
			return err ? err : -EINVAL;                                             \
		WRITE_ONCE(mqueue_limits()->name, (uint32_t)value);                             \
		return 0;                                                                       \
	}

MQUEUE_LIMIT(queues_max, 0, INT32_MAX)
MQUEUE_LIMIT(msg_max, 1, MQUEUE_HARD_MSG)
MQUEUE_LIMIT(msg_default, 1, MQUEUE_HARD_MSG)
MQUEUE_LIMIT(msgsize_max, MQUEUE_MIN_MSGSIZE, MQUEUE_HARD_MSGSIZE)
MQUEUE_LIMIT(msgsize_default, MQUEUE_MIN_MSGSIZE, MQUEUE_HARD_MSGSIZE)

static SHOW(show_aio_nr)
{
	text_printf(t, "%llu\n", (unsigned long long)aio_nr());
	return 0;
}

static SHOW(show_aio_max_nr)
{
	text_printf(t, "%llu\n", (unsigned long long)READ_ONCE(aio_max_nr));
	return 0;
}

static int store_aio_max_nr(const struct pseudo_subject *s, const char *buf, size_t len)
{
	uint64_t nr;
	const int err = text_number(buf, len, INT64_MAX, &nr);

	if (!err)
		WRITE_ONCE(aio_max_nr, nr);
	return err;
}

static const struct pseudo_node mqueue_nodes[] = {
	PSEUDO_WRITABLE("msg_default", 0644, show_mq_msg_default, store_mq_msg_default),
	PSEUDO_WRITABLE("msg_max", 0644, show_mq_msg_max, store_mq_msg_max),
	PSEUDO_WRITABLE("msgsize_default", 0644, show_mq_msgsize_default, store_mq_msgsize_default),
	PSEUDO_WRITABLE("msgsize_max", 0644, show_mq_msgsize_max, store_mq_msgsize_max),
	PSEUDO_WRITABLE("queues_max", 0644, show_mq_queues_max, store_mq_queues_max),
	{ 0 },
};

static SHOW(show_lease_break_time)
{
	text_printf(t, "%u\n", READ_ONCE(filelease_break_s));
	return 0;
}

static int store_lease_break_time(const struct pseudo_subject *s, const char *buf, size_t len)
{
	uint64_t value;
	const int err = text_number(buf, len, INT32_MAX, &value);

	if (!err)
		WRITE_ONCE(filelease_break_s, (uint32_t)value);
	return err;
}

static SHOW(show_dir_notify_enable)
{
	text_printf(t, "%u\n", READ_ONCE(dnotify_enabled));
	return 0;
}

static int store_dir_notify_enable(const struct pseudo_subject *s, const char *buf, size_t len)
{
	uint64_t value;
	const int err = text_number(buf, len, INT32_MAX, &value);

	if (!err)
		WRITE_ONCE(dnotify_enabled, (uint32_t)value);
	return err;
}

static const struct pseudo_node fs_nodes[] = {
	PSEUDO_WRITABLE("aio-max-nr", 0644, show_aio_max_nr, store_aio_max_nr),
	PSEUDO_FILE("aio-nr", 0444, show_aio_nr),
	PSEUDO_WRITABLE("dir-notify-enable", 0644, show_dir_notify_enable, store_dir_notify_enable),
	PSEUDO_FILE("file-max", 0444, show_file_max),
	PSEUDO_FILE("file-nr", 0444, show_file_nr),
	PSEUDO_DIR("inotify", inotify_nodes),
	PSEUDO_WRITABLE("lease-break-time", 0644, show_lease_break_time, store_lease_break_time),
	PSEUDO_DIR("mqueue", mqueue_nodes),
	PSEUDO_FILE("nr_open", 0444, show_nr_open),
	PSEUDO_FILE("pipe-max-size", 0444, show_pipe_max),
	PSEUDO_FILE("protected_hardlinks", 0444, show_zero),
	PSEUDO_FILE("protected_symlinks", 0444, show_zero),
	PSEUDO_FILE("suid_dumpable", 0444, show_zero),
	{ 0 },
};

/* Kernel ids: those of the first user namespace. */
static SHOW(show_ping_group_range)
{
	uint32_t from, to;

	ping_range_get(&from, &to);
	ASSERT(from <= to || (from == 1 && to == 0));
	text_printf(t, "%u\t%u\n", from, to);
	return 0;
}

static int store_ping_group_range(const struct pseudo_subject *s, const char *buf, size_t len)
{
	uint32_t range[2];
	int err;

	ping_range_get(&range[0], &range[1]);
	err = text_pair(buf, len, INT32_MAX, range);
	if (!err)
		ping_range_set(range[0], range[1]);
	return err;
}

static const struct pseudo_node ipv4_nodes[] = {
	PSEUDO_WRITABLE("ping_group_range", 0644, show_ping_group_range, store_ping_group_range),
	{ 0 },
};

static const struct pseudo_node core_nodes[] = {
	PSEUDO_FILE("somaxconn", 0444, show_somaxconn),
	{ 0 },
};

static const struct pseudo_node net_nodes[] = {
	PSEUDO_DIR("core", core_nodes),
	PSEUDO_DIR("ipv4", ipv4_nodes),
	{ 0 },
};

/* Limits of namespaces; they hold for each user of each user namespace. */
#define USER_LIMIT(name, kind)                                                                   \
	static SHOW(show_max_##name)                                                             \
	{                                                                                        \
		text_printf(t, "%llu\n",                                                         \
			    (unsigned long long)__atomic_load_n(&user_count_max[kind],           \
								__ATOMIC_RELAXED));              \
		return 0;                                                                        \
	}                                                                                        \
	static int store_max_##name(const struct pseudo_subject *s, const char *buf, size_t len) \
	{                                                                                        \
		uint64_t value;                                                                  \
		const int err = text_number(buf, len, INT32_MAX, &value);                        \
                                                                                                 \
		if (!err && !capable(CAP_SYS_RESOURCE))                                          \
			return -EPERM;                                                           \
		if (!err)                                                                        \
			__atomic_store_n(&user_count_max[kind], value, __ATOMIC_RELAXED);        \
		return err;                                                                      \
	}

USER_LIMIT(cgroup, NS_CGROUP)
USER_LIMIT(ipc, NS_IPC)
USER_LIMIT(mnt, NS_MNT)
USER_LIMIT(net, NS_NET)
USER_LIMIT(pid, NS_PID)
USER_LIMIT(user, NS_USER)
USER_LIMIT(uts, NS_UTS)

static const struct pseudo_node user_nodes[] = {
	PSEUDO_WRITABLE("max_cgroup_namespaces", 0644, show_max_cgroup, store_max_cgroup),
	PSEUDO_WRITABLE("max_ipc_namespaces", 0644, show_max_ipc, store_max_ipc),
	PSEUDO_WRITABLE("max_mnt_namespaces", 0644, show_max_mnt, store_max_mnt),
	PSEUDO_WRITABLE("max_net_namespaces", 0644, show_max_net, store_max_net),
	PSEUDO_WRITABLE("max_pid_namespaces", 0644, show_max_pid, store_max_pid),
	PSEUDO_WRITABLE("max_user_namespaces", 0644, show_max_user, store_max_user),
	PSEUDO_WRITABLE("max_uts_namespaces", 0644, show_max_uts, store_max_uts),
	{ 0 },
};

const struct pseudo_node proc_sys_nodes[] = {
	PSEUDO_DIR("fs", fs_nodes),   PSEUDO_DIR("kernel", kernel_nodes),
	PSEUDO_DIR("net", net_nodes), PSEUDO_DIR("user", user_nodes),
	PSEUDO_DIR("vm", vm_nodes),   { 0 },
};
