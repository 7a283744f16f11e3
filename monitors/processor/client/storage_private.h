/* SPDX-License-Identifier: MIT */
/* Shared by the files that send requests to storage nodes. */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>

struct file_id;

/*
 * Ask @node, behind the changes that it is to be told later (behind.h); one that was started again
 * meanwhile is asked again.  The reply's length, or a
 * negative errno: -EIO also for a node that was away for storage.wait_s; -EINTR.
 */
int storage_call(uint32_t node, uint16_t opcode, const void *body, size_t len, void *reply,
		 size_t max) __must_check;
/* The same; a thread that is killed waits for the answer. */
int storage_call_to_end(uint32_t node, uint16_t opcode, const void *body, size_t len, void *reply,
			size_t max) __must_check;
/* storage_call() to make a file in @dir: attributes of other files may be told behind it. */
int storage_call_in(const struct file_id *dir, uint16_t opcode, const void *body, size_t len,
		    void *reply, size_t max) __must_check;
/* PS_BATCH: the changes that were to be told later. */
int storage_call_behind(uint32_t node, const void *body, size_t len, void *reply, size_t max)
	__must_check;
