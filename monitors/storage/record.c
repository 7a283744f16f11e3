/* SPDX-License-Identifier: MIT */
/*
 * Storage monitor: records of changes.
 *
 * Invariants:	the records of a client have numbers from its highest acknowledged one on; a
 *		record that is not done, or has users, is on no other thread's way out: it is freed
 *		when it is off its list and its last user has gone.
 */
#include "record.h"

#include <kernel/panic.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <mm/slab.h>

struct client {
	struct list_head link;
	struct storage_peer peer; /* const */
	struct list_head records; /* table.lock */
	uint64_t acked;           /* table.lock: smaller numbers are done with */
	uint32_t nr_records;      /* table.lock */
};

struct record {
	struct list_head link; /* table.lock */
	struct client *client; /* table.lock; NULL: it is off the list */
	uint64_t seq;          /* const */
	uint32_t users;        /* table.lock: threads that run it or wait for it */
	bool done;             /* table.lock */
	bool late;             /* table.lock: it was taken off the list before it was done */
	ssize_t ret;           /* const once done, as the reply */
	uint8_t reply[RECORD_REPLY_MAX];
};

void record_table_init(struct record_table *table, bool (*has_left)(uint32_t, uint32_t))
{
	table->has_left = has_left;
	spin_lock_init(&table->lock, "storage.records", RANK_SPIN_MONITOR);
	list_init(&table->clients);
	waitqueue_init(&table->done);
}

/* Take it off its client; one without users goes to @dead. */
static void drop_locked(struct record_table *table, struct record *rec, struct list_head *dead)
	__must_hold(&table->lock)
{
	assert_spin_held(&table->lock);
	ASSERT(rec->client && rec->client->nr_records);
	list_del(&rec->link);
	rec->client->nr_records--;
	rec->client = NULL;
	rec->late = !rec->done;
	table->nr_late += rec->late;
	if (!rec->users)
		list_add(&rec->link, dead);
}

static void free_all(struct list_head *dead)
{
	struct record *rec, *next;

	list_for_each_entry_safe(rec, next, dead, link)
		kfree(rec);
}

static void drop_client_locked(struct record_table *table, struct client *c, struct list_head *dead)
	__must_hold(&table->lock)
{
	struct record *rec, *next;

	assert_spin_held(&table->lock);
	list_for_each_entry_safe(rec, next, &c->records, link)
		drop_locked(table, rec, dead);
	list_del(&c->link);
}

static struct client *find_client_locked(struct record_table *table,
					 const struct storage_peer *peer) __must_hold(&table->lock)
{
	struct client *c;

	assert_spin_held(&table->lock);
	list_for_each_entry(c, &table->clients, link) {
		if (c->peer.node == peer->node && c->peer.incarn == peer->incarn)
			return c;
	}
	return NULL;
}

static struct record *find_locked(struct record_table *table, struct client *c, uint64_t seq)
	__must_hold(&table->lock)
{
	struct record *rec;

	assert_spin_held(&table->lock);
	list_for_each_entry(rec, &c->records, link) {
		if (rec->seq == seq)
			return rec;
	}
	return NULL;
}

/* The client has the answers of what is below @acked. */
static void acknowledge_locked(struct record_table *table, struct client *c, uint64_t acked,
			       struct list_head *dead) __must_hold(&table->lock)
{
	struct record *rec, *next;

	assert_spin_held(&table->lock);
	if (acked <= c->acked)
		return;
	c->acked = acked;
	list_for_each_entry_safe(rec, next, &c->records, link) {
		if (rec->seq < acked)
			drop_locked(table, rec, dead);
	}
}

/* Enter @fresh for a change that is not known yet: 0, or why it is not done. */
static int enter_locked(struct record_table *table, struct client *c, struct record *fresh)
	__must_hold(&table->lock)
{
	assert_spin_held(&table->lock);
	if (fresh->seq < c->acked)
		return -ESTALE;
	if (c->nr_records == RECORD_MAX)
		return -ENOBUFS;
	fresh->client = c;
	fresh->users = 1;
	list_add_tail(&fresh->link, &c->records);
	c->nr_records++;
	return 0;
}

static bool is_done(struct record_table *table, const struct record *rec)
{
	bool done;

	spin_lock(&table->lock);
	done = rec->done;
	spin_unlock(&table->lock);
	return done;
}

/* The thread's use of @rec ends. */
static void put_record(struct record_table *table, struct record *rec)
{
	bool dead;

	spin_lock(&table->lock);
	ASSERT(rec->users);
	dead = !--rec->users && !rec->client;
	spin_unlock(&table->lock);
	if (dead)
		kfree(rec);
}

/* Another request has begun the change: its answer. */
static ssize_t wait_for(struct record_table *table, struct record *rec, void *reply)
{
	ssize_t ret = wait_event_killable(&table->done, is_done(table, rec));

	if (!ret) {
		ret = rec->ret;
		if (ret > 0)
			memcpy(reply, rec->reply, (size_t)ret);
	}
	put_record(table, rec);
	return ret;
}

/* The client @peer, or @fresh, which becomes it. */
static struct client *get_client_locked(struct record_table *table, const struct storage_peer *peer,
					struct client **fresh) __must_hold(&table->lock)
{
	struct client *c;

	assert_spin_held(&table->lock);
	c = find_client_locked(table, peer);
	if (c)
		return c;
	c = *fresh;
	*fresh = NULL;
	c->peer = *peer;
	list_init(&c->records);
	list_add(&c->link, &table->clients);
	return c;
}

/* record_members() would not find what is entered for it now. */
static bool has_left(const struct record_table *table, const struct storage_peer *peer)
{
	return table->has_left && table->has_left(peer->node, peer->incarn);
}

struct record *record_begin(struct record_table *table, const struct storage_peer *from,
			    const struct ps_change *change, void *reply, ssize_t *ret)
{
	struct record *fresh = kzalloc(sizeof(*fresh)), *known = NULL;
	struct client *fresh_client = kzalloc(sizeof(*fresh_client)), *c;
	LIST_HEAD(dead);

	*ret = fresh && fresh_client ? 0 : -ENOMEM;
	if (*ret)
		goto out;
	fresh->seq = change->seq;
	spin_lock(&table->lock);
	if (has_left(table, from)) {
		spin_unlock(&table->lock);
		*ret = -ESTALE;
		goto out;
	}
	c = get_client_locked(table, from, &fresh_client);
	acknowledge_locked(table, c, change->acked, &dead);
	known = find_locked(table, c, change->seq);
	if (known)
		known->users++;
	else
		*ret = enter_locked(table, c, fresh);
	spin_unlock(&table->lock);
	free_all(&dead);
	if (known)
		*ret = wait_for(table, known, reply);
out:
	kfree(fresh_client);
	if (!known && !*ret)
		return fresh;
	kfree(fresh);
	return NULL;
}

void record_end(struct record_table *table, struct record *rec, const void *reply, ssize_t ret)
{
	ASSERT(ret <= (ssize_t)RECORD_REPLY_MAX);
	if (ret > 0)
		memcpy(rec->reply, reply, (size_t)ret);
	rec->ret = ret;
	spin_lock(&table->lock);
	ASSERT(!rec->done);
	rec->done = true;
	ASSERT(!rec->late || table->nr_late);
	table->nr_late -= rec->late;
	spin_unlock(&table->lock);
	wake_all(&table->done);
	put_record(table, rec);
}

int record_acknowledge(struct record_table *table, const struct storage_peer *from, uint64_t acked)
{
	struct client *fresh = kzalloc(sizeof(*fresh));
	LIST_HEAD(dead);
	int err = 0;

	if (!fresh)
		return -ENOMEM;
	spin_lock(&table->lock);
	if (has_left(table, from)) {
		err = -ESTALE;
	} else {
		acknowledge_locked(table, get_client_locked(table, from, &fresh), acked, &dead);
		err = table->nr_late ? -EAGAIN : 0;
	}
	spin_unlock(&table->lock);
	free_all(&dead);
	kfree(fresh);
	return err;
}

static bool nobody(const void *arg, const struct storage_peer *peer)
{
	(void)arg, (void)peer;
	return false;
}

void record_members(struct record_table *table,
		    bool (*is_member)(const void *arg, const struct storage_peer *peer),
		    const void *arg)
{
	struct client *c, *next;
	LIST_HEAD(dead);
	LIST_HEAD(gone);

	spin_lock(&table->lock);
	list_for_each_entry_safe(c, next, &table->clients, link) {
		if (!is_member(arg, &c->peer)) {
			drop_client_locked(table, c, &dead);
			list_add(&c->link, &gone);
		}
	}
	spin_unlock(&table->lock);
	free_all(&dead);
	list_for_each_entry_safe(c, next, &gone, link)
		kfree(c);
}

void record_table_destroy(struct record_table *table)
{
	record_members(table, nobody, NULL);
}
