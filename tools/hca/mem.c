/* SPDX-License-Identifier: MIT */
/*
 * HCA model: a guest's physical memory as seen by its device.
 *
 * Every access names a guest-physical range and is translated at that moment:
 * the regions change while firmware moves RAM about, so no host pointer may be
 * kept across messages of the front end.  As on any bus, a device that is not a
 * bus master reaches nothing.
 */
#include "hca.h"

/* The host address of @gpa and, in *len, how many of the *len bytes are contiguous there. */
void *mem_span(struct hca *h, uint64_t gpa, uint64_t *len)
{
	struct guest_mem *m = &h->mem;

	if (!pci_is_master(h))
		return NULL;
	for (unsigned i = 0; i < m->nr; i++) {
		unsigned k = (m->last + i) % m->nr;
		struct mem_region *r = &m->r[k];

		if (gpa < r->gpa || gpa - r->gpa >= r->len)
			continue;
		m->last = k;
		*len = MIN(*len, r->len - (gpa - r->gpa));
		return r->host + (gpa - r->gpa);
	}
	return NULL;
}

/* Likewise, but NULL unless all of [gpa, gpa + len) is contiguous in one region. */
void *mem_ptr(struct hca *h, uint64_t gpa, uint64_t len)
{
	uint64_t got = len;
	void *p = mem_span(h, gpa, &got);

	return p && got == len ? p : NULL;
}

bool mem_read(struct hca *h, uint64_t gpa, void *buf, size_t len)
{
	const void *p = mem_ptr(h, gpa, len);

	if (!p)
		return false;
	memcpy(buf, p, len);
	return true;
}

bool mem_write(struct hca *h, uint64_t gpa, const void *buf, size_t len)
{
	void *p = mem_ptr(h, gpa, len);

	if (!p)
		return false;
	memcpy(p, buf, len);
	return true;
}

uint64_t mem_total(const struct guest_mem *m)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < m->nr; i++)
		sum += m->r[i].len;
	return sum;
}
