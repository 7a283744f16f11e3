/* SPDX-License-Identifier: MIT */
/*
 * Called by arch code at this CPU's timer interrupt, interrupts off.
 */
#pragma once

#include <lib/types.h>

/* @user: it interrupted user mode. */
void timer_interrupt(bool user);
