/* SPDX-License-Identifier: MIT */
/*
 * Waits until another process is where a case wants to have it, by what /proc says. "Asleep" can
 * be a wait for a page or for a lock as well as the one that is meant: a case must print the same
 * then, and is only a weaker one.
 */
#pragma once

#include "user.h"

#include <fcntl.h>
#include <sys/types.h>

/* The letter of proc(5); 'X' if there is no such task. */
static inline char state_of(pid_t pid, pid_t tid)
{
	char text[512], *at;
	ssize_t n;
	int fd;

	snprintf(text, sizeof(text), "/proc/%d/task/%d/stat", (int)pid, (int)tid);
	fd = open(text, O_RDONLY);
	if (fd < 0)
		return 'X';
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return 'X';
	text[n] = '\0';
	at = strrchr(text, ')');
	CHECK(at && at[1] == ' ');
	return at[2];
}

/* Or until it has ended: the case says what it makes of that. */
static inline void await_state(pid_t pid, char state)
{
	char is;

	while ((is = state_of(pid, pid)) != state && is != 'X' && is != 'Z')
		usleep(1000);
}

static inline void await_asleep(pid_t pid)
{
	await_state(pid, 'S');
}

/* By another thread of this process: until its first one has ended. */
static inline void await_first_gone(void)
{
	char is;

	while ((is = state_of(getpid(), getpid())) != 'X' && is != 'Z')
		usleep(1000);
}
