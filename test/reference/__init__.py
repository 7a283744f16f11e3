# SPDX-License-Identifier: MIT
"""Linux guests on the HCA model: the independent reference for it."""
