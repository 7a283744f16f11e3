/* SPDX-License-Identifier: MIT */
/* Messages to the owners of pages: what is said in terms of the ExCache becomes bytes here. */
#include "owner.h"

#include <proto/pm.h>

#include "object.h"

int owner_redirect_decode(const void *body, size_t len, uint64_t *index, struct vregion *out)
{
	struct pm_vregion v;
	const int err = pm_redirect_decode(body, len, &v);

	if (err)
		return err;
	*index = v.index;
	*out = (struct vregion){ .owner = v.owner, .version = v.version };
	return 0;
}
