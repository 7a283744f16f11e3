/* SPDX-License-Identifier: MIT */
/* One processor keeps names, until another one asks for something. */
#include <lib/errno.h>
#include <lib/ktest.h>
#include <lib/string.h>
#include <mm/slab.h>

#include "storage.h"

static const struct storage_peer p1 = { 1, 11 }, p2 = { 2, 22 }, p1_again = { 1, 12 };

static struct {
	uint32_t alone; /* the only processor */
	int answer;     /* of the next recalls */
	unsigned int nr;
	struct storage_peer keeper; /* of the last recall */
	struct keep *keep;          /* ask to be the keeper meanwhile */
	bool granted_meanwhile;
	struct keep *owed; /* p1 brings what it owes before it answers */
	int owed_err;
} view;

static bool fake_is_alone(const struct storage_peer *who)
{
	return who->node == view.alone;
}

static int fake_recall(const struct storage_peer *keeper)
{
	view.nr++;
	view.keeper = keeper ? *keeper : (struct storage_peer){ 0 };
	if (view.keep)
		view.granted_meanwhile = keep_grant(view.keep, &p1);
	if (view.owed) {
		struct keep_use use;

		view.owed_err = keep_enter(view.owed, &use, &p1, true);
		if (!view.owed_err)
			keep_leave(view.owed, &use);
	}
	return view.answer;
}

static const struct keep_ops ops = { .is_alone = fake_is_alone, .recall = fake_recall };

static struct keep *fresh(struct ktest *t, bool again)
{
	struct keep *k = kzalloc(sizeof(*k));

	EXPECT_TRUE(t, k != NULL);
	memset(&view, 0, sizeof(view));
	view.alone = p1.node;
	if (k)
		keep_init(k, &ops, again);
	return k;
}

/* A request of @who, from its begin to its end. */
static int request(struct keep *k, const struct storage_peer *who)
{
	struct keep_use use;
	const int err = keep_enter(k, &use, who, false);

	if (!err)
		keep_leave(k, &use);
	return err;
}

static void the_only_processor_may_keep(struct ktest *t)
{
	struct keep *k = fresh(t, false);

	ASSERT_TRUE(t, k);
	EXPECT_FALSE(t, keep_grant(k, &p2));
	EXPECT_TRUE(t, keep_grant(k, &p1));
	EXPECT_TRUE(t, keep_grant(k, &p1));
	EXPECT_EQ(t, request(k, &p1), 0);
	EXPECT_EQ(t, view.nr, 0u);
	keep_init(k, NULL, true);
	EXPECT_FALSE(t, keep_grant(k, &p1));
	EXPECT_EQ(t, request(k, &p2), 0);
	kfree(k);
}

static void a_request_of_another_takes_it_back(struct ktest *t)
{
	struct keep *k = fresh(t, false);

	ASSERT_TRUE(t, k && keep_grant(k, &p1));
	EXPECT_EQ(t, request(k, &p2), 0);
	EXPECT_EQ(t, view.nr, 1u);
	EXPECT_TRUE(t, view.keeper.node == 1 && view.keeper.incarn == 11);
	EXPECT_EQ(t, request(k, &p2), 0);
	EXPECT_EQ(t, request(k, &p1), 0);
	EXPECT_EQ(t, view.nr, 1u);
	/* The same node after a start again is another one, too. */
	EXPECT_TRUE(t, keep_grant(k, &p1));
	EXPECT_EQ(t, request(k, &p1_again), 0);
	EXPECT_EQ(t, view.nr, 2u);
	kfree(k);
}

static void a_keeper_that_cannot_be_told_stays(struct ktest *t)
{
	struct keep *k = fresh(t, false);

	ASSERT_TRUE(t, k && keep_grant(k, &p1));
	view.answer = -EINTR;
	EXPECT_EQ(t, request(k, &p2), -EINTR);
	EXPECT_EQ(t, request(k, &p2), -EINTR);
	EXPECT_EQ(t, view.nr, 2u);
	EXPECT_EQ(t, request(k, &p1), 0);
	view.answer = 0;
	view.keep = k;
	EXPECT_EQ(t, request(k, &p2), 0);
	EXPECT_FALSE(t, view.granted_meanwhile);
	EXPECT_TRUE(t, keep_grant(k, &p1));
	kfree(k);
}

/* Its change may come after the answer that the keeper would keep. */
static void nobody_keeps_beside_another_s_request(struct ktest *t)
{
	struct keep *k = fresh(t, false);
	struct keep_use other, own;

	ASSERT_TRUE(t, k);
	ASSERT_EQ(t, keep_enter(k, &other, &p2, false), 0);
	ASSERT_EQ(t, keep_enter(k, &own, &p1, false), 0);
	EXPECT_FALSE(t, keep_grant(k, &p1));
	keep_leave(k, &other);
	EXPECT_TRUE(t, keep_grant(k, &p1));
	keep_leave(k, &own);
	kfree(k);
}

static void an_earlier_life_may_have_had_a_keeper(struct ktest *t)
{
	struct keep *k = fresh(t, true);

	ASSERT_TRUE(t, k);
	EXPECT_FALSE(t, keep_grant(k, &p1));
	EXPECT_EQ(t, request(k, &p2), 0);
	EXPECT_EQ(t, view.nr, 1u);
	EXPECT_FALSE(t, view.keeper.node); /* all, the one that asks too */
	EXPECT_EQ(t, request(k, &p1), 0);
	EXPECT_EQ(t, view.nr, 1u);
	EXPECT_TRUE(t, keep_grant(k, &p1));
	kfree(k);
}

/* Else both would wait for each other. */
static void what_is_owed_comes_while_it_is_taken_back(struct ktest *t)
{
	struct keep *k = fresh(t, false);
	struct keep_use use;

	ASSERT_TRUE(t, k && keep_grant(k, &p1));
	view.owed = k;
	view.owed_err = 1;
	EXPECT_EQ(t, request(k, &p2), 0);
	EXPECT_EQ(t, view.owed_err, 0);
	kfree(k);
	/* Nor does the node know whose it was after a start again. */
	k = fresh(t, true);
	ASSERT_TRUE(t, k);
	view.owed = k;
	/* It may also be the first that comes: its sender is told later, with all others. */
	ASSERT_EQ(t, keep_enter(k, &use, &p1, true), 0);
	keep_leave(k, &use);
	EXPECT_EQ(t, view.nr, 0u);
	EXPECT_FALSE(t, keep_grant(k, &p1));
	view.owed_err = 1;
	EXPECT_EQ(t, request(k, &p2), 0);
	EXPECT_EQ(t, view.nr, 1u);
	EXPECT_EQ(t, view.owed_err, 0);
	/* Another's are requests as all others are. */
	view.owed = NULL;
	ASSERT_TRUE(t, keep_grant(k, &p1));
	view.nr = 0;
	ASSERT_EQ(t, keep_enter(k, &use, &p2, true), 0);
	keep_leave(k, &use);
	EXPECT_EQ(t, view.nr, 1u);
	kfree(k);
}

/* --- with the changes that were given up --------------------------------------------------- */

static void no_change_is_done_after_it_was_given_up(struct ktest *t)
{
	struct record_table table = { .nr_late = 0 };
	const struct ps_change old = { .seq = 3, .acked = 1 }, late = { .seq = 2, .acked = 1 };
	uint8_t reply[RECORD_REPLY_MAX];
	struct record *rec;
	ssize_t ret;

	record_table_init(&table, NULL);
	rec = record_begin(&table, &p1, &old, reply, &ret);
	ASSERT_TRUE(t, rec);
	/* It is being done. */
	EXPECT_EQ(t, record_acknowledge(&table, &p1, 4), -EAGAIN);
	EXPECT_EQ(t, record_acknowledge(&table, &p1, 3), -EAGAIN);
	record_end(&table, rec, NULL, 0);
	EXPECT_EQ(t, record_acknowledge(&table, &p1, 4), 0);
	/* It arrives later, also as the first that its sender has asked for. */
	EXPECT_FALSE(t, record_begin(&table, &p1, &late, reply, &ret));
	EXPECT_EQ(t, ret, -ESTALE);
	EXPECT_EQ(t, record_acknowledge(&table, &p2, 3), 0);
	EXPECT_FALSE(t, record_begin(&table, &p2, &late, reply, &ret));
	EXPECT_EQ(t, ret, -ESTALE);
	record_table_destroy(&table);
}

static const struct storage_msg *msg_of(uint16_t opcode)
{
	const struct storage_msg *msg = &storage_msgs[0];

	while (msg->opcode != opcode)
		msg++;
	return msg;
}

static int any_vnode(uint32_t vnode, uint32_t node, bool may_wait)
{
	return 0;
}

static ssize_t ask(struct storage *st, const struct storage_peer *who, uint64_t acked,
		   bool *granted)
{
	const struct ps_keep_req req = { .acked = acked };
	struct ps_keep_req_wire w;
	struct ps_keep_rep rep;
	uint8_t reply[64];
	ssize_t ret;

	ps_keep_req_encode(&req, &w);
	ret = storage_serve_msg(st, msg_of(PS_KEEP), who, &w, sizeof(w), reply, sizeof(reply));
	if (ret > 0)
		ret = ps_keep_rep_decode(reply, (size_t)ret, &rep);
	if (!ret)
		*granted = rep.granted;
	return ret;
}

/* Each message of a processor, and none of a memory node, takes it back. */
static void messages_take_it_back(struct ktest *t)
{
	const struct storage_options opt = { .index_bytes = 4096,
					     .vnode_check = any_vnode,
					     .keep = &ops };
	struct storage *st = kzalloc(sizeof(*st));
	bool granted = false;
	uint8_t reply[64];

	ASSERT_TRUE(t, st);
	ASSERT_EQ(t, storage_init(st, 5, NULL, &opt), 0);
	memset(&view, 0, sizeof(view));
	view.alone = p1.node;
	EXPECT_EQ(t, ask(st, &p1, 0, &granted), -EPROTO);
	for (size_t i = 0; i < nr_storage_msgs; i++) {
		const bool of_processor = storage_msgs[i].flags & RPC_HANDLER_FROM_PROCESSOR;

		if (!storage_msgs[i].service && !storage_msgs[i].client_service)
			continue;
		view.nr = 0;
		ASSERT_EQ(t, ask(st, &p1, 1, &granted), 0);
		EXPECT_TRUE(t, granted);
		(void)!storage_serve_msg(st, &storage_msgs[i], &p2, NULL, 0, reply, sizeof(reply));
		/* One that names no vNode is refused before. */
		if (storage_msgs[i].vnode == STORAGE_VNODE_OWN_USE || !of_processor)
			EXPECT_EQ(t, view.nr, of_processor);
	}
	storage_destroy(st);
	kfree(st);
}

static const struct ktest_case keep_cases[] = {
	KTEST(the_only_processor_may_keep),
	KTEST(a_request_of_another_takes_it_back),
	KTEST(a_keeper_that_cannot_be_told_stays),
	KTEST(nobody_keeps_beside_another_s_request),
	KTEST(an_earlier_life_may_have_had_a_keeper),
	KTEST(what_is_owed_comes_while_it_is_taken_back),
	KTEST(no_change_is_done_after_it_was_given_up),
	KTEST(messages_take_it_back),
	{ 0 },
};
static const struct ktest_suite keep_suite = {
	.name = "storage.keep",
	.cases = keep_cases,
};
KTEST_SUITE(keep_suite);
