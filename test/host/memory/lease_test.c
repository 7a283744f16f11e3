/* SPDX-License-Identifier: MIT */
/*
 * Leases at homes and owners: what they are charged for, what batches do to them, and what is
 * refused to a processor that makes things up.
 */
#include <string.h>

#include <lib/errno.h>
#include <lib/ktest.h>
#include <lib/prng.h>
#include <shim/shim.h>

#include "fixture.h"

#define AS_MAPPED PM_LEASE_MAPPED

static uint64_t committed(struct fake *f)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < f->nr_mem; i++) {
		struct pool_stats s;

		pool_stats(&f->mem[i].pool, &s);
		sum += s.committed;
	}
	return sum;
}

/* All nodes get @mode; the fake's is the strict one. */
static void set_mode(struct ktest *t, struct fake *f, uint64_t count, uint32_t mode)
{
	const struct pm_commit policy = { .version = count << PM_COMMIT_NODE_BITS | FAKE_PROC,
					  .mode = mode,
					  .ratio = 100 };
	struct pm_commit_wire w, rw;

	pm_commit_encode(&policy, &w);
	for (size_t i = 0; i < f->nr_mem; i++)
		EXPECT_EQ(t,
			  memory_serve(&f->mem[i], FAKE_PROC, PM_COMMIT, &w, sizeof(w), NULL, 0,
				       &rw, sizeof(rw), NULL),
			  (int)sizeof(rw));
}

/* An empty space, and leases to be had. */
static void start(struct ktest *t, struct fake *f, struct fake_proc *p, size_t nr)
{
	EXPECT_TRUE(t, space_start(f, p, nr, 2048, SHIFT_2M));
	set_mode(t, f, 1, PM_COMMIT_HEURISTIC);
}

/* A lease of @pages for a mapping of one page; nothing else is mapped. */
static uint64_t lease_start(struct ktest *t, struct fake *f, struct fake_proc *p, size_t nr,
			    uint32_t pages)
{
	uint64_t at = 0;
	bool leased = false;

	start(t, f, p, nr);
	EXPECT_EQ(t, proc_mmap_lease(p, 0, PAGE_SIZE, pages, &at, &leased), 0);
	EXPECT_TRUE(t, leased);
	EXPECT_EQ(t, committed(f), pages);
	return at;
}

/* A lease at @addr, the rights of another mapping, or nothing. */
static char picture_of(struct fake_proc *p, uint64_t addr)
{
	struct pm_vma v;

	if (proc_fill_vma(p, addr, &v))
		return '-';
	return v.flags & PM_VMA_LEASE ? 'L' : (char)('0' + v.prot);
}

static const char *picture(struct fake_proc *p, uint64_t at, uint64_t nr)
{
	static char text[32];

	for (uint64_t i = 0; i < nr; i++)
		text[i] = picture_of(p, at + i * PAGE_SIZE);
	text[nr] = '\0';
	return text;
}

static struct pm_lease_range range(uint64_t at, uint64_t first, uint64_t nr, uint32_t prot,
				   uint32_t flags)
{
	return (struct pm_lease_range){ at + first * PAGE_SIZE, nr * PAGE_SIZE, prot, flags };
}

static void a_lease_takes_and_gives_pages(struct ktest *t)
{
	static uint8_t page[PAGE_SIZE];
	struct pm_lease_range r[2];
	struct fake_proc p;
	struct fake f;
	const uint64_t at = lease_start(t, &f, &p, 1, 16);
	uint64_t done = 0;

	/* All of it takes pages, whatever the program has mapped. */
	for (uint64_t i = 0; i < 16; i++) {
		page_stamp(page, i + 1);
		EXPECT_EQ(t, proc_writeback(&p, at + i * PAGE_SIZE, page), 0);
	}
	EXPECT_EQ(t, proc_fetch(&p, at + 15 * PAGE_SIZE, true, page), PM_FETCH_DATA);
	EXPECT_EQ(t, page_value(page), 16u);

	r[0] = range(at, 0, 4, 0, 0);
	r[1] = range(at, 6, 2, PM_PROT_READ, AS_MAPPED);
	EXPECT_EQ(t, proc_lease(&p, 1, r, 2, &done), 0);
	EXPECT_EQ(t, done, at + 8 * PAGE_SIZE);
	EXPECT_STREQ(t, picture(&p, at, 16), "----LL11LLLLLLLL");
	EXPECT_EQ(t, committed(&f), 10u);
	EXPECT_EQ(t, proc_writeback(&p, at, page), -EFAULT);
	EXPECT_EQ(t, proc_fetch(&p, at + 6 * PAGE_SIZE, false, page), PM_FETCH_DATA);
	EXPECT_EQ(t, page_value(page), 7u);

	/* Calls as today's end the lease where they are. */
	EXPECT_EQ(t, proc_mprotect(&p, at + 8 * PAGE_SIZE, 2 * PAGE_SIZE, RW), 0);
	EXPECT_EQ(t, proc_munmap(&p, at + 12 * PAGE_SIZE, PAGE_SIZE), 0);
	EXPECT_STREQ(t, picture(&p, at, 16), "----LL1133LL-LLL");
	EXPECT_EQ(t, committed(&f), 9u);
	EXPECT_TRUE(t, space_stop(&f, &p));
}

static int protect_lease(struct fake_proc *p, uint64_t at, uint64_t pages, uint32_t lease)
{
	return proc_range_lease(p, PM_MPROTECT, at, pages * PAGE_SIZE, RW, lease);
}

/* PM_MPROTECT makes a lease of what is reserved: all of it, with its pages, and charged. */
static void a_lease_of_what_is_mapped(struct ktest *t)
{
	const uint64_t at = 0x20000000 - 4 * PAGE_SIZE; /* across two vRegions */
	static uint8_t page[PAGE_SIZE];
	struct fake_proc p;
	struct fake f;
	uint64_t out;

	start(t, &f, &p, 2);
	EXPECT_EQ(t, proc_mmap(&p, at, 8 * PAGE_SIZE, RW, PM_MAP_FIXED | PM_MAP_NORESERVE, &out),
		  0);
	page_stamp(page, 77);
	EXPECT_EQ(t, proc_writeback(&p, at + 5 * PAGE_SIZE, page), 0);
	EXPECT_EQ(t, proc_mprotect(&p, at, 8 * PAGE_SIZE, 0), 0);
	EXPECT_EQ(t, committed(&f), 0u);
	EXPECT_EQ(t, protect_lease(&p, at, 1, 6), 0);
	EXPECT_STREQ(t, picture(&p, at, 8), "LLLLLL00");
	EXPECT_EQ(t, committed(&f), 6u);
	EXPECT_EQ(t, proc_fetch(&p, at + 5 * PAGE_SIZE, false, page), PM_FETCH_DATA);
	EXPECT_EQ(t, page_value(page), 77u);
	/* Again, and beyond its end: what is leased stays so. */
	EXPECT_EQ(t, protect_lease(&p, at, 1, 7), 0);
	EXPECT_STREQ(t, picture(&p, at, 8), "LLLLLLL0");
	EXPECT_EQ(t, committed(&f), 7u);

	/* Of what is not mapped, or not private, no lease is made: the call is done alone. */
	EXPECT_EQ(t, protect_lease(&p, at + 7 * PAGE_SIZE, 1, 2), 0);
	EXPECT_EQ(t,
		  proc_mmap(&p, at + 16 * PAGE_SIZE, 4 * PAGE_SIZE, 0, PM_MAP_FIXED | PM_MAP_SHARED,
			    &out),
		  0);
	EXPECT_EQ(t, protect_lease(&p, at + 16 * PAGE_SIZE, 1, 4), 0);
	EXPECT_STREQ(t, picture(&p, at, 20), "LLLLLLL3--------3000");
	EXPECT_EQ(t, protect_lease(&p, at, 2, 1), -EPROTO);
	EXPECT_EQ(t, proc_range_lease(&p, PM_MUNMAP, at, PAGE_SIZE, 0, 4), -EINVAL);
	EXPECT_STREQ(t, picture(&p, at, 20), "LLLLLLL3--------3000");
	set_mode(t, &f, 2, PM_COMMIT_STRICT);
	EXPECT_EQ(t, proc_mprotect(&p, at, 8 * PAGE_SIZE, 0), 0);
	EXPECT_EQ(t, protect_lease(&p, at, 1, 4), 0);
	EXPECT_STREQ(t, picture(&p, at, 8), "30000000");
	EXPECT_EQ(t, proc_munmap(&p, at, 20 * PAGE_SIZE), 0);
	EXPECT_EQ(t, committed(&f), 0u);
	EXPECT_TRUE(t, space_stop(&f, &p));
}

/* PM_MAP_FIXED_NOREPLACE: from its place on, if all of it is free; else the mapping alone. */
static void a_lease_at_a_place(struct ktest *t)
{
	const uint32_t at_place = PM_MAP_FIXED_NOREPLACE;
	uint64_t addr = 0x20000000, out = 0;
	bool leased = false;
	struct fake_proc p;
	struct fake f;

	start(t, &f, &p, 2);
	EXPECT_EQ(t, proc_mmap_lease_at(&p, addr, PAGE_SIZE, 8, at_place, &out, &leased), 0);
	EXPECT_TRUE(t, leased);
	EXPECT_EQ(t, out, addr);
	EXPECT_STREQ(t, picture(&p, addr, 10), "LLLLLLLL--");
	EXPECT_EQ(
		t,
		proc_mmap_lease_at(&p, addr + 7 * PAGE_SIZE, PAGE_SIZE, 8, at_place, &out, &leased),
		-EEXIST);
	EXPECT_EQ(t,
		  proc_mmap_lease_at(&p, addr - PAGE_SIZE, PAGE_SIZE, 8, at_place, &out, &leased),
		  0);
	EXPECT_FALSE(t, leased);
	EXPECT_EQ(t, out, addr - PAGE_SIZE);
	EXPECT_STREQ(t, picture(&p, addr - PAGE_SIZE, 10), "3LLLLLLLL-");
	/* Where nothing may be, and behind the end. */
	EXPECT_EQ(t, proc_mmap_lease_at(&p, 0x1000, PAGE_SIZE, 8, at_place, &out, &leased), -EPERM);
	addr = PM_USER_TOP - 2 * PAGE_SIZE;
	EXPECT_EQ(t, proc_mmap_lease_at(&p, addr, PAGE_SIZE, 8, at_place, &out, &leased), 0);
	EXPECT_FALSE(t, leased);
	EXPECT_EQ(t, out, addr);
	EXPECT_EQ(t, committed(&f), 10u);
	EXPECT_TRUE(t, space_stop(&f, &p));
}

/* A mapping of a file in a lease is the processor's; without one it is the home's. */
static void a_file_may_ask_for_a_lease(struct ktest *t)
{
	struct pm_mmap_req req = {
		.len = 3 * PAGE_SIZE, .pgoff = 7, .prot = PM_PROT_READ, .lease_pages = 8
	};
	static uint8_t reply[16384];
	static struct pm_range_rep rep;
	struct pm_mmap_req_wire w;
	struct fake_proc p;
	struct pm_vma v;
	struct fake f;

	start(t, &f, &p, 1);
	req.aspace = p.aspace;
	req.file = fake_sealed((struct proto_file){ .ino = 7, .gen = 1, .node = FAKE_STORAGE },
			       PROTO_VNODE_ROOT);
	for (int i = 0; i < 2; i++) {
		int ret;

		pm_mmap_req_encode(&req, &w);
		ret = memory_serve(&f.mem[0], FAKE_PROC, PM_MMAP, &w, sizeof(w), NULL, 0, reply,
				   sizeof(reply), NULL);
		ASSERT_TRUE(t, ret > 0 && !pm_range_rep_decode(reply, (size_t)ret, &rep));
		EXPECT_EQ(t, proc_fill_vma(&p, rep.addr, &v), 0);
		EXPECT_EQ(t, v.end - v.start, i ? 3 * PAGE_SIZE : 8 * PAGE_SIZE);
		EXPECT_EQ(t, v.flags, i ? PM_VMA_FILE : PM_VMA_LEASE);
		EXPECT_EQ(t, v.pgoff, i ? 7u : 0u);
		set_mode(t, &f, 2, PM_COMMIT_STRICT); /* in which there are none */
	}
	EXPECT_EQ(t, committed(&f), 8u);
	/* Shared ones, and those in the place of others, are never the processor's. */
	for (int i = 0; i < 2; i++) {
		req.flags = i ? PM_MAP_SHARED : PM_MAP_FIXED;
		req.addr = rep.addr;
		pm_mmap_req_encode(&req, &w);
		EXPECT_EQ(t,
			  memory_serve(&f.mem[0], FAKE_PROC, PM_MMAP, &w, sizeof(w), NULL, 0, reply,
				       sizeof(reply), NULL),
			  -EPROTO);
	}
	EXPECT_TRUE(t, space_stop(&f, &p));
}

static void a_number_is_served_once(struct ktest *t)
{
	struct fake_proc p;
	struct fake f;
	const uint64_t at = lease_start(t, &f, &p, 1, 8);
	struct pm_lease_range r = range(at, 0, 2, 0, 0);
	uint64_t done = 0, addr;

	EXPECT_EQ(t, proc_lease(&p, 7, &r, 1, &done), 0);
	/* The range is mapped again: the batch is told again, and does nothing. */
	EXPECT_EQ(t, proc_mmap(&p, at, 2 * PAGE_SIZE, RW, PM_MAP_FIXED, &addr), 0);
	done = 0;
	EXPECT_EQ(t, proc_lease(&p, 7, &r, 1, &done), 0);
	EXPECT_EQ(t, done, at + 2 * PAGE_SIZE);
	EXPECT_EQ(t, proc_lease(&p, 6, &r, 1, &done), -ESTALE);
	EXPECT_STREQ(t, picture(&p, at, 8), "33LLLLLL");
	/* A new one finds that it is not leased. */
	EXPECT_EQ(t, proc_lease(&p, 8, &r, 1, &done), -EINVAL);
	EXPECT_STREQ(t, picture(&p, at, 8), "33LLLLLL");
	EXPECT_TRUE(t, space_stop(&f, &p));
}

static void what_is_not_leased_is_refused(struct ktest *t)
{
	struct fake_proc p, other;
	struct pm_lease_range r[2];
	struct fake f;
	const uint64_t at = lease_start(t, &f, &p, 1, 8);
	const uint64_t far = 0x20000000;
	uint64_t done, addr;

	EXPECT_EQ(t,
		  proc_mmap(&p, far, 4 * PAGE_SIZE, PM_PROT_READ, PM_MAP_FIXED | PM_MAP_SHARED,
			    &addr),
		  0);
	r[0] = range(far, 0, 1, 0, 0); /* a mapping */
	r[1] = range(at, 0, 1, 0, 0);
	EXPECT_EQ(t, proc_lease(&p, 1, r, 2, &done), -EINVAL);
	r[0] = range(far, 0, 1, RW, AS_MAPPED); /* one that is shared */
	EXPECT_EQ(t, proc_lease(&p, 1, r, 2, &done), -EINVAL);
	r[0] = range(far, 8, 1, RW, AS_MAPPED); /* nothing */
	EXPECT_EQ(t, proc_lease(&p, 1, r, 2, &done), -EINVAL);
	r[0] = range(at, 4, 8, RW, AS_MAPPED); /* beyond its end */
	EXPECT_EQ(t, proc_lease(&p, 1, r, 1, &done), -EINVAL);
	r[0] = range(at, 2, 2, 0, 0); /* in the wrong order */
	EXPECT_EQ(t, proc_lease(&p, 1, r, 2, &done), -EPROTO);
	EXPECT_STREQ(t, picture(&p, at, 8), "LLLLLLLL");
	/* Another processor's, and no space at all. */
	proc_init(&other, &f, p.aspace, FAKE_MEM_FIRST);
	other.proc = FAKE_PROC + 1;
	EXPECT_EQ(t, proc_lease(&other, 1, &r[1], 1, &done), -ESRCH);
	other.aspace = FAKE_ASPACE(77);
	EXPECT_EQ(t, proc_lease(&other, 1, &r[1], 1, &done), -ESRCH);
	proc_done(&other);
	EXPECT_TRUE(t, space_stop(&f, &p));
}

static void a_lease_that_cannot_be_had(struct ktest *t)
{
	struct fake_proc p;
	struct fake f;
	uint64_t at, brk;
	bool leased;

	start(t, &f, &p, 1);
	/* More than there is memory; the mapping itself is not. */
	EXPECT_EQ(t, proc_mmap_lease(&p, 0, PAGE_SIZE, 1 << 20, &at, &leased), 0);
	EXPECT_FALSE(t, leased);
	EXPECT_EQ(t, proc_mmap_lease(&p, 0, PAGE_SIZE, UINT32_MAX, &at, &leased), 0);
	EXPECT_FALSE(t, leased);
	EXPECT_EQ(t, proc_brk_lease(&p, 0x10000000 + 100, 1 << 20, &brk), 0);
	EXPECT_EQ(t, brk, 0x10000000u + 100);
	/* The strict mode counts what is mapped, and nothing else. */
	set_mode(t, &f, 2, PM_COMMIT_STRICT);
	EXPECT_EQ(t, committed(&f), 3u);
	EXPECT_EQ(t, proc_mmap_lease(&p, 0, PAGE_SIZE, 16, &at, &leased), 0);
	EXPECT_FALSE(t, leased);
	EXPECT_EQ(t, proc_brk_lease(&p, 0x10000000 + 2 * PAGE_SIZE, 16, &brk), 0);
	EXPECT_EQ(t, brk, 0x10000000u + 2 * PAGE_SIZE);
	EXPECT_EQ(t, committed(&f), 5u);
	EXPECT_TRUE(t, space_stop(&f, &p));
}

static void the_break_has_a_lease_behind_it(struct ktest *t)
{
	struct fake_proc p;
	struct fake f;
	uint64_t brk;

	start(t, &f, &p, 1);
	EXPECT_EQ(t, proc_brk_lease(&p, 0x10000000 + 100, 16, &brk), 0);
	EXPECT_EQ(t, brk, 0x10000000 + 17 * PAGE_SIZE);
	EXPECT_EQ(t, committed(&f), 17u);
	EXPECT_EQ(t, proc_brk(&p, 0x10000000 + 4 * PAGE_SIZE, &brk), 0);
	EXPECT_EQ(t, brk, 0x10000000 + 4 * PAGE_SIZE);
	EXPECT_EQ(t, committed(&f), 4u);
	EXPECT_TRUE(t, space_stop(&f, &p));
}

/* Both of a fork have it; the numbers go on. */
static void a_fork_copies_leases(struct ktest *t)
{
	static uint8_t page[PAGE_SIZE];
	struct fake_proc p, parent, child;
	struct fake f;
	const uint64_t at = lease_start(t, &f, &p, 2, 8);
	struct pm_lease_range r = range(at, 0, 2, 0, 0);
	uint64_t done;

	EXPECT_EQ(t, proc_lease(&p, 3, &r, 1, &done), 0);
	proc_init(&parent, &f, FAKE_ASPACE(2), FAKE_MEM_FIRST);
	proc_init(&child, &f, FAKE_ASPACE(3), FAKE_MEM_FIRST);
	ASSERT_EQ(t, proc_fork(&p, &parent, &child), 0);
	EXPECT_STREQ(t, picture(&parent, at, 8), "--LLLLLL");
	EXPECT_STREQ(t, picture(&child, at, 8), "--LLLLLL");
	EXPECT_EQ(t, committed(&f), 12u);
	r = range(at, 2, 2, 0, 0);
	EXPECT_EQ(t, proc_lease(&child, 2, &r, 1, &done), -ESTALE);
	EXPECT_EQ(t, proc_lease(&child, 4, &r, 1, &done), 0);
	EXPECT_EQ(t, proc_lease(&p, 4, &r, 1, &done), -EINVAL); /* frozen */
	EXPECT_STREQ(t, picture(&parent, at, 8), "--LLLLLL");
	EXPECT_STREQ(t, picture(&child, at, 8), "----LLLL");
	/* A vRegion goes to another owner with its leases. */
	for (uint32_t i = 0; i < 2; i++) {
		const int err = home_move_vregion(&f.mem[0], parent.aspace, at >> SHIFT_2M,
						  FAKE_MEM_FIRST + i);

		EXPECT_TRUE(t, !err || err == -EALREADY);
	}
	page_stamp(page, 5);
	EXPECT_EQ(t, proc_writeback(&parent, at + 7 * PAGE_SIZE, page), 0);
	EXPECT_STREQ(t, picture(&parent, at, 8), "--LLLLLL");
	EXPECT_EQ(t, proc_destroy(&parent), 0);
	EXPECT_EQ(t, proc_destroy(&child), 0);
	proc_done(&parent);
	proc_done(&child);
	EXPECT_TRUE(t, space_stop(&f, &p));
}

/*
 * Over two owners, with allocations that fail: what has been done is the beginning of the batch,
 * and a new one with the same ranges ends as if none had failed.
 */
static void a_batch_without_memory_is_continued(struct ktest *t)
{
	for (long n = 0; n < 40 && !t->nr_failed; n++) {
		struct pm_lease_range r[3];
		uint64_t done = 0, at, border;
		struct fake_proc p;
		struct fake f;
		bool leased;
		int err;

		start(t, &f, &p, 2);
		EXPECT_EQ(t, proc_mmap_lease(&p, 0, PAGE_SIZE, 1024, &at, &leased), 0);
		border = ALIGN_UP(at + 1, 2 * MB);
		r[0] = range(border, -4ull, 2, 0, 0);
		r[1] = range(border, -1ull, 2, PM_PROT_READ, AS_MAPPED);
		r[2] = range(border, 4, 2, 0, 0);
		shim_fail_alloc_after(n);
		err = proc_lease(&p, 1, r, 3, &done);
		shim_fail_alloc_after(-1);
		EXPECT_TRUE(t, err == -ENOMEM || !err);
		EXPECT_TRUE(t, err || done == r[0].addr + r[0].len ||
				       done == r[1].addr + r[1].len ||
				       done == r[2].addr + r[2].len);
		if (err)
			EXPECT_EQ(t, committed(&f), 1024u);
		EXPECT_EQ(t, proc_lease(&p, 2, r, 3, &done), 0);
		EXPECT_EQ(t, done, r[2].addr + r[2].len);
		EXPECT_STREQ(t, picture(&p, border - 5 * PAGE_SIZE, 12), "L--L11LLL--L");
		EXPECT_EQ(t, committed(&f), 1018u);
		EXPECT_TRUE(t, space_stop(&f, &p));
	}
}

static const struct ktest_case cases[] = {
	KTEST(a_lease_takes_and_gives_pages),
	KTEST(a_number_is_served_once),
	KTEST(what_is_not_leased_is_refused),
	KTEST(a_lease_that_cannot_be_had),
	KTEST(the_break_has_a_lease_behind_it),
	KTEST(a_fork_copies_leases),
	KTEST(a_batch_without_memory_is_continued),
	KTEST(a_lease_at_a_place),
	KTEST(a_lease_of_what_is_mapped),
	KTEST(a_file_may_ask_for_a_lease),
	{ 0 },
};
static const struct ktest_suite suite = { .name = "memory.lease", .cases = cases };
KTEST_SUITE(suite);
