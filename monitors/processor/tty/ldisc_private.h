/* SPDX-License-Identifier: MIT */
/*
 * Line discipline of a terminal: from bytes that are typed to lines, echoes and signals, and from bytes that a
 * program writes to what the terminal gets.  Pure: no thread, no lock, no memory but its own.
 *
 * Input:	a ring of bytes.  In canonical mode a line can be read when its delimiter has come; bit marks
 *		tell delimiters from the same bytes typed behind LNEXT.  Else each byte can be read at once.
 * Output:	a ring of bytes for the terminal; echoes that find it full are lost, as on Linux, program
 *		output is taken as far as there is room.
 * Locking:	the caller's; one terminal's calls must not overlap.
 * See:		termios(3), ioctl_tty(2)
 */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>

/* Linux's numbers for x86-64. */
enum ldisc_cc {
	VINTR,
	VQUIT,
	VERASE,
	VKILL,
	VEOF,
	VTIME,
	VMIN,
	VSWTC,
	VSTART,
	VSTOP,
	VSUSP,
	VEOL,
	VREPRINT,
	VDISCARD,
	VWERASE,
	VLNEXT,
	VEOL2,
	NR_CC = 19,
};

enum ldisc_iflag {
	IGNBRK = 0x1,
	BRKINT = 0x2,
	ISTRIP = 0x20,
	INLCR = 0x40,
	IGNCR = 0x80,
	ICRNL = 0x100,
	IUCLC = 0x200,
	IXON = 0x400,
	IXANY = 0x800,
	IMAXBEL = 0x2000,
	IUTF8 = 0x4000,
};

enum ldisc_oflag {
	OPOST = 0x1,
	OLCUC = 0x2,
	ONLCR = 0x4,
	OCRNL = 0x8,
	ONOCR = 0x10,
	ONLRET = 0x20,
	XTABS = 0x1800,
};

enum ldisc_lflag {
	ISIG = 0x1,
	ICANON = 0x2,
	ECHO = 0x8,
	ECHOE = 0x10,
	ECHOK = 0x20,
	ECHONL = 0x40,
	NOFLSH = 0x80,
	TOSTOP = 0x100,
	ECHOCTL = 0x200,
	ECHOPRT = 0x400,
	ECHOKE = 0x800,
	IEXTEN = 0x8000,
};

/* struct termios as TCGETS and TCSETS pass it. */
struct termios_k {
	uint32_t iflag;
	uint32_t oflag;
	uint32_t cflag;
	uint32_t lflag;
	uint8_t line;
	uint8_t cc[NR_CC];
};
static_assert(sizeof(struct termios_k) == 36, "termios is ABI");

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
	struct termios_k t;
	/* Input: counts for ever, index = count % size; tail <= canon <= head. */
	uint32_t head, tail;
	uint32_t canon; /* behind the last complete line */
	uint8_t in[LDISC_IN_SIZE];
	uint64_t delimiter[LDISC_IN_SIZE / 64]; /* this byte ends a line */
	bool literal;                           /* VLNEXT: the next byte is data */
	bool stopped;                           /* VSTOP */
	bool erasing;                           /* ECHOPRT: between \ and / */
	bool handed_over; /* const: what was written is the far side's; VSTOP and flushing do not take it back */
	/* Output. */
	uint32_t out_head, out_tail;
	uint8_t out[LDISC_OUT_SIZE];
	uint32_t column;      /* of the cursor */
	uint32_t line_column; /* where the echo of the line being typed begins */
};

/* As a new terminal on Linux: cooked, with echo. */
void ldisc_init(struct ldisc *ld);
/* New settings; what is in the rings stays. LDISC_READABLE when that makes something readable. */
unsigned int ldisc_set_termios(struct ldisc *ld, const struct termios_k *t);

/* A byte was typed. Returns enum ldisc_event bits. */
unsigned int ldisc_input(struct ldisc *ld, uint8_t c);
/* Bytes that input can take without loss. */
uint32_t ldisc_input_room(const struct ldisc *ld);

/* Can a read of @min bytes (not canonical: VMIN) return something? */
bool ldisc_readable(const struct ldisc *ld, uint32_t min);
/* Bytes that a read would get at most (FIONREAD). */
uint32_t ldisc_available(const struct ldisc *ld);
/*
 * Take up to @n bytes into @buf: in canonical mode at most one line, whose VEOF is taken but not delivered.
 * *@eof: it was an end of file (with 0 bytes).
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
