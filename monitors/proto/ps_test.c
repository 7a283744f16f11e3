/* SPDX-License-Identifier: MIT */
/* Processor -> storage messages: round trips and tables of rejections. */
#include <proto/ps.h>

#include <lib/errno.h>
#include <lib/ktest.h>
#include <lib/string.h>

static const struct ps_path_req sample = {
	.cred = { .uid = 1000, .gid = 100, .nr_groups = 2, .groups = { 4, 27 } },
	.vnode = 7,
	.flags = PS_LOOKUP_NOFOLLOW | PS_LOOKUP_REALPATH,
	.access = 5,
	.path_len = 9,
	.path = "/bin/true",
	.canon_len = 4,
	.mount_points_len = 14,
	.mount_points = "/tmp\0/dev/shm",
};

static void path_round_trip(struct ktest *t)
{
	uint8_t buf[128];
	struct ps_path_req out;
	const ssize_t len = ps_path_req_encode(&sample, buf, sizeof(buf));

	ASSERT_EQ(t, len, (ssize_t)(sizeof(struct ps_path_req_wire) + 8 + 9 + 14));
	ASSERT_EQ(t, ps_path_req_decode(buf, (size_t)len, &out), 0);
	EXPECT_EQ(t, out.cred.uid, 1000u);
	EXPECT_EQ(t, out.cred.groups[1], 27u);
	EXPECT_EQ(t, out.vnode, 7u);
	EXPECT_EQ(t, out.flags, sample.flags);
	EXPECT_EQ(t, out.access, 5u);
	EXPECT_MEMEQ(t, out.path, "/bin/true", 9);
	EXPECT_EQ(t, out.canon_len, 4);
	EXPECT_MEMEQ(t, out.mount_points, "/tmp\0/dev/shm", 14);
}

static void path_rejects(struct ktest *t)
{
	static const struct {
		size_t offset; /* of the byte that is changed */
		uint8_t value;
		int len_delta;
		int want;
	} cases[] = {
		{ 0, 0xe8, -1, -EMSGSIZE }, /* short */
		{ 0, 0xe8, 1, -EMSGSIZE },  /* long */
		{ 16, 0, 0, -EPROTO },      /* no vNode */
		{ 20, 0x10, 0, -EPROTO },   /* unknown flag */
		{ 24, 0x08, 0, -EPROTO },   /* unknown access bit */
		{ 34, 1, 0, -EPROTO },      /* reserved */
		{ 30, 10, 0, -EPROTO },     /* canonical part longer than the path */
		{ 8, 33, 0, -EPROTO },      /* too many groups */
		{ 44, 'x', 0, -EPROTO },    /* relative path */
		{ 48, 0, 0, -EPROTO },      /* NUL inside */
		{ 53, 'x', 0, -EPROTO },    /* relative mount point */
		{ 54, 0, 0, -EPROTO },      /* the root as a mount point */
		{ 66, 'x', 0, -EPROTO },    /* mount point without its NUL */
	};
	uint8_t buf[128];
	struct ps_path_req out;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const ssize_t len = ps_path_req_encode(&sample, buf, sizeof(buf));

		buf[cases[i].offset] = cases[i].value;
		EXPECT_EQ(t, ps_path_req_decode(buf, (size_t)(len + cases[i].len_delta), &out),
			  cases[i].want);
	}
}

static void path_encode_limits(struct ktest *t)
{
	struct ps_path_req req = sample;
	uint8_t buf[48];

	EXPECT_EQ(t, ps_path_req_encode(&req, buf, sizeof(buf)), -EMSGSIZE);
	req.path_len = 0;
	EXPECT_EQ(t, ps_path_req_encode(&req, buf, sizeof(buf)), -EMSGSIZE);
}

static void lookup_round_trip(struct ktest *t)
{
	struct ps_lookup_rep rep = { .path_len = 4, .path = "/a/b" }, out;
	uint8_t buf[256];
	ssize_t len;

	rep.attr.file =
		(struct proto_file){ .ino = 12, .gen = 3, .node = 1, .vnode = 2, .seal = 0x5ea1 };
	rep.attr.size = 4097;
	rep.attr.mode = 0100755;
	rep.attr.mtime_s = -5;
	rep.attr.nlink = 1;
	rep.attr.blksize = 4096;
	len = ps_lookup_rep_encode(&rep, buf, sizeof(buf));
	ASSERT_EQ(t, len, (ssize_t)(sizeof(struct ps_lookup_rep_wire) + 4));
	ASSERT_EQ(t, ps_lookup_rep_decode(buf, (size_t)len, &out), 0);
	EXPECT_EQ(t, out.attr.size, 4097u);
	EXPECT_EQ(t, out.attr.mtime_s, -5);
	EXPECT_MEMEQ(t, out.path, "/a/b", 4);
	EXPECT_EQ(t, ps_lookup_rep_decode(buf, (size_t)len - 1, &out), -EMSGSIZE);
	EXPECT_EQ(t, ps_lookup_rep_decode(buf, 10, &out), -EMSGSIZE);
}

static void lookup_ends_at_a_mount_point(struct ktest *t)
{
	const struct ps_lookup_rep rep = { .path_len = 4,
					   .path = "/tmp",
					   .rest_len = 2,
					   .rest = "/x",
					   .nr_links = 3,
					   .end = PS_END_UP };
	struct ps_lookup_rep out;
	uint8_t buf[256];
	const ssize_t len = ps_lookup_rep_encode(&rep, buf, sizeof(buf));

	ASSERT_EQ(t, len, (ssize_t)(sizeof(struct ps_lookup_rep_wire) + 6));
	ASSERT_EQ(t, ps_lookup_rep_decode(buf, (size_t)len, &out), 0);
	EXPECT_EQ(t, out.end, PS_END_UP);
	EXPECT_EQ(t, out.nr_links, 3);
	EXPECT_MEMEQ(t, out.path, "/tmp", 4);
	EXPECT_EQ(t, out.rest_len, 2);
	EXPECT_MEMEQ(t, out.rest, "/x", 2);
	buf[150] = 0; /* a rest, but not at a mount point */
	EXPECT_EQ(t, ps_lookup_rep_decode(buf, (size_t)len, &out), -EPROTO);
	buf[150] = PS_END_ROOT + 1;
	EXPECT_EQ(t, ps_lookup_rep_decode(buf, (size_t)len, &out), -EPROTO);
	buf[150] = 1;
	buf[157] = 0; /* NUL in the rest */
	EXPECT_EQ(t, ps_lookup_rep_decode(buf, (size_t)len, &out), -EPROTO);
}

static void dirents_round_trip(struct ktest *t)
{
	const struct ps_dirent a = { .ino = 2, .cookie = 9, .type = 4, .name_len = 1, .name = "." };
	const struct ps_dirent b = {
		.ino = 11, .cookie = 77, .type = 8, .name_len = 10, .name = "hello.text"
	};
	uint8_t buf[80];
	struct ps_dirent out;
	size_t off = 0, at = 0;

	ASSERT_EQ(t, ps_dirent_encode(&a, buf, sizeof(buf), &off), 0);
	ASSERT_EQ(t, ps_dirent_encode(&b, buf, sizeof(buf), &off), 0);
	EXPECT_EQ(t, off, ps_dirent_size(1) + ps_dirent_size(10));
	EXPECT_EQ(t, ps_dirent_encode(&b, buf, sizeof(buf), &off), -EMSGSIZE);
	ASSERT_EQ(t, ps_dirent_decode(buf, off, &at, &out), 0);
	EXPECT_EQ(t, out.cookie, 9u);
	ASSERT_EQ(t, ps_dirent_decode(buf, off, &at, &out), 0);
	EXPECT_MEMEQ(t, out.name, "hello.text", 10);
	EXPECT_EQ(t, ps_dirent_decode(buf, off, &at, &out), -ENOENT);
	at = 0;
	EXPECT_EQ(t, ps_dirent_decode(buf, 23, &at, &out), -EPROTO); /* cut inside a record */
	buf[20] = '/';
	EXPECT_EQ(t, ps_dirent_decode(buf, off, &at, &out), -EPROTO);
}

static const struct ktest_case ps_cases[] = {
	KTEST(path_round_trip),
	KTEST(path_rejects),
	KTEST(path_encode_limits),
	KTEST(lookup_round_trip),
	KTEST(lookup_ends_at_a_mount_point),
	KTEST(dirents_round_trip),
	{ 0 },
};
static const struct ktest_suite ps_suite = { .name = "proto.ps", .cases = ps_cases };
KTEST_SUITE(ps_suite);
