/* SPDX-License-Identifier: MIT */
/*
 * Ancillary data as programs write and read it.
 */
#pragma once

#include "socket.h"

/* The wishes of one sendmsg(), from its ancillary data. */
struct cmsg_request {
	struct linux_ucred cred;
	bool has_cred;
	uint32_t nr_fds;
	int fds[LINUX_SCM_MAX_FD];
	struct inet_wish wish4, wish6;
};

/*
 * Decode @len bytes, which a program gave a socket of @family. -EINVAL: a header or a length is
 * wrong, there are too many descriptors, or the kind is none of that family.
 */
int cmsg_decode(const void *buf, size_t len, uint16_t family, struct cmsg_request *out)
	__must_check;

/* Where recvmsg() puts ancillary data. */
struct cmsg_sink {
	uint64_t at;   /* user address */
	uint64_t left; /* room */
	uint64_t used;
	uint32_t told; /* MSG_CTRUNC */
	int err;       /* -EFAULT */
};
void cmsg_put(struct cmsg_sink *sink, int level, int type, const void *data, uint32_t len);
/* Descriptors for the files of @fds, which it frees. */
void cmsg_put_fds(struct cmsg_sink *sink, struct scm_fds *fds, bool cloexec);
