/* SPDX-License-Identifier: MIT */
/*
 * Names of sockets, told to the managers.
 *
 * Flow:	whoever changes an entry puts it into the list of those to be told and, to set a
 *		name, waits. The thread takes them in order, so the managers hear of a socket's
 *		changes in the order in which they were made. Before anything else it reports all
 *		entries that are told to managers that do not have them.
 * Locking:	names.lock (RANK_SPIN_MONITOR) guards the lists and the entries. The thread alone
 *		sends, and frees entries. A call is made with a copy, without the lock.
 * Failure:	-EAGAIN of the managers, and their death, are repeated for as long as it takes.
 */
#define PR_FMT "names: "

#include "names.h"

#include <cluster/cluster.h>
#include <kernel/counter.h>
#include <kernel/panic.h>
#include <kernel/printk.h>
#include <kernel/spinlock.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <kernel/wait.h>
#include <lib/blake2b.h>
#include <lib/err.h>
#include <lib/list.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <net/node.h>
#include <net/rpc.h>
#include <processor/account/account.h>
#include <proto/pg.h>

#define PAUSE_NS (20 * NSEC_PER_MSEC) /* before a repetition */

COUNTER(names_told, "names.told", "messages to the managers about names of sockets");
COUNTER(names_told_all, "names.told_all", "times that all names were told to managers anew");

static_assert((int)NAME_TCP == (int)PG_TCP && (int)NAME_GATEWAY == (int)PG_GATEWAY, "the same");
static_assert((int)NAME_LISTENING == (int)PG_LISTENING, "the same");

struct name_entry {
	struct list_head link;  /* names.lock: of all entries */
	struct list_head dirty; /* names.lock: of those to be told; empty: it is not */
	uint64_t id;            /* const */
	struct vnode_name want; /* names.lock */
	bool is_told;           /* names.lock: the managers have it, or are to be told again */
	struct vnode_name told; /* names.lock: as they have it */
	bool is_dropped;        /* names.lock: the thread frees it */
	uint64_t asked;         /* names.lock: how often it was set */
	uint64_t answered;      /* atomic: of that, what has been answered */
	int result;             /* names.lock: of the last */
};

static struct {
	struct spinlock lock; /* RANK_SPIN_MONITOR */
	struct list_head entries __guarded_by(&lock);
	struct list_head dirty __guarded_by(&lock);
	uint64_t last_id __guarded_by(&lock);
	bool lease_wanted __guarded_by(&lock);
	uint64_t leases_asked __guarded_by(&lock);
	uint64_t leases_answered; /* atomic */
	int lease_result;         /* atomic: of the last */
	bool is_shared;           /* atomic: there are or were several processors */
	bool has_work;            /* atomic, for the wait condition */
	uint32_t reported;        /* the thread's: incarnation of the managers that know all */
	uint32_t refused;         /* the thread's: incarnation of managers that refuse them */
	struct waitqueue wake, answers;
	uint8_t leases[PG_LEASE_BYTES];        /* atomic, bit by bit: the thread sets them */
	uint8_t taken[PG_NR_RUNS][PG_RUN / 8]; /* const once its run is leased */
} names = {
	.lock = SPINLOCK_INIT("names", RANK_SPIN_MONITOR),
	.entries = LIST_HEAD_INIT(names.entries),
	.dirty = LIST_HEAD_INIT(names.dirty),
	.wake = WAITQUEUE_INIT(names.wake),
	.answers = WAITQUEUE_INIT(names.answers),
};

bool names_are_shared(void)
{
	return __atomic_load_n(&names.is_shared, __ATOMIC_ACQUIRE);
}

void names_hash(const void *name, size_t len, uint8_t out[16])
{
	blake2b(out, 16, NULL, 0, name, len);
}

static void work(void)
{
	__atomic_store_n(&names.has_work, true, __ATOMIC_RELEASE);
	wake_one(&names.wake);
}

/* --- entries ----------------------------------------------------------------------------- */

static void make_dirty_locked(struct name_entry *e) __must_hold(&names.lock)
{
	assert_spin_held(&names.lock);
	if (list_empty(&e->dirty))
		list_add_tail(&e->dirty, &names.dirty);
}

static struct name_entry *entry_make(struct kmem_account *account)
{
	struct name_entry *e = kmem_alloc(account, sizeof(*e));

	if (!e)
		return NULL;
	list_init(&e->dirty);
	spin_lock(&names.lock);
	e->id = ++names.last_id;
	list_add_tail(&e->link, &names.entries);
	spin_unlock(&names.lock);
	return e;
}

static void entry_free(struct name_entry *e)
{
	ASSERT(e->is_dropped);
	spin_lock(&names.lock);
	list_del(&e->link);
	spin_unlock(&names.lock);
	kmem_free(e);
}

/* Nothing is told while there is one processor; what the entry wants is reported later. */
static bool keep_alone(struct name_entry *e, const struct vnode_name *name, uint64_t *asked)
{
	bool alone;

	spin_lock(&names.lock);
	ASSERT(!e->is_dropped);
	alone = !names_are_shared();
	e->want = *name;
	if (alone) {
		e->told = *name;
		e->is_told = true;
	} else {
		*asked = ++e->asked;
		make_dirty_locked(e);
	}
	spin_unlock(&names.lock);
	return alone;
}

int names_set(struct name_entry **entry, const struct vnode_name *name,
	      struct kmem_account *account)
{
	struct name_entry *e = *entry ? *entry : entry_make(account);
	uint64_t asked = 0;
	int err;

	if (!e)
		return -ENOBUFS;
	*entry = e;
	if (keep_alone(e, name, &asked))
		return 0;
	work();
	err = wait_event_killable(&names.answers,
				  __atomic_load_n(&e->answered, __ATOMIC_ACQUIRE) >= asked);
	if (err)
		return err;
	spin_lock(&names.lock);
	err = e->result;
	spin_unlock(&names.lock);
	return err;
}

void names_drop(struct name_entry *e)
{
	bool is_known;

	if (!e)
		return;
	spin_lock(&names.lock);
	ASSERT(!e->is_dropped);
	is_known = names_are_shared();
	e->is_dropped = true;
	if (is_known)
		make_dirty_locked(e);
	spin_unlock(&names.lock);
	if (is_known)
		work();
	else
		entry_free(e);
}

/* --- the managers ------------------------------------------------------------------------ */

static void name_encode(const struct name_entry *e, const struct vnode_name *from,
			struct pg_name *out)
{
	*out = (struct pg_name){
		.id = e->id,
		.vnode = PROTO_VNODE_ROOT, /* so far a processor has programs of no other */
		.uid = from->uid,
		.port = from->port,
		.kind = from->kind,
		.flags = from->flags,
	};
	memcpy(out->addr, from->addr, sizeof(out->addr));
}

/* Must the same be asked again, of these managers or the next? */
static bool is_again(int err)
{
	return err == -EAGAIN || err == -EHOSTDOWN || err == -ETIMEDOUT || err == -ENOMEM;
}

static int ask(uint32_t host, uint16_t opcode, const void *body, size_t len, void *reply,
	       size_t reply_len)
{
	const int ret = rpc_call_sync(host, RPC_CLASS_CONTROL, opcode, body, (uint32_t)len, reply,
				      (uint32_t)reply_len, 0);

	counter_inc(&names_told);
	if (ret < 0)
		return ret;
	return (size_t)ret == reply_len ? 0 : -EPROTO;
}

/* The next names to report, behind the entry with id @after; how many. */
static uint32_t collect(uint64_t *after, struct pg_report_req *r)
{
	struct name_entry *e;

	r->nr_names = 0;
	spin_lock(&names.lock);
	/* Ids ascend in this list. */
	list_for_each_entry(e, &names.entries, link) {
		if (e->id <= *after)
			continue;
		if (r->nr_names == PG_REPORT_MAX)
			break;
		*after = e->id;
		if (e->is_told)
			name_encode(e, &e->told, &r->names[r->nr_names++]);
	}
	spin_unlock(&names.lock);
	return r->nr_names;
}

static int report_parts(uint32_t host, struct pg_report_req *r, void *body)
{
	uint64_t after = 0;
	int err = 0;

	*r = (struct pg_report_req){ .vnode = PROTO_VNODE_ROOT, .flags = PG_REPORT_FIRST };
	memcpy(r->leases, names.leases, sizeof(r->leases));
	do {
		ssize_t len;

		if (collect(&after, r) < PG_REPORT_MAX)
			r->flags |= PG_REPORT_LAST;
		len = pg_report_req_encode(r, body, RPC_BODY_MAX_CTL);
		err = len < 0 ? (int)len : ask(host, PG_REPORT, body, (size_t)len, NULL, 0);
		r->flags &= PG_REPORT_LAST;
	} while (!err && !r->flags);
	return err;
}

/* Tell the managers all that is told, unless these know it. */
static int report(uint32_t host, uint32_t incarn)
{
	struct pg_report_req *r;
	void *body;
	int err = -ENOMEM;

	if (names.reported == incarn)
		return 0;
	r = kmalloc(sizeof(*r));
	body = kmalloc(RPC_BODY_MAX_CTL);
	if (r && body)
		err = report_parts(host, r, body);
	kfree(body);
	kfree(r);
	if (!err) {
		names.reported = incarn;
		counter_inc(&names_told_all);
	} else if (!is_again(err) && names.refused != incarn) {
		pr_err("the managers refuse this node's names: error %d\n", err);
		names.refused = incarn;
	}
	return err;
}

/* --- the thread -------------------------------------------------------------------------- */

/* The first entry that is dirty, and how it is to be told. NULL: none is. */
static struct name_entry *take_dirty(bool *drop, struct pg_name *name, uint64_t *asked)
{
	struct name_entry *e;

	spin_lock(&names.lock);
	e = list_first_entry_or_null(&names.dirty, struct name_entry, dirty);
	if (e) {
		*drop = e->is_dropped;
		*asked = e->asked;
		name_encode(e, &e->want, name);
	}
	spin_unlock(&names.lock);
	return e;
}

/* The managers have answered @err for what @e wanted when it had been set @asked times. */
static void answered(struct name_entry *e, const struct pg_name *name, uint64_t asked, int err)
{
	spin_lock(&names.lock);
	ASSERT(asked <= e->asked && !list_empty(&e->dirty));
	e->result = err;
	if (!err) {
		e->is_told = true;
		e->told = e->want;
		e->told.flags = name->flags;
	}
	if (e->asked == asked && !e->is_dropped) {
		list_del(&e->dirty);
		list_init(&e->dirty);
	}
	__atomic_store_n(&e->answered, asked, __ATOMIC_RELEASE);
	spin_unlock(&names.lock);
	wake_all(&names.answers);
}

static int tell_name(uint32_t host, struct name_entry *e, const struct pg_name *name,
		     uint64_t asked)
{
	struct pg_name_wire w;
	int err;

	pg_name_encode(name, &w);
	err = ask(host, PG_NAME, &w, sizeof(w), NULL, 0);
	if (!is_again(err))
		answered(e, name, asked, err);
	return is_again(err) ? err : 0;
}

static int tell_drop(uint32_t host, struct name_entry *e)
{
	const struct pg_release_req req = { .id = e->id, .vnode = PROTO_VNODE_ROOT };
	struct pg_release_req_wire w;
	int err;

	pg_release_req_encode(&req, &w);
	err = ask(host, PG_RELEASE, &w, sizeof(w), NULL, 0);
	if (is_again(err))
		return err;
	spin_lock(&names.lock);
	list_del(&e->dirty);
	spin_unlock(&names.lock);
	entry_free(e);
	return 0;
}

static int tell_lease(uint32_t host, uint64_t asked)
{
	const struct pg_lease_req req = { .vnode = PROTO_VNODE_ROOT };
	struct pg_lease_req_wire w;
	struct pg_lease_rep_wire rep;
	struct pg_lease_rep lease;
	int err;

	pg_lease_req_encode(&req, &w);
	err = ask(host, PG_LEASE, &w, sizeof(w), &rep, sizeof(rep));
	if (!err)
		err = pg_lease_rep_decode(&rep, sizeof(rep), &lease);
	if (is_again(err))
		return err;
	if (!err) {
		memcpy(names.taken[lease.run], lease.taken, sizeof(lease.taken));
		__atomic_fetch_or(&names.leases[lease.run / 8], (uint8_t)(1u << lease.run % 8),
				  __ATOMIC_RELEASE);
	}
	__atomic_store_n(&names.lease_result, err ? -EADDRINUSE : 0, __ATOMIC_RELEASE);
	__atomic_store_n(&names.leases_answered, asked, __ATOMIC_RELEASE);
	wake_all(&names.answers);
	return 0;
}

/* One thing that is to be told; *@more: there was one. */
static int tell_next(uint32_t host, bool *more)
{
	struct name_entry *e;
	struct pg_name name;
	uint64_t asked = 0;
	bool drop = false;

	e = take_dirty(&drop, &name, &asked);
	*more = true;
	if (e)
		return drop ? tell_drop(host, e) : tell_name(host, e, &name, asked);
	spin_lock(&names.lock);
	asked = names.leases_asked;
	spin_unlock(&names.lock);
	if (asked > __atomic_load_n(&names.leases_answered, __ATOMIC_ACQUIRE))
		return tell_lease(host, asked);
	*more = false;
	return 0;
}

/* Until nothing is left to be told, or -EAGAIN and the like. */
static int tell_all(void)
{
	uint32_t incarn;
	const uint32_t host = cluster_host(&incarn);
	bool more = true;
	int err = host ? report(host, incarn) : -EAGAIN;

	while (!err && more)
		err = tell_next(host, &more);
	if (err == -EAGAIN)
		names.reported = 0; /* whatever they miss */
	return err;
}

static void names_thread(void *arg)
{
	for (;;) {
		wait_event(&names.wake, __atomic_load_n(&names.has_work, __ATOMIC_ACQUIRE));
		__atomic_store_n(&names.has_work, false, __ATOMIC_RELEASE);
		while (names_are_shared() && tell_all() != 0)
			thread_sleep_ns(PAUSE_NS);
	}
}

/* --- look-ups and leases ------------------------------------------------------------------ */

int names_find(const struct vnode_name *name, uint64_t until_ns, uint32_t *node)
{
	struct pg_find_req req = { .vnode = PROTO_VNODE_ROOT,
				   .port = name->port,
				   .kind = name->kind };
	struct pg_find_req_wire w;
	struct pg_find_rep_wire reply;
	struct pg_find_rep rep;
	uint32_t incarn;
	int ret;

	memcpy(req.addr, name->addr, sizeof(req.addr));
	pg_find_req_encode(&req, &w);
	for (;;) {
		const uint64_t now = time_now_ns();
		const uint32_t host = cluster_host(&incarn);

		if (now >= until_ns)
			return -ETIMEDOUT;
		ret = host ? rpc_call_sync_killable(host, RPC_CLASS_CONTROL, PG_FIND, &w, sizeof(w),
						    &reply, sizeof(reply), until_ns - now)
			   : -EAGAIN;
		if (!is_again(ret))
			break;
		if (wait_event_killable_timeout(&names.answers, false, now + PAUSE_NS) == -EINTR)
			return -EINTR;
	}
	if (ret >= 0)
		ret = pg_find_rep_decode(&reply, (size_t)ret, &rep);
	if (!ret)
		*node = rep.node;
	return ret;
}

uint32_t names_skip_ports(uint16_t port)
{
	const uint32_t run = (port - PG_FIRST_PORT) / PG_RUN, i = (port - PG_FIRST_PORT) % PG_RUN;

	if (port < PG_FIRST_PORT || run >= PG_NR_RUNS)
		return 1;
	if (!(__atomic_load_n(&names.leases[run / 8], __ATOMIC_ACQUIRE) & 1u << run % 8))
		return PG_RUN - i;
	return names.taken[run][i / 8] >> i % 8 & 1;
}

int names_lease(void)
{
	uint64_t asked;
	int err;

	spin_lock(&names.lock);
	asked = ++names.leases_asked;
	spin_unlock(&names.lock);
	work();
	err = wait_event_killable(
		&names.answers, __atomic_load_n(&names.leases_answered, __ATOMIC_ACQUIRE) >= asked);
	return err ? err : __atomic_load_n(&names.lease_result, __ATOMIC_ACQUIRE);
}

/* --- start ------------------------------------------------------------------------------- */

int names_start(void)
{
	struct thread *t = thread_create("names", names_thread, NULL);

	if (IS_ERR(t))
		return PTR_ERR(t);
	thread_detach(t);
	return 0;
}

void names_view_changed(void)
{
	if (cluster_nodes(NODE_ROLE_PROCESSOR, NULL, 0) > 1) {
		spin_lock(&names.lock);
		__atomic_store_n(&names.is_shared, true, __ATOMIC_RELEASE);
		spin_unlock(&names.lock);
	}
	work();
}
