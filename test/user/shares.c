/* SPDX-License-Identifier: MIT */
/*
 * Programs that share files, on any number of processors: shares DIR DIR ME PROGRAMS SECONDS
 *
 * Each file has a slot for each program in each row; program ME writes its own slots only, so
 * neighbours in a page belong to others, and remembers their versions. It opens a file anew before
 * it looks: its own slots are as it has left them, others' are whole and no older than they were.
 * Each program appends numbered records to a log of all. "check" instead of ME, when all have
 * ended: the log has each record of each program once, in that program's order.
 */
#include "user.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

#define FILES 6
#define ROWS  120
#define SLOT  48 /* bytes; no divisor of a page */
#define MOST  64 /* programs */

struct slot {
	uint32_t program, row;
	uint64_t version;
	uint64_t words[4]; /* all from the version */
};
_Static_assert(sizeof(struct slot) == SLOT, "a slot");

static const char *dirs[2];
static uint32_t versions[FILES][ROWS][MOST];
static unsigned int me, nr_programs;
static uint64_t rng;

static size_t below(size_t n)
{
	return next_random(&rng) % n;
}

static int open_file(unsigned int i, int flags)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "%s/shared%u", dirs[i % 2], i);
	fd = open(path, O_RDWR | O_CREAT | flags, 0644);
	CHECK(fd >= 0);
	return fd;
}

static off_t place(unsigned int row, unsigned int program)
{
	return ((off_t)row * nr_programs + program) * SLOT;
}

static struct slot make(unsigned int row, uint32_t version)
{
	struct slot s = { me, row, version, { 0 } };

	for (unsigned int i = 0; i < 4; i++)
		s.words[i] = (version * 0x9e3779b97f4a7c15ull) ^ (me + i) ^ (uint64_t)row << 32;
	return s;
}

static void change(unsigned int i)
{
	const unsigned int row = (unsigned int)below(ROWS);
	const int fd = open_file(i, 0);
	struct slot s = make(row, versions[i][row][me] + 1);

	CHECK(pwrite(fd, &s, SLOT, place(row, me)) == SLOT);
	versions[i][row][me]++;
	if (!below(30))
		CHECK(fsync(fd) == 0);
	CHECK(close(fd) == 0);
}

static void look_at(unsigned int i, unsigned int row, unsigned int program, const struct slot *s)
{
	uint32_t *seen = &versions[i][row][program];
	uint64_t bad = 0;

	if (!s->version) {
		if (*seen)
			die("file %u row %u of %u: gone, was %u", i, row, program, *seen);
		return;
	}
	for (unsigned int w = 0; w < 4; w++)
		bad |= s->words[w] ^ (s->version * 0x9e3779b97f4a7c15ull) ^ (program + w) ^
		       (uint64_t)row << 32;
	if (bad || s->program != program || s->row != row)
		die("file %u row %u of %u: mixed up (%u, %u, version %llu)", i, row, program,
		    s->program, s->row, (unsigned long long)s->version);
	if (s->version < *seen || (program == me && s->version != *seen))
		die("file %u row %u of %u: version %llu, was %u", i, row, program,
		    (unsigned long long)s->version, *seen);
	*seen = (uint32_t)s->version;
}

static void look(unsigned int i)
{
	static struct slot slots[8 * MOST];
	const unsigned int first = (unsigned int)below(ROWS - 8);
	const int fd = open_file(i, 0);
	const size_t len = 8 * (size_t)nr_programs * SLOT;

	memset(slots, 0, len);
	CHECK(pread(fd, slots, len, place(first, 0)) >= 0);
	CHECK(close(fd) == 0);
	for (unsigned int n = 0; n < 8 * nr_programs; n++)
		look_at(i, first + n / nr_programs, n % nr_programs, &slots[n]);
}

static void append(unsigned int i, uint64_t number)
{
	const struct slot s = { me, (uint32_t)number, number, { ~number, number, 0, ~0ull } };
	const int fd = open_file(FILES + i % 2, O_APPEND);

	CHECK(write(fd, &s, SLOT) == SLOT);
	CHECK(close(fd) == 0);
}

static void check_log(unsigned int i)
{
	const int fd = open_file(FILES + i, 0);
	uint64_t last[MOST] = { 0 };
	struct slot s;
	off_t at = 0;
	ssize_t n;

	for (; (n = pread(fd, &s, SLOT, at)) == SLOT; at += SLOT) {
		uint64_t *before = &last[s.program % MOST];
		const uint64_t want = *before ? *before + 2 : 2 - i;

		if (s.program >= nr_programs || s.words[0] != ~s.version ||
		    s.words[1] != s.version || s.version != want)
			die("log %u at %lld: record %llu of %u, not %llu", i, (long long)at,
			    (unsigned long long)s.version, s.program, (unsigned long long)want);
		*before = s.version;
	}
	if (n != 0 || !at)
		die("log %u ends at %lld in a part of a record", i, (long long)at);
}

int main(int argc, char **argv)
{
	uint64_t number = 0;
	time_t end;

	CHECK(argc == 6);
	dirs[0] = argv[1];
	dirs[1] = argv[2];
	nr_programs = (unsigned int)strtoul(argv[4], NULL, 0);
	CHECK(nr_programs && nr_programs <= MOST);
	if (!strcmp(argv[3], "check")) {
		check_log(0);
		check_log(1);
		printf("all right\n");
		return 0;
	}
	me = (unsigned int)strtoul(argv[3], NULL, 0);
	CHECK(me < nr_programs);
	rng = (me + 1) * 0x9e3779b97f4a7c15ull;
	for (end = time(NULL) + strtoll(argv[5], NULL, 0); time(NULL) <= end;) {
		change((unsigned int)below(FILES));
		look((unsigned int)below(FILES));
		if (!below(3)) {
			number++;
			append((unsigned int)number, number);
		}
	}
	printf("all right\n");
	return 0;
}
