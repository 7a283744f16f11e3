/* SPDX-License-Identifier: MIT */
/*
 * 16550 UART at COM1 (I/O port 0x3f8), 115200 8N1, FIFO on, polled output.
 *
 * Flow:	wait for an empty transmitter, then send up to one FIFO of bytes.
 * Failure:	a UART that stays busy longer than a bounded number of polls is taken
 *		for dead and the rest of that write is dropped.
 */
#include <arch/serial.h>

#include <arch/cpu.h>
#include <arch/io.h>

#define COM1         0x3f8
#define UART_DATA    (COM1 + 0)
#define UART_IER     (COM1 + 1)
#define UART_FCR     (COM1 + 2)
#define UART_LCR     (COM1 + 3)
#define UART_MCR     (COM1 + 4)
#define UART_LSR     (COM1 + 5)
#define UART_SCRATCH (COM1 + 7)

#define FCR_ENABLE_CLEAR 0x07
#define LCR_8N1          0x03
#define LCR_DLAB         0x80
#define MCR_DTR_RTS_OUT2 0x0b
#define LSR_THRE         0x20

#define UART_FIFO  16u
#define POLL_LIMIT 1000000u

static bool serial_present;

bool serial_init(void)
{
	outb(UART_SCRATCH, 0x5a);
	if (inb(UART_SCRATCH) != 0x5a)
		return false;
	outb(UART_IER, 0);
	outb(UART_LCR, LCR_DLAB);
	outb(UART_DATA, 1); /* divisor 1: 115200 baud */
	outb(UART_IER, 0);
	outb(UART_LCR, LCR_8N1);
	outb(UART_FCR, FCR_ENABLE_CLEAR);
	outb(UART_MCR, MCR_DTR_RTS_OUT2);
	serial_present = true;
	return true;
}

static bool wait_empty(void)
{
	for (unsigned int i = 0; i < POLL_LIMIT; i++) {
		if (inb(UART_LSR) & LSR_THRE)
			return true;
		__asm__ volatile("pause");
	}
	return false;
}

void serial_write(const char *s, size_t len)
{
	unsigned int room = 0;

	if (!serial_present)
		return;
	for (size_t i = 0; i < len; i++) {
		if (room < 2) { /* a newline takes two */
			if (!wait_empty())
				return;
			room = UART_FIFO;
		}
		/* A real terminal wants it; a virtual machine's log file does not. */
		if (s[i] == '\n' && !cpu_is_virtual()) {
			outb(UART_DATA, '\r');
			room--;
		}
		outb(UART_DATA, (uint8_t)s[i]);
		room--;
	}
}
