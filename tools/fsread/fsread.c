/* SPDX-License-Identifier: MIT */
/*
 * fsread: read an ext2/3/4 image on the host with the kernel's own file system code.
 *
 *	fsread IMAGE tree		every file: type, mode, owner, size, times, contents' hash
 *	fsread IMAGE cat PATH		a file's contents to stdout
 *	fsread IMAGE ls PATH [N]	a directory, N entries a call (default: all at once)
 *	fsread IMAGE lookup PATH	resolve a path as programs do; prints inode and real path
 *	fsread IMAGE map PATH		runs of blocks
 *	fsread IMAGE statfs
 *
 * "tree" prints one line a file, in the order of a depth-first walk, as JSON, for the tests in
 * test/host/ that compare it with the directory from which the image was made.
 *
 * Exit status: 0, or 1 with the reason on stderr.
 */
#include <errno.h>
#include <fs/ext4.h>
#include <fs/pathindex.h>
#include <lib/crc.h>
#include <lib/err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "filedisk.h"

#define READ_PAGES 32u
#define MIB        (1ull << 20)
#define BIG_FILE   (64 * MIB)

static struct fs *fs;

static int fail(const char *what, int err)
{
	fprintf(stderr, "fsread: %s: %s\n", what, strerror(-err));
	return 1;
}

static struct fs_stat stat_of(const struct fs_inode *in)
{
	struct fs_stat st;

	fs_inode_stat(in, &st);
	return st;
}

/* Call @use for the contents of @in from page-aligned @from up to @to, piece by piece. */
static int for_contents(struct fs_inode *in, uint64_t from, uint64_t to,
			int (*use)(void *arg, const uint8_t *p, size_t len), void *arg)
{
	static uint8_t buf[READ_PAGES * PAGE_SIZE] __aligned(4096);
	void *pages[READ_PAGES];
	int err = 0;

	for (unsigned int i = 0; i < READ_PAGES; i++)
		pages[i] = buf + i * PAGE_SIZE;
	for (uint64_t at = from; at < to && !err; at += sizeof(buf)) {
		const uint64_t n = MIN(to - at, (uint64_t)sizeof(buf));

		memset(buf, 0xa5, sizeof(buf));
		err = fs_read_pages(in, at >> PAGE_SHIFT, pages,
				    (unsigned int)DIV_ROUND_UP(n, PAGE_SIZE));
		for (uint64_t z = n; !err && to == stat_of(in).size && z < ALIGN_UP(n, PAGE_SIZE);
		     z++) {
			if (buf[z])
				err = -ENOTRECOVERABLE; /* the tail of the last page not zero */
		}
		if (!err)
			err = use(arg, buf, n);
	}
	return err;
}

static int use_crc(void *arg, const uint8_t *p, size_t len)
{
	uint32_t *crc = arg;

	*crc = crc32(*crc, p, len);
	return 0;
}

/* zlib's CRC-32 of the contents; of a big file, of its first and last MiB. */
static int contents_crc(struct fs_inode *in, uint32_t *crc)
{
	const uint64_t size = stat_of(in).size;
	int err;

	*crc = ~0u;
	if (size <= BIG_FILE) {
		err = for_contents(in, 0, size, use_crc, crc);
	} else {
		err = for_contents(in, 0, MIB, use_crc, crc);
		if (!err)
			err = for_contents(in, ALIGN_DOWN(size - MIB, PAGE_SIZE), size, use_crc,
					   crc);
	}
	*crc = ~*crc;
	return err;
}

static int use_stdout(void *arg, const uint8_t *p, size_t len)
{
	(void)arg;
	return fwrite(p, 1, len, stdout) == len ? 0 : -EIO;
}

static void print_json_string(const char *s, size_t len)
{
	putchar('"');
	for (size_t i = 0; i < len; i++) {
		const uint8_t c = (uint8_t)s[i];

		if (c < 0x20 || c == '"' || c == '\\' || c >= 0x7f)
			printf("\\u%04x", c);
		else
			putchar(c);
	}
	putchar('"');
}

struct name_list {
	struct entry {
		char name[FS_NAME_MAX + 1];
		uint8_t len;
		uint8_t dtype;
		uint32_t ino;
	} *entries;
	size_t nr, room;
	unsigned int left; /* entries that this call still takes */
};

static int add_name(void *arg, const struct fs_dirent *de)
{
	struct name_list *l = arg;
	struct entry *e;

	if (!l->left)
		return 1;
	l->left--;
	if (l->nr == l->room) {
		l->room = l->room ? l->room * 2 : 64;
		l->entries = realloc(l->entries, l->room * sizeof(*l->entries));
		if (!l->entries)
			return -ENOMEM;
	}
	e = &l->entries[l->nr++];
	memcpy(e->name, de->name, de->name_len);
	e->name[de->name_len] = '\0';
	e->len = de->name_len;
	e->dtype = de->dtype;
	e->ino = de->ino;
	return 0;
}

/* All entries of @dir, @per_call at a time. */
static int list_dir(struct fs_inode *dir, unsigned int per_call, struct name_list *l)
{
	uint64_t cookie = 0;
	size_t before;
	int err;

	memset(l, 0, sizeof(*l));
	do {
		before = l->nr;
		l->left = per_call;
		err = fs_readdir(dir, &cookie, add_name, l);
	} while (!err && l->nr > before);
	return err;
}

static void print_time(const char *name, const struct fs_time *t)
{
	printf(", \"%s\": [%lld, %u]", name, (long long)t->sec, t->nsec);
}

static int print_contents(struct fs_inode *in, const struct fs_stat *st)
{
	char target[FS_PATH_MAX];
	uint32_t crc;
	size_t len;
	int err = 0;

	if ((st->mode & S_IFMT) == S_IFREG) {
		err = contents_crc(in, &crc);
		printf(", \"crc\": %u", crc);
	} else if ((st->mode & S_IFMT) == S_IFLNK) {
		err = fs_readlink(in, target, &len);
		if (!err) {
			printf(", \"target\": ");
			print_json_string(target, len);
		}
	}
	return err;
}

static int print_node(struct fs_inode *in, const char *path, uint8_t dtype)
{
	struct fs_stat st;
	int err;

	fs_inode_stat(in, &st);
	printf("{\"path\": ");
	print_json_string(path, strlen(path));
	printf(", \"ino\": %llu, \"mode\": %u, \"nlink\": %u, \"uid\": %u, \"gid\": %u",
	       (unsigned long long)st.ino, st.mode, st.nlink, st.uid, st.gid);
	printf(", \"size\": %llu, \"blocks\": %llu, \"rdev\": [%u, %u], \"dtype\": %u",
	       (unsigned long long)st.size, (unsigned long long)st.blocks, st.rdev_major,
	       st.rdev_minor, dtype);
	print_time("atime", &st.atime);
	print_time("mtime", &st.mtime);
	print_time("ctime", &st.ctime);
	print_time("crtime", &st.crtime);
	err = print_contents(in, &st);
	printf("}\n");
	return err;
}

static int walk(struct fs_inode *dir, const char *path, unsigned int depth);

/* Look @e up by name (the index's way) and check that readdir found the same. */
static int walk_entry(struct fs_inode *dir, const char *path, const struct entry *e,
		      unsigned int depth)
{
	struct fs_inode *in;
	char sub[FS_PATH_MAX];
	int err;

	in = fs_lookup(dir, e->name, e->len);
	if (IS_ERR(in))
		return (int)PTR_ERR(in);
	if (stat_of(in).ino != e->ino) {
		fs_inode_put(in);
		return -ENOTRECOVERABLE;
	}
	if ((size_t)snprintf(sub, sizeof(sub), "%s/%s", path, e->name) >= sizeof(sub)) {
		fs_inode_put(in);
		return -ENAMETOOLONG;
	}
	err = print_node(in, sub, e->dtype);
	if (!err && (stat_of(in).mode & S_IFMT) == S_IFDIR)
		err = walk(in, sub, depth + 1);
	fs_inode_put(in);
	return err;
}

static int walk(struct fs_inode *dir, const char *path, unsigned int depth)
{
	struct name_list l;
	struct fs_inode *none;
	int err;

	if (depth > 64)
		return -ELOOP;
	err = list_dir(dir, depth % 2 ? 7 : 1000, &l);
	for (size_t i = 0; i < l.nr && !err; i++) {
		if (strcmp(l.entries[i].name, ".") && strcmp(l.entries[i].name, ".."))
			err = walk_entry(dir, path, &l.entries[i], depth);
	}
	free(l.entries);
	if (err)
		return err;
	none = fs_lookup(dir, "no such name", 12);
	if (!IS_ERR(none))
		fs_inode_put(none);
	return PTR_ERR(none) == -ENOENT ? 0 : -ENOTRECOVERABLE;
}

static int cmd_tree(void)
{
	struct fs_inode *root = fs_inode_get(fs, fs->root_ino, FS_ANY_GEN);
	int err;

	if (IS_ERR(root))
		return fail("root", (int)PTR_ERR(root));
	err = print_node(root, "", DT_DIR);
	if (!err)
		err = walk(root, "", 0);
	fs_inode_put(root);
	return err ? fail("tree", err) : 0;
}

/* Resolve @path as the storage monitor does; ERR_PTR. */
static struct fs_inode *open_path(const char *path, bool nofollow, struct path_result *res)
{
	const struct path_request req = {
		.vnode = 1,
		.root_ino = fs->root_ino,
		.path = path,
		.len = strlen(path),
		.flags = nofollow ? PATH_NOFOLLOW : 0,
	};
	struct pathindex *pi = pathindex_create(1 << 20);
	int err;

	if (IS_ERR(pi))
		return ERR_CAST(pi);
	err = pathindex_resolve(pi, &fs_path_ops, fs, &req, res);
	if (!err) { /* a second time: from the index */
		struct path_result again;

		err = pathindex_resolve(pi, &fs_path_ops, fs, &req, &again);
		if (!err && (again.node.ino != res->node.ino || strcmp(again.canon, res->canon)))
			err = -ENOTRECOVERABLE;
	}
	pathindex_destroy(pi);
	if (err)
		return ERR_PTR(err);
	return fs_inode_get(fs, res->node.ino, res->node.gen);
}

static int cmd_path(const char *cmd, const char *path, const char *arg)
{
	static struct path_result res;
	struct fs_inode *in = open_path(path, false, &res);
	struct name_list l;
	struct ext4_map map;
	int err = 0;

	if (IS_ERR(in))
		return fail(path, (int)PTR_ERR(in));
	if (!strcmp(cmd, "cat")) {
		err = for_contents(in, 0, stat_of(in).size, use_stdout, NULL);
	} else if (!strcmp(cmd, "lookup")) {
		printf("%llu %s\n", (unsigned long long)stat_of(in).ino, res.canon);
	} else if (!strcmp(cmd, "ls")) {
		err = list_dir(in, arg ? (unsigned int)strtoul(arg, NULL, 0) : UINT32_MAX, &l);
		for (size_t i = 0; i < l.nr; i++)
			printf("%u %u %s\n", l.entries[i].ino, l.entries[i].dtype,
			       l.entries[i].name);
		free(l.entries);
	} else {
		const struct fs_stat st = stat_of(in);
		const uint32_t nr = (uint32_t)DIV_ROUND_UP(st.size, st.blksize);

		for (uint32_t b = 0; b < nr && !err; b += map.len) {
			err = ext4_map(in, b, nr - b, &map);
			if (!err)
				printf("%u+%u %d %llu\n", b, map.len, map.type,
				       (unsigned long long)map.block);
		}
	}
	fs_inode_put(in);
	return err ? fail(path, err) : 0;
}

static int cmd_statfs(void)
{
	struct fs_statfs s;

	fs_statfs(fs, &s);
	printf("bsize %u blocks %llu bfree %llu bavail %llu files %llu ffree %llu\n", s.bsize,
	       (unsigned long long)s.blocks, (unsigned long long)s.bfree,
	       (unsigned long long)s.bavail, (unsigned long long)s.files,
	       (unsigned long long)s.ffree);
	return 0;
}

int main(int argc, char **argv)
{
	const struct fs_mount_options opt = { .cache_bytes = 1u << 20, .max_inodes = 64 };
	struct blkdev *bd;
	int err, ret = 2;

	if (argc < 3) {
		fprintf(stderr, "usage: fsread IMAGE tree|statfs|cat|ls|lookup|map [PATH] [N]\n");
		return 2;
	}
	bd = filedisk_open(argv[1], true);
	if (!bd)
		return fail(argv[1], -errno);
	err = ext4_mount(bd, &opt, &fs);
	if (err) {
		filedisk_close(bd);
		return fail("mount", err);
	}
	if (!strcmp(argv[2], "tree"))
		ret = cmd_tree();
	else if (!strcmp(argv[2], "statfs"))
		ret = cmd_statfs();
	else if (argc > 3)
		ret = cmd_path(argv[2], argv[3], argc > 4 ? argv[4] : NULL);
	fs_unmount(fs);
	filedisk_close(bd);
	return ret;
}
