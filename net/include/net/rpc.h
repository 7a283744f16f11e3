/* SPDX-License-Identifier: MIT */
/*
 * RPC over RDMA verbs: the only way in which components talk.
 *
 * Flow:	client: rpc_call_alloc() -> fill -> rpc_call_submit() -> rpc_call_wait() (or its
 *		done function) -> rpc_call_put().  rpc_call_sync() does it all for small
 *		messages.  server: rpc_handlers_register(); a handler reads the request, acts,
 *		and answers once by rpc_reply() or rpc_reply_bulk(), from the handler or later
 *		from any thread.  Calls are reliable, one at a time or several to several nodes
 *		(rpc_multicast), or connectionless, repeated by the client (rpc_datagram_sync).
 * Invariants:	each peer and traffic class has one session of nr_slots slots and one RC queue
 *		pair below it.  The caller owns a slot from submit until its reply has come;
 *		free slots are the credits, so the receiver's ring never overruns.  The server
 *		remembers the last request id and the last small reply of each slot, so a
 *		request that is retransmitted after a broken connection is executed at most
 *		once.
 * Context:	submit never sleeps and may be called with spinlocks below RANK_RPC held; it
 *		answers -EAGAIN when no slot is free.  submit_wait, wait, sync and slot_wait
 *		sleep.  Inline handlers and done functions run in polling context: they never
 *		sleep and never wait for an RPC.
 * Failure:	a call whose caller gave no deadline waits until it is answered or membership says
 *		that the peer is gone: a silent peer ends no call.  -EHOSTDOWN: the peer is no
 *		member (any more), or another incarnation has taken its place; -ESTALE: the peer
 *		has fenced this node; -ETIMEDOUT: the caller's deadline passed; -EPROTO: the two
 *		nodes' numbers of slots do not fit; -EINTR: a killable wait was
 *		interrupted; else the negative errno that the handler replied.  After -ETIMEDOUT
 *		and -EINTR the slot and the reply's target are in quarantine: release() says
 *		when the target may be reused, which is when the late reply has come or the
 *		connection has been reset.
 * See:		docs/protocol/rpc.md, design: docs/design/rpc.md
 */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>
#include <net/node.h>
#include <net/spin.h>

/*
 * Traffic classes: each has its own queue pair, ring and completion queue, so none queues behind
 * another.
 */
enum rpc_class {
	RPC_CLASS_CONTROL = 0,   /* membership, mmap family, exec, lookups */
	RPC_CLASS_DEMAND = 1,    /* fetches that a thread waits for */
	RPC_CLASS_PREFETCH = 2,  /* read-ahead */
	RPC_CLASS_WRITEBACK = 3, /* dirty lines */
	RPC_NR_MSG_CLASSES,
	/* One-sided: no message, no CPU of the peer. */
	RPC_CLASS_READ = RPC_NR_MSG_CLASSES, /* reads that a thread waits for */
	RPC_CLASS_READ_AHEAD,                /* reads of what may be wanted next */
	RPC_NR_CLASSES,
};

static inline bool rpc_class_is_read(enum rpc_class cls)
{
	return cls >= RPC_CLASS_READ;
}

/* Limits of one message.  A request that exceeds them is refused with -EMSGSIZE at submit. */
#define RPC_BODY_MAX     2048  /* bytes of body, request or reply (classes other than control) */
#define RPC_BODY_MAX_CTL 16384 /* in the control class */
#define RPC_BULK_MAX     (32 * 4096) /* bytes of bulk behind a request body: write-back class */
#define RPC_BULK_MAX_ONE 4096        /* in the control and demand classes; prefetch: none */
#define RPC_READ_MAX     (16 * 4096) /* bytes of one read ahead */
#define RPC_WRITES_MAX   64          /* bulk WRITEs of one reply */

/* --- registered memory --------------------------------------------------------------- */

/* A set of roles of peers. */
#define RPC_ROLE(role) (1u << (role))
#define RPC_ROLES_NONE 0u
#define RPC_ROLES_ALL \
	(RPC_ROLE(NODE_ROLE_PROCESSOR) | RPC_ROLE(NODE_ROLE_MEMORY) | RPC_ROLE(NODE_ROLE_STORAGE))

/*
 * A run of frames that this node sends from, or that peers write.  Addresses in messages and SGEs
 * are physical addresses inside the run.  Each peer has a protection domain, and the run is a
 * region of it only if the peer's role is in @sent_to (we send from the run to such peers) or in
 * @written_by (they may write it, and it may be sent to them).  So a peer's key opens nothing to
 * another one.  -ENOSPC: there are RPC_MEMS_MAX runs already.  Sleeps.
 */
struct rpc_mem;
struct rpc_mem *rpc_mem_register(paddr_t start, uint64_t len, uint32_t sent_to,
				 uint32_t written_by);
/*
 * The same for a run that node @node alone may read, without a request (RPC_CLASS_READ).  It reads
 * by addresses that count from 0, so it learns none of this node.  The right goes
 * by the node id: the next incarnation there may read the run as well, if it has the key.  So a
 * caller that gives one incarnation something that the next must not see unregisters the run when
 * membership says that this one is gone.
 */
struct rpc_mem *rpc_mem_register_read(paddr_t start, uint64_t len, uint32_t node);
/*
 * No call or reply of this node uses it any more. A peer that uses its key from now on is
 * refused.
 */
void rpc_mem_unregister(struct rpc_mem *mem);
/*
 * The key that @node writes or reads the run with; 0: it may not, or membership has not introduced
 * it.
 */
uint32_t rpc_mem_rkey(const struct rpc_mem *mem, uint32_t node);

/* A piece of registered local memory. */
struct rpc_sge {
	const struct rpc_mem *mem;
	paddr_t addr;
	uint32_t len;
};

/* --- polling ------------------------------------------------------------------------- */

/*
 * For threads that wait on a condition of their own which a done function makes true: look once for
 * completions and run what they cause.  Never sleeps.  True when there was something.
 */
bool rpc_poll(void);

/*
 * For a thread that will sleep until @done(@arg): poll as long as that usually takes, at most
 * rpc.spin_us, and while no other thread has a use for this CPU. True: it is done. It does not look
 * for signals. Context: may sleep; no spinlock.
 */
bool rpc_poll_until(struct rpc_spin *spin, bool (*done)(void *arg), void *arg);
/* It was waited for for @ns in all, by polling or not. */
void rpc_spin_waited(struct rpc_spin *spin, uint64_t ns);
/* Such a thread calls this before it sleeps, then checks its condition once more. */
void rpc_poll_before_sleep(void);

/* --- client -------------------------------------------------------------------------- */

struct rpc_call;

/*
 * The parts of a call that the caller fills in between alloc and submit, and reads after it is
 * done. A call is reference counted: the caller holds one reference, the RPC layer another from
 * submit until release.
 */
struct rpc_call {
	/* request: set by the caller */
	uint32_t peer; /* node id */
	enum rpc_class cls;
	uint16_t opcode;
	const void *body; /* copied at submit */
	uint32_t body_len;
	const struct rpc_sge
		*bulk; /* read by the device until done: the array is copied, data not */
	uint32_t nr_bulk;
	uint64_t deadline_ns; /* absolute, monotonic; 0 = none */
	uint32_t data_len;    /* bytes that the answer writes to the caller: for the window alone */
	bool waits;           /* its handler may wait as those of rpc_set_waits() do */
	void *reply;          /* reply body is copied here; NULL = not wanted */
	uint32_t reply_max;   /* a longer reply ends the call with -EMSGSIZE */
	/* optional; polling context; done runs exactly once after a successful submit */
	void (*done)(struct rpc_call *call);
	/* optional; runs once when neither bulk nor the targets named in the body can be touched by
	 * this call any more; with a normal reply right after done */
	void (*release)(struct rpc_call *call);
	void *arg; /* the caller's */
	/*
	 * One-sided: bytes at @remote_addr, in the peer's memory that it lets this node read,
	 * are put into @bulk, which is registered for the peer to write. No body, opcode or reply.
	 * -EIO: refused, or the connection broke; then the peer is to be asked by a request.
	 */
	uint64_t remote_addr;
	uint32_t rkey;

	/* result: valid from done on */
	int status;         /* 0 or negative errno */
	bool answered;      /* the peer said so: false when the call ended without its reply */
	bool refused;       /* one-sided: by the peer's device, this very read */
	uint32_t reply_len; /* bytes of reply body */
};

struct rpc_call *rpc_call_alloc(void); /* NULL: no memory */
/* The same with its request filled in, for the caller to add what else it needs. */
static inline struct rpc_call *rpc_call_create(uint32_t peer, enum rpc_class cls, uint16_t opcode,
					       const void *body, uint32_t body_len)
{
	struct rpc_call *call = rpc_call_alloc();

	if (call) {
		call->peer = peer;
		call->cls = cls;
		call->opcode = opcode;
		call->body = body;
		call->body_len = body_len;
	}
	return call;
}
void rpc_call_put(struct rpc_call *call);
/* 0, -EAGAIN (no free slot: see rpc_call_submit_wait), -EHOSTDOWN, -EMSGSIZE, -ENOMEM. */
int rpc_call_submit(struct rpc_call *call) __must_check;
/*
 * Submit @call; while no slot is free, sleep until one is and try again.  @slot_timeout_ns is the
 * longest time to wait for a slot, relative: 0 = until the call's own deadline; WAIT_FOREVER = as
 * long as it takes. 0, -ETIMEDOUT (no slot in time), else as rpc_call_submit(), but never
 * -EAGAIN.
 */
int rpc_call_submit_wait(struct rpc_call *call, uint64_t slot_timeout_ns) __must_check;
/*
 * Submit calls to one peer in one class, in order, as one chain: the device hears of all of them by
 * one doorbell.  *@nr_submitted of them were; when that is less than @nr, the result says why the
 * next one was not, as rpc_call_submit() does (-EINVAL: it is for another peer or class).
 */
int rpc_calls_submit(struct rpc_call *const *calls, size_t nr, size_t *nr_submitted) __must_check;
/*
 * Might a call whose handler waits for no other node be submitted now?  Never sleeps; the slot may
 * be gone at once.
 */
bool rpc_slot_is_free(uint32_t peer, enum rpc_class cls);
/*
 * How many calls might be posted now, one-sided ones at once: 0 while there is no connection, which
 * is asked for then. Never sleeps.
 */
uint32_t rpc_slots_free(uint32_t peer, enum rpc_class cls);
/* Pieces of memory that one call of RPC_CLASS_READ_AHEAD may fill: 1 at least. */
uint32_t rpc_read_pieces_max(void);
/*
 * The same for as long as it takes, but ends with -EINTR when the waiting thread is to be killed,
 * or runs a handler whose client has given up.
 */
int rpc_call_submit_killable(struct rpc_call *call) __must_check;
/*
 * The same until @until_ns, absolute: -ETIMEDOUT, there was no slot by then; -EINTR only if
 * @killable.
 */
int rpc_call_submit_until(struct rpc_call *call, uint64_t until_ns, bool killable) __must_check;
/*
 * Which requests have handlers that may wait for third nodes for ever: @fn says so by the opcode.
 * Such calls take at most half of the slots of a session, so that what does not need the third
 * node goes on when it is silent. Set once, before the first request.
 */
void rpc_set_waits(bool (*fn)(uint16_t opcode));
/*
 * For tracing: the sending thread calls @fn for each request; it may hold spinlocks.  Set once,
 * before the first request.
 */
void rpc_set_observer(void (*fn)(uint32_t peer, uint16_t opcode));
/* Spin a bounded, adaptive time, then sleep, until done. Returns call->status. */
int rpc_call_wait(struct rpc_call *call);
/* The same, but ends with -EINTR when the waiting thread is to be killed; the call is cancelled. */
int rpc_call_wait_killable(struct rpc_call *call);
/*
 * The same, but the call goes on: false, the thread is to be killed before it is done. Another one
 * waits for it then.
 */
bool rpc_call_wait_or_leave(struct rpc_call *call) __must_check;
/*
 * The same until @until_ns, absolute. 0: it is done, with call->status; -ETIMEDOUT; -EINTR, only if
 * @killable.
 */
int rpc_call_wait_until(struct rpc_call *call, uint64_t until_ns, bool killable) __must_check;
/* Give up: done runs with -ECANCELED unless it has run; the target stays in quarantine. */
void rpc_call_cancel(struct rpc_call *call);

/*
 * Send @body, wait for a slot and the reply. Returns the reply's length in bytes, or a negative
 * errno. @timeout_ns relative; 0 = none.
 */
int rpc_call_sync(uint32_t peer, enum rpc_class cls, uint16_t opcode, const void *body,
		  uint32_t body_len, void *reply, uint32_t reply_max, uint64_t timeout_ns);
/*
 * A connection to @peer may have lost its other end: give it up, so that the next call makes a new
 * one.  The transport would need many seconds to find out.  Calls under way go on over the new one.
 * Takes a spinlock; an unknown node is nobody.
 */
void rpc_peer_reconnect(uint32_t peer, enum rpc_class cls);
/*
 * The same, but ends with -EINTR when the thread is to be killed: the peer may
 * execute the request all the same.
 */
int rpc_call_sync_killable(uint32_t peer, enum rpc_class cls, uint16_t opcode, const void *body,
			   uint32_t body_len, void *reply, uint32_t reply_max, uint64_t timeout_ns);

/*
 * Several calls, to any number of nodes, in about one round trip: submit all, then wait for
 * all. Each call has its own status, also one that could not be submitted; a target that fails
 * does not keep the others from being asked.  Returns 0, or the status of the first call that
 * failed.  So far for tests.
 */
int rpc_multicast(struct rpc_call **calls, size_t nr_calls);

/* May calls be made to @node now? 0; -EHOSTDOWN: no member; -ESTALE: it has fenced this node. */
int rpc_peer_reachable(uint32_t node);

/* --- client, connectionless -------------------------------------------------------------- */

/*
 * Ask @peer by datagrams, which are sent again, ever less often, until an answer comes or the
 * time is over.  No connection is needed or made, only that the peer has been connected once in
 * its present life (that is when the two tell each other their addresses).  The handler must
 * have RPC_HANDLER_DATAGRAM; it may run several times, at the same time, and after a later
 * request has. Sleeps.  @timeout_ns relative; 0 = a minute.  @reply NULL = not wanted.
 *
 * Returns the reply's length in bytes; -EMSGSIZE: @body or the reply does not fit;
 * -EHOSTUNREACH: it has not been connected in its present life; -EHOSTDOWN: no member; -ESTALE:
 * it has fenced us; -ETIMEDOUT; -ENETDOWN: this node's queue pair for datagrams has failed;
 * -EOPNOTSUPP: the opcode is not served by datagram; -ENOSYS: nor at all; else what the handler
 * replied.
 */
int rpc_datagram_sync(uint32_t peer, uint16_t opcode, const void *body, uint32_t body_len,
		      void *reply, uint32_t reply_max, uint64_t timeout_ns);
/* Bytes that such a request or reply may have: one MTU without the header. 0: cannot be asked. */
uint32_t rpc_datagram_max(uint32_t peer);
/*
 * Does @peer answer? By datagram, which waits behind no request; by connection to one that has none
 * yet. 0: it does, and takes this node for a member; -ESTALE: it does, and has fenced this node;
 * else nothing came in time, or no answer can. Sleeps.
 */
int rpc_ping(uint32_t peer, uint64_t timeout_ns) __must_check;

/* --- server -------------------------------------------------------------------------- */

struct rpc_request; /* one request being served; lives until it is answered */

enum rpc_handler_flags {
	/*
	 * Try in polling context first.  The handler must not sleep; when it would have to, it
	 * returns RPC_AGAIN before any effect and is run again in a worker.
	 */
	RPC_HANDLER_INLINE = 1 << 0,
	/* Running it twice does no harm: its reply need not be remembered. */
	RPC_HANDLER_IDEMPOTENT = 1 << 1,
	/*
	 * It may wait for another node.  Such handlers get threads of their own (as many as there
	 * are requests), so that no request on which they wait starves behind them, and at most
	 * half of a session's requests. When the client gives up, the handler's killable waits end
	 * with -EINTR.
	 */
	RPC_HANDLER_WAITS = 1 << 2,
	/*
	 * It may be called by datagram as well.  Needs RPC_HANDLER_IDEMPOTENT, and more than
	 * that: a datagram may come twice, and long after what was sent behind it.  Not for
	 * handlers that wait.
	 */
	RPC_HANDLER_DATAGRAM = 1 << 3,
	/* Only nodes in these roles may call it, others get -EPERM; none of the three: all may. */
	RPC_HANDLER_FROM_PROCESSOR = 1 << 4,
	RPC_HANDLER_FROM_MEMORY = 1 << 5,
	RPC_HANDLER_FROM_STORAGE = 1 << 6,
	/*
	 * It is run whatever view the sender has. Requests for others are repeated until the sender
	 * has as new a view as this node, or cannot get it; datagrams are not.
	 */
	RPC_HANDLER_ANY_EPOCH = 1 << 7,
};

enum rpc_handler_result {
	RPC_DONE,  /* answered, or will be later, by the holder of the request */
	RPC_AGAIN, /* inline only: run me again where I may sleep */
};

struct rpc_handler {
	uint16_t opcode;
	uint16_t flags; /* enum rpc_handler_flags */
	const char *name;
	enum rpc_handler_result (*fn)(struct rpc_request *req, void *arg);
};

/* Register a table for the life of the kernel. -EEXIST when an opcode is taken, -EINVAL flags. */
int rpc_handlers_register(const struct rpc_handler *table, size_t nr, void *arg) __must_check;

uint32_t rpc_request_peer(const struct rpc_request *req);   /* node id, checked by the connection */
uint32_t rpc_request_incarn(const struct rpc_request *req); /* of the peer, when it asked */
bool rpc_request_is_datagram(const struct rpc_request *req); /* for tests */
bool rpc_request_may_sleep(const struct rpc_request *req);
/* Bytes that the body of the reply may have: depends on the session's class, and on datagrams. */
uint32_t rpc_request_reply_max(const struct rpc_request *req);
/*
 * The body and the bulk lie in ring memory that a hostile peer can still change: copy, then check.
 * Valid until the request is answered.
 */
const void *rpc_request_body(const struct rpc_request *req, uint32_t *len);
const void *rpc_request_bulk(const struct rpc_request *req, uint32_t *len);
/* A private copy of the body in @buf; *@len of it. -EMSGSIZE: it is longer than @size bytes. */
int rpc_request_copy(const struct rpc_request *req, void *buf, size_t size, uint32_t *len)
	__must_check;

/*
 * @req will be answered when somebody has used its bulk where it lies, which may take long. At most
 * half of a session's slots may be kept so, and none of a single one. False: answer it now.
 */
bool rpc_request_keep(struct rpc_request *req);

/* One piece of data that goes straight from local registered memory to the caller's memory. */
struct rpc_write {
	struct rpc_sge src;
	uint64_t remote_addr;
	uint32_t rkey;
};

/* Answer with a status (0 or negative errno) and a small body. Consumes @req. Never sleeps. */
void rpc_reply(struct rpc_request *req, int status, const void *body, uint32_t body_len);
/*
 * The same, for a reply whose sender expects to send a message to that peer in the same class at
 * once: the two share a doorbell. Without one the reply goes out rpc.late_us later.
 */
void rpc_reply_late(struct rpc_request *req, int status, const void *body, uint32_t body_len);
/*
 * rpc_reply(), preceded by up to RPC_WRITES_MAX data WRITEs, all on one doorbell.  @sent (may be
 * NULL) runs once, in polling context, when the sources are no longer read.
 */
void rpc_reply_bulk(struct rpc_request *req, int status, const void *body, uint32_t body_len,
		    const struct rpc_write *writes, size_t nr_writes, void (*sent)(void *arg),
		    void *arg);
