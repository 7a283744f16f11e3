/* SPDX-License-Identifier: MIT */
/*
 * Files that change, after their storage node was started again: its record of claims was lost
 * with its earlier life.
 *
 * Flow:	for each file of it that this node has claimed: the claim again, by its epoch. Then
 *		MS_DECLARE: from then on storage gives claims to others.
 * Context:	a thread of its own; waits for storage.
 * Locking:	a file's flush mutex, so that no flush meets an epoch that changes under it.
 */
#define PR_FMT "files: "

#include <kernel/printk.h>
#include <lib/errno.h>

#include "file_live.h"
#include "page_cache_private.h"

/* Is its claim of an earlier life of its storage node? */
static bool is_old(struct memory *m, const struct cached_file *cf, uint32_t incarn)
{
	bool old;

	spin_lock(&m->page_cache.lock);
	old = cf->live->epoch && cf->live->epoch >> 32 != incarn;
	spin_unlock(&m->page_cache.lock);
	return old;
}

static int claim_again(struct memory *m, struct cached_file *cf, uint32_t incarn)
{
	int err = 0;

	mutex_lock(&cf->live->flush);
	if (is_old(m, cf, incarn))
		err = file_claim_again(m, cf);
	if (err == -ESTALE || err == -ENOENT) {
		file_claim_refused(m, cf, err);
		err = 0;
	}
	mutex_unlock(&cf->live->flush);
	return err;
}

int file_declare(struct memory *m, uint32_t node, uint32_t incarn)
{
	const struct ms_declare_req req = { .incarn = incarn };
	struct cached_file *cf = cached_file_next_claimed(m, NULL, node), *next;
	struct ms_declare_req_wire w;
	uint64_t nr = 0;
	int err = 0;

	while (cf) {
		err = claim_again(m, cf, incarn);
		nr++;
		next = err == -EHOSTDOWN ? NULL : cached_file_next_claimed(m, &cf->file, node);
		cached_file_put(m, cf);
		cf = next;
	}
	if (err == -EHOSTDOWN)
		return err;
	if (nr)
		pr_info("%llu files of storage node %u are claimed again\n", (unsigned long long)nr,
			node);
	ms_declare_req_encode(&req, &w);
	return m->net->call(m, node, MS_DECLARE, &w, sizeof(w), NULL, 0, NULL, 0);
}
