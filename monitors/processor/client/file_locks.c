/* SPDX-License-Identifier: MIT */
/*
 * Requests to storage nodes about advisory locks.
 *
 * Invariants:	numbers in use are in the list `pending`, in order, so that its head is the smallest
 *		one without an answer: each request tells it, and the storage node does none of the
 *		smaller ones any more.
 *		An owner's number is a hash of its address with a random key: a storage node learns
 *		no addresses.
 * Locking:	pending.lock (RANK_SPIN_FS).
 */
#include "file_locks.h"

#include <kernel/panic.h>
#include <kernel/random.h>
#include <kernel/spinlock.h>
#include <lib/errno.h>
#include <lib/list.h>
#include <lib/siphash.h>
#include <mm/slab.h>
#include <proto/ps.h>

#include "convert.h"
#include "storage_private.h"

static_assert((int)STORAGE_LOCK_FREE == (int)PS_LOCK_FREE, "the same");
static_assert((int)STORAGE_LOCK_BUSY == (int)PS_LOCK_BUSY, "the same");
static_assert((int)STORAGE_LOCK_WAITS == (int)PS_LOCK_WAITS, "the same");
static_assert((int)STORAGE_LOCK_GRACE == (int)PS_LOCK_GRACE, "the same");
static_assert((int)LOCK_FLOCK == (int)PS_LOCK_FLOCK, "the same");
static_assert((int)LOCK_NONE == (int)PS_LOCK_NONE, "the same");
static_assert((int)STORAGE_LOCK_EVENTS == (int)PS_LOCK_EVENTS_MAX, "the same");

struct numbered { /* on the calling thread's stack */
	struct list_head link;
	uint64_t seq;
};

static struct {
	struct spinlock lock;
	struct list_head list __guarded_by(&lock);
	uint64_t last __guarded_by(&lock);
	struct siphash_key key __guarded_by(&lock); /* random once `last` is not 0 */
} pending = {
	.lock = SPINLOCK_INIT("storage.lock_calls", RANK_SPIN_FS),
	.list = { &pending.list, &pending.list },
};

static void begin(struct numbered *n, uint64_t *seq, uint64_t *acked)
{
	spin_lock(&pending.lock);
	if (!pending.last)
		random_bytes(&pending.key, sizeof(pending.key));
	*seq = n->seq = ++pending.last;
	list_add_tail(&n->link, &pending.list);
	*acked = list_first_entry(&pending.list, struct numbered, link)->seq;
	spin_unlock(&pending.lock);
}

static void end(struct numbered *n)
{
	spin_lock(&pending.lock);
	list_del(&n->link);
	spin_unlock(&pending.lock);
}

/* After the first begin(). */
static uint64_t number_of(const void *owner)
{
	const uint64_t address = (uint64_t)(uintptr_t)owner;
	struct siphash_key key;

	spin_lock(&pending.lock);
	key = pending.key;
	spin_unlock(&pending.lock);
	return siphash24(&key, &address, sizeof(address)) | 1;
}

static struct ps_lock lock_to_proto(const struct lock_req *req)
{
	return (struct ps_lock){ .owner = number_of(req->owner),
				 .start = req->start,
				 .end = req->end,
				 .pid = req->pid,
				 .kind = (uint8_t)req->kind,
				 .type = (uint8_t)req->type };
}

/* enum storage_lock_state, or an errno. */
static int ask(const struct file_id *file, const struct lock_req *lock, uint64_t token, uint8_t op,
	       bool wait, struct ps_lock_rep *rep)
{
	struct ps_lock_req req = {
		.file = file_to_proto(file), .token = token, .op = op, .wait = wait
	};
	struct ps_lock_rep_wire reply;
	struct ps_lock_req_wire w;
	struct numbered n;
	int ret;

	begin(&n, &req.seq, &req.acked);
	req.lock = lock_to_proto(lock);
	ps_lock_req_encode(&req, &w);
	ret = storage_call(file->node, PS_LOCK, &w, sizeof(w), &reply, sizeof(reply));
	end(&n);
	if (ret >= 0)
		ret = ps_lock_rep_decode(&reply, (size_t)ret, rep);
	return ret ? ret : (int)rep->state;
}

int storage_lock(const struct file_id *file, const struct lock_req *req, uint64_t token, bool wait)
{
	struct ps_lock_rep rep;

	return ask(file, req, token, PS_LOCK_OP_SET, wait && req->type != LOCK_NONE, &rep);
}

int storage_lock_test(const struct file_id *file, const struct lock_req *req, uint64_t token,
		      struct lock_req *found)
{
	struct ps_lock_rep rep;
	const int ret = ask(file, req, token, PS_LOCK_OP_TEST, false, &rep);

	if (ret != STORAGE_LOCK_BUSY)
		return ret == STORAGE_LOCK_WAITS ? -EPROTO : ret;
	if (!rep.found.owner)
		return -EPROTO;
	*found = (struct lock_req){ .kind = (enum lock_kind)rep.found.kind,
				    .type = (enum lock_type)rep.found.type,
				    .pid = rep.found.pid,
				    .start = rep.found.start,
				    .end = rep.found.end };
	return ret;
}

int storage_lock_cancel(const struct file_id *file, const struct lock_req *req, uint64_t token)
{
	struct ps_lock_rep rep;
	const int ret = ask(file, req, token, PS_LOCK_OP_CANCEL, false, &rep);

	return MIN(ret, 0);
}

/* One message's worth. */
static int declare_some(const struct file_id *file, uint32_t incarn, const struct lock_req *locks,
			size_t nr, struct ps_locks_req *req, uint8_t *body, size_t cap)
{
	struct numbered n;
	ssize_t ret;

	req->file = file_to_proto(file);
	req->incarn = incarn;
	req->nr_locks = (uint32_t)nr;
	begin(&n, &req->seq, &req->acked);
	for (size_t i = 0; i < nr; i++)
		req->locks[i] = lock_to_proto(&locks[i]);
	ret = ps_locks_req_encode(req, body, cap);
	if (ret >= 0)
		ret = storage_call(file->node, PS_LOCKS, body, (size_t)ret, NULL, 0);
	end(&n);
	return (int)MIN(ret, 0);
}

int storage_locks_declare(const struct file_id *file, uint32_t incarn, const struct lock_req *locks,
			  size_t nr)
{
	const size_t cap =
		sizeof(struct ps_locks_req_wire) + PS_LOCKS_MAX * sizeof(struct ps_lock_wire);
	struct ps_locks_req *req = kmalloc(sizeof(*req)); /* too large for a stack */
	uint8_t *body = kmalloc(cap);
	int err = req && body ? 0 : -ENOMEM;

	while (!err && nr) {
		const size_t n = MIN(nr, (size_t)PS_LOCKS_MAX);

		err = declare_some(file, incarn, locks, n, req, body, cap);
		locks += n;
		nr -= n;
	}
	kfree(body);
	kfree(req);
	return err;
}

int storage_lock_events(uint32_t node, struct storage_lock_events *ev)
{
	const struct ps_lock_events_req req = { .after = ev->last, .incarn = ev->incarn };
	const size_t cap = sizeof(struct ps_lock_events_rep_wire) +
			   PS_LOCK_EVENTS_MAX * sizeof(struct ps_lock_token_wire);
	struct ps_lock_events_rep *rep = kmalloc(sizeof(*rep)); /* too large for a stack */
	uint8_t *reply = kmalloc(cap);
	struct ps_lock_events_req_wire w;
	int ret = -ENOMEM;

	if (rep && reply) {
		ps_lock_events_req_encode(&req, &w);
		ret = storage_call(node, PS_LOCK_EVENTS, &w, sizeof(w), reply, cap);
	}
	if (ret >= 0)
		ret = ps_lock_events_rep_decode(reply, (size_t)ret, rep);
	if (!ret) {
		ev->last = rep->last;
		ev->incarn = rep->incarn;
		ev->nr = rep->nr_tokens;
		for (uint32_t i = 0; i < rep->nr_tokens; i++)
			ev->tokens[i] = rep->tokens[i].token;
	}
	kfree(reply);
	kfree(rep);
	return ret;
}
