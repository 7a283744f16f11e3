/* SPDX-License-Identifier: MIT */
/*
 * AF_NETLINK: sockets by which programs ask about the network's state (NETLINK_ROUTE).
 *
 * Flow:	sendmsg() takes the program's messages, answers each at once (rtnl.c), and puts the
 *		answers into the sender's own queue, from which recvmsg() takes them.
 * Locking:	table_lock (RANK_SOCKET_TABLE) guards the table of port ids and netlink_socket.port.
 * Failure:	answers that find the queue full are lost, and the next call on the socket says
 *		ENOBUFS, as on Linux.
 * Limits:	there are no other families than the route family, no groups (no events), and no
 *		messages between programs.
 */
#include "netlink.h"

#include <abi/poll.h>
#include <abi/prctl.h>
#include <kernel/initcall.h>
#include <kernel/panic.h>
#include <kernel/random.h>
#include <lib/err.h>
#include <lib/hash.h>
#include <lib/string.h>
#include <processor/account/account.h>
#include <processor/process/process.h>
#include <processor/vfs/uio.h>

#include "queue.h"
#include "rtnl.h"

#define BUCKETS      64u
#define PROTOCOLS    32u         /* Linux's MAX_LINKS */
#define OVERHEAD     32u         /* of SO_SNDBUF, that Linux keeps from a message */
#define PICKED_PORTS 0x80000000u /* ports of the system's choice have this bit: no pid has it */

/* Options that are one bit, by their number. */
#define OPTIONS                                                                          \
	(BIT(NETLINK_PKTINFO) | BIT(NETLINK_BROADCAST_ERROR) | BIT(NETLINK_NO_ENOBUFS) | \
	 BIT(NETLINK_CAP_ACK) | BIT(NETLINK_EXT_ACK) | BIT(NETLINK_GET_STRICT_CHK))

struct netlink_socket {
	struct socket s;
	struct hlist_node node; /* table lock: in the table, if port is set */
	uint32_t port;          /* table lock; read without: it is set once. 0: none yet */
	uint32_t options;       /* atomic: by number */
};

static struct spinlock table_lock = SPINLOCK_INIT("netlink ports", RANK_SOCKET_TABLE);
static struct hlist_head buckets[BUCKETS] __guarded_by(&table_lock);

static struct netlink_socket *netlink_of(struct socket *s)
{
	return container_of(s, struct netlink_socket, s);
}

/* --- port ids ------------------------------------------------------------------------ */

static struct hlist_head *bucket_of(uint32_t port) __must_hold(&table_lock)
{
	return &buckets[hash64(port) % BUCKETS];
}

/* @n gets @port, which another may have: -EADDRINUSE. */
static int enter_locked(struct netlink_socket *n, uint32_t port) __must_hold(&table_lock)
{
	struct netlink_socket *other;

	assert_spin_held(&table_lock);
	hlist_for_each_entry(other, bucket_of(port), node) {
		if (other->port == port)
			return -EADDRINUSE;
	}
	__atomic_store_n(&n->port, port, __ATOMIC_RELEASE);
	hlist_add_head(&n->node, bucket_of(port));
	return 0;
}

/* A port of the system's choice, unless it has one: the process's id if that is free. */
static void autobind(struct netlink_socket *n)
{
	uint32_t port = process_vpid(process_current());

	if (__atomic_load_n(&n->port, __ATOMIC_ACQUIRE))
		return;
	spin_lock(&table_lock);
	while (!n->port && enter_locked(n, port)) {
		random_bytes(&port, sizeof(port));
		port |= PICKED_PORTS;
	}
	spin_unlock(&table_lock);
}

/* The family, and that there is a whole address. -EINVAL */
static int check_addr(const struct sock_addr *addr)
{
	return addr->len < sizeof(addr->nl) || addr->family != AF_NETLINK ? -EINVAL : 0;
}

/* The kernel is port 0 without groups; others are not reached. */
static int check_destination(const struct sock_addr *addr)
{
	const int err = check_addr(addr);

	if (err || (!addr->nl.pid && !addr->nl.groups))
		return err;
	return capable(CAP_NET_ADMIN) ? -EOPNOTSUPP : -EPERM;
}

static int netlink_bind(struct socket *s, const struct sock_addr *addr)
{
	struct netlink_socket *n = netlink_of(s);
	int err = check_addr(addr);

	if (err)
		return err;
	if (addr->nl.groups)
		return -EOPNOTSUPP;
	if (!addr->nl.pid) {
		autobind(n);
		return 0;
	}
	spin_lock(&table_lock);
	if (n->port)
		err = n->port == addr->nl.pid ? 0 : -EINVAL;
	else
		err = enter_locked(n, addr->nl.pid);
	spin_unlock(&table_lock);
	return err;
}

static int netlink_connect(struct socket *s, const struct sock_addr *addr, bool nonblock)
{
	int err;

	if (addr->len < sizeof(addr->family))
		return -EINVAL;
	if (addr->family == AF_UNSPEC)
		return 0; /* the kernel is the destination of a socket without one, too */
	err = check_destination(addr);
	if (!err)
		autobind(netlink_of(s));
	return err;
}

static void put_name(struct sock_addr *addr, uint32_t port)
{
	addr->len = sizeof(addr->nl);
	addr->nl = (struct linux_sockaddr_nl){ .family = AF_NETLINK, .pid = port };
}

static int netlink_getname(struct socket *s, bool peer, struct sock_addr *addr)
{
	put_name(addr, peer ? 0 : __atomic_load_n(&netlink_of(s)->port, __ATOMIC_ACQUIRE));
	return 0;
}

/* --- answers ------------------------------------------------------------------------- */

static bool option_is_on(struct socket *s, int option)
{
	return __atomic_load_n(&netlink_of(s)->options, __ATOMIC_RELAXED) &
	       BIT((unsigned int)option);
}

/* The queue has no room: what was to go there is lost. */
static void lose(struct socket *s)
{
	__atomic_add_fetch(&s->drops, 1, __ATOMIC_RELAXED);
	if (!option_is_on(s, NETLINK_NO_ENOBUFS))
		socket_shut(s, 0, ENOBUFS);
}

static void push(struct socket *s, struct sock_msg *msg)
{
	spin_lock(&s->lock);
	if (!s->dead) {
		sock_queue_push_locked(s, msg);
		msg = NULL;
	}
	spin_unlock(&s->lock);
	if (msg)
		sock_msg_free(msg);
	else
		socket_wake(&s->rd_wait);
}

static int enqueue(struct socket *s, const void *data, size_t len)
{
	struct sock_msg *msg;

	if (READ_ONCE(s->queued) >= READ_ONCE(s->rcvbuf))
		return -ENOBUFS;
	msg = sock_msg_copy_of(data, len, kmem_account_of(s));
	if (IS_ERR(msg))
		return PTR_ERR(msg);
	push(s, msg);
	return 0;
}

static int send_part(struct nl_out *out)
{
	return enqueue(out->arg, out->sink.data, out->sink.len);
}

/* Acknowledge the request, or say what was wrong with it. */
static int acknowledge(struct socket *s, const struct linux_nlmsghdr *hdr, const void *msg, int err)
{
	const bool repeats = err && !option_is_on(s, NETLINK_CAP_ACK);
	const struct nl_reply to = { .seq = hdr->seq, .pid = netlink_of(s)->port };
	struct nl_sink sink = { .room = sizeof(struct linux_nlmsghdr) +
					sizeof(struct linux_nlmsgerr) +
					(repeats ? hdr->len + sizeof(uint32_t) : 0) };

	sink.data = kmem_alloc(kmem_current(), sink.room);
	if (!sink.data)
		return -ENOBUFS;
	if (!nl_put_error(&sink, &to, hdr, repeats ? msg : NULL, err))
		BUG_ON(sink.room);
	err = enqueue(s, sink.data, sink.len);
	kmem_free(sink.data);
	return err;
}

/* One message of the program's. An errno: its answer was lost. */
static int handle(struct socket *s, struct nl_out *out, const struct linux_nlmsghdr *hdr,
		  const void *msg)
{
	int err = 0;

	if ((hdr->flags & NLM_F_REQUEST) && hdr->type >= NLMSG_MIN_TYPE)
		err = rtnl_answer(out, hdr, msg, netlink_of(s)->port,
				  option_is_on(s, NETLINK_GET_STRICT_CHK), capable(CAP_NET_ADMIN));
	if (err == -ENOBUFS)
		return err;
	if (err < 0 || (!err && (hdr->flags & NLM_F_ACK)))
		return acknowledge(s, hdr, msg, err);
	return 0;
}

static void handle_all(struct socket *s, const uint8_t *buf, size_t len, uint8_t *part)
{
	struct nl_out out = { .sink = { .data = part, .room = NL_PART },
			      .send = send_part,
			      .arg = s };
	struct linux_nlmsghdr hdr;
	size_t step;

	while ((step = nl_next(buf, len, &hdr))) {
		if (handle(s, &out, &hdr, buf)) {
			lose(s);
			return;
		}
		buf += step;
		len -= step;
	}
}

static ssize_t netlink_sendmsg(struct socket *s, struct socket_msg *m)
{
	const size_t len = m->uio->left;
	uint8_t *buf, *part;
	ssize_t ret = (ssize_t)len;
	int err;

	if (m->flags & MSG_OOB)
		return -EOPNOTSUPP;
	if (!len)
		return -ENODATA;
	err = m->addr.len ? check_destination(&m->addr) : 0;
	if (err)
		return err;
	autobind(netlink_of(s));
	if (len > READ_ONCE(s->sndbuf) - OVERHEAD)
		return -EMSGSIZE;
	buf = kmem_alloc(kmem_current(), len);
	part = kmem_alloc(kmem_current(), NL_PART);
	if (!buf || !part)
		ret = -ENOBUFS;
	else if (uio_fetch(m->uio, buf, len) < len)
		ret = -EFAULT;
	else
		handle_all(s, buf, len, part);
	kmem_free(part);
	kmem_free(buf);
	return ret;
}

static ssize_t netlink_recvmsg(struct socket *s, struct socket_msg *m)
{
	ssize_t ret;

	if (m->flags & MSG_OOB)
		return -EOPNOTSUPP;
	ret = socket_recv_message(s, m, NULL);
	if (ret >= 0 && m->wants_addr)
		put_name(&m->addr, 0);
	return ret;
}

/* --- options and state --------------------------------------------------------------- */

static int netlink_setsockopt(struct socket *s, int level, int option, const void *val,
			      uint32_t len)
{
	struct netlink_socket *n = netlink_of(s);
	uint32_t number;

	if (level != SOL_NETLINK)
		return -ENOPROTOOPT;
	if (len < sizeof(number))
		return -EINVAL;
	memcpy(&number, val, sizeof(number));
	if (option == NETLINK_ADD_MEMBERSHIP || option == NETLINK_DROP_MEMBERSHIP)
		return -EOPNOTSUPP;
	if (option < 0 || option >= 32 || !(OPTIONS & BIT((unsigned int)option)))
		return -ENOPROTOOPT;
	if (option == NETLINK_BROADCAST_ERROR && number)
		return -EOPNOTSUPP; /* there are no groups */
	if (number)
		__atomic_or_fetch(&n->options, BIT((unsigned int)option), __ATOMIC_RELAXED);
	else
		__atomic_and_fetch(&n->options, ~BIT((unsigned int)option), __ATOMIC_RELAXED);
	return 0;
}

static int netlink_getsockopt(struct socket *s, int level, int option, void *val, uint32_t *len)
{
	uint32_t number;

	if (level != SOL_NETLINK)
		return -ENOPROTOOPT;
	if (option == NETLINK_LIST_MEMBERSHIPS) {
		*len = 0; /* of no group */
		return 0;
	}
	if (option < 0 || option >= 32 || !(OPTIONS & BIT((unsigned int)option)))
		return -ENOPROTOOPT;
	if (*len < sizeof(number))
		return -EINVAL;
	number = option_is_on(s, option);
	memcpy(val, &number, sizeof(number));
	*len = sizeof(number);
	return 0;
}

static unsigned int netlink_poll(struct socket *s)
{
	unsigned int events = POLLOUT | POLLWRNORM | POLLWRBAND;

	if (READ_ONCE(s->error))
		events |= POLLERR;
	if (READ_ONCE(s->nr_queued))
		events |= POLLIN | POLLRDNORM;
	return events;
}

static void netlink_release(struct socket *s)
{
	struct netlink_socket *n = netlink_of(s);

	spin_lock(&table_lock);
	if (n->port)
		hlist_del(&n->node);
	spin_unlock(&table_lock);
	spin_lock(&s->lock);
	s->dead = true;
	spin_unlock(&s->lock);
	sock_queue_purge(s);
}

static const struct socket_ops netlink_ops = {
	.name = "netlink",
	.size = sizeof(struct netlink_socket),
	.bind = netlink_bind,
	.connect = netlink_connect,
	.sendmsg = netlink_sendmsg,
	.recvmsg = netlink_recvmsg,
	.poll = netlink_poll,
	.getname = netlink_getname,
	.setsockopt = netlink_setsockopt,
	.getsockopt = netlink_getsockopt,
	.release = netlink_release,
};

static const struct socket_ops *netlink_choose(uint32_t type, uint32_t *protocol)
{
	if (type != SOCK_RAW && type != SOCK_DGRAM)
		return ERR_PTR(-ESOCKTNOSUPPORT);
	if (*protocol >= PROTOCOLS || *protocol != NETLINK_ROUTE)
		return ERR_PTR(-EPROTONOSUPPORT);
	return &netlink_ops;
}

int netlink_check(const struct file *f)
{
	const struct socket *s = socket_of(f);

	if (!s)
		return -ENOTSOCK;
	return s->ops == &netlink_ops ? 0 : -EINVAL;
}

void netlink_deliver(struct file *f, struct sock_msg *msg)
{
	ASSERT(!netlink_check(f));
	push(socket_of(f), msg);
}

static const struct socket_family netlink_family = {
	.family = AF_NETLINK,
	.choose = netlink_choose,
};

int netlink_init(void)
{
	socket_family_register(&netlink_family);
	return 0;
}
INITCALL(fs, netlink_init);
