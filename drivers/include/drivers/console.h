/* SPDX-License-Identifier: MIT */
/*
 * Byte streams of console devices: virtio-console ports today.
 *
 * Flow:	a driver registers ports; a user finds one by name, then reads and
 *		writes it from threads.  Bytes that the reader does not take stay in
 *		the device's queue, so the other side is held back and nothing is lost.
 * Context:	read, write and wait sleep.  One reader and one writer at a time are
 *		expected; more are serialised.
 * Failure:	-EPIPE after the host side closed the port (reads first drain what
 *		came before), -EIO after the device broke its contract.
 */
#pragma once

#include <lib/compiler.h>
#include <lib/list.h>
#include <lib/types.h>

#define CHARDEV_NAME_LEN    32
#define CHARDEV_NO_DEADLINE UINT64_MAX

struct chardev;

/* The port that is called @name ("control"); waits until the absolute time @deadline_ns. */
struct chardev *chardev_wait(const char *name, uint64_t deadline_ns);

/*
 * Read 1 to @len bytes, sleeping until some are there.  Returns the count, 0 when
 * @deadline_ns passed with nothing, or -errno.
 */
ssize_t __must_check chardev_read(struct chardev *cd, void *buf, size_t len, uint64_t deadline_ns);

/*
 * Write all of @len bytes, sleeping for room.  0 once the device has accepted them all,
 * -ETIMEDOUT (some may have gone) or -errno.
 */
int __must_check chardev_write(struct chardev *cd, const void *buf, size_t len,
			       uint64_t deadline_ns);

/* Sleep until the host side of the port has been opened; false: @deadline_ns passed. */
bool chardev_wait_connected(struct chardev *cd, uint64_t deadline_ns);

/* --- for drivers --- */

/* The calls above, for one kind of port; @deadline_ns as there. */
struct chardev_ops {
	ssize_t (*read)(struct chardev *cd, void *buf, size_t len, uint64_t deadline_ns);
	int (*write)(struct chardev *cd, const void *buf, size_t len, uint64_t deadline_ns);
	bool (*wait_connected)(struct chardev *cd, uint64_t deadline_ns);
};

struct chardev {
	const struct chardev_ops *ops; /* const */
	char name[CHARDEV_NAME_LEN];   /* const once registered */
	struct list_head link;         /* the registry's */
};

/* -EEXIST: the name is taken; -EINVAL: it is empty.  Ports are never taken away again. */
int __must_check chardev_register(struct chardev *cd);
