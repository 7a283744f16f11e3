/* SPDX-License-Identifier: MIT */
/*
 * Subnet administration client: PathRecord by GID.
 *
 * Flow:	register for the class, send Get(PathRecord) to the subnet manager, wait for the
 *		GetResp with our transaction id, repeat until the deadline.
 * Locking:	one query at a time: query_lock.
 */
#include <rdma/sa.h>

#include <kernel/mutex.h>
#include <kernel/random.h>
#include <kernel/time.h>
#include <kernel/wait.h>
#include <lib/byteorder.h>
#include <lib/err.h>
#include <lib/string.h>
#include <rdma/mad.h>

#include "sa_msg.h"

#define RETRY_NS (200 * NSEC_PER_MSEC)

struct sa_query {
	uint64_t tid;
	struct rdma_gid dgid;
	struct completion done;
	int result;
	struct rdma_addr addr;
};

static struct mutex query_lock = MUTEX_INIT(query_lock, "sa_query", RANK_CM);

static void sa_received(void *arg, const void *mad, const struct rdma_addr *from, uint32_t src_qpn)
{
	struct sa_query *q = arg;
	struct rdma_addr addr;
	int err;

	err = sa_path_decode(mad, q->tid, &q->dgid, &addr);
	if (err == -ENOMSG || completion_done(&q->done))
		return; /* somebody else's, or late */
	q->result = err;
	q->addr = addr;
	complete_all(&q->done);
}

static int sa_ask(struct rdma_device *dev, uint8_t port, const struct rdma_port_attr *attr,
		  struct sa_query *q, uint64_t deadline_ns)
{
	const struct rdma_addr sm = { .dlid = attr->sm_lid };
	struct mad_agent *agent;
	uint8_t mad[MAD_LEN];
	int err = -ETIMEDOUT;

	agent = mad_agent_register(dev, port, MAD_CLASS_SA, sa_received, q);
	if (IS_ERR(agent))
		return (int)PTR_ERR(agent);
	sa_path_encode(q->tid, &attr->gid, &q->dgid, mad);
	do {
		const uint64_t now = time_now_ns();

		/* Not sent counts as lost. */
		(void)!mad_send(agent, &sm, mad);
		if (completion_wait_until(&q->done, MIN(now + RETRY_NS, deadline_ns))) {
			err = q->result;
			break;
		}
	} while (time_now_ns() < deadline_ns);
	mad_agent_unregister(agent);
	return err;
}

int sa_path_query(struct rdma_device *dev, uint8_t port, const struct rdma_gid *dgid,
		  struct rdma_addr *addr, uint64_t deadline_ns)
{
	struct sa_query q = { .dgid = *dgid, .tid = random_u64() };
	struct rdma_port_attr attr;
	int err;

	err = rdma_port_attr(dev, port, &attr);
	if (err)
		return err;
	if (!attr.lid && !attr.sm_lid) {
		*addr = (struct rdma_addr){ .dgid = *dgid, .has_grh = true };
		return 0;
	}
	completion_init(&q.done);
	mutex_lock(&query_lock);
	err = sa_ask(dev, port, &attr, &q, deadline_ns);
	mutex_unlock(&query_lock);
	if (!err)
		*addr = q.addr;
	return err;
}
