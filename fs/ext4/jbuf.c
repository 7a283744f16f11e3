/* SPDX-License-Identifier: MIT */
/*
 * ext4 transactions: blocks and revokes.
 *
 * Flow:	ext4_write_access() makes a jbuf and puts it into the running transaction; when the
 *		committing one still needs the old contents for the log, it freezes a copy of them.
 *		The commit refiles jbufs (commit.c), the checkpoint releases them (checkpoint.c).
 * Context:	threads; sleeps while the buffer is written to the disk or to the log.
 * Locking:	see journal_priv.h.
 */
#include <kernel/panic.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <mm/slab.h>

#include "journal_priv.h"

static struct jbuf *jbuf_new(struct journal *j, struct bcache_buf *buf)
{
	struct jbuf *jb = ext4_small_alloc(j->fs);

	if (!jb)
		return NULL;
	jb->buf = buf;
	list_init(&jb->link);
	list_init(&jb->cp_link);
	return jb;
}

/* Free @jb if no transaction has it any more. */
void jbuf_release_locked(struct journal *j, struct jbuf *jb)
{
	struct bcache_buf *buf = jb->buf;

	assert_spin_held(&j->lock);
	if (jb->t || jb->cp)
		return;
	ASSERT(!jb->next && !jb->frozen && !jb->shadow);
	buf->journal = NULL;
	ext4_small_free(j->fs, jb);
	bcache_put(buf);
}

/* Take @jb out of its transaction, into the one that has changed it since, or into none. */
void jbuf_refile_locked(struct journal *j, struct jbuf *jb)
{
	assert_spin_held(&j->lock);
	ASSERT(jb->t && !jb->shadow);
	kfree(jb->frozen);
	jb->frozen = NULL;
	jb->logged = false;
	list_del(&jb->link);
	jb->t = jb->next;
	jb->modified = jb->next_modified;
	jb->freed = jb->next_freed;
	jb->next = NULL;
	jb->next_modified = false;
	jb->next_freed = false;
	if (jb->t) {
		list_add_tail(&jb->link, &jb->t->bufs);
	} else {
		bcache_unpin(jb->buf);
		jbuf_release_locked(j, jb);
	}
}

/* The mount is over, and nothing of it is written any more. */
void jbuf_discard(struct journal *j, struct jbuf *jb)
{
	struct bcache_buf *buf = jb->buf;

	lock_not_needed(&j->lock, "no handle is left, so no other thread is here");
	if (jb->t) {
		list_del(&jb->link);
		bcache_unpin(buf);
	}
	if (jb->cp)
		list_del(&jb->cp_link);
	kfree(jb->frozen);
	ext4_small_free(j->fs, jb);
	buf->journal = NULL;
	bcache_mark_clean(buf);
	bcache_put(buf);
}

/* *@out: the jbuf of @buf, made if there is none.  0 with the lock taken, or -ENOMEM. */
static int jbuf_get_and_lock(struct journal *j, struct bcache_buf *buf, struct jbuf **out)
	__acquires_if_0(&j->lock)
{
	struct jbuf *fresh = NULL;

	for (;;) {
		spin_lock(&j->lock);
		if (!buf->journal && fresh) {
			buf->journal = fresh;
			bcache_hold(buf);
			*out = fresh;
			return 0;
		}
		if (buf->journal) {
			ext4_small_free(j->fs, fresh);
			*out = buf->journal;
			return 0;
		}
		spin_unlock(&j->lock);
		fresh = jbuf_new(j, buf);
		if (!fresh)
			return -ENOMEM;
	}
}

enum access {
	ACCESS_OK,
	ACCESS_WRITING, /* wait until it is written in place */
	ACCESS_SHADOW,  /* wait until it is written to the log */
	ACCESS_FREEZE,  /* come back with memory for a copy */
};

/* Let @t, the running transaction, have @jb; @freed: to free it, for which no copy is needed. */
static enum access try_file_locked(struct journal *j, struct ext4_transaction *t, struct jbuf *jb,
				   bool freed, uint8_t **copy) __must_hold(&j->lock)
{
	assert_spin_held(&j->lock);
	if (jb->t == t || jb->next == t)
		return ACCESS_OK;
	if (!jb->t) {
		if (!bcache_try_pin(jb->buf))
			return ACCESS_WRITING;
		jb->t = t;
		jb->modified = false;
		jb->freed = false;
		list_add_tail(&jb->link, &t->bufs);
		t->nr_bufs++;
		return ACCESS_OK;
	}
	ASSERT(jb->t == j->committing && !jb->next);
	if (!freed && jb->modified && !jb->logged && !jb->frozen) {
		if (jb->shadow)
			return ACCESS_SHADOW;
		if (!*copy)
			return ACCESS_FREEZE;
		memcpy(*copy, jb->buf->data, j->fs->block_size);
		jb->frozen = *copy;
		*copy = NULL;
	}
	jb->next = t;
	t->nr_bufs++;
	return ACCESS_OK;
}

static bool is_shadow(struct journal *j, struct bcache_buf *buf)
{
	const struct jbuf *jb;
	bool shadow;

	spin_lock(&j->lock);
	jb = buf->journal;
	shadow = jb && jb->shadow;
	spin_unlock(&j->lock);
	return shadow;
}

/* Does the committing transaction still need a copy of @buf, or wait for its own turn? */
static bool is_unlogged(struct journal *j, struct bcache_buf *buf)
{
	const struct jbuf *jb;
	bool unlogged;

	spin_lock(&j->lock);
	jb = buf->journal;
	unlogged = jb && jb->t && jb->t == j->committing && jb->modified && !jb->logged &&
		   !jb->frozen && !j->error;
	spin_unlock(&j->lock);
	return unlogged;
}

static void charge_locked(struct ext4_handle *h) __must_hold(&h->j->lock)
{
	assert_spin_held(&h->j->lock);
	ASSERT(h->credits && h->t->reserved);
	h->credits--;
	h->t->reserved--;
}

/*
 * Put @buf into the transaction of @h.  Returns with the lock held and *@out set, or an error
 * without it.
 */
static int file_and_lock(struct ext4_handle *h, struct bcache_buf *buf, bool freed,
			 struct jbuf **out) __acquires_if_0(&h->j->lock)
{
	struct journal *j = h->j;
	uint8_t *copy = NULL;
	struct jbuf *jb;
	enum access a;

	for (;;) {
		bool joined;

		if (jbuf_get_and_lock(j, buf, &jb)) {
			kfree(copy);
			return -ENOMEM;
		}
		joined = jb->t == h->t || jb->next == h->t;
		if (j->error || (!joined && !h->credits)) {
			const int err = j->error ? -EROFS : -ENOSPC;

			jbuf_release_locked(j, jb);
			spin_unlock(&j->lock);
			kfree(copy);
			return err;
		}
		a = try_file_locked(j, h->t, jb, freed, &copy);
		if (a == ACCESS_OK) {
			if (!joined)
				charge_locked(h);
			*out = jb;
			kfree(copy);
			return 0;
		}
		jbuf_release_locked(j, jb);
		spin_unlock(&j->lock);
		if (a == ACCESS_WRITING) {
			bcache_await_write(buf);
		} else if (a == ACCESS_SHADOW) {
			wait_event(&j->wait, !is_shadow(j, buf));
		} else {
			copy = kmalloc(j->fs->block_size);
			if (!copy) /* the commit, which waits for no handle by now, goes on */
				wait_event(&j->wait, !is_unlogged(j, buf));
		}
	}
}

/* --- revokes --- */

static int cmp_revoke(const struct rb_node *a, const struct rb_node *b)
{
	const uint64_t x = rb_entry(a, struct revoke_record, node)->block;
	const uint64_t y = rb_entry(b, struct revoke_record, node)->block;

	return x < y ? -1 : x > y;
}

void txn_free_revokes(struct ext4_fs *fs, struct ext4_transaction *t)
{
	struct rb_node *n;

	while ((n = rb_first(&t->revokes)) != NULL) {
		rb_erase(n, &t->revokes);
		ext4_small_free(fs, rb_entry(n, struct revoke_record, node));
	}
}

/* A block that is journalled again must be replayed after all. */
static void cancel_revoke_locked(struct journal *j, struct ext4_transaction *t, uint64_t block)
	__must_hold(&j->lock)
{
	struct revoke_record key = { .block = block };
	struct rb_node *n = t->revokes.node;

	assert_spin_held(&j->lock);
	while (n) {
		const int cmp = cmp_revoke(&key.node, n);

		if (!cmp) {
			rb_erase(n, &t->revokes);
			ext4_small_free(j->fs, rb_entry(n, struct revoke_record, node));
			t->nr_revokes--;
			return;
		}
		n = cmp < 0 ? n->left : n->right;
	}
}

/* Note that @block is revoked; every block of records takes a credit of the handle. */
static int add_revoke_locked(struct ext4_handle *h, struct revoke_record **rec)
	__must_hold(&h->j->lock)
{
	struct ext4_transaction *t = h->t;
	const struct log *log = h->j->log;
	const bool new_block = log && t->nr_revokes % log_revokes_per_block(log) == 0;

	assert_spin_held(&h->j->lock);
	if (new_block && !h->revoke_credits && !h->credits)
		return -ENOSPC;
	if (rb_insert(&(*rec)->node, &t->revokes, cmp_revoke))
		return 0;
	*rec = NULL;
	t->nr_revokes++;
	if (new_block && h->revoke_credits) {
		h->revoke_credits--;
		t->reserved--;
	} else if (new_block) {
		charge_locked(h);
	}
	return 0;
}

int ext4_revoke(struct ext4_handle *h, uint64_t block, struct bcache_buf *buf)
{
	struct journal *j = h->j;
	struct revoke_record *rec;
	struct bcache_buf *found;
	struct jbuf *jb;
	int err = 0;

	if (h->ended)
		return -EROFS;
	found = buf ? buf : bcache_find(j->fs->bc, block);
	/* Only a block that some transaction has must not be written any more. */
	if (found && READ_ONCE(found->journal)) {
		err = file_and_lock(h, found, true, &jb);
		if (!err) {
			if (jb->t == h->t) {
				jb->freed = true;
				jb->modified = false;
			} else {
				jb->next_freed = true;
				jb->next_modified = false;
			}
			spin_unlock(&h->j->lock);
		}
	}
	if (found && !buf)
		bcache_put(found);
	if (err || !j->log)
		return err;
	rec = ext4_small_alloc(j->fs);
	if (!rec)
		return -ENOMEM;
	rec->block = block;
	spin_lock(&h->j->lock);
	err = add_revoke_locked(h, &rec);
	spin_unlock(&h->j->lock);
	ext4_small_free(j->fs, rec);
	return err;
}

/* --- changes --- */

int ext4_write_access(struct ext4_handle *h, struct bcache_buf *buf)
{
	struct jbuf *jb;
	int err;

	if (h->ended)
		return -EROFS;
	err = file_and_lock(h, buf, false, &jb);
	if (err)
		return err;
	if (jb->t == h->t)
		jb->freed = false;
	else
		jb->next_freed = false;
	cancel_revoke_locked(h->j, h->t, buf->block);
	spin_unlock(&h->j->lock);
	return 0;
}

struct bcache_buf *ext4_new_block(struct ext4_handle *h, uint64_t block)
{
	struct bcache_buf *buf = bcache_get_new(h->fs->bc, block);
	int err;

	if (IS_ERR(buf))
		return buf;
	err = ext4_write_access(h, buf);
	if (err) {
		bcache_put(buf);
		return ERR_PTR(err);
	}
	memset(buf->data, 0, h->fs->block_size);
	WRITE_ONCE(buf->checked_as, 0);
	return buf;
}

int ext4_dirty(struct ext4_handle *h, struct bcache_buf *buf)
{
	struct journal *j = h->j;
	struct jbuf *jb;
	int err = 0;

	if (h->ended)
		return -EROFS;
	spin_lock(&j->lock);
	jb = buf->journal;
	BUG_ON(!jb || (jb->t != h->t && jb->next != h->t)); /* no ext4_write_access() before */
	if (j->error)
		err = -EROFS;
	else if (jb->t == h->t)
		jb->modified = true;
	else
		jb->next_modified = true;
	spin_unlock(&j->lock);
	return err;
}
