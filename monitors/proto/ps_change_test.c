/* SPDX-License-Identifier: MIT */
/* Messages that change files: round trips, tables of rejections, limits of the encoders. */
#include <proto/ps.h>

#include <lib/errno.h>
#include <lib/ktest.h>
#include <lib/string.h>

#include "recode_ps_test.h"

static uint8_t buf[RECODE_MAX], again[RECODE_MAX];

#define CHANGE                                                                      \
	{ .cred = { .uid = 1000, .gid = 100, .nr_groups = 2, .groups = { 4, 27 } }, \
	  .seq = 9,                                                                 \
	  .acked = 7 }
#define DIR    { .ino = 2, .node = 5 }
#define FILE_  { .ino = 12, .gen = 77, .node = 5, .vnode = 2, .seal = 0x5ea1 }
#define FILE_2 { .ino = 13, .gen = 78, .node = 5 }

static const struct ps_make_req make = {
	.change = CHANGE,
	.dir = DIR,
	.umask = 022,
	.name_len = 3,
	.name = "abc",
};

static ssize_t sample_make(uint16_t opcode, uint32_t mode)
{
	struct ps_make_req req = make;

	req.mode = mode;
	if (opcode == PS_SYMLINK) {
		req.target = "../x";
		req.target_len = 4;
	}
	if (opcode == PS_TMPFILE) {
		req.name_len = 0;
		req.flags = PS_MAKE_NAMELESS;
	}
	if (opcode == PS_MKNOD)
		req.rdev = 0x103;
	return ps_make_req_encode(opcode, &req, buf, sizeof(buf));
}

static ssize_t sample_create(void)
{
	return sample_make(PS_CREATE, 0100644);
}

static ssize_t sample_mkdir(void)
{
	return sample_make(PS_MKDIR, 0041777);
}

static ssize_t sample_mknod(void)
{
	return sample_make(PS_MKNOD, 0020600);
}

static ssize_t sample_symlink(void)
{
	return sample_make(PS_SYMLINK, 0120777);
}

static ssize_t sample_tmpfile(void)
{
	return sample_make(PS_TMPFILE, 0100600);
}

static ssize_t sample_link(void)
{
	static const struct ps_link_req req = {
		.change = CHANGE, .file = FILE_, .dir = DIR, .name_len = 3, .name = "abc"
	};

	return ps_link_req_encode(&req, buf, sizeof(buf));
}

static ssize_t sample_remove(void)
{
	static const struct ps_remove_req req = { .change = CHANGE,
						  .dir = DIR,
						  .victim = FILE_,
						  .unused = true,
						  .name_len = 3,
						  .name = "abc" };

	return ps_remove_req_encode(&req, buf, sizeof(buf));
}

static const struct ps_rename_req rename_req = {
	.change = CHANGE,
	.from_dir = DIR,
	.to_dir = DIR,
	.source = FILE_,
	.target = FILE_2,
	.flags = PS_RENAME_WHITEOUT | PS_RENAME_UNUSED,
	.from_len = 3,
	.from = "abc",
	.to_len = 4,
	.to = "defg",
};

static ssize_t sample_rename(void)
{
	return ps_rename_req_encode(&rename_req, buf, sizeof(buf));
}

static ssize_t sample_removed(void)
{
	static const struct ps_removed_rep rep = { .file = FILE_, .nlink = 1 };
	struct ps_removed_rep_wire w;

	ps_removed_rep_encode(&rep, &w);
	memcpy(buf, &w, sizeof(w));
	return sizeof(w);
}

static ssize_t sample_setattr(void)
{
	static const struct ps_setattr_req req = {
		.change = CHANGE,
		.file = FILE_,
		.valid = PS_SET_MODE | PS_SET_ATIME | PS_SET_MTIME_NOW,
		.mode = 0755,
		.atime_s = -1,
		.atime_ns = 999999999,
	};

	return ps_setattr_req_encode(&req, buf, sizeof(buf));
}

static ssize_t sample_setxattr(void)
{
	static const struct ps_setxattr_req req = {
		.change = CHANGE,
		.file = FILE_,
		.flags = PS_XATTR_CREATE,
		.name_len = 6,
		.name = "user.x",
		.value_len = 3,
		.value = "a\0b",
	};

	return ps_setxattr_req_encode(&req, buf, sizeof(buf));
}

static ssize_t sample_getxattr(void)
{
	static const struct ps_getxattr_req req = {
		.cred = { .nr_groups = 1, .groups = { 4 }, .flags = PROTO_CRED_PLAIN },
		.file = FILE_,
		.name_len = 6,
		.name = "user.x",
	};

	return ps_getxattr_req_encode(&req, buf, sizeof(buf));
}

static ssize_t sample_fallocate(void)
{
	static const struct ps_fallocate_req req = {
		.change = CHANGE, .file = FILE_, .mode = 1, .off = 4096, .len = INT64_MAX - 4096
	};

	return ps_fallocate_req_encode(&req, buf, sizeof(buf));
}

static ssize_t sample_close(void)
{
	static const struct ps_close_req req = { .nr_files = 2, .files = { FILE_, FILE_2 } };

	return ps_close_req_encode(&req, buf, sizeof(buf));
}

static ssize_t sample_declare(void)
{
	static const struct ps_declare_req req = { .nr_files = 2,
						   .flags = PS_DECLARE_LAST,
						   .incarn = 0x10000007,
						   .files = { FILE_, FILE_2 } };

	return ps_declare_req_encode(&req, buf, sizeof(buf));
}

static ssize_t sample_fsync(void)
{
	static const struct ps_fsync_req req = { .file = FILE_, .flags = PS_FSYNC_DATA };
	struct ps_fsync_req_wire w;

	ps_fsync_req_encode(&req, &w);
	memcpy(buf, &w, sizeof(w));
	return sizeof(w);
}

#define LOCK_ \
	{ .owner = 5, .start = 10, .end = INT64_MAX, .pid = 77, .kind = PS_LOCK_OFD, .type = 1 }

static ssize_t sample_find(void)
{
	static const struct ps_find_req req = { .dir = FILE_, .name_len = 3, .name = "abc" };

	return ps_find_req_encode(&req, buf, sizeof(buf));
}

static ssize_t sample_keep(void)
{
	static const struct ps_keep_req req = { .acked = 7 };
	struct ps_keep_req_wire w;

	ps_keep_req_encode(&req, &w);
	memcpy(buf, &w, sizeof(w));
	return sizeof(w);
}

static ssize_t sample_keep_reply(void)
{
	static const struct ps_keep_rep rep = { .granted = 1 };
	struct ps_keep_rep_wire w;

	ps_keep_rep_encode(&rep, &w);
	memcpy(buf, &w, sizeof(w));
	return sizeof(w);
}

static ssize_t sample_lock(void)
{
	static const struct ps_lock_req req = {
		.file = FILE_, .lock = LOCK_, .seq = 9, .acked = 8, .token = 3, .wait = true
	};
	struct ps_lock_req_wire w;

	ps_lock_req_encode(&req, &w);
	memcpy(buf, &w, sizeof(w));
	return sizeof(w);
}

static ssize_t sample_lock_reply(void)
{
	static const struct ps_lock_rep rep = { .found = LOCK_, .state = PS_LOCK_BUSY };
	struct ps_lock_rep_wire w;

	ps_lock_rep_encode(&rep, &w);
	memcpy(buf, &w, sizeof(w));
	return sizeof(w);
}

static ssize_t sample_locks(void)
{
	static const struct ps_locks_req req = { .file = FILE_,
						 .seq = 9,
						 .acked = 9,
						 .nr_locks = 2,
						 .incarn = 0x10000007,
						 .locks = { LOCK_, LOCK_ } };

	return ps_locks_req_encode(&req, buf, sizeof(buf));
}

static ssize_t sample_events(void)
{
	static const struct ps_lock_events_req req = { .after = 1, .incarn = 2 };
	struct ps_lock_events_req_wire w;

	ps_lock_events_req_encode(&req, &w);
	memcpy(buf, &w, sizeof(w));
	return sizeof(w);
}

static ssize_t sample_events_reply(void)
{
	static const struct ps_lock_events_rep rep = {
		.last = 7, .incarn = 2, .nr_tokens = 2, .tokens = { { 3 }, { 4 } }
	};

	return ps_lock_events_rep_encode(&rep, buf, sizeof(buf));
}

static ssize_t sample_batch(void)
{
	static uint8_t bodies[2][128];
	struct ps_remove_req remove = {
		.change = CHANGE, .dir = DIR, .victim = FILE_, .name_len = 3, .name = "abc"
	};
	struct ps_batch_req req = { .nr_changes = 2,
				    .rooms = 5,
				    .changes = { { PS_UNLINK, 0, bodies[0] },
						 { PS_RMDIR, 0, bodies[1] } } };

	for (uint32_t i = 0; i < 2; i++) {
		remove.change.seq += i;
		req.changes[i].len =
			(uint32_t)ps_remove_req_encode(&remove, bodies[i], sizeof(bodies[i]));
	}
	return ps_batch_req_encode(&req, buf, sizeof(buf));
}

static ssize_t sample_batch_reply(void)
{
	static const struct ps_batch_rep rep = { .nr_changes = 3,
						 .rooms = 4,
						 .changes = { { 0 }, { -ENOENT }, { 0 } } };

	return ps_batch_rep_encode(&rep, buf, sizeof(buf));
}

/* In the order of ps_recoders[]; those behind them have their samples in ps_test.c. */
static ssize_t (*const samples[])(void) = {
	sample_create,       sample_mkdir,    sample_mknod,      sample_symlink,     sample_tmpfile,
	sample_link,         sample_remove,   sample_rename,     sample_removed,     sample_setattr,
	sample_setxattr,     sample_getxattr, sample_fallocate,  sample_close,       sample_declare,
	sample_fsync,        sample_find,     sample_batch,      sample_batch_reply, sample_keep,
	sample_keep_reply,   sample_lock,     sample_lock_reply, sample_locks,       sample_events,
	sample_events_reply,
};

static void there_and_back(struct ktest *t)
{
	for (size_t i = 0; i < ARRAY_SIZE(samples); i++) {
		const ssize_t len = samples[i]();

		ASSERT_TRUE(t, len > 0);
		EXPECT_EQ(t, ps_recoders[i].fn(buf, (size_t)len, again), len);
		EXPECT_MEMEQ(t, again, buf, (size_t)len);
		EXPECT_EQ(t, ps_recoders[i].fn(buf, (size_t)len - 1, again), -EMSGSIZE);
		EXPECT_EQ(t, ps_recoders[i].fn(buf, (size_t)len + 1, again), -EMSGSIZE);
		EXPECT_EQ(t, ps_recoders[i].fn(buf, 0, again), -EMSGSIZE);
	}
}

static void names_and_values_arrive(struct ktest *t)
{
	struct ps_rename_req ren;
	struct ps_setxattr_req xattr;
	struct ps_getxattr_req get;
	ssize_t len = sample_rename();

	ASSERT_EQ(t, ps_rename_req_decode(buf, (size_t)len, &ren), 0);
	EXPECT_EQ(t, ren.change.seq, 9u);
	EXPECT_EQ(t, ren.change.cred.groups[1], 27u);
	EXPECT_MEMEQ(t, ren.from, "abc", 3);
	EXPECT_MEMEQ(t, ren.to, "defg", 4);
	EXPECT_EQ(t, ren.target.gen, 78u);
	len = sample_setxattr();
	ASSERT_EQ(t, ps_setxattr_req_decode(buf, (size_t)len, &xattr), 0);
	EXPECT_MEMEQ(t, xattr.name, "user.x", 6);
	EXPECT_MEMEQ(t, xattr.value, "a\0b", 3);
	len = sample_getxattr();
	ASSERT_EQ(t, ps_getxattr_req_decode(buf, (size_t)len, &get), 0);
	EXPECT_EQ(t, get.cred.groups[0], 4u);
	EXPECT_MEMEQ(t, get.name, "user.x", 6);
}

static void what_has_names_left_is_a_file(struct ktest *t)
{
	const struct ps_removed_rep rep = { .nlink = 1 };
	struct ps_removed_rep_wire w;
	struct ps_removed_rep out;

	ps_removed_rep_encode(&rep, &w);
	EXPECT_EQ(t, ps_removed_rep_decode(&w, sizeof(w), &out), -EPROTO);
	w.nlink = cpu_to_le32(0);
	EXPECT_EQ(t, ps_removed_rep_decode(&w, sizeof(w), &out), 0);
}

#define AT(msg, field) offsetof(struct ps_##msg##_wire, field)
/* Behind the words of the two groups. */
#define NAME(msg)      (sizeof(struct ps_##msg##_wire) + 8)

#define BATCHED sizeof(struct ps_batch_req_wire)

/* A field of a good message is changed, and the decoder says EPROTO. */
static const struct rejection {
	const char *message;
	size_t offset;
	uint8_t size;
	uint64_t value;
} rejections[] = {
	{ "create", 8, 4, PROTO_MAX_GROUPS + 1 },
	{ "create", 12, 4, 2 },  /* flags of the credentials */
	{ "create", 16, 8, 0 },  /* change 0 */
	{ "create", 24, 8, 10 }, /* acknowledged before it was sent */
	{ "create", 24, 8, 0 },
	{ "create", AT(make_req, dir), 8, 0 }, /* no directory */
	{ "create", AT(make_req, mode), 4, 0040644 },
	{ "create", AT(make_req, mode), 4, 0300644 },
	{ "create", AT(make_req, umask), 4, 01000 },
	{ "create", AT(make_req, rdev), 4, 1 },
	{ "create", AT(make_req, flags), 4, 1 },
	{ "create", AT(make_req, reserved), 4, 1 },
	{ "create", NAME(make_req), 1, '/' },
	{ "create", NAME(make_req) + 2, 1, 0 },
	{ "mkdir", AT(make_req, mode), 4, 0100755 },
	{ "mknod", AT(make_req, mode), 4, 0100644 },
	{ "mknod", AT(make_req, mode), 4, 0010644 }, /* a FIFO with a device number */
	{ "symlink", AT(make_req, mode), 4, 0100644 },
	{ "symlink", NAME(make_req) + 4, 1, 0 }, /* NUL in the target */
	{ "tmpfile", AT(make_req, flags), 4, 2 },
	{ "link", AT(link_req, reserved), 2, 1 },
	{ "link", AT(link_req, reserved2), 4, 1 },
	{ "link", AT(link_req, file), 8, 0 },
	{ "link", NAME(link_req) + 1, 1, '/' },
	{ "remove", AT(remove_req, victim), 8, 0 },
	{ "remove", AT(remove_req, reserved2), 4, 1 },
	{ "remove", AT(remove_req, unused), 2, 2 },
	{ "rename", AT(rename_req, flags), 4, 16 },
	{ "rename", AT(rename_req, flags), 4, 10 }, /* UNUSED, and EXCHANGE */
	{ "rename", AT(rename_req, flags), 4, 1 },  /* NOREPLACE, and something to replace */
	{ "rename", AT(rename_req, flags), 4, 6 },  /* EXCHANGE and WHITEOUT */
	{ "rename", AT(rename_req, source), 8, 0 },
	{ "rename", NAME(rename_req) + 3, 1, '/' },
	{ "removed", AT(removed_rep, reserved), 4, 1 },
	{ "setattr", AT(setattr_req, valid), 4, 0 },
	{ "setattr", AT(setattr_req, valid), 4, 2048 },
	{ "setattr", AT(setattr_req, valid), 4, PS_SET_GUARDED },
	{ "setattr", AT(setattr_req, valid), 4, PS_SET_GUARDED | PS_SET_MODE },
	{ "setattr", AT(setattr_req, valid), 4, PS_SET_FLAGS | PS_SET_MODE },
	{ "setattr", AT(setattr_req, flags), 8, 8 },
	{ "setattr", AT(setattr_req, valid), 4, PS_SET_ATIME | PS_SET_ATIME_NOW },
	{ "setattr", AT(setattr_req, valid), 4, PS_SET_MTIME | PS_SET_MTIME_NOW },
	{ "setattr", AT(setattr_req, valid), 4, PS_SET_BY_OPEN_FILE },
	{ "setattr", AT(setattr_req, mode), 4, 010000 },
	{ "setattr", AT(setattr_req, size), 8, 1ull << 63 },
	{ "setattr", AT(setattr_req, atime_ns), 4, 1000000000 },
	{ "setattr", AT(setattr_req, mtime_ns), 4, 1000000000 },
	{ "setxattr", AT(setxattr_req, flags), 4, 4 },
	{ "setxattr", NAME(setxattr_req), 1, 0 },
	{ "getxattr", AT(getxattr_req, reserved), 2, 1 },
	{ "getxattr", AT(getxattr_req, reserved2), 4, 1 },
	{ "fallocate", AT(fallocate_req, reserved), 4, 1 },
	{ "fallocate", AT(fallocate_req, len), 8, 0 },
	{ "fallocate", AT(fallocate_req, len), 8, INT64_MAX - 4095 },
	{ "fallocate", AT(fallocate_req, off), 8, 1ull << 63 },
	{ "close", 4, 4, 1 },
	{ "close", 0, 4, 0 },
	{ "close", 0, 4, PS_CLOSE_MAX + 1 },
	{ "declare", AT(declare_req, nr_files), 4, PS_CLOSE_MAX + 1 },
	{ "declare", AT(declare_req, flags), 4, 2 },
	{ "declare", AT(declare_req, incarn), 4, 0 },
	{ "declare", AT(declare_req, reserved), 4, 1 },
	{ "fsync", AT(fsync_req, flags), 4, 2 },
	{ "fsync", AT(fsync_req, reserved), 4, 1 },
	{ "find", AT(find_req, dir), 8, 0 }, /* no directory */
	{ "find", AT(find_req, reserved), 2, 1 },
	{ "find", AT(find_req, reserved2), 4, 1 },
	{ "find", sizeof(struct ps_find_req_wire), 1, '/' },
	{ "find", sizeof(struct ps_find_req_wire) + 1, 1, 0 },
	{ "batch", AT(batch_req, nr_changes), 4, PS_BATCH_MAX + 1 },
	{ "batch", AT(batch_req, rooms), 4, PS_ROOMS_MAX + 1 },
	{ "batch", BATCHED + AT(batch_item, opcode), 2, PS_CREATE },
	{ "batch", BATCHED + AT(batch_item, opcode), 2, PS_BATCH },
	{ "batch", BATCHED + AT(batch_item, reserved), 2, 1 },
	{ "batch", BATCHED + AT(batch_item, len), 4, sizeof(struct ps_change_wire) - 1 },
	/* The number is that of the change behind it. */
	{ "batch", BATCHED + sizeof(struct ps_batch_item_wire) + AT(change, seq), 8, 10 },
	{ "batch reply", AT(batch_rep, rooms), 4, PS_ROOMS_MAX + 1 },
	{ "batch reply", AT(batch_rep, nr_changes), 4, PS_BATCH_MAX + 1 },
	{ "batch reply", sizeof(struct ps_batch_rep_wire), 4, 1 },
	{ "keep", AT(keep_req, acked), 8, 0 },
	{ "keep reply", AT(keep_rep, granted), 4, 2 },
	{ "keep reply", AT(keep_rep, reserved), 4, 1 },
	{ "lock", AT(lock_req, file), 8, 0 },
	{ "lock", AT(lock_req, lock.owner), 8, 0 },
	{ "lock", AT(lock_req, lock.start), 8, 1ull << 63 },
	{ "lock", AT(lock_req, lock.end), 8, 9 },  /* before its start */
	{ "lock", AT(lock_req, lock.kind), 1, 2 }, /* flock of a part */
	{ "lock", AT(lock_req, lock.kind), 1, 3 },
	{ "lock", AT(lock_req, lock.type), 1, 2 }, /* to wait to unlock */
	{ "lock", AT(lock_req, lock.type), 1, 3 },
	{ "lock", AT(lock_req, lock.reserved), 2, 1 },
	{ "lock", AT(lock_req, seq), 8, 0 },
	{ "lock", AT(lock_req, seq), 8, 7 }, /* acknowledged before it was sent */
	{ "lock", AT(lock_req, acked), 8, 0 },
	{ "lock", AT(lock_req, token), 8, 0 },
	{ "lock", AT(lock_req, op), 1, 1 }, /* to wait and only ask */
	{ "lock", AT(lock_req, op), 1, 3 },
	{ "lock", AT(lock_req, wait), 1, 2 },
	{ "lock", AT(lock_req, reserved), 2, 1 },
	{ "lock", AT(lock_req, reserved2), 4, 1 },
	{ "lock reply", AT(lock_rep, found.type), 1, 2 },
	{ "lock reply", AT(lock_rep, found.owner), 8, 0 },
	{ "lock reply", AT(lock_rep, state), 4, 0 }, /* granted, and what is in the way */
	{ "lock reply", AT(lock_rep, state), 4, 4 },
	{ "lock reply", AT(lock_rep, reserved), 4, 1 },
	{ "locks", AT(locks_req, nr_locks), 4, 0 },
	{ "locks", AT(locks_req, nr_locks), 4, PS_LOCKS_MAX + 1 },
	{ "locks", AT(locks_req, incarn), 4, 0 },
	{ "locks", AT(locks_req, seq), 8, 8 },
	{ "locks", sizeof(struct ps_locks_req_wire) + offsetof(struct ps_lock_wire, type), 1, 2 },
	{ "events", AT(lock_events_req, incarn), 4, 0 },
	{ "events", AT(lock_events_req, reserved), 4, 1 },
	{ "events reply", AT(lock_events_rep, incarn), 4, 0 },
	{ "events reply", AT(lock_events_rep, nr_tokens), 4, PS_LOCK_EVENTS_MAX + 1 },
	{ "events reply", sizeof(struct ps_lock_events_rep_wire), 8, 0 },
};

static void changed_fields_are_rejected(struct ktest *t)
{
	for (size_t i = 0; i < ARRAY_SIZE(rejections); i++) {
		const struct rejection *r = &rejections[i];
		size_t m = 0;
		ssize_t len, got;

		while (m < ARRAY_SIZE(samples) && strcmp(ps_recoders[m].name, r->message))
			m++;
		ASSERT_TRUE(t, m < ARRAY_SIZE(samples));
		len = samples[m]();
		ASSERT_TRUE(t, (ssize_t)(r->offset + r->size) <= len);
		for (uint8_t b = 0; b < r->size; b++)
			buf[r->offset + b] = (uint8_t)(r->value >> 8 * b);
		got = ps_recoders[m].fn(buf, (size_t)len, again);
		if (got != -EPROTO)
			ktest_fail(t, __FILE__, __LINE__, "%s with %#llx at %zu: %lld", r->message,
				   (unsigned long long)r->value, r->offset, (long long)got);
	}
}

/* An encoder refuses what its decoder would refuse. */
static void encoders_keep_limits(struct ktest *t)
{
	static const char *const bad[] = { ".", "..", "a/b", "" };
	static char long_name[PS_NAME_MAX + 1];
	struct ps_make_req req = make;
	struct ps_rename_req ren = rename_req;

	req.mode = 0100644;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		req.name = bad[i];
		req.name_len = (uint16_t)strlen(bad[i]);
		EXPECT_EQ(t, ps_make_req_encode(PS_CREATE, &req, buf, sizeof(buf)), -EMSGSIZE);
		ren.to = bad[i];
		ren.to_len = (uint16_t)strlen(bad[i]);
		EXPECT_EQ(t, ps_rename_req_encode(&ren, buf, sizeof(buf)), -EMSGSIZE);
	}
	memset(long_name, 'a', sizeof(long_name));
	req.name = long_name;
	req.name_len = PS_NAME_MAX + 1;
	EXPECT_EQ(t, ps_make_req_encode(PS_CREATE, &req, buf, sizeof(buf)), -EMSGSIZE);
	req.name_len = PS_NAME_MAX;
	EXPECT_EQ(t, ps_make_req_encode(PS_CREATE, &req, buf, sizeof(buf)),
		  (ssize_t)(NAME(make_req) + PS_NAME_MAX));
	EXPECT_EQ(t, ps_make_req_encode(PS_CREATE, &req, buf, NAME(make_req)), -EMSGSIZE);
	EXPECT_EQ(t, ps_make_req_encode(PS_LINK, &req, buf, sizeof(buf)), -EMSGSIZE);
	req.change.cred.nr_groups = PROTO_MAX_GROUPS + 1;
	EXPECT_EQ(t, ps_make_req_encode(PS_CREATE, &req, buf, sizeof(buf)), -EMSGSIZE);
}

static const struct ktest_case ps_change_cases[] = {
	KTEST(there_and_back),
	KTEST(names_and_values_arrive),
	KTEST(what_has_names_left_is_a_file),
	KTEST(changed_fields_are_rejected),
	KTEST(encoders_keep_limits),
	{ 0 },
};
static const struct ktest_suite ps_change_suite = { .name = "proto.ps_change",
						    .cases = ps_change_cases };
KTEST_SUITE(ps_change_suite);
