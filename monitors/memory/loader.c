/* SPDX-License-Identifier: MIT */
/*
 * Home: PM_EXEC, loading a program into a new address space.
 *
 * Flow:	read the program's headers through the page cache, look its interpreter up at the
 *		storage node and read the interpreter's headers; make the space; lay out stack,
 *		program and interpreter; tell each owner in one message. Nothing is copied: pages
 *		come by demand. From low to high: a program at its own address (ET_EXEC) or at
 *		PIE_BASE, brk behind it, mappings downwards from below the stack, the stack at the
 *		top. A random seed shifts each of these, by about as many bits as in Linux.
 * Failure:	the space is taken apart again. The answer is that of Linux's execve: -ENOEXEC,
 *		-ELIBBAD for an interpreter that is none, the look-up's error if it is not there,
 *		-ENOMEM.
 */
#include <lib/alloc.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/hash.h>
#include <lib/string.h>
#include <proto/ps.h>

#include "elf.h"
#include "memory.h"

#define PIE_BASE       0x555555554000ull
#define STACK_MAX      (1ull << 40) /* of address space */
#define STACK_RND_BITS 22           /* pages: as Linux, 16 GiB */
#define MMAP_RND_BITS  28           /* pages: as Linux's default for mmap and PIE */
#define BRK_RND_BITS   13           /* pages: 32 MiB */
#define BRK_MAX        (1ull << 45)
#define MODE_TYPE      0170000u
#define MODE_REGULAR   0100000u

/* A program being loaded. */
struct load {
	struct memory *m;
	const struct pm_exec_req *req;
	struct home_space *as;
	uint64_t rnd; /* state of the random numbers; 0 = none are wanted */
	struct proto_attr interp_attr;
	struct elf_image prog;
	struct elf_image interp; /* valid if has_interp */
	bool has_interp;
	uint64_t prog_bias;
	uint64_t interp_bias;
	struct grants grants;
	const struct proto_file *reading; /* whose first bytes are in @head; NULL: of an object */
	uint32_t head_len;                /* fewer than there is room for: all of the file */
	uint8_t head[ELF_READ_MAX];
};

/* A multiple of the page size below 2^@bits pages. */
static uint64_t random_pages(struct load *ld, unsigned int bits)
{
	if (!ld->rnd)
		return 0;
	ld->rnd = hash64(ld->rnd + 0x9e3779b97f4a7c15ull);
	return (ld->rnd >> (64 - bits)) << PAGE_SHIFT;
}

/* --- reading --------------------------------------------------------------------------- */

static int program_read(struct memory *m, const struct proto_file *file, uint64_t offset, void *buf,
			uint32_t len)
{
	const struct mm_file_read_req req = { *file, offset, len };
	const uint32_t node = memory_cache_node(m, file);
	struct mm_file_read_req_wire w;

	if (!node)
		return -EHOSTDOWN;
	mm_file_read_req_encode(&req, &w);
	return memory_call(m, node, MM_FILE_READ, &w, sizeof(w), buf, len);
}

/* Almost every program has its headers and PT_INTERP in the first page: that is read once. */
static int source_read(void *arg, uint64_t offset, void *buf, uint32_t len)
{
	const struct load *ld = arg;
	uint32_t n = 0;

	if (ld->reading && offset + len > ld->head_len && ld->head_len == sizeof(ld->head))
		return program_read(ld->m, ld->reading, offset, buf, len);
	if (offset < ld->head_len)
		n = MIN(len, ld->head_len - (uint32_t)offset);
	memcpy(buf, ld->head + offset, n);
	return (int)n;
}

static int read_image(struct load *ld, const struct proto_file *file, struct elf_image *img)
{
	const struct elf_source src = { source_read, ld };
	const int n = program_read(ld->m, file, 0, ld->head, sizeof(ld->head));

	if (n < 0)
		return n;
	if ((size_t)n > sizeof(ld->head))
		return -EPROTO;
	ld->reading = file;
	ld->head_len = (uint32_t)n;
	return elf_read(&src, img);
}

/* The program itself: a file, or an object whose beginning has come with the request. */
static int read_program(struct load *ld)
{
	const struct elf_source src = { source_read, ld };

	static_assert(PM_EXEC_HEAD_MAX <= sizeof(ld->head), "there is room for the beginning");
	if (!ld->req->object)
		return read_image(ld, &ld->req->file, &ld->prog);
	memcpy(ld->head, ld->req->head, ld->req->head_len);
	ld->head_len = ld->req->head_len;
	return elf_read(&src, &ld->prog);
}

/* Find the file of @len bytes of @path, as the program's user would. */
static int lookup_interp(struct load *ld, const char *path, size_t path_len)
{
	const struct ps_path_req req = {
		.cred = ld->req->cred,
		.vnode = ld->req->vnode,
		.access = 1, /* X */
		/* A path of the processor's is canonical: a link in it is another file by now. */
		.flags = ld->req->interp_len ? PS_LOOKUP_NOFOLLOW : 0,
		.canon_len = ld->req->interp_len ? (uint16_t)path_len : 0,
		.path_len = (uint16_t)path_len,
		.path = path,
	};
	const size_t cap = MAX(sizeof(struct ps_path_req_wire), sizeof(struct ps_lookup_rep_wire)) +
			   PROTO_MAX_GROUPS * sizeof(le32_t) + PROTO_PATH_MAX;
	const uint32_t storage = ld->req->storage ? ld->req->storage : ld->req->file.node;
	uint8_t *buf = lib_alloc(cap);
	struct ps_lookup_rep rep;
	ssize_t len;
	int ret;

	if (!buf)
		return -ENOMEM;
	len = ps_path_req_encode(&req, buf, cap);
	if (len < 0 || !storage)
		ret = -ENOENT; /* not absolute, or too long, or nowhere to look */
	else
		ret = memory_call(ld->m, storage, MS_LOOKUP, buf, (uint32_t)len, buf,
				  (uint32_t)cap);
	if (ret >= 0)
		ret = ps_lookup_rep_decode(buf, (size_t)ret, &rep);
	if (!ret && (rep.attr.mode & MODE_TYPE) != MODE_REGULAR)
		ret = -EACCES;
	/* It would say that this node is gone. */
	if (ret == -EHOSTDOWN)
		ret = -EIO;
	if (!ret)
		ld->interp_attr = rep.attr;
	lib_free(buf);
	return ret;
}

static int read_interp(struct load *ld)
{
	int err;

	if (!ld->prog.interp)
		return 0;
	if (ld->req->interp_len)
		err = lookup_interp(ld, ld->req->interp, ld->req->interp_len);
	else
		err = ld->prog.interp[0] == '/'
			      ? lookup_interp(ld, ld->prog.interp, strlen(ld->prog.interp))
			      : -ENOENT;
	if (err)
		return err;
	err = read_image(ld, &ld->interp_attr.file, &ld->interp);
	if (err == -ENOEXEC)
		err = -ELIBBAD;
	ld->has_interp = !err;
	return err;
}

/* --- mapping --------------------------------------------------------------------------- */

/* In the range map only: the owners hear of it when all is laid out. */
static int lay_out(struct load *ld, const struct pm_vma *v)
{
	struct area_spare spare = AREA_SPARE(ld->m, ld->as->proc);
	const int err = area_spare_fill(&spare, 1);

	if (!err)
		area_insert(&ld->as->map, v, &spare);
	area_spare_free(&spare);
	return err;
}

/* @file: NULL for the object that the request names. */
static int map_segment(struct load *ld, const struct proto_file *file, const struct elf_segment *s,
		       uint64_t bias)
{
	const uint64_t vaddr = s->vaddr + bias;
	struct pm_vma v = {
		.start = ALIGN_DOWN(vaddr, PAGE_SIZE),
		.end = ALIGN_UP(vaddr + s->memsz, PAGE_SIZE),
		.prot = s->prot,
	};

	if (v.start < HOME_MMAP_MIN || v.end > PM_USER_TOP)
		return -ENOEXEC;
	if (s->filesz) {
		v.flags = file ? PM_VMA_FILE : PM_VMA_OBJECT;
		if (file)
			v.file = *file;
		else
			v.object = ld->req->object;
		v.pgoff = ALIGN_DOWN(s->offset, PAGE_SIZE) >> PAGE_SHIFT;
		v.cache_node = file ? memory_cache_node(ld->m, file) : 0;
		/*
		 * A segment that the file fills shows whole pages, so that its lines can be
		 * shared.
		 */
		v.file_bytes =
			s->memsz > s->filesz ? (vaddr & PAGE_MASK_LOW) + s->filesz : UINT64_MAX;
	}
	if (!area_range_is_free(&ld->as->map, v.start, v.end))
		return -ENOEXEC;
	return lay_out(ld, &v);
}

static int map_image(struct load *ld, const struct proto_file *file, const struct elf_image *img,
		     uint64_t bias)
{
	int err = 0;

	for (uint32_t i = 0; i < img->nr_segments && !err; i++)
		err = map_segment(ld, file, &img->segments[i], bias);
	return err;
}

/* The stack, and below it the top of the mapping area. */
static int map_stack(struct load *ld, struct pm_exec_rep *rep) __must_hold(&ld->as->mutex)
{
	const uint64_t size = MIN(MAX(ld->req->stack_size, 128ull << 10), STACK_MAX);
	struct pm_vma v = {
		.prot = PM_PROT_READ | PM_PROT_WRITE,
		.flags = PM_VMA_STACK,
	};

	v.end = PM_USER_TOP - PAGE_SIZE - random_pages(ld, STACK_RND_BITS);
	v.start = v.end - size;
	if (ld->prog.stack_x)
		v.prot |= PM_PROT_EXEC;
	rep->stack_top = v.end;
	rep->stack_bottom = v.start;
	rep->flags = ld->prog.stack_x ? PM_EXEC_STACK_X : 0;
	ld->as->mmap_top =
		ALIGN_DOWN(v.start - PM_STACK_GUARD - random_pages(ld, MMAP_RND_BITS), PAGE_SIZE);
	return lay_out(ld, &v);
}

static int map_program(struct load *ld)
{
	const struct elf_image *img = &ld->prog;

	if (img->dyn)
		ld->prog_bias = ALIGN_DOWN(PIE_BASE + random_pages(ld, MMAP_RND_BITS), img->align) -
				ALIGN_DOWN(img->start, img->align);
	return map_image(ld, ld->req->object ? NULL : &ld->req->file, img, ld->prog_bias);
}

static int map_interp(struct load *ld) __must_hold(&ld->as->mutex)
{
	const struct elf_image *img = &ld->interp;
	uint64_t addr;

	if (!ld->has_interp)
		return 0;
	if (img->dyn) {
		addr = place_find(&ld->as->map, ld->as->mmap_top, 0,
				  img->end - img->start + img->align - PAGE_SIZE, false);
		if (!addr)
			return -ENOMEM;
		ld->interp_bias = ALIGN_UP(addr, img->align) - ALIGN_DOWN(img->start, PAGE_SIZE);
	}
	return map_image(ld, &ld->interp_attr.file, img, ld->interp_bias);
}

/* --- the answer ------------------------------------------------------------------------ */

static void note_bounds(const struct load *ld, struct pm_exec_rep *rep)
{
	for (uint32_t i = 0; i < ld->prog.nr_segments; i++) {
		const struct elf_segment *s = &ld->prog.segments[i];
		const uint64_t start = s->vaddr + ld->prog_bias;

		if ((s->prot & PM_PROT_EXEC) && (!rep->code_start || start < rep->code_start))
			rep->code_start = start;
		if (s->prot & PM_PROT_EXEC)
			rep->code_end = MAX(rep->code_end, start + s->filesz);
		rep->data_start = MAX(rep->data_start, start);
		rep->data_end = MAX(rep->data_end, start + s->filesz);
	}
}

static void set_brk(struct load *ld, struct pm_exec_rep *rep) __must_hold(&ld->as->mutex)
{
	struct home_space *as = ld->as;

	as->brk_start = ld->prog.end + ld->prog_bias + random_pages(ld, BRK_RND_BITS);
	as->brk = as->brk_start;
	as->brk_max = MIN(as->brk_start + BRK_MAX, PM_USER_TOP);
	rep->brk_start = as->brk_start;
}

static void answer(struct load *ld, struct pm_exec_rep *rep) __must_hold(&ld->as->mutex)
{
	const struct home_space *as = ld->as;
	const struct area *area;

	assert_mutex_held(&as->mutex);
	rep->prog_entry = ld->prog.entry + ld->prog_bias;
	rep->entry = ld->has_interp ? ld->interp.entry + ld->interp_bias : rep->prog_entry;
	rep->interp_base =
		ld->has_interp ? ALIGN_DOWN(ld->interp.start, PAGE_SIZE) + ld->interp_bias : 0;
	rep->phdr = ld->prog.has_phdr ? ld->prog.phdr + ld->prog_bias : 0;
	rep->phent = ld->prog.phentsize;
	rep->phnum = ld->prog.phnum;
	rep->vregion_size = 1ull << ld->m->vregion_shift;
	note_bounds(ld, rep);
	/* The processor needs the version of what it maps: spared a question. */
	if (ld->has_interp) {
		rep->flags |= PM_EXEC_INTERP;
		rep->interp = ld->interp_attr;
	}
	for (area = area_above(&as->map, 0); area && rep->nr_vmas < PM_EXEC_MAX_VMAS;
	     area = area_next(area))
		rep->vmas[rep->nr_vmas++] = area->v;
	rep->nr_vregions =
		home_space_vregions(ld->m, as, 0, PM_USER_TOP, rep->vregions, PM_EXEC_MAX_VREGIONS);
	rep->nr_grants = ld->grants.nr;
	memcpy(rep->grants, ld->grants.grants, ld->grants.nr * sizeof(rep->grants[0]));
}

static int load_into(struct load *ld, struct pm_exec_rep *rep) __must_hold(&ld->as->mutex)
{
	int err;

	err = map_stack(ld, rep);
	if (!err)
		err = map_program(ld);
	if (!err)
		set_brk(ld, rep);
	if (!err)
		err = map_interp(ld);
	if (err == -ENOEXEC && ld->has_interp && ld->as->brk_start)
		err = -ELIBBAD;
	if (err)
		return err;
	if (ld->prog.entry + ld->prog_bias > PM_USER_TOP)
		return -ENOEXEC;
	err = span_load(ld->m, ld->as, ld->req->want_credits, &ld->grants);
	if (!err)
		answer(ld, rep);
	return err;
}

int home_exec(struct memory *m, uint32_t proc, uint32_t incarn, const struct pm_exec_req *req,
	      struct pm_exec_rep *rep)
{
	struct load *ld;
	int err;

	if (req->object && home_space_is_others(m, req->object, proc))
		return -ESRCH;
	ld = lib_zalloc(sizeof(*ld));
	if (!ld)
		return -ENOMEM;
	ld->m = m;
	ld->req = req;
	ld->rnd = req->random_seed;
	err = read_program(ld);
	if (err)
		goto out_free;
	err = read_interp(ld);
	if (err)
		goto out_images;
	ld->as = home_space_create(m, req->aspace, proc, req->vnode, SPACE_MAPPED, incarn);
	if (IS_ERR(ld->as)) {
		err = (int)PTR_ERR(ld->as);
		goto out_images;
	}
	assert_mutex_held(&ld->as->mutex);
	err = load_into(ld, rep);
	home_space_unlock(ld->as);
	if (err)
		(void)home_destroy_space(m, req->aspace, proc);
	else
		STAT_INC(m, execs);
out_images:
	elf_free(&ld->prog);
	if (ld->has_interp)
		elf_free(&ld->interp);
out_free:
	lib_free(ld);
	return err;
}
