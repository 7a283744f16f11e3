/* SPDX-License-Identifier: MIT */
/*
 * kcmp: do two tasks share a resource? Debuggers and checkpointers ask.
 *
 * Programs learn an order of the resources, by which they may sort them, and no addresses: these
 * are mixed with a random key of the monitor's.
 */
#include "process_private.h"

#include <kernel/random.h>
#include <lib/err.h>
#include <lib/hash.h>
#include <processor/mm/aspace.h>
#include <processor/syscall/syscall.h>
#include <processor/vfs/file.h>
#include <processor/vfs/path.h>

enum kcmp_type { /* Linux's <linux/kcmp.h> */
	KCMP_FILE,
	KCMP_VM,
	KCMP_FILES,
	KCMP_FS,
	KCMP_SIGHAND,
	KCMP_IO,
	KCMP_SYSVSEM,
	KCMP_EPOLL_TFD,
	KCMP_TYPES,
};

static uint64_t key; /* 0: not made yet; then const */

/* A number for the address: another one for each address, since the hash is a permutation. */
static uint64_t mixed(const void *p)
{
	uint64_t none = 0, made;

	if (!__atomic_load_n(&key, __ATOMIC_ACQUIRE)) {
		made = random_u64() | 1;
		(void)__atomic_compare_exchange_n(&key, &none, made, false, __ATOMIC_ACQ_REL,
						  __ATOMIC_ACQUIRE);
	}
	return hash64((uint64_t)(uintptr_t)p ^ key);
}

/* 0: @x and @y are the same; else which comes first in the order. */
static long order(const void *x, const void *y)
{
	return x == y ? 0 : mixed(x) < mixed(y) ? 1 : 2;
}

/* Open file @fd of @p, referenced. ERR_PTR(-EBADF) */
static struct file *file_of(struct process *p, uint64_t fd)
{
	struct files *table = process_files(p);
	struct file *f;

	if (!table)
		return ERR_PTR(-EBADF);
	f = files_get(table, (int)fd);
	files_put(table);
	return f ? f : ERR_PTR(-EBADF);
}

/* Both are held, so that none is closed and its memory used for the other meanwhile. */
static long compare_files(struct process *a, uint64_t fd_a, struct process *b, uint64_t fd_b)
{
	struct file *x = file_of(a, fd_a), *y = file_of(b, fd_b);
	const long ret = IS_ERR(x) ? PTR_ERR(x) : IS_ERR(y) ? PTR_ERR(y) : order(x, y);

	if (!IS_ERR(x))
		file_put(x);
	if (!IS_ERR(y))
		file_put(y);
	return ret;
}

static const void *space_of(struct process *p)
{
	struct aspace *as = process_aspace(p);

	if (as)
		aspace_put(as);
	return as;
}

static const void *table_of(struct process *p)
{
	struct files *table = process_files(p);

	if (table)
		files_put(table);
	return table;
}

static const void *fs_of(struct process *p)
{
	struct fs_state *fs = process_fs(p);

	if (fs)
		fs_state_put(fs);
	return fs;
}

/* The task may have another one by the time that the caller looks at the address. */
static const void *resource(struct task *t, int type)
{
	struct process *p = t->process;

	switch (type) {
	case KCMP_VM:
		return space_of(p);
	case KCMP_FILES:
		return table_of(p);
	case KCMP_FS:
		return fs_of(p);
	case KCMP_SIGHAND:
		return READ_ONCE(p->sig.sighand);
	case KCMP_IO:
		return NULL; /* nobody has such a context, as on Linux before the first I/O */
	case KCMP_SYSVSEM:
		return READ_ONCE(t->sem_undos);
	case KCMP_EPOLL_TFD:
		return ERR_PTR(-EOPNOTSUPP);
	default:
		return ERR_PTR(-EINVAL);
	}
}

static long compare(struct task *a, struct task *b, const struct syscall_args *args)
{
	const int type = (int)args->a[2];
	const void *x, *y;

	if (!process_may_look(a->process) || !process_may_look(b->process))
		return -EPERM;
	if (type == KCMP_FILE)
		return compare_files(a->process, args->a[3], b->process, args->a[4]);
	x = resource(a, type);
	if (IS_ERR(x))
		return PTR_ERR(x);
	y = resource(b, type);
	if (IS_ERR(y))
		return PTR_ERR(y);
	return order(x, y);
}

/* kcmp(pid1, pid2, type, idx1, idx2) */
long sys_kcmp(const struct syscall_args *args)
{
	struct task *a = task_find(pid_from_vnr((uint32_t)args->a[0]));
	struct task *b = a ? task_find(pid_from_vnr((uint32_t)args->a[1])) : NULL;
	const long ret = b ? compare(a, b, args) : -ESRCH;

	if (b)
		task_put(b);
	if (a)
		task_put(a);
	return ret;
}
