/* SPDX-License-Identifier: MIT */
/*
 * Messages about pages, to the nodes that have them: the owner of an anonymous or shared page, or
 * the node with a file's page cache.
 *
 * Flow:	owner_*_prepare() fills in the request of a call but for its callbacks; the caller
 *		submits it, and has the answer decoded when the call is done. The buffers of a
 *		message live until the call is released.
 * Context:	any, but for those that say that they sleep or allocate.
 * Failure:	answers are hostile: -EMSGSIZE, -EPROTO.
 */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>
#include <net/rpc.h>

#include "ahead.h"
#include "places.h"

struct line;
struct object;
struct vregion;

/* Frames that a node has granted with an answer, after the report @report: see credit.h. */
struct granted {
	uint32_t node;
	uint32_t frames;
	uint64_t report;
};

/* --- one page from its owner --------------------------------------------------------- */

struct fetch_msg {
	uint64_t body[8];
	uint64_t reply[7];   /* or whom to ask instead: for object_redirected() */
	struct rpc_sge bulk; /* the victim; of a read, the line */
};

enum fetch_result {
	FETCH_DATA, /* the page is in the line */
	FETCH_ZERO, /* anonymous and never written */
	FETCH_FILE, /* private and never written: the page of the file or object behind it */
};

struct fetch_answer {
	enum fetch_result result;
	int victim_err; /* 0: the victim is stored */
	struct owner_place place, victim_place;
	struct granted granted;
};

/* Page @pgoff of @obj from @owner into @line; @victim, if not NULL, goes there with it. */
void owner_fetch_prepare(struct rpc_call *call, struct fetch_msg *msg, uint32_t owner,
			 const struct object *obj, uint64_t pgoff, struct line *line,
			 struct line *victim);
int owner_fetch_answer(const struct fetch_msg *msg, size_t len, struct fetch_answer *out)
	__must_check;
/* The same page without a request, @from. @msg has the target alone. */
void owner_read_prepare(struct rpc_call *call, struct fetch_msg *msg, const struct read_place *from,
			struct line *line);
/* The body of an answer -EREMCHG: entry *@index of the vRegion array. */
int owner_redirect_decode(const void *body, size_t len, uint64_t *index, struct vregion *out)
	__must_check;

/* --- several pages from their owner, ahead ------------------------------------------- */

struct ahead_msg {
	uint64_t body[2 + 3 * AHEAD_MAX];
	uint64_t reply[1];
};

/*
 * Neighbouring frames, from @from on, into @lines, one each; @sges, one for each line as well, is
 * used until the call is submitted.
 */
void owner_read_ahead_prepare(struct rpc_call *call, struct rpc_sge *sges,
			      const struct read_place *from, struct line *const *lines,
			      uint32_t nr);
/* The pages of @lines, of @obj, from @owner. */
void owner_ahead_prepare(struct rpc_call *call, struct ahead_msg *msg, uint32_t owner,
			 const struct object *obj, struct line *const *lines, uint32_t nr);
/* *@sent: a bit for each of the @nr pages that has come. */
int owner_ahead_answer(const struct ahead_msg *msg, size_t len, uint32_t nr, uint32_t *sent)
	__must_check;

/* --- pages of a file ----------------------------------------------------------------- */

#define FILE_FETCH_MAX 32

struct file_fetch_msg {
	uint64_t body[7 + 2 * FILE_FETCH_MAX];
	uint64_t reply[2];
};

/* @nr pages of @obj from @pgoff on into @lines. -ENOMEM. */
int owner_file_fetch_prepare(struct rpc_call *call, struct file_fetch_msg *msg,
			     const struct object *obj, uint64_t pgoff, struct line *const *lines,
			     uint32_t nr, enum rpc_class cls) __must_check;
/* *@nr_valid: how many of the pages the file has. */
int owner_file_fetch_answer(const struct file_fetch_msg *msg, size_t len, uint32_t *nr_valid)
	__must_check;

/* --- pages back to their owner ------------------------------------------------------- */

#define WRITEBACK_MAX 16

struct writeback_msg {
	uint64_t body[2 + 2 * WRITEBACK_MAX];
	uint64_t reply[2 * WRITEBACK_MAX + 2];
	struct rpc_sge bulk[WRITEBACK_MAX];
};

struct writeback_answer {
	int status[WRITEBACK_MAX]; /* of each page; -EREMCHG: it has another owner */
	struct owner_place places[WRITEBACK_MAX];
	struct granted granted;
};

/* @nr lines of @obj to @owner. */
void owner_writeback_prepare(struct rpc_call *call, struct writeback_msg *msg, uint32_t owner,
			     const struct object *obj, struct line *const *lines, uint32_t nr);
int owner_writeback_answer(const struct writeback_msg *msg, size_t len, uint32_t nr,
			   struct writeback_answer *out) __must_check;

/* --- frame credits ------------------------------------------------------------------- */

struct report_msg {
	uint64_t body[2];
	uint64_t reply[2];
};

/* Report number @report to @node: @hold credits are here, and @want more are wanted. */
void owner_report_prepare(struct rpc_call *call, struct report_msg *msg, uint32_t node,
			  uint64_t report, uint32_t hold, uint32_t want);
/* *@frames: all that are reserved for this processor now. */
int owner_report_answer(const struct report_msg *msg, size_t len, uint32_t *frames) __must_check;
