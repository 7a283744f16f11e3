/* SPDX-License-Identifier: MIT */
/*
 * Mounts: which file system is where.
 *
 * Flow:	fs_register() collects the file systems; the first mounts_get() mounts them, the
 *		root first, then by the length of the mount point's path. One that is required
 *		needs a directory there; a makeshift one is for a root that cannot be written.
 *		Below a file system with show_covered, each name of the covered directory becomes a
 *		mount point too, at which that file is mounted by itself.
 * Locking:	mount_change guards the types and the making of mounts.
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

#include <abi/stat.h>
#include <kernel/initcall.h>
#include <kernel/panic.h>
#include <kernel/printk.h>
#include <lib/err.h>
#include <lib/fmt.h>
#include <lib/hash.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <processor/account/account.h>
#include <processor/ns/user_ns.h>

#include "dirent_private.h"

#define MAX_COVERED 65536u
#define FIRST_DEV   32u /* st_dev of the first; smaller ones are those of pipes and their kin */

struct registration {
	struct registration *next;
	struct fs_type *type;
	struct inode *root; /* mount_change: once it is known */
};

/*
 * mount_change; shorter paths first, so what is mounted on comes first. Among paths of one length
 * the order is that of the alphabet, so that it does not depend on which init call came first.
 */
static struct registration *types;
static uint32_t next_dev = FIRST_DEV; /* atomic */
static struct mounts *mounts;         /* set once under mount_change */

static bool comes_first(const char *a, const char *b)
{
	const size_t a_len = strlen(a), b_len = strlen(b);

	return a_len != b_len ? a_len < b_len : strcmp(a, b) < 0;
}

uint32_t fs_new_dev(void)
{
	return __atomic_fetch_add(&next_dev, 1, __ATOMIC_RELAXED);
}

int fs_register(struct fs_type *type)
{
	struct registration *r = kmalloc(sizeof(*r)), **at = &types;

	if (!r)
		return -ENOMEM;
	r->type = type;
	r->root = NULL;
	mutex_lock(&mount_change);
	ASSERT_BEFORE(monitor); /* where programs start */
	ASSERT(!mounts && type->root && type->at[0] == '/');
	type->dev = fs_new_dev();
	while (*at && comes_first((*at)->type->at, type->at))
		at = &(*at)->next;
	r->next = *at;
	*at = r;
	mutex_unlock(&mount_change);
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

/* --- the first ones ------------------------------------------------------------------ */

/*
 * The directory that the mount point @at is in; -ENOENT, -ENOTDIR: there is none, or a link is in
 * its place.
 */
static int find_parent(const struct mounts *m, const char *at, struct path *out)
{
	const struct fs_cred kernel = { 0 };
	const struct walk_base base = { .cred = &kernel, .mounts = m };
	const size_t len = (size_t)(strrchr(at, '/') - at);
	struct walk_result res;
	char *dir = kstrdup(at);
	int err;

	*out = (struct path){ 0 };
	if (!dir)
		return -ENOMEM;
	dir[len ? len : 1] = '\0';
	err = path_walk(&base, dir, WALK_DIRECTORY | WALK_NOFOLLOW, 0, &res);
	kfree(dir);
	if (err)
		return err;
	*out = res.at;
	res.at = (struct path){ 0 };
	walk_result_put(&res);
	return 0;
}

/* May the same request work later?  The storage node did not answer, or memory was short. */
static bool is_transient(int err)
{
	return err == -ENOMEM || err == -ETIMEDOUT || err == -EHOSTDOWN || err == -ECANCELED;
}

/* Why no program can start; mount_change for writing. */
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
	if (mount_writable(res.at.mnt, res.at.inode))
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

/* Its root directory is asked for once. */
static int root_of(struct registration *r)
{
	const int err = r->root ? 0 : r->type->root(r->type, &r->root);

	assert_mutex_held(&mount_change);
	if (err && r->type->required && !is_transient(err) && !has_why)
		(void)refuse(r->type, "cannot get its file system: its storage node has none", err);
	return err;
}

/* Mount @r in @dir, which is empty for the root of everything. */
static int mount_in(struct mounts *m, struct registration *r, const struct path *dir)
{
	struct mount *mt =
		mount_alloc(r->type, r->root, r->type->nodev ? MOUNT_NOSUID | MOUNT_NODEV : 0);
	int err;

	if (!mt)
		return -ENOMEM;
	inode_get(r->root);
	err = dir->inode ? mount_place(mt, dir, strrchr(r->type->at, '/') + 1) : 0;
	if (!err)
		err = dir->inode ? mount_attach(m, mt) : mount_attach_root(m, mt);
	if (err == -ENOSPC)
		err = refuse(r->type, "is one too many", err);
	if (err)
		mount_put(mt);
	return err;
}

static int mount_type(struct mounts *m, struct registration *r)
{
	struct path dir = { 0 };
	bool left_out;
	int err = is_left_out(m, r->type, &left_out);

	if (err || left_out)
		return err;
	err = r->type->required ? check_required(m, r->type) : 0;
	if (err)
		return err;
	err = r->type->at[1] ? find_parent(m, r->type->at, &dir) : 0;
	if (err)
		return err == -ENOENT || err == -ENOTDIR ? 0 : err;
	err = root_of(r);
	if (!err)
		err = mount_in(m, r, &dir);
	path_put(&dir);
	return err;
}

/* The names of a covered directory. */
struct covered {
	struct dir_sink sink;
	struct mounts *m;
	struct mount *mt; /* what covers it */
	struct inode *dir;
	size_t nr;     /* names that the directory has listed */
	size_t nr_bad; /* of which could not be looked up */
};

static int show_name(struct covered *c, const char *name, size_t len)
{
	struct path at = { .inode = c->mt->root, .mnt = c->mt, .text = c->mt->at };
	struct mount *mt = mount_in_dir(c->mt, c->mt->root, name, len);
	struct inode *root;
	char own[FS_NAME_MAX + 1];
	int err;

	if (mt || len > FS_NAME_MAX) {
		mount_put(mt);
		return 0;
	}
	memcpy(own, name, len);
	own[len] = '\0';
	err = c->dir->ops->lookup(c->dir, name, len, &root);
	if (err)
		return err;
	mt = mount_alloc(c->mt->parent->type, root, 0);
	if (!mt) {
		inode_put(root);
		return -ENOMEM;
	}
	mt->shown = c->mt->parent;
	mount_get(mt->shown);
	err = mount_place(mt, &at, own);
	if (!err)
		err = mount_attach(c->m, mt);
	if (err)
		mount_put(mt);
	return err;
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

static int show_covered(struct mounts *m, struct mount *mt)
{
	struct covered c = { .sink = { .put = put_covered }, .m = m, .mt = mt };
	uint64_t pos = 0;
	int err = mt->dir->ops->lookup(mt->dir, mt->name, strlen(mt->name), &c.dir);

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

static int show_all_covered(struct mounts *m)
{
	struct mount *mt;
	int err = 0;

	list_for_each_entry(mt, &m->list, link) {
		if (!err && mt->type->show_covered)
			err = show_covered(m, mt);
	}
	return err;
}

static struct mounts *mounts_make(void)
{
	struct mounts *m = mounts_alloc(NULL);
	LIST_HEAD(gone);
	int err = 0;

	if (IS_ERR(m))
		return m;
	for (struct registration *r = types; r && !err; r = r->next)
		err = mount_type(m, r);
	if (!err)
		err = show_all_covered(m);
	if (err) {
		mounts_clear(m, &gone);
		mounts_put_gone(&gone); /* no file system goes: these are for ever */
		mounts_drop(m);
		return ERR_PTR(err);
	}
	return m;
}

struct mounts *mounts_get(void)
{
	struct mounts *m;

	mutex_lock(&mount_change);
	if (!mounts) {
		mount_charge_node = true;
		m = mounts_make();
		mount_charge_node = false;
	} else {
		m = mounts;
	}
	if (!IS_ERR(m)) {
		mounts = m;
		__atomic_store_n(&has_why, false, __ATOMIC_RELEASE);
	}
	mutex_unlock(&mount_change);
	if (IS_ERR(m))
		pr_err("file systems cannot be mounted: error %d\n", (int)PTR_ERR(m));
	return m;
}

/* --- rights -------------------------------------------------------------------------- */

int mount_writable(const struct mount *mt, const struct inode *inode)
{
	if (inode->type->read_only || READ_ONCE(inode->type->ro_now))
		return -EROFS;
	return mt && (READ_ONCE(mt->flags) & MOUNT_RDONLY) ? -EROFS : 0;
}

int mount_write_begin(struct mount *mt)
{
	/* A remount sets its flag first and looks for writers then. */
	__atomic_add_fetch(&mt->writers, 1, __ATOMIC_SEQ_CST);
	__atomic_add_fetch(&mt->type->nr_writers, 1, __ATOMIC_SEQ_CST);
	if (!mount_writable(mt, mt->root))
		return 0;
	mount_write_end(mt);
	return -EROFS;
}

void mount_write_end(struct mount *mt)
{
	__atomic_sub_fetch(&mt->type->nr_writers, 1, __ATOMIC_SEQ_CST);
	__atomic_sub_fetch(&mt->writers, 1, __ATOMIC_SEQ_CST);
}

bool mount_noexec(const struct mount *mt, const struct inode *inode)
{
	return inode->type->noexec || (mt && (READ_ONCE(mt->flags) & MOUNT_NOEXEC));
}

bool mount_nodev(const struct mount *mt)
{
	/* A user's own file system has no devices: it could make them up. */
	return mt && ((READ_ONCE(mt->flags) & MOUNT_NODEV) || mt->type->owner);
}

uint64_t mount_st_flags(const struct mount *mt)
{
	const uint32_t flags = READ_ONCE(mt->flags);

	return (flags & MOUNT_NOSUID ? ST_NOSUID : 0) | (flags & MOUNT_NODEV ? ST_NODEV : 0) |
	       (flags & MOUNT_NOEXEC ? ST_NOEXEC : 0) | (flags & MOUNT_NOATIME ? ST_NOATIME : 0) |
	       (flags & MOUNT_NODIRATIME ? ST_NODIRATIME : 0) |
	       (flags & MOUNT_RELATIME ? ST_RELATIME : 0);
}

/* --- for mount(2) -------------------------------------------------------------------- */

int fs_find(const char *name, struct fs_type **type, struct inode **root)
{
	int err;

	assert_mutex_held(&mount_change);
	for (struct registration *r = types; r; r = r->next) {
		if (strcmp(r->type->name, name) || !strcmp(r->type->name, "ext4"))
			continue;
		*type = r->type;
		*root = NULL;
		if (r->type->make && !(r->type->is_shared && r->type->is_shared()))
			return 0;
		err = root_of(r);
		if (!err) {
			*root = r->root;
			inode_get(*root);
		}
		return err;
	}
	return -ENODEV;
}

/* A mount of it in @ns that shows all of it. Its locked flags go to *@locked. */
static bool can_be_seen(const struct mounts *ns, const char *name, uint32_t flags, uint32_t *locked)
{
	const struct mount *mt, *child;

	assert_mutex_held(&mount_change);
	list_for_each_entry(mt, &ns->list, link) {
		const uint32_t stays = mt->locked_flags & (MOUNT_RDONLY | MOUNT_TIMES);
		bool covered = false;

		if (strcmp(mt->type->name, name) || (mt->flags & MOUNT_SUBTREE) ||
		    ((mt->flags ^ flags) & stays))
			continue;
		list_for_each_entry(child, &mt->children, beside)
			covered = covered || (child->flags & MOUNT_LOCKED);
		if (!covered) {
			*locked = stays;
			return true;
		}
	}
	return false;
}

/* Where the capability counts to mount one. */
static struct user_ns *owner_of_new(const struct fs_type *type)
{
	if (type->made_of == NS_PID)
		return pid_ns_owner(pid_ns_current());
	return type->made_of < NS_KINDS ? ns_current(type->made_of)->owner : user_ns_current();
}

int fs_may_mount(const char *name, const struct mounts *ns, uint32_t flags, uint32_t *locked)
{
	const struct registration *r = types;

	assert_mutex_held(&mount_change);
	*locked = 0;
	while (r && strcmp(r->type->name, name))
		r = r->next;
	if (!r || capable(CAP_SYS_ADMIN))
		return 0;
	if (!r->type->for_users || !ns_capable(owner_of_new(r->type), CAP_SYS_ADMIN))
		return -EPERM;
	return r->type->reveals && !can_be_seen(ns, name, flags, locked) ? -EPERM : 0;
}

/* --- telling ------------------------------------------------------------------------- */

static void add(char *buf, size_t size, const char *word)
{
	const size_t at = strlen(buf);

	snprintf(buf + at, size - at, ",%s", word);
}

static void put_options(const struct mount *mt, struct mount_info *info)
{
	static const struct {
		uint32_t flag;
		const char *word;
	} words[] = {
		{ MOUNT_NOSUID, "nosuid" },         { MOUNT_NODEV, "nodev" },
		{ MOUNT_NOEXEC, "noexec" },         { MOUNT_NOATIME, "noatime" },
		{ MOUNT_NODIRATIME, "nodiratime" }, { MOUNT_RELATIME, "relatime" },
	};
	const struct fs_type *type = mt->type;
	const uint32_t flags = READ_ONCE(mt->flags);

	strlcpy(info->options, mount_writable(mt, mt->root) ? "ro" : "rw", MOUNT_OPTIONS_MAX);
	strlcpy(info->super, mount_writable(NULL, mt->root) ? "ro" : "rw", MOUNT_OPTIONS_MAX);
	if (type->noexec && !(flags & MOUNT_NOEXEC))
		add(info->options, MOUNT_OPTIONS_MAX, "noexec");
	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		if (flags & words[i].flag)
			add(info->options, MOUNT_OPTIONS_MAX, words[i].word);
	}
	if (type->options && !(flags & MOUNT_ASKED))
		add(info->options, MOUNT_OPTIONS_MAX, type->options);
	if (type->show)
		type->show(type, info->super + strlen(info->super),
			   MOUNT_OPTIONS_MAX - strlen(info->super));
}

bool mounts_info(const struct mounts *m, uint32_t id, struct mount_info *info)
{
	struct mount *mt = mounts_next(m, id);
	const struct fs_type *type;

	if (!mt)
		return false;
	type = mt->type;
	info->id = mt->id;
	info->parent_id = mount_parent_id(mt);
	info->type = type->name;
	info->dev = type->dev;
	strlcpy(info->source,
		mt->source     ? mt->source
		: type->source ? type->source
			       : type->name,
		sizeof(info->source));
	if (!mount_copy_at(mt, info->at))
		strlcpy(info->at, "/", sizeof(info->at));
	if (!mount_root_text(mt, info->root))
		strlcpy(info->root, "/", sizeof(info->root));
	put_options(mt, info);
	mount_put(mt);
	return true;
}
