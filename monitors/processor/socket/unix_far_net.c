/* SPDX-License-Identifier: MIT */
/*
 * AF_UNIX datagrams to and from other processors: the messages.
 *
 * Flow:	a small datagram lies in the body of a message, a larger one in a buffer that the
 *		device reads.
 * Context:	sending waits for a slot and the answer, killably. Requests are answered in workers.
 * Failure:	a malformed request has no effect but its errno.
 * See:		docs/protocol/pp.md
 */
#define PR_FMT "sockets: "

#include <kernel/printk.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <net/node.h>
#include <net/rpc.h>
#include <processor/process/process.h>
#include <processor/vfs/uio.h>
#include <proto/pp.h>

#include "unix_remote.h"
#include "unix_remote_private.h"

static_assert(PP_UNIX_DATAGRAM_INLINE + sizeof(struct pp_unix_datagram_req_wire) <= RPC_BODY_MAX,
	      "fits");
static_assert(PP_UNIX_DATAGRAM_MAX == UNIX_FAR_MAX && UNIX_FAR_MAX <= REMOTE_LARGE, "fits");
static_assert(PP_UNIX_NAME == sizeof(((struct unix_far *)0)->path), "the same");

/* --- datagrams of this processor ---------------------------------------------------------- */

/* One that is ready to be sent, perhaps more than once. */
struct unix_letter {
	refcount_t refs; /* the caller's, and those of calls, whose buffers it has */
	struct pp_unix_datagram_req_wire *head; /* and the bytes, if they are few */
	uint32_t head_len;
	struct remote_buf *b; /* NULL: they are few */
	struct rpc_sge sge;
};

/* Polling. */
void unix_letter_put(struct unix_letter *l)
{
	if (!refcount_dec_and_test(&l->refs))
		return;
	kfree(l->head);
	remote_buf_free(l->b);
	kfree(l);
}

static void letter_released(struct rpc_call *call)
{
	unix_letter_put(call->arg);
}

/* With room for @len bytes. NULL: no memory. */
static struct unix_letter *letter_alloc(size_t len)
{
	const bool few = len <= PP_UNIX_DATAGRAM_INLINE;
	struct unix_letter *l = kzalloc(sizeof(*l));

	if (!l)
		return NULL;
	refcount_set(&l->refs, 1);
	l->head_len = (uint32_t)(sizeof(*l->head) + (few ? len : 0));
	l->head = kmalloc(l->head_len);
	if (!few) /* a small buffer would not do */
		l->b = remote_buf_make(kmem_current(), MAX(len, (size_t)REMOTE_SMALL + 1));
	if (!l->head || (!few && (!l->b || !l->b->mem))) {
		unix_letter_put(l);
		return NULL;
	}
	if (!few)
		l->sge = (struct rpc_sge){ .mem = l->b->mem,
					   .addr = l->b->paddr,
					   .len = (uint32_t)len };
	return l;
}

static void head_encode(const struct unix_far_letter *head, size_t len,
			struct pp_unix_datagram_req_wire *w)
{
	struct pp_unix_datagram_req req = {
		.sender = head->sender,
		.vnode = PROTO_VNODE_ROOT, /* so far a processor has programs of no other */
		.len = (uint32_t)len,
		.flags = head->asks ? PP_UNIX_ASKS : 0,
		.pid = head->cred.pid,
		.uid = head->cred.uid,
		.gid = head->cred.gid,
		.name_len = (uint16_t)head->name.len,
	};

	memcpy(req.key, head->key, sizeof(req.key));
	memcpy(req.from_key, head->from_key, sizeof(req.from_key));
	memcpy(req.name, head->name.path, head->name.len);
	pp_unix_datagram_req_encode(&req, w);
}

struct unix_letter *unix_letter_write(const struct unix_far_letter *head, struct uio *uio)
{
	const size_t len = uio ? uio->left : 0;
	struct unix_letter *l = letter_alloc(len);
	uint8_t *bytes;

	if (!l)
		return ERR_PTR(-ENOBUFS);
	head_encode(head, len, l->head);
	bytes = l->b ? l->b->data : (uint8_t *)(l->head + 1);
	if (uio && uio_fetch(uio, bytes, len) < len) {
		unix_letter_put(l);
		return ERR_PTR(-EFAULT);
	}
	return l;
}

int unix_letter_send(uint32_t node, struct unix_letter *l)
{
	struct rpc_call *call = rpc_call_create(node, l->b ? RPC_CLASS_WRITEBACK : RPC_CLASS_DEMAND,
						PP_UNIX_DATAGRAM, l->head, l->head_len);
	int err;

	if (!call)
		return -ENOBUFS;
	if (l->b) {
		call->bulk = &l->sge;
		call->nr_bulk = 1;
	}
	call->arg = l;
	call->release = letter_released;
	refcount_inc(&l->refs);
	err = rpc_call_submit_killable(call);
	if (err)
		unix_letter_put(l); /* it is not under way, and is not released */
	else
		err = rpc_call_wait_killable(call);
	rpc_call_put(call);
	return err;
}

static void room_answered(struct rpc_call *call)
{
	unix_far_slot_free(call->arg);
}

int unix_net_tell_room(uint32_t node, uint64_t id, void *hearer)
{
	const struct pp_unix_room m = { .sender = id };
	struct pp_unix_room_wire w;
	struct rpc_call *call;
	int err;

	pp_unix_room_encode(&m, &w);
	call = rpc_call_create(node, RPC_CLASS_CONTROL, PP_UNIX_ROOM, &w, sizeof(w));
	if (!call)
		return -ENOMEM;
	call->done = room_answered;
	call->arg = hearer;
	err = rpc_call_submit(call);
	rpc_call_put(call);
	if (err != -EHOSTDOWN && err != -ESTALE)
		return err;
	pr_debug("node %u has left, with a socket that waited for room\n", node);
	return 0;
}

/* --- datagrams and words of other processors ---------------------------------------------- */

static void letter_of(const struct rpc_request *req, const struct pp_unix_datagram_req *r,
		      const void *data, struct unix_far_letter *out)
{
	*out = (struct unix_far_letter){
		.node = rpc_request_peer(req),
		.incarn = rpc_request_incarn(req),
		.sender = r->sender,
		.asks = r->flags & PP_UNIX_ASKS,
		.cred = { r->pid, r->uid, r->gid },
		.data = data,
		.len = r->len,
	};
	memcpy(out->key, r->key, sizeof(out->key));
	memcpy(out->from_key, r->from_key, sizeof(out->from_key));
	out->name.len = r->name_len;
	memcpy(out->name.path, r->name, sizeof(out->name.path));
}

static enum rpc_handler_result handle_datagram(struct rpc_request *req, void *arg)
{
	uint32_t len, bulk_len;
	const uint8_t *body = rpc_request_body(req, &len);
	const void *bulk = rpc_request_bulk(req, &bulk_len);
	struct pp_unix_datagram_req_wire head;
	struct pp_unix_datagram_req r;
	struct unix_far_letter letter;
	int err = len < sizeof(head) ? -EMSGSIZE : 0;

	if (!err) {
		/* The ring is the peer's to change: the header is copied once, the bytes, too. */
		memcpy(&head, body, sizeof(head));
		err = pp_unix_datagram_req_decode(&head, sizeof(head), &r);
	}
	if (!err)
		err = pp_unix_datagram_check(&r, len - (uint32_t)sizeof(head), bulk_len);
	if (!err)
		err = remote_check_vnode(r.vnode, rpc_request_peer(req));
	if (!err) {
		letter_of(req, &r, bulk_len ? bulk : body + sizeof(head), &letter);
		err = unix_far_receive(&letter);
	}
	rpc_reply(req, err, NULL, 0);
	return RPC_DONE;
}

static enum rpc_handler_result handle_room(struct rpc_request *req, void *arg)
{
	struct pp_unix_room_wire w;
	struct pp_unix_room m;
	uint32_t len;
	int err = rpc_request_copy(req, &w, sizeof(w), &len);

	if (!err)
		err = pp_unix_room_decode(&w, len, &m);
	if (!err)
		unix_far_room(m.sender);
	rpc_reply(req, err, NULL, 0);
	return RPC_DONE;
}

#define FROM RPC_HANDLER_FROM_PROCESSOR

/*
 * The sender may be gone: its datagram stays. They race with the end of the socket. Twice: two
 * datagrams, so it is executed once; word of room twice is harmless.
 */
static const struct rpc_handler handlers[] = {
	{ PP_UNIX_DATAGRAM, FROM, "socket-unix-datagram", handle_datagram },
	{ PP_UNIX_ROOM, FROM | RPC_HANDLER_IDEMPOTENT, "socket-unix-room", handle_room },
};

int unix_far_net_init(void)
{
	return rpc_handlers_register(handlers, ARRAY_SIZE(handlers), NULL);
}
