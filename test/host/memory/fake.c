/* SPDX-License-Identifier: MIT */
#include "fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kernel/thread.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/hash.h>
#include <proto/mp.h>
#include <proto/ps.h>

#include "../../../monitors/memory/dispatch.h"
#include "../../../monitors/memory/file_live.h"

/* --- transport ------------------------------------------------------------------------- */

struct memory *fake_node(struct fake *f, uint32_t node)
{
	if (node < FAKE_MEM_FIRST || node >= FAKE_MEM_FIRST + f->nr_mem)
		return NULL;
	return &f->mem[node - FAKE_MEM_FIRST];
}

static bool inject(struct fake *f, uint16_t opcode)
{
	if (f->fail_opcode != opcode || f->fail_after-- > 0)
		return false;
	if (f->fail_once)
		f->fail_opcode = 0;
	return true;
}

/* Keep the caller as one that a silent node keeps. */
static void hold(struct fake *f, uint16_t opcode)
{
	if (f->hold_opcode != opcode)
		return;
	f->hold_opcode = 0;
	__atomic_store_n(&f->held, true, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&f->release, __ATOMIC_ACQUIRE))
		thread_sleep_ns(1000 * 1000);
}

bool fake_wait_held(struct fake *f)
{
	for (int i = 0; i < 20000 && !__atomic_load_n(&f->held, __ATOMIC_ACQUIRE); i++)
		thread_sleep_ns(1000 * 1000);
	return __atomic_load_n(&f->held, __ATOMIC_ACQUIRE);
}

static const struct siphash_key file_key = { 0x6b6579, 0x5ea1 };

struct proto_file fake_sealed(struct proto_file file, uint32_t vnode)
{
	file.vnode = vnode;
	file.seal = proto_file_seal(&file_key, &file);
	return file;
}

static int storage_lookup(struct fake *f, const void *body, uint32_t len, void *reply,
			  uint32_t reply_max)
{
	struct ps_lookup_rep rep = { 0 };
	struct ps_path_req req;
	int err = ps_path_req_decode(body, len, &req);

	if (err)
		return err;
	for (uint32_t i = 0; i < FAKE_MAX_FILES; i++) {
		const char *path = f->files[i].path;

		if (!path || strlen(path) != req.path_len || memcmp(path, req.path, req.path_len))
			continue;
		rep.attr = (struct proto_attr){
			.file = fake_sealed(
				(struct proto_file){ .ino = i + 1, .gen = 1, .node = FAKE_STORAGE },
				req.vnode),
			.size = f->files[i].size,
			.mode = 0100755,
			.nlink = 1,
			.blksize = 4096,
			.version = f->files[i].version,
		};
		return (int)ps_lookup_rep_encode(&rep, reply, reply_max);
	}
	return -ENOENT;
}

static int fake_revoke(struct fake *f, uint32_t proc, const void *body, uint32_t len)
{
	if (mp_revoke_req_decode(body, len, &f->revoked))
		abort();
	f->nr_revokes++;
	f->revoked_by = proc;
	return f->revoke_error;
}

static int fake_call(struct memory *m, uint32_t peer, uint16_t opcode, const void *body,
		     uint32_t body_len, struct mpage *const *bulk, uint32_t nr_bulk, void *reply,
		     uint32_t reply_max)
{
	struct fake *f = m->net_arg;
	struct memory *to = fake_node(f, peer);
	uint8_t *data = NULL;
	bool fails;
	void *copy;
	int ret;

	__atomic_fetch_add(&f->nr_calls, 1, __ATOMIC_RELAXED);
	hold(f, opcode);
	fails = inject(f, opcode);
	if (fails && !f->fail_late)
		return f->fail_error;
	if (peer == FAKE_STORAGE && opcode == MS_LOOKUP)
		return storage_lookup(f, body, body_len, reply, reply_max);
	if (opcode == MP_OOM && f->oom)
		return f->oom(f, peer, body, body_len, reply);
	if (opcode == MP_REVOKE)
		return fake_revoke(f, peer, body, body_len);
	if (!to && !(peer == FAKE_STORAGE && is_fake_storage(opcode)))
		return -EHOSTDOWN;
	/* Exact copies, so that a sanitizer sees every byte read beyond the message. */
	copy = malloc(body_len ? body_len : 1);
	if (body_len)
		memcpy(copy, body, body_len);
	if (nr_bulk) {
		data = malloc(nr_bulk * PAGE_SIZE);
		for (uint32_t i = 0; i < nr_bulk; i++)
			memcpy(data + i * PAGE_SIZE, mpage_virt(&m->pool, bulk[i]), PAGE_SIZE);
	}
	ret = to ? memory_serve(to, m->node, opcode, copy, body_len, data,
				(uint32_t)(nr_bulk * PAGE_SIZE), reply, reply_max, NULL)
		 : fake_storage_serve(f, m->node, opcode, copy, body_len, data,
				      (uint32_t)(nr_bulk * PAGE_SIZE), reply);
	free(data);
	free(copy);
	return fails ? f->fail_error : ret;
}

uint8_t fake_byte(uint64_t ino, uint64_t offset)
{
	return (uint8_t)hash64_pair(ino, offset / 8) ^ (uint8_t)offset;
}

/* Serve an MS_READ as a storage node does: write whole pages, the last one's tail zeroed. */
static int storage_read(struct fake *f, const void *body, uint32_t len, struct ms_read_rep *rep)
{
	struct ms_read_req req;
	struct fake_file *file;
	int err = ms_read_req_decode(body, len, &req);

	if (err)
		return err;
	if (req.file.ino > FAKE_MAX_FILES)
		return -ESTALE;
	file = &f->files[req.file.ino - 1];
	*rep = (struct ms_read_rep){ .file_size = file->size, .version = file->version };
	for (uint32_t i = 0; i < req.nr_pages; i++) {
		const uint64_t pos = (req.pgoff + i) * PAGE_SIZE;
		uint8_t *dst = (uint8_t *)(uintptr_t)req.pages[i].addr;
		uint64_t n;

		if (pos >= file->size)
			break;
		n = MIN(file->size - pos, (uint64_t)PAGE_SIZE);
		for (uint64_t b = 0; b < n; b++)
			dst[b] =
				file->data ? file->data[pos + b] : fake_byte(req.file.ino, pos + b);
		memset(dst + n, 0, PAGE_SIZE - n);
		rep->nr_valid++;
		rep->last_bytes = (uint32_t)n;
	}
	return 0;
}

static void read_finish(struct page_cache_read *rd)
{
	struct fake *f = rd->m->net_arg;
	struct ms_read_rep rep;
	int err;

	mutex_lock(&f->disk_lock);
	err = f->read_error ? f->read_error : storage_read(f, rd->body, rd->body_len, &rep);
	mutex_unlock(&f->disk_lock);

	if (f->read_errors && --f->read_errors == 0)
		f->read_error = 0;
	if (!err)
		ms_read_rep_encode(&rep, &rd->reply);
	page_cache_read_done(rd, err, err ? 0 : sizeof(rd->reply));
	page_cache_read_release(rd);
}

static void read_thread(void *arg)
{
	struct page_cache_read *rd = arg;
	struct fake *f = rd->m->net_arg;

	do {
		thread_sleep_ns(200 * 1000);
	} while (__atomic_load_n(&f->read_held, __ATOMIC_ACQUIRE));
	read_finish(rd);
	__atomic_fetch_sub(&f->reading, 1, __ATOMIC_RELEASE);
}

static int fake_read(struct memory *m, struct page_cache_read *rd, bool prefetch, bool may_sleep)
{
	struct fake *f = m->net_arg;
	struct thread *t;

	__atomic_fetch_add(&f->nr_reads, 1, __ATOMIC_RELAXED);
	if (f->read_refused)
		return f->read_refused;
	if (!f->read_async) {
		read_finish(rd);
		return 0;
	}
	__atomic_fetch_add(&f->reading, 1, __ATOMIC_RELAXED);
	t = thread_create("read", read_thread, rd);
	if (IS_ERR(t)) {
		__atomic_fetch_sub(&f->reading, 1, __ATOMIC_RELAXED);
		return -ENOMEM;
	}
	thread_detach(t);
	return 0;
}

static int fake_storage_wait(struct memory *m, uint32_t node, int err)
{
	const struct fake *f = m->net_arg;

	return f->storage_away ? -EHOSTDOWN : 0;
}

static uint32_t fake_rkey(struct memory *m, uint32_t node, const struct mpage *page)
{
	return 0x1234;
}

static bool fake_has_left(struct memory *m, uint32_t node, uint32_t incarn)
{
	const struct fake *f = m->net_arg;

	return node == (f->left_node ? f->left_node : FAKE_PROC) && incarn == f->left_incarn;
}

static bool fake_is_processor(struct memory *m, uint32_t node)
{
	return node >= FAKE_PROC && node < FAKE_NO_PROC;
}

static int fake_vnode_check(struct memory *m, uint32_t vnode, uint32_t node, bool may_wait)
{
	const struct fake *f = m->net_arg;

	if (vnode == PROTO_VNODE_ROOT || (vnode == FAKE_VNODE && node == f->placed))
		return 0;
	return f->placements_unknown && !may_wait ? -EAGAIN : -EACCES;
}

static const struct memory_net fake_net = {
	.vnode_check = fake_vnode_check,
	.has_left = fake_has_left,
	.is_processor = fake_is_processor,
	.call = fake_call,
	.read = fake_read,
	.storage_wait = fake_storage_wait,
	.rkey = fake_rkey,
};

static bool fake_reclaim(void *arg)
{
	return page_cache_reclaim(arg);
}

static int fake_open(void *arg, struct extent *e)
{
	return 0;
}

static void fake_close(void *arg, struct extent *e)
{
}

static void fake_empty(void *arg, struct mpage *first, uint64_t nr)
{
	page_cache_empty(arg, first, nr);
}

static struct mpage *fake_oldest(void *arg)
{
	return page_cache_oldest(arg);
}

static int fake_lend(void *arg, struct extent *e, uint32_t *key)
{
	struct memory *m = arg;
	struct fake *f = m->net_arg;

	*key = ++f->nr_lent;
	return 0;
}

static int fake_revoke_places(void *arg, uint32_t proc, uint32_t number, bool below)
{
	return memory_revoke(arg, proc, number, below);
}

static const struct pool_ops fake_ops = {
	.reclaim = fake_reclaim,
	.open = fake_open,
	.close = fake_close,
	.empty = fake_empty,
	.oldest = fake_oldest,
	.lend = fake_lend,
	.take_back = fake_close,
	.revoke = fake_revoke_places,
};

/* Pages travel without the RPC layer here: see fetch_at() and proc_writeback(). */
enum rpc_handler_result msg_fetch(struct rpc_request *req, void *arg)
{
	abort();
}

enum rpc_handler_result msg_writeback(struct rpc_request *req, void *arg)
{
	abort();
}

enum rpc_handler_result msg_fetch_ahead(struct rpc_request *req, void *arg)
{
	abort();
}

enum rpc_handler_result msg_file_fetch(struct rpc_request *req, void *arg)
{
	abort();
}

/* --- cluster --------------------------------------------------------------------------- */

uint64_t fake_extent_pages = 1;

void fake_start(struct fake *f, size_t nr, uint64_t frames, uint32_t shift)
{
	uint32_t nodes[FAKE_MEM_MAX];

	memset(f, 0, sizeof(*f));
	mutex_init(&f->disk_lock, "fake_disk", RANK_FS);
	f->nr_mem = nr;
	for (size_t i = 0; i < nr; i++)
		nodes[i] = FAKE_MEM_FIRST + (uint32_t)i;
	for (size_t i = 0; i < nr; i++) {
		struct pool_run runs[2];
		struct memory_config cfg = {
			.node = nodes[i],
			.vregion_shift = shift,
			.file_key = &file_key,
			.net = &fake_net,
			.net_arg = f,
			.runs = runs,
			.nr_runs = 2,
			.extent_pages = fake_extent_pages,
			.file_min = frames / 16,
			.ops = &fake_ops,
			.kernel_max = UINT64_MAX,
			.policy = { .mode = PM_COMMIT_STRICT, .ratio = 100 },
		};

		f->arena[i] = aligned_alloc(PAGE_SIZE, frames * PAGE_SIZE);
		runs[0] = (struct pool_run){ .virt = f->arena[i],
					     .paddr = (uintptr_t)f->arena[i],
					     .nr_pages = frames / 2 };
		runs[1] =
			(struct pool_run){ .virt = (uint8_t *)f->arena[i] + frames / 2 * PAGE_SIZE,
					   .paddr = (uintptr_t)f->arena[i] + frames / 2 * PAGE_SIZE,
					   .nr_pages = frames - frames / 2 };
		if (memory_init(&f->mem[i], &cfg) || memory_set_nodes(&f->mem[i], nodes, nr))
			abort();
	}
	for (size_t i = 0; i < nr; i++)
		(void)memory_ask_nodes(&f->mem[i]);
}

bool fake_stop(struct fake *f)
{
	bool clean = true;

	/* One that has answered has its references still. */
	while (__atomic_load_n(&f->reading, __ATOMIC_ACQUIRE))
		thread_sleep_ns(100 * 1000);
	for (size_t i = 0; i < f->nr_mem; i++) {
		struct memory *m = &f->mem[i];
		struct owner_counts counts;
		struct pool_stats stats;
		uint64_t kernel = 0;

		for (uint32_t proc = FAKE_PROC; proc < FAKE_MEM_FIRST; proc++)
			kernel += pool_kernel_bytes(&m->pool, proc);
		file_live_drop_all(m);
		(void)page_cache_drop_all(m);
		owner_counts(m, &counts);
		pool_stats(&m->pool, &stats);
		if (counts.regions || counts.spaces || counts.pages || stats.used || stats.file ||
		    stats.committed || kernel || m->home.nr_spaces || m->page_cache.nr_files ||
		    stats.zero + stats.dirty != stats.total) {
			fprintf(stderr,
				"node %u keeps %lu regions %lu spaces %lu pages, %lu used %lu file "
				"%lu committed, %lu of %lu free, %lu homes, %lu files, %lu bytes\n",
				m->node, counts.regions, counts.spaces, counts.pages, stats.used,
				stats.file, stats.committed, stats.zero + stats.dirty, stats.total,
				m->home.nr_spaces, m->page_cache.nr_files, kernel);
			clean = false;
		}
		memory_destroy(m);
		free(f->arena[i]);
	}
	fake_storage_stop(f);
	return clean;
}

/* --- processor ------------------------------------------------------------------------- */

void proc_init(struct fake_proc *p, struct fake *f, uint64_t aspace, uint32_t home)
{
	memset(p, 0, sizeof(*p));
	p->f = f;
	p->aspace = aspace;
	p->home = home;
	p->proc = FAKE_PROC;
	p->vnode = PROTO_VNODE_ROOT;
	p->shift = f->mem[0].vregion_shift;
}

void proc_done(struct fake_proc *p)
{
	free(p->owners);
}

int proc_space(struct fake_proc *p)
{
	struct home_space *as = home_space_create(fake_node(p->f, p->home), p->aspace, p->proc,
						  p->vnode, SPACE_MAPPED, 0);

	if (IS_ERR(as))
		return (int)PTR_ERR(as);
	as->mmap_top = PM_USER_TOP - (1ull << 30);
	as->brk_start = as->brk = 0x10000000;
	as->brk_max = as->brk_start + (1ull << 30);
	home_space_unlock(as);
	return 0;
}

static void learn(struct fake_proc *p, const struct pm_vregion *vr)
{
	for (size_t i = 0; i < p->nr_owners; i++) {
		if (p->owners[i].index == vr->index) {
			p->owners[i].node = vr->owner;
			return;
		}
	}
	p->owners = realloc(p->owners, (p->nr_owners + 1) * sizeof(*p->owners));
	p->owners[p->nr_owners++] = (struct fake_owner){ vr->index, vr->owner };
}

/* An address space call: returns 0 or the errno, with the vRegions learnt. */
static int range_call_grants(struct fake_proc *p, uint16_t opcode, const void *body, uint32_t len,
			     uint64_t *addr, uint32_t *frames)
{
	struct pm_range_rep *rep = malloc(sizeof(*rep));
	uint8_t *buf = malloc(16384);
	int ret;

	ret = memory_serve(fake_node(p->f, p->home), p->proc, opcode, body, len, NULL, 0, buf,
			   16384, NULL);
	if (ret >= 0)
		ret = pm_range_rep_decode(buf, (size_t)ret, rep);
	if (!ret) {
		for (uint16_t i = 0; i < rep->nr_vregions; i++)
			learn(p, &rep->vregions[i]);
		if (addr)
			*addr = rep->addr;
		for (uint16_t i = 0; i < rep->nr_grants && frames; i++)
			*frames += rep->grants[i].frames;
	}
	free(buf);
	free(rep);
	return ret;
}

static int range_call(struct fake_proc *p, uint16_t opcode, const void *body, uint32_t len,
		      uint64_t *addr)
{
	return range_call_grants(p, opcode, body, len, addr, NULL);
}

int proc_mmap(struct fake_proc *p, uint64_t addr, uint64_t len, uint32_t prot, uint32_t flags,
	      uint64_t *out)
{
	const struct pm_mmap_req req = {
		.aspace = p->aspace, .addr = addr, .len = len, .prot = prot, .flags = flags
	};
	struct pm_mmap_req_wire w;

	pm_mmap_req_encode(&req, &w);
	return range_call(p, PM_MMAP, &w, sizeof(w), out);
}

int proc_munmap(struct fake_proc *p, uint64_t addr, uint64_t len)
{
	const struct pm_range_req req = { .aspace = p->aspace, .addr = addr, .len = len };
	struct pm_range_req_wire w;

	pm_range_req_encode(&req, &w);
	return range_call(p, PM_MUNMAP, &w, sizeof(w), NULL);
}

int proc_range_lease(struct fake_proc *p, uint16_t opcode, uint64_t addr, uint64_t len,
		     uint32_t prot, uint32_t pages)
{
	const struct pm_range_req req = {
		.aspace = p->aspace, .addr = addr, .len = len, .prot = prot, .lease_pages = pages
	};
	struct pm_range_req_wire w;

	pm_range_req_encode(&req, &w);
	return range_call(p, opcode, &w, sizeof(w), NULL);
}

int proc_mprotect(struct fake_proc *p, uint64_t addr, uint64_t len, uint32_t prot)
{
	return proc_range_lease(p, PM_MPROTECT, addr, len, prot, 0);
}

static uint64_t next_seq(struct fake_proc *p)
{
	return __atomic_add_fetch(&p->f->seq, 1, __ATOMIC_RELAXED);
}

int proc_mremap(struct fake_proc *p, uint64_t addr, uint64_t old_len, uint64_t new_len,
		uint32_t flags, uint64_t new_addr, uint64_t *out)
{
	const struct pm_mremap_req req = { .aspace = p->aspace,
					   .old_addr = addr,
					   .old_len = old_len,
					   .new_len = new_len,
					   .new_addr = new_addr,
					   .flags = flags,
					   .seq = flags & PM_MREMAP_MAYMOVE ? next_seq(p) : 0 };
	struct pm_mremap_req_wire w;

	pm_mremap_req_encode(&req, &w);
	return range_call(p, PM_MREMAP, &w, sizeof(w), out);
}

int proc_brk(struct fake_proc *p, uint64_t brk, uint64_t *out)
{
	const struct pm_brk_req req = { .aspace = p->aspace, .brk = brk };
	struct pm_brk_req_wire w;

	pm_brk_req_encode(&req, &w);
	return range_call(p, PM_BRK, &w, sizeof(w), out);
}

int proc_mmap_lease(struct fake_proc *p, uint64_t addr, uint64_t len, uint32_t pages, uint64_t *out,
		    bool *leased)
{
	return proc_mmap_lease_at(p, addr, len, pages, 0, out, leased);
}

int proc_mmap_lease_at(struct fake_proc *p, uint64_t addr, uint64_t len, uint32_t pages,
		       uint32_t flags, uint64_t *out, bool *leased)
{
	const struct pm_mmap_req req = { .aspace = p->aspace,
					 .addr = addr,
					 .len = len,
					 .prot = PM_PROT_READ | PM_PROT_WRITE,
					 .flags = flags,
					 .lease_pages = pages };
	struct pm_mmap_req_wire w;
	struct pm_vma v;
	int err;

	pm_mmap_req_encode(&req, &w);
	err = range_call(p, PM_MMAP, &w, sizeof(w), out);
	if (!err)
		*leased = !proc_fill_vma(p, *out, &v) && (v.flags & PM_VMA_LEASE);
	return err;
}

int proc_brk_lease(struct fake_proc *p, uint64_t brk, uint32_t pages, uint64_t *out)
{
	const struct pm_brk_req req = { .aspace = p->aspace, .brk = brk, .lease_pages = pages };
	struct pm_brk_req_wire w;

	pm_brk_req_encode(&req, &w);
	return range_call(p, PM_BRK, &w, sizeof(w), out);
}

int proc_lease(struct fake_proc *p, uint64_t number, const struct pm_lease_range *ranges,
	       uint32_t nr, uint64_t *done)
{
	static struct pm_lease_req req;
	static uint8_t body[4096];
	ssize_t len;

	req.aspace = p->aspace;
	req.number = number;
	req.nr_ranges = nr;
	memcpy(req.ranges, ranges, nr * sizeof(*ranges));
	len = pm_lease_req_encode(&req, body, sizeof(body));
	return len < 0 ? (int)len : range_call(p, PM_LEASE, body, (uint32_t)len, done);
}

int proc_destroy(struct fake_proc *p)
{
	struct pm_destroy_req_wire w;

	pm_destroy_req_encode(p->aspace, &w);
	return memory_serve(fake_node(p->f, p->home), p->proc, PM_DESTROY, &w, sizeof(w), NULL, 0,
			    NULL, 0, NULL);
}

int proc_mmap_object(struct fake_proc *p, uint64_t addr, uint64_t len, uint32_t prot,
		     uint32_t flags, uint64_t object, uint64_t pgoff, uint64_t *out)
{
	const struct pm_mmap_req req = { .aspace = p->aspace,
					 .addr = addr,
					 .len = len,
					 .pgoff = pgoff,
					 .object = object,
					 .prot = prot,
					 .flags = flags };
	struct pm_mmap_req_wire w;

	pm_mmap_req_encode(&req, &w);
	return range_call(p, PM_MMAP, &w, sizeof(w), out);
}

static void learn_all(struct fake_proc *p, const struct fake_proc *from)
{
	for (size_t i = 0; i < from->nr_owners; i++)
		learn(p, &(struct pm_vregion){ .index = from->owners[i].index,
					       .owner = from->owners[i].node });
}

int proc_fork(struct fake_proc *p, struct fake_proc *parent, struct fake_proc *child)
{
	uint32_t got;

	return proc_fork_credits(p, parent, child, 0, &got);
}

int proc_fork_credits(struct fake_proc *p, struct fake_proc *parent, struct fake_proc *child,
		      uint32_t want, uint32_t *got)
{
	const struct pm_fork_req req = { .aspace = p->aspace,
					 .parent = parent->aspace,
					 .child = child->aspace,
					 .want_credits = want };
	struct pm_fork_req_wire w;
	int err;

	*got = 0;
	pm_fork_req_encode(&req, &w);
	err = range_call_grants(p, PM_FORK, &w, sizeof(w), NULL, got);
	if (!err) {
		learn_all(parent, p);
		learn_all(child, p);
	}
	return err;
}

/* A request without a reply body, in an exact copy. */
static int plain_call(struct fake_proc *p, uint16_t opcode, const void *body, ssize_t len)
{
	void *copy = malloc((size_t)len);
	int ret;

	memcpy(copy, body, (size_t)len);
	ret = memory_serve(fake_node(p->f, p->home), p->proc, opcode, copy, (uint32_t)len, NULL, 0,
			   NULL, 0, NULL);
	free(copy);
	return ret;
}

int proc_collapse(struct fake_proc *from, struct fake_proc *into,
		  const struct pm_page_range *ranges, uint32_t nr)
{
	static struct pm_collapse_req req;
	static uint8_t body[8192];

	req.from = from->aspace;
	req.into = into->aspace;
	req.nr_ranges = nr;
	if (nr)
		memcpy(req.ranges, ranges, nr * sizeof(*ranges));
	return plain_call(from, PM_COLLAPSE, body,
			  pm_collapse_req_encode(&req, body, sizeof(body)));
}

int proc_discard(struct fake_proc *p, const struct pm_page_range *ranges, uint32_t nr)
{
	static struct pm_discard_req req;
	static uint8_t body[8192];

	req.aspace = p->aspace;
	req.nr_ranges = nr;
	memcpy(req.ranges, ranges, nr * sizeof(*ranges));
	return plain_call(p, PM_DISCARD, body, pm_discard_req_encode(&req, body, sizeof(body)));
}

int proc_object(struct fake_proc *p, uint64_t len, uint32_t flags)
{
	const struct pm_space_req req = {
		.aspace = p->aspace, .len = len, .flags = flags, .vnode = p->vnode
	};
	struct pm_space_req_wire w;
	uint64_t size = 0;
	int err;

	pm_space_req_encode(&req, &w);
	err = range_call(p, PM_SPACE, &w, sizeof(w), &size);
	return !err && size != 1ull << p->shift ? -EPROTO : err;
}

int proc_activate(struct fake_proc *p, uint64_t first, uint32_t count, uint32_t want, uint32_t *got)
{
	const struct pm_vregions_req req = { .aspace = p->aspace,
					     .first = first,
					     .count = count,
					     .flags = PM_VREGIONS_ACTIVATE,
					     .want_credits = want };
	struct pm_vregions_req_wire w;

	*got = 0;
	pm_vregions_req_encode(&req, &w);
	return range_call_grants(p, PM_VREGIONS, &w, sizeof(w), NULL, got);
}

int proc_credit(struct fake_proc *p, uint32_t node, uint32_t hold, uint32_t want, uint32_t *now)
{
	const struct pm_credit_req req = { ++p->f->nr_reports, hold, want };
	struct pm_credit_req_wire w;
	struct pm_credit_rep_wire gw;
	struct pm_credit_rep rep;
	int ret;

	pm_credit_req_encode(&req, &w);
	ret = memory_serve(fake_node(p->f, node), p->proc, PM_CREDIT, &w, sizeof(w), NULL, 0, &gw,
			   sizeof(gw), NULL);
	if (ret >= 0)
		ret = pm_credit_rep_decode(&gw, (size_t)ret, &rep);
	if (!ret)
		*now = rep.frames;
	return ret;
}

static struct memory *owner_of(struct fake_proc *p, uint64_t vaddr)
{
	for (size_t i = 0; i < p->nr_owners; i++)
		if (p->owners[i].index == vaddr >> p->shift)
			return fake_node(p->f, p->owners[i].node);
	return fake_node(p->f, p->home);
}

int proc_fill_vma(struct fake_proc *p, uint64_t vaddr, struct pm_vma *out)
{
	const struct pm_fill_vma_req req = { p->aspace, vaddr };
	struct pm_fill_vma_req_wire w;
	struct pm_vma_wire vw;
	int ret;

	pm_fill_vma_req_encode(&req, &w);
	ret = memory_serve(owner_of(p, vaddr), p->proc, PM_FILL_VMA, &w, sizeof(w), NULL, 0, &vw,
			   sizeof(vw), NULL);
	return ret < 0 ? ret : pm_fill_vma_rep_decode(&vw, (size_t)ret, out);
}

/* Inline first, as the RPC layer does, and then where it may sleep. */
static int fetch_at(uint32_t proc, struct memory *m, const struct pm_fetch_req *req, void *data,
		    struct pm_fetch_rep *rep, struct pm_vregion *redirect)
{
	struct mpage *page;
	int err = owner_fetch(m, proc, req, NULL, false, rep, &page, redirect, NULL);

	if (err == -EAGAIN)
		err = owner_fetch(m, proc, req, NULL, true, rep, &page, redirect, NULL);
	if (!err && page) {
		if (data)
			memcpy(data, mpage_virt(&m->pool, page), PAGE_SIZE);
		mpage_put(&m->pool, page);
	}
	return err;
}

int proc_fetch(struct fake_proc *p, uint64_t vaddr, bool write, void *data)
{
	const struct pm_fetch_req req = {
		.aspace = p->aspace,
		.vaddr = vaddr,
		.flags = write ? PM_FETCH_WRITE : 0,
	};
	struct pm_vregion redirect;
	struct pm_fetch_rep rep;
	int err;

	while ((err = fetch_at(p->proc, owner_of(p, vaddr), &req, data, &rep, &redirect)) ==
	       -EREMCHG) {
		learn(p, &redirect);
		p->redirects++;
	}
	return err ? err : (int)rep.result;
}

/* The processor asks the home when a write-back is told that the page has moved. */
int proc_refresh(struct fake_proc *p, uint64_t vaddr)
{
	const struct pm_vregions_req req = { .aspace = p->aspace,
					     .first = vaddr >> p->shift,
					     .count = 1 };
	struct pm_vregions_req_wire w;

	pm_vregions_req_encode(&req, &w);
	return range_call(p, PM_VREGIONS, &w, sizeof(w), NULL);
}

int proc_writeback(struct fake_proc *p, uint64_t vaddr, const void *data)
{
	const struct pm_writeback_req req = {
		.aspace = p->aspace,
		.nr_pages = 1,
		.pages = { { vaddr, next_seq(p) } },
	};
	struct pm_writeback_rep rep;
	int err;

	for (;;) {
		struct memory *m = owner_of(p, vaddr);

		err = owner_writeback(m, p->proc, &req, data, false, &rep, NULL);
		if (err == -EAGAIN)
			err = owner_writeback(m, p->proc, &req, data, true, &rep, NULL);
		if (err)
			return err;
		if (rep.pages[0].status != -EREMCHG)
			return rep.pages[0].status;
		p->redirects++;
		err = proc_refresh(p, vaddr);
		if (err)
			return err;
	}
}

void page_stamp(void *data, uint64_t value)
{
	uint64_t *w = data;

	for (size_t i = 0; i < PAGE_SIZE / sizeof(*w); i++)
		w[i] = value;
}

uint64_t page_value(const void *data)
{
	const uint64_t *w = data;

	for (size_t i = 1; i < PAGE_SIZE / sizeof(*w); i++)
		if (w[i] != w[0])
			return UINT64_MAX;
	return w[0];
}
