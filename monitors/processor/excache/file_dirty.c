/* SPDX-License-Identifier: MIT */
/*
 * ExCache: dirty lines of files that change. See "file_dirty.h".
 *
 * Invariants:	FILE_DIRTY: the line is on its object's list of marked lines. FILE_WRITING: a copy
 *		is under way. Either one keeps the line, and counts it in its set and in all.
 *		An object is on the list of those with dirty lines exactly while it has one with
 *		either mark; each line of a file holds a reference of its object, so the list needs
 *		none.
 * Ordering:	the right to write is taken and TLBs are flushed before the line is copied, under
 *		the set's lock and without pins: a thread that stores later has faulted after that,
 *		and marked the line, before it mapped it under a pin.
 * Locking:	set, then object, then dirty.lock (RANK_EXCACHE_FREE).
 */
#include "file_dirty.h"

#include <kernel/bootparam.h>
#include <kernel/panic.h>
#include <kernel/pins.h>
#include <kernel/printk.h>
#include <kernel/time.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <mm/frame.h>

#include "cache_private.h"

#define OLD_NS   (5 * NSEC_PER_SEC) /* a line stays dirty for that long without pressure */
/* Room that was asked for is relied on for that long: the node keeps it until the lines are old. */
#define ROOM_NS  (30 * NSEC_PER_SEC)
#define ROOM_MAX ((uint64_t)64) /* pages to ask for at a time */

static uint64_t param_dirty;
BOOT_PARAM(
	"excache.file_dirty", size, param_dirty,
	"bytes of lines of files that may wait for write-back (default: a quarter of the lines)");

COUNTER(file_dirty_marked, "excache.file_dirty_marked", "lines of files mapped for writing");
COUNTER(file_dirty_waits, "excache.file_dirty_waits", "write faults that waited for write-back");

static struct {
	struct spinlock lock;
	struct list_head objects __guarded_by(&lock); /* by the age of their oldest mark, nearly */
	uint64_t nr;       /* atomic: lines that are marked or being copied */
	uint64_t max;      /* const */
	uint32_t set_max;  /* const: of one set */
	uint32_t nr_short; /* atomic: threads that wait for room */
	uint64_t nr_gone;  /* atomic: memory nodes that have gone, with their reservations */
	struct waitqueue room;
	struct waitqueue due; /* the threads that write behind */
	const struct file_dirty_ops *ops;
} dirty = { .lock = SPINLOCK_INIT("excache.file_dirty", RANK_EXCACHE_FREE),
	    .room = WAITQUEUE_INIT(dirty.room),
	    .due = WAITQUEUE_INIT(dirty.due) };

static uint64_t nr_dirty(void)
{
	return __atomic_load_n(&dirty.nr, __ATOMIC_RELAXED);
}
GAUGE(file_dirty_lines, "excache.file_dirty", "lines of files that wait for write-back", nr_dirty);

void file_dirty_set_ops(const struct file_dirty_ops *ops)
{
	__atomic_store_n(&dirty.ops, ops, __ATOMIC_RELEASE);
}

bool file_dirty_is_used(void)
{
	return READ_ONCE(dirty.ops) != NULL;
}

int file_dirty_init(void)
{
	dirty.max = param_dirty ? param_dirty >> PAGE_SHIFT : excache.nr_lines / 4;
	dirty.set_max = MAX(excache.nr_ways / 2, 1u);
	spin_lock(&dirty.lock);
	list_init(&dirty.objects);
	spin_unlock(&dirty.lock);
	if (dirty.max && dirty.max <= excache.nr_lines / 2)
		return 0;
	pr_err("excache.file_dirty=%llu: from a page to half of the %llu lines\n",
	       (unsigned long long)param_dirty, (unsigned long long)excache.nr_lines);
	return -EINVAL;
}

/* --- marks ----------------------------------------------------------------------------- */

static bool count_take(void)
{
	if (__atomic_add_fetch(&dirty.nr, 1, __ATOMIC_RELAXED) <= dirty.max)
		return true;
	__atomic_sub_fetch(&dirty.nr, 1, __ATOMIC_RELAXED);
	return false;
}

/* A line is clean, or may be marked again. */
static void room_wake(void)
{
	smp_mb(); /* the state, then the look for waiters: see waitqueue_busy_mb() */
	if (waitqueue_busy_mb(&dirty.room))
		wake_all(&dirty.room);
}

/* A line of @obj gets its first mark. */
static void count_locked(struct cache_set *set, struct object *obj) __must_hold(&set->lock)
	__must_hold(&obj->lock)
{
	assert_spin_held(&set->lock);
	assert_spin_held(&obj->lock);
	set->nr_file_dirty++;
	if (obj->nr_dirty++)
		return;
	spin_lock(&dirty.lock);
	obj->dirty_since = time_now_ns();
	list_add_tail(&obj->dirty_link, &dirty.objects);
	spin_unlock(&dirty.lock);
}

/* A line of @obj has no mark any more. */
static void uncount_locked(struct cache_set *set, struct object *obj) __must_hold(&set->lock)
	__must_hold(&obj->lock)
{
	assert_spin_held(&set->lock);
	assert_spin_held(&obj->lock);
	ASSERT(set->nr_file_dirty > 0 && obj->nr_dirty > 0);
	set->nr_file_dirty--;
	__atomic_sub_fetch(&dirty.nr, 1, __ATOMIC_RELAXED);
	if (--obj->nr_dirty == 0) {
		spin_lock(&dirty.lock);
		list_del(&obj->dirty_link);
		spin_unlock(&dirty.lock);
	}
	room_wake();
}

void file_dirty_forget_locked(struct cache_set *set, struct line *line)
{
	struct object *obj = line->obj;

	assert_spin_held(&set->lock);
	assert_spin_held(&obj->lock);
	if (!line->file_dirty)
		return;
	if (line->file_dirty & FILE_DIRTY)
		list_del(&line->wb_link);
	line->file_dirty = 0;
	uncount_locked(set, obj);
}

/* --- faults ---------------------------------------------------------------------------- */

/* Grows whenever places of @obj's pages may have gone. */
static uint64_t room_changes_locked(struct object *obj) __must_hold(&obj->lock)
{
	assert_spin_held(&obj->lock);
	return obj->room_changes + __atomic_load_n(&dirty.nr_gone, __ATOMIC_ACQUIRE);
}

/* Pages to ask for at @pgoff; 0: it is known to have its place. */
static uint64_t room_wanted(struct object *obj, uint64_t pgoff, uint64_t *changes)
{
	uint64_t nr = 1;

	spin_lock(&obj->lock);
	*changes = room_changes_locked(obj);
	if (obj->room_known == *changes && time_now_ns() < obj->room_until_ns) {
		if (pgoff >= obj->room_first && pgoff < obj->room_end)
			nr = 0;
		else if (pgoff == obj->room_end) /* in order: ahead, as writers do */
			nr = MIN(2 * obj->room_nr, ROOM_MAX);
	}
	spin_unlock(&obj->lock);
	return nr;
}

bool file_dirty_has_room(struct object *obj, uint64_t pgoff, uint64_t *changes)
{
	return !room_wanted(obj, pgoff, changes);
}

static void note_room(struct object *obj, uint64_t first, uint64_t end, uint64_t nr,
		      uint64_t asked_ns, uint64_t changes)
{
	spin_lock(&obj->lock);
	if (room_changes_locked(obj) == changes) {
		obj->room_known = changes;
		obj->room_first = first;
		obj->room_end = end;
		obj->room_nr = nr;
		obj->room_until_ns = asked_ns + ROOM_NS;
	}
	spin_unlock(&obj->lock);
}

void file_dirty_note_room(struct object *obj, uint64_t first, uint64_t end, uint64_t asked_ns,
			  uint64_t changes)
{
	note_room(obj, first, end, 1, asked_ns, changes);
}

/* Why a program gets SIGBUS: the owner's trouble is no reason to end it without a word. */
static int room_error(int err)
{
	switch (err) {
	case -EDQUOT: /* which means page tables, for who handles the fault */
		return -ENOSPC;
	case -EINTR:
	case -ENOSPC:
	case -EROFS:
	case -ESTALE:
		return err;
	default:
		return -EIO;
	}
}

/*
 * See that a page inside the file has its place on the disk before it is stored to. *@changes: it
 * has it for as long as room_changes_locked() is this.
 */
static int find_room(struct object *obj, uint64_t pgoff, uint64_t *changes)
{
	const uint64_t asked_ns = time_now_ns();
	uint64_t end, nr = room_wanted(obj, pgoff, changes);
	int err;

	if (!nr)
		return 0;
	err = dirty.ops->room(obj, pgoff, nr, &end);
	if (err == -ENOSPC && nr > 1) {
		nr = 1;
		err = dirty.ops->room(obj, pgoff, nr, &end);
	}
	if (err)
		return room_error(err);
	if (end <= pgoff) /* a truncation came first */
		return -EIO;
	note_room(obj, pgoff, end, nr, asked_ns, *changes);
	return 0;
}

void file_dirty_forget_room(struct object *obj)
{
	spin_lock(&obj->lock);
	obj->room_changes++;
	obj->room_until_ns = 0;
	spin_unlock(&obj->lock);
}

void file_dirty_node_gone(void)
{
	__atomic_add_fetch(&dirty.nr_gone, 1, __ATOMIC_RELEASE);
}

int file_dirty_check(struct object *obj, uint64_t pgoff, uint64_t *changes)
{
	uint64_t size = READ_ONCE(obj->size);
	int err = 0;

	*changes = 0;
	if (!dirty.ops)
		return pgoff < DIV_ROUND_UP(size, PAGE_SIZE) ? 0 : -EIO;
	/* Another processor may have made it longer. */
	if (pgoff >= DIV_ROUND_UP(size, PAGE_SIZE))
		err = dirty.ops->size(obj, &size);
	if (!err && pgoff >= DIV_ROUND_UP(size, PAGE_SIZE))
		err = -EIO;
	return err ? err : find_room(obj, pgoff, changes);
}

static bool mark_locked(struct cache_set *set, struct line *line, uint64_t changes)
{
	struct object *obj = line->obj;
	bool ok;

	assert_spin_held(&set->lock);
	ASSERT(line->pins > 0 && obj->kind == OBJECT_FILE && obj->live);
	spin_lock(&obj->lock);
	ok = !obj->sealed && room_changes_locked(obj) == changes;
	if (ok && !line->file_dirty) {
		ok = set->nr_file_dirty < dirty.set_max && count_take();
		if (ok)
			count_locked(set, obj);
	}
	if (ok && !(line->file_dirty & FILE_DIRTY)) {
		line->file_dirty |= FILE_DIRTY;
		line->seq = ++obj->dirty_stamp;
		list_add_tail(&line->wb_link, &obj->dirty);
		counter_inc(&file_dirty_marked);
	}
	spin_unlock(&obj->lock);
	return ok;
}

static bool is_wanted(void)
{
	return __atomic_load_n(&dirty.nr_short, __ATOMIC_RELAXED) || nr_dirty() > dirty.max / 2;
}

bool file_dirty_mark(struct line *line, uint64_t changes)
{
	struct cache_set *set = set_of_line(line);
	bool ok;

	spin_lock(&set->lock);
	ok = mark_locked(set, line, changes);
	spin_unlock(&set->lock);
	/* Age is looked at each second; the rest is looked at here. */
	if (is_wanted())
		wake_all(&dirty.due);
	return ok;
}

static bool has_room(struct object *obj, struct cache_set *set)
{
	bool room;

	if (nr_dirty() >= dirty.max)
		return false;
	spin_lock(&set->lock);
	room = set->nr_file_dirty < dirty.set_max;
	spin_unlock(&set->lock);
	if (!room)
		return false;
	spin_lock(&obj->lock);
	room = !obj->sealed;
	spin_unlock(&obj->lock);
	return room;
}

int file_dirty_wait(struct object *obj, uint64_t pgoff)
{
	struct cache_set *set = &excache.sets[set_index(obj, pgoff)];
	int err;

	counter_inc(&file_dirty_waits);
	__atomic_add_fetch(&dirty.nr_short, 1, __ATOMIC_RELAXED);
	wake_all(&dirty.due);
	err = wait_event_killable(&dirty.room, has_room(obj, set));
	__atomic_sub_fetch(&dirty.nr_short, 1, __ATOMIC_RELAXED);
	return err;
}

/* --- write-back ------------------------------------------------------------------------ */

uint64_t file_dirty_stamp(struct object *obj)
{
	uint64_t stamp;

	spin_lock(&obj->lock);
	stamp = obj->dirty_stamp + 1;
	spin_unlock(&obj->lock);
	return stamp;
}

bool file_dirty_any(const struct object *obj)
{
	return READ_ONCE(obj->nr_dirty) != 0;
}

/* One more of @nr, of which the first @max stay: how many those are. */
static size_t enter_ascending(uint64_t *pgoffs, size_t nr, size_t max, uint64_t pgoff)
{
	size_t i;

	if (nr == max && pgoffs[max - 1] < pgoff)
		return nr;
	nr = MIN(nr + 1, max);
	for (i = nr - 1; i > 0 && pgoffs[i - 1] > pgoff; i--)
		pgoffs[i] = pgoffs[i - 1];
	pgoffs[i] = pgoff;
	return nr;
}

size_t file_dirty_list(struct object *obj, uint64_t first, uint64_t end, uint64_t stamp,
		       bool in_order, uint64_t *pgoffs, size_t max)
{
	struct line *line;
	size_t nr = 0;

	spin_lock(&obj->lock);
	list_for_each_entry(line, &obj->dirty, wb_link) {
		if (nr == max && !in_order)
			break;
		if (line->pgoff >= first && line->pgoff < end && line->seq < stamp)
			nr = enter_ascending(pgoffs, nr, max, line->pgoff);
	}
	spin_unlock(&obj->lock);
	return nr;
}

/* From the list to the writing thread, which has it pinned. */
static void take_locked(struct cache_set *set, struct line *line)
{
	struct object *obj = line->obj;

	assert_spin_held(&set->lock);
	ASSERT(line_is_idle(line) && !(line->file_dirty & FILE_WRITING));
	line_write_protect_locked(line);
	line->flags &= (uint8_t)~LINE_DIRTY;
	line->pins++;
	spin_lock(&obj->lock);
	list_del(&line->wb_link);
	line->file_dirty = FILE_WRITING;
	spin_unlock(&obj->lock);
}

int file_dirty_take(struct object *obj, uint64_t pgoff, void *to)
{
	struct cache_set *set = &excache.sets[set_index(obj, pgoff)];
	struct line *line;
	uint64_t gen;
	int err;

	for (;;) {
		spin_lock(&set->lock);
		gen = set->gen;
		line = set_find_locked(set, obj, pgoff);
		if (!line || !(line->file_dirty & FILE_DIRTY)) {
			spin_unlock(&set->lock);
			return -ENOENT;
		}
		if (line->pins == 0)
			break;
		spin_unlock(&set->lock);
		err = set_wait(set, gen, true);
		if (err)
			return err;
	}
	take_locked(set, line);
	spin_unlock(&set->lock);
	pin_taken();
	copy_page(to, line_data(line));
	excache_put(line);
	return 0;
}

void file_dirty_done(struct object *obj, uint64_t pgoff, bool again)
{
	struct cache_set *set = &excache.sets[set_index(obj, pgoff)];
	struct line *line;

	spin_lock(&set->lock);
	line = set_find_locked(set, obj, pgoff);
	/* It may have been dropped meanwhile. */
	if (line && (line->file_dirty & FILE_WRITING)) {
		spin_lock(&obj->lock);
		line->file_dirty &= (uint8_t)~FILE_WRITING;
		if (again && !line->file_dirty) {
			line->file_dirty = FILE_DIRTY;
			list_add(&line->wb_link, &obj->dirty);
		}
		if (!line->file_dirty)
			uncount_locked(set, obj);
		spin_unlock(&obj->lock);
		if (!line->file_dirty)
			set_changed_locked(set); /* it may be evicted */
	}
	spin_unlock(&set->lock);
}

void file_dirty_seal(struct object *obj)
{
	spin_lock(&obj->lock);
	ASSERT(!obj->sealed);
	obj->sealed = true;
	spin_unlock(&obj->lock);
}

void file_dirty_unseal(struct object *obj)
{
	spin_lock(&obj->lock);
	ASSERT(obj->sealed);
	obj->sealed = false;
	spin_unlock(&obj->lock);
	room_wake();
}

/* --- write-behind ---------------------------------------------------------------------- */

/* The first object of a file of @node; NULL: there is none. */
static struct object *oldest_locked(uint32_t node) __must_hold(&dirty.lock)
{
	struct object *obj;

	assert_spin_held(&dirty.lock);
	list_for_each_entry(obj, &dirty.objects, dirty_link) {
		if (obj->file.node == node)
			return obj;
	}
	return NULL;
}

static bool is_due(uint32_t node)
{
	const struct object *obj;
	bool due;

	spin_lock(&dirty.lock);
	obj = oldest_locked(node);
	due = obj && (is_wanted() || time_now_ns() >= obj->dirty_since + OLD_NS);
	spin_unlock(&dirty.lock);
	return due;
}

void file_dirty_wait_due(uint32_t node, uint64_t deadline_ns)
{
	(void)wait_event_timeout(&dirty.due, is_due(node), deadline_ns);
}

struct object *file_dirty_next_due(uint32_t node)
{
	const bool any = is_wanted();
	struct object *obj;

	spin_lock(&dirty.lock);
	obj = oldest_locked(node);
	if (obj && (any || time_now_ns() >= obj->dirty_since + OLD_NS)) {
		object_get(obj); /* it has a line, which has one */
		obj->dirty_since = time_now_ns();
		list_move_tail(&obj->dirty_link, &dirty.objects);
	} else {
		obj = NULL;
	}
	spin_unlock(&dirty.lock);
	return obj;
}

uint64_t file_dirty_round(void)
{
	static uint64_t rounds;

	return __atomic_add_fetch(&rounds, 1, __ATOMIC_RELAXED);
}

struct object *file_dirty_next_of(uint64_t round, uint32_t node)
{
	struct object *obj, *found = NULL;

	spin_lock(&dirty.lock);
	list_for_each_entry(obj, &dirty.objects, dirty_link) {
		if (obj->file.node != node || obj->dirty_round >= round)
			continue;
		obj->dirty_round = round;
		object_get(obj);
		found = obj;
		break;
	}
	spin_unlock(&dirty.lock);
	return found;
}

void file_dirty_soon(struct object *obj)
{
	bool is = false;

	spin_lock(&obj->lock);
	if (obj->nr_dirty) {
		is = true;
		spin_lock(&dirty.lock);
		obj->dirty_since = 0;
		list_move(&obj->dirty_link, &dirty.objects);
		spin_unlock(&dirty.lock);
	}
	spin_unlock(&obj->lock);
	if (is)
		wake_all(&dirty.due);
}

int file_dirty_flush(struct object *obj, uint64_t first, uint64_t end, bool sync)
{
	return dirty.ops ? dirty.ops->flush(obj, first, end, sync) : 0;
}
