/* SPDX-License-Identifier: MIT */
/*
 * Random operations on one file beside a model of its bytes: fsx FILE SEED OPERATIONS SECONDS
 *
 * Reads and writes by calls and by mappings, runs of small writes in order, truncations both ways,
 * holes punched, ranges zeroed, allocated and copied, syncs, and the file closed and opened again.
 * A descriptor for appends and a mapping of the whole file stay all the while. Every read compares,
 * and the whole file is compared now and then. Ends after that many operations, or seconds of its
 * own clock (0: no limit). Prints "all right", or dies with the last operations and what differs.
 */
#include "user.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#define LONGEST (384u << 10)
#define MOST    (64u << 10) /* bytes of one operation */
#define SAID    32u

static unsigned char model[LONGEST], buf[LONGEST];
static size_t size;
static uint64_t rng, count;
static const char *path;
static int fd, kept;         /* kept: for appends, open all the while */
static unsigned char *whole; /* a mapping of as much as the file may have */
static char said[SAID][96];

static size_t below(size_t n)
{
	return n ? next_random(&rng) % n : 0;
}

__attribute__((format(printf, 1, 2))) static void say(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(said[count % SAID], sizeof(said[0]), fmt, ap);
	va_end(ap);
}

__attribute__((noreturn)) static void wrong(const char *what, size_t at)
{
	for (uint64_t i = count >= SAID ? count - SAID + 1 : 0; i <= count; i++)
		fprintf(stderr, "%llu: %s\n", (unsigned long long)i, said[i % SAID]);
	die("%s at %zu of %zu: errno %d (%s)", what, at, size, errno, strerrorname_np(errno));
}

#define MUST(cond)                               \
	do {                                     \
		errno = 0;                       \
		if (!(cond))                     \
			wrong(#cond, (size_t)0); \
	} while (0)

static void compare(const unsigned char *got, size_t at, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (got[i] != model[at + i]) {
			errno = 0;
			fprintf(stderr, "is %02x, should be %02x\n", got[i], model[at + i]);
			wrong("a byte differs", at + i);
		}
	}
}

static void do_read(size_t at, size_t len)
{
	const size_t want = at >= size ? 0 : at + len > size ? size - at : len;
	ssize_t n;

	say("read %zu +%zu", at, len);
	n = pread(fd, buf, len, (off_t)at);
	if (n != (ssize_t)want)
		wrong("a short read", n < 0 ? 0 : (size_t)n);
	compare(buf, at, want);
}

/* The model grows with zeroes. */
static void grow(size_t to)
{
	if (to > size) {
		memset(model + size, 0, to - size);
		size = to;
	}
}

static void fill(size_t at, size_t len)
{
	const unsigned char c = (unsigned char)(count * 37 + 1);

	grow(at + len);
	for (size_t i = 0; i < len; i++)
		model[at + i] = (unsigned char)(c + (at + i) / 251);
}

static void do_write(size_t at, size_t len)
{
	say("write %zu +%zu", at, len);
	fill(at, len);
	MUST(pwrite(fd, model + at, len, (off_t)at) == (ssize_t)len);
}

static void do_append(size_t len)
{
	const int app = open(path, O_WRONLY | O_APPEND);
	const size_t at = size;

	if (at + len > LONGEST)
		len = LONGEST - at;
	say("append %zu +%zu", at, len);
	fill(at, len);
	MUST(app >= 0 && write(app, model + at, len) == (ssize_t)len);
	MUST(close(app) == 0);
}

/* As a program with a small buffer writes: pieces in order, at the end or inside. */
static void do_pieces(size_t at, size_t nr)
{
	const int append = below(2) != 0;

	if (append || at > size)
		at = size;
	say("%s %zu pieces at %zu", append ? "append" : "write", nr, at);
	for (size_t i = 0; i < nr; i++) {
		const size_t len = 1 + below(below(8) ? 300 : 5000);

		if (at + len > LONGEST)
			return;
		fill(at, len);
		if (append)
			MUST(write(kept, model + at, len) == (ssize_t)len);
		else
			MUST(pwrite(fd, model + at, len, (off_t)at) == (ssize_t)len);
		at += len;
	}
}

/* Nothing of it is unmapped or flushed afterwards. */
static void do_whole(size_t at, size_t len)
{
	if (!size)
		return;
	at %= size;
	len = at + len > size ? size - at : len;
	say("store %zu +%zu, and stay", at, len);
	fill(at, len);
	memcpy(whole + at, model + at, len);
}

static void do_stat(void)
{
	struct stat st;

	say("stat");
	MUST((below(2) ? fstat(kept, &st) : stat(path, &st)) == 0);
	if ((size_t)st.st_size != size)
		wrong("st_size", (size_t)st.st_size);
	MUST(lseek(kept, 0, SEEK_END) == (off_t)size);
}

static unsigned char *map(size_t at, size_t len, size_t *skip)
{
	const size_t first = at & ~(PAGE - 1);
	unsigned char *p =
		mmap(NULL, at + len - first, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)first);

	MUST(p != MAP_FAILED);
	*skip = at - first;
	return p;
}

static void do_map(size_t at, size_t len, int store)
{
	unsigned char *p;
	size_t skip;

	if (!size)
		return;
	at %= size;
	len = at + len > size ? size - at : len;
	say("%s %zu +%zu", store ? "store" : "load", at, len);
	p = map(at, len, &skip);
	if (store) {
		fill(at, len);
		memcpy(p + skip, model + at, len);
		if (below(3) == 0)
			MUST(msync(p, skip + len, MS_SYNC) == 0);
	} else {
		compare(p + skip, at, len);
	}
	MUST(munmap(p, skip + len) == 0);
}

static void do_truncate(size_t to)
{
	say("truncate %zu", to);
	if (to < size)
		size = to;
	grow(to);
	MUST(ftruncate(fd, (off_t)to) == 0);
}

static void do_allocate(size_t at, size_t len)
{
	static const int modes[] = { 0, FALLOC_FL_KEEP_SIZE,
				     FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				     FALLOC_FL_ZERO_RANGE,
				     FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE };
	const size_t i = below(sizeof(modes) / sizeof(modes[0]));

	say("fallocate %x %zu +%zu", modes[i], at, len);
	if (!(modes[i] & FALLOC_FL_KEEP_SIZE))
		grow(at + len);
	if (i >= 2 && at < size)
		memset(model + at, 0, at + len > size ? size - at : len);
	MUST(fallocate(fd, modes[i], (off_t)at, (off_t)len) == 0);
}

static void do_copy(size_t at, size_t len)
{
	off_t from = (off_t)at, to = (off_t)(at + len);
	size_t left = len;

	if (at + len > size || at + 2 * len > LONGEST)
		return;
	say("copy %zu +%zu to %zu", at, len, at + len);
	grow(at + 2 * len);
	memcpy(model + at + len, model + at, len);
	while (left) {
		const ssize_t n = copy_file_range(fd, &from, fd, &to, left, 0);

		MUST(n > 0);
		left -= (size_t)n;
	}
}

static void reopen(void)
{
	struct stat st;

	say("reopen");
	MUST(fstat(fd, &st) == 0);
	if ((size_t)st.st_size != size)
		wrong("st_size", (size_t)st.st_size);
	MUST(close(fd) == 0);
	MUST((fd = open(path, O_RDWR)) >= 0);
}

static void one(void)
{
	const size_t at = below(LONGEST - MOST), len = 1 + below(below(4) ? 9000 : MOST);

	switch (below(22)) {
	case 0:
	case 1:
	case 2:
		return do_write(at, len);
	case 3:
		return do_write(at & ~(PAGE - 1), PAGE * (1 + below(8)));
	case 4:
		return do_append(len);
	case 5:
	case 6:
		return do_map(at, len, 1);
	case 7:
	case 8:
		return do_map(at, len, 0);
	case 9:
		return do_truncate(below(3) ? at : size / 2);
	case 10:
		return do_allocate(at, len);
	case 11:
		return do_copy(at % (size + 1), len);
	case 12:
		say("sync");
		MUST((below(2) ? fsync(fd) : fdatasync(fd)) == 0);
		return;
	case 13:
		return reopen();
	case 14:
	case 15:
	case 16:
		return do_pieces(at, 1 + below(80));
	case 17:
		return do_whole(at, below(2) ? 9 : len);
	case 18:
		return do_stat();
	default:
		return do_read(at, len);
	}
}

int main(int argc, char **argv)
{
	uint64_t most;
	time_t end;

	CHECK(argc == 5);
	path = argv[1];
	rng = (strtoull(argv[2], NULL, 0) + 1) * 0x9e3779b97f4a7c15ull;
	most = strtoull(argv[3], NULL, 0);
	end = strtoll(argv[4], NULL, 0) ? time(NULL) + strtoll(argv[4], NULL, 0) : 0;
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
	kept = open(path, O_RDWR | O_APPEND);
	CHECK(fd >= 0 && kept >= 0);
	whole = mmap(NULL, LONGEST, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(whole != MAP_FAILED);
	for (count = 0; count < most && !(end && time(NULL) > end); count++) {
		one();
		if (count % 64 == 63)
			do_read(0, LONGEST);
	}
	reopen();
	do_read(0, LONGEST);
	fprintf(stderr, "%llu operations\n", (unsigned long long)count);
	printf("all right\n");
	return 0;
}
