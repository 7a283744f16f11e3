/* SPDX-License-Identifier: MIT */
/*
 * The counts of a memory node, as gauges. The numbers live in the instance, so that host tests
 * with several instances can tell them apart.
 */
#include <kernel/counter.h>

#include "memory.h"
#include "service.h"

#define STAT_GAUGE(field, gname, ghelp)                                            \
	static uint64_t read_##field(void)                                         \
	{                                                                          \
		const struct memory *m = memory_self();                            \
                                                                                   \
		return m ? __atomic_load_n(&m->stats.field, __ATOMIC_RELAXED) : 0; \
	}                                                                          \
	GAUGE_SUM(gauge_##field, gname, ghelp, read_##field)

#define POOL_GAUGE(field, gname, ghelp)               \
	static uint64_t read_pool_##field(void)       \
	{                                             \
		struct memory *m = memory_self();     \
		struct pool_stats stats = { 0 };      \
                                                      \
		if (m)                                \
			pool_stats(&m->pool, &stats); \
		return stats.field;                   \
	}                                             \
	GAUGE(gauge_pool_##field, gname, ghelp, read_pool_##field)

#define OWNER_GAUGE(field, gname, ghelp)            \
	static uint64_t read_owner_##field(void)    \
	{                                           \
		struct memory *m = memory_self();   \
		struct owner_counts counts = { 0 }; \
                                                    \
		if (m)                              \
			owner_counts(m, &counts);   \
		return counts.field;                \
	}                                           \
	GAUGE(gauge_owner_##field, gname, ghelp, read_owner_##field)

POOL_GAUGE(total, "memory.frames_total", "frames for pages of programs and files");
POOL_GAUGE(file, "memory.frames_file", "frames that hold pages of files");
POOL_GAUGE(file_extents, "memory.extents.file", "frames in extents that storage may write");
POOL_GAUGE(free_extents, "memory.extents.free", "frames in extents of no use yet");
POOL_GAUGE(extents_opened, "memory.extents.opened", "extents that became regions of files");
POOL_GAUGE(extents_closed, "memory.extents.closed", "extents that files gave back");
POOL_GAUGE(lent_frames, "memory.extents.lent", "frames in extents that a processor may read");
POOL_GAUGE(lent_free, "memory.extents.lent_free", "... that are free");
POOL_GAUGE(extents_lent, "memory.extents.lends", "extents that a processor was let read");
POOL_GAUGE(extents_taken_back, "memory.extents.recalls", "extents that were taken back");
POOL_GAUGE(zero, "memory.frames_zeroed", "free frames that are zeroed");
POOL_GAUGE(dirty, "memory.frames_dirty", "free frames that are not");
POOL_GAUGE(reserved, "memory.frames_reserved", "frames that credits of processors stand for");
POOL_GAUGE(committed, "memory.committed", "pages that mappings are charged for");
OWNER_GAUGE(regions, "memory.vregions", "vRegions owned here, and those that redirect");
OWNER_GAUGE(spaces, "memory.spaces", "address spaces that have a part here");
OWNER_GAUGE(areas, "memory.vmas", "areas kept here");
OWNER_GAUGE(pages, "memory.frames_used", "frames that hold pages of programs");
STAT_GAUGE(fetches, "memory.fetch", "fetches answered");
STAT_GAUGE(fetch_data, "memory.fetch_data", "... with a page");
STAT_GAUGE(fetch_zero, "memory.fetch_zero", "... with \"never written\"");
STAT_GAUGE(fetch_file, "memory.fetch_file", "... with \"ask the page cache\"");
STAT_GAUGE(fetch_errors, "memory.fetch_errors", "fetches refused");
STAT_GAUGE(fetch_slow, "memory.fetch_slow", "fetches that went to a thread");
STAT_GAUGE(fetches_ahead, "memory.fetch_ahead", "requests for pages ahead answered");
STAT_GAUGE(fetch_ahead_pages, "memory.fetch_ahead_pages", "... pages that were sent");
STAT_GAUGE(bytes_out, "memory.fetch_bytes", "page data sent to processors");
STAT_GAUGE(victims, "memory.victims", "write-backs that came with a fetch");
STAT_GAUGE(writebacks, "memory.writeback", "pages written back");
STAT_GAUGE(writeback_stale, "memory.writeback_stale", "... dropped: a newer one had come");
STAT_GAUGE(bytes_in, "memory.writeback_bytes", "page data taken from processors");
STAT_GAUGE(redirects_sent, "memory.redirects", "requests answered with a redirect");
STAT_GAUGE(vregion_moves, "memory.vregions_moved", "vRegions handed to another owner");
STAT_GAUGE(pages_moved, "memory.pages_moved", "pages sent to another owner");
STAT_GAUGE(execs, "memory.exec", "programs loaded");
STAT_GAUGE(maps, "memory.map", "ranges mapped");
STAT_GAUGE(unmaps, "memory.unmap", "ranges unmapped");
STAT_GAUGE(forks, "memory.fork", "spaces forked");
STAT_GAUGE(collapses, "memory.collapse", "frozen spaces that collapsed into another");
STAT_GAUGE(pages_renamed, "memory.pages_renamed", "pages that collapses gave to another space");
STAT_GAUGE(pages_discarded, "memory.pages_discarded", "pages dropped that no program can see");
STAT_GAUGE(enomem, "memory.enomem", "requests refused for want of memory");
STAT_GAUGE(relief_moves, "relief.moves", "vRegions handed over for want of frames");
STAT_GAUGE(relief_revokes, "relief.revokes", "times that a processor lost its credits");
STAT_GAUGE(relief_ends, "relief.ends", "programs ended for want of frames");
STAT_GAUGE(revokes_unheard, "memory.revokes_unheard",
	   "places that a processor did not say that it has forgotten");
STAT_GAUGE(grants, "memory.grants", "frames granted on request");
STAT_GAUGE(bad_requests, "memory.bad_requests", "malformed requests");
STAT_GAUGE(not_home, "memory.not_home", "requests of a home that came from another memory node");
STAT_GAUGE(not_placed, "memory.not_placed",
	   "requests for a vNode that is not on the processor that sent them");
STAT_GAUGE(not_sealed, "memory.not_sealed",
	   "requests with a handle that no storage component made for that vNode");
STAT_GAUGE(kernel_full, "memory.kernel_full",
	   "spaces, vRegions and areas refused to a processor with many");
STAT_GAUGE(file_fetches, "page_cache.fetch", "requests for file pages answered");
STAT_GAUGE(file_hits, "page_cache.hit", "file pages found in the page cache");
STAT_GAUGE(file_misses, "page_cache.miss", "file pages that had to be read");
STAT_GAUGE(file_reads, "page_cache.read", "read requests sent to storage");
STAT_GAUGE(file_read_pages, "page_cache.read_pages", "pages read from storage");
STAT_GAUGE(file_evicted, "page_cache.evict", "file pages given up");
STAT_GAUGE(file_writes, "page_cache.write", "write requests sent to storage");
STAT_GAUGE(file_write_pages, "page_cache.write_pages", "pages written to storage");

/* A page that has been freed keeps its frame until the device has told that it is sent. */
static uint64_t read_pinned(void)
{
	const uint64_t pages = read_owner_pages();
	struct memory *m = memory_self();
	struct pool_stats stats = { 0 };

	if (m)
		pool_stats(&m->pool, &stats);
	return stats.used > pages ? stats.used - pages : 0;
}
GAUGE(gauge_pinned, "memory.frames_pinned", "frames of freed pages that are still being sent",
      read_pinned);

static uint64_t read_homes(void)
{
	const struct memory *m = memory_self();

	return m ? __atomic_load_n(&m->home.nr_spaces, __ATOMIC_RELAXED) : 0;
}
GAUGE(gauge_homes, "memory.aspaces", "address spaces whose home is here", read_homes);
