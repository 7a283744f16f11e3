/* SPDX-License-Identifier: MIT */
/*
 * The table of names of vNodes: see <managers/names.h>.
 *
 * Invariants:	an entry is in the list of its processor and in both hash tables.
 */
#include <managers/names.h>

#include <kernel/panic.h>
#include <lib/errno.h>
#include <lib/hash.h>
#include <lib/string.h>
#include <mm/slab.h>

struct names_node { /* one processor */
	struct list_head link;
	struct list_head entries;
	uint32_t id, incarn;
	uint32_t nr;
	bool is_known;                  /* it has told all that it has */
	uint8_t leases[PG_LEASE_BYTES]; /* runs of ports, for its sockets of all vNodes */
};

struct entry {
	struct hlist_node by_name, by_id;
	struct list_head link;
	struct names_node *owner;
	struct pg_name name;
};

void name_table_init(struct names *n, uint32_t max)
{
	memset(n, 0, sizeof(*n));
	list_init(&n->nodes);
	n->max = max;
}

/* --- finding --------------------------------------------------------------------------- */

static bool is_inet(uint32_t kind)
{
	return kind == PG_TCP || kind == PG_UDP;
}

/* Names that may conflict have the same: the address of a port is any, so it does not count. */
static uint64_t key_of(uint32_t kind, uint16_t port, const uint8_t addr[16])
{
	uint64_t half;

	if (is_inet(kind))
		return hash64_pair(kind, port) % NAMES_BUCKETS;
	memcpy(&half, addr, sizeof(half)); /* a hash already */
	return hash64_pair(kind, half) % NAMES_BUCKETS;
}

static uint64_t id_key(uint32_t node, uint64_t id)
{
	return hash64_pair(node, id) % NAMES_BUCKETS;
}

static struct names_node *find_node(const struct names *n, uint32_t id, uint32_t incarn)
{
	struct names_node *at;

	list_for_each_entry(at, &n->nodes, link) {
		if (at->id == id && at->incarn == incarn)
			return at;
	}
	return NULL;
}

static struct entry *find_id(const struct names *n, const struct names_node *owner, uint64_t id)
{
	struct entry *e;

	hlist_for_each_entry(e, &n->ids[id_key(owner->id, id)], by_id) {
		if (e->owner == owner && e->name.id == id)
			return e;
	}
	return NULL;
}

static bool is_v4(const uint8_t addr[16])
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	return !memcmp(addr, mapped, sizeof(mapped));
}

static bool is_any(const uint8_t addr[16])
{
	static const uint8_t any[16];

	return !memcmp(addr, any, 16) || (is_v4(addr) && !memcmp(addr + 12, any, 4));
}

/* --- conflicts ------------------------------------------------------------------------- */

/* Could one datagram or connection be for both? As Linux, and the processors, decide. */
static bool overlap(const struct pg_name *a, const struct pg_name *b)
{
	const bool a4 = is_v4(a->addr), b4 = is_v4(b->addr);

	if (!memcmp(a->addr, b->addr, 16))
		return true;
	if (!is_inet(a->kind))
		return false;
	if (a4 != b4) {
		const struct pg_name *six = a4 ? b : a;

		return is_any(six->addr) && !(six->flags & PG_V6ONLY);
	}
	return is_any(a->addr) || is_any(b->addr);
}

static bool may_share(const struct pg_name *a, const struct pg_name *b)
{
	const unsigned int both = a->flags & b->flags;

	if (!is_inet(a->kind))
		return false;
	if ((both & PG_REUSEPORT) && a->uid == b->uid)
		return true;
	/* For TCP until one listens: then the other may neither. */
	return (both & PG_REUSEADDR) && (a->kind == PG_UDP || !(b->flags & PG_LISTENING));
}

/* Does another processor's socket forbid @owner to have @name? */
static bool conflicts(const struct names *n, const struct names_node *owner,
		      const struct pg_name *name)
{
	const struct entry *e;

	hlist_for_each_entry(e, &n->names[key_of(name->kind, name->port, name->addr)], by_name) {
		if (e->owner != owner && e->name.vnode == name->vnode &&
		    e->name.kind == name->kind && e->name.port == name->port &&
		    overlap(&e->name, name) && !may_share(name, &e->name))
			return true;
	}
	return false;
}

/* --- entries --------------------------------------------------------------------------- */

static int insert(struct names *n, struct names_node *owner, const struct pg_name *name)
{
	struct entry *e;

	if (owner->nr >= n->max)
		return -ENOBUFS;
	e = kmalloc(sizeof(*e));
	if (!e)
		return -ENOBUFS;
	*e = (struct entry){ .owner = owner, .name = *name };
	hlist_add_head(&e->by_name, &n->names[key_of(name->kind, name->port, name->addr)]);
	hlist_add_head(&e->by_id, &n->ids[id_key(owner->id, name->id)]);
	list_add_tail(&e->link, &owner->entries);
	owner->nr++;
	n->nr += name->kind != PG_GATEWAY;
	return 0;
}

static void drop(struct names *n, struct entry *e)
{
	const bool is_socket = e->name.kind != PG_GATEWAY;

	ASSERT(e->owner->nr > 0 && n->nr >= is_socket);
	hlist_del(&e->by_name);
	hlist_del(&e->by_id);
	list_del(&e->link);
	e->owner->nr--;
	n->nr -= is_socket;
	kfree(e);
}

static void drop_all(struct names *n, struct names_node *owner)
{
	struct entry *e, *next;

	list_for_each_entry_safe(e, next, &owner->entries, link)
		drop(n, e);
	ASSERT(owner->nr == 0);
}

static bool is_same_name(const struct pg_name *a, const struct pg_name *b)
{
	return a->vnode == b->vnode && a->kind == b->kind && a->port == b->port &&
	       a->uid == b->uid && !memcmp(a->addr, b->addr, 16);
}

int name_table_set(struct names *n, uint32_t node, uint32_t incarn, const struct pg_name *name)
{
	struct names_node *owner = find_node(n, node, incarn);
	struct entry *e;

	if (!owner || !owner->is_known)
		return -EAGAIN;
	e = find_id(n, owner, name->id);
	if (e && !is_same_name(&e->name, name))
		return -EPROTO;
	if (conflicts(n, owner, name))
		return -EADDRINUSE;
	if (!e)
		return insert(n, owner, name);
	e->name.flags = name->flags;
	return 0;
}

int name_table_release(struct names *n, uint32_t node, uint32_t incarn,
		       const struct pg_release_req *req)
{
	struct names_node *owner = find_node(n, node, incarn);
	struct entry *e = owner ? find_id(n, owner, req->id) : NULL;

	if (!owner || !owner->is_known)
		return -EAGAIN;
	if (e && e->name.vnode == req->vnode)
		drop(n, e);
	return 0;
}

/* --- looking up ------------------------------------------------------------------------ */

/* How well @e suits; 0: not at all. */
static int suits(const struct pg_name *e, const struct pg_find_req *r)
{
	if (e->vnode != r->vnode || e->kind != r->kind || e->port != r->port ||
	    !(e->flags & PG_LISTENING))
		return 0;
	if (!memcmp(e->addr, r->addr, 16))
		return 3;
	if (!is_inet(r->kind) || !is_any(e->addr))
		return 0;
	if (is_v4(r->addr))
		return is_v4(e->addr) ? 2 : e->flags & PG_V6ONLY ? 0 : 1;
	return is_v4(e->addr) ? 0 : 2;
}

/* The processor, other than @node, that gives @port to sockets that ask for none; 0: none. */
static uint32_t lessee(const struct names *n, uint32_t node, uint16_t port)
{
	const uint32_t run = (port - PG_FIRST_PORT) / PG_RUN;
	const struct names_node *at;

	if (port < PG_FIRST_PORT || run >= PG_NR_RUNS)
		return 0;
	list_for_each_entry(at, &n->nodes, link) {
		if (at->id != node && at->leases[run / 8] & 1u << run % 8)
			return at->id;
	}
	return 0;
}

uint32_t name_table_find(const struct names *n, uint32_t node, const struct pg_find_req *req)
{
	const struct entry *e;
	uint32_t best = 0;
	int top = 0;

	hlist_for_each_entry(e, &n->names[key_of(req->kind, req->port, req->addr)], by_name) {
		const int score = e->owner->id == node ? 0 : suits(&e->name, req);

		if (score > top) {
			top = score;
			best = e->owner->id;
		}
	}
	/* Ports of the system's choice are not told: a datagram may be for one. */
	return best || req->kind != PG_UDP ? best : lessee(n, node, req->port);
}

/* --- leases ---------------------------------------------------------------------------- */

static bool is_leased(const struct names *n, uint32_t run)
{
	const struct names_node *at;

	list_for_each_entry(at, &n->nodes, link) {
		if (at->leases[run / 8] & 1u << run % 8)
			return true;
	}
	return false;
}

/* The ports of @run that sockets of processors other than @owner have. */
static void find_taken(const struct names *n, const struct names_node *owner, uint32_t run,
		       struct pg_lease_rep *rep)
{
	const uint32_t first = PG_FIRST_PORT + run * PG_RUN;

	for (uint32_t i = 0; i < PG_RUN; i++) {
		for (uint32_t kind = PG_TCP; kind <= PG_UDP; kind++) {
			const uint8_t any[16] = { 0 };
			const struct entry *e;

			hlist_for_each_entry(e, &n->names[key_of(kind, (uint16_t)(first + i), any)],
					     by_name) {
				if (e->owner != owner && e->name.port == first + i)
					rep->taken[i / 8] |= (uint8_t)(1u << i % 8);
			}
		}
	}
}

int name_table_lease(struct names *n, uint32_t node, uint32_t incarn,
		     const struct pg_lease_req *req, struct pg_lease_rep *rep)
{
	struct names_node *owner = find_node(n, node, incarn);

	if (!owner || !owner->is_known)
		return -EAGAIN;
	for (uint32_t run = 0; run < PG_NR_RUNS; run++) {
		if (is_leased(n, run))
			continue;
		owner->leases[run / 8] |= (uint8_t)(1u << run % 8);
		*rep = (struct pg_lease_rep){ .run = run };
		find_taken(n, owner, run, rep);
		return 0;
	}
	return -ENOSPC;
}

/* --- processors ------------------------------------------------------------------------ */

bool name_table_knows(const struct names *n, uint32_t node, uint32_t incarn)
{
	const struct names_node *at = find_node(n, node, incarn);

	return at && at->is_known;
}

static struct names_node *node_make(struct names *n, uint32_t id, uint32_t incarn)
{
	struct names_node *at = kmalloc(sizeof(*at));

	if (!at)
		return NULL;
	*at = (struct names_node){ .id = id, .incarn = incarn };
	list_init(&at->entries);
	list_add_tail(&at->link, &n->nodes);
	return at;
}

int name_table_report(struct names *n, uint32_t node, uint32_t incarn,
		      const struct pg_report_req *report)
{
	struct names_node *at = find_node(n, node, incarn);
	int err = 0;

	if (!at && !(report->flags & PG_REPORT_FIRST))
		return -EAGAIN; /* its beginning went to other managers */
	if (!at)
		at = node_make(n, node, incarn);
	if (!at)
		return -ENOBUFS;
	if (report->flags & PG_REPORT_FIRST) {
		drop_all(n, at);
		memset(at->leases, 0, sizeof(at->leases));
		at->is_known = false;
	}
	if (at->is_known)
		return -EPROTO;
	for (uint32_t i = 0; i < report->nr_names && !err; i++) {
		struct entry *e = find_id(n, at, report->names[i].id);

		if (e)
			drop(n, e);
		err = insert(n, at, &report->names[i]);
	}
	/* A run that another one has as well stays with both: their sockets have its ports. */
	for (uint32_t i = 0; i < PG_LEASE_BYTES; i++)
		at->leases[i] |= report->leases[i];
	if (!err)
		at->is_known = report->flags & PG_REPORT_LAST;
	return err;
}

void name_table_keep(struct names *n,
		     bool (*stays)(uint32_t node, uint32_t incarn, const void *arg),
		     const void *arg)
{
	struct names_node *at, *next;

	list_for_each_entry_safe(at, next, &n->nodes, link) {
		if (stays(at->id, at->incarn, arg))
			continue;
		drop_all(n, at);
		list_del(&at->link);
		kfree(at);
	}
}
