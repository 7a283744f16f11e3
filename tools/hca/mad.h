/* SPDX-License-Identifier: MIT */
/* HCA model: layout of management datagrams (InfiniBand specification, volume 1). */
#pragma once

#define MAD_METHOD     3
#define MAD_STATUS     4
#define MAD_ATTR       16
#define MAD_MOD        20
#define SMP_HOP_PTR    6
#define SMP_HOP_CNT    7
#define SMP_DATA       64
#define SMP_DATA_LEN   64
#define SMP_PATH       128
#define SMP_RETURN     192
#define SMP_DIRECTION  0x8000
#define PMA_DATA       64
#define SA_RMPP        24
#define SA_ATTR_OFFSET 44
#define SA_COMP_MASK   48
#define SA_DATA        56

#define RMPP_DATA   1 /* type; 2 ACK, 3 STOP, 4 ABORT */
#define RMPP_ACTIVE BIT(0)
#define RMPP_FIRST  BIT(1)
#define RMPP_LAST   BIT(2)

#define CLASS_SMP_LID    0x01
#define CLASS_SMP_ROUTED 0x81
#define CLASS_SA         0x03
#define CLASS_PMA        0x04

#define METHOD_GET       0x01
#define METHOD_SET       0x02
#define METHOD_GET_TABLE 0x12
#define METHOD_DELETE    0x15
#define METHOD_RESPONSE  0x80

#define MAD_ST_BAD_METHOD 0x08 /* method and attribute do not go together */
#define MAD_ST_BAD_ATTR   0x0c
#define MAD_ST_BAD_VALUE  0x1c

#define ATTR_CLASS_PORT_INFO 0x01
#define ATTR_NODE_DESC       0x10
#define ATTR_NODE_INFO       0x11
#define ATTR_SWITCH_INFO     0x12
#define ATTR_GUID_INFO       0x14
#define ATTR_PORT_INFO       0x15
#define ATTR_PKEY_TABLE      0x16
#define ATTR_SL2VL           0x17
#define ATTR_VL_ARB          0x18
#define ATTR_SM_INFO         0x20
#define ATTR_EXT_PORT_INFO   0xff90
#define ATTR_PORT_COUNTERS   0x12
#define ATTR_PORT_COUNTERS_X 0x1d
#define ATTR_PATH_RECORD     0x35
#define ATTR_MC_MEMBER       0x38
