/* SPDX-License-Identifier: MIT */
/*
 * Page cache: pages of files, in frames into which the storage node writes them.
 *
 * Flow:	a page is found by (file, page number). A miss starts one MS_READ for a run of
 *		missing pages; other threads that want one of them wait for that read. Sequential
 *		readers get read-ahead. A file has a generation here, which changes when storage
 *		tells of another version of its content; pages of an older generation are not used
 *		any more.
 * Locking:	page_cache.lock, a spinlock, guards everything here. A page that is held
 *		(referenced) may be read without it.
 * Failure:	a failed read fails all threads that wait for it and leaves nothing in the cache.
 *		After a timeout the frames stay referenced until the RPC layer releases the call.
 * Limits:	pages fill the frames that programs leave. The least recently used page that no
 *		user holds gives way (page_cache_reclaim(), called by the pool).
 */
#pragma once

#include <kernel/spinlock.h>
#include <kernel/wait.h>
#include <lib/compiler.h>
#include <lib/list.h>
#include <lib/rbtree.h>
#include <lib/types.h>
#include <proto/mm.h>
#include <proto/ms.h>
#include <proto/pm.h>

struct memory;
struct mpage;

enum cache_page_state {
	CACHE_PAGE_READING,
	CACHE_PAGE_VALID,
	/* out of the cache; mpage.seq holds the errno, 0: behind the end of the file */
	CACHE_PAGE_FAILED,
	/* These hold bytes that storage does not have, and a reference of their own. */
	CACHE_PAGE_DIRTY,
	CACHE_PAGE_WRITING,       /* an MS_WRITE carries them */
	CACHE_PAGE_WRITING_DIRTY, /* the same, and it has been written to since */
};

struct file_live;

struct cached_file {
	struct rb_node node; /* in page_cache.files */
	struct proto_file file;
	uint64_t refs; /* users, pages and reads */
	bool known;    /* version and size are */
	uint64_t version;
	uint64_t size; /* bytes */
	uint64_t gen;
	uint64_t asked;         /* the last version asked for that was not ours */
	uint64_t ra_next;       /* where a sequential reader will go on */
	uint64_t ra_end;        /* read ahead up to here */
	uint32_t ra_window;     /* pages; 0 = not sequential */
	struct file_live *live; /* set once; NULL: it was never claimed here */
};

struct page_cache {
	struct spinlock lock; /* RANK_SPIN_CACHE */
	struct rb_root files __guarded_by(&lock);
	struct hlist_head *buckets __guarded_by(&lock);
	uint64_t nr_buckets;
	struct list_head lru __guarded_by(&lock); /* valid pages, least recently used first */
	uint64_t nr_files __guarded_by(&lock);
	struct waitqueue done; /* woken when a read has ended */

	/* Files that change: file_live.h */
	uint64_t dirty_max;                          /* const: pages that may be dirty */
	uint64_t claims_max;                         /* const: files that stay claimed unused */
	uint64_t nr_dirty __guarded_by(&lock);       /* pages with a reference for that */
	uint64_t nr_room __guarded_by(&lock);        /* pages that requests may make dirty */
	struct list_head dirty __guarded_by(&lock);  /* file_live.dirty_link, oldest first */
	struct list_head claims __guarded_by(&lock); /* file_live.claim_link, least used first */
	uint64_t nr_claims __guarded_by(&lock);
	struct list_head asked __guarded_by(&lock); /* file_live.asked_link, oldest first */
	struct waitqueue room;                      /* woken when fewer pages are dirty */
	struct waitqueue writer; /* woken when file_write_behind() may have work */
};

/* One MS_READ under way. */
struct page_cache_read {
	struct memory *m;
	struct cached_file *cf;
	uint64_t pgoff;
	uint64_t gen; /* of the file when the read began */
	uint32_t nr;
	struct mpage *pages[MS_READ_MAX_PAGES]; /* one reference each */
	uint8_t body[sizeof(struct ms_read_req_wire) +
		     MS_READ_MAX_PAGES * sizeof(struct proto_mr_ref_wire)];
	uint32_t body_len;
	struct ms_read_rep_wire reply;
};

int page_cache_init(struct memory *m) __must_check;
void page_cache_destroy(struct memory *m);

/*
 * Hold up to @nr pages of @file from @pgoff. rep->nr_valid tells how many @pages were filled in,
 * each with a reference; fewer than asked for at the end of the file. @version: what the asker
 * knows, 0 = any. -EAGAIN (only unless @may_sleep): not all of them are there. -ENOMEM, -ESTALE,
 * -EIO, or what the call to storage ended with.
 */
int page_cache_get(struct memory *m, const struct proto_file *file, uint64_t pgoff, uint32_t nr,
		   uint64_t version, bool may_sleep, struct mpage **pages,
		   struct pm_file_fetch_rep *rep) __must_check;
/* Copy bytes; returns how many, fewer at the end of the file.  May sleep. */
int page_cache_copy(struct memory *m, const struct proto_file *file, uint64_t offset, void *buf,
		    uint32_t len) __must_check;
/* Give up one page; false when every page is in use. */
bool page_cache_reclaim(struct memory *m);
/* Give up those of the @nr frames from @first, of an extent for files, that no user holds. */
void page_cache_empty(struct memory *m, struct mpage *first, uint64_t nr);
/* The page that page_cache_reclaim() would give up; it may be gone. NULL: there is none. */
struct mpage *page_cache_oldest(struct memory *m);
/* Drop every page without another reference; returns how many. */
uint64_t page_cache_drop_all(struct memory *m);

/*
 * From the transport, any context but interrupts: the read has ended with @status; then its
 * frames are not written to any more.
 */
void page_cache_read_done(struct page_cache_read *rd, int status, uint32_t reply_len);
void page_cache_read_release(struct page_cache_read *rd);
