/* SPDX-License-Identifier: MIT */
/*
 * For tests: a file system in memory that can be changed.
 *
 * Locking:	one mutex for all of it.
 * Limits:	no contents but sizes; no extended attributes but those of "user.".
 */
#include "memfs_test.h"

#include <abi/fcntl.h>
#include <abi/xattr.h>
#include <kernel/mutex.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/list.h>
#include <lib/string.h>
#include <mm/slab.h>

struct memfs {
	struct fs fs;
	struct mutex lock;
	struct list_head nodes;
	struct list_head done; /* struct done_change */
	uint64_t next_ino;
	int fail, fail_once;
	unsigned int skip;
	bool journal;
	bool keep; /* files without a name stay, as after a start again */
	uint32_t rooms;
};

struct node {
	struct fs_inode in;
	struct list_head link;
	struct list_head entries; /* of a directory */
	struct node *parent;      /* of a directory */
	struct fs_stat st;
	unsigned int refs, open_refs;
	char *target;
	char xattr_name[32], xattr_value[32];
	size_t xattr_name_len, xattr_len;
	bool nameless;
};

struct entry {
	struct list_head link;
	struct node *node;
	size_t len;
	char name[];
};

struct done_change {
	struct list_head link;
	uint64_t client, seq;
	struct fs_done done;
};

static const struct fs_ops ops;
static const struct fs_write_ops write_ops;

static struct node *node_of(const struct fs_inode *in)
{
	return container_of(in, struct node, in);
}

static struct memfs *memfs_of(const struct fs *fs)
{
	return container_of(fs, struct memfs, fs);
}

static struct memfs *mine(const struct fs_inode *in)
{
	return memfs_of(in->fs);
}

static void free_node(struct node *n)
{
	list_del(&n->link);
	kfree(n->target);
	kfree(n);
}

static void maybe_free(struct node *n)
{
	if (!n->refs && !n->open_refs && !n->st.nlink && !mine(&n->in)->keep)
		free_node(n);
}

static struct node *new_node(struct memfs *m, uint32_t mode, const struct fs_change *ch)
{
	struct node *n = kzalloc(sizeof(*n));

	n->in.ops = &ops;
	n->in.fs = &m->fs;
	list_init(&n->entries);
	n->st = (struct fs_stat){ .ino = m->next_ino++,
				  .gen = 7,
				  .mode = mode,
				  .nlink = 1,
				  .blksize = 4096,
				  .max_size = INT64_MAX };
	if (ch) {
		n->st.uid = ch->uid;
		n->st.gid = ch->gid;
		n->st.atime = n->st.mtime = n->st.ctime = ch->now;
	}
	list_add_tail(&n->link, &m->nodes);
	return n;
}

static struct entry *find_entry(struct node *dir, const char *name, size_t len)
{
	struct entry *e;

	list_for_each_entry(e, &dir->entries, link) {
		if (e->len == len && !memcmp(e->name, name, len))
			return e;
	}
	return NULL;
}

static void add_entry(struct node *dir, const char *name, size_t len, struct node *n)
{
	struct entry *e = kmalloc(sizeof(*e) + len);

	e->node = n;
	e->len = len;
	memcpy(e->name, name, len);
	list_add_tail(&e->link, &dir->entries);
	if ((n->st.mode & S_IFMT) == S_IFDIR)
		n->parent = dir;
}

static void drop_entry(struct entry *e)
{
	list_del(&e->link);
	kfree(e);
}

/* --- asking ------------------------------------------------------------------------------- */

static struct fs_inode *op_inode_get(struct fs *fs, uint64_t ino, uint64_t gen)
{
	struct memfs *m = memfs_of(fs);
	struct fs_inode *in = ERR_PTR(-ESTALE);
	struct node *n;

	mutex_lock(&m->lock);
	list_for_each_entry(n, &m->nodes, link) {
		if (n->st.ino == ino && (gen == FS_ANY_GEN || gen == n->st.gen)) {
			n->refs++;
			in = &n->in;
		}
	}
	mutex_unlock(&m->lock);
	return in;
}

static void op_inode_put(struct fs_inode *in)
{
	struct memfs *m = mine(in);

	mutex_lock(&m->lock);
	node_of(in)->refs--;
	maybe_free(node_of(in));
	mutex_unlock(&m->lock);
}

static void op_stat(const struct fs_inode *in, struct fs_stat *out)
{
	*out = node_of(in)->st;
}

static struct fs_inode *op_lookup(struct fs_inode *dir, const char *name, size_t len,
				  struct fs_place *place)
{
	struct memfs *m = mine(dir);
	struct entry *e;

	if (place)
		*place = (struct fs_place){ .dir = NULL };
	if ((node_of(dir)->st.mode & S_IFMT) != S_IFDIR)
		return ERR_PTR(-ENOTDIR);
	mutex_lock(&m->lock);
	e = find_entry(node_of(dir), name, len);
	if (e)
		e->node->refs++;
	mutex_unlock(&m->lock);
	return e ? &e->node->in : ERR_PTR(-ENOENT);
}

static int op_readlink(struct fs_inode *in, char *buf, size_t *len)
{
	if (!node_of(in)->target)
		return -EINVAL;
	*len = strlcpy(buf, node_of(in)->target, FS_PATH_MAX);
	return 0;
}

static int op_readdir(struct fs_inode *dir, uint64_t *cookie, uint64_t behind, fs_fill_fn fill,
		      void *arg)
{
	(void)dir, (void)cookie, (void)behind, (void)fill, (void)arg;
	return -EOPNOTSUPP;
}

static int op_read_pages(struct fs_inode *in, uint64_t index, void *const *pages, unsigned int nr)
{
	(void)in, (void)index, (void)pages, (void)nr;
	return -EOPNOTSUPP;
}

static int64_t op_xattr_get(struct fs_inode *in, const char *name, size_t len, void *buf,
			    size_t size)
{
	const struct node *n = node_of(in);

	if (n->xattr_name_len != len || memcmp(n->xattr_name, name, len) != 0)
		return -ENODATA;
	if (size < n->xattr_len)
		return -ERANGE;
	memcpy(buf, n->xattr_value, n->xattr_len);
	return (int64_t)n->xattr_len;
}

static int64_t op_xattr_list(struct fs_inode *in, char *buf, size_t size)
{
	const struct node *n = node_of(in);

	if (!n->xattr_name_len)
		return 0;
	if (size < n->xattr_name_len + 1)
		return -ERANGE;
	memcpy(buf, n->xattr_name, n->xattr_name_len);
	buf[n->xattr_name_len] = '\0';
	return (int64_t)n->xattr_name_len + 1;
}

static int64_t op_seek(struct fs_inode *in, uint64_t off, int whence)
{
	(void)in, (void)off, (void)whence;
	return -ENXIO;
}

static void op_statfs(struct fs *fs, struct fs_statfs *out)
{
	(void)fs;
	*out = (struct fs_statfs){ .magic = 0xef53, .bsize = 4096, .name_max = 255, .fsid = 99 };
}

static void op_counts(struct fs *fs, struct fs_counts *out)
{
	(void)fs;
	*out = (struct fs_counts){ 0 };
}

static void op_unmount(struct fs *fs)
{
	struct memfs *m = memfs_of(fs);
	struct done_change *d, *next_done;
	struct node *n, *next;

	list_for_each_entry_safe(n, next, &m->nodes, link) {
		struct entry *e, *next_entry;

		list_for_each_entry_safe(e, next_entry, &n->entries, link)
			drop_entry(e);
		free_node(n);
	}
	list_for_each_entry_safe(d, next_done, &m->done, link)
		kfree(d);
	kfree(m);
}

static const struct fs_ops ops = {
	.name = "memfs",
	.unmount = op_unmount,
	.statfs = op_statfs,
	.counts = op_counts,
	.inode_get = op_inode_get,
	.inode_put = op_inode_put,
	.stat = op_stat,
	.lookup = op_lookup,
	.readdir = op_readdir,
	.readlink = op_readlink,
	.read_pages = op_read_pages,
	.xattr_get = op_xattr_get,
	.xattr_list = op_xattr_list,
	.seek = op_seek,
};

/* --- changing ----------------------------------------------------------------------------- */

/* Begin a change: 0, or the error that the test asked for. */
static int begin(struct memfs *m)
{
	int err = m->fail;

	if (m->fail_once && !m->skip--) {
		err = m->fail_once;
		m->fail_once = 0;
	}
	mutex_lock(&m->lock);
	if (err)
		mutex_unlock(&m->lock);
	return err;
}

static void end(struct memfs *m, const struct fs_change *ch, const struct node *n)
{
	struct done_change *d = m->journal ? kzalloc(sizeof(*d)) : NULL;

	if (d) {
		d->client = ch->client;
		d->seq = ch->seq;
		d->done.ino = n ? n->st.ino : 0;
		d->done.gen = n ? n->st.gen : 0;
		list_add(&d->link, &m->done);
	}
	mutex_unlock(&m->lock);
}

static bool find_ino(struct memfs *m, uint64_t ino)
{
	struct node *n;

	list_for_each_entry(n, &m->nodes, link) {
		if (n->st.ino == ino)
			return true;
	}
	return false;
}

static uint32_t op_rooms(struct fs *fs, uint32_t nr)
{
	memfs_of(fs)->rooms = nr;
	return nr;
}

/* Numbers that are not given out otherwise. */
static int op_lend(struct fs_inode *dir, uint32_t nr, struct fs_lent *out)
{
	struct memfs *m = mine(dir);

	mutex_lock(&m->lock);
	for (uint32_t i = 0; i < nr; i++)
		out[i] = (struct fs_lent){ .ino = m->next_ino++, .gen = 8 };
	mutex_unlock(&m->lock);
	return (int)nr;
}

static void op_unlend_all(struct fs *fs)
{
	(void)fs;
}

static struct fs_inode *op_create(struct fs_inode *dir, const char *name, size_t len,
				  const struct fs_new *what, const struct fs_change *ch)
{
	struct memfs *m = mine(dir);
	const int err = begin(m);
	struct node *n;

	if (err)
		return ERR_PTR(err);
	if (find_entry(node_of(dir), name, len)) {
		mutex_unlock(&m->lock);
		return ERR_PTR(-EEXIST);
	}
	if (what->ino && find_ino(m, what->ino)) {
		mutex_unlock(&m->lock);
		return ERR_PTR(-EEXIST);
	}
	n = new_node(m, what->mode, ch);
	if (what->ino)
		n->st.ino = what->ino;
	if (what->gen)
		n->st.gen = what->gen;
	m->rooms -= ch->room && m->rooms;
	n->st.rdev_major = what->rdev_major;
	n->st.rdev_minor = what->rdev_minor;
	n->refs = 1;
	if ((what->mode & S_IFMT) == S_IFDIR) {
		n->st.nlink = 2;
		node_of(dir)->st.nlink++;
	}
	if (what->target_len) {
		n->target = kzalloc(what->target_len + 1);
		memcpy(n->target, what->target, what->target_len);
	}
	add_entry(node_of(dir), name, len, n);
	end(m, ch, n);
	return &n->in;
}

static struct fs_inode *op_tmpfile(struct fs_inode *dir, const struct fs_new *what,
				   const struct fs_change *ch)
{
	struct memfs *m = mine(dir);
	const int err = begin(m);
	struct node *n;

	if (err)
		return ERR_PTR(err);
	n = new_node(m, what->mode, ch);
	n->st.nlink = 0;
	n->refs = 1;
	n->nameless = true;
	end(m, ch, n);
	return &n->in;
}

static int op_link(struct fs_inode *in, struct fs_inode *dir, const char *name, size_t len,
		   const struct fs_change *ch)
{
	struct memfs *m = mine(dir);
	const int err = begin(m);

	if (err)
		return err;
	node_of(in)->st.nlink++;
	add_entry(node_of(dir), name, len, node_of(in));
	end(m, ch, node_of(in));
	return 0;
}

static void lose_name(struct node *dir, struct entry *e)
{
	struct node *n = e->node;

	drop_entry(e);
	if ((n->st.mode & S_IFMT) == S_IFDIR) {
		n->st.nlink = 0;
		dir->st.nlink--;
	} else {
		n->st.nlink--;
	}
	maybe_free(n);
}

static int remove_entry(struct fs_inode *dir, const char *name, size_t len,
			const struct fs_change *ch)
{
	struct memfs *m = mine(dir);
	int err = begin(m);
	struct node *n;
	struct entry *e;

	if (err)
		return err;
	e = find_entry(node_of(dir), name, len);
	err = !e ? -ENOENT : !list_empty(&e->node->entries) ? -ENOTEMPTY : 0;
	if (err) {
		mutex_unlock(&m->lock);
		return err;
	}
	n = e->node;
	n->refs++; /* for the record */
	lose_name(node_of(dir), e);
	end(m, ch, n);
	op_inode_put(&n->in);
	return 0;
}

static int op_rename(struct fs_inode *from, const char *name, size_t len, struct fs_inode *to,
		     const char *to_name, size_t to_len, uint32_t flags, const struct fs_change *ch)
{
	struct memfs *m = mine(from);
	int err = begin(m);
	struct entry *a, *b;
	struct node *n;

	if (err)
		return err;
	a = find_entry(node_of(from), name, len);
	b = find_entry(node_of(to), to_name, to_len);
	n = b ? b->node : NULL;
	if (ch->room && !m->rooms) {
		mutex_unlock(&m->lock);
		return -ENOSPC;
	}
	m->rooms -= ch->room;
	if (b && (flags & RENAME_EXCHANGE)) {
		b->node = a->node;
		a->node = n;
	} else if (b && !list_empty(&n->entries)) {
		mutex_unlock(&m->lock);
		return -ENOTEMPTY;
	} else {
		if (b) {
			n->refs++;
			lose_name(node_of(to), b);
		}
		add_entry(node_of(to), to_name, to_len, a->node);
		drop_entry(a);
	}
	end(m, ch, n);
	if (b && !(flags & RENAME_EXCHANGE))
		op_inode_put(&n->in);
	return 0;
}

static int op_setattr(struct fs_inode *in, const struct fs_attr *attr, const struct fs_change *ch)
{
	struct memfs *m = mine(in);
	struct fs_stat *s = &node_of(in)->st;
	const int err = begin(m);

	if (err)
		return err;
	if (attr->mask & FS_SET_MODE)
		s->mode = (s->mode & S_IFMT) | attr->mode;
	if (attr->mask & FS_SET_UID)
		s->uid = attr->uid;
	if (attr->mask & FS_SET_GID)
		s->gid = attr->gid;
	if (attr->mask & FS_SET_SIZE)
		s->size = attr->size;
	if (attr->mask & FS_SET_FLAGS)
		s->attrs = attr->flags;
	if (attr->mask & FS_SET_ATIME)
		s->atime = attr->atime;
	if (attr->mask & FS_SET_MTIME)
		s->mtime = attr->mtime;
	if (attr->mask & FS_SET_WRITTEN)
		s->mtime = ch->now;
	s->ctime = ch->now;
	end(m, ch, node_of(in));
	return 0;
}

static int op_xattr_set(struct fs_inode *in, const struct fs_xattr *x, uint32_t flags,
			const struct fs_change *ch)
{
	struct memfs *m = mine(in);
	struct node *n = node_of(in);
	int err = begin(m);

	if (err)
		return err;
	if (n->xattr_name_len && (flags & XATTR_CREATE))
		err = -EEXIST;
	else if (!n->xattr_name_len && ((flags & XATTR_REPLACE) || !x->value))
		err = -ENODATA;
	if (err) {
		mutex_unlock(&m->lock);
		return err;
	}
	if (x->drops_setgid)
		n->st.mode &= ~02000u;
	n->xattr_name_len = x->value ? x->name_len : 0;
	memcpy(n->xattr_name, x->name, n->xattr_name_len);
	n->xattr_len = x->value ? x->value_len : 0;
	memcpy(n->xattr_value, x->value ? x->value : "", n->xattr_len);
	end(m, ch, n);
	return 0;
}

static int op_fallocate(struct fs_inode *in, uint32_t mode, uint64_t off, uint64_t len,
			const struct fs_change *ch)
{
	struct memfs *m = mine(in);
	const int err = begin(m);

	if (err)
		return err;
	if (!(mode & FALLOC_FL_KEEP_SIZE))
		node_of(in)->st.size = MAX(node_of(in)->st.size, off + len);
	end(m, ch, node_of(in));
	return 0;
}

static int op_write_pages(struct fs_inode *in, uint64_t off, uint64_t len, void *const *pages,
			  uint64_t new_size, const struct fs_change *ch)
{
	(void)in, (void)off, (void)len, (void)pages, (void)new_size, (void)ch;
	return -EOPNOTSUPP;
}

static int op_promise(struct fs_inode *in, struct fs_promise *p, const struct fs_change *ch)
{
	(void)in, (void)ch;
	p->covered = p->nr;
	return 0;
}

static int op_fsync(struct fs_inode *in, bool datasync)
{
	(void)in, (void)datasync;
	return 0;
}

static int op_sync(struct fs *fs)
{
	(void)fs;
	return 0;
}

static int op_change_find(struct fs *fs, uint64_t client, uint64_t seq, struct fs_done *done)
{
	struct memfs *m = memfs_of(fs);
	struct done_change *d;
	int err = -ENOENT;

	mutex_lock(&m->lock);
	list_for_each_entry(d, &m->done, link) {
		if (d->client == client && d->seq == seq) {
			*done = d->done;
			err = 0;
		}
	}
	mutex_unlock(&m->lock);
	return err;
}

static void op_open_ref(struct fs_inode *in)
{
	struct memfs *m = mine(in);

	mutex_lock(&m->lock);
	node_of(in)->open_refs++;
	mutex_unlock(&m->lock);
}

static void op_close_ref(struct fs_inode *in)
{
	struct memfs *m = mine(in);

	mutex_lock(&m->lock);
	node_of(in)->open_refs--; /* the caller still has its reference */
	mutex_unlock(&m->lock);
}

static void op_orphans_release(struct fs *fs)
{
	struct memfs *m = memfs_of(fs);
	struct node *n, *next;

	m->keep = false;
	list_for_each_entry_safe(n, next, &m->nodes, link)
		maybe_free(n);
}

static const struct fs_write_ops write_ops = {
	.create = op_create,
	.rooms = op_rooms,
	.lend = op_lend,
	.unlend_all = op_unlend_all,
	.tmpfile = op_tmpfile,
	.link = op_link,
	.unlink = remove_entry,
	.rmdir = remove_entry,
	.rename = op_rename,
	.setattr = op_setattr,
	.xattr_set = op_xattr_set,
	.write_pages = op_write_pages,
	.promise = op_promise,
	.fallocate = op_fallocate,
	.fsync = op_fsync,
	.sync = op_sync,
	.change_find = op_change_find,
	.open_ref = op_open_ref,
	.close_ref = op_close_ref,
	.orphans_release = op_orphans_release,
};

/* --- for the tests ------------------------------------------------------------------------ */

struct fs *memfs_create(void)
{
	struct memfs *m = kzalloc(sizeof(*m));

	if (!m)
		return NULL;
	m->fs = (struct fs){ .ops = &ops, .changes = &write_ops, .root_ino = 2 };
	mutex_init(&m->lock, "memfs", RANK_FS);
	list_init(&m->nodes);
	list_init(&m->done);
	m->next_ino = 2;
	new_node(m, S_IFDIR | 0755, NULL)->st.nlink = 2;
	return &m->fs;
}

unsigned int memfs_nr_files(const struct fs *fs)
{
	const struct memfs *m = memfs_of(fs);
	const struct node *n;
	unsigned int nr = 0;

	list_for_each_entry(n, &m->nodes, link)
		nr++;
	return nr - 1;
}

void memfs_fail(struct fs *fs, int err)
{
	memfs_of(fs)->fail = err;
}

void memfs_fail_once(struct fs *fs, int err, unsigned int skip)
{
	memfs_of(fs)->skip = skip;
	memfs_of(fs)->fail_once = err;
}

uint32_t memfs_rooms(const struct fs *fs)
{
	return memfs_of(fs)->rooms;
}

void memfs_keep(struct fs *fs)
{
	memfs_of(fs)->keep = true;
}

void memfs_journal(struct fs *fs)
{
	memfs_of(fs)->journal = true;
}
