/* SPDX-License-Identifier: MIT */
/*
 * printf-style formatting into a buffer.
 *
 * Flow:	parse_spec() reads one "%..." into a struct spec; format_one() fetches its
 *		argument and puts prefix, padding and body.
 * Context:	any; uses no memory but the caller's buffer and a little stack.
 * Failure:	output past the buffer is counted and dropped; a conversion that is
 *		unknown is copied as text, and takes no argument.
 */
#include <lib/fmt.h>

#include <lib/string.h>

struct out {
	char *buf;
	size_t size;
	size_t len; /* what the whole text would have taken so far */
};

enum spec_len {
	LEN_INT,
	LEN_CHAR,
	LEN_SHORT,
	LEN_LONG,
	LEN_LLONG
};

struct spec {
	bool left;     /* '-' */
	bool zero;     /* '0' */
	bool alt;      /* '#' */
	char sign;     /* '+', ' ' or 0 */
	int width;     /* 0: none */
	int precision; /* -1: none */
	enum spec_len len;
	char conv;
};

static void put(struct out *o, char c)
{
	if (o->len + 1 < o->size)
		o->buf[o->len] = c;
	o->len++;
}

static void put_n(struct out *o, char c, int n)
{
	while (n-- > 0)
		put(o, c);
}

static void put_bytes(struct out *o, const char *s, size_t n)
{
	while (n--)
		put(o, *s++);
}

static const char *parse_number(const char *p, int *out)
{
	int n = 0;

	while (*p >= '0' && *p <= '9') {
		n = n < 100000 ? n * 10 + (*p - '0') : n;
		p++;
	}
	*out = n;
	return p;
}

static const char *parse_flags(const char *p, struct spec *s)
{
	for (;; p++) {
		switch (*p) {
		case '-':
			s->left = true;
			break;
		case '0':
			s->zero = true;
			break;
		case '#':
			s->alt = true;
			break;
		case '+':
			s->sign = '+';
			break;
		case ' ':
			s->sign = s->sign ? s->sign : ' ';
			break;
		default:
			return p;
		}
	}
}

static const char *parse_length(const char *p, struct spec *s)
{
	s->len = LEN_INT;
	if (*p == 'h') {
		s->len = p[1] == 'h' ? LEN_CHAR : LEN_SHORT;
		p += p[1] == 'h' ? 2 : 1;
	} else if (*p == 'l') {
		s->len = p[1] == 'l' ? LEN_LLONG : LEN_LONG;
		p += p[1] == 'l' ? 2 : 1;
	} else if (*p == 'z' || *p == 'j' || *p == 't') {
		s->len = LEN_LONG;
		p++;
	}
	return p;
}

/* @p is behind the '%'; returns what follows the conversion character. */
static const char *parse_spec(const char *p, struct spec *s, va_list *ap)
{
	*s = (struct spec){ .precision = -1 };
	p = parse_flags(p, s);
	if (*p == '*') {
		s->width = va_arg(*ap, int);
		if (s->width < 0) {
			s->left = true;
			s->width = s->width == INT32_MIN ? 0 : -s->width;
		}
		p++;
	} else {
		p = parse_number(p, &s->width);
	}
	if (*p == '.') {
		p++;
		if (*p == '*') {
			s->precision = va_arg(*ap, int);
			if (s->precision < 0)
				s->precision = -1;
			p++;
		} else {
			p = parse_number(p, &s->precision);
		}
	}
	p = parse_length(p, s);
	s->conv = *p;
	return *p ? p + 1 : p;
}

static int64_t signed_arg(const struct spec *s, va_list *ap)
{
	switch (s->len) {
	case LEN_CHAR:
		return (signed char)va_arg(*ap, int);
	case LEN_SHORT:
		return (short)va_arg(*ap, int);
	case LEN_LONG:
		return va_arg(*ap, long);
	case LEN_LLONG:
		return va_arg(*ap, long long);
	case LEN_INT:
		break;
	}
	return va_arg(*ap, int);
}

static uint64_t unsigned_arg(const struct spec *s, va_list *ap)
{
	switch (s->len) {
	case LEN_CHAR:
		return (unsigned char)va_arg(*ap, unsigned int);
	case LEN_SHORT:
		return (unsigned short)va_arg(*ap, unsigned int);
	case LEN_LONG:
		return va_arg(*ap, unsigned long);
	case LEN_LLONG:
		return va_arg(*ap, unsigned long long);
	case LEN_INT:
		break;
	}
	return va_arg(*ap, unsigned int);
}

/* Put @body with @prefix before it and zeros between, padded to the width. */
static void put_field(struct out *o, const struct spec *s, const char *prefix, const char *body,
		      int body_len, int zeros)
{
	const int prefix_len = (int)strlen(prefix);
	int pad = s->width - prefix_len - zeros - body_len;

	if (s->zero && !s->left && pad > 0) {
		zeros += pad;
		pad = 0;
	}
	if (!s->left)
		put_n(o, ' ', pad);
	put_bytes(o, prefix, (size_t)prefix_len);
	put_n(o, '0', zeros);
	put_bytes(o, body, (size_t)body_len);
	if (s->left)
		put_n(o, ' ', pad);
}

static void put_number(struct out *o, struct spec *s, uint64_t v, unsigned int base,
		       const char *prefix)
{
	const char *digits = s->conv == 'X' ? "0123456789ABCDEF" : "0123456789abcdef";
	char body[24]; /* 64 bits in octal take 22 */
	int at = sizeof(body);
	int len;
	int zeros = 0;

	for (; v; v /= base)
		body[--at] = digits[v % base];
	len = (int)sizeof(body) - at;
	if (s->precision >= 0)
		s->zero = false; /* as in ISO C: a precision overrides '0' */
	if (s->precision < 0 && len == 0)
		zeros = 1;
	else if (s->precision > len)
		zeros = s->precision - len;
	if (base == 8 && s->alt && zeros == 0)
		zeros = 1;
	put_field(o, s, prefix, body + at, len, zeros);
}

static void put_signed(struct out *o, struct spec *s, int64_t v)
{
	const char sign[2] = { v < 0 ? '-' : s->sign, '\0' };
	const uint64_t magnitude = v < 0 ? -(uint64_t)v : (uint64_t)v;

	put_number(o, s, magnitude, 10, sign);
}

static void put_hex(struct out *o, struct spec *s, uint64_t v)
{
	const char *prefix = s->conv == 'X' ? "0X" : "0x";

	put_number(o, s, v, 16, s->alt && v ? prefix : "");
}

static void put_string(struct out *o, struct spec *s, const char *str)
{
	if (!str)
		str = "(null)";
	s->zero = false;
	put_field(o, s, "", str,
		  (int)(s->precision >= 0 ? strnlen(str, (size_t)s->precision) : strlen(str)), 0);
}

static void put_pointer(struct out *o, struct spec *s, const void *ptr)
{
	if (!ptr) {
		s->precision = -1;
		put_string(o, s, "(nil)");
		return;
	}
	s->alt = true;
	put_hex(o, s, (uintptr_t)ptr);
}

/* False when the conversion is not known. */
static bool format_one(struct out *o, struct spec *s, va_list *ap)
{
	char c;

	switch (s->conv) {
	case 'd':
	case 'i':
		put_signed(o, s, signed_arg(s, ap));
		return true;
	case 'u':
		put_number(o, s, unsigned_arg(s, ap), 10, "");
		return true;
	case 'o':
		put_number(o, s, unsigned_arg(s, ap), 8, "");
		return true;
	case 'x':
	case 'X':
		put_hex(o, s, unsigned_arg(s, ap));
		return true;
	case 'p':
		put_pointer(o, s, va_arg(*ap, void *));
		return true;
	case 'c':
		c = (char)va_arg(*ap, int);
		s->zero = false;
		put_field(o, s, "", &c, 1, 0);
		return true;
	case 's':
		put_string(o, s, va_arg(*ap, const char *));
		return true;
	case '%':
		put(o, '%');
		return true;
	default:
		return false;
	}
}

int fmt_vsnprintf(char *buf, size_t size, const char *fmt, va_list ap)
{
	struct out o = { .buf = buf, .size = size };
	va_list args;

	va_copy(args, ap); /* so that its address has the type that the helpers take */
	while (*fmt) {
		const char *start = fmt;
		struct spec s;

		if (*fmt != '%') {
			put(&o, *fmt++);
			continue;
		}
		fmt = parse_spec(fmt + 1, &s, &args);
		if (!format_one(&o, &s, &args))
			put_bytes(&o, start, (size_t)(fmt - start));
	}
	va_end(args);
	if (size)
		buf[MIN(o.len, size - 1)] = '\0';
	return (int)o.len;
}

#ifndef __TESSERA_HOST__
int vsnprintf(char *buf, size_t size, const char *fmt, va_list ap)
{
	return fmt_vsnprintf(buf, size, fmt, ap);
}

int snprintf(char *buf, size_t size, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = fmt_vsnprintf(buf, size, fmt, ap);
	va_end(ap);
	return n;
}
#endif

size_t vscnprintf(char *buf, size_t size, const char *fmt, va_list ap)
{
	const int n = fmt_vsnprintf(buf, size, fmt, ap);

	if (size == 0)
		return 0;
	return MIN((size_t)n, size - 1);
}

size_t scnprintf(char *buf, size_t size, const char *fmt, ...)
{
	va_list ap;
	size_t n;

	va_start(ap, fmt);
	n = vscnprintf(buf, size, fmt, ap);
	va_end(ap);
	return n;
}
