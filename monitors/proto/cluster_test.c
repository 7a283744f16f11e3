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

static void view_round_trip(struct ktest *t)
{
	uint8_t buf[128];
	ssize_t len;

	view = (struct cluster_view){ .epoch = 9,
				      .flags = CLUSTER_COMPLETE,
				      .nr_members = 2,
				      .wanted = { 1, 2, 1 },
				      .lease_ms = 0x1234 };
	view.members[0] = member;
	view.members[1] = member;
	view.members[1].id = 7;
	len = cluster_view_encode(&view, buf, sizeof(buf));
	ASSERT_EQ(t, len, (ssize_t)(20 + 2 * 32));
	EXPECT_EQ(t, buf[16], 0x34u);
	EXPECT_EQ(t, buf[17], 0x12u);
	ASSERT_EQ(t, cluster_view_decode(buf, (size_t)len, &got), 0);
	EXPECT_EQ(t, got.epoch, 9u);
	EXPECT_EQ(t, got.wanted[1], 2u);
	EXPECT_EQ(t, got.lease_ms, 0x1234u);
	EXPECT_EQ(t, got.members[1].id, 7u);
	EXPECT_EQ(t, cluster_view_decode(buf, (size_t)len - 1, &got), -EMSGSIZE);
	EXPECT_EQ(t, cluster_view_decode(buf, 19, &got), -EMSGSIZE);
	buf[4] = 2; /* unknown flag */
	EXPECT_EQ(t, cluster_view_decode(buf, (size_t)len, &got), -EPROTO);
	buf[4] = 1;
	buf[17] = 0; /* a lease of 52 ms, then of 12 days */
	EXPECT_EQ(t, cluster_view_decode(buf, (size_t)len, &got), -EPROTO);
	buf[19] = 0x40;
	EXPECT_EQ(t, cluster_view_decode(buf, (size_t)len, &got), -EPROTO);
	buf[19] = 0;
	buf[17] = 0x12;
	buf[52] = 3; /* ids do not ascend */
	EXPECT_EQ(t, cluster_view_decode(buf, (size_t)len, &got), -EPROTO);
	EXPECT_EQ(t, cluster_view_encode(&view, buf, 83), -EMSGSIZE);
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
	KTEST(member_round_trip),    KTEST(member_rejects),  KTEST(view_round_trip),
	KTEST(heartbeat_round_trip), KTEST(veto_round_trip), { 0 },
};
static const struct ktest_suite cluster_suite = { .name = "proto.cluster", .cases = cluster_cases };
KTEST_SUITE(cluster_suite);
