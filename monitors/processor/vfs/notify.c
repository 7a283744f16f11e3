/* SPDX-License-Identifier: MIT */
/*
 * Watches of files, and the queues of events.
 *
 * Flow:	see notify.h. A watched inode has one mark, found by the inode and by the path of a
 *		directory, with the watches that instances have of it, and those of descriptors
 *		(F_NOTIFY), whose files' owners are signalled at once.
 * Invariants:	a mark holds one reference of its inode, so the inode stays the file's only one. The
 *		last other reference of one that has lost its last name is IN_DELETE_SELF.
 *		A queue has at most notify_max_events and an IN_Q_OVERFLOW behind them.
 *		A watch of a descriptor goes before the file does: its table has the file open, or
 *		a thread that is closing it there, or adding the watch, holds the file.
 * Locking:	lock guards everything here. inodes are put without it.
 */
#include "notify.h"

#include <kernel/panic.h>
#include <kernel/spinlock.h>
#include <kernel/wait.h>
#include <lib/err.h>
#include <lib/hash.h>
#include <lib/list.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <processor/account/account.h>
#include <processor/ipc/async.h>
#include <processor/process/process.h>

#define BUCKETS 256u

struct notify_group {
	struct list_head link; /* groups */
	uint32_t uid;          /* const: whose instances and watches it counts for */
	uint32_t nr_watches;
	int32_t last_wd;
	struct list_head watches; /* watch.group_link */
	struct list_head events;
	uint32_t nr_events;
	uint64_t bytes;
	bool overflown; /* the last event says so */
	struct waitqueue wait;
};

struct mark {
	struct hlist_node by_inode, by_text;
	struct list_head link;    /* marks */
	struct inode *inode;      /* counted */
	char *text;               /* canonical path of a directory; NULL: of another file */
	bool removed;             /* its last name is gone */
	struct list_head watches; /* watch.mark_link */
};

struct watch {
	struct list_head mark_link, group_link;
	struct mark *mark;
	struct notify_group *group; /* NULL: of a descriptor */
	int32_t wd;                 /* or the descriptor */
	uint32_t mask;

	struct file *file;         /* of a descriptor: the directory; not counted */
	const struct files *table; /* where it is open; an address only */
};

uint32_t notify_nr_watches, notify_nr_dir_watches;
uint32_t notify_max_events = 16384, notify_max_groups = 128, notify_max_watches = 65536;

static struct spinlock lock = SPINLOCK_INIT("notify", RANK_SPIN_MONITOR);
static struct hlist_head inodes[BUCKETS], texts[BUCKETS]; /* lock */
static LIST_HEAD(marks);                                  /* lock */
static LIST_HEAD(groups);                                 /* lock */
static uint32_t last_cookie;                              /* lock */

static struct hlist_head *inode_bucket(const struct inode *inode)
{
	return &inodes[hash64((uintptr_t)inode) % BUCKETS];
}

static struct hlist_head *text_bucket(const char *text, size_t len)
{
	return &texts[hash_bytes(text, len, 0) % BUCKETS];
}

static struct mark *mark_of_locked(const struct inode *inode)
{
	struct mark *m;

	assert_spin_held(&lock);
	hlist_for_each_entry(m, inode_bucket(inode), by_inode) {
		if (m->inode == inode)
			return m;
	}
	return NULL;
}

static struct mark *mark_at_locked(const char *text, size_t len)
{
	struct mark *m;

	assert_spin_held(&lock);
	hlist_for_each_entry(m, text_bucket(text, len), by_text) {
		if (!strncmp(m->text, text, len) && !m->text[len] && !m->removed)
			return m;
	}
	return NULL;
}

static void set_text_locked(struct mark *m, char *text)
{
	assert_spin_held(&lock);
	hlist_del(&m->by_text);
	kmem_free(m->text);
	m->text = text;
	if (text)
		hlist_add_head(&m->by_text, text_bucket(text, strlen(text)));
}

/* --- queues ---------------------------------------------------------------------------- */

static bool is_same(const struct notify_event *e, const struct notify_event *last)
{
	return e->wd == last->wd && e->mask == last->mask && e->cookie == last->cookie &&
	       e->name_len == last->name_len && !memcmp(e->name, last->name, e->name_len);
}

static void append_locked(struct notify_group *g, struct notify_event *e)
{
	assert_spin_held(&lock);
	list_add_tail(&e->link, &g->events);
	g->nr_events++;
	g->bytes += sizeof(struct linux_inotify_event) + e->name_len;
	wake_one(&g->wait);
}

static void overflow_locked(struct notify_group *g)
{
	struct notify_event *e;

	assert_spin_held(&lock);
	if (g->overflown)
		return;
	e = kmem_alloc(NULL, sizeof(*e)); /* one an instance: the program is not asked for it */
	if (!e)
		return;
	e->wd = -1;
	e->mask = IN_Q_OVERFLOW;
	g->overflown = true;
	append_locked(g, e);
}

static void queue_locked(struct notify_group *g, int32_t wd, uint32_t mask, uint32_t cookie,
			 const char *name)
{
	const size_t len = name ? strlen(name) : 0;
	const uint32_t name_len = len ? (uint32_t)ALIGN_UP(len + 1, (size_t)16) : 0;
	struct notify_event *e = NULL, *last;

	assert_spin_held(&lock);
	if (g->nr_events < READ_ONCE(notify_max_events))
		e = kmem_alloc(kmem_account_of(g), sizeof(*e) + name_len);
	if (!e) {
		overflow_locked(g);
		return;
	}
	e->wd = wd;
	e->mask = mask;
	e->cookie = cookie;
	e->name_len = name_len;
	memcpy(e->name, name ? name : "", len);
	last = list_empty(&g->events) ? NULL
				      : list_entry(g->events.prev, struct notify_event, link);
	if (last && is_same(e, last))
		kmem_free(e);
	else
		append_locked(g, e);
}

struct notify_event *notify_take(struct notify_group *g, uint64_t space)
{
	struct notify_event *e;

	spin_lock(&lock);
	e = list_first_entry_or_null(&g->events, struct notify_event, link);
	if (e && space < sizeof(struct linux_inotify_event) + e->name_len) {
		e = ERR_PTR(-EINVAL);
	} else if (e) {
		list_del(&e->link);
		g->nr_events--;
		g->bytes -= sizeof(struct linux_inotify_event) + e->name_len;
		if (e->mask & IN_Q_OVERFLOW)
			g->overflown = false;
	}
	spin_unlock(&lock);
	return e;
}

void notify_untake(struct notify_group *g, struct notify_event *e)
{
	spin_lock(&lock);
	list_add(&e->link, &g->events);
	g->nr_events++;
	g->bytes += sizeof(struct linux_inotify_event) + e->name_len;
	if (e->mask & IN_Q_OVERFLOW)
		g->overflown = true;
	spin_unlock(&lock);
}

uint64_t notify_bytes(struct notify_group *g)
{
	return READ_ONCE(g->bytes);
}

struct waitqueue *notify_wait(struct notify_group *g)
{
	return &g->wait;
}

/* --- watches ---------------------------------------------------------------------------- */

/* A mark without a watch goes onto @gone, to be freed when the lock is dropped. */
static void watch_free_locked(struct watch *w, struct list_head *gone)
{
	struct mark *m = w->mark;

	assert_spin_held(&lock);
	list_del(&w->mark_link);
	list_del(&w->group_link);
	ASSERT(notify_nr_watches > 0);
	WRITE_ONCE(notify_nr_watches, notify_nr_watches - 1);
	if (w->group) {
		ASSERT(w->group->nr_watches > 0);
		w->group->nr_watches--;
	} else {
		ASSERT(notify_nr_dir_watches > 0);
		WRITE_ONCE(notify_nr_dir_watches, notify_nr_dir_watches - 1);
	}
	kmem_free(w);
	if (!list_empty(&m->watches))
		return;
	hlist_del(&m->by_inode);
	set_text_locked(m, NULL);
	list_del(&m->link);
	__atomic_store_n(&m->inode->watch, NULL, __ATOMIC_RELAXED);
	list_add_tail(&m->link, gone);
}

static void put_gone(struct list_head *gone)
{
	struct mark *m, *tmp;

	list_for_each_entry_safe(m, tmp, gone, link) {
		list_del(&m->link);
		inode_put(m->inode);
		kmem_free(m);
	}
}

/* The owner of a directory that is open gets the signal of F_SETSIG, or SIGIO. */
static void signal_owner_locked(const struct watch *w)
{
	const struct file_owner owner = async_owner(w->file);

	assert_spin_held(&lock);
	async_tell(&owner, async_signal(w->file), w->wd, POLL_MSG);
}

static bool is_once(const struct watch *w)
{
	return w->group ? w->mask & IN_ONESHOT : !(w->mask & NOTIFY_MULTISHOT);
}

static void watch_end_locked(struct watch *w, struct list_head *gone)
{
	assert_spin_held(&lock);
	if (w->group)
		queue_locked(w->group, w->wd, IN_IGNORED, 0, NULL);
	watch_free_locked(w, gone);
}

/* The watches of @m that want it get the event; the last of them may end with it. */
static void tell_locked(struct mark *m, uint32_t mask, uint32_t cookie, const char *name,
			struct list_head *gone)
{
	struct watch *w, *tmp;

	assert_spin_held(&lock);
	list_for_each_entry_safe(w, tmp, &m->watches, mark_link) {
		if (!(w->mask & mask & NOTIFY_EVENTS))
			continue;
		if (w->group)
			queue_locked(w->group, w->wd, mask, cookie, name);
		else
			signal_owner_locked(w);
		if (is_once(w))
			watch_end_locked(w, gone);
	}
}

static void tell_gone_locked(struct mark *m, struct list_head *gone)
{
	struct watch *w, *tmp;

	assert_spin_held(&lock);
	list_for_each_entry_safe(w, tmp, &m->watches, mark_link) {
		if (w->group && (w->mask & IN_DELETE_SELF))
			queue_locked(w->group, w->wd, IN_DELETE_SELF, 0, NULL);
		watch_end_locked(w, gone);
	}
}

/* inode_put() of a watched one. */
static void put_watched(struct inode *inode)
{
	LIST_HEAD(gone);
	struct mark *m;
	bool last;

	spin_lock(&lock);
	m = mark_of_locked(inode);
	last = refcount_dec_and_test(&inode->refs);
	ASSERT(!m || !last); /* the mark has one */
	if (m && m->removed && refcount_read(&inode->refs) == 1)
		tell_gone_locked(m, &gone);
	spin_unlock(&lock);
	put_gone(&gone);
	if (last)
		inode->ops->release(inode);
}

const struct inode_watch notify_watch = { .put = put_watched };

/* --- events ------------------------------------------------------------------------------ */

void notify_inode_at(struct inode *inode, const char *text, uint32_t mask)
{
	const uint32_t told = mask | (inode_is_dir(inode) ? IN_ISDIR : 0);
	const char *slash = text ? strrchr(text, '/') : NULL;
	LIST_HEAD(gone);
	struct mark *m;

	spin_lock(&lock);
	if (slash && slash[1]) {
		m = slash == text ? mark_at_locked("/", 1)
				  : mark_at_locked(text, (size_t)(slash - text));
		if (m)
			tell_locked(m, told, 0, slash + 1, &gone);
	}
	m = mark_of_locked(inode);
	if (m)
		tell_locked(m, told, 0, NULL, &gone);
	spin_unlock(&lock);
	put_gone(&gone);
}

void notify_entry_slow(struct inode *dir, const char *name, struct inode *inode, bool is_dir,
		       uint32_t mask)
{
	LIST_HEAD(gone);
	struct mark *m;

	spin_lock(&lock);
	m = mark_of_locked(dir);
	if (m)
		tell_locked(m, mask | (is_dir ? IN_ISDIR : 0), 0, name, &gone);
	m = inode ? mark_of_locked(inode) : NULL;
	if (m)
		tell_locked(m, IN_ATTRIB, 0, NULL, &gone);
	spin_unlock(&lock);
	put_gone(&gone);
}

/* One name of @inode is gone, of which the caller holds one reference; @last: there is no other. */
static void unlinked_locked(struct inode *inode, bool last, struct list_head *gone)
{
	struct mark *m = mark_of_locked(inode);

	assert_spin_held(&lock);
	if (!m)
		return;
	if (!inode_is_dir(inode))
		tell_locked(m, IN_ATTRIB, 0, NULL, gone);
	m = mark_of_locked(inode); /* unless that was the last watch */
	if (!m || !last)
		return;
	m->removed = true;
	if (refcount_read(&inode->refs) == 2)
		tell_gone_locked(m, gone);
}

static bool had_one_name(const struct path *at)
{
	return inode_is_dir(at->inode) || at->attr.nlink <= 1;
}

void notify_removed_slow(struct inode *dir, const char *name, const struct path *victim)
{
	LIST_HEAD(gone);
	struct mark *m;

	spin_lock(&lock);
	unlinked_locked(victim->inode, had_one_name(victim), &gone);
	m = mark_of_locked(dir);
	if (m)
		tell_locked(m, IN_DELETE | (inode_is_dir(victim->inode) ? IN_ISDIR : 0), 0, name,
			    &gone);
	spin_unlock(&lock);
	put_gone(&gone);
}

static void move_locked(struct inode *from, const char *old, struct inode *to, const char *new,
			struct inode *moved, struct list_head *gone)
{
	const uint32_t is_dir = inode_is_dir(moved) ? IN_ISDIR : 0;
	const uint32_t cookie = ++last_cookie;
	struct mark *m;

	assert_spin_held(&lock);
	m = from == to ? mark_of_locked(from) : NULL;
	if (m)
		tell_locked(m, NOTIFY_RENAME | is_dir, cookie, old, gone);
	m = mark_of_locked(from);
	if (m)
		tell_locked(m, IN_MOVED_FROM | is_dir, cookie, old, gone);
	m = mark_of_locked(to);
	if (m)
		tell_locked(m, IN_MOVED_TO | is_dir, cookie, new, gone);
}

static void moved_self_locked(struct inode *moved, struct list_head *gone)
{
	struct mark *m = mark_of_locked(moved);

	assert_spin_held(&lock);
	if (m)
		tell_locked(m, IN_MOVE_SELF, 0, NULL, gone);
}

/* Directories at or below @from are at @dir/@name now. */
static void paths_moved_locked(const char *from, const char *dir, const char *name)
{
	const size_t from_len = strlen(from), dir_len = strcmp(dir, "/") ? strlen(dir) : 0;
	struct mark *m;

	assert_spin_held(&lock);
	list_for_each_entry(m, &marks, link) {
		size_t size;
		char *text;

		if (!m->text || strncmp(m->text, from, from_len) ||
		    (m->text[from_len] && m->text[from_len] != '/'))
			continue;
		size = dir_len + 1 + strlen(name) + strlen(m->text + from_len) + 1;
		text = kmem_alloc(kmem_account_of(m), size);
		if (text) {
			memcpy(text, dir, dir_len);
			text[dir_len] = '/';
			strlcpy(text + dir_len + 1, name, size - dir_len - 1);
			strlcpy(text + strlen(text), m->text + from_len, size - strlen(text));
		}
		set_text_locked(m, text); /* without memory its files are told no more by name */
	}
}

void notify_renamed_slow(const struct rename_args *how, const char *from_text, const char *to_dir,
			 bool target_was_last)
{
	LIST_HEAD(gone);

	spin_lock(&lock);
	move_locked(how->from_dir, how->from, how->to_dir, how->to, how->source, &gone);
	if (how->target && !how->exchange)
		unlinked_locked(how->target, target_was_last, &gone);
	moved_self_locked(how->source, &gone);
	if (how->exchange) {
		move_locked(how->to_dir, how->to, how->from_dir, how->from, how->target, &gone);
		moved_self_locked(how->target, &gone);
	} else if (inode_is_dir(how->source)) {
		paths_moved_locked(from_text, to_dir, how->to);
	}
	spin_unlock(&lock);
	put_gone(&gone);
}

/* --- instances ---------------------------------------------------------------------------- */

struct notify_group *notify_group_create(uint32_t uid)
{
	struct notify_group *g = kmem_alloc(kmem_current(), sizeof(*g)), *other;
	uint32_t nr = 0;

	if (!g)
		return ERR_PTR(-ENOMEM);
	g->uid = uid;
	list_init(&g->watches);
	list_init(&g->events);
	waitqueue_init(&g->wait);
	spin_lock(&lock);
	list_for_each_entry(other, &groups, link)
		nr += other->uid == uid;
	if (nr < READ_ONCE(notify_max_groups))
		list_add_tail(&g->link, &groups);
	else
		nr = UINT32_MAX;
	spin_unlock(&lock);
	if (nr != UINT32_MAX)
		return g;
	kmem_free(g);
	return ERR_PTR(-EMFILE);
}

void notify_group_free(struct notify_group *g)
{
	struct notify_event *e, *tmp;
	struct watch *w, *next;
	LIST_HEAD(gone);

	spin_lock(&lock);
	list_del(&g->link);
	list_for_each_entry_safe(w, next, &g->watches, group_link)
		watch_free_locked(w, &gone);
	spin_unlock(&lock);
	put_gone(&gone);
	list_for_each_entry_safe(e, tmp, &g->events, link)
		kmem_free(e);
	kmem_free(g);
}

static struct watch *watch_of_locked(const struct notify_group *g, const struct mark *m)
{
	struct watch *w;

	assert_spin_held(&lock);
	list_for_each_entry(w, &m->watches, mark_link) {
		if (w->group == g)
			return w;
	}
	return NULL;
}

static bool may_watch_locked(const struct notify_group *g)
{
	const struct notify_group *other;
	uint64_t nr = 0;

	assert_spin_held(&lock);
	list_for_each_entry(other, &groups, link)
		nr += other->uid == g->uid ? other->nr_watches : 0;
	return nr < READ_ONCE(notify_max_watches) && g->last_wd < INT32_MAX;
}

static int change_locked(struct watch *w, uint32_t mask)
{
	assert_spin_held(&lock);
	if (mask & IN_MASK_CREATE)
		return -EEXIST;
	w->mask = mask & IN_MASK_ADD ? w->mask | mask : mask;
	return w->wd;
}

/* A mark that nothing knows; NULL: no memory. @text of a directory, or NULL. */
static struct mark *mark_create(struct kmem_account *account, struct inode *inode, const char *text)
{
	struct mark *m = kmem_alloc(account, sizeof(*m));

	if (!m)
		return NULL;
	m->inode = inode;
	list_init(&m->watches);
	m->text = text ? kmem_strdup(account, text) : NULL;
	if (!text || m->text)
		return m;
	kmem_free(m);
	return NULL;
}

/* One that was not needed, or NULL. */
static void mark_free(struct mark *m)
{
	kmem_free(m ? m->text : NULL);
	kmem_free(m);
}

/* @w is one of the inode of *@m, a new mark: taken over, unless the inode has one. */
static void attach_locked(struct mark **m, struct watch *w)
{
	struct mark *mark = mark_of_locked((*m)->inode);

	assert_spin_held(&lock);
	if (!mark) {
		mark = *m;
		*m = NULL;
		list_add_tail(&mark->link, &marks);
		hlist_add_head(&mark->by_inode, inode_bucket(mark->inode));
		if (mark->text)
			hlist_add_head(&mark->by_text, text_bucket(mark->text, strlen(mark->text)));
		inode_get(mark->inode);
		__atomic_store_n(&mark->inode->watch, &notify_watch, __ATOMIC_RELAXED);
	}
	w->mark = mark;
	list_add(&w->mark_link, &mark->watches);
	WRITE_ONCE(notify_nr_watches, notify_nr_watches + 1);
}

int notify_add(struct notify_group *g, const struct path *at, uint32_t mask)
{
	struct kmem_account *account = kmem_account_of(g);
	struct mark *m = mark_create(account, at->inode, inode_is_dir(at->inode) ? at->text : NULL);
	struct mark *old;
	struct watch *w = kmem_alloc(account, sizeof(*w)), *known;
	int ret = m && w ? 0 : -ENOMEM;

	if (!ret) {
		spin_lock(&lock);
		old = mark_of_locked(at->inode);
		known = old ? watch_of_locked(g, old) : NULL;
		if (known) {
			ret = change_locked(known, mask);
		} else if (!may_watch_locked(g)) {
			ret = -ENOSPC;
		} else {
			w->group = g;
			w->wd = ++g->last_wd;
			w->mask = mask;
			list_add_tail(&w->group_link, &g->watches);
			g->nr_watches++;
			attach_locked(&m, w);
			ret = w->wd;
			w = NULL;
		}
		spin_unlock(&lock);
	}
	kmem_free(w);
	mark_free(m);
	return ret;
}

int notify_remove(struct notify_group *g, int wd)
{
	struct watch *w, *found = NULL;
	LIST_HEAD(gone);

	spin_lock(&lock);
	list_for_each_entry(w, &g->watches, group_link) {
		if (w->wd == wd)
			found = w;
	}
	if (found) {
		queue_locked(g, wd, IN_IGNORED, 0, NULL);
		watch_free_locked(found, &gone);
	}
	spin_unlock(&lock);
	put_gone(&gone);
	return found ? 0 : -EINVAL;
}

/* --- open directories -------------------------------------------------------------------- */

static struct watch *watch_of_file_locked(const struct file *f, const struct files *table)
{
	const struct mark *m = mark_of_locked(f->inode);
	struct watch *w;

	assert_spin_held(&lock);
	if (!m)
		return NULL;
	list_for_each_entry(w, &m->watches, mark_link) {
		if (w->file == f && w->table == table)
			return w;
	}
	return NULL;
}

int notify_dir_add(struct file *f, const struct files *table, int fd, const char *text,
		   uint32_t mask)
{
	struct mark *m = mark_create(kmem_current(), f->inode, text);
	struct watch *w = kmem_alloc(kmem_current(), sizeof(*w)), *known;
	const int err = m && w ? 0 : -ENOMEM;

	ASSERT(inode_is_dir(f->inode));
	if (!err) {
		spin_lock(&lock);
		known = watch_of_file_locked(f, table);
		if (known) {
			known->wd = fd;
			known->mask |= mask;
		} else {
			w->file = f;
			w->table = table;
			w->wd = fd;
			w->mask = mask;
			list_init(&w->group_link);
			WRITE_ONCE(notify_nr_dir_watches, notify_nr_dir_watches + 1);
			attach_locked(&m, w);
			w = NULL;
		}
		spin_unlock(&lock);
	}
	kmem_free(w);
	mark_free(m);
	return err;
}

void notify_dir_end_slow(struct file *f, const struct files *table)
{
	LIST_HEAD(gone);
	struct watch *w;

	spin_lock(&lock);
	w = watch_of_file_locked(f, table);
	if (w)
		watch_free_locked(w, &gone);
	spin_unlock(&lock);
	put_gone(&gone);
}
