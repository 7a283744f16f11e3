/* SPDX-License-Identifier: MIT */
/*
 * HCA model, tests: two guests without a machine, and just enough driver to set
 * their boards up.
 *
 * Each guest has RIG_RAM bytes at guest address 0.  ICM is mapped from RIG_ICM;
 * MTT entry n names the page at RIG_BUF + n * 4096, so a buffer is named by its
 * first page.  Time stands still until rig_advance().
 */
#pragma once

#include "hca.h"

#define RIG_RAM       (16u << 20)
#define RIG_IN        0x1000u
#define RIG_OUT       0x2000u
#define RIG_DB        0x3000u /* doorbell records, 16 bytes each */
#define RIG_ICM       0x100000u
#define RIG_BUF       0x400000u
#define RIG_PD        7u
#define RIG_EQ        8u
#define RIG_CQN       128u
#define RIG_QPN       64u
#define RIG_VA        0x7f0000000000ull /* where test regions start */
#define RIG_UAR       8u
#define RIG_LEN       (64u * 4096) /* of the test region */
#define RIG_KEY_INDEX 0x30000021u  /* index 0x21, variant 0x30 */
#define RIG_KEY       (RIG_KEY_INDEX << 8 | RIG_KEY_INDEX >> 24)

/* First pages of the buffers */
#define PAGE_EQ    0
#define PAGE_CQ    16
#define PAGE_QP    64
#define PAGE_MR    256
#define PAGE_OTHER 512

struct rig_guest {
	struct hca *h;
	uint8_t *ram;
	unsigned msi[NR_MSIX];
	uint32_t eq_ci;
	uint32_t cq_ci;
	uint16_t sq_tail, rq_tail;
	uint32_t sq_off, rq_off;
	unsigned sq_log, cq_log;
};

struct rig {
	struct fabric *f;
	struct rig_guest g[2];
};

void rig_create(struct rig *r); /* two guests, nothing set up */
void rig_destroy(struct rig *r);
void rig_init_hca(struct rig_guest *g); /* up to INIT_HCA, an EQ and an active port */
void rig_advance(struct rig *r, uint64_t ns);
void rig_settle(struct rig *r); /* run what is queued */

uint8_t *rig_in(struct rig_guest *g); /* the input mailbox, cleared */
const uint8_t *rig_out(struct rig_guest *g);
enum hca_status rig_cmd(struct rig_guest *g, uint16_t op, uint8_t mod, uint32_t im);
enum hca_status rig_cmd_imm(struct rig_guest *g, uint16_t op, uint8_t mod, uint32_t im, uint64_t in,
			    uint64_t *out);
uint8_t *rig_page(struct rig_guest *g, unsigned page);

enum hca_status rig_mr(struct rig_guest *g, uint32_t key_index, uint32_t flags, uint32_t pd);
enum hca_status rig_cq(struct rig_guest *g, uint32_t cqn, unsigned log_size, unsigned page);
uint8_t *rig_qp_ctx(struct rig_guest *g, enum qp_type type, uint32_t cqn); /* in the mailbox */
void rig_connect(struct rig *r, unsigned sq_log, unsigned cq_log);         /* an RC pair, RIG_QPN */
void rig_connect_one(struct rig_guest *g, uint16_t dlid, unsigned sq_log);

/* Post to RIG_QPN; the doorbell is rung by rig_ring(). */
struct rig_wr {
	uint8_t opcode;
	bool unsignaled, solicited;
	uint32_t imm;
	uint64_t raddr;
	uint32_t rkey;
	uint64_t swap, compare;
	uint64_t laddr;
	uint32_t len, lkey;
};
void rig_post(struct rig_guest *g, const struct rig_wr *wr);
void rig_post_recv(struct rig_guest *g, uint64_t addr, uint32_t len, uint32_t lkey);
void rig_ring(struct rig_guest *g);
void rig_arm(struct rig_guest *g, unsigned cmd);
void rig_arm_eq(struct rig_guest *g);

/* The next entry, consumed; NULL = none. */
const uint8_t *rig_cqe(struct rig_guest *g);
const uint8_t *rig_eqe(struct rig_guest *g);
