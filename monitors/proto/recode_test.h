/* SPDX-License-Identifier: MIT */
/*
 * For tests and fuzzers: every message of memory monitors as a function that decodes it and
 * encodes it again. A message that decodes must give the same bytes back.
 */
#pragma once

#include <proto/mm.h>
#include <proto/mp.h>
#include <proto/ms.h>
#include <proto/pg.h>
#include <proto/pm.h>
#include <proto/pp.h>

#include "recode_kit_test.h"

static inline void destroy_encode(const uint64_t *aspace, struct pm_destroy_req_wire *w)
{
	pm_destroy_req_encode(*aspace, w);
}

RECODE_VARIABLE(pm_exec_req)
RECODE_VARIABLE(pm_exec_rep)
RECODE_FIXED(pm_mmap_req)
RECODE_FIXED(pm_range_req)
RECODE_FIXED(pm_mremap_req)
RECODE_FIXED(pm_brk_req)
RECODE_VARIABLE(pm_range_rep)
RECODE_FIXED(pm_vregions_req)
RECODE_FIXED(pm_fork_req)
RECODE_VARIABLE(pm_discard_req)
RECODE_VARIABLE(pm_collapse_req)
RECODE_FIXED(pm_space_req)
RECODE_VARIABLE(pm_lease_req)
RECODE_FIXED(pm_fetch_req)
RECODE_FIXED(pm_fetch_rep)
RECODE_VARIABLE(pm_fetch_ahead_req)
RECODE_FIXED(pm_fetch_ahead_rep)
RECODE_FIXED(pm_fill_vma_req)
RECODE_VARIABLE(pm_writeback_req)
RECODE_VARIABLE(pm_writeback_rep)
RECODE_FIXED(pm_credit_req)
RECODE_FIXED(pm_credit_rep)
RECODE_FIXED(pm_meminfo_rep)
RECODE_FIXED(pm_commit)
RECODE_FIXED(mp_oom_req)
RECODE_FIXED(mp_oom_rep)
RECODE_FIXED(mp_revoke_req)
RECODE_FIXED(pp_connect_req)
RECODE_FIXED(pp_connect_rep)
RECODE_FIXED(pp_data_req)
RECODE_FIXED(pp_data_rep)
RECODE_FIXED(pp_window)
RECODE_FIXED(pp_reset)
RECODE_FIXED(pp_opened)
RECODE_FIXED(pp_options)
RECODE_FIXED(pp_unix_connect_req)
RECODE_FIXED(pp_unix_connect_rep)
RECODE_FIXED(pp_unix_datagram_req)
RECODE_FIXED(pp_unix_room)
RECODE_FIXED(pp_record)
RECODE_FIXED(pp_port)
RECODE_FIXED(pp_unport)
RECODE_FIXED(pp_datagram_req)
RECODE_FIXED(pg_name)
RECODE_FIXED(pg_release_req)
RECODE_FIXED(pg_find_req)
RECODE_FIXED(pg_find_rep)
RECODE_FIXED(pg_lease_req)
RECODE_FIXED(pg_lease_rep)
RECODE_VARIABLE(pg_report_req)
RECODE_VARIABLE(pp_gateway_req)
RECODE_FIXED(mm_expect_req)
RECODE_FIXED(mm_relieve_req)
RECODE_VARIABLE(pm_file_fetch_req)
RECODE_FIXED(pm_file_fetch_rep)
RECODE_VARIABLE(mm_map_req)
RECODE_FIXED(mm_range_rep)
RECODE_FIXED(mm_range_req)
RECODE_VARIABLE(mm_move_req)
RECODE_VARIABLE(mm_pages_req)
RECODE_FIXED(mm_vregion_move_req)
RECODE_VARIABLE(mm_vregion_take_req)
RECODE_FIXED(mm_fork_req)
RECODE_VARIABLE(mm_load_req)
RECODE_FIXED(mm_file_read_req)
RECODE_VARIABLE(ms_read_req)
RECODE_FIXED(ms_read_rep)
RECODE_FIXED(pm_file_open_req)
RECODE_FIXED(pm_file_state)
RECODE_VARIABLE(pm_file_write_req)
RECODE_FIXED(pm_file_change_req)
RECODE_FIXED(ms_claim_req)
RECODE_FIXED(ms_file_state)
RECODE_FIXED(ms_write_req)
RECODE_FIXED(ms_change_req)
RECODE_FIXED(ms_release_req)
RECODE_FIXED(ms_reserve_req)
RECODE_FIXED(ms_reserve_rep)
RECODE_FIXED(ms_declare_req)
RECODE_FIXED_AS(pm_redirect, struct pm_vregion, pm_redirect_decode, pm_redirect_encode,
		struct pm_redirect_wire)
RECODE_FIXED_AS(pm_destroy_req, uint64_t, pm_destroy_req_decode, destroy_encode,
		struct pm_destroy_req_wire)
RECODE_FIXED_AS(pm_fill_vma_rep, struct pm_vma, pm_fill_vma_rep_decode, pm_vma_encode,
		struct pm_vma_wire)
RECODE_FIXED_AS(proto_attr, struct proto_attr, proto_attr_decode, proto_attr_encode,
		struct proto_attr_wire)

static const struct {
	const char *name;
	recode_fn fn;
} recoders[] = {
	{ "pm_exec_req", recode_pm_exec_req },
	{ "pm_exec_rep", recode_pm_exec_rep },
	{ "pm_mmap_req", recode_pm_mmap_req },
	{ "pm_range_req", recode_pm_range_req },
	{ "pm_mremap_req", recode_pm_mremap_req },
	{ "pm_brk_req", recode_pm_brk_req },
	{ "pm_range_rep", recode_pm_range_rep },
	{ "pm_vregions_req", recode_pm_vregions_req },
	{ "pm_fetch_req", recode_pm_fetch_req },
	{ "pm_fetch_rep", recode_pm_fetch_rep },
	{ "pm_fetch_ahead_req", recode_pm_fetch_ahead_req },
	{ "pm_fetch_ahead_rep", recode_pm_fetch_ahead_rep },
	{ "pm_fill_vma_req", recode_pm_fill_vma_req },
	{ "pm_writeback_req", recode_pm_writeback_req },
	{ "pm_writeback_rep", recode_pm_writeback_rep },
	{ "pm_credit_req", recode_pm_credit_req },
	{ "pm_file_fetch_req", recode_pm_file_fetch_req },
	{ "pm_file_fetch_rep", recode_pm_file_fetch_rep },
	{ "mm_map_req", recode_mm_map_req },
	{ "mm_range_rep", recode_mm_range_rep },
	{ "mm_range_req", recode_mm_range_req },
	{ "mm_move_req", recode_mm_move_req },
	{ "mm_pages_req", recode_mm_pages_req },
	{ "mm_vregion_move_req", recode_mm_vregion_move_req },
	{ "mm_vregion_take_req", recode_mm_vregion_take_req },
	{ "mm_file_read_req", recode_mm_file_read_req },
	{ "ms_read_req", recode_ms_read_req },
	{ "ms_read_rep", recode_ms_read_rep },
	{ "pm_redirect", recode_pm_redirect },
	{ "pm_destroy_req", recode_pm_destroy_req },
	{ "pm_fill_vma_rep", recode_pm_fill_vma_rep },
	{ "pm_credit_rep", recode_pm_credit_rep },
	{ "proto_attr", recode_proto_attr },
	{ "pm_fork_req", recode_pm_fork_req },
	{ "pm_discard_req", recode_pm_discard_req },
	{ "pm_collapse_req", recode_pm_collapse_req },
	{ "pm_space_req", recode_pm_space_req },
	{ "mm_fork_req", recode_mm_fork_req },
	{ "pm_meminfo_rep", recode_pm_meminfo_rep },
	{ "mm_load_req", recode_mm_load_req },
	{ "pm_commit", recode_pm_commit },
	{ "mp_oom_req", recode_mp_oom_req },
	{ "mp_oom_rep", recode_mp_oom_rep },
	{ "mp_revoke_req", recode_mp_revoke_req },
	{ "mm_relieve_req", recode_mm_relieve_req },
	{ "mm_expect_req", recode_mm_expect_req },
	{ "pm_lease_req", recode_pm_lease_req },
	{ "pm_file_open_req", recode_pm_file_open_req },
	{ "pm_file_state", recode_pm_file_state },
	{ "pm_file_write_req", recode_pm_file_write_req },
	{ "pm_file_change_req", recode_pm_file_change_req },
	{ "ms_claim_req", recode_ms_claim_req },
	{ "ms_file_state", recode_ms_file_state },
	{ "ms_write_req", recode_ms_write_req },
	{ "ms_change_req", recode_ms_change_req },
	{ "ms_release_req", recode_ms_release_req },
	{ "ms_reserve_req", recode_ms_reserve_req },
	{ "ms_reserve_rep", recode_ms_reserve_rep },
	{ "ms_declare_req", recode_ms_declare_req },
	{ "pg_name", recode_pg_name },
	{ "pg_release_req", recode_pg_release_req },
	{ "pg_find_req", recode_pg_find_req },
	{ "pg_find_rep", recode_pg_find_rep },
	{ "pg_lease_req", recode_pg_lease_req },
	{ "pg_lease_rep", recode_pg_lease_rep },
	{ "pg_report_req", recode_pg_report_req },
	{ "pp_connect_req", recode_pp_connect_req },
	{ "pp_connect_rep", recode_pp_connect_rep },
	{ "pp_data_req", recode_pp_data_req },
	{ "pp_data_rep", recode_pp_data_rep },
	{ "pp_window", recode_pp_window },
	{ "pp_reset", recode_pp_reset },
	{ "pp_opened", recode_pp_opened },
	{ "pp_unix_connect_req", recode_pp_unix_connect_req },
	{ "pp_unix_connect_rep", recode_pp_unix_connect_rep },
	{ "pp_unix_datagram_req", recode_pp_unix_datagram_req },
	{ "pp_unix_room", recode_pp_unix_room },
	{ "pp_record", recode_pp_record },
	{ "pp_port", recode_pp_port },
	{ "pp_unport", recode_pp_unport },
	{ "pp_datagram_req", recode_pp_datagram_req },
	{ "pp_gateway_req", recode_pp_gateway_req },
	{ "pp_options", recode_pp_options },
};
