/* SPDX-License-Identifier: MIT */
/*
 * Storage monitor: PS_KEEP, and the room for names that goes with it.
 *
 * Ordering:	a change that the sender has given up may be under way still, or arrive later, and
 *		the sender would never learn what it has changed. So what is below the sender's
 *		acknowledgement is done before, or never.
 */
#include <kernel/panic.h>
#include <lib/errno.h>
#include <lib/string.h>

#include "storage.h"

uint32_t storage_rooms(struct storage *st, const struct storage_peer *from, uint32_t nr)
{
	uint32_t kept = 0;

	ASSERT(nr <= PS_ROOMS_MAX);
	mutex_lock(&st->rooms);
	if (st->fs && keep_is_keeper(&st->keep, from))
		kept = fs_rooms(st->fs, nr);
	mutex_unlock(&st->rooms);
	return kept;
}

void storage_rooms_freed(struct keep *keep)
{
	struct storage *st = container_of(keep, struct storage, keep);

	mutex_lock(&st->rooms);
	if (st->fs)
		(void)fs_rooms(st->fs, 0);
	mutex_unlock(&st->rooms);
}

ssize_t storage_keep(struct storage *st, uint16_t opcode, const struct storage_peer *from,
		     const void *body, size_t len, void *reply, size_t cap)
{
	struct ps_keep_rep rep = { .granted = 0 };
	struct ps_keep_rep_wire w;
	struct ps_keep_req req;
	int err = ps_keep_req_decode(body, len, &req);

	(void)opcode;
	if (err)
		return err;
	if (cap < sizeof(w))
		return -EMSGSIZE;
	err = record_acknowledge(&st->records, from, req.acked);
	if (!err)
		rep.granted = keep_grant(&st->keep, from);
	else if (err != -EAGAIN)
		return err;
	ps_keep_rep_encode(&rep, &w);
	memcpy(reply, &w, sizeof(w));
	return sizeof(w);
}
