/* SPDX-License-Identifier: MIT */
/*
 * The advisory locks of one file: records (POSIX and OFD) and whole files (flock); what is in the
 * way of a request, what an owner has, and how a request changes that.
 *
 * A processor has a table of such trees for its own programs, and a storage node one for the
 * programs of all processors.
 *
 * Invariants:	an owner is one pointer with one kind. Its locks are disjoint, and those of one type
 *		do not touch. An owner without locks is in no tree.
 * Limits:	a look for any conflict visits O(log n) locks, whoever has them; so does one for the
 *		first conflict, unless many owners share the byte where the request begins.
 * Locking:	the caller's.
 */
#pragma once

#include <lib/compiler.h>
#include <lib/rbtree.h>
#include <lib/types.h>

enum lock_type { /* Linux's numbers for fcntl */
	LOCK_READ = 0,
	LOCK_WRITE = 1,
	LOCK_NONE = 2,
};

enum lock_kind {
	LOCK_POSIX, /* owner: a descriptor table */
	LOCK_OFD,   /* owner: an open file; conflicts with LOCK_POSIX */
	LOCK_FLOCK, /* owner: an open file; a world of its own */
};

struct lock_req {
	enum lock_kind kind;
	enum lock_type type;
	const void *owner;
	uint32_t pid;       /* of the holder, as F_GETLK tells it */
	int64_t start, end; /* the last byte too; INT64_MAX: to the end */
};

struct file_lock;
struct lock_owner;

/* Where a tree gets locks and owners from. NULL: there are too many, or no memory. */
struct lock_mem {
	struct file_lock *(*lock_alloc)(const struct lock_req *req);
	void (*lock_free)(struct file_lock *l);
	/* All 0 */
	struct lock_owner *(*owner_alloc)(const struct lock_req *req);
	void (*owner_free)(struct lock_owner *o, const void *who);
};

struct file_lock {
	struct rb_node by_start; /* lock_world.readers or .writers */
	struct rb_node own_link; /* lock_owner.locks */
	struct lock_owner *owner;
	int64_t start, end; /* the last byte too */
	/*
	 * Of the subtree below by_start: the lock that reaches farthest, and the first one to tell;
	 * of each also the best that belongs to another owner.
	 */
	struct file_lock *far[2], *first[2];
	uint32_t pid;
	uint8_t type;    /* enum lock_type */
	bool has_writer; /* the subtree below own_link */
};

struct lock_owner {
	struct rb_node link;  /* lock_tree.owners */
	struct rb_root locks; /* by where they begin */
	const void *who;
	uint64_t order; /* of when it first had a lock; the lowest is told first */
	enum lock_kind kind;
};

struct lock_world {
	struct rb_root readers, writers;
};

struct lock_tree {
	const struct lock_mem *mem;
	struct lock_world records, flocks; /* they do not see each other */
	struct rb_root owners;             /* by kind and pointer */
	uint64_t next_order;
	uint64_t nr_posix; /* locks of that kind */
};

static inline void lock_tree_init(struct lock_tree *tree, const struct lock_mem *mem)
{
	*tree = (struct lock_tree){ .mem = mem };
}

bool lock_tree_empty(const struct lock_tree *tree);
/* Has another owner a lock that keeps @req from being granted? */
bool lock_tree_conflicts(const struct lock_tree *tree, const struct lock_req *req);
/*
 * The lock in the way of @req that Linux tells: of the owner that had one first, the lowest. NULL:
 * there is none.
 */
const struct file_lock *lock_tree_first(const struct lock_tree *tree, const struct lock_req *req);
/* Has @who, with POSIX locks, one in the way of @req? */
bool lock_tree_holds(const struct lock_tree *tree, const void *who, const struct lock_req *req);
/* @l as a request that would set it. */
struct lock_req lock_as_req(const struct file_lock *l);

struct lock_owner *lock_owner_find(const struct lock_tree *tree, enum lock_kind kind,
				   const void *who);
/* @o, empty and with kind and who set, becomes the last owner of @tree. */
void lock_owner_add(struct lock_tree *tree, struct lock_owner *o);
/* Free @o if it has no locks. */
void lock_owner_free_empty(struct lock_tree *tree, struct lock_owner *o);
/* The first lock of @o that ends at @from or behind it; the one behind @l. NULL: there is none. */
struct file_lock *lock_owner_from(const struct lock_owner *o, int64_t from);
struct file_lock *lock_owner_next(const struct file_lock *l);

/* Range, type and pid of @l are set; it overlaps none of @o's. */
void lock_insert(struct lock_tree *tree, struct lock_owner *o, struct file_lock *l);
/* @l is the caller's again. */
void lock_erase(struct lock_tree *tree, struct file_lock *l);
/* Give @l another range, which overlaps no other lock of its owner. */
void lock_move(struct lock_tree *tree, struct file_lock *l, int64_t start, int64_t end);

/* --- lock_set.c: what requests do ----------------------------------------------------------- */

/*
 * Lock, change or unlock (LOCK_NONE) for req->owner: the caller has found nothing in the way.
 * -ENOLCK: there are too many locks, and nothing has changed. To unlock all to the end of the file
 * from any byte on that is the start of a lock, or before all, needs no memory.
 */
int lock_set(struct lock_tree *tree, const struct lock_req *req) __must_check;
/* All that @who has with @kind. True: there was something. */
bool lock_drop(struct lock_tree *tree, enum lock_kind kind, const void *who);

enum lock_convert {
	LOCK_CONVERT_NONE,  /* it had none */
	LOCK_CONVERT_SAME,  /* it has what it asks for */
	LOCK_CONVERT_GIVEN, /* it had another one, and has none now */
};
/*
 * flock changes its type of lock in two steps: what it had is given up first, whatever comes then.
 */
enum lock_convert lock_give_up(struct lock_tree *tree, const struct lock_req *req);

/* Locks that look-ups have visited, for tests. */
uint64_t lock_tree_visits(void);
