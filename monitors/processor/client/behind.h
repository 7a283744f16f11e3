/* SPDX-License-Identifier: MIT */
/*
 * Removals of names, renames and changes of attributes that a storage node is told later, many in
 * one request.
 *
 * While this processor keeps the names of a node (kept.h), and so nobody else sees them, a change
 * that cannot fail there is done when what is kept has changed, and the request follows.
 *
 * Flow:	behind_unlink() -> kept_remove(), behind_rename() -> kept_rename(),
 *		behind_setattr() -> kept_set() -> behind_send(), or behind_cancel(). A thread for
 *		each node sends what is there: when it is many, or some ms old, or waited for.
 * Invariants:	the node sees the changes of this processor in their order: no other request is
 *		sent before what was queued before it is answered (behind_flush() in each), nor is
 *		a recall answered. Only a file is made before attributes of others that wait. Each
 *		has its number, so that it is done once, whatever is started again. A change is in
 *		the queue before it is seen here, so that who sees it and asks the node sees the
 *		same there.
 *		Memory nodes send the times of writes to the storage node by themselves: a write to
 *		a file whose attributes wait in the queue is sent behind these.
 *		A name that comes has room there, which the node has kept before: a part of what
 *		it keeps for names to come (PS_BATCH). That is asked for when a name comes, and
 *		given back when none has come for some time, or somebody finds the disk full.
 * Failure:	want of memory at the node, and its orderly end, are waited for, for storage.wait_s.
 *		A change that the node refuses, or cannot be told in that time, is logged, all
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
struct storage_attr;
struct storage_name;
struct storage_rename;

/*
 * The removal of the name @at of @victim, which no program here uses, by @cred. NULL: no memory, or
 * the caller is killed, or it is switched off: then the node is asked at once. May wait for room.
 * A flush, and other changes there, wait from here on until this thread has sent or cancelled it:
 * it waits for no other thread until then.
 */
struct numbered *behind_unlink(const struct fs_cred *cred, const struct storage_name *at,
			       const struct file_id *victim);
/* The same of the change @how of the attributes of @file: nothing that the node has to fill in. */
struct numbered *behind_setattr(const struct fs_cred *cred, const struct file_id *file,
				const struct storage_attr *how);
/*
 * The same of a rename that replaces nothing, or a file that no program here uses, by how->unused.
 * NULL also if the node has not kept room for the name: it is asked to. *@how says so afterwards.
 */
struct numbered *behind_rename(const struct fs_cred *cred, struct storage_rename *how);
/* It is done, as far as programs see. */
void behind_send(struct numbered *n);
/* It is not done here. */
void behind_cancel(struct numbered *n);

/*
 * Wait until @node has answered all that was queued so far: 1; 0 at once when that was nothing;
 * -EINTR, only if @killable.
 */
int behind_flush(uint32_t node, bool killable) __must_check;
/* Until what was queued of the attributes of @file is answered: 0; -EINTR. */
int behind_flush_attr(const struct file_id *file) __must_check;
/* The same of what may matter to a file that is made in @dir. */
int behind_flush_dir(const struct file_id *dir) __must_check;
/* The room that @node has kept is none any more: it has taken the names back. */
void behind_forget_rooms(uint32_t node);
/*
 * Give back the room that @node keeps for names to come, as another one needs it: 1, or 0 if there
 * is none.  -EINTR.
 */
int behind_give_rooms(uint32_t node) __must_check;
/* behind_flush() of all nodes: when this processor ends. */
void behind_flush_all(void);
/* Has @node not done something that a program was told is done?  -EIO, until @forget; or 0. */
int behind_error(uint32_t node, bool forget) __must_check;

/* vfs.behind */
bool behind_is_on(void) __must_check;
/* For tests: another answer to vfs.behind; the old one. */
bool behind_switch(bool on);
/* Rooms are kept for @ns after the last name has come; the time before. */
uint64_t behind_keep_rooms(uint64_t ns);
