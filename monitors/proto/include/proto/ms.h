/* SPDX-License-Identifier: MIT */
/*
 * Memory -> storage monitor: fills of the buffer cache, and look-ups for PT_INTERP.
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
