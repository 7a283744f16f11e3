/* SPDX-License-Identifier: MIT */
/*
 * Names and attributes of storage nodes' files that this processor keeps: the tables.
 *
 * Invariants:	a mark counts, for a number of hashes, the changes under way of a file or name,
 *		and knows when the last one ended. Two that share a mark are at worst asked
 *		for once more.
 *		There are entries of a node only while that allows it.
 * Locking:	kept.lock (RANK_SPIN_FS) guards everything. Memory is allocated and freed without
 *		it.
 * Failure:	without memory nothing is kept; a directory is then not whole any more.
 */
#include "kept.h"

#include <kernel/bootparam.h>
#include <kernel/counter.h>
#include <kernel/panic.h>
#include <kernel/random.h>
#include <kernel/spinlock.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <kernel/wait.h>
#include <lib/errno.h>
#include <lib/hash.h>
#include <lib/list.h>
#include <lib/siphash.h>
#include <lib/string.h>
#include <mm/frame.h>
#include <mm/slab.h>

#include "kept_private.h"

static uint64_t max_bytes;
BOOT_PARAM("vfs.names", size, max_bytes,
	   "memory for names and attributes of storage nodes' files (default 0: a 32nd of what is "
	   "free when the first is mounted)");

COUNTER(kept_hits, "kept.hits", "names and attributes that were here");
COUNTER(kept_misses, "kept.misses", "... that a storage node had to be asked for");
COUNTER(kept_evicted, "kept.evicted", "entries that went to make room");
COUNTER(kept_recalls, "kept.recalls", "times that all entries of a storage node went");

#define MARKS          1024u
#define SHARE          32u  /* of the free memory, for all entries */
#define LOW_SHARE      16u  /* less than this part of what was free at first: memory is short */
#define LOW_EVICTS     4u   /* entries that go then for each that comes */
#define ENTRY_BYTES    256u /* about */
#define ASK_NS         NSEC_PER_SEC /* after a refusal */
#define LINK_MAX       512u         /* bytes of a target that is kept */
#define FLUSH_AGAIN_NS (NSEC_PER_SEC / 10)

struct entry {
	struct list_head lru;
	struct hlist_node hash;
	struct kept_node *node; /* const */
	bool is_name;           /* const */
};

struct attr_entry {
	struct entry e;
	struct file_attr attr;
	enum kept_what what; /* 0: nothing */
	bool is_whole;
	char *target; /* of a symbolic link, link_len bytes; NULL: not known */
	size_t link_len;
};

struct name_entry {
	struct entry e;
	uint64_t dir_ino;    /* const */
	uint32_t dir_gen;    /* const */
	struct file_id file; /* node 0: nothing has the name */
	uint8_t len;         /* const */
	char name[];         /* const */
};

struct mark {
	uint64_t ended; /* when the last change did */
	uint64_t wrote; /* the same of changes of contents */
	uint64_t gone;  /* the same of a file's end */
	uint32_t active;
	uint32_t writing; /* of those, changes of contents */
};

struct kept_node {
	struct list_head link;
	uint32_t node; /* const */
	bool allowed;
	bool is_asking;   /* a thread is */
	uint64_t gen;     /* how often all was dropped */
	uint64_t ask_ns;  /* not before */
	uint32_t holders; /* kept_hold() */
	/* Of changes after which files are found elsewhere, as a mark: requests name paths. */
	struct mark moves;
};

static struct {
	struct spinlock lock;
	struct list_head nodes __guarded_by(&lock);
	struct list_head lru __guarded_by(&lock); /* oldest first */
	struct hlist_head *table __guarded_by(&lock);
	struct mark marks[MARKS] __guarded_by(&lock);
	uint64_t now __guarded_by(&lock); /* changes that have ended */
	uint64_t bytes __guarded_by(&lock);
	uint64_t nr __guarded_by(&lock);
	uint32_t mask;          /* const once there is a node */
	uint64_t low_frames;    /* the same */
	struct siphash_key key; /* the same, random: programs choose names */
} kept = {
	.lock = SPINLOCK_INIT("kept", RANK_SPIN_FS),
	.nodes = LIST_HEAD_INIT(kept.nodes),
	.lru = LIST_HEAD_INIT(kept.lru),
};

static int (*flush_written)(uint32_t node); /* atomic; NULL: nothing is to be sent */
static struct waitqueue released = WAITQUEUE_INIT(released); /* a node's last holder has gone */

static uint64_t read_entries(void) __no_lock_analysis("a number to be shown, read without the lock")
{
	return READ_ONCE(kept.nr);
}
GAUGE(kept_entries, "kept.entries", "names and attributes that are kept", read_entries);

static uint64_t read_bytes(void) __no_lock_analysis("the same")
{
	return READ_ONCE(kept.bytes);
}
GAUGE(kept_bytes, "kept.bytes", "their memory", read_bytes);

/* --- hashes ------------------------------------------------------------------------------ */

static uint64_t hash_of_file(const struct file_id *file)
{
	return hash64_pair(file->ino, (uint64_t)file->gen << 32 | file->node);
}

static uint64_t hash_of_name(const struct file_id *dir, const char *name, size_t len)
{
	struct siphash_key key = kept.key;

	key.k0 ^= hash_of_file(dir);
	return siphash24(&key, name, len);
}

static struct mark *mark_locked(uint64_t hash) __must_hold(&kept.lock)
{
	assert_spin_held(&kept.lock);
	return &kept.marks[hash % MARKS];
}

static struct kept_node *node_locked(uint32_t node) __must_hold(&kept.lock)
{
	struct kept_node *n;

	assert_spin_held(&kept.lock);
	list_for_each_entry(n, &kept.nodes, link) {
		if (n->node == node)
			return n;
	}
	return NULL;
}

/* --- entries ----------------------------------------------------------------------------- */

static struct attr_entry *attr_of(struct entry *e)
{
	ASSERT(!e->is_name);
	return container_of(e, struct attr_entry, e);
}

static struct name_entry *name_of(struct entry *e)
{
	ASSERT(e->is_name);
	return container_of(e, struct name_entry, e);
}

static size_t bytes_of(struct entry *e)
{
	return e->is_name ? sizeof(struct name_entry) + name_of(e)->len
			  : sizeof(struct attr_entry) + attr_of(e)->link_len;
}

static struct attr_entry *find_attr_locked(uint64_t ino, uint32_t gen, uint32_t node)
	__must_hold(&kept.lock)
{
	const struct file_id file = { .ino = ino, .gen = gen, .node = node };
	struct entry *e;

	assert_spin_held(&kept.lock);
	if (!kept.table)
		return NULL;
	hlist_for_each_entry(e, &kept.table[hash_of_file(&file) & kept.mask], hash) {
		if (!e->is_name && file_id_equal(&attr_of(e)->attr.file, &file))
			return attr_of(e);
	}
	return NULL;
}

static struct name_entry *find_name_locked(const struct file_id *dir, const char *name, size_t len)
	__must_hold(&kept.lock)
{
	struct entry *e;

	assert_spin_held(&kept.lock);
	if (!kept.table)
		return NULL;
	hlist_for_each_entry(e, &kept.table[hash_of_name(dir, name, len) & kept.mask], hash) {
		struct name_entry *n;

		if (!e->is_name || e->node->node != dir->node)
			continue;
		n = name_of(e);
		if (n->dir_ino == dir->ino && n->dir_gen == dir->gen && n->len == len &&
		    !memcmp(n->name, name, len))
			return n;
	}
	return NULL;
}

static void touch_locked(struct entry *e) __must_hold(&kept.lock)
{
	assert_spin_held(&kept.lock);
	list_move_tail(&e->lru, &kept.lru);
}

/* To @dead, whose entries are to be freed without the lock. */
static void unlink_locked(struct entry *e, struct list_head *dead) __must_hold(&kept.lock)
{
	assert_spin_held(&kept.lock);
	ASSERT(kept.nr && kept.bytes >= bytes_of(e));
	hlist_del(&e->hash);
	kept.nr--;
	kept.bytes -= bytes_of(e);
	list_move_tail(&e->lru, dead);
}

static void free_all(struct list_head *dead)
{
	struct entry *e, *next;

	list_for_each_entry_safe(e, next, dead, lru) {
		if (!e->is_name)
			kfree(attr_of(e)->target);
		kfree(e->is_name ? (void *)name_of(e) : (void *)attr_of(e));
	}
}

static void not_whole_locked(uint64_t ino, uint32_t gen, uint32_t node) __must_hold(&kept.lock)
{
	struct attr_entry *a = find_attr_locked(ino, gen, node);

	assert_spin_held(&kept.lock);
	if (a)
		a->is_whole = false;
}

static void evict_one_locked(struct list_head *dead) __must_hold(&kept.lock)
{
	struct entry *e = list_first_entry(&kept.lru, struct entry, lru);

	assert_spin_held(&kept.lock);
	if (e->is_name && name_of(e)->file.node)
		not_whole_locked(name_of(e)->dir_ino, name_of(e)->dir_gen, e->node->node);
	unlink_locked(e, dead);
	counter_inc(&kept_evicted);
}

static void make_room_locked(struct list_head *dead) __must_hold(&kept.lock)
{
	assert_spin_held(&kept.lock);
	while (kept.bytes > max_bytes)
		evict_one_locked(dead);
}

/* @e comes, and others go. */
static void enter_locked(struct entry *e, uint64_t hash, struct list_head *dead)
	__must_hold(&kept.lock)
{
	assert_spin_held(&kept.lock);
	hlist_add_head(&e->hash, &kept.table[hash & kept.mask]);
	list_add_tail(&e->lru, &kept.lru);
	kept.nr++;
	kept.bytes += bytes_of(e);
	make_room_locked(dead);
	if (frames_free_count() >= kept.low_frames)
		return;
	for (unsigned int i = 0; i < LOW_EVICTS && !list_empty(&kept.lru); i++)
		evict_one_locked(dead);
}

/* --- nodes ------------------------------------------------------------------------------- */

/* The size of the tables follows from what is free when the first file system is mounted. */
static int make_table(void)
{
	const uint64_t frames = frames_free_count();
	const uint64_t bytes = max_bytes ? max_bytes : frames / SHARE * PAGE_SIZE;
	struct hlist_head *table;
	uint32_t nr = 64;

	while (nr < bytes / ENTRY_BYTES && nr < 1u << 20)
		nr *= 2;
	table = kcalloc(nr, sizeof(*table));
	if (!table)
		return -ENOMEM;
	spin_lock(&kept.lock);
	if (!kept.table) {
		random_bytes(&kept.key, sizeof(kept.key));
		kept.mask = nr - 1;
		kept.low_frames = frames / LOW_SHARE;
		max_bytes = bytes;
		kept.table = table;
		table = NULL;
	}
	spin_unlock(&kept.lock);
	kfree(table);
	return 0;
}

int kept_add(uint32_t node)
{
	struct kept_node *fresh = kzalloc(sizeof(*fresh));
	int err = fresh ? make_table() : -ENOMEM;

	if (!err) {
		fresh->node = node;
		spin_lock(&kept.lock);
		if (!node_locked(node)) {
			list_add_tail(&fresh->link, &kept.nodes);
			fresh = NULL;
		}
		spin_unlock(&kept.lock);
	}
	kfree(fresh);
	return err;
}

uint64_t kept_limit(uint64_t bytes)
{
	uint64_t was;

	spin_lock(&kept.lock);
	was = max_bytes;
	max_bytes = bytes;
	spin_unlock(&kept.lock);
	return was;
}

bool kept_ask_begin(uint32_t node, uint64_t *gen)
{
	const uint64_t now = time_now_ns();
	struct kept_node *n;
	bool asks;

	spin_lock(&kept.lock);
	n = node_locked(node);
	asks = n && !n->allowed && !n->is_asking && now >= n->ask_ns;
	if (asks) {
		n->is_asking = true;
		n->ask_ns = now + ASK_NS;
		*gen = n->gen;
	}
	spin_unlock(&kept.lock);
	return asks;
}

void kept_ask_end(uint32_t node, uint64_t gen, bool granted)
{
	struct kept_node *n;

	spin_lock(&kept.lock);
	n = node_locked(node);
	ASSERT(n && n->is_asking);
	n->is_asking = false;
	/* It may have been taken back since. */
	n->allowed = granted && n->gen == gen;
	spin_unlock(&kept.lock);
}

void kept_view_changed(void)
{
	struct kept_node *n;

	spin_lock(&kept.lock);
	list_for_each_entry(n, &kept.nodes, link)
		n->ask_ns = 0;
	spin_unlock(&kept.lock);
}

void kept_drop(uint32_t node)
{
	struct entry *e, *next;
	struct kept_node *n;
	LIST_HEAD(dead);

	spin_lock(&kept.lock);
	n = node_locked(node);
	if (n) {
		n->allowed = false;
		n->gen++;
		list_for_each_entry_safe(e, next, &kept.lru, lru) {
			if (e->node == n)
				unlink_locked(e, &dead);
		}
	}
	spin_unlock(&kept.lock);
	if (n)
		counter_inc(&kept_recalls);
	free_all(&dead);
}

uint64_t kept_hold(uint32_t node)
{
	uint64_t grant = 0;
	struct kept_node *n;

	spin_lock(&kept.lock);
	n = node_locked(node);
	if (n && n->allowed) {
		n->holders++;
		grant = n->gen + 1; /* it is not allowed again before gen is another one */
	}
	spin_unlock(&kept.lock);
	return grant;
}

void kept_release(uint32_t node)
{
	struct kept_node *n;
	bool wake;

	spin_lock(&kept.lock);
	n = node_locked(node);
	ASSERT(n && n->holders);
	wake = !--n->holders; /* also of a recall that the node has given up, and allows it again */
	spin_unlock(&kept.lock);
	if (wake)
		wake_all(&released);
}

static bool is_held(uint32_t node)
{
	const struct kept_node *n;
	bool held;

	spin_lock(&kept.lock);
	n = node_locked(node);
	held = n && n->holders;
	spin_unlock(&kept.lock);
	return held;
}

void kept_set_flush(int (*flush)(uint32_t node))
{
	__atomic_store_n(&flush_written, flush, __ATOMIC_RELEASE);
}

int kept_recall(uint32_t node)
{
	int (*flush)(uint32_t) = __atomic_load_n(&flush_written, __ATOMIC_ACQUIRE);
	int err;

	kept_drop(node);
	err = wait_event_killable(&released, !is_held(node));
	if (err || !flush)
		return err;
	while ((err = flush(node)) && err != -EINTR)
		thread_sleep_ns(FLUSH_AGAIN_NS); /* a memory node does not take it now */
	return err;
}

/* --- fills ------------------------------------------------------------------------------- */

void kept_begin(struct kept_ticket *t, uint32_t node)
{
	struct kept_node *n;

	spin_lock(&kept.lock);
	n = node_locked(node);
	*t = (struct kept_ticket){
		.node = node,
		.allowed = n && n->allowed,
		.gen = n ? n->gen : 0,
		.now = kept.now,
	};
	spin_unlock(&kept.lock);
}

/* Changes that the caller of a fill has under way itself. */
struct own {
	uint32_t marks, moves;
};

static bool is_quiet(const struct mark *m, uint32_t own, uint64_t since)
{
	return m->active == own && m->ended <= since;
}

/* The node of @t, if what its request was answered still holds for a file or name of @hash. */
static struct kept_node *holds_locked(const struct kept_ticket *t, uint64_t hash, struct own own)
	__must_hold(&kept.lock)
{
	struct kept_node *n = t->allowed ? node_locked(t->node) : NULL;

	assert_spin_held(&kept.lock);
	if (!n || !n->allowed || n->gen != t->gen || !is_quiet(&n->moves, own.moves, t->now) ||
	    !is_quiet(mark_locked(hash), own.marks, t->now))
		return NULL;
	return n;
}

static void fill_attr(const struct kept_ticket *t, struct own own, const struct file_attr *attr,
		      enum kept_what what)
{
	const uint64_t hash = hash_of_file(&attr->file);
	struct attr_entry *fresh = t->allowed ? kzalloc(sizeof(*fresh)) : NULL, *a;
	struct kept_node *n;
	LIST_HEAD(dead);

	if (!fresh || attr->file.node != t->node) {
		kfree(fresh);
		return;
	}
	spin_lock(&kept.lock);
	n = holds_locked(t, hash, own);
	a = n ? find_attr_locked(attr->file.ino, attr->file.gen, attr->file.node) : NULL;
	if (a && a->what <= what) {
		a->attr = *attr;
		a->what = what;
		touch_locked(&a->e);
	} else if (n && !a) {
		fresh->e.node = n;
		fresh->attr = *attr;
		fresh->what = what;
		enter_locked(&fresh->e, hash, &dead);
		fresh = NULL;
	}
	spin_unlock(&kept.lock);
	kfree(fresh);
	free_all(&dead);
}

void kept_fill_attr(const struct kept_ticket *t, const struct file_attr *attr, enum kept_what what)
{
	fill_attr(t, (struct own){ 0 }, attr, what);
}

/* True: what is known of the name is kept. */
static bool fill_name(const struct kept_ticket *t, struct own own, const struct file_id *dir,
		      const char *name, size_t len, const struct file_id *file)
{
	struct name_entry *fresh, *old;
	bool filled = false, whole;
	struct attr_entry *a;
	struct kept_node *n;
	uint64_t hash;
	LIST_HEAD(dead);

	ASSERT(len && len <= UINT8_MAX);
	if (!t->allowed || dir->node != t->node || (file && file->node != t->node))
		return false;
	fresh = kzalloc(sizeof(*fresh) + len);
	if (!fresh)
		return false;
	hash = hash_of_name(dir, name, len);
	fresh->e.is_name = true;
	fresh->dir_ino = dir->ino;
	fresh->dir_gen = dir->gen;
	fresh->file = file ? *file : (struct file_id){ 0 };
	fresh->len = (uint8_t)len;
	memcpy(fresh->name, name, len);
	spin_lock(&kept.lock);
	n = holds_locked(t, hash, own);
	if (n) {
		old = find_name_locked(dir, name, len);
		if (old)
			unlink_locked(&old->e, &dead);
		a = find_attr_locked(dir->ino, dir->gen, dir->node);
		whole = a && a->is_whole;
		filled = true;
		if (file || !whole) { /* of a whole directory this says nothing new */
			fresh->e.node = n;
			enter_locked(&fresh->e, hash, &dead);
			fresh = NULL;
		}
	}
	spin_unlock(&kept.lock);
	kfree(fresh);
	free_all(&dead);
	return filled;
}

void kept_fill_name(const struct kept_ticket *t, const struct file_id *dir, const char *name,
		    size_t len, const struct file_id *file)
{
	(void)fill_name(t, (struct own){ 0 }, dir, name, len, file);
}

void kept_fill_link(const struct kept_ticket *t, const struct file_id *dir, const char *name,
		    size_t name_len, const struct file_id *link, const char *target, size_t len)
{
	const uint64_t hash = hash_of_file(link);
	const struct name_entry *e;
	struct attr_entry *a;
	LIST_HEAD(dead);
	char *copy;

	if (!t->allowed || link->node != t->node || !len || len > LINK_MAX)
		return;
	copy = kmalloc(len);
	if (!copy)
		return;
	memcpy(copy, target, len);
	spin_lock(&kept.lock);
	e = find_name_locked(dir, name, name_len);
	a = find_attr_locked(link->ino, link->gen, link->node);
	if (a && !a->target && e && file_id_equal(&e->file, link) &&
	    holds_locked(t, hash, (struct own){ 0 }) &&
	    holds_locked(t, hash_of_name(dir, name, name_len), (struct own){ 0 })) {
		a->target = copy;
		a->link_len = len;
		kept.bytes += len;
		touch_locked(&a->e);
		make_room_locked(&dead);
		copy = NULL;
	}
	spin_unlock(&kept.lock);
	kfree(copy);
	free_all(&dead);
}

/* --- look-ups ---------------------------------------------------------------------------- */

bool kept_attr(const struct file_id *file, enum kept_what what, struct file_attr *out)
{
	struct attr_entry *a;

	spin_lock(&kept.lock);
	a = find_attr_locked(file->ino, file->gen, file->node);
	if (a && a->what < what)
		a = NULL;
	if (a) {
		touch_locked(&a->e);
		*out = a->attr;
	}
	spin_unlock(&kept.lock);
	counter_inc(a ? &kept_hits : &kept_misses);
	return a;
}

size_t kept_link(const struct file_id *link, char *buf, size_t size)
{
	struct attr_entry *a;
	size_t len = 0;

	spin_lock(&kept.lock);
	a = find_attr_locked(link->ino, link->gen, link->node);
	if (a && a->target) {
		len = a->link_len;
		memcpy(buf, a->target, MIN(len, size));
		touch_locked(&a->e);
	}
	spin_unlock(&kept.lock);
	counter_inc(len ? &kept_hits : &kept_misses);
	return len;
}

enum kept_found kept_name(const struct file_id *dir, const char *name, size_t len,
			  struct file_id *file)
{
	enum kept_found found = KEPT_UNKNOWN;
	struct name_entry *e;
	struct attr_entry *a;

	ASSERT(len && len <= UINT8_MAX);
	spin_lock(&kept.lock);
	e = find_name_locked(dir, name, len);
	a = e ? NULL : find_attr_locked(dir->ino, dir->gen, dir->node);
	if (e) {
		found = e->file.node ? KEPT_FOUND : KEPT_MISSING;
		*file = e->file;
		touch_locked(&e->e);
	} else if (a && a->is_whole && !mark_locked(hash_of_name(dir, name, len))->active) {
		found = KEPT_MISSING;
	}
	spin_unlock(&kept.lock);
	counter_inc(found != KEPT_UNKNOWN ? &kept_hits : &kept_misses);
	return found;
}

/* --- changes ----------------------------------------------------------------------------- */

void kept_change(struct kept_change *c, uint32_t node)
{
	c->nr_files = c->nr_names = 0;
	c->moves = false;
	kept_begin(&c->ticket, node);
}

void kept_change_moves(struct kept_change *c)
{
	struct kept_node *n;

	ASSERT(!c->moves);
	spin_lock(&kept.lock);
	n = node_locked(c->ticket.node);
	if (n)
		n->moves.active++;
	c->moves = n;
	spin_unlock(&kept.lock);
}

static void end_mark_locked(struct mark *m) __must_hold(&kept.lock)
{
	assert_spin_held(&kept.lock);
	ASSERT(m->active);
	m->active--;
	m->ended = ++kept.now;
}

void kept_change_file(struct kept_change *c, const struct file_id *file, enum kept_what left)
{
	struct attr_entry *a;
	char *gone = NULL;

	ASSERT(c->nr_files < KEPT_FILES);
	c->files[c->nr_files++] = *file;
	spin_lock(&kept.lock);
	mark_locked(hash_of_file(file))->active++;
	a = find_attr_locked(file->ino, file->gen, file->node);
	if (a)
		a->what = MIN(a->what, left);
	if (a && !a->what) { /* it may be the end of a link */
		gone = a->target;
		kept.bytes -= a->link_len;
		a->target = NULL;
		a->link_len = 0;
	}
	spin_unlock(&kept.lock);
	kfree(gone);
}

void kept_change_name(struct kept_change *c, const struct file_id *dir, const char *name,
		      size_t len)
{
	struct name_entry *e;
	LIST_HEAD(dead);

	ASSERT(c->nr_names < KEPT_NAMES);
	c->names[c->nr_names].dir = dir;
	c->names[c->nr_names].name = name;
	c->names[c->nr_names].len = len;
	c->names[c->nr_names++].is_filled = false;
	spin_lock(&kept.lock);
	mark_locked(hash_of_name(dir, name, len))->active++;
	e = find_name_locked(dir, name, len);
	if (e)
		unlink_locked(&e->e, &dead);
	spin_unlock(&kept.lock);
	free_all(&dead);
}

/* The change's own marks of @hash, and moves. */
static struct own own_of(const struct kept_change *c, uint64_t hash)
{
	struct own own = { .moves = c->moves };

	for (uint32_t i = 0; i < c->nr_files; i++)
		own.marks += hash_of_file(&c->files[i]) % MARKS == hash % MARKS;
	for (uint32_t i = 0; i < c->nr_names; i++)
		own.marks +=
			hash_of_name(c->names[i].dir, c->names[i].name, c->names[i].len) % MARKS ==
			hash % MARKS;
	return own;
}

void kept_change_fill_attr(struct kept_change *c, const struct file_attr *attr, enum kept_what what)
{
	fill_attr(&c->ticket, own_of(c, hash_of_file(&attr->file)), attr, what);
}

void kept_change_fill_name(struct kept_change *c, size_t i, const struct file_id *file)
{
	const uint64_t hash = hash_of_name(c->names[i].dir, c->names[i].name, c->names[i].len);

	ASSERT(i < c->nr_names);
	c->names[i].is_filled = fill_name(&c->ticket, own_of(c, hash), c->names[i].dir,
					  c->names[i].name, c->names[i].len, file);
}

void kept_change_is_empty(struct kept_change *c, const struct file_id *dir)
{
	const uint64_t hash = hash_of_file(dir);
	struct attr_entry *a;

	spin_lock(&kept.lock);
	a = find_attr_locked(dir->ino, dir->gen, dir->node);
	if (a && holds_locked(&c->ticket, hash, own_of(c, hash)))
		a->is_whole = true;
	spin_unlock(&kept.lock);
}

bool kept_is_in_doubt(int err)
{
	switch (err) {
	case -EINTR:
	case -EIO:
	case -EPROTO:
	case -EMSGSIZE:
	case -ENOMEM:
	case -ENOBUFS:
	case -EHOSTDOWN:
	case -ETIMEDOUT:
	case -ESHUTDOWN:
		return true;
	default:
		return false;
	}
}

void kept_change_end(struct kept_change *c, int err)
{
	/* Before the marks are: nothing is filled in between. */
	if (kept_is_in_doubt(err))
		kept_drop(c->ticket.node);
	spin_lock(&kept.lock);
	for (uint32_t i = 0; i < c->nr_names; i++) {
		const struct file_id *dir = c->names[i].dir;

		if (!c->names[i].is_filled)
			not_whole_locked(dir->ino, dir->gen, dir->node);
		end_mark_locked(mark_locked(hash_of_name(dir, c->names[i].name, c->names[i].len)));
	}
	for (uint32_t i = 0; i < c->nr_files; i++)
		end_mark_locked(mark_locked(hash_of_file(&c->files[i])));
	if (c->moves)
		end_mark_locked(&node_locked(c->ticket.node)->moves);
	spin_unlock(&kept.lock);
}

void kept_write_begin(const struct file_id *file)
{
	struct attr_entry *a;

	spin_lock(&kept.lock);
	mark_locked(hash_of_file(file))->active++;
	mark_locked(hash_of_file(file))->writing++;
	a = find_attr_locked(file->ino, file->gen, file->node);
	if (a)
		a->what = MIN(a->what, (enum kept_what)KEPT_RIGHTS);
	spin_unlock(&kept.lock);
}

void kept_write_end(const struct file_id *file)
{
	struct mark *m;

	spin_lock(&kept.lock);
	m = mark_locked(hash_of_file(file));
	ASSERT(m->writing);
	end_mark_locked(m);
	m->writing--;
	m->wrote = kept.now;
	spin_unlock(&kept.lock);
}

uint64_t kept_now(void)
{
	uint64_t now;

	spin_lock(&kept.lock);
	now = kept.now;
	spin_unlock(&kept.lock);
	return now;
}

bool kept_is_unwritten(const struct file_id *file, uint64_t since)
{
	const struct mark *m;
	bool is_unwritten;

	spin_lock(&kept.lock);
	m = mark_locked(hash_of_file(file));
	is_unwritten = !m->writing && m->wrote <= since;
	spin_unlock(&kept.lock);
	return is_unwritten;
}

void kept_gone(const struct file_id *file)
{
	spin_lock(&kept.lock);
	mark_locked(hash_of_file(file))->gone = ++kept.now;
	spin_unlock(&kept.lock);
}

bool kept_is_gone(const struct file_id *file, uint64_t since)
{
	bool gone;

	spin_lock(&kept.lock);
	gone = mark_locked(hash_of_file(file))->gone > since;
	spin_unlock(&kept.lock);
	return gone;
}

/* A change of what has @hash was made. */
static void changed_locked(uint64_t hash) __must_hold(&kept.lock)
{
	assert_spin_held(&kept.lock);
	mark_locked(hash)->ended = ++kept.now;
}

static void leave_rights_locked(const struct file_id *file) __must_hold(&kept.lock)
{
	struct attr_entry *a = find_attr_locked(file->ino, file->gen, file->node);

	assert_spin_held(&kept.lock);
	if (a)
		a->what = MIN(a->what, (enum kept_what)KEPT_RIGHTS);
	changed_locked(hash_of_file(file));
}

/* Has the file of @attr the rights that it tells?  Its entry, or NULL. */
static struct attr_entry *same_rights_locked(const struct file_attr *attr) __must_hold(&kept.lock)
{
	struct attr_entry *a = find_attr_locked(attr->file.ino, attr->file.gen, attr->file.node);
	bool same;

	assert_spin_held(&kept.lock);
	same = a && a->what >= KEPT_RIGHTS && a->attr.mode == attr->mode &&
	       a->attr.uid == attr->uid && a->attr.gid == attr->gid &&
	       a->attr.attrs == attr->attrs && a->attr.acl == attr->acl;
	return same ? a : NULL;
}

/* The name that @dir, which has the attributes of @a, has lost is missing. */
static void is_missing_locked(const struct attr_entry *a, struct name_entry *e,
			      struct list_head *dead) __must_hold(&kept.lock)
{
	assert_spin_held(&kept.lock);
	/* That is nothing new in a directory of which all names are here. */
	if (a->is_whole)
		unlink_locked(&e->e, dead);
	else
		e->file = (struct file_id){ 0 };
}

bool kept_remove(const struct file_attr *dir_attr, const char *name, size_t len,
		 const struct file_attr *victim_attr)
{
	const struct file_id *dir = &dir_attr->file, *victim = &victim_attr->file;
	const uint64_t hash = hash_of_name(dir, name, len);
	struct attr_entry *a;
	struct name_entry *e;
	struct kept_node *n;
	LIST_HEAD(dead);
	bool known;

	spin_lock(&kept.lock);
	n = node_locked(dir->node);
	e = find_name_locked(dir, name, len);
	a = same_rights_locked(dir_attr);
	known = n && n->allowed && !n->moves.active && e && file_id_equal(&e->file, victim) &&
		!mark_locked(hash)->active && a && !a->attr.acl && same_rights_locked(victim_attr);
	if (known) {
		is_missing_locked(a, e, &dead);
		changed_locked(hash);
		leave_rights_locked(dir);
		leave_rights_locked(victim);
	}
	spin_unlock(&kept.lock);
	free_all(&dead);
	return known;
}

/* The entry of a name that nothing changes just now; NULL: there is none, or something does. */
static struct name_entry *quiet_name_locked(const struct file_id *dir, const char *name, size_t len)
	__must_hold(&kept.lock)
{
	assert_spin_held(&kept.lock);
	return mark_locked(hash_of_name(dir, name, len))->active ? NULL
								 : find_name_locked(dir, name, len);
}

/* Is it known that @r->target, or nothing, has the new name?  *@e: its entry, or NULL. */
static bool is_new_name_locked(const struct kept_rename *r, struct name_entry **e)
	__must_hold(&kept.lock)
{
	const struct file_id *dir = &r->to_dir->file;
	const struct attr_entry *a = same_rights_locked(r->to_dir);

	assert_spin_held(&kept.lock);
	*e = find_name_locked(dir, r->to, r->to_len);
	if (!a || a->attr.acl || mark_locked(hash_of_name(dir, r->to, r->to_len))->active)
		return false;
	if (r->target)
		return *e && file_id_equal(&(*e)->file, &r->target->file) &&
		       same_rights_locked(r->target);
	return *e ? !(*e)->file.node : a->is_whole;
}

bool kept_rename(const struct kept_rename *r)
{
	const struct file_id *from = &r->from_dir->file, *to = &r->to_dir->file;
	const uint64_t hash = hash_of_name(to, r->to, r->to_len);
	struct name_entry *fresh = kzalloc(sizeof(*fresh) + r->to_len), *old, *e;
	struct attr_entry *a;
	struct kept_node *n;
	LIST_HEAD(dead);
	bool known;

	ASSERT(r->to_len && r->to_len <= UINT8_MAX);
	if (!fresh)
		return false;
	fresh->e.is_name = true;
	fresh->dir_ino = to->ino;
	fresh->dir_gen = to->gen;
	fresh->file = r->source->file;
	fresh->len = (uint8_t)r->to_len;
	memcpy(fresh->name, r->to, r->to_len);
	spin_lock(&kept.lock);
	n = node_locked(from->node);
	old = quiet_name_locked(from, r->from, r->from_len);
	a = same_rights_locked(r->from_dir);
	known = n && n->allowed && !n->moves.active && old && a && !a->attr.acl &&
		file_id_equal(&old->file, &r->source->file) && same_rights_locked(r->source) &&
		is_new_name_locked(r, &e);
	if (known) {
		is_missing_locked(a, old, &dead);
		if (e)
			unlink_locked(&e->e, &dead);
		changed_locked(hash_of_name(from, r->from, r->from_len));
		changed_locked(hash);
		leave_rights_locked(from);
		leave_rights_locked(to);
		leave_rights_locked(&r->source->file);
		if (r->target)
			leave_rights_locked(&r->target->file);
		fresh->e.node = n;
		enter_locked(&fresh->e, hash, &dead);
		fresh = NULL;
	}
	spin_unlock(&kept.lock);
	kfree(fresh);
	free_all(&dead);
	return known;
}

bool kept_set(const struct file_attr *old, const struct file_attr *now)
{
	const uint32_t node = old->file.node;
	struct attr_entry *a;
	struct kept_node *n;

	ASSERT(file_id_equal(&old->file, &now->file) && !((old->mode ^ now->mode) & S_IFMT));
	spin_lock(&kept.lock);
	n = node_locked(node);
	a = n && n->allowed ? same_rights_locked(old) : NULL;
	if (a) {
		a->attr.mode = now->mode;
		a->attr.uid = now->uid;
		a->attr.gid = now->gid;
		leave_rights_locked(&old->file);
	}
	spin_unlock(&kept.lock);
	return a;
}

bool kept_is_allowed(uint32_t node)
{
	const struct kept_node *n;
	bool allowed;

	spin_lock(&kept.lock);
	n = node_locked(node);
	allowed = n && n->allowed;
	spin_unlock(&kept.lock);
	return allowed;
}
