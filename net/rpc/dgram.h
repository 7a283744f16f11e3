/* SPDX-License-Identifier: MIT */
/*
 * RPC by datagrams, private: the queue pair (dgram.c) and the calls that wait (dgram_call.c).
 *
 * Locking:	rpc_dgram.lock (spin, RANK_NET_QP) guards the buffers, posting, and the table of
 *		waiting calls; a call may only be touched by others while it is in the table.
 * See:		docs/design/rpc.md
 */
#pragma once

#include "rpc_priv.h"

#define RPC_DGRAM_HDR_LEN  ((uint32_t)sizeof(struct rpc_dgram_wire))
#define RPC_DGRAM_HASH     32u
#define RPC_DGRAM_FIRST_NS (20 * NSEC_PER_MSEC) /* until the first repetition, round trip unknown */
#define RPC_DGRAM_SOON_NS (10 * NSEC_PER_MSEC) /* the least; a repetition costs, but does no harm */
#define RPC_DGRAM_SELDOM_NS  (500 * NSEC_PER_MSEC)
#define RPC_DGRAM_LONGEST_NS (60 * NSEC_PER_SEC) /* for callers without a deadline of their own */

/* One end: where it is and what it takes. */
struct rpc_dgram_end {
	struct rdma_addr addr;
	uint32_t qpn, qkey;
	uint32_t incarn;
	uint32_t body_max; /* bytes behind the header that both ends can take */
	bool has_key;      /* what goes between the two has a keyed hash */
	uint8_t key[RPC_KEY_LEN];
};

/* A request that lies in receive buffer number @slot until it is answered. */
struct rpc_dgram_request {
	struct rpc_request req;
	struct rpc_dgram_end from;
	uint32_t slot;
	uint16_t attempt;
	bool is_held; /* not answered yet; rpc_dgram.lock */
};

/* One call; on its caller's stack. */
struct rpc_dgram_call {
	struct list_head link; /* table; rpc_dgram.lock, as are the results below */
	struct rpc_peer *peer;
	struct rpc_dgram_end to;
	uint64_t req_id, deadline_ns, sent_ns;
	uint64_t interval_ns; /* until the next repetition */
	uint16_t opcode, attempt;
	const void *body;
	uint32_t body_len;
	void *reply;
	uint32_t reply_max;
	bool is_done;
	int status;
	uint32_t reply_len;
	struct waitqueue wq;
};

struct rpc_dgram_net {
	struct spinlock lock;
	struct rdma_qp *qp; /* lock; the receiving thread replaces it */
	uint32_t qpn;       /* atomic */
	struct rdma_cq *recv_cq, *send_cq;
	struct rdma_mr *mr;
	uint8_t *buf; /* nr_recv receive buffers, then nr_send send buffers */
	paddr_t phys;
	uint32_t stride, nr_recv, nr_send; /* const */
	uint32_t qkey;                     /* const */
	enum rdma_mtu mtu;                 /* const */
	bool is_broken;                    /* lock, read without: a new queue pair is needed */
	bool is_dead;     /* lock, read without: but not before the device is back */
	atomic_t nr_held; /* receive buffers that requests lie in */
	struct rpc_dgram_request *requests; /* by receive buffer */
	uint32_t *send_free __guarded_by(&lock);
	uint32_t nr_send_free __guarded_by(&lock);
	struct list_head calls[RPC_DGRAM_HASH] __guarded_by(&lock);
	struct waitqueue wq; /* the receiving thread */
	atomic_t event;
	atomic_t is_lost; /* the device is back, without the queue pair */
	struct rdma_event_handler handler;
};
extern struct rpc_dgram_net rpc_dgram;

COUNTER_DECLARE(rpc_c_dgram_sent);
COUNTER_DECLARE(rpc_c_dgram_resent);
COUNTER_DECLARE(rpc_c_dgram_received);
COUNTER_DECLARE(rpc_c_dgram_answered);
COUNTER_DECLARE(rpc_c_dgram_replies);
COUNTER_DECLARE(rpc_c_dgram_late);
COUNTER_DECLARE(rpc_c_dgram_timeouts);
COUNTER_DECLARE(rpc_c_dgram_dropped);
COUNTER_DECLARE(rpc_c_dgram_stale);
COUNTER_DECLARE(rpc_c_dgram_forged);
COUNTER_DECLARE(rpc_c_dgram_malformed);
COUNTER_DECLARE(rpc_c_dgram_renewed);
HISTOGRAM_DECLARE(rpc_h_dgram_latency);

/* dgram.c */
/* Without the thread: all that a fuzzer needs. */
int rpc_dgram_create(void) __must_check;
/* Look once at what has come; returns how many datagrams there were. */
int rpc_dgram_poll(void);
/* -ENOBUFS: all send buffers are under way; else what post_send says. */
int rpc_dgram_post(const struct rpc_dgram_end *to, const struct rpc_dgram_hdr *hdr,
		   const void *body) __must_check;
/* Where @peer takes datagrams, as far as we know, whatever its state. False: nobody has told us. */
bool rpc_dgram_end_of(struct rpc_peer *peer, struct rpc_dgram_end *end);

/* dgram_call.c */
int rpc_dgram_call_begin(struct rpc_dgram_call *call, uint64_t timeout_ns) __must_check;
/* Send it (again). 0, or why there is no use in going on. */
int rpc_dgram_call_send(struct rpc_dgram_call *call, uint64_t now) __must_check;
/*
 * Nothing touches @call after this. Bytes of reply, or @err when none came, or the reply's
 * status.
 */
int rpc_dgram_call_end(struct rpc_dgram_call *call, int err) __must_check;
/* A reply from @peer, whose address has been checked. */
void rpc_dgram_reply_received(struct rpc_peer *peer, const struct rpc_dgram_hdr *hdr,
			      const void *body);
