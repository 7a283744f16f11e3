/* SPDX-License-Identifier: MIT */
/* Mounts: Linux's <linux/mount.h>, and umount2()'s flags, which only the C library has. */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>

#define MS_RDONLY      0x1
#define MS_NOSUID      0x2
#define MS_NODEV       0x4
#define MS_NOEXEC      0x8
#define MS_REMOUNT     0x20
#define MS_NOATIME     0x400
#define MS_NODIRATIME  0x800
#define MS_BIND        0x1000
#define MS_MOVE        0x2000
#define MS_REC         0x4000
#define MS_SILENT      0x8000
#define MS_UNBINDABLE  0x20000
#define MS_PRIVATE     0x40000
#define MS_SLAVE       0x80000
#define MS_SHARED      0x100000
#define MS_RELATIME    0x200000
#define MS_STRICTATIME 0x1000000
#define MS_MGC_VAL     0xc0ed0000 /* programs of old put it in front of the flags */
#define MS_MGC_MSK     0xffff0000

#define MNT_FORCE       0x1
#define MNT_DETACH      0x2
#define MNT_EXPIRE      0x4
#define UMOUNT_NOFOLLOW 0x8

/* Numbers of mounts that are never used again are above this. */
#define MNT_UNIQUE_ID_OFFSET 0x80000000ull

/* statmount(), listmount() */
#define MNT_ID_REQ_SIZE_VER0 24u
#define LSMT_ROOT            UINT64_MAX
#define LISTMOUNT_REVERSE    1u

struct linux_mnt_id_req {
	uint32_t size, spare;
	uint64_t mnt_id, param, mnt_ns_id;
};
static_assert(sizeof(struct linux_mnt_id_req) == 32, "struct mnt_id_req is ABI");

#define STATMOUNT_SB_BASIC       0x1u
#define STATMOUNT_MNT_BASIC      0x2u
#define STATMOUNT_PROPAGATE_FROM 0x4u
#define STATMOUNT_MNT_ROOT       0x8u
#define STATMOUNT_MNT_POINT      0x10u
#define STATMOUNT_FS_TYPE        0x20u
#define STATMOUNT_MNT_OPTS       0x80u
#define STATMOUNT_SB_SOURCE      0x200u

struct linux_statmount {
	uint32_t size, mnt_opts;
	uint64_t mask;
	uint32_t sb_dev_major, sb_dev_minor;
	uint64_t sb_magic;
	uint32_t sb_flags, fs_type;
	uint64_t mnt_id, mnt_parent_id;
	uint32_t mnt_id_old, mnt_parent_id_old;
	uint64_t mnt_attr, mnt_propagation, mnt_peer_group, mnt_master, propagate_from;
	uint32_t mnt_root, mnt_point;
	uint64_t mnt_ns_id;
	uint32_t fs_subtype, sb_source, opt_num, opt_array, opt_sec_num, opt_sec_array;
	uint64_t spare[46];
};
static_assert(sizeof(struct linux_statmount) == 512, "struct statmount is ABI");

#define MOUNT_ATTR_RDONLY      0x1u
#define MOUNT_ATTR_NOSUID      0x2u
#define MOUNT_ATTR_NODEV       0x4u
#define MOUNT_ATTR_NOEXEC      0x8u
#define MOUNT_ATTR_NOATIME     0x10u
#define MOUNT_ATTR_STRICTATIME 0x20u
#define MOUNT_ATTR_NODIRATIME  0x80u
