/* SPDX-License-Identifier: MIT */
/* Changes with their numbers: between those that are waited for, and those that are sent later. */
#pragma once

#include <fs/access.h>
#include <lib/list.h>
#include <proto/ps.h>

struct file_id;
struct storage_attr;
struct storage_rename;

enum numbered_state {
	NUMBERED_OPEN,      /* its sender has not decided yet */
	NUMBERED_READY,     /* is to be sent */
	NUMBERED_CANCELLED, /* is not */
};

struct numbered {
	struct list_head link; /* pending.lock */
	uint32_t node;         /* const: that is asked */
	uint64_t seq;
	bool to_end;               /* its answer is waited for by a thread that is killed, too */
	const struct file_id *dir; /* if it makes a file there, or NULL */
	/* behind.c: */
	struct list_head queue;
	enum numbered_state state; /* behind.lock; const once it is not open */
	uint16_t opcode;
	uint32_t len;      /* of the body */
	uint64_t tried_ns; /* when it first failed for a reason that passes; 0: never */
	uint16_t mark;     /* of the file that it changes */
	bool room;         /* it takes one of the node's rooms for names */
	uint8_t body[];
};

/* A number for a change by @cred at @node, and @room bytes for its request.  NULL: no memory. */
struct numbered *change_number(const struct fs_cred *cred, struct ps_change *change, uint32_t node,
			       size_t room);
/* Bytes for a request with two names. */
#define CHANGE_NAMES_MAX \
	(sizeof(struct ps_rename_req_wire) + PROTO_MAX_GROUPS * sizeof(le32_t) + 2 * PS_NAME_MAX)
/* Another one, as the answer to the first is one that stays; also in its body. */
void change_renumber(struct numbered *n);
/* The answer has come, or is not waited for any more: @n is freed. */
void change_answered(struct numbered *n);

/* The request of storage_rename(), without its number. */
struct ps_rename_req change_of_rename(const struct storage_rename *how);
/* The same of storage_setattr(). */
struct ps_setattr_req change_of_attr(const struct file_id *file, const struct storage_attr *how);
