/* SPDX-License-Identifier: MIT */
/*
 * Mounts: which file system is where.
 *
 * The root belongs to the storage nodes; what fs_register() was told of is mounted over it, once per vNode.  Below a
 * file system with show_covered, each name that the root has in the same directory is a mount point too, at
 * which the root shows through.
 *
 * Locking:	types and the making of the mounts of a vNode: setup_lock.  A finished struct mounts never changes.
 * Limits:	one vNode; no mount(2).
 */
#define PR_FMT "mount: "

#include "mount_private.h"

#include <kernel/printk.h>
#include <lib/err.h>
#include <lib/fmt.h>
#include <lib/hash.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <processor/client/storage.h>

#define BUCKETS   256u
#define FIRST_DEV 32u /* st_dev of the first; smaller ones are those of pipes and their kin */

struct mounts {
	struct mount *buckets[BUCKETS];
	struct mount **all; /* in the order of mounting */
	size_t nr;
	char stops[PS_STOPS_MAX];
	size_t stops_len;
	uint64_t root_dev;
};

struct registration {
	struct registration *next;
	struct fs_type *type;
};

static struct mutex setup_lock = MUTEX_INIT(setup_lock, "mounts", RANK_MONITOR);
static struct registration
	*types; /* setup_lock; shorter paths first, so what is mounted on comes first */
static uint32_t next_dev = FIRST_DEV; /* setup_lock */
static struct mounts *mounts;         /* set once under setup_lock */

int fs_register(struct fs_type *type)
{
	struct registration *r = kmalloc(sizeof(*r)), **at = &types;

	if (!r)
		return -ENOMEM;
	r->type = type;
	mutex_lock(&setup_lock);
	type->dev = next_dev++;
	while (*at && strlen((*at)->type->at) <= strlen(type->at))
		at = &(*at)->next;
	r->next = *at;
	*at = r;
	mutex_unlock(&setup_lock);
	return 0;
}

/* --- look-up ------------------------------------------------------------------------- */

static uint32_t bucket(const struct inode *dir, const char *name, size_t len)
{
	return (uint32_t)(hash_bytes(name, len, (uint64_t)(uintptr_t)dir) % BUCKETS);
}

/* The key below a directory of the root is the whole path. */
static void key_of(const struct mount *mt, const char **key, size_t *len)
{
	*key = mt->parent ? mt->name : mt->at;
	*len = strlen(*key);
}

static struct mount *find(const struct mounts *m, const struct inode *dir, const char *key,
			  size_t len)
{
	for (struct mount *mt = m->buckets[bucket(dir, key, len)]; mt; mt = mt->chain) {
		const char *k;
		size_t n;

		key_of(mt, &k, &n);
		if (mt->parent == dir && n == len && !memcmp(k, key, len))
			return mt;
	}
	return NULL;
}

struct mount *mount_in_dir(const struct mounts *m, const struct inode *dir, const char *name,
			   size_t len)
{
	return find(m, dir, name, len);
}

struct mount *mount_at_text(const struct mounts *m, const char *at, size_t len)
{
	return find(m, NULL, at, len);
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

const char *mount_stops(const struct mounts *m, size_t *len)
{
	*len = m->stops_len;
	return m->stops;
}

const struct mount *mount_nth(const struct mounts *m, size_t i)
{
	return i < m->nr ? m->all[i] : NULL;
}

bool mount_is_child(const struct mount *mt, const struct inode *dir, const char *text)
{
	size_t len;

	if (mt->parent || dir)
		return mt->parent == dir;
	len = (size_t)(mt->name - 1 - mt->at); /* of the path without "/name" */
	return len ? strlen(text) == len && !memcmp(text, mt->at, len) : !strcmp(text, "/");
}

/* --- making them --------------------------------------------------------------------- */

/* Takes over @root. */
static int add(struct mounts *m, const struct fs_type *type, struct inode *root,
	       struct inode *parent, const char *dir, const char *name, size_t name_len,
	       uint8_t dtype)
{
	const size_t dir_len = strlen(dir);
	struct mount *mt = kzalloc(sizeof(*mt));
	struct mount **all = krealloc(m->all, (m->nr + 1) * sizeof(struct mount *));
	char *at = kmalloc(dir_len + 1 + name_len + 1);
	const char *key;
	size_t len;
	uint32_t b;

	if (all)
		m->all = all;
	if (!mt || !all || !at) {
		kfree(mt);
		kfree(at);
		inode_put(root);
		return -ENOMEM;
	}
	memcpy(at, dir, dir_len);
	at[dir_len] = '/';
	memcpy(at + dir_len + 1, name, name_len);
	at[dir_len + 1 + name_len] = '\0';
	mt->type = type;
	mt->root = root;
	mt->parent = parent;
	mt->at = at;
	mt->name = at + dir_len + 1;
	mt->dtype = dtype;
	key_of(mt, &key, &len);
	b = bucket(parent, key, len);
	mt->chain = m->buckets[b];
	m->buckets[b] = mt;
	m->all[m->nr++] = mt;
	return 0;
}

/* Is there a directory in the root of the first @len bytes of @path, and not by a link? */
static int root_has_dir(const char *path, size_t len)
{
	const struct proto_cred kernel = { 0 };
	char *dir = kstrdup(path);
	struct proto_attr attr;
	int err;

	if (!dir)
		return -ENOMEM;
	dir[len] = '\0';
	err = storage_lookup(&kernel, dir, PS_LOOKUP_DIRECTORY | PS_LOOKUP_NOFOLLOW, 0, &attr,
			     NULL);
	kfree(dir);
	return err;
}

/* What has no directory to be mounted in is left out. */
static int mount_type(struct mounts *m, const struct fs_type *type)
{
	const char *name = strrchr(type->at, '/') + 1;
	const size_t dir_len = (size_t)(name - 1 - type->at), len = strlen(type->at) + 1;
	struct inode *root, *parent = NULL;
	char *dir;
	int err;

	for (size_t i = 0; i < m->nr; i++) {
		if (strlen(m->all[i]->at) == dir_len && !memcmp(m->all[i]->at, type->at, dir_len))
			parent = m->all[i]->root;
	}
	if (!parent && dir_len) {
		err = root_has_dir(type->at, dir_len);
		if (err)
			return err == -ENOENT || err == -ENOTDIR ? 0 : err;
	}
	if (!parent) {
		if (len > sizeof(m->stops) - m->stops_len)
			return -ENOSPC;
		memcpy(m->stops + m->stops_len, type->at, len);
		m->stops_len += len;
	}
	dir = kstrdup(type->at);
	if (!dir)
		return -ENOMEM;
	dir[dir_len] = '\0';
	err = type->root(type, &root);
	if (!err)
		err = add(m, type, root, parent, dir, name, strlen(name), FS_DT_DIR);
	kfree(dir);
	return err;
}

/* One name of the root's own directory below @mt. */
static int show_name(struct mounts *m, const struct mount *mt, const struct ps_dirent *e)
{
	if ((e->name_len == 1 && e->name[0] == '.') ||
	    (e->name_len == 2 && e->name[0] == '.' && e->name[1] == '.') ||
	    mount_in_dir(m, mt->root, e->name, e->name_len))
		return 0;
	return add(m, NULL, NULL, mt->root, mt->at, e->name, e->name_len, e->type);
}

#define CHUNK 4096

/* What the root has in the directory that @mt is mounted on. */
static int show_root(struct mounts *m, const struct mount *mt)
{
	const struct proto_cred kernel = { 0 };
	struct proto_attr attr;
	uint64_t cookie = 0;
	uint8_t *chunk;
	ssize_t len;
	int err;

	err = storage_lookup(&kernel, mt->at, PS_LOOKUP_DIRECTORY | PS_LOOKUP_NOFOLLOW, 0, &attr,
			     NULL);
	if (err)
		return err == -ENOENT || err == -ENOTDIR ? 0 : err;
	chunk = kmalloc(CHUNK);
	if (!chunk)
		return -ENOMEM;
	while (!err && (len = storage_getdents(&attr.file, cookie, chunk, CHUNK)) != 0) {
		struct ps_dirent e;
		size_t off = 0;

		err = len < 0 ? (int)len : 0;
		while (!err && (err = ps_dirent_decode(chunk, (size_t)len, &off, &e)) == 0) {
			err = show_name(m, mt, &e);
			cookie = e.cookie;
		}
		if (err == -ENOENT)
			err = 0; /* end of this chunk */
	}
	kfree(chunk);
	return err;
}

static void mounts_free(struct mounts *m)
{
	for (size_t i = 0; i < m->nr; i++) {
		inode_put(m->all[i]->root);
		kfree(m->all[i]->at);
		kfree(m->all[i]);
	}
	kfree(m->all);
	kfree(m);
}

static struct mounts *mounts_make(void)
{
	struct mounts *m = kzalloc(sizeof(*m));
	const struct proto_cred kernel = { 0 };
	struct proto_attr attr;
	size_t nr_types;
	int err;

	if (!m)
		return ERR_PTR(-ENOMEM);
	err = storage_lookup(&kernel, "/", 0, 0, &attr, NULL);
	if (!err)
		m->root_dev = attr.fsid & 0xffff;
	for (struct registration *r = types; r && !err; r = r->next)
		err = mount_type(m, r->type);
	nr_types = m->nr;
	for (size_t i = 0; i < nr_types && !err; i++) {
		if (m->all[i]->type->show_covered)
			err = show_root(m, m->all[i]);
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
	if (!IS_ERR(m))
		mounts = m;
	mutex_unlock(&setup_lock);
	if (IS_ERR(m))
		pr_err("file systems cannot be mounted: error %d\n", (int)PTR_ERR(m));
	return m;
}

bool mounts_info(struct mounts *m, size_t i, struct mount_info *info, char *buf, size_t size)
{
	const struct mount *mt;
	const struct fs_type *type;

	info->root_dev = m->root_dev;
	info->options = buf;
	if (i == 0) {
		info->source = "/dev/root";
		info->at = "/";
		info->type = "ext4";
		info->dev = m->root_dev;
		strlcpy(buf, "ro,relatime", size);
		return true;
	}
	mt = mount_nth(m, i - 1);
	if (!mt || !mt->type)
		return false;
	type = mt->type;
	info->source = type->name;
	info->at = type->at;
	info->type = type->name;
	info->dev = type->dev;
	if (mt->parent)
		info->root_dev = mt->parent->type->dev;
	snprintf(buf, size, "%s%s%s%s", type->read_only ? "ro" : "rw",
		 type->noexec ? ",noexec" : "", type->options ? "," : "",
		 type->options ? type->options : "");
	return true;
}
