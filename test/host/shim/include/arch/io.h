/* SPDX-License-Identifier: MIT */
/*
 * Host shim of <arch/io.h>: device registers are whatever the test's fake device says.
 *
 * A test sets shim_mmio_ops to see every access; without it they go to memory. There are no
 * ports: a read gives all ones.
 */
#pragma once

#include <arch/barrier.h>
#include <lib/byteorder.h>
#include <lib/compiler.h>
#include <lib/types.h>

struct shim_mmio_ops {
	uint64_t (*read)(const volatile void *addr, unsigned int bytes);
	void (*write)(volatile void *addr, uint64_t val, unsigned int bytes);
};
extern const struct shim_mmio_ops *shim_mmio_ops;

#define MMIO_ACCESSORS(bits)                                                                 \
	static inline uint##bits##_t mmio_read##bits(const volatile void __iomem *addr)      \
	{                                                                                    \
		if (shim_mmio_ops)                                                           \
			return (uint##bits##_t)shim_mmio_ops->read(addr, (bits) / 8);        \
		return *(const volatile uint##bits##_t *)addr;                               \
	}                                                                                    \
	static inline void mmio_write##bits(volatile void __iomem *addr, uint##bits##_t val) \
	{                                                                                    \
		if (shim_mmio_ops)                                                           \
			shim_mmio_ops->write(addr, val, (bits) / 8);                         \
		else                                                                         \
			*(volatile uint##bits##_t *)addr = val;                              \
	}

MMIO_ACCESSORS(8)
MMIO_ACCESSORS(16)
MMIO_ACCESSORS(32)
MMIO_ACCESSORS(64)

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

static inline void mmio_copy_wc(volatile void __iomem *dst, const void *src, size_t len)
{
	const uint64_t *s = src;

	for (size_t n = 0; n < len / sizeof(*s); n++)
		mmio_write64((volatile uint64_t __iomem *)dst + n, s[n]);
}

static inline void doorbell_write32(volatile void __iomem *addr, uint32_t val)
{
	dma_wmb(); /* descriptors before the doorbell, as on the machine */
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

static inline uint8_t inb(uint16_t port)
{
	(void)port;
	return UINT8_MAX;
}

static inline uint16_t inw(uint16_t port)
{
	(void)port;
	return UINT16_MAX;
}

static inline uint32_t inl(uint16_t port)
{
	(void)port;
	return UINT32_MAX;
}

static inline void outb(uint16_t port, uint8_t val)
{
	(void)port;
	(void)val;
}

static inline void outw(uint16_t port, uint16_t val)
{
	(void)port;
	(void)val;
}

static inline void outl(uint16_t port, uint32_t val)
{
	(void)port;
	(void)val;
}

static inline void mmio_lock_ask(const char *who)
{
	(void)who;
}
