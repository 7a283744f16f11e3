# SPDX-License-Identifier: MIT
#
# Compiler choice and probing, shared by build.mk, tools.mk and the tests' makefiles.

ifeq ($(LLVM),1)
CC := clang --target=x86_64-linux-gnu
LD := ld.lld
NM := llvm-nm
OBJCOPY := llvm-objcopy
else
ifneq ($(filter default undefined,$(origin CC)),)
CC := $(CROSS_COMPILE)gcc
endif
LD := $(CROSS_COMPILE)ld
NM := $(CROSS_COMPILE)nm
OBJCOPY := $(CROSS_COMPILE)objcopy
endif
HOSTCC := $(or $(HOSTCC),gcc)

# $(call cc-option,flag): the flag, if the compiler takes it. -Werror makes clang refuse unknown
# warnings; a -Wno- form is accepted silently by gcc, so the positive form is probed.
cc-option = $(shell $(or $(2),$(CC)) -Werror $(patsubst -Wno-%,-W%,$(1)) -x c -c /dev/null \
	-o /dev/null > /dev/null 2>&1 && echo '$(1)')
cc-options = $(foreach flag,$(1),$(call cc-option,$(flag),$(2)))

warnings := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes \
	-Wmissing-declarations -Wold-style-definition -Wpointer-arith -Wcast-qual \
	-Wwrite-strings -Wundef -Wvla -Wformat=2 -Wno-unused-parameter
# Spelled differently, or not at all, by some compilers.
warnings-probed := -Wcast-align=strict -Wimplicit-fallthrough=5 -Wno-format-nonliteral \
	-Wno-gnu-variable-sized-type-not-at-end -Wno-address-of-packed-member
werror := $(if $(filter n 0,$(WERROR)),,-Werror)

# Print a short line, or the command itself with V=1: $(call cmd,LABEL,name,command)
ifeq ($(V),1)
cmd = $(3)
else
cmd = @printf '  %-7s %s\n' '$(1)' '$(2)'; $(3)
endif

# Write a file only when its contents change, so that what depends on it is not rebuilt:
# ... | $(update-file)
update-file = { mkdir -p $(dir $@); cat > $@.tmp; \
	if cmp -s $@.tmp $@; then rm -f $@.tmp; else mv -f $@.tmp $@; fi; }
