/* SPDX-License-Identifier: MIT */
/*
 * Removals of names, renames and changes of attributes that a storage node is told later.
 *
 * Locking:	behind.lock (RANK_SPIN_FS) guards the queues and their counts. The buffers of a
 *		queue are its thread's. behind_node.order (RANK_MONITOR) is held while a change is
 *		open: changes are in the queue in the order in which they become true here.
 */
#define PR_FMT "files: "

#include "behind.h"

#include <cluster/patience.h>
#include <kernel/bootparam.h>
#include <kernel/counter.h>
#include <kernel/mutex.h>
#include <kernel/panic.h>
#include <kernel/printk.h>
#include <kernel/spinlock.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <kernel/wait.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/hash.h>
#include <lib/list.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <net/rpc.h>
#include <proto/ps.h>

#include "change.h"
#include "change_private.h"
#include "convert.h"
#include "kept.h"
#include "storage_private.h"

static bool is_on = true;
BOOT_PARAM("vfs.behind", bool, is_on,
	   "tell storage nodes later of names that are removed or changed and attributes that are "
	   "set, while nobody else sees them (default on)");

COUNTER(behind_changes, "behind.changes",
	"removals, renames and changes of attributes that a storage node was told later");
COUNTER(behind_batches, "behind.batches", "requests that told them");
COUNTER(behind_failed, "behind.failed", "... that the node refused, or that it could not be told");

#define BEHIND_MAX 256u                /* queued for a node */
#define MANY       32u                 /* are sent at once */
#define OLD_NS     (2 * NSEC_PER_MSEC) /* and so are some that are so old */
#define RETRY_NS   (20 * NSEC_PER_MSEC)
#define MARKS      1024u        /* of files whose attributes wait in the queue */
#define ROOMS      PS_ROOMS_MAX /* that a node keeps for names to come */

#define PAUSE_NS NSEC_PER_SEC /* in which rooms that were given back are not asked for again */

static uint64_t rooms_ns = NSEC_PER_SEC; /* for so long after the last one; const but for tests */

static struct {
	struct spinlock lock;
	struct list_head nodes __guarded_by(&lock);
} behind = { .lock = SPINLOCK_INIT("behind", RANK_SPIN_FS), .nodes = LIST_HEAD_INIT(behind.nodes) };

struct behind_node {
	struct list_head link;                             /* behind.lock; const once it is there */
	uint32_t node;                                     /* const */
	struct mutex order;                                /* of the thread that has one open */
	struct list_head queue __guarded_by(&behind.lock); /* struct numbered.queue */
	uint64_t queued __guarded_by(&behind.lock);        /* so far */
	uint64_t taken __guarded_by(&behind.lock);         /* of these the thread has */
	uint64_t answered __guarded_by(&behind.lock);      /* of these are done with */
	uint64_t wanted __guarded_by(&behind.lock);        /* a thread waits for so many answers */
	uint64_t since_ns __guarded_by(&behind.lock);      /* the first in the queue came */
	bool failed __guarded_by(&behind.lock);            /* since behind_error() told it */
	bool retries __guarded_by(&behind.lock);           /* the first that was taken */
	uint32_t names __guarded_by(&behind.lock);         /* others that are not answered */
	uint16_t marks[MARKS] __guarded_by(&behind.lock);  /* the same of changes of attributes */
	/*
	 * The node keeps so many rooms, of which the changes that are not answered have some. It
	 * is to be asked for more; or to take them back, and has been so often.
	 */
	uint32_t rooms __guarded_by(&behind.lock);
	uint32_t rooms_used __guarded_by(&behind.lock);
	uint64_t rooms_gen __guarded_by(&behind.lock); /* times that they were forgotten */
	uint64_t used_ns __guarded_by(&behind.lock);   /* when one was last wanted */
	uint64_t asks_ns __guarded_by(&behind.lock);   /* not before, as somebody needs them */
	bool asks __guarded_by(&behind.lock);
	uint64_t givers __guarded_by(&behind.lock), given __guarded_by(&behind.lock);
	struct waitqueue due, done;
	/* The thread's: */
	struct list_head sending; /* struct numbered.queue */
	struct ps_batch_req req;
	struct ps_batch_rep rep;
	uint8_t body[RPC_BODY_MAX_CTL];
	uint8_t reply[sizeof(struct ps_batch_rep_wire) +
		      PS_BATCH_MAX * sizeof(struct ps_batch_status_wire)];
};

static struct behind_node *find(uint32_t node)
{
	struct behind_node *b, *found = NULL;

	spin_lock(&behind.lock);
	list_for_each_entry(b, &behind.nodes, link) {
		if (b->node == node)
			found = b;
	}
	spin_unlock(&behind.lock);
	return found;
}

/* A change whose outcome here is still open is known to the next flush, but is not sent. */
static bool is_open(struct numbered *n)
{
	return n->state == NUMBERED_OPEN;
}

/* --- the thread that sends ---------------------------------------------------------------- */

static bool is_any(struct behind_node *b)
{
	struct numbered *n;
	bool any;

	spin_lock(&behind.lock);
	n = list_first_entry_or_null(&b->queue, struct numbered, queue);
	any = n && !is_open(n);
	spin_unlock(&behind.lock);
	return any;
}

static bool is_due(struct behind_node *b)
{
	bool due;

	spin_lock(&behind.lock);
	due = b->queued - b->taken >= MANY || b->wanted > b->answered;
	spin_unlock(&behind.lock);
	return due;
}

static uint64_t due_ns(struct behind_node *b)
{
	uint64_t since;

	spin_lock(&behind.lock);
	since = b->since_ns;
	spin_unlock(&behind.lock);
	return since + OLD_NS;
}

/* @n, which is in no list any more, is done with. */
static void finished(struct behind_node *b, struct numbered *n)
{
	spin_lock(&behind.lock);
	if (n->room) {
		ASSERT(b->rooms_used);
		b->rooms_used--;
	}
	if (n->opcode == PS_SETATTR) {
		ASSERT(b->marks[n->mark]);
		b->marks[n->mark]--;
	} else {
		ASSERT(b->names);
		b->names--;
	}
	spin_unlock(&behind.lock);
	change_answered(n);
}

/* Move as many to b->sending as one message holds: their numbers ascend there. None is open. */
static void take(struct behind_node *b)
{
	struct numbered *n, *next;
	size_t len = sizeof(struct ps_batch_req_wire);
	uint64_t seq = 0;
	uint32_t nr = 0;

	spin_lock(&behind.lock);
	list_for_each_entry_safe(n, next, &b->queue, queue) {
		len += ps_batch_item_size(n->len);
		if (is_open(n) || nr == PS_BATCH_MAX || len > sizeof(b->body) || n->seq <= seq)
			break;
		seq = n->seq;
		list_move_tail(&n->queue, &b->sending);
		nr++;
	}
	b->taken += nr;
	spin_unlock(&behind.lock);
	ASSERT(nr);
}

static void note_failures(struct behind_node *b, uint32_t nr, int err)
{
	counter_add(&behind_failed, nr);
	pr_warn_ratelimited("node %u has not done %u changes that programs have made: error %d\n",
			    b->node, nr, err);
	/* Before the answer counts: no look-up finds here what is not so. */
	kept_drop(b->node);
	spin_lock(&behind.lock);
	b->failed = true;
	spin_unlock(&behind.lock);
}

/*
 * Nothing was done for want of memory or of records of changes, or as the node ends in order: that
 * is waited for like a node that is away.
 */
static bool is_worth_a_try(struct numbered *n, int err)
{
	const uint64_t now = time_now_ns();

	if (err != -ENOMEM && err != -ENOBUFS && err != -ESHUTDOWN)
		return false;
	if (!n->tried_ns)
		n->tried_ns = now;
	return now - n->tried_ns < patience_ns();
}

/* Has the node kept some rooms for long that nobody has wanted? */
static bool is_idle_locked(const struct behind_node *b) __must_hold(&behind.lock)
{
	assert_spin_held(&behind.lock);
	return b->rooms > b->rooms_used && time_now_ns() - b->used_ns >= rooms_ns;
}

/*
 * How many rooms the node is to keep: those of changes that are not answered at least, whatever is
 * known of the others. These come back by a request without changes, and are used by nobody from
 * here on.
 */
static uint32_t rooms_begin(struct behind_node *b, uint64_t *gen, uint64_t *givers)
{
	const bool empty = list_empty(&b->sending);
	const uint64_t now = time_now_ns();
	uint32_t rooms;

	spin_lock(&behind.lock);
	if (b->givers != b->given)
		b->asks_ns = now + PAUSE_NS;
	if (empty && (b->givers != b->given || is_idle_locked(b)))
		b->rooms = MIN(b->rooms, b->rooms_used);
	b->asks = false;
	rooms = MAX(b->rooms, b->rooms_used);
	if (b->used_ns && now - b->used_ns < rooms_ns && now >= b->asks_ns)
		rooms = ROOMS;
	*gen = b->rooms_gen;
	*givers = b->givers;
	spin_unlock(&behind.lock);
	return rooms;
}

/*
 * The node keeps @rooms now, those of changes that are not answered with them: before changes that
 * are answered give theirs back. Rooms of before it took the names back are none.
 */
static void rooms_end(struct behind_node *b, uint32_t rooms, uint64_t gen, uint64_t givers)
{
	spin_lock(&behind.lock);
	b->rooms = b->rooms_gen == gen ? rooms : 0;
	if (list_empty(&b->sending))
		b->given = givers;
	spin_unlock(&behind.lock);
}

static int send(struct behind_node *b)
{
	uint64_t gen, givers;
	struct numbered *n;
	ssize_t len;
	int ret;

	b->req.rooms = rooms_begin(b, &gen, &givers);
	b->req.nr_changes = 0;
	list_for_each_entry(n, &b->sending, queue)
		b->req.changes[b->req.nr_changes++] =
			(struct ps_batch_item){ n->opcode, n->len, n->body };
	len = ps_batch_req_encode(&b->req, b->body, sizeof(b->body));
	if (len < 0)
		return (int)len;
	counter_inc(&behind_batches);
	ret = storage_call_behind(b->node, b->body, (size_t)len, b->reply, sizeof(b->reply));
	if (ret >= 0)
		ret = ps_batch_rep_decode(b->reply, (size_t)ret, &b->rep);
	if (!ret && b->rep.nr_changes != b->req.nr_changes)
		ret = -EPROTO;
	rooms_end(b, ret ? 0 : b->rep.rooms, gen, givers);
	return ret;
}

/* Those that are not to be done after all go. Returns how many. */
static uint32_t drop_cancelled(struct behind_node *b)
{
	struct numbered *n, *next;
	uint32_t nr = 0;

	list_for_each_entry_safe(n, next, &b->sending, queue) {
		if (n->state != NUMBERED_CANCELLED)
			continue;
		list_del(&n->queue);
		finished(b, n);
		nr++;
	}
	return nr;
}

/*
 * The node could not be told what is in b->sending, with @err: nor is it told what waits behind
 * that, which would wait as long again. Returns how many are done with.
 */
static uint32_t give_up(struct behind_node *b, int err)
{
	struct numbered *n, *next;
	uint32_t nr = 0, nr_cancelled;

	spin_lock(&behind.lock);
	list_for_each_entry_safe(n, next, &b->queue, queue) {
		if (is_open(n))
			break;
		list_move_tail(&n->queue, &b->sending);
		b->taken++;
	}
	spin_unlock(&behind.lock);
	nr_cancelled = drop_cancelled(b);
	list_for_each_entry(n, &b->sending, queue)
		nr++;
	note_failures(b, nr, err);
	list_for_each_entry_safe(n, next, &b->sending, queue) {
		list_del(&n->queue);
		finished(b, n);
	}
	return nr + nr_cancelled;
}

/*
 * A change that was tried before may have been done. So may one of attributes whose file has gone
 * behind it, also in the same request, in an earlier life of the node: nothing is lost with these.
 */
static bool is_done(const struct numbered *n, int err)
{
	return n->opcode == PS_SETATTR ? err == -ESTALE : n->tried_ns && err == -ENOENT;
}

/* Send b->sending once; what remains there is to be sent again. Returns how many are done with. */
static uint32_t send_once(struct behind_node *b)
{
	struct numbered *n, *next;
	const int err = send(b);
	uint32_t i = 0, nr = 0;

	if (err && !is_worth_a_try(list_first_entry(&b->sending, struct numbered, queue), err))
		return give_up(b, err);
	if (err)
		return 0;
	list_for_each_entry_safe(n, next, &b->sending, queue) {
		int e = b->rep.changes[i++].err;

		if (is_done(n, e))
			e = 0;
		/* Then none behind it was done either. */
		if (is_worth_a_try(n, e)) {
			change_renumber(n);
			continue;
		}
		if (e)
			note_failures(b, 1, e);
		list_del(&n->queue);
		finished(b, n);
		nr++;
	}
	return nr;
}

/* Is the node to be told of rooms, though of no change? */
static bool is_asked(struct behind_node *b)
{
	bool asked;

	spin_lock(&behind.lock);
	asked = b->asks || b->givers != b->given;
	spin_unlock(&behind.lock);
	return asked;
}

/* The same also when they have been kept for long enough. */
static bool is_asked_now(struct behind_node *b)
{
	bool idle;

	spin_lock(&behind.lock);
	idle = is_idle_locked(b);
	spin_unlock(&behind.lock);
	return idle || is_asked(b);
}

static uint64_t idle_ns(struct behind_node *b)
{
	uint64_t ns = UINT64_MAX;

	spin_lock(&behind.lock);
	if (b->rooms > b->rooms_used)
		ns = b->used_ns + rooms_ns;
	spin_unlock(&behind.lock);
	return ns;
}

static void send_some(struct behind_node *b)
{
	uint32_t nr;

	take(b);
	nr = drop_cancelled(b);
	while (!list_empty(&b->sending)) {
		nr += send_once(b);
		if (!list_empty(&b->sending)) {
			spin_lock(&behind.lock);
			b->retries = true;
			spin_unlock(&behind.lock);
			thread_sleep_ns(RETRY_NS);
		}
	}
	/* All at once: a flush has waited for those that were tried again, too. */
	spin_lock(&behind.lock);
	b->retries = false;
	b->answered += nr;
	ASSERT(b->answered == b->taken);
	b->since_ns = time_now_ns();
	spin_unlock(&behind.lock);
	wake_all(&b->done);
}

static void behind_thread(void *arg)
{
	struct behind_node *b = arg;

	for (;;) {
		(void)wait_event_timeout(&b->due, is_any(b) || is_asked(b), idle_ns(b));
		if (is_any(b) && !is_asked(b))
			(void)wait_event_timeout(&b->due, is_due(b) || is_asked(b), due_ns(b));
		if (is_any(b))
			send_some(b);
		if (is_asked_now(b)) {
			(void)!send(b); /* without it there are no rooms */
			wake_all(&b->done);
		}
	}
}

/* --- queues ------------------------------------------------------------------------------- */

static struct behind_node *node_make(uint32_t node)
{
	struct behind_node *b = kzalloc(sizeof(*b));
	struct thread *t;

	if (!b)
		return NULL;
	b->node = node;
	mutex_init(&b->order, "behind.order", RANK_MONITOR);
	list_init(&b->queue);
	list_init(&b->sending);
	waitqueue_init(&b->due);
	waitqueue_init(&b->done);
	t = thread_create("names-behind", behind_thread, b);
	if (IS_ERR(t)) {
		kfree(b);
		return NULL;
	}
	thread_detach(t);
	return b;
}

/* The queue of @node, made if need be. NULL: no memory, or another thread just makes it. */
static struct behind_node *node_get(uint32_t node)
{
	static struct mutex making = MUTEX_INIT(making, "behind.making", RANK_MONITOR);
	struct behind_node *b = find(node);

	if (b)
		return b;
	mutex_lock(&making);
	b = find(node);
	if (!b)
		b = node_make(node);
	if (b && !find(node)) {
		spin_lock(&behind.lock);
		list_add_tail(&b->link, &behind.nodes);
		spin_unlock(&behind.lock);
	}
	mutex_unlock(&making);
	return b;
}

static bool has_room(struct behind_node *b)
{
	bool room;

	spin_lock(&behind.lock);
	room = b->queued - b->answered < BEHIND_MAX;
	spin_unlock(&behind.lock);
	return room;
}

/* From here on a flush waits for @n, and other changes wait until leave(). */
static void enter(struct behind_node *b, struct numbered *n)
	__no_lock_analysis("the order is given up by leave()")
{
	mutex_lock(&b->order);
	n->state = NUMBERED_OPEN;
	spin_lock(&behind.lock);
	if (list_empty(&b->queue))
		b->since_ns = time_now_ns();
	list_add_tail(&n->queue, &b->queue);
	b->queued++;
	if (n->opcode == PS_SETATTR)
		b->marks[n->mark]++;
	else
		b->names++;
	spin_unlock(&behind.lock);
}

/* One of the node's rooms; none: it is asked for some. */
static bool take_room(struct behind_node *b)
{
	bool taken, asks;

	spin_lock(&behind.lock);
	b->used_ns = time_now_ns();
	taken = b->givers == b->given && b->rooms > b->rooms_used;
	b->rooms_used += taken;
	asks = !taken && b->used_ns >= b->asks_ns;
	b->asks |= asks;
	spin_unlock(&behind.lock);
	if (asks)
		wake_one(&b->due);
	return taken;
}

/* @n is not open any more. */
static void leave(struct numbered *n, enum numbered_state state)
	__no_lock_analysis("the order was taken by enter()")
{
	struct behind_node *b = find(n->node);
	bool wake;

	ASSERT(b);
	spin_lock(&behind.lock);
	ASSERT(n->state == NUMBERED_OPEN);
	wake = n == list_first_entry(&b->queue, struct numbered, queue) ||
	       b->queued - b->taken >= MANY;
	n->state = state; /* the thread may free it from here on */
	spin_unlock(&behind.lock);
	mutex_unlock(&b->order);
	if (wake)
		wake_one(&b->due);
}

static void drop_room(struct behind_node *b)
{
	spin_lock(&behind.lock);
	ASSERT(b->rooms_used);
	b->rooms_used--;
	spin_unlock(&behind.lock);
}

/* A number for @change by @cred, and @room bytes for its request, once there is room for it. */
static struct numbered *number(struct behind_node *b, const struct fs_cred *cred,
			       struct ps_change *change, size_t room)
{
	if (!b || wait_event_killable(&b->done, has_room(b)))
		return NULL;
	return change_number(cred, change, b->node, room);
}

static uint16_t mark_of(const struct file_id *file)
{
	return (uint16_t)(hash64_pair(file->ino, file->gen) % MARKS);
}

/* @n is a request of @len bytes, or of none for an error, that changes @file. */
static struct numbered *enter_request(struct behind_node *b, struct numbered *n, uint16_t opcode,
				      ssize_t len, const struct file_id *file, bool room)
{
	if (len < 0) {
		if (room)
			drop_room(b);
		change_answered(n);
		return NULL;
	}
	n->opcode = opcode;
	n->len = (uint32_t)len;
	n->tried_ns = 0;
	n->mark = mark_of(file);
	n->room = room;
	enter(b, n);
	return n;
}

struct numbered *behind_unlink(const struct fs_cred *cred, const struct storage_name *at,
			       const struct file_id *victim)
{
	struct ps_remove_req req = { .dir = file_to_proto(at->dir),
				     .victim = file_to_proto(victim),
				     .unused = true,
				     .name_len = (uint16_t)at->len,
				     .name = at->name };
	const size_t room =
		sizeof(struct ps_remove_req_wire) + PROTO_MAX_GROUPS * sizeof(le32_t) + at->len;
	struct behind_node *b = is_on ? node_get(at->dir->node) : NULL;
	struct numbered *n = number(b, cred, &req.change, room);

	if (!n)
		return NULL;
	return enter_request(b, n, PS_UNLINK, ps_remove_req_encode(&req, n->body, room), victim,
			     false);
}

struct numbered *behind_setattr(const struct fs_cred *cred, const struct file_id *file,
				const struct storage_attr *how)
{
	struct ps_setattr_req req = change_of_attr(file, how);
	const size_t room = sizeof(struct ps_setattr_req_wire) + PROTO_MAX_GROUPS * sizeof(le32_t);
	struct behind_node *b = is_on ? node_get(file->node) : NULL;
	struct numbered *n = number(b, cred, &req.change, room);

	if (!n)
		return NULL;
	return enter_request(b, n, PS_SETATTR, ps_setattr_req_encode(&req, n->body, room), file,
			     false);
}

struct numbered *behind_rename(const struct fs_cred *cred, struct storage_rename *how)
{
	struct behind_node *b = is_on ? node_get(how->from.dir->node) : NULL;
	struct ps_rename_req req;
	struct numbered *n;

	how->room = !how->target.node;
	req = change_of_rename(how);
	n = number(b, cred, &req.change, CHANGE_NAMES_MAX);
	if (n && how->room && !take_room(b)) {
		change_answered(n);
		n = NULL;
	}
	if (!n) {
		how->room = false;
		return NULL;
	}
	return enter_request(b, n, PS_RENAME, ps_rename_req_encode(&req, n->body, CHANGE_NAMES_MAX),
			     &how->source, how->room);
}

void behind_cancel(struct numbered *n)
{
	leave(n, NUMBERED_CANCELLED);
}

void behind_send(struct numbered *n)
{
	counter_inc(&behind_changes);
	leave(n, NUMBERED_READY);
}

static bool is_answered(struct behind_node *b, uint64_t nr)
{
	bool answered;

	spin_lock(&behind.lock);
	answered = b->answered >= nr;
	spin_unlock(&behind.lock);
	return answered;
}

int behind_flush(uint32_t node, bool killable)
{
	struct behind_node *b = find(node);
	uint64_t nr;
	bool any;
	int err;

	if (!b)
		return 0;
	spin_lock(&behind.lock);
	nr = b->queued;
	any = b->answered < nr;
	if (any)
		b->wanted = nr;
	spin_unlock(&behind.lock);
	if (!any)
		return 0;
	wake_one(&b->due);
	if (killable) {
		err = wait_event_killable(&b->done, is_answered(b, nr));
		return err ? err : 1;
	}
	wait_event(&b->done, is_answered(b, nr));
	return 1;
}

void behind_forget_rooms(uint32_t node)
{
	struct behind_node *b = find(node);

	if (!b)
		return;
	spin_lock(&behind.lock);
	b->rooms = 0;
	b->rooms_gen++;
	spin_unlock(&behind.lock);
}

static bool is_given(struct behind_node *b, uint64_t nr)
{
	bool given;

	spin_lock(&behind.lock);
	given = b->given >= nr;
	spin_unlock(&behind.lock);
	return given;
}

int behind_give_rooms(uint32_t node)
{
	struct behind_node *b = find(node);
	uint64_t nr = 0;
	int err;

	if (!b)
		return 0;
	spin_lock(&behind.lock);
	if (b->rooms || b->asks)
		nr = ++b->givers;
	spin_unlock(&behind.lock);
	if (!nr)
		return 0;
	wake_one(&b->due);
	err = wait_event_killable(&b->done, is_given(b, nr));
	return err ? err : 1;
}

int behind_flush_attr(const struct file_id *file)
{
	struct behind_node *b = find(file->node);
	bool any = false;
	int err;

	if (b) {
		spin_lock(&behind.lock);
		any = b->marks[mark_of(file)];
		spin_unlock(&behind.lock);
	}
	err = any ? behind_flush(file->node, true) : 0;
	return MIN(err, 0);
}

int behind_flush_dir(const struct file_id *dir)
{
	struct behind_node *b = find(dir->node);
	bool any = false;
	int err;

	if (b) {
		spin_lock(&behind.lock);
		/* One that is tried again has to be answered before the node forgets any answer. */
		any = b->names || b->marks[mark_of(dir)] || b->retries;
		spin_unlock(&behind.lock);
	}
	err = any ? behind_flush(dir->node, true) : 0;
	return MIN(err, 0);
}

void behind_flush_all(void)
{
	uint32_t last = 0, next;

	/* Nodes are few, and none goes away. */
	do {
		const struct behind_node *b;

		next = 0;
		spin_lock(&behind.lock);
		list_for_each_entry(b, &behind.nodes, link) {
			if (b->node > last && (!next || b->node < next))
				next = b->node;
		}
		spin_unlock(&behind.lock);
		if (next)
			(void)!behind_flush(next, false);
		last = next;
	} while (next);
}

int behind_error(uint32_t node, bool forget)
{
	struct behind_node *b = find(node);
	bool failed = false;

	if (b) {
		spin_lock(&behind.lock);
		failed = b->failed;
		if (forget)
			b->failed = false;
		spin_unlock(&behind.lock);
	}
	return failed ? -EIO : 0;
}

bool behind_is_on(void)
{
	return is_on;
}

bool behind_switch(bool on)
{
	const bool was = is_on;

	is_on = on;
	return was;
}

uint64_t behind_keep_rooms(uint64_t ns)
{
	const uint64_t was = rooms_ns;

	WRITE_ONCE(rooms_ns, ns);
	return was;
}
