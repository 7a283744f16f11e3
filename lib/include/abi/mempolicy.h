/* SPDX-License-Identifier: MIT */
/* Memory policies: Linux's <linux/mempolicy.h>. */
#pragma once

/* Modes. */
#define MPOL_DEFAULT             0
#define MPOL_PREFERRED           1
#define MPOL_BIND                2
#define MPOL_INTERLEAVE          3
#define MPOL_LOCAL               4
#define MPOL_PREFERRED_MANY      5
#define MPOL_WEIGHTED_INTERLEAVE 6

/* With a mode. */
#define MPOL_F_NUMA_BALANCING (1 << 13)
#define MPOL_F_RELATIVE_NODES (1 << 14)
#define MPOL_F_STATIC_NODES   (1 << 15)
#define MPOL_MODE_FLAGS       (MPOL_F_NUMA_BALANCING | MPOL_F_RELATIVE_NODES | MPOL_F_STATIC_NODES)

/* get_mempolicy() */
#define MPOL_F_NODE         1u
#define MPOL_F_ADDR         2u
#define MPOL_F_MEMS_ALLOWED 4u

/* mbind(), move_pages() */
#define MPOL_MF_STRICT   1u
#define MPOL_MF_MOVE     2u
#define MPOL_MF_MOVE_ALL 4u
