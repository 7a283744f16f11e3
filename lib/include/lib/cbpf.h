/* SPDX-License-Identifier: MIT */
/*
 * Classic BPF programs that look at a few words of data: the filters of seccomp.
 *
 * Flow:	cbpf_check() accepts a program once; cbpf_run() then runs it, and cannot fail.
 * Invariants:	jumps go forward and stay in the program, whose last instruction returns, so a run
 *		ends after at most as many steps as there are instructions; it reads only words of
 *		the data, and words of its own memory that it has written before.
 */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>

#define CBPF_MAX_INSNS 4096u

struct cbpf_insn { /* struct sock_filter */
	uint16_t code;
	uint8_t jt, jf;
	uint32_t k;
};
static_assert(sizeof(struct cbpf_insn) == 8, "struct sock_filter is ABI");

/*
 * May @prog of @nr instructions run on @nr_words words? -EINVAL. It may do as much as a seccomp
 * filter may: load aligned words of the data, arithmetic without a remainder, jumps, its memory.
 * @known has room for @nr numbers, for the check alone.
 */
int cbpf_check(const struct cbpf_insn *prog, uint32_t nr, uint32_t nr_words, uint16_t *known)
	__must_check;
/* The answer of the checked program for @words, of which there are @nr_words as in the check. */
uint32_t cbpf_run(const struct cbpf_insn *prog, const uint32_t *words, uint32_t nr_words);
