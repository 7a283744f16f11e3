/* SPDX-License-Identifier: MIT */
/*
 * AF_UNIX: names, and what its types have in common.
 *
 * Locking:	unix_table_lock (RANK_SOCKET_TABLE) guards the table of names and unix_socket.name
 *		while it is set, which happens once. A name stays until its socket is destroyed.
 */
#pragma once

#include "socket.h"

struct inode;
struct name_entry;

struct unix_name {
	struct hlist_node node;   /* table lock */
	struct socket *owner;     /* const; not counted: it leaves the table before it dies */
	struct inode *inode;      /* const: counted; NULL: an abstract name */
	struct name_entry *told;  /* bind(), listen(), release(): NULL: of no interest to others */
	struct hlist_node by_key; /* table lock: in the table if it is told */
	uint8_t key[16];          /* const: stands for the name at other processors */
	uint32_t len;             /* const: bytes of path[] */
	char path[];              /* const: as in struct sockaddr_un */
};

/* The name of a peer on another processor. */
struct unix_far {
	uint32_t len; /* 0: it has none */
	char path[LINUX_UNIX_PATH];
};

/* The peer of a datagram socket, on another processor. */
struct unix_far_peer {
	uint8_t key[16];
	uint32_t node, incarn;
	struct unix_far name;
};

struct unix_socket {
	struct socket s;
	struct unix_name *name; /* atomic: set once */
	bool naming;            /* table lock: a call is about to set it */
	struct unix_far *far;   /* const while it is connected: of kmem_alloc(); NULL: none */
	/* Datagrams (RANK_PIPE): one call at a time changes the peer, and whose sender this is. */
	struct mutex peer_lock;
	struct unix_far_peer
		*far_peer; /* socket.lock: of kmem_alloc(); NULL: it is not elsewhere */
	/* unix_far.c */
	struct hlist_node by_id;
	uint64_t id;              /* ids.lock: 0: it is not in that table */
	uint32_t rooms, full_at;  /* atomic */
	bool was_full;            /* atomic */
	struct list_head waiters; /* socket.lock: senders elsewhere that wait for room */
	uint32_t nr_waiters;      /* socket.lock, read without it */
};

static inline struct unix_socket *unix_of(struct socket *s)
{
	return container_of(s, struct unix_socket, s);
}

#define UNIX_PATH_OFFSET offsetof(struct linux_sockaddr_un, path)

/* --- unix_name.c --------------------------------------------------------------------- */

/* -EINVAL: the length or the family of an address is wrong. */
int unix_check_addr(const struct sock_addr *addr) __must_check;
int unix_bind(struct socket *s, const struct sock_addr *addr);
/* An abstract name of the system's choice, for a socket that has none. */
int unix_autobind(struct socket *s) __must_check;
/*
 * The socket of @type that @addr names, referenced. ERR_PTR(-ECONNREFUSED, -EPROTOTYPE, and what a
 * path walk answers).
 */
struct socket *unix_find(const struct sock_addr *addr, uint32_t type);
int unix_getname(struct socket *s, bool peer, struct sock_addr *addr);
/* The name of @s, as recvmsg() and accept() tell it. */
void unix_copy_name(struct socket *s, struct sock_addr *addr);
/* The same of its peer, which is on another processor. */
void unix_copy_far(struct socket *s, struct sock_addr *addr);
/* A connection made by @listener has its name. -ENOMEM */
int unix_inherit_name(struct socket *s, struct socket *listener) __must_check;
/* Tell the other processors of the vNode that @s listens. -ENOBUFS, -EINTR: to be killed. */
int unix_tell_listening(struct socket *s) __must_check;
/* enum name_kind of a socket of this type. */
uint8_t unix_name_kind(uint32_t type);
/*
 * The key that stands for @addr at other processors. -ECONNREFUSED: it is a path of this
 * processor's own; and what a path walk answers.
 */
int unix_key(const struct sock_addr *addr, uint8_t key[16]) __must_check;
/* This processor's socket of @type with that name, referenced; NULL. */
struct socket *unix_find_key(const uint8_t key[16], uint32_t type);
/* @s leaves the table: no look-up finds it any more. */
void unix_unhash(struct socket *s);
void unix_destroy(struct socket *s);

/* --- unix.c -------------------------------------------------------------------------- */

extern const struct socket_ops unix_stream_ops, unix_packet_ops;
int unix_listen(struct socket *s, int backlog);
int unix_connect(struct socket *s, const struct sock_addr *addr, bool nonblock);

/* --- unix_dgram.c -------------------------------------------------------------------- */

#define UNIX_DGRAM_QUEUE 512u /* net.unix.max_dgram_qlen, as distributions set it */

extern const struct socket_ops unix_dgram_ops;
/* @m to @to; for packets as well. */
ssize_t unix_send_message(struct socket *s, struct socket_msg *m);
