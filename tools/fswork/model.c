/* SPDX-License-Identifier: MIT */
/*
 * Random changes of a tree, beside a model of it in memory.
 *
 * Every change is made in both; its result has to be the same, and in the end all names, attributes
 * and contents.
 */

#include <errno.h>
#include <lib/err.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fswork.h"

#define MAX_FILE  (300u * 1024)
#define NR_NAMES  48u
#define MAX_NODES 20000u
#define NR_XATTRS 6u

struct node {
	uint32_t mode, uid, gid, nlink;
	uint64_t ino;
	uint32_t gen;
	uint32_t rdev;
	uint64_t size;
	uint8_t *data; /* MAX_FILE bytes, zeros behind size */
	char target[512];
	struct node *parent; /* of a directory */
	struct {
		struct node *node;
		char name[256];
	} *entries;
	unsigned int nr, room;
	uint32_t xattr_len[NR_XATTRS]; /* 0: none */
	uint8_t xattr_fill[NR_XATTRS];
	struct fs_inode *held; /* open without a name */
	bool dead;
};

static struct node *nodes[MAX_NODES];
static unsigned int nr_nodes;
static struct node *root;
static uint64_t state;

static uint32_t rnd(uint32_t n)
{
	state = state * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(state >> 33) % n;
}

static void expect(const char *what, int64_t got, int64_t want)
{
	if (got == want)
		return;
	fprintf(stderr, "fswork: %s: %lld instead of %lld\n", what, (long long)got,
		(long long)want);
	abort();
}

static bool is_dir(const struct node *n)
{
	return (n->mode & S_IFMT) == S_IFDIR;
}

static bool is_reg(const struct node *n)
{
	return (n->mode & S_IFMT) == S_IFREG;
}

static struct node *node_new(uint32_t mode)
{
	struct node *n = calloc(1, sizeof(*n));

	if (nr_nodes == MAX_NODES)
		return nodes[0];
	n->mode = mode;
	n->nlink = is_dir(n) ? 2 : 1;
	if (is_reg(n))
		n->data = calloc(1, MAX_FILE);
	nodes[nr_nodes++] = n;
	return n;
}

static int find(const struct node *dir, const char *name)
{
	for (unsigned int i = 0; i < dir->nr; i++) {
		if (!strcmp(dir->entries[i].name, name))
			return (int)i;
	}
	return -1;
}

static void add(struct node *dir, const char *name, struct node *n)
{
	if (dir->nr == dir->room) {
		dir->room = dir->room ? dir->room * 2 : 16;
		dir->entries = realloc(dir->entries, dir->room * sizeof(*dir->entries));
	}
	dir->entries[dir->nr].node = n;
	strcpy(dir->entries[dir->nr++].name, name);
	if (is_dir(n)) {
		n->parent = dir;
		dir->nlink++;
	}
}

static void del(struct node *dir, int i)
{
	if (is_dir(dir->entries[i].node))
		dir->nlink--;
	dir->entries[i] = dir->entries[--dir->nr];
}

static struct node *pick(bool (*ok)(const struct node *))
{
	for (int tries = 0; tries < 200; tries++) {
		struct node *n = nodes[rnd(nr_nodes)];

		if (!n->dead && (n->nlink || n->held) && ok(n))
			return n;
	}
	return root;
}

/* Some names are long, so that blocks of directories fill. */
static const char *some_name(void)
{
	static char bufs[2][256];
	static int which;
	char *buf = bufs[which ^= 1];
	const uint32_t n = rnd(NR_NAMES);
	const int len = snprintf(buf, 256, "name%u-", n);

	for (int i = len; i < (int)(len + n * 5) && i < 255; i++) {
		buf[i] = (char)('a' + n % 26);
		buf[i + 1] = '\0';
	}
	return buf;
}

static struct fs_inode *hold(const struct node *n)
{
	struct fs_inode *in = fs_inode_get(fs, n->ino, n->gen);

	if (IS_ERR(in))
		die("inode", (int)PTR_ERR(in));
	return in;
}

static void note(struct node *n, struct fs_inode *in)
{
	struct fs_stat st;

	fs_inode_stat(in, &st);
	n->ino = st.ino;
	n->gen = st.gen;
}

static void unlinked(struct node *n)
{
	if (!n->nlink && !n->held)
		n->dead = true;
}

static void do_create(void)
{
	static const uint32_t types[] = { S_IFREG, S_IFREG, S_IFREG, S_IFDIR,  S_IFDIR,
					  S_IFLNK, S_IFCHR, S_IFIFO, S_IFSOCK, S_IFBLK };
	struct node *dir = pick(is_dir), *n;
	const char *name = some_name();
	struct fs_inode *in, *d = hold(dir);
	struct fs_new what = { .mode = types[rnd(10)] | rnd(01000) };
	char target[512];

	if ((what.mode & S_IFMT) == S_IFLNK) {
		what.target_len = rnd(2) ? rnd(59) + 1 : rnd(400) + 1;
		memset(target, 'a' + (int)rnd(26), sizeof(target));
		what.target = target;
	}
	what.rdev_major = rnd(3) ? rnd(200) : rnd(4000);
	what.rdev_minor = rnd(3) ? rnd(200) : rnd(100000);
	in = fs_create(d, name, strlen(name), &what, change_now());
	if (find(dir, name) >= 0) {
		expect("create", PTR_ERR(in), -EEXIST);
	} else {
		if (IS_ERR(in))
			die("create", (int)PTR_ERR(in));
		n = node_new(what.mode);
		note(n, in);
		if (what.target_len) {
			memcpy(n->target, target, what.target_len);
			n->target[what.target_len] = '\0';
			n->size = what.target_len;
		}
		if ((n->mode & S_IFMT) == S_IFCHR || (n->mode & S_IFMT) == S_IFBLK)
			n->rdev = what.rdev_major << 20 | what.rdev_minor;
		add(dir, name, n);
		fs_inode_put(in);
	}
	fs_inode_put(d);
}

static void do_tmpfile(void)
{
	struct node *dir = pick(is_dir), *n;
	struct fs_inode *d = hold(dir), *in;
	const struct fs_new what = { .mode = S_IFREG | 0600 };

	in = fs_tmpfile(d, &what, change_now());
	if (IS_ERR(in))
		die("tmpfile", (int)PTR_ERR(in));
	n = node_new(what.mode);
	n->nlink = 0;
	note(n, in);
	fs_open_ref(in);
	n->held = in;
	fs_inode_put(d);
}

static bool is_any(const struct node *n)
{
	return n != root;
}

static void do_link(void)
{
	struct node *n = pick(is_any), *dir = pick(is_dir);
	const char *name = some_name();
	struct fs_inode *in = hold(n), *d = hold(dir);
	const bool was_nameless = !n->nlink;
	const int err = fs_link(in, d, name, strlen(name), change_now());

	if (is_dir(n)) {
		expect("link of a directory", err, -EPERM);
	} else if (was_nameless && err == -ENOENT) {
		/* It had a name once. */
	} else if (find(dir, name) >= 0) {
		expect("link", err, -EEXIST);
	} else {
		expect("link", err, 0);
		n->nlink++;
		add(dir, name, n);
	}
	fs_inode_put(in);
	fs_inode_put(d);
}

static void do_open(void)
{
	struct node *n = pick(is_reg);

	if (!is_reg(n))
		return;
	if (n->held) {
		struct fs_inode *in = n->held;

		n->held = NULL;
		fs_close_ref(in);
		fs_inode_put(in);
		unlinked(n);
	} else {
		n->held = hold(n);
		fs_open_ref(n->held);
	}
}

static void do_remove(void)
{
	struct node *dir = pick(is_dir), *n;
	const char *name = some_name();
	struct fs_inode *d = hold(dir);
	const bool rmdir = rnd(2);
	const int i = find(dir, name);
	int err, want = 0;

	err = rmdir ? fs_rmdir(d, name, strlen(name), change_now())
		    : fs_unlink(d, name, strlen(name), change_now());
	if (i < 0)
		want = -ENOENT;
	else if (rmdir && !is_dir(dir->entries[i].node))
		want = -ENOTDIR;
	else if (!rmdir && is_dir(dir->entries[i].node))
		want = -EISDIR;
	else if (rmdir && dir->entries[i].node->nr)
		want = -ENOTEMPTY;
	expect(rmdir ? "rmdir" : "unlink", err, want);
	if (!want) {
		n = dir->entries[i].node;
		del(dir, i);
		n->nlink = rmdir ? 0 : n->nlink - 1;
		unlinked(n);
	}
	fs_inode_put(d);
}

static bool below(const struct node *n, const struct node *top)
{
	for (; n; n = n->parent) {
		if (n == top)
			return true;
	}
	return false;
}

static int rename_want(struct node *from, int i, struct node *to, int j, uint32_t flags)
{
	struct node *n = i < 0 ? NULL : from->entries[i].node;
	struct node *t = j < 0 ? NULL : to->entries[j].node;

	if (!n)
		return -ENOENT;
	if (!t && (flags & RENAME_EXCHANGE))
		return -ENOENT;
	if (t && (flags & RENAME_NOREPLACE))
		return -EEXIST;
	if (t && !(flags & RENAME_EXCHANGE)) {
		if (is_dir(n) && !is_dir(t))
			return -ENOTDIR;
		if (!is_dir(n) && is_dir(t))
			return -EISDIR;
		if (is_dir(t) && t->nr)
			return -ENOTEMPTY;
	}
	if (from != to && is_dir(n) && below(to, n))
		return -EINVAL;
	if (from != to && t && is_dir(t) && below(from, t))
		return flags & RENAME_EXCHANGE ? -EINVAL : -ENOTEMPTY;
	return 0;
}

static void do_rename(void)
{
	static const uint32_t kinds[] = {
		0, 0, 0, RENAME_NOREPLACE, RENAME_EXCHANGE, RENAME_WHITEOUT
	};
	struct node *from = pick(is_dir), *to = rnd(3) ? pick(is_dir) : from, *n, *t, *white;
	const char *name = some_name(), *to_name = some_name();
	const uint32_t flags = kinds[rnd(6)];
	struct fs_inode *f = hold(from), *d = hold(to), *in;
	int i = find(from, name), j = find(to, to_name);
	const int want = rename_want(from, i, to, j, flags);
	char copy[256];

	expect("rename",
	       fs_rename(f, name, strlen(name), d, to_name, strlen(to_name), flags, change_now()),
	       want);
	if (want || from->entries[i].node == (j < 0 ? NULL : to->entries[j].node))
		goto out;
	n = from->entries[i].node;
	t = j < 0 ? NULL : to->entries[j].node;
	strcpy(copy, name);
	del(from, i);
	if (t)
		del(to, find(to, to_name));
	add(to, to_name, n);
	if (flags & RENAME_EXCHANGE) {
		add(from, copy, t);
	} else if (t) {
		t->nlink = is_dir(t) ? 0 : t->nlink - 1;
		unlinked(t);
	}
	if (flags & RENAME_WHITEOUT) {
		in = fs_lookup(f, copy, strlen(copy));
		if (IS_ERR(in))
			die("whiteout", (int)PTR_ERR(in));
		white = node_new(S_IFCHR);
		note(white, in);
		add(from, copy, white);
		fs_inode_put(in);
	}
out:
	fs_inode_put(f);
	fs_inode_put(d);
}

static void do_write(void)
{
	static uint8_t buf[64 * 1024] __attribute__((aligned(4096)));
	struct node *n = pick(is_reg);
	struct fs_inode *in;
	void *pages[16];
	uint64_t off, len, end;

	if (!is_reg(n))
		return;
	in = hold(n);
	off = (uint64_t)rnd(rnd(2) ? 4 : 60) * 4096;
	len = 1 + rnd(rnd(3) ? 4096 * 3 : sizeof(buf));
	end = off + len;
	for (size_t i = 0; i < 16; i++)
		pages[i] = buf + i * 4096;
	/* Whole pages, as the page cache has them: what the file holds, and new bytes over it. */
	memcpy(buf, n->data + off, sizeof(buf));
	memset(buf, (int)rnd(256), len);
	expect("write", fs_write_pages(in, off, len, pages, end, change_now()), 0);
	memcpy(n->data + off, buf, len);
	if (end > n->size)
		n->size = end;
	fs_inode_put(in);
}

static void do_truncate(void)
{
	struct node *n = pick(is_reg);
	struct fs_attr a = { .mask = FS_SET_SIZE, .size = rnd(rnd(2) ? 9000 : MAX_FILE) };
	struct fs_inode *in = hold(n);

	if (is_reg(n)) {
		expect("truncate", fs_setattr(in, &a, change_now()), 0);
		if (a.size < n->size)
			memset(n->data + a.size, 0, n->size - a.size);
		n->size = a.size;
	} else {
		expect("truncate", fs_setattr(in, &a, change_now()), -EISDIR);
	}
	fs_inode_put(in);
}

static void do_fallocate(void)
{
	static const uint32_t modes[] = { 0,
					  FALLOC_FL_KEEP_SIZE,
					  FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
					  FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
					  FALLOC_FL_ZERO_RANGE,
					  FALLOC_FL_COLLAPSE_RANGE };
	struct node *n = pick(is_reg);
	const uint32_t mode = modes[rnd(6)];
	uint64_t off = rnd(200 * 1024), len = 1 + rnd(90 * 1024), end;
	struct fs_inode *in;
	int err;

	if (!is_reg(n))
		return;
	if (mode == FALLOC_FL_COLLAPSE_RANGE) {
		off &= ~4095ull;
		len = (len + 4095) & ~4095ull;
	}
	end = off + len;
	in = hold(n);
	err = fs_fallocate(in, mode, off, len, change_now());
	fs_inode_put(in);
	if (err == -EOPNOTSUPP)
		return; /* no extents */
	if (mode == FALLOC_FL_COLLAPSE_RANGE) {
		expect("collapse", err, end >= n->size ? -EINVAL : 0);
		if (err)
			return;
		memmove(n->data + off, n->data + end, MAX_FILE - end);
		memset(n->data + MAX_FILE - len, 0, len);
		n->size -= len;
		return;
	}
	expect("fallocate", err, 0);
	if (mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE))
		memset(n->data + off, 0, len);
	if (!(mode & FALLOC_FL_KEEP_SIZE) && end > n->size)
		n->size = end;
}

static void do_setattr(void)
{
	struct node *n = pick(is_any);
	struct fs_attr a = { .mask = FS_SET_MODE | FS_SET_UID | FS_SET_GID,
			     .mode = rnd(010000),
			     .uid = rnd(200000),
			     .gid = rnd(70000) };
	struct fs_inode *in = hold(n);

	expect("setattr", fs_setattr(in, &a, change_now()), 0);
	n->mode = (n->mode & S_IFMT) | a.mode;
	n->uid = a.uid;
	n->gid = a.gid;
	fs_inode_put(in);
}

static const char *const xattr_names[NR_XATTRS] = { "user.a",    "user.long-name-of-one",
						    "trusted.t", "security.selinux",
						    "user.b",    "user.c" };

static void do_xattr(void)
{
	static uint8_t value[4096];
	struct node *n = pick(is_any);
	const uint32_t i = rnd(NR_XATTRS);
	const uint32_t len = rnd(4) ? 1 + rnd(rnd(5) ? 60 : 700) : 0;
	const uint8_t fill = (uint8_t)rnd(256);
	struct fs_xattr x = { .name = xattr_names[i],
			      .name_len = strlen(xattr_names[i]),
			      .value = len ? value : NULL,
			      .value_len = len };
	struct fs_inode *in = hold(n);
	int err;

	memset(value, fill, len);
	err = fs_xattr_set(in, &x, 0, change_now());
	if (!len)
		expect("removexattr", err, n->xattr_len[i] ? 0 : -ENODATA);
	else if (err != -ENOSPC)
		expect("setxattr", err, 0);
	if (!err) {
		n->xattr_len[i] = len;
		n->xattr_fill[i] = fill;
	}
	fs_inode_put(in);
}

static void check_data(struct node *n, struct fs_inode *in)
{
	static uint8_t buf[MAX_FILE] __attribute__((aligned(4096)));
	static void *pages[MAX_FILE / 4096];

	for (size_t i = 0; i < MAX_FILE / 4096; i++)
		pages[i] = buf + i * 4096;
	expect("read", fs_read_pages(in, 0, pages, MAX_FILE / 4096), 0);
	for (size_t i = 0; i < MAX_FILE; i++) {
		if (buf[i] == n->data[i])
			continue;
		fprintf(stderr, "fswork: inode %llu: byte %zu of %llu is %u, not %u\n",
			(unsigned long long)n->ino, i, (unsigned long long)n->size, buf[i],
			n->data[i]);
		abort();
	}
}

static void check_xattrs(struct node *n, struct fs_inode *in)
{
	static uint8_t value[4096];

	for (unsigned int i = 0; i < NR_XATTRS; i++) {
		const int64_t len = fs_xattr_get(in, xattr_names[i], strlen(xattr_names[i]), value,
						 sizeof(value));

		expect("getxattr", len, n->xattr_len[i] ? (int64_t)n->xattr_len[i] : -ENODATA);
		if (len > 0 && (value[0] != n->xattr_fill[i] || value[len - 1] != n->xattr_fill[i]))
			expect("value of an attribute", value[0], n->xattr_fill[i]);
	}
}

static void check_node(struct node *n, struct fs_inode *in)
{
	char target[FS_PATH_MAX];
	struct fs_stat st;
	size_t len;

	fs_inode_stat(in, &st);
	expect("inode", (int64_t)st.ino, (int64_t)n->ino);
	expect("mode", st.mode, n->mode);
	expect("uid", st.uid, n->uid);
	expect("gid", st.gid, n->gid);
	expect("links", st.nlink, n->nlink);
	expect("device", st.rdev_major << 20 | st.rdev_minor, n->rdev);
	if (!is_dir(n))
		expect("size", (int64_t)st.size, (int64_t)n->size);
	if (is_reg(n))
		check_data(n, in);
	if ((n->mode & S_IFMT) == S_IFLNK) {
		expect("readlink", fs_readlink(in, target, &len), 0);
		expect("target", strcmp(target, n->target), 0);
	}
	check_xattrs(n, in);
}

struct counter {
	struct node *dir;
	unsigned int nr;
	unsigned int left;
};

static int count_entry(void *arg, const struct fs_dirent *de)
{
	struct counter *c = arg;
	char name[256];

	if (!c->left)
		return 1;
	c->left--;
	memcpy(name, de->name, de->name_len);
	name[de->name_len] = '\0';
	if (!strcmp(name, ".") || !strcmp(name, ".."))
		return 0;
	c->nr++;
	expect("readdir", find(c->dir, name) >= 0, 1);
	return 0;
}

static void check_dir(struct node *dir)
{
	struct fs_inode *d = hold(dir), *in;
	struct counter c = { .dir = dir };
	uint64_t cookie = 0, before;

	check_node(dir, d);
	for (unsigned int i = 0; i < dir->nr; i++) {
		const char *name = dir->entries[i].name;

		in = fs_lookup(d, name, strlen(name));
		if (IS_ERR(in))
			die(name, (int)PTR_ERR(in));
		if (!is_dir(dir->entries[i].node))
			check_node(dir->entries[i].node, in);
		fs_inode_put(in);
	}
	do {
		before = cookie;
		c.left = 5;
		expect("readdir", fs_readdir(d, &cookie, count_entry, &c), 0);
	} while (cookie != before);
	expect("names in a directory", c.nr, dir->nr);
	fs_inode_put(d);
}

static void check_all(void)
{
	for (unsigned int i = 0; i < nr_nodes; i++) {
		struct node *n = nodes[i];

		if (!n->dead && is_dir(n) && n->nlink)
			check_dir(n);
		else if (n->held)
			check_node(n, n->held);
	}
}

int work_random(unsigned long seed, unsigned long nr)
{
	static void (*const ops[])(void) = {
		do_create, do_create, do_create, do_create,  do_remove,   do_remove,    do_rename,
		do_rename, do_write,  do_write,  do_write,   do_truncate, do_fallocate, do_setattr,
		do_xattr,  do_xattr,  do_link,   do_tmpfile, do_open,
	};
	struct fs_inode *in = fs_inode_get(fs, fs->root_ino, FS_ANY_GEN), *lf;
	struct fs_stat st;

	if (IS_ERR(in))
		die("root", (int)PTR_ERR(in));
	state = seed * 77777 + 1;
	root = node_new(S_IFDIR | 0755);
	note(root, in);
	fs_inode_stat(in, &st);
	root->mode = st.mode;
	lf = fs_lookup(in, "lost+found", 10);
	if (!IS_ERR(lf)) {
		struct node *n = node_new(S_IFDIR | 0700);

		note(n, lf);
		add(root, "lost+found", n);
		fs_inode_put(lf);
	}
	fs_inode_put(in);
	for (unsigned long i = 0; i < nr && nr_nodes < MAX_NODES; i++) {
		ops[rnd(sizeof(ops) / sizeof(ops[0]))]();
		if (i % 500 == 499)
			check_all();
		if (i % 300 == 299)
			expect("sync", fs_sync(fs), 0);
	}
	check_all();
	for (unsigned int i = 0; i < nr_nodes; i++) {
		if (nodes[i]->held) {
			fs_close_ref(nodes[i]->held);
			fs_inode_put(nodes[i]->held);
		}
		free(nodes[i]->data);
		free(nodes[i]->entries);
		free(nodes[i]);
	}
	return 0;
}
