/* SPDX-License-Identifier: MIT */
/*
 * Files that change: write(2)s that this processor keeps to itself for some time.
 *
 * Flow:	small writes in order, to a file that no other processor can look at, are entered
 *		into the lines of the cache and no more: these are marked, as stores into mappings
 *		are, and sent by the same flush (live_map.c). Before its first byte a page has its
 *		place on the disk, which the caching node gets for many pages ahead; so what a full
 *		disk refuses, write(2) refuses. All that does not fit here is sent at once, after
 *		what is here.
 * Invariants:	live_file.behind: marked lines may have bytes of write(2). live_file.end, if it is
 *		not 0, is the size that these make; all pages from the end that the caching node
 *		knows up to there are marked, and flushed in order.
 *		Such bytes are made under kept_hold() only, so an SP_RECALL that has waited for it
 *		finds all of them. live_file.grant is that under which the lines have last been
 *		compared with the node's: pages are sent whole, and a line of before another
 *		processor's write would undo that.
 * Locking:	live_file.change, as for each write.
 * Ordering:	a flush sends the whole file, from its first marked page on, before each request
 *		that another one may see: writes that go through, truncations, fsync, stat, open,
 *		the answer to SP_RECALL; and at close, after five seconds, and when many lines are
 *		marked. After each but the last of these the next writes go through: where they are
 *		asked for one by one, as by a database that syncs each, they cost no more that way.
 * Failure:	bytes that the node refuses for good in a flush (-ENOSPC, -EDQUOT, -EROFS, -EFBIG,
 *		-ESTALE) are lost, as a store into a mapping is. After all other errors they stay
 *		marked, and who asked for the flush gets -EIO.
 * Limits:	on a file system with blocks smaller than a page all writes go through: a page that
 *		the file ends in would not have all its blocks ahead.
 */
#include <abi/fcntl.h>
#include <abi/resource.h>
#include <kernel/bootparam.h>
#include <kernel/counter.h>
#include <kernel/panic.h>
#include <kernel/time.h>
#include <lib/errno.h>
#include <processor/client/file_node.h>
#include <processor/client/kept.h>
#include <processor/excache/excache.h>
#include <processor/excache/file_dirty.h>
#include <processor/process/process.h>

#include "live_private.h"
#include "uio.h"

COUNTER(file_behind_writes, "file.behind_writes", "write(2)s whose bytes were sent later");
COUNTER(file_behind_rooms, "file.behind_rooms", "requests for room for such writes");

#define BEHIND_PAGES 256u             /* marked pages of a file at most */
#define WRITE_MAX    (16 * PAGE_SIZE) /* bytes; a longer write is as well sent at once */
#define IN_ORDER     2                /* writes that go through first */

static bool write_behind = true;
BOOT_PARAM("vfs.write_behind", bool, write_behind,
	   "keep small writes in order for up to five seconds, while no other processor works with "
	   "the storage node's files (default on)");

void live_count_again_locked(struct live_file *lf)
{
	assert_mutex_held(&lf->change);
	lf->in_order = 0;
}

void live_wrote_locked(struct live_file *lf, uint64_t first, uint64_t end)
{
	assert_mutex_held(&lf->change);
	lf->in_order = first != lf->next_write ? 0 : MIN(lf->in_order + 1, (unsigned int)IN_ORDER);
	lf->next_write = end;
}

uint64_t live_grant(const struct live_file *lf)
{
	const uint64_t grant = kept_hold(lf->file.node);

	if (grant)
		kept_release(lf->file.node);
	return grant;
}

void live_relies_locked(struct live_file *lf, uint64_t grant)
{
	assert_mutex_held(&lf->change);
	if (lf->grant == grant)
		return;
	/* Another processor may have cut the file, and has its own idea of where it ends. */
	file_dirty_forget_room(lf->object);
	live_count_again_locked(lf);
	lf->grant = grant;
}

/*
 * Is this processor alone, and has nobody else written since the lines came? An open file stays
 * open while other processors come, write, and go: then the node is asked, once, and the caller's
 * write goes through.
 */
static bool is_alone_locked(struct live_file *lf) __must_hold(&lf->change)
{
	const uint64_t grant = live_grant(lf);
	struct file_state state;

	assert_mutex_held(&lf->change);
	if (!grant || grant == lf->grant)
		return grant;
	if (!live_refresh_locked(lf, &state))
		live_relies_locked(lf, grant);
	return false;
}

static bool is_wise_locked(struct live_file *lf, uint64_t at, uint64_t len, uint32_t flags)
	__must_hold(&lf->change)
{
	const uint64_t limit = MIN(process_rlimit(RLIMIT_FSIZE), (uint64_t)SPACE_TOP);

	assert_mutex_held(&lf->change);
	return write_behind && lf->may_be_behind && lf->in_order >= IN_ORDER &&
	       at == lf->next_write && len < WRITE_MAX &&
	       !(flags & (O_SYNC | O_DSYNC | O_DIRECT)) && lf->told_by && lf->told_by == lf->node &&
	       at <= READ_ONCE(lf->object->size) && at < limit && len <= limit - at &&
	       is_alone_locked(lf);
}

/* Has page @pgoff its place on the disk? If need be the node is asked. */
static bool has_room_locked(struct live_file *lf, uint64_t pgoff, uint64_t *changes)
	__must_hold(&lf->change)
{
	const uint64_t now = time_now_ns();
	const struct file_change what = { .op = FILE_ROOM,
					  .off = pgoff << PAGE_SHIFT,
					  .len = BEHIND_PAGES << PAGE_SHIFT,
					  .now = live_now(),
					  .privileged = live_is_privileged(),
					  .ahead = true };
	struct file_state state;

	assert_mutex_held(&lf->change);
	if (file_dirty_has_room(lf->object, pgoff, changes))
		return true;
	counter_inc(&file_behind_rooms);
	/* The write that goes through finds out what is wrong, and tells. */
	if (file_node_change(&lf->file, &lf->node, &what, &state))
		return false;
	live_told_locked(lf, &state);
	file_dirty_note_room(lf->object, pgoff, state.pos >> PAGE_SHIFT, now, *changes);
	return file_dirty_has_room(lf->object, pgoff, changes);
}

/* The line of page @pgoff, which has room as of @changes: pinned and marked. */
static bool get_line_locked(struct live_file *lf, uint64_t pgoff, uint64_t changes,
			    struct line **line) __must_hold(&lf->change)
{
	const bool is_new = pgoff >= DIV_ROUND_UP(lf->told_size, PAGE_SIZE);
	struct object *obj = lf->object;
	int err;

	assert_mutex_held(&lf->change);
	err = excache_get(obj, pgoff, EXCACHE_FIND, line);
	if (err == -ENOENT)
		err = excache_get(obj, pgoff, is_new ? EXCACHE_BLANK : EXCACHE_FETCH, line);
	if (err)
		return false;
	if (file_dirty_mark(*line, changes))
		return true;
	excache_put(*line);
	if (is_new && pgoff >= DIV_ROUND_UP(READ_ONCE(obj->size), PAGE_SIZE))
		live_doubt(obj, pgoff, pgoff + 1); /* a fault there is SIGBUS still */
	return false;
}

/* As many of the next bytes as go into one page. -EFAULT: they have to be faulted in. */
static ssize_t enter_page_locked(struct live_file *lf, struct uio *uio, uint64_t at,
				 uint64_t changes) __must_hold(&lf->change)
{
	const size_t off = (size_t)(at & PAGE_MASK_LOW);
	const size_t n = (size_t)MIN((uint64_t)(PAGE_SIZE - off), uio->left);
	struct line *line;
	size_t moved;

	assert_mutex_held(&lf->change);
	if (!get_line_locked(lf, at >> PAGE_SHIFT, changes, &line))
		return 0;
	/* Bytes of it may go out from now on. */
	WRITE_ONCE(lf->behind, true);
	moved = uio_fetch_mapped(uio, (uint8_t *)line_data(line) + off, n);
	if (at + moved > READ_ONCE(lf->object->size)) {
		lf->end = at + moved;
		WRITE_ONCE(lf->object->size, lf->end);
	}
	excache_put(line);
	return moved ? (ssize_t)moved : -EFAULT;
}

/* The same, with room for the page. Nothing but the page itself is waited for as a holder. */
static ssize_t write_page_locked(struct live_file *lf, struct uio *uio, uint64_t at)
	__must_hold(&lf->change)
{
	uint64_t changes, grant;
	ssize_t n;

	assert_mutex_held(&lf->change);
	if (READ_ONCE(lf->object->nr_dirty) >= BEHIND_PAGES && live_flush_ahead_locked(lf))
		return 0;
	if (!has_room_locked(lf, at >> PAGE_SHIFT, &changes))
		return 0;
	grant = kept_hold(lf->file.node);
	if (!grant)
		return 0;
	n = grant == lf->grant ? enter_page_locked(lf, uio, at, changes) : 0;
	kept_release(lf->file.node);
	return n;
}

/* Bytes from @at on until one faults or has to go through: how many. */
static ssize_t write_some_locked(struct live_file *lf, struct uio *uio, uint64_t at)
	__must_hold(&lf->change)
{
	ssize_t done = 0, n = 1;

	assert_mutex_held(&lf->change);
	kept_write_begin(&lf->file);
	while (uio->left && n > 0) {
		n = write_page_locked(lf, uio, at + (uint64_t)done);
		done += MAX(n, (ssize_t)0);
	}
	if (done)
		(void)live_time_locked(lf);
	kept_write_end(&lf->file);
	return done ? done : n;
}

ssize_t live_behind_locked(struct live_file *lf, struct uio *uio, uint64_t *at, uint32_t flags)
{
	const uint64_t pos = flags & O_APPEND ? READ_ONCE(lf->object->size) : *at;
	ssize_t done = 0, n = 1;

	assert_mutex_held(&lf->change);
	if (!is_wise_locked(lf, pos, uio->left, flags))
		return 0;
	while (uio->left && n) {
		n = write_some_locked(lf, uio, pos + (uint64_t)done);
		if (n == -EFAULT && uio_fault_in(uio, false))
			break;
		done += MAX(n, (ssize_t)0);
	}
	if (uio->left)
		live_count_again_locked(lf);
	if (done) {
		counter_inc(&file_behind_writes);
		*at = pos + (uint64_t)done;
	}
	return done;
}

void live_behind_done_locked(struct live_file *lf)
{
	assert_mutex_held(&lf->change);
	WRITE_ONCE(lf->behind, false);
	if (!lf->end)
		return;
	/* Pages behind the node's end are lost, or were not to be written after all. */
	lf->end = 0;
	WRITE_ONCE(lf->object->size, lf->told_size);
}

int live_flush_behind(const struct file_id *file)
{
	struct object *obj = object_live_find(file);
	const struct live_file *lf;
	int err = 0;

	if (!obj)
		return 0;
	lf = __atomic_load_n(&obj->owner, __ATOMIC_ACQUIRE);
	if (lf && READ_ONCE(lf->behind))
		err = live_write_back(obj, 0, UINT64_MAX, false);
	object_put(obj);
	return err;
}
