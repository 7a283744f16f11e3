/* SPDX-License-Identifier: MIT */
/*
 * Locks of a file: what a request changes. See <fs/lock.h>.
 *
 * Locking:	the caller's.
 */
#include <fs/lock.h>

#include <lib/errno.h>

static void remove(struct lock_tree *tree, struct file_lock *l)
{
	lock_erase(tree, l);
	tree->mem->lock_free(l);
}

/*
 * Cut @req's range out of @l, which overlaps it; what is left behind the range goes into *@rest,
 * which is used then.
 */
static void cut(struct lock_tree *tree, struct file_lock *l, const struct lock_req *req,
		struct file_lock **rest)
{
	const int64_t end = l->end;

	if (end > req->end && l->start < req->start) {
		(*rest)->type = l->type;
		(*rest)->pid = l->pid;
		(*rest)->start = req->end + 1;
		(*rest)->end = end;
		lock_move(tree, l, l->start, req->start - 1);
		lock_insert(tree, l->owner, *rest);
		*rest = NULL;
	} else if (l->start < req->start) {
		lock_move(tree, l, l->start, req->start - 1);
	} else if (end > req->end) {
		lock_move(tree, l, req->end + 1, end);
	} else {
		remove(tree, l);
	}
}

/*
 * Take what @o has in @req's range away. Locks of @req's type that overlap the range or touch it
 * go whole, and [*@start, *@end] grows by them.
 */
static void clear(struct lock_tree *tree, struct lock_owner *o, const struct lock_req *req,
		  struct file_lock **rest, int64_t *start, int64_t *end)
{
	const int64_t last = req->end == INT64_MAX ? INT64_MAX : req->end + 1;
	struct file_lock *l, *next;

	for (l = lock_owner_from(o, req->start ? req->start - 1 : 0); l && l->start <= last;
	     l = next) {
		next = lock_owner_next(l);
		if (l->type == req->type) {
			*start = MIN(*start, l->start);
			*end = MAX(*end, l->end);
			remove(tree, l);
		} else if (l->start <= req->end && req->start <= l->end) {
			cut(tree, l, req, rest);
		}
	}
}

static void free_unused(const struct lock_mem *mem, struct file_lock *l)
{
	if (l)
		mem->lock_free(l);
}

/* Does @req leave two parts of one lock of @o? */
static bool splits(const struct lock_owner *o, const struct lock_req *req)
{
	const struct file_lock *l = lock_owner_from(o, req->start);

	return l && l->type != req->type && l->start < req->start && l->end > req->end;
}

/* Nothing is in the way. All or nothing. */
int lock_set(struct lock_tree *tree, const struct lock_req *req)
{
	struct lock_owner *o = lock_owner_find(tree, req->kind, req->owner), *fresh = NULL;
	const struct lock_mem *mem = tree->mem;
	struct file_lock *new = NULL, *rest = NULL;
	int64_t start = req->start, end = req->end;
	const bool split = o && splits(o, req);

	if (!o && req->type == LOCK_NONE)
		return 0;
	if (!o)
		fresh = mem->owner_alloc(req);
	else if (split)
		rest = mem->lock_alloc(req);
	if (req->type != LOCK_NONE)
		new = mem->lock_alloc(req);
	/* Unlocking needs memory only in the middle of a lock. */
	if ((req->type != LOCK_NONE && !new) || (!o && !fresh) || (split && !rest)) {
		if (fresh)
			mem->owner_free(fresh, req->owner);
		free_unused(mem, new);
		free_unused(mem, rest);
		return -ENOLCK;
	}
	if (fresh) {
		fresh->kind = req->kind;
		fresh->who = req->owner;
		lock_owner_add(tree, fresh);
		o = fresh;
	}
	clear(tree, o, req, &rest, &start, &end);
	if (new) {
		new->type = (uint8_t)req->type;
		new->pid = req->pid;
		new->start = start;
		new->end = end;
		lock_insert(tree, o, new);
	}
	lock_owner_free_empty(tree, o);
	free_unused(mem, rest);
	return 0;
}

bool lock_drop(struct lock_tree *tree, enum lock_kind kind, const void *who)
{
	struct lock_owner *o = lock_owner_find(tree, kind, who);
	struct file_lock *l;

	if (!o)
		return false;
	while ((l = lock_owner_from(o, 0)))
		remove(tree, l);
	lock_owner_free_empty(tree, o);
	return true;
}

enum lock_convert lock_give_up(struct lock_tree *tree, const struct lock_req *req)
{
	const struct lock_owner *o = lock_owner_find(tree, LOCK_FLOCK, req->owner);

	if (!o)
		return LOCK_CONVERT_NONE;
	if (lock_owner_from(o, 0)->type == req->type)
		return LOCK_CONVERT_SAME;
	lock_drop(tree, LOCK_FLOCK, req->owner);
	return LOCK_CONVERT_GIVEN;
}
