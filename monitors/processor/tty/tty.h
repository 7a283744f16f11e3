/* SPDX-License-Identifier: MIT */
/*
 * Terminals: a program's console (-t) and pseudo terminals, their line discipline, sessions and job
 * control.
 *
 * Flow:	a terminal knows the session whose controlling terminal it is, and the process group
 *		in the foreground. A process has the controlling terminal of its session, so a fork
 *		inherits it and setsid() leaves it without a field in the process.
 * Invariants:	counted: open files, and of a console the two threads that carry bytes to and from
 *		the launcher, which end with the program; of a pseudo terminal the master.
 */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>

struct attr_change;
struct ctl_prog;
struct ctl_run;
struct ctl_winsize;
struct file;
struct process;
struct file_attr;
struct tty;

/*
 * The terminal of @prog: streams 0 and 1. ERR_PTR(-ENOMEM); else referenced by its threads, and for
 * the caller, who gives that reference back with tty_put().
 */
struct tty *tty_console_create(struct ctl_prog *prog, const struct ctl_run *run);
void tty_get(struct tty *tty);
void tty_put(struct tty *tty);
/* An open file of @tty (devpts.c); ERR_PTR(-ENOMEM, -ENFILE, -EIO). */
struct file *tty_open(struct tty *tty, uint32_t flags);
/*
 * Make @f, which is being opened, an open file of @tty. -EIO: it is locked, or its master is
 * closed.
 */
int tty_use(struct tty *tty, struct file *f) __must_check;
/*
 * @f, of whatever kind, has been opened without O_NOCTTY: a terminal becomes the controlling one of
 * a leader without.
 */
void tty_opened(struct file *f);
/* Make @f, which is being opened, the master of a new pseudo terminal. -ENOMEM, -ENOSPC */
int ptmx_use(struct file *f) __must_check;
uint32_t tty_index(const struct tty *tty);
/* For stat(); @dev of tty_set_fs() is the file system that shows the terminals. */
void tty_set_fs(uint32_t dev);
void tty_attr(struct tty *tty, struct file_attr *attr);
void tty_set_attr(struct tty *tty, const struct attr_change *ch);
/* The terminal of @prog controls the new session of @leader, whose group is in the foreground. */
void tty_begin_session(struct ctl_prog *prog, const struct process *leader);
/* The launcher's terminal has a new size: SIGWINCH for the foreground. */
void tty_resize_prog(struct ctl_prog *prog, const struct ctl_winsize *ws);

/* The controlling terminal of the calling process, referenced; NULL: it has none. */
struct tty *tty_current(void);
/* Terminal /dev/pts/@index, referenced; NULL: there is none. */
struct tty *tty_by_index(uint32_t index);
/* The lowest index >= @from of a terminal that is there; -ENOENT. For listing /dev/pts. */
int tty_next_index(int from) __must_check;
/*
 * Device number and foreground group of the controlling terminal of session @sid, as
 * /proc/<pid>/stat says: 0, -1: none.
 */
void tty_of_session(uint32_t sid, uint32_t *dev, int *foreground);
/*
 * The leader of session @sid ends: the foreground gets SIGHUP and SIGCONT, the terminal is free
 * again.
 */
void tty_session_ended(uint32_t sid);
