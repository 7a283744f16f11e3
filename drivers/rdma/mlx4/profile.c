/* SPDX-License-Identifier: MIT */
/*
 * ConnectX-3: how many objects of each kind, and where their contexts lie in ICM.
 *
 * Invariants:	every region is a power of two of at least one page, and naturally aligned: packing
 *		them from the largest down needs no gaps.
 */
#include <lib/errno.h>
#include <lib/string.h>

#include "caps.h"
#include "hw.h"

#define LOG_RDMARC_PER_QP 4
#define LOG_MCG_LEN       9
#define LOG_MCGS          8

static uint64_t round_up_pow2(uint64_t v)
{
	return v <= 1 ? 1 : 1ULL << (64 - __builtin_clzll(v - 1));
}

static void region_set(struct mlx4_profile *p, enum mlx4_region_id id, uint32_t log_nr,
		       uint32_t obj_len)
{
	struct mlx4_region *r = &p->region[id];

	r->nr = 1U << log_nr;
	r->obj_len = obj_len;
	r->len = MAX(round_up_pow2((uint64_t)r->nr * obj_len), (uint64_t)MLX4_PAGE_LEN);
}

/* Give bases, largest region first. */
static void regions_place(struct mlx4_profile *p)
{
	bool done[NR_REGIONS] = { false };
	uint64_t at = 0;

	for (unsigned int n = 0; n < NR_REGIONS; n++) {
		unsigned int best = NR_REGIONS;

		for (unsigned int i = 0; i < NR_REGIONS; i++) {
			if (!done[i] &&
			    (best == NR_REGIONS || p->region[i].len > p->region[best].len))
				best = i;
		}
		done[best] = true;
		p->region[best].base = at;
		at += p->region[best].len;
	}
	p->icm_len = at;
}

int mlx4_profile_make(const struct mlx4_caps *caps, const struct mlx4_wish *wish,
		      struct mlx4_profile *prof)
{
	struct mlx4_profile p = { 0 };
	const uint64_t nr_uars = caps->uar_len / MLX4_PAGE_LEN;

	/* Above what the firmware reserves there must be room for our own. */
	p.log_qps =
		MIN(caps->log_max_qps, MAX(wish->log_qps, (uint8_t)(caps->log_reserved_qps + 2)));
	p.log_cqs =
		MIN(caps->log_max_cqs, MAX(wish->log_cqs, (uint8_t)(caps->log_reserved_cqs + 1)));
	p.log_eqs = MIN(caps->log_max_eqs, wish->log_eqs);
	p.log_srqs = caps->log_reserved_srqs;
	p.log_mpts = MIN(caps->log_max_mpts,
			 MAX(wish->log_mpts, (uint8_t)(caps->log_reserved_mrws + 1)));
	p.log_mtts = MAX(wish->log_mtts, (uint8_t)(caps->log_reserved_mtts + 1));
	p.log_rdmarc = (uint8_t)MIN((unsigned int)caps->log_max_rd_responder,
				    (unsigned int)LOG_RDMARC_PER_QP);
	p.log_mcgs =
		(uint8_t)MAX(MIN((unsigned int)caps->log_max_mcgs, (unsigned int)LOG_MCGS), 1U);
	p.log_mcg_len = LOG_MCG_LEN;
	p.log_uars = (uint8_t)(63 - __builtin_clzll(nr_uars));
	if (p.log_mtts > 28 || p.log_eqs <= caps->log_reserved_eqs)
		return -ENOSPC;

	region_set(&p, REGION_QPC, p.log_qps, caps->qpc_len);
	region_set(&p, REGION_AUXC, p.log_qps, caps->auxc_len);
	region_set(&p, REGION_ALTC, p.log_qps, caps->altc_len);
	region_set(&p, REGION_RDMARC, p.log_qps, (uint32_t)caps->rdmarc_len << p.log_rdmarc);
	region_set(&p, REGION_SRQC, p.log_srqs, caps->srqc_len);
	region_set(&p, REGION_CQC, p.log_cqs, caps->cqc_len);
	region_set(&p, REGION_EQC, p.log_eqs, caps->eqc_len);
	region_set(&p, REGION_CMPT, CMPT_TYPE_SH + 2, caps->cmpt_len);
	region_set(&p, REGION_MTT, p.log_mtts, caps->mtt_len);
	region_set(&p, REGION_DMPT, p.log_mpts, caps->dmpt_len);
	region_set(&p, REGION_MCG, p.log_mcgs, 1U << LOG_MCG_LEN);
	regions_place(&p);
	if (p.icm_len > caps->max_icm)
		return -ENOSPC;
	*prof = p;
	return 0;
}

/* A base address whose lowest bits carry a logarithm. */
static be64_t base_log(const struct mlx4_region *r, uint8_t log)
{
	return cpu_to_be64(r->base | log);
}

void mlx4_init_hca_fill(const struct mlx4_profile *p, void *mbox)
{
	const struct mlx4_region *r = p->region;
	struct mlx4_hw_init_hca *hw = mbox;

	hw->version = INIT_HCA_VERSION;
	hw->cache_line = INIT_HCA_LINE_64;
	hw->flags = cpu_to_be32(INIT_HCA_CHECK_PORT);
	hw->qpc_base = base_log(&r[REGION_QPC], p->log_qps);
	hw->srqc_base = base_log(&r[REGION_SRQC], p->log_srqs);
	hw->cqc_base = base_log(&r[REGION_CQC], p->log_cqs);
	hw->altc_base = base_log(&r[REGION_ALTC], 0);
	hw->auxc_base = base_log(&r[REGION_AUXC], 0);
	hw->eqc_base = base_log(&r[REGION_EQC], p->log_eqs);
	hw->rdmarc_base = base_log(&r[REGION_RDMARC], p->log_rdmarc);
	hw->mcg_base = base_log(&r[REGION_MCG], 0);
	hw->log_mcg_len = p->log_mcg_len;
	hw->log_mcg_hash_len = (uint8_t)(p->log_mcgs - 1);
	hw->log_mcgs = p->log_mcgs;
	hw->dmpt_base = base_log(&r[REGION_DMPT], 0);
	hw->log_mpts = p->log_mpts;
	hw->mtt_base = base_log(&r[REGION_MTT], 0);
	hw->cmpt_base = base_log(&r[REGION_CMPT], 0);
	hw->log_uars = p->log_uars;
	hw->log_uar_page = 0; /* doorbell pages of 4 KiB */
}
