/* SPDX-License-Identifier: MIT */
/*
 * Relief: what a node does that has no frame left for a page of a program.
 *
 * Flow:	whoever finds no frame kicks (relief_kick()) and answers "ask again". A thread makes
 *		one step after the other: pages of files have given way by then, as the pool takes
 *		their frames first; so it hands a vRegion to a node with room; if no node has any,
 *		it has a processor end the program that has most frames here. When not even that
 *		can be, requests are refused for a while.
 * Locking:	none: counts and times are atomic; relief_step() is called by one thread at a time
 *		and holds nothing while it waits for other nodes.
 * See:		docs/design/memory.md, "Short of frames"
 */
#pragma once

#include <kernel/wait.h>
#include <lib/compiler.h>
#include <lib/types.h>

struct memory;

struct relief {
	bool on;                 /* const after start: a thread makes the steps */
	uint64_t kicks;          /* atomic */
	uint64_t handled;        /* atomic: of these */
	uint64_t short_since_ns; /* the thread's: since when there is no frame; 0: there is */
	uint64_t files_since_ns; /* the thread's: since when only files have frames; 0: not so */
	bool hog_ended;          /* the thread's: hog_first() has ended one in this shortage */
	uint64_t refused_ns;     /* atomic: when nothing more could be done; 0: not so */
	struct waitqueue wake;
};

/* --- the choice of a vRegion: pure ---------------------------------------------------------- */

struct relief_node {
	uint32_t id;
	uint64_t room; /* frames that programs could still get there */
};

struct relief_region {
	uint64_t aspace;
	uint64_t index;
	uint64_t pages;
	bool refused; /* by its home, in this step */
};

/* Fewer pages are not worth a move, and would go to and fro when all nodes are full. */
#define RELIEF_PAGES_MIN 64u

/*
 * Which vRegion goes where: the largest that leaves half of the room at the node which has most.
 * False: none does.
 */
bool relief_choose(const struct relief_node *nodes, size_t nr_nodes,
		   const struct relief_region *regions, size_t nr_regions, size_t *node,
		   size_t *region);

/* --- steps ------------------------------------------------------------------------------------ */

enum relief_result {
	RELIEF_ENOUGH, /* there are frames */
	RELIEF_MOVED,  /* a vRegion has been handed over, or credits have been taken back */
	RELIEF_ENDED,  /* a program is to end */
	RELIEF_WAITS,  /* something that has begun may still bring frames */
	RELIEF_NOTHING,
};

void relief_init(struct memory *m);
/*
 * No frame was found. True: ask again, some may come; false: none will. Any context but interrupts.
 */
bool relief_kick(struct memory *m);
bool relief_is_wanted(struct memory *m);
/* Sleeps. */
enum relief_result relief_step(struct memory *m);
/* Steps until there are frames, or nothing more can be done. For the thread. */
void relief_run(struct memory *m);
