/* SPDX-License-Identifier: MIT */
/*
 * RPC workers: threads that run handlers which may sleep.
 *
 * Flow:	there is one pool per traffic class and one for datagrams, bounded by
 *		rpc.workers, and one for handlers that wait for other nodes, which has as many
 *		threads as all sessions together may have requests (RPC_REQUESTS_PER_SLOT): a
 *		request on which such a handler waits never starves.  A thread that is about to
 *		run a handler and leaves no idle thread behind makes one first, so the polling
 *		context never creates threads.  Threads end after idling a while.
 * Context:	rpc_worker_queue() runs in polling context.
 */
#define PR_FMT "rpc: "

#include "rpc_priv.h"

#include <kernel/printk.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <lib/fmt.h>

#define WORKER_IDLE_NS (10 * NSEC_PER_SEC)

struct pool {
	struct spinlock lock; /* RANK_NET_QP */
	struct list_head queue __guarded_by(&lock);
	uint32_t nr_queued __guarded_by(&lock);
	uint32_t nr_idle __guarded_by(&lock);
	uint32_t nr_threads __guarded_by(&lock);
	uint32_t max_threads;
	struct waitqueue wq;
	const char *name;
};

static struct pool class_pools[RPC_NR_CLASSES];
static struct pool dgram_pool;
static struct pool waits_pool;

static void worker_main(void *arg);

/* The caller has counted the new thread in nr_threads and nr_idle. */
static int worker_create(struct pool *p)
{
	struct thread *t;
	char name[THREAD_NAME_LEN];

	scnprintf(name, sizeof(name), "rpc-%s", p->name);
	t = thread_create(name, worker_main, p);
	if (IS_ERR(t)) {
		spin_lock(&p->lock);
		p->nr_threads--;
		p->nr_idle--;
		spin_unlock(&p->lock);
		return (int)PTR_ERR(t);
	}
	thread_detach(t);
	counter_inc(&rpc_c_worker_threads);
	return 0;
}

/* Take a request; before running it, see that somebody is left to take the next one. */
static struct rpc_request *worker_take(struct pool *p)
{
	struct rpc_request *req = NULL;
	bool grow = false;

	spin_lock(&p->lock);
	if (!list_empty(&p->queue)) {
		req = list_first_entry(&p->queue, struct rpc_request, link);
		list_del(&req->link);
		p->nr_queued--;
		p->nr_idle--;
		grow = p->nr_idle == 0 && p->nr_threads < p->max_threads;
		if (grow) {
			p->nr_threads++;
			p->nr_idle++;
		}
	}
	spin_unlock(&p->lock);
	if (grow && worker_create(p))
		pr_warn_ratelimited("no memory for another %s worker\n", p->name);
	return req;
}

/* Idle for long: may this thread end? */
static bool worker_retire(struct pool *p)
{
	bool end;

	spin_lock(&p->lock);
	end = p->nr_idle > 1 && list_empty(&p->queue);
	if (end) {
		p->nr_idle--;
		p->nr_threads--;
	}
	spin_unlock(&p->lock);
	return end;
}

static void worker_main(void *arg)
{
	struct pool *p = arg;

	for (;;) {
		const uint64_t idle_end = time_after_ns(WORKER_IDLE_NS);
		struct rpc_request *req = worker_take(p);

		if (req) {
			if (p == &waits_pool)
				rpc_request_run_waits(req);
			else
				rpc_request_run(req);
			atomic_dec(&rpc_net.nr_working);
			spin_lock(&p->lock);
			p->nr_idle++;
			spin_unlock(&p->lock);
			continue;
		}
		if (!wait_event_timeout(&p->wq, READ_ONCE(p->nr_queued) != 0, idle_end) &&
		    worker_retire(p))
			return;
	}
}

static struct pool *pool_of(const struct rpc_request *req, bool waits)
{
	if (!req->session)
		return &dgram_pool;
	return waits ? &waits_pool : &class_pools[req->session->cls];
}

void rpc_worker_queue(struct rpc_request *req, bool waits)
{
	struct pool *p = pool_of(req, waits);

	atomic_inc(&rpc_net.nr_working);
	spin_lock(&p->lock);
	list_add_tail(&req->link, &p->queue);
	p->nr_queued++;
	spin_unlock(&p->lock);
	wake_one(&p->wq);
}

static int pool_init(struct pool *p, const char *name, uint32_t max_threads)
{
	spin_lock_init(&p->lock, "rpc.pool", RANK_NET_QP);
	list_init(&p->queue);
	waitqueue_init(&p->wq);
	p->name = name;
	p->max_threads = max_threads;
	p->nr_threads = 1;
	p->nr_idle = 1;
	return worker_create(p);
}

/* Requests that all peers together may have in our hands. */
static uint32_t requests_max(void)
{
	uint32_t nr_slots = 0;

	for (uint32_t i = 0; i < RPC_NR_CLASSES; i++)
		nr_slots += rpc_class_cfg[i].nr_slots;
	return nr_slots * RPC_REQUESTS_PER_SLOT * rpc_tune.max_peers;
}

int rpc_workers_init(void)
{
	int err = pool_init(&waits_pool, "waits", requests_max());

	if (!err)
		err = pool_init(&dgram_pool, "datagram", rpc_tune.workers);
	for (uint32_t i = 0; i < RPC_NR_CLASSES && !err; i++)
		err = pool_init(&class_pools[i], rpc_class_cfg[i].name, rpc_tune.workers);
	return err;
}
