/* SPDX-License-Identifier: MIT */
/*
 * Start of a monitor: what every role does in the same order, with the role's own steps in between.
 *
 * Flow:	control channel (so that every failure below can be told) -> prepare() -> RDMA
 *		device -> RPC -> serve() -> join the cluster and wait until it is complete ->
 *		complete() -> READY.
 * Context:	one start thread, which ends when the node is ready; the steps may sleep.
 * Failure:	one line to the launcher and the log; the node stays up, so that its log and
 *		counters can be read, but runs and serves nothing.
 */
#pragma once

#include <cluster/cluster.h>
#include <ctl/ctl.h>
#include <lib/compiler.h>
#include <net/node.h>

/* Stays valid for ever, and so does all it points to. */
struct monitor {
	const char *name; /* the role, in words */
	enum ctl_role ctl_role;
	enum node_role role;
	const struct ctl_ops *ctl;
	const struct cluster_ops *cluster;
	/*
	 * The steps that need no network. 0, or a negative errno that ctl_error() has told. May be
	 * NULL.
	 */
	int (*prepare)(void);
	/*
	 * Make ready all that peers may ask for. 0, or a negative errno, which the caller tells.
	 */
	int (*serve)(void);
	/* The cluster is complete.  May be NULL. */
	void (*complete)(void);
};

/* From an initcall: start the thread.  0, or -ENOMEM. */
int monitor_start(const struct monitor *m) __must_check;

/* For the status and fenced members of its cluster_ops. */
void monitor_status(const char *line);
void monitor_fenced(const char *why);
