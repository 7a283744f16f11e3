/* SPDX-License-Identifier: MIT */
/*
 * Real time: the CMOS clock at boot plus monotonic time.
 */
#include <kernel/time.h>

#include <arch/rtc.h>
#include <kernel/initcall.h>
#include <kernel/printk.h>

static uint64_t boot_real_ns; /* atomic */
static void (*stepped)(void); /* atomic; NULL: nobody wants to know */

uint64_t time_boot_real_ns(void)
{
	return __atomic_load_n(&boot_real_ns, __ATOMIC_RELAXED);
}

uint64_t time_real_ns(void)
{
	return time_boot_real_ns() + time_now_ns();
}

void time_set_real_ns(uint64_t real_ns)
{
	void (*const fn)(void) = __atomic_load_n(&stepped, __ATOMIC_ACQUIRE);

	__atomic_store_n(&boot_real_ns, real_ns - time_now_ns(), __ATOMIC_RELAXED);
	if (fn)
		fn();
}

void time_on_step(void (*fn)(void))
{
	__atomic_store_n(&stepped, fn, __ATOMIC_RELEASE);
}

static int time_init(void)
{
	const uint64_t now = rtc_read_ns();

	ASSERT_BEFORE(core); /* whose functions read the clock */
	if (now == 0)
		pr_warn("real-time clock makes no sense, starting at 1970\n");
	time_set_real_ns(now ? now : time_now_ns());
	return 0;
}
INITCALL(early, time_init);
