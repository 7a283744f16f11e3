/* SPDX-License-Identifier: MIT */
/*
 * ext4: rename in all its cases.
 *
 * Locking:	fs->change keeps the tree as it is, so that "is this directory below that one?" can
 *		be answered by following ".." before the inodes' locks are taken.
 */
#include <abi/fcntl.h>
#include <kernel/mutex.h>
#include <kernel/panic.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/string.h>

#include "ext4_write.h"

/* One rename under way. */
struct rename {
	struct ext4_op op;
	struct ext4_inode *from, *to; /* directories */
	const char *name, *to_name;
	size_t len, to_len;
	uint32_t flags;
	struct ext4_inode *in;       /* what is renamed, held */
	struct ext4_inode *target;   /* what had the new name, held, or NULL */
	struct ext4_inode *whiteout; /* the device that takes the old name, or NULL */
	struct ext4_place old_place; /* of the name, and of the new one; to be put */
	struct ext4_place new_place;
};

/* Is @dir the directory @in or below it?  Follows ".."; the tree's depth is bounded by inodes. */
static int is_below(struct ext4_inode *dir, const struct ext4_inode *in)
{
	struct ext4_fs *fs = dir->fs;
	uint32_t ino = dir->ino;

	for (uint32_t steps = 0; steps < fs->nr_inodes; steps++) {
		struct ext4_inode *up;
		uint32_t parent;
		int err;

		if (ino == in->ino)
			return 1;
		if (ino == EXT4_ROOT_INO)
			return 0;
		up = ext4_inode_get(fs, ino, FS_ANY_GEN);
		if (IS_ERR(up))
			return (int)PTR_ERR(up);
		/* A writer of this directory would hold fs->change, which is ours. */
		err = ext4_dir_find(up, "..", 2, &parent);
		ext4_inode_put(up);
		if (err)
			return err;
		ino = parent;
	}
	return ext4_corrupt(fs, "directory %u: \"..\" never comes to the root", dir->ino);
}

static int check_kinds(const struct rename *r)
{
	const bool exchange = r->flags & RENAME_EXCHANGE;

	if (!r->target)
		return exchange ? -ENOENT : 0;
	if (r->flags & RENAME_NOREPLACE)
		return -EEXIST;
	if (exchange)
		return 0;
	if (ext4_is_dir(r->in) && !ext4_is_dir(r->target))
		return -ENOTDIR;
	if (!ext4_is_dir(r->in) && ext4_is_dir(r->target))
		return -EISDIR;
	if (ext4_is_dir(r->target)) {
		const int empty = ext4_dir_is_empty(r->target);

		return empty < 0 ? empty : empty ? 0 : -ENOTEMPTY;
	}
	return 0;
}

/* Do the names still lead where they led when their inodes were held? */
static int check_names(struct rename *r)
{
	const struct fs_change *ch = r->op.ch;
	int err;

	err = ext4_dir_check(r->from);
	if (!err)
		err = ext4_dir_check(r->to);
	if (!err)
		err = ext4_dir_search(r->from, r->name, r->len, ch ? ch->place : NULL, false,
				      &r->old_place);
	if (err)
		return err;
	if (r->old_place.ino != r->in->ino || r->in->gone)
		return -EAGAIN;
	err = ext4_dir_search(r->to, r->to_name, r->to_len, ch ? ch->to_place : NULL, true,
			      &r->new_place);
	if (err && err != -ENOENT)
		return err;
	if (err ? r->target != NULL
		: !r->target || r->target->ino != r->new_place.ino || r->target->gone)
		return -EAGAIN;
	return check_kinds(r);
}

static int check_moves(struct rename *r)
{
	int err = 0;

	if (r->from == r->to)
		return 0;
	if (ext4_is_dir(r->in)) {
		err = is_below(r->to, r->in);
		if (err)
			return err < 0 ? err : -EINVAL;
		if (!r->target || !ext4_is_dir(r->target))
			err = ext4_link_room(r->to);
	}
	if (!err && r->target && ext4_is_dir(r->target)) {
		err = is_below(r->from, r->target);
		if (err)
			return err < 0 ? err : r->flags & RENAME_EXCHANGE ? -EINVAL : -ENOTEMPTY;
		if ((r->flags & RENAME_EXCHANGE) && !ext4_is_dir(r->in))
			err = ext4_link_room(r->from);
	}
	return err;
}

/* @in, a directory, has a new parent. */
static int reparent(struct rename *r, struct ext4_inode *in, struct ext4_inode *old,
		    struct ext4_inode *new)
{
	int err;

	if (!ext4_is_dir(in) || old == new)
		return 0;
	err = ext4_dir_set(&r->op, in, "..", 2, new->ino, S_IFDIR, NULL);
	ext4_dir_unlink(old);
	ext4_dir_link(new);
	return err;
}

static int write_inodes(struct rename *r)
{
	int err;

	ext4_inode_touch(&r->op, r->from, true);
	ext4_inode_touch(&r->op, r->to, true);
	ext4_inode_touch(&r->op, r->in, false);
	err = ext4_inode_write(&r->op, r->in);
	if (!err)
		err = ext4_inode_write(&r->op, r->from);
	if (!err && r->from != r->to)
		err = ext4_inode_write(&r->op, r->to);
	return err;
}

static int exchange(struct rename *r)
{
	struct ext4_op *op = &r->op;
	int err;

	err = ext4_dir_set(op, r->to, r->to_name, r->to_len, r->in->ino, r->in->mode,
			   &r->new_place);
	if (!err)
		err = ext4_dir_set(op, r->from, r->name, r->len, r->target->ino, r->target->mode,
				   &r->old_place);
	if (!err)
		err = reparent(r, r->in, r->from, r->to);
	if (!err)
		err = reparent(r, r->target, r->to, r->from);
	if (!err) {
		ext4_inode_touch(op, r->target, false);
		err = ext4_inode_write(op, r->target);
	}
	if (!err)
		err = write_inodes(r);
	return err ? ext4_op_abort(op, err, "exchanging two names") : 0;
}

/* The old name: gone, or a whiteout's. */
static int leave_old(struct rename *r)
{
	if (r->whiteout)
		return ext4_dir_set(&r->op, r->from, r->name, r->len, r->whiteout->ino,
				    r->whiteout->mode, &r->old_place);
	return ext4_dir_remove(&r->op, r->from, r->name, r->len, &r->old_place);
}

static int move(struct rename *r)
{
	struct ext4_op *op = &r->op;
	int err;

	if (r->whiteout) {
		err = ext4_ialloc(op, r->from, S_IFCHR, NULL, r->whiteout);
		if (err)
			return err;
		r->whiteout->nlink = 1;
		err = ext4_inode_write(op, r->whiteout);
		if (err)
			return ext4_op_abort(op, err, "making a whiteout");
	}
	if (r->target)
		err = ext4_dir_set(op, r->to, r->to_name, r->to_len, r->in->ino, r->in->mode,
				   &r->new_place);
	else
		err = ext4_dir_add(op, r->to, r->to_name, r->to_len, r->in->ino, r->in->mode,
				   &r->new_place);
	if (err && r->whiteout && !ext4_aborted(op->fs)) {
		const int free_err = ext4_ifree(op, r->whiteout);

		ext4_inode_forget(r->whiteout);
		return free_err ? free_err : err;
	}
	if (err)
		return err;
	err = leave_old(r);
	if (!err)
		err = reparent(r, r->in, r->from, r->to);
	if (!err && r->target)
		err = ext4_drop_link(op, r->to, r->target);
	if (!err)
		err = write_inodes(r);
	return err ? ext4_op_abort(op, err, "renaming") : 0;
}

static int rename_it(struct rename *r)
{
	int err;

	err = check_names(r);
	if (!err)
		err = check_moves(r);
	if (err)
		return err;
	if (r->target == r->in)
		return 0; /* two names of one file */
	return r->flags & RENAME_EXCHANGE ? exchange(r) : move(r);
}

static int hold_inodes(struct rename *r, const struct fs_change *ch)
{
	r->in = ext4_lookup_get(r->from, r->name, r->len, ch ? ch->place : NULL, NULL);
	if (IS_ERR(r->in))
		return (int)PTR_ERR(r->in);
	r->target = ext4_lookup_get(r->to, r->to_name, r->to_len, ch ? ch->to_place : NULL, NULL);
	if (IS_ERR(r->target)) {
		const int err = (int)PTR_ERR(r->target);

		r->target = NULL;
		if (err != -ENOENT)
			return err;
	}
	if (r->flags & RENAME_WHITEOUT) {
		r->whiteout = ext4_inode_new(r->from->fs);
		if (!r->whiteout)
			return -ENOMEM;
	}
	return 0;
}

static void put_inodes(struct rename *r)
{
	if (r->whiteout) {
		if (!r->whiteout->ino)
			r->whiteout->gone = true;
		ext4_inode_put(r->whiteout);
	}
	if (r->target)
		ext4_inode_put(r->target);
	if (!IS_ERR_OR_NULL(r->in))
		ext4_inode_put(r->in);
	r->whiteout = r->target = r->in = NULL;
}

static int rename_once(struct rename *r, const struct fs_change *ch)
{
	bool unused = false;
	int err;

	err = hold_inodes(r, ch);
	if (!err)
		err = ext4_op_begin(&r->op, r->from->fs, 2 * EXT4_CREDITS_NAMES, ch,
				    (struct ext4_inode *const[]){ r->from, r->to, r->in, r->target,
								  r->whiteout },
				    5);
	if (!err) {
		err = rename_it(r);
		ext4_place_put(&r->old_place);
		ext4_place_put(&r->new_place);
		unused = !err && r->target && r->target->orphan && !r->target->open;
		err = ext4_op_end(&r->op, r->in, err);
	}
	if (unused)
		ext4_evict_unused(r->target);
	put_inodes(r);
	return err;
}

static bool is_dots(const char *name, size_t len)
{
	return (len == 1 && name[0] == '.') || (len == 2 && name[0] == '.' && name[1] == '.');
}

int ext4_rename(struct ext4_inode *from, const char *name, size_t len, struct ext4_inode *to,
		const char *to_name, size_t to_len, uint32_t flags, const struct fs_change *ch)
{
	struct rename r = { .from = from,
			    .to = to,
			    .name = name,
			    .to_name = to_name,
			    .len = len,
			    .to_len = to_len,
			    .flags = flags };
	const uint32_t known = RENAME_NOREPLACE | RENAME_EXCHANGE | RENAME_WHITEOUT;
	unsigned int tries = 0;
	int err;

	if ((flags & ~known) ||
	    ((flags & RENAME_EXCHANGE) && (flags & (RENAME_NOREPLACE | RENAME_WHITEOUT))))
		return -EINVAL;
	err = ext4_name_check(name, len);
	if (!err)
		err = ext4_name_check(to_name, to_len);
	if (!err && (is_dots(name, len) || is_dots(to_name, to_len)))
		err = flags & RENAME_NOREPLACE ? -EEXIST : -EBUSY;
	if (err)
		return err;
	do {
		err = rename_once(&r, ch);
		if (err == -ENOSPC && !tries++ && ext4_room_after_sync(from->fs))
			err = -EAGAIN;
	} while (err == -EAGAIN);
	return err;
}
