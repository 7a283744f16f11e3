# SPDX-License-Identifier: MIT
"""The picture of a sweep. Only this file needs matplotlib, which takes a second to load."""

from __future__ import annotations

import logging
import os
import warnings
from typing import TYPE_CHECKING

from .errors import LaunchError
from .host import ROOT

if TYPE_CHECKING:
    from .sweep import Row

COLOURS = {"used": "#2a7f3f", "late": "#d8a13a", "wasted": "#b23a3a"}
LINES = {"Tessera": "#1f4e8c", "Linux": "#8a8a8a"}


def draw(path: str, title: str, rows: list[Row], linux: list[Row]) -> None:
    """Write the PNG. The first row of each list is the run with all memory local."""
    # Its cache of fonts is not for the user's home.
    os.environ.setdefault("MPLCONFIGDIR", os.path.join(ROOT, "build", "matplotlib"))
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    try:
        os.makedirs(os.environ["MPLCONFIGDIR"], exist_ok=True)
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except (ImportError, OSError) as err:
        raise LaunchError(f"--plot: matplotlib cannot be loaded: {err}") from None
    figure = Figure(figsize=(11, 8))
    figure.subplots_adjust(left=0.08, right=0.97, top=0.92, bottom=0.08, wspace=0.22, hspace=0.28)
    FigureCanvasAgg(figure)
    line = " ".join(title.split())
    figure.suptitle(line if len(line) <= 100 else line[:97] + "...", fontfamily="monospace",
                    parse_math=False)  # fmt: skip
    slow, misses, ahead, moved = figure.subplots(2, 2).flat
    for name, found in (("Tessera", rows), ("Linux", linux)):
        if found:
            _curve(slow, name, found, lambda r, base=found[0]: r.slowdown(base))
            _curve(misses, name, found, lambda r: None if r.status else r.misses)
            _curve(moved, name, found, lambda r: None if r.status else _mib(r.moved))
    _bars(ahead, rows)
    labels = ("time / time with all memory local", "misses", "pages fetched ahead", "MiB moved")
    for axes, label in zip((slow, misses, ahead, moved), labels, strict=True):
        axes.set_ylabel(label)
        axes.set_xlabel("cache, % of the program's peak memory")
        axes.set_ylim(bottom=0)
        axes.grid(True, axis="y", alpha=0.3)
    for axes in (slow, misses, moved):
        axes.invert_xaxis()  # from all of the memory to little of it, as the table
        axes.set_xticks([r.share for r in rows[1:]])
        if linux:
            axes.legend(frameon=False, loc="upper left")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a letter of the title that the font lacks
            figure.savefig(path, format="png", dpi=110)
    except OSError as err:
        raise LaunchError(f"--plot: {path}: {err.strerror or err}") from None


def _mib(value: int | None) -> float | None:
    return None if value is None else value / (1 << 20)


def _curve(axes, name: str, rows: list[Row], value) -> None:
    """One line; runs that failed are crosses at its foot."""
    shares = rows[1:]
    good = sorted((r.share, value(r)) for r in shares if value(r) is not None)
    axes.plot([x for x, _ in good], [y for _, y in good], marker="o", label=name,
              color=LINES[name])  # fmt: skip
    failed = [r.share for r in shares if r.status]
    axes.plot(failed, [0] * len(failed), linestyle="", marker="x", color="#b23a3a", markersize=9,
              clip_on=False)  # fmt: skip


def _bars(axes, rows: list[Row]) -> None:
    good = sorted((r for r in rows[1:] if not r.status), key=lambda r: -r.share)
    names = [f"{r.share:g}" for r in good]
    low = [0] * len(good)
    for part, colour in COLOURS.items():
        heights = [getattr(r, part) or 0 for r in good]
        axes.bar(names, heights, bottom=low, label=part, color=colour)
        low = [a + b for a, b in zip(low, heights, strict=True)]
    axes.legend(frameon=False, loc="upper left")
