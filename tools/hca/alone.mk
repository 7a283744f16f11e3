# SPDX-License-Identifier: MIT
#
# Build the HCA model by itself, without the rest of the tree.

O ?= ../../build/tools/hca
HOSTCC ?= gcc
HOST_CFLAGS ?= -I../../lib/include -D__TESSERA_HOST__ -std=gnu11 -D_GNU_SOURCE \
	-O2 -g -Wall -Wextra -Werror -Wshadow \
	-Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wwrite-strings -Wvla \
	-Wcast-qual -Wformat=2
objs := $(patsubst tools/hca/%,$(O)/%,$(tessera-hca-objs))

.DEFAULT_GOAL := all
all: $(O)/tessera-hca

$(O)/tessera-hca: $(objs)
	$(HOSTCC) $(HOST_CFLAGS) $(HOST_LDFLAGS) -o $@ $^

$(O)/%.o: %.c
	@mkdir -p $(@D)
	$(HOSTCC) $(HOST_CFLAGS) -MMD -MP -c -o $@ $<

clean:
	rm -f $(objs) $(objs:.o=.d) $(O)/tessera-hca

.PHONY: all clean
-include $(objs:.o=.d)
