"""Small line plots as SVG, readable on light and on dark pages."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

Points = Sequence[tuple[float, float]]

COLORS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#888888")
WIDTH, HEIGHT = 640, 360
LEFT, RIGHT, TOP, BOTTOM = 64, 170, 36, 48

STYLE = """
  text { font: 12px sans-serif; fill: #333 }
  .title { font-size: 14px; font-weight: bold }
  .axis { stroke: #888; fill: none }
  .grid { stroke: #8884; fill: none }
  @media (prefers-color-scheme: dark) { text { fill: #ccc } }
"""


class Axis:
    """Places values between two pixels, on a logarithmic or linear scale."""

    def __init__(self, values: Sequence[float], low: float, high: float, *, log: bool) -> None:
        self.log, self.low, self.high = log, low, high
        least, most = min(values), max(values)
        if log:
            self.first, self.last = math.log10(least), math.log10(most)
            if self.last == self.first:
                self.first, self.last = self.first - 0.5, self.last + 0.5
        else:
            self.first, self.last = 0.0, most or 1.0

    def place(self, value: float) -> float:
        at = math.log10(value) if self.log else value
        return self.low + (at - self.first) / (self.last - self.first) * (self.high - self.low)

    def ticks(self) -> list[float]:
        if not self.log:
            step = 10 ** math.floor(math.log10(self.last))
            step = step / 5 if self.last / step < 2 else step / 2 if self.last / step < 5 else step
            return [step * i for i in range(int(self.last / step) + 1)]
        first, last = math.floor(self.first), math.ceil(self.last)
        factors = (1, 2, 5) if last - first <= 2 else (1,)
        found = [factor * 10.0**power for power in range(first, last + 1) for factor in factors]
        return [value for value in found if self.first - 1e-9 <= math.log10(value) <= self.last + 1e-9]


def write_plot(
    path: Path,
    title: str,
    across: str,
    upward: str,
    lines: Mapping[str, Points],
    *,
    log_across: bool = True,
    log_upward: bool = True,
    dots: bool = True,
) -> None:
    """Writes a plot of named lines."""
    points = [point for line in lines.values() for point in line]
    x = Axis([x for x, _ in points], LEFT, WIDTH - RIGHT, log=log_across)
    y = Axis([y for _, y in points], HEIGHT - BOTTOM, TOP, log=log_upward)
    parts = [f'<text class="title" x="{LEFT}" y="20">{escape(title)}</text>']
    for value in x.ticks():
        at = x.place(value)
        parts.append(f'<path class="grid" d="M{at:.1f} {TOP}V{HEIGHT - BOTTOM}"/>')
        parts.append(f'<text x="{at:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{value:,g}</text>')
    for value in y.ticks():
        at = y.place(value)
        parts.append(f'<path class="grid" d="M{LEFT} {at:.1f}H{WIDTH - RIGHT}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{value:,g}</text>')
    parts.append(f'<path class="axis" d="M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{WIDTH - RIGHT}"/>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text x="{middle}" y="{HEIGHT - 10}" text-anchor="middle">{escape(across)}</text>')
    turned = f'transform="translate(14 {(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)"'
    parts.append(f'<text {turned} text-anchor="middle">{escape(upward)}</text>')
    for number, (name, line) in enumerate(lines.items()):
        color = COLORS[number % len(COLORS)]
        placed = [(x.place(a), y.place(b)) for a, b in line]
        steps = " ".join(f"{a:.1f},{b:.1f}" for a, b in placed)
        parts.append(f'<polyline points="{steps}" fill="none" stroke="{color}" stroke-width="{2 if dots else 1}"/>')
        parts += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{color}"/>' for a, b in placed if dots]
        row = TOP + 8 + 18 * number
        parts.append(f'<rect x="{WIDTH - RIGHT + 12}" y="{row - 9}" width="10" height="10" fill="{color}"/>')
        parts.append(f'<text x="{WIDTH - RIGHT + 28}" y="{row}">{escape(name)}</text>')
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}">'
    path.write_text("\n".join([head, f"<style>{STYLE}</style>", *parts, "</svg>"]) + "\n")
