/* SPDX-License-Identifier: MIT */
/*
 * Storage monitor: several changes of names in one message.
 *
 * Flow:	decode -> each change: the vNode of its handles, then the change -> one commit for
 *		all, where answers wait for the disk -> the records' ends, the errnos; room for
 *		names that are to come.
 * Ordering:	changes are done in their order; one that fails does not stop those behind it, but
 *		when it may be tried again: then none behind it is begun. Their
 *		numbers ascend, so a batch that waits for the same change in another one, or alone,
 *		is not waited for by that one.
 * Context:	threads; may sleep.
 */
#include <kernel/counter.h>
#include <lib/errno.h>
#include <mm/slab.h>

#include "storage.h"

COUNTER(storage_batches, "storage.batches", "requests that brought several changes of names");

static const struct storage_msg *msg_of(uint16_t opcode)
{
	for (size_t i = 0; i < nr_storage_msgs; i++) {
		if (storage_msgs[i].opcode == opcode)
			return &storage_msgs[i];
	}
	return NULL;
}

static void begin(struct storage *st, const struct storage_peer *from,
		  const struct ps_batch_item *item, struct storage_change *c)
{
	const struct storage_msg *msg = msg_of(item->opcode);
	int err = msg ? storage_check_vnode(st, msg, from->node, item->body, item->len) : -EPROTO;

	/* This node has not been told yet who has what: that is no answer for good. */
	if (err == -EAGAIN)
		err = -ESHUTDOWN;
	if (err)
		*c = (struct storage_change){ .ret = err };
	else
		storage_change_begin(st, item->opcode, from, item->body, item->len, c);
}

/* Will its sender try a change again that was answered with @err? */
static bool passes(ssize_t err)
{
	return err == -ENOMEM || err == -ENOBUFS || err == -ESHUTDOWN;
}

static void run(struct storage *st, const struct storage_peer *from, const struct ps_batch_req *req,
		struct storage_change *changes, struct ps_batch_rep *rep)
{
	int err;

	for (uint32_t i = 0; i < req->nr_changes; i++) {
		if (i && passes(changes[i - 1].ret))
			changes[i] = (struct storage_change){ .ret = changes[i - 1].ret };
		else
			begin(st, from, &req->changes[i], &changes[i]);
	}
	err = storage_change_commit(st, changes, req->nr_changes);
	rep->nr_changes = req->nr_changes;
	for (uint32_t i = 0; i < req->nr_changes; i++) {
		storage_change_end(st, &changes[i], err);
		rep->changes[i].err = (int)MIN(changes[i].ret, (ssize_t)0);
	}
}

ssize_t storage_batch(struct storage *st, uint16_t opcode, const struct storage_peer *from,
		      const void *body, size_t len, void *reply, size_t cap)
{
	struct ps_batch_req *req = kmalloc(sizeof(*req)); /* too big for a stack, as the others */
	struct ps_batch_rep *rep = kmalloc(sizeof(*rep));
	struct storage_change *changes = NULL;
	ssize_t ret = req && rep ? ps_batch_req_decode(body, len, req) : -ENOMEM;

	(void)opcode;
	if (!ret) {
		changes = kcalloc(MAX(req->nr_changes, 1u), sizeof(*changes));
		ret = changes ? 0 : -ENOMEM;
	}
	if (!ret) {
		counter_inc(&storage_batches);
		run(st, from, req, changes, rep);
		rep->rooms = storage_rooms(st, from, req->rooms);
		ret = ps_batch_rep_encode(rep, reply, cap);
	}
	kfree(changes);
	kfree(rep);
	kfree(req);
	return ret;
}
