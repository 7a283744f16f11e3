/* SPDX-License-Identifier: MIT */
/*
 * Names of vNodes: which processor's socket has which port or abstract name. The table of the node
 * that hosts the managers, as pure code.
 *
 * Flow:	a processor tells each name of its sockets that others must not have as well, and
 *		which of them listen; and asks where one listens. Ports that sockets get without
 *		asking for one come from runs that are leased to the processor.
 * Invariants:	names of one processor never conflict here: it has a table of its own for them. A
 *		processor that has not told all that it has (name_table_report()) gets nothing.
 * Failure:	the table is lost with its node. The processors tell the next one what they have:
 *		two names that conflict then stay both, as their sockets have them.
 * Limits:	a processor has at most so many names as name_table_init() was told.
 * Context:	any; the caller serialises the calls.
 */
#pragma once

#include <lib/compiler.h>
#include <lib/list.h>
#include <lib/types.h>
#include <proto/pg.h>

#define NAMES_BUCKETS 1024u

struct names_node;

struct names {
	struct hlist_head names[NAMES_BUCKETS]; /* by kind and port, or address */
	struct hlist_head ids[NAMES_BUCKETS];   /* by processor and id */
	struct list_head nodes;                 /* struct names_node */
	uint32_t max;                           /* names of one processor */
	uint64_t nr;                            /* names of all sockets */
};

void name_table_init(struct names *n, uint32_t max);
/* Names and leases of processor @node, incarnation @incarn, all or a part: see PG_REPORT. */
int name_table_report(struct names *n, uint32_t node, uint32_t incarn,
		      const struct pg_report_req *report) __must_check;
/* Has it told all that it has? */
bool name_table_knows(const struct names *n, uint32_t node, uint32_t incarn);
/* These answer the errnos that pg.h names. */
int name_table_set(struct names *n, uint32_t node, uint32_t incarn, const struct pg_name *name)
	__must_check;
int name_table_release(struct names *n, uint32_t node, uint32_t incarn,
		       const struct pg_release_req *req) __must_check;
int name_table_lease(struct names *n, uint32_t node, uint32_t incarn,
		     const struct pg_lease_req *req, struct pg_lease_rep *rep) __must_check;
/*
 * The processor, other than @node, whose socket suits best, or whose socket may have the port of
 * the system's choice that a datagram is for; 0: none.
 */
uint32_t name_table_find(const struct names *n, uint32_t node, const struct pg_find_req *req);
/* Forget the processors for which @stays answers false. */
void name_table_keep(struct names *n,
		     bool (*stays)(uint32_t node, uint32_t incarn, const void *arg),
		     const void *arg);

/* --- names_service.c: the messages ------------------------------------------------------- */

struct cluster_view;

int names_service_start(void) __must_check;
/* A new view has been applied: forget those that are not in it. */
void names_service_view(const struct cluster_view *v);
