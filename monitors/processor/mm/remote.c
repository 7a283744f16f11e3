/* SPDX-License-Identifier: MIT */
/*
 * Requests about the layout of an address space, to its home and its owners.
 *
 * Flow:	encode, call in the control class, decode the hostile reply, enter what it says
 *		about vmas, vRegions and credits into the copies.
 * Failure:	a reply that cannot be entered for lack of memory is not an error: what is missing
 *		is asked for again when it is needed.
 */
#define PR_FMT "remote: "

#include "remote.h"

#include <kernel/counter.h>
#include <kernel/printk.h>
#include <lib/err.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <net/rpc.h>
#include <processor/client/convert.h>
#include <processor/client/storage.h>
#include <processor/excache/credit.h>
#include <processor/excache/excache.h>
#include <processor/excache/file_dirty.h>
#include <processor/excache/home_wire.h>
#include <processor/excache/write_maps.h>

#include "lease.h"

/* Rights and flags go over the wire as they are. */
static_assert((int)VMA_PROT_READ == (int)PM_PROT_READ, "the same");
static_assert((int)VMA_PROT_WRITE == (int)PM_PROT_WRITE, "the same");
static_assert((int)VMA_PROT_EXEC == (int)PM_PROT_EXEC, "the same");
static_assert((int)VMA_PROT_ALL == (int)PM_PROT_ALL, "the same");
static_assert((int)VMA_SHARED == (int)PM_VMA_SHARED, "the same");
static_assert((int)VMA_STACK == (int)PM_VMA_STACK, "the same");
static_assert((int)VMA_HEAP == (int)PM_VMA_HEAP, "the same");
static_assert((int)VMA_FILE == (int)PM_VMA_FILE, "the same");
static_assert((int)VMA_NORESERVE == (int)PM_VMA_NORESERVE, "the same");
static_assert((int)VMA_OBJECT == (int)PM_VMA_OBJECT, "the same");
static_assert((int)VMA_LEASE == (int)PM_VMA_LEASE, "the same");
static_assert((int)VMA_READ_ONLY == (int)PM_VMA_READ_ONLY, "the same");
static_assert((int)VMA_GROWS == (int)PM_VMA_GROWS, "the same");
static_assert(LEASE_BATCH == PM_LEASE_MAX_RANGES, "one message");
static_assert((int)MAPPING_FIXED == (int)PM_MAP_FIXED, "the same");
static_assert((int)MAPPING_FIXED_NOREPLACE == (int)PM_MAP_FIXED_NOREPLACE, "the same");
static_assert((int)MAPPING_SHARED == (int)PM_MAP_SHARED, "the same");
static_assert((int)MAPPING_STACK == (int)PM_MAP_STACK, "the same");
static_assert((int)MAPPING_NORESERVE == (int)PM_MAP_NORESERVE, "the same");
static_assert((int)MAPPING_LOW == (int)PM_MAP_LOW, "the same");
static_assert((int)MAPPING_READ_ONLY == (int)PM_MAP_READ_ONLY, "the same");
static_assert((int)MAPPING_GROWS == (int)PM_MAP_GROWS, "the same");
static_assert((int)MOVE_MAY == (int)PM_MREMAP_MAYMOVE, "the same");
static_assert((int)MOVE_FIXED == (int)PM_MREMAP_FIXED, "the same");
static_assert(EXEC_HEAD_MAX == PM_EXEC_HEAD_MAX, "the same");
static_assert(!(VMA_PRISTINE & PM_VMA_ALL), "known here only");

/* The object behind a file vma: one that we have, or @hint, or made from the file's attributes. */
static struct object *vma_object(struct aspace *as, const struct pm_vma *v, struct object *hint)
{
	const struct file_id file = file_from_proto(&v->file);
	struct file_attr attr;
	struct object *obj;
	bool live;
	int err;

	if (hint && hint->kind == OBJECT_FILE && file_id_equal(&hint->file, &file)) {
		object_get(hint);
		return hint;
	}
	/* A shared mapping shows what the file has now; others may show a version of it. */
	live = file_dirty_is_used() && (v->flags & PM_VMA_SHARED);
	obj = live ? NULL : aspace_file_object(as, &file);
	if (obj)
		return obj;
	err = storage_getattr(&file, &attr);
	if (err)
		return ERR_PTR(err);
	return live ? object_live_get(&file, attr.fsid) : object_file_get(&attr);
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
	struct vma vma;
	int err;

	if (v->flags & VMA_LEASE)
		return -EFAULT; /* the copy is the truth there */
	if (v->flags & VMA_OBJECT) {
		obj = shared_object(v, hint);
		if (!obj)
			return -ESTALE;
	} else if (v->flags & VMA_FILE) {
		obj = vma_object(as, v, hint);
		if (IS_ERR(obj))
			return PTR_ERR(obj);
	}
	vma = (struct vma){ .start = v->start,
			    .end = v->end,
			    .prot = v->prot,
			    .flags = v->flags,
			    .file = obj,
			    .pgoff = v->pgoff,
			    .file_bytes = v->file_bytes };
	/* F_ADD_SEALS has looked at the copies only: this one was not among them. */
	if ((vma.flags & VMA_SHARED) && obj && obj->kind == OBJECT_SHARED &&
	    write_maps_are_sealed(obj)) {
		vma.flags |= VMA_READ_ONLY;
		vma.prot &= ~(uint32_t)VMA_PROT_WRITE;
	}
	err = aspace_set_vma(as, &vma, seq);
	if (obj)
		object_put(obj);
	return err;
}

/* A range that a call has replaced: the copies of its vmas go before those of the reply come. */
struct replaced {
	vaddr_t start;
	uint64_t len;
};

/* The same for a call that changes the layout of @as: the vmas of the reply are entered. */
static int range_call(struct aspace *as, uint16_t opcode, const void *body, size_t body_len,
		      struct object *hint, const struct replaced *replaced, vaddr_t *addr,
		      struct lease_part *leased)
{
	struct home_reply *r;
	const int err = home_range_call(as->anon, opcode, body, body_len, &r);

	if (err)
		return err;
	if (addr)
		*addr = r->range.addr;
	/* Else a new vma could take flags of an old one for its own. */
	if (replaced && replaced->len)
		aspace_clear_vmas(as, replaced->start, replaced->start + replaced->len);
	if (leased && r->range.nr_vmas && (r->range.vmas[0].flags & VMA_LEASE))
		*leased = (struct lease_part){ .start = r->range.vmas[0].start,
					       .end = r->range.vmas[0].end };
	for (size_t i = 0; i < r->range.nr_vmas; i++)
		(void)enter_vma(as, &r->range.vmas[i], hint, SEQ_ANY);
	home_reply_free(r);
	return 0;
}

static bool is_file(const struct pm_vma *v, const struct file_attr *attr)
{
	const struct file_id file = file_from_proto(&v->file);

	return (v->flags & VMA_FILE) && file_id_equal(&file, &attr->file);
}

/*
 * The vmas of a new program. The versions of its files have come with the answers: no node is
 * asked.
 */
static void enter_program(struct aspace *as, const struct exec_program *prog,
			  const struct pm_exec_rep *rep)
{
	struct file_attr interp = { 0 };

	if (rep->flags & PM_EXEC_INTERP)
		attr_from_proto(&rep->interp, &interp);
	for (size_t i = 0; i < rep->nr_vmas; i++) {
		const struct pm_vma *v = &rep->vmas[i];
		struct object *hint = NULL;

		if (prog->attr && is_file(v, prog->attr))
			hint = object_file_get(prog->attr);
		else if ((rep->flags & PM_EXEC_INTERP) && is_file(v, &interp))
			hint = object_file_get(&interp);
		if (IS_ERR(hint))
			hint = NULL;
		(void)enter_vma(as, v, hint, SEQ_ANY);
		if ((v->flags & VMA_FILE) && !(v->prot & VMA_PROT_WRITE))
			aspace_set_vma_flags(as, v->start, v->end, VMA_PRISTINE);
		if (hint)
			object_put(hint);
	}
}

static void take_layout(const struct pm_exec_rep *rep, struct program_layout *out)
{
	*out = (struct program_layout){
		.entry = rep->entry,
		.prog_entry = rep->prog_entry,
		.phdr = rep->phdr,
		.interp_base = rep->interp_base,
		.phent = rep->phent,
		.phnum = rep->phnum,
		.brk_start = rep->brk_start,
		.stack_top = rep->stack_top,
		.stack_bottom = rep->stack_bottom,
		.code_start = rep->code_start,
		.code_end = rep->code_end,
		.data_start = rep->data_start,
		.data_end = rep->data_end,
	};
}

/*
 * The thread that did the exec was killed. If the home has made the space, it hears now that it has
 * ended: not earlier, as it might make it afterwards.
 */
static void late_exec(struct late_call *lc, int len)
{
	struct home_reply *r = container_of(lc, struct home_reply, late);

	if (len >= 0)
		len = pm_exec_rep_decode(r->body, (size_t)len, &r->exec);
	if (len) {
		home_no_answer(r->obj, len);
	} else {
		WRITE_ONCE(r->obj->vregion_size, r->exec.vregion_size);
		home_enter_grants(r->exec.grants, r->exec.nr_grants);
	}
	object_put(r->obj);
}

int remote_exec(struct aspace *as, const struct exec_program *prog, const struct fs_cred *cred,
		uint64_t stack_size, uint64_t random_seed, struct program_layout *layout)
{
	struct pm_exec_req req = {
		.aspace = aspace_id(as),
		.stack_size = stack_size,
		.random_seed = random_seed,
		.vnode = PROTO_VNODE_ROOT, /* so far a processor has programs of no other */
		.want_credits = credit_want(aspace_home(as)),
		.object = prog->object ? prog->object->id : 0,
		.storage = prog->storage,
		.head_len = prog->head_len,
		.head = prog->head,
		.interp_len = prog->interp ? (uint32_t)strlen(prog->interp) : 0,
		.interp = prog->interp,
	};
	const size_t cap = sizeof(struct pm_exec_req_wire) + PROTO_MAX_GROUPS * sizeof(le32_t) +
			   PM_EXEC_HEAD_MAX + PROTO_PATH_MAX;
	void *body = kmalloc(cap);
	struct home_reply *r = home_reply_alloc();
	ssize_t len = -ENOMEM;
	int ret;

	if (prog->attr)
		req.file = file_to_proto(&prog->attr->file);
	cred_to_proto(cred, &req.cred);
	if (body)
		len = pm_exec_req_encode(&req, body, cap);
	ret = len < 0 ? (int)len : !r ? -ENOMEM : 0;
	if (!ret) {
		object_get(as->anon);
		r->obj = as->anon;
		ret = home_call(&r, aspace_home(as), PM_EXEC, body, (size_t)len, late_exec);
		if (ret >= 0)
			ret = pm_exec_rep_decode(r->body, (size_t)ret, &r->exec);
		home_no_answer(as->anon, ret);
	}
	kfree(body);
	if (!ret) {
		as->anon->vregion_size = r->exec.vregion_size;
		home_enter_vregions(as->anon, r->exec.vregions, r->exec.nr_vregions);
		home_enter_grants(r->exec.grants, r->exec.nr_grants);
		enter_program(as, prog, &r->exec);
		take_layout(&r->exec, layout);
	}
	home_reply_free(r);
	return ret;
}

int remote_mmap(struct aspace *as, const struct map_request *req, vaddr_t *addr,
		struct lease_part *leased)
{
	struct pm_mmap_req wire_req = {
		.aspace = aspace_id(as),
		.addr = req->addr,
		.len = req->len,
		.pgoff = req->pgoff,
		.prot = req->prot,
		.flags = req->flags,
		.want_credits = credit_want(aspace_home(as)),
		.lease_pages = req->lease_pages,
	};
	const struct replaced replaced = { req->addr, req->flags & MAPPING_FIXED ? req->len : 0 };
	struct pm_mmap_req_wire w;

	if (req->object && req->object->kind == OBJECT_FILE)
		wire_req.file = file_to_proto(&req->object->file);
	else if (req->object)
		wire_req.object = req->object->id;
	*leased = (struct lease_part){ 0 };
	pm_mmap_req_encode(&wire_req, &w);
	return range_call(as, PM_MMAP, &w, sizeof(w), req->object, &replaced, addr, leased);
}

static int range_simple(struct aspace *as, uint16_t opcode, vaddr_t start, uint64_t len,
			uint32_t prot, uint64_t lease_len, struct lease_part *leased)
{
	const struct pm_range_req req = {
		.aspace = aspace_id(as),
		.addr = start,
		.len = len,
		.prot = prot,
		.lease_pages = (uint32_t)(lease_len >> PAGE_SHIFT),
	};
	struct pm_range_req_wire w;

	pm_range_req_encode(&req, &w);
	return range_call(as, opcode, &w, sizeof(w), NULL, NULL, NULL, leased);
}

int remote_munmap(struct aspace *as, vaddr_t start, uint64_t len)
{
	return range_simple(as, PM_MUNMAP, start, len, 0, 0, NULL);
}

int remote_mprotect(struct aspace *as, vaddr_t start, uint64_t len, uint32_t prot)
{
	return range_simple(as, PM_MPROTECT, start, len, prot, 0, NULL);
}

int remote_mprotect_lease(struct aspace *as, vaddr_t start, uint64_t len, uint32_t prot,
			  uint64_t lease_len, struct lease_part *leased)
{
	*leased = (struct lease_part){ 0 };
	return range_simple(as, PM_MPROTECT, start, len, prot, lease_len, leased);
}

int remote_mremap(struct aspace *as, const struct move_request *req, vaddr_t *addr)
{
	const struct pm_mremap_req wire_req = {
		.aspace = aspace_id(as),
		.old_addr = req->old_addr,
		.old_len = req->old_len,
		.new_len = req->new_len,
		.new_addr = req->new_addr,
		.flags = req->flags,
		.want_credits = credit_want(aspace_home(as)),
		.seq = req->flags & MOVE_MAY ? writeback_next_seq() : 0,
	};
	const struct replaced replaced = { req->new_addr,
					   req->flags & MOVE_FIXED ? req->new_len : 0 };
	struct pm_mremap_req_wire w;

	pm_mremap_req_encode(&wire_req, &w);
	return range_call(as, PM_MREMAP, &w, sizeof(w), NULL, &replaced, addr, NULL);
}

int remote_brk(struct aspace *as, vaddr_t want, vaddr_t *brk)
{
	const struct pm_brk_req req = { .aspace = aspace_id(as), .brk = want };
	struct pm_brk_req_wire w;
	int err;

	pm_brk_req_encode(&req, &w);
	err = range_call(as, PM_BRK, &w, sizeof(w), NULL, NULL, brk, NULL);
	if (!err && *brk < want && destroy_may_help(-ENOMEM))
		err = range_call(as, PM_BRK, &w, sizeof(w), NULL, NULL, brk, NULL);
	return err;
}

int remote_lease(struct aspace *as, uint64_t number, const struct lease_part *parts, uint32_t nr,
		 vaddr_t *done)
{
	const size_t cap =
		sizeof(struct pm_lease_req_wire) + LEASE_BATCH * sizeof(struct pm_lease_range_wire);
	struct pm_lease_req *req = kmalloc(sizeof(*req));
	void *body = kmalloc(cap);
	int err = -ENOMEM;

	if (req && body) {
		ssize_t len;

		req->aspace = aspace_id(as);
		req->number = number;
		req->nr_ranges = nr;
		for (uint32_t i = 0; i < nr; i++)
			req->ranges[i] = (struct pm_lease_range){
				.addr = parts[i].start,
				.len = parts[i].end - parts[i].start,
				.prot = parts[i].mapped ? parts[i].prot : 0,
				.flags = parts[i].mapped ? PM_LEASE_MAPPED : 0,
			};
		len = pm_lease_req_encode(req, body, cap);
		err = len < 0 ? (int)len
			      : range_call(as, PM_LEASE, body, (size_t)len, NULL, NULL, done, NULL);
	}
	kfree(body);
	kfree(req);
	return err;
}

/*
 * The owner knows nothing of the space. If the home still has it, nothing is mapped at @addr;
 * else all that the program had is lost.
 */
static int unknown_to_owner(struct object *anon, vaddr_t addr)
{
	uint32_t owner;
	const int err = home_vregion_owner(anon, addr / anon->vregion_size, &owner);

	if (!err || err == -EFAULT)
		return -EFAULT;
	if (err == -EINTR) /* nothing is known: the thread is to be killed */
		return err;
	object_fail(anon, err, addr >> PAGE_SHIFT);
	return err;
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

	static_assert(sizeof(struct pm_redirect_wire) <= sizeof(struct pm_vma_wire),
		      "redirect fits");
	if (lease_is_gap(as, addr))
		return -EFAULT;
	pm_fill_vma_req_encode(&req, &w);
	for (unsigned int tries = 0;; tries++) {
		ret = object_owner(as->anon, addr >> PAGE_SHIFT, &owner);
		if (ret)
			return ret;
		ret = rpc_call_sync_killable(owner, RPC_CLASS_DEMAND, PM_FILL_VMA, &w, sizeof(w),
					     reply, sizeof(reply), 0);
		if (ret != -EREMCHG)
			break;
		ret = object_redirected(as->anon, addr >> PAGE_SHIFT, NULL, 0, tries);
		if (ret)
			return ret;
	}
	if (ret == -ESRCH)
		return unknown_to_owner(as->anon, addr);
	if (ret >= 0)
		ret = pm_fill_vma_rep_decode(reply, (size_t)ret, &vma);
	if (!ret && (addr < vma.start || addr >= vma.end))
		ret = -EPROTO; /* taken as it is, it would be asked for again and again */
	return ret ? ret : enter_vma(as, &vma, NULL, seq);
}
