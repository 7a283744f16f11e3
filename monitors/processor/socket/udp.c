/* SPDX-License-Identifier: MIT */
/*
 * UDP: inside the vNode, and what of it goes outside.
 *
 * Flow:	a datagram goes into the queue of the socket that its port and addresses suit best,
 *		or is lost when that one's SO_RCVBUF is full, as on a wire. One for a port that no
 *		socket has becomes ECONNREFUSED for a sender that is connected, at its next call.
 *		One that is for no socket of this processor may be for another's (remote_udp.c).
 *		One to a group goes to all that take it (multicast.c).
 */
#include <abi/in.h>
#include <abi/poll.h>
#include <kernel/panic.h>
#include <lib/err.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <processor/account/account.h>
#include <processor/client/names.h>
#include <processor/process/process.h>
#include <processor/vfs/uio.h>

#include "inet_private.h"
#include "queue.h"

#define UDP_MAX4  65507u /* an IPv4 datagram, less its headers */
#define UDP_MAX6  65527u
#define RECEIVERS 16u /* of a packet that need no memory for their list */

/* Where @m goes. -EDESTADDRREQ, -EINVAL, -ENETUNREACH, -EACCES ... */
static int destination(struct socket *s, const struct socket_msg *m, struct inet_name *to)
{
	static const uint8_t broadcast[4] = { 255, 255, 255, 255 };
	int err = 0;

	if (m->addr.len) {
		err = inet_name_fetch(s, &m->addr, to);
		if (!err && !to->port)
			err = -EINVAL;
	} else if (READ_ONCE(s->state) == SOCKET_CONNECTED) {
		*to = inet_of(s)->remote;
	} else {
		err = -EDESTADDRREQ;
	}
	if (err)
		return err;
	if (inet_is_v4(to->addr) && !memcmp(to->addr + 12, broadcast, 4))
		return socket_option(s, SOCKET_BROADCAST) ? 0 : -EACCES;
	return 0;
}

void inet_make_definite(struct inet_name *name)
{
	if (!inet_is_any(name->addr))
		return;
	if (inet_is_v4(name->addr)) {
		name->addr[12] = 127;
		name->addr[15] = 1;
	} else {
		name->addr[15] = 1;
	}
}

/* Append @msg to @to's queue, or lose it. */
static void deliver(struct socket *to, struct sock_msg *msg)
{
	struct inet_packet *packet = msg->aux;
	bool taken;

	spin_lock(&to->lock);
	taken = !to->dead && to->queued + msg->cost <= READ_ONCE(to->rcvbuf);
	packet->drops = to->drops;
	if (taken)
		sock_queue_push_locked(to, msg);
	else
		to->drops++;
	spin_unlock(&to->lock);
	if (taken)
		socket_wake(&to->rd_wait);
	else
		sock_msg_free(msg);
}

void udp_receive(struct socket *to, const struct inet_packet *packet, const void *data, size_t len)
{
	struct inet_packet *aux;
	struct sock_msg *msg;

	/* Cheap when a flood has filled the queue. */
	if (READ_ONCE(to->queued) + len > READ_ONCE(to->rcvbuf)) {
		__atomic_add_fetch(&to->drops, 1, __ATOMIC_RELAXED);
		return;
	}
	aux = kmem_alloc(kmem_account_of(to), sizeof(*aux));
	if (!aux)
		return;
	*aux = *packet;
	msg = sock_msg_copy_of(data, len, kmem_account_of(to));
	if (IS_ERR(msg)) {
		kmem_free(aux);
		return;
	}
	msg->aux = aux;
	deliver(to, msg);
}

void inet_give_all(inet_find_fn *find, void (*give)(struct socket *to, const void *what),
		   const void *what)
{
	struct socket *few[RECEIVERS], **all = few;
	uint32_t max = RECEIVERS, nr;

	/* There may be more of them when there is memory for those that there were. */
	while ((nr = find(what, all, max)) > max) {
		for (uint32_t i = 0; i < max; i++)
			socket_put(all[i]);
		if (all != few)
			kfree(all);
		max = nr + nr / 4;
		all = kcalloc(max, sizeof(*all));
		if (!all)
			return;
	}
	for (uint32_t i = 0; i < nr; i++) {
		give(all[i], what);
		socket_put(all[i]);
	}
	if (all != few)
		kfree(all);
}

/* To @receiver, which is on this processor. */
static ssize_t send_here(struct socket *receiver, struct socket_msg *m,
			 const struct inet_packet *packet)
{
	const size_t len = m->uio->left;
	struct inet_packet *aux = kmem_alloc(kmem_current(), sizeof(*aux));
	struct sock_msg *msg;

	if (!aux)
		return -ENOBUFS;
	*aux = *packet;
	msg = sock_msg_make(m->uio, len, NULL);
	if (IS_ERR(msg)) {
		kmem_free(aux);
		return PTR_ERR(msg);
	}
	msg->aux = aux;
	deliver(receiver, msg);
	return (ssize_t)len;
}

/* No socket has the port that @m is for, which has not been fetched. */
static void is_refused(struct socket *s, struct socket_msg *m, const struct inet_packet *p)
{
	const bool four = inet_is_v4(p->to.addr);
	struct sock_msg *msg = NULL;
	struct inet_error e;

	inet_error_of_port(p, &e);
	if (inet_wants_errors(s, four))
		msg = sock_msg_make(m->uio, inet_error_bytes(four, m->uio->left), NULL);
	inet_error_tell(s, &e, IS_ERR(msg) ? NULL : msg);
}

/* To a port inside of the vNode. */
static ssize_t send_inside(struct socket *s, struct socket_msg *m, const struct inet_packet *packet)
{
	const size_t len = m->uio->left;
	struct inet_packet p = *packet;
	struct socket *receiver;
	ssize_t ret = -ECONNREFUSED;

	inet_make_definite(&p.to);
	if (inet_is_any(p.from.addr))
		memcpy(p.from.addr, inet_of(s)->local.addr, 16);
	if (inet_is_any(p.from.addr) || inet_is_multicast(p.from.addr))
		memcpy(p.from.addr, p.to.addr, 16);
	if (!p.interface)
		p.interface = inet_interface_inside(p.to.addr);
	receiver = inet_find(SOCK_DGRAM, &p.to, &p.from);
	if (receiver) {
		ret = send_here(receiver, m, &p);
		socket_put(receiver);
		return ret;
	}
	if (names_are_shared())
		ret = remote_send_datagram(s, &p, m);
	if (ret == -ECONNREFUSED)
		is_refused(s, m, &p);
	/* As on a wire: nobody hears of it, or the managers were not reached. */
	return ret == -ECONNREFUSED || ret == -ETIMEDOUT ? (ssize_t)len : ret;
}

uint32_t udp_max(const struct socket *s)
{
	return s->family == AF_INET ? UDP_MAX4 : UDP_MAX6;
}

int udp_begin_send(struct socket *s, const struct socket_msg *m, struct inet_packet *packet)
{
	int err = destination(s, m, &packet->to);

	if (!err)
		err = inet_autobind(s);
	if (!err)
		err = inet_packet_of(s, m, packet);
	if (!err)
		err = -socket_take_error(s);
	if (!err && (READ_ONCE(s->shut) & SOCKET_SHUT_WR))
		err = -EPIPE;
	return err;
}

ssize_t udp_send_to(struct socket *s, struct socket_msg *m, const struct inet_packet *packet)
{
	if (inet_is_multicast(packet->to.addr))
		return inet_group_send(s, m, packet);
	if (!inet_is_local(packet->to.addr))
		return outside_send_datagram(s, m, packet);
	return send_inside(s, m, packet);
}

static ssize_t udp_send(struct socket *s, struct socket_msg *m)
{
	struct inet_packet packet;
	int err;

	if (m->uio->left > udp_max(s))
		return -EMSGSIZE;
	if (m->flags & MSG_OOB)
		return -EOPNOTSUPP;
	if (udp_is_corked(s, m->flags))
		return udp_send_corked(s, m);
	err = udp_begin_send(s, m, &packet);
	return err ? err : udp_send_to(s, m, &packet);
}

static void tell_packet(struct socket *s, struct socket_msg *m, const struct sock_msg *msg)
{
	const struct inet_packet *packet = msg->aux;

	if (m->wants_addr)
		inet_name_put(s, &packet->from, &m->addr);
	m->packet = *packet;
	m->has_packet = true;
}

ssize_t udp_recvmsg(struct socket *s, struct socket_msg *m)
{
	return socket_recv_message(s, m, tell_packet);
}

static int udp_connect(struct socket *s, const struct sock_addr *addr, bool nonblock)
{
	struct inet_name to;
	uint32_t interface;
	uint8_t from[16];
	int err;

	if (addr->len < sizeof(addr->family))
		return -EINVAL;
	if (addr->family == AF_UNSPEC) {
		inet_forget_remote(s);
		spin_lock(&s->lock);
		__atomic_store_n(&s->state, SOCKET_IDLE, __ATOMIC_RELEASE);
		spin_unlock(&s->lock);
		return 0;
	}
	err = inet_name_fetch(s, addr, &to);
	if (!err)
		err = inet_autobind(s);
	if (err)
		return err;
	if (inet_is_multicast(to.addr)) {
		err = inet_group_way(s, &to, &interface, from);
		if (err)
			return err;
		inet_connect_names(s, &to);
		inet_set_source(s, from);
	} else if (inet_is_local(to.addr)) {
		inet_make_definite(&to);
		inet_connect_names(s, &to);
	} else {
		err = outside_connect_datagrams(s, &to);
		if (err)
			return err;
	}
	spin_lock(&s->lock);
	__atomic_store_n(&s->state, SOCKET_CONNECTED, __ATOMIC_RELEASE);
	spin_unlock(&s->lock);
	return 0;
}

/* A port that the program chose is visible outside at once, another with the first use there. */
static int udp_bind(struct socket *s, const struct sock_addr *addr)
{
	int err = inet_bind(s, addr);

	if (err)
		return err;
	err = outside_open(s, 0);
	if (err)
		inet_unbind(s);
	return err;
}

int udp_shutdown(struct socket *s, unsigned int how)
{
	/* As Linux, it takes effect even without a connection. */
	socket_shut(s, how + 1, 0);
	return READ_ONCE(s->state) == SOCKET_CONNECTED ? 0 : -ENOTCONN;
}

unsigned int udp_poll(struct socket *s)
{
	const uint32_t shut = __atomic_load_n(&s->shut, __ATOMIC_ACQUIRE);
	unsigned int events = POLLOUT | POLLWRNORM | POLLWRBAND;

	if (READ_ONCE(s->error) || inet_has_errors(s))
		events |= POLLERR;
	if (shut & SOCKET_SHUT_RD)
		events |= POLLRDHUP | POLLIN | POLLRDNORM;
	if (shut == SOCKET_SHUT_BOTH)
		events |= POLLHUP;
	if (READ_ONCE(s->nr_queued))
		events |= POLLIN | POLLRDNORM;
	return events;
}

static int udp_init_socket(struct socket *s)
{
	mutex_init(&udp_of(s)->cork_lock, "cork of a socket", RANK_PIPE);
	return inet_init_socket(s);
}

static int udp_setsockopt(struct socket *s, int level, int option, const void *val, uint32_t len)
{
	int number;

	if (level != SOL_UDP || option != UDP_CORK)
		return inet_setsockopt(s, level, option, val, len);
	if (len < sizeof(number))
		return -EINVAL;
	memcpy(&number, val, sizeof(number));
	return udp_set_cork(s, number != 0);
}

static int udp_getsockopt(struct socket *s, int level, int option, void *val, uint32_t *len)
{
	int number;

	if (level != SOL_UDP || option != UDP_CORK)
		return inet_getsockopt(s, level, option, val, len);
	number = READ_ONCE(udp_of(s)->corked);
	*len = MIN(*len, (uint32_t)sizeof(number));
	memcpy(val, &number, *len);
	return 0;
}

static void udp_release(struct socket *s)
{
	inet_release(s);
	udp_drop_cork(s);
	outside_close(s);
	spin_lock(&s->lock);
	s->dead = true;
	spin_unlock(&s->lock);
	sock_queue_purge(s);
	inet_errors_purge(s);
}

const struct socket_ops udp_ops = {
	.name = "udp",
	.size = sizeof(struct udp_socket),
	.init = udp_init_socket,
	.bind = udp_bind,
	.connect = udp_connect,
	.sendmsg = udp_send,
	.recvmsg = udp_recvmsg,
	.shutdown = udp_shutdown,
	.poll = udp_poll,
	.getname = inet_getname,
	.setsockopt = udp_setsockopt,
	.getsockopt = udp_getsockopt,
	.put_control = inet_put_control,
	.recv_error = inet_recv_error,
	.release = udp_release,
};
