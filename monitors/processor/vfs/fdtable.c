/* SPDX-License-Identifier: MIT */
/*
 * Descriptor tables and file lifetime.
 *
 * Invariants:	slots below nr_slots exist; a non-NULL slot holds one reference; the table grows by doubling
 *		up to RLIMIT_NOFILE.
 * Locking:	files.lock (RANK_FILES); files are put outside of it, because release() may sleep.
 */
#include <processor/file.h>

#include <lib/err.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <processor/excache.h>
#include <processor/process.h>

#define FIRST_SLOTS 64

struct files {
	refcount_t refs;
	struct mutex lock; /* RANK_FILES */
	unsigned int nr_slots __guarded_by(&lock);
	struct file **slots __guarded_by(&lock);
	bool *cloexec __guarded_by(&lock);
};

/* --- files --------------------------------------------------------------------------- */

struct file *file_create(const struct file_ops *ops, uint32_t flags, const char *path)
{
	struct file *f = kzalloc(sizeof(*f));

	if (!f)
		return ERR_PTR(-ENOMEM);
	if (path) {
		f->path = kstrdup(path);
		if (!f->path) {
			kfree(f);
			return ERR_PTR(-ENOMEM);
		}
	}
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
	if (f->ops->release)
		f->ops->release(f);
	if (f->object)
		object_put(f->object);
	kfree(f->path);
	kfree(f);
}

/* --- tables -------------------------------------------------------------------------- */

struct files *files_create(void)
{
	struct files *fs = kzalloc(sizeof(*fs));

	if (!fs)
		return ERR_PTR(-ENOMEM);
	refcount_set(&fs->refs, 1);
	mutex_init(&fs->lock, "files", RANK_FILES);
	return fs;
}

void files_put(struct files *fs)
{
	if (!refcount_dec_and_test(&fs->refs))
		return;
	for (unsigned int i = 0; i < fs->nr_slots; i++) {
		if (fs->slots[i])
			file_put(fs->slots[i]);
	}
	kfree(fs->slots);
	kfree(fs->cloexec);
	kfree(fs);
}

static struct file *slot_locked(const struct files *fs, int fd)
{
	return fd >= 0 && (unsigned int)fd < fs->nr_slots ? fs->slots[fd] : NULL;
}

struct file *files_get(struct files *fs, int fd)
{
	struct file *f;

	mutex_lock(&fs->lock);
	f = slot_locked(fs, fd);
	if (f)
		file_get(f);
	mutex_unlock(&fs->lock);
	return f;
}

struct file *fd_get(int fd)
{
	struct file *f = files_get(process_current()->files, fd);

	return f ? f : ERR_PTR(-EBADF);
}

/* Make room for descriptor @fd. */
static int grow_locked(struct files *fs, unsigned int fd)
{
	unsigned int nr = fs->nr_slots ? fs->nr_slots : FIRST_SLOTS;
	struct file **slots;
	bool *cloexec;

	if (fd < fs->nr_slots)
		return 0;
	while (nr <= fd)
		nr *= 2;
	slots = kcalloc(nr, sizeof(*slots));
	cloexec = kcalloc(nr, sizeof(*cloexec));
	if (!slots || !cloexec) {
		kfree(slots);
		kfree(cloexec);
		return -ENOMEM;
	}
	if (fs->nr_slots) {
		memcpy(slots, fs->slots, fs->nr_slots * sizeof(*slots));
		memcpy(cloexec, fs->cloexec, fs->nr_slots * sizeof(*cloexec));
	}
	kfree(fs->slots);
	kfree(fs->cloexec);
	fs->slots = slots;
	fs->cloexec = cloexec;
	fs->nr_slots = nr;
	return 0;
}

/* The limit of the calling process; the kernel's own set-up of a new one has none to ask yet. */
static uint64_t fd_limit(void)
{
	return thread_current()->private ? MIN(process_rlimit(RLIM_NOFILE), (uint64_t)INT32_MAX)
					 : FIRST_SLOTS;
}

int files_install(struct files *fs, struct file *f, int from, bool cloexec)
{
	const uint64_t limit = fd_limit();
	unsigned int fd;
	int err = 0;

	mutex_lock(&fs->lock);
	for (fd = (unsigned int)from; fd < fs->nr_slots && fs->slots[fd]; fd++)
		;
	if (fd >= limit)
		err = -EMFILE;
	else
		err = grow_locked(fs, fd);
	if (!err) {
		fs->slots[fd] = f;
		fs->cloexec[fd] = cloexec;
	}
	mutex_unlock(&fs->lock);
	return err ? err : (int)fd;
}

int files_replace(struct files *fs, struct file *f, int fd, bool cloexec)
{
	struct file *old = NULL;
	int err;

	if (fd < 0 || (uint64_t)fd >= fd_limit())
		return -EBADF;
	mutex_lock(&fs->lock);
	err = grow_locked(fs, (unsigned int)fd);
	if (!err) {
		old = fs->slots[fd];
		fs->slots[fd] = f;
		fs->cloexec[fd] = cloexec;
	}
	mutex_unlock(&fs->lock);
	if (old)
		file_put(old);
	return err ? err : fd;
}

int files_close(struct files *fs, int fd)
{
	struct file *f;

	mutex_lock(&fs->lock);
	f = slot_locked(fs, fd);
	if (f)
		fs->slots[fd] = NULL;
	mutex_unlock(&fs->lock);
	if (!f)
		return -EBADF;
	file_put(f);
	return 0;
}

int files_get_cloexec(struct files *fs, int fd, bool *cloexec)
{
	int err = 0;

	mutex_lock(&fs->lock);
	if (slot_locked(fs, fd))
		*cloexec = fs->cloexec[fd];
	else
		err = -EBADF;
	mutex_unlock(&fs->lock);
	return err;
}

int files_set_cloexec(struct files *fs, int fd, bool cloexec)
{
	int err = 0;

	mutex_lock(&fs->lock);
	if (slot_locked(fs, fd))
		fs->cloexec[fd] = cloexec;
	else
		err = -EBADF;
	mutex_unlock(&fs->lock);
	return err;
}

void files_close_range(struct files *fs, unsigned int first, unsigned int last, bool only_cloexec)
{
	for (unsigned int fd = first; fd <= last; fd++) {
		struct file *f = NULL;

		mutex_lock(&fs->lock);
		if (fd >= fs->nr_slots) {
			mutex_unlock(&fs->lock);
			return;
		}
		if (!only_cloexec || fs->cloexec[fd]) {
			f = fs->slots[fd];
			fs->slots[fd] = NULL;
		}
		mutex_unlock(&fs->lock);
		if (f)
			file_put(f);
	}
}

void files_cloexec_range(struct files *fs, unsigned int first, unsigned int last)
{
	mutex_lock(&fs->lock);
	for (unsigned int fd = first; fd < fs->nr_slots && fd <= last; fd++) {
		if (fs->slots[fd])
			fs->cloexec[fd] = true;
	}
	mutex_unlock(&fs->lock);
}
