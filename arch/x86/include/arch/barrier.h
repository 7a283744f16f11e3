/* SPDX-License-Identifier: MIT */
/*
 * Memory barriers.
 *
 * Ordering:	x86 keeps loads in order, stores in order, and only lets a load
 *		pass an earlier store.  So the smp_ and dma_ read and write forms
 *		need only stop the compiler; a full barrier needs an instruction.
 *		Device memory is mapped uncached, which the mmio_ accessors of io.h
 *		already order among themselves.
 */
#pragma once

#define barrier() __asm__ volatile("" ::: "memory")

#define mb()  __asm__ volatile("mfence" ::: "memory")
#define rmb() __asm__ volatile("lfence" ::: "memory")
#define wmb() __asm__ volatile("sfence" ::: "memory")

/* Between CPUs. */
#define smp_mb()  __asm__ volatile("lock; addl $0, -4(%%rsp)" ::: "memory", "cc")
#define smp_rmb() barrier()
#define smp_wmb() barrier()

/* Between a CPU and a device that reads or writes our memory. */
#define dma_rmb() barrier()
#define dma_wmb() barrier()
#define dma_mb()  smp_mb()
