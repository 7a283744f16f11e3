/* SPDX-License-Identifier: MIT */
/*
 * Memory <-> storage messages: encode and decode.
 *
 * See:	docs/protocol/ms.md
 */
#include <proto/ms.h>

#include <lib/errno.h>
#include <lib/string.h>

ssize_t ms_read_req_encode(const struct ms_read_req *req, void *buf, size_t cap)
{
	struct ms_read_req_wire w;
	uint8_t *pos = buf;
	size_t len;

	if (req->nr_pages > MS_READ_MAX_PAGES)
		return -EMSGSIZE;
	len = sizeof(w) + req->nr_pages * sizeof(struct proto_mr_ref_wire);
	if (cap < len)
		return -EMSGSIZE;
	proto_file_encode(&req->file, &w.file);
	w.pgoff = cpu_to_le64(req->pgoff);
	w.nr_pages = cpu_to_le32(req->nr_pages);
	w.reserved = cpu_to_le32(0);
	memcpy(pos, &w, sizeof(w));
	pos += sizeof(w);
	proto_mr_refs_encode(req->pages, req->nr_pages, pos);
	return (ssize_t)len;
}

int ms_read_req_decode(const void *buf, size_t len, struct ms_read_req *out)
{
	struct ms_read_req_wire w;
	struct ms_read_req r = { 0 };
	const uint8_t *pos = buf;

	if (len < sizeof(w))
		return -EMSGSIZE;
	memcpy(&w, pos, sizeof(w));
	pos += sizeof(w);
	r.pgoff = le64_to_cpu(w.pgoff);
	r.nr_pages = le32_to_cpu(w.nr_pages);
	if (proto_file_decode(&w.file, &r.file) || !r.file.node || le32_to_cpu(w.reserved))
		return -EPROTO;
	if (!r.nr_pages || r.nr_pages > MS_READ_MAX_PAGES ||
	    r.pgoff > (UINT64_MAX >> PAGE_SHIFT) - r.nr_pages)
		return -EPROTO;
	if (len != sizeof(w) + r.nr_pages * sizeof(struct proto_mr_ref_wire))
		return -EMSGSIZE;
	if (proto_mr_refs_decode(pos, r.nr_pages, r.pages))
		return -EPROTO;
	*out = r;
	return 0;
}

void ms_read_rep_encode(const struct ms_read_rep *rep, struct ms_read_rep_wire *w)
{
	w->nr_valid = cpu_to_le32(rep->nr_valid);
	w->last_bytes = cpu_to_le32(rep->last_bytes);
	w->file_size = cpu_to_le64(rep->file_size);
	w->version = cpu_to_le64(rep->version);
}

int ms_read_rep_decode(const void *buf, size_t len, struct ms_read_rep *out)
{
	struct ms_read_rep_wire w;
	struct ms_read_rep r;

	if (len != sizeof(w))
		return -EMSGSIZE;
	memcpy(&w, buf, sizeof(w));
	r.nr_valid = le32_to_cpu(w.nr_valid);
	r.last_bytes = le32_to_cpu(w.last_bytes);
	r.file_size = le64_to_cpu(w.file_size);
	r.version = le64_to_cpu(w.version);
	if (r.nr_valid > MS_READ_MAX_PAGES || r.file_size > INT64_MAX)
		return -EPROTO;
	if (r.nr_valid ? !r.last_bytes || r.last_bytes > PAGE_SIZE : r.last_bytes != 0)
		return -EPROTO;
	*out = r;
	return 0;
}
