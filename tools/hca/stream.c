/* SPDX-License-Identifier: MIT */
/*
 * HCA model: scatter and gather lists as one run of bytes, and the copy of a
 * message from one guest's memory to another's.
 *
 * Ordering:	the last byte of a message is stored after all the others, so
 *		that a guest which polls it sees the whole message.  memcpy()
 *		alone promises no order.
 */
#include "hca.h"

void stream_init(struct stream *s, struct hca *h, uint32_t pd, uint32_t need, const struct sge *sge,
		 unsigned nr)
{
	memset(s, 0, sizeof(*s));
	s->h = h;
	s->pd = pd;
	s->need = need;
	s->sge = sge;
	s->nr = nr;
}

/* Check keys, rights and bounds of the first @len bytes before any is moved. */
enum mr_fault stream_check(struct hca *h, uint32_t pd, uint32_t need, const struct sge *sge,
			   unsigned nr, uint64_t len)
{
	for (unsigned i = 0; i < nr && len; i++) {
		const uint64_t n = MIN(len, sge[i].len);
		struct mr mr;
		enum mr_fault fault;

		len -= n;
		if (sge[i].inl || n == 0)
			continue;
		fault = mr_get(h, sge[i].lkey, pd, need, sge[i].addr, n, &mr);
		if (fault)
			return fault;
	}
	return MR_OK;
}

void stream_skip(struct stream *s, uint64_t n)
{
	while (n && s->cur < s->nr) {
		const uint64_t left = s->sge[s->cur].len - s->off;

		if (n < left) {
			s->off += n;
			return;
		}
		n -= left;
		s->cur++;
		s->off = 0;
		s->mr_valid = false;
	}
}

/*
 * Where the next bytes are; *len shrinks to what is contiguous.  NULL: the list
 * ended, or the memory cannot be reached.  Advance with stream_skip().
 */
static uint8_t *stream_next(struct stream *s, uint64_t *len)
{
	const struct sge *g;

	while (s->cur < s->nr && s->sge[s->cur].len == s->off) {
		s->cur++;
		s->off = 0;
		s->mr_valid = false;
	}
	if (s->cur == s->nr)
		return NULL;
	g = &s->sge[s->cur];
	*len = MIN(*len, g->len - s->off);
	if (g->inl)
		return (uint8_t *)(uintptr_t)(g->inl + s->off);
	if (!s->mr_valid || s->off + *len > s->checked) {
		if (mr_get(s->h, g->lkey, s->pd, s->need, g->addr + s->off, *len, &s->mr))
			return NULL;
		s->mr_valid = true;
		s->checked = s->off + *len;
	}
	return mr_span(s->h, &s->mr, g->addr + s->off, len);
}

static void copy_ordered(uint8_t *dst, const uint8_t *src, uint64_t len, bool last)
{
	uint8_t final;

	if (!last) {
		memmove(dst, src, len);
		return;
	}
	final = src[len - 1]; /* the two may overlap */
	memmove(dst, src, len - 1);
	__atomic_store_n(dst + len - 1, final, __ATOMIC_RELEASE);
}

bool stream_put(struct stream *s, const uint8_t *buf, uint64_t len)
{
	while (len) {
		uint64_t n = len;
		uint8_t *p = stream_next(s, &n);

		if (!p)
			return false;
		copy_ordered(p, buf, n, n == len);
		stream_skip(s, n);
		buf += n;
		len -= n;
	}
	return true;
}

bool stream_get(struct stream *s, uint8_t *buf, uint64_t len)
{
	while (len) {
		uint64_t n = len;
		const uint8_t *p = stream_next(s, &n);

		if (!p)
			return false;
		memcpy(buf, p, n);
		stream_skip(s, n);
		buf += n;
		len -= n;
	}
	return true;
}

/* Move @len bytes; says which side could not be reached. */
enum copy_fault stream_copy(struct stream *dst, struct stream *src, uint64_t len)
{
	while (len) {
		uint64_t n = len, m;
		const uint8_t *from = stream_next(src, &n);
		uint8_t *to;

		if (!from)
			return COPY_SRC;
		m = n;
		to = stream_next(dst, &m);
		if (!to)
			return COPY_DST;
		copy_ordered(to, from, m, m == len);
		stream_skip(src, m);
		stream_skip(dst, m);
		len -= m;
	}
	return COPY_OK;
}
