/* SPDX-License-Identifier: MIT */
/*
 * Storage monitor: claims of files.
 *
 * Context:	threads; claim_take() may wait for operations on the disk.
 */
#include "claim.h"

#include <kernel/panic.h>
#include <lib/errno.h>
#include <mm/slab.h>

struct claim {
	struct rb_node node;
	struct proto_file file; /* const */
	struct storage_peer who;
	uint64_t epoch; /* 0: released, and there only for the operations that hold it */
	uint64_t nr_ops;
	bool promised; /* the file system may have a promise for it */
};

void claims_init(struct claims *c, uint32_t incarn, bool (*has_left)(uint32_t, uint32_t))
{
	spin_lock_init(&c->lock, "claims", RANK_SPIN_MONITOR);
	c->tree = (struct rb_root){ 0 };
	c->nr = 0;
	/* An epoch of an earlier life is no epoch of this one. */
	c->epoch = (uint64_t)incarn << 32;
	waitqueue_init(&c->quiet);
	c->has_left = has_left;
	shares_init(&c->shares);
}

static int file_cmp(const struct proto_file *a, const struct proto_file *b)
{
	if (a->ino != b->ino)
		return a->ino < b->ino ? -1 : 1;
	if (a->gen != b->gen)
		return a->gen < b->gen ? -1 : 1;
	return 0;
}

static struct claim *find_locked(struct claims *c, const struct proto_file *file)
	__must_hold(&c->lock)
{
	struct rb_node *n = c->tree.node;

	assert_spin_held(&c->lock);
	while (n) {
		struct claim *claim = rb_entry(n, struct claim, node);
		const int cmp = file_cmp(file, &claim->file);

		if (!cmp)
			return claim;
		n = cmp < 0 ? n->left : n->right;
	}
	return NULL;
}

static void insert_locked(struct claims *c, struct claim *fresh) __must_hold(&c->lock)
{
	struct rb_node **link = &c->tree.node, *parent = NULL;

	assert_spin_held(&c->lock);
	while (*link) {
		parent = *link;
		link = file_cmp(&fresh->file, &rb_entry(parent, struct claim, node)->file) < 0
			       ? &parent->left
			       : &parent->right;
	}
	rb_link_node(&fresh->node, parent, link);
	rb_insert_color(&fresh->node, &c->tree);
	WRITE_ONCE(c->nr, c->nr + 1);
}

static void remove_locked(struct claims *c, struct claim *claim) __must_hold(&c->lock)
{
	assert_spin_held(&c->lock);
	ASSERT(!claim->nr_ops);
	rb_erase(&claim->node, &c->tree);
	WRITE_ONCE(c->nr, c->nr - 1);
	share_give(&c->shares, &claim->who);
	kfree(claim);
}

void claims_destroy(struct claims *c)
{
	spin_lock(&c->lock);
	while (c->tree.node)
		remove_locked(c, rb_entry(c->tree.node, struct claim, node));
	spin_unlock(&c->lock);
}

static bool is_theirs(const struct claim *claim, const struct storage_peer *who)
{
	return claim->who.node == who->node && claim->who.incarn == who->incarn;
}

static bool is_over(struct claims *c, const struct claim *claim)
{
	return !claim->epoch || c->has_left(claim->who.node, claim->who.incarn);
}

enum take_result {
	TAKE_DONE,
	TAKE_OTHERS,
	TAKE_WAIT,   /* for operations of the claim that is over */
	TAKE_NO_MEM, /* there is no record, and @fresh is NULL; or @who has too many */
};

/* The record, NULL: a new one, counts for @who from now on. */
static bool count_for_locked(struct claims *c, const struct claim *claim,
			     const struct storage_peer *who, struct share **share)
	__must_hold(&c->lock)
{
	assert_spin_held(&c->lock);
	if (claim && is_theirs(claim, who))
		return true;
	if (!*share || !share_take(&c->shares, who, share))
		return false;
	if (claim)
		share_give(&c->shares, &claim->who);
	return true;
}

/* *@fresh is used up, and NULL then, if a record is to be made; so is *@share. */
static enum take_result take(struct claims *c, const struct proto_file *file,
			     const struct storage_peer *who, struct claim **fresh,
			     struct share **share, uint64_t *epoch, uint32_t *node)
{
	enum take_result res = TAKE_DONE;
	struct claim *claim;

	spin_lock(&c->lock);
	claim = find_locked(c, file);
	if (claim && !is_theirs(claim, who) && !is_over(c, claim)) {
		*node = claim->who.node;
		res = TAKE_OTHERS;
	} else if (claim && claim->nr_ops) {
		res = TAKE_WAIT;
	} else if ((!claim && !*fresh) || !count_for_locked(c, claim, who, share)) {
		res = TAKE_NO_MEM;
	} else {
		if (!claim) {
			claim = *fresh;
			*fresh = NULL;
			*claim = (struct claim){ .file = *file, .who = *who };
			insert_locked(c, claim);
		}
		claim->who = *who;
		claim->epoch = *epoch = ++c->epoch;
		*node = who->node;
	}
	spin_unlock(&c->lock);
	return res;
}

int claim_take(struct claims *c, const struct proto_file *file, const struct storage_peer *who,
	       uint64_t *epoch, uint32_t *node)
{
	struct claim *fresh = kmalloc(sizeof(*fresh));
	struct share *share = share_alloc();
	enum take_result res;
	int err;

	err = wait_event_killable(
		&c->quiet, (res = take(c, file, who, &fresh, &share, epoch, node)) != TAKE_WAIT);
	kfree(fresh);
	kfree(share);
	if (err)
		return err;
	return res == TAKE_NO_MEM ? -ENOMEM : 0;
}

int claim_begin(struct claims *c, const struct proto_file *file, const struct storage_peer *who,
		uint64_t epoch, struct claim **out)
{
	struct claim *claim;
	bool ok;

	spin_lock(&c->lock);
	claim = find_locked(c, file);
	ok = claim && is_theirs(claim, who) && claim->epoch == epoch &&
	     !c->has_left(who->node, who->incarn);
	if (ok)
		claim->nr_ops++;
	spin_unlock(&c->lock);
	*out = ok ? claim : NULL;
	return ok ? 0 : -ESTALE;
}

bool claim_end(struct claims *c, struct claim *claim)
{
	bool left;

	spin_lock(&c->lock);
	ASSERT(claim->nr_ops > 0);
	claim->nr_ops--;
	left = !claim->nr_ops && is_over(c, claim);
	if (left && !claim->promised) {
		remove_locked(c, claim);
		left = false;
	}
	spin_unlock(&c->lock);
	wake_all(&c->quiet);
	return left;
}

/* A claim that is over and that nobody holds goes, or is held: its promise is to be ended first. */
static struct claim *leave_locked(struct claims *c, struct claim *claim) __must_hold(&c->lock)
{
	assert_spin_held(&c->lock);
	if (claim->promised) {
		claim->promised = false;
		claim->nr_ops++;
		return claim;
	}
	remove_locked(c, claim);
	return NULL;
}

struct claim *claim_release(struct claims *c, const struct proto_file *file,
			    const struct storage_peer *who, uint64_t epoch)
{
	struct claim *claim, *held = NULL;

	spin_lock(&c->lock);
	claim = find_locked(c, file);
	if (claim && is_theirs(claim, who) && claim->epoch == epoch) {
		/* No operation begins from now on; the last one that is under way goes on here. */
		claim->epoch = 0;
		if (!claim->nr_ops)
			held = leave_locked(c, claim);
	}
	spin_unlock(&c->lock);
	return held;
}

bool claim_is_others(struct claims *c, const struct proto_file *file, uint32_t node)
{
	const struct claim *claim;
	bool others;

	/* A disk that nobody changes costs its readers a load. */
	if (likely(!READ_ONCE(c->nr)))
		return false;
	spin_lock(&c->lock);
	claim = find_locked(c, file);
	others = claim && claim->who.node != node && !is_over(c, claim);
	spin_unlock(&c->lock);
	return others;
}

void claims_drop_left(struct claims *c)
{
	struct rb_node *n, *next;

	spin_lock(&c->lock);
	for (n = rb_first(&c->tree); n; n = next) {
		struct claim *claim = rb_entry(n, struct claim, node);

		next = rb_next(n);
		if (is_over(c, claim) && !claim->nr_ops && !claim->promised)
			remove_locked(c, claim);
	}
	spin_unlock(&c->lock);
}

void claim_set_promised(struct claims *c, struct claim *claim)
{
	spin_lock(&c->lock);
	ASSERT(claim->nr_ops);
	claim->promised = true;
	spin_unlock(&c->lock);
}

bool claim_is_promised(struct claims *c, const struct claim *claim)
{
	bool promised;

	spin_lock(&c->lock);
	ASSERT(claim->nr_ops);
	promised = claim->promised;
	spin_unlock(&c->lock);
	return promised;
}

bool claim_begin_left(struct claims *c, struct proto_file *file, struct claim **out)
{
	*out = NULL;
	spin_lock(&c->lock);
	for (struct rb_node *n = rb_first(&c->tree); n && !*out; n = rb_next(n)) {
		struct claim *claim = rb_entry(n, struct claim, node);

		/* An operation that is under way may still make one: its end tells of it. */
		if (!claim->promised || !is_over(c, claim) || claim->nr_ops)
			continue;
		claim->nr_ops++;
		claim->promised = false;
		*file = claim->file;
		*out = claim;
	}
	spin_unlock(&c->lock);
	return *out;
}
