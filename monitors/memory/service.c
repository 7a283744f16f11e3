/* SPDX-License-Identifier: MIT */
/*
 * Memory monitor on a node: start, handlers, transport.
 *
 * Flow:	cluster/start.h; what is a memory node's own is that frames are set aside and registered, then
 *		the handlers.
 * Handlers:	what moves pages (PM_FETCH, PM_WRITEBACK, PM_FILE_FETCH) is tried in polling context and
 *		goes to a thread when it would have to sleep; everything else goes to a thread at once.
 *		The table at the end tells for each opcode where it runs and whether it may be repeated.
 * Frames:	all of them are in a few registered runs.  Storage nodes may write into these (file pages go
 *		straight into their frames) and nobody may read them; nothing but page frames is in there.
 * Failure:	a processor that is gone loses its spaces and credits.
 */
#define PR_FMT "memory: "

#include "service.h"

#include <cluster/start.h>
#include <kernel/bootparam.h>
#include <kernel/counter.h>
#include <kernel/initcall.h>
#include <kernel/printk.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <lib/fmt.h>
#include <lib/string.h>
#include <managers/placement.h>
#include <mm/frame.h>
#include <mm/slab.h>
#include <net/rpc.h>

#include "memory.h"

#define SLOT_WAIT_NS  (30 * NSEC_PER_SEC)
#define RUN_PAGES     16384ull /* of one registered run: 64 MiB */
#define RUN_PAGES_MIN 64ull
#define RUNS_MAX      4096u
#define RESERVE_MIN   (24ull << 20) /* bytes left to the kernel, beside a sixteenth of all */
#define ZERO_BUDGET   32

static struct memory memory;
static bool memory_up;

static uint64_t vregion_size = 1ull << 30;
static uint64_t memory_limit;
static uint32_t zero_ahead = 256;

BOOT_PARAM_CRITICAL(
	"vregion.size", size, vregion_size,
	"unit of memory placement, a power of two from 2M to 1T; the same on all nodes");
BOOT_PARAM("memory.limit", size, memory_limit,
	   "memory for pages of programs and files; 0 = all but what the kernel needs");
BOOT_PARAM("memory.zero_ahead", u32, zero_ahead, "frames that are kept zeroed ahead");

struct memory *memory_self(void)
{
	return __atomic_load_n(&memory_up, __ATOMIC_ACQUIRE) ? &memory : NULL;
}

/* --- transport ------------------------------------------------------------------------- */

/* Pages of a call stay where they are until nothing can read them any more. */
struct bulk_pins {
	uint32_t nr;
	struct mpage *pages[MM_PAGES_MAX];
};

static void bulk_release(struct rpc_call *call)
{
	struct bulk_pins *pins = call->arg;

	for (uint32_t i = 0; i < pins->nr; i++)
		mpage_put(&memory.pool, pins->pages[i]);
	kfree(pins);
}

static struct rpc_sge page_sge(const struct mpage *page)
{
	return (struct rpc_sge){
		.mem = mpage_mem(&memory.pool, page),
		.addr = mpage_paddr(&memory.pool, page),
		.len = PAGE_SIZE,
	};
}

/* Submit, waiting for a free slot as long as it takes within the class's time. */
static int submit_waiting(struct rpc_call *call)
{
	const uint64_t deadline = time_now_ns() + SLOT_WAIT_NS;
	int err;

	while ((err = rpc_call_submit(call)) == -EAGAIN) {
		err = rpc_slot_wait(call->peer, call->cls, deadline);
		if (err)
			break;
	}
	return err;
}

static int call_with_bulk(uint32_t peer, uint16_t opcode, const void *body, uint32_t body_len,
			  struct mpage *const *bulk, uint32_t nr_bulk)
{
	struct bulk_pins *pins = kmalloc(sizeof(*pins));
	struct rpc_call *call = rpc_call_alloc();
	struct rpc_sge sge[MM_PAGES_MAX];
	int err = -ENOMEM;

	if (!pins || !call || nr_bulk > MM_PAGES_MAX)
		goto out;
	pins->nr = nr_bulk;
	for (uint32_t i = 0; i < nr_bulk; i++) {
		pins->pages[i] = bulk[i];
		mpage_get(bulk[i]);
		sge[i] = page_sge(bulk[i]);
	}
	call->peer = peer;
	call->cls = RPC_CLASS_WRITEBACK;
	call->opcode = opcode;
	call->body = body;
	call->body_len = body_len;
	call->bulk = sge;
	call->nr_bulk = nr_bulk;
	call->release = bulk_release;
	call->arg = pins;
	err = submit_waiting(call);
	if (err)
		bulk_release(call);
	else
		err = rpc_call_wait(call);
	pins = NULL;
out:
	kfree(pins);
	if (call)
		rpc_call_put(call);
	return err;
}

static int node_call(struct memory *m, uint32_t peer, uint16_t opcode, const void *body,
		     uint32_t body_len, struct mpage *const *bulk, uint32_t nr_bulk, void *reply,
		     uint32_t reply_max)
{
	if (nr_bulk)
		return call_with_bulk(peer, opcode, body, body_len, bulk, nr_bulk);
	return rpc_call_sync(peer, RPC_CLASS_CONTROL, opcode, body, body_len, reply, reply_max, 0);
}

static void read_done(struct rpc_call *call)
{
	page_cache_read_done(call->arg, call->status, call->reply_len);
}

static void read_release(struct rpc_call *call)
{
	page_cache_read_release(call->arg);
}

static int node_read(struct memory *m, struct page_cache_read *rd, bool prefetch, bool may_sleep)
{
	struct rpc_call *call = rpc_call_alloc();
	int err;

	if (!call)
		return -ENOMEM;
	call->peer = rd->cf->file.node;
	call->cls = prefetch ? RPC_CLASS_PREFETCH : RPC_CLASS_DEMAND;
	call->opcode = MS_READ;
	call->body = rd->body;
	call->body_len = rd->body_len;
	call->reply = &rd->reply;
	call->reply_max = sizeof(rd->reply);
	call->done = read_done;
	call->release = read_release;
	call->arg = rd;
	err = may_sleep ? submit_waiting(call) : rpc_call_submit(call);
	rpc_call_put(call);
	return err;
}

static uint32_t node_rkey(struct memory *m, const struct mpage *page)
{
	return rpc_mem_rkey(mpage_mem(&m->pool, page));
}

static uint32_t node_owner_for(struct memory *m, uint64_t aspace, uint64_t index)
{
	return gmm_owner_for(aspace, index, m->node);
}

static uint32_t node_cache_node(struct memory *m, const struct proto_file *file)
{
	return gsm_cache_node_for(file);
}

static const struct memory_net node_net = {
	.call = node_call,
	.read = node_read,
	.rkey = node_rkey,
	.owner_for = node_owner_for,
	.cache_node = node_cache_node,
};

/* --- handlers that send pages ---------------------------------------------------------- */

static void page_sent(void *arg)
{
	mpage_put(&memory.pool, arg);
}

static void reply_redirect(struct rpc_request *req, const struct pm_vregion *redirect)
{
	struct pm_moved_wire w;

	pm_moved_encode(redirect, &w);
	rpc_reply(req, -EREMCHG, &w, sizeof(w));
}

static enum rpc_handler_result reply_error(struct rpc_request *req, int err)
{
	if (err == -EPROTO || err == -EMSGSIZE)
		STAT_INC(&memory, bad_requests);
	rpc_reply(req, err, NULL, 0);
	return RPC_DONE;
}

static enum rpc_handler_result handle_fetch(struct rpc_request *req, void *arg)
{
	uint32_t len, bulk_len;
	const void *body = rpc_request_body(req, &len);
	const void *victim = rpc_request_bulk(req, &bulk_len);
	struct pm_fetch_rep_wire w;
	struct pm_fetch_req fetch;
	struct pm_fetch_rep rep;
	struct pm_vregion redirect;
	struct rpc_write write;
	struct mpage *page;
	int err = pm_fetch_req_decode(body, len, &fetch);

	if (!err && bulk_len != (fetch.flags & PM_FETCH_VICTIM ? PAGE_SIZE : 0))
		err = -EMSGSIZE;
	if (err)
		return reply_error(req, err);
	err = owner_fetch(&memory, rpc_request_peer(req), &fetch, victim,
			  rpc_request_may_sleep(req), &rep, &page, &redirect);
	if (err == -EAGAIN) {
		STAT_INC(&memory, fetch_slow);
		return RPC_AGAIN;
	}
	if (err == -EREMCHG) {
		reply_redirect(req, &redirect);
		return RPC_DONE;
	}
	if (err)
		return reply_error(req, err);
	pm_fetch_rep_encode(&rep, &w);
	if (!page) {
		rpc_reply(req, 0, &w, sizeof(w));
		return RPC_DONE;
	}
	write.src = page_sge(page);
	write.remote_addr = fetch.line.addr;
	write.rkey = fetch.line.rkey;
	rpc_reply_bulk(req, 0, &w, sizeof(w), &write, 1, page_sent, page);
	return RPC_DONE;
}

static enum rpc_handler_result handle_writeback(struct rpc_request *req, void *arg)
{
	uint8_t buf[PM_WRITEBACK_MAX_PAGES * sizeof(le32_t) + sizeof(struct pm_grant_wire)];
	uint32_t len, bulk_len;
	const void *body = rpc_request_body(req, &len);
	const void *data = rpc_request_bulk(req, &bulk_len);
	struct pm_writeback_req wb;
	struct pm_writeback_rep rep;
	ssize_t reply_len;
	int err = pm_writeback_req_decode(body, len, &wb);

	if (!err && bulk_len != wb.nr_pages * PAGE_SIZE)
		err = -EMSGSIZE;
	if (err)
		return reply_error(req, err);
	err = owner_writeback(&memory, rpc_request_peer(req), &wb, data, rpc_request_may_sleep(req),
			      &rep);
	if (err == -EAGAIN)
		return RPC_AGAIN;
	if (err)
		return reply_error(req, err);
	reply_len = pm_writeback_rep_encode(&rep, buf, sizeof(buf));
	rpc_reply(req, reply_len < 0 ? (int)reply_len : 0, buf,
		  reply_len < 0 ? 0 : (uint32_t)reply_len);
	return RPC_DONE;
}

struct file_reply {
	uint32_t nr;
	struct mpage *pages[PM_FILE_FETCH_MAX];
	struct pm_file_fetch_req req;
	struct rpc_write writes[PM_FILE_FETCH_MAX];
};

static void file_sent(void *arg)
{
	struct file_reply *fr = arg;

	for (uint32_t i = 0; i < fr->nr; i++)
		mpage_put(&memory.pool, fr->pages[i]);
	kfree(fr);
}

static void file_reply_send(struct rpc_request *req, struct file_reply *fr,
			    const struct pm_file_fetch_rep *rep)
{
	struct pm_file_fetch_rep_wire w;

	pm_file_fetch_rep_encode(rep, &w);
	fr->nr = rep->nr_valid;
	for (uint32_t i = 0; i < fr->nr; i++) {
		fr->writes[i].src = page_sge(fr->pages[i]);
		fr->writes[i].remote_addr = fr->req.pages[i].addr;
		fr->writes[i].rkey = fr->req.pages[i].rkey;
	}
	STAT_ADD(&memory, bytes_out, fr->nr * PAGE_SIZE);
	STAT_INC(&memory, file_fetches);
	rpc_reply_bulk(req, 0, &w, sizeof(w), fr->writes, fr->nr, file_sent, fr);
}

static enum rpc_handler_result handle_file_fetch(struct rpc_request *req, void *arg)
{
	struct file_reply *fr = kmalloc(sizeof(*fr));
	struct pm_file_fetch_rep rep;
	uint32_t len, bulk_len;
	const void *body = rpc_request_body(req, &len);
	int err = -ENOMEM;

	(void)rpc_request_bulk(req, &bulk_len);
	if (fr)
		err = pm_file_fetch_req_decode(body, len, &fr->req);
	if (!err && bulk_len)
		err = -EMSGSIZE;
	if (!err)
		err = page_cache_get(&memory, &fr->req.file, fr->req.pgoff, fr->req.nr_pages,
				     fr->req.version, rpc_request_may_sleep(req), fr->pages, &rep);
	if (!err) {
		file_reply_send(req, fr, &rep);
		return RPC_DONE;
	}
	kfree(fr);
	return err == -EAGAIN ? RPC_AGAIN : reply_error(req, err);
}

/* --- how long calls take, waits for owners and storage included ---------------------------- */

HISTOGRAM(memory_exec_ns, "memory.exec_ns", "PM_EXEC, from its arrival to its reply");
HISTOGRAM(memory_fork_ns, "memory.fork_ns", "PM_FORK, from its arrival to its reply");
HISTOGRAM(memory_collapse_ns, "memory.merge_ns", "PM_MERGE, from its arrival to its reply");

static void note_time(uint16_t opcode, uint64_t start)
{
	const uint64_t ns = time_now_ns() - start;

	if (opcode == PM_EXEC)
		hist_record(&memory_exec_ns, ns);
	else if (opcode == PM_FORK)
		hist_record(&memory_fork_ns, ns);
	else if (opcode == PM_MERGE)
		hist_record(&memory_collapse_ns, ns);
}

/* --- the other handlers ---------------------------------------------------------------- */

static enum rpc_handler_result serve(struct rpc_request *req, uint16_t opcode)
{
	uint32_t len, bulk_len, error_len;
	const void *ring_body = rpc_request_body(req, &len);
	const void *bulk = rpc_request_bulk(req, &bulk_len);
	void *reply = kmalloc(RPC_BODY_MAX_CTL);
	void *body = kmalloc(len ? len : 1);
	const uint64_t start = time_now_ns();
	int ret = -ENOMEM;

	error_len = 0;
	if (reply && body) {
		memcpy(body, ring_body, len);
		ret = memory_serve(&memory, rpc_request_peer(req), opcode, body, len, bulk,
				   bulk_len, reply, RPC_BODY_MAX_CTL, &error_len);
	}
	if (ret >= 0)
		rpc_reply(req, 0, reply, (uint32_t)ret);
	else
		rpc_reply(req, ret, reply, error_len);
	note_time(opcode, start);
	kfree(body);
	kfree(reply);
	return RPC_DONE;
}

#define DEFINE_HANDLER(opcode)                                                             \
	static enum rpc_handler_result handle_##opcode(struct rpc_request *req, void *arg) \
	{                                                                                  \
		return serve(req, opcode);                                                 \
	}

DEFINE_HANDLER(PM_EXEC)
DEFINE_HANDLER(PM_MMAP)
DEFINE_HANDLER(PM_MUNMAP)
DEFINE_HANDLER(PM_MPROTECT)
DEFINE_HANDLER(PM_MREMAP)
DEFINE_HANDLER(PM_BRK)
DEFINE_HANDLER(PM_VREGIONS)
DEFINE_HANDLER(PM_DESTROY)
DEFINE_HANDLER(PM_FORK)
DEFINE_HANDLER(PM_MERGE)
DEFINE_HANDLER(PM_DISCARD)
DEFINE_HANDLER(PM_SPACE)
DEFINE_HANDLER(PM_FILL_VMA)
DEFINE_HANDLER(PM_CREDIT)
DEFINE_HANDLER(PM_MEMINFO)
DEFINE_HANDLER(MM_MAP)
DEFINE_HANDLER(MM_LOAD)
DEFINE_HANDLER(MM_UNMAP)
DEFINE_HANDLER(MM_PROTECT)
DEFINE_HANDLER(MM_MOVE)
DEFINE_HANDLER(MM_PAGES)
DEFINE_HANDLER(MM_DESTROY)
DEFINE_HANDLER(MM_FORK)
DEFINE_HANDLER(MM_MERGE)
DEFINE_HANDLER(MM_DISCARD)
DEFINE_HANDLER(MM_VREGION_MOVE)
DEFINE_HANDLER(MM_VREGION_TAKE)
DEFINE_HANDLER(MM_FILE_READ)

#define INLINE                 RPC_HANDLER_INLINE
#define WAITS                  RPC_HANDLER_WAITS
#define IDEMPOTENT             RPC_HANDLER_IDEMPOTENT
#define HANDLER(opcode, flags) { opcode, flags, #opcode, handle_##opcode }

/*
 * Sender: a member whose connection is up; it may die at any time, which changes nothing here until the
 * cluster says that it is gone.  Races: calls of one space are ordered by its mutex at the home; at the
 * owner a region's lock and state order everything.
 */
static const struct rpc_handler handlers[] = {
	/* From processors, to the home.  They wait for owners; a repetition gets the first reply. */
	HANDLER(PM_EXEC, WAITS), /* waits for storage too */
	HANDLER(PM_MMAP, WAITS),
	HANDLER(PM_MUNMAP, WAITS),
	HANDLER(PM_MPROTECT, WAITS),
	HANDLER(PM_MREMAP, WAITS),
	HANDLER(PM_BRK, WAITS),
	HANDLER(PM_VREGIONS, WAITS), /* twice would promise twice */
	HANDLER(PM_DESTROY, WAITS | IDEMPOTENT),
	HANDLER(PM_FORK, WAITS),
	HANDLER(PM_MERGE, WAITS),
	HANDLER(PM_DISCARD, WAITS | IDEMPOTENT),
	HANDLER(PM_SPACE, WAITS),
	/* From processors, to the owner.  They wait only while a vRegion is handed over. */
	{ PM_FETCH, INLINE | WAITS | IDEMPOTENT, "PM_FETCH", handle_fetch },
	HANDLER(PM_FILL_VMA, WAITS | IDEMPOTENT),
	{ PM_WRITEBACK, INLINE | WAITS | IDEMPOTENT, "PM_WRITEBACK", handle_writeback },
	HANDLER(PM_CREDIT, 0), /* twice would promise twice */
	HANDLER(PM_MEMINFO, IDEMPOTENT),
	/* From processors, to the node of a file's page cache.  Waits for storage. */
	{ PM_FILE_FETCH, INLINE | WAITS | IDEMPOTENT, "PM_FILE_FETCH", handle_file_fetch },
	/* From the home.  They wait for nobody, but MM_MOVE and MM_VREGION_MOVE for another owner. */
	HANDLER(MM_MAP, 0),
	HANDLER(MM_LOAD, 0),
	HANDLER(MM_UNMAP, 0),
	HANDLER(MM_PROTECT, 0),
	HANDLER(MM_MOVE, WAITS),
	HANDLER(MM_DESTROY, IDEMPOTENT),
	HANDLER(MM_FORK, 0),
	HANDLER(MM_MERGE, IDEMPOTENT),
	HANDLER(MM_DISCARD, IDEMPOTENT),
	HANDLER(MM_VREGION_MOVE, WAITS),
	/* From another owner. */
	HANDLER(MM_PAGES, 0),
	HANDLER(MM_VREGION_TAKE, 0),
	/* From a home that loads a program.  Waits for storage. */
	HANDLER(MM_FILE_READ, WAITS | IDEMPOTENT),
};

/* --- frames ---------------------------------------------------------------------------- */

/* Pages for the pool, of @total frames in the machine. */
static uint64_t pool_pages(uint64_t total)
{
	const uint64_t reserve = total / 16 + (RESERVE_MIN >> PAGE_SHIFT);
	const uint64_t avail = frames_free_count() > reserve ? frames_free_count() - reserve : 0;

	return memory_limit ? MIN(memory_limit >> PAGE_SHIFT, avail) : avail;
}

/* Set a run of up to @want pages aside; smaller ones as memory is fragmented. */
static int take_run(struct pool_run *run, uint64_t want)
{
	uint64_t pages = MIN(want, RUN_PAGES);
	struct frame *f;
	struct rpc_mem *mem;

	while (!(f = frame_alloc_contig(pages, 1)) && pages > RUN_PAGES_MIN)
		pages /= 2;
	if (!f)
		return -ENOMEM;
	mem = rpc_mem_register(frame_to_paddr(f), pages * PAGE_SIZE, true);
	if (IS_ERR(mem)) {
		frame_free_contig(f, pages);
		return (int)PTR_ERR(mem);
	}
	*run = (struct pool_run){
		.virt = frame_to_virt(f),
		.paddr = frame_to_paddr(f),
		.nr_pages = pages,
		.mem = mem,
	};
	return 0;
}

static bool reclaim_file_page(void *arg)
{
	return page_cache_reclaim(arg);
}

static int make_instance(void)
{
	const uint64_t want = pool_pages(frames_total_count());
	struct pool_run *runs = kcalloc(RUNS_MAX, sizeof(*runs));
	struct memory_config cfg = {
		.node = node_self()->id,
		.vregion_shift = (uint32_t)__builtin_ctzll(vregion_size),
		.net = &node_net,
		.runs = runs,
	};
	uint64_t got = 0;
	int err = runs ? 0 : -ENOMEM;

	while (!err && got < want && cfg.nr_runs < RUNS_MAX) {
		err = take_run(&runs[cfg.nr_runs], want - got);
		if (err)
			break;
		got += runs[cfg.nr_runs++].nr_pages;
	}
	if (got)
		err = 0;
	cfg.file_min = MAX(got / 16, MIN(got / 4, 512ull));
	if (!err)
		err = memory_init(&memory, &cfg);
	kfree(runs);
	if (err)
		return err;
	memory.pool.reclaim = reclaim_file_page;
	memory.pool.reclaim_arg = &memory;
	memory.pool.zero_ahead = zero_ahead;
	__atomic_store_n(&memory_up, true, __ATOMIC_RELEASE);
	pr_info("%lu MiB for pages in %zu runs, vRegions of %lu MiB\n", (unsigned long)(got >> 8),
		cfg.nr_runs, (unsigned long)(vregion_size >> 20));
	return 0;
}

static void zero_thread(void *arg)
{
	for (;;) {
		wait_event(&memory.pool.zeroer, pool_wants_zeroing(&memory.pool));
		(void)pool_zero_dirty(&memory.pool, ZERO_BUDGET);
		thread_yield();
	}
}

/* --- cluster --------------------------------------------------------------------------- */

static void update_nodes(void)
{
	const size_t max = cluster_nodes(NODE_ROLE_MEMORY, NULL, 0) + 16;
	uint32_t *ids = kcalloc(max, sizeof(*ids));
	size_t nr;

	if (!ids) {
		pr_err("no memory for the list of memory nodes\n");
		return;
	}
	nr = cluster_nodes(NODE_ROLE_MEMORY, ids, max);
	if (nr && memory_set_nodes(&memory, ids, MIN(nr, max)))
		pr_err("no memory for the list of memory nodes\n");
	kfree(ids);
}

static void member_joined(const struct node_info *node)
{
	if (node->role == NODE_ROLE_MEMORY)
		update_nodes();
	else if (node->role == NODE_ROLE_PROCESSOR)
		memory_processor_joined(&memory, node->id);
}

static void member_gone(const struct node_info *node)
{
	if (node->role == NODE_ROLE_PROCESSOR) {
		pr_info("processor %u is gone: its memory is freed\n", node->id);
		memory_processor_gone(&memory, node->id);
	} else if (node->role == NODE_ROLE_MEMORY) {
		update_nodes();
		memory_node_gone(&memory, node->id);
	}
}

static const struct cluster_ops cluster_ops = {
	.status = monitor_status,
	.joined = member_joined,
	.gone = member_gone,
	.fenced = monitor_fenced,
};

/* --- test commands --------------------------------------------------------------------- */

/* The next word of *@s, in place; NULL at the end. */
static char *next_word(char **s)
{
	char *word;

	while (**s == ' ')
		(*s)++;
	if (!**s)
		return NULL;
	word = *s;
	while (**s && **s != ' ')
		(*s)++;
	if (**s)
		*(*s)++ = '\0';
	return word;
}

/* A number, or "any" for @any. */
static int word_number(char **s, uint64_t any, uint64_t *out)
{
	const char *word = next_word(s);

	if (!word)
		return -EINVAL;
	if (strcmp(word, "any") == 0) {
		*out = any;
		return 0;
	}
	return kstrtou64(word, 0, out);
}

/* move_vregion <aspace|any> <index|any> <node> */
static int debug_move(char *args, char *reply, size_t cap)
{
	uint64_t aspace, index, node;
	int err;

	if (word_number(&args, 0, &aspace) || word_number(&args, UINT64_MAX, &index) ||
	    word_number(&args, 0, &node) || !node || node > PROTO_NODE_MAX || next_word(&args))
		return -EINVAL;
	err = home_move_vregion(&memory, aspace, index, (uint32_t)node);
	if (!err)
		scnprintf(reply, cap, "ok: moved to node %u", (uint32_t)node);
	return err;
}

static int debug_command(const char *cmd, char *reply, size_t cap)
{
	char line[128];
	char *rest = line;
	char *word;

	if (!memory_self())
		return -EAGAIN;
	if (strlcpy(line, cmd, sizeof(line)) >= sizeof(line))
		return -EINVAL;
	word = next_word(&rest);
	if (word && strcmp(word, "move_vregion") == 0)
		return debug_move(rest, reply, cap);
	if (word && strcmp(word, "drop_file_pages") == 0) {
		scnprintf(reply, cap, "ok: %lu pages", (unsigned long)page_cache_drop_all(&memory));
		return 0;
	}
	return -ENOSYS;
}

static const struct ctl_ops ctl_ops = {
	.debug = debug_command,
};

/* --- start ----------------------------------------------------------------------------- */

static int start_threads(void)
{
	struct thread *t = thread_create_prio("zero", zero_thread, NULL, PRIO_LOW);

	if (IS_ERR(t))
		return (int)PTR_ERR(t);
	thread_detach(t);
	return 0;
}

static int prepare(void)
{
	if (IS_POWER_OF_2(vregion_size) && vregion_size >= PM_VREGION_MIN &&
	    vregion_size <= (1ull << 40))
		return 0;
	ctl_error("boot parameter vregion.size is not a power of two from 2M to 1T");
	return -EINVAL;
}

static int serve_pages(void)
{
	int err = make_instance();

	if (!err)
		err = start_threads();
	if (!err)
		err = rpc_handlers_register(handlers, ARRAY_SIZE(handlers), NULL);
	return err;
}

static const struct monitor monitor = {
	.name = "memory",
	.ctl_role = CTL_ROLE_MEMORY,
	.role = NODE_ROLE_MEMORY,
	.ctl = &ctl_ops,
	.cluster = &cluster_ops,
	.prepare = prepare,
	.serve = serve_pages,
	.complete = update_nodes,
};

static int memory_start(void)
{
	return monitor_start(&monitor);
}
INITCALL(monitor, memory_start);
