/* SPDX-License-Identifier: MIT */
/* Requests of a processor for files that change. */
#pragma once

#include <string.h>

#include "../../../monitors/memory/file_live.h"
#include "fixture.h"

static struct proto_file file1 = { .ino = 1,
				   .gen = 1,
				   .node = FAKE_STORAGE }; /* the one that requests name */
static struct pm_file_state state;

/* Write @len bytes of @bytes at @pos, as a processor does: pages, each with its range. */
static inline int write_at(struct fake *f, size_t node, uint64_t pos, const void *bytes,
			   uint32_t len, uint32_t flags)
{
	static uint8_t body[2048], data[PM_FILE_WRITE_MAX * PAGE_SIZE];
	struct pm_file_write_req req = { .file = fake_sealed(file1, PROTO_VNODE_ROOT),
					 .size = flags & PM_FILE_INSIDE ? 0 : pos + len,
					 .flags = flags };
	struct pm_file_state_wire w;
	uint32_t done = 0;
	ssize_t n;
	int ret;

	memset(data, 0xee, sizeof(data));
	while (done < len) {
		const uint32_t first = (uint32_t)((pos + done) & PAGE_MASK_LOW);
		const uint32_t bit = MIN(len - done, (uint32_t)PAGE_SIZE - first);

		memcpy(data + req.nr_pages * PAGE_SIZE + first, (const uint8_t *)bytes + done, bit);
		req.pages[req.nr_pages++] = (struct pm_file_page){
			.pgoff = (pos + done) >> PAGE_SHIFT,
			.first = (uint16_t)first,
			.bytes = (uint16_t)bit,
		};
		done += bit;
	}
	n = pm_file_write_req_encode(&req, body, sizeof(body));
	if (n < 0)
		return (int)n;
	ret = memory_serve(&f->mem[node], FAKE_PROC, PM_FILE_WRITE, body, (uint32_t)n, data,
			   req.nr_pages * (uint32_t)PAGE_SIZE, &w, sizeof(w), NULL);
	return ret < 0 ? ret : pm_file_state_decode(&w, (size_t)ret, &state);
}

static inline int sync_file(struct fake *f)
{
	return write_at(f, 0, 0, NULL, 0, PM_FILE_SYNC);
}

static inline int change(struct fake *f, uint32_t op, uint64_t off, uint64_t len)
{
	const struct pm_file_change_req req = {
		.file = fake_sealed(file1, PROTO_VNODE_ROOT), .op = op, .off = off, .len = len
	};
	struct pm_file_change_req_wire rw;
	struct pm_file_state_wire w;
	int ret;

	pm_file_change_req_encode(&req, &rw);
	ret = memory_serve(&f->mem[0], FAKE_PROC, PM_FILE_CHANGE, &rw, sizeof(rw), NULL, 0, &w,
			   sizeof(w), NULL);
	return ret < 0 ? ret : pm_file_state_decode(&w, (size_t)ret, &state);
}

static inline int open_at(struct fake *f, size_t node)
{
	const struct pm_file_open_req req = { .file = fake_sealed(file1, PROTO_VNODE_ROOT) };
	struct pm_file_open_req_wire rw;
	struct pm_file_state_wire w;
	int ret;

	pm_file_open_req_encode(&req, &rw);
	ret = memory_serve(&f->mem[node], FAKE_PROC, PM_FILE_OPEN, &rw, sizeof(rw), NULL, 0, &w,
			   sizeof(w), NULL);
	return ret < 0 ? ret : pm_file_state_decode(&w, (size_t)ret, &state);
}

static inline void start(struct fake *f, size_t nr, uint64_t size)
{
	fake_start(f, nr, 4096, 30);
	f->files[0] = (struct fake_file){ .size = size, .version = 1 };
}

static inline bool reads(struct fake *f, uint64_t pos, const void *bytes, uint32_t len)
{
	static uint8_t got[64 << 10];

	return page_cache_copy(&f->mem[0], &file1, pos, got, len) == (int)len &&
	       !memcmp(got, bytes, len);
}

struct syncer {
	struct fake *f;
	int ret;
};

static inline void sync_thread(void *arg)
{
	struct syncer *s = arg;
	struct pm_file_write_req req = { .file = fake_sealed(file1, PROTO_VNODE_ROOT),
					 .flags = PM_FILE_SYNC };
	struct pm_file_state out;

	s->ret = file_write(&s->f->mem[0], &req, NULL, &out);
}
