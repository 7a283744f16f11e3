/* SPDX-License-Identifier: MIT */
/*
 * Boot parameter parsing.
 *
 * Flow:	cut the line into words in place, find each in the table, store the
 *		value.  Strings point into the line, which therefore stays.
 * Failure:	see bootparam.h; the line comes from outside and is checked whole.
 */
#define PR_FMT "bootparam: "

#include <kernel/bootparam.h>

#include <kernel/boot.h>
#include <kernel/printk.h>
#include <kernel/reboot.h>
#include <lib/errno.h>
#include <lib/fmt.h>
#include <lib/string.h>

extern const struct boot_param *const bootparams_start[];
extern const struct boot_param *const bootparams_end[];

static char parse_buffer[4096];
static char shown[4096]; /* the line as logs may have it */

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n';
}

/*
 * Cut the next word off *line: blanks separate, double quotes (removed) protect.
 * NULL at the end; *closed is false when a quote was not.
 */
static char *next_word(char **line, bool *closed)
{
	char *in = *line;
	char *start;
	char *out;
	bool quoted = false;

	while (is_blank(*in))
		in++;
	if (!*in)
		return NULL;
	start = in;
	out = in;
	for (; *in && (quoted || !is_blank(*in)); in++) {
		if (*in == '"')
			quoted = !quoted;
		else
			*out++ = *in;
	}
	*line = *in ? in + 1 : in;
	*out = '\0';
	*closed = !quoted;
	return start;
}

static const struct boot_param *find_param(const char *name, const struct boot_param *const *begin,
					   const struct boot_param *const *end)
{
	for (; begin < end; begin++) {
		if (strcmp((*begin)->name, name) == 0)
			return *begin;
	}
	return NULL;
}

static unsigned int number_base(const char *s)
{
	return s[0] == '0' && (s[1] == 'x' || s[1] == 'X') ? 0 : 10;
}

static int store_number(const struct boot_param *p, const char *value)
{
	uint64_t n;
	int err = p->type == BOOT_PARAM_size ? parse_size(value, &n)
					     : kstrtou64(value, number_base(value), &n);

	if (err)
		return err;
	if (n < p->min || n > p->max || (p->type == BOOT_PARAM_u32 && n > UINT32_MAX))
		return -ERANGE;
	if (p->type == BOOT_PARAM_u32)
		*p->var.u32 = (uint32_t)n;
	else
		*p->var.u64 = n;
	return 0;
}

/* @value is NULL when the word had no '='. */
static int store(const struct boot_param *p, const char *value)
{
	if (!value && p->type != BOOT_PARAM_bool)
		return -EINVAL;
	switch (p->type) {
	case BOOT_PARAM_bool:
		if (!value) {
			*p->var.b = true;
			return 0;
		}
		return parse_bool(value, p->var.b);
	case BOOT_PARAM_u32:
	case BOOT_PARAM_u64:
	case BOOT_PARAM_size:
		return store_number(p, value);
	case BOOT_PARAM_string:
		*p->var.str = value;
		return 0;
	case BOOT_PARAM_cb:
		return p->var.cb(value);
	}
	return -EINVAL;
}

static void refuse(const struct boot_param *p, const char *value)
{
	const bool number = p->type == BOOT_PARAM_u32 || p->type == BOOT_PARAM_u64 ||
			    p->type == BOOT_PARAM_size;
	const uint64_t max = p->type == BOOT_PARAM_u32 ? MIN(p->max, (uint64_t)UINT32_MAX) : p->max;

	if (p->secret)
		pr_err("bad value for %s (%s)\n", p->name, p->help);
	else if (number)
		pr_err("bad value for %s: \"%s\", not a number from %llu to %llu (%s)\n", p->name,
		       value ? value : "", (unsigned long long)p->min, (unsigned long long)max,
		       p->help);
	else
		pr_err("bad value for %s: \"%s\" (%s)\n", p->name, value ? value : "", p->help);
}

unsigned int bootparam_parse(char *line, const struct boot_param *const *begin,
			     const struct boot_param *const *end)
{
	unsigned int refused = 0;
	bool closed;
	char *word;

	while ((word = next_word(&line, &closed))) {
		char *value = strchr(word, '=');
		const struct boot_param *p;

		if (value)
			*value++ = '\0';
		p = find_param(word, begin, end);
		if (!p) {
			pr_warn("unknown parameter \"%s\", ignored\n", word);
		} else if (!closed || store(p, value)) {
			refuse(p, value);
			refused++;
		}
	}
	return refused;
}

void bootparam_redact(const char *line, char *out, size_t size,
		      const struct boot_param *const *begin, const struct boot_param *const *end)
{
	static char words[4096]; /* one caller: the boot, or a test */
	char *rest = words, *word;
	size_t len = 0;
	bool closed;

	strlcpy(words, line, sizeof(words));
	out[0] = '\0';
	while ((word = next_word(&rest, &closed))) {
		char *at = strchr(word, '=');
		const char *value = at ? at + 1 : NULL;
		const struct boot_param *p;

		if (at)
			*at = '\0';
		p = find_param(word, begin, end);
		if (value && p && p->secret)
			value = "...";
		len += scnprintf(out + len, size - len, "%s%s%s%s", len ? " " : "", word,
				 value ? "=" : "", value ? value : "");
	}
}

const char *boot_cmdline(void)
{
	return shown;
}

void bootparam_init(void)
{
	bootparam_redact(boot_info.cmdline, shown, sizeof(shown), bootparams_start, bootparams_end);
	strlcpy(parse_buffer, boot_info.cmdline, sizeof(parse_buffer));
	if (bootparam_parse(parse_buffer, bootparams_start, bootparams_end)) {
		pr_err("a boot parameter cannot be used: the boot ends here\n");
		machine_poweroff(EXIT_STATUS_BOOT);
	}
}
