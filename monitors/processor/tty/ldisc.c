/* SPDX-License-Identifier: MIT */
/*
 * Line discipline: settings, input, reading. Output and echo are in echo.c.
 *
 * Invariants:	tail <= canon <= head <= tail + size; every byte in [tail, canon) lies in a line
 *		whose last byte has its delimiter bit; in canonical mode the bytes of [canon, head)
 *		can still be erased.
 */
#include "ldisc_private.h"

#include <kernel/panic.h>
#include <lib/string.h>

#define DISABLED 0u /* _POSIX_VDISABLE */

static void set_delimiter(struct ldisc *ld, uint32_t at, bool on)
{
	uint64_t *word = &ld->delimiter[at % LDISC_IN_SIZE / 64];
	const uint64_t bit = 1ull << (at % 64);

	*word = on ? *word | bit : *word & ~bit;
}

static bool is_delimiter(const struct ldisc *ld, uint32_t at)
{
	return ld->delimiter[at % LDISC_IN_SIZE / 64] & (1ull << (at % 64));
}

static bool is_cc(const struct ldisc *ld, uint8_t c, unsigned int which)
{
	return ld->t.cc[which] != DISABLED && c == ld->t.cc[which];
}

static bool lflag(const struct ldisc *ld, uint32_t bits)
{
	return (ld->t.lflag & bits) == bits;
}

/* --- settings ------------------------------------------------------------------------ */

void ldisc_init(struct ldisc *ld)
{
	static const struct linux_termios usual = {
		.iflag = ICRNL | IXON,
		.oflag = OPOST | ONLCR,
		.cflag = B38400 | CS8 | CREAD,
		.lflag = ISIG | ICANON | ECHO | ECHOE | ECHOK | ECHOCTL | ECHOKE | IEXTEN,
		.cc = { [VINTR] = 'C' - '@',
			[VQUIT] = '\\' - '@',
			[VERASE] = 0x7f,
			[VKILL] = 'U' - '@',
			[VEOF] = 'D' - '@',
			[VMIN] = 1,
			[VSTART] = 'Q' - '@',
			[VSTOP] = 'S' - '@',
			[VSUSP] = 'Z' - '@',
			[VREPRINT] = 'R' - '@',
			[VDISCARD] = 'O' - '@',
			[VWERASE] = 'W' - '@',
			[VLNEXT] = 'V' - '@' },
	};

	memset(ld, 0, sizeof(*ld));
	ld->t = usual;
}

unsigned int ldisc_set_termios(struct ldisc *ld, const struct linux_termios *t)
{
	const bool was_canon = lflag(ld, ICANON), is_canon = t->lflag & ICANON;
	unsigned int events = 0;

	ld->t = *t;
	if (was_canon != is_canon) {
		memset(ld->delimiter, 0, sizeof(ld->delimiter));
		/* Bytes typed before make one line, complete or not. */
		if (is_canon && ld->head != ld->tail)
			set_delimiter(ld, ld->head - 1, true);
		ld->canon = is_canon ? ld->head : ld->tail;
		ld->line_column = ld->column;
		ld->literal = false;
		events = ld->head != ld->tail ? LDISC_READABLE : 0;
	}
	if (ld->stopped && !(t->iflag & IXON)) {
		ld->stopped = false;
		events |= LDISC_FLOW | LDISC_OUTPUT;
	}
	return events;
}

void ldisc_set_stopped(struct ldisc *ld, bool stopped)
{
	ld->stopped = stopped;
}

void ldisc_flush_input(struct ldisc *ld)
{
	ld->head = ld->tail = ld->canon = 0;
	memset(ld->delimiter, 0, sizeof(ld->delimiter));
	ld->literal = false;
}

void ldisc_flush_output(struct ldisc *ld)
{
	if (ld->handed_over)
		return;
	ld->out_head = ld->out_tail = 0;
}

/* --- input: editing a line ------------------------------------------------------------- */

/* One place stays free for the delimiter of a line that fills the ring. */
uint32_t ldisc_input_room(const struct ldisc *ld)
{
	const uint32_t used = ld->head - ld->tail;

	return used < LDISC_IN_SIZE - 1 ? LDISC_IN_SIZE - 1 - used : 0;
}

static void append(struct ldisc *ld, uint8_t c, bool delimiter)
{
	ASSERT(ld->head - ld->tail < LDISC_IN_SIZE);
	ASSERT(ld->head - ld->tail < LDISC_IN_SIZE);
	set_delimiter(ld, ld->head, delimiter);
	ld->in[ld->head++ % LDISC_IN_SIZE] = c;
}

/* Where the last character of the line begins, all of its bytes; false: there is no whole one. */
static bool last_char(const struct ldisc *ld, uint32_t *at, uint8_t *c)
{
	ASSERT(ld->canon - ld->tail <= ld->head - ld->tail);
	ASSERT(ld->canon - ld->tail <= ld->head - ld->tail);
	*at = ld->head;
	while (*at != ld->canon) {
		*c = ld->in[--*at % LDISC_IN_SIZE];
		if (!is_continuation(ld, *c))
			return true;
	}
	return false;
}

/* Take the last character off the line, and its echo with it. */
static bool erase_one(struct ldisc *ld, bool by_erase)
{
	const uint32_t old = ld->head;
	uint32_t at;
	uint8_t c;

	if (!last_char(ld, &at, &c))
		return false;
	ld->head = at;
	if (lflag(ld, ECHO))
		echo_erased(ld, old, c, by_erase);
	return true;
}

/*
 * Letters, digits and the underscore; bytes above ASCII as in Latin-1, which is what Linux has
 * here.
 */
static bool is_word(uint8_t c)
{
	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
	       c == '_' || (c >= 0xc0 && c != 0xd7 && c != 0xf7);
}

static void erase_word(struct ldisc *ld)
{
	bool seen = false;
	uint32_t at;
	uint8_t c;

	while (last_char(ld, &at, &c)) {
		if (seen && !is_word(c))
			break;
		seen |= is_word(c);
		(void)erase_one(ld, false);
	}
}

static void erase_line(struct ldisc *ld, uint8_t c)
{
	if (ld->head == ld->canon)
		return;
	if (!lflag(ld, ECHO | ECHOK | ECHOKE | ECHOE)) {
		ld->head = ld->canon;
		if (lflag(ld, ECHO)) {
			echo_finish_erase(ld);
			echo_char(ld, c);
			if (lflag(ld, ECHOK))
				echo_raw(ld, '\n');
			ld->line_column = ld->column;
		}
		return;
	}
	while (erase_one(ld, false))
		;
}

/* True: @c edited the line. */
static bool edit(struct ldisc *ld, uint8_t c)
{
	const bool extended = lflag(ld, IEXTEN);

	if (is_cc(ld, c, VERASE)) {
		(void)erase_one(ld, true);
	} else if (extended && is_cc(ld, c, VWERASE)) {
		erase_word(ld);
	} else if (is_cc(ld, c, VKILL)) {
		erase_line(ld, c);
	} else if (extended && is_cc(ld, c, VLNEXT)) {
		ld->literal = true;
		if (lflag(ld, ECHO)) {
			echo_finish_erase(ld);
			if (lflag(ld, ECHOCTL)) {
				echo_raw(ld, '^');
				echo_raw(ld, '\b');
			}
		}
	} else if (extended && lflag(ld, ECHO) && is_cc(ld, c, VREPRINT)) {
		echo_finish_erase(ld);
		echo_char(ld, c);
		echo_raw(ld, '\n');
		ld->line_column = ld->column;
		for (uint32_t i = ld->canon; i != ld->head; i++)
			echo_char(ld, ld->in[i % LDISC_IN_SIZE]);
	} else {
		return false;
	}
	return true;
}

/* The line ends with @c, which is delivered unless it is an end of file. */
static unsigned int end_line(struct ldisc *ld, uint8_t c)
{
	append(ld, c, true);
	ld->canon = ld->head;
	ld->line_column = ld->column;
	return LDISC_READABLE;
}

/* --- input --------------------------------------------------------------------------- */

static unsigned int signal_of(const struct ldisc *ld, uint8_t c)
{
	if (!lflag(ld, ISIG))
		return 0;
	if (is_cc(ld, c, VINTR))
		return LDISC_INTR;
	if (is_cc(ld, c, VQUIT))
		return LDISC_QUIT;
	return is_cc(ld, c, VSUSP) ? LDISC_SUSP : 0;
}

static unsigned int input_signal(struct ldisc *ld, uint8_t c, unsigned int signal)
{
	unsigned int events = signal | LDISC_OUTPUT;

	if (!lflag(ld, NOFLSH)) {
		ldisc_flush_input(ld);
		ldisc_flush_output(ld);
		events |= LDISC_FLUSHED;
	}
	if (ld->stopped) {
		ld->stopped = false;
		events |= LDISC_FLOW;
	}
	if (lflag(ld, ECHO))
		echo_char(ld, c);
	ld->line_column = ld->column;
	return events;
}

/* XON and XOFF. True: @c was one of them. */
static bool input_flow(struct ldisc *ld, uint8_t c, unsigned int *events)
{
	if (!(ld->t.iflag & IXON))
		return false;
	if (is_cc(ld, c, VSTART)) {
		ld->stopped = false;
		*events = LDISC_FLOW | LDISC_OUTPUT;
		return true;
	}
	if (is_cc(ld, c, VSTOP)) {
		ld->stopped = true;
		*events = LDISC_FLOW;
		return true;
	}
	return false;
}

/* A byte of data: into the line, or straight to the reader. */
static unsigned int input_data(struct ldisc *ld, uint8_t c)
{
	unsigned int events = 0;

	if (ldisc_input_room(ld) == 0) {
		if (!(ld->t.iflag & IMAXBEL))
			return 0;
		echo_raw(ld, '\a');
		return LDISC_OUTPUT;
	}
	if (lflag(ld, ECHO)) {
		echo_finish_erase(ld);
		if (ld->head == ld->canon)
			ld->line_column = ld->column;
		echo_char(ld, c);
		events = LDISC_OUTPUT;
	}
	append(ld, c, false);
	if (!lflag(ld, ICANON))
		events |= LDISC_READABLE;
	return events;
}

static unsigned int input_canonical(struct ldisc *ld, uint8_t c)
{
	if (edit(ld, c))
		return LDISC_OUTPUT;
	if (c == '\n') {
		if (lflag(ld, ECHO) || lflag(ld, ECHONL)) {
			echo_finish_erase(ld);
			echo_raw(ld, '\n');
		}
		return end_line(ld, c) | LDISC_OUTPUT;
	}
	if (is_cc(ld, c, VEOF))
		return end_line(ld, DISABLED);
	if (is_cc(ld, c, VEOL) || (lflag(ld, IEXTEN) && is_cc(ld, c, VEOL2))) {
		if (lflag(ld, ECHO))
			echo_char(ld, c);
		return end_line(ld, c) | LDISC_OUTPUT;
	}
	return input_data(ld, c);
}

unsigned int ldisc_input(struct ldisc *ld, uint8_t c)
{
	const uint32_t iflag = ld->t.iflag;
	unsigned int events = 0, signal;

	ASSERT(ld->head - ld->tail <= LDISC_IN_SIZE);
	if (iflag & ISTRIP)
		c &= 0x7f;
	if ((iflag & IUCLC) && lflag(ld, IEXTEN) && c >= 'A' && c <= 'Z')
		c += 'a' - 'A';
	if (ld->literal) {
		ld->literal = false;
		return input_data(ld, c);
	}
	if (input_flow(ld, c, &events))
		return events;
	if (ld->stopped && (iflag & IXANY)) {
		ld->stopped = false;
		events = LDISC_FLOW | LDISC_OUTPUT;
	}
	signal = signal_of(ld, c);
	if (signal)
		return events | input_signal(ld, c, signal);
	if (c == '\r') {
		if (iflag & IGNCR)
			return events;
		if (iflag & ICRNL)
			c = '\n';
	} else if (c == '\n' && (iflag & INLCR)) {
		c = '\r';
	}
	if (lflag(ld, ICANON))
		return events | input_canonical(ld, c);
	return events | input_data(ld, c);
}

/* --- reading ------------------------------------------------------------------------- */

bool ldisc_readable(const struct ldisc *ld, uint32_t min)
{
	if (lflag(ld, ICANON))
		return ld->canon != ld->tail;
	return ld->head - ld->tail >= MAX(min, 1u);
}

uint32_t ldisc_available(const struct ldisc *ld)
{
	uint32_t n = 0;

	if (!lflag(ld, ICANON))
		return ld->head - ld->tail;
	for (uint32_t i = ld->tail; i != ld->canon; i++)
		n += !(is_delimiter(ld, i) && ld->in[i % LDISC_IN_SIZE] == DISABLED);
	return n;
}

static bool is_eof(const struct ldisc *ld, uint32_t at)
{
	return is_delimiter(ld, at) && ld->in[at % LDISC_IN_SIZE] == DISABLED;
}

static uint32_t read_line(struct ldisc *ld, uint8_t *buf, uint32_t n, bool *eof)
{
	uint32_t got = 0;
	bool ended = false;

	while (got < n && ld->tail != ld->canon && !ended) {
		ended = is_delimiter(ld, ld->tail);
		if (is_eof(ld, ld->tail)) {
			*eof = got == 0;
			ld->tail++;
			return got;
		}
		buf[got++] = ld->in[ld->tail++ % LDISC_IN_SIZE];
	}
	/* The buffer was filled by all of the line: its end of file is not a second one. */
	if (!ended && got && ld->tail != ld->canon && is_eof(ld, ld->tail))
		ld->tail++;
	return got;
}

uint32_t ldisc_read(struct ldisc *ld, uint8_t *buf, uint32_t n, bool *eof)
{
	uint32_t got = 0;

	ASSERT(ld->canon - ld->tail <= ld->head - ld->tail);
	ASSERT(ld->canon - ld->tail <= ld->head - ld->tail);
	*eof = false;
	if (lflag(ld, ICANON))
		return read_line(ld, buf, n, eof);
	while (got < n && ld->tail != ld->head)
		buf[got++] = ld->in[ld->tail++ % LDISC_IN_SIZE];
	ld->canon = ld->tail;
	return got;
}
