/* SPDX-License-Identifier: MIT */
/*
 * System call tracing: one log line for each call,
 *
 *	tid name(arguments) = result <time> served by
 *
 * where the last part is "local", or each node that got requests of the call, and how many.
 *
 * Flow:	a line is written in one piece when the call ends, so lines of several threads do
 *		not mix, and the time of the log is that of the end. A call that does not return
 *		(exit) is logged when it begins.
 * Limits:	only requests that the calling thread sends during the call are counted, page faults
 *		of the kernel's accesses included; not those that other threads send later on its
 *		behalf (write-back).
 * See:		strace_args.c prints the arguments.
 */
#define PR_FMT "strace: "

#include "strace.h"

#include <abi/fcntl.h>
#include <arch/cpu.h>
#include <kernel/bootparam.h>
#include <kernel/initcall.h>
#include <kernel/panic.h>
#include <kernel/preempt.h>
#include <kernel/printk.h>
#include <kernel/time.h>
#include <lib/errno.h>
#include <lib/fmt.h>
#include <lib/string.h>
#include <net/rpc.h>
#include <processor/client/nodes.h>
#include <processor/process/process.h>

#include "strace_private.h"

#define ARGS_MAX  320 /* a line of the log has 480 */
#define TAIL_MAX  120
#define NODES_MAX 6 /* named in a line; the others are summed up */

/* Requests of one call, by node. */
struct strace_call {
	struct {
		uint32_t node;
		uint32_t count;
		const char *role;
	} nodes[NODES_MAX];
	uint32_t nr_nodes;
	uint32_t others;
};

bool strace_on;
BOOT_PARAM("strace", bool, strace_on, "log every system call");

/* The calling thread sends a request. */
static void count_request(uint32_t node, uint16_t opcode)
{
	const char *role = node_part_serving(opcode);
	struct strace_call *call;
	uint32_t i;

	if (in_interrupt() || !thread_current()->user.pgtable)
		return;
	call = task_current()->strace;
	if (!call)
		return;
	ASSERT(call->nr_nodes <= NODES_MAX);
	for (i = 0; i < call->nr_nodes; i++) {
		if (call->nodes[i].node == node && call->nodes[i].role == role) {
			call->nodes[i].count++;
			return;
		}
	}
	if (i == NODES_MAX) {
		call->others++;
		return;
	}
	call->nodes[i].node = node;
	call->nodes[i].role = role;
	call->nodes[i].count = 1;
	call->nr_nodes++;
}

static void put_result(struct strace_text *t, const char *name, const struct syscall_args *args,
		       long ret)
{
	if (ret <= -ERESTARTSYS && ret >= -ERESTART_RESTARTBLOCK) {
		strace_put(t, "? (interrupted by a signal)");
	} else if (ret < 0 && ret > -4096) {
		strace_put(t, "-1 ");
		strace_put_value(t, (uint64_t)-ret, strace_errnos);
	} else if (strcmp(name, "fcntl") == 0 && (int)args->a[1] == F_GETFL) {
		strace_put(t, "%#lx (flags ", ret);
		strace_put_flags(t, (uint64_t)ret, strace_open_flags, "O_RDONLY");
		strace_put(t, ")");
	} else if (strcmp(name, "brk") == 0 || strcmp(name, "mmap") == 0 ||
		   strcmp(name, "mremap") == 0) {
		strace_put(t, "%#lx", ret);
	} else {
		strace_put(t, "%ld", ret);
	}
}

static void put_nodes(struct strace_text *t, const struct strace_call *call)
{
	if (!call->nr_nodes)
		strace_put(t, "local");
	for (uint32_t i = 0; i < call->nr_nodes; i++)
		strace_put(t, "%s%s %u (%u)", i ? ", " : "", call->nodes[i].role,
			   call->nodes[i].node, call->nodes[i].count);
	if (call->others)
		strace_put(t, ", others (%u)", call->others);
}

static bool never_returns(const char *name)
{
	return strcmp(name, "exit") == 0 || strcmp(name, "exit_group") == 0;
}

static void print_call(struct strace_text *line, const char *name, const struct syscall_args *args,
		       long ret, uint64_t ns, const struct strace_call *call)
{
	char buf[TAIL_MAX];
	struct strace_text tail = { .buf = buf, .size = sizeof(buf) };

	put_result(&tail, name, args, ret);
	strace_put(&tail, " <%llu us> ", (unsigned long long)ns / 1000);
	put_nodes(&tail, call);
	pr_info("%u %s(%s%s) = %s\n", task_current()->tid, name, line->buf,
		line->len + 1 >= line->size ? "..." : "", tail.buf);
}

long strace_call(const struct syscall_entry *entry, uint64_t nr, const struct syscall_args *args)
{
	const struct syscall_args given = *args; /* the call may change the caller's registers */
	char unknown[24], buf[ARGS_MAX];
	const char *name = unknown;
	static const uint8_t unknown_kinds[SYSCALL_ARGS] = { STRACE_HEX, STRACE_HEX, STRACE_HEX,
							     STRACE_HEX, STRACE_HEX, STRACE_HEX };
	const uint8_t *kinds = unknown_kinds;
	struct strace_text line = { .buf = buf, .size = sizeof(buf) };
	struct strace_call call = { 0 };
	struct task *t = task_current();
	unsigned int next = 0;
	long ret = -ENOSYS;
	uint64_t start;

	ASSERT(!t->strace);
	buf[0] = '\0';
	if (entry && entry->fn) {
		name = entry->name;
		kinds = entry->kinds;
	} else {
		snprintf(unknown, sizeof(unknown), "call_%llu", (unsigned long long)nr);
	}
	t->strace = &call;
	strace_put_args(&line, kinds, args, &next, NULL);
	if (never_returns(name)) {
		t->strace = NULL;
		pr_info("%u %s(%s) = ?\n", t->tid, name, buf);
	}
	start = time_now_ns();
	if (entry && entry->fn)
		ret = entry->fn(args);
	start = time_now_ns() - start;
	t->strace = NULL;
	strace_put_args(&line, kinds, &given, &next, &ret);
	ASSERT(next == SYSCALL_ARGS || !kinds[next]); /* each argument is in the line */
	print_call(&line, name, &given, ret, start, &call);
	return ret;
}

void strace_signal(int signo, int code, const char *what)
{
	char buf[16] = "";
	struct strace_text text = { .buf = buf, .size = sizeof(buf) };

	strace_put_signal(&text, signo);
	pr_info("%u --- %s, code %d: %s ---\n", task_current()->tid, buf, code, what);
}

void strace_init(void)
{
	if (strace_on)
		rpc_set_observer(count_request);
}
