/* SPDX-License-Identifier: MIT */
/*
 * Starting the other CPUs.
 *
 * Flow:	smp_init() on the boot CPU, before any thread runs: a stack, an idle thread
 *		and a per-CPU area for each CPU that the MADT names as usable; the trampoline
 *		(ap_boot.S) into low memory; INIT and start-up IPIs to all at once.  They
 *		come through ap_main(), set themselves up and halt.  When all have come, or
 *		the time is up, they get their numbers, check their clocks and schedule.
 *		States: AP_CALLED -> AP_ARRIVED (by the CPU) -> AP_GO (by the boot CPU) ->
 *		AP_ONLINE (by the CPU).  When its time is up the boot CPU changes the state
 *		to AP_LEFT_OUT instead; each change is a compare-and-exchange, so a CPU that
 *		comes late finds itself left out and halts for ever.
 *		Numbers: dense, in the order of the MADT, given only to CPUs that arrived.
 *		Tables: the boot page tables are used once more, with the trampoline's page mapped
 *		at its own address, and cleared afterwards: nothing stays writable and
 *		executable.
 * Failure:	a CPU that does not start or whose clock cannot be made to agree is named
 *		in the log and left out; the boot goes on.
 */
#define PR_FMT "smp: "

#include "smp.h"

#include <arch/clockevent.h>
#include <arch/cpu.h>
#include <arch/fpu.h>
#include <arch/percpu.h>
#include <arch/start.h>
#include <kernel/boot.h>
#include <kernel/bootparam.h>
#include <kernel/panic.h>
#include <kernel/printk.h>
#include <kernel/reboot.h>
#include <kernel/sched.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <lib/byteorder.h>
#include <lib/fmt.h>
#include <lib/string.h>
#include <mm/frame.h>
#include <mm/kmap.h>
#include <mm/slab.h>

#include "apic.h"
#include "arch_private.h"
#include "pte.h"

#define ARRIVE_LIMIT_NS (5 * NSEC_PER_SEC) /* a virtual CPU may be slow to get going */
#define SYNC_LIMIT_NS   (5 * NSEC_PER_SEC)
#define INIT_DELAY_NS   (10 * NSEC_PER_MSEC) /* between INIT and start-up on a board */
#define SIPI_AGAIN_NS   (200 * NSEC_PER_USEC)
#define LOW_END         0xa0000ull

enum ap_state {
	AP_UNUSED,
	AP_CALLED,
	AP_ARRIVED,
	AP_GO,
	AP_ONLINE,
	AP_LEFT_OUT,
};

struct ap_slot { /* layout known to ap_boot.S */
	uint32_t apic_id;
	uint32_t state; /* atomic: enum ap_state */
	uint64_t stack_top;
	uint64_t gs_base; /* distance of its per-CPU area */
	struct thread *idle;
};
static_assert(sizeof(struct ap_slot) == 32, "ap_boot.S knows struct ap_slot");
static_assert(offsetof(struct ap_slot, gs_base) == 16, "ap_boot.S knows struct ap_slot");

extern char ap_trampoline[], ap_trampoline_end[];
extern char ap_gdt_base[], ap_jump32[], ap_jump64[], ap_cr3[];
extern uint64_t boot_pml4[], boot_pdpt_low[], boot_pd[];

struct ap_slot ap_slots[MAX_CPUS]; /* [0] is not used: the boot CPU */
uint32_t ap_nr_slots;
static uint32_t cpus_wanted;

BOOT_PARAM("cpus", u32, cpus_wanted, "how many CPUs to use at most (0, the default: all)");

void ap_main(unsigned int slot) __noreturn;

static bool state_change(struct ap_slot *s, uint32_t from, uint32_t to)
{
	return __atomic_compare_exchange_n(&s->state, &from, to, false, __ATOMIC_SEQ_CST,
					   __ATOMIC_SEQ_CST);
}

static uint32_t state_of(const struct ap_slot *s)
{
	return __atomic_load_n(&s->state, __ATOMIC_ACQUIRE);
}

/* --- the other CPU's side -------------------------------------------------------------- */

void ap_main(unsigned int slot)
{
	struct ap_slot *s = &ap_slots[slot];

	paging_load_cpu();
	cpu_init_control();
	gdt_init_cpu();
	idt_load();
	timer_init_cpu();
	apic_init_cpu();
	syscall_init_cpu();
	fpu_init_cpu();
	if (!state_change(s, AP_CALLED, AP_ARRIVED))
		machine_halt();
	/* Asleep until there is a number: with few host CPUs, spinning would hold up the others. */
	while (local_irq_disable(), state_of(s) == AP_ARRIVED)
		cpu_wait_irq();
	cpu_init_number();
	sched_init_cpu(s->idle);
	tsc_sync_other_side();
	/* Others may give it threads from here on, however long it takes to the next line. */
	if (!state_change(s, AP_GO, AP_ONLINE))
		machine_halt();
	sched_idle();
}

/* --- what a CPU needs before it starts -------------------------------------------------- */

static size_t area_pages(void)
{
	return DIV_ROUND_UP((size_t)(percpu_end - percpu_start), PAGE_SIZE);
}

static void slot_free(struct ap_slot *s)
{
	if (s->gs_base)
		frame_free_contig(virt_to_frame((void *)(s->gs_base + (uint64_t)percpu_start)),
				  area_pages());
	if (s->idle)
		sched_free_idle(s->idle);
	*s = (struct ap_slot){ .apic_id = UINT32_MAX };
}

static bool slot_prepare(struct ap_slot *s, uint32_t apic_id)
{
	struct frame *f = frame_alloc_contig(area_pages(), 1);
	uint8_t *area;

	*s = (struct ap_slot){ .apic_id = apic_id };
	if (!f)
		return false;
	area = frame_to_virt(f);
	memset(area, 0, area_pages() * PAGE_SIZE);
	s->gs_base = (uint64_t)area - (uint64_t)percpu_start;
	*(uint64_t *)((uint64_t)&percpu_offset + s->gs_base) = s->gs_base;
	s->idle = sched_create_idle();
	if (!s->idle)
		return false;
	s->stack_top = s->idle->stack_top;
	return true;
}

/* Slots 1 and up: the usable CPUs of the MADT but this one, as many as are wanted. */
static void slots_prepare(unsigned int wanted)
{
	const uint32_t me = apic_id_of_cpu(0);

	ap_nr_slots = 1;
	ap_slots[0].apic_id = UINT32_MAX;
	for (unsigned int i = 0; i < acpi_info.nr_cpus && ap_nr_slots < wanted; i++) {
		const uint32_t id = acpi_info.apic_ids[i];
		struct ap_slot *s = &ap_slots[ap_nr_slots];

		if (id == me)
			continue;
		if (!apic_id_reachable(id)) {
			pr_warn("CPU with APIC id %u cannot be addressed, left out\n", id);
			continue;
		}
		if (!slot_prepare(s, id)) {
			pr_err("no memory for the CPU with APIC id %u, left out\n", id);
			slot_free(s);
			continue;
		}
		s->state = AP_CALLED;
		ap_nr_slots++;
	}
}

/* --- low memory -------------------------------------------------------------------------- */

/* A page of RAM below 640 KiB; all of it is reserved from the allocators.  0: none. */
static paddr_t low_page(void)
{
	for (unsigned int i = 0; i < boot_info.nr_mem; i++) {
		const struct boot_mem *m = &boot_info.mem[i];
		const paddr_t at = MAX(ALIGN_UP(m->base, PAGE_SIZE), (paddr_t)PAGE_SIZE);

		if (m->type == BOOT_MEM_RAM && at < LOW_END && at + PAGE_SIZE <= m->base + m->size)
			return at;
	}
	return 0;
}

static void trampoline_patch(uint8_t *page, const char *field, uint32_t add)
{
	uint8_t *at = page + (field - ap_trampoline);

	put_unaligned_le32(get_unaligned_le32(at) + add, at);
}

static void trampoline_install(paddr_t at)
{
	uint8_t *page = phys_to_virt(at);

	memcpy(page, ap_trampoline, (size_t)(ap_trampoline_end - ap_trampoline));
	trampoline_patch(page, ap_gdt_base, (uint32_t)at);
	trampoline_patch(page, ap_jump32, (uint32_t)at);
	trampoline_patch(page, ap_jump64, (uint32_t)at);
	trampoline_patch(page, ap_cr3, (uint32_t)virt_to_phys(boot_pml4));

	memset(boot_pml4, 0, PAGE_SIZE);
	memset(boot_pdpt_low, 0, PAGE_SIZE);
	memset(boot_pd, 0, 2 * PAGE_SIZE);
	memcpy(boot_pml4 + PT_ENTRIES / 2, kernel_pml4 + PT_ENTRIES / 2, PAGE_SIZE / 2);
	boot_pml4[0] = virt_to_phys(boot_pdpt_low) | PTE_P;
	boot_pdpt_low[0] = virt_to_phys(boot_pd) | PTE_P;
	boot_pd[0] = virt_to_phys(boot_pd + PT_ENTRIES) | PTE_P;
	boot_pd[PT_ENTRIES + pt_index(at, 1)] = at | PTE_P;
}

/* Should a CPU come after all, it finds an endless sleep: cli; hlt; jmp. */
static void trampoline_remove(paddr_t at)
{
	static const uint8_t sleep[] = { 0xfa, 0xf4, 0xeb, 0xfd };

	memcpy(phys_to_virt(at), sleep, sizeof(sleep));
	memset(boot_pml4, 0, PAGE_SIZE);
}

/* --- the boot CPU's side ----------------------------------------------------------------- */

static unsigned int nr_missing(void)
{
	unsigned int nr = 0;

	for (unsigned int i = 1; i < ap_nr_slots; i++)
		nr += state_of(&ap_slots[i]) == AP_CALLED;
	return nr;
}

static void call_missing(paddr_t page)
{
	for (unsigned int i = 1; i < ap_nr_slots; i++) {
		if (state_of(&ap_slots[i]) == AP_CALLED)
			apic_send_startup(ap_slots[i].apic_id, page);
	}
}

static void call_all(paddr_t page)
{
	uint64_t start;
	uint64_t again = SIPI_AGAIN_NS;

	for (unsigned int i = 1; i < ap_nr_slots; i++)
		apic_send_init(ap_slots[i].apic_id);
	if (!cpu_is_virtual())
		delay_ns(INIT_DELAY_NS);
	start = time_now_ns();
	call_missing(page);
	while (nr_missing() && time_now_ns() - start < ARRIVE_LIMIT_NS) {
		if (time_now_ns() - start >= again) {
			call_missing(page); /* ignored by CPUs that run already */
			again *= 100;
		}
		cpu_relax();
	}
}

static void leave_out(struct ap_slot *s)
{
	if (!state_change(s, AP_CALLED, AP_LEFT_OUT))
		return; /* it came in the last moment */
	apic_send_init(s->apic_id);
	pr_err("CPU with APIC id %u does not start, left out\n", s->apic_id);
	slot_free(s);
}

/* Give all that arrived their numbers, and let them go on. */
static void number_arrived(void)
{
	unsigned int cpu = 1;

	for (unsigned int i = 1; i < ap_nr_slots; i++) {
		struct ap_slot *s = &ap_slots[i];

		leave_out(s);
		if (state_of(s) != AP_ARRIVED)
			continue;
		ASSERT(cpu < MAX_CPUS && !percpu_offsets[cpu]);
		percpu_offsets[cpu] = s->gs_base;
		*per_cpu_ptr(&percpu_cpu_id, cpu) = cpu;
		apic_set_id(cpu, s->apic_id);
		(void)snprintf(s->idle->name, sizeof(s->idle->name), "idle%u", cpu);
		tsc_sync_start(cpu);
		__atomic_store_n(&s->state, AP_GO, __ATOMIC_SEQ_CST);
		ipi_resched(cpu++);
	}
}

/* Check the clock of @cpu and wait until it runs its scheduler. */
static bool bring_online(struct ap_slot *s, unsigned int cpu)
{
	const uint64_t limit = time_after_ns(SYNC_LIMIT_NS);
	int64_t offset;
	const enum tsc_sync sync = tsc_sync_boot_side(cpu, &offset, SYNC_LIMIT_NS);

	if (sync == TSC_SYNC_ADJUSTED)
		pr_warn("cpu %u: TSC was off by %ld ticks, adjusted\n", cpu, offset);
	while (sync != TSC_SYNC_FAILED && state_of(s) == AP_GO && time_now_ns() < limit)
		cpu_relax();
	if (!state_change(s, AP_GO, AP_LEFT_OUT)) {
		cpu_set_online(cpu);
		return true;
	}
	/* It may still touch its stack and area: they stay its own. */
	if (sync == TSC_SYNC_FAILED && offset)
		pr_err("CPU with APIC id %u: TSC is off by %ld ticks, left out\n", s->apic_id,
		       offset);
	else
		pr_err("CPU with APIC id %u hangs, left out\n", s->apic_id);
	return false;
}

static void bring_all_online(void)
{
	unsigned int cpu = 1;

	for (unsigned int i = 1; i < ap_nr_slots; i++) {
		struct ap_slot *s = &ap_slots[i];

		/* Numbers are dense: behind one that failed, the others stay asleep. */
		if (state_of(s) != AP_LEFT_OUT && state_of(s) != AP_UNUSED &&
		    !bring_online(s, cpu++))
			break;
	}
}

void smp_init(void)
{
	const unsigned int wanted = cpus_wanted ? MIN(cpus_wanted, MAX_CPUS) : MAX_CPUS;
	const uint64_t start = time_now_ns();
	paddr_t page;

	mmio_lock_choose();
	if (acpi_info.nr_cpus <= 1 || wanted <= 1)
		return;
	page = low_page();
	if (!page) {
		pr_err("no low memory to start other CPUs from\n");
		return;
	}
	slots_prepare(wanted);
	if (ap_nr_slots == 1)
		return;
	trampoline_install(page);
	call_all(page);
	number_arrived();
	bring_all_online();
	trampoline_remove(page);
	for_each_cpu(cpu) {
		if (cpu != cpu_id())
			ipi_resched(cpu); /* they are not alone any more: let them say so */
	}
	pr_info("%u CPUs after %lu us\n", cpu_online_count(),
		(time_now_ns() - start) / NSEC_PER_USEC);
}
