/* SPDX-License-Identifier: MIT */
/*
 * The frames of a memory monitor: free lists, accounts, credits.
 *
 * Limits:	a processor's account is made at its first contact, with a block of ids, so ids
 *		that never appear cost nothing.
 */
#include "pool.h"

#include <kernel/panic.h>
#include <lib/alloc.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <proto/types.h>

#include "commit.h"

#define CREDIT_BLOCK  256u
#define CREDIT_BLOCKS ((PROTO_NODE_MAX + 1) / CREDIT_BLOCK)

static int describe_run(struct pool *pool, size_t i)
{
	struct pool_run *run = &pool->runs[i];

	run->pages = lib_zalloc(run->nr_pages * sizeof(*run->pages));
	if (!run->pages)
		return -ENOMEM;
	lock_not_needed(&pool->lock, "no other thread knows the pool yet");
	for (uint64_t p = 0; p < run->nr_pages; p++) {
		run->pages[p].run = (uint16_t)i;
		list_add_tail(&run->pages[p].link, &pool->dirty);
	}
	pool->nr_dirty += run->nr_pages;
	pool->total += run->nr_pages;
	return 0;
}

int pool_init(struct pool *pool, const struct pool_run *runs, size_t nr_runs, uint64_t file_min,
	      const struct pm_commit *policy)
{
	int err = -ENOMEM;

	memset(pool, 0, sizeof(*pool));
	spin_lock_init(&pool->lock, "pool", RANK_MEM_POOL);
	waitqueue_init(&pool->freed);
	waitqueue_init(&pool->zeroer);
	list_init(&pool->zero);
	list_init(&pool->dirty);
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
	pool->file_min = MIN(file_min, pool->total / 2);
	lock_not_needed(&pool->lock, "no other thread knows the pool yet");
	pool->policy = *policy;
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

static uint64_t anon_limit(const struct pool *pool)
{
	return pool->total - pool->file_min;
}

/*
 * A frame that a credit stands for can be had at any time: all but those that are being read are
 * free, or are clean pages of files.
 */
static void accounts_check_locked(const struct pool *pool) __must_hold(&pool->lock)
{
	assert_spin_held(&pool->lock);
	ASSERT(pool->used + pool->reserved + pool->reading <= pool->total);
}

/* Frames that may still be used or reserved. */
static uint64_t anon_left_locked(const struct pool *pool) __must_hold(&pool->lock)
{
	const uint64_t limit = MIN(anon_limit(pool), pool->total - pool->reading);

	assert_spin_held(&pool->lock);
	return limit - MIN(limit, pool->used + pool->reserved);
}

/* Take any free frame, a zeroed one if there is one. */
static struct mpage *frame_take_locked(struct pool *pool, enum mpage_kind kind)
	__must_hold(&pool->lock)
{
	struct mpage *page;

	assert_spin_held(&pool->lock);
	if (!list_empty(&pool->zero)) {
		page = list_first_entry(&pool->zero, struct mpage, link);
		pool->nr_zero--;
	} else if (!list_empty(&pool->dirty)) {
		page = list_first_entry(&pool->dirty, struct mpage, link);
		pool->nr_dirty--;
	} else {
		return NULL;
	}
	list_del(&page->link);
	page->kind = (uint8_t)kind;
	page->seq = 0;
	page->hash.next = NULL;
	page->hash.link = NULL;
	__atomic_store_n(&page->refs, 1, __ATOMIC_RELAXED);
	return page;
}

/* Take any free frame; the zeroing thread hears of it when few are left. */
static struct mpage *frame_take(struct pool *pool, enum mpage_kind kind)
{
	struct mpage *page;
	bool low;

	spin_lock(&pool->lock);
	page = frame_take_locked(pool, kind);
	low = pool->nr_zero < pool->zero_ahead / 2;
	spin_unlock(&pool->lock);
	if (low && waitqueue_active(&pool->zeroer))
		wake_all(&pool->zeroer);
	return page;
}

/* Take a free frame, or one that a file page gives up. */
static struct mpage *frame_take_or_reclaim(struct pool *pool, enum mpage_kind kind)
{
	struct mpage *page;

	do
		page = frame_take(pool, kind);
	while (!page && pool->reclaim && pool->reclaim(pool->reclaim_arg));
	return page;
}

static struct pool_account *account_locked(struct pool *pool, uint32_t proc)
	__must_hold(&pool->lock)
{
	struct pool_account *block;

	assert_spin_held(&pool->lock);
	if (proc > PROTO_NODE_MAX)
		return NULL;
	block = pool->accounts[proc / CREDIT_BLOCK];
	return block ? &block[proc % CREDIT_BLOCK] : NULL;
}

struct mpage *pool_alloc_anon(struct pool *pool, uint32_t proc, bool *used_credit)
{
	struct pool_account *account;
	struct mpage *page;

	*used_credit = false;
	spin_lock(&pool->lock);
	account = proc ? account_locked(pool, proc) : NULL;
	if (account && account->credits) {
		account->credits--;
		pool->reserved--;
		*used_credit = true;
	} else if (!anon_left_locked(pool)) {
		spin_unlock(&pool->lock);
		return NULL;
	}
	pool->used++;
	accounts_check_locked(pool);
	spin_unlock(&pool->lock);

	page = frame_take_or_reclaim(pool, MPAGE_ANON);
	if (page)
		return page;
	spin_lock(&pool->lock);
	pool->used--;
	/* A processor that has been fenced meanwhile has no credits any more: see pool_fence(). */
	if (*used_credit && !pool_is_fenced(pool, proc)) {
		account->credits++;
		pool->reserved++;
	}
	*used_credit = false;
	spin_unlock(&pool->lock);
	return NULL;
}

struct mpage *pool_alloc_file(struct pool *pool, bool may_reclaim)
{
	struct mpage *page;
	bool may;

	spin_lock(&pool->lock);
	may = pool->used + pool->reserved + pool->reading < pool->total;
	pool->reading += may;
	pool->file += may;
	spin_unlock(&pool->lock);
	if (!may)
		return NULL;
	page = may_reclaim ? frame_take_or_reclaim(pool, MPAGE_READING)
			   : frame_take(pool, MPAGE_READING);
	if (page)
		return page;
	spin_lock(&pool->lock);
	pool->reading--;
	pool->file--;
	spin_unlock(&pool->lock);
	return NULL;
}

void pool_file_read(struct pool *pool, struct mpage *page)
{
	spin_lock(&pool->lock);
	ASSERT(page->kind == MPAGE_READING);
	page->kind = MPAGE_FILE;
	pool->reading--;
	spin_unlock(&pool->lock);
	if (waitqueue_active(&pool->freed))
		wake_all(&pool->freed);
}

struct mpage *pool_alloc_instead(struct pool *pool)
{
	struct mpage *page;
	bool may;

	spin_lock(&pool->lock);
	may = pool->used + pool->reserved + pool->reading < pool->total;
	pool->used += may;
	spin_unlock(&pool->lock);
	page = may ? frame_take_or_reclaim(pool, MPAGE_ANON) : NULL;
	if (may && !page) {
		spin_lock(&pool->lock);
		pool->used--;
		spin_unlock(&pool->lock);
	}
	return page;
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
	if (page->kind == MPAGE_READING)
		pool->reading--;
	page->kind = MPAGE_FREE;
	list_add_tail(&page->link, &pool->dirty);
	pool->nr_dirty++;
	spin_unlock(&pool->lock);
	if (waitqueue_active(&pool->freed))
		wake_all(&pool->freed);
}

bool pool_wants_zeroing(struct pool *pool)
{
	bool wants;

	spin_lock(&pool->lock);
	wants = pool->nr_zero < pool->zero_ahead && pool->nr_dirty;
	spin_unlock(&pool->lock);
	return wants;
}

uint64_t pool_zero_dirty(struct pool *pool, uint64_t budget)
{
	struct mpage *page;
	uint64_t n;

	for (n = 0; n < budget; n++) {
		spin_lock(&pool->lock);
		if (list_empty(&pool->dirty)) {
			spin_unlock(&pool->lock);
			break;
		}
		page = list_first_entry(&pool->dirty, struct mpage, link);
		list_del(&page->link);
		pool->nr_dirty--;
		spin_unlock(&pool->lock);

		memset(mpage_virt(pool, page), 0, PAGE_SIZE);

		spin_lock(&pool->lock);
		list_add_tail(&page->link, &pool->zero);
		pool->nr_zero++;
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
	account = account_locked(pool, proc);
	if (account || !proc || proc > PROTO_NODE_MAX)
		return account;
	spin_unlock(&pool->lock);
	(void)account_make(pool, proc);
	spin_lock(&pool->lock);
	return account_locked(pool, proc);
}

/* Up to @want credits more, as many as can be reserved. */
static uint32_t credits_add_locked(struct pool *pool, struct pool_account *account, uint32_t want)
	__must_hold(&pool->lock)
{
	assert_spin_held(&pool->lock);
	want = MIN(want, UINT32_MAX - account->credits);
	want = (uint32_t)MIN((uint64_t)want, anon_left_locked(pool));
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

uint32_t pool_grant(struct pool *pool, uint32_t proc, uint32_t want, uint64_t *report)
{
	struct pool_account *account;
	uint32_t got = 0;

	*report = 0;
	if (!want)
		return 0;
	spin_lock(&pool->lock);
	account = account_get_locked(pool, proc);
	if (account && !pool_is_fenced(pool, proc)) {
		got = credits_add_locked(pool, account, want);
		*report = account->report;
	}
	spin_unlock(&pool->lock);
	return got;
}

uint32_t pool_revoke(struct pool *pool, uint32_t proc, uint32_t nr)
{
	struct pool_account *account;

	spin_lock(&pool->lock);
	account = account_locked(pool, proc);
	nr = account ? MIN(nr, account->credits) : 0;
	if (nr)
		credits_drop_locked(pool, account, nr);
	spin_unlock(&pool->lock);
	if (nr)
		wake_all(&pool->freed);
	return nr;
}

int pool_report(struct pool *pool, uint32_t proc, uint64_t report, uint32_t hold, uint32_t want,
		int64_t *delta, uint32_t *now)
{
	struct pool_account *account;
	uint32_t before, wanted;
	int err = 0;

	*delta = 0;
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
			(void)credits_add_locked(pool, account, wanted - before);
		*delta = (int64_t)account->credits - before;
		*now = account->credits;
	}
	spin_unlock(&pool->lock);
	return err;
}

/* A processor that is gone has no credits, and counts its reports anew when it comes again. */
static void account_clear(struct pool *pool, uint32_t proc)
{
	struct pool_account *account;

	spin_lock(&pool->lock);
	account = account_locked(pool, proc);
	if (account) {
		credits_drop_locked(pool, account, account->credits);
		account->report = 0;
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
		const struct pool_account *account = account_locked(pool, proc);

		if (!account)
			proc |= CREDIT_BLOCK - 1; /* nobody of this block */
		else if (account->credits)
			found = proc;
	}
	spin_unlock(&pool->lock);
	return found;
}

uint32_t pool_credits(struct pool *pool, uint32_t proc)
{
	const struct pool_account *account;
	uint32_t nr;

	spin_lock(&pool->lock);
	account = account_locked(pool, proc);
	nr = account ? account->credits : 0;
	spin_unlock(&pool->lock);
	return nr;
}

int pool_charge_home(struct pool *pool, uint32_t proc, uint64_t bytes)
{
	struct pool_account *account;
	int err = -ENOMEM;

	spin_lock(&pool->lock);
	account = account_get_locked(pool, proc);
	if (account && bytes <= pool->home_max - MIN(pool->home_max, account->home_bytes)) {
		account->home_bytes += bytes;
		err = 0;
	}
	spin_unlock(&pool->lock);
	return err;
}

void pool_uncharge_home(struct pool *pool, uint32_t proc, uint64_t bytes)
{
	struct pool_account *account;

	spin_lock(&pool->lock);
	account = account_locked(pool, proc);
	ASSERT(account && account->home_bytes >= bytes);
	account->home_bytes -= bytes;
	spin_unlock(&pool->lock);
}

uint64_t pool_room(struct pool *pool)
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
	out->commit_limit = commit_limit(&pool->policy, anon_limit(pool));
	spin_unlock(&pool->lock);
}
