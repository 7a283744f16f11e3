/* SPDX-License-Identifier: MIT */
/*
 * Files that change, after their storage node was started again: its record of claims was lost
 * with its earlier life.
 *
 * Flow:	for each file of it that this node has claimed: the claim again, by its epoch. Then
 *		MS_DECLARE: from then on storage gives claims to others.
 * Context:	a thread of its own; waits for storage.
 * Ordering:	the claim, then the reservations under it, then the epoch of the file's requests.
 *		Each step is kept if the next one fails: a claim that storage has given is not lost.
 * Locking:	a file's flush mutex, so that no flush meets an epoch that changes under it.
 */
#define PR_FMT "files: "

#include <kernel/printk.h>
#include <lib/errno.h>

#include "file_live.h"
#include "page_cache_private.h"

#define TRIES_MAX 4u /* of a claim, while storage is started again and again */

/* Are the two epochs of one life of storage? */
static bool same_life(uint64_t a, uint64_t b)
{
	return a >> 32 == b >> 32;
}

/*
 * A next life of storage has the file as @state says, and nobody has had the claim meanwhile. A
 * newer version is of our own write, whose answer was lost, or of a change of attributes.
 */
static void reclaim_locked(struct page_cache *pc, struct cached_file *cf,
			   const struct ms_file_state *state) __must_hold(&pc->lock)
{
	struct file_live *lf = cf->live;

	assert_spin_held(&pc->lock);
	if (state->version < cf->version) {
		/* It was killed with changes that it had answered: clean pages are newer. */
		lf->errors++;
		cf->gen++;
		/* And blocks may be missing that were there. */
		lf->mapped_first = lf->mapped_end = 0;
		if (!lf->size_dirty && !lf->nr_dirty)
			cf->size = state->size;
		pr_warn_ratelimited("inode %llu of node %u: storage was killed with changes that "
				    "were not synced: they are lost\n",
				    (unsigned long long)cf->file.ino, cf->file.node);
	}
	lf->changes++;
	cf->version = state->version;
	lf->disk_size = state->size;
	lf->max_size = state->max_size;
}

/*
 * The claim by the epoch that this node had, *@epoch. Storage knows the new one from now on:
 * *@epoch is to be shown if it is asked once more.
 */
static int claim_by_epoch(struct memory *m, struct cached_file *cf, uint64_t *epoch)
{
	struct page_cache *pc = &m->page_cache;
	struct ms_file_state state;
	int err = file_ask_claim(m, cf, *epoch, &state);

	if (!err && state.node != m->node)
		err = -ESTALE;
	else if (err == -ESTALE)
		err = -ENOENT;
	else if (err == -ENOLCK)
		err = -ESTALE;
	if (err)
		return err;
	spin_lock(&pc->lock);
	if (!cf->live->epoch)
		err = -ESTALE;
	else if (same_life(*epoch, state.epoch))
		/* Another version: it was another node's, whose bytes are not overwritten. */
		err = cf->version == state.version ? 0 : -ESTALE;
	else
		reclaim_locked(pc, cf, &state);
	if (!err)
		cf->live->had = *epoch = state.epoch;
	spin_unlock(&pc->lock);
	return err;
}

int file_claim_again(struct memory *m, struct cached_file *cf)
{
	struct file_live *lf = cf->live;
	uint64_t epoch;
	bool given;
	int err = -ESTALE;

	spin_lock(&m->page_cache.lock);
	epoch = lf->had;
	/* An earlier call got the claim, and could not tell the reservations. */
	given = lf->epoch && lf->epoch != epoch;
	spin_unlock(&m->page_cache.lock);
	for (uint32_t i = 0; i < TRIES_MAX && err == -ESTALE; i++) {
		err = given ? 0 : claim_by_epoch(m, cf, &epoch);
		if (err)
			return err;
		/* Before anybody asks for more under this epoch. */
		err = file_reserve_again(m, cf, epoch);
		/* Refused: by the next life of storage, which has not heard of the claim. */
		given = false;
	}
	if (err)
		return err == -ESTALE ? -EHOSTDOWN : err;
	spin_lock(&m->page_cache.lock);
	if (!lf->epoch)
		err = -ESTALE;
	else if (lf->had == epoch) /* or it was released, and claimed anew */
		lf->epoch = epoch;
	spin_unlock(&m->page_cache.lock);
	return err;
}

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

	/* With a new claim, a writer may wait for the other nodes' declarations, and for ours. */
	if (!is_old(m, cf, incarn))
		return 0;
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
	int err, first = 0;

	while (cf) {
		err = claim_again(m, cf, incarn);
		if (!first)
			first = err;
		nr++;
		next = err == -EHOSTDOWN ? NULL : cached_file_next_claimed(m, &cf->file, node);
		cached_file_put(m, cf);
		cf = next;
	}
	/* Without the declaration storage waits one lease for the claim that could not be made. */
	if (first)
		return first;
	if (nr)
		pr_info("%llu files of storage node %u are claimed again\n", (unsigned long long)nr,
			node);
	ms_declare_req_encode(&req, &w);
	return m->net->call(m, node, MS_DECLARE, &w, sizeof(w), NULL, 0, NULL, 0);
}
