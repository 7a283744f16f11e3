/* SPDX-License-Identifier: MIT */
/*
 * Device interrupts: vectors, MSI addresses, and lines.
 *
 * Context:	handlers run with interrupts off; they wake threads and return.
 */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>

typedef void (*irq_handler_t)(unsigned int vector, void *arg);

/* A free vector with @handler behind it; -ENOSPC when none is left. */
int irq_alloc(irq_handler_t handler, void *arg, const char *name) __must_check;
/* No handler runs any more on return. */
void irq_free(unsigned int vector);
/* The address and data of an MSI or MSI-X entry. */
uint64_t msi_address(unsigned int vector, unsigned int cpu);
uint32_t msi_data(unsigned int vector);

/*
 * Interrupt lines, by their global number, for devices without MSI: @line interrupts the boot CPU
 * by @vector from now on. -ENODEV: no controller has it.
 */
int irq_line_route(unsigned int line, unsigned int vector) __must_check;
/* Any context. */
void irq_line_mask(unsigned int line);
