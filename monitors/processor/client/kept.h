/* SPDX-License-Identifier: MIT */
/*
 * Names and attributes of storage nodes' files that this processor keeps.
 *
 * A storage node lets one processor keep what it was told (PS_KEEP), until it takes that back
 * (SP_RECALL), which it does before another processor's first request. So what is kept is what the
 * node would answer, as long as this processor's own changes are entered here.
 *
 * Flow:	an answer: kept_begin() -> the request -> kept_fill_*(). A change: kept_change() ->
 *		kept_change_file(), _name() for all that it may change -> the request -> the fills
 *		of what is known afterwards -> kept_change_end().
 * Invariants:	names are kept by (directory, name), attributes by file, so hard links share them.
 *		A fill counts only if the node had allowed it when the request was made, and nothing
 *		that it tells was changed since: answers may overtake each other.
 *		Of a *whole* directory all names are kept: what is not here is not there.
 *		A symbolic link's target never changes, so it is kept with the link's attributes,
 *		as long as these are.
 * Context:	none of this sleeps but kept_ask() and kept_recall(); any thread.
 * Limits:	vfs.names bytes; what was not used for longest goes, and more when memory is short.
 */
#pragma once

#include <lib/compiler.h>

#include "file_attr.h"

enum kept_what {         /* of attributes is known */
	KEPT_RIGHTS = 1, /* type, mode, owner, flags, and whether there is an access list */
	KEPT_ALL = 2,    /* all of them: the answer of stat(2) */
};

enum kept_found {
	KEPT_UNKNOWN,
	KEPT_MISSING, /* nothing has that name */
	KEPT_FOUND,
};

/* A request whose answer may be kept. */
struct kept_ticket {
	uint32_t node;
	bool allowed;
	uint64_t gen, now;
};

/* Storage node @node is one of those whose files are kept. Once for each. -ENOMEM */
int kept_add(uint32_t node) __must_check;
/*
 * Ask @node whether names may be kept, unless it allows that already or has refused it just before.
 * Sleeps.
 */
void kept_ask(uint32_t node);
/* There is a new view: the node may answer otherwise than before. */
void kept_view_changed(void);
/* The node has taken it back, or was started again; or it is not known what it has done. */
void kept_drop(uint32_t node);

/*
 * Is this processor alone with the files of @node, as far as that has told? Then it is until
 * kept_release(): SP_RECALL is not answered before. The number of the grant, or 0: between two
 * answers that are the same no other processor was there.
 */
uint64_t kept_hold(uint32_t node) __must_check;
void kept_release(uint32_t node);
/*
 * kept_drop() for SP_RECALL; until no thread holds it, and what was written in the belief that no
 * other processor is there has been sent. -EINTR: the node has given up, and goes on without us.
 */
int kept_recall(uint32_t node) __must_check;
/* @flush sends what was so written to files of @node; called again until it is 0 or -EINTR. */
void kept_set_flush(int (*flush)(uint32_t node));

void kept_begin(struct kept_ticket *t, uint32_t node);
void kept_fill_attr(const struct kept_ticket *t, const struct file_attr *attr, enum kept_what what);
/* @file NULL: nothing has the name. */
void kept_fill_name(const struct kept_ticket *t, const struct file_id *dir, const char *name,
		    size_t len, const struct file_id *file);

/* The target of @link, whose attributes are kept, and which the request has found by that name. */
void kept_fill_link(const struct kept_ticket *t, const struct file_id *dir, const char *name,
		    size_t name_len, const struct file_id *link, const char *target, size_t len);

/* The length of the target of @link, of which at most @size bytes are copied; 0: not known. */
size_t kept_link(const struct file_id *link, char *buf, size_t size) __must_check;
/* Are at least @what of the attributes of @file here? */
bool kept_attr(const struct file_id *file, enum kept_what what, struct file_attr *out);
/* *@file: as attributes name it. */
enum kept_found kept_name(const struct file_id *dir, const char *name, size_t len,
			  struct file_id *file);

/* --- changes of this processor ------------------------------------------------------------- */

#define KEPT_FILES 4
#define KEPT_NAMES 2

struct kept_change {
	struct kept_ticket ticket;
	uint32_t nr_files, nr_names;
	bool moves;
	struct file_id files[KEPT_FILES];
	struct {
		const struct file_id *dir;
		const char *name;
		size_t len;
		bool is_filled;
	} names[KEPT_NAMES];
};

void kept_change(struct kept_change *c, uint32_t node);
/* @left: what of the attributes is as before, or 0. */
void kept_change_file(struct kept_change *c, const struct file_id *file, enum kept_what left);
/* @dir and @name are valid until the end of the change. */
void kept_change_name(struct kept_change *c, const struct file_id *dir, const char *name,
		      size_t len);
/* Files below a directory are found elsewhere afterwards. */
void kept_change_moves(struct kept_change *c);
/* Before the end, of what the change has named. */
void kept_change_fill_attr(struct kept_change *c, const struct file_attr *attr,
			   enum kept_what what);
void kept_change_fill_name(struct kept_change *c, size_t i, const struct file_id *file);
/* A new directory, whose attributes have been filled in, has no names. */
void kept_change_is_empty(struct kept_change *c, const struct file_id *dir);
/* Does @err leave open whether the node has done what it was asked for, or will? */
bool kept_is_in_doubt(int err) __must_check;
/* @err: what the request was answered. When that leaves open what was done, all is dropped. */
void kept_change_end(struct kept_change *c, int err);

/*
 * Is it known that @victim has the name in @dir, and does nothing change that just now, does no
 * access list of @dir have a say, and are the rights of both files those that the caller has
 * checked?  Then the name is missing from now on, and the caller sees to it that the node does the
 * same.  Of both files the rights are left.
 */
bool kept_remove(const struct file_attr *dir, const char *name, size_t len,
		 const struct file_attr *victim) __must_check;
/*
 * Are the rights of the file those of @old, which the caller has checked, and may they be kept?
 * Then they are those of @now from here on, and the caller sees to it that the node does the same.
 * Of the other attributes nothing is known any more.
 */
bool kept_set(const struct file_attr *old, const struct file_attr *now) __must_check;
/*
 * The same of a rename of a file that is no directory.  @target NULL: is it known that nothing has
 * the name in @to?  Else that it has it; then the name is @source's.  Allocates.
 */
struct kept_rename {
	const struct file_attr *from_dir, *to_dir, *source, *target;
	const char *from, *to;
	size_t from_len, to_len;
};
bool kept_rename(const struct kept_rename *r) __must_check;
/* Does @node let this processor keep names? */
bool kept_is_allowed(uint32_t node) __must_check;

/* A request that changes the contents of @file begins, and can change nothing any more. */
void kept_write_begin(const struct file_id *file);
void kept_write_end(const struct file_id *file);
/* Changes that have ended so far. */
uint64_t kept_now(void);
/* @file has gone with its last name, as no program here used it: before its inode goes. */
void kept_gone(const struct file_id *file);
/*
 * Has @file gone since kept_now() was @since?  True, too, if that was one of the few files that
 * share a mark with it: look again.
 */
bool kept_is_gone(const struct file_id *file, uint64_t since) __must_check;
/*
 * Has no program here written to @file, or cut it, since kept_now() was @since? False, too, if that
 * was one of the few files that share a mark with it.
 */
bool kept_is_unwritten(const struct file_id *file, uint64_t since) __must_check;
