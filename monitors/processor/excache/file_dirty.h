/* SPDX-License-Identifier: MIT */
/*
 * ExCache: dirty lines of files that change.
 *
 * Flow:	a fault that maps a file's line for writing marks it first. A marked line stays in
 *		the cache until the layer above (vfs/live_map.c) has copied it, with the right to
 *		write taken from all page tables, sent the copy to the memory node that caches the
 *		file, and said so. A store after the copy faults, and marks the line again.
 * Invariants:	a line of a file that is mapped for writing is marked or pinned. A marked line is
 *		never evicted, so reclaim never waits for a file. At most excache.file_dirty bytes
 *		are marked, and half of the lines of a set: a miss finds another line to evict.
 * Locking:	a set's lock and the object's for each change of a mark.
 * Limits:	with excache.ways=1 a marked line is all that its set has: misses there live on the
 *		spare frames until it is clean.
 */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>

struct line;
struct object;

/* Functions of the layer above. */
struct file_dirty_ops {
	/* Bytes of the file, as the memory node knows them. Negative errno. */
	int (*size)(struct object *obj, uint64_t *size);
	/*
	 * Pages [@pgoff, @pgoff + @nr) are stored to soon: they have a place on the disk up to
	 * *@end, @pgoff or more; it stays theirs for a minute. -ENOSPC: there is none for all.
	 */
	int (*room)(struct object *obj, uint64_t pgoff, uint64_t nr, uint64_t *end);
	/* Write back what is dirty of pages [first, end); @sync: to the disk. Killable. */
	int (*flush)(struct object *obj, uint64_t first, uint64_t end, bool sync);
};

/* Once, before the first live object. */
void file_dirty_set_ops(const struct file_dirty_ops *ops);
/* Was that done: may there be such files? */
bool file_dirty_is_used(void);
/* Part of excache_init(): the limit. */
int file_dirty_init(void) __must_check;

/* --- faults ---------------------------------------------------------------------------- */

/*
 * May page @pgoff of a mapping be stored to? Then it has a place on the disk, until the places
 * change: *@changes says which these were. -EIO: it lies behind the end, or its node cannot tell;
 * -ENOSPC, -EROFS, -ESTALE, -EINTR; others as size().
 */
int file_dirty_check(struct object *obj, uint64_t pgoff, uint64_t *changes) __must_check;
/*
 * For a thread that writes to @obj: does page @pgoff have its place, as far as is known without a
 * message? *@changes as above, also when it has not.
 */
bool file_dirty_has_room(struct object *obj, uint64_t pgoff, uint64_t *changes);
/* It has asked, when the places were as @changes says: pages [@first, @end) have theirs. */
void file_dirty_note_room(struct object *obj, uint64_t first, uint64_t end, uint64_t asked_ns,
			  uint64_t changes);
/* Pages of @obj may have lost their places, by a change that is done. */
void file_dirty_forget_room(struct object *obj);
/* A memory node has gone, and with it the places that pages of any file had. Takes no lock. */
void file_dirty_node_gone(void);
/*
 * @line, which is pinned, will be mapped for writing before it is unpinned; @changes are of
 * file_dirty_check(). False: not now, or its place may be lost since; unpin it, and begin again
 * after file_dirty_wait().
 */
bool file_dirty_mark(struct line *line, uint64_t changes) __must_check;
/* Until one more may perhaps be marked. -EINTR: the thread is to be killed. */
int file_dirty_wait(struct object *obj, uint64_t pgoff) __must_check;

/* --- write-back ------------------------------------------------------------------------ */

/* Lines that are marked from now on have this stamp or a later one. */
uint64_t file_dirty_stamp(struct object *obj);
/*
 * Up to @max marked pages of [first, end) from before @stamp, ascending, into @pgoffs: those that
 * were marked first; or, @in_order, the first ones of the file, for which all are looked at.
 */
size_t file_dirty_list(struct object *obj, uint64_t first, uint64_t end, uint64_t stamp,
		       bool in_order, uint64_t *pgoffs, size_t max);
/*
 * Copy the marked page @pgoff to @to, and take the right to write to it from all page tables.
 * file_dirty_done() is due. -ENOENT: it is not marked any more; -EINTR.
 */
int file_dirty_take(struct object *obj, uint64_t pgoff, void *to) __must_check;
/* The node has the copy; @again: it has not, so the line is marked as before. */
void file_dirty_done(struct object *obj, uint64_t pgoff, bool again);
/* No line of @obj is marked until file_dirty_unseal(). The caller lets one do so at a time. */
void file_dirty_seal(struct object *obj);
void file_dirty_unseal(struct object *obj);
/* Is a line of @obj marked? A hint without its lock. */
bool file_dirty_any(const struct object *obj);

/* For the thread that writes behind for storage node @node: a reason to run before @deadline_ns. */
void file_dirty_wait_due(uint32_t node, uint64_t deadline_ns);
/* The object of its files that waits longest, if it is due; a reference. NULL: none. */
struct object *file_dirty_next_due(uint32_t node);
/*
 * For a thread that wants each object of @node's files which has such a line now, one thread of a
 * node at a time: a number, and until NULL an object that was not given for it or for a later one;
 * a reference.
 */
uint64_t file_dirty_round(void);
struct object *file_dirty_next_of(uint64_t round, uint32_t node);
/* @obj is due now, if a line of it is marked. */
void file_dirty_soon(struct object *obj);

/* For mm: flush() of @obj. */
int file_dirty_flush(struct object *obj, uint64_t first, uint64_t end, bool sync) __must_check;
