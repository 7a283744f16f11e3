/* SPDX-License-Identifier: MIT */
/*
 * Called by arch code at this CPU's timer interrupt, interrupts off.
 */
#pragma once

void timer_interrupt(void);
