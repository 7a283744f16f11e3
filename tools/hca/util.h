/* SPDX-License-Identifier: MIT */
/*
 * HCA model: small helpers shared by every file: short names for fields in network
 * byte order, bit fields, time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <lib/byteorder.h>
#include <lib/compiler.h>
#include <lib/list.h>

#define NSEC_PER_USEC 1000ull
#define NSEC_PER_MSEC 1000000ull
#define NSEC_PER_SEC  1000000000ull

#define get_be16(p) get_unaligned_be16(p)
#define get_be32(p) get_unaligned_be32(p)
#define get_be64(p) get_unaligned_be64(p)

static inline void put_be16(void *p, uint16_t v)
{
	put_unaligned_be16(v, p);
}

static inline void put_be32(void *p, uint32_t v)
{
	put_unaligned_be32(v, p);
}

static inline void put_be64(void *p, uint64_t v)
{
	put_unaligned_be64(v, p);
}

/* A 32-bit value as a little-endian CPU moves it to or from a big-endian register. */
static inline uint32_t swap_be32(uint32_t v)
{
	return BYTEORDER_BE(32, v);
}

/* Bits @hi..@lo of @v. */
static inline uint32_t bits(uint32_t v, unsigned hi, unsigned lo)
{
	return (v >> lo) & (uint32_t)(BIT64(hi - lo + 1) - 1);
}

static inline uint64_t host_time_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}
