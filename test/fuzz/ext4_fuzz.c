/* SPDX-License-Identifier: MIT */
/*
 * Fuzz the ext4 reader with damaged disks.
 *
 * mke2fs makes the images when the fuzzer starts, from a small tree, in every layout that the
 * reader has code for; identifiers and times are fixed, so an input means the same in every run.
 * Half of the images have no metadata checksums, so that damage gets past them.
 *
 * Byte 0 of the input chooses the image; patches of 5 bytes follow: place (3, little-endian),
 * value, and how it is applied (replace, xor, add, or 4 bytes at once). Places count only bytes in
 * the parts of the image that are in use.
 *
 * Checked are: the sanitizers' rules; that every walk ends; that nothing stays held (leak checker).
 */
#include <drivers/blkdev.h>
#include <errno.h>
#include <fs/ext4.h>
#include <fs/pathindex.h>
#include <lib/byteorder.h>
#include <lib/err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define IMAGE_LEN   (512u << 10)
#define UNIT        64u /* granularity of "in use" */
#define MAX_DEPTH   5u
#define MAX_ENTRIES 1500u
#define PATCH_LEN   5u

static const char *const layouts[] = {
	"-t ext4 -b 1024 -N 160",
	"-t ext4 -b 1024 -N 160 -O ^metadata_csum",
	"-t ext4 -b 4096 -O ^metadata_csum,inline_data -N 400",
	"-t ext4 -b 4096 -O inline_data -I 512 -N 300",
	"-t ext3 -b 1024 -N 160",
	"-t ext2 -b 2048 -N 160 -O ^filetype",
	("-t ext4 -b 1024 -N 160 -C 2048 "
	 "-O ^metadata_csum,meta_bg,^resize_inode,large_dir,mmp,bigalloc"),
	"-t ext4 -b 1024 -O ^metadata_csum,uninit_bg,^64bit -g 256 -N 320",
};
#define NR_LAYOUTS (sizeof(layouts) / sizeof(layouts[0]))

static struct image {
	uint8_t data[IMAGE_LEN];
	uint32_t units[IMAGE_LEN / UNIT]; /* those in use */
	uint32_t nr_units;
} *images;

static uint8_t disk[IMAGE_LEN];
static uint8_t page_memory[4][PAGE_SIZE] __aligned(4096);

static void mem_submit(struct blkdev *bd, struct blk_req *req)
{
	uint64_t at = req->sector << BLK_SECTOR_SHIFT;

	(void)bd;
	for (unsigned int i = 0; i < req->nr_segs; i++) {
		memcpy(req->segs[i].buf, disk + at, req->segs[i].len);
		at += req->segs[i].len;
	}
	req->status = 0;
	req->done(req);
}

static const struct blkdev_ops mem_ops = { .submit = mem_submit };
static struct blkdev mem_bd = {
	.ops = &mem_ops,
	.name = "fuzz",
	.nr_sectors = IMAGE_LEN >> BLK_SECTOR_SHIFT,
	.block_size = BLK_SECTOR_SIZE,
	.max_segs = 8,
	.max_seg_len = 65536,
	.read_only = true,
};

static void die(const char *what)
{
	fprintf(stderr, "ext4_fuzz: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* Run @cmd; its exit status may be @may_be instead of 0. */
static void run(const char *cmd, int may_be)
{
	const int status = system(cmd);

	if (status != 0 && status != may_be << 8) {
		fprintf(stderr, "ext4_fuzz: failed: %s\n", cmd);
		exit(1);
	}
}

/* A tree with each shape of file; a shell says it shortest. */
static void make_tree(const char *dir)
{
	char cmd[2048];

	snprintf(cmd, sizeof(cmd),
		 "cd %s && mkdir t && cd t && mkdir -p a/b/c crowd && echo small >a/small && "
		 "printf %%070d 7 >a/inline && printf %%020000d 7 >a/big && ln -s a/small short && "
		 "ln -s %%0100d a/b/long && ln -s loop loop && "
		 "ln a/small a/b/hard && mkfifo fifo && truncate -s 300000 a/hole && "
		 "for i in 0 1 2 3 4 5 6 7 8 9; do "
		 "printf x | dd of=a/islands bs=1 seek=$((i * 9000)) conv=notrunc 2>/dev/null; "
		 "for j in 0 1 2 3 4 5 6 7; do "
		 ": >crowd/name-of-an-entry-in-a-crowd-$i$j; done; done && "
		 "ln -s \"$(printf /%%0150d 1)\" a/b/longer && "
		 "find . -exec touch -h -d @1000000000 {} +",
		 dir);
	run(cmd, 0);
}

static void load_image(const char *path, struct image *img)
{
	FILE *f = fopen(path, "rb");

	if (!f || fread(img->data, 1, IMAGE_LEN, f) != IMAGE_LEN)
		die(path);
	fclose(f);
	for (uint32_t u = 0; u < IMAGE_LEN / UNIT; u++) {
		for (uint32_t i = 0; i < UNIT; i++) {
			if (img->data[u * UNIT + i]) {
				img->units[img->nr_units++] = u;
				break;
			}
		}
	}
}

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	char dir[] = "/tmp/ext4_fuzz.XXXXXX";
	char cmd[1024];

	(void)argc;
	(void)argv;
	if (!mkdtemp(dir))
		die("mkdtemp");
	setenv("E2FSPROGS_FAKE_TIME", "1000000000", 1);
	setenv("PATH", "/usr/sbin:/sbin:/usr/bin:/bin", 1);
	make_tree(dir);
	images = calloc(NR_LAYOUTS, sizeof(*images));
	if (!images)
		die("memory");
	for (size_t i = 0; i < NR_LAYOUTS; i++) {
		snprintf(cmd, sizeof(cmd),
			 "cd %s && rm -f img && mke2fs -q -F -d t "
			 "-U 00112233-4455-6677-8899-aabbccddeeff "
			 "-E hash_seed=00112233-4455-6677-8899-aabbccddee00 %s -O ^has_journal "
			 "img %uk >/dev/null",
			 dir, layouts[i], IMAGE_LEN >> 10);
		run(cmd, 0);
		snprintf(cmd, sizeof(cmd), "e2fsck -fyD %s/img >/dev/null 2>&1", dir);
		run(cmd, 1); /* it changed something: -D rebuilds directories */
		snprintf(cmd, sizeof(cmd), "%s/img", dir);
		load_image(cmd, &images[i]);
	}
	snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
	run(cmd, 0);
	setenv("TESSERA_LOG", "off", 1); /* corruption is what we want: no lines about it */
	return 0;
}

/* Change the disk as the input says. */
static void apply(const struct image *img, const uint8_t *data, size_t len)
{
	for (; len >= PATCH_LEN; data += PATCH_LEN, len -= PATCH_LEN) {
		const uint32_t place = data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16;
		const uint32_t unit = img->units[place / UNIT % img->nr_units];
		const uint32_t at = unit * UNIT + place % UNIT;

		switch (data[4] % 4) {
		case 0:
			disk[at] = data[3];
			break;
		case 1:
			disk[at] ^= data[3];
			break;
		case 2:
			disk[at] = (uint8_t)(disk[at] + data[3]);
			break;
		default:
			memset(disk + ALIGN_DOWN(at, 4u), data[3], 4);
			break;
		}
	}
}

struct walk {
	struct fs *fs;
	unsigned int entries_left;
	unsigned int depth;
};

static void visit(struct walk *w, struct fs_inode *in);

/* Names of one directory; readdir holds its lock, so they are looked up when it has returned. */
struct listing {
	struct walk *w;
	char (*names)[FS_NAME_MAX];
	uint8_t *lens;
	size_t nr;
};

static int each_entry(void *arg, const struct fs_dirent *de)
{
	struct listing *l = arg;

	if (!l->w->entries_left)
		return 1;
	l->w->entries_left--;
	if (!de->name_len || de->name_len > FS_NAME_MAX || memchr(de->name, '/', de->name_len))
		abort();
	memcpy(l->names[l->nr], de->name, de->name_len);
	l->lens[l->nr++] = (uint8_t)de->name_len;
	return 0;
}

static void visit_entry(struct walk *w, struct fs_inode *dir, const char *name, size_t len)
{
	struct fs_inode *in = fs_lookup(dir, name, len);

	if (IS_ERR(in))
		return;
	if (w->depth < MAX_DEPTH && name[0] != '.') {
		w->depth++;
		visit(w, in);
		w->depth--;
	}
	fs_inode_put(in);
}

/* List @dir from @cookie on, then look up and visit what it lists. */
static void list_and_visit(struct walk *w, struct fs_inode *dir, uint64_t cookie)
{
	struct listing l = {
		.w = w,
		.names = calloc(w->entries_left + 1, FS_NAME_MAX),
		.lens = calloc(w->entries_left + 1, 1),
	};

	if (!l.names || !l.lens)
		die("memory");
	(void)!fs_readdir(dir, &cookie, each_entry, &l);
	for (size_t i = 0; i < l.nr; i++)
		visit_entry(w, dir, l.names[i], l.lens[i]);
	free(l.names);
	free(l.lens);
}

static void read_some(struct fs_inode *in, uint64_t size)
{
	void *pages[4] = { page_memory[0], page_memory[1], page_memory[2], page_memory[3] };
	struct ext4_map map;

	(void)!fs_read_pages(in, 0, pages, 4);
	(void)!fs_read_pages(in, size / 2 >> PAGE_SHIFT, pages, 4);
	(void)!fs_read_pages(in, size >> PAGE_SHIFT, pages, 2);
	for (uint32_t lblk = 0, i = 0; i < 20; i++) {
		if (ext4_map(in, lblk, 1000, &map))
			break;
		if (!map.len || map.len > 1000)
			abort();
		lblk += map.len;
	}
	(void)!ext4_map(in, UINT32_MAX, 1, &map);
}

static void look_up(struct fs_inode *dir, const char *name)
{
	struct fs_inode *in = fs_lookup(dir, name, strlen(name));

	if (!IS_ERR(in))
		fs_inode_put(in);
}

static void visit(struct walk *w, struct fs_inode *in)
{
	char target[FS_PATH_MAX];
	struct fs_stat st;
	size_t len;

	fs_inode_stat(in, &st);
	switch (st.mode & S_IFMT) {
	case S_IFREG:
		read_some(in, st.size);
		break;
	case S_IFLNK:
		if (!fs_readlink(in, target, &len) && strlen(target) != len)
			abort();
		break;
	case S_IFDIR:
		list_and_visit(w, in, 0);
		look_up(in, "no such name");
		look_up(in, "..");
		list_and_visit(w, in, 77); /* in the middle of an entry */
		break;
	}
}

static void resolve_some(struct fs *fs)
{
	static const char *const paths[] = {
		"/a/b/../b/long",
		"/short",
		"/loop",
		"/a/b/c/",
		"/crowd/name-of-an-entry-in-a-crowd-42",
		"/a/b/longer",
	};
	struct pathindex *pi = pathindex_create(4096);
	static struct path_result res;

	if (IS_ERR(pi))
		return;
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		const struct path_request req = {
			.vnode = 1,
			.root_ino = fs->root_ino,
			.path = paths[i],
			.len = strlen(paths[i]),
		};

		(void)!pathindex_resolve(pi, &fs_path_ops, fs, &req, &res);
	}
	pathindex_destroy(pi);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	const struct fs_mount_options opt = { .cache_bytes = 64u << 10, .max_inodes = 16 };
	const struct image *img;
	struct fs_inode *root;
	struct walk w = { .entries_left = MAX_ENTRIES };

	if (!len)
		return 0;
	img = &images[data[0] % NR_LAYOUTS];
	memcpy(disk, img->data, IMAGE_LEN);
	apply(img, data + 1, len - 1);
	if (ext4_mount(&mem_bd, &opt, &w.fs))
		return 0;
	root = fs_inode_get(w.fs, w.fs->root_ino, FS_ANY_GEN);
	if (!IS_ERR(root)) {
		visit(&w, root);
		fs_inode_put(root);
	}
	resolve_some(w.fs);
	fs_unmount(w.fs);
	return 0;
}
