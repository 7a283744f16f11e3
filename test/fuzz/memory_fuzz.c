/* SPDX-License-Identifier: MIT */
/*
 * Two memory monitors and a processor that asks for anything: the input is a list of calls, each a
 * byte that says which, then its arguments. Spaces and addresses are few, so that calls meet; some
 * calls are raw bodies. When the processor is gone everything must have been given back.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <lib/err.h>
#include <lib/errno.h>
#include <shim/shim.h>

#include "../host/memory/fake.h"

#define SPACES   8u
#define CALLS    200u
#define SHIFT_2M 21u
#define FRAMES   320u
#define WINDOW   0x40000000ull

struct input {
	const uint8_t *data;
	size_t left;
};

static struct fake f;
static struct fake_proc spaces[SPACES];

static uint32_t byte(struct input *in)
{
	if (!in->left)
		return 0;
	in->left--;
	return *in->data++;
}

static struct fake_proc *space(struct input *in)
{
	return &spaces[byte(in) % SPACES];
}

/* A page of 16 MiB; of all but few bytes near the beginning of a vRegion. */
static uint64_t address(struct input *in)
{
	const uint32_t b = byte(in);

	return WINDOW + ((uint64_t)(b >> 5) << SHIFT_2M) + (b & 31) * PAGE_SIZE;
}

static uint64_t length(struct input *in)
{
	const uint32_t b = byte(in);

	return b < 128 ? (b + 1ull) * PAGE_SIZE : (b - 127ull) << 18;
}

static uint32_t ranges(struct input *in, bool object, struct pm_page_range *out)
{
	const uint32_t want = byte(in) % 4;
	uint64_t at = object ? 0 : WINDOW;
	uint32_t nr = 0;

	for (; nr < want; nr++) {
		out[nr].addr = at + byte(in) * PAGE_SIZE;
		out[nr].len = length(in);
		at = out[nr].addr + out[nr].len;
	}
	return nr;
}

/* Any opcode of a processor's, with any body. */
static void raw_call(struct input *in)
{
	static uint8_t reply[16384];
	const uint16_t opcode = (uint16_t)(PM_EXEC + byte(in) % 0x15);
	const size_t len = MIN((size_t)byte(in), in->left);
	uint32_t error_len;
	void *body = malloc(len ? len : 1);

	memcpy(body, in->data, len);
	in->data += len;
	in->left -= len;
	(void)memory_serve(&f.mem[byte(in) % 2], FAKE_PROC, opcode, body, (uint32_t)len, NULL, 0,
			   reply, sizeof(reply), &error_len);
	free(body);
}

static void call_mapping(struct input *in, uint32_t which)
{
	struct fake_proc *p = space(in);
	const uint64_t at = address(in), len = length(in);
	const uint32_t flags = byte(in);
	uint64_t out;

	switch (which) {
	case 0:
		(void)proc_mmap(p, at, len, flags & 7, flags >> 3, &out);
		break;
	case 1:
		(void)proc_mmap_object(p, at, len, flags & 7, flags >> 3, space(in)->aspace,
				       byte(in), &out);
		break;
	case 2:
		(void)proc_munmap(p, at, len);
		break;
	case 3:
		(void)proc_mprotect(p, at, len, flags & 7);
		break;
	case 4:
		(void)proc_mremap(p, at, len, length(in), flags & 3, flags & 2 ? address(in) : 0,
				  &out);
		break;
	default:
		(void)proc_brk_lease(p, 0x10000000 + len, flags & 63, &out);
		break;
	}
}

/* Leases near each other, and batches with numbers and ranges of all kinds. */
static void call_lease(struct input *in, uint32_t which)
{
	struct fake_proc *p = space(in);
	const uint64_t at = address(in), len = length(in);
	struct pm_page_range list[4];
	struct pm_lease_range out[4];
	uint64_t done;
	uint32_t nr;
	bool leased;

	if (!which) {
		(void)proc_mmap_lease(p, at, len, byte(in) * 8, &done, &leased);
		return;
	}
	nr = ranges(in, false, list);
	for (uint32_t i = 0; i < nr; i++) {
		const uint32_t flags = byte(in) & 1;

		out[i] = (struct pm_lease_range){ list[i].addr, list[i].len,
						  flags ? byte(in) & 7 : 0, flags };
	}
	(void)proc_lease(p, byte(in), out, nr, &done);
}

static void call_space(struct input *in, uint32_t which)
{
	struct pm_page_range list[4];
	struct fake_proc *p = space(in);
	struct fake_proc *a, *b;
	uint32_t nr, got;

	switch (which) {
	case 0:
		a = space(in);
		b = space(in);
		if (p != a && p != b && a != b)
			(void)proc_fork(p, a, b);
		break;
	case 1:
		a = space(in);
		nr = ranges(in, false, list);
		(void)proc_collapse(p, a, list, nr);
		break;
	case 2:
		nr = ranges(in, byte(in) & 1, list);
		(void)proc_discard(p, list, nr);
		break;
	case 3:
		nr = byte(in);
		(void)proc_object(p, nr & 1 ? length(in) : 0, nr >> 1);
		break;
	case 4:
		(void)proc_activate(p, byte(in), byte(in), byte(in), &got);
		break;
	case 5:
		(void)proc_destroy(p);
		break;
	default:
		(void)proc_space(p);
		break;
	}
}

static void call_data(struct input *in, uint32_t which)
{
	static uint8_t page[PAGE_SIZE];
	struct fake_proc *p = space(in);
	const uint64_t at = byte(in) & 1 ? address(in) : byte(in) * PAGE_SIZE;
	uint32_t got;

	if (which == 0)
		(void)proc_fetch(p, at, byte(in) & 1, page);
	else if (which == 1)
		(void)proc_credit(p, FAKE_MEM_FIRST + byte(in) % 2, byte(in), byte(in), &got);
	else if (which == 2)
		(void)home_move_vregion(fake_node(&f, p->home), p->aspace, at >> SHIFT_2M,
					FAKE_MEM_FIRST + byte(in) % 2);
	else
		(void)proc_writeback(p, at, page);
}

static void one_call(struct input *in)
{
	const uint32_t op = byte(in);

	if (op >= 240) {
		raw_call(in);
		return;
	}
	if (op >= 200) /* an allocation of this call fails, and all after it */
		shim_fail_alloc_after((long)(op - 200));
	if (op % 20 < 6)
		call_mapping(in, op % 20);
	else if (op % 20 < 13)
		call_space(in, op % 20 - 6);
	else if (op % 20 < 17)
		call_data(in, op % 20 - 13);
	else
		call_lease(in, op % 20 - 17);
	shim_fail_alloc_after(-1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };

	fake_start(&f, 2, FRAMES, SHIFT_2M);
	f.mem[1].pool.kernel_max = 8 << 10; /* a few spaces with some areas */
	for (uint32_t i = 0; i < SPACES; i++) {
		const uint32_t home = FAKE_MEM_FIRST + (i == SPACES - 1);

		proc_init(&spaces[i], &f, FAKE_SPACE(home, i + 1), home);
	}
	for (uint32_t i = 0; i < CALLS && in.left; i++)
		one_call(&in);
	for (uint32_t i = 0; i < 2; i++)
		memory_processor_gone(&f.mem[i], FAKE_PROC);
	for (uint32_t i = 0; i < SPACES; i++)
		proc_done(&spaces[i]);
	if (!fake_stop(&f))
		abort();
	return 0;
}
