/* SPDX-License-Identifier: MIT */
/* For tests: a file system in memory that can be changed, with the operations of <fs/fs.h>. */
#pragma once

#include <fs/fs.h>

/* Its root is directory 2 of user 0, mode 0755.  NULL: no memory. */
struct fs *memfs_create(void);
/* Files that are there, without names too, but for the root. */
unsigned int memfs_nr_files(const struct fs *fs);
/* The next changes answer @err once they would be done. */
void memfs_fail(struct fs *fs, int err);
/* The same of a single one, after @skip more. */
void memfs_fail_once(struct fs *fs, int err, unsigned int skip);
/* For how many names room is kept. A change that says that it has some is -ENOSPC without. */
uint32_t memfs_rooms(const struct fs *fs);
/* From now on files without a name stay until fs_orphans_release(). */
void memfs_keep(struct fs *fs);
/* Remember the ids of changes, as a journal does. */
void memfs_journal(struct fs *fs);
