/* SPDX-License-Identifier: MIT */
/*
 * Changes of files from the processor's inodes to the disk's file system and back: walks, inodes
 * and requests of a processor, and the services of a storage node over a file system in memory,
 * with messages that can be lost.
 */
#include <stdlib.h>

#include <abi/xattr.h>
#include <cluster/patience.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <kernel/wait.h>
#include <kernel/work.h>
#include <lib/err.h>
#include <lib/ktest.h>
#include <lib/string.h>
#include <managers/placement.h>
#include <mm/slab.h>
#include <net/rpc.h>
#include <processor/client/behind.h>
#include <processor/client/change.h>
#include <processor/client/file_node.h>
#include <processor/client/kept.h>
#include <processor/client/storage.h>
#include <processor/excache/object.h>
#include <processor/ipc/filelock.h>
#include <processor/process/process.h>
#include <shim/shim.h>

#include <processor/vfs/dirent_private.h>
#include <processor/vfs/file.h>
#include <processor/vfs/live.h>
#include <processor/vfs/mount_private.h>
#include <processor/vfs/path.h>
#include <processor/vfs/storagefs_private.h>
#include <storage/memfs_test.h>

#include "files_server.h"

#define NODE 5u
#define DATA 6u /* the storage node that has /data */

#define HOUR_NS (3600 * NSEC_PER_SEC)

static struct storage st, data;
static const struct storage_peer processor = { .node = 1, .incarn = 11 };
static struct fs_cred user;

static struct {
	unsigned int lose_answers; /* of the next changes; each time the node is restarted */
	unsigned int kill_renames; /* of the next, which are done, the callers are killed */
	unsigned int nr_calls, nr_closed, nr_dropped, nr_unlinks, nr_batches, nr_setattrs;
	unsigned int nr_renames;
	unsigned int nr_times;   /* that a memory node was told first */
	int times;               /* what that ends with */
	bool mapped;             /* every file is */
	bool has_lines;          /* every file has */
	void (*unlinks)(void);   /* before the next PS_UNLINK is served */
	bool keeps;              /* the processor may keep names */
	void (*meanwhile)(void); /* after the next look-up was done, before it is answered */
	void (*makes)(void);     /* the same of the next file that is made */
	bool data_away;          /* DATA does not answer */
	int batches;             /* what the next PS_BATCH ends with instead */
	bool gated;              /* PS_BATCH waits */
	bool held_up;            /* the same, and is served then */
	bool is_waiting;         /* one is */
} net;

/* --- contents, which no memory node is here for ------------------------------------------ */

int filelock_declare(uint32_t node, uint32_t incarn)
{
	return 0;
}

int live_open(struct file *f)
{
	return -ENOMEM;
}

int live_maps_init(uint32_t at, uint64_t block)
{
	return 0;
}

int live_flush(const struct file_id *file)
{
	return 0;
}

int live_set_mtime(const struct file_attr *attr)
{
	return 0;
}

int live_set_mtime_begin(const struct file_attr *attr, struct live_file **lf)
{
	net.nr_times++;
	return net.times;
}

void live_set_mtime_end(struct live_file *lf)
{
}

int live_flush_node(uint32_t at)
{
	return 0;
}

int file_nodes_flush(const struct file_id *file)
{
	return 0;
}

int live_truncate(const struct file_id *file, uint64_t fsid, uint64_t size)
{
	return -ENOSPC;
}

int live_attr(struct file_attr *attr)
{
	return 0;
}

int file_bufs_init(void)
{
	return 0;
}

/* --- the network ------------------------------------------------------------------------ */

static ssize_t serve(struct storage *server, uint16_t opcode, const void *body, uint32_t len,
		     void *reply, uint32_t max)
{
	switch (opcode) {
	case PS_LOOKUP:
		return server_lookup(server, body, len, reply, max);
	case PS_GETATTR:
		return server_getattr(server, body, len, reply, max);
	case PS_FIND:
		return storage_find(server, body, len, reply, max);
	case PS_READLINK:
		return server_readlink(server, body, len, reply, max);
	case PS_STATFS:
		return server_statfs(server, body, len, reply, max);
	case PS_GETXATTR:
		return storage_getxattr(server, body, len, reply, max);
	case PS_LISTXATTR:
		return storage_listxattr(server, body, len, reply, max);
	case PS_KEEP:
		return storage_keep(server, opcode, &processor, body, len, reply, max);
	case PS_BATCH:
		net.nr_batches++;
		return storage_batch(server, opcode, &processor, body, len, reply, max);
	case PS_FSYNC:
	case PS_SYNC:
		return 0;
	case PS_CLOSE:
		net.nr_closed++;
		return server_close(server, opcode, &processor, body, len, reply, max);
	default:
		return storage_change(server, opcode, &processor, body, len, reply, max);
	}
}

static int call_once(const struct rpc_call *call)
{
	void (*meanwhile)(void) = net.meanwhile, (*unlinks)(void) = net.unlinks;
	ssize_t ret;

	if (call->peer != NODE && call->peer != DATA)
		return -EHOSTUNREACH;
	while (call->opcode == PS_BATCH && __atomic_load_n(&net.held_up, __ATOMIC_ACQUIRE)) {
		__atomic_store_n(&net.is_waiting, true, __ATOMIC_RELEASE);
		thread_yield();
	}
	while (call->peer == DATA && __atomic_load_n(&net.data_away, __ATOMIC_ACQUIRE))
		thread_yield();
	if (call->opcode == PS_BATCH && __atomic_load_n(&net.batches, __ATOMIC_ACQUIRE)) {
		__atomic_add_fetch(&net.nr_batches, 1, __ATOMIC_RELEASE);
		while (__atomic_load_n(&net.gated, __ATOMIC_ACQUIRE))
			thread_yield();
		return __atomic_load_n(&net.batches, __ATOMIC_ACQUIRE);
	}
	net.nr_calls++;
	net.nr_unlinks += call->opcode == PS_UNLINK;
	net.nr_setattrs += call->opcode == PS_SETATTR;
	net.nr_renames += call->opcode == PS_RENAME;
	if ((call->opcode == PS_UNLINK || call->opcode == PS_RMDIR) && unlinks) {
		net.unlinks = NULL;
		unlinks();
	}
	ret = serve(call->peer == DATA ? &data : &st, call->opcode, call->body, call->body_len,
		    call->reply, call->reply_max);
	if ((call->opcode == PS_LOOKUP || call->opcode == PS_FIND) && meanwhile) {
		net.meanwhile = NULL;
		meanwhile();
	}
	if ((call->opcode == PS_CREATE || call->opcode == PS_TMPFILE) && net.makes) {
		void (*makes)(void) = net.makes;

		net.makes = NULL;
		makes();
	}
	if (net.lose_answers && call->opcode >= PS_CREATE) {
		net.lose_answers--;
		record_table_destroy(&st.records);
		return -EHOSTDOWN;
	}
	return (int)ret;
}

struct rpc_call *rpc_call_alloc(void)
{
	return calloc(1, sizeof(struct rpc_call));
}

int patient_call(uint32_t node, struct rpc_call *(*make)(void *arg), void *arg, bool killable)
{
	struct rpc_call *call;
	int ret;

	do {
		call = make(arg);
		ret = call ? call_once(call) : -ENOMEM;
		if (call && call->opcode == PS_RENAME && net.kill_renames) {
			net.kill_renames--;
			ret = -EINTR;
		}
		free(call);
	} while (ret == -EHOSTDOWN);
	return ret;
}

uint64_t patience_ns(void)
{
	return 120 * NSEC_PER_SEC;
}

int patience_wait_until(bool (*is_there)(uint32_t node), uint32_t node, bool killable)
{
	return -EHOSTDOWN;
}

uint32_t gsm_storage_for(const char *at)
{
	return strcmp(at, "/") ? DATA : NODE;
}

const char *gsm_mount_at(size_t i)
{
	return i ? NULL : "/data";
}

/* Parts of batches are for each node and sender. */
const struct storage_msg storage_msgs[] = { { .opcode = PS_UNLINK },
					    { .opcode = PS_SETATTR },
					    { .opcode = PS_RENAME } };
const size_t nr_storage_msgs = ARRAY_SIZE(storage_msgs);

int storage_check_vnode(const struct storage *server, const struct storage_msg *msg, uint32_t peer,
			const void *body, size_t len)
{
	return 0;
}

/* --- what is not linked ------------------------------------------------------------------ */

const struct file_ops regular_ops = { .name = "regular" };

struct object *object_file_get(const struct file_attr *attr)
{
	return ERR_PTR(-ENOMEM);
}

bool object_file_drop(const struct file_id *file)
{
	net.nr_dropped++;
	return !net.mapped;
}

bool object_file_is_idle(const struct file_id *file)
{
	return !net.mapped;
}

bool object_file_is_known(const struct file_id *file)
{
	return net.mapped || net.has_lines;
}

bool dir_emit(struct dir_sink *sink, const char *name, size_t len, uint64_t ino, uint8_t type,
	      uint64_t cookie)
{
	return false;
}

void process_cred(struct fs_cred *cred)
{
	*cred = user;
}

/* Wait until all ends of use have been told. */
static void drain(void)
{
	(void)!behind_flush(NODE, false);
	(void)!behind_flush(DATA, false);
	(void)workqueue_flush(storagefs_ends, WAIT_FOREVER);
}

/* --- fixture ------------------------------------------------------------------------------ */

static struct mounts *mounts;
static unsigned int nr_before; /* files of the root */

/* Behind the back of the index, but for its end. */
static void make_at_root(struct ktest *t, struct fs *fs, const char *name, uint32_t mode,
			 const char *target)
{
	const struct fs_new what = { .mode = mode,
				     .target = target,
				     .target_len = target ? strlen(target) : 0 };
	const struct fs_change ch = { 0 };
	struct fs_inode *root = fs_inode_get(fs, fs->root_ino, FS_ANY_GEN), *in;

	ASSERT_FALSE(t, IS_ERR(root));
	in = fs_create(root, name, strlen(name), &what, &ch);
	ASSERT_FALSE(t, IS_ERR(in));
	fs_inode_put(in);
	fs_inode_put(root);
	pathindex_invalidate(st.index);
}

static void remove_at_root(struct ktest *t, struct fs *fs, const char *name)
{
	const struct fs_change ch = { 0 };
	struct fs_inode *root = fs_inode_get(fs, fs->root_ino, FS_ANY_GEN);

	ASSERT_FALSE(t, IS_ERR(root));
	ASSERT_EQ(t, fs_unlink(root, name, strlen(name), &ch), 0);
	fs_inode_put(root);
	pathindex_invalidate(st.index);
}

/* As long as what the configuration names has no place, no program starts. */
static void mount_points_are_checked(struct ktest *t)
{
	EXPECT_EQ(t, PTR_ERR(mounts_get()), -ENOENT);
	EXPECT_STREQ(t, mounts_why(), "the mount point /data does not exist");
	make_at_root(t, st.fs, "data", S_IFREG | 0644, NULL);
	EXPECT_EQ(t, PTR_ERR(mounts_get()), -ENOTDIR);
	EXPECT_STREQ(t, mounts_why(), "the mount point /data is not a directory");
	remove_at_root(t, st.fs, "data");
	make_at_root(t, st.fs, "data", S_IFLNK | 0777, "elsewhere");
	EXPECT_EQ(t, PTR_ERR(mounts_get()), -ENOTDIR);
	remove_at_root(t, st.fs, "data");
	make_at_root(t, st.fs, "data", S_IFDIR | 0755, NULL);
}

static bool keeping; /* what the next cases begin with */

static bool may_keep(const struct storage_peer *who)
{
	return net.keeps;
}

static const struct keep_ops keep_ops = { .is_alone = may_keep };

/* Nothing is left of the case before. */
static void keep_names(void)
{
	drain();
	net.keeps = keeping;
	for (uint32_t node = NODE; node <= DATA; node++) {
		kept_drop(node);
		kept_view_changed();
		kept_ask(node);
	}
	net.nr_calls = 0;
	nr_before = memfs_nr_files(st.fs);
}

static bool later; /* the next cases remove names behind */

static void setup(struct ktest *t)
{
	static const struct storage_options opt = { .index_bytes = 65536, .keep = &keep_ops };

	(void)behind_switch(later);
	(void)behind_keep_rooms(HOUR_NS);
	user = (struct fs_cred){ 0 };
	memset(&net, 0, sizeof(net));
	if (mounts) {
		keep_names();
		return;
	}
	ASSERT_EQ(t, storage_init(&st, NODE, NULL, &opt), 0);
	st.fs = memfs_create();
	st.fsid = 99;
	memfs_journal(st.fs);
	ASSERT_EQ(t, storage_init(&data, DATA, NULL, &opt), 0);
	data.fs = memfs_create();
	data.fsid = 99; /* a copy of the other */
	memfs_journal(data.fs);
	ASSERT_EQ(t, shim_initcalls_run(), 0);
	mount_points_are_checked(t);
	mounts = mounts_get();
	ASSERT_FALSE(t, IS_ERR(mounts));
	EXPECT_FALSE(t, mounts_why());
	keep_names();
}

static int walk(const char *path, uint32_t flags, struct walk_result *res)
{
	const struct walk_base base = { .cred = &user, .mounts = mounts };

	return path_walk(&base, path, flags, 0, res);
}

/* The inode at @path, or an error. */
static struct inode *get(const char *path)
{
	struct walk_result res;
	const int err = walk(path, WALK_NOFOLLOW, &res);
	struct inode *inode;

	if (err)
		return ERR_PTR(err);
	inode = res.at.inode;
	inode_get(inode);
	walk_result_put(&res);
	return inode;
}

static int exists(const char *path)
{
	struct inode *inode = get(path);

	if (IS_ERR(inode))
		return (int)PTR_ERR(inode);
	inode_put(inode);
	return 0;
}

/* Make @path of @mode; *@out, if not NULL, is referenced. */
static int make(const char *path, uint32_t mode, struct inode **out)
{
	const struct walk_base base = { .cred = &user, .mounts = mounts };
	struct new_inode how = { .mode = mode, .target = "target", .target_len = 6 };
	struct walk_result res;
	int err = path_walk_parent(&base, path, &res);

	if (err)
		return err;
	if ((mode & S_IFMT) != S_IFLNK)
		how.target_len = 0;
	how.name = res.name;
	how.len = strlen(res.name);
	err = res.parent.inode->ops->create(res.parent.inode, &how, out);
	walk_result_put(&res);
	return err;
}

static int remove_path(const char *path)
{
	const struct walk_base base = { .cred = &user, .mounts = mounts };
	struct walk_result res;
	int err = path_walk_parent(&base, path, &res);

	if (err)
		return err;
	err = path_walk_last(&base, &res);
	if (!err)
		err = res.parent.inode->ops->remove(res.parent.inode, res.name, strlen(res.name),
						    res.at.inode);
	walk_result_put(&res);
	return err;
}

/* @path becomes one more name of @file. */
static int link_at(const char *path, struct inode *file)
{
	const struct walk_base base = { .cred = &user, .mounts = mounts };
	struct walk_result res;
	int err = path_walk_parent(&base, path, &res);

	if (err)
		return err;
	err = res.parent.inode->ops->link(res.parent.inode, res.name, strlen(res.name), file);
	walk_result_put(&res);
	return err;
}

static int rename_path(const char *from, const char *to, bool exchange)
{
	const struct walk_base base = { .cred = &user, .mounts = mounts };
	struct walk_result a, b;
	struct rename_args args;
	int err = path_walk_parent(&base, from, &a);

	if (err)
		return err;
	err = path_walk_parent(&base, to, &b);
	if (!err)
		err = path_walk_last(&base, &a);
	if (!err) {
		err = path_walk_last(&base, &b);
		args = (struct rename_args){
			.from_dir = a.parent.inode,
			.from = a.name,
			.from_len = strlen(a.name),
			.source = a.at.inode,
			.to_dir = b.parent.inode,
			.to = b.name,
			.to_len = strlen(b.name),
			.target = b.at.inode,
			.exchange = exchange,
		};
		if (!err || err == -ENOENT)
			err = a.parent.inode->ops->rename(&args);
		walk_result_put(&b);
	}
	walk_result_put(&a);
	return err;
}

/* The path of @inode as getcwd would tell it. */
static const char *text_of(struct inode *inode)
{
	static char buf[FS_PATH_MAX];
	char unknown[] = "?";
	struct mount *mnt = mounts_of_dev(mounts, inode->type->dev);
	const struct path p = { .inode = inode, .mnt = mnt, .text = unknown };
	const int err = path_text(&p, buf);

	mount_put(mnt);

	return err == -ENOENT ? "gone" : err ? "error" : buf;
}

/* --- cases --------------------------------------------------------------------------------- */

static void names_come_and_go(struct ktest *t)
{
	struct inode *file;
	struct file_attr attr;
	char target[16];

	setup(t);
	ASSERT_EQ(t, make("/d", S_IFDIR | 0755, NULL), 0);
	ASSERT_EQ(t, make("/d/f", S_IFREG | 0644, &file), 0);
	EXPECT_EQ(t, make("/d/f", S_IFREG | 0644, NULL), -EEXIST);
	ASSERT_EQ(t, inode_getattr(file, &attr), 0);
	EXPECT_EQ(t, attr.mode, S_IFREG | 0644u);
	inode_put(file);
	ASSERT_EQ(t, make("/d/l", S_IFLNK | 0777, &file), 0);
	EXPECT_EQ(t, file->ops->readlink(file, target, sizeof(target)), 6);
	EXPECT_MEMEQ(t, target, "target", 6);
	inode_put(file);
	EXPECT_EQ(t, remove_path("/d"), -ENOTEMPTY);
	EXPECT_EQ(t, remove_path("/d/f"), 0);
	EXPECT_EQ(t, exists("/d/f"), -ENOENT);
	EXPECT_EQ(t, remove_path("/d/l"), 0);
	EXPECT_EQ(t, remove_path("/d"), 0);
	EXPECT_EQ(t, exists("/d"), -ENOENT);
}

static void paths_follow_a_rename(struct ktest *t)
{
	struct inode *deep, *other;
	size_t live;

	setup(t);
	live = shim_allocs_live();
	ASSERT_EQ(t, make("/a", S_IFDIR | 0755, NULL), 0);
	ASSERT_EQ(t, make("/ab", S_IFDIR | 0755, &other), 0);
	ASSERT_EQ(t, make("/a/b", S_IFDIR | 0755, NULL), 0);
	ASSERT_EQ(t, make("/a/b/c", S_IFDIR | 0755, &deep), 0);
	EXPECT_STREQ(t, text_of(deep), "/a/b/c");
	ASSERT_EQ(t, rename_path("/a", "/z", false), 0);
	EXPECT_STREQ(t, text_of(deep), "/z/b/c");
	EXPECT_STREQ(t, text_of(other), "/ab");
	ASSERT_EQ(t, rename_path("/z/b", "/ab", true), 0);
	EXPECT_STREQ(t, text_of(deep), "/ab/c");
	EXPECT_STREQ(t, text_of(other), "/z/b");
	/* A name in a directory that was moved is looked for at its new place. */
	ASSERT_EQ(t, make("/ab/c/file", S_IFREG | 0644, NULL), 0);
	EXPECT_EQ(t, exists("/ab/c/file"), 0);
	EXPECT_EQ(t, remove_path("/ab/c/file"), 0);
	EXPECT_EQ(t, remove_path("/ab/c"), 0);
	EXPECT_STREQ(t, text_of(deep), "gone");
	EXPECT_EQ(t, remove_path("/ab"), 0);
	EXPECT_EQ(t, remove_path("/z/b"), 0);
	EXPECT_EQ(t, remove_path("/z"), 0);
	inode_put(deep);
	inode_put(other);
	drain();
	EXPECT_EQ(t, memfs_nr_files(st.fs), nr_before);
	EXPECT_GE(t, live + 64, shim_allocs_live()); /* the index remembers paths */
}

/* A new directory of the same name is not the one that was removed. */
static void a_removed_directory_stays_empty(struct ktest *t)
{
	struct walk_result res;
	struct walk_base base = { .cred = &user };
	struct path cwd;

	setup(t);
	base.mounts = mounts;
	mounts_root_path(mounts, &cwd);
	inode_put(cwd.inode);
	ASSERT_EQ(t, make("/d", S_IFDIR | 0755, &cwd.inode), 0);
	cwd.text = kstrdup("/d");
	cwd.attr.mode = S_IFDIR;
	ASSERT_EQ(t, remove_path("/d"), 0);
	ASSERT_EQ(t, make("/d", S_IFDIR | 0755, NULL), 0);
	ASSERT_EQ(t, make("/d/f", S_IFREG | 0644, NULL), 0);
	base.dir = &cwd;
	EXPECT_EQ(t, path_walk(&base, "f", 0, 0, &res), -ENOENT);
	path_put(&cwd);
	EXPECT_EQ(t, remove_path("/d/f"), 0);
	EXPECT_EQ(t, remove_path("/d"), 0);
}

static void move_it(void)
{
	(void)!rename_path("/a", "/moved", false);
}

static void a_lookup_that_a_rename_overtakes_is_made_again(struct ktest *t)
{
	struct inode *dir;

	setup(t);
	ASSERT_EQ(t, make("/a", S_IFDIR | 0755, NULL), 0);
	ASSERT_EQ(t, make("/a/b", S_IFDIR | 0755, NULL), 0);
	keep_names(); /* none so far */
	net.meanwhile = move_it;
	EXPECT_EQ(t, exists("/a/b"), -ENOENT);
	EXPECT_FALSE(t, net.meanwhile);
	EXPECT_EQ(t, exists("/a/b"), -ENOENT);
	dir = get("/moved/b");
	ASSERT_FALSE(t, IS_ERR(dir));
	EXPECT_STREQ(t, text_of(dir), "/moved/b");
	inode_put(dir);
	EXPECT_EQ(t, remove_path("/moved/b"), 0);
	EXPECT_EQ(t, remove_path("/moved"), 0);
}

static void a_lost_answer_does_nothing_twice(struct ktest *t)
{
	struct inode *file;

	setup(t);
	net.lose_answers = 2;
	ASSERT_EQ(t, make("/f", S_IFREG | 0644, &file), 0);
	EXPECT_EQ(t, net.lose_answers, 0u);
	inode_put(file);
	net.lose_answers = 1;
	EXPECT_EQ(t, rename_path("/f", "/g", false), 0);
	net.lose_answers = 1;
	EXPECT_EQ(t, remove_path("/g"), 0);
	EXPECT_EQ(t, net.lose_answers, 0u);
	drain();
	EXPECT_EQ(t, memfs_nr_files(st.fs), nr_before);
}

static void an_open_file_outlives_its_name(struct ktest *t)
{
	struct inode *file;
	struct file_attr attr;

	setup(t);
	ASSERT_EQ(t, make("/f", S_IFREG | 0644, &file), 0);
	ASSERT_EQ(t, remove_path("/f"), 0);
	drain();
	EXPECT_EQ(t, net.nr_closed, 0u);
	ASSERT_EQ(t, inode_getattr(file, &attr), 0);
	EXPECT_EQ(t, attr.nlink, 0u);
	inode_put(file);
	drain();
	EXPECT_EQ(t, net.nr_closed, 1u);
	EXPECT_EQ(t, memfs_nr_files(st.fs), nr_before);
	/* One that is mapped is not given up. */
	net.mapped = true;
	ASSERT_EQ(t, make("/f", S_IFREG | 0644, NULL), 0);
	ASSERT_EQ(t, remove_path("/f"), 0);
	drain();
	EXPECT_EQ(t, net.nr_closed, 1u);
	EXPECT_EQ(t, memfs_nr_files(st.fs), nr_before + 1);
}

static void an_unused_file_goes_with_its_name(struct ktest *t)
{
	struct inode *other;

	setup(t);
	ASSERT_EQ(t, make("/f", S_IFREG | 0644, NULL), 0);
	net.has_lines = true;
	ASSERT_EQ(t, remove_path("/f"), 0);
	drain();
	EXPECT_EQ(t, net.nr_dropped, 1u);
	EXPECT_EQ(t, net.nr_closed, 0u);
	EXPECT_EQ(t, memfs_nr_files(st.fs), nr_before);
	net.has_lines = false;
	/* An exchange takes no name from a file. */
	ASSERT_EQ(t, make("/a", S_IFREG | 0644, NULL), 0);
	ASSERT_EQ(t, make("/b", S_IFREG | 0644, NULL), 0);
	ASSERT_EQ(t, rename_path("/a", "/b", true), 0);
	EXPECT_EQ(t, memfs_nr_files(st.fs), nr_before + 2);
	/* One that a rename replaces: used, and then not. */
	other = get("/b");
	ASSERT_FALSE(t, IS_ERR(other));
	ASSERT_EQ(t, rename_path("/a", "/b", false), 0);
	EXPECT_EQ(t, memfs_nr_files(st.fs), nr_before + 2);
	inode_put(other);
	drain();
	EXPECT_EQ(t, net.nr_closed, 1u);
	ASSERT_EQ(t, make("/a", S_IFREG | 0644, NULL), 0);
	ASSERT_EQ(t, rename_path("/a", "/b", false), 0);
	drain();
	EXPECT_EQ(t, net.nr_closed, 1u);
	EXPECT_EQ(t, memfs_nr_files(st.fs), nr_before + 1);
	/* A refused removal changes nothing; a lost answer is no other one. */
	user.uid = user.gid = 1000;
	EXPECT_EQ(t, remove_path("/b"), -EACCES);
	user.uid = user.gid = 0;
	EXPECT_EQ(t, exists("/b"), 0);
	net.lose_answers = 1;
	EXPECT_EQ(t, remove_path("/b"), 0);
	EXPECT_EQ(t, net.lose_answers, 0u);
	drain();
	EXPECT_EQ(t, net.nr_closed, 1u);
	EXPECT_EQ(t, memfs_nr_files(st.fs), nr_before);
}

static void remove_it(void)
{
	(void)!remove_path("/f");
}

/* The answer of a look-up names a file that has gone: no program may get it. */
static void a_file_that_goes_meanwhile_is_looked_for_again(struct ktest *t)
{
	setup(t);
	ASSERT_EQ(t, make("/f", S_IFREG | 0644, NULL), 0);
	keep_names();
	net.meanwhile = remove_it;
	EXPECT_EQ(t, exists("/f"), -ENOENT);
	EXPECT_FALSE(t, net.meanwhile);
	drain();
	EXPECT_EQ(t, net.nr_closed, 0u);
}

/* Many files end, also those that kept_is_gone() takes for any other. */
static void all_go(void)
{
	struct file_id file = { .node = NODE };

	for (file.ino = 1000; file.ino < 30000; file.ino++)
		kept_gone(&file);
}

static void a_file_is_made_while_others_go(struct ktest *t)
{
	const struct new_inode how = { .name = "#", .len = 1, .mode = S_IFREG | 0600 };
	struct inode *root, *file;
	unsigned int before;
	struct path top;

	setup(t);
	before = memfs_nr_files(st.fs);
	net.makes = all_go;
	ASSERT_EQ(t, make("/f", S_IFREG | 0644, &file), 0);
	EXPECT_FALSE(t, net.makes);
	inode_put(file);
	mounts_root_path(mounts, &top);
	root = top.inode; /* which stays: it is the root */
	path_put(&top);
	net.makes = all_go;
	ASSERT_EQ(t, root->ops->tmpfile(root, &how, &file), 0);
	EXPECT_FALSE(t, net.makes);
	inode_put(file);
	EXPECT_EQ(t, remove_path("/f"), 0);
	/* It goes itself: it is made once more. */
	net.makes = remove_it;
	ASSERT_EQ(t, make("/f", S_IFREG | 0644, &file), 0);
	EXPECT_FALSE(t, net.makes);
	EXPECT_EQ(t, exists("/f"), 0);
	inode_put(file);
	EXPECT_EQ(t, remove_path("/f"), 0);
	drain();
	EXPECT_EQ(t, memfs_nr_files(st.fs), before);
}

static struct {
	struct work work;
	struct workqueue *wq;
	int err;
} looker;

static void look(struct work *w)
{
	looker.err = exists("/f");
}

static void look_for_it(void)
{
	(void)work_queue(looker.wq, &looker.work);
}

/* One that comes to the file while it is being removed waits for that. */
static void a_look_up_waits_for_a_removal(struct ktest *t)
{
	setup(t);
	looker.wq = workqueue_create("looker", 1);
	ASSERT_FALSE(t, IS_ERR(looker.wq));
	work_init(&looker.work, look);
	looker.err = 1;
	ASSERT_EQ(t, make("/f", S_IFREG | 0644, NULL), 0);
	net.unlinks = look_for_it;
	EXPECT_EQ(t, remove_path("/f"), 0);
	EXPECT_FALSE(t, net.unlinks);
	(void)workqueue_flush(looker.wq, WAIT_FOREVER);
	EXPECT_EQ(t, looker.err, -ENOENT);
	/* It fails: then it is there. */
	ASSERT_EQ(t, make("/f", S_IFREG | 0644, NULL), 0);
	memfs_fail(st.fs, -ENOSPC);
	net.unlinks = look_for_it;
	EXPECT_EQ(t, remove_path("/f"), -ENOSPC);
	(void)workqueue_flush(looker.wq, WAIT_FOREVER);
	EXPECT_EQ(t, looker.err, 0);
	memfs_fail(st.fs, 0);
	EXPECT_EQ(t, remove_path("/f"), 0);
	drain();
	workqueue_destroy(looker.wq);
}

static void a_file_without_a_name_may_get_one(struct ktest *t)
{
	const struct new_inode how = { .name = "#", .len = 1, .mode = S_IFREG | 0600 };
	struct inode *root, *file;
	unsigned int before;
	struct path top;

	setup(t);
	before = memfs_nr_files(st.fs);
	mounts_root_path(mounts, &top);
	root = top.inode; /* which stays: it is the root */
	path_put(&top);
	ASSERT_EQ(t, root->ops->tmpfile(root, &how, &file), 0);
	EXPECT_STREQ(t, text_of(file), "gone");
	ASSERT_EQ(t, root->ops->link(root, "n", 1, file), 0);
	inode_put(file);
	drain();
	EXPECT_EQ(t, net.nr_closed, 0u);
	EXPECT_EQ(t, exists("/n"), 0);
	EXPECT_EQ(t, remove_path("/n"), 0);
	drain();
	EXPECT_EQ(t, memfs_nr_files(st.fs), before);
}

static void attributes_change(struct ktest *t)
{
	const struct attr_change mode = { .valid = ATTR_MODE, .mode = 0600 };
	const struct attr_change times = { .valid = ATTR_ATIME | ATTR_ATIME_NOW | ATTR_MTIME,
					   .mtime = { 5, 6 } };
	const struct attr_change size = { .valid = ATTR_SIZE, .size = 9 };
	struct inode *file;
	struct file_attr attr;

	setup(t);
	ASSERT_EQ(t, make("/f", S_IFREG | 0644, &file), 0);
	EXPECT_EQ(t, file->ops->setattr(file, &mode), 0);
	EXPECT_EQ(t, file->ops->setattr(file, &times), 0);
	EXPECT_EQ(t, file->ops->setattr(file, &size), -ENOSPC);
	ASSERT_EQ(t, inode_getattr(file, &attr), 0);
	EXPECT_EQ(t, attr.mode, S_IFREG | 0600u);
	EXPECT_EQ(t, attr.mtime.sec, 5ll);
	EXPECT_EQ(t, attr.mtime.nsec, 6u);
	EXPECT_NE(t, attr.atime.sec, 0ll);
	user.uid = user.gid = 1000;
	EXPECT_EQ(t, file->ops->setattr(file, &mode), -EPERM);
	EXPECT_EQ(t, remove_path("/f"), -EACCES);
	user.uid = user.gid = 0;
	EXPECT_EQ(t, remove_path("/f"), 0);
	inode_put(file);
	drain();
}

/* A value, the names that a program may see, and what each call has room for. */
static void extended_attributes_are_kept(struct ktest *t)
{
	char buf[64];
	struct inode *file;

	setup(t);
	ASSERT_EQ(t, make("/f", S_IFREG | 0644, &file), 0);
	EXPECT_EQ(t, file->ops->listxattr(file, NULL, 0, true), 0);
	EXPECT_EQ(t, file->ops->getxattr(file, "user.a", buf, 64), -ENODATA);
	EXPECT_EQ(t, file->ops->setxattr(file, "user.a", "value", 5, XATTR_REPLACE), -ENODATA);
	EXPECT_EQ(t, file->ops->setxattr(file, "user.a", "value", 5, XATTR_CREATE), 0);
	EXPECT_EQ(t, file->ops->setxattr(file, "user.a", "other", 5, XATTR_CREATE), -EEXIST);
	EXPECT_EQ(t, file->ops->getxattr(file, "user.a", NULL, 0), 5);
	EXPECT_EQ(t, file->ops->getxattr(file, "user.a", buf, 4), -ERANGE);
	ASSERT_EQ(t, file->ops->getxattr(file, "user.a", buf, 64), 5);
	EXPECT_EQ(t, memcmp(buf, "value", 5), 0);
	ASSERT_EQ(t, file->ops->listxattr(file, buf, 64, false), 7);
	EXPECT_STREQ(t, buf, "user.a");
	EXPECT_EQ(t, file->ops->listxattr(file, buf, 6, false), -ERANGE);
	EXPECT_EQ(t, file->ops->setxattr(file, "user.c", buf, STORAGE_XATTR_MAX + 1, 0), -ENOSPC);
	EXPECT_EQ(t, file->ops->setxattr(file, "user.a", NULL, 0, XATTR_REPLACE), 0);
	EXPECT_EQ(t, file->ops->getxattr(file, "user.a", buf, 64), -ENODATA);
	EXPECT_EQ(t, file->ops->setxattr(file, "trusted.b", "", 0, 0), 0);
	EXPECT_EQ(t, file->ops->listxattr(file, NULL, 0, true), 10);
	EXPECT_EQ(t, file->ops->listxattr(file, NULL, 0, false), 0);
	EXPECT_EQ(t, remove_path("/f"), 0);
	inode_put(file);
	drain();
}

/* Where a walk of @path ends; "" if it does not. */
static const char *where(const char *path, uint32_t flags)
{
	static char text[FS_PATH_MAX];
	struct walk_result res;

	if (walk(path, flags, &res))
		return "";
	strlcpy(text, res.at.text, sizeof(text));
	/* getcwd tells the same. */
	if (inode_is_dir(res.at.inode) && strcmp(text_of(res.at.inode), text))
		strlcpy(text, "two paths", sizeof(text));
	walk_result_put(&res);
	return text;
}

static void link_to(struct ktest *t, const char *path, const char *target)
{
	const struct walk_base base = { .cred = &user, .mounts = mounts };
	struct new_inode how = { .mode = S_IFLNK | 0777,
				 .target = target,
				 .target_len = strlen(target) };
	struct walk_result res;

	ASSERT_EQ(t, path_walk_parent(&base, path, &res), 0);
	how.name = res.name;
	how.len = strlen(res.name);
	EXPECT_EQ(t, res.parent.inode->ops->create(res.parent.inode, &how, NULL), 0);
	walk_result_put(&res);
}

static void walks_cross_file_systems(struct ktest *t)
{
	static const struct {
		const char *path, *end;
	} cases[] = {
		{ "/data", "/data" },
		{ "/data/", "/data" },
		{ "/data/.", "/data" },
		{ "/data/..", "/" },
		{ "/data/../data/d/..", "/data" },
		{ "/data/d/../..", "/" },
		{ "/data/d/../../d", "/d" },
		{ "/data/d/e/../../../d", "/d" },
		{ "/data/d/e", "/data/d/e" },
		{ "/d/in", "/data/d" }, /* a link of the root into the other */
		{ "/d/in/e", "/data/d/e" },
		{ "/d/in/../..", "/" },
		{ "/data/out", "/d" }, /* an absolute link out of it */
		{ "/data/out/in/e", "/data/d/e" },
		{ "/data/top", "/" },
		{ "/data/up", "/d" }, /* a link with ".." out of it */
		{ "/data/up/in", "/data/d" },
		{ "/data/round", "" },
		{ "/data/none", "" },
		{ "/data/d/../../none", "" },
	};
	static const char *const made[] = { "/d/in",     "/data/out",   "/data/top",
					    "/data/up",  "/data/round", "/data/new",
					    "/data/d/e", "/data/d",     "/d" };
	struct file_attr a, b;
	struct inode *one, *two;
	struct walk_result res;

	setup(t);
	ASSERT_EQ(t, make("/d", S_IFDIR | 0755, NULL), 0);
	ASSERT_EQ(t, make("/data/d", S_IFDIR | 0755, NULL), 0);
	ASSERT_EQ(t, make("/data/d/e", S_IFDIR | 0755, NULL), 0);
	link_to(t, "/d/in", "/data/d");
	link_to(t, "/data/out", "/d");
	link_to(t, "/data/top", "/");
	link_to(t, "/data/up", "../d");
	link_to(t, "/data/round", "/data/round");
	link_to(t, "/data/new", "/d/new");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		EXPECT_STREQ(t, where(cases[i].path, 0), cases[i].end);
	EXPECT_STREQ(t, where("/data/out", WALK_NOFOLLOW), "/data/out");
	EXPECT_EQ(t, walk("/data/round", 0, &res), -ELOOP);
	EXPECT_EQ(t, walk("/data/out/f/..", 0, &res), -ENOENT);
	/* A new file is made where the way leads. */
	ASSERT_EQ(t, walk("/data/new", WALK_CREATE, &res), 0);
	EXPECT_STREQ(t, text_of(res.parent.inode), "/d");
	walk_result_put(&res);
	ASSERT_EQ(t, walk("/data/d/../../d/x", WALK_CREATE, &res), 0);
	EXPECT_STREQ(t, res.parent.text, "/d");
	walk_result_put(&res);
	ASSERT_EQ(t, walk("/data/d/x", WALK_CREATE, &res), 0);
	EXPECT_STREQ(t, res.parent.text, "/data/d");
	walk_result_put(&res);
	/* Copies of one disk are two devices. */
	one = get("/d");
	two = get("/data/d");
	ASSERT_FALSE(t, IS_ERR(one) || IS_ERR(two));
	ASSERT_EQ(t, inode_getattr(one, &a), 0);
	ASSERT_EQ(t, inode_getattr(two, &b), 0);
	EXPECT_NE(t, a.fsid, b.fsid);
	EXPECT_EQ(t, b.fsid, two->type->dev);
	inode_put(one);
	inode_put(two);
	for (size_t i = 0; i < ARRAY_SIZE(made); i++)
		EXPECT_EQ(t, remove_path(made[i]), 0);
	drain();
}

/* A rename in one of them moves nothing in the other. */
static void a_rename_stays_in_its_file_system(struct ktest *t)
{
	struct inode *one, *two;

	setup(t);
	ASSERT_EQ(t, make("/same", S_IFDIR | 0755, &one), 0);
	ASSERT_EQ(t, make("/data/same", S_IFDIR | 0755, &two), 0);
	ASSERT_EQ(t, rename_path("/same", "/other", false), 0);
	EXPECT_STREQ(t, text_of(one), "/other");
	EXPECT_STREQ(t, text_of(two), "/data/same");
	EXPECT_EQ(t, one->ops->link(one, "n", 1, two), -EXDEV);
	inode_put(one);
	inode_put(two);
	EXPECT_EQ(t, remove_path("/other"), 0);
	EXPECT_EQ(t, remove_path("/data/same"), 0);
	drain();
}

static void mounts_are_told(struct ktest *t)
{
	static struct mount_info root, info;

	setup(t);
	ASSERT_TRUE(t, mounts_info(mounts, 0, &root));
	ASSERT_TRUE(t, mounts_info(mounts, root.id, &info));
	EXPECT_STREQ(t, info.at, "/data");
	EXPECT_STREQ(t, info.source, "storage:/data");
	EXPECT_STREQ(t, info.options, "rw,relatime");
	EXPECT_EQ(t, info.parent_id, root.id);
	EXPECT_EQ(t, root.parent_id, 1u);
	EXPECT_NE(t, info.dev, root.dev);
}

static const struct ktest_case files_cases[] = {
	KTEST(names_come_and_go),
	KTEST(paths_follow_a_rename),
	KTEST(a_removed_directory_stays_empty),
	KTEST(a_lookup_that_a_rename_overtakes_is_made_again),
	KTEST(a_lost_answer_does_nothing_twice),
	KTEST(a_file_without_a_name_may_get_one),
	KTEST(attributes_change),
	KTEST(extended_attributes_are_kept),
	KTEST(an_unused_file_goes_with_its_name),
	KTEST(a_file_that_goes_meanwhile_is_looked_for_again),
	KTEST(a_file_is_made_while_others_go),
	KTEST(a_look_up_waits_for_a_removal),
	KTEST(an_open_file_outlives_its_name),
	KTEST(mounts_are_told),
	KTEST(a_rename_stays_in_its_file_system),
	KTEST(walks_cross_file_systems),
	{ 0 },
};
static const struct ktest_suite files_suite = { .name = "vfs.files", .cases = files_cases };
KTEST_SUITE(files_suite);

/* --- the same, and more, with names that are kept ------------------------------------------ */

#define KEPT(name)                                          \
	static void name##_with_kept_names(struct ktest *t) \
	{                                                   \
		keeping = true;                             \
		name(t);                                    \
		keeping = false;                            \
	}

KEPT(names_come_and_go)
KEPT(paths_follow_a_rename)
KEPT(a_removed_directory_stays_empty)
KEPT(a_lookup_that_a_rename_overtakes_is_made_again)
KEPT(a_lost_answer_does_nothing_twice)
KEPT(a_file_without_a_name_may_get_one)
KEPT(attributes_change)
KEPT(extended_attributes_are_kept)
KEPT(an_unused_file_goes_with_its_name)
KEPT(a_file_that_goes_meanwhile_is_looked_for_again)
KEPT(a_file_is_made_while_others_go)
KEPT(a_look_up_waits_for_a_removal)
KEPT(an_open_file_outlives_its_name)
KEPT(mounts_are_told)
KEPT(a_rename_stays_in_its_file_system)
KEPT(walks_cross_file_systems)

/* How many messages @call costs. */
#define COST(call)                                     \
	({                                             \
		const unsigned int was = net.nr_calls; \
		(void)!(call);                         \
		net.nr_calls - was;                    \
	})

static void each_operation_costs_its_change(struct ktest *t)
{
	struct inode *file;
	struct file_attr attr;

	setup(t);
	ASSERT_EQ(t, exists("/"), 0);
	/* That nothing is called d; then nothing has to be asked. */
	EXPECT_EQ(t, COST(exists("/d")), 1u);
	EXPECT_EQ(t, COST(exists("/d")), 0u);
	EXPECT_EQ(t, COST(exists("/d/e")), 0u);
	EXPECT_EQ(t, COST(make("/d", S_IFDIR | 0755, NULL)), 1u);
	EXPECT_EQ(t, COST(exists("/d")), 0u);
	/* A new directory is known to be empty. */
	EXPECT_EQ(t, COST(exists("/d/f")), 0u);
	EXPECT_EQ(t, COST(make("/d/f", S_IFREG | 0644, &file)), 1u);
	EXPECT_EQ(t, COST(inode_getattr(file, &attr)), 0u);
	EXPECT_EQ(t, COST(exists("/d/f")), 0u);
	EXPECT_EQ(t, exists("/d/f"), 0);
	EXPECT_EQ(t, COST(rename_path("/d/f", "/d/g", false)), 1u);
	EXPECT_EQ(t, COST(exists("/d/f")), 0u);
	EXPECT_EQ(t, exists("/d/f"), -ENOENT);
	EXPECT_EQ(t, exists("/d/g"), 0);
	/* The end of its use is one more. */
	EXPECT_EQ(t, COST(remove_path("/d/g")), 1u);
	EXPECT_EQ(t, COST((inode_put(file), drain(), 0)), 1u);
	/* One that no program uses ends with its name. */
	EXPECT_EQ(t, COST(make("/d/g", S_IFREG | 0644, NULL)), 1u);
	EXPECT_EQ(t, COST((remove_path("/d/g"), drain(), 0)), 1u);
	ASSERT_EQ(t, make("/d/g", S_IFREG | 0644, NULL), 0);
	ASSERT_EQ(t, make("/d/f", S_IFREG | 0644, NULL), 0);
	EXPECT_EQ(t, COST((rename_path("/d/f", "/d/g", false), drain(), 0)), 1u);
	EXPECT_EQ(t, COST((remove_path("/d/g"), drain(), 0)), 1u);
	EXPECT_EQ(t, COST(exists("/d/g")), 0u);
	EXPECT_EQ(t, exists("/d/g"), -ENOENT);
	EXPECT_EQ(t, COST(remove_path("/d")), 1u);
	EXPECT_EQ(t, exists("/d"), -ENOENT);
}

static int stat_path(const char *path, struct file_attr *attr)
{
	struct walk_result res;
	const int err = walk(path, 0, &res);

	if (err)
		return err;
	*attr = res.at.attr;
	walk_result_put(&res);
	return 0;
}

static void attributes_are_those_of_now(struct ktest *t)
{
	const struct attr_change mode = { .valid = ATTR_MODE, .mode = 0700 };
	struct file_attr attr;
	struct inode *dir;

	setup(t);
	ASSERT_EQ(t, make("/d", S_IFDIR | 0755, &dir), 0);
	ASSERT_EQ(t, stat_path("/d", &attr), 0);
	EXPECT_EQ(t, attr.nlink, 2u);
	ASSERT_EQ(t, make("/d/s", S_IFDIR | 0755, NULL), 0);
	ASSERT_EQ(t, stat_path("/d", &attr), 0);
	EXPECT_EQ(t, attr.nlink, 3u);
	EXPECT_EQ(t, COST(stat_path("/d", &attr)), 0u);
	ASSERT_EQ(t, make("/d/f", S_IFREG | 0644, NULL), 0);
	EXPECT_EQ(t, dir->ops->setattr(dir, &mode), 0);
	EXPECT_EQ(t, COST(stat_path("/d", &attr)), 0u);
	EXPECT_EQ(t, attr.mode, S_IFDIR | 0700u);
	user.uid = user.gid = 1000;
	EXPECT_EQ(t, COST(exists("/d/f")), 0u);
	EXPECT_EQ(t, exists("/d/f"), -EACCES);
	EXPECT_EQ(t, exists("/d/none"), -EACCES);
	user.uid = user.gid = 0;
	EXPECT_EQ(t, exists("/d/f/x"), -ENOTDIR);
	EXPECT_EQ(t, exists("/d/f/"), -ENOTDIR);
	EXPECT_EQ(t, exists("/d/./s/../f"), 0);
	inode_put(dir);
	EXPECT_EQ(t, remove_path("/d/f"), 0);
	EXPECT_EQ(t, remove_path("/d/s"), 0);
	EXPECT_EQ(t, remove_path("/d"), 0);
	drain();
}

/* After a recall the node is asked again, and an answer from before is not kept. */
static void take_it_back(void)
{
	net.keeps = false;
	kept_drop(NODE);
}

static void what_is_taken_back_is_not_kept(struct ktest *t)
{
	setup(t);
	ASSERT_EQ(t, make("/d", S_IFDIR | 0755, NULL), 0);
	EXPECT_EQ(t, COST(exists("/d/f")), 0u);
	net.meanwhile = take_it_back;
	EXPECT_EQ(t, exists("/e"), -ENOENT);
	EXPECT_TRUE(t, !net.keeps);
	EXPECT_GT(t, COST(exists("/d")), 0u);
	EXPECT_GT(t, COST(exists("/d")), 0u);
	net.keeps = true;
	kept_view_changed();
	(void)!exists("/d");
	/* "/e" was missing when names could not be kept any more. */
	EXPECT_GT(t, COST(exists("/e")), 0u);
	EXPECT_EQ(t, COST(exists("/e")), 0u);
	EXPECT_EQ(t, remove_path("/d"), 0);
}

/* The rename of a directory at the node, of which the processor is not told. */
static void move_behind(struct ktest *t, const char *from, const char *to)
{
	const struct fs_change ch = { 0 };
	struct fs_inode *root = fs_inode_get(st.fs, st.fs->root_ino, FS_ANY_GEN);

	ASSERT_FALSE(t, IS_ERR(root));
	EXPECT_EQ(t, fs_rename(root, from, strlen(from), root, to, strlen(to), 0, &ch), 0);
	fs_inode_put(root);
	pathindex_invalidate(st.index);
}

/* A walk of @name from the directory @inode. */
static int walk_from(struct inode *inode, const char *name, uint32_t flags)
{
	struct path dir = { .inode = inode, .attr = { .mode = S_IFDIR } };
	struct walk_base base = { .cred = &user, .mounts = mounts, .dir = &dir };
	struct path top;
	char text[] = "?";
	struct walk_result res;
	int err;

	mounts_root_path(mounts, &top);
	dir.mnt = top.mnt;
	dir.text = text;
	err = path_walk(&base, name, flags, 0, &res);
	if (!err)
		walk_result_put(&res);
	path_put(&top);
	return err;
}

/*
 * Names are looked for in the directory that the walk is at, and not at the path that it had: there
 * is a link to what the user may not search by now.
 */
static void a_name_is_looked_for_in_its_directory(struct ktest *t)
{
	struct inode *dir;

	keeping = true;
	setup(t);
	ASSERT_EQ(t, make("/s", S_IFDIR | 0700, NULL), 0);
	ASSERT_EQ(t, make("/s/secret", S_IFREG | 0644, NULL), 0);
	ASSERT_EQ(t, make("/a", S_IFDIR | 0755, &dir), 0);
	ASSERT_EQ(t, make("/a/own", S_IFREG | 0644, NULL), 0);
	keep_names();
	move_behind(t, "a", "z");
	make_at_root(t, st.fs, "a", S_IFLNK | 0777, "s");
	user.uid = user.gid = 1000;
	EXPECT_EQ(t, walk_from(dir, "secret", 0), -ENOENT);
	EXPECT_EQ(t, walk_from(dir, "own", 0), 0);
	EXPECT_EQ(t, exists("/z/secret"), -ENOENT);
	EXPECT_EQ(t, exists("/z/own"), 0);
	EXPECT_EQ(t, exists("/s/secret"), -EACCES);
	user.uid = user.gid = 0;
	inode_put(dir);
	EXPECT_EQ(t, remove_path("/z/own"), 0);
	EXPECT_EQ(t, remove_path("/z"), 0);
	EXPECT_EQ(t, remove_path("/a"), 0);
	EXPECT_EQ(t, remove_path("/s/secret"), 0);
	EXPECT_EQ(t, remove_path("/s"), 0);
	drain();
	keeping = false;
}

static void paths_are_unknown_after_a_rename_in_doubt(struct ktest *t)
{
	struct inode *dir, *again;

	keeping = true;
	setup(t);
	ASSERT_EQ(t, make("/a", S_IFDIR | 0755, NULL), 0);
	ASSERT_EQ(t, make("/a/b", S_IFDIR | 0755, &dir), 0);
	ASSERT_EQ(t, make("/a/b/f", S_IFREG | 0644, NULL), 0);
	net.kill_renames = 1;
	EXPECT_EQ(t, rename_path("/a", "/z", false), -EINTR);
	EXPECT_EQ(t, walk_from(dir, "f", 0), -ESTALE);
	EXPECT_EQ(t, exists("/a/b"), -ENOENT);
	again = get("/z/b");
	ASSERT_FALSE(t, IS_ERR(again));
	EXPECT_TRUE(t, again == dir);
	EXPECT_STREQ(t, text_of(dir), "/z/b");
	EXPECT_EQ(t, walk_from(dir, "f", 0), 0);
	inode_put(again);
	inode_put(dir);
	EXPECT_EQ(t, remove_path("/z/b/f"), 0);
	EXPECT_EQ(t, remove_path("/z/b"), 0);
	EXPECT_EQ(t, remove_path("/z"), 0);
	drain();
	keeping = false;
}

static void lose_the_directory(void)
{
	net.kill_renames = 1;
	(void)!rename_path("/d", "/e", false);
}

/* Its directory is lost while the file is made: it is not made again, and taken for another's. */
static void a_file_that_was_made_is_not_made_again(struct ktest *t)
{
	struct inode *file;

	keeping = true;
	setup(t);
	ASSERT_EQ(t, make("/d", S_IFDIR | 0755, NULL), 0);
	net.makes = lose_the_directory;
	EXPECT_EQ(t, make("/d/f", S_IFREG | 0644, &file), -ESTALE);
	EXPECT_FALSE(t, net.makes);
	EXPECT_EQ(t, remove_path("/e/f"), 0);
	EXPECT_EQ(t, remove_path("/e"), 0);
	drain();
	keeping = false;
}

static void make_it(void)
{
	(void)!make("/d", S_IFDIR | 0755, NULL);
}

/* Its directory comes while the walk is under way, so that the node does not see the name. */
static void a_name_to_be_made_is_not_too_long(struct ktest *t)
{
	char path[3 + FS_NAME_MAX + 2] = "/d/";
	struct walk_result res;

	setup(t);
	memset(path + 3, 'x', FS_NAME_MAX + 1);
	net.meanwhile = make_it;
	EXPECT_EQ(t, walk(path, WALK_CREATE, &res), -ENAMETOOLONG);
	EXPECT_FALSE(t, net.meanwhile);
	path[3 + FS_NAME_MAX] = '\0';
	ASSERT_EQ(t, walk(path, WALK_CREATE, &res), 0);
	walk_result_put(&res);
	EXPECT_EQ(t, remove_path("/d"), 0);
	drain();
}

static void each_operation_costs_its_change_kept(struct ktest *t)
{
	keeping = true;
	each_operation_costs_its_change(t);
	attributes_are_those_of_now(t);
	what_is_taken_back_is_not_kept(t);
	keeping = false;
}

/* --- removals that the node is told later --------------------------------------------------- */

static void flush(void)
{
	(void)!behind_flush(NODE, false);
}

static void removals_are_told_later(struct ktest *t)
{
	struct inode *file;
	struct file_attr attr;

	setup(t);
	ASSERT_EQ(t, make("/d", S_IFDIR | 0755, NULL), 0);
	ASSERT_EQ(t, make("/d/a", S_IFREG | 0644, NULL), 0);
	ASSERT_EQ(t, make("/d/b", S_IFREG | 0644, NULL), 0);
	ASSERT_EQ(t, make("/c", S_IFLNK | 0777, NULL), 0);
	ASSERT_EQ(t, exists("/c"), 0);
	EXPECT_EQ(t, remove_path("/d/a"), 0);
	EXPECT_EQ(t, exists("/d/a"), -ENOENT);
	EXPECT_EQ(t, remove_path("/d/a"), -ENOENT);
	EXPECT_EQ(t, remove_path("/d/b"), 0);
	EXPECT_EQ(t, remove_path("/c"), 0);
	EXPECT_EQ(t, exists("/c"), -ENOENT);
	/* Requests behind them find them done. */
	EXPECT_EQ(t, remove_path("/d"), 0);
	EXPECT_EQ(t, net.nr_unlinks, 0u);
	EXPECT_GE(t, net.nr_batches, 1u);
	EXPECT_EQ(t, memfs_nr_files(st.fs), nr_before);
	/* The same name once more. */
	ASSERT_EQ(t, make("/c", S_IFREG | 0644, NULL), 0);
	EXPECT_EQ(t, remove_path("/c"), 0);
	ASSERT_EQ(t, make("/c", S_IFREG | 0600, NULL), 0);
	ASSERT_EQ(t, stat_path("/c", &attr), 0);
	EXPECT_EQ(t, attr.mode, S_IFREG | 0600u);
	/* Another name of the file: the file stays. */
	file = get("/c");
	ASSERT_FALSE(t, IS_ERR(file));
	ASSERT_EQ(t, link_at("/e", file), 0);
	EXPECT_EQ(t, net.nr_unlinks, 0u);
	EXPECT_EQ(t, remove_path("/c"), 0); /* it is in use */
	EXPECT_EQ(t, net.nr_unlinks, 1u);
	ASSERT_EQ(t, link_at("/c", file), 0);
	inode_put(file);
	EXPECT_EQ(t, remove_path("/c"), 0);
	EXPECT_EQ(t, net.nr_unlinks, 1u);
	ASSERT_EQ(t, stat_path("/e", &attr), 0);
	EXPECT_EQ(t, attr.nlink, 1u);
	EXPECT_EQ(t, remove_path("/e"), 0);
	flush();
	EXPECT_EQ(t, memfs_nr_files(st.fs), nr_before);
	EXPECT_EQ(t, behind_error(NODE, true), 0);
	EXPECT_EQ(t, net.nr_closed, 0u);
}

static const char *nth_path(int i)
{
	static char path[] = "/n000";

	path[2] = (char)('0' + i / 100);
	path[3] = (char)('0' + i / 10 % 10);
	path[4] = (char)('0' + i % 10);
	return path;
}

static void many_removals_are_few_requests(struct ktest *t)
{
	setup(t);
	for (int i = 0; i < 600; i++)
		ASSERT_EQ(t, make(nth_path(i), S_IFREG | 0644, NULL), 0);
	for (int i = 0; i < 600; i++)
		ASSERT_EQ(t, remove_path(nth_path(i)), 0);
	flush();
	EXPECT_EQ(t, net.nr_unlinks, 0u);
	EXPECT_EQ(t, memfs_nr_files(st.fs), nr_before);
	EXPECT_EQ(t, behind_error(NODE, true), 0);
}

static void a_batch_whose_answer_is_lost_is_done_once(struct ktest *t)
{
	setup(t);
	ASSERT_EQ(t, make("/a", S_IFREG | 0644, NULL), 0);
	ASSERT_EQ(t, make("/b", S_IFREG | 0644, NULL), 0);
	net.lose_answers = 2;
	EXPECT_EQ(t, remove_path("/a"), 0);
	EXPECT_EQ(t, remove_path("/b"), 0);
	flush();
	EXPECT_EQ(t, net.lose_answers, 0u);
	EXPECT_EQ(t, memfs_nr_files(st.fs), nr_before);
	EXPECT_EQ(t, behind_error(NODE, true), 0);
}

/* A refusal is told by the next sync, and no name is taken for missing that is there. */
static void what_the_node_refuses_is_told(struct ktest *t)
{
	struct file_attr attr;

	setup(t);
	ASSERT_EQ(t, make("/a", S_IFREG | 0644, NULL), 0);
	ASSERT_EQ(t, make("/b", S_IFREG | 0644, NULL), 0);
	ASSERT_EQ(t, stat_path("/a", &attr), 0);
	memfs_fail(st.fs, -EIO);
	EXPECT_EQ(t, remove_path("/a"), 0);
	flush();
	memfs_fail(st.fs, 0);
	EXPECT_EQ(t, exists("/a"), 0);
	/* sync(2) throws it away. */
	EXPECT_EQ(t, storage_commit(&attr.file, true), -EIO);
	EXPECT_EQ(t, storage_commit(&attr.file, true), -EIO);
	EXPECT_EQ(t, storage_commit(&attr.file, false), -EIO);
	EXPECT_EQ(t, storage_commit(&attr.file, false), 0);
	/* A name that is another file's by then, which only a broken node has. */
	keep_names();
	ASSERT_EQ(t, stat_path("/b", &attr), 0);
	remove_at_root(t, st.fs, "b");
	make_at_root(t, st.fs, "b", S_IFREG | 0644, NULL);
	EXPECT_EQ(t, remove_path("/b"), 0);
	flush();
	EXPECT_EQ(t, behind_error(NODE, true), -EIO);
	EXPECT_EQ(t, exists("/b"), 0);
	keep_names();
	EXPECT_EQ(t, remove_path("/a"), 0);
	EXPECT_EQ(t, remove_path("/b"), 0);
	flush();
	EXPECT_EQ(t, behind_error(NODE, true), 0);
}

/* Want of memory is no refusal. */
static void want_of_memory_is_waited_for(struct ktest *t)
{
	setup(t);
	ASSERT_EQ(t, make("/a", S_IFREG | 0644, NULL), 0);
	memfs_fail(st.fs, -ENOMEM);
	EXPECT_EQ(t, remove_path("/a"), 0);
	while (!__atomic_load_n(&net.nr_batches, __ATOMIC_ACQUIRE))
		thread_yield();
	memfs_fail(st.fs, 0);
	flush();
	EXPECT_EQ(t, behind_error(NODE, true), 0);
	EXPECT_EQ(t, memfs_nr_files(st.fs), nr_before);
}

/* More changes than a node has records of, of which it can forget those before. */
static void a_node_that_is_away_keeps_no_other_from_forgetting(struct ktest *t)
{
	unsigned int before;

	setup(t);
	ASSERT_EQ(t, make("/data/x", S_IFREG | 0644, NULL), 0);
	before = memfs_nr_files(data.fs);
	__atomic_store_n(&net.data_away, true, __ATOMIC_RELEASE);
	EXPECT_EQ(t, remove_path("/data/x"), 0);
	for (int i = 0; i < 600; i++) {
		ASSERT_EQ(t, make("/f", S_IFREG | 0644, NULL), 0);
		ASSERT_EQ(t, remove_path("/f"), 0);
	}
	flush();
	EXPECT_EQ(t, behind_error(NODE, true), 0);
	EXPECT_EQ(t, exists("/f"), -ENOENT);
	__atomic_store_n(&net.data_away, false, __ATOMIC_RELEASE);
	drain();
	EXPECT_EQ(t, behind_error(DATA, true), 0);
	EXPECT_EQ(t, memfs_nr_files(data.fs), before - 1);
}

/* The node would refuse it: then it is asked. */
static void rights_are_those_of_now(struct ktest *t)
{
	struct inode *dir;
	struct attr_change ch = { .valid = ATTR_MODE, .mode = 0555 };

	setup(t);
	ASSERT_EQ(t, make("/d", S_IFDIR | 0777, NULL), 0);
	ASSERT_EQ(t, make("/d/a", S_IFREG | 0644, NULL), 0);
	dir = get("/d");
	ASSERT_FALSE(t, IS_ERR(dir));
	EXPECT_EQ(t, dir->ops->setattr(dir, &ch), 0);
	user.uid = 1000;
	EXPECT_EQ(t, remove_path("/d/a"), -EACCES);
	user.uid = 0;
	ch.mode = 01777;
	EXPECT_EQ(t, dir->ops->setattr(dir, &ch), 0);
	user.uid = 1000;
	EXPECT_EQ(t, remove_path("/d/a"), -EPERM);
	EXPECT_EQ(t, exists("/d/a"), 0);
	EXPECT_EQ(t, net.nr_unlinks, 2u);
	user.uid = 0;
	ch.mode = 0777;
	EXPECT_EQ(t, dir->ops->setattr(dir, &ch), 0);
	inode_put(dir);
	user.uid = 1000;
	EXPECT_EQ(t, remove_path("/d/a"), 0);
	user.uid = 0;
	EXPECT_EQ(t, net.nr_unlinks, 2u);
	EXPECT_EQ(t, remove_path("/d"), 0);
	flush();
	EXPECT_EQ(t, behind_error(NODE, true), 0);
}

static struct {
	bool begun;
	unsigned int nr_batches; /* afterwards */
} flusher;

static void flush_elsewhere(void *arg)
{
	(void)arg;
	__atomic_store_n(&flusher.begun, true, __ATOMIC_RELEASE);
	flush();
	flusher.nr_batches = __atomic_load_n(&net.nr_batches, __ATOMIC_ACQUIRE);
}

/* A removal of which it is not known yet whether it is done here: a flush waits for it. */
static void a_flush_waits_for_what_is_open(struct ktest *t)
{
	struct file_attr root, attr;
	struct storage_name at = { .dir = &root.file, .name = "a", .len = 1 };
	struct numbered *n;
	struct thread *thread;

	setup(t);
	ASSERT_EQ(t, make("/a", S_IFREG | 0644, NULL), 0);
	ASSERT_EQ(t, stat_path("/", &root), 0);
	ASSERT_EQ(t, stat_path("/a", &attr), 0);
	n = behind_unlink(&user, &at, &attr.file);
	ASSERT_TRUE(t, n);
	behind_cancel(n);
	flush();
	EXPECT_EQ(t, net.nr_batches, 0u);
	n = behind_unlink(&user, &at, &attr.file);
	ASSERT_TRUE(t, n);
	flusher.begun = false;
	thread = thread_create("flusher", flush_elsewhere, NULL);
	ASSERT_FALSE(t, IS_ERR(thread));
	while (!__atomic_load_n(&flusher.begun, __ATOMIC_ACQUIRE))
		thread_yield();
	for (int i = 0; i < 100; i++)
		thread_yield();
	EXPECT_TRUE(t, kept_remove(&root, "a", 1, &attr));
	behind_send(n);
	thread_join(thread);
	EXPECT_EQ(t, flusher.nr_batches, 1u);
	EXPECT_EQ(t, exists("/a"), -ENOENT);
	EXPECT_EQ(t, memfs_nr_files(st.fs), nr_before);
}

static struct {
	struct inode *file;
	bool begun, done;
} setter;

static void set_elsewhere(void *arg)
{
	const struct attr_change mode = { .valid = ATTR_MODE, .mode = 0600 };

	__atomic_store_n(&setter.begun, true, __ATOMIC_RELEASE);
	EXPECT_EQ((struct ktest *)arg, setter.file->ops->setattr(setter.file, &mode), 0);
	__atomic_store_n(&setter.done, true, __ATOMIC_RELEASE);
}

/* No other change becomes true here in front of one that is before it in the queue. */
static void changes_become_true_in_their_order(struct ktest *t)
{
	struct file_attr root, attr;
	struct storage_name at = { .dir = &root.file, .name = "a", .len = 1 };
	struct thread *thread;
	struct numbered *n;

	setup(t);
	ASSERT_EQ(t, make("/a", S_IFREG | 0644, NULL), 0);
	ASSERT_EQ(t, make("/b", S_IFREG | 0644, &setter.file), 0);
	ASSERT_EQ(t, stat_path("/", &root), 0);
	ASSERT_EQ(t, stat_path("/a", &attr), 0);
	setter.begun = setter.done = false;
	n = behind_unlink(&user, &at, &attr.file);
	ASSERT_TRUE(t, n);
	thread = thread_create("setter", set_elsewhere, t);
	ASSERT_FALSE(t, IS_ERR(thread));
	while (!__atomic_load_n(&setter.begun, __ATOMIC_ACQUIRE))
		thread_yield();
	for (int i = 0; i < 1000; i++)
		thread_yield();
	EXPECT_FALSE(t, __atomic_load_n(&setter.done, __ATOMIC_ACQUIRE));
	EXPECT_TRUE(t, kept_remove(&root, "a", 1, &attr));
	behind_send(n);
	thread_join(thread);
	EXPECT_EQ(t, net.nr_setattrs, 0u);
	inode_put(setter.file);
	EXPECT_EQ(t, remove_path("/b"), 0);
	drain();
	EXPECT_EQ(t, behind_error(NODE, true), 0);
	EXPECT_EQ(t, memfs_nr_files(st.fs), nr_before);
}

/* One wait for a node that does not come back is for all that is queued for it. */
static void a_node_that_is_gone_is_waited_for_once(struct ktest *t)
{
	setup(t);
	for (int i = 0; i < 200; i++)
		ASSERT_EQ(t, make(nth_path(i), S_IFREG | 0644, NULL), 0);
	__atomic_store_n(&net.gated, true, __ATOMIC_RELEASE);
	__atomic_store_n(&net.batches, -EIO, __ATOMIC_RELEASE);
	for (int i = 0; i < 200; i++)
		ASSERT_EQ(t, remove_path(nth_path(i)), 0);
	__atomic_store_n(&net.gated, false, __ATOMIC_RELEASE);
	flush();
	EXPECT_EQ(t, net.nr_batches, 1u);
	EXPECT_EQ(t, behind_error(NODE, true), -EIO);
	__atomic_store_n(&net.batches, 0, __ATOMIC_RELEASE);
	keep_names();
	EXPECT_EQ(t, exists(nth_path(199)), 0);
	for (int i = 0; i < 200; i++)
		ASSERT_EQ(t, remove_path(nth_path(i)), 0);
	flush();
	EXPECT_EQ(t, behind_error(NODE, true), 0);
}

/* The node ends in order, and is started again. */
static void the_end_of_a_node_is_waited_for(struct ktest *t)
{
	setup(t);
	ASSERT_EQ(t, make("/a", S_IFREG | 0644, NULL), 0);
	__atomic_store_n(&net.batches, -ESHUTDOWN, __ATOMIC_RELEASE);
	EXPECT_EQ(t, remove_path("/a"), 0);
	while (!__atomic_load_n(&net.nr_batches, __ATOMIC_ACQUIRE))
		thread_yield();
	__atomic_store_n(&net.batches, 0, __ATOMIC_RELEASE);
	flush();
	EXPECT_EQ(t, behind_error(NODE, true), 0);
	EXPECT_EQ(t, memfs_nr_files(st.fs), nr_before);
}

/* --- attributes that the node is told later ------------------------------------------------- */

static void attributes_are_told_later(struct ktest *t)
{
	const struct attr_change mode = { .valid = ATTR_MODE, .mode = 04751 };
	const struct attr_change owner = { .valid = ATTR_UID | ATTR_GID, .uid = 7, .gid = 8 };
	const struct attr_change times = { .valid = ATTR_ATIME | ATTR_MTIME,
					   .atime = { 3, 4 },
					   .mtime = { 5, 6 } };
	struct inode *file, *dir;
	struct file_attr attr;

	setup(t);
	ASSERT_EQ(t, make("/d", S_IFDIR | 0755, &dir), 0);
	ASSERT_EQ(t, make("/d/f", S_IFREG | 0644, &file), 0);
	net.nr_calls = 0;
	EXPECT_EQ(t, file->ops->setattr(file, &owner), 0);
	EXPECT_EQ(t, file->ops->setattr(file, &mode), 0);
	EXPECT_EQ(t, file->ops->setattr(file, &times), 0);
	EXPECT_EQ(t, dir->ops->setattr(dir, &times), 0);
	EXPECT_EQ(t, net.nr_times, 1u); /* a directory has no contents anywhere */
	ASSERT_EQ(t, inode_getrights(file, &attr), 0);
	EXPECT_EQ(t, attr.mode, S_IFREG | 04751u);
	EXPECT_EQ(t, attr.uid, 7u);
	EXPECT_EQ(t, attr.gid, 8u);
	EXPECT_EQ(t, net.nr_calls - net.nr_batches, 0u);
	/* Requests behind them find them done. */
	ASSERT_EQ(t, inode_getattr(file, &attr), 0);
	EXPECT_EQ(t, attr.mode, S_IFREG | 04751u);
	EXPECT_EQ(t, attr.uid, 7u);
	EXPECT_EQ(t, attr.gid, 8u);
	EXPECT_EQ(t, attr.atime.sec, 3ll);
	EXPECT_EQ(t, attr.mtime.sec, 5ll);
	EXPECT_EQ(t, attr.mtime.nsec, 6u);
	ASSERT_EQ(t, inode_getattr(dir, &attr), 0);
	EXPECT_EQ(t, attr.mtime.sec, 5ll);
	EXPECT_EQ(t, attr.mode, S_IFDIR | 0755u);
	EXPECT_EQ(t, net.nr_setattrs, 0u);
	inode_put(dir);
	inode_put(file);
	EXPECT_EQ(t, remove_path("/d/f"), 0);
	EXPECT_EQ(t, remove_path("/d"), 0);
	flush();
	EXPECT_EQ(t, behind_error(NODE, true), 0);
}

/* The node is asked at once where it has a say, and so refuses at once. */
static void what_the_node_decides_it_is_asked(struct ktest *t)
{
	static const struct {
		uint32_t uid, gid; /* of the caller */
		struct attr_change ch;
		int want;
	} cases[] = {
		{ 0, 0, { .valid = ATTR_MTIME | ATTR_MTIME_NOW }, 0 },
		{ 0, 0, { .valid = ATTR_MODE, .mode = 02755 }, 0 },
		/* The bit is gone after this one, which comes of the owner's change. */
		{ 0, 0, { .valid = ATTR_UID | ATTR_GID, .uid = 1000, .gid = 1000 }, 0 },
		{ 1001, 1000, { .valid = ATTR_MODE, .mode = 0777 }, -EPERM },
		{ 1001, 1000, { .valid = ATTR_MTIME }, -EPERM },
		{ 1000, 1000, { .valid = ATTR_UID, .uid = 1001 }, -EPERM },
		{ 1000, 1000, { .valid = ATTR_GID, .gid = 1001 }, -EPERM },
		{ 1000, 999, { .valid = ATTR_MODE, .mode = 02755 }, 0 }, /* without the bit */
		{ 1000, 1000, { .valid = ATTR_MODE, .mode = 0700 }, 0 },
		{ 0, 0, { .valid = ATTR_FLAGS | ATTR_GUARDED, .flags = STATX_ATTR_APPEND }, 0 },
		{ 0, 0, { .valid = ATTR_MODE, .mode = 0777 }, -EPERM },
		{ 0, 0, { .valid = ATTR_FLAGS | ATTR_GUARDED }, 0 },
	};
	static const unsigned int behind = 1u << 1 | 1u << 8; /* of @cases */
	struct file_attr attr;
	struct inode *file;

	setup(t);
	ASSERT_EQ(t, make("/f", S_IFREG | 0644, &file), 0);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const unsigned int nr = net.nr_setattrs;

		/* The rights are known. */
		ASSERT_EQ(t, inode_getattr(file, &attr), 0);
		user.uid = cases[i].uid;
		user.gid = cases[i].gid;
		EXPECT_EQ(t, file->ops->setattr(file, &cases[i].ch), cases[i].want);
		EXPECT_EQ(t, net.nr_setattrs - nr, behind >> i & 1 ? 0u : 1u);
		user.uid = user.gid = 0;
	}
	ASSERT_EQ(t, inode_getattr(file, &attr), 0);
	EXPECT_EQ(t, attr.mode, S_IFREG | 0700u);
	inode_put(file);
	EXPECT_EQ(t, remove_path("/f"), 0);
	flush();
	EXPECT_EQ(t, behind_error(NODE, true), 0);
}

/* A memory node that cannot be told a time, a node that refuses, an answer that is lost. */
static void attributes_fail_or_not(struct ktest *t)
{
	const struct attr_change mode = { .valid = ATTR_MODE, .mode = 0600 };
	const struct attr_change time = { .valid = ATTR_MTIME, .mtime = { 5, 6 } };
	struct file_attr attr;
	struct inode *file;

	setup(t);
	ASSERT_EQ(t, make("/f", S_IFREG | 0644, &file), 0);
	net.times = -EHOSTDOWN;
	EXPECT_EQ(t, file->ops->setattr(file, &time), -EHOSTDOWN);
	net.times = 0;
	ASSERT_EQ(t, inode_getattr(file, &attr), 0);
	EXPECT_NE(t, attr.mtime.sec, 5ll);
	memfs_fail(st.fs, -EIO);
	EXPECT_EQ(t, file->ops->setattr(file, &mode), 0);
	flush();
	memfs_fail(st.fs, 0);
	EXPECT_EQ(t, storage_commit(&attr.file, false), -EIO);
	ASSERT_EQ(t, inode_getrights(file, &attr), 0);
	EXPECT_EQ(t, attr.mode, S_IFREG | 0644u);
	keep_names();
	ASSERT_EQ(t, inode_getrights(file, &attr), 0);
	net.lose_answers = 2;
	EXPECT_EQ(t, file->ops->setattr(file, &mode), 0);
	ASSERT_EQ(t, inode_getattr(file, &attr), 0);
	EXPECT_EQ(t, net.lose_answers, 0u);
	EXPECT_EQ(t, net.nr_setattrs, 0u);
	EXPECT_EQ(t, attr.mode, S_IFREG | 0600u);
	inode_put(file);
	EXPECT_EQ(t, remove_path("/f"), 0);
	flush();
	EXPECT_EQ(t, behind_error(NODE, true), 0);
}

/* Contents that change are not told before a time that was set before. */
static void a_time_is_told_before_contents(struct ktest *t)
{
	const struct attr_change mode = { .valid = ATTR_MODE, .mode = 0600 };
	const struct attr_change time = { .valid = ATTR_MTIME, .mtime = { 5, 6 } };
	struct file_attr attr;
	struct inode *file, *other;
	unsigned int nr;

	setup(t);
	ASSERT_EQ(t, make("/f", S_IFREG | 0644, &file), 0);
	ASSERT_EQ(t, make("/g", S_IFREG | 0644, &other), 0);
	ASSERT_EQ(t, inode_getrights(file, &attr), 0);
	__atomic_store_n(&net.held_up, true, __ATOMIC_RELEASE);
	EXPECT_EQ(t, other->ops->setattr(other, &mode), 0);
	EXPECT_EQ(t, behind_flush_attr(&attr.file), 0);
	EXPECT_EQ(t, file->ops->setattr(file, &time), 0);
	nr = net.nr_calls;
	__atomic_store_n(&net.held_up, false, __ATOMIC_RELEASE);
	EXPECT_EQ(t, behind_flush_attr(&attr.file), 0);
	EXPECT_GT(t, net.nr_calls, nr);
	nr = net.nr_calls;
	EXPECT_EQ(t, behind_flush_attr(&attr.file), 0);
	EXPECT_EQ(t, net.nr_calls, nr);
	inode_put(file);
	inode_put(other);
	EXPECT_EQ(t, remove_path("/f"), 0);
	EXPECT_EQ(t, remove_path("/g"), 0);
	flush();
	EXPECT_EQ(t, behind_error(NODE, true), 0);
}

/* The making of a file waits for what is queued of its directory, and of no other file. */
static void a_file_is_made_before_attributes_of_others(struct ktest *t)
{
	const struct attr_change mode = { .valid = ATTR_MODE, .mode = 0600 };
	const struct attr_change closed = { .valid = ATTR_MODE, .mode = 0555 };
	struct inode *file, *dir;

	setup(t);
	ASSERT_EQ(t, make("/d", S_IFDIR | 0777, &dir), 0);
	ASSERT_EQ(t, make("/d/f", S_IFREG | 0644, &file), 0);
	__atomic_store_n(&net.held_up, true, __ATOMIC_RELEASE);
	EXPECT_EQ(t, file->ops->setattr(file, &mode), 0);
	EXPECT_EQ(t, make("/d/g", S_IFREG | 0644, NULL), 0);
	__atomic_store_n(&net.held_up, false, __ATOMIC_RELEASE);
	flush();
	EXPECT_EQ(t, dir->ops->setattr(dir, &closed), 0);
	user.uid = 1000;
	EXPECT_EQ(t, make("/d/h", S_IFREG | 0644, NULL), -EACCES);
	user.uid = 0;
	inode_put(file);
	inode_put(dir);
	EXPECT_EQ(t, remove_path("/d/f"), 0);
	/* Nor does it overtake a removal. */
	EXPECT_EQ(t, make("/d/f", S_IFREG | 0644, NULL), 0);
	EXPECT_EQ(t, remove_path("/d/f"), 0);
	EXPECT_EQ(t, remove_path("/d/g"), 0);
	EXPECT_EQ(t, remove_path("/d"), 0);
	flush();
	EXPECT_EQ(t, behind_error(NODE, true), 0);
}

static struct {
	bool begun, done;
} maker;

static void make_elsewhere(void *arg)
{
	__atomic_store_n(&maker.begun, true, __ATOMIC_RELEASE);
	EXPECT_EQ((struct ktest *)arg, make("/g", S_IFREG | 0644, NULL), 0);
	__atomic_store_n(&maker.done, true, __ATOMIC_RELEASE);
}

/* Else the node could not forget the answers of all files that are made meanwhile. */
static void no_file_is_made_before_what_is_tried_again(struct ktest *t)
{
	const struct attr_change mode = { .valid = ATTR_MODE, .mode = 0600 };
	struct thread *thread;
	struct inode *file;

	setup(t);
	ASSERT_EQ(t, make("/f", S_IFREG | 0644, &file), 0);
	ASSERT_EQ(t, exists("/g"), -ENOENT);
	maker.begun = maker.done = false;
	__atomic_store_n(&net.batches, -ESHUTDOWN, __ATOMIC_RELEASE);
	EXPECT_EQ(t, file->ops->setattr(file, &mode), 0);
	while (__atomic_load_n(&net.nr_batches, __ATOMIC_ACQUIRE) < 2)
		thread_yield();
	thread = thread_create("maker", make_elsewhere, t);
	ASSERT_FALSE(t, IS_ERR(thread));
	while (!__atomic_load_n(&maker.begun, __ATOMIC_ACQUIRE))
		thread_yield();
	for (int i = 0; i < 1000; i++)
		thread_yield();
	EXPECT_FALSE(t, __atomic_load_n(&maker.done, __ATOMIC_ACQUIRE));
	__atomic_store_n(&net.batches, 0, __ATOMIC_RELEASE);
	thread_join(thread);
	inode_put(file);
	EXPECT_EQ(t, remove_path("/f"), 0);
	EXPECT_EQ(t, remove_path("/g"), 0);
	drain();
	EXPECT_EQ(t, behind_error(NODE, true), 0);
}

/* --- renames that the node is told later ---------------------------------------------------- */

/* The first rename asks for room for the next ones; until it is there. */
static void get_rooms(struct ktest *t)
{
	unsigned int nr;

	ASSERT_EQ(t, make("/room", S_IFREG | 0644, NULL), 0);
	do {
		nr = net.nr_renames;
		ASSERT_EQ(t, rename_path("/room", "/room2", false), 0);
		ASSERT_EQ(t, rename_path("/room2", "/room", false), 0);
	} while (net.nr_renames != nr);
	EXPECT_EQ(t, remove_path("/room"), 0);
	flush();
	net.nr_renames = net.nr_unlinks = 0;
}

static void renames_are_told_later(struct ktest *t)
{
	struct file_attr attr;
	struct inode *link;
	char target[16];

	setup(t);
	get_rooms(t);
	ASSERT_EQ(t, make("/d", S_IFDIR | 0755, NULL), 0);
	ASSERT_EQ(t, make("/d/a", S_IFREG | 0640, NULL), 0);
	ASSERT_EQ(t, make("/d/l", S_IFLNK | 0777, &link), 0);
	ASSERT_EQ(t, rename_path("/d/a", "/d/b", false), 0);
	EXPECT_EQ(t, exists("/d/a"), -ENOENT);
	EXPECT_EQ(t, exists("/d/b"), 0);
	/* Elsewhere, and a link in use, which follows. */
	ASSERT_EQ(t, rename_path("/d/b", "/c", false), 0);
	ASSERT_EQ(t, rename_path("/d/l", "/m", false), 0);
	EXPECT_EQ(t, link->ops->readlink(link, target, sizeof(target)), 6);
	EXPECT_EQ(t, net.nr_renames, 0u);
	ASSERT_EQ(t, stat_path("/c", &attr), 0);
	EXPECT_EQ(t, attr.mode, S_IFREG | 0640u);
	/* Over a file that no program uses, and over one that is in use. */
	ASSERT_EQ(t, make("/d/a", S_IFREG | 0600, NULL), 0);
	ASSERT_EQ(t, rename_path("/d/a", "/c", false), 0);
	EXPECT_EQ(t, net.nr_renames, 0u);
	ASSERT_EQ(t, stat_path("/c", &attr), 0);
	EXPECT_EQ(t, attr.mode, S_IFREG | 0600u);
	ASSERT_EQ(t, rename_path("/c", "/m", false), 0);
	EXPECT_EQ(t, net.nr_renames, 1u);
	inode_put(link);
	/* A directory moves at once. */
	ASSERT_EQ(t, rename_path("/d", "/e", false), 0);
	EXPECT_EQ(t, net.nr_renames, 2u);
	EXPECT_EQ(t, exists("/d"), -ENOENT);
	EXPECT_EQ(t, remove_path("/m"), 0);
	EXPECT_EQ(t, remove_path("/e"), 0);
	drain();
	EXPECT_EQ(t, behind_error(NODE, true), 0);
	EXPECT_EQ(t, memfs_nr_files(st.fs), nr_before);
}

/* Number @i of names with @letter, in a directory whose names are known. */
static const char *nth_in_d(char *buf, char letter, int i)
{
	memcpy(buf, "/d", 2);
	memcpy(buf + 2, nth_path(i), sizeof("/n000"));
	buf[3] = letter;
	return buf;
}

/* No more names come than the node keeps room for; what is not used goes back to it. */
static void names_that_come_have_room(struct ktest *t)
{
	struct fs_info info;
	struct file_attr attr;
	char from[16], to[16];

	setup(t);
	get_rooms(t);
	EXPECT_EQ(t, memfs_rooms(st.fs), 64u);
	ASSERT_EQ(t, stat_path("/", &attr), 0);
	ASSERT_EQ(t, make("/d", S_IFDIR | 0755, NULL), 0);
	for (int i = 0; i < 64; i++)
		ASSERT_EQ(t, make(nth_in_d(from, 'n', i), S_IFREG | 0644, NULL), 0);
	__atomic_store_n(&net.held_up, true, __ATOMIC_RELEASE);
	for (int i = 0; i < 64; i++)
		ASSERT_EQ(t, rename_path(nth_in_d(from, 'n', i), nth_in_d(to, 'm', i), false), 0);
	EXPECT_EQ(t, net.nr_renames, 0u);
	__atomic_store_n(&net.held_up, false, __ATOMIC_RELEASE);
	flush();
	EXPECT_EQ(t, memfs_rooms(st.fs), 64u);
	for (int i = 0; i < 64; i++)
		EXPECT_EQ(t, remove_path(nth_in_d(to, 'm', i)), 0);
	EXPECT_EQ(t, remove_path("/d"), 0);
	/* It is no part of what is used. */
	EXPECT_EQ(t, storage_statfs(&attr.file, &info), 0);
	EXPECT_EQ(t, memfs_rooms(st.fs), 0u);
	EXPECT_EQ(t, behind_give_rooms(NODE), 0);
	/* Nor is it asked for again at once, by another name or beside other changes. */
	ASSERT_EQ(t, make("/a", S_IFREG | 0644, NULL), 0);
	ASSERT_EQ(t, rename_path("/a", "/b", false), 0);
	EXPECT_EQ(t, remove_path("/b"), 0);
	flush();
	EXPECT_EQ(t, memfs_rooms(st.fs), 0u);
	/* Nor is it kept for long. */
	get_rooms(t);
	EXPECT_EQ(t, memfs_rooms(st.fs), 64u);
	(void)behind_keep_rooms(NSEC_PER_MSEC);
	ASSERT_EQ(t, make("/a", S_IFREG | 0644, NULL), 0);
	ASSERT_EQ(t, rename_path("/a", "/b", false), 0);
	while (memfs_rooms(st.fs))
		thread_yield();
	EXPECT_EQ(t, remove_path("/b"), 0);
	(void)behind_keep_rooms(HOUR_NS);
	/* Nor is there any for one that has lost the names. */
	get_rooms(t);
	behind_forget_rooms(NODE);
	ASSERT_EQ(t, make("/a", S_IFREG | 0644, NULL), 0);
	ASSERT_EQ(t, rename_path("/a", "/b", false), 0);
	EXPECT_EQ(t, net.nr_renames, 1u);
	EXPECT_EQ(t, remove_path("/b"), 0);
	drain();
	EXPECT_EQ(t, behind_error(NODE, true), 0);
	EXPECT_EQ(t, memfs_nr_files(st.fs), nr_before);
}

static void give_rooms(void *arg)
{
	EXPECT_EQ((struct ktest *)arg, behind_give_rooms(NODE), 1);
}

/* A change that finds the disk full gets what is kept for names, and is tried once more. */
static void room_is_given_to_who_needs_it(struct ktest *t)
{
	setup(t);
	get_rooms(t);
	EXPECT_EQ(t, memfs_rooms(st.fs), 64u);
	memfs_fail_once(st.fs, -ENOSPC, 0);
	EXPECT_EQ(t, make("/a", S_IFREG | 0644, NULL), 0);
	EXPECT_EQ(t, memfs_rooms(st.fs), 0u);
	/* There is none that could help. */
	memfs_fail_once(st.fs, -ENOSPC, 0);
	EXPECT_EQ(t, make("/b", S_IFREG | 0644, NULL), -ENOSPC);
	EXPECT_EQ(t, remove_path("/a"), 0);
	drain();
	EXPECT_EQ(t, behind_error(NODE, true), 0);
	EXPECT_EQ(t, memfs_nr_files(st.fs), nr_before);
}

/* Room that goes back is not asked for again by a rename of before. */
static void room_that_is_needed_stays_away(struct ktest *t)
{
	struct thread *thread;

	setup(t);
	ASSERT_EQ(t, make("/d", S_IFDIR | 0755, NULL), 0);
	ASSERT_EQ(t, make("/d/a", S_IFREG | 0644, NULL), 0);
	behind_forget_rooms(NODE);
	__atomic_store_n(&net.held_up, true, __ATOMIC_RELEASE);
	ASSERT_EQ(t, rename_path("/d/a", "/d/b", false), 0);
	while (!__atomic_load_n(&net.is_waiting, __ATOMIC_ACQUIRE))
		thread_yield();
	/* One request for room is under way, and the next one is due. */
	ASSERT_EQ(t, rename_path("/d/b", "/d/a", false), 0);
	EXPECT_EQ(t, net.nr_renames, 2u);
	thread = thread_create("giver", give_rooms, t);
	ASSERT_FALSE(t, IS_ERR(thread));
	for (int i = 0; i < 100; i++)
		thread_yield();
	__atomic_store_n(&net.held_up, false, __ATOMIC_RELEASE);
	thread_join(thread);
	for (int i = 0; i < 1000; i++)
		thread_yield();
	EXPECT_EQ(t, memfs_rooms(st.fs), 0u);
	EXPECT_EQ(t, remove_path("/d/a"), 0);
	EXPECT_EQ(t, remove_path("/d"), 0);
	drain();
	EXPECT_EQ(t, behind_error(NODE, true), 0);
}

/* The node is asked what it would refuse. */
static void a_rename_needs_rights(struct ktest *t)
{
	const struct attr_change closed = { .valid = ATTR_MODE, .mode = 0555 };
	const struct attr_change open = { .valid = ATTR_MODE, .mode = 0777 };
	struct inode *from, *to;

	setup(t);
	get_rooms(t);
	ASSERT_EQ(t, make("/d", S_IFDIR | 0777, &from), 0);
	ASSERT_EQ(t, make("/e", S_IFDIR | 0777, &to), 0);
	ASSERT_EQ(t, make("/d/a", S_IFREG | 0644, NULL), 0);
	ASSERT_EQ(t, from->ops->setattr(from, &open), 0);
	ASSERT_EQ(t, to->ops->setattr(to, &closed), 0);
	user.uid = 1000;
	EXPECT_EQ(t, rename_path("/d/a", "/e/a", false), -EACCES);
	user.uid = 0;
	ASSERT_EQ(t, from->ops->setattr(from, &closed), 0);
	ASSERT_EQ(t, to->ops->setattr(to, &open), 0);
	user.uid = 1000;
	EXPECT_EQ(t, rename_path("/d/a", "/e/a", false), -EACCES);
	user.uid = 0;
	EXPECT_EQ(t, net.nr_renames, 2u);
	ASSERT_EQ(t, from->ops->setattr(from, &open), 0);
	user.uid = 1000;
	EXPECT_EQ(t, rename_path("/d/a", "/e/a", false), 0);
	user.uid = 0;
	EXPECT_EQ(t, net.nr_renames, 2u);
	inode_put(from);
	inode_put(to);
	EXPECT_EQ(t, remove_path("/e/a"), 0);
	EXPECT_EQ(t, remove_path("/d"), 0);
	EXPECT_EQ(t, remove_path("/e"), 0);
	drain();
	EXPECT_EQ(t, behind_error(NODE, true), 0);
}

/* Changes of one name keep their order when the node wants memory in between. */
static void order_is_kept_when_tried_again(struct ktest *t)
{
	const struct attr_change mode = { .valid = ATTR_MODE, .mode = 0755 };
	struct inode *dir;

	setup(t);
	get_rooms(t);
	ASSERT_EQ(t, make("/d", S_IFDIR | 0777, &dir), 0);
	ASSERT_EQ(t, make("/d/a", S_IFREG | 0644, NULL), 0);
	ASSERT_EQ(t, make("/d/b", S_IFREG | 0644, NULL), 0);
	__atomic_store_n(&net.held_up, true, __ATOMIC_RELEASE);
	EXPECT_EQ(t, dir->ops->setattr(dir, &mode), 0);
	inode_put(dir);
	while (!__atomic_load_n(&net.is_waiting, __ATOMIC_ACQUIRE))
		thread_yield();
	/* In one request behind that. */
	EXPECT_EQ(t, rename_path("/d/b", "/d/c", false), 0);
	EXPECT_EQ(t, rename_path("/d/a", "/d/b", false), 0);
	EXPECT_EQ(t, remove_path("/d/b"), 0);
	EXPECT_EQ(t, rename_path("/d/c", "/d/b", false), 0);
	memfs_fail_once(st.fs, -ENOMEM, 1);
	__atomic_store_n(&net.held_up, false, __ATOMIC_RELEASE);
	flush();
	EXPECT_EQ(t, behind_error(NODE, true), 0);
	keep_names();
	EXPECT_EQ(t, exists("/d/a"), -ENOENT);
	EXPECT_EQ(t, exists("/d/c"), -ENOENT);
	EXPECT_EQ(t, remove_path("/d/b"), 0);
	EXPECT_EQ(t, remove_path("/d"), 0);
	drain();
	EXPECT_EQ(t, behind_error(NODE, true), 0);
}

/* A user namespace allows nothing at the node, and its root is none there. */
static bool may_all(const struct fs_cred *cred, uint32_t uid, uint32_t gid)
{
	return true;
}

static void rights_of_a_namespace_are_not_the_nodes(struct ktest *t)
{
	const struct attr_change closed = { .valid = ATTR_MODE, .mode = 0555 };
	const struct attr_change open = { .valid = ATTR_MODE, .mode = 0777 };
	const struct attr_change sticky = { .valid = ATTR_MODE | ATTR_UID,
					    .mode = 01777,
					    .uid = 7 };
	const struct attr_change owner = { .valid = ATTR_UID, .uid = 7 };
	struct inode *dir, *file;

	setup(t);
	get_rooms(t);
	ASSERT_EQ(t, make("/d", S_IFDIR | 0777, &dir), 0);
	ASSERT_EQ(t, make("/e", S_IFDIR | 0777, NULL), 0);
	ASSERT_EQ(t, make("/d/a", S_IFREG | 0644, &file), 0);
	ASSERT_EQ(t, make("/e/b", S_IFREG | 0644, NULL), 0);
	ASSERT_EQ(t, file->ops->setattr(file, &owner), 0);
	inode_put(file);
	file = get("/e");
	ASSERT_FALSE(t, IS_ERR(file));
	ASSERT_EQ(t, file->ops->setattr(file, &open), 0);
	inode_put(file);
	ASSERT_EQ(t, dir->ops->setattr(dir, &closed), 0);
	user = (struct fs_cred){ .uid = 1000, .gid = 1000, .over = may_all };
	EXPECT_EQ(t, remove_path("/d/a"), -EACCES);
	EXPECT_EQ(t, rename_path("/e/b", "/d/b", false), -EACCES);
	EXPECT_EQ(t, rename_path("/d/a", "/e/a", false), -EACCES);
	user = (struct fs_cred){ 0 };
	ASSERT_EQ(t, dir->ops->setattr(dir, &sticky), 0);
	user = (struct fs_cred){ .plain = true, .over = may_all };
	EXPECT_EQ(t, remove_path("/d/a"), -EPERM);
	user = (struct fs_cred){ 0 };
	inode_put(dir);
	EXPECT_EQ(t, remove_path("/d/a"), 0);
	EXPECT_EQ(t, remove_path("/e/b"), 0);
	EXPECT_EQ(t, remove_path("/d"), 0);
	EXPECT_EQ(t, remove_path("/e"), 0);
	drain();
	EXPECT_EQ(t, behind_error(NODE, true), 0);
}

static void move_there(void)
{
	(void)!rename_path("/a", "/d/a", false);
}

/* A name that comes to a directory while it is removed, and what is done to one that is gone. */
static void a_directory_that_goes_has_no_rights(struct ktest *t)
{
	const struct attr_change mode = { .valid = ATTR_MODE, .mode = 0700 };
	struct inode *dir;

	setup(t);
	get_rooms(t);
	ASSERT_EQ(t, make("/d", S_IFDIR | 0755, &dir), 0);
	ASSERT_EQ(t, make("/a", S_IFREG | 0644, NULL), 0);
	net.unlinks = move_there;
	EXPECT_EQ(t, remove_path("/d"), -ENOTEMPTY);
	EXPECT_FALSE(t, net.unlinks);
	EXPECT_EQ(t, exists("/a"), -ENOENT);
	EXPECT_EQ(t, remove_path("/d/a"), 0);
	EXPECT_EQ(t, remove_path("/d"), 0);
	EXPECT_EQ(t, dir->ops->setattr(dir, &mode), -ESTALE);
	inode_put(dir);
	ASSERT_EQ(t, make("/d", S_IFDIR | 0755, &dir), 0);
	ASSERT_EQ(t, make("/e", S_IFDIR | 0755, NULL), 0);
	ASSERT_EQ(t, rename_path("/e", "/d", false), 0);
	EXPECT_EQ(t, dir->ops->setattr(dir, &mode), -ESTALE);
	inode_put(dir);
	EXPECT_EQ(t, remove_path("/d"), 0);
	drain();
	EXPECT_EQ(t, behind_error(NODE, true), 0);
	EXPECT_EQ(t, memfs_nr_files(st.fs), nr_before);
}

/* As after an earlier life of the node, which has done this and a removal behind it. */
static void attributes_of_a_file_that_is_gone_are_done(struct ktest *t)
{
	const struct attr_change mode = { .valid = ATTR_MODE, .mode = 0600 };
	struct inode *file;

	setup(t);
	ASSERT_EQ(t, make("/f", S_IFREG | 0644, &file), 0);
	__atomic_store_n(&net.held_up, true, __ATOMIC_RELEASE);
	EXPECT_EQ(t, file->ops->setattr(file, &mode), 0);
	remove_at_root(t, st.fs, "f");
	__atomic_store_n(&net.held_up, false, __ATOMIC_RELEASE);
	flush();
	EXPECT_EQ(t, behind_error(NODE, true), 0);
	inode_put(file);
	keep_names();
	EXPECT_EQ(t, exists("/f"), -ENOENT);
}

/* The room of a name that waits behind a request that fails is not given up by the next one. */
static void rooms_outlive_a_request_that_fails(struct ktest *t)
{
	const struct attr_change mode = { .valid = ATTR_MODE, .mode = 0700 };
	struct inode *dir;
	unsigned int nr;

	setup(t);
	get_rooms(t);
	ASSERT_EQ(t, make("/d", S_IFDIR | 0755, &dir), 0);
	ASSERT_EQ(t, make("/d/a", S_IFREG | 0644, NULL), 0);
	__atomic_store_n(&net.held_up, true, __ATOMIC_RELEASE);
	EXPECT_EQ(t, dir->ops->setattr(dir, &mode), 0);
	while (!__atomic_load_n(&net.is_waiting, __ATOMIC_ACQUIRE))
		thread_yield();
	EXPECT_EQ(t, rename_path("/d/a", "/d/b", false), 0);
	EXPECT_EQ(t, net.nr_renames, 0u);
	(void)behind_keep_rooms(0); /* it takes longer than that */
	nr = __atomic_load_n(&net.nr_batches, __ATOMIC_ACQUIRE);
	__atomic_store_n(&net.batches, -ESHUTDOWN, __ATOMIC_RELEASE);
	__atomic_store_n(&net.held_up, false, __ATOMIC_RELEASE);
	while (__atomic_load_n(&net.nr_batches, __ATOMIC_ACQUIRE) == nr)
		thread_yield();
	__atomic_store_n(&net.batches, 0, __ATOMIC_RELEASE);
	flush();
	EXPECT_EQ(t, behind_error(NODE, true), 0);
	(void)behind_keep_rooms(HOUR_NS);
	inode_put(dir);
	EXPECT_EQ(t, remove_path("/d/b"), 0);
	EXPECT_EQ(t, remove_path("/d"), 0);
	drain();
	EXPECT_EQ(t, behind_error(NODE, true), 0);
}

#define LATER(name)                                            \
	static void name##_with_changes_later(struct ktest *t) \
	{                                                      \
		keeping = later = true;                        \
		name(t);                                       \
		flush();                                       \
		keeping = later = false;                       \
	}

LATER(removals_are_told_later)
LATER(many_removals_are_few_requests)
LATER(a_batch_whose_answer_is_lost_is_done_once)
LATER(what_the_node_refuses_is_told)
LATER(want_of_memory_is_waited_for)
LATER(rights_are_those_of_now)
LATER(a_flush_waits_for_what_is_open)
LATER(changes_become_true_in_their_order)
LATER(a_node_that_is_gone_is_waited_for_once)
LATER(the_end_of_a_node_is_waited_for)
LATER(a_node_that_is_away_keeps_no_other_from_forgetting)
LATER(attributes_are_told_later)
LATER(what_the_node_decides_it_is_asked)
LATER(attributes_fail_or_not)
LATER(a_time_is_told_before_contents)
LATER(a_file_is_made_before_attributes_of_others)
LATER(no_file_is_made_before_what_is_tried_again)
LATER(renames_are_told_later)
LATER(names_that_come_have_room)
LATER(room_is_given_to_who_needs_it)
LATER(room_that_is_needed_stays_away)
LATER(a_rename_needs_rights)
LATER(order_is_kept_when_tried_again)
LATER(rights_of_a_namespace_are_not_the_nodes)
LATER(a_directory_that_goes_has_no_rights)
LATER(attributes_of_a_file_that_is_gone_are_done)
LATER(rooms_outlive_a_request_that_fails)
LATER(attributes_change)
LATER(names_come_and_go)
LATER(paths_follow_a_rename)
LATER(a_file_without_a_name_may_get_one)
LATER(walks_cross_file_systems)

static const struct ktest_case kept_files_cases[] = {
	KTEST(names_come_and_go_with_kept_names),
	KTEST(paths_follow_a_rename_with_kept_names),
	KTEST(a_removed_directory_stays_empty_with_kept_names),
	KTEST(a_lookup_that_a_rename_overtakes_is_made_again_with_kept_names),
	KTEST(a_lost_answer_does_nothing_twice_with_kept_names),
	KTEST(a_file_without_a_name_may_get_one_with_kept_names),
	KTEST(attributes_change_with_kept_names),
	KTEST(extended_attributes_are_kept_with_kept_names),
	KTEST(an_unused_file_goes_with_its_name_with_kept_names),
	KTEST(a_file_that_goes_meanwhile_is_looked_for_again_with_kept_names),
	KTEST(a_file_is_made_while_others_go_with_kept_names),
	KTEST(a_look_up_waits_for_a_removal_with_kept_names),
	KTEST(an_open_file_outlives_its_name_with_kept_names),
	KTEST(mounts_are_told_with_kept_names),
	KTEST(a_rename_stays_in_its_file_system_with_kept_names),
	KTEST(walks_cross_file_systems_with_kept_names),
	KTEST(each_operation_costs_its_change_kept),
	KTEST(a_name_is_looked_for_in_its_directory),
	KTEST(paths_are_unknown_after_a_rename_in_doubt),
	KTEST(a_file_that_was_made_is_not_made_again),
	KTEST(a_name_to_be_made_is_not_too_long),
	KTEST(removals_are_told_later_with_changes_later),
	KTEST(many_removals_are_few_requests_with_changes_later),
	KTEST(a_batch_whose_answer_is_lost_is_done_once_with_changes_later),
	KTEST(what_the_node_refuses_is_told_with_changes_later),
	KTEST(want_of_memory_is_waited_for_with_changes_later),
	KTEST(rights_are_those_of_now_with_changes_later),
	KTEST(a_flush_waits_for_what_is_open_with_changes_later),
	KTEST(changes_become_true_in_their_order_with_changes_later),
	KTEST(a_node_that_is_gone_is_waited_for_once_with_changes_later),
	KTEST(the_end_of_a_node_is_waited_for_with_changes_later),
	KTEST(a_node_that_is_away_keeps_no_other_from_forgetting_with_changes_later),
	KTEST(attributes_are_told_later_with_changes_later),
	KTEST(what_the_node_decides_it_is_asked_with_changes_later),
	KTEST(attributes_fail_or_not_with_changes_later),
	KTEST(a_time_is_told_before_contents_with_changes_later),
	KTEST(a_file_is_made_before_attributes_of_others_with_changes_later),
	KTEST(no_file_is_made_before_what_is_tried_again_with_changes_later),
	KTEST(renames_are_told_later_with_changes_later),
	KTEST(names_that_come_have_room_with_changes_later),
	KTEST(room_that_is_needed_stays_away_with_changes_later),
	KTEST(room_is_given_to_who_needs_it_with_changes_later),
	KTEST(a_rename_needs_rights_with_changes_later),
	KTEST(order_is_kept_when_tried_again_with_changes_later),
	KTEST(rights_of_a_namespace_are_not_the_nodes_with_changes_later),
	KTEST(a_directory_that_goes_has_no_rights_with_changes_later),
	KTEST(attributes_of_a_file_that_is_gone_are_done_with_changes_later),
	KTEST(rooms_outlive_a_request_that_fails_with_changes_later),
	KTEST(attributes_change_with_changes_later),
	KTEST(names_come_and_go_with_changes_later),
	KTEST(paths_follow_a_rename_with_changes_later),
	KTEST(a_file_without_a_name_may_get_one_with_changes_later),
	KTEST(walks_cross_file_systems_with_changes_later),
	{ 0 },
};
static const struct ktest_suite kept_files_suite = {
	.name = "vfs.files_kept",
	.cases = kept_files_cases,
};
KTEST_SUITE(kept_files_suite);
