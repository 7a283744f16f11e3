# SPDX-License-Identifier: MIT
#
# lwIP, the TCP/IP stack of processor monitors: Debian's source package, pinned here, with the
# patches of net/lwip/patches. Included where objects of it are built; $(lwip) is its source.

lwip_file := lwip_2.1.3+dfsg1.orig.tar.xz
lwip_sha256 := 0a8276d09fc4e97bbba2f953d74af2388fc2195ea156be9d7589e297a68fde24

lwip := $(shell $(srctree)/scripts/fetch-source.sh $(srctree)/build/sources \
	$(srctree)/net/lwip/patches liblwip-dev $(lwip_file) $(lwip_sha256))
ifeq ($(lwip),)
$(error no source of lwIP (CONFIG_LWIP))
endif

lwip_core := def.o inet_chksum.o init.o ip.o mem.o memp.o netif.o pbuf.o raw.o stats.o tcp.o \
	tcp_in.o tcp_out.o timeouts.o udp.o
lwip_ipv4 := dhcp.o etharp.o icmp.o igmp.o ip4.o ip4_addr.o ip4_frag.o
lwip_ipv6 := ethip6.o icmp6.o inet6.o ip6.o ip6_addr.o ip6_frag.o mld6.o nd6.o
lwip_objects := $(addprefix core/,$(lwip_core) $(addprefix ipv4/,$(lwip_ipv4)) \
	$(addprefix ipv6/,$(lwip_ipv6))) netif/ethernet.o

# The port's headers, and what lwIP includes of a C library.
lwip_includes := -I$(srctree)/net/lwip/port -isystem $(lwip)/src/include
# Its warnings are its authors' business.
lwip_flags := $(lwip_includes) -w
