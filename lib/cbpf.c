/* SPDX-License-Identifier: MIT */
/*
 * Classic BPF: see cbpf.h. Opcodes and their meaning are those of <linux/bpf_common.h>; what is
 * accepted is what Linux accepts of a seccomp filter.
 */
#include <lib/cbpf.h>

#include <lib/assert.h>
#include <lib/errno.h>

#define MEMORY_WORDS 16u

enum {
	/* Classes. */
	LD = 0x00,
	LDX = 0x01,
	ST = 0x02,
	STX = 0x03,
	ALU = 0x04,
	JMP = 0x05,
	RET = 0x06,
	MISC = 0x07,
	CLASS = 0x07,
	/* Modes of loads; words only. */
	IMM = 0x00,
	ABS = 0x20,
	MEM = 0x60,
	LEN = 0x80,
	/* Operations. */
	ADD = 0x00,
	SUB = 0x10,
	MUL = 0x20,
	DIV = 0x30,
	OR = 0x40,
	AND = 0x50,
	LSH = 0x60,
	RSH = 0x70,
	NEG = 0x80,
	XOR = 0xa0,
	JA = 0x00,
	JEQ = 0x10,
	JGT = 0x20,
	JGE = 0x30,
	JSET = 0x40,
	OP = 0xf0,
	/* The second operand: k or X; what RET returns: k or A. */
	K = 0x00,
	X = 0x08,
	A = 0x10,
	TAX = 0x00,
	TXA = 0x80,
};

/* --- the check ------------------------------------------------------------------------ */

static bool alu_ok(const struct cbpf_insn *in)
{
	switch (in->code & OP) {
	case ADD:
	case SUB:
	case MUL:
	case OR:
	case AND:
	case XOR:
		return !(in->code & ~(CLASS | OP | X));
	case DIV:
		return !(in->code & ~(CLASS | OP | X)) && ((in->code & X) || in->k);
	case LSH:
	case RSH:
		return !(in->code & ~(CLASS | OP | X)) && ((in->code & X) || in->k < 32);
	case NEG:
		return in->code == (ALU | NEG);
	default:
		return false;
	}
}

/* @left: instructions behind this one. */
static bool jump_ok(const struct cbpf_insn *in, uint32_t left)
{
	switch (in->code & OP) {
	case JA:
		return in->code == (JMP | JA) && in->k < left;
	case JEQ:
	case JGT:
	case JGE:
	case JSET:
		return !(in->code & ~(CLASS | OP | X)) && in->jt < left && in->jf < left;
	default:
		return false;
	}
}

static bool insn_ok(const struct cbpf_insn *in, uint32_t left, uint32_t nr_words)
{
	switch (in->code) {
	case LD | ABS:
		return in->k % 4 == 0 && in->k / 4 < nr_words;
	case LD | IMM:
	case LDX | IMM:
	case LD | LEN:
	case LDX | LEN:
	case MISC | TAX:
	case MISC | TXA:
	case RET | K:
	case RET | A:
		return true;
	case LD | MEM:
	case LDX | MEM:
	case ST:
	case STX:
		return in->k < MEMORY_WORDS;
	default:
		break;
	}
	if ((in->code & CLASS) == ALU)
		return alu_ok(in);
	return (in->code & CLASS) == JMP && jump_ok(in, left);
}

/*
 * Is every word of memory that is loaded written before, whatever way leads there? known[i]: the
 * words that all jumps to instruction i have found written; jumps go forward, so one pass is
 * enough.
 */
static bool loads_ok(const struct cbpf_insn *prog, uint32_t nr, uint16_t *known)
{
	uint16_t here = 0;

	ASSERT(nr && (prog[nr - 1].code & CLASS) == RET); /* every jump ends at an instruction */
	for (uint32_t i = 0; i < nr; i++)
		known[i] = UINT16_MAX;
	for (uint32_t i = 0; i < nr; i++) {
		const struct cbpf_insn *in = &prog[i];

		here &= known[i];
		switch (in->code) {
		case ST:
		case STX:
			here |= (uint16_t)(1u << in->k);
			continue;
		case LD | MEM:
		case LDX | MEM:
			if (!(here & 1u << in->k))
				return false;
			continue;
		case JMP | JA:
			known[i + 1 + in->k] &= here;
			here = UINT16_MAX; /* no way leads on from here */
			continue;
		default:
			break;
		}
		if ((in->code & CLASS) == JMP) {
			known[i + 1 + in->jt] &= here;
			known[i + 1 + in->jf] &= here;
			here = UINT16_MAX;
		}
	}
	return true;
}

int cbpf_check(const struct cbpf_insn *prog, uint32_t nr, uint32_t nr_words, uint16_t *known)
{
	if (!nr || nr > CBPF_MAX_INSNS)
		return -EINVAL;
	for (uint32_t i = 0; i < nr; i++) {
		if (!insn_ok(&prog[i], nr - 1 - i, nr_words))
			return -EINVAL;
	}
	if ((prog[nr - 1].code & CLASS) != RET)
		return -EINVAL;
	return loads_ok(prog, nr, known) ? 0 : -EINVAL;
}

/* --- runs ----------------------------------------------------------------------------- */

/* False: a division by zero, which ends the program with 0. */
static bool compute(uint16_t code, uint32_t *a, uint32_t b)
{
	switch (code & OP) {
	case ADD:
		*a += b;
		break;
	case SUB:
		*a -= b;
		break;
	case MUL:
		*a *= b;
		break;
	case DIV:
		if (!b)
			return false;
		*a /= b;
		break;
	case OR:
		*a |= b;
		break;
	case AND:
		*a &= b;
		break;
	case LSH:
		*a <<= b & 31;
		break;
	case RSH:
		*a >>= b & 31;
		break;
	case NEG:
		*a = -*a;
		break;
	default:
		*a ^= b;
		break;
	}
	return true;
}

static bool compare(uint16_t code, uint32_t a, uint32_t b)
{
	switch (code & OP) {
	case JEQ:
		return a == b;
	case JGT:
		return a > b;
	case JGE:
		return a >= b;
	default:
		return a & b;
	}
}

uint32_t cbpf_run(const struct cbpf_insn *prog, const uint32_t *words, uint32_t nr_words)
{
	uint32_t memory[MEMORY_WORDS] = { 0 }, a = 0, x = 0;

	for (const struct cbpf_insn *in = prog;; in++) {
		const uint32_t b = in->code & X ? x : in->k;

		switch (in->code) {
		case LD | ABS:
			ASSERT(in->k / 4 < nr_words);
			a = words[in->k / 4];
			continue;
		case LD | IMM:
			a = in->k;
			continue;
		case LDX | IMM:
			x = in->k;
			continue;
		case LD | LEN:
			a = nr_words * 4;
			continue;
		case LDX | LEN:
			x = nr_words * 4;
			continue;
		case LD | MEM:
			ASSERT(in->k < MEMORY_WORDS);
			a = memory[in->k];
			continue;
		case LDX | MEM:
			x = memory[in->k];
			continue;
		case ST:
			memory[in->k] = a;
			continue;
		case STX:
			memory[in->k] = x;
			continue;
		case MISC | TAX:
			x = a;
			continue;
		case MISC | TXA:
			a = x;
			continue;
		case RET | K:
			return in->k;
		case RET | A:
			return a;
		case JMP | JA:
			in += in->k;
			continue;
		default:
			break;
		}
		if ((in->code & CLASS) == JMP)
			in += compare(in->code, a, b) ? in->jt : in->jf;
		else if (!compute(in->code, &a, b))
			return 0;
	}
}
