/* SPDX-License-Identifier: MIT */
/*
 * Processor <-> memory messages to the home of an address space: encode and decode.
 *
 * The demand, write-back and file messages are in pm_data.c, fork and its kin in pm_fork.c.
 *
 * See:	docs/protocol/pm.md
 */
#include <proto/pm.h>

#include <lib/errno.h>
#include <lib/string.h>

static bool page_aligned(uint64_t v)
{
	return !(v & PAGE_MASK_LOW);
}

/* A non-empty run of whole pages below the end of user space. */
static bool range_is_valid(uint64_t addr, uint64_t len)
{
	return page_aligned(addr) && page_aligned(len) && len && len <= PM_USER_TOP &&
	       addr <= PM_USER_TOP - len;
}

/* --- parts ----------------------------------------------------------------------------- */

void pm_vregion_encode(const struct pm_vregion *vr, struct pm_vregion_wire *w)
{
	w->index = cpu_to_le64(vr->index);
	w->owner = cpu_to_le32(vr->owner);
	w->secondary = cpu_to_le32(vr->secondary);
	w->version = cpu_to_le64(vr->version);
}

int pm_vregion_decode(const struct pm_vregion_wire *w, struct pm_vregion *out)
{
	struct pm_vregion vr;

	vr.index = le64_to_cpu(w->index);
	vr.owner = le32_to_cpu(w->owner);
	vr.secondary = le32_to_cpu(w->secondary);
	vr.version = le64_to_cpu(w->version);
	if (vr.index > PM_USER_TOP / PM_VREGION_MIN)
		return -EPROTO;
	if (vr.owner > PROTO_NODE_MAX || vr.secondary > PROTO_NODE_MAX)
		return -EPROTO;
	*out = vr;
	return 0;
}

void pm_vma_encode(const struct pm_vma *vma, struct pm_vma_wire *w)
{
	w->start = cpu_to_le64(vma->start);
	w->end = cpu_to_le64(vma->end);
	w->pgoff = cpu_to_le64(vma->pgoff);
	w->file_bytes = cpu_to_le64(vma->file_bytes);
	proto_file_encode(&vma->file, &w->file);
	if (vma->flags & PM_VMA_OBJECT)
		w->file.ino = cpu_to_le64(vma->object);
	w->prot = cpu_to_le32(vma->prot);
	w->flags = cpu_to_le32(vma->flags);
	w->cache_node = cpu_to_le32(vma->cache_node);
	w->reserved = cpu_to_le32(0);
}

/* Pages [pgoff, pgoff + nr) of an object's space. */
static bool object_pages_are_valid(uint64_t pgoff, uint64_t nr)
{
	return pgoff <= (PM_USER_TOP >> PAGE_SHIFT) - nr;
}

/* The fields that only a mapping of a file or of an object has. */
static bool vma_file_is_valid(const struct pm_vma *vma)
{
	if (!(vma->flags & PM_VMA_FILE) && (vma->file.node || vma->cache_node))
		return false;
	if (vma->flags & PM_VMA_OBJECT)
		return !(vma->flags & PM_VMA_FILE) && vma->object &&
		       object_pages_are_valid(vma->pgoff, (vma->end - vma->start) >> PAGE_SHIFT);
	if (!(vma->flags & PM_VMA_FILE))
		return !vma->pgoff && !vma->file_bytes;
	if (!vma->file.node || !vma->cache_node || vma->cache_node > PROTO_NODE_MAX)
		return false;
	return vma->pgoff <= (UINT64_MAX >> PAGE_SHIFT) - ((vma->end - vma->start) >> PAGE_SHIFT);
}

/* Which file or object; neither is what is left of an anonymous mapping. */
static int vma_file_decode(const struct pm_vma_wire *w, struct pm_vma *vma)
{
	vma->object = 0;
	if (!(vma->flags & PM_VMA_OBJECT))
		return proto_file_decode(&w->file, &vma->file);
	vma->object = le64_to_cpu(w->file.ino);
	vma->file = (struct proto_file){ 0 };
	return le32_to_cpu(w->file.gen) || le32_to_cpu(w->file.node) ? -EPROTO : 0;
}

int pm_vma_decode(const struct pm_vma_wire *w, struct pm_vma *out)
{
	struct pm_vma vma;

	vma.start = le64_to_cpu(w->start);
	vma.end = le64_to_cpu(w->end);
	vma.pgoff = le64_to_cpu(w->pgoff);
	vma.file_bytes = le64_to_cpu(w->file_bytes);
	vma.prot = le32_to_cpu(w->prot);
	vma.flags = le32_to_cpu(w->flags);
	vma.cache_node = le32_to_cpu(w->cache_node);
	if (vma_file_decode(w, &vma) || le32_to_cpu(w->reserved))
		return -EPROTO;
	if (vma.end <= vma.start || !range_is_valid(vma.start, vma.end - vma.start))
		return -EPROTO;
	if ((vma.prot & ~(uint32_t)PM_PROT_ALL) || (vma.flags & ~(uint32_t)PM_VMA_ALL))
		return -EPROTO;
	if (!vma_file_is_valid(&vma))
		return -EPROTO;
	*out = vma;
	return 0;
}

void pm_grant_encode(const struct pm_grant *grant, struct pm_grant_wire *w)
{
	w->node = cpu_to_le32(grant->node);
	w->frames = cpu_to_le32(grant->frames);
}

int pm_grant_decode(const struct pm_grant_wire *w, struct pm_grant *out)
{
	struct pm_grant g;

	g.node = le32_to_cpu(w->node);
	g.frames = le32_to_cpu(w->frames);
	if (g.node > PROTO_NODE_MAX || (g.frames && !g.node))
		return -EPROTO;
	*out = g;
	return 0;
}

void pm_moved_encode(const struct pm_vregion *vr, struct pm_moved_wire *w)
{
	pm_vregion_encode(vr, &w->vregion);
}

int pm_moved_decode(const void *buf, size_t len, struct pm_vregion *out)
{
	struct pm_moved_wire w;

	if (len != sizeof(w))
		return -EMSGSIZE;
	memcpy(&w, buf, sizeof(w));
	return pm_vregion_decode(&w.vregion, out);
}

/* The three arrays at the end of several replies. */
struct arrays {
	uint16_t nr_vmas;
	uint16_t nr_vregions;
	uint16_t nr_grants;
};

static size_t arrays_size(const struct arrays *a)
{
	return a->nr_vmas * sizeof(struct pm_vma_wire) +
	       a->nr_vregions * sizeof(struct pm_vregion_wire) +
	       a->nr_grants * sizeof(struct pm_grant_wire);
}

static void arrays_encode(const struct arrays *a, const struct pm_vma *vmas,
			  const struct pm_vregion *vregions, const struct pm_grant *grants,
			  uint8_t *out)
{
	for (size_t i = 0; i < a->nr_vmas; i++) {
		struct pm_vma_wire w;

		pm_vma_encode(&vmas[i], &w);
		memcpy(out, &w, sizeof(w));
		out += sizeof(w);
	}
	for (size_t i = 0; i < a->nr_vregions; i++) {
		struct pm_vregion_wire w;

		pm_vregion_encode(&vregions[i], &w);
		memcpy(out, &w, sizeof(w));
		out += sizeof(w);
	}
	for (size_t i = 0; i < a->nr_grants; i++) {
		struct pm_grant_wire w;

		pm_grant_encode(&grants[i], &w);
		memcpy(out, &w, sizeof(w));
		out += sizeof(w);
	}
}

/* The caller has checked the counts and that the buffer holds exactly arrays_size() bytes. */
static int arrays_decode(const struct arrays *a, const uint8_t *in, struct pm_vma *vmas,
			 struct pm_vregion *vregions, struct pm_grant *grants)
{
	for (size_t i = 0; i < a->nr_vmas; i++) {
		struct pm_vma_wire w;

		memcpy(&w, in, sizeof(w));
		in += sizeof(w);
		if (pm_vma_decode(&w, &vmas[i]))
			return -EPROTO;
	}
	for (size_t i = 0; i < a->nr_vregions; i++) {
		struct pm_vregion_wire w;

		memcpy(&w, in, sizeof(w));
		in += sizeof(w);
		if (pm_vregion_decode(&w, &vregions[i]))
			return -EPROTO;
	}
	for (size_t i = 0; i < a->nr_grants; i++) {
		struct pm_grant_wire w;

		memcpy(&w, in, sizeof(w));
		in += sizeof(w);
		if (pm_grant_decode(&w, &grants[i]))
			return -EPROTO;
	}
	return 0;
}

/* --- PM_EXEC --------------------------------------------------------------------------- */

ssize_t pm_exec_req_encode(const struct pm_exec_req *req, void *buf, size_t cap)
{
	struct pm_exec_req_wire w;
	le32_t groups[PROTO_MAX_GROUPS];
	size_t groups_len;

	if (req->cred.nr_groups > PROTO_MAX_GROUPS || req->head_len > PM_EXEC_HEAD_MAX)
		return -EMSGSIZE;
	groups_len = req->cred.nr_groups * sizeof(le32_t);
	if (cap < sizeof(w) + groups_len + req->head_len)
		return -EMSGSIZE;
	w.aspace = cpu_to_le64(req->aspace);
	proto_file_encode(&req->file, &w.file);
	w.stack_size = cpu_to_le64(req->stack_size);
	w.random_seed = cpu_to_le64(req->random_seed);
	proto_cred_encode(&req->cred, &w.cred, groups);
	w.vnode = cpu_to_le32(req->vnode);
	w.want_credits = cpu_to_le32(req->want_credits);
	w.object = cpu_to_le64(req->object);
	w.storage = cpu_to_le32(req->storage);
	w.head_len = cpu_to_le32(req->head_len);
	memcpy(buf, &w, sizeof(w));
	memcpy((uint8_t *)buf + sizeof(w), groups, groups_len);
	if (req->head_len)
		memcpy((uint8_t *)buf + sizeof(w) + groups_len, req->head, req->head_len);
	return (ssize_t)(sizeof(w) + groups_len + req->head_len);
}

/* A file, or an object with its beginning. */
static bool exec_program_is_valid(const struct pm_exec_req *r)
{
	if (r->file.node)
		return !r->object && !r->storage && !r->head_len;
	return r->object && r->storage <= PROTO_NODE_MAX && r->head_len;
}

int pm_exec_req_decode(const void *buf, size_t len, struct pm_exec_req *out)
{
	struct pm_exec_req_wire w;
	struct pm_exec_req r;
	int err;

	if (len < sizeof(w))
		return -EMSGSIZE;
	memcpy(&w, buf, sizeof(w));
	err = proto_cred_decode(&w.cred, (const uint8_t *)buf + sizeof(w), len - sizeof(w),
				&r.cred);
	if (err)
		return err;
	r.head = (const uint8_t *)buf + sizeof(w) + r.cred.nr_groups * sizeof(le32_t);
	r.object = le64_to_cpu(w.object);
	r.storage = le32_to_cpu(w.storage);
	r.head_len = le32_to_cpu(w.head_len);
	if (r.head_len > PM_EXEC_HEAD_MAX)
		return -EPROTO;
	if (len != sizeof(w) + r.cred.nr_groups * sizeof(le32_t) + r.head_len)
		return -EMSGSIZE;

	r.aspace = le64_to_cpu(w.aspace);
	r.stack_size = le64_to_cpu(w.stack_size);
	r.random_seed = le64_to_cpu(w.random_seed);
	r.vnode = le32_to_cpu(w.vnode);
	r.want_credits = le32_to_cpu(w.want_credits);
	if (proto_file_decode(&w.file, &r.file) || !exec_program_is_valid(&r) || !r.aspace)
		return -EPROTO;
	if (!range_is_valid(0, r.stack_size))
		return -EPROTO;
	*out = r;
	return 0;
}

/* Bytes of a reply with these flags. */
static size_t exec_rep_size(const struct arrays *a, uint32_t flags)
{
	return sizeof(struct pm_exec_rep_wire) + arrays_size(a) +
	       (flags & PM_EXEC_INTERP ? sizeof(struct proto_attr_wire) : 0);
}

ssize_t pm_exec_rep_encode(const struct pm_exec_rep *rep, void *buf, size_t cap)
{
	const struct arrays a = { rep->nr_vmas, rep->nr_vregions, rep->nr_grants };
	struct proto_attr_wire attr;
	struct pm_exec_rep_wire w;

	if (a.nr_vmas > PM_EXEC_MAX_VMAS || a.nr_vregions > PM_EXEC_MAX_VREGIONS ||
	    a.nr_grants > PM_MAX_GRANTS || cap < exec_rep_size(&a, rep->flags))
		return -EMSGSIZE;
	w.entry = cpu_to_le64(rep->entry);
	w.prog_entry = cpu_to_le64(rep->prog_entry);
	w.phdr = cpu_to_le64(rep->phdr);
	w.interp_base = cpu_to_le64(rep->interp_base);
	w.brk_start = cpu_to_le64(rep->brk_start);
	w.stack_top = cpu_to_le64(rep->stack_top);
	w.stack_bottom = cpu_to_le64(rep->stack_bottom);
	w.vregion_size = cpu_to_le64(rep->vregion_size);
	w.code_start = cpu_to_le64(rep->code_start);
	w.code_end = cpu_to_le64(rep->code_end);
	w.data_start = cpu_to_le64(rep->data_start);
	w.data_end = cpu_to_le64(rep->data_end);
	w.phent = cpu_to_le16(rep->phent);
	w.phnum = cpu_to_le16(rep->phnum);
	w.flags = cpu_to_le32(rep->flags);
	w.nr_vmas = cpu_to_le16(a.nr_vmas);
	w.nr_vregions = cpu_to_le16(a.nr_vregions);
	w.nr_grants = cpu_to_le16(a.nr_grants);
	w.reserved = cpu_to_le16(0);
	memcpy(buf, &w, sizeof(w));
	arrays_encode(&a, rep->vmas, rep->vregions, rep->grants, (uint8_t *)buf + sizeof(w));
	if (rep->flags & PM_EXEC_INTERP) {
		proto_attr_encode(&rep->interp, &attr);
		memcpy((uint8_t *)buf + sizeof(w) + arrays_size(&a), &attr, sizeof(attr));
	}
	return (ssize_t)exec_rep_size(&a, rep->flags);
}

static void exec_rep_scalars(const struct pm_exec_rep_wire *w, struct pm_exec_rep *out)
{
	out->entry = le64_to_cpu(w->entry);
	out->prog_entry = le64_to_cpu(w->prog_entry);
	out->phdr = le64_to_cpu(w->phdr);
	out->interp_base = le64_to_cpu(w->interp_base);
	out->brk_start = le64_to_cpu(w->brk_start);
	out->stack_top = le64_to_cpu(w->stack_top);
	out->stack_bottom = le64_to_cpu(w->stack_bottom);
	out->vregion_size = le64_to_cpu(w->vregion_size);
	out->code_start = le64_to_cpu(w->code_start);
	out->code_end = le64_to_cpu(w->code_end);
	out->data_start = le64_to_cpu(w->data_start);
	out->data_end = le64_to_cpu(w->data_end);
	out->phent = le16_to_cpu(w->phent);
	out->phnum = le16_to_cpu(w->phnum);
	out->flags = le32_to_cpu(w->flags);
	out->nr_vmas = le16_to_cpu(w->nr_vmas);
	out->nr_vregions = le16_to_cpu(w->nr_vregions);
	out->nr_grants = le16_to_cpu(w->nr_grants);
}

static bool vregion_size_is_valid(uint64_t size)
{
	return IS_POWER_OF_2(size) && size >= PM_VREGION_MIN && size <= PM_VREGION_MAX;
}

static bool exec_rep_is_valid(const struct pm_exec_rep_wire *w)
{
	const uint64_t top = le64_to_cpu(w->stack_top);
	const uint64_t bottom = le64_to_cpu(w->stack_bottom);
	const le64_t below_top[] = { w->entry,    w->prog_entry, w->phdr,    w->code_start,
				     w->code_end, w->data_start, w->data_end };

	for (size_t i = 0; i < ARRAY_SIZE(below_top); i++)
		if (le64_to_cpu(below_top[i]) > PM_USER_TOP)
			return false;
	if (bottom >= top || !range_is_valid(bottom, top - bottom))
		return false;
	if (!page_aligned(le64_to_cpu(w->brk_start)) || le64_to_cpu(w->brk_start) > PM_USER_TOP)
		return false;
	if (!page_aligned(le64_to_cpu(w->interp_base)) || le64_to_cpu(w->interp_base) > PM_USER_TOP)
		return false;
	return vregion_size_is_valid(le64_to_cpu(w->vregion_size)) && !le16_to_cpu(w->reserved) &&
	       !(le32_to_cpu(w->flags) & ~(uint32_t)PM_EXEC_ALL);
}

/* The result is large, so it is decoded in place: after a failure @out holds nothing of use. */
int pm_exec_rep_decode(const void *buf, size_t len, struct pm_exec_rep *out)
{
	struct pm_exec_rep_wire w;
	struct arrays a;
	int err = 0;

	if (len < sizeof(w))
		return -EMSGSIZE;
	memcpy(&w, buf, sizeof(w));
	a.nr_vmas = le16_to_cpu(w.nr_vmas);
	a.nr_vregions = le16_to_cpu(w.nr_vregions);
	a.nr_grants = le16_to_cpu(w.nr_grants);
	if (a.nr_vmas > PM_EXEC_MAX_VMAS || a.nr_vregions > PM_EXEC_MAX_VREGIONS ||
	    a.nr_grants > PM_MAX_GRANTS || !exec_rep_is_valid(&w))
		return -EPROTO;
	if (len != exec_rep_size(&a, le32_to_cpu(w.flags)))
		return -EMSGSIZE;
	exec_rep_scalars(&w, out);
	if (out->flags & PM_EXEC_INTERP)
		err = proto_attr_decode((const uint8_t *)buf + sizeof(w) + arrays_size(&a),
					sizeof(struct proto_attr_wire), &out->interp);
	if (err)
		return err;
	return arrays_decode(&a, (const uint8_t *)buf + sizeof(w), out->vmas, out->vregions,
			     out->grants);
}

/* --- address space calls --------------------------------------------------------------- */

void pm_mmap_req_encode(const struct pm_mmap_req *req, struct pm_mmap_req_wire *w)
{
	w->aspace = cpu_to_le64(req->aspace);
	w->addr = cpu_to_le64(req->addr);
	w->len = cpu_to_le64(req->len);
	w->pgoff = cpu_to_le64(req->pgoff);
	proto_file_encode(&req->file, &w->file);
	w->object = cpu_to_le64(req->object);
	w->prot = cpu_to_le32(req->prot);
	w->flags = cpu_to_le32(req->flags);
	w->want_credits = cpu_to_le32(req->want_credits);
	w->reserved = cpu_to_le32(0);
}

static bool mmap_req_is_valid(const struct pm_mmap_req *r)
{
	const uint32_t fixed = PM_MAP_FIXED | PM_MAP_FIXED_NOREPLACE;

	if (!r->aspace || !page_aligned(r->addr) || !range_is_valid(0, r->len))
		return false;
	if ((r->flags & fixed) && !range_is_valid(r->addr, r->len))
		return false;
	if ((r->prot & ~(uint32_t)PM_PROT_ALL) || (r->flags & ~(uint32_t)PM_MAP_ALL))
		return false;
	if (r->object)
		return !r->file.node && object_pages_are_valid(r->pgoff, r->len >> PAGE_SHIFT);
	if (!r->file.node)
		return !r->pgoff;
	return r->pgoff <= (UINT64_MAX >> PAGE_SHIFT) - (r->len >> PAGE_SHIFT);
}

int pm_mmap_req_decode(const void *buf, size_t len, struct pm_mmap_req *out)
{
	struct pm_mmap_req_wire w;
	struct pm_mmap_req r;

	if (len != sizeof(w))
		return -EMSGSIZE;
	memcpy(&w, buf, sizeof(w));
	r.aspace = le64_to_cpu(w.aspace);
	r.addr = le64_to_cpu(w.addr);
	r.len = le64_to_cpu(w.len);
	r.pgoff = le64_to_cpu(w.pgoff);
	r.object = le64_to_cpu(w.object);
	r.prot = le32_to_cpu(w.prot);
	r.flags = le32_to_cpu(w.flags);
	r.want_credits = le32_to_cpu(w.want_credits);
	if (proto_file_decode(&w.file, &r.file) || le32_to_cpu(w.reserved))
		return -EPROTO;
	if (!mmap_req_is_valid(&r))
		return -EPROTO;
	*out = r;
	return 0;
}

void pm_range_req_encode(const struct pm_range_req *req, struct pm_range_req_wire *w)
{
	w->aspace = cpu_to_le64(req->aspace);
	w->addr = cpu_to_le64(req->addr);
	w->len = cpu_to_le64(req->len);
	w->prot = cpu_to_le32(req->prot);
	w->reserved = cpu_to_le32(0);
}

int pm_range_req_decode(const void *buf, size_t len, struct pm_range_req *out)
{
	struct pm_range_req_wire w;
	struct pm_range_req r;

	if (len != sizeof(w))
		return -EMSGSIZE;
	memcpy(&w, buf, sizeof(w));
	r.aspace = le64_to_cpu(w.aspace);
	r.addr = le64_to_cpu(w.addr);
	r.len = le64_to_cpu(w.len);
	r.prot = le32_to_cpu(w.prot);
	if (!r.aspace || !range_is_valid(r.addr, r.len))
		return -EPROTO;
	if ((r.prot & ~(uint32_t)PM_PROT_ALL) || le32_to_cpu(w.reserved))
		return -EPROTO;
	*out = r;
	return 0;
}

void pm_mremap_req_encode(const struct pm_mremap_req *req, struct pm_mremap_req_wire *w)
{
	w->aspace = cpu_to_le64(req->aspace);
	w->old_addr = cpu_to_le64(req->old_addr);
	w->old_len = cpu_to_le64(req->old_len);
	w->new_len = cpu_to_le64(req->new_len);
	w->new_addr = cpu_to_le64(req->new_addr);
	w->flags = cpu_to_le32(req->flags);
	w->want_credits = cpu_to_le32(req->want_credits);
}

static bool mremap_req_is_valid(const struct pm_mremap_req *r)
{
	if (!r->aspace || (r->flags & ~(uint32_t)PM_MREMAP_ALL))
		return false;
	if (!range_is_valid(r->old_addr, r->old_len) || !range_is_valid(0, r->new_len))
		return false;
	if (!(r->flags & PM_MREMAP_FIXED))
		return !r->new_addr;
	return (r->flags & PM_MREMAP_MAYMOVE) && range_is_valid(r->new_addr, r->new_len);
}

int pm_mremap_req_decode(const void *buf, size_t len, struct pm_mremap_req *out)
{
	struct pm_mremap_req_wire w;
	struct pm_mremap_req r;

	if (len != sizeof(w))
		return -EMSGSIZE;
	memcpy(&w, buf, sizeof(w));
	r.aspace = le64_to_cpu(w.aspace);
	r.old_addr = le64_to_cpu(w.old_addr);
	r.old_len = le64_to_cpu(w.old_len);
	r.new_len = le64_to_cpu(w.new_len);
	r.new_addr = le64_to_cpu(w.new_addr);
	r.flags = le32_to_cpu(w.flags);
	r.want_credits = le32_to_cpu(w.want_credits);
	if (!mremap_req_is_valid(&r))
		return -EPROTO;
	*out = r;
	return 0;
}

void pm_brk_req_encode(const struct pm_brk_req *req, struct pm_brk_req_wire *w)
{
	w->aspace = cpu_to_le64(req->aspace);
	w->brk = cpu_to_le64(req->brk);
	w->want_credits = cpu_to_le32(req->want_credits);
	w->reserved = cpu_to_le32(0);
}

int pm_brk_req_decode(const void *buf, size_t len, struct pm_brk_req *out)
{
	struct pm_brk_req_wire w;

	if (len != sizeof(w))
		return -EMSGSIZE;
	memcpy(&w, buf, sizeof(w));
	if (!le64_to_cpu(w.aspace) || le32_to_cpu(w.reserved))
		return -EPROTO;
	out->aspace = le64_to_cpu(w.aspace);
	out->brk = le64_to_cpu(w.brk);
	out->want_credits = le32_to_cpu(w.want_credits);
	return 0;
}

ssize_t pm_range_rep_encode(const struct pm_range_rep *rep, void *buf, size_t cap)
{
	const struct arrays a = { rep->nr_vmas, rep->nr_vregions, rep->nr_grants };
	struct pm_range_rep_wire w;

	if (a.nr_vmas > PM_RANGE_MAX_VMAS || a.nr_vregions > PM_RANGE_MAX_VREGIONS ||
	    a.nr_grants > PM_MAX_GRANTS || cap < sizeof(w) + arrays_size(&a))
		return -EMSGSIZE;
	w.addr = cpu_to_le64(rep->addr);
	w.nr_vmas = cpu_to_le16(a.nr_vmas);
	w.nr_vregions = cpu_to_le16(a.nr_vregions);
	w.nr_grants = cpu_to_le16(a.nr_grants);
	w.reserved = cpu_to_le16(0);
	memcpy(buf, &w, sizeof(w));
	arrays_encode(&a, rep->vmas, rep->vregions, rep->grants, (uint8_t *)buf + sizeof(w));
	return (ssize_t)(sizeof(w) + arrays_size(&a));
}

/* The result is large, so it is decoded in place: after a failure @out holds nothing of use. */
int pm_range_rep_decode(const void *buf, size_t len, struct pm_range_rep *out)
{
	struct pm_range_rep_wire w;
	struct arrays a;

	if (len < sizeof(w))
		return -EMSGSIZE;
	memcpy(&w, buf, sizeof(w));
	a.nr_vmas = le16_to_cpu(w.nr_vmas);
	a.nr_vregions = le16_to_cpu(w.nr_vregions);
	a.nr_grants = le16_to_cpu(w.nr_grants);
	if (a.nr_vmas > PM_RANGE_MAX_VMAS || a.nr_vregions > PM_RANGE_MAX_VREGIONS ||
	    a.nr_grants > PM_MAX_GRANTS)
		return -EPROTO;
	if (le64_to_cpu(w.addr) > PM_USER_TOP || le16_to_cpu(w.reserved))
		return -EPROTO;
	if (len != sizeof(w) + arrays_size(&a))
		return -EMSGSIZE;
	out->addr = le64_to_cpu(w.addr);
	out->nr_vmas = a.nr_vmas;
	out->nr_vregions = a.nr_vregions;
	out->nr_grants = a.nr_grants;
	return arrays_decode(&a, (const uint8_t *)buf + sizeof(w), out->vmas, out->vregions,
			     out->grants);
}

void pm_vregions_req_encode(const struct pm_vregions_req *req, struct pm_vregions_req_wire *w)
{
	w->aspace = cpu_to_le64(req->aspace);
	w->first = cpu_to_le64(req->first);
	w->count = cpu_to_le32(req->count);
	w->flags = cpu_to_le32(req->flags);
	w->want_credits = cpu_to_le32(req->want_credits);
	w->reserved = cpu_to_le32(0);
}

int pm_vregions_req_decode(const void *buf, size_t len, struct pm_vregions_req *out)
{
	struct pm_vregions_req_wire w;
	struct pm_vregions_req r;

	if (len != sizeof(w))
		return -EMSGSIZE;
	memcpy(&w, buf, sizeof(w));
	r.aspace = le64_to_cpu(w.aspace);
	r.first = le64_to_cpu(w.first);
	r.count = le32_to_cpu(w.count);
	r.flags = le32_to_cpu(w.flags);
	r.want_credits = le32_to_cpu(w.want_credits);
	if (r.flags & ~(uint32_t)PM_VREGIONS_ALL)
		return -EPROTO;
	if (!(r.flags & PM_VREGIONS_ACTIVATE) && r.want_credits)
		return -EPROTO;
	if (!r.aspace || !r.count || r.count > PM_RANGE_MAX_VREGIONS || le32_to_cpu(w.reserved))
		return -EPROTO;
	if (r.first > PM_USER_TOP / PM_VREGION_MIN)
		return -EPROTO;
	*out = r;
	return 0;
}

void pm_destroy_req_encode(uint64_t aspace, struct pm_destroy_req_wire *w)
{
	w->aspace = cpu_to_le64(aspace);
}

int pm_destroy_req_decode(const void *buf, size_t len, uint64_t *aspace)
{
	struct pm_destroy_req_wire w;

	if (len != sizeof(w))
		return -EMSGSIZE;
	memcpy(&w, buf, sizeof(w));
	if (!le64_to_cpu(w.aspace))
		return -EPROTO;
	*aspace = le64_to_cpu(w.aspace);
	return 0;
}

void pm_destroy_list_encode(const uint64_t *ids, uint32_t nr, struct pm_destroy_req_wire *w)
{
	for (uint32_t i = 0; i < nr; i++)
		pm_destroy_req_encode(ids[i], &w[i]);
}

int pm_destroy_list_decode(const void *buf, size_t len, uint64_t *ids, uint32_t *nr)
{
	const size_t one = sizeof(struct pm_destroy_req_wire);
	int err = 0;

	if (!len || len % one || len / one > PM_DESTROY_MAX)
		return -EMSGSIZE;
	for (size_t i = 0; i < len / one && !err; i++)
		err = pm_destroy_req_decode((const uint8_t *)buf + i * one, one, &ids[i]);
	if (!err)
		*nr = (uint32_t)(len / one);
	return err;
}
