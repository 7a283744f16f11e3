/* SPDX-License-Identifier: MIT */
/* Threads on which the models of host tests serve requests: see fake_threads.c. */
#pragma once

/* Run fn(arg) on a thread of its own, at once, however many others run; without one, all ends. */
void fake_thread_run(void (*fn)(void *arg), void *arg);
