/* SPDX-License-Identifier: MIT */
/*
 * Terminals: the table, and the threads of a console. Open files are in open.c, job control is in
 * job.c, masters of pseudo terminals in pty.c.
 *
 * Flow:	launcher -> stream 0 -> input thread -> ldisc_input() -> readers; signals to the
 *		foreground; writers and echo -> ldisc's output ring -> output thread -> stream 1 ->
 *		launcher. So a terminal that is slow, or stopped by ^S, does not keep ^C from being
 *		seen.
 * Locking:	table_lock, then tty.lock; signals are posted with neither held.
 * Invariants:	the table has no references. A console is in it as long as its output thread, a
 *		pseudo terminal as long as its master; if a session has it when the master is
 *		closed, until the session has ended, with the master's reference.
 * Failure:	when the launcher is gone the terminal is hung up: SIGHUP and SIGCONT for the
 *		session, end of file for readers, EIO for writers.
 * Limits:	no break conditions, no baud rates: tcsetattr's settings are only kept.
 */
#include "tty.h"

#include <kernel/counter.h>
#include <kernel/mutex.h>
#include <kernel/panic.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <lib/ida.h>
#include <mm/frame.h>
#include <processor/account/account.h>
#include <processor/process/process.h>
#include <processor/signal/signal.h>
#include <processor/vfs/inode.h>

#include "tty_private.h"

#define THROTTLE  128u /* room that input keeps free while somebody could read */
#define TTY_MAJOR 136u /* as /dev/pts/N */
#define MAX_TTYS  8192u
#define MAX_PTYS  4096u /* as on Linux */
#define PTY_SHARE 64u   /* of the node's memory */

static struct mutex table_lock = MUTEX_INIT(table_lock, "tty.table", RANK_MONITOR);
static LIST_HEAD(table);    /* table_lock */
static DEFINE_IDA(indices); /* table_lock */
static uint64_t nr_ttys;    /* table_lock */

static uint32_t fs_dev; /* st_dev of /dev/pts; set once before any program starts */

void tty_set_fs(uint32_t dev)
{
	fs_dev = dev;
}

static uint64_t gauge_ttys(void)
{
	return __atomic_load_n(&nr_ttys, __ATOMIC_RELAXED);
}
GAUGE(tty_gauge, "tty.terminals", "terminals in use", gauge_ttys);

/* --- table --------------------------------------------------------------------------- */

void tty_get(struct tty *tty)
{
	refcount_inc(&tty->refs);
}

void tty_put(struct tty *tty)
{
	if (!refcount_dec_and_test(&tty->refs))
		return;
	ASSERT(!tty->listed);
	mutex_lock(&table_lock);
	ida_free(&indices, (int)tty->index);
	mutex_unlock(&table_lock);
	if (tty->prog)
		ctl_prog_put(tty->prog);
	kmem_free(tty);
}

/* The terminal for which @match says so, referenced. */
static struct tty *table_find(bool (*match)(const struct tty *tty, uint64_t key), uint64_t key)
{
	struct tty *tty, *found = NULL;

	mutex_lock(&table_lock);
	list_for_each_entry(tty, &table, link) {
		if (match(tty, key)) {
			refcount_inc(&tty->refs);
			found = tty;
			break;
		}
	}
	mutex_unlock(&table_lock);
	return found;
}

static bool match_index(const struct tty *tty, uint64_t key)
{
	return tty->index == key && !READ_ONCE(tty->gone);
}

static bool match_session(const struct tty *tty, uint64_t key)
{
	return READ_ONCE(tty->session) == key && !READ_ONCE(tty->gone);
}

static bool match_gone(const struct tty *tty, uint64_t key)
{
	return READ_ONCE(tty->session) == key && READ_ONCE(tty->gone);
}

static bool match_prog(const struct tty *tty, uint64_t key)
{
	return (uint64_t)(uintptr_t)tty->prog == key;
}

void tty_list(struct tty *tty)
{
	mutex_lock(&table_lock);
	ASSERT(!tty->listed);
	list_add_tail(&tty->link, &table);
	tty->listed = true;
	nr_ttys++;
	mutex_unlock(&table_lock);
}

void tty_unlist(struct tty *tty)
{
	mutex_lock(&table_lock);
	if (tty->listed) {
		ASSERT(nr_ttys > 0);
		list_del(&tty->link);
		tty->listed = false;
		nr_ttys--;
	}
	mutex_unlock(&table_lock);
}

struct tty *tty_by_index(uint32_t index)
{
	return table_find(match_index, index);
}

uint32_t tty_index(const struct tty *tty)
{
	return tty->index;
}

struct tty *tty_current(void)
{
	return table_find(match_session, READ_ONCE(process_current()->sid));
}

int tty_next_index(int from)
{
	struct tty *tty;
	int best = -ENOENT;

	mutex_lock(&table_lock);
	list_for_each_entry(tty, &table, link) {
		if ((int)tty->index >= from && !READ_ONCE(tty->gone) &&
		    (best < 0 || (int)tty->index < best))
			best = (int)tty->index;
	}
	mutex_unlock(&table_lock);
	return best;
}

static uint32_t tty_dev(const struct tty *tty)
{
	/* The old encoding, which is what st_rdev and /proc show while the minor has 8 bits. */
	return TTY_MAJOR << 8 | (tty->index & 0xff) | (tty->index & ~0xffu) << 12;
}

void tty_attr(struct tty *tty, struct file_attr *attr)
{
	*attr = (struct file_attr){ 0 };
	attr->file.ino = tty->index + 3ull; /* as devpts numbers them */
	attr->nlink = 1;
	attr->blksize = 1024;
	attr->fsid = fs_dev;
	attr->rdev = tty_dev(tty);
	attr->atime.sec = attr->mtime.sec = attr->ctime.sec = tty->born_s;
	spin_lock(&tty->lock);
	attr->mode = 0020000 | tty->mode;
	attr->uid = tty->uid;
	attr->gid = tty->gid;
	spin_unlock(&tty->lock);
}

void tty_set_attr(struct tty *tty, const struct attr_change *ch)
{
	spin_lock(&tty->lock);
	if (ch->valid & ATTR_MODE)
		tty->mode = ch->mode & 07777;
	if (ch->valid & ATTR_UID)
		tty->uid = ch->uid;
	if (ch->valid & ATTR_GID)
		tty->gid = ch->gid;
	spin_unlock(&tty->lock);
}

void tty_of_session(uint32_t sid, uint32_t *dev, int *foreground)
{
	struct tty *tty = sid ? table_find(match_session, sid) : NULL;

	*dev = tty ? tty_dev(tty) : 0;
	*foreground = tty ? (int)READ_ONCE(tty->pgrp) : -1;
	if (tty)
		tty_put(tty);
}

void tty_begin_session(struct ctl_prog *prog, const struct process *leader)
{
	struct tty *tty = table_find(match_prog, (uint64_t)(uintptr_t)prog);

	if (!tty)
		return;
	spin_lock(&tty->lock);
	tty->session = leader->sid;
	tty->pgrp = leader->pgid;
	spin_unlock(&tty->lock);
	tty_put(tty);
}

/* --- events -------------------------------------------------------------------------- */

static void signal_foreground(struct tty *tty, int signo)
{
	const struct linux_siginfo info = { .signo = signo, .code = SI_KERNEL };
	const uint32_t pgrp = READ_ONCE(tty->pgrp);

	if (pgrp)
		signal_post_group(pgrp, &info);
}

void tty_events(struct tty *tty, unsigned int events)
{
	if (events & (LDISC_READABLE | LDISC_FLOW | LDISC_FLUSHED))
		wake_all(&tty->changed);
	if (events & (LDISC_OUTPUT | LDISC_FLOW))
		wake_all(&tty->far);
	if (events & LDISC_INTR)
		signal_foreground(tty, SIGINT);
	if (events & LDISC_QUIT)
		signal_foreground(tty, SIGQUIT);
	if (events & LDISC_SUSP)
		signal_foreground(tty, SIGTSTP);
	if (events & LDISC_WINCH)
		signal_foreground(tty, SIGWINCH);
}

/* @tty controls no session from here on; one whose master has gone ends with that. */
static void clear_session(struct tty *tty)
{
	bool last;

	spin_lock(&tty->lock);
	last = tty->gone && tty->session;
	tty->session = 0;
	tty->pgrp = 0;
	spin_unlock(&tty->lock);
	if (last) {
		tty_unlist(tty);
		tty_put(tty); /* the master's */
	}
}

void tty_leave_session(struct tty *tty)
{
	signal_foreground(tty, SIGHUP);
	signal_foreground(tty, SIGCONT);
	clear_session(tty);
}

void tty_forget_gone(uint32_t sid)
{
	struct tty *tty;

	while ((tty = table_find(match_gone, sid))) {
		clear_session(tty);
		tty_put(tty);
	}
}

void tty_session_ended(uint32_t sid)
{
	struct tty *tty;

	while ((tty = table_find(match_session, sid)) || (tty = table_find(match_gone, sid))) {
		tty_leave_session(tty);
		tty_put(tty);
	}
}

void tty_tell_master_locked(struct tty *tty, uint8_t what)
{
	uint8_t opposite = 0;

	assert_spin_held(&tty->lock);
	if (!tty->packet)
		return;
	if (what & (TIOCPKT_STOP | TIOCPKT_START))
		opposite = TIOCPKT_STOP | TIOCPKT_START;
	else if (what & (TIOCPKT_DOSTOP | TIOCPKT_NOSTOP))
		opposite = TIOCPKT_DOSTOP | TIOCPKT_NOSTOP;
	tty->told = (uint8_t)((tty->told & ~opposite) | what);
}

void tty_tell_flow_locked(struct tty *tty, bool was_stopped)
{
	const bool stopped = ldisc_stopped(&tty->ld);

	assert_spin_held(&tty->lock);
	if (stopped != was_stopped)
		tty_tell_master_locked(tty, stopped ? TIOCPKT_STOP : TIOCPKT_START);
}

static void hang_up(struct tty *tty)
{
	bool first;

	spin_lock(&tty->lock);
	first = !tty->hung_up;
	tty->hung_up = true;
	ldisc_set_stopped(&tty->ld, false);
	spin_unlock(&tty->lock);
	wake_all(&tty->changed);
	wake_all(&tty->far);
	if (!first)
		return;
	signal_foreground(tty, SIGHUP);
	signal_foreground(tty, SIGCONT);
}

void tty_resize_prog(struct ctl_prog *prog, const struct ctl_winsize *ws)
{
	struct tty *tty = table_find(match_prog, (uint64_t)(uintptr_t)prog);

	if (!tty)
		return;
	spin_lock(&tty->lock);
	tty->size = *ws;
	spin_unlock(&tty->lock);
	tty_events(tty, LDISC_WINCH);
	tty_put(tty);
}

/* --- the threads of a console ---------------------------------------------------------- */

bool tty_input_may_go_on_locked(struct tty *tty)
{
	assert_spin_held(&tty->lock);
	return tty->hung_up || ldisc_input_room(&tty->ld) > THROTTLE ||
	       !ldisc_readable(&tty->ld, 1);
}

static bool input_may_go_on(struct tty *tty)
{
	bool ok;

	spin_lock(&tty->lock);
	ok = tty_input_may_go_on_locked(tty);
	spin_unlock(&tty->lock);
	return ok;
}

static void input_main(void *arg)
{
	struct tty *tty = arg;
	uint8_t buf[64];
	ssize_t n;

	while (!READ_ONCE(tty->hung_up) &&
	       (n = ctl_stream_read(tty->prog, buf, sizeof(buf), false)) > 0) {
		wait_event(&tty->far, input_may_go_on(tty));
		for (ssize_t i = 0; i < n; i++) {
			unsigned int events;

			spin_lock(&tty->lock);
			events = ldisc_input(&tty->ld, buf[i]);
			spin_unlock(&tty->lock);
			tty_events(tty, events);
		}
	}
	hang_up(tty);
	tty_put(tty);
}

static bool output_to_do(struct tty *tty)
{
	bool ready;

	spin_lock(&tty->lock);
	ready = tty->hung_up || (ldisc_output_len(&tty->ld) && !ldisc_stopped(&tty->ld));
	spin_unlock(&tty->lock);
	return ready;
}

/* Bytes for the launcher; 0: the terminal is hung up. */
static uint32_t output_take(struct tty *tty, uint8_t *buf, uint32_t size)
{
	uint32_t n;

	for (;;) {
		wait_event(&tty->far, output_to_do(tty));
		spin_lock(&tty->lock);
		n = tty->hung_up ? 0 : ldisc_take_output(&tty->ld, buf, size);
		tty->out_busy = n > 0;
		if (n || tty->hung_up)
			break;
		spin_unlock(&tty->lock);
	}
	spin_unlock(&tty->lock);
	return n;
}

static void output_main(void *arg)
{
	struct tty *tty = arg;
	uint8_t buf[512];
	uint32_t n;

	while ((n = output_take(tty, buf, sizeof(buf))) > 0) {
		const ssize_t sent = ctl_stream_write(tty->prog, 1, buf, n, false);

		spin_lock(&tty->lock);
		tty->out_busy = false;
		spin_unlock(&tty->lock);
		wake_all(&tty->changed);
		if (sent < (ssize_t)n)
			hang_up(tty);
	}
	wake_all(&tty->changed);
	tty_unlist(tty);
	tty_put(tty);
}

static bool is_drained(struct tty *tty)
{
	bool done;

	spin_lock(&tty->lock);
	/* Output of a pseudo terminal is at the other side at once. */
	done = tty->hung_up || tty_is_pty(tty) || (!ldisc_output_len(&tty->ld) && !tty->out_busy);
	spin_unlock(&tty->lock);
	return done;
}

int tty_drain(struct tty *tty, unsigned int mode)
{
	return wait_event_mode(&tty->changed, is_drained(tty), mode, WAIT_FOREVER);
}

/*
 * Consoles come with programs that the launcher starts; programs themselves can make pseudo
 * terminals, so those have a bound: what all of them take is a small part of the node's memory.
 */
static int max_index(bool pty)
{
	const uint64_t fit = frames_total_count() / PTY_SHARE * PAGE_SIZE / sizeof(struct tty);

	return (int)(pty ? MIN(fit, (uint64_t)MAX_PTYS) : MAX_TTYS) - 1;
}

struct tty *tty_alloc(struct ctl_prog *prog, uint32_t uid, uint32_t gid)
{
	struct tty *tty = kmem_alloc(kmem_current(), sizeof(*tty));
	int index;

	if (!tty)
		return ERR_PTR(-ENOMEM);
	mutex_lock(&table_lock);
	index = ida_alloc_range(&indices, 0, max_index(!prog));
	mutex_unlock(&table_lock);
	if (index < 0) {
		kmem_free(tty);
		return ERR_PTR(index);
	}
	tty->index = (uint32_t)index;
	tty->prog = prog ? ctl_prog_get(prog) : NULL;
	spin_lock_init(&tty->lock, "tty", RANK_SPIN_MONITOR);
	tty->uid = uid;
	tty->gid = gid;
	tty->mode = 0620;
	tty->born_s = (int64_t)(time_real_ns() / NSEC_PER_SEC);
	refcount_set(&tty->refs, 1);
	ldisc_init(&tty->ld);
	tty->ispeed = tty->ospeed = 38400; /* B38400 */
	waitqueue_init(&tty->changed);
	waitqueue_init(&tty->far);
	return tty;
}

struct tty *tty_console_create(struct ctl_prog *prog, const struct ctl_run *run)
{
	struct tty *tty = tty_alloc(prog, run->uid, run->gid);
	struct thread *in, *out;

	if (IS_ERR(tty))
		return ERR_PTR(-ENOMEM);
	lock_not_needed(&tty->lock, "its threads have not started");
	tty->size = (struct ctl_winsize){ .rows = run->rows, .cols = run->cols };
	in = thread_create_stopped("tty-in", input_main, tty, THREAD_PRIO_NORMAL);
	if (IS_ERR(in)) {
		tty_put(tty);
		return ERR_PTR(-ENOMEM);
	}
	out = thread_create_stopped("tty-out", output_main, tty, THREAD_PRIO_NORMAL);
	if (IS_ERR(out)) {
		/*
		 * The other one ends at once, with the reference: no input comes to a terminal
		 * that is hung up.
		 */
		tty->hung_up = true;
		thread_detach(in);
		thread_start(in);
		return ERR_PTR(-ENOMEM);
	}
	refcount_set(&tty->refs, 3); /* the threads' and the caller's */
	tty_list(tty);
	thread_detach(in);
	thread_detach(out);
	thread_start(in);
	thread_start(out);
	return tty;
}
