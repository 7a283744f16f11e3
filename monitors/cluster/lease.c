/* SPDX-License-Identifier: MIT */
/* A member's own clock of its lease: see membership.h. */
#include <cluster/membership.h>

#include <kernel/panic.h>
#include <kernel/time.h>

#define SLACK_NS NSEC_PER_SEC /* by which a look may be late before the node stood still */

void lease_start(struct own_lease *l, uint64_t now)
{
	*l = (struct own_lease){ .looked_ns = now };
}

bool lease_look(struct own_lease *l, uint64_t now, uint64_t waited_ns)
{
	const uint64_t gap = now > l->looked_ns ? now - l->looked_ns : 0;
	const bool ran = gap <= waited_ns + SLACK_NS;

	l->looked_ns = now;
	if (ran)
		l->ran_ns += gap;
	else
		l->heard_ns = l->ran_ns; /* the others have had no time to answer either */
	return ran;
}

void lease_renewed(struct own_lease *l)
{
	l->renewed_ns = l->ran_ns;
	l->heard_ns = l->ran_ns;
}

void lease_heard(struct own_lease *l)
{
	l->heard_ns = l->ran_ns;
}

bool lease_is_over(const struct own_lease *l, uint64_t lease_ns)
{
	ASSERT(l->renewed_ns <= l->ran_ns && l->heard_ns <= l->ran_ns);
	return l->ran_ns - l->renewed_ns >= lease_ns;
}

bool lease_is_cut_off(const struct own_lease *l, uint64_t lease_ns)
{
	const uint64_t end = l->renewed_ns + lease_ns;

	return lease_is_over(l, lease_ns) && l->ran_ns - MAX(l->heard_ns, end) >= lease_ns / 2;
}
