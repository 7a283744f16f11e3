/* SPDX-License-Identifier: MIT */
/*
 * Open files: making, counting, putting.
 *
 * Limits:	files are memory of the kernel: the node has at most one for every 10 KiB of it, as
 *		Linux's default fs.file-max; beyond that open(2) and its kin answer -ENFILE, for
 *		root too.
 */
#include "file.h"

#include <kernel/counter.h>
#include <kernel/panic.h>
#include <lib/err.h>
#include <mm/frame.h>
#include <processor/account/account.h>
#include <processor/excache/excache.h>
#include <processor/ipc/filelease.h>
#include <processor/ipc/filelock.h>
#include <processor/process/process.h>

#include "inode.h"
#include "notify.h"
#include "path.h"

#define MIN_FILES 1024

static uint64_t gauge_files(void)
{
	return kmem_count(KMEM_FILES);
}
GAUGE(files_gauge, "file.open", "open files", gauge_files);

uint64_t file_max(void)
{
	return MAX(frames_total_count() * (PAGE_SIZE / 1024) / 10, (uint64_t)MIN_FILES);
}

uint64_t file_count(void)
{
	return gauge_files();
}

static struct file *alloc_file(const char *path)
{
	struct file *f = kmem_alloc(kmem_current(), sizeof(*f));

	if (!f || !path)
		return f;
	f->path = kmem_strdup(kmem_current(), path);
	if (f->path)
		return f;
	kmem_free(f);
	return NULL;
}

struct file *file_create(const struct file_ops *ops, uint32_t flags, const char *path)
{
	struct file *f;

	if (!kmem_take(kmem_current(), KMEM_FILES, 1, file_max()))
		return ERR_PTR(-ENFILE);
	f = alloc_file(path);
	if (!f) {
		kmem_give(kmem_current(), KMEM_FILES, 1);
		return ERR_PTR(-ENOMEM);
	}
	ASSERT(ops->stat);
	f->ops = ops;
	f->flags = flags & ~(uint32_t)(O_CLOEXEC | O_CREAT | O_EXCL | O_NOCTTY | O_TRUNC);
	refcount_set(&f->refs, 1);
	mutex_init(&f->lock, "file", RANK_FILE);
	return f;
}

void file_put(struct file *f)
{
	if (!refcount_dec_and_test(&f->refs))
		return;
	notify_file(f, file_writable(f) ? IN_CLOSE_WRITE : IN_CLOSE_NOWRITE);
	if (!hlist_empty(&f->epitems))
		epoll_file_gone(f);
	if (f->async)
		async_file_gone(f);
	if (f->has_locks)
		filelock_drop(f, f);
	if (f->lease)
		filelease_file_gone(f);
	if (f->counted)
		filelease_open_end(f->inode, file_writable(f));
	if (f->ops->release)
		f->ops->release(f);
	if (f->object)
		object_put(f->object);
	inode_put(f->inode);
	if (f->keeps_mount)
		mount_write_end(f->mnt);
	mount_put(f->mnt);
	kmem_free(f->path);
	kmem_give(kmem_account_of(f), KMEM_FILES, 1);
	kmem_free(f);
}

bool file_noexec(const struct file *f)
{
	return f->inode && mount_noexec(f->mnt, f->inode);
}

int file_pos(struct file *f, uint64_t *pos)
{
	const int err = mutex_lock_killable(&f->lock);

	if (err)
		return err;
	*pos = f->pos;
	mutex_unlock(&f->lock);
	return 0;
}

int file_set_pos(struct file *f, uint64_t pos)
{
	const int err = mutex_lock_killable(&f->lock);

	if (err)
		return err;
	f->pos = pos;
	mutex_unlock(&f->lock);
	return 0;
}

int anon_stat(struct file *f, struct file_attr *attr)
{
	*attr = (struct file_attr){ .mode = 0600, .nlink = 1, .blksize = PAGE_SIZE, .fsid = 15 };
	attr->file.ino = 1;
	return 0;
}

void file_change_flags(struct file *f, uint32_t clear, uint32_t set)
{
	uint32_t old = __atomic_load_n(&f->flags, __ATOMIC_RELAXED);

	while (!__atomic_compare_exchange_n(&f->flags, &old, (old & ~clear) | set, true,
					    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}
