/* SPDX-License-Identifier: MIT */
/*
 * ConnectX-3: device structures by raw offsets, for tests only.
 *
 * The tests name bytes by their numbers, as the data sheet does, so that a wrong field in hw.h
 * does not go into the code and its test alike.
 */
#pragma once

#include <lib/byteorder.h>
#include <lib/types.h>

static inline uint8_t mlx4_get8(const void *buf, size_t off)
{
	return ((const uint8_t *)buf)[off];
}
static inline uint16_t mlx4_get16(const void *buf, size_t off)
{
	return get_unaligned_be16((const uint8_t *)buf + off);
}
static inline uint32_t mlx4_get32(const void *buf, size_t off)
{
	return get_unaligned_be32((const uint8_t *)buf + off);
}
static inline uint64_t mlx4_get64(const void *buf, size_t off)
{
	return get_unaligned_be64((const uint8_t *)buf + off);
}
static inline void mlx4_put8(void *buf, size_t off, uint8_t v)
{
	((uint8_t *)buf)[off] = v;
}
static inline void mlx4_put16(void *buf, size_t off, uint16_t v)
{
	put_unaligned_be16(v, (uint8_t *)buf + off);
}
static inline void mlx4_put32(void *buf, size_t off, uint32_t v)
{
	put_unaligned_be32(v, (uint8_t *)buf + off);
}
static inline void mlx4_put64(void *buf, size_t off, uint64_t v)
{
	put_unaligned_be64(v, (uint8_t *)buf + off);
}
