/* SPDX-License-Identifier: MIT */
/*
 * ext4: the frame of a change: locks, handle, record.
 *
 * Locking:	fs->change, then the inodes' locks in the order of their addresses, then the handle.
 * Failure:	an error of the change itself ends its handle like a success does; whoever made the
 *		change has put things back, or aborted.
 */
#include <fs/fs.h>
#include <kernel/mutex.h>
#include <kernel/panic.h>
#include <kernel/rwsem.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <lib/errno.h>

#include "ext4_write.h"
#include "journal_priv.h"

/* Insert @in by its address, once. */
static void add_inode(struct ext4_op *op, struct ext4_inode *in)
{
	unsigned int i = 0;

	while (i < op->nr_inodes && op->inodes[i] < in)
		i++;
	if (i < op->nr_inodes && op->inodes[i] == in)
		return;
	ASSERT(op->nr_inodes < EXT4_OP_INODES);
	for (unsigned int j = op->nr_inodes++; j > i; j--)
		op->inodes[j] = op->inodes[j - 1];
	op->inodes[i] = in;
}

void ext4_op_unlock(struct ext4_op *op) __no_lock_analysis("locks of a list")
{
	while (op->nr_inodes)
		rwsem_write_unlock(&op->inodes[--op->nr_inodes]->lock);
}

int ext4_op_begin(struct ext4_op *op, struct ext4_fs *fs, uint32_t credits,
		  const struct fs_change *ch, struct ext4_inode *const *inodes, unsigned int nr)
	__no_lock_analysis("locks of a list")
{
	int err;

	*op = (struct ext4_op){ .fs = fs, .ch = ch };
	for (unsigned int i = 0; i < nr; i++) {
		if (inodes[i])
			add_inode(op, inodes[i]);
	}
	credits = MIN(credits + EXT4_CHANGE_CREDITS, ext4_max_credits(fs));
	mutex_lock(&fs->change);
	op->room = ch && ch->room && fs->rooms;
	for (unsigned int i = 0; i < op->nr_inodes; i++)
		rwsem_write_lock(&op->inodes[i]->lock);
	err = ext4_reserve_begin(fs, credits);
	if (!err) {
		op->h = ext4_begin(fs, credits);
		if (!IS_ERR(op->h))
			return 0;
		err = (int)PTR_ERR(op->h);
		ext4_reserve_end(fs);
	}
	if (err == -EROFS)
		WRITE_ONCE(fs->base.read_only, true);
	mutex_unlock(&fs->change);
	ext4_op_unlock(op);
	return err;
}

int ext4_op_record(struct ext4_op *op, const struct ext4_inode *in)
{
	struct ext4_done_disk d = { 0 };
	int err;

	if (op->recorded || !op->ch || !op->ch->client)
		return 0;
	if (in) {
		d.ino = cpu_to_le64(in->ino);
		d.gen = cpu_to_le32(in->gen);
		d.version = cpu_to_le64(in->version);
	}
	err = ext4_record_change(op->h, op->ch->client, op->ch->seq, &d, sizeof(d));
	if (err)
		return ext4_op_abort(op, err, "recording a change");
	op->recorded = true;
	return 0;
}

int ext4_op_finish(struct ext4_op *op, struct ext4_inode *in, int err)
	__no_lock_analysis("taken by ext4_op_begin()")
{
	int end_err;

	ASSERT(!in || in->fs == op->fs);
	if (!err)
		err = ext4_op_record(op, in);
	if (!err)
		ext4_room_used(op);
	end_err = ext4_end(op->h);
	ext4_reserve_end(op->fs);
	mutex_unlock(&op->fs->change);
	return err ? err : end_err;
}

int ext4_op_end(struct ext4_op *op, struct ext4_inode *in, int err)
{
	err = ext4_op_finish(op, in, err);
	ext4_op_unlock(op);
	return err;
}

int ext4_op_restart(struct ext4_op *op, uint32_t credits)
{
	return ext4_restart(op->h, MIN(credits + EXT4_CHANGE_CREDITS, ext4_max_credits(op->fs)));
}

bool ext4_op_more(struct ext4_op *op, uint32_t credits)
{
	credits += EXT4_CHANGE_CREDITS;
	return !ext4_extend(op->h, credits) && !ext4_reserve_fill(op->fs, credits);
}

int ext4_op_big_step(struct ext4_op *op, struct ext4_inode *in, uint32_t credits)
{
	int err;

	if (op->whole) {
		ASSERT(ext4_credits_left(op->h) >= credits);
		return 0;
	}
	if (ext4_op_more(op, credits))
		return 0;
	err = ext4_inode_write(op, in);
	return err ? err : ext4_op_restart(op, credits);
}

int ext4_op_step(struct ext4_op *op, struct ext4_inode *in)
{
	return ext4_op_big_step(op, in, EXT4_CREDITS_MAP);
}

int ext4_op_abort(struct ext4_op *op, int err, const char *what)
{
	ASSERT(err < 0);
	ext4_abort(op->fs, what);
	return err;
}

struct fs_time ext4_op_now(const struct ext4_op *op)
{
	const uint64_t now = time_real_ns();

	if (op->ch)
		return op->ch->now;
	return (struct fs_time){ .sec = (int64_t)(now / 1000000000u),
				 .nsec = (uint32_t)(now % 1000000000u) };
}
