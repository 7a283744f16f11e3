/* SPDX-License-Identifier: MIT */
/* Full disks, exhausted inodes, large directories and files. */
#include <errno.h>
#include <lib/err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fswork.h"

static struct fs_inode *get_root(void)
{
	struct fs_inode *in = fs_inode_get(fs, fs->root_ino, FS_ANY_GEN);

	if (IS_ERR(in))
		die("root", (int)PTR_ERR(in));
	return in;
}

static int fail(const char *what, long long got)
{
	fprintf(stderr, "fswork: %s (%lld)\n", what, got);
	return 1;
}

static uint8_t page[4096] __attribute__((aligned(4096)));

/* Write @c into block @index of @in. */
static int put_page(struct fs_inode *in, uint64_t index, uint8_t c)
{
	void *pages[] = { page };

	memset(page, c, sizeof(page));
	return fs_write_pages(in, index * 4096, 4096, pages, (index + 1) * 4096, change_now());
}

static int get_page(struct fs_inode *in, uint64_t index, uint8_t c)
{
	void *pages[] = { page };
	const int err = fs_read_pages(in, index, pages, 1);

	return err ? err : page[0] == c && page[4095] == c ? 0 : -ENOTRECOVERABLE;
}

int work_fill(void)
{
	const struct fs_new what = { .mode = S_IFREG | 0644 };
	struct fs_inode *root = get_root(), *in;
	struct fs_statfs before, full, after;
	char name[32];
	unsigned int nr = 0;
	int err = 0;

	fs_statfs(fs, &before);
	for (; !err; nr++) {
		snprintf(name, sizeof(name), "fill%u", nr);
		in = fs_create(root, name, strlen(name), &what, change_now());
		if (IS_ERR(in)) {
			err = (int)PTR_ERR(in);
			break;
		}
		for (uint64_t i = 0; i < 300 && !err; i++)
			err = put_page(in, i * (1 + nr % 3), (uint8_t)(i + nr));
		fs_inode_put(in);
	}
	fs_statfs(fs, &full);
	if (err != -ENOSPC)
		return fail("a full disk answers", err);
	if (full.bfree > 16)
		return fail("blocks left on a full disk", (long long)full.bfree);
	for (unsigned int i = 0; i <= nr; i++) {
		snprintf(name, sizeof(name), "fill%u", i);
		err = fs_unlink(root, name, strlen(name), change_now());
		if (err && !(err == -ENOENT && i == nr))
			return fail("unlink on a full disk", err);
	}
	err = fs_sync(fs);
	fs_statfs(fs, &after);
	fs_inode_put(root);
	if (err || after.bfree + 8 < before.bfree || after.ffree != before.ffree)
		return fail("blocks after removing all", (long long)after.bfree);
	return 0;
}

int work_inodes(void)
{
	const struct fs_new what = { .mode = S_IFREG | 0644 };
	struct fs_inode *root = get_root(), *in;
	struct fs_statfs s;
	char name[32];
	unsigned int nr = 0;

	for (;; nr++) {
		snprintf(name, sizeof(name), "inode%u", nr);
		in = fs_create(root, name, strlen(name), &what, change_now());
		if (IS_ERR(in))
			break;
		fs_inode_put(in);
	}
	fs_statfs(fs, &s);
	if (PTR_ERR(in) != -ENOSPC || s.ffree)
		return fail("inodes left", (long long)s.ffree);
	for (unsigned int i = 0; i < nr; i += 2) {
		snprintf(name, sizeof(name), "inode%u", i);
		if (fs_unlink(root, name, strlen(name), change_now()))
			return fail("unlink", i);
	}
	fs_inode_put(root);
	return 0;
}

static int count(void *arg, const struct fs_dirent *de)
{
	(void)de;
	(*(unsigned long *)arg)++;
	return 0;
}

int work_bigdir(unsigned long nr)
{
	const struct fs_new what = { .mode = S_IFDIR | 0755 };
	const struct fs_new file = { .mode = S_IFREG | 0644 };
	struct fs_inode *root = get_root(), *dir, *in;
	unsigned long found = 0;
	uint64_t cookie = 0;
	char name[64];
	int err = 0;

	dir = fs_create(root, "big", 3, &what, change_now());
	if (IS_ERR(dir))
		return fail("mkdir", PTR_ERR(dir));
	in = fs_create(root, "one", 3, &file, change_now());
	if (IS_ERR(in))
		return fail("create", PTR_ERR(in));
	fs_inode_put(in);
	for (unsigned long i = 0; i < nr && !err; i++) {
		snprintf(name, sizeof(name), "entry-%lu", i);
		in = fs_create(dir, name, strlen(name), &file, change_now());
		if (IS_ERR(in))
			return fail("create", PTR_ERR(in));
		fs_inode_put(in);
	}
	for (unsigned long i = 0; i < nr && !err; i += 2) {
		snprintf(name, sizeof(name), "entry-%lu", i);
		err = fs_unlink(dir, name, strlen(name), change_now());
	}
	for (unsigned long i = 0; i < nr && !err; i++) {
		snprintf(name, sizeof(name), "entry-%lu", i);
		in = fs_lookup(dir, name, strlen(name));
		if (IS_ERR(in) != (i % 2 == 0))
			return fail("lookup", (long long)i);
		if (!IS_ERR(in))
			fs_inode_put(in);
	}
	if (!err)
		err = fs_readdir(dir, &cookie, count, &found);
	fs_inode_put(dir);
	fs_inode_put(root);
	if (err || found != nr / 2 + 2)
		return fail("names in the directory", err ? err : (long long)found);
	return 0;
}

int work_bigfile(void)
{
	static const uint64_t far[] = { 0,    11,    12,      267,     268,     1035,
					1036, 70000, 1049000, 1100000, 2000000, 4000000 };
	const struct fs_new what = { .mode = S_IFREG | 0644 };
	struct fs_inode *root = get_root(), *in;
	int err = 0;

	in = fs_create(root, "far", 3, &what, change_now());
	if (IS_ERR(in))
		return fail("create", PTR_ERR(in));
	for (size_t i = 0; i < ARRAY_SIZE(far) && !err; i++) {
		err = put_page(in, far[i], (uint8_t)(i + 1));
		if (err == -EFBIG && far[i] >= 1049000)
			err = 0;
	}
	for (size_t i = 0; i < ARRAY_SIZE(far) && !err; i++) {
		err = get_page(in, far[i], (uint8_t)(i + 1));
		if (err && far[i] >= 1049000 && !page[0])
			err = 0;
	}
	fs_inode_put(in);
	if (err)
		return fail("pages far behind the start", err);
	/* Every second page: an extent each, until the tree is deep; then the ones between. */
	in = fs_create(root, "holes", 5, &what, change_now());
	if (IS_ERR(in))
		return fail("create", PTR_ERR(in));
	for (uint64_t i = 0; i < 3000 && !err; i++)
		err = put_page(in, i * 7 % 3000 * 2, (uint8_t)(i * 7 % 3000));
	for (uint64_t i = 0; i < 3000 && !err; i++)
		err = get_page(in, i * 2, (uint8_t)i);
	for (uint64_t i = 0; i < 3000 && !err; i += 2)
		err = put_page(in, i * 2 + 1, (uint8_t)(i + 1));
	for (uint64_t i = 0; i < 3000 && !err; i++)
		err = get_page(in, i * 2, (uint8_t)i);
	fs_inode_put(in);
	fs_inode_put(root);
	return err ? fail("a file with many extents", err) : 0;
}

int work_mount(void)
{
	fs_orphans_release(fs);
	return fs_sync(fs) ? fail("sync", 0) : 0;
}
