# SPDX-License-Identifier: MIT
# What programs are charged for kernel memory.
prog-y          += account
account-folders := monitors/processor/account
