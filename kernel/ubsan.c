/* SPDX-License-Identifier: MIT */
/*
 * Handlers that code built with -fsanitize=undefined calls.
 *
 * Flow:	Output: one line with place, kind and value, then a backtrace; execution goes on.
 *		Tests fail on the word "UBSAN" in the log.
 *		ABI: the structures and names are the compiler's (gcc and clang agree).
 */
#include <kernel/ktest_run.h>

#include <kernel/panic.h>
#include <kernel/printk.h>

struct location {
	const char *file;
	uint32_t line;
	uint32_t column;
};

struct type_descriptor {
	uint16_t kind; /* 0: integer */
	uint16_t info; /* bit 0: signed; the rest: log2 of the width in bits */
	char name[];
};

struct data_overflow {
	struct location loc;
	struct type_descriptor *type;
};

struct data_shift {
	struct location loc;
	struct type_descriptor *lhs, *rhs;
};

struct data_bounds {
	struct location loc;
	struct type_descriptor *array, *index;
};

struct data_mismatch {
	struct location loc;
	struct type_descriptor *type;
	uint8_t log_align;
	uint8_t kind;
};

struct data_place {
	struct location loc;
};

struct data_value {
	struct location loc;
	struct type_descriptor *type;
};

struct data_nonnull {
	struct location loc;
	struct location attr;
};

static unsigned int nr_reports;

unsigned int ubsan_report_count(void)
{
	return __atomic_load_n(&nr_reports, __ATOMIC_RELAXED);
}

static void report(const struct location *loc, const char *what, uint64_t a, uint64_t b,
		   const char *type)
{
	__atomic_add_fetch(&nr_reports, 1, __ATOMIC_RELAXED);
	printk(LOG_ERR, "UBSAN: %s:%u:%u: %s (%#lx, %#lx, %s)\n", loc->file, loc->line, loc->column,
	       what, a, b, type);
	backtrace_print();
}

/* Values up to 64 bits are passed themselves, wider ones by address. */
static uint64_t value_of(const struct type_descriptor *t, uint64_t v)
{
	const unsigned int bits = 1u << (t->info >> 1);

	if (t->kind != 0)
		return v;
	return bits > 64 ? *(const uint64_t *)v : v;
}

#define OVERFLOW_HANDLER(op, what)                                                                \
	void __ubsan_handle_##op##_overflow(void *data, uint64_t a, uint64_t b);                  \
	void __ubsan_handle_##op##_overflow(void *data, uint64_t a, uint64_t b)                   \
	{                                                                                         \
		const struct data_overflow *d = data;                                             \
		report(&d->loc, what, value_of(d->type, a), value_of(d->type, b), d->type->name); \
	}

OVERFLOW_HANDLER(add, "signed addition overflows")
OVERFLOW_HANDLER(sub, "signed subtraction overflows")
OVERFLOW_HANDLER(mul, "signed multiplication overflows")
OVERFLOW_HANDLER(divrem, "division by zero or overflow")

void __ubsan_handle_negate_overflow(void *data, uint64_t v);
void __ubsan_handle_negate_overflow(void *data, uint64_t v)
{
	const struct data_overflow *d = data;

	report(&d->loc, "negation overflows", value_of(d->type, v), 0, d->type->name);
}

void __ubsan_handle_pointer_overflow(void *data, uint64_t base, uint64_t result);
void __ubsan_handle_pointer_overflow(void *data, uint64_t base, uint64_t result)
{
	const struct data_place *d = data;

	report(&d->loc, "pointer arithmetic overflows", base, result, "pointer");
}

void __ubsan_handle_shift_out_of_bounds(void *data, uint64_t lhs, uint64_t rhs);
void __ubsan_handle_shift_out_of_bounds(void *data, uint64_t lhs, uint64_t rhs)
{
	const struct data_shift *d = data;

	report(&d->loc, "shift out of bounds", value_of(d->lhs, lhs), value_of(d->rhs, rhs),
	       d->lhs->name);
}

void __ubsan_handle_out_of_bounds(void *data, uint64_t index);
void __ubsan_handle_out_of_bounds(void *data, uint64_t index)
{
	const struct data_bounds *d = data;

	report(&d->loc, "index out of bounds", value_of(d->index, index), 0, d->array->name);
}

void __ubsan_handle_type_mismatch_v1(void *data, uint64_t ptr);
void __ubsan_handle_type_mismatch_v1(void *data, uint64_t ptr)
{
	const struct data_mismatch *d = data;

	report(&d->loc, ptr ? "misaligned or too small object" : "null pointer", ptr,
	       1ull << d->log_align, d->type->name);
}

void __ubsan_handle_load_invalid_value(void *data, uint64_t v);
void __ubsan_handle_load_invalid_value(void *data, uint64_t v)
{
	const struct data_value *d = data;

	report(&d->loc, "value not valid for its type", value_of(d->type, v), 0, d->type->name);
}

void __ubsan_handle_vla_bound_not_positive(void *data, uint64_t v);
void __ubsan_handle_vla_bound_not_positive(void *data, uint64_t v)
{
	const struct data_value *d = data;

	report(&d->loc, "array length not positive", value_of(d->type, v), 0, d->type->name);
}

void __ubsan_handle_nonnull_arg(void *data);
void __ubsan_handle_nonnull_arg(void *data)
{
	const struct data_nonnull *d = data;

	report(&d->loc, "null argument", 0, 0, "pointer");
}

void __ubsan_handle_nonnull_return_v1(void *data, void *loc);
void __ubsan_handle_nonnull_return_v1(void *data, void *loc)
{
	const struct location *at = loc;

	report(at, "null return value", 0, 0, "pointer");
}

void __ubsan_handle_builtin_unreachable(void *data);
void __ubsan_handle_builtin_unreachable(void *data)
{
	const struct data_place *d = data;

	panic("UBSAN: %s:%u: unreachable code reached", d->loc.file, d->loc.line);
}
