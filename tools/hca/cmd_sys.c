/* SPDX-License-Identifier: MIT */
/*
 * HCA model: commands about the device as a whole: firmware, capabilities,
 * borrowed memory, INIT_HCA.
 */
#include "hca.h"

#include <stdlib.h>

#define RECORD_SIZE 16u
#define MAX_RECORDS (MAILBOX / RECORD_SIZE)
#define ICM_SLACK   (64ull << 20) /* drivers map beyond what they announce (EQ contexts) */

#define CAP_RC              BIT(0)
#define CAP_UC              BIT(1)
#define CAP_UD              BIT(2)
#define CAP_SRQ             BIT(6)
#define CAP_PKEY_CNT        BIT(8)
#define CAP_QKEY_CNT        BIT(9)
#define CAP_ATOMIC          BIT(18)
#define CAP_UD_AV           BIT(20)
#define CAP_UD_MCAST        BIT(21)
#define CAP_HI_PORT_MNG_CHG BIT(59 - 32)

enum hca_status cmd_query_fw(struct hca *h, struct cmd *c)
{
	uint8_t *o = c->out;

	(void)h;
	put_be16(o + 0x00, FW_PAGES);
	put_be16(o + 0x02, 2);    /* major */
	put_be16(o + 0x04, 5000); /* subminor comes before minor */
	put_be16(o + 0x06, 42);
	put_be16(o + 0x0a, 3); /* command interface revision */
	o[0x0f] = 4;           /* log2 of outstanding commands */
	put_be64(o + 0x20, REG_CLR_INT);
	put_be64(o + 0x30, REG_ERRBUF);
	put_be32(o + 0x38, ERRBUF_DWORDS);
	put_be64(o + 0x50, REG_CLOCK);
	return ST_OK;
}

struct page_record {
	uint64_t virt, phys, pages;
};

/* Record @i of a MAP_* mailbox; false if it makes no sense. */
static bool page_record(struct hca *h, const struct cmd *c, uint32_t i, struct page_record *r)
{
	const uint8_t *p = c->in + i * RECORD_SIZE;
	const uint64_t word = get_be64(p + 8);
	const unsigned log_pages = word & 0x3f;

	r->virt = get_be64(p) & ~4095ull;
	r->phys = word & ~4095ull;
	if (log_pages > 20)
		return false;
	r->pages = BIT64(log_pages);
	return mem_ptr(h, r->phys, r->pages << 12) != NULL;
}

static enum hca_status count_pages(struct hca *h, const struct cmd *c, uint64_t *pages)
{
	struct page_record r;

	if (c->im == 0 || c->im > MAX_RECORDS)
		return ST_BAD_PARAM;
	for (uint32_t i = 0; i < c->im; i++) {
		if (!page_record(h, c, i, &r))
			return ST_BAD_PARAM;
		*pages += r.pages;
	}
	return ST_OK;
}

enum hca_status cmd_map_fa(struct hca *h, struct cmd *c)
{
	if (h->stage != STAGE_RESET)
		return ST_BAD_SYS_STATE;
	return count_pages(h, c, &h->fa_pages);
}

enum hca_status cmd_unmap_fa(struct hca *h, struct cmd *c)
{
	(void)c;
	if (h->stage == STAGE_READY)
		return ST_BAD_SYS_STATE;
	h->fa_pages = 0;
	h->stage = STAGE_RESET;
	icm_free(h);
	return ST_OK;
}

enum hca_status cmd_run_fw(struct hca *h, struct cmd *c)
{
	(void)c;
	if (h->stage != STAGE_RESET || h->fa_pages < FW_PAGES)
		return ST_BAD_SYS_STATE;
	h->stage = STAGE_FW;
	return ST_OK;
}

/* opmod 0 sets the page size (4 KiB is all there is); 2 reads the port's GUID. */
enum hca_status cmd_mod_stat_cfg(struct hca *h, struct cmd *c)
{
	if (c->mod == 0)
		return ST_OK;
	if (c->mod != 2 || bits(c->im, 15, 8) != 1)
		return ST_BAD_PARAM;
	put_be32(c->out + 0x14, (uint32_t)(h->port.guid >> 32));
	put_be32(c->out + 0x1c, (uint32_t)h->port.guid);
	return ST_OK;
}

/* Bytes of UAR pages at the start of BAR2. */
static unsigned log_uar(const struct hca *h)
{
	return h->fabric->blueflame ? LOG_BF_UAR : LOG_UAR;
}

static void dev_cap_limits(uint8_t *o)
{
	o[0x10] = LOG_MAX_WQES;
	o[0x11] = LOG_MAX_WQES;
	o[0x12] = LOG_RSVD_QP;
	o[0x13] = LOG_MAX_QP;
	o[0x14] = LOG_RSVD_SRQ << 4;
	o[0x15] = LOG_MAX_SRQ;
	o[0x19] = LOG_MAX_CQE;
	o[0x1a] = LOG_RSVD_CQ;
	o[0x1b] = LOG_MAX_CQ;
	o[0x1d] = LOG_MAX_MPT;
	o[0x1e] = LOG_RSVD_EQ;
	o[0x1f] = LOG_MAX_EQ;
	o[0x20] = 4 << 4; /* log2 of reserved MTTs */
	o[0x22] = 4;      /* log2 of reserved MPTs */
	o[0x29] = 7;      /* reads and atomics outstanding, as requester */
	o[0x2b] = 4;      /* and as responder */
	o[0x2f] = 22;
	o[0x35] = 12;         /* local CA ack delay */
	o[0x37] = 4 << 4 | 1; /* virtual lanes, ports */
	o[0x38] = LOG_MAX_MSG;
	o[0x48] = 1 << 4; /* reserved UARs */
	o[0x4b] = 12;
	o[0x51] = MAX_SQ_SG;
	put_be16(o + 0x52, MAX_SQ_DESC);
	o[0x55] = MAX_RQ_SG;
	put_be16(o + 0x56, MAX_RQ_DESC);
	o[0x61] = LOG_QP_PER_MCG;
	o[0x63] = LOG_MAX_MCG;
	o[0x64] = 2 << 4; /* reserved PDs */
	o[0x65] = LOG_MAX_PD;
}

enum hca_status cmd_query_dev_cap(struct hca *h, struct cmd *c)
{
	uint8_t *o = c->out;

	dev_cap_limits(o);
	o[0x49] = (uint8_t)(log_uar(h) - 20); /* log2 of MiB */
	if (h->fabric->blueflame) {
		o[0x4c] = 0x80;
		o[0x4d] = LOG_BF_REG;
		o[0x4e] = LOG_BF_REGS;
		o[0x4f] = LOG_BF_UAR - 12;
	}
	put_be32(o + 0x40, CAP_HI_PORT_MNG_CHG);
	put_be32(o + 0x44, CAP_RC | CAP_UC | CAP_UD | CAP_SRQ | CAP_PKEY_CNT | CAP_QKEY_CNT |
				   CAP_ATOMIC | CAP_UD_AV | CAP_UD_MCAST);
	put_be16(o + 0x80, SIZE_RDMARC);
	put_be16(o + 0x82, SIZE_QPC);
	put_be16(o + 0x84, SIZE_AUXC);
	put_be16(o + 0x86, SIZE_ALTC);
	put_be16(o + 0x88, SIZE_EQC);
	put_be16(o + 0x8a, SIZE_CQC);
	put_be16(o + 0x8c, SIZE_SRQC);
	put_be16(o + 0x8e, SIZE_CMPT);
	put_be16(o + 0x90, SIZE_MTT);
	put_be16(o + 0x92, SIZE_DMPT);
	put_be64(o + 0xa0, BIT64(LOG_ICM_MAX));
	return ST_OK;
}

enum hca_status cmd_set_icm_size(struct hca *h, struct cmd *c)
{
	(void)h;
	if (c->in_param == 0 || c->in_param > BIT64(LOG_ICM_MAX) - ICM_SLACK)
		return ST_EXCEED_LIM;
	c->out_imm = AUX_PAGES;
	return ST_OK;
}

enum hca_status cmd_map_icm_aux(struct hca *h, struct cmd *c)
{
	return count_pages(h, c, &h->aux_pages);
}

enum hca_status cmd_unmap_icm_aux(struct hca *h, struct cmd *c)
{
	(void)c;
	if (h->stage == STAGE_READY)
		return ST_BAD_SYS_STATE;
	h->aux_pages = 0;
	return ST_OK;
}

enum hca_status cmd_map_icm(struct hca *h, struct cmd *c)
{
	uint64_t total = 0;
	struct page_record r;
	enum hca_status st;

	if (h->aux_pages < AUX_PAGES)
		return ST_BAD_SYS_STATE;
	st = count_pages(h, c, &total);
	if (st)
		return st;
	for (uint32_t i = 0; i < c->im; i++) {
		if (!page_record(h, c, i, &r))
			return ST_BAD_PARAM;
		if (r.virt >> LOG_ICM_MAX || !icm_map(h, r.virt, r.phys, r.pages))
			return ST_EXCEED_LIM;
	}
	return ST_OK;
}

enum hca_status cmd_unmap_icm(struct hca *h, struct cmd *c)
{
	if (c->in_param & 4095 || c->in_param >> LOG_ICM_MAX || c->im > BIT(20))
		return ST_BAD_PARAM;
	icm_unmap(h, c->in_param, c->im);
	return ST_OK;
}

static uint64_t base_of(const uint8_t *p)
{
	return get_be64(p) & ~0x1full;
}

static bool alloc_objects(struct hca *h)
{
	h->qps = calloc(1ul << h->log_qp, sizeof(*h->qps));
	h->cqs = calloc(1ul << h->log_cq, sizeof(*h->cqs));
	h->srqs = calloc(1ul << h->log_srq, sizeof(*h->srqs));
	h->eqs = calloc(1ul << h->log_eq, sizeof(*h->eqs));
	h->mcgs = calloc(1ul << h->log_mcg, sizeof(*h->mcgs));
	return h->qps && h->cqs && h->srqs && h->eqs && h->mcgs;
}

static void free_array(void *array)
{
	void **p = array;

	free(*p);
	*p = NULL;
}

/* Destroy all queues; what they had in flight is dropped. */
void hca_free_objects(struct hca *h)
{
	for (uint32_t i = 0; h->qps && i < 1u << h->log_qp; i++) {
		if (h->qps[i])
			qp_free(h->qps[i]);
	}
	for (uint32_t i = 0; h->srqs && i < 1u << h->log_srq; i++) {
		if (h->srqs[i])
			srq_free(h, i);
	}
	for (uint32_t i = 0; h->cqs && i < 1u << h->log_cq; i++) {
		if (h->cqs[i])
			cq_free(h, i);
	}
	for (uint32_t i = 0; h->eqs && i < 1u << h->log_eq; i++) {
		if (h->eqs[i])
			eq_free(h, i);
	}
	for (uint32_t i = 0; h->mcgs && i < 1u << h->log_mcg; i++)
		free(h->mcgs[i]);
	free_array(&h->qps);
	free_array(&h->cqs);
	free_array(&h->srqs);
	free_array(&h->eqs);
	free_array(&h->mcgs);
	bf_free(h);
	h->special_base = 0;
	memset(h->event_mapped, 0, sizeof(h->event_mapped));
}

static bool parse_sizes(struct hca *h, const uint8_t *x)
{
	h->log_qp = x[0x37] & 31;
	h->log_srq = x[0x4f] & 31;
	h->log_cq = x[0x57] & 31;
	h->log_eq = x[0x87] & 31;
	h->log_rdmarc = x[0x97] & 7;
	h->log_mcg_entry = x[0xd3] & 31;
	h->log_mcg_hash = x[0xd7] & 31;
	h->log_mcg = x[0xdb] & 31;
	h->log_mpt = x[0xfb] & 63;
	return h->log_qp <= LOG_MAX_QP && h->log_srq <= LOG_MAX_SRQ && h->log_cq <= LOG_MAX_CQ &&
	       h->log_eq <= LOG_MAX_EQ && h->log_mpt <= LOG_MAX_MPT && h->log_mcg <= LOG_MAX_MCG &&
	       h->log_mcg_hash <= h->log_mcg && h->log_mcg_entry >= 6 &&
	       BIT64(h->log_mcg_entry) <= sizeof(struct mcg);
}

static void parse_bases(struct hca *h, const uint8_t *x)
{
	h->base_qpc = base_of(x + 0x30);
	h->base_srqc = base_of(x + 0x48);
	h->base_cqc = base_of(x + 0x50);
	h->base_altc = base_of(x + 0x60);
	h->base_auxc = base_of(x + 0x70);
	h->base_eqc = base_of(x + 0x80);
	h->base_rdmarc = base_of(x + 0x90);
	h->base_mcg = base_of(x + 0xc0);
	h->base_dmpt = base_of(x + 0xf0);
	h->base_mtt = base_of(x + 0x100);
	h->base_cmpt = base_of(x + 0x108);
}

enum hca_status cmd_init_hca(struct hca *h, struct cmd *c)
{
	const uint8_t *x = c->in;

	if (h->stage != STAGE_FW)
		return ST_BAD_SYS_STATE;
	if (x[0] != 2 || !parse_sizes(h, x))
		return ST_BAD_PARAM;
	if (12 + (unsigned)x[0x12b] + (unsigned)x[0x12a] > log_uar(h))
		return ST_BAD_PARAM; /* more UARs than BAR2 has room for */
	parse_bases(h, x);
	h->nr_uars = BIT64(x[0x12a]);
	memcpy(h->init_hca, x, sizeof(h->init_hca));
	if (!alloc_objects(h)) {
		hca_free_objects(h);
		return ST_INTERNAL_ERR;
	}
	h->stage = STAGE_READY;
	return ST_OK;
}

enum hca_status cmd_query_hca(struct hca *h, struct cmd *c)
{
	memcpy(c->out, h->init_hca, sizeof(h->init_hca));
	put_be16(c->out + 0x0c, 427); /* core clock, MHz */
	return ST_OK;
}

enum hca_status cmd_close_hca(struct hca *h, struct cmd *c)
{
	(void)c;
	h->port.inited = false;
	hca_free_objects(h);
	h->stage = STAGE_FW;
	port_update(h);
	return ST_OK;
}

enum hca_status cmd_query_adapter(struct hca *h, struct cmd *c)
{
	static const char board[17] = "TESSERA_MODEL_01";

	(void)h;
	/* The vendor area is text with each dword's bytes swapped. */
	for (unsigned i = 0; i < 16; i++)
		c->out[0x20 + 0xd0 + (i ^ 3)] = (uint8_t)board[i];
	return ST_OK;
}

enum hca_status cmd_nop(struct hca *h, struct cmd *c)
{
	(void)h;
	(void)c;
	return ST_OK;
}

/* Diagnostic counters: none are kept, zeroes are what a fresh board shows. */
enum hca_status cmd_diag(struct hca *h, struct cmd *c)
{
	(void)h;
	(void)c;
	return ST_OK;
}
