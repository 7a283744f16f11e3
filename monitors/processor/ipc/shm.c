/* SPDX-License-Identifier: MIT */
/*
 * System V shared memory.
 *
 * Flow:	a segment is a shared object, whose pages are on the memory nodes and in the cache.
 *		Each range of a space that shows it is counted (<processor/mm/attach.h>). One that
 *		is removed goes with the last of them.
 * Locking:	the counts are under the kind's lock, as everything that is common: they change
 *		with aspace.map_lock held.
 * Limits:	shmmni segments, shmmax bytes each, shmall pages of all in a namespace; memory
 *		nodes reserve a segment's pages unless it is SHM_NORESERVE: ENOMEM. Huge pages:
 *		ENOMEM, as on a Linux that has none in reserve.
 */
#include <abi/mman.h>
#include <abi/resource.h>
#include <arch/uaccess.h>
#include <kernel/panic.h>
#include <lib/err.h>
#include <lib/fmt.h>
#include <lib/string.h>
#include <processor/account/account.h>
#include <processor/excache/object.h>
#include <processor/mm/aspace.h>
#include <processor/mm/attach.h>
#include <processor/mm/commit.h>
#include <processor/mm/remote.h>
#include <processor/ns/user_ns.h>
#include <processor/process/process.h>
#include <processor/syscall/syscall.h>

#include "ipc_ns.h"
#include "sysv_private.h"

#define READS  0444u
#define WRITES 0222u
#define RUNS   0111u

struct segment {
	struct sysv common;
	struct attachable attachable;
	struct object *object; /* const */
	uint64_t size;         /* const: bytes */
	/* kind.lock: */
	uint64_t nr_attached;
	int64_t atime, dtime;
	int32_t cpid, lpid;
};

static void segment_attached(struct attachable *what, int by);
static struct sysv *segment_make(const void *arg);
static int segment_fits(const struct sysv *obj, const void *arg);
static void segment_free(struct sysv *obj);

static void segment_end(struct sysv *obj);

const struct sysv_ops shm_ops = {
	.make = segment_make,
	.fits = segment_fits,
	.remove = segment_end,
	.free = segment_free,
};

static struct sysv_kind *segments(void)
{
	return &ipc_ns_current()->shm;
}

static struct segment *segment_of(struct sysv *obj)
{
	return container_of(obj, struct segment, common);
}

static uint64_t nr_pages(uint64_t size)
{
	return size / PAGE_SIZE + (size % PAGE_SIZE != 0);
}

/* --- making, counting, the end --------------------------------------------------------------- */

struct wanted {
	int32_t key;
	uint64_t size;
	int flags;
};

static int take_pages(struct ipc_ns *ns, uint64_t nr)
{
	uint64_t old = __atomic_load_n(&ns->shm_pages, __ATOMIC_RELAXED);

	do {
		const uint64_t max = READ_ONCE(ns->limits.shmall);

		if (nr > max - MIN(old, max))
			return -ENOSPC;
	} while (!__atomic_compare_exchange_n(&ns->shm_pages, &old, old + nr, false,
					      __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	return 0;
}

static void give_pages(struct ipc_ns *ns, uint64_t nr)
{
	__atomic_sub_fetch(&ns->shm_pages, nr, __ATOMIC_RELAXED);
}

static struct object *make_object(const struct wanted *want)
{
	const bool reserve = !(want->flags & SHM_NORESERVE) || commit_is_strict();
	char name[sizeof("/SYSV00000000 (deleted)")];
	struct object *object;

	if (want->size > SPACE_TOP)
		return ERR_PTR(-ENOMEM);
	object = object_shared_create(nr_pages(want->size) * PAGE_SIZE, reserve);
	if (IS_ERR(object))
		return object;
	snprintf(name, sizeof(name), "/SYSV%08x (deleted)", (uint32_t)want->key);
	object_set_path(object, name);
	return object;
}

static struct sysv *segment_make(const void *arg)
{
	const struct wanted *want = arg;
	struct ipc_ns *ns = ipc_ns_current();
	struct segment *s;
	int err;

	if (want->size < 1 || want->size > READ_ONCE(ns->limits.shmmax))
		return ERR_PTR(-EINVAL);
	if (want->flags & SHM_HUGETLB)
		return ERR_PTR(-ENOMEM);
	err = take_pages(ns, nr_pages(want->size));
	if (err)
		return ERR_PTR(err);
	s = kmem_alloc(kmem_current(), sizeof(*s));
	if (s) {
		s->object = make_object(want);
		if (!IS_ERR(s->object)) {
			s->size = want->size;
			s->cpid = sysv_pid();
			s->attachable.attached = segment_attached;
			return &s->common;
		}
		err = PTR_ERR(s->object);
		kmem_free(s);
	} else {
		err = -ENOMEM;
	}
	give_pages(ns, nr_pages(want->size));
	return ERR_PTR(err);
}

static int segment_fits(const struct sysv *obj, const void *arg)
{
	const struct wanted *want = arg;

	return want->size > container_of(obj, struct segment, common)->size ? -EINVAL : 0;
}

static void segment_free(struct sysv *obj)
{
	struct segment *s = segment_of(obj);

	ASSERT(!s->nr_attached);
	object_put(s->object);
	give_pages(obj->kind->ns, nr_pages(s->size));
	kmem_free(s);
}

/* One who uses the segment, with a reference. -EIDRM: it was removed first. */
static int segment_hold(struct segment *s)
{
	bool gone;

	spin_lock(&s->common.kind->lock);
	gone = s->common.removed;
	if (!gone) {
		refcount_inc(&s->common.refs);
		s->nr_attached++;
	}
	spin_unlock(&s->common.kind->lock);
	return gone ? -EIDRM : 0;
}

/* The last one that uses a segment with SHM_DEST ends it. */
static void segment_release(struct segment *s)
{
	bool ends;

	spin_lock(&s->common.kind->lock);
	ASSERT(s->nr_attached);
	ends = !--s->nr_attached && (s->common.mode & SHM_DEST);
	spin_unlock(&s->common.kind->lock);
	if (ends)
		(void)sysv_remove(&s->common);
	sysv_put(&s->common);
}

/* A mapping comes or goes; one that comes is a copy of one, or shmat() holds the segment. */
static void segment_attached(struct attachable *what, int by)
{
	struct segment *s = container_of(what, struct segment, attachable);
	const int32_t pid = sysv_pid();

	spin_lock(&s->common.kind->lock);
	if (pid)
		s->lpid = pid;
	if (by > 0) {
		ASSERT(s->nr_attached);
		refcount_inc(&s->common.refs);
		s->nr_attached++;
		s->atime = sysv_now();
	} else {
		s->dtime = sysv_now();
	}
	spin_unlock(&s->common.kind->lock);
	if (by < 0)
		segment_release(s);
}

/* shmget(key, size, flags) */
long sys_shmget(const struct syscall_args *args)
{
	const struct wanted want = { .key = (int32_t)args->a[0],
				     .size = args->a[1],
				     .flags = (int)args->a[2] };

	return sysv_get(segments(), want.key, want.flags, &want);
}

/* --- shmat, shmdt ---------------------------------------------------------------------------- */

static int check_address(uint64_t addr, int flags, struct map_request *req)
{
	if (!addr)
		return (flags & SHM_REMAP) ? -EINVAL : 0;
	if (addr & (PAGE_SIZE - 1)) {
		if (!(flags & SHM_RND))
			return -EINVAL;
		addr &= ~(uint64_t)(PAGE_SIZE - 1);
		if (!addr && (flags & SHM_REMAP))
			return -EINVAL;
	}
	req->addr = addr;
	req->flags |= (flags & SHM_REMAP) ? MAPPING_FIXED : MAPPING_FIXED_NOREPLACE;
	return 0;
}

/* shmat(id, addr, flags) */
long sys_shmat(const struct syscall_args *args)
{
	const int flags = (int)args->a[2];
	struct map_request req = { .flags = MAPPING_SHARED };
	uint32_t mode = READS;
	struct sysv *obj;
	struct segment *s;
	long ret;

	if ((int)args->a[0] < 0)
		return -EINVAL;
	ret = check_address(args->a[1], flags, &req);
	if (ret)
		return ret;
	req.prot = VMA_PROT_READ;
	if (flags & SHM_RDONLY) {
		req.flags |= MAPPING_READ_ONLY;
	} else {
		req.prot |= VMA_PROT_WRITE;
		mode |= WRITES;
	}
	if (flags & SHM_EXEC) {
		req.prot |= VMA_PROT_EXEC;
		mode |= RUNS;
	}
	obj = sysv_find(segments(), (int)args->a[0], mode);
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	s = segment_of(obj);
	req.len = nr_pages(s->size) * PAGE_SIZE;
	req.object = s->object;
	req.attached = &s->attachable;
	if (req.addr > SPACE_TOP || req.len > SPACE_TOP - req.addr)
		ret = (flags & SHM_REMAP) ? -ENOMEM : -EINVAL;
	if (!ret)
		ret = segment_hold(s); /* until it is mapped */
	if (!ret) {
		ret = aspace_map(aspace_current(), &req);
		segment_release(s);
	}
	sysv_put(obj);
	return ret == -EEXIST ? -EINVAL : ret;
}

/*
 * All that is left of the attachment at @addr, which mprotect(), munmap() and mremap() may have
 * changed.
 */
static long detach_locked(struct aspace *as, vaddr_t addr)
{
	const struct attachment *a = attach_find(as, addr, NULL);
	struct attachable *what;
	struct segment *s;
	vaddr_t end;
	long ret = -EINVAL;

	assert_mutex_held(&as->map_lock);
	if (!a)
		return -EINVAL;
	what = a->what;
	s = container_of(what, struct segment, attachable);
	end = addr + nr_pages(s->size) * PAGE_SIZE;
	refcount_inc(&s->common.refs);
	while ((a = attach_find(as, addr, what)) && a->start < end) {
		ret = aspace_unmap(as, a->start, a->end - a->start);
		if (ret)
			break;
	}
	sysv_put(&s->common);
	return ret;
}

/* shmdt(addr) */
long sys_shmdt(const struct syscall_args *args)
{
	struct aspace *as = aspace_current();
	long ret;

	if (args->a[0] & (PAGE_SIZE - 1))
		return -EINVAL;
	ret = mutex_lock_killable(&as->map_lock);
	if (ret)
		return ret;
	ret = detach_locked(as, args->a[0]);
	mutex_unlock(&as->map_lock);
	return ret;
}

/* --- shmctl ---------------------------------------------------------------------------------- */

static void segment_fill(struct segment *s, struct linux_shmid64_ds *ds)
{
	*ds = (struct linux_shmid64_ds){ .segsz = s->size };
	sysv_fill(&s->common, &ds->perm, &ds->ctime);
	spin_lock(&s->common.kind->lock);
	ds->atime = s->atime;
	ds->dtime = s->dtime;
	ds->cpid = (int32_t)pid_vnr((uint32_t)s->cpid);
	ds->lpid = (int32_t)pid_vnr((uint32_t)s->lpid);
	ds->nattch = s->nr_attached;
	spin_unlock(&s->common.kind->lock);
}

bool shm_next(uint32_t *index, struct linux_shmid64_ds *ds, uint64_t *pages)
{
	struct sysv *obj = sysv_next(segments(), index);

	if (!obj)
		return false;
	segment_fill(segment_of(obj), ds);
	*pages = object_shared_pages(segment_of(obj)->object);
	sysv_put(obj);
	return true;
}

static long shm_info(uint64_t to)
{
	const struct sysv_limits *limits = sysv_limits();
	const struct linux_shminfo64 info = {
		.shmmax = READ_ONCE(limits->shmmax),
		.shmmin = 1,
		.shmmni = READ_ONCE(limits->shmmni),
		.shmseg = READ_ONCE(limits->shmmni),
		.shmall = READ_ONCE(limits->shmall),
	};
	int nr, highest;

	sysv_count(segments(), &nr, &highest);
	return copy_to_user((void __user *)to, &info, sizeof(info)) ? -EFAULT : highest;
}

static long shm_used(uint64_t to)
{
	struct linux_shm_info info = {
		.shm_tot = __atomic_load_n(&ipc_ns_current()->shm_pages, __ATOMIC_RELAXED),
	};
	struct linux_shmid64_ds ds;
	uint64_t pages;
	int highest;

	sysv_count(segments(), &info.used_ids, &highest);
	for (uint32_t i = 0; shm_next(&i, &ds, &pages); i++)
		info.shm_rss += pages;
	return copy_to_user((void __user *)to, &info, sizeof(info)) ? -EFAULT : highest;
}

static long shm_stat(int cmd, int nr, uint64_t to)
{
	const uint32_t mode = cmd == SHM_STAT_ANY ? 0 : READS;
	struct linux_shmid64_ds ds;
	struct sysv *obj;
	int id = 0;

	if (cmd == IPC_STAT)
		obj = sysv_find(segments(), nr, mode);
	else
		obj = sysv_find_index(segments(), nr, mode, &id);
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	segment_fill(segment_of(obj), &ds);
	sysv_put(obj);
	return copy_to_user((void __user *)to, &ds, sizeof(ds)) ? -EFAULT : id;
}

/* Without mappings it goes at once, else with the last of them. */
static void segment_end(struct sysv *obj)
{
	struct segment *s = segment_of(obj);
	bool used;

	spin_lock(&s->common.kind->lock);
	used = s->nr_attached;
	if (used && !s->common.removed) {
		s->common.mode |= SHM_DEST;
		sysv_hide_locked(&s->common);
	}
	spin_unlock(&s->common.kind->lock);
	if (!used)
		(void)sysv_remove(&s->common);
}

static long segment_remove(struct segment *s)
{
	const int err = sysv_check_owner(&s->common);

	if (!err)
		segment_end(&s->common);
	return err;
}

/* Memory of programs is never swapped out: a segment is locked when that is said of it. */
static long segment_lock(struct segment *s, bool lock)
{
	const struct cred *c = cred_current();
	long ret = 0;

	spin_lock(&s->common.kind->lock);
	if (!ns_capable(s->common.kind->ns->ns.owner, CAP_IPC_LOCK)) {
		if (c->euid != s->common.uid && c->euid != s->common.cuid)
			ret = -EPERM;
		else if (lock && !process_rlimit(RLIMIT_MEMLOCK))
			ret = -EPERM;
	}
	if (!ret && lock)
		s->common.mode |= SHM_LOCKED;
	else if (!ret)
		s->common.mode &= ~(uint32_t)SHM_LOCKED;
	spin_unlock(&s->common.kind->lock);
	return ret;
}

static long shm_change(int cmd, int id, uint64_t from)
{
	struct linux_shmid64_ds ds;
	struct sysv *obj;
	long ret;

	if (cmd == IPC_SET && copy_from_user(&ds, (const void __user *)from, sizeof(ds)))
		return -EFAULT;
	obj = sysv_find(segments(), id, 0);
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	if (cmd == IPC_SET)
		ret = sysv_set(obj, &ds.perm);
	else if (cmd == IPC_RMID)
		ret = segment_remove(segment_of(obj));
	else
		ret = segment_lock(segment_of(obj), cmd == SHM_LOCK);
	sysv_put(obj);
	return ret;
}

/* shmctl(id, cmd, buf) */
long sys_shmctl(const struct syscall_args *args)
{
	const int id = (int)args->a[0], cmd = (int)args->a[1];

	if (id < 0 || cmd < 0)
		return -EINVAL;
	switch (cmd) {
	case IPC_INFO:
		return shm_info(args->a[2]);
	case SHM_INFO:
		return shm_used(args->a[2]);
	case IPC_STAT:
	case SHM_STAT:
	case SHM_STAT_ANY:
		return shm_stat(cmd, id, args->a[2]);
	case IPC_SET:
	case IPC_RMID:
	case SHM_LOCK:
	case SHM_UNLOCK:
		return shm_change(cmd, id, args->a[2]);
	default:
		return -EINVAL;
	}
}
