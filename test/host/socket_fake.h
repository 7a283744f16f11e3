/* SPDX-License-Identifier: MIT */
/*
 * The surroundings of sockets: no paths, and descriptors that are places in a table.
 */
#pragma once

#include <processor/socket/socket.h>
#include <processor/vfs/file.h>

/* The same, with flags; -ENOMEM, -ENFILE. */
int fake_pair_open(uint32_t type, uint32_t flags, struct file *ends[2]);
/* A pair of AF_UNIX sockets of @type as files. */
void fake_pair(uint32_t type, struct file *ends[2]);
/* A socket of AF_UNIX as a file. */
struct file *fake_socket(uint32_t type);
/* An abstract name. */
struct sock_addr fake_name(const char *name);
ssize_t fake_send(struct file *f, const void *buf, size_t len, uint32_t flags);
ssize_t fake_recv(struct file *f, void *buf, size_t len, uint32_t flags);
/* Atomic: what the managers say to a processor that would be the gateway. */
extern int fake_gateway_answer;
/* The table that fd_get() looks into. */
extern struct file *fake_fds[16];
