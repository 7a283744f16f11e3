/* SPDX-License-Identifier: MIT */
/* Changes as services, from request bytes to reply bytes, over a file system in memory. */
#include <lib/errno.h>
#include <lib/ktest.h>
#include <lib/string.h>
#include <mm/slab.h>

#include "memfs_test.h"
#include "storage.h"

#define NODE 5u
#define CAP  4096u

struct rig {
	struct storage st;
	struct storage_peer from;
	uint64_t seq, acked;
	uint32_t uid, gid;
	uint8_t body[CAP];
	uint8_t reply[CAP];
};

static const struct proto_file root = { .ino = 2, .gen = 7, .node = NODE };

/* The client leaves when the service has asked so often; 0: it stays. */
static unsigned int leaves_at;

static bool has_left(uint32_t node, uint32_t incarn)
{
	if (leaves_at < 2)
		return leaves_at == 1;
	leaves_at--;
	return false;
}

static struct rig *rig_new(void)
{
	const struct storage_options opt = { .index_bytes = 65536, .has_left = has_left };
	struct rig *r = kzalloc(sizeof(*r));

	if (!r)
		return NULL;
	if (storage_init(&r->st, NODE, NULL, &opt)) {
		kfree(r);
		return NULL;
	}
	r->st.fs = memfs_create();
	r->st.fsid = 99;
	r->from = (struct storage_peer){ .node = 1, .incarn = 11 };
	return r;
}

static void rig_free(struct rig *r)
{
	storage_destroy(&r->st);
	kfree(r);
}

static struct ps_change next_change(struct rig *r)
{
	r->seq++;
	return (struct ps_change){ .cred = { .uid = r->uid, .gid = r->gid },
				   .seq = r->seq,
				   .acked = r->acked ? r->acked : r->seq };
}

static ssize_t send(struct rig *r, uint16_t opcode, ssize_t len)
{
	if (len < 0)
		return len;
	return storage_change(&r->st, opcode, &r->from, r->body, (size_t)len, r->reply, CAP);
}

/* The request that was sent last, once more. */
static struct {
	uint16_t opcode;
	ssize_t len;
} last;

static ssize_t sent(struct rig *r, uint16_t opcode, ssize_t len)
{
	last.opcode = opcode;
	last.len = len;
	return send(r, opcode, len);
}

static ssize_t repeat(struct rig *r)
{
	return send(r, last.opcode, last.len);
}

/* Make @name of @mode in @dir: its handle in @out, or an error. */
static int make(struct rig *r, const struct proto_file *dir, const char *name, uint32_t mode,
		struct proto_attr *out)
{
	const uint32_t type = mode & S_IFMT;
	const uint16_t opcode = !name             ? PS_TMPFILE
				: type == S_IFDIR ? PS_MKDIR
				: type == S_IFLNK ? PS_SYMLINK
				: type == S_IFREG ? PS_CREATE
						  : PS_MKNOD;
	const struct ps_make_req req = {
		.change = next_change(r),
		.dir = *dir,
		.mode = mode,
		.umask = 022,
		.name = name,
		.name_len = (uint16_t)(name ? strlen(name) : 0),
		.target = "target",
		.target_len = type == S_IFLNK ? 6 : 0,
	};
	struct proto_attr attr;
	ssize_t ret = sent(r, opcode, ps_make_req_encode(opcode, &req, r->body, CAP));

	if (ret < 0)
		return (int)ret;
	ret = proto_attr_decode(r->reply, (size_t)ret, &attr);
	if (!ret && out)
		*out = attr;
	return (int)ret;
}

static int remove_name(struct rig *r, const struct proto_file *dir, const char *name,
		       const struct proto_file *victim, bool rmdir, uint32_t *nlink)
{
	const struct ps_remove_req req = { .change = next_change(r),
					   .dir = *dir,
					   .victim = *victim,
					   .name = name,
					   .name_len = (uint16_t)strlen(name) };
	const ssize_t ret =
		sent(r, rmdir ? PS_RMDIR : PS_UNLINK, ps_remove_req_encode(&req, r->body, CAP));
	struct ps_removed_rep rep;

	if (ret < 0)
		return (int)ret;
	if (ps_removed_rep_decode(r->reply, (size_t)ret, &rep))
		return -EPROTO;
	if (nlink)
		*nlink = rep.nlink;
	return 0;
}

static int add_link(struct rig *r, const struct proto_file *file, const struct proto_file *dir,
		    const char *name)
{
	const struct ps_link_req req = { .change = next_change(r),
					 .file = *file,
					 .dir = *dir,
					 .name = name,
					 .name_len = (uint16_t)strlen(name) };
	const ssize_t ret = sent(r, PS_LINK, ps_link_req_encode(&req, r->body, CAP));

	return ret < 0 ? (int)ret : 0;
}

static const struct proto_file none;

static int move(struct rig *r, const struct proto_file *from_dir, const char *from,
		const struct proto_file *source, const struct proto_file *to_dir, const char *to,
		const struct proto_file *target, uint32_t flags)
{
	const struct ps_rename_req req = {
		.change = next_change(r),
		.from_dir = *from_dir,
		.to_dir = *to_dir,
		.source = *source,
		.target = *target,
		.flags = flags,
		.from = from,
		.from_len = (uint16_t)strlen(from),
		.to = to,
		.to_len = (uint16_t)strlen(to),
	};
	const ssize_t ret = sent(r, PS_RENAME, ps_rename_req_encode(&req, r->body, CAP));

	return ret < 0 ? (int)ret : 0;
}

static int set_attr(struct rig *r, const struct proto_file *file, struct ps_setattr_req req,
		    struct proto_attr *out)
{
	ssize_t ret;

	req.change = next_change(r);
	req.file = *file;
	ret = sent(r, PS_SETATTR, ps_setattr_req_encode(&req, r->body, CAP));
	if (ret < 0)
		return (int)ret;
	return proto_attr_decode(r->reply, (size_t)ret, out);
}

/* The inode number that a look-up of @path finds, or its error. */
static int64_t look_up(struct rig *r, const char *path, uint32_t uid)
{
	const struct ps_path_req req = {
		.cred = { .uid = uid, .gid = uid },
		.vnode = PROTO_VNODE_ROOT,
		.path_len = (uint16_t)strlen(path),
		.path = path,
		.flags = PS_LOOKUP_NOFOLLOW,
	};
	const ssize_t len = ps_path_req_encode(&req, r->body, CAP);
	const ssize_t ret = storage_lookup(&r->st, r->body, (size_t)len, r->reply, CAP);
	struct ps_lookup_rep rep;

	if (ret < 0)
		return ret;
	return ps_lookup_rep_decode(r->reply, (size_t)ret, &rep) ? -EPROTO
								 : (int64_t)rep.attr.file.ino;
}

/* --- names -------------------------------------------------------------------------------- */

static void files_of_all_kinds(struct ktest *t)
{
	static const struct {
		const char *name;
		uint32_t mode, want;
	} kinds[] = {
		{ "file", 0100666, 0100644 },   { "dir", 0040777, 0040755 },
		{ "link", 0120777, 0120777 },   { "fifo", 0010622, 0010600 },
		{ "socket", 0140777, 0140755 }, { "device", 0020600, 0020600 },
	};
	struct rig *r = rig_new();
	struct proto_attr attr;

	ASSERT_TRUE(t, r);
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		ASSERT_EQ(t, make(r, &root, kinds[i].name, kinds[i].mode, &attr), 0);
		EXPECT_EQ(t, attr.mode, kinds[i].want);
		EXPECT_EQ(t, make(r, &root, kinds[i].name, kinds[i].mode, NULL), -EEXIST);
	}
	EXPECT_EQ(t, memfs_nr_files(r->st.fs), 6u);
	rig_free(r);
}

static void lookups_see_changes(struct ktest *t)
{
	struct rig *r = rig_new();
	struct proto_attr dir, file;

	ASSERT_TRUE(t, r);
	EXPECT_EQ(t, look_up(r, "/d/f", 0), -ENOENT);
	ASSERT_EQ(t, make(r, &root, "d", 0040755, &dir), 0);
	EXPECT_EQ(t, look_up(r, "/d/f", 0), -ENOENT);
	ASSERT_EQ(t, make(r, &dir.file, "f", 0100644, &file), 0);
	EXPECT_EQ(t, look_up(r, "/d/f", 0), (int64_t)file.file.ino);
	ASSERT_EQ(t, add_link(r, &file.file, &root, "g"), 0);
	ASSERT_EQ(t, remove_name(r, &dir.file, "f", &file.file, false, NULL), 0);
	/* The file is still there, but not by this name. */
	EXPECT_EQ(t, look_up(r, "/d/f", 0), -ENOENT);
	EXPECT_EQ(t, look_up(r, "/g", 0), (int64_t)file.file.ino);
	ASSERT_EQ(t, make(r, &dir.file, "f", 0100644, &file), 0);
	EXPECT_EQ(t, look_up(r, "/d/f", 0), (int64_t)file.file.ino);
	ASSERT_EQ(t, move(r, &root, "d", &dir.file, &root, "e", &none, 0), 0);
	EXPECT_EQ(t, look_up(r, "/d/f", 0), -ENOENT);
	EXPECT_EQ(t, look_up(r, "/e/f", 0), (int64_t)file.file.ino);
	/* Only the owner may search it now. */
	EXPECT_EQ(t, look_up(r, "/e/f", 1000), (int64_t)file.file.ino);
	ASSERT_EQ(t,
		  set_attr(r, &dir.file,
			   (struct ps_setattr_req){ .valid = PS_SET_MODE, .mode = 0700 }, &dir),
		  0);
	EXPECT_EQ(t, look_up(r, "/e/f", 1000), -EACCES);
	rig_free(r);
}

/* The inode number of @name in @dir, or an error. */
static int64_t find(struct rig *r, const struct proto_file *dir, const char *name)
{
	const struct ps_find_req req = { .dir = *dir,
					 .name = name,
					 .name_len = (uint16_t)strlen(name) };
	const ssize_t len = ps_find_req_encode(&req, r->body, CAP);
	struct proto_attr attr;
	ssize_t ret = len < 0 ? len : storage_find(&r->st, r->body, (size_t)len, r->reply, CAP);

	if (ret >= 0)
		ret = proto_attr_decode(r->reply, (size_t)ret, &attr);
	return ret ? ret : (int64_t)attr.file.ino;
}

/* By the directory's handle, wherever that is. */
static void a_name_is_found_in_its_directory(struct ktest *t)
{
	struct rig *r = rig_new();
	struct proto_attr dir, file, link;

	ASSERT_TRUE(t, r);
	ASSERT_EQ(t, make(r, &root, "d", 0040700, &dir), 0);
	ASSERT_EQ(t, make(r, &dir.file, "f", 0100644, &file), 0);
	ASSERT_EQ(t, make(r, &dir.file, "target", 0100644, NULL), 0);
	ASSERT_EQ(t, make(r, &dir.file, "l", 0120777, &link), 0);
	ASSERT_EQ(t, move(r, &root, "d", &dir.file, &root, "e", &none, 0), 0);
	EXPECT_EQ(t, find(r, &dir.file, "f"), (int64_t)file.file.ino);
	EXPECT_EQ(t, find(r, &dir.file, "l"), (int64_t)link.file.ino);
	EXPECT_EQ(t, find(r, &dir.file, "none"), -ENOENT);
	EXPECT_EQ(t, find(r, &file.file, "f"), -ENOTDIR);
	EXPECT_EQ(t, find(r, &dir.file, ".."), -EMSGSIZE); /* not encoded */
	EXPECT_EQ(t, storage_find(&r->st, r->body, 4, r->reply, CAP), -EMSGSIZE);
	EXPECT_EQ(t, find(r, &root, "e"), (int64_t)dir.file.ino);
	EXPECT_EQ(t, find(r, &none, "e"), -EPROTO);
	dir.file.gen++;
	EXPECT_EQ(t, find(r, &dir.file, "f"), -ESTALE);
	rig_free(r);
}

static void removing(struct ktest *t)
{
	struct rig *r = rig_new();
	struct proto_attr dir, a, b;
	uint32_t nlink = 9;

	ASSERT_TRUE(t, r);
	ASSERT_EQ(t, make(r, &root, "d", 0040755, &dir), 0);
	ASSERT_EQ(t, make(r, &dir.file, "a", 0100644, &a), 0);
	ASSERT_EQ(t, add_link(r, &a.file, &dir.file, "b"), 0);
	EXPECT_EQ(t, remove_name(r, &root, "d", &dir.file, true, NULL), -ENOTEMPTY);
	EXPECT_EQ(t, remove_name(r, &root, "d", &dir.file, false, NULL), -EISDIR);
	EXPECT_EQ(t, remove_name(r, &dir.file, "a", &a.file, true, NULL), -ENOTDIR);
	EXPECT_EQ(t, remove_name(r, &dir.file, "c", &a.file, false, NULL), -ENOENT);
	ASSERT_EQ(t, remove_name(r, &dir.file, "a", &a.file, false, &nlink), 0);
	EXPECT_EQ(t, nlink, 1u);
	/* Another file has the name by now. */
	ASSERT_EQ(t, make(r, &dir.file, "a", 0100644, &b), 0);
	EXPECT_EQ(t, remove_name(r, &dir.file, "a", &a.file, false, NULL), -EAGAIN);
	ASSERT_EQ(t, remove_name(r, &dir.file, "a", &b.file, false, &nlink), 0);
	ASSERT_EQ(t, remove_name(r, &dir.file, "b", &a.file, false, &nlink), 0);
	EXPECT_EQ(t, nlink, 0u);
	ASSERT_EQ(t, remove_name(r, &root, "d", &dir.file, true, NULL), 0);
	EXPECT_EQ(t, make(r, &dir.file, "x", 0100644, NULL), -ESTALE);
	rig_free(r);
}

static void renaming(struct ktest *t)
{
	struct rig *r = rig_new();
	struct proto_attr d, a, b, x;

	ASSERT_TRUE(t, r);
	ASSERT_EQ(t, make(r, &root, "d", 0040755, &d), 0);
	ASSERT_EQ(t, make(r, &root, "a", 0100644, &a), 0);
	ASSERT_EQ(t, make(r, &d.file, "b", 0100644, &b), 0);
	EXPECT_EQ(t, move(r, &root, "a", &a.file, &d.file, "b", &none, 0), -EAGAIN);
	EXPECT_EQ(t, move(r, &root, "a", &a.file, &d.file, "c", &b.file, 0), -EAGAIN);
	EXPECT_EQ(t, move(r, &root, "a", &b.file, &d.file, "c", &none, 0), -EAGAIN);
	EXPECT_EQ(t, move(r, &root, "a", &a.file, &d.file, "b", &none, PS_RENAME_NOREPLACE),
		  -EEXIST);
	EXPECT_EQ(t, move(r, &root, "a", &a.file, &root, "d", &d.file, 0), -EISDIR);
	EXPECT_EQ(t, move(r, &root, "d", &d.file, &root, "a", &a.file, 0), -ENOTDIR);
	ASSERT_EQ(t, move(r, &root, "a", &a.file, &root, "d", &d.file, PS_RENAME_EXCHANGE), 0);
	EXPECT_EQ(t, look_up(r, "/a/b", 0), (int64_t)b.file.ino);
	EXPECT_EQ(t, look_up(r, "/d", 0), (int64_t)a.file.ino);
	ASSERT_EQ(t, move(r, &root, "d", &a.file, &d.file, "b", &b.file, 0), 0);
	EXPECT_EQ(t, look_up(r, "/a/b", 0), (int64_t)a.file.ino);
	/* Two names of one file: nothing happens. */
	ASSERT_EQ(t, add_link(r, &a.file, &root, "c"), 0);
	ASSERT_EQ(t, move(r, &root, "c", &a.file, &d.file, "b", &a.file, 0), 0);
	EXPECT_EQ(t, look_up(r, "/c", 0), (int64_t)a.file.ino);
	/* A whiteout is a device. */
	r->uid = 1000;
	ASSERT_EQ(t, make(r, &root, "x", 0100644, &x), -EACCES);
	EXPECT_EQ(t, move(r, &root, "c", &a.file, &root, "y", &none, PS_RENAME_WHITEOUT), -EPERM);
	rig_free(r);
}

/* --- permission --------------------------------------------------------------------------- */

static void permission_in_directories(struct ktest *t)
{
	struct rig *r = rig_new();
	struct proto_attr tmp, shared, mine, other, dir;

	ASSERT_TRUE(t, r);
	ASSERT_EQ(t, make(r, &root, "tmp", 0040777, &tmp), 0);
	ASSERT_EQ(t,
		  set_attr(r, &tmp.file,
			   (struct ps_setattr_req){ .valid = PS_SET_MODE, .mode = 01777 }, &tmp),
		  0);
	ASSERT_EQ(t, make(r, &root, "shared", 0040777, &shared), 0);
	ASSERT_EQ(t,
		  set_attr(r, &shared.file,
			   (struct ps_setattr_req){
				   .valid = PS_SET_MODE | PS_SET_GID, .mode = 02777, .gid = 50 },
			   &shared),
		  0);
	EXPECT_EQ(t, shared.mode, 0042777u);
	r->uid = r->gid = 1000;
	EXPECT_EQ(t, make(r, &root, "f", 0100644, NULL), -EACCES);
	EXPECT_EQ(t, make(r, &tmp.file, "device", 0020644, NULL), -EPERM);
	ASSERT_EQ(t, make(r, &tmp.file, "mine", 0100644, &mine), 0);
	EXPECT_EQ(t, mine.uid, 1000u);
	EXPECT_EQ(t, mine.gid, 1000u);
	/* A set-group-id directory gives its group, and the bit to directories. */
	ASSERT_EQ(t, make(r, &shared.file, "other", 0102770, &other), 0);
	EXPECT_EQ(t, other.gid, 50u);
	EXPECT_EQ(t, other.mode, 0100750u);
	ASSERT_EQ(t, make(r, &shared.file, "dir", 0040755, &dir), 0);
	EXPECT_EQ(t, dir.mode, 0042755u);
	/* In a sticky one only the owner removes. */
	r->uid = r->gid = 1001;
	EXPECT_EQ(t, remove_name(r, &tmp.file, "mine", &mine.file, false, NULL), -EPERM);
	EXPECT_EQ(t, move(r, &tmp.file, "mine", &mine.file, &tmp.file, "x", &none, 0), -EPERM);
	EXPECT_EQ(t, remove_name(r, &shared.file, "other", &other.file, false, NULL), 0);
	r->uid = 1000;
	EXPECT_EQ(t, remove_name(r, &tmp.file, "mine", &mine.file, false, NULL), 0);
	/* A directory that moves elsewhere has its ".." written. */
	r->uid = 1001;
	EXPECT_EQ(t, move(r, &shared.file, "dir", &dir.file, &tmp.file, "dir", &none, 0), -EACCES);
	EXPECT_EQ(t, move(r, &shared.file, "dir", &dir.file, &shared.file, "d2", &none, 0), 0);
	rig_free(r);
}

static void attributes(struct ktest *t)
{
	static const struct {
		uint32_t uid;
		struct ps_setattr_req req;
		int want;
		uint32_t mode;
	} cases[] = {
		{ 1001, { .valid = PS_SET_MODE, .mode = 0600 }, -EPERM, 0 },
		{ 1000, { .valid = PS_SET_MODE, .mode = 06755 }, 0, 06755 },
		{ 1000, { .valid = PS_SET_UID, .uid = 1001 }, -EPERM, 0 },
		{ 1000, { .valid = PS_SET_GID, .gid = 50 }, -EPERM, 0 },
		/* A new owner, or another group, ends the rights of the old one. */
		{ 1000, { .valid = PS_SET_GID, .gid = 1000 }, 0, 0755 },
		{ 1001, { .valid = PS_SET_SIZE, .size = 5 }, -EACCES, 0 },
		{ 1001, { .valid = PS_SET_SIZE | PS_SET_BY_OPEN_FILE, .size = 5 }, 0, 0755 },
		{ 1001, { .valid = PS_SET_MTIME, .mtime_s = 5 }, -EPERM, 0 },
		{ 1001, { .valid = PS_SET_ATIME_NOW | PS_SET_MTIME_NOW }, -EACCES, 0 },
		{ 1000, { .valid = PS_SET_MTIME, .mtime_s = -5, .mtime_ns = 6 }, 0, 0755 },
		{ 0, { .valid = PS_SET_UID | PS_SET_GID, .uid = 7, .gid = 8 }, 0, 0755 },
	};
	struct rig *r = rig_new();
	struct proto_attr tmp, f, got;

	ASSERT_TRUE(t, r);
	ASSERT_EQ(t, make(r, &root, "tmp", 0040777, &tmp), 0);
	ASSERT_EQ(t,
		  set_attr(r, &tmp.file,
			   (struct ps_setattr_req){ .valid = PS_SET_MODE, .mode = 0777 }, &tmp),
		  0);
	EXPECT_EQ(t, set_attr(r, &tmp.file, (struct ps_setattr_req){ .valid = PS_SET_SIZE }, &got),
		  -EISDIR);
	r->uid = r->gid = 1000;
	ASSERT_EQ(t, make(r, &tmp.file, "f", 0100755, &f), 0);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		r->uid = r->gid = cases[i].uid;
		EXPECT_EQ(t, set_attr(r, &f.file, cases[i].req, &got), cases[i].want);
		if (!cases[i].want)
			EXPECT_EQ(t, got.mode & 07777, cases[i].mode);
	}
	EXPECT_EQ(t, got.uid, 7u);
	EXPECT_EQ(t, got.gid, 8u);
	EXPECT_EQ(t, got.size, 5u);
	EXPECT_EQ(t, got.mtime_s, -5ll);
	rig_free(r);
}

/* The owner had looked before another made the file immutable. */
static void flags_are_not_undone(struct ktest *t)
{
	static const struct {
		uint32_t uid, valid, flags;
		int want;
	} cases[] = {
		{ 1000, PS_SET_FLAGS, STATX_ATTR_NODUMP, 0 },
		{ 1000, PS_SET_FLAGS, STATX_ATTR_APPEND, -EPERM },
		{ 1001, PS_SET_FLAGS | PS_SET_GUARDED, STATX_ATTR_APPEND, -EPERM },
		{ 1000, PS_SET_FLAGS | PS_SET_GUARDED, STATX_ATTR_APPEND, 0 },
		{ 1000, PS_SET_FLAGS, STATX_ATTR_APPEND | STATX_ATTR_NODUMP, 0 },
		{ 1000, PS_SET_FLAGS, STATX_ATTR_NODUMP, -EPERM },
		{ 0, PS_SET_FLAGS | PS_SET_GUARDED, STATX_ATTR_IMMUTABLE, 0 },
		{ 1000, PS_SET_FLAGS, 0, -EPERM },
		{ 0, PS_SET_FLAGS, 0, -EPERM }, /* without the capability */
		{ 1000, PS_SET_FLAGS, STATX_ATTR_IMMUTABLE, 0 },
	};
	struct rig *r = rig_new();
	struct proto_attr f, got;

	ASSERT_TRUE(t, r);
	ASSERT_EQ(t, make(r, &root, "f", 0100644, &f), 0);
	ASSERT_EQ(t,
		  set_attr(r, &f.file, (struct ps_setattr_req){ .valid = PS_SET_UID, .uid = 1000 },
			   &f),
		  0);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		r->uid = r->gid = cases[i].uid;
		EXPECT_EQ(t,
			  set_attr(r, &f.file,
				   (struct ps_setattr_req){ .valid = cases[i].valid,
							    .flags = cases[i].flags },
				   &got),
			  cases[i].want);
		if (!cases[i].want)
			EXPECT_EQ(t, got.attrs, cases[i].flags);
	}
	rig_free(r);
}

static void a_read_only_mount(struct ktest *t)
{
	struct rig *r = rig_new();
	struct proto_attr f;

	ASSERT_TRUE(t, r);
	ASSERT_EQ(t, make(r, &root, "f", 0100644, &f), 0);
	r->st.fs->read_only = true;
	EXPECT_EQ(t, make(r, &root, "f", 0100644, NULL), -EEXIST);
	r->uid = 1000; /* before permission, as Linux */
	EXPECT_EQ(t, make(r, &root, "g", 0100644, NULL), -EROFS);
	EXPECT_EQ(t, remove_name(r, &root, "f", &f.file, false, NULL), -EROFS);
	EXPECT_EQ(t, move(r, &root, "f", &f.file, &root, "g", &none, 0), -EROFS);
	EXPECT_EQ(t, add_link(r, &f.file, &root, "g"), -EROFS);
	EXPECT_EQ(t, set_attr(r, &f.file, (struct ps_setattr_req){ .valid = PS_SET_MODE }, &f),
		  -EROFS);
	rig_free(r);
}

/* --- extended attributes ------------------------------------------------------------------- */

static int set_xattr(struct rig *r, const struct proto_file *file, const char *name,
		     const char *value, uint32_t flags)
{
	const struct ps_setxattr_req req = { .change = next_change(r),
					     .file = *file,
					     .flags = flags,
					     .name = name,
					     .name_len = (uint16_t)strlen(name),
					     .value = value,
					     .value_len = (uint16_t)(value ? strlen(value) : 0) };
	const ssize_t ret = sent(r, value ? PS_SETXATTR : PS_REMOVEXATTR,
				 ps_setxattr_req_encode(&req, r->body, CAP));

	return ret < 0 ? (int)ret : 0;
}

static ssize_t get_xattr(struct rig *r, const struct proto_file *file, const char *name)
{
	const struct ps_getxattr_req req = { .cred = { .uid = r->uid, .gid = r->gid },
					     .file = *file,
					     .name = name,
					     .name_len = (uint16_t)(name ? strlen(name) : 0) };
	const ssize_t len = ps_getxattr_req_encode(&req, r->body, CAP);

	return (name ? storage_getxattr : storage_listxattr)(&r->st, r->body, (size_t)len, r->reply,
							     CAP);
}

static void extended_attributes(struct ktest *t)
{
	struct rig *r = rig_new();
	struct proto_attr f, link;

	ASSERT_TRUE(t, r);
	ASSERT_EQ(t, make(r, &root, "f", 0100640, &f), 0);
	ASSERT_EQ(t, make(r, &root, "l", 0120777, &link), 0);
	EXPECT_EQ(t, get_xattr(r, &f.file, NULL), 0);
	EXPECT_EQ(t, get_xattr(r, &f.file, "user.x"), -ENODATA);
	EXPECT_EQ(t, set_xattr(r, &f.file, "user.x", "v", PS_XATTR_REPLACE), -ENODATA);
	EXPECT_EQ(t, set_xattr(r, &f.file, "user.x", "value", 0), 0);
	EXPECT_EQ(t, set_xattr(r, &f.file, "user.x", "v", PS_XATTR_CREATE), -EEXIST);
	EXPECT_EQ(t, get_xattr(r, &f.file, "user.x"), 5);
	EXPECT_MEMEQ(t, r->reply, "value", 5);
	EXPECT_EQ(t, get_xattr(r, &f.file, NULL), 7);
	EXPECT_MEMEQ(t, r->reply, "user.x", 7);
	EXPECT_EQ(t, set_xattr(r, &link.file, "user.x", "v", 0), -EPERM);
	EXPECT_EQ(t, set_xattr(r, &f.file, "other.x", "v", 0), -EOPNOTSUPP);
	r->uid = r->gid = 1000;
	EXPECT_EQ(t, set_xattr(r, &f.file, "user.x", "v", 0), -EACCES);
	EXPECT_EQ(t, get_xattr(r, &f.file, "user.x"), -EACCES);
	EXPECT_EQ(t, set_xattr(r, &f.file, "trusted.x", "v", 0), -EPERM);
	EXPECT_EQ(t, get_xattr(r, &f.file, "trusted.x"), -ENODATA);
	EXPECT_EQ(t, set_xattr(r, &f.file, "security.x", "v", 0), -EPERM);
	EXPECT_EQ(t, set_xattr(r, &f.file, "system.posix_acl_access", "v", 0), -EPERM);
	r->uid = 0;
	EXPECT_EQ(t, set_xattr(r, &f.file, "user.x", NULL, 0), 0);
	EXPECT_EQ(t, set_xattr(r, &f.file, "user.x", NULL, 0), -ENODATA);
	/* Only user 0 sees that there is one. */
	EXPECT_EQ(t, set_xattr(r, &f.file, "trusted.x", "v", 0), 0);
	EXPECT_EQ(t, get_xattr(r, &f.file, NULL), 10);
	r->uid = 1000;
	EXPECT_EQ(t, get_xattr(r, &f.file, NULL), 0);
	rig_free(r);
}

/* --- once --------------------------------------------------------------------------------- */

static void a_repeated_change_is_done_once(struct ktest *t)
{
	struct rig *r = rig_new();
	struct proto_attr f, again;
	ssize_t ret;

	ASSERT_TRUE(t, r);
	r->acked = 1;
	ASSERT_EQ(t, make(r, &root, "f", 0100644, &f), 0);
	ret = repeat(r);
	ASSERT_TRUE(t, ret > 0);
	ASSERT_EQ(t, proto_attr_decode(r->reply, (size_t)ret, &again), 0);
	EXPECT_TRUE(t, proto_file_equal(&again.file, &f.file));
	EXPECT_EQ(t, memfs_nr_files(r->st.fs), 1u);
	/* An error is an answer, too. */
	EXPECT_EQ(t, make(r, &root, "f", 0100644, NULL), -EEXIST);
	ASSERT_EQ(t, remove_name(r, &root, "f", &f.file, false, NULL), 0);
	EXPECT_EQ(t, repeat(r), (ssize_t)sizeof(struct ps_removed_rep_wire));
	/* Another client has numbers of its own. */
	r->from.incarn++;
	EXPECT_EQ(t, repeat(r), -ENOENT);
	r->from.incarn--;
	/* A change that it has acknowledged is not done again, however late it comes. */
	EXPECT_EQ(t, make(r, &root, "g", 0100644, NULL), 0);
	r->acked = 100;
	r->seq = 100;
	EXPECT_EQ(t, make(r, &root, "h", 0100644, NULL), 0);
	r->seq = 50;
	r->acked = 1;
	EXPECT_EQ(t, make(r, &root, "i", 0100644, NULL), -ESTALE);
	EXPECT_EQ(t, memfs_nr_files(r->st.fs), 3u); /* f is held */
	rig_free(r);
}

static bool only_node_1(const void *arg, const struct storage_peer *peer)
{
	(void)arg;
	return peer->node == 1;
}

static void records_are_bounded(struct ktest *t)
{
	struct rig *r = rig_new();
	struct proto_attr f;

	ASSERT_TRUE(t, r);
	r->acked = 1;
	ASSERT_EQ(t, make(r, &root, "f", 0100644, &f), 0);
	for (uint32_t i = 1; i < RECORD_MAX; i++)
		ASSERT_EQ(t, make(r, &root, "f", 0100644, NULL), -EEXIST);
	EXPECT_EQ(t, make(r, &root, "f", 0100644, NULL), -ENOBUFS);
	r->acked = r->seq;
	EXPECT_EQ(t, make(r, &root, "f", 0100644, NULL), -EEXIST);
	/* A client that has left is forgotten. */
	r->from.node = 2;
	r->seq = 0;
	r->acked = 1;
	ASSERT_EQ(t, make(r, &root, "g", 0100644, &f), 0);
	storage_members(&r->st, only_node_1, NULL);
	EXPECT_EQ(t, repeat(r), -EEXIST);
	rig_free(r);
}

static void after_a_restart_the_journal_knows(struct ktest *t)
{
	struct rig *r = rig_new();
	struct proto_attr f, again;
	struct storage_peer peer;
	ssize_t ret;

	ASSERT_TRUE(t, r);
	peer = r->from;
	memfs_journal(r->st.fs);
	ASSERT_EQ(t, make(r, &root, "f", 0100644, &f), 0);
	r->from.node = 9; /* nothing in memory is about this one */
	storage_members(&r->st, only_node_1, NULL);
	record_table_destroy(&r->st.records);
	r->from = peer;
	ret = repeat(r);
	ASSERT_TRUE(t, ret > 0);
	ASSERT_EQ(t, proto_attr_decode(r->reply, (size_t)ret, &again), 0);
	EXPECT_TRUE(t, proto_file_equal(&again.file, &f.file));
	EXPECT_EQ(t, memfs_nr_files(r->st.fs), 1u);
	ASSERT_EQ(t, remove_name(r, &root, "f", &f.file, false, NULL), 0);
	record_table_destroy(&r->st.records);
	EXPECT_EQ(t, repeat(r), (ssize_t)sizeof(struct ps_removed_rep_wire));
	rig_free(r);
}

/* --- files without a name ------------------------------------------------------------------ */

static ssize_t close_file(struct rig *r, const struct proto_file *file)
{
	static struct ps_close_req req; /* too big for a stack */
	ssize_t len;

	req.nr_files = 1;
	req.files[0] = *file;
	len = ps_close_req_encode(&req, r->body, CAP);
	return storage_close(&r->st, PS_CLOSE, &r->from, r->body, (size_t)len, r->reply, CAP);
}

static void a_file_without_names_is_held_for_its_user(struct ktest *t)
{
	struct rig *r = rig_new();
	struct proto_attr f, got;
	uint32_t nlink = 9;

	ASSERT_TRUE(t, r);
	ASSERT_EQ(t, make(r, &root, "f", 0100644, &f), 0);
	ASSERT_EQ(t, remove_name(r, &root, "f", &f.file, false, &nlink), 0);
	EXPECT_EQ(t, nlink, 0u);
	EXPECT_EQ(t, memfs_nr_files(r->st.fs), 1u);
	EXPECT_EQ(t,
		  set_attr(r, &f.file, (struct ps_setattr_req){ .valid = PS_SET_SIZE, .size = 5 },
			   &got),
		  0);
	EXPECT_EQ(t, got.nlink, 0u);
	/* Another client's word counts for nothing. */
	r->from.incarn++;
	EXPECT_EQ(t, close_file(r, &f.file), 0);
	EXPECT_EQ(t, memfs_nr_files(r->st.fs), 1u);
	r->from.incarn--;
	EXPECT_EQ(t, close_file(r, &f.file), 0);
	EXPECT_EQ(t, memfs_nr_files(r->st.fs), 0u);
	EXPECT_EQ(t, close_file(r, &f.file), 0);
	/* A file that a rename replaces, and one that never had a name. */
	ASSERT_EQ(t, make(r, &root, "a", 0100644, &f), 0);
	ASSERT_EQ(t, make(r, &root, "b", 0100644, &got), 0);
	ASSERT_EQ(t, move(r, &root, "b", &got.file, &root, "a", &f.file, 0), 0);
	ASSERT_EQ(t, make(r, &root, NULL, 0100600, &got), 0);
	EXPECT_EQ(t, memfs_nr_files(r->st.fs), 3u);
	EXPECT_EQ(t, close_file(r, &f.file), 0);
	EXPECT_EQ(t, memfs_nr_files(r->st.fs), 2u);
	/* Its client leaves. */
	r->from.node = 2;
	ASSERT_EQ(t, make(r, &root, NULL, 0100600, &f), 0);
	EXPECT_EQ(t, memfs_nr_files(r->st.fs), 3u);
	storage_members(&r->st, only_node_1, NULL);
	EXPECT_EQ(t, memfs_nr_files(r->st.fs), 2u);
	rig_free(r);
}

/* A client that closes nothing comes to its limit before the name goes; another one goes on. */
static void one_client_does_not_fill_the_table(struct ktest *t)
{
	static const char *const names[] = { "a", "b", "c" };
	struct rig *r = rig_new();
	struct proto_attr f[3];

	ASSERT_TRUE(t, r);
	r->st.held.shares.max = 2;
	for (int i = 0; i < 3; i++) {
		ASSERT_EQ(t, make(r, &root, names[i], 0100644, &f[i]), 0);
		EXPECT_EQ(t, remove_name(r, &root, names[i], &f[i].file, false, NULL),
			  i < 2 ? 0 : -ENOMEM);
	}
	EXPECT_GT(t, look_up(r, "/c", 0), 0);
	r->from.node = 2;
	EXPECT_EQ(t, remove_name(r, &root, "c", &f[2].file, false, NULL), 0);
	r->from.node = 1;
	ASSERT_EQ(t, make(r, &root, "d", 0100644, &f[2]), 0);
	EXPECT_EQ(t, close_file(r, &f[0].file), 0);
	EXPECT_EQ(t, remove_name(r, &root, "d", &f[2].file, false, NULL), 0);
	rig_free(r);
}

static ssize_t declare(struct rig *r, uint32_t incarn, const struct proto_file *file,
		       uint32_t flags)
{
	static struct ps_declare_req req; /* too big for a stack */
	ssize_t len;

	req.nr_files = 1;
	req.flags = flags;
	req.incarn = incarn;
	req.files[0] = *file;
	len = ps_declare_req_encode(&req, r->body, CAP);
	return storage_declare(&r->st, PS_DECLARE, &r->from, r->body, (size_t)len, r->reply, CAP);
}

/* All that was in memory is lost. */
static void start_again(struct rig *r)
{
	memfs_keep(r->st.fs);
	held_table_destroy(&r->st.held);
	held_table_init(&r->st.held, has_left);
	record_table_destroy(&r->st.records);
	grace_init(&r->st.grace, true);
}

static int remove_unused(struct rig *r, const char *name, const struct proto_file *victim)
{
	const struct ps_remove_req req = { .change = next_change(r),
					   .dir = root,
					   .victim = *victim,
					   .unused = true,
					   .name = name,
					   .name_len = (uint16_t)strlen(name) };
	const ssize_t ret = sent(r, PS_UNLINK, ps_remove_req_encode(&req, r->body, CAP));

	return ret < 0 ? (int)ret : 0;
}

static void what_is_not_used_goes_at_once(struct ktest *t)
{
	struct rig *r = rig_new();
	struct proto_attr f, g;

	ASSERT_TRUE(t, r);
	memfs_journal(r->st.fs);
	ASSERT_EQ(t, make(r, &root, "f", 0100644, &f), 0);
	ASSERT_EQ(t, make(r, &root, "g", 0100644, &g), 0);
	ASSERT_EQ(t, add_link(r, &f.file, &root, "l"), 0);
	EXPECT_EQ(t, remove_unused(r, "f", &g.file), -EAGAIN);
	ASSERT_EQ(t, remove_unused(r, "f", &f.file), 0);
	EXPECT_EQ(t, memfs_nr_files(r->st.fs), 2u); /* it has a name left */
	ASSERT_EQ(t, move(r, &root, "g", &g.file, &root, "l", &f.file, PS_RENAME_UNUSED), 0);
	EXPECT_EQ(t, memfs_nr_files(r->st.fs), 1u);
	ASSERT_EQ(t, remove_unused(r, "l", &g.file), 0);
	EXPECT_EQ(t, held_count(&r->st.held), 0u);
	EXPECT_EQ(t, memfs_nr_files(r->st.fs), 0u);
	/* As it was not held, nor is it when the node is started again. */
	start_again(r);
	EXPECT_EQ(t, repeat(r), (ssize_t)sizeof(struct ps_removed_rep_wire));
	EXPECT_EQ(t, held_count(&r->st.held), 0u);
	rig_free(r);
}

static void declared_files_outlive_a_start_again(struct ktest *t)
{
	struct proto_attr declared, repeated, forgotten, tmp;
	struct rig *r = rig_new();

	ASSERT_TRUE(t, r);
	r->st.incarn = 77;
	memfs_journal(r->st.fs);
	ASSERT_EQ(t, make(r, &root, "a", 0100644, &declared), 0);
	ASSERT_EQ(t, make(r, &root, "b", 0100644, &repeated), 0);
	ASSERT_EQ(t, make(r, &root, "c", 0100644, &forgotten), 0);
	ASSERT_EQ(t, remove_name(r, &root, "a", &declared.file, false, NULL), 0);
	ASSERT_EQ(t, remove_name(r, &root, "c", &forgotten.file, false, NULL), 0);
	ASSERT_EQ(t, remove_name(r, &root, "b", &repeated.file, false, NULL), 0);
	start_again(r);
	/* The answer had been lost, so the client does not know that it uses the file. */
	EXPECT_EQ(t, repeat(r), (ssize_t)sizeof(struct ps_removed_rep_wire));
	EXPECT_EQ(t, declare(r, 76, &declared.file, 0), -ESTALE);
	EXPECT_EQ(t, declare(r, 77, &declared.file, 0), 0);
	EXPECT_FALSE(t, grace_has_declared(&r->st.grace, &r->from));
	EXPECT_EQ(t, declare(r, 77, &declared.file, PS_DECLARE_LAST), 0);
	EXPECT_TRUE(t, grace_has_declared(&r->st.grace, &r->from));
	EXPECT_EQ(t, memfs_nr_files(r->st.fs), 3u);
	EXPECT_EQ(t, held_count(&r->st.held), 2u);
	storage_grace_end(&r->st);
	EXPECT_EQ(t, memfs_nr_files(r->st.fs), 2u);
	EXPECT_EQ(t, close_file(r, &declared.file), 0);
	EXPECT_EQ(t, close_file(r, &repeated.file), 0);
	EXPECT_EQ(t, memfs_nr_files(r->st.fs), 0u);
	/* One that never had a name, too; and a file with a name is not held. */
	ASSERT_EQ(t, make(r, &root, "d", 0100644, &declared), 0);
	ASSERT_EQ(t, make(r, &root, NULL, 0100600, &tmp), 0);
	start_again(r);
	ASSERT_TRUE(t, repeat(r) > 0);
	EXPECT_EQ(t, declare(r, 77, &declared.file, 0), 0);
	storage_grace_end(&r->st);
	EXPECT_EQ(t, memfs_nr_files(r->st.fs), 2u);
	ASSERT_EQ(t, remove_name(r, &root, "d", &declared.file, false, NULL), 0);
	EXPECT_EQ(t, close_file(r, &declared.file), 0);
	EXPECT_EQ(t, close_file(r, &tmp.file), 0);
	EXPECT_EQ(t, memfs_nr_files(r->st.fs), 0u);
	rig_free(r);
}

/* The view without the client is applied while its request is served. */
static void nothing_is_held_for_one_that_has_left(struct ktest *t)
{
	struct rig *r = rig_new();
	struct proto_attr f, g;

	ASSERT_TRUE(t, r);
	ASSERT_EQ(t, make(r, &root, "f", 0100644, &f), 0);
	ASSERT_EQ(t, make(r, &root, "g", 0100644, &g), 0);
	leaves_at = 2; /* behind the beginning of the change */
	EXPECT_EQ(t, remove_name(r, &root, "f", &f.file, false, NULL), 0);
	EXPECT_EQ(t, held_count(&r->st.held), 0u);
	EXPECT_EQ(t, memfs_nr_files(r->st.fs), 1u);
	/* Nor does one change anything that has left before. */
	r->from.node = 2;
	leaves_at = 1;
	EXPECT_EQ(t, remove_name(r, &root, "g", &g.file, false, NULL), -ESTALE);
	EXPECT_EQ(t, memfs_nr_files(r->st.fs), 1u);
	spin_lock(&r->st.records.lock);
	EXPECT_EQ(t, list_length(&r->st.records.clients), 1u);
	spin_unlock(&r->st.records.lock);
	leaves_at = 0;
	rig_free(r);
}

/* A list that cannot be set takes no rights either. */
static void a_list_takes_set_group_id(struct ktest *t)
{
	static const uint8_t list[] = {
		2, 0, 0,   0,   1,   0,   7,  0, 255, 255, 255, 255, 4,   0,
		5, 0, 255, 255, 255, 255, 32, 0, 5,   0,   255, 255, 255, 255,
	};
	struct ps_setxattr_req req = { .name = "system.posix_acl_access",
				       .name_len = 23,
				       .value = (const char *)list,
				       .value_len = sizeof(list) };
	static const struct ps_setattr_req owner = { .valid = PS_SET_UID | PS_SET_GID,
						     .uid = 1000,
						     .gid = 50 };
	static const struct ps_setattr_req setgid = { .valid = PS_SET_MODE, .mode = 02755 };
	static const struct ps_setattr_req touch = { .valid = PS_SET_ATIME_NOW };
	struct rig *r = rig_new();
	struct proto_attr f;

	ASSERT_TRUE(t, r);
	ASSERT_EQ(t, make(r, &root, "f", 0100755, &f), 0);
	ASSERT_EQ(t, set_attr(r, &f.file, owner, &f), 0);
	ASSERT_EQ(t, set_attr(r, &f.file, setgid, &f), 0);
	r->uid = r->gid = 1000;
	ASSERT_EQ(t, set_xattr(r, &f.file, "user.a", "b", 0), 0);
	req.file = f.file;
	req.flags = PS_XATTR_CREATE; /* the file system of the test has room for one attribute */
	req.change = next_change(r);
	EXPECT_EQ(t, sent(r, PS_SETXATTR, ps_setxattr_req_encode(&req, r->body, CAP)), -EEXIST);
	EXPECT_EQ(t, set_attr(r, &f.file, touch, &f), 0);
	EXPECT_EQ(t, f.mode, 0102755u);
	req.flags = 0;
	req.change = next_change(r);
	EXPECT_GT(t, sent(r, PS_SETXATTR, ps_setxattr_req_encode(&req, r->body, CAP)), 0);
	EXPECT_EQ(t, set_attr(r, &f.file, touch, &f), 0);
	EXPECT_EQ(t, f.mode, 0100755u);
	rig_free(r);
}

static uint8_t bodies[PS_BATCH_MAX][256];
static struct ps_batch_req batch;

/* The root's handle, as this node would have made it. */
static struct proto_file sealed_root(const struct rig *r)
{
	struct proto_file file = root;

	file.seal = proto_file_seal(&r->st.file_key, &file);
	return file;
}

static int everybody_s(uint32_t vnode, uint32_t node, bool may_wait)
{
	return 0;
}

static int nobody_s(uint32_t vnode, uint32_t node, bool may_wait)
{
	return -EACCES;
}

static void add_remove(struct rig *r, uint16_t opcode, const char *name,
		       const struct proto_file *victim)
{
	const struct ps_remove_req req = { .change = next_change(r),
					   .dir = sealed_root(r),
					   .victim = *victim,
					   .unused = true,
					   .name = name,
					   .name_len = (uint16_t)strlen(name) };
	struct ps_batch_item *item = &batch.changes[batch.nr_changes];
	uint8_t *body = bodies[batch.nr_changes++];

	*item = (struct ps_batch_item){ .opcode = opcode, .body = body };
	item->len = (uint32_t)ps_remove_req_encode(&req, body, sizeof(bodies[0]));
}

static void add_rename(struct rig *r, const char *from, const char *to,
		       const struct proto_file *source, uint32_t flags)
{
	const struct ps_rename_req req = {
		.change = next_change(r),
		.from_dir = sealed_root(r),
		.to_dir = sealed_root(r),
		.source = *source,
		.from = from,
		.from_len = (uint16_t)strlen(from),
		.to = to,
		.to_len = (uint16_t)strlen(to),
		.flags = flags,
	};
	struct ps_batch_item *item = &batch.changes[batch.nr_changes];
	uint8_t *body = bodies[batch.nr_changes++];

	*item = (struct ps_batch_item){ .opcode = PS_RENAME, .body = body };
	item->len = (uint32_t)ps_rename_req_encode(&req, body, sizeof(bodies[0]));
}

static void add_move(struct rig *r, const char *from, const char *to,
		     const struct proto_file *source)
{
	add_rename(r, from, to, source, 0);
}

/* The errno of change @i of the answer; 1: there is none. */
static int batch_err(struct ktest *t, ssize_t ret, uint32_t i, const struct rig *r)
{
	static struct ps_batch_rep rep;

	if (ret < 0 || ps_batch_rep_decode(r->reply, (size_t)ret, &rep) || i >= rep.nr_changes)
		return 1;
	return rep.changes[i].err;
}

static ssize_t send_batch(struct rig *r)
{
	const ssize_t len = ps_batch_req_encode(&batch, r->body, CAP);

	return len < 0 ? len
		       : storage_batch(&r->st, PS_BATCH, &r->from, r->body, (size_t)len, r->reply,
				       CAP);
}

static unsigned int nr_committed;

static void note_commit(void)
{
	nr_committed++;
}

static void a_batch_is_its_changes_in_their_order(struct ktest *t)
{
	struct rig *r = rig_new();
	struct proto_attr f, g;
	ssize_t ret;

	ASSERT_TRUE(t, r);
	memfs_journal(r->st.fs);
	r->acked = 1;
	r->st.vnode_check = everybody_s;
	r->st.stable = true;
	r->st.committed = note_commit;
	ASSERT_EQ(t, make(r, &root, "f", 0100644, &f), 0);
	ASSERT_EQ(t, make(r, &root, "g", 0100644, &g), 0);
	nr_committed = 0;
	batch.nr_changes = 0;
	add_remove(r, PS_UNLINK, "g", &f.file); /* that is another one */
	add_remove(r, PS_UNLINK, "g", &g.file);
	add_move(r, "f", "g", &f.file);
	add_remove(r, PS_RMDIR, "g", &f.file);
	add_move(r, "g", "h", &f.file);
	ret = send_batch(r);
	EXPECT_EQ(t, batch_err(t, ret, 0, r), -EAGAIN);
	EXPECT_EQ(t, batch_err(t, ret, 1, r), 0);
	EXPECT_EQ(t, batch_err(t, ret, 2, r), 0);
	EXPECT_EQ(t, batch_err(t, ret, 3, r), -ENOTDIR);
	EXPECT_EQ(t, batch_err(t, ret, 4, r), 0);
	EXPECT_EQ(t, batch_err(t, ret, 5, r), 1);
	EXPECT_EQ(t, nr_committed, 3u);
	EXPECT_EQ(t, memfs_nr_files(r->st.fs), 1u);
	EXPECT_GT(t, look_up(r, "/h", 0), 0);
	/* Again: from the record, and after a start again from the journal's. */
	for (int i = 0; i < 2; i++) {
		ret = send_batch(r);
		EXPECT_EQ(t, batch_err(t, ret, 1, r), 0);
		EXPECT_EQ(t, batch_err(t, ret, 2, r), 0);
		EXPECT_EQ(t, batch_err(t, ret, 3, r), i ? -ENOENT : -ENOTDIR);
		EXPECT_EQ(t, batch_err(t, ret, 4, r), 0);
		EXPECT_GT(t, look_up(r, "/h", 0), 0);
		start_again(r);
	}
	EXPECT_EQ(t, nr_committed, 3u);
	EXPECT_EQ(t, held_count(&r->st.held), 0u);
	rig_free(r);
}

/* A node that was started again and has not been told who has what. */
static int not_known_yet(uint32_t vnode, uint32_t node, bool may_wait)
{
	return may_wait ? -EACCES : -EAGAIN;
}

/* Each change names handles of its own, which are looked at as those of a single one. */
static void a_batch_changes_no_file_of_others(struct ktest *t)
{
	struct rig *r = rig_new();
	struct proto_attr f;

	ASSERT_TRUE(t, r);
	ASSERT_EQ(t, make(r, &root, "f", 0100644, &f), 0);
	batch.nr_changes = 0;
	add_remove(r, PS_UNLINK, "f", &f.file);
	r->st.vnode_check = nobody_s;
	EXPECT_EQ(t, batch_err(t, send_batch(r), 0, r), -EACCES);
	EXPECT_EQ(t, memfs_nr_files(r->st.fs), 1u);
	/* That is no answer for good. */
	r->st.vnode_check = not_known_yet;
	EXPECT_EQ(t, batch_err(t, send_batch(r), 0, r), -ESHUTDOWN);
	EXPECT_EQ(t, memfs_nr_files(r->st.fs), 1u);
	r->st.vnode_check = everybody_s;
	EXPECT_EQ(t, batch_err(t, send_batch(r), 0, r), 0);
	EXPECT_EQ(t, memfs_nr_files(r->st.fs), 0u);
	EXPECT_EQ(t, storage_batch(&r->st, PS_BATCH, &r->from, r->body, 4, r->reply, CAP),
		  -EMSGSIZE);
	rig_free(r);
}

/* Behind one that its sender tries again none is done: they would come before it. */
static void a_batch_ends_where_it_is_tried_again(struct ktest *t)
{
	struct rig *r = rig_new();
	struct proto_attr f, g;
	ssize_t ret;

	ASSERT_TRUE(t, r);
	r->st.vnode_check = everybody_s;
	ASSERT_EQ(t, make(r, &root, "f", 0100644, &f), 0);
	ASSERT_EQ(t, make(r, &root, "g", 0100644, &g), 0);
	for (int i = 0; i < 2; i++) {
		batch.nr_changes = 0;
		add_remove(r, PS_UNLINK, "g", &g.file);
		add_move(r, "f", "g", &f.file);
		add_remove(r, PS_UNLINK, "g", &f.file);
		if (!i)
			memfs_fail_once(r->st.fs, -ENOMEM, 0);
		ret = send_batch(r);
		EXPECT_EQ(t, batch_err(t, ret, 0, r), i ? 0 : -ENOMEM);
		EXPECT_EQ(t, batch_err(t, ret, 1, r), i ? 0 : -ENOMEM);
		EXPECT_EQ(t, batch_err(t, ret, 2, r), i ? 0 : -ENOMEM);
		EXPECT_EQ(t, memfs_nr_files(r->st.fs), i ? 0u : 2u);
	}
	rig_free(r);
}

static bool is_alone(const struct storage_peer *who)
{
	return true;
}

static int recall_nobody(const struct storage_peer *keeper)
{
	return 0;
}

static bool is_no_member(const void *arg, const struct storage_peer *peer)
{
	return false;
}

/* How many rooms there are after the batch that asks for @nr. */
static uint32_t ask_rooms(struct rig *r, uint32_t nr)
{
	static struct ps_batch_rep rep;
	ssize_t ret;

	batch.rooms = nr;
	ret = send_batch(r);
	batch.rooms = 0;
	return ret < 0 || ps_batch_rep_decode(r->reply, (size_t)ret, &rep) ? UINT32_MAX : rep.rooms;
}

/* The keeper alone has room for names that are to come, until it is the keeper no more. */
static void a_keeper_has_room_for_names(struct ktest *t)
{
	static const struct keep_ops ops = { .is_alone = is_alone, .recall = recall_nobody };
	static const struct storage_peer other = { .node = 2, .incarn = 22 };
	struct rig *r = rig_new();
	struct keep_use use;
	struct proto_attr f;

	ASSERT_TRUE(t, r);
	r->st.vnode_check = everybody_s;
	r->st.keep.ops = &ops;
	ASSERT_EQ(t, make(r, &root, "f", 0100644, &f), 0);
	batch.nr_changes = 0;
	EXPECT_EQ(t, ask_rooms(r, 10), 0u);
	ASSERT_TRUE(t, keep_grant(&r->st.keep, &r->from));
	EXPECT_EQ(t, ask_rooms(r, 10), 10u);
	EXPECT_EQ(t, memfs_rooms(r->st.fs), 10u);
	/* Its rename takes one, and the answer tells how many are there afterwards. */
	add_rename(r, "f", "g", &f.file, PS_RENAME_ROOM);
	EXPECT_EQ(t, ask_rooms(r, 3), 3u);
	EXPECT_GT(t, look_up(r, "/g", 0), 0);
	batch.nr_changes = 0;
	ASSERT_EQ(t, keep_enter(&r->st.keep, &use, &other, false), 0);
	EXPECT_EQ(t, memfs_rooms(r->st.fs), 0u);
	keep_leave(&r->st.keep, &use);
	EXPECT_EQ(t, ask_rooms(r, 10), 0u);
	/* One that has none says so in vain. */
	add_rename(r, "g", "h", &f.file, PS_RENAME_ROOM);
	EXPECT_EQ(t, ask_rooms(r, 10), 0u);
	EXPECT_GT(t, look_up(r, "/h", 0), 0);
	batch.nr_changes = 0;
	ASSERT_TRUE(t, keep_grant(&r->st.keep, &r->from));
	EXPECT_EQ(t, ask_rooms(r, 10), 10u);
	storage_members(&r->st, is_no_member, NULL);
	EXPECT_EQ(t, memfs_rooms(r->st.fs), 0u);
	rig_free(r);
}

static void a_failed_change_holds_nothing(struct ktest *t)
{
	struct rig *r = rig_new();
	struct proto_attr f;

	ASSERT_TRUE(t, r);
	ASSERT_EQ(t, make(r, &root, "f", 0100644, &f), 0);
	memfs_fail(r->st.fs, -ENOSPC);
	EXPECT_EQ(t, make(r, &root, "g", 0100644, NULL), -ENOSPC);
	EXPECT_EQ(t, remove_name(r, &root, "f", &f.file, false, NULL), -ENOSPC);
	EXPECT_EQ(t, move(r, &root, "f", &f.file, &root, "g", &none, 0), -ENOSPC);
	memfs_fail(r->st.fs, 0);
	ASSERT_EQ(t, remove_name(r, &root, "f", &f.file, false, NULL), 0);
	EXPECT_EQ(t, close_file(r, &f.file), 0);
	EXPECT_EQ(t, memfs_nr_files(r->st.fs), 0u);
	rig_free(r);
}

static void what_is_no_change(struct ktest *t)
{
	struct rig *r = rig_new();

	ASSERT_TRUE(t, r);
	EXPECT_EQ(t, storage_change(&r->st, PS_LOOKUP, &r->from, r->body, 4, r->reply, CAP),
		  -ENOSYS);
	EXPECT_EQ(t, storage_change(&r->st, PS_CREATE, &r->from, r->body, 4, r->reply, CAP),
		  -EMSGSIZE);
	rig_free(r);
}

static const struct ktest_case change_cases[] = {
	KTEST(files_of_all_kinds),
	KTEST(lookups_see_changes),
	KTEST(a_name_is_found_in_its_directory),
	KTEST(removing),
	KTEST(renaming),
	KTEST(permission_in_directories),
	KTEST(attributes),
	KTEST(flags_are_not_undone),
	KTEST(a_read_only_mount),
	KTEST(extended_attributes),
	KTEST(a_repeated_change_is_done_once),
	KTEST(records_are_bounded),
	KTEST(after_a_restart_the_journal_knows),
	KTEST(a_file_without_names_is_held_for_its_user),
	KTEST(what_is_not_used_goes_at_once),
	KTEST(one_client_does_not_fill_the_table),
	KTEST(declared_files_outlive_a_start_again),
	KTEST(nothing_is_held_for_one_that_has_left),
	KTEST(a_batch_is_its_changes_in_their_order),
	KTEST(a_batch_changes_no_file_of_others),
	KTEST(a_batch_ends_where_it_is_tried_again),
	KTEST(a_keeper_has_room_for_names),
	KTEST(a_failed_change_holds_nothing),
	KTEST(a_list_takes_set_group_id),
	KTEST(what_is_no_change),
	{ 0 },
};
static const struct ktest_suite change_suite = { .name = "storage.change", .cases = change_cases };
KTEST_SUITE(change_suite);
