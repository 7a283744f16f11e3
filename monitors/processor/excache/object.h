/* SPDX-License-Identifier: MIT */
/*
 * Objects: what a cached page belongs to.  A line's tag is (object, page).
 *
 * Flow:	an anonymous object is private memory, page = virtual page number; the spaces of
 *		processes are chains of them (docs/design/fork.md).  A shared object is memory that
 *		several spaces map or that is a file of tmpfs, page = file page number.  Both are
 *		spaces to the memory nodes, which keep what was written back.  A file object is one
 *		version of one file of a storage node, shared by all its readers and mappings.
 * Invariants:	objects are counted.  The last reference of an anonymous or shared object drops
 *		its lines and tells the home (soon: see destroy.c), so it
 *		sleeps; lines hold none of those.  Each line of a file object holds one: file
 *		objects stay in the table while they are referenced or have lines, so that a
 *		program that runs again finds its text.
 * Locking:	object table: RANK_SPIN_MONITOR; object.lock (RANK_EXCACHE_OBJECT) guards the list
 *		of lines and what is known about the memory nodes, and is taken inside a set's
 *		lock.
 */
#pragma once

#include <kernel/spinlock.h>
#include <kernel/work.h>
#include <lib/atomic.h>
#include <lib/errno.h>
#include <lib/list.h>
#include <processor/client/file_attr.h>

#include "backlog.h"
#include "page_bits.h"
#include "places.h"

struct aspace;
struct line;

/* Exclusive end of what programs map: what is above, up to USER_TOP, is the processor's own. */
#define SPACE_TOP 0x7ffeffff0000ull

enum object_kind {
	OBJECT_ANON,
	OBJECT_SHARED,
	OBJECT_FILE,
};

/*
 * A frozen object can collapse into its only shadow: the top of a space, or a frozen one. At most
 * one is not NULL.
 */
struct anon_collapse {
	struct aspace *as;     /* counted */
	struct object *shadow; /* counted */
};

struct vregion {
	uint32_t owner;
	uint64_t version;
};

struct object {
	enum object_kind kind; /* const */
	refcount_t refs;
	uint64_t seed;        /* const: where in the cache page 0 goes */
	struct spinlock lock; /* RANK_EXCACHE_OBJECT */
	struct list_head lines __guarded_by(&lock);
	size_t nr_lines __guarded_by(&lock);

	/* OBJECT_ANON, OBJECT_SHARED: the space at the memory nodes */
	uint64_t id;           /* changes with a collapse: no write-back is under way then */
	uint32_t home;         /* memory node; const once it knows the object */
	uint64_t vregion_size; /* const after exec; 0: the home does not know the space yet */
	struct radix_tree vregions __guarded_by(&lock); /* index -> struct vregion */
	struct vregion *near __guarded_by(&lock); /* the one looked up last, or NULL: of vregions */
	uint64_t near_index __guarded_by(&lock);
	struct page_bits stored __guarded_by(&lock); /* the owner has the page */
	/* Where; valid for pages that are stored, and set with each mark. */
	struct place_map places __guarded_by(&lock);
	size_t nr_ahead __guarded_by(&lock); /* lines that are being filled ahead */
	/* Pages fetched ahead, lately: atomic, hints. */
	uint32_t ahead_used, ahead_wasted, ahead_probes;
	/* Lines written back ahead, lately, and those that were written to again: reclaim.c. */
	uint32_t cleaned, cleaned_again, clean_probes;
	int failed;                               /* atomic: negative errno once a page was lost */
	struct work put_work;                     /* object_put_later() */
	uint64_t short_since;                     /* atomic: its owners have no frame for a page */
	uint64_t unknown_since;                   /* atomic: an owner does not know it; 0: none */
	size_t nr_writebacks __guarded_by(&lock); /* lines that are being written back */
	bool held __guarded_by(&lock); /* no line is to be written back: it collapses, or ends */
	/* Nor a line of these pages: excache_keep(). */
	uint64_t kept_first __guarded_by(&lock), kept_end __guarded_by(&lock);

	/* OBJECT_ANON: its place in a chain */
	struct object *backing; /* counted; chain locks, see <processor/mm/anon.h> */
	struct page_bits
		hidden; /* of those behind; of a top: aspace.lock, of a frozen one: const */
	unsigned int nr_walkers;          /* chain lock: threads that look for a page in it */
	bool collapsing;                  /* chain lock: it and another one become one */
	struct list_head shadows;         /* chain lock: objects that have this one as backing */
	struct list_head shadow_link;     /* chain lock */
	struct aspace *as;                /* chain lock: the space whose top this is, or NULL */
	struct work collapse_work;        /* anon_collapse_soon() */
	struct deferred_destroy *destroy; /* to tell the home of its end without memory */
	bool perhaps_at_home;             /* atomic: home_no_answer() */
	struct work *then __guarded_by(&lock); /* when it is held and has no write-back; or NULL */
	struct work end_work;
	struct backlog_item end_item;

	/* OBJECT_SHARED */
	bool reserved;                        /* const */
	bool introducing __guarded_by(&lock); /* the home is being asked to make it */
	int writers; /* atomic: open for writing, or, negative, programs that run from it */
	struct {
		uint32_t under_way; /* mmap() is making them */
		bool any;           /* there was one, or there is */
		bool denied;
		bool sealed;
	} write_maps __guarded_by(&lock);                    /* write_maps.h */
	uint64_t seq __guarded_by(&lock);                    /* grows when pages go away */
	uint64_t going_first, going_end __guarded_by(&lock); /* pages that are going away */
	uint64_t nr_pages __guarded_by(&lock);               /* that are no holes */
	struct work drop_work;                               /* shrink.c: does it for a thread */
	int drop_err __guarded_by(&lock);                    /* of the range that went last */
	bool drop_left __guarded_by(&lock); /* its thread was killed: drop_work has a reference */

	/* OBJECT_FILE */
	struct file_id file; /* const */
	bool live;           /* const: it changes; else it is one version of the file */
	/* live: lines that were mapped for writing (line.wb_link), file_dirty.c */
	struct list_head dirty __guarded_by(&lock);
	size_t nr_dirty __guarded_by(&lock);      /* these, and those whose copy is on its way */
	uint64_t dirty_stamp __guarded_by(&lock); /* of the last line that was marked */
	bool sealed __guarded_by(&lock);          /* no line is marked for now */
	/* live: pages that are known to have a place on the disk; for how long that holds */
	uint64_t room_first, room_end, room_until_ns __guarded_by(&lock);
	uint64_t room_nr __guarded_by(&lock);      /* pages that were asked for last */
	uint64_t room_changes __guarded_by(&lock); /* times at which places may have gone */
	uint64_t room_known __guarded_by(&lock);   /* room_changes_locked() of the answer */
	struct list_head dirty_link;               /* file_dirty.c's lock */
	uint64_t dirty_since, dirty_round;         /* file_dirty.c's lock */
	void *owner;      /* live, atomic: set once, vfs/live.c's; freed with the object */
	uint64_t version; /* const; live: the changes' mutex, vfs/live.c */
	uint32_t node;    /* live, atomic: memory node that caches it; 0: by placement */
	/* bytes; file: const, of this version; live: atomic, as known here; shared: lock */
	uint64_t size;
	uint32_t dev; /* const: st_dev */
	char *path;   /* atomic: where it was found first, for /proc/<pid>/maps; NULL: not known */
	struct radix_tree windows __guarded_by(&lock); /* lines, for fault-around: around.c */
	struct list_head table_link; /* table lock, of files or of shared objects */
};

/*
 * Drop the cached pages of @file, which has lost its last name. False: somebody still maps it, or
 * has it open. Sleeps.
 */
bool object_file_drop(const struct file_id *file) __must_check;
/*
 * Does nothing but clean lines of the cache hold the pages of @file?  Then that stays so until a
 * program opens it.
 */
bool object_file_is_idle(const struct file_id *file) __must_check;
/* Is anything of @file here? */
bool object_file_is_known(const struct file_id *file) __must_check;
/*
 * The object of @attr's file at @attr's version, found or made; takes a reference.  Lines of
 * older versions are dropped.  ERR_PTR(-ENOMEM).
 */
struct object *object_file_get(const struct file_attr *attr);
/*
 * The object of a file that may change, found or made; takes a reference. There is one, whatever
 * the version; one that is made has version 0. ERR_PTR(-ENOMEM).
 */
struct object *object_live_get(const struct file_id *file, uint64_t fsid);
/* The same if there is one; else NULL. */
struct object *object_live_find(const struct file_id *file);
/*
 * It was found at @path (canonical); the first one stays. Only for people to read: without memory,
 * none.
 */
void object_set_path(struct object *obj, const char *path);

static inline void object_get(struct object *obj)
{
	refcount_inc(&obj->refs);
}

/* May sleep if it is the last one of an anonymous or shared object. */
void object_put(struct object *obj);
/* Before the first object. -ENOMEM. */
int object_init_queue(void) __must_check;

/* --- shared objects: anonymous shared memory, files of tmpfs, memfd --------------------- */

/*
 * A shared object of @size bytes, all holes, with one reference. @reserve: the memory nodes
 * reserve all of it and the size is fixed (MAP_SHARED | MAP_ANONYMOUS); else a page takes a frame
 * when it is written. Sleeps. ERR_PTR: -ENOMEM, -EHOSTDOWN, -ETIMEDOUT.
 */
struct object *object_shared_create(uint64_t size, bool reserve);
/* Bytes.  Faults of mappings behind the last page get -EIO (SIGBUS). */
uint64_t object_shared_size(struct object *obj);
/*
 * Truncate or extend. Everything behind a smaller size is gone, in mappings too, and reads as zero
 * when the object grows again, the rest of the last page included. The caller lets one change of
 * the size or object_shared_punch() run at a time. Sleeps. -EINVAL reserved; -EFBIG; -ENOMEM,
 * -EHOSTDOWN, -ETIMEDOUT, -EINTR, -EIO: the size is as before.
 */
int object_shared_set_size(struct object *obj, uint64_t size) __must_check;
/*
 * Pages [first, end) become holes, in mappings too. An error of a memory node: it may keep them
 * until the end.
 */
int object_shared_punch(struct object *obj, uint64_t first, uint64_t end) __must_check;
/*
 * No page of [first, end) is made until object_going_end(); for shrink.c. Waits for a range that is
 * going away already: -EINTR, the thread is to be killed.
 */
int object_going_begin(struct object *obj, uint64_t first, uint64_t end) __must_check;
/* @err for the thread that waits. True: none does, and the caller has a reference to put. */
bool object_going_end(struct object *obj, int err);
/*
 * Until no range is going away; the error that object_going_end() was given. -EINTR as above: that
 * one has a reference then.
 */
int object_going_wait(struct object *obj) __must_check;
/* Start of shrink.c, and its part of a new object. */
int shrink_init(void) __must_check;
void shrink_init_object(struct object *obj);
/*
 * The line of page @pgoff, pinned: read or write line_data(), line_mark_dirty() after a write,
 * excache_put(). The size does not matter: a writer behind it extends it afterwards. Without
 * @write a hole is -ENOENT: it reads as zeroes and stays a hole. With @write it becomes a page of
 * zeroes: -ENOMEM no memory node reserves a frame (tmpfs: ENOSPC). -EFBIG; others as
 * excache_get(); -EIO a page of the object was lost.
 */
int object_shared_get(struct object *obj, uint64_t pgoff, bool write, struct line **out)
	__must_check;
/* The same for a fault: a hole becomes a page; -EIO also behind the last page. */
int object_shared_fault(struct object *obj, uint64_t pgoff, struct line **out) __must_check;
/* The home has answered, or nothing was asked: see home_introduce(). */
void object_introduced(struct object *obj);
/*
 * For pages that are fetched before they are asked for: *@seq is what there is now, and it has
 * *@nr_pages pages. False: a part of it is going away.
 */
bool object_shared_now(struct object *obj, uint64_t *seq, uint64_t *nr_pages);
/* By its name; referenced; NULL: there is none. */
struct object *object_shared_find(uint64_t id);
/* Pages that are no holes. */
uint64_t object_shared_pages(struct object *obj);
/*
 * An object is open for writing or run as a program, never both: -ETXTBSY. Each is undone by its
 * _end().
 */
int object_write_begin(struct object *obj) __must_check;
void object_write_end(struct object *obj);
int object_run_begin(struct object *obj) __must_check;
void object_run_end(struct object *obj);

/* --- anonymous and shared objects: where their pages are ------------------------------- */

/* An object with one reference and no page; @vregion_size 0: not known yet.  ERR_PTR(-ENOMEM). */
struct object *object_anon_create(uint64_t id, uint32_t home, uint64_t vregion_size, uint64_t seed);
/*
 * Wait until the ends of objects that had to wait for write-backs are done, and objects that
 * ended with them; see backlog_wait().
 */
int object_ends_wait(void);
/* How many are not done yet. */
uint64_t object_ends_left(void);
int object_ends_init(void) __must_check;
/* A write-back of @obj is over: what is to be done about it when obj->lock is dropped. */
struct quiet_end {
	bool is; /* it was the last one, and that is waited for */
	struct work *then;
};
struct quiet_end object_writeback_ended_locked(struct object *obj) __must_hold(&obj->lock);
/* The same of a line that was filled ahead. */
struct quiet_end object_ahead_ended_locked(struct object *obj) __must_hold(&obj->lock);
void object_quiet(const struct quiet_end *q);
/* Anonymous and shared objects alive, for leak tests. */
size_t object_space_count(void);

/*
 * A collapse has left nothing of @obj here; @at_home: nor at its home, which else hears of it
 * later.
 * Puts it.
 */
void object_free_collapsed(struct object *obj, bool at_home);
/*
 * Wait until the homes have freed the spaces that ended before, those that are silent left out
 * (backlog.h). True: some have. For callers that need the memory, or say that it is free. Sleeps;
 * aspace.map_lock may be held. @killable: not in a thread that is to be killed.
 */
bool destroy_drain(bool killable);
/* Spaces that have ended and whose homes do not know. */
uint64_t destroy_waiting(void);
/*
 * A memory node answered @err.  True: it was -ENOMEM, but memory may have been held by spaces whose
 * destroy was deferred and is done now: the caller asks once more.
 */
static inline bool destroy_may_help(int err)
{
	return err == -ENOMEM && destroy_drain(true);
}

/* A number that makes the name of a space unique: no other space has had it. */
uint64_t object_new_number(void);
/*
 * The @nr-th of @node in its life @incarn: other than the 2^32 before, and than other nodes'.  48
 * bits.
 */
uint64_t object_number(uint32_t node, uint32_t incarn, uint64_t nr);
#define OBJECT_HOME_SHIFT 48
/* The name of a new space whose home is @home: owners take it from that node only. */
static inline uint64_t object_id(uint32_t home, uint64_t number)
{
	return (uint64_t)home << OBJECT_HOME_SHIFT | number;
}
/* The number that object_new_number() gave for it. */
static inline uint64_t object_id_number(uint64_t id)
{
	return id & ((1ull << OBJECT_HOME_SHIFT) - 1);
}

/*
 * Node that owns page @pgoff: from the copy of the vRegion array, or asked from the home. -EFAULT:
 * the home says that there is none.
 */
int object_owner(struct object *obj, uint64_t pgoff, uint32_t *owner) __must_check;
/* The same from the copy only; never sleeps. -ENOENT. */
int object_owner_cached(struct object *obj, uint64_t pgoff, uint32_t *owner) __must_check;
/* An older version than the copy's is ignored. -ENOMEM. */
int object_set_vregion(struct object *obj, uint64_t index, const struct vregion *v) __must_check;
/*
 * A node answered a request about page @pgoff with -EREMCHG ("redirect"), the first time after
 * @tries others. @body, which is hostile, says who owns the page; NULL: the answer had none, and
 * the home is asked next time. 0: look for the owner again; -ELOOP: too many of them; or what is
 * wrong with @body.
 */
int object_redirected(struct object *obj, uint64_t pgoff, const void *body, size_t len,
		      unsigned int tries);

/* Has the owner got this page (then it must be fetched)? */
bool object_stored(struct object *obj, uint64_t pgoff);
bool object_stores_any(struct object *obj, uint64_t first, uint64_t end);
/* The record of @obj's places is charged to @account from now on, once. */
void object_charge_to(struct object *obj, struct kmem_account *account);
/* @place: where it is to be read, or PLACE_NONE. Never sleeps. -ENOMEM. */
int object_set_stored(struct object *obj, uint64_t pgoff, uint64_t place) __must_check;
/* Where page @pgoff is to be read, if it is stored and that is known; else PLACE_NONE. */
uint64_t object_place(struct object *obj, uint64_t pgoff);
/* May there be any?  A hint. */
static inline bool object_has_places(const struct object *obj)
{
	return READ_ONCE(obj->places.chunks.count) > 0;
}
/* The owner has told it; ignored unless the page is stored. */
void object_set_place(struct object *obj, uint64_t pgoff, uint64_t place);
/*
 * Also those of @from, for which there is room: page_bits_reserve_all(). They are where they were;
 * no other thread uses @from.
 */
void object_merge_stored(struct object *obj, const struct object *from);
/* How many of them there were. */
uint64_t object_clear_stored(struct object *obj, uint64_t first, uint64_t end);
/* mremap: @nr pages are now at @to on the owners. -ENOMEM. */
int object_move_stored(struct object *obj, uint64_t from, uint64_t nr, uint64_t to) __must_check;
/* Pages that owners have of all objects of @kind, which is not OBJECT_FILE. */
uint64_t object_stored_count(enum object_kind kind);

/*
 * A page of @obj is lost or cannot be stored: every program that can see it is ended, with a line
 * that names the memory node. Polling context; idempotent.
 */
void object_fail(struct object *obj, int error, uint64_t pgoff);
/*
 * Does @error of @owner, which does not know @obj, perhaps only say that it has heard before this
 * node that the home has left?  Then object_node_gone() comes soon, and names the home.
 */
bool object_home_may_have_left(struct object *obj, int error, uint32_t owner);
/* Wait until it does, or until that is not to be expected any more. -EINTR: killed. */
int object_wait_for_home(struct object *obj) __must_check;
/* Is memory node @node its home, or has it pages there? An object that has failed has none. */
bool object_has_part_at(struct object *obj, uint32_t node);
/*
 * The same for an object that has a part at memory node @node, which is gone. Consumes a reference,
 * later and in another thread. Never waits.
 */
void object_node_gone(struct object *obj, uint32_t node);
/* And for each shared object that has. Sleeps. */
void object_shared_node_gone(uint32_t node);
