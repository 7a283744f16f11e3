/* SPDX-License-Identifier: MIT */
/*
 * The messages of processors about names of vNodes, at the node that hosts the managers.
 *
 * Flow:	decode -> is the sender a member, and the vNode on it? -> do all processors of an
 *		earlier host have told what they have? -> the table (names.c) decides.
 * Locking:	service.lock (RANK_SPIN_MONITOR) around the table. A request looks under it whether
 *		its sender has been fenced, and the table forgets a sender after that: so nothing of
 *		one that has left stays.
 * Failure:	-EAGAIN is answered to processors that have to tell what they have first, and while
 *		the managers, started again, do not know the names of all: the senders repeat.
 */
#define PR_FMT "names: "

#include <cluster/cluster.h>
#include <kernel/bootparam.h>
#include <kernel/counter.h>
#include <kernel/spinlock.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <managers/names.h>
#include <mm/slab.h>
#include <net/node.h>
#include <net/rpc.h>

#include "host_view.h"

COUNTER(names_refused, "names.in_use", "names refused as a socket of another processor has them");
COUNTER(names_reports, "names.reports", "processors that told all their names");
COUNTER(names_leases, "names.leases", "runs of ports leased to processors");
COUNTER(names_finds, "names.finds", "look-ups of a listening socket");

static uint32_t max_names = 65536;
BOOT_PARAM_RANGE("names.max", u32, max_names, 16, 16777216,
		 "ports and abstract names that the sockets of one processor may have");

static struct {
	struct spinlock lock; /* RANK_SPIN_MONITOR */
	struct names names __guarded_by(&lock);
} service = {
	.lock = SPINLOCK_INIT("names", RANK_SPIN_MONITOR),
};

static uint64_t gauge_names(void)
{
	uint64_t nr;

	spin_lock(&service.lock);
	nr = service.names.nr;
	spin_unlock(&service.lock);
	return nr;
}
GAUGE(names_gauge, "names.entries", "names of processors' sockets", gauge_names);

/* --- whether a request may be answered ------------------------------------------------------ */

static bool knows(uint32_t node, uint32_t incarn)
{
	bool yes;

	spin_lock(&service.lock);
	yes = name_table_knows(&service.names, node, incarn);
	spin_unlock(&service.lock);
	return yes;
}

/* A private copy of the request's body, of exactly @size bytes. */
static int copy_body(const struct rpc_request *req, void *buf, size_t size)
{
	uint32_t len;
	const int err = rpc_request_copy(req, buf, size, &len);

	return err ? err : len == size ? 0 : -EMSGSIZE;
}

/* Membership may take the sender out at any time: only what is asked under the lock holds. */
static bool is_fenced_locked(const struct rpc_request *req) __must_hold(&service.lock)
{
	struct node_info info;

	assert_spin_held(&service.lock);
	return !rpc_peer_info(rpc_request_peer(req), &info) ||
	       info.incarn != rpc_request_incarn(req) || rpc_peer_is_out(rpc_request_peer(req));
}

/* 0: the sender of @req may be given a name of @vnode; else why it must not, or not yet. */
static int check(const struct rpc_request *req, uint32_t vnode)
{
	const int err = host_vnode_check(vnode, rpc_request_peer(req), rpc_request_incarn(req));

	return err ? err : host_awaits_processors(knows) ? -EAGAIN : 0;
}

/* --- requests ------------------------------------------------------------------------------- */

static enum rpc_handler_result handle_name(struct rpc_request *req, void *arg)
{
	struct pg_name_wire w;
	struct pg_name name;
	int err = copy_body(req, &w, sizeof(w));

	if (!err)
		err = pg_name_decode(&w, sizeof(w), &name);
	if (!err)
		err = check(req, name.vnode);
	if (!err) {
		spin_lock(&service.lock);
		err = is_fenced_locked(req) ? -ESTALE
					    : name_table_set(&service.names, rpc_request_peer(req),
							     rpc_request_incarn(req), &name);
		spin_unlock(&service.lock);
	}
	if (err == -EADDRINUSE)
		counter_inc(&names_refused);
	rpc_reply(req, err, NULL, 0);
	return RPC_DONE;
}

static enum rpc_handler_result handle_release(struct rpc_request *req, void *arg)
{
	struct pg_release_req_wire w;
	struct pg_release_req r;
	int err = copy_body(req, &w, sizeof(w));

	if (!err)
		err = pg_release_req_decode(&w, sizeof(w), &r);
	if (!err)
		err = host_vnode_check(r.vnode, rpc_request_peer(req), rpc_request_incarn(req));
	if (!err) {
		spin_lock(&service.lock);
		err = name_table_release(&service.names, rpc_request_peer(req),
					 rpc_request_incarn(req), &r);
		spin_unlock(&service.lock);
	}
	rpc_reply(req, err, NULL, 0);
	return RPC_DONE;
}

static enum rpc_handler_result handle_find(struct rpc_request *req, void *arg)
{
	struct pg_find_req_wire w;
	struct pg_find_rep_wire rep;
	struct pg_find_req r;
	struct pg_find_rep found = { 0 };
	int err = copy_body(req, &w, sizeof(w));

	if (!err)
		err = pg_find_req_decode(&w, sizeof(w), &r);
	if (!err)
		err = host_vnode_check(r.vnode, rpc_request_peer(req), rpc_request_incarn(req));
	if (!err) {
		spin_lock(&service.lock);
		found.node = name_table_find(&service.names, rpc_request_peer(req), &r);
		spin_unlock(&service.lock);
		counter_inc(&names_finds);
		if (!found.node)
			err = host_awaits_processors(knows) ? -EAGAIN : -ECONNREFUSED;
	}
	pg_find_rep_encode(&found, &rep);
	rpc_reply(req, err, err ? NULL : &rep, err ? 0 : sizeof(rep));
	return RPC_DONE;
}

static enum rpc_handler_result handle_lease(struct rpc_request *req, void *arg)
{
	struct pg_lease_req_wire w;
	struct pg_lease_rep_wire rep;
	struct pg_lease_req r;
	struct pg_lease_rep lease = { 0 };
	int err = copy_body(req, &w, sizeof(w));

	if (!err)
		err = pg_lease_req_decode(&w, sizeof(w), &r);
	if (!err)
		err = check(req, r.vnode);
	if (!err) {
		spin_lock(&service.lock);
		err = is_fenced_locked(req)
			      ? -ESTALE
			      : name_table_lease(&service.names, rpc_request_peer(req),
						 rpc_request_incarn(req), &r, &lease);
		spin_unlock(&service.lock);
	}
	if (!err)
		counter_inc(&names_leases);
	pg_lease_rep_encode(&lease, &rep);
	rpc_reply(req, err, err ? NULL : &rep, err ? 0 : sizeof(rep));
	return RPC_DONE;
}

static int report(const struct rpc_request *req, const struct pg_report_req *r)
{
	int err = host_vnode_check(r->vnode, rpc_request_peer(req), rpc_request_incarn(req));

	if (err)
		return err;
	spin_lock(&service.lock);
	err = is_fenced_locked(req) ? -ESTALE
				    : name_table_report(&service.names, rpc_request_peer(req),
							rpc_request_incarn(req), r);
	spin_unlock(&service.lock);
	if (!err && (r->flags & PG_REPORT_LAST))
		counter_inc(&names_reports);
	return err;
}

static enum rpc_handler_result handle_report(struct rpc_request *req, void *arg)
{
	struct pg_report_req *r = kmalloc(sizeof(*r));
	void *body = kmalloc(RPC_BODY_MAX_CTL);
	uint32_t len = 0;
	int err = r && body ? rpc_request_copy(req, body, RPC_BODY_MAX_CTL, &len) : -ENOBUFS;

	if (!err)
		err = pg_report_req_decode(body, len, r);
	if (!err)
		err = report(req, r);
	kfree(body);
	kfree(r);
	rpc_reply(req, err, NULL, 0);
	return RPC_DONE;
}

/*
 * Worker threads; the sender may have left, which is looked at under the lock; they race with each
 * other, and the table is right in any order, as a processor sends one after the other; twice: the
 * same, but for a lease, of which the first is lost until the processor leaves.
 */
static const struct rpc_handler handlers[] = {
	{ PG_NAME, RPC_HANDLER_FROM_PROCESSOR | RPC_HANDLER_IDEMPOTENT, "name", handle_name },
	{ PG_RELEASE, RPC_HANDLER_FROM_PROCESSOR | RPC_HANDLER_IDEMPOTENT, "name-release",
	  handle_release },
	{ PG_FIND, RPC_HANDLER_FROM_PROCESSOR | RPC_HANDLER_IDEMPOTENT, "name-find", handle_find },
	{ PG_LEASE, RPC_HANDLER_FROM_PROCESSOR, "name-lease", handle_lease },
	{ PG_REPORT, RPC_HANDLER_FROM_PROCESSOR, "name-report", handle_report },
};

int names_service_start(void)
{
	spin_lock(&service.lock);
	name_table_init(&service.names, max_names);
	spin_unlock(&service.lock);
	return rpc_handlers_register(handlers, ARRAY_SIZE(handlers), NULL);
}

static bool is_in_view(uint32_t node, uint32_t incarn, const void *arg)
{
	const struct cluster_view *v = arg;

	for (size_t i = 0; i < v->nr_members; i++) {
		if (v->members[i].id == node)
			return v->members[i].incarn == incarn;
	}
	return false;
}

void names_service_view(const struct cluster_view *v)
{
	spin_lock(&service.lock);
	name_table_keep(&service.names, is_in_view, v);
	spin_unlock(&service.lock);
}
