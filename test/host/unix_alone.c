/* SPDX-License-Identifier: MIT */
/*
 * AF_UNIX on the only processor of its vNode.
 */
#include <lib/errno.h>
#include <processor/socket/unix_remote.h>

void unix_far_init(struct socket *s)
{
}

void unix_far_release(struct socket *s)
{
}

bool unix_far_connected(struct socket *s)
{
	return false;
}

bool unix_far_is_full(struct socket *s)
{
	return false;
}

int unix_far_send_to(struct socket *s, struct socket_msg *m, uint64_t deadline_ns)
{
	return -ECONNREFUSED;
}

int unix_far_send(struct socket *s, struct socket_msg *m, uint64_t deadline_ns)
{
	return -ENOTCONN;
}

int unix_far_find(struct socket *s, const struct sock_addr *addr, struct unix_far_peer **out)
{
	return -ECONNREFUSED;
}

void unix_far_wake(struct socket *s, bool anyway)
{
}

int unix_remote_connect(struct socket *s, const struct sock_addr *addr, bool nonblock)
{
	return -ECONNREFUSED;
}
