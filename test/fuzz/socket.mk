# SPDX-License-Identifier: MIT
# What programs give to sockets.
cmsg_fuzz-objs    := monitors/processor/socket/cmsg_decode.o
cmsg_fuzz-max-len := 2048
rtnl_fuzz-objs    := monitors/processor/socket/rtnl_codec.o
rtnl_fuzz-max-len := 1024
