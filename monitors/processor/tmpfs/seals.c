/* SPDX-License-Identifier: MIT */
/*
 * tmpfs: seals of files, which only memfd_create() makes without F_SEAL_SEAL.
 *
 * Locking:	data_lock for a change of them, which so is ordered with changes of contents and
 *		size; besides fs->lock, under which modes change.
 * See:		Linux's mm/memfd.c, whose order of checks this has
 */
#include <abi/fcntl.h>
#include <kernel/panic.h>
#include <lib/errno.h>
#include <processor/excache/write_maps.h>
#include <processor/mm/shared_maps.h>
#include <processor/vfs/file.h>

#include "tmpfs_private.h"

#define NO_WRITES (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)

/* From here on no program can change the contents: -EBUSY if one has them mapped. */
static int deny_writes_locked(struct tmpfs_inode *ti) __must_hold(&ti->data_lock)
{
	bool under_way;
	int err = 0;

	assert_mutex_held(&ti->data_lock);
	if (write_maps_deny(ti->object, &under_way))
		err = under_way ? 1 : shared_maps_writable(ti->object);
	if (!err)
		write_maps_seal(ti->object);
	else if (!(ti->seals & F_SEAL_FUTURE_WRITE))
		write_maps_allow(ti->object);
	return err > 0 ? -EBUSY : err;
}

/*
 * Contents that can be executed cannot be written, and modes do not change what can be: from the
 * same moment on. Answers all that @seals mean.
 */
static uint32_t seal_modes_locked(struct tmpfs_inode *ti, uint32_t seals)
	__must_hold(&ti->data_lock)
{
	assert_mutex_held(&ti->data_lock);
	if (!(seals & F_SEAL_EXEC))
		return seals;
	mutex_lock(&ti->fs->lock);
	if (READ_ONCE(ti->mode) & 0111)
		seals |= F_SEAL_SHRINK | F_SEAL_GROW | NO_WRITES;
	WRITE_ONCE(ti->seals, ti->seals | F_SEAL_EXEC);
	mutex_unlock(&ti->fs->lock);
	return seals;
}

static int add_locked(struct tmpfs_inode *ti, uint32_t seals) __must_hold(&ti->data_lock)
{
	const uint32_t old = ti->seals;
	bool under_way;
	int err = 0;

	assert_mutex_held(&ti->data_lock);
	if (old & F_SEAL_SEAL)
		return -EPERM;
	seals = seal_modes_locked(ti, seals);
	if ((seals & F_SEAL_WRITE) && !(old & F_SEAL_WRITE))
		err = deny_writes_locked(ti);
	else if (seals & F_SEAL_FUTURE_WRITE)
		(void)write_maps_deny(ti->object, &under_way);
	WRITE_ONCE(ti->seals, err ? old : old | seals);
	return err;
}

long tmpfs_seals(struct file *f, bool add, uint32_t seals)
{
	struct tmpfs_inode *ti = tmpfs_inode(f->inode);
	int err;

	if (!add)
		return (long)READ_ONCE(ti->seals);
	ASSERT(ti->object); /* it is open */
	err = mutex_lock_killable(&ti->data_lock);
	if (err)
		return err;
	err = add_locked(ti, seals);
	mutex_unlock(&ti->data_lock);
	return err;
}

int tmpfs_seals_resize_locked(struct tmpfs_inode *ti, uint64_t size)
{
	assert_mutex_held(&ti->data_lock);
	if (size < ti->size && (ti->seals & F_SEAL_SHRINK))
		return -EPERM;
	return size > ti->size && (ti->seals & F_SEAL_GROW) ? -EPERM : 0;
}

int tmpfs_seals_write_locked(struct tmpfs_inode *ti, uint64_t pos, uint64_t *len)
{
	const uint64_t whole = ti->size & ~(uint64_t)(PAGE_SIZE - 1);

	assert_mutex_held(&ti->data_lock);
	if (ti->seals & NO_WRITES)
		return -EPERM;
	if (!(ti->seals & F_SEAL_GROW) || *len <= ti->size - MIN(pos, ti->size))
		return 0;
	/* As Linux, which writes page by page: not a part of the page that would be too much. */
	if (pos >= whole)
		return -EPERM;
	*len = whole - pos;
	return 0;
}

int tmpfs_seals_fallocate_locked(struct tmpfs_inode *ti, bool punch, uint64_t end)
{
	assert_mutex_held(&ti->data_lock);
	if (punch)
		return ti->seals & NO_WRITES ? -EPERM : 0;
	return (ti->seals & F_SEAL_GROW) && end > ti->size ? -EPERM : 0;
}
