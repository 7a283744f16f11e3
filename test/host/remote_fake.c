/* SPDX-License-Identifier: MIT */
/*
 * Two simulated processors with sockets: what the programs on them do.
 */
#include "remote_fake.h"

#include <abi/in.h>
#include <cluster/cluster.h>
#include <kernel/counter.h>
#include <kernel/thread.h>
#include <lib/err.h>
#include <processor/account/account.h>
#include <processor/client/names.h>
#include <processor/socket/inet_private.h>
#include <processor/socket/queue.h>
#include <processor/socket/remote_private.h>
#include <processor/vfs/uio.h>

#include "ipc_fake.h"
#include "memverbs/sim.h"
#include "rpc_nodes.h"

/* --- surroundings: all names are leased, and two vNodes are here ------------------------- */

bool names_are_shared(void)
{
	return true;
}

uint32_t names_skip_ports(uint16_t port)
{
	return 0;
}

int names_lease(void)
{
	return -EADDRINUSE;
}

int cluster_vnode_check(uint32_t vnode, uint32_t node, bool may_wait)
{
	return vnode == PROTO_VNODE_ROOT || vnode == OTHER_VNODE ? 0 : -EACCES;
}

void pause_us(uint64_t us)
{
	thread_sleep_ns(us * 1000);
}

void join(struct ktest *t)
{
	const uint32_t other = sim_node_id() == SERVER ? CLIENT : SERVER;

	fake_task(0);
	rpc_node_start(t, NODE_ROLE_PROCESSOR, NULL, 0);
	ASSERT_EQ(t, remote_init(), 0);
	peer_add_role(t, other, NODE_ROLE_PROCESSOR);
	sim_cmd("barrier 0 2");
}

struct sock_addr address(uint16_t port)
{
	struct sock_addr addr = { .len = sizeof(addr.in) };

	addr.in.family = AF_INET;
	addr.in.port = __builtin_bswap16(port);
	addr.in.addr = __builtin_bswap32(0x7f000001);
	return addr;
}

struct socket *make(void)
{
	return socket_create(&tcp_ops, AF_INET, SOCK_STREAM, SOL_TCP);
}

struct socket *listener(struct ktest *t, int backlog)
{
	const struct sock_addr addr = address(PORT);
	struct socket *l = make();

	EXPECT_EQ(t, l->ops->bind(l, &addr), 0);
	EXPECT_EQ(t, l->ops->listen(l, backlog), 0);
	sim_cmd("barrier 1 2");
	return l;
}

int connect_to(struct socket *s, bool nonblock)
{
	const struct sock_addr addr = address(PORT);

	return s->ops->connect(s, &addr, nonblock);
}

struct socket *connected(struct ktest *t)
{
	struct socket *s = make();

	EXPECT_EQ(t, connect_to(s, false), 0);
	return s;
}

ssize_t give(struct socket *s, const void *buf, size_t len, uint32_t flags)
{
	struct socket_msg m = { .flags = flags };
	struct uio u;

	uio_kernel(&u, (void *)(uintptr_t)buf, len);
	m.uio = &u;
	return s->ops->sendmsg(s, &m);
}

ssize_t take(struct socket *s, void *buf, size_t len, uint32_t flags)
{
	struct socket_msg m = { .flags = flags };
	struct uio u;

	uio_kernel(&u, buf, len);
	m.uio = &u;
	return s->ops->recvmsg(s, &m);
}

uint64_t counter_of(const char *name)
{
	uint64_t v = UINT64_MAX; /* no test expects it of a name that is not there */

	return counter_find(name, &v) ? v : UINT64_MAX;
}

/* Nothing is left behind: no connection, no byte, no buffer. */
void nothing_left(struct ktest *t)
{
	for (int i = 0; i < 5000 && counter_of("socket.remote.connections"); i++)
		pause_us(1000);
	EXPECT_EQ(t, counter_of("socket.remote.connections"), 0);
	EXPECT_EQ(t, sock_memory(), 0);
	for (int i = 0; i < 5000 && kmem_count(KMEM_SOCKET_BYTES); i++)
		pause_us(1000);
	EXPECT_EQ(t, kmem_count(KMEM_SOCKET_BYTES), 0);
	sim_cmd("barrier 9 2");
}

void run(struct ktest *t, void (*server)(struct ktest *t), void (*client)(struct ktest *t))
{
	sim_two(t, server, client, 60);
}
