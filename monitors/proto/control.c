/* SPDX-License-Identifier: MIT */
/*
 * Control channel: encode and decode.
 *
 * Invariants:	one table has, per type, who may send it, which program ids, streams, flags and
 *		payload lengths it takes; the payload decoders check the rest.
 * See:		docs/protocol/control.md
 */
#include <proto/control.h>

#include <lib/err.h>
#include <lib/errno.h>
#include <lib/string.h>

#include "codec.h"

#define PROG_NODE 0x1 /* prog == 0 */
#define PROG_RUN  0x2 /* prog > 0 */

#define STREAM_NONE 0x1 /* the field is 0 and means nothing: the same bit as stream 0 */
#define STREAM_IN   0x1
#define STREAM_OUT  0x6
#define STREAM_ANY  0x7

struct ctl_rule {
	uint8_t ends;         /* mask of enum ctl_end */
	uint8_t progs;        /* mask of PROG_* */
	uint8_t node_streams; /* mask of streams that a frame from the node may name */
	uint8_t host_streams;
	uint8_t flags; /* mask */
	uint32_t min_len;
	uint32_t max_len;
};

#define FIXED(type) .min_len = sizeof(type), .max_len = sizeof(type)
#define NO_STREAM   .node_streams = STREAM_NONE, .host_streams = STREAM_NONE

static const struct ctl_rule ctl_rules[CTL_TYPE_END] = {
	[CTL_HELLO] = { CTL_FROM_NODE, PROG_NODE, NO_STREAM, FIXED(struct ctl_hello_wire) },
	[CTL_READY] = { CTL_FROM_NODE, PROG_NODE, NO_STREAM, FIXED(struct ctl_ready_wire) },
	[CTL_STATUS] = { CTL_FROM_NODE, PROG_NODE, NO_STREAM, .min_len = 1,
			 .max_len = CTL_MAX_LINE },
	[CTL_ERROR] = { CTL_FROM_NODE, PROG_NODE | PROG_RUN, NO_STREAM, .min_len = 1,
			.max_len = CTL_MAX_LINE },
	[CTL_RUN] = { CTL_FROM_HOST, PROG_RUN, NO_STREAM, .flags = CTL_F_MORE, .min_len = 1,
		      .max_len = CTL_MAX_PAYLOAD },
	[CTL_STARTED] = { CTL_FROM_NODE, PROG_RUN, NO_STREAM, FIXED(struct ctl_started_wire) },
	[CTL_REFUSED] = { CTL_FROM_NODE, PROG_RUN, NO_STREAM,
			  .min_len = sizeof(struct ctl_errno_wire),
			  .max_len = sizeof(struct ctl_errno_wire) + CTL_MAX_LINE },
	[CTL_DATA] = { CTL_FROM_NODE | CTL_FROM_HOST, PROG_RUN, .node_streams = STREAM_OUT,
		       .host_streams = STREAM_IN, .min_len = 1, .max_len = CTL_MAX_PAYLOAD },
	[CTL_CREDIT] = { CTL_FROM_NODE | CTL_FROM_HOST, PROG_RUN, .node_streams = STREAM_IN,
			 .host_streams = STREAM_OUT, FIXED(struct ctl_credit_wire) },
	[CTL_EOF] = { CTL_FROM_NODE | CTL_FROM_HOST, PROG_RUN, .node_streams = STREAM_ANY,
		      .host_streams = STREAM_ANY, .min_len = 0, .max_len = 0 },
	[CTL_WINSIZE] = { CTL_FROM_HOST, PROG_RUN, NO_STREAM, FIXED(struct ctl_winsize_wire) },
	[CTL_SIGNAL] = { CTL_FROM_HOST, PROG_RUN, NO_STREAM, FIXED(struct ctl_signal_wire) },
	[CTL_EXIT] = { CTL_FROM_NODE, PROG_RUN, NO_STREAM, FIXED(struct ctl_exit_wire) },
	[CTL_STATS_REQ] = { CTL_FROM_HOST, PROG_NODE, NO_STREAM, .min_len = 0, .max_len = 0 },
	[CTL_STATS] = { CTL_FROM_NODE, PROG_NODE, NO_STREAM, .flags = CTL_F_MORE, .min_len = 1,
			.max_len = CTL_MAX_PAYLOAD },
	[CTL_SHUTDOWN] = { CTL_FROM_HOST, PROG_NODE, NO_STREAM, .min_len = 0, .max_len = 0 },
	[CTL_DEBUG] = { CTL_FROM_HOST, PROG_RUN, NO_STREAM, .flags = CTL_F_MORE, .min_len = 1,
			.max_len = CTL_MAX_PAYLOAD },
	[CTL_DEBUG_REPLY] = { CTL_FROM_NODE, PROG_RUN, NO_STREAM, .flags = CTL_F_MORE, .min_len = 1,
			      .max_len = CTL_MAX_PAYLOAD },
	[CTL_PLACE] = { CTL_FROM_HOST, PROG_RUN, NO_STREAM, FIXED(struct ctl_place_wire) },
	[CTL_PLACED] = { CTL_FROM_NODE, PROG_RUN, NO_STREAM, FIXED(struct ctl_placed_wire) },
	[CTL_MEMBERS] = { CTL_FROM_NODE, PROG_NODE, NO_STREAM,
			  .min_len =
				  sizeof(struct ctl_members_wire) + sizeof(struct ctl_member_wire),
			  .max_len = sizeof(struct ctl_members_wire) +
				     CTL_MAX_MEMBERS * sizeof(struct ctl_member_wire) },
	[CTL_LOST] = { CTL_FROM_HOST, PROG_NODE, NO_STREAM, FIXED(struct ctl_member_wire) },
	[CTL_GATEWAY] = { CTL_FROM_NODE, PROG_NODE, NO_STREAM, .min_len = 0, .max_len = 0 },
	[CTL_ADDRESSES] = { CTL_FROM_NODE, PROG_NODE, NO_STREAM, .min_len = 0,
			    .max_len = CTL_MAX_ADDRESSES * CTL_ADDRESS_LEN },
};

const char *ctl_string_next(const char *s)
{
	return s + strlen(s) + 1;
}

void ctl_hdr_encode(const struct ctl_hdr *hdr, struct ctl_hdr_wire *w)
{
	w->magic = cpu_to_le32(CTL_MAGIC);
	w->version = CTL_VERSION;
	w->type = hdr->type;
	w->stream = hdr->stream;
	w->flags = hdr->flags;
	w->prog = cpu_to_le32(hdr->prog);
	w->len = cpu_to_le32(hdr->len);
}

static bool hdr_obeys(const struct ctl_hdr *hdr, enum ctl_end end)
{
	const struct ctl_rule *rule = &ctl_rules[hdr->type];
	const uint8_t streams = end == CTL_FROM_NODE ? rule->node_streams : rule->host_streams;

	if (!(rule->ends & (unsigned int)end))
		return false;
	if (!(rule->progs & (hdr->prog ? PROG_RUN : PROG_NODE)))
		return false;
	if (hdr->stream >= CTL_NR_STREAMS || !(streams & (1u << hdr->stream)))
		return false;
	if (hdr->flags & ~(unsigned int)rule->flags)
		return false;
	return hdr->len >= rule->min_len && hdr->len <= rule->max_len;
}

int ctl_hdr_decode(const void *buf, size_t len, enum ctl_end end, struct ctl_hdr *out)
{
	struct ctl_hdr_wire w;
	struct ctl_hdr hdr;

	if (len < sizeof(w))
		return -EMSGSIZE;
	memcpy(&w, buf, sizeof(w));
	hdr.type = w.type;
	hdr.stream = w.stream;
	hdr.flags = w.flags;
	hdr.prog = le32_to_cpu(w.prog);
	hdr.len = le32_to_cpu(w.len);

	if (le32_to_cpu(w.magic) != CTL_MAGIC || w.version != CTL_VERSION)
		return -EPROTO;
	if (hdr.type == 0 || hdr.type >= CTL_TYPE_END || !hdr_obeys(&hdr, end))
		return -EPROTO;
	*out = hdr;
	return 0;
}

void ctl_hello_encode(const struct ctl_hello *hello, struct ctl_hello_wire *w)
{
	memset(w, 0, sizeof(*w));
	w->role = hello->role;
	w->node = cpu_to_le32(hello->node);
	w->incarnation = cpu_to_le64(hello->incarnation);
	strlcpy(w->build, hello->build, sizeof(w->build));
}

int ctl_hello_decode(const void *buf, size_t len, struct ctl_hello *out)
{
	struct ctl_hello_wire w;
	size_t n;

	if (len != sizeof(w))
		return -EMSGSIZE;
	memcpy(&w, buf, sizeof(w));
	if (w.role < CTL_ROLE_PROCESSOR || w.role > CTL_ROLE_STORAGE)
		return -EPROTO;
	if (w.reserved[0] || w.reserved[1] || w.reserved[2])
		return -EPROTO;
	n = strnlen(w.build, sizeof(w.build));
	for (size_t i = n; i < sizeof(w.build); i++)
		if (w.build[i])
			return -EPROTO;
	if (n == sizeof(w.build))
		return -EPROTO;

	out->role = w.role;
	out->node = le32_to_cpu(w.node);
	out->incarnation = le64_to_cpu(w.incarnation);
	memcpy(out->build, w.build, sizeof(out->build));
	return 0;
}

#define CTL_READY_FIELDS(F)                                                             \
	F(u32, epoch), F(u16, nr_processors), F(u16, nr_memories), F(u16, nr_storages), \
		F(zero16, reserved)

CODEC_FIXED(ctl_ready, CTL_READY_FIELDS, codec_any)

/* Copy @nr strings from @src to @buf at *@pos. */
static bool strings_put(const char *src, uint32_t nr, char *buf, size_t cap, size_t *pos)
{
	for (uint32_t i = 0; i < nr; i++, src = ctl_string_next(src)) {
		const size_t n = strlen(src) + 1;

		if (n > cap - *pos)
			return false;
		memcpy(buf + *pos, src, n);
		*pos += n;
	}
	return true;
}

#define CTL_RUN_FIELDS(F)                                                                   \
	F(u32, flags), F(u32, uid), F(u32, gid), F(u32, umask), F(u16, rows), F(u16, cols), \
		F(u32, argc), F(u32, envc), F(zero32, reserved)

static bool run_is_valid(const struct ctl_run *run)
{
	return !(run->flags & ~(uint32_t)CTL_RUN_TTY) && run->umask <= 0777;
}

CODEC_FIELDS(ctl_run, CTL_RUN_FIELDS, run_is_valid)

ssize_t ctl_run_encode(const struct ctl_run *run, void *buf, size_t cap)
{
	struct ctl_run_wire w;
	size_t pos = sizeof(w);

	cap = MIN(cap, (size_t)CTL_MAX_RUN);
	if (cap < sizeof(w))
		return -EMSGSIZE;
	ctl_run_put(run, &w);
	memcpy(buf, &w, sizeof(w));
	if (!strings_put(run->path, 1, buf, cap, &pos) ||
	    !strings_put(run->cwd, 1, buf, cap, &pos) ||
	    !strings_put(run->argv, run->argc, buf, cap, &pos) ||
	    !strings_put(run->envp, run->envc, buf, cap, &pos))
		return -EMSGSIZE;
	return (ssize_t)pos;
}

/*
 * Pass over @nr strings from *@pos; the first one, or NULL if one does not end inside the payload.
 */
static const char *strings_get(const char *buf, size_t len, size_t *pos, uint32_t nr)
{
	const char *first = buf + *pos;

	for (uint32_t i = 0; i < nr; i++) {
		const size_t left = len - *pos;
		const size_t n = strnlen(buf + *pos, left);

		if (n == left)
			return NULL;
		*pos += n + 1;
	}
	return first;
}

int ctl_run_decode(const void *buf, size_t len, struct ctl_run *out)
{
	struct ctl_run_wire w;
	struct ctl_run run;
	size_t pos = sizeof(w);

	if (len < sizeof(w) || len > CTL_MAX_RUN)
		return -EMSGSIZE;
	memcpy(&w, buf, sizeof(w));
	if (!ctl_run_get(&w, &run))
		return -EPROTO;

	run.path = strings_get(buf, len, &pos, 1);
	if (!run.path || run.path[0] != '/')
		return -EPROTO;
	run.cwd = strings_get(buf, len, &pos, 1);
	if (!run.cwd || run.cwd[0] != '/')
		return -EPROTO;
	run.argv = strings_get(buf, len, &pos, run.argc);
	if (!run.argv)
		return -EPROTO;
	run.envp = strings_get(buf, len, &pos, run.envc);
	if (!run.envp || pos != len)
		return -EPROTO;
	*out = run;
	return 0;
}

#define CTL_STARTED_FIELDS(F) F(u32, pid), F(zero32, reserved), F(u64, uptime_ns)

CODEC_FIXED(ctl_started, CTL_STARTED_FIELDS, codec_any)

#define CTL_PLACED_FIELDS(F) F(u32, err), F(node, node)

static bool placed_is_valid(const struct ctl_placed *placed)
{
	return placed->err <= ERR_MAX && !placed->err != !placed->node;
}

CODEC_FIXED(ctl_placed, CTL_PLACED_FIELDS, placed_is_valid)

#define CTL_MEMBER_FIELDS(F) F(node, node), F(id32, incarn)

static bool member_is_valid(const struct ctl_member *m)
{
	return m->node != 0;
}

CODEC_FIXED(ctl_member, CTL_MEMBER_FIELDS, member_is_valid)

ssize_t ctl_members_encode(const struct ctl_members *m, void *buf, size_t cap)
{
	const struct ctl_members_wire head = { .epoch = cpu_to_le32(m->epoch) };
	const size_t len = sizeof(head) + m->nr * sizeof(struct ctl_member_wire);
	uint8_t *out = buf;

	if (m->nr > CTL_MAX_MEMBERS || len > cap)
		return -EMSGSIZE;
	memcpy(out, &head, sizeof(head));
	out += sizeof(head);
	for (uint32_t i = 0; i < m->nr; i++, out += sizeof(struct ctl_member_wire)) {
		struct ctl_member_wire w;

		ctl_member_encode(&m->members[i], &w);
		memcpy(out, &w, sizeof(w));
	}
	return (ssize_t)len;
}

int ctl_members_decode(const void *buf, size_t len, struct ctl_members *out)
{
	const uint8_t *in = buf;
	struct ctl_members_wire head;
	uint32_t nr;

	if (len < sizeof(head) + sizeof(struct ctl_member_wire) ||
	    (len - sizeof(head)) % sizeof(struct ctl_member_wire) ||
	    (len - sizeof(head)) / sizeof(struct ctl_member_wire) > CTL_MAX_MEMBERS)
		return -EMSGSIZE;
	nr = (uint32_t)((len - sizeof(head)) / sizeof(struct ctl_member_wire));
	memcpy(&head, in, sizeof(head));
	if (le32_to_cpu(head.reserved))
		return -EPROTO;
	in += sizeof(head);
	for (uint32_t i = 0; i < nr; i++, in += sizeof(struct ctl_member_wire)) {
		const int err =
			ctl_member_decode(in, sizeof(struct ctl_member_wire), &out->members[i]);

		if (err)
			return err;
		if (i && out->members[i].node <= out->members[i - 1].node)
			return -EPROTO;
	}
	out->epoch = le32_to_cpu(head.epoch);
	out->nr = nr;
	return 0;
}

int ctl_addresses_decode(size_t len, uint32_t *nr)
{
	if (len % CTL_ADDRESS_LEN || len / CTL_ADDRESS_LEN > CTL_MAX_ADDRESSES)
		return -EMSGSIZE;
	*nr = (uint32_t)(len / CTL_ADDRESS_LEN);
	return 0;
}

#define CTL_WINSIZE_FIELDS(F) F(u16, rows), F(u16, cols), F(u16, xpixel), F(u16, ypixel)

CODEC_FIXED(ctl_winsize, CTL_WINSIZE_FIELDS, codec_any)

#define CTL_EXIT_FIELDS(F) F(u32, status), F(zero32, reserved), F(u64, lifetime_ns)

static bool exit_is_valid(const struct ctl_exit *ex)
{
	return ex->status <= 0xffff;
}

CODEC_FIXED(ctl_exit, CTL_EXIT_FIELDS, exit_is_valid)

/* --- payloads that begin with one number ------------------------------------------------- */

/* The number at the beginning of @buf, if it is in [min, max]. */
static int number_decode(const void *buf, uint32_t min, uint32_t max, uint32_t *out)
{
	const uint32_t v = get_unaligned_le32(buf);

	if (v < min || v > max)
		return -EPROTO;
	*out = v;
	return 0;
}

void ctl_place_encode(uint32_t vnode, struct ctl_place_wire *w)
{
	w->vnode = cpu_to_le32(vnode);
	w->reserved = cpu_to_le32(0);
}

int ctl_place_decode(const void *buf, size_t len, uint32_t *vnode)
{
	struct ctl_place_wire w;

	if (len != sizeof(w))
		return -EMSGSIZE;
	memcpy(&w, buf, sizeof(w));
	return le32_to_cpu(w.reserved) ? -EPROTO : number_decode(buf, 1, UINT32_MAX, vnode);
}

void ctl_errno_encode(uint32_t err, struct ctl_errno_wire *w)
{
	w->err = cpu_to_le32(err);
}

/* Text may follow. */
int ctl_errno_decode(const void *buf, size_t len, uint32_t *err)
{
	if (len < sizeof(struct ctl_errno_wire))
		return -EMSGSIZE;
	return number_decode(buf, 0, ERR_MAX, err);
}

void ctl_credit_encode(uint32_t bytes, struct ctl_credit_wire *w)
{
	w->bytes = cpu_to_le32(bytes);
}

int ctl_credit_decode(const void *buf, size_t len, uint32_t *bytes)
{
	if (len != sizeof(struct ctl_credit_wire))
		return -EMSGSIZE;
	return number_decode(buf, 1, CTL_MAX_CREDIT, bytes);
}

void ctl_signal_encode(uint32_t signo, struct ctl_signal_wire *w)
{
	w->signo = cpu_to_le32(signo);
}

int ctl_signal_decode(const void *buf, size_t len, uint32_t *signo)
{
	if (len != sizeof(struct ctl_signal_wire))
		return -EMSGSIZE;
	return number_decode(buf, 1, CTL_MAX_SIGNAL, signo);
}
