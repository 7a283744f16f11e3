/* SPDX-License-Identifier: MIT */
/*
 * Classic BPF: which programs are accepted, and what they return. Opcodes are written as numbers,
 * as a program has them.
 */
#include <lib/cbpf.h>
#include <lib/errno.h>
#include <lib/ktest.h>
#include <lib/prng.h>

#define WORDS 16u

static uint16_t known[CBPF_MAX_INSNS];
static const uint32_t data[WORDS] = { 7, 0xc000003e, 3, 4, 100, 0, 0xffffffff, 1 };

#define PROG(...)            \
	(struct cbpf_insn[]) \
	{                    \
		__VA_ARGS__  \
	}
#define LEN(...)        (sizeof(PROG(__VA_ARGS__)) / sizeof(struct cbpf_insn))
#define CHECK_PROG(...) cbpf_check(PROG(__VA_ARGS__), LEN(__VA_ARGS__), WORDS, known)

#define RET_0 { 0x06, 0, 0, 0 }
#define RET_A { 0x16, 0, 0, 0 }

static void ends_and_lengths(struct ktest *t)
{
	static struct cbpf_insn many[CBPF_MAX_INSNS + 1];

	EXPECT_EQ(t, cbpf_check(many, 0, WORDS, known), -EINVAL);
	EXPECT_EQ(t, CHECK_PROG(RET_0), 0);
	EXPECT_EQ(t, CHECK_PROG(RET_A), 0);
	EXPECT_EQ(t, CHECK_PROG({ 0x0e, 0, 0, 0 }), -EINVAL); /* X is not returned */
	EXPECT_EQ(t, CHECK_PROG(RET_0, { 0x00, 0, 0, 1 }), -EINVAL);
	EXPECT_EQ(t, CHECK_PROG(RET_0, { 0x05, 0, 0, 0 }), -EINVAL);
	for (uint32_t i = 0; i < CBPF_MAX_INSNS + 1; i++)
		many[i] = (struct cbpf_insn){ .code = i + 1 < CBPF_MAX_INSNS ? 0x07 : 0x06 };
	EXPECT_EQ(t, cbpf_check(many, CBPF_MAX_INSNS, WORDS, known), 0);
	EXPECT_EQ(t, cbpf_check(many, CBPF_MAX_INSNS + 1, WORDS, known), -EINVAL);
}

static void loads_stay_in_the_data(struct ktest *t)
{
	EXPECT_EQ(t, CHECK_PROG({ 0x20, 0, 0, 60 }, RET_A), 0);
	EXPECT_EQ(t, CHECK_PROG({ 0x20, 0, 0, 64 }, RET_A), -EINVAL);
	EXPECT_EQ(t, CHECK_PROG({ 0x20, 0, 0, 61 }, RET_A), -EINVAL);
	EXPECT_EQ(t, CHECK_PROG({ 0x20, 0, 0, 0xfffff000 }, RET_A), -EINVAL); /* of sockets */
	EXPECT_EQ(t, CHECK_PROG({ 0x28, 0, 0, 0 }, RET_A), -EINVAL);          /* half a word */
	EXPECT_EQ(t, CHECK_PROG({ 0x30, 0, 0, 0 }, RET_A), -EINVAL);          /* a byte */
	EXPECT_EQ(t, CHECK_PROG({ 0x40, 0, 0, 0 }, RET_A), -EINVAL);          /* by X */
	EXPECT_EQ(t, CHECK_PROG({ 0xb1, 0, 0, 0 }, RET_A), -EINVAL);          /* of IP */
}

static void memory_is_written_before_it_is_read(struct ktest *t)
{
	EXPECT_EQ(t, CHECK_PROG({ 0x60, 0, 0, 3 }, RET_A), -EINVAL);
	EXPECT_EQ(t, CHECK_PROG({ 0x02, 0, 0, 3 }, { 0x60, 0, 0, 3 }, RET_A), 0);
	EXPECT_EQ(t, CHECK_PROG({ 0x03, 0, 0, 15 }, { 0x61, 0, 0, 15 }, RET_A), 0);
	EXPECT_EQ(t, CHECK_PROG({ 0x02, 0, 0, 16 }, RET_A), -EINVAL);
	EXPECT_EQ(t, CHECK_PROG({ 0x02, 0, 0, 3 }, { 0x60, 0, 0, 16 }, RET_A), -EINVAL);
	/* One way leads past the store. */
	EXPECT_EQ(t, CHECK_PROG({ 0x15, 0, 1, 0 }, { 0x02, 0, 0, 3 }, { 0x60, 0, 0, 3 }, RET_A),
		  -EINVAL);
	EXPECT_EQ(t, CHECK_PROG({ 0x05, 0, 0, 1 }, { 0x02, 0, 0, 3 }, { 0x60, 0, 0, 3 }, RET_A),
		  -EINVAL);
	/* Both ways store. */
	EXPECT_EQ(t,
		  CHECK_PROG({ 0x15, 0, 2, 0 }, { 0x02, 0, 0, 3 }, { 0x05, 0, 0, 1 },
			     { 0x03, 0, 0, 3 }, { 0x60, 0, 0, 3 }, RET_A),
		  0);
}

static void jumps_stay_in_the_program(struct ktest *t)
{
	EXPECT_EQ(t, CHECK_PROG({ 0x05, 0, 0, 0 }, RET_0), 0);
	EXPECT_EQ(t, CHECK_PROG({ 0x05, 0, 0, 1 }, RET_0), -EINVAL);
	EXPECT_EQ(t, CHECK_PROG({ 0x05, 0, 0, 0xffffffff }, RET_0), -EINVAL);
	EXPECT_EQ(t, CHECK_PROG({ 0x15, 0, 0, 9 }, RET_0), 0);
	EXPECT_EQ(t, CHECK_PROG({ 0x15, 1, 0, 9 }, RET_0), -EINVAL);
	EXPECT_EQ(t, CHECK_PROG({ 0x15, 0, 1, 9 }, RET_0), -EINVAL);
	EXPECT_EQ(t, CHECK_PROG({ 0x1d, 0, 255, 9 }, RET_0), -EINVAL);
	EXPECT_EQ(t, CHECK_PROG({ 0x55, 0, 0, 9 }, RET_0), -EINVAL); /* no such condition */
	EXPECT_EQ(t, CHECK_PROG({ 0x0d, 0, 0, 0 }, RET_0), -EINVAL); /* JA knows no X */
}

static void arithmetic_that_is_not_defined_is_refused(struct ktest *t)
{
	EXPECT_EQ(t, CHECK_PROG({ 0x34, 0, 0, 0 }, RET_A), -EINVAL);
	EXPECT_EQ(t, CHECK_PROG({ 0x3c, 0, 0, 0 }, RET_A), 0); /* by X: known when it runs */
	EXPECT_EQ(t, CHECK_PROG({ 0x64, 0, 0, 31 }, RET_A), 0);
	EXPECT_EQ(t, CHECK_PROG({ 0x64, 0, 0, 32 }, RET_A), -EINVAL);
	EXPECT_EQ(t, CHECK_PROG({ 0x74, 0, 0, 99 }, RET_A), -EINVAL);
	EXPECT_EQ(t, CHECK_PROG({ 0x94, 0, 0, 3 }, RET_A), -EINVAL); /* the remainder */
	EXPECT_EQ(t, CHECK_PROG({ 0x8c, 0, 0, 0 }, RET_A), -EINVAL);
	EXPECT_EQ(t, CHECK_PROG({ 0x104, 0, 0, 0 }, RET_A), -EINVAL);
	EXPECT_EQ(t, CHECK_PROG({ 0xffff, 0, 0, 0 }, RET_A), -EINVAL);
}

static uint32_t run(struct ktest *t, const struct cbpf_insn *prog, uint32_t nr)
{
	EXPECT_EQ(t, cbpf_check(prog, nr, WORDS, known), 0);
	return cbpf_run(prog, data, WORDS);
}

#define RUN(...) run(t, PROG(__VA_ARGS__), LEN(__VA_ARGS__))

static void programs_return(struct ktest *t)
{
	EXPECT_EQ(t, RUN({ 0x06, 0, 0, 0x7fff0000 }), 0x7fff0000u);
	EXPECT_EQ(t, RUN(RET_A), 0u);
	EXPECT_EQ(t, RUN({ 0x20, 0, 0, 4 }, RET_A), 0xc000003eu);
	EXPECT_EQ(t, RUN({ 0x80, 0, 0, 0 }, RET_A), 64u);
	EXPECT_EQ(t, RUN({ 0x81, 0, 0, 0 }, { 0x87, 0, 0, 0 }, RET_A), 64u);
	EXPECT_EQ(t,
		  RUN({ 0x00, 0, 0, 5 }, { 0x07, 0, 0, 0 }, { 0x04, 0, 0, 2 }, { 0x2c, 0, 0, 0 },
		      RET_A),
		  35u); /* (5 + 2) * 5 */
	EXPECT_EQ(t, RUN({ 0x00, 0, 0, 5 }, { 0x14, 0, 0, 7 }, RET_A), -2u);
	EXPECT_EQ(t, RUN({ 0x00, 0, 0, 5 }, { 0x84, 0, 0, 0 }, RET_A), -5u);
	EXPECT_EQ(t, RUN({ 0x00, 0, 0, 100 }, { 0x34, 0, 0, 7 }, RET_A), 14u);
	EXPECT_EQ(t, RUN({ 0x00, 0, 0, 1 }, { 0x01, 0, 0, 33 }, { 0x6c, 0, 0, 0 }, RET_A), 2u);
	EXPECT_EQ(t,
		  RUN({ 0x00, 0, 0, 0xf0 }, { 0x44, 0, 0, 0xf }, { 0x54, 0, 0, 0x3c },
		      { 0xa4, 0, 0, 0xff }, { 0x74, 0, 0, 1 }, RET_A),
		  0x61u);
	/* A division by zero ends it. */
	EXPECT_EQ(t, RUN({ 0x00, 0, 0, 5 }, { 0x3c, 0, 0, 0 }, { 0x06, 0, 0, 1 }), 0u);
	EXPECT_EQ(t,
		  RUN({ 0x00, 0, 0, 9 }, { 0x02, 0, 0, 1 }, { 0x00, 0, 0, 1 }, { 0x61, 0, 0, 1 },
		      { 0x0c, 0, 0, 0 }, RET_A),
		  10u);
}

static uint32_t jump(struct ktest *t, uint16_t code, uint32_t a, uint32_t k)
{
	const struct cbpf_insn prog[] = {
		{ 0x00, 0, 0, a }, { code, 1, 0, k }, RET_0, { 0x06, 0, 0, 1 }
	};

	EXPECT_EQ(t, cbpf_check(prog, ARRAY_SIZE(prog), WORDS, known), 0);
	return cbpf_run(prog, data, WORDS);
}

static void conditions_compare_without_a_sign(struct ktest *t)
{
	EXPECT_EQ(t, jump(t, 0x15, 3, 3), 1u);
	EXPECT_EQ(t, jump(t, 0x15, 3, 4), 0u);
	EXPECT_EQ(t, jump(t, 0x25, 0xffffffff, 1), 1u);
	EXPECT_EQ(t, jump(t, 0x25, 1, 1), 0u);
	EXPECT_EQ(t, jump(t, 0x35, 1, 1), 1u);
	EXPECT_EQ(t, jump(t, 0x35, 0, 0xffffffff), 0u);
	EXPECT_EQ(t, jump(t, 0x45, 6, 2), 1u);
	EXPECT_EQ(t, jump(t, 0x45, 6, 9), 0u);
}

/* Any bytes that are accepted run to their end, and the sanitizers of the host see no fault. */
static void any_program_that_is_accepted_ends(struct ktest *t)
{
	static const uint16_t codes[] = { 0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x0c,
					  0x14, 0x15, 0x16, 0x1d, 0x20, 0x24, 0x25, 0x2c, 0x34,
					  0x35, 0x3c, 0x45, 0x54, 0x60, 0x61, 0x64, 0x6c, 0x80,
					  0x81, 0x84, 0x87, 0xa4, 0xac, 0x28, 0x94 };
	struct cbpf_insn prog[24];
	unsigned int accepted = 0;
	struct prng r;

	prng_seed(&r, 5);
	for (unsigned int i = 0; i < 200000; i++) {
		const uint32_t nr = 1 + (uint32_t)prng_below(&r, ARRAY_SIZE(prog));

		for (uint32_t k = 0; k < nr; k++)
			prog[k] = (struct cbpf_insn){
				.code = codes[prng_below(&r, ARRAY_SIZE(codes))],
				.jt = (uint8_t)prng_below(&r, 6),
				.jf = (uint8_t)prng_below(&r, 6),
				.k = (uint32_t)prng_below(&r, prng_below(&r, 8) ? 8 : 1ull << 32),
			};
		prog[nr - 1].code = 0x16;
		if (cbpf_check(prog, nr, WORDS, known))
			continue;
		accepted++;
		(void)cbpf_run(prog, data, WORDS);
	}
	EXPECT_TRUE(t, accepted > 1000);
}

static const struct ktest_case cbpf_cases[] = {
	KTEST(ends_and_lengths),
	KTEST(loads_stay_in_the_data),
	KTEST(memory_is_written_before_it_is_read),
	KTEST(jumps_stay_in_the_program),
	KTEST(arithmetic_that_is_not_defined_is_refused),
	KTEST(programs_return),
	KTEST(conditions_compare_without_a_sign),
	KTEST(any_program_that_is_accepted_ends),
	{ 0 },
};
static const struct ktest_suite cbpf_suite = { .name = "lib.cbpf", .cases = cbpf_cases };
KTEST_SUITE(cbpf_suite);
