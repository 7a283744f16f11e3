/* SPDX-License-Identifier: MIT */
/*
 * Sockets: what the families have in common, and the table of operations that each brings.
 *
 * Flow:	system calls (calls.c, msg_calls.c, option_calls.c) copy and check arguments, then
 *		call an operation of the socket's family. A socket has one queue, of what it is to
 *		receive; whoever sends to it appends there (queue.h). A connected stream socket
 *		knows its peer and appends to the peer's queue; nothing else lies between the two.
 * Locking:	socket.lock (RANK_SPIN_SOCKET) guards state and queue, and is held for a few lines:
 *		never over a copy. Two sockets' locks are never held together: a sender takes a
 *		reference of its peer under its own lock and lets go of that first. recv_lock
 *		(RANK_PIPE) lets one receiver at a time at the head of the queue; it is held over
 *		the copies to user memory, which may fault and sleep. Fields that poll and wait
 *		conditions read change under the lock and are read without it.
 * Invariants:	a socket is counted: its file, its peer, messages that it has sent and that are not
 *		read yet, and the tables of names hold it. After release() it is dead: nothing is
 *		appended to its queue any more, and it leaves all tables.
 * Context:	every operation may sleep but poll(), and is called by a task.
 * See:		docs/design/sockets.md
 */
#pragma once

#include <abi/errqueue.h>
#include <abi/socket.h>
#include <kernel/mutex.h>
#include <kernel/wait.h>
#include <lib/atomic.h>
#include <lib/compiler.h>
#include <lib/list.h>
#include <lib/types.h>

#include "packet.h"

struct cmsg_sink;
struct file;
struct remote_conn;
struct scm_fds;
struct socket;
struct uio;

/* A name as programs give it: any family's. */
struct sock_addr {
	uint32_t len; /* bytes; 0: no name */
	union {
		uint16_t family;
		struct linux_sockaddr_un un;
		struct linux_sockaddr_in in;
		struct linux_sockaddr_in6 in6;
		struct linux_sockaddr_nl nl;
		uint8_t bytes[LINUX_SOCKADDR_MAX];
	};
};

/* The identity of the task that made, connected or listens on a socket. */
struct socket_cred {
	uint32_t pid, uid, gid;
};

/* One message on its way into or out of an operation. */
struct socket_msg {
	struct uio *uio;
	uint32_t flags; /* MSG_* of the call; MSG_DONTWAIT for O_NONBLOCK too */
	uint32_t told;  /* recvmsg(): MSG_* of the answer */
	/* sendmsg(): the destination, len 0: none. recvmsg(): the source. */
	struct sock_addr addr;
	bool wants_addr; /* recvmsg(): the caller has room for the source */
	/* Ancillary data. sendmsg() may take @fds over and leaves NULL; the caller frees. */
	struct scm_fds *fds;
	struct socket_cred cred;
	bool has_cred;
	uint64_t stamp_ns;  /* recvmsg(): real time of arrival */
	uint32_t nr_before; /* recvmsg(): messages in the queue when one was taken; 0: none was */
	uint32_t hold;      /* TCP: so many bytes may wait for more at the peer; 0: none */
	/* Datagrams of AF_INET and AF_INET6. sendmsg(): for a destination of IPv4, and of IPv6. */
	struct inet_wish wish4, wish6;
	bool has_packet; /* recvmsg(): the next is there */
	struct inet_packet packet;
	struct linux_sock_extended_err error; /* MSG_ERRQUEUE: of a packet that was sent */
};

/*
 * Operations of a family, or of a type of it. NULL: the errno named. Every one but poll may sleep
 * and is called without a lock; @s stays as long as it runs.
 */
struct socket_ops {
	const char *name;
	size_t size; /* of the family's structure, which begins with struct socket; 0: no more */
	/* After allocation: whatever the family has beside the generic part. Optional. */
	int (*init)(struct socket *s);
	int (*bind)(struct socket *s, const struct sock_addr *addr); /* -EOPNOTSUPP */
	int (*listen)(struct socket *s, int backlog);                /* -EOPNOTSUPP */
	/* -EOPNOTSUPP */
	int (*connect)(struct socket *s, const struct sock_addr *addr, bool nonblock);
	/* The next connection, referenced, without a file. socket_accept() is there for all. */
	struct socket *(*accept)(struct socket *s, bool nonblock); /* -EOPNOTSUPP */
	/* Bytes, or an errno; -EPIPE becomes a signal in the caller. */
	ssize_t (*sendmsg)(struct socket *s, struct socket_msg *m); /* -EOPNOTSUPP */
	ssize_t (*recvmsg)(struct socket *s, struct socket_msg *m); /* -EOPNOTSUPP */
	/* recvmsg() with MSG_ERRQUEUE: the next error of a packet that was sent. -EAGAIN */
	ssize_t (*recv_error)(struct socket *s, struct socket_msg *m);
	/* @how: SHUT_RD, SHUT_WR or SHUT_RDWR. */
	int (*shutdown)(struct socket *s, unsigned int how);                 /* -EOPNOTSUPP */
	unsigned int (*poll)(struct socket *s);                              /* required; POLL* */
	int (*getname)(struct socket *s, bool peer, struct sock_addr *addr); /* -EOPNOTSUPP */
	/* Levels other than SOL_SOCKET; the value is a copy in kernel memory. -ENOPROTOOPT */
	int (*setsockopt)(struct socket *s, int level, int option, const void *val, uint32_t len);
	/* *@len: room at @val, SOCKOPT_MAX at most; on return the answer's. -ENOPROTOOPT */
	int (*getsockopt)(struct socket *s, int level, int option, void *val, uint32_t *len);
	/* A SOL_SOCKET option has changed (SO_SNDBUF, SO_KEEPALIVE ...). Optional. */
	void (*option_changed)(struct socket *s, int option);
	/* Commands that are not generic: FIONREAD, SIOCOUTQ are answered before. -ENOTTY */
	long (*ioctl)(struct socket *s, uint32_t cmd, uint64_t arg);
	/* Bytes that wait to be read, and that were sent and are not taken. NULL: by the queues. */
	uint64_t (*inq)(struct socket *s);
	uint64_t (*outq)(struct socket *s);
	/* Ancillary data of the family's own, for a message just received. Optional. */
	void (*put_control)(struct socket *s, const struct socket_msg *m, struct cmsg_sink *sink);
	/* Bytes of a stream have left the queue, in the middle of recvmsg(). Optional. */
	void (*consumed)(struct socket *s);
	/*
	 * Both optional. A reader that would sleep calls the first, which polls for bytes for a
	 * while; true: socket_may_receive(). When there are some, or the reader's time is over,
	 * waited() is told how long that took, with the time that the reader slept.
	 */
	bool (*poll_for_bytes)(struct socket *s);
	void (*waited)(struct socket *s, uint64_t ns);
	/* The last descriptor is closed: leave tables and peers, wake who waits. Required. */
	void (*release)(struct socket *s);
	/* The last reference is gone. Optional. */
	void (*destroy)(struct socket *s);
};

#define SOCKOPT_MAX 512u

enum socket_state {
	SOCKET_IDLE,
	SOCKET_BUSY, /* a call is about to connect it */
	SOCKET_CONNECTING,
	SOCKET_CONNECTED,
	SOCKET_LISTENING,
	SOCKET_CLOSED, /* was connected */
};

/* socket.shut */
#define SOCKET_SHUT_RD   1u
#define SOCKET_SHUT_WR   2u
#define SOCKET_SHUT_BOTH (SOCKET_SHUT_RD | SOCKET_SHUT_WR)

/* socket.options: those of SOL_SOCKET that are on or off, by bit. */
enum socket_option {
	SOCKET_REUSEADDR = 1 << 0,
	SOCKET_REUSEPORT = 1 << 1,
	SOCKET_KEEPALIVE = 1 << 2,
	SOCKET_BROADCAST = 1 << 3,
	SOCKET_OOBINLINE = 1 << 4,
	SOCKET_DONTROUTE = 1 << 5,
	SOCKET_PASSCRED = 1 << 6,
	SOCKET_TIMESTAMP = 1 << 7,
	SOCKET_TIMESTAMPNS = 1 << 8,
	SOCKET_LINGER = 1 << 9,
	SOCKET_DEBUG = 1 << 10,
	SOCKET_NO_CHECK = 1 << 11,
	SOCKET_RXQ_OVFL = 1 << 12,
	SOCKET_ZEROCOPY = 1 << 13,
	SOCKET_SNDBUF_SET = 1 << 15, /* by the program: they are not adapted */
	SOCKET_RCVBUF_SET = 1 << 16,
	SOCKET_TIMESTAMP_NEW = 1 << 14, /* the names of 64-bit time; the same bytes here */
};

struct socket {
	const struct socket_ops *ops; /* atomic: see socket_change_ops() */
	refcount_t refs;
	uint16_t family, type; /* const: AF_*, SOCK_* */
	uint32_t protocol;     /* const */
	uint64_t ino;          /* const */
	uint32_t uid, gid;     /* const */
	int64_t born_s;        /* const */
	struct file *file;     /* atomic: not counted; NULL: not accepted yet, or dead */

	struct spinlock lock;             /* RANK_SPIN_SOCKET */
	uint32_t state;                   /* lock: enum socket_state */
	uint32_t shut;                    /* lock: SOCKET_SHUT_* */
	int error;                        /* lock: positive; told once */
	bool dead;                        /* lock: release() has begun */
	bool unaccepted;                  /* lock: in a backlog, or dropped from one */
	bool finished;                    /* lock: TCP: the peer has said that no more comes */
	struct socket *peer;              /* lock: counted; NULL: none */
	struct remote_conn *remote_conn;  /* lock: counted; the peer is on another processor */
	struct socket_cred cred;          /* lock: of listen() or of the making */
	struct socket_cred peer_cred;     /* lock: pid 0: none */
	struct list_head queue;           /* lock: struct sock_msg */
	uint64_t queued;                  /* lock: what they take of the memory */
	uint64_t readable;                /* lock: their payload */
	uint64_t wanted;                  /* lock: bytes that a reader waits for; 0: it does not */
	uint32_t nr_queued;               /* lock */
	struct list_head held;            /* lock: TCP: what its sender holds back: tcp_cork.c */
	uint64_t held_ns;                 /* lock: since when */
	uint32_t held_len;                /* lock: their payload */
	uint16_t urgent;                  /* lock: TCP: tcp_urgent.c; 0: none is in the queue */
	struct list_head backlog;         /* lock: accept_link of sockets not accepted yet */
	uint32_t nr_backlog, max_backlog; /* lock */
	struct list_head accept_link;     /* the listener's lock */
	struct list_head walk_link;       /* walk.c's lock */
	struct socket *listener;          /* scm lock: whose backlog it waits in; not counted */
	struct list_head senders;         /* lock: sender_link of datagram sockets connected here */
	struct list_head sender_link;     /* the peer's lock */

	struct mutex recv_lock;            /* RANK_PIPE: who takes from the queue */
	struct waitqueue rd_wait, wr_wait; /* poll waits here as well */
	struct waitqueue room_wait;        /* senders: room in this socket's queue or backlog */
	int64_t wmem;                      /* atomic: what messages of this socket take in queues */

	uint32_t window;         /* TCP: bytes of the peer's buffer; const once connected */
	uint32_t sndbuf, rcvbuf; /* atomic: bytes */
	uint32_t options;        /* atomic: enum socket_option */
	uint64_t rcvtimeo_ns, sndtimeo_ns; /* atomic: WAIT_FOREVER: none */
	uint32_t rcvlowat;                 /* atomic */
	uint32_t priority, mark, linger_s; /* atomic */
	int32_t peek_off;                  /* atomic */
	uint32_t drops;                    /* atomic: datagrams lost for want of room */
	/* scm.c: descriptors on their way. */
	uint32_t nr_inflight;                  /* scm lock: times that its file is on its way */
	struct list_head packets;              /* scm lock: sets of files in its queue */
	struct list_head holder_link;          /* scm lock: it has such sets */
	struct list_head embryos, embryo_link; /* scm lock: of its backlog */
	struct list_head mark_link;            /* scm lock: the collector is to look at it */
	bool marked;                           /* scm lock: the collector has seen it */
};

/* --- families ------------------------------------------------------------------------ */

struct socket_family {
	uint16_t family;
	/*
	 * The operations for @type and the protocol, which 0 stands for the default of and which
	 * is changed to that. ERR_PTR(-ESOCKTNOSUPPORT, -EPROTONOSUPPORT, -EPERM).
	 */
	const struct socket_ops *(*choose)(uint32_t type, uint32_t *protocol);
	/* socketpair(): connect two new sockets. NULL: -EOPNOTSUPP. */
	int (*pair)(struct socket *a, struct socket *b);
};
/* From an INITCALL; @f stays. */
void socket_family_register(const struct socket_family *f);
/* AF_UNIX makes itself known; for tests, which run no INITCALLs. */
int unix_init(void);
/* -EAFNOSUPPORT */
const struct socket_family *socket_family_find(uint32_t family);

/* --- life ---------------------------------------------------------------------------- */

/* One reference, no file. ERR_PTR(-ENOMEM), or what init() says. */
struct socket *socket_create(const struct socket_ops *ops, uint32_t family, uint32_t type,
			     uint32_t protocol);
/* One that no program has: the node's own, not charged, in no list. Any thread; never sleeps. */
struct socket *socket_create_internal(const struct socket_ops *ops, uint32_t family, uint32_t type,
				      uint32_t protocol);
/* The same on behalf of @owner: with its identity, charged as it is. Any thread; never sleeps. */
struct socket *socket_create_like(const struct socket *owner, const struct socket_ops *ops);
static inline void socket_get(struct socket *s)
{
	refcount_inc(&s->refs);
}
void socket_put(struct socket *s);
/*
 * The one made after @after, whose reference it puts (NULL: the first), referenced; NULL: there are
 * no more. Sleeps.
 */
struct socket *socket_next(struct socket *after) __must_check;
/* For socket.c: it comes into the list of all, and leaves it. */
void socket_walk_enter(struct socket *s);
void socket_walk_leave(struct socket *s);
/* For a socket that never got a file: release() and the last reference of the caller. */
void socket_drop(struct socket *s);
/*
 * An open file of @s, which takes over a reference on success; @flags: O_NONBLOCK. ERR_PTR(-ENFILE,
 * -ENOMEM).
 */
struct file *socket_file(struct socket *s, uint32_t flags);
/* The socket behind @f, not referenced; NULL: it is another kind of file. */
struct socket *socket_of(const struct file *f);
/*
 * A socket that is not connected goes over to another set of operations, of the same size and
 * family: an Internet socket whose peer is outside of the vNode.
 */
void socket_change_ops(struct socket *s, const struct socket_ops *ops);

/* SIGURG for the owner of the file (F_SETOWN). Any thread. */
void socket_signal_urgent(struct socket *s);

/* The caller's identity. */
struct socket_cred socket_cred_current(void);
/* sendmsg() for the calling task: with its identity, and SIGPIPE. */
ssize_t socket_send(struct socket *s, struct socket_msg *m);
/* The peer, referenced; NULL. */
struct socket *socket_peer_get(struct socket *s);
/* The error that is pending, as a positive number, which is then gone. */
int socket_take_error(struct socket *s);
/* Set it, if @err is not 0, and the directions that are shut; then wake everyone. */
void socket_shut(struct socket *s, uint32_t shut, int err);
void socket_wake(struct waitqueue *wq);
static inline bool socket_option(const struct socket *s, uint32_t bit)
{
	return READ_ONCE(s->options) & bit;
}
/* When a wait that begins now has to end: absolute, WAIT_FOREVER, or 0 with @nonblock. */
uint64_t socket_deadline(uint64_t timeo_ns, bool nonblock);
/* The errno of a wait that ended with @err: a call with a timeout is not restarted. */
int socket_wait_error(int err, uint64_t timeo_ns);

/* --- listening ----------------------------------------------------------------------- */

/* The generic accept(): waits for a socket in the backlog. -EINVAL, -EAGAIN, -ERESTARTSYS. */
struct socket *socket_accept(struct socket *s, bool nonblock);
/*
 * Put @s, a connected socket without a file, in @to's backlog, which takes over a reference. 0,
 * -ECONNREFUSED: @to does not listen any more; -EAGAIN: the backlog is full.
 */
int socket_backlog_add(struct socket *to, struct socket *s) __must_check;
/* All sockets of @s's backlog are dropped, for its release(). */
void socket_backlog_drop(struct socket *s);
