/* SPDX-License-Identifier: MIT */
/*
 * For tests of files that change at the processor: a memory node and a cache of a few lines, made
 * up. Included once in a program.
 */
#pragma once

#include <stdlib.h>
#include <string.h>

#include <abi/fcntl.h>
#include <abi/resource.h>
#include <kernel/panic.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <lib/errno.h>
#include <lib/ktest.h>
#include <lib/prng.h>
#include <mm/slab.h>
#include <processor/client/file_node.h>
#include <processor/client/kept.h>
#include <processor/excache/excache.h>
#include <processor/excache/file_dirty.h>
#include <processor/process/process.h>
#include <processor/vfs/file.h>
#include <processor/vfs/inode.h>
#include <processor/vfs/live.h>
#include <processor/vfs/uio.h>

#include "../../monitors/processor/vfs/live_private.h"

#define PAGES      64u
#define SIZE       (PAGES * PAGE_SIZE)
#define ROOM_AHEAD (16 * PAGE_SIZE) /* that the node finds at most */

/* --- the memory node ------------------------------------------------------------------- */

static struct {
	uint8_t bytes[SIZE];
	uint64_t size, version;
	uint32_t errors, asked;
	unsigned int writes, syncs, changes, opens, seeks;
	uint64_t before;
	int fail;      /* the next call ends with it */
	int fail_next; /* and the one after that */
	uint64_t room; /* the first byte that the disk has no room for; 0: there is none */
	bool privileged;
	bool last;          /* the same: so the last write said */
	unsigned int rooms; /* requests for room ahead */
	struct fs_time now; /* of the last write */
	uint64_t wrote;     /* by another thread: kept_now() of then */
} node;

static uint32_t placed = 11; /* the node that placement names */

static bool is_full(uint64_t end)
{
	return node.room && end > node.room;
}

static int answer(uint32_t *who, struct file_state *out)
{
	const int err = node.fail;

	node.fail = node.fail_next;
	node.fail_next = 0;
	if (!*who)
		*who = placed;
	node.asked = *who;
	if (err == -EHOSTDOWN)
		*who = 0;
	*out = (struct file_state){ .size = node.size,
				    .version = node.version,
				    .before = node.before,
				    .errors = node.errors };
	return err;
}

/* May this processor keep what it knows of the storage node's files? */
static bool alone = true;
static uint64_t grant = 1;
static unsigned int holders, writers; /* under way */
static int (*recall_flush)(uint32_t node);

uint64_t kept_hold(uint32_t at)
{
	holders += alone;
	return alone ? grant : 0;
}

void kept_release(uint32_t at)
{
	BUG_ON(!holders);
	holders--;
}

void kept_write_begin(const struct file_id *file)
{
	writers++;
}

void kept_write_end(const struct file_id *file)
{
	BUG_ON(!writers);
	writers--;
}

void kept_set_flush(int (*flush)(uint32_t node))
{
	recall_flush = flush;
}

bool kept_is_unwritten(const struct file_id *file, uint64_t since)
{
	return node.wrote <= since;
}

int file_node_open(const struct file_id *file, uint32_t *who, struct file_state *out)
{
	node.opens++;
	return answer(who, out);
}

struct file_buf {
	uint8_t data[FILE_BUF_PAGES * PAGE_SIZE];
};
static struct file_buf the_buf;

struct file_buf *file_buf_get(void)
{
	return &the_buf;
}

void *file_buf_data(const struct file_buf *buf)
{
	return (void *)(uintptr_t)buf->data;
}

void file_buf_put(struct file_buf *buf)
{
}

int file_node_write(const struct file_id *file, uint32_t *who, const struct file_pieces *what,
		    struct file_buf *buf, struct file_state *out)
{
	const struct file_piece *last = &what->pieces[what->nr - 1];

	node.before = node.version;
	node.now = what->now;
	node.privileged = what->privileged;
	node.last = what->last;
	if (is_full(last->pgoff * PAGE_SIZE + last->first + last->bytes))
		node.fail = -ENOSPC;
	if (!node.fail) {
		for (uint32_t i = 0; i < what->nr; i++) {
			const uint64_t pos =
				what->pieces[i].pgoff * PAGE_SIZE + what->pieces[i].first;
			uint64_t len = what->pieces[i].bytes;

			if (what->inside)
				len = pos < node.size ? MIN(len, node.size - pos) : 0;
			memcpy(node.bytes + pos, buf->data + i * PAGE_SIZE + what->pieces[i].first,
			       len);
		}
		node.size = MAX(node.size, what->size);
		node.version++;
		node.writes++;
	}
	return answer(who, out);
}

int file_node_sync(const struct file_id *file, uint32_t *who, bool datasync, struct file_state *out)
{
	node.syncs++;
	return answer(who, out);
}

int file_node_change(const struct file_id *file, uint32_t *who, const struct file_change *what,
		     struct file_state *out)
{
	const enum file_op op = what->op;
	const uint64_t off = what->off, len = what->len;
	const uint64_t pos = node.size;
	int err;

	node.before = node.version;
	if ((op == FILE_APPEND && is_full(node.size + len)) ||
	    (op == FILE_ROOM && is_full(off + PAGE_SIZE)))
		node.fail = -ENOSPC;
	if (node.fail)
		return answer(who, out);
	if (op == FILE_TIME)
		return answer(who, out);
	if (op == FILE_ROOM) {
		node.rooms++;
		err = answer(who, out);
		out->pos = MIN(off + MIN(len, (uint64_t)ROOM_AHEAD), SIZE);
		if (node.room)
			out->pos = MIN(out->pos, node.room);
		return err;
	}
	if (op == FILE_SEEK_DATA || op == FILE_SEEK_HOLE) {
		node.seeks++;
		err = answer(who, out);
		out->pos = off;
		return err;
	}
	if (op == FILE_APPEND) {
		node.size += len;
	} else if (op == FILE_TRUNCATE) {
		if (off < node.size)
			memset(node.bytes + off, 0, node.size - off);
		node.size = off;
	} else {
		memset(node.bytes + off, 0, len);
	}
	node.version++;
	node.changes++;
	err = answer(who, out);
	out->pos = op == FILE_APPEND ? pos : 0;
	return err;
}

/* --- the cache ------------------------------------------------------------------------- */

static struct {
	struct line line;
	bool there, dirty, writing;
	uint64_t stamp;
	uint8_t data[PAGE_SIZE];
} cache[PAGES];
static struct object object;
static uint64_t last_stamp;
static const struct file_dirty_ops *ops;
static unsigned int fetches;
static int references;

struct object *object_live_get(const struct file_id *file, uint64_t fsid)
{
	references++;
	refcount_set(&object.refs, 1);
	return &object;
}

struct object *object_live_find(const struct file_id *file)
{
	references++;
	return &object;
}

void object_put(struct object *obj)
{
	references--;
}

int object_write_begin(struct object *obj)
{
	return 0;
}

void object_write_end(struct object *obj)
{
}

int excache_get(struct object *obj, uint64_t pgoff, enum excache_how how, struct line **out)
{
	if (!cache[pgoff].there && how == EXCACHE_FIND)
		return -ENOENT;
	if (!cache[pgoff].there && how == EXCACHE_BLANK) {
		BUG_ON(pgoff < DIV_ROUND_UP(node.size, PAGE_SIZE));
		memset(cache[pgoff].data, 0, PAGE_SIZE);
		cache[pgoff].there = true;
	}
	if (!cache[pgoff].there) {
		if (pgoff >= DIV_ROUND_UP(node.size, PAGE_SIZE))
			return -EIO;
		memcpy(cache[pgoff].data, node.bytes + pgoff * PAGE_SIZE, PAGE_SIZE);
		cache[pgoff].there = true;
		fetches++;
	}
	*out = &cache[pgoff].line;
	(*out)->pgoff = pgoff;
	return 0;
}

void excache_put(struct line *line)
{
}

void *line_data(const struct line *line)
{
	return cache[line->pgoff].data;
}

static void count_dirty(void)
{
	object.nr_dirty = 0;
	for (uint64_t i = 0; i < PAGES; i++)
		object.nr_dirty += cache[i].dirty || cache[i].writing;
}

void excache_drop(struct object *obj, uint64_t first, uint64_t end)
{
	for (uint64_t i = first; i < MIN(end, (uint64_t)PAGES); i++)
		cache[i].there = cache[i].dirty = cache[i].writing = false;
	count_dirty();
}

int excache_drop_clean(struct object *obj, uint64_t first, uint64_t end)
{
	for (uint64_t i = first; i < MIN(end, (uint64_t)PAGES); i++)
		cache[i].there = cache[i].dirty;
	return 0;
}

/* Dirty lines, as file_dirty.c has them; a store is store(). */
uint64_t file_dirty_stamp(struct object *obj)
{
	return last_stamp + 1;
}

bool file_dirty_any(const struct object *obj)
{
	for (uint64_t i = 0; i < PAGES; i++) {
		if (cache[i].dirty || cache[i].writing)
			return true;
	}
	return false;
}

size_t file_dirty_list(struct object *obj, uint64_t first, uint64_t end, uint64_t stamp,
		       bool in_order, uint64_t *pgoffs, size_t max)
{
	size_t nr = 0;

	for (uint64_t i = first; i < MIN(end, (uint64_t)PAGES) && nr < max; i++) {
		if (cache[i].dirty && cache[i].stamp < stamp)
			pgoffs[nr++] = i;
	}
	return nr;
}

int file_dirty_take(struct object *obj, uint64_t pgoff, void *to)
{
	if (!cache[pgoff].dirty)
		return -ENOENT;
	cache[pgoff].dirty = false;
	cache[pgoff].writing = true;
	memcpy(to, cache[pgoff].data, PAGE_SIZE);
	return 0;
}

void file_dirty_done(struct object *obj, uint64_t pgoff, bool again)
{
	if (!cache[pgoff].writing)
		return;
	cache[pgoff].writing = false;
	cache[pgoff].dirty |= again;
	count_dirty();
}

void file_dirty_seal(struct object *obj)
{
	obj->sealed = true;
}

void file_dirty_unseal(struct object *obj)
{
	obj->sealed = false;
}

static unsigned int room_forgotten;
static uint64_t room_first, room_end;

void file_dirty_forget_room(struct object *obj)
{
	(void)obj;
	room_forgotten++;
	room_end = 0;
}

bool file_dirty_has_room(struct object *obj, uint64_t pgoff, uint64_t *changes)
{
	*changes = room_forgotten;
	return pgoff >= room_first && pgoff < room_end;
}

void file_dirty_note_room(struct object *obj, uint64_t first, uint64_t end, uint64_t asked_ns,
			  uint64_t changes)
{
	if (changes != room_forgotten)
		return;
	room_first = first;
	room_end = end;
}

static size_t max_dirty = PAGES;

bool file_dirty_mark(struct line *line, uint64_t changes)
{
	const uint64_t pgoff = line->pgoff;

	if (object.sealed || changes != room_forgotten)
		return false;
	if (!cache[pgoff].dirty && object.nr_dirty >= max_dirty)
		return false;
	if (!cache[pgoff].dirty)
		cache[pgoff].stamp = ++last_stamp;
	cache[pgoff].dirty = true;
	count_dirty();
	return true;
}

bool file_dirty_is_used(void)
{
	return ops;
}

void file_dirty_set_ops(const struct file_dirty_ops *given)
{
	ops = given;
}

/* The tests write back themselves. */
void file_dirty_wait_due(uint32_t who, uint64_t deadline_ns)
{
	for (;;)
		thread_sleep_ns(NSEC_PER_SEC);
}

struct object *file_dirty_next_due(uint32_t who)
{
	return NULL;
}

uint64_t file_dirty_round(void)
{
	return 1;
}

struct object *file_dirty_next_of(uint64_t round, uint32_t who)
{
	return NULL;
}

/* A program stores into its shared mapping. */
static void store(struct ktest *t, uint64_t pos, const void *bytes, size_t len)
{
	const uint64_t pgoff = pos / PAGE_SIZE;
	struct line *line;

	ASSERT_FALSE(t, object.sealed);
	ASSERT_EQ(t, excache_get(&object, pgoff, EXCACHE_FETCH, &line), 0);
	memcpy(cache[pgoff].data + pos % PAGE_SIZE, bytes, len);
	if (!cache[pgoff].dirty)
		cache[pgoff].stamp = ++last_stamp;
	cache[pgoff].dirty = true;
	count_dirty();
	excache_put(line);
}

int excache_drop_killable(struct object *obj, uint64_t first, uint64_t end)
{
	excache_drop(obj, first, end);
	return 0;
}

void prefetch_read(struct object *file, struct read_ahead *ra, uint64_t pgoff, uint64_t nr_pages)
{
}

void process_cred(struct fs_cred *cred)
{
	*cred = (struct fs_cred){ .uid = 1000 };
}

uint64_t process_rlimit(unsigned int which)
{
	return UINT64_MAX;
}

int file_size_allowed(uint64_t size)
{
	return 0;
}

int inode_getattr(struct inode *inode, struct file_attr *attr)
{
	return 0;
}

/* --- */

static struct inode inode;

static void start(void)
{
	memset(&node, 0, sizeof(node));
	kfree(object.owner);
	memset(cache, 0, sizeof(cache));
	memset(&object, 0, sizeof(object));
	node.version = 1;
	alone = true;
	max_dirty = PAGES;
	room_first = room_end = 0;
	placed = 11;
	fetches = 0;
}

static int open_as(struct file *f, uint32_t flags, bool fresh)
{
	*f = (struct file){ .flags = flags, .inode = &inode, .fresh = fresh };
	f->attr.file = (struct file_id){ .ino = 12, .gen = 1, .node = 21 };
	mutex_init(&f->lock, "file", RANK_FILE);
	return live_open(f);
}

static int open_file(struct file *f, uint32_t flags)
{
	return open_as(f, flags, false);
}

static void close_file(struct file *f)
{
	f->ops->release(f);
	object_put(f->object); /* as file_put() does */
}

static ssize_t write_at(struct file *f, uint64_t pos, const void *bytes, size_t len)
{
	struct uio u;

	uio_kernel(&u, (void *)(uintptr_t)bytes, len);
	return f->ops->write(f, &u, &pos);
}

static ssize_t read_at(struct file *f, uint64_t pos, void *bytes, size_t len)
{
	struct uio u;

	uio_kernel(&u, bytes, len);
	return f->ops->read(f, &u, &pos);
}
