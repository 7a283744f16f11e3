/* SPDX-License-Identifier: MIT */
/*
 * Processor <-> memory messages that move data: fetch, write-back, credits and file pages.
 *
 * The messages to the home of an address space are in pm.c.
 *
 * See:	docs/protocol/pm.md
 */
#include <proto/pm.h>

#include <lib/errno.h>
#include <lib/string.h>

#include "codec.h"
#include "parts.h"

/* --- PM_FETCH -------------------------------------------------------------------------- */

#define PM_FETCH_REQ(F)                                                                       \
	F(id64, aspace), F(u64, vaddr), F(mr_ref, line), F(u32, flags), F(u32, want_credits), \
		F(u64, victim_aspace), F(u64, victim_vaddr), F(u64, victim_seq)

static bool fetch_req_is_valid(const struct pm_fetch_req *r)
{
	if (!page_is_valid(r->vaddr) || (r->flags & ~(uint32_t)PM_FETCH_ALL))
		return false;
	if (!(r->flags & PM_FETCH_VICTIM))
		return !r->victim_aspace && !r->victim_vaddr && !r->victim_seq;
	return r->victim_aspace && r->victim_seq && page_is_valid(r->victim_vaddr);
}

CODEC_FIXED(pm_fetch_req, PM_FETCH_REQ, fetch_req_is_valid)

#define PM_FETCH_REP(F)                                                          \
	F(u32, result), F(u32, prot), F(grant, grant), F(status, victim_status), \
		F(zero32, reserved), F(place, page), F(place, victim)

static bool fetch_rep_is_valid(const struct pm_fetch_rep *r)
{
	return r->result <= PM_FETCH_FILE && !(r->prot & ~(uint32_t)PM_PROT_ALL) &&
	       (r->result == PM_FETCH_DATA || !r->page.extent) &&
	       (!r->victim_status || !r->victim.extent);
}

CODEC_FIXED(pm_fetch_rep, PM_FETCH_REP, fetch_rep_is_valid)

/* --- PM_FETCH_AHEAD -------------------------------------------------------------------- */

#define PM_AHEAD_PAGE(F) F(u64, vaddr), F(mr_ref, line)

static bool ahead_page_is_valid(const struct pm_ahead_page *page)
{
	return page_is_valid(page->vaddr);
}

CODEC_FIELDS(pm_ahead_page, PM_AHEAD_PAGE, ahead_page_is_valid)
CODEC_PART(static, pm_ahead_page)
CODEC_ELEMENTS(static, pm_ahead_page)

#define PM_FETCH_AHEAD_REQ(F) F(id64, aspace), F(id32, nr_pages), F(zero32, reserved)

CODEC_LIST(pm_fetch_ahead_req, PM_FETCH_AHEAD_REQ, codec_any, pm_ahead_page, pages,
	   PM_FETCH_AHEAD_MAX, codec_any_item)

#define PM_FETCH_AHEAD_REP(F) F(u32, sent), F(zero32, reserved)

CODEC_FIXED(pm_fetch_ahead_rep, PM_FETCH_AHEAD_REP, codec_any)

/* --- PM_FILL_VMA ----------------------------------------------------------------------- */

#define PM_FILL_VMA_REQ(F) F(id64, aspace), F(u64, vaddr)

static bool fill_vma_req_is_valid(const struct pm_fill_vma_req *r)
{
	return page_is_valid(r->vaddr);
}

CODEC_FIXED(pm_fill_vma_req, PM_FILL_VMA_REQ, fill_vma_req_is_valid)
CODEC_ALONE(pm_fill_vma_rep, pm_vma)

/* --- PM_WRITEBACK ---------------------------------------------------------------------- */

#define PM_WRITEBACK_PAGE(F) F(u64, vaddr), F(id64, seq)

static bool writeback_page_is_valid(const struct pm_writeback_page *page)
{
	return page_is_valid(page->vaddr);
}

CODEC_FIELDS(pm_writeback_page, PM_WRITEBACK_PAGE, writeback_page_is_valid)
CODEC_PART(static, pm_writeback_page)
CODEC_ELEMENTS(static, pm_writeback_page)

#define PM_WRITEBACK_REQ(F) F(id64, aspace), F(id32, nr_pages), F(u32, zeroes)

static_assert(PM_WRITEBACK_MAX_PAGES < 32, "a bit for each page");

static bool writeback_req_is_valid(const struct pm_writeback_req *r)
{
	return r->nr_pages <= PM_WRITEBACK_MAX_PAGES && !(r->zeroes >> r->nr_pages);
}

CODEC_LIST(pm_writeback_req, PM_WRITEBACK_REQ, writeback_req_is_valid, pm_writeback_page, pages,
	   PM_WRITEBACK_MAX_PAGES, codec_any_item)

#define PM_STORED(F) F(status, status), F(place, place)

static bool stored_is_valid(const struct pm_stored *s)
{
	return !s->status || !s->place.extent;
}

CODEC_FIELDS(pm_stored, PM_STORED, stored_is_valid)
CODEC_PART(static, pm_stored)
CODEC_ELEMENTS(static, pm_stored)

ssize_t pm_writeback_rep_encode(const struct pm_writeback_rep *rep, void *buf, size_t cap)
{
	struct pm_grant_wire grant;
	size_t len;

	if (rep->nr_pages > PM_WRITEBACK_MAX_PAGES)
		return -EMSGSIZE;
	len = rep->nr_pages * sizeof(struct pm_stored_wire);
	if (cap < len + sizeof(grant))
		return -EMSGSIZE;
	pm_grant_encode(&rep->grant, &grant);
	memcpy(pm_stored_list_put(rep->pages, rep->nr_pages, buf), &grant, sizeof(grant));
	return (ssize_t)(len + sizeof(grant));
}

int pm_writeback_rep_decode(const void *buf, size_t len, struct pm_writeback_rep *out)
{
	struct pm_writeback_rep r = { 0 };
	struct pm_grant_wire grant;
	const uint8_t *pos;

	if (len <= sizeof(grant) || (len - sizeof(grant)) % sizeof(struct pm_stored_wire))
		return -EMSGSIZE;
	if ((len - sizeof(grant)) / sizeof(struct pm_stored_wire) > PM_WRITEBACK_MAX_PAGES)
		return -EMSGSIZE;
	r.nr_pages = (uint32_t)((len - sizeof(grant)) / sizeof(struct pm_stored_wire));
	pos = pm_stored_list_get(buf, r.nr_pages, r.pages);
	if (!pos)
		return -EPROTO;
	memcpy(&grant, pos, sizeof(grant));
	if (pm_grant_decode(&grant, &r.grant))
		return -EPROTO;
	*out = r;
	return 0;
}

/* --- PM_CREDIT, PM_MEMINFO, PM_COMMIT -------------------------------------------------- */

#define PM_CREDIT_REQ(F) F(id64, report), F(u32, hold), F(u32, want)

CODEC_FIXED(pm_credit_req, PM_CREDIT_REQ, codec_any)

#define PM_CREDIT_REP(F) F(id64, report), F(u32, frames), F(zero32, reserved)

CODEC_FIXED(pm_credit_rep, PM_CREDIT_REP, codec_any)

#define MEMINFO_MAX PM_COMMITTED_MAX /* frames: more than physical addresses allow */

#define PM_MEMINFO_REP(F)                                                              \
	F(u64, total), F(u64, free), F(u64, file), F(u64, granted), F(u64, committed), \
		F(u64, programs), F(u64, commit_limit)

static bool meminfo_rep_is_valid(const struct pm_meminfo_rep *r)
{
	return r->total <= MEMINFO_MAX && r->free <= r->total && r->file <= r->total - r->free &&
	       r->granted <= r->total && r->committed <= MEMINFO_MAX && r->programs <= r->total &&
	       r->commit_limit <= MEMINFO_MAX;
}

CODEC_FIXED(pm_meminfo_rep, PM_MEMINFO_REP, meminfo_rep_is_valid)

#define PM_COMMIT_FIELDS(F) \
	F(u64, version), F(u32, mode), F(u32, ratio), F(u64, kbytes), F(u64, programs)

/* The bounds keep the products of commit_limit() below 2^64. */
static bool commit_is_valid(const struct pm_commit *c)
{
	return c->version >> PM_COMMIT_NODE_BITS <= UINT32_MAX && c->mode < PM_COMMIT_MODES &&
	       c->ratio <= INT32_MAX && c->kbytes <= INT64_MAX && c->programs <= MEMINFO_MAX;
}

CODEC_FIXED(pm_commit, PM_COMMIT_FIELDS, commit_is_valid)

/* --- PM_FILE_FETCH --------------------------------------------------------------------- */

#define PM_FILE_FETCH_REQ(F) \
	F(file, file), F(u64, pgoff), F(u64, version), F(id32, nr_pages), F(zero32, reserved)

static bool file_fetch_req_is_valid(const struct pm_file_fetch_req *r)
{
	return r->file.node && r->nr_pages <= PM_FILE_FETCH_MAX &&
	       file_pages_are_valid(r->pgoff, r->nr_pages);
}

CODEC_LIST(pm_file_fetch_req, PM_FILE_FETCH_REQ, file_fetch_req_is_valid, proto_mr_ref, pages,
	   PM_FILE_FETCH_MAX, codec_any_item)

#define PM_FILE_FETCH_REP(F) F(u32, nr_valid), F(u32, last_bytes), F(u64, file_size)

static bool file_fetch_rep_is_valid(const struct pm_file_fetch_rep *r)
{
	return filled_is_valid(r->nr_valid, PM_FILE_FETCH_MAX, r->last_bytes) &&
	       r->file_size <= INT64_MAX;
}

CODEC_FIXED(pm_file_fetch_rep, PM_FILE_FETCH_REP, file_fetch_rep_is_valid)
