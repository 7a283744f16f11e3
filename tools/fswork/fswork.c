/* SPDX-License-Identifier: MIT */
/*
 * fswork: change an ext4 image on the host with the kernel's own file system code.
 *
 *	fswork IMAGE random SEED N [MAX]	N random changes beside a model in memory, then
 *		compare
 *	fswork IMAGE fill			files until the disk is full, remove them, count
 *	fswork IMAGE inodes			the same for inodes
 *	fswork IMAGE bigdir N			N names in one directory, half of them removed
 *	fswork IMAGE damage SEED N		N changes while the disk's metadata is overwritten
 *	fswork IMAGE changes SEED N		the same, and nothing overwrites it
 *	fswork IMAGE bigfile			bytes far behind 4 GiB, and a fragmented file
 *	fswork IMAGE mount			nothing but a mount, with all that it repairs
 *
 * Exit status: 0, or 1 with the reason on stderr.
 */
#include <errno.h>
#include <fs/ext4.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../fsread/filedisk.h"
#include "fswork.h"

struct fs *fs;

static const char *error_name(int err)
{
	return strerror(-err);
}

void die(const char *what, int err)
{
	fprintf(stderr, "fswork: %s: %s\n", what, error_name(err));
	exit(1);
}

struct fs_change *change_now(void)
{
	static struct fs_change ch = { .privileged = true };

	ch.now.sec = 1700000000 + (int64_t)(ch.seq % 1000);
	ch.now.nsec = (uint32_t)(ch.seq * 1001 % 1000000000);
	ch.seq++;
	return &ch;
}

static int run(int argc, char **argv, struct blkdev *disk)
{
	if (!strcmp(argv[2], "random") && argc > 4)
		return work_random(strtoul(argv[3], NULL, 0), strtoul(argv[4], NULL, 0));
	if (!strcmp(argv[2], "fill"))
		return work_fill();
	if (!strcmp(argv[2], "inodes"))
		return work_inodes();
	if (!strcmp(argv[2], "bigdir") && argc > 3)
		return work_bigdir(strtoul(argv[3], NULL, 0));
	if (!strcmp(argv[2], "damage") && argc > 4)
		return work_damage(disk, strtoul(argv[3], NULL, 0), strtoul(argv[4], NULL, 0));
	if (!strcmp(argv[2], "changes") && argc > 4)
		return work_damage(NULL, strtoul(argv[3], NULL, 0), strtoul(argv[4], NULL, 0));
	if (!strcmp(argv[2], "bigfile"))
		return work_bigfile();
	if (!strcmp(argv[2], "mount"))
		return work_mount();
	fprintf(stderr, "fswork: what is %s?\n", argv[2]);
	return 2;
}

int main(int argc, char **argv)
{
	char why[300];
	/* Small caches, so that what is on the disk is read again. */
	const bool tiny = argc > 2 && (!strcmp(argv[2], "damage") || !strcmp(argv[2], "changes"));
	const struct fs_mount_options opt = {
		.cache_bytes = tiny ? 16384 : 1u << 20,
		.max_inodes = tiny ? 2 : 64,
		.writable = true,
		.mmp_second_ns = 10 * NSEC_PER_MSEC,
		.why = why,
		.why_size = sizeof(why),
	};
	struct blkdev *bd;
	int err, ret;

	if (argc < 3) {
		fprintf(stderr, "usage: fswork IMAGE random SEED N|fill|inodes|bigdir N|bigfile|"
				"mount\n");
		return 2;
	}
	bd = filedisk_open(argv[1], false);
	if (!bd)
		die(argv[1], -errno);
	err = ext4_mount(bd, &opt, &fs);
	if (err)
		die(why, err);
	ret = run(argc, argv, bd);
	fs_unmount(fs);
	filedisk_close(bd);
	return ret;
}
