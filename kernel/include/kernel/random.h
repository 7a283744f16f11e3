/* SPDX-License-Identifier: MIT */
/*
 * Random bytes: ChaCha20 over a seed from RDSEED or RDRAND, and from QEMU; rekeyed after every
 * request, so earlier output stays secret.
 */
#pragma once

#include <lib/types.h>

/* Any context. */
void random_bytes(void *buf, size_t len);
uint64_t random_u64(void);
/* Is there a seed that nobody else knows?  Final after the early initcalls. Any context. */
bool random_is_seeded(void);
