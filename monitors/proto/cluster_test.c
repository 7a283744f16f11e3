/* SPDX-License-Identifier: MIT */
/* Membership messages: round trips and tables of rejections. */
#include <proto/cluster.h>

#include <lib/errno.h>
#include <lib/ktest.h>
#include <lib/string.h>

static const struct cluster_member member = {
	.id = 3, .incarn = 0x1234, .gid = { 0xfe, 0x80, 1 }, .lid = 4, .role = 2
};

static void member_round_trip(struct ktest *t)
{
	struct cluster_member_wire w;
	struct cluster_member out;

	cluster_member_encode(&member, &w);
	ASSERT_EQ(t, cluster_member_decode(&w, sizeof(w), &out), 0);
	EXPECT_EQ(t, out.id, 3u);
	EXPECT_EQ(t, out.incarn, 0x1234u);
	EXPECT_EQ(t, out.lid, 4u);
	EXPECT_EQ(t, out.role, 2u);
	EXPECT_MEMEQ(t, out.gid, member.gid, 16);
}

static void member_rejects(struct ktest *t)
{
	static const struct {
		size_t offset;
		uint8_t value;
		size_t len;
		int want;
	} cases[] = {
		{ 0, 3, 31, -EMSGSIZE }, { 0, 3, 33, -EMSGSIZE }, { 0, 0, 32, -EPROTO }, /* id 0 */
		{ 2, 1, 32, -EPROTO },  /* id above 0xffff */
		{ 26, 0, 32, -EPROTO }, /* role 0 */
		{ 26, 4, 32, -EPROTO }, /* no such role */
		{ 27, 2, 32, -EPROTO }, /* not a truth value */
		{ 28, 1, 32, -EPROTO }, /* reserved */
	};
	uint8_t buf[40];
	struct cluster_member out;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		memset(buf, 0, sizeof(buf));
		cluster_member_encode(&member, (struct cluster_member_wire *)(void *)buf);
		buf[cases[i].offset] = cases[i].value;
		EXPECT_EQ(t, cluster_member_decode(buf, cases[i].len, &out), cases[i].want);
	}
}

static struct cluster_view view, got; /* large */

static ssize_t encode_two(void *buf, size_t cap)
{
	view = (struct cluster_view){ .epoch = 9,
				      .flags = CLUSTER_COMPLETE,
				      .nr_members = 2,
				      .wanted = { 1, 2, 1 },
				      .lease_ms = 0x1234,
				      .nr_placed = 2,
				      .placed = { { 1, 0 }, { 2, 7 } } };
	view.members[0] = member;
	view.members[1] = member;
	view.members[1].id = 7;
	view.members[1].role = 1;
	return cluster_view_encode(&view, buf, cap);
}

static void view_round_trip(struct ktest *t)
{
	uint8_t buf[128];
	const ssize_t len = encode_two(buf, sizeof(buf));

	ASSERT_EQ(t, len, (ssize_t)(24 + 2 * 32 + 2 * 8));
	EXPECT_EQ(t, buf[16], 0x34u);
	EXPECT_EQ(t, buf[17], 0x12u);
	EXPECT_EQ(t, buf[20], 2u);
	ASSERT_EQ(t, cluster_view_decode(buf, (size_t)len, &got), 0);
	EXPECT_EQ(t, got.epoch, 9u);
	EXPECT_EQ(t, got.wanted[1], 2u);
	EXPECT_EQ(t, got.lease_ms, 0x1234u);
	EXPECT_EQ(t, got.members[1].id, 7u);
	EXPECT_EQ(t, got.nr_placed, 2u);
	EXPECT_EQ(t, got.placed[0].vnode, 1u);
	EXPECT_EQ(t, got.placed[0].node, 0u);
	EXPECT_EQ(t, got.placed[1].vnode, 2u);
	EXPECT_EQ(t, got.placed[1].node, 7u);
	EXPECT_EQ(t, cluster_view_encode(&view, buf, 103), -EMSGSIZE);
}

static void view_rejects(struct ktest *t)
{
	static const struct {
		size_t offset;
		uint8_t value;
		size_t len;
		int want;
	} cases[] = {
		{ 0, 9, 103, -EMSGSIZE },  { 0, 9, 23, -EMSGSIZE },
		{ 0, 9, 105, -EMSGSIZE },  { 4, 4, 104, -EPROTO }, /* unknown flag */
		{ 9, 2, 104, -EPROTO },                            /* 514 members */
		{ 17, 0, 104, -EPROTO },                           /* a lease of 52 ms */
		{ 19, 64, 104, -EPROTO },                          /* of 12 days */
		{ 20, 1, 104, -EMSGSIZE },                         /* one placement */
		{ 21, 5, 104, -EPROTO },                           /* 1282 placements */
		{ 22, 1, 104, -EPROTO },                           /* reserved */
		{ 56, 3, 104, -EPROTO },                           /* ids do not ascend */
		{ 82, 2, 104, -EPROTO },  /* a memory component has a vNode */
		{ 88, 3, 104, -EPROTO },  /* vNodes do not ascend */
		{ 88, 0, 104, -EPROTO },  /* vNode 0 */
		{ 92, 3, 104, -EPROTO },  /* on a memory component */
		{ 100, 8, 104, -EPROTO }, /* on no member */
		{ 102, 1, 104, -EPROTO }, /* on a node id above 0xffff */
		{ 96, 1, 104, 0 },        /* the same vNode on two: as good */
	};
	uint8_t buf[128];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		ASSERT_EQ(t, encode_two(buf, sizeof(buf)), 104);
		buf[cases[i].offset] = cases[i].value;
		EXPECT_EQ(t, cluster_view_decode(buf, cases[i].len, &got), cases[i].want);
	}
}

/* A full view is one message, and what does not fit is told before. */
static void view_has_one_size(struct ktest *t)
{
	EXPECT_TRUE(t, cluster_view_fits(CLUSTER_MAX_MEMBERS, 1));
	EXPECT_TRUE(t, cluster_view_fits(CLUSTER_MAX_MEMBERS, 41));
	EXPECT_FALSE(t, cluster_view_fits(CLUSTER_MAX_MEMBERS, 42));
	EXPECT_FALSE(t, cluster_view_fits(CLUSTER_MAX_MEMBERS + 1, 1));
	EXPECT_TRUE(t, cluster_view_fits(200, CLUSTER_MAX_PLACED));
	EXPECT_FALSE(t, cluster_view_fits(1, CLUSTER_MAX_PLACED + 1));
}

static void heartbeat_round_trip(struct ktest *t)
{
	static const uint8_t want[40] = { 5, 0, 0, 0, 6, 0, 0, 0, 7, 0, 0, 0, 1, 0,
					  0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0,
					  4, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0 };
	struct cluster_heartbeat b = {
		.epoch = 5,
		.incarn = 6,
		.seq = 0x100000007,
		.load = { .runnable = 1, .tasks = 2, .cpus = 3, .free_lines = 4 },
		.host = 8,
	};
	struct cluster_heartbeat_wire w;
	struct cluster_heartbeat out;

	cluster_heartbeat_encode(&b, &w);
	EXPECT_MEMEQ(t, &w, want, sizeof(want));
	ASSERT_EQ(t, cluster_heartbeat_decode(&w, sizeof(w), &out), 0);
	w.reserved = cpu_to_le32(1);
	EXPECT_EQ(t, cluster_heartbeat_decode(&w, sizeof(w), &out), -EPROTO);
	EXPECT_EQ(t, out.host, 8u);
	EXPECT_MEMEQ(t, &out, &b, offsetof(struct cluster_heartbeat, host));
	EXPECT_EQ(t, cluster_heartbeat_decode(&w, 39, &out), -EMSGSIZE);
	EXPECT_EQ(t, cluster_heartbeat_decode(&w, 41, &out), -EMSGSIZE);
	b.incarn = 0;
	cluster_heartbeat_encode(&b, &w);
	EXPECT_EQ(t, cluster_heartbeat_decode(&w, sizeof(w), &out), -EPROTO);
	b.incarn = 6;
	b.seq = 0;
	cluster_heartbeat_encode(&b, &w);
	EXPECT_EQ(t, cluster_heartbeat_decode(&w, sizeof(w), &out), -EPROTO);
}

static void veto_round_trip(struct ktest *t)
{
	static const uint8_t want[8] = { 5, 1, 0, 0, 6, 0, 0, 0 };
	struct cluster_veto veto = { .id = 0x105, .incarn = 6 }, out;
	struct cluster_veto_wire w;

	cluster_veto_encode(&veto, &w);
	EXPECT_MEMEQ(t, &w, want, sizeof(want));
	ASSERT_EQ(t, cluster_veto_decode(&w, sizeof(w), &out), 0);
	EXPECT_MEMEQ(t, &out, &veto, sizeof(veto));
	EXPECT_EQ(t, cluster_veto_decode(&w, 7, &out), -EMSGSIZE);
	veto.incarn = 0;
	cluster_veto_encode(&veto, &w);
	EXPECT_EQ(t, cluster_veto_decode(&w, sizeof(w), &out), -EPROTO);
	veto = (struct cluster_veto){ .id = 0x10000, .incarn = 6 };
	cluster_veto_encode(&veto, &w);
	EXPECT_EQ(t, cluster_veto_decode(&w, sizeof(w), &out), -EPROTO);
}

static const struct ktest_case cluster_cases[] = {
	KTEST(member_round_trip), KTEST(member_rejects),
	KTEST(view_round_trip),   KTEST(view_rejects),
	KTEST(view_has_one_size), KTEST(heartbeat_round_trip),
	KTEST(veto_round_trip),   { 0 },
};
static const struct ktest_suite cluster_suite = { .name = "proto.cluster", .cases = cluster_cases };
KTEST_SUITE(cluster_suite);
