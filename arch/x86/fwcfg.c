/* SPDX-License-Identifier: MIT */
/*
 * QEMU's fw_cfg by its I/O ports: select a file, read its bytes.
 *
 * Limits:	no more than FILES_MAX entries of the directory are looked at.
 * See:		QEMU, docs/specs/fw_cfg
 */
#include <arch/cpu.h>
#include <arch/fwcfg.h>
#include <arch/io.h>
#include <lib/byteorder.h>
#include <lib/compiler.h>
#include <lib/string.h>

#define FWCFG_SELECT    0x510
#define FWCFG_DATA      0x511
#define FWCFG_SIGNATURE 0x0000
#define FWCFG_DIRECTORY 0x0019
#define FILES_MAX       1024u

struct fwcfg_file {
	be32_t size;
	be16_t select;
	be16_t reserved;
	char name[56];
};
static_assert(sizeof(struct fwcfg_file) == 64, "fw_cfg is ABI");

static void read_bytes(void *buf, size_t len)
{
	uint8_t *p = buf;

	while (len--)
		*p++ = inb(FWCFG_DATA);
}

size_t fwcfg_read(const char *name, void *buf, size_t max)
{
	struct fwcfg_file file;
	char signature[4];
	be32_t count;
	uint32_t nr;

	if (!cpu_features.hypervisor[0])
		return 0;
	outw(FWCFG_SELECT, FWCFG_SIGNATURE);
	read_bytes(signature, sizeof(signature));
	if (memcmp(signature, "QEMU", sizeof(signature)) != 0)
		return 0;
	outw(FWCFG_SELECT, FWCFG_DIRECTORY);
	read_bytes(&count, sizeof(count));
	nr = MIN(be32_to_cpu(count), FILES_MAX);
	for (uint32_t i = 0; i < nr; i++) {
		size_t len;

		read_bytes(&file, sizeof(file));
		if (strncmp(file.name, name, sizeof(file.name)) != 0)
			continue;
		len = MIN((size_t)be32_to_cpu(file.size), max);
		outw(FWCFG_SELECT, be16_to_cpu(file.select));
		read_bytes(buf, len);
		return len;
	}
	return 0;
}
