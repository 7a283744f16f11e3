/* SPDX-License-Identifier: MIT */
/* Files that change at the storage monitor: claims and fences, over a file system in memory. */
#include <abi/fcntl.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/ktest.h>
#include <lib/string.h>
#include <mm/slab.h>

#include "storage.h"

#define NODE    5u
#define INO     12u
#define TOY_MAX (1ull << 40)
#define CAP     (16 * PAGE_SIZE)

static const struct proto_file file = { .ino = INO, .gen = 1, .node = NODE };
static const struct storage_peer m0 = { 11, 1 }, m1 = { 12, 1 };

/* --- a file system of one file --------------------------------------------------------- */

static struct {
	struct fs fs;
	struct fs_inode in;
	uint8_t bytes[CAP];
	uint64_t size, version;
	uint64_t syncs, changes;
	struct fs_time mtime;
	bool hold, held; /* atomic: write_pages waits */
	int error;
	uint64_t promised, promises; /* pages; and how often */
	bool privileged;
	void (*ended)(void); /* a promise has, from now on */
} toy;

static struct fs_inode *toy_get(struct fs *fs, uint64_t ino, uint64_t gen)
{
	return ino == INO && gen == 1 ? &toy.in : ERR_PTR(-ESTALE);
}

static void toy_put(struct fs_inode *in)
{
}

static void toy_stat(const struct fs_inode *in, struct fs_stat *out)
{
	*out = (struct fs_stat){
		.ino = INO,
		.gen = 1,
		.size = toy.size,
		.max_size = TOY_MAX,
		.version = toy.version,
		.mtime = toy.mtime,
	};
}

static int toy_write(struct fs_inode *in, uint64_t off, uint64_t len, void *const *pages,
		     uint64_t new_size, const struct fs_change *ch)
{
	if (__atomic_load_n(&toy.hold, __ATOMIC_ACQUIRE)) {
		__atomic_store_n(&toy.held, true, __ATOMIC_RELEASE);
		while (__atomic_load_n(&toy.hold, __ATOMIC_ACQUIRE))
			thread_sleep_ns(NSEC_PER_MSEC);
	}
	if (toy.error)
		return toy.error;
	for (uint64_t done = 0; done < len; done += PAGE_SIZE)
		memcpy(toy.bytes + off + done, pages[done / PAGE_SIZE],
		       MIN(len - done, (uint64_t)PAGE_SIZE));
	toy.size = MAX(toy.size, new_size);
	toy.mtime = ch->now;
	toy.version++;
	return 0;
}

static int toy_setattr(struct fs_inode *in, const struct fs_attr *attr, const struct fs_change *ch)
{
	if (attr->mask & FS_SET_SIZE)
		toy.size = attr->size;
	toy.mtime = attr->mtime;
	toy.version++;
	toy.changes++;
	return 0;
}

static int toy_fallocate(struct fs_inode *in, uint32_t mode, uint64_t off, uint64_t len,
			 const struct fs_change *ch)
{
	if (mode != (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE))
		return -EOPNOTSUPP;
	memset(toy.bytes + off, 0, len);
	toy.version++;
	toy.changes++;
	return 0;
}

/* Everything behind the first page is a hole. */
static int64_t toy_seek(struct fs_inode *in, uint64_t off, int whence)
{
	if (off >= toy.size)
		return -ENXIO;
	if (whence == SEEK_DATA)
		return off < PAGE_SIZE ? (int64_t)off : -ENXIO;
	return (int64_t)MIN(MAX(off, (uint64_t)PAGE_SIZE), toy.size);
}

/* Everything behind the first page is a hole, and there is room for 20 pages. */
static int toy_promise(struct fs_inode *in, struct fs_promise *p, const struct fs_change *ch)
{
	toy.promises++;
	toy.privileged = ch->privileged;
	p->covered = p->nr;
	p->mapped = p->nr && !p->index;
	for (uint32_t i = 0; i < p->nr; i++) {
		if (p->index + i)
			p->holes[i / 64] |= 1ull << i % 64;
	}
	if (p->others + p->need > 20)
		return -ENOSPC;
	toy.promised = p->others + p->nr - p->mapped;
	if (!toy.promised && toy.ended)
		toy.ended();
	return 0;
}

static int toy_fsync(struct fs_inode *in, bool datasync)
{
	toy.syncs += datasync ? 100 : 1;
	return 0;
}

/* Request 7 of the first node has been done, whatever client it names. */
static int toy_find(struct fs *fs, uint64_t client, uint64_t seq, struct fs_done *done)
{
	return client == ((uint64_t)m0.node << 32 | m0.incarn) && seq == 7 ? 0 : -ENOENT;
}

static void toy_orphans_release(struct fs *fs)
{
	(void)fs;
}

static const struct fs_ops toy_ops = {
	.inode_get = toy_get,
	.inode_put = toy_put,
	.stat = toy_stat,
	.seek = toy_seek,
};

static const struct fs_write_ops toy_changes = {
	.write_pages = toy_write,
	.promise = toy_promise,
	.setattr = toy_setattr,
	.fallocate = toy_fallocate,
	.fsync = toy_fsync,
	.change_find = toy_find,
	.orphans_release = toy_orphans_release,
};

/* --- */

static uint32_t left_node; /* whose lives are over */

static bool has_left(uint32_t node, uint32_t incarn)
{
	return node == READ_ONCE(left_node);
}

static void start(struct storage *st)
{
	memset(&toy, 0, sizeof(toy));
	toy.fs = (struct fs){ .ops = &toy_ops, .changes = &toy_changes };
	toy.in = (struct fs_inode){ .ops = &toy_ops, .fs = &toy.fs };
	WRITE_ONCE(left_node, 0);
	*st = (struct storage){ .fs = &toy.fs, .node = NODE };
	claims_init(&st->claims, 3, has_left);
	grace_init(&st->grace, false);
	lock_table_init(&st->lock_table, 3, false, has_left);
	st->incarn = 3;
}

static int claim(struct storage *st, const struct storage_peer *who, struct ms_file_state *state)
{
	return storage_claim(st, who, &(struct ms_claim_req){ .file = file }, state);
}

static uint8_t data[2][PAGE_SIZE];
static void *const pages[2] = { data[0], data[1] };

static int write_text(struct storage *st, const struct storage_peer *who, uint64_t epoch,
		      const char *text, uint32_t flags)
{
	const size_t len = strlen(text);
	const struct ms_write_req req = {
		.file = file,
		.epoch = epoch,
		.size = PAGE_SIZE + len,
		.mtime_s = 77,
		.nr_pages = 2,
		.flags = flags,
	};
	struct ms_file_state state;

	memset(data, '.', sizeof(data));
	memcpy(data[1], text, len);
	return storage_write(st, who, &req, pages, &state);
}

static void pages_by_the_claim(struct ktest *t)
{
	struct ms_file_state state, other;
	struct storage *st = kzalloc(sizeof(*st));

	ASSERT_TRUE(t, st);
	start(st);
	EXPECT_EQ(t, write_text(st, &m0, 1, "none", 0), -ESTALE);
	EXPECT_FALSE(t, claim_is_others(&st->claims, &file, 12));
	ASSERT_EQ(t, claim(st, &m0, &state), 0);
	EXPECT_EQ(t, state.node, 11);
	EXPECT_NE(t, state.epoch, 0);
	ASSERT_EQ(t, claim(st, &m1, &other), 0);
	EXPECT_EQ(t, other.node, 11);
	EXPECT_EQ(t, other.epoch, 0);
	EXPECT_TRUE(t, claim_is_others(&st->claims, &file, 12));
	EXPECT_FALSE(t, claim_is_others(&st->claims, &file, 11));
	EXPECT_EQ(t, write_text(st, &m1, state.epoch, "theirs", 0), -ESTALE);
	EXPECT_EQ(t, write_text(st, &m0, state.epoch + 1, "wrong", 0), -ESTALE);
	EXPECT_EQ(t, toy.size, 0);
	EXPECT_EQ(t, write_text(st, &m0, state.epoch, "bytes", MS_WRITE_SYNC), 0);
	EXPECT_EQ(t, toy.size, PAGE_SIZE + 5);
	EXPECT_EQ(t, memcmp(toy.bytes + PAGE_SIZE, "bytes\0", 6), 0);
	EXPECT_EQ(t, toy.mtime.sec, 77);
	EXPECT_EQ(t, toy.syncs, 1);
	claim_release(&st->claims, &file, &m0, state.epoch);
	EXPECT_EQ(t, write_text(st, &m0, state.epoch, "late", 0), -ESTALE);
	ASSERT_EQ(t, claim(st, &m1, &other), 0);
	EXPECT_EQ(t, other.node, 12);
	EXPECT_EQ(t, other.size, PAGE_SIZE + 5);
	toy.fs.read_only = true;
	EXPECT_EQ(t, claim(st, &m1, &other), -EROFS);
	EXPECT_EQ(t, write_text(st, &m1, other.epoch, "ro", 0), -ESTALE);
	claims_destroy(&st->claims);
	kfree(st);
}

static int reserve(struct storage *st, const struct storage_peer *who, uint64_t epoch,
		   uint64_t others, uint64_t pgoff, uint32_t nr)
{
	const struct ms_reserve_req req = { .file = file,
					    .epoch = epoch,
					    .others = others,
					    .pgoff = pgoff,
					    .nr = nr,
					    .need = nr ? 1 : 0,
					    .flags = MS_RESERVE_PRIVILEGED };
	struct ms_reserve_rep rep;
	const int err = storage_reserve(st, who, &req, &rep);

	return !err && nr && (rep.covered != nr || !(rep.holes[0] & 2)) ? -EPROTO : err;
}

/* A promise needs the claim, and ends with it: by a release, a fence, or the successor's claim. */
static void promises_by_the_claim(struct ktest *t)
{
	struct ms_file_state state, other;
	struct storage *st = kzalloc(sizeof(*st));

	ASSERT_TRUE(t, st);
	start(st);
	EXPECT_EQ(t, reserve(st, &m0, 1, 0, 0, 8), -ESTALE);
	ASSERT_EQ(t, claim(st, &m0, &state), 0);
	EXPECT_EQ(t, reserve(st, &m1, state.epoch, 0, 0, 8), -ESTALE);
	EXPECT_EQ(t, reserve(st, &m0, state.epoch + 1, 0, 0, 8), -ESTALE);
	EXPECT_EQ(t, toy.promises, 0);
	EXPECT_EQ(t, reserve(st, &m0, state.epoch, 3, 0, 8), 0);
	EXPECT_EQ(t, toy.promised, 10);
	EXPECT_TRUE(t, toy.privileged);
	EXPECT_EQ(t, reserve(st, &m0, state.epoch, 30, 1, 8), -ENOSPC);
	EXPECT_EQ(t, toy.promised, 10);
	/* An end that is not the claimant's is none. */
	storage_release(st, &m1, &(struct ms_release_req){ file, state.epoch });
	storage_release(st, &m0, &(struct ms_release_req){ file, state.epoch + 1 });
	EXPECT_EQ(t, toy.promised, 10);
	storage_release(st, &m0, &(struct ms_release_req){ file, state.epoch });
	EXPECT_EQ(t, toy.promised, 0);
	/* A fence. */
	ASSERT_EQ(t, claim(st, &m0, &state), 0);
	EXPECT_EQ(t, reserve(st, &m0, state.epoch, 5, 0, 0), 0);
	EXPECT_EQ(t, toy.promised, 5);
	storage_claims_left(st);
	EXPECT_EQ(t, toy.promised, 5);
	WRITE_ONCE(left_node, 11);
	storage_claims_left(st);
	EXPECT_EQ(t, toy.promised, 0);
	EXPECT_EQ(t, st->claims.nr, 0);
	EXPECT_EQ(t, reserve(st, &m0, state.epoch, 5, 0, 0), -ESTALE);
	/* The successor is faster than the word of the fence. */
	WRITE_ONCE(left_node, 0);
	ASSERT_EQ(t, claim(st, &m0, &state), 0);
	EXPECT_EQ(t, reserve(st, &m0, state.epoch, 5, 0, 0), 0);
	WRITE_ONCE(left_node, 11);
	ASSERT_EQ(t, claim(st, &m1, &other), 0);
	EXPECT_EQ(t, toy.promised, 0);
	EXPECT_EQ(t, reserve(st, &m1, other.epoch, 7, 0, 0), 0);
	storage_claims_left(st);
	EXPECT_EQ(t, toy.promised, 7);
	claims_destroy(&st->claims);
	kfree(st);
}

static struct {
	struct storage *st;
	uint64_t epoch;
	int ret;
} intruder;

static void reserve_once_more(void)
{
	toy.ended = NULL;
	intruder.ret = reserve(intruder.st, &m0, intruder.epoch, 0, 0, 8);
}

/* A request that comes while its claim ends leaves no promise behind. */
static void no_promise_outlives_its_claim(struct ktest *t)
{
	struct ms_file_state state;
	struct storage *st = kzalloc(sizeof(*st));

	ASSERT_TRUE(t, st);
	start(st);
	ASSERT_EQ(t, claim(st, &m0, &state), 0);
	EXPECT_EQ(t, reserve(st, &m0, state.epoch, 3, 0, 8), 0);
	intruder.st = st;
	intruder.epoch = state.epoch;
	toy.ended = reserve_once_more;
	storage_release(st, &m0, &(struct ms_release_req){ file, state.epoch });
	EXPECT_EQ(t, intruder.ret, -ESTALE);
	EXPECT_EQ(t, toy.promised, 0);
	EXPECT_EQ(t, st->claims.nr, 0);
	claims_destroy(&st->claims);
	kfree(st);
}

struct late {
	struct storage *st;
	uint64_t epoch;
	int ret;
	bool done; /* atomic */
};

static void late_write(void *arg)
{
	struct late *l = arg;

	l->ret = write_text(l->st, &m0, l->epoch, "older", 0);
}

static void successor(void *arg)
{
	struct late *l = arg;
	struct ms_file_state state;

	l->ret = claim(l->st, &m1, &state);
	l->epoch = state.epoch;
	__atomic_store_n(&l->done, true, __ATOMIC_RELEASE);
}

/* A write of a node that is dead is under way: the successor waits for it, and is the last. */
static void a_fence_before_the_successor(struct ktest *t)
{
	struct storage *st = kzalloc(sizeof(*st));
	struct late older = { .st = st }, newer = { .st = st };
	struct ms_file_state state;
	struct thread *w, *s;

	ASSERT_TRUE(t, st);
	start(st);
	ASSERT_EQ(t, claim(st, &m0, &state), 0);
	EXPECT_EQ(t, reserve(st, &m0, state.epoch, 5, 0, 0), 0);
	older.epoch = state.epoch;
	__atomic_store_n(&toy.hold, true, __ATOMIC_RELEASE);
	w = thread_create("older", late_write, &older);
	ASSERT_FALSE(t, IS_ERR(w));
	while (!__atomic_load_n(&toy.held, __ATOMIC_ACQUIRE))
		thread_sleep_ns(NSEC_PER_MSEC);
	WRITE_ONCE(left_node, 11);
	storage_claims_left(st); /* not what is in use */
	EXPECT_EQ(t, toy.promised, 5);
	s = thread_create("newer", successor, &newer);
	ASSERT_FALSE(t, IS_ERR(s));
	thread_sleep_ns(20 * NSEC_PER_MSEC);
	EXPECT_FALSE(t, __atomic_load_n(&newer.done, __ATOMIC_ACQUIRE));
	__atomic_store_n(&toy.hold, false, __ATOMIC_RELEASE);
	thread_join(w);
	thread_join(s);
	EXPECT_EQ(t, older.ret, 0);
	EXPECT_EQ(t, newer.ret, 0);
	EXPECT_EQ(t, toy.promised, 0);
	EXPECT_NE(t, newer.epoch, older.epoch);
	EXPECT_EQ(t, write_text(st, &m1, newer.epoch, "newer", 0), 0);
	EXPECT_EQ(t, write_text(st, &m0, older.epoch, "older", 0), -ESTALE);
	EXPECT_EQ(t, memcmp(toy.bytes + PAGE_SIZE, "newer", 5), 0);
	claims_destroy(&st->claims);
	kfree(st);
}

static void changes_once(struct ktest *t)
{
	struct storage *st = kzalloc(sizeof(*st));
	struct ms_file_state state;
	struct ms_change_req req = { .file = file, .op = PROTO_FILE_TRUNCATE, .off = 100 };

	ASSERT_TRUE(t, st);
	start(st);
	EXPECT_EQ(t, storage_file_change(st, &m0, &req, &state), -ESTALE);
	ASSERT_EQ(t, claim(st, &m0, &state), 0);
	req.epoch = state.epoch;
	EXPECT_EQ(t, storage_file_change(st, &m0, &req, &state), 0);
	EXPECT_EQ(t, state.size, 100);
	memset(toy.bytes, 'x', 100);
	req.op = PROTO_FILE_PUNCH;
	req.off = 10;
	req.len = 5;
	EXPECT_EQ(t, storage_file_change(st, &m0, &req, &state), 0);
	EXPECT_EQ(t, memcmp(toy.bytes + 9, "x\0\0\0\0\0x", 7), 0);
	EXPECT_EQ(t, toy.changes, 2);
	req.client = 9;
	req.seq = 7;
	EXPECT_EQ(t, storage_file_change(st, &m0, &req, &state), 0);
	EXPECT_EQ(t, toy.changes, 2);
	req.op = PROTO_FILE_COLLAPSE;
	req.seq = 8;
	EXPECT_EQ(t, storage_file_change(st, &m0, &req, &state), -EOPNOTSUPP);
	claims_destroy(&st->claims);
	kfree(st);
}

static int claim_by(struct storage *st, const struct storage_peer *who, uint64_t epoch,
		    struct ms_file_state *state)
{
	return storage_claim(st, who, &(struct ms_claim_req){ .file = file, .epoch = epoch },
			     state);
}

struct newcomer {
	struct storage *st;
	struct ms_file_state state;
	int err;
	bool done; /* atomic */
};

static void claim_anew(void *arg)
{
	struct newcomer *n = arg;

	n->err = claim_by(n->st, &m1, 0, &n->state);
	__atomic_store_n(&n->done, true, __ATOMIC_RELEASE);
}

/* Another node's claim waits until all have said what they had. */
static void a_claim_outlives_a_start_again(struct ktest *t)
{
	const uint64_t old = 2ull << 32 | 5;
	struct storage *st = kzalloc(sizeof(*st));
	struct newcomer *n = kzalloc(sizeof(*n));
	struct ms_declare_req declare = { .incarn = 2 };
	struct ms_file_state state;
	struct thread *thread;

	ASSERT_TRUE(t, st && n);
	start(st);
	grace_init(&st->grace, true);
	n->st = st;
	thread = thread_create("newcomer", claim_anew, n);
	ASSERT_FALSE(t, IS_ERR(thread));
	thread_sleep_ns(20 * 1000 * 1000);
	EXPECT_FALSE(t, __atomic_load_n(&n->done, __ATOMIC_ACQUIRE));
	EXPECT_EQ(t, claim_by(st, &m0, old, &state), 0);
	EXPECT_EQ(t, state.node, m0.node);
	/* Its promises are its own again; a request by the old claim is refused at once. */
	EXPECT_EQ(t, reserve(st, &m0, state.epoch, 5, 0, 0), 0);
	EXPECT_EQ(t, toy.promised, 5);
	EXPECT_EQ(t, reserve(st, &m0, old, 5, 0, 8), -ESTALE);
	EXPECT_EQ(t, storage_declare_claims(st, &m0, &declare), -ESTALE);
	declare.incarn = 3;
	EXPECT_EQ(t, storage_declare_claims(st, &m0, &declare), 0);
	EXPECT_TRUE(t, grace_has_declared(&st->grace, &m0));
	EXPECT_FALSE(t, grace_has_declared(&st->grace, &m1));
	EXPECT_FALSE(t, __atomic_load_n(&n->done, __ATOMIC_ACQUIRE));
	storage_grace_end(st);
	thread_join(thread);
	EXPECT_EQ(t, n->err, 0);
	EXPECT_EQ(t, n->state.node, m0.node);
	/* Too late: another node may have had it in between. */
	EXPECT_EQ(t, claim_by(st, &m1, old, &state), -ENOLCK);
	claims_destroy(&st->claims);
	kfree(n);
	kfree(st);
}

/* The disk has each change that is answered. */
static void stable_answers(struct ktest *t)
{
	struct storage *st = kzalloc(sizeof(*st));
	struct ms_change_req req = { .file = file, .op = PROTO_FILE_TRUNCATE, .off = 100 };
	struct ms_file_state state;

	ASSERT_TRUE(t, st);
	start(st);
	ASSERT_EQ(t, claim(st, &m0, &state), 0);
	EXPECT_EQ(t, write_text(st, &m0, state.epoch, "text", 0), 0);
	EXPECT_EQ(t, toy.syncs, 0);
	st->stable = true;
	EXPECT_EQ(t, write_text(st, &m0, state.epoch, "text", 0), 0);
	EXPECT_EQ(t, toy.syncs, 1);
	EXPECT_EQ(t, write_text(st, &m0, state.epoch, "text", MS_WRITE_SYNC | MS_WRITE_DATASYNC),
		  0);
	EXPECT_EQ(t, toy.syncs, 2);
	req.epoch = state.epoch;
	EXPECT_EQ(t, storage_file_change(st, &m0, &req, &state), 0);
	EXPECT_EQ(t, toy.syncs, 3);
	claims_destroy(&st->claims);
	kfree(st);
}

/* A node's claims have a limit, and a claim that goes over to another one counts there. */
static void one_node_does_not_claim_all(struct ktest *t)
{
	const struct proto_file f[] = { { .ino = 100, .gen = 1, .node = NODE },
					{ .ino = 101, .gen = 1, .node = NODE },
					{ .ino = 102, .gen = 1, .node = NODE } };
	struct storage *st = kzalloc(sizeof(*st));
	uint64_t epoch, again;
	uint32_t node;

	ASSERT_TRUE(t, st);
	start(st);
	st->claims.shares.max = 2;
	EXPECT_EQ(t, claim_take(&st->claims, &f[0], &m0, &epoch, &node), 0);
	EXPECT_EQ(t, claim_take(&st->claims, &f[1], &m0, &epoch, &node), 0);
	EXPECT_EQ(t, claim_take(&st->claims, &f[1], &m0, &again, &node), 0);
	EXPECT_EQ(t, claim_take(&st->claims, &f[2], &m0, &epoch, &node), -ENOMEM);
	EXPECT_EQ(t, claim_take(&st->claims, &f[2], &m1, &epoch, &node), 0);
	claim_release(&st->claims, &f[1], &m0, again);
	claim_release(&st->claims, &f[2], &m1, epoch);
	EXPECT_EQ(t, claim_take(&st->claims, &f[2], &m0, &epoch, &node), 0);
	EXPECT_EQ(t, claim_take(&st->claims, &f[1], &m0, &epoch, &node), -ENOMEM);
	WRITE_ONCE(left_node, m0.node);
	EXPECT_EQ(t, claim_take(&st->claims, &f[2], &m1, &epoch, &node), 0);
	EXPECT_EQ(t, claim_take(&st->claims, &f[0], &m1, &epoch, &node), 0);
	EXPECT_EQ(t, claim_take(&st->claims, &f[1], &m1, &epoch, &node), -ENOMEM);
	claims_destroy(&st->claims);
	EXPECT_TRUE(t, list_empty(&st->claims.shares.list));
	kfree(st);
}

static const struct ktest_case cases[] = {
	KTEST(pages_by_the_claim),
	KTEST(promises_by_the_claim),
	KTEST(no_promise_outlives_its_claim),
	KTEST(a_fence_before_the_successor),
	KTEST(changes_once),
	KTEST(a_claim_outlives_a_start_again),
	KTEST(stable_answers),
	KTEST(one_node_does_not_claim_all),
	{ 0 },
};
static const struct ktest_suite suite = { .name = "storage.live", .cases = cases };
KTEST_SUITE(suite);
