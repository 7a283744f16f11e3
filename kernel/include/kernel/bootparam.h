/* SPDX-License-Identifier: MIT */
/*
 * Boot parameters: "name=value" words of the command line.
 *
 *	static uint32_t ways = 8;
 *	BOOT_PARAM("excache.ways", u32, ways, "lines per set");
 *
 * Words are separated by blanks; "..." quotes a value with blanks.  A bool may
 * stand alone ("debug") or be =0/1/on/off/yes/no.  u32 and u64 take decimal or
 * 0x; size takes a suffix K, M, G, T.  A string variable is `const char *`.
 * Numbers have a range; outside of it a value is malformed, as text that is no number is.
 * Failure:	a malformed value is named in the log with what would be right, and stops the boot
 *		with a non-zero exit; an unknown name is named and ignored (the roles have different
 *		parameters).  A name given twice: the last one counts.
 * Invariants:	the launcher (bootparams.py) reads the table from the image, so as to refuse a word
 *		before anything starts: it knows the layout of struct boot_param.
 * See:		docs/boot-params.md, one row per parameter (checked).
 */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>

enum boot_param_type {
	BOOT_PARAM_bool,
	BOOT_PARAM_u32,
	BOOT_PARAM_u64,
	BOOT_PARAM_size,
	BOOT_PARAM_string,
	BOOT_PARAM_cb,
};

struct boot_param {
	const char *name;
	const char *help;
	enum boot_param_type type;
	bool same;         /* nodes that differ in it do not work together */
	bool secret;       /* its value is never shown */
	uint64_t min, max; /* of u32, u64 and size */
	union {
		bool *b;
		uint32_t *u32;
		uint64_t *u64;
		const char **str;
		int (*cb)(const char *value); /* 0 or -EINVAL; value stays valid for ever */
	} var;
};
static_assert(offsetof(struct boot_param, same) == 20 && offsetof(struct boot_param, min) == 24 &&
		      offsetof(struct boot_param, var) == 40,
	      "the launcher reads it");

#define BOOT_PARAM_FIELD_bool   b
#define BOOT_PARAM_FIELD_u32    u32
#define BOOT_PARAM_FIELD_u64    u64
#define BOOT_PARAM_FIELD_size   u64
#define BOOT_PARAM_FIELD_string str

#define BOOT_PARAM_CAT2(a, b) a##b
#define BOOT_PARAM_CAT(a, b)  BOOT_PARAM_CAT2(a, b)
#define BOOT_PARAM_DECL(pname, ptype, psame, pmin, pmax, init, phelp)                             \
	static const struct boot_param BOOT_PARAM_CAT(boot_param_, __LINE__) = { .name = (pname), \
										 .help = (phelp), \
										 .type = (ptype), \
										 .same = (psame), \
										 .min = (pmin),   \
										 .max = (pmax),   \
										 init };          \
	static const struct boot_param *const BOOT_PARAM_CAT(boot_param_ptr_, __LINE__)           \
		__attribute__((used, section(".bootparam"))) =                                    \
			&BOOT_PARAM_CAT(boot_param_, __LINE__)

#define BOOT_PARAM(name, type, variable, help)                         \
	BOOT_PARAM_DECL(name, BOOT_PARAM_##type, false, 0, UINT64_MAX, \
			.var.BOOT_PARAM_FIELD_##type = &(variable), help)
/* A number from @min to @max. */
#define BOOT_PARAM_RANGE(name, type, variable, min, max, help)    \
	BOOT_PARAM_DECL(name, BOOT_PARAM_##type, false, min, max, \
			.var.BOOT_PARAM_FIELD_##type = &(variable), help)
/* The same, and nodes that differ in it do not work together. */
#define BOOT_PARAM_SAME(name, type, variable, min, max, help)    \
	BOOT_PARAM_DECL(name, BOOT_PARAM_##type, true, min, max, \
			.var.BOOT_PARAM_FIELD_##type = &(variable), help)
#define BOOT_PARAM_CB_SECRET(pname, fn, phelp)                                             \
	static const struct boot_param BOOT_PARAM_CAT(boot_param_,                         \
						      __LINE__) = { .name = (pname),       \
								    .help = (phelp),       \
								    .type = BOOT_PARAM_cb, \
								    .secret = true,        \
								    .max = UINT64_MAX,     \
								    .var.cb = (fn) };      \
	static const struct boot_param *const BOOT_PARAM_CAT(boot_param_ptr_, __LINE__)    \
		__attribute__((used, section(".bootparam"))) =                             \
			&BOOT_PARAM_CAT(boot_param_, __LINE__)
#define BOOT_PARAM_CB(name, fn, help) \
	BOOT_PARAM_DECL(name, BOOT_PARAM_cb, false, 0, UINT64_MAX, .var.cb = (fn), help)

/* The command line for logs: as given, but for the values of secret parameters. */
const char *boot_cmdline(void);

/*
 * Parse one word list against a table (NULL-terminated for tests); the kernel
 * calls it once at boot.  @line is modified and must live on.  Returns the
 * number of values that are malformed; unknown names do not count.
 */
unsigned int bootparam_parse(char *line, const struct boot_param *const *begin,
			     const struct boot_param *const *end);
/*
 * Copy the command line @line to @out as far as it fits, and put "..." in place of the values of
 * secret parameters.
 */
void bootparam_redact(const char *line, char *out, size_t size,
		      const struct boot_param *const *begin, const struct boot_param *const *end);
/* Parse the kernel's command line; called by kernel_main(). */
void bootparam_init(void);
