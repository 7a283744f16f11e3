/* SPDX-License-Identifier: MIT */
/*
 * Page cache internals, for the files that read (page_cache.c) and those that change files
 * (file_live.c, file_dirty.c). See "page_cache.h" for the rules.
 */
#pragma once

#include <kernel/panic.h>
#include <lib/hash.h>

#include "file_live.h"
#include "memory.h"
#include "page_cache.h"

/* Find @file, or make it if @may_sleep; with a reference for the caller. NULL: no memory. */
struct cached_file *cached_file_get(struct memory *m, const struct proto_file *file,
				    bool may_sleep);
void cached_file_put(struct memory *m, struct cached_file *cf);
/* The first file behind @after (NULL: of all) that has something to send, referenced; NULL. */
struct cached_file *cached_file_next_dirty(struct memory *m, const struct proto_file *after);
/* The same for files of storage node @node that are claimed. */
struct cached_file *cached_file_next_claimed(struct memory *m, const struct proto_file *after,
					     uint32_t node);

static inline uint64_t cached_file_pages(const struct cached_file *cf)
{
	return DIV_ROUND_UP(cf->size, PAGE_SIZE);
}

/* Is this node the one that caches the file and changes it? */
static inline bool is_claimed(const struct cached_file *cf)
{
	return cf->live && cf->live->epoch;
}

struct mpage *cache_find_locked(struct page_cache *pc, struct cached_file *cf, uint64_t pgoff)
	__must_hold(&pc->lock);
/* @page enters the cache as READING; the caller's reference is the cache's. */
void cache_insert_locked(struct page_cache *pc, struct cached_file *cf, struct mpage *page,
			 uint64_t pgoff) __must_hold(&pc->lock);
/*
 * Take @page out; the cache's reference goes to the caller.  @cf keeps at least the
 * caller's own reference, or the caller looks after it.
 */
void cache_remove_locked(struct page_cache *pc, struct cached_file *cf, struct mpage *page)
	__must_hold(&pc->lock);
/*
 * Hold the page at @pgoff. 1: held; 0: behind the end; negative errno. @more: pages that are
 * wanted from here on.
 */
int hold_page(struct memory *m, struct cached_file *cf, uint64_t pgoff, uint32_t more,
	      bool may_sleep, struct mpage **out) __must_check;
/* A frame for a page of a file; waits a while for one. NULL: there is none. */
struct mpage *cache_frame(struct memory *m);

/* --- file_reserve.c, see "file_live.h" --------------------------------------------------- */

/* The pages are not going to be written. */
void file_reserve_forget_locked(struct page_cache *pc, struct file_live *lf, uint64_t first,
				uint64_t end) __must_hold(&pc->lock);
/* They are written, so they have their blocks. */
void file_reserve_kept_locked(struct page_cache *pc, struct file_live *lf, uint64_t first,
			      uint64_t end) __must_hold(&pc->lock);
/* The claim ends, and all reservations with it. */
void file_reserve_end_locked(struct page_cache *pc, struct file_live *lf) __must_hold(&pc->lock);
/* May processors have stores to themselves that count on some of them? */
bool file_reserve_is_held_locked(struct page_cache *pc, struct file_live *lf)
	__must_hold(&pc->lock);
/* Has a file something to give back by file_reserve_give_idle()? */
bool file_reserve_is_idle_locked(struct page_cache *pc) __must_hold(&pc->lock);
