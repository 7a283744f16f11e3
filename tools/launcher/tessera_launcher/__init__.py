# SPDX-License-Identifier: MIT
"""Tessera's launcher: builds, starts, feeds and clears away a cluster of virtual machines."""
