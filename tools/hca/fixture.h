/* SPDX-License-Identifier: MIT */
/*
 * HCA model, tests: two guests without a machine, and just enough driver to set
 * their boards up.
 *
 * Each guest has FIX_RAM bytes at guest address 0.  ICM is mapped from FIX_ICM;
 * MTT entry n names the page at FIX_BUF + n * 4096, so a buffer is named by its
 * first page.  Time stands still until fix_advance().
 *
 * The tests write and read the device's structures by raw offsets, not by layout.h:
 * what they expect then does not follow from the description that they test.
 */
#pragma once

#include "hca.h"

#define FIX_RAM       (16u << 20)
#define FIX_IN        0x1000u
#define FIX_OUT       0x2000u
#define FIX_DB        0x3000u /* doorbell records, 16 bytes each */
#define FIX_ICM       0x100000u
#define FIX_BUF       0x400000u
#define FIX_PD        7u
#define FIX_EQ        8u
#define FIX_CQN       128u
#define FIX_QPN       64u
#define FIX_VA        0x7f0000000000ull /* where test regions start */
#define FIX_UAR       8u
#define FIX_LEN       (64u * 4096) /* of the test region */
#define FIX_KEY_INDEX 0x30000021u  /* index 0x21, variant 0x30 */
#define FIX_KEY       (FIX_KEY_INDEX << 8 | FIX_KEY_INDEX >> 24)

/* First pages of the buffers */
#define PAGE_EQ    0
#define PAGE_CQ    16
#define PAGE_QP    64
#define PAGE_MR    256
#define PAGE_OTHER 512

/* Offsets in management datagrams */
#define MAD_METHOD     3
#define MAD_STATUS     4
#define MAD_ATTR       16
#define MAD_MOD        20
#define SMP_HOP_PTR    6
#define SMP_HOP_CNT    7
#define SMP_DATA       64
#define SMP_PATH       128
#define SMP_RETURN     192
#define PMA_DATA       64
#define SA_RMPP        24
#define SA_ATTR_OFFSET 44
#define SA_COMP_MASK   48
#define SA_DATA        56

struct fix_guest {
	struct hca *h;
	uint8_t *ram;
	unsigned msi[NR_MSIX];
	uint32_t eq_ci;
	uint32_t cq_ci;
	uint16_t sq_tail, rq_tail;
	uint32_t sq_off, rq_off;
	unsigned sq_log, cq_log;
};

/* For a rule: the connections between the LIDs @a and @b; 0: see struct conn_match. */
#define LIDS(x, y) (&(const struct conn_match){ .a = (x), .b = (y) })

struct fixture {
	struct fabric *f;
	struct fix_guest g[2];
};

void fix_create(struct fixture *r); /* two guests, nothing set up */
void fix_destroy(struct fixture *r);
void fix_init_hca(struct fix_guest *g); /* up to INIT_HCA, an EQ and an active port */
void fix_advance(struct fixture *r, uint64_t ns);
void fix_drain(struct fixture *r); /* run what is queued */

uint8_t *fix_in(struct fix_guest *g); /* the input mailbox, cleared */
const uint8_t *fix_out(struct fix_guest *g);
enum hca_status fix_cmd(struct fix_guest *g, uint16_t op, uint8_t mod, uint32_t im);
enum hca_status fix_cmd_imm(struct fix_guest *g, uint16_t op, uint8_t mod, uint32_t im, uint64_t in,
			    uint64_t *out);
uint8_t *fix_page(struct fix_guest *g, unsigned page);

enum hca_status fix_mr(struct fix_guest *g, uint32_t key_index, uint32_t flags, uint32_t pd);
enum hca_status fix_cq(struct fix_guest *g, uint32_t cqn, unsigned log_size, unsigned page);
uint8_t *fix_qp_ctx(struct fix_guest *g, enum qp_type type, uint32_t cqn); /* in the mailbox */
void fix_connect(struct fixture *r, unsigned sq_log, unsigned cq_log);     /* an RC pair, FIX_QPN */
void fix_connect_one(struct fix_guest *g, uint16_t dlid, unsigned sq_log);

/* Post to FIX_QPN; the doorbell is rung by fix_ring(). */
struct fix_wr {
	uint8_t opcode;
	bool unsignaled, solicited;
	uint32_t imm;
	uint64_t raddr;
	uint32_t rkey;
	uint64_t swap, compare;
	uint64_t laddr;
	uint32_t len, lkey;
};
void fix_post(struct fix_guest *g, const struct fix_wr *wr);
void fix_post_recv(struct fix_guest *g, uint64_t addr, uint32_t len, uint32_t lkey);
void fix_ring(struct fix_guest *g);
void fix_arm(struct fix_guest *g, unsigned cmd);
void fix_arm_eq(struct fix_guest *g);

/* The next entry, consumed; NULL = none. */
const uint8_t *fix_cqe(struct fix_guest *g);
const uint8_t *fix_eqe(struct fix_guest *g);
