/* SPDX-License-Identifier: MIT */
/*
 * AF_UNIX: datagrams to and from sockets on other processors of the vNode.
 *
 * Flow:	sendmsg() that finds no socket here asks the managers for a processor with one of
 *		that name, sends it the datagram, and waits for the answer: it is in the receiver's
 *		queue, or why it is not. Where the queue is full, that processor notes the sender's
 *		id, and says when there is room again; the sender waits, or poll() does, until then.
 *		connect() asks in the same way whether datagrams would be taken.
 * Invariants:	a socket that has sent to another processor is in the table of ids until it is
 *		released. unix_socket.full_at is the value of .rooms before a datagram was refused
 *		for want of room, so word of room that comes first is not missed. A word of room is
 *		kept until it is on its way or the processor has left: what waits for it may have no
 *		other reason to look. One that takes no more words keeps no other from hearing.
 * Locking:	ids.lock and words.lock (RANK_SPIN_MONITOR). The list of waiting senders of a
 *		receiver, and a socket's far peer, are under socket.lock, inside which those lie.
 *		unix_socket.peer_lock is outside, as in unix_dgram.c.
 * Context:	task, but for what answers requests (workers) and word of room (polling).
 * Failure:	a processor that leaves has no sockets: ECONNREFUSED; all that wait look again. Of
 *		senders that wait for one socket WAITERS_MAX are noted: the others look again. A
 *		processor with WORDS_MAX words to hear, or more, is answered ENOBUFS instead of
 *		being noted.
 * Limits:	open files do not travel: EOPNOTSUPP. A datagram has UNIX_FAR_MAX bytes at
 *		most: EMSGSIZE.
 * See:		docs/design/sockets.md, docs/protocol/pp.md
 */
#include <kernel/counter.h>
#include <kernel/panic.h>
#include <kernel/random.h>
#include <kernel/time.h>
#include <kernel/timer.h>
#include <kernel/work.h>
#include <lib/err.h>
#include <lib/hash.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <net/node.h>
#include <net/rpc.h>
#include <processor/account/account.h>
#include <processor/client/names.h>
#include <processor/process/process.h>
#include <processor/vfs/uio.h>

#include "queue.h"
#include "unix_private.h"
#include "unix_remote.h"
#include "unix_remote_private.h"

#define BUCKETS       256u
#define HEARERS       64u /* buckets of processors */
#define WAITERS_MAX   1024u
#define WORDS_MAX     4096u
#define WORDS_A_ROUND 64u                  /* to one processor, before the next one's turn */
#define WORDS_PAUSE   (20 * NSEC_PER_MSEC) /* before they are tried again */

COUNTER(far_sent, "socket.remote.unix_datagrams", "AF_UNIX datagrams to other processors");
COUNTER(far_full, "socket.remote.unix_datagrams_full", "of those, refused for want of room");

/* A processor with such senders. It stays when that one leaves: there are few. */
struct hearer {
	struct hlist_node link; /* const after it is added at the head */
	uint32_t node;          /* const */
	uint32_t nr;            /* words.lock: of the words, with one that is being sent */
	bool blocked;           /* atomic: the next answer of it is to wake the worker */
	struct list_head words; /* words.lock: it is to hear of them, the eldest first */
};

/* A sender elsewhere that waits for room in a socket's queue. */
struct unix_waiter {
	struct list_head link; /* the socket's lock; words.lock: it is to hear */
	struct hearer *at;
	uint32_t incarn; /* of that processor */
	uint64_t id;
};

static struct {
	struct spinlock lock; /* RANK_SPIN_MONITOR */
	struct hlist_head by_id[BUCKETS] __guarded_by(&lock);
} ids = {
	.lock = SPINLOCK_INIT("unix senders", RANK_SPIN_MONITOR),
};

/* Senders elsewhere that are to hear of room. */
static struct {
	struct spinlock lock; /* RANK_SPIN_MONITOR */
	struct hlist_head by_node[HEARERS] __guarded_by(&lock);
	uint64_t nr;          /* lock, read without it: of all words */
	struct workqueue *wq; /* const after start */
	struct work work;
	struct timer timer;
} words = {
	.lock = SPINLOCK_INIT("words of room", RANK_SPIN_MONITOR),
};

static uint64_t gauge_words(void)
{
	return READ_ONCE(words.nr);
}
GAUGE(far_words, "socket.remote.unix_words", "words of room that are not on their way yet",
      gauge_words);

static struct hlist_head *hearers_of(uint32_t node) __must_hold(&words.lock)
{
	assert_spin_held(&words.lock);
	return &words.by_node[node % HEARERS];
}

/* @n more words for @h, or less. */
static void count_words(struct hearer *h, int n) __must_hold(&words.lock)
{
	assert_spin_held(&words.lock);
	h->nr += (uint32_t)n;
	WRITE_ONCE(words.nr, words.nr + (uint64_t)(int64_t)n);
}

/* --- senders of this processor ------------------------------------------------------------ */

static struct hlist_head *bucket_of(uint64_t id) __must_hold(&ids.lock)
{
	assert_spin_held(&ids.lock);
	return &ids.by_id[hash64(id) % BUCKETS];
}

/* The id by which other processors name @s. */
static uint64_t id_of(struct socket *s)
{
	struct unix_socket *u = unix_of(s);
	uint64_t id;

	spin_lock(&ids.lock);
	if (!u->id) {
		do {
			u->id = random_u64();
		} while (!u->id);
		hlist_add_head(&u->by_id, bucket_of(u->id));
	}
	id = u->id;
	spin_unlock(&ids.lock);
	return id;
}

/* @s may send again, or is to look. */
static void hears_of_room(struct socket *s)
{
	__atomic_add_fetch(&unix_of(s)->rooms, 1, __ATOMIC_ACQ_REL);
	socket_wake(&s->wr_wait);
}

void unix_far_room(uint64_t id)
{
	struct unix_socket *u;

	spin_lock(&ids.lock);
	hlist_for_each_entry(u, bucket_of(id), by_id) {
		if (u->id == id)
			hears_of_room(&u->s);
	}
	spin_unlock(&ids.lock);
}

/* That incarnation is to hear of nothing any more. */
static void cut_words(uint32_t node, uint32_t incarn)
{
	struct unix_waiter *w, *next;
	struct hearer *h;
	LIST_HEAD(gone);

	spin_lock(&words.lock);
	hlist_for_each_entry(h, hearers_of(node), link) {
		if (h->node != node)
			continue;
		list_for_each_entry_safe(w, next, &h->words, link) {
			if (w->incarn == incarn) {
				list_move_tail(&w->link, &gone);
				count_words(h, -1);
			}
		}
	}
	spin_unlock(&words.lock);
	list_for_each_entry_safe(w, next, &gone, link)
		kmem_free(w);
}

void unix_far_node_gone(uint32_t node, uint32_t incarn)
{
	struct unix_socket *u;

	cut_words(node, incarn);
	spin_lock(&ids.lock);
	for (uint32_t i = 0; i < BUCKETS; i++) {
		hlist_for_each_entry(u, &ids.by_id[i], by_id)
			hears_of_room(&u->s);
	}
	spin_unlock(&ids.lock);
}

static uint32_t rooms_of(struct socket *s)
{
	return __atomic_load_n(&unix_of(s)->rooms, __ATOMIC_ACQUIRE);
}

bool unix_far_is_full(struct socket *s)
{
	const struct unix_socket *u = unix_of(s);

	return READ_ONCE(u->was_full) && READ_ONCE(u->full_at) == rooms_of(s);
}

/* --- sending ------------------------------------------------------------------------------ */

/* Where a datagram goes. */
struct target {
	uint8_t key[16];
	uint32_t node, incarn;
};

static int find_target(struct socket *s, const struct sock_addr *addr, struct target *to)
{
	struct node_info info;
	int err = unix_key(addr, to->key);

	if (!err)
		err = unix_remote_find(s, to->key, addr->un.path[0], &to->node);
	if (!err && !rpc_peer_info(to->node, &info))
		err = -ECONNREFUSED;
	if (!err)
		to->incarn = info.incarn;
	return err;
}

/* @m to @to; NULL: it only asks. ERR_PTR(-ENOBUFS, -EFAULT). */
static struct unix_letter *write_letter(struct socket *s, const struct target *to,
					struct socket_msg *m)
{
	const struct unix_name *own = __atomic_load_n(&unix_of(s)->name, __ATOMIC_ACQUIRE);
	struct unix_far_letter head = { .sender = id_of(s), .asks = !m };

	memcpy(head.key, to->key, sizeof(head.key));
	if (m)
		head.cred = m->cred;
	if (own) {
		memcpy(head.from_key, own->key, sizeof(head.from_key));
		head.name.len = MIN(own->len, (uint32_t)sizeof(head.name.path));
		memcpy(head.name.path, own->path, head.name.len);
	}
	return unix_letter_write(&head, m ? m->uio : NULL);
}

/* The answer of the receiver's processor; -EINTR: the thread is to be killed. */
static int post(const struct target *to, struct unix_letter *l)
{
	const int err = unix_letter_send(to->node, l);

	counter_inc(&far_sent);
	/* A processor that has left has no sockets. */
	if (err == -EHOSTDOWN || err == -ESTALE)
		return -ECONNREFUSED;
	return err == -ENOMEM ? -ENOBUFS : err;
}

static int wait_for_room(struct socket *s, uint32_t rooms, uint64_t deadline)
{
	int err;

	if (!deadline)
		return -EAGAIN;
	err = wait_event_interruptible_timeout(
		&s->wr_wait, rooms_of(s) != rooms || (READ_ONCE(s->shut) & SOCKET_SHUT_WR),
		deadline);
	if (!err && (READ_ONCE(s->shut) & SOCKET_SHUT_WR))
		err = -EPIPE;
	return err ? socket_wait_error(err, READ_ONCE(s->sndtimeo_ns)) : 0;
}

static int send_letter(struct socket *s, const struct target *to, struct unix_letter *l,
		       uint64_t deadline)
{
	for (;;) {
		const uint32_t rooms = rooms_of(s);
		int err = post(to, l);

		if (err != -EAGAIN) {
			WRITE_ONCE(unix_of(s)->was_full, false);
			return err;
		}
		counter_inc(&far_full);
		WRITE_ONCE(unix_of(s)->full_at, rooms);
		WRITE_ONCE(unix_of(s)->was_full, true);
		err = wait_for_room(s, rooms, deadline);
		if (err)
			return err;
	}
}

/* Some of a datagram's parts do not go to another processor. */
static int check_far(const struct socket_msg *m)
{
	if (m->fds)
		return -EOPNOTSUPP; /* they stay on their processor */
	return m->uio->left > UNIX_FAR_MAX ? -EMSGSIZE : 0;
}

static int send_there(struct socket *s, const struct target *to, struct socket_msg *m,
		      uint64_t deadline)
{
	struct unix_letter *l;
	int err = check_far(m);

	if (!err && (READ_ONCE(s->shut) & SOCKET_SHUT_WR))
		err = -EPIPE;
	if (!err)
		err = -socket_take_error(s);
	if (err)
		return err;
	l = write_letter(s, to, m);
	if (IS_ERR(l))
		return (int)PTR_ERR(l);
	err = send_letter(s, to, l, deadline);
	unix_letter_put(l);
	return err;
}

int unix_far_send_to(struct socket *s, struct socket_msg *m, uint64_t deadline)
{
	struct target to;
	int err = names_are_shared() ? find_target(s, &m->addr, &to) : -ECONNREFUSED;

	return err ? err : send_there(s, &to, m, deadline);
}

bool unix_far_connected(struct socket *s)
{
	return __atomic_load_n(&unix_of(s)->far_peer, __ATOMIC_ACQUIRE) != NULL;
}

/* @s is not connected any more to the socket elsewhere that @key stands for. */
static void forget_peer(struct socket *s, const uint8_t key[16])
{
	struct unix_far_peer *old;

	mutex_lock(&unix_of(s)->peer_lock);
	spin_lock(&s->lock);
	old = unix_of(s)->far_peer;
	if (old && memcmp(old->key, key, sizeof(old->key)))
		old = NULL;
	if (old) {
		__atomic_store_n(&unix_of(s)->far_peer, NULL, __ATOMIC_RELEASE);
		__atomic_store_n(&s->state, SOCKET_IDLE, __ATOMIC_RELEASE);
	}
	spin_unlock(&s->lock);
	mutex_unlock(&unix_of(s)->peer_lock);
	kmem_free(old);
	socket_wake(&s->wr_wait);
}

int unix_far_send(struct socket *s, struct socket_msg *m, uint64_t deadline)
{
	const struct unix_far_peer *peer;
	struct node_info info;
	struct target to;
	int err;

	spin_lock(&s->lock);
	peer = unix_of(s)->far_peer;
	if (peer) {
		memcpy(to.key, peer->key, sizeof(to.key));
		to.node = peer->node;
		to.incarn = peer->incarn;
	}
	spin_unlock(&s->lock);
	if (!peer)
		return -ENOTCONN;
	if (rpc_peer_info(to.node, &info) && info.incarn == to.incarn)
		err = send_there(s, &to, m, deadline);
	else
		err = -ECONNREFUSED;
	/* As on one processor: its peer is gone. */
	if (err == -ECONNREFUSED)
		forget_peer(s, to.key);
	return err;
}

int unix_far_find(struct socket *s, const struct sock_addr *addr, struct unix_far_peer **out)
{
	struct unix_far_peer *peer;
	struct target to;
	struct unix_letter *l;
	int err = names_are_shared() ? find_target(s, addr, &to) : -ECONNREFUSED;

	if (err)
		return err;
	l = write_letter(s, &to, NULL);
	if (IS_ERR(l))
		return (int)PTR_ERR(l);
	err = post(&to, l);
	unix_letter_put(l);
	if (err)
		return err;
	peer = kmem_alloc(kmem_current(), sizeof(*peer));
	if (!peer)
		return -ENOMEM;
	memcpy(peer->key, to.key, sizeof(peer->key));
	peer->node = to.node;
	peer->incarn = to.incarn;
	peer->name.len = addr->len - (uint32_t)UNIX_PATH_OFFSET;
	/* A path is told with the zero behind it, once. */
	if (addr->un.path[0])
		peer->name.len = MIN((uint32_t)strnlen(addr->un.path, peer->name.len) + 1,
				     (uint32_t)sizeof(peer->name.path));
	memcpy(peer->name.path, addr->un.path, peer->name.len);
	*out = peer;
	return 0;
}

/* --- receivers of this processor ---------------------------------------------------------- */

/* The errno that a request is refused with before room is looked at. */
static int refusal_locked(const struct socket *to, const struct unix_far_letter *in)
	__must_hold(&to->lock)
{
	const struct unix_far_peer *peer = unix_of((struct socket *)(uintptr_t)to)->far_peer;

	assert_spin_held(&to->lock);
	if (to->dead)
		return -ECONNREFUSED;
	/* A socket that is connected takes its peer's datagrams alone. */
	if (to->peer || (peer && memcmp(peer->key, in->from_key, sizeof(peer->key))))
		return -EPERM;
	return to->shut & SOCKET_SHUT_RD ? -EPIPE : 0;
}

static bool is_full_locked(const struct socket *to, uint64_t cost) __must_hold(&to->lock)
{
	assert_spin_held(&to->lock);
	return to->nr_queued > UNIX_DGRAM_QUEUE ||
	       (to->nr_queued && to->queued + cost > READ_ONCE(to->rcvbuf));
}

/* NULL: no memory. */
static struct hearer *hearer_of(uint32_t node)
{
	struct hearer *h, *fresh = NULL;

	for (;;) {
		spin_lock(&words.lock);
		hlist_for_each_entry(h, hearers_of(node), link) {
			if (h->node == node)
				break;
		}
		if (!h && fresh) {
			hlist_add_head(&fresh->link, hearers_of(node));
			h = fresh;
			fresh = NULL;
		}
		spin_unlock(&words.lock);
		if (h || fresh)
			break;
		fresh = kzalloc(sizeof(*fresh));
		if (!fresh)
			return NULL;
		fresh->node = node;
		list_init(&fresh->words);
	}
	kfree(fresh);
	return h;
}

static bool hears_enough(const struct hearer *h)
{
	bool enough;

	spin_lock(&words.lock);
	enough = h->nr >= WORDS_MAX;
	spin_unlock(&words.lock);
	return enough;
}

/*
 * Note *@w, unless the sender is noted. -EAGAIN: it hears of room; *@w is NULL if it is used.
 * -ENOBUFS: its processor has not heard WORDS_MAX earlier words.
 */
static int note_locked(struct socket *to, struct unix_waiter **w) __must_hold(&to->lock)
{
	struct unix_socket *u = unix_of(to);
	const struct unix_waiter *at;

	assert_spin_held(&to->lock);
	list_for_each_entry(at, &u->waiters, link) {
		if (at->at == (*w)->at && at->id == (*w)->id)
			return -EAGAIN;
	}
	if (hears_enough((*w)->at))
		return -ENOBUFS;
	list_add_tail(&(*w)->link, &u->waiters);
	__atomic_store_n(&u->nr_waiters, u->nr_waiters + 1, __ATOMIC_RELEASE);
	*w = NULL;
	return -EAGAIN;
}

static struct unix_waiter *take_word(struct hearer *h)
{
	struct unix_waiter *w;

	spin_lock(&words.lock);
	w = list_first_entry_or_null(&h->words, struct unix_waiter, link);
	if (w)
		list_del(&w->link);
	spin_unlock(&words.lock);
	return w;
}

/* How it stands with the words to one processor, after some have been sent. */
enum told {
	TOLD_ALL,
	TOLD_SOME,
	TOLD_LATER, /* the next one cannot be sent now */
};

static enum told tell_some(struct hearer *h)
{
	struct unix_waiter *w;
	int err;

	for (uint32_t i = 0; i < WORDS_A_ROUND; i++) {
		w = take_word(h);
		if (!w)
			return TOLD_ALL;
		err = unix_net_tell_room(h->node, w->id, h);
		/* A slot that is free by now is not told of; one that gets free later is. */
		if (err && !__atomic_exchange_n(&h->blocked, true, __ATOMIC_SEQ_CST))
			err = unix_net_tell_room(h->node, w->id, h);
		spin_lock(&words.lock);
		if (err)
			list_add(&w->link, &h->words);
		else
			count_words(h, -1);
		spin_unlock(&words.lock);
		if (err)
			return TOLD_LATER;
		kmem_free(w);
	}
	return TOLD_SOME;
}

/* Hearers never go, and new ones come at the head: their lists are walked without the lock. */
static struct hlist_node *first_hearer(uint32_t bucket)
{
	struct hlist_node *first;

	spin_lock(&words.lock);
	first = words.by_node[bucket].first;
	spin_unlock(&words.lock);
	return first;
}

static void word_work(struct work *work)
{
	bool again = false, more;
	enum told told;

	do {
		more = false;
		for (uint32_t i = 0; i < HEARERS; i++) {
			for (struct hlist_node *n = first_hearer(i); n; n = n->next) {
				told = tell_some(container_of(n, struct hearer, link));
				more |= told == TOLD_SOME;
				again |= told == TOLD_LATER;
			}
		}
	} while (more);
	if (again)
		timer_set(&words.timer, time_after_ns(WORDS_PAUSE));
}

/* Interrupt. */
static void words_again(void *arg)
{
	(void)work_queue(words.wq, &words.work);
}

void unix_far_slot_free(void *hearer)
{
	struct hearer *h = hearer;

	if (__atomic_exchange_n(&h->blocked, false, __ATOMIC_SEQ_CST))
		words_again(NULL);
}

/* All of @list are to hear that there is room. */
static void tell_waiters(struct list_head *list)
{
	struct unix_waiter *w, *next;

	if (list_empty(list))
		return;
	spin_lock(&words.lock);
	list_for_each_entry_safe(w, next, list, link) {
		list_move_tail(&w->link, &w->at->words);
		count_words(w->at, 1);
	}
	spin_unlock(&words.lock);
	(void)work_queue(words.wq, &words.work); /* it may be queued already */
}

void unix_far_wake(struct socket *s, bool anyway)
{
	struct unix_socket *u = unix_of(s);
	LIST_HEAD(list);

	if (!__atomic_load_n(&u->nr_waiters, __ATOMIC_ACQUIRE))
		return;
	spin_lock(&s->lock);
	if (anyway || s->dead ||
	    (s->nr_queued <= UNIX_DGRAM_QUEUE / 2 && s->queued <= READ_ONCE(s->rcvbuf) / 2)) {
		list_splice_tail(&u->waiters, &list);
		__atomic_store_n(&u->nr_waiters, 0, __ATOMIC_RELEASE);
	}
	spin_unlock(&s->lock);
	tell_waiters(&list);
}

/* Into the queue of @to. -EAGAIN, -ENOBUFS: it is full; *@w was noted, unless it is still there. */
static int enqueue(struct socket *to, const struct unix_far_letter *in, struct sock_msg *msg,
		   struct unix_waiter **w)
{
	int err;

	spin_lock(&to->lock);
	err = refusal_locked(to, in);
	if (!err && is_full_locked(to, msg->cost))
		err = note_locked(to, w);
	if (!err)
		sock_queue_push_locked(to, msg);
	spin_unlock(&to->lock);
	return err;
}

static int take_letter(struct socket *to, const struct unix_far_letter *in)
{
	struct kmem_account *account = kmem_account_of(to);
	struct unix_waiter *w = kmem_alloc(account, sizeof(*w));
	struct unix_far *name = kmem_alloc(account, sizeof(*name));
	struct hearer *at = hearer_of(in->node);
	struct sock_msg *msg = NULL;
	int err = -ENOBUFS;

	if (w && name && at)
		msg = sock_msg_copy_of(in->data, in->len, account);
	if (msg && !IS_ERR(msg)) {
		*w = (struct unix_waiter){ .at = at, .incarn = in->incarn, .id = in->sender };
		*name = in->name;
		msg->aux = name;
		msg->cred = in->cred;
		name = NULL;
		/* More of them than are noted: the eldest ones look again. */
		if (READ_ONCE(unix_of(to)->nr_waiters) >= WAITERS_MAX)
			unix_far_wake(to, true);
		err = enqueue(to, in, msg, &w);
		if (err)
			sock_msg_free(msg);
		else
			socket_wake(&to->rd_wait);
	}
	kmem_free(name);
	kmem_free(w);
	return err;
}

int unix_far_receive(const struct unix_far_letter *in)
{
	struct socket *to = unix_find_key(in->key, SOCK_DGRAM);
	int err;

	if (!to)
		return -ECONNREFUSED;
	if (in->asks) {
		spin_lock(&to->lock);
		err = refusal_locked(to, in);
		spin_unlock(&to->lock);
		err = err == -EPIPE ? 0 : err; /* connect() does not look at that */
	} else {
		err = take_letter(to, in);
	}
	socket_put(to);
	return err;
}

int unix_far_start(void)
{
	work_init(&words.work, word_work);
	timer_init(&words.timer, words_again, NULL);
	words.wq = workqueue_create("unix room", 1);
	return IS_ERR(words.wq) ? (int)PTR_ERR(words.wq) : 0;
}

void unix_far_init(struct socket *s)
{
	list_init(&unix_of(s)->waiters);
}

void unix_far_release(struct socket *s)
{
	struct unix_socket *u = unix_of(s);

	spin_lock(&ids.lock);
	if (u->id)
		hlist_del(&u->by_id);
	u->id = 0;
	spin_unlock(&ids.lock);
	unix_far_wake(s, true);
}
