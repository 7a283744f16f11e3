/* SPDX-License-Identifier: MIT */
/*
 * Control channel: exact bytes, round trips and what the decoders refuse.
 */
#include <proto/control.h>

#include <lib/err.h>
#include <lib/errno.h>
#include <lib/ktest.h>
#include <lib/string.h>

static void hdr_has_documented_bytes(struct ktest *t)
{
	static const uint8_t want[16] = { 'T',  'S',  'C',  'L',  1,    CTL_DATA, 2, 0,
					  0x78, 0x56, 0x34, 0x12, 0x00, 0x01,     0, 0 };
	const struct ctl_hdr hdr = { CTL_DATA, 2, 0, 0x12345678, 256 };
	struct ctl_hdr_wire w;

	ctl_hdr_encode(&hdr, &w);
	EXPECT_MEMEQ(t, &w, want, sizeof(want));
}

/* Every type as the right end would send it. */
static const struct {
	enum ctl_end end;
	struct ctl_hdr hdr;
} good_hdrs[] = {
	{ CTL_FROM_NODE, { CTL_HELLO, 0, 0, 0, sizeof(struct ctl_hello_wire) } },
	{ CTL_FROM_NODE, { CTL_READY, 0, 0, 0, sizeof(struct ctl_ready_wire) } },
	{ CTL_FROM_NODE, { CTL_STATUS, 0, 0, 0, CTL_MAX_LINE } },
	{ CTL_FROM_NODE, { CTL_ERROR, 0, 0, 7, 1 } },
	{ CTL_FROM_HOST, { CTL_RUN, 0, CTL_F_MORE, 1, CTL_MAX_PAYLOAD } },
	{ CTL_FROM_NODE, { CTL_STARTED, 0, 0, 1, sizeof(struct ctl_started_wire) } },
	{ CTL_FROM_NODE, { CTL_REFUSED, 0, 0, 1, 4 } },
	{ CTL_FROM_NODE, { CTL_DATA, 1, 0, 1, 1 } },
	{ CTL_FROM_NODE, { CTL_DATA, 2, 0, 1, CTL_MAX_PAYLOAD } },
	{ CTL_FROM_HOST, { CTL_DATA, 0, 0, 0xffffffff, 1 } },
	{ CTL_FROM_NODE, { CTL_CREDIT, 0, 0, 1, 4 } },
	{ CTL_FROM_HOST, { CTL_CREDIT, 2, 0, 1, 4 } },
	{ CTL_FROM_NODE, { CTL_EOF, 0, 0, 1, 0 } },
	{ CTL_FROM_HOST, { CTL_EOF, 1, 0, 1, 0 } },
	{ CTL_FROM_HOST, { CTL_WINSIZE, 0, 0, 1, 8 } },
	{ CTL_FROM_HOST, { CTL_SIGNAL, 0, 0, 1, 4 } },
	{ CTL_FROM_NODE, { CTL_EXIT, 0, 0, 1, 16 } },
	{ CTL_FROM_HOST, { CTL_STATS_REQ, 0, 0, 0, 0 } },
	{ CTL_FROM_NODE, { CTL_STATS, 0, CTL_F_MORE, 0, 9 } },
	{ CTL_FROM_HOST, { CTL_SHUTDOWN, 0, 0, 0, 0 } },
	{ CTL_FROM_HOST, { CTL_DEBUG, 0, 0, 3, 4 } },
	{ CTL_FROM_NODE, { CTL_DEBUG_REPLY, 0, 0, 3, 4 } },
	{ CTL_FROM_HOST, { CTL_PLACE, 0, 0, 3, 8 } },
	{ CTL_FROM_NODE, { CTL_PLACED, 0, 0, 3, 8 } },
	{ CTL_FROM_NODE, { CTL_MEMBERS, 0, 0, 0, 16 } },
	{ CTL_FROM_NODE, { CTL_MEMBERS, 0, 0, 0, 8 + 8 * CTL_MAX_MEMBERS } },
	{ CTL_FROM_HOST, { CTL_LOST, 0, 0, 0, 8 } },
	{ CTL_FROM_NODE, { CTL_GATEWAY, 0, 0, 0, 0 } },
	{ CTL_FROM_NODE, { CTL_ADDRESSES, 0, 0, 0, 0 } },
	{ CTL_FROM_NODE, { CTL_ADDRESSES, 0, 0, 0, 16 * CTL_MAX_ADDRESSES } },
};

static void hdr_round_trip(struct ktest *t)
{
	for (size_t i = 0; i < ARRAY_SIZE(good_hdrs); i++) {
		const struct ctl_hdr *in = &good_hdrs[i].hdr;
		struct ctl_hdr_wire w;
		struct ctl_hdr out;

		ctl_hdr_encode(in, &w);
		ASSERT_EQ(t, ctl_hdr_decode(&w, sizeof(w), good_hdrs[i].end, &out), 0);
		EXPECT_EQ(t, out.type, in->type);
		EXPECT_EQ(t, out.stream, in->stream);
		EXPECT_EQ(t, out.flags, in->flags);
		EXPECT_EQ(t, out.prog, in->prog);
		EXPECT_EQ(t, out.len, in->len);
	}
}

static void hdr_rejects_bad_fields(struct ktest *t)
{
	static const struct {
		enum ctl_end end;
		struct ctl_hdr hdr;
	} bad[] = {
		{ CTL_FROM_NODE, { 0, 0, 0, 0, 0 } },                 /* no such type */
		{ CTL_FROM_NODE, { CTL_TYPE_END, 0, 0, 0, 0 } },      /* no such type */
		{ CTL_FROM_NODE, { 255, 0, 0, 0, 0 } },               /* no such type */
		{ CTL_FROM_HOST, { CTL_HELLO, 0, 0, 0, 56 } },        /* wrong end */
		{ CTL_FROM_NODE, { CTL_SHUTDOWN, 0, 0, 0, 0 } },      /* wrong end */
		{ CTL_FROM_NODE, { CTL_HELLO, 0, 0, 1, 56 } },        /* names a program */
		{ CTL_FROM_NODE, { CTL_HELLO, 0, 0, 0, 55 } },        /* short */
		{ CTL_FROM_NODE, { CTL_HELLO, 0, 0, 0, 57 } },        /* long */
		{ CTL_FROM_NODE, { CTL_HELLO, 1, 0, 0, 56 } },        /* names a stream */
		{ CTL_FROM_NODE, { CTL_DATA, 0, 0, 1, 1 } },          /* stdin from the node */
		{ CTL_FROM_HOST, { CTL_DATA, 1, 0, 1, 1 } },          /* stdout from the host */
		{ CTL_FROM_NODE, { CTL_DATA, 3, 0, 1, 1 } },          /* no such stream */
		{ CTL_FROM_NODE, { CTL_DATA, 32, 0, 1, 1 } },         /* shift past the mask */
		{ CTL_FROM_NODE, { CTL_DATA, 1, 0, 0, 1 } },          /* no program */
		{ CTL_FROM_NODE, { CTL_DATA, 1, 0, 1, 0 } },          /* empty */
		{ CTL_FROM_NODE, { CTL_DATA, 1, 0, 1, 65537 } },      /* too long */
		{ CTL_FROM_NODE, { CTL_DATA, 1, 0, 1, 0xffffffff } }, /* far too long */
		{ CTL_FROM_NODE, { CTL_DATA, 1, CTL_F_MORE, 1, 1 } }, /* MORE not allowed */
		{ CTL_FROM_HOST, { CTL_RUN, 0, 2, 1, 64 } },          /* unknown flag */
		{ CTL_FROM_NODE, { CTL_CREDIT, 1, 0, 1, 4 } },        /* credit for own stream */
		{ CTL_FROM_HOST, { CTL_CREDIT, 0, 0, 1, 4 } },        /* credit for own stream */
		{ CTL_FROM_NODE, { CTL_STATUS, 0, 0, 0, CTL_MAX_LINE + 1 } },
		{ CTL_FROM_NODE, { CTL_REFUSED, 0, 0, 1, 3 } },
		{ CTL_FROM_HOST, { CTL_EOF, 0, 0, 1, 1 } },
		{ CTL_FROM_NODE, { CTL_PLACE, 0, 0, 3, 8 } },
		{ CTL_FROM_HOST, { CTL_PLACE, 0, 0, 0, 8 } },
		{ CTL_FROM_HOST, { CTL_PLACED, 0, 0, 3, 8 } },
		{ CTL_FROM_NODE, { CTL_PLACED, 0, 0, 3, 4 } },
		{ CTL_FROM_NODE, { CTL_MEMBERS, 0, 0, 1, 16 } },
		{ CTL_FROM_HOST, { CTL_MEMBERS, 0, 0, 0, 16 } },
		{ CTL_FROM_NODE, { CTL_MEMBERS, 0, 0, 0, 8 } },
		{ CTL_FROM_NODE, { CTL_MEMBERS, 0, 0, 0, 9 + 8 * CTL_MAX_MEMBERS } },
		{ CTL_FROM_NODE, { CTL_LOST, 0, 0, 0, 8 } },
		{ CTL_FROM_HOST, { CTL_LOST, 0, 0, 0, 16 } },
		{ CTL_FROM_NODE, { CTL_GATEWAY, 0, 0, 0, 16 } },
		{ CTL_FROM_HOST, { CTL_ADDRESSES, 0, 0, 0, 16 } },
		{ CTL_FROM_NODE, { CTL_ADDRESSES, 0, 0, 1, 16 } },
		{ CTL_FROM_NODE, { CTL_ADDRESSES, 0, 0, 0, 16 * CTL_MAX_ADDRESSES + 1 } },
	};
	struct ctl_hdr_wire w;
	struct ctl_hdr out = { .type = 99 };

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		ctl_hdr_encode(&bad[i].hdr, &w);
		EXPECT_EQ(t, ctl_hdr_decode(&w, sizeof(w), bad[i].end, &out), -EPROTO);
	}
	ctl_hdr_encode(&good_hdrs[0].hdr, &w);
	EXPECT_EQ(t, ctl_hdr_decode(&w, sizeof(w) - 1, CTL_FROM_NODE, &out), -EMSGSIZE);
	EXPECT_EQ(t, ctl_hdr_decode(&w, 0, CTL_FROM_NODE, &out), -EMSGSIZE);
	w.version = CTL_VERSION + 1;
	EXPECT_EQ(t, ctl_hdr_decode(&w, sizeof(w), CTL_FROM_NODE, &out), -EPROTO);
	w.version = CTL_VERSION;
	w.magic = cpu_to_le32(CTL_MAGIC ^ 0x100);
	EXPECT_EQ(t, ctl_hdr_decode(&w, sizeof(w), CTL_FROM_NODE, &out), -EPROTO);
	EXPECT_EQ(t, out.type, 99); /* nothing was written */
}

static void members_round_trip_and_rejections(struct ktest *t)
{
	static struct ctl_members in = { .epoch = 9, .nr = 2, .members = { { 3, 30 }, { 4, 40 } } };
	static struct ctl_members out;
	uint8_t buf[32];

	ASSERT_EQ(t, ctl_members_encode(&in, buf, sizeof(buf)), 24);
	EXPECT_EQ(t, buf[8], 3u);
	EXPECT_EQ(t, buf[20], 40u);
	EXPECT_EQ(t, ctl_members_decode(buf, 24, &out), 0);
	EXPECT_EQ(t, out.epoch, 9u);
	EXPECT_EQ(t, out.nr, 2u);
	EXPECT_EQ(t, out.members[1].node, 4u);
	EXPECT_EQ(t, out.members[1].incarn, 40u);
	EXPECT_EQ(t, ctl_members_encode(&in, buf, 23), -EMSGSIZE);
	EXPECT_EQ(t, ctl_members_decode(buf, 23, &out), -EMSGSIZE);
	EXPECT_EQ(t, ctl_members_decode(buf, 8, &out), -EMSGSIZE);
	buf[16] = 3; /* twice the same */
	EXPECT_EQ(t, ctl_members_decode(buf, 24, &out), -EPROTO);
	buf[16] = 4;
	buf[18] = 1; /* no node's id */
	EXPECT_EQ(t, ctl_members_decode(buf, 24, &out), -EPROTO);
	buf[18] = 0;
	buf[20] = 0; /* no incarnation */
	EXPECT_EQ(t, ctl_members_decode(buf, 24, &out), -EPROTO);
	buf[20] = 40;
	buf[4] = 1; /* reserved */
	EXPECT_EQ(t, ctl_members_decode(buf, 24, &out), -EPROTO);
	buf[4] = 0;
	EXPECT_EQ(t, ctl_members_decode(buf, 24, &out), 0);
}

static void addresses_are_whole(struct ktest *t)
{
	uint32_t nr = 7;

	EXPECT_EQ(t, ctl_addresses_decode(15, &nr), -EMSGSIZE);
	EXPECT_EQ(t, ctl_addresses_decode(17, &nr), -EMSGSIZE);
	EXPECT_EQ(t, ctl_addresses_decode(16 * (CTL_MAX_ADDRESSES + 1), &nr), -EMSGSIZE);
	EXPECT_EQ(t, nr, 7u);
	EXPECT_EQ(t, ctl_addresses_decode(0, &nr), 0);
	EXPECT_EQ(t, nr, 0u);
	EXPECT_EQ(t, ctl_addresses_decode(16 * CTL_MAX_ADDRESSES, &nr), 0);
	EXPECT_EQ(t, nr, CTL_MAX_ADDRESSES);
}

static void hello_round_trip_and_rejections(struct ktest *t)
{
	const struct ctl_hello in = { CTL_ROLE_MEMORY, 5, 0x0102030405060708, "v1-abc" };
	struct ctl_hello out = { 0 };
	struct ctl_hello_wire w, bad;

	ctl_hello_encode(&in, &w);
	ASSERT_EQ(t, ctl_hello_decode(&w, sizeof(w), &out), 0);
	EXPECT_EQ(t, out.role, CTL_ROLE_MEMORY);
	EXPECT_EQ(t, out.node, 5);
	EXPECT_EQ(t, out.incarnation, in.incarnation);
	EXPECT_STREQ(t, out.build, "v1-abc");

	EXPECT_EQ(t, ctl_hello_decode(&w, sizeof(w) - 1, &out), -EMSGSIZE);
	bad = w;
	bad.role = 4;
	EXPECT_EQ(t, ctl_hello_decode(&bad, sizeof(bad), &out), -EPROTO);
	bad = w;
	bad.role = 0;
	EXPECT_EQ(t, ctl_hello_decode(&bad, sizeof(bad), &out), -EPROTO);
	bad = w;
	bad.reserved[2] = 1;
	EXPECT_EQ(t, ctl_hello_decode(&bad, sizeof(bad), &out), -EPROTO);
	bad = w;
	bad.build[20] = 'x'; /* after the terminator */
	EXPECT_EQ(t, ctl_hello_decode(&bad, sizeof(bad), &out), -EPROTO);
	memset(bad.build, 'x', sizeof(bad.build)); /* no terminator */
	EXPECT_EQ(t, ctl_hello_decode(&bad, sizeof(bad), &out), -EPROTO);
}

static const struct ctl_run run_in = {
	.flags = CTL_RUN_TTY,
	.uid = 1000,
	.gid = 100,
	.umask = 022,
	.rows = 25,
	.cols = 80,
	.argc = 3,
	.envc = 1,
	.path = "/bin/cat",
	.cwd = "/tmp",
	.argv = "cat\0\0-n",
	.envp = "A=b",
};

static void run_round_trip(struct ktest *t)
{
	char buf[128];
	struct ctl_run out;
	const char *s;
	const ssize_t len = ctl_run_encode(&run_in, buf, sizeof(buf));

	ASSERT_EQ(t, len, 32 + 9 + 5 + 4 + 1 + 3 + 4);
	ASSERT_EQ(t, ctl_run_decode(buf, (size_t)len, &out), 0);
	EXPECT_EQ(t, out.flags, CTL_RUN_TTY);
	EXPECT_EQ(t, out.uid, 1000);
	EXPECT_EQ(t, out.gid, 100);
	EXPECT_EQ(t, out.umask, 022);
	EXPECT_EQ(t, out.rows, 25);
	EXPECT_EQ(t, out.cols, 80);
	EXPECT_STREQ(t, out.path, "/bin/cat");
	EXPECT_STREQ(t, out.cwd, "/tmp");
	ASSERT_EQ(t, out.argc, 3);
	s = out.argv;
	EXPECT_STREQ(t, s, "cat");
	s = ctl_string_next(s);
	EXPECT_STREQ(t, s, ""); /* an empty argument is an argument */
	s = ctl_string_next(s);
	EXPECT_STREQ(t, s, "-n");
	ASSERT_EQ(t, out.envc, 1);
	EXPECT_STREQ(t, out.envp, "A=b");
}

static void run_rejects_bad_payloads(struct ktest *t)
{
	char buf[128], bad[128];
	struct ctl_run_wire *const w = (struct ctl_run_wire *)bad;
	struct ctl_run out = { .argc = 77 };
	const ssize_t ret = ctl_run_encode(&run_in, buf, sizeof(buf));
	size_t len;

	ASSERT_TRUE(t, ret > 0);
	len = (size_t)ret;
	for (size_t cut = 0; cut < len; cut++)
		EXPECT_NE(t, ctl_run_decode(buf, cut, &out), 0);
	EXPECT_EQ(t, ctl_run_decode(buf, sizeof(struct ctl_run_wire) - 1, &out), -EMSGSIZE);
	EXPECT_EQ(t, ctl_run_decode(buf, CTL_MAX_RUN + 1, &out), -EMSGSIZE);
	EXPECT_EQ(t, ctl_run_decode(buf, len + 1, &out), -EPROTO); /* a byte too many */

	memcpy(bad, buf, len);
	w->flags = cpu_to_le32(0x80);
	EXPECT_EQ(t, ctl_run_decode(bad, len, &out), -EPROTO);
	memcpy(bad, buf, len);
	w->reserved = cpu_to_le32(1);
	EXPECT_EQ(t, ctl_run_decode(bad, len, &out), -EPROTO);
	memcpy(bad, buf, len);
	w->umask = cpu_to_le32(01000);
	EXPECT_EQ(t, ctl_run_decode(bad, len, &out), -EPROTO);
	memcpy(bad, buf, len);
	w->argc = cpu_to_le32(0xffffffff);
	EXPECT_EQ(t, ctl_run_decode(bad, len, &out), -EPROTO);
	memcpy(bad, buf, len);
	w->envc = cpu_to_le32(0); /* leaves a string over */
	EXPECT_EQ(t, ctl_run_decode(bad, len, &out), -EPROTO);
	memcpy(bad, buf, len);
	bad[sizeof(*w)] = 'x'; /* path not absolute */
	EXPECT_EQ(t, ctl_run_decode(bad, len, &out), -EPROTO);
	memcpy(bad, buf, len);
	bad[len - 1] = 'x'; /* last string not terminated */
	EXPECT_EQ(t, ctl_run_decode(bad, len, &out), -EPROTO);
	EXPECT_EQ(t, out.argc, 77); /* nothing was written */

	for (size_t cap = 0; cap < len; cap++)
		EXPECT_EQ(t, ctl_run_encode(&run_in, bad, cap), -EMSGSIZE);
}

static void small_payloads_round_trip(struct ktest *t)
{
	const struct ctl_ready ready = { 9, 1, 2, 3 };
	const struct ctl_started started = { 42, 0x1122334455667788 };
	const struct ctl_winsize ws = { 24, 80, 640, 480 };
	const struct ctl_exit ex = { 0x8b, 0x99aabbccddeeff00 };
	struct ctl_ready_wire rw;
	struct ctl_started_wire sw;
	struct ctl_winsize_wire ww;
	struct ctl_exit_wire ew;
	struct ctl_errno_wire nw;
	struct ctl_ready ready_out;
	struct ctl_started started_out;
	struct ctl_winsize ws_out;
	struct ctl_exit ex_out;
	uint32_t err;

	ctl_ready_encode(&ready, &rw);
	ASSERT_EQ(t, ctl_ready_decode(&rw, sizeof(rw), &ready_out), 0);
	EXPECT_EQ(t, ready_out.epoch, 9);
	EXPECT_EQ(t, ready_out.nr_processors, 1);
	EXPECT_EQ(t, ready_out.nr_memories, 2);
	EXPECT_EQ(t, ready_out.nr_storages, 3);

	ctl_started_encode(&started, &sw);
	ASSERT_EQ(t, ctl_started_decode(&sw, sizeof(sw), &started_out), 0);
	EXPECT_EQ(t, started_out.pid, 42);
	EXPECT_EQ(t, started_out.uptime_ns, started.uptime_ns);

	ctl_winsize_encode(&ws, &ww);
	ASSERT_EQ(t, ctl_winsize_decode(&ww, sizeof(ww), &ws_out), 0);
	EXPECT_MEMEQ(t, &ws_out, &ws, sizeof(ws));

	ctl_exit_encode(&ex, &ew);
	ASSERT_EQ(t, ctl_exit_decode(&ew, sizeof(ew), &ex_out), 0);
	EXPECT_EQ(t, ex_out.status, 0x8b);
	EXPECT_EQ(t, ex_out.lifetime_ns, ex.lifetime_ns);

	ctl_errno_encode(ENOEXEC, &nw);
	ASSERT_EQ(t, ctl_errno_decode(&nw, sizeof(nw), &err), 0);
	EXPECT_EQ(t, err, ENOEXEC);
}

static void small_payloads_reject_bad_values(struct ktest *t)
{
	struct ctl_ready_wire rw = { .reserved = cpu_to_le16(1) };
	struct ctl_started_wire sw = { .reserved = cpu_to_le32(1) };
	struct ctl_exit_wire ew = { .status = cpu_to_le32(0x10000) };
	struct ctl_ready ready;
	struct ctl_started started;
	struct ctl_winsize ws;
	struct ctl_exit ex;
	uint32_t v;
	static const struct {
		uint32_t value;
		int credit;
		int signo;
		int err;
	} words[] = {
		{ 0, -EPROTO, -EPROTO, 0 },
		{ 1, 0, 0, 0 },
		{ 64, 0, 0, 0 },
		{ 65, 0, -EPROTO, 0 },
		{ ERR_MAX, 0, -EPROTO, 0 },
		{ ERR_MAX + 1, 0, -EPROTO, -EPROTO },
		{ CTL_MAX_CREDIT, 0, -EPROTO, -EPROTO },
		{ CTL_MAX_CREDIT + 1, -EPROTO, -EPROTO, -EPROTO },
		{ 0xffffffff, -EPROTO, -EPROTO, -EPROTO },
	};

	EXPECT_EQ(t, ctl_ready_decode(&rw, sizeof(rw), &ready), -EPROTO);
	EXPECT_EQ(t, ctl_ready_decode(&rw, sizeof(rw) - 1, &ready), -EMSGSIZE);
	EXPECT_EQ(t, ctl_started_decode(&sw, sizeof(sw), &started), -EPROTO);
	EXPECT_EQ(t, ctl_started_decode(&sw, sizeof(sw) - 1, &started), -EMSGSIZE);
	EXPECT_EQ(t, ctl_exit_decode(&ew, sizeof(ew), &ex), -EPROTO);
	ew.status = cpu_to_le32(0);
	ew.reserved = cpu_to_le32(1);
	EXPECT_EQ(t, ctl_exit_decode(&ew, sizeof(ew), &ex), -EPROTO);
	EXPECT_EQ(t, ctl_exit_decode(&ew, sizeof(ew) + 1, &ex), -EMSGSIZE);
	EXPECT_EQ(t, ctl_winsize_decode(&ew, 7, &ws), -EMSGSIZE);

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		const le32_t w = cpu_to_le32(words[i].value);

		EXPECT_EQ(t, ctl_credit_decode(&w, sizeof(w), &v), words[i].credit);
		EXPECT_EQ(t, ctl_signal_decode(&w, sizeof(w), &v), words[i].signo);
		EXPECT_EQ(t, ctl_errno_decode(&w, sizeof(w), &v), words[i].err);
		EXPECT_EQ(t, ctl_credit_decode(&w, sizeof(w) - 1, &v), -EMSGSIZE);
		EXPECT_EQ(t, ctl_signal_decode(&w, sizeof(w) - 1, &v), -EMSGSIZE);
		EXPECT_EQ(t, ctl_errno_decode(&w, sizeof(w) - 1, &v), -EMSGSIZE);
	}
}

static const struct ktest_case control_cases[] = {
	KTEST(hdr_has_documented_bytes),
	KTEST(hdr_round_trip),
	KTEST(hdr_rejects_bad_fields),
	KTEST(members_round_trip_and_rejections),
	KTEST(hello_round_trip_and_rejections),
	KTEST(run_round_trip),
	KTEST(run_rejects_bad_payloads),
	KTEST(small_payloads_round_trip),
	KTEST(small_payloads_reject_bad_values),
	KTEST(addresses_are_whole),
	{ 0 },
};
static const struct ktest_suite control_suite = { .name = "proto.control", .cases = control_cases };
KTEST_SUITE(control_suite);
