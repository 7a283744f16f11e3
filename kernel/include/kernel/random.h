/* SPDX-License-Identifier: MIT */
/*
 * Random bytes: ChaCha20 over a seed from RDSEED or RDRAND, from QEMU, and from entropy devices;
 * rekeyed after every request, so earlier output stays secret.
 */
#pragma once

#include <lib/types.h>

/* Any context. */
void random_bytes(void *buf, size_t len);
uint64_t random_u64(void);
/* Is there a seed that nobody else knows?  Final once devices are probed. Any context. */
bool random_is_seeded(void);
/* Mix in @nr words of a device, all of whose bits nobody else knows. Any context. */
void random_add(const uint32_t *words, size_t nr);
