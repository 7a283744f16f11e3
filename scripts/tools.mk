# SPDX-License-Identifier: MIT
#
# Build the host programs under tools/: called by the top Makefile with srctree= and O=.
#
# Fragments: each tools/<name>/Makefile adds to
#	prog-y       programs, as <name>; each has
#	<name>-objs  its objects, as paths from the top of the tree (tools/hca/main.o, lib/crc.o)
#	<name>-libs  what it links with (-lpthread)
#	CFLAGS_<path> extra flags for one object
# A program lands in $(O)/tools/<folder>/<name>.

SHELL := /bin/bash
.SUFFIXES:
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules --no-print-directory
.DEFAULT_GOAL := all

include $(srctree)/scripts/compiler.mk

obj_dir := $(O)/tools
layers := lib drivers drivers/rdma net fs monitors/proto managers
HOST_CPPFLAGS := -D_GNU_SOURCE -D__TESSERA_HOST__ -I$(obj_dir)/include \
	$(foreach l,$(layers),-I$(srctree)/$(l)/include)
HOST_CFLAGS := -std=gnu11 -O2 -g -fno-strict-aliasing -fno-common \
	-fmacro-prefix-map=$(srctree)/= $(warnings) $(werror) \
	$(call cc-options,$(warnings-probed),$(HOSTCC))

programs :=
all_objects :=

define descend
$(eval prog-y :=)
$(eval src := tools/$(1))$(eval obj := $(obj_dir)/tools/$(1))
$(eval include $(srctree)/tools/$(1)/Makefile)
$(foreach p,$(prog-y),
	$(eval programs += $(obj_dir)/$(1)/$(p))
	$(eval objs-$(obj_dir)/$(1)/$(p) := $(addprefix $(obj_dir)/obj/,$($(p)-objs)))
	$(eval libs-$(obj_dir)/$(1)/$(p) := $($(p)-libs))
	$(eval all_objects += $(addprefix $(obj_dir)/obj/,$($(p)-objs))))
endef
tool_makefiles := $(wildcard $(srctree)/tools/*/Makefile)
$(foreach f,$(tool_makefiles),\
	$(strip $(call descend,$(notdir $(patsubst %/,%,$(dir $(f)))))))

flags_stamp := $(obj_dir)/.flags
$(flags_stamp): FORCE
	@echo '$(HOSTCC) $(HOST_CPPFLAGS) $(HOST_CFLAGS)' | $(update-file)

crc_tables := $(obj_dir)/include/generated/crc_tables.h
$(crc_tables): $(srctree)/scripts/gen-crc-tables.py
	$(call cmd,GEN,$(@F),python3 $< | $(update-file); touch $@)

$(obj_dir)/obj/%.o: $(srctree)/%.c $(flags_stamp) $(tool_makefiles) | $(crc_tables)
	@mkdir -p $(@D)
	$(call cmd,HOSTCC,$*.o,$(HOSTCC) -MMD -MP -MT $@ $(HOST_CPPFLAGS) \
		$(HOST_CFLAGS) $(CFLAGS_$*.o) -c -o $@ $<)

.SECONDEXPANSION:
$(programs): $$(objs-$$@)
	@mkdir -p $(@D)
	$(call cmd,HOSTLD,$(patsubst $(O)/%,%,$@),$(HOSTCC) -o $@ $(objs-$@) $(libs-$@))

PHONY += all FORCE
all: $(programs)
FORCE:

-include $(sort $(all_objects:.o=.d))

.PHONY: $(PHONY)
