/* SPDX-License-Identifier: MIT */
/*
 * Requests to the memory node that caches a file that may change.
 *
 * Flow:	*@node of each call is the node that is asked, 0: the one that the cluster's
 *		placement names. A node that does not have the file names the one that has: that
 *		one is asked, and is *@node from then on.
 * Context:	all sleep. -EINTR: the thread is to be killed; the request may be done all the same.
 * Failure:	-EHOSTDOWN: the node is gone, and with it what the disk has not got; *@node is 0
 *		then. -ESTALE no such file; -EROFS, -EIO, -ENOSPC, -ENOMEM; -EPROTO malformed.
 */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>

#include "file_attr.h"

struct file_state {
	uint64_t size;
	uint64_t version; /* changes with the contents */
	uint64_t before;  /* what it was before the request */
	struct fs_time mtime;
	uint32_t errors; /* grows when data is lost */
	uint64_t pos;    /* FILE_APPEND: where the bytes go; FILE_SEEK_*, _ROOM: see there */
};

int file_node_open(const struct file_id *file, uint32_t *node, struct file_state *out) __must_check;

#define FILE_BUF_PAGES 32

/* Memory that a memory node can be sent from. */
struct file_buf;
/* See that there are some, of FILE_BUF_PAGES each, before the first is asked for. -ENOMEM. */
int file_bufs_init(void) __must_check;
/* Waits for one; NULL: the thread is to be killed. */
struct file_buf *file_buf_get(void);
void *file_buf_data(const struct file_buf *buf);
/* It is free once no request is sent from it any more. */
void file_buf_put(struct file_buf *buf);

struct file_piece { /* bytes of one page, which lies whole in the buffer */
	uint64_t pgoff;
	uint16_t first;
	uint16_t bytes;
};

struct file_pieces {
	uint64_t size;      /* the file is at least so long afterwards; inside: 0 */
	struct fs_time now; /* its mtime */
	bool inside;        /* what lies behind the end is not written */
	bool privileged;    /* may take the blocks that are kept for root */
	bool last;          /* room that was asked for ahead is needed no more */
	uint32_t nr;
	struct file_piece pieces[FILE_BUF_PAGES]; /* ascending; page i of the buffer */
};

int file_node_write(const struct file_id *file, uint32_t *node, const struct file_pieces *what,
		    struct file_buf *buf, struct file_state *out) __must_check;
/* Until the disk has all writes so far; @datasync: what reading them back needs. */
int file_node_sync(const struct file_id *file, uint32_t *node, bool datasync,
		   struct file_state *out) __must_check;
/*
 * All memory nodes send storage what is dirty of files of @file's storage node. The first error;
 * -EIO: one is gone, with what it had.
 */
int file_nodes_flush(const struct file_id *file) __must_check;

enum file_op {
	FILE_TRUNCATE = 1,
	FILE_APPEND,
	FILE_PUNCH,
	FILE_ZERO,
	FILE_ZERO_KEEP,
	FILE_ALLOCATE,
	FILE_ALLOCATE_KEEP,
	FILE_COLLAPSE,
	FILE_SEEK_DATA, /* file_state.pos is what was found; -ENXIO */
	FILE_SEEK_HOLE,
	FILE_TIME, /* @now is the mtime that storage has */
	FILE_ROOM, /* stores into these pages are to come; file_state.pos is the end of those */
		   /* that have their place on the disk, or @off if that lies behind the end */
};

struct file_change {
	enum file_op op;
	uint64_t off;
	uint64_t len;
	struct fs_time now;
	bool privileged; /* may take the blocks that are kept for root */
	bool ahead;      /* FILE_ROOM: also behind the end; for the first page and what is found */
};

int file_node_change(const struct file_id *file, uint32_t *node, const struct file_change *what,
		     struct file_state *out) __must_check;
