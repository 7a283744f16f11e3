/* SPDX-License-Identifier: MIT */
/*
 * A task for each thread, files that are only counted.
 */
#include "ipc_fake.h"

#include <lib/err.h>
#include <processor/account/account.h>
#include <processor/process/cred.h>
#include <processor/process/process.h>
#include <processor/signal/signal.h>
#include <processor/vfs/inode.h>

unsigned int fake_sigpipes;
struct kmem_account *fake_account;

void fake_task(uint32_t uid)
{
	static _Thread_local struct program program;
	static _Thread_local struct process p = { .pid = 1 };
	static _Thread_local struct cred cred;
	static _Thread_local struct task t;

	cred.fsuid = uid;
	program.kmem = fake_account;
	p.program = &program;
	t.process = &p;
	t.cred = &cred;
	thread_current()->private = &t;
}

bool capable(unsigned int cap)
{
	return cred_current()->fsuid == 0;
}

void signal_raise_sigpipe(void)
{
	__atomic_add_fetch(&fake_sigpipes, 1, __ATOMIC_RELAXED);
}

struct file *file_create(const struct file_ops *ops, uint32_t flags, const char *path)
{
	struct file *f = kmem_alloc(kmem_current(), sizeof(*f));

	if (!f)
		return ERR_PTR(-ENOMEM);
	f->ops = ops;
	f->flags = flags;
	refcount_set(&f->refs, 1);
	return f;
}

void file_put(struct file *f)
{
	if (!refcount_dec_and_test(&f->refs))
		return;
	if (f->ops->release)
		f->ops->release(f);
	kmem_free(f);
}

/* No case asks for the attributes of a FIFO. */
int inode_getattr(struct inode *inode, struct file_attr *attr)
{
	return -ENOENT;
}
