/* SPDX-License-Identifier: MIT */
/*
 * Vectors with a fixed use, and the local APIC's internal interface.
 */
#pragma once

#include <lib/types.h>

#define VECTOR_PIC      0x20u /* legacy controller, masked: spurious only */
#define VECTOR_DEVICE   0x30u /* first for irq_alloc() */
#define VECTOR_DEV_END  0xf0u
#define VECTOR_TIMER    0xf0u
#define VECTOR_RESCHED  0xf1u
#define VECTOR_CALL     0xf2u /* ipi.c */
#define VECTOR_SPURIOUS 0xffu

/* How to reach the machine; a test has its own. */
struct apic_hw {
	uint32_t (*mmio_read)(uint32_t reg);
	void (*mmio_write)(uint32_t reg, uint32_t val);
	uint64_t (*msr_read)(uint32_t msr);
	void (*msr_write)(uint32_t msr, uint64_t val);
};

struct apic;
struct apic_ops {
	const char *name;
	uint64_t mode;   /* what to set in MSR_APIC_BASE */
	uint32_t max_id; /* the highest APIC id that can be sent to */
	uint32_t (*read)(const struct apic *a, uint32_t reg);
	void (*write)(const struct apic *a, uint32_t reg, uint32_t val);
	void (*send)(const struct apic *a, uint32_t apic_id, uint32_t low);
	uint32_t (*id)(const struct apic *a);
};
extern const struct apic_ops xapic_ops, x2apic_ops;

struct apic {
	const struct apic_ops *ops;
	const struct apic_hw *hw;
	bool deadline;       /* the timer takes TSC values */
	uint64_t timer_mult; /* else: timer ticks per ns, 32.32 fixed point; 0: not known yet */
};

void apic_choose(struct apic *a, const struct apic_hw *hw, bool has_x2apic, bool has_deadline);
void apic_enable(const struct apic *a);
void apic_timer_set(const struct apic *a, uint64_t deadline_ns, uint64_t now_ns);

uint32_t apic_id_of_cpu(unsigned int cpu);
void apic_set_id(unsigned int cpu, uint32_t apic_id);
bool apic_id_reachable(uint32_t apic_id);
void apic_send(unsigned int cpu, unsigned int vector);
void apic_send_nmi(unsigned int cpu);
/* By APIC id: CPUs that have no number yet. */
void apic_send_init(uint32_t apic_id);
void apic_send_startup(uint32_t apic_id, paddr_t page);

/* ioapic.c */
void ioapic_init(void);
