# SPDX-License-Identifier: MIT
prog-y += lib
lib-folders := lib
