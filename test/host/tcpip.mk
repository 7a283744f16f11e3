# SPDX-License-Identifier: MIT
# lwIP and its port on a card that is part of the test.
prog-y += tcpip
tcpip-folders := net/lwip
tcpip-objs := drivers/net/netdev.o test/host/tcpip_test.o $(addprefix lwip/,$(lwip_objects))
