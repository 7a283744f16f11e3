/* SPDX-License-Identifier: MIT */
/*
 * Descriptor tables: a directory of chunks of 64 descriptors; both grow as they are needed, up to
 * RLIMIT_NOFILE, and never shrink.  The first chunk is part of the table.
 *
 * Invariants:	a slot that is not NULL holds one reference and its bit in used is set; a used bit
 *		without a file is reserved by a call that is about to put one there. No chunk
 *		before first_free has a free bit.
 * Locking:	files.lock (RANK_SPIN_MONITOR). Memory is allocated and files are put outside of
 *		it. Only tasks that have the table change it, so the one task of a table that is
 *		not shared reads it without the lock.
 */
#include "file.h"

#include <kernel/panic.h>
#include <kernel/spinlock.h>
#include <lib/err.h>
#include <lib/string.h>
#include <processor/account/account.h>
#include <processor/ipc/filelock.h>
#include <processor/process/process.h>

#include "notify.h"

#define CHUNK_FDS   64u
#define FIRST_LIMIT 64u /* descriptors of a process that has no task yet */

struct fd_chunk {
	uint64_t used;
	uint64_t cloexec;
	struct file *slots[CHUNK_FDS];
};

struct files {
	refcount_t refs;
	struct spinlock lock;                      /* RANK_SPIN_MONITOR */
	struct fd_chunk **dir __guarded_by(&lock); /* nr_chunks; NULL: no descriptor there yet */
	uint32_t nr_chunks __guarded_by(&lock);
	uint32_t first_free __guarded_by(&lock); /* chunk */
	struct fd_chunk *first_dir[1];
	struct fd_chunk first;
};

static uint64_t bit_of(unsigned int fd)
{
	return 1ull << (fd % CHUNK_FDS);
}

/* --- life ---------------------------------------------------------------------------- */

struct files *files_create(void)
{
	struct files *fs = kmem_alloc(kmem_current(), sizeof(*fs));

	if (!fs)
		return ERR_PTR(-ENOMEM);
	refcount_set(&fs->refs, 1);
	spin_lock_init(&fs->lock, "files", RANK_SPIN_MONITOR);
	fs->first_dir[0] = &fs->first;
	fs->dir = fs->first_dir;
	fs->nr_chunks = 1;
	return fs;
}

void files_get_table(struct files *fs)
{
	refcount_inc(&fs->refs);
}

bool files_shared(const struct files *fs)
{
	return refcount_read(&fs->refs) > 1;
}

static void free_table(struct files *fs)
{
	lock_not_needed(&fs->lock, "the last reference has gone");
	for (uint32_t i = 1; i < fs->nr_chunks; i++)
		kmem_free(fs->dir[i]);
	if (fs->dir != fs->first_dir)
		kmem_free(fs->dir);
	kmem_free(fs);
}

void files_put(struct files *fs)
{
	if (!refcount_dec_and_test(&fs->refs))
		return;
	files_close_range(fs, 0, UINT32_MAX, false);
	free_table(fs);
}

/* --- growing ------------------------------------------------------------------------- */

static struct fd_chunk *chunk_locked(const struct files *fs, unsigned int fd) __must_hold(&fs->lock)
{
	assert_spin_held(&fs->lock);
	return fd / CHUNK_FDS < fs->nr_chunks ? fs->dir[fd / CHUNK_FDS] : NULL;
}

/* Make the directory reach chunk @c. */
static int grow_dir(struct files *fs, uint32_t c)
{
	const uint32_t nr = MAX(2 * c, 8u);
	struct fd_chunk **dir = kmem_alloc(kmem_current(), nr * sizeof(struct fd_chunk *));
	struct fd_chunk **old;

	if (!dir)
		return -ENOMEM;
	spin_lock(&fs->lock);
	old = fs->dir;
	if (c >= fs->nr_chunks) {
		memcpy(dir, old, fs->nr_chunks * sizeof(struct fd_chunk *));
		fs->dir = dir;
		fs->nr_chunks = nr;
		dir = old;
	}
	spin_unlock(&fs->lock);
	if (dir != fs->first_dir)
		kmem_free(dir);
	return 0;
}

/* Make room for @fd. -ENOMEM. */
static int grow(struct files *fs, unsigned int fd)
{
	const uint32_t c = fd / CHUNK_FDS;
	struct fd_chunk *chunk;

	if (c >= READ_ONCE(fs->nr_chunks) && grow_dir(fs, c) < 0)
		return -ENOMEM;
	chunk = kmem_alloc(kmem_current(), sizeof(*chunk));
	if (!chunk)
		return -ENOMEM;
	spin_lock(&fs->lock);
	if (!fs->dir[c]) {
		fs->dir[c] = chunk;
		chunk = NULL;
	}
	spin_unlock(&fs->lock);
	kmem_free(chunk);
	return 0;
}

/* Room in @to, which is new, for what @from has; true: from->lock is held, so that stays so. */
static bool lock_with_room(struct files *to, struct files *from, int *err)
	__no_lock_analysis("returns with from->lock held, or not")
{
	unsigned int missing = 0;

	lock_not_needed(&to->lock, "no other task has it yet");
	spin_lock(&from->lock);
	for (uint32_t c = 0; c < from->nr_chunks && !missing; c++) {
		if (from->dir[c] && (c >= to->nr_chunks || !to->dir[c]))
			missing = c * CHUNK_FDS;
	}
	if (!missing)
		return true;
	spin_unlock(&from->lock);
	*err = grow(to, missing);
	return false;
}

struct files *files_copy(struct files *from)
{
	struct files *to = files_create();
	int err = 0;

	if (IS_ERR(to))
		return to;
	while (!lock_with_room(to, from, &err)) {
		if (err) {
			free_table(to);
			return ERR_PTR(err);
		}
	}
	assert_spin_held(&from->lock);
	lock_not_needed(&to->lock, "no other task has it yet");
	for (uint32_t c = 0; c < from->nr_chunks; c++) {
		const struct fd_chunk *src = from->dir[c];

		for (uint64_t left = src ? src->used : 0; left; left &= left - 1) {
			const unsigned int i = (unsigned int)__builtin_ctzll(left);

			if (!src->slots[i])
				continue; /* only reserved */
			file_get(src->slots[i]);
			to->dir[c]->slots[i] = src->slots[i];
			to->dir[c]->used |= 1ull << i;
			to->dir[c]->cloexec |= src->cloexec & 1ull << i;
		}
	}
	spin_unlock(&from->lock);
	return to;
}

/* --- looking up ---------------------------------------------------------------------- */

/* The file at @fd, or NULL.  The caller has the lock, or the only reference of the table. */
static struct file *slot(const struct files *fs, int fd)
{
	const uint32_t c = (unsigned int)fd / CHUNK_FDS;
	const struct fd_chunk *chunk;

	lock_not_needed(&fs->lock, "held, or no other task has the table");
	if (fd < 0 || c >= fs->nr_chunks)
		return NULL;
	chunk = fs->dir[c];
	return chunk ? chunk->slots[(unsigned int)fd % CHUNK_FDS] : NULL;
}

static struct file *slot_locked(const struct files *fs, int fd) __must_hold(&fs->lock)
{
	assert_spin_held(&fs->lock);
	return slot(fs, fd);
}

struct file *files_get(struct files *fs, int fd)
{
	struct file *f;

	spin_lock(&fs->lock);
	f = slot_locked(fs, fd);
	if (f)
		file_get(f);
	spin_unlock(&fs->lock);
	return f;
}

struct file *fd_get(int fd)
{
	struct file *f = files_get(files_current(), fd);

	return f ? f : ERR_PTR(-EBADF);
}

struct file *fd_borrow(int fd, bool *counted)
{
	struct files *fs = files_current();
	struct file *f;

	/*
	 * Pairs with the release in files_put() of a task that shared the table: its changes are
	 * visible here.
	 */
	*counted = __atomic_load_n(&fs->refs.v, __ATOMIC_ACQUIRE) > 1;
	f = *counted ? files_get(fs, fd) : slot(fs, fd);
	return f ? f : ERR_PTR(-EBADF);
}

int files_next(struct files *fs, int from)
{
	unsigned int fd = (unsigned int)MAX(from, 0);
	int found = -ENOENT;

	spin_lock(&fs->lock);
	while (found < 0 && fd / CHUNK_FDS < fs->nr_chunks) {
		const struct fd_chunk *chunk = fs->dir[fd / CHUNK_FDS];

		if (!chunk || !(chunk->used >> (fd % CHUNK_FDS)))
			fd = (fd / CHUNK_FDS + 1) * CHUNK_FDS;
		else if (chunk->slots[fd % CHUNK_FDS])
			found = (int)fd;
		else
			fd++;
	}
	spin_unlock(&fs->lock);
	return found;
}

/* A descriptor of @fs no longer holds @f. */
static void file_close(struct files *fs, struct file *f)
{
	/*
	 * POSIX: closing any descriptor of a file gives up all that the process has locked in it.
	 */
	if (filelock_any_posix())
		filelock_drop(f, fs);
	notify_dir_end(f, fs);
	if (f->ops->closed)
		f->ops->closed(f);
	file_put(f);
}

/* --- reserving and filling ----------------------------------------------------------- */

/* The limit of the calling process; the kernel's own set-up of a new one has none to ask yet. */
static uint64_t fd_limit(void)
{
	return thread_current()->private ? MIN(process_rlimit(RLIMIT_NOFILE), (uint64_t)INT32_MAX)
					 : FIRST_LIMIT;
}

/* Lowest one that is free, in a chunk that may not exist yet. */
static unsigned int free_locked(struct files *fs, unsigned int from) __must_hold(&fs->lock)
{
	const uint32_t first = from / CHUNK_FDS;
	uint32_t c = MAX(first, fs->first_free);

	assert_spin_held(&fs->lock);
	for (; c < fs->nr_chunks && fs->dir[c]; c++) {
		const uint64_t low = c == first ? bit_of(from) - 1 : 0;
		const uint64_t free = ~fs->dir[c]->used & ~low;

		if (free)
			return c * CHUNK_FDS + (unsigned int)__builtin_ctzll(free);
		if (c == fs->first_free && !~fs->dir[c]->used)
			fs->first_free = c + 1;
	}
	return MAX(c * CHUNK_FDS, from);
}

int files_reserve(struct files *fs, int from, bool cloexec)
{
	const uint64_t limit = fd_limit();
	int err = 0;

	while (!err) {
		struct fd_chunk *chunk;
		unsigned int fd;

		spin_lock(&fs->lock);
		fd = free_locked(fs, (unsigned int)from);
		chunk = fd < limit ? chunk_locked(fs, fd) : NULL;
		if (chunk) {
			chunk->used |= bit_of(fd);
			chunk->cloexec &= ~bit_of(fd);
			chunk->cloexec |= cloexec ? bit_of(fd) : 0;
		}
		spin_unlock(&fs->lock);
		if (chunk)
			return (int)fd;
		err = fd < limit ? grow(fs, fd) : -EMFILE;
	}
	return err;
}

void files_fill(struct files *fs, int fd, struct file *f)
{
	const unsigned int n = (unsigned int)fd;
	struct fd_chunk *chunk;

	spin_lock(&fs->lock);
	chunk = chunk_locked(fs, n);
	ASSERT((chunk->used & bit_of(n)) && !chunk->slots[n % CHUNK_FDS]); /* reserved */
	chunk->slots[n % CHUNK_FDS] = f;
	spin_unlock(&fs->lock);
}

static void clear_locked(struct files *fs, unsigned int fd) __must_hold(&fs->lock)
{
	struct fd_chunk *chunk;

	assert_spin_held(&fs->lock);
	chunk = chunk_locked(fs, fd);
	ASSERT(chunk->used & bit_of(fd));
	chunk->slots[fd % CHUNK_FDS] = NULL;
	chunk->used &= ~bit_of(fd);
	chunk->cloexec &= ~bit_of(fd);
	fs->first_free = MIN(fs->first_free, fd / CHUNK_FDS);
}

void files_unreserve(struct files *fs, int fd)
{
	spin_lock(&fs->lock);
	clear_locked(fs, (unsigned int)fd);
	spin_unlock(&fs->lock);
}

int files_finish(struct files *fs, int fd, struct file *f)
{
	if (IS_ERR(f)) {
		files_unreserve(fs, fd);
		return PTR_ERR(f);
	}
	files_fill(fs, fd, f);
	return fd;
}

int files_install(struct files *fs, struct file *f, int from, bool cloexec)
{
	const int fd = files_reserve(fs, from, cloexec);

	if (fd >= 0)
		files_fill(fs, fd, f);
	return fd;
}

int files_replace(struct files *fs, struct file *f, int fd, bool cloexec)
{
	const unsigned int n = (unsigned int)fd;
	struct fd_chunk *chunk;
	struct file *old;
	int err;

	if (fd < 0 || n >= fd_limit())
		return -EBADF;
	spin_lock(&fs->lock);
	while (!(chunk = chunk_locked(fs, n))) {
		spin_unlock(&fs->lock);
		err = grow(fs, n);
		if (err)
			return err;
		spin_lock(&fs->lock);
	}
	old = chunk->slots[n % CHUNK_FDS];
	if (!old && (chunk->used & bit_of(n))) {
		spin_unlock(&fs->lock);
		return -EBUSY; /* another thread's open is about to put a file there */
	}
	chunk->slots[n % CHUNK_FDS] = f;
	chunk->used |= bit_of(n);
	chunk->cloexec &= ~bit_of(n);
	chunk->cloexec |= cloexec ? bit_of(n) : 0;
	spin_unlock(&fs->lock);
	if (old)
		file_close(fs, old);
	return fd;
}

/* --- closing ------------------------------------------------------------------------- */

int files_close(struct files *fs, int fd)
{
	struct file *f;

	spin_lock(&fs->lock);
	f = slot_locked(fs, fd);
	if (f)
		clear_locked(fs, (unsigned int)fd);
	spin_unlock(&fs->lock);
	if (!f)
		return -EBADF;
	file_close(fs, f);
	return 0;
}

/*
 * The next descriptor from *@fd to @last that is open (and close-on-exec), taken out; NULL: there
 * is none.
 */
static struct file *take_next(struct files *fs, unsigned int *fd, unsigned int last,
			      bool only_cloexec)
{
	struct file *f = NULL;

	spin_lock(&fs->lock);
	while (!f && *fd <= last && *fd / CHUNK_FDS < fs->nr_chunks) {
		const struct fd_chunk *chunk = fs->dir[*fd / CHUNK_FDS];
		const uint64_t set = !chunk ? 0 : only_cloexec ? chunk->cloexec : chunk->used;

		if (!(set >> (*fd % CHUNK_FDS))) {
			*fd = (*fd / CHUNK_FDS + 1) * CHUNK_FDS;
			continue;
		}
		if (set & bit_of(*fd))
			f = chunk->slots[*fd % CHUNK_FDS];
		if (f)
			clear_locked(fs, *fd);
		(*fd)++;
	}
	spin_unlock(&fs->lock);
	return f;
}

void files_close_range(struct files *fs, unsigned int first, unsigned int last, bool only_cloexec)
{
	struct file *f;

	while ((f = take_next(fs, &first, last, only_cloexec)))
		file_close(fs, f);
}

/* --- close-on-exec ------------------------------------------------------------------- */

int files_get_cloexec(struct files *fs, int fd, bool *cloexec)
{
	int err = -EBADF;

	spin_lock(&fs->lock);
	if (slot_locked(fs, fd)) {
		*cloexec = chunk_locked(fs, (unsigned int)fd)->cloexec & bit_of((unsigned int)fd);
		err = 0;
	}
	spin_unlock(&fs->lock);
	return err;
}

static void set_cloexec_locked(struct files *fs, unsigned int fd, bool cloexec)
	__must_hold(&fs->lock)
{
	struct fd_chunk *chunk;

	assert_spin_held(&fs->lock);
	chunk = chunk_locked(fs, fd);
	if (cloexec)
		chunk->cloexec |= bit_of(fd);
	else
		chunk->cloexec &= ~bit_of(fd);
}

int files_set_cloexec(struct files *fs, int fd, bool cloexec)
{
	int err = -EBADF;

	spin_lock(&fs->lock);
	if (slot_locked(fs, fd)) {
		set_cloexec_locked(fs, (unsigned int)fd, cloexec);
		err = 0;
	}
	spin_unlock(&fs->lock);
	return err;
}

void files_cloexec_range(struct files *fs, unsigned int first, unsigned int last)
{
	spin_lock(&fs->lock);
	for (unsigned int fd = first; fd <= last && fd / CHUNK_FDS < fs->nr_chunks; fd++) {
		if (slot_locked(fs, (int)fd))
			set_cloexec_locked(fs, fd, true);
	}
	spin_unlock(&fs->lock);
}
