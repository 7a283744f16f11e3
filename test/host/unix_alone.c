/* SPDX-License-Identifier: MIT */
/*
 * AF_UNIX on the only processor of its vNode.
 */
#include <lib/errno.h>
#include <processor/socket/unix_remote.h>

int unix_remote_connect(struct socket *s, const struct sock_addr *addr, bool nonblock)
{
	return -ECONNREFUSED;
}
