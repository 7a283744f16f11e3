/* SPDX-License-Identifier: MIT */
/*
 * futex: WAIT, WAIT_BITSET, WAKE, WAKE_BITSET.
 *
 * Key:		(address space, address): right for private futexes, and for shared ones as long as only one
 *		process maps a page writable.
 * Locking:	a bucket's lock (RANK_SPIN_TASK) guards its waiters; the word is compared after the waiter is on
 *		the list, so that a wake between the two is not lost.
 */
#include <processor/futex.h>

#include <arch/uaccess.h>
#include <kernel/spinlock.h>
#include <kernel/time.h>
#include <kernel/wait.h>
#include <lib/errno.h>
#include <lib/hash.h>
#include <lib/list.h>
#include <processor/process.h>
#include <processor/syscall.h>

#define BUCKETS 256

enum futex_op {
	FUTEX_WAIT = 0,
	FUTEX_WAKE = 1,
	FUTEX_WAIT_BITSET = 9,
	FUTEX_WAKE_BITSET = 10,
	FUTEX_CMD_MASK = 127,
	FUTEX_CLOCK_REALTIME = 256,
};

#define BITSET_ANY 0xffffffffu

struct futex_waiter { /* on the waiting thread's stack */
	struct list_head link;
	struct aspace *as;
	uint64_t addr;
	uint32_t bitset;
	bool woken; /* atomic; set under the bucket's lock, then not touched by the waker again */
	struct waitqueue wq;
};

static struct bucket {
	struct spinlock lock;
	struct list_head waiters;
} buckets[BUCKETS];

void futex_init(void)
{
	for (size_t i = 0; i < BUCKETS; i++) {
		spin_lock_init(&buckets[i].lock, "futex", RANK_SPIN_TASK);
		list_init(&buckets[i].waiters);
	}
}

static struct bucket *bucket_of(const struct aspace *as, uint64_t addr)
{
	return &buckets[hash64_pair((uint64_t)(uintptr_t)as, addr) % BUCKETS];
}

static unsigned int wake(struct aspace *as, uint64_t addr, unsigned int nr, uint32_t bitset)
{
	struct bucket *b = bucket_of(as, addr);
	struct futex_waiter *w, *tmp;
	unsigned int woken = 0;

	spin_lock(&b->lock);
	list_for_each_entry_safe(w, tmp, &b->waiters, link) {
		if (woken == nr)
			break;
		if (w->as != as || w->addr != addr || !(w->bitset & bitset))
			continue;
		list_del(&w->link);
		list_init(&w->link);
		__atomic_store_n(&w->woken, true, __ATOMIC_RELEASE);
		wake_all(&w->wq); /* the waiter takes the bucket's lock before it leaves */
		woken++;
	}
	spin_unlock(&b->lock);
	return woken;
}

unsigned int futex_wake_addr(struct aspace *as, uint64_t addr, unsigned int nr)
{
	return wake(as, addr, nr, BITSET_ANY);
}

static long wait(struct aspace *as, uint64_t addr, uint32_t val, uint32_t bitset, uint64_t deadline)
{
	struct bucket *b = bucket_of(as, addr);
	struct futex_waiter w = { .as = as, .addr = addr, .bitset = bitset };
	uint32_t now;
	int err;

	waitqueue_init(&w.wq);
	spin_lock(&b->lock);
	list_add_tail(&w.link, &b->waiters);
	spin_unlock(&b->lock);
	err = get_user_u32(&now, (const void __user *)addr);
	if (!err && now != val)
		err = -EAGAIN;
	if (!err)
		err = wait_event_interruptible_timeout(
			&w.wq, __atomic_load_n(&w.woken, __ATOMIC_ACQUIRE), deadline);
	spin_lock(&b->lock);
	list_del(&w.link);
	spin_unlock(&b->lock);
	if (w.woken)
		return 0;
	return err == -EINTR ? (deadline == WAIT_FOREVER ? -ERESTARTSYS : -EINTR) : err;
}

/* Absolute monotonic deadline from a user's timespec; WAIT_FOREVER for none. */
static int get_deadline(uint64_t uts, uint32_t op, uint64_t *deadline)
{
	const bool relative = (op & FUTEX_CMD_MASK) == FUTEX_WAIT;
	uint64_t ts[2], ns;

	*deadline = WAIT_FOREVER;
	if (!uts)
		return 0;
	if (copy_from_user(ts, (const void __user *)uts, sizeof(ts)))
		return -EFAULT;
	if ((int64_t)ts[0] < 0 || ts[1] >= 1000000000u)
		return -EINVAL;
	if (ts[0] > UINT64_MAX / 1000000000u / 2)
		return 0;
	ns = ts[0] * 1000000000u + ts[1];
	if (relative)
		ns += time_now_ns();
	else if (op & FUTEX_CLOCK_REALTIME)
		ns = ns > time_real_ns() ? ns - time_real_ns() + time_now_ns() : time_now_ns();
	*deadline = ns;
	return 0;
}

/* futex(uaddr, op, val, timeout, uaddr2, val3) */
long sys_futex(const struct syscall_args *args)
{
	const uint32_t op = (uint32_t)args->a[1];
	const uint64_t addr = args->a[0];
	struct aspace *as = aspace_current();
	uint32_t bitset = BITSET_ANY;
	uint64_t deadline;
	int err;

	if ((op & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET ||
	    (op & FUTEX_CMD_MASK) == FUTEX_WAKE_BITSET)
		bitset = (uint32_t)args->a[5];
	if ((addr & 3) || bitset == 0)
		return -EINVAL;
	if (!user_range_ok(addr, 4))
		return -EFAULT;
	switch (op & FUTEX_CMD_MASK) {
	case FUTEX_WAKE:
	case FUTEX_WAKE_BITSET:
		return (long)wake(as, addr, (unsigned int)MAX((int)args->a[2], 1), bitset);
	case FUTEX_WAIT:
	case FUTEX_WAIT_BITSET:
		err = get_deadline(args->a[3], op, &deadline);
		return err ? err : wait(as, addr, (uint32_t)args->a[2], bitset, deadline);
	default:
		return -ENOSYS;
	}
}
