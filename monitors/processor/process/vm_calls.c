/* SPDX-License-Identifier: MIT */
/*
 * process_vm_readv(), process_vm_writev(): memory of another process, without stopping it.
 *
 * Failure:	what was moved before an error counts; the error is told when that is nothing.
 */
#include "process_private.h"

#include <arch/uaccess.h>
#include <lib/err.h>
#include <mm/slab.h>
#include <processor/mm/aspace.h>
#include <processor/syscall/syscall.h>
#include <processor/vfs/uio.h>

/* The process's own list: its addresses are checked where they are used, for they are not ours. */
struct remote_segs {
	struct uio_seg *segs;
	uint32_t nr;
	uint64_t bytes;
};

static int get_remote(struct remote_segs *r, uint64_t uiov, uint64_t nr)
{
	int err = 0;

	*r = (struct remote_segs){ .nr = (uint32_t)nr };
	if (nr > UIO_MAXIOV)
		return -EINVAL;
	if (!nr)
		return 0;
	r->segs = kcalloc(nr, sizeof(*r->segs));
	if (!r->segs)
		return -ENOMEM;
	if (copy_from_user(r->segs, (const void __user *)uiov, nr * sizeof(*r->segs)))
		err = -EFAULT;
	for (uint32_t i = 0; !err && i < r->nr; i++) {
		if ((int64_t)r->segs[i].len < 0)
			err = -EINVAL;
		else /* no sum overflows: there are 1,024 at most, and what is too much is cut */
			r->bytes += MIN(r->segs[i].len, (uint64_t)INT64_MAX / UIO_MAXIOV);
	}
	if (err)
		kfree(r->segs);
	return err;
}

/* One piece of at most a page; how much of it was moved. */
static size_t move_piece(struct aspace *as, vaddr_t at, struct uio *local, uint8_t *buf, size_t n,
			 bool write)
{
	if (write) {
		n = uio_fetch(local, buf, n);
		return aspace_write_memory(as, at, buf, n);
	}
	n = aspace_read_memory(as, at, buf, n);
	return uio_put(local, buf, n);
}

static long move_all(struct aspace *as, const struct remote_segs *r, struct uio *local, bool write)
{
	uint8_t *buf = kmalloc(PAGE_SIZE);
	long done = 0;

	if (!buf)
		return -ENOMEM;
	for (uint32_t i = 0; i < r->nr && local->left; i++) {
		const struct uio_seg *s = &r->segs[i];

		for (uint64_t off = 0; off < s->len && local->left;) {
			const uint64_t at = s->base + off;
			const size_t want = (size_t)MIN(MIN(s->len - off, local->left),
							PAGE_SIZE - (at & (PAGE_SIZE - 1)));
			const size_t got = move_piece(as, at, local, buf, want, write);

			done += (long)got;
			off += got;
			if (got < want) {
				kfree(buf);
				return done ? done : -EFAULT;
			}
		}
	}
	kfree(buf);
	return done;
}

/* The space of process @pid, referenced. ERR_PTR(-ESRCH, -EPERM) */
static struct aspace *space_of(int pid)
{
	struct task *t = pid > 0 ? task_find(pid_from_vnr((uint32_t)pid)) : NULL;
	struct aspace *as;

	if (!t)
		return ERR_PTR(-ESRCH);
	if (process_may_look(t->process))
		as = process_aspace(t->process);
	else
		as = ERR_PTR(-EPERM);
	task_put(t);
	return as ? as : ERR_PTR(-ESRCH);
}

static long process_vm(const struct syscall_args *args, bool write)
{
	struct remote_segs r;
	struct aspace *as;
	struct uio local;
	long ret;

	if (args->a[5])
		return -EINVAL;
	ret = uio_iovec(&local, args->a[1], args->a[2]);
	if (ret)
		return ret;
	if (!local.left) {
		uio_done(&local);
		return 0;
	}
	ret = get_remote(&r, args->a[3], args->a[4]);
	if (!ret) {
		as = r.bytes ? space_of((int)args->a[0]) : NULL;
		if (IS_ERR(as)) {
			ret = PTR_ERR(as);
		} else if (as) {
			ret = move_all(as, &r, &local, write);
			aspace_put(as);
		}
		kfree(r.segs);
	}
	uio_done(&local);
	return ret;
}

/* process_vm_readv(pid, local, nlocal, remote, nremote, flags) */
long sys_process_vm_readv(const struct syscall_args *args)
{
	return process_vm(args, false);
}

/* process_vm_writev(pid, local, nlocal, remote, nremote, flags) */
long sys_process_vm_writev(const struct syscall_args *args)
{
	return process_vm(args, true);
}
