/* SPDX-License-Identifier: MIT */
/*
 * HCA model: the log.  One line for each abnormal event, none for normal work.
 *
 * Limits:	LINES_PER_SEC lines per HCA, so that a hostile guest cannot fill
 *		the disk; what was left out is counted in the next line.
 */
#include "hca.h"

#include <stdarg.h>
#include <stdio.h>

#define LINES_PER_SEC 20u

static FILE *log_file;

void log_open(const char *path)
{
	FILE *f = fopen(path, "ae");

	if (!f) {
		model_log("cannot open log %s: %m", path);
		return;
	}
	setvbuf(f, NULL, _IOLBF, 0);
	if (log_file)
		fclose(log_file);
	log_file = f;
}

static __printf(2, 0) void emit(const char *who, const char *fmt, va_list ap)
{
	FILE *f = log_file ? log_file : stderr;
	uint64_t now = host_time_ns();

	fprintf(f, "[%6llu.%06llu] %s: ", (unsigned long long)(now / NSEC_PER_SEC),
		(unsigned long long)(now % NSEC_PER_SEC / 1000), who);
	vfprintf(f, fmt, ap);
	fputc('\n', f);
}

void model_log(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	emit("hca", fmt, ap);
	va_end(ap);
}

void hca_log(struct hca *h, const char *fmt, ...)
{
	uint64_t second = host_time_ns() / NSEC_PER_SEC;
	va_list ap;

	if (second != h->log_second) {
		if (h->log_lost)
			model_log("%s: %u lines left out", h->name, h->log_lost);
		h->log_second = second;
		h->log_lines = 0;
		h->log_lost = 0;
	}
	if (++h->log_lines > LINES_PER_SEC) {
		h->log_lost++;
		return;
	}
	va_start(ap, fmt);
	emit(h->name, fmt, ap);
	va_end(ap);
}
