/* SPDX-License-Identifier: MIT */
/*
 * /proc/<pid>/fd and fdinfo: the open files of a process.
 *
 * Flow:	a link leads to the file itself, not to its name. Opening it opens an inode again;
 *		a pipe gets another end; a stream of the launcher is shared, because the launcher
 *		knows one user of each stream: both descriptors then have one set of flags.
 */
#include <fs/stat.h>
#include <kernel/panic.h>
#include <lib/err.h>
#include <lib/fmt.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <processor/account/account.h>
#include <processor/ipc/pipe.h>
#include <processor/process/process.h>
#include <processor/vfs/file.h>
#include <processor/vfs/path.h>
#include <processor/vfs/uio.h>

#include "proc_private.h"

static int find_fd(struct pseudo_subject *s, const char *name);
static int next_fd(const struct pseudo_subject *s, uint64_t *nr, char name[PSEUDO_NAME_MAX]);

/* The table of @s, counted: of its thread, or of any one of the process. -ESRCH */
static int table_of(const struct pseudo_subject *s, struct files **out)
{
	struct proc_ref ref;
	const int err = proc_get(s, &ref);

	if (err)
		return err;
	*out = process_files(ref.process);
	proc_put(&ref);
	return *out ? 0 : -ESRCH;
}

static int file_of(const struct pseudo_subject *s, struct file **out)
{
	struct files *fs;
	const int err = table_of(s, &fs);

	if (err)
		return err;
	*out = files_get(fs, (int)s->nr);
	files_put(fs);
	return *out ? 0 : -ENOENT;
}

static int find_fd(struct pseudo_subject *s, const char *name)
{
	struct file *f;
	uint32_t fd;
	int err;

	if ((name[0] == '0' && name[1]) || name[0] < '0' || name[0] > '9' ||
	    kstrtou32(name, 10, &fd) || fd > INT32_MAX)
		return -ENOENT;
	s->nr = fd;
	err = file_of(s, &f);
	if (!err)
		file_put(f);
	return err;
}

static int next_fd(const struct pseudo_subject *s, uint64_t *nr, char name[PSEUDO_NAME_MAX])
{
	struct files *fs;
	int fd, err;

	if (*nr > INT32_MAX)
		return -ENOENT;
	err = table_of(s, &fs);
	if (err)
		return err;
	fd = files_next(fs, (int)*nr);
	files_put(fs);
	if (fd < 0)
		return -ENOENT;
	ASSERT((uint64_t)fd >= *nr);
	snprintf(name, PSEUDO_NAME_MAX, "%d", fd);
	*nr = (uint64_t)fd + 1;
	return 0;
}

/* --- names --------------------------------------------------------------------------- */

static int put_path(struct text *t, struct file *f)
{
	const struct path at = { .inode = f->inode, .mnt = f->mnt, .text = f->path };
	char *buf = kmalloc(FS_PATH_MAX);
	bool outside;
	int err;

	if (!buf)
		return -ENOMEM;
	err = path_text_for(fs_current(), &at, buf, &outside);
	text_puts(t, buf);
	if (err == -ENOENT)
		text_puts(t, " (deleted)");
	kfree(buf);
	return 0;
}

static int put_name(struct text *t, struct file *f)
{
	struct file_attr attr = { 0 };
	int err;

	if (f->path)
		return put_path(t, f);
	err = f->ops->stat(f, &attr);
	if (err)
		return err;
	switch (attr.mode & S_IFMT) {
	case S_IFIFO:
		text_printf(t, "pipe:[%llu]", (unsigned long long)attr.file.ino);
		break;
	case S_IFSOCK:
		text_printf(t, "socket:[%llu]", (unsigned long long)attr.file.ino);
		break;
	default:
		text_printf(t, "anon_inode:[%s]", f->ops->name);
		break;
	}
	return 0;
}

static int fd_link(struct text *t, const struct pseudo_subject *s)
{
	struct file *f;
	int err = file_of(s, &f);

	if (err)
		return err;
	err = put_name(t, f);
	file_put(f);
	return err;
}

/* --- opening again ------------------------------------------------------------------- */

/* The inode of an open file that has none of its own. */
struct handle {
	struct inode inode;
	struct file *file; /* counted */
};

static struct file *handle_file(const struct inode *inode)
{
	return container_of(inode, struct handle, inode)->file;
}

static int handle_getattr(struct inode *inode, struct file_attr *attr)
{
	struct file *f = handle_file(inode);

	return f->ops->stat(f, attr);
}

static void handle_release(struct inode *inode)
{
	struct handle *h = container_of(inode, struct handle, inode);

	file_put(h->file);
	kmem_free(h);
}

static int handle_setattr(struct inode *inode, const struct attr_change *ch)
{
	return (ch->valid & ~(uint32_t)ATTR_SIZE) ? -EPERM : 0;
}

static ssize_t shared_read(struct file *f, struct uio *uio, uint64_t *pos)
{
	return file_read(f->private, uio, pos);
}

static ssize_t shared_write(struct file *f, struct uio *uio, uint64_t *pos)
{
	return file_write(f->private, uio, pos);
}

static int shared_stat(struct file *f, struct file_attr *attr)
{
	struct file *to = f->private;

	return to->ops->stat(to, attr);
}

static long shared_ioctl(struct file *f, uint32_t cmd, uint64_t arg)
{
	struct file *to = f->private;

	return to->ops->ioctl ? to->ops->ioctl(to, cmd, arg) : -ENOTTY;
}

static unsigned int shared_poll(struct file *f)
{
	struct file *to = f->private;

	return to->ops->poll(to);
}

static struct waitqueue *shared_poll_wait(struct file *f)
{
	struct file *to = f->private;

	return to->ops->poll_wait ? to->ops->poll_wait(to) : NULL;
}

static void shared_release(struct file *f)
{
	file_put(f->private);
}

static const struct file_ops shared_ops = {
	.name = "stream",
	.read = shared_read,
	.write = shared_write,
	.stat = shared_stat,
	.ioctl = shared_ioctl,
	.poll = shared_poll,
	.poll_wait = shared_poll_wait,
	.release = shared_release,
};

/* Another end of a pipe that is open: unlike that of a FIFO, this open does not wait. */
static int reopen_pipe(struct file *f, struct file *to, struct pipe *pipe)
{
	const bool nonblock = file_nonblock(f);
	int err = to->ops->stat(to, &f->attr);

	if (err)
		return err;
	f->ops = &fifo_ops;
	file_change_flags(f, 0, O_NONBLOCK);
	err = fifo_open(f, pipe);
	if (!nonblock)
		file_change_flags(f, O_NONBLOCK, 0);
	return err;
}

static int handle_open(struct inode *inode, struct file *f)
{
	struct file *to = handle_file(inode);
	struct pipe *pipe = pipe_of(to);

	if (pipe)
		return reopen_pipe(f, to, pipe);
	if (to->ops != &stream_ops)
		return -ENXIO; /* as Linux: what has no name cannot be opened again */
	if ((file_readable(f) && !file_readable(to)) || (file_writable(f) && !file_writable(to)))
		return -EACCES;
	file_get(to);
	f->private = to;
	f->ops = &shared_ops;
	return 0;
}

static const struct inode_ops handle_ops = {
	.name = "open file",
	.getattr = handle_getattr,
	.release = handle_release,
	.setattr = handle_setattr,
	.open = handle_open,
};

static struct fs_type handle_type = { .name = "anon_inodefs", .at = "" };

/* Takes over @f on success. */
static int link_to_handle(struct file *f, struct path *to)
{
	struct handle *h = kmem_alloc(kmem_current(), sizeof(*h));
	struct text name = { 0 };
	int err = h ? f->ops->stat(f, &to->attr) : -ENOMEM;

	if (!err)
		err = put_name(&name, f);
	text_putc(&name, '\0');
	if (!err)
		err = name.err;
	if (err) {
		text_free(&name);
		kmem_free(h);
		return err;
	}
	ASSERT(!f->path); /* a file with a path has an inode */
	h->file = f;
	inode_init(&h->inode, &handle_type, &handle_ops, to->attr.mode);
	to->inode = &h->inode;
	to->text = name.buf;
	return 0;
}

static int fd_magic_link(const struct pseudo_subject *s, struct path *to)
{
	struct file *f;
	int err = file_of(s, &f);

	if (err)
		return err;
	if (!f->path) {
		err = link_to_handle(f, to);
		if (err)
			file_put(f);
		return err;
	}
	ASSERT(f->inode);
	to->text = kstrdup(f->path);
	if (to->text) {
		inode_get(f->inode);
		to->inode = f->inode;
		to->mnt = f->mnt;
		if (to->mnt)
			mount_get(to->mnt);
	}
	file_put(f);
	return to->text ? 0 : -ENOMEM;
}

static const struct pseudo_node fd_node = {
	.mode = S_IFLNK | 0700,
	.traced = true,
	.link = fd_link,
	.magic_link = fd_magic_link,
};
const struct pseudo_dynamic proc_fds = { .node = &fd_node, .find = find_fd, .next = next_fd };

/* --- fdinfo -------------------------------------------------------------------------- */

/* A descriptor of a process: its numbers from the tree's namespace inwards; -1: it is gone. */
static void put_pidfd(struct text *t, const struct pseudo_subject *s, const struct process *p)
{
	uint32_t nrs[PID_NS_LEVELS + 1] = { 0 }, n = 0;
	const struct pid *pid;

	spin_lock(&p->vnode->lock);
	pid = p->pid_entry;
	if (pid) {
		nrs[n++] = pid_nr_in(pid, s->pid_ns);
		for (uint32_t i = pid_ns_level(s->pid_ns); nrs[0] && i < pid->level; i++)
			nrs[n++] = pid->inner[i].nr;
	}
	spin_unlock(&p->vnode->lock);
	if (!n) {
		text_puts(t, "Pid:\t-1\nNSpid:\t-1\n");
		return;
	}
	text_printf(t, "Pid:\t%u\nNSpid:", nrs[0]);
	for (uint32_t i = 0; i < n; i++)
		text_printf(t, "\t%u", nrs[i]);
	text_puts(t, "\n");
}

SHOW(show_pid_fdinfo)
{
	struct file_attr attr = { 0 };
	struct files *fs;
	bool cloexec = false;
	struct file *f;
	int err = file_of(s, &f);

	if (err)
		return err;
	err = table_of(s, &fs);
	if (!err) {
		if (files_get_cloexec(fs, (int)s->nr, &cloexec))
			cloexec = false;
		files_put(fs);
	}
	if (!err)
		err = f->ops->stat(f, &attr);
	if (!err)
		text_printf(t, "pos:\t%llu\nflags:\t0%o\nmnt_id:\t%llu\nino:\t%llu\n",
			    (unsigned long long)READ_ONCE(f->pos),
			    READ_ONCE(f->flags) | (cloexec ? O_CLOEXEC : 0),
			    (unsigned long long)(attr.fsid & 0xffff),
			    (unsigned long long)attr.file.ino);
	if (!err && pidfd_process_of(f))
		put_pidfd(t, s, pidfd_process_of(f));
	file_put(f);
	return err;
}

static const struct pseudo_node fdinfo_node = {
	.mode = S_IFREG | 0444,
	.traced = true,
	.show = show_pid_fdinfo,
};
const struct pseudo_dynamic proc_fdinfos = { .node = &fdinfo_node,
					     .find = find_fd,
					     .next = next_fd };
