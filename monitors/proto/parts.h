/* SPDX-License-Identifier: MIT */
/*
 * Parts and rules that the messages of several files share.
 */
#pragma once

#include <lib/types.h>
#include <proto/pm.h>

#include "codec.h"

/* --- rules ------------------------------------------------------------------------------- */

static inline bool page_aligned(uint64_t v)
{
	return !(v & PAGE_MASK_LOW);
}

/* A non-empty run of whole pages below the end of user space. */
static inline bool range_is_valid(uint64_t addr, uint64_t len)
{
	return page_aligned(addr) && page_aligned(len) && len && len <= PM_USER_TOP &&
	       addr <= PM_USER_TOP - len;
}

static inline bool page_is_valid(uint64_t vaddr)
{
	return page_aligned(vaddr) && vaddr < PM_USER_TOP;
}

/* Pages [pgoff, pgoff + nr) of a file. */
static inline bool file_pages_are_valid(uint64_t pgoff, uint64_t nr)
{
	return pgoff <= (UINT64_MAX >> PAGE_SHIFT) - nr;
}

/* The count of pages that a reply has filled: @last_bytes of the last one are the file's. */
static inline bool filled_is_valid(uint32_t nr_valid, uint32_t max, uint32_t last_bytes)
{
	if (nr_valid > max)
		return false;
	return nr_valid ? last_bytes && last_bytes <= PAGE_SIZE : !last_bytes;
}

/* A time of a file. */
static inline bool time_is_valid(uint32_t ns)
{
	return ns < 1000000000u;
}

/* A change of a file's contents by an operation of enum proto_file_op. */
static inline bool file_op_is_valid(uint32_t op, uint64_t off, uint64_t len)
{
	if (off > INT64_MAX || len > INT64_MAX - off)
		return false;
	switch (op) {
	case PROTO_FILE_TRUNCATE:
	case PROTO_FILE_SEEK_DATA:
	case PROTO_FILE_SEEK_HOLE:
		return !len;
	case PROTO_FILE_TIME:
		return !off && !len;
	case PROTO_FILE_APPEND:
		return !off && len;
	default:
		return op > PROTO_FILE_APPEND && op < PROTO_FILE_OPS && len;
	}
}

/* The id of a change: both parts or none. */
static inline bool change_id_is_valid(uint64_t client, uint64_t seq)
{
	return !client == !seq;
}

/* --- parts ------------------------------------------------------------------------------- */

/* These two are in hot messages: their fields are stored and loaded without a call. */

#define PROTO_MR_REF(F) F(u64, addr), F(u32, rkey), F(u32, len)

static inline bool mr_ref_is_valid(const struct proto_mr_ref *r)
{
	return r->len == PAGE_SIZE && page_aligned(r->addr);
}

CODEC_FIELDS(proto_mr_ref, PROTO_MR_REF, mr_ref_is_valid)

#define PUT_mr_ref(w, v) proto_mr_ref_put(&(v), &(w))
#define GET_mr_ref(v, w) (!proto_mr_ref_get(&(w), &(v)))

#define PM_GRANT(F) F(node, node), F(u32, frames), F(u64, report)

static inline bool grant_is_valid(const struct pm_grant *g)
{
	return g->node || !g->frames;
}

CODEC_FIELDS(pm_grant, PM_GRANT, grant_is_valid)

#define PUT_grant(w, v) pm_grant_put(&(v), &(w))
#define GET_grant(v, w) (!pm_grant_get(&(w), &(v)))

#define PM_PLACE(F) F(u32, extent), F(u32, rkey), F(u32, frame)

static inline bool place_is_valid(const struct pm_place *p)
{
	if (!p->extent)
		return !p->rkey && !p->frame;
	return p->rkey && p->frame < PM_PLACE_FRAMES_MAX;
}

CODEC_FIELDS(pm_place, PM_PLACE, place_is_valid)

#define PUT_place(w, v) pm_place_put(&(v), &(w))
#define GET_place(v, w) (!pm_place_get(&(w), &(v)))

#define PUT_vma(w, v)     pm_vma_encode(&(v), &(w))
#define GET_vma(v, w)     (pm_vma_decode(&(w), &(v)) != 0)
#define PUT_vregion(w, v) pm_vregion_encode(&(v), &(w))
#define GET_vregion(v, w) (pm_vregion_decode(&(w), &(v)) != 0)

/* Lists (CODEC_ELEMENTS), made beside the part's own codec. */
uint8_t *proto_mr_ref_list_put(const struct proto_mr_ref *list, size_t nr, uint8_t *pos);
const uint8_t *proto_mr_ref_list_get(const uint8_t *pos, size_t nr, struct proto_mr_ref *list);
uint8_t *pm_vma_list_put(const struct pm_vma *list, size_t nr, uint8_t *pos);
const uint8_t *pm_vma_list_get(const uint8_t *pos, size_t nr, struct pm_vma *list);
uint8_t *pm_vregion_list_put(const struct pm_vregion *list, size_t nr, uint8_t *pos);
const uint8_t *pm_vregion_list_get(const uint8_t *pos, size_t nr, struct pm_vregion *list);
