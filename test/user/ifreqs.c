/* SPDX-License-Identifier: MIT */
/*
 * The ioctls that read the loopback interface. Prints the same on both.
 */
#include "call.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

static struct ifreq r;

static int ask(const char *what, int fd, unsigned long cmd, const char *name)
{
	int ret;

	memset(&r, 0, sizeof(r));
	strcpy(r.ifr_name, name);
	ret = ioctl(fd, cmd, &r);
	call(what, ret);
	return ret;
}

static void show_addr(const char *what, int fd, unsigned long cmd)
{
	const struct sockaddr_in *in = (const void *)&r.ifr_addr;

	if (ask(what, fd, cmd, "lo") == 0)
		printf("%d %s\n", in->sin_family, inet_ntoa(in->sin_addr));
}

int main(void)
{
	const int fd = socket(AF_INET, SOCK_DGRAM, 0);
	struct ifreq list[32];
	struct ifconf conf = { .ifc_len = sizeof(list), .ifc_req = list };

	show_addr("address", fd, SIOCGIFADDR);
	show_addr("mask", fd, SIOCGIFNETMASK);
	show_addr("broadcast", fd, SIOCGIFBRDADDR);
	show_addr("peer", fd, SIOCGIFDSTADDR);
	ask("flags", fd, SIOCGIFFLAGS, "lo");
	printf("%#x\n", (unsigned int)r.ifr_flags);
	ask("mtu", fd, SIOCGIFMTU, "lo");
	printf("%d\n", r.ifr_mtu);
	ask("index", fd, SIOCGIFINDEX, "lo");
	printf("%d\n", r.ifr_ifindex);
	ask("queue", fd, SIOCGIFTXQLEN, "lo");
	printf("%d\n", r.ifr_qlen);
	ask("metric", fd, SIOCGIFMETRIC, "lo");
	printf("%d\n", r.ifr_metric);
	ask("hardware", fd, SIOCGIFHWADDR, "lo");
	printf("%d\n", r.ifr_hwaddr.sa_family);
	ask("no such", fd, SIOCGIFADDR, "nothing");
	ask("no such", fd, SIOCGIFMTU, "");
	call("bad address", ioctl(fd, SIOCGIFMTU, (void *)8));
	call("list", ioctl(fd, SIOCGIFCONF, &conf));
	printf("%d %s\n", conf.ifc_len >= (int)sizeof(r), list[0].ifr_name);
	conf.ifc_len = sizeof(r) - 1;
	call("no room", ioctl(fd, SIOCGIFCONF, &conf));
	printf("%d\n", conf.ifc_len);
	conf.ifc_req = NULL;
	call("size", ioctl(fd, SIOCGIFCONF, &conf));
	printf("%d\n", conf.ifc_len >= (int)sizeof(r));
	printf("%u\n", if_nametoindex("lo"));
	return 0;
}
