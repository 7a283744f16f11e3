/* SPDX-License-Identifier: MIT */
/* Boot parameters of membership. */
#include <cluster/membership.h>

#include <arch/fwcfg.h>
#include <cluster/cluster.h>
#include <kernel/bootparam.h>
#include <lib/blake2b.h>
#include <lib/byteorder.h>
#include <lib/errno.h>
#include <lib/fmt.h>
#include <lib/string.h>

struct cluster_params cluster_params = {
	.wait_ms = 60000,
	.heartbeat_ms = 2000,
	.lease_ms = 15000,
};

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

static int parse_gid(const char *text, struct rdma_gid *gid)
{
	size_t nr = 0;

	for (; *text; text++) {
		const int d = hex_digit(*text);

		if (*text == ':' && nr % 4 == 0 && nr > 0)
			continue;
		if (d < 0 || nr == 32)
			return -EINVAL;
		gid->raw[nr / 2] = (uint8_t)(nr % 2 ? gid->raw[nr / 2] | d : d << 4);
		nr++;
	}
	return nr == 32 ? 0 : -EINVAL;
}

/* "lid:N", or "gid:" and 32 hexadecimal digits (colons between groups are allowed). */
static int parse_rendezvous(const char *text, struct cluster_params *out)
{
	struct rdma_gid gid;
	uint32_t lid;

	if (strncmp(text, "lid:", 4) == 0) {
		/* 0 and 0xc000 upwards (multicast) name no port. */
		if (kstrtou32(text + 4, 0, &lid) || lid == 0 || lid >= 0xc000)
			return -EINVAL;
		out->lid = (uint16_t)lid;
		out->by_gid = false;
	} else if (strncmp(text, "gid:", 4) == 0) {
		if (parse_gid(text + 4, &gid))
			return -EINVAL;
		out->gid = gid;
		out->by_gid = true;
	} else {
		return -EINVAL;
	}
	out->has_rendezvous = true;
	return 0;
}

static int set_rendezvous(const char *value)
{
	return parse_rendezvous(value, &cluster_params);
}

static int set_cluster(const char *value)
{
	const int err = view_parse_wanted(value, cluster_params.wanted);

	cluster_params.is_host = err == 0;
	return err;
}

/* @len bytes as hexadecimal digits at *@s, which is behind them then. */
static int take_bytes(const char **s, uint8_t *out, size_t len)
{
	for (size_t i = 0; i < 2 * len; i++, (*s)++) {
		const int d = hex_digit(**s);

		if (d < 0)
			return -EINVAL;
		out[i / 2] = (uint8_t)(i % 2 ? out[i / 2] | d : d << 4);
	}
	return 0;
}

static int take_start(const char **s, uint32_t *start)
{
	char digits[8];
	size_t n = 0;

	while (**s >= '0' && **s <= '9' && n < sizeof(digits) - 1)
		digits[n++] = *(*s)++;
	digits[n] = '\0';
	return kstrtou32(digits, 10, start) || *start > NODE_START_MAX ? -EINVAL : 0;
}

static struct siphash_key file_key_from(const uint8_t bytes[CLUSTER_FILE_KEY_LEN])
{
	return (struct siphash_key){ get_unaligned_le64(bytes), get_unaligned_le64(bytes + 8) };
}

/*
 * The key, perhaps ":N" for the number of the start, and behind that perhaps ":" and the key of
 * handles, with nothing but a line's end behind them.
 */
static int parse_key(const char *text, struct cluster_params *out, uint32_t *start)
{
	uint8_t file_key[CLUSTER_FILE_KEY_LEN];
	bool has_file_key = false;
	int err;

	*start = 0;
	err = take_bytes(&text, out->key, RPC_KEY_LEN);
	if (!err && *text == ':') {
		text++;
		err = take_start(&text, start);
		if (!err && *text == ':') {
			text++;
			err = take_bytes(&text, file_key, sizeof(file_key));
			has_file_key = true;
		}
	}
	if (err || (strcmp(text, "") && strcmp(text, "\n")))
		return -EINVAL;
	out->has_file_key = has_file_key;
	if (has_file_key)
		out->file_key = file_key_from(file_key);
	return 0;
}

static int set_key(const char *value)
{
	uint32_t start;
	const int err = parse_key(value, &cluster_params, &start);

	cluster_params.has_key = err == 0;
	if (!err)
		node_start_set(start);
	return err;
}

void cluster_file_key_of(const uint8_t cluster_key[RPC_KEY_LEN], uint8_t out[CLUSTER_FILE_KEY_LEN])
{
	static const char label[] = "tessera file key";

	blake2b(out, CLUSTER_FILE_KEY_LEN, cluster_key, RPC_KEY_LEN, label, sizeof(label) - 1);
}

const struct siphash_key *cluster_file_key(void)
{
	return cluster_params.has_file_key ? &cluster_params.file_key : NULL;
}

int cluster_key_find(void)
{
	char text[2 * RPC_KEY_LEN + 8 + 2 * CLUSTER_FILE_KEY_LEN + 2];
	uint8_t file_key[CLUSTER_FILE_KEY_LEN];
	size_t len;

	if (!cluster_params.has_key) {
		len = fwcfg_read(CLUSTER_KEY_FILE, text, sizeof(text) - 1);
		text[len] = '\0';
		if (!len || set_key(text))
			return -ENOKEY;
	}
	if (cluster_params.is_host) {
		cluster_file_key_of(cluster_params.key, file_key);
		cluster_params.file_key = file_key_from(file_key);
		cluster_params.has_file_key = true;
	}
	rpc_key_set(cluster_params.key, cluster_params.is_host);
	return 0;
}

/* The number at *@s, which ends before @end; *@s is behind @end then. */
static int take_number(const char **s, char end, unsigned int base, uint32_t *out)
{
	char digits[16];
	size_t n = 0;

	while (**s && **s != end && n < sizeof(digits) - 1)
		digits[n++] = *(*s)++;
	digits[n] = '\0';
	if (**s != end)
		return -EINVAL;
	if (end && !*++*s)
		return -EINVAL; /* something has to follow */
	return kstrtou32(digits, base, out);
}

static char end_of(const char *s)
{
	return strchr(s, ',') ? ',' : '\0';
}

/* "m2:5a3b1c2d:2": role, node, incarnation in hexadecimal, LID. */
static int take_member(const char **s, struct cluster_member *m)
{
	static const char letters[] = "pms";
	const char end = end_of(*s);
	const char *letter = strchr(letters, **s);
	uint32_t lid;

	*m = (struct cluster_member){ 0 };
	if (!letter || !*letter)
		return -EINVAL;
	(*s)++;
	if (take_number(s, ':', 10, &m->id) || take_number(s, ':', 16, &m->incarn) ||
	    take_number(s, end, 10, &lid))
		return -EINVAL;
	m->role = (uint8_t)(letter - letters + 1);
	m->lid = (uint16_t)lid;
	return m->id && m->id <= PROTO_NODE_MAX && m->incarn && lid && lid < 0xc000 ? 0 : -EINVAL;
}

static int set_again(const char *value)
{
	uint32_t last = 0;
	size_t nr = 0;

	if (take_number(&value, end_of(value), 10, &cluster_params.again_epoch))
		return -EINVAL;
	while (*value) {
		struct cluster_member *m = &cluster_params.expected[nr];

		if (nr++ == CLUSTER_PARAM_MEMBERS || take_member(&value, m) || m->id <= last)
			return -EINVAL;
		last = m->id;
	}
	cluster_params.nr_expected = nr;
	cluster_params.again = true;
	return 0;
}

BOOT_PARAM_CB("cluster.again", set_again,
	      "the managers are started again: the last epoch, then members as m2:INCARNATION:LID");
BOOT_PARAM_CB("rendezvous", set_rendezvous, "where the managers are: lid:N or gid:HEX");
BOOT_PARAM_CB("cluster", set_cluster,
	      "host the managers; the cluster is complete with these nodes: p1,m2,s1");
BOOT_PARAM_CB_SECRET("cluster.key", set_key,
		     "64 hexadecimal digits: the managers' node has the cluster's key, each other "
		     "node its own; then perhaps :N, the number of the node's start, and : and the "
		     "key of handles, 32 digits, for memory and storage nodes");
BOOT_PARAM("cluster.wait_ms", u32, cluster_params.wait_ms, "give up joining after this time");
BOOT_PARAM_RANGE("cluster.heartbeat_ms", u32, cluster_params.heartbeat_ms, 10, CLUSTER_LEASE_MAX_MS,
		 "time between heartbeats to the host, at most a quarter of the lease");
BOOT_PARAM_RANGE("cluster.lease_ms", u32, cluster_params.lease_ms, CLUSTER_LEASE_MIN_MS,
		 CLUSTER_LEASE_MAX_MS,
		 "given to the managers' node: a node that is silent for this long is fenced");
