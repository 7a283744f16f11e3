/* SPDX-License-Identifier: MIT */
/*
 * Memory monitor: the vNode of a space.
 */
#include <string.h>

#include <lib/err.h>
#include <lib/errno.h>
#include <lib/ktest.h>
#include <proto/mm.h>

#include "../../../monitors/memory/dispatch.h"
#include "../../../monitors/memory/memory.h"
#include "fake.h"

#define SHIFT_2M 21
#define AT       0x40000000ull
#define RW       (PM_PROT_READ | PM_PROT_WRITE)
#define VNODE    FAKE_VNODE

/* An owner hears of one vNode for each space, whichever message names it. */
static void a_space_is_one_vnodes(struct ktest *t)
{
	const struct home_id home = { FAKE_MEM_FIRST, 0 };
	static struct mm_map_req map;
	static struct mm_load_req load;
	static struct mm_vregion_take_req take;
	struct mm_expect_req expect = { .aspace = FAKE_ASPACE(1),
					.from = FAKE_MEM_FIRST + 2,
					.processor = FAKE_PROC,
					.vnode = VNODE };
	struct mm_vregion_move_req move = { .aspace = FAKE_ASPACE(1),
					    .vregion = { 0, FAKE_MEM_FIRST, 0, 2 },
					    .processor = FAKE_PROC,
					    .vnode = PROTO_VNODE_ROOT };
	struct mm_range_rep rep;
	struct memory *m;
	struct fake f;

	fake_start(&f, 3, 64, SHIFT_2M);
	m = &f.mem[1];
	map = (struct mm_map_req){ .aspace = FAKE_ASPACE(1),
				   .vma = { .end = 2 * PAGE_SIZE, .prot = PM_PROT_READ },
				   .phase = MM_ONCE,
				   .nr_vregions = 1,
				   .vregion_shift = SHIFT_2M,
				   .processor = FAKE_PROC,
				   .vnode = VNODE,
				   .vregions = { { 0, 1 } } };
	EXPECT_EQ(t, owner_map(m, home, &map, &rep), 0);
	map.vnode = load.vnode = take.vnode = PROTO_VNODE_ROOT;
	map.vma.start = 4 * PAGE_SIZE;
	map.vma.end = 5 * PAGE_SIZE;
	load.aspace = take.aspace = map.aspace;
	load.processor = take.processor = FAKE_PROC;
	load.vregion_shift = take.vregion_shift = SHIFT_2M;
	load.nr_vmas = load.nr_vregions = 1;
	load.vmas[0] = map.vma;
	load.vregions[0] = map.vregions[0];
	take.vregion = (struct pm_vregion){ 1, FAKE_MEM_FIRST + 1, 0, 2 };
	take.home = home.node;
	take.stage = MM_TAKE_BEGIN;
	EXPECT_EQ(t, owner_map(m, home, &map, &rep), -EPROTO);
	EXPECT_EQ(t, owner_vregion_move(m, home, &move, &rep), -EPROTO);
	EXPECT_EQ(t, owner_expect(m, home, &expect), 0);
	EXPECT_EQ(t, owner_vregion_take(m, expect.from, &take), -EPROTO);
	expect.vnode = PROTO_VNODE_ROOT;
	EXPECT_EQ(t, owner_expect(m, home, &expect), -EPROTO);
	/* Another vRegion of the space, too. */
	map.vregions[0].index = 1;
	map.vma.start = 1ull << SHIFT_2M;
	map.vma.end = map.vma.start + PAGE_SIZE;
	EXPECT_EQ(t, owner_map(m, home, &map, &rep), -EPROTO);
	map.vnode = VNODE;
	EXPECT_EQ(t, owner_map(m, home, &map, &rep), 0);
	/* The load of a space fails as a whole. */
	EXPECT_EQ(t, owner_load(m, home, &load, &rep), -EPROTO);
	EXPECT_FALSE(t, owner_has_space(m, map.aspace));
	EXPECT_TRUE(t, fake_stop(&f));
}

/* --- requests of processors ----------------------------------------------------------------- */

static uint8_t page[PAGE_SIZE];

/* A new space of the vNode by number @n; its spares are for calls that end it. */
static struct fake_proc other_space(struct fake_proc *p, uint32_t n)
{
	struct fake_proc q;

	proc_init(&q, p->f, FAKE_ASPACE(n), p->home);
	q.vnode = p->vnode;
	return q;
}

static const struct proto_file file7 = { .ino = 7, .gen = 1, .node = FAKE_STORAGE };

static int ask_exec(struct fake_proc *p)
{
	const struct pm_exec_req req = { .aspace = FAKE_ASPACE(20),
					 .file = fake_sealed(file7, p->vnode),
					 .stack_size = 1 << 20,
					 .vnode = p->vnode };
	static uint8_t body[4096], reply[16384];
	const ssize_t len = pm_exec_req_encode(&req, body, sizeof(body));

	return len < 0 ? (int)len
		       : memory_serve(&p->f->mem[0], p->proc, PM_EXEC, body, (uint32_t)len, NULL, 0,
				      reply, sizeof(reply), NULL);
}

/* PM_FILE_* with @file; the answer of the check, or of the handler. */
static int ask_file(struct fake_proc *p, uint16_t opcode, struct proto_file file)
{
	const struct pm_file_open_req open = { .file = file };
	const struct pm_file_write_req write = { .file = file, .flags = PM_FILE_SYNC };
	const struct pm_file_change_req change = { .file = file, .op = PROTO_FILE_TRUNCATE };
	static uint8_t body[512], reply[512];
	ssize_t len;

	if (opcode == PM_FILE_FETCH)
		return memory_check_file(&p->f->mem[0], &file, p->proc, true);
	if (opcode == PM_FILE_OPEN)
		pm_file_open_req_encode(&open, (struct pm_file_open_req_wire *)(void *)body);
	else if (opcode == PM_FILE_CHANGE)
		pm_file_change_req_encode(&change, (struct pm_file_change_req_wire *)(void *)body);
	len = opcode == PM_FILE_WRITE  ? pm_file_write_req_encode(&write, body, sizeof(body))
	      : opcode == PM_FILE_OPEN ? (ssize_t)sizeof(struct pm_file_open_req_wire)
				       : (ssize_t)sizeof(struct pm_file_change_req_wire);
	return len < 0 ? (int)len
		       : memory_serve(&p->f->mem[0], p->proc, opcode, body, (uint32_t)len, NULL, 0,
				      reply, sizeof(reply), NULL);
}

static int ask_mmap_file(struct fake_proc *p, struct proto_file file)
{
	const struct pm_mmap_req req = { .aspace = p->aspace,
					 .addr = AT + 8 * PAGE_SIZE,
					 .len = PAGE_SIZE,
					 .file = file,
					 .prot = PM_PROT_READ,
					 .flags = PM_MAP_FIXED };
	static uint8_t reply[16384];
	struct pm_mmap_req_wire w;

	pm_mmap_req_encode(&req, &w);
	return memory_serve(&p->f->mem[0], p->proc, PM_MMAP, &w, sizeof(w), NULL, 0, reply,
			    sizeof(reply), NULL);
}

static int ask_ahead(struct fake_proc *p)
{
	const struct pm_fetch_ahead_req req = { .aspace = p->aspace,
						.nr_pages = 1,
						.pages = { { .vaddr = AT } } };
	struct mpage *pages[PM_FETCH_AHEAD_MAX] = { 0 };

	if (!owner_fetch_ahead(&p->f->mem[0], p->proc, &req, pages))
		return -EACCES; /* a page that is not sent has no errno */
	mpage_put(&p->f->mem[0].pool, pages[0]);
	return 0;
}

static int ask_with(struct fake_proc *p, struct fake_proc *q, struct fake_proc *r, uint16_t opcode)
{
	const struct pm_page_range range = { AT + PAGE_SIZE, PAGE_SIZE };
	const struct pm_lease_range leased = { AT, PAGE_SIZE, 0, 0 };
	struct pm_vma v;
	uint64_t out;

	switch (opcode) {
	case PM_EXEC:
		return ask_exec(p);
	case PM_SPACE:
		return proc_object(q, PAGE_SIZE, 0);
	case PM_MMAP:
		return proc_mmap(p, AT + 4 * PAGE_SIZE, PAGE_SIZE, RW, PM_MAP_FIXED, &out);
	case PM_MUNMAP:
		return proc_munmap(p, AT + 4 * PAGE_SIZE, PAGE_SIZE);
	case PM_MPROTECT:
		return proc_mprotect(p, AT + PAGE_SIZE, PAGE_SIZE, RW);
	case PM_MREMAP:
		return proc_mremap(p, AT + PAGE_SIZE, PAGE_SIZE, PAGE_SIZE, 0, 0, &out);
	case PM_BRK:
		return proc_brk(p, 0, &out);
	case PM_LEASE:
		return proc_lease(p, 1, &leased, 1, &out);
	case PM_VREGIONS:
		return proc_refresh(p, AT);
	case PM_DISCARD:
		return proc_discard(p, &range, 1);
	case PM_COLLAPSE:
		*q = other_space(p, 2);
		return proc_collapse(p, q, NULL, 0);
	case PM_FORK:
		return proc_fork(p, q, r);
	case PM_DESTROY:
		*q = other_space(p, 2);
		return proc_destroy(q);
	case PM_FETCH:
		return proc_fetch(p, AT, false, page);
	case PM_FETCH_AHEAD:
		return ask_ahead(p);
	case PM_FILL_VMA:
		return proc_fill_vma(p, AT, &v);
	case PM_WRITEBACK:
		return proc_writeback(p, AT, page);
	case PM_FILE_FETCH:
	case PM_FILE_OPEN:
	case PM_FILE_WRITE:
	case PM_FILE_CHANGE:
		return ask_file(p, opcode, fake_sealed(file7, p->vnode));
	default:
		return -ENOSYS;
	}
}

static int fill(struct fake *f, uint32_t proc, uint64_t aspace)
{
	const struct pm_fill_vma_req req = { aspace, 0 };
	struct pm_fill_vma_req_wire w;
	struct pm_vma_wire vw;
	int ret;

	pm_fill_vma_req_encode(&req, &w);
	ret = memory_serve(&f->mem[1], proc, PM_FILL_VMA, &w, sizeof(w), NULL, 0, &vw, sizeof(vw),
			   NULL);
	return MIN(ret, 0);
}

/*
 * A home says of its own space whose it is. An owner believes that, and lets the processor in only
 * while the view gives it the vNode that the home named.
 */
static void a_homes_word_ends_where_the_view_does(struct ktest *t)
{
	const struct home_id home = { FAKE_MEM_FIRST, 0 };
	static struct mm_map_req map;
	struct mm_range_rep rep;
	struct fake f;

	fake_start(&f, 2, 64, SHIFT_2M);
	f.placed = FAKE_PROC + 1;
	map = (struct mm_map_req){ .aspace = FAKE_ASPACE(1),
				   .vma = { .end = 2 * PAGE_SIZE, .prot = PM_PROT_READ },
				   .phase = MM_ONCE,
				   .nr_vregions = 1,
				   .vregion_shift = SHIFT_2M,
				   .processor = FAKE_PROC,
				   .vnode = VNODE,
				   .vregions = { { 0, 1 } } };
	ASSERT_EQ(t, owner_map(&f.mem[1], home, &map, &rep), 0);
	EXPECT_EQ(t, fill(&f, FAKE_PROC, map.aspace), -EACCES);
	EXPECT_EQ(t, fill(&f, FAKE_PROC + 1, map.aspace), -ESRCH);
	EXPECT_EQ(t, f.mem[1].stats.not_placed, 1);
	f.placed = FAKE_PROC;
	memory_vnode_withdrawn(&f.mem[1]);
	EXPECT_EQ(t, fill(&f, FAKE_PROC, map.aspace), 0);
	memory_processor_gone(&f.mem[1], FAKE_PROC);
	EXPECT_TRUE(t, fake_stop(&f));
}

/* A request with @opcode about @p; -ENOSYS: this test knows none. */
static int ask(struct fake_proc *p, uint16_t opcode)
{
	struct fake_proc q = other_space(p, 3), r = other_space(p, 4);
	const int ret = ask_with(p, &q, &r, opcode);

	proc_done(&q);
	proc_done(&r);
	return ret;
}

/* Two spaces of @vnode, the first with a page. */
static void two_spaces(struct ktest *t, struct fake *f, struct fake_proc *p, struct fake_proc *q,
		       uint32_t vnode)
{
	uint64_t addr;

	fake_start(f, 1, 256, SHIFT_2M);
	f->placed = FAKE_PROC;
	proc_init(p, f, FAKE_ASPACE(1), FAKE_MEM_FIRST);
	proc_init(q, f, FAKE_ASPACE(2), FAKE_MEM_FIRST);
	p->vnode = q->vnode = vnode;
	ASSERT_EQ(t, proc_space(p), 0);
	ASSERT_EQ(t, proc_space(q), 0);
	ASSERT_EQ(t, proc_mmap(p, AT, 2 * PAGE_SIZE, RW, PM_MAP_FIXED, &addr), 0);
	page_stamp(page, 1);
	ASSERT_EQ(t, proc_writeback(p, AT, page), 0);
}

static void withdraw(struct fake *f)
{
	f->placed = FAKE_PROC + 1;
	for (size_t i = 0; i < f->nr_mem; i++)
		memory_vnode_withdrawn(&f->mem[i]);
}

static bool is_checked(const struct msg_type *type)
{
	return type->vnode == MSG_VNODE_NAMED || type->vnode == MSG_VNODE_SPACES ||
	       type->vnode == MSG_VNODE_REGION || type->vnode == MSG_VNODE_HANDLE;
}

/* Each request of the table is refused when the view does not give its sender the vNode. */
static void each_request_is_for_a_vnode_of_its_sender(struct ktest *t)
{
	const uint32_t vnodes[] = { PROTO_VNODE_ROOT, VNODE, VNODE };

	for (uint32_t round = 0; round < 3; round++) {
		const bool refused = round == 2;
		struct fake_proc p, q;
		uint64_t nr = 0;
		struct fake f;

		two_spaces(t, &f, &p, &q, vnodes[round]);
		if (round != 1)
			withdraw(&f);
		for (size_t i = 0; i < nr_msg_types; i++) {
			const uint16_t opcode = msg_types[i].opcode;
			const bool ends = msg_types[i].vnode == MSG_VNODE_OWN_END;
			int ret;

			if (!is_checked(&msg_types[i]) && !ends)
				continue;
			ret = ask(&p, opcode);
			if (ret == -ENOSYS || (ret == -EACCES) != (refused && !ends))
				ktest_fail(t, __FILE__, __LINE__, "%s in round %u: %d",
					   msg_types[i].name, round, ret);
			nr += !ends;
		}
		EXPECT_EQ(t, nr, 20);
		EXPECT_EQ(t, f.mem[0].stats.not_placed >= nr, refused);
		EXPECT_EQ(t, f.mem[0].stats.not_placed > 0, refused);
		memory_processor_gone(&f.mem[0], FAKE_PROC);
		proc_done(&p);
		proc_done(&q);
		EXPECT_TRUE(t, fake_stop(&f));
	}
}

/* A handle is good as it was made, and for a processor that has its vNode. */
static void a_handle_is_good_for_its_vnode(struct ktest *t)
{
	const uint16_t opcodes[] = { PM_FILE_FETCH, PM_FILE_OPEN, PM_FILE_WRITE, PM_FILE_CHANGE };
	struct proto_file bad[6];
	struct fake_proc p, q;
	struct fake f;

	two_spaces(t, &f, &p, &q, PROTO_VNODE_ROOT);
	f.files[6] = (struct fake_file){ .size = 4 * PAGE_SIZE, .version = 1 };
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		bad[i] = fake_sealed(file7, PROTO_VNODE_ROOT);
	bad[0].ino++;
	bad[1].gen++;
	bad[2].node++;
	bad[3].vnode = VNODE; /* the processor has it, too */
	bad[4].seal ^= 1ull << 63;
	bad[5].seal = 0;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		for (size_t o = 0; o < ARRAY_SIZE(opcodes); o++)
			EXPECT_EQ(t, ask_file(&p, opcodes[o], bad[i]), -EACCES);
		EXPECT_EQ(t, ask_mmap_file(&p, bad[i]), -EACCES);
	}
	EXPECT_EQ(t, f.mem[0].stats.not_sealed, 5 * ARRAY_SIZE(bad));
	EXPECT_EQ(t, f.mem[0].stats.not_placed, 0);
	EXPECT_GE(t, ask_mmap_file(&p, fake_sealed(file7, VNODE)), 0);
	f.placed = FAKE_PROC + 1;
	EXPECT_EQ(t, ask_mmap_file(&p, fake_sealed(file7, VNODE)), -EACCES);
	for (size_t o = 0; o < ARRAY_SIZE(opcodes); o++)
		EXPECT_EQ(t, ask_file(&p, opcodes[o], fake_sealed(file7, VNODE)), -EACCES);
	EXPECT_EQ(t, f.mem[0].stats.not_sealed, 5 * ARRAY_SIZE(bad));
	memory_processor_gone(&f.mem[0], FAKE_PROC);
	proc_done(&p);
	proc_done(&q);
	EXPECT_TRUE(t, fake_stop(&f));
}

/* An entry that does not say where the vNode is lets nothing pass. */
static void an_entry_that_says_nothing_is_refused(struct ktest *t)
{
	struct msg_type type = *msg_find(PM_MEMINFO);
	struct pm_meminfo_rep_wire reply;
	struct msg msg = { .peer = FAKE_PROC, .reply = &reply, .reply_max = sizeof(reply) };
	struct fake f;

	fake_start(&f, 1, 64, SHIFT_2M);
	msg.m = &f.mem[0];
	EXPECT_EQ(t, msg_serve(&type, &msg), sizeof(reply));
	type.vnode = MSG_VNODE_UNSAID;
	EXPECT_EQ(t, msg_serve(&type, &msg), -EACCES);
	EXPECT_TRUE(t, fake_stop(&f));
}

/* A request can name a second space. */
static void the_second_space_counts(struct ktest *t)
{
	struct fake_proc p, q, root;
	struct fake f;
	uint64_t addr;

	two_spaces(t, &f, &p, &q, VNODE);
	proc_init(&root, &f, FAKE_ASPACE(5), FAKE_MEM_FIRST);
	ASSERT_EQ(t, proc_space(&root), 0);
	EXPECT_EQ(t, proc_mmap_object(&root, 0, PAGE_SIZE, RW, PM_MAP_SHARED, q.aspace, 0, &addr),
		  0);
	EXPECT_EQ(t, proc_collapse(&root, &q, NULL, 0), -EINVAL);
	withdraw(&f);
	EXPECT_EQ(t, proc_mmap_object(&root, 0, PAGE_SIZE, RW, PM_MAP_SHARED, q.aspace, 0, &addr),
		  -EACCES);
	EXPECT_EQ(t, proc_collapse(&root, &q, NULL, 0), -EACCES);
	memory_processor_gone(&f.mem[0], FAKE_PROC);
	proc_done(&root);
	proc_done(&p);
	EXPECT_TRUE(t, fake_stop(&f));
}

/* The spaces of a vNode that has ended go when their processor says so, one beside others. */
static void spaces_end_after_their_vnode(struct ktest *t)
{
	struct fake_proc p, q, root;
	le64_t ids[3];
	struct fake f;

	two_spaces(t, &f, &p, &q, VNODE);
	proc_init(&root, &f, FAKE_ASPACE(5), FAKE_MEM_FIRST);
	ASSERT_EQ(t, proc_space(&root), 0);
	withdraw(&f);
	ids[0] = cpu_to_le64(p.aspace);
	ids[1] = cpu_to_le64(root.aspace);
	ids[2] = cpu_to_le64(q.aspace);
	/* Of another processor none. */
	EXPECT_EQ(t,
		  memory_serve(&f.mem[0], FAKE_PROC + 1, PM_DESTROY, ids, sizeof(ids), NULL, 0,
			       NULL, 0, NULL),
		  0);
	EXPECT_EQ(t, home_space_vnode(&f.mem[0], p.aspace, FAKE_PROC), VNODE);
	EXPECT_EQ(t,
		  memory_serve(&f.mem[0], FAKE_PROC, PM_DESTROY, ids, sizeof(ids), NULL, 0, NULL, 0,
			       NULL),
		  0);
	EXPECT_EQ(t, home_space_vnode(&f.mem[0], p.aspace, FAKE_PROC), 0);
	EXPECT_EQ(t, home_space_vnode(&f.mem[0], root.aspace, FAKE_PROC), 0);
	EXPECT_FALSE(t, owner_has_space(&f.mem[0], p.aspace));
	EXPECT_EQ(t, f.mem[0].stats.not_placed, 0);
	proc_done(&root);
	proc_done(&p);
	proc_done(&q);
	EXPECT_TRUE(t, fake_stop(&f)); /* no page, no region, nothing committed is left */
}

/* Without the managers' node a fetch waits in a thread, not in polling context. */
static void unknown_placements_are_waited_for(struct ktest *t)
{
	const struct pm_fetch_req req = { .aspace = FAKE_ASPACE(1), .vaddr = AT };
	struct pm_fetch_rep rep;
	struct pm_vregion redirect;
	struct mpage *got;
	struct fake_proc p, q;
	struct fake f;

	two_spaces(t, &f, &p, &q, VNODE);
	withdraw(&f);
	f.placements_unknown = true;
	EXPECT_EQ(t,
		  owner_fetch(&f.mem[0], FAKE_PROC, &req, NULL, false, &rep, &got, &redirect, NULL),
		  -EAGAIN);
	EXPECT_EQ(t, f.mem[0].stats.not_placed, 0);
	EXPECT_EQ(t,
		  owner_fetch(&f.mem[0], FAKE_PROC, &req, NULL, true, &rep, &got, &redirect, NULL),
		  -EACCES);
	f.placed = FAKE_PROC;
	EXPECT_EQ(t, proc_fetch(&p, AT, false, page), PM_FETCH_DATA);
	memory_processor_gone(&f.mem[0], FAKE_PROC);
	proc_done(&p);
	EXPECT_TRUE(t, fake_stop(&f));
}

static const struct ktest_case cases[] = {
	KTEST(each_request_is_for_a_vnode_of_its_sender),
	KTEST(a_handle_is_good_for_its_vnode),
	KTEST(an_entry_that_says_nothing_is_refused),
	KTEST(the_second_space_counts),
	KTEST(spaces_end_after_their_vnode),
	KTEST(unknown_placements_are_waited_for),
	KTEST(a_space_is_one_vnodes),
	KTEST(a_homes_word_ends_where_the_view_does),
	{ 0 },
};

static const struct ktest_suite suite = { .name = "memory.vnodes", .cases = cases };
KTEST_SUITE(suite);
