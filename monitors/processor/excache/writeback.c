/* SPDX-License-Identifier: MIT */
/*
 * ExCache: write dirty lines back to their owners.
 *
 * Flow:	an evicted or flushed dirty line is WRITEBACK, one that reclaim writes back ahead is
 *		CLEANING; it is on the queue of its owner, or, if that is not known here, of its
 *		home. Each queue has a thread, which collects up to WRITEBACK_MAX lines of one
 *		address space into a message; when the message is released each line is freed, or
 *		VALID again, or queued again if its vRegion has moved. The first queue takes lines
 *		of nodes that have none yet: its thread makes one.
 * Ordering:	a line's sequence number is drawn when it becomes WRITEBACK and kept over retries,
 *		so that an owner recognises what it has already stored. A page is WRITEBACK in at
 *		most one line at a time, since a new fault on it waits.
 * Limits:	NR_MSGS messages to each node under way, so that a silent node holds up only what
 *		goes there. Their memory comes with the queue, so that a full kernel heap cannot
 *		stop the write-backs that would free it; the first queue sends what belongs to a
 *		node for whose queue there was no memory.
 * Failure:	a page whose answer does not come in time is sent again, with the same number, for
 *		as long as its owner is a member; a page that its owner refuses for good is lost:
 *		the address space is marked failed, its tasks are killed, and the log says so.
 */
#define PR_FMT "excache: "

#include "cache_private.h"

#include <kernel/panic.h>
#include <kernel/printk.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <mm/slab.h>

#include "credit.h"
#include "owner.h"

#define NR_MSGS  16
#define NR_CHAIN 8                    /* messages that go out together at most */
#define SHORT_NS (30 * NSEC_PER_SEC)  /* that an owner may be without frames for one object */
#define PAUSE_NS (10 * NSEC_PER_MSEC) /* before a page is sent again that found no frame */

COUNTER_GLOBAL(excache_writeback, "excache.writebacks", "pages written back to their owner");
COUNTER(excache_writeback_msgs, "excache.writeback_msgs", "messages that carried write-backs");
COUNTER(excache_writeback_retry, "excache.writeback_retries",
	"pages sent again because the answer did not come");
COUNTER(excache_writeback_short, "excache.writeback_short",
	"pages sent again because their owner had no frame for them");
COUNTER_GLOBAL(excache_lost, "excache.lost", "dirty pages that no owner would take");

struct wb_queue;

struct wb_msg {
	struct wb_queue *queue; /* const */
	struct list_head link;  /* idle list: queue lock */
	struct object *obj;     /* outlives its lines */
	uint32_t owner;
	uint32_t nr;
	struct line *lines[WRITEBACK_MAX];
	struct writeback_msg msg;
};

struct wb_queue {
	struct list_head link;    /* wb.lock */
	uint32_t node;            /* const; 0: the first queue */
	struct list_head pending; /* wb.lock: line.wb_link */
	struct list_head idle;    /* wb.lock: messages */
	uint32_t nr_pending;      /* atomic; changed under wb.lock */
	uint32_t nr_idle;         /* atomic; changed under wb.lock */
	bool pause;               /* atomic: what is sent again waits a little */
	struct waitqueue wake;
	struct wb_msg msgs[NR_MSGS];
};

static struct {
	struct spinlock lock;                        /* RANK_EXCACHE_WB */
	struct list_head queues __guarded_by(&lock); /* but the first; they live for ever */
	struct wb_queue first;
	uint64_t seq; /* atomic */
} wb;

uint64_t writeback_next_seq(void)
{
	return __atomic_add_fetch(&wb.seq, 1, __ATOMIC_RELAXED);
}

static struct wb_queue *queue_of_locked(uint32_t node) __must_hold(&wb.lock)
{
	struct wb_queue *q;

	assert_spin_held(&wb.lock);
	list_for_each_entry(q, &wb.queues, link) {
		if (q->node == node)
			return q;
	}
	return NULL;
}

/* The node that the next message about @line goes to. */
static uint32_t next_node(const struct line *line)
{
	uint32_t owner;

	return object_owner_cached(line->obj, line->pgoff, &owner) ? line->obj->home : owner;
}

/* The queue that has @line now; its thread is to be woken. */
static struct wb_queue *enqueue(struct line *line)
{
	const uint32_t node = next_node(line);
	struct wb_queue *q;

	spin_lock(&wb.lock);
	q = queue_of_locked(node);
	if (!q)
		q = &wb.first;
	list_add_tail(&line->wb_link, &q->pending);
	__atomic_store_n(&q->nr_pending, q->nr_pending + 1, __ATOMIC_RELEASE);
	spin_unlock(&wb.lock);
	return q;
}

void writeback_queue(struct line *line)
{
	struct wb_queue *q = enqueue(line);

	wake_one(&q->wake);
}

void writeback_queue_all(struct list_head *lines)
{
	struct wb_queue *q, *last = NULL;
	struct line *line, *tmp;

	list_for_each_entry_safe(line, tmp, lines, wb_link) {
		list_del(&line->wb_link);
		q = enqueue(line);
		if (last && q != last)
			wake_one(&last->wake);
		last = q;
	}
	if (last)
		wake_one(&last->wake);
}

/* @line was written back where it is: it may be evicted again. */
static void cleaning_finish(struct line *line, bool stored)
{
	struct cache_set *set = set_of_line(line);
	struct object *obj = line->obj;
	struct quiet_end quiet;

	spin_lock(&set->lock);
	if (!stored)
		line->flags |= LINE_DIRTY;
	line_set_state(line, LINE_VALID);
	spin_lock(&obj->lock);
	quiet = object_writeback_ended_locked(obj);
	spin_unlock(&obj->lock);
	set_changed_locked(set);
	object_quiet(&quiet);
	spin_unlock(&set->lock);
}

/*
 * The owner has @line's page. That becomes true in one step for who looks at the set, so that the
 * page counts once, as p-local or as stored.
 */
static void set_stored(struct line *line, uint64_t place)
{
	struct cache_set *set = set_of_line(line);
	uint32_t credit_node = 0;
	int err;

	spin_lock(&set->lock);
	err = object_set_stored(line->obj, line->pgoff, place);
	if (line->flags & LINE_PLOCAL) {
		line->flags &= (uint8_t)~LINE_PLOCAL; /* the credit became a frame */
		credit_node = line->credit_node;
	}
	spin_unlock(&set->lock);
	credit_used(credit_node);
	if (err < 0)
		object_fail(line->obj, -ENOMEM, line->pgoff);
}

void writeback_finish(struct line *line, bool stored, uint64_t place)
{
	struct cache_set *set = set_of_line(line);
	struct object *put;

	if (stored) {
		counter_inc(&excache_writeback);
		set_stored(line, place);
	}
	if (line->state == LINE_CLEANING) { /* which only we can change */
		cleaning_finish(line, stored);
		return;
	}
	spin_lock(&set->lock);
	put = line_detach_locked(set, line);
	spin_unlock(&set->lock);
	line_free_give(line);
	if (put)
		object_put(put);
}

bool writeback_credit(struct line *line, uint32_t owner, bool may_ask)
{
	const uint32_t old = line->credit_node;

	/* No other thread looks at the credit of a line that is being written back. */
	if (!(line->flags & LINE_PLOCAL) || old == owner)
		return true;
	if (credit_take_now(owner) || (may_ask && credit_ask(owner) == 0))
		line->credit_node = owner;
	else if (may_ask)
		line->credit_node = 0; /* perhaps the owner has a frame that is not reserved */
	else
		return false;
	credit_put(old);
	return true;
}

/* --- answers ------------------------------------------------------------------------- */

/*
 * The owner has no frame, or none at the moment (-EBUSY: those that are reserved are pinned). It
 * makes room, or programs are ended: so the page is sent again for SHORT_NS.
 */
static bool is_short_for_long(struct object *obj)
{
	const uint64_t now = time_now_ns();
	uint64_t since = 0;

	if (__atomic_compare_exchange_n(&obj->short_since, &since, now, false, __ATOMIC_RELAXED,
					__ATOMIC_RELAXED))
		return false;
	return now - since > SHORT_NS;
}

static void page_answered(struct wb_msg *msg, struct line *line, int status, uint64_t place)
{
	struct wb_queue *q = msg->queue;

	if (object_home_may_have_left(line->obj, status, msg->owner)) {
		counter_inc(&excache_writeback_retry);
		__atomic_store_n(&q->pause, true, __ATOMIC_RELAXED);
		writeback_queue(line);
		return;
	}
	switch (status) {
	case 0:
		__atomic_store_n(&line->obj->short_since, 0, __ATOMIC_RELAXED);
		writeback_finish(line, true, place);
		break;
	case -EREMCHG:
		(void)object_redirected(line->obj, line->pgoff, NULL, 0, 0);
		writeback_queue(line);
		break;
	case -ETIMEDOUT:
	case -EAGAIN:
		/*
		 * Perhaps it was stored, perhaps not: the sequence number makes sending it again
		 * safe.
		 */
		counter_inc(&excache_writeback_retry);
		writeback_queue(line);
		break;
	case -EBUSY:
	case -ENOMEM:
		if (!is_short_for_long(line->obj)) {
			counter_inc(&excache_writeback_short);
			__atomic_store_n(&q->pause, true, __ATOMIC_RELAXED);
			writeback_queue(line);
			break;
		}
		fallthrough;
	default:
		/*
		 * Also when the owner does not know the page's region (-ESRCH) or maps nothing
		 * there (-EFAULT): a range that we unmap has no line any more when its owners hear
		 * of it.
		 */
		counter_inc(&excache_lost);
		object_fail(line->obj, status, line->pgoff);
		writeback_finish(line, false, PLACE_NONE);
		break;
	}
}

static void msg_idle(struct wb_msg *msg)
{
	struct wb_queue *q = msg->queue;

	spin_lock(&wb.lock);
	list_add(&msg->link, &q->idle);
	__atomic_store_n(&q->nr_idle, q->nr_idle + 1, __ATOMIC_RELEASE);
	spin_unlock(&wb.lock);
	wake_one(&q->wake);
}

static void msg_answered(struct wb_msg *msg, int status, uint32_t reply_len)
{
	struct writeback_answer a = { 0 };

	if (status == 0)
		status = owner_writeback_answer(&msg->msg, reply_len, msg->nr, &a);
	if (status == 0)
		credit_add(&a.granted);
	else
		credit_doubt(msg->owner);
	for (uint32_t i = 0; i < msg->nr; i++)
		page_answered(msg, msg->lines[i], status ? status : a.status[i],
			      place_learn(msg->owner, &a.places[i]));
	msg_idle(msg);
}

static void msg_release(struct rpc_call *call)
{
	msg_answered(call->arg, call->status, call->reply_len);
}

/* --- the threads --------------------------------------------------------------------- */

static struct line *first_line(struct wb_queue *q)
{
	struct line *line;

	spin_lock(&wb.lock);
	line = list_first_entry(&q->pending, struct line, wb_link);
	spin_unlock(&wb.lock);
	return line; /* stays: only this queue's thread takes lines off it */
}

static void take_off_locked(struct wb_queue *q, struct line *line) __must_hold(&wb.lock)
{
	assert_spin_held(&wb.lock);
	list_del(&line->wb_link);
	__atomic_store_n(&q->nr_pending, q->nr_pending - 1, __ATOMIC_RELAXED);
}

static int queue_make(uint32_t node);

/*
 * Has @line, the first of @q, gone to the queue of another node?  Not if that has none, and none
 * can be made.
 */
static bool passed_on(struct wb_queue *q, struct line *line)
{
	const uint32_t node = next_node(line);

	if (node == q->node || (q == &wb.first && queue_make(node)))
		return false;
	spin_lock(&wb.lock);
	take_off_locked(q, line);
	spin_unlock(&wb.lock);
	writeback_queue(line);
	return true;
}

/* @line, the first of the queue, and those that can travel with it to the owner that @msg names. */
static void msg_collect(struct wb_msg *msg, struct line *line, int err)
{
	struct wb_queue *q = msg->queue;
	struct line *tmp;
	uint32_t owner;

	msg->nr = 0;
	msg->obj = line->obj;
	spin_lock(&wb.lock);
	list_for_each_entry_safe(line, tmp, &q->pending, wb_link) {
		if (line->obj != msg->obj)
			continue;
		if (msg->nr > 0 && (err || object_owner_cached(msg->obj, line->pgoff, &owner) ||
				    owner != msg->owner))
			continue;
		take_off_locked(q, line);
		msg->lines[msg->nr++] = line;
		if (msg->nr == WRITEBACK_MAX)
			break;
	}
	spin_unlock(&wb.lock);
}

static struct wb_msg *msg_take(struct wb_queue *q)
{
	struct wb_msg *msg;

	spin_lock(&wb.lock);
	msg = list_first_entry(&q->idle, struct wb_msg, link);
	list_del(&msg->link);
	__atomic_store_n(&q->nr_idle, q->nr_idle - 1, __ATOMIC_RELAXED);
	spin_unlock(&wb.lock);
	return msg;
}

static bool work_to_do(struct wb_queue *q)
{
	return __atomic_load_n(&q->nr_pending, __ATOMIC_ACQUIRE) > 0 &&
	       __atomic_load_n(&q->nr_idle, __ATOMIC_ACQUIRE) > 0;
}

/*
 * Credits of the owner for the lines of @msg.  False: not all are at hand, and the thread may not
 * wait for more.
 */
static bool msg_credits(struct wb_msg *msg, bool may_ask)
{
	bool all = true;

	for (uint32_t i = 0; i < msg->nr && all; i++)
		all = writeback_credit(msg->lines[i], msg->owner, may_ask) || may_ask;
	return all;
}

/* @msg was not sent. */
static void msg_failed(struct wb_msg *msg, int err)
{
	if (err != -ENOMEM) {
		msg_answered(msg, err, 0);
		return;
	}
	/* The heap is full; write-backs under way will free some of it. */
	for (uint32_t i = 0; i < msg->nr; i++)
		writeback_queue(msg->lines[i]);
	msg_idle(msg);
	thread_sleep_ns(1000000);
}

static struct rpc_call *msg_call(struct wb_msg *msg)
{
	struct rpc_call *call = rpc_call_alloc();

	if (!call)
		return NULL;
	owner_writeback_prepare(call, &msg->msg, msg->owner, msg->obj, msg->lines, msg->nr);
	call->release = msg_release;
	call->arg = msg;
	return call;
}

/* Send messages to one owner, together as far as there is room, then each as soon as there is. */
static void msgs_send(struct wb_msg *const *msgs, uint32_t nr)
{
	struct rpc_call *calls[NR_CHAIN] = { NULL };
	uint32_t nr_calls = 0;
	size_t sent;
	int err;

	for (; nr_calls < nr; nr_calls++) {
		calls[nr_calls] = msg_call(msgs[nr_calls]);
		if (!calls[nr_calls])
			break;
	}
	err = rpc_calls_submit(calls, nr_calls, &sent);
	counter_add(&excache_writeback_msgs, sent);
	for (uint32_t i = (uint32_t)sent; i < nr; i++) {
		err = i < nr_calls ? rpc_call_submit_wait(calls[i], WAIT_FOREVER) : -ENOMEM;
		if (err)
			msg_failed(msgs[i], err);
		else
			counter_inc(&excache_writeback_msgs);
	}
	for (uint32_t i = 0; i < nr_calls; i++)
		rpc_call_put(calls[i]);
}

/* The next message of @q that can go to its node without asking anybody; NULL: there is none. */
static struct wb_msg *msg_next(struct wb_queue *q)
{
	struct wb_msg *msg;
	struct line *line;
	uint32_t owner;

	if (!work_to_do(q))
		return NULL;
	line = first_line(q);
	if (object_owner_cached(line->obj, line->pgoff, &owner) || owner != q->node)
		return NULL;
	msg = msg_take(q);
	msg->owner = owner;
	msg_collect(msg, line, 0);
	return msg;
}

/* @first and what else is ready for the same node. */
static void send_chain(struct wb_queue *q, struct wb_msg *first)
{
	struct wb_msg *msgs[NR_CHAIN] = { first }, *next;
	uint32_t nr = 1;

	(void)msg_credits(first, true);
	while (nr < NR_CHAIN && first->owner == q->node && (next = msg_next(q))) {
		if (!msg_credits(next, false)) {
			/* Those that are ready do not wait for the credits of others. */
			msgs_send(msgs, nr);
			(void)msg_credits(next, true);
			nr = 0;
		}
		msgs[nr++] = next;
	}
	msgs_send(msgs, nr);
}

/* There is a line, and a message for it. */
static void send_some(struct wb_queue *q)
{
	struct line *line = first_line(q);
	struct wb_msg *msg;
	uint32_t owner = 0;
	int err;

	if (passed_on(q, line))
		return;
	err = object_owner(line->obj, line->pgoff, &owner);
	if (!err && passed_on(q, line))
		return; /* the home has told us */
	msg = msg_take(q);
	msg->owner = owner;
	msg_collect(msg, line, err);
	if (err)
		msg_failed(msg, err);
	else
		send_chain(q, msg);
}

static void writeback_thread(void *arg)
{
	struct wb_queue *q = arg;

	for (;;) {
		wait_event(&q->wake, work_to_do(q));
		if (__atomic_exchange_n(&q->pause, false, __ATOMIC_RELAXED))
			thread_sleep_ns(PAUSE_NS);
		send_some(q);
	}
}

/* @q, all zeroes, gets its messages and its thread. */
static int queue_start(struct wb_queue *q, uint32_t node)
{
	struct thread *t;

	q->node = node;
	list_init(&q->pending);
	list_init(&q->idle);
	waitqueue_init(&q->wake);
	for (size_t i = 0; i < NR_MSGS; i++) {
		q->msgs[i].queue = q;
		msg_idle(&q->msgs[i]);
	}
	t = thread_create("excache-wb", writeback_thread, q);
	if (IS_ERR(t))
		return PTR_ERR(t);
	thread_detach(t);
	return 0;
}

/* See that @node has a queue. The first queue's thread only, so there is one for each node. */
static int queue_make(uint32_t node)
{
	struct wb_queue *q;
	int err;

	spin_lock(&wb.lock);
	q = queue_of_locked(node);
	spin_unlock(&wb.lock);
	if (q)
		return 0;
	q = kzalloc(sizeof(*q));
	err = q ? queue_start(q, node) : -ENOMEM;
	if (err) {
		kfree(q);
		return err;
	}
	spin_lock(&wb.lock);
	list_add_tail(&q->link, &wb.queues);
	spin_unlock(&wb.lock);
	return 0;
}

int writeback_init(void)
{
	spin_lock_init(&wb.lock, "excache.writeback", RANK_EXCACHE_WB);
	list_init(&wb.queues);
	return queue_start(&wb.first, 0);
}
