/* SPDX-License-Identifier: MIT */
/*
 * Storage monitor: PS_KEEP.
 *
 * Ordering:	a change that the sender has given up may be under way still, or arrive later, and
 *		the sender would never learn what it has changed. So what is below the sender's
 *		acknowledgement is done before, or never.
 */
#include <lib/errno.h>
#include <lib/string.h>

#include "storage.h"

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
