/* SPDX-License-Identifier: MIT */
/*
 * Handlers of messages from processors to the home of a space.
 *
 * Context:	a thread of its own for each request: the handlers wait for owners and for storage.
 * Locking:	the home locks the space for the whole call.
 * Failure:	as docs/protocol/pm.md lists; a reply that does not fit is -EMSGSIZE.
 */
#include <lib/alloc.h>
#include <lib/errno.h>

#include "dispatch.h"
#include "memory.h"

static struct pm_range_rep *range_rep(void)
{
	return lib_alloc(sizeof(struct pm_range_rep));
}

/* Answer with @rep, which is freed; NULL: there was no memory for it. */
static int reply_range(const struct msg *msg, struct pm_range_rep *rep, int err)
{
	if (!rep)
		return -ENOMEM;
	if (!err)
		err = (int)pm_range_rep_encode(rep, msg->reply, msg->reply_max);
	lib_free(rep);
	return err;
}

int msg_mmap(struct msg *msg)
{
	struct pm_range_rep *rep = range_rep();

	return reply_range(msg, rep, rep ? home_mmap(msg->m, msg->peer, msg->req, rep) : 0);
}

int msg_munmap(struct msg *msg)
{
	struct pm_range_rep *rep = range_rep();

	return reply_range(msg, rep, rep ? home_munmap(msg->m, msg->peer, msg->req, rep) : 0);
}

int msg_mprotect(struct msg *msg)
{
	struct pm_range_rep *rep = range_rep();

	return reply_range(msg, rep, rep ? home_mprotect(msg->m, msg->peer, msg->req, rep) : 0);
}

int msg_mremap(struct msg *msg)
{
	struct pm_range_rep *rep = range_rep();

	return reply_range(msg, rep, rep ? home_mremap(msg->m, msg->peer, msg->req, rep) : 0);
}

int msg_brk(struct msg *msg)
{
	struct pm_range_rep *rep = range_rep();

	return reply_range(msg, rep, rep ? home_brk(msg->m, msg->peer, msg->req, rep) : 0);
}

int msg_lease(struct msg *msg)
{
	struct pm_range_rep *rep = range_rep();

	return reply_range(msg, rep, rep ? home_lease(msg->m, msg->peer, msg->req, rep) : 0);
}

int msg_fork(struct msg *msg)
{
	struct pm_range_rep *rep = range_rep();

	return reply_range(msg, rep, rep ? home_fork(msg->m, msg->peer, msg->req, rep) : 0);
}

int msg_make_pages(struct msg *msg)
{
	struct pm_range_rep *rep = range_rep();

	return reply_range(
		msg, rep, rep ? home_make_pages(msg->m, msg->peer, msg->incarn, msg->req, rep) : 0);
}

int msg_vregions(struct msg *msg)
{
	struct pm_range_rep *rep = range_rep();

	return reply_range(msg, rep, rep ? home_vregions(msg->m, msg->peer, msg->req, rep) : 0);
}

int msg_exec(struct msg *msg)
{
	struct pm_exec_rep *rep = lib_zalloc(sizeof(*rep));
	int err;

	if (!rep)
		return -ENOMEM;
	err = home_exec(msg->m, msg->peer, msg->incarn, msg->req, rep);
	if (!err)
		err = (int)pm_exec_rep_encode(rep, msg->reply, msg->reply_max);
	lib_free(rep);
	return err;
}

int msg_destroy(struct msg *msg)
{
	const struct destroy_list *list = msg->req;
	int err = 0;

	/* All of them, whatever comes of one; the first error is the answer. */
	for (uint32_t i = 0; i < list->nr; i++) {
		const int ret = home_destroy_space(msg->m, list->ids[i], msg->peer);

		err = err ? err : ret;
	}
	return err;
}

int msg_collapse(struct msg *msg)
{
	return home_collapse(msg->m, msg->peer, msg->req, msg->body, msg->len);
}

int msg_discard(struct msg *msg)
{
	return home_discard(msg->m, msg->peer, msg->req, msg->body, msg->len);
}
