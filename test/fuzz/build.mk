# SPDX-License-Identifier: MIT
#
# Build and run the fuzzers: called by the top Makefile with srctree=, O=, T= and FUZZ_SECONDS=.
#
# Every test/fuzz/<name>_fuzz.c is one target, with LLVMFuzzerTestOneInput(). A
# test/fuzz/<area>.mk lists the objects that it links beyond lib/ and the kernel shim, in the words
# of test/host/build.mk:
#	ext4_fuzz-folders := fs/bcache fs/ext4
#	ext4_fuzz-objs    := test/host/x.o
#	ext4_fuzz-max-len := 65536
# Seeds, and inputs that once failed, lie in test/fuzz/corpus/<name>/; what a run learns goes to
# $(O)/corpus/<name>/. Coverage inside the code under test guides the fuzzer, so all of it is
# instrumented.

SHELL := /bin/bash
.SUFFIXES:
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules --no-print-directory
.DEFAULT_GOAL := all

include $(srctree)/scripts/compiler.mk

PYTHON := $(srctree)/build/venv/bin/python3
FUZZCC := $(or $(FUZZCC),clang)
T ?= *
FUZZ_SECONDS ?= 10

layers := lib arch/x86 kernel mm drivers drivers/rdma net fs monitors/proto monitors/ctl \
	monitors/cluster managers
FUZZ_CPPFLAGS := -D_GNU_SOURCE -D__TESSERA_HOST__ -D__TESSERA_FUZZ__ \
	-I$(srctree)/test/host/shim/include $(foreach l,$(layers),-I$(srctree)/$(l)/include) \
	-I$(srctree)/monitors -I$(O)/include -include $(srctree)/test/host/shim/config.h
sanitize := -fsanitize=address,undefined -fno-sanitize-recover=all
FUZZ_CFLAGS := -std=gnu11 -O1 -g -fno-omit-frame-pointer -fno-strict-aliasing -fno-common \
	-fmacro-prefix-map=$(srctree)/= -pthread $(sanitize) -fsanitize=fuzzer-no-link \
	$(filter-out -Wmissing-prototypes -Wmissing-declarations,$(warnings)) $(werror) \
	$(call cc-options,$(warnings-probed) -Wno-cast-align,$(FUZZCC))
FUZZ_LDFLAGS := -pthread $(sanitize) -fsanitize=fuzzer -Wl,-T,$(srctree)/test/host/sections.lds

autoconf := $(O)/include/generated/autoconf.h
auto_conf := $(O)/include/generated/auto.conf
$(auto_conf): $(srctree)/configs/processor_defconfig $(srctree)/Kconfig \
		$(srctree)/scripts/kconfig.py
	@mkdir -p $(@D)
	@export KCONFIG_CONFIG=$(O)/.config srctree=$(srctree); \
	$(PYTHON) $(srctree)/scripts/kconfig.py defconfig $< && \
	$(PYTHON) $(srctree)/scripts/kconfig.py generate $(autoconf) $@ --all
	@touch $@
$(autoconf): $(auto_conf)
include $(auto_conf)

# A folder's objects, without its tests.
define folder-objects
$(eval obj-y :=)$(eval test-y :=)$(eval ktest-y :=)$(eval generated-y :=)$(eval ccflags-y :=)\
$(eval src := $(1))$(eval obj := $(O)/$(1))$(eval include $(srctree)/$(1)/Makefile)\
$(addprefix $(1)/,$(filter %.o,$(obj-y)))
endef

lib_objects := $(call folder-objects,lib)
shim_objects := $(patsubst $(srctree)/%.c,%.o,$(sort $(wildcard $(srctree)/test/host/shim/*.c)))

include $(srctree)/scripts/lwip.mk

names := $(patsubst %.c,%,$(notdir $(sort $(wildcard $(srctree)/test/fuzz/*_fuzz.c))))
include $(sort $(filter-out %/build.mk,$(wildcard $(srctree)/test/fuzz/*.mk)))

$(foreach n,$(names),\
	$(eval objects-$(n) := $(sort test/fuzz/$(n).o $(lib_objects) $(shim_objects) \
		$(filter-out $($(n)-exclude),$($(n)-objs) \
		$(foreach f,$($(n)-folders),$(call folder-objects,$(f)))))))

programs := $(addprefix $(O)/,$(names))
all_objects := $(addprefix $(O)/obj/,$(sort $(foreach n,$(names),$(objects-$(n)))))

flags_stamp := $(O)/.flags
$(flags_stamp): FORCE
	@echo '$(FUZZCC) $(FUZZ_CPPFLAGS) $(FUZZ_CFLAGS)' | $(update-file)

crc_tables := $(O)/include/generated/crc_tables.h
$(crc_tables): $(srctree)/scripts/gen-crc-tables.py
	$(call cmd,GEN,$(@F),python3 $< | $(update-file); touch $@)

$(O)/obj/%.o: $(srctree)/%.c $(flags_stamp) $(autoconf) | $(crc_tables)
	@mkdir -p $(@D)
	$(call cmd,FUZZCC,$*.o,$(FUZZCC) -MMD -MP -MT $@ $(FUZZ_CPPFLAGS) $(FUZZ_CFLAGS) \
		-c -o $@ $<)

$(O)/obj/net/lwip/%.o $(O)/obj/test/fuzz/tcpip_fuzz.o: FUZZ_CPPFLAGS += $(lwip_includes)
# Its own pointers into packets are unaligned where x86 allows it.
$(O)/obj/lwip/%.o: $(lwip)/src/%.c $(flags_stamp) $(autoconf)
	@mkdir -p $(@D)
	$(call cmd,FUZZCC,lwip/$*.o,$(FUZZCC) -MMD -MP -MT $@ $(FUZZ_CPPFLAGS) $(lwip_flags) \
		$(filter-out $(warnings) $(werror) -fsanitize=address%,$(FUZZ_CFLAGS)) \
		-fsanitize=address -c -o $@ $<)

.SECONDEXPANSION:
$(programs): $(O)/%: $$(addprefix $(O)/obj/,$$(objects-$$*)) $(srctree)/test/host/sections.lds
	$(call cmd,FUZZLD,$(@F),$(FUZZCC) -o $@ $(filter %.o,$^) $(FUZZ_LDFLAGS) $($*-libs))

PHONY += all run FORCE
all: $(programs)

run: all
	@$(PYTHON) $(srctree)/test/fuzz/run.py --seconds $(FUZZ_SECONDS) --filter '$(T)' \
		--corpus $(srctree)/test/fuzz/corpus --work $(O)/corpus \
		$(foreach n,$(names),$(O)/$(n)$(if $($(n)-max-len),:$($(n)-max-len)))

FORCE:

-include $(all_objects:.o=.d)

.PHONY: $(PHONY)
