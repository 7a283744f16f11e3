/* SPDX-License-Identifier: MIT */
/*
 * Registry of byte streams, and the way to their drivers.
 *
 * Locking:	registry.lock (RANK_SPIN_DRIVER) guards the list; ports never leave it.
 */
#include <drivers/console.h>

#include <kernel/spinlock.h>
#include <kernel/wait.h>
#include <lib/errno.h>
#include <lib/string.h>

static struct {
	struct spinlock lock;
	struct list_head ports __guarded_by(&lock);
	struct waitqueue arrived;
} registry = {
	.lock = SPINLOCK_INIT("chardev", RANK_SPIN_DRIVER),
	.ports = LIST_HEAD_INIT(registry.ports),
	.arrived = WAITQUEUE_INIT(registry.arrived),
};

static struct chardev *find_locked(const char *name) __must_hold(&registry.lock)
{
	struct chardev *cd;

	assert_spin_held(&registry.lock);
	list_for_each_entry(cd, &registry.ports, link) {
		if (!strcmp(cd->name, name))
			return cd;
	}
	return NULL;
}

static struct chardev *find(const char *name)
{
	struct chardev *cd;

	spin_lock(&registry.lock);
	cd = find_locked(name);
	spin_unlock(&registry.lock);
	return cd;
}

int chardev_register(struct chardev *cd)
{
	int err = 0;

	if (!cd->name[0])
		return -EINVAL;
	spin_lock(&registry.lock);
	if (find_locked(cd->name))
		err = -EEXIST;
	else
		list_add_tail(&cd->link, &registry.ports);
	spin_unlock(&registry.lock);
	if (!err)
		wake_all(&registry.arrived);
	return err;
}

struct chardev *chardev_wait(const char *name, uint64_t deadline_ns)
{
	struct chardev *cd = NULL;

	if (!wait_event_timeout(&registry.arrived, (cd = find(name)) != NULL, deadline_ns))
		return NULL;
	return cd;
}

ssize_t chardev_read(struct chardev *cd, void *buf, size_t len, uint64_t deadline_ns)
{
	return len ? cd->ops->read(cd, buf, len, deadline_ns) : -EINVAL;
}

int chardev_write(struct chardev *cd, const void *buf, size_t len, uint64_t deadline_ns)
{
	return cd->ops->write(cd, buf, len, deadline_ns);
}

bool chardev_wait_connected(struct chardev *cd, uint64_t deadline_ns)
{
	return cd->ops->wait_connected(cd, deadline_ns);
}
