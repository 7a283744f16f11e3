/* SPDX-License-Identifier: MIT */
/*
 * Storage monitor: the messages of advisory locks.
 *
 * A handle's seal says that the file was there; whether it still has a name, or is there at all,
 * does not matter to its locks, so no request asks the disk.
 *
 * Context:	threads; storage_lock_events() waits.
 */
#include <lib/errno.h>
#include <lib/string.h>
#include <mm/slab.h>

#include "storage.h"

ssize_t storage_lock(struct storage *st, uint16_t opcode, const struct storage_peer *from,
		     const void *body, size_t len, void *reply, size_t cap)
{
	struct ps_lock_rep_wire w;
	struct ps_lock_req req;
	struct ps_lock_rep rep;
	int err = ps_lock_req_decode(body, len, &req);

	(void)opcode;
	if (!err && req.file.node != st->node)
		err = -ESTALE;
	if (!err && cap < sizeof(w))
		err = -EMSGSIZE;
	if (!err)
		err = lock_table_request(&st->lock_table, from, &req, &rep);
	if (err)
		return err;
	ps_lock_rep_encode(&rep, &w);
	memcpy(reply, &w, sizeof(w));
	return sizeof(w);
}

ssize_t storage_locks(struct storage *st, uint16_t opcode, const struct storage_peer *from,
		      const void *body, size_t len, void *reply, size_t cap)
{
	struct ps_locks_req *req = kmalloc(sizeof(*req)); /* too big for a stack */
	int err = -ENOMEM;

	(void)opcode, (void)reply, (void)cap;
	if (req)
		err = ps_locks_req_decode(body, len, req);
	if (!err && (req->file.node != st->node || req->incarn != st->incarn))
		err = -ESTALE;
	if (!err)
		err = lock_table_declare(&st->lock_table, from, req);
	kfree(req);
	return err;
}

ssize_t storage_lock_events(struct storage *st, uint16_t opcode, const struct storage_peer *from,
			    const void *body, size_t len, void *reply, size_t cap)
{
	struct ps_lock_events_rep *rep = kmalloc(sizeof(*rep)); /* too big for a stack */
	struct ps_lock_events_req req;
	ssize_t ret = -ENOMEM;

	(void)opcode;
	if (rep)
		ret = ps_lock_events_req_decode(body, len, &req);
	if (!ret)
		ret = lock_table_events(&st->lock_table, from, &req, rep);
	if (!ret)
		ret = ps_lock_events_rep_encode(rep, reply, cap);
	kfree(rep);
	return ret;
}
