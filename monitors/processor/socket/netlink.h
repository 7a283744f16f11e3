/* SPDX-License-Identifier: MIT */
/* AF_NETLINK makes itself known (for tests, which run no INITCALLs), and what others send by it. */
#pragma once

#include <lib/compiler.h>

struct file;
struct sock_msg;

int netlink_init(void);
/* Is @f a netlink socket? -ENOTSOCK, -EINVAL: another family. */
int netlink_check(const struct file *f) __must_check;
/* Put @msg into the queue of such a socket, whatever is there already; takes it over. */
void netlink_deliver(struct file *f, struct sock_msg *msg);
