/* SPDX-License-Identifier: MIT */
/*
 * Scatter lists: checks of hostile arrays, and copies that end at a fault part way.
 */
#include <kernel/thread.h>
#include <lib/errno.h>
#include <lib/ktest.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <processor/vfs/uio.h>
#include <shim/pgtable.h>

#define KERNEL 0xffff888000000000ull

static uint64_t addr(const void *p)
{
	return (uint64_t)(uintptr_t)p;
}

static void one_buffer_is_checked(struct ktest *t)
{
	struct uio u;
	char buf[8];

	EXPECT_EQ(t, uio_user(&u, KERNEL, 1), -EFAULT);
	EXPECT_EQ(t, uio_user(&u, addr(buf), UINT64_MAX), -EFAULT);
	EXPECT_EQ(t, uio_user(&u, 0, 0), 0);
	EXPECT_EQ(t, u.left, 0u);
	/* As Linux, one call moves no more than this. */
	EXPECT_EQ(t, uio_user(&u, 0x1000, 1ull << 40), 0);
	EXPECT_EQ(t, u.left, 0x7ffff000u);
}

static void arrays_are_checked(struct ktest *t)
{
	char a[8], b[8];
	const struct {
		struct uio_seg iov[3];
		uint64_t nr;
		int want;
		uint64_t left;
	} cases[] = {
		{ { { 0 } }, 0, 0, 0 },
		{ { { addr(a), 8 }, { KERNEL, 0 }, { addr(b), 8 } }, 3, -EFAULT, 0 },
		{ { { addr(a), 8 }, { 0, 0 }, { addr(b), 8 } }, 3, 0, 16 },
		{ { { addr(a), 8 }, { addr(b), 1ull << 63 } }, 2, -EINVAL, 0 },
		{ { { addr(a), 8 }, { KERNEL, 8 } }, 2, -EFAULT, 0 },
		{ { { 0x1000, 0x7fffe000 }, { 0x1000, 0x7fffe000 } }, 2, 0, 0x7ffff000 },
		{ { { 0 } }, UIO_MAXIOV + 1, -EINVAL, 0 },
	};
	struct uio u;

	shim_user_bad(NULL, 0);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		EXPECT_EQ(t, uio_iovec(&u, addr(cases[i].iov), cases[i].nr), cases[i].want);
		if (cases[i].want)
			continue;
		EXPECT_EQ(t, u.left, cases[i].left);
		uio_done(&u);
	}
	shim_user_bad(cases[1].iov, sizeof(cases[1].iov));
	EXPECT_EQ(t, uio_iovec(&u, addr(cases[1].iov), 3), -EFAULT);
	shim_user_bad(NULL, 0);
}

static void pieces_cross_segments(struct ktest *t)
{
	char a[3], b[5], c[9], back[17];
	const struct uio_seg iov[5] = {
		{ addr(a), 3 }, { 0, 0 }, { addr(b), 5 }, { 0, 0 }, { addr(c), 9 }
	};
	struct uio u;

	ASSERT_EQ(t, uio_iovec(&u, addr(iov), 5), 0);
	EXPECT_EQ(t, uio_put(&u, "0123456", 7), 7u);
	EXPECT_EQ(t, u.left, 10u);
	EXPECT_EQ(t, uio_put(&u, "789abcdefghij", 13), 10u);
	EXPECT_EQ(t, u.left, 0u);
	EXPECT_EQ(t, uio_put(&u, "x", 1), 0u);
	uio_done(&u);
	EXPECT_MEMEQ(t, a, "012", 3);
	EXPECT_MEMEQ(t, b, "34567", 5);
	EXPECT_MEMEQ(t, c, "89abcdefg", 9);
	ASSERT_EQ(t, uio_iovec(&u, addr(iov), 5), 0);
	EXPECT_EQ(t, uio_fetch(&u, back, 4), 4u);
	EXPECT_EQ(t, uio_fetch(&u, back + 4, 13), 13u);
	uio_done(&u);
	EXPECT_MEMEQ(t, back, "0123456789abcdefg", 17);
}

static void many_segments_are_allocated(struct ktest *t)
{
	struct uio_seg iov[UIO_FAST + 1];
	char buf[UIO_FAST + 1] = { 0 };
	struct uio u;

	for (size_t i = 0; i < ARRAY_SIZE(iov); i++)
		iov[i] = (struct uio_seg){ addr(&buf[UIO_FAST - i]), 1 };
	ASSERT_EQ(t, uio_iovec(&u, addr(iov), ARRAY_SIZE(iov)), 0);
	EXPECT_EQ(t, uio_put(&u, "012345678", 9), 9u);
	uio_done(&u);
	EXPECT_MEMEQ(t, buf, "876543210", 9);
}

static void a_fault_ends_the_copy(struct ktest *t)
{
	static uint8_t buf[5 * PAGE_SIZE];
	char from[16];
	struct uio u;

	shim_user_bad(buf + 10, 1);
	ASSERT_EQ(t, uio_user(&u, addr(buf), 16), 0);
	EXPECT_EQ(t, uio_put(&u, "0123456789abcdef", 16), 10u);
	EXPECT_EQ(t, u.left, 6u);
	EXPECT_MEMEQ(t, buf, "0123456789", 10);
	ASSERT_EQ(t, uio_user(&u, addr(buf), 16), 0);
	EXPECT_EQ(t, uio_fetch(&u, from, 16), 10u);
	/* So do zeroes, at the byte. */
	memset(buf, 1, sizeof(buf));
	shim_user_bad(buf + 3 * PAGE_SIZE + 100, sizeof(buf));
	ASSERT_EQ(t, uio_user(&u, addr(buf), sizeof(buf)), 0);
	EXPECT_EQ(t, uio_zero(&u, sizeof(buf)), 3u * PAGE_SIZE + 100);
	EXPECT_EQ(t, u.left, 2u * PAGE_SIZE - 100);
	EXPECT_EQ(t, buf[0], 0);
	EXPECT_EQ(t, buf[2 * PAGE_SIZE - 1], 0);
	shim_user_bad(NULL, 0);
}

/* With faults off, for a caller that holds a pin: words before the page move, and it stays. */
static void mapped_copies_do_not_fault(struct ktest *t)
{
	static uint8_t buf[3 * PAGE_SIZE] __aligned(PAGE_SIZE);
	uint8_t back[20] = { 0 };
	struct uio u;

	memset(buf, 7, sizeof(buf));
	/* 13 bytes before the page: one word moves, the next crosses. */
	ASSERT_EQ(t, uio_user(&u, addr(buf + PAGE_SIZE - 13), 20), 0);
	shim_user_unmapped(buf + PAGE_SIZE);
	EXPECT_EQ(t, uio_put_mapped(&u, "0123456789abcdefghij", 20), 8u);
	EXPECT_EQ(t, shim_nr_user_faults, 0u);
	EXPECT_EQ(t, uio_fault_in(&u, true), 0);
	EXPECT_EQ(t, shim_nr_user_faults, 1u);
	EXPECT_EQ(t, buf[PAGE_SIZE - 5], 7); /* it has changed nothing */
	EXPECT_EQ(t, uio_put_mapped(&u, "89abcdefghij", 12), 12u);
	EXPECT_MEMEQ(t, buf + PAGE_SIZE - 13, "0123456789abcdefghij", 20);
	ASSERT_EQ(t, uio_user(&u, addr(buf + PAGE_SIZE - 13), 20), 0);
	shim_user_unmapped(buf + PAGE_SIZE);
	EXPECT_EQ(t, uio_fetch_mapped(&u, back, 20), 8u);
	EXPECT_EQ(t, uio_fault_in(&u, false), 0);
	EXPECT_EQ(t, shim_nr_user_faults, 1u);
	EXPECT_EQ(t, uio_fetch_mapped(&u, back + 8, 12), 12u);
	EXPECT_MEMEQ(t, back, "0123456789abcdefghij", 20);
	shim_user_unmapped(NULL);
	EXPECT_EQ(t, thread_current()->faults_off, 0u);
}

static void what_comes_next_is_faulted_in(struct ktest *t)
{
	static uint8_t buf[PAGE_SIZE] __aligned(PAGE_SIZE);
	const struct uio_seg iov[4] = {
		{ addr(buf), 4 }, { 0, 0 }, { addr(buf) + 8, 4 }, { 0, 0 }
	};
	struct uio u;

	/* Empty segments are passed over; at the end there is none. */
	ASSERT_EQ(t, uio_iovec(&u, addr(iov), 4), 0);
	EXPECT_EQ(t, uio_put_mapped(&u, "0123", 4), 4u);
	shim_user_unmapped(buf);
	EXPECT_EQ(t, uio_fault_in(&u, true), 0);
	EXPECT_EQ(t, shim_nr_user_faults, 1u);
	EXPECT_EQ(t, uio_put_mapped(&u, "4567", 4), 4u);
	EXPECT_EQ(t, uio_fault_in(&u, true), 0);
	uio_done(&u);
	shim_user_bad(buf, 1);
	ASSERT_EQ(t, uio_user(&u, addr(buf), 4), 0);
	EXPECT_EQ(t, uio_put_mapped(&u, "x", 1), 0u);
	EXPECT_EQ(t, uio_fault_in(&u, true), -EFAULT);
	EXPECT_EQ(t, uio_fault_in(&u, false), -EFAULT);
	shim_user_bad(NULL, 0);
	uio_kernel(&u, NULL, 4);
	EXPECT_EQ(t, uio_fault_in(&u, true), 0);
}

static void kernel_memory_needs_no_checks(struct ktest *t)
{
	char buf[4];
	struct uio u;

	uio_kernel(&u, buf, 4);
	EXPECT_EQ(t, uio_put(&u, "abcdef", 6), 4u);
	EXPECT_MEMEQ(t, buf, "abcd", 4);
	uio_kernel(&u, buf, 4);
	EXPECT_EQ(t, uio_zero(&u, 3), 3u);
	EXPECT_MEMEQ(t, buf, "\0\0\0d", 4);
}

static const struct ktest_case cases[] = {
	KTEST(one_buffer_is_checked),
	KTEST(arrays_are_checked),
	KTEST(pieces_cross_segments),
	KTEST(many_segments_are_allocated),
	KTEST(a_fault_ends_the_copy),
	KTEST(mapped_copies_do_not_fault),
	KTEST(what_comes_next_is_faulted_in),
	KTEST(kernel_memory_needs_no_checks),
	{ 0 },
};
static const struct ktest_suite suite = { .name = "processor.uio", .cases = cases };
KTEST_SUITE(suite);
