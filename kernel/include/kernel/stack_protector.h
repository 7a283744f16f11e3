/* SPDX-License-Identifier: MIT */
/*
 * Choose the stack canary; from a function that never returns.
 */
#pragma once

#include <lib/types.h>

void stack_protector_init(void);
