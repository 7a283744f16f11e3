/* SPDX-License-Identifier: MIT */
/*
 * Storage monitor: MS_RESERVE: room on the disk for pages that a memory node is going to send.
 *
 * Flow:	the node that has the claim of a file says how many pages of it will need blocks;
 *		the file system keeps so many from everybody else. Pages that are written turn the
 *		promise into blocks.
 * Invariants:	a file has a promise only while it is claimed: the promise goes with the claim,
 *		before another node gets its own.
 * Failure:	after a restart of this node there are no promises; memory nodes ask for what they
 *		had when they claim again, which is never refused. New ones wait until all have.
 */
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/string.h>

#include "storage.h"

/* The holes of @p as bits of bytes. */
static void tell(const struct fs_promise *p, struct ms_reserve_rep *out)
{
	static_assert(FS_PROMISE_MAX == MS_RESERVE_MAX_PAGES, "one range");

	memset(out, 0, sizeof(*out));
	out->mapped = MIN(p->mapped, (uint64_t)INT64_MAX >> PAGE_SHIFT);
	out->covered = p->covered;
	for (uint32_t i = 0; i < p->covered; i++) {
		if (p->holes[i / 64] & 1ull << (i % 64))
			out->holes[i / 8] |= (uint8_t)(1u << (i % 8));
	}
}

int storage_reserve(struct storage *st, const struct storage_peer *who,
		    const struct ms_reserve_req *req, struct ms_reserve_rep *out)
{
	const struct fs_change ch = { .privileged = req->flags & MS_RESERVE_PRIVILEGED };
	struct fs_promise p = {
		.others = req->others, .index = req->pgoff, .nr = req->nr, .need = req->need
	};
	struct fs_inode *in = storage_file_get(st, &req->file);
	struct claim *claim;
	int err;

	if (IS_ERR(in))
		return (int)PTR_ERR(in);
	/* Of an earlier life: the sender has to hear that before the wait. */
	err = claim_begin(&st->claims, &req->file, who, req->epoch, &claim);
	if (!err && req->nr && !grace_is_over(&st->grace)) {
		/* The promises that others had in that life are not given away. */
		storage_claim_end(st, claim);
		err = grace_wait(&st->grace);
		if (!err)
			err = claim_begin(&st->claims, &req->file, who, req->epoch, &claim);
	}
	if (err)
		goto out_put;
	claim_set_promised(&st->claims, claim);
	err = fs_promise(in, &p, &ch);
	if (!err)
		tell(&p, out);
	storage_claim_end(st, claim);
out_put:
	fs_inode_put(in);
	return err;
}

static void promise_end(struct storage *st, const struct proto_file *file)
{
	static const struct fs_change none;
	struct fs_inode *in = storage_file_get(st, file);
	struct fs_promise p = { 0 };

	if (IS_ERR(in))
		return; /* it ended with the file */
	(void)!fs_promise(in, &p, &none);
	fs_inode_put(in);
}

void storage_promise_end(struct storage *st, const struct storage_peer *who,
			 const struct proto_file *file, uint64_t epoch)
{
	struct claim *claim;

	if (claim_begin(&st->claims, file, who, epoch, &claim))
		return;
	if (claim_is_promised(&st->claims, claim))
		promise_end(st, file);
	storage_claim_end(st, claim);
}

void storage_release(struct storage *st, const struct storage_peer *who,
		     const struct ms_release_req *req)
{
	/* First the claim, so that no MS_RESERVE that comes late makes another promise. */
	struct claim *claim = claim_release(&st->claims, &req->file, who, req->epoch);

	if (!claim)
		return;
	promise_end(st, &req->file);
	storage_claim_end(st, claim);
}

void storage_claims_left(struct storage *st)
{
	struct proto_file file;
	struct claim *claim;

	while (claim_begin_left(&st->claims, &file, &claim)) {
		promise_end(st, &file);
		(void)claim_end(&st->claims, claim);
	}
	claims_drop_left(&st->claims);
}

void storage_claim_end(struct storage *st, struct claim *claim)
{
	if (claim_end(&st->claims, claim))
		storage_claims_left(st);
}
