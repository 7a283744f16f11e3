/* SPDX-License-Identifier: MIT */
/*
 * Files that change at the processor: write, read, truncation, losses, beside a memory node and a
 * cache of a few lines that are made up here.
 */
#include <stdlib.h>
#include <string.h>

#include <abi/fcntl.h>
#include <abi/resource.h>
#include <kernel/panic.h>
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

#define PAGES 64u
#define SIZE  (PAGES * PAGE_SIZE)

/* --- the memory node ------------------------------------------------------------------- */

static struct {
	uint8_t bytes[SIZE];
	uint64_t size, version;
	uint32_t errors, asked;
	unsigned int writes, syncs, changes, opens, seeks;
	uint64_t before;
	int fail;      /* the next call ends with it */
	uint64_t room; /* the first byte that the disk has no room for; 0: there is none */
	bool privileged;
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

	node.fail = 0;
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
	if (op == FILE_APPEND && is_full(node.size + len))
		node.fail = -ENOSPC;
	if (node.fail)
		return answer(who, out);
	if (op == FILE_TIME)
		return answer(who, out);
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

void excache_drop(struct object *obj, uint64_t first, uint64_t end)
{
	for (uint64_t i = first; i < MIN(end, (uint64_t)PAGES); i++)
		cache[i].there = cache[i].dirty = cache[i].writing = false;
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
		       uint64_t *pgoffs, size_t max)
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

void file_dirty_forget_room(struct object *obj)
{
	(void)obj;
	room_forgotten++;
}

bool file_dirty_is_used(void)
{
	return ops;
}

void file_dirty_set_ops(const struct file_dirty_ops *given)
{
	ops = given;
}

void file_dirty_wait_due(uint64_t deadline_ns)
{
}

struct object *file_dirty_next_due(void)
{
	return NULL;
}

uint64_t file_dirty_round(void)
{
	return 1;
}

struct object *file_dirty_next_of(uint64_t round)
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

static void a_write_is_one_message(struct ktest *t)
{
	char got[32] = "";
	struct file f;

	start();
	ASSERT_EQ(t, open_file(&f, O_RDWR), 0);
	EXPECT_EQ(t, write_at(&f, 4090, "over the edge", 13), 13);
	EXPECT_EQ(t, node.writes, 1);
	EXPECT_EQ(t, fetches, 0);
	EXPECT_EQ(t, read_at(&f, 4090, got, 32), 13);
	EXPECT_EQ(t, memcmp(got, "over the edge", 13), 0);
	EXPECT_EQ(t, fetches, 2);
	/* A line that is there is changed in place. */
	EXPECT_EQ(t, write_at(&f, 4095, "XY", 2), 2);
	EXPECT_EQ(t, read_at(&f, 4090, got, 32), 13);
	EXPECT_EQ(t, memcmp(got, "over XYe edge", 13), 0);
	EXPECT_EQ(t, fetches, 2);
	EXPECT_EQ(t, f.ops->fsync(&f, false), 0);
	EXPECT_EQ(t, node.syncs, 1);
	close_file(&f);
	EXPECT_EQ(t, references, 0);
}

static void appends_go_where_the_node_says(struct ktest *t)
{
	struct file f;

	start();
	ASSERT_EQ(t, open_file(&f, O_WRONLY | O_APPEND), 0);
	EXPECT_EQ(t, write_at(&f, 0, "one", 3), 3);
	node.size += 3; /* another processor's */
	memcpy(node.bytes + 3, "two", 3);
	EXPECT_EQ(t, write_at(&f, 0, "three", 5), 5);
	EXPECT_EQ(t, node.size, 11);
	EXPECT_EQ(t, memcmp(node.bytes, "onetwothree", 11), 0);
	close_file(&f);
}

/* As much as fits, by pages; what is stored into a mapping, too. */
static void a_full_disk_shortens_a_write(struct ktest *t)
{
	static char bytes[10 * PAGE_SIZE];
	struct file f;

	start();
	memset(bytes, 'b', sizeof(bytes));
	node.room = 6 * PAGE_SIZE;
	ASSERT_EQ(t, open_file(&f, O_RDWR), 0);
	EXPECT_EQ(t, write_at(&f, 100, bytes, sizeof(bytes)), 5 * PAGE_SIZE - 100);
	EXPECT_EQ(t, node.size, 5 * PAGE_SIZE);
	EXPECT_FALSE(t, node.privileged);
	EXPECT_EQ(t, write_at(&f, 5 * PAGE_SIZE, bytes, sizeof(bytes)), PAGE_SIZE);
	EXPECT_EQ(t, write_at(&f, 6 * PAGE_SIZE, bytes, 1), -ENOSPC);
	EXPECT_EQ(t, node.size, 6 * PAGE_SIZE);
	EXPECT_EQ(t, memcmp(node.bytes + 100, bytes, 6 * PAGE_SIZE - 100), 0);
	close_file(&f);
	/* An append: the file grows by what is written. */
	ASSERT_EQ(t, open_file(&f, O_WRONLY | O_APPEND), 0);
	node.room = 9 * PAGE_SIZE;
	EXPECT_EQ(t, write_at(&f, 0, bytes, 10), 10);
	EXPECT_EQ(t, write_at(&f, 0, bytes, sizeof(bytes)), PAGE_SIZE * 3 - 10);
	EXPECT_EQ(t, write_at(&f, 0, bytes, sizeof(bytes)), -ENOSPC);
	EXPECT_EQ(t, node.size, 9 * PAGE_SIZE);
	close_file(&f);
	/* Of two pages that programs have stored into one fits. */
	ASSERT_EQ(t, open_file(&f, O_RDWR), 0);
	node.room = 2 * PAGE_SIZE;
	store(t, 10, "fits", 4);
	store(t, 5 * PAGE_SIZE, "lost", 4);
	EXPECT_EQ(t, f.ops->fsync(&f, false), -EIO);
	EXPECT_EQ(t, memcmp(node.bytes + 10, "fits", 4), 0);
	EXPECT_NE(t, memcmp(node.bytes + 5 * PAGE_SIZE, "lost", 4), 0);
	close_file(&f);
}

/* Its maker is told nothing that it does not know: the first write is the first message. */
static void a_new_file_is_opened_without_a_message(struct ktest *t)
{
	char got[8] = "";
	struct file f, g;

	start();
	node.errors = 3; /* of before */
	ASSERT_EQ(t, open_as(&f, O_RDWR, true), 0);
	EXPECT_EQ(t, read_at(&f, 0, got, 8), 0);
	EXPECT_EQ(t, node.opens, 0);
	EXPECT_EQ(t, write_at(&f, 0, "new", 3), 3);
	EXPECT_EQ(t, node.writes, 1);
	EXPECT_EQ(t, read_at(&f, 0, got, 8), 3);
	EXPECT_EQ(t, memcmp(got, "new", 3), 0);
	EXPECT_EQ(t, f.ops->fsync(&f, false), 0);
	EXPECT_EQ(t, node.opens, 0);
	/* It is open here already, by what the node has said: then that is asked for again. */
	memcpy(node.bytes, "other", 5);
	node.size = 5;
	node.version++;
	ASSERT_EQ(t, open_as(&g, O_RDONLY, true), 0);
	EXPECT_EQ(t, node.opens, 1);
	EXPECT_EQ(t, read_at(&g, 0, got, 8), 5);
	EXPECT_EQ(t, memcmp(got, "other", 5), 0);
	close_file(&g);
	close_file(&f);
}

/* Found, written and closed by another thread before its maker opens it. */
static void a_new_file_that_was_written_is_not_empty(struct ktest *t)
{
	char got[8] = "";
	struct file f;

	start();
	memcpy(node.bytes, "other", 5);
	node.size = 5;
	node.wrote = 8;
	f = (struct file){ .flags = O_RDWR, .inode = &inode, .fresh = true };
	f.attr.file = (struct file_id){ .ino = 12, .gen = 1, .node = 21 };
	f.attr.made_at = 7;
	mutex_init(&f.lock, "file", RANK_FILE);
	ASSERT_EQ(t, live_open(&f), 0);
	EXPECT_EQ(t, node.opens, 1);
	EXPECT_EQ(t, f.attr.size, 5u);
	EXPECT_EQ(t, read_at(&f, 0, got, 8), 5);
	EXPECT_EQ(t, memcmp(got, "other", 5), 0);
	close_file(&f);
}

/* The storage node, whose clock is ahead, has made the file. */
static void a_write_is_not_before_its_file(struct ktest *t)
{
	static const uint64_t ahead_ns[] = { 300000000, 3600000000000 };

	for (size_t i = 0; i < ARRAY_SIZE(ahead_ns); i++) {
		const uint64_t ns = time_real_ns() + ahead_ns[i];
		const struct fs_time made = { .sec = (int64_t)(ns / 1000000000),
					      .nsec = (uint32_t)(ns % 1000000000) };
		struct file f = { .flags = O_RDWR, .inode = &inode, .fresh = true };
		struct fs_time first;

		start();
		f.attr.file = (struct file_id){ .ino = 12, .gen = 1, .node = 21 };
		f.attr.ctime = f.attr.mtime = made;
		mutex_init(&f.lock, "file", RANK_FILE);
		ASSERT_EQ(t, live_open(&f), 0);
		EXPECT_EQ(t, write_at(&f, 0, "new", 3), 3);
		/* By an hour it is not the clock of a node that is meant. */
		EXPECT_EQ(t, fs_time_is_same(node.now, made), i == 0);
		EXPECT_FALSE(t, fs_time_is_later(node.now, made));
		/* Each write has its own time. */
		first = node.now;
		EXPECT_EQ(t, write_at(&f, 0, "old", 3), 3);
		EXPECT_TRUE(t, fs_time_is_later(node.now, first));
		close_file(&f);
	}
}

static void another_version_at_open(struct ktest *t)
{
	char got[8] = "";
	struct file f, g;

	start();
	memcpy(node.bytes, "old", 3);
	node.size = 3;
	ASSERT_EQ(t, open_file(&f, O_RDONLY), 0);
	EXPECT_EQ(t, read_at(&f, 0, got, 8), 3);
	memcpy(node.bytes, "newer", 5);
	node.size = 5;
	EXPECT_EQ(t, read_at(&f, 0, got, 8), 3);
	EXPECT_EQ(t, memcmp(got, "old", 3), 0);
	node.version++;
	ASSERT_EQ(t, open_file(&g, O_RDONLY), 0);
	EXPECT_EQ(t, read_at(&g, 0, got, 8), 5);
	EXPECT_EQ(t, memcmp(got, "newer", 5), 0);
	EXPECT_EQ(t, read_at(&f, 0, got, 8), 5);
	close_file(&g);
	/* The same one: what is cached stays. */
	fetches = 0;
	ASSERT_EQ(t, open_file(&g, O_RDONLY), 0);
	EXPECT_EQ(t, read_at(&g, 0, got, 8), 5);
	EXPECT_EQ(t, fetches, 0);
	close_file(&g);
	close_file(&f);
}

/* Each open file tells of a loss once; one that is opened later does not. */
static void losses_are_told_once(struct ktest *t)
{
	struct file f, g;

	start();
	ASSERT_EQ(t, open_file(&f, O_RDWR), 0);
	ASSERT_EQ(t, open_file(&g, O_RDWR), 0);
	EXPECT_EQ(t, write_at(&f, 0, "x", 1), 1);
	node.errors = 1; /* the disk refuses it */
	EXPECT_EQ(t, f.ops->fsync(&f, false), -EIO);
	EXPECT_EQ(t, f.ops->fsync(&f, false), 0);
	EXPECT_EQ(t, write_at(&g, 0, "y", 1), -EIO);
	EXPECT_EQ(t, write_at(&g, 0, "y", 1), 1);
	/* The memory node is gone with what was not synced; its successor knows of nothing. */
	node.fail = -EHOSTDOWN;
	placed = 12;
	node.errors = 0;
	EXPECT_EQ(t, f.ops->fsync(&f, false), -EIO);
	EXPECT_EQ(t, node.asked, 12);
	EXPECT_EQ(t, g.ops->fsync(&g, false), -EIO);
	EXPECT_EQ(t, g.ops->fsync(&g, false), 0);
	EXPECT_EQ(t, f.ops->fsync(&f, false), 0);
	/* With everything synced nothing is lost. */
	node.fail = -EHOSTDOWN;
	EXPECT_EQ(t, f.ops->fsync(&f, false), 0);
	close_file(&g);
	close_file(&f);
}

static void a_write_that_fails_leaves_no_bytes(struct ktest *t)
{
	char got[8] = "";
	struct file f;

	start();
	ASSERT_EQ(t, open_file(&f, O_RDWR), 0);
	EXPECT_EQ(t, write_at(&f, 0, "old", 3), 3);
	EXPECT_EQ(t, read_at(&f, 0, got, 8), 3);
	node.fail = -ENOSPC;
	EXPECT_EQ(t, write_at(&f, 0, "new", 3), -ENOSPC);
	EXPECT_EQ(t, read_at(&f, 0, got, 8), 3);
	EXPECT_EQ(t, memcmp(got, "old", 3), 0);
	close_file(&f);
}

static void stores_reach_the_node(struct ktest *t)
{
	char got[8] = "";
	struct file f;

	start();
	memcpy(node.bytes, "0123456789", 10);
	node.size = 10;
	ASSERT_EQ(t, open_file(&f, O_RDWR), 0);
	store(t, 2, "ab", 2);
	/* read(2) and write(2) use the same line, and a write leaves it dirty. */
	EXPECT_EQ(t, read_at(&f, 0, got, 5), 5);
	EXPECT_EQ(t, memcmp(got, "01ab4", 5), 0);
	EXPECT_EQ(t, write_at(&f, 4, "W", 1), 1);
	EXPECT_EQ(t, memcmp(node.bytes, "0123W56789", 10), 0);
	/* Behind the end a program may store, too: that is no part of the file. */
	store(t, 10, "junk", 4);
	EXPECT_EQ(t, f.ops->fsync(&f, false), 0);
	EXPECT_EQ(t, memcmp(node.bytes, "01abW56789\0\0\0\0", 14), 0);
	EXPECT_EQ(t, node.size, 10);
	EXPECT_EQ(t, node.writes, 2);
	EXPECT_EQ(t, node.syncs, 1);
	EXPECT_FALSE(t, file_dirty_any(&object));
	/* And it is not when the file grows, by any way. */
	EXPECT_EQ(t, write_at(&f, 13, "x", 1), 1);
	EXPECT_EQ(t, read_at(&f, 9, got, 5), 5);
	EXPECT_EQ(t, memcmp(got, "9\0\0\0x", 5), 0);
	store(t, 14, "junk", 4);
	ASSERT_EQ(t, live_truncate(&f.attr.file, 0, 17), 0);
	EXPECT_EQ(t, read_at(&f, 13, got, 4), 4);
	EXPECT_EQ(t, memcmp(got, "x\0\0\0", 4), 0);
	/* Only what was stored before close() need be there: close-to-open. */
	store(t, 0, "C", 1);
	close_file(&f);
	EXPECT_EQ(t, node.bytes[0], 'C');
	/* Before the time is set, and before a hole is looked for. */
	ASSERT_EQ(t, open_file(&f, O_RDWR), 0);
	store(t, 0, "D", 1);
	EXPECT_EQ(t, live_flush(&f.attr.file), 0);
	EXPECT_EQ(t, node.bytes[0], 'D');
	EXPECT_EQ(t, live_set_mtime(&f.attr), 0);
	store(t, 0, "E", 1);
	ASSERT_EQ(t, mutex_lock_killable(&f.lock), 0);
	EXPECT_EQ(t, f.ops->seek(&f, 3, 3), 3);
	EXPECT_EQ(t, f.ops->seek(&f, -1, 3), -ENXIO);
	mutex_unlock(&f.lock);
	EXPECT_EQ(t, node.bytes[0], 'E');
	EXPECT_EQ(t, node.seeks, 1);
	close_file(&f);
	EXPECT_EQ(t, references, 0);
}

static void truncations_forget_stores(struct ktest *t)
{
	struct file f;

	start();
	node.size = 3 * PAGE_SIZE;
	ASSERT_EQ(t, open_file(&f, O_RDWR), 0);
	for (uint64_t i = 0; i < 3; i++)
		store(t, i * PAGE_SIZE + 10, "stored", 6);
	ASSERT_EQ(t, live_truncate(&f.attr.file, 0, PAGE_SIZE + 12), 0);
	EXPECT_EQ(t, f.ops->fsync(&f, false), 0);
	EXPECT_EQ(t, memcmp(node.bytes + 10, "stored", 6), 0);
	EXPECT_EQ(t, memcmp(node.bytes + PAGE_SIZE + 10, "st\0\0\0\0", 6), 0);
	EXPECT_EQ(t, node.bytes[2 * PAGE_SIZE + 10], 0);
	/* A hole keeps what lies beside it. */
	store(t, 20, "left and right", 14);
	ASSERT_EQ(t, f.ops->fallocate(&f, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 25, 3), 0);
	EXPECT_FALSE(t, object.sealed);
	EXPECT_EQ(t, f.ops->fsync(&f, false), 0);
	EXPECT_EQ(t, memcmp(node.bytes + 20, "left \0\0\0 right", 14), 0);
	close_file(&f);
}

static void stores_that_cannot_be_sent(struct ktest *t)
{
	char got[8] = "";
	struct file f;

	start();
	node.size = 10;
	ASSERT_EQ(t, open_file(&f, O_RDWR), 0);
	/* Not now: they stay. */
	store(t, 0, "kept", 4);
	node.fail = -ENOMEM;
	EXPECT_EQ(t, f.ops->fsync(&f, false), -ENOMEM);
	EXPECT_TRUE(t, file_dirty_any(&object));
	/* The node is gone: its successor gets them. */
	node.fail = -EHOSTDOWN;
	placed = 12;
	EXPECT_EQ(t, f.ops->fsync(&f, false), 0);
	EXPECT_EQ(t, memcmp(node.bytes, "kept", 4), 0);
	/* Never: each open file tells it once, msync() too, and none reads them any more. */
	store(t, 0, "lost", 4);
	node.fail = -EIO;
	EXPECT_EQ(t, live_write_back(&object, 0, 1, true), -EIO);
	EXPECT_EQ(t, live_write_back(&object, 0, 1, true), 0);
	EXPECT_EQ(t, f.ops->fsync(&f, false), -EIO);
	EXPECT_EQ(t, f.ops->fsync(&f, false), 0);
	EXPECT_EQ(t, read_at(&f, 0, got, 4), 4);
	EXPECT_EQ(t, memcmp(got, "kept", 4), 0);
	close_file(&f);
}

/* Another processor's change is not taken for a part of ours: its bytes are there after an open. */
static void changes_of_others_are_noticed(struct ktest *t)
{
	char got[8] = "";
	struct file f, g;

	start();
	memcpy(node.bytes, "old", 3);
	node.size = 2 * PAGE_SIZE;
	ASSERT_EQ(t, open_file(&f, O_RDWR), 0);
	EXPECT_EQ(t, read_at(&f, 0, got, 3), 3);
	memcpy(node.bytes, "new", 3);
	node.version++;
	EXPECT_EQ(t, write_at(&f, PAGE_SIZE, "x", 1), 1);
	store(t, PAGE_SIZE + 1, "y", 1);
	ASSERT_EQ(t, open_file(&g, O_RDONLY), 0);
	EXPECT_EQ(t, read_at(&g, 0, got, 3), 3);
	EXPECT_EQ(t, memcmp(got, "new", 3), 0);
	EXPECT_EQ(t, read_at(&g, PAGE_SIZE, got, 2), 2);
	EXPECT_EQ(t, memcmp(got, "xy", 2), 0);
	/* Ours alone are no reason to fetch again. */
	fetches = 0;
	EXPECT_EQ(t, write_at(&f, PAGE_SIZE, "z", 1), 1);
	close_file(&g);
	ASSERT_EQ(t, open_file(&g, O_RDONLY), 0);
	EXPECT_EQ(t, read_at(&g, PAGE_SIZE, got, 2), 2);
	EXPECT_EQ(t, memcmp(got, "zy", 2), 0);
	EXPECT_EQ(t, fetches, 0);
	close_file(&g);
	close_file(&f);
}

static void as_a_model_says(struct ktest *t)
{
	static uint8_t model[SIZE], got[SIZE], bytes[SIZE];
	struct prng rng;
	uint64_t size = 0;
	struct file f;

	start();
	prng_seed(&rng, 3);
	memset(model, 0, sizeof(model));
	ASSERT_EQ(t, open_file(&f, O_RDWR), 0);
	for (int n = 0; n < 2000; n++) {
		const uint64_t pos = prng_below(&rng, SIZE / 4);
		const uint64_t len = 1 + prng_below(&rng, SIZE * 3 / 4 - 1);

		switch (prng_below(&rng, 6)) {
		case 4:
			if (!size)
				break;
			bytes[0] = (uint8_t)prng_next(&rng);
			store(t, pos % size, bytes, 1);
			model[pos % size] = bytes[0];
			break;
		case 5:
			ASSERT_EQ(t, f.ops->fsync(&f, false), 0);
			ASSERT_EQ(t, memcmp(node.bytes, model, size), 0);
			break;
		case 0:
			ASSERT_EQ(t, live_truncate(&f.attr.file, 0, pos), 0);
			if (pos < size)
				memset(model + pos, 0, size - pos);
			size = pos;
			break;
		case 1:
			ASSERT_EQ(t,
				  f.ops->fallocate(&f, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
						   pos, len),
				  0);
			memset(model + pos, 0, len);
			break;
		default:
			for (uint64_t i = 0; i < len; i++)
				bytes[i] = (uint8_t)prng_next(&rng);
			ASSERT_EQ(t, write_at(&f, pos, bytes, len), (ssize_t)len);
			memcpy(model + pos, bytes, len);
			size = MAX(size, pos + len);
			break;
		}
		ASSERT_EQ(t, read_at(&f, 0, got, SIZE), (ssize_t)size);
		ASSERT_EQ(t, memcmp(got, model, size), 0);
	}
	close_file(&f);
}

static const struct ktest_case cases[] = {
	KTEST(a_write_is_one_message),
	KTEST(appends_go_where_the_node_says),
	KTEST(a_full_disk_shortens_a_write),
	KTEST(a_new_file_is_opened_without_a_message),
	KTEST(a_new_file_that_was_written_is_not_empty),
	KTEST(a_write_is_not_before_its_file),
	KTEST(another_version_at_open),
	KTEST(losses_are_told_once),
	KTEST(a_write_that_fails_leaves_no_bytes),
	KTEST(stores_reach_the_node),
	KTEST(truncations_forget_stores),
	KTEST(stores_that_cannot_be_sent),
	KTEST(changes_of_others_are_noticed),
	KTEST(as_a_model_says),
	{ 0 },
};
static const struct ktest_suite suite = { .name = "vfs.live", .cases = cases };
KTEST_SUITE(suite);
