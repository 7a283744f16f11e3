/* SPDX-License-Identifier: MIT */
/* The storage monitor's services beside the processor's requests, which have some of the names. */
#pragma once

#define storage_close    server_close
#define storage_declare  server_declare
#define storage_getattr  server_getattr
#define storage_getdents server_getdents
#define storage_lookup   server_lookup
#define storage_readlink server_readlink
#define storage_statfs   server_statfs
#include <storage/storage.h>
#undef storage_close
#undef storage_declare
#undef storage_getattr
#undef storage_getdents
#undef storage_lookup
#undef storage_readlink
#undef storage_statfs
