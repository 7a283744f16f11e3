/* SPDX-License-Identifier: MIT */
/*
 * ExCache: replacement policies, which line of a full set is evicted.
 *
 * Flow:	FIFO evicts the line that has been in the set for longest. CLOCK goes round the set
 *		with a hand: a line that was used since the hand passed it last gets another round,
 *		the first that was not is evicted. The hand stands at the head of set->resident:
 *		passing a line moves it to the end. LRU moves the lines that were used since the
 *		last look to the end and evicts the first. DRRIP gives each line an age, how far
 *		away its next use is thought to be: 0 after a use, a new line 2 (static) or as a
 *		rule 3 (bimodal); of the oldest in age the one that came first goes (bimodal: the
 *		last), and if none has age 3, all age. Some sets always insert in the one way, some
 *		in the other; the others do as those that miss less.
 * Locking:	the set's lock; all but FIFO take object.lock and aspace.lock inside it to read
 *		accessed bits.
 * Limits:	accessed bits are cleared without a flush. A CPU that has the translation in its
 *		TLB does not set the bit again before it loads the entry anew, so a line in steady
 *		use may look idle and be evicted early. That costs a fault and loses nothing:
 *		eviction unmaps and flushes.
 * See:		docs/design/excache.md, "Replacement"
 */
#include "cache_private.h"

#include <kernel/panic.h>
#include <lib/errno.h>
#include <lib/hash.h>
#include <lib/string.h>

static int duel_score; /* atomic: misses of the static sets less those of the bimodal ones */
static int duel_score_max = 64; /* const after start */

static uint64_t duel_is_bimodal(void)
{
	return __atomic_load_n(&duel_score, __ATOMIC_RELAXED) > 0;
}
GAUGE(policy_bimodal, "excache.bimodal", "DRRIP: 1 while new lines are thought to be used once",
      duel_is_bimodal);
COUNTER(policy_chances, "excache.second_chances", "used lines that CLOCK kept for another round");

static void append_locked(struct cache_set *set, struct line *line)
{
	assert_spin_held(&set->lock);
	list_add_tail(&line->set_link, &set->resident);
}

static void forget_locked(struct cache_set *set, struct line *line)
{
	assert_spin_held(&set->lock);
	list_del(&line->set_link);
}

static void fifo_touch_locked(struct cache_set *set, struct line *line)
{
	assert_spin_held(&set->lock); /* FIFO does not care for use */
}

static struct line *fifo_victim_locked(struct cache_set *set, bool (*may_go)(struct line *line))
{
	struct line *line;

	assert_spin_held(&set->lock);
	list_for_each_entry(line, &set->resident, set_link) {
		if (line_is_idle(line) && may_go(line))
			return line;
	}
	return NULL;
}

/* The first ones that have all of @flags. */
static size_t next_with_locked(const struct cache_set *set, struct line **lines, size_t max,
			       uint8_t flags)
{
	struct line *line;
	size_t nr = 0;

	assert_spin_held(&set->lock);
	list_for_each_entry(line, &set->resident, set_link) {
		if (nr == max)
			break;
		if (line_is_idle(line) && (line->flags & flags) == flags)
			lines[nr++] = line;
	}
	return nr;
}

static size_t fifo_next_locked(const struct cache_set *set, struct line **lines, size_t max)
{
	assert_spin_held(&set->lock);
	return next_with_locked(set, lines, max, 0);
}

static void clock_touch_locked(struct cache_set *set, struct line *line)
{
	assert_spin_held(&set->lock);
	line->flags &= (uint8_t)~LINE_IDLE;
}

/* Was @line used since the hand passed it last? */
static bool clock_used_locked(struct cache_set *set, struct line *line)
{
	bool used;

	assert_spin_held(&set->lock);
	used = line_clear_accessed_locked(set, line) ||
	       !(line->flags & (LINE_IDLE | LINE_PREFETCH));
	line->flags |= LINE_IDLE;
	return used;
}

static struct line *clock_victim_locked(struct cache_set *set, bool (*may_go)(struct line *line))
	__must_hold(&set->lock)
{
	/* Two rounds: the first may find every line used, and leaves them all marked idle. */
	const uint32_t steps = 2 * set->nr_resident;

	assert_spin_held(&set->lock);
	for (uint32_t i = 0; i < steps; i++) {
		struct line *line = list_first_entry(&set->resident, struct line, set_link);

		list_move_tail(&line->set_link, &set->resident);
		if (!line_is_idle(line))
			continue;
		if (clock_used_locked(set, line))
			counter_inc(&policy_chances);
		else if (may_go(line))
			return line;
	}
	/* Other CPUs use them faster than the hand goes round: any idle line will do. */
	return fifo_victim_locked(set, may_go);
}

/* The hand has passed them, and no get has found them since. */
static size_t clock_next_locked(const struct cache_set *set, struct line **lines, size_t max)
{
	assert_spin_held(&set->lock);
	return next_with_locked(set, lines, max, LINE_IDLE);
}

/* --- LRU ----------------------------------------------------------------------------- */

static void lru_touch_locked(struct cache_set *set, struct line *line)
{
	assert_spin_held(&set->lock);
	list_move_tail(&line->set_link, &set->resident);
}

static struct line *lru_victim_locked(struct cache_set *set, bool (*may_go)(struct line *line))
	__must_hold(&set->lock)
{
	struct line *line, *tmp;
	struct list_head used;

	assert_spin_held(&set->lock);
	list_init(&used);
	list_for_each_entry_safe(line, tmp, &set->resident, set_link) {
		if (line_is_idle(line) && line_clear_accessed_locked(set, line))
			list_move_tail(&line->set_link, &used);
	}
	list_splice_tail(&used, &set->resident);
	return fifo_victim_locked(set, may_go);
}

/* --- DRRIP --------------------------------------------------------------------------- */

#define AGE_USED    0
#define AGE_DISTANT 3

#define BIMODAL_ONE_IN  32 /* new lines of which one is not distant */
#define DUEL_PERIOD_MAX 32 /* sets of which one is static and one is bimodal */
#define DUEL_PERIOD_MIN 4

/*
 * The access that missed sets the accessed bit of the new entry, so a bit says nothing before it
 * was cleared once. That happens when RECENT more lines have entered the cache, or sooner, when the
 * set looks for a victim.
 */
#define RECENT_MAX 64u
static struct line *recent[RECENT_MAX]; /* atomic */
static uint32_t nr_recent = 1;          /* const after start */
static uint32_t next_recent;            /* atomic */

static uint32_t nr_bimodal; /* atomic */

void policy_start(void)
{
	const uint32_t period =
		MAX(MIN(excache.nr_sets / 8, (uint32_t)DUEL_PERIOD_MAX), (uint32_t)DUEL_PERIOD_MIN);

	for (uint32_t i = 0; i < excache.nr_sets; i++)
		excache.sets[i].duel = i % period == 0            ? DUEL_STATIC
				       : i % period == period / 2 ? DUEL_BIMODAL
								  : DUEL_FOLLOWS;
	duel_score_max = (int)(DIV_ROUND_UP(excache.nr_sets, period) * excache.nr_ways);
	memset(recent, 0, sizeof(recent));
	nr_recent = MAX(MIN(excache.nr_sets / 4, RECENT_MAX), 1u);
}

/* A miss in a set that tries something out: @by is 1 for the static insertion. */
static void duel_count(int by)
{
	int old = __atomic_load_n(&duel_score, __ATOMIC_RELAXED);

	/* A lost update of another CPU does not matter. */
	if (old + by <= duel_score_max && old + by >= -duel_score_max)
		__atomic_store_n(&duel_score, old + by, __ATOMIC_RELAXED);
}

static bool is_bimodal(const struct cache_set *set)
{
	return set->duel == DUEL_FOLLOWS ? duel_is_bimodal() : set->duel == DUEL_BIMODAL;
}

static uint8_t used_once_age(const struct cache_set *set)
{
	if (!is_bimodal(set))
		return LINE_AGE_NEW;
	/* Hashed: the one must not always meet the same set. */
	return hash64(__atomic_add_fetch(&nr_bimodal, 1, __ATOMIC_RELAXED)) % BIMODAL_ONE_IN == 0
		       ? LINE_AGE_NEW
		       : AGE_DISTANT;
}

static uint8_t new_age(const struct cache_set *set)
{
	if (set->duel != DUEL_FOLLOWS)
		duel_count(is_bimodal(set) ? -1 : 1);
	return used_once_age(set);
}

static void drrip_insert_locked(struct cache_set *set, struct line *line)
{
	assert_spin_held(&set->lock);
	append_locked(set, line);
	line->age = set->nr_resident >= excache.nr_ways ? new_age(set) : LINE_AGE_NEW;
}

static void drrip_touch_locked(struct cache_set *set, struct line *line)
{
	assert_spin_held(&set->lock);
	/* The first use of a page that was fetched ahead is the one that it was fetched for. */
	if (line->flags & LINE_PREFETCH)
		line->age = MAX(line->age, used_once_age(set));
	else
		line->age = AGE_USED;
}

/* Its one use is still to come: before that it is not distant, whatever is thought of new lines. */
static void drrip_ahead_locked(struct cache_set *set, struct line *line)
{
	assert_spin_held(&set->lock);
	line->age = LINE_AGE_NEW;
}

static void drrip_look_locked(struct cache_set *set, struct line *line)
{
	assert_spin_held(&set->lock);
	if (line_clear_accessed_locked(set, line) && (line->flags & LINE_SETTLED))
		line->age = AGE_USED;
	if (!(line->flags & LINE_PREFETCH))
		line->flags |= LINE_SETTLED;
}

static bool is_resident_locked(const struct cache_set *set, const struct line *wanted)
{
	const struct line *line;

	assert_spin_held(&set->lock);
	list_for_each_entry(line, &set->resident, set_link) {
		if (line == wanted)
			return true;
	}
	return false;
}

static void drrip_entered(struct line *line)
{
	const uint32_t at = __atomic_fetch_add(&next_recent, 1, __ATOMIC_RELAXED) % nr_recent;
	struct line *old = __atomic_exchange_n(&recent[at], line, __ATOMIC_RELAXED);
	struct cache_set *set;

	if (!old)
		return;
	set = set_of_line(old);
	spin_lock(&set->lock);
	/*
	 * It may have left meanwhile: only what is on the set's list is the lock's. If it has
	 * another page by now, that one is looked at a little early.
	 */
	if (is_resident_locked(set, old) && old->state == LINE_VALID &&
	    !(old->flags & LINE_SETTLED))
		drrip_look_locked(set, old);
	spin_unlock(&set->lock);
}

/*
 * A line of @age that may go, has @flags and was not used since the last look. Of several, the
 * first that came, as in a queue; but the last of the distant ones where new lines are thought to
 * be used once: those that came before it have stayed for longer. Only lines that would go are
 * looked at: what was used and is not old needs no look yet.
 */
static struct line *drrip_of_age_locked(struct cache_set *set, int age, uint8_t flags,
					bool (*may_go)(struct line *line)) __must_hold(&set->lock)
{
	const bool last = age == AGE_DISTANT && is_bimodal(set);
	struct list_head *at = last ? set->resident.prev : set->resident.next;

	assert_spin_held(&set->lock);
	for (; at != &set->resident; at = last ? at->prev : at->next) {
		struct line *line = list_entry(at, struct line, set_link);

		if (line->age != age || (line->flags & flags) != flags || !line_is_idle(line))
			continue;
		if (line->flags & LINE_SETTLED)
			drrip_look_locked(set, line);
		if (line->age == age && may_go(line))
			return line;
	}
	return NULL;
}

static void drrip_look_at_new_locked(struct cache_set *set)
{
	struct line *line;

	assert_spin_held(&set->lock);
	list_for_each_entry(line, &set->resident, set_link) {
		if (line->state == LINE_VALID && !(line->flags & LINE_SETTLED))
			drrip_look_locked(set, line);
	}
}

static struct line *drrip_victim_locked(struct cache_set *set, bool (*may_go)(struct line *line))
	__must_hold(&set->lock)
{
	struct line *line, *oldest;
	int age = AGE_DISTANT;

	assert_spin_held(&set->lock);
	/*
	 * Of a line that was never looked at nobody knows whether it was used again: while there is
	 * another, it stays. Else a page in steady use that was lost once would be the first to go
	 * each time that it comes back.
	 */
	oldest = drrip_of_age_locked(set, age, LINE_SETTLED, may_go);
	drrip_look_at_new_locked(set);
	for (; !oldest && age >= AGE_USED; age--) {
		oldest = drrip_of_age_locked(set, age, 0, may_go);
		if (oldest)
			break;
	}
	if (!oldest || age == AGE_DISTANT)
		return oldest;
	list_for_each_entry(line, &set->resident, set_link)
		line->age = (uint8_t)MIN(line->age + AGE_DISTANT - age, AGE_DISTANT);
	return oldest;
}

/* Not before it is known whether they are used again. */
static size_t drrip_next_locked(const struct cache_set *set, struct line **lines, size_t max)
{
	struct list_head *at;
	size_t nr = 0;

	assert_spin_held(&set->lock);
	for (int age = AGE_DISTANT; age > AGE_USED; age--) {
		const bool last = age == AGE_DISTANT && is_bimodal(set);

		at = last ? set->resident.prev : set->resident.next;
		for (; at != &set->resident && nr < max; at = last ? at->prev : at->next) {
			struct line *line = list_entry(at, struct line, set_link);

			if (line->age == age && line_is_idle(line) && (line->flags & LINE_SETTLED))
				lines[nr++] = line;
		}
	}
	return nr;
}

static const struct excache_policy policies[] = {
	{
		.name = "fifo",
		.appends = true,
		.insert = append_locked,
		.touch = fifo_touch_locked,
		.victim = fifo_victim_locked,
		.next = fifo_next_locked,
		.forget = forget_locked,
	},
	{
		.name = "clock",
		.appends = true,
		.insert = append_locked,
		.touch = clock_touch_locked,
		.victim = clock_victim_locked,
		.next = clock_next_locked,
		.forget = forget_locked,
	},
	{
		.name = "lru",
		.appends = true,
		.insert = append_locked,
		.touch = lru_touch_locked,
		.victim = lru_victim_locked,
		.next = fifo_next_locked,
		.forget = forget_locked,
	},
	{
		.name = "drrip",
		.appends = true,
		.insert = drrip_insert_locked,
		.touch = drrip_touch_locked,
		.victim = drrip_victim_locked,
		.next = drrip_next_locked,
		.forget = forget_locked,
		.ahead = drrip_ahead_locked,
		.entered = drrip_entered,
	},
};

const struct excache_policy *policy_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(policies); i++) {
		if (strcmp(policies[i].name, name) == 0)
			return &policies[i];
	}
	return NULL;
}
