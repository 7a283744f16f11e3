/* SPDX-License-Identifier: MIT */
/*
 * Line discipline of a terminal: from bytes that are typed to lines, echoes and signals, and from
 * bytes that a program writes to the terminal's output. Pure: no thread, no lock, no memory but its
 * own.
 *
 * Flow:	input is a ring of bytes. In canonical mode a line can be read when its delimiter
 *		has come; bit marks tell delimiters from the same bytes typed behind LNEXT. Else
 *		each byte can be read at once. Output is a ring of bytes for the terminal; echoes
 *		that find it full are lost, as on Linux; program output is taken as far as there is
 *		room.
 * Locking:	the caller's; one terminal's calls must not overlap.
 * See:		termios(3), ioctl_tty(2)
 */
#pragma once

#include <abi/termios.h>
#include <lib/compiler.h>
#include <lib/types.h>

#define LDISC_IN_SIZE  4096u /* a line has at most one byte less, as on Linux */
#define LDISC_OUT_SIZE 8192u

enum ldisc_event { /* what a typed byte caused: bits */
	LDISC_READABLE = 1 << 0,
	LDISC_OUTPUT = 1 << 1, /* the output ring has something new */
	LDISC_INTR = 1 << 2,   /* SIGINT for the foreground group; and so on */
	LDISC_QUIT = 1 << 3,
	LDISC_SUSP = 1 << 4,
	LDISC_FLOW = 1 << 5,    /* output was stopped or goes on: ldisc_stopped() */
	LDISC_FLUSHED = 1 << 6, /* both rings were emptied by a signal character */
	LDISC_WINCH = 1 << 7,   /* never from here: the window has a new size */
};

struct ldisc {
	struct linux_termios t;
	/* Input: counts for ever, index = count % size; tail <= canon <= head. */
	uint32_t head, tail;
	uint32_t canon; /* behind the last complete line */
	uint8_t in[LDISC_IN_SIZE];
	uint64_t delimiter[LDISC_IN_SIZE / 64]; /* this byte ends a line */
	bool literal;                           /* VLNEXT: the next byte is data */
	bool stopped;                           /* VSTOP */
	bool erasing;                           /* ECHOPRT: between \ and / */
	/* const: what was written is the far side's; VSTOP and flushing do not take it back */
	bool handed_over;
	/* Output. */
	uint32_t out_head, out_tail;
	uint8_t out[LDISC_OUT_SIZE];
	uint32_t column;      /* of the cursor */
	uint32_t line_column; /* where the echo of the line being typed begins */
};

/* As a new terminal on Linux: cooked, with echo. */
void ldisc_init(struct ldisc *ld);
/* New settings; what is in the rings stays. LDISC_READABLE when that makes something readable. */
unsigned int ldisc_set_termios(struct ldisc *ld, const struct linux_termios *t);

/* A byte was typed. Returns enum ldisc_event bits. */
unsigned int ldisc_input(struct ldisc *ld, uint8_t c);
/* Bytes that input can take without loss. */
uint32_t ldisc_input_room(const struct ldisc *ld);

/* Can a read of @min bytes (not canonical: VMIN) return something? */
bool ldisc_readable(const struct ldisc *ld, uint32_t min);
/* Bytes that a read would get at most (FIONREAD). */
uint32_t ldisc_available(const struct ldisc *ld);
/*
 * Take up to @n bytes into @buf: in canonical mode at most one line, whose VEOF is taken but not
 * delivered. *@eof: it was an end of file (with 0 bytes).
 */
uint32_t ldisc_read(struct ldisc *ld, uint8_t *buf, uint32_t n, bool *eof);
void ldisc_flush_input(struct ldisc *ld);
void ldisc_flush_output(struct ldisc *ld);

/* A program writes: how many of @n bytes were taken. */
uint32_t ldisc_write(struct ldisc *ld, const uint8_t *buf, uint32_t n);
static inline bool ldisc_stopped(const struct ldisc *ld)
{
	return ld->stopped;
}
void ldisc_set_stopped(struct ldisc *ld, bool stopped);
static inline uint32_t ldisc_output_len(const struct ldisc *ld)
{
	return ld->out_head - ld->out_tail;
}
/* Room that lets a writer go on, which must be more than any one byte can expand to. */
bool ldisc_writable(const struct ldisc *ld);
/* For the terminal: up to @n bytes. */
uint32_t ldisc_take_output(struct ldisc *ld, uint8_t *buf, uint32_t n);

/* --- echo.c: what goes to the terminal; for ldisc.c only ------------------------------------ */

/* A byte that belongs to the character before it. */
static inline bool is_continuation(const struct ldisc *ld, uint8_t c)
{
	return (ld->t.iflag & IUTF8) && (c & 0xc0) == 0x80;
}

/*
 * One byte through output processing, as a program would have written it; lost when there is no
 * room.
 */
void echo_raw(struct ldisc *ld, uint8_t c);
/* A typed byte: control characters as ^X with ECHOCTL. */
void echo_char(struct ldisc *ld, uint8_t c);
/*
 * The line now ends at ld->head, where @c was; it ended at @old. @by_erase: by VERASE, which has an
 * echo of its own.
 */
void echo_erased(struct ldisc *ld, uint32_t old, uint8_t c, bool by_erase);
/* ECHOPRT: something else than an erasure follows. */
void echo_finish_erase(struct ldisc *ld);
