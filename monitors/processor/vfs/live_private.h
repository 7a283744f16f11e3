/* SPDX-License-Identifier: MIT */
/*
 * Files that change: what live.c and live_map.c share.
 */
#pragma once

#include <kernel/mutex.h>
#include <processor/client/file_node.h>
#include <processor/excache/object.h>

#include "live.h"

struct uio;

/* object.owner */
struct live_file {
	struct file_id file;   /* const */
	struct object *object; /* const; ends with it, and so holds no reference */
	struct mutex change;   /* RANK_FILE_DATA */
	/* change for all that follows, but errors, which is also read without it */
	uint32_t node;        /* that caches the file; 0: by placement */
	uint32_t node_errors; /* its count of losses */
	uint32_t told_by;     /* the node whose count that is */
	bool unsynced;        /* it has had bytes that the disk perhaps has not */
	uint64_t told_size;   /* bytes of the file, as that node told last */
	/* live_behind.c: bytes of write(2) that it has not had; behind is atomic, too */
	bool may_be_behind;     /* const: on such a file system */
	bool behind;            /* lines that are marked may have some */
	uint64_t end;           /* the size that they make, if that is larger; else 0 */
	uint64_t next_write;    /* where the last write(2) ended */
	unsigned int in_order;  /* writes that each began where the one before ended */
	uint64_t grant;         /* kept_hold() of when the lines were as the node had it; or 0 */
	uint32_t errors;        /* losses of this file that we know of */
	uint32_t maps_seen;     /* atomic: errors that msync() has told */
	struct fs_time ctime;   /* the latest that an open has found */
	struct fs_time written; /* of our last write */
};

/* The file of @obj, which is live and referenced. ERR_PTR(-ENOMEM). */
struct live_file *live_of(struct object *obj);
struct fs_time live_now(void);
/* The time of a change of contents: not before that of the file, by another node's clock. */
struct fs_time live_time_locked(struct live_file *lf) __must_hold(&lf->change);
/* May the caller take the blocks that are kept for root? */
bool live_is_privileged(void);

/* A loss of data, for the log and for each open file. */
void live_count_loss_locked(struct live_file *lf, const char *why) __must_hold(&lf->change);
/* A reply of lf->node. */
void live_told_locked(struct live_file *lf, const struct file_state *state)
	__must_hold(&lf->change);
/* A reply of lf->node to a request that has changed the file. */
void live_changed_locked(struct live_file *lf, const struct file_state *state)
	__must_hold(&lf->change);
/* A call ended with @err: is it to be made again? After the end of a node, at its successor. */
bool live_again_locked(struct live_file *lf, int err, int *tries) __must_hold(&lf->change);
/*
 * The node may have other bytes of these pages than their lines, which go now or at an open, unless
 * programs may have stored into them.
 */
void live_doubt(struct object *obj, uint64_t first, uint64_t end);
/* Close-to-open: lines of another version than the node's go. */
int live_refresh_locked(struct live_file *lf, struct file_state *state) __must_hold(&lf->change)
	__must_check;
int live_sync_locked(struct live_file *lf, bool datasync) __must_hold(&lf->change) __must_check;

/* --- live_behind.c --------------------------------------------------------------------- */

/*
 * The next bytes of @uio to *@at, or to the end with O_APPEND, without a message: how many of them;
 * the others are to be written through, if there are. *@at is behind the last one then.
 */
ssize_t live_behind_locked(struct live_file *lf, struct uio *uio, uint64_t *at, uint32_t flags)
	__must_hold(&lf->change) __must_check;
/* A write(2) of bytes [@first, @end) is done, in one way or the other. */
void live_wrote_locked(struct live_file *lf, uint64_t first, uint64_t end) __must_hold(&lf->change);
/* The present kept_hold() of its storage node. */
uint64_t live_grant(const struct live_file *lf);
/* The lines have been made as the caching node has it since live_grant() was @grant. */
void live_relies_locked(struct live_file *lf, uint64_t grant) __must_hold(&lf->change);
/* It is not wise to keep the next ones. */
void live_count_again_locked(struct live_file *lf) __must_hold(&lf->change);
/* A flush has met all marked lines: there are no such bytes any more. */
void live_behind_done_locked(struct live_file *lf) __must_hold(&lf->change);
/* Such bytes of @file, if there are any, are at the memory node; as live_flush(). */
int live_flush_behind(const struct file_id *file) __must_check;

/* --- live_map.c ------------------------------------------------------------------------ */

/*
 * The node gets what was stored into mappings of pages [first, end) before the call. A loss is
 * counted and no error. -EINTR, -ENOMEM, -EHOSTDOWN: the rest is dirty still.
 */
int live_flush_locked(struct live_file *lf, uint64_t first, uint64_t end) __must_hold(&lf->change)
	__must_check;
/* The same for all pages, by a thread that goes on to write behind the end. */
int live_flush_ahead_locked(struct live_file *lf) __must_hold(&lf->change) __must_check;
/* May write(2)s to files of storage node @node be kept for some time? */
bool live_may_be_behind(uint32_t node);
/*
 * live_flush_locked(); @sync: until the disk has it, and -EIO for a loss that msync() has not told
 * yet.
 */
int live_write_back(struct object *obj, uint64_t first, uint64_t end, bool sync) __must_check;
