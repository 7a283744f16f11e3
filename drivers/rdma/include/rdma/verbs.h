/* SPDX-License-Identifier: MIT */
/*
 * RDMA verbs: the one API above every RDMA provider (mlx4, roce, and the in-memory one of the
 * host tests).
 *
 * Flow:	a provider registers a struct rdma_device; a user allocates a protection domain,
 *		registers memory, makes completion queues and queue pairs, brings each queue pair
 *		INIT -> RTR -> RTS, posts work requests and polls completions.
 * Context:	creating, modifying and destroying objects may sleep.  post_send, post_recv,
 *		ring_send, poll_cq and arm_cq never sleep, never allocate, and may be called with
 *		spinlocks of a rank below RANK_RDMA held.  They are safe on several CPUs at once.
 * Ordering:	on one RC queue pair, work requests execute in posting order and their data is
 *		placed in that order; a completion with an error is followed by flush completions
 *		of everything posted behind it.
 * Limits:	those in struct rdma_device_attr; posting beyond them answers -EINVAL or -ENOMEM.
 * See:		InfiniBand Architecture Specification volume 1, chapters 9 to 11.
 */
#pragma once

#include <lib/compiler.h>
#include <lib/list.h>
#include <lib/types.h>

struct rdma_device;
struct rdma_pd;
struct rdma_mr;
struct rdma_cq;
struct rdma_qp;

/* A global identifier: 128 bits in network byte order. */
struct rdma_gid {
	uint8_t raw[16];
};

/*
 * Where a port is.  An InfiniBand provider needs @dlid; a RoCE provider needs @dgid and
 * @has_grh.
 */
struct rdma_addr {
	struct rdma_gid dgid;
	uint16_t dlid; /* host order; 0 on RoCE */
	uint8_t sl;
	bool has_grh; /* send a global route header */
};

enum rdma_port_state {
	RDMA_PORT_DOWN = 1,
	RDMA_PORT_INIT = 2,
	RDMA_PORT_ARMED = 3,
	RDMA_PORT_ACTIVE = 4,
};

enum rdma_mtu { /* the wire's code points */
	RDMA_MTU_256 = 1,
	RDMA_MTU_512 = 2,
	RDMA_MTU_1024 = 3,
	RDMA_MTU_2048 = 4,
	RDMA_MTU_4096 = 5,
};

struct rdma_port_attr {
	enum rdma_port_state state;
	enum rdma_mtu active_mtu;
	uint16_t lid;        /* host order; 0 on RoCE */
	uint16_t sm_lid;     /* host order; 0 on RoCE */
	struct rdma_gid gid; /* GID index 0 */
	uint32_t pkey_table_len;
};

struct rdma_device_attr {
	uint32_t max_qp;
	uint32_t max_cq;
	uint32_t max_mr;
	uint32_t max_qp_wr; /* work requests in one queue */
	uint32_t max_cqe;
	uint32_t max_sge;    /* in one work request, send or receive */
	uint32_t max_inline; /* bytes that a send may carry in its WQE */
	uint32_t max_rd_atomic;
	uint8_t nr_ports;
	uint32_t nr_comp_vectors;
};

enum rdma_access {
	RDMA_ACCESS_LOCAL_WRITE = 1 << 0,
	RDMA_ACCESS_REMOTE_WRITE = 1 << 1,
	RDMA_ACCESS_REMOTE_READ = 1 << 2,
	RDMA_ACCESS_REMOTE_ATOMIC = 1 << 3,
};

enum rdma_qp_type {
	RDMA_QPT_RC,
	RDMA_QPT_UD,
	RDMA_QPT_GSI, /* QP1 of a port: UD work requests, at most one per port */
};

enum rdma_qp_state {
	RDMA_QPS_RESET,
	RDMA_QPS_INIT,
	RDMA_QPS_RTR,
	RDMA_QPS_RTS,
	RDMA_QPS_ERR,
};

enum rdma_wr_opcode {
	RDMA_WR_SEND,
	RDMA_WR_SEND_WITH_IMM,
	RDMA_WR_WRITE,
	RDMA_WR_WRITE_WITH_IMM,
	RDMA_WR_READ,
	RDMA_WR_ATOMIC_CAS,
	RDMA_WR_ATOMIC_FETCH_ADD,
};

enum rdma_send_flags {
	RDMA_SEND_SIGNALED = 1 << 0,
	RDMA_SEND_SOLICITED = 1 << 1,
	RDMA_SEND_INLINE = 1 << 2, /* data is copied into the WQE before post_send returns */
	RDMA_SEND_FENCE = 1 << 3,
	/*
	 * On a list's last request: no doorbell for this list.  Its requests need not begin before
	 * rdma_ring_send(), or a request of a later list without the flag.
	 */
	RDMA_SEND_DEFER = 1 << 4,
};

enum rdma_wc_status {
	RDMA_WC_SUCCESS,
	RDMA_WC_LOC_LEN_ERR,
	RDMA_WC_LOC_QP_OP_ERR,
	RDMA_WC_LOC_PROT_ERR,
	RDMA_WC_WR_FLUSH_ERR,
	RDMA_WC_MW_BIND_ERR,
	RDMA_WC_BAD_RESP_ERR,
	RDMA_WC_LOC_ACCESS_ERR,
	RDMA_WC_REM_INV_REQ_ERR,
	RDMA_WC_REM_ACCESS_ERR,
	RDMA_WC_REM_OP_ERR,
	RDMA_WC_RETRY_EXC_ERR,
	RDMA_WC_RNR_RETRY_EXC_ERR,
	RDMA_WC_REM_ABORT_ERR,
	RDMA_WC_FATAL_ERR, /* the device itself failed */
	RDMA_WC_GENERAL_ERR,
};

enum rdma_wc_opcode {
	RDMA_WC_SEND,
	RDMA_WC_WRITE,
	RDMA_WC_READ,
	RDMA_WC_ATOMIC_CAS,
	RDMA_WC_ATOMIC_FETCH_ADD,
	RDMA_WC_RECV,           /* a SEND arrived */
	RDMA_WC_RECV_WRITE_IMM, /* a WRITE with immediate arrived */
};

enum rdma_wc_flags {
	RDMA_WC_WITH_IMM = 1 << 0,
	RDMA_WC_GRH = 1 << 1, /* UD: the first 40 bytes of the buffer hold a valid GRH */
};

struct rdma_sge {
	uint64_t addr; /* in the memory region's address range */
	uint32_t len;  /* bytes */
	uint32_t lkey;
};

/* For RDMA_SEND_INLINE, @addr of each SGE is a kernel pointer and @lkey is ignored. */
struct rdma_send_wr {
	struct rdma_send_wr *next; /* a chain is posted with one doorbell */
	uint64_t wr_id;
	const struct rdma_sge *sge;
	uint32_t nr_sge;
	enum rdma_wr_opcode opcode;
	uint32_t flags; /* enum rdma_send_flags */
	uint32_t imm;   /* host order; on the wire big-endian */
	/* WRITE, READ, atomics */
	uint64_t remote_addr;
	uint32_t rkey;
	/* atomics: compare_add is the addend of FETCH_ADD, the expected value of CAS */
	uint64_t compare_add;
	uint64_t swap;
	/* UD and GSI */
	struct rdma_addr dest;
	uint32_t dest_qpn;
	uint32_t dest_qkey;
	uint16_t pkey_index;
};

struct rdma_recv_wr {
	struct rdma_recv_wr *next;
	uint64_t wr_id;
	const struct rdma_sge *sge;
	uint32_t nr_sge; /* may be 0 where only WRITE with immediate is received */
};

struct rdma_wc {
	uint64_t wr_id;
	struct rdma_qp *qp;         /* may be gone when another thread destroys queue pairs */
	void *context;              /* struct rdma_qp_init's */
	enum rdma_wc_status status; /* the fields below are valid on success only */
	enum rdma_wc_opcode opcode;
	uint32_t byte_len; /* receive and READ */
	uint32_t flags;    /* enum rdma_wc_flags */
	uint32_t imm;      /* host order */
	uint32_t vendor_err;
	/* UD and GSI receive */
	uint32_t src_qpn;
	uint16_t slid;
	uint16_t pkey_index;
	uint8_t sl;
};

/* A run of physical memory in a region. */
struct rdma_phys_range {
	paddr_t paddr; /* page aligned */
	uint64_t len;  /* bytes, a multiple of the page size */
};

struct rdma_qp_init {
	enum rdma_qp_type type;
	struct rdma_cq *send_cq;
	struct rdma_cq *recv_cq;
	uint32_t max_send_wr;
	uint32_t max_recv_wr;
	uint32_t max_send_sge;
	uint32_t max_recv_sge;
	uint32_t max_inline;
	uint8_t port;  /* 1-based */
	uint32_t qkey; /* UD and GSI */
	void *context; /* the owner's; each completion brings it back */
};

/* Everything a connected queue pair must know of its peer, for INIT -> RTR -> RTS. */
struct rdma_qp_conn {
	struct rdma_addr addr;
	uint32_t remote_qpn;
	uint32_t rq_psn; /* the peer's first PSN */
	uint32_t sq_psn; /* ours */
	enum rdma_mtu path_mtu;
	uint8_t ack_timeout;   /* 4.096 us * 2^n; 0 = never */
	uint8_t retry_cnt;     /* 0..7 */
	uint8_t rnr_retry;     /* 0..7, 7 = for ever */
	uint8_t min_rnr_timer; /* code of the specification's table 45 */
	uint8_t max_rd_atomic;
	uint8_t max_dest_rd_atomic;
	uint32_t access; /* what the peer may do: enum rdma_access */
};

enum rdma_event_type {
	RDMA_EVENT_PORT_ACTIVE,
	RDMA_EVENT_PORT_DOWN,
	RDMA_EVENT_LID_CHANGE,
	RDMA_EVENT_QP_FATAL,
	RDMA_EVENT_QP_ACCESS, /* the peer asked for memory that it was not given; it is in ERR */
	RDMA_EVENT_CQ_ERR,
	RDMA_EVENT_DEVICE_FATAL, /* everything outstanding is flushed; nothing goes out any more */
	/*
	 * The device is back: regions, with their keys, and completion queues are as they were, the
	 * latter empty.  Queue pairs from before are lost for good: destroy them and make new ones.
	 */
	RDMA_EVENT_DEVICE_UP,
};

struct rdma_event {
	enum rdma_event_type type;
	struct rdma_device *dev;
	uint8_t port;
	struct rdma_qp *qp; /* QP events: it lives as long as the handler runs */
	struct rdma_cq *cq; /* CQ events */
};

struct rdma_event_handler {
	struct list_head node;
	void (*fn)(struct rdma_event_handler *h, const struct rdma_event *ev); /* thread context */
};

/* --- devices ------------------------------------------------------------------------- */

/*
 * Wait until @deadline_ns for a device to come up (a provider to register).  @name is what
 * rdma_device_name() answers; "" = the first device; NULL = the one that boot parameter rdma.device
 * names.  NULL: it did not come up.
 */
struct rdma_device *rdma_device_wait(const char *name, uint64_t deadline_ns);
const char *rdma_device_name(const struct rdma_device *dev);
void rdma_device_attr(const struct rdma_device *dev, struct rdma_device_attr *attr);
int rdma_port_attr(struct rdma_device *dev, uint8_t port, struct rdma_port_attr *attr) __must_check;
void rdma_event_register(struct rdma_device *dev, struct rdma_event_handler *h);
void rdma_event_unregister(struct rdma_device *dev, struct rdma_event_handler *h);

/* --- objects: may sleep; ERR_PTR on failure; destroy in the reverse order of creation ---- */

struct rdma_pd *rdma_pd_create(struct rdma_device *dev);
void rdma_pd_destroy(struct rdma_pd *pd);

/*
 * Register @nr_ranges runs of physical memory as one region that begins at address @iova and holds
 * the runs one behind the other.  The caller keeps the memory until rdma_mr_destroy() returned,
 * after which no peer reaches it.
 */
struct rdma_mr *rdma_mr_create(struct rdma_pd *pd, uint64_t iova,
			       const struct rdma_phys_range *ranges, size_t nr_ranges,
			       uint32_t access);
void rdma_mr_destroy(struct rdma_mr *mr);
uint32_t rdma_mr_lkey(const struct rdma_mr *mr);
uint32_t rdma_mr_rkey(const struct rdma_mr *mr);

/*
 * @event runs in interrupt context, once per arm, when a completion that arrived after the last
 * event is in the queue.  @vector < nr_comp_vectors: it interrupts CPU @vector % (CPUs online).
 */
struct rdma_cq *rdma_cq_create(struct rdma_device *dev, uint32_t nr_cqe, uint32_t vector,
			       void (*event)(struct rdma_cq *cq, void *arg), void *arg);
void rdma_cq_destroy(struct rdma_cq *cq); /* no event runs once it has returned */

/* The new queue pair is in RESET. */
struct rdma_qp *rdma_qp_create(struct rdma_pd *pd, const struct rdma_qp_init *init);
/* Once this has returned, nothing that was under way through @qp touches memory any more. */
void rdma_qp_destroy(struct rdma_qp *qp);
uint32_t rdma_qp_num(const struct rdma_qp *qp);
enum rdma_qp_type rdma_qp_type(const struct rdma_qp *qp);
void *rdma_qp_context(const struct rdma_qp *qp); /* struct rdma_qp_init's */
/* RESET -> INIT (receives may be posted from here on). */
int rdma_qp_to_init(struct rdma_qp *qp, uint32_t access) __must_check;
/* INIT -> RTR, RTR -> RTS. */
int rdma_qp_to_rtr(struct rdma_qp *qp, const struct rdma_qp_conn *conn) __must_check;
int rdma_qp_to_rts(struct rdma_qp *qp, const struct rdma_qp_conn *conn) __must_check;
/* UD and GSI: RESET -> RTS in one go. */
int rdma_qp_to_rts_ud(struct rdma_qp *qp) __must_check;
/*
 * Any -> ERR: outstanding work is flushed.  Once it has returned, the peer's accesses are
 * refused.
 */
int rdma_qp_to_err(struct rdma_qp *qp) __must_check;

/* --- fast path: never sleeps --------------------------------------------------------- */

/*
 * 0, or -EINVAL/-ENOMEM with *@bad the first request that was not posted. One doorbell a call,
 * or none: RDMA_SEND_DEFER.
 */
int rdma_post_send(struct rdma_qp *qp, const struct rdma_send_wr *wr,
		   const struct rdma_send_wr **bad) __must_check;
/* One doorbell for all that was posted to @qp with RDMA_SEND_DEFER since the last one. */
void rdma_ring_send(struct rdma_qp *qp);
int rdma_post_recv(struct rdma_qp *qp, const struct rdma_recv_wr *wr,
		   const struct rdma_recv_wr **bad) __must_check;
/* Take up to @max completions; returns how many (0 = empty). */
int rdma_poll_cq(struct rdma_cq *cq, struct rdma_wc *wc, int max);
/*
 * Ask for one event at the next completion (or at the next solicited one). Poll once more after
 * it.
 */
void rdma_arm_cq(struct rdma_cq *cq, bool solicited_only);
/*
 * Let the CPU rest until a completion or an event of the device has come since the last such call,
 * of whatever queue, or for @ns at most: the caller polls again then. It takes no interrupt
 * meanwhile. False: the device cannot do that, or not for so short a time.
 */
bool rdma_wait(struct rdma_device *dev, uint64_t ns);

/* --- addresses ----------------------------------------------------------------------- */

#define RDMA_GRH_LEN 40u /* room in front of every datagram received, with a header or without */

/*
 * Where the datagram of @wc came from, as an address that an answer can be sent to.  @grh: the
 * first RDMA_GRH_LEN bytes of its buffer.
 */
void rdma_addr_of_wc(const struct rdma_wc *wc, const void *grh, struct rdma_addr *from);
/*
 * Is it one port?  LIDs are compared when both addresses have one, GIDs likewise; false when they
 * have neither in common.
 */
bool rdma_addr_equal(const struct rdma_addr *a, const struct rdma_addr *b);

const char *rdma_wc_status_name(enum rdma_wc_status status);
