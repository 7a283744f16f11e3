/* SPDX-License-Identifier: MIT */
/* The one instance of a memory node. */
#pragma once

struct memory;

/* NULL until it is up. */
struct memory *memory_self(void);
