/* SPDX-License-Identifier: MIT */
/*
 * Messages of memory monitors: every one there and back, and tables of what decoders refuse.
 */
#include "recode_test.h"

#include <lib/ktest.h>

static uint8_t buf[RECODE_MAX + 8];
static uint8_t again[RECODE_MAX];

static const struct pm_vma file_vma = {
	.start = 0x400000,
	.end = 0x403000,
	.pgoff = 2,
	.file_bytes = 0x1234,
	.file = { 77, 3, 21, 2, 0x5ea1 },
	.prot = PM_PROT_READ | PM_PROT_WRITE,
	.flags = PM_VMA_FILE,
	.cache_node = 12,
};
static const struct pm_vma anon_vma = {
	.start = PM_USER_TOP - 0x21000,
	.end = PM_USER_TOP,
	.prot = PM_PROT_READ,
	.flags = PM_VMA_STACK,
};
static const struct pm_vregion vregion = { .index = 5, .owner = 11, .version = 9 };
static const struct pm_grant grant = { 11, 64, 3 };

/* --- samples: each makes a message in buf and answers its length ----------------------- */

#define FIXED_SAMPLE(msg, ...)                           \
	static ssize_t sample_##msg(void)                \
	{                                                \
		static const struct msg v = __VA_ARGS__; \
		struct msg##_wire w;                     \
                                                         \
		msg##_encode(&v, &w);                    \
		memcpy(buf, &w, sizeof(w));              \
		return sizeof(w);                        \
	}
#define VARIABLE_SAMPLE(msg, ...)                         \
	static ssize_t sample_##msg(void)                 \
	{                                                 \
		static const struct msg v = __VA_ARGS__;  \
                                                          \
		return msg##_encode(&v, buf, RECODE_MAX); \
	}

VARIABLE_SAMPLE(pm_exec_req, { .aspace = 1,
			       .file = { 77, 3, 21, 2, 0x5ea1 },
			       .stack_size = 0x800000,
			       .random_seed = 5,
			       .vnode = 2,
			       .want_credits = 100,
			       .cred = { 1000, 100, 2, { 4, 27 }, 0 } })
FIXED_SAMPLE(pm_mmap_req, { .aspace = 1,
			    .addr = 0x10000,
			    .len = 0x3000,
			    .pgoff = 7,
			    .file = { 77, 3, 21, 2, 0x5ea1 },
			    .prot = PM_PROT_READ,
			    .flags = PM_MAP_FIXED | PM_MAP_SHARED,
			    .want_credits = 4 })
FIXED_SAMPLE(pm_range_req, { .aspace = 1, .addr = 0x10000, .len = 0x3000, .prot = PM_PROT_ALL })
FIXED_SAMPLE(pm_mremap_req, { .aspace = 1,
			      .old_addr = 0x10000,
			      .old_len = 0x3000,
			      .new_len = 0x5000,
			      .new_addr = 0x90000,
			      .flags = PM_MREMAP_MAYMOVE | PM_MREMAP_FIXED,
			      .seq = 5 })
FIXED_SAMPLE(pm_brk_req, { .aspace = 1, .brk = 0x12345, .want_credits = 1 })
FIXED_SAMPLE(pm_vregions_req, { .aspace = 1,
				.first = 3,
				.count = PM_RANGE_MAX_VREGIONS,
				.flags = PM_VREGIONS_ACTIVATE,
				.want_credits = 6 })
FIXED_SAMPLE(pm_fork_req, { .aspace = 1, .parent = 2, .child = 3, .want_credits = 4 })
VARIABLE_SAMPLE(pm_discard_req, { .aspace = 1,
				  .nr_ranges = 2,
				  .ranges = { { 0x1000, 0x2000 }, { 0x3000, 0x1000 } } })
VARIABLE_SAMPLE(pm_lease_req, { .aspace = 1,
				.number = 5,
				.nr_ranges = 2,
				.ranges = { { 0x1000, 0x2000, PM_PROT_READ, PM_LEASE_MAPPED },
					    { 0x3000, 0x1000, 0, 0 } } })
VARIABLE_SAMPLE(pm_collapse_req, { .from = 1,
				   .into = 2,
				   .nr_ranges = 2,
				   .ranges = { { 0, 0x2000 }, { PM_USER_TOP - 0x1000, 0x1000 } } })
FIXED_SAMPLE(
	pm_space_req,
	{ .aspace = 1, .len = 0x3000, .flags = PM_SPACE_RESERVE, .vnode = 2, .want_credits = 3 })
FIXED_SAMPLE(pm_fetch_req, { .aspace = 1,
			     .vaddr = 0x10000,
			     .line = { 0x123456000, 0xabcd, 4096 },
			     .flags = PM_FETCH_WRITE | PM_FETCH_VICTIM,
			     .want_credits = 3,
			     .victim_aspace = 2,
			     .victim_vaddr = 0x20000,
			     .victim_seq = 8 })
FIXED_SAMPLE(pm_fetch_rep, { .result = PM_FETCH_DATA,
			     .prot = PM_PROT_READ,
			     .grant = { 11, 5, 2 },
			     .page = { 3, 0xabcd, 511 },
			     .victim = { 4, 0xef01, 0 } })
VARIABLE_SAMPLE(pm_fetch_ahead_req, { .aspace = 1,
				      .nr_pages = 2,
				      .pages = { { 0x10000, { 0x123456000, 1, 4096 } },
						 { 0x1000, { 0x1000, 2, 4096 } } } })
FIXED_SAMPLE(pm_fetch_ahead_rep, { .sent = 2 })
FIXED_SAMPLE(pm_fill_vma_req, { .aspace = 1, .vaddr = 0x10000 })
VARIABLE_SAMPLE(pm_writeback_req, { .aspace = 1,
				    .nr_pages = 2,
				    .zeroes = 2,
				    .pages = { { 0x10000, 1 }, { 0x11000, 2 } } })
VARIABLE_SAMPLE(pm_writeback_rep, { .nr_pages = 2,
				    .pages = { { 0, { 3, 0xabcd, 511 } }, { -ENOMEM, { 0 } } },
				    .grant = { 11, 7, 2 } })
FIXED_SAMPLE(pm_credit_req, { .report = 9, .hold = 6, .want = 5 })
FIXED_SAMPLE(pm_credit_rep, { .report = 9, .frames = 11 })
FIXED_SAMPLE(pm_meminfo_rep, { .total = 100,
			       .free = 60,
			       .file = 40,
			       .granted = 7,
			       .committed = 200,
			       .programs = 90,
			       .commit_limit = 180 })
FIXED_SAMPLE(pm_commit,
	     { .version = 5 << 16 | 3, .mode = 2, .ratio = 50, .kbytes = 1024, .programs = 9000 })
FIXED_SAMPLE(mp_oom_req, { .total = 1000, .flags = MP_OOM_END, .pid = 77 })
FIXED_SAMPLE(mp_oom_rep, { .badness = -5, .frames = 40, .pid = 77, .state = MP_OOM_CANDIDATE })
FIXED_SAMPLE(mp_revoke_req, { .extent = 3, .flags = MP_REVOKE_BELOW })
FIXED_SAMPLE(mm_expect_req, { .aspace = 1, .from = 11, .processor = 2, .vnode = 3 })
FIXED_SAMPLE(mm_relieve_req, { .aspace = 1, .index = 3, .to = 12 })
VARIABLE_SAMPLE(pm_file_fetch_req, { .file = { 77, 3, 21, 2, 0x5ea1 },
				     .pgoff = 4,
				     .version = 8,
				     .nr_pages = 2,
				     .pages = { { 0x123456000, 1, 4096 }, { 0x1000, 2, 4096 } } })
FIXED_SAMPLE(pm_file_fetch_rep, { .nr_valid = 2, .last_bytes = 4096, .file_size = 8192 })
VARIABLE_SAMPLE(mm_map_req, { .aspace = 1,
			      .vma = { .start = 0x10000, .end = 0x600000, .prot = PM_PROT_READ },
			      .charge = 4,
			      .phase = MM_APPLY,
			      .want_credits = 2,
			      .nr_vregions = 2,
			      .vregion_shift = 21,
			      .processor = 2,
			      .vnode = 3,
			      .vregions = { { 0, 1 }, { 2, 7 } } })
FIXED_SAMPLE(mm_range_rep, { .charge = 1, .pages = 2, .grant = { 11, 3, 2 } })
FIXED_SAMPLE(mm_range_req, { .aspace = 1,
			     .addr = 0x10000,
			     .len = 0x1000,
			     .charge = 4,
			     .prot = PM_PROT_READ,
			     .phase = MM_ABORT })
VARIABLE_SAMPLE(mm_move_req, { .aspace = 1,
			       .old_addr = 0x10000,
			       .new_addr = 0x3ff000,
			       .len = 0x2000,
			       .nr_vregions = 2,
			       .vregion_shift = 21,
			       .seq = 5,
			       .vregions = { { 1, 11, 0, 1 }, { 2, 12, 0, 1 } } })
VARIABLE_SAMPLE(mm_pages_req,
		{ .aspace = 1, .nr_pages = 2, .pages = { { 0x10000, 0 }, { 0x11000, 2 } } })
FIXED_SAMPLE(mm_vregion_move_req,
	     { .aspace = 1, .vregion = { 5, 11, 0, 9 }, .processor = 2, .vnode = 3 })
VARIABLE_SAMPLE(mm_vregion_take_req,
		{ .aspace = 1,
		  .vregion = { 5, 11, 0, 9 },
		  .stage = MM_TAKE_VMAS,
		  .nr_vmas = 1,
		  .vregion_shift = 21,
		  .home = 12,
		  .processor = 2,
		  .vnode = 3,
		  .vmas = { { .start = 0xa00000, .end = 0xa01000, .prot = PM_PROT_READ } } })
FIXED_SAMPLE(mm_fork_req,
	     { .aspace = 1, .parent = 2, .child = 3, .want_credits = 4, .phase = MM_ABORT })
VARIABLE_SAMPLE(mm_load_req,
		{ .aspace = 1,
		  .want_credits = 5,
		  .vregion_shift = 21,
		  .nr_vmas = 2,
		  .nr_vregions = 2,
		  .processor = 2,
		  .vnode = 3,
		  .vmas = { { .start = 0x10000, .end = 0x20000, .prot = PM_PROT_READ },
			    { .start = 0x20000, .end = 0x600000, .prot = PM_PROT_WRITE } },
		  .vregions = { { 0, 1 }, { 2, 7 } } })
FIXED_SAMPLE(mm_file_read_req,
	     { .file = { 77, 3, 21, 2, 0x5ea1 }, .offset = 64, .len = MM_FILE_READ_MAX })
VARIABLE_SAMPLE(ms_read_req, { .file = { 77, 3, 21, 2, 0x5ea1 },
			       .pgoff = 4,
			       .nr_pages = 1,
			       .pages = { { 0x1000, 2, 4096 } } })
FIXED_SAMPLE(ms_read_rep, { .nr_valid = 1, .last_bytes = 1, .file_size = 4097, .version = 3 })
FIXED_SAMPLE(pm_file_open_req, { .file = { 77, 3, 21, 2, 0x5ea1 } })
FIXED_SAMPLE(pm_file_state, { .size = 4097,
			      .version = 9,
			      .mtime_s = -5,
			      .mtime_ns = 999999999,
			      .errors = 1,
			      .pos = 8192, /* the end of the last page */
			      .before = 8 })
VARIABLE_SAMPLE(pm_file_write_req, { .file = { 77, 3, 21, 2, 0x5ea1 },
				     .size = 12298,
				     .mtime_s = 5,
				     .mtime_ns = 7,
				     .flags = PM_FILE_SYNC | PM_FILE_DATASYNC,
				     .nr_pages = 2,
				     .pages = { { 1, 0, 4096 }, { 3, 4, 6 } } })
FIXED_SAMPLE(pm_file_change_req, { .file = { 77, 3, 21, 2, 0x5ea1 },
				   .op = PROTO_FILE_PUNCH,
				   .flags = PM_FILE_PRIVILEGED,
				   .off = 5,
				   .len = 4096,
				   .mtime_s = 5,
				   .mtime_ns = 7,
				   .client = 2,
				   .seq = 3 })
FIXED_SAMPLE(ms_claim_req, { .file = { 77, 3, 21, 2, 0x5ea1 }, .epoch = 8 })
FIXED_SAMPLE(ms_file_state, { .epoch = 8,
			      .size = 4097,
			      .version = 9,
			      .mtime_s = -5,
			      .mtime_ns = 999999999,
			      .node = 11,
			      .max_size = 1ull << 44,
			      .pos = 4097 })
FIXED_SAMPLE(ms_write_req, { .file = { 77, 3, 21, 2, 0x5ea1 },
			     .epoch = 8,
			     .pgoff = 1,
			     .size = 12298,
			     .mtime_s = 5,
			     .mtime_ns = 7,
			     .nr_pages = 3,
			     .flags = MS_WRITE_SYNC | MS_WRITE_DATASYNC,
			     .client = 2,
			     .seq = 3 })
FIXED_SAMPLE(ms_change_req, { .file = { 77, 3, 21, 2, 0x5ea1 },
			      .epoch = 8,
			      .op = PROTO_FILE_ZERO,
			      .flags = MS_RESERVE_PRIVILEGED,
			      .off = 5,
			      .len = 4096,
			      .mtime_s = 5,
			      .mtime_ns = 7,
			      .keep = 6,
			      .client = 2,
			      .seq = 3 })
FIXED_SAMPLE(ms_release_req, { .file = { 77, 3, 21, 2, 0x5ea1 }, .epoch = 8 })
FIXED_SAMPLE(ms_declare_req, { .incarn = 0x10000007 })
FIXED_SAMPLE(ms_reserve_req, { .file = { 77, 3, 21, 2, 0x5ea1 },
			       .epoch = 8,
			       .others = 9,
			       .pgoff = 3,
			       .nr = 16,
			       .need = 2,
			       .flags = MS_RESERVE_PRIVILEGED })
FIXED_SAMPLE(ms_reserve_rep, { .mapped = 4, .covered = 9, .holes = { 0xf0, 1 } })
FIXED_SAMPLE(proto_attr, { .file = { 77, 3, 21, 2, 0x5ea1 },
			   .size = 10,
			   .blocks = 8,
			   .mtime_s = -5,
			   .mtime_ns = 999999999,
			   .mode = 0100755,
			   .nlink = 1,
			   .uid = 1,
			   .blksize = 4096,
			   .version = 2,
			   .fsid = 4 })

static const struct pg_name port = {
	.id = 9, .vnode = 1, .uid = 5, .addr = { [15] = 1 }, .port = 80, .kind = PG_TCP, .flags = 15
};
FIXED_SAMPLE(pg_name, { .id = 9, .vnode = 1, .addr = { 7 }, .kind = PG_UNIX_DGRAM })
FIXED_SAMPLE(pg_release_req, { .id = 9, .vnode = 1 })
FIXED_SAMPLE(pg_find_req, { .addr = { 7 }, .vnode = 1, .port = 80, .kind = PG_TCP })
FIXED_SAMPLE(pg_find_rep, { .node = 3 })
FIXED_SAMPLE(pg_lease_req, { .vnode = 1 })
FIXED_SAMPLE(pg_lease_rep, { .run = PG_NR_RUNS - 1, .taken = { [31] = 0x80 } })

FIXED_SAMPLE(pp_connect_req, { .conn = 1ull << 63,
			       .limit = 131072,
			       .vnode = 1,
			       .from_port = 40000,
			       .to_port = 80,
			       .from_addr = { 1 },
			       .to_addr = { [15] = 1 } })
FIXED_SAMPLE(pp_connect_rep, { .conn = 9, .limit = 65536 })
FIXED_SAMPLE(pp_data_req, { .conn = 9, .position = 5, .limit = 7, .len = 6, .flags = PP_FIN })
FIXED_SAMPLE(pp_data_rep, { .limit = 1ull << 40 })
FIXED_SAMPLE(pp_window, { .conn = 9, .limit = 8 })
FIXED_SAMPLE(pp_reset, { .conn = 9 })
FIXED_SAMPLE(pp_opened, { .conn = 9, .status = -ECONNREFUSED, .addr = { [15] = 4 } })
FIXED_SAMPLE(pp_unix_connect_req, { .conn = 9,
				    .limit = 65536,
				    .vnode = 1,
				    .type = PP_UNIX_SEQPACKET,
				    .name_len = 2,
				    .pid = 5,
				    .uid = 6,
				    .gid = 7,
				    .key = { [15] = 8 },
				    .name = { 0, 'a' } })
FIXED_SAMPLE(
	pp_unix_connect_rep,
	{ .conn = 9, .limit = 65536, .pid = 5, .uid = 6, .gid = 7, .name_len = 1, .name = { 'b' } })
FIXED_SAMPLE(pp_unix_datagram_req, { .sender = 9,
				     .vnode = 1,
				     .len = PP_UNIX_DATAGRAM_MAX,
				     .pid = 5,
				     .uid = 6,
				     .gid = 7,
				     .name_len = 2,
				     .key = { [15] = 8 },
				     .from_key = { 9 },
				     .name = { 0, 'a' } })
FIXED_SAMPLE(pp_unix_room, { .sender = 1ull << 63 })
FIXED_SAMPLE(pp_record, { .len = PP_RECORD_MAX, .pid = 5, .uid = 6, .gid = 7 })
FIXED_SAMPLE(pp_port, { .id = 9,
			.vnode = 1,
			.kind = PP_UDP,
			.port = 53,
			.addr = { [15] = 1 },
			.backlog = 7,
			.flags = PP_V6ONLY })
FIXED_SAMPLE(pp_unport, { .id = 9 })
FIXED_SAMPLE(pp_options, { .conn = 9,
			   .user_timeout_ms = 30000,
			   .keep_idle_s = 7200,
			   .keep_interval_s = 75,
			   .keep_count = 9,
			   .ttl = 64,
			   .tos = 16,
			   .flags = PP_NODELAY | PP_KEEPALIVE })
FIXED_SAMPLE(pp_datagram_req, { .port_id = 9,
				.vnode = 1,
				.len = PP_DATAGRAM_MAX,
				.from_port = 53,
				.to_port = 54,
				.scope = 2,
				.from_addr = { 1 },
				.to_addr = { [15] = 2 },
				.interface = 3,
				.ttl = 64,
				.tos = 16 })

static ssize_t sample_pp_gateway_req(void)
{
	static struct pp_gateway_req req = { .vnode = 1, .nr_interfaces = 2 };

	for (uint32_t i = 0; i < 2; i++)
		req.interfaces[i] = (struct pp_interface){ .name = "eth0",
							   .index = 2 + i,
							   .mtu = 1500,
							   .up = true,
							   .prefix4 = 24,
							   .nr_addr6 = PP_ADDRS6,
							   .addr4 = { 10, 0, 2, 15 },
							   .gateway4 = { 10, 0, 2, 2 },
							   .mac = { 2, 0, 0, 0, 0, 1 },
							   .addr6 = { [3] = { 0xfe, 0x80 } },
							   .gateway6 = { 0xfe, 0x80, [15] = 2 } };
	return pp_gateway_req_encode(&req, buf, RECODE_MAX);
}

static ssize_t sample_pg_report_req(void)
{
	static struct pg_report_req req = { .vnode = 1, .flags = 3, .leases = { 1, [13] = 0x20 } };

	req.nr_names = PG_REPORT_MAX;
	for (uint32_t i = 0; i < PG_REPORT_MAX; i++)
		req.names[i] = port;
	return pg_report_req_encode(&req, buf, RECODE_MAX);
}

static ssize_t sample_pm_exec_rep(void)
{
	static struct pm_exec_rep rep;

	rep.entry = 0x401000;
	rep.brk_start = 0x500000;
	rep.stack_top = PM_USER_TOP;
	rep.stack_bottom = PM_USER_TOP - 0x800000;
	rep.vregion_size = 1 << 30;
	rep.flags = PM_EXEC_STACK_X | PM_EXEC_INTERP;
	rep.interp = (struct proto_attr){ .file = { 77, 3, 21, 2, 0x5ea1 },
					  .mode = 0100755,
					  .blksize = 4096 };
	rep.nr_vmas = 2;
	rep.nr_vregions = 1;
	rep.nr_grants = 1;
	rep.vmas[0] = file_vma;
	rep.vmas[1] = anon_vma;
	rep.vregions[0] = vregion;
	rep.grants[0] = grant;
	return pm_exec_rep_encode(&rep, buf, RECODE_MAX);
}

static ssize_t sample_pm_range_rep(void)
{
	static struct pm_range_rep rep;

	rep.addr = 0x400000;
	rep.nr_vmas = PM_RANGE_MAX_VMAS;
	rep.nr_vregions = PM_RANGE_MAX_VREGIONS;
	rep.nr_grants = PM_MAX_GRANTS;
	for (int i = 0; i < PM_RANGE_MAX_VMAS; i++)
		rep.vmas[i] = file_vma;
	for (int i = 0; i < PM_RANGE_MAX_VREGIONS; i++)
		rep.vregions[i] = vregion;
	for (int i = 0; i < PM_MAX_GRANTS; i++)
		rep.grants[i] = grant;
	return pm_range_rep_encode(&rep, buf, RECODE_MAX);
}

static ssize_t sample_pm_redirect(void)
{
	struct pm_redirect_wire w;

	pm_redirect_encode(&vregion, &w);
	memcpy(buf, &w, sizeof(w));
	return sizeof(w);
}

static ssize_t sample_pm_destroy_req(void)
{
	struct pm_destroy_req_wire w;

	pm_destroy_req_encode(1, &w);
	memcpy(buf, &w, sizeof(w));
	return sizeof(w);
}

static ssize_t sample_pm_fill_vma_rep(void)
{
	struct pm_vma_wire w;

	pm_vma_encode(&file_vma, &w);
	memcpy(buf, &w, sizeof(w));
	return sizeof(w);
}

/* In the order of recoders[]. */
static ssize_t (*const samples[])(void) = {
	sample_pm_exec_req,
	sample_pm_exec_rep,
	sample_pm_mmap_req,
	sample_pm_range_req,
	sample_pm_mremap_req,
	sample_pm_brk_req,
	sample_pm_range_rep,
	sample_pm_vregions_req,
	sample_pm_fetch_req,
	sample_pm_fetch_rep,
	sample_pm_fetch_ahead_req,
	sample_pm_fetch_ahead_rep,
	sample_pm_fill_vma_req,
	sample_pm_writeback_req,
	sample_pm_writeback_rep,
	sample_pm_credit_req,
	sample_pm_file_fetch_req,
	sample_pm_file_fetch_rep,
	sample_mm_map_req,
	sample_mm_range_rep,
	sample_mm_range_req,
	sample_mm_move_req,
	sample_mm_pages_req,
	sample_mm_vregion_move_req,
	sample_mm_vregion_take_req,
	sample_mm_file_read_req,
	sample_ms_read_req,
	sample_ms_read_rep,
	sample_pm_redirect,
	sample_pm_destroy_req,
	sample_pm_fill_vma_rep,
	sample_pm_credit_rep,
	sample_proto_attr,
	sample_pm_fork_req,
	sample_pm_discard_req,
	sample_pm_collapse_req,
	sample_pm_space_req,
	sample_mm_fork_req,
	sample_pm_meminfo_rep,
	sample_mm_load_req,
	sample_pm_commit,
	sample_mp_oom_req,
	sample_mp_oom_rep,
	sample_mp_revoke_req,
	sample_mm_relieve_req,
	sample_mm_expect_req,
	sample_pm_lease_req,
	sample_pm_file_open_req,
	sample_pm_file_state,
	sample_pm_file_write_req,
	sample_pm_file_change_req,
	sample_ms_claim_req,
	sample_ms_file_state,
	sample_ms_write_req,
	sample_ms_change_req,
	sample_ms_release_req,
	sample_ms_reserve_req,
	sample_ms_reserve_rep,
	sample_ms_declare_req,
	sample_pg_name,
	sample_pg_release_req,
	sample_pg_find_req,
	sample_pg_find_rep,
	sample_pg_lease_req,
	sample_pg_lease_rep,
	sample_pg_report_req,
	sample_pp_connect_req,
	sample_pp_connect_rep,
	sample_pp_data_req,
	sample_pp_data_rep,
	sample_pp_window,
	sample_pp_reset,
	sample_pp_opened,
	sample_pp_unix_connect_req,
	sample_pp_unix_connect_rep,
	sample_pp_unix_datagram_req,
	sample_pp_unix_room,
	sample_pp_record,
	sample_pp_port,
	sample_pp_unport,
	sample_pp_datagram_req,
	sample_pp_gateway_req,
	sample_pp_options,
};
static_assert(ARRAY_SIZE(samples) == ARRAY_SIZE(recoders), "a message has no sample");

static void a_list_of_ended_spaces(struct ktest *t)
{
	static const uint64_t ids[3] = { 7, 1, 1ull << 40 };
	struct pm_destroy_req_wire w[PM_DESTROY_MAX + 1];
	uint64_t got[PM_DESTROY_MAX];
	uint32_t nr = 99;

	pm_destroy_list_encode(ids, 3, w);
	ASSERT_EQ(t, pm_destroy_list_decode(w, 24, got, &nr), 0);
	EXPECT_EQ(t, nr, 3u);
	EXPECT_EQ(t, memcmp(got, ids, sizeof(ids)), 0);
	/* None, a part of one, too many; and 0 is no space. */
	EXPECT_EQ(t, pm_destroy_list_decode(w, 0, got, &nr), -EMSGSIZE);
	EXPECT_EQ(t, pm_destroy_list_decode(w, 23, got, &nr), -EMSGSIZE);
	EXPECT_EQ(t, pm_destroy_list_decode(w, sizeof(w), got, &nr), -EMSGSIZE);
	memset(&w[1], 0, sizeof(w[1]));
	EXPECT_EQ(t, pm_destroy_list_decode(w, 24, got, &nr), -EPROTO);
	EXPECT_EQ(t, nr, 3u);
}

static void every_message_there_and_back(struct ktest *t)
{
	for (size_t i = 0; i < ARRAY_SIZE(samples); i++) {
		const ssize_t len = samples[i]();

		ASSERT_TRUE(t, len > 0);
		EXPECT_EQ(t, recoders[i].fn(buf, (size_t)len, again), len);
		EXPECT_MEMEQ(t, again, buf, (size_t)len);
		EXPECT_EQ(t, recoders[i].fn(buf, (size_t)len - 1, again), -EMSGSIZE);
		EXPECT_EQ(t, recoders[i].fn(buf, (size_t)len + 1, again), -EMSGSIZE);
		EXPECT_EQ(t, recoders[i].fn(buf, 0, again), -EMSGSIZE);
	}
}

/* A field of a good message is changed: what does the decoder say? */
static const struct rejection {
	const char *message;
	uint16_t offset;
	uint8_t size;
	uint64_t value;
} rejections[] = {
	{ "pp_connect_req", 0, 8, 0 },  /* no end */
	{ "pp_connect_req", 16, 4, 0 }, /* no vNode */
	{ "pp_connect_req", 20, 2, 0 }, /* no port */
	{ "pp_connect_req", 22, 2, 0 },
	{ "pp_connect_req", 56, 4, 2 }, /* flags */
	{ "pp_connect_rep", 0, 8, 0 },
	{ "pp_data_req", 0, 8, 0 },
	{ "pp_data_req", 8, 8, UINT64_MAX - 5 }, /* positions overflow */
	{ "pp_data_req", 24, 4, PP_BULK_MAX + 1 },
	{ "pp_data_req", 28, 4, 8 }, /* flags */
	{ "pp_window", 0, 8, 0 },
	{ "pp_reset", 0, 8, 0 },
	{ "pp_opened", 0, 8, 0 },
	{ "pp_opened", 8, 4, 1 },  /* no errno */
	{ "pp_opened", 12, 4, 1 }, /* reserved */
	{ "pp_unix_connect_req", 0, 8, 0 },
	{ "pp_unix_connect_req", 16, 4, 0 },   /* no vNode */
	{ "pp_unix_connect_req", 20, 2, 2 },   /* datagrams */
	{ "pp_unix_connect_req", 22, 2, 109 }, /* longer than a name */
	{ "pp_unix_connect_req", 22, 2, 1 },   /* bytes behind the name */
	{ "pp_unix_connect_rep", 0, 8, 0 },
	{ "pp_unix_connect_rep", 28, 2, 109 },
	{ "pp_unix_connect_rep", 30, 2, 1 }, /* reserved */
	{ "pp_unix_connect_rep", 140, 4, 1 },
	{ "pp_unix_datagram_req", 0, 8, 0 },
	{ "pp_unix_datagram_req", 8, 4, 0 }, /* no vNode */
	{ "pp_unix_datagram_req", 12, 4, PP_UNIX_DATAGRAM_MAX + 1 },
	{ "pp_unix_datagram_req", 28, 2, 109 }, /* longer than a name */
	{ "pp_unix_datagram_req", 28, 2, 1 },   /* bytes behind the name */
	{ "pp_unix_datagram_req", 30, 2, 1 },   /* it asks, with bytes */
	{ "pp_unix_datagram_req", 30, 2, 2 },   /* unknown flag */
	{ "pp_unix_datagram_req", 172, 4, 1 },  /* reserved */
	{ "pp_unix_room", 0, 8, 0 },
	{ "pp_record", 0, 4, PP_RECORD_MAX + 1 },
	{ "pp_port", 0, 8, 0 },
	{ "pp_port", 8, 4, 0 },  /* no vNode */
	{ "pp_port", 12, 2, 3 }, /* kind */
	{ "pp_port", 14, 2, 0 }, /* port */
	{ "pp_port", 36, 4, 2 }, /* flags */
	{ "pp_unport", 0, 8, 0 },
	{ "pp_options", 0, 8, 0 },          /* no connection */
	{ "pp_options", 8, 4, UINT32_MAX }, /* a time that setsockopt() refuses */
	{ "pp_options", 12, 2, 0 },
	{ "pp_options", 12, 2, 32768 },
	{ "pp_options", 14, 2, 0 },
	{ "pp_options", 16, 1, 0 },
	{ "pp_options", 16, 1, 128 },
	{ "pp_options", 17, 1, 0 },     /* TTL */
	{ "pp_options", 19, 1, 4 },     /* flags */
	{ "pp_options", 20, 4, 1 },     /* reserved */
	{ "pp_datagram_req", 8, 4, 0 }, /* no vNode */
	{ "pp_datagram_req", 12, 4, PP_DATAGRAM_MAX + 1 },
	{ "pp_datagram_req", 16, 2, 0 }, /* no port */
	{ "pp_datagram_req", 18, 2, 0 },
	{ "pp_datagram_req", 62, 2, 1 }, /* reserved */
	{ "pp_gateway_req", 0, 4, 0 },
	{ "pp_gateway_req", 4, 4, 0 },            /* none */
	{ "pp_gateway_req", 4, 4, 17 },           /* too many */
	{ "pp_gateway_req", 8, 1, 0 },            /* no name */
	{ "pp_gateway_req", 8 + 15, 1, 1 },       /* a name without end */
	{ "pp_gateway_req", 8 + 16, 4, 0 },       /* no index */
	{ "pp_gateway_req", 8 + 24, 2, 2 },       /* neither up nor down */
	{ "pp_gateway_req", 8 + 26, 1, 33 },      /* prefix */
	{ "pp_gateway_req", 8 + 124 + 27, 1, 5 }, /* of the second: too many addresses */
	{ "pp_gateway_req", 8 + 42, 2, 1 },       /* reserved */
	{ "pg_name", 0, 8, 0 },                   /* no id */
	{ "pg_name", 8, 4, 0 },                   /* no vNode */
	{ "pg_name", 32, 2, 80 },                 /* AF_UNIX has no ports */
	{ "pg_name", 34, 1, PG_TCP },             /* and TCP has one */
	{ "pg_name", 34, 1, 0 },                  /* no such kind */
	{ "pg_name", 34, 1, PG_KINDS },           /* nor this */
	{ "pg_name", 35, 1, 16 },                 /* flags */
	{ "pg_name", 36, 4, 1 },                  /* reserved */
	{ "pg_release_req", 0, 8, 0 },
	{ "pg_release_req", 8, 4, 0 },
	{ "pg_release_req", 12, 4, 1 },
	{ "pg_find_req", 16, 4, 0 },
	{ "pg_find_req", 20, 2, 0 }, /* no port */
	{ "pg_find_req", 22, 2, PG_UNIX_STREAM },
	{ "pg_find_rep", 0, 4, 0 },
	{ "pg_find_rep", 0, 4, 0x10000 },
	{ "pg_lease_req", 0, 4, 0 },
	{ "pg_lease_rep", 0, 4, PG_NR_RUNS },
	{ "pg_report_req", 0, 4, 0 },
	{ "pg_report_req", 4, 2, 4 },                 /* flags */
	{ "pg_report_req", 6, 2, 401 },               /* too many */
	{ "pg_report_req", 21, 1, 0x40 },             /* a run that there is not */
	{ "pg_report_req", 24, 8, 0 },                /* the first name: no id */
	{ "pg_report_req", 32, 4, 2 },                /* another vNode */
	{ "pm_exec_req", 0, 8, 0 },                   /* no space */
	{ "pm_exec_req", 20, 4, 0x10000 },            /* no such node */
	{ "pm_exec_req", 8, 8, 0 },                   /* a node, but no inode */
	{ "pm_exec_req", 80, 8, 7 },                  /* a file and an object */
	{ "pm_exec_req", 92, 4, 4097 },               /* too long a beginning */
	{ "pm_exec_req", 96, 4, 4096 },               /* too long an interpreter */
	{ "pm_exec_req", 96, 4, 1 },                  /* one at no node */
	{ "pm_exec_req", 100, 4, 1 },                 /* reserved */
	{ "pm_exec_req", 40, 8, 0 },                  /* no stack */
	{ "pm_exec_req", 40, 8, 0x800001 },           /* not whole pages */
	{ "pm_exec_req", 64, 4, 33 },                 /* groups */
	{ "pm_exec_req", 68, 4, 2 },                  /* cred flags */
	{ "pm_exec_rep", 0, 8, PM_USER_TOP + 1 },     /* entry */
	{ "pm_exec_rep", 24, 8, 1 },                  /* interpreter not aligned */
	{ "pm_exec_rep", 32, 8, 1 },                  /* brk not aligned */
	{ "pm_exec_rep", 40, 8, 0 },                  /* stack upside down */
	{ "pm_exec_rep", 56, 8, 3ull << 21 },         /* no power of two */
	{ "pm_exec_rep", 56, 8, 1 << 20 },            /* too small */
	{ "pm_exec_rep", 100, 4, 4 },                 /* flags */
	{ "pm_exec_rep", 104, 2, 65 },                /* too many vmas */
	{ "pm_exec_rep", 110, 2, 1 },                 /* reserved */
	{ "pm_mmap_req", 8, 8, 0x10001 },             /* not aligned */
	{ "pm_mmap_req", 8, 8, PM_USER_TOP },         /* fixed beyond the end */
	{ "pm_mmap_req", 16, 8, 0 },                  /* empty */
	{ "pm_mmap_req", 16, 8, 0xfffffffffffff000 }, /* overflow */
	{ "pm_mmap_req", 24, 8, UINT64_MAX >> 12 },   /* page offset overflows */
	{ "pm_mmap_req", 64, 8, 5 },                  /* a file and an object */
	{ "pm_mmap_req", 72, 4, 8 },                  /* protection */
	{ "pm_mmap_req", 76, 4, 64 },                 /* flags */
	{ "pm_mmap_req", 84, 4, 3 },                  /* a lease in the place of others */
	{ "pm_range_req", 8, 8, PM_USER_TOP },
	{ "pm_range_req", 16, 8, 0 },
	{ "pm_range_req", 24, 4, 8 },
	{ "pm_range_req", 28, 4, 1 }, /* a lease that is smaller than the range */
	{ "pm_mremap_req", 16, 8, 0 },
	{ "pm_mremap_req", 24, 8, 1 },
	{ "pm_mremap_req", 32, 8, PM_USER_TOP },
	{ "pm_mremap_req", 40, 4, PM_MREMAP_FIXED },   /* fixed without may-move */
	{ "pm_mremap_req", 40, 4, PM_MREMAP_MAYMOVE }, /* address without fixed */
	{ "pm_mremap_req", 40, 4, 4 },
	{ "pm_mremap_req", 48, 8, 0 }, /* may move, without a number */
	{ "pm_brk_req", 0, 8, 0 },
	{ "pm_range_rep", 0, 8, PM_USER_TOP + 1 },
	{ "pm_range_rep", 8, 2, 65 },
	{ "pm_range_rep", 10, 2, 257 },
	{ "pm_range_rep", 12, 2, 65 },
	{ "pm_range_rep", 14, 2, 1 },
	{ "pm_range_rep", 16, 8, 0x403000 }, /* an empty vma */
	{ "pm_vregions_req", 8, 8, 1ull << 27 },
	{ "pm_vregions_req", 16, 4, 0 },
	{ "pm_vregions_req", 16, 4, 257 },
	{ "pm_vregions_req", 20, 4, 3 }, /* flags */
	{ "pm_vregions_req", 20, 4, 0 }, /* credits without activation */
	{ "pm_vregions_req", 28, 4, 1 },
	{ "pm_lease_req", 0, 8, 0 },
	{ "pm_lease_req", 8, 8, 0 },    /* no number */
	{ "pm_lease_req", 16, 4, 129 }, /* too many */
	{ "pm_lease_req", 20, 4, 1 },
	{ "pm_lease_req", 24, 8, 0x1001 },             /* not aligned */
	{ "pm_lease_req", 24, 8, PM_USER_TOP },        /* beyond the end */
	{ "pm_lease_req", 32, 8, 0 },                  /* empty */
	{ "pm_lease_req", 32, 8, 0xfffffffffffff000 }, /* overflow */
	{ "pm_lease_req", 32, 8, 0x3000 },             /* into the next one */
	{ "pm_lease_req", 40, 4, 8 },                  /* protection */
	{ "pm_lease_req", 44, 4, 2 },                  /* flags */
	{ "pm_lease_req", 44, 4, 0 },                  /* unmapped, with a protection */
	{ "pm_lease_req", 48, 8, 0x1000 },             /* not behind the one before it */
	{ "pm_fork_req", 0, 8, 0 },
	{ "pm_fork_req", 8, 8, 0 },
	{ "pm_fork_req", 16, 8, 0 },
	{ "pm_fork_req", 8, 8, 1 },  /* the parent is the space itself */
	{ "pm_fork_req", 16, 8, 1 }, /* and so is the child */
	{ "pm_fork_req", 16, 8, 2 }, /* parent and child are one */
	{ "pm_fork_req", 28, 4, 1 },
	{ "pm_discard_req", 0, 8, 0 },
	{ "pm_discard_req", 8, 4, 0 },
	{ "pm_discard_req", 8, 4, 257 },
	{ "pm_discard_req", 12, 4, 1 },
	{ "pm_discard_req", 16, 8, 0x1001 },             /* not aligned */
	{ "pm_discard_req", 24, 8, 0 },                  /* empty */
	{ "pm_discard_req", 24, 8, 0x3000 },             /* into the next one */
	{ "pm_discard_req", 32, 8, PM_USER_TOP },        /* beyond the end */
	{ "pm_discard_req", 40, 8, 0xfffffffffffff000 }, /* overflow */
	{ "pm_collapse_req", 0, 8, 0 },
	{ "pm_collapse_req", 8, 8, 0 },
	{ "pm_collapse_req", 8, 8, 1 }, /* into itself */
	{ "pm_collapse_req", 16, 4, 257 },
	{ "pm_collapse_req", 20, 4, 1 },
	{ "pm_collapse_req", 32, 8, 1 },
	{ "pm_collapse_req", 48, 8, 0x2000 },
	{ "pm_space_req", 0, 8, 0 },
	{ "pm_space_req", 8, 8, 1 },
	{ "pm_space_req", 8, 8, PM_USER_TOP + 0x1000 },
	{ "pm_space_req", 16, 4, 2 },
	{ "pm_space_req", 28, 4, 1 },
	{ "pm_fetch_req", 0, 8, 0 },
	{ "pm_fetch_req", 8, 8, 0x10001 },
	{ "pm_fetch_req", 8, 8, PM_USER_TOP },
	{ "pm_fetch_req", 16, 8, 8 },    /* line not aligned */
	{ "pm_fetch_req", 28, 4, 8192 }, /* line of two pages */
	{ "pm_fetch_req", 32, 4, 4 },    /* flags */
	{ "pm_fetch_req", 32, 4, 0 },    /* victim fields without a victim */
	{ "pm_fetch_req", 40, 8, 0 },    /* victim of no space */
	{ "pm_fetch_req", 48, 8, 1 },    /* victim not aligned */
	{ "pm_fetch_req", 56, 8, 0 },    /* victim without a number */
	{ "pm_fetch_rep", 0, 4, 3 },
	{ "pm_fetch_rep", 4, 4, 8 },
	{ "pm_fetch_rep", 8, 4, 0 },           /* frames from nobody */
	{ "pm_fetch_rep", 24, 4, 5 },          /* a positive status */
	{ "pm_fetch_rep", 24, 4, 0xfffff000 }, /* no errno */
	{ "pm_fetch_rep", 28, 4, 1 },
	{ "pm_fetch_rep", 0, 4, PM_FETCH_ZERO },       /* the place of no page */
	{ "pm_fetch_rep", 24, 4, (uint32_t)-EREMCHG }, /* the place of no victim */
	{ "pm_fetch_rep", 32, 4, 0 },                  /* a key to no extent */
	{ "pm_fetch_rep", 36, 4, 0 },                  /* an extent without a key */
	{ "pm_fetch_rep", 40, 4, PM_PLACE_FRAMES_MAX },
	{ "pm_fetch_rep", 44, 4, 0 },
	{ "pm_fetch_rep", 52, 4, UINT32_MAX },
	{ "pm_fill_vma_req", 8, 8, 1 },
	{ "pm_fill_vma_rep", 8, 8, PM_USER_TOP + 4096 },
	{ "pm_fill_vma_rep", 16, 8, UINT64_MAX >> 12 },
	{ "pm_fill_vma_rep", 64, 4, 8 },
	{ "pm_fill_vma_rep", 68, 4, 128 },
	{ "pm_fill_vma_rep", 68, 4, PM_VMA_FILE | PM_VMA_LEASE },
	{ "pm_fill_vma_rep", 68, 4, PM_VMA_FILE | PM_VMA_OBJECT },
	{ "pm_fill_vma_rep", 68, 4, PM_VMA_OBJECT }, /* an object with a file's node */
	{ "pm_fill_vma_rep", 68, 4, 0 },             /* a file without the flag */
	{ "pm_fill_vma_rep", 72, 4, 0 },             /* a file without a cache node */
	{ "pm_fill_vma_rep", 76, 4, 1 },
	{ "pm_writeback_req", 8, 4, 0 },
	{ "pm_writeback_req", 8, 4, 17 },
	{ "pm_writeback_req", 12, 4, 4 }, /* zeroes: two pages, and the third is zero */
	{ "pm_writeback_req", 12, 4, 0x80000001 },
	{ "pm_writeback_req", 16, 8, 1 },
	{ "pm_writeback_req", 40, 8, 0 },
	{ "pm_writeback_rep", 16, 4, 1 },
	{ "pm_writeback_rep", 0, 4, (uint32_t)-ENOMEM }, /* the place of no stored page */
	{ "pm_writeback_rep", 4, 4, 0 },
	{ "pm_writeback_rep", 8, 4, 0 },
	{ "pm_writeback_rep", 12, 4, PM_PLACE_FRAMES_MAX },
	{ "pm_credit_req", 0, 8, 0 },
	{ "pm_credit_rep", 0, 8, 0 },
	{ "pm_credit_rep", 12, 4, 1 },
	{ "pm_meminfo_rep", 0, 8, 99 }, /* free and file are more */
	{ "pm_meminfo_rep", 0, 8, UINT64_MAX },
	{ "pm_meminfo_rep", 8, 8, 101 },
	{ "pm_meminfo_rep", 8, 8, UINT64_MAX - 10 },
	{ "pm_meminfo_rep", 16, 8, 41 },
	{ "pm_meminfo_rep", 24, 8, 101 },
	{ "pm_meminfo_rep", 32, 8, (1ull << 44) + 1 },
	{ "pm_meminfo_rep", 40, 8, 101 },
	{ "pm_meminfo_rep", 48, 8, (1ull << 44) + 1 },
	{ "mp_oom_req", 0, 8, PM_COMMITTED_MAX + 1 },
	{ "mp_oom_req", 8, 4, 3 },
	{ "mp_oom_req", 8, 4, 0 },  /* a pid, and not to be ended */
	{ "mp_oom_req", 12, 4, 0 }, /* to be ended, and no pid */
	{ "mp_oom_rep", 16, 4, 0 }, /* a candidate without a pid */
	{ "mp_oom_rep", 20, 4, MP_OOM_NONE },
	{ "mp_oom_rep", 20, 4, MP_OOM_STATES },
	{ "mp_revoke_req", 0, 4, 0 },
	{ "mp_revoke_req", 4, 4, 2 },
	{ "mm_relieve_req", 0, 8, 0 },
	{ "mm_relieve_req", 16, 4, 0 },
	{ "mm_relieve_req", 16, 4, 0x10000 },
	{ "mm_relieve_req", 20, 4, 1 },
	{ "pm_commit", 0, 8, 1ull << 48 },
	{ "pm_commit", 0, 8, UINT64_MAX },
	{ "pm_commit", 8, 4, PM_COMMIT_MODES },
	{ "pm_commit", 12, 4, 1u << 31 },
	{ "pm_commit", 16, 8, 1ull << 63 },
	{ "pm_commit", 24, 8, (1ull << 44) + 1 },
	{ "pm_fetch_ahead_req", 0, 8, 0 },
	{ "pm_fetch_ahead_req", 8, 4, 0 },
	{ "pm_fetch_ahead_req", 8, 4, 33 },
	{ "pm_fetch_ahead_req", 12, 4, 1 },
	{ "pm_fetch_ahead_req", 16, 8, 0x10001 }, /* part of a page */
	{ "pm_fetch_ahead_req", 40, 8, PM_USER_TOP },
	{ "pm_fetch_ahead_req", 24, 8, 0x1001 },
	{ "pm_fetch_ahead_req", 36, 4, 8192 },
	{ "pm_fetch_ahead_rep", 4, 4, 1 },
	{ "pm_file_fetch_req", 12, 4, 0 },
	{ "pm_file_fetch_req", 32, 8, UINT64_MAX >> 12 },
	{ "pm_file_fetch_req", 48, 4, 0 },
	{ "pm_file_fetch_req", 48, 4, 33 },
	{ "pm_file_fetch_req", 52, 4, 1 },
	{ "pm_file_fetch_req", 68, 4, 1 },
	{ "pm_file_fetch_rep", 0, 4, 33 },
	{ "pm_file_fetch_rep", 0, 4, 0 }, /* bytes of no page */
	{ "pm_file_fetch_rep", 4, 4, 0 },
	{ "pm_file_fetch_rep", 4, 4, 4097 },
	{ "pm_file_fetch_rep", 8, 8, 1ull << 63 },
	{ "pm_redirect", 0, 8, 1ull << 40 },
	{ "pm_redirect", 8, 4, 0x10000 },
	{ "pm_destroy_req", 0, 8, 0 },
	{ "mm_map_req", 0, 8, 0 },
	{ "mm_map_req", 88, 8, (PM_USER_TOP >> 12) + 1 }, /* more than a space has */
	{ "mm_map_req", 88, 8, (1ull << 63) + 1 },
	{ "mm_map_req", 96, 4, 4 },  /* phase */
	{ "mm_map_req", 104, 4, 0 }, /* no vRegion */
	{ "mm_map_req", 104, 4, 513 },
	{ "mm_map_req", 108, 4, 20 }, /* too small vRegions */
	{ "mm_map_req", 108, 4, 47 },
	{ "mm_map_req", 112, 4, 0 }, /* no processor */
	{ "mm_map_req", 116, 4, 0 }, /* no vNode */
	{ "mm_map_req", 120, 8, 2 }, /* not ascending */
	{ "mm_map_req", 136, 8, 3 }, /* outside the vma */
	{ "mm_range_rep", 16, 4, 0 },
	{ "mm_range_req", 16, 8, 0 },
	{ "mm_range_req", 24, 8, (PM_USER_TOP >> 12) + 1 },
	{ "mm_range_req", 24, 8, (1ull << 63) + 1 },
	{ "mm_range_req", 36, 4, 4 },
	{ "mm_move_req", 24, 8, 0x1000 }, /* fewer vRegions than named */
	{ "mm_move_req", 36, 4, 64 },
	{ "mm_move_req", 40, 8, 0 }, /* no number */
	{ "mm_move_req", 48, 8, 0 }, /* not the range's */
	{ "mm_move_req", 56, 4, 0 }, /* no owner */
	{ "mm_pages_req", 8, 4, 33 },
	{ "mm_pages_req", 16, 8, 1 },
	{ "mm_vregion_move_req", 16, 4, 0 },
	{ "mm_vregion_move_req", 32, 4, 0 },
	{ "mm_vregion_move_req", 36, 4, 0 },
	{ "mm_expect_req", 0, 8, 0 },
	{ "mm_expect_req", 8, 4, 0x10000 },
	{ "mm_expect_req", 12, 4, 0 },
	{ "mm_expect_req", 12, 4, 0x10000 },
	{ "mm_expect_req", 16, 4, 0 }, /* no vNode */
	{ "mm_expect_req", 20, 4, 1 },
	{ "mm_vregion_take_req", 32, 4, 0 },
	{ "mm_vregion_take_req", 32, 4, 5 },
	{ "mm_vregion_take_req", 32, 4, MM_TAKE_DONE }, /* with vmas */
	{ "mm_vregion_take_req", 44, 4, 0 },            /* no home */
	{ "mm_vregion_take_req", 48, 4, 0 },            /* no processor */
	{ "mm_vregion_take_req", 52, 4, 0 },            /* no vNode */
	{ "mm_vregion_take_req", 56, 8, 0x9ff000 },     /* outside the vRegion */
	{ "mm_fork_req", 0, 8, 0 },
	{ "mm_fork_req", 0, 8, 3 },
	{ "mm_fork_req", 8, 8, 3 },
	{ "mm_fork_req", 28, 4, 4 },
	{ "mm_fork_req", 28, 4, MM_PREPARE },
	{ "mm_load_req", 0, 8, 0 },
	{ "mm_load_req", 12, 4, 20 },
	{ "mm_load_req", 16, 4, 0 },
	{ "mm_load_req", 16, 4, 65 },
	{ "mm_load_req", 20, 4, 0 },
	{ "mm_load_req", 20, 4, 513 },
	{ "mm_load_req", 24, 4, 0 },
	{ "mm_load_req", 28, 4, 0 },           /* no vNode */
	{ "mm_load_req", 112, 8, 0x1f000 },    /* a vma that begins in the one before */
	{ "mm_load_req", 192, 8, 3 },          /* vRegions not ascending */
	{ "mm_load_req", 208, 8, 1ull << 40 }, /* beyond user space */
	{ "mm_file_read_req", 32, 8, 1ull << 63 },
	{ "mm_file_read_req", 40, 4, 0 },
	{ "mm_file_read_req", 40, 4, MM_FILE_READ_MAX + 1 },
	{ "pm_file_open_req", 12, 4, 0 }, /* a file of no node */
	{ "pm_file_open_req", 20, 4, 1 },
	{ "pm_file_state", 0, 8, 1ull << 63 },
	{ "pm_file_state", 24, 4, 1000000000 },
	{ "pm_file_state", 32, 8, 1ull << 63 },
	{ "pm_file_state", 40, 4, 0x10000 },
	{ "pm_file_state", 40, 4, 11 }, /* another node, and a state */
	{ "pm_file_state", 44, 4, 1 },
	{ "pm_file_write_req", 12, 4, 0 },
	{ "pm_file_write_req", 32, 8, 1ull << 63 },
	{ "pm_file_write_req", 48, 4, 1000000000 },
	{ "pm_file_write_req", 52, 4, 64 },             /* flags */
	{ "pm_file_write_req", 52, 4, PM_FILE_EVERY },  /* with pages */
	{ "pm_file_write_req", 52, 4, PM_FILE_INSIDE }, /* with a size */
	{ "pm_file_write_req", 52, 4, PM_FILE_DATASYNC },
	{ "pm_file_write_req", 56, 4, 33 },
	{ "pm_file_write_req", 60, 4, 1 },
	{ "pm_file_write_req", 64, 8, 1ull << 52 },
	{ "pm_file_write_req", 64, 8, INT64_MAX >> PAGE_SHIFT }, /* ends behind INT64_MAX */
	{ "pm_file_write_req", 64, 8, 3 },                       /* not before the next one */
	{ "pm_file_write_req", 72, 2, 1 },                       /* beyond the page */
	{ "pm_file_write_req", 74, 2, 0 },
	{ "pm_file_write_req", 74, 2, 4097 },
	{ "pm_file_write_req", 76, 4, 1 },
	{ "pm_file_change_req", 12, 4, 0 },
	{ "pm_file_change_req", 32, 4, 0 },
	{ "pm_file_change_req", 32, 4, PROTO_FILE_OPS },
	{ "pm_file_change_req", 32, 4, PROTO_FILE_TRUNCATE },  /* with a length */
	{ "pm_file_change_req", 32, 4, PROTO_FILE_APPEND },    /* at an offset */
	{ "pm_file_change_req", 32, 4, PROTO_FILE_SEEK_HOLE }, /* with a length */
	{ "pm_file_change_req", 32, 4, PROTO_FILE_TIME },
	{ "pm_file_change_req", 36, 4, 1 },
	{ "pm_file_change_req", 36, 4, PM_FILE_PRIVILEGED << 1 },
	{ "pm_file_change_req", 36, 4, PM_FILE_AHEAD },    /* of a punch */
	{ "pm_file_change_req", 40, 8, INT64_MAX - 4095 }, /* overflow */
	{ "pm_file_change_req", 48, 8, 0 },
	{ "pm_file_change_req", 64, 4, 1000000000 },
	{ "pm_file_change_req", 68, 4, 1 },
	{ "pm_file_change_req", 72, 8, 0 }, /* half of an id */
	{ "ms_claim_req", 12, 4, 0 },
	{ "ms_file_state", 0, 8, 0 }, /* another node's, and a state */
	{ "ms_file_state", 8, 8, 1ull << 63 },
	{ "ms_file_state", 32, 4, 1000000000 },
	{ "ms_file_state", 36, 4, 0 },
	{ "ms_file_state", 40, 8, 1ull << 63 },
	{ "ms_write_req", 12, 4, 0 },
	{ "ms_write_req", 32, 8, 0 },
	{ "ms_write_req", 40, 8, 2 }, /* behind the end */
	{ "ms_write_req", 40, 8, UINT64_MAX },
	{ "ms_write_req", 48, 8, 1ull << 63 },
	{ "ms_write_req", 64, 4, 1000000000 },
	{ "ms_write_req", 68, 4, 33 },
	{ "ms_write_req", 72, 4, 4 },
	{ "ms_write_req", 72, 4, MS_WRITE_DATASYNC },
	{ "ms_write_req", 76, 4, 1 },
	{ "ms_write_req", 80, 8, 0 },
	{ "ms_change_req", 12, 4, 0 },
	{ "ms_change_req", 32, 8, 0 },
	{ "ms_change_req", 40, 4, PROTO_FILE_APPEND },
	{ "ms_change_req", 40, 4, PROTO_FILE_TIME },
	{ "ms_change_req", 40, 4, PROTO_FILE_ROOM },
	{ "ms_file_state", 48, 8, 4098 }, /* behind the end */
	{ "ms_change_req", 44, 4, 2 },
	{ "ms_change_req", 56, 8, INT64_MAX },
	{ "ms_change_req", 72, 4, 1000000000 },
	{ "ms_change_req", 40, 4, PROTO_FILE_SEEK_HOLE }, /* with pages to keep */
	{ "ms_change_req", 88, 8, 0 },
	{ "ms_release_req", 32, 8, 0 },
	{ "ms_reserve_req", 12, 4, 0 },
	{ "ms_reserve_req", 32, 8, 0 },
	{ "ms_reserve_req", 40, 8, 1ull << 52 },
	{ "ms_reserve_req", 48, 8, 1ull << 52 },
	{ "ms_reserve_req", 56, 4, 0 }, /* a need and no range */
	{ "ms_reserve_req", 56, 4, 257 },
	{ "ms_reserve_req", 60, 4, 0 },
	{ "ms_reserve_req", 60, 4, 17 },
	{ "ms_reserve_req", 64, 4, 2 },
	{ "ms_reserve_req", 68, 4, 1 },
	{ "ms_reserve_rep", 0, 8, 1ull << 52 },
	{ "ms_reserve_rep", 8, 4, 257 },
	{ "ms_reserve_rep", 8, 4, 8 }, /* a bit for a page that is not covered */
	{ "ms_reserve_rep", 12, 4, 1 },
	{ "ms_declare_req", 0, 4, 0 },
	{ "ms_declare_req", 4, 4, 1 },
	{ "ms_read_req", 40, 4, 33 },
	{ "ms_read_req", 44, 4, 1 },
	{ "ms_read_rep", 0, 4, 33 },
	{ "ms_read_rep", 4, 4, 0 },
	{ "proto_attr", 12, 4, 0 },
	{ "proto_attr", 32, 8, 1ull << 63 },
	{ "proto_attr", 84, 4, 1000000000 },
	{ "proto_attr", 96, 4, 0755 }, /* no type */
	{ "proto_attr", 116, 4, 0 },
	{ "proto_attr", 136, 8, 0x90 },
};

static size_t find(const char *name)
{
	size_t i = 0;

	while (i < ARRAY_SIZE(recoders) && strcmp(recoders[i].name, name))
		i++;
	return i;
}

static void changed_fields_are_rejected(struct ktest *t)
{
	for (size_t i = 0; i < ARRAY_SIZE(rejections); i++) {
		const struct rejection *r = &rejections[i];
		const size_t m = find(r->message);
		ssize_t len, got;

		ASSERT_TRUE(t, m < ARRAY_SIZE(recoders));
		len = samples[m]();
		ASSERT_TRUE(t, r->offset + r->size <= len);
		for (uint8_t b = 0; b < r->size; b++)
			buf[r->offset + b] = (uint8_t)(r->value >> 8 * b);
		got = recoders[m].fn(buf, (size_t)len, again);
		if (got != -EPROTO)
			ktest_fail(t, __FILE__, __LINE__, "%s with %#llx at %u: %lld", r->message,
				   (unsigned long long)r->value, r->offset, (long long)got);
	}
}

static void encoders_keep_limits(struct ktest *t)
{
	static struct pm_range_rep rep;
	struct pm_writeback_req wb = { .aspace = 1, .nr_pages = PM_WRITEBACK_MAX_PAGES + 1 };
	struct pm_exec_req exec = { .aspace = 1, .cred = { .nr_groups = PROTO_MAX_GROUPS + 1 } };
	static struct pm_discard_req discard = { .aspace = 1,
						 .nr_ranges = PM_DISCARD_MAX_RANGES + 1 };
	static struct pm_collapse_req collapse = { .from = 1,
						   .into = 2,
						   .nr_ranges = PM_DISCARD_MAX_RANGES + 1 };

	EXPECT_EQ(t, pm_discard_req_encode(&discard, buf, RECODE_MAX), -EMSGSIZE);
	EXPECT_EQ(t, pm_collapse_req_encode(&collapse, buf, RECODE_MAX), -EMSGSIZE);
	rep.nr_vmas = PM_RANGE_MAX_VMAS + 1;
	EXPECT_EQ(t, pm_range_rep_encode(&rep, buf, RECODE_MAX), -EMSGSIZE);
	rep.nr_vmas = 1;
	EXPECT_EQ(t, pm_range_rep_encode(&rep, buf, sizeof(struct pm_range_rep_wire)), -EMSGSIZE);
	EXPECT_EQ(t, pm_writeback_req_encode(&wb, buf, RECODE_MAX), -EMSGSIZE);
	EXPECT_EQ(t, pm_exec_req_encode(&exec, buf, RECODE_MAX), -EMSGSIZE);
}

/* Limits of the id of an object and of its pages, in requests and in vmas. */
static void mappings_of_objects(struct ktest *t)
{
	struct pm_mmap_req req = { .aspace = 1,
				   .len = 0x3000,
				   .pgoff = (PM_USER_TOP >> PAGE_SHIFT) - 3,
				   .object = 77,
				   .flags = PM_MAP_SHARED };
	struct pm_vma vma = { .start = 0x400000,
			      .end = 0x403000,
			      .pgoff = (PM_USER_TOP >> PAGE_SHIFT) - 3,
			      .file_bytes = 5,
			      .object = 77,
			      .flags = PM_VMA_SHARED | PM_VMA_OBJECT };
	struct pm_mmap_req_wire rw;
	struct pm_mmap_req got_req;
	struct pm_vma_wire vw;
	struct pm_vma got;

	pm_mmap_req_encode(&req, &rw);
	ASSERT_EQ(t, pm_mmap_req_decode(&rw, sizeof(rw), &got_req), 0);
	EXPECT_EQ(t, got_req.object, 77);
	EXPECT_EQ(t, got_req.pgoff, req.pgoff);
	req.pgoff++;
	pm_mmap_req_encode(&req, &rw);
	EXPECT_EQ(t, pm_mmap_req_decode(&rw, sizeof(rw), &got_req), -EPROTO);

	pm_vma_encode(&vma, &vw);
	ASSERT_EQ(t, pm_vma_decode(&vw, &got), 0);
	EXPECT_EQ(t, got.object, 77);
	EXPECT_EQ(t, got.file_bytes, 5);
	EXPECT_EQ(t, got.pgoff, vma.pgoff);
	vma.pgoff++;
	pm_vma_encode(&vma, &vw);
	EXPECT_EQ(t, pm_vma_decode(&vw, &got), -EPROTO);
	vma.pgoff = 0;
	vma.object = 0;
	pm_vma_encode(&vma, &vw);
	EXPECT_EQ(t, pm_vma_decode(&vw, &got), -EPROTO);
	vma.object = 77;
	pm_vma_encode(&vma, &vw);
	EXPECT_EQ(t, pm_vma_decode(&vw, &got), 0);
	vw.file.gen = cpu_to_le32(1);
	EXPECT_EQ(t, pm_vma_decode(&vw, &got), -EPROTO);
	vw.file.gen = cpu_to_le32(0);
	vw.file.vnode = cpu_to_le32(1);
	EXPECT_EQ(t, pm_vma_decode(&vw, &got), -EPROTO);
	vw.file.vnode = cpu_to_le32(0);
	vw.file.seal = cpu_to_le64(1);
	EXPECT_EQ(t, pm_vma_decode(&vw, &got), -EPROTO);
}

/* A program in an object comes with its beginning. */
static void exec_of_an_object(struct ktest *t)
{
	struct pm_exec_req req = { .aspace = 1,
				   .vnode = 2,
				   .stack_size = 0x800000,
				   .cred = { 1000, 100, 1, { 4 }, 0 },
				   .object = 9,
				   .storage = 21,
				   .head_len = 5,
				   .head = (const uint8_t *)"\177ELF\2" };
	struct pm_exec_req got;
	ssize_t len = pm_exec_req_encode(&req, buf, sizeof(buf));

	ASSERT_EQ(t, len, 104 + 4 + 5);
	ASSERT_EQ(t, pm_exec_req_decode(buf, (size_t)len, &got), 0);
	EXPECT_EQ(t, got.object, 9);
	EXPECT_EQ(t, got.storage, 21);
	EXPECT_EQ(t, got.head_len, 5);
	EXPECT_MEMEQ(t, got.head, req.head, 5);
	EXPECT_EQ(t, recode_pm_exec_req(buf, (size_t)len, again), len);
	EXPECT_MEMEQ(t, again, buf, (size_t)len);
	EXPECT_EQ(t, pm_exec_req_decode(buf, (size_t)len - 1, &got), -EMSGSIZE);
	buf[88] = 0xff; /* no such node */
	buf[90] = 0xff;
	EXPECT_EQ(t, pm_exec_req_decode(buf, (size_t)len, &got), -EPROTO);
	req.head_len = 0;
	len = pm_exec_req_encode(&req, buf, sizeof(buf));
	EXPECT_EQ(t, pm_exec_req_decode(buf, (size_t)len, &got), -EPROTO);
	req.head_len = PM_EXEC_HEAD_MAX + 1;
	EXPECT_EQ(t, pm_exec_req_encode(&req, buf, sizeof(buf)), -EMSGSIZE);
}

/* The interpreter's path comes last. */
static void exec_with_an_interpreter(struct ktest *t)
{
	static const char path[] = "/jail/lib/ld";
	struct pm_exec_req req = { .aspace = 1,
				   .vnode = 2,
				   .stack_size = 0x800000,
				   .cred = { 0, 0, 1, { 4 }, PROTO_CRED_PLAIN },
				   .file = { 77, 3, 21, 2, 0x5ea1 },
				   .storage = 21,
				   .interp_len = sizeof(path) - 1,
				   .interp = path };
	struct pm_exec_req got;
	ssize_t len = pm_exec_req_encode(&req, buf, sizeof(buf));

	ASSERT_EQ(t, len, 104 + 4 + 12);
	ASSERT_EQ(t, pm_exec_req_decode(buf, (size_t)len, &got), 0);
	EXPECT_EQ(t, got.interp_len, 12);
	EXPECT_MEMEQ(t, got.interp, path, 12);
	EXPECT_EQ(t, recode_pm_exec_req(buf, (size_t)len, again), len);
	EXPECT_MEMEQ(t, again, buf, (size_t)len);
	EXPECT_EQ(t, pm_exec_req_decode(buf, (size_t)len - 1, &got), -EMSGSIZE);
	buf[len - 1] = '\0';
	EXPECT_EQ(t, pm_exec_req_decode(buf, (size_t)len, &got), -EPROTO);
	buf[len - 1] = 'd';
	buf[len - 12] = 'x'; /* not absolute */
	EXPECT_EQ(t, pm_exec_req_decode(buf, (size_t)len, &got), -EPROTO);
	req.interp_len = PROTO_PATH_MAX;
	EXPECT_EQ(t, pm_exec_req_encode(&req, buf, sizeof(buf)), -EMSGSIZE);
}

static void fetch_has_documented_bytes(struct ktest *t)
{
	static const uint8_t want[64] = {
		[0] = 1,     [9] = 0x00,  [10] = 0x01, [17] = 0x60, [18] = 0x45,
		[19] = 0x23, [20] = 0x01, [24] = 0xcd, [25] = 0xab, [29] = 0x10,
		[32] = 3,    [36] = 3,    [40] = 2,    [50] = 0x02, [56] = 8,
	};

	ASSERT_EQ(t, sample_pm_fetch_req(), 64);
	EXPECT_MEMEQ(t, buf, want, sizeof(want));
}

/* Requests that wait for other nodes' declarations leave slots for those that do not. */
static void claims_made_again_find_slots(struct ktest *t)
{
	struct ms_claim_req claim = { .file = { 77, 3, 21, 2, 0x5ea1 } };
	struct ms_reserve_req reserve = { .file = claim.file, .epoch = 8, .nr = 1, .need = 1 };
	struct ms_reserve_req_wire rw;
	struct ms_claim_req_wire cw;

	ms_claim_req_encode(&claim, &cw);
	EXPECT_TRUE(t, proto_ms_waits(MS_CLAIM, &cw, sizeof(cw)));
	EXPECT_FALSE(t, proto_ms_waits(MS_CLAIM, &cw, sizeof(cw) - 1));
	EXPECT_FALSE(t, proto_ms_waits(MS_RELEASE, &cw, sizeof(cw)));
	claim.epoch = 8;
	ms_claim_req_encode(&claim, &cw);
	EXPECT_FALSE(t, proto_ms_waits(MS_CLAIM, &cw, sizeof(cw)));
	ms_reserve_req_encode(&reserve, &rw);
	EXPECT_TRUE(t, proto_ms_waits(MS_RESERVE, &rw, sizeof(rw)));
	reserve.nr = reserve.need = 0;
	ms_reserve_req_encode(&reserve, &rw);
	EXPECT_FALSE(t, proto_ms_waits(MS_RESERVE, &rw, sizeof(rw)));
}

static const struct ktest_case cases[] = {
	KTEST(every_message_there_and_back), KTEST(a_list_of_ended_spaces),
	KTEST(changed_fields_are_rejected),  KTEST(encoders_keep_limits),
	KTEST(mappings_of_objects),          KTEST(exec_of_an_object),
	KTEST(exec_with_an_interpreter),     KTEST(fetch_has_documented_bytes),
	KTEST(claims_made_again_find_slots), { 0 },
};
static const struct ktest_suite suite = { .name = "proto.memory", .cases = cases };
KTEST_SUITE(suite);
