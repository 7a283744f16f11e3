/* SPDX-License-Identifier: MIT */
/*
 * Objects: the table of file objects, and the lifetime of all objects.
 *
 * Invariants:	at most one object per (file, version) is in the table; an object leaves it with its
 *		last reference, which a line may hold.
 * Locking:	table_lock, then nothing: an object is freed outside of it.
 */
#include "object.h"

#include <kernel/counter.h>
#include <lib/err.h>
#include <lib/hash.h>
#include <managers/placement.h>
#include <mm/slab.h>

#include "around_private.h"
#include "cache_private.h"
#include "excache.h"

#define TABLE_BUCKETS 1024 /* chains grow; the count of open files is in the hundreds */

static struct spinlock table_lock = SPINLOCK_INIT("object.table", RANK_SPIN_MONITOR);
static struct list_head table[TABLE_BUCKETS]; /* table_lock; set up on first use */
static uint64_t nr_objects;                   /* table_lock */

static uint64_t gauge_objects(void)
{
	return object_count();
}
GAUGE(object_gauge, "excache.file_objects", "files that are open or cached", gauge_objects);

static struct list_head *bucket_locked(const struct proto_file *file)
{
	struct list_head *head =
		&table[hash64_pair(file->ino, (uint64_t)file->node << 32 | file->gen) %
		       TABLE_BUCKETS];

	if (!head->next)
		list_init(head);
	return head;
}

static bool same_file(const struct proto_file *a, const struct proto_file *b)
{
	return a->ino == b->ino && a->gen == b->gen && a->node == b->node;
}

void object_init(struct object *obj, enum object_kind kind, uint64_t seed)
{
	obj->kind = kind;
	refcount_set(&obj->refs, 1);
	obj->seed = seed;
	spin_lock_init(&obj->lock, "object", RANK_EXCACHE_OBJECT);
	list_init(&obj->lines);
}

/* The object of exactly this version, referenced, or NULL. */
static struct object *find_locked(const struct proto_attr *attr)
{
	struct object *obj;

	list_for_each_entry(obj, bucket_locked(&attr->file), table_link) {
		if (same_file(&obj->file, &attr->file) && obj->version == attr->version &&
		    obj->size == attr->size && refcount_inc_not_zero(&obj->refs))
			return obj;
	}
	return NULL;
}

/* One of another version that still has lines, referenced, or NULL. */
static struct object *find_stale_locked(const struct proto_attr *attr)
{
	struct object *obj;

	list_for_each_entry(obj, bucket_locked(&attr->file), table_link) {
		if (same_file(&obj->file, &attr->file) && READ_ONCE(obj->nr_lines) > 0 &&
		    (obj->version != attr->version || obj->size != attr->size) &&
		    refcount_inc_not_zero(&obj->refs))
			return obj;
	}
	return NULL;
}

struct object *object_file_get(const struct proto_attr *attr)
{
	struct object *fresh = kzalloc(sizeof(*fresh));
	struct object *obj, *stale;

	if (fresh) {
		object_init(fresh, OBJECT_FILE, hash64_pair(attr->file.ino, attr->file.node) >> 1);
		fresh->file = attr->file;
		fresh->version = attr->version;
		fresh->size = attr->size;
		fresh->dev = (uint32_t)(attr->fsid & 0xffff);
	}
	spin_lock(&table_lock);
	obj = find_locked(attr);
	stale = find_stale_locked(attr);
	if (!obj && fresh) {
		list_add(&fresh->table_link, bucket_locked(&attr->file));
		nr_objects++;
		obj = fresh;
		fresh = NULL;
	}
	spin_unlock(&table_lock);
	kfree(fresh);
	if (stale) {
		excache_drop(stale, 0, UINT64_MAX);
		object_put(stale);
	}
	return obj ? obj : ERR_PTR(-ENOMEM);
}

void object_put(struct object *obj)
{
	if (!refcount_dec_and_test(&obj->refs))
		return;
	if (obj->kind != OBJECT_FILE) {
		space_end(obj);
		return;
	}
	spin_lock(&table_lock);
	list_del(&obj->table_link);
	nr_objects--;
	spin_unlock(&table_lock);
	windows_destroy(obj);
	kfree(obj->path);
	kfree(obj);
}

void object_set_path(struct object *obj, const char *path)
{
	char *expected = NULL, *copy;

	if (__atomic_load_n(&obj->path, __ATOMIC_RELAXED))
		return;
	copy = kstrdup(path);
	if (!__atomic_compare_exchange_n(&obj->path, &expected, copy, false, __ATOMIC_RELEASE,
					 __ATOMIC_RELAXED))
		kfree(copy);
}

uint32_t object_cache_node(const struct object *obj)
{
	return gsm_cache_node_for(&obj->file);
}

size_t object_count(void)
{
	size_t nr;

	spin_lock(&table_lock);
	nr = nr_objects;
	spin_unlock(&table_lock);
	return nr;
}
