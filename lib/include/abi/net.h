/* SPDX-License-Identifier: MIT */
/* Network interfaces: <linux/if.h>, <linux/sockios.h>, <linux/if_arp.h>, <linux/route.h>. */
#pragma once

#include <lib/compiler.h>
#include <stdint.h>

#define IFF_UP        0x1u
#define IFF_BROADCAST 0x2u
#define IFF_LOOPBACK  0x8u
#define IFF_RUNNING   0x40u
#define IFF_MULTICAST 0x1000u
#define IFF_LOWER_UP  0x10000u /* netlink alone has room for it */

#define ARPHRD_ETHER    1
#define ARPHRD_LOOPBACK 772

#define RTF_UP      1u
#define RTF_GATEWAY 2u

#define RT_SCOPE_UNIVERSE 0
#define RT_SCOPE_LINK     253
#define RT_SCOPE_HOST     254

#define SIOCATMARK     0x8905u
#define SIOCGIFNAME    0x8910u
#define SIOCGIFCONF    0x8912u
#define SIOCGIFFLAGS   0x8913u
#define SIOCSIFFLAGS   0x8914u
#define SIOCGIFADDR    0x8915u
#define SIOCSIFADDR    0x8916u
#define SIOCGIFDSTADDR 0x8917u
#define SIOCSIFDSTADDR 0x8918u
#define SIOCGIFBRDADDR 0x8919u
#define SIOCSIFBRDADDR 0x891au
#define SIOCGIFNETMASK 0x891bu
#define SIOCSIFNETMASK 0x891cu
#define SIOCGIFMETRIC  0x891du
#define SIOCSIFMETRIC  0x891eu
#define SIOCGIFMTU     0x8921u
#define SIOCSIFMTU     0x8922u
#define SIOCSIFHWADDR  0x8924u
#define SIOCGIFHWADDR  0x8927u
#define SIOCGIFINDEX   0x8933u
#define SIOCGIFTXQLEN  0x8942u
#define SIOCGIFMAP     0x8970u

struct linux_ifreq {
	char name[16];
	uint8_t data[24]; /* a union */
};
static_assert(sizeof(struct linux_ifreq) == 40, "struct ifreq is ABI");

struct linux_ifconf {
	int32_t len; /* bytes */
	uint32_t pad;
	uint64_t buf;
};
static_assert(sizeof(struct linux_ifconf) == 16, "struct ifconf is ABI");
