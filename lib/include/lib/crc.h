/* SPDX-License-Identifier: MIT */
/*
 * Cyclic redundancy checks, reflected, as plain updates: nothing is inverted
 * at either end, so that pieces can be chained and each format's own rule applied.
 *
 *	ext4 metadata		crc32c(~0U, ...) and onward, not inverted
 *	iSCSI, NVMe style	~crc32c(~0U, p, n)
 *	Ethernet, zip, ICRC	~crc32(~0U, p, n)
 *	ext4 group descriptors	crc16(0xffff, ...)
 */
#pragma once

#include <lib/types.h>

uint32_t crc32c(uint32_t crc, const void *data, size_t len); /* Castagnoli, 0x1edc6f41 */
/*
 * crc32c() of @nr zero bytes, in a few hundred instructions whatever @nr is. As the CRC is linear,
 * bytes that become others change it by crc32c_zeros(crc32c(0, old) ^ crc32c(0, new), nr behind).
 */
uint32_t crc32c_zeros(uint32_t crc, uint32_t nr);
uint32_t crc32(uint32_t crc, const void *data, size_t len); /* IEEE 802.3, 0x04c11db7 */
uint16_t crc16(uint16_t crc, const void *data, size_t len); /* ANSI, 0x8005 */
