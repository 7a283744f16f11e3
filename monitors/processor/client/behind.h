/* SPDX-License-Identifier: MIT */
/*
 * Removals of names that a storage node is told later, many in one request.
 *
 * While this processor keeps the names of a node (kept.h), and so nobody else sees them, a removal
 * that cannot fail there is done when the name is missing here, and the request follows.
 *
 * Flow:	behind_unlink() -> kept_remove() -> behind_send(), or behind_cancel(). A thread for
 *		each node sends what is there: when it is many, or some ms old, or waited for.
 * Invariants:	the node sees the changes of this processor in their order: no other request is
 *		sent before what was queued before it is answered (behind_flush() in each), nor is
 *		a recall answered. Each has its number, so that it is done once, whatever is
 *		started again. A removal is in the queue before the name is missing here, so that
 *		who finds it missing and asks the node finds the same there.
 * Failure:	want of memory at the node, and its orderly end, are waited for, for storage.wait_s.
 *		A removal that the node refuses, or cannot be told in that time, is logged, all
 *		that is kept goes, and each syncfs, and the next fsync of a directory there, is
 *		-EIO.
 * Limits:	at most BEHIND_MAX are queued for a node; then programs wait.
 */
#pragma once

#include <fs/access.h>
#include <lib/compiler.h>
#include <lib/types.h>

struct file_id;
struct numbered;
struct storage_name;

/*
 * The removal of the name @at of @victim, which no program here uses, by @cred. NULL: no memory, or
 * the caller is killed, or it is switched off: then the node is asked at once. May wait for room.
 * A flush waits from here on until it is sent or cancelled: the caller does not sleep until then.
 */
struct numbered *behind_unlink(const struct fs_cred *cred, const struct storage_name *at,
			       const struct file_id *victim);
/* It is done, as far as programs see. */
void behind_send(struct numbered *n);
/* It is not done here. */
void behind_cancel(struct numbered *n);

/*
 * Wait until @node has answered all that was queued so far: 1; 0 at once when that was nothing;
 * -EINTR, only if @killable.
 */
int behind_flush(uint32_t node, bool killable) __must_check;
/* The same for all nodes: when this processor ends. */
void behind_flush_all(void);
/* Has @node not done something that a program was told is done?  -EIO, until @forget; or 0. */
int behind_error(uint32_t node, bool forget) __must_check;

/* For tests: another answer to vfs.behind; the old one. */
bool behind_switch(bool on);
