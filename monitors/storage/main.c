/* SPDX-License-Identifier: MIT */
/*
 * Storage monitor: start.
 *
 * Flow:	as <cluster/start.h>: the disk is mounted before the network is up, buffers and
 *		handlers follow it.  One storage node of the cluster hosts the managers too.
 */
#define PR_FMT "storage: "

#include <cluster/membership.h>
#include <cluster/start.h>
#include <drivers/blkdev.h>
#include <drivers/partition.h>
#include <kernel/bootparam.h>
#include <kernel/counter.h>
#include <kernel/initcall.h>
#include <kernel/printk.h>
#include <kernel/reboot.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <managers/host.h>
#include <managers/placement.h>
#include <mm/slab.h>
#include <net/rpc.h>
#include <proto/sp.h>

#include "storage.h"

#define NO_DISK     "none"
/* How long requests may take to end when the node is shut down. */
#define SHUTDOWN_NS (20 * NSEC_PER_SEC)

static const char *disk_name;
static uint64_t cache_bytes = 8u << 20;
static uint64_t index_bytes = 4u << 20;
static uint64_t buffer_bytes = 8u << 20;
static uint32_t disk_wait_s = 10;
static bool writable, stable;
static uint32_t die_after; /* atomic, from the start of services on */
BOOT_PARAM(
	"disk", string, disk_name,
	"device with the file system, as vda, vda:2, vda:label=NAME, vda:uuid=UUID or vda:whole; "
	"\"none\": serve no files");
BOOT_PARAM("storage.cache", size, cache_bytes, "memory for blocks of metadata");
BOOT_PARAM("storage.index", size, index_bytes, "memory for the path index");
BOOT_PARAM("storage.buffers", size, buffer_bytes, "memory for reads in progress");
BOOT_PARAM("storage.writable", bool, writable, "let programs change the disk");
BOOT_PARAM(
	"storage.stable", bool, stable,
	"changes are on the disk before they are answered: none is lost when this node is killed");
BOOT_PARAM("storage.die_after", u32, die_after,
	   "for tests, with storage.stable: power off when so many changes are on the disk, before "
	   "the last one is answered (default 0: never)");
BOOT_PARAM("storage.disk_wait", u32, disk_wait_s, "seconds to wait for the device of disk=");

static struct storage storage;

static uint64_t fs_stat(size_t offset)
{
	struct fs_counts s;
	uint64_t value;

	if (!storage.fs)
		return 0;
	fs_counts(storage.fs, &s);
	memcpy(&value, (const uint8_t *)&s + offset, sizeof(value));
	return value;
}

#define FS_GAUGE(var, field, help)                                 \
	static uint64_t read_##var(void)                           \
	{                                                          \
		return fs_stat(offsetof(struct fs_counts, field)); \
	}                                                          \
	GAUGE_SUM(var, "storage." #var, help, read_##var)

FS_GAUGE(disk_reads, data_reads, "requests to the disk for contents of files");
FS_GAUGE(disk_bytes, data_bytes, "bytes of those requests");
FS_GAUGE(cache_hits, cache_hits, "blocks of metadata found in memory");
FS_GAUGE(cache_misses, cache_misses, "blocks of metadata read from the disk");
FS_GAUGE(inode_hits, inode_hits, "inodes found in memory");
FS_GAUGE(inode_misses, inode_misses, "inodes decoded from the disk");
FS_GAUGE(corruptions, corruptions, "times that something on the disk was wrong");

static uint64_t index_stat(size_t offset)
{
	struct pathindex_stats s;
	uint64_t value;

	if (!storage.index)
		return 0;
	pathindex_stats(storage.index, &s);
	memcpy(&value, (const uint8_t *)&s + offset, sizeof(value));
	return value;
}

#define INDEX_GAUGE(KIND, var, field, help)                                 \
	static uint64_t read_##var(void)                                    \
	{                                                                   \
		return index_stat(offsetof(struct pathindex_stats, field)); \
	}                                                                   \
	KIND(var, "storage." #var, help, read_##var)

INDEX_GAUGE(GAUGE_SUM, pathindex_hits, hits, "steps of path resolution answered by the index");
INDEX_GAUGE(GAUGE_SUM, pathindex_misses, misses, "steps that asked the file system");
INDEX_GAUGE(GAUGE, pathindex_entries, nr_entries, "paths in the index");

static uint64_t read_held(void)
{
	return held_count(&storage.held);
}
GAUGE(storage_held, "storage.held", "files without a name that processors use", read_held);

static uint64_t read_claims(void) __no_lock_analysis("a number to be shown, read without the lock")
{
	return READ_ONCE(storage.claims.nr);
}
GAUGE(storage_claims, "storage.claims", "files that memory nodes have claimed", read_claims);

static uint64_t read_locks(void)
{
	return __atomic_load_n(&storage.lock_table.nr_locks, __ATOMIC_RELAXED);
}
GAUGE(storage_locks_gauge, "storage.locks", "advisory locks that programs have", read_locks);

static uint64_t read_lock_waits(void)
{
	return __atomic_load_n(&storage.lock_table.nr_waits, __ATOMIC_RELAXED);
}
GAUGE(storage_lock_waits, "storage.lock_waits", "threads that wait for one", read_lock_waits);

static bool serving; /* atomic: buffers and file system are there */

static int debug_command(const char *cmd, char *reply, size_t cap)
{
	return READ_ONCE(serving) ? storage_debug(&storage, cmd, reply, cap) : -EAGAIN;
}

/* The launcher asks the nodes that have something to write before this one. */
static void shut_down(void)
{
	if (!READ_ONCE(serving))
		return;
	WRITE_ONCE(serving, false);
	storage_grace_end(&storage); /* claims that wait for it are let go */
	lock_table_close(&storage.lock_table);
	if (storage_serve_end(SHUTDOWN_NS))
		ctl_error("requests do not end: the disk is left to its journal");
	else
		storage_destroy(&storage);
}

static const struct ctl_ops ctl_ops = { .debug = debug_command,
					.shutdown = shut_down,
					.place = gpm_place_program, /* the managers' host knows */
					.lost = managers_node_ended }; /* runs no programs */

static bool is_member(const void *arg, const struct storage_peer *peer)
{
	const struct cluster_view *view = arg;

	for (size_t i = 0; i < view->nr_members; i++) {
		if (view->members[i].id == peer->node && view->members[i].incarn == peer->incarn)
			return true;
	}
	return false;
}

/* The node that hosts the managers tells the launcher who is a member. */
static void tell_launcher(const struct cluster_view *view)
{
	static_assert(CLUSTER_MAX_MEMBERS <= CTL_MAX_MEMBERS, "MEMBERS has room for a view");
	struct ctl_members *m = cluster_is_host() ? kmalloc(sizeof(*m)) : NULL;

	if (!m)
		return;
	m->epoch = view->epoch;
	m->nr = view->nr_members;
	for (size_t i = 0; i < view->nr_members; i++)
		m->members[i] = (struct ctl_member){ .node = view->members[i].id,
						     .incarn = view->members[i].incarn };
	ctl_members(m);
	kfree(m);
}

static struct mutex view_lock = MUTEX_INIT(view_lock, "storage.view", RANK_MONITOR);
static uint64_t view_epoch __guarded_by(&view_lock);

static void view_changed(const struct cluster_view *view)
{
	bool newer;

	/* Two threads may bring two views at once; the older one knows less of who is there. */
	mutex_lock(&view_lock);
	newer = view->epoch > view_epoch;
	if (newer) {
		view_epoch = view->epoch;
		storage_members(&storage, is_member, view);
	}
	mutex_unlock(&view_lock);
	if (newer)
		tell_launcher(view);
	grace_look(&storage.grace);
}

/* --- after a start again ------------------------------------------------------------------ */

/* Have all members of @role declared? */
static bool have_declared(enum node_role role)
{
	static uint32_t ids[CLUSTER_MAX_MEMBERS]; /* the grace thread's */
	const size_t nr = cluster_nodes(role, ids, CLUSTER_MAX_MEMBERS);

	for (size_t i = 0; i < MIN(nr, (size_t)CLUSTER_MAX_MEMBERS); i++) {
		struct node_info info;

		if (!rpc_peer_info(ids[i], &info) ||
		    !grace_has_declared(&storage.grace,
					&(struct storage_peer){ info.id, info.incarn }))
			return false;
	}
	return true;
}

/* Members whom the managers' node, if this is it, expects to join it again. */
static bool have_expected_declared(void)
{
	for (size_t i = 0; i < cluster_params.nr_expected; i++) {
		const struct cluster_member *m = &cluster_params.expected[i];

		if (m->role != NODE_ROLE_STORAGE &&
		    !grace_has_declared(&storage.grace, &(struct storage_peer){ m->id, m->incarn }))
			return false;
	}
	return true;
}

static bool all_have_declared(void)
{
	return cluster_lease_ns() && have_expected_declared() &&
	       have_declared(NODE_ROLE_PROCESSOR) && have_declared(NODE_ROLE_MEMORY);
}

static bool has_view(uint32_t node)
{
	return cluster_lease_ns() != 0;
}

/* A member that has not declared for one lease has lost it, and with it what it had. */
static void grace_thread(void *arg)
{
	bool all;

	if (cluster_wait_until(has_view, 0, WAIT_FOREVER, false))
		return; /* it has no end */
	all = wait_event_timeout(&storage.grace.changed,
				 grace_is_over(&storage.grace) || all_have_declared(),
				 time_after_ns(cluster_lease_ns()));
	pr_info("%s: claims are free, and files that nobody uses go\n",
		all ? "all members have declared what they have" : "a lease is over");
	storage_grace_end(&storage);
}

static int grace_start(void)
{
	struct thread *t;

	if (grace_is_over(&storage.grace))
		return 0;
	t = thread_create("storage.grace", grace_thread, NULL);
	if (IS_ERR(t))
		return (int)PTR_ERR(t);
	thread_detach(t);
	return 0;
}

/* Its claims are others' to take at once; here their memory is given back. */
static void member_gone(const struct node_info *node)
{
	if (node->role == NODE_ROLE_MEMORY)
		storage_claims_left(&storage);
}

static const struct cluster_ops cluster_ops = {
	.gone = member_gone,
	.status = monitor_status,
	.fenced = monitor_fenced,
	.changed = view_changed,
};

/* The first disk of either kind. */
static struct blkdev *first_disk(void)
{
	struct blkdev *bd = blkdev_get("vda");

	return bd ? bd : blkdev_get("nvme0n1");
}

/* The disk of disk=, before a colon; NULL and a line if there is none. */
static struct blkdev *named_disk(const char *name, size_t len)
{
	char disk[BLKDEV_NAME_LEN];
	struct blkdev *bd = NULL;

	if (!len) {
		bd = first_disk();
	} else if (len < sizeof(disk)) {
		memcpy(disk, name, len);
		disk[len] = '\0';
		bd = blkdev_wait(disk, time_after_ns(disk_wait_s * NSEC_PER_SEC));
	}
	if (!bd)
		ctl_error("disk=%s: no such device came up within %u s", name, disk_wait_s);
	return bd;
}

/* The disk or partition that was asked for, NULL if none is wanted; ERR_PTR if it is missing. */
static struct blkdev *find_disk(void)
{
	const char *colon = disk_name ? strchr(disk_name, ':') : NULL;
	struct blkdev *bd;
	char why[200];

	if (disk_name && !strcmp(disk_name, NO_DISK))
		return NULL;
	if (disk_name) {
		bd = named_disk(disk_name, colon ? (size_t)(colon - disk_name) : strlen(disk_name));
		if (!bd)
			return ERR_PTR(-ENODEV);
	} else {
		bd = first_disk();
		if (!bd) {
			ctl_status("no disk: this node serves no files");
			return NULL;
		}
	}
	bd = partition_open(bd, colon ? colon + 1 : "", why, sizeof(why));
	if (IS_ERR(bd))
		ctl_error("%s", why);
	return bd;
}

/* --- the processor that keeps names (keep.h) ---------------------------------------------- */

static bool is_alone(const struct storage_peer *who)
{
	uint32_t id = 0;

	return cluster_nodes(NODE_ROLE_PROCESSOR, &id, 1) == 1 && id == who->node;
}

/*
 * Calls to one that has left with its programs end with -EHOSTDOWN. One that holds its lease and
 * does not answer has no right to stop the others: what its programs see is its own affair.
 */
static int recall_from(uint32_t node)
{
	const int ret = rpc_call_sync_killable(node, RPC_CLASS_CONTROL, SP_RECALL, NULL, 0, NULL, 0,
					       2 * cluster_lease_ns());

	if (ret == -ETIMEDOUT)
		pr_warn("node %u does not give back the names that it keeps\n", node);
	return ret == -EHOSTDOWN || ret == -ETIMEDOUT ? 0 : MIN(ret, 0);
}

static int recall_from_all(void)
{
	uint32_t *ids = kcalloc(CLUSTER_MAX_MEMBERS, sizeof(*ids));
	size_t nr;
	int err = 0;

	if (!ids)
		return -ENOMEM;
	nr = cluster_nodes(NODE_ROLE_PROCESSOR, ids, CLUSTER_MAX_MEMBERS);
	for (size_t i = 0; i < MIN(nr, (size_t)CLUSTER_MAX_MEMBERS) && !err; i++)
		err = recall_from(ids[i]);
	kfree(ids);
	return err;
}

static int recall(const struct storage_peer *keeper)
{
	return keeper ? recall_from(keeper->node) : recall_from_all();
}

static const struct keep_ops keep_ops = { .is_alone = is_alone, .recall = recall };

/* By what the RPC layer knows before gone() and until joined() of the next one, or after it. */
static bool has_left(uint32_t node, uint32_t incarn)
{
	struct node_info info;

	return rpc_peer_has_left(node, incarn) || !rpc_peer_info(node, &info) ||
	       info.incarn != incarn;
}

/* A change is on the disk, and its sender does not know it yet. */
static void die_in_time(void)
{
	if (__atomic_sub_fetch(&die_after, 1, __ATOMIC_RELAXED))
		return;
	pr_info("storage.die_after: the power goes between a commit and its answer\n");
	machine_poweroff(EXIT_STATUS_OK);
}

static int start_files(void)
{
	char why[200];
	const struct storage_options opt = {
		.cache_bytes = cache_bytes,
		.index_bytes = index_bytes,
		.write = writable,
		.why = why,
		.why_size = sizeof(why),
		.vnode_check = cluster_vnode_check,
		.file_key = cluster_file_key(),
		.incarn = node_incarnation(),
		.stable = stable,
		.committed = stable && die_after ? die_in_time : NULL,
		.again = node_start_of(node_incarnation()) != 1,
		.has_left = has_left,
		.keep = &keep_ops,
	};
	struct blkdev *bd = find_disk();
	int err;

	if (IS_ERR(bd))
		return (int)PTR_ERR(bd);
	why[0] = '\0';
	err = storage_init(&storage, log_node_id(), bd, &opt);
	if (err)
		ctl_error("%s cannot be mounted: %s", bd ? bd->name : "storage",
			  why[0]           ? why
			  : err == -ENOMEM ? "out of memory"
					   : "I/O error");
	else if (bd)
		pr_info("%s is mounted, %s\n", bd->name,
			fs_is_read_only(storage.fs) ? "read only" : "read and write");
	return err;
}

static int serve(void)
{
	int err = bufpool_init(buffer_bytes);

	if (!err)
		err = storage_serve(&storage);
	if (!err)
		err = grace_start();
	if (!err)
		WRITE_ONCE(serving, true);
	return err;
}

static const struct monitor monitor = {
	.name = "storage",
	.ctl_role = CTL_ROLE_STORAGE,
	.role = NODE_ROLE_STORAGE,
	.ctl = &ctl_ops,
	.cluster = &cluster_ops,
	.prepare = start_files,
	.serve = serve,
};

static int storage_start(void)
{
	return monitor_start(&monitor);
}
INITCALL(monitor, storage_start);
