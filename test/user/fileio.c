/* SPDX-License-Identifier: MIT */
/*
 * Reads one file in every way and prints the hash of each: fileio FILE
 */
#include "user.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>

static const char *path;
static size_t size;

static int open_it(void)
{
	const int fd = open(path, O_RDONLY | O_CLOEXEC);

	CHECK(fd >= 0);
	return fd;
}

static void by_read(size_t chunk)
{
	char *buf = malloc(chunk);
	const int fd = open_it();
	uint64_t h = HASH_INIT;
	size_t total = 0;
	ssize_t n;

	CHECK(buf);
	while ((n = read(fd, buf, chunk)) > 0) {
		h = hash_bytes(h, buf, (size_t)n);
		total += (size_t)n;
	}
	CHECK(n == 0 && total == size && read(fd, buf, chunk) == 0);
	printf("read by %zu: %016lx\n", chunk, (unsigned long)h);
	close(fd);
	free(buf);
}

static void by_pread_backwards(void)
{
	const int fd = open_it();
	static char buf[10007];
	uint64_t h = HASH_INIT;
	size_t at = (size + sizeof(buf) - 1) / sizeof(buf) * sizeof(buf);

	while (at > 0) {
		ssize_t n;

		at -= sizeof(buf);
		n = pread(fd, buf, sizeof(buf), (off_t)at);
		CHECK(n > 0);
		h = hash_bytes(h, buf, (size_t)n);
	}
	CHECK(lseek(fd, 0, SEEK_CUR) == 0);
	CHECK(pread(fd, buf, 1, (off_t)size) == 0 && pread(fd, buf, 1, (off_t)size + 12345) == 0);
	printf("pread backwards: %016lx\n", (unsigned long)h);
	close(fd);
}

static void by_readv(void)
{
	const int fd = open_it();
	static char a[1], b[5000], c[4096], d[3];
	struct iovec iov[] = {
		{ a, sizeof(a) }, { b, sizeof(b) }, { NULL, 0 }, { c, sizeof(c) }, { d, sizeof(d) }
	};
	uint64_t h = HASH_INIT;
	ssize_t n;

	while ((n = readv(fd, iov, 5)) > 0) {
		for (int i = 0; i < 5 && n > 0; i++) {
			const size_t part = (size_t)n < iov[i].iov_len ? (size_t)n : iov[i].iov_len;

			h = hash_bytes(h, iov[i].iov_base, part);
			n -= (ssize_t)part;
		}
	}
	CHECK(n == 0);
	printf("readv: %016lx\n", (unsigned long)h);
	close(fd);
}

static void by_mmap(void)
{
	const int fd = open_it();
	const char *p = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);

	CHECK(p != MAP_FAILED);
	close(fd);
	printf("mmap: %016lx\n", (unsigned long)hash_bytes(HASH_INIT, p, size));
	CHECK(munmap((void *)(uintptr_t)p, size) == 0);
}

static void by_seeking(void)
{
	const int fd = open_it();
	uint64_t seed = 5, h = HASH_INIT;
	char buf[97];

	for (int i = 0; i < 500; i++) {
		const off_t at = (off_t)(next_random(&seed) % size);
		ssize_t n;

		CHECK(lseek(fd, at, SEEK_SET) == at);
		n = read(fd, buf, sizeof(buf));
		CHECK(n > 0 && lseek(fd, 0, SEEK_CUR) == at + n);
		h = hash_bytes(h, buf, (size_t)n);
	}
	CHECK(lseek(fd, -10, SEEK_END) == (off_t)size - 10);
	CHECK(lseek(fd, -1, SEEK_SET) == -1 && errno == EINVAL);
	printf("seeking: %016lx\n", (unsigned long)h);
	close(fd);
}

/* Into a page-crossing, never touched buffer: the kernel faults the user's pages in. */
static void into_fresh_memory(void)
{
	const int fd = open_it();
	const size_t len = size < 300 * PAGE ? size : 300 * PAGE;
	char *p =
		mmap(NULL, len + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	size_t done = 0;

	CHECK(p != MAP_FAILED);
	while (done < len) {
		const ssize_t n = read(fd, p + 1 + done, len - done);

		CHECK(n > 0);
		done += (size_t)n;
	}
	CHECK(p[0] == 0);
	printf("fresh memory: %016lx\n", (unsigned long)hash_bytes(HASH_INIT, p + 1, len));
	close(fd);
}

static void by_sendfile(void)
{
	const int fd = open_it();
	const size_t want = size < 100000 ? size : 100000;
	off_t at = 0;
	size_t done = 0;

	fflush(stdout);
	while (done < want) {
		const ssize_t n = sendfile(1, fd, &at, want - done);

		CHECK(n > 0);
		done += (size_t)n;
	}
	CHECK(at == (off_t)want && lseek(fd, 0, SEEK_CUR) == 0);
	puts("\nsendfile: done");
	close(fd);
}

static void attributes(void)
{
	const int fd = open_it();
	struct stat a, b;
	char dir[4096], *slash;
	struct dirent *entry;
	int seen = 0;
	DIR *d;

	CHECK(stat(path, &a) == 0 && fstat(fd, &b) == 0);
	CHECK(a.st_ino == b.st_ino && a.st_dev == b.st_dev && a.st_size == b.st_size);
	CHECK(S_ISREG(a.st_mode) && a.st_nlink == 1 && a.st_blksize > 0);
	printf("mode %o, size %ld, mtime %ld\n", a.st_mode & 07777, (long)a.st_size,
	       (long)a.st_mtime);
	close(fd);
	snprintf(dir, sizeof(dir), "%s", path);
	slash = strrchr(dir, '/');
	CHECK(slash);
	*slash = '\0';
	d = opendir(*dir ? dir : "/");
	CHECK(d);
	while ((entry = readdir(d)))
		if (!strcmp(entry->d_name, slash + 1))
			seen += entry->d_type == DT_REG && entry->d_ino == a.st_ino;
	CHECK(seen == 1);
	closedir(d);
}

int main(int argc, char **argv)
{
	struct stat st;

	if (argc < 2)
		die("usage: fileio FILE");
	path = argv[1];
	CHECK(stat(path, &st) == 0 && st.st_size > 0);
	size = (size_t)st.st_size;
	attributes();
	by_read(4096);
	by_read(65537);
	if (size < 4 * MB)
		by_read(61);
	by_pread_backwards();
	by_readv();
	by_mmap();
	by_seeking();
	into_fresh_memory();
	by_sendfile();
	return 0;
}
