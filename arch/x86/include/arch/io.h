/* SPDX-License-Identifier: MIT */
/*
 * Device access: I/O ports and memory-mapped registers.
 *
 * Invariants:	every access to device registers goes through the mmio_ functions,
 *		so that a quirk of one machine lives here and in no driver.
 * Locking:	when a device asked for it, each access takes one global lock:
 *		QEMU's x-pci-proxy-dev loses accesses when two CPUs are inside it.
 * Ordering:	mmio_write*() is ordered after all earlier stores to memory, so a
 *		doorbell needs no extra barrier; mmio_read*() before later loads.
 */
#pragma once

#include <arch/barrier.h>
#include <lib/byteorder.h>
#include <lib/compiler.h>
#include <lib/types.h>

static inline void outb(uint16_t port, uint8_t val)
{
	__asm__ volatile("outb %0, %1" ::"a"(val), "Nd"(port) : "memory");
}

static inline void outw(uint16_t port, uint16_t val)
{
	__asm__ volatile("outw %0, %1" ::"a"(val), "Nd"(port) : "memory");
}

static inline void outl(uint16_t port, uint32_t val)
{
	__asm__ volatile("outl %0, %1" ::"a"(val), "Nd"(port) : "memory");
}

static inline uint8_t inb(uint16_t port)
{
	uint8_t val;

	__asm__ volatile("inb %1, %0" : "=a"(val) : "Nd"(port) : "memory");
	return val;
}

static inline uint16_t inw(uint16_t port)
{
	uint16_t val;

	__asm__ volatile("inw %1, %0" : "=a"(val) : "Nd"(port) : "memory");
	return val;
}

static inline uint32_t inl(uint16_t port)
{
	uint32_t val;

	__asm__ volatile("inl %1, %0" : "=a"(val) : "Nd"(port) : "memory");
	return val;
}

/*
 * A driver says that its device, named @who, loses an access while another CPU makes one; before
 * its own first access.  The boot parameter mmio.lock may overrule it.
 */
void mmio_lock_ask(const char *who);
/* Switch the one-access-at-a-time quirk itself: for tests. */
void mmio_lock_quirk_set(bool on);

extern bool mmio_lock_quirk;
unsigned long mmio_lock_enter(void);
void mmio_lock_leave(unsigned long flags);

#define MMIO_ACCESSORS(bits, insn, reg)                                                      \
	static inline uint##bits##_t mmio_read##bits(const volatile void __iomem *addr)      \
	{                                                                                    \
		uint##bits##_t val;                                                          \
		unsigned long flags = 0;                                                     \
		const bool locked = unlikely(READ_ONCE(mmio_lock_quirk));                    \
                                                                                             \
		if (locked)                                                                  \
			flags = mmio_lock_enter();                                           \
		__asm__ volatile(insn " %1, %0"                                              \
				 : "=" reg(val)                                              \
				 : "m"(*(const volatile uint##bits##_t __iomem *)addr)       \
				 : "memory");                                                \
		if (locked)                                                                  \
			mmio_lock_leave(flags);                                              \
		return val;                                                                  \
	}                                                                                    \
	static inline void mmio_write##bits(volatile void __iomem *addr, uint##bits##_t val) \
	{                                                                                    \
		unsigned long flags = 0;                                                     \
		const bool locked = unlikely(READ_ONCE(mmio_lock_quirk));                    \
                                                                                             \
		if (locked)                                                                  \
			flags = mmio_lock_enter();                                           \
		__asm__ volatile(insn " %0, %1" ::reg(val),                                  \
				 "m"(*(volatile uint##bits##_t __iomem *)addr)               \
				 : "memory");                                                \
		if (locked)                                                                  \
			mmio_lock_leave(flags);                                              \
	}

MMIO_ACCESSORS(8, "movb", "q")
MMIO_ACCESSORS(16, "movw", "r")
MMIO_ACCESSORS(32, "movl", "r")
MMIO_ACCESSORS(64, "movq", "r")

/* Big-endian registers (HCAs): values are in host order on our side. */
static inline uint32_t mmio_read32be(const volatile void __iomem *addr)
{
	return __builtin_bswap32(mmio_read32(addr));
}

static inline void mmio_write32be(volatile void __iomem *addr, uint32_t val)
{
	mmio_write32(addr, __builtin_bswap32(val));
}

static inline uint64_t mmio_read64be(const volatile void __iomem *addr)
{
	return __builtin_bswap64(mmio_read64(addr));
}

static inline void mmio_write64be(volatile void __iomem *addr, uint64_t val)
{
	mmio_write64(addr, __builtin_bswap64(val));
}

/*
 * Copy @len bytes, in order, to a write-combining mapping: 64 bytes make one write on the bus.
 * Both ends and the length are multiples of 8.  It is ordered after all earlier stores, and has
 * left this CPU on return.
 */
static inline void mmio_copy_wc(volatile void __iomem *dst, const void *src, size_t len)
{
	volatile uint64_t __iomem *d = dst;
	const uint64_t *s = src;
	unsigned long flags = 0;
	const bool locked = unlikely(READ_ONCE(mmio_lock_quirk));

	if (locked)
		flags = mmio_lock_enter();
	wmb(); /* memory first: write-combining stores may pass plain ones */
	for (size_t n = 0; n < len / sizeof(*s); n++)
		__asm__ volatile("movq %0, %1" ::"r"(s[n]), "m"(d[n]) : "memory");
	wmb(); /* out of the write-combining buffer, before anything that follows */
	if (locked)
		mmio_lock_leave(flags);
}

/*
 * Doorbells: ring after the descriptors are in memory.  The store itself is
 * ordered after them (strongly ordered uncached mapping).
 */
static inline void doorbell_write32(volatile void __iomem *addr, uint32_t val)
{
	dma_wmb(); /* descriptors before the doorbell */
	mmio_write32(addr, val);
}

static inline void doorbell_write32be(volatile void __iomem *addr, uint32_t val)
{
	dma_wmb();
	mmio_write32be(addr, val);
}

static inline void doorbell_write64be(volatile void __iomem *addr, uint64_t val)
{
	dma_wmb();
	mmio_write64be(addr, val);
}
