/* SPDX-License-Identifier: MIT */
/* Settings of terminals: Linux's <asm/termbits.h>. */
#pragma once

#include <lib/compiler.h>
#include <stdint.h>

/* c_cc */
#define VINTR    0
#define VQUIT    1
#define VERASE   2
#define VKILL    3
#define VEOF     4
#define VTIME    5
#define VMIN     6
#define VSWTC    7
#define VSTART   8
#define VSTOP    9
#define VSUSP    10
#define VEOL     11
#define VREPRINT 12
#define VDISCARD 13
#define VWERASE  14
#define VLNEXT   15
#define VEOL2    16

#define LINUX_NCC  8  /* of struct termio */
#define LINUX_NCCS 19 /* the kernel's; a C library has more */

/* c_iflag */
#define IGNBRK  0x1u
#define BRKINT  0x2u
#define ISTRIP  0x20u
#define INLCR   0x40u
#define IGNCR   0x80u
#define ICRNL   0x100u
#define IUCLC   0x200u
#define IXON    0x400u
#define IXANY   0x800u
#define IMAXBEL 0x2000u
#define IUTF8   0x4000u

/* c_oflag */
#define OPOST  0x1u
#define OLCUC  0x2u
#define ONLCR  0x4u
#define OCRNL  0x8u
#define ONOCR  0x10u
#define ONLRET 0x20u
#define XTABS  0x1800u

/* c_cflag */
#define CBAUD   0x100fu
#define B38400  0xfu
#define BOTHER  0x1000u /* the speed is in struct termios2 */
#define CBAUDEX 0x1000u
#define CSIZE   0x30u
#define CS8     0x30u
#define CREAD   0x80u
#define PARENB  0x100u
#define HUPCL   0x400u
#define CLOCAL  0x800u
#define IBSHIFT 16 /* to CBAUD of the input's speed */

/* c_lflag */
#define ISIG    0x1u
#define ICANON  0x2u
#define ECHO    0x8u
#define ECHOE   0x10u
#define ECHOK   0x20u
#define ECHONL  0x40u
#define NOFLSH  0x80u
#define TOSTOP  0x100u
#define ECHOCTL 0x200u
#define ECHOPRT 0x400u
#define ECHOKE  0x800u
#define IEXTEN  0x8000u

/* TCFLSH and TCXONC: their argument. */
#define TCIFLUSH  0
#define TCOFLUSH  1
#define TCIOFLUSH 2
#define TCOOFF    0
#define TCOON     1
#define TCIOFF    2
#define TCION     3

struct linux_termios {
	uint32_t iflag;
	uint32_t oflag;
	uint32_t cflag;
	uint32_t lflag;
	uint8_t line;
	uint8_t cc[LINUX_NCCS];
};
static_assert(sizeof(struct linux_termios) == 36, "struct termios is ABI");

struct linux_termios2 {
	struct linux_termios t;
	uint32_t ispeed;
	uint32_t ospeed;
};
static_assert(sizeof(struct linux_termios2) == 44, "struct termios2 is ABI");

struct linux_termio { /* System V's */
	uint16_t iflag;
	uint16_t oflag;
	uint16_t cflag;
	uint16_t lflag;
	uint8_t line;
	uint8_t cc[LINUX_NCC];
};
static_assert(sizeof(struct linux_termio) == 18, "struct termio is ABI");

/* In front of what the master of a pseudo terminal in packet mode reads. */
#define TIOCPKT_DATA       0
#define TIOCPKT_FLUSHREAD  1
#define TIOCPKT_FLUSHWRITE 2
#define TIOCPKT_STOP       4
#define TIOCPKT_START      8
#define TIOCPKT_NOSTOP     16
#define TIOCPKT_DOSTOP     32
