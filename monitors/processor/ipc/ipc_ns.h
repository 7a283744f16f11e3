/* SPDX-License-Identifier: MIT */
/*
 * IPC namespaces: keys, ids, names and limits of System V IPC and of POSIX message queues.
 *
 * Invariants:	when the last task and file of a namespace are gone, all of its objects are removed,
 *		as IPC_RMID and mq_unlink() do it. A segment that is still mapped and a queue that
 *		is still open go later; they hold the memory of the namespace (refs) until then.
 * Locking:	each kind has locks of its own, mqueue_calls.c's names_lock guards what is said so.
 */
#pragma once

#include <processor/ns/ns.h>

#include "mqueue.h"
#include "sysv_private.h"

struct ipc_ns {
	struct ns ns;
	refcount_t refs; /* one of the namespace as such, one of each object and queue */
	struct sysv_limits limits;
	struct sysv_next_ids next_ids;
	struct sysv_kind shm, sem, msg;
	uint64_t shm_pages;                  /* atomic, as the next three: pages of all segments */
	uint64_t nr_sems;                    /* semaphores in all sets */
	uint64_t nr_messages, message_bytes; /* in all queues */
	struct mqueue_limits mq_limits;
	struct rb_root mq_names; /* names_lock */
	uint32_t nr_mqueues;     /* names_lock: those without a name too */
};

/* That of the calling task; of a thread of the kernel, the first one. */
struct ipc_ns *ipc_ns_current(void);
void ipc_ns_hold(struct ipc_ns *ns);
void ipc_ns_release(struct ipc_ns *ns);

/* mqueue_calls.c: every name goes from @ns, which ends. */
void mqueue_end(struct ipc_ns *ns);
