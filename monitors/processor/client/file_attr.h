/* SPDX-License-Identifier: MIT */
/*
 * Files, attributes and credentials as the processor knows them: neither a protocol's nor a
 * program's.
 */
#pragma once

/* Supplementary groups of one task; requests carry them all. */
#define CRED_GROUPS_MAX 32
