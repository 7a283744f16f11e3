/* SPDX-License-Identifier: MIT */
/*
 * A model of memory nodes behind a fake RPC layer, for host tests of the processor's cache.
 */
#pragma once

#include <lib/types.h>

#define FAKE_NODES        3 /* memory nodes 1 to 3; 1 is every home */
#define FAKE_VREGION_SIZE (2ull << 20)

/* Forget all pages and counts; owners of vRegions alternate over the nodes. */
void fake_reset(void);
/* Start a cache of 512 KiB, 8 ways, 32 spare, if there is none yet. */
void fake_cache(void);
/* Replies take a random time up to this. */
void fake_delay_us(unsigned int us);
/* Of the next calls, every @n-th fetch times out; its data arrives late all the same. 0: none. */
void fake_timeout_every(unsigned int n);
/* The same for write-backs: what they carried is stored late, after the caller was told. */
void fake_writeback_timeout_every(unsigned int n);
/* The same for messages that ask for pages ahead. */
void fake_ahead_timeout_every(unsigned int n);
/* Fetch pages ahead, which is off after fake_reset(). */
void fake_ahead(bool on);
/* reclaim=on; off after fake_reset(). */
void fake_reclaim(bool on);
/* Until it is said again: no slot for a message is free, as rpc_slot_is_free() sees it. */
void fake_no_slots(bool none);
/* So many reads ahead find a slot, 32 after fake_reset(). */
void fake_read_slots(uint32_t nr);
#define FAKE_READ_PIECES 8u /* lines that one of them fills at most */
/* Until it is said again: requests to homes find no slot, and wait for one. */
void fake_full(bool full);
/* Pages at and above @vaddr are refused with @status (0: none are), riding or not. */
void fake_refuse(uint64_t vaddr, int status);
/* Membership has taken @node out (0: none), and nobody has been told yet. */
void fake_leaves(uint32_t node);
/* @node knows no space any more (0: each knows what it has): it has heard that the home left. */
void fake_forgets(uint32_t node);
/* Files have @pages pages, of which each word is its offset; page @bad cannot be read. */
void fake_file(uint64_t pages, uint64_t bad);
/* From now on, until fake_reset(): these are the bytes of files. */
void fake_file_bytes(const uint8_t *bytes);
/*
 * The node that is asked for a file page next goes: it never answers again, and look-ups choose
 * another.
 */
void fake_file_node_goes(void);
/* Give vRegion @index to @node: the old owner answers with a redirect. */
void fake_move(uint64_t index, uint32_t node);
/*
 * The next request @opcode to the home, or PM_FILL_VMA, is answered with @status and changes
 * nothing. Not for PM_EXEC and PM_DESTROY.
 */
void fake_fail(uint16_t opcode, int status);
/* The next @times of them; @done: they are done all the same. */
void fake_fail_times(uint16_t opcode, int status, unsigned int times, bool done);
/* The home of shared objects to come; 1 at first. */
void fake_home(uint32_t node);
/* @node serves and answers no request @opcode (FAKE_ALL: none at all) until fake_speak(). */
#define FAKE_ALL UINT16_MAX
void fake_silence(uint32_t node, uint16_t opcode);
void fake_speak(void);
/*
 * Call @fn once, between the next answer of the home about vRegions and its arrival: what another
 * thread does meanwhile.
 */
void fake_before_vregions(void (*fn)(void *arg), void *arg);
/* From here on call @fn before the home serves a request; NULL: no longer. */
void fake_before_call(void (*fn)(uint16_t opcode, void *arg), void *arg);
/* Frame credits that the nodes hold for the processor. */
int64_t fake_promised(void);
/* Pages stored, of all spaces. */
size_t fake_pages(void);
/* Frames that each node will still promise. */
void fake_frames(uint32_t frames);
/* Calls that are not served yet, also as their node is silent. */
unsigned int fake_under_way(void);
/* Wait until no call is under way. */
void fake_quiesce(void);
/* And until nothing is left to be done about spaces that have ended. */
void fake_settle(void);

/* Answers tell places, which are off after fake_reset(). */
void fake_places(bool on);
/* Every @n-th read of a place fails. 0: none. */
void fake_read_fail_every(unsigned int n);
/* Pages that are new from now on have frames in their own order, not in that of their coming. */
void fake_frames_in_order(bool yes);
/* @node gives the frames of its pages other contents; with @tell places are forgotten before. */
void fake_recall(uint32_t node, bool tell);
/* Pages of [addr, addr + len) go. */
void fake_drop(uint64_t aspace, uint64_t addr, uint64_t len);

/* Counts of the requests that the far side saw. */
struct fake_counts {
	unsigned int fetches, rides, writeback_msgs, writeback_pages, zeroes, credit_requests,
		redirects, late;
	unsigned int file_fetches, refused;
	unsigned int aheads, ahead_reads; /* messages PM_FETCH_AHEAD, and reads in their place */
	unsigned int ahead_pages;         /* that came by either */
	uint64_t ahead_last;              /* the highest address of these */
	unsigned int forks, collapses, discards, destroy_msgs, destroys, spaces;
	unsigned int reads, reads_failed; /* without a request */
	unsigned int stale;               /* write-backs that were older than what was stored */
};
void fake_counts(struct fake_counts *out);
/* The first 8 bytes of a stored page; false: not stored. */
bool fake_stored(uint64_t aspace, uint64_t vaddr, uint64_t *word);
