/* SPDX-License-Identifier: MIT */
/* Changes of files: Linux's <linux/inotify.h>. */
#pragma once

#include <lib/compiler.h>
#include <stdint.h>

#define IN_ACCESS        0x1u
#define IN_MODIFY        0x2u
#define IN_ATTRIB        0x4u
#define IN_CLOSE_WRITE   0x8u
#define IN_CLOSE_NOWRITE 0x10u
#define IN_OPEN          0x20u
#define IN_MOVED_FROM    0x40u
#define IN_MOVED_TO      0x80u
#define IN_CREATE        0x100u
#define IN_DELETE        0x200u
#define IN_DELETE_SELF   0x400u
#define IN_MOVE_SELF     0x800u
#define IN_ALL_EVENTS    0xfffu
#define IN_UNMOUNT       0x2000u
#define IN_Q_OVERFLOW    0x4000u
#define IN_IGNORED       0x8000u
#define IN_ONLYDIR       0x1000000u
#define IN_DONT_FOLLOW   0x2000000u
#define IN_EXCL_UNLINK   0x4000000u
#define IN_MASK_CREATE   0x10000000u
#define IN_MASK_ADD      0x20000000u
#define IN_ISDIR         0x40000000u
#define IN_ONESHOT       0x80000000u

struct linux_inotify_event { /* a name of @len bytes follows, with zeroes behind it */
	int32_t wd;
	uint32_t mask, cookie, len;
};
static_assert(sizeof(struct linux_inotify_event) == 16, "struct inotify_event is ABI");
