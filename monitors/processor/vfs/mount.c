/* SPDX-License-Identifier: MIT */
/*
 * Mounts: which file system is where.
 *
 * Flow:	fs_register() collects the file systems; the first mounts_get() mounts them, the
 *		root first, then by the length of the mount point's path. One that is required
 *		needs a directory there; a makeshift one is for a root that cannot be written.
 *		Below a file system with show_covered, each name of the covered directory becomes a
 *		mount point too, at which that file is mounted by itself.
 * Locking:	setup_lock guards the types and the making of mounts. A finished struct mounts
 *		never changes.
 * Failure:	a name of a covered directory that cannot be looked up is left out with a warning,
 *		and so is a directory that cannot be listed, for as long as the monitor runs. An
 *		error that may be gone the next time (no memory, no answer) ends the making of
 *		mounts instead; the next mounts_get() tries again.
 * Limits:	each name of a covered directory costs one look-up, a message to the storage node,
 *		before the first program starts; MAX_COVERED names of a directory are shown.
 *		One vNode; no mount(2). A file mounted by itself has the same path in its own file
 *		system.
 */
#define PR_FMT "mount: "

#include "mount_private.h"

#include <kernel/initcall.h>
#include <kernel/panic.h>
#include <kernel/printk.h>
#include <lib/err.h>
#include <lib/fmt.h>
#include <lib/hash.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <processor/client/storage.h>

#include "dirent_private.h"

#define BUCKETS     256u
#define MAX_COVERED 65536u
#define POINTS_MAX  1024u /* the rest of STORAGE_MOUNT_POINTS_MAX is for a process's root */
#define FIRST_DEV   32u   /* st_dev of the first; smaller ones are those of pipes and their kin */

struct mounts {
	struct mount *buckets[BUCKETS]; /* by parent and name */
	struct mount **all;             /* in the order of mounting; the root is the first */
	size_t nr;
};

struct registration {
	struct registration *next;
	struct fs_type *type;
};

static struct mutex setup_lock = MUTEX_INIT(setup_lock, "mounts", RANK_MONITOR);
/*
 * setup_lock; shorter paths first, so what is mounted on comes first. Among paths of one length the
 * order is that of the alphabet, so that it does not depend on which init call came first.
 */
static struct registration *types;
static uint32_t next_dev = FIRST_DEV; /* setup_lock */
static struct mounts *mounts;         /* set once under setup_lock */

static bool comes_first(const char *a, const char *b)
{
	const size_t a_len = strlen(a), b_len = strlen(b);

	return a_len != b_len ? a_len < b_len : strcmp(a, b) < 0;
}

int fs_register(struct fs_type *type)
{
	struct registration *r = kmalloc(sizeof(*r)), **at = &types;

	if (!r)
		return -ENOMEM;
	r->type = type;
	mutex_lock(&setup_lock);
	ASSERT_BEFORE(monitor); /* where programs start */
	ASSERT(!mounts && type->root && type->at[0] == '/');
	type->dev = next_dev++;
	while (*at && comes_first((*at)->type->at, type->at))
		at = &(*at)->next;
	r->next = *at;
	*at = r;
	mutex_unlock(&setup_lock);
	return 0;
}

int fs_sync_all(void)
{
	int err = 0;

	/* The list does not change once programs run. */
	for (const struct registration *r = types; r && err != -EINTR; r = r->next) {
		const int e = r->type->sync ? r->type->sync(r->type) : 0;

		err = err && e != -EINTR ? err : e;
	}
	return err;
}

/* --- look-up ------------------------------------------------------------------------- */

static uint32_t bucket(const struct inode *dir, const char *name, size_t len)
{
	return (uint32_t)(hash_bytes(name, len, (uint64_t)(uintptr_t)dir) % BUCKETS);
}

struct mount *mount_in_dir(const struct mounts *m, const struct inode *dir, const char *name,
			   size_t len)
{
	for (struct mount *mt = m->buckets[bucket(dir, name, len)]; mt; mt = mt->chain) {
		if (mt->parent == dir && strlen(mt->name) == len && !memcmp(mt->name, name, len))
			return mt;
	}
	return NULL;
}

struct mount *mount_at(const struct mounts *m, const char *at)
{
	for (size_t i = 0; i < m->nr; i++) {
		if (!strcmp(m->all[i]->at, at))
			return m->all[i];
	}
	return NULL;
}

struct mount *mount_of_root(const struct mounts *m, const struct inode *inode)
{
	/* File systems come first and are few. */
	for (size_t i = 0; i < m->nr && m->all[i]->type; i++) {
		if (m->all[i]->root == inode)
			return m->all[i];
	}
	return NULL;
}

struct mount *mount_of(const struct mounts *m, const struct inode *inode)
{
	for (size_t i = 0; i < m->nr && m->all[i]->type; i++) {
		if (m->all[i]->type == inode->type)
			return m->all[i];
	}
	return NULL;
}

const struct mount *mount_nth(const struct mounts *m, size_t i)
{
	return i < m->nr ? m->all[i] : NULL;
}

struct inode *mounts_root(const struct mounts *m)
{
	ASSERT(m->nr && !m->all[0]->parent);
	return m->all[0]->root;
}

/* --- making them --------------------------------------------------------------------- */

static void mount_free(struct mount *mt)
{
	inode_put(mt->root);
	inode_put(mt->parent);
	kfree(mt->points);
	kfree(mt->at);
	kfree(mt);
}

/* A mount at @at, all of whose references are taken over.  Frees it after an error. */
static int add(struct mounts *m, struct mount *mt)
{
	struct mount **all = krealloc(m->all, (m->nr + 1) * sizeof(struct mount *));
	uint32_t b;

	if (all)
		m->all = all;
	if (!all || !mt->at) {
		mount_free(mt);
		return -ENOMEM;
	}
	ASSERT(mt->root && (mt->parent || !m->nr) && mt->at[0] == '/');
	mt->name = strrchr(mt->at, '/') + 1;
	b = bucket(mt->parent, mt->name, strlen(mt->name));
	mt->chain = m->buckets[b];
	m->buckets[b] = mt;
	m->all[m->nr++] = mt;
	return 0;
}

/* @at is in the file system of @mt, whose look-ups end there. */
static int add_point(struct mount *mt, const char *at)
{
	const char *in_it = mt->at[1] ? at + strlen(mt->at) : at;
	const size_t len = strlen(in_it) + 1;
	char *points;

	if (len > POINTS_MAX - mt->points_len)
		return -ENOSPC;
	points = krealloc(mt->points, mt->points_len + len);
	if (!points)
		return -ENOMEM;
	mt->points = points;
	memcpy(mt->points + mt->points_len, in_it, len);
	mt->points_len += len;
	return 0;
}

/*
 * The directory that the mount point @at is in; -ENOENT, -ENOTDIR: there is none, or a link is in
 * its place.
 */
static int find_parent(const struct mounts *m, const char *at, struct inode **out)
{
	const struct fs_cred kernel = { 0 };
	const struct walk_base base = { .cred = &kernel, .mounts = m };
	const size_t len = (size_t)(strrchr(at, '/') - at);
	struct walk_result res;
	char *dir;
	int err;

	*out = NULL;
	if (!m->nr)
		return 0; /* the root itself */
	if (!len) {
		*out = mounts_root(m);
		inode_get(*out);
		return 0;
	}
	dir = kstrdup(at);
	if (!dir)
		return -ENOMEM;
	dir[len] = '\0';
	err = path_walk(&base, dir, WALK_DIRECTORY | WALK_NOFOLLOW, 0, &res);
	kfree(dir);
	if (err)
		return err;
	*out = res.at.inode;
	res.at.inode = NULL;
	walk_result_put(&res);
	return 0;
}

/* May the same request work later?  The storage node did not answer, or memory was short. */
static bool is_transient(int err)
{
	return err == -ENOMEM || err == -ETIMEDOUT || err == -EHOSTDOWN || err == -ECANCELED;
}

/* Why no program can start; setup_lock for writing. */
static char why_text[FS_PATH_MAX + 128];
static bool has_why;

/* A file system of the configuration cannot be where it should be. */
static int refuse(const struct fs_type *type, const char *reason, int err)
{
	snprintf(why_text, sizeof(why_text), "the mount point %s %s", type->at, reason);
	__atomic_store_n(&has_why, true, __ATOMIC_RELEASE);
	return err;
}

const char *mounts_why(void)
{
	return __atomic_load_n(&has_why, __ATOMIC_ACQUIRE) ? why_text : NULL;
}

/* The file at the mount point of @type, not followed, while nothing is mounted there. */
static int find_point(const struct mounts *m, const struct fs_type *type, struct walk_result *res)
{
	const struct fs_cred kernel = { 0 };
	const struct walk_base base = { .cred = &kernel, .mounts = m };

	return path_walk(&base, type->at, WALK_NOFOLLOW, 0, res);
}

/* A directory of its own name has to be there. */
static int check_required(const struct mounts *m, const struct fs_type *type)
{
	struct walk_result res;
	int err = find_point(m, type, &res);

	if (err == -ENOENT)
		return refuse(type, "does not exist", err);
	if (err == -ENOTDIR)
		return refuse(type, "is below a file", err);
	if (err)
		return err;
	if (strcmp(res.at.text, type->at))
		err = refuse(type, "leads through a symbolic link", -ELOOP);
	else if (!inode_is_dir(res.at.inode))
		err = refuse(type, "is not a directory", -ENOTDIR);
	walk_result_put(&res);
	return err;
}

/*
 * Does the disk keep what is in the directory that @type would cover? Everybody has to be allowed
 * to write there, else programs miss what the makeshift gives them. A link is left alone.
 */
static int covers_a_disk(const struct mounts *m, const struct fs_type *type, bool *answer)
{
	struct walk_result res;
	const char *reason = NULL;
	int err = find_point(m, type, &res);

	*answer = false;
	if (err == -ENOENT || err == -ENOTDIR) {
		pr_info("%s: of this processor alone: the root has none\n", type->at);
		return 0;
	}
	if (err)
		return err;
	if (inode_writable(res.at.inode))
		reason = "it cannot be written on the disk";
	else if (res.at.inode->mode != S_IFLNK &&
		 (res.at.attr.mode & (S_IFMT | 01777)) != (S_IFDIR | 01777))
		reason = "on the disk it is no directory of mode 1777";
	if (reason)
		pr_info("%s: of this processor alone: %s\n", type->at, reason);
	*answer = !reason;
	walk_result_put(&res);
	return 0;
}

/* Has another file system the place of @type, or the disk? */
static int is_left_out(const struct mounts *m, const struct fs_type *type, bool *answer)
{
	*answer = false;
	if (type->required)
		return 0;
	for (const struct registration *r = types; r && !*answer; r = r->next)
		*answer = r->type->required && !strcmp(r->type->at, type->at);
	return *answer || !type->makeshift ? 0 : covers_a_disk(m, type, answer);
}

static int mount_type(struct mounts *m, const struct fs_type *type)
{
	struct mount *mt, *below;
	bool left_out;
	int err = is_left_out(m, type, &left_out);

	if (err || left_out)
		return err;
	err = type->required ? check_required(m, type) : 0;
	if (err)
		return err;
	mt = kzalloc(sizeof(*mt));
	if (!mt)
		return -ENOMEM;
	mt->type = type;
	mt->at = kstrdup(type->at);
	err = find_parent(m, type->at, &mt->parent);
	if (err) {
		mount_free(mt);
		return err == -ENOENT || err == -ENOTDIR ? 0 : err;
	}
	below = mt->parent ? mount_of(m, mt->parent) : NULL;
	if (below && mt->parent->ops->lookup_path)
		err = add_point(below, type->at);
	if (err == -ENOSPC)
		err = refuse(type, "is one too many", err);
	if (!err)
		err = type->root(type, &mt->root);
	if (err) {
		if (type->required && !is_transient(err) && !has_why)
			(void)refuse(type, "cannot get its file system: its storage node has none",
				     err);
		mount_free(mt);
		return err;
	}
	return add(m, mt);
}

/* The names of a covered directory. */
struct covered {
	struct dir_sink sink;
	struct mounts *m;
	const struct mount *mt; /* what covers it */
	struct inode *dir;
	size_t nr;     /* names that the directory has listed */
	size_t nr_bad; /* of which could not be looked up */
};

static int show_name(struct covered *c, const char *name, size_t len)
{
	const size_t at_len = strlen(c->mt->at);
	struct mount *mt;
	int err;

	if (mount_in_dir(c->m, c->mt->root, name, len))
		return 0;
	mt = kzalloc(sizeof(*mt));
	if (!mt)
		return -ENOMEM;
	err = c->dir->ops->lookup(c->dir, name, len, &mt->root);
	if (err) {
		kfree(mt);
		return err;
	}
	inode_get(c->mt->root);
	mt->parent = c->mt->root;
	mt->at = kmalloc(at_len + 1 + len + 1);
	if (mt->at) {
		memcpy(mt->at, c->mt->at, at_len);
		mt->at[at_len] = '/';
		memcpy(mt->at + at_len + 1, name, len);
		mt->at[at_len + 1 + len] = '\0';
	}
	return add(c->m, mt);
}

static bool put_covered(struct dir_sink *sink, const char *name, size_t len, uint64_t ino,
			uint8_t type, uint64_t cookie)
{
	struct covered *c = container_of(sink, struct covered, sink);
	int err;

	if (c->nr++ == MAX_COVERED) {
		pr_warn("%s: only %u names of the covered directory are shown\n", c->mt->at,
			MAX_COVERED);
		sink->full = true;
		return false;
	}
	if ((len == 1 && name[0] == '.') || (len == 2 && name[0] == '.' && name[1] == '.'))
		return true;
	err = show_name(c, name, len);
	if (err && !is_transient(err)) {
		if (!c->nr_bad++)
			pr_warn("%s: a name of the covered directory is left out: error %d\n",
				c->mt->at, err);
		return true;
	}
	sink->err = err;
	sink->full = err;
	return !err;
}

static int show_covered(struct mounts *m, const struct mount *mt)
{
	struct covered c = { .sink = { .put = put_covered }, .m = m, .mt = mt };
	uint64_t pos = 0;
	int err = mt->parent->ops->lookup(mt->parent, mt->name, strlen(mt->name), &c.dir);

	if (!err && inode_is_dir(c.dir)) {
		err = c.dir->ops->readdir(c.dir, &pos, &c.sink);
		if (!err)
			err = c.sink.err;
	}
	inode_put(c.dir);
	if (is_transient(err))
		return err;
	if (!err || err == -ENOENT)
		return 0;
	pr_warn("%s: the covered directory cannot be listed: error %d\n", mt->at, err);
	return 0;
}

static void mounts_free(struct mounts *m)
{
	for (size_t i = 0; i < m->nr; i++)
		mount_free(m->all[i]);
	kfree(m->all);
	kfree(m);
}

static struct mounts *mounts_make(void)
{
	struct mounts *m = kzalloc(sizeof(*m));
	size_t nr_types;
	int err = 0;

	if (!m)
		return ERR_PTR(-ENOMEM);
	for (struct registration *r = types; r && !err; r = r->next)
		err = mount_type(m, r->type);
	nr_types = m->nr;
	for (size_t i = 0; i < nr_types && !err; i++) {
		if (m->all[i]->type->show_covered)
			err = show_covered(m, m->all[i]);
	}
	if (err) {
		mounts_free(m);
		return ERR_PTR(err);
	}
	return m;
}

struct mounts *mounts_get(void)
{
	struct mounts *m;

	mutex_lock(&setup_lock);
	m = mounts ? mounts : mounts_make();
	if (!IS_ERR(m)) {
		mounts = m;
		__atomic_store_n(&has_why, false, __ATOMIC_RELEASE);
	}
	mutex_unlock(&setup_lock);
	if (IS_ERR(m))
		pr_err("file systems cannot be mounted: error %d\n", (int)PTR_ERR(m));
	return m;
}

bool mounts_info(struct mounts *m, size_t i, struct mount_info *info, char *buf, size_t size)
{
	const struct mount *mt = mount_nth(m, i);
	const struct fs_type *type = mt ? mt->type : NULL; /* file systems come first */

	if (!type)
		return false;
	*info = (struct mount_info){
		.source = type->source ? type->source : type->name,
		.at = type->at,
		.type = type->name,
		.options = buf,
		.dev = type->dev,
		.root_dev = mt->parent ? mt->parent->type->dev : type->dev,
	};
	snprintf(buf, size, "%s%s%s%s", type->read_only ? "ro" : "rw",
		 type->noexec ? ",noexec" : "", type->options ? "," : "",
		 type->options ? type->options : "");
	return true;
}
