/* SPDX-License-Identifier: MIT */
/* ioctl() of sockets, of every family. */
#pragma once

#include "socket.h"

/* -ENOTTY, -EFAULT, -EINVAL, -ENODEV */
long socket_ioctl(struct socket *s, uint32_t cmd, uint64_t arg);
/* Commands about interfaces. -ENOTTY: it is none; -EFAULT, -ENODEV, -EADDRNOTAVAIL. */
long interface_ioctl(uint32_t cmd, uint64_t arg);
