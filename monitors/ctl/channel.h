/* SPDX-License-Identifier: MIT */
/*
 * Control service: what its two files share.
 *
 * ctl.c:	the channel: frames in and out, and what concerns the node.
 * prog.c:	programs and their streams.
 */
#pragma once

#include <ctl/ctl.h>
#include <lib/compiler.h>
#include <lib/types.h>
#include <proto/control.h>

/*
 * Send one frame, or several with MORE when @len is above CTL_MAX_PAYLOAD. Sleeps. -EPIPE once the
 * channel is down.
 */
int ctl_send(enum ctl_type type, unsigned int stream, uint32_t prog, const void *payload,
	     size_t len);

const struct ctl_ops *ctl_ops(void);

/*
 * Frames of programs, from the reader thread.  0 or -EPROTO with *why set.  @payload is the whole
 * payload; a RUN's becomes the callee's (vfree) unless an error is returned.
 */
int prog_run(uint32_t id, void *payload, size_t len, const char **why) __must_check;
int prog_frame(const struct ctl_hdr *hdr, const void *payload, const char **why) __must_check;

/* Wake all threads that wait for a stream: the channel has gone down. */
void prog_channel_down(void);
