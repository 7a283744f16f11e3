/* SPDX-License-Identifier: MIT */
/*
 * Records: what an AF_UNIX connection to another processor has among its bytes, so that the
 * receiver knows the sender of each, and where a packet ends.
 *
 * Flow:	a sender puts a header in front of the bytes of each call. The bytes come in
 *		messages that may end anywhere; the receiver makes messages of a socket's queue of
 *		them: of a stream as they come, of packets when they are complete.
 * Context:	one thread at a time for a connection; polling.
 * Failure:	a message that cannot be taken changes nothing, and may come again.
 * See:		docs/protocol/pp.md
 */
#include <kernel/panic.h>
#include <lib/err.h>
#include <lib/string.h>
#include <proto/pp.h>

#include "queue.h"
#include "remote_private.h"

static_assert(REMOTE_RECORD == sizeof(struct pp_record_wire), "the same");
static_assert(REMOTE_RECORD_MAX == PP_RECORD_MAX, "the same");

void remote_record_put(uint8_t *at, uint32_t len, const struct socket_cred *cred)
{
	const struct pp_record r = {
		.len = len, .pid = cred->pid, .uid = cred->uid, .gid = cred->gid
	};
	struct pp_record_wire w;

	pp_record_encode(&r, &w);
	memcpy(at, &w, sizeof(w));
}

static bool is_of(const struct pp_record *a, const struct socket_cred *b)
{
	return a->pid == b->pid && a->uid == b->uid && a->gid == b->gid;
}

/* Take of a header what there is: how many bytes. -EPROTO */
static int take_header(struct remote_records *st, bool packets, const uint8_t *data, size_t len)
{
	struct pp_record r;
	const size_t n = MIN(len, REMOTE_RECORD - (size_t)st->got);

	memcpy(st->raw + st->got, data, n);
	st->got += (uint32_t)n;
	if (st->got < REMOTE_RECORD)
		return (int)n;
	if (pp_record_decode(st->raw, sizeof(st->raw), &r))
		return -EPROTO;
	/* An empty packet is one; of a stream there is nothing to be read. */
	if (!r.len && !packets)
		return -EPROTO;
	st->cred = (struct socket_cred){ r.pid, r.uid, r.gid };
	st->len = st->left = r.len;
	return (int)n;
}

/* Bytes of the sender of @st that follow at @data, of the records that begin there. */
static size_t more_of_sender(const struct remote_records *st, const uint8_t *data, size_t len)
{
	struct pp_record r;
	size_t sum = 0;

	while (len > REMOTE_RECORD && !pp_record_decode(data, REMOTE_RECORD, &r) && r.len &&
	       is_of(&r, &st->cred)) {
		const size_t n = MIN((size_t)r.len, len - REMOTE_RECORD);

		sum += n;
		data += REMOTE_RECORD + n;
		len -= REMOTE_RECORD + n;
	}
	return sum;
}

static struct sock_msg *make_msg(const struct remote_records *st, size_t len,
				 struct kmem_account *account)
{
	struct sock_msg *msg = sock_msg_alloc(len, account);

	if (!IS_ERR(msg))
		msg->cred = st->cred;
	return msg;
}

/* Of a stream: the bytes of one sender, as far as they go. How many were taken; -errno. */
static ssize_t take_run(struct remote_records *st, const uint8_t *data, size_t len,
			struct kmem_account *account, struct list_head *out)
{
	const size_t first = MIN((size_t)st->left, len);
	const size_t total =
		first + (first == st->left ? more_of_sender(st, data + first, len - first) : 0);
	struct sock_msg *msg = make_msg(st, total, account);
	size_t at = 0, filled = 0;

	if (IS_ERR(msg))
		return PTR_ERR(msg);
	list_add_tail(&msg->node, out);
	for (;;) {
		/* The bytes are the peer's to change: no more than there is room for. */
		const size_t n = MIN(MIN((size_t)st->left, len - at), total - filled);
		int got;

		sock_msg_fill(msg, filled, data + at, n);
		filled += n;
		at += n;
		st->left -= (uint32_t)n;
		if (filled == total)
			return (ssize_t)at;
		st->got = 0;
		got = take_header(st, false, data + at, len - at);
		if (got < 0)
			return got;
		if (st->got < REMOTE_RECORD)
			return -EPROTO;
		at += (size_t)got;
	}
}

/* Of a packet, which goes to @out when it is complete. How many were taken; -errno. */
static ssize_t take_part(struct remote_records *st, const uint8_t *data, size_t len,
			 struct kmem_account *account, struct list_head *out)
{
	const size_t n = MIN((size_t)st->left, len);

	if (!st->part) {
		struct sock_msg *msg = make_msg(st, st->len, account);

		if (IS_ERR(msg))
			return PTR_ERR(msg);
		st->part = msg;
		st->filled = 0;
	}
	sock_msg_fill(st->part, st->filled, data, n);
	st->filled += (uint32_t)n;
	st->left -= (uint32_t)n;
	if (!st->left) {
		list_add_tail(&st->part->node, out);
		st->part = NULL;
		st->got = 0;
	}
	return (ssize_t)n;
}

/* Free what was made for a message that is not taken; @keep was there before. */
static void give_up(struct list_head *out, struct sock_msg *part, struct sock_msg *keep)
{
	struct sock_msg *msg, *next;

	list_for_each_entry_safe(msg, next, out, node) {
		list_del(&msg->node);
		if (msg != keep)
			sock_msg_free(msg);
	}
	if (part && part != keep)
		sock_msg_free(part);
}

int remote_records_take(struct remote_records *st, bool packets, const void *data, size_t len,
			struct kmem_account *account, struct list_head *out)
{
	struct remote_records now = *st;
	const uint8_t *at = data;
	ssize_t n = 0;

	ASSERT(list_empty(out));
	while (len || (packets && now.got == REMOTE_RECORD && !now.left)) {
		if (now.got < REMOTE_RECORD)
			n = take_header(&now, packets, at, len);
		else if (packets)
			n = take_part(&now, at, len, account, out);
		else
			n = take_run(&now, at, len, account, out);
		if (n < 0) {
			give_up(out, now.part, st->part);
			return (int)n;
		}
		at += n;
		len -= (size_t)n;
		if (!packets && now.got == REMOTE_RECORD && !now.left)
			now.got = 0;
	}
	*st = now;
	return 0;
}

void remote_records_drop(struct remote_records *st)
{
	if (st->part)
		sock_msg_free(st->part);
	st->part = NULL;
}
