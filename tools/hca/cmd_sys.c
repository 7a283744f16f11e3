/* SPDX-License-Identifier: MIT */
/*
 * HCA model: commands about the device as a whole: firmware, capabilities,
 * borrowed memory, INIT_HCA.
 */
#include "hca.h"

#include <stdlib.h>

#define MAX_RECORDS (MAILBOX / sizeof(struct hw_page_record))
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
	struct hw_query_fw *o = c->out;

	(void)h;
	o->nr_pages = cpu_to_be16(FW_PAGES);
	o->major = cpu_to_be16(2);
	o->minor = cpu_to_be16(42);
	o->subminor = cpu_to_be16(5000);
	o->cmd_revision = cpu_to_be16(3);
	o->log_max_cmd = 4;
	o->clr_int = cpu_to_be64(REG_CLR_INT);
	o->err_buf = cpu_to_be64(REG_ERRBUF);
	o->err_dwords = cpu_to_be32(ERRBUF_DWORDS);
	o->clock = cpu_to_be64(REG_CLOCK);
	return ST_OK;
}

struct page_record {
	uint64_t virt, phys, pages;
};

/* Record @i of a MAP_* mailbox; false if it makes no sense. */
static bool page_record(struct hca *h, const struct cmd *c, uint32_t i, struct page_record *r)
{
	const struct hw_page_record *raw = (const struct hw_page_record *)c->in + i;
	const uint64_t word = be64_to_cpu(raw->phys_log);
	const unsigned log_pages = word & 0x3f;

	r->virt = be64_to_cpu(raw->virt) & ~4095ull;
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
	struct hw_mod_stat_cfg *o = c->out;

	if (c->mod == 0)
		return ST_OK;
	if (c->mod != 2 || bits(c->im, 15, 8) != 1)
		return ST_BAD_PARAM;
	o->guid_hi = cpu_to_be32((uint32_t)(h->port.guid >> 32));
	o->guid_lo = cpu_to_be32((uint32_t)h->port.guid);
	return ST_OK;
}

/* Bytes of UAR pages at the start of BAR2. */
static unsigned log_uar(const struct hca *h)
{
	return h->fabric->blueflame ? LOG_BF_UAR : LOG_UAR;
}

static void dev_cap_limits(struct hw_dev_cap *o)
{
	o->log_max_srq_wqes = LOG_MAX_WQES;
	o->log_max_wqes = LOG_MAX_WQES;
	o->log_rsvd_qp = LOG_RSVD_QP;
	o->log_max_qp = LOG_MAX_QP;
	o->log_rsvd_srq = LOG_RSVD_SRQ << 4;
	o->log_max_srq = LOG_MAX_SRQ;
	o->log_max_cqe = LOG_MAX_CQE;
	o->log_rsvd_cq = LOG_RSVD_CQ;
	o->log_max_cq = LOG_MAX_CQ;
	o->log_max_mpt = LOG_MAX_MPT;
	o->log_rsvd_eq = LOG_RSVD_EQ;
	o->log_max_eq = LOG_MAX_EQ;
	o->log_rsvd_mtt = 4 << 4;
	o->log_rsvd_mpt = 4;
	o->log_max_reads_req = 7;
	o->log_max_reads_res = 4;
	o->log_max_rdma = 22;
	o->ack_delay = 12;
	o->vl_ports = 4 << 4 | 1;
	o->log_max_msg = LOG_MAX_MSG;
	o->rsvd_uar = 1 << 4;
	o->log_min_page = 12;
	o->max_sq_sg = MAX_SQ_SG;
	o->max_sq_desc = cpu_to_be16(MAX_SQ_DESC);
	o->max_rq_sg = MAX_RQ_SG;
	o->max_rq_desc = cpu_to_be16(MAX_RQ_DESC);
	o->log_qp_per_mcg = LOG_QP_PER_MCG;
	o->log_max_mcg = LOG_MAX_MCG;
	o->rsvd_pd = 2 << 4;
	o->log_max_pd = LOG_MAX_PD;
}

static void dev_cap_sizes(struct hw_dev_cap *o)
{
	o->size_rdmarc = cpu_to_be16(SIZE_RDMARC);
	o->size_qpc = cpu_to_be16(SIZE_QPC);
	o->size_auxc = cpu_to_be16(SIZE_AUXC);
	o->size_altc = cpu_to_be16(SIZE_ALTC);
	o->size_eqc = cpu_to_be16(SIZE_EQC);
	o->size_cqc = cpu_to_be16(SIZE_CQC);
	o->size_srqc = cpu_to_be16(SIZE_SRQC);
	o->size_cmpt = cpu_to_be16(SIZE_CMPT);
	o->size_mtt = cpu_to_be16(SIZE_MTT);
	o->size_dmpt = cpu_to_be16(SIZE_DMPT);
	o->max_icm = cpu_to_be64(BIT64(LOG_ICM_MAX));
}

enum hca_status cmd_query_dev_cap(struct hca *h, struct cmd *c)
{
	struct hw_dev_cap *o = c->out;

	dev_cap_limits(o);
	dev_cap_sizes(o);
	o->log_uar_mib = (uint8_t)(log_uar(h) - 20);
	if (h->fabric->blueflame) {
		o->bf = 0x80;
		o->log_bf_reg = LOG_BF_REG;
		o->log_bf_regs = LOG_BF_REGS;
		o->log_bf_pages = LOG_BF_UAR - 12;
	}
	o->flags_hi = cpu_to_be32(CAP_HI_PORT_MNG_CHG);
	o->flags_lo = cpu_to_be32(CAP_RC | CAP_UC | CAP_UD | CAP_SRQ | CAP_PKEY_CNT | CAP_QKEY_CNT |
				  CAP_ATOMIC | CAP_UD_AV | CAP_UD_MCAST);
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

static uint64_t base_of(hw_table table)
{
	return be64_to_cpu(table) & ~0x1full;
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

static uint8_t log_of(hw_table table)
{
	return be64_to_cpu(table) & 31;
}

static bool parse_sizes(struct hca *h, const struct hw_init_hca *x)
{
	h->log_qp = log_of(x->qpc);
	h->log_srq = log_of(x->srqc);
	h->log_cq = log_of(x->cqc);
	h->log_eq = log_of(x->eqc);
	h->log_rdmarc = log_of(x->rdmarc) & 7;
	h->log_mcg_entry = x->log_mcg_entry & 31;
	h->log_mcg_hash = x->log_mcg_hash & 31;
	h->log_mcg = x->log_mcg & 31;
	h->log_mpt = x->log_mpt & 63;
	return h->log_qp <= LOG_MAX_QP && h->log_srq <= LOG_MAX_SRQ && h->log_cq <= LOG_MAX_CQ &&
	       h->log_eq <= LOG_MAX_EQ && h->log_mpt <= LOG_MAX_MPT && h->log_mcg <= LOG_MAX_MCG &&
	       h->log_mcg_hash <= h->log_mcg && h->log_mcg_entry >= 6 &&
	       BIT64(h->log_mcg_entry) <= sizeof(struct hw_mcg);
}

static void parse_bases(struct hca *h, const struct hw_init_hca *x)
{
	h->base_qpc = base_of(x->qpc);
	h->base_srqc = base_of(x->srqc);
	h->base_cqc = base_of(x->cqc);
	h->base_altc = base_of(x->altc);
	h->base_auxc = base_of(x->auxc);
	h->base_eqc = base_of(x->eqc);
	h->base_rdmarc = base_of(x->rdmarc);
	h->base_mcg = base_of(x->mcg);
	h->base_dmpt = base_of(x->dmpt);
	h->base_mtt = base_of(x->mtt);
	h->base_cmpt = base_of(x->cmpt);
}

enum hca_status cmd_init_hca(struct hca *h, struct cmd *c)
{
	const struct hw_init_hca *x = c->in;

	if (h->stage != STAGE_FW)
		return ST_BAD_SYS_STATE;
	if (x->version != 2 || !parse_sizes(h, x))
		return ST_BAD_PARAM;
	if (12u + x->log_uar_page + x->log_uars > log_uar(h))
		return ST_BAD_PARAM; /* more UARs than BAR2 has room for */
	parse_bases(h, x);
	h->nr_uars = BIT64(x->log_uars);
	h->init_hca = *x;
	if (!alloc_objects(h)) {
		hca_free_objects(h);
		return ST_INTERNAL_ERR;
	}
	h->stage = STAGE_READY;
	return ST_OK;
}

enum hca_status cmd_query_hca(struct hca *h, struct cmd *c)
{
	struct hw_init_hca *o = c->out;

	*o = h->init_hca;
	o->clock_mhz = cpu_to_be16(427);
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

	struct hw_adapter *o = c->out;

	(void)h;
	for (unsigned i = 0; i < sizeof(o->board); i++)
		o->board[i ^ 3] = (uint8_t)board[i];
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
