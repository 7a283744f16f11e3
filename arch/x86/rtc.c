/* SPDX-License-Identifier: MIT */
/*
 * CMOS real-time clock: read once at boot for the date.
 *
 * Flow:	read twice until both agree and no update was in progress.
 * Limits:	whole seconds; years 2000-2099; taken as UTC.
 */
#include <arch/io.h>
#include <arch/rtc.h>
#include <kernel/time.h>
#include <lib/string.h>

#define CMOS_ADDR 0x70
#define CMOS_DATA 0x71

#define RTC_A_UIP    0x80
#define RTC_B_BINARY 0x04
#define RTC_B_24H    0x02

struct rtc_time {
	uint8_t sec, min, hour, day, mon, year;
};

static uint8_t cmos_read(uint8_t reg)
{
	outb(CMOS_ADDR, reg);
	return inb(CMOS_DATA);
}

static uint8_t from_bcd(uint8_t v)
{
	return (uint8_t)((v >> 4) * 10 + (v & 0xf));
}

static struct rtc_time rtc_read_raw(void)
{
	return (struct rtc_time){
		.sec = cmos_read(0),
		.min = cmos_read(2),
		.hour = cmos_read(4),
		.day = cmos_read(7),
		.mon = cmos_read(8),
		.year = cmos_read(9),
	};
}

static void rtc_decode(struct rtc_time *t)
{
	const uint8_t b = cmos_read(0x0b);
	const bool pm = t->hour & 0x80;

	t->hour &= 0x7f;
	if (!(b & RTC_B_BINARY)) {
		t->sec = from_bcd(t->sec);
		t->min = from_bcd(t->min);
		t->hour = from_bcd(t->hour);
		t->day = from_bcd(t->day);
		t->mon = from_bcd(t->mon);
		t->year = from_bcd(t->year);
	}
	if (!(b & RTC_B_24H))
		t->hour = (uint8_t)(t->hour % 12 + (pm ? 12 : 0));
}

/* Days since 1970-01-01 of a Gregorian date; years are counted from March. */
static uint64_t days_from_date(uint32_t year, uint32_t mon, uint32_t day)
{
	const uint32_t y = mon <= 2 ? year - 1 : year;
	const uint32_t m = mon <= 2 ? mon + 9 : mon - 3;

	return 365ull * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1 - 719468;
}

uint64_t rtc_read_ns(void)
{
	struct rtc_time a;
	struct rtc_time b = { 0 };

	for (unsigned int i = 0; i < 100000; i++) {
		if (cmos_read(0x0a) & RTC_A_UIP)
			continue;
		a = b;
		b = rtc_read_raw();
		if (memcmp(&a, &b, sizeof(a)) == 0)
			break;
	}
	rtc_decode(&b);
	if (b.mon < 1 || b.mon > 12 || b.day < 1 || b.day > 31 || b.hour > 23 || b.min > 59 ||
	    b.sec > 60)
		return 0;
	return (days_from_date(2000u + b.year, b.mon, b.day) * 86400u + b.hour * 3600u +
		b.min * 60u + b.sec) *
	       NSEC_PER_SEC;
}
