/* SPDX-License-Identifier: MIT */
/* For tests and fuzzers: the messages of <proto/ps.h>, as recode_kit_test.h makes them. */
#pragma once

#include <proto/ps.h>

#include "recode_kit_test.h"

#define RECODE_MAKE(name, opcode)                                                         \
	static ssize_t recode_##name(const void *buf, size_t len, uint8_t *out)           \
	{                                                                                 \
		static struct ps_make_req decoded;                                        \
		const int err = ps_make_req_decode(opcode, buf, len, &decoded);           \
                                                                                          \
		return err ? err : ps_make_req_encode(opcode, &decoded, out, RECODE_MAX); \
	}

RECODE_MAKE(create, PS_CREATE)
RECODE_MAKE(mkdir, PS_MKDIR)
RECODE_MAKE(mknod, PS_MKNOD)
RECODE_MAKE(symlink, PS_SYMLINK)
RECODE_MAKE(tmpfile, PS_TMPFILE)
RECODE_VARIABLE(ps_path_req)
RECODE_FIXED_AS(ps_file_req, struct proto_file, ps_file_req_decode, ps_file_req_encode,
		struct ps_file_req_wire)
RECODE_FIXED(ps_getdents_req)
RECODE_FIXED(ps_statfs)
RECODE_VARIABLE(ps_link_req)
RECODE_VARIABLE(ps_remove_req)
RECODE_VARIABLE(ps_rename_req)
RECODE_FIXED(ps_removed_rep)
RECODE_VARIABLE(ps_setattr_req)
RECODE_VARIABLE(ps_setxattr_req)
RECODE_VARIABLE(ps_getxattr_req)
RECODE_VARIABLE(ps_fallocate_req)
RECODE_VARIABLE(ps_close_req)
RECODE_VARIABLE(ps_declare_req)
RECODE_FIXED(ps_fsync_req)
RECODE_VARIABLE(ps_find_req)
RECODE_VARIABLE(ps_batch_req)
RECODE_VARIABLE(ps_batch_rep)
RECODE_FIXED(ps_keep_req)
RECODE_FIXED(ps_keep_rep)
RECODE_FIXED(ps_lock_req)
RECODE_FIXED(ps_lock_rep)
RECODE_VARIABLE(ps_locks_req)
RECODE_FIXED(ps_lock_events_req)
RECODE_VARIABLE(ps_lock_events_rep)

static const struct {
	const char *name;
	recode_fn fn;
} ps_recoders[] = {
	{ "create", recode_create },
	{ "mkdir", recode_mkdir },
	{ "mknod", recode_mknod },
	{ "symlink", recode_symlink },
	{ "tmpfile", recode_tmpfile },
	{ "link", recode_ps_link_req },
	{ "remove", recode_ps_remove_req },
	{ "rename", recode_ps_rename_req },
	{ "removed", recode_ps_removed_rep },
	{ "setattr", recode_ps_setattr_req },
	{ "setxattr", recode_ps_setxattr_req },
	{ "getxattr", recode_ps_getxattr_req },
	{ "fallocate", recode_ps_fallocate_req },
	{ "close", recode_ps_close_req },
	{ "declare", recode_ps_declare_req },
	{ "fsync", recode_ps_fsync_req },
	{ "find", recode_ps_find_req },
	{ "batch", recode_ps_batch_req },
	{ "batch reply", recode_ps_batch_rep },
	{ "keep", recode_ps_keep_req },
	{ "keep reply", recode_ps_keep_rep },
	{ "lock", recode_ps_lock_req },
	{ "lock reply", recode_ps_lock_rep },
	{ "locks", recode_ps_locks_req },
	{ "events", recode_ps_lock_events_req },
	{ "events reply", recode_ps_lock_events_rep },
	{ "path", recode_ps_path_req },
	{ "file", recode_ps_file_req },
	{ "getdents", recode_ps_getdents_req },
	{ "statfs", recode_ps_statfs },
};
