/* SPDX-License-Identifier: MIT */
/*
 * Random bytes: ChaCha20 over a seed from RDSEED/RDRAND, the TSC and timing
 * of interrupts; rekeyed after every request, so earlier output stays secret.
 */
#pragma once

#include <lib/types.h>

/* Any context. */
void random_bytes(void *buf, size_t len);
uint64_t random_u64(void);
