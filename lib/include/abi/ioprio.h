/* SPDX-License-Identifier: MIT */
/* Priorities of I/O: Linux's <linux/ioprio.h>. */
#pragma once

#include <stdint.h>

#define IOPRIO_CLASS_NONE 0
#define IOPRIO_CLASS_RT   1
#define IOPRIO_CLASS_BE   2
#define IOPRIO_CLASS_IDLE 3

#define IOPRIO_WHO_PROCESS 1
#define IOPRIO_WHO_PGRP    2
#define IOPRIO_WHO_USER    3

#define IOPRIO_CLASS_OF(value)     (((uint32_t)(value) >> 13) & 0x7u)
#define IOPRIO_VALUE(class, level) ((uint16_t)((uint32_t)(class) << 13 | (uint32_t)(level)))
