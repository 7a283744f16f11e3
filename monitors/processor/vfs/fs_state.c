/* SPDX-License-Identifier: MIT */
/*
 * Root, working directory and umask of a process.
 *
 * Locking:	fs_state.lock, as path.h says; users_lock for the lists of those in a namespace.
 *		pivot_change keeps pivot_root() apart from those that leave one list for another,
 *		and from copies of what it changes.
 */
#include <fs/access.h>
#include <kernel/panic.h>
#include <lib/err.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <processor/account/account.h>
#include <processor/process/process.h>

#include "mount_private.h"

struct mutex pivot_change = MUTEX_INIT(pivot_change, "pivot_root", RANK_PROCESS);
static struct fs_state *followed; /* pivot_change: seen by pivot_root(), yet to be put */
static struct spinlock users_lock = SPINLOCK_INIT("mounts.users", RANK_SPIN_MONITOR);

/* @fs belongs to its namespace, which has it among its users. */
static void join_mounts(struct fs_state *fs)
{
	spin_lock(&users_lock);
	list_add_tail(&fs->user, &fs->mounts->users);
	spin_unlock(&users_lock);
}

static void leave_mounts(struct fs_state *fs)
{
	spin_lock(&users_lock);
	list_del(&fs->user);
	spin_unlock(&users_lock);
}

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
	join_mounts(fs);
	return fs;
}

/* Has pivot_root() begun or ended since the namespace's turns were @turns? It is waited for. */
static bool has_turned(const struct mounts *m, uint64_t turns)
{
	const uint64_t now = __atomic_load_n(&m->turns, __ATOMIC_SEQ_CST);

	if (now == turns && !(now & 1))
		return false;
	mutex_lock(&pivot_change);
	mutex_unlock(&pivot_change);
	return true;
}

/* At "/" of @mounts. */
static struct fs_state *state_at_root(uint32_t umask, struct mounts *mounts)
{
	struct fs_state *fs = alloc_state(umask, mounts);
	struct path cwd;
	uint64_t turns;

	if (!fs)
		return ERR_PTR(-ENOMEM);
	/* As fs_state_copy(): fs_states_follow() sees it by now. */
	do {
		turns = __atomic_load_n(&mounts->turns, __ATOMIC_SEQ_CST);
		mounts_root_path(mounts, &cwd);
		cwd.text = kstrdup("/");
		if (!cwd.text) {
			path_put(&cwd);
			fs_state_put(fs);
			return ERR_PTR(-ENOMEM);
		}
		fs_state_set_cwd(fs, &cwd);
	} while (has_turned(mounts, turns));
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
	struct path root, cwd;
	uint64_t turns;
	int err;

	if (!fs)
		return ERR_PTR(-ENOMEM);
	/* fs_states_follow() may have changed there meanwhile what it has not seen here. */
	do {
		turns = __atomic_load_n(&from->mounts->turns, __ATOMIC_SEQ_CST);
		err = fs_state_root(from, &root);
		if (!err)
			err = fs_state_cwd(from, &cwd);
		if (err) {
			path_put(&root);
			fs_state_put(fs);
			return ERR_PTR(err);
		}
		if (root.inode)
			fs_state_set_root(fs, &root);
		fs_state_set_cwd(fs, &cwd);
	} while (has_turned(from->mounts, turns));
	return fs;
}

static bool is_place(const struct path *p, const struct mount *mt)
{
	return p->mnt == mt && p->inode == mt->root;
}

/*
 * @p was the root of @from. Its text is that of both. Nothing is put for the last time: @from has
 * its namespace.
 */
static void go_along(struct path *p, struct mount *to)
{
	inode_get(to->root);
	mount_get(to);
	inode_put(p->inode);
	mount_put(p->mnt);
	p->inode = to->root;
	p->mnt = to;
}

/* Put later what may be the last reference of @fs; one is enough for several pivot_root(). */
static void put_later(struct fs_state *fs)
{
	assert_mutex_held(&pivot_change);
	if (fs->is_followed) {
		fs_state_put(fs); /* not the last one */
		return;
	}
	fs->is_followed = true;
	fs->next = followed;
	followed = fs;
}

void fs_states_put_followed(void)
{
	for (;;) {
		struct fs_state *fs;

		mutex_lock(&pivot_change);
		fs = followed;
		if (fs) {
			followed = fs->next;
			fs->is_followed = false;
		}
		mutex_unlock(&pivot_change);
		if (!fs)
			return;
		fs_state_put(fs);
	}
}

void fs_states_follow(struct mounts *m, const struct mount *from, struct mount *to)
{
	struct list_head *at = &m->users;

	assert_mutex_held(&pivot_change);
	for (;;) {
		struct fs_state *fs = NULL;

		spin_lock(&users_lock);
		while ((at = at->next) != &m->users) {
			fs = container_of(at, struct fs_state, user);
			if (refcount_inc_not_zero(&fs->refs))
				break;
		}
		spin_unlock(&users_lock);
		if (at == &m->users)
			return;
		put_later(fs);
		mutex_lock(&fs->lock);
		if (is_place(&fs->root, from))
			go_along(&fs->root, to);
		if (is_place(&fs->cwd, from))
			go_along(&fs->cwd, to);
		mutex_unlock(&fs->lock);
	}
}

struct fs_state *fs_state_copy_mounts(struct fs_state *from, struct user_ns *owner)
{
	struct fs_state *fs = fs_state_copy(from);
	struct mounts *own, *shared;
	LIST_HEAD(gone);

	if (IS_ERR(fs))
		return fs;
	lock_not_needed(&fs->lock, "no other task has it yet");
	shared = fs->mounts;
	mutex_lock(&pivot_change);
	mutex_lock(&mount_change);
	own = mounts_copy(shared, owner, &fs->cwd, &fs->root, &gone);
	mutex_unlock(&mount_change);
	if (!IS_ERR(own)) {
		leave_mounts(fs);
		fs->mounts = own;
		join_mounts(fs);
	}
	mutex_unlock(&pivot_change);
	mounts_put_gone(&gone);
	if (IS_ERR(own)) {
		fs_state_put(fs);
		return ERR_PTR(PTR_ERR(own));
	}
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
	leave_mounts(fs);
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
