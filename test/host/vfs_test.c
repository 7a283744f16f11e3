/* SPDX-License-Identifier: MIT */
/*
 * Walks and mounts, beside a storage node that lies: files where a directory was asked for, types
 * that change, names that cannot be looked up, mount points that it was not told of.
 */
#include <cluster/patience.h>
#include <lib/err.h>
#include <lib/ktest.h>
#include <lib/string.h>
#include <managers/placement.h>
#include <mm/slab.h>
#include <processor/client/file_node.h>
#include <processor/client/storage.h>
#include <processor/client/storage_private.h>
#include <processor/excache/object.h>
#include <processor/ipc/filelock.h>
#include <processor/process/process.h>
#include <proto/ps.h>
#include <shim/shim.h>

#include <processor/vfs/dirent_private.h>
#include <processor/vfs/file.h>
#include <processor/vfs/live.h>
#include <processor/vfs/mount_private.h>
#include <processor/vfs/path.h>

enum {
	INO_ROOT = 2,
	INO_TMP,
	INO_GOOD,
	INO_X,
	INO_Y
};

/* --- the storage node ---------------------------------------------------------------- */

struct answer {
	int err;
	const char *mount_point; /* NULL: the file @ino of @mode at @path */
	const char *rest;
	uint16_t nr_links;
	enum storage_end end; /* not FOUND: instead of what mount_point says */
	uint32_t mode;
	const char *path;
	uint64_t ino; /* 0: INO_X */
};

static struct {
	uint32_t root_mode;         /* 0: a directory */
	int bad_err;                /* of looking up /tmp/bad */
	int list_err;               /* of listing /tmp */
	bool endless;               /* /tmp has ever more names */
	uint32_t attr_mode;         /* getattr: 0: a directory */
	const struct answer *walks; /* answers of storage_walk(), the last one for ever */
	size_t nr_walks, next;
	size_t nr_asked;
} node;

static struct file_attr attr_of(uint64_t ino, uint32_t mode)
{
	return (struct file_attr){
		.file = { .ino = ino, .gen = 1, .node = 7 },
		.mode = mode | 0755,
		.nlink = 1,
	};
}

int storage_lookup(const struct storage_place *where, const char *path, struct file_attr *attr)
{
	if (!strcmp(path, "/"))
		*attr = attr_of(INO_ROOT, node.root_mode ? node.root_mode : S_IFDIR);
	else if (!strcmp(path, "/tmp"))
		*attr = attr_of(INO_TMP, S_IFDIR);
	else if (!strcmp(path, "/tmp/good"))
		*attr = attr_of(INO_GOOD, S_IFREG);
	else
		return !strcmp(path, "/tmp/bad") ? node.bad_err : -ENOENT;
	return 0;
}

int storage_lookup_in(const struct file_id *dir, const char *name, size_t len,
		      struct file_attr *attr)
{
	const struct storage_place root = { "/", 7 };
	char path[32] = "";

	strlcpy(path, dir->ino == INO_TMP ? "/tmp/" : "/", sizeof(path));
	strlcpy(path + strlen(path), name, MIN(len + 1, sizeof(path) - strlen(path)));
	return storage_lookup(&root, path, attr);
}

/* With no answers prepared: as far as "/tmp", as an honest node does. */
int storage_walk(const struct fs_cred *cred, const struct storage_walk *how,
		 struct storage_found *rep, void **buf)
{
	const struct answer *a = &node.walks[node.next];
	char *text = kstrdup(how->path), *end;

	node.nr_asked++;
	*buf = text;
	*rep = (struct storage_found){ .path = "/tmp",
				       .path_len = 4,
				       .end = STORAGE_AT_MOUNT_POINT };
	if (!node.walks) {
		end = text ? strstr(text, "/tmp") : NULL;
		if (!end)
			return -ENOENT;
		rep->rest = end + 4;
		rep->rest_len = (uint16_t)strlen(rep->rest);
		return 0;
	}
	if (node.next + 1 < node.nr_walks)
		node.next++;
	rep->end = a->end ? a->end : a->mount_point ? STORAGE_AT_MOUNT_POINT : STORAGE_FOUND;
	rep->path = a->mount_point ? a->mount_point : a->path;
	rep->path_len = (uint16_t)(rep->path ? strlen(rep->path) : 0);
	rep->rest = a->rest;
	rep->rest_len = (uint16_t)(a->rest ? strlen(a->rest) : 0);
	rep->nr_links = a->nr_links;
	rep->attr = attr_of(a->ino ? a->ino : INO_X, a->mode);
	return a->err;
}

int storage_getattr(const struct file_id *file, struct file_attr *attr)
{
	*attr = attr_of(file->ino, node.attr_mode ? node.attr_mode : S_IFDIR);
	return 0;
}

ssize_t storage_readlink(const struct storage_place *where, const char *path, char *buf,
			 size_t size)
{
	return -EIO;
}

int storage_statfs(const struct file_id *file, struct fs_info *st)
{
	*st = (struct fs_info){ .flags = ST_RDONLY };
	return 0;
}

uint32_t gsm_storage_for(const char *at)
{
	return 7;
}

const char *gsm_mount_at(size_t i)
{
	return NULL;
}

/* Changes: none is asked for. */
int storage_call(uint32_t to, uint16_t opcode, const void *body, size_t len, void *reply,
		 size_t max)
{
	return -EIO;
}

int storage_call_to_end(uint32_t to, uint16_t opcode, const void *body, size_t len, void *reply,
			size_t max)
{
	return -EIO;
}

int storage_call_in(const struct file_id *dir, uint16_t opcode, const void *body, size_t len,
		    void *reply, size_t max)
{
	return -EIO;
}

uint64_t patience_ns(void)
{
	return 0;
}

int storage_call_behind(uint32_t to, const void *body, size_t len, void *reply, size_t max)
{
	return -EIO;
}

ssize_t storage_getdents(const struct file_id *dir, uint64_t cookie, uint64_t behind, void *buf,
			 uint32_t size)
{
	static const char *const names[] = { ".", "..", "bad", "gone", "good" };
	size_t used = 0;

	if (node.list_err)
		return node.list_err;
	if (cookie >= ARRAY_SIZE(names) && !node.endless)
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const struct ps_dirent e = {
			.ino = 1,
			.cookie = i + 1,
			.name = names[i],
			.name_len = (uint8_t)strlen(names[i]),
		};

		if (ps_dirent_encode(&e, buf, size, &used))
			break;
	}
	return (ssize_t)used;
}

int storage_dirent_next(const void *buf, size_t len, size_t *off, struct storage_dirent *out)
{
	struct ps_dirent e;
	const int err = ps_dirent_decode(buf, len, off, &e);

	if (!err)
		*out = (struct storage_dirent){
			.ino = e.ino, .cookie = e.cookie, .name = e.name, .name_len = e.name_len
		};
	return err;
}

/* The last name has no end. */
ssize_t storage_xattr_get(const struct fs_cred *cred, const struct file_id *file, const char *name,
			  void *buf, size_t size)
{
	memcpy(buf, "user.a\0user.b", 13);
	return 13;
}

/* --- what is not linked -------------------------------------------------------------- */

const struct file_ops regular_ops = { .name = "regular" };

int filelock_declare(uint32_t at, uint32_t incarn)
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
	return 0;
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
	return -EROFS;
}

int live_attr(struct file_attr *attr)
{
	return 0;
}

int file_bufs_init(void)
{
	return 0;
}

struct object *object_file_get(const struct file_attr *attr)
{
	return ERR_PTR(-ENOMEM);
}

bool object_file_drop(const struct file_id *file)
{
	return true;
}

bool object_file_is_idle(const struct file_id *file)
{
	return true;
}

bool object_file_is_known(const struct file_id *file)
{
	return false;
}

void process_cred(struct fs_cred *cred)
{
	*cred = (struct fs_cred){ 0 };
}

bool dir_emit(struct dir_sink *sink, const char *name, size_t len, uint64_t ino, uint8_t type,
	      uint64_t cookie)
{
	return !sink->full && sink->put(sink, name, len, ino, type, cookie);
}

/* --- file systems of the processor: one empty directory each -------------------------- */

static int empty_getattr(struct inode *inode, struct file_attr *attr)
{
	attr->mode = S_IFDIR | 0755;
	attr->nlink = 2;
	return 0;
}

static void empty_release(struct inode *inode)
{
	kfree(inode);
}

static int empty_lookup(struct inode *dir, const char *name, size_t len, struct inode **out)
{
	return -ENOENT;
}

static const struct inode_ops empty_ops = {
	.name = "empty",
	.getattr = empty_getattr,
	.release = empty_release,
	.lookup = empty_lookup,
};

static int empty_root(const struct fs_type *type, struct inode **out)
{
	*out = kmalloc(sizeof(**out));
	if (!*out)
		return -ENOMEM;
	inode_init(*out, type, &empty_ops, S_IFDIR);
	return 0;
}

static struct fs_type empties[] = {
	{ .name = "tmp", .at = "/tmp", .root = empty_root, .show_covered = true },
	{ .name = "dev", .at = "/dev", .root = empty_root },
	{ .name = "shm", .at = "/dev/shm", .root = empty_root },
};

/* --- fixture ------------------------------------------------------------------------- */

static struct mounts *mounts;
static const struct fs_cred root_cred;

static void setup_types(struct ktest *t)
{
	static bool done;

	node.nr_asked = node.next = node.nr_walks = 0;
	node.walks = NULL;
	node.attr_mode = 0;
	if (done)
		return;
	done = true;
	ASSERT_EQ(t, shim_initcalls_run(), 0);
	for (size_t i = 0; i < ARRAY_SIZE(empties); i++)
		ASSERT_EQ(t, fs_register(&empties[i]), 0);
}

/* Mounts are made once; what happens before they are is tried here. */
static void setup(struct ktest *t)
{
	setup_types(t);
	if (mounts)
		return;
	node.root_mode = S_IFREG;
	EXPECT_EQ(t, PTR_ERR(mounts_get()), -ENOTDIR);
	node.root_mode = 0;
	node.bad_err = -ENOMEM;
	EXPECT_EQ(t, PTR_ERR(mounts_get()), -ENOMEM);
	/* An error that may be gone the next time leaves nothing out for good. */
	node.bad_err = -ETIMEDOUT;
	EXPECT_EQ(t, PTR_ERR(mounts_get()), -ETIMEDOUT);
	node.bad_err = -EUCLEAN;
	node.list_err = -EHOSTDOWN;
	EXPECT_EQ(t, PTR_ERR(mounts_get()), -EHOSTDOWN);
	node.list_err = 0;
	node.endless = true;
	shim_log_clear();
	mounts = mounts_get();
	ASSERT_FALSE(t, IS_ERR(mounts));
	EXPECT_TRUE(t, shim_log_contains("/tmp: only 65536 names"));
	EXPECT_TRUE(t, shim_log_contains("/tmp: a name of the covered directory"));
}

static void answer(const struct answer *walks, size_t nr)
{
	node.walks = walks;
	node.nr_walks = nr;
	node.next = node.nr_asked = 0;
}

static int walk(const char *path, uint32_t flags, struct walk_result *res)
{
	const struct walk_base base = { .cred = &root_cred, .mounts = mounts };

	return path_walk(&base, path, flags, 0, res);
}

/* The error of a walk whose result does not matter. */
static int try_walk(const char *path, uint32_t flags)
{
	struct walk_result res;
	const int err = walk(path, flags, &res);

	if (!err)
		walk_result_put(&res);
	return err;
}

/* --- cases --------------------------------------------------------------------------- */

static void a_covered_name_that_fails_is_left_out(struct ktest *t)
{
	struct walk_result res;

	setup(t);
	EXPECT_EQ(t, try_walk("/tmp/bad", 0), -ENOENT);
	EXPECT_EQ(t, try_walk("/tmp/gone", 0), -ENOENT);
	node.attr_mode = S_IFREG;
	ASSERT_EQ(t, walk("/tmp/good", 0, &res), 0);
	EXPECT_STREQ(t, res.at.text, "/tmp/good");
	EXPECT_EQ(t, res.at.inode->mode, (uint32_t)S_IFREG);
	walk_result_put(&res);
}

static void names_of_attributes_have_an_end(struct ktest *t)
{
	struct walk_result res;
	char buf[64];

	setup(t);
	node.attr_mode = S_IFREG;
	ASSERT_EQ(t, walk("/tmp/good", 0, &res), 0);
	EXPECT_EQ(t, res.at.inode->ops->listxattr(res.at.inode, buf, sizeof(buf), true), -EPROTO);
	walk_result_put(&res);
}

static void the_directory_of_a_missing_name_is_a_directory(struct ktest *t)
{
	static const struct answer file[] = { { .err = -ENOENT },
					      { .mode = S_IFREG, .path = "/x" } };
	static const struct answer dir[] = { { .err = -ENOENT },
					     { .mode = S_IFDIR, .path = "/x" } };
	struct walk_result res;
	size_t live;

	setup(t);
	live = shim_allocs_live();
	answer(file, 2);
	EXPECT_EQ(t, try_walk("/x/new", WALK_CREATE), -ENOTDIR);
	answer(dir, 2);
	ASSERT_EQ(t, walk("/x/new", WALK_CREATE, &res), 0);
	EXPECT_TRUE(t, inode_is_dir(res.parent.inode));
	EXPECT_STREQ(t, res.name, "new");
	walk_result_put(&res);
	EXPECT_EQ(t, shim_allocs_live(), live);
}

static void a_file_keeps_its_type(struct ktest *t)
{
	static const struct answer file[] = { { .mode = S_IFREG, .path = "/x" } };
	static const struct answer dir[] = { { .mode = S_IFDIR, .path = "/x" } };
	struct walk_result res;
	struct fs_state *fs;
	size_t live;

	setup(t);
	live = shim_allocs_live();
	fs = fs_state_create(022);
	ASSERT_FALSE(t, IS_ERR(fs));
	answer(dir, 1);
	ASSERT_EQ(t, walk("/x", 0, &res), 0);
	answer(file, 1);
	EXPECT_EQ(t, try_walk("/x", 0), -ESTALE);
	EXPECT_EQ(t, fs_state_chdir(fs, &root_cred, "/x"), -ESTALE);
	/* By the attributes alone: "/" is walked without a question. */
	node.attr_mode = S_IFREG;
	EXPECT_EQ(t, fs_state_chdir(fs, &root_cred, "/"), -ESTALE);
	node.attr_mode = 0;
	EXPECT_EQ(t, fs_state_chdir(fs, &root_cred, "/"), 0);
	answer(dir, 1);
	EXPECT_EQ(t, fs_state_chdir(fs, &root_cred, "/x"), 0);
	walk_result_put(&res);
	fs_state_put(fs);
	/* The inode has gone with its last reference: now it may be anything. */
	answer(file, 1);
	EXPECT_EQ(t, try_walk("/x", 0), 0);
	EXPECT_EQ(t, shim_allocs_live(), live);
}

static void only_mount_points_that_were_offered_are_crossed(struct ktest *t)
{
	static const char *const never[] = { "/", "/dev/shm", "/tmp/good", "/nowhere" };
	static const struct answer tmp = { .mount_point = "/tmp", .rest = "" };
	struct walk_result res;
	size_t live;

	setup(t);
	live = shim_allocs_live();
	for (size_t i = 0; i < ARRAY_SIZE(never); i++) {
		const struct answer a = { .mount_point = never[i], .rest = "" };

		answer(&a, 1);
		EXPECT_EQ(t, try_walk("/a/b", 0), -EPROTO);
	}
	answer(&tmp, 1);
	ASSERT_EQ(t, walk("/a/b", 0, &res), 0);
	EXPECT_STREQ(t, res.at.text, "/tmp");
	walk_result_put(&res);
	EXPECT_EQ(t, shim_allocs_live(), live);
}

static void no_answer_makes_a_walk_endless(struct ktest *t)
{
	static const struct answer again = { .mount_point = "/tmp", .rest = "/../a/b" };
	static const struct answer same = { .mount_point = "/tmp", .rest = "/../a" };
	static const struct answer link = { .mount_point = "/tmp",
					    .rest = "/../a/b",
					    .nr_links = 1 };
	size_t live;

	setup(t);
	live = shim_allocs_live();
	answer(&again, 1);
	EXPECT_EQ(t, try_walk("/a/b", 0), -EPROTO);
	EXPECT_EQ(t, node.nr_asked, 1u);
	answer(&same, 1);
	EXPECT_EQ(t, try_walk("/a/b/", 0), -EPROTO);
	EXPECT_EQ(t, node.nr_asked, 1u);
	answer(&link, 1);
	EXPECT_EQ(t, try_walk("/a/b", 0), -ELOOP);
	EXPECT_EQ(t, node.nr_asked, 41u);
	EXPECT_EQ(t, shim_allocs_live(), live);
}

/* More crossings than links are allowed, each by names alone. */
static void a_path_may_cross_often(struct ktest *t)
{
	enum {
		TIMES = 200
	};
	static const char turn[] = "/a/../tmp/..";
	char path[TIMES * (sizeof(turn) - 1) + 1];

	setup(t);
	for (size_t i = 0; i < TIMES; i++)
		memcpy(path + i * (sizeof(turn) - 1), turn, sizeof(turn));
	EXPECT_EQ(t, try_walk(path, 0), 0);
	EXPECT_EQ(t, node.nr_asked, (size_t)TIMES);
}

static unsigned int nr_dropped;

static void empty_drop(struct fs_type *type)
{
	nr_dropped++;
}

static struct fs_type made = { .name = "made", .at = "/", .drop = empty_drop };

/* Mount @made on entry @name of directory @dir; the reference of it is the table's. */
static int mount_made(const char *dir, const char *name, struct mount **out)
{
	struct walk_result res;
	struct inode *root;
	int err = walk(dir, 0, &res);

	if (!err)
		err = empty_root(&made, &root);
	if (err)
		return err;
	mutex_lock(&mount_change);
	*out = mount_alloc(&made, root, 0);
	err = *out ? mount_place(*out, &res.at, name) : -ENOMEM;
	if (!err)
		err = mount_attach(mounts, *out);
	mutex_unlock(&mount_change);
	if (err)
		mount_put(*out);
	walk_result_put(&res);
	return err;
}

static int unmount_made(struct mount *mt, bool lazy)
{
	LIST_HEAD(gone);
	int err;

	mutex_lock(&mount_change);
	err = mount_detach(mt, lazy, 0, &gone);
	mutex_unlock(&mount_change);
	mounts_put_gone(&gone);
	return err;
}

static void mounts_come_and_go(struct ktest *t)
{
	struct walk_result res, up;
	struct mount *one, *two, *in;
	size_t live;

	setup(t);
	live = shim_allocs_live();
	nr_dropped = 0;
	ASSERT_EQ(t, mount_made("/dev", "x", &one), 0);
	ASSERT_EQ(t, walk("/dev/x", 0, &res), 0);
	EXPECT_EQ(t, res.at.inode, one->root);
	EXPECT_STREQ(t, res.at.text, "/dev/x");
	ASSERT_EQ(t, walk("/dev/x/../x/.././x/..", 0, &up), 0);
	EXPECT_STREQ(t, up.at.text, "/dev");
	EXPECT_TRUE(t, mount_point_at(up.at.inode, "x", 1));
	EXPECT_FALSE(t, mount_point_at(up.at.inode, "xy", 2));
	walk_result_put(&up);
	EXPECT_EQ(t, unmount_made(one, false), -EBUSY);
	walk_result_put(&res);
	/* The last one on a name is seen, and one below keeps it. */
	ASSERT_EQ(t, mount_made("/dev", "x", &two), 0);
	ASSERT_EQ(t, walk("/dev/x", 0, &res), 0);
	EXPECT_EQ(t, res.at.inode, two->root);
	walk_result_put(&res);
	ASSERT_EQ(t, mount_made("/dev/x", "in", &in), 0);
	EXPECT_EQ(t, unmount_made(two, false), -EBUSY);
	ASSERT_EQ(t, walk("/dev/x/in", 0, &res), 0);
	EXPECT_EQ(t, unmount_made(two, true), 0);
	/* A user of it goes on, and ".." leads nowhere from there. */
	EXPECT_FALSE(t, mount_up(res.at.mnt, NULL, &one, NULL));
	walk_result_put(&res);
	EXPECT_EQ(t, made.nr_mounts, 1u);
	EXPECT_EQ(t, nr_dropped, 0u);
	ASSERT_EQ(t, walk("/dev/x", 0, &res), 0);
	one = res.at.mnt;
	walk_result_put(&res);
	EXPECT_EQ(t, unmount_made(one, false), 0);
	EXPECT_EQ(t, nr_dropped, 1u); /* with the last mount */
	EXPECT_EQ(t, try_walk("/dev/x", 0), -ENOENT);
	EXPECT_EQ(t, shim_allocs_live(), live);
}

/* A storage node is told of so many and no more. */
static void mount_points_of_a_storage_node_have_an_end(struct ktest *t)
{
	static const struct answer there[] = { { .mount_point = "/longer", .rest = "" } };
	char name[FS_NAME_MAX + 1];
	struct mount *mt[8];
	size_t n = 0, live;
	int err = 0;

	setup(t);
	live = shim_allocs_live();
	nr_dropped = 0;
	memset(name, 'n', FS_NAME_MAX);
	name[FS_NAME_MAX] = '\0';
	while (!err && n < ARRAY_SIZE(mt)) {
		name[0] = (char)('a' + n);
		err = mount_made("/", name, &mt[n]);
		n += !err;
	}
	EXPECT_EQ(t, err, -ENOSPC);
	EXPECT_EQ(t, n, 3u);
	/* One that was not offered, as it is in another mount, is not crossed. */
	answer(there, 1);
	EXPECT_EQ(t, try_walk("/longer/x", 0), -EPROTO);
	while (n--)
		EXPECT_EQ(t, unmount_made(mt[n], false), 0);
	EXPECT_EQ(t, nr_dropped, 1u);
	EXPECT_EQ(t, shim_allocs_live(), live);
}

/* Another directory has come to the path of one that a mount point is in. */
static void a_mounted_root_is_not_its_parents(struct ktest *t)
{
	static const struct answer one[] = { { .mode = S_IFDIR, .path = "/d" } };
	static const struct answer other[] = { { .mode = S_IFDIR, .path = "/d", .ino = INO_Y },
					       { .mount_point = "/d/m", .rest = "" } };
	struct walk_base base = { .cred = &root_cred };
	struct walk_result res;
	struct mount *mt;
	size_t live;

	setup(t);
	base.mounts = mounts;
	live = shim_allocs_live();
	answer(one, 1);
	ASSERT_EQ(t, mount_made("/d", "m", &mt), 0);
	answer(other, 2);
	ASSERT_EQ(t, path_walk_parent(&base, "/d/m", &res), 0);
	EXPECT_FALSE(t, res.mount_point);
	ASSERT_EQ(t, path_walk_last(&base, &res), 0);
	EXPECT_EQ(t, res.at.inode, mt->root);
	EXPECT_TRUE(t, res.mount_point);
	walk_result_put(&res);
	EXPECT_EQ(t, unmount_made(mt, false), 0);
	EXPECT_EQ(t, shim_allocs_live(), live);
}

static void writers_and_read_only_exclude_each_other(struct ktest *t)
{
	struct mount *mt;

	setup(t);
	ASSERT_EQ(t, mount_made("/dev", "x", &mt), 0);
	EXPECT_EQ(t, mount_writable(mt, mt->root), 0);
	EXPECT_EQ(t, mount_write_begin(mt), 0);
	EXPECT_EQ(t, made.nr_writers, 1u);
	mount_write_end(mt);
	mt->flags |= MOUNT_RDONLY;
	EXPECT_EQ(t, mount_writable(mt, mt->root), -EROFS);
	EXPECT_EQ(t, mount_writable(NULL, mt->root), 0);
	EXPECT_EQ(t, mount_write_begin(mt), -EROFS);
	mt->flags = 0;
	made.ro_now = true;
	EXPECT_EQ(t, mount_write_begin(mt), -EROFS);
	made.ro_now = false;
	EXPECT_EQ(t, made.nr_writers + mt->writers, 0u);
	EXPECT_EQ(t, unmount_made(mt, false), 0);
}

/* --- a list that goes while it is asked ---------------------------------------------------- */

/* After its list has been asked for, the file is so. */
struct step {
	bool acl;
	uint32_t mode;
};

static struct {
	struct file_attr attr;
	const struct step *steps;
	size_t nr, at;
} listed;

static int listed_getattr(struct inode *inode, struct file_attr *attr)
{
	*attr = listed.attr;
	return 0;
}

static ssize_t listed_getxattr(struct inode *inode, const char *name, void *buf, size_t size)
{
	const struct step *s = &listed.steps[listed.at++ % listed.nr];

	listed.attr.acl = s->acl;
	listed.attr.mode = S_IFREG | s->mode;
	listed.attr.ctime.nsec++;
	return -ENODATA;
}

/* As a member of the group of a file that was of 0770 and had a list. */
static int asked(const struct step *steps, size_t nr, uint32_t access)
{
	static const struct inode_ops ops = { .getattr = listed_getattr,
					      .getxattr = listed_getxattr };
	static const struct fs_type type = { .name = "listed" };
	static const struct fs_cred cred = { .uid = 1000, .gid = 50 };
	struct inode inode = { .ops = &ops, .type = &type, .mode = S_IFREG };
	const struct file_attr was = { .mode = S_IFREG | 0770, .uid = 1, .gid = 50, .acl = true };

	listed.attr = was;
	listed.steps = steps;
	listed.nr = nr;
	listed.at = 0;
	return attr_access(&cred, &inode, &was, access);
}

static void a_mask_is_nobodys_right(struct ktest *t)
{
	static const struct step gone[] = { { false, 0740 } };
	static const struct step other[] = { { true, 0740 } };
	static const struct step default_only[] = { { true, 0770 } };
	static const struct step for_ever[] = { { true, 0770 }, { true, 0760 } };

	EXPECT_EQ(t, asked(gone, 1, FS_MAY_READ), 0);
	EXPECT_EQ(t, asked(gone, 1, FS_MAY_WRITE), -EACCES);
	EXPECT_EQ(t, asked(other, 1, FS_MAY_READ), 0);
	EXPECT_EQ(t, asked(other, 1, FS_MAY_WRITE), -EACCES);
	EXPECT_EQ(t, asked(default_only, 1, FS_MAY_WRITE), 0);
	EXPECT_EQ(t, asked(for_ever, 2, FS_MAY_READ), -EACCES);
}

static const struct ktest_case vfs_cases[] = {
	KTEST(a_covered_name_that_fails_is_left_out),
	KTEST(names_of_attributes_have_an_end),
	KTEST(the_directory_of_a_missing_name_is_a_directory),
	KTEST(a_file_keeps_its_type),
	KTEST(only_mount_points_that_were_offered_are_crossed),
	KTEST(no_answer_makes_a_walk_endless),
	KTEST(a_path_may_cross_often),
	KTEST(mounts_come_and_go),
	KTEST(mount_points_of_a_storage_node_have_an_end),
	KTEST(a_mounted_root_is_not_its_parents),
	KTEST(writers_and_read_only_exclude_each_other),
	KTEST(a_mask_is_nobodys_right),
	{ 0 },
};
static const struct ktest_suite vfs_suite = { .name = "vfs.hostile", .cases = vfs_cases };
KTEST_SUITE(vfs_suite);
