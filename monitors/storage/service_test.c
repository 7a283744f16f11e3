/* SPDX-License-Identifier: MIT */
/* The services of the storage monitor, from request bytes to reply bytes. */
#include <kernel/thread.h>
#include <lib/atomic.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/ktest.h>
#include <lib/string.h>
#include <mm/slab.h>

#include "storage.h"
#include "toy_image.h"

#define NODE 5u
#define CAP  8192u

struct rig {
	struct storage st;
	struct blkdev *bd;
	uint8_t body[CAP];
	uint8_t reply[CAP];
	uint8_t pages[3][PAGE_SIZE] __aligned(16);
};

#define PROC   11u /* has vNodes 1 and 2 */
#define PROC_1 12u /* has vNode 1 */
#define MEMORY 13u

/* As the view of a cluster with two vNodes. */
static bool placed_known = true;

static int fake_check(uint32_t vnode, uint32_t node, bool may_wait)
{
	const bool has = vnode == PROTO_VNODE_ROOT || (vnode == 2 && node == PROC);

	if (has && may_wait)
		return 0;
	return placed_known || may_wait ? -EACCES : -EAGAIN;
}

static const struct siphash_key file_key = { 77, 78 };

static struct rig *rig_new(struct ktest *t, bool disk)
{
	const struct storage_options opt = { .cache_bytes = 65536,
					     .index_bytes = 65536,
					     .vnode_check = fake_check,
					     .file_key = &file_key };
	struct rig *r = kzalloc(sizeof(*r));
	int err;

	EXPECT_TRUE(t, r);
	if (!r)
		return NULL;
	r->bd = disk ? toy_image_open() : NULL;
	err = storage_init(&r->st, NODE, r->bd, &opt);
	EXPECT_EQ(t, err, 0);
	if (!err)
		return r;
	kfree(r);
	return NULL;
}

static void rig_free(struct rig *r)
{
	storage_destroy(&r->st);
	if (r->bd)
		toy_image_close(r->bd);
	kfree(r);
}

#define PLAIN 0x80000000u /* beside a user: without rights over files of others */

/* Ask @service for @path as user @uid. */
static ssize_t ask_path(struct rig *r, storage_service service, const char *path, uint32_t flags,
			uint32_t access, uint32_t uid)
{
	const struct ps_path_req req = {
		.cred = { .uid = uid & ~PLAIN,
			  .gid = uid & ~PLAIN,
			  .flags = uid & PLAIN ? PROTO_CRED_PLAIN : 0 },
		.vnode = PROTO_VNODE_ROOT,
		.flags = flags,
		.access = access,
		.path_len = (uint16_t)strlen(path),
		.path = path,
	};
	const ssize_t len = ps_path_req_encode(&req, r->body, CAP);

	if (len < 0)
		return len;
	return service(&r->st, r->body, (size_t)len, r->reply, CAP);
}

static ssize_t ask_file(struct rig *r, storage_service service, uint64_t ino, uint32_t gen,
			uint32_t node)
{
	const struct proto_file file = { .ino = ino, .gen = gen, .node = node };
	struct ps_file_req_wire w;

	ps_file_req_encode(&file, &w);
	return service(&r->st, &w, sizeof(w), r->reply, CAP);
}

static void lookup(struct ktest *t)
{
	struct rig *r = rig_new(t, true);
	struct ps_lookup_rep rep;
	ssize_t len;

	ASSERT_TRUE(t, r);
	len = ask_path(r, storage_lookup, "/link", PS_LOOKUP_REALPATH, FS_MAY_READ, 1000);
	ASSERT_TRUE(t, len > 0);
	ASSERT_EQ(t, ps_lookup_rep_decode(r->reply, (size_t)len, &rep), 0);
	EXPECT_EQ(t, rep.attr.file.ino, (uint64_t)TOY_INO_TEXT);
	EXPECT_EQ(t, rep.attr.file.gen, TOY_GEN);
	EXPECT_EQ(t, rep.attr.file.node, NODE);
	EXPECT_EQ(t, rep.attr.size, (uint64_t)TOY_TEXT_LEN);
	EXPECT_EQ(t, rep.attr.mode, 0100644u);
	EXPECT_EQ(t, rep.attr.uid, 7u);
	EXPECT_EQ(t, rep.attr.gid, 8u);
	EXPECT_EQ(t, rep.attr.blocks, 10ull);
	EXPECT_EQ(t, rep.attr.mtime_s, 200ll);
	EXPECT_EQ(t, rep.path_len, 9);
	EXPECT_MEMEQ(t, rep.path, "/etc/text", 9);

	len = ask_path(r, storage_lookup, "/null", 0, 0, 0);
	ASSERT_TRUE(t, len > 0);
	ASSERT_EQ(t, ps_lookup_rep_decode(r->reply, (size_t)len, &rep), 0);
	EXPECT_EQ(t, rep.attr.rdev, 0x103u);
	EXPECT_EQ(t, rep.path_len, 0);
	rig_free(r);
}

static void what_lookup_refuses(struct ktest *t)
{
	static const struct {
		const char *path;
		uint32_t flags, access, uid;
		ssize_t want;
	} cases[] = {
		{ "/none", 0, 0, 0, -ENOENT },
		{ "/etc/text/x", 0, 0, 0, -ENOTDIR },
		{ "/etc/text", PS_LOOKUP_DIRECTORY, 0, 0, -ENOTDIR },
		{ "/private/key", 0, 0, 1000, -EACCES },
		{ "/private", 0, FS_MAY_READ, 1000, -EACCES },
		{ "/etc/text", 0, FS_MAY_EXEC, 0, -EACCES },
		{ "/etc/text", 0, FS_MAY_WRITE, 0, -EROFS },
		{ "/etc/text", 0, FS_MAY_WRITE, 1000, -EROFS }, /* before permission, as Linux */
		{ "/etc", 0, FS_MAY_WRITE, 0, -EROFS },
		{ "/link", PS_LOOKUP_NOFOLLOW, 0, 0, 0 },
		{ "/null", 0, FS_MAY_WRITE, 1000, 0 }, /* a device is not on the disk */
		{ "/private/key", 0, 0, 0, 0 },
		{ "/private/key", 0, 0, PLAIN, -EACCES },
		{ "/private", 0, FS_MAY_READ, PLAIN, -EACCES },
	};
	struct rig *r = rig_new(t, true);

	ASSERT_TRUE(t, r);
	for (int round = 0; round < 2; round++) {
		for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
			const ssize_t ret = ask_path(r, storage_access, cases[i].path,
						     cases[i].flags, cases[i].access, cases[i].uid);

			EXPECT_EQ(t, ret, cases[i].want);
		}
	}
	rig_free(r);
}

static void read_link(struct ktest *t)
{
	struct rig *r = rig_new(t, true);

	ASSERT_TRUE(t, r);
	EXPECT_EQ(t, ask_path(r, storage_readlink, "/link", PS_LOOKUP_NOFOLLOW, 0, 0), 8);
	EXPECT_MEMEQ(t, r->reply, "etc/text", 8);
	EXPECT_EQ(t, ask_path(r, storage_readlink, "/etc", PS_LOOKUP_NOFOLLOW, 0, 0), -EINVAL);
	rig_free(r);
}

static void handles(struct ktest *t)
{
	struct rig *r = rig_new(t, true);
	struct proto_attr attr;
	struct ps_statfs s;
	ssize_t len;

	ASSERT_TRUE(t, r);
	len = ask_file(r, storage_getattr, TOY_INO_TEXT, TOY_GEN, NODE);
	ASSERT_TRUE(t, len > 0);
	ASSERT_EQ(t, proto_attr_decode(r->reply, (size_t)len, &attr), 0);
	EXPECT_EQ(t, attr.size, (uint64_t)TOY_TEXT_LEN);
	EXPECT_EQ(t, ask_file(r, storage_getattr, TOY_INO_TEXT, TOY_GEN + 1, NODE), -ESTALE);
	EXPECT_EQ(t, ask_file(r, storage_getattr, TOY_INO_TEXT, TOY_GEN, NODE + 1), -ESTALE);
	EXPECT_EQ(t, ask_file(r, storage_getattr, 30, TOY_GEN, NODE), -ESTALE); /* free */
	EXPECT_EQ(t, ask_file(r, storage_getattr, 8, 0, NODE), -ESTALE);        /* the journal's */
	EXPECT_EQ(t, ask_file(r, storage_getattr, UINT64_MAX, 0, NODE), -ESTALE);

	len = ask_file(r, storage_statfs, 2, TOY_GEN, NODE);
	ASSERT_TRUE(t, len > 0);
	ASSERT_EQ(t, ps_statfs_decode(r->reply, (size_t)len, &s), 0);
	EXPECT_EQ(t, s.type, 0xef53ull);
	EXPECT_EQ(t, s.bsize, 1024ull);
	EXPECT_EQ(t, s.blocks, 64ull);
	EXPECT_EQ(t, s.bfree, 40ull);
	EXPECT_EQ(t, s.ffree, 15ull);
	rig_free(r);
}

static ssize_t ask_dents(struct rig *r, uint64_t cookie, uint32_t max_bytes)
{
	const struct ps_getdents_req req = {
		.file = { .ino = 2, .gen = TOY_GEN, .node = NODE },
		.cookie = cookie,
		.max_bytes = max_bytes,
	};
	struct ps_getdents_req_wire w;

	ps_getdents_req_encode(&req, &w);
	return storage_getdents(&r->st, &w, sizeof(w), r->reply, CAP);
}

static void getdents_in_pieces(struct ktest *t)
{
	static const char *const names[] = { ".", "..", "etc", "link", "private", "null" };
	static const uint32_t sizes[] = { 32, 70, 4096 };

	for (size_t s = 0; s < ARRAY_SIZE(sizes); s++) {
		struct rig *r = rig_new(t, true);
		struct ps_dirent ent;
		uint64_t cookie = 0;
		size_t nr = 0, off;
		ssize_t len;

		ASSERT_TRUE(t, r);
		while ((len = ask_dents(r, cookie, sizes[s])) > 0) {
			EXPECT_LE(t, (uint32_t)len, sizes[s]);
			off = 0;
			while (!ps_dirent_decode(r->reply, (size_t)len, &off, &ent)) {
				ASSERT_TRUE(t, nr < ARRAY_SIZE(names));
				EXPECT_EQ(t, ent.name_len, strlen(names[nr]));
				EXPECT_MEMEQ(t, ent.name, names[nr], ent.name_len);
				cookie = ent.cookie;
				nr++;
			}
		}
		EXPECT_EQ(t, len, 0);
		EXPECT_EQ(t, nr, ARRAY_SIZE(names));
		/* Room for no entry at all must not look like the end. */
		EXPECT_EQ(t, ask_dents(r, 0, 10), -EINVAL);
		rig_free(r);
	}
}

static int ask_read(struct rig *r, uint64_t ino, uint64_t pgoff, uint32_t nr,
		    struct ms_read_rep *rep)
{
	void *pages[] = { r->pages[0], r->pages[1], r->pages[2] };
	const struct ms_read_req req = {
		.file = { .ino = ino, .gen = TOY_GEN, .node = NODE },
		.pgoff = pgoff,
		.nr_pages = nr,
	};

	memset(r->pages, 0xee, sizeof(r->pages));
	return storage_read(&r->st, &req, pages, rep);
}

static void read_pages(struct ktest *t)
{
	struct rig *r = rig_new(t, true);
	const uint8_t *bytes;
	struct ms_read_rep rep;

	ASSERT_TRUE(t, r);
	bytes = r->pages[0];
	ASSERT_EQ(t, ask_read(r, TOY_INO_TEXT, 0, 3, &rep), 0);
	EXPECT_EQ(t, rep.nr_valid, 2u);
	EXPECT_EQ(t, rep.last_bytes, TOY_TEXT_LEN - 4096u);
	EXPECT_EQ(t, rep.file_size, (uint64_t)TOY_TEXT_LEN);
	for (uint32_t i = 0; i < 2 * PAGE_SIZE; i++)
		ASSERT_EQ(t, bytes[i], i < TOY_TEXT_LEN ? i % 251 : 0);
	EXPECT_EQ(t, r->pages[2][0], 0xee); /* not touched */

	ASSERT_EQ(t, ask_read(r, TOY_INO_TEXT, 1, 1, &rep), 0);
	EXPECT_EQ(t, rep.nr_valid, 1u);
	EXPECT_EQ(t, bytes[0], 4096 % 251);
	ASSERT_EQ(t, ask_read(r, TOY_INO_TEXT, 2, 3, &rep), 0);
	EXPECT_EQ(t, rep.nr_valid, 0u);
	EXPECT_EQ(t, rep.last_bytes, 0u);
	EXPECT_EQ(t, ask_read(r, TOY_INO_ETC, 0, 1, &rep), -EISDIR);
	EXPECT_EQ(t, ask_read(r, TOY_INO_LINK, 0, 1, &rep), -EINVAL);
	EXPECT_EQ(t, ask_read(r, 31, 0, 1, &rep), -ESTALE);
	rig_free(r);
}

static void malformed_requests(struct ktest *t)
{
	static const storage_service services[] = {
		storage_lookup,  storage_readlink, storage_access,
		storage_getattr, storage_getdents, storage_statfs,
	};
	struct rig *r = rig_new(t, true);

	ASSERT_TRUE(t, r);
	memset(r->body, 0xff, CAP);
	for (size_t s = 0; s < ARRAY_SIZE(services); s++) {
		for (size_t len = 0; len < 64; len++)
			EXPECT_TRUE(t, services[s](&r->st, r->body, len, r->reply, CAP) < 0);
	}
	rig_free(r);
}

static void without_a_disk(struct ktest *t)
{
	struct rig *r = rig_new(t, false);
	struct ms_read_rep rep;

	ASSERT_TRUE(t, r);
	EXPECT_EQ(t, ask_path(r, storage_lookup, "/etc", 0, 0, 0), -ENODEV);
	EXPECT_EQ(t, ask_file(r, storage_getattr, 2, TOY_GEN, NODE), -ENODEV);
	EXPECT_EQ(t, ask_file(r, storage_statfs, 2, TOY_GEN, NODE), -ENODEV);
	EXPECT_EQ(t, ask_read(r, 12, 0, 1, &rep), -ENODEV);
	rig_free(r);
}

/* Several workers on one instance whose caches hold next to nothing. */
#define NR_WORKERS 6u
#define NR_ROUNDS  150u

struct crowd {
	struct storage st;
	atomic_t errors;
};

struct worker {
	struct crowd *crowd;
	struct thread *thread;
	struct rig r; /* its buffers only */
};

static void work_hard(void *arg)
{
	struct worker *w = arg;
	void *pages[] = { w->r.pages[0], w->r.pages[1] };
	const struct ms_read_req req = {
		.file = { .ino = TOY_INO_TEXT, .gen = TOY_GEN, .node = NODE },
		.nr_pages = 2,
	};
	struct ms_read_rep rep;

	w->r.st = w->crowd->st;
	for (unsigned int i = 0; i < NR_ROUNDS; i++) {
		bool ok = ask_path(&w->r, storage_lookup, "/link", 0, 0, 0) > 0;

		ok &= ask_path(&w->r, storage_access, "/private/key", 0, 0, 9) == -EACCES;
		ok &= ask_file(&w->r, storage_getattr, TOY_INO_ETC, TOY_GEN, NODE) > 0;
		ok &= ask_dents(&w->r, 0, 4096) > 0;
		ok &= !storage_read(&w->crowd->st, &req, pages, &rep) &&
		      w->r.pages[1][5] == 4101 % 251;
		if (i % 16 == 0)
			pathindex_invalidate(w->crowd->st.index);
		if (!ok)
			atomic_inc(&w->crowd->errors);
	}
}

static void many_threads(struct ktest *t)
{
	const struct storage_options opt = { .cache_bytes = 1, .index_bytes = 200 };
	struct crowd *crowd = kzalloc(sizeof(*crowd));
	struct worker *workers = kcalloc(NR_WORKERS, sizeof(*workers));
	struct blkdev *bd = toy_image_open();

	ASSERT_TRUE(t, crowd && workers && bd);
	ASSERT_EQ(t, storage_init(&crowd->st, NODE, bd, &opt), 0);
	for (unsigned int i = 0; i < NR_WORKERS; i++) {
		workers[i].crowd = crowd;
		workers[i].thread = thread_create("storage-test", work_hard, &workers[i]);
		ASSERT_FALSE(t, IS_ERR(workers[i].thread));
	}
	for (unsigned int i = 0; i < NR_WORKERS; i++)
		thread_join(workers[i].thread);
	EXPECT_EQ(t, atomic_read(&crowd->errors), 0);
	storage_destroy(&crowd->st); /* finds every buffer and inode given back */
	toy_image_close(bd);
	kfree(workers);
	kfree(crowd);
}

/* --- vNodes -------------------------------------------------------------------------------- */

static struct proto_file handle_for(uint32_t vnode)
{
	struct proto_file file = {
		.ino = TOY_INO_ETC, .gen = TOY_GEN, .node = NODE, .vnode = vnode
	};

	file.seal = proto_file_seal(&file_key, &file);
	return file;
}

static size_t nr_handles(const struct storage_msg *msg)
{
	return msg->nr_handles == STORAGE_HANDLES_REST ? 3 : msg->nr_handles;
}

/* All handles of @msg are @file; else the body is 0. */
static size_t put_handles(struct rig *r, const struct storage_msg *msg,
			  const struct proto_file *file)
{
	struct proto_file_wire w;

	proto_file_encode(file, &w);
	memset(r->body, 0, CAP);
	for (size_t i = 0; i < nr_handles(msg); i++)
		memcpy(r->body + msg->handles_at + i * sizeof(w), &w, sizeof(w));
	return msg->handles_at + nr_handles(msg) * sizeof(w);
}

/* A request of @msg for @vnode, as it should be but for the sender: its length. */
static size_t request_for(struct rig *r, const struct storage_msg *msg, uint32_t vnode)
{
	const struct ps_path_req path = { .vnode = vnode, .path_len = 9, .path = "/etc/text" };
	const struct proto_file file = handle_for(vnode);
	const struct ps_getdents_req dents = { .file = file, .max_bytes = 4096 };
	struct ms_read_req read = { .file = file, .nr_pages = 1 };

	switch (msg->opcode) {
	case PS_GETATTR:
	case PS_STATFS:
		put_handles(r, msg, &file);
		return sizeof(struct ps_file_req_wire);
	case PS_GETDENTS:
		ps_getdents_req_encode(&dents, (struct ps_getdents_req_wire *)(void *)r->body);
		return sizeof(struct ps_getdents_req_wire);
	case MS_READ:
		read.pages[0] = (struct proto_mr_ref){ .addr = PAGE_SIZE, .len = PAGE_SIZE };
		return (size_t)ms_read_req_encode(&read, r->body, CAP);
	default:
		if (msg->vnode == STORAGE_VNODE_HANDLES)
			return put_handles(r, msg, &file); /* no decoder takes the rest */
		return (size_t)ps_path_req_encode(&path, r->body, CAP);
	}
}

static ssize_t send(struct rig *r, const struct storage_msg *msg, uint32_t peer, uint32_t vnode)
{
	const struct storage_peer from = { .node = peer, .incarn = 1 };
	const size_t len = request_for(r, msg, vnode);

	if (!msg->service && !msg->client_service)
		return storage_check_vnode(&r->st, msg, peer, r->body, len);
	return storage_serve_msg(&r->st, msg, &from, r->body, len, r->reply, CAP);
}

/* The compiler asks for a new opcode here, and then the table has to have it. */
static bool is_opcode(uint16_t opcode)
{
	switch ((enum ps_opcode)opcode) {
	case PS_LOOKUP:
	case PS_GETATTR:
	case PS_READLINK:
	case PS_GETDENTS:
	case PS_STATFS:
	case PS_ACCESS:
	case PS_CREATE:
	case PS_MKDIR:
	case PS_MKNOD:
	case PS_SYMLINK:
	case PS_TMPFILE:
	case PS_LINK:
	case PS_UNLINK:
	case PS_RMDIR:
	case PS_RENAME:
	case PS_SETATTR:
	case PS_GETXATTR:
	case PS_LISTXATTR:
	case PS_SETXATTR:
	case PS_REMOVEXATTR:
	case PS_FALLOCATE:
	case PS_CLOSE:
	case PS_FSYNC:
	case PS_SYNC:
	case PS_DECLARE:
	case PS_LOCK:
	case PS_LOCKS:
	case PS_LOCK_EVENTS:
	case PS_KEEP:
	case PS_FIND:
	case PS_BATCH:
		return true;
	}
	return false;
}

static void each_opcode_has_an_entry(struct ktest *t)
{
	for (uint16_t opcode = PS_LOOKUP; opcode < PS_LOOKUP + 0x100; opcode++) {
		size_t nr = 0;

		for (size_t i = 0; i < nr_storage_msgs; i++)
			nr += storage_msgs[i].opcode == opcode;
		EXPECT_EQ(t, nr, is_opcode(opcode));
	}
}

/* Each entry says where its vNode is, and a vNode that is elsewhere is refused. */
static void each_request_is_for_a_vnode_of_its_sender(struct ktest *t)
{
	struct rig *r = rig_new(t, true);

	ASSERT_TRUE(t, r);
	for (size_t i = 0; i < nr_storage_msgs; i++) {
		const struct storage_msg *msg = &storage_msgs[i];
		const bool checked =
			msg->vnode == STORAGE_VNODE_OF_PATH || msg->vnode == STORAGE_VNODE_HANDLES;
		const bool of_memory = proto_of(msg->opcode) == PROTO_MS;

		EXPECT_NE(t, (int)msg->vnode, (int)STORAGE_VNODE_UNSAID);
		EXPECT_EQ(t, msg->vnode == STORAGE_VNODE_BY_MEMORY, of_memory);
		EXPECT_EQ(t, !(msg->flags & RPC_HANDLER_FROM_PROCESSOR), of_memory);
		EXPECT_EQ(t, !!(msg->flags & RPC_HANDLER_FROM_MEMORY), of_memory);
		EXPECT_NE(t, send(r, msg, PROC_1, PROTO_VNODE_ROOT), -EACCES);
		EXPECT_NE(t, send(r, msg, PROC, 2), -EACCES);
		/* Of a batch its parts are, in change_test.c. */
		EXPECT_EQ(t, checked,
			  !of_memory && msg->opcode != PS_CLOSE && msg->opcode != PS_LOCK_EVENTS &&
				  msg->opcode != PS_KEEP && msg->opcode != PS_BATCH);
		EXPECT_EQ(t, send(r, msg, PROC_1, 2) == -EACCES, checked);
		placed_known = false;
		EXPECT_EQ(t, send(r, msg, PROC_1, 2) == -EACCES, checked);
		placed_known = true;
		EXPECT_EQ(t, send(r, msg, MEMORY, 2) == -EACCES, checked);
	}
	rig_free(r);
}

/* Each handle of each request is one that we made, for the vNode that it names. */
static void a_handle_is_good_for_its_vnode(struct ktest *t)
{
	struct rig *r = rig_new(t, true);
	struct proto_file bad[5];
	struct proto_file_wire w;
	uint64_t nr = 0;
	size_t len;

	ASSERT_TRUE(t, r);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		bad[i] = handle_for(PROTO_VNODE_ROOT);
	bad[0].ino++;
	bad[1].gen++;
	bad[2].vnode = 2; /* the processor has it, too */
	bad[3].seal ^= 1ull << 63;
	bad[4].seal = 0;
	for (size_t i = 0; i < nr_storage_msgs; i++) {
		const struct storage_msg *msg = &storage_msgs[i];

		for (size_t n = 0; n < nr_handles(msg) * ARRAY_SIZE(bad); n++, nr++) {
			const struct proto_file good = handle_for(2);

			len = put_handles(r, msg, &good);
			EXPECT_EQ(t, storage_check_vnode(&r->st, msg, PROC, r->body, len), 0);
			proto_file_encode(&bad[n % ARRAY_SIZE(bad)], &w);
			memcpy(r->body + msg->handles_at + n / ARRAY_SIZE(bad) * sizeof(w), &w,
			       sizeof(w));
			EXPECT_EQ(t, storage_check_vnode(&r->st, msg, PROC, r->body, len), -EACCES);
			EXPECT_EQ(t, storage_check_vnode(&r->st, msg, PROC, r->body, len - 1),
				  -EMSGSIZE);
		}
	}
	EXPECT_EQ(t, nr, 32 * ARRAY_SIZE(bad));
	rig_free(r);
}

/* A look-up and PS_GETATTR answer handles for the vNode that was asked for, after a start too. */
static void handles_outlive_their_node(struct ktest *t)
{
	const struct storage_msg *getattr = &storage_msgs[0];
	struct proto_file file[2] = { handle_for(1), handle_for(2) };
	struct ps_lookup_rep rep;
	struct proto_attr attr;

	while (getattr->opcode != PS_GETATTR)
		getattr++;
	for (int start = 0; start < 2; start++) {
		struct rig *r = rig_new(t, true);
		ssize_t len;

		ASSERT_TRUE(t, r);
		for (uint32_t vnode = 1; vnode <= 2; vnode++) {
			const struct storage_peer from = { .node = PROC, .incarn = 1 };
			const size_t asked = put_handles(r, getattr, &file[vnode - 1]);

			len = storage_serve_msg(&r->st, getattr, &from, r->body, asked, r->reply,
						CAP);
			ASSERT_TRUE(t, len > 0);
			ASSERT_EQ(t, proto_attr_decode(r->reply, (size_t)len, &attr), 0);
			EXPECT_EQ(t, attr.file.vnode, vnode);
			EXPECT_EQ(t, attr.file.seal, handle_for(vnode).seal);
		}
		len = ask_path(r, storage_lookup, "/etc", 0, 0, 0);
		ASSERT_TRUE(t, len > 0);
		ASSERT_EQ(t, ps_lookup_rep_decode(r->reply, (size_t)len, &rep), 0);
		EXPECT_EQ(t, rep.attr.file.seal, handle_for(1).seal);
		file[0] = rep.attr.file;
		rig_free(r);
	}
}

static const struct ktest_case service_cases[] = {
	KTEST(each_opcode_has_an_entry),
	KTEST(each_request_is_for_a_vnode_of_its_sender),
	KTEST(a_handle_is_good_for_its_vnode),
	KTEST(handles_outlive_their_node),
	KTEST(lookup),
	KTEST(what_lookup_refuses),
	KTEST(read_link),
	KTEST(handles),
	KTEST(getdents_in_pieces),
	KTEST(read_pages),
	KTEST(malformed_requests),
	KTEST(without_a_disk),
	KTEST(many_threads),
	{ 0 },
};
static const struct ktest_suite service_suite = {
	.name = "storage.service",
	.cases = service_cases,
};
KTEST_SUITE(service_suite);
