/* SPDX-License-Identifier: MIT */
/*
 * Memory monitor -> processor (class control): MP_OOM, MP_REVOKE.
 *
 * A memory node that has no frame left, can drop no page of a file and can hand no vRegion to
 * another node asks the processors whose programs have frames there which of them has to end, and
 * then has the worst one ended.
 *
 * Before it takes an extent back that a processor may read, or frees a frame in it that the
 * processor does not know to be free, it has the processor forget the places there.
 *
 * See:	docs/protocol/mp.md, docs/design/memory.md
 */
#pragma once

#include <proto/types.h>

enum mp_opcode {
	MP_OOM = 0x0600,
	MP_REVOKE = 0x0601,
};
static_assert(MP_OOM == PROTO_FIRST_OPCODE(PROTO_MP), "opcodes are ABI");

enum mp_oom_flags {
	MP_OOM_END = 1, /* end @pid, which an answer has named; else: which one? */
	MP_OOM_ALL = 1,
};

struct mp_oom_req_wire {
	le64_t total; /* frames that programs may have at the sender */
	le32_t flags; /* enum mp_oom_flags */
	le32_t pid;   /* 0 without MP_OOM_END */
};
static_assert(sizeof(struct mp_oom_req_wire) == 16, "MP_OOM is ABI");

enum mp_oom_state {
	MP_OOM_NONE,      /* no program here has frames there, or all are spared */
	MP_OOM_CANDIDATE, /* the one that the reply names */
	MP_OOM_ENDING,    /* frames are on their way: wait */
	MP_OOM_STATES,
};

struct mp_oom_rep_wire {
	le64_t badness; /* two's complement; the largest has to end */
	le64_t frames;  /* that it has at the sender */
	le32_t pid;     /* 0: none */
	le32_t state;   /* enum mp_oom_state */
};
static_assert(sizeof(struct mp_oom_rep_wire) == 24, "MP_OOM reply is ABI");
/* Errors: -ESRCH: @pid is gone, or has no frames there; -EPERM: the sender is no memory node. */

/* No reply body. When it is answered the receiver reads no more there. Repeatable. */
struct mp_revoke_req_wire {
	le32_t extent; /* struct pm_place_wire.extent of the sender; not 0 */
	le32_t flags;  /* enum mp_revoke_flags */
};
static_assert(sizeof(struct mp_revoke_req_wire) == 8, "MP_REVOKE is ABI");

enum mp_revoke_flags {
	MP_REVOKE_BELOW = 1, /* and all with lower numbers */
	MP_REVOKE_ALL = 1,
};

struct mp_revoke_req {
	uint32_t extent;
	uint32_t flags;
};

void mp_revoke_req_encode(const struct mp_revoke_req *req, struct mp_revoke_req_wire *w);
int mp_revoke_req_decode(const void *buf, size_t len, struct mp_revoke_req *out) __must_check;

struct mp_oom_req {
	uint64_t total;
	uint32_t flags;
	uint32_t pid;
};

struct mp_oom_rep {
	int64_t badness;
	uint64_t frames;
	uint32_t pid;
	uint32_t state;
};

void mp_oom_req_encode(const struct mp_oom_req *req, struct mp_oom_req_wire *w);
int mp_oom_req_decode(const void *buf, size_t len, struct mp_oom_req *out) __must_check;
void mp_oom_rep_encode(const struct mp_oom_rep *rep, struct mp_oom_rep_wire *w);
int mp_oom_rep_decode(const void *buf, size_t len, struct mp_oom_rep *out) __must_check;
