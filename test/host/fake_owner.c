/* SPDX-License-Identifier: MIT */
/*
 * A model of memory nodes behind a fake RPC layer.
 *
 * Each submitted call is served by a thread of its own after a random delay, as a memory node
 * would: pages are kept by (space, address) with the sequence number that they came with; data
 * goes straight into the caller's lines. A call that "times out" tells the caller so first and
 * writes its data later, before release().
 */
#include "fake_owner.h"
#include "fake_map.h"
#include "fake_threads.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include <arch/pgtable.h>
#include <kernel/wait.h>
#include <lib/err.h>
#include <lib/string.h>
#include <managers/placement.h>
#include <mm/kmap.h>
#include <net/node.h>
#include <net/rpc.h>
#include <processor/client/storage.h>
#include <processor/excache/excache.h>
#include <processor/excache/places.h>
#include <processor/mm/aspace.h>
#include <processor/process/process.h>
#include <processor/vdso/vdso.h>
#include <proto/pm.h>
#include <shim/shim.h>

#define MAX_PAGES 8192

struct page {
	uint64_t aspace, vaddr, seq;
	uint32_t slot;
	uint8_t data[PAGE_SIZE];
};

static struct {
	pthread_mutex_t lock;
	struct page *pages[MAX_PAGES];
	size_t nr_pages;
	/* Frames that the processor may read: a page's changes now and then, and is used again. */
	struct page *slots[MAX_PAGES];
	bool places;   /* answers tell them */
	bool in_order; /* neighbouring pages get neighbouring frames */
	uint32_t extent[FAKE_NODES + 1];
	unsigned int read_fail_every, nr_reads;
	uint32_t owner[256]; /* of vRegions, by index */
	uint64_t version[256];
	struct fake_counts counts;
	unsigned int delay_us, timeout_every, nr_fetches, wb_timeout_every, nr_writebacks;
	uint64_t refuse_from;
	int refuse_status;
	uint32_t forgets; /* a node that knows no space */
	uint32_t left;    /* a node that is no peer any more */
	uint64_t file_pages, file_bad;
	const uint8_t *file_bytes; /* or NULL: each word is its offset */
	bool file_node_goes;
	uint32_t gone; /* a node that is no member any more */
	uint32_t frames;
	int64_t promised[FAKE_NODES + 1]; /* credits of the processor, by node */
	uint64_t report[FAKE_NODES + 1];
	unsigned int under_way;
	bool no_slots;
	uint32_t read_slots; /* that reads ahead find free */
	bool full;           /* atomic */
	unsigned int ahead_timeout_every, nr_aheads;
	struct {
		int status;
		unsigned int times;
		bool done;
	} fail[32]; /* by opcode, from PM_EXEC on */
	void (*before_vregions)(void *arg);
	void *before_vregions_arg;
	void (*before_call)(uint16_t opcode, void *arg);
	void *before_call_arg;
	struct {
		uint16_t opcode; /* 0: none */
		uint32_t node;
	} silent[4]; /* atomic */
} fake = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void drop_pages(uint64_t aspace, uint64_t addr, uint64_t len);

struct fake_call {
	struct rpc_call call;
	refcount_t refs;
	struct completion done;
	uint8_t body[RPC_BODY_MAX_CTL];
	uint8_t bulk[PM_WRITEBACK_MAX_PAGES * PAGE_SIZE];
	struct rpc_sge sges[PM_WRITEBACK_MAX_PAGES];
};

static struct waitqueue speaks = WAITQUEUE_INIT(speaks);

/* --- frames -------------------------------------------------------------------------- */

static void slot_take(struct page *p)
{
	uint32_t slot = fake.in_order ? (uint32_t)(p->vaddr / PAGE_SIZE % (MAX_PAGES / 2)) : 0;

	while (fake.slots[slot])
		slot++;
	fake.slots[slot] = p;
	p->slot = slot;
}

static void page_free(struct page *p)
{
	fake.slots[p->slot] = NULL;
	free(p);
}

/* --- controls ------------------------------------------------------------------------ */

void fake_reset(void)
{
	fake_speak();
	fake_quiesce();
	pthread_mutex_lock(&fake.lock);
	for (size_t i = 0; i < fake.nr_pages; i++)
		page_free(fake.pages[i]);
	fake.nr_pages = 0;
	fake.places = false;
	fake.in_order = false;
	fake.read_fail_every = 0;
	for (uint32_t node = 1; node <= FAKE_NODES; node++)
		fake.extent[node] += 1 + !fake.extent[node];
	for (size_t i = 0; i < 256; i++) {
		fake.owner[i] = 1 + (uint32_t)i % FAKE_NODES;
		fake.version[i] = 1;
	}
	memset(&fake.counts, 0, sizeof(fake.counts));
	fake.delay_us = 0;
	fake.timeout_every = 0;
	fake.nr_fetches = 0;
	fake.wb_timeout_every = 0;
	fake.ahead_timeout_every = 0;
	fake.nr_aheads = 0;
	fake.no_slots = false;
	fake.read_slots = 32;
	fake_full(false);
	fake_ahead(false);
	fake_reclaim(false);
	fake.nr_writebacks = 0;
	fake.refuse_status = 0;
	fake.forgets = 0;
	fake.left = 0;
	fake.file_pages = 0;
	fake.file_bytes = NULL;
	fake.file_node_goes = false;
	fake.gone = 0;
	fake.frames = UINT32_MAX;
	memset(fake.fail, 0, sizeof(fake.fail));
	fake_map_on(false);
	pthread_mutex_unlock(&fake.lock);
}

void fake_delay_us(unsigned int us)
{
	fake.delay_us = us;
}

void fake_timeout_every(unsigned int n)
{
	fake.timeout_every = n;
}

void fake_writeback_timeout_every(unsigned int n)
{
	fake.wb_timeout_every = n;
}

void fake_ahead_timeout_every(unsigned int n)
{
	fake.ahead_timeout_every = n;
}

void fake_ahead(bool on)
{
	if (shim_bootparam_set("prefetch", on ? "on" : "off"))
		abort();
}

void fake_reclaim(bool on)
{
	if (shim_bootparam_set("reclaim", on ? "on" : "off"))
		abort();
}

void fake_read_slots(uint32_t nr)
{
	fake.read_slots = nr;
}

void fake_no_slots(bool none)
{
	fake.no_slots = none;
}

void fake_full(bool full)
{
	__atomic_store_n(&fake.full, full, __ATOMIC_RELEASE);
	wake_all(&speaks);
}

static bool is_full(void)
{
	return __atomic_load_n(&fake.full, __ATOMIC_ACQUIRE);
}

void fake_refuse(uint64_t vaddr, int status)
{
	pthread_mutex_lock(&fake.lock);
	fake.refuse_from = vaddr;
	fake.refuse_status = status;
	pthread_mutex_unlock(&fake.lock);
}

void fake_leaves(uint32_t node)
{
	pthread_mutex_lock(&fake.lock);
	fake.left = node;
	pthread_mutex_unlock(&fake.lock);
}

bool rpc_peer_is_out(uint32_t node)
{
	bool out;

	pthread_mutex_lock(&fake.lock);
	out = node && node == fake.left;
	pthread_mutex_unlock(&fake.lock);
	return out;
}

void fake_forgets(uint32_t node)
{
	pthread_mutex_lock(&fake.lock);
	fake.forgets = node;
	pthread_mutex_unlock(&fake.lock);
}

void fake_file(uint64_t pages, uint64_t bad)
{
	fake.file_pages = pages;
	fake.file_bad = bad;
}

void fake_file_bytes(const uint8_t *bytes)
{
	fake.file_bytes = bytes;
}

void fake_frames(uint32_t frames)
{
	fake.frames = frames;
}

void fake_fail(uint16_t opcode, int status)
{
	fake_fail_times(opcode, status, 1, false);
}

void fake_fail_times(uint16_t opcode, int status, unsigned int times, bool done)
{
	pthread_mutex_lock(&fake.lock);
	fake.fail[opcode - PM_EXEC].status = status;
	fake.fail[opcode - PM_EXEC].times = times;
	fake.fail[opcode - PM_EXEC].done = done;
	pthread_mutex_unlock(&fake.lock);
}

void fake_silence(uint32_t node, uint16_t opcode)
{
	for (size_t i = 0; i < ARRAY_SIZE(fake.silent); i++) {
		if (fake.silent[i].opcode)
			continue;
		fake.silent[i].node = node;
		__atomic_store_n(&fake.silent[i].opcode, opcode, __ATOMIC_RELEASE);
		return;
	}
	abort();
}

void fake_speak(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(fake.silent); i++)
		__atomic_store_n(&fake.silent[i].opcode, 0, __ATOMIC_RELEASE);
	wake_all(&speaks);
}

static bool is_silent(uint32_t node, uint16_t opcode)
{
	for (size_t i = 0; i < ARRAY_SIZE(fake.silent); i++) {
		const uint16_t of = __atomic_load_n(&fake.silent[i].opcode, __ATOMIC_ACQUIRE);

		if (of && (of == opcode || of == FAKE_ALL) && fake.silent[i].node == node)
			return true;
	}
	return false;
}

void fake_before_vregions(void (*fn)(void *arg), void *arg)
{
	fake.before_vregions_arg = arg;
	fake.before_vregions = fn;
}

void fake_before_call(void (*fn)(uint16_t opcode, void *arg), void *arg)
{
	fake.before_call_arg = arg;
	fake.before_call = fn;
}

int64_t fake_promised(void)
{
	int64_t nr = 0;

	pthread_mutex_lock(&fake.lock);
	for (uint32_t node = 1; node <= FAKE_NODES; node++)
		nr += fake.promised[node];
	pthread_mutex_unlock(&fake.lock);
	return nr;
}

size_t fake_pages(void)
{
	size_t nr;

	pthread_mutex_lock(&fake.lock);
	nr = fake.nr_pages;
	pthread_mutex_unlock(&fake.lock);
	return nr;
}

void fake_file_node_goes(void)
{
	pthread_mutex_lock(&fake.lock);
	fake.file_node_goes = true;
	pthread_mutex_unlock(&fake.lock);
}

void fake_move(uint64_t index, uint32_t node)
{
	pthread_mutex_lock(&fake.lock);
	fake.owner[index] = node;
	fake.version[index]++;
	pthread_mutex_unlock(&fake.lock);
}

unsigned int fake_under_way(void)
{
	return __atomic_load_n(&fake.under_way, __ATOMIC_ACQUIRE);
}

void fake_quiesce(void)
{
	while (fake_under_way())
		usleep(100);
}

void fake_settle(void)
{
	fake_quiesce();
	while (!aspace_drain())
		usleep(10000);
	fake_quiesce();
}

void fake_counts(struct fake_counts *out)
{
	pthread_mutex_lock(&fake.lock);
	*out = fake.counts;
	pthread_mutex_unlock(&fake.lock);
}

/* --- pages --------------------------------------------------------------------------- */

static struct pm_place place_of(uint32_t node, const struct page *p)
{
	if (!fake.places || !p)
		return (struct pm_place){ 0 };
	return (struct pm_place){ .extent = fake.extent[node],
				  .rkey = fake.extent[node] << 8 | node,
				  .frame = p->slot };
}

void fake_places(bool on)
{
	pthread_mutex_lock(&fake.lock);
	fake.places = on;
	pthread_mutex_unlock(&fake.lock);
}

void fake_frames_in_order(bool yes)
{
	fake.in_order = yes;
}

void fake_read_fail_every(unsigned int n)
{
	fake.read_fail_every = n;
}

void fake_recall(uint32_t node, bool tell)
{
	const uint32_t extent = fake.extent[node];
	struct page *last = NULL, *p;
	uint32_t slot;

	if (tell)
		places_revoke(node, extent, true);
	pthread_mutex_lock(&fake.lock);
	fake.extent[node]++;
	/* Each frame gets the content of the one before it. */
	for (size_t i = 0; i < fake.nr_pages; i++) {
		p = fake.pages[i];
		if (fake.owner[p->vaddr / FAKE_VREGION_SIZE] != node)
			continue;
		if (last) {
			slot = p->slot;
			p->slot = last->slot;
			last->slot = slot;
			fake.slots[p->slot] = p;
			fake.slots[last->slot] = last;
		}
		last = p;
	}
	pthread_mutex_unlock(&fake.lock);
}

void fake_drop(uint64_t aspace, uint64_t addr, uint64_t len)
{
	pthread_mutex_lock(&fake.lock);
	drop_pages(aspace, addr, len);
	pthread_mutex_unlock(&fake.lock);
}

static struct page *find(uint64_t aspace, uint64_t vaddr)
{
	for (size_t i = 0; i < fake.nr_pages; i++) {
		if (fake.pages[i]->aspace == aspace && fake.pages[i]->vaddr == vaddr)
			return fake.pages[i];
	}
	return NULL;
}

bool fake_stored(uint64_t aspace, uint64_t vaddr, uint64_t *word)
{
	struct page *p;

	pthread_mutex_lock(&fake.lock);
	p = find(aspace, vaddr);
	if (p)
		memcpy(word, p->data, sizeof(*word));
	pthread_mutex_unlock(&fake.lock);
	return p != NULL;
}

static void store(uint32_t node, uint64_t aspace, uint64_t vaddr, uint64_t seq, const uint8_t *data)
{
	struct page *p = find(aspace, vaddr);

	if (p && seq < p->seq) {
		fake.counts.stale++;
		return;
	}
	if (!p) {
		if (fake.nr_pages == MAX_PAGES)
			abort();
		p = calloc(1, sizeof(*p));
		fake.pages[fake.nr_pages++] = p;
		fake.promised[node] -= fake.promised[node] > 0;
		p->aspace = aspace;
		p->vaddr = vaddr;
		slot_take(p);
	} else if (rand() % 4 == 0) {
		const uint32_t slot = p->slot;

		slot_take(p); /* it was being sent */
		fake.slots[slot] = NULL;
	}
	p->seq = seq;
	memcpy(p->data, data, PAGE_SIZE);
}

static int redirect(uint64_t vaddr, uint32_t node, struct pm_redirect_wire *w)
{
	const uint64_t index = vaddr / FAKE_VREGION_SIZE;
	const struct pm_vregion vr = { .index = index,
				       .owner = fake.owner[index],
				       .version = fake.version[index] };

	if (vr.owner == node)
		return 0;
	fake.counts.redirects++;
	pm_redirect_encode(&vr, w);
	return -EREMCHG;
}

/* May the page be stored? 0, or what the owner says instead. */
static int refused(uint64_t aspace, uint64_t vaddr)
{
	if (fake_map_is_on() && !fake_map_has(aspace, vaddr))
		return -EFAULT;
	if (!fake.refuse_status || vaddr < fake.refuse_from)
		return 0;
	fake.counts.refused++;
	return fake.refuse_status;
}

/* --- serving ------------------------------------------------------------------------- */

static void reply(struct fake_call *fc, int status, const void *body, size_t len)
{
	if (len && fc->call.reply && len <= fc->call.reply_max) {
		memcpy(fc->call.reply, body, len);
		fc->call.reply_len = (uint32_t)len;
	}
	fc->call.status = status;
}

static void serve_fetch(struct fake_call *fc)
{
	struct pm_fetch_rep rep = { .result = PM_FETCH_DATA, .prot = PM_PROT_ALL };
	struct pm_fetch_rep_wire w;
	struct pm_redirect_wire rw;
	struct pm_fetch_req req;
	struct page *p;

	if (pm_fetch_req_decode(fc->body, fc->call.body_len, &req))
		abort();
	fake.counts.fetches++;
	if (fc->call.peer == fake.forgets) {
		reply(fc, -ESRCH, NULL, 0);
		return;
	}
	if (redirect(req.vaddr, fc->call.peer, &rw)) {
		reply(fc, -EREMCHG, &rw, sizeof(rw));
		return;
	}
	if (req.flags & PM_FETCH_VICTIM) {
		fake.counts.rides++;
		rep.victim_status = redirect(req.victim_vaddr, fc->call.peer, &rw);
		if (!rep.victim_status)
			rep.victim_status = refused(req.victim_aspace, req.victim_vaddr);
		if (!rep.victim_status)
			store(fc->call.peer, req.victim_aspace, req.victim_vaddr, req.victim_seq,
			      fc->bulk);
		if (!rep.victim_status)
			rep.victim =
				place_of(fc->call.peer, find(req.victim_aspace, req.victim_vaddr));
	}
	p = find(req.aspace, req.vaddr);
	if (p)
		memcpy(phys_to_virt(req.line.addr), p->data, PAGE_SIZE);
	else
		rep.result = PM_FETCH_ZERO;
	rep.page = place_of(fc->call.peer, p);
	rep.grant = (struct pm_grant){ .node = fc->call.peer, .frames = 0 };
	pm_fetch_rep_encode(&rep, &w);
	reply(fc, 0, &w, sizeof(w));
}

static void serve_fetch_ahead(struct fake_call *fc)
{
	struct pm_fetch_ahead_rep rep = { 0 };
	struct pm_fetch_ahead_rep_wire w;
	struct pm_fetch_ahead_req req;

	if (pm_fetch_ahead_req_decode(fc->body, fc->call.body_len, &req))
		abort();
	fake.counts.aheads++;
	for (uint32_t i = 0; i < req.nr_pages; i++) {
		struct pm_redirect_wire rw;
		const struct page *p = find(req.aspace, req.pages[i].vaddr);

		if (!p || redirect(req.pages[i].vaddr, fc->call.peer, &rw))
			continue;
		memcpy(phys_to_virt(req.pages[i].line.addr), p->data, PAGE_SIZE);
		rep.sent |= 1u << i;
		fake.counts.ahead_pages++;
		if (req.pages[i].vaddr > fake.counts.ahead_last)
			fake.counts.ahead_last = req.pages[i].vaddr;
	}
	pm_fetch_ahead_rep_encode(&rep, &w);
	reply(fc, 0, &w, sizeof(w));
}

static uint32_t bulk_len(const struct fake_call *fc)
{
	uint32_t len = 0;

	for (uint32_t i = 0; i < fc->call.nr_bulk; i++)
		len += fc->call.bulk[i].len;
	return len;
}

static void serve_writeback(struct fake_call *fc)
{
	struct pm_writeback_rep rep = { .grant = { .node = fc->call.peer } };
	static const uint8_t zeroes[PAGE_SIZE];
	const uint8_t *next = fc->bulk, *data;
	struct pm_writeback_req req;
	uint8_t body[512];
	struct pm_redirect_wire rw;
	ssize_t len;

	if (pm_writeback_req_decode(fc->body, fc->call.body_len, &req))
		abort();
	if (bulk_len(fc) != pm_writeback_bulk_len(&req))
		abort();
	fake.counts.writeback_msgs++;
	if (fc->call.peer == fake.forgets) {
		reply(fc, -ESRCH, NULL, 0);
		return;
	}
	rep.nr_pages = req.nr_pages;
	for (uint32_t i = 0; i < req.nr_pages; i++) {
		data = req.zeroes & (1u << i) ? zeroes : next;
		next += data == next ? PAGE_SIZE : 0;
		rep.pages[i].status = redirect(req.pages[i].vaddr, fc->call.peer, &rw);
		if (!rep.pages[i].status)
			rep.pages[i].status = refused(req.aspace, req.pages[i].vaddr);
		if (!rep.pages[i].status) {
			fake.counts.writeback_pages++;
			fake.counts.zeroes += data == zeroes;
			store(fc->call.peer, req.aspace, req.pages[i].vaddr, req.pages[i].seq,
			      data);
			rep.pages[i].place =
				place_of(fc->call.peer, find(req.aspace, req.pages[i].vaddr));
		}
	}
	len = pm_writeback_rep_encode(&rep, body, sizeof(body));
	if (len < 0)
		abort();
	reply(fc, 0, body, (size_t)len);
}

static void serve_file(struct fake_call *fc)
{
	struct pm_file_fetch_rep rep = { 0 };
	struct pm_file_fetch_rep_wire w;
	struct pm_file_fetch_req *req = calloc(1, sizeof(*req));

	if (pm_file_fetch_req_decode(fc->body, fc->call.body_len, req))
		abort();
	fake.counts.file_fetches++;
	while (rep.nr_valid < req->nr_pages && req->pgoff + rep.nr_valid < fake.file_pages &&
	       req->pgoff + rep.nr_valid != fake.file_bad) {
		uint64_t *page = phys_to_virt(req->pages[rep.nr_valid].addr);

		if (fake.file_bytes)
			memcpy(page, fake.file_bytes + (req->pgoff + rep.nr_valid) * PAGE_SIZE,
			       PAGE_SIZE);
		for (uint64_t i = 0; i < PAGE_SIZE / 8 && !fake.file_bytes; i++)
			page[i] = (req->pgoff + rep.nr_valid) * PAGE_SIZE + i * 8;
		rep.nr_valid++;
	}
	if (rep.nr_valid == 0 && req->pgoff == fake.file_bad) {
		reply(fc, -EIO, NULL, 0);
	} else {
		rep.last_bytes = rep.nr_valid ? PAGE_SIZE : 0;
		rep.file_size = fake.file_pages * PAGE_SIZE;
		pm_file_fetch_rep_encode(&rep, &w);
		reply(fc, 0, &w, sizeof(w));
	}
	free(req);
}

static int injected(uint16_t opcode, bool *skip);

static void serve_report(struct fake_call *fc)
{
	const uint32_t node = fc->call.peer;
	struct pm_credit_req req;
	struct pm_credit_rep rep;
	struct pm_credit_rep_wire w;
	uint32_t granted;

	if (pm_credit_req_decode(fc->body, fc->call.body_len, &req))
		abort();
	if (req.report <= fake.report[node]) {
		reply(fc, -ESTALE, NULL, 0);
		return;
	}
	if (req.want) {
		bool skip;
		const int err = injected(PM_CREDIT, &skip);

		if (err) {
			reply(fc, err, NULL, 0);
			return;
		}
	}
	fake.report[node] = req.report;
	fake.counts.credit_requests += req.want > 0;
	granted = MIN(req.want, fake.frames);
	if (fake.frames != UINT32_MAX)
		fake.frames -= granted;
	fake.promised[node] = (int64_t)req.hold + granted;
	rep = (struct pm_credit_rep){ .report = req.report, .frames = req.hold + granted };
	pm_credit_rep_encode(&rep, &w);
	reply(fc, 0, &w, sizeof(w));
}

/* Page @i of what is read: whatever is in the frame. */
static void serve_read_page(struct fake_call *fc, uint32_t i)
{
	const struct page *p = fake.slots[fc->call.remote_addr / PAGE_SIZE + i];
	void *line = phys_to_virt(fc->sges[i].addr);

	if (p)
		memcpy(line, p->data, PAGE_SIZE);
	else
		memset(line, 0xdb, PAGE_SIZE);
	if (fc->call.cls == RPC_CLASS_READ_AHEAD) {
		fake.counts.ahead_pages++;
		if (p && p->vaddr > fake.counts.ahead_last)
			fake.counts.ahead_last = p->vaddr;
	}
}

/* The device's part, if the key is good. */
static void serve_read(struct fake_call *fc)
{
	const uint32_t node = fc->call.peer;

	if (fc->call.cls == RPC_CLASS_READ)
		fake.counts.reads++;
	else
		fake.counts.ahead_reads++;
	if (fc->call.rkey != (fake.extent[node] << 8 | node) ||
	    (fake.read_fail_every && ++fake.nr_reads % fake.read_fail_every == 0)) {
		fake.counts.reads_failed++;
		fc->call.status = -EIO;
		fc->call.refused = fc->call.rkey != (fake.extent[node] << 8 | node);
		return;
	}
	for (uint32_t i = 0; i < fc->call.nr_bulk; i++)
		serve_read_page(fc, i);
}

static void serve(struct fake_call *fc)
{
	if (rpc_class_is_read(fc->call.cls)) {
		serve_read(fc);
		return;
	}
	if (fc->call.opcode == PM_FILE_FETCH && fake.file_node_goes) {
		fake.file_node_goes = false;
		fake.gone = fc->call.peer;
	}
	if (fc->call.peer == fake.gone) {
		fc->call.status = -EHOSTDOWN;
		return;
	}
	fc->call.answered = true;
	switch (fc->call.opcode) {
	case PM_CREDIT:
		serve_report(fc);
		break;
	case PM_FETCH:
		serve_fetch(fc);
		break;
	case PM_FETCH_AHEAD:
		serve_fetch_ahead(fc);
		break;
	case PM_WRITEBACK:
		serve_writeback(fc);
		break;
	case PM_FILE_FETCH:
		serve_file(fc);
		break;
	default:
		abort();
	}
}

static bool times_out(const struct fake_call *fc)
{
	if (fc->call.opcode == PM_WRITEBACK)
		return fake.wb_timeout_every && ++fake.nr_writebacks % fake.wb_timeout_every == 0;
	if (fc->call.opcode == PM_FETCH_AHEAD || fc->call.cls == RPC_CLASS_READ_AHEAD)
		return fake.ahead_timeout_every && ++fake.nr_aheads % fake.ahead_timeout_every == 0;
	return fc->call.opcode == PM_FETCH && fake.timeout_every &&
	       ++fake.nr_fetches % fake.timeout_every == 0;
}

static void call_thread(void *arg)
{
	struct fake_call *fc = arg;
	void *late_reply = NULL;
	bool late;

	wait_event(&speaks, !is_silent(fc->call.peer, fc->call.opcode));
	if (fake.delay_us)
		usleep((unsigned int)rand() % fake.delay_us);
	/* The device reads the bulk when the message goes out, which may be late. */
	for (uint32_t i = 0; i < fc->call.nr_bulk; i++)
		memcpy(fc->bulk + i * PAGE_SIZE, phys_to_virt(fc->sges[i].addr), PAGE_SIZE);
	pthread_mutex_lock(&fake.lock);
	late = times_out(fc);
	if (late) {
		fake.counts.late++;
		fc->call.status = -ETIMEDOUT;
		late_reply = fc->call.reply;
		fc->call.reply = NULL;
	}
	pthread_mutex_unlock(&fake.lock);
	if (late) {
		if (fc->call.done)
			fc->call.done(&fc->call);
		complete_all(&fc->done);
		usleep(2000);
		fc->call.reply = late_reply;
	}
	pthread_mutex_lock(&fake.lock);
	serve(fc);
	if (late)
		fc->call.status = -ETIMEDOUT;
	pthread_mutex_unlock(&fake.lock);
	if (!late && fc->call.done)
		fc->call.done(&fc->call);
	if (!late)
		complete_all(&fc->done);
	if (fc->call.release)
		fc->call.release(&fc->call);
	rpc_call_put(&fc->call);
	__atomic_sub_fetch(&fake.under_way, 1, __ATOMIC_RELEASE);
}

/* --- <net/rpc.h> --------------------------------------------------------------------- */

struct rpc_call *rpc_call_alloc(void)
{
	struct fake_call *fc = calloc(1, sizeof(*fc));

	refcount_set(&fc->refs, 1);
	completion_init(&fc->done);
	return &fc->call;
}

void rpc_call_put(struct rpc_call *call)
{
	struct fake_call *fc = container_of(call, struct fake_call, call);

	if (refcount_dec_and_test(&fc->refs))
		free(fc);
}

static int serve_home(uint32_t peer, uint16_t opcode, const void *body, uint32_t body_len,
		      void *out, uint32_t reply_max);

/* A request to a home. */
static void home_call_serve(struct fake_call *fc)
{
	const int ret = serve_home(fc->call.peer, fc->call.opcode, fc->body, fc->call.body_len,
				   fc->call.reply, fc->call.reply_max);

	fc->call.status = MIN(ret, 0);
	fc->call.reply_len = (uint32_t)MAX(ret, 0);
	complete_all(&fc->done);
}

static void home_call_thread(void *arg)
{
	struct fake_call *fc = arg;

	wait_event(&speaks, !is_silent(fc->call.peer, fc->call.opcode));
	home_call_serve(fc);
	rpc_call_put(&fc->call);
	__atomic_sub_fetch(&fake.under_way, 1, __ATOMIC_RELEASE);
}

int rpc_call_submit(struct rpc_call *call)
{
	struct fake_call *fc = container_of(call, struct fake_call, call);
	const bool home = call->cls == RPC_CLASS_CONTROL && call->opcode != PM_CREDIT;

	if (home && is_full())
		return -EAGAIN;
	if (call->body_len)
		memcpy(fc->body, call->body, call->body_len);
	if (home && !is_silent(call->peer, call->opcode)) {
		home_call_serve(fc);
		return 0;
	}
	for (uint32_t i = 0; i < call->nr_bulk; i++)
		fc->sges[i] = call->bulk[i];
	refcount_inc(&fc->refs);
	__atomic_add_fetch(&fake.under_way, 1, __ATOMIC_ACQUIRE);
	fake_thread_run(home ? home_call_thread : call_thread, fc);
	return 0;
}

int rpc_call_wait(struct rpc_call *call)
{
	struct fake_call *fc = container_of(call, struct fake_call, call);

	completion_wait(&fc->done);
	return call->status;
}

int rpc_call_wait_killable(struct rpc_call *call)
{
	struct fake_call *fc = container_of(call, struct fake_call, call);

	return completion_wait_killable(&fc->done) ? -EINTR : call->status;
}

bool rpc_call_wait_or_leave(struct rpc_call *call)
{
	struct fake_call *fc = container_of(call, struct fake_call, call);

	return completion_wait_killable(&fc->done) == 0;
}

bool rpc_slot_is_free(uint32_t peer, enum rpc_class cls)
{
	return !fake.no_slots;
}

uint32_t rpc_slots_free(uint32_t peer, enum rpc_class cls)
{
	return fake.no_slots ? 0 : fake.read_slots;
}

uint32_t rpc_read_pieces_max(void)
{
	return FAKE_READ_PIECES;
}

int rpc_calls_submit(struct rpc_call *const *calls, size_t nr, size_t *nr_submitted)
{
	int err = 0;

	*nr_submitted = 0;
	for (size_t i = 0; i < nr && !err; i++) {
		err = rpc_call_submit(calls[i]);
		*nr_submitted += !err;
	}
	return err;
}

int rpc_call_submit_wait(struct rpc_call *call, uint64_t slot_timeout_ns)
{
	int err;

	do {
		wait_event(&speaks, call->cls != RPC_CLASS_CONTROL || !is_full());
		err = rpc_call_submit(call);
	} while (err == -EAGAIN);
	return err;
}

int rpc_call_submit_killable(struct rpc_call *call)
{
	int err;

	do {
		if (wait_event_killable(&speaks, call->cls != RPC_CLASS_CONTROL || !is_full()))
			return -EINTR;
		err = rpc_call_submit(call);
	} while (err == -EAGAIN);
	return err;
}

/*
 * The status that the test wants for the next call @opcode, or 0. *@skip: nothing is done, then.
 */
static int injected(uint16_t opcode, bool *skip)
{
	const size_t i = opcode - PM_EXEC;

	*skip = false;
	if (!fake.fail[i].times)
		return 0;
	fake.fail[i].times--;
	*skip = !fake.fail[i].done;
	return fake.fail[i].status;
}

static int sync_vregions(const void *body, uint32_t len, void *out, uint32_t max)
{
	struct pm_range_rep *rep = calloc(1, sizeof(*rep));
	void (*before)(void *arg) = fake.before_vregions;
	struct pm_vregions_req req;
	bool skip;
	ssize_t n;

	if (pm_vregions_req_decode(body, len, &req))
		abort();
	pthread_mutex_lock(&fake.lock);
	rep->nr_vregions = 1;
	rep->vregions[0] = (struct pm_vregion){ .index = req.first,
						.owner = fake.owner[req.first],
						.version = fake.version[req.first] };
	pthread_mutex_unlock(&fake.lock);
	fake.before_vregions = NULL;
	if (before)
		before(fake.before_vregions_arg);
	n = injected(PM_VREGIONS, &skip);
	if (!n)
		n = pm_range_rep_encode(rep, out, max);
	free(rep);
	return (int)n;
}

static void drop_pages(uint64_t aspace, uint64_t addr, uint64_t len)
{
	for (size_t i = 0; i < fake.nr_pages;) {
		struct page *p = fake.pages[i];

		if (p->aspace != aspace || p->vaddr - addr >= len) {
			i++;
			continue;
		}
		fake.pages[i] = fake.pages[--fake.nr_pages];
		page_free(p);
	}
}

static int sync_destroy(const void *body, uint32_t len)
{
	uint64_t ids[PM_DESTROY_MAX];
	uint32_t nr;

	if (pm_destroy_list_decode(body, len, ids, &nr))
		abort();
	pthread_mutex_lock(&fake.lock);
	for (uint32_t i = 0; i < nr; i++)
		drop_pages(ids[i], 0, UINT64_MAX);
	fake.counts.destroy_msgs++;
	fake.counts.destroys += nr;
	pthread_mutex_unlock(&fake.lock);
	return 0;
}

static int sync_fork(const void *body, uint32_t len, void *out, uint32_t max)
{
	struct pm_range_rep *rep = calloc(1, sizeof(*rep));
	struct pm_fork_req req;
	bool skip;
	ssize_t n;

	if (pm_fork_req_decode(body, len, &req))
		abort();
	pthread_mutex_lock(&fake.lock);
	n = injected(PM_FORK, &skip);
	fake.counts.forks += !skip;
	if (!skip && fake_map_is_on())
		fake_map_fork(&req);
	for (uint64_t i = 0; i < 64; i++)
		rep->vregions[rep->nr_vregions++] = (struct pm_vregion){
			.index = i,
			.owner = fake.owner[i],
			.version = fake.version[i],
		};
	pthread_mutex_unlock(&fake.lock);
	rep->addr = FAKE_VREGION_SIZE;
	if (!n)
		n = pm_range_rep_encode(rep, out, max);
	free(rep);
	return (int)n;
}

static int sync_space(uint32_t peer, const void *body, uint32_t len, void *out, uint32_t max)
{
	struct pm_range_rep *rep = calloc(1, sizeof(*rep));
	struct pm_space_req req;
	bool skip;
	ssize_t n;

	if (pm_space_req_decode(body, len, &req))
		abort();
	pthread_mutex_lock(&fake.lock);
	n = injected(PM_SPACE, &skip);
	if (!n && pm_space_home(req.aspace) != peer) {
		n = -EINVAL; /* by its name it is another node's */
		skip = true;
	}
	fake.counts.spaces += !skip;
	pthread_mutex_unlock(&fake.lock);
	rep->addr = FAKE_VREGION_SIZE;
	if (!n)
		n = pm_range_rep_encode(rep, out, max);
	free(rep);
	return (int)n;
}

static int sync_collapse(const void *body, uint32_t len)
{
	struct pm_collapse_req *req = calloc(1, sizeof(*req));
	bool skip;
	int err;

	if (pm_collapse_req_decode(body, len, req))
		abort();
	pthread_mutex_lock(&fake.lock);
	err = injected(PM_COLLAPSE, &skip);
	if (!skip) {
		fake.counts.collapses++;
		for (uint32_t i = 0; i < req->nr_ranges; i++)
			drop_pages(req->from, req->ranges[i].addr, req->ranges[i].len);
		for (size_t i = 0; i < fake.nr_pages;) {
			struct page *p = fake.pages[i];

			if (p->aspace != req->from) {
				i++;
			} else if (find(req->into, p->vaddr)) {
				fake.pages[i] = fake.pages[--fake.nr_pages];
				page_free(p);
			} else {
				p->aspace = req->into;
				i++;
			}
		}
	}
	pthread_mutex_unlock(&fake.lock);
	free(req);
	return err;
}

static int sync_discard(const void *body, uint32_t len)
{
	struct pm_discard_req *req = calloc(1, sizeof(*req));
	bool skip;
	int err;

	if (pm_discard_req_decode(body, len, req))
		abort();
	pthread_mutex_lock(&fake.lock);
	err = injected(PM_DISCARD, &skip);
	for (uint32_t i = 0; !skip && i < req->nr_ranges; i++)
		drop_pages(req->aspace, req->ranges[i].addr, req->ranges[i].len);
	fake.counts.discards += !skip;
	pthread_mutex_unlock(&fake.lock);
	free(req);
	return err;
}

static void move_pages(uint64_t aspace, uint64_t from, uint64_t len, uint64_t to)
{
	for (size_t i = 0; i < fake.nr_pages; i++) {
		struct page *p = fake.pages[i];

		if (p->aspace == aspace && p->vaddr - from < len)
			p->vaddr = p->vaddr - from + to;
	}
}

/* Do to the pages what a call that changes the layout does, and say what is mapped then. */
static void change_layout(uint16_t opcode, const void *body, uint32_t len, struct pm_range_rep *rep)
{
	struct pm_mmap_req map;
	struct pm_mremap_req move;
	struct pm_range_req range;
	struct pm_brk_req brk;
	struct pm_vma *v = &rep->vmas[0];

	if (opcode == PM_MUNMAP && !pm_range_req_decode(body, len, &range)) {
		drop_pages(range.aspace, range.addr, range.len);
		rep->addr = range.addr;
	} else if (opcode == PM_MMAP && !pm_mmap_req_decode(body, len, &map)) {
		drop_pages(map.aspace, map.addr, map.len);
		*v = (struct pm_vma){ map.addr, map.addr + map.len, .prot = map.prot };
	} else if (opcode == PM_MREMAP && !pm_mremap_req_decode(body, len, &move)) {
		drop_pages(move.aspace, move.new_addr, move.new_len);
		move_pages(move.aspace, move.old_addr, MIN(move.old_len, move.new_len),
			   move.new_addr);
		*v = (struct pm_vma){ move.new_addr, move.new_addr + move.new_len,
				      .prot = PM_PROT_READ | PM_PROT_WRITE };
	} else if (opcode == PM_BRK && !pm_brk_req_decode(body, len, &brk)) {
		/* The heap is all that there is. */
		drop_pages(brk.aspace, brk.brk, UINT64_MAX - brk.brk);
		rep->addr = brk.brk;
	} else {
		abort();
	}
	if (v->end) {
		rep->nr_vmas = 1;
		rep->addr = v->start;
	}
}

/* The same with a map of what is mapped, which the call may not fit: 0, or its errno. */
static int change_map(uint16_t opcode, const void *body, uint32_t len, struct pm_range_rep *rep)
{
	static struct pm_lease_req lease;
	struct pm_mremap_req move;
	struct pm_range_req range;
	struct pm_mmap_req map;
	int err;

	if (opcode == PM_LEASE && !pm_lease_req_decode(body, len, &lease)) {
		err = fake_map_lease(&lease, rep);
		for (uint32_t i = 0; i < lease.nr_ranges && !err; i++)
			if (!(lease.ranges[i].flags & PM_LEASE_MAPPED))
				drop_pages(lease.aspace, lease.ranges[i].addr, lease.ranges[i].len);
	} else if (opcode == PM_MMAP && !pm_mmap_req_decode(body, len, &map)) {
		err = fake_map_mmap(&map, rep);
		if (!err)
			drop_pages(map.aspace, rep->addr, map.len);
	} else if (opcode == PM_MREMAP && !pm_mremap_req_decode(body, len, &move)) {
		err = fake_map_mremap(&move, rep);
		if (!err && move.new_addr != move.old_addr) {
			drop_pages(move.aspace, move.new_addr, move.new_len);
			move_pages(move.aspace, move.old_addr, MIN(move.old_len, move.new_len),
				   move.new_addr);
			drop_pages(move.aspace, move.old_addr, move.old_len);
		}
	} else if (!pm_range_req_decode(body, len, &range)) {
		rep->addr = range.addr;
		if (opcode == PM_MPROTECT)
			return fake_map_mprotect(&range, rep);
		err = fake_map_munmap(range.aspace, range.addr, range.len);
		drop_pages(range.aspace, range.addr, range.len);
	} else {
		abort();
	}
	return err;
}

static int sync_layout(uint16_t opcode, const void *body, uint32_t len, void *out, uint32_t max)
{
	struct pm_range_rep *rep = calloc(1, sizeof(*rep));
	bool skip;
	ssize_t n;

	pthread_mutex_lock(&fake.lock);
	n = injected(opcode, &skip);
	if (!skip && fake_map_is_on()) {
		const int err = change_map(opcode, body, len, rep);

		n = n ? n : err;
	} else if (!skip) {
		change_layout(opcode, body, len, rep);
	}
	pthread_mutex_unlock(&fake.lock);
	if (!n)
		n = pm_range_rep_encode(rep, out, max);
	free(rep);
	return (int)n;
}

int rpc_call_sync(uint32_t peer, enum rpc_class cls, uint16_t opcode, const void *body,
		  uint32_t body_len, void *out, uint32_t reply_max, uint64_t timeout_ns)
{
	wait_event(&speaks, !is_silent(peer, opcode));
	return serve_home(peer, opcode, body, body_len, out, reply_max);
}

int rpc_call_sync_killable(uint32_t peer, enum rpc_class cls, uint16_t opcode, const void *body,
			   uint32_t body_len, void *out, uint32_t reply_max, uint64_t timeout_ns)
{
	if (timeout_ns && is_silent(peer, opcode))
		return -ETIMEDOUT;
	if (wait_event_killable(&speaks, !is_silent(peer, opcode)))
		return -EINTR;
	return serve_home(peer, opcode, body, body_len, out, reply_max);
}

static int fill_vma(const void *body, uint32_t len, void *out, uint32_t max)
{
	struct pm_fill_vma_req req;
	struct pm_vma_wire w;
	struct pm_vma v;
	bool mapped = false;

	if (pm_fill_vma_req_decode(body, len, &req) || max < sizeof(w))
		abort();
	pthread_mutex_lock(&fake.lock);
	if (fake_map_is_on())
		mapped = fake_map_fill(req.aspace, req.vaddr, &v);
	pthread_mutex_unlock(&fake.lock);
	if (!mapped)
		return -EFAULT;
	pm_vma_encode(&v, &w);
	memcpy(out, &w, sizeof(w));
	return sizeof(w);
}

static int serve_home(uint32_t peer, uint16_t opcode, const void *body, uint32_t body_len,
		      void *out, uint32_t reply_max)
{
	bool skip;
	int err;

	if (fake.before_call)
		fake.before_call(opcode, fake.before_call_arg);
	switch (opcode) {
	case PM_VREGIONS:
		return sync_vregions(body, body_len, out, reply_max);
	case PM_FILL_VMA:
		err = injected(PM_FILL_VMA, &skip);
		return err ? err : fill_vma(body, body_len, out, reply_max);
	case PM_MMAP:
	case PM_MUNMAP:
	case PM_MPROTECT:
	case PM_LEASE:
	case PM_MREMAP:
	case PM_BRK:
		return sync_layout(opcode, body, body_len, out, reply_max);
	case PM_DESTROY:
		return sync_destroy(body, body_len);
	case PM_FORK:
		return sync_fork(body, body_len, out, reply_max);
	case PM_SPACE:
		return sync_space(peer, body, body_len, out, reply_max);
	case PM_COLLAPSE:
		return sync_collapse(body, body_len);
	case PM_DISCARD:
		return sync_discard(body, body_len);
	default:
		abort();
	}
}

struct rpc_mem {
	paddr_t start;
};

struct rpc_mem *rpc_mem_register(paddr_t start, uint64_t len, uint32_t sent_to, uint32_t written_by)
{
	static struct rpc_mem mem;

	mem.start = start;
	return &mem;
}

uint32_t rpc_mem_rkey(const struct rpc_mem *mem, uint32_t node)
{
	return 0x1234;
}

const struct node_info *node_self(void)
{
	static const struct node_info self = { .id = 77, .role = NODE_ROLE_PROCESSOR };

	return &self;
}

/* --- what else the cache asks for ---------------------------------------------------- */

static uint32_t home = 1;

void fake_home(uint32_t node)
{
	home = node;
}

uint32_t gmm_home_for(uint64_t aspace)
{
	return home;
}

uint32_t gsm_cache_node_for(const struct proto_file *file)
{
	uint32_t gone;

	pthread_mutex_lock(&fake.lock);
	gone = fake.gone;
	pthread_mutex_unlock(&fake.lock);
	return gone == 1 ? 2 : 1;
}

int storage_getattr(const struct file_id *file, struct file_attr *attr)
{
	if (!fake.file_pages)
		return -ESTALE;
	*attr = (struct file_attr){ .file = *file,
				    .version = 1,
				    .size = fake.file_pages * PAGE_SIZE };
	return 0;
}

unsigned int fake_kills;
void (*fake_on_kill)(void); /* for once */

int vdso_fault(struct aspace *as, vaddr_t addr, enum fault_access access)
{
	return -EFAULT;
}

void process_kill_failed(void)
{
	void (*fn)(void) = fake_on_kill;

	fake_kills++;
	fake_on_kill = NULL;
	if (fn)
		fn();
}

void fake_cache(void)
{
	if (excache_line_count())
		return;
	if (shim_bootparam_set("excache", "512K") || shim_bootparam_set("excache.ways", "8") ||
	    shim_bootparam_set("excache.spare", "32") || aspace_init(process_kill_failed))
		abort();
}
