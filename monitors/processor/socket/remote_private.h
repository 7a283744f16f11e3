/* SPDX-License-Identifier: MIT */
/*
 * Connections to sockets on other processors of the vNode, of any family.
 *
 * Flow:	struct remote_conn is one end of a connection. A program's bytes go into a buffer of
 *		the connection, of which one message at a time is under way; what has gathered
 *		meanwhile is the next one. The receiver's processor puts the bytes of a message into
 *		the socket's queue. Positions in the stream are counted by both ends, and each tells
 *		the other up to which position it takes bytes. The table struct remote_kind has what
 *		differs between families.
 * Invariants:	one message of bytes is under way in each direction, so they come in order. A
 *		connection is in the table of ids until it is gone; its socket holds it, and it
 *		holds its socket until that one is closed.
 * Locking:	remote_conn.lock and the lock of the table (RANK_SOCKET_TABLE) are never held
 *		together; socket.lock lies inside the former.
 * Context:	what says "polling" runs in done functions and inline handlers of the RPC layer as
 *		well: it never sleeps, and drops no socket.
 * See:		docs/design/sockets.md, docs/protocol/pp.md
 */
#pragma once

#include <kernel/timer.h>
#include <kernel/work.h>
#include <net/rpc.h>

#include "inet_private.h"
#include "queue.h"
#include "remote.h"

struct rpc_call;
struct rpc_mem;
struct rpc_request;
struct rpc_sge;

#define REMOTE_SMALL 2016u         /* bytes that travel in a message's body */
#define REMOTE_BLOCK (16u * 4096u) /* of memory that the device reads */
#define REMOTE_HEAD  32u           /* in front of the bytes: a message's header */
#define REMOTE_LARGE (REMOTE_BLOCK - REMOTE_HEAD)

#define REMOTE_PAUSE_NS (NSEC_PER_MSEC) /* before a message is tried again */

/* --- remote_buf.c: bytes to be sent ----------------------------------------------------- */

struct remote_buf {
	struct list_head link; /* of the pool */
	struct kmem_account *account;
	uint32_t cost;             /* charged to it */
	uint8_t *data;             /* REMOTE_HEAD bytes in front of it are for headers */
	uint32_t cap, len, sent;   /* conn.lock */
	paddr_t paddr;             /* const */
	const struct rpc_mem *mem; /* const; NULL: a small one */
};

/* With room for @len bytes, as far as there are such; task context. NULL: no memory. */
struct remote_buf *remote_buf_make(struct kmem_account *account, uint64_t len);
/* One with room for all @len bytes. NULL: no memory. */
struct remote_buf *remote_buf_make_whole(struct kmem_account *account, uint64_t len);
/* Polling. NULL is allowed. */
void remote_buf_free(struct remote_buf *b);

/* --- remote_records.c: who sent bytes, and where a packet ends ---------------------------- */

#define REMOTE_RECORD     16u /* in front of the bytes of each send */
#define REMOTE_RECORD_MAX (64u * 4096u)

/* Of what has come: all zero at first. */
struct remote_records {
	uint8_t raw[REMOTE_RECORD];
	uint32_t got;            /* of the header; REMOTE_RECORD: its record is being received */
	struct socket_cred cred; /* of its sender */
	uint32_t len;
	uint32_t left;         /* bytes of the record that are still to come */
	struct sock_msg *part; /* a packet that is not complete; NULL */
	uint32_t filled;       /* bytes in it */
};

/* The header of @len bytes of @cred. */
void remote_record_put(uint8_t *at, uint32_t len, const struct socket_cred *cred);
/*
 * Make messages of the next @len bytes, charged to @account: of packets, or of a stream. -EPROTO;
 * -ENOBUFS: nothing has changed.
 */
int remote_records_take(struct remote_records *st, bool packets, const void *data, size_t len,
			struct kmem_account *account, struct list_head *out) __must_check;
void remote_records_drop(struct remote_records *st);

/* --- remote_conn.c ---------------------------------------------------------------------- */

enum remote_state {
	REMOTE_ASKING, /* the peer's processor, or the outside, has not answered yet */
	REMOTE_OPEN,
	REMOTE_GONE,
};

struct remote_conn;

/*
 * The part of a family: how an end is asked for, and what its socket hears. Operations without a
 * remark are polling, with conn.lock held and the socket referenced.
 */
struct remote_kind {
	const struct socket_ops *idle; /* of a socket whose connect() has failed */
	bool records, packets;         /* its bytes have headers; each record is one message */
	/*
	 * Submit the request that makes the peer's end; remote_connected() tells what comes of it.
	 * Without a lock. -EAGAIN, -ENOMEM, -EHOSTDOWN.
	 */
	int (*ask)(struct remote_conn *c, uint64_t limit);
	/* The positive errno that a program hears of a peer that answered @status. */
	int (*refusal)(const struct remote_conn *c, int status);
	void (*connected)(struct socket *s);
	void (*fin)(struct socket *s);    /* no more bytes come */
	void (*deaf)(struct socket *s);   /* the peer reads no more; NULL: it does not say so */
	void (*closed)(struct socket *s); /* it has closed; NULL: of no interest */
	void (*reset)(struct socket *s);
	/* connect() has failed: the socket's names are as before it. A worker's, without a lock. */
	void (*forget)(struct socket *s);
};
extern const struct remote_kind remote_tcp;

struct remote_conn {
	refcount_t refs;
	const struct remote_kind *kind; /* const */
	struct hlist_node node;         /* table lock */
	struct list_head reap_link;
	uint64_t id;               /* const: what the peer calls this end */
	uint32_t peer, incarn;     /* const: its processor */
	struct inet_name from, to; /* const: of TCP: names of both ends, the client's first */
	void *extra;               /* const: the family's own, of kmem_alloc(); freed with it */
	bool outside;              /* const: connect() goes to the gateway, and on to the outside */
	struct mutex send_lock;    /* RANK_PIPE: one call at a time appends */
	struct work work;
	struct timer timer;
	struct timer orphan_timer;

	struct spinlock lock;                     /* RANK_SOCKET_TABLE */
	struct socket *s;                         /* lock: counted; NULL: closed */
	uint32_t state;                           /* lock: enum remote_state */
	uint64_t peer_id;                         /* lock: 0: not known */
	struct remote_buf *cur;                   /* lock: being sent */
	struct remote_buf *next;                  /* lock: behind it; NULL while cur has room */
	struct remote_buf *filling;               /* lock: one of these, to which a call appends */
	uint64_t tx_pos, tx_limit;                /* lock: sent and taken; up to where it will be */
	uint32_t in_flight;                       /* lock: bytes of cur that are under way */
	bool busy;                                /* lock: a message is */
	bool fin_wanted, fin_in_flight, fin_sent; /* lock: no more bytes come */
	uint64_t rx_pos, rx_limit; /* lock: received; up to where the peer may send */
	bool rx_busy, rx_fin;      /* lock: a message is being received; the last one was */
	bool unanswered;           /* lock: bytes have come since the program sent some */
	uint8_t answers;           /* lock: messages in a row that the program answered, up to 3 */
	bool peer_closed;          /* lock: nor does the peer read any more */
	bool closed_in_flight, closed_sent;              /* lock: the same of this end */
	bool deaf_wanted, deaf_in_flight, deaf_sent;     /* lock: it reads no more, yet is open */
	struct remote_records records;                   /* of the message being received */
	bool ask_due, window_due, reset_due, opened_due; /* lock: for the worker */
	bool options_due;                                /* lock: the same */
	bool opened;             /* lock: the outside has taken it, before the gateway's answer */
	int opened_status;       /* lock: what to tell of it */
	uint8_t opened_addr[16]; /* lock: the same */
	int failed;              /* lock: connect() failed so: positive, for the worker */
	uint64_t deadline_ns, pause_ns; /* lock: of connect() */
	uint64_t refused_ns; /* lock: how long bytes wait that were refused; 0: were not */
	uint64_t orphan_ns;  /* lock: closed, and reset then; 0: it is open */

	uint8_t connect_reply[16], data_reply[8]; /* the calls under way */
	struct sock_loan loan;      /* of the bytes of lender, to the socket's queue */
	struct rpc_request *lender; /* lock: answered when they have been read; NULL: none is */
	struct rpc_spin spin;       /* how long a reader waits for bytes */
	struct rpc_spin room_spin;  /* how long a sender waits for room */
};

/*
 * Connect @s, which is BUSY, has a port, and found nothing at @to on this processor. *@taken: it is
 * connecting; else it is as before. -ECONNREFUSED: nothing is there either.
 */
int remote_connect(struct socket *s, const struct inet_name *to, bool nonblock, bool *taken)
	__must_check;
/*
 * The same to @to outside of the vNode, by the gateway. @s is taken if the answer is 0,
 * -EINPROGRESS or another that connect() gives while it goes on.
 */
int remote_connect_outside(struct socket *s, const struct inet_name *to, uint32_t gateway,
			   uint32_t incarn, bool nonblock) __must_check;
/* At the gateway: connect @s, whose names are set, to a listener on that processor; never waits. */
int remote_connect_inside(struct socket *s, uint32_t node, uint32_t incarn) __must_check;
struct remote_request;
/* An open end for @s, made for @r, whose id and limit go into the answer. NULL: no memory. */
struct remote_conn *remote_open_end(struct socket *s, const struct remote_kind *kind,
				    struct kmem_account *account, const struct remote_request *r,
				    uint64_t *id, uint64_t *limit);
/*
 * Make an open end for @child, as above, and put @child into the backlog of @l. -ENOBUFS, -EAGAIN,
 * -ECONNREFUSED: @child is dropped.
 */
int remote_offer(struct socket *l, struct socket *child, const struct remote_kind *kind,
		 const struct remote_request *r, uint64_t *id, uint64_t *limit) __must_check;
/*
 * At the gateway: tell the asking end of @c what the outside says: 0 and the connection's address,
 * or a positive errno, with which @c is gone.
 */
void remote_tell_opened(struct remote_conn *c, int err, const uint8_t addr[16]);
/* The peer's program has closed its end. */
bool remote_peer_has_closed(struct socket *s);
/* The connection of @s, referenced; NULL. */
struct remote_conn *remote_of(struct socket *s);
void remote_get(struct remote_conn *c);
/* Polling. */
void remote_put(struct remote_conn *c);
/* Send what may be sent. Polling. */
void remote_kick(struct remote_conn *c);
/* The program has sent bytes: @len wait in the buffer that they went to. */
void remote_answered_locked(struct remote_conn *c, uint32_t len) __must_hold(&c->lock);
/* The program has read: tell the peer, if that is worth a message. */
void remote_consumed(struct remote_conn *c, struct socket *s);
/* No more bytes come from @s; then, if @s is closed, it lets go of the connection. */
void remote_end(struct remote_conn *c);
/* The program reads no more of it. */
void remote_deafen(struct remote_conn *c);
/* connect() is over, with @err, positive, unless it has succeeded: false. */
bool remote_give_up(struct remote_conn *c, int err);
void remote_close(struct remote_conn *c, bool abort);
/* All buffers that are in nobody's use, of a connection that is gone. */
void remote_drop_bufs_locked(struct remote_conn *c) __must_hold(&c->lock);

/* Of remote_conn.c, for remote_connect.c. */
struct remote_conn *remote_make(struct socket *s, const struct remote_kind *kind,
				struct kmem_account *account, uint32_t peer, uint32_t incarn);
/* The call that is to connect @c asks from now on; bytes may be sent when it is answered. */
void remote_ask(struct remote_conn *c);
struct remote_conn *remote_find(uint64_t id, uint32_t peer, uint32_t incarn);
void remote_set(struct socket *s, struct remote_conn *c);
void remote_leave(struct remote_conn *c);
/* The connection is gone; the program is told @err, positive, if it was about to connect. */
void remote_lose(struct remote_conn *c, int err);
void remote_later(struct remote_conn *c, uint64_t ns);
void remote_wake_worker(struct remote_conn *c);
bool remote_is_passing(int err);

/* --- remote_ops.c ----------------------------------------------------------------------- */

extern const struct socket_ops remote_ops;

/*
 * Send bytes of @m: of a stream some, of packets all of them or none, waiting for room until
 * @deadline (0: not at all). How many; -EAGAIN, -EINTR, -ERESTARTSYS, -EPIPE, -ENOBUFS, -EFAULT.
 */
ssize_t remote_send_some(struct socket *s, struct remote_conn *c, struct socket_msg *m,
			 uint64_t deadline);
/* For the tables of operations of all families. */
uint64_t remote_outq(struct socket *s);
void remote_bytes_consumed(struct socket *s);
bool remote_poll_for_bytes(struct socket *s);
void remote_waited(struct socket *s, uint64_t ns);
/* May a program that polls write? */
bool remote_may_write(struct socket *s);
/* @s is dead and in no table: let go of its connection, if it has one. */
void remote_release_conn(struct socket *s, bool abort);

/* --- remote_net.c: the messages --------------------------------------------------------- */

/*
 * Each submits a call that holds @c, and ends by the function of the same name below. 0; -EAGAIN:
 * no slot is free; -ENOMEM, -EHOSTDOWN.
 */
int remote_net_connect(struct remote_conn *c, uint64_t limit) __must_check;
#define REMOTE_FIN    1u
#define REMOTE_CLOSED 2u
#define REMOTE_DEAF   4u
int remote_net_data(struct remote_conn *c, struct remote_buf *b, uint32_t off, uint32_t len,
		    uint64_t position, uint64_t limit, uint32_t flags) __must_check;
int remote_net_window(struct remote_conn *c, uint64_t limit) __must_check;
int remote_net_reset(struct remote_conn *c) __must_check;
int remote_net_opened(struct remote_conn *c, int status, const uint8_t addr[16]) __must_check;
int remote_net_options(struct remote_conn *c, struct socket *s) __must_check;
/* Submit @call on behalf of @c, which it holds until its release(), as its argument. */
int remote_net_submit(struct remote_conn *c, struct rpc_call *call) __must_check;
int remote_net_init(void) __must_check;
/* May processor @node ask for a socket of @vnode here? -EACCES. */
int remote_check_vnode(uint32_t vnode, uint32_t node) __must_check;

/* The ends of these calls, polling. */
void remote_connected(struct remote_conn *c, int status, uint64_t peer_id, uint64_t limit);
void remote_sent(struct remote_conn *c, int status, uint64_t limit);
/* Requests of the peer's processor. The first may sleep; the others are polling. */
struct remote_request {
	uint32_t node, incarn;
	uint64_t conn, limit;
	struct inet_name from, to;
	bool outside;
};
int remote_accept(const struct remote_request *r, uint64_t *id, uint64_t *limit) __must_check;
struct remote_message {
	uint32_t node, incarn;
	uint64_t conn, position, limit;
	const void *data;
	uint32_t len;
	bool fin, closed, deaf;
	struct rpc_request *req; /* its bytes lie where they may stay until it is answered; NULL */
};
struct remote_result {
	uint64_t limit;
	bool answer; /* the program is likely to send something at once */
	bool lent;   /* the request will be answered by remote_net_read() */
};
int remote_receive(const struct remote_message *m, struct remote_result *res) __must_check;
/* The program has read the bytes of @req, or will not. */
void remote_net_read(struct rpc_request *req, uint64_t limit);
int remote_window(const struct remote_message *m) __must_check;
int remote_reset(const struct remote_message *m) __must_check;
/* May sleep. @status: 0 or a negative errno. */
int remote_opened(const struct remote_message *m, int status, const uint8_t addr[16]) __must_check;

/* --- remote_options.c ------------------------------------------------------------------- */

/* As setsockopt() takes them. */
struct remote_options {
	uint32_t user_timeout_ms;
	uint16_t keep_idle_s, keep_interval_s;
	uint8_t keep_count, ttl, tos;
	bool nodelay, keepalive;
};

/* The options of @s that the gateway is told of. */
void remote_options_of(struct socket *s, struct remote_options *out);
/* @s has got a connection: the gateway hears of them, if they are not as at first. */
void remote_options_begin(struct socket *s);
/* As operations of a socket. */
int remote_setsockopt(struct socket *s, int level, int option, const void *val, uint32_t len);
void remote_option_changed(struct socket *s, int option);
/* At the gateway. -ECONNRESET: there is no such connection; -EPROTO: it is no relay's. */
int remote_take_options(const struct remote_message *m, const struct remote_options *o)
	__must_check;
