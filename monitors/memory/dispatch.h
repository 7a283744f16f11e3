/* SPDX-License-Identifier: MIT */
/*
 * Messages to a memory monitor: the table of them, and what a handler works with.
 *
 * Flow:	a request comes from the RPC layer (transport.c) or from this node itself
 *		(memory_call()); its table entry says how it is decoded and which handler acts on
 *		it. Handlers of messages that carry pages are called by the RPC layer directly
 *		(msg_data.c).
 * Context:	a thread that may sleep; it holds no lock.
 * See:		docs/protocol/pm.md, docs/protocol/mm.md
 */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>
#include <net/rpc.h>
#include <proto/pm.h>

struct histogram;
struct memory;

/* One message being served. */
struct msg {
	struct memory *m;
	uint32_t peer;    /* checked: the node at the other end of the connection, or this one */
	uint32_t incarn;  /* of the peer when the request came; 0: not known, as of this node */
	const void *body; /* as it came; a handler that passes it on has had it decoded */
	uint32_t len;
	const void *bulk;
	uint32_t bulk_len;
	void *req; /* decoded: the structure that the table names */
	void *reply;
	uint32_t reply_max;
	uint32_t error_len; /* bytes of @reply that go with a negative errno */
};

/* Beside the RPC layer's flags (enum rpc_handler_flags), which are the low byte. */
#define MSG_RPC_FLAGS   0xffu
#define MSG_FROM_MEMORY (1u << 8) /* taken from memory nodes only: -EPERM */
#define MSG_RESERVE     (1u << 9) /* must not fail for want of memory for the decoded request */
/* Taken from the home of the space only: -EPERM. The request begins with the space's id. */
#define MSG_FROM_HOME   (1u << 10)

/*
 * Where a request says to which vNode belongs what it names. The dispatcher asks the view whether
 * the sender has that vNode, before the handler runs.
 */
enum msg_vnode {
	MSG_VNODE_UNSAID,    /* no entry may say so: nothing passes */
	MSG_VNODE_NONE,      /* it names nothing of a vNode */
	MSG_VNODE_NAMED,     /* by its number */
	MSG_VNODE_SPACES,    /* spaces, whose home this is */
	MSG_VNODE_OWN_END,   /* the sender's own spaces, which end: not compared */
	MSG_VNODE_REGION,    /* a vRegion; the owner looks it up only once: region_check_sender() */
	MSG_VNODE_HANDLE,    /* a file's handle, with which the request begins */
	MSG_VNODE_BY_MEMORY, /* a memory component, which has checked the processor, asks */
};

struct msg_type {
	uint16_t opcode;
	uint16_t flags;
	enum msg_vnode vnode;
	const char *name;
	uint32_t req_size; /* of the decoded request */
	int (*decode)(const void *body, size_t len, void *req);
	/* Returns the reply's length or a negative errno. */
	int (*act)(struct msg *msg);
	/* In place of decode and act: tried in polling context first, replies with pages. */
	enum rpc_handler_result (*direct)(struct rpc_request *req, void *arg);
	const struct histogram *time; /* from arrival to reply; may be NULL */
};

extern const struct msg_type msg_types[];
extern const size_t nr_msg_types;

/* The entry of @opcode, or NULL. */
const struct msg_type *msg_find(uint16_t opcode);
/* Check the sender, decode, act.  Returns the reply's length or a negative errno. */
int msg_serve(const struct msg_type *type, struct msg *msg);
/* Is @node one of the memory nodes that @m knows of? */
bool is_memory_node(struct memory *m, uint32_t node);
/* Count and log a request about a space that does not come from its home: -EPERM. */
int msg_not_home(const struct msg *msg);
/* Put @len bytes into the reply; returns @len, or -EMSGSIZE. */
int msg_reply(const struct msg *msg, const void *w, size_t len);

/* --- msg_home.c: from processors, to the home of a space ----------------------------------- */

int msg_exec(struct msg *msg);
int msg_mmap(struct msg *msg);
int msg_munmap(struct msg *msg);
int msg_mprotect(struct msg *msg);
int msg_mremap(struct msg *msg);
int msg_brk(struct msg *msg);
int msg_lease(struct msg *msg);
int msg_fork(struct msg *msg);
int msg_make_pages(struct msg *msg);
int msg_vregions(struct msg *msg);
int msg_destroy(struct msg *msg);
int msg_collapse(struct msg *msg);
int msg_discard(struct msg *msg);

/* PM_DESTROY, decoded. */
struct destroy_list {
	uint32_t nr;
	uint64_t ids[PM_DESTROY_MAX];
};

/* --- msg_owner.c: to the owner of vRegions -------------------------------------------------- */

int msg_fill_vma(struct msg *msg);
int msg_credit(struct msg *msg);
int msg_meminfo(struct msg *msg);
int msg_commit(struct msg *msg);
int msg_mm_map(struct msg *msg);
int msg_mm_load(struct msg *msg);
int msg_mm_unmap(struct msg *msg);
int msg_mm_protect(struct msg *msg);
int msg_mm_move(struct msg *msg);
int msg_mm_pages(struct msg *msg);
int msg_mm_destroy(struct msg *msg);
int msg_mm_fork(struct msg *msg);
int msg_mm_collapse(struct msg *msg);
int msg_mm_discard(struct msg *msg);
int msg_mm_vregion_move(struct msg *msg);
int msg_mm_vregion_take(struct msg *msg);
int msg_mm_expect(struct msg *msg);
int msg_mm_relieve(struct msg *msg);
int msg_mm_file_read(struct msg *msg);

/* --- msg_file.c: files that change ---------------------------------------------------------- */

int msg_file_open(struct msg *msg);
int msg_file_write(struct msg *msg);
int msg_file_change(struct msg *msg);

/* --- msg_data.c: messages that carry pages (not in host tests) ------------------------------ */

enum rpc_handler_result msg_fetch(struct rpc_request *req, void *arg);
enum rpc_handler_result msg_fetch_ahead(struct rpc_request *req, void *arg);
enum rpc_handler_result msg_writeback(struct rpc_request *req, void *arg);
enum rpc_handler_result msg_file_fetch(struct rpc_request *req, void *arg);
