/* SPDX-License-Identifier: MIT */
/* Extended attributes: Linux's <linux/xattr.h> and <linux/limits.h>. */
#pragma once

#include <lib/compiler.h>
#include <stdint.h>

#define XATTR_CREATE  0x1
#define XATTR_REPLACE 0x2

#define XATTR_NAME_MAX 255   /* bytes of a name with its prefix */
#define XATTR_SIZE_MAX 65536 /* bytes of a value */
#define XATTR_LIST_MAX 65536 /* bytes of all names of a file */
