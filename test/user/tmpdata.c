/* SPDX-License-Identifier: MIT */
/*
 * Much data in files of a tmpfs: written, read, mapped, cut, copied, and its limits.
 *
 *	tmpdata DIR MEGABYTES, or tmpdata DIR limits
 */
#include "user.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define CHUNK 65536

static unsigned char chunk[CHUNK], got[CHUNK];

static void fill(uint64_t at)
{
	uint64_t state = at * 2654435761u + 1;

	for (size_t i = 0; i < CHUNK; i += 8) {
		const uint64_t v = next_random(&state);

		memcpy(chunk + i, &v, 8);
	}
}

static void check_file(int fd, size_t size)
{
	for (size_t at = 0; at < size; at += CHUNK) {
		fill(at);
		CHECK(pread(fd, got, CHUNK, (off_t)at) == CHUNK);
		CHECK(!memcmp(got, chunk, CHUNK));
	}
}

/* Every page through the mapping, last first; then changed through it. */
static void check_map(int fd, size_t size)
{
	unsigned char *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	CHECK(map != MAP_FAILED);
	for (size_t at = size; at > 0; at -= CHUNK) {
		fill(at - CHUNK);
		CHECK(!memcmp(map + at - CHUNK, chunk, CHUNK));
	}
	puts("mapped");
	for (size_t at = 0; at < size; at += CHUNK)
		map[at + 7] ^= 0x55;
	for (size_t at = 0; at < size; at += CHUNK) {
		fill(at);
		chunk[7] ^= 0x55;
		CHECK(pread(fd, got, CHUNK, (off_t)at) == CHUNK);
		CHECK(!memcmp(got, chunk, CHUNK));
		map[at + 7] ^= 0x55;
	}
	CHECK(munmap(map, size) == 0);
	check_file(fd, size);
	puts("changed by the mapping");
}

static void much(size_t size)
{
	const int fd = open("data", O_CREAT | O_EXCL | O_RDWR, 0644);
	struct stat st;
	int copy;

	CHECK(fd >= 0);
	for (size_t at = 0; at < size; at += CHUNK) {
		fill(at);
		CHECK(write(fd, chunk, CHUNK) == CHUNK);
	}
	CHECK(fstat(fd, &st) == 0 && st.st_size == (off_t)size &&
	      st.st_blocks == (long)(size / 512));
	puts("written");
	check_file(fd, size);
	puts("read");
	check_map(fd, size);
	CHECK(ftruncate(fd, (off_t)(size / 2 + 100)) == 0 && ftruncate(fd, (off_t)size) == 0);
	check_file(fd, size / 2);
	CHECK(pread(fd, got, CHUNK, (off_t)(size / 2 + 100)) == CHUNK);
	for (size_t i = 0; i < CHUNK; i++)
		CHECK(got[i] == 0);
	puts("truncated");
	copy = open("copy", O_CREAT | O_EXCL | O_RDWR, 0644);
	CHECK(copy >= 0 && ftruncate(fd, (off_t)(size / 2)) == 0 && lseek(fd, 0, SEEK_SET) == 0);
	CHECK(syscall(SYS_copy_file_range, fd, NULL, copy, NULL, size, 0) == (long)(size / 2));
	check_file(copy, size / 2);
	puts("copied");
	CHECK(unlink("data") == 0 && unlink("copy") == 0);
	check_file(fd, size / 2);
	CHECK(close(fd) == 0 && close(copy) == 0);
	puts("removed");
}

static void limits(void)
{
	const int fd = open("data", O_CREAT | O_EXCL | O_RDWR, 0644);
	size_t total = 0;
	char name[32];
	long n;
	int i;

	CHECK(fd >= 0);
	while ((n = write(fd, chunk, CHUNK)) > 0)
		total += (size_t)n;
	printf("%zu bytes, then %s\n", total, strerror(errno));
	CHECK(close(fd) == 0 && unlink("data") == 0);
	CHECK((i = open("data", O_CREAT | O_RDWR, 0644)) >= 0 && write(i, chunk, CHUNK) == CHUNK);
	CHECK(close(i) == 0 && unlink("data") == 0);
	puts("space again after unlink");
	for (i = 0;; i++) {
		sprintf(name, "file%d", i);
		if (mknod(name, S_IFREG | 0600, 0))
			break;
	}
	printf("%d files, then %s\n", i, strerror(errno));
	while (i-- > 0) {
		sprintf(name, "file%d", i);
		CHECK(unlink(name) == 0);
	}
	CHECK(mknod("again", S_IFREG | 0600, 0) == 0 && unlink("again") == 0);
	puts("files again after unlink");
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc != 3 || chdir(argv[1]))
		die("usage: tmpdata DIR MEGABYTES|limits");
	if (!strcmp(argv[2], "limits"))
		limits();
	else
		much(strtoul(argv[2], NULL, 0) * MB);
	return 0;
}
