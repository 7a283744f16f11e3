/* SPDX-License-Identifier: MIT */
/*
 * Page cache and program loader, over made-up files.
 */
#include <stdlib.h>
#include <string.h>

#include <kernel/thread.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/ktest.h>
#include <proto/ps.h>
#include <shim/shim.h>

#include "fixture.h"

static const struct proto_file file1 = { .ino = 1, .gen = 1, .node = FAKE_STORAGE };
static uint8_t buf[64 << 10];

/* --- page cache ---------------------------------------------------------------------- */

static bool holds(const uint8_t *data, uint64_t offset, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (data[i] != fake_byte(1, offset + i))
			return false;
	return true;
}

static void reads_in_order_are_few(struct ktest *t)
{
	struct fake f;
	uint64_t off = 0;
	int n;

	fake_start(&f, 1, 4096, 30);
	f.files[0] = (struct fake_file){ .size = 2 * MB + 123, .version = 1 };
	while ((n = page_cache_copy(&f.mem[0], &file1, off, buf, 10000)) > 0) {
		EXPECT_TRUE(t, holds(buf, off, (size_t)n));
		off += (uint64_t)n;
	}
	EXPECT_EQ(t, n, 0);
	EXPECT_EQ(t, off, 2 * MB + 123);
	EXPECT_EQ(t, f.mem[0].stats.file_read_pages, 513);
	EXPECT_LE(t, f.nr_reads, 24);
	EXPECT_EQ(t, page_cache_copy(&f.mem[0], &file1, 9 * MB, buf, 1), 0);
	EXPECT_TRUE(t, fake_stop(&f));
}

static void last_page_is_zero_behind_the_end(struct ktest *t)
{
	struct pm_file_fetch_rep rep;
	struct mpage *pages[4];
	struct fake f;

	fake_start(&f, 1, 1024, 30);
	f.files[0] = (struct fake_file){ .size = 2 * PAGE_SIZE + 5, .version = 1 };
	/* Nothing is there yet: in polling context that is for a thread to fetch. */
	EXPECT_EQ(t, page_cache_get(&f.mem[0], &file1, 1, 4, 0, false, pages, &rep), -EAGAIN);
	ASSERT_EQ(t, page_cache_get(&f.mem[0], &file1, 1, 4, 0, true, pages, &rep), 0);
	EXPECT_EQ(t, rep.nr_valid, 2);
	EXPECT_EQ(t, rep.last_bytes, 5);
	EXPECT_EQ(t, rep.file_size, 2 * PAGE_SIZE + 5);
	EXPECT_EQ(t, ((uint8_t *)mpage_virt(&f.mem[0].pool, pages[1]))[5], 0);
	for (uint32_t i = 0; i < rep.nr_valid; i++)
		mpage_put(&f.mem[0].pool, pages[i]);
	ASSERT_EQ(t, page_cache_get(&f.mem[0], &file1, 3, 4, 0, false, pages, &rep), 0);
	EXPECT_EQ(t, rep.nr_valid, 0);
	EXPECT_EQ(t, rep.last_bytes, 0);
	EXPECT_TRUE(t, fake_stop(&f));
}

struct reader {
	struct fake *f;
	int ret;
};

static void reader_thread(void *arg)
{
	struct reader *r = arg;
	struct pm_file_fetch_rep rep;
	struct mpage *pages[8];

	r->ret = page_cache_get(&r->f->mem[0], &file1, 0, 8, 0, true, pages, &rep);
	if (r->ret)
		return;
	for (uint32_t i = 0; i < rep.nr_valid; i++) {
		if (!holds(mpage_virt(&r->f->mem[0].pool, pages[i]), i * PAGE_SIZE, PAGE_SIZE))
			r->ret = -EILSEQ;
		mpage_put(&r->f->mem[0].pool, pages[i]);
	}
}

static void misses_at_once(struct ktest *t, int error)
{
	struct reader readers[6];
	struct thread *threads[ARRAY_SIZE(readers)];
	struct fake f;

	fake_start(&f, 1, 1024, 30);
	f.files[0] = (struct fake_file){ .size = 32 * PAGE_SIZE, .version = 1 };
	f.read_async = true;
	f.read_error = error;
	for (size_t i = 0; i < ARRAY_SIZE(readers); i++) {
		readers[i] = (struct reader){ &f, 1 };
		threads[i] = thread_create("reader", reader_thread, &readers[i]);
		ASSERT_FALSE(t, IS_ERR(threads[i]));
	}
	for (size_t i = 0; i < ARRAY_SIZE(readers); i++) {
		thread_join(threads[i]);
		EXPECT_EQ(t, readers[i].ret, error);
	}
	thread_sleep_ns(20 * 1000 * 1000); /* read-ahead that is still under way */
	if (!error)
		EXPECT_LE(t, f.nr_reads, 2); /* the pages wanted, and what is read ahead */
	EXPECT_TRUE(t, fake_stop(&f));
}

static void misses_at_once_share_a_read(struct ktest *t)
{
	misses_at_once(t, 0);
}

static void failed_read_fails_all_who_wait(struct ktest *t)
{
	misses_at_once(t, -EIO);
}

/* A client that has given up: its handler stops to wait, and takes nobody else's page away. */
static void a_read_that_nobody_waits_for(struct ktest *t)
{
	struct reader readers[2];
	struct thread *threads[ARRAY_SIZE(readers)];
	struct fake f;

	fake_start(&f, 1, 1024, 30);
	f.files[0] = (struct fake_file){ .size = 32 * PAGE_SIZE, .version = 1 };
	f.read_async = true;
	f.read_held = true;
	for (size_t i = 0; i < ARRAY_SIZE(readers); i++) {
		readers[i] = (struct reader){ &f, 1 };
		threads[i] = thread_create("reader", reader_thread, &readers[i]);
		ASSERT_FALSE(t, IS_ERR(threads[i]));
		while (!__atomic_load_n(&f.nr_reads, __ATOMIC_ACQUIRE))
			thread_sleep_ns(100 * 1000);
	}
	thread_notify(threads[0], THREAD_F_KILL); /* it reads, and the other waits for its read */
	thread_join(threads[0]);
	EXPECT_EQ(t, readers[0].ret, -EINTR);
	EXPECT_EQ(t, __atomic_load_n(&readers[1].ret, __ATOMIC_ACQUIRE), 1);
	__atomic_store_n(&f.read_held, false, __ATOMIC_RELEASE);
	thread_join(threads[1]);
	EXPECT_EQ(t, readers[1].ret, 0);
	thread_sleep_ns(20 * 1000 * 1000); /* read-ahead that is still under way */
	/* So does one that waits for its turn to ask storage. */
	f.read_refused = -EINTR;
	page_cache_drop_all(&f.mem[0]);
	EXPECT_EQ(t, page_cache_copy(&f.mem[0], &file1, 0, buf, 10), -EINTR);
	f.read_refused = 0;
	f.read_async = false;
	EXPECT_EQ(t, page_cache_copy(&f.mem[0], &file1, 0, buf, 10), 10);
	EXPECT_TRUE(t, fake_stop(&f));
}

static void failed_read_is_tried_again(struct ktest *t)
{
	struct fake f;

	fake_start(&f, 1, 1024, 30);
	f.files[0] = (struct fake_file){ .size = MB, .version = 1 };
	f.read_error = -ESTALE;
	EXPECT_EQ(t, page_cache_copy(&f.mem[0], &file1, 0, buf, 10), -ESTALE);
	f.read_error = 0;
	EXPECT_EQ(t, page_cache_copy(&f.mem[0], &file1, 0, buf, 10), 10);
	EXPECT_TRUE(t, fake_stop(&f));
}

/* The pages are wanted from its next life, however often it ends; else they cannot be read. */
static void a_lost_storage_node_is_not_this_node(struct ktest *t)
{
	struct fake f;

	fake_start(&f, 1, 1024, 30);
	f.files[0] = (struct fake_file){ .size = MB, .version = 1 };
	f.read_error = -EHOSTDOWN;
	f.read_errors = 3;
	EXPECT_EQ(t, page_cache_copy(&f.mem[0], &file1, 0, buf, 10), 10);
	page_cache_drop_all(&f.mem[0]);
	f.read_error = -ETIMEDOUT; /* it is slow, but there */
	f.read_errors = 2;
	EXPECT_EQ(t, page_cache_copy(&f.mem[0], &file1, 0, buf, 10), 10);
	page_cache_drop_all(&f.mem[0]);
	f.read_error = -EHOSTDOWN;
	f.storage_away = true;
	EXPECT_EQ(t, page_cache_copy(&f.mem[0], &file1, 0, buf, 10), -EIO);
	f.read_error = -ETIMEDOUT;
	EXPECT_EQ(t, page_cache_copy(&f.mem[0], &file1, 0, buf, 10), -EIO);
	f.read_error = 0;
	EXPECT_EQ(t, page_cache_copy(&f.mem[0], &file1, 0, buf, 10), 10);
	EXPECT_TRUE(t, fake_stop(&f));
}

static void newer_version_is_read_again(struct ktest *t)
{
	static uint8_t old_data[PAGE_SIZE], new_data[PAGE_SIZE];
	struct pm_file_fetch_rep rep;
	struct mpage *page;
	struct fake f;

	memset(old_data, 'o', sizeof(old_data));
	memset(new_data, 'n', sizeof(new_data));
	fake_start(&f, 1, 1024, 30);
	f.files[0] = (struct fake_file){ .size = PAGE_SIZE, .version = 7, .data = old_data };
	ASSERT_EQ(t, page_cache_get(&f.mem[0], &file1, 0, 1, 7, true, &page, &rep), 0);
	mpage_put(&f.mem[0].pool, page);
	f.files[0].version = 8;
	f.files[0].data = new_data;
	f.files[0].size = 100;
	/* No message has told the cache yet. */
	ASSERT_EQ(t, page_cache_get(&f.mem[0], &file1, 0, 1, 7, true, &page, &rep), 0);
	EXPECT_EQ(t, *(uint8_t *)mpage_virt(&f.mem[0].pool, page), 'o');
	mpage_put(&f.mem[0].pool, page);
	ASSERT_EQ(t, page_cache_get(&f.mem[0], &file1, 0, 1, 8, true, &page, &rep), 0);
	EXPECT_EQ(t, *(uint8_t *)mpage_virt(&f.mem[0].pool, page), 'n');
	EXPECT_EQ(t, rep.last_bytes, 100);
	mpage_put(&f.mem[0].pool, page);
	EXPECT_EQ(t, f.nr_reads, 2);
	/* Somebody with a version that nobody has costs one read, not one each time. */
	for (int i = 0; i < 3; i++) {
		ASSERT_EQ(t, page_cache_get(&f.mem[0], &file1, 0, 1, 6, true, &page, &rep), 0);
		mpage_put(&f.mem[0].pool, page);
	}
	EXPECT_EQ(t, f.nr_reads, 3);
	EXPECT_TRUE(t, fake_stop(&f));
}

/* Programs come first: file pages give way to them down to a minimum, and never the other way. */
static void give_way(struct ktest *t, uint64_t extent_pages)
{
	struct pool_stats s;
	struct fake_proc p;
	struct fake f;
	uint64_t addr;

	fake_extent_pages = extent_pages;
	fake_start(&f, 1, 512, 30); /* 480 for programs if an extent is one frame */
	fake_extent_pages = 1;
	f.files[0] = (struct fake_file){ .size = 4 * MB, .version = 1 };
	for (uint64_t off = 0; off < 4 * MB; off += sizeof(buf))
		ASSERT_EQ(t, page_cache_copy(&f.mem[0], &file1, off, buf, sizeof(buf)),
			  sizeof(buf));
	pool_stats(&f.mem[0].pool, &s);
	/* All but the frames of pool_alloc_instead(), in whole extents. */
	EXPECT_EQ(t, s.file, 512 - ALIGN_UP(f.mem[0].pool.slack, extent_pages));
	proc_init(&p, &f, FAKE_ASPACE(1), FAKE_MEM_FIRST);
	ASSERT_EQ(t, proc_space(&p), 0);
	ASSERT_EQ(t,
		  proc_mmap(&p, 0x40000000, s.programs * PAGE_SIZE, PM_PROT_READ | PM_PROT_WRITE,
			    PM_MAP_FIXED, &addr),
		  0);
	for (uint64_t i = 0; i < s.programs; i++)
		ASSERT_EQ(t, proc_writeback(&p, addr + i * PAGE_SIZE, buf), 0);
	pool_stats(&f.mem[0].pool, &s);
	EXPECT_EQ(t, s.used, s.programs);
	EXPECT_GE(t, s.file_extents, f.mem[0].pool.file_floor);
	EXPECT_LT(t, s.file_extents, f.mem[0].pool.file_floor + extent_pages);
	for (uint64_t off = 0; off < MB; off += sizeof(buf)) {
		ASSERT_EQ(t, page_cache_copy(&f.mem[0], &file1, off, buf, sizeof(buf)),
			  sizeof(buf));
		EXPECT_TRUE(t, holds(buf, off, sizeof(buf)));
	}
	EXPECT_TRUE(t, space_stop(&f, &p));
}

static void file_pages_give_way(struct ktest *t)
{
	give_way(t, 1);
	give_way(t, 16);
}

static void zero_loop(void *arg)
{
	struct pool *pool = arg;

	while (pool->zero_ahead) {
		(void)wait_event_timeout(&pool->zeroer, pool_wants_zeroing(pool),
					 time_now_ns() + 10 * 1000 * 1000);
		if (pool_wants_zeroing(pool))
			(void)pool_zero_dirty(pool, 8);
	}
}

/* However frames are taken, the thread keeps zeroed ones ready, and they are zero. */
static void frames_are_zeroed_ahead(struct ktest *t)
{
	struct thread *thread;
	struct pool_stats s;
	struct fake f;

	fake_start(&f, 1, 1024, 30);
	memset(f.arena[0], 0xee, 1024 * PAGE_SIZE);
	f.files[0] = (struct fake_file){ .size = 2 * MB, .version = 1 };
	f.mem[0].pool.zero_ahead = 64;
	thread = thread_create("zero", zero_loop, &f.mem[0].pool);
	ASSERT_FALSE(t, IS_ERR(thread));
	for (uint64_t off = 0; off < 2 * MB; off += sizeof(buf))
		ASSERT_EQ(t, page_cache_copy(&f.mem[0], &file1, off, buf, sizeof(buf)),
			  sizeof(buf));
	for (int i = 0; i < 1000; i++) {
		pool_stats(&f.mem[0].pool, &s);
		if (s.zero >= 64)
			break;
		thread_sleep_ns(1000 * 1000);
	}
	EXPECT_GE(t, s.zero, 64);
	WRITE_ONCE(f.mem[0].pool.zero_ahead, 0);
	thread_join(thread);
	for (int i = 0; i < 64; i++) {
		bool credit;
		struct mpage *page = pool_alloc_anon(&f.mem[0].pool, 0, &credit);

		ASSERT_TRUE(t, page);
		memset(buf, 0, PAGE_SIZE);
		EXPECT_MEMEQ(t, mpage_virt(&f.mem[0].pool, page), buf, PAGE_SIZE);
		mpage_put(&f.mem[0].pool, page);
	}
	EXPECT_TRUE(t, fake_stop(&f));
}

/* --- programs -------------------------------------------------------------------------- */

static void put(uint8_t *image, size_t off, uint64_t value, size_t size)
{
	memcpy(image + off, &value, size);
}

struct seg {
	uint32_t type, flags;
	uint64_t offset, vaddr, filesz, memsz;
};

/* An ELF file with these program headers. */
static void make_elf(uint8_t *image, uint16_t type, uint64_t entry, const struct seg *segs, int nr)
{
	memcpy(image,
	       "\x7f"
	       "ELF\2\1\1",
	       7);
	put(image, 16, type, 2);
	put(image, 18, 62, 2);
	put(image, 20, 1, 4);
	put(image, 24, entry, 8);
	put(image, 32, 64, 8);
	put(image, 52, 64, 2);
	put(image, 54, 56, 2);
	put(image, 56, (uint64_t)nr, 2);
	for (int i = 0; i < nr; i++) {
		const size_t at = 64 + 56 * (size_t)i;

		put(image, at, segs[i].type, 4);
		put(image, at + 4, segs[i].flags, 4);
		put(image, at + 8, segs[i].offset, 8);
		put(image, at + 16, segs[i].vaddr, 8);
		put(image, at + 32, segs[i].filesz, 8);
		put(image, at + 40, segs[i].memsz, 8);
		put(image, at + 48, 0x1000, 8);
	}
}

#define PT_LOAD      1
#define PT_INTERP    3
#define PT_GNU_STACK 0x6474e551u

static const struct seg prog_segs[] = {
	{ PT_INTERP, 4, 0x200, 0, 8, 8 },
	{ PT_LOAD, 5, 0, 0, 0x1800, 0x1800 },
	{ PT_LOAD, 6, 0x1800, 0x2800, 0x900, 0x5000 },
	{ PT_GNU_STACK, 6, 0, 0, 0, 0 },
};
static const struct seg interp_segs[] = { { PT_LOAD, 5, 0, 0, 0x3000, 0x3000 } };

struct prog_files {
	uint8_t prog[0x4000];
	uint8_t interp[0x3000];
};

static void prog_start(struct fake *f, struct prog_files *pf)
{
	memset(pf, 0, sizeof(*pf));
	make_elf(pf->prog, 3, 0x1010, prog_segs, ARRAY_SIZE(prog_segs));
	memcpy(pf->prog + 0x200, "/lib/ld", 8);
	make_elf(pf->interp, 3, 0x40, interp_segs, 1);
	fake_start(f, 2, 4096, 21);
	f->files[0] = (struct fake_file){ .size = 0x2100, .version = 1, .data = pf->prog };
	f->files[1] = (struct fake_file){
		.size = 0x3000, .version = 1, .data = pf->interp, .path = "/lib/ld"
	};
}

static int exec_stack(struct fake *f, uint64_t seed, uint64_t stack, struct pm_exec_rep *rep)
{
	const struct pm_exec_req req = {
		.vnode = PROTO_VNODE_ROOT,
		.aspace = FAKE_ASPACE(9),
		.file = fake_sealed(file1, PROTO_VNODE_ROOT),
		.stack_size = stack,
		.random_seed = seed,
		.want_credits = 64,
	};
	uint8_t body[256], reply[16384];
	const ssize_t len = pm_exec_req_encode(&req, body, sizeof(body));
	int ret = memory_serve(&f->mem[0], FAKE_PROC, PM_EXEC, body, (uint32_t)len, NULL, 0, reply,
			       sizeof(reply), NULL);

	return ret < 0 ? ret : pm_exec_rep_decode(reply, (size_t)ret, rep);
}

static int exec(struct fake *f, uint64_t seed, struct pm_exec_rep *rep)
{
	return exec_stack(f, seed, 8 * MB, rep);
}

static const struct pm_vma *vma_holding(const struct pm_exec_rep *rep, uint64_t addr)
{
	for (uint16_t i = 0; i < rep->nr_vmas; i++)
		if (rep->vmas[i].start <= addr && addr < rep->vmas[i].end)
			return &rep->vmas[i];
	return NULL;
}

static struct ktest *late_test;

/* The exec of an earlier incarnation of FAKE_PROC, which waits for a file. */
static void late_exec(void *arg)
{
	struct fake *f = arg;
	struct pm_exec_rep *rep = calloc(1, sizeof(*rep));
	const struct pm_exec_req req = {
		.vnode = PROTO_VNODE_ROOT,
		.aspace = FAKE_ASPACE(1),
		.file = { .ino = 1, .gen = 1, .node = FAKE_STORAGE },
		.stack_size = 8 * MB,
	};

	EXPECT_EQ(late_test, home_exec(&f->mem[0], FAKE_PROC, f->left_incarn, &req, rep), -ESTALE);
	free(rep);
}

static void a_late_exec_makes_no_space(struct ktest *t)
{
	struct prog_files *pf = malloc(sizeof(*pf));
	struct thread *thread;
	struct fake f;

	late_test = t;
	prog_start(&f, pf);
	f.left_incarn = 77;
	f.hold_opcode = MS_LOOKUP;
	thread = thread_create("exec", late_exec, &f);
	ASSERT_FALSE(t, IS_ERR(thread));
	EXPECT_TRUE(t, fake_wait_held(&f));
	for (int i = 0; i < 2; i++) {
		memory_processor_gone(&f.mem[i], FAKE_PROC);
		memory_processor_joined(&f.mem[i], FAKE_PROC);
	}
	__atomic_store_n(&f.release, true, __ATOMIC_RELEASE);
	thread_join(thread);
	EXPECT_FALSE(t, home_space_exists(&f.mem[0], FAKE_ASPACE(1)));
	EXPECT_EQ(t, f.mem[0].owner.nr_spaces + f.mem[1].owner.nr_spaces, 0);
	EXPECT_TRUE(t, fake_stop(&f));
	free(pf);
}

static void program_with_interpreter(struct ktest *t)
{
	struct pm_exec_rep *rep = malloc(sizeof(*rep));
	struct prog_files *pf = malloc(sizeof(*pf));
	const uint64_t base = 0x555555554000;
	const struct pm_vma *v;
	struct fake_proc p;
	struct fake f;

	prog_start(&f, pf);
	ASSERT_EQ(t, exec(&f, 0, rep), 0);
	EXPECT_EQ(t, rep->prog_entry, base + 0x1010);
	EXPECT_EQ(t, rep->entry, rep->interp_base + 0x40);
	EXPECT_EQ(t, rep->phdr, base + 64);
	EXPECT_EQ(t, rep->phnum, 4);
	EXPECT_EQ(t, rep->phent, 56);
	EXPECT_EQ(t, rep->brk_start, base + 0x8000);
	EXPECT_EQ(t, rep->vregion_size, 2 * MB);
	EXPECT_EQ(t, rep->stack_top - rep->stack_bottom, 8 * MB);
	EXPECT_EQ(t, rep->flags, PM_EXEC_INTERP);
	EXPECT_EQ(t, rep->interp.file.ino, vma_holding(rep, rep->interp_base)->file.ino);
	EXPECT_EQ(t, rep->nr_vmas, 4);
	EXPECT_GT(t, rep->nr_grants, 0);
	EXPECT_EQ(t, exec(&f, 0, rep), -EEXIST);
	ASSERT_EQ(t, exec(&f, 0, rep), -EEXIST);

	proc_init(&p, &f, FAKE_ASPACE(9), FAKE_MEM_FIRST);
	ASSERT_EQ(t, proc_destroy(&p), 0);
	ASSERT_EQ(t, exec(&f, 0, rep), 0);
	v = vma_holding(rep, base);
	ASSERT_TRUE(t, v);
	EXPECT_EQ(t, v->prot, PM_PROT_READ | PM_PROT_EXEC);
	EXPECT_EQ(t, v->file_bytes, UINT64_MAX);
	v = vma_holding(rep, base + 0x2800);
	ASSERT_TRUE(t, v);
	EXPECT_EQ(t, v->start, base + 0x2000);
	EXPECT_EQ(t, v->end, base + 0x8000);
	EXPECT_EQ(t, v->pgoff, 1);
	EXPECT_EQ(t, v->file_bytes, 0x1100);
	/* Pages: of the file as far as it goes, then zero; nothing outside. */
	EXPECT_EQ(t, proc_refresh(&p, base), 0);
	EXPECT_EQ(t, proc_fetch(&p, base, false, NULL), PM_FETCH_FILE);
	EXPECT_EQ(t, proc_fetch(&p, base, true, NULL), -EACCES);
	EXPECT_EQ(t, proc_fetch(&p, base + 0x3000, true, NULL), PM_FETCH_FILE);
	EXPECT_EQ(t, proc_fetch(&p, base + 0x4000, true, NULL), PM_FETCH_ZERO);
	EXPECT_EQ(t, proc_fetch(&p, base + 0x8000, true, NULL), -EFAULT);
	ASSERT_EQ(t, proc_destroy(&p), 0);
	proc_done(&p);
	EXPECT_TRUE(t, fake_stop(&f));
	free(rep);
	free(pf);
}

/* Of a shared object, whose pages only the processor has. */
static void program_in_an_object(struct ktest *t)
{
	struct pm_exec_req req = {
		.vnode = PROTO_VNODE_ROOT,
		.aspace = FAKE_ASPACE(9),
		.stack_size = 8 * MB,
		.object = FAKE_ASPACE(5),
		.storage = FAKE_STORAGE,
		.head_len = 0x1000,
	};
	static uint8_t body[8192], reply[16384];
	struct pm_exec_rep *rep = malloc(sizeof(*rep));
	struct prog_files *pf = malloc(sizeof(*pf));
	const uint64_t base = 0x555555554000;
	const struct pm_vma *v;
	const uint64_t theirs = FAKE_SPACE_BY(FAKE_PROC + 1, FAKE_MEM_FIRST, 6);
	struct home_space *others;
	struct fake_proc p;
	struct fake f;
	ssize_t len;
	int ret;

	prog_start(&f, pf);
	req.head = pf->prog;
	len = pm_exec_req_encode(&req, body, sizeof(body));
	ret = memory_serve(&f.mem[0], FAKE_PROC, PM_EXEC, body, (uint32_t)len, NULL, 0, reply,
			   sizeof(reply), NULL);
	ASSERT_TRUE(t, ret > 0);
	ASSERT_EQ(t, pm_exec_rep_decode(reply, (size_t)ret, rep), 0);
	EXPECT_EQ(t, rep->entry, rep->interp_base + 0x40);
	v = vma_holding(rep, base);
	ASSERT_TRUE(t, v);
	EXPECT_EQ(t, v->flags, PM_VMA_OBJECT);
	EXPECT_EQ(t, v->object, FAKE_ASPACE(5));
	EXPECT_EQ(t, v->file_bytes, UINT64_MAX);
	v = vma_holding(rep, base + 0x2800);
	ASSERT_TRUE(t, v);
	EXPECT_EQ(t, v->pgoff, 1);
	EXPECT_EQ(t, v->file_bytes, 0x1100);
	EXPECT_EQ(t, vma_holding(rep, rep->interp_base)->flags, PM_VMA_FILE);
	proc_init(&p, &f, FAKE_ASPACE(9), FAKE_MEM_FIRST);
	EXPECT_EQ(t, proc_refresh(&p, base), 0);
	EXPECT_EQ(t, proc_fetch(&p, base + 0x3000, true, NULL), PM_FETCH_FILE);
	EXPECT_EQ(t, proc_fetch(&p, base + 0x4000, true, NULL), PM_FETCH_ZERO);
	ASSERT_EQ(t, proc_destroy(&p), 0);

	/* Nowhere to look its interpreter up; headers cut off; somebody else's object. */
	req.storage = 0;
	len = pm_exec_req_encode(&req, body, sizeof(body));
	EXPECT_EQ(t,
		  memory_serve(&f.mem[0], FAKE_PROC, PM_EXEC, body, (uint32_t)len, NULL, 0, reply,
			       sizeof(reply), NULL),
		  -ENOENT);
	req.head_len = 64 + 4 * 56 - 1;
	len = pm_exec_req_encode(&req, body, sizeof(body));
	EXPECT_EQ(t,
		  memory_serve(&f.mem[0], FAKE_PROC, PM_EXEC, body, (uint32_t)len, NULL, 0, reply,
			       sizeof(reply), NULL),
		  -ENOEXEC);
	others = home_space_create(&f.mem[0], theirs, FAKE_PROC + 1, PROTO_VNODE_ROOT, SPACE_PAGES,
				   0);
	ASSERT_FALSE(t, IS_ERR(others));
	home_space_unlock(others);
	req.object = theirs;
	len = pm_exec_req_encode(&req, body, sizeof(body));
	EXPECT_EQ(t,
		  memory_serve(&f.mem[0], FAKE_PROC, PM_EXEC, body, (uint32_t)len, NULL, 0, reply,
			       sizeof(reply), NULL),
		  -ESRCH);
	EXPECT_EQ(t, home_destroy_space(&f.mem[0], theirs, FAKE_PROC + 1), 0);
	proc_done(&p);
	EXPECT_TRUE(t, fake_stop(&f));
	free(rep);
	free(pf);
}

/* The second exec of a program reads nothing, and asks each node once. */
static void program_that_runs_again(struct ktest *t)
{
	struct pm_exec_rep *rep = malloc(sizeof(*rep));
	struct prog_files *pf = malloc(sizeof(*pf));
	uint64_t reads, calls;
	struct fake_proc p;
	struct fake f;

	prog_start(&f, pf);
	proc_init(&p, &f, FAKE_ASPACE(9), FAKE_MEM_FIRST);
	ASSERT_EQ(t, exec(&f, 1, rep), 0);
	ASSERT_EQ(t, proc_destroy(&p), 0);
	reads = f.nr_reads;
	calls = f.nr_calls;
	ASSERT_EQ(t, exec(&f, 2, rep), 0);
	EXPECT_EQ(t, f.nr_reads, reads);
	/* The look-up of the interpreter, at most two pages with headers, the other owner. */
	EXPECT_LE(t, f.nr_calls - calls, 4);
	ASSERT_EQ(t, proc_destroy(&p), 0);
	proc_done(&p);
	EXPECT_TRUE(t, fake_stop(&f));
	free(rep);
	free(pf);
}

#define MANY 150

/* More segments and vRegions than a message holds, more headers than the first page. */
static void program_with_many_segments(struct ktest *t)
{
	struct pm_exec_rep *rep = malloc(sizeof(*rep));
	struct prog_files *pf = malloc(sizeof(*pf));
	struct seg *segs = calloc(MANY, sizeof(*segs));
	const uint64_t base = 0x10000000;
	struct fake_proc p;
	struct fake f;

	prog_start(&f, pf);
	for (uint32_t i = 0; i < MANY; i++)
		segs[i] = (struct seg){ 1,     i % 2 ? 6 : 4,  0, base + i * 3 * MB,
					0x800, 2 * MB + 0x1000 };
	make_elf(pf->prog, 2, base, segs, MANY);
	f.files[0].size = sizeof(pf->prog);
	for (size_t i = 0; i < 2; i++)
		f.mem[i].pool.total *= 100; /* enough for what is charged */
	ASSERT_EQ(t, exec_stack(&f, 0, 2048 * MB, rep), 0);
	EXPECT_EQ(t, rep->nr_vmas, PM_EXEC_MAX_VMAS);
	EXPECT_EQ(t, f.mem[0].pool.committed + f.mem[1].pool.committed, MANY / 2 * 513);
	for (size_t i = 0; i < 2; i++)
		f.mem[i].pool.total /= 100;
	proc_init(&p, &f, FAKE_ASPACE(9), FAKE_MEM_FIRST);
	for (uint32_t i = 0; i < MANY; i++) {
		const uint64_t at = base + i * 3 * MB;

		ASSERT_EQ(t, proc_refresh(&p, at), 0);
		ASSERT_EQ(t, proc_refresh(&p, at + 2 * MB), 0);
		EXPECT_EQ(t, proc_fetch(&p, at, false, NULL), PM_FETCH_FILE);
		EXPECT_EQ(t, proc_fetch(&p, at + 2 * MB, i % 2, NULL), PM_FETCH_ZERO);
		EXPECT_EQ(t, proc_fetch(&p, at + 2 * MB, true, NULL),
			  i % 2 ? PM_FETCH_ZERO : -EACCES);
		EXPECT_EQ(t, proc_fetch(&p, at + 2 * MB + 0x1000, false, NULL), -EFAULT);
	}
	for (uint64_t at = rep->stack_bottom; at < rep->stack_top; at += MB) {
		ASSERT_EQ(t, proc_refresh(&p, at), 0);
		EXPECT_EQ(t, proc_fetch(&p, at, true, NULL), PM_FETCH_ZERO);
	}
	ASSERT_EQ(t, proc_destroy(&p), 0);
	proc_done(&p);
	EXPECT_TRUE(t, fake_stop(&f));
	free(segs);
	free(rep);
	free(pf);
}

/* Each allocation and message fails in turn: nothing is left. */
static void exec_that_fails_leaves_nothing(struct ktest *t)
{
	struct pm_exec_rep *rep = malloc(sizeof(*rep));
	struct prog_files *pf = malloc(sizeof(*pf));
	struct fake_proc p;
	struct fake f;
	int err = -ENOMEM;

	prog_start(&f, pf);
	proc_init(&p, &f, FAKE_ASPACE(9), FAKE_MEM_FIRST);
	ASSERT_EQ(t, exec(&f, 0, rep), 0);
	ASSERT_EQ(t, proc_destroy(&p), 0);
	f.fail_opcode = MM_LOAD;
	f.fail_error = -ETIMEDOUT;
	f.fail_late = true;
	EXPECT_EQ(t, exec(&f, 0, rep), -ETIMEDOUT);
	f.fail_opcode = 0;
	for (long n = 0; n < 200 && err; n++) {
		for (size_t i = 0; i < 2; i++) {
			EXPECT_EQ(t, f.mem[i].owner.nr_spaces, 0);
			EXPECT_EQ(t, f.mem[i].home.nr_spaces, 0);
			EXPECT_EQ(t, f.mem[i].pool.committed, 0);
		}
		shim_fail_alloc_after(n);
		err = exec(&f, 0, rep);
		shim_fail_alloc_after(-1);
		if (err)
			ASSERT_EQ(t, err, -ENOMEM);
	}
	ASSERT_EQ(t, err, 0);
	ASSERT_EQ(t, proc_destroy(&p), 0);
	proc_done(&p);
	EXPECT_TRUE(t, fake_stop(&f));
	free(rep);
	free(pf);
}

static void layout_is_random_with_a_seed(struct ktest *t)
{
	struct pm_exec_rep *a = malloc(sizeof(*a)), *b = malloc(sizeof(*b));
	struct prog_files *pf = malloc(sizeof(*pf));
	struct fake_proc p;
	struct fake f;

	prog_start(&f, pf);
	proc_init(&p, &f, FAKE_ASPACE(9), FAKE_MEM_FIRST);
	ASSERT_EQ(t, exec(&f, 1, a), 0);
	ASSERT_EQ(t, proc_destroy(&p), 0);
	ASSERT_EQ(t, exec(&f, 2, b), 0);
	ASSERT_EQ(t, proc_destroy(&p), 0);
	EXPECT_NE(t, a->prog_entry, b->prog_entry);
	EXPECT_NE(t, a->stack_top, b->stack_top);
	EXPECT_NE(t, a->interp_base, b->interp_base);
	EXPECT_NE(t, a->brk_start - a->prog_entry, b->brk_start - b->prog_entry);
	proc_done(&p);
	EXPECT_TRUE(t, fake_stop(&f));
	free(a);
	free(b);
	free(pf);
}

static void bad_programs_get_an_errno(struct ktest *t)
{
	struct pm_exec_rep *rep = malloc(sizeof(*rep));
	struct prog_files *pf = malloc(sizeof(*pf));
	struct fake f;

	prog_start(&f, pf);
	f.files[1].path = "/lib/other";
	EXPECT_EQ(t, exec(&f, 0, rep), -ENOENT);
	f.files[1].path = "/lib/ld";
	pf->interp[0] = 'x';
	page_cache_drop_all(&f.mem[0]);
	page_cache_drop_all(&f.mem[1]);
	EXPECT_EQ(t, exec(&f, 0, rep), -ELIBBAD);
	pf->prog[18] = 3; /* a 32-bit machine */
	page_cache_drop_all(&f.mem[0]);
	page_cache_drop_all(&f.mem[1]);
	EXPECT_EQ(t, exec(&f, 0, rep), -ENOEXEC);
	f.read_error = -EIO;
	page_cache_drop_all(&f.mem[0]);
	page_cache_drop_all(&f.mem[1]);
	EXPECT_EQ(t, exec(&f, 0, rep), -EIO);
	EXPECT_TRUE(t, fake_stop(&f));
	free(rep);
	free(pf);
}

static const struct ktest_case cases[] = {
	KTEST(reads_in_order_are_few),
	KTEST(last_page_is_zero_behind_the_end),
	KTEST(misses_at_once_share_a_read),
	KTEST(failed_read_fails_all_who_wait),
	KTEST(failed_read_is_tried_again),
	KTEST(a_lost_storage_node_is_not_this_node),
	KTEST(newer_version_is_read_again),
	KTEST(file_pages_give_way),
	KTEST(frames_are_zeroed_ahead),
	KTEST(a_late_exec_makes_no_space),
	KTEST(program_with_interpreter),
	KTEST(layout_is_random_with_a_seed),
	KTEST(bad_programs_get_an_errno),
	KTEST(program_that_runs_again),
	KTEST(program_in_an_object),
	KTEST(program_with_many_segments),
	KTEST(exec_that_fails_leaves_nothing),
	KTEST(a_read_that_nobody_waits_for),
	{ 0 },
};
static const struct ktest_suite suite = { .name = "memory.files", .cases = cases };
KTEST_SUITE(suite);
