/* SPDX-License-Identifier: MIT */
/*
 * Undefined-behaviour reports so far (UBSan builds).
 */
#pragma once

unsigned int ubsan_report_count(void);
