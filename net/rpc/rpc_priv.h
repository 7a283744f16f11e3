/* SPDX-License-Identifier: MIT */
/*
 * RPC layer, private: peers, sessions, connections and their parts.
 *
 * Invariants:	a peer (one per node id, never freed) has one session per traffic class, and a
 *		session has at most one connection (a queue pair, its ring and its send queue
 *		accounting).  A session outlives its connections: slots, request ids and
 *		remembered replies belong to it.  A session's receives complete in one queue,
 *		which has one poller at a time (rpc_queue.poll_owner).  A connection that is
 *		taken down passes through that ownership once, so that no poller still holds a
 *		completion of it.
 * Locking:	rpc_session.lock guards slots, request states and posting; rpc_session.conn_lock
 *		(a mutex) serialises set-up and tear-down of its connection.  Done, release and
 *		sent functions run without any lock of this layer.
 * See:		docs/design/rpc.md
 */
#pragma once

#include <kernel/counter.h>
#include <kernel/mutex.h>
#include <kernel/panic.h>
#include <kernel/spinlock.h>
#include <kernel/time.h>
#include <kernel/timer.h>
#include <kernel/wait.h>
#include <kernel/work.h>
#include <lib/atomic.h>
#include <lib/list.h>
#include <net/node.h>
#include <net/rpc.h>
#include <net/rpc_wire.h>
#include <rdma/cm.h>
#include <rdma/verbs.h>

#define RPC_MAX_SLOTS         64u /* of one session; a 64-bit map holds their states */
#define RPC_POLL_BATCH        16
#define RPC_RECV_BATCH        16u /* receives are reposted so many at a time */
#define RPC_RECV_SPARE        (2 * RPC_RECV_BATCH)
#define RPC_HDR_LEN           ((uint32_t)sizeof(struct rpc_hdr_wire))
#define RPC_SERVICE_ID        0x5445535352504300ull /* "TESSRPC" */
#define RPC_OP_PING           0x0001
#define RPC_DATA_MAX          (RPC_WRITES_MAX * PAGE_SIZE) /* that a prefetch asks for */
/*
 * Requests of one session that may be served at once: one in each slot, and as many whose sender
 * has given up on them (orphans).
 */
#define RPC_REQUESTS_PER_SLOT 2u

/*
 * Of a session's slots, those that calls which wait for a third node may take: what else goes to
 * that peer always finds one. The same share of a session's requests may be with such handlers.
 */
static inline uint32_t rpc_waits_share(uint32_t nr)
{
	return MAX(nr / 2, 1u);
}

struct rpc_class_cfg {
	const char *name;
	uint32_t nr_slots; /* boot parameter rpc.slots.<class> */
	uint32_t body_max;
	uint32_t bulk_max;
	uint32_t max_sge; /* bulk pieces of one request */
	uint32_t sl;      /* boot parameter rpc.sl.<class>: service level of its connections */
	/* boot parameter rpc.window.<class>: requests, and the data they ask for, in flight */
	uint32_t window_kb;
};
extern struct rpc_class_cfg rpc_class_cfg[RPC_NR_CLASSES];

static inline uint32_t rpc_req_slot_size(const struct rpc_class_cfg *c)
{
	if (c >= &rpc_class_cfg[RPC_CLASS_READ])
		return RPC_HDR_LEN; /* one-sided: nothing is sent */
	return ALIGN_UP(RPC_HDR_LEN + c->body_max + c->bulk_max, 64u);
}

static inline uint32_t rpc_rep_slot_size(const struct rpc_class_cfg *c)
{
	return ALIGN_UP(RPC_HDR_LEN + c->body_max, 64u);
}

/* How threads learn of completions: boot parameter rpc.completion. */
enum rpc_completion {
	RPC_COMPLETION_HYBRID, /* control and demand are polled for a time, the rest interrupts */
	RPC_COMPLETION_POLL,   /* waiters of all classes poll until the answer is there */
	RPC_COMPLETION_INTERRUPT, /* no thread polls */
};

/* Which classes share a completion queue: boot parameter rpc.queues. */
enum rpc_queues {
	RPC_QUEUES_AUTO,  /* one for all on a node with one CPU, else one for each class */
	RPC_QUEUES_CLASS, /* one for each class and CPU */
	RPC_QUEUES_ONE,   /* one for all */
};

/* Receives of a connection. */
static inline uint32_t rpc_recv_depth(uint32_t cls)
{
	return 2 * rpc_class_cfg[cls].nr_slots + RPC_RECV_SPARE;
}

/* Completions that a connection may have in the queue of its class: reads and a probe, too. */
static inline uint32_t rpc_class_cqes(uint32_t cls)
{
	return rpc_recv_depth(cls) + (rpc_class_is_read(cls) ? rpc_class_cfg[cls].nr_slots + 1 : 0);
}

/* Tunables, all boot parameters (params.c). */
struct rpc_tune {
	uint32_t spin_us;       /* most that a waiter spins */
	uint32_t serve_spin_us; /* most that the net thread spins after serving */
	uint32_t late_us;       /* most that a late reply waits for a message to share a doorbell */
	uint32_t lazy_us;       /* re-arming is put off so long while waiters poll */
	uint32_t probe_ms;
	uint32_t quarantine_ms;
	uint32_t workers; /* most worker threads per class */
	uint32_t max_peers;
	uint32_t ack_timeout;
	uint32_t tick_ms;
	uint32_t datagram_buffers; /* receive buffers; half as many to send */
	enum rpc_queues queues;
	enum rpc_completion completion;
	bool merge; /* join neighbouring data, chain calls */
};
extern struct rpc_tune rpc_tune;

/*
 * Does spinning pay?  On a loaded host it does not: it takes the core that the peer needs.  While
 * fewer than about one in eight spins is won, only every eighth wait spins, to notice a change.
 */
struct rpc_spin_gauge { /* hints: races do no harm */
	uint8_t score;  /* high = spins are won */
	uint8_t skipped;
};

#define RPC_SPIN_SCORE_MAX  255
#define RPC_SPIN_SCORE_GOOD 16
#define RPC_SPIN_SKIP       7

static inline bool rpc_spin_pays(struct rpc_spin_gauge *g)
{
	if (g->score >= RPC_SPIN_SCORE_GOOD)
		return true;
	if (g->skipped++ < RPC_SPIN_SKIP)
		return false;
	g->skipped = 0;
	return true;
}

static inline void rpc_spin_note(struct rpc_spin_gauge *g, bool won)
{
	const uint8_t score = g->score;

	if (won)
		g->score = (uint8_t)(score + (RPC_SPIN_SCORE_MAX - score + 7) / 8);
	else
		g->score = (uint8_t)(score - (score + 7) / 8);
}

/*
 * Follow a time from below: quickly down, slowly up.  The result is the time without hindrance, by
 * which spinning is measured.
 */
static inline uint64_t rpc_low_average(uint64_t avg, uint64_t sample)
{
	if (avg == 0)
		return sample;
	if (sample < avg)
		return avg - (avg - sample) / 4;
	return avg + MIN(sample - avg, avg) / 32;
}

#define RPC_MEMS_MAX     8192u
#define RPC_GRANTS_BLOCK 256u

struct rpc_mem { /* const */
	paddr_t start;
	uint64_t len;
	uint32_t sent_to, written_by; /* RPC_ROLE() */
	uint32_t read_by;             /* node; 0: none */
	uint32_t index;               /* into rpc_peer.grants */
};

/* One rpc_mem in one peer's protection domain; all 0: not given to it. */
struct rpc_grant {
	struct rdma_mr *mr; /* mems_lock */
	uint32_t lkey, rkey;
};

/* Made when the peer is first given a run of the block, and then there for ever. */
struct rpc_grants {
	struct rpc_grant *blocks[RPC_MEMS_MAX / RPC_GRANTS_BLOCK];
};

/* Registered memory that the peer writes: request slots, then reply slots. */
struct rpc_ring {
	refcount_t refs; /* the connection's, and one per request that lies in it */
	uint32_t nr_slots, req_size, rep_size;
	uint8_t *virt;
	paddr_t phys;
	uint64_t len;
	struct rdma_mr *mr;
	struct rpc_ring *next_dead; /* the last reference may go where sleeping is forbidden */
};

/* --- client side ---------------------------------------------------------------------- */

enum rpc_call_state { /* atomic in rpc_call_impl.state, plus RPC_CALL_SLEEPER */
	RPC_CALL_NEW = 0,
	RPC_CALL_SUBMITTED = 1,
	RPC_CALL_FINISHING = 2, /* somebody took it off its slot and writes the result */
	RPC_CALL_DONE = 3,
	RPC_CALL_STATE_MASK = 3,
	RPC_CALL_SLEEPER = 4, /* somebody must be woken */
};

struct rpc_call_impl {
	struct rpc_call pub;
	refcount_t refs;
	atomic_t state;
	struct rpc_session *session; /* const from the submit to the last reference */
	uint32_t slot;
	uint64_t submitted_ns;
	uint64_t answered_ns; /* when the reply was taken */
	struct waitqueue wq;
	atomic_t nr_to_release;       /* of finish and the slot's freeing, for one given up */
	struct rpc_call_impl *next;   /* free list, or a list of calls to end */
	struct rpc_call_impl *next_q; /* of those whose slot has left quarantine */
};

enum rpc_cslot_state {
	RPC_CSLOT_FREE,
	RPC_CSLOT_BUSY,       /* a call waits for its reply */
	RPC_CSLOT_QUARANTINE, /* given up, but the reply may still come */
};

/* A free slot is taken, a busy one ends or is given up, and what is in quarantine gets free. */
static inline bool rpc_cslot_may_become(enum rpc_cslot_state from, enum rpc_cslot_state to)
{
	static const uint8_t next[] = {
		[RPC_CSLOT_FREE] = BIT(RPC_CSLOT_BUSY),
		[RPC_CSLOT_BUSY] = BIT(RPC_CSLOT_FREE) | BIT(RPC_CSLOT_QUARANTINE),
		[RPC_CSLOT_QUARANTINE] = BIT(RPC_CSLOT_FREE),
	};

	return next[from] & BIT(to);
}

struct rpc_cslot { /* session lock */
	struct rpc_call_impl *call;
	uint64_t req_id;
	uint64_t deadline_ns;
	uint64_t quarantined_ns;
	uint64_t behind_ns; /* when the peer refused it first for our older view; 0 = it has not */
	bool insisted;      /* posted so that it is no more refused for that */
	uint8_t state;
	bool posted;        /* on the current connection, or on one not yet taken down */
	bool retransmitted; /* it has been posted on an earlier connection */
	bool is_async;
	bool waits; /* its handler waits for a third node: counted in c_waits */
	uint16_t nr_sge;
	uint32_t msg_len; /* header and body */
	uint32_t bulk_len;
	uint32_t window_len;  /* counted in inflight_bytes */
	struct rdma_sge *sge; /* cfg->max_sge of them */
};

/* --- server side ---------------------------------------------------------------------- */

/* A thread in a handler that waits for other nodes. On its stack. */
struct rpc_runner {
	struct thread *thread;   /* const */
	struct rpc_request *req; /* NULL: answered; session lock */
};

struct rpc_request {
	struct rpc_session *session; /* NULL: a datagram, part of a struct rpc_dgram_request */
	struct rpc_peer *peer;
	struct rpc_ring *ring;
	const struct rpc_handler *handler;
	void *handler_arg;
	const uint8_t *body;
	uint64_t req_id;
	uint64_t received_ns;
	uint64_t expires_ns; /* its sender waits no longer; 0 = it waits for ever */
	uint32_t body_len, bulk_len;
	uint32_t slot;
	uint32_t gen; /* connection that carried it last; session lock */
	uint32_t peer_incarn;
	uint16_t opcode;
	bool orphan; /* its client does not wait for the reply any more; session lock */
	bool may_sleep;
	bool waits;       /* counted in s_waits; session lock */
	bool late;        /* its reply may wait for another message */
	uint64_t sq_mark; /* conn->sq_posted when it came */
	/* the thread whose waits end when this becomes an orphan, or NULL; session lock */
	struct rpc_runner *runner;
	struct list_head link;    /* worker pool */
	struct rpc_request *next; /* free list; session lock */
};

enum rpc_sslot_state {
	RPC_SSLOT_NONE, /* nothing received, or may be run again */
	RPC_SSLOT_BUSY, /* a handler has it */
	RPC_SSLOT_DONE, /* answered; the reply lies in the reply buffer */
};

/* A request may take over a slot whose last one is still served: its client has given up. */
static inline bool rpc_sslot_may_become(enum rpc_sslot_state from, enum rpc_sslot_state to)
{
	static const uint8_t next[] = {
		[RPC_SSLOT_NONE] = BIT(RPC_SSLOT_NONE) | BIT(RPC_SSLOT_BUSY),
		[RPC_SSLOT_BUSY] = BIT(RPC_SSLOT_NONE) | BIT(RPC_SSLOT_BUSY) | BIT(RPC_SSLOT_DONE),
		[RPC_SSLOT_DONE] = BIT(RPC_SSLOT_NONE) | BIT(RPC_SSLOT_BUSY),
	};

	return next[from] & BIT(to);
}

struct rpc_sslot { /* session lock */
	struct rpc_request *req;
	uint64_t req_id;
	uint8_t state;
	bool keep;          /* the reply may be sent again as it is */
	bool bulk;          /* it had data that only ->writes knows */
	uint32_t reply_len; /* header and body */
	uint32_t gen;       /* connection on which the reply may go out */
	uint32_t nr_writes;
	struct rpc_write *writes; /* kept only while unsent or not idempotent */
	void (*sent)(void *arg);
	void *sent_arg;
	uint64_t sent_seq; /* the reply's work request, on connection ->gen */
	uint64_t sent_ns;
};

/* --- connections ---------------------------------------------------------------------- */

enum rpc_conn_state {
	RPC_CONN_CONNECTING, /* REQ sent */
	RPC_CONN_ACCEPTING,  /* REP sent: may receive, not yet send */
	RPC_CONN_UP,
	RPC_CONN_BROKEN, /* to be taken down */
};

/* A connection comes up at most once, and what is broken stays broken. */
static inline bool rpc_conn_may_become(enum rpc_conn_state from, enum rpc_conn_state to)
{
	static const uint8_t next[] = {
		[RPC_CONN_CONNECTING] = BIT(RPC_CONN_UP) | BIT(RPC_CONN_BROKEN),
		[RPC_CONN_ACCEPTING] = BIT(RPC_CONN_UP) | BIT(RPC_CONN_BROKEN),
		[RPC_CONN_UP] = BIT(RPC_CONN_BROKEN),
	};

	return next[from] & BIT(to);
}

struct rpc_conn {
	struct rpc_session *session; /* const */
	uint32_t gen;                /* const */
	uint8_t state;               /* enum rpc_conn_state; session lock */
	bool is_known;               /* peer_incarn and remote are valid; session lock */
	struct cm_conn *cm;          /* conn_lock */
	struct rdma_qp *qp;
	struct rdma_cq *send_cq;
	struct rpc_ring *ring;
	struct rpc_incoming *incoming; /* passive side: the REQ; const */
	struct rpc_conn_wire req;      /* active side: ours; conn_lock */
	bool wants_proof;              /* active side: of the REP; conn_lock */
	uint32_t target_incarn;        /* active side: the peer that we mean, 0 = unknown; const */
	uint32_t peer_incarn;
	uint32_t *early; /* immediates that came before the peer was known: session lock */
	uint32_t nr_early;
	/* the peer's ring */
	uint64_t remote_addr;
	uint32_t remote_rkey;
	/* send queue: session lock */
	uint32_t sq_size;
	uint32_t sq_inline;
	uint32_t sq_sge;
	uint64_t sq_posted;    /* work requests so far: wr_id of the last */
	uint64_t sq_signalled; /* the last with a completion asked for */
	uint64_t sq_completed;
	bool doorbell_pending; /* work requests wait for rpc_ring_locked() */
	uint32_t recv_to_post; /* poll owner */
	uint64_t opened_ns;
	/* what the CM said, until conn_work looks: session lock */
	bool ev_established, ev_ended;
	uint8_t ev_rej_code; /* enum rpc_rej_code, 0 = none */
	uint8_t ev_challenge[RPC_NONCE_LEN];
	struct rpc_conn_wire ev_rep;
	struct rpc_conn_info ev_info;
	int ev_info_err;
	/* scratch for posting: session lock */
	struct rdma_send_wr wr[RPC_WRITES_MAX + 1];
	struct rdma_sge wr_sge[RPC_WRITES_MAX + 1];
	struct rdma_sge req_sge[64];
};

/* A REQ that came in and that conn_work has not answered yet. */
struct rpc_incoming {
	struct cm_conn *cm;
	struct rpc_conn_info info;
	struct rpc_conn_wire wire; /* const */
	bool is_dead;              /* atomic */
};

struct rpc_session {
	struct rpc_peer *peer;   /* const */
	uint8_t cls;             /* const */
	struct rpc_queue *queue; /* const from is_ready on */
	struct spinlock lock;    /* RANK_SPIN_RPC */
	bool is_ready;           /* memory below is there; set once with release */
	int init_err;            /* conn_lock; read without */
	struct rpc_conn *conn __guarded_by(&lock); /* writers hold conn_lock too */
	uint32_t gen __guarded_by(&lock);          /* of the newest connection */

	/* client */
	struct rpc_cslot *cslots;              /* const from is_ready on; the slots: lock */
	uint64_t c_free __guarded_by(&lock);   /* bit per slot */
	uint64_t c_unsent __guarded_by(&lock); /* BUSY but not posted */
	uint64_t c_parked __guarded_by(&lock); /* BUSY and refused: posted again at the next tick */
	uint32_t nr_busy __guarded_by(&lock), nr_quarantine __guarded_by(&lock);
	uint32_t c_waits __guarded_by(&lock); /* slots not free whose calls wait for a third node */
	uint64_t inflight_bytes __guarded_by(&lock);
	bool is_chaining __guarded_by(&lock);   /* rpc_calls_submit() rings at its end */
	bool is_late __guarded_by(&lock);       /* a late reply waits; counted in queue->nr_late */
	uint64_t usual_ns __guarded_by(&lock);  /* an unhindered round trip */
	uint64_t probed_ns __guarded_by(&lock); /* when the connection was probed last */
	struct rpc_spin_gauge gauge;            /* hints: races do no harm */
	uint32_t nr_slot_waiters __guarded_by(&lock);
	struct waitqueue slot_wq;
	/* const from is_ready on; registered: one message of header and body per slot */
	uint8_t *req_buf;
	uint64_t req_buf_phys;
	uint32_t req_stride;

	/* server */
	struct rpc_sslot *sslots;                    /* const from is_ready on; the slots: lock */
	uint64_t s_unsent __guarded_by(&lock);       /* answered but not posted */
	uint64_t s_sent_pending __guarded_by(&lock); /* ->sent still to be called */
	/* RPC_REQUESTS_PER_SLOT per slot */
	struct rpc_request *free_requests __guarded_by(&lock);
	uint32_t s_waits __guarded_by(&lock); /* requests with handlers that wait */
	uint8_t *rep_buf;                     /* const from is_ready on, as the next three */
	uint64_t rep_buf_phys;
	uint32_t rep_stride;
	struct rdma_mr *buf_mr;
	/* of the peer whose requests the slots remember */
	uint32_t server_incarn __guarded_by(&lock);

	/* connection set-up */
	struct mutex conn_lock; /* RANK_NET_PEER */
	struct work conn_work;
	struct rpc_incoming *incoming __guarded_by(&lock);
	bool want_conn __guarded_by(&lock); /* a caller needs one though no call waits */
	/* of the host, for the next REQ */
	uint8_t challenge[RPC_NONCE_LEN] __guarded_by(&conn_lock);
	bool has_challenge __guarded_by(&conn_lock);
	uint32_t nr_challenges __guarded_by(&conn_lock); /* since the last success */
	uint32_t nr_attempts __guarded_by(&conn_lock);   /* since the last success */
	uint64_t next_attempt_ns;                        /* atomic */
	bool was_up __guarded_by(&conn_lock);
};

/* How a client slot, a server slot and a connection get another state. */
static inline void rpc_cslot_set_state_locked(struct rpc_session *s, struct rpc_cslot *cs,
					      enum rpc_cslot_state to)
{
	assert_spin_held(&s->lock);
	ASSERT(rpc_cslot_may_become(cs->state, to));
	cs->state = (uint8_t)to;
}

static inline void rpc_sslot_set_state_locked(struct rpc_session *s, struct rpc_sslot *ss,
					      enum rpc_sslot_state to)
{
	assert_spin_held(&s->lock);
	ASSERT(rpc_sslot_may_become(ss->state, to));
	ss->state = (uint8_t)to;
}

static inline void rpc_conn_set_state_locked(struct rpc_conn *conn, enum rpc_conn_state to)
{
	assert_spin_held(&conn->session->lock);
	ASSERT(rpc_conn_may_become(conn->state, to));
	conn->state = (uint8_t)to;
}

/* Where a peer takes datagrams, as it said at connection set-up. */
struct rpc_dgram_addr {
	uint32_t incarn; /* the incarnation that said so */
	uint32_t qpn;    /* 0: not known yet */
	uint32_t qkey;
	uint8_t mtu; /* enum rdma_mtu */
};

enum rpc_peer_state {
	RPC_PEER_ALIVE,   /* as far as membership says: it may be silent for long */
	RPC_PEER_REMOVED, /* no member any more: fenced */
};

struct rpc_peer {
	struct list_head link;      /* rpc_peers list; set once */
	struct rpc_peer *hash_next; /* set once, before the peer is visible */
	struct spinlock lock;       /* RANK_SPIN_NET: the fields below */
	struct node_info info;      /* id is const once not 0; incarn 0 = not yet known */
	uint32_t prev_incarn;       /* replaced or fenced: 0 = none */
	struct rpc_dgram_addr dgram;
	uint8_t state;       /* enum rpc_peer_state */
	bool is_stranger;    /* it connected by itself: no list of nodes names it */
	bool key_refused;    /* it says that this node has no key of the cluster */
	bool fenced_us;      /* it told us that our incarnation is over */
	uint64_t last_rx_ns; /* when the newest completion was taken; poll owner writes, atomic */
	uint64_t dgram_usual_ns;  /* an unhindered round trip by datagram; atomic */
	struct rdma_pd *pd;       /* const: of its queue pairs and of all that it may reach */
	struct rpc_grants grants; /* by rpc_mem.index; mems_lock, keys are read without it */
	enum node_role granted;   /* the role that ->grants are for, 0 = none; mems_lock */
	struct rpc_session sessions[RPC_NR_CLASSES];
};

/* --- completion queues ------------------------------------------------------------------ */

/* The receives of some sessions: those of one class, and of some of the peers. See poll.c. */
struct rpc_queue {
	struct rdma_cq *cq;   /* const */
	uint32_t classes;     /* const: BIT(enum rpc_class) */
	uint32_t cpu;         /* const: which its interrupts go to */
	bool is_polled;       /* const: its waiters and its net thread may poll before they sleep */
	bool gives_way;       /* const: no thread waits for its classes: others go first */
	uint32_t room;        /* completions not yet promised to a queue pair; atomic */
	uint32_t nr_sessions; /* atomic */

	atomic_t poll_owner;
	atomic_t armed;
	atomic_t event_pending;
	struct waitqueue event_wq;
	uint64_t event_ns;        /* when the last event was raised; atomic */
	uint32_t waiter_activity; /* bumped by every waiter that polls */
	uint32_t reader_activity; /* by those of rpc_poll_until() */
	atomic_t nr_readers;      /* that are in it now: each arms the queue if it polls in vain */
	atomic_t nr_async;        /* outstanding calls without a waiting thread */

	/* The net thread sleeps without the interrupt; it sets these before it sets the timer. */
	const uint32_t *lazy_activity; /* one of the two above */
	uint32_t *lazy_seen;           /* the net thread's; while the timer is set: the timer's */
	uint32_t lazy_periods;         /* the same */
	atomic_t lazy_over;            /* it is to wake */
	struct timer lazy_timer;

	/* Late replies: see poll.c */
	atomic_t nr_late;       /* sessions that have some */
	uint64_t late_since_ns; /* atomic: since when there are any */
	atomic_t late_timed;    /* the timer is set */
	atomic_t late_due;      /* the net thread is to ring for them */
	struct timer late_timer;

	/* poll owner */
	uint32_t requests_served;
	struct rdma_wc
		wc[RPC_POLL_BATCH]; /* those from wc_next to wc_nr are still to be looked at */
	uint32_t wc_next, wc_nr;
	struct rpc_session *to_ring[RPC_POLL_BATCH];
	uint32_t nr_to_ring;

	/* net thread */
	struct rpc_spin_gauge serve_gauge;
	uint64_t request_gap_ns; /* usual time from a reply to the next request */
};

/* --- the one RPC instance of this node ------------------------------------------------- */

struct rpc_net {
	bool is_started;
	struct rdma_device *dev;
	uint8_t port;
	struct rdma_device_attr attr;
	struct rdma_pd *pd; /* of datagrams: nothing in it can be written from outside */
	struct rpc_queue *queues;
	uint32_t nr_queues;
	uint32_t nr_queue_cpus; /* queues of one class */
	bool one_queue;         /* const: all classes complete in one queue */
	bool rests;             /* the device lets a CPU rest; a hint, atomic */
	struct cm_listener *listener;
	struct workqueue *conn_wq;
	bool accept_strangers;
	uint32_t epoch;
	void (*behind)(void); /* atomic: told that a peer has a newer one; NULL: nobody is */

	atomic_t nr_working;     /* requests in worker threads */
	atomic_t nr_outstanding; /* reasons for the ticking thread to run */
	atomic_t tick_idle;
	struct waitqueue tick_wq;
};
extern struct rpc_net rpc_net;

/* Callbacks that are collected under a lock and run after it. */
struct rpc_batch {
	uint32_t nr;
	struct {
		void (*fn)(void *arg);
		void *arg;
	} cb[RPC_MAX_SLOTS];
};

static inline void rpc_batch_add(struct rpc_batch *b, void (*fn)(void *arg), void *arg)
{
	b->cb[b->nr].fn = fn;
	b->cb[b->nr].arg = arg;
	b->nr++;
}

static inline void rpc_batch_run(struct rpc_batch *b)
{
	for (uint32_t i = 0; i < b->nr; i++)
		b->cb[i].fn(b->cb[i].arg);
	b->nr = 0;
}

/* counters.c */
COUNTER_DECLARE(rpc_c_req_sent);
COUNTER_DECLARE(rpc_c_reads);
COUNTER_DECLARE(rpc_c_read_refused);
COUNTER_DECLARE(rpc_c_req_received);
COUNTER_DECLARE(rpc_c_rep_sent);
COUNTER_DECLARE(rpc_c_rep_received);
COUNTER_DECLARE(rpc_c_bytes_sent);
COUNTER_DECLARE(rpc_c_bulk_sent);
COUNTER_DECLARE(rpc_c_bytes_copied);
COUNTER_DECLARE(rpc_c_doorbells);
COUNTER_DECLARE(rpc_c_work_requests);
COUNTER_DECLARE(rpc_c_merged);
COUNTER_DECLARE(rpc_c_interrupts);
COUNTER_DECLARE(rpc_c_arms);
COUNTER_DECLARE(rpc_c_polls);
COUNTER_DECLARE(rpc_c_spins_won);
COUNTER_DECLARE(rpc_c_spins_lost);
COUNTER_DECLARE(rpc_c_rests);
COUNTER_DECLARE(rpc_c_sleeps);
COUNTER_DECLARE(rpc_c_serve_spins_won);
COUNTER_DECLARE(rpc_c_serve_spins_lost);
COUNTER_DECLARE(rpc_c_late_rings);
COUNTER_DECLARE(rpc_c_lazy_sleeps);
COUNTER_DECLARE(rpc_c_inline);
COUNTER_DECLARE(rpc_c_dispatched);
COUNTER_DECLARE(rpc_c_worker_threads);
COUNTER_DECLARE(rpc_c_resent);
COUNTER_DECLARE(rpc_c_dup_busy);
COUNTER_DECLARE(rpc_c_dup_answered);
COUNTER_DECLARE(rpc_c_dup_rerun);
COUNTER_DECLARE(rpc_c_dup_old);
COUNTER_DECLARE(rpc_c_late_replies);
COUNTER_DECLARE(rpc_c_orphans);
COUNTER_DECLARE(rpc_c_refused);
COUNTER_DECLARE(rpc_c_refusals);
COUNTER_DECLARE(rpc_c_behind);
COUNTER_DECLARE(rpc_c_timeouts);
COUNTER_DECLARE(rpc_c_cancels);
COUNTER_DECLARE(rpc_c_quarantined);
COUNTER_DECLARE(rpc_c_quarantine_resets);
COUNTER_DECLARE(rpc_c_released);
COUNTER_DECLARE(rpc_c_no_slot);
COUNTER_DECLARE(rpc_c_sq_full);
COUNTER_DECLARE(rpc_c_connects);
COUNTER_DECLARE(rpc_c_reconnects);
COUNTER_DECLARE(rpc_c_breaks);
COUNTER_DECLARE(rpc_c_crossed);
COUNTER_DECLARE(rpc_c_rejected);
COUNTER_DECLARE(rpc_c_malformed);
COUNTER_DECLARE(rpc_c_stale);
COUNTER_DECLARE(rpc_c_probes);
COUNTER_DECLARE(rpc_c_flush_writes);
COUNTER_DECLARE(rpc_c_access_refused);
COUNTER_DECLARE(rpc_c_wrong_role);
COUNTER_DECLARE(rpc_c_expired);
COUNTER_DECLARE(rpc_c_auth_refused);
COUNTER_DECLARE(rpc_c_access_errors);
HISTOGRAM_DECLARE(rpc_h_handler);
HISTOGRAM_DECLARE(rpc_h_wake_demand);
extern const struct histogram *const rpc_h_latency[RPC_NR_CLASSES];

/* mem.c */
struct rpc_ring *rpc_ring_create(struct rdma_pd *pd, const struct rpc_class_cfg *cfg);
void rpc_ring_put(struct rpc_ring *ring);
static inline uint8_t *rpc_ring_slot(const struct rpc_ring *r, bool reply, uint32_t slot)
{
	return r->virt + (reply ? (uint64_t)r->nr_slots * r->req_size + (uint64_t)slot * r->rep_size
				: (uint64_t)slot * r->req_size);
}

/*
 * Give a peer of @role what such peers may reach, and make it visible if it is new, so that no
 * region is left out.  -EEXIST: that id is taken; -ENOMEM or what the device answers: nothing has
 * changed.
 */
int rpc_mem_grant(struct rpc_peer *peer, enum node_role role, bool publish) __must_check;
/* Free what was kept for a peer that was not published. */
void rpc_mem_forget_peer(struct rpc_peer *peer);
/* The run with @index in the domain of @peer, or NULL. */
static inline struct rpc_grant *rpc_grant_find(const struct rpc_peer *peer, uint32_t index)
{
	struct rpc_grant *block =
		__atomic_load_n(&peer->grants.blocks[index / RPC_GRANTS_BLOCK], __ATOMIC_ACQUIRE);

	return block ? &block[index % RPC_GRANTS_BLOCK] : NULL;
}

static inline uint32_t rpc_mem_lkey(const struct rpc_mem *mem, const struct rpc_peer *peer)
{
	const struct rpc_grant *g = rpc_grant_find(peer, mem->index);

	return g ? g->lkey : 0;
}

/* auth.c */
/*
 * Put a nonce into a REQ to @to that says all but that; with @challenge (may be NULL) a proof, too.
 */
void rpc_auth_req(struct rpc_conn_wire *req, const uint8_t *challenge, const struct rdma_addr *to);
/* Does the sender of @rep, an answer to our @req, have the cluster's key? */
bool rpc_auth_rep_is_good(const struct rpc_conn_wire *req, const struct rpc_conn_wire *rep);
/*
 * The host: may the sender of @req be the node that it says it is? 0: yes; RPC_REJ_CHALLENGE: it
 * has to prove it by @challenge, which is filled in; RPC_REJ_KEY: no.
 */
uint8_t rpc_auth_check_req(const struct rpc_conn_wire *req, const struct rdma_addr *from,
			   uint8_t challenge[RPC_NONCE_LEN]);
/*
 * The key that this node shares with node @id in @role and incarnation @incarn: one of the two is
 * the host (@is_host: that one).  False: there is none.
 */
bool rpc_auth_pair_key(uint32_t id, enum node_role role, uint32_t incarn, bool is_host,
		       uint8_t key[RPC_KEY_LEN]);
/*
 * The keyed hash of a datagram: of its header, but for the hash itself, and the @len bytes of its
 * body.  The header says who sends it to which incarnation, and whether it is a reply to which
 * request; a heartbeat's body has a number that counts once.
 */
void rpc_auth_datagram(const uint8_t key[RPC_KEY_LEN], const struct rpc_dgram_wire *hdr,
		       const void *body, size_t len, uint8_t mac[RPC_PROOF_LEN]);
/* The host: add the proof to the REP that answers @req. */
void rpc_auth_rep(struct rpc_conn_wire *rep, const struct rpc_conn_wire *req);

/* peer.c */
struct rpc_peer *rpc_peer_find(uint32_t node);
struct rpc_peer *rpc_peer_alloc(const struct node_info *info);
/* Make a peer whose id has just been learnt visible. -EEXIST when that id is taken. */
int rpc_peer_publish(struct rpc_peer *peer) __must_check;
void rpc_peer_fenced(struct rpc_peer *peer);
void rpc_peer_restarted(struct rpc_peer *peer, const struct rpc_conn_info *info,
			const struct rpc_conn *own);
/* 0: calls may go to it; -EHOSTDOWN: it is no member; -ESTALE: it has fenced this node. */
int rpc_peer_usable(struct rpc_peer *peer) __must_check;
/*
 * Node id, role, incarnation, proof and address of a REQ: which peer is it?  When NULL, the code
 * and the challenge of the REJ are in @rej.
 */
struct rpc_peer *rpc_peer_of_req(const struct rpc_conn_info *info, const struct rpc_conn_wire *wire,
				 const struct rdma_addr *from, struct rpc_rej *rej);
void rpc_peers_for_each(void (*fn)(struct rpc_peer *peer, void *arg), void *arg);

/* session.c */
void rpc_session_init(struct rpc_session *s, struct rpc_peer *peer, uint8_t cls);
int rpc_session_prepare(struct rpc_session *s) __must_check;
/* End every call with @status; slots that the peer may still answer go to quarantine. */
void rpc_session_fail_calls(struct rpc_session *s, int status);
/* Forget what the server side remembers: the client is gone or another incarnation. */
void rpc_session_forget_client(struct rpc_session *s, struct rpc_batch *b) __must_hold(&s->lock);
void rpc_session_tick(struct rpc_session *s, uint64_t now);
/*
 * The call on @slot times out or is cancelled: the slot gets free, or goes to quarantine.  The
 * caller has moved the call to FINISHING and ends it.  True: it releases the call at once.
 */
bool rpc_cslot_give_up_locked(struct rpc_session *s, uint32_t slot, uint64_t now)
	__must_hold(&s->lock);
void rpc_cslot_free_locked(struct rpc_session *s, uint32_t slot) __must_hold(&s->lock);
void rpc_session_wake_slots(struct rpc_session *s);
void rpc_session_kick(struct rpc_session *s);

/* conn.c */
void rpc_conn_work(struct work *w);
int rpc_conn_request_event(struct cm_conn *cm, const struct cm_event *ev, void *arg);
/* Is it the host of the managers, or what answers at its address? */
bool rpc_peer_is_host(const struct rpc_peer *peer);
/* @conn is one of @s, its present one or not. */
void rpc_conn_break_locked(struct rpc_session *s, struct rpc_conn *conn) __must_hold(&s->lock);
void rpc_conn_post_recv(struct rpc_conn *conn, uint32_t nr);

/* send.c: all under the session lock */
/* Post what waits to be posted: requests and replies. */
void rpc_flush_locked(struct rpc_session *s) __must_hold(&s->lock);
int rpc_post_request_locked(struct rpc_conn *conn, uint32_t slot, uint64_t now) __must_check;
/* The doorbell for what was posted while rpc_poll_rings_later(). */
void rpc_ring_locked(struct rpc_conn *conn);
int rpc_post_reply_locked(struct rpc_conn *conn, uint32_t slot, const struct rpc_write *writes,
			  uint32_t nr_writes, bool late) __must_check;
void rpc_reap_locked(struct rpc_conn *conn, struct rpc_batch *b);
void rpc_post_flush_write_locked(struct rpc_conn *conn);

/* client.c */
void rpc_reply_received(struct rpc_conn *conn, const struct rpc_imm *imm);
/*
 * Run done, publish, and release if @release; else the call's slot is in quarantine.  No lock held.
 * @impl came off its slot.
 */
void rpc_call_finish(struct rpc_call_impl *impl, int status, uint32_t reply_len, bool release);
/* The slot of a call that was given up is free: it is released when it has been finished, too. */
void rpc_call_left_quarantine(struct rpc_call_impl *impl);
static inline uint32_t rpc_call_state(struct rpc_call_impl *impl)
{
	return (uint32_t)atomic_read_acquire(&impl->state) & RPC_CALL_STATE_MASK;
}
/* SUBMITTED -> FINISHING, by the thread that takes the call off its slot; the sleeper bit stays. */
static inline void rpc_call_set_finishing(struct rpc_call_impl *impl)
{
	ASSERT(rpc_call_state(impl) == RPC_CALL_SUBMITTED);
	atomic_inc_return(&impl->state);
}

/* When the sender of a request that came at @now stops to wait: struct rpc_request.expires_ns. */
static inline uint64_t rpc_expires_ns(uint64_t now, uint32_t timeout_ms)
{
	return timeout_ms ? now + timeout_ms * NSEC_PER_MSEC : 0;
}

/* server.c */
/* The client of @req waits for its reply no more: the handler's killable waits end. */
void rpc_request_orphan_locked(struct rpc_session *s, struct rpc_request *req)
	__must_hold(&s->lock);
void rpc_request_received(struct rpc_conn *conn, const struct rpc_imm *imm);
/* Find the handler and run it, here or in a worker. */
void rpc_request_dispatch(struct rpc_request *req);
void rpc_request_run(struct rpc_request *req);
/* The same for a handler that waits for other nodes. */
void rpc_request_run_waits(struct rpc_request *req);
extern const struct rpc_handler rpc_own_handlers[];
extern const size_t rpc_nr_own_handlers;

/* dgram.c: requests without a session */
int rpc_dgram_init(void) __must_check;
/* Our side of what @info says about datagrams. */
void rpc_dgram_info_fill(struct rpc_conn_info *info);
void rpc_dgram_learn(struct rpc_peer *peer, const struct rpc_conn_info *info);
uint32_t rpc_dgram_reply_max(const struct rpc_request *req);
void rpc_dgram_reply(struct rpc_request *req, int status, const void *body, uint32_t body_len);

/* worker.c */
int rpc_workers_init(void) __must_check;
void rpc_worker_queue(struct rpc_request *req, bool waits);

/* read.c */
/* Post the read of a BUSY client slot. */
int rpc_post_read_locked(struct rpc_conn *conn, uint32_t slot);
/* A work request of the class's connection has completed. */
void rpc_read_completed(struct rpc_conn *conn, const struct rdma_wc *wc, uint64_t now);
/* One has failed, of any class. */
void rpc_read_failed(struct rpc_conn *conn, const struct rdma_wc *wc);
/*
 * The connection of a BUSY @slot is gone. True: it was a read, which the caller ends with -EIO once
 * it has unlocked; false: it is to be sent again.
 */
bool rpc_read_end_locked(struct rpc_session *s, uint32_t slot);
/* client.c */
void rpc_note_latency_locked(struct rpc_session *s, uint64_t ns);

/* poll.c */
int rpc_poll_init(void) __must_check;
struct rpc_queue *rpc_queue_choose(uint8_t cls);
/* Pass through ownership of the poll once, draining the queue. */
void rpc_poll_barrier(struct rpc_queue *q);
bool rpc_poll_try_once(struct rpc_queue *q);
/* Arm the queue and look at it once more: what comes from now on wakes its net thread. */
void rpc_queue_before_sleep(struct rpc_queue *q);
/*
 * Is this thread processing several completions, and will it call rpc_ring_locked() for @s at
 * their end? Context: session lock.
 */
bool rpc_poll_rings_later(struct rpc_session *s);
/* A late reply of @s waits for the doorbell of another message, or does so no longer. */
void rpc_late_begin_locked(struct rpc_session *s) __must_hold(&s->lock);
void rpc_late_over_locked(struct rpc_session *s) __must_hold(&s->lock);
/* Process what came before the peer was known. */
void rpc_poll_early(struct rpc_conn *conn);

/* tick.c */
int rpc_tick_init(void) __must_check;
void rpc_tick_kick(void);
/* One more or one less reason to tick. */
static inline void rpc_outstanding_inc(void)
{
	atomic_inc_return(&rpc_net.nr_outstanding);
	if (unlikely(atomic_read(&rpc_net.tick_idle)))
		rpc_tick_kick();
}
static inline void rpc_outstanding_dec(void)
{
	atomic_dec(&rpc_net.nr_outstanding);
}

/* bench.c */
#ifdef CONFIG_RPC_BENCH
int rpc_bench_listen(void) __must_check;
#else
static inline int rpc_bench_listen(void)
{
	return 0;
}
#endif
