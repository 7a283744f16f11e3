/* SPDX-License-Identifier: MIT */
/*
 * Which ext4 features this reader understands; the others are refused by name.
 *
 * An unknown "incompat" feature makes the disk unreadable for us.  Unknown "ro_compat" and
 * "compat" features are harmless to a reader by their definition.
 */
#include <lib/errno.h>
#include <lib/fmt.h>

#include "ext4_priv.h"

#define INCOMPAT_KNOWN                                                                          \
	((uint32_t)(EXT4_INCOMPAT_FILETYPE | EXT4_INCOMPAT_META_BG | EXT4_INCOMPAT_EXTENTS |    \
		    EXT4_INCOMPAT_64BIT | EXT4_INCOMPAT_MMP | EXT4_INCOMPAT_FLEX_BG |           \
		    EXT4_INCOMPAT_EA_INODE | EXT4_INCOMPAT_CSUM_SEED | EXT4_INCOMPAT_LARGEDIR | \
		    EXT4_INCOMPAT_INLINE_DATA))

/* As e2fsprogs spells them. */
static const char *const incompat_names[32] = {
	[0] = "compression", [1] = "filetype",     [2] = "needs_recovery",
	[3] = "journal_dev", [4] = "meta_bg",      [6] = "extent",
	[7] = "64bit",       [8] = "mmp",          [9] = "flex_bg",
	[10] = "ea_inode",   [12] = "dirdata",     [13] = "metadata_csum_seed",
	[14] = "large_dir",  [15] = "inline_data", [16] = "encrypt",
	[17] = "casefold",
};

/* The name of incompat bit number @bit, or NULL. */
static const char *incompat_name(unsigned int bit)
{
	return bit < ARRAY_SIZE(incompat_names) ? incompat_names[bit] : NULL;
}

static int refuse_unknown(struct ext4_fs *fs, uint32_t unknown)
{
	char list[256];
	size_t n = 0;

	list[0] = '\0';
	for (unsigned int bit = 0; bit < 32; bit++) {
		const char *feature = incompat_name(bit);
		const char *sep = n ? ", " : "";

		if (!(unknown & BIT(bit)))
			continue;
		if (feature)
			n += scnprintf(list + n, sizeof(list) - n, "%s%s", sep, feature);
		else
			n += scnprintf(list + n, sizeof(list) - n, "%sFEATURE_I%u", sep, bit);
	}
	return ext4_refuse(fs, -EOPNOTSUPP, "unknown feature%s %s",
			   unknown & (unknown - 1) ? "s" : "", list);
}

int ext4_features_check(struct ext4_fs *fs, const struct ext4_super_disk *sb)
{
	const uint32_t incompat = le32_to_cpu(sb->incompat);
	const uint32_t ro_compat = le32_to_cpu(sb->ro_compat);
	const uint32_t unknown = incompat & ~(INCOMPAT_KNOWN | EXT4_INCOMPAT_RECOVER);

	if (le32_to_cpu(sb->rev_level) == 0 && (incompat || ro_compat))
		return ext4_refuse(fs, -EUCLEAN, "revision 0 with feature flags; run e2fsck");
	return unknown ? refuse_unknown(fs, unknown) : 0;
}

int ext4_state_check(struct ext4_fs *fs, const struct ext4_super_disk *sb, bool writable)
{
	const uint32_t ro_compat = le32_to_cpu(sb->ro_compat);
	const uint32_t state = le16_to_cpu(sb->state);

	if (state & EXT4_STATE_ERROR)
		return ext4_refuse(fs, -EOPNOTSUPP, "marked as having errors; run e2fsck");
	if (!(state & EXT4_STATE_VALID))
		return ext4_refuse(fs, -EOPNOTSUPP, "was not unmounted cleanly; run e2fsck");
	/* A mount that may write sees to the list itself, but not to Linux's orphan file. */
	if ((!writable && (le32_to_cpu(sb->last_orphan) || (state & EXT4_STATE_ORPHAN))) ||
	    (ro_compat & EXT4_RO_COMPAT_ORPHAN_PRESENT))
		return ext4_refuse(fs, -EOPNOTSUPP,
				   "has orphaned inodes to be cleaned up; run e2fsck");
	return 0;
}
