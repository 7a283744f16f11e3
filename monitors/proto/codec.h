/* SPDX-License-Identifier: MIT */
/*
 * Codecs made from one description of each message: a macro that lists the fields of its wire
 * structure.
 *
 *	#define PM_BRK_REQ(F) F(id64, aspace), F(u64, brk), F(u32, want_credits), F(zero32,
 *	reserved) CODEC_FIXED(pm_brk_req, PM_BRK_REQ, codec_any)
 *
 * make pm_brk_req_encode() and pm_brk_req_decode(), as the public header declares them.
 *
 * F(kind, name) stands for a field; the structure in host order has a field of the same name.
 * PUT_kind() and GET_kind() below say what a kind is; a decoder refuses a value that GET_kind()
 * finds wrong. A file adds a kind for each structure that its messages contain. A function that
 * sees the whole message in host order checks the rest; codec_any takes every value.
 *
 * Invariants:	the fields of a description fill the wire structure (asserted at build time), so
 *		that no field, reserved space included, is forgotten.
 * Failure:	decoders answer -EMSGSIZE for a wrong length and -EPROTO for a wrong value, in that
 *		order but for the length of a list, which they check after the header.
 */
#pragma once

#include <lib/byteorder.h>
#include <lib/compiler.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <lib/types.h>
#include <proto/types.h>

/* --- kinds of fields: store @v in @w; load @v from @w and answer whether it is wrong ------- */

#define PUT_u8(w, v)  ((w) = (v))
#define PUT_u16(w, v) ((w) = cpu_to_le16(v))
#define PUT_u32(w, v) ((w) = cpu_to_le32(v))
#define PUT_u64(w, v) ((w) = cpu_to_le64(v))
#define GET_u8(v, w)  ((v) = (w), false)
#define GET_u16(v, w) ((v) = le16_to_cpu(w), false)
#define GET_u32(v, w) ((v) = le32_to_cpu(w), false)
#define GET_u64(v, w) ((v) = le64_to_cpu(w), false)

/* Two's complement. */
#define PUT_s64(w, v) ((w) = cpu_to_le64((uint64_t)(v)))
#define GET_s64(v, w) ((v) = (int64_t)le64_to_cpu(w), false)

/* An id, which is not 0. */
#define PUT_id64(w, v) PUT_u64(w, v)
#define GET_id64(v, w) (((v) = le64_to_cpu(w)) == 0)
#define PUT_id32(w, v) PUT_u32(w, v)
#define GET_id32(v, w) (((v) = le32_to_cpu(w)) == 0)

/* A node id, or 0. */
#define PUT_node(w, v) PUT_u32(w, v)
#define GET_node(v, w) (((v) = le32_to_cpu(w)) > PROTO_NODE_MAX)

/* Reserved: 0.  The structure in host order has no such field. */
#define PUT_zero16(w, v) ((w) = cpu_to_le16(0))
#define PUT_zero32(w, v) ((w) = cpu_to_le32(0))
#define GET_zero16(v, w) (le16_to_cpu(w) != 0)
#define GET_zero32(v, w) (le32_to_cpu(w) != 0)

/* A bool: 0 or 1. */
#define PUT_flag16(w, v) ((w) = cpu_to_le16(v))
#define GET_flag16(v, w) ((v) = le16_to_cpu(w) != 0, le16_to_cpu(w) > 1)
#define PUT_flag8(w, v)  ((w) = (v))
#define GET_flag8(v, w)  ((v) = (w) != 0, (w) > 1)

/* 0 or a negative errno, in two's complement. */
#define PUT_status(w, v) ((w) = cpu_to_le32((uint32_t)(v)))
#define GET_status(v, w) (((v) = (int)le32_to_cpu(w)) > 0 || (v) < -(int)PROTO_ERRNO_MAX)

#define PUT_file(w, v) proto_file_encode(&(v), &(w))
#define GET_file(v, w) (proto_file_decode(&(w), &(v)) != 0)

/* Bytes as they are. */
#define PUT_bytes(w, v) memcpy(w, v, sizeof(w))
#define GET_bytes(v, w) (memcpy(v, w, sizeof(w)), false)

/* The message's own code stores and loads it. */
#define PUT_own(w, v) ((void)0)
#define GET_own(v, w) false

/* --- makers --------------------------------------------------------------------------------- */

#define CODEC_PUT(kind, name) PUT_##kind(w->name, m->name)
#define CODEC_GET(kind, name) bad = bad || GET_##kind(m->name, w->name)
/* Where a field begins and where its last byte is, when one follows the other. */
#define CODEC_AT(kind, name)  at_##name, last_##name = at_##name + (int)sizeof(w->name) - 1

#define codec_any(m)         true
#define codec_any_item(m, i) true

/* x_put() and x_get(), which answers false for a value that is wrong. */
#define CODEC_FIELDS(msg, FIELDS, is_valid)                                     \
	static inline void msg##_put(const struct msg *m, struct msg##_wire *w) \
	{                                                                       \
		enum {                                                          \
			FIELDS(CODEC_AT),                                       \
			size                                                    \
		};                                                              \
		static_assert(size == sizeof(*w), #msg ": a field is missing"); \
                                                                                \
		FIELDS(CODEC_PUT);                                              \
	}                                                                       \
	static inline bool msg##_get(const struct msg##_wire *w, struct msg *m) \
	{                                                                       \
		bool bad = false;                                               \
                                                                                \
		FIELDS(CODEC_GET);                                              \
		return !bad && is_valid(m);                                     \
	}

/* A structure that messages contain, made of its fields: x_encode(m, w), x_decode(w, out). */
#define CODEC_PART(linkage, msg)                                              \
	linkage void msg##_encode(const struct msg *m, struct msg##_wire *w)  \
	{                                                                     \
		msg##_put(m, w);                                              \
	}                                                                     \
	linkage int msg##_decode(const struct msg##_wire *w, struct msg *out) \
	{                                                                     \
		struct msg m;                                                 \
                                                                              \
		if (!msg##_get(w, &m))                                        \
			return -EPROTO;                                       \
		*out = m;                                                     \
		return 0;                                                     \
	}

/* A message of fixed size: x_encode(m, w), x_decode(buf, len, out). */
#define CODEC_FIXED(msg, FIELDS, is_valid)                             \
	CODEC_FIELDS(msg, FIELDS, is_valid)                            \
	void msg##_encode(const struct msg *m, struct msg##_wire *w)   \
	{                                                              \
		msg##_put(m, w);                                       \
	}                                                              \
	int msg##_decode(const void *buf, size_t len, struct msg *out) \
	{                                                              \
		struct msg##_wire w;                                   \
		struct msg m;                                          \
                                                                       \
		if (len != sizeof(w))                                  \
			return -EMSGSIZE;                              \
		memcpy(&w, buf, sizeof(w));                            \
		if (!msg##_get(&w, &m))                                \
			return -EPROTO;                                \
		*out = m;                                              \
		return 0;                                              \
	}

/*
 * Lists of a part: x_list_put() and x_list_get() answer the position behind the list, and NULL for
 * an element that is wrong. The caller has checked that the buffer has room for them all, or holds
 * them all.
 */
#define CODEC_ELEMENTS(linkage, elem)                                                            \
	linkage uint8_t *elem##_list_put(const struct elem *list, size_t nr, uint8_t *pos)       \
	{                                                                                        \
		for (size_t i = 0; i < nr; i++, pos += sizeof(struct elem##_wire)) {             \
			struct elem##_wire w;                                                    \
                                                                                                 \
			elem##_encode(&list[i], &w);                                             \
			memcpy(pos, &w, sizeof(w));                                              \
		}                                                                                \
		return pos;                                                                      \
	}                                                                                        \
	linkage const uint8_t *elem##_list_get(const uint8_t *pos, size_t nr, struct elem *list) \
	{                                                                                        \
		for (size_t i = 0; i < nr; i++, pos += sizeof(struct elem##_wire)) {             \
			struct elem##_wire w;                                                    \
                                                                                                 \
			memcpy(&w, pos, sizeof(w));                                              \
			if (elem##_decode(&w, &list[i]))                                         \
				return NULL;                                                     \
		}                                                                                \
		return pos;                                                                      \
	}

/*
 * A header, then nr_@list elements, at most @max: x_encode(m, buf, cap), x_decode(buf, len, out).
 * The result may be large, so it is decoded in place: after a failure it holds nothing of use.
 * @item_is_valid(m, i) compares an element with the header or with the one before it.
 */
#define CODEC_LIST(msg, FIELDS, is_valid, elem, list, max, item_is_valid)                          \
	CODEC_FIELDS(msg, FIELDS, is_valid)                                                        \
	ssize_t msg##_encode(const struct msg *m, void *buf, size_t cap)                           \
	{                                                                                          \
		struct msg##_wire w;                                                               \
		uint8_t *pos = buf;                                                                \
                                                                                                   \
		if (m->nr_##list > (max) ||                                                        \
		    cap < sizeof(w) + m->nr_##list * sizeof(struct elem##_wire))                   \
			return -EMSGSIZE;                                                          \
		msg##_put(m, &w);                                                                  \
		memcpy(pos, &w, sizeof(w));                                                        \
		return elem##_list_put(m->list, m->nr_##list, pos + sizeof(w)) - (uint8_t *)buf;   \
	}                                                                                          \
	int msg##_decode(const void *buf, size_t len, struct msg *out)                             \
	{                                                                                          \
		struct msg##_wire w;                                                               \
                                                                                                   \
		if (len < sizeof(w))                                                               \
			return -EMSGSIZE;                                                          \
		memcpy(&w, buf, sizeof(w));                                                        \
		if (!msg##_get(&w, out) || out->nr_##list > (max))                                 \
			return -EPROTO;                                                            \
		if (len != sizeof(w) + out->nr_##list * sizeof(struct elem##_wire))                \
			return -EMSGSIZE;                                                          \
		if (!elem##_list_get((const uint8_t *)buf + sizeof(w), out->nr_##list, out->list)) \
			return -EPROTO;                                                            \
		for (uint32_t i = 0; i < out->nr_##list; i++)                                      \
			if (!item_is_valid(out, i))                                                \
				return -EPROTO;                                                    \
		return 0;                                                                          \
	}

/*
 * A message that is one part and nothing else: x_decode(buf, len, out); the part's encoder makes
 * it.
 */
#define CODEC_ALONE(msg, part)                                          \
	int msg##_decode(const void *buf, size_t len, struct part *out) \
	{                                                               \
		struct part##_wire w;                                   \
                                                                        \
		if (len != sizeof(w))                                   \
			return -EMSGSIZE;                               \
		memcpy(&w, buf, sizeof(w));                             \
		return part##_decode(&w, out);                          \
	}
