/* SPDX-License-Identifier: MIT */
/*
 * The mappings of a home, page by page, for tests of calls that change the layout: a part of
 * fake_owner.c's model of memory nodes. All mappings of files are of the same one.
 */
#pragma once

#include <proto/pm.h>

#define FAKE_MAP_START 0x2000000ull
#define FAKE_MAP_END   0x17000000ull

/* Homes keep maps from here on, and owners store mapped pages only; false: neither. */
void fake_map_on(bool on);
/* Leases are given, or only what is asked for. */
void fake_map_leases(bool give);
bool fake_map_is_on(void);
/* Is @vaddr mapped in @aspace? */
bool fake_map_has(uint64_t aspace, uint64_t vaddr);
/* The mapped page at @vaddr; false: there is none. */
bool fake_map_fill(uint64_t aspace, uint64_t vaddr, struct pm_vma *v);
/*
 * A call that changes the layout: 0 and *rep, or its errno. [*drop, +*len): pages that go.
 */
int fake_map_mmap(const struct pm_mmap_req *req, struct pm_range_rep *rep);
int fake_map_munmap(uint64_t aspace, uint64_t addr, uint64_t len);
int fake_map_mprotect(const struct pm_range_req *req, struct pm_range_rep *rep);
int fake_map_mremap(struct pm_mremap_req *req, struct pm_range_rep *rep);
int fake_map_lease(const struct pm_lease_req *req, struct pm_range_rep *rep);
void fake_map_fork(const struct pm_fork_req *req);
/* Pages of @aspace that are leased, or mapped otherwise. */
uint64_t fake_map_count(uint64_t aspace, bool leased);
/* Each call of the kinds above. */
extern unsigned int fake_map_calls, fake_map_batches;
