/* SPDX-License-Identifier: MIT */
/*
 * Storage monitor: the table of advisory locks.
 *
 * Flow:	a request that finds another owner's lock in its way is answered BUSY, or leaves a
 *		wait. When a lock goes or shrinks, the waits for the file that have no conflict any
 *		more become events of their processors. Before a POSIX wait is left, the table
 *		follows owners from the holder to the lock that the holder waits for, to find a
 *		deadlock.
 * Invariants:	a file is in the table while it has locks or waits; an owner while it has locks in
 *		some file, or waits. A peer is in it from its first request on until it leaves, and
 *		for no peer that has left: has_left() tells of one before lock_table_members() looks
 *		for what it left behind, and both look under the lock.
 * Limits:	a look for a deadlock follows DEADLOCK_LOOK waits and compares DEADLOCK_VISITS.
 */
#include "locks.h"

#include <fs/lock.h>
#include <kernel/panic.h>
#include <kernel/time.h>
#include <lib/errno.h>
#include <mm/slab.h>

#include "share.h"

#define DEADLOCK_LOOK   64u
#define DEADLOCK_VISITS 4096u
#define EVENTS_NS       (10 * NSEC_PER_SEC)

static_assert((int)PS_LOCK_POSIX == (int)LOCK_POSIX, "the same");
static_assert((int)PS_LOCK_OFD == (int)LOCK_OFD, "the same");
static_assert((int)PS_LOCK_FLOCK == (int)LOCK_FLOCK, "the same");
static_assert((int)PS_LOCK_READ == (int)LOCK_READ, "the same");
static_assert((int)PS_LOCK_WRITE == (int)LOCK_WRITE, "the same");
static_assert((int)PS_LOCK_NONE == (int)LOCK_NONE, "the same");

struct peer {
	struct list_head link; /* lock_table.peers */
	struct lock_table *table;
	struct storage_peer who;
	struct rb_root owners; /* struct owner, by id */
	struct rb_root waits;  /* struct lock_wait, by token */
	struct list_head told; /* waits that became events, in their order */
	uint64_t acked;        /* smaller numbers of requests are over */
	uint64_t last_event;
	uint64_t nr; /* locks and waits */
};

struct owner { /* its address is the owner that trees know */
	struct rb_node node;
	struct peer *peer;
	uint64_t id;
	uint64_t users; /* owners in trees, and waits */
};

struct table_file {
	struct rb_node node; /* lock_table.files */
	uint64_t ino;
	uint32_t gen;
	struct lock_tree tree;
	struct list_head waits;
};

struct lock_wait {
	struct rb_node by_token;   /* peer.waits */
	struct list_head link;     /* table_file.waits, lock_table.grace_waits or peer.told */
	struct list_head all_link; /* lock_table.posix_waits */
	struct list_head todo;     /* a look for deadlocks */
	struct peer *peer;
	struct table_file *file; /* NULL: it waits for none */
	struct owner *owner;
	struct lock_req req;
	uint64_t token;
	uint64_t event; /* 0: not told yet */
	uint64_t mark;
};

/* --- peers and owners ----------------------------------------------------------------------- */

static bool has_left(const struct lock_table *table, const struct storage_peer *who)
{
	return table->has_left && table->has_left(who->node, who->incarn);
}

/* NULL: no memory. */
static struct peer *peer_of(struct lock_table *table, const struct storage_peer *who)
	__must_hold(&table->lock)
{
	struct peer *p;

	list_for_each_entry(p, &table->peers, link) {
		if (p->who.node == who->node && p->who.incarn == who->incarn)
			return p;
	}
	p = kzalloc(sizeof(*p));
	if (!p)
		return NULL;
	p->table = table;
	p->who = *who;
	list_init(&p->told);
	list_add_tail(&p->link, &table->peers);
	return p;
}

/* Requests that @who gave up, or sent before it left, do nothing. */
static int admit(struct lock_table *table, const struct storage_peer *who, uint64_t seq,
		 uint64_t acked, struct peer **out) __must_hold(&table->lock)
{
	struct peer *p;

	assert_mutex_held(&table->lock);
	if (has_left(table, who))
		return -ESTALE;
	p = peer_of(table, who);
	if (!p)
		return -ENOLCK;
	if (seq < p->acked)
		return -ESTALE;
	p->acked = MAX(p->acked, acked);
	*out = p;
	return 0;
}

static struct owner *owner_find(const struct peer *p, uint64_t id)
{
	struct rb_node *n = p->owners.node;

	while (n) {
		struct owner *o = rb_entry(n, struct owner, node);

		if (o->id == id)
			return o;
		n = id < o->id ? n->left : n->right;
	}
	return NULL;
}

/* A use for the caller. NULL: no memory. */
static struct owner *owner_get(struct peer *p, uint64_t id)
{
	struct rb_node **link = &p->owners.node, *parent = NULL;
	struct owner *o = owner_find(p, id);

	if (o) {
		o->users++;
		return o;
	}
	o = kzalloc(sizeof(*o));
	if (!o)
		return NULL;
	o->peer = p;
	o->id = id;
	o->users = 1;
	while (*link) {
		parent = *link;
		link = id < rb_entry(parent, struct owner, node)->id ? &parent->left
								     : &parent->right;
	}
	rb_link_node(&o->node, parent, link);
	rb_insert_color(&o->node, &p->owners);
	return o;
}

static void owner_put(struct owner *o)
{
	ASSERT(o->users);
	if (--o->users)
		return;
	rb_erase(&o->node, &o->peer->owners);
	kfree(o);
}

/* --- what trees are made of ----------------------------------------------------------------- */

static bool take(struct peer *p)
{
	if (p->nr >= p->table->max)
		return false;
	p->nr++;
	return true;
}

static void give(struct peer *p)
{
	ASSERT(p->nr);
	p->nr--;
}

struct table_lock {
	struct file_lock l;
	struct peer *peer;
};

static struct file_lock *lock_alloc(const struct lock_req *req)
{
	struct peer *p = ((const struct owner *)req->owner)->peer;
	struct table_lock *tl;

	if (!take(p))
		return NULL;
	tl = kzalloc(sizeof(*tl));
	if (!tl) {
		give(p);
		return NULL;
	}
	tl->peer = p;
	__atomic_add_fetch(&p->table->nr_locks, 1, __ATOMIC_RELAXED);
	return &tl->l;
}

static void lock_free(struct file_lock *l)
{
	struct table_lock *tl = container_of(l, struct table_lock, l);

	__atomic_sub_fetch(&tl->peer->table->nr_locks, 1, __ATOMIC_RELAXED);
	give(tl->peer);
	kfree(tl);
}

static struct lock_owner *tree_owner_alloc(const struct lock_req *req)
{
	struct lock_owner *o = kzalloc(sizeof(*o));

	/* The caller has a use of it. */
	if (o)
		((struct owner *)(uintptr_t)req->owner)->users++;
	return o;
}

static void tree_owner_free(struct lock_owner *o, const void *who)
{
	kfree(o);
	owner_put((struct owner *)(uintptr_t)who);
}

static const struct lock_mem lock_mem = {
	.lock_alloc = lock_alloc,
	.lock_free = lock_free,
	.owner_alloc = tree_owner_alloc,
	.owner_free = tree_owner_free,
};

/* --- files ---------------------------------------------------------------------------------- */

static int file_cmp(const struct proto_file *file, const struct table_file *f)
{
	if (file->ino != f->ino)
		return file->ino < f->ino ? -1 : 1;
	if (file->gen != f->gen)
		return file->gen < f->gen ? -1 : 1;
	return 0;
}

static struct table_file *file_find(struct lock_table *table, const struct proto_file *file)
	__must_hold(&table->lock)
{
	struct rb_node *n = table->files.node;

	assert_mutex_held(&table->lock);
	while (n) {
		struct table_file *f = rb_entry(n, struct table_file, node);
		const int cmp = file_cmp(file, f);

		if (!cmp)
			return f;
		n = cmp < 0 ? n->left : n->right;
	}
	return NULL;
}

/* NULL: no memory. The caller ends with file_put(). */
static struct table_file *file_get(struct lock_table *table, const struct proto_file *file)
	__must_hold(&table->lock)
{
	struct rb_node **link = &table->files.node, *parent = NULL;
	struct table_file *f = file_find(table, file);

	if (f)
		return f;
	f = kzalloc(sizeof(*f));
	if (!f)
		return NULL;
	f->ino = file->ino;
	f->gen = file->gen;
	lock_tree_init(&f->tree, &lock_mem);
	list_init(&f->waits);
	while (*link) {
		parent = *link;
		link = file_cmp(file, rb_entry(parent, struct table_file, node)) < 0
			       ? &parent->left
			       : &parent->right;
	}
	rb_link_node(&f->node, parent, link);
	rb_insert_color(&f->node, &table->files);
	return f;
}

static void file_put(struct lock_table *table, struct table_file *f) __must_hold(&table->lock)
{
	assert_mutex_held(&table->lock);
	if (!lock_tree_empty(&f->tree) || !list_empty(&f->waits))
		return;
	rb_erase(&f->node, &table->files);
	kfree(f);
}

/* --- waits ---------------------------------------------------------------------------------- */

static struct lock_wait *wait_find(const struct peer *p, uint64_t token)
{
	struct rb_node *n = p->waits.node;

	while (n) {
		struct lock_wait *w = rb_entry(n, struct lock_wait, by_token);

		if (w->token == token)
			return w;
		n = token < w->token ? n->left : n->right;
	}
	return NULL;
}

/* @w waits no more; its file may be for file_put(). */
static void stop_waiting(struct lock_wait *w)
{
	if (w->event)
		return;
	list_del(&w->link);
	list_del(&w->all_link);
	list_init(&w->all_link);
	w->file = NULL;
	__atomic_sub_fetch(&w->peer->table->nr_waits, 1, __ATOMIC_RELAXED);
}

/* In whatever state it is. */
static void wait_free(struct lock_wait *w)
{
	if (w->event)
		list_del(&w->link);
	else
		stop_waiting(w);
	rb_erase(&w->by_token, &w->peer->waits);
	give(w->peer);
	owner_put(w->owner);
	kfree(w);
}

/* The thread may try again. */
static void tell(struct lock_wait *w)
{
	struct lock_table *table = w->peer->table;

	stop_waiting(w);
	w->event = ++w->peer->last_event;
	list_add_tail(&w->link, &w->peer->told);
	__atomic_add_fetch(&table->nr_events, 1, __ATOMIC_RELEASE);
	wake_all(&table->events);
}

/* A wait of @p for @file, NULL: for the end of the grace. Its token is in no other wait. */
static int wait_add(struct lock_table *table, struct peer *p, struct table_file *file,
		    const struct lock_req *req, uint64_t token) __must_hold(&table->lock)
{
	struct rb_node **link = &p->waits.node, *parent = NULL;
	struct owner *o = (struct owner *)(uintptr_t)req->owner;
	struct lock_wait *w;

	if (!take(p))
		return -ENOLCK;
	w = kzalloc(sizeof(*w));
	if (!w) {
		give(p);
		return -ENOLCK;
	}
	w->peer = p;
	w->file = file;
	w->owner = o;
	o->users++;
	w->req = *req;
	w->token = token;
	list_init(&w->all_link);
	list_init(&w->todo);
	list_add_tail(&w->link, file ? &file->waits : &table->grace_waits);
	if (file && req->kind == LOCK_POSIX)
		list_add_tail(&w->all_link, &table->posix_waits);
	while (*link) {
		parent = *link;
		link = token < rb_entry(parent, struct lock_wait, by_token)->token ? &parent->left
										   : &parent->right;
	}
	rb_link_node(&w->by_token, parent, link);
	rb_insert_color(&w->by_token, &p->waits);
	__atomic_add_fetch(&table->nr_waits, 1, __ATOMIC_RELAXED);
	return 0;
}

/* A thread that asks again, or has given up, does not wait. */
static void wait_end(struct lock_table *table, struct peer *p, uint64_t token)
	__must_hold(&table->lock)
{
	struct lock_wait *w = wait_find(p, token);
	struct table_file *f = w ? w->file : NULL;

	if (!w)
		return;
	wait_free(w);
	if (f)
		file_put(table, f);
}

static void wake_waiters(struct table_file *f)
{
	struct lock_wait *w, *next;

	list_for_each_entry_safe(w, next, &f->waits, link) {
		if (!lock_tree_conflicts(&f->tree, &w->req))
			tell(w);
	}
}

/* --- deadlocks ------------------------------------------------------------------------------ */

struct look {
	const void *owner;
	struct list_head todo;
	unsigned int left, visits;
};

/*
 * The holder of a lock that @req wants may wait too: put those waits on the list. True: the owner
 * is among the holders and would wait for itself.
 */
static bool look_behind(struct lock_table *table, const struct table_file *f,
			const struct lock_req *req, struct look *look) __must_hold(&table->lock)
{
	struct lock_wait *w;

	if (lock_tree_holds(&f->tree, look->owner, req))
		return true;
	list_for_each_entry(w, &table->posix_waits, all_link) {
		if (!look->left || !look->visits)
			break;
		look->visits--;
		if (w->mark == table->look_number || !lock_tree_holds(&f->tree, w->req.owner, req))
			continue;
		w->mark = table->look_number;
		list_add_tail(&w->todo, &look->todo);
		look->left--;
	}
	return false;
}

static bool would_deadlock(struct lock_table *table, const struct table_file *f,
			   const struct lock_req *req) __must_hold(&table->lock)
{
	struct look look = { .owner = req->owner,
			     .left = DEADLOCK_LOOK,
			     .visits = DEADLOCK_VISITS };
	bool found;

	list_init(&look.todo);
	table->look_number++;
	found = look_behind(table, f, req, &look);
	while (!list_empty(&look.todo)) {
		struct lock_wait *w = list_first_entry(&look.todo, struct lock_wait, todo);

		list_del(&w->todo);
		list_init(&w->todo);
		if (!found)
			found = look_behind(table, w->file, &w->req, &look);
	}
	return found;
}

/* --- requests ------------------------------------------------------------------------------- */

static struct lock_req as_req(const struct ps_lock *l, const struct owner *o)
{
	return (struct lock_req){ .kind = (enum lock_kind)l->kind,
				  .type = (enum lock_type)l->type,
				  .owner = o,
				  .pid = l->pid,
				  .start = l->start,
				  .end = l->end };
}

static void tell_found(const struct table_file *f, const struct lock_req *req,
		       struct ps_lock_rep *rep)
{
	const struct file_lock *l = lock_tree_first(&f->tree, req);

	if (!l)
		return;
	rep->state = PS_LOCK_BUSY;
	rep->found = (struct ps_lock){ .owner = ((const struct owner *)l->owner->who)->id,
				       .start = l->start,
				       .end = l->end,
				       .pid = l->pid,
				       .kind = (uint8_t)l->owner->kind,
				       .type = l->type };
}

static int set(struct lock_table *table, struct table_file *f, const struct lock_req *req,
	       const struct ps_lock_req *msg, struct ps_lock_rep *rep) __must_hold(&table->lock)
{
	int err;

	if (req->kind == LOCK_FLOCK) {
		const enum lock_convert had = lock_give_up(&f->tree, req);

		if (had == LOCK_CONVERT_SAME)
			return 0;
		if (had == LOCK_CONVERT_GIVEN)
			wake_waiters(f);
	}
	if (req->type != LOCK_NONE && lock_tree_conflicts(&f->tree, req)) {
		rep->state = msg->wait ? PS_LOCK_WAITS : PS_LOCK_BUSY;
		if (!msg->wait)
			return 0;
		if (req->kind == LOCK_POSIX && would_deadlock(table, f, req))
			return -EDEADLK;
		return wait_add(table, ((const struct owner *)req->owner)->peer, f, req,
				msg->token);
	}
	err = lock_set(&f->tree, req);
	if (!err)
		wake_waiters(f);
	return err;
}

/* With the lock of the table, and the owner's use. */
static int serve(struct lock_table *table, struct peer *p, struct owner *o,
		 const struct ps_lock_req *msg, struct ps_lock_rep *rep) __must_hold(&table->lock)
{
	const struct lock_req req = as_req(&msg->lock, o);
	struct table_file *f;
	int err = 0;

	if (table->grace && req.type != LOCK_NONE) {
		rep->state = PS_LOCK_GRACE;
		return wait_add(table, p, NULL, &req, msg->token);
	}
	f = file_get(table, &msg->file);
	if (!f)
		return -ENOLCK;
	if (msg->op == PS_LOCK_OP_TEST)
		tell_found(f, &req, rep);
	else
		err = set(table, f, &req, msg, rep);
	file_put(table, f);
	return err;
}

int lock_table_request(struct lock_table *table, const struct storage_peer *who,
		       const struct ps_lock_req *req, struct ps_lock_rep *rep)
{
	struct owner *o;
	struct peer *p;
	int err;

	*rep = (struct ps_lock_rep){ .state = PS_LOCK_FREE };
	mutex_lock(&table->lock);
	err = admit(table, who, req->seq, req->acked, &p);
	if (err)
		goto out;
	wait_end(table, p, req->token);
	if (req->op == PS_LOCK_OP_CANCEL)
		goto out;
	o = owner_get(p, req->lock.owner);
	err = o ? serve(table, p, o, req, rep) : -ENOLCK;
	if (o)
		owner_put(o);
out:
	mutex_unlock(&table->lock);
	return err;
}

/* --- locks that were there before a start again --------------------------------------------- */

static void drop_peer_in(struct table_file *f, const struct peer *p)
{
	struct rb_node *n, *next;

	for (n = rb_first(&f->tree.owners); n; n = next) {
		const struct lock_owner *o = rb_entry(n, struct lock_owner, link);

		next = rb_next(n);
		if (((const struct owner *)o->who)->peer == p)
			(void)lock_drop(&f->tree, o->kind, o->who);
	}
}

static int declare_one(struct table_file *f, struct peer *p, const struct ps_lock *l)
{
	struct owner *o = owner_get(p, l->owner);
	struct lock_req req;
	int err = -ENOLCK;

	if (!o)
		return -ENOLCK;
	req = as_req(l, o);
	if (!lock_tree_conflicts(&f->tree, &req))
		err = lock_set(&f->tree, &req);
	owner_put(o);
	return err;
}

int lock_table_declare(struct lock_table *table, const struct storage_peer *who,
		       const struct ps_locks_req *req)
{
	struct table_file *f;
	struct peer *p;
	int err;

	mutex_lock(&table->lock);
	err = admit(table, who, req->seq, req->acked, &p);
	if (err)
		goto out;
	f = file_get(table, &req->file);
	err = f ? 0 : -ENOLCK;
	for (uint32_t i = 0; !err && i < req->nr_locks; i++)
		err = declare_one(f, p, &req->locks[i]);
	if (err && f)
		drop_peer_in(f, p);
	if (f) {
		wake_waiters(f);
		file_put(table, f);
	}
out:
	mutex_unlock(&table->lock);
	return err;
}

void lock_table_grace_end(struct lock_table *table)
{
	struct lock_wait *w, *next;

	mutex_lock(&table->lock);
	table->grace = false;
	list_for_each_entry_safe(w, next, &table->grace_waits, link)
		tell(w);
	mutex_unlock(&table->lock);
}

/* --- events --------------------------------------------------------------------------------- */

/* Forget what is acknowledged, and fill @rep; true: there is something to answer. */
static bool collect(struct peer *p, const struct ps_lock_events_req *req,
		    struct ps_lock_events_rep *rep)
{
	const bool ours = req->incarn == p->table->incarn;
	struct lock_wait *w, *next;

	rep->incarn = p->table->incarn;
	rep->nr_tokens = 0;
	rep->last = ours ? req->after : 0;
	list_for_each_entry_safe(w, next, &p->told, link) {
		if (ours && w->event <= req->after) {
			wait_free(w);
			continue;
		}
		if (rep->nr_tokens == PS_LOCK_EVENTS_MAX)
			break;
		rep->tokens[rep->nr_tokens++].token = w->token;
		rep->last = w->event;
	}
	return rep->nr_tokens || !ours;
}

int lock_table_events(struct lock_table *table, const struct storage_peer *who,
		      const struct ps_lock_events_req *req, struct ps_lock_events_rep *rep)
{
	const uint64_t until = time_after_ns(table->events_ns);
	bool some = false;
	uint64_t seen;
	struct peer *p;
	int err = 0;

	for (;;) {
		seen = __atomic_load_n(&table->nr_events, __ATOMIC_ACQUIRE);
		mutex_lock(&table->lock);
		p = has_left(table, who) ? NULL : peer_of(table, who);
		if (p)
			some = collect(p, req, rep);
		mutex_unlock(&table->lock);
		if (!p)
			return -ESTALE;
		if (some || err == -ETIMEDOUT)
			return 0;
		err = wait_event_killable_timeout(
			&table->events,
			__atomic_load_n(&table->nr_events, __ATOMIC_ACQUIRE) != seen ||
				__atomic_load_n(&table->closed, __ATOMIC_ACQUIRE),
			until);
		if (__atomic_load_n(&table->closed, __ATOMIC_ACQUIRE))
			return -ESHUTDOWN;
		if (err == -EINTR)
			return err;
	}
}

/* --- the end of peers and of the table ------------------------------------------------------- */

static void peer_free(struct lock_table *table, struct peer *p) __must_hold(&table->lock)
{
	struct rb_node *n, *next;

	assert_mutex_held(&table->lock);
	while (p->waits.node)
		wait_end(table, p, rb_entry(p->waits.node, struct lock_wait, by_token)->token);
	for (n = rb_first(&table->files); n; n = next) {
		struct table_file *f = rb_entry(n, struct table_file, node);

		next = rb_next(n);
		drop_peer_in(f, p);
		wake_waiters(f);
		file_put(table, f);
	}
	ASSERT(!p->nr && rb_empty(&p->owners));
	list_del(&p->link);
	kfree(p);
}

void lock_table_members(struct lock_table *table,
			bool (*is_member)(const void *arg, const struct storage_peer *peer),
			const void *arg)
{
	struct peer *p, *next;

	mutex_lock(&table->lock);
	list_for_each_entry_safe(p, next, &table->peers, link) {
		if (!is_member(arg, &p->who))
			peer_free(table, p);
	}
	mutex_unlock(&table->lock);
}

void lock_table_init(struct lock_table *table, uint32_t incarn, bool grace,
		     bool (*has_left_fn)(uint32_t, uint32_t))
{
	*table = (struct lock_table){
		.incarn = incarn, .max = SHARE_MAX, .events_ns = EVENTS_NS, .has_left = has_left_fn
	};
	mutex_init(&table->lock, "storage.locks", RANK_FILE_LOCKS);
	table->grace = grace;
	list_init(&table->peers);
	list_init(&table->posix_waits);
	list_init(&table->grace_waits);
	waitqueue_init(&table->events);
}

void lock_table_close(struct lock_table *table)
{
	__atomic_store_n(&table->closed, true, __ATOMIC_RELEASE);
	wake_all(&table->events);
}

static bool nobody(const void *arg, const struct storage_peer *peer)
{
	(void)arg, (void)peer;
	return false;
}

void lock_table_destroy(struct lock_table *table)
{
	lock_table_members(table, nobody, NULL);
}
