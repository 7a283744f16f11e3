/* SPDX-License-Identifier: MIT */
/*
 * System V IPC: keys, ids and permissions. See sysv_private.h.
 */
#include "sysv.h"

#include <kernel/panic.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <processor/account/account.h>
#include <processor/ns/user_ns.h>
#include <processor/process/process.h>

#include "ipc_ns.h"
#include "sysv_private.h"

#define SEQ_MAX (INT32_MAX / SYSV_IDS_MAX) /* so that an id is not negative */

int64_t sysv_now(void)
{
	return (int64_t)(time_real_ns() / 1000000000u);
}

int32_t sysv_pid(void)
{
	const struct task *t = task_current();

	return t ? (int32_t)t->process->pid : 0;
}

/* --- permissions ----------------------------------------------------------------------------- */

static bool in_group(const struct cred *c, uint32_t gid)
{
	if (c->egid == gid)
		return true;
	for (uint32_t i = 0; i < c->nr_groups; i++) {
		if (c->groups[i] == gid)
			return true;
	}
	return false;
}

/* Each of the three parts of @mode asks for the same: what they ask for is one set of bits. */
static bool allowed_locked(const struct sysv_kind *kind, const struct sysv *obj, uint32_t mode)
	__must_hold(&kind->lock)
{
	const struct cred *c = cred_current();
	const uint32_t wanted = (mode >> 6 | mode >> 3 | mode) & 7;
	uint32_t granted = obj->mode;

	assert_spin_held(&kind->lock);
	if (c->euid == obj->cuid || c->euid == obj->uid)
		granted >>= 6;
	else if (in_group(c, obj->cgid) || in_group(c, obj->gid))
		granted >>= 3;
	return !(wanted & ~granted & 7) || ns_capable(kind->ns->ns.owner, CAP_IPC_OWNER);
}

bool sysv_allowed(struct sysv *obj, uint32_t mode)
{
	struct sysv_kind *kind = obj->kind;
	bool ok;

	spin_lock(&kind->lock);
	ok = allowed_locked(kind, obj, mode);
	spin_unlock(&kind->lock);
	return ok;
}

int sysv_check_owner(struct sysv *obj)
{
	const struct cred *c = cred_current();
	bool ok;

	spin_lock(&obj->kind->lock);
	ok = c->euid == obj->cuid || c->euid == obj->uid;
	spin_unlock(&obj->kind->lock);
	return ok || ns_capable(obj->kind->ns->ns.owner, CAP_SYS_ADMIN) ? 0 : -EPERM;
}

int sysv_set(struct sysv *obj, const struct linux_ipc64_perm *perm)
{
	const uint32_t uid = uid_in(perm->uid), gid = gid_in(perm->gid);
	const int err = sysv_check_owner(obj);

	if (err)
		return err;
	if (uid == ID_NONE || gid == ID_NONE)
		return -EINVAL;
	spin_lock(&obj->kind->lock);
	obj->uid = uid;
	obj->gid = gid;
	obj->mode = (obj->mode & ~0777u) | (perm->mode & 0777u);
	obj->ctime = sysv_now();
	spin_unlock(&obj->kind->lock);
	return 0;
}

/* --- the tables ------------------------------------------------------------------------------ */

static int cmp_keys(const struct rb_node *a, const struct rb_node *b)
{
	const struct sysv *x = rb_entry(a, struct sysv, by_key);
	const struct sysv *y = rb_entry(b, struct sysv, by_key);

	return x->key < y->key ? -1 : x->key > y->key;
}

static struct sysv *find_key_locked(struct sysv_kind *kind, int32_t key) __must_hold(&kind->lock)
{
	struct rb_node *n;

	assert_spin_held(&kind->lock);
	n = kind->keys.node;
	while (n) {
		struct sysv *obj = rb_entry(n, struct sysv, by_key);

		if (obj->key == key)
			return obj;
		n = key < obj->key ? n->left : n->right;
	}
	return NULL;
}

static long id_of(const struct sysv *obj)
{
	return (long)obj->seq * SYSV_IDS_MAX + obj->index;
}

/*
 * The lowest place that is free; the round changes when that is not behind the last one. Or as
 * kind->next says.
 */
static int take_place_locked(struct sysv_kind *kind, struct sysv *obj) __must_hold(&kind->lock)
{
	const int32_t next = __atomic_exchange_n(kind->next, -1, __ATOMIC_RELAXED);
	int err, place;

	assert_spin_held(&kind->lock);
	place = ida_alloc_range(&kind->places, next < 0 ? 0 : (uint32_t)next % SYSV_IDS_MAX,
				SYSV_IDS_MAX - 1);
	if (place < 0)
		return place;
	err = radix_insert(&kind->table, (uint32_t)place, obj);
	if (err) {
		(void)ida_free(&kind->places, place);
		return err;
	}
	if (next < 0) {
		if ((uint32_t)place < kind->behind && ++kind->seq > SEQ_MAX)
			kind->seq = 0;
		kind->behind = (uint32_t)place + 1;
	}
	kind->nr++;
	obj->index = (uint32_t)place;
	obj->seq = next < 0 ? kind->seq : (uint32_t)next / SYSV_IDS_MAX;
	return 0;
}

/* The namespace that it was made in may have ended before: its memory stays until here. */
static void free_object(struct sysv *obj)
{
	struct sysv_kind *kind = obj->kind;

	kind->ops->free(obj);
	ipc_ns_release(kind->ns);
}

/* @obj, which nobody knows, is in the tables, which have its reference. */
static long publish(struct sysv_kind *kind, struct sysv *obj, int32_t key, int flags)
{
	const struct cred *c = cred_current();
	long ret;

	refcount_set(&obj->refs, 1);
	obj->kind = kind;
	ipc_ns_hold(kind->ns);
	spin_lock(&kind->lock);
	obj->key = key;
	obj->uid = obj->cuid = c->euid;
	obj->gid = obj->cgid = c->egid;
	obj->mode = (uint32_t)flags & 0777;
	obj->ctime = sysv_now();
	ret = take_place_locked(kind, obj);
	if (!ret && key != IPC_PRIVATE) {
		struct rb_node *there = rb_insert(&obj->by_key, &kind->keys, cmp_keys);

		ASSERT(!there);
	}
	if (!ret)
		ret = id_of(obj);
	spin_unlock(&kind->lock);
	if (ret < 0)
		free_object(obj);
	return ret;
}

static long get_new(struct sysv_kind *kind, int32_t key, int flags, const void *arg)
{
	struct sysv *obj;
	uint32_t nr;

	spin_lock(&kind->lock);
	nr = kind->nr;
	spin_unlock(&kind->lock);
	if (nr >= READ_ONCE(*kind->max))
		return -ENOSPC;
	obj = kind->ops->make(arg);
	return IS_ERR(obj) ? PTR_ERR(obj) : publish(kind, obj, key, flags);
}

/* The object of @key, as the call with @flags may have it: its id; -ENOENT there is none. */
static long get_there(struct sysv_kind *kind, int32_t key, int flags, const void *arg)
{
	struct sysv *obj;
	long ret;

	spin_lock(&kind->lock);
	obj = find_key_locked(kind, key);
	if (!obj)
		ret = -ENOENT;
	else if ((flags & IPC_CREAT) && (flags & IPC_EXCL))
		ret = -EEXIST;
	else
		ret = kind->ops->fits(obj, arg);
	if (!ret)
		ret = allowed_locked(kind, obj, (uint32_t)flags) ? id_of(obj) : -EACCES;
	spin_unlock(&kind->lock);
	return ret;
}

long sysv_get(struct sysv_kind *kind, int32_t key, int flags, const void *arg)
{
	long ret = mutex_lock_killable(&kind->names);

	if (ret)
		return ret;
	ret = key == IPC_PRIVATE ? -ENOENT : get_there(kind, key, flags, arg);
	if (ret == -ENOENT && (key == IPC_PRIVATE || (flags & IPC_CREAT)))
		ret = get_new(kind, key, flags, arg);
	mutex_unlock(&kind->names);
	return ret;
}

struct sysv *sysv_find(struct sysv_kind *kind, int id, uint32_t mode)
{
	struct sysv *obj;

	if (id < 0)
		return ERR_PTR(-EINVAL);
	spin_lock(&kind->lock);
	obj = radix_lookup(&kind->table, (uint32_t)id % SYSV_IDS_MAX);
	if (!obj || id_of(obj) != id)
		obj = ERR_PTR(-EINVAL);
	else if (mode && !allowed_locked(kind, obj, mode))
		obj = ERR_PTR(-EACCES);
	else
		refcount_inc(&obj->refs);
	spin_unlock(&kind->lock);
	return obj;
}

struct sysv *sysv_find_index(struct sysv_kind *kind, int index, uint32_t mode, int *id)
{
	struct sysv *obj;

	if (index < 0)
		return ERR_PTR(-EINVAL);
	spin_lock(&kind->lock);
	obj = radix_lookup(&kind->table, (uint32_t)index % SYSV_IDS_MAX);
	if (!obj)
		obj = ERR_PTR(-EINVAL);
	else if (mode && !allowed_locked(kind, obj, mode))
		obj = ERR_PTR(-EACCES);
	else
		refcount_inc(&obj->refs);
	if (!IS_ERR(obj))
		*id = (int)id_of(obj);
	spin_unlock(&kind->lock);
	return obj;
}

struct sysv *sysv_next(struct sysv_kind *kind, uint32_t *index)
{
	uint64_t at = *index;
	struct sysv *obj;

	spin_lock(&kind->lock);
	obj = radix_next(&kind->table, &at);
	if (obj)
		refcount_inc(&obj->refs);
	spin_unlock(&kind->lock);
	*index = (uint32_t)at;
	return obj;
}

void sysv_put(struct sysv *obj)
{
	if (refcount_dec_and_test(&obj->refs))
		free_object(obj);
}

void sysv_hide_locked(struct sysv *obj)
{
	assert_spin_held(&obj->kind->lock);
	if (obj->key != IPC_PRIVATE)
		rb_erase(&obj->by_key, &obj->kind->keys);
	obj->key = IPC_PRIVATE;
}

bool sysv_remove(struct sysv *obj)
{
	struct sysv_kind *kind = obj->kind;
	bool mine;

	spin_lock(&kind->lock);
	mine = !obj->removed;
	if (mine) {
		sysv_hide_locked(obj);
		(void)radix_remove(&kind->table, obj->index);
		(void)ida_free(&kind->places, (int)obj->index);
		kind->nr--;
		WRITE_ONCE(obj->removed, true);
	}
	spin_unlock(&kind->lock);
	if (mine)
		sysv_put(obj); /* the table's */
	return mine;
}

void sysv_fill(struct sysv *obj, struct linux_ipc64_perm *perm, int64_t *ctime)
{
	spin_lock(&obj->kind->lock);
	*perm = (struct linux_ipc64_perm){
		.key = obj->key,
		.uid = uid_out(obj->uid),
		.gid = gid_out(obj->gid),
		.cuid = uid_out(obj->cuid),
		.cgid = gid_out(obj->cgid),
		.mode = obj->mode,
		.seq = (uint16_t)obj->seq,
	};
	*ctime = obj->ctime;
	spin_unlock(&obj->kind->lock);
}

void sysv_end(struct sysv_kind *kind)
{
	struct sysv *obj;

	for (uint32_t at = 0; (obj = sysv_next(kind, &at)); at++) {
		kind->ops->remove(obj);
		sysv_put(obj);
	}
}

void sysv_count(struct sysv_kind *kind, int *nr, int *highest)
{
	uint64_t at = 0;

	void *there;

	*highest = 0;
	do { /* not all with one hold of the lock: there may be many */
		spin_lock(&kind->lock);
		*nr = (int)kind->nr;
		there = radix_next(&kind->table, &at);
		spin_unlock(&kind->lock);
		if (there)
			*highest = (int)at++;
	} while (there);
}
