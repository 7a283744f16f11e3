/* SPDX-License-Identifier: MIT */
/*
 * Subnet administration messages: PathRecord query and answer.
 *
 * A MAD of this class has, behind the common header: RMPP (12 bytes), SM_Key (8), attribute offset
 * (2), reserved (2), component mask (8), and 200 bytes of data.
 */
#include "sa_msg.h"

#include <lib/byteorder.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <rdma/mad.h>

#define SA_CLASS_VERSION 2
#define ATTR_PATH_RECORD 0x0035
#define COMP_MASK        48
#define DATA             56
#define PATH_DGID        (DATA + 8)
#define PATH_SGID        (DATA + 24)
#define PATH_DLID        (DATA + 40)
#define PATH_HOP_LIMIT   (DATA + 47)
#define PATH_NUMB        (DATA + 49)
#define PATH_SL          (DATA + 52)
#define COMP_DGID        BIT64(2)
#define COMP_SGID        BIT64(3)
#define COMP_NUMB_PATH   BIT64(12)
#define LID_UNICAST_MAX  0xbfff
#define REVERSIBLE       0x80

void sa_path_encode(uint64_t tid, const struct rdma_gid *sgid, const struct rdma_gid *dgid,
		    void *mad)
{
	const struct mad_hdr_wire hdr = {
		.base_version = 1,
		.mgmt_class = MAD_CLASS_SA,
		.class_version = SA_CLASS_VERSION,
		.method = MAD_METHOD_GET,
		.tid = cpu_to_be64(tid),
		.attr_id = cpu_to_be16(ATTR_PATH_RECORD),
	};
	uint8_t *b = mad;

	memset(b, 0, MAD_LEN);
	memcpy(b, &hdr, sizeof(hdr));
	put_unaligned_be64(COMP_DGID | COMP_SGID | COMP_NUMB_PATH, b + COMP_MASK);
	memcpy(b + PATH_DGID, dgid->raw, 16);
	memcpy(b + PATH_SGID, sgid->raw, 16);
	b[PATH_NUMB] = REVERSIBLE | 1;
}

int sa_path_decode(const void *mad, uint64_t tid, const struct rdma_gid *dgid,
		   struct rdma_addr *addr)
{
	const uint8_t *b = mad;
	struct mad_hdr_wire hdr;
	uint16_t dlid;

	memcpy(&hdr, b, sizeof(hdr));
	if (hdr.base_version != 1 || hdr.mgmt_class != MAD_CLASS_SA ||
	    hdr.class_version != SA_CLASS_VERSION || hdr.method != MAD_METHOD_GET_RESP ||
	    be64_to_cpu(hdr.tid) != tid)
		return -ENOMSG;
	if (be16_to_cpu(hdr.status))
		return -ENOENT;
	if (be16_to_cpu(hdr.attr_id) != ATTR_PATH_RECORD ||
	    memcmp(b + PATH_DGID, dgid->raw, 16) != 0)
		return -EPROTO;
	dlid = get_unaligned_be16(b + PATH_DLID);
	if (!dlid || dlid > LID_UNICAST_MAX)
		return -EPROTO;
	*addr = (struct rdma_addr){
		.dgid = *dgid,
		.dlid = dlid,
		.sl = b[PATH_SL + 1] & 0xf,
		/* More than one hop: routed to another subnet. */
		.has_grh = b[PATH_HOP_LIMIT] > 1,
	};
	return 0;
}
