/* SPDX-License-Identifier: MIT */
/*
 * Open files and descriptor tables.
 *
 * Invariants:	a struct file is counted: descriptors and running calls hold it. A struct files is
 *		counted by the processes that share it.
 * Locking:	a table has a spinlock of its own; file.lock (RANK_FILE) guards the offset, across
 *		a whole read or write, as POSIX wants it.
 */
#pragma once

#include <abi/fcntl.h>
#include <abi/ioctl.h>
#include <abi/poll.h>
#include <kernel/mutex.h>
#include <lib/atomic.h>
#include <lib/compiler.h>
#include <lib/list.h>
#include <processor/client/file_attr.h>
#include <processor/excache/prefetch.h>
#include <processor/process/owner.h>

struct file;
struct file_async;
struct file_lease;
struct inode;
struct mount;
struct object;
struct uio;

/* Linux's open flags, as programs pass them. */

/* Operations of a kind of open file; NULL: the errno named. Each may sleep. */
struct file_ops {
	const char *name;
	/* At *@pos, which it moves; file.lock is held for files with an offset. -EINVAL */
	ssize_t (*read)(struct file *f, struct uio *uio, uint64_t *pos);
	ssize_t (*write)(struct file *f, struct uio *uio, uint64_t *pos); /* -EINVAL */
	int (*stat)(struct file *f, struct file_attr *attr);              /* required */
	long (*ioctl)(struct file *f, uint32_t cmd, uint64_t arg);        /* -ENOTTY */
	/* @old: records of getdents(), whose types are behind the names. -ENOTDIR */
	ssize_t (*getdents)(struct file *f, uint64_t buf, uint32_t size, bool old);
	/* POLL_*; may take a lock, must not wait. Always ready */
	unsigned int (*poll)(struct file *f);
	/* Where a change of poll()'s answer is announced; may be NULL. */
	struct waitqueue *(*poll_wait)(struct file *f);
	/* The same for POLLOUT where that is another queue; NULL: it is not. */
	struct waitqueue *(*poll_wait_out)(struct file *f);
	/* Do messages of other nodes change poll()'s answer? Who waits polls for them. NULL: no. */
	bool (*is_far)(struct file *f);
	void (*release)(struct file *f); /* nothing */
	void (*closed)(struct file *f);  /* a descriptor of it has been closed; nothing */
	bool poll_by_process;            /* the queue to wait at belongs to the calling process */
	bool async;                      /* O_ASYNC works */
	/* For a file with O_ASYNC and no owner: the group that becomes it; NULL: none does. */
	uint32_t (*async_group)(struct file *f);
	/* lseek(), under file.lock: the new offset, which the caller keeps; NULL: by attr.size. */
	int64_t (*seek)(struct file *f, int64_t off, int whence);
	/* fallocate() with flags @mode, @off and @len not negative. -EOPNOTSUPP */
	int (*fallocate)(struct file *f, int mode, uint64_t off, uint64_t len);
	int (*fsync)(struct file *f, bool datasync); /* nothing is to be done */
	/* F_GET_SEALS, or F_ADD_SEALS (@add), of a file that is open for writing. -EINVAL */
	long (*seals)(struct file *f, bool add, uint32_t seals);
	bool seekable;
	uint32_t magic;   /* statfs() of one without an inode; 0: as eventfd and its kin */
	bool maps_zeroes; /* a mapping of it is anonymous memory */
};

struct file {
	const struct file_ops *ops; /* const */
	refcount_t refs;
	uint32_t flags;    /* atomic: O_* but not O_CLOEXEC */
	struct mutex lock; /* RANK_FILE */
	uint64_t pos __guarded_by(&lock);
	/* A directory's: dir_sink.behind, as long as pos is dir_pos. */
	uint64_t dir_pos __guarded_by(&lock);
	uint64_t dir_behind __guarded_by(&lock);
	char *path; /* const: canonical, as it was at open, or NULL */
	struct inode
		*inode;    /* const: counted; NULL: no path leads to it (pipes, streams, sockets) */
	struct mount *mnt; /* const: counted; NULL: it is not mounted */
	bool keeps_mount;  /* const: mount_write_begin() was called for it */
	bool created;      /* const: open() made the file (F_CREATED_QUERY) */
	bool fresh;        /* const: it was made to be opened, and is empty */

	/* const: as it was at open; of a file of a disk that may change, its rights */
	struct file_attr attr;
	struct object *object; /* const: pages of a regular file, or NULL */
	struct read_ahead read_ahead __guarded_by(&lock);

	bool counted;              /* const once open: in the inode's nr_writers or nr_readers */
	struct file_lease *lease;  /* filelease.c's lock; or NULL */
	bool has_locks;            /* OFD or flock, now or before; filelock.c's lock */
	struct file_owner owner;   /* async.c's lock: F_SETOWN */
	int owner_signo;           /* async.c's lock: F_SETSIG; 0: SIGIO */
	struct file_async *async;  /* async.c's switch_lock: O_ASYNC; NULL: none */
	struct hlist_head epitems; /* epoll.c's lock: of epoll instances that watch it */

	/* Streams and devices. */
	void *private;  /* const */
	uint32_t minor; /* const */
};

/* A new file with one reference; ERR_PTR(-ENOMEM, -ENFILE). @path is copied, may be NULL. */
struct file *file_create(const struct file_ops *ops, uint32_t flags, const char *path);
static inline void file_get(struct file *f)
{
	refcount_inc(&f->refs);
}
void file_put(struct file *f);
/*
 * stat() of kinds of files that have no inode (eventfd and its kin): Linux has one for all of
 * them.
 */
int anon_stat(struct file *f, struct file_attr *attr);
/* Bits of f->flags that change after open. */
void file_change_flags(struct file *f, uint32_t clear, uint32_t set);
/* Is it a file of a file system, or seen by a mount, whose files cannot be executed? */
bool file_noexec(const struct file *f);
/*
 * May a mapping of it be shared? -EACCES: it is append only and open for writing, and its bytes
 * could be changed, if not now then after mprotect(); or why its attributes are not known.
 */
int file_may_share(const struct file *f) __must_check;
/* Open files of the node, and how many there may be. */
uint64_t file_count(void);
uint64_t file_max(void);

static inline bool file_readable(const struct file *f)
{
	return (f->flags & O_ACCMODE) != O_WRONLY && !(f->flags & O_PATH);
}

static inline bool file_writable(const struct file *f)
{
	return (f->flags & O_ACCMODE) != O_RDONLY && !(f->flags & O_PATH);
}

static inline bool file_nonblock(const struct file *f)
{
	return READ_ONCE(f->flags) & O_NONBLOCK;
}

/* Read at @pos into kernel memory or user memory, whatever @uio says. */
/* The offset: waits for the lock, which a thread may hold that waits for a node. 0 or -EINTR. */
int file_pos(struct file *f, uint64_t *pos) __must_check;
int file_set_pos(struct file *f, uint64_t pos) __must_check;
ssize_t file_read(struct file *f, struct uio *uio, uint64_t *pos);
ssize_t file_write(struct file *f, struct uio *uio, uint64_t *pos);
/* With all locks, at @off, which is not negative; of a file without offsets at none. */
ssize_t file_io(struct file *f, struct uio *uio, bool write, int64_t off);

/* @f is about to go: no epoll instance watches it any more. */
void epoll_file_gone(struct file *f);
/* @f is about to go: it tells its owner nothing more. */
void async_file_gone(struct file *f);

/* --- descriptor tables --------------------------------------------------------------- */

struct files;
struct files *files_create(void);             /* ERR_PTR(-ENOMEM) */
void files_get_table(struct files *fs);       /* CLONE_FILES */
struct files *files_copy(struct files *from); /* fork: the same open files; ERR_PTR(-ENOMEM) */
bool files_shared(const struct files *fs);    /* has another process this table too? */
void files_put(struct files *fs);             /* the last one closes everything */
/* Referenced; NULL: not open. */
struct file *files_get(struct files *fs, int fd);
/* Lowest free descriptor >= @from; takes over the reference of @f on success. -EMFILE, -ENOMEM */
int files_install(struct files *fs, struct file *f, int from, bool cloexec) __must_check;
/*
 * The same in two steps, so that no task sees the descriptor before all is well: then fill or
 * unreserve.
 */
int files_reserve(struct files *fs, int from, bool cloexec) __must_check;
void files_fill(struct files *fs, int fd, struct file *f);
void files_unreserve(struct files *fs, int fd);
/* Fill @fd with @f and return it; or, if @f is an ERR_PTR(), unreserve @fd and return the errno. */
int files_finish(struct files *fs, int fd, struct file *f);
/*
 * Put @f at exactly @fd, closing what was there; takes over the reference on success. -EBADF,
 * -EBUSY, -ENOMEM
 */
int files_replace(struct files *fs, struct file *f, int fd, bool cloexec) __must_check;
int files_close(struct files *fs, int fd); /* -EBADF */
/* Lowest open descriptor >= @from, for /proc; -ENOENT. */
int files_next(struct files *fs, int from) __must_check;
int files_get_cloexec(struct files *fs, int fd, bool *cloexec) __must_check;
int files_set_cloexec(struct files *fs, int fd, bool cloexec) __must_check;
void files_close_range(struct files *fs, unsigned int first, unsigned int last, bool only_cloexec);
void files_cloexec_range(struct files *fs, unsigned int first, unsigned int last);

/* The calling task's file behind @fd, referenced; ERR_PTR(-EBADF). */
struct file *fd_get(int fd);
/*
 * The same for the length of one call: if no other task has the table, none can close the
 * descriptor meanwhile, so the file need not be counted. fd_return() when done.
 */
struct file *fd_borrow(int fd, bool *counted);
static inline void fd_return(struct file *f, bool counted)
{
	if (counted)
		file_put(f);
}

/* --- kinds of files ------------------------------------------------------------------ */

struct ctl_prog;
extern const struct file_ops dir_ops, path_ops; /* of every file system */
extern const struct file_ops regular_ops, stream_ops;
/* Stream @stream (0, 1, 2) of the program's launcher. */
struct file *stream_open(struct ctl_prog *prog, unsigned int stream, uint32_t flags);
/* Both ends of a new pipe, read end first; @flags: O_NONBLOCK, O_DIRECT. -ENFILE, -ENOMEM. */
int pipe_open(uint32_t flags, struct file *ends[2]) __must_check;
/* For fifo_open() in pipe.h; stat() answers f->attr. */
extern const struct file_ops fifo_ops;
/* --- paths --------------------------------------------------------------------------- */

struct path;
/*
 * Where relative path @rel of descriptor @dfd begins: @from is the caller's to path_put(). *@name,
 * to kfree(), is what a program may call the file: its path as the caller sees it, or a
 * descriptor's for what is outside of his root. An empty @rel is the file behind @dfd itself.
 * -EBADF, -ENAMETOOLONG, -ENOMEM; -EACCES, -ENOTDIR: that has no place.
 */
int path_at_fd(int dfd, const char *rel, struct path *from, char **name) __must_check;
/*
 * Attributes of the whole path @path, whatever the caller's root; @flags of enum walk_flags,
 * @access is checked. attr->file.node is 0 for a file that no storage node has. See "path.h" for
 * more.
 */
int path_lookup(const char *path, uint32_t flags, uint32_t access, struct file_attr *attr,
		char *realpath) __must_check;
/*
 * openat(2) for the calling process, up to the descriptor; @resolve of openat2(2), without
 * RESOLVE_CACHED. ERR_PTR.
 */
struct file *path_open_at(int dfd, uint64_t upath, uint32_t flags, uint32_t mode, uint32_t resolve);
/*
 * The same of a path in kernel memory, for the kernel's own use; no O_PATH, and no other flags that
 * openat() refuses.
 */
struct file *path_open(const char *text, uint32_t flags, uint32_t mode);
/* May the calling process make a file this large? SIGXFSZ and -EFBIG. */
int file_size_allowed(uint64_t size) __must_check;
