/* SPDX-License-Identifier: MIT */
/*
 * kernel_main: from a bare CPU to running threads.
 *
 * Flow:	boot parameters, memory, devices of the CPU, scheduler, then a thread
 *		that runs the init calls; the boot context becomes the idle thread.
 */
#define PR_FMT "boot: "

#include <generated/version.h>

#include <arch/cpu.h>
#include <arch/start.h>
#include <kernel/boot.h>
#include <kernel/bootparam.h>
#include <kernel/initcall.h>
#include <kernel/ktest_run.h>
#include <kernel/panic.h>
#include <kernel/printk.h>
#include <kernel/sched.h>
#include <kernel/symbols.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <mm/frame.h>
#include <mm/kmap.h>
#include <mm/slab.h>

static void init_thread(void *arg)
{
	initcalls_run();
	pr_info("ready after %lu ms\n", time_now_ns() / NSEC_PER_MSEC);
	if (ktest_requested())
		ktest_run_and_exit();
}

static void print_banner(void)
{
	char cpu[160];

	cpu_describe(cpu, sizeof(cpu));
	pr_info("Tessera " TESSERA_VERSION " " CONFIG_ROLE_NAME " monitor, build %.12s\n",
		build_id());
	pr_info("%s, %s\n", boot_info.protocol, cpu);
	pr_info("command line: %s\n", boot_cmdline());
}

void kernel_main(void)
{
	struct thread *t;

	stack_protector_init();
	bootparam_init();
	print_banner();
	frame_init();
	paging_frames_ready();
	slab_init();
	kmap_init();
	timer_init_cpu();
	sched_init();
	arch_init();
	initcalls_run_early();
	timer_start_cpu();
	smp_init();
	pr_info("%lu MiB of memory, %lu MiB free\n", frames_total_count() >> 8,
		frames_free_count() >> 8);
	t = thread_create("init", init_thread, NULL);
	if (IS_ERR(t))
		panic("no memory for the first thread");
	thread_detach(t);
	local_irq_enable();
	sched_idle();
}
