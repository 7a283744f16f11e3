/* SPDX-License-Identifier: MIT */
/*
 * tmpfs: entries, links, renames and positions, with every allocation failing once; then random
 * changes, the whole tree being checked after each.
 */
#include <pthread.h>

#include <abi/xattr.h>
#include <fs/acl.h>
#include <lib/err.h>
#include <lib/fmt.h>
#include <lib/ktest.h>
#include <lib/prng.h>
#include <lib/string.h>
#include <processor/account/account.h>
#include <processor/excache/object.h>
#include <processor/ipc/pipe.h>
#include <processor/process/process.h>
#include <processor/procfs/system.h>
#include <shim/shim.h>

#include <processor/tmpfs/tmpfs_private.h>

/* --- the calling program ------------------------------------------------------------- */

static struct program program;

static void begin_account(void)
{
	static struct process process = { .program = &program };
	static const struct cred cred;
	static struct task task = { .process = &process, .cred = &cred };

	program.kmem = kmem_account_create();
	thread_current()->private = &task;
}

static void end_account(struct ktest *t)
{
	EXPECT_EQ(t, kmem_charged(program.kmem), 0u);
	kmem_account_put(program.kmem);
	thread_current()->private = NULL;
	kmem_account_set_limits(UINT64_MAX, 0);
}

/* --- what is not linked -------------------------------------------------------------- */

struct dir_sink {
	char names[64][16];
	uint64_t pos[64];
	size_t nr, room;
};

bool dir_emit(struct dir_sink *sink, const char *name, size_t len, uint64_t ino, uint8_t type,
	      uint64_t cookie)
{
	if (sink->nr == sink->room)
		return false;
	memcpy(sink->names[sink->nr], name, MIN(len, sizeof(sink->names[0]) - 1));
	sink->names[sink->nr][MIN(len, sizeof(sink->names[0]) - 1)] = '\0';
	sink->pos[sink->nr++] = cookie;
	return true;
}

void process_cred(struct fs_cred *cred)
{
	*cred = (struct fs_cred){ 0 };
}

struct pipe *pipe_create(void)
{
	return ERR_PTR(-ENOMEM);
}

void pipe_put(struct pipe *p)
{
}

int tmpfs_open(struct inode *inode, struct file *f)
{
	return -ENXIO;
}

int object_write_begin(struct object *obj)
{
	return 0;
}

void object_write_end(struct object *obj)
{
}

int tmpfs_resize(struct tmpfs_inode *ti, uint64_t size)
{
	ti->size = size;
	return 0;
}

void tmpfs_release_data(struct tmpfs_inode *ti)
{
}

uint64_t tmpfs_data_pages(struct tmpfs_inode *ti)
{
	return 0;
}

uint64_t system_memory_total(void)
{
	return 1000 * PAGE_SIZE;
}

uint32_t fs_new_dev(void)
{
	return 99;
}

void tmpfs_set_limits(struct tmpfs *of)
{
	of->max_pages = UINT64_MAX;
	of->max_inodes = 1000;
}

void tmpfs_fill_type(struct fs_type *type)
{
}

const struct inode_ops tmpfs_file_ops = {
	.name = "tmpfs-file",
	.getattr = tmpfs_getattr,
	.setattr = tmpfs_setattr,
	.release = tmpfs_release,
};

/* --- the file system under test ------------------------------------------------------ */

static struct tmpfs fs;
static struct inode *root;
static size_t live_before;

static void setup(struct ktest *t, uint64_t inodes)
{
	live_before = shim_allocs_live();
	fs = (struct tmpfs){ .max_pages = UINT64_MAX, .max_inodes = inodes };
	fs.type.at = "/t";
	ASSERT_EQ(t, tmpfs_setup(&fs), 0);
	ASSERT_EQ(t, tmpfs_root(&fs.type, &root), 0);
}

static void teardown(struct ktest *t)
{
	EXPECT_EQ(t, fs.entries, 0u);
	EXPECT_EQ(t, fs.inodes, 1u);
	inode_put(root);
	EXPECT_EQ(t, fs.inodes, 0u);
	EXPECT_EQ(t, fs.pages, 0u);
	tmpfs_destroy(&fs);
	EXPECT_EQ(t, shim_allocs_live(), live_before);
}

/* Referenced; NULL: there is none. */
static struct inode *at(struct inode *dir, const char *name)
{
	struct inode *out;

	return dir->ops->lookup(dir, name, strlen(name), &out) ? NULL : out;
}

/* The same without the reference, for looks at something that stays. */
static struct inode *peek(struct inode *dir, const char *name)
{
	struct inode *out = at(dir, name);

	inode_put(out);
	return out;
}

static int make(struct inode *dir, const char *name, uint32_t mode)
{
	const struct new_inode how = { .name = name, .len = strlen(name), .mode = mode };

	return dir->ops->create(dir, &how, NULL);
}

static int drop(struct inode *dir, const char *name)
{
	struct inode *victim = at(dir, name);
	int err;

	if (!victim)
		return -ENOENT;
	err = dir->ops->remove(dir, name, strlen(name), victim);
	inode_put(victim);
	return err;
}

static int add_link(struct inode *dir, const char *name, struct inode *target)
{
	return dir->ops->link(dir, name, strlen(name), target);
}

/* As the system call: look both up, check kinds, and say what was found. */
static int move(struct inode *from_dir, const char *from, struct inode *to_dir, const char *to,
		bool exchange)
{
	struct rename_args a = {
		.from_dir = from_dir,
		.from = from,
		.from_len = strlen(from),
		.source = at(from_dir, from),
		.to_dir = to_dir,
		.to = to,
		.to_len = strlen(to),
		.target = at(to_dir, to),
		.exchange = exchange,
	};
	int err = 0;

	if (!a.source || (exchange && !a.target))
		err = -ENOENT;
	else if (!exchange && a.target && inode_is_dir(a.source) != inode_is_dir(a.target))
		err = inode_is_dir(a.source) ? -ENOTDIR : -EISDIR;
	else if (a.source != a.target)
		err = from_dir->ops->rename(&a);
	inode_put(a.source);
	inode_put(a.target);
	return err;
}

/* --- checking the whole tree --------------------------------------------------------- */

struct totals {
	size_t entries, depth;
};

static void check_dir(struct ktest *t, struct tmpfs_inode *dir, struct totals *sum)
{
	struct tmpfs_entry *e;
	uint64_t last = 1, n = 0;
	uint32_t subdirs = 0;

	ASSERT_TRUE(t, ++sum->depth < 1000u);
	EXPECT_TRUE(t, rb_check(&dir->entries));
	rb_for_each_entry(e, &dir->entries, order) {
		EXPECT_TRUE(t, e->dir == dir);
		EXPECT_GT(t, e->pos, last);
		EXPECT_LT(t, e->pos, dir->next_pos);
		last = e->pos;
		n++;
		EXPECT_FALSE(t, hlist_unhashed(&e->hash));
		EXPECT_GT(t, e->child->nlink, 0u);
		if (!inode_is_dir(&e->child->inode))
			continue;
		subdirs++;
		EXPECT_TRUE(t, e->child->self == e);
		EXPECT_TRUE(t, e->child->parent == dir);
		check_dir(t, e->child, sum);
	}
	EXPECT_EQ(t, dir->nr_entries, n);
	EXPECT_EQ(t, dir->nlink, 2 + subdirs);
	sum->entries += n;
}

static void check_all(struct ktest *t)
{
	struct totals sum = { 0 };
	size_t hashed = 0;

	check_dir(t, tmpfs_inode(root), &sum);
	for (size_t i = 0; i < fs.buckets; i++) {
		struct tmpfs_entry *e;

		hlist_for_each_entry(e, &fs.table[i], hash)
			hashed++;
	}
	EXPECT_EQ(t, fs.entries, sum.entries);
	EXPECT_EQ(t, hashed, sum.entries);
}

/* Each entry pays once, the inode for its first one; nobody holds what has no entry. */
static void check_numbers(struct ktest *t)
{
	check_all(t);
	EXPECT_EQ(t, fs.inodes, 1 + fs.entries);
}

/* --- cases --------------------------------------------------------------------------- */

static void entries_come_and_go(struct ktest *t)
{
	struct inode *d;

	setup(t, 100);
	EXPECT_EQ(t, make(root, "d", S_IFDIR | 0755), 0);
	EXPECT_EQ(t, make(root, "d", S_IFDIR | 0755), -EEXIST);
	d = at(root, "d");
	ASSERT_TRUE(t, d);
	EXPECT_EQ(t, make(d, "f", S_IFREG | 0644), 0);
	EXPECT_EQ(t, drop(root, "d"), -ENOTEMPTY);
	EXPECT_EQ(t, add_link(root, "g", peek(d, "f")), 0);
	EXPECT_EQ(t, tmpfs_inode(peek(d, "f"))->nlink, 2u);
	check_all(t);
	EXPECT_EQ(t, drop(d, "f"), 0);
	EXPECT_EQ(t, drop(d, "f"), -ENOENT);
	EXPECT_EQ(t, drop(root, "d"), 0);
	/* A removed directory can be stood in, and nothing made in it. */
	EXPECT_EQ(t, make(d, "x", S_IFREG), -ENOENT);
	EXPECT_EQ(t, move(root, "g", d, "x", false), -ENOENT);
	inode_put(d);
	check_all(t);
	EXPECT_EQ(t, drop(root, "g"), 0);
	teardown(t);
}

static void a_name_that_changed_is_looked_up_again(struct ktest *t)
{
	struct inode *old;

	setup(t, 100);
	EXPECT_EQ(t, make(root, "a", S_IFREG), 0);
	old = at(root, "a");
	EXPECT_EQ(t, drop(root, "a"), 0);
	EXPECT_EQ(t, root->ops->remove(root, "a", 1, old), -EAGAIN);
	EXPECT_EQ(t, make(root, "a", S_IFREG), 0);
	EXPECT_EQ(t, root->ops->remove(root, "a", 1, old), -EAGAIN);
	/* Unlinked for good: no new name. */
	EXPECT_EQ(t, add_link(root, "b", old), -ENOENT);
	inode_put(old);
	EXPECT_EQ(t, drop(root, "a"), 0);
	teardown(t);
}

static void renames_follow_the_rules(struct ktest *t)
{
	struct inode *d, *e;
	char text[64];

	setup(t, 100);
	EXPECT_EQ(t, make(root, "d", S_IFDIR), 0);
	d = at(root, "d");
	EXPECT_EQ(t, make(d, "e", S_IFDIR), 0);
	e = at(d, "e");
	EXPECT_EQ(t, move(root, "d", e, "x", false), -EINVAL);
	EXPECT_EQ(t, move(root, "d", d, "x", false), -EINVAL);
	EXPECT_EQ(t, move(d, "e", root, "d", false), -ENOTEMPTY);
	EXPECT_EQ(t, move(root, "d", d, "e", true), -EINVAL);
	EXPECT_EQ(t, move(d, "e", root, "d", true), -EINVAL);
	EXPECT_EQ(t, e->ops->text(e, text, sizeof(text)), 0);
	EXPECT_STREQ(t, text, "/d/e");
	EXPECT_EQ(t, move(d, "e", root, "e", false), 0);
	EXPECT_EQ(t, e->ops->text(e, text, sizeof(text)), 0);
	EXPECT_STREQ(t, text, "/e");
	check_all(t);
	EXPECT_EQ(t, move(root, "d", root, "e", true), 0);
	EXPECT_TRUE(t, peek(root, "e") == d && peek(root, "d") == e);
	check_all(t);
	EXPECT_EQ(t, move(root, "d", root, "e", false), 0);
	EXPECT_EQ(t, tmpfs_inode(d)->nlink, 0u);
	EXPECT_EQ(t, d->ops->text(d, text, sizeof(text)), -ENOENT);
	inode_put(d);
	inode_put(e);
	check_numbers(t);
	EXPECT_EQ(t, drop(root, "e"), 0);
	teardown(t);
}

static void limits_hold(struct ktest *t)
{
	const struct new_inode tmp = { .name = "#", .len = 1, .mode = S_IFREG };
	const struct new_inode never = { .name = "#", .len = 1, .mode = S_IFREG, .nameless = true };
	struct inode *ti;
	char target[200];

	setup(t, 4);
	EXPECT_EQ(t, make(root, "a", S_IFREG), 0);
	EXPECT_EQ(t, root->ops->tmpfile(root, &tmp, &ti), 0);
	EXPECT_EQ(t, add_link(root, "b", ti), 0); /* its first name */
	EXPECT_EQ(t, add_link(root, "c", ti), 0);
	EXPECT_EQ(t, add_link(root, "d", ti), -ENOSPC);
	EXPECT_EQ(t, make(root, "d", S_IFREG), -ENOSPC);
	inode_put(ti);
	check_numbers(t);
	EXPECT_EQ(t, drop(root, "b"), 0);
	EXPECT_EQ(t, drop(root, "c"), 0);
	EXPECT_EQ(t, fs.inodes, 2u);
	EXPECT_EQ(t, root->ops->tmpfile(root, &never, &ti), 0);
	EXPECT_EQ(t, add_link(root, "b", ti), -ENOENT);
	inode_put(ti);
	/* A long link takes a page. */
	fs.max_pages = 0;
	memset(target, 'x', sizeof(target));
	{
		struct new_inode link = { .name = "l",
					  .len = 1,
					  .mode = S_IFLNK | 0777,
					  .target = target,
					  .target_len = sizeof(target) };

		EXPECT_EQ(t, root->ops->create(root, &link, NULL), -ENOSPC);
		link.target_len = 5;
		EXPECT_EQ(t, root->ops->create(root, &link, NULL), 0);
	}
	EXPECT_EQ(t, drop(root, "l"), 0);
	EXPECT_EQ(t, drop(root, "a"), 0);
	teardown(t);
}

static void positions_stay(struct ktest *t)
{
	struct dir_sink sink = { .room = 5 };
	char name[16];
	uint64_t pos = 2;
	size_t total = 0;

	setup(t, 100);
	for (int i = 0; i < 20; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		EXPECT_EQ(t, make(root, name, S_IFREG), 0);
	}
	/*
	 * Five at a time, each removed once it has been read, and one more made: never seen twice.
	 */
	for (;;) {
		sink.nr = 0;
		EXPECT_EQ(t, root->ops->readdir(root, &pos, &sink), 0);
		if (!sink.nr)
			break;
		pos = sink.pos[sink.nr - 1];
		for (size_t i = 0; i < sink.nr; i++)
			EXPECT_EQ(t, drop(root, sink.names[i]), 0);
		total += sink.nr;
	}
	EXPECT_EQ(t, total, 20u);
	teardown(t);
}

/* As deep as a program likes, all held by the innermost alone. */
static void removed_directories_go_without_recursion(struct ktest *t)
{
	struct inode *dir = root, *deepest, *next;

	setup(t, 100000);
	dir = root;
	inode_get(dir);
	for (int i = 0; i < 50000; i++) {
		ASSERT_EQ(t, make(dir, "d", S_IFDIR), 0);
		next = at(dir, "d");
		inode_put(dir);
		dir = next;
	}
	deepest = dir;
	inode_get(deepest);
	while (dir != root) {
		ASSERT_EQ(t, dir->ops->parent(dir, &next), 0);
		ASSERT_EQ(t, drop(next, "d"), 0);
		inode_put(dir);
		dir = next;
	}
	inode_put(dir);
	EXPECT_EQ(t, fs.inodes, 50001u);
	inode_put(deepest);
	teardown(t);
}

/* One random change; -ENOMEM, -ENOSPC: nothing may have happened. */
static int change(struct prng *r, struct inode **dirs)
{
	static const char *const names[] = { "a", "b", "c", "d", "e" };
	struct inode *d1 = dirs[prng_below(r, 4)], *d2 = dirs[prng_below(r, 4)], *target;
	const char *n1 = names[prng_below(r, 5)], *n2 = names[prng_below(r, 5)];
	int err;

	switch (prng_below(r, 8)) {
	case 0:
		return make(d1, n1, S_IFDIR | 0755);
	case 1:
		return make(d1, n1, S_IFREG | 0644);
	case 2:
		target = at(d2, n2);
		err = target && !inode_is_dir(target) ? add_link(d1, n1, target) : 0;
		inode_put(target);
		return err;
	case 3:
		return drop(d1, n1);
	case 4:
		return move(d1, n1, d2, n2, true);
	default:
		return move(d1, n1, d2, n2, false);
	}
}

/* Four directories to work in: the root, and whatever is below it at some names. */
static void pick_dirs(struct prng *r, struct inode **dirs)
{
	static const char *const names[] = { "a", "b", "c", "d", "e" };

	for (size_t i = 0; i < 4; i++) {
		struct inode *dir = root, *next;

		inode_get(dir);
		for (uint64_t depth = prng_below(r, 4); depth > 0; depth--) {
			next = at(dir, names[prng_below(r, 5)]);
			if (!next || !inode_is_dir(next)) {
				inode_put(next);
				break;
			}
			inode_put(dir);
			dir = next;
		}
		dirs[i] = dir;
	}
}

static void empty(struct ktest *t, struct inode *dir)
{
	struct tmpfs_entry *e;

	while ((e = rb_entry_or_null(rb_first(&tmpfs_inode(dir)->entries), struct tmpfs_entry,
				     order))) {
		char name[16] = { 0 };

		memcpy(name, e->name, e->len);
		if (inode_is_dir(&e->child->inode))
			empty(t, &e->child->inode);
		ASSERT_EQ(t, drop(dir, name), 0);
	}
}

static void random_changes_keep_the_tree_whole(struct ktest *t)
{
	struct inode *dirs[4];
	struct prng r;

	prng_seed(&r, 4711);
	begin_account();
	setup(t, 1000);
	for (int step = 0; step < 3000; step++) {
		struct prng same;
		long budget = 0;
		int err;

		pick_dirs(&r, dirs);
		/* The same change, until no allocation of it fails. */
		do {
			same = r;
			shim_fail_alloc_after(budget++);
			err = change(&same, dirs);
			shim_fail_alloc_after(-1);
			check_all(t);
		} while ((err == -ENOMEM || err == -ENOSPC) && budget < 20);
		EXPECT_NE(t, err, -ENOMEM);
		EXPECT_NE(t, err, -ENOSPC);
		EXPECT_NE(t, err, -EAGAIN);
		r = same;
		for (size_t i = 0; i < 4; i++)
			inode_put(dirs[i]);
		check_numbers(t);
	}
	empty(t, root);
	teardown(t);
	end_account(t);
}

/* A file system of mount(2) goes with its last mount and its last inode, whatever is in it. */
static void a_dropped_one_goes_with_its_last_inode(struct ktest *t)
{
	struct fs_type *type;
	struct inode *top, *kept;
	char show[128] = "";
	struct file_attr attr = { 0 };

	begin_account();
	live_before = shim_allocs_live();
	ASSERT_EQ(t, tmpfs_make("size=40k,nr_inodes=1k,mode=0750,,uid=7", &type), 0);
	ASSERT_EQ(t, type->root(type, &top), 0);
	type->show(type, show, sizeof(show));
	EXPECT_STREQ(t, show, ",size=40k,nr_inodes=1024,mode=750,uid=7");
	ASSERT_EQ(t, tmpfs_getattr(top, &attr), 0);
	EXPECT_EQ(t, attr.mode, S_IFDIR | 0750u);
	EXPECT_EQ(t, attr.uid, 7u);
	ASSERT_EQ(t, make(top, "f", S_IFREG), 0);
	ASSERT_EQ(t, make(top, "d", S_IFDIR), 0);
	ASSERT_EQ(t, make(peek(top, "d"), "e", S_IFDIR), 0);
	ASSERT_EQ(t, make(peek(top, "d"), "g", S_IFREG), 0);
	ASSERT_EQ(t, add_link(top, "again", peek(peek(top, "d"), "g")), 0);
	kept = at(peek(top, "d"), "g");
	EXPECT_EQ(t, type->reconfigure(type, "nr_inodes=2"), -EINVAL);
	EXPECT_EQ(t, type->reconfigure(type, "size=8k"), 0);
	EXPECT_EQ(t, tmpfs_of(type)->max_pages, 2u);
	inode_put(top);
	type->drop(type);
	EXPECT_LT(t, live_before, shim_allocs_live());
	ASSERT_EQ(t, tmpfs_getattr(kept, &attr), 0);
	EXPECT_EQ(t, attr.nlink, 0u);
	inode_put(kept);
	EXPECT_EQ(t, shim_allocs_live(), live_before);
	end_account(t);
}

static void options_are_checked(struct ktest *t)
{
	static const struct {
		const char *text;
		int want;
	} cases[] = {
		{ "", 0 },
		{ "size=10%", 0 },
		{ "size=1001%", -EINVAL },
		{ "size=%", -EINVAL },
		{ "size", -EINVAL },
		{ "size=", -EINVAL },
		{ "size=0", 0 },
		{ "nr_blocks=1", 0 },
		{ "mode=17777", -EINVAL },
		{ "mode=8", -EINVAL },
		{ "uid=-1", -EINVAL },
		{ "uid=4294967295", -EINVAL },
		{ "gid=0,gid=9", 0 },
		{ "what=1", -EINVAL },
		{ "sized=1", -EINVAL },
		{ "size=1,oops", -EINVAL },
		{ ",", 0 },
		{ "=", -EINVAL },
		{ "mode=0000000000000000000000000000000000000000000000000000000000001", -EINVAL },
	};
	struct fs_type *type;

	begin_account();
	live_before = shim_allocs_live();
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const int err = tmpfs_make(cases[i].text, &type);

		EXPECT_EQ(t, err, cases[i].want);
		if (!err)
			type->drop(type);
	}
	for (long budget = 0; budget < 2; budget++) {
		shim_fail_alloc_after(budget);
		EXPECT_EQ(t, tmpfs_make("", &type), -ENOMEM);
		shim_fail_alloc_after(-1);
	}
	EXPECT_EQ(t, shim_allocs_live(), live_before);
	end_account(t);
}

/* One program fills the file system as far as its memory goes, and makes one more after each rm. */
static void the_program_is_charged(struct ktest *t)
{
	int nr = 0, err;
	char name[16];

	begin_account();
	setup(t, 1000);
	kmem_account_set_limits(64 << 10, 0);
	do {
		snprintf(name, sizeof(name), "%d", nr++);
		err = make(root, name, S_IFREG | 0644);
	} while (!err);
	EXPECT_TRUE(t, err == -ENOSPC || err == -ENOMEM); /* no inode, or no entry */
	EXPECT_GT(t, nr, 50);
	EXPECT_LT(t, nr, 900);
	for (int i = 0; i < nr - 1; i++) {
		snprintf(name, sizeof(name), "%d", i);
		ASSERT_EQ(t, drop(root, name), 0);
		ASSERT_EQ(t, make(root, name, S_IFDIR | 0755), 0);
	}
	empty(t, root);
	teardown(t);
	end_account(t);
}

/* A list of the owner, one user, the group, the mask and the others. */
static const uint8_t list_of_user[] = {
	2, 0,   0,   0,   1,   0,   7,  0, 255, 255, 255, 255, 2,   0,   6,
	0, 233, 3,   0,   0,   4,   0,  5, 0,   255, 255, 255, 255, 16,  0,
	7, 0,   255, 255, 255, 255, 32, 0, 1,   0,   255, 255, 255, 255,
};

static uint32_t mode_of(struct inode *inode)
{
	struct file_attr attr = { 0 };

	(void)!tmpfs_getattr(inode, &attr);
	return attr.mode;
}

/* Lists are inherited whole or the file is not made; the mode and they follow each other. */
static void lists_and_modes_agree(struct ktest *t)
{
	const struct new_inode how = {
		.name = "sub", .len = 3, .mode = S_IFDIR | 0700, .masked = 070
	};
	const struct attr_change ch = { .valid = ATTR_MODE, .mode = 0640 };
	uint8_t got[64];
	int err, budget = 0;
	struct inode *sub;

	begin_account();
	setup(t, 1000);
	ASSERT_EQ(t, tmpfs_setxattr(root, POSIX_ACL_DEFAULT, list_of_user, sizeof(list_of_user), 0),
		  0);
	EXPECT_EQ(t, mode_of(root) & 07777, 01777);
	do {
		shim_fail_alloc_after(budget++);
		err = root->ops->create(root, &how, NULL);
		shim_fail_alloc_after(-1);
		ASSERT_TRUE(t, !err || ((err == -ENOMEM || err == -ENOSPC) && !peek(root, "sub")));
	} while (err);
	EXPECT_GT(t, budget, 4);
	sub = at(root, "sub");
	ASSERT_TRUE(t, sub);
	/* The umask did not count. */
	EXPECT_EQ(t, mode_of(sub), S_IFDIR | 0770);
	EXPECT_EQ(t, tmpfs_getxattr(sub, POSIX_ACL_DEFAULT, got, sizeof(got)),
		  (ssize_t)sizeof(list_of_user));
	EXPECT_MEMEQ(t, got, list_of_user, sizeof(list_of_user));
	EXPECT_EQ(t, tmpfs_getxattr(sub, POSIX_ACL_ACCESS, got, sizeof(got)),
		  (ssize_t)sizeof(list_of_user));
	EXPECT_EQ(t, got[38], 0); /* the others */
	EXPECT_EQ(t, tmpfs_setattr(sub, &ch), 0);
	EXPECT_EQ(t, tmpfs_getxattr(sub, POSIX_ACL_ACCESS, got, sizeof(got)),
		  (ssize_t)sizeof(list_of_user));
	EXPECT_EQ(t, got[6], 6);
	EXPECT_EQ(t, got[22], 5); /* the group's own entry stays */
	EXPECT_EQ(t, got[30], 4); /* the mask */
	EXPECT_EQ(t, tmpfs_setxattr(sub, POSIX_ACL_ACCESS, NULL, 0, XATTR_REPLACE), 0);
	EXPECT_EQ(t, tmpfs_getxattr(sub, POSIX_ACL_ACCESS, got, sizeof(got)), -ENODATA);
	EXPECT_EQ(t, mode_of(sub), S_IFDIR | 0640);
	inode_put(sub);
	ASSERT_EQ(t, drop(root, "sub"), 0);
	teardown(t);
	end_account(t);
}

/* That of one that says no more than the mode. */
static const uint8_t list_of_mode[] = {
	2, 0, 0,   0,   1,   0,   7,  0, 255, 255, 255, 255, 4,   0,
	5, 0, 255, 255, 255, 255, 32, 0, 1,   0,   255, 255, 255, 255,
};

static int lists_done;

static void *read_attributes(void *wrong)
{
	struct file_attr attr = { 0 };

	while (!__atomic_load_n(&lists_done, __ATOMIC_ACQUIRE)) {
		(void)!tmpfs_getattr(root, &attr);
		if (attr.acl != ((attr.mode & 070) == 070))
			++*(unsigned int *)wrong;
	}
	return NULL;
}

/* The group's bits are a mask's while there is a list, and are nobody's rights then. */
static void lists_and_modes_change_at_once(struct ktest *t)
{
	unsigned int wrong = 0;
	pthread_t reader;

	setup(t, 1000);
	ASSERT_EQ(t, tmpfs_setxattr(root, POSIX_ACL_ACCESS, list_of_mode, sizeof(list_of_mode), 0),
		  0);
	__atomic_store_n(&lists_done, 0, __ATOMIC_RELEASE);
	ASSERT_EQ(t, pthread_create(&reader, NULL, read_attributes, &wrong), 0);
	for (int i = 0; i < 20000; i++) {
		const bool user = i % 2;

		EXPECT_EQ(t,
			  tmpfs_setxattr(root, POSIX_ACL_ACCESS, user ? list_of_user : list_of_mode,
					 user ? sizeof(list_of_user) : sizeof(list_of_mode), 0),
			  0);
	}
	__atomic_store_n(&lists_done, 1, __ATOMIC_RELEASE);
	pthread_join(reader, NULL);
	EXPECT_EQ(t, wrong, 0u);
	ASSERT_EQ(t, tmpfs_setxattr(root, POSIX_ACL_ACCESS, NULL, 0, 0), 0);
	teardown(t);
}

/* The owner had looked before another made the file immutable. */
static void flags_are_not_undone(struct ktest *t)
{
	static const struct attr_change cases[] = {
		{ .valid = ATTR_FLAGS, .flags = STATX_ATTR_NODUMP },
		{ .valid = ATTR_FLAGS | ATTR_GUARDED, .flags = STATX_ATTR_IMMUTABLE },
		{ .valid = ATTR_FLAGS, .flags = 0 },
		{ .valid = ATTR_FLAGS, .flags = STATX_ATTR_APPEND },
		{ .valid = ATTR_FLAGS, .flags = STATX_ATTR_IMMUTABLE | STATX_ATTR_NODUMP },
		{ .valid = ATTR_FLAGS | ATTR_GUARDED, .flags = 0 },
	};
	static const int want[] = { 0, 0, -EPERM, -EPERM, 0, 0 };
	struct file_attr attr = { 0 };

	begin_account();
	setup(t, 1000);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		EXPECT_EQ(t, tmpfs_setattr(root, &cases[i]), want[i]);
		EXPECT_EQ(t, tmpfs_getattr(root, &attr), 0);
		EXPECT_EQ(t, attr.attrs == cases[i].flags, !want[i]);
	}
	teardown(t);
	end_account(t);
}

static const struct ktest_case tmpfs_cases[] = {
	KTEST(entries_come_and_go),
	KTEST(a_name_that_changed_is_looked_up_again),
	KTEST(renames_follow_the_rules),
	KTEST(limits_hold),
	KTEST(positions_stay),
	KTEST(removed_directories_go_without_recursion),
	KTEST(random_changes_keep_the_tree_whole),
	KTEST(the_program_is_charged),
	KTEST(lists_and_modes_agree),
	KTEST(lists_and_modes_change_at_once),
	KTEST(flags_are_not_undone),
	KTEST(a_dropped_one_goes_with_its_last_inode),
	KTEST(options_are_checked),
	{ 0 },
};
static const struct ktest_suite tmpfs_suite = { .name = "tmpfs.dir", .cases = tmpfs_cases };
KTEST_SUITE(tmpfs_suite);
