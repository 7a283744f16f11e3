/* SPDX-License-Identifier: MIT */
/* Eventfds, for those that signal them. */
#pragma once

#include <lib/types.h>

struct file;

bool is_eventfd(const struct file *f);
/* Add 1; a counter that is full stays so. */
void eventfd_signal(struct file *f);
