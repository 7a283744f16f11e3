/* SPDX-License-Identifier: MIT */
/*
 * tmpfs: the ones that mount(2) makes, and their options.
 *
 * Invariants:	the last mount that goes drops the file system: its entries at once, and itself with
 *		its last inode, which a socket's name or a watch may hold for longer.
 */
#include <kernel/panic.h>
#include <lib/err.h>
#include <lib/fmt.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <processor/account/account.h>
#include <processor/ns/user_ns.h>
#include <processor/process/process.h>
#include <processor/procfs/system.h>

#include "tmpfs_private.h"

#define OPTION_MAX 64 /* bytes of one option */

enum given {
	GIVEN_SIZE = 1 << 0,
	GIVEN_INODES = 1 << 1,
	GIVEN_MODE = 1 << 2,
	GIVEN_UID = 1 << 3,
	GIVEN_GID = 1 << 4,
};

struct options {
	uint32_t given; /* enum given */
	uint64_t pages, inodes;
	uint32_t mode, uid, gid;
};

/* --- parsing ------------------------------------------------------------------------- */

/* @value in bytes, or a percentage of what the memory nodes have; 0: no limit. */
static int parse_pages(const char *value, uint64_t *pages)
{
	const size_t len = strlen(value);
	char number[OPTION_MAX];
	uint64_t n;
	int err;

	if (len && value[len - 1] == '%') {
		memcpy(number, value, len - 1);
		number[len - 1] = '\0';
		err = kstrtou64(number, 10, &n);
		if (err || n > 1000)
			return -EINVAL;
		n = system_memory_total() / 100 * n;
	} else if (parse_size(value, &n)) {
		return -EINVAL;
	}
	*pages = n ? ALIGN_UP(MIN(n, UINT64_MAX - PAGE_SIZE), PAGE_SIZE) >> PAGE_SHIFT : UINT64_MAX;
	return 0;
}

/* A count of things, with k, m or g; 0: no limit. */
static int parse_count(const char *value, uint64_t *count)
{
	if (parse_size(value, count))
		return -EINVAL;
	*count = *count ? *count : UINT64_MAX;
	return 0;
}

static int parse_one(const char *name, const char *value, struct options *o)
{
	static const struct {
		const char *name;
		enum given given;
	} names[] = {
		{ "size", GIVEN_SIZE }, { "nr_blocks", GIVEN_SIZE }, { "nr_inodes", GIVEN_INODES },
		{ "mode", GIVEN_MODE }, { "uid", GIVEN_UID },        { "gid", GIVEN_GID },
	};
	enum given given = 0;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		given = strcmp(name, names[i].name) ? given : names[i].given;
	o->given |= given;
	switch (given) {
	case GIVEN_SIZE:
		return name[0] == 's' ? parse_pages(value, &o->pages)
				      : parse_count(value, &o->pages);
	case GIVEN_INODES:
		return parse_count(value, &o->inodes);
	case GIVEN_MODE:
		return kstrtou32(value, 8, &o->mode) || o->mode > 07777 ? -EINVAL : 0;
	case GIVEN_UID:
		if (kstrtou32(value, 10, &o->uid))
			return -EINVAL;
		o->uid = uid_in(o->uid);
		return o->uid == ID_NONE ? -EINVAL : 0;
	case GIVEN_GID:
		if (kstrtou32(value, 10, &o->gid))
			return -EINVAL;
		o->gid = gid_in(o->gid);
		return o->gid == ID_NONE ? -EINVAL : 0;
	}
	return -EINVAL;
}

/* Options between commas; empty ones are ignored, as Linux does. -EINVAL: one is unknown. */
static int parse(const char *data, struct options *o)
{
	int err = 0;

	while (!err && *data) {
		const size_t len = (size_t)(strchrnul(data, ',') - data);
		char option[OPTION_MAX];
		char *value;

		if (len >= OPTION_MAX)
			return -EINVAL;
		memcpy(option, data, len);
		option[len] = '\0';
		data += len + (data[len] == ',');
		value = strchr(option, '=');
		if (value)
			*value++ = '\0';
		if (len)
			err = value ? parse_one(option, value, o) : -EINVAL;
	}
	return err;
}

/* --- life ---------------------------------------------------------------------------- */

static int made_root(const struct fs_type *type, struct inode **out)
{
	struct tmpfs *fs = tmpfs_of(type);
	const int err = tmpfs_root(type, out);

	if (err)
		return err;
	fs->root = tmpfs_inode(*out);
	inode_get(*out); /* until drop() */
	spin_lock(&fs->root->attr_lock);
	fs->root->mode = S_IFDIR | fs->root_mode;
	fs->root->uid = fs->root_uid;
	fs->root->gid = fs->root_gid;
	spin_unlock(&fs->root->attr_lock);
	return 0;
}

static void drop(struct fs_type *type)
{
	struct tmpfs *fs = tmpfs_of(type);
	struct tmpfs_inode *root = fs->root;

	if (root)
		tmpfs_empty(root);
	mutex_lock(&fs->lock);
	fs->dropped = true;
	mutex_unlock(&fs->lock);
	if (root)
		inode_put(&root->inode);
	else
		tmpfs_free(fs);
}

/* Limits below what is there already are refused. */
static int reconfigure(struct fs_type *type, const char *data)
{
	struct tmpfs *fs = tmpfs_of(type);
	struct options o = { 0 };
	int err = parse(data, &o);

	if (err)
		return err;
	mutex_lock(&fs->lock);
	if (((o.given & GIVEN_SIZE) && o.pages < READ_ONCE(fs->pages)) ||
	    ((o.given & GIVEN_INODES) && o.inodes < fs->inodes)) {
		err = -EINVAL;
	} else {
		if (o.given & GIVEN_SIZE)
			WRITE_ONCE(fs->max_pages, o.pages);
		if (o.given & GIVEN_INODES)
			WRITE_ONCE(fs->max_inodes, o.inodes);
		fs->given |= o.given & (GIVEN_SIZE | GIVEN_INODES);
	}
	mutex_unlock(&fs->lock);
	return err;
}

static void show(const struct fs_type *type, char *buf, size_t size)
{
	const struct tmpfs *fs = tmpfs_of(type);
	const uint32_t given = READ_ONCE(fs->given);
	size_t at = 0;

	if ((given & GIVEN_SIZE) && fs->max_pages != UINT64_MAX)
		at += scnprintf(buf + at, size - at, ",size=%lluk",
				(unsigned long long)READ_ONCE(fs->max_pages) * (PAGE_SIZE / 1024));
	if ((given & GIVEN_INODES) && fs->max_inodes != UINT64_MAX)
		at += scnprintf(buf + at, size - at, ",nr_inodes=%llu",
				(unsigned long long)READ_ONCE(fs->max_inodes));
	if (given & GIVEN_MODE)
		at += scnprintf(buf + at, size - at, ",mode=%03o", fs->root_mode);
	if (given & GIVEN_UID)
		at += scnprintf(buf + at, size - at, ",uid=%u", uid_out(fs->root_uid));
	if (given & GIVEN_GID)
		at += scnprintf(buf + at, size - at, ",gid=%u", gid_out(fs->root_gid));
}

int tmpfs_make(const char *data, struct fs_type **out)
{
	struct options o = { .mode = 01777,
			     .uid = cred_current()->fsuid,
			     .gid = cred_current()->fsgid };
	struct tmpfs *fs;
	int err = parse(data, &o);

	if (err)
		return err;
	fs = kmem_alloc(kmem_current(), sizeof(*fs));
	if (!fs)
		return -ENOMEM;
	tmpfs_set_limits(fs);
	fs->type.name = "tmpfs";
	fs->type.at = "/";
	tmpfs_fill_type(&fs->type);
	err = tmpfs_setup(fs);
	if (err) {
		kmem_free(fs);
		return err;
	}
	fs->type.root = made_root;
	fs->type.drop = drop;
	fs->type.reconfigure = reconfigure;
	fs->type.show = show;
	fs->type.dev = fs_new_dev();
	if (o.given & GIVEN_SIZE)
		fs->max_pages = o.pages;
	if (o.given & GIVEN_INODES)
		fs->max_inodes = o.inodes;
	fs->root_mode = o.mode;
	fs->root_uid = o.uid;
	fs->root_gid = o.gid;
	lock_not_needed(&fs->lock, "it is mounted nowhere yet");
	fs->given = o.given;
	*out = &fs->type;
	return 0;
}
