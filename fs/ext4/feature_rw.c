/* SPDX-License-Identifier: MIT */
/*
 * Which ext4 features we keep right when we write; with others a mount is read-only, and says so.
 *
 * An unknown "ro_compat" feature means by its definition that only readers are safe.
 */
#define PR_FMT "ext4: "

#include <drivers/blkdev.h>
#include <kernel/printk.h>
#include <lib/fmt.h>

#include "ext4_write.h"

#define RO_COMPAT_WRITTEN                                                     \
	((uint32_t)(EXT4_RO_COMPAT_SPARSE_SUPER | EXT4_RO_COMPAT_LARGE_FILE | \
		    EXT4_RO_COMPAT_BTREE_DIR | EXT4_RO_COMPAT_HUGE_FILE |     \
		    EXT4_RO_COMPAT_GDT_CSUM | EXT4_RO_COMPAT_DIR_NLINK |      \
		    EXT4_RO_COMPAT_EXTRA_ISIZE | EXT4_RO_COMPAT_METADATA_CSUM))

/* As e2fsprogs spells them. */
static const char *const ro_compat_names[32] = {
	[8] = "quota",    [9] = "bigalloc",       [11] = "replica", [12] = "read-only",
	[13] = "project", [14] = "shared_blocks", [15] = "verity",  [16] = "orphan_present",
};

static size_t add_name(char *list, size_t room, size_t n, const char *name, unsigned int bit)
{
	const char *sep = n ? ", " : "";

	if (name)
		return n + scnprintf(list + n, room - n, "%s%s", sep, name);
	return n + scnprintf(list + n, room - n, "%sFEATURE_R%u", sep, bit);
}

bool ext4_features_writable(const struct ext4_fs *fs)
{
	const uint32_t ro = fs->ro_compat & ~RO_COMPAT_WRITTEN;
	char list[200];
	size_t n = 0;

	list[0] = '\0';
	if (fs->incompat & EXT4_INCOMPAT_EA_INODE)
		n = add_name(list, sizeof(list), n, "ea_inode", 0);
	for (unsigned int bit = 0; bit < 32; bit++) {
		if (ro & BIT(bit))
			n = add_name(list, sizeof(list), n, ro_compat_names[bit], bit);
	}
	if (fs->block_size > PAGE_SIZE)
		n = add_name(list, sizeof(list), n, "blocks larger than a page", 0);
	if (n)
		pr_err("%s: mounted read-only, we do not write: %s\n", fs->bd->name, list);
	return !n;
}
