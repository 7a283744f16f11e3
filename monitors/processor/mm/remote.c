/* SPDX-License-Identifier: MIT */
/*
 * Requests to the home and the owners of an address space.
 *
 * Flow:	encode, call in the control class, decode the hostile reply, enter what it says about
 *		vmas, vRegions and credits into the copies.
 * Failure:	a reply that cannot be entered for lack of memory is not an error: what is missing is
 *		asked for again when it is needed.
 */
#define PR_FMT "remote: "

#include "remote.h"

#include <kernel/counter.h>
#include <kernel/printk.h>
#include <lib/err.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <net/rpc.h>
#include <processor/client/storage.h>
#include <processor/excache/credit.h>

#define MOVED_MAX 16 /* redirects of one request */

COUNTER(remote_calls, "process.memory_calls", "requests about address spaces (mmap and its kin)");
COUNTER(fork_messages, "fork.messages", "requests for forks, merges and discarded pages");

/* A reply buffer of the control class, too large for a stack. */
struct reply {
	uint8_t body[RPC_BODY_MAX_CTL];
	union {
		struct pm_range_rep range;
		struct pm_exec_rep exec;
	};
};

static int call_once(uint32_t node, uint16_t opcode, const void *body, size_t len, void *reply,
		     size_t max)
{
	counter_inc(&remote_calls);
	return rpc_call_sync(node, RPC_CLASS_CONTROL, opcode, body, (uint32_t)len, reply,
			     (uint32_t)max, 0);
}

static int call(uint32_t node, uint16_t opcode, const void *body, size_t len, void *reply,
		size_t max)
{
	const int ret = call_once(node, opcode, body, len, reply, max);

	/* What is missing may be promised to spaces that have ended: the refusal would be a lie. */
	return ret == -ENOMEM && retire_drain() ? call_once(node, opcode, body, len, reply, max)
						: ret;
}

/* The object behind a file vma: one that we have, or @hint, or made from the file's attributes. */
static struct object *vma_object(struct aspace *as, const struct pm_vma *v, struct object *hint)
{
	struct proto_attr attr;
	struct object *obj;
	int err;

	if (hint && hint->kind == OBJECT_FILE && hint->file.ino == v->file.ino &&
	    hint->file.gen == v->file.gen && hint->file.node == v->file.node) {
		object_get(hint);
		return hint;
	}
	obj = aspace_file_object(as, &v->file);
	if (obj)
		return obj;
	err = storage_getattr(&v->file, &attr);
	return err ? ERR_PTR(err) : object_file_get(&attr);
}

/* The shared object of a vma, which is alive as long as the mapping; NULL: a confused home. */
static struct object *shared_object(const struct pm_vma *v, struct object *hint)
{
	if (!hint || hint->kind != OBJECT_SHARED || hint->id != v->object)
		return object_shared_find(v->object);
	object_get(hint);
	return hint;
}

static int enter_vma(struct aspace *as, const struct pm_vma *v, struct object *hint, uint64_t seq)
{
	struct object *obj = NULL;
	int err;

	if (v->flags & PM_VMA_OBJECT) {
		obj = shared_object(v, hint);
		if (!obj)
			return -ESTALE;
	} else if (v->flags & PM_VMA_FILE) {
		obj = vma_object(as, v, hint);
		if (IS_ERR(obj))
			return PTR_ERR(obj);
	}
	err = aspace_set_vma_at(as, v, obj, seq);
	if (obj)
		object_put(obj);
	return err;
}

static void enter_vregions(struct object *obj, const struct pm_vregion *v, size_t nr)
{
	for (size_t i = 0; i < nr; i++) {
		if (object_set_vregion(obj, &v[i]) < 0)
			return; /* asked for again when needed */
	}
}

static void enter_grants(const struct pm_grant *g, size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		credit_add(g[i].node, g[i].frames);
}

/* Enter what a range reply of @len bytes, or an error, in @r says about vRegions and credits. */
static int take_range_reply(struct object *obj, int len, struct reply *r)
{
	int err = len;

	if (len >= 0)
		err = pm_range_rep_decode(r->body, (size_t)len, &r->range);
	if (err)
		return err;
	enter_vregions(obj, r->range.vregions, r->range.nr_vregions);
	enter_grants(r->range.grants, r->range.nr_grants);
	return 0;
}

/* One call to the home of @obj that is answered with a range reply, which is kmalloc()ed and taken. */
static int range_reply(struct object *obj, uint16_t opcode, const void *body, size_t body_len,
		       struct reply **out)
{
	struct reply *r = kmalloc(sizeof(*r));
	int err;

	if (!r)
		return -ENOMEM;
	err = take_range_reply(
		obj, call(obj->home, opcode, body, body_len, r->body, sizeof(r->body)), r);
	if (err) {
		kfree(r);
		return err;
	}
	*out = r;
	return 0;
}

/* The same for a call that changes the layout of @as: the vmas of the reply are entered. */
static int range_call(struct aspace *as, uint16_t opcode, const void *body, size_t body_len,
		      struct object *hint, vaddr_t *addr)
{
	struct reply *r;
	const int err = range_reply(as->anon, opcode, body, body_len, &r);

	if (err)
		return err;
	if (addr)
		*addr = r->range.addr;
	for (size_t i = 0; i < r->range.nr_vmas; i++)
		(void)enter_vma(as, &r->range.vmas[i], hint, SEQ_ANY);
	kfree(r);
	return 0;
}

static bool is_file(const struct pm_vma *v, const struct proto_attr *attr)
{
	return (v->flags & PM_VMA_FILE) && v->file.ino == attr->file.ino &&
	       v->file.gen == attr->file.gen && v->file.node == attr->file.node;
}

/* The vmas of a new program.  The versions of its files have come with the answers: nobody is asked. */
static void enter_program(struct aspace *as, const struct exec_program *prog,
			  const struct pm_exec_rep *rep)
{
	for (size_t i = 0; i < rep->nr_vmas; i++) {
		const struct pm_vma *v = &rep->vmas[i];
		struct object *hint = NULL;

		if (prog->attr && is_file(v, prog->attr))
			hint = object_file_get(prog->attr);
		else if ((rep->flags & PM_EXEC_INTERP) && is_file(v, &rep->interp))
			hint = object_file_get(&rep->interp);
		if (IS_ERR(hint))
			hint = NULL;
		(void)enter_vma(as, v, hint, SEQ_ANY);
		if ((v->flags & PM_VMA_FILE) && !(v->prot & PM_PROT_WRITE))
			aspace_set_vma_flags(as, v->start, v->end, VMA_PRISTINE);
		if (hint)
			object_put(hint);
	}
}

int remote_exec(struct aspace *as, const struct exec_program *prog, const struct proto_cred *cred,
		uint64_t stack_size, uint64_t random_seed, struct pm_exec_rep **rep)
{
	const struct pm_exec_req req = {
		.aspace = aspace_id(as),
		.file = prog->attr ? prog->attr->file : (struct proto_file){ 0 },
		.stack_size = stack_size,
		.random_seed = random_seed,
		.cred = *cred,
		.want_credits = credit_want(aspace_home(as)),
		.object = prog->object ? prog->object->id : 0,
		.storage = prog->storage,
		.head_len = prog->head_len,
		.head = prog->head,
	};
	const size_t cap = sizeof(struct pm_exec_req_wire) + PROTO_MAX_GROUPS * sizeof(le32_t) +
			   PM_EXEC_HEAD_MAX;
	void *body = kmalloc(cap);
	const ssize_t len = body ? pm_exec_req_encode(&req, body, cap) : -ENOMEM;
	struct reply *r = kmalloc(sizeof(*r));
	int ret;

	*rep = kmalloc(sizeof(**rep));
	ret = len < 0 ? (int)len : !r || !*rep ? -ENOMEM : 0;
	if (!ret) {
		ret = call(aspace_home(as), PM_EXEC, body, (size_t)len, r->body, sizeof(r->body));
		if (ret >= 0)
			ret = pm_exec_rep_decode(r->body, (size_t)ret, *rep);
		/* No answer that makes sense: the home may have made the space all the same. */
		if (ret == -ETIMEDOUT || ret == -EPROTO || ret == -EMSGSIZE)
			remote_destroy(as->anon);
	}
	kfree(r);
	kfree(body);
	if (ret) {
		kfree(*rep);
		*rep = NULL;
		return ret;
	}
	as->anon->vregion_size = (*rep)->vregion_size;
	enter_vregions(as->anon, (*rep)->vregions, (*rep)->nr_vregions);
	enter_grants((*rep)->grants, (*rep)->nr_grants);
	enter_program(as, prog, *rep);
	return 0;
}

int remote_mmap(struct aspace *as, const struct pm_mmap_req *req, struct object *file,
		vaddr_t *addr)
{
	struct pm_mmap_req_wire w;

	pm_mmap_req_encode(req, &w);
	return range_call(as, PM_MMAP, &w, sizeof(w), file, addr);
}

static int range_simple(struct aspace *as, uint16_t opcode, vaddr_t start, uint64_t len,
			uint32_t prot)
{
	const struct pm_range_req req = {
		.aspace = aspace_id(as), .addr = start, .len = len, .prot = prot
	};
	struct pm_range_req_wire w;

	pm_range_req_encode(&req, &w);
	return range_call(as, opcode, &w, sizeof(w), NULL, NULL);
}

int remote_munmap(struct aspace *as, vaddr_t start, uint64_t len)
{
	return range_simple(as, PM_MUNMAP, start, len, 0);
}

int remote_mprotect(struct aspace *as, vaddr_t start, uint64_t len, uint32_t prot)
{
	return range_simple(as, PM_MPROTECT, start, len, prot);
}

int remote_mremap(struct aspace *as, const struct pm_mremap_req *req, vaddr_t *addr)
{
	struct pm_mremap_req_wire w;

	pm_mremap_req_encode(req, &w);
	return range_call(as, PM_MREMAP, &w, sizeof(w), NULL, addr);
}

int remote_brk(struct aspace *as, vaddr_t want, vaddr_t *brk)
{
	const struct pm_brk_req req = { .aspace = aspace_id(as), .brk = want };
	struct pm_brk_req_wire w;
	int err;

	pm_brk_req_encode(&req, &w);
	err = range_call(as, PM_BRK, &w, sizeof(w), NULL, brk);
	/* Memory is short, it says: see call(). */
	if (!err && *brk < want && retire_drain())
		err = range_call(as, PM_BRK, &w, sizeof(w), NULL, brk);
	return err;
}

int remote_vregions(struct object *obj, uint64_t first, uint32_t count)
{
	struct pm_vregions_req req = { .aspace = obj->id, .first = first, .count = count };
	struct pm_vregions_req_wire w;
	struct reply *r;
	int err;

	/* Nobody maps a shared object's vRegion before a page of it is needed. */
	if (obj->kind == OBJECT_SHARED) {
		req.flags = PM_VREGIONS_ACTIVATE;
		req.want_credits = credit_want(obj->home);
	}
	pm_vregions_req_encode(&req, &w);
	err = range_reply(obj, PM_VREGIONS, &w, sizeof(w), &r);
	if (!err)
		kfree(r);
	return err;
}

#define SAY_AGAIN 3 /* times that a call without an answer is repeated, if a repetition can tell */

void remote_destroy_many(uint32_t home, const uint64_t *ids, uint32_t nr)
{
	struct pm_destroy_req_wire w[PM_DESTROY_MAX];
	int ret = -ETIMEDOUT;

	pm_destroy_list_encode(ids, nr, w);
	for (unsigned int tries = 0; ret == -ETIMEDOUT && tries < SAY_AGAIN; tries++)
		ret = call_once(home, PM_DESTROY, w, nr * sizeof(w[0]), NULL, 0);
	if (ret < 0)
		pr_warn("space %#llx and %u more: the home (node %u) did not free them: error %d\n",
			(unsigned long long)ids[0], nr - 1, home, ret);
}

void remote_destroy(struct object *obj)
{
	remote_destroy_many(obj->home, &obj->id, 1);
}

/* A call without a reply body. */
static int plain_call(struct object *obj, uint16_t opcode, const void *body, size_t len)
{
	const int ret = call(obj->home, opcode, body, len, NULL, 0);

	counter_inc(&fork_messages);
	return ret > 0 ? -EPROTO : ret;
}

void remote_fork_begin(struct remote_fork *f, struct object *from, struct object *parent,
		       struct object *child)
{
	const struct pm_fork_req req = {
		.aspace = from->id,
		.parent = parent->id,
		.child = child->id,
		.want_credits = credit_want(from->home),
	};
	struct reply *r = kmalloc(sizeof(*r));

	*f = (struct remote_fork){ .from = from, .parent = parent, .child = child, .reply = r };
	pm_fork_req_encode(&req, &f->body);
	f->call = r ? rpc_call_alloc() : NULL;
	if (!f->call)
		return;
	f->call->peer = from->home;
	f->call->cls = RPC_CLASS_CONTROL;
	f->call->opcode = PM_FORK;
	f->call->body = &f->body;
	f->call->body_len = sizeof(f->body);
	f->call->reply = r->body;
	f->call->reply_max = sizeof(r->body);
	if (!rpc_call_submit(f->call)) {
		counter_inc(&remote_calls);
		counter_inc(&fork_messages);
		return;
	}
	rpc_call_put(f->call); /* no slot is free at the moment: remote_fork_end() waits for one */
	f->call = NULL;
}

/* The answer to what was sent; -EAGAIN: nothing was. */
static int fork_answer(struct remote_fork *f)
{
	int ret;

	if (!f->call)
		return -EAGAIN;
	ret = rpc_call_wait(f->call);
	if (!ret)
		ret = (int)f->call->reply_len;
	rpc_call_put(f->call);
	return take_range_reply(f->from, ret, f->reply);
}

int remote_fork_end(struct remote_fork *f)
{
	struct reply *r = f->reply;
	int err = fork_answer(f);

	/* With the same names it is the same fork: said again until we know. */
	for (unsigned int tries = 0; tries < SAY_AGAIN; tries++) {
		if (err != -EAGAIN && err != -ETIMEDOUT && !(err == -ENOMEM && retire_drain()))
			break;
		kfree(r);
		r = NULL;
		counter_inc(&fork_messages);
		err = range_reply(f->from, PM_FORK, &f->body, sizeof(f->body), &r);
	}
	if (!err) {
		f->parent->vregion_size = f->child->vregion_size = f->from->vregion_size;
		enter_vregions(f->parent, r->range.vregions, r->range.nr_vregions);
		enter_vregions(f->child, r->range.vregions, r->range.nr_vregions);
	}
	kfree(r);
	return err;
}

int remote_space(struct object *obj, uint64_t len)
{
	const struct pm_space_req req = {
		.aspace = obj->id,
		.len = len,
		.flags = obj->reserved ? PM_SPACE_RESERVE : 0,
		.want_credits = credit_want(obj->home),
	};
	struct pm_space_req_wire w;
	struct reply *r;
	uint64_t size;
	int err;

	pm_space_req_encode(&req, &w);
	err = range_reply(obj, PM_SPACE, &w, sizeof(w), &r);
	if (err) {
		/* No answer that makes sense: the home may have made it all the same. */
		if (err == -ETIMEDOUT || err == -EPROTO || err == -EMSGSIZE)
			remote_destroy(obj);
		return err;
	}
	size = r->range.addr;
	kfree(r);
	if (size < PM_VREGION_MIN || size > PM_VREGION_MAX || (size & (size - 1))) {
		remote_destroy(obj);
		return -EPROTO;
	}
	WRITE_ONCE(obj->vregion_size, size);
	return 0;
}

int remote_merge(struct object *from, const struct pm_merge_req *req)
{
	const size_t cap = sizeof(struct pm_merge_req_wire) +
			   PM_DISCARD_MAX_RANGES * sizeof(struct pm_page_range_wire);
	void *body = kmalloc(cap);
	ssize_t len = body ? pm_merge_req_encode(req, body, cap) : -ENOMEM;
	int err = -ETIMEDOUT;
	unsigned int tries;

	if (len < 0) {
		kfree(body);
		return (int)len;
	}
	for (tries = 0; err == -ETIMEDOUT && tries < SAY_AGAIN; tries++)
		err = plain_call(from, PM_MERGE, body, (size_t)len);
	kfree(body);
	/* It was done, but the answer did not come. */
	return err == -ESRCH && tries > 1 ? 0 : err;
}

int remote_discard(struct object *obj, const struct pm_page_range *ranges, uint32_t nr)
{
	const size_t cap = sizeof(struct pm_discard_req_wire) +
			   PM_DISCARD_MAX_RANGES * sizeof(struct pm_page_range_wire);
	struct pm_discard_req *req = kmalloc(sizeof(*req));
	void *body = kmalloc(cap);
	int ret = -ENOMEM;

	if (req && body) {
		ssize_t len;

		req->aspace = obj->id;
		req->nr_ranges = nr;
		memcpy(req->ranges, ranges, nr * sizeof(*ranges));
		len = pm_discard_req_encode(req, body, cap);
		ret = len < 0 ? (int)len : plain_call(obj, PM_DISCARD, body, (size_t)len);
	}
	kfree(body);
	kfree(req);
	return ret;
}

int remote_fill_vma(struct aspace *as, vaddr_t addr, uint64_t seq)
{
	const struct pm_fill_vma_req req = { .aspace = aspace_id(as),
					     .vaddr = addr & ~(vaddr_t)(PAGE_SIZE - 1) };
	struct pm_fill_vma_req_wire w;
	uint8_t reply[sizeof(struct pm_vma_wire)];
	struct pm_vma vma;
	uint32_t owner;
	int ret;

	static_assert(sizeof(struct pm_moved_wire) <= sizeof(struct pm_vma_wire), "moved fits");
	pm_fill_vma_req_encode(&req, &w);
	for (unsigned int tries = 0;; tries++) {
		ret = object_owner(as->anon, addr >> PAGE_SHIFT, &owner);
		if (ret)
			return ret;
		ret = rpc_call_sync(owner, RPC_CLASS_DEMAND, PM_FILL_VMA, &w, sizeof(w), reply,
				    sizeof(reply), 0);
		if (ret != -EREMCHG)
			break;
		if (tries == MOVED_MAX)
			return -ELOOP; /* the home and the owners disagree */
		object_forget_owner(as->anon, addr >> PAGE_SHIFT);
	}
	if (ret >= 0)
		ret = pm_fill_vma_rep_decode(reply, (size_t)ret, &vma);
	if (!ret && (addr < vma.start || addr >= vma.end))
		ret = -EPROTO; /* taken as it is, it would be asked for again and again */
	return ret ? ret : enter_vma(as, &vma, NULL, seq);
}
