/* SPDX-License-Identifier: MIT */
/*
 * Changes that must be done exactly once, again and again: lasting DIR ROUNDS [CHILD]. Each round
 * makes a file that must not be there, writes and syncs it, appends a record to a log, renames the
 * file over another one that is open, and removes names that must be there. A tick on stdout after
 * each; at the end what the directory holds. Prints the same on Linux.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define RECORD 64

static int round_nr;

static void must(int ok, const char *what)
{
	if (ok)
		return;
	printf("round %d: %s: %s\n", round_nr, what, strerror(errno));
	exit(1);
}

static void record(char *buf, int nr)
{
	memset(buf, '.', RECORD);
	buf[snprintf(buf, RECORD, "record %d of the log", nr)] = ' ';
	buf[RECORD - 1] = '\n';
}

/* A file that must not be there, with contents of its round; open. */
static int make(const char *name, int nr)
{
	static char block[3 * 4096];
	const int fd = open(name, O_RDWR | O_CREAT | O_EXCL, 0644);

	must(fd >= 0, name);
	memset(block, 'a' + nr % 26, sizeof(block));
	must(write(fd, block, sizeof(block)) == sizeof(block), "write");
	must(fsync(fd) == 0, "fsync");
	return fd;
}

/* The contents of @fd, whose name may be gone, are those of round @nr. */
static void check(int fd, int nr)
{
	static char block[3 * 4096];

	must(pread(fd, block, sizeof(block), 0) == sizeof(block), "read");
	for (size_t i = 0; i < sizeof(block); i++)
		must(block[i] == 'a' + nr % 26, "contents");
}

static void one_round(int nr, int log, int *last)
{
	char rec[RECORD], name[32];
	struct stat st;
	int fd;

	snprintf(name, sizeof(name), "new.%d", nr);
	fd = make(name, nr);
	record(rec, nr);
	must(write(log, rec, RECORD) == RECORD, "append");
	must(fsync(log) == 0, "fsync of the log");
	must(link(name, "second") == 0, "link");
	must(unlink("second") == 0, "unlink");
	must(mkdir("dir", 0755) == 0, "mkdir");
	must(rmdir("dir") == 0, "rmdir");
	must(rename(name, "current") == 0, "rename");
	if (*last >= 0) {
		/* Nothing has its name any more. */
		must(fstat(*last, &st) == 0 && st.st_nlink == 0, "fstat of what is gone");
		check(*last, nr - 1);
		must(close(*last) == 0, "close");
	}
	check(fd, nr);
	*last = fd;
}

static void check_log(int rounds)
{
	char want[RECORD], got[RECORD];
	const int fd = open("log", O_RDONLY);

	must(fd >= 0, "log");
	for (int i = 0; i < rounds; i++) {
		record(want, i);
		must(read(fd, got, RECORD) == RECORD, "read of the log");
		must(memcmp(want, got, RECORD) == 0, "record of the log");
	}
	must(read(fd, got, RECORD) == 0, "end of the log");
	close(fd);
}

int main(int argc, char **argv)
{
	const int rounds = argc == 3 ? atoi(argv[2]) : 0;
	int log, last = -1;

	setvbuf(stdout, NULL, _IOLBF, 0);
	must(argc == 3 && chdir(argv[1]) == 0, "usage: lasting DIR ROUNDS");
	log = open("log", O_WRONLY | O_CREAT | O_EXCL | O_APPEND, 0644);
	must(log >= 0, "log");
	for (round_nr = 0; round_nr < rounds; round_nr++) {
		one_round(round_nr, log, &last);
		printf("round %d\n", round_nr);
	}
	check_log(rounds);
	must(access("current", F_OK) == 0, "current");
	printf("done\n");
	return 0;
}
