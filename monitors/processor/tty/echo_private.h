/* SPDX-License-Identifier: MIT */
/* Line discipline: what goes to the terminal. Shared by ldisc.c and echo.c only. */
#pragma once

#include "ldisc_private.h"

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
