/* SPDX-License-Identifier: MIT */
/*
 * Directories listed in pieces: names whose hashes are equal come once each, however few of them
 * find room in a piece, and also while names go.
 *
 * The disk uses the oldest of ext4's hashes, of which equal ones are found by trying.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <drivers/blkdev.h>
#include <fs/ext4.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/ktest.h>
#include <lib/name_tie.h>

#include "../../fs/ext4/ext4_priv.h"
#include "image_kit.h"
#include "logdisk.h"

/* Behind 150 letters x: all have the hash of the first one. */
#define NR_X 150
static const char *const equal[] = {
	"n133821NY",   "n331202R3",   "n1705428Fc",  "n2140043Vy",  "n23216292A",  "n2334652wX",
	"n2564909t8",  "n2681434q8",  "n2784330li",  "n3251799z7",  "n41439343l",  "n53054118U",
	"n5944291lz",  "n5976587Pt",  "n60461763c",  "n6440461Y5",  "n7296401GX",  "n9209613Iv",
	"n10275417UC", "n10389416w3", "n10889477BL", "n11244728wT", "n114775833X", "n11813088pv",
};
#define NR_EQUAL  ARRAY_SIZE(equal)
#define NR_OTHERS 200u

struct fixture {
	struct ktest *t;
	char dir[64];
	struct logdisk *disk;
	struct fs *fs;
	struct fs_inode *root;
	struct fs_inode *in; /* the directory */
};

static struct fs_change *change(void)
{
	static struct fs_change ch = { .privileged = true, .now.sec = 1700000000 };

	return &ch;
}

static const char *equal_name(size_t i)
{
	static char name[256];

	snprintf(name, sizeof(name), "%0*d%s", NR_X, 0, equal[i]);
	memset(name, 'x', NR_X);
	return name;
}

static const char *other_name(unsigned int i)
{
	static char name[32];

	snprintf(name, sizeof(name), "other-%u", i);
	return name;
}

static void add(struct fixture *r, const char *name)
{
	const struct fs_new what = { .mode = S_IFREG | 0644 };
	struct fs_inode *in = fs_create(r->in, name, strlen(name), &what, change());

	MUST(!IS_ERR(in));
	fs_inode_put(in);
}

static void start(struct fixture *r, struct ktest *t)
{
	const struct fs_mount_options opt = { .writable = true, .manual_commit = true };
	const struct fs_new what = { .mode = S_IFDIR | 0755 };
	char cmd[512], image[96];

	memset(r, 0, sizeof(*r));
	r->t = t;
	image_dir(r->dir, "listing");
	snprintf(image, sizeof(image), "%s/image", r->dir);
	snprintf(cmd, sizeof(cmd),
		 "PATH=$PATH:/usr/sbin:/sbin; mke2fs -q -F -t ext4 -b 1024 %s 8M && "
		 "tune2fs -E hash_alg=legacy %s >/dev/null",
		 image, image);
	MUST(!system(cmd));
	r->disk = logdisk_open(image);
	MUST(!ext4_mount(logdisk_bd(r->disk), &opt, &r->fs));
	r->root = fs_inode_get(r->fs, r->fs->root_ino, FS_ANY_GEN);
	MUST(!IS_ERR(r->root));
	r->in = fs_create(r->root, "dir", 3, &what, change());
	MUST(!IS_ERR(r->in));
}

static void finish(struct fixture *r)
{
	char cmd[512], image[96];

	fs_inode_put(r->in);
	fs_inode_put(r->root);
	fs_unmount(r->fs);
	snprintf(image, sizeof(image), "%s/image", r->dir);
	logdisk_save(r->disk, image);
	logdisk_close(r->disk);
	snprintf(cmd, sizeof(cmd), "PATH=$PATH:/usr/sbin:/sbin; e2fsck -fn %s >&2", image);
	EXPECT_EQ(r->t, system(cmd), 0);
	snprintf(cmd, sizeof(cmd), "rm -rf %s", r->dir);
	(void)!system(cmd);
}

/* A reader that takes a few names at a time. */
struct reader {
	char names[8][256];
	unsigned int nr, room;
	uint64_t cookie, behind; /* to go on */
};

static int take(void *arg, const struct fs_dirent *de)
{
	struct reader *rd = arg;

	if (rd->nr == rd->room)
		return 1;
	snprintf(rd->names[rd->nr++], sizeof(rd->names[0]), "%.*s", (int)de->name_len, de->name);
	rd->cookie = de->next_cookie;
	rd->behind = de->more ? name_tie(de->name, de->name_len) : 0;
	return 0;
}

static bool read_piece(struct fixture *r, struct reader *rd)
{
	uint64_t cookie = rd->cookie;

	rd->nr = 0;
	MUST(!fs_readdir_behind(r->in, &cookie, rd->behind, take, rd));
	return rd->nr != 0;
}

static void count(struct ktest *t, const char *name, unsigned int *equals, unsigned int *others)
{
	unsigned int i;

	for (i = 0; i < NR_EQUAL; i++)
		if (!strcmp(name, equal_name(i)))
			equals[i]++;
	if (sscanf(name, "other-%u", &i) == 1 && i < NR_OTHERS)
		others[i]++;
	if (t->nr_failed)
		fprintf(stderr, "at %s\n", name);
}

/* All names, @room at a time; @remove: each is removed as soon as it was read. */
static void list(struct fixture *r, unsigned int room, bool remove)
{
	unsigned int equals[NR_EQUAL] = { 0 }, others[NR_OTHERS] = { 0 }, rounds = 0;
	struct reader rd = { .room = room };

	while (read_piece(r, &rd) && rounds++ < 1000) {
		for (unsigned int i = 0; i < rd.nr; i++) {
			count(r->t, rd.names[i], equals, others);
			if (remove && rd.names[i][0] != '.')
				EXPECT_EQ(r->t,
					  fs_unlink(r->in, rd.names[i], strlen(rd.names[i]),
						    change()),
					  0);
		}
	}
	EXPECT_LE(r->t, rounds, 1000u);
	for (unsigned int i = 0; i < NR_EQUAL; i++)
		EXPECT_EQ(r->t, equals[i], 1u);
	for (unsigned int i = 0; i < NR_OTHERS; i++)
		EXPECT_EQ(r->t, others[i], 1u);
}

static void names_of_one_hash_come_once(struct ktest *t)
{
	uint32_t hash, minor, first;
	struct fixture r;

	for (size_t i = 0; i < NR_EQUAL; i++) {
		EXPECT_EQ(t,
			  ext4_dirhash2(EXT4_HASH_LEGACY, NULL, equal_name(i),
					strlen(equal_name(i)), &hash, &minor),
			  0);
		first = i ? first : hash;
		EXPECT_EQ(t, hash, first);
	}
	start(&r, t);
	for (unsigned int i = 0; i < NR_OTHERS; i++)
		add(&r, other_name(i));
	for (size_t i = 0; i < NR_EQUAL; i++)
		add(&r, equal_name(i));
	for (unsigned int room = 1; room <= 8; room += 3)
		list(&r, room, false);
	list(&r, 2, true);
	finish(&r);
}

static const struct ktest_case listing_cases[] = {
	KTEST(names_of_one_hash_come_once),
	{ 0 },
};
static const struct ktest_suite listing_suite = { .name = "fs.listing", .cases = listing_cases };
KTEST_SUITE(listing_suite);
