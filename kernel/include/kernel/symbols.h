/* SPDX-License-Identifier: MIT */
/*
 * The kernel's own symbol table, made by scripts/gen-symbols.py after a first
 * link.
 */
#pragma once

#include <lib/types.h>

/* "name+0x12/0x80" into @buf; plain hexadecimal when no symbol covers @addr. */
void symbol_format(char *buf, size_t len, uint64_t addr);
/* Name of the function that holds @addr, or NULL. */
const char *symbol_lookup(uint64_t addr, uint64_t *start, uint64_t *size);
/* Hexadecimal build id of this image. */
const char *build_id(void);
