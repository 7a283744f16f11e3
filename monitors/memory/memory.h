/* SPDX-License-Identifier: MIT */
/*
 * Memory monitor: one instance and its parts.
 *
 * The parts are the pool (frames), the owner (vRegions and the page table), the home (address
 * spaces), the page cache and the loader (programs). They know nothing of the RPC layer: they
 * reach other nodes through struct memory_net, and memory_serve() hands requests to them, so a
 * host test can run several instances in one process.
 *
 * Locking:	home: home_space.mutex, held across calls to owners.
 *		owner: owner.lock -> region.lock -> a page table bucket's lock -> pool.lock.
 *		page cache: file_live.flush -> file_live.change -> page_cache.lock -> pool.lock.
 *		No spinlock is held across a call to a
 *		node.
 * See:		docs/design/memory.md
 */
#pragma once

#include <kernel/mutex.h>
#include <kernel/spinlock.h>
#include <lib/compiler.h>
#include <lib/rbtree.h>
#include <lib/types.h>
#include <proto/mm.h>
#include <proto/pm.h>

#include "home.h"
#include "owner.h"
#include "page_cache.h"
#include "pool.h"
#include "relief.h"

struct memory;
struct mpage;

/* How an instance reaches other nodes. */
struct memory_net {
	/*
	 * Send a request, with the contents of @bulk behind it, and wait.  Returns the reply's
	 * length or a negative errno.  Never called for this node itself: see memory_call(). A
	 * storage node that is away is waited for, up to storage.wait_s.
	 */
	int (*call)(struct memory *m, uint32_t peer, uint16_t opcode, const void *body,
		    uint32_t body_len, struct mpage *const *bulk, uint32_t nr_bulk, void *reply,
		    uint32_t reply_max);
	/*
	 * Start an MS_READ. page_cache_read_done() follows, then page_cache_read_release(), from
	 * any context. On a negative errno neither does. Does not sleep unless @may_sleep.
	 */
	int (*read)(struct memory *m, struct page_cache_read *rd, bool prefetch, bool may_sleep);
	/*
	 * A read from storage node @node has ended with -EHOSTDOWN or -ETIMEDOUT: @err. Wait until
	 * it may be started again: 0; -EHOSTDOWN: the node was away for too long; -EINTR.
	 */
	int (*storage_wait)(struct memory *m, uint32_t node, int err);
	/* The key by which a storage node may write into @page. */
	uint32_t (*rkey)(struct memory *m, uint32_t node, const struct mpage *page);
	/* Is @incarn of @node no member any more? Any context, spinlocks held. NULL: not known. */
	bool (*has_left)(struct memory *m, uint32_t node, uint32_t incarn);
	/*
	 * Is @node a processor of the cluster? Any context, spinlocks held. NULL: each is that a
	 * home names.
	 */
	bool (*is_processor)(struct memory *m, uint32_t node);
	/* cluster_vnode_check() */
	int (*vnode_check)(struct memory *m, uint32_t vnode, uint32_t node, bool may_wait);
	/* Placement; NULL: by the list of memory nodes. */
	uint32_t (*owner_for)(struct memory *m, uint64_t aspace, uint64_t index);
	uint32_t (*cache_node)(struct memory *m, const struct proto_file *file);
};

/* Counted with atomics; shown as gauges by stats.c. */
struct memory_stats {
	uint64_t fetches;           /* PM_FETCH answered with 0 */
	uint64_t fetch_data;        /* ... of these: a page was sent */
	uint64_t fetch_zero;        /* ... of these: never written */
	uint64_t fetch_file;        /* ... of these: sent on to the page cache */
	uint64_t fetch_errors;      /* PM_FETCH answered with an error other than a redirect */
	uint64_t fetch_slow;        /* PM_FETCH that needed a worker */
	uint64_t fetches_ahead;     /* PM_FETCH_AHEAD answered with 0 */
	uint64_t fetch_ahead_pages; /* ... pages that were sent */
	uint64_t victims;           /* write-backs that came with a fetch */
	uint64_t writebacks;        /* pages written back, victims included */
	uint64_t writeback_stale;   /* ... dropped because a newer one had come */
	uint64_t bytes_out;         /* page data sent to processors */
	uint64_t bytes_in;          /* page data received from processors */
	uint64_t redirects_sent;    /* this node is not the owner any more */
	uint64_t vregion_moves;     /* vRegions handed to another owner */
	uint64_t pages_moved;       /* pages sent to another owner */
	uint64_t execs;
	uint64_t maps;
	uint64_t unmaps;
	uint64_t forks;
	uint64_t collapses;
	uint64_t pages_renamed;   /* by collapses: they are another space's now */
	uint64_t pages_discarded; /* no program could see them any more */
	uint64_t enomem;          /* requests refused for want of memory */
	uint64_t relief_moves;    /* vRegions handed over for want of frames */
	uint64_t relief_revokes;  /* processors that lost their credits for want of frames */
	uint64_t relief_ends;     /* programs ended for want of frames */
	uint64_t grants;          /* frames granted by PM_CREDIT */
	uint64_t file_fetches;    /* PM_FILE_FETCH answered with 0 */
	uint64_t file_hits;       /* file pages found in the page cache */
	uint64_t file_misses;
	uint64_t file_reads; /* MS_READ sent */
	uint64_t file_read_pages;
	uint64_t file_evicted;
	uint64_t file_writes; /* MS_WRITE sent */
	uint64_t file_write_pages;
	uint64_t bad_requests; /* malformed */
	uint64_t not_home;     /* a home's requests that came from another node */
	uint64_t not_placed;   /* requests for a vNode that is not on their sender */
	uint64_t not_sealed;   /* requests with a handle that no storage node made for its vNode */
	uint64_t revokes_unheard; /* MP_REVOKE that no answer came to in time */
	uint64_t kernel_full; /* spaces, vRegions, areas refused: a processor has had its part */
};

union memory_reserve {
	struct mm_map_req map;
	struct owner_move_work move;
	struct pm_collapse_req collapse;
	struct pm_discard_req discard;
};

struct node_life {
	uint32_t node;
	uint32_t life;
};

struct memory {
	uint32_t node;                             /* const */
	const struct memory_net *net;              /* const */
	void *net_arg;                             /* const */
	uint32_t vregion_shift;                    /* const */
	struct siphash_key file_key;               /* const: of the seals of handles */
	struct spinlock nodes_lock;                /* RANK_SPIN_MONITOR */
	uint32_t *nodes __guarded_by(&nodes_lock); /* memory nodes, ascending */
	/* frames that programs may have at each of ->nodes, as it told last; 0: not known */
	uint64_t *programs __guarded_by(&nodes_lock);
	size_t nr_nodes __guarded_by(&nodes_lock);
	struct node_life *
		lives __guarded_by(&nodes_lock); /* of nodes that have left, in any order */
	size_t nr_lives __guarded_by(&nodes_lock);
	uint32_t placements; /* atomic, from 1: it changes when a processor loses a vNode */
	struct pool pool;
	struct owner owner;
	struct home home;
	struct page_cache page_cache;
	struct relief relief;
	uint64_t storage_wait_ns;  /* const: storage may be away for so long; 0: for ever */
	uint64_t file_changes;     /* atomic: the number of the last MS_CHANGE */
	struct memory_stats stats; /* atomic */
	/* For a decoded request that must not fail for want of memory (MSG_RESERVE). */
	struct mutex reserve_lock; /* RANK_MONITOR */
	union memory_reserve *reserve __guarded_by(&reserve_lock);
};

/* How an instance is made. */
struct memory_config {
	uint32_t node;
	uint32_t vregion_shift;
	const struct siphash_key *file_key; /* NULL: this node joins no cluster */
	const struct memory_net *net;
	void *net_arg;
	const struct pool_run *runs;
	size_t nr_runs;
	uint64_t extent_pages;      /* frames of an extent, a power of two; 0: 1 */
	uint64_t file_min;          /* frames that programs may not have */
	const struct pool_ops *ops; /* their argument is the instance */
	uint64_t kernel_max;        /* bytes of kernel memory for the spaces of one processor */
	uint64_t storage_wait_ns;   /* as in struct memory */
	struct pm_commit policy;    /* at first: version 0 */
};

int memory_init(struct memory *m, const struct memory_config *cfg) __must_check;
/* For tests, and after a failed start. */
void memory_destroy(struct memory *m);

/* The memory nodes of the cluster, in ascending order. */
int memory_set_nodes(struct memory *m, const uint32_t *nodes, size_t nr) __must_check;
/* A copy of the list, to be freed with lib_free(); *@nr is 0 after an error.  -ENOMEM. */
int memory_get_nodes(struct memory *m, uint32_t **nodes, size_t *nr) __must_check;
/* The owner-to-be of a vRegion that becomes active: the nodes in turn, this one at index 0. */
uint32_t memory_owner_for(struct memory *m, uint64_t aspace, uint64_t index);
/*
 * Tell the other memory nodes the policy of commitment, as one that has joined does not know it,
 * and ask how many frames they have. True: one has not answered in time, and is to be asked again.
 */
bool memory_ask_nodes(struct memory *m);
/*
 * May @node name @vnode, and what belongs to it? 0; -EACCES, counted and logged; -EAGAIN: it is not
 * known yet, and the caller may not wait for it.
 */
int memory_check_vnode(struct memory *m, uint32_t vnode, uint32_t node, bool may_wait) __must_check;
/* The same for a handle that @node names: a storage node made it for a vNode of @node's. */
int memory_check_file(struct memory *m, const struct proto_file *file, uint32_t node, bool may_wait)
	__must_check;
/*
 * Have @proc forget its places in an extent: struct pool_ops.revoke. 0: it has, or has left. Waits
 * a second at most.
 */
int memory_revoke(struct memory *m, uint32_t proc, uint32_t number, bool below) __must_check;
/* A processor has lost a vNode, and vnode_check() knows. */
void memory_vnode_withdrawn(struct memory *m);
/* Charge @proc with kernel memory here: pool_charge_kernel(). A refusal is counted. */
int memory_charge(struct memory *m, uint32_t proc, uint64_t bytes) __must_check;
void memory_uncharge(struct memory *m, uint32_t proc, uint64_t bytes);
/* The node that holds the page cache of @file. */
uint32_t memory_cache_node(struct memory *m, const struct proto_file *file);

/*
 * A request to another memory node or to this one, which is then served directly. Returns the
 * reply's length or a negative errno.
 */
int memory_call(struct memory *m, uint32_t peer, uint16_t opcode, const void *body,
		uint32_t body_len, void *reply, uint32_t reply_max);

/*
 * Serve an MM_* message or an address space call (anything that moves no bulk to the caller).
 * Returns the reply's length or a negative errno; *@error_len (may be NULL) is the length of the
 * body that goes with the errno. May wait for other nodes.
 */
int memory_serve(struct memory *m, uint32_t peer, uint16_t opcode, const void *body, uint32_t len,
		 const void *bulk, uint32_t bulk_len, void *reply, uint32_t reply_max,
		 uint32_t *error_len);

/*
 * The processor is dead and fenced: everything of its programs goes. Until it joins again nothing
 * of it is made, even if its requests are still being served or a home that does not know yet asks
 * for it: -ESTALE.
 */
void memory_processor_gone(struct memory *m, uint32_t proc);
void memory_processor_joined(struct memory *m, uint32_t proc);
/* A memory node is dead: the spaces whose home it was cannot go on. */
int memory_node_gone(struct memory *m, uint32_t node) __must_check;
/* How often memory node @node has left: a vRegion that it got in an earlier life is lost. */
uint32_t memory_node_life(struct memory *m, uint32_t node);

#define STAT_ADD(m, field, n) \
	((void)__atomic_fetch_add(&(m)->stats.field, (uint64_t)(n), __ATOMIC_RELAXED))
#define STAT_INC(m, field) STAT_ADD(m, field, 1)
