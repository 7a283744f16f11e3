/* SPDX-License-Identifier: MIT */
/*
 * The table of names: who may have which beside whom, what is found, leases; and random lives of
 * sockets, processors and managers beside a list.
 */
#include <lib/errno.h>
#include <lib/ktest.h>
#include <lib/prng.h>
#include <lib/string.h>
#include <managers/names.h>

#define MOST 40u

static struct names n; /* large, like the report */
static struct pg_report_req report;

static const uint8_t any4[16] = { [10] = 0xff, 0xff }, any6[16] = { 0 }, one6[16] = { [15] = 1 },
		     home[16] = { [10] = 0xff, 0xff, 127, 0, 0, 1 },
		     other[16] = { [10] = 0xff, 0xff, 127, 0, 0, 2 };

static int tell(uint32_t node, uint32_t flags, const struct pg_name *names, uint32_t nr)
{
	report.vnode = 1;
	report.flags = (uint16_t)flags;
	report.nr_names = (uint16_t)nr;
	memset(report.leases, 0, sizeof(report.leases));
	for (uint32_t i = 0; i < nr; i++)
		report.names[i] = names[i];
	return name_table_report(&n, node, node * 10, &report);
}

static void start(struct ktest *t)
{
	name_table_init(&n, MOST);
	for (uint32_t node = 1; node <= 3; node++)
		ASSERT_EQ(t, tell(node, PG_REPORT_ALL, NULL, 0), 0);
}

static bool nobody(uint32_t node, uint32_t incarn, const void *arg)
{
	return false;
}

static void stop(struct ktest *t)
{
	name_table_keep(&n, nobody, NULL);
	EXPECT_EQ(t, n.nr, 0u);
	EXPECT_TRUE(t, list_empty(&n.nodes));
}

static struct pg_name name(uint64_t id, uint32_t kind, const uint8_t addr[16], uint16_t port,
			   unsigned int flags)
{
	struct pg_name m = {
		.id = id, .vnode = 1, .kind = (uint8_t)kind, .port = port, .flags = (uint8_t)flags
	};

	memcpy(m.addr, addr, 16);
	return m;
}

static int set(uint32_t node, const struct pg_name *m)
{
	return name_table_set(&n, node, node * 10, m);
}

static void release(struct ktest *t, uint32_t node, uint64_t id)
{
	const struct pg_release_req r = { .id = id, .vnode = 1 };

	EXPECT_EQ(t, name_table_release(&n, node, node * 10, &r), 0);
}

static uint32_t find(uint32_t node, uint32_t kind, const uint8_t addr[16], uint16_t port)
{
	struct pg_find_req r = { .vnode = 1, .port = port, .kind = (uint16_t)kind };

	memcpy(r.addr, addr, 16);
	return name_table_find(&n, node, &r);
}

/* --- rules ----------------------------------------------------------------------------- */

#define A  PG_REUSEADDR
#define P  PG_REUSEPORT
#define V6 PG_V6ONLY
#define L  PG_LISTENING

/* A socket of one processor, then one of another: may that have its name? */
static const struct {
	uint32_t kind;
	const uint8_t *first;
	unsigned int first_flags;
	const uint8_t *second;
	unsigned int second_flags;
	uint32_t uid; /* of the second; that of the first is 0 */
	int answer;
} pairs[] = {
	{ PG_TCP, home, 0, home, 0, 0, -EADDRINUSE },
	{ PG_TCP, home, 0, other, 0, 0, 0 },
	{ PG_TCP, any4, 0, home, 0, 0, -EADDRINUSE },
	{ PG_TCP, home, 0, any4, 0, 0, -EADDRINUSE },
	{ PG_TCP, any6, 0, home, 0, 0, -EADDRINUSE },
	{ PG_TCP, any6, V6, home, 0, 0, 0 },
	{ PG_TCP, home, 0, any6, 0, 0, -EADDRINUSE },
	{ PG_TCP, home, 0, any6, V6, 0, 0 },
	{ PG_TCP, one6, 0, any4, 0, 0, 0 },
	{ PG_TCP, home, A, home, A, 0, 0 },
	{ PG_TCP, home, A, home, 0, 0, -EADDRINUSE },
	{ PG_TCP, home, A | L, home, A, 0, -EADDRINUSE },
	{ PG_TCP, home, A, home, A | L, 0, 0 },
	{ PG_TCP, home, P | L, home, P | L, 0, 0 },
	{ PG_TCP, home, P | L, home, P | L, 7, -EADDRINUSE },
	{ PG_TCP, home, P | L, home, L, 0, -EADDRINUSE },
	{ PG_UDP, home, 0, home, 0, 0, -EADDRINUSE },
	{ PG_UDP, home, A, any4, A, 7, 0 },
	{ PG_UNIX_STREAM, home, 0, home, 0, 0, -EADDRINUSE },
	{ PG_UNIX_STREAM, home, A | P, home, A | P, 0, -EADDRINUSE },
	{ PG_UNIX_STREAM, home, 0, other, 0, 0, 0 },
};

static void conflicts_are_those_of_one_processor(struct ktest *t)
{
	for (size_t i = 0; i < ARRAY_SIZE(pairs); i++) {
		const uint16_t port = pairs[i].kind <= PG_UDP ? 80 : 0;
		const struct pg_name a =
			name(1, pairs[i].kind, pairs[i].first, port, pairs[i].first_flags);
		struct pg_name b =
			name(1, pairs[i].kind, pairs[i].second, port, pairs[i].second_flags);

		b.uid = pairs[i].uid;
		start(t);
		EXPECT_EQ(t, set(1, &a), 0);
		EXPECT_EQ(t, set(2, &b), pairs[i].answer);
		EXPECT_EQ(t, n.nr, pairs[i].answer ? 1u : 2u);
		stop(t);
	}
}

static void other_kinds_ports_and_vnodes_do_not_conflict(struct ktest *t)
{
	struct pg_name m = name(1, PG_TCP, home, 80, 0);

	start(t);
	EXPECT_EQ(t, set(1, &m), 0);
	m.kind = PG_UDP;
	EXPECT_EQ(t, set(2, &m), 0);
	m = name(2, PG_TCP, home, 81, 0);
	EXPECT_EQ(t, set(2, &m), 0);
	m = name(3, PG_TCP, home, 80, 0);
	m.vnode = 2;
	EXPECT_EQ(t, set(2, &m), 0);
	stop(t);
}

static void a_listener_is_found_by_others(struct ktest *t)
{
	struct pg_name a = name(5, PG_TCP, any4, 80, 0), b = name(6, PG_TCP, home, 80, L);

	start(t);
	EXPECT_EQ(t, set(1, &a), 0);
	EXPECT_EQ(t, find(2, PG_TCP, home, 80), 0u); /* it is bound, and does not listen */
	a.flags = L;
	EXPECT_EQ(t, set(1, &a), 0);
	EXPECT_EQ(t, find(2, PG_TCP, home, 80), 1u);
	EXPECT_EQ(t, find(1, PG_TCP, home, 80), 0u);
	EXPECT_EQ(t, find(2, PG_UDP, home, 80), 0u);
	EXPECT_EQ(t, find(2, PG_TCP, one6, 80), 0u);
	release(t, 1, 5);
	EXPECT_EQ(t, find(2, PG_TCP, home, 80), 0u);
	/* Of two the closer one. */
	a.flags = b.flags = L | P;
	EXPECT_EQ(t, set(1, &a), 0);
	EXPECT_EQ(t, set(3, &b), 0);
	EXPECT_EQ(t, find(2, PG_TCP, home, 80), 3u);
	EXPECT_EQ(t, find(2, PG_TCP, other, 80), 1u);
	stop(t);
}

static void what_is_told_wrongly_is_refused(struct ktest *t)
{
	struct pg_name m = name(1, PG_TCP, home, 80, 0);
	struct pg_lease_rep lease;

	start(t);
	EXPECT_EQ(t, name_table_set(&n, 1, 11, &m),
		  -EAGAIN); /* another incarnation has told nothing */
	EXPECT_EQ(t, name_table_set(&n, 4, 40, &m), -EAGAIN);
	EXPECT_EQ(t, name_table_lease(&n, 4, 40, &(struct pg_lease_req){ 1 }, &lease), -EAGAIN);
	EXPECT_EQ(t, tell(4, PG_REPORT_LAST, NULL, 0), -EAGAIN);
	EXPECT_EQ(t, tell(1, PG_REPORT_LAST, NULL, 0), -EPROTO); /* it has told all */
	EXPECT_EQ(t, set(1, &m), 0);
	EXPECT_EQ(t, set(1, &m), 0);
	EXPECT_EQ(t, n.nr, 1u);
	m.port = 81;
	EXPECT_EQ(t, set(1, &m), -EPROTO);
	for (uint32_t i = 1; i < MOST; i++) {
		m = name(100 + i, PG_TCP, home, (uint16_t)(1000 + i), 0);
		EXPECT_EQ(t, set(1, &m), 0);
	}
	m.id = 7;
	EXPECT_EQ(t, set(1, &m), -ENOBUFS);
	m.port = 7;
	EXPECT_EQ(t, set(2, &m), 0); /* the bound is each processor's own */
	stop(t);
}

static void ports_are_leased_once(struct ktest *t)
{
	const struct pg_lease_req req = { 1 };
	struct pg_name m = name(1, PG_TCP, home, PG_FIRST_PORT + PG_RUN + 9, 0);
	struct pg_lease_rep a, b;

	start(t);
	EXPECT_EQ(t, set(1, &m), 0);
	EXPECT_EQ(t, name_table_lease(&n, 1, 10, &req, &a), 0);
	EXPECT_EQ(t, name_table_lease(&n, 2, 20, &req, &b), 0);
	EXPECT_EQ(t, a.run, 0u);
	EXPECT_EQ(t, b.run, 1u);
	EXPECT_EQ(t, b.taken[1], 2u); /* port 9 of the run is processor 1's */
	b.taken[1] = 0;
	for (size_t i = 0; i < sizeof(b.taken); i++)
		EXPECT_EQ(t, b.taken[i], 0u);
	for (uint32_t run = 2; run < PG_NR_RUNS; run++)
		EXPECT_EQ(t, name_table_lease(&n, 2, 20, &req, &b), 0);
	EXPECT_EQ(t, name_table_lease(&n, 3, 30, &req, &b), -ENOSPC);
	/* A datagram for a port of a run goes to the processor that has it. */
	EXPECT_EQ(t, find(2, PG_UDP, home, (uint16_t)(PG_FIRST_PORT + a.run * PG_RUN)), 1u);
	EXPECT_EQ(t, find(1, PG_UDP, home, (uint16_t)(PG_FIRST_PORT + a.run * PG_RUN)), 0u);
	EXPECT_EQ(t, find(2, PG_TCP, home, (uint16_t)(PG_FIRST_PORT + a.run * PG_RUN)), 0u);
	EXPECT_EQ(t, find(1, PG_UDP, home, PG_FIRST_PORT + PG_NR_RUNS * PG_RUN), 0u);
	/* Told anew, a processor has what it says; the others are free again. */
	EXPECT_EQ(t, tell(2, PG_REPORT_ALL, NULL, 0), 0);
	EXPECT_EQ(t, name_table_lease(&n, 3, 30, &req, &b), 0);
	EXPECT_EQ(t, b.run, 1u);
	stop(t);
}

/* --- random lives beside a list -------------------------------------------------------- */

#define NODES 3u
#define IDS   8u

static struct pg_name model[NODES + 1][IDS + 1]; /* by processor and id; vnode 0: none */

static bool shares(const struct pg_name *a, const struct pg_name *b)
{
	const bool same_addr =
		!memcmp(a->addr, b->addr, 16) ||
		(a->kind <= PG_UDP && (!memcmp(a->addr, any4, 16) || !memcmp(b->addr, any4, 16)));

	if (a->kind != b->kind || a->port != b->port || !same_addr)
		return true;
	if (a->kind > PG_UDP)
		return false;
	return (a->flags & b->flags & P) ||
	       ((a->flags & b->flags & A) && (a->kind == PG_UDP || !(b->flags & L)));
}

static int expected(uint32_t node, const struct pg_name *m)
{
	for (uint32_t other_node = 1; other_node <= NODES; other_node++) {
		for (uint32_t id = 1; id <= IDS; id++) {
			const struct pg_name *e = &model[other_node][id];

			if (other_node != node && e->vnode && !shares(m, e))
				return -EADDRINUSE;
		}
	}
	return 0;
}

static void step_name(struct ktest *t, struct prng *r, uint32_t node)
{
	static const uint8_t *const addrs[] = { any4, home, other };
	const uint64_t id = 1 + prng_below(r, IDS);
	const uint32_t kind = 1 + (uint32_t)prng_below(r, 3);
	struct pg_name *old = &model[node][id];
	struct pg_name m = name(id, kind, addrs[kind <= PG_UDP ? prng_below(r, 3) : 1],
				kind <= PG_UDP ? (uint16_t)(80 + prng_below(r, 2)) : 0,
				(unsigned int)prng_below(r, 16) & (A | P | L));
	int want;

	if (old->vnode) {
		const uint8_t flags = m.flags;

		m = *old;
		m.flags = flags;
	}
	want = expected(node, &m);
	EXPECT_EQ(t, set(node, &m), want);
	if (!want)
		*old = m;
}

/* The managers were started again: the processors tell, in two parts. */
static void step_restart(struct ktest *t)
{
	stop(t);
	name_table_init(&n, MOST);
	for (uint32_t node = 1; node <= NODES; node++) {
		struct pg_name list[IDS];
		uint32_t nr = 0;

		for (uint32_t id = 1; id <= IDS; id++) {
			if (model[node][id].vnode)
				list[nr++] = model[node][id];
		}
		EXPECT_EQ(t, tell(node, PG_REPORT_FIRST, list, nr / 2), 0);
		EXPECT_FALSE(t, name_table_knows(&n, node, node * 10));
		EXPECT_EQ(t, tell(node, PG_REPORT_LAST, list + nr / 2, nr - nr / 2), 0);
		EXPECT_TRUE(t, name_table_knows(&n, node, node * 10));
	}
}

static bool not_the(uint32_t node, uint32_t incarn, const void *arg)
{
	return node != *(const uint32_t *)arg;
}

static void random_lives(struct ktest *t)
{
	struct prng r;

	prng_seed(&r, 14);
	memset(model, 0, sizeof(model));
	start(t);
	for (int i = 0; i < 20000; i++) {
		const uint32_t node = 1 + (uint32_t)prng_below(&r, NODES);
		const uint64_t what = prng_below(&r, 1000), id = 1 + prng_below(&r, IDS);

		if (what < 600) {
			step_name(t, &r, node);
		} else if (what < 980) {
			release(t, node, id);
			model[node][id].vnode = 0;
		} else if (what < 990) {
			name_table_keep(&n, not_the,
					&node); /* it leaves, and comes again with nothing */
			memset(model[node], 0, sizeof(model[node]));
			EXPECT_EQ(t, tell(node, PG_REPORT_ALL, NULL, 0), 0);
		} else {
			step_restart(t);
		}
	}
	stop(t);
}

static const struct ktest_case cases[] = {
	KTEST(conflicts_are_those_of_one_processor),
	KTEST(other_kinds_ports_and_vnodes_do_not_conflict),
	KTEST(a_listener_is_found_by_others),
	KTEST(what_is_told_wrongly_is_refused),
	KTEST(ports_are_leased_once),
	KTEST(random_lives),
	{ 0 },
};
static const struct ktest_suite suite = { .name = "managers.names", .cases = cases };
KTEST_SUITE(suite);
