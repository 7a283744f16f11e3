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

#include "codec.h"
#include "parts.h"

/* --- parts ----------------------------------------------------------------------------- */

#define PM_VREGION(F) F(u64, index), F(node, owner), F(node, secondary), F(u64, version)

static bool vregion_is_valid(const struct pm_vregion *vr)
{
	return vr->index <= PM_USER_TOP / PM_VREGION_MIN;
}

CODEC_FIELDS(pm_vregion, PM_VREGION, vregion_is_valid)
CODEC_PART(, pm_vregion)
CODEC_ELEMENTS(, pm_vregion)
CODEC_ALONE(pm_redirect, pm_vregion)

void pm_redirect_encode(const struct pm_vregion *vr, struct pm_redirect_wire *w)
{
	pm_vregion_encode(vr, &w->vregion);
}

CODEC_PART(, pm_grant)
CODEC_ELEMENTS(static, pm_grant)

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
	if ((vma->flags & PM_VMA_LEASE) && vma->flags != PM_VMA_LEASE)
		return false; /* private anonymous memory, and nothing else */
	if (vma->flags & PM_VMA_OBJECT)
		return !(vma->flags & PM_VMA_FILE) && vma->object &&
		       object_pages_are_valid(vma->pgoff, (vma->end - vma->start) >> PAGE_SHIFT);
	if (!(vma->flags & PM_VMA_FILE))
		return !vma->pgoff && !vma->file_bytes;
	if (!vma->file.node || !vma->cache_node || vma->cache_node > PROTO_NODE_MAX)
		return false;
	return file_pages_are_valid(vma->pgoff, (vma->end - vma->start) >> PAGE_SHIFT);
}

/* Which file or object; neither is what is left of an anonymous mapping. */
static int vma_file_decode(const struct pm_vma_wire *w, struct pm_vma *vma)
{
	vma->object = 0;
	if (!(vma->flags & PM_VMA_OBJECT))
		return proto_file_decode(&w->file, &vma->file);
	vma->object = le64_to_cpu(w->file.ino);
	vma->file = (struct proto_file){ 0 };
	return le32_to_cpu(w->file.gen) || le32_to_cpu(w->file.node) ||
			       le32_to_cpu(w->file.vnode) || le32_to_cpu(w->file.reserved) ||
			       le64_to_cpu(w->file.seal)
		       ? -EPROTO
		       : 0;
}

/* The wire's file is pm_vma_encode()'s and vma_file_decode()'s: it may be an object. */
#define PM_VMA(F)                                                                                  \
	F(u64, start), F(u64, end), F(u64, pgoff), F(u64, file_bytes), F(own, file), F(u32, prot), \
		F(u32, flags), F(u32, cache_node), F(zero32, reserved)

CODEC_FIELDS(pm_vma, PM_VMA, codec_any)

void pm_vma_encode(const struct pm_vma *vma, struct pm_vma_wire *w)
{
	pm_vma_put(vma, w);
	proto_file_encode(&vma->file, &w->file);
	if (vma->flags & PM_VMA_OBJECT)
		w->file.ino = cpu_to_le64(vma->object);
}

int pm_vma_decode(const struct pm_vma_wire *w, struct pm_vma *out)
{
	struct pm_vma vma;

	if (!pm_vma_get(w, &vma) || vma_file_decode(w, &vma))
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

CODEC_ELEMENTS(, pm_vma)

/* How many of each there are in the three arrays at the end of several replies. */
struct counts {
	uint16_t vmas;
	uint16_t vregions;
	uint16_t grants;
};
#define counts_of(rep) ((struct counts){ (rep)->nr_vmas, (rep)->nr_vregions, (rep)->nr_grants })

static size_t arrays_size(struct counts n)
{
	return n.vmas * sizeof(struct pm_vma_wire) + n.vregions * sizeof(struct pm_vregion_wire) +
	       n.grants * sizeof(struct pm_grant_wire);
}

static uint8_t *arrays_put(struct counts n, const struct pm_vma *vmas,
			   const struct pm_vregion *vregions, const struct pm_grant *grants,
			   uint8_t *pos)
{
	pos = pm_vma_list_put(vmas, n.vmas, pos);
	pos = pm_vregion_list_put(vregions, n.vregions, pos);
	return pm_grant_list_put(grants, n.grants, pos);
}

/*
 * The caller has checked the counts and that the buffer holds them all. NULL: an element is wrong.
 */
static const uint8_t *arrays_get(const uint8_t *pos, struct counts n, struct pm_vma *vmas,
				 struct pm_vregion *vregions, struct pm_grant *grants)
{
	pos = pm_vma_list_get(pos, n.vmas, vmas);
	if (pos)
		pos = pm_vregion_list_get(pos, n.vregions, vregions);
	return pos ? pm_grant_list_get(pos, n.grants, grants) : NULL;
}

/* --- PM_EXEC --------------------------------------------------------------------------- */

#define PM_EXEC_REQ(F)                                                                         \
	F(id64, aspace), F(file, file), F(u64, stack_size), F(u64, random_seed), F(own, cred), \
		F(id32, vnode), F(u32, want_credits), F(u64, object), F(u32, storage),         \
		F(u32, head_len), F(u32, interp_len), F(zero32, reserved)

/* A file, or an object with its beginning. */
static bool program_is_valid(const struct pm_exec_req *r)
{
	if (r->file.node)
		return !r->object && r->storage <= PROTO_NODE_MAX && !r->head_len;
	return r->object && r->storage <= PROTO_NODE_MAX && r->head_len;
}

static bool exec_req_is_valid(const struct pm_exec_req *r)
{
	return program_is_valid(r) && r->head_len <= PM_EXEC_HEAD_MAX &&
	       r->interp_len < PROTO_PATH_MAX && (!r->interp_len || r->storage) &&
	       range_is_valid(0, r->stack_size);
}

CODEC_FIELDS(pm_exec_req, PM_EXEC_REQ, exec_req_is_valid)

ssize_t pm_exec_req_encode(const struct pm_exec_req *req, void *buf, size_t cap)
{
	struct pm_exec_req_wire w;
	le32_t groups[PROTO_MAX_GROUPS];
	size_t groups_len, len;
	uint8_t *out = buf;

	if (req->cred.nr_groups > PROTO_MAX_GROUPS || req->head_len > PM_EXEC_HEAD_MAX ||
	    req->interp_len >= PROTO_PATH_MAX)
		return -EMSGSIZE;
	groups_len = req->cred.nr_groups * sizeof(le32_t);
	len = sizeof(w) + groups_len + req->head_len + req->interp_len;
	if (cap < len)
		return -EMSGSIZE;
	pm_exec_req_put(req, &w);
	proto_cred_encode(&req->cred, &w.cred, groups);
	memcpy(out, &w, sizeof(w));
	memcpy(out + sizeof(w), groups, groups_len);
	if (req->head_len)
		memcpy(out + sizeof(w) + groups_len, req->head, req->head_len);
	if (req->interp_len)
		memcpy(out + len - req->interp_len, req->interp, req->interp_len);
	return (ssize_t)len;
}

int pm_exec_req_decode(const void *buf, size_t len, struct pm_exec_req *out)
{
	struct pm_exec_req_wire w;
	struct pm_exec_req r;
	int err;

	if (len < sizeof(w))
		return -EMSGSIZE;
	memcpy(&w, buf, sizeof(w));
	if (!pm_exec_req_get(&w, &r))
		return -EPROTO;
	err = proto_cred_decode(&w.cred, (const uint8_t *)buf + sizeof(w), len - sizeof(w),
				&r.cred);
	if (err)
		return err;
	r.head = (const uint8_t *)buf + sizeof(w) + r.cred.nr_groups * sizeof(le32_t);
	r.interp = (const char *)r.head + r.head_len;
	if (len != sizeof(w) + r.cred.nr_groups * sizeof(le32_t) + r.head_len + r.interp_len)
		return -EMSGSIZE;
	if (r.interp_len && (r.interp[0] != '/' || memchr(r.interp, '\0', r.interp_len)))
		return -EPROTO;
	*out = r;
	return 0;
}

#define PM_EXEC_REP(F)                                                                             \
	F(u64, entry), F(u64, prog_entry), F(u64, phdr), F(u64, interp_base), F(u64, brk_start),   \
		F(u64, stack_top), F(u64, stack_bottom), F(u64, vregion_size), F(u64, code_start), \
		F(u64, code_end), F(u64, data_start), F(u64, data_end), F(u16, phent),             \
		F(u16, phnum), F(u32, flags), F(u16, nr_vmas), F(u16, nr_vregions),                \
		F(u16, nr_grants), F(zero16, reserved)

static bool vregion_size_is_valid(uint64_t size)
{
	return IS_POWER_OF_2(size) && size >= PM_VREGION_MIN && size <= PM_VREGION_MAX;
}

static bool exec_rep_is_valid(const struct pm_exec_rep *r)
{
	const uint64_t below_top[] = { r->entry,      r->prog_entry, r->phdr,
				       r->code_start, r->code_end,   r->data_start,
				       r->data_end,   r->brk_start,  r->interp_base };

	for (size_t i = 0; i < ARRAY_SIZE(below_top); i++)
		if (below_top[i] > PM_USER_TOP)
			return false;
	if (r->stack_bottom >= r->stack_top ||
	    !range_is_valid(r->stack_bottom, r->stack_top - r->stack_bottom))
		return false;
	if (!page_aligned(r->brk_start) || !page_aligned(r->interp_base))
		return false;
	if (r->nr_vmas > PM_EXEC_MAX_VMAS || r->nr_vregions > PM_EXEC_MAX_VREGIONS ||
	    r->nr_grants > PM_MAX_GRANTS)
		return false;
	return vregion_size_is_valid(r->vregion_size) && !(r->flags & ~(uint32_t)PM_EXEC_ALL);
}

CODEC_FIELDS(pm_exec_rep, PM_EXEC_REP, exec_rep_is_valid)

static size_t exec_rep_size(const struct pm_exec_rep *rep)
{
	return sizeof(struct pm_exec_rep_wire) + arrays_size(counts_of(rep)) +
	       (rep->flags & PM_EXEC_INTERP ? sizeof(struct proto_attr_wire) : 0);
}

ssize_t pm_exec_rep_encode(const struct pm_exec_rep *rep, void *buf, size_t cap)
{
	struct proto_attr_wire attr;
	struct pm_exec_rep_wire w;
	uint8_t *pos;

	if (rep->nr_vmas > PM_EXEC_MAX_VMAS || rep->nr_vregions > PM_EXEC_MAX_VREGIONS ||
	    rep->nr_grants > PM_MAX_GRANTS || cap < exec_rep_size(rep))
		return -EMSGSIZE;
	pm_exec_rep_put(rep, &w);
	memcpy(buf, &w, sizeof(w));
	pos = arrays_put(counts_of(rep), rep->vmas, rep->vregions, rep->grants,
			 (uint8_t *)buf + sizeof(w));
	if (rep->flags & PM_EXEC_INTERP) {
		proto_attr_encode(&rep->interp, &attr);
		memcpy(pos, &attr, sizeof(attr));
	}
	return (ssize_t)exec_rep_size(rep);
}

/* The result is large, so it is decoded in place: after a failure @out holds nothing of use. */
int pm_exec_rep_decode(const void *buf, size_t len, struct pm_exec_rep *out)
{
	struct pm_exec_rep_wire w;
	const uint8_t *pos;

	if (len < sizeof(w))
		return -EMSGSIZE;
	memcpy(&w, buf, sizeof(w));
	if (!pm_exec_rep_get(&w, out))
		return -EPROTO;
	if (len != exec_rep_size(out))
		return -EMSGSIZE;
	pos = arrays_get((const uint8_t *)buf + sizeof(w), counts_of(out), out->vmas, out->vregions,
			 out->grants);
	if (!pos)
		return -EPROTO;
	if (out->flags & PM_EXEC_INTERP)
		return proto_attr_decode(pos, sizeof(struct proto_attr_wire), &out->interp);
	return 0;
}

/* --- address space calls --------------------------------------------------------------- */

#define PM_MMAP_REQ(F)                                                                            \
	F(id64, aspace), F(u64, addr), F(u64, len), F(u64, pgoff), F(file, file), F(u64, object), \
		F(u32, prot), F(u32, flags), F(u32, want_credits), F(u32, lease_pages)

/*
 * A lease stands for private memory, anonymous or of a file, at a place that the home chooses, or
 * that must be free.
 */
static bool mmap_lease_is_valid(const struct pm_mmap_req *r)
{
	if (!r->lease_pages)
		return true;
	return !(r->flags & ~(uint32_t)PM_MAP_FIXED_NOREPLACE) && !r->object &&
	       r->lease_pages >= r->len >> PAGE_SHIFT;
}

static bool mmap_req_is_valid(const struct pm_mmap_req *r)
{
	const uint32_t fixed = PM_MAP_FIXED | PM_MAP_FIXED_NOREPLACE;

	if (!page_aligned(r->addr) || !range_is_valid(0, r->len))
		return false;
	if ((r->flags & fixed) && !range_is_valid(r->addr, r->len))
		return false;
	if ((r->prot & ~(uint32_t)PM_PROT_ALL) || (r->flags & ~(uint32_t)PM_MAP_ALL))
		return false;
	if ((r->flags & PM_MAP_READ_ONLY) && !(r->flags & PM_MAP_SHARED))
		return false;
	if (!mmap_lease_is_valid(r))
		return false;
	if (r->object)
		return !r->file.node && object_pages_are_valid(r->pgoff, r->len >> PAGE_SHIFT);
	if (!r->file.node)
		return !r->pgoff;
	return file_pages_are_valid(r->pgoff, r->len >> PAGE_SHIFT);
}

CODEC_FIXED(pm_mmap_req, PM_MMAP_REQ, mmap_req_is_valid)

#define PM_RANGE_REQ(F) \
	F(id64, aspace), F(u64, addr), F(u64, len), F(u32, prot), F(u32, lease_pages)

static bool range_req_is_valid(const struct pm_range_req *r)
{
	const uint64_t lease = (uint64_t)r->lease_pages << PAGE_SHIFT;

	if (lease && (lease < r->len || !range_is_valid(r->addr, lease)))
		return false;
	return range_is_valid(r->addr, r->len) && !(r->prot & ~(uint32_t)PM_PROT_ALL);
}

CODEC_FIXED(pm_range_req, PM_RANGE_REQ, range_req_is_valid)

#define PM_MREMAP_REQ(F)                                                                       \
	F(id64, aspace), F(u64, old_addr), F(u64, old_len), F(u64, new_len), F(u64, new_addr), \
		F(u32, flags), F(u32, want_credits), F(u64, seq)

static bool mremap_req_is_valid(const struct pm_mremap_req *r)
{
	if (!(r->flags & PM_MREMAP_MAYMOVE) != !r->seq)
		return false;
	if (r->flags & ~(uint32_t)PM_MREMAP_ALL)
		return false;
	if (!range_is_valid(r->old_addr, r->old_len) || !range_is_valid(0, r->new_len))
		return false;
	if (!(r->flags & PM_MREMAP_FIXED))
		return !r->new_addr;
	return (r->flags & PM_MREMAP_MAYMOVE) && range_is_valid(r->new_addr, r->new_len);
}

CODEC_FIXED(pm_mremap_req, PM_MREMAP_REQ, mremap_req_is_valid)

#define PM_BRK_REQ(F) F(id64, aspace), F(u64, brk), F(u32, want_credits), F(u32, lease_pages)

CODEC_FIXED(pm_brk_req, PM_BRK_REQ, codec_any)

#define PM_RANGE_REP(F) \
	F(u64, addr), F(u16, nr_vmas), F(u16, nr_vregions), F(u16, nr_grants), F(zero16, reserved)

static bool range_rep_is_valid(const struct pm_range_rep *r)
{
	return r->addr <= PM_USER_TOP && r->nr_vmas <= PM_RANGE_MAX_VMAS &&
	       r->nr_vregions <= PM_RANGE_MAX_VREGIONS && r->nr_grants <= PM_MAX_GRANTS;
}

CODEC_FIELDS(pm_range_rep, PM_RANGE_REP, range_rep_is_valid)

ssize_t pm_range_rep_encode(const struct pm_range_rep *rep, void *buf, size_t cap)
{
	struct pm_range_rep_wire w;

	if (rep->nr_vmas > PM_RANGE_MAX_VMAS || rep->nr_vregions > PM_RANGE_MAX_VREGIONS ||
	    rep->nr_grants > PM_MAX_GRANTS || cap < sizeof(w) + arrays_size(counts_of(rep)))
		return -EMSGSIZE;
	pm_range_rep_put(rep, &w);
	memcpy(buf, &w, sizeof(w));
	return arrays_put(counts_of(rep), rep->vmas, rep->vregions, rep->grants,
			  (uint8_t *)buf + sizeof(w)) -
	       (uint8_t *)buf;
}

/* The result is large, so it is decoded in place: after a failure @out holds nothing of use. */
int pm_range_rep_decode(const void *buf, size_t len, struct pm_range_rep *out)
{
	struct pm_range_rep_wire w;

	if (len < sizeof(w))
		return -EMSGSIZE;
	memcpy(&w, buf, sizeof(w));
	if (!pm_range_rep_get(&w, out))
		return -EPROTO;
	if (len != sizeof(w) + arrays_size(counts_of(out)))
		return -EMSGSIZE;
	return arrays_get((const uint8_t *)buf + sizeof(w), counts_of(out), out->vmas,
			  out->vregions, out->grants)
		       ? 0
		       : -EPROTO;
}

#define PM_VREGIONS_REQ(F)                                                                   \
	F(id64, aspace), F(u64, first), F(id32, count), F(u32, flags), F(u32, want_credits), \
		F(zero32, reserved)

static bool vregions_req_is_valid(const struct pm_vregions_req *r)
{
	if (r->flags & ~(uint32_t)PM_VREGIONS_ALL)
		return false;
	if (!(r->flags & PM_VREGIONS_ACTIVATE) && r->want_credits)
		return false;
	return r->count <= PM_RANGE_MAX_VREGIONS && r->first <= PM_USER_TOP / PM_VREGION_MIN;
}

CODEC_FIXED(pm_vregions_req, PM_VREGIONS_REQ, vregions_req_is_valid)

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
