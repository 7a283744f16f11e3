/* SPDX-License-Identifier: MIT */
/* Permission bits, as Linux applies them to a program without capabilities of its own.  Pure. */
#include <fs/access.h>

#include <fs/stat.h>
#include <lib/errno.h>

bool fs_in_group(const struct fs_cred *cred, uint32_t gid)
{
	if (cred->gid == gid)
		return true;
	for (uint32_t i = 0; i < cred->nr_groups; i++) {
		if (cred->groups[i] == gid)
			return true;
	}
	return false;
}

int fs_access(const struct fs_cred *cred, uint32_t mode, uint32_t uid, uint32_t gid, uint32_t want)
{
	uint32_t have;

	if (!cred)
		return 0;
	if (fs_cred_is_root(cred) || (cred->over && cred->over(cred, uid, gid))) {
		const bool dir = (mode & S_IFMT) == S_IFDIR;

		return (want & FS_MAY_EXEC) && !dir && !(mode & 0111) ? -EACCES : 0;
	}
	/* One class decides, even if a later one would allow more. */
	if (cred->uid == uid)
		have = mode >> 6 & 7;
	else if (fs_in_group(cred, gid))
		have = mode >> 3 & 7;
	else
		have = mode & 7;
	return want & ~have ? -EACCES : 0;
}
