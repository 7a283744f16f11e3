/* SPDX-License-Identifier: MIT */
/*
 * HCA model: the objects of the transport-independent core.
 *
 * A fabric is one InfiniBand subnet: a switch with a subnet manager, and any
 * number of HCAs with one port each.  An HCA belongs to one VM, whose memory
 * it reaches only through its own struct guest_mem.
 *
 * Flow:	a front end (mpqemu.c) turns the VM's accesses into bar_read(),
 *		bar_write() and pci_cfg_*(); the core answers interrupts by
 *		front_ops.  rc.c and ud.c carry messages between two HCAs.
 * Context:	one thread; nothing here blocks.  Work for one doorbell is
 *		bounded (RUN_BYTES, RUN_WQES); the rest waits in fabric.runq,
 *		which is served round robin.
 * Limits:	a guest's mistakes end as a command status, an error completion
 *		or a dropped packet: never as a failure of the model.
 */
#pragma once

#include "layout.h"
#include "mad.h"
#include "packet.h"
#include "regs.h"
#include "util.h"

struct bf_page;
struct hca;
struct qp;
struct fabric;

/* ---- time ---- */

struct alarm {
	uint64_t due_ns;
	size_t slot; /* place in the heap + 1; 0 = not set */
	void (*fn)(struct alarm *t);
};

struct alarm_heap {
	struct alarm **v;
	size_t len, cap;
};

/* ---- guest memory ---- */

#define MEM_REGIONS 32

struct mem_region {
	uint64_t gpa, len;
	uint8_t *host;
	uint64_t dev, ino, offset; /* of the backing file, so that a repeat is not mapped anew */
	void *map;
	size_t map_len;
};

struct guest_mem {
	struct mem_region r[MEM_REGIONS];
	unsigned nr, last;
};

/* ---- ICM: device-virtual memory that the driver lends, page by page ---- */

#define ICM_L2_BITS 9u
#define ICM_L1_SIZE (1u << (LOG_ICM_MAX - 12 - ICM_L2_BITS))

struct icm {
	uint64_t **l1;     /* ICM_L1_SIZE pointers to tables of guest page address | 1 */
	uint64_t nr_pages; /* mapped now */
};

/* ---- statistics: one name per counter, shown by the control socket ---- */

#define HCA_STATS(X)               \
	X(tx_packets)              \
	X(tx_bytes)                \
	X(rx_packets)              \
	X(rx_bytes)                \
	X(sends)                   \
	X(writes)                  \
	X(writes_imm)              \
	X(reads)                   \
	X(atomics)                 \
	X(datagrams)               \
	X(mads)                    \
	X(doorbells)               \
	X(blueflames)              \
	X(bad_blueflames)          \
	X(cq_arms)                 \
	X(waits)                   \
	X(mmio)                    \
	X(commands)                \
	X(command_errors)          \
	X(cqes)                    \
	X(cqe_errors)              \
	X(eqes)                    \
	X(interrupts)              \
	X(rnr_naks)                \
	X(retries)                 \
	X(ud_drops)                \
	X(qkey_violations)         \
	X(pkey_violations)         \
	X(access_errors)           \
	X(cq_overruns)             \
	X(eq_overruns)             \
	X(bad_doorbells)           \
	X(bad_accesses)            \
	X(injected_delays)         \
	X(injected_holds)          \
	X(injected_breaks)         \
	X(injected_link_downs)     \
	X(injected_command_faults) \
	X(injected_catastrophes)   \
	X(injected_throttles)      \
	X(injected_losses)         \
	X(injected_overruns)       \
	X(injected_duplicates)     \
	X(injected_errors)         \
	X(killed_drops)

struct hca_stats {
#define X(name) uint64_t name;
	HCA_STATS(X)
#undef X
};

/* ---- objects ---- */

/* A buffer that the driver described by MTT entries. */
struct mtt_buf {
	uint64_t mtt; /* byte offset from the MTT base */
	uint8_t page_shift;
};

struct eq {
	uint32_t eqn;
	struct mtt_buf buf;
	uint8_t log_size;
	uint8_t vector;
	bool armed;
	bool overrun; /* reported once */
	uint32_t producer, consumer;
	unsigned refs; /* CQs that report here */
	struct hw_eqc ctx;
};

struct cq {
	struct hca *h;
	uint32_t cqn;
	struct mtt_buf buf;
	uint8_t log_size;
	uint8_t eqn;
	bool failed;
	bool ignore_overrun;
	bool armed, armed_solicited;
	uint32_t producer;  /* 32-bit, free running */
	uint32_t notified;  /* producer at the last event */
	uint32_t solicited; /* producer after the last solicited completion */
	uint32_t armed_ci;
	uint64_t db_gpa;
	uint16_t period_us, max_count; /* moderation */
	struct alarm moderation;
	unsigned refs; /* QPs that complete here */
	struct hw_cqc ctx;
};

struct srq {
	uint32_t srqn;
	uint32_t pd;
	struct mtt_buf buf;
	uint8_t log_size, log_stride;
	bool failed;
	uint16_t next;  /* index of the next WQE to use */
	uint16_t taken; /* free-running count of WQEs used */
	uint16_t limit;
	uint64_t db_gpa;
	unsigned refs;
	struct hw_srqc ctx;
};

enum qp_wait {
	WAIT_NONE,
	WAIT_TIMER, /* retry, RNR or delay: timer is set */
	WAIT_HELD,  /* the path is held by fault injection */
};

struct path {
	uint16_t dlid;
	uint8_t sl;
	bool grh;
	uint8_t dgid[16];
	uint8_t pkey_index;
	uint8_t ack_timeout;
};

struct qp {
	struct hca *h;
	uint32_t qpn;
	enum qp_state state;
	enum qp_type type;
	uint32_t pd;
	uint8_t mtu; /* IB code, 1..5 */
	uint8_t log_max_msg;
	struct mtt_buf buf;
	/* send queue */
	uint32_t sq_off;
	uint8_t sq_log_size, sq_log_stride;
	uint16_t sq_head; /* next WQE to run, free running */
	uint32_t send_cqn;
	uint64_t progress; /* bytes of the head WQE already moved */
	uint32_t send_psn;
	/* receive queue */
	bool has_rq;
	uint32_t rq_off;
	uint8_t rq_log_size, rq_log_stride;
	uint16_t rq_head;
	uint32_t recv_cqn;
	uint64_t rq_db_gpa;
	struct srq *srq;
	uint32_t recv_psn;
	uint32_t recv_msn; /* messages taken, as an AETH tells */
	bool rx_held;      /* a receive WQE is taken for a message in progress */
	uint32_t rx_index;
	/* remote */
	uint32_t remote_qpn;
	struct path path;
	uint32_t qkey;
	bool rre, rwe, rae;
	uint8_t retry_cnt, rnr_retry, min_rnr;
	/* run time */
	uint8_t tries, rnr_tries;
	bool comm_est;  /* event was sent */
	bool sqd_event; /* event wanted when drained */
	bool last_wqe;  /* event was sent */
	bool special;   /* QP0 or QP1 */
	enum qp_wait wait;
	struct alarm timer;
	uint64_t hold_until_ns; /* UD: give up waiting for a receive WQE */
	unsigned flush_ms;      /* next look at the receive queue of a QP in error */
	struct list_head run;   /* fabric.runq */
	uint64_t *due;          /* delay injection: when each WQE may go; sq size entries */
	uint16_t due_tail;      /* next WQE without a stamp */
	uint64_t last_due_ns;
	struct hw_qpc ctx; /* as given by the driver; state and counters are put in on query */
};

enum port_state {
	PORT_DOWN = 1,
	PORT_INIT = 2,
	PORT_ARMED = 3,
	PORT_ACTIVE = 4,
};

/* Fault injection: memory-copy bandwidth of a port, as a token bucket. */
struct bucket {
	uint64_t bytes_per_s; /* 0 = no bound */
	uint64_t burst;       /* depth, bytes */
	int64_t level;        /* below 0: in debt */
	uint64_t filled_ns;   /* when level was right */
};

struct port {
	uint64_t guid;
	uint16_t lid;   /* the number that the subnet manager gives, from the command line */
	bool inited;    /* the driver said INIT_PORT */
	bool link_down; /* fault injection */
	bool killed;    /* fault injection: nothing comes in or goes out, and nobody is told */
	uint8_t loss;   /* fault injection: so many percent of what UD QPs send are lost */
	uint8_t twice_mad, twice_ud; /* fault injection: percent of its packets that arrive twice */
	uint8_t syndrome; /* fault injection: how the next `errors` messages of RC and UC end */
	uint32_t errors;
	uint32_t overruns; /* fault injection: so many completions find their queue full */
	enum port_state state;
	uint32_t cap_mask;
	uint8_t mtu_cap, vl_cap;
	uint16_t sm_lid;
	uint64_t extra_gids[NR_GIDS]; /* entry 0 unused: it is the port's own GUID */
	uint16_t pkeys[NR_PKEYS];
	char node_desc[64];
	uint64_t m_key;
	struct alarm sweep; /* the subnet manager looks at the port again */
	unsigned sweeps;
	struct bucket bucket;
};

enum hca_stage {
	STAGE_RESET, /* nothing but QUERY_FW and the firmware area */
	STAGE_FW,    /* firmware runs */
	STAGE_READY, /* INIT_HCA done */
};

struct front_ops {
	const char *name;
	/* Raise MSI-X vector @vector.  addr/data come from the table in BAR0, where
	 * the front end lets the core keep it. */
	void (*msi)(struct hca *h, unsigned vector, uint64_t addr, uint32_t data);
	/* Answer the read that hca_wait_begin() has held back. NULL: the front end cannot wait. */
	void (*answer)(struct hca *h, uint32_t val);
	bool keeps_msix;  /* the table and its masks are in the client's hands */
	bool one_at_once; /* it loses an access while another CPU is inside the device */
};

struct msix_entry {
	uint64_t addr;
	uint32_t data, ctrl;
};

struct hca {
	struct fabric *fabric;
	unsigned index;
	char name[32];
	const struct front_ops *front;
	void *front_priv;
	struct guest_mem mem;
	struct hca_stats stats;
	/* PCI */
	uint8_t cfg[256];
	bool gone;      /* its VM has left; only the counters remain */
	bool was_reset; /* a DEVICE_RESET came: upper BAR halves answer from now on */
	struct msix_entry msix[NR_MSIX];
	uint32_t msix_pending;
	/* registers */
	struct hw_hcr hcr;
	bool hcr_stuck; /* fault injection: a command that never ends; until the reset */
	bool dead;      /* catastrophic error; until the reset */
	bool owned;
	uint32_t errbuf[ERRBUF_DWORDS];
	uint32_t arm_hi; /* first half of a CQ doorbell that came as two stores */
	bool arm_half;
	struct {
		bool on;  /* a read waits */
		bool due; /* in fabric.woken */
		struct list_head link;
		uint64_t seen; /* completions and events at the end of the last one */
		struct alarm timer;
	} wait;
	/* command interface */
	enum hca_stage stage;
	uint64_t fa_pages, aux_pages;
	struct icm icm;
	struct hw_init_hca init_hca;
	uint64_t base_qpc, base_srqc, base_cqc, base_eqc, base_altc, base_auxc, base_rdmarc;
	uint64_t base_mcg, base_dmpt, base_mtt, base_cmpt;
	uint8_t log_qp, log_srq, log_cq, log_eq, log_mpt, log_rdmarc;
	uint8_t log_mcg_entry, log_mcg_hash, log_mcg;
	uint64_t nr_uars;
	struct bf_page *bf[NR_BF_PAGES];
	/* objects, by number */
	struct qp **qps;
	struct cq **cqs;
	struct srq **srqs;
	struct eq **eqs;
	struct hw_mcg **mcgs;
	uint32_t special_base; /* 0 = none */
	uint8_t event_eq[NR_EVENTS];
	bool event_mapped[NR_EVENTS];
	struct port port;
	/* log limit */
	uint64_t log_second;
	unsigned log_lines, log_lost;
};

/* ---- fabric ---- */

struct mc_group {
	struct list_head link;
	uint8_t mgid[16];
	uint16_t mlid;
	struct mc_rec rec; /* without the join state */
	struct list_head members;
};

/* Classes of traffic, as a mask. */
#define CLS_SEND   BIT(0)
#define CLS_WRITE  BIT(1)
#define CLS_READ   BIT(2)
#define CLS_ATOMIC BIT(3)
#define CLS_MAD    BIT(4) /* what QP0 and QP1 send */
#define CLS_UD     BIT(5) /* what other UD QPs send */
#define CLS_RC     (CLS_SEND | CLS_WRITE | CLS_READ | CLS_ATOMIC)
#define NR_CLASSES 6u

/* Which connections a rule is for. */
struct conn_match {
	uint16_t a, b; /* LIDs of the two ends; b = 0: all connections of a; a = 0: all there are */
	uint8_t sl;    /* service level, if @by_sl */
	bool by_sl;
	uint32_t qpn; /* the number that the QP at LID a has; 0: any */
};

struct inject {
	uint64_t delay_all_ns[NR_CLASSES];
	uint8_t delay_all;       /* classes that have one */
	struct list_head delays; /* struct delay_rule */
	struct list_head holds;  /* struct hold_rule */
	uint64_t random_every_ns;
	uint64_t seed;
	struct alarm random_timer;
	struct list_head cmd_faults;                                 /* struct cmd_fault */
	uint64_t delays_set, holds_set, breaks, link_changes, kills; /* totals */
};

struct fabric {
	uint64_t (*clock)(void); /* monotonic ns; tests have their own */
	uint64_t now_ns;         /* refreshed by fabric_run() and by the front ends */
	struct hca **hcas;
	unsigned nr_hcas;
	struct hca **by_lid; /* 0x10000 entries */
	struct alarm_heap timers;
	struct list_head runq;
	struct list_head woken;  /* hca.wait.link: reads to be answered */
	struct list_head groups; /* struct mc_group */
	struct inject inject;
	struct pcap *pcap; /* NULL: nothing is captured */
	bool blueflame;    /* boards offer it; const once the first driver runs */
	uint64_t sm_guid;
};

/* One turn of a QP: enough for good latency, little enough for the others. */
#define RUN_WQES  64
#define RUN_BYTES (512u * 1024)

/* fabric.c */
struct fabric *fabric_create(void);
void fabric_destroy(struct fabric *f);
struct hca *hca_create(struct fabric *f, const char *name, uint16_t lid, uint64_t guid);
void hca_destroy(struct hca *h);
void hca_reset(struct hca *h);
void fabric_run(struct fabric *f);
bool fabric_busy(const struct fabric *f);
uint64_t fabric_deadline(const struct fabric *f); /* UINT64_MAX = none */
void fabric_queue(struct qp *qp);
void alarm_set(struct fabric *f, struct alarm *t, uint64_t due_ns);
void alarm_cancel(struct fabric *f, struct alarm *t);
struct hca *fabric_route(struct hca *from, uint16_t dlid);

/* log.c */
void log_open(const char *path);
void hca_log(struct hca *h, const char *fmt, ...) __printf(2, 3);
void model_log(const char *fmt, ...) __printf(1, 2);

/* wait.c */
bool hca_wait_begin(struct hca *h, unsigned bar, uint64_t off, unsigned size);
void hca_wait_mark(struct hca *h);
void hca_wait_flush(struct fabric *f);
void hca_wait_drop(struct hca *h);

/* mem.c */
void *mem_ptr(struct hca *h, uint64_t gpa, uint64_t len);
void *mem_span(struct hca *h, uint64_t gpa, uint64_t *len);
bool mem_read(struct hca *h, uint64_t gpa, void *buf, size_t len);
bool mem_write(struct hca *h, uint64_t gpa, const void *buf, size_t len);
uint64_t mem_total(const struct guest_mem *m);

/* pci.c */
void pci_init(struct hca *h);
uint32_t pci_cfg_read(struct hca *h, uint32_t off, unsigned len);
void pci_cfg_write(struct hca *h, uint32_t off, uint32_t val, unsigned len);
void pci_device_reset(struct hca *h);
bool pci_is_master(const struct hca *h);
bool pci_bar_locate(struct hca *h, uint64_t addr, unsigned *bar, uint64_t *off);
void msix_raise(struct hca *h, unsigned vector);
uint64_t msix_read(struct hca *h, uint32_t off, unsigned size);
void msix_write(struct hca *h, uint32_t off, uint64_t val, unsigned size);

/* bar.c */
uint64_t bar_read(struct hca *h, unsigned bar, uint64_t off, unsigned size);
void bar_write(struct hca *h, unsigned bar, uint64_t off, uint64_t val, unsigned size);

/* blueflame.c */
void bf_write(struct hca *h, uint64_t off, uint64_t val, unsigned size);
void bf_free(struct hca *h);

/* cmd.c */
struct cmd {
	uint16_t op;
	uint8_t mod;
	uint32_t im;
	uint64_t in_param, out_param;
	const void *in; /* mailbox, 4 KiB, or NULL */
	void *out;      /* mailbox, 4 KiB zeroed, or NULL */
	uint64_t out_imm;
};
void cmd_run_hcr(struct hca *h);
#define MAILBOX 4096u

/* cmd_sys.c */
enum hca_status cmd_query_fw(struct hca *h, struct cmd *c);
enum hca_status cmd_map_fa(struct hca *h, struct cmd *c);
enum hca_status cmd_unmap_fa(struct hca *h, struct cmd *c);
enum hca_status cmd_run_fw(struct hca *h, struct cmd *c);
enum hca_status cmd_mod_stat_cfg(struct hca *h, struct cmd *c);
enum hca_status cmd_query_dev_cap(struct hca *h, struct cmd *c);
enum hca_status cmd_set_icm_size(struct hca *h, struct cmd *c);
enum hca_status cmd_map_icm_aux(struct hca *h, struct cmd *c);
enum hca_status cmd_unmap_icm_aux(struct hca *h, struct cmd *c);
enum hca_status cmd_map_icm(struct hca *h, struct cmd *c);
enum hca_status cmd_unmap_icm(struct hca *h, struct cmd *c);
enum hca_status cmd_init_hca(struct hca *h, struct cmd *c);
enum hca_status cmd_query_hca(struct hca *h, struct cmd *c);
enum hca_status cmd_close_hca(struct hca *h, struct cmd *c);
enum hca_status cmd_query_adapter(struct hca *h, struct cmd *c);
enum hca_status cmd_nop(struct hca *h, struct cmd *c);
enum hca_status cmd_diag(struct hca *h, struct cmd *c);
void hca_free_objects(struct hca *h);

/* icm.c */
bool icm_map(struct hca *h, uint64_t addr, uint64_t gpa, uint64_t nr_pages);
void icm_unmap(struct hca *h, uint64_t addr, uint64_t nr_pages);
void icm_free(struct hca *h);
void *icm_ptr(struct hca *h, uint64_t addr, uint64_t len);
bool icm_present(struct hca *h, uint64_t addr, uint64_t len);
void mtt_buf_parse(struct mtt_buf *b, const struct hw_buf *raw);
bool mtt_page(struct hca *h, const struct mtt_buf *b, uint64_t page, uint64_t *gpa);
void *mtt_ptr(struct hca *h, const struct mtt_buf *b, uint64_t off, uint64_t len);
enum hca_status cmd_read_mtt(struct hca *h, struct cmd *c);
enum hca_status cmd_write_mtt(struct hca *h, struct cmd *c);

/* mpt.c */
struct mr {
	uint64_t start, len;
	struct mtt_buf buf;
	bool physical;
};
enum mr_fault {
	MR_OK,
	MR_KEY,    /* no such key, wrong variant, not in hardware's hands */
	MR_PD,     /* other protection domain */
	MR_BOUNDS, /* outside the region */
	MR_ACCESS, /* right not granted */
};
enum mr_fault mr_get(struct hca *h, uint32_t key, uint32_t pd, uint32_t need, uint64_t va,
		     uint64_t len, struct mr *mr);
void *mr_span(struct hca *h, const struct mr *mr, uint64_t va, uint64_t *len);
enum hca_status cmd_sw2hw_mpt(struct hca *h, struct cmd *c);
enum hca_status cmd_hw2sw_mpt(struct hca *h, struct cmd *c);
enum hca_status cmd_query_mpt(struct hca *h, struct cmd *c);
enum hca_status cmd_sync_tpt(struct hca *h, struct cmd *c);

/* eq.c */
void eq_post(struct hca *h, uint32_t eqn, const struct hw_eqe *eqe);
void eq_event(struct hca *h, enum hca_event type, uint8_t subtype, const void *data, size_t len);
void eq_event_num(struct hca *h, enum hca_event type, uint32_t number);
void eq_doorbell(struct hca *h, uint32_t eqn, uint32_t val);
void eq_free(struct hca *h, uint32_t eqn);
enum hca_status cmd_sw2hw_eq(struct hca *h, struct cmd *c);
enum hca_status cmd_hw2sw_eq(struct hca *h, struct cmd *c);
enum hca_status cmd_query_eq(struct hca *h, struct cmd *c);
enum hca_status cmd_map_eq(struct hca *h, struct cmd *c);

/* cq.c */
struct completion {
	uint32_t qpn;
	uint32_t imm;
	uint32_t src_qpn; /* with bit 31 = GRH present */
	uint16_t slid;
	uint8_t sl;
	uint32_t len;
	uint16_t wqe;
	uint8_t opcode;
	bool send;
	bool solicited;
	uint8_t syndrome;
};
void cq_post(struct hca *h, uint32_t cqn, const struct completion *c);
void cq_doorbell(struct hca *h, uint32_t dw0, uint32_t dw1);
struct cq *cq_find(struct hca *h, uint32_t cqn);
void cq_free(struct hca *h, uint32_t cqn);
enum hca_status cmd_sw2hw_cq(struct hca *h, struct cmd *c);
enum hca_status cmd_hw2sw_cq(struct hca *h, struct cmd *c);
enum hca_status cmd_query_cq(struct hca *h, struct cmd *c);
enum hca_status cmd_modify_cq(struct hca *h, struct cmd *c);

/* srq.c */
struct srq *srq_find(struct hca *h, uint32_t srqn);
void srq_free(struct hca *h, uint32_t srqn);
bool srq_take(struct hca *h, struct srq *s, uint32_t *index);
enum hca_status cmd_sw2hw_srq(struct hca *h, struct cmd *c);
enum hca_status cmd_hw2sw_srq(struct hca *h, struct cmd *c);
enum hca_status cmd_query_srq(struct hca *h, struct cmd *c);
enum hca_status cmd_arm_srq(struct hca *h, struct cmd *c);

/* wqe.c */
#define MAX_SGE 128
struct sge {
	uint64_t addr;
	uint64_t len;
	uint32_t lkey;
	const uint8_t *inl; /* inline data, inside wqe.raw */
};
struct wqe {
	uint8_t opcode;
	bool signaled, solicited, fence;
	uint32_t imm;
	uint64_t raddr;
	uint32_t rkey;
	uint64_t swap_add, compare, swap_mask, compare_mask;
	uint64_t old; /* of an atomic that was executed */
	struct hw_av av;
	uint32_t dqpn, qkey;
	uint32_t mlx_flags;
	uint16_t mlx_rlid;
	unsigned nr_sge;
	uint64_t len; /* sum of the segments */
	struct sge sge[MAX_SGE];
	uint8_t raw[1024];
};
enum sq_entry {
	SQ_EMPTY,
	SQ_READY,
	SQ_FAULT, /* the buffer cannot be reached */
};
enum sq_entry wqe_state(struct qp *qp, uint16_t index);
uint8_t wqe_opcode(struct qp *qp, uint16_t index);
unsigned wqe_size(const void *raw);
bool wqe_is(struct qp *qp, uint16_t index, const uint8_t *raw, size_t len);
enum cqe_syndrome wqe_fetch(struct qp *qp, uint16_t index, struct wqe *w);
bool wqe_parse(enum qp_type type, const uint8_t *raw, size_t len, struct wqe *w);
bool wqe_parse_recv(const uint8_t *raw, size_t len, struct wqe *w);

/* stream.c: a list of segments as one run of bytes */
struct stream {
	struct hca *h;
	uint32_t pd;
	uint32_t need; /* MPT_* right */
	const struct sge *sge;
	unsigned nr, cur;
	uint64_t off;     /* into the current segment */
	uint64_t checked; /* bytes of the current segment that mr_get() allowed */
	struct mr mr;
	bool mr_valid;
};
void stream_init(struct stream *s, struct hca *h, uint32_t pd, uint32_t need, const struct sge *sge,
		 unsigned nr);
enum mr_fault stream_check(struct hca *h, uint32_t pd, uint32_t need, const struct sge *sge,
			   unsigned nr, uint64_t len);
void stream_skip(struct stream *s, uint64_t n);
bool stream_put(struct stream *s, const uint8_t *buf, uint64_t len);
bool stream_get(struct stream *s, uint8_t *buf, uint64_t len);
enum copy_fault {
	COPY_OK,
	COPY_SRC,
	COPY_DST,
};
enum copy_fault stream_copy(struct stream *dst, struct stream *src, uint64_t len);

/* qp.c */
struct qp *qp_find(struct hca *h, uint32_t qpn);
void qp_free(struct qp *qp);
void qp_doorbell(struct hca *h, uint32_t qpn);
void qp_run(struct qp *qp);
void qp_error(struct qp *qp);
void qp_event(struct qp *qp, enum hca_event type);
void qp_wait(struct qp *qp, uint64_t ns);
void qp_complete_send(struct qp *qp, const struct wqe *w, enum cqe_syndrome syn);
void qp_complete_recv(struct qp *qp, const struct completion *c);
void qp_send_done(struct qp *qp);
void qp_send_error(struct qp *qp, enum cqe_syndrome syn);
bool rq_take(struct qp *qp, uint32_t *index);
bool rq_fetch(struct qp *qp, uint32_t index, struct wqe *w);
unsigned qp_wire_number(const struct qp *qp);

/* qp_cmd.c */
enum hca_status cmd_qp_modify(struct hca *h, struct cmd *c);
enum hca_status cmd_qp_2err(struct hca *h, struct cmd *c);
enum hca_status cmd_qp_2rst(struct hca *h, struct cmd *c);
enum hca_status cmd_query_qp(struct hca *h, struct cmd *c);
enum hca_status cmd_conf_special_qp(struct hca *h, struct cmd *c);

/* rc.c */
enum run_result {
	RUN_NEXT,  /* the head WQE is done */
	RUN_MORE,  /* another turn is needed, for the head WQE or the next */
	RUN_WAIT,  /* the QP waits for a timer or an event */
	RUN_ERROR, /* the QP left RTS */
};
enum run_result rc_run_head(struct qp *qp, struct wqe *w, uint64_t *bytes);
struct qp *rc_peer(struct qp *qp);

/* ud.c */
struct packet {
	uint16_t slid, dlid;
	uint8_t sl;
	uint32_t src_qpn, dst_qpn;
	uint32_t qkey;
	uint16_t pkey;
	bool has_grh, solicited, has_imm;
	uint32_t imm;
	struct ib_grh grh;
	const uint8_t *data;
	uint32_t len;
};
enum run_result ud_run_head(struct qp *qp, struct wqe *w);

/* mcg.c */
enum hca_status cmd_read_mcg(struct hca *h, struct cmd *c);
enum hca_status cmd_write_mcg(struct hca *h, struct cmd *c);
enum hca_status cmd_mgid_hash(struct hca *h, struct cmd *c);
typedef void (*mcg_fn)(struct hca *h, uint32_t qpn, bool block_loopback, void *arg);
void mcg_for_each(struct hca *h, const uint8_t gid[16], mcg_fn fn, void *arg);

/* port.c */
void port_init(struct hca *h, uint16_t lid, uint64_t guid);
void port_update(struct hca *h);
uint16_t port_lid(const struct hca *h);
void port_gid(const struct hca *h, unsigned index, uint8_t gid[16]);
bool port_has_gid(const struct hca *h, const uint8_t gid[16]);
enum hca_status cmd_init_port(struct hca *h, struct cmd *c);
enum hca_status cmd_close_port(struct hca *h, struct cmd *c);
enum hca_status cmd_set_port(struct hca *h, struct cmd *c);
enum hca_status cmd_query_port(struct hca *h, struct cmd *c);
enum hca_status cmd_mad_ifc(struct hca *h, struct cmd *c);

/* mad.c, sma.c, sm.c, sa.c: 256-byte management datagrams */
bool sma_process(struct hca *h, const void *in, void *out); /* an HCA's agent */
bool sm_process(struct fabric *f, struct hca *from, const void *in, void *out);
bool smp_route(struct hca *from, const void *in, void *out); /* directed route */
bool pma_process(struct hca *h, const void *in, void *out);
bool sa_process(struct fabric *f, struct hca *from, const void *request, void *reply);
void sa_forget(struct fabric *f, struct hca *h);
void sa_free(struct fabric *f);
void mad_reply(const void *in, void *out, uint16_t status);

/* inject.c */
void inject_init(struct fabric *f);
void inject_free(struct fabric *f);
bool inject_stamping(const struct fabric *f);
void inject_stamp(struct qp *qp);
uint64_t inject_due(struct qp *qp, uint16_t index);
bool inject_held(struct qp *qp);
void inject_set_delay(struct fabric *f, const struct conn_match *m, uint64_t ns, unsigned classes);
void inject_delay_off(struct fabric *f);
void inject_hold(struct fabric *f, const struct conn_match *m);
unsigned inject_release(struct fabric *f);
unsigned inject_break(struct fabric *f, uint16_t a, uint16_t b);
void inject_random(struct fabric *f, uint64_t every_ns, uint64_t seed);
uint64_t inject_draw(struct inject *in);
bool inject_link(struct fabric *f, uint16_t lid, bool down);

/* fault.c */
#define FAULT_OP_ANY 0xffffu /* every opcode */
#define FAULT_HANG   0x100u  /* a "status": the command never ends */
#define BURST_MIN    4096u
bool fault_kill(struct fabric *f, uint16_t lid, bool dead);
bool fault_catastrophe(struct fabric *f, uint16_t lid, uint32_t code);
bool fault_event(struct fabric *f, uint16_t lid, uint8_t type, uint8_t subtype, uint32_t number);
bool fault_command(struct fabric *f, uint16_t lid, uint16_t op, unsigned status, uint64_t times,
		   uint64_t skip);
unsigned fault_command_next(struct hca *h, uint16_t op);
void fault_commands_off(struct fabric *f);
bool fault_bandwidth(struct fabric *f, uint16_t lid, uint64_t bytes_per_s, uint64_t burst);
bool fault_loss(struct fabric *f, uint16_t lid, uint8_t percent);
bool fault_is_lost(struct hca *h);
bool fault_error(struct fabric *f, uint16_t lid, uint8_t syndrome, uint32_t times);
uint8_t fault_error_next(struct hca *h);
bool fault_duplicate(struct fabric *f, uint16_t lid, uint8_t percent, unsigned classes);
bool fault_is_doubled(struct hca *h, unsigned cls);
bool fault_overrun(struct fabric *f, uint16_t lid, uint32_t times);
bool fault_overruns(struct hca *h);
uint64_t bucket_grant(struct hca *a, struct hca *b, uint64_t want, uint64_t *wait_ns);
void bucket_charge(struct hca *a, struct hca *b, uint64_t bytes);

/* pcap.c */
#define NAK_INV_REQ 0x61u
#define NAK_ACCESS  0x62u
#define NAK_REM_OP  0x63u
#define NAK_RNR     0x20u
bool pcap_open(struct fabric *f, const char *path, uint64_t max_bytes);
void pcap_close(struct fabric *f);
void pcap_message(struct qp *qp, struct qp *peer, const struct wqe *w, uint64_t packets);
void pcap_nak(struct qp *qp, struct qp *peer, uint8_t syndrome);
void pcap_datagram(struct fabric *fabric, const struct packet *p);
void pcap_counts(const struct fabric *f, uint64_t *packets, uint64_t *lost);

/* stats.c */
size_t stats_json(struct fabric *f, char *buf, size_t len);
