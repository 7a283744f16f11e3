/* SPDX-License-Identifier: MIT */
/*
 * A task for each thread, files that are only counted, a page whose node is silent.
 */
#include "ipc_fake.h"

#include <kernel/thread.h>
#include <lib/err.h>
#include <processor/account/account.h>
#include <processor/process/cred.h>
#include <processor/process/process.h>
#include <processor/signal/signal.h>
#include <processor/vfs/inode.h>
#include <shim/pgtable.h>

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

/* No task of the tests is in a PID namespace. */
uint32_t pid_vnr_in(uint32_t nr, const struct pid_ns *ns)
{
	return nr;
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

int (*fake_getattr)(struct inode *inode, struct file_attr *attr);

/* No case asks for the attributes of a FIFO. */
int inode_getattr(struct inode *inode, struct file_attr *attr)
{
	return fake_getattr ? fake_getattr(inode, attr) : -ENOENT;
}

unsigned int fake_sleepers(struct waitqueue *wq)
{
	const unsigned long flags = spin_lock_irqsave(&wq->lock);
	const struct list_head *at;
	unsigned int nr = 0;

	for (at = wq->waiters.next; at != &wq->waiters; at = at->next)
		nr++;
	spin_unlock_irqrestore(&wq->lock, flags);
	return nr;
}

/* --- a silent node --- */

uint8_t fake_slow_page[PAGE_SIZE] __aligned(PAGE_SIZE);
static bool go, in_fault, answered; /* atomic */

static void set(bool *flag, bool value)
{
	__atomic_store_n(flag, value, __ATOMIC_RELEASE);
}

static void wait_until_set(const bool *flag)
{
	while (!__atomic_load_n(flag, __ATOMIC_ACQUIRE))
		thread_yield();
}

static void fault_on_slow_page(void)
{
	set(&in_fault, true);
	wait_until_set(&answered);
}

void fake_slow_begin(void)
{
	set(&go, false);
	set(&in_fault, false);
	set(&answered, false);
	shim_user_fault = fault_on_slow_page;
	shim_user_unmapped(fake_slow_page);
}

void fake_slow_answer(void)
{
	set(&answered, true);
}

void fake_slow_wait(void)
{
	wait_until_set(&go);
}

bool fake_slow_go(struct watcher *w)
{
	set(&go, true);
	wait_until_set(&in_fault);
	return true;
}

/* There are no interfaces here. */
long interface_ioctl(uint32_t cmd, uint64_t arg);
long interface_ioctl(uint32_t cmd, uint64_t arg)
{
	return -ENOTTY;
}
