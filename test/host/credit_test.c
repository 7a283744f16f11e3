/* SPDX-License-Identifier: MIT */
/*
 * Frame credits between the code of a processor and that of an owner, over a network that delays,
 * loses and repeats what it likes: the owner always has a frame for a page that was promised one,
 * and when all is quiet the two accounts are the same.
 */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include <lib/errno.h>
#include <lib/ktest.h>
#include <lib/prng.h>
#include <lib/string.h>
#include <net/rpc.h>
#include <processor/excache/credit.h>
#include <processor/excache/object.h>
#include <proto/pm.h>

#include "../../monitors/memory/pool.h"

#define PROC   1u
#define NODE   11u
#define FRAMES 4096u
#define PAGES  1500u /* that the program may have; those that are promised fit in any case */
#define STEPS  1000000u

/* --- the network --------------------------------------------------------------------- */

enum kind {
	REPORT,  /* to the owner */
	ACCOUNT, /* its answer */
	GRANT,   /* from the owner, with some other answer */
	STORE,   /* a page to the owner */
	STORED,  /* its answer */
};

struct message {
	enum kind kind;
	struct rpc_call *call;
	uint64_t report;
	uint32_t hold, want, frames, page;
	uint64_t seq;
};

#define MESSAGES 256u

static struct message net[MESSAGES];
static uint32_t nr_net;
static struct prng prng;

static void net_send(const struct message *m)
{
	if (nr_net < MESSAGES)
		net[nr_net++] = *m;
}

/* Any of them, as they overtake each other. */
static struct message net_take(void)
{
	const uint32_t i = (uint32_t)prng_below(&prng, nr_net);
	const struct message m = net[i];

	net[i] = net[--nr_net];
	return m;
}

/* --- what credit.c asks for ---------------------------------------------------------- */

static struct rpc_call *open_call; /* of the report that is under way */

struct rpc_call *rpc_call_alloc(void)
{
	return calloc(1, sizeof(struct rpc_call));
}

void rpc_call_put(struct rpc_call *call)
{
}

void owner_report_prepare(struct rpc_call *call, struct report_msg *msg, uint32_t node,
			  uint64_t report, uint32_t hold, uint32_t want)
{
	msg->body[0] = report;
	msg->body[1] = (uint64_t)hold << 32 | want;
	call->body = msg->body;
	call->reply = msg->reply;
}

int owner_report_answer(const struct report_msg *msg, size_t len, uint32_t *frames)
{
	*frames = (uint32_t)msg->reply[0];
	return 0;
}

int rpc_call_submit(struct rpc_call *call)
{
	const uint64_t *body = call->body;

	open_call = call;
	net_send(&(struct message){ .kind = REPORT,
				    .call = call,
				    .report = body[0],
				    .hold = (uint32_t)(body[1] >> 32),
				    .want = (uint32_t)body[1] });
	return 0;
}

int rpc_call_submit_wait(struct rpc_call *call, uint64_t slot_timeout_ns)
{
	return rpc_call_submit(call);
}

bool destroy_drain(bool killable)
{
	return false;
}

/* The report's call is over, whatever still travels. */
static void call_end(struct rpc_call *call, int status)
{
	if (call != open_call)
		return;
	open_call = NULL;
	call->status = status;
	call->release(call);
	free(call);
}

/* --- the two sides ------------------------------------------------------------------- */

enum page_state {
	PAGE_NONE,
	PAGE_LINE, /* p-local: holds a credit */
	PAGE_SENT, /* the same, and being written back */
	PAGE_STORED,
};

struct page {
	enum page_state state;
	uint64_t seq;        /* of the processor */
	struct mpage *frame; /* at the owner */
	uint64_t stored_seq;
};

struct sim {
	struct ktest *t;
	struct pool pool;
	struct page pages[PAGES];
	uint64_t seq;
	unsigned int nr_lost, nr_refused;
	bool quiet; /* nothing is lost any more */
};

static bool chance(struct sim *s, unsigned int percent)
{
	return !s->quiet && prng_below(&prng, 100) < percent;
}

static void owner_serve(struct sim *s, const struct message *m)
{
	struct message answer = *m;
	struct page *p = &s->pages[m->page];
	int64_t delta;
	bool credit;

	if (m->kind == REPORT) {
		answer.kind = ACCOUNT;
		if (pool_report(&s->pool, PROC, m->report, m->hold, m->want, false, &delta,
				&answer.frames))
			return; /* an old one */
	} else {
		answer.kind = STORED;
		if (m->seq > p->stored_seq && !p->frame) {
			p->frame = pool_alloc_anon(&s->pool, PROC, &credit);
			s->nr_refused += !p->frame || !credit;
		}
		p->stored_seq = MAX(p->stored_seq, m->seq);
	}
	net_send(&answer);
	if (chance(s, 5))
		net_send(&answer);
}

static void processor_serve(struct sim *s, const struct message *m)
{
	struct page *p = &s->pages[m->page];

	switch (m->kind) {
	case ACCOUNT:
		if (m->call != open_call)
			break;
		((uint64_t *)m->call->reply)[0] = m->frames;
		call_end(m->call, 0);
		break;
	case GRANT:
		credit_add(&(struct granted){ NODE, m->frames, m->report });
		break;
	default:
		if (p->state != PAGE_SENT || p->seq != m->seq)
			break; /* answered already */
		p->state = PAGE_STORED;
		credit_used(NODE);
		break;
	}
}

static void deliver(struct sim *s)
{
	const struct message m = net_take();

	if (chance(s, 10)) {
		s->nr_lost++;
		if (m.kind == GRANT)
			credit_doubt(NODE); /* its call ends without an answer */
	} else if (m.kind == REPORT || m.kind == STORE) {
		owner_serve(s, &m);
		if (chance(s, 5))
			net_send(&m);
	} else {
		processor_serve(s, &m);
	}
}

/* The owner grants something with an answer; a request that is served twice has one answer. */
static void grant(struct sim *s)
{
	const uint32_t want = credit_want(NODE);
	struct message m = { .kind = GRANT };

	if (chance(s, 5))
		(void)pool_grant(&s->pool, PROC, want, false, &m.report);
	m.frames = pool_grant(&s->pool, PROC, want, false, &m.report);
	net_send(&m);
}

static void store(struct sim *s, uint32_t i)
{
	struct page *p = &s->pages[i];

	if (p->state == PAGE_LINE) {
		p->state = PAGE_SENT;
		p->seq = ++s->seq;
	}
	net_send(&(struct message){ .kind = STORE, .page = i, .seq = p->seq });
}

/* The page goes: on both sides, as no message about it is under way. */
static void forget(struct sim *s, uint32_t i)
{
	struct page *p = &s->pages[i];

	for (uint32_t n = 0; n < nr_net; n++)
		if ((net[n].kind == STORE || net[n].kind == STORED) && net[n].page == i)
			return;
	if (p->frame)
		mpage_put(&s->pool, p->frame);
	*p = (struct page){ .stored_seq = p->stored_seq };
}

static void touch_page(struct sim *s, uint32_t i)
{
	struct page *p = &s->pages[i];

	switch (p->state) {
	case PAGE_NONE:
		if (credit_take_now(NODE))
			p->state = PAGE_LINE;
		break;
	case PAGE_LINE:
		if (chance(s, 30)) {
			credit_put(NODE);
			p->state = PAGE_NONE;
			break;
		}
		store(s, i);
		break;
	case PAGE_SENT:
		store(s, i); /* again: no answer has come */
		break;
	case PAGE_STORED:
		forget(s, i);
		break;
	}
}

static void step(struct sim *s)
{
	const uint64_t what = prng_below(&prng, 100);

	if (what < 45)
		touch_page(s, (uint32_t)prng_below(&prng, PAGES));
	else if (what < 48)
		grant(s);
	else if (what < 50)
		credit_trim();
	else if (what < 52)
		credit_report();
	else if (what < 53 && open_call)
		call_end(open_call, -ETIMEDOUT); /* it may be served yet */
	else if (nr_net)
		deliver(s);
}

/* Lines whose page the owner has, but the processor does not know. */
static int64_t unanswered(const struct sim *s)
{
	int64_t nr = 0;

	for (uint32_t i = 0; i < PAGES; i++)
		nr += s->pages[i].state == PAGE_SENT && s->pages[i].frame;
	return nr;
}

static void settle(struct sim *s)
{
	s->quiet = true;
	if (open_call)
		call_end(open_call, -ETIMEDOUT);
	while (nr_net)
		deliver(s);
	for (uint32_t i = 0; i < PAGES; i++)
		if (s->pages[i].state == PAGE_SENT)
			store(s, i);
	while (nr_net)
		deliver(s);
	credit_doubt(NODE);
	credit_report();
	while (nr_net)
		deliver(s);
	s->quiet = false;
}

static void start(struct ktest *t)
{
	static bool started;

	if (!started)
		EXPECT_EQ(t, credit_init(), 0);
	started = true;
}

static void accounts_meet(struct ktest *t)
{
	static struct sim s;
	struct pool_run run = { .nr_pages = FRAMES };
	const struct pm_commit policy = { 0 };

	prng_seed(&prng, 20261123);
	run.virt = calloc(FRAMES, PAGE_SIZE);
	s.t = t;
	ASSERT_EQ(t, pool_init(&s.pool, &run, 1, 1, FRAMES / 8, &policy), 0);
	start(t);
	credit_doubt(NODE);
	for (unsigned int n = 0; n < STEPS && !t->nr_failed; n++) {
		step(&s);
		EXPECT_EQ(t, s.nr_refused, 0u);
		if (n % 1000 == 0)
			EXPECT_GE(t, (int64_t)pool_credits(&s.pool, PROC) + unanswered(&s),
				  credit_total());
		if (n % 50000 == 49999) {
			settle(&s);
			EXPECT_EQ(t, (int64_t)pool_credits(&s.pool, PROC), credit_total());
		}
	}
	EXPECT_GT(t, s.nr_lost, STEPS / 100);
	EXPECT_GT(t, s.seq, STEPS / 100);
	settle(&s);
	EXPECT_EQ(t, s.nr_refused, 0u);
	EXPECT_EQ(t, (int64_t)pool_credits(&s.pool, PROC), credit_total());
	pool_destroy(&s.pool);
	free(run.virt);
}

struct taker {
	uint32_t node;
	int err, done;
};

static void *take(void *arg)
{
	struct taker *taker = arg;

	taker->err = credit_take(taker->node);
	__atomic_store_n(&taker->done, 1, __ATOMIC_RELEASE);
	return NULL;
}

static void answer_open_call(uint32_t frames)
{
	struct rpc_call *call = __atomic_load_n(&open_call, __ATOMIC_ACQUIRE);

	((uint64_t *)call->reply)[0] = frames;
	call_end(call, 0);
}

/* A thread that waits until it may ask is not content with the answer to the report before. */
static void waits_for_its_own_answer(struct ktest *t)
{
	struct taker taker = { .node = NODE + 1 };
	pthread_t thread;

	start(t);
	credit_doubt(taker.node);
	credit_report();
	ASSERT_TRUE(t, open_call != NULL);
	ASSERT_EQ(t, pthread_create(&thread, NULL, take, &taker), 0);
	while (!waitqueue_active(&credit_hint(taker.node)->answered))
		usleep(100);
	answer_open_call(0); /* that report has asked for nothing */
	while (!__atomic_load_n(&open_call, __ATOMIC_ACQUIRE))
		usleep(100);
	usleep(20000); /* time for the mistake */
	EXPECT_EQ(t, __atomic_load_n(&taker.done, __ATOMIC_ACQUIRE), 0);
	answer_open_call(10);
	pthread_join(thread, NULL);
	EXPECT_EQ(t, taker.err, 0);
	credit_put(taker.node);
	credit_forget(taker.node);
	EXPECT_EQ(t, credit_total(), 0);
	nr_net = 0;
}

static const struct ktest_case cases[] = {
	KTEST(waits_for_its_own_answer),
	KTEST(accounts_meet),
	{ 0 },
};
static const struct ktest_suite suite = { .name = "processor.credits", .cases = cases };
KTEST_SUITE(suite);
