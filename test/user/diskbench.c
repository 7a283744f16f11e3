/* SPDX-License-Identifier: MIT */
/*
 * Files of a disk, timed: one kind of operation for each run, which prints the nanoseconds that all
 * of them took, and how many there were. For `make bench`.
 *
 *	diskbench write DIR MIB		write a file of MIB by 64 KiB, and fsync; counted in 4 KiB
 *	diskbench fsync DIR N		write 4 KiB behind the end of a file and fsync, N times
 *	diskbench read DIR MIB		read that file from its begin to its end by 4 KiB
 *	diskbench random DIR MIB PART	read 4 KiB of it at 2,000 places, which no other PART has
 *	diskbench create|stat|attributes|rename|unlink DIR N	do that to N files of one directory;
 *							attributes: mode, owner and times
 *
 * What is read is looked at.
 */
#include "user.h"

#include <sys/stat.h>
#include <time.h>

#define BLOCK    4096u
#define CHUNK    65536u /* of a write */
#define NR_READS 2000u
#define NR_KINDS 5u
#define STEP     1000003u /* a prime, so steps of it meet each block once */

static uint64_t now(void)
{
	struct timespec ts;

	CHECK(clock_gettime(CLOCK_MONOTONIC, &ts) == 0);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void write_it(uint64_t mib)
{
	static uint8_t buf[CHUNK];
	const int fd = open("big", O_CREAT | O_TRUNC | O_WRONLY, 0644);

	CHECK(fd >= 0);
	memset(buf, 'x', sizeof(buf));
	/* Each block begins with its number. */
	for (uint64_t at = 0; at < mib * MB; at += CHUNK) {
		for (uint32_t i = 0; i < CHUNK; i += BLOCK) {
			const uint64_t nr = (at + i) / BLOCK;

			memcpy(buf + i, &nr, sizeof(nr));
		}
		CHECK(write(fd, buf, CHUNK) == CHUNK);
	}
	CHECK(fsync(fd) == 0 && close(fd) == 0);
}

static void sync_it(uint64_t nr)
{
	static const uint8_t buf[BLOCK] = { 1 };
	const int fd = open("small", O_CREAT | O_TRUNC | O_WRONLY, 0644);

	CHECK(fd >= 0);
	for (uint64_t i = 0; i < nr; i++)
		CHECK(write(fd, buf, BLOCK) == BLOCK && fsync(fd) == 0);
	CHECK(close(fd) == 0);
}

/* @nr blocks from the @first step on, by @step. */
static void read_it(uint64_t mib, uint64_t first, uint64_t nr, uint64_t step)
{
	static uint8_t buf[BLOCK];
	const int fd = open("big", O_RDONLY);

	CHECK(fd >= 0);
	for (uint64_t i = first; i < first + nr; i++) {
		const uint64_t at = i * step % (mib * (MB / BLOCK));
		uint64_t is;

		CHECK(pread(fd, buf, BLOCK, (off_t)(at * BLOCK)) == BLOCK);
		memcpy(&is, buf, sizeof(is));
		CHECK(is == at);
	}
	CHECK(close(fd) == 0);
}

/* Do one operation to the file @name, which a rename calls @other. */
static void change(const char *kind, const char *name, const char *other)
{
	static const struct timespec times[2] = { { 1, 2 }, { 3, 4 } };
	struct stat st;
	int fd;

	switch (kind[0]) {
	case 'c':
		fd = open(name, O_CREAT | O_EXCL | O_WRONLY, 0644);
		CHECK(fd >= 0 && close(fd) == 0);
		return;
	case 's':
		CHECK(stat(name, &st) == 0 && st.st_size == 0);
		return;
	case 'a':
		CHECK(chmod(name, 0600) == 0 && chown(name, getuid(), getgid()) == 0);
		CHECK(utimensat(AT_FDCWD, name, times, 0) == 0);
		return;
	case 'r':
		CHECK(rename(name, other) == 0);
		return;
	default:
		CHECK(unlink(other) == 0);
	}
}

static void names(const char *kind, uint64_t nr)
{
	for (uint64_t i = 0; i < nr; i++) {
		char name[32], other[32];

		snprintf(name, sizeof(name), "names/f%llu", (unsigned long long)i);
		snprintf(other, sizeof(other), "names/g%llu", (unsigned long long)i);
		change(kind, name, other);
	}
}

int main(int argc, char **argv)
{
	static const char *const kinds[NR_KINDS] = { "create", "stat", "attributes", "rename",
						     "unlink" };
	const char *kind = argc > 3 ? argv[1] : "";
	const uint64_t part = argc > 4 ? strtoull(argv[4], NULL, 0) : 0;
	uint64_t begin, nr;
	size_t i = 0;

	CHECK(argc > 3 && chdir(argv[2]) == 0);
	CHECK((nr = strtoull(argv[3], NULL, 0)) > 0);
	CHECK(mkdir("names", 0755) == 0 || errno == EEXIST);
	begin = now();
	if (!strcmp(kind, "write")) {
		write_it(nr);
		nr *= MB / BLOCK;
	} else if (!strcmp(kind, "fsync")) {
		sync_it(nr);
	} else if (!strcmp(kind, "read")) {
		read_it(nr, 0, nr * (MB / BLOCK), 1);
		nr *= MB / BLOCK;
	} else if (!strcmp(kind, "random")) {
		CHECK((part + 1) * NR_READS <= nr * (MB / BLOCK));
		read_it(nr, part * NR_READS, NR_READS, STEP);
		nr = NR_READS;
	} else {
		while (i < NR_KINDS && strcmp(kind, kinds[i]) != 0)
			i++;
		CHECK(i < NR_KINDS);
		names(kind, nr);
	}
	printf("%llu %llu\n", (unsigned long long)(now() - begin), (unsigned long long)nr);
	return 0;
}
