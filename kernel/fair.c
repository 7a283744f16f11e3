/* SPDX-License-Identifier: MIT */
/*
 * Fair queue: virtual time, deadlines, and the choice.  See fair.h for the rules.
 */
#include <kernel/fair.h>

#include <lib/assert.h>
#include <lib/compiler.h>

#define REQUEST_SHARE 8u /* the shortest request is this part of a slice */
#define BEHIND_MOST   4  /* slices by which a joining thread may have had too much */

static struct fair_entity *entity_of(struct rb_node *node)
{
	return rb_entry(node, struct fair_entity, node);
}

uint32_t fair_nice_weight(int nice)
{
	/* Linux's: a program that counts on a ratio between nice values finds the same here. */
	static const uint32_t weights[40] = {
		88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916,
		9548,  7620,  6100,  4904,  3906,  3121,  2501,  1991,  1586,  1277,
		1024,  820,   655,   526,   423,   335,   272,   215,   172,   137,
		110,   87,    70,    56,    45,    36,    29,    23,    18,    15,
	};

	ASSERT(nice >= -20 && nice <= 19);
	return weights[nice + 20];
}

void fair_init(struct fair_queue *q, uint64_t slice_ns)
{
	*q = (struct fair_queue){ .tree = RB_ROOT, .slice_ns = slice_ns };
}

void fair_entity_init(struct fair_entity *e, uint32_t weight, uint64_t slice_ns)
{
	*e = (struct fair_entity){ .weight = weight, .request_ns = slice_ns, .is_detached = true };
}

/* --- virtual time ------------------------------------------------------------------------ */

static int64_t virtual_of(const struct fair_entity *e, uint64_t ns)
{
	if (likely(e->weight == FAIR_WEIGHT_MEAN))
		return (int64_t)ns;
	return (int64_t)(ns * FAIR_WEIGHT_MEAN / e->weight);
}

/* Sum and weight of all that are runnable. */
static void totals(const struct fair_queue *q, int64_t *sum, int64_t *weight)
{
	*sum = q->sum;
	*weight = (int64_t)q->weight;
	if (q->curr) {
		*sum += (int64_t)q->curr->weight * (q->curr->age - q->zero);
		*weight += q->curr->weight;
	}
}

/* The mean age, rounded down; of an empty queue, as it was last. */
static int64_t mean_age(const struct fair_queue *q)
{
	int64_t sum, weight, mean;

	totals(q, &sum, &weight);
	if (!weight)
		return q->zero;
	mean = sum / weight;
	return q->zero + mean - (sum % weight < 0);
}

struct mean {
	int64_t zero, sum, weight;
};

static struct mean mean_of(const struct fair_queue *q)
{
	struct mean m = { .zero = q->zero };

	totals(q, &m.sum, &m.weight);
	return m;
}

/* Without the division: exact. */
static bool is_eligible(const struct mean *m, int64_t age)
{
	return m->sum >= (age - m->zero) * m->weight;
}

/* Keep the differences to zero small. */
static void move_zero(struct fair_queue *q, int64_t to)
{
	q->sum -= (to - q->zero) * (int64_t)q->weight;
	q->zero = to;
}

/* --- the tree ----------------------------------------------------------------------------- */

static void youngest_update(struct rb_node *node)
{
	struct fair_entity *e = entity_of(node);
	int64_t youngest = e->age;

	if (node->left)
		youngest = MIN(youngest, entity_of(node->left)->youngest);
	if (node->right)
		youngest = MIN(youngest, entity_of(node->right)->youngest);
	e->youngest = youngest;
}

/* @e is the only one that waits. */
static void tree_only(struct fair_queue *q, struct fair_entity *e)
{
	rb_only_node(&e->node, &q->tree);
	e->youngest = e->age;
	q->zero = e->age;
	q->sum = 0;
	q->weight = e->weight;
	q->nr = 1;
}

/* Of equal deadlines the first to come goes first. */
static void tree_insert(struct fair_queue *q, struct fair_entity *e)
{
	struct rb_node **link = &q->tree.node;
	struct rb_node *parent = NULL;

	if (!*link) {
		tree_only(q, e);
		return;
	}
	while (*link) {
		parent = *link;
		link = e->deadline < entity_of(parent)->deadline ? &parent->left : &parent->right;
	}
	rb_link_node(&e->node, parent, link);
	rb_insert_color_update(&e->node, &q->tree, youngest_update);
	q->sum += (int64_t)e->weight * (e->age - q->zero);
	q->weight += e->weight;
	q->nr++;
}

static void tree_erase(struct fair_queue *q, struct fair_entity *e)
{
	ASSERT(q->nr > 0);
	if (q->resume == e)
		q->resume = NULL;
	q->sum -= (int64_t)e->weight * (e->age - q->zero);
	q->weight -= e->weight;
	q->nr--;
	ASSERT(q->nr || (!q->weight && !q->sum));
	if (q->nr)
		rb_erase_update(&e->node, &q->tree, youngest_update);
	else
		q->tree.node = NULL;
}

struct fair_entity *fair_first(const struct fair_queue *q)
{
	return rb_entry_or_null(rb_first(&q->tree), struct fair_entity, node);
}

struct fair_entity *fair_next(const struct fair_entity *e)
{
	return rb_entry_or_null(rb_next(&e->node), struct fair_entity, node);
}

/* --- coming and going ---------------------------------------------------------------------- */

/*
 * The lag of @e, which is not runnable, beside those that are.  Their mean without @e is the
 * measure, here and when it joins, so that one that leaves and comes back at once is as old as
 * before.
 */
static int64_t lag_of(const struct fair_queue *q, const struct fair_entity *e)
{
	const int64_t slice = virtual_of(e, q->slice_ns);

	return MAX(MIN(mean_age(q) - e->age, slice), -BEHIND_MOST * slice);
}

static void make_detached(const struct fair_queue *q, struct fair_entity *e)
{
	e->age = lag_of(q, e);
	e->is_detached = true;
}

/* An age in @q, and a request that begins now. */
static void attach(struct fair_queue *q, struct fair_entity *e)
{
	if (unlikely(fair_is_fixed(e))) {
		fixed_join(q, e);
		e->is_detached = false;
		return;
	}
	e->age = mean_age(q) - (e->is_detached ? e->age : lag_of(q, e));
	e->is_detached = false;
	e->request_ns = MIN(e->request_ns, q->slice_ns);
	e->deadline = e->age + virtual_of(e, e->request_ns);
}

void fair_join(struct fair_queue *q, struct fair_entity *e)
{
	ASSERT(e != q->curr && e->request_ns && e->weight);
	attach(q, e);
	e->burst_ns = 0;
	tree_insert(q, e);
	if (q->resume && fair_preempts(q, e))
		q->resume = NULL;
}

/* The last one has gone, or goes: time stands still until somebody joins. */
static void stop_if_empty(struct fair_queue *q, const struct fair_entity *e)
{
	if (!q->nr && !q->curr)
		q->zero = e->age;
}

void fair_leave(struct fair_queue *q, struct fair_entity *e)
{
	tree_erase(q, e);
	stop_if_empty(q, e);
	make_detached(q, e);
}

void fair_detach(struct fair_queue *q, struct fair_entity *e)
{
	if (e == q->curr) {
		q->curr = NULL;
		stop_if_empty(q, e);
	}
	if (!e->is_detached)
		make_detached(q, e);
}

void fair_sleep(struct fair_queue *q)
{
	struct fair_entity *e = q->curr;

	q->curr = NULL;
	stop_if_empty(q, e);
	e->request_ns = MIN(MAX((e->request_ns + e->burst_ns) / 2, q->slice_ns / REQUEST_SHARE),
			    q->slice_ns);
}

void fair_take(struct fair_queue *q, struct fair_entity *e)
{
	ASSERT(!q->curr);
	tree_erase(q, e);
	q->curr = e;
	q->resume = NULL;
	q->is_due = false;
}

void fair_run(struct fair_queue *q, struct fair_entity *e)
{
	ASSERT(!q->curr && e->is_detached);
	attach(q, e);
	q->curr = e;
	q->resume = NULL; /* it has lost its place: @e came from another class and runs already */
	q->is_due = false;
}

void fair_put(struct fair_queue *q, bool resume)
{
	struct fair_entity *e = q->curr;

	q->curr = NULL;
	tree_insert(q, e);
	q->resume = resume && !q->is_due ? e : NULL;
}

static __noinline void replace_in_many(struct fair_queue *q, struct fair_entity *old,
				       struct fair_entity *e)
{
	tree_erase(q, e);
	tree_insert(q, old);
}

void fair_replace(struct fair_queue *q, struct fair_entity *e)
{
	struct fair_entity *old = q->curr;

	ASSERT(old && old != e && !q->resume);
	q->curr = e;
	q->is_due = false;
	if (likely(q->nr == 1))
		tree_only(q, old);
	else
		replace_in_many(q, old, e);
}

/* In the fixed order all are of one age, and a weight is nobody's place. */
static void set_weight_in_place(struct fair_queue *q, struct fair_entity *e, uint32_t weight,
				bool waits)
{
	ASSERT(e->age == q->zero);
	if (waits)
		q->weight = q->weight - e->weight + weight;
	e->weight = weight;
	e->rest = 0;
}

void fair_set_weight(struct fair_queue *q, struct fair_entity *e, uint32_t weight, bool waits)
{
	const bool runs = e == q->curr;

	ASSERT(weight && !(waits && runs));
	if (unlikely(fair_is_fixed(e)) && (waits || runs)) {
		set_weight_in_place(q, e, weight, waits);
		return;
	}
	if (waits)
		fair_leave(q, e);
	else
		fair_detach(q, e);
	e->age = e->age * (int64_t)e->weight / (int64_t)weight;
	e->weight = weight;
	e->rest = 0;
	if (waits)
		fair_join(q, e);
	else if (runs)
		fair_run(q, e);
}

/* --- running ------------------------------------------------------------------------------- */

void fair_charge_any(struct fair_queue *q, uint64_t ns)
{
	struct fair_entity *e = q->curr;

	if (unlikely(fair_is_fixed(e))) {
		fixed_charge(q, e, ns);
		return;
	}
	e->burst_ns += ns;
	if (likely(e->weight == FAIR_WEIGHT_MEAN)) {
		e->age += (int64_t)ns;
	} else {
		const uint64_t n = ns * FAIR_WEIGHT_MEAN + e->rest;

		e->age += (int64_t)(n / e->weight);
		e->rest = (uint32_t)(n % e->weight);
	}
	if (unlikely(e->age >= e->deadline)) {
		e->request_ns = MIN(2 * e->request_ns, q->slice_ns);
		e->deadline = e->age + virtual_of(e, e->request_ns);
		q->is_due = true;
	}
	if (unlikely(e->age - q->zero > FAIR_ZERO_MOST))
		move_zero(q, mean_age(q));
}

uint64_t fair_left_any(const struct fair_queue *q)
{
	const struct fair_entity *e = q->curr;
	const uint64_t left = (uint64_t)(e->deadline - e->age);

	if (unlikely(fair_is_fixed(e)))
		return fixed_left_ns(e);
	ASSERT(e->deadline > e->age);
	return e->weight == FAIR_WEIGHT_MEAN ? left : left * e->weight / FAIR_WEIGHT_MEAN + 1;
}

/* Of those that wait and are eligible the one with the earliest deadline. */
static struct fair_entity *first_eligible(const struct fair_queue *q, const struct mean *m)
{
	struct rb_node *node = q->tree.node;

	while (node) {
		struct fair_entity *e = entity_of(node);

		if (node->left && is_eligible(m, entity_of(node->left)->youngest)) {
			node = node->left;
			continue;
		}
		if (is_eligible(m, e->age))
			return e;
		node = node->right;
	}
	return NULL;
}

static __noinline struct fair_entity *pick_of_many(struct fair_queue *q)
{
	struct fair_entity *curr = q->curr, *first;
	struct mean m = mean_of(q);

	first = first_eligible(q, &m);
	ASSERT(curr || first);
	if (!curr)
		return first;
	return !first || (is_eligible(&m, curr->age) && curr->deadline <= first->deadline) ? curr
											   : first;
}

struct fair_entity *fair_pick(struct fair_queue *q)
{
	if (!q->nr)
		return q->curr;
	if (q->resume)
		return q->resume;
	if (q->nr == 1 && !q->curr)
		return entity_of(q->tree.node);
	return pick_of_many(q);
}

/* The first of those that wait, among themselves; @e gets at least as old as their mean. */
static __noinline struct fair_entity *yield_to_many(struct fair_queue *q, struct fair_entity *e)
{
	struct fair_entity *first;
	struct mean m;

	q->curr = NULL;
	m = mean_of(q);
	first = first_eligible(q, &m);
	if (is_eligible(&m, e->age))
		e->age = mean_age(q);
	q->curr = e;
	return first;
}

struct fair_entity *fair_yield(struct fair_queue *q)
{
	struct fair_entity *e = q->curr, *first;

	if (!q->nr)
		return e;
	if (unlikely(fair_is_fixed(e))) {
		fixed_yield(q, e);
		first = fair_first(q);
		return first->deadline < e->deadline ? first : e;
	}
	if (likely(q->nr == 1)) {
		first = entity_of(q->tree.node);
		e->age = MAX(e->age, first->age);
	} else {
		first = yield_to_many(q, e);
	}
	e->request_ns = q->slice_ns;
	e->deadline = e->age + virtual_of(e, q->slice_ns);
	return first;
}

bool fair_preempts(const struct fair_queue *q, const struct fair_entity *e)
{
	const struct fair_entity *curr = q->curr ? q->curr : q->resume;
	struct mean m;

	if (!curr)
		return true;
	if (e->yields_to_woken && !fair_is_fixed(e))
		return false;
	m = mean_of(q);
	return is_eligible(&m, e->age) &&
	       (e->deadline < curr->deadline || !is_eligible(&m, curr->age));
}
