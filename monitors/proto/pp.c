/* SPDX-License-Identifier: MIT */
/*
 * Processor -> processor messages: encode and decode.
 *
 * See:	docs/protocol/pp.md
 */
#include <proto/pp.h>

#include <lib/errno.h>
#include <lib/string.h>

#include "codec.h"

#define PP_CONNECT_REQ(F)                                                                 \
	F(id64, conn), F(u64, limit), F(id32, vnode), F(u16, from_port), F(u16, to_port), \
		F(bytes, from_addr), F(bytes, to_addr), F(u32, flags), F(u32, scope)

static bool connect_req_is_valid(const struct pp_connect_req *r)
{
	return r->from_port && r->to_port && !(r->flags & ~(uint32_t)PP_CONNECT_ALL);
}

CODEC_FIXED(pp_connect_req, PP_CONNECT_REQ, connect_req_is_valid)

#define PP_CONNECT_REP(F) F(id64, conn), F(u64, limit)

CODEC_FIXED(pp_connect_rep, PP_CONNECT_REP, codec_any)

#define PP_DATA_REQ(F) F(id64, conn), F(u64, position), F(u64, limit), F(u32, len), F(u32, flags)

/* Something comes, and the position behind it is a number. */
static bool data_req_is_valid(const struct pp_data_req *r)
{
	return !(r->flags & ~(uint32_t)PP_DATA_ALL) && (r->len || r->flags) &&
	       r->len <= PP_BULK_MAX && r->position <= UINT64_MAX - r->len;
}

CODEC_FIXED(pp_data_req, PP_DATA_REQ, data_req_is_valid)

int pp_data_check(const struct pp_data_req *r, size_t inline_len, size_t bulk_len)
{
	if (inline_len && bulk_len)
		return -EMSGSIZE;
	return r->len == inline_len + bulk_len ? 0 : -EMSGSIZE;
}

#define PP_DATA_REP(F) F(u64, limit)

CODEC_FIXED(pp_data_rep, PP_DATA_REP, codec_any)

#define PP_WINDOW_FIELDS(F) F(id64, conn), F(u64, limit)

CODEC_FIXED(pp_window, PP_WINDOW_FIELDS, codec_any)

#define PP_RESET_FIELDS(F) F(id64, conn)

CODEC_FIXED(pp_reset, PP_RESET_FIELDS, codec_any)

#define PP_OPENED_FIELDS(F) F(id64, conn), F(status, status), F(zero32, reserved), F(bytes, addr)

CODEC_FIXED(pp_opened, PP_OPENED_FIELDS, codec_any)

#define PP_OPTIONS_FIELDS(F)                                                                  \
	F(id64, conn), F(u32, user_timeout_ms), F(u16, keep_idle_s), F(u16, keep_interval_s), \
		F(u8, keep_count), F(u8, ttl), F(u8, tos), F(u8, flags), F(zero32, reserved)

/* As setsockopt() takes them. */
static bool options_are_valid(const struct pp_options *o)
{
	return o->user_timeout_ms <= INT32_MAX && o->keep_idle_s && o->keep_idle_s <= INT16_MAX &&
	       o->keep_interval_s && o->keep_interval_s <= INT16_MAX && o->keep_count &&
	       o->keep_count <= INT8_MAX && o->ttl && !(o->flags & ~(uint32_t)PP_OPTION_ALL);
}

CODEC_FIXED(pp_options, PP_OPTIONS_FIELDS, options_are_valid)

/* --- AF_UNIX -------------------------------------------------------------------------------- */

/* One way to write a name: nothing lies behind it. */
static bool name_is_valid(const uint8_t name[PP_UNIX_NAME], uint32_t len)
{
	if (len > PP_UNIX_NAME)
		return false;
	for (uint32_t i = len; i < PP_UNIX_NAME; i++) {
		if (name[i])
			return false;
	}
	return true;
}

#define PP_UNIX_CONNECT_REQ(F)                                                                     \
	F(id64, conn), F(u64, limit), F(id32, vnode), F(u16, type), F(u16, name_len), F(u32, pid), \
		F(u32, uid), F(u32, gid), F(bytes, key), F(bytes, name)

static bool unix_connect_req_is_valid(const struct pp_unix_connect_req *r)
{
	return (r->type == PP_UNIX_STREAM || r->type == PP_UNIX_SEQPACKET) &&
	       name_is_valid(r->name, r->name_len);
}

CODEC_FIXED(pp_unix_connect_req, PP_UNIX_CONNECT_REQ, unix_connect_req_is_valid)

#define PP_UNIX_CONNECT_REP(F)                                                                 \
	F(id64, conn), F(u64, limit), F(u32, pid), F(u32, uid), F(u32, gid), F(u16, name_len), \
		F(zero16, reserved), F(bytes, name), F(zero32, reserved2)

static bool unix_connect_rep_is_valid(const struct pp_unix_connect_rep *r)
{
	return name_is_valid(r->name, r->name_len);
}

CODEC_FIXED(pp_unix_connect_rep, PP_UNIX_CONNECT_REP, unix_connect_rep_is_valid)

#define PP_UNIX_DATAGRAM_REQ(F)                                                              \
	F(id64, sender), F(id32, vnode), F(u32, len), F(u32, pid), F(u32, uid), F(u32, gid), \
		F(u16, name_len), F(u16, flags), F(bytes, key), F(bytes, from_key),          \
		F(bytes, name), F(zero32, reserved)

static bool unix_datagram_req_is_valid(const struct pp_unix_datagram_req *r)
{
	if (r->flags & ~(uint32_t)PP_UNIX_DATAGRAM_ALL || ((r->flags & PP_UNIX_ASKS) && r->len))
		return false;
	return r->len <= PP_UNIX_DATAGRAM_MAX && name_is_valid(r->name, r->name_len);
}

CODEC_FIXED(pp_unix_datagram_req, PP_UNIX_DATAGRAM_REQ, unix_datagram_req_is_valid)

int pp_unix_datagram_check(const struct pp_unix_datagram_req *r, size_t inline_len, size_t bulk_len)
{
	if (inline_len && bulk_len)
		return -EMSGSIZE;
	return r->len == inline_len + bulk_len ? 0 : -EMSGSIZE;
}

#define PP_UNIX_ROOM_FIELDS(F) F(id64, sender)

CODEC_FIXED(pp_unix_room, PP_UNIX_ROOM_FIELDS, codec_any)

#define PP_RECORD(F) F(u32, len), F(u32, pid), F(u32, uid), F(u32, gid)

static bool record_is_valid(const struct pp_record *r)
{
	return r->len <= PP_RECORD_MAX;
}

CODEC_FIXED(pp_record, PP_RECORD, record_is_valid)

/* --- PP_GATEWAY ----------------------------------------------------------------------------- */

#define PP_INTERFACE(F)                                                              \
	F(bytes, name), F(id32, index), F(u32, mtu), F(flag16, up), F(u8, prefix4),  \
		F(u8, nr_addr6), F(bytes, addr4), F(bytes, gateway4), F(bytes, mac), \
		F(zero16, reserved), F(bytes, addr6), F(bytes, gateway6)

static bool interface_is_valid(const struct pp_interface *i)
{
	return i->name[0] && !i->name[sizeof(i->name) - 1] && i->prefix4 <= 32 &&
	       i->nr_addr6 <= PP_ADDRS6;
}

CODEC_FIELDS(pp_interface, PP_INTERFACE, interface_is_valid)
CODEC_PART(static, pp_interface)
CODEC_ELEMENTS(static, pp_interface)

#define PP_GATEWAY_REQ(F) F(id32, vnode), F(id32, nr_interfaces)

CODEC_LIST(pp_gateway_req, PP_GATEWAY_REQ, codec_any, pp_interface, interfaces, PP_INTERFACES_MAX,
	   codec_any_item)

/* --- ports and datagrams --------------------------------------------------------------------- */

#define PP_PORT_FIELDS(F)                                                                         \
	F(id64, id), F(id32, vnode), F(u16, kind), F(u16, port), F(bytes, addr), F(u32, backlog), \
		F(u32, flags)

static bool port_is_valid(const struct pp_port *r)
{
	return (r->kind == PP_TCP || r->kind == PP_UDP) && r->port &&
	       !(r->flags & ~(uint32_t)PP_PORT_ALL);
}

CODEC_FIXED(pp_port, PP_PORT_FIELDS, port_is_valid)

#define PP_UNPORT_FIELDS(F) F(id64, id)

CODEC_FIXED(pp_unport, PP_UNPORT_FIELDS, codec_any)

#define PP_DATAGRAM_REQ(F)                                                                \
	F(u64, port_id), F(id32, vnode), F(u32, len), F(u16, from_port), F(u16, to_port), \
		F(u32, scope), F(bytes, from_addr), F(bytes, to_addr), F(u32, interface), \
		F(u8, ttl), F(u8, tos), F(zero16, reserved)

static bool datagram_req_is_valid(const struct pp_datagram_req *r)
{
	return r->len <= PP_DATAGRAM_MAX && r->from_port && r->to_port;
}

CODEC_FIXED(pp_datagram_req, PP_DATAGRAM_REQ, datagram_req_is_valid)

int pp_datagram_check(const struct pp_datagram_req *r, size_t inline_len, size_t bulk_len)
{
	if (inline_len && bulk_len)
		return -EMSGSIZE;
	return r->len == inline_len + bulk_len ? 0 : -EMSGSIZE;
}
