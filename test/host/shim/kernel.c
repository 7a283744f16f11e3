/* SPDX-License-Identifier: MIT */
/*
 * Host shim: log, panics, boot parameters, init calls, interrupts, random bytes and counters.
 */
#include <arch/fwcfg.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <arch/cpu.h>
#include <arch/io.h>
#include <kernel/bootparam.h>
#include <kernel/counter.h>
#include <kernel/initcall.h>
#include <kernel/irq.h>
#include <kernel/panic.h>
#include <kernel/printk.h>
#include <kernel/random.h>
#include <kernel/reboot.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <lib/errno.h>
#include <lib/fmt.h>
#include <lib/prng.h>
#include <lib/string.h>
#include <shim/shim.h>

/*
 * --- log: kept for shim_log_contains(), and printed up to level TESSERA_LOG (0-3, default 0;
 * "off")
 */

#define LOG_KEEP (256 * 1024)

static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static char log_text[LOG_KEEP + 1]; /* oldest first; log_lock */
static size_t log_len;              /* log_lock */

static int log_limit(void)
{
	const char *s = getenv("TESSERA_LOG");
	uint32_t v;

	if (s && !strcmp(s, "off"))
		return -1;
	return s && kstrtou32(s, 10, &v) == 0 ? (int)v : LOG_ERR;
}

static void log_keep(const char *line, size_t len)
{
	if (log_len + len > LOG_KEEP) {
		const size_t drop = MIN(log_len, LOG_KEEP / 2 + len);

		memmove(log_text, log_text + drop, log_len - drop);
		log_len -= drop;
	}
	memcpy(log_text + log_len, line, len);
	log_len += len;
	log_text[log_len] = '\0';
}

void printk(enum log_level level, const char *fmt, ...)
{
	static const char *const names[] = { "error", "warning", "info", "debug" };
	char line[1024];
	size_t len;
	va_list ap;

	va_start(ap, fmt);
	len = vscnprintf(line, sizeof(line) - 1, fmt, ap);
	va_end(ap);
	if (len == 0 || line[len - 1] != '\n')
		line[len++] = '\n';

	pthread_mutex_lock(&log_lock);
	log_keep(line, len);
	if ((int)level <= log_limit())
		fprintf(stderr, "%s: %.*s", names[level], (int)len, line);
	pthread_mutex_unlock(&log_lock);
}

bool shim_log_contains(const char *text)
{
	bool found;

	pthread_mutex_lock(&log_lock);
	found = strstr(log_text, text) != NULL;
	pthread_mutex_unlock(&log_lock);
	return found;
}

void shim_log_clear(void)
{
	pthread_mutex_lock(&log_lock);
	log_len = 0;
	log_text[0] = '\0';
	pthread_mutex_unlock(&log_lock);
}

size_t log_read(char *buf, size_t len)
{
	size_t n;

	pthread_mutex_lock(&log_lock);
	n = MIN(len, log_len);
	memcpy(buf, log_text + log_len - n, n);
	pthread_mutex_unlock(&log_lock);
	return n;
}

bool log_ratelimit_ok(struct log_ratelimit *rl, uint32_t *dropped)
{
	(void)rl;
	*dropped = 0;
	return true;
}

void console_write(const char *s, size_t len)
{
	fwrite(s, 1, len, stderr);
}

static uint32_t node_id;

void shim_node_id_set(uint32_t id)
{
	node_id = id;
}

uint32_t log_node_id(void)
{
	return node_id;
}

/* --- panics --- */

_Thread_local jmp_buf *shim_panic_jmp;
_Thread_local char shim_panic_text[256];

static void __noreturn panic_end(void)
{
	if (shim_panic_jmp) {
		shim_preempt_depth = 0;
		longjmp(*shim_panic_jmp, 1);
	}
	fprintf(stderr, "panic: %s\n", shim_panic_text);
	abort();
}

void panic(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vscnprintf(shim_panic_text, sizeof(shim_panic_text), fmt, ap);
	va_end(ap);
	panic_end();
}

void bug_at(const char *file, int line, const char *cond)
{
	scnprintf(shim_panic_text, sizeof(shim_panic_text), "%s:%d: BUG_ON(%s)", file, line, cond);
	panic_end();
}

void warn_at(const char *file, int line, const char *cond)
{
	pr_err("%s:%d: WARN_ON(%s)\n", file, line, cond);
}

void backtrace_print(void)
{
}

void machine_poweroff(unsigned int status)
{
	panic("machine_poweroff(%u)", status);
}

void machine_reboot(void)
{
	panic("machine_reboot()");
}

void machine_halt(void)
{
	panic("machine_halt()");
}

/* --- boot parameters --- */

extern const struct boot_param *const bootparams_start[];
extern const struct boot_param *const bootparams_end[];

static int set_number(const struct boot_param *p, const char *value)
{
	uint64_t n;

	if (p->type == BOOT_PARAM_size ? parse_size(value, &n) : kstrtou64(value, 0, &n))
		return -EINVAL;
	if (n < p->min || n > p->max || (p->type == BOOT_PARAM_u32 && n > UINT32_MAX))
		return -EINVAL;
	if (p->type == BOOT_PARAM_u32)
		*p->var.u32 = (uint32_t)n;
	else
		*p->var.u64 = n;
	return 0;
}

static int set_param(const struct boot_param *p, const char *value)
{
	switch (p->type) {
	case BOOT_PARAM_bool:
		return parse_bool(value, p->var.b);
	case BOOT_PARAM_u32:
	case BOOT_PARAM_u64:
	case BOOT_PARAM_size:
		return set_number(p, value);
	case BOOT_PARAM_string:
		*p->var.str = value;
		return 0;
	case BOOT_PARAM_cb:
		return p->var.cb(value);
	}
	return -EINVAL;
}

/* No machine that hands files over. */
size_t fwcfg_read(const char *name, void *buf, size_t max)
{
	return 0;
}

int shim_bootparam_set(const char *name, const char *value)
{
	for (const struct boot_param *const *p = bootparams_start; p < bootparams_end; p++) {
		if (strcmp((*p)->name, name) == 0)
			return set_param(*p, value);
	}
	return -ENOENT;
}

const char *boot_cmdline(void)
{
	return "";
}

/* --- init calls --- */

extern const initcall_fn initcalls_early[];
extern const initcall_fn initcalls_end[];

/* Tests run the init calls when they like, and several times. */
bool initcalls_begun(enum initcall_level level)
{
	return false;
}

int shim_initcalls_run(void)
{
	for (const initcall_fn *fn = initcalls_early; fn < initcalls_end; fn++) {
		const int err = (*fn)();

		if (err)
			return err;
	}
	return 0;
}

/* --- interrupts --- */

#define FIRST_VECTOR 32u
#define NR_VECTORS   256u

static pthread_mutex_t irq_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
	irq_handler_t handler;
	void *arg;
} vectors[NR_VECTORS]; /* irq_lock */

int irq_alloc(irq_handler_t handler, void *arg, const char *name)
{
	int found = -ENOSPC;

	(void)name;
	pthread_mutex_lock(&irq_lock);
	for (unsigned int v = FIRST_VECTOR; v < NR_VECTORS && found < 0; v++) {
		if (!vectors[v].handler) {
			vectors[v].handler = handler;
			vectors[v].arg = arg;
			found = (int)v;
		}
	}
	pthread_mutex_unlock(&irq_lock);
	return found;
}

void irq_free(unsigned int vector)
{
	pthread_mutex_lock(&irq_lock);
	vectors[vector].handler = NULL;
	pthread_mutex_unlock(&irq_lock);
}

bool shim_irq_raise(unsigned int vector)
{
	irq_handler_t handler = NULL;

	pthread_mutex_lock(&irq_lock);
	if (vector < NR_VECTORS && vectors[vector].handler) {
		handler = vectors[vector].handler;
		shim_in_interrupt = true;
		handler(vector, vectors[vector].arg);
		shim_in_interrupt = false;
	}
	pthread_mutex_unlock(&irq_lock);
	return handler != NULL;
}

#define NR_LINES 24u /* of the usual controller */

static unsigned int line_vectors[NR_LINES]; /* irq_lock; 0: masked */

int irq_line_route(unsigned int line, unsigned int vector)
{
	if (line >= NR_LINES)
		return -ENODEV;
	pthread_mutex_lock(&irq_lock);
	line_vectors[line] = vector;
	pthread_mutex_unlock(&irq_lock);
	return 0;
}

void irq_line_mask(unsigned int line)
{
	/* From a handler, under the lock. */
	if (line < NR_LINES)
		line_vectors[line] = 0;
}

bool shim_line_raise(unsigned int line)
{
	const unsigned int vector = line < NR_LINES ? line_vectors[line] : 0;

	return vector && shim_irq_raise(vector);
}

uint64_t msi_address(unsigned int vector, unsigned int cpu)
{
	(void)vector;
	return 0xfee00000ULL | (uint64_t)cpu << 12;
}

uint32_t msi_data(unsigned int vector)
{
	return vector;
}

/* --- devices, random bytes, user memory --- */

const struct shim_mmio_ops *shim_mmio_ops;
unsigned int shim_nr_exec_rewrites;

void frame_rewrite_for_exec(void *page)
{
	(void)page;
	__atomic_fetch_add(&shim_nr_exec_rewrites, 1, __ATOMIC_RELAXED);
}

void frame_rewrite_quirk_set(bool on)
{
	(void)on;
}

static pthread_mutex_t random_lock = PTHREAD_MUTEX_INITIALIZER;
static struct prng random_state; /* random_lock */

/* The same bytes in every run, unless TESSERA_SEED says otherwise. */
static void __attribute__((constructor)) seed_random(void)
{
	const char *s = getenv("TESSERA_SEED");
	uint64_t seed = 1;

	if (s && kstrtou64(s, 0, &seed) != 0)
		fprintf(stderr, "TESSERA_SEED=%s is not a number, using 1\n", s);
	prng_seed(&random_state, seed);
}

uint64_t random_u64(void)
{
	uint64_t v;

	pthread_mutex_lock(&random_lock);
	v = prng_next(&random_state);
	pthread_mutex_unlock(&random_lock);
	return v;
}

__weak bool random_is_seeded(void)
{
	return true;
}

void random_bytes(void *buf, size_t len)
{
	uint8_t *p = buf;

	while (len) {
		const uint64_t v = random_u64();
		const size_t n = MIN(len, sizeof(v));

		memcpy(p, &v, n);
		p += n;
		len -= n;
	}
}

/* --- counters --- */

extern const struct counter *const counters_start[];
extern const struct counter *const counters_end[];
extern const struct gauge *const gauges_start[];
extern const struct gauge *const gauges_end[];

uint64_t counter_read(const struct counter *c)
{
	return __atomic_load_n(c->percpu, __ATOMIC_RELAXED);
}

bool counter_find(const char *name, uint64_t *value)
{
	for (const struct counter *const *c = counters_start; c < counters_end; c++) {
		if (strcmp((*c)->name, name) == 0) {
			*value = counter_read(*c);
			return true;
		}
	}
	for (const struct gauge *const *g = gauges_start; g < gauges_end; g++) {
		if (strcmp((*g)->name, name) == 0) {
			*value = (*g)->read();
			return true;
		}
	}
	return false;
}

ssize_t counters_format_json(char *buf, size_t len)
{
	size_t n = scnprintf(buf, len, "{");

	for (const struct counter *const *c = counters_start; c < counters_end; c++)
		n += scnprintf(buf + n, len - n, "%s\"%s\":%" PRIu64,
			       c == counters_start ? "" : ",", (*c)->name, counter_read(*c));
	n += scnprintf(buf + n, len - n, "}");
	return n + 1 < len ? (ssize_t)n : -ENOSPC;
}
