/* SPDX-License-Identifier: MIT */
/* Between the tables of what is kept, and the messages about it. */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>

/* For tests: another limit; the old one. Once there is a node. */
uint64_t kept_limit(uint64_t bytes);

/* Is @node to be asked now? Then kept_ask_end() follows. */
bool kept_ask_begin(uint32_t node, uint64_t *gen) __must_check;
/* The node has @granted what it was asked in generation @gen. */
void kept_ask_end(uint32_t node, uint64_t gen, bool granted);
