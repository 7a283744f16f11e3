/* SPDX-License-Identifier: MIT */
/* Questions about nodes that belong to no space and no path. */
#pragma once

#include <lib/compiler.h>

#include "file_attr.h"

/* Memory node that holds the page cache of @file, the same on every node. 0: there is none. */
uint32_t file_cache_node(const struct file_id *file);
