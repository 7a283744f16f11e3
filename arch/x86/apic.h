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
#define VECTOR_SPURIOUS 0xffu

uint32_t apic_id_of_cpu(unsigned int cpu);
/* ioapic.c */
void ioapic_init(void);
