/* SPDX-License-Identifier: MIT */
/*
 * Shared objects become smaller, or get holes.
 *
 * Flow:	block the range; drop the lines; have the owners drop what they have; unblock.
 *		The calling thread drops the lines. If owners have pages, or the thread is killed,
 *		a work does the rest; the thread waits for it, killably.
 * Invariants:	a range stays blocked until the owners have answered, also after the thread was
 *		killed: a page that another program writes there cannot be dropped by a late
 *		request.
 *		The work takes no reference while its thread waits: the thread's own may be the
 *		last one, and an object ends with that.
 * Locking:	the caller lets one change of the size run at a time; object.lock guards the size
 *		and the range.
 * Failure:	owners that cannot be reached keep pages that no reader asks for. A thread that is
 *		killed meanwhile has made the object smaller.
 */
#include <kernel/work.h>
#include <lib/err.h>
#include <lib/string.h>

#include "excache.h"
#include "home.h"
#include "object.h"

#define SHRINK_THREADS 64u /* each may wait for a node that is silent */
#define PAGES_MAX      (SPACE_TOP >> PAGE_SHIFT)

static struct workqueue *shrink_wq; /* const after start */

static void going_range(struct object *obj, struct page_range *range)
{
	spin_lock(&obj->lock);
	range->first = obj->going_first;
	range->end = obj->going_end;
	spin_unlock(&obj->lock);
}

/* The blocked range: lines that are left, then what the owners have. */
static void drop_work(struct work *w)
{
	struct object *obj = container_of(w, struct object, drop_work);
	struct page_range range;
	int err = 0;

	going_range(obj, &range);
	excache_drop(obj, range.first, range.end);
	if (object_stores_any(obj, range.first, range.end))
		err = home_discard(obj, &range, 1);
	/* Also after an error of the owners: no thread asks for these pages again. */
	object_clear_stored(obj, range.first, range.end);
	if (object_going_end(obj, err))
		object_put(obj);
}

void shrink_init_object(struct object *obj)
{
	work_init(&obj->drop_work, drop_work);
}

/* Ends with the range unblocked, or it is when the owners have answered: -EINTR. */
static int drop_going(struct object *obj)
{
	struct page_range range;
	int err;

	going_range(obj, &range);
	err = excache_drop_killable(obj, range.first, range.end);
	if (!err && !object_stores_any(obj, range.first, range.end)) {
		(void)object_going_end(obj, 0); /* the caller is the thread */
		return 0;
	}
	(void)work_queue(shrink_wq, &obj->drop_work);
	return object_going_wait(obj);
}

int object_shared_punch(struct object *obj, uint64_t first, uint64_t end)
{
	int err;

	end = MIN(end, PAGES_MAX);
	if (first >= end)
		return 0;
	err = object_going_begin(obj, first, end);
	return err ? err : drop_going(obj);
}

/* The part of the last page that lies behind @size is zero when the object grows again. */
static int clear_tail(struct object *obj, uint64_t size)
{
	const uint64_t keep = size & (PAGE_SIZE - 1);
	struct line *line;
	int err;

	if (!keep)
		return 0;
	err = object_shared_get(obj, size >> PAGE_SHIFT, false, &line);
	if (err)
		return err == -ENOENT ? 0 : err;
	memset((uint8_t *)line_data(line) + keep, 0, PAGE_SIZE - keep);
	line_mark_dirty(line);
	excache_put(line);
	return 0;
}

uint64_t object_shared_size(struct object *obj)
{
	uint64_t size;

	spin_lock(&obj->lock);
	size = obj->size;
	spin_unlock(&obj->lock);
	return size;
}

static void shared_set_size(struct object *obj, uint64_t size)
{
	spin_lock(&obj->lock);
	obj->size = size;
	spin_unlock(&obj->lock);
}

static int shrink(struct object *obj, uint64_t size)
{
	int err = object_going_begin(obj, DIV_ROUND_UP(size, PAGE_SIZE), PAGES_MAX);

	if (err)
		return err;
	err = clear_tail(obj, size);
	if (err) {
		(void)object_going_end(obj, 0);
		return err;
	}
	shared_set_size(obj, size);
	/* An owner that cannot be reached keeps pages that no reader asks for. */
	(void)drop_going(obj);
	return 0;
}

int object_shared_set_size(struct object *obj, uint64_t size)
{
	if (obj->reserved)
		return -EINVAL;
	if (size > SPACE_TOP)
		return -EFBIG;
	if (size < object_shared_size(obj))
		return shrink(obj, size);
	shared_set_size(obj, size);
	return 0;
}

int shrink_init(void)
{
	shrink_wq = workqueue_create("object-shrink", SHRINK_THREADS);
	return IS_ERR(shrink_wq) ? PTR_ERR(shrink_wq) : 0;
}
