/* SPDX-License-Identifier: MIT */
/* The parts of fswork. */
#pragma once

#include <fs/fs.h>

extern struct fs *fs;

void die(const char *what, int err) __attribute__((noreturn));
/* Root's change, a moment later than the one before. */
struct fs_change *change_now(void);

/* Each returns the exit status. */
int work_random(unsigned long seed, unsigned long nr);
/* Only that it ends, and without a sanitizer's report, is the test. */
int work_damage(struct blkdev *disk, unsigned long seed, unsigned long nr);
int work_fill(void);
int work_inodes(void);
int work_bigdir(unsigned long nr);
int work_bigfile(void);
/* The journal is replayed and orphans go. */
int work_mount(void);
