/* SPDX-License-Identifier: MIT */
/*
 * Requests to the memory node that caches a file that may change.
 */
#include "file_node.h"

#include <cluster/cluster.h>
#include <kernel/counter.h>
#include <kernel/mutex.h>
#include <kernel/panic.h>
#include <kernel/spinlock.h>
#include <kernel/wait.h>
#include <lib/atomic.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/list.h>
#include <mm/frame.h>
#include <mm/slab.h>
#include <net/node.h>
#include <net/rpc.h>
#include <proto/pm.h>

#include "behind.h"
#include "convert.h"
#include "kept.h"
#include "nodes.h"

static_assert((int)FILE_TRUNCATE == (int)PROTO_FILE_TRUNCATE, "the same");
static_assert((int)FILE_APPEND == (int)PROTO_FILE_APPEND, "the same");
static_assert((int)FILE_PUNCH == (int)PROTO_FILE_PUNCH, "the same");
static_assert((int)FILE_ZERO == (int)PROTO_FILE_ZERO, "the same");
static_assert((int)FILE_ZERO_KEEP == (int)PROTO_FILE_ZERO_KEEP, "the same");
static_assert((int)FILE_ALLOCATE == (int)PROTO_FILE_ALLOCATE, "the same");
static_assert((int)FILE_ALLOCATE_KEEP == (int)PROTO_FILE_ALLOCATE_KEEP, "the same");
static_assert((int)FILE_COLLAPSE == (int)PROTO_FILE_COLLAPSE, "the same");
static_assert((int)FILE_SEEK_DATA == (int)PROTO_FILE_SEEK_DATA, "the same");
static_assert((int)FILE_SEEK_HOLE == (int)PROTO_FILE_SEEK_HOLE, "the same");
static_assert((int)FILE_TIME == (int)PROTO_FILE_TIME, "the same");
static_assert((int)FILE_ROOM == (int)PROTO_FILE_ROOM, "the same");
static_assert(FILE_BUF_PAGES == PM_FILE_WRITE_MAX, "one message");

COUNTER(file_writes, "file.writes", "requests that carried written bytes to a memory node");
COUNTER(file_redirects, "file.redirects", "requests that another memory node had to answer");

#define NR_BUFS       8 /* of 128 KiB: writers of files that are under way at one time */
#define BUFS_PAGES    ((uint64_t)NR_BUFS * FILE_BUF_PAGES)
#define REDIRECTS_MAX 8 /* of one request */

struct file_buf {
	struct list_head link; /* bufs.lock */
	refcount_t refs;
	paddr_t paddr; /* const */
	void *data;    /* const */
	struct rpc_sge sge;
};

static struct {
	struct spinlock lock;
	struct list_head free __guarded_by(&lock);
	struct waitqueue freed;
	struct mutex start;  /* RANK_FS: inside the list of mounts */
	struct rpc_mem *mem; /* const once there are buffers */
	struct file_buf all[NR_BUFS];
} bufs = { .lock = SPINLOCK_INIT("file.bufs", RANK_SPIN_MONITOR),
	   .start = MUTEX_INIT(bufs.start, "file.bufs", RANK_FS) };

static int bufs_make_locked(void) __must_hold(&bufs.start)
{
	struct frame *frames;
	struct rpc_mem *mem;

	assert_mutex_held(&bufs.start);
	if (bufs.mem)
		return 0;
	frames = frame_alloc_contig(BUFS_PAGES, 1);
	if (!frames)
		return -ENOMEM;
	mem = rpc_mem_register(frame_to_paddr(frames), BUFS_PAGES * PAGE_SIZE,
			       RPC_ROLE(NODE_ROLE_MEMORY), RPC_ROLES_NONE);
	if (IS_ERR(mem)) {
		frame_free_contig(frames, BUFS_PAGES);
		return (int)PTR_ERR(mem);
	}
	waitqueue_init(&bufs.freed);
	spin_lock(&bufs.lock);
	list_init(&bufs.free);
	for (uint64_t i = 0; i < NR_BUFS; i++) {
		const uint64_t off = i * FILE_BUF_PAGES * PAGE_SIZE;

		bufs.all[i].paddr = frame_to_paddr(frames) + off;
		bufs.all[i].data = (uint8_t *)frame_to_virt(frames) + off;
		list_add_tail(&bufs.all[i].link, &bufs.free);
	}
	spin_unlock(&bufs.lock);
	bufs.mem = mem;
	return 0;
}

int file_bufs_init(void)
{
	int err;

	mutex_lock(&bufs.start);
	err = bufs_make_locked();
	mutex_unlock(&bufs.start);
	return err;
}

static struct file_buf *buf_take(void)
{
	struct file_buf *buf;

	spin_lock(&bufs.lock);
	buf = list_first_entry_or_null(&bufs.free, struct file_buf, link);
	if (buf)
		list_del(&buf->link);
	spin_unlock(&bufs.lock);
	if (buf)
		refcount_set(&buf->refs, 1);
	return buf;
}

struct file_buf *file_buf_get(void)
{
	struct file_buf *buf = NULL;

	return wait_event_killable(&bufs.freed, (buf = buf_take()) != NULL) ? NULL : buf;
}

void *file_buf_data(const struct file_buf *buf)
{
	return buf->data;
}

void file_buf_put(struct file_buf *buf)
{
	if (!refcount_dec_and_test(&buf->refs))
		return;
	spin_lock(&bufs.lock);
	list_add(&buf->link, &bufs.free);
	spin_unlock(&bufs.lock);
	wake_one(&bufs.freed);
}

/* --- calls ----------------------------------------------------------------------------- */

struct request {
	const struct file_id *file;
	bool changes; /* the contents of @file */
	uint16_t opcode;
	const void *body;
	uint32_t len;
	struct file_buf *buf; /* or NULL */
	uint32_t nr_pages;
};

/* Until the node's answer has come, however late. */
struct on_its_way {
	struct file_buf *buf; /* referenced; or NULL */
	struct file_id file;
};

static void ended(struct rpc_call *call)
{
	struct on_its_way *way = call->arg;

	if (way->buf)
		file_buf_put(way->buf);
	kept_write_end(&way->file);
	kfree(way);
}

static void add_buf(struct rpc_call *call, struct on_its_way *way, const struct request *r)
{
	r->buf->sge = (struct rpc_sge){ .mem = bufs.mem,
					.addr = r->buf->paddr,
					.len = r->nr_pages * (uint32_t)PAGE_SIZE };
	call->bulk = &r->buf->sge;
	call->nr_bulk = 1;
	refcount_inc(&r->buf->refs);
	way->buf = r->buf;
}

static int call_to_change(uint32_t node, const struct request *r, struct pm_file_state_wire *w)
{
	const enum rpc_class class = r->buf ? RPC_CLASS_WRITEBACK : RPC_CLASS_CONTROL;
	struct rpc_call *call = rpc_call_create(node, class, r->opcode, r->body, r->len);
	struct on_its_way *way = kzalloc(sizeof(*way));
	int err;

	if (!call || !way) {
		if (call)
			rpc_call_put(call);
		kfree(way);
		return -ENOMEM;
	}
	way->file = *r->file;
	if (r->buf)
		add_buf(call, way, r);
	call->reply = w;
	call->reply_max = sizeof(*w);
	call->release = ended;
	call->arg = way;
	kept_write_begin(r->file);
	err = rpc_call_submit_killable(call);
	if (err)
		ended(call);
	else
		err = rpc_call_wait_killable(call);
	if (!err)
		err = (int)call->reply_len;
	rpc_call_put(call);
	return err;
}

static int call_once(uint32_t node, const struct request *r, struct pm_file_state *state)
{
	struct pm_file_state_wire w;
	int ret = r->changes ? call_to_change(node, r, &w)
			     : rpc_call_sync_killable(node, RPC_CLASS_CONTROL, r->opcode, r->body,
						      r->len, &w, sizeof(w), 0);

	return ret < 0 ? ret : pm_file_state_decode(&w, (size_t)ret, state);
}

/* A program may have made room by what the storage node is still to be told, or be kept some. */
static bool may_be_room(uint32_t storage)
{
	const int flushed = behind_flush(storage, true);
	const int given = flushed < 0 ? 0 : behind_give_rooms(storage);

	return flushed > 0 || given > 0;
}

static int call(uint32_t *node, const struct request *r, struct file_state *out)
{
	struct pm_file_state state;
	int err = -ELOOP;

	for (int tries = 0; tries < REDIRECTS_MAX; tries++) {
		if (!*node)
			*node = file_cache_node(r->file);
		if (!*node)
			return -EHOSTDOWN;
		err = call_once(*node, r, &state);
		if (err == -ENOSPC && may_be_room(r->file->node))
			err = call_once(*node, r, &state);
		if (err || !state.node)
			break;
		counter_inc(&file_redirects);
		*node = state.node;
		err = -ELOOP;
	}
	if (err) {
		if (err == -EHOSTDOWN || err == -ELOOP)
			*node = 0;
		return err;
	}
	*out = (struct file_state){
		.size = state.size,
		.version = state.version,
		.before = state.before,
		.mtime = { .sec = state.mtime_s, .nsec = state.mtime_ns },
		.errors = state.errors,
		.pos = state.pos,
	};
	return 0;
}

int file_node_open(const struct file_id *file, uint32_t *node, struct file_state *out)
{
	const struct pm_file_open_req req = { .file = file_to_proto(file) };
	struct pm_file_open_req_wire w;
	const struct request r = { file, false, PM_FILE_OPEN, &w, sizeof(w), NULL, 0 };

	pm_file_open_req_encode(&req, &w);
	return call(node, &r, out);
}

int file_node_write(const struct file_id *file, uint32_t *node, const struct file_pieces *what,
		    struct file_buf *buf, struct file_state *out)
{
	uint8_t body[sizeof(struct pm_file_write_req_wire) +
		     PM_FILE_WRITE_MAX * sizeof(struct pm_file_page_wire)];
	struct pm_file_write_req *req = kzalloc(sizeof(*req));
	struct request r = { file, true, PM_FILE_WRITE, body, 0, buf, what->nr };
	ssize_t len = behind_flush_attr(file);

	if (!req || len) {
		kfree(req);
		return req ? (int)len : -ENOMEM;
	}
	ASSERT(what->nr && what->nr <= FILE_BUF_PAGES);
	req->file = file_to_proto(file);
	req->size = what->size;
	req->mtime_s = what->now.sec;
	req->mtime_ns = what->now.nsec;
	req->flags = what->inside ? PM_FILE_INSIDE : 0;
	if (what->privileged)
		req->flags |= PM_FILE_PRIVILEGED;
	if (what->last)
		req->flags |= PM_FILE_LAST;
	req->nr_pages = what->nr;
	for (uint32_t i = 0; i < what->nr; i++)
		req->pages[i] = (struct pm_file_page){ .pgoff = what->pieces[i].pgoff,
						       .first = what->pieces[i].first,
						       .bytes = what->pieces[i].bytes };
	len = pm_file_write_req_encode(req, body, sizeof(body));
	kfree(req);
	if (len < 0)
		return (int)len;
	counter_inc(&file_writes);
	r.len = (uint32_t)len;
	return call(node, &r, out);
}

int file_node_sync(const struct file_id *file, uint32_t *node, bool datasync,
		   struct file_state *out)
{
	struct pm_file_write_req_wire w = { 0 };
	const struct request r = { file, false, PM_FILE_WRITE, &w, sizeof(w), NULL, 0 };
	const struct proto_file f = file_to_proto(file);
	const int err = behind_flush(file->node, true);

	if (err < 0)
		return err;
	/* No page: the header is all there is, so the large structure is not needed. */
	proto_file_encode(&f, &w.file);
	w.flags = cpu_to_le32(PM_FILE_SYNC | (datasync ? PM_FILE_DATASYNC : 0));
	return call(node, &r, out);
}

static int flush_node(uint32_t node, const struct file_id *file)
{
	struct pm_file_write_req_wire w = { 0 };
	const struct request r = { file, false, PM_FILE_WRITE, &w, sizeof(w), NULL, 0 };
	const struct proto_file f = file_to_proto(file);
	struct pm_file_state state;
	int err;

	proto_file_encode(&f, &w.file);
	w.flags = cpu_to_le32(PM_FILE_EVERY);
	err = call_once(node, &r, &state);
	return err == -EHOSTDOWN ? -EIO : err;
}

int file_nodes_flush(const struct file_id *file)
{
	const size_t max = cluster_nodes(NODE_ROLE_MEMORY, NULL, 0);
	uint32_t *nodes = kcalloc(max + 1, sizeof(*nodes));
	const size_t nr = nodes ? MIN(max, cluster_nodes(NODE_ROLE_MEMORY, nodes, max)) : 0;
	int err = nodes ? 0 : -ENOMEM;

	for (size_t i = 0; i < nr && err != -EINTR; i++) {
		const int e = flush_node(nodes[i], file);

		err = err && e != -EINTR ? err : e;
	}
	kfree(nodes);
	return err;
}

static bool changes(enum file_op op)
{
	return op != FILE_SEEK_DATA && op != FILE_SEEK_HOLE && op != FILE_ROOM;
}

int file_node_change(const struct file_id *file, uint32_t *node, const struct file_change *what,
		     struct file_state *out)
{
	const struct pm_file_change_req req = {
		.file = file_to_proto(file),
		.op = (uint32_t)what->op,
		.flags = (what->privileged ? (uint32_t)PM_FILE_PRIVILEGED : 0) |
			 (what->ahead ? (uint32_t)PM_FILE_AHEAD : 0),
		.off = what->off,
		.len = what->len,
		.mtime_s = what->now.sec,
		.mtime_ns = what->now.nsec,
	};
	struct pm_file_change_req_wire w;
	const struct request r = {
		file, changes(what->op), PM_FILE_CHANGE, &w, sizeof(w), NULL, 0
	};
	/* Times that are set are told the storage node in the order in which they come here. */
	const int err = changes(what->op) && what->op != FILE_TIME ? behind_flush_attr(file) : 0;

	if (err)
		return err;
	pm_file_change_req_encode(&req, &w);
	return call(node, &r, out);
}
