/* SPDX-License-Identifier: MIT */
/*
 * Random bytes.
 *
 * Flow:	Generator: ChaCha20 (RFC 8439) in counter mode under a 256-bit key.  Each request
 *		first makes a new key from the first half block of the stream, so a
 *		later look at memory does not reveal earlier output.  The second half is the
 *		answer to a short request, the key of the answer's stream to a long one.
 *		Seed: RDSEED or RDRAND where the CPU has them and they work, 32 bytes that QEMU was
 *		given (fw_cfg), new for each start of a machine, and what an entropy device gives,
 *		again and again (drivers/virtio/virtio_rng.c).  The TSC goes in too, but counts for
 *		nothing.
 * Failure:	without any of them the numbers can be guessed: random_is_seeded() says so, and the
 *		node makes no keys and talks to nobody.  So no program runs before there is a seed,
 *		and getrandom() needs not wait for one.
 * Locking:	random_lock guards the key; output is made outside it.
 */
#include <kernel/random.h>

#include <arch/cpu.h>
#include <arch/fwcfg.h>
#include <arch/tsc.h>
#include <kernel/counter.h>
#include <kernel/initcall.h>
#include <kernel/printk.h>
#include <kernel/spinlock.h>
#include <lib/string.h>

#define KEY_WORDS 8u
#define BLOCK     64u
#define SEED_FILE "opt/tessera/seed" /* of QEMU's fw_cfg: 32 bytes as hexadecimal digits */
#define SEED_TEXT 64u
#define SEED_BITS 256u

static struct spinlock random_lock = SPINLOCK_INIT("random", RANK_RANDOM);
static uint32_t key[KEY_WORDS] __guarded_by(&random_lock);
static bool seeded __guarded_by(&random_lock);
static uint32_t seed_bits __guarded_by(&random_lock); /* that nobody else knows */

COUNTER(random_reseeds, "random.reseeds", "times that a device gave the generator a seed");

static uint32_t rotl(uint32_t v, unsigned int n)
{
	return v << n | v >> (32 - n);
}

static void quarter(uint32_t *s, unsigned int a, unsigned int b, unsigned int c, unsigned int d)
{
	s[a] += s[b];
	s[d] = rotl(s[d] ^ s[a], 16);
	s[c] += s[d];
	s[b] = rotl(s[b] ^ s[c], 12);
	s[a] += s[b];
	s[d] = rotl(s[d] ^ s[a], 8);
	s[c] += s[d];
	s[b] = rotl(s[b] ^ s[c], 7);
}

static void chacha_block(const uint32_t *k, uint64_t counter, uint32_t *out)
{
	const uint32_t in[16] = {
		0x61707865,
		0x3320646e,
		0x79622d32,
		0x6b206574,
		k[0],
		k[1],
		k[2],
		k[3],
		k[4],
		k[5],
		k[6],
		k[7],
		(uint32_t)counter,
		(uint32_t)(counter >> 32),
		0,
		0,
	};
	uint32_t s[16];

	memcpy(s, in, sizeof(s));
	for (unsigned int i = 0; i < 10; i++) {
		quarter(s, 0, 4, 8, 12);
		quarter(s, 1, 5, 9, 13);
		quarter(s, 2, 6, 10, 14);
		quarter(s, 3, 7, 11, 15);
		quarter(s, 0, 5, 10, 15);
		quarter(s, 1, 6, 11, 12);
		quarter(s, 2, 7, 8, 13);
		quarter(s, 3, 4, 9, 14);
	}
	for (unsigned int i = 0; i < 16; i++)
		out[i] = s[i] + in[i];
}

static bool hw_random(uint64_t *out)
{
	bool ok = false;

	for (unsigned int i = 0; i < 16 && !ok; i++) {
		if (cpu_features.rdseed)
			__asm__ volatile("rdseed %0" : "=r"(*out), "=@ccc"(ok));
		else if (cpu_features.rdrand)
			__asm__ volatile("rdrand %0" : "=r"(*out), "=@ccc"(ok));
		else
			return false;
	}
	return ok;
}

/* Stir words into the key: xor, then one block makes the next key. */
static void mix_locked(const uint32_t *words, size_t n) __must_hold(&random_lock)
{
	uint32_t block[16];

	assert_spin_held(&random_lock);
	for (size_t i = 0; i < n; i++) {
		key[i % KEY_WORDS] ^= words[i];
		if (i % KEY_WORDS == KEY_WORDS - 1 || i + 1 == n) {
			chacha_block(key, tsc_read(), block);
			memcpy(key, block, sizeof(key));
		}
	}
}

static void seed_locked(void) __must_hold(&random_lock)
{
	assert_spin_held(&random_lock);
	for (unsigned int i = 0; i < KEY_WORDS; i++) {
		uint64_t v = 0;

		if (hw_random(&v))
			seed_bits += 64;
		v ^= tsc_read();
		mix_locked((const uint32_t *)&v, 2);
	}
	seeded = true;
}

bool random_is_seeded(void)
{
	const unsigned long flags = spin_lock_irqsave(&random_lock);
	const bool ok = seed_bits >= SEED_BITS;

	spin_unlock_irqrestore(&random_lock, flags);
	return ok;
}

/* Until here only the stack protector has asked. */
static int random_init(void)
{
	union {
		char text[SEED_TEXT];
		uint32_t words[SEED_TEXT / sizeof(uint32_t)];
	} seed;
	const bool has_file = fwcfg_read(SEED_FILE, seed.text, SEED_TEXT) == SEED_TEXT;
	unsigned long flags;

	flags = spin_lock_irqsave(&random_lock);
	if (!seeded)
		seed_locked();
	if (has_file) {
		mix_locked(seed.words, ARRAY_SIZE(seed.words));
		seed_bits += SEED_BITS;
	}
	spin_unlock_irqrestore(&random_lock, flags);
	memset(&seed, 0, sizeof(seed));
	if (!random_is_seeded())
		pr_warn("random: no RDRAND, and no seed from QEMU; a device may have one\n");
	else
		pr_info("random: seeded%s\n", has_file ? " by QEMU" : "");
	return 0;
}
INITCALL(early, random_init);

void random_add(const uint32_t *words, size_t nr)
{
	const unsigned long flags = spin_lock_irqsave(&random_lock);
	const bool was_seeded = seed_bits >= SEED_BITS;

	if (!seeded)
		seed_locked();
	mix_locked(words, nr);
	seed_bits = (uint32_t)MIN(seed_bits + nr * 32, (size_t)SEED_BITS);
	spin_unlock_irqrestore(&random_lock, flags);
	if (!nr)
		return;
	counter_inc(&random_reseeds);
	if (!was_seeded && random_is_seeded())
		pr_info("random: seeded by a device\n");
}

void random_bytes(void *buf, size_t len)
{
	uint8_t *out = buf;
	uint32_t block[16];
	uint32_t mine[KEY_WORDS];
	unsigned long flags = spin_lock_irqsave(&random_lock);

	if (!seeded)
		seed_locked();
	chacha_block(key, tsc_read(), block);
	memcpy(key, block, sizeof(key)); /* first half: the next key */
	memcpy(mine, block + KEY_WORDS, sizeof(mine));
	spin_unlock_irqrestore(&random_lock, flags);
	/*
	 * A short request gets the second half itself: nobody else ever sees it, and the key is
	 * another one by now.
	 */
	if (len <= sizeof(mine)) {
		memcpy(out, mine, len);
		return;
	}
	for (uint64_t counter = 0; len; counter++) {
		const size_t n = MIN(len, (size_t)BLOCK);

		chacha_block(mine, counter, block);
		memcpy(out, block, n);
		out += n;
		len -= n;
	}
}

uint64_t random_u64(void)
{
	uint64_t v;

	random_bytes(&v, sizeof(v));
	return v;
}
