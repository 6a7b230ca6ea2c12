"""Pictures of `stage_growth`, as PNG."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Curve:
    """Throughput and cost over one thing that grows."""

    name: str
    title: str
    is_logarithmic: bool
    sizes: Sequence[float]
    per_second: Sequence[float]
    us_per_event: Sequence[float]


def write_plots(curves: Sequence[Curve], folder: Path) -> None:
    """growth_NAME.png for each. Needs matplotlib, which is there for development only."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    for curve in curves:
        figure, left = pyplot.subplots(figsize=(6, 3.6), layout="constrained")
        right = left.twinx()
        left.plot(curve.sizes, [value / 1000 for value in curve.per_second], "o-", color="tab:blue")
        right.plot(curve.sizes, curve.us_per_event, "s--", color="tab:orange")
        left.set_xlabel(curve.title)
        left.set_ylabel("thousand events a second", color="tab:blue")
        right.set_ylabel("processor time an event, µs", color="tab:orange")
        if curve.is_logarithmic:
            left.set_xscale("log")
        else:
            left.set_xticks(list(curve.sizes))
        left.set_ylim(bottom=0)
        right.set_ylim(bottom=0)
        left.grid(visible=True, alpha=0.3)
        figure.savefig(folder / f"growth_{curve.name}.png", dpi=110)
        pyplot.close(figure)
