/* SPDX-License-Identifier: MIT */
/*
 * Integers with a fixed byte order, as they stand on the wire, on disk and in
 * device registers. Under sparse a forgotten conversion is an error.
 */
#pragma once

#include <lib/types.h>

typedef uint16_t __bitwise le16_t;
typedef uint32_t __bitwise le32_t;
typedef uint64_t __bitwise le64_t;
typedef uint16_t __bitwise be16_t;
typedef uint32_t __bitwise be32_t;
typedef uint64_t __bitwise be64_t;

#define swab16(x) __builtin_bswap16(x)
#define swab32(x) __builtin_bswap32(x)
#define swab64(x) __builtin_bswap64(x)

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
# define BYTEORDER_LE(bits, x) (x)
# define BYTEORDER_BE(bits, x) swab##bits(x)
#else
# define BYTEORDER_LE(bits, x) swab##bits(x)
# define BYTEORDER_BE(bits, x) (x)
#endif

/* In constant expressions (static tables) use these. */
#define CONST_CPU_TO_LE16(x) ((__force le16_t)BYTEORDER_LE(16, (uint16_t)(x)))
#define CONST_CPU_TO_LE32(x) ((__force le32_t)BYTEORDER_LE(32, (uint32_t)(x)))
#define CONST_CPU_TO_LE64(x) ((__force le64_t)BYTEORDER_LE(64, (uint64_t)(x)))
#define CONST_CPU_TO_BE16(x) ((__force be16_t)BYTEORDER_BE(16, (uint16_t)(x)))
#define CONST_CPU_TO_BE32(x) ((__force be32_t)BYTEORDER_BE(32, (uint32_t)(x)))
#define CONST_CPU_TO_BE64(x) ((__force be64_t)BYTEORDER_BE(64, (uint64_t)(x)))

#define BYTEORDER_DEFINE(end, END, bits)                                        \
	static inline end##bits##_t cpu_to_##end##bits(uint##bits##_t v)        \
	{                                                                       \
		return (__force end##bits##_t)BYTEORDER_##END(bits, v);         \
	}                                                                       \
	static inline uint##bits##_t end##bits##_to_cpu(end##bits##_t v)        \
	{                                                                       \
		return BYTEORDER_##END(bits, (__force uint##bits##_t)v);        \
	}                                                                       \
	static inline uint##bits##_t get_unaligned_##end##bits(const void *p)   \
	{                                                                       \
		uint##bits##_t v;                                               \
		__builtin_memcpy(&v, p, sizeof(v));                             \
		return BYTEORDER_##END(bits, v);                                \
	}                                                                       \
	static inline void put_unaligned_##end##bits(uint##bits##_t v, void *p) \
	{                                                                       \
		v = BYTEORDER_##END(bits, v);                                   \
		__builtin_memcpy(p, &v, sizeof(v));                             \
	}

/* cpu_to_le16(), le16_to_cpu(), get_unaligned_le16(p), put_unaligned_le16(v, p), and so on */
BYTEORDER_DEFINE(le, LE, 16)
BYTEORDER_DEFINE(le, LE, 32)
BYTEORDER_DEFINE(le, LE, 64)
BYTEORDER_DEFINE(be, BE, 16)
BYTEORDER_DEFINE(be, BE, 32)
BYTEORDER_DEFINE(be, BE, 64)
