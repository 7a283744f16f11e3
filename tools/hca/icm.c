/* SPDX-License-Identifier: MIT */
/*
 * HCA model: ICM (the device's own address space in borrowed guest pages) and
 * MTT entries, which live in it.
 *
 * Flow:	MAP_ICM fills a two-level table of guest page addresses; an MTT
 *		entry is read from guest memory at each use.
 * Limits:	LOG_ICM_MAX; no more pages can be mapped than the guest has RAM,
 *		which bounds what a hostile guest makes the model allocate.
 */
#include "hca.h"

#include <stdlib.h>

#define L2_SIZE (1u << ICM_L2_BITS)

static uint64_t *icm_slot(struct hca *h, uint64_t page, bool create)
{
	uint64_t **l2;

	if (page >= (uint64_t)ICM_L1_SIZE * L2_SIZE)
		return NULL;
	if (!h->icm.l1) {
		if (!create)
			return NULL;
		h->icm.l1 = calloc(ICM_L1_SIZE, sizeof(*h->icm.l1));
		if (!h->icm.l1)
			return NULL;
	}
	l2 = &h->icm.l1[page >> ICM_L2_BITS];
	if (!*l2) {
		if (!create)
			return NULL;
		*l2 = calloc(L2_SIZE, sizeof(**l2));
		if (!*l2)
			return NULL;
	}
	return &(*l2)[page & (L2_SIZE - 1)];
}

bool icm_map(struct hca *h, uint64_t addr, uint64_t gpa, uint64_t nr_pages)
{
	const uint64_t first = addr >> 12;

	if (nr_pages > mem_total(&h->mem) >> 12 ||
	    h->icm.nr_pages + nr_pages > mem_total(&h->mem) >> 12)
		return false;
	for (uint64_t i = 0; i < nr_pages; i++) {
		uint64_t *slot = icm_slot(h, first + i, true);

		if (!slot)
			return false;
		if (!*slot)
			h->icm.nr_pages++;
		*slot = (gpa + (i << 12)) | 1;
	}
	return true;
}

void icm_unmap(struct hca *h, uint64_t addr, uint64_t nr_pages)
{
	const uint64_t first = addr >> 12;

	for (uint64_t i = 0; i < nr_pages; i++) {
		uint64_t *slot = icm_slot(h, first + i, false);

		if (!slot || !*slot)
			continue;
		*slot = 0;
		h->icm.nr_pages--;
	}
}

void icm_free(struct hca *h)
{
	if (h->icm.l1) {
		for (size_t i = 0; i < ICM_L1_SIZE; i++)
			free(h->icm.l1[i]);
	}
	free(h->icm.l1);
	h->icm.l1 = NULL;
	h->icm.nr_pages = 0;
}

/* Host address of @len bytes of ICM that do not cross a page; NULL = not mapped. */
void *icm_ptr(struct hca *h, uint64_t addr, uint64_t len)
{
	const uint64_t *slot = icm_slot(h, addr >> 12, false);

	if (!slot || !*slot || (addr & 4095) + len > 4096)
		return NULL;
	return mem_ptr(h, (*slot & ~1ull) + (addr & 4095), len);
}

bool icm_present(struct hca *h, uint64_t addr, uint64_t len)
{
	const uint64_t last = (addr + len - 1) >> 12;

	for (uint64_t page = addr >> 12; page <= last; page++) {
		const uint64_t *slot = icm_slot(h, page, false);

		if (!slot || !*slot)
			return false;
	}
	return true;
}

void mtt_buf_parse(struct mtt_buf *b, const struct hw_buf *raw)
{
	b->page_shift = (raw->page_shift & 31) + 12;
	b->mtt = (uint64_t)raw->mtt_hi << 32 | (be32_to_cpu(raw->mtt_lo) & ~7u);
}

/* Guest address of page @page of a buffer. */
bool mtt_page(struct hca *h, const struct mtt_buf *b, uint64_t page, uint64_t *gpa)
{
	const be64_t *p;
	uint64_t entry;

	if (page > BIT64(40))
		return false;
	p = icm_ptr(h, h->base_mtt + b->mtt + page * sizeof(*p), sizeof(*p));
	if (!p)
		return false;
	entry = be64_to_cpu(*p);
	if (!(entry & 1))
		return false;
	*gpa = entry & ~7ull;
	return true;
}

/* Host address of @len bytes at @off of a buffer; they must not cross a page. */
void *mtt_ptr(struct hca *h, const struct mtt_buf *b, uint64_t off, uint64_t len)
{
	const uint64_t mask = BIT64(b->page_shift) - 1;
	uint64_t gpa;

	if ((off & mask) + len > mask + 1 || !mtt_page(h, b, off >> b->page_shift, &gpa))
		return NULL;
	return mem_ptr(h, (gpa & ~mask) + (off & mask), len);
}

#define MTT_PER_MAILBOX ARRAY_SIZE(((struct hw_mtt_list *)NULL)->entry)

/* c->im says how many entries. */
enum hca_status cmd_write_mtt(struct hca *h, struct cmd *c)
{
	const struct hw_mtt_list *list = c->in;
	const uint64_t first = be64_to_cpu(list->first) & ~7ull;

	if (c->im == 0 || c->im > MTT_PER_MAILBOX || first >= BIT64(LOG_ICM_MAX))
		return ST_BAD_PARAM;
	if (!icm_present(h, h->base_mtt + first, c->im * 8ull))
		return ST_ICM_ERROR;
	for (uint32_t i = 0; i < c->im; i++) {
		be64_t *p = icm_ptr(h, h->base_mtt + first + i * 8ull, sizeof(*p));

		if (!p)
			return ST_ICM_ERROR;
		*p = list->entry[i];
	}
	return ST_OK;
}

enum hca_status cmd_read_mtt(struct hca *h, struct cmd *c)
{
	const uint64_t first = c->in_param & ~7ull;
	struct hw_mtt_list *list = c->out;

	if (c->im == 0 || c->im > MTT_PER_MAILBOX || first >= BIT64(LOG_ICM_MAX))
		return ST_BAD_PARAM;
	for (uint32_t i = 0; i < c->im; i++) {
		const be64_t *p = icm_ptr(h, h->base_mtt + first + i * 8ull, sizeof(*p));

		if (!p)
			return ST_ICM_ERROR;
		list->entry[i] = *p;
	}
	return ST_OK;
}
