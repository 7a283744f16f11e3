/* SPDX-License-Identifier: MIT */
/*
 * Root, working directory and umask of a process.
 */
#include <fs/access.h>
#include <kernel/panic.h>
#include <lib/err.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <processor/account/account.h>
#include <processor/process/process.h>

#include "mount_private.h"

static struct fs_state *alloc_state(uint32_t umask, struct mounts *mounts)
{
	struct fs_state *fs = kmem_alloc(kmem_current(), sizeof(*fs));

	if (!fs)
		return NULL;
	refcount_set(&fs->refs, 1);
	fs->nr_tasks = 1;
	mutex_init(&fs->lock, "fs_state", RANK_PROCESS_FS);
	fs->mounts = mounts;
	mounts_hold(mounts);
	fs->umask = umask & 0777;
	return fs;
}

/* At "/" of @mounts. */
static struct fs_state *state_at_root(uint32_t umask, struct mounts *mounts)
{
	struct fs_state *fs = alloc_state(umask, mounts);

	if (!fs)
		return ERR_PTR(-ENOMEM);
	lock_not_needed(&fs->lock, "no other task has it yet");
	mounts_root_path(mounts, &fs->cwd);
	fs->cwd.text = kstrdup("/");
	if (!fs->cwd.text) {
		path_put(&fs->cwd);
		mounts_put(mounts);
		kmem_free(fs);
		return ERR_PTR(-ENOMEM);
	}
	return fs;
}

struct fs_state *fs_state_create(uint32_t umask)
{
	struct mounts *mounts = mounts_get();

	return IS_ERR(mounts) ? ERR_PTR(PTR_ERR(mounts)) : state_at_root(umask, mounts);
}

struct fs_state *fs_state_enter(struct fs_state *from, struct mounts *m)
{
	return state_at_root(fs_state_umask(from), m);
}

struct fs_state *fs_state_copy(struct fs_state *from)
{
	struct fs_state *fs = alloc_state(fs_state_umask(from), from->mounts);

	if (!fs)
		return ERR_PTR(-ENOMEM);
	lock_not_needed(&fs->lock, "no other task has it yet");
	if (!fs_state_root(from, &fs->root) && !fs_state_cwd(from, &fs->cwd))
		return fs;
	path_put(&fs->root);
	mounts_put(fs->mounts);
	kmem_free(fs);
	return ERR_PTR(-ENOMEM);
}

struct fs_state *fs_state_copy_mounts(struct fs_state *from)
{
	struct fs_state *fs = fs_state_copy(from);
	struct mounts *own, *shared;
	LIST_HEAD(gone);

	if (IS_ERR(fs))
		return fs;
	lock_not_needed(&fs->lock, "no other task has it yet");
	shared = fs->mounts;
	mutex_lock(&mount_change);
	own = mounts_copy(shared, &fs->cwd, &fs->root, &gone);
	mutex_unlock(&mount_change);
	mounts_put_gone(&gone);
	if (IS_ERR(own)) {
		fs_state_put(fs);
		return ERR_PTR(PTR_ERR(own));
	}
	fs->mounts = own;
	mounts_put(shared);
	return fs;
}

void fs_state_put(struct fs_state *fs)
{
	if (!refcount_dec_and_test(&fs->refs))
		return;
	lock_not_needed(&fs->lock, "the last reference has gone");
	path_put(&fs->cwd);
	path_put(&fs->root);
	mounts_put(fs->mounts);
	kmem_free(fs);
}

void fs_state_join(struct fs_state *fs)
{
	__atomic_add_fetch(&fs->nr_tasks, 1, __ATOMIC_RELAXED);
	fs_state_get(fs);
}

void fs_state_leave(struct fs_state *fs)
{
	const uint32_t left = __atomic_sub_fetch(&fs->nr_tasks, 1, __ATOMIC_RELAXED);

	ASSERT(left != UINT32_MAX);
	fs_state_put(fs);
}

bool fs_state_shared(const struct fs_state *fs)
{
	return __atomic_load_n(&fs->nr_tasks, __ATOMIC_RELAXED) > 1;
}

int fs_state_cwd(struct fs_state *fs, struct path *out)
{
	int err;

	*out = (struct path){ 0 };
	mutex_lock(&fs->lock);
	err = path_copy(out, &fs->cwd);
	mutex_unlock(&fs->lock);
	return err;
}

int fs_state_root(struct fs_state *fs, struct path *out)
{
	int err = 0;

	*out = (struct path){ 0 };
	if (fs_state_at_top(fs))
		return 0;
	mutex_lock(&fs->lock);
	if (fs->root.inode)
		err = path_copy(out, &fs->root);
	mutex_unlock(&fs->lock);
	return err;
}

uint32_t fs_state_umask(struct fs_state *fs)
{
	return READ_ONCE(fs->umask);
}

uint32_t fs_state_set_umask(struct fs_state *fs, uint32_t umask)
{
	uint32_t old;

	mutex_lock(&fs->lock);
	old = fs->umask;
	WRITE_ONCE(fs->umask, umask & 0777);
	mutex_unlock(&fs->lock);
	return old;
}

void fs_state_set_cwd(struct fs_state *fs, struct path *to)
{
	struct path old;

	ASSERT(to->inode && to->text && (to->attr.mode & S_IFMT) == S_IFDIR);
	mutex_lock(&fs->lock);
	old = fs->cwd;
	fs->cwd = *to;
	mutex_unlock(&fs->lock);
	*to = (struct path){ 0 };
	path_put(&old);
}

void fs_state_set_root(struct fs_state *fs, struct path *to)
{
	struct path old, top;
	bool is_top;

	ASSERT(to->inode && to->text && (to->attr.mode & S_IFMT) == S_IFDIR);
	mounts_root_path(fs->mounts, &top);
	is_top = to->inode == top.inode && to->mnt == top.mnt;
	path_put(&top);
	mutex_lock(&fs->lock);
	old = fs->root;
	/* Back to that of the mounts, whose walks ask less. */
	if (is_top) {
		fs->root = (struct path){ 0 };
		path_put(to);
	} else {
		fs->root = *to;
	}
	mutex_unlock(&fs->lock);
	*to = (struct path){ 0 };
	path_put(&old);
}

int fs_state_walk_from(struct fs_state *fs, const struct fs_cred *cred, const struct path *dir,
		       const char *text, uint32_t flags, uint32_t access, struct walk_result *res)
{
	struct walk_base base = { .cred = cred, .mounts = fs->mounts, .dir = dir };
	struct path root;
	int err = fs_state_root(fs, &root);

	if (err)
		return err;
	base.root = root.inode ? &root : NULL;
	err = path_walk(&base, text, flags, access, res);
	path_put(&root);
	return err;
}

int fs_state_walk(struct fs_state *fs, const struct fs_cred *cred, const char *text, uint32_t flags,
		  uint32_t access, struct walk_result *res)
{
	struct path cwd;
	int err = fs_state_cwd(fs, &cwd);

	if (err)
		return err;
	err = fs_state_walk_from(fs, cred, &cwd, text, flags, access, res);
	path_put(&cwd);
	return err;
}

int fs_state_chdir(struct fs_state *fs, const struct fs_cred *cred, const char *text)
{
	struct walk_result res;
	int err = fs_state_walk(fs, cred, text, WALK_DIRECTORY, FS_MAY_EXEC, &res);

	if (err)
		return err;
	fs_state_set_cwd(fs, &res.at);
	walk_result_put(&res);
	return 0;
}
