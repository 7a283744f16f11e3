/* SPDX-License-Identifier: MIT */
/*
 * Control channel: the frames between the launcher and one node.
 *
 * Flow:	a byte stream per node (virtio-serial port "org.tessera.control"), in order and
 *		reliable, carries nothing but frames: struct ctl_hdr_wire, then len bytes of
 *		payload whose form depends on the type. @prog names one run; the launcher chooses
 *		it (1 and up, not reused on one stream). 0 means the node itself; for CTL_DEBUG it
 *		is the request's number. Streams 0, 1, 2 are the program's stdin, stdout, stderr.
 *		DATA may be sent only against credit: both sides begin with none and the receiver
 *		grants bytes with CTL_CREDIT. RUN, STATS, DEBUG and DEBUG_REPLY may be cut into
 *		several frames of the same type and prog; all but the last carry CTL_F_MORE. No
 *		other frame of that prog comes between.
 * Failure:	decoders check everything (magic, version, type, direction, stream, flags, length,
 *		counts, terminators) and write their result only on success. A stream that breaks
 *		the rules is not resynchronised: the receiver reports the error and closes
 *		(launcher: exit status 125).
 * See:		docs/protocol/control.md; tools/launcher/tessera_launcher/frames.py is the other
 *		end.
 */
#pragma once

#include <lib/byteorder.h>
#include <lib/compiler.h>
#include <lib/types.h>

#define CTL_MAGIC            0x4c435354u /* "TSCL" as bytes on the wire */
#define CTL_VERSION          1
#define CTL_PORT_NAME        "org.tessera.control"
#define CTL_MAX_PAYLOAD      65536u
#define CTL_MAX_RUN          (2u << 20)  /* a whole RUN payload, all frames together */
#define CTL_MAX_TEXT         (1u << 20)  /* a whole STATS, DEBUG or DEBUG_REPLY payload */
#define CTL_MAX_LINE         1024u       /* STATUS, ERROR, REFUSED: one line, without the newline */
#define CTL_MAX_CREDIT       (16u << 20) /* bytes that may be outstanding on one stream */
#define CTL_MAX_SIGNAL       64
#define CTL_NR_STREAMS       3
#define CTL_HELLO_BUILD_SIZE 40

/* Which end sent a frame. */
enum ctl_end {
	CTL_FROM_NODE = 1,
	CTL_FROM_HOST = 2,
};

enum ctl_type {
	CTL_HELLO = 1,        /* node: role, node id, build id; the first frame on the stream */
	CTL_READY = 2,        /* node: the cluster is complete, programs may be run */
	CTL_STATUS = 3,       /* node: one line, what it is doing or waiting for */
	CTL_ERROR = 4,        /* node: one line, why Tessera itself failed */
	CTL_RUN = 5,          /* host: start a program */
	CTL_STARTED = 6,      /* node: the program's first instruction is about to run */
	CTL_REFUSED = 7,      /* node: the program cannot be started: errno, one line */
	CTL_DATA = 8,         /* both: bytes of a stream */
	CTL_CREDIT = 9,       /* both: the sender can take so many more bytes of a stream */
	CTL_EOF = 10,         /* both: no more bytes; from the reader's side: no readers */
	CTL_WINSIZE = 11,     /* host: the terminal changed its size */
	CTL_SIGNAL = 12,      /* host: send a signal to the program */
	CTL_EXIT = 13,        /* node: wait status; the last frame of this program */
	CTL_STATS_REQ = 14,   /* host: send the counters */
	CTL_STATS = 15,       /* node: JSON text */
	CTL_SHUTDOWN = 16,    /* host: stop and power off */
	CTL_DEBUG = 17,       /* host: a test command, text */
	CTL_DEBUG_REPLY = 18, /* node: errno and text */
	CTL_PLACE = 19,       /* host: on which processor shall a program run? */
	CTL_PLACED = 20,      /* node: there */
	CTL_MEMBERS = 21,     /* node that hosts the managers: the members of the cluster */
	CTL_LOST = 22,        /* host: the machine of this incarnation of a node has ended */
	CTL_GATEWAY = 23,     /* node: this processor is the vNode's gateway from now on */
	CTL_ADDRESSES = 24,   /* the gateway: the vNode's addresses outside */
	CTL_TYPE_END,
};

enum ctl_role {
	CTL_ROLE_PROCESSOR = 1,
	CTL_ROLE_MEMORY = 2,
	CTL_ROLE_STORAGE = 3,
};

#define CTL_F_MORE 0x01 /* the payload continues in the next frame of this type and program */

struct ctl_hdr_wire {
	le32_t magic;
	uint8_t version;
	uint8_t type;
	uint8_t stream; /* 0 unless the type names a stream */
	uint8_t flags;
	le32_t prog;
	le32_t len; /* payload bytes after this header */
} __packed;
static_assert(sizeof(struct ctl_hdr_wire) == 16, "ctl_hdr_wire is wire layout");
static_assert(offsetof(struct ctl_hdr_wire, prog) == 8, "ctl_hdr_wire is wire layout");

struct ctl_hello_wire {
	uint8_t role;
	uint8_t reserved[3]; /* 0 */
	le32_t node;
	le64_t incarnation;
	char build[CTL_HELLO_BUILD_SIZE]; /* text, padded with NULs, at least one */
} __packed;
static_assert(sizeof(struct ctl_hello_wire) == 56, "ctl_hello_wire is wire layout");
static_assert(offsetof(struct ctl_hello_wire, incarnation) == 8, "ctl_hello_wire is wire layout");

struct ctl_ready_wire {
	le32_t epoch;
	le16_t nr_processors;
	le16_t nr_memories;
	le16_t nr_storages;
	le16_t reserved; /* 0 */
} __packed;
static_assert(sizeof(struct ctl_ready_wire) == 12, "ctl_ready_wire is wire layout");

#define CTL_RUN_TTY 0x01 /* streams 0 and 1 are one terminal; stream 2 is unused */

/* Followed by NUL-terminated strings: path, cwd, argc arguments, envc settings; no byte more. */
struct ctl_run_wire {
	le32_t flags;
	le32_t uid;
	le32_t gid;
	le32_t umask;
	le16_t rows;
	le16_t cols;
	le32_t argc;
	le32_t envc;
	le32_t reserved; /* 0 */
} __packed;
static_assert(sizeof(struct ctl_run_wire) == 32, "ctl_run_wire is wire layout");
static_assert(offsetof(struct ctl_run_wire, argc) == 20, "ctl_run_wire is wire layout");

struct ctl_started_wire {
	le32_t pid;
	le32_t reserved;  /* 0 */
	le64_t uptime_ns; /* of the node, when the program started */
} __packed;
static_assert(sizeof(struct ctl_started_wire) == 16, "ctl_started_wire is wire layout");

/* REFUSED and DEBUG_REPLY: an errno (positive, 0 for success), then text. */
struct ctl_errno_wire {
	le32_t err;
} __packed;
static_assert(sizeof(struct ctl_errno_wire) == 4, "ctl_errno_wire is wire layout");

/* The request is numbered by its prog, as a DEBUG is. */
struct ctl_place_wire {
	le32_t vnode;    /* not 0 */
	le32_t reserved; /* 0 */
} __packed;
static_assert(sizeof(struct ctl_place_wire) == 8, "ctl_place_wire is wire layout");

struct ctl_placed_wire {
	le32_t err;  /* 0, or a positive errno */
	le32_t node; /* cluster-wide id; 0 with an errno, else not */
} __packed;
static_assert(sizeof(struct ctl_placed_wire) == 8, "ctl_placed_wire is wire layout");

struct ctl_placed {
	uint32_t err;
	uint32_t node;
};

/* Followed by the members, ascending by node; at least one, the sender. */
struct ctl_members_wire {
	le32_t epoch;
	le32_t reserved; /* 0 */
} __packed;
static_assert(sizeof(struct ctl_members_wire) == 8, "ctl_members_wire is wire layout");

/* One member; also the payload of LOST. */
struct ctl_member_wire {
	le32_t node;   /* cluster-wide id, not 0 */
	le32_t incarn; /* not 0 */
} __packed;
static_assert(sizeof(struct ctl_member_wire) == 8, "ctl_member_wire is wire layout");

#define CTL_MAX_MEMBERS 512u

struct ctl_member {
	uint32_t node;
	uint32_t incarn;
};

struct ctl_members { /* about 4 KiB: not for a kernel stack */
	uint32_t epoch;
	uint32_t nr;
	struct ctl_member members[CTL_MAX_MEMBERS];
};

/* Of ADDRESSES: each is an IPv6 address, or an IPv4 one mapped into it. */
#define CTL_ADDRESS_LEN   16u
#define CTL_MAX_ADDRESSES 128u

struct ctl_credit_wire {
	le32_t bytes;
} __packed;
static_assert(sizeof(struct ctl_credit_wire) == 4, "ctl_credit_wire is wire layout");

struct ctl_winsize_wire {
	le16_t rows;
	le16_t cols;
	le16_t xpixel;
	le16_t ypixel;
} __packed;
static_assert(sizeof(struct ctl_winsize_wire) == 8, "ctl_winsize_wire is wire layout");

struct ctl_signal_wire {
	le32_t signo;
} __packed;
static_assert(sizeof(struct ctl_signal_wire) == 4, "ctl_signal_wire is wire layout");

struct ctl_exit_wire {
	/* as Linux's wait4 reports it: code << 8, or signal | 0x80 if it dumped core */
	le32_t status;
	le32_t reserved; /* 0 */
	le64_t lifetime_ns;
} __packed;
static_assert(sizeof(struct ctl_exit_wire) == 16, "ctl_exit_wire is wire layout");

/* Decoded forms. */
struct ctl_hdr {
	uint8_t type;
	uint8_t stream;
	uint8_t flags;
	uint32_t prog;
	uint32_t len;
};

struct ctl_hello {
	uint8_t role;
	uint32_t node;
	uint64_t incarnation;
	char build[CTL_HELLO_BUILD_SIZE];
};

struct ctl_ready {
	uint32_t epoch;
	uint16_t nr_processors;
	uint16_t nr_memories;
	uint16_t nr_storages;
};

struct ctl_winsize {
	uint16_t rows;
	uint16_t cols;
	uint16_t xpixel;
	uint16_t ypixel;
};

/* Strings point into the decoded payload and live as long as it does. */
struct ctl_run {
	uint32_t flags;
	uint32_t uid;
	uint32_t gid;
	uint32_t umask;
	uint16_t rows;
	uint16_t cols;
	uint32_t argc;
	uint32_t envc;
	const char *path; /* absolute, the file to execute */
	const char *cwd;  /* absolute */
	const char *argv; /* argc strings one after the other: ctl_string_next() */
	const char *envp; /* envc strings likewise, NAME=VALUE */
};

struct ctl_started {
	uint32_t pid;
	uint64_t uptime_ns;
};

struct ctl_exit {
	uint32_t status;
	uint64_t lifetime_ns;
};

/* The string after @s in a run of NUL-terminated strings. */
const char *ctl_string_next(const char *s);

void ctl_hdr_encode(const struct ctl_hdr *hdr, struct ctl_hdr_wire *w);

/*
 * Decode the header of a frame that came from @end.  -EMSGSIZE: fewer bytes than a header;
 * -EPROTO: anything else that is wrong, the payload length for this type included.
 */
int __must_check ctl_hdr_decode(const void *buf, size_t len, enum ctl_end end, struct ctl_hdr *out);

/*
 * Payloads.  A decoder gets the whole payload (frames joined) and answers -EMSGSIZE for a wrong
 * length and -EPROTO for a wrong value.
 */
void ctl_hello_encode(const struct ctl_hello *hello, struct ctl_hello_wire *w);
int __must_check ctl_hello_decode(const void *buf, size_t len, struct ctl_hello *out);

void ctl_ready_encode(const struct ctl_ready *ready, struct ctl_ready_wire *w);
int __must_check ctl_ready_decode(const void *buf, size_t len, struct ctl_ready *out);

/* Encode into @buf and return the length; -EMSGSIZE if it does not fit @cap or CTL_MAX_RUN. */
ssize_t __must_check ctl_run_encode(const struct ctl_run *run, void *buf, size_t cap);
int __must_check ctl_run_decode(const void *buf, size_t len, struct ctl_run *out);

void ctl_started_encode(const struct ctl_started *started, struct ctl_started_wire *w);
int __must_check ctl_started_decode(const void *buf, size_t len, struct ctl_started *out);

void ctl_place_encode(uint32_t vnode, struct ctl_place_wire *w);
int __must_check ctl_place_decode(const void *buf, size_t len, uint32_t *vnode);
void ctl_placed_encode(const struct ctl_placed *placed, struct ctl_placed_wire *w);
int __must_check ctl_placed_decode(const void *buf, size_t len, struct ctl_placed *out);
/* The length of what is in @buf then; -EMSGSIZE: it does not fit. */
ssize_t __must_check ctl_members_encode(const struct ctl_members *m, void *buf, size_t cap);
int __must_check ctl_members_decode(const void *buf, size_t len, struct ctl_members *out);
/* How many addresses a payload of @len bytes has. -EMSGSIZE: it has none of that length. */
int __must_check ctl_addresses_decode(size_t len, uint32_t *nr);
void ctl_member_encode(const struct ctl_member *m, struct ctl_member_wire *w);
int __must_check ctl_member_decode(const void *buf, size_t len, struct ctl_member *out);
void ctl_errno_encode(uint32_t err, struct ctl_errno_wire *w);
int __must_check ctl_errno_decode(const void *buf, size_t len, uint32_t *err);

void ctl_credit_encode(uint32_t bytes, struct ctl_credit_wire *w);
int __must_check ctl_credit_decode(const void *buf, size_t len, uint32_t *bytes);

void ctl_winsize_encode(const struct ctl_winsize *ws, struct ctl_winsize_wire *w);
int __must_check ctl_winsize_decode(const void *buf, size_t len, struct ctl_winsize *out);

void ctl_signal_encode(uint32_t signo, struct ctl_signal_wire *w);
int __must_check ctl_signal_decode(const void *buf, size_t len, uint32_t *signo);

void ctl_exit_encode(const struct ctl_exit *ex, struct ctl_exit_wire *w);
int __must_check ctl_exit_decode(const void *buf, size_t len, struct ctl_exit *out);
