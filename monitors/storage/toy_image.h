/* SPDX-License-Identifier: MIT */
/*
 * For tests: a whole ext2 file system in memory, as a disk.
 *
 *	/etc		 directory, 0755
 *	/etc/text	 5000 bytes, byte i is i % 251; 0644, user 7, group 8
 *	/link		 -> etc/text
 *	/private	 directory, 0700
 *	/private/key	 empty
 *	/null		 character device 1, 3
 */
#pragma once

#include <drivers/blkdev.h>

#define TOY_TEXT_LEN    5000u
#define TOY_INO_ETC     11u
#define TOY_INO_TEXT    12u
#define TOY_INO_LINK    13u
#define TOY_INO_PRIVATE 14u
#define TOY_GEN         0x1234u /* of every inode */

/* NULL: no memory. */
struct blkdev *toy_image_open(void);
void toy_image_close(struct blkdev *bd);
