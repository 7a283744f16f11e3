# SPDX-License-Identifier: MIT
#
# Build and run the host tests: called by the top Makefile with srctree=, O=, T= and CASES=.
#
# Fragments: each test/host/<area>.mk describes test programs, one line each:
#	prog-y        += rpc
#	rpc-folders   := net/rpc monitors/proto   take obj-y and test-y of these folders' Makefiles
#	rpc-objs      := test/host/rpc_pair.o     further objects, as paths from the top
#	rpc-exclude   := net/rpc/x.o              of the folders' objects, leave these out
#	rpc-libs      := -lz                      further libraries
# Every program also gets lib/, the kernel shim (test/host/shim) and the runner. Programs are
# linked apart, so two areas may use the same names.

SHELL := /bin/bash
.SUFFIXES:
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules --no-print-directory
.DEFAULT_GOAL := all

include $(srctree)/scripts/compiler.mk

PYTHON := $(srctree)/build/venv/bin/python3
T ?= *

# The shim's headers come first: what it has replaces the kernel's.
layers := lib arch/x86 kernel mm drivers drivers/rdma net fs monitors/proto monitors/ctl \
	monitors/cluster managers
HOST_CPPFLAGS := -D_GNU_SOURCE -D__TESSERA_HOST__ -I$(srctree)/test/host/shim/include \
	$(foreach l,$(layers),-I$(srctree)/$(l)/include) -I$(srctree)/monitors -I$(O)/include \
	-include $(srctree)/test/host/shim/config.h
sanitize := -fsanitize=address,undefined -fno-sanitize-recover=all
HOST_CFLAGS := -std=gnu11 -O1 -g -fno-omit-frame-pointer -fno-strict-aliasing -fno-common \
	-fmacro-prefix-map=$(srctree)/= -pthread $(sanitize) $(warnings) $(werror) \
	$(call cc-options,$(warnings-probed) -Wno-cast-align,$(HOSTCC))
HOST_LDFLAGS := -pthread $(sanitize) -Wl,-T,$(srctree)/test/host/sections.lds

# --- configuration: the defaults, of no role

autoconf := $(O)/include/generated/autoconf.h
auto_conf := $(O)/include/generated/auto.conf
kconfig_files := $(shell find $(srctree) -name 'Kconfig*' -not -path '$(srctree)/build/*' \
	-not -path '*/.git/*')
$(auto_conf): $(srctree)/configs/processor_defconfig $(kconfig_files) $(srctree)/scripts/kconfig.py
	@mkdir -p $(@D)
	@export KCONFIG_CONFIG=$(O)/.config srctree=$(srctree); \
	$(PYTHON) $(srctree)/scripts/kconfig.py defconfig $< && \
	$(PYTHON) $(srctree)/scripts/kconfig.py generate $(autoconf) $@ --all
	@touch $@
$(autoconf): $(auto_conf)

include $(auto_conf)

# --- programs

# $(call folder-objects,folder): what its Makefile lists as objects and common tests
define folder-objects
$(eval obj-y :=)$(eval test-y :=)$(eval ktest-y :=)$(eval generated-y :=)$(eval ccflags-y :=)\
$(eval src := $(1))$(eval obj := $(O)/$(1))$(eval include $(srctree)/$(1)/Makefile)\
$(addprefix $(1)/,$(filter %.o,$(obj-y) $(test-y)))
endef

lib_objects := $(call folder-objects,lib)
# lib's own tests make up the program "lib"; the others only link the library.
lib_code := $(filter-out %_test.o,$(lib_objects))
shim_objects := $(patsubst $(srctree)/%.c,%.o,$(sort $(wildcard $(srctree)/test/host/shim/*.c))) \
	test/host/runner.o

include $(srctree)/scripts/lwip.mk

# Prototypes of system calls; the objects that want them name it as a prerequisite.
syscall_handlers := $(O)/include/generated/syscall_handlers.h
$(syscall_handlers): $(srctree)/monitors/processor/syscall/syscall.tbl \
		$(srctree)/scripts/gen-syscalls.py
	@mkdir -p $(@D)
	$(call cmd,GEN,$(@F),python3 $(srctree)/scripts/gen-syscalls.py h $< > $@)

prog-y :=
include $(sort $(filter-out %/build.mk,$(wildcard $(srctree)/test/host/*.mk)))

$(foreach p,$(prog-y),\
	$(eval objects-$(p) := $(sort $(filter-out $($(p)-exclude),$(lib_code) $(shim_objects) \
		$($(p)-objs) $(foreach f,$($(p)-folders),$(call folder-objects,$(f)))))))

programs := $(addprefix $(O)/,$(addsuffix _tests,$(prog-y)))
all_objects := $(addprefix $(O)/obj/,$(sort $(foreach p,$(prog-y),$(objects-$(p)))))

# --- rules

flags_stamp := $(O)/.flags
$(flags_stamp): FORCE
	@echo '$(HOSTCC) $(HOST_CPPFLAGS) $(HOST_CFLAGS)' | $(update-file)

crc_tables := $(O)/include/generated/crc_tables.h
$(crc_tables): $(srctree)/scripts/gen-crc-tables.py
	$(call cmd,GEN,$(@F),python3 $< | $(update-file); touch $@)

$(O)/obj/%.o: $(srctree)/%.c $(flags_stamp) $(autoconf) | $(crc_tables)
	@mkdir -p $(@D)
	$(call cmd,HOSTCC,$*.o,$(HOSTCC) -MMD -MP -MT $@ $(HOST_CPPFLAGS) $(HOST_CFLAGS) \
		-c -o $@ $<)

$(O)/obj/net/lwip/%.o: HOST_CPPFLAGS += $(lwip_includes)
# Its own pointers into packets are unaligned where x86 allows it.
$(O)/obj/lwip/%.o: $(lwip)/src/%.c $(flags_stamp) $(autoconf)
	@mkdir -p $(@D)
	$(call cmd,HOSTCC,lwip/$*.o,$(HOSTCC) -MD -MP -MT $@ $(HOST_CPPFLAGS) $(lwip_flags) \
		$(filter-out $(warnings) $(werror) -fsanitize=%,$(HOST_CFLAGS)) -fsanitize=address \
		-c -o $@ $<)

.SECONDEXPANSION:
$(programs): $(O)/%_tests: $$(addprefix $(O)/obj/,$$(objects-$$*)) $(srctree)/test/host/sections.lds
	$(call cmd,HOSTLD,$(@F),$(HOSTCC) -o $@ $(filter %.o,$^) $(HOST_LDFLAGS) -lcmocka \
		$($*-libs))

PHONY += all run FORCE
all: $(programs) $(O)/.commands

run: all
	@CASES='$(CASES)' $(srctree)/test/host/run.sh '$(T)' $(programs)

command = $(patsubst $(O)/obj/%.o,%.c,$(1))|$(HOSTCC) $(HOST_CPPFLAGS) $(HOST_CFLAGS) -c
$(O)/.commands: $(flags_stamp) $(MAKEFILE_LIST)
	@$(file >$@,)$(foreach o,$(all_objects),$(file >>$@,$(call command,$(o)))) :

FORCE:

-include $(all_objects:.o=.d)

.PHONY: $(PHONY)
