/* SPDX-License-Identifier: MIT */
/*
 * Inodes and open files of the tree that pseudo_private.h describes.
 *
 * Inodes are made by each look-up and hold their directory, so that ".." and the path are known.
 * Their numbers are hashes of the path, the same each time. Of a directory there is one at a time,
 * since mounts are found by the inode that they are in.
 *
 * Locking:	dirs.lock (RANK_SPIN_FS) guards the table of directories in use. An open file's
 *		text is guarded by file.lock, which every read and write holds; it has a rank
 *		outside of all others, since show() takes the locks of whatever it describes.
 */
#include "pseudo_private.h"

#include <kernel/panic.h>
#include <kernel/spinlock.h>
#include <lib/err.h>
#include <lib/hash.h>
#include <lib/list.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <processor/account/account.h>
#include <processor/process/process.h>
#include <processor/vfs/file.h>
#include <processor/vfs/path.h>
#include <processor/vfs/uio.h>

#define STORE_MAX 4096u /* bytes of one write */

struct pseudo_inode {
	struct inode inode;
	const struct pseudo_node *node; /* const */
	struct pseudo_subject subject;  /* const */
	struct inode *dir;              /* const, counted; NULL: the root */
	struct hlist_node link;         /* dirs.lock: of a directory that is not the root */
	uint64_t ino;                   /* const */
	char name[];                    /* const */
};

static const struct inode_ops dir_inode_ops, file_inode_ops, link_inode_ops, magic_inode_ops,
	device_inode_ops;

static void pseudo_release(struct inode *inode);

static struct pseudo_inode *pseudo(const struct inode *inode)
{
	ASSERT(inode->ops->release == pseudo_release);
	return container_of(inode, struct pseudo_inode, inode);
}

#define BUCKETS 64u

static struct {
	struct spinlock lock;
	struct hlist_head buckets[BUCKETS] __guarded_by(&lock);
} dirs = { .lock = SPINLOCK_INIT("pseudo.dirs", RANK_SPIN_FS) };

/* --- making them --------------------------------------------------------------------- */

static const struct inode_ops *ops_of(const struct pseudo_node *node)
{
	switch (node->mode & S_IFMT) {
	case S_IFDIR:
		return &dir_inode_ops;
	case S_IFLNK:
		return node->magic_link ? &magic_inode_ops : &link_inode_ops;
	case S_IFCHR:
		return &device_inode_ops;
	default:
		return &file_inode_ops;
	}
}

static uint64_t ino_of(uint64_t dir, const char *name)
{
	/* 48 bits are enough for everybody, and never 0. */
	return (hash64_pair(dir, hash_bytes(name, strlen(name), 0)) >> 16) | 1;
}

static bool same_subject(const struct pseudo_subject *a, const struct pseudo_subject *b)
{
	return a->pid == b->pid && a->tid == b->tid && a->start_ns == b->start_ns && a->nr == b->nr;
}

/* The directory like @p that is in use, with a reference; else @p itself is from here on. */
static struct pseudo_inode *the_only_one(struct pseudo_inode *p)
{
	struct hlist_head *bucket = &dirs.buckets[p->ino / 2 % BUCKETS];
	struct pseudo_inode *q, *found = p;

	ASSERT(p->dir && inode_is_dir(&p->inode) && refcount_read(&p->inode.refs) == 1);
	spin_lock(&dirs.lock);
	hlist_for_each_entry(q, bucket, link) {
		if (q->dir == p->dir && q->node == p->node && !strcmp(q->name, p->name) &&
		    same_subject(&q->subject, &p->subject) &&
		    refcount_inc_not_zero(&q->inode.refs)) {
			found = q;
			break;
		}
	}
	if (found == p)
		hlist_add_head(&p->link, bucket);
	spin_unlock(&dirs.lock);
	ASSERT(found->ino == p->ino && found->inode.type == p->inode.type);
	return found;
}

/* -ENOMEM. @dir is referenced by the result. */
static int make(const struct fs_type *type, const struct pseudo_node *node,
		const struct pseudo_subject *s, struct inode *dir, const char *name,
		struct inode **out)
{
	const size_t len = strlen(name) + 1;
	struct pseudo_inode *p = kmem_alloc(kmem_current(), sizeof(*p) + len);

	ASSERT((node->mode & S_IFMT) && (!dir || inode_is_dir(dir)));
	if (!p)
		return -ENOMEM;
	inode_init(&p->inode, type, ops_of(node), node->mode);
	p->node = node;
	p->subject = *s;
	p->dir = dir;
	p->ino = dir ? ino_of(pseudo(dir)->ino, name) : 1;
	memcpy(p->name, name, len);
	if (dir)
		inode_get(dir);
	*out = &p->inode;
	if (dir && inode_is_dir(&p->inode)) {
		*out = &the_only_one(p)->inode;
		if (*out != &p->inode) {
			inode_put(dir);
			kmem_free(p);
		}
	}
	return 0;
}

int pseudo_root(const struct fs_type *type, const struct pseudo_node *node, struct pid_ns *pid_ns,
		struct inode **out)
{
	const struct pseudo_subject none = { .pid_ns = pid_ns };
	const int err = make(type, node, &none, NULL, "", out);

	if (!err)
		pid_ns_get(pid_ns);
	return err;
}

int pseudo_subject_of(const struct inode *inode, struct pseudo_subject *s)
{
	const struct pseudo_inode *p;

	if (inode->ops != &dir_inode_ops)
		return -EBADF;
	p = pseudo(inode);
	if (!p->dir || pseudo(p->dir)->dir || !p->subject.pid)
		return -EBADF;
	*s = p->subject;
	return 0;
}

static void pseudo_release(struct inode *inode)
{
	struct pseudo_inode *p = pseudo(inode);
	struct inode *dir = p->dir;

	if (dir && inode_is_dir(inode)) {
		spin_lock(&dirs.lock);
		hlist_del(&p->link);
		spin_unlock(&dirs.lock);
	}
	if (!dir)
		pid_ns_put(p->subject.pid_ns);
	kmem_free(p);
	inode_put(dir);
}

static int pseudo_getattr(struct inode *inode, struct file_attr *attr)
{
	const struct pseudo_inode *p = pseudo(inode);
	struct pseudo_owner owner;
	const int err = pseudo_owner(&p->subject, &owner);

	/*
	 * A file of a process that is gone can still be open; it belongs to root then.
	 */
	if (err && err != -ESRCH)
		return err;
	attr->file.ino = p->ino;
	attr->mode = p->node->mode;
	attr->nlink = inode_is_dir(inode) ? 2 : 1;
	attr->uid = p->node->mode == (S_IFDIR | 0555) ? owner.euid : owner.uid;
	attr->gid = p->node->mode == (S_IFDIR | 0555) ? owner.egid : owner.gid;
	attr->rdev = p->node->rdev;
	attr->atime.sec = attr->mtime.sec = attr->ctime.sec = owner.time_s;
	attr->blksize = inode_is_dir(inode) || p->node->rdev ? 4096 : 1024;
	return 0;
}

/* A change of size has no effect: "> file" truncates, and touch is harmless. */
static int pseudo_setattr(struct inode *inode, const struct attr_change *ch)
{
	return (ch->valid & ~(uint32_t)ATTR_SIZE) ? -EPERM : 0;
}

static int pseudo_text(struct inode *inode, char *buf, size_t size)
{
	struct pseudo_owner owner;
	size_t len = 0, at;

	if (pseudo_owner(&pseudo(inode)->subject, &owner))
		return -ENOENT;
	for (const struct pseudo_inode *p = pseudo(inode); p->dir; p = pseudo(p->dir))
		len += 1 + strlen(p->name);
	if (len >= size)
		return -EINVAL;
	buf[len] = '\0';
	at = len;
	for (const struct pseudo_inode *p = pseudo(inode); p->dir; p = pseudo(p->dir)) {
		at -= strlen(p->name);
		memcpy(buf + at, p->name, strlen(p->name));
		buf[--at] = '/';
	}
	return 0;
}

/* --- directories --------------------------------------------------------------------- */

static bool node_exists(const struct pseudo_node *node, const struct pseudo_subject *s)
{
	return !node->exists || node->exists(s);
}

static int dir_lookup(struct inode *dir, const char *name, size_t len, struct inode **out)
{
	const struct pseudo_inode *d = pseudo(dir);
	const struct pseudo_dynamic *dyn = d->node->dynamic;
	struct pseudo_subject s = d->subject;
	char text[PSEUDO_NAME_MAX];
	struct pseudo_owner owner;
	int err;

	if (pseudo_owner(&s, &owner)) /* of a process that is gone */
		return -ENOENT;
	for (const struct pseudo_node *n = d->node->children; n && n->name; n++) {
		if (strlen(n->name) == len && memcmp(n->name, name, len) == 0)
			return node_exists(n, &s) ? make(dir->type, n, &s, dir, n->name, out)
						  : -ENOENT;
	}
	if (!dyn || len >= sizeof(text))
		return -ENOENT;
	memcpy(text, name, len);
	text[len] = '\0';
	err = dyn->find(&s, text);
	return err ? err : make(dir->type, dyn->node, &s, dir, text, out);
}

static int dir_parent(struct inode *dir, struct inode **out)
{
	*out = pseudo(dir)->dir ? pseudo(dir)->dir : dir; /* listing the root asks, too */
	inode_get(*out);
	return 0;
}

#define FIRST_POS   2ull         /* 0 and 1 are the caller's */
#define DYNAMIC_POS (1ull << 32) /* positions of dynamic names begin here */

static int emit_dynamic(const struct pseudo_inode *d, uint64_t pos, struct dir_sink *sink)
{
	const struct pseudo_dynamic *dyn = d->node->dynamic;
	uint64_t nr = pos - DYNAMIC_POS;
	char name[PSEUDO_NAME_MAX];
	int err;

	while ((err = dyn->next(&d->subject, &nr, name)) == 0) {
		ASSERT(DYNAMIC_POS + nr > pos); /* or listing would never end */
		if (!dir_emit(sink, name, strlen(name), ino_of(d->ino, name),
			      fs_dtype_of_mode(dyn->node->mode), DYNAMIC_POS + nr))
			return 0;
	}
	return err == -ENOENT ? 0 : err;
}

static int dir_readdir(struct inode *dir, uint64_t *pos, struct dir_sink *sink)
{
	const struct pseudo_inode *d = pseudo(dir);
	struct pseudo_owner owner;
	uint64_t at = FIRST_POS;

	ASSERT(*pos >= FIRST_POS);
	if (pseudo_owner(&d->subject, &owner))
		return -ENOENT;
	for (const struct pseudo_node *n = d->node->children; n && n->name; n++, at++) {
		if (at < *pos || !node_exists(n, &d->subject))
			continue;
		if (!dir_emit(sink, n->name, strlen(n->name), ino_of(d->ino, n->name),
			      fs_dtype_of_mode(n->mode), at + 1))
			return 0;
	}
	return d->node->dynamic ? emit_dynamic(d, MAX(*pos, DYNAMIC_POS), sink) : 0;
}

/* A process that is not dumpable finds its own descriptors all the same, as on Linux. */
static bool dir_is_callers(const struct inode *inode)
{
	const struct pseudo_inode *p = pseudo(inode);

	return p->subject.pid && pseudo_is_own(&p->subject);
}

static const struct inode_ops dir_inode_ops = {
	.name = "pseudo directory",
	.is_callers = dir_is_callers,
	.getattr = pseudo_getattr,
	.setattr = pseudo_setattr,
	.release = pseudo_release,
	.lookup = dir_lookup,
	.parent = dir_parent,
	.readdir = dir_readdir,
	.text = pseudo_text,
};

/* --- links --------------------------------------------------------------------------- */

static int check_trace(const struct pseudo_inode *p)
{
	return p->node->traced ? pseudo_may_trace(&p->subject) : 0;
}

static ssize_t link_readlink(struct inode *link, char *buf, size_t size)
{
	const struct pseudo_inode *p = pseudo(link);
	struct text t = { 0 };
	int err = check_trace(p);
	size_t len;

	if (!err)
		err = p->node->link(&t, &p->subject);
	if (!err)
		err = t.err;
	len = MIN(t.len, size);
	if (!err && len)
		memcpy(buf, t.buf, len);
	text_free(&t);
	return err ? err == -ESRCH ? -ENOENT : err : (ssize_t)len;
}

static int link_magic(struct inode *link, struct path *to)
{
	const struct pseudo_inode *p = pseudo(link);
	int err = check_trace(p);

	if (!err)
		err = p->node->magic_link(&p->subject, to);
	return err == -ESRCH ? -ENOENT : err;
}

static const struct inode_ops link_inode_ops = {
	.name = "pseudo link",
	.getattr = pseudo_getattr,
	.setattr = pseudo_setattr,
	.release = pseudo_release,
	.readlink = link_readlink,
	.text = pseudo_text,
};

static const struct inode_ops magic_inode_ops = {
	.name = "pseudo magic link",
	.getattr = pseudo_getattr,
	.setattr = pseudo_setattr,
	.release = pseudo_release,
	.readlink = link_readlink,
	.magic_link = link_magic,
	.text = pseudo_text,
};

/* --- files --------------------------------------------------------------------------- */

static ssize_t pseudo_read(struct file *f, struct uio *uio, uint64_t *pos)
{
	const struct pseudo_inode *p = pseudo(f->inode);
	struct text *t = f->private;
	size_t want, moved;
	int err;

	if (!p->node->show)
		return -EINVAL;
	if (*pos == 0 || !t->buf) {
		text_free(t);
		/* It may run another program by now, which the reader may not look into. */
		err = check_trace(p);
		if (!err)
			err = p->node->show(t, &p->subject);
		if (!err)
			err = t->err;
		if (err) {
			text_free(t);
			return err;
		}
	}
	if (*pos >= t->len)
		return 0;
	ASSERT(t->buf && t->len <= t->size);
	want = (size_t)MIN((uint64_t)(t->len - *pos), uio->left);
	moved = uio_put(uio, t->buf + *pos, want);
	*pos += moved;
	return moved || !want ? (ssize_t)moved : -EFAULT;
}

static ssize_t pseudo_write(struct file *f, struct uio *uio, uint64_t *pos)
{
	const struct pseudo_inode *p = pseudo(f->inode);
	const size_t len = (size_t)uio->left;
	char *buf;
	int err;

	if (!p->node->store)
		return -EINVAL;
	if (len > STORE_MAX)
		return -EINVAL;
	buf = kmalloc(len + 1);
	if (!buf)
		return -ENOMEM;
	err = uio_fetch(uio, buf, len) == len ? 0 : -EFAULT;
	buf[len] = '\0';
	if (!err)
		err = p->node->store(&p->subject, buf, len);
	kfree(buf);
	if (err)
		return err;
	*pos += len;
	return (ssize_t)len;
}

static int pseudo_stat(struct file *f, struct file_attr *attr)
{
	return inode_getattr(f->inode, attr);
}

static void pseudo_close(struct file *f)
{
	text_free(f->private);
	kmem_free(f->private);
}

static const struct file_ops pseudo_file_ops = {
	.name = "pseudo file",
	.read = pseudo_read,
	.write = pseudo_write,
	.stat = pseudo_stat,
	.release = pseudo_close,
	.seekable = true,
};

const struct pseudo_subject *pseudo_subject_of_file(const struct file *f)
{
	return &pseudo(f->inode)->subject;
}

static int file_open(struct inode *inode, struct file *f)
{
	const struct pseudo_inode *p = pseudo(inode);
	struct pseudo_owner owner;
	struct text *t;
	int err = check_trace(p);

	if (!err)
		err = pseudo_owner(&p->subject, &owner); /* is it still there? */
	if (err)
		return err;
	mutex_init(&f->lock, "pseudo.file", RANK_PSEUDO_FILE);
	if (p->node->opened)
		return p->node->opened(f);
	if (p->node->ops) {
		f->ops = p->node->ops;
		return 0;
	}
	t = kmem_alloc(kmem_current(), sizeof(*t));
	if (!t)
		return -ENOMEM;
	t->account = kmem_current();
	f->private = t;
	f->ops = &pseudo_file_ops;
	return 0;
}

static const struct inode_ops file_inode_ops = {
	.name = "pseudo file",
	.getattr = pseudo_getattr,
	.setattr = pseudo_setattr,
	.release = pseudo_release,
	.open = file_open,
	.text = pseudo_text,
};

static int device_open(struct inode *inode, struct file *f)
{
	const struct pseudo_inode *p = pseudo(inode);

	return p->node->open ? p->node->open(inode, f) : -ENXIO;
}

static const struct inode_ops device_inode_ops = {
	.name = "device",
	.getattr = pseudo_getattr,
	.setattr = pseudo_setattr,
	.release = pseudo_release,
	.open = device_open,
	.text = pseudo_text,
};
