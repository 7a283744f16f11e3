/* SPDX-License-Identifier: MIT */
/*
 * Processor -> global managers (class control): PG_NAME, PG_RELEASE, PG_FIND, PG_LEASE, PG_REPORT.
 *
 * Ports, loopback addresses and abstract AF_UNIX names are a vNode's, which may be on several
 * processors. The managers keep the table that says which processor's socket has which; the
 * processors tell it again to managers that were started again.
 *
 * See:	docs/protocol/pg.md, docs/design/managers.md
 */
#pragma once

#include <proto/types.h>

enum pg_opcode {
	PG_NAME = 0x0700,    /* a socket has a name, or listens with it */
	PG_RELEASE = 0x0701, /* it has none any more */
	PG_FIND = 0x0702,    /* where does a socket listen? */
	PG_LEASE = 0x0703,   /* ports that this processor may choose among */
	PG_REPORT = 0x0704,  /* all that this processor has */
};
static_assert(PG_NAME == PROTO_FIRST_OPCODE(PROTO_PG), "opcodes are ABI");

enum pg_kind {
	PG_TCP = 1,
	PG_UDP = 2,
	PG_UNIX_STREAM = 3, /* abstract names: addr is a hash of the name */
	PG_UNIX_DGRAM = 4,
	PG_UNIX_SEQPACKET = 5,
	PG_GATEWAY = 6, /* no socket's: the processor that has it is the vNode's gateway */
	PG_KINDS,
};

enum pg_name_flags {
	PG_REUSEADDR = 1,
	PG_REUSEPORT = 2,
	PG_V6ONLY = 4,
	PG_LISTENING = 8,
	PG_NAME_ALL = 15,
};

/* Body of PG_NAME. IPv4 addresses are ::ffff:a.b.c.d. */
struct pg_name_wire {
	le64_t id; /* the processor's own for the socket; not 0 */
	le32_t vnode;
	le32_t uid;
	uint8_t addr[16];
	le16_t port; /* of TCP and UDP, else 0 */
	uint8_t kind;
	uint8_t flags;
	le32_t reserved;
};
static_assert(sizeof(struct pg_name_wire) == 40, "PG_NAME is ABI");
/*
 * Errors: -EADDRINUSE; -ENOBUFS: the processor has as many names as it may; -EACCES: the vNode is
 * not on the sender; -EAGAIN: the managers do not know all names yet, or none of the sender;
 * -EPROTO: the id has another name.
 */

struct pg_name {
	uint64_t id;
	uint32_t vnode;
	uint32_t uid;
	uint8_t addr[16];
	uint16_t port;
	uint8_t kind;
	uint8_t flags;
};

struct pg_release_req_wire {
	le64_t id;
	le32_t vnode;
	le32_t reserved;
};
static_assert(sizeof(struct pg_release_req_wire) == 16, "PG_RELEASE is ABI");

struct pg_release_req {
	uint64_t id;
	uint32_t vnode;
};

struct pg_find_req_wire {
	uint8_t addr[16];
	le32_t vnode;
	le16_t port;
	le16_t kind;
};
static_assert(sizeof(struct pg_find_req_wire) == 24, "PG_FIND is ABI");
/* Errors: -ECONNREFUSED: no other processor's socket listens there; -EACCES, -EAGAIN as above. */

struct pg_find_req {
	uint8_t addr[16];
	uint32_t vnode;
	uint16_t port;
	uint16_t kind;
};

struct pg_find_rep_wire {
	le32_t node;
	le32_t reserved;
};
static_assert(sizeof(struct pg_find_rep_wire) == 8, "PG_FIND reply is ABI");

struct pg_find_rep {
	uint32_t node;
};

/* The ports of the system's choice, in runs that are leased. */
#define PG_FIRST_PORT  32768u
#define PG_RUN         256u /* ports in a run */
#define PG_NR_RUNS     110u
#define PG_LEASE_BYTES 16u /* a bit for each run */
static_assert(PG_NR_RUNS <= PG_LEASE_BYTES * 8, "each run has a bit");

struct pg_lease_req_wire {
	le32_t vnode;
	le32_t reserved;
};
static_assert(sizeof(struct pg_lease_req_wire) == 8, "PG_LEASE is ABI");
/* Errors: -ENOSPC: all runs are leased; -EACCES, -EAGAIN as above. */

struct pg_lease_req {
	uint32_t vnode;
};

struct pg_lease_rep_wire {
	le32_t run; /* it begins at PG_FIRST_PORT + run * PG_RUN */
	le32_t reserved;
	uint8_t taken[PG_RUN / 8]; /* ports of it that other processors' sockets have */
};
static_assert(sizeof(struct pg_lease_rep_wire) == 40, "PG_LEASE reply is ABI");

struct pg_lease_rep {
	uint32_t run;
	uint8_t taken[PG_RUN / 8];
};

enum pg_report_flags {
	PG_REPORT_FIRST = 1, /* forget what this processor has told before */
	PG_REPORT_LAST = 2,  /* that is all */
	PG_REPORT_ALL = 3,
};

#define PG_REPORT_MAX 400u /* names in one message */

/* Header, then the names. */
struct pg_report_req_wire {
	le32_t vnode;
	le16_t flags;
	le16_t nr_names;
	uint8_t leases[PG_LEASE_BYTES]; /* runs that the processor has leased */
};
static_assert(sizeof(struct pg_report_req_wire) == 24, "PG_REPORT is ABI");
/* Errors: -ENOBUFS, -EACCES. */

struct pg_report_req { /* 16 KiB: not for a kernel stack */
	uint32_t vnode;
	uint16_t flags;
	uint16_t nr_names;
	uint8_t leases[PG_LEASE_BYTES];
	struct pg_name names[PG_REPORT_MAX];
};

void pg_name_encode(const struct pg_name *m, struct pg_name_wire *w);
int pg_name_decode(const void *buf, size_t len, struct pg_name *out) __must_check;
void pg_release_req_encode(const struct pg_release_req *m, struct pg_release_req_wire *w);
int pg_release_req_decode(const void *buf, size_t len, struct pg_release_req *out) __must_check;
void pg_find_req_encode(const struct pg_find_req *m, struct pg_find_req_wire *w);
int pg_find_req_decode(const void *buf, size_t len, struct pg_find_req *out) __must_check;
void pg_find_rep_encode(const struct pg_find_rep *m, struct pg_find_rep_wire *w);
int pg_find_rep_decode(const void *buf, size_t len, struct pg_find_rep *out) __must_check;
void pg_lease_req_encode(const struct pg_lease_req *m, struct pg_lease_req_wire *w);
int pg_lease_req_decode(const void *buf, size_t len, struct pg_lease_req *out) __must_check;
void pg_lease_rep_encode(const struct pg_lease_rep *m, struct pg_lease_rep_wire *w);
int pg_lease_rep_decode(const void *buf, size_t len, struct pg_lease_rep *out) __must_check;
ssize_t pg_report_req_encode(const struct pg_report_req *m, void *buf, size_t cap) __must_check;
int pg_report_req_decode(const void *buf, size_t len, struct pg_report_req *out) __must_check;
