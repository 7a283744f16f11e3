/* SPDX-License-Identifier: MIT */
/*
 * Objects: life, files, shared memory, and what the memory nodes have of a space.
 *
 * Flow:	pages of a shared object are p-local when they are written first, with a frame
 *		credit, and are written back to and fetched from the owners like those of anonymous
 *		objects. The home learns of the object when its first page is made, or at once if
 *		the object is reserved.
 * Invariants:	at most one object per (file, version) is in the table of files; an object leaves
 *		it with its last reference, which a line may hold. A page that an owner has
 *		acknowledged is in `stored` before its line loses its tag: a thread that finds no
 *		line looks at `stored` next and misses nothing.
 * Locking:	file_lock and shared_lock guard the tables, and nothing but an object's lock is
 *		taken inside them; an object is freed outside of them. object.lock guards size,
 *		seq, the range that is going away and nr_pages, the copy of the vRegion array and
 *		`stored`; it is never held across an RPC. One thread at a time introduces an object
 *		to its home (object.introducing); others wait for that, killably.
 * Ordering:	a range that goes away is blocked and seq grows, so that no line of it can be made;
 *		lines are dropped, the owners told, the range unblocked.
 */
#define PR_FMT "space: "

#include "object.h"

#include <kernel/counter.h>
#include <kernel/panic.h>
#include <kernel/printk.h>
#include <kernel/wait.h>
#include <kernel/work.h>
#include <lib/err.h>
#include <lib/hash.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <net/node.h>

#include "cache_private.h"
#include "excache.h"
#include "frames.h"
#include "home.h"
#include "owner.h"

#define PUT_THREADS  4 /* each may wait for a node that is silent */
/* Until a node that is a member has heard what another one has: it would have been fenced. */
#define HEARD_NS     (20 * NSEC_PER_SEC)
#define FILE_BUCKETS 1024 /* chains grow; the count of open files is in the hundreds */

static struct spinlock file_lock = SPINLOCK_INIT("object.table", RANK_SPIN_MONITOR);
static struct list_head file_table[FILE_BUCKETS]; /* file_lock; set up on first use */
static uint64_t nr_files;                         /* file_lock */

static uint64_t file_object_count(void)
{
	uint64_t nr;

	spin_lock(&file_lock);
	nr = nr_files;
	spin_unlock(&file_lock);
	return nr;
}
GAUGE(object_gauge, "excache.file_objects", "files that are open or cached", file_object_count);

static struct object *space_create(enum object_kind kind, uint64_t id, uint32_t home,
				   uint64_t vregion_size, uint64_t seed);
static void put_work(struct work *w);
/* The last reference of an anonymous or shared object is gone. */
static void space_end(struct object *obj);

static struct list_head *file_bucket_locked(const struct file_id *file)
{
	struct list_head *head =
		&file_table[hash64_pair(file->ino, (uint64_t)file->node << 32 | file->gen) %
			    FILE_BUCKETS];

	assert_spin_held(&file_lock);
	if (!head->next)
		list_init(head);
	return head;
}

static void object_init(struct object *obj, enum object_kind kind, uint64_t seed)
{
	obj->kind = kind;
	refcount_set(&obj->refs, 1);
	obj->seed = seed;
	spin_lock_init(&obj->lock, "object", RANK_EXCACHE_OBJECT);
	list_init(&obj->lines);
}

/* The object of exactly this version, referenced, or NULL. */
static struct object *find_locked(const struct file_attr *attr)
{
	struct object *obj;

	assert_spin_held(&file_lock);
	list_for_each_entry(obj, file_bucket_locked(&attr->file), table_link) {
		if (file_id_equal(&obj->file, &attr->file) && !obj->live &&
		    obj->version == attr->version && obj->size == attr->size &&
		    refcount_inc_not_zero(&obj->refs))
			return obj;
	}
	return NULL;
}

/* One of another version that still has lines, referenced, or NULL. */
static struct object *find_stale_locked(const struct file_attr *attr)
{
	struct object *obj;

	assert_spin_held(&file_lock);
	list_for_each_entry(obj, file_bucket_locked(&attr->file), table_link) {
		if (file_id_equal(&obj->file, &attr->file) && !obj->live &&
		    READ_ONCE(obj->nr_lines) > 0 &&
		    (obj->version != attr->version || obj->size != attr->size) &&
		    refcount_inc_not_zero(&obj->refs))
			return obj;
	}
	return NULL;
}

struct object *object_file_get(const struct file_attr *attr)
{
	struct object *fresh = kzalloc(sizeof(*fresh));
	struct object *obj, *stale;

	if (fresh) {
		object_init(fresh, OBJECT_FILE, hash64_pair(attr->file.ino, attr->file.node) >> 1);
		fresh->file = attr->file;
		fresh->version = attr->version;
		fresh->size = attr->size;
		fresh->dev = (uint32_t)(attr->fsid & 0xffff);
	}
	spin_lock(&file_lock);
	obj = find_locked(attr);
	stale = find_stale_locked(attr);
	if (!obj && fresh) {
		list_add(&fresh->table_link, file_bucket_locked(&attr->file));
		nr_files++;
		obj = fresh;
		fresh = NULL;
	}
	spin_unlock(&file_lock);
	kfree(fresh);
	if (stale) {
		excache_drop(stale, 0, UINT64_MAX);
		object_put(stale);
	}
	return obj ? obj : ERR_PTR(-ENOMEM);
}

/* An object of any version, referenced, or NULL. */
static struct object *find_any_version(const struct file_id *file)
{
	struct object *obj, *found = NULL;

	spin_lock(&file_lock);
	list_for_each_entry(obj, file_bucket_locked(file), table_link) {
		if (!found && file_id_equal(&obj->file, file) && refcount_inc_not_zero(&obj->refs))
			found = obj;
	}
	spin_unlock(&file_lock);
	return found;
}

bool object_file_drop(const struct file_id *file)
{
	struct object *obj = find_any_version(file), *again;

	while (obj) {
		excache_drop(obj, 0, UINT64_MAX);
		object_put(obj);
		again = find_any_version(file);
		if (again == obj) {
			object_put(again);
			return false; /* its lines were not all that held it */
		}
		obj = again;
	}
	return true;
}

/* A line has a reference from the moment that it is counted. */
static bool is_idle(struct object *obj)
{
	bool idle;

	spin_lock(&obj->lock);
	idle = (size_t)refcount_read(&obj->refs) == obj->nr_lines && !obj->nr_dirty;
	spin_unlock(&obj->lock);
	return idle;
}

bool object_file_is_idle(const struct file_id *file)
{
	struct object *obj;
	bool idle = true;

	spin_lock(&file_lock);
	list_for_each_entry(obj, file_bucket_locked(file), table_link) {
		if (file_id_equal(&obj->file, file))
			idle &= is_idle(obj);
	}
	spin_unlock(&file_lock);
	return idle;
}

bool object_file_is_known(const struct file_id *file)
{
	const struct object *obj;
	bool known = false;

	spin_lock(&file_lock);
	list_for_each_entry(obj, file_bucket_locked(file), table_link)
		known |= file_id_equal(&obj->file, file);
	spin_unlock(&file_lock);
	return known;
}

static struct object *find_live_locked(const struct file_id *file)
{
	struct object *obj;

	assert_spin_held(&file_lock);
	list_for_each_entry(obj, file_bucket_locked(file), table_link) {
		if (obj->live && file_id_equal(&obj->file, file) &&
		    refcount_inc_not_zero(&obj->refs))
			return obj;
	}
	return NULL;
}

struct object *object_live_find(const struct file_id *file)
{
	struct object *obj;

	spin_lock(&file_lock);
	obj = find_live_locked(file);
	spin_unlock(&file_lock);
	return obj;
}

struct object *object_live_get(const struct file_id *file, uint64_t fsid)
{
	struct object *fresh = kzalloc(sizeof(*fresh));
	struct object *obj;

	if (fresh) {
		object_init(fresh, OBJECT_FILE, hash64_pair(file->ino, file->node) >> 1);
		fresh->file = *file;
		fresh->live = true;
		list_init(&fresh->dirty);
		fresh->dev = (uint32_t)(fsid & 0xffff);
	}
	spin_lock(&file_lock);
	obj = find_live_locked(file);
	if (!obj && fresh) {
		list_add(&fresh->table_link, file_bucket_locked(file));
		nr_files++;
		obj = fresh;
		fresh = NULL;
	}
	spin_unlock(&file_lock);
	kfree(fresh);
	return obj ? obj : ERR_PTR(-ENOMEM);
}

void object_put(struct object *obj)
{
	if (!refcount_dec_and_test(&obj->refs))
		return;
	if (obj->kind != OBJECT_FILE) {
		space_end(obj);
		return;
	}
	spin_lock(&file_lock);
	list_del(&obj->table_link);
	nr_files--;
	spin_unlock(&file_lock);
	windows_destroy(obj);
	kfree(obj->owner);
	kfree(obj->path);
	kfree(obj);
}

void object_set_path(struct object *obj, const char *path)
{
	char *expected = NULL, *copy;

	if (__atomic_load_n(&obj->path, __ATOMIC_RELAXED))
		return;
	copy = kstrdup(path);
	if (!__atomic_compare_exchange_n(&obj->path, &expected, copy, false, __ATOMIC_RELEASE,
					 __ATOMIC_RELAXED))
		kfree(copy);
}

#define SHARED_BUCKETS 256
#define PAGES_MAX      (SPACE_TOP >> PAGE_SHIFT)

static struct spinlock shared_lock = SPINLOCK_INIT("object.shared", RANK_SPIN_MONITOR);
static struct list_head shared_table[SHARED_BUCKETS]; /* shared_lock; set up on first use */
static struct waitqueue introduced = WAITQUEUE_INIT(introduced);
static struct waitqueue unblocked = WAITQUEUE_INIT(unblocked);

/* --- shared objects: life ------------------------------------------------------------ */

static struct list_head *shared_bucket_locked(uint64_t id)
{
	struct list_head *head = &shared_table[hash64(id) % SHARED_BUCKETS];

	assert_spin_held(&shared_lock);
	if (!head->next)
		list_init(head);
	return head;
}

/*
 * Another home, and with it another name, for an object that no home knows yet, as its own is gone.
 * False: there is none.
 */
static bool choose_another_home(struct object *obj)
{
	const uint64_t number = object_id_number(obj->id);
	const uint32_t home = excache.ops->space_home(number);

	if (!home || home == obj->home || destroy_set_home(obj->destroy, home))
		return false;
	spin_lock(&shared_lock);
	list_del(&obj->table_link);
	obj->home = home;
	obj->id = object_id(home, number);
	list_add(&obj->table_link, shared_bucket_locked(obj->id));
	spin_unlock(&shared_lock);
	return true;
}

/* True: no other thread does it, so the caller does. *@known: the home knows the object. */
static bool introduce_begin(struct object *obj, bool *known)
{
	bool mine;

	spin_lock(&obj->lock);
	*known = READ_ONCE(obj->vregion_size) != 0;
	mine = !*known && !obj->introducing;
	if (mine)
		obj->introducing = true;
	spin_unlock(&obj->lock);
	return mine;
}

void object_introduced(struct object *obj)
{
	spin_lock(&obj->lock);
	obj->introducing = false;
	spin_unlock(&obj->lock);
	wake_all(&introduced);
}

static int introduce(struct object *obj, uint64_t len)
{
	bool known, left, mine = false;
	int err;

	err = wait_event_killable(&introduced, (mine = introduce_begin(obj, &known)) || known);
	if (err || !mine)
		return err;
	do {
		left = false;
		err = home_introduce(obj, len, &left);
	} while (err == -EHOSTDOWN && choose_another_home(obj));
	if (!left)
		object_introduced(obj);
	return err;
}

static int shared_introduce(struct object *obj)
{
	return introduce(obj, 0);
}

struct object *object_shared_create(uint64_t size, bool reserve)
{
	const uint64_t number = object_new_number();
	const uint32_t home = excache.ops->space_home(number);
	const uint64_t id = object_id(home, number);
	struct object *obj;
	int err;

	if (size > SPACE_TOP)
		return ERR_PTR(-EFBIG);
	if (!home)
		return ERR_PTR(-EHOSTDOWN);
	obj = space_create(OBJECT_SHARED, id, home, 0, hash64(id) >> 1);
	if (IS_ERR(obj))
		return obj;
	obj->size = size;
	obj->reserved = reserve;
	spin_lock(&shared_lock);
	list_add(&obj->table_link, shared_bucket_locked(id));
	spin_unlock(&shared_lock);
	err = reserve ? introduce(obj, (size + PAGE_SIZE - 1) & ~(uint64_t)(PAGE_SIZE - 1)) : 0;
	if (err) {
		object_put(obj);
		return ERR_PTR(err);
	}
	return obj;
}

static void shared_forget(struct object *obj)
{
	spin_lock(&shared_lock);
	list_del(&obj->table_link);
	spin_unlock(&shared_lock);
}

struct object *object_shared_find(uint64_t id)
{
	struct object *obj, *found = NULL;

	spin_lock(&shared_lock);
	list_for_each_entry(obj, shared_bucket_locked(id), table_link) {
		if (obj->id == id && refcount_inc_not_zero(&obj->refs)) {
			found = obj;
			break;
		}
	}
	spin_unlock(&shared_lock);
	return found;
}

/* --- shared objects: pages ----------------------------------------------------------- */

/* -EAGAIN: the page is going away, wait; -EIO: @bounded, and it lies behind the end. */
static int may_begin(struct object *obj, uint64_t pgoff, bool bounded, uint64_t *seq)
{
	int err = 0;

	spin_lock(&obj->lock);
	*seq = obj->seq;
	if (pgoff - obj->going_first < obj->going_end - obj->going_first)
		err = -EAGAIN;
	else if (bounded && pgoff >= DIV_ROUND_UP(obj->size, PAGE_SIZE))
		err = -EIO;
	spin_unlock(&obj->lock);
	return err;
}

bool object_shared_now(struct object *obj, uint64_t *seq, uint64_t *nr_pages)
{
	bool stays;

	spin_lock(&obj->lock);
	*seq = obj->seq;
	*nr_pages = DIV_ROUND_UP(obj->size, PAGE_SIZE);
	stays = obj->going_first == obj->going_end;
	spin_unlock(&obj->lock);
	return stays;
}

static bool is_going(struct object *obj, uint64_t pgoff)
{
	uint64_t seq;

	return may_begin(obj, pgoff, false, &seq) == -EAGAIN;
}

static int shared_get_once(struct object *obj, uint64_t pgoff, bool make, bool bounded,
			   struct line **out)
{
	uint64_t seq;
	int err = may_begin(obj, pgoff, bounded, &seq);

	if (err == -EAGAIN)
		err = wait_event_killable(&unblocked, !is_going(obj, pgoff)) ? -EINTR : -EAGAIN;
	if (err)
		return err;
	err = excache_get(obj, pgoff, EXCACHE_FIND, out);
	if (err != -ENOENT)
		return err;
	if (object_stored(obj, pgoff)) {
		err = excache_get_at(obj, pgoff, EXCACHE_FETCH, NULL, seq, out);
		return err == -ENOENT ? -EIO : err;
	}
	return make ? excache_get_at(obj, pgoff, EXCACHE_ZERO, NULL, seq, out) : -ENOENT;
}

static int shared_get(struct object *obj, uint64_t pgoff, bool make, bool bounded,
		      struct line **out)
{
	int err;

	if (pgoff >= PAGES_MAX)
		return -EFBIG;
	do {
		err = READ_ONCE(obj->failed) ? -EIO
					     : shared_get_once(obj, pgoff, make, bounded, out);
	} while (err == -EAGAIN);
	return err;
}

int object_shared_get(struct object *obj, uint64_t pgoff, bool write, struct line **out)
{
	return shared_get(obj, pgoff, write, false, out);
}

int object_shared_fault(struct object *obj, uint64_t pgoff, struct line **out)
{
	const int err = shared_get(obj, pgoff, true, true, out);

	return err == -EFBIG ? -EIO : err;
}

uint64_t object_shared_pages(struct object *obj)
{
	uint64_t nr;

	spin_lock(&obj->lock);
	nr = obj->nr_pages;
	spin_unlock(&obj->lock);
	return nr;
}

/* --- shared objects: ranges that go away --------------------------------------------- */

static bool begin_going(struct object *obj, uint64_t first, uint64_t end)
{
	bool mine;

	spin_lock(&obj->lock);
	mine = obj->going_first == obj->going_end;
	if (mine) {
		obj->going_first = first;
		obj->going_end = end;
		obj->seq++;
	}
	spin_unlock(&obj->lock);
	return mine;
}

int object_going_begin(struct object *obj, uint64_t first, uint64_t end)
{
	return wait_event_killable(&unblocked, begin_going(obj, first, end));
}

/* On return the object may be gone, unless it is the caller's. */
bool object_going_end(struct object *obj, int err)
{
	bool left;

	spin_lock(&obj->lock);
	obj->going_first = obj->going_end = 0;
	obj->drop_err = err;
	left = obj->drop_left;
	obj->drop_left = false;
	spin_unlock(&obj->lock);
	wake_all(&unblocked);
	return left;
}

int object_going_wait(struct object *obj)
{
	uint64_t seq, nr;
	int err = wait_event_killable(&unblocked, object_shared_now(obj, &seq, &nr));

	spin_lock(&obj->lock);
	if (obj->going_first == obj->going_end) {
		err = obj->drop_err;
	} else {
		object_get(obj);
		obj->drop_left = true;
	}
	spin_unlock(&obj->lock);
	return err;
}

/* --- programs and writers ------------------------------------------------------------ */

/* Count one more user in the direction of @step, unless the other direction has some. */
static int users_begin(struct object *obj, int step)
{
	int old = __atomic_load_n(&obj->writers, __ATOMIC_RELAXED);

	do {
		if (old * step < 0)
			return -ETXTBSY;
	} while (!__atomic_compare_exchange_n(&obj->writers, &old, old + step, true,
					      __ATOMIC_ACQ_REL, __ATOMIC_RELAXED));
	return 0;
}

int object_write_begin(struct object *obj)
{
	return users_begin(obj, 1);
}

void object_write_end(struct object *obj)
{
	__atomic_sub_fetch(&obj->writers, 1, __ATOMIC_ACQ_REL);
}

int object_run_begin(struct object *obj)
{
	return users_begin(obj, -1);
}

void object_run_end(struct object *obj)
{
	__atomic_add_fetch(&obj->writers, 1, __ATOMIC_ACQ_REL);
}

#define REDIRECTS_MAX 16 /* of one request: after more of them, owners and home disagree */

COUNTER(object_redirects, "excache.redirected", "requests redirected to a new owner");

static uint64_t nr_spaces; /* atomic */

size_t object_space_count(void)
{
	return __atomic_load_n(&nr_spaces, __ATOMIC_RELAXED);
}
GAUGE(object_space_gauge, "excache.space_objects", "anonymous and shared objects alive",
      object_space_count);

/* --- spaces: life -------------------------------------------------------------------- */

static struct workqueue *put_queue; /* const after start */

int object_init_queue(void)
{
	put_queue = workqueue_create("object-put", PUT_THREADS);
	return IS_ERR(put_queue) ? PTR_ERR(put_queue) : 0;
}

static void put_work(struct work *w)
{
	object_put(container_of(w, struct object, put_work));
}

/*
 * object_put() in another thread, as the end of an object may wait for lines that another node
 * keeps. Once in the life of @obj.
 */
static void object_put_later(struct object *obj)
{
	(void)work_queue(put_queue, &obj->put_work);
}

static struct object *space_create(enum object_kind kind, uint64_t id, uint32_t home,
				   uint64_t vregion_size, uint64_t seed)
{
	struct object *obj = kzalloc(sizeof(*obj));

	if (!obj)
		return ERR_PTR(-ENOMEM);
	object_init(obj, kind, seed);
	obj->id = id;
	obj->home = home;
	obj->vregion_size = vregion_size;
	radix_init(&obj->vregions);
	page_bits_init(&obj->stored);
	place_map_init(&obj->places);
	page_bits_init(&obj->hidden);
	list_init(&obj->shadows);
	work_init(&obj->put_work, put_work);
	shrink_init_object(obj);
	obj->destroy = destroy_alloc(home);
	if (!obj->destroy) {
		kfree(obj);
		return ERR_PTR(-ENOMEM);
	}
	__atomic_add_fetch(&nr_spaces, 1, __ATOMIC_RELAXED);
	return obj;
}

struct object *object_anon_create(uint64_t id, uint32_t home, uint64_t vregion_size, uint64_t seed)
{
	return space_create(OBJECT_ANON, id, home, vregion_size, seed);
}

uint64_t object_number(uint32_t node, uint32_t incarn, uint64_t nr)
{
	return (uint64_t)node << 32 | (uint32_t)(hash64(incarn) + nr);
}

uint64_t object_new_number(void)
{
	static atomic64_t counter;
	const uint64_t nr = (uint64_t)atomic64_inc_return(&counter);

	/* Each life starts elsewhere: spaces of an earlier one may still be on their way. */
	return object_number(node_self()->id, node_self()->incarn, nr);
}

static uint64_t nr_stored[OBJECT_FILE]; /* atomic; by kind */

/* obj->stored had @before members. */
static void stored_changed_locked(struct object *obj, uint64_t before) __must_hold(&obj->lock)
{
	assert_spin_held(&obj->lock);
	__atomic_add_fetch(&nr_stored[obj->kind], obj->stored.nr - before, __ATOMIC_RELAXED);
}

static void forget_stored(struct object *obj)
{
	uint64_t before;

	spin_lock(&obj->lock);
	before = obj->stored.nr;
	page_bits_destroy(&obj->stored);
	place_map_destroy(&obj->places);
	stored_changed_locked(obj, before);
	spin_unlock(&obj->lock);
}

static void space_free(struct object *obj)
{
	struct vregion *vr;
	uint64_t index;

	radix_for_each(vr, &obj->vregions, index)
		kfree(vr);
	radix_destroy(&obj->vregions);
	forget_stored(obj);
	page_bits_destroy(&obj->hidden);
	destroy_free(obj->destroy);
	kfree(obj->path);
	kfree(obj);
	__atomic_sub_fetch(&nr_spaces, 1, __ATOMIC_RELAXED);
}

/* The home hears of the end of @obj later. */
static void defer_destroy(struct object *obj, bool now)
{
	struct deferred_destroy *r = obj->destroy;

	obj->destroy = NULL;
	destroy_defer(r, obj->id, now);
}

void object_free_collapsed(struct object *obj, bool at_home)
{
	lock_not_needed(&obj->lock, "no line and no other thread names it");
	ASSERT(obj->nr_lines == 0);
	if (!at_home)
		defer_destroy(obj, false); /* owners have no page under that name */
	obj->vregion_size = 0;             /* the home knows nothing of it */
	object_put(obj);
}

#define END_THREADS 4 /* ends whose write-backs are over: no node is waited for */

COUNTER(object_late_ends, "excache.late_ends", "ends of objects that had to wait for write-backs");

static struct workqueue *end_wq; /* const after start */
static struct backlog ends;

struct quiet_end object_writeback_ended_locked(struct object *obj)
{
	struct quiet_end q = { 0 };

	assert_spin_held(&obj->lock);
	ASSERT(obj->nr_writebacks > 0);
	q.is = --obj->nr_writebacks == 0 && obj->nr_ahead == 0 && obj->held;
	q.then = q.is ? obj->then : NULL;
	return q;
}

struct quiet_end object_ahead_ended_locked(struct object *obj)
{
	struct quiet_end q = { 0 };

	assert_spin_held(&obj->lock);
	ASSERT(obj->nr_ahead > 0);
	q.is = --obj->nr_ahead == 0 && obj->nr_writebacks == 0 && obj->held;
	q.then = q.is ? obj->then : NULL;
	return q;
}

void object_quiet(const struct quiet_end *q)
{
	if (!q->is)
		return;
	wake_all(&excache.quiet);
	if (q->then)
		(void)work_queue(end_wq, q->then);
}

int object_ends_wait(void)
{
	return backlog_wait(&ends, WAIT_PLAIN);
}

uint64_t object_ends_left(void)
{
	return backlog_size(&ends);
}

int object_ends_init(void)
{
	backlog_init(&ends, "space.end");
	end_wq = workqueue_create("space-end", END_THREADS);
	return IS_ERR(end_wq) ? PTR_ERR(end_wq) : 0;
}

/* Answers the object behind it when that ends with it, as @obj was its last shadow. */
static struct object *space_end_one(struct object *obj)
{
	struct anon_collapse collapse = { 0 };
	struct object *gone = NULL;

	if (obj->backing)
		gone = excache.ops->unchain(obj, &collapse);
	if (obj->kind == OBJECT_SHARED)
		shared_forget(obj);
	excache_drop(obj, 0, UINT64_MAX);
	/* Unlinking a file gives its memory back at once. */
	if (obj->vregion_size || obj->perhaps_at_home)
		defer_destroy(obj,
			      obj->kind == OBJECT_SHARED || object_stores_any(obj, 0, UINT64_MAX));
	space_free(obj);
	if (collapse.as || collapse.shadow)
		excache.ops->collapse_soon(&collapse);
	return gone;
}

static void space_end_work(struct work *w)
{
	struct object *obj = container_of(w, struct object, end_work);
	struct backlog_item item;

	backlog_move(&ends, &obj->end_item, &item);
	obj = space_end_one(obj);
	if (obj)
		space_end(obj);
	backlog_done(&ends, &item);
}

/*
 * No write-back of @obj begins any more. False: one is under way, perhaps to a silent owner, for
 * which a thread that ends must not wait: a worker does the rest when it is over.
 */
static bool may_end_now(struct object *obj)
{
	bool now;

	spin_lock(&obj->lock);
	obj->held = true;
	now = obj->nr_writebacks == 0 && obj->nr_ahead == 0;
	if (!now) {
		work_init(&obj->end_work, space_end_work);
		(void)backlog_add(&ends, &obj->end_item);
		obj->then = &obj->end_work;
	}
	spin_unlock(&obj->lock);
	if (!now)
		counter_inc(&object_late_ends);
	return now;
}

static void space_end(struct object *obj)
{
	/* With it may go the last shadow of the object behind it, and so on. */
	while (obj && may_end_now(obj))
		obj = space_end_one(obj);
}

/* Woken when an object has failed. */
static struct waitqueue failures = WAITQUEUE_INIT(failures);

/* Of its failures the first one counts. */
static void fail_once(struct object *obj, int error, uint32_t node)
{
	int expected = 0;

	if (__atomic_compare_exchange_n(&obj->failed, &expected, error, false, __ATOMIC_SEQ_CST,
					__ATOMIC_RELAXED)) {
		excache.ops->failed(obj, error, node);
		wake_all(&failures);
	}
}

bool object_home_may_have_left(struct object *obj, int error, uint32_t owner)
{
	const uint64_t now = time_now_ns();
	uint64_t since = 0;

	if (error != -ESRCH || owner == obj->home || READ_ONCE(obj->failed))
		return false;
	if (__atomic_compare_exchange_n(&obj->unknown_since, &since, now, false, __ATOMIC_RELAXED,
					__ATOMIC_RELAXED))
		return true;
	return now - since < HEARD_NS;
}

int object_wait_for_home(struct object *obj)
{
	const uint64_t since = __atomic_load_n(&obj->unknown_since, __ATOMIC_RELAXED);
	const int err =
		wait_event_killable_timeout(&failures, READ_ONCE(obj->failed), since + HEARD_NS);

	return err == -EINTR ? err : 0;
}

void object_fail(struct object *obj, int error, uint64_t pgoff)
{
	uint32_t node = 0;

	if (READ_ONCE(obj->failed))
		return;
	if (obj->kind != OBJECT_FILE && object_owner_cached(obj, pgoff, &node) < 0)
		node = obj->home; /* the home says who has it, and has not */
	/* It was the home that could not be asked: calls end before object_node_gone(). */
	if (error == -EHOSTDOWN && obj->kind != OBJECT_FILE && rpc_peer_is_out(obj->home))
		node = obj->home;
	pr_err("%#llx: page %#llx is lost (node %u, error %d): its programs end\n",
	       (unsigned long long)obj->id, (unsigned long long)(pgoff << PAGE_SHIFT), node, error);
	fail_once(obj, error, node);
}

bool object_has_part_at(struct object *obj, uint32_t node)
{
	/* A home knows the object once it has told the size of its vRegions. */
	return !READ_ONCE(obj->failed) && READ_ONCE(obj->vregion_size) &&
	       (obj->home == node || object_frames(obj, node) > 0);
}

void object_node_gone(struct object *obj, uint32_t node)
{
	pr_err("%#llx: node %u is gone with a part of it: its programs end\n",
	       (unsigned long long)obj->id, node);
	fail_once(obj, -EHOSTDOWN, node);
	object_put_later(obj); /* it has failed now: it is found no more */
}

/* A shared object that has a part at @node, referenced; NULL: there is none. */
static struct object *shared_find_part(uint32_t node)
{
	struct object *obj;

	spin_lock(&shared_lock);
	for (size_t i = 0; i < SHARED_BUCKETS; i++) {
		if (!shared_table[i].next)
			continue;
		list_for_each_entry(obj, &shared_table[i], table_link) {
			if (object_has_part_at(obj, node) && refcount_inc_not_zero(&obj->refs))
				goto out;
		}
	}
	obj = NULL;
out:
	spin_unlock(&shared_lock);
	return obj;
}

void object_shared_node_gone(uint32_t node)
{
	struct object *obj;

	while ((obj = shared_find_part(node)))
		object_node_gone(obj, node);
}

/* --- vRegions ------------------------------------------------------------------------ */

int object_owner_cached(struct object *obj, uint64_t pgoff, uint32_t *owner)
{
	const struct vregion *vr;
	int err = -ENOENT;

	if (!obj->vregion_size)
		return -ENOENT;
	spin_lock(&obj->lock);
	vr = vregion_locked(obj, vregion_of(obj, pgoff));
	if (vr && vr->owner) {
		*owner = vr->owner;
		err = 0;
	}
	spin_unlock(&obj->lock);
	return err;
}

int object_set_vregion(struct object *obj, uint64_t index, const struct vregion *v)
{
	struct vregion *fresh = kmalloc(sizeof(*fresh));
	struct vregion *vr;
	int err = 0;

	spin_lock(&obj->lock);
	vr = radix_lookup(&obj->vregions, index);
	if (!vr) {
		err = fresh ? radix_insert(&obj->vregions, index, fresh) : -ENOMEM;
		if (!err) {
			*fresh = *v;
			fresh = NULL;
		}
	} else if (v->version >= vr->version) {
		*vr = *v;
	}
	spin_unlock(&obj->lock);
	kfree(fresh);
	return err;
}

static int enter_redirect(struct object *obj, const void *body, size_t len)
{
	struct vregion v;
	uint64_t index;
	const int err = owner_redirect_decode(body, len, &index, &v);

	return err ? err : object_set_vregion(obj, index, &v);
}

/* Was it known? */
static bool forget_owner(struct object *obj, uint64_t pgoff)
{
	struct vregion *vr;
	bool known;

	spin_lock(&obj->lock);
	vr = radix_lookup(&obj->vregions, vregion_of(obj, pgoff));
	known = vr && vr->owner;
	if (known)
		vr->owner = 0;
	spin_unlock(&obj->lock);
	return known;
}

int object_redirected(struct object *obj, uint64_t pgoff, const void *body, size_t len,
		      unsigned int tries)
{
	bool known = true;
	int err = 0;

	if (tries >= REDIRECTS_MAX) {
		counter_inc(&object_redirects);
		return -ELOOP;
	}
	if (body)
		err = enter_redirect(obj, body, len);
	/* After a second redirect the node that sent it may be the one behind. The home knows. */
	if (!body || tries > 0)
		known = forget_owner(obj, pgoff);
	/* Pages of one message of write-backs are answered one by one: it is one redirect. */
	if (body || known)
		counter_inc(&object_redirects);
	return err;
}

int object_owner(struct object *obj, uint64_t pgoff, uint32_t *owner)
{
	int err = object_owner_cached(obj, pgoff, owner);

	if (err == -ENOENT && obj->kind == OBJECT_SHARED && !READ_ONCE(obj->vregion_size)) {
		err = shared_introduce(obj);
		if (!err)
			err = -ENOENT;
	}
	/*
	 * Not read back from the copy: another thread's redirect may have taken the owner out of
	 * it again.
	 */
	return err == -ENOENT ? home_vregion_owner(obj, vregion_of(obj, pgoff), owner) : err;
}

/* --- stored pages -------------------------------------------------------------------- */

uint64_t object_stored_count(enum object_kind kind)
{
	return __atomic_load_n(&nr_stored[kind], __ATOMIC_RELAXED);
}

static uint64_t stored_count(void)
{
	return object_stored_count(OBJECT_ANON) + object_stored_count(OBJECT_SHARED);
}
GAUGE(stored_gauge, "excache.stored",
      "pages of programs and of files in memory that memory nodes have", stored_count);

bool object_stored(struct object *obj, uint64_t pgoff)
{
	bool stored;

	spin_lock(&obj->lock);
	stored = page_bits_test(&obj->stored, pgoff);
	spin_unlock(&obj->lock);
	return stored;
}

bool object_stores_any(struct object *obj, uint64_t first, uint64_t end)
{
	bool any;

	spin_lock(&obj->lock);
	any = page_bits_next(&obj->stored, first, end) < end;
	spin_unlock(&obj->lock);
	return any;
}

int object_set_stored(struct object *obj, uint64_t pgoff, uint64_t place)
{
	uint64_t before;
	int err;

	spin_lock(&obj->lock);
	before = obj->stored.nr;
	err = page_bits_set(&obj->stored, pgoff);
	place_map_set(&obj->places, pgoff, err ? PLACE_NONE : place);
	stored_changed_locked(obj, before);
	spin_unlock(&obj->lock);
	return err;
}

void object_charge_to(struct object *obj, struct kmem_account *account)
{
	spin_lock(&obj->lock);
	place_map_charge_to(&obj->places, account);
	spin_unlock(&obj->lock);
}

uint64_t object_place(struct object *obj, uint64_t pgoff)
{
	uint64_t place = PLACE_NONE;

	spin_lock(&obj->lock);
	if (page_bits_test(&obj->stored, pgoff))
		place = place_map_get(&obj->places, pgoff);
	spin_unlock(&obj->lock);
	return place;
}

void object_set_place(struct object *obj, uint64_t pgoff, uint64_t place)
{
	spin_lock(&obj->lock);
	if (page_bits_test(&obj->stored, pgoff))
		place_map_set(&obj->places, pgoff, place);
	spin_unlock(&obj->lock);
}

void object_merge_stored(struct object *obj, const struct object *from)
{
	uint64_t before, page;

	spin_lock(&obj->lock);
	before = obj->stored.nr;
	for (page = page_bits_next(&from->stored, 0, UINT64_MAX); page != UINT64_MAX;
	     page = page_bits_next(&from->stored, page + 1, UINT64_MAX))
		place_map_set(&obj->places, page, place_map_get(&from->places, page));
	page_bits_merge(&obj->stored, &from->stored);
	stored_changed_locked(obj, before);
	spin_unlock(&obj->lock);
}

uint64_t object_clear_stored(struct object *obj, uint64_t first, uint64_t end)
{
	uint64_t before, nr;

	spin_lock(&obj->lock);
	before = obj->stored.nr;
	nr = page_bits_clear_range(&obj->stored, first, end);
	place_map_clear(&obj->places, first, end);
	stored_changed_locked(obj, before);
	if (obj->kind == OBJECT_SHARED)
		obj->nr_pages -= nr;
	spin_unlock(&obj->lock);
	return nr;
}

int object_move_stored(struct object *obj, uint64_t from, uint64_t nr, uint64_t to)
{
	const uint64_t end = from + nr;
	uint64_t page = from;
	uint64_t before;
	int err = 0;

	while (!err) {
		spin_lock(&obj->lock);
		before = obj->stored.nr;
		page = page_bits_next(&obj->stored, page, end);
		if (page < end) {
			page_bits_clear(&obj->stored, page);
			err = page_bits_set(&obj->stored, page - from + to);
			/* Perhaps another owner's now. */
			place_map_set(&obj->places, page, PLACE_NONE);
			place_map_set(&obj->places, page - from + to, PLACE_NONE);
		}
		stored_changed_locked(obj, before);
		spin_unlock(&obj->lock);
		if (page >= end)
			break;
	}
	return err;
}
