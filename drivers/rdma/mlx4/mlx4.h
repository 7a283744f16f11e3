/* SPDX-License-Identifier: MIT */
/*
 * ConnectX-3 driver: the device and its parts.
 *
 * Locking:	sleeping: life (RANK_RDMA_DEVICE), read around each verb that makes, changes or
 *		ends an object, written by recovery; icm_lock (RANK_RDMA_ICM) around mapping of
 *		context memory; cmd.hcr_lock (RANK_DRIVER) around the command register.
 *		Spinning: table_lock (RANK_SPIN_RDMA) around id bitmaps and translation space; a
 *		work queue's lock (RANK_RDMA_QP) around posting; a completion queue's lock
 *		(RANK_RDMA_CQ) around polling.  Interrupt handlers take none of these.
 * Ordering:	a CQE's or EQE's owner bit, dma_rmb(), its contents; a WQE's body, dma_wmb(),
 *		its owner bit, doorbell_write32be().
 * See:		docs/drivers/mlx4.md
 */
#pragma once

#include <drivers/pci.h>
#include <kernel/mutex.h>
#include <kernel/rwsem.h>
#include <kernel/spinlock.h>
#include <kernel/timer.h>
#include <kernel/wait.h>
#include <lib/atomic.h>
#include <lib/bitmap.h>
#include <lib/compiler.h>
#include <lib/list.h>
#include <lib/types.h>
#include <rdma/provider.h>

#include "caps.h"
#include "wqe.h"

struct thread;
struct mlx4_dev;
struct mlx4_hw_buf;
struct mlx4_hw_mpt;

/* --- ids and translation space (alloc.c, pure) ------------------------------------------- */

struct mlx4_ids {
	uint64_t *map;
	uint32_t nr;    /* ids are below this */
	uint32_t first; /* and not below this */
	uint32_t next;  /* search from here, so that an id is not reused at once */
};

int mlx4_ids_init(struct mlx4_ids *ids, uint32_t first, uint32_t nr) __must_check;
void mlx4_ids_destroy(struct mlx4_ids *ids);
/* Before the first get: the numbers begin somewhere, as @random has it. */
void mlx4_ids_begin_at(struct mlx4_ids *ids, uint32_t random);
int mlx4_ids_get(struct mlx4_ids *ids, uint32_t align, uint32_t count, uint32_t *id) __must_check;
void mlx4_ids_put(struct mlx4_ids *ids, uint32_t id, uint32_t count);

struct mlx4_buddy {
	uint64_t **free; /* per order: bitmap of free blocks */
	uint32_t *nr_free;
	unsigned int max_order;
};

int mlx4_buddy_init(struct mlx4_buddy *b, unsigned int max_order) __must_check;
void mlx4_buddy_destroy(struct mlx4_buddy *b);
/* First entry of a free block of 2^order, or -ENOSPC. */
int64_t mlx4_buddy_get(struct mlx4_buddy *b, unsigned int order);
void mlx4_buddy_put(struct mlx4_buddy *b, uint32_t start, unsigned int order);

/* --- memory lent to the device (mem.c) --------------------------------------------------- */

#define MEM_MAX_ORDER 6 /* pieces of up to 256 KiB */

struct mlx4_piece {
	paddr_t paddr;
	void *virt;
	unsigned int order; /* log2 of 4 KiB pages */
};

struct mlx4_mem {
	struct mlx4_piece *pieces;
	uint32_t nr_pieces;
	uint64_t len;
};

int mlx4_mem_alloc(struct mlx4_mem *mem, uint64_t len) __must_check;
void mlx4_mem_free(struct mlx4_mem *mem);
/* Give @mem to the device: @op is MAP_FA, MAP_ICM_AUX or MAP_ICM (then at ICM address @virt). */
int mlx4_mem_map(struct mlx4_dev *dev, uint16_t op, const struct mlx4_mem *mem, uint64_t virt)
	__must_check;

/* --- context memory (icm.c) -------------------------------------------------------------- */

#define ICM_CHUNK_LEN (256UL * 1024)

struct mlx4_icm_chunk {
	struct mlx4_mem mem;
	uint32_t nr_users;
};

struct mlx4_icm {
	const struct mlx4_region *region;
	struct mlx4_icm_chunk **chunks; /* dev->icm_lock */
	uint32_t nr_chunks;
	uint32_t chunk_len;
};

int mlx4_icm_init(struct mlx4_dev *dev) __must_check;
void mlx4_icm_destroy(struct mlx4_dev *dev);
/* After a reset: lend every chunk that objects hold again. */
int mlx4_icm_restore(struct mlx4_dev *dev) __must_check;
/* Make entries @first .. @first + @nr - 1 of a region present. */
int mlx4_icm_get(struct mlx4_dev *dev, enum mlx4_region_id id, uint32_t first, uint32_t nr)
	__must_check;
void mlx4_icm_put(struct mlx4_dev *dev, enum mlx4_region_id id, uint32_t first, uint32_t nr);
/* Our view of entry @index, which is present; *@contig = entries from there without a gap. */
void *mlx4_icm_find(struct mlx4_dev *dev, enum mlx4_region_id id, uint32_t index, uint32_t *contig);

/* --- commands (cmd.c) -------------------------------------------------------------------- */

struct mlx4_mbox {
	void *virt;
	paddr_t paddr;
};

struct mlx4_cmd_slot {
	struct completion done;
	uint16_t token;
	uint8_t status;
	bool in_use;
	uint64_t out;
};

/* How the registers in BAR 0 are reached; tests put a fake device here. */
struct mlx4_reg_ops {
	uint32_t (*read)(struct mlx4_dev *dev, uint32_t off);
	void (*write)(struct mlx4_dev *dev, uint32_t off, uint32_t val);
};

struct mlx4_cmd {
	struct mutex hcr_lock; /* RANK_DRIVER */
	uint32_t toggle __guarded_by(&hcr_lock);
	bool idle __guarded_by(&hcr_lock); /* the register is known to be free */
	bool events;                       /* completions come as events */
	struct spinlock slot_lock;         /* RANK_SPIN_DRIVER */
	struct mlx4_cmd_slot *slots;       /* const; what is in them: slot_lock */
	uint32_t nr_slots;
	struct waitqueue slot_wq;
};

struct mlx4_cmd_args {
	uint16_t op;
	uint8_t op_mod;
	uint32_t in_mod;
	uint64_t in;   /* mailbox or immediate */
	uint64_t out;  /* mailbox; 0 = none */
	uint64_t *imm; /* immediate result, or NULL */
	bool quiet;    /* a refusal is the caller's to report */
};

int mlx4_cmd_init(struct mlx4_dev *dev) __must_check;
void mlx4_cmd_destroy(struct mlx4_dev *dev);
int mlx4_cmd(struct mlx4_dev *dev, const struct mlx4_cmd_args *args) __must_check;
/* The same with an input mailbox, an output mailbox, or none. */
int mlx4_cmd_in(struct mlx4_dev *dev, uint16_t op, uint8_t op_mod, uint32_t in_mod,
		const struct mlx4_mbox *in) __must_check;
int mlx4_cmd_out(struct mlx4_dev *dev, uint16_t op, uint8_t op_mod, uint32_t in_mod,
		 const struct mlx4_mbox *out) __must_check;
int mlx4_cmd_none(struct mlx4_dev *dev, uint16_t op, uint8_t op_mod, uint32_t in_mod) __must_check;
int mlx4_cmd_events_on(struct mlx4_dev *dev) __must_check;
void mlx4_cmd_events_off(struct mlx4_dev *dev);
/* A command completion event; interrupt context. */
void mlx4_cmd_event(struct mlx4_dev *dev, uint16_t token, uint8_t status, uint64_t out);
/* Let everybody who waits go: the device is dead. */
void mlx4_cmd_abort(struct mlx4_dev *dev);
/* The device was reset: polled again, with the first toggle.  No other thread is in mlx4_cmd(). */
void mlx4_cmd_restart(struct mlx4_dev *dev);
int mlx4_mbox_get(struct mlx4_mbox *mbox) __must_check; /* zeroed */
void mlx4_mbox_put(struct mlx4_mbox *mbox);

/* --- memory regions (mr.c) --------------------------------------------------------------- */

struct mlx4_mtt {
	uint32_t first; /* entry */
	unsigned int order;
	unsigned int page_shift;
	bool present;
};

struct mlx4_mpt_fields {
	uint32_t key_index; /* MPT index with the variant above it */
	uint32_t pd;
	uint32_t access;
	uint64_t iova, len;
	uint64_t mtt_addr;
	uint32_t nr_mtt;
	unsigned int page_shift;
};

struct mlx4_mr {
	struct rdma_mr rdma;
	struct list_head node; /* dev->mrs, table_lock */
	uint32_t index;        /* of the MPT entry */
	struct mlx4_mtt mtt;
	struct mlx4_mpt_fields mpt; /* what the device was told; const */
};

/* Largest page size with which @ranges, laid out from @iova, can be translated. */
unsigned int mlx4_mtt_best_shift(uint64_t iova, const struct rdma_phys_range *ranges, size_t nr);
/* Number of entries for it. */
uint64_t mlx4_mtt_count(uint64_t iova, uint64_t len, unsigned int shift);
int mlx4_mtt_create(struct mlx4_dev *dev, uint64_t iova, const struct rdma_phys_range *ranges,
		    size_t nr, uint64_t len, struct mlx4_mtt *mtt) __must_check;
void mlx4_mtt_destroy(struct mlx4_dev *dev, struct mlx4_mtt *mtt);
uint32_t mlx4_key_from_index(uint32_t index);
/* The index with @variant above it, as far as there are bits for one. */
uint32_t mlx4_key_index(uint32_t index, uint8_t log_mpts, uint32_t variant);
uint32_t mlx4_index_from_key(uint32_t key); /* for tests */
void mlx4_mpt_fill(const struct mlx4_mpt_fields *f, struct mlx4_hw_mpt *hw);
struct rdma_mr *mlx4_mr_create(struct rdma_pd *pd, uint64_t iova,
			       const struct rdma_phys_range *ranges, size_t nr_ranges, uint64_t len,
			       uint32_t access);
void mlx4_mr_destroy(struct rdma_mr *mr);
/* After a reset: give every region to the device again, with the key that it has. */
int mlx4_mrs_restore(struct mlx4_dev *dev) __must_check;

/* --- buffers and doorbell records (buf.c) ------------------------------------------------ */

struct mlx4_buf {
	void *virt;
	uint64_t len;
	bool contig;
	struct mlx4_mtt mtt;
};

int mlx4_buf_alloc(struct mlx4_dev *dev, uint64_t len, struct mlx4_buf *buf) __must_check;
void mlx4_buf_free(struct mlx4_dev *dev, struct mlx4_buf *buf);
/* For the context of the queue that @buf holds. */
void mlx4_buf_fill(const struct mlx4_buf *buf, struct mlx4_hw_buf *hw);

struct mlx4_db_page {
	struct list_head node;
	void *virt;
	paddr_t paddr;
	uint64_t used; /* bit per record */
};

struct mlx4_db {
	struct mlx4_db_page *page;
	unsigned int index;
	be32_t *rec; /* two words */
	paddr_t paddr;
};

int mlx4_db_alloc(struct mlx4_dev *dev, struct mlx4_db *db) __must_check;
void mlx4_db_free(struct mlx4_dev *dev, struct mlx4_db *db);
void mlx4_db_destroy_all(struct mlx4_dev *dev);

/* --- event queues (eq.c) ----------------------------------------------------------------- */

#define COMP_EQ_ENTRIES  4096
#define ASYNC_EQ_ENTRIES 512
#define COMP_EQ_MAX_CQS  (COMP_EQ_ENTRIES / 2 - 64)

struct mlx4_eq {
	struct mlx4_dev *dev;
	uint32_t eqn;
	uint32_t nr; /* entries */
	uint32_t ci; /* the interrupt handler's */
	unsigned int vector;
	bool live;        /* the device has it */
	bool irq;         /* the interrupt is bound */
	bool icm;         /* its context memory is mapped */
	atomic_t running; /* the handler is at work */
	atomic_t nr_cqs;
	struct mlx4_buf buf;
	char name[24];
};

int mlx4_eqs_create(struct mlx4_dev *dev) __must_check;
void mlx4_eqs_destroy(struct mlx4_dev *dev);
/* Before a reset: no interrupt comes any more; after it: the same queues again. */
void mlx4_eqs_suspend(struct mlx4_dev *dev);
int mlx4_eqs_resume(struct mlx4_dev *dev) __must_check;
/* NOP whose completion must come as an interrupt. */
int mlx4_eqs_test(struct mlx4_dev *dev) __must_check;
/* Wait until no handler that started before is running. */
void mlx4_eq_sync(struct mlx4_eq *eq);

/* An asynchronous event, on its way from interrupt context to the device's thread. */
struct mlx4_async {
	uint8_t type;
	uint8_t subtype;
	uint8_t port;
	uint8_t syndrome;
	uint32_t num; /* QP or CQ */
	uint32_t data;
};

/* --- completion queues (cq.c) ------------------------------------------------------------ */

struct mlx4_cq {
	struct rdma_cq rdma;
	uint32_t cqn;
	uint32_t nr; /* entries, a power of two */
	struct mlx4_eq *eq;
	struct mlx4_buf buf;
	struct mlx4_db db;
	struct spinlock lock; /* RANK_RDMA_CQ, taken with interrupts off */
	uint32_t ci __guarded_by(&lock);
	struct list_head send_qps __guarded_by(&lock); /* mlx4_qp.send_node */
	struct list_head recv_qps __guarded_by(&lock); /* mlx4_qp.recv_node */
	uint32_t arm_sn; /* changed by the interrupt handler, read by arm */
	bool has_lost;   /* of its queue pairs, some were lost in a reset; lock, peeked at */
	atomic_t users;  /* event handlers at work */
};

struct rdma_cq *mlx4_cq_create(struct rdma_device *dev, uint32_t nr_cqe, uint32_t vector);
void mlx4_cq_destroy(struct rdma_cq *cq);
int mlx4_poll_cq(struct rdma_cq *cq, struct rdma_wc *wc, int max);
void mlx4_arm_cq(struct rdma_cq *cq, bool solicited_only);
/* Completion event; interrupt context. */
void mlx4_cq_event(struct mlx4_dev *dev, uint32_t cqn);
struct mlx4_cq *mlx4_cq_hold(struct mlx4_dev *dev, uint32_t cqn); /* until ->users is dropped */
struct mlx4_qp;
/* Enter @qp in its completion queues' lists; take it out, and its completions with it. */
void mlx4_cq_attach(struct mlx4_qp *qp);
void mlx4_cq_detach(struct mlx4_dev *dev, struct mlx4_qp *qp);
/* The device died, or is back: tell everybody who may be waiting for completions. */
void mlx4_cqs_wake(struct mlx4_dev *dev);
/* After a reset: every queue empty, and the device's again. */
int mlx4_cqs_restore(struct mlx4_dev *dev) __must_check;

/* --- queue pairs (qp.c) ------------------------------------------------------------------ */

#define MLX4_QPT_SMI 16 /* internal: QP0 of a port, beside enum rdma_qp_type */

struct mlx4_qp {
	struct rdma_qp rdma;
	uint32_t qpn;  /* the device's number */
	uint32_t born; /* dev->nr_lives when it was made; const */
	bool special;
	struct mlx4_cq *send_cq, *recv_cq;
	struct mlx4_wq sq, rq;
	uint64_t *wrid;
	struct mlx4_buf buf;
	struct mlx4_db db; /* receive queue */
	struct list_head send_node, recv_node;
	uint32_t gsi_psn; /* sq.lock */
	atomic_t users;   /* the event thread, while it tells of this queue pair */
};

struct rdma_qp *mlx4_qp_create(struct rdma_pd *pd, const struct rdma_qp_init *init);
void mlx4_qp_destroy(struct rdma_qp *qp);
int mlx4_qp_to_init(struct rdma_qp *qp, uint32_t access);
int mlx4_qp_to_rtr(struct rdma_qp *qp, const struct rdma_qp_conn *conn);
int mlx4_qp_to_rts(struct rdma_qp *qp, const struct rdma_qp_conn *conn);
int mlx4_qp_to_rts_ud(struct rdma_qp *qp);
int mlx4_qp_to_err(struct rdma_qp *qp);
int mlx4_post_send(struct rdma_qp *qp, const struct rdma_send_wr *wr,
		   const struct rdma_send_wr **bad);
void mlx4_ring_send(struct rdma_qp *qp);
int mlx4_post_recv(struct rdma_qp *qp, const struct rdma_recv_wr *wr,
		   const struct rdma_recv_wr **bad);
struct mlx4_qp *mlx4_qp_lookup(struct mlx4_dev *dev, uint32_t qpn);
/* The same, and it stays until ->users is dropped. */
struct mlx4_qp *mlx4_qp_hold(struct mlx4_dev *dev, uint32_t qpn);

/* --- BlueFlame (blueflame.c) ------------------------------------------------------------- */

struct mlx4_bf_reg;

/* Sets bf_max when it is there and wanted. */
void mlx4_bf_open(struct mlx4_dev *dev);
void mlx4_bf_close(struct mlx4_dev *dev);
/* Ring for the entry @wqe of @len bytes, at most bf_max; interrupts off. */
void mlx4_bf_send(struct mlx4_dev *dev, const void *wqe, uint32_t len);

/* --- ports (port.c, smi.c) --------------------------------------------------------------- */

#define MAX_PKEYS 32

struct mlx4_port {
	uint8_t num; /* 1-based */
	struct mlx4_port_caps caps;
	struct spinlock lock; /* RANK_SPIN_DRIVER */
	struct rdma_port_attr attr __guarded_by(&lock);
	uint8_t vl_of_sl[16] __guarded_by(&lock);
	uint16_t pkeys[MAX_PKEYS] __guarded_by(&lock);
	bool open;       /* INIT_PORT was done */
	bool gsi_in_use; /* table_lock */
	struct mlx4_smi *smi;
};

int mlx4_ports_open(struct mlx4_dev *dev) __must_check;
void mlx4_ports_close(struct mlx4_dev *dev);
/* Read PortInfo, GID 0, P_Keys and SL2VL again; dispatches what changed. */
void mlx4_port_refresh(struct mlx4_dev *dev, struct mlx4_port *port);
int mlx4_port_attr(struct rdma_device *dev, uint8_t port, struct rdma_port_attr *attr);
/* Pass a MAD to the device's own agents. @in and @out are 256 bytes. */
int mlx4_mad_ifc(struct mlx4_dev *dev, uint8_t port, const struct rdma_addr *from, uint32_t src_qpn,
		 const void *in, void *out) __must_check;
int mlx4_process_mad(struct rdma_device *dev, uint8_t port, const struct rdma_addr *from,
		     uint32_t src_qpn, const void *in, void *out);
int mlx4_smi_create(struct mlx4_dev *dev, struct mlx4_port *port) __must_check;
void mlx4_smi_destroy(struct mlx4_dev *dev, struct mlx4_port *port);
/* Serve what has come in on QP0; the device's thread. */
void mlx4_smi_poll(struct mlx4_dev *dev, struct mlx4_port *port);

/* --- the device (main.c, fatal.c) -------------------------------------------------------- */

#define ASYNC_RING    1024 /* a power of two */
#define TABLE_LEAF    512
#define MAX_COMP_EQS  64
#define MLX4_CAPS_LEN 256

/* Sparse array of objects by number; leaves are made on demand and live as long as the device. */
struct mlx4_table {
	void ***leaves;
	uint32_t nr;
};

int mlx4_table_init(struct mlx4_table *t, uint32_t nr) __must_check;
void mlx4_table_destroy(struct mlx4_table *t);
int mlx4_table_set(struct mlx4_table *t, uint32_t index, void *obj) __must_check;
void mlx4_table_clear(struct mlx4_table *t, uint32_t index);
void *mlx4_table_get(const struct mlx4_table *t, uint32_t index);

enum mlx4_state {
	MLX4_UP,
	MLX4_DEAD,       /* nothing may touch the device */
	MLX4_RECOVERING, /* only the recovering thread may */
};

struct mlx4_pd {
	struct rdma_pd rdma;
	uint32_t pdn;
};

struct mlx4_dev {
	struct rdma_device rdma;
	struct pci_device *pci;
	const char *name;
	const struct mlx4_reg_ops *regs;
	void __iomem *bar0;
	void __iomem *uars;   /* UAR pages 0 to our own */
	uint8_t __iomem *uar; /* our own */
	uint32_t uar_index;
	void __iomem *bf_page; /* our own page's, write-combining; or NULL */
	struct mlx4_bf_reg *bf_regs;
	uint32_t bf_max; /* bytes of the longest entry that goes by BlueFlame; 0 = none does */
	uint32_t hints;  /* MLX4_HINT_*: what a model says about itself; const */
	bool owner;
	bool registered;

	struct mlx4_fw fw;
	struct mlx4_caps caps;
	struct mlx4_profile prof;
	struct mlx4_cmd cmd;
	struct mlx4_mem fw_mem, aux_mem;
	bool fw_mapped, aux_mapped, hca_up, special_up;

	struct mutex icm_lock; /* RANK_RDMA_ICM */
	struct mlx4_icm icm[NR_REGIONS];
	bool icm_up;

	struct spinlock table_lock; /* RANK_SPIN_RDMA */
	struct mlx4_ids qpns __guarded_by(&table_lock);
	struct mlx4_ids cqns __guarded_by(&table_lock);
	struct mlx4_ids mpts __guarded_by(&table_lock);
	struct mlx4_ids pdns __guarded_by(&table_lock);
	struct mlx4_buddy mtts __guarded_by(&table_lock);
	struct list_head db_pages __guarded_by(&table_lock);
	struct mlx4_table qps, cqs; /* written under table_lock, read by anyone */
	uint32_t special_qpn;

	struct mlx4_eq async_eq;
	struct mlx4_eq *comp_eqs;
	unsigned int nr_comp_eqs;

	struct mlx4_port ports[MLX4_MAX_PORTS];

	/* Asynchronous events: the interrupt handler produces, the thread consumes. */
	struct mlx4_async ring[ASYNC_RING];
	uint32_t ring_head, ring_tail; /* atomic */
	struct waitqueue event_wq;
	struct thread *event_thread;
	atomic_t smi_work;
	atomic_t stop;
	atomic_t state; /* enum mlx4_state */
	bool dead_told; /* the event thread's */

	/* Recovery. */
	struct rwsem life;        /* RANK_RDMA_DEVICE */
	struct thread *recoverer; /* holds life and runs verbs of its own */
	uint32_t nr_lives;        /* resets so far; life */
	unsigned int nr_failures; /* in a row; the event thread's, as the next two */
	uint64_t up_since_ns;
	bool given_up;
	uint8_t caps_raw[MLX4_CAPS_LEN]; /* what it said of itself when it was probed */
	struct list_head mrs __guarded_by(&table_lock);
	struct timer catas_timer;
	void __iomem *err_buf;
};

static inline struct mlx4_dev *to_mlx4(const struct rdma_device *dev)
{
	return container_of(dev, struct mlx4_dev, rdma);
}

/* No user's request reaches the device. */
static inline bool mlx4_is_dead(const struct mlx4_dev *dev)
{
	return unlikely(atomic_read(&dev->state) != MLX4_UP);
}

/* Not even the driver's own. */
static inline bool mlx4_is_off(const struct mlx4_dev *dev)
{
	return unlikely(atomic_read(&dev->state) == MLX4_DEAD);
}

/* The device does not know this queue pair any more: it is to be flushed and destroyed. */
static inline bool mlx4_qp_is_lost(const struct mlx4_dev *dev, const struct mlx4_qp *qp)
{
	return mlx4_is_dead(dev) || unlikely(qp->born != READ_ONCE(dev->nr_lives));
}

/* The device broke its contract or failed: fence it off. Any context; returns at once. */
void mlx4_fatal(struct mlx4_dev *dev, const char *why);
/* An asynchronous event for the thread; interrupt context. */
void mlx4_async_push(struct mlx4_dev *dev, const struct mlx4_async *ev);
int mlx4_event_thread_start(struct mlx4_dev *dev) __must_check;
void mlx4_event_thread_stop(struct mlx4_dev *dev);
int mlx4_reset(struct mlx4_dev *dev) __must_check;
void mlx4_catas_watch(struct mlx4_dev *dev, bool on);
/*
 * The device is dead and everybody knows: reset it and bring it up again, with all objects but
 * queue pairs, which stay lost.  The device's thread.
 */
void mlx4_recover(struct mlx4_dev *dev);
/* Around each verb that needs commands: waits while the device recovers. */
void mlx4_enter(struct mlx4_dev *dev);
void mlx4_leave(struct mlx4_dev *dev);
/* After a reset: firmware, context memory, event queues, special queue pairs. */
int mlx4_hca_restore(struct mlx4_dev *dev) __must_check;

extern const struct rdma_device_ops mlx4_rdma_ops;
