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

static bool page_is_valid(uint64_t vaddr)
{
	return !(vaddr & PAGE_MASK_LOW) && vaddr < PM_USER_TOP;
}

/* --- PM_FETCH -------------------------------------------------------------------------- */

void pm_fetch_req_encode(const struct pm_fetch_req *req, struct pm_fetch_req_wire *w)
{
	w->aspace = cpu_to_le64(req->aspace);
	w->vaddr = cpu_to_le64(req->vaddr);
	proto_mr_ref_encode(&req->line, &w->line);
	w->flags = cpu_to_le32(req->flags);
	w->want_credits = cpu_to_le32(req->want_credits);
	w->victim_aspace = cpu_to_le64(req->victim_aspace);
	w->victim_vaddr = cpu_to_le64(req->victim_vaddr);
	w->victim_seq = cpu_to_le64(req->victim_seq);
}

static bool victim_is_valid(const struct pm_fetch_req *r)
{
	if (!(r->flags & PM_FETCH_VICTIM))
		return !r->victim_aspace && !r->victim_vaddr && !r->victim_seq;
	return r->victim_aspace && r->victim_seq && page_is_valid(r->victim_vaddr);
}

int pm_fetch_req_decode(const void *buf, size_t len, struct pm_fetch_req *out)
{
	struct pm_fetch_req_wire w;
	struct pm_fetch_req r;

	if (len != sizeof(w))
		return -EMSGSIZE;
	memcpy(&w, buf, sizeof(w));
	r.aspace = le64_to_cpu(w.aspace);
	r.vaddr = le64_to_cpu(w.vaddr);
	r.flags = le32_to_cpu(w.flags);
	r.want_credits = le32_to_cpu(w.want_credits);
	r.victim_aspace = le64_to_cpu(w.victim_aspace);
	r.victim_vaddr = le64_to_cpu(w.victim_vaddr);
	r.victim_seq = le64_to_cpu(w.victim_seq);
	if (!r.aspace || !page_is_valid(r.vaddr) || proto_mr_ref_decode(&w.line, &r.line))
		return -EPROTO;
	if ((r.flags & ~(uint32_t)PM_FETCH_ALL) || !victim_is_valid(&r))
		return -EPROTO;
	*out = r;
	return 0;
}

void pm_fetch_rep_encode(const struct pm_fetch_rep *rep, struct pm_fetch_rep_wire *w)
{
	w->result = cpu_to_le32(rep->result);
	w->prot = cpu_to_le32(rep->prot);
	pm_grant_encode(&rep->grant, &w->grant);
	w->victim_status = proto_status_encode(rep->victim_status);
	w->reserved = cpu_to_le32(0);
}

int pm_fetch_rep_decode(const void *buf, size_t len, struct pm_fetch_rep *out)
{
	struct pm_fetch_rep_wire w;
	struct pm_fetch_rep r;

	if (len != sizeof(w))
		return -EMSGSIZE;
	memcpy(&w, buf, sizeof(w));
	r.result = le32_to_cpu(w.result);
	r.prot = le32_to_cpu(w.prot);
	if (r.result > PM_FETCH_FILE || (r.prot & ~(uint32_t)PM_PROT_ALL))
		return -EPROTO;
	if (pm_grant_decode(&w.grant, &r.grant) || le32_to_cpu(w.reserved))
		return -EPROTO;
	if (proto_status_decode(w.victim_status, &r.victim_status))
		return -EPROTO;
	*out = r;
	return 0;
}

/* --- PM_FILL_VMA ----------------------------------------------------------------------- */

void pm_fill_vma_req_encode(const struct pm_fill_vma_req *req, struct pm_fill_vma_req_wire *w)
{
	w->aspace = cpu_to_le64(req->aspace);
	w->vaddr = cpu_to_le64(req->vaddr);
}

int pm_fill_vma_req_decode(const void *buf, size_t len, struct pm_fill_vma_req *out)
{
	struct pm_fill_vma_req_wire w;
	struct pm_fill_vma_req r;

	if (len != sizeof(w))
		return -EMSGSIZE;
	memcpy(&w, buf, sizeof(w));
	r.aspace = le64_to_cpu(w.aspace);
	r.vaddr = le64_to_cpu(w.vaddr);
	if (!r.aspace || !page_is_valid(r.vaddr))
		return -EPROTO;
	*out = r;
	return 0;
}

int pm_fill_vma_rep_decode(const void *buf, size_t len, struct pm_vma *out)
{
	struct pm_vma_wire w;

	if (len != sizeof(w))
		return -EMSGSIZE;
	memcpy(&w, buf, sizeof(w));
	return pm_vma_decode(&w, out);
}

/* --- PM_WRITEBACK ---------------------------------------------------------------------- */

ssize_t pm_writeback_req_encode(const struct pm_writeback_req *req, void *buf, size_t cap)
{
	struct pm_writeback_page_wire pages[PM_WRITEBACK_MAX_PAGES];
	struct pm_writeback_req_wire w;
	size_t pages_len;

	if (req->nr_pages > PM_WRITEBACK_MAX_PAGES)
		return -EMSGSIZE;
	pages_len = req->nr_pages * sizeof(pages[0]);
	if (cap < sizeof(w) + pages_len)
		return -EMSGSIZE;
	w.aspace = cpu_to_le64(req->aspace);
	w.nr_pages = cpu_to_le32(req->nr_pages);
	w.reserved = cpu_to_le32(0);
	for (uint32_t i = 0; i < req->nr_pages; i++) {
		pages[i].vaddr = cpu_to_le64(req->pages[i].vaddr);
		pages[i].seq = cpu_to_le64(req->pages[i].seq);
	}
	memcpy(buf, &w, sizeof(w));
	memcpy((uint8_t *)buf + sizeof(w), pages, pages_len);
	return (ssize_t)(sizeof(w) + pages_len);
}

int pm_writeback_req_decode(const void *buf, size_t len, struct pm_writeback_req *out)
{
	struct pm_writeback_page_wire pages[PM_WRITEBACK_MAX_PAGES];
	struct pm_writeback_req_wire w;
	struct pm_writeback_req r = { 0 };

	if (len < sizeof(w))
		return -EMSGSIZE;
	memcpy(&w, buf, sizeof(w));
	r.aspace = le64_to_cpu(w.aspace);
	r.nr_pages = le32_to_cpu(w.nr_pages);
	if (!r.aspace || !r.nr_pages || r.nr_pages > PM_WRITEBACK_MAX_PAGES ||
	    le32_to_cpu(w.reserved))
		return -EPROTO;
	if (len != sizeof(w) + r.nr_pages * sizeof(pages[0]))
		return -EMSGSIZE;
	memcpy(pages, (const uint8_t *)buf + sizeof(w), r.nr_pages * sizeof(pages[0]));
	for (uint32_t i = 0; i < r.nr_pages; i++) {
		r.pages[i].vaddr = le64_to_cpu(pages[i].vaddr);
		r.pages[i].seq = le64_to_cpu(pages[i].seq);
		if (!page_is_valid(r.pages[i].vaddr) || !r.pages[i].seq)
			return -EPROTO;
	}
	*out = r;
	return 0;
}

ssize_t pm_writeback_rep_encode(const struct pm_writeback_rep *rep, void *buf, size_t cap)
{
	le32_t status[PM_WRITEBACK_MAX_PAGES];
	struct pm_grant_wire grant;
	size_t status_len;

	if (rep->nr_pages > PM_WRITEBACK_MAX_PAGES)
		return -EMSGSIZE;
	status_len = rep->nr_pages * sizeof(status[0]);
	if (cap < status_len + sizeof(grant))
		return -EMSGSIZE;
	for (uint32_t i = 0; i < rep->nr_pages; i++)
		status[i] = proto_status_encode(rep->status[i]);
	pm_grant_encode(&rep->grant, &grant);
	memcpy(buf, status, status_len);
	memcpy((uint8_t *)buf + status_len, &grant, sizeof(grant));
	return (ssize_t)(status_len + sizeof(grant));
}

int pm_writeback_rep_decode(const void *buf, size_t len, struct pm_writeback_rep *out)
{
	struct pm_writeback_rep r = { 0 };
	struct pm_grant_wire grant;
	le32_t status;

	if (len <= sizeof(grant) || (len - sizeof(grant)) % sizeof(status))
		return -EMSGSIZE;
	if ((len - sizeof(grant)) / sizeof(status) > PM_WRITEBACK_MAX_PAGES)
		return -EMSGSIZE;
	r.nr_pages = (uint32_t)((len - sizeof(grant)) / sizeof(status));
	for (uint32_t i = 0; i < r.nr_pages; i++) {
		memcpy(&status, (const uint8_t *)buf + i * sizeof(status), sizeof(status));
		if (proto_status_decode(status, &r.status[i]))
			return -EPROTO;
	}
	memcpy(&grant, (const uint8_t *)buf + len - sizeof(grant), sizeof(grant));
	if (pm_grant_decode(&grant, &r.grant))
		return -EPROTO;
	*out = r;
	return 0;
}

/* --- PM_CREDIT ------------------------------------------------------------------------- */

void pm_credit_req_encode(const struct pm_credit_req *req, struct pm_credit_req_wire *w)
{
	w->want = cpu_to_le32(req->want);
	w->give = cpu_to_le32(req->give);
}

int pm_credit_req_decode(const void *buf, size_t len, struct pm_credit_req *out)
{
	struct pm_credit_req_wire w;

	if (len != sizeof(w))
		return -EMSGSIZE;
	memcpy(&w, buf, sizeof(w));
	out->want = le32_to_cpu(w.want);
	out->give = le32_to_cpu(w.give);
	return 0;
}

int pm_credit_rep_decode(const void *buf, size_t len, struct pm_grant *out)
{
	struct pm_grant_wire w;

	if (len != sizeof(w))
		return -EMSGSIZE;
	memcpy(&w, buf, sizeof(w));
	return pm_grant_decode(&w, out);
}

/* --- PM_MEMINFO ------------------------------------------------------------------------ */

#define MEMINFO_MAX (1ull << 44) /* frames: more than physical addresses allow */

void pm_meminfo_rep_encode(const struct pm_meminfo_rep *rep, struct pm_meminfo_rep_wire *w)
{
	w->total = cpu_to_le64(rep->total);
	w->free = cpu_to_le64(rep->free);
	w->file = cpu_to_le64(rep->file);
	w->promised = cpu_to_le64(rep->promised);
	w->committed = cpu_to_le64(rep->committed);
}

int pm_meminfo_rep_decode(const void *buf, size_t len, struct pm_meminfo_rep *out)
{
	struct pm_meminfo_rep_wire w;
	struct pm_meminfo_rep r;

	if (len != sizeof(w))
		return -EMSGSIZE;
	memcpy(&w, buf, sizeof(w));
	r.total = le64_to_cpu(w.total);
	r.free = le64_to_cpu(w.free);
	r.file = le64_to_cpu(w.file);
	r.promised = le64_to_cpu(w.promised);
	r.committed = le64_to_cpu(w.committed);
	if (r.total > MEMINFO_MAX || r.free > r.total || r.file > r.total - r.free ||
	    r.promised > r.total || r.committed > MEMINFO_MAX)
		return -EPROTO;
	*out = r;
	return 0;
}

/* --- PM_FILE_FETCH --------------------------------------------------------------------- */

ssize_t pm_file_fetch_req_encode(const struct pm_file_fetch_req *req, void *buf, size_t cap)
{
	struct pm_file_fetch_req_wire w;
	uint8_t *pos = buf;
	size_t len;

	if (req->nr_pages > PM_FILE_FETCH_MAX)
		return -EMSGSIZE;
	len = sizeof(w) + req->nr_pages * sizeof(struct proto_mr_ref_wire);
	if (cap < len)
		return -EMSGSIZE;
	proto_file_encode(&req->file, &w.file);
	w.pgoff = cpu_to_le64(req->pgoff);
	w.version = cpu_to_le64(req->version);
	w.nr_pages = cpu_to_le32(req->nr_pages);
	w.reserved = cpu_to_le32(0);
	memcpy(pos, &w, sizeof(w));
	pos += sizeof(w);
	proto_mr_refs_encode(req->pages, req->nr_pages, pos);
	return (ssize_t)len;
}

int pm_file_fetch_req_decode(const void *buf, size_t len, struct pm_file_fetch_req *out)
{
	struct pm_file_fetch_req_wire w;
	struct pm_file_fetch_req r = { 0 };
	const uint8_t *pos = buf;

	if (len < sizeof(w))
		return -EMSGSIZE;
	memcpy(&w, pos, sizeof(w));
	pos += sizeof(w);
	r.pgoff = le64_to_cpu(w.pgoff);
	r.version = le64_to_cpu(w.version);
	r.nr_pages = le32_to_cpu(w.nr_pages);
	if (proto_file_decode(&w.file, &r.file) || !r.file.node || le32_to_cpu(w.reserved))
		return -EPROTO;
	if (!r.nr_pages || r.nr_pages > PM_FILE_FETCH_MAX ||
	    r.pgoff > (UINT64_MAX >> PAGE_SHIFT) - r.nr_pages)
		return -EPROTO;
	if (len != sizeof(w) + r.nr_pages * sizeof(struct proto_mr_ref_wire))
		return -EMSGSIZE;
	if (proto_mr_refs_decode(pos, r.nr_pages, r.pages))
		return -EPROTO;
	*out = r;
	return 0;
}

void pm_file_fetch_rep_encode(const struct pm_file_fetch_rep *rep, struct pm_file_fetch_rep_wire *w)
{
	w->nr_valid = cpu_to_le32(rep->nr_valid);
	w->last_bytes = cpu_to_le32(rep->last_bytes);
	w->file_size = cpu_to_le64(rep->file_size);
}

int pm_file_fetch_rep_decode(const void *buf, size_t len, struct pm_file_fetch_rep *out)
{
	struct pm_file_fetch_rep_wire w;
	struct pm_file_fetch_rep r;

	if (len != sizeof(w))
		return -EMSGSIZE;
	memcpy(&w, buf, sizeof(w));
	r.nr_valid = le32_to_cpu(w.nr_valid);
	r.last_bytes = le32_to_cpu(w.last_bytes);
	r.file_size = le64_to_cpu(w.file_size);
	if (r.nr_valid > PM_FILE_FETCH_MAX || r.file_size > INT64_MAX)
		return -EPROTO;
	if (r.nr_valid ? !r.last_bytes || r.last_bytes > PAGE_SIZE : r.last_bytes != 0)
		return -EPROTO;
	*out = r;
	return 0;
}
