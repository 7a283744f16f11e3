/* SPDX-License-Identifier: MIT */
/*
 * The gateway: the messages, and datagrams between processors.
 *
 * Flow:	a small datagram lies in the body of a message, a larger one in a buffer that the
 *		device reads. A large one from outside for another processor waits in a list for a
 *		worker, as the stack is locked.
 * Locking:	late.lock (RANK_SPIN_MONITOR) guards that list.
 * Failure:	a malformed request has no effect but its errno. A datagram may be lost, as on a
 *		wire: when the receiver is away or its queue is full.
 * Limits:	MAX_LATE datagrams in the list.
 */
#define PR_FMT "gateway: "

#include "gateway.h"

#include <abi/socket.h>
#include <cluster/cluster.h>
#include <kernel/counter.h>
#include <kernel/panic.h>
#include <kernel/printk.h>
#include <kernel/spinlock.h>
#include <kernel/time.h>
#include <kernel/work.h>
#include <lib/err.h>
#include <lib/list.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <net/node.h>
#include <net/rpc.h>
#include <net/tcpip.h>
#include <processor/process/process.h>
#include <proto/pp.h>

#include "inet_private.h"
#include "remote_private.h"

#define TIMEOUT_NS (5 * NSEC_PER_SEC)
#define MAX_LATE   256u

static_assert(GATEWAY_CARDS == PP_INTERFACES_MAX, "the same");
static_assert(PP_GATEWAY_MAX <= RPC_BODY_MAX_CTL, "fits");
static_assert(PP_DATAGRAM_INLINE + sizeof(struct pp_datagram_req_wire) <= RPC_BODY_MAX, "fits");
static_assert(PP_DATAGRAM_MAX <= REMOTE_BLOCK && REMOTE_BLOCK <= RPC_BULK_MAX, "fits");

COUNTER(datagrams, "gateway.datagrams", "datagrams sent to other processors");
COUNTER(datagrams_lost, "gateway.datagrams_lost", "datagrams that could not be sent to them");

/* A datagram from outside, for the worker. */
struct late_datagram {
	struct list_head link;
	uint32_t node;
	struct inet_packet packet;
	size_t len;
	uint8_t data[];
};

static struct {
	struct spinlock lock; /* RANK_SPIN_MONITOR */
	struct list_head list __guarded_by(&lock);
	uint32_t nr __guarded_by(&lock);
	struct workqueue *wq; /* const after start */
	struct work work;
} late = {
	.lock = SPINLOCK_INIT("late datagrams", RANK_SPIN_MONITOR),
	.list = LIST_HEAD_INIT(late.list),
};

/* --- cards and ports ---------------------------------------------------------------------- */

static void card_encode(const struct tcpip_interface *in, struct pp_interface *out)
{
	*out = (struct pp_interface){ .index = in->index,
				      .mtu = in->mtu,
				      .up = in->up,
				      .prefix4 = in->prefix4,
				      .nr_addr6 = (uint8_t)in->nr_addr6 };
	static_assert(sizeof(out->name) == sizeof(in->name), "the same");
	static_assert(sizeof(out->addr6) == sizeof(in->addr6), "the same");
	strlcpy((char *)out->name, in->name, sizeof(out->name));
	memcpy(out->addr4, in->addr4, sizeof(out->addr4));
	memcpy(out->gateway4, in->gateway4, sizeof(out->gateway4));
	memcpy(out->mac, in->mac, sizeof(out->mac));
	memcpy(out->addr6, in->addr6, sizeof(out->addr6));
	memcpy(out->gateway6, in->gateway6, sizeof(out->gateway6));
}

static void card_decode(const struct pp_interface *in, struct tcpip_interface *out)
{
	*out = (struct tcpip_interface){ .index = in->index,
					 .mtu = in->mtu,
					 .up = in->up,
					 .prefix4 = in->prefix4,
					 .nr_addr6 = in->nr_addr6 };
	strlcpy(out->name, (const char *)in->name, sizeof(out->name));
	memcpy(out->addr4, in->addr4, sizeof(out->addr4));
	memcpy(out->gateway4, in->gateway4, sizeof(out->gateway4));
	memcpy(out->mac, in->mac, sizeof(out->mac));
	memcpy(out->addr6, in->addr6, sizeof(out->addr6));
	memcpy(out->gateway6, in->gateway6, sizeof(out->gateway6));
}

static int ask(uint32_t node, uint16_t opcode, const void *body, size_t len)
{
	const int ret = rpc_call_sync_killable(node, RPC_CLASS_CONTROL, opcode, body, (uint32_t)len,
					       NULL, 0, TIMEOUT_NS);

	return ret > 0 ? -EPROTO : ret;
}

int gateway_net_tell(uint32_t node, const struct tcpip_interface *cards, uint32_t nr)
{
	struct pp_gateway_req *r = kzalloc(sizeof(*r));
	void *body = kmalloc(PP_GATEWAY_MAX);
	ssize_t len = -ENOMEM;
	int err;

	ASSERT(nr && nr <= GATEWAY_CARDS);
	if (r && body) {
		r->vnode = PROTO_VNODE_ROOT; /* so far a processor has programs of no other */
		r->nr_interfaces = nr;
		for (uint32_t i = 0; i < nr; i++)
			card_encode(&cards[i], &r->interfaces[i]);
		len = pp_gateway_req_encode(r, body, PP_GATEWAY_MAX);
	}
	err = len < 0 ? (int)len : ask(node, PP_GATEWAY, body, (size_t)len);
	kfree(body);
	kfree(r);
	return err;
}

int gateway_net_port(uint32_t node, uint64_t id, uint32_t type, const struct tcpip_name *name,
		     unsigned int backlog)
{
	struct pp_port req = { .id = id,
			       .vnode = PROTO_VNODE_ROOT,
			       .kind = type == SOCK_STREAM ? PP_TCP : PP_UDP,
			       .port = name->port,
			       .backlog = backlog,
			       .flags = name->only6 ? PP_V6ONLY : 0 };
	struct pp_port_wire w;

	memcpy(req.addr, name->addr, sizeof(req.addr));
	pp_port_encode(&req, &w);
	return ask(node, PP_PORT, &w, sizeof(w));
}

int gateway_net_unport(uint32_t node, uint64_t id)
{
	const struct pp_unport req = { .id = id };
	struct pp_unport_wire w;

	pp_unport_encode(&req, &w);
	return ask(node, PP_UNPORT, &w, sizeof(w));
}

/* --- datagrams ---------------------------------------------------------------------------- */

static void head_encode(uint64_t port_id, const struct inet_packet *packet, size_t len,
			struct pp_datagram_req_wire *w)
{
	const struct inet_name *from = &packet->from, *to = &packet->to;
	struct pp_datagram_req req = { .port_id = port_id,
				       .vnode = PROTO_VNODE_ROOT,
				       .len = (uint32_t)len,
				       .from_port = from->port,
				       .to_port = to->port,
				       .scope = to->scope_id,
				       .interface = packet->interface,
				       .ttl = packet->ttl,
				       .tos = packet->tos };

	memcpy(req.from_addr, from->addr, sizeof(req.from_addr));
	memcpy(req.to_addr, to->addr, sizeof(req.to_addr));
	pp_datagram_req_encode(&req, w);
}

static struct rpc_call *small_call(uint32_t node, const struct pp_datagram_req_wire *head,
				   const void *data, size_t len, uint8_t *body)
{
	memcpy(body, head, sizeof(*head));
	memcpy(body + sizeof(*head), data, len);
	return rpc_call_create(node, RPC_CLASS_DEMAND, PP_DATAGRAM, body,
			       (uint32_t)(sizeof(*head) + len));
}

/* The parts of a datagram that is under way. */
struct sent {
	struct remote_buf *b; /* NULL: it was small */
	gateway_answered_fn *answered;
	void *arg;
};

static void ended(struct rpc_call *call)
{
	struct sent *sent = call->arg;

	remote_buf_free(sent->b);
	if (sent->answered)
		sent->answered(sent->arg, call->status);
	kfree(sent);
}

/* The bytes are copied into a buffer that the device reads, whose header space is used as well. */
static struct rpc_call *large_call(uint32_t node, const struct pp_datagram_req_wire *head,
				   const void *data, size_t len, struct rpc_sge *sge,
				   struct remote_buf **out)
{
	/* A small buffer would not do. */
	struct remote_buf *b = remote_buf_make(kmem_current(), MAX(len, (size_t)REMOTE_SMALL + 1));
	struct rpc_call *call = NULL;

	if (b && b->mem)
		call = rpc_call_create(node, RPC_CLASS_WRITEBACK, PP_DATAGRAM, head, sizeof(*head));
	if (!call) {
		remote_buf_free(b);
		return NULL;
	}
	memcpy(b->data - REMOTE_HEAD, data, len);
	*sge = (struct rpc_sge){ .mem = b->mem,
				 .addr = b->paddr - REMOTE_HEAD,
				 .len = (uint32_t)len };
	call->bulk = sge;
	call->nr_bulk = 1;
	*out = b;
	return call;
}

/* Consumes @call. */
static int submit(struct rpc_call *call, bool wait)
{
	const int err = wait ? rpc_call_submit_killable(call) : rpc_call_submit(call);

	rpc_call_put(call);
	counter_inc(err ? &datagrams_lost : &datagrams);
	return err;
}

int gateway_net_send(uint32_t node, uint64_t port_id, const struct inet_packet *packet,
		     const void *data, size_t len, bool nonblock, gateway_answered_fn *answered,
		     void *arg)
{
	struct sent *sent = kmalloc(sizeof(*sent));
	struct pp_datagram_req_wire head;
	struct rpc_call *call = NULL;
	struct rpc_sge sge;
	uint8_t *body = NULL;
	int err = -ENOBUFS;

	ASSERT(len <= PP_DATAGRAM_MAX);
	if (!sent)
		return -ENOBUFS;
	*sent = (struct sent){ .answered = answered, .arg = arg };
	head_encode(port_id, packet, len, &head);
	if (len > PP_DATAGRAM_INLINE)
		call = large_call(node, &head, data, len, &sge, &sent->b);
	else
		body = kmalloc(sizeof(head) + len);
	if (body)
		call = small_call(node, &head, data, len, body);
	if (call) {
		call->arg = sent;
		call->release = ended;
		err = submit(call, !nonblock);
	}
	kfree(body);
	if (!err)
		return 0;
	remote_buf_free(sent->b);
	kfree(sent);
	/* A processor that has left takes datagrams as a wire does that leads nowhere. */
	if (err != -EHOSTDOWN && err != -ESTALE)
		return err == -ENOMEM ? -ENOBUFS : err;
	if (answered)
		answered(arg, err);
	return 0;
}

static void send_late(struct work *w)
{
	struct late_datagram *d;

	for (;;) {
		spin_lock(&late.lock);
		d = list_first_entry_or_null(&late.list, struct late_datagram, link);
		if (d) {
			list_del(&d->link);
			late.nr--;
		}
		spin_unlock(&late.lock);
		if (!d)
			return;
		if (gateway_net_send(d->node, 0, &d->packet, d->data, d->len, false, NULL, NULL))
			pr_debug("a datagram of %zu bytes is lost\n", d->len);
		kfree(d);
	}
}

static void pass_late(uint32_t node, const struct inet_packet *packet, const void *data, size_t len)
{
	struct late_datagram *d = kmalloc(sizeof(*d) + len);
	bool taken = false;

	if (d) {
		*d = (struct late_datagram){ .node = node, .packet = *packet, .len = len };
		memcpy(d->data, data, len);
		spin_lock(&late.lock);
		taken = late.nr < MAX_LATE;
		if (taken) {
			list_add_tail(&d->link, &late.list);
			late.nr++;
		}
		spin_unlock(&late.lock);
	}
	if (taken) {
		(void)work_queue(late.wq, &late.work); /* it may be queued already */
		return;
	}
	kfree(d);
	counter_inc(&datagrams_lost);
}

void gateway_net_pass(uint32_t node, const struct inet_packet *packet, const void *data, size_t len)
{
	struct pp_datagram_req_wire head;
	struct rpc_call *call = NULL;
	uint8_t *body;

	if (!packet->from.port || len > PP_DATAGRAM_MAX)
		return; /* no answer could come there; no card gives more */
	if (len > PP_DATAGRAM_INLINE) {
		pass_late(node, packet, data, len);
		return;
	}
	head_encode(0, packet, len, &head);
	body = kmalloc(sizeof(head) + len);
	if (body)
		call = small_call(node, &head, data, len, body);
	if (call)
		(void)submit(call, false); /* a lost one is counted */
	else
		counter_inc(&datagrams_lost);
	kfree(body);
}

/* --- requests of other processors ---------------------------------------------------------- */

/* May the sender name @vnode, whose sockets these are? */
static int check(const struct rpc_request *req, uint32_t vnode)
{
	const int err = cluster_vnode_check(vnode, rpc_request_peer(req), false);

	return err ? err : vnode == PROTO_VNODE_ROOT ? 0 : -EACCES;
}

static int learn(const struct rpc_request *req, const struct pp_gateway_req *r)
{
	struct tcpip_interface *cards;
	int err = check(req, r->vnode);

	if (err)
		return err;
	cards = kcalloc(r->nr_interfaces, sizeof(*cards));
	if (!cards)
		return -ENOBUFS;
	for (uint32_t i = 0; i < r->nr_interfaces; i++)
		card_decode(&r->interfaces[i], &cards[i]);
	err = gateway_learn(rpc_request_peer(req), rpc_request_incarn(req), cards,
			    r->nr_interfaces);
	kfree(cards);
	return err;
}

static enum rpc_handler_result handle_gateway(struct rpc_request *req, void *arg)
{
	struct pp_gateway_req *r = kmalloc(sizeof(*r));
	void *body = kmalloc(PP_GATEWAY_MAX);
	uint32_t len;
	int err = r && body ? rpc_request_copy(req, body, PP_GATEWAY_MAX, &len) : -ENOBUFS;

	if (!err)
		err = pp_gateway_req_decode(body, len, r);
	if (!err)
		err = learn(req, r);
	kfree(body);
	kfree(r);
	rpc_reply(req, err, NULL, 0);
	return RPC_DONE;
}

static enum rpc_handler_result handle_port(struct rpc_request *req, void *arg)
{
	struct tcpip_name name = { 0 };
	struct pp_port_wire w;
	struct pp_port r;
	uint32_t len;
	int err = rpc_request_copy(req, &w, sizeof(w), &len);

	if (!err)
		err = pp_port_decode(&w, len, &r);
	if (!err)
		err = check(req, r.vnode);
	if (!err) {
		memcpy(name.addr, r.addr, sizeof(name.addr));
		name.port = r.port;
		name.only6 = r.flags & PP_V6ONLY;
		err = outside_far_open(rpc_request_peer(req), rpc_request_incarn(req), r.id,
				       r.kind == PP_TCP ? SOCK_STREAM : SOCK_DGRAM, &name,
				       r.backlog);
	}
	rpc_reply(req, err, NULL, 0);
	return RPC_DONE;
}

static enum rpc_handler_result handle_unport(struct rpc_request *req, void *arg)
{
	struct pp_unport_wire w;
	struct pp_unport r;
	uint32_t len;
	int err = rpc_request_copy(req, &w, sizeof(w), &len);

	if (!err)
		err = pp_unport_decode(&w, len, &r);
	if (!err)
		outside_far_close(rpc_request_peer(req), rpc_request_incarn(req), r.id);
	rpc_reply(req, err, NULL, 0);
	return RPC_DONE;
}

/* To a socket here, or by one of the gateway's ports. */
static int take_datagram(const struct rpc_request *req, const struct pp_datagram_req *r,
			 const void *data)
{
	struct inet_packet p = { .from.port = r->from_port,
				 .to = { .port = r->to_port, .scope_id = r->scope },
				 .interface = r->interface,
				 .ttl = r->ttl,
				 .tos = r->tos };
	struct socket *s;

	memcpy(p.from.addr, r->from_addr, sizeof(p.from.addr));
	memcpy(p.to.addr, r->to_addr, sizeof(p.to.addr));
	if (r->port_id && (inet_is_local(p.to.addr) || inet_is_multicast(p.to.addr)))
		return -ENETUNREACH;
	if (r->port_id)
		return outside_far_send(rpc_request_peer(req), rpc_request_incarn(req), r->port_id,
					&p, data, r->len);
	s = inet_find(SOCK_DGRAM, &p.to, &p.from);
	if (!s)
		return -ECONNREFUSED;
	udp_receive(s, &p, data, r->len);
	socket_put(s);
	return 0;
}

static enum rpc_handler_result handle_datagram(struct rpc_request *req, void *arg)
{
	uint32_t len, bulk_len;
	const uint8_t *body = rpc_request_body(req, &len);
	const void *bulk = rpc_request_bulk(req, &bulk_len);
	struct pp_datagram_req_wire head;
	struct pp_datagram_req r;
	int err = len < sizeof(head) ? -EMSGSIZE : 0;

	if (!err) {
		/* The ring is the peer's to change: the header is copied once, the bytes, too. */
		memcpy(&head, body, sizeof(head));
		err = pp_datagram_req_decode(&head, sizeof(head), &r);
	}
	if (!err)
		err = pp_datagram_check(&r, len - (uint32_t)sizeof(head), bulk_len);
	if (!err)
		err = check(req, r.vnode);
	if (!err)
		err = take_datagram(req, &r, bulk_len ? bulk : body + sizeof(head));
	rpc_reply(req, err, NULL, 0);
	return RPC_DONE;
}

#define FROM RPC_HANDLER_FROM_PROCESSOR

/*
 * Worker threads. The sender may be gone: what it had here is dropped when membership says so, and
 * what comes later is dropped at once. All race with each other; twice: the same, the same, the
 * same, two datagrams, as on a wire (so it is executed once).
 */
static const struct rpc_handler handlers[] = {
	{ PP_GATEWAY, FROM | RPC_HANDLER_IDEMPOTENT, "gateway", handle_gateway },
	{ PP_PORT, FROM | RPC_HANDLER_IDEMPOTENT, "gateway-port", handle_port },
	{ PP_UNPORT, FROM | RPC_HANDLER_IDEMPOTENT, "gateway-unport", handle_unport },
	{ PP_DATAGRAM, FROM, "socket-datagram", handle_datagram },
};

int gateway_net_init(void)
{
	work_init(&late.work, send_late);
	late.wq = workqueue_create("datagrams", 1);
	if (IS_ERR(late.wq))
		return (int)PTR_ERR(late.wq);
	return rpc_handlers_register(handlers, ARRAY_SIZE(handlers), NULL);
}
