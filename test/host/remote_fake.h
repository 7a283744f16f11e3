/* SPDX-License-Identifier: MIT */
/* Two simulated processors with sockets. Node 1 listens, node 2 connects. */
#pragma once

#include <lib/ktest.h>
#include <lib/types.h>
#include <processor/socket/socket.h>

#define SERVER      1u
#define CLIENT      2u
#define PORT        80u
/* A vNode that both are in, and whose sockets these are not. */
#define OTHER_VNODE 8u

void pause_us(uint64_t us);
/* This node runs, and the other is its peer. */
void join(struct ktest *t);
/* 127.0.0.1, for IPv4 sockets. */
struct sock_addr address(uint16_t port);
struct socket *make(void);
/* It listens at PORT; then barrier 1. */
struct socket *listener(struct ktest *t, int backlog);
int connect_to(struct socket *s, bool nonblock);
struct socket *connected(struct ktest *t);
ssize_t give(struct socket *s, const void *buf, size_t len, uint32_t flags);
ssize_t take(struct socket *s, void *buf, size_t len, uint32_t flags);
/* Of remote_test.c: send a pattern, receive the peer's, and drop @s. */
void both_ways(struct ktest *t, struct socket *s);
uint64_t counter_of(const char *name);
/* No connection, byte or buffer is left; then barrier 9. */
void nothing_left(struct ktest *t);
void run(struct ktest *t, void (*server)(struct ktest *t), void (*client)(struct ktest *t));
