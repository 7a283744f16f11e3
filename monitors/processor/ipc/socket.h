/* SPDX-License-Identifier: MIT */
/*
 * Sockets: connected pairs of AF_UNIX, the only ones that there are.
 */
#pragma once

#include <abi/socket.h>
#include <lib/compiler.h>
#include <processor/vfs/file.h>

struct uio;

/* The identity of the task that made a socket. */
struct socket_cred {
	uint32_t pid, uid, gid;
};

/*
 * Both ends of a new pair of @type STREAM, DGRAM or SEQPACKET; @flags: O_NONBLOCK. -ENFILE,
 * -ENOMEM.
 */
int unix_pair_open(uint32_t type, uint32_t flags, struct file *ends[2]) __must_check;
bool file_is_socket(const struct file *f);

/* The calls below want a file that is a socket. */
uint32_t unix_type(const struct file *f);
ssize_t unix_send(struct file *f, struct uio *uio, uint32_t flags);
/* *@flags: MSG_* of the call; on return those of the message. */
ssize_t unix_recv(struct file *f, struct uio *uio, uint32_t *flags);
int unix_shutdown(struct file *f, unsigned int how);
struct socket_cred unix_peer_cred(const struct file *f);
/* The error that is pending, as a positive number, which is then gone. */
int unix_take_error(struct file *f);
/* Bytes that may wait at the other end before a writer has to. */
uint32_t unix_sndbuf(const struct file *f);
void unix_set_sndbuf(struct file *f, uint32_t bytes);
