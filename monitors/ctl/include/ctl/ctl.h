/* SPDX-License-Identifier: MIT */
/*
 * Control service: a node's end of the control channel, the same for every role.
 *
 * Flow:	ctl_start() -> HELLO; a reader thread decodes frames and calls the monitor's ops
 *		table; a processor monitor answers RUN by starting a task whose descriptors 0-2 use
 *		ctl_stream_read() and ctl_stream_write(), and ends it with ctl_prog_exit() or
 *		ctl_prog_lost().
 * Context:	everything here may sleep, except where it says otherwise.
 * Invariants:	a struct ctl_prog is counted. ops->run() is given one reference, which it keeps for
 *		the program's main task and returns through ctl_prog_exit(), ctl_prog_lost() or
 *		ctl_prog_refuse();
 *		each open file description that refers to a stream holds another.
 * Failure:	no channel (the node was booted without one): ctl_start() answers -ENODEV and every
 *		other call does nothing. A peer that breaks the protocol ends the channel: readers
 *		see end of file, writers see -EPIPE.
 * See:		docs/protocol/control.md
 */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>
#include <proto/control.h>

struct ctl_prog;
struct waitqueue;

struct ctl_ops {
	/*
	 * Start a program. @run and its strings are valid until return. Runs on a thread of its
	 * own, so it may take as long as it needs. It consumes the reference to @prog, success or
	 * not, by way of ctl_prog_exit() or ctl_prog_refuse(), now or later. NULL: the role runs
	 * no programs.
	 */
	void (*run)(struct ctl_prog *prog, const struct ctl_run *run);

	/*
	 * Deliver @signo to the program. On the reader thread: must not wait for a peer. May be
	 * NULL.
	 */
	void (*signal)(struct ctl_prog *prog, uint32_t signo);

	/* The terminal has a new size.  As signal(). */
	void (*winsize)(struct ctl_prog *prog, const struct ctl_winsize *ws);

	/*
	 * A test command.  Write an answer of at most @cap - 1 bytes into @reply and return 0 or a
	 * negative errno; -ENOSYS if the command is not known.  Runs on a thread of its own.
	 */
	int (*debug)(const char *cmd, char *reply, size_t cap);

	/*
	 * Where shall a program of @vnode run? The id of a processor node, or a negative errno. On
	 * the reader thread: must not wait for a peer. NULL: this node has no managers (-ENOSYS).
	 */
	int (*place)(uint32_t vnode, uint32_t *node);

	/*
	 * The launcher knows that the machine in which that incarnation of a node ran has ended. On
	 * the reader thread: must not wait for a peer. NULL: this node does not care.
	 */
	void (*lost)(uint32_t node, uint32_t incarn);

	/* Quiesce before power off.  May be NULL. */
	void (*shutdown)(void);
};

/* Poll bits, as poll(2) has them. */
#define CTL_POLLIN  0x001
#define CTL_POLLOUT 0x004
#define CTL_POLLERR 0x008
#define CTL_POLLHUP 0x010

/*
 * Open the channel, send HELLO and begin to serve.  @incarn is this node's incarnation, by which
 * members know it too. @ops must stay valid for ever.
 * -ENODEV: there is no control port.
 */
int __must_check ctl_start(enum ctl_role role, uint32_t node, uint32_t incarn,
			   const struct ctl_ops *ops);

/* The cluster is complete. */
void ctl_ready(const struct ctl_ready *ready);

/* These are the members of the cluster: from the node that hosts the managers. */
void ctl_members(const struct ctl_members *m);

/* This processor is the gateway of its vNode from now on: published ports lead here. */
void ctl_gateway(void);
/*
 * The gateway's addresses, @nr of them, of CTL_ADDRESS_LEN bytes each, IPv4 ones mapped; all that
 * there are. At most CTL_MAX_ADDRESSES.
 */
void ctl_addresses(const uint8_t (*addrs)[16], uint32_t nr);

/* One line: what the node is doing or waiting for.  Also goes to the log. */
void ctl_status(const char *fmt, ...) __printf(1, 2);

/*
 * One line: Tessera failed and the launcher must give up (exit status 125). Also goes to the log.
 */
void ctl_error(const char *fmt, ...) __printf(1, 2);

struct ctl_prog *ctl_prog_get(struct ctl_prog *prog);
void ctl_prog_put(struct ctl_prog *prog);
uint32_t ctl_prog_id(const struct ctl_prog *prog);

/* A word for the monitor's own use: what the signal and winsize handlers need to find the task. */
void ctl_prog_set_private(struct ctl_prog *prog, void *private);
void *ctl_prog_private(struct ctl_prog *prog);

/* The program's first instruction is about to run. */
void ctl_prog_started(struct ctl_prog *prog, uint32_t pid);

/*
 * The program cannot be started: @err is a negative errno, the text one line for the user (may be
 * NULL).  Consumes the reference.
 */
void ctl_prog_refuse(struct ctl_prog *prog, int err, const char *text);

/*
 * The program has ended with @wait_status (Linux's encoding). Everything that its tasks wrote
 * before this call reaches the launcher first. Consumes the reference.
 */
void ctl_prog_exit(struct ctl_prog *prog, uint32_t wait_status);

/*
 * The system, not the program, was the reason why it had to end: the launcher answers 125 and shows
 * @line. Else as ctl_prog_exit().
 */
void ctl_prog_lost(struct ctl_prog *prog, const char *line);

/*
 * Read from stream 0 into kernel memory: bytes read, 0 at end of file, -EAGAIN if @nonblock and
 * nothing is there, -EINTR if the thread is being killed.
 */
ssize_t __must_check ctl_stream_read(struct ctl_prog *prog, void *buf, size_t len, bool nonblock);

/*
 * Write to stream 1 or 2: bytes taken (less than @len only if @nonblock or killed part way),
 * -EPIPE if the launcher does not read any more (the caller raises SIGPIPE), -EAGAIN, -EINTR as
 * above.
 */
ssize_t __must_check ctl_stream_write(struct ctl_prog *prog, unsigned int stream, const void *buf,
				      size_t len, bool nonblock);

/* The CTL_POLL* bits that hold now for a stream; does not sleep. */
unsigned int ctl_stream_poll(struct ctl_prog *prog, unsigned int stream);

/* Woken at every change of ctl_stream_poll(). */
struct waitqueue *ctl_stream_waitqueue(struct ctl_prog *prog, unsigned int stream);

/* The last descriptor of a stream was closed: says EOF to the launcher.  Once. */
void ctl_stream_close(struct ctl_prog *prog, unsigned int stream);
