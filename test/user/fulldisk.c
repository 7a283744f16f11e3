/* SPDX-License-Identifier: MIT */
/*
 * A disk that becomes full: every byte that write(2) has accepted stays.
 *
 *	fulldisk fill PATH UID write|append|odd   until ENOSPC; says how many bytes were accepted
 *	fulldisk check PATH BYTES                 the file is these bytes, and no more
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define BLOCK 4096u
#define ODD   50000u /* bytes of one write: pages at both ends are shared with its neighbours */

static void die(const char *what)
{
	fprintf(stderr, "fulldisk: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* The bytes at @pos of every such file. */
static void make(uint8_t *buf, uint64_t pos, size_t len)
{
	for (size_t i = 0; i < len; i++)
		buf[i] = (uint8_t)((pos + i) * 2654435761u >> 13) | 1;
}

static int fill(const char *path, uid_t uid, const char *how)
{
	const int flags = O_CREAT | O_WRONLY | (strcmp(how, "append") ? 0 : O_APPEND);
	const size_t want = strcmp(how, "odd") ? BLOCK : ODD;
	static uint8_t buf[ODD];
	struct statvfs st;
	uint64_t pos = 0;
	ssize_t n = 0;
	int fd;

	if (setgid(uid) || setuid(uid))
		die("setuid");
	fd = open(path, flags, 0644);
	if (fd < 0)
		die(path);
	do {
		pos += (uint64_t)n;
		make(buf, pos, want);
		n = write(fd, buf, want);
	} while (n > 0);
	if (n == 0 || errno != ENOSPC)
		die("write");
	if (lseek(fd, 0, SEEK_END) != (off_t)pos)
		die("the file's size");
	if (fsync(fd))
		die("fsync");
	if (fstatvfs(fd, &st) || (!uid && st.f_bavail))
		die("statvfs");
	if (close(fd))
		die("close");
	printf("%llu\n", (unsigned long long)pos);
	return 0;
}

static int check(const char *path, uint64_t bytes)
{
	static uint8_t want[BLOCK], got[BLOCK];
	int fd = open(path, O_RDONLY);
	uint64_t pos = 0;
	ssize_t n;

	if (fd < 0)
		die(path);
	while ((n = read(fd, got, BLOCK)) > 0) {
		make(want, pos, (size_t)n);
		if (memcmp(want, got, (size_t)n)) {
			fprintf(stderr, "%s: other bytes from %llu on\n", path,
				(unsigned long long)pos);
			return 1;
		}
		pos += (uint64_t)n;
	}
	if (n < 0)
		die("read");
	if (pos != bytes) {
		fprintf(stderr, "%s: %llu bytes\n", path, (unsigned long long)pos);
		return 1;
	}
	printf("all right\n");
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 5 && !strcmp(argv[1], "fill"))
		return fill(argv[2], (uid_t)atoi(argv[3]), argv[4]);
	if (argc == 4 && !strcmp(argv[1], "check"))
		return check(argv[2], strtoull(argv[3], NULL, 10));
	if (argc == 3 && !strcmp(argv[1], "remove"))
		return unlink(argv[2]) ? 1 : 0;
	fprintf(stderr, "usage: fulldisk fill PATH UID HOW | check PATH BYTES | remove PATH\n");
	return 2;
}
