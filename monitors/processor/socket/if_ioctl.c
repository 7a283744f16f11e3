/* SPDX-License-Identifier: MIT */
/*
 * ioctl() of any socket about network interfaces: struct ifreq and struct ifconf. Programs can read
 * interfaces; none can change one: root is told EOPNOTSUPP.
 */
#include <abi/net.h>
#include <abi/socket.h>
#include <arch/uaccess.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <processor/process/process.h>

#include "interface.h"
#include "ioctl_private.h"

#define TXQLEN 1000u

static void put_addr(struct linux_ifreq *r, uint32_t addr)
{
	const struct linux_sockaddr_in in = { .family = AF_INET, .addr = addr };

	memcpy(r->data, &in, sizeof(in));
}

static uint32_t addr_of(const struct inet_interface *i)
{
	uint32_t addr;

	memcpy(&addr, i->addr4, sizeof(addr));
	return addr;
}

/* Those that have an IPv4 address, as many as there is room for; without a buffer, the size. */
static long get_list(uint64_t arg)
{
	struct linux_ifconf conf;
	struct inet_interface i;
	int32_t used = 0;
	int err = copy_from_user(&conf, (const void __user *)arg, sizeof(conf));

	if (err)
		return err;
	for (unsigned int nr = 0; inet_interface_at(nr, &i); nr++) {
		struct linux_ifreq r = { 0 };

		if (!i.prefix4)
			continue;
		memcpy(r.name, i.name, sizeof(r.name));
		put_addr(&r, addr_of(&i));
		if (conf.buf) {
			if (conf.len - used < (int32_t)sizeof(r))
				break;
			err = copy_to_user((void __user *)(conf.buf + (uint32_t)used), &r,
					   sizeof(r));
			if (err)
				return err;
		}
		used += (int32_t)sizeof(r);
	}
	conf.len = used;
	return copy_to_user((void __user *)arg, &conf, sizeof(conf));
}

static bool find(const struct linux_ifreq *r, bool by_index, struct inet_interface *out)
{
	uint32_t index;

	memcpy(&index, r->data, sizeof(index));
	for (unsigned int nr = 0; inet_interface_at(nr, out); nr++) {
		if (by_index ? out->index == index : !strcmp(out->name, r->name))
			return true;
	}
	return false;
}

/* The answer about @i into @r. */
static int answer(uint32_t cmd, const struct inet_interface *i, struct linux_ifreq *r)
{
	const uint32_t mask = inet_mask4(i->prefix4), addr = addr_of(i);
	uint32_t number = 0;

	switch (cmd) {
	case SIOCGIFNAME:
		memcpy(r->name, i->name, sizeof(r->name));
		return 0;
	case SIOCGIFADDR:
	case SIOCGIFDSTADDR:
	case SIOCGIFBRDADDR:
	case SIOCGIFNETMASK:
		if (!i->prefix4)
			return -EADDRNOTAVAIL;
		put_addr(r, cmd == SIOCGIFNETMASK      ? mask
			    : cmd != SIOCGIFBRDADDR    ? addr
			    : i->flags & IFF_BROADCAST ? addr | ~mask
						       : 0);
		return 0;
	case SIOCGIFFLAGS: {
		const uint16_t flags = (uint16_t)i->flags;

		memcpy(r->data, &flags, sizeof(flags));
		return 0;
	}
	case SIOCGIFHWADDR: {
		const uint16_t type = i->flags & IFF_LOOPBACK ? ARPHRD_LOOPBACK : ARPHRD_ETHER;

		memset(r->data, 0, 16);
		memcpy(r->data, &type, sizeof(type));
		memcpy(r->data + 2, i->mac, sizeof(i->mac));
		return 0;
	}
	case SIOCGIFMAP:
		memset(r->data, 0, sizeof(r->data));
		return 0;
	case SIOCGIFMTU:
		number = i->mtu;
		break;
	case SIOCGIFINDEX:
		number = i->index;
		break;
	case SIOCGIFTXQLEN:
		number = TXQLEN;
		break;
	default: /* SIOCGIFMETRIC */
		break;
	}
	memcpy(r->data, &number, sizeof(number));
	return 0;
}

long interface_ioctl(uint32_t cmd, uint64_t arg)
{
	struct inet_interface i;
	struct linux_ifreq r;
	bool sets = false;
	int err;

	switch (cmd) {
	case SIOCGIFCONF:
		return get_list(arg);
	case SIOCGIFNAME:
	case SIOCGIFFLAGS:
	case SIOCGIFADDR:
	case SIOCGIFDSTADDR:
	case SIOCGIFBRDADDR:
	case SIOCGIFNETMASK:
	case SIOCGIFMETRIC:
	case SIOCGIFMTU:
	case SIOCGIFHWADDR:
	case SIOCGIFINDEX:
	case SIOCGIFTXQLEN:
	case SIOCGIFMAP:
		break;
	case SIOCSIFFLAGS:
	case SIOCSIFADDR:
	case SIOCSIFDSTADDR:
	case SIOCSIFBRDADDR:
	case SIOCSIFNETMASK:
	case SIOCSIFMETRIC:
	case SIOCSIFMTU:
	case SIOCSIFHWADDR:
		sets = true;
		break;
	default:
		return -ENOTTY;
	}
	err = copy_from_user(&r, (const void __user *)arg, sizeof(r));
	if (err)
		return err;
	if (sets) /* they stay as the cluster was made */
		return capable(CAP_NET_ADMIN) ? -EOPNOTSUPP : -EPERM;
	r.name[sizeof(r.name) - 1] = '\0';
	if (!find(&r, cmd == SIOCGIFNAME, &i))
		return -ENODEV;
	err = answer(cmd, &i, &r);
	return err ? err : copy_to_user((void __user *)arg, &r, sizeof(r));
}
