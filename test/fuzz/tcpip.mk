# SPDX-License-Identifier: MIT
tcpip_fuzz-folders := net/lwip
tcpip_fuzz-objs    := drivers/net/netdev.o $(addprefix lwip/,$(lwip_objects))
tcpip_fuzz-max-len := 4096
