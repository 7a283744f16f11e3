/* SPDX-License-Identifier: MIT */
/*
 * exec: a new address space from the home memory node, and the initial stack.
 *
 * Flow:	the home reads the ELF file and makes the vmas; we write the stack (strings,
 *		auxiliary vector, pointers) into p-local lines of the new space, and make up the
 *		registers.
 *		The stack begins as the System V ABI for x86-64, section 3.4.1, says: argc, argv[],
 *		NULL, envp[], NULL, auxv[], NULL; the stack pointer is 16-byte aligned and points
 *		to argc.
 * Failure:	the errno of execve(2); the new space is dropped.
 */
#include <abi/elf.h>
#include <arch/cpu.h>
#include <arch/trap.h>
#include <kernel/random.h>
#include <lib/err.h>
#include <lib/fmt.h>
#include <lib/string.h>
#include <managers/placement.h>
#include <mm/slab.h>
#include <net/node.h>
#include <processor/excache/excache.h>
#include <processor/mm/aspace.h>
#include <processor/mm/remote.h>
#include <processor/ns/user_ns.h>
#include <processor/vdso/vdso.h>

#include "process.h"
#include "process_private.h"

#define STACK_MAX_ADDR_SPACE (1ull << 30)   /* an unlimited stack gets this much address space */
#define STACK_MIN            (256ull << 10) /* whatever RLIMIT_STACK says: arguments have to fit */
#define STACK_SPARE          (128ull << 10) /* below the arguments, from the start */
#define ARG_MAX_BYTES        (6ull << 20)   /* as Linux: three quarters of 8 MiB */
#define ARG_MIN_BYTES        (128ull << 10)

/* Writes downwards into the new space's stack, through p-local lines. */
struct stack {
	struct aspace *as;
	vaddr_t sp;
	vaddr_t limit; /* lowest address that arguments may use */
	struct line *line;
	vaddr_t page; /* of @line */
	int err;      /* sticky */
};

static void stack_release(struct stack *s)
{
	if (s->line) {
		line_mark_dirty(s->line);
		excache_put(s->line);
	}
	s->line = NULL;
}

/* The kernel address of byte @addr of the stack; NULL after an error. */
static uint8_t *stack_at(struct stack *s, vaddr_t addr)
{
	const vaddr_t page = addr & ~(vaddr_t)(PAGE_SIZE - 1);

	if (s->err)
		return NULL;
	if (!s->line || s->page != page) {
		stack_release(s);
		s->err = object_stored(s->as->anon, page >> PAGE_SHIFT)
				 ? excache_get(s->as->anon, page >> PAGE_SHIFT, EXCACHE_FETCH,
					       &s->line)
				 : excache_get(s->as->anon, page >> PAGE_SHIFT, EXCACHE_ZERO,
					       &s->line);
		s->page = page;
		if (s->err) {
			s->line = NULL;
			return NULL;
		}
	}
	return (uint8_t *)line_data(s->line) + (addr - page);
}

static void stack_write(struct stack *s, vaddr_t addr, const void *src, size_t len)
{
	const uint8_t *from = src;

	while (len > 0) {
		const size_t n = MIN(len, (size_t)(PAGE_SIZE - (addr & (PAGE_SIZE - 1))));
		uint8_t *to = stack_at(s, addr);

		if (!to)
			return;
		memcpy(to, from, n);
		addr += n;
		from += n;
		len -= n;
	}
}

/* Push bytes; returns their address, or 0 after an error. */
static vaddr_t stack_push(struct stack *s, const void *src, size_t len)
{
	if (s->err)
		return 0;
	if (len > s->sp - s->limit) {
		s->err = -E2BIG;
		return 0;
	}
	s->sp -= len;
	stack_write(s, s->sp, src, len);
	return s->err ? 0 : s->sp;
}

struct words { /* the block of 8-byte words at the end of the stack, written upwards */
	struct stack *s;
	vaddr_t at;
};

static void word(struct words *w, uint64_t val)
{
	stack_write(w->s, w->at, &val, sizeof(val));
	w->at += sizeof(val);
}

static void aux(struct words *w, uint64_t type, uint64_t val)
{
	word(w, type);
	word(w, val);
}

/* Pointers to @n strings that stand one behind the other from @addr in the user's stack. */
static void string_pointers(struct words *w, const char *strings, size_t n, vaddr_t addr)
{
	for (size_t i = 0; i < n; i++) {
		const size_t len = strlen(strings) + 1;

		word(w, addr);
		addr += len;
		strings += len;
	}
	word(w, 0);
}

static int check_strings(const struct exec_args *args)
{
	const char *runs[2] = { args->argv, args->envp };
	const size_t counts[2] = { args->argc, args->envc };

	for (size_t r = 0; r < 2; r++) {
		const char *s = runs[r];

		for (size_t i = 0; i < counts[r]; i++) {
			const size_t len = strlen(s) + 1;

			if (len > EXEC_STRING_MAX)
				return -E2BIG;
			s += len;
		}
	}
	return 0;
}

#define NR_AUX      23
#define EXEC_RANDOM 16u /* bytes for the program: AT_RANDOM */

static void push_words(struct stack *s, const struct exec_args *args,
		       const struct program_layout *layout, const struct cred *cred, vaddr_t argv,
		       vaddr_t envp, vaddr_t execfn, vaddr_t platform, vaddr_t random)
{
	const size_t nr = 1 + args->argc + 1 + args->envc + 1 + 2 * NR_AUX;
	struct words w = { .s = s };

	s->sp &= ~(vaddr_t)15;
	if (s->err || nr * 8 + 16 > s->sp - s->limit) {
		s->err = s->err ? s->err : -E2BIG;
		return;
	}
	s->sp -= nr * 8;
	s->sp &= ~(vaddr_t)15;
	w.at = s->sp;
	word(&w, args->argc);
	string_pointers(&w, args->argv, args->argc, argv);
	string_pointers(&w, args->envp, args->envc, envp);
	s->as->auxv_start = w.at;
	/* 0 means that there is none, to every C library. */
	aux(&w, AT_SYSINFO_EHDR, s->as->vdso);
	aux(&w, AT_HWCAP, cpuid(1, 0).edx);
	aux(&w, AT_PAGESZ, PAGE_SIZE);
	aux(&w, AT_CLKTCK, 100);
	aux(&w, AT_PHDR, layout->phdr);
	aux(&w, AT_PHENT, layout->phent);
	aux(&w, AT_PHNUM, layout->phnum);
	aux(&w, AT_BASE, layout->interp_base);
	aux(&w, AT_FLAGS, 0);
	aux(&w, AT_ENTRY, layout->prog_entry);
	aux(&w, AT_UID, id_out_to(cred->user_ns, ID_USER, cred->uid));
	aux(&w, AT_EUID, id_out_to(cred->user_ns, ID_USER, cred->euid));
	aux(&w, AT_GID, id_out_to(cred->user_ns, ID_GROUP, cred->gid));
	aux(&w, AT_EGID, id_out_to(cred->user_ns, ID_GROUP, cred->egid));
	aux(&w, AT_SECURE, 0);
	aux(&w, AT_RANDOM, random);
	aux(&w, AT_HWCAP2, cpu_features.fsgsbase ? 2 : 0);
	aux(&w, AT_RSEQ_FEATURE_SIZE, RSEQ_FEATURE_SIZE);
	aux(&w, AT_RSEQ_ALIGN, RSEQ_ALIGN);
	aux(&w, AT_EXECFN, execfn);
	aux(&w, AT_PLATFORM, platform);
	aux(&w, AT_MINSIGSTKSZ, 4096);
	aux(&w, AT_NULL, 0);
	s->as->auxv_end = w.at;
}

static int build_stack(struct aspace *as, const struct exec_args *args,
		       const struct program_layout *layout, const struct cred *cred,
		       uint64_t arg_limit, const uint8_t *random, vaddr_t *sp)
{
	struct stack s = {
		.as = as,
		.sp = layout->stack_top -
		      16, /* a word of zero at the very top, as Linux leaves it */
		.limit = layout->stack_top -
			 MIN(arg_limit, layout->stack_top - layout->stack_bottom),
	};
	vaddr_t execfn, envp, argv, platform, random_at;

	execfn = stack_push(&s, args->path, strlen(args->path) + 1);
	envp = stack_push(&s, args->envp, args->envp_len);
	argv = stack_push(&s, args->argv, args->argv_len);
	platform = stack_push(&s, "x86_64", 7);
	random_at = stack_push(&s, random, EXEC_RANDOM);
	as->arg_start = argv;
	as->arg_end = argv + args->argv_len;
	as->env_start = envp;
	as->env_end = envp + args->envp_len;
	push_words(&s, args, layout, cred, argv, envp, execfn, platform, random_at);
	stack_release(&s);
	*sp = s.sp;
	return s.err;
}

/* How much of the stack a program has from the start, as on Linux. */
static vaddr_t first_stack(const struct aspace *as, vaddr_t sp, uint64_t limit)
{
	const uint64_t most = MIN(limit, as->stack_top - as->stack_bottom);
	const uint64_t used = as->stack_top - (sp & ~(vaddr_t)(PAGE_SIZE - 1));

	return as->stack_top -
	       (MAX(MIN(used + STACK_SPARE, most), used) & ~(uint64_t)PAGE_MASK_LOW);
}

static void take_layout(struct aspace *as, const struct program_layout *layout)
{
	as->brk_start = layout->brk_start;
	as->brk = layout->brk_start;
	as->stack_top = layout->stack_top;
	as->stack_bottom = layout->stack_bottom;
	as->code_start = layout->code_start;
	as->code_end = layout->code_end;
	as->data_start = layout->data_start;
	as->data_end = layout->data_end;
}

static struct aspace *new_space(void)
{
	const uint64_t number = object_new_number();
	const uint32_t home = gmm_home_for(number);

	return home ? aspace_create(object_id(home, number), home) : ERR_PTR(-EHOSTDOWN);
}

/* Linux's rule for the size of the arguments under the same limit. */
uint64_t exec_arg_limit(uint64_t stack_limit)
{
	return MAX(MIN(stack_limit / 4, ARG_MAX_BYTES), ARG_MIN_BYTES);
}

/* A space with @prog in it. When the home is gone before it has answered, another one is asked. */
static struct aspace *load_space(const struct exec_program *prog, const struct fs_cred *cred,
				 uint64_t stack_size, uint64_t seed, struct program_layout *layout)
{
	int err = -EHOSTDOWN;

	for (int tries = 0; err == -EHOSTDOWN && tries < 2; tries++) {
		struct aspace *as = new_space();

		if (IS_ERR(as))
			return as;
		err = remote_exec(as, prog, cred, stack_size, seed, layout);
		if (!err)
			return as;
		aspace_put(as);
	}
	return ERR_PTR(err);
}

int exec_load(const struct cred *cred, uint64_t stack_limit, const struct exec_args *args,
	      const struct exec_program *prog, struct aspace **out, struct pt_regs *regs)
{
	const uint64_t stack_size = MAX(MIN(stack_limit, STACK_MAX_ADDR_SPACE), STACK_MIN);
	struct program_layout layout;
	struct fs_cred pc;
	struct aspace *as;
	struct { /* drawn at once: a draw costs as much as a page fault */
		uint64_t seed, vdso;
		uint8_t user[EXEC_RANDOM];
	} random;
	int err = check_strings(args);

	if (err)
		return err;
	cred_to_fs(cred, &pc);
	if (prog->interp)
		pc = (struct fs_cred){ 0 }; /* the caller has walked there with its own */
	random_bytes(&random, sizeof(random));
	as = load_space(prog, &pc, stack_size, args->fixed ? 0 : random.seed | 1, &layout);
	if (IS_ERR(as))
		return PTR_ERR(as);
	take_layout(as, &layout);
	as->vdso = vdso_place(args->fixed ? 0 : random.vdso);
	memset(regs, 0, sizeof(*regs));
	regs->rip = layout.entry;
	regs->rflags = RFLAGS_IF;
	regs->cs = SEL_USER_CS;
	regs->ss = SEL_USER_DS;
	err = build_stack(as, args, &layout, cred, exec_arg_limit(stack_limit), random.user,
			  &regs->rsp);
	if (err) {
		aspace_put(as);
		return err;
	}
	as->stack_low = first_stack(as, regs->rsp, stack_limit);
	*out = as;
	return 0;
}
