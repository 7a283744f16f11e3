/* SPDX-License-Identifier: MIT */
/*
 * A home's maps, a byte a page, and which page of the one file it shows: see fake_map.h. Called
 * with the model's lock held.
 */
#include "fake_map.h"

#include <stdlib.h>
#include <string.h>

#include <lib/errno.h>

#define PAGES  ((FAKE_MAP_END - FAKE_MAP_START) / PAGE_SIZE)
#define SPACES 16

enum {
	MAPPED = 0x10,
	LEASED = 0x20,
	SHARED = 0x40,
};

static struct map {
	uint64_t aspace, number, done;
	uint8_t page[PAGES];
	uint32_t shows[PAGES]; /* the page of the_file, and 1; 0: no file */
} maps[SPACES];
static struct proto_file the_file;
static size_t nr_maps;
static bool is_on, gives;
unsigned int fake_map_calls, fake_map_batches;

void fake_map_on(bool on)
{
	memset(maps, 0, sizeof(maps));
	nr_maps = 0;
	is_on = on;
	gives = true;
	fake_map_calls = 0;
	fake_map_batches = 0;
}

void fake_map_leases(bool give)
{
	gives = give;
}

bool fake_map_is_on(void)
{
	return is_on;
}

static struct map *map_of(uint64_t aspace)
{
	for (size_t i = 0; i < nr_maps; i++)
		if (maps[i].aspace == aspace)
			return &maps[i];
	if (nr_maps == SPACES)
		abort();
	maps[nr_maps].aspace = aspace;
	return &maps[nr_maps++];
}

static bool inside(uint64_t addr, uint64_t len)
{
	return addr >= FAKE_MAP_START && addr < FAKE_MAP_END && len <= FAKE_MAP_END - addr;
}

static uint8_t *at(uint64_t aspace, uint64_t addr)
{
	return &map_of(aspace)->page[(addr - FAKE_MAP_START) / PAGE_SIZE];
}

static bool is_free(uint64_t aspace, uint64_t addr, uint64_t len)
{
	const uint8_t *p = at(aspace, addr);

	for (uint64_t i = 0; i < len / PAGE_SIZE; i++)
		if (p[i])
			return false;
	return true;
}

static uint32_t *shows(uint64_t aspace, uint64_t addr)
{
	return &map_of(aspace)->shows[(addr - FAKE_MAP_START) / PAGE_SIZE];
}

static void set(uint64_t aspace, uint64_t addr, uint64_t len, uint32_t what)
{
	memset(at(aspace, addr), (int)what, len / PAGE_SIZE);
	memset(shows(aspace, addr), 0, len / PAGE_SIZE * sizeof(uint32_t));
}

static void set_file(uint64_t aspace, uint64_t addr, uint64_t len, uint64_t pgoff)
{
	for (uint64_t i = 0; i < len / PAGE_SIZE; i++)
		shows(aspace, addr)[i] = (uint32_t)(pgoff + i + 1);
}

static uint32_t vma_flags(uint8_t what)
{
	return (what & LEASED ? PM_VMA_LEASE : 0) | (what & SHARED ? PM_VMA_SHARED : 0);
}

/* The reply names the file that the mapping at v->start shows. */
static void tell_file(uint64_t aspace, struct pm_vma *v)
{
	const uint32_t page = *shows(aspace, v->start);

	if (!page)
		return;
	v->flags |= PM_VMA_FILE;
	v->file = the_file;
	v->pgoff = page - 1;
	v->file_bytes = UINT64_MAX;
	v->cache_node = the_file.node;
}

bool fake_map_has(uint64_t aspace, uint64_t vaddr)
{
	return inside(vaddr, PAGE_SIZE) && *at(aspace, vaddr);
}

bool fake_map_fill(uint64_t aspace, uint64_t vaddr, struct pm_vma *v)
{
	uint8_t what;

	vaddr &= ~(uint64_t)(PAGE_SIZE - 1);
	if (!inside(vaddr, PAGE_SIZE))
		return false;
	what = *at(aspace, vaddr);
	*v = (struct pm_vma){ vaddr, vaddr + PAGE_SIZE, .prot = what & PM_PROT_ALL,
			      .flags = vma_flags(what) };
	tell_file(aspace, v);
	return what;
}

/* The highest free place. */
static uint64_t place(uint64_t aspace, uint64_t hint, uint64_t len)
{
	const uint8_t *p = at(aspace, FAKE_MAP_START);
	uint64_t run = 0;

	if (hint && inside(hint, len) && is_free(aspace, hint, len))
		return hint;
	for (uint64_t i = PAGES; i-- > 0;) {
		run = p[i] ? 0 : run + 1;
		if (run == len / PAGE_SIZE)
			return FAKE_MAP_START + i * PAGE_SIZE;
	}
	return 0;
}

int fake_map_mmap(const struct pm_mmap_req *req, struct pm_range_rep *rep)
{
	const bool fixed = req->flags & (PM_MAP_FIXED | PM_MAP_FIXED_NOREPLACE);
	const uint64_t more = (uint64_t)req->lease_pages * PAGE_SIZE;
	const bool lease =
		more && gives &&
		(!fixed || (inside(req->addr, more) && is_free(req->aspace, req->addr, more)));
	const uint64_t len = lease ? more : req->len;
	const uint32_t what = MAPPED | (lease ? LEASED | 3 : req->prot) |
			      (req->flags & PM_MAP_SHARED ? SHARED : 0);
	uint64_t addr = req->addr;

	fake_map_calls++;
	if (fixed && !inside(addr, len))
		return -ENOMEM;
	if ((req->flags & PM_MAP_FIXED_NOREPLACE) && !is_free(req->aspace, addr, len))
		return -EEXIST;
	if (!fixed)
		addr = place(req->aspace, addr, len);
	if (!addr)
		return -ENOMEM;
	set(req->aspace, addr, len, what);
	rep->addr = addr;
	rep->nr_vmas = 1;
	rep->vmas[0] = (struct pm_vma){ addr, addr + len, .prot = lease ? 3 : req->prot,
					.flags = vma_flags((uint8_t)what) };
	if (req->file.node && !lease) {
		the_file = req->file;
		set_file(req->aspace, addr, len, req->pgoff);
		tell_file(req->aspace, &rep->vmas[0]);
	}
	return 0;
}

int fake_map_munmap(uint64_t aspace, uint64_t addr, uint64_t len)
{
	fake_map_calls++;
	if (inside(addr, len))
		set(aspace, addr, len, 0);
	return 0;
}

/* A lease of what is mapped, if all of it is. */
static bool lease_over(const struct pm_range_req *req, struct pm_range_rep *rep)
{
	const uint64_t len = (uint64_t)req->lease_pages * PAGE_SIZE;
	const uint8_t *p = at(req->aspace, req->addr);

	if (!len || !gives || !inside(req->addr, len))
		return false;
	for (uint64_t i = 0; i < len / PAGE_SIZE; i++)
		if (!(p[i] & MAPPED))
			return false;
	set(req->aspace, req->addr, len, MAPPED | LEASED | 3);
	rep->nr_vmas = 1;
	rep->vmas[0] =
		(struct pm_vma){ req->addr, req->addr + len, .prot = 3, .flags = PM_VMA_LEASE };
	return true;
}

int fake_map_mprotect(const struct pm_range_req *req, struct pm_range_rep *rep)
{
	uint8_t *p = at(req->aspace, req->addr);

	fake_map_calls++;
	if (!inside(req->addr, req->len))
		return -ENOMEM;
	if (lease_over(req, rep))
		return 0;
	for (uint64_t i = 0; i < req->len / PAGE_SIZE; i++) {
		if (!p[i])
			return -ENOMEM;
		p[i] = (uint8_t)(MAPPED | (p[i] & SHARED) | req->prot);
	}
	return 0;
}

int fake_map_mremap(struct pm_mremap_req *req, struct pm_range_rep *rep)
{
	const uint8_t *p = at(req->aspace, req->old_addr);
	const uint64_t old_end = req->old_addr + req->old_len;
	const uint32_t page = *shows(req->aspace, req->old_addr);
	const uint8_t what = *p;

	fake_map_calls++;
	for (uint64_t i = 0; i < req->old_len / PAGE_SIZE; i++)
		if (!p[i] || p[i] != what)
			return -EFAULT;
	if (what & LEASED)
		abort(); /* it is to be converted first */
	if (!(req->flags & PM_MREMAP_FIXED)) {
		req->new_addr = req->old_addr;
		if (req->new_len > req->old_len &&
		    (!inside(old_end, req->new_len - req->old_len) ||
		     !is_free(req->aspace, old_end, req->new_len - req->old_len)))
			req->new_addr = req->flags & PM_MREMAP_MAYMOVE
						? place(req->aspace, 0, req->new_len)
						: 0;
	}
	if (!req->new_addr || !inside(req->new_addr, req->new_len))
		return -ENOMEM;
	set(req->aspace, req->old_addr, req->old_len, 0);
	set(req->aspace, req->new_addr, req->new_len, what);
	if (page)
		set_file(req->aspace, req->new_addr, req->new_len, page - 1);
	rep->addr = req->new_addr;
	rep->nr_vmas = 1;
	rep->vmas[0] = (struct pm_vma){ req->new_addr, req->new_addr + req->new_len,
					.prot = what & PM_PROT_ALL, .flags = vma_flags(what) };
	tell_file(req->aspace, &rep->vmas[0]);
	return 0;
}

static bool may_become(uint64_t aspace, const struct pm_lease_range *r)
{
	const uint8_t *p = at(aspace, r->addr);

	for (uint64_t i = 0; i < r->len / PAGE_SIZE; i++)
		if (r->flags & PM_LEASE_MAPPED ? !p[i] : p[i] && !(p[i] & LEASED))
			return false;
	return true;
}

int fake_map_lease(const struct pm_lease_req *req, struct pm_range_rep *rep)
{
	struct map *m = map_of(req->aspace);

	fake_map_calls++;
	fake_map_batches++;
	if (req->number < m->number)
		return -ESTALE;
	rep->addr = m->done;
	if (req->number == m->number)
		return 0;
	for (uint32_t i = 0; i < req->nr_ranges; i++)
		if (!inside(req->ranges[i].addr, req->ranges[i].len) ||
		    !may_become(req->aspace, &req->ranges[i]))
			abort(); /* the processor is wrong about its leases */
	for (uint32_t i = 0; i < req->nr_ranges; i++) {
		const struct pm_lease_range *r = &req->ranges[i];

		set(req->aspace, r->addr, r->len,
		    r->flags & PM_LEASE_MAPPED ? MAPPED | r->prot : 0);
		rep->addr = r->addr + r->len;
	}
	m->number = req->number;
	m->done = rep->addr;
	return 0;
}

void fake_map_fork(const struct pm_fork_req *req)
{
	struct map *from = map_of(req->aspace), *to[2];

	to[0] = map_of(req->parent);
	to[1] = map_of(req->child);
	for (int i = 0; i < 2; i++) {
		memcpy(to[i]->page, from->page, sizeof(from->page));
		memcpy(to[i]->shows, from->shows, sizeof(from->shows));
		to[i]->number = from->number;
		to[i]->done = from->done;
	}
	/* Frozen: all of it takes pages. */
	memset(from->page, MAPPED | 3, sizeof(from->page));
}

uint64_t fake_map_count(uint64_t aspace, bool leased)
{
	const uint8_t *p = at(aspace, FAKE_MAP_START);
	uint64_t nr = 0;

	for (uint64_t i = 0; i < PAGES; i++)
		nr += p[i] && !(p[i] & LEASED) == !leased;
	return nr;
}
