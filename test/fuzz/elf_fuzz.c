/* SPDX-License-Identifier: MIT */
/*
 * The program loader's reader: the input is a file.  An accepted file must have
 * every property that elf.h names.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <lib/errno.h>
#include <proto/pm.h>

#include "../../monitors/memory/elf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
	const uint8_t *data;
	size_t size;
};

static int input_read(void *arg, uint64_t offset, void *buf, uint32_t len)
{
	const struct input *in = arg;

	if (offset >= in->size)
		return 0;
	if (len > in->size - offset)
		len = (uint32_t)(in->size - offset);
	memcpy(buf, in->data + offset, len);
	return (int)len;
}

static void check(int ok)
{
	if (!ok)
		abort();
}

static void check_image(const struct elf_image *img)
{
	uint64_t end = 0;

	check(img->nr_segments > 0);
	for (uint32_t i = 0; i < img->nr_segments; i++) {
		const struct elf_segment *s = &img->segments[i];

		check(s->memsz > 0 && s->filesz <= s->memsz);
		check(s->vaddr + s->memsz > s->vaddr && s->vaddr + s->memsz <= PM_USER_TOP);
		check((s->vaddr & ~PAGE_MASK_LOW) >= end);
		check(!s->filesz || !((s->vaddr ^ s->offset) & PAGE_MASK_LOW));
		end = (s->vaddr + s->memsz + PAGE_MASK_LOW) & ~PAGE_MASK_LOW;
	}
	check(img->end == end && img->start < end);
	check(img->align >= PAGE_SIZE && !(img->align & (img->align - 1)));
	if (img->interp)
		check(strlen(img->interp) > 0 && strlen(img->interp) < 4096);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	const struct elf_source src = { input_read, &in };
	struct elf_image img;
	const int err = elf_read(&src, &img);

	check(err == 0 || err == -ENOEXEC);
	if (!err) {
		check_image(&img);
		elf_free(&img);
	}
	return 0;
}
