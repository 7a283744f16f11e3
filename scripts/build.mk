# SPDX-License-Identifier: MIT
#
# Build one kernel image: called by the top Makefile with srctree=, O= (this role's output
# directory) and ROLE=.
#
# Fragments: each source folder has a Makefile that adds to these lists, with paths relative to
# itself; a name that ends in "/" is a subfolder with a fragment of its own.
#	obj-y      objects of the image
#	test-y     KTEST cases, which also run on the host (x_test.o beside x.o)
#	ktest-y    KTEST cases that need the kernel
#	role-y     objects of a shared folder that know which monitor they are for
#	generated-y  headers that a role's folder wants made first, relative to $(O); the fragment
#		has their rule
#	CFLAGS_x.o extra flags for one object;  ccflags-y: for all objects of the folder
# While a fragment is read, $(src) is its folder and $(obj) its output folder (use both only in
# immediate contexts: targets, prerequisites and := assignments).
#
# All roles share the objects of most folders: they are compiled once per configuration, into
# $(shared), without the options that follow from the role (kconfig.py). Each configuration has
# a folder there, until make clean. Only one of these makes may run at a time in one output
# directory; the top Makefile sees to that.

SHELL := /bin/bash
.SUFFIXES:
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules --no-print-directory
.DEFAULT_GOAL := all

include $(srctree)/scripts/compiler.mk

PYTHON := $(srctree)/build/venv/bin/python3
kconfig = KCONFIG_CONFIG=$(O)/.config srctree=$(srctree) $(PYTHON) $(srctree)/scripts/kconfig.py
defconfig := $(srctree)/configs/$(ROLE)_defconfig
autoconf := $(O)/include/generated/autoconf.h
auto_conf := $(O)/include/generated/auto.conf
shared_options := $(O)/include/generated/shared.h
Q := $(if $(filter 1,$(V)),,@)

config_goals := defconfig menuconfig savedefconfig olddefconfig
building := $(filter-out $(config_goals),$(or $(MAKECMDGOALS),all))

# --- configuration

PHONY += $(config_goals)
defconfig:
	$(Q)$(kconfig) defconfig $(defconfig)
olddefconfig:
	$(Q)$(kconfig) olddefconfig
menuconfig: $(O)/.config
	$(Q)$(kconfig) menuconfig
savedefconfig: $(O)/.config
	$(Q)$(kconfig) savedefconfig $(defconfig)

# A defconfig that is newer than .config is only a reason to start afresh when nobody has made a
# .config by hand: menuconfig touches it later.
$(O)/.config: $(defconfig)
	$(Q)mkdir -p $(O)
	$(call cmd,CONFIG,$(ROLE),$(kconfig) defconfig $<)

ifneq ($(building),)

kconfig_files := $(shell find $(srctree) -name 'Kconfig*' -not -path '$(srctree)/build/*' \
	-not -path '*/.git/*')

# Options that make variables switch on, besides the .config (UBSAN=1, KTEST=n, DEBUG=n).
config_overrides := $(if $(filter 1 y,$(UBSAN)),UBSAN=y) $(if $(filter n 0,$(KTEST)),KTEST=n) \
	$(if $(filter n 0,$(DEBUG)),DEBUG=n)
override_stamp := $(O)/.config-overrides
$(override_stamp): FORCE
	@echo '$(config_overrides)' | $(update-file)

$(auto_conf): $(O)/.config $(override_stamp) $(kconfig_files) $(srctree)/scripts/kconfig.py \
		$(if $(wildcard $(shared_options)),,FORCE)
	@mkdir -p $(@D)
	$(Q)$(kconfig) generate $(autoconf) $@ $(config_overrides) --shared $(shared_options)
	@touch $@

$(autoconf) $(shared_options): $(auto_conf)

# Make remakes this and starts again when it is older than the configuration.
include $(auto_conf)

# --- where objects go

role_folders := monitors/$(ROLE) managers
shared-key := $(shell cat $(shared_options) 2> /dev/null | sha256sum | cut -c 1-8)
shared := $(abspath $(O)/../shared)/$(shared-key)
shared_autoconf := $(shared)/include/generated/autoconf.h

# $(call output,folder): where the objects of a source folder go.
output = $(if $(filter $(role_folders) $(addsuffix /%,$(role_folders)),$(1)),$(O),$(shared))/$(1)
# $(call source,object): the source file's path without its suffix.
source = $(patsubst $(O)/%.o,%,$(patsubst $(shared)/%.o,%,$(1)))

# --- flags

compiler-includes := $(shell $(CC) -print-file-name=include)

# One include directory per layer; of the monitors only what they share, and this role's own.
layers := lib arch/x86 kernel mm drivers drivers/rdma net fs monitors/proto monitors/ctl \
	monitors/cluster managers
includes := $(foreach l,$(layers),-I$(srctree)/$(l)/include)

shared_cppflags := -nostdinc -isystem $(compiler-includes) $(includes) -I$(shared)/include \
	-include $(shared_autoconf)
KCPPFLAGS := -nostdinc -isystem $(compiler-includes) $(includes) \
	-I$(srctree)/monitors -I$(O)/include -include $(autoconf)

KCFLAGS := -std=gnu11 -O2 -g -ffreestanding -fno-strict-aliasing -fno-common -fno-pic -fno-pie \
	-mno-red-zone -mgeneral-regs-only -mcmodel=kernel -fno-omit-frame-pointer \
	-fno-asynchronous-unwind-tables -fno-delete-null-pointer-checks \
	-fmacro-prefix-map=$(srctree)/= $(warnings) $(werror)
KCFLAGS += $(call cc-options,$(warnings-probed) -fno-stack-clash-protection -fcf-protection=none \
	-fno-optimize-sibling-calls)
ifeq ($(CONFIG_STACKPROTECTOR),y)
KCFLAGS += -fstack-protector-strong -mstack-protector-guard=global
else
KCFLAGS += -fno-stack-protector
endif
ifeq ($(CONFIG_UBSAN),y)
# Checks at every access make -O2 take half as long again for little.
KCFLAGS += -O1
KCFLAGS += $(call cc-options,-Wno-maybe-uninitialized -Wno-array-bounds -Wno-stringop-overflow)
KCFLAGS += $(foreach s,shift integer-divide-by-zero unreachable vla-bound null bounds alignment \
	signed-integer-overflow bool enum nonnull-attribute returns-nonnull-attribute \
	pointer-overflow,$(call cc-option,-fsanitize=$(s)))
else
KCFLAGS += -Wframe-larger-than=$(CONFIG_FRAME_WARN)
endif

KAFLAGS := -g -fno-pic -fno-pie $(filter -m% -std=% -fmacro-prefix-map=%, \
	$(filter-out -mgeneral-regs-only,$(KCFLAGS)))

LDFLAGS := -nostdlib -static --build-id=sha1 -z max-page-size=0x1000 -z noexecstack
ifneq ($(LLVM),1)
LDFLAGS += $(shell $(LD) --help | grep -q no-warn-rwx-segments && echo --no-warn-rwx-segments)
endif

# --- third-party sources

ifeq ($(CONFIG_LWIP),y)
include $(srctree)/scripts/lwip.mk
endif

# --- what to build: read the fragments

objects :=
headers :=

# $(call descend,folder): read the folder's fragment, note its objects, go into its subfolders.
define descend
$(eval obj-y :=)$(eval obj- :=)$(eval test-y :=)$(eval test- :=)
$(eval ktest-y :=)$(eval ktest- :=)$(eval role-y :=)$(eval generated-y :=)$(eval ccflags-y :=)
$(eval src := $(1))$(eval obj := $(call output,$(1)))
$(eval include $(srctree)/$(1)/Makefile)
$(eval found := $(obj-y) $(if $(CONFIG_KTEST),$(test-y) $(ktest-y)))
$(foreach o,$(addprefix $(obj)/,$(filter %.o,$(found))) $(addprefix $(O)/$(1)/,$(role-y)),
	$(eval objects += $(o))
	$(eval flags-$(o) := $(ccflags-y) $(CFLAGS_$(notdir $(o))))
	$(eval CFLAGS_$(notdir $(o)) :=))
$(eval headers += $(addprefix $(O)/,$(generated-y)))
$(foreach d,$(sort $(filter %/,$(found))),$(call descend,$(1)/$(d:/=)))
endef

top_folders := lib arch/x86 kernel mm drivers net fs monitors/proto monitors/ctl monitors/cluster \
	managers monitors/$(ROLE)
$(foreach d,$(top_folders),$(if $(wildcard $(srctree)/$(d)/Makefile),$(strip $(call descend,$(d)))))

ifeq ($(CONFIG_LWIP),y)
objects += $(addprefix $(shared)/lwip/,$(lwip_objects))
endif

duplicates := $(filter-out 1,$(foreach o,$(sort $(objects)),$(words $(filter $(o),$(objects)))))
ifneq ($(duplicates),)
$(error an object is listed twice in the Makefile fragments)
endif

# --- generated headers

crc_tables := $(shared)/include/generated/crc_tables.h
$(crc_tables): $(srctree)/scripts/gen-crc-tables.py
	$(call cmd,GEN,$(@F),python3 $< | $(update-file); touch $@)

version_h := $(O)/include/generated/version.h
$(version_h): FORCE
	@$(srctree)/scripts/gen-version.sh $(srctree) $(O)/.config | $(update-file)

headers += $(version_h)

$(shared_autoconf): $(shared_options)
	@$(update-file) < $<

# --- rules

# A change of flags rebuilds what they were used for.
flags_stamp := $(O)/.flags
$(flags_stamp): FORCE
	@echo '$(CC) $(KCPPFLAGS) $(KCFLAGS)' | $(update-file)

shared_flags_stamp := $(shared)/.flags
$(shared_flags_stamp): FORCE
	@echo '$(CC) $(shared_cppflags) $(KCFLAGS)' | $(update-file)

# $(call compile,preprocessor flags) and $(call assemble,...): one object.
object = mkdir -p $(@D); $(CC) -MD -MP -MT $@ $(1) $(flags-$@) -c -o $@ $<
compile = $(call cmd,CC,$*.o,$(call object,$(1) $(KCFLAGS)))
assemble = $(call cmd,AS,$*.o,$(call object,$(1) $(KAFLAGS)))

$(O)/%.o: $(srctree)/%.c $(flags_stamp) $(autoconf) | $(headers)
	$(call compile,$(KCPPFLAGS))
$(O)/%.o: $(srctree)/%.S $(flags_stamp) $(autoconf) | $(headers)
	$(call assemble,$(KCPPFLAGS))
$(shared)/%.o: $(srctree)/%.c $(shared_flags_stamp) $(shared_autoconf) | $(crc_tables)
	$(call compile,$(shared_cppflags))
$(shared)/%.o: $(srctree)/%.S $(shared_flags_stamp) $(shared_autoconf) | $(crc_tables)
	$(call assemble,$(shared_cppflags))

$(shared)/lwip/%.o: $(lwip)/src/%.c $(shared_flags_stamp) $(shared_autoconf) \
		$(wildcard $(srctree)/net/lwip/port/*.h) | $(crc_tables)
	$(call cmd,CC,lwip/$*.o,$(call object,$(shared_cppflags) $(lwip_flags) $(filter-out \
		$(warnings) $(werror),$(KCFLAGS))))

$(O)/kernel.lds: $(srctree)/arch/x86/kernel.lds.S $(flags_stamp) $(autoconf)
	$(call cmd,LDS,$(@F),$(CC) -E -P -MMD -MT $@ -MF $@.d $(KCPPFLAGS) -D__ASSEMBLER__ -x c \
		-o $@ $<)

# For gen-compile-commands.py: one line per object.
$(O)/.commands: $(flags_stamp) $(auto_conf) $(MAKEFILE_LIST)
	@$(file >$@,)$(foreach o,$(objects),$(if $(wildcard $(srctree)/$(call source,$(o)).c),\
		$(file >>$@,$(call source,$(o)).c|$(CC) \
		$(if $(filter $(O)/%,$(o)),$(KCPPFLAGS),$(shared_cppflags)) $(KCFLAGS) \
		$(flags-$(o)) -c))) :

$(O)/kernel.elf: $(objects) $(O)/kernel.lds $(srctree)/scripts/link-kernel.sh \
		$(srctree)/scripts/gen-symbols.py $(O)/.objects
	$(call cmd,LINK,$(ROLE)/$(@F),CC='$(CC)' LD='$(LD)' NM='$(NM)' LDFLAGS='$(LDFLAGS)' \
		$(srctree)/scripts/link-kernel.sh $(O)/kernel.lds $@ $(O)/.objects)

# The list of objects, for the linker and so that a removed one relinks.
$(O)/.objects: FORCE
	@printf '%s\n' $(objects) | $(update-file)

PHONY += all commands generated
all: $(O)/kernel.elf $(O)/.commands
generated: $(autoconf) $(shared_autoconf) $(headers) $(crc_tables)
commands: $(O)/.commands generated

-include $(objects:.o=.d) $(O)/kernel.lds.d

endif # building

PHONY += FORCE
FORCE:

.PHONY: $(PHONY)
