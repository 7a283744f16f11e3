/* SPDX-License-Identifier: MIT */
/*
 * tmpfs: the ones that are there from the start, and memfd_create.
 *
 * /tmp and /var/tmp are for a root that cannot be written, or has no such directory for everybody;
 * /run is there in any case. They cover what the root has there, but show it (show_covered). Each
 * has the limits tmpfs.size and tmpfs.inodes for itself, as each mount of Linux's tmpfs has.
 */
#define PR_FMT "tmpfs: "

#include "tmpfs_private.h"

#include <abi/fcntl.h>
#include <abi/mman.h>
#include <abi/stat.h>
#include <arch/uaccess.h>
#include <kernel/bootparam.h>
#include <kernel/initcall.h>
#include <kernel/printk.h>
#include <lib/err.h>
#include <lib/fmt.h>
#include <lib/string.h>
#include <mm/frame.h>
#include <mm/slab.h>
#include <processor/excache/object.h>
#include <processor/ns/ns.h>
#include <processor/process/process.h>
#include <processor/procfs/system.h>
#include <processor/syscall/syscall.h>
#include <processor/vfs/file.h>

static uint64_t param_size;
static uint32_t param_inodes;
BOOT_PARAM("tmpfs.size", size, param_size,
	   "bytes in the files of one tmpfs, 0: half of what memory nodes have");
BOOT_PARAM("tmpfs.inodes", u32, param_inodes, "files of one tmpfs, 0: by the processor's memory");

static int statfs(struct inode *inode, struct fs_info *st);

#define TMPFS(where, show, instead)                     \
	{                                               \
		.type = { .name = "tmpfs",              \
			  .at = (where),                \
			  .nodev = true,                \
			  .magic = TMPFS_MAGIC,         \
			  .show_covered = (show),       \
			  .makeshift = (instead),       \
			  .make = tmpfs_make,           \
			  .for_users = true,            \
			  .made_of = NS_KINDS,          \
			  .handle = tmpfs_handle,       \
			  .by_handle = tmpfs_by_handle, \
			  .keeps_flags = true,          \
			  .statfs = statfs }            \
	}

static struct tmpfs mounted[] = {
	TMPFS("/tmp", true, true),
	TMPFS("/run", true, false),
	TMPFS("/var/tmp", true, true),
	TMPFS("/dev/shm", false, false),
};

/* Files without a name are nowhere in the tree. */
static struct tmpfs memfd_fs = TMPFS("/memfd:", false, false);

static int statfs(struct inode *inode, struct fs_info *st)
{
	struct tmpfs *fs = tmpfs_of(inode->type);
	const uint64_t pages = __atomic_load_n(&fs->pages, __ATOMIC_RELAXED);

	/* Without a limit of its own it says nothing, as Linux's with size=0. */
	if (fs->max_pages != UINT64_MAX) {
		st->blocks = fs->max_pages;
		st->bfree = fs->max_pages - MIN(pages, fs->max_pages);
		st->bavail = st->bfree;
	}
	mutex_lock(&fs->lock);
	st->files = fs->max_inodes;
	st->ffree = fs->max_inodes - MIN(fs->inodes, fs->max_inodes);
	mutex_unlock(&fs->lock);
	return 0;
}

void tmpfs_fill_type(struct fs_type *type)
{
	type->magic = TMPFS_MAGIC;
	type->statfs = statfs;
	type->make = tmpfs_make;
	type->handle = tmpfs_handle;
	type->by_handle = tmpfs_by_handle;
	type->keeps_flags = true;
}

/* When the first program starts, the memory nodes can be asked for their sizes. */
static void ask_size(struct tmpfs *fs)
{
	if (param_size) {
		fs->max_pages = MAX(param_size >> PAGE_SHIFT, (uint64_t)1);
	} else {
		const uint64_t total = system_memory_total();

		if (total)
			fs->max_pages = (total / 2) >> PAGE_SHIFT;
	}
}

static void set_inodes(struct tmpfs *fs)
{
	fs->max_pages = UINT64_MAX;
	/*
	 * An inode and its entry take about 1 KiB: a quarter of the memory at most, over all of
	 * them.
	 */
	fs->max_inodes = param_inodes ? param_inodes : frames_total_count() / 4;
}

void tmpfs_set_limits(struct tmpfs *fs)
{
	set_inodes(fs);
	ask_size(fs);
}

static int mounted_root(const struct fs_type *type, struct inode **out)
{
	ask_size(tmpfs_of(type));
	return tmpfs_root(type, out);
}

static int tmpfs_init(void)
{
	int err = 0;

	for (size_t i = 0; !err && i < ARRAY_SIZE(mounted); i++) {
		set_inodes(&mounted[i]);
		err = tmpfs_setup(&mounted[i]);
		mounted[i].type.root = mounted_root;
		if (!err)
			err = fs_register(&mounted[i].type);
	}
	set_inodes(&memfd_fs);
	return err ? err : tmpfs_setup(&memfd_fs);
}
INITCALL(fs, tmpfs_init);

/* --- memfd --------------------------------------------------------------------------- */

#define MFD_NAME_MAX 249 /* without "memfd:" */

static struct file *memfd_open(const char *name, uint32_t flags)
{
	const struct new_inode how = { .mode = S_IFREG | (flags & MFD_NOEXEC_SEAL ? 0666 : 0777),
				       .uid = cred_current()->fsuid,
				       .gid = cred_current()->fsgid };
	char text[sizeof("/memfd:") + MFD_NAME_MAX];
	struct tmpfs_inode *ti;
	struct file *f;
	int err;

	err = tmpfs_new_inode(&memfd_fs, &how, &ti);
	if (err)
		return ERR_PTR(err);
	/* Without a seal that forbids it, others can be added; it is in nobody else's hands yet. */
	if (flags & MFD_NOEXEC_SEAL)
		ti->seals = F_SEAL_EXEC;
	else if (flags & MFD_ALLOW_SEALING)
		ti->seals = 0;
	snprintf(text, sizeof(text), "/memfd:%s", name);
	f = file_create(&path_ops, O_RDWR | O_LARGEFILE, text);
	if (IS_ERR(f)) {
		inode_put(&ti->inode);
		return f;
	}
	f->inode = &ti->inode;
	err = inode_getattr(f->inode, &f->attr);
	if (!err)
		err = tmpfs_open(f->inode, f);
	if (!err) {
		/* As on Linux: its maker may run it without closing it. */
		object_write_end(f->private);
		f->private = NULL;
		return f;
	}
	file_put(f);
	return ERR_PTR(err);
}

/* memfd_create(name, flags) */
long sys_memfd_create(const struct syscall_args *args)
{
	const uint32_t flags = (uint32_t)args->a[1];
	char name[MFD_NAME_MAX + 2];
	ssize_t len;
	int fd;

	if (flags & ~(MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL | MFD_EXEC))
		return -EINVAL;
	if ((flags & (MFD_EXEC | MFD_NOEXEC_SEAL)) == (MFD_EXEC | MFD_NOEXEC_SEAL))
		return -EINVAL;
	len = strncpy_from_user(name, (const char __user *)args->a[0], sizeof(name));
	if (len == -ENAMETOOLONG || len > MFD_NAME_MAX)
		return -EINVAL;
	if (len < 0)
		return len;
	fd = files_reserve(files_current(), 0, flags & MFD_CLOEXEC);
	if (fd < 0)
		return fd;
	return files_finish(files_current(), fd, memfd_open(name, flags));
}
