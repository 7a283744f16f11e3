/* SPDX-License-Identifier: MIT */
/*
 * The connection manager between simulated ports: MADs travel in memory and are lost, doubled and
 * delayed; the queue pairs below only count their state changes.
 *
 * Every random choice comes from a seed that a failure prints through the case's name.
 */
#include <stdlib.h>

#include <kernel/mutex.h>
#include <kernel/spinlock.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <kernel/wait.h>
#include <lib/atomic.h>
#include <lib/err.h>
#include <lib/ktest.h>
#include <lib/list.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <rdma/cm.h>
#include <rdma/mad.h>
#include <rdma/provider.h>

#define NR_PORTS 3 /* LIDs 1 to 3; 3 is for strangers */
#define SERVICE  0x1234ULL
#define WAIT_NS  (30 * NSEC_PER_SEC)

/* --- the network --------------------------------------------------------------------- */

struct sim_dev {
	struct rdma_device rdma;
	uint16_t lid;
	atomic_t next_qpn; /* taken by the test and by this port's CM thread */
};

struct mad_agent {
	struct sim_dev *dev;
	mad_recv_fn recv;
	void *arg;
};

struct flight {
	struct list_head node;
	uint64_t due_ns;
	uint16_t to;
	struct rdma_addr from;
	uint8_t mad[MAD_LEN] __aligned(8);
};

static struct sim_dev devs[NR_PORTS + 1]; /* by LID */
static struct mad_agent agents[NR_PORTS + 1];
static struct spinlock net_lock = SPINLOCK_INIT("net", RANK_SPIN_NET);
static LIST_HEAD(flights);
static struct waitqueue net_wq = WAITQUEUE_INIT(net_wq);
static unsigned int loss_pct, dup_pct, max_delay_ms; /* net_lock */
static uint64_t rng = 1;                             /* net_lock */
static unsigned int nr_lost, nr_dup;
static void (*filter)(uint8_t *mad); /* may drop a message by clearing its first byte */

static uint32_t rnd(uint32_t below)
{
	rng = rng * 6364136223846793005ULL + 1442695040888963407ULL;
	return below ? (uint32_t)(rng >> 33) % below : 0;
}

static void fly(uint16_t from, uint16_t to, const void *mad)
{
	struct flight *f = calloc(1, sizeof(*f));

	f->to = to;
	f->from.dlid = from;
	f->due_ns = time_now_ns() + rnd(max_delay_ms + 1) * NSEC_PER_MSEC;
	memcpy(f->mad, mad, MAD_LEN);
	list_add_tail(&f->node, &flights);
}

int mad_send(struct mad_agent *agent, const struct rdma_addr *to, const void *mad)
{
	uint8_t copy[MAD_LEN];

	memcpy(copy, mad, MAD_LEN);
	if (filter)
		filter(copy);
	spin_lock(&net_lock);
	if (to->dlid < 1 || to->dlid > NR_PORTS || copy[0] == 0 || rnd(100) < loss_pct) {
		nr_lost++;
	} else {
		fly(agent->dev->lid, to->dlid, copy);
		if (rnd(100) < dup_pct) {
			fly(agent->dev->lid, to->dlid, copy);
			nr_dup++;
		}
	}
	spin_unlock(&net_lock);
	wake_all(&net_wq);
	return 0;
}

static struct flight *landed(void)
{
	struct flight *f, *got = NULL;

	spin_lock(&net_lock);
	list_for_each_entry(f, &flights, node) {
		if (f->due_ns <= time_now_ns()) {
			got = f;
			list_del(&f->node);
			break;
		}
	}
	spin_unlock(&net_lock);
	return got;
}

static void net_thread(void *arg)
{
	for (;;) {
		struct flight *f = landed();

		if (!f) {
			(void)wait_event_timeout(&net_wq, false, time_now_ns() + NSEC_PER_MSEC);
			continue;
		}
		if (agents[f->to].recv)
			agents[f->to].recv(agents[f->to].arg, f->mad, &f->from, 1);
		free(f);
	}
}

struct mad_agent *mad_agent_register(struct rdma_device *dev, uint8_t port, uint8_t mgmt_class,
				     mad_recv_fn recv, void *arg)
{
	struct sim_dev *d = container_of(dev, struct sim_dev, rdma);

	agents[d->lid] = (struct mad_agent){ d, recv, arg };
	return &agents[d->lid];
}

void mad_agent_unregister(struct mad_agent *agent)
{
	agent->recv = NULL;
}

/* --- a provider whose queue pairs do nothing ------------------------------------------- */

static int fail_rtr; /* the next transitions to RTR fail */

static void sim_device_attr(const struct rdma_device *dev, struct rdma_device_attr *attr)
{
	attr->nr_ports = 1;
}

static int sim_port_attr(struct rdma_device *dev, uint8_t port, struct rdma_port_attr *attr)
{
	const struct sim_dev *d = container_of(dev, struct sim_dev, rdma);

	attr->state = RDMA_PORT_ACTIVE;
	attr->active_mtu = RDMA_MTU_4096;
	attr->lid = d->lid;
	attr->gid.raw[15] = (uint8_t)d->lid;
	return 0;
}

static int sim_qp_step(struct rdma_qp *qp, const struct rdma_qp_conn *conn)
{
	if (qp->state == RDMA_QPS_INIT && fail_rtr) {
		fail_rtr--;
		return -ENOMEM;
	}
	memcpy(qp->context, conn, sizeof(*conn));
	return 0;
}

static const struct rdma_device_ops sim_ops = {
	.device_attr = sim_device_attr,
	.port_attr = sim_port_attr,
	.qp_to_rtr = sim_qp_step,
	.qp_to_rts = sim_qp_step,
};

static void net_start(unsigned int loss, unsigned int dup, unsigned int delay_ms, uint64_t seed)
{
	static bool started;

	spin_lock(&net_lock);
	loss_pct = loss;
	dup_pct = dup;
	max_delay_ms = delay_ms;
	rng = seed;
	nr_lost = 0;
	nr_dup = 0;
	spin_unlock(&net_lock);
	filter = NULL;
	if (started)
		return;
	started = true;
	for (uint16_t lid = 1; lid <= NR_PORTS; lid++) {
		devs[lid].rdma.ops = &sim_ops;
		devs[lid].lid = lid;
		atomic_set(&devs[lid].next_qpn, 0x40);
	}
	thread_detach(thread_create("net", net_thread, NULL));
}

/* --- both ends of a connection --------------------------------------------------------- */

struct end {
	struct rdma_qp qp;
	struct rdma_qp_conn seen; /* what the queue pair was connected with */
	struct cm_conn *cm;
	atomic_t nr_up, nr_over;
	atomic_t last; /* enum cm_event_type + 1 */
	uint16_t reason;
	uint8_t private_data[224];
	struct list_head node;
};

static struct waitqueue ends_wq = WAITQUEUE_INIT(ends_wq);
static atomic_t nr_requests, nr_passive_up, nr_passive_over;
static LIST_HEAD(passive_ends); /* net_lock: each port's CM thread adds to it */
static bool defer_accept;
static struct end *deferred;

static void end_init(struct end *e, struct sim_dev *dev)
{
	memset(e, 0, sizeof(*e));
	e->qp.dev = &dev->rdma;
	e->qp.qpn = (uint32_t)atomic_inc_return(&dev->next_qpn) - 1;
	e->qp.type = RDMA_QPT_RC;
	e->qp.state = RDMA_QPS_INIT;
	e->qp.context = &e->seen;
	mutex_init(&e->qp.lock, "qp", RANK_RDMA);
}

static struct cm_params params_of(struct end *e, const char *text)
{
	return (struct cm_params){
		.qp = &e->qp,
		.access = RDMA_ACCESS_REMOTE_WRITE,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.ack_timeout = 14,
		.max_rd_atomic = 4,
		.private_data = text,
		.private_len = strlen(text) + 1,
	};
}

static int active_event(struct cm_conn *cm, const struct cm_event *ev, void *arg)
{
	struct end *e = arg;

	if (ev->type == CM_EVENT_ESTABLISHED) {
		memcpy(e->private_data, ev->private_data, ev->private_len);
		atomic_inc(&e->nr_up);
	} else {
		e->reason = ev->rej_reason;
		atomic_inc(&e->nr_over);
	}
	atomic_set(&e->last, ev->type + 1);
	wake_all(&ends_wq);
	return 0;
}

static int passive_event(struct cm_conn *cm, const struct cm_event *ev, void *arg)
{
	struct end *e = arg;

	atomic_set(&e->last, ev->type + 1);
	if (ev->type == CM_EVENT_ESTABLISHED) {
		atomic_inc(&e->nr_up);
		atomic_inc(&nr_passive_up);
		wake_all(&ends_wq);
		return 0;
	}
	e->cm = NULL;
	atomic_inc(&nr_passive_over);
	wake_all(&ends_wq);
	return 1; /* destroy it */
}

static int request_event(struct cm_conn *cm, const struct cm_event *ev, void *arg)
{
	struct end *e = malloc(sizeof(*e));
	struct cm_params params;

	end_init(e, arg);
	memcpy(e->private_data, ev->private_data, ev->private_len);
	e->cm = cm;
	spin_lock(&net_lock);
	list_add_tail(&e->node, &passive_ends);
	spin_unlock(&net_lock);
	atomic_inc(&nr_requests);
	if (strcmp((const char *)e->private_data, "refuse") == 0) {
		(void)cm_reject(cm, CM_REJ_CONSUMER, "sorry", 6);
		e->cm = NULL;
		return 1;
	}
	cm_conn_set_arg(cm, passive_event, e);
	if (defer_accept) {
		deferred = e;
		wake_all(&ends_wq);
		return 0;
	}
	params = params_of(e, "welcome");
	if (cm_accept(cm, &params)) {
		(void)cm_reject(cm, CM_REJ_NO_RESOURCES, NULL, 0);
		e->cm = NULL;
		return 1;
	}
	return 0;
}

static struct cm_listener *listener(uint16_t lid)
{
	static struct cm_listener *ls[NR_PORTS + 1];

	atomic_set(&nr_requests, 0);
	atomic_set(&nr_passive_up, 0);
	atomic_set(&nr_passive_over, 0);
	defer_accept = false;
	if (!ls[lid])
		ls[lid] = cm_listen(&devs[lid].rdma, 1, SERVICE, request_event, &devs[lid]);
	return ls[lid];
}

static void connect_end(struct end *e, uint16_t from, uint16_t to, uint64_t service,
			const char *text)
{
	const struct rdma_addr addr = { .dlid = to };
	struct cm_params params;

	end_init(e, &devs[from]);
	params = params_of(e, text);
	e->cm = cm_connect(&devs[from].rdma, 1, &addr, service, &params, active_event, e);
}

static bool wait_for(const atomic_t *a, int n)
{
	return wait_event_timeout(&ends_wq, atomic_read(a) >= n, time_now_ns() + WAIT_NS);
}

static void passive_free(void)
{
	while (!list_empty(&passive_ends)) {
		struct end *e = list_first_entry(&passive_ends, struct end, node);

		if (e->cm)
			cm_conn_destroy(e->cm);
		list_del(&e->node);
		free(e);
	}
}

/* --- cases --------------------------------------------------------------------------- */

/* Starting PSN of the REQ and of the REP that were sent last. */
static uint32_t req_psn, rep_psn;

static void note_psn(uint8_t *mad)
{
	const uint8_t *d = mad + 24;

	if (mad[17] == 0x10)
		req_psn = (uint32_t)d[44] << 16 | (uint32_t)d[45] << 8 | d[46];
	else if (mad[17] == 0x13)
		rep_psn = (uint32_t)d[20] << 16 | (uint32_t)d[21] << 8 | d[22];
}

static void connect_and_disconnect(struct ktest *t)
{
	struct end a, *p;

	net_start(0, 0, 0, 1);
	filter = note_psn;
	ASSERT_FALSE(t, IS_ERR(listener(1)));
	connect_end(&a, 2, 1, SERVICE, "hello");
	ASSERT_FALSE(t, IS_ERR(a.cm));
	ASSERT_TRUE(t, wait_for(&a.nr_up, 1));
	ASSERT_TRUE(t, wait_for(&nr_passive_up, 1));
	p = list_first_entry(&passive_ends, struct end, node);
	EXPECT_STREQ(t, (const char *)a.private_data, "welcome");
	EXPECT_STREQ(t, (const char *)p->private_data, "hello");
	/* Each knows the other's queue pair, address and first packet number. */
	EXPECT_EQ(t, a.qp.state, RDMA_QPS_RTS);
	EXPECT_EQ(t, a.seen.remote_qpn, p->qp.qpn);
	EXPECT_EQ(t, p->seen.remote_qpn, a.qp.qpn);
	EXPECT_EQ(t, a.seen.rq_psn, p->seen.sq_psn);
	EXPECT_EQ(t, p->seen.rq_psn, a.seen.sq_psn);
	/*
	 * The receiver of a message begins to send with its Starting PSN, as Linux and the
	 * specification have it.
	 */
	EXPECT_EQ(t, p->seen.sq_psn, req_psn);
	EXPECT_EQ(t, a.seen.sq_psn, rep_psn);
	EXPECT_EQ(t, a.seen.addr.dlid, 1);
	EXPECT_EQ(t, p->seen.addr.dlid, 2);
	EXPECT_EQ(t, p->seen.access, (uint32_t)RDMA_ACCESS_REMOTE_WRITE);

	cm_disconnect(a.cm);
	EXPECT_TRUE(t, wait_for(&a.nr_over, 1));
	EXPECT_TRUE(t, wait_for(&nr_passive_over, 1));
	EXPECT_EQ(t, atomic_read(&a.last), CM_EVENT_DISCONNECTED + 1);
	cm_conn_destroy(a.cm);
	passive_free();
}

static void refusals(struct ktest *t)
{
	struct end a;

	net_start(0, 0, 0, 2);
	ASSERT_FALSE(t, IS_ERR(listener(1)));
	connect_end(&a, 2, 1, SERVICE + 1, "");
	EXPECT_TRUE(t, wait_for(&a.nr_over, 1));
	EXPECT_EQ(t, a.reason, CM_REJ_INVALID_SERVICE_ID);
	cm_conn_destroy(a.cm);

	connect_end(&a, 2, 1, SERVICE, "refuse");
	EXPECT_TRUE(t, wait_for(&a.nr_over, 1));
	EXPECT_EQ(t, a.reason, CM_REJ_CONSUMER);
	cm_conn_destroy(a.cm);

	fail_rtr = 1; /* the passive side's queue pair does not come up */
	connect_end(&a, 2, 1, SERVICE, "x");
	EXPECT_TRUE(t, wait_for(&a.nr_over, 1));
	EXPECT_EQ(t, a.reason, CM_REJ_NO_RESOURCES);
	cm_conn_destroy(a.cm);
	fail_rtr = 0;
	passive_free();
}

static void nobody_there(struct ktest *t)
{
	struct end a;
	const uint64_t start = time_now_ns();

	net_start(0, 0, 0, 3);
	connect_end(&a, 2, 77, SERVICE, "");
	EXPECT_TRUE(t, wait_for(&a.nr_over, 1));
	EXPECT_EQ(t, atomic_read(&a.last), CM_EVENT_UNREACHABLE + 1);
	EXPECT_GT(t, time_now_ns() - start, 5 * NSEC_PER_SEC);
	cm_conn_destroy(a.cm);
}

#define MANY 60

static void many_over_a_bad_network(struct ktest *t)
{
	struct end *ends = calloc(MANY, sizeof(*ends));
	struct end *p;

	net_start(20, 20, 30, 4);
	ASSERT_FALSE(t, IS_ERR(listener(1)));
	ASSERT_FALSE(t, IS_ERR(listener(2)));
	/* Half of them each way: simultaneous connects. */
	for (unsigned int n = 0; n < MANY; n++)
		connect_end(&ends[n], n & 1 ? 1 : 2, n & 1 ? 2 : 1, SERVICE, "many");
	for (unsigned int n = 0; n < MANY; n++)
		EXPECT_TRUE(t, wait_for(&ends[n].nr_up, 1));
	EXPECT_TRUE(t, wait_for(&nr_passive_up, MANY));
	/* Duplicates made no second connection. */
	EXPECT_EQ(t, atomic_read(&nr_requests), MANY);
	EXPECT_EQ(t, list_length(&passive_ends), (size_t)MANY);
	list_for_each_entry(p, &passive_ends, node) {
		unsigned int nr = 0;

		for (unsigned int n = 0; n < MANY; n++)
			nr += ends[n].seen.remote_qpn == p->qp.qpn &&
			      ends[n].qp.qpn == p->seen.remote_qpn &&
			      ends[n].seen.sq_psn == p->seen.rq_psn;
		EXPECT_EQ(t, nr, 1U);
	}
	EXPECT_GT(t, nr_lost, 20U);
	EXPECT_GT(t, nr_dup, 20U);

	for (unsigned int n = 0; n < MANY; n++)
		cm_disconnect(ends[n].cm);
	for (unsigned int n = 0; n < MANY; n++) {
		EXPECT_TRUE(t, wait_for(&ends[n].nr_over, 1));
		EXPECT_EQ(t, atomic_read(&ends[n].nr_up), 1);
		cm_conn_destroy(ends[n].cm);
	}
	/* A CM thread may still be ending one that passive_free() would end, too. */
	(void)wait_for(&nr_passive_over, MANY);
	net_start(0, 0, 0, 4);
	passive_free();
	free(ends);
}

static void stale_connection(struct ktest *t)
{
	struct end a, b;

	net_start(0, 0, 0, 5);
	ASSERT_FALSE(t, IS_ERR(listener(1)));
	connect_end(&a, 2, 1, SERVICE, "old");
	ASSERT_TRUE(t, wait_for(&nr_passive_up, 1));
	/* The node starts anew and uses the same queue pair number. */
	atomic_set(&devs[2].next_qpn, (int)a.qp.qpn);
	connect_end(&b, 2, 1, SERVICE, "new");
	EXPECT_TRUE(t, wait_for(&b.nr_over, 1));
	EXPECT_EQ(t, b.reason, CM_REJ_STALE_CONN);
	EXPECT_TRUE(t, wait_for(&nr_passive_over, 1));
	cm_conn_destroy(b.cm);
	atomic_set(&devs[2].next_qpn, (int)a.qp.qpn);
	connect_end(&b, 2, 1, SERVICE, "again");
	EXPECT_TRUE(t, wait_for(&b.nr_up, 1));
	cm_conn_destroy(b.cm);
	cm_conn_destroy(a.cm);
	passive_free();
}

static unsigned int nr_mra;

static void count_mra(uint8_t *mad)
{
	nr_mra += mad[17] == 0x11;
}

static void late_accept_asks_for_patience(struct ktest *t)
{
	struct cm_params params;
	struct end a;

	net_start(0, 0, 0, 6);
	ASSERT_FALSE(t, IS_ERR(listener(1)));
	filter = count_mra;
	nr_mra = 0;
	deferred = NULL;
	defer_accept = true;
	connect_end(&a, 2, 1, SERVICE, "later");
	ASSERT_TRUE(t, wait_event_timeout(&ends_wq, READ_ONCE(deferred), time_now_ns() + WAIT_NS));
	thread_sleep_ns(NSEC_PER_SEC);
	EXPECT_EQ(t, atomic_read(&nr_requests), 1); /* the repeated REQ was recognised */
	EXPECT_GE(t, nr_mra, 1U);
	params = params_of(deferred, "at last");
	EXPECT_EQ(t, cm_accept(deferred->cm, &params), 0);
	EXPECT_EQ(t, cm_accept(deferred->cm, &params), -EINVAL);
	EXPECT_TRUE(t, wait_for(&a.nr_up, 1));
	EXPECT_STREQ(t, (const char *)a.private_data, "at last");
	filter = NULL;
	cm_conn_destroy(a.cm);
	EXPECT_TRUE(t, wait_for(&nr_passive_over, 1));
	passive_free();
}

static void drop_rtu(uint8_t *mad)
{
	if (mad[17] == 0x14)
		mad[0] = 0;
}

static void lost_rtu_is_sent_again(struct ktest *t)
{
	struct end a;

	net_start(0, 0, 0, 7);
	ASSERT_FALSE(t, IS_ERR(listener(1)));
	filter = drop_rtu;
	connect_end(&a, 2, 1, SERVICE, "rtu");
	ASSERT_TRUE(t, wait_for(&a.nr_up, 1));
	thread_sleep_ns(100 * NSEC_PER_MSEC);
	EXPECT_EQ(t, atomic_read(&nr_passive_up), 0);
	filter = NULL;
	EXPECT_TRUE(t, wait_for(&nr_passive_up, 1)); /* by the repeated REP */
	cm_conn_destroy(a.cm);
	EXPECT_TRUE(t, wait_for(&nr_passive_over, 1));
	passive_free();
}

static void strangers_change_nothing(struct ktest *t)
{
	const struct rdma_addr to = { .dlid = 1 };
	uint8_t mad[MAD_LEN];
	uint64_t seed = 99;
	struct end a;

	net_start(0, 0, 0, 8);
	ASSERT_FALSE(t, IS_ERR(listener(1)));
	connect_end(&a, 2, 1, SERVICE, "victim");
	ASSERT_TRUE(t, wait_for(&nr_passive_up, 1));
	agents[3].dev = &devs[3];
	for (unsigned int n = 0; n < 3000; n++) {
		for (unsigned int i = 0; i < MAD_LEN; i++) {
			seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
			mad[i] = (uint8_t)(seed >> 40);
		}
		memcpy(mad, (const uint8_t[]){ 1, 7, 2, 3 }, 4);
		mad[16] = 0;
		mad[17] = (uint8_t)(0x10 + n % 9);
		if (n % 3 == 0) /* small numbers hit more */
			memset(mad + 24, 0, 7);
		(void)!mad_send(&agents[3], &to, mad);
	}
	thread_sleep_ns(300 * NSEC_PER_MSEC);
	EXPECT_EQ(t, atomic_read(&a.nr_over), 0);
	EXPECT_EQ(t, atomic_read(&nr_passive_over), 0);
	EXPECT_EQ(t, atomic_read(&nr_requests), 1);
	cm_disconnect(a.cm);
	EXPECT_TRUE(t, wait_for(&a.nr_over, 1));
	cm_conn_destroy(a.cm);
	passive_free();
}

static void bad_arguments(struct ktest *t)
{
	const struct rdma_addr to = { .dlid = 1 };
	static const char big[CM_REQ_PRIVATE_LEN + 1];
	struct cm_params params;
	struct end a;

	net_start(0, 0, 0, 9);
	end_init(&a, &devs[2]);
	params = params_of(&a, "");
	params.private_data = big;
	params.private_len = sizeof(big);
	EXPECT_EQ(t, PTR_ERR(cm_connect(&devs[2].rdma, 1, &to, SERVICE, &params, active_event, &a)),
		  (long)-EINVAL);
	ASSERT_FALSE(t, IS_ERR(listener(1)));
	EXPECT_EQ(t, PTR_ERR(cm_listen(&devs[1].rdma, 1, SERVICE, request_event, NULL)),
		  (long)-EBUSY);
}

static const struct ktest_case cm_cases[] = {
	KTEST(connect_and_disconnect), KTEST(refusals),
	KTEST(nobody_there),           KTEST(many_over_a_bad_network),
	KTEST(stale_connection),       KTEST(late_accept_asks_for_patience),
	KTEST(lost_rtu_is_sent_again), KTEST(strangers_change_nothing),
	KTEST(bad_arguments),          { 0 },
};
static const struct ktest_suite cm_suite = { .name = "rdma.cm", .cases = cm_cases };
KTEST_SUITE(cm_suite);
