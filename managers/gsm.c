/* SPDX-License-Identifier: MIT */
/* GSM: the policy. */
#include <managers/policy.h>

#include <lib/errno.h>
#include <lib/fmt.h>
#include <lib/hash.h>
#include <lib/string.h>

static uint32_t hash_cache_node(const struct memory_nodes *nodes, const struct proto_file *file)
{
	const uint64_t hash = hash64_pair(file->ino, (uint64_t)file->gen << 32 | file->node);

	return nodes->ids[hash % nodes->nr];
}

static bool has_a_mount(const struct storage_nodes *nodes, uint32_t node)
{
	for (size_t i = 0; i < nodes->nr_mounts; i++) {
		if (nodes->mounts[i].node == node)
			return true;
	}
	return false;
}

/* A node that is away keeps its file system: its disk is there and nowhere else. */
static uint32_t configured_storage(const struct storage_nodes *nodes, const char *at)
{
	for (size_t i = 0; i < nodes->nr_mounts; i++) {
		if (!strcmp(nodes->mounts[i].at, at))
			return nodes->mounts[i].node;
	}
	for (size_t i = 0; i < nodes->nr; i++) {
		if (!has_a_mount(nodes, nodes->ids[i]))
			return nodes->ids[i];
	}
	return 0;
}

const struct gsm_ops gsm_hash = {
	.name = "hash",
	.cache_node = hash_cache_node,
	.storage = configured_storage,
};

/* --- the table of mounts ------------------------------------------------------------------ */

/* An absolute path without ".", "..", double slashes or one at its end, and not "/". */
static bool is_canonical(const char *path)
{
	while (*path == '/') {
		const char *name = ++path;
		size_t len;

		path = strchrnul(name, '/');
		len = (size_t)(path - name);
		if (!len || (len == 1 && name[0] == '.') ||
		    (len == 2 && name[0] == '.' && name[1] == '.'))
			return false;
	}
	return *path == '\0';
}

static int parse_one(char *text, struct gsm_mount *out)
{
	char *colon = strchr(text, ':');

	if (!colon)
		return -EINVAL;
	*colon = '\0';
	out->at = text;
	if (text[0] != '/' || !is_canonical(text) || kstrtou32(colon + 1, 10, &out->node))
		return -EINVAL;
	return out->node && out->node <= PROTO_NODE_MAX ? 0 : -EINVAL;
}

int gsm_mounts_parse(char *text, struct gsm_mount *mounts, size_t max, size_t *nr)
{
	size_t n = 0;

	for (char *next; text; text = next, n++) {
		next = strchr(text, ',');
		if (next)
			*next++ = '\0';
		if (n == max || parse_one(text, &mounts[n]))
			return -EINVAL;
		for (size_t i = 0; i < n; i++) {
			if (mounts[i].node == mounts[n].node || !strcmp(mounts[i].at, mounts[n].at))
				return -EINVAL;
		}
	}
	*nr = n;
	return 0;
}
