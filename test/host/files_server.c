/* SPDX-License-Identifier: MIT */
/* Services of the storage monitor under names that the processor's requests do not have. */
#define storage_close    server_close
#define storage_declare  server_declare
#define storage_getattr  server_getattr
#define storage_getdents server_getdents
#define storage_lookup   server_lookup
#define storage_readlink server_readlink
#define storage_statfs   server_statfs
#include "../../monitors/storage/file.c"
#include "../../monitors/storage/path.c"
