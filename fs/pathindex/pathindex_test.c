/* SPDX-License-Identifier: MIT */
/* Path resolution and its index, over a small file system in tables. */
#include <fs/pathindex.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/ktest.h>
#include <lib/string.h>
#include <mm/slab.h>

#define D (S_IFDIR | 0755)
#define F (S_IFREG | 0644)
#define L (S_IFLNK | 0777)

/* Inode numbers of directories with access lists, from the first on. */
#define HAS_LIST  30
#define KEEPS_OUT 39

/* ino, parent, name, mode, target */
struct toy {
	uint64_t ino, parent;
	const char *name;
	uint32_t mode;
	const char *target;
};

static struct toy toys[] = {
	{ 2, 2, "", D, NULL },
	{ 10, 2, "etc", D, NULL },
	{ 11, 10, "passwd", F, NULL },
	{ 12, 2, "usr", D, NULL },
	{ 13, 12, "lib", D, NULL },
	{ 14, 13, "libc", F, NULL },
	{ 15, 2, "lib", L, "usr/lib" },
	{ 16, 2, "self", L, "/self" },
	{ 17, 2, "up", L, "../../../etc" },
	{ 18, 2, "dangling", L, "nowhere" },
	{ 19, 2, "slashed", L, "etc/passwd/" },
	{ 20, 2, "private", S_IFDIR | 0700, NULL },
	{ 21, 20, "key", F, NULL },
	{ 22, 20, "jail", D, NULL },
	{ 23, 22, "inside", F, NULL },
	{ 24, 22, "out", L, "/../../etc/passwd" },
	{ 25, 22, "beside", L, "../key" },
	{ HAS_LIST, 2, "listed", D, NULL },
	{ HAS_LIST + 1, HAS_LIST, "within", D, NULL },
	{ KEEPS_OUT, HAS_LIST, "closed", D, NULL },
};

static unsigned int nr_lookups, nr_searches;
static struct pathindex *touched; /* names in /etc change during each look-up there */

static void node_of(const struct toy *toy, struct path_node *out)
{
	*out = (struct path_node){
		.ino = toy->ino, .gen = 1, .mode = toy->mode, .acl = toy->ino >= HAS_LIST
	};
}

static int toy_get(void *fs, uint64_t ino, struct path_node *out)
{
	(void)fs;
	for (size_t i = 0; i < ARRAY_SIZE(toys); i++) {
		if (toys[i].ino == ino) {
			node_of(&toys[i], out);
			return 0;
		}
	}
	return -ESTALE;
}

static int toy_lookup(void *fs, const struct path_node *dir, const char *name, size_t len,
		      struct path_node *out)
{
	/* A chain of links, each naming the one before: chain0 is a file. */
	(void)fs;
	nr_lookups++;
	if (touched && dir->ino == 10)
		pathindex_touch(touched, 10);
	if (dir->ino == 2 && len > 5 && !memcmp(name, "chain", 5)) {
		uint64_t n = 0;

		for (size_t i = 5; i < len; i++)
			n = n * 10 + (uint64_t)(name[i] - '0');
		*out = (struct path_node){ .ino = 1000 + n, .mode = n ? L : F };
		return 0;
	}
	for (size_t i = 1; i < ARRAY_SIZE(toys); i++) {
		if (toys[i].parent == dir->ino && strlen(toys[i].name) == len &&
		    !memcmp(toys[i].name, name, len)) {
			node_of(&toys[i], out);
			return 0;
		}
	}
	return -ENOENT;
}

static int toy_search(void *fs, const struct path_node *dir, const struct fs_cred *cred)
{
	(void)fs;
	nr_searches++;
	return cred->uid && dir->ino == KEEPS_OUT ? -EACCES : 0;
}

static int toy_readlink(void *fs, const struct path_node *link, char *buf, size_t *len)
{
	(void)fs;
	if (link->ino >= 1000) {
		const uint64_t n = link->ino - 1001;

		memcpy(buf, "chain00", 8);
		buf[5] = (char)('0' + n / 10);
		buf[6] = (char)('0' + n % 10);
		*len = 7;
		return 0;
	}
	for (size_t i = 0; i < ARRAY_SIZE(toys); i++) {
		if (toys[i].ino == link->ino && toys[i].target) {
			*len = strlcpy(buf, toys[i].target, FS_PATH_MAX);
			return 0;
		}
	}
	return -EINVAL;
}

static const struct path_ops toy_ops = {
	.get = toy_get,
	.lookup = toy_lookup,
	.search = toy_search,
	.readlink = toy_readlink,
};

static struct path_result *res; /* too big for a kernel stack */

static int resolve_as(struct pathindex *pi, const char *path, uint32_t flags, uint64_t root,
		      uint32_t uid)
{
	const struct fs_cred cred = { .uid = uid, .gid = uid };
	const struct path_request req = {
		.vnode = (uint32_t)root,
		.flags = flags,
		.root_ino = root,
		.path = path,
		.len = strlen(path),
		.cred = &cred,
	};

	return pathindex_resolve(pi, &toy_ops, NULL, &req, res);
}

static struct pathindex *setup(struct ktest *t, uint64_t bytes)
{
	struct pathindex *pi = pathindex_create(bytes);

	res = kzalloc(sizeof(*res));
	EXPECT_TRUE(t, res && !IS_ERR(pi));
	nr_lookups = 0;
	return pi;
}

static void teardown(struct pathindex *pi)
{
	pathindex_destroy(pi);
	kfree(res);
}

static void finds_what_linux_would(struct ktest *t)
{
	static const struct {
		const char *path;
		uint32_t flags;
		int err;
		uint64_t ino;
		const char *canon;
	} cases[] = {
		{ "/", 0, 0, 2, "/" },
		{ "//", 0, 0, 2, "/" },
		{ "/..", 0, 0, 2, "/" },
		{ "/etc/passwd", 0, 0, 11, "/etc/passwd" },
		{ "//etc//./passwd", 0, 0, 11, "/etc/passwd" },
		{ "/etc/../usr/lib", 0, 0, 13, "/usr/lib" },
		{ "/lib/libc", 0, 0, 14, "/usr/lib/libc" },
		{ "/lib", 0, 0, 13, "/usr/lib" },
		{ "/lib/..", 0, 0, 12, "/usr" },
		{ "/lib", PATH_NOFOLLOW, 0, 15, "/lib" },
		{ "/lib/", PATH_NOFOLLOW, 0, 13, "/usr/lib" },
		{ "/up/passwd", 0, 0, 11, "/etc/passwd" },
		{ "/dangling", PATH_NOFOLLOW, 0, 18, "/dangling" },
		{ "/self", PATH_NOFOLLOW, 0, 16, "/self" },
		{ "/etc", PATH_DIRECTORY, 0, 10, "/etc" },
		{ "/etc/passwd", PATH_DIRECTORY, -ENOTDIR, 0, NULL },
		{ "", 0, -ENOENT, 0, NULL },
		{ "etc", 0, -EINVAL, 0, NULL },
		{ "/none", 0, -ENOENT, 0, NULL },
		{ "/none/x", 0, -ENOENT, 0, NULL },
		{ "/dangling", 0, -ENOENT, 0, NULL },
		{ "/etc/passwd/", 0, -ENOTDIR, 0, NULL },
		{ "/etc/passwd/.", 0, -ENOTDIR, 0, NULL },
		{ "/etc/passwd/..", 0, -ENOTDIR, 0, NULL },
		{ "/etc/passwd/x", 0, -ENOTDIR, 0, NULL },
		{ "/slashed", 0, -ENOTDIR, 0, NULL },
		{ "/self", 0, -ELOOP, 0, NULL },
		{ "/chain40", 0, 0, 1000, "/chain00" },
		{ "/chain41", 0, -ELOOP, 0, NULL },
	};

	/* Twice: from the file system, then from the index. */
	struct pathindex *pi = setup(t, 1 << 16);

	for (int round = 0; round < 2; round++) {
		for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
			EXPECT_EQ(t, resolve_as(pi, cases[i].path, cases[i].flags, 2, 0),
				  cases[i].err);
			if (cases[i].err)
				continue;
			EXPECT_EQ(t, res->node.ino, cases[i].ino);
			EXPECT_STREQ(t, res->canon, cases[i].canon);
			EXPECT_EQ(t, res->canon_len, strlen(cases[i].canon));
		}
	}
	teardown(pi);
}

static void a_second_walk_asks_nobody(struct ktest *t)
{
	static const char *const paths[] = { "/etc/passwd", "/lib/libc", "/none", "/usr/../etc" };
	struct pathindex *pi = setup(t, 1 << 16);
	unsigned int before;

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
		(void)!resolve_as(pi, paths[i], 0, 2, 0);
	before = nr_lookups;
	EXPECT_GT(t, before, 0u);
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
		(void)!resolve_as(pi, paths[i], 0, 2, 0);
	EXPECT_EQ(t, nr_lookups, before);

	pathindex_forget(pi, 2, "/etc/passwd", 11);
	EXPECT_EQ(t, resolve_as(pi, "/etc/passwd", 0, 2, 0), 0);
	EXPECT_EQ(t, nr_lookups, before + 1);
	pathindex_invalidate(pi);
	EXPECT_EQ(t, resolve_as(pi, "/etc/passwd", 0, 2, 0), 0);
	EXPECT_EQ(t, nr_lookups, before + 3);
	teardown(pi);
}

/* Look-ups that resolving @path needs. */
static unsigned int cost(struct pathindex *pi, const char *path)
{
	const unsigned int before = nr_lookups;

	(void)!resolve_as(pi, path, 0, 2, 0);
	return nr_lookups - before;
}

static void a_change_is_seen_where_it_matters(struct ktest *t)
{
	static const char *const paths[] = { "/etc/passwd", "/etc/none", "/usr/lib/libc" };
	struct pathindex *pi = setup(t, 1 << 16);

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
		EXPECT_GT(t, cost(pi, paths[i]), 0u);
	/* A name in /etc: what is there, what is not, and /etc itself. */
	pathindex_touch(pi, 10);
	EXPECT_EQ(t, cost(pi, "/etc/passwd"), 2u);
	EXPECT_EQ(t, cost(pi, "/etc/none"), 1u);
	EXPECT_EQ(t, cost(pi, "/etc/none"), 0u);
	EXPECT_EQ(t, cost(pi, "/usr/lib/libc"), 0u);
	/* A file: only what leads to it. */
	pathindex_touch(pi, 14);
	EXPECT_EQ(t, cost(pi, "/usr/lib/libc"), 1u);
	EXPECT_EQ(t, cost(pi, "/etc/passwd"), 0u);
	teardown(pi);
}

static void a_walk_that_began_before_a_change_is_forgotten(struct ktest *t)
{
	struct pathindex *pi = setup(t, 1 << 16);

	touched = pi;
	(void)!resolve_as(pi, "/etc/none", 0, 2, 0);
	touched = NULL;
	EXPECT_EQ(t, cost(pi, "/etc/none"), 2u);
	EXPECT_EQ(t, cost(pi, "/etc/none"), 0u);
	teardown(pi);
}

static void nobody_leaves_the_mount_point(struct ktest *t)
{
	static const char *const paths[] = { "/../etc/passwd", "/..", "/out" };
	struct pathindex *pi = setup(t, 1 << 16);

	/* Vnode 22 has /private/jail as its root. */
	EXPECT_EQ(t, resolve_as(pi, "/inside", 0, 22, 0), 0);
	EXPECT_EQ(t, res->node.ino, 23ull);
	EXPECT_EQ(t, resolve_as(pi, paths[0], 0, 22, 0), -ENOENT);
	EXPECT_EQ(t, resolve_as(pi, paths[1], 0, 22, 0), 0);
	EXPECT_EQ(t, res->node.ino, 22ull);
	EXPECT_STREQ(t, res->canon, "/");
	EXPECT_EQ(t, resolve_as(pi, paths[2], 0, 22, 0), -ENOENT);
	/* The same name is another file for vnode 2. */
	EXPECT_EQ(t, resolve_as(pi, "/inside", 0, 2, 0), -ENOENT);
	teardown(pi);
}

static void search_permission_is_checked_on_every_step(struct ktest *t)
{
	struct pathindex *pi = setup(t, 1 << 16);

	EXPECT_EQ(t, resolve_as(pi, "/private/key", 0, 2, 0), 0);
	/* Entries that user 0 has put into the index must not help others. */
	EXPECT_EQ(t, resolve_as(pi, "/private/key", 0, 2, 1000), -EACCES);
	EXPECT_EQ(t, resolve_as(pi, "/private/../etc/passwd", 0, 2, 1000), -EACCES);
	EXPECT_EQ(t, resolve_as(pi, "/private", 0, 2, 1000), 0);
	EXPECT_EQ(t, resolve_as(pi, "/etc/passwd", 0, 2, 1000), 0);
	teardown(pi);
}

/* A list is read from the disk: a path that comes by again and again does not ask again. */
static void a_walk_asks_a_list_once(struct ktest *t)
{
	static const char again[] = "/listed/within/../..";
	struct pathindex *pi = setup(t, 1 << 16);
	char *path = kzalloc(FS_PATH_MAX);

	EXPECT_TRUE(t, path != NULL);
	for (unsigned int i = 0; i < 100; i++)
		memcpy(path + i * (sizeof(again) - 1), again, sizeof(again));
	nr_searches = 0;
	EXPECT_EQ(t, resolve_as(pi, path, 0, 2, 1000), 0);
	EXPECT_EQ(t, nr_searches, 2u);
	EXPECT_EQ(t, resolve_as(pi, path, 0, 2, 1000), 0);
	EXPECT_EQ(t, nr_searches, 4u); /* the next one does */
	EXPECT_EQ(t, resolve_as(pi, "/listed/closed/../closed/x", 0, 2, 1000), -EACCES);
	EXPECT_EQ(t, nr_searches, 6u);
	kfree(path);
	teardown(pi);
}

static void tells_where_a_missing_file_would_be(struct ktest *t)
{
	struct pathindex *pi = setup(t, 1 << 16);

	for (int round = 0; round < 2; round++) {
		EXPECT_EQ(t, resolve_as(pi, "/lib/new", 0, 2, 0), -ENOENT);
		EXPECT_TRUE(t, res->parent_exists);
		EXPECT_EQ(t, res->parent.ino, 13ull);
		EXPECT_EQ(t, resolve_as(pi, "/none/new", 0, 2, 0), -ENOENT);
		EXPECT_FALSE(t, res->parent_exists);
	}
	teardown(pi);
}

static void ends_where_somebody_else_goes_on(struct ktest *t)
{
	/* The second has no directory of its own in the tree. */
	static const char points[] = "/etc\0/usr/shm\0/usr/lib";
	static const struct {
		const char *path;
		size_t canon_len;
		int err;
		const char *canon; /* where it ended */
		const char *rest;  /* NULL: it went through */
	} cases[] = {
		{ "/etc", 0, 0, "/etc", "" },
		{ "/etc/passwd", 0, 0, "/etc", "/passwd" },
		{ "/etc/../usr", 0, 0, "/etc", "/../usr" },
		{ "//usr/./shm//x/", 0, 0, "/usr/shm", "//x/" },
		{ "/lib/libc", 0, 0, "/usr/lib", "//libc" }, /* by a link */
		{ "/lib", 0, 0, "/usr/lib", "" },
		{ "/up/passwd", 0, 0, "/etc", "//passwd" },
		{ "/usr/lib/libc", 8, 0, "/usr/lib/libc", NULL }, /* from behind a mount point */
		{ "/usr/lib/libc", 4, 0, "/usr/lib", "/libc" },
		/* A link where there was none: it is not what the caller has. */
		{ "/lib/libc", 4, -ENOENT, NULL, NULL },
		{ "/lib/../etc/passwd", 4, -ENOENT, NULL, NULL },
		{ "/lib", 4, 0, "/lib", NULL },
		{ "/usr", 0, 0, "/usr", NULL },
		{ "/usr/none", 0, -ENOENT, NULL, NULL },
		{ "/usr/shmx", 0, -ENOENT, NULL, NULL },
	};
	struct pathindex *pi = setup(t, 1 << 16);

	/* Entries that others have made must not hide a mount point. */
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		(void)!resolve_as(pi, cases[i].path, 0, 2, 0);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct fs_cred cred = { 0 };
		const struct path_request req = {
			.vnode = 2,
			.root_ino = 2,
			.path = cases[i].path,
			.len = strlen(cases[i].path),
			.mount_points = points,
			.mount_points_len = sizeof(points),
			.canon_len = cases[i].canon_len,
			.cred = &cred,
		};

		EXPECT_EQ(t, pathindex_resolve(pi, &toy_ops, NULL, &req, res), cases[i].err);
		if (cases[i].err)
			continue;
		EXPECT_STREQ(t, res->canon, cases[i].canon);
		EXPECT_EQ(t, res->canon_len, strlen(cases[i].canon));
		ASSERT_EQ(t, res->end == PATH_AT_MOUNT_POINT, cases[i].rest != NULL);
		if (!cases[i].rest)
			continue;
		EXPECT_EQ(t, res->rest_len, strlen(cases[i].rest));
		EXPECT_MEMEQ(t, res->rest, cases[i].rest, res->rest_len);
	}
	teardown(pi);
}

static void dot_dot_may_lead_to_a_mount_point(struct ktest *t)
{
	static const char points[] = "/usr";
	const struct fs_cred cred = { 0 };
	const struct path_request req = {
		.vnode = 2,
		.root_ino = 2,
		.path = "/usr/lib/../x",
		.len = 13,
		.mount_points = points,
		.mount_points_len = sizeof(points),
		.canon_len = 8,
		.cred = &cred,
	};
	struct pathindex *pi = setup(t, 1 << 16);

	EXPECT_EQ(t, pathindex_resolve(pi, &toy_ops, NULL, &req, res), 0);
	EXPECT_EQ(t, res->end, PATH_AT_MOUNT_POINT);
	EXPECT_STREQ(t, res->canon, "/usr");
	EXPECT_EQ(t, res->rest_len, 2u);
	teardown(pi);
}

/* The root of a process is where its walks begin, and a link there is no way out. */
static void a_link_does_not_leave_where_the_walk_ends(struct ktest *t)
{
	static const char points[] = "/private/jail";
	const struct fs_cred cred = { 0 };
	struct path_request req = {
		.vnode = 2,
		.root_ino = 2,
		.path = "/private/jail/beside",
		.len = 20,
		.mount_points = points,
		.mount_points_len = sizeof(points),
		.canon_len = 13,
		.cred = &cred,
	};
	struct pathindex *pi = setup(t, 1 << 16);

	EXPECT_EQ(t, pathindex_resolve(pi, &toy_ops, NULL, &req, res), 0);
	EXPECT_EQ(t, res->end, PATH_AT_MOUNT_POINT);
	EXPECT_STREQ(t, res->canon, "/private/jail");
	EXPECT_EQ(t, res->rest_len, 6u);
	EXPECT_MEMEQ(t, res->rest, "../key", 6);
	EXPECT_EQ(t, res->nr_links, 1u);
	req.mount_points_len = 0;
	EXPECT_EQ(t, pathindex_resolve(pi, &toy_ops, NULL, &req, res), 0);
	EXPECT_EQ(t, res->end, PATH_FOUND);
	EXPECT_STREQ(t, res->canon, "/private/key");
	teardown(pi);
}

static void names_and_paths_have_limits(struct ktest *t)
{
	struct pathindex *pi = setup(t, 1 << 16);
	char *path = kzalloc(FS_PATH_MAX + 2);

	ASSERT_TRUE(t, path);
	memset(path, 'x', 257);
	path[0] = '/';
	EXPECT_EQ(t, resolve_as(pi, path, 0, 2, 0), -ENAMETOOLONG);
	path[256] = '\0';
	EXPECT_EQ(t, resolve_as(pi, path, 0, 2, 0), -ENOENT);
	memset(path, '/', FS_PATH_MAX);
	EXPECT_EQ(t, resolve_as(pi, path, 0, 2, 0), -ENAMETOOLONG);
	path[FS_PATH_MAX - 1] = '\0';
	EXPECT_EQ(t, resolve_as(pi, path, 0, 2, 0), 0);
	kfree(path);
	teardown(pi);
}

static void memory_is_bounded(struct ktest *t)
{
	struct pathindex *pi = setup(t, 2000);
	struct pathindex_stats stats;
	char path[16] = "/chain00";

	for (int i = 0; i < 100; i++) {
		path[6] = (char)('0' + i / 10);
		path[7] = (char)('0' + i % 10);
		EXPECT_EQ(t, resolve_as(pi, path, PATH_NOFOLLOW, 2, 0), 0);
	}
	pathindex_stats(pi, &stats);
	EXPECT_LE(t, stats.bytes, 2000ull);
	EXPECT_GT(t, stats.evictions, 50ull);
	EXPECT_GT(t, stats.nr_entries, 2ull);
	teardown(pi);
}

static const struct ktest_case pathindex_cases[] = {
	KTEST(finds_what_linux_would),
	KTEST(a_second_walk_asks_nobody),
	KTEST(a_change_is_seen_where_it_matters),
	KTEST(a_walk_that_began_before_a_change_is_forgotten),
	KTEST(nobody_leaves_the_mount_point),
	KTEST(search_permission_is_checked_on_every_step),
	KTEST(a_walk_asks_a_list_once),
	KTEST(tells_where_a_missing_file_would_be),
	KTEST(ends_where_somebody_else_goes_on),
	KTEST(dot_dot_may_lead_to_a_mount_point),
	KTEST(a_link_does_not_leave_where_the_walk_ends),
	KTEST(names_and_paths_have_limits),
	KTEST(memory_is_bounded),
	{ 0 },
};
static const struct ktest_suite pathindex_suite = {
	.name = "fs.pathindex",
	.cases = pathindex_cases,
};
KTEST_SUITE(pathindex_suite);
