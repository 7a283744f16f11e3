/* SPDX-License-Identifier: MIT */
/*
 * statmount and listmount: mounts by their numbers.
 *
 * Flow:	a mount's number is never used again, so what Linux calls its unique number is that
 *		one and an offset. A mount is found by its number among those of the caller's
 *		namespace; whether his root hides it is told by its path, as in /proc/mounts.
 * Locking:	none; each mount is looked at for itself, so a list that is made while others mount
 *		shows some of it.
 * Limits:	mounts of other namespaces are not found: ENOENT. STATMOUNT_MNT_NS_ID and what came
 *		with Linux 6.13 but SB_SOURCE is not told, and the mask says so.
 */
#include <abi/mount.h>
#include <arch/uaccess.h>
#include <kernel/panic.h>
#include <kernel/thread.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <processor/process/process.h>
#include <processor/syscall/syscall.h>

#include "at_private.h"
#include "mount_private.h"

#define LIST_MAX 1000000u /* numbers of one call, as Linux */

static uint64_t unique(uint32_t id)
{
	return MNT_UNIQUE_ID_OFFSET + id;
}

/* A number as a program gives it, which may be none. */
static bool is_unique(uint64_t id)
{
	return id > MNT_UNIQUE_ID_OFFSET;
}

static int get_request(uint64_t user, struct linux_mnt_id_req *req)
{
	uint32_t size;
	int err;

	if (get_user_u32(&size, (const void __user *)user))
		return -EFAULT;
	if (size > PAGE_SIZE)
		return -E2BIG;
	if (size < MNT_ID_REQ_SIZE_VER0)
		return -EINVAL;
	*req = (struct linux_mnt_id_req){ 0 };
	if (copy_from_user(req, (const void __user *)user, MIN((size_t)size, sizeof(*req))))
		return -EFAULT;
	err = size > sizeof(*req) ? at_rest_is_zero(user + sizeof(*req), size - sizeof(*req)) : 0;
	if (err)
		return err;
	if (req->spare || !is_unique(req->mnt_id))
		return -EINVAL;
	return req->mnt_ns_id ? -ENOENT : 0;
}

/*
 * The mount with unique number @id, with what there is to say of it. *@hidden: it is not below the
 * caller's root. -ENOENT, -ENOMEM.
 */
static int find(uint64_t id, struct mount **out, struct mount_info *mi, bool *hidden)
{
	struct fs_state *fs = fs_current();
	const uint64_t old = id - MNT_UNIQUE_ID_OFFSET;
	struct mount *mt = old <= UINT32_MAX ? mounts_next(fs->mounts, (uint32_t)old - 1) : NULL;
	int err;

	if (!mt || mt->id != old || !mounts_info(fs->mounts, mt->id - 1, mi) || mi->id != old) {
		mount_put(mt);
		return -ENOENT;
	}
	err = path_text_strip(fs, mi->at, hidden);
	if (err)
		mount_put(mt);
	*out = err ? NULL : mt;
	return err;
}

/* --- statmount ----------------------------------------------------------------------- */

#define TEXTS_MAX (4 * FS_PATH_MAX + 3 * MOUNT_OPTIONS_MAX)

struct answer {
	struct linux_statmount sm;
	struct mount_info mi;
	uint32_t nr; /* bytes of texts */
	char texts[TEXTS_MAX];
};

static uint64_t attributes(const struct mount *mt)
{
	const uint32_t flags = READ_ONCE(mt->flags);
	uint64_t attr = (flags & MOUNT_RDONLY ? MOUNT_ATTR_RDONLY : 0) |
			(flags & MOUNT_NOSUID ? MOUNT_ATTR_NOSUID : 0) |
			(flags & MOUNT_NODEV ? MOUNT_ATTR_NODEV : 0) |
			(flags & MOUNT_NOEXEC ? MOUNT_ATTR_NOEXEC : 0) |
			(flags & MOUNT_NODIRATIME ? MOUNT_ATTR_NODIRATIME : 0);

	if (flags & MOUNT_NOATIME)
		attr |= MOUNT_ATTR_NOATIME;
	else if (!(flags & MOUNT_RELATIME))
		attr |= MOUNT_ATTR_STRICTATIME;
	return attr;
}

/* @text goes behind the structure; *@at is its place. */
static void put_text(struct answer *a, uint32_t flag, uint32_t *at, const char *text)
{
	const size_t len = strlen(text) + 1;

	ASSERT(a->nr + len <= sizeof(a->texts));
	memcpy(a->texts + a->nr, text, len);
	*at = a->nr;
	a->nr += (uint32_t)len;
	a->sm.mask |= flag;
}

static void put_basic(struct answer *a, const struct mount *mt, uint64_t mask)
{
	struct linux_statmount *sm = &a->sm;

	if (mask & STATMOUNT_SB_BASIC) {
		sm->mask |= STATMOUNT_SB_BASIC;
		sm->sb_dev_major = (uint32_t)(a->mi.dev >> 8);
		sm->sb_dev_minor = (uint32_t)(a->mi.dev & 0xff);
		sm->sb_magic = mt->type->magic;
		sm->sb_flags = mt->type->read_only || READ_ONCE(mt->type->ro_now) ? MS_RDONLY : 0;
	}
	if (mask & STATMOUNT_MNT_BASIC) {
		sm->mask |= STATMOUNT_MNT_BASIC;
		sm->mnt_id = unique(a->mi.id);
		/* Only that of the root is in no namespace: Linux has a mount below it. */
		sm->mnt_parent_id = unique(a->mi.parent_id);
		sm->mnt_id_old = a->mi.id;
		sm->mnt_parent_id_old = a->mi.parent_id;
		sm->mnt_attr = attributes(mt);
		sm->mnt_propagation =
			READ_ONCE(mt->flags) & MOUNT_UNBINDABLE ? MS_UNBINDABLE : MS_PRIVATE;
	}
	if (mask & STATMOUNT_PROPAGATE_FROM)
		sm->mask |= STATMOUNT_PROPAGATE_FROM; /* from none: all are private */
}

static void put_texts(struct answer *a, uint64_t mask)
{
	const struct mount_info *mi = &a->mi;
	const char *options = strchr(mi->super, ','); /* behind rw or ro, which is a flag */

	if (mask & STATMOUNT_FS_TYPE)
		put_text(a, STATMOUNT_FS_TYPE, &a->sm.fs_type, mi->type);
	if (mask & STATMOUNT_MNT_ROOT)
		put_text(a, STATMOUNT_MNT_ROOT, &a->sm.mnt_root, mi->root);
	if (mask & STATMOUNT_MNT_POINT)
		put_text(a, STATMOUNT_MNT_POINT, &a->sm.mnt_point, mi->at);
	if ((mask & STATMOUNT_MNT_OPTS) && options)
		put_text(a, STATMOUNT_MNT_OPTS, &a->sm.mnt_opts, options + 1);
	if (mask & STATMOUNT_SB_SOURCE)
		put_text(a, STATMOUNT_SB_SOURCE, &a->sm.sb_source, mi->source);
}

static int put_answer(struct answer *a, uint64_t user, uint64_t size)
{
	const size_t len = MIN(size, (uint64_t)sizeof(a->sm));

	if (a->nr && sizeof(a->sm) + a->nr > size)
		return -EOVERFLOW;
	a->sm.size = (uint32_t)len + a->nr;
	if (a->nr && copy_to_user((void __user *)(user + sizeof(a->sm)), a->texts, a->nr))
		return -EFAULT;
	return copy_to_user((void __user *)user, &a->sm, len) ? -EFAULT : 0;
}

/* statmount(request, buf, size, flags) */
long sys_statmount(const struct syscall_args *args)
{
	struct linux_mnt_id_req req;
	struct mount *mt = NULL;
	struct answer *a;
	bool hidden;
	int err;

	if ((uint32_t)args->a[3])
		return -EINVAL;
	err = get_request(args->a[0], &req);
	if (err)
		return err;
	a = kzalloc(sizeof(*a));
	if (!a)
		return -ENOMEM;
	err = find(req.mnt_id, &mt, &a->mi, &hidden);
	if (!err && hidden && !capable(CAP_SYS_ADMIN)) {
		err = -EPERM;
	} else if (!err) {
		put_basic(a, mt, req.param);
		put_texts(a, req.param);
		err = put_answer(a, args->a[1], args->a[2]);
	}
	mount_put(mt);
	kfree(a);
	return err;
}

/* --- listmount ----------------------------------------------------------------------- */

/* Is @mt to be listed: below @top, or, without that, below the caller's root? */
static int is_listed(const struct mount *mt, const struct mount *top, char *text, bool *yes)
{
	bool outside;
	int err;

	if (top) {
		*yes = mt != top && mount_is_in(mt, top);
		return 0;
	}
	if (!mount_copy_at(mt, text))
		strlcpy(text, "/", FS_PATH_MAX);
	err = path_text_strip(fs_current(), text, &outside);
	*yes = !outside;
	return err;
}

struct listing {
	const struct mount *top; /* NULL: the caller's root */
	char *text;              /* FS_PATH_MAX bytes */
	uint64_t user;
	uint64_t nr, done;
	bool reverse;
};

static long list(struct listing *l, uint64_t last)
{
	const struct mounts *ns = fs_current()->mounts;
	const uint64_t old = last ? last - MNT_UNIQUE_ID_OFFSET : 0;
	uint32_t id = old > UINT32_MAX ? UINT32_MAX : (uint32_t)old;
	struct mount *mt;
	int err = 0;

	if (l->reverse && !last)
		id = UINT32_MAX;
	while (!err && l->done < l->nr &&
	       (mt = l->reverse ? mounts_before(ns, id) : mounts_next(ns, id))) {
		bool yes = false;

		id = mt->id;
		err = is_listed(mt, l->top, l->text, &yes);
		mount_put(mt);
		if (err || !yes)
			continue;
		if (put_user_u64(unique(id), (void __user *)(l->user + 8 * l->done)))
			err = -EFAULT;
		else
			l->done++;
		if (!err && (READ_ONCE(thread_current()->flags) & THREAD_F_KILL))
			err = -EINTR;
	}
	return err ? err : (long)l->done;
}

/* listmount(request, numbers, nr, flags) */
long sys_listmount(const struct syscall_args *args)
{
	struct listing l = { .user = args->a[1],
			     .nr = args->a[2],
			     .reverse = args->a[3] & LISTMOUNT_REVERSE };
	struct linux_mnt_id_req req;
	struct mount *top = NULL;
	struct mount_info *mi;
	bool hidden = false;
	long ret;

	if ((uint32_t)args->a[3] & ~LISTMOUNT_REVERSE)
		return -EINVAL;
	if (l.nr > LIST_MAX)
		return -EOVERFLOW;
	ret = get_request(args->a[0], &req);
	if (!ret && req.param && !is_unique(req.param))
		ret = -EINVAL;
	if (ret)
		return ret;
	mi = kmalloc(sizeof(*mi));
	if (!mi)
		return -ENOMEM;
	if (req.mnt_id != LSMT_ROOT)
		ret = find(req.mnt_id, &top, mi, &hidden);
	if (!ret && hidden && !capable(CAP_SYS_ADMIN))
		ret = -EPERM;
	l.top = top;
	l.text = mi->at;
	if (!ret)
		ret = list(&l, req.param);
	mount_put(top);
	kfree(mi);
	return ret;
}
