/* SPDX-License-Identifier: MIT */
/*
 * Line discipline: output processing and echo.
 *
 * Flow:	the column of the cursor is followed through all output, so that tabs are erased and
 *		expanded by as many columns as they took.
 */
#include "ldisc_private.h"

#include <kernel/panic.h>

#define TAB_WIDTH  8u
#define MAX_EXPAND TAB_WIDTH /* bytes that one byte can become */

static uint32_t room(const struct ldisc *ld)
{
	return LDISC_OUT_SIZE - (ld->out_head - ld->out_tail);
}

static void put(struct ldisc *ld, uint8_t c)
{
	ASSERT(ld->out_head - ld->out_tail < LDISC_OUT_SIZE);
	ld->out[ld->out_head++ % LDISC_OUT_SIZE] = c;
}

static bool is_control(uint8_t c)
{
	return c < 0x20 || c == 0x7f;
}

static void put_newline(struct ldisc *ld)
{
	if (ld->t.oflag & ONLCR)
		put(ld, '\r');
	if (ld->t.oflag & (ONLCR | ONLRET))
		ld->column = 0;
	put(ld, '\n');
}

static void put_return(struct ldisc *ld)
{
	if ((ld->t.oflag & ONOCR) && ld->column == 0)
		return;
	if (ld->t.oflag & OCRNL) {
		if (ld->t.oflag & ONLRET)
			ld->column = 0;
		put(ld, '\n');
		return;
	}
	ld->column = 0;
	put(ld, '\r');
}

static void put_tab(struct ldisc *ld)
{
	const uint32_t n = TAB_WIDTH - ld->column % TAB_WIDTH;

	ld->column += n;
	if ((ld->t.oflag & XTABS) != XTABS) {
		put(ld, '\t');
		return;
	}
	for (uint32_t i = 0; i < n; i++)
		put(ld, ' ');
}

/* The caller has seen to room for MAX_EXPAND bytes. */
static void put_processed(struct ldisc *ld, uint8_t c)
{
	switch (c) {
	case '\n':
		put_newline(ld);
		return;
	case '\r':
		put_return(ld);
		return;
	case '\t':
		put_tab(ld);
		return;
	case '\b':
		if (ld->column > 0)
			ld->column--;
		break;
	default:
		if (is_control(c))
			break;
		if ((ld->t.oflag & OLCUC) && c >= 'a' && c <= 'z')
			c -= 'a' - 'A';
		if (!is_continuation(ld, c))
			ld->column++;
	}
	put(ld, c);
}

uint32_t ldisc_write(struct ldisc *ld, const uint8_t *buf, uint32_t n)
{
	uint32_t done = 0;

	if (ld->stopped)
		return 0;
	for (; done < n && room(ld) >= MAX_EXPAND; done++) {
		if (ld->t.oflag & OPOST)
			put_processed(ld, buf[done]);
		else
			put(ld, buf[done]);
	}
	return done;
}

bool ldisc_writable(const struct ldisc *ld)
{
	return !ld->stopped && room(ld) >= MAX_EXPAND;
}

uint32_t ldisc_take_output(struct ldisc *ld, uint8_t *buf, uint32_t n)
{
	uint32_t got = 0;

	if (ld->stopped && !ld->handed_over)
		return 0;
	ASSERT(ld->out_head - ld->out_tail <= LDISC_OUT_SIZE);
	while (got < n && ld->out_tail != ld->out_head)
		buf[got++] = ld->out[ld->out_tail++ % LDISC_OUT_SIZE];
	return got;
}

/* --- echo ---------------------------------------------------------------------------- */

void echo_raw(struct ldisc *ld, uint8_t c)
{
	if (room(ld) < MAX_EXPAND)
		return;
	if (ld->t.oflag & OPOST)
		put_processed(ld, c);
	else
		put(ld, c);
}

static bool shown_as_two(const struct ldisc *ld, uint8_t c)
{
	return (ld->t.lflag & ECHOCTL) && is_control(c) && c != '\t';
}

void echo_char(struct ldisc *ld, uint8_t c)
{
	if (shown_as_two(ld, c)) {
		echo_raw(ld, '^');
		echo_raw(ld, c ^ 0x40);
	} else {
		echo_raw(ld, c);
	}
}

void echo_finish_erase(struct ldisc *ld)
{
	if (ld->erasing)
		echo_raw(ld, '/');
	ld->erasing = false;
}

/* The column in which the cursor stands behind the line as it is. */
static uint32_t line_end_column(const struct ldisc *ld)
{
	uint32_t column = ld->line_column;

	for (uint32_t i = ld->canon; i != ld->head; i++) {
		const uint8_t c = ld->in[i % LDISC_IN_SIZE];

		if (c == '\t')
			column += TAB_WIDTH - column % TAB_WIDTH;
		else if (shown_as_two(ld, c))
			column += 2;
		else if (!is_control(c) && !is_continuation(ld, c))
			column++;
	}
	return column;
}

void echo_erased(struct ldisc *ld, uint32_t old, uint8_t c, bool by_erase)
{
	uint32_t n;

	if (ld->t.lflag & ECHOPRT) {
		if (!ld->erasing)
			echo_raw(ld, '\\');
		ld->erasing = true;
		for (uint32_t i = ld->head; i != old; i++)
			echo_char(ld, ld->in[i % LDISC_IN_SIZE]);
		return;
	}
	if (by_erase && !(ld->t.lflag & ECHOE)) {
		echo_char(ld, ld->t.cc[VERASE]);
		return;
	}
	if (c == '\t') {
		const uint32_t to = line_end_column(ld);

		for (n = ld->column > to ? ld->column - to : 0; n > 0; n--)
			echo_raw(ld, '\b');
		return;
	}
	n = shown_as_two(ld, c) ? 2 : !is_control(c);
	for (; n > 0; n--) {
		echo_raw(ld, '\b');
		echo_raw(ld, ' ');
		echo_raw(ld, '\b');
	}
}
