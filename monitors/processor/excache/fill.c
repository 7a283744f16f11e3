/* SPDX-License-Identifier: MIT */
/*
 * ExCache: fill a line from a memory node.
 *
 * Flow:	an anonymous page is asked of its owner: the reply's data lands in the line itself,
 *		and a dirty victim of the same owner is piggy-backed on the request.  If no victim
 *		and no credits are to go along and the page's place is known, the page is read
 *		there instead, without a request (places.h).  File pages are asked of the node that
 *		has the file in its page cache, one on demand or several ahead.  owner.c makes the
 *		messages.
 * Invariants:	a fetch is counted: one reference for the waiting thread, one for the RPC layer
 *		until release().  Only release() decides about the victim and about quarantined
 *		frames, because until then the fabric may still read the one and write the other.
 * Failure:	a read that fails is a request next, for the same line: nothing writes the line any
 *		more then.  A redirect updates the copy of the vRegion array, and the new owner is
 *		asked; a timeout quarantines the frame; the error goes to the faulting thread.
 */
#include "cache_private.h"

#include <kernel/panic.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <mm/slab.h>

#include "credit.h"
#include "owner.h"
#include "places.h"
#include "prefetch.h"
#include "reclaim.h"
#include "steps.h"

COUNTER_GLOBAL(excache_fetch, "excache.fetches", "anonymous pages fetched from their owner");
COUNTER_GLOBAL(excache_file_fetch, "excache.file_fetches", "requests for file pages");
COUNTER_GLOBAL(excache_prefetched, "excache.prefetched", "pages filled ahead");
COUNTER_GLOBAL(excache_piggyback, "excache.piggybacks", "dirty victims that went with a fetch");
COUNTER(excache_quarantined, "excache.quarantined", "frames set aside after a timeout");
COUNTER(excache_reads, "excache.reads_onesided", "pages read at their owner without a request");
COUNTER(excache_reads_fallback, "excache.reads_fallback",
	"pages that were asked for after they could not be read so");
HISTOGRAM(excache_fetch_ns, "excache.fetch_ns", "time of one anonymous fetch");

void line_untag(struct line *line)
{
	struct cache_set *set = set_of_line(line);
	struct object *put;

	spin_lock(&set->lock);
	put = line_detach_locked(set, line);
	line_set_state(line, LINE_QUARANTINE);
	spin_unlock(&set->lock);
	if (put)
		object_put(put);
}

/* --- anonymous pages ----------------------------------------------------------------- */

struct fetch {
	refcount_t refs;
	struct line *line;
	struct line *victim; /* piggy-backed on this request, or NULL */
	bool orphaned;       /* free_lock: the waiter gave up, release() frees the frame */
	bool released;       /* free_lock */
	uint64_t replied_ns; /* excache.steps: when a CPU saw the reply */
	struct lent *lent;   /* of a read: what is read */
	struct fetch_msg msg;
};

static void fetch_put(struct fetch *f)
{
	if (refcount_dec_and_test(&f->refs))
		kfree(f);
}

/* Take from the answer all but the page; the thread that wanted that may be gone. */
static void fetch_take_answer(struct fetch *f, const struct rpc_call *call)
{
	struct fetch_answer a = { 0 };
	int err = call->status;

	if (!err)
		err = owner_fetch_answer(&f->msg, call->reply_len, &a);
	if (err)
		credit_doubt(call->peer);
	else
		credit_add(&a.granted);
	if (f->victim && !err && !a.victim_err)
		writeback_finish(f->victim, true, place_learn(call->peer, &a.victim_place));
	else if (f->victim)
		writeback_queue(f->victim); /* again, by itself: the sequence number stays */
}

/* excache.steps */
static void fetch_replied(struct rpc_call *call)
{
	struct fetch *f = call->arg;

	f->replied_ns = time_now_ns();
}

/* The fabric has let go of the line. */
static void fetch_released(struct fetch *f)
{
	bool free_line;

	spin_lock(&excache.free_lock);
	f->released = true;
	free_line = f->orphaned;
	spin_unlock(&excache.free_lock);
	if (free_line)
		line_free_give(f->line);
	fetch_put(f);
}

static void fetch_release(struct rpc_call *call)
{
	struct fetch *f = call->arg;

	fetch_take_answer(f, call);
	fetch_released(f);
}

static void read_release(struct rpc_call *call)
{
	struct fetch *f = call->arg;

	place_end(f->lent, call->refused ? -EACCES : call->status);
	fetch_released(f);
}

/* The fill failed: free the frame now, or when the fabric has let go of it. */
static void fetch_abandon(struct fetch *f)
{
	bool released;

	line_untag(f->line);
	spin_lock(&excache.free_lock);
	released = f->released;
	f->orphaned = !released;
	spin_unlock(&excache.free_lock);
	if (released)
		line_free_give(f->line);
	else
		counter_inc(&excache_quarantined);
}

/* Piggy-back the victim if the same node owns it; else it goes by itself. */
static void fetch_add_victim(struct fetch *f, struct line *victim, uint32_t owner)
{
	uint32_t victim_owner;

	if (object_owner_cached(victim->obj, victim->pgoff, &victim_owner) == 0 &&
	    victim_owner == owner && writeback_credit(victim, owner, false)) {
		f->victim = victim;
		counter_inc(&excache_piggyback);
	} else {
		writeback_queue(victim);
	}
}

static struct fetch *fetch_create(struct line *line, struct line *victim, uint32_t owner)
{
	struct fetch *f = kzalloc(sizeof(*f));

	if (!f)
		return NULL;
	refcount_set(&f->refs, 1);
	f->line = line;
	if (victim)
		fetch_add_victim(f, victim, owner);
	return f;
}

/* Nothing will release it. */
static void fetch_never_sent(struct fetch *f)
{
	f->released = true;
	if (f->victim)
		writeback_queue(f->victim);
}

/*
 * Send @call and wait: its status. @patient: also for a slot, else -EAGAIN. Once it is *@sent the
 * RPC layer has a reference of @f of its own.
 */
static int fetch_run(struct fetch *f, struct rpc_call *call, struct object *obj, uint64_t pgoff,
		     bool patient, bool *sent)
{
	int err;

	call->done = steps_on ? fetch_replied : NULL;
	call->arg = f;
	refcount_inc(&f->refs);
	steps_mark(STEP_PREPARE);
	err = patient ? rpc_call_submit_killable(call) : rpc_call_submit(call);
	*sent = !err;
	if (err) {
		fetch_put(f);
		return err;
	}
	steps_mark(STEP_POST);
	prefetch_miss(obj, pgoff); /* behind the page itself, while it is on its way */
	reclaim_kick();
	steps_mark(STEP_BESIDE);
	err = rpc_call_wait_killable(call);
	if (unlikely(steps_on))
		steps_mark_at(STEP_REPLY, f->replied_ns);
	steps_mark(STEP_RUN);
	return err;
}

/* Ask for the page and wait. Returns the call's status. */
static int fetch_call(struct fetch *f, struct object *obj, uint64_t pgoff, uint32_t owner,
		      uint32_t *reply_len)
{
	struct rpc_call *call = rpc_call_alloc();
	bool sent;
	int err;

	if (!call) {
		fetch_never_sent(f);
		return -ENOMEM;
	}
	owner_fetch_prepare(call, &f->msg, owner, obj, pgoff, f->line, f->victim);
	call->release = fetch_release;
	err = fetch_run(f, call, obj, pgoff, true, &sent);
	if (sent)
		*reply_len = call->reply_len;
	else
		fetch_never_sent(f);
	rpc_call_put(call);
	return err;
}

/* The owner's answer: 0 and the page's place, -ENODATA (file page), or an error. */
static int fetch_result(const struct fetch *f, uint32_t reply_len, struct owner_place *place)
{
	struct fetch_answer a;
	const int err = owner_fetch_answer(&f->msg, reply_len, &a);

	if (err)
		return err;
	switch (a.result) {
	case FETCH_DATA:
		*place = a.place;
		return 0;
	case FETCH_FILE:
		return -ENODATA;
	default:
		return -EIO;
	}
}

/*
 * We fetch only what was stored. An owner that does not know the region (-ESRCH), maps nothing
 * there (-EFAULT) or has no page (-EIO) has lost it: a range that we unmap has no fetch under way.
 */
static bool is_lost(int err)
{
	return err == -ESRCH || err == -EFAULT || err == -EIO;
}

/*
 * Read the page where it lies, if that is known: 0, and the fill is over. -EAGAIN: ask its owner.
 * Else the fill has failed, and is over as well.
 */
static int fill_read(struct object *obj, uint64_t pgoff, struct line *line)
{
	struct read_place from;
	struct rpc_call *call;
	struct fetch *f;
	bool sent = false, released;
	int err = -EAGAIN;

	if (READ_ONCE(obj->failed) || !place_begin(object_place(obj, pgoff), &from))
		return -EAGAIN;
	/* Credits come with answers. */
	f = credit_want(from.node) ? NULL : fetch_create(line, NULL, from.node);
	call = f ? rpc_call_alloc() : NULL;
	if (call) {
		owner_read_prepare(call, &f->msg, &from, line);
		call->release = read_release;
		f->lent = from.lent;
		err = fetch_run(f, call, obj, pgoff, false, &sent);
		rpc_call_put(call);
	}
	if (!sent) {
		place_end(from.lent, 0);
		err = -EAGAIN;
	} else if (!err) {
		counter_inc(&excache_reads);
		fill_done(line, 0);
	} else {
		/* The connection is gone (-EIO), and with it what could write the line; or else. */
		spin_lock(&excache.free_lock);
		released = f->released;
		spin_unlock(&excache.free_lock);
		if (err != -EINTR && (err == -EIO || released)) {
			counter_inc(&excache_reads_fallback);
			err = -EAGAIN;
		} else {
			fetch_abandon(f);
		}
	}
	if (f)
		fetch_put(f);
	return err;
}

int fill_anon(struct object *obj, uint64_t pgoff, struct line *line, struct line *victim)
{
	const uint64_t start = time_now_ns();
	uint32_t owner, reply_len = 0;
	struct owner_place place;
	struct fetch *f;
	int err;

	counter_inc(&excache_fetch);
	thread_current()->nr_fetches++;
	steps_note_fetch();
	err = victim ? -EAGAIN : fill_read(obj, pgoff, line);
	if (err != -EAGAIN) {
		hist_record(&excache_fetch_ns, time_now_ns() - start);
		return err;
	}
	for (unsigned int tries = 0;; tries++) {
		err = object_owner(obj, pgoff, &owner);
		f = err ? NULL : fetch_create(line, victim, owner);
		if (!f) {
			if (victim)
				writeback_queue(victim);
			fill_done(line, err ? err : -ENOMEM);
			return err ? err : -ENOMEM;
		}
		victim = NULL; /* release() or the write-back queue has it now */
		err = fetch_call(f, obj, pgoff, owner, &reply_len);
		if (err != -EREMCHG)
			break;
		err = object_redirected(obj, pgoff, f->msg.reply, reply_len, tries);
		fetch_put(f);
		if (err) {
			fill_done(line, err);
			return err;
		}
	}
	if (!err)
		err = fetch_result(f, reply_len, &place);
	if (!err) /* before anybody can change the page */
		object_set_place(obj, pgoff, place_learn(owner, &place));
	if (object_home_may_have_left(obj, err, owner) && object_wait_for_home(obj))
		err = -EINTR;
	if (is_lost(err)) {
		object_fail(obj, err, pgoff);
		err = -EIO;
	}
	if (err)
		fetch_abandon(f);
	else
		fill_done(line, 0);
	fetch_put(f);
	hist_record(&excache_fetch_ns, time_now_ns() - start);
	return err;
}

/* --- file pages ---------------------------------------------------------------------- */

struct file_fetch {
	uint32_t nr;      /* lines; demand, under free_lock: 0 once released */
	bool waiter_gone; /* free_lock; demand: release() frees the frame */
	struct line *lines[FILE_FETCH_MAX];
	refcount_t refs;
	struct file_fetch_msg msg;
};

static void file_fetch_put(struct file_fetch *ff)
{
	if (refcount_dec_and_test(&ff->refs))
		kfree(ff);
}

/* How many pages came; 0 after an error. */
static uint32_t file_fetch_valid(struct file_fetch *ff, const struct rpc_call *call)
{
	uint32_t nr_valid;

	if (call->status != 0 || owner_file_fetch_answer(&ff->msg, call->reply_len, &nr_valid) != 0)
		return 0;
	return MIN(nr_valid, ff->nr);
}

/* Pages that were filled ahead: nobody has them pinned. */
static void file_fetch_release(struct rpc_call *call)
{
	struct file_fetch *ff = call->arg;
	const uint32_t valid = file_fetch_valid(ff, call);

	for (uint32_t i = 0; i < ff->nr; i++) {
		if (i < valid) {
			counter_inc(&excache_prefetched);
			fill_done(ff->lines[i], 0);
		} else {
			fill_done(ff->lines[i], -EIO);
		}
	}
	file_fetch_put(ff);
}

static struct rpc_call *file_fetch_call(struct file_fetch *ff, struct object *obj, uint64_t pgoff,
					enum rpc_class cls)
{
	struct rpc_call *call = rpc_call_alloc();

	if (!call)
		return NULL;
	if (owner_file_fetch_prepare(call, &ff->msg, obj, pgoff, ff->lines, ff->nr, cls)) {
		rpc_call_put(call);
		return NULL;
	}
	call->arg = ff;
	counter_inc(&excache_file_fetch);
	return call;
}

/* The demanded page: the waiter ends the fill, unless it has given up. */
static void file_demand_release(struct rpc_call *call)
{
	struct file_fetch *ff = call->arg;
	bool free_line;

	spin_lock(&excache.free_lock);
	free_line = ff->waiter_gone;
	ff->nr = 0;
	spin_unlock(&excache.free_lock);
	if (free_line)
		line_free_give(ff->lines[0]);
	file_fetch_put(ff);
}

static void file_demand_abandon(struct file_fetch *ff)
{
	bool released;

	line_untag(ff->lines[0]);
	spin_lock(&excache.free_lock);
	released = ff->nr == 0;
	ff->waiter_gone = !released;
	spin_unlock(&excache.free_lock);
	if (released)
		line_free_give(ff->lines[0]);
	else
		counter_inc(&excache_quarantined);
}

/* Submit @call, waiting for a slot, and wait for its reply. */
static int file_demand_run(struct file_fetch *ff, struct rpc_call *call)
{
	uint32_t nr_valid;
	int err;

	refcount_inc(&ff->refs);
	err = rpc_call_submit_killable(call);
	if (err) {
		ff->nr = 0; /* never sent: nothing will release it */
		file_fetch_put(ff);
		return err;
	}
	err = rpc_call_wait_killable(call);
	if (!err)
		err = owner_file_fetch_answer(&ff->msg, call->reply_len, &nr_valid);
	if (!err && nr_valid == 0)
		err = -EIO; /* behind the end of the file */
	return err;
}

int fill_file(struct object *obj, uint64_t pgoff, struct line *line)
{
	struct file_fetch *ff = kzalloc(sizeof(*ff));
	struct rpc_call *call = NULL;
	int err = -ENOMEM;

	if (ff) {
		refcount_set(&ff->refs, 1);
		ff->nr = 1;
		ff->lines[0] = line;
		call = file_fetch_call(ff, obj, pgoff, RPC_CLASS_DEMAND);
	}
	if (!call) {
		kfree(ff);
		fill_done(line, err);
		return err;
	}
	call->release = file_demand_release;
	thread_current()->nr_fetches++;
	err = file_demand_run(ff, call);
	if (err == -EHOSTDOWN && !call->answered && obj->live)
		WRITE_ONCE(obj->node, 0);
	if (err == -EHOSTDOWN && !call->answered && excache.ops->file_node(&obj->file))
		err = -EREMCHG; /* that node is gone; there are others */
	rpc_call_put(call);
	if (err)
		file_demand_abandon(ff);
	else
		fill_done(line, 0);
	file_fetch_put(ff);
	return err;
}

/* A FILLING line for (@obj, @pgoff), or NULL when it is there already or no frame is at hand. */
static struct line *prefetch_claim(struct object *obj, uint64_t pgoff)
{
	struct cache_set *set = &excache.sets[set_index(obj, pgoff)];
	const struct tag tag = { .obj = obj, .pgoff = pgoff, .seq = SEQ_ANY };
	struct claim c = { 0 };

	spin_lock(&set->lock);
	if (!set_find_locked(set, obj, pgoff)) {
		claim_locked(set, &c, false);
		/* Nothing refuses this tag. */
		if (c.line)
			(void)line_attach_ahead_locked(set, c.line, &tag);
	}
	spin_unlock(&set->lock);
	claim_finish(&c, 0);
	return c.line;
}

void fill_ahead(struct object *obj, uint64_t pgoff, unsigned int nr)
{
	const uint64_t file_pages = DIV_ROUND_UP(READ_ONCE(obj->size), PAGE_SIZE);
	struct file_fetch *ff;
	struct rpc_call *call;

	if (pgoff >= file_pages)
		return;
	nr = (unsigned int)MIN(MIN((uint64_t)nr, file_pages - pgoff), (uint64_t)FILE_FETCH_MAX);
	ff = kzalloc(sizeof(*ff));
	if (!ff)
		return;
	refcount_set(&ff->refs, 1);
	/* One message asks for consecutive pages: stop at the first that is there. */
	while (ff->nr < nr) {
		struct line *line = prefetch_claim(obj, pgoff + ff->nr);

		if (!line)
			break;
		ff->lines[ff->nr++] = line;
	}
	call = ff->nr ? file_fetch_call(ff, obj, pgoff, RPC_CLASS_PREFETCH) : NULL;
	if (call) {
		call->release = file_fetch_release;
		if (rpc_call_submit(call) == 0) {
			rpc_call_put(call);
			return; /* release() has the reference */
		}
		rpc_call_put(call);
	}
	for (uint32_t i = 0; i < ff->nr; i++)
		fill_done(ff->lines[i], -EAGAIN);
	file_fetch_put(ff);
}
