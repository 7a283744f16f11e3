/* SPDX-License-Identifier: MIT */
/*
 * The line discipline against Linux's: random settings and random typing go to ours and to a
 * pseudo terminal of the host; what the program reads and what the terminal shows must be the
 * same.
 *
 * Each case ends with a marker line, so that all that was typed has been processed once it has
 * been read.
 */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <lib/ktest.h>
#include <lib/prng.h>
#include <lib/string.h>

#include <processor/tty/ldisc_private.h>

#define NR_CASES  1500
#define MAX_TYPED 60
#define WAIT_MS   20000
#define ROOM      16384

static const char marker[] = "Qend\n";
#define MARKER_LEN 5

struct bytes {
	size_t len;
	uint8_t data[ROOM];
};

static struct ldisc ld;

/* --- settings and typing --------------------------------------------------------------- */

static uint32_t some_of(struct prng *rnd, uint32_t bits, uint32_t usual)
{
	return prng_below(rnd, 3) ? usual : (uint32_t)prng_next(rnd) & bits;
}

static void random_termios(struct prng *rnd, struct linux_termios *t)
{
	t->iflag = some_of(rnd, ISTRIP | INLCR | IGNCR | ICRNL | IXON | IXANY | IMAXBEL | IUTF8,
			   ICRNL | IXON);
	t->oflag = some_of(rnd, OPOST | ONLCR | OCRNL | ONOCR | ONLRET | XTABS, OPOST | ONLCR);
	t->lflag = some_of(
		rnd, ISIG | ECHO | ECHOE | ECHOK | ECHONL | NOFLSH | ECHOCTL | ECHOKE | IEXTEN,
		ISIG | ECHO | ECHOE | ECHOK | ECHOCTL | ECHOKE | IEXTEN);
	/* The tab delay is a field of two bits, of which only 0 and 3 are settings that we know. */
	if ((t->oflag & XTABS) != XTABS)
		t->oflag &= ~(uint32_t)XTABS;
	t->lflag |= ICANON;
	/* The marker must come through as it is. */
	t->iflag &= ~(uint32_t)INLCR;
	if (prng_below(rnd, 8) == 0)
		t->cc[VEOL] = ';';
}

static uint8_t random_key(struct prng *rnd, const struct linux_termios *set)
{
	/*
	 * Linux drops the echoes of what came in one piece with a signal character before they
	 * move the cursor, so how far a tab reaches behind one depends on the pieces.
	 */
	const bool no_tabs = (set->lflag & (ISIG | NOFLSH)) == ISIG;
	uint8_t key;

	static const uint8_t special[] = { 3,    0x1c, 0x7f, 0x7f, 0x7f, 0x15, 4,   0x11, 0x12,
					   0x17, 0x16, '\r', '\n', '\t', ' ',  ';', '\b', 1,
					   27,   0xc3, 0xa9, 0xe2, 0x82, 0xac, '_', 0x1a };

	if (prng_below(rnd, 3) == 0) {
		key = special[prng_below(rnd, sizeof(special))];
		return no_tabs && key == '\t' ? ' ' : key;
	}
	return (uint8_t)('a' + prng_below(rnd, 26));
}

/* --- ours ---------------------------------------------------------------------------- */

static void drain_ours(struct bytes *shown)
{
	shown->len +=
		ldisc_take_output(&ld, shown->data + shown->len, (uint32_t)(ROOM - shown->len));
}

/*
 * Signals throw away what was not read: the reader reads when all has been typed, as the test does
 * with Linux.
 */
static void type_ours(const uint8_t *keys, size_t nr, struct bytes *shown)
{
	for (size_t i = 0; i < nr; i++)
		(void)ldisc_input(&ld, keys[i]);
	drain_ours(shown);
}

static void read_ours(struct bytes *got)
{
	bool eof;

	while (ldisc_readable(&ld, 1)) {
		got->len += ldisc_read(&ld, got->data + got->len, 4096, &eof);
		got->data[got->len++] = eof ? 'E' : '|';
	}
}

/* --- the host's ------------------------------------------------------------------------ */

static bool ends_with_marker(const struct bytes *b)
{
	return b->len > MARKER_LEN &&
	       memcmp(b->data + b->len - MARKER_LEN - 1, marker, MARKER_LEN) == 0;
}

/*
 * Nothing may be read before all was typed: a signal character throws away what has not been read.
 */
static void wait_for_host(int tty, int want)
{
	int waiting = 0;

	for (int tries = 0; tries < WAIT_MS && waiting < want; tries++) {
		if (ioctl(tty, FIONREAD, &waiting))
			return;
		if (waiting < want)
			usleep(1000);
	}
}

/* Everything up to the marker line; false: it does not come. */
static bool read_host(int tty, struct bytes *got)
{
	while (!ends_with_marker(got)) {
		struct pollfd p = { .fd = tty, .events = POLLIN };
		ssize_t n;

		if (poll(&p, 1, WAIT_MS) <= 0)
			return false;
		n = read(tty, got->data + got->len, 4096);
		if (n < 0)
			return false;
		got->len += (size_t)n;
		got->data[got->len++] = n ? '|' : 'E';
	}
	return true;
}

static bool ends_with(const struct bytes *b, const struct bytes *tail)
{
	return b->len >= tail->len &&
	       memcmp(b->data + b->len - tail->len, tail->data, tail->len) == 0;
}

/* Read the terminal until it has shown @want or nothing more comes. */
static void shown_by_host(int ptm, const struct bytes *want, struct bytes *shown)
{
	while (!ends_with(shown, want)) {
		struct pollfd p = { .fd = ptm, .events = POLLIN };
		ssize_t n;

		if (poll(&p, 1, 1000) <= 0)
			return;
		n = read(ptm, shown->data + shown->len, ROOM - shown->len);
		if (n <= 0)
			return;
		shown->len += (size_t)n;
	}
}

static void describe(const char *what, const struct bytes *b)
{
	char line[ROOM];
	size_t at = 0;

	for (size_t i = 0; i < b->len && at + 5 < sizeof(line); i++)
		at += (size_t)snprintf(line + at, 5,
				       b->data[i] < 0x20 || b->data[i] > 0x7e ? "\\x%02x" : "%c",
				       b->data[i]);
	line[at] = '\0';
	fprintf(stderr, "%s: %s\n", what, line);
}

static bool same(const struct bytes *a, const struct bytes *b)
{
	return a->len == b->len && memcmp(a->data, b->data, a->len) == 0;
}

/* --- one case ------------------------------------------------------------------------- */

static bool run_case(struct ktest *t, uint64_t seed)
{
	static struct bytes ours, host, ours_shown, host_shown, typed;
	struct prng rnd;
	struct linux_termios set;
	bool flushes;
	int ptm, tty;

	prng_seed(&rnd, seed);
	ours.len = host.len = ours_shown.len = host_shown.len = 0;
	ldisc_init(&ld);
	set = ld.t;
	random_termios(&rnd, &set);
	typed.len = prng_below(&rnd, MAX_TYPED);
	for (size_t i = 0; i < typed.len; i++)
		typed.data[i] = random_key(&rnd, &set);
	/* The first newline ends what may be half typed or quoted, the second ends that. */
	memcpy(typed.data + typed.len, "\n\n", 2);
	typed.len += 2;
	memcpy(typed.data + typed.len, marker, MARKER_LEN);
	typed.len += MARKER_LEN;

	ptm = posix_openpt(O_RDWR | O_NOCTTY);
	tty = ptm < 0 || grantpt(ptm) || unlockpt(ptm) ? -1 : open(ptsname(ptm), O_RDWR | O_NOCTTY);
	EXPECT_TRUE(t, tty >= 0 && ioctl(tty, TCSETS, &set) == 0);
	(void)ldisc_set_termios(&ld, &set);
	type_ours(typed.data, typed.len, &ours_shown);
	EXPECT_EQ(t, write(ptm, typed.data, typed.len), (ssize_t)typed.len);
	wait_for_host(tty, (int)ldisc_available(&ld));
	read_ours(&ours);
	if (!read_host(tty, &host))
		fprintf(stderr, "case %llu: the host's marker did not come\n",
			(unsigned long long)seed);
	shown_by_host(ptm, &ours_shown, &host_shown);
	close(tty);
	close(ptm);
	/*
	 * A signal throws away what was not shown yet, which on the host depends on how fast it
	 * shows.
	 */
	flushes = (set.lflag & (ISIG | NOFLSH)) == ISIG;
	if (same(&ours, &host) &&
	    (flushes ? ends_with(&host_shown, &ours_shown) : same(&ours_shown, &host_shown)))
		return true;
	fprintf(stderr, "case %llu: iflag %#x oflag %#x lflag %#x\n", (unsigned long long)seed,
		set.iflag, set.oflag, set.lflag);
	describe("typed", &typed);
	describe("read here", &ours);
	describe("on the host", &host);
	describe("shown here", &ours_shown);
	describe("on the host", &host_shown);
	return false;
}

static void behaves_as_the_hosts(struct ktest *t)
{
	int wrong = 0;

	for (uint64_t seed = 1; seed <= NR_CASES && wrong < 5; seed++)
		wrong += !run_case(t, seed);
	EXPECT_EQ(t, wrong, 0);
}

static const struct ktest_case cases[] = { KTEST(behaves_as_the_hosts), { 0 } };
static const struct ktest_suite ldisc_pty_suite = { .name = "tty.host", .cases = cases };
KTEST_SUITE(ldisc_pty_suite);
