/* SPDX-License-Identifier: MIT */
/*
 * RDMA providers: the operations that each implements below the verbs.
 *
 * Flow:	the provider embeds the structures below in its own, fills rdma_device.ops and
 *		calls rdma_device_register() when at least the device (not necessarily a port)
 *		is up.  The verbs core checks arguments that need no knowledge of the provider,
 *		counts, and calls through the table.
 * Context:	create, modify and destroy operations run in a thread and may sleep; the core
 *		serialises the modify operations of one queue pair (rdma_qp.lock).  post_send,
 *		ring_send, post_recv, poll_cq and arm_cq run in any context, on any CPU, in
 *		parallel.
 * Ordering:	the provider counts its own doorbells and other MMIO with rdma_count_*().
 * Failure:	create returns ERR_PTR(-errno) and leaves nothing behind; destroy cannot fail: a
 *		provider whose device does not answer fences the device off instead.
 */
#pragma once

#include <kernel/mutex.h>
#include <kernel/spinlock.h>
#include <kernel/wait.h>
#include <lib/atomic.h>
#include <lib/compiler.h>
#include <lib/list.h>
#include <lib/types.h>
#include <rdma/verbs.h>

struct thread;

struct rdma_device_ops {
	void (*device_attr)(const struct rdma_device *dev, struct rdma_device_attr *attr);
	/* @port has been checked against nr_ports. */
	int (*port_attr)(struct rdma_device *dev, uint8_t port, struct rdma_port_attr *attr);

	/* The common part (dev, pd, type, …) of what is returned is filled in by the core. */
	struct rdma_pd *(*pd_create)(struct rdma_device *dev);
	void (*pd_destroy)(struct rdma_pd *pd);
	/* Ranges have been checked: page aligned, not empty, no overflow. Sets lkey and rkey. */
	struct rdma_mr *(*mr_create)(struct rdma_pd *pd, uint64_t iova,
				     const struct rdma_phys_range *ranges, size_t nr_ranges,
				     uint64_t len, uint32_t access);
	void (*mr_destroy)(struct rdma_mr *mr);
	/*
	 * Calls rdma_cq_event(cq) once per arm. The core sets event and event_arg after the return
	 * and before the first arm.
	 */
	struct rdma_cq *(*cq_create)(struct rdma_device *dev, uint32_t nr_cqe, uint32_t vector);
	void (*cq_destroy)(struct rdma_cq *cq);
	/* Sets qpn. GSI: answers 1 in qpn. */
	struct rdma_qp *(*qp_create)(struct rdma_pd *pd, const struct rdma_qp_init *init);
	void (*qp_destroy)(struct rdma_qp *qp);
	int (*qp_to_init)(struct rdma_qp *qp, uint32_t access);
	int (*qp_to_rtr)(struct rdma_qp *qp, const struct rdma_qp_conn *conn);
	int (*qp_to_rts)(struct rdma_qp *qp, const struct rdma_qp_conn *conn);
	/* UD and GSI: RESET to RTS, with the port, Q_Key and so on of qp_create. */
	int (*qp_to_rts_ud)(struct rdma_qp *qp);
	int (*qp_to_err)(struct rdma_qp *qp);

	int (*post_send)(struct rdma_qp *qp, const struct rdma_send_wr *wr,
			 const struct rdma_send_wr **bad);
	void (*ring_send)(struct rdma_qp *qp);
	int (*post_recv)(struct rdma_qp *qp, const struct rdma_recv_wr *wr,
			 const struct rdma_recv_wr **bad);
	int (*poll_cq)(struct rdma_cq *cq, struct rdma_wc *wc, int max);
	void (*arm_cq)(struct rdma_cq *cq, bool solicited_only);
	/* Optional: rdma_wait(). */
	bool (*wait)(struct rdma_device *dev, uint64_t ns);

	/*
	 * Optional: the device's own agent for a MAD that came in on QP1 and that no agent of ours
	 * wants (performance management).  @in and @out are 256 bytes.  0 = answer @out to the
	 * sender, -ENOENT = nothing to say, other negative errno = failed.
	 */
	int (*process_mad)(struct rdma_device *dev, uint8_t port, const struct rdma_addr *from,
			   uint32_t src_qpn, const void *in, void *out);
};

struct rdma_device {
	const struct rdma_device_ops *ops; /* const */
	char name[16];                     /* const: "mlx4_0" */
	struct list_head node;             /* the core's list of devices */
	atomic_t nr_users;                 /* protection domains and completion queues */

	/* The core's: event handlers. */
	struct spinlock handlers_lock; /* RANK_SPIN_RDMA */
	struct list_head handlers __guarded_by(&handlers_lock);
	const struct rdma_event_handler *running __guarded_by(&handlers_lock);
	struct thread *dispatcher __guarded_by(&handlers_lock);
	struct waitqueue handler_done;
};

struct rdma_pd {
	struct rdma_device *dev; /* const */
	atomic_t nr_users;       /* regions and queue pairs */
};

struct rdma_mr {
	struct rdma_device *dev; /* const */
	struct rdma_pd *pd;      /* const */
	uint64_t iova;           /* const */
	uint64_t len;            /* const */
	uint32_t access;         /* const */
	uint32_t lkey;           /* const; provider */
	uint32_t rkey;           /* const; provider */
};

struct rdma_cq {
	struct rdma_device *dev; /* const */
	void (*event)(struct rdma_cq *cq, void *arg);
	void *event_arg;
	atomic_t nr_users; /* queue pairs */
};

struct rdma_qp {
	struct rdma_device *dev;                      /* const */
	struct rdma_pd *pd;                           /* const */
	struct rdma_cq *send_cq;                      /* const */
	struct rdma_cq *recv_cq;                      /* const */
	enum rdma_qp_type type;                       /* const */
	uint8_t port;                                 /* const */
	uint32_t qkey;                                /* const */
	uint32_t qpn;                                 /* const; provider */
	void *context;                                /* const */
	struct mutex lock;                            /* RANK_RDMA: serialises modify operations */
	enum rdma_qp_state state __guarded_by(&lock); /* fast path peeks with READ_ONCE */
};

/* --- what the core offers to providers ------------------------------------------------- */

/* @dev is zeroed but for ->ops. @prefix names the device: the core appends a number. */
int rdma_device_register(struct rdma_device *dev, const char *prefix) __must_check;
/* The device is gone: every user has been told by RDMA_EVENT_DEVICE_FATAL and has let go. */
void rdma_device_unregister(struct rdma_device *dev);

/* Tell everybody who registered; thread context, one call at a time for one device. */
void rdma_event_dispatch(const struct rdma_event *ev);

/* A completion event for @cq; interrupt context allowed. */
void rdma_cq_event(struct rdma_cq *cq);

/* The counters rdma.send_wr, rdma.recv_wr, rdma.cqe, rdma.doorbells, rdma.mmio and so on. */
void rdma_count_send(uint32_t nr_wr, uint32_t nr_doorbells);
/* Of those: inline, and with a completion asked for. */
void rdma_count_send_kinds(uint32_t nr_inline, uint32_t nr_signalled);
void rdma_count_recv(uint32_t nr_wr);
void rdma_count_cqe(uint32_t nr, uint32_t nr_errors);
void rdma_count_arm(void);
void rdma_count_mmio(uint32_t nr);
