/* SPDX-License-Identifier: MIT */
/*
 * ExCache: write dirty lines back to their owners.
 *
 * Flow:	an evicted or flushed dirty line is WRITEBACK and on the queue; the write-back
 *		thread collects up to WRITEBACK_MAX lines of one address space and owner
 *		into one message; when the message is released each line is freed, or queued again
 *		if its vRegion has moved.
 * Ordering:	a line's sequence number is drawn when it becomes WRITEBACK and kept over retries,
 *		so that an owner recognises what it has already stored. A page is WRITEBACK in at
 *		most one line at a time, since a new fault on it waits.
 * Limits:	NR_MSGS messages under way; their memory is allocated at start, so that a full
 *		kernel heap cannot stop the write-backs that would free it.
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
#define SHORT_NS (30 * NSEC_PER_SEC)  /* that an owner may be without frames for one object */
#define PAUSE_NS (10 * NSEC_PER_MSEC) /* before a page is sent again that found no frame */

COUNTER_GLOBAL(excache_writeback, "excache.writebacks", "pages written back to their owner");
COUNTER(excache_writeback_msgs, "excache.writeback_msgs", "messages that carried write-backs");
COUNTER(excache_writeback_retry, "excache.writeback_retries",
	"pages sent again because the answer did not come");
COUNTER(excache_writeback_short, "excache.writeback_short",
	"pages sent again because their owner had no frame for them");
COUNTER_GLOBAL(excache_lost, "excache.lost", "dirty pages that no owner would take");

struct wb_msg {
	struct list_head link; /* idle list: queue lock */
	struct object *obj;    /* outlives its lines */
	uint32_t owner;
	uint32_t nr;
	struct line *lines[WRITEBACK_MAX];
	struct writeback_msg msg;
};

static struct {
	struct spinlock lock;                         /* RANK_EXCACHE_WB */
	struct list_head pending __guarded_by(&lock); /* line.wb_link */
	struct list_head idle __guarded_by(&lock);    /* messages */
	uint32_t nr_pending;                          /* atomic; changed under the lock */
	uint32_t nr_idle;                             /* atomic; changed under the lock */
	struct waitqueue wake;
	uint64_t seq; /* atomic */
	bool pause;   /* atomic: an owner was short of frames */
	struct wb_msg msgs[NR_MSGS];
} wb;

uint64_t writeback_next_seq(void)
{
	return __atomic_add_fetch(&wb.seq, 1, __ATOMIC_RELAXED);
}

void writeback_queue(struct line *line)
{
	spin_lock(&wb.lock);
	list_add_tail(&line->wb_link, &wb.pending);
	__atomic_store_n(&wb.nr_pending, wb.nr_pending + 1, __ATOMIC_RELEASE);
	spin_unlock(&wb.lock);
	wake_one(&wb.wake);
}

void writeback_finish(struct line *line, bool stored)
{
	struct cache_set *set = set_of_line(line);
	uint32_t credit_node = 0;
	struct object *put;

	if (stored) {
		counter_inc(&excache_writeback);
		if (object_set_stored(line->obj, line->pgoff) < 0)
			object_fail(line->obj, -ENOMEM, line->pgoff);
	}
	spin_lock(&set->lock);
	if (stored && (line->flags & LINE_PLOCAL)) {
		line->flags &= (uint8_t)~LINE_PLOCAL; /* the credit became a frame */
		credit_node = line->credit_node;
	}
	put = line_detach_locked(set, line);
	spin_unlock(&set->lock);
	credit_used(credit_node);
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
	if (credit_take_now(owner) || (may_ask && credit_take(owner) == 0))
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

static void page_answered(struct line *line, int status)
{
	switch (status) {
	case 0:
		__atomic_store_n(&line->obj->short_since, 0, __ATOMIC_RELAXED);
		writeback_finish(line, true);
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
			__atomic_store_n(&wb.pause, true, __ATOMIC_RELAXED);
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
		writeback_finish(line, false);
		break;
	}
}

static void msg_idle(struct wb_msg *msg)
{
	spin_lock(&wb.lock);
	list_add(&msg->link, &wb.idle);
	__atomic_store_n(&wb.nr_idle, wb.nr_idle + 1, __ATOMIC_RELEASE);
	spin_unlock(&wb.lock);
	wake_one(&wb.wake);
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
		page_answered(msg->lines[i], status ? status : a.status[i]);
	msg_idle(msg);
}

static void msg_release(struct rpc_call *call)
{
	msg_answered(call->arg, call->status, call->reply_len);
}

/* --- the thread ---------------------------------------------------------------------- */

/* The first pending line and those that can travel with it. Its owner may have to be asked for. */
static int msg_collect(struct wb_msg *msg)
{
	struct line *line, *tmp;
	uint32_t owner;
	int err;

	msg->nr = 0;
	spin_lock(&wb.lock);
	line = list_first_entry(&wb.pending, struct line, wb_link);
	spin_unlock(&wb.lock);
	/* Only this thread takes lines off the queue, so the line stays. */
	msg->obj = line->obj;
	err = object_owner(msg->obj, line->pgoff, &msg->owner);

	spin_lock(&wb.lock);
	list_for_each_entry_safe(line, tmp, &wb.pending, wb_link) {
		if (line->obj != msg->obj)
			continue;
		if (msg->nr > 0 && (err || object_owner_cached(msg->obj, line->pgoff, &owner) ||
				    owner != msg->owner))
			continue;
		list_del(&line->wb_link);
		__atomic_store_n(&wb.nr_pending, wb.nr_pending - 1, __ATOMIC_RELAXED);
		msg->lines[msg->nr++] = line;
		if (msg->nr == WRITEBACK_MAX)
			break;
	}
	spin_unlock(&wb.lock);
	return err;
}

static int msg_send(struct wb_msg *msg)
{
	struct rpc_call *call = rpc_call_alloc();
	int err;

	if (!call)
		return -ENOMEM;
	for (uint32_t i = 0; i < msg->nr; i++)
		(void)writeback_credit(msg->lines[i], msg->owner, true);
	owner_writeback_prepare(call, &msg->msg, msg->owner, msg->obj, msg->lines, msg->nr);
	call->release = msg_release;
	call->arg = msg;
	err = rpc_call_submit_wait(call, WAIT_FOREVER);
	rpc_call_put(call);
	if (!err)
		counter_inc(&excache_writeback_msgs);
	return err;
}

static struct wb_msg *msg_take(void)
{
	struct wb_msg *msg;

	spin_lock(&wb.lock);
	msg = list_first_entry(&wb.idle, struct wb_msg, link);
	list_del(&msg->link);
	__atomic_store_n(&wb.nr_idle, wb.nr_idle - 1, __ATOMIC_RELAXED);
	spin_unlock(&wb.lock);
	return msg;
}

static bool work_to_do(void)
{
	return __atomic_load_n(&wb.nr_pending, __ATOMIC_ACQUIRE) > 0 &&
	       __atomic_load_n(&wb.nr_idle, __ATOMIC_ACQUIRE) > 0;
}

static void writeback_thread(void *arg)
{
	for (;;) {
		struct wb_msg *msg;
		int err;

		wait_event(&wb.wake, work_to_do());
		if (__atomic_exchange_n(&wb.pause, false, __ATOMIC_RELAXED))
			thread_sleep_ns(PAUSE_NS);
		msg = msg_take();
		err = msg_collect(msg);
		if (!err)
			err = msg_send(msg);
		if (err == -ENOMEM) {
			/* The heap is full; write-backs under way will free some of it. */
			for (uint32_t i = 0; i < msg->nr; i++)
				writeback_queue(msg->lines[i]);
			msg_idle(msg);
			thread_sleep_ns(1000000);
		} else if (err) {
			msg_answered(msg, err, 0);
		}
	}
}

int writeback_init(void)
{
	struct thread *t;

	spin_lock_init(&wb.lock, "excache.writeback", RANK_EXCACHE_WB);
	list_init(&wb.pending);
	list_init(&wb.idle);
	waitqueue_init(&wb.wake);
	for (size_t i = 0; i < NR_MSGS; i++)
		msg_idle(&wb.msgs[i]);
	t = thread_create("excache-wb", writeback_thread, NULL);
	if (IS_ERR(t))
		return PTR_ERR(t);
	thread_detach(t);
	return 0;
}
