/* SPDX-License-Identifier: MIT */
/*
 * Memory -> storage monitor: fills of the page cache, and look-ups for PT_INTERP.
 *
 * See:	docs/protocol/ms.md
 */
#pragma once

#include <proto/ps.h>
#include <proto/types.h>

enum ms_opcode {
	MS_READ = 0x0500,
	MS_LOOKUP = 0x0501, /* body and reply as PS_LOOKUP */
};
static_assert(MS_READ == PROTO_FIRST_OPCODE(PROTO_MS), "opcodes are ABI");

#define MS_READ_MAX_PAGES 32

/* Header, then nr_pages memory references (4 KiB each), one per consecutive page from pgoff. */
struct ms_read_req_wire {
	struct proto_file_wire file;
	le64_t pgoff;
	le32_t nr_pages;
	le32_t reserved;
};
static_assert(sizeof(struct ms_read_req_wire) == 32, "MS_READ is ABI");

/* Pages wholly behind the end are not written; the tail of the last one is zero. */
struct ms_read_rep_wire {
	le32_t nr_valid;
	le32_t last_bytes;
	le64_t file_size;
	le64_t version; /* of the file's content */
};
static_assert(sizeof(struct ms_read_rep_wire) == 24, "MS_READ reply is ABI");

/* --- host order, encode and decode: rules as in proto/pm.h ------------------------------------ */

struct ms_read_req {
	struct proto_file file;
	uint64_t pgoff;
	uint32_t nr_pages;
	struct proto_mr_ref pages[MS_READ_MAX_PAGES];
};

ssize_t ms_read_req_encode(const struct ms_read_req *req, void *buf, size_t cap) __must_check;
int ms_read_req_decode(const void *buf, size_t len, struct ms_read_req *out) __must_check;

struct ms_read_rep {
	uint32_t nr_valid;
	uint32_t last_bytes; /* of the last valid page: 1 to 4096; 0 when there is none */
	uint64_t file_size;
	uint64_t version;
};

void ms_read_rep_encode(const struct ms_read_rep *rep, struct ms_read_rep_wire *w);
int ms_read_rep_decode(const void *buf, size_t len, struct ms_read_rep *out) __must_check;
