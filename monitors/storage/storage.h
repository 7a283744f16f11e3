/* SPDX-License-Identifier: MIT */
/*
 * Storage monitor: one instance, and its services as functions from bytes to bytes.
 *
 * Requests that only ask carry all that is needed to answer them; running one twice does no harm.
 * Of changes an instance remembers which it has done (record.h), and which files without a name
 * it holds for whom (held.h).
 */
#pragma once

#include <fs/access.h>
#include <fs/fs.h>
#include <fs/pathindex.h>
#include <kernel/mutex.h>
#include <lib/compiler.h>
#include <lib/types.h>
#include <net/rpc.h>
#include <proto/ms.h>
#include <proto/ps.h>

#include "claim.h"
#include "grace.h"
#include "held.h"
#include "keep.h"
#include "locks.h"
#include "record.h"

struct blkdev;

#define STORAGE_LOCKS 64u

struct storage {
	struct fs *fs;               /* const; NULL: no disk */
	struct pathindex *index;     /* const */
	uint64_t fsid;               /* const */
	uint32_t node;               /* const: our id, in every handle */
	struct siphash_key file_key; /* const: of the seals of handles */
	/* const: cluster_vnode_check() */
	int (*vnode_check)(uint32_t vnode, uint32_t node, bool may_wait);
	/*
	 * One for each hash of an inode number: keeps a directory's names, or a file's attributes,
	 * as they were when permission was checked, until the change is done (RANK_MONITOR).
	 */
	struct mutex locks[STORAGE_LOCKS];
	struct record_table records;
	struct held_table held;
	struct claims claims; /* of files that change */
	struct grace grace;
	struct lock_table lock_table;
	struct keep keep;
	struct mutex rooms; /* one change of fs_rooms() at a time, RANK_MONITOR */
	uint32_t incarn;    /* const: of this node */
	bool stable;        /* const: what is answered is on the disk */
	/* const, for tests: called when a change is on the disk and not answered; or NULL */
	void (*committed)(void);
};

struct storage_options {
	uint64_t cache_bytes; /* metadata blocks */
	uint64_t index_bytes; /* path index */
	bool write;           /* let clients change files */
	char *why;            /* where to put the reason when mounting fails */
	size_t why_size;
	int (*vnode_check)(uint32_t vnode, uint32_t node, bool may_wait);
	const struct siphash_key *file_key; /* NULL: this node makes no handles */
	uint32_t incarn;                    /* of this node */
	bool again;                         /* it has had an earlier life in this cluster */
	bool stable;                        /* as in struct storage */
	void (*committed)(void);            /* as in struct storage */
	bool (*has_left)(uint32_t node, uint32_t incarn); /* as in struct claims */
	const struct keep_ops *keep;                      /* NULL: no processor keeps anything */
};

/* @bd: the disk, or NULL for a node without files.  Errors as ext4_mount(). */
int __must_check storage_init(struct storage *st, uint32_t node, struct blkdev *bd,
			      const struct storage_options *opt);
/* No request is under way. The disk is unmounted, with all that was changed. */
void storage_destroy(struct storage *st);

/*
 * A service: decode @body, act, and write at most @cap bytes to @reply.  Returns the reply's length
 * or the errno for the status.  The body is private memory.  May sleep.
 */
typedef ssize_t (*storage_service)(struct storage *st, const void *body, size_t len, void *reply,
				   size_t cap);
ssize_t storage_lookup(struct storage *st, const void *body, size_t len, void *reply, size_t cap);
ssize_t storage_readlink(struct storage *st, const void *body, size_t len, void *reply, size_t cap);
ssize_t storage_access(struct storage *st, const void *body, size_t len, void *reply, size_t cap);
ssize_t storage_getattr(struct storage *st, const void *body, size_t len, void *reply, size_t cap);
ssize_t storage_find(struct storage *st, const void *body, size_t len, void *reply, size_t cap);
ssize_t storage_getdents(struct storage *st, const void *body, size_t len, void *reply, size_t cap);
ssize_t storage_statfs(struct storage *st, const void *body, size_t len, void *reply, size_t cap);

/*
 * A service that remembers something of its client @from.  A change (change.c) is done once for
 * each number that the client gives it.
 */
typedef ssize_t (*storage_client_service)(struct storage *st, uint16_t opcode,
					  const struct storage_peer *from, const void *body,
					  size_t len, void *reply, size_t cap);
ssize_t storage_change(struct storage *st, uint16_t opcode, const struct storage_peer *from,
		       const void *body, size_t len, void *reply, size_t cap);
/* PS_BATCH, batch.c. */
ssize_t storage_batch(struct storage *st, uint16_t opcode, const struct storage_peer *from,
		      const void *body, size_t len, void *reply, size_t cap);
ssize_t storage_close(struct storage *st, uint16_t opcode, const struct storage_peer *from,
		      const void *body, size_t len, void *reply, size_t cap);

/* Keep room for @nr names of @from's that are to come, in all: for how many there is. */
uint32_t storage_rooms(struct storage *st, const struct storage_peer *from, uint32_t nr);
/* keep.freed: the room that was kept for names of one that keeps nothing any more. */
void storage_rooms_freed(struct keep *keep);

/* PS_KEEP. */
ssize_t storage_keep(struct storage *st, uint16_t opcode, const struct storage_peer *from,
		     const void *body, size_t len, void *reply, size_t cap);

/* Advisory locks. */
ssize_t storage_lock(struct storage *st, uint16_t opcode, const struct storage_peer *from,
		     const void *body, size_t len, void *reply, size_t cap);
ssize_t storage_locks(struct storage *st, uint16_t opcode, const struct storage_peer *from,
		      const void *body, size_t len, void *reply, size_t cap);
ssize_t storage_lock_events(struct storage *st, uint16_t opcode, const struct storage_peer *from,
			    const void *body, size_t len, void *reply, size_t cap);

/* --- a change, in the steps that several of one message have in common -------------------- */

struct storage_change {
	struct record *rec; /* NULL: it is not to be ended */
	bool fresh;         /* it was done now */
	ssize_t ret;        /* bytes of the answer, or an errno */
	uint8_t answer[RECORD_REPLY_MAX];
};

/* Do it, unless the record says that it is done; a repetition waits for the end of the first. */
void storage_change_begin(struct storage *st, uint16_t opcode, const struct storage_peer *from,
			  const void *body, size_t len, struct storage_change *c);
/* @nr changes were begun: what they have done is on the disk, if answers say so here. An errno. */
int storage_change_commit(struct storage *st, const struct storage_change *changes, size_t nr)
	__must_check;
/* With the commit's @err the answer is there, also for a repetition. */
void storage_change_end(struct storage *st, struct storage_change *c, int err);

/* As the checks of files take what a request says of its sender; good as long as @cred. */
static inline struct fs_cred storage_cred(const struct proto_cred *cred)
{
	return (struct fs_cred){ .uid = cred->uid,
				 .gid = cred->gid,
				 .nr_groups = cred->nr_groups,
				 .groups = cred->groups,
				 .plain = cred->flags & PROTO_CRED_PLAIN };
}

/* --- dispatch.c: all messages ------------------------------------------------------------- */

/* Where a request names its vNode. */
enum storage_vnode {
	STORAGE_VNODE_UNSAID,    /* no entry may say so */
	STORAGE_VNODE_HANDLES,   /* in @nr_handles handles, the first of them at @handles_at */
	STORAGE_VNODE_OF_PATH,   /* struct ps_path_req_wire */
	STORAGE_VNODE_OWN_USE,   /* of handles only what the sender has used counts: not compared */
	STORAGE_VNODE_BY_MEMORY, /* the memory component has checked the processor */
	STORAGE_VNODE_BY_PARTS,  /* in each of the requests that it consists of: batch.c */
};

/* The rest of the body are handles. */
#define STORAGE_HANDLES_REST UINT16_MAX

struct storage_msg {
	uint16_t opcode;
	uint16_t flags; /* enum rpc_handler_flags */
	enum storage_vnode vnode;
	uint16_t handles_at, nr_handles; /* in the body; or STORAGE_HANDLES_REST */
	const char *name;
	storage_service service;
	/* Instead of that.  Both NULL: msg.c has its handler. */
	storage_client_service client_service;
};
extern const struct storage_msg storage_msgs[];
extern const size_t nr_storage_msgs;

/*
 * Does the view give @peer the vNode that the request names, and did we make its handles? 0;
 * -EACCES, counted and logged; -EAGAIN, no view has told it after a lease; -EMSGSIZE, -EPROTO. May
 * sleep.
 */
int storage_check_vnode(const struct storage *st, const struct storage_msg *msg, uint32_t peer,
			const void *body, size_t len) __must_check;
/* Check, and call the service. */
ssize_t storage_serve_msg(struct storage *st, const struct storage_msg *msg,
			  const struct storage_peer *from, const void *body, size_t len,
			  void *reply, size_t cap);

/* A client declares what it uses, after a start again. */
ssize_t storage_declare(struct storage *st, uint16_t opcode, const struct storage_peer *from,
			const void *body, size_t len, void *reply, size_t cap);
/* A memory node has claimed again what it had. -ESTALE: it does not mean this life; -ENOMEM. */
int __must_check storage_declare_claims(struct storage *st, const struct storage_peer *who,
					const struct ms_declare_req *req);
/* All have declared, or their time is over: what nobody uses is freed. */
void storage_grace_end(struct storage *st);

ssize_t storage_getxattr(struct storage *st, const void *body, size_t len, void *reply, size_t cap);
ssize_t storage_listxattr(struct storage *st, const void *body, size_t len, void *reply,
			  size_t cap);
ssize_t storage_fsync(struct storage *st, const void *body, size_t len, void *reply, size_t cap);
ssize_t storage_sync(struct storage *st, const void *body, size_t len, void *reply, size_t cap);
/* Forget the changes and uses of clients for which @is_member says no. */
void storage_members(struct storage *st,
		     bool (*is_member)(const void *arg, const struct storage_peer *peer),
		     const void *arg);

/*
 * Read what @req asks for into @pages (one per page, DMA-able) and fill the reply.  Pages behind
 * the end of the file are not touched.
 */
int __must_check storage_read(struct storage *st, const struct ms_read_req *req, void *const *pages,
			      struct ms_read_rep *rep);

/* The inode behind a handle.  ERR_PTR: -ESTALE for one that is not ours, -ENODEV without a disk. */
struct fs_inode *storage_file_get(struct storage *st, const struct proto_file *file);
/* Its handle for programs of @vnode. */
struct proto_file storage_handle(const struct storage *st, const struct fs_stat *s, uint32_t vnode);
void storage_attr(const struct storage *st, const struct fs_inode *in, uint32_t vnode,
		  struct proto_attr *out);
/* The inode that is the root of a vNode's mount point. */
uint64_t storage_vnode_root(const struct storage *st, uint32_t vnode);

/*
 * live.c: files that change. @who: the memory node at the other end of the connection. Errors are
 * those of the messages, see docs/protocol/ms.md. @pages: DMA-able.
 */
int __must_check storage_claim(struct storage *st, const struct storage_peer *who,
			       const struct ms_claim_req *req, struct ms_file_state *out);
int __must_check storage_write(struct storage *st, const struct storage_peer *who,
			       const struct ms_write_req *req, void *const *pages,
			       struct ms_file_state *out);
int __must_check storage_file_change(struct storage *st, const struct storage_peer *who,
				     const struct ms_change_req *req, struct ms_file_state *out);

/* promise.c */
int __must_check storage_reserve(struct storage *st, const struct storage_peer *who,
				 const struct ms_reserve_req *req, struct ms_reserve_rep *out);
/* The promise of @file under the claim @epoch of @who ends. */
void storage_promise_end(struct storage *st, const struct storage_peer *who,
			 const struct proto_file *file, uint64_t epoch);
/* MS_RELEASE: the claim and its promise end. */
void storage_release(struct storage *st, const struct storage_peer *who,
		     const struct ms_release_req *req);
/* Claims of nodes that have left end, with their promises. */
void storage_claims_left(struct storage *st);
/* An operation that held @claim has ended. */
void storage_claim_end(struct storage *st, struct claim *claim);

/* msg.c: register the handlers; the buffers have to be there. */
int __must_check storage_serve(struct storage *st);
/*
 * From now on requests are answered with ESHUTDOWN; wait until none is under way. -ETIMEDOUT: after
 * @ns some still are.
 */
int __must_check storage_serve_end(uint64_t ns);

/* debug.c: a test command of the control channel; -ENOSYS: unknown. */
int storage_debug(struct storage *st, const char *cmd, char *reply, size_t cap);

/* bufpool.c: registered memory that disk reads go to, and from which data is sent. */
struct storage_buf {
	struct storage_buf *next; /* free list */
	paddr_t paddr;
	void *pages[MS_READ_MAX_PAGES]; /* const */
	/* Of the request that has the buffer; too big for a stack. */
	struct ms_read_req read;
	struct rpc_write writes[MS_READ_MAX_PAGES];
};
int __must_check bufpool_init(uint64_t bytes);
/* Sleeps until one is free. */
struct storage_buf *bufpool_get(void);
/* Any context. */
void bufpool_put(struct storage_buf *buf);
const struct rpc_mem *bufpool_mem(void);
