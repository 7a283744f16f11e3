/* SPDX-License-Identifier: MIT */
/*
 * HCA model: all counters as one JSON object on one line.
 */
#include "hca.h"

#include <stdarg.h>
#include <stdio.h>

struct out {
	char *buf;
	size_t len, used;
};

static __printf(2, 3) void put(struct out *o, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(o->used < o->len ? o->buf + o->used : NULL,
		      o->used < o->len ? o->len - o->used : 0, fmt, ap);
	va_end(ap);
	o->used += n > 0 ? (size_t)n : 0;
}

static const char *state_name(enum port_state s)
{
	static const char *const names[] = { "", "DOWN", "INIT", "ARMED", "ACTIVE" };

	return names[s];
}

static void put_port(struct out *o, const struct hca *h, bool first)
{
	put(o, "%s{\"name\":\"%s\",\"lid\":%u,\"guid\":\"%016llx\",\"state\":\"%s\"",
	    first ? "" : ",", h->name, h->port.lid, (unsigned long long)h->port.guid,
	    state_name(h->port.state));
#define X(field) put(o, ",\"" #field "\":%llu", (unsigned long long)h->stats.field);
	HCA_STATS(X)
#undef X
	put(o, "}");
}

/* Returns the length needed; the text is whole when that is less than @len. */
size_t stats_json(struct fabric *f, char *buf, size_t len)
{
	struct out o = { .buf = buf, .len = len };
	const struct inject *in = &f->inject;
	uint64_t delayed = 0, faults = 0, dead = 0, overruns = 0, doubled = 0, errors = 0;
	uint64_t packets, lost;
	bool first = true;

	put(&o, "{\"ok\":true,\"ports\":[");
	for (unsigned i = 0; i < f->nr_hcas; i++) {
		if (!f->hcas[i])
			continue;
		put_port(&o, f->hcas[i], first);
		delayed += f->hcas[i]->stats.injected_delays;
		faults += f->hcas[i]->stats.injected_command_faults;
		dead += f->hcas[i]->stats.injected_catastrophes;
		overruns += f->hcas[i]->stats.injected_overruns;
		doubled += f->hcas[i]->stats.injected_duplicates;
		errors += f->hcas[i]->stats.injected_errors;
		first = false;
	}
	pcap_counts(f, &packets, &lost);
	put(&o,
	    "],\"injected\":{\"delayed\":%llu,\"breaks\":%llu,\"holds\":%llu,"
	    "\"link_changes\":%llu,\"kills\":%llu,\"command_faults\":%llu,"
	    "\"catastrophes\":%llu,\"overruns\":%llu,\"duplicates\":%llu,\"errors\":%llu},"
	    "\"capture\":{\"packets\":%llu,\"lost\":%llu}}",
	    (unsigned long long)delayed, (unsigned long long)in->breaks,
	    (unsigned long long)in->holds_set, (unsigned long long)in->link_changes,
	    (unsigned long long)in->kills, (unsigned long long)faults, (unsigned long long)dead,
	    (unsigned long long)overruns, (unsigned long long)doubled, (unsigned long long)errors,
	    (unsigned long long)packets, (unsigned long long)lost);
	return o.used;
}
