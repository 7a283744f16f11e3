/* SPDX-License-Identifier: MIT */
/*
 * Frame credits in hand and in use, one account per memory node.
 *
 * Flow:	a request that goes to a node anyway asks for CHUNK frames when fewer than LOW are
 *		in hand. A thread that finds none has a report sent that asks for more; so does a
 *		timer, REPORT_NS after something has happened that the node may see differently.
 *		When an address space ends, credits of a node beyond KEEP are let go, for other
 *		processors to use: a report says so.
 * Invariants:	a credit is in hand, or held by one p-local line, or was used up by a write-back
 *		that the owner has acknowledged.
 * Ordering:	a report is a snapshot under credit.lock; from then on grants that were made before
 *		the node had it are void, as its account is set to the snapshot. At most one report
 *		to a node is under way.
 * Context:	reports are sent without waiting; the answer is booked in polling context, also if
 *		the thread that wanted it has been killed.
 * Failure:	a report without an answer leaves the account in doubt: the next one is absolute
 *		again.
 * Locking:	table_lock guards the table, which only grows; hints find most entries without
 *		it; counts are atomic. A silent node holds up only threads that need frames of it.
 */
#include "credit.h"

#include <kernel/counter.h>
#include <kernel/time.h>
#include <kernel/timer.h>
#include <kernel/work.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/radix.h>
#include <mm/slab.h>
#include <net/rpc.h>

#include "object.h"

#define CREDIT_LOW   256
#define CREDIT_CHUNK 1024
#define CREDIT_KEEP  2048
#define REPORT_NS    NSEC_PER_SEC
#define ASK_AGAIN_NS (10 * NSEC_PER_MSEC) /* a node that is making room */

COUNTER(credit_requests, "credit.requests", "reports that asked for frame credits");
COUNTER(credit_waits, "credit.waits", "waits for a memory node that was making room");
COUNTER(credit_refused, "credit.refused", "requests that a memory node could not grant");
COUNTER(credit_reports, "credit.reports", "reports of frame credits to memory nodes");
COUNTER(credit_void, "credit.void", "frames granted before a report and booked by neither side");
GAUGE(credit_gauge, "credit.held", "frame credits in hand", credit_held);

static struct spinlock table_lock = SPINLOCK_INIT("credit.table", RANK_EXCACHE_FREE);
static struct radix_tree table = RADIX_TREE_INIT; /* node id -> struct credit */
static struct timer timer;
static atomic_t timer_armed;
static struct work work;
static struct workqueue *wq; /* const after start */

struct credit *credit_hints[CREDIT_HINTS];

/* NULL: no memory. */
static struct credit *credit_find(uint32_t node)
{
	struct credit *c, *fresh;

	spin_lock(&table_lock);
	c = radix_lookup(&table, node);
	spin_unlock(&table_lock);
	if (c || !node)
		return c;
	fresh = kzalloc(sizeof(*fresh));
	if (!fresh)
		return NULL;
	fresh->node = node;
	spin_lock_init(&fresh->lock, "credit", RANK_EXCACHE_FREE);
	waitqueue_init(&fresh->answered);
	spin_lock(&table_lock);
	c = radix_lookup(&table, node);
	if (!c && radix_insert(&table, node, fresh) == 0) {
		c = fresh;
		fresh = NULL;
	}
	spin_unlock(&table_lock);
	kfree(fresh);
	return c;
}

static inline struct credit *credit_of(uint32_t node)
{
	struct credit *c = credit_hint(node);

	if (likely(c))
		return c;
	c = credit_find(node);
	if (c)
		__atomic_store_n(&credit_hints[node % CREDIT_HINTS], c, __ATOMIC_RELEASE);
	return c;
}

static void doubt(struct credit *c)
{
	/* A full barrier, before the look at the timer: report_timer() clears that one first. */
	if (!atomic_read(&c->doubtful))
		(void)atomic_xchg(&c->doubtful, 1);
	if (!atomic_read(&timer_armed) && !atomic_xchg(&timer_armed, 1))
		timer_set(&timer, time_now_ns() + REPORT_NS);
}

/* The account of the first node from *@node on; NULL: there is none. */
static struct credit *credit_next(uint64_t *node)
{
	struct credit *c;

	spin_lock(&table_lock);
	c = radix_next(&table, node);
	spin_unlock(&table_lock);
	return c;
}

/* --- reports ------------------------------------------------------------------------- */

/* Is it our turn to report? Then report_end() must follow. */
static bool report_begin(struct credit *c)
{
	bool turn;

	spin_lock(&c->lock);
	turn = !c->asking;
	c->asking = true;
	spin_unlock(&c->lock);
	return turn;
}

/* Nothing has been sent. */
static void report_leave(struct credit *c)
{
	spin_lock(&c->lock);
	c->asking = false;
	spin_unlock(&c->lock);
	wake_all(&c->answered);
}

/* @frames: what the node's account is now, if there is no @err. */
static void report_end(struct credit *c, int err, uint32_t frames)
{
	spin_lock(&c->lock);
	c->granted = err ? 0 : (int64_t)frames - c->reported;
	atomic64_add(&c->frames, c->granted);
	atomic64_add(&c->total, c->granted);
	c->answer = err;
	c->asking = false;
	__atomic_store_n(&c->nr_answers, c->nr_answers + 1, __ATOMIC_RELEASE);
	spin_unlock(&c->lock);
	wake_all(&c->answered);
	if (err && err != -EHOSTDOWN) /* a node that is gone has no account */
		doubt(c);
}

static void report_release(struct rpc_call *call)
{
	struct credit *c = call->arg;
	uint32_t frames = 0;
	int err = call->status;

	if (!err)
		err = owner_report_answer(&c->msg, call->reply_len, &frames);
	report_end(c, err, frames);
}

/* It is our turn. 0: the answer will be booked; else it has ended with this error. */
static int report_send(struct credit *c, uint32_t want, bool may_sleep)
{
	struct rpc_call *call = rpc_call_alloc();
	uint32_t reported;
	uint64_t report;
	int64_t hold;
	int err = -ENOMEM;

	counter_inc(&credit_reports);
	atomic_set(&c->doubtful, 0);
	spin_lock(&c->lock);
	report = ++c->report;
	hold = atomic64_read(&c->total);
	reported = (uint32_t)MAX(MIN(hold, (int64_t)UINT32_MAX), 0);
	c->reported = reported;
	spin_unlock(&c->lock);
	if (call) {
		owner_report_prepare(call, &c->msg, c->node, report, reported, want);
		call->release = report_release;
		call->arg = c;
		err = may_sleep ? rpc_call_submit_wait(call, 0) : rpc_call_submit(call);
		rpc_call_put(call);
	}
	if (err)
		report_end(c, err, 0);
	return err;
}

/* Without waiting; after the one that is under way, if there is one. */
static void report_soon(struct credit *c)
{
	if (report_begin(c))
		(void)report_send(c, 0, false);
	else
		doubt(c);
}

void credit_report(void)
{
	struct credit *c;
	uint64_t node = 0;

	for (; (c = credit_next(&node)); node++) {
		if (atomic_read(&c->doubtful))
			report_soon(c);
	}
}

static void report_work(struct work *w)
{
	credit_report();
}

static void report_timer(void *arg)
{
	atomic_set(&timer_armed, 0);
	(void)work_queue(wq, &work);
}

static bool is_quiet(struct credit *c)
{
	bool quiet;

	spin_lock(&c->lock);
	quiet = !c->asking;
	spin_unlock(&c->lock);
	return quiet;
}

void credit_reconcile(void)
{
	struct credit *c;
	uint64_t node = 0;

	for (; (c = credit_next(&node)); node++) {
		wait_event(&c->answered, report_begin(c));
		if (!report_send(c, 0, true))
			wait_event(&c->answered, is_quiet(c));
	}
}

int credit_init(void)
{
	timer_init(&timer, report_timer, NULL);
	work_init(&work, report_work);
	wq = workqueue_create("credit-report", 1);
	return IS_ERR(wq) ? PTR_ERR(wq) : 0;
}

/* --- taking -------------------------------------------------------------------------- */

/* Why the last report has brought no frame, or 0: it has, and others may have taken them. */
static int last_answer(struct credit *c)
{
	int err;

	spin_lock(&c->lock);
	err = c->answer;
	if (!err && c->granted <= 0 && atomic64_read(&c->frames) <= 0)
		err = -ENOMEM;
	spin_unlock(&c->lock);
	return err;
}

/* Until there may be a frame in hand: 0. -ENOMEM: the node grants none. */
static int obtain(struct credit *c)
{
	bool turn = false;
	uint64_t seen;
	int err;

	if (wait_event_killable(&c->answered,
				atomic64_read(&c->frames) > 0 || (turn = report_begin(c))))
		return -EINTR;
	if (!turn)
		return 0;
	if (atomic64_read(&c->frames) > 0) {
		report_leave(c);
		return 0;
	}
	counter_inc(&credit_requests);
	/* Now that it is our turn no answer but ours can come. */
	seen = __atomic_load_n(&c->nr_answers, __ATOMIC_ACQUIRE);
	err = report_send(c, CREDIT_CHUNK, true);
	if (!err && wait_event_killable(&c->answered,
					__atomic_load_n(&c->nr_answers, __ATOMIC_ACQUIRE) != seen))
		return -EINTR;
	if (!err)
		err = last_answer(c);
	if (err)
		counter_inc(&credit_refused);
	return err;
}

int credit_ask(uint32_t node)
{
	struct credit *c = credit_of(node);
	int err = c ? 0 : -ENOMEM;

	while (!err && !credit_try(c))
		err = obtain(c);
	return err;
}

/*
 * @c's node has no frame left just now and is about to make some. Spaces that have ended may hold
 * some; else it is asked again after a while. -EINTR: the thread is to be killed.
 */
static int wait_for_frames(struct credit *c)
{
	int err;

	counter_inc(&credit_waits);
	if (destroy_drain(true))
		return 0;
	err = wait_event_killable_timeout(&c->answered, atomic64_read(&c->frames) > 0,
					  time_now_ns() + ASK_AGAIN_NS);
	return err == -ETIMEDOUT ? 0 : err;
}

int credit_take(uint32_t node)
{
	struct credit *c = credit_of(node);
	int err;

	if (!c)
		return -ENOMEM;
	while (!credit_try(c)) {
		err = obtain(c);
		if (destroy_may_help(err))
			err = obtain(c);
		if (err == -EAGAIN)
			err = wait_for_frames(c);
		if (err)
			return err;
	}
	return 0;
}

bool credit_take_now(uint32_t node)
{
	struct credit *c = credit_of(node);

	return c && credit_try(c);
}

void credit_add(const struct granted *g)
{
	struct credit *c;
	bool good;

	if (g->node == 0 || g->frames == 0)
		return;
	c = credit_of(g->node);
	if (!c)
		return; /* the first report finds it out */
	spin_lock(&c->lock);
	good = g->report == c->report;
	if (good) {
		atomic64_add(&c->frames, g->frames);
		atomic64_add(&c->total, g->frames);
	}
	spin_unlock(&c->lock);
	if (good && waitqueue_active(&c->answered))
		wake_all(&c->answered);
	if (!good) {
		counter_add(&credit_void, g->frames);
		doubt(c);
	}
}

void credit_put_slow(uint32_t node)
{
	struct credit *c = credit_of(node);

	if (c)
		atomic64_inc(&c->frames);
}

void credit_used(uint32_t node)
{
	struct credit *c = credit_of(node);

	if (!c)
		return;
	atomic64_add(&c->total, -1);
	doubt(c);
}

void credit_doubt(uint32_t node)
{
	struct credit *c = credit_of(node);

	if (c)
		doubt(c);
}

void credit_doubt_all(void)
{
	struct credit *c;
	uint64_t node = 0;

	for (; (c = credit_next(&node)); node++)
		doubt(c);
}

void credit_forget(uint32_t node)
{
	struct credit *c;

	spin_lock(&table_lock);
	c = radix_lookup(&table, node);
	spin_unlock(&table_lock);
	if (c)
		atomic64_add(&c->total, -atomic64_xchg(&c->frames, 0));
}

/* --- giving back --------------------------------------------------------------------- */

/* Let go of what @c has beyond CREDIT_KEEP. False: nothing. */
static bool drop_excess(struct credit *c)
{
	int64_t old = atomic64_read(&c->frames);

	while (old > CREDIT_KEEP) {
		const int64_t seen = atomic64_cmpxchg(&c->frames, old, CREDIT_KEEP);

		if (seen == old) {
			atomic64_add(&c->total, CREDIT_KEEP - old);
			return true;
		}
		old = seen;
	}
	return false;
}

bool credit_recall(uint32_t node)
{
	struct credit *c = credit_of(node);
	int64_t old = c ? atomic64_xchg(&c->frames, 0) : 0;

	if (!c)
		return false;
	if (old <= 0) {
		atomic64_add(&c->frames, old);
		return false;
	}
	atomic64_add(&c->total, -old);
	if (!wait_event_killable(&c->answered, report_begin(c)) && !report_send(c, 0, true))
		(void)wait_event_killable(&c->answered, is_quiet(c));
	else
		doubt(c);
	return true;
}

void credit_trim(void)
{
	struct credit *c;
	uint64_t node = 0;

	for (; (c = credit_next(&node)); node++) {
		if (drop_excess(c))
			report_soon(c);
	}
}

uint32_t credit_want(uint32_t node)
{
	struct credit *c = credit_of(node);

	return c && atomic64_read(&c->frames) < CREDIT_LOW ? CREDIT_CHUNK : 0;
}

uint64_t credit_held(void)
{
	struct credit *c;
	uint64_t node, sum = 0;

	spin_lock(&table_lock);
	radix_for_each(c, &table, node)
		sum += (uint64_t)atomic64_read(&c->frames);
	spin_unlock(&table_lock);
	return sum;
}

int64_t credit_total(void)
{
	struct credit *c;
	int64_t sum = 0;
	uint64_t node;

	spin_lock(&table_lock);
	radix_for_each(c, &table, node)
		sum += atomic64_read(&c->total);
	spin_unlock(&table_lock);
	return sum;
}

static uint64_t total_or_none(void)
{
	return (uint64_t)MAX(credit_total(), 0);
}
GAUGE(credit_total_gauge, "credit.total", "frame credits in hand, or held by p-local lines",
      total_or_none);
