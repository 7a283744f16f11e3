/* SPDX-License-Identifier: MIT */
/*
 * Objects: what a cached page belongs to.  A line's tag is (object, page).
 *
 * Kinds:	an anonymous object is the private memory of one address space, page = virtual page
 *		number; a file object is one version of one file, page = file page number, shared by
 *		everyone who reads or maps the file.
 * Lifetime:	counted.  Each line holds a reference to its object.  File objects stay in the table
 *		while they are referenced or have lines, so that a program that runs again finds its text.
 * Locking:	object table: RANK_SPIN_MONITOR; object.lock (RANK_EXCACHE_OBJECT) guards the list of
 *		lines and is taken inside a set's lock.
 */
#pragma once

#include <kernel/spinlock.h>
#include <lib/atomic.h>
#include <lib/list.h>
#include <proto/types.h>

struct aspace;

enum object_kind {
	OBJECT_ANON,
	OBJECT_FILE,
};

struct object {
	enum object_kind kind; /* const */
	refcount_t refs;
	uint64_t seed;        /* const: where in the cache page 0 goes */
	struct spinlock lock; /* RANK_EXCACHE_OBJECT */
	struct list_head lines __guarded_by(&lock);
	size_t nr_lines __guarded_by(&lock);

	/* OBJECT_ANON */
	struct aspace *as; /* const; outlives the object's lines */

	/* OBJECT_FILE */
	struct proto_file file; /* const */
	uint64_t version;       /* const */
	uint64_t size;          /* const: bytes, of this version */
	uint64_t last_fetch; /* hint for read-ahead by faults: page behind the last one asked for */
	uint32_t last_window;        /* hint */
	struct list_head table_link; /* table lock */
};

/* Initialise an anonymous object embedded in @as; the creator holds the one reference. */
void object_init_anon(struct object *obj, struct aspace *as);

/*
 * The object of @attr's file at @attr's version, found or made; takes a reference.  Lines of
 * older versions are dropped.  ERR_PTR(-ENOMEM).
 */
struct object *object_file_get(const struct proto_attr *attr);

static inline void object_get(struct object *obj)
{
	refcount_inc(&obj->refs);
}

void object_put(struct object *obj);

/* The memory node that holds the buffer cache of this file object; 0 when there is none. */
uint32_t object_cache_node(const struct object *obj);

/* File objects in the table, for leak tests. */
size_t object_count(void);
