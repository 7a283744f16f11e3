/* SPDX-License-Identifier: MIT */
/*
 * Names of sockets that are the vNode's: ports and abstract AF_UNIX names, which the managers keep
 * for all processors of the vNode.
 *
 * Flow:	a socket that is bound makes an entry, which stays until the socket leaves its own
 *		table of names. While this processor is the only one, entries are only kept here.
 *		From the moment that there are several the managers are told of each before the
 *		bind is answered; those that there are already, and all of them to managers that
 *		were started again, are reported. One thread tells all this, in order.
 * Context:	names_set(), names_find() and names_lease() sleep; the others do not.
 * Failure:	while the managers are away, threads wait for them, and may be killed.
 */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>

struct kmem_account;
struct name_entry;

enum name_kind { /* of sockets */
	NAME_TCP = 1,
	NAME_UDP = 2,
	NAME_UNIX_STREAM = 3,
	NAME_UNIX_DGRAM = 4,
	NAME_UNIX_SEQPACKET = 5,
	NAME_GATEWAY = 6, /* of no socket: the processor that has it is the vNode's gateway */
};

enum name_flags {
	NAME_REUSEADDR = 1,
	NAME_REUSEPORT = 2,
	NAME_V6ONLY = 4,
	NAME_LISTENING = 8,
};

struct vnode_name {
	uint8_t addr[16]; /* of AF_UNIX: a hash of the name, see names_hash() */
	uint16_t port;    /* 0: AF_UNIX */
	uint8_t kind;
	uint8_t flags;
	uint32_t uid;
};

/*
 * *@entry (NULL: a new one is made, charged to @account) has @name from now on; of an old one only
 * the flags may differ.
 * 0; -EADDRINUSE: another processor's socket has it; -ENOBUFS; -EINTR: to be killed. After an error
 * the entry is as before, or not told of, and is to be dropped as others are.
 */
int names_set(struct name_entry **entry, const struct vnode_name *name,
	      struct kmem_account *account) __must_check;
/* The socket has it no more. NULL is allowed. */
void names_drop(struct name_entry *entry);
/*
 * The processor on which another socket than this processor's listens at @name (address, port and
 * kind), until @until_ns, absolute. -ECONNREFUSED: none does; -ETIMEDOUT; -EINTR: to be killed.
 */
int names_find(const struct vnode_name *name, uint64_t until_ns, uint32_t *node) __must_check;

/*
 * Are there several processors? Then a socket may have port @port of the system's choice only if
 * names_skip_ports() is 0; else that many from it on are not this processor's.
 */
bool names_are_shared(void);
uint32_t names_skip_ports(uint16_t port);
/* Get more of them, when all are in use. -EADDRINUSE: there are no more; -EINTR: to be killed. */
int names_lease(void) __must_check;

/* Stands for an abstract name in struct vnode_name: names that differ differ here. */
void names_hash(const void *name, size_t len, uint8_t out[16]);

/* Once, before programs run. -ENOMEM */
int names_start(void) __must_check;
/* There is a new view. */
void names_view_changed(void);
