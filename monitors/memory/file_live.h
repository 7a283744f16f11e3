/* SPDX-License-Identifier: MIT */
/*
 * Files that change, at the memory node that caches them: claim, size, dirty pages.
 *
 * Flow:	the first PM_FILE_OPEN, PM_FILE_WRITE or PM_FILE_CHANGE of a file asks its storage
 *		node for the claim. Writes make pages dirty; a flush sends them by MS_WRITE, for a
 *		PM_FILE_SYNC or from the thread that runs file_write_behind().
 * Invariants:	a dirty page has a reference of its own and is on file_live.dirty, or belongs to
 *		the one flush of its file. nr_dirty of the cache counts these references. A claimed
 *		file is known, and its size and version are ours. A file with dirty pages, or with
 *		a change under way, stays claimed.
 * Locking:	file_live.flush, then file_live.change, then page_cache.lock. A message may be
 *		waited for with the two mutexes held.
 * Failure:	a page that storage refuses becomes clean and file_live.errors grows; each open file
 *		of a processor tells that once. A claim that is lost takes the dirty pages with it.
 * See:		docs/design/files.md
 */
#pragma once

#include <kernel/mutex.h>
#include <lib/compiler.h>
#include <lib/list.h>
#include <lib/rbtree.h>
#include <lib/types.h>
#include <proto/ms.h>
#include <proto/pm.h>

struct cached_file;
struct memory;
struct mpage;

struct file_live {              /* made with the first claim, ends with the file */
	struct mutex flush;     /* RANK_FILE_FLUSH: one sends dirty pages */
	struct mutex change;    /* RANK_FILE_CHANGE: one claims, writes or truncates */
	struct cached_file *cf; /* const */
	/* page_cache.lock for all that follows */
	uint64_t epoch;     /* of the claim; 0: the file is not claimed */
	uint64_t had;       /* the epoch before, to be shown to storage when it is claimed again */
	uint64_t disk_size; /* bytes, as storage knows */
	uint64_t max_size;  /* bytes that the file system has room for in one file */
	uint64_t changes;   /* of this epoch; 0: the version is storage's */
	uint32_t errors;    /* losses of data */
	bool size_dirty;    /* storage has not had our size or mtime */
	int64_t mtime_s;
	uint32_t mtime_ns;
	uint64_t nr_users;           /* calls under way, which keep the claim */
	uint64_t since_ns;           /* when the first page of the list became dirty */
	struct list_head dirty;      /* mpage.link, in the order in which they became dirty */
	uint64_t nr_dirty;           /* of them, and of those under way */
	struct list_head dirty_link; /* page_cache.dirty, if there is something to send */
	bool listed;                 /* dirty_link is in the list */
	struct list_head claim_link; /* page_cache.claims, while it is claimed: a reference */
	/* Room on the disk: file_reserve.c */
	struct rb_root reserved; /* pages that storage has reserved blocks for */
	uint64_t nr_reserved;
	uint64_t mapped_first, mapped_end; /* pages that are known to have blocks: one run */
	uint64_t ahead_next;               /* where the last request's range ended, */
	uint32_t ahead;                    /* and how many pages it had; 0: there was none */
	uint64_t asked_ns;                 /* the last request; 0: storage has no reservation */
	uint64_t held_end; /* page: a processor writes behind the end of the file up to here */
	struct list_head asked_link; /* page_cache.asked, if asked_ns */
};

/* Part of page_cache_init() and of page_cache_destroy(): the latter loses what is dirty. */
void file_live_init(struct memory *m);
void file_live_drop_all(struct memory *m);

/*
 * Serve PM_FILE_OPEN, PM_FILE_WRITE (@data: the pages) and PM_FILE_CHANGE. All sleep, and wait for
 * storage if need be. -ESTALE no such file; -EROFS, -EIO, -ENOSPC; -ENOMEM: perhaps a part is done,
 * and the same request may be sent again; -EINTR: nobody waits for the answer.
 */
int file_open(struct memory *m, const struct pm_file_open_req *req, struct pm_file_state *out)
	__must_check;
int file_write(struct memory *m, const struct pm_file_write_req *req, const void *data,
	       struct pm_file_state *out) __must_check;
int file_change(struct memory *m, const struct pm_file_change_req *req, struct pm_file_state *out)
	__must_check;

/*
 * Write back what is old, or, above half of the limit, what there is; give up claims that are not
 * used. True: there may be more to do at once. For one thread; @all: whatever its age (tests).
 */
bool file_write_behind(struct memory *m, bool all);
/*
 * Storage gets all that is dirty now; the disk perhaps not yet. The first error; the other files
 * are sent all the same.
 */
int file_flush_all(struct memory *m, uint32_t node) __must_check;
/*
 * Storage node @node lives again, as @incarn: claim what this node had there, then say so.
 * -EHOSTDOWN: it has died again; -ENOMEM.
 */
int file_declare(struct memory *m, uint32_t node, uint32_t incarn) __must_check;
/* Is there work for file_write_behind() now? */
bool file_write_behind_wanted(struct memory *m);

/* --- between file_live.c and file_dirty.c ------------------------------------------------ */

/* @page, held, of the claimed file has been written to, up to byte @end of it. */
void file_mark_dirty(struct memory *m, struct cached_file *cf, struct mpage *page, uint32_t end);
/* There is something to send though no page is dirty. */
void file_mark_size_dirty(struct memory *m, struct cached_file *cf);
/*
 * Wait until @nr more pages may be dirty, which are the caller's then. -EINTR; -EHOSTDOWN: storage
 * has taken none for as long as it may be away.
 */
int file_take_room(struct memory *m, uint32_t nr) __must_check;
/* Of that, what the caller does not need, or has used. */
void file_give_room(struct memory *m, uint32_t nr);
/*
 * Send all pages that are dirty now; @flags of MS_WRITE. The flush mutex is held. The first error
 * of storage, which has been counted; -EHOSTDOWN: storage is away, the pages are dirty still.
 */
int file_flush_locked(struct memory *m, struct cached_file *cf, uint32_t flags) __must_check;
/*
 * The same; takes the flush mutex, and looks after a claim that is lost. -EINTR; -ENOENT: the file
 * has been removed, and what was dirty with it.
 */
int file_flush(struct memory *m, struct cached_file *cf, uint32_t flags) __must_check;
/* Pages from @first on lose their dirty bytes; no flush is under way. */
void file_forget_dirty(struct memory *m, struct cached_file *cf, uint64_t first, uint64_t end);
/* Ask storage for the claim, showing epoch @had. 0, and @state->node is who has it. */
int file_ask_claim(struct memory *m, struct cached_file *cf, uint64_t had,
		   struct ms_file_state *state) __must_check;
/*
 * The claim again, by the epoch that it had; the epochs' owner has started anew. -ESTALE: another
 * node has it; -ENOENT: the file has been removed.
 */
int file_claim_again(struct memory *m, struct cached_file *cf) __must_check;
/*
 * Storage has refused the claim by file_claim_again(), with @err: what was dirty is lost, and told
 * unless the file has been removed. The flush mutex is held.
 */
void file_claim_refused(struct memory *m, struct cached_file *cf, int err);
/* Give up the claim that is not used for longest, if there are too many. True: one was. */
bool file_release_unused(struct memory *m);
/* The claim is lost: dirty pages go, pages are void. Both mutexes are held. */
void file_claim_lost_locked(struct memory *m, struct cached_file *cf);

/* --- file_reserve.c ----------------------------------------------------------------------- */

/*
 * Pages [first, first + nr) of the claimed file may become dirty: they have blocks, or storage has
 * reserved them. @flags of MS_RESERVE. The change mutex is held. -ENOSPC; -EREMCHG: the claim is
 * to be made again, and then the call; -ENOMEM; what storage answers.
 */
int file_reserve(struct memory *m, struct cached_file *cf, uint64_t first, uint32_t nr,
		 uint32_t flags) __must_check;
/*
 * From byte @off on, where no page begins that is dirty, blocks may have gone, and reservations
 * been used.
 */
void file_reserve_unmapped(struct memory *m, struct cached_file *cf, uint64_t off);
/*
 * Storage is about to do @req, which may take blocks, to a file without dirty pages: what is idle
 * goes, and stays gone if it fails. Returns how many pages keep their reservations through it.
 */
uint32_t file_reserve_change_begin(struct memory *m, struct cached_file *cf,
				   const struct pm_file_change_req *req);
/* Storage has done it. */
void file_reserve_change_end(struct memory *m, struct cached_file *cf,
			     const struct pm_file_change_req *req);
/* Storage has forgotten the reservations: those that are needed, again, under @epoch. */
int file_reserve_again(struct memory *m, struct cached_file *cf, uint64_t epoch) __must_check;
/*
 * Serve PROTO_FILE_ROOM: as file_reserve() for the request's pages inside of the file, at most
 * MS_RESERVE_MAX_PAGES; a processor keeps stores into them to itself, so what is reserved stays
 * without being dirty. *@pos: up to there all have their place. -ESTALE: the claim is lost. With
 * PM_FILE_AHEAD also behind the end, for the first page and those that room is found for; -EFBIG:
 * no file has that one.
 */
int file_reserve_hold(struct memory *m, struct cached_file *cf,
		      const struct pm_file_change_req *req, uint64_t *pos) __must_check;
/* The processor has sent all that it had to itself: what it holds behind the end is idle. */
void file_reserve_last(struct memory *m, struct cached_file *cf);
/* Give back what one file has not needed for some seconds. False: there is none. */
bool file_reserve_give_idle(struct memory *m);
/* Give back what no file of storage node @node needs now. No mutex of a file is held. */
void file_reserve_give_all(struct memory *m, uint32_t node);
/* The epoch of the claim, 0: it is lost. */
uint64_t file_epoch(struct memory *m, const struct cached_file *cf);
/*
 * A request under the claim @epoch, by which the caller still has no mutex, ended with *@err: do
 * what helps a reservation, once for want of room. False: nothing does, and *@err is the answer.
 */
bool file_reserve_try_again(struct memory *m, struct cached_file *cf, uint64_t epoch,
			    uint32_t *tries, int *err) __must_check;
