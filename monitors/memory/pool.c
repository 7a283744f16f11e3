/* SPDX-License-Identifier: MIT */
/*
 * The frames of a memory monitor: taking and freeing, accounts, credits.
 *
 * Limits:	a processor's account is made at its first contact, with a block of ids, so ids
 *		that never appear cost nothing. Credits of a processor are at most 7/8 of what is
 *		free and its own together, so that others find some; one that reports that it needs
 *		more has a little of the rest every BEYOND_NS.
 */
#include "pool.h"

#include <kernel/panic.h>
#include <kernel/time.h>
#include <lib/alloc.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <proto/types.h>

#include "commit.h"

#define CREDIT_BLOCK  256u
#define CREDIT_BLOCKS ((PROTO_NODE_MAX + 1) / CREDIT_BLOCK)
#define KEPT_PART     8u /* of what a processor could have, kept for others */
#define BEYOND_NS     (100 * NSEC_PER_MSEC)

static int describe_run(struct pool *pool, size_t i)
{
	struct pool_run *run = &pool->runs[i];

	run->pages = lib_zalloc(run->nr_pages * sizeof(*run->pages));
	if (!run->pages)
		return -ENOMEM;
	for (uint64_t p = 0; p < run->nr_pages; p++)
		run->pages[p].run = (uint16_t)i;
	pool->total += run->nr_pages;
	return 0;
}

/*
 * Programs may not have whole extents for files, of which one may be only begun, and some frames
 * for pool_alloc_instead().
 */
static void divide(struct pool *pool, uint64_t file_min, uint64_t extent_pages)
{
	file_min = MIN(file_min, pool->total / 2);
	pool->slack = file_min / 4;
	pool->file_floor = MAX(ALIGN_DOWN(file_min - pool->slack, extent_pages), extent_pages);
	pool->file_floor = MIN(pool->file_floor, pool->total / 2);
	pool->file_min = MIN(pool->file_floor + pool->slack + extent_pages - 1, pool->total);
}

int pool_init(struct pool *pool, const struct pool_run *runs, size_t nr_runs, uint64_t extent_pages,
	      uint64_t file_min, const struct pm_commit *policy)
{
	int err = -ENOMEM;

	memset(pool, 0, sizeof(*pool));
	spin_lock_init(&pool->lock, "pool", RANK_MEM_POOL);
	waitqueue_init(&pool->freed);
	waitqueue_init(&pool->zeroer);
	waitqueue_init(&pool->changer);
	if (nr_runs > UINT16_MAX)
		return -EINVAL;
	pool->runs = lib_zalloc(nr_runs * sizeof(*runs));
	pool->accounts = lib_zalloc(CREDIT_BLOCKS * sizeof(*pool->accounts));
	pool->fenced = lib_zalloc((PROTO_NODE_MAX + 1) / 8);
	if (!pool->runs || !pool->accounts || !pool->fenced)
		goto out_destroy;
	memcpy(pool->runs, runs, nr_runs * sizeof(*runs));
	for (; pool->nr_runs < nr_runs; pool->nr_runs++) {
		err = describe_run(pool, pool->nr_runs);
		if (err)
			goto out_destroy;
	}
	err = extents_init(pool, extent_pages);
	if (err)
		goto out_destroy;
	divide(pool, file_min, extent_pages);
	lock_not_needed(&pool->lock, "no other thread knows the pool yet");
	pool->policy = *policy;
	pool->next_number = 1;
	return 0;

out_destroy:
	pool_destroy(pool);
	return err;
}

void pool_destroy(struct pool *pool)
{
	lock_not_needed(&pool->lock, "the last user");
	for (size_t i = 0; i < pool->nr_runs; i++)
		lib_free(pool->runs[i].pages);
	extents_destroy(pool);
	for (size_t i = 0; pool->accounts && i < CREDIT_BLOCKS; i++)
		lib_free(pool->accounts[i]);
	lib_free(pool->accounts);
	lib_free(pool->fenced);
	lib_free(pool->runs);
	memset(pool, 0, sizeof(*pool));
}

static uint64_t page_number(const struct pool_run *run, const struct mpage *page)
{
	return (uint64_t)(page - run->pages);
}

void *mpage_virt(const struct pool *pool, const struct mpage *page)
{
	const struct pool_run *run = &pool->runs[page->run];

	return (uint8_t *)run->virt + page_number(run, page) * PAGE_SIZE;
}

paddr_t mpage_paddr(const struct pool *pool, const struct mpage *page)
{
	const struct pool_run *run = &pool->runs[page->run];

	return run->paddr + page_number(run, page) * PAGE_SIZE;
}

const struct rpc_mem *mpage_mem(const struct pool *pool, const struct mpage *page)
{
	return pool->runs[page->run].mem;
}

const struct rpc_mem *mpage_file_mem(const struct pool *pool, const struct mpage *page)
{
	return extent_of(pool, page)->mem;
}

static uint64_t anon_limit(const struct pool *pool)
{
	return pool->total - pool->file_min;
}

/* A frame that a credit stands for is free, in an extent that has no pages of files. */
static void accounts_check_locked(const struct pool *pool) __must_hold(&pool->lock)
{
	assert_spin_held(&pool->lock);
	ASSERT(pool->used + pool->reserved + pool->zeroing <= pool->capacity);
}

/* Of @limit frames, those that may still be used or reserved. */
static uint64_t left_locked(const struct pool *pool, uint64_t limit) __must_hold(&pool->lock)
{
	assert_spin_held(&pool->lock);
	return limit - MIN(limit, pool->used + pool->reserved);
}

/* Frames that may be used or reserved at once. */
static uint64_t anon_left_locked(const struct pool *pool) __must_hold(&pool->lock)
{
	const uint64_t keep = pool->slack + pool->zeroing;

	assert_spin_held(&pool->lock);
	return left_locked(pool, MIN(anon_limit(pool), pool->capacity - MIN(pool->capacity, keep)));
}

/* A frame for a page of a program, which has been accounted for: one of @account's if it can be. */
static struct mpage *anon_take_locked(struct pool *pool, struct pool_account *account)
	__must_hold(&pool->lock)
{
	struct mpage *page = account ? extent_take_lent_locked(pool, account) : NULL;

	assert_spin_held(&pool->lock);
	pool->used++;
	accounts_check_locked(pool);
	if (!page)
		page = extent_take_locked(pool, false);
	BUG_ON(!page);
	return page;
}

/* @proc has use for a frame that it may read: one extent and a half are kept ahead of it. */
static void note_wanted_locked(struct pool *pool, uint32_t proc, const struct pool_account *account)
	__must_hold(&pool->lock)
{
	assert_spin_held(&pool->lock);
	if (pool->has_changer && account && pool->ops && pool->ops->lend &&
	    account->lent_free < 3ull << pool->extent_shift >> 1)
		pool->wants_extent = proc;
}

static void page_begin(struct mpage *page, enum mpage_kind kind)
{
	page->kind = (uint8_t)kind;
	page->seq = 0;
	page->hash.next = NULL;
	page->hash.link = NULL;
	__atomic_store_n(&page->refs, 1, __ATOMIC_RELAXED);
}

/* Which of the threads that keep something ready are to be woken. */
struct kicks {
	bool zeroer, changer;
};

static struct kicks kicks_locked(const struct pool *pool) __must_hold(&pool->lock)
{
	assert_spin_held(&pool->lock);
	return (struct kicks){
		.zeroer = pool->nr_zero < pool->zero_ahead / 2,
		.changer = pool->has_changer && extents_want_change_locked(pool),
	};
}

static void kick(struct pool *pool, struct kicks kicks)
{
	if (kicks.zeroer && waitqueue_active(&pool->zeroer))
		wake_all(&pool->zeroer);
	if (kicks.changer && waitqueue_active(&pool->changer))
		wake_all(&pool->changer);
}

/* Where no thread does: make frames ready that are missing now. False: there are no more. */
static bool change_now(struct pool *pool, uint64_t anon, uint64_t file)
{
	const struct extent_need need = { .anon = anon, .file = file };
	enum extent_result result;

	if (pool->has_changer)
		return false;
	do
		result = extents_change(pool, &need);
	while (result == EXTENTS_STUCK);
	return result == EXTENTS_CHANGED;
}

struct pool_account *pool_account_locked(struct pool *pool, uint32_t proc) __must_hold(&pool->lock)
{
	struct pool_account *block;

	assert_spin_held(&pool->lock);
	if (proc > PROTO_NODE_MAX)
		return NULL;
	block = pool->accounts[proc / CREDIT_BLOCK];
	return block ? &block[proc % CREDIT_BLOCK] : NULL;
}

static struct mpage *alloc_anon(struct pool *pool, uint32_t proc, bool *used_credit)
{
	struct pool_account *account;
	struct mpage *page = NULL;
	struct kicks kicks;

	*used_credit = false;
	spin_lock(&pool->lock);
	account = proc ? pool_account_locked(pool, proc) : NULL;
	if (account && account->credits) {
		account->credits--;
		pool->reserved--;
		*used_credit = true;
	}
	note_wanted_locked(pool, proc, account);
	if (*used_credit || anon_left_locked(pool) ||
	    (account && account->lent_free && left_locked(pool, anon_limit(pool))))
		page = anon_take_locked(pool, account);
	kicks = kicks_locked(pool);
	spin_unlock(&pool->lock);
	if (page)
		page_begin(page, MPAGE_ANON);
	kick(pool, kicks);
	return page;
}

struct mpage *pool_alloc_anon(struct pool *pool, uint32_t proc, bool *used_credit)
{
	struct mpage *page;

	do
		page = alloc_anon(pool, proc, used_credit);
	while (!page && change_now(pool, pool->slack + 1, 0));
	return page;
}

static struct mpage *alloc_file(struct pool *pool)
{
	struct mpage *page;
	struct kicks kicks;

	spin_lock(&pool->lock);
	page = extent_take_locked(pool, true);
	if (page) {
		pool->reading++;
		pool->file++;
		extent_of(pool, page)->nr_reading++;
	}
	kicks = kicks_locked(pool);
	spin_unlock(&pool->lock);
	if (page)
		page_begin(page, MPAGE_READING);
	kick(pool, kicks);
	return page;
}

struct mpage *pool_alloc_file(struct pool *pool, bool may_reclaim)
{
	struct mpage *page;

	do
		page = alloc_file(pool);
	while (!page && (change_now(pool, 0, 1) ||
			 (may_reclaim && pool->ops && pool->ops->reclaim(pool->ops_arg))));
	return page;
}

void pool_file_read(struct pool *pool, struct mpage *page)
{
	spin_lock(&pool->lock);
	ASSERT(page->kind == MPAGE_READING);
	page->kind = MPAGE_FILE;
	pool->reading--;
	extent_of(pool, page)->nr_reading--;
	spin_unlock(&pool->lock);
	if (waitqueue_active(&pool->freed))
		wake_all(&pool->freed);
}

static struct mpage *alloc_instead(struct pool *pool)
{
	struct mpage *page = NULL;
	struct kicks kicks;

	spin_lock(&pool->lock);
	if (left_locked(pool, MIN(pool->total - pool->file_floor, pool->capacity - pool->zeroing)))
		page = anon_take_locked(pool, NULL);
	kicks = kicks_locked(pool);
	spin_unlock(&pool->lock);
	if (page)
		page_begin(page, MPAGE_ANON);
	kick(pool, kicks);
	return page;
}

struct mpage *pool_alloc_instead(struct pool *pool)
{
	struct mpage *page;

	do
		page = alloc_instead(pool);
	while (!page && change_now(pool, 1, 0));
	return page;
}

struct mpage *pool_alloc_readable(struct pool *pool, uint32_t proc, const struct mpage *page)
{
	struct pool_account *account;
	struct mpage *fresh = NULL;
	struct kicks kicks;

	if (!pool_may_move(pool, proc, page))
		return NULL;
	spin_lock(&pool->lock);
	account = pool_account_locked(pool, proc);
	note_wanted_locked(pool, proc, account);
	if (account && account->lent_free && left_locked(pool, pool->total - pool->file_floor))
		fresh = anon_take_locked(pool, account);
	kicks = kicks_locked(pool);
	spin_unlock(&pool->lock);
	if (fresh)
		page_begin(fresh, MPAGE_ANON);
	kick(pool, kicks);
	return fresh;
}

struct pm_place mpage_place(const struct pool *pool, const struct mpage *page, uint32_t proc)
{
	const struct extent *e = extent_of(pool, page);
	const uint64_t place = __atomic_load_n(&e->place, __ATOMIC_ACQUIRE);

	if (!place || READ_ONCE(e->proc) != proc)
		return (struct pm_place){ 0 };
	return (struct pm_place){ .extent = (uint32_t)(place >> 32),
				  .rkey = (uint32_t)place,
				  .frame = (uint32_t)(page - e->first) };
}

void mpage_get(struct mpage *page)
{
	__atomic_add_fetch(&page->refs, 1, __ATOMIC_RELAXED);
}

void mpage_put(struct pool *pool, struct mpage *page)
{
	if (__atomic_sub_fetch(&page->refs, 1, __ATOMIC_ACQ_REL))
		return;
	spin_lock(&pool->lock);
	ASSERT(page->kind != MPAGE_FREE);
	if (page->kind == MPAGE_ANON)
		pool->used--;
	else
		pool->file--;
	if (page->kind == MPAGE_READING) {
		pool->reading--;
		extent_of(pool, page)->nr_reading--;
	}
	page->kind = MPAGE_FREE;
	extent_give_locked(pool, page);
	spin_unlock(&pool->lock);
	if (waitqueue_active(&pool->freed))
		wake_all(&pool->freed);
}

bool pool_wants_zeroing(struct pool *pool)
{
	bool wants;

	spin_lock(&pool->lock);
	wants = pool->nr_zero < pool->zero_ahead && extent_can_zero_locked(pool);
	spin_unlock(&pool->lock);
	return wants;
}

uint64_t pool_zero_dirty(struct pool *pool, uint64_t budget)
{
	struct mpage *page;
	uint64_t n;

	for (n = 0; n < budget; n++) {
		spin_lock(&pool->lock);
		page = extent_zero_begin_locked(pool);
		spin_unlock(&pool->lock);
		if (!page)
			break;

		memset(mpage_virt(pool, page), 0, PAGE_SIZE);

		spin_lock(&pool->lock);
		extent_zero_end_locked(pool, page);
		spin_unlock(&pool->lock);
	}
	return n;
}

/* Make room for the account of @proc. */
static int account_make(struct pool *pool, uint32_t proc)
{
	struct pool_account *block = lib_zalloc(CREDIT_BLOCK * sizeof(*block));
	struct pool_account **slot;

	if (!block)
		return -ENOMEM;
	for (uint32_t i = 0; i < CREDIT_BLOCK; i++)
		list_init(&block[i].lent);
	spin_lock(&pool->lock);
	slot = &pool->accounts[proc / CREDIT_BLOCK];
	if (!*slot) {
		*slot = block;
		block = NULL;
	}
	spin_unlock(&pool->lock);
	lib_free(block);
	return 0;
}

/* With pool.lock held: the account of @proc, made if there is none. NULL: no memory. */
static struct pool_account *account_get_locked(struct pool *pool, uint32_t proc)
	__must_hold(&pool->lock)
{
	struct pool_account *account;

	assert_spin_held(&pool->lock);
	account = pool_account_locked(pool, proc);
	if (account || !proc || proc > PROTO_NODE_MAX)
		return account;
	spin_unlock(&pool->lock);
	(void)account_make(pool, proc);
	spin_lock(&pool->lock);
	return pool_account_locked(pool, proc);
}

/*
 * Frames that @account may have before it is at its share. It is like the threshold of a shared
 * switch buffer: it shrinks as others take frames, and the last slack frames are anybody's.
 */
static uint64_t share_left_locked(const struct pool *pool, const struct pool_account *account)
	__must_hold(&pool->lock)
{
	const uint64_t left = anon_left_locked(pool);
	const uint64_t all = left + account->credits;
	const uint64_t share = MAX(all - DIV_ROUND_UP(all, KEPT_PART), pool->slack);

	assert_spin_held(&pool->lock);
	return MIN(share - MIN(share, account->credits), left);
}

/*
 * And beyond its share, now. Its programs may need them all, and it waits for a frame as long as
 * there are some: so it gets them, but others get theirs between.
 */
static uint64_t beyond_share_locked(const struct pool *pool, struct pool_account *account)
	__must_hold(&pool->lock)
{
	const uint64_t left = anon_left_locked(pool);
	const uint64_t now = time_now_ns();

	assert_spin_held(&pool->lock);
	if (now < account->beyond_ns)
		return 0;
	account->beyond_ns = now + BEYOND_NS;
	return MIN(left, MAX(MAX(left / KEPT_PART, pool->slack / 4), 1u));
}

/* Up to @want credits more, no more than @most, as many as can be reserved. */
static uint32_t credits_add_locked(struct pool *pool, struct pool_account *account, uint32_t want,
				   uint64_t most) __must_hold(&pool->lock)
{
	assert_spin_held(&pool->lock);
	want = MIN(want, UINT32_MAX - account->credits);
	want = (uint32_t)MIN((uint64_t)want, MIN(most, anon_left_locked(pool)));
	account->credits += want;
	pool->reserved += want;
	accounts_check_locked(pool);
	return want;
}

static void credits_drop_locked(struct pool *pool, struct pool_account *account, uint32_t nr)
	__must_hold(&pool->lock)
{
	assert_spin_held(&pool->lock);
	ASSERT(nr <= account->credits);
	account->credits -= nr;
	pool->reserved -= nr;
}

/* Where no thread does: have @want frames ready that can be reserved, or as many as there are. */
static void room_make(struct pool *pool, uint64_t want)
{
	while (pool_room_now(pool) < want && change_now(pool, pool->slack + want, 0))
		;
}

uint32_t pool_grant(struct pool *pool, uint32_t proc, uint32_t want, bool replay, uint64_t *report)
{
	struct pool_account *account;
	uint32_t got = 0;
	struct kicks kicks;

	*report = 0;
	if (!want)
		return 0;
	room_make(pool, want);
	spin_lock(&pool->lock);
	account = account_get_locked(pool, proc);
	if (account && !pool_is_fenced(pool, proc)) {
		got = credits_add_locked(pool, account, want,
					 replay ? want : share_left_locked(pool, account));
		*report = account->report;
	}
	kicks = kicks_locked(pool);
	spin_unlock(&pool->lock);
	kick(pool, kicks);
	return got;
}

uint32_t pool_revoke(struct pool *pool, uint32_t proc, uint32_t nr)
{
	struct pool_account *account;

	spin_lock(&pool->lock);
	account = pool_account_locked(pool, proc);
	nr = account ? MIN(nr, account->credits) : 0;
	if (nr)
		credits_drop_locked(pool, account, nr);
	spin_unlock(&pool->lock);
	if (nr)
		wake_all(&pool->freed);
	return nr;
}

/* @more credits than before are reported or wanted; @want of them are wanted. */
static void credits_raise_locked(struct pool *pool, struct pool_account *account, uint32_t more,
				 uint32_t want, bool replay) __must_hold(&pool->lock)
{
	const uint64_t most = replay ? more : share_left_locked(pool, account);

	assert_spin_held(&pool->lock);
	if (!credits_add_locked(pool, account, more, most) && want && !replay)
		(void)credits_add_locked(pool, account, want, beyond_share_locked(pool, account));
}

int pool_report(struct pool *pool, uint32_t proc, uint64_t report, uint32_t hold, uint32_t want,
		bool replay, int64_t *delta, uint32_t *now)
{
	const uint32_t have = pool_credits(pool, proc);
	struct pool_account *account;
	uint32_t before, wanted;
	struct kicks kicks;
	int err = 0;

	*delta = 0;
	if ((uint64_t)hold + want > have)
		room_make(pool, (uint64_t)hold + want - have);
	spin_lock(&pool->lock);
	account = account_get_locked(pool, proc);
	if (!account)
		err = -ENOMEM;
	else if (pool_is_fenced(pool, proc) || report <= account->report)
		err = -ESTALE;
	if (!err) {
		before = account->credits;
		wanted = hold + MIN(want, UINT32_MAX - hold);
		account->report = report;
		if (before > wanted)
			credits_drop_locked(pool, account, before - wanted);
		else
			credits_raise_locked(pool, account, wanted - before, want, replay);
		*delta = (int64_t)account->credits - before;
		*now = account->credits;
	}
	kicks = kicks_locked(pool);
	spin_unlock(&pool->lock);
	kick(pool, kicks);
	return err;
}

/* A processor that is gone has no credits, and counts its reports anew when it comes again. */
static void account_clear(struct pool *pool, uint32_t proc)
{
	struct pool_account *account;

	spin_lock(&pool->lock);
	account = pool_account_locked(pool, proc);
	if (account) {
		credits_drop_locked(pool, account, account->credits);
		account->report = 0;
		account->unheard = account->tell = false; /* its next life knows no place */
	}
	spin_unlock(&pool->lock);
}

/*
 * The bit is set first. Later the caller looks for everything that the processor has, under the
 * locks that guard it. A thread that makes something for the processor looks at the bit under the
 * same lock: so either it sees the bit, or the caller finds what it has made.
 */
void pool_fence(struct pool *pool, uint32_t proc)
{
	if (proc > PROTO_NODE_MAX)
		return;
	(void)__atomic_fetch_or(&pool->fenced[proc / 64], BIT64(proc % 64), __ATOMIC_SEQ_CST);
	account_clear(pool, proc);
}

void pool_admit(struct pool *pool, uint32_t proc)
{
	if (proc <= PROTO_NODE_MAX)
		(void)__atomic_fetch_and(&pool->fenced[proc / 64], ~BIT64(proc % 64),
					 __ATOMIC_SEQ_CST);
}

bool pool_is_fenced(const struct pool *pool, uint32_t proc)
{
	return proc <= PROTO_NODE_MAX &&
	       (__atomic_load_n(&pool->fenced[proc / 64], __ATOMIC_ACQUIRE) & BIT64(proc % 64));
}

uint32_t pool_next_creditor(struct pool *pool, uint32_t proc)
{
	uint32_t found = 0;

	spin_lock(&pool->lock);
	for (; proc <= PROTO_NODE_MAX && !found; proc++) {
		const struct pool_account *account = pool_account_locked(pool, proc);

		if (!account)
			proc |= CREDIT_BLOCK - 1; /* nobody of this block */
		else if (account->credits)
			found = proc;
	}
	spin_unlock(&pool->lock);
	return found;
}

void pool_refuse(struct pool *pool, uint32_t proc)
{
	struct pool_account *account;

	spin_lock(&pool->lock);
	account = account_get_locked(pool, proc);
	if (account)
		account->refused = account->unheard = true;
	spin_unlock(&pool->lock);
}

void pool_refuse_end(struct pool *pool)
{
	spin_lock(&pool->lock);
	for (uint32_t proc = 0; proc <= PROTO_NODE_MAX; proc++) {
		struct pool_account *account = pool_account_locked(pool, proc);

		if (!account) {
			proc |= CREDIT_BLOCK - 1; /* nobody of this block */
		} else if (account->refused) {
			account->refused = false;
			account->tell = pool->tell_all = true;
		}
	}
	spin_unlock(&pool->lock);
}

struct pool_account *pool_next_to_tell_locked(struct pool *pool, uint32_t *proc)
	__must_hold(&pool->lock)
{
	assert_spin_held(&pool->lock);
	for (*proc = 0; *proc <= PROTO_NODE_MAX; ++*proc) {
		struct pool_account *account = pool_account_locked(pool, *proc);

		if (!account)
			*proc |= CREDIT_BLOCK - 1; /* nobody of this block */
		else if (account->tell)
			return account;
	}
	return NULL;
}

uint32_t pool_credits(struct pool *pool, uint32_t proc)
{
	const struct pool_account *account;
	uint32_t nr;

	spin_lock(&pool->lock);
	account = pool_account_locked(pool, proc);
	nr = account ? account->credits : 0;
	spin_unlock(&pool->lock);
	return nr;
}

int pool_charge_kernel(struct pool *pool, uint32_t proc, uint64_t bytes)
{
	struct pool_account *account;
	int err = -ENOMEM;

	spin_lock(&pool->lock);
	account = account_get_locked(pool, proc);
	if (account && bytes <= pool->kernel_max - MIN(pool->kernel_max, account->kernel_bytes)) {
		account->kernel_bytes += bytes;
		err = 0;
	}
	spin_unlock(&pool->lock);
	return err;
}

int pool_charge_stranger(struct pool *pool, uint32_t proc, uint64_t bytes,
			 bool (*is_member)(void *arg, uint32_t proc), void *arg)
{
	struct pool_account *account;
	uint64_t held = 0;
	int err = -ENOMEM;

	spin_lock(&pool->lock);
	account = account_get_locked(pool, proc);
	for (uint32_t p = 0; account && p <= PROTO_NODE_MAX; p++) {
		const struct pool_account *a = pool_account_locked(pool, p);

		if (!a)
			p |= CREDIT_BLOCK - 1; /* nobody of this block */
		else if (a->kernel_bytes && !is_member(arg, p))
			held += a->kernel_bytes;
	}
	if (account && bytes <= pool->kernel_max - MIN(pool->kernel_max, held)) {
		account->kernel_bytes += bytes;
		err = 0;
	}
	spin_unlock(&pool->lock);
	return err;
}

void pool_charge_more(struct pool *pool, uint32_t proc, uint64_t bytes)
{
	struct pool_account *account;

	spin_lock(&pool->lock);
	account = pool_account_locked(pool, proc);
	ASSERT(account);
	account->kernel_bytes += bytes;
	spin_unlock(&pool->lock);
}

void pool_uncharge_kernel(struct pool *pool, uint32_t proc, uint64_t bytes)
{
	struct pool_account *account;

	spin_lock(&pool->lock);
	account = pool_account_locked(pool, proc);
	ASSERT(account && account->kernel_bytes >= bytes);
	account->kernel_bytes -= bytes;
	spin_unlock(&pool->lock);
}

uint64_t pool_kernel_bytes(struct pool *pool, uint32_t proc)
{
	const struct pool_account *account;
	uint64_t bytes;

	spin_lock(&pool->lock);
	account = pool_account_locked(pool, proc);
	bytes = account ? account->kernel_bytes : 0;
	spin_unlock(&pool->lock);
	return bytes;
}

uint64_t pool_room(struct pool *pool)
{
	uint64_t room;

	spin_lock(&pool->lock);
	room = left_locked(pool, MIN(anon_limit(pool), pool->total - pool->reading));
	spin_unlock(&pool->lock);
	return room;
}

uint64_t pool_room_now(struct pool *pool)
{
	uint64_t room;

	spin_lock(&pool->lock);
	room = anon_left_locked(pool);
	spin_unlock(&pool->lock);
	return room;
}

int pool_commit(struct pool *pool, uint64_t pages)
{
	int err = 0;

	spin_lock(&pool->lock);
	if (!commit_allows(&pool->policy, anon_limit(pool), pool->committed, pages))
		err = -ENOMEM;
	else
		pool->committed += pages;
	spin_unlock(&pool->lock);
	return err;
}

void pool_commit_more(struct pool *pool, uint64_t pages)
{
	spin_lock(&pool->lock);
	pool->committed += pages;
	spin_unlock(&pool->lock);
}

void pool_uncommit(struct pool *pool, uint64_t pages)
{
	spin_lock(&pool->lock);
	/* The account would be wrong, which is no reason to end the programs of all. */
	if (WARN_ON(pages > pool->committed))
		pages = pool->committed;
	pool->committed -= pages;
	spin_unlock(&pool->lock);
}

void pool_set_policy(struct pool *pool, const struct pm_commit *policy, uint32_t proc,
		     struct pm_commit *now)
{
	spin_lock(&pool->lock);
	if (commit_follows(&pool->policy, policy, proc))
		pool->policy = *policy;
	*now = pool->policy;
	spin_unlock(&pool->lock);
}

enum pm_commit_mode pool_commit_mode(struct pool *pool)
{
	enum pm_commit_mode mode;

	spin_lock(&pool->lock);
	mode = (enum pm_commit_mode)pool->policy.mode;
	spin_unlock(&pool->lock);
	return mode;
}

void pool_stats(struct pool *pool, struct pool_stats *out)
{
	spin_lock(&pool->lock);
	out->total = pool->total;
	out->zero = pool->nr_zero;
	out->dirty = pool->nr_dirty;
	out->used = pool->used;
	out->file = pool->file;
	out->reserved = pool->reserved;
	out->committed = pool->committed;
	out->programs = anon_limit(pool);
	out->file_extents = pool->file_frames;
	out->free_extents = pool->free_frames;
	out->extents_opened = pool->extents_opened;
	out->extents_closed = pool->extents_closed;
	out->lent_frames = pool->lent_frames;
	out->lent_free = pool->lent_free;
	out->extents_lent = pool->extents_lent;
	out->extents_taken_back = pool->extents_taken_back;
	out->commit_limit = commit_limit(&pool->policy, anon_limit(pool));
	spin_unlock(&pool->lock);
}
