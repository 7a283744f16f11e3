# SPDX-License-Identifier: MIT
#
# Build the guest programs: make -f test/user/build.mk srctree=DIR O=DIR
# Each <name>.c becomes $(O)/<kind>/<name> for every kind: what differs is how it is linked. They
# are ordinary programs of the host; the ones that compare with Linux run there too.

CC ?= gcc
MUSL_CC ?= musl-gcc
src := $(srctree)/test/user

flags := -std=gnu11 -O2 -g0 -Wall -Wextra -Werror -D_GNU_SOURCE -I$(src)
kinds := glibc-static glibc-pie glibc-dyn musl-static musl-pie musl-dyn

cc-glibc-static := $(CC) -static -no-pie
cc-glibc-pie := $(CC) -static-pie -fPIE
cc-glibc-dyn := $(CC) -pie -fPIE
cc-musl-static := $(MUSL_CC) -static -no-pie -fno-pie
# musl-gcc -static-pie leaves a PT_INTERP behind: link with rcrt1.o and no dynamic linker instead.
cc-musl-pie := $(MUSL_CC) -fPIE -static -nostartfiles -Wl,-pie,--no-dynamic-linker,-z,text
cc-musl-dyn := $(MUSL_CC) -pie -fPIE
# The wrapper names its specs file, which lies beside the start files.
musl-dir := $(shell sed -n 's,.*"\(/.*\)musl-gcc.specs".*,\1,p' $$(command -v $(MUSL_CC)))
before-musl-pie := $(musl-dir)rcrt1.o $(musl-dir)crti.o
after-musl-pie := $(musl-dir)crtn.o

# hello in every kind; the others as static glibc, those that look at the C library's own
# habits as musl.
names := $(basename $(notdir $(wildcard $(src)/*.c)))
programs := $(foreach k,$(kinds),$(k)/hello) $(addprefix glibc-static/,$(names)) \
	$(addprefix musl-static/,heap mapping fileio badargs facts ends pthreads vdso \
	threads waits) glibc-dyn/mapping glibc-dyn/fileio glibc-dyn/vdso glibc-dyn/threads \
	musl-dyn/vdso glibc-static/code-b glibc-static/sysfuzz

headers := $(wildcard $(src)/*.h)

.SUFFIXES:
.DELETE_ON_ERROR:
.PHONY: all
all: $(addprefix $(O)/,$(sort $(programs)))

define rule
$(O)/$(1)/%: $(src)/%.c $(headers) $(src)/build.mk
	@mkdir -p $$(@D)
	@$(cc-$(1)) $(flags) $(before-$(1)) -o $$@ $$< -lm $(after-$(1))
endef
$(foreach k,$(kinds),$(eval $(call rule,$(k))))

$(O)/glibc-static/code-b: $(src)/code.c $(headers) $(src)/build.mk
	@mkdir -p $(@D)
	@$(cc-glibc-static) $(flags) -DSALT=7 -o $@ $<

# The system call fuzzer: several files, and the list of calls.
fuzz-src := $(sort $(wildcard $(src)/sysfuzz/*.c))
$(O)/glibc-static/sysfuzz: $(fuzz-src) $(src)/sysfuzz/sysfuzz.h $(O)/gen/sysfuzz_calls.h
	@mkdir -p $(@D)
	@$(cc-glibc-static) $(flags) -fno-stack-protector -I$(O)/gen -o $@ $(fuzz-src)

$(O)/gen/sysfuzz_calls.h: $(srctree)/monitors/processor/syscall/syscall.tbl \
		$(srctree)/scripts/gen-syscalls.py
	@mkdir -p $(@D)
	@python3 $(srctree)/scripts/gen-syscalls.py fuzz $< > $@
