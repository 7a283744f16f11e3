/* SPDX-License-Identifier: MIT */
/* The beginning and the end of tests of the memory monitor. */
#pragma once

#include "fake.h"

#define SHIFT_2M 21u
#define MB       (1ull << 20)
#define RW       (PM_PROT_READ | PM_PROT_WRITE)

/* As fake_start(), and one space that has its home at the first node. False: it was refused. */
static inline bool space_start(struct fake *f, struct fake_proc *p, size_t nr, uint64_t frames,
			       uint32_t shift)
{
	fake_start(f, nr, frames, shift);
	proc_init(p, f, FAKE_ASPACE(1), FAKE_MEM_FIRST);
	return proc_space(p) == 0;
}

/* The end of both: false if the space was not known any more, or something is left. */
static inline bool space_stop(struct fake *f, struct fake_proc *p)
{
	const bool ended = proc_destroy(p) == 0;

	proc_done(p);
	return fake_stop(f) && ended;
}
