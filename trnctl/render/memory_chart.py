"""Memory of one worker as stacked bars by number of nodes, as an SVG document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

# Each row of memory has a colour that stays apart from its neighbours in print and for the colour-blind (Okabe-Ito).
COLOURS: Mapping[str, str] = {
    "parameters": "#0072b2",
    "gradients": "#56b4e9",
    "optimizer": "#009e73",
    "gathered": "#f0e442",
    "activations": "#e69f00",
    "logits": "#cc79a7",
}
_WIDTH, _LEFT, _RIGHT, _TOP, _BAR, _GAP = 760, 90, 70, 84, 26, 12


@dataclass(frozen=True)
class Bar:
    """One bar: its label, the sizes of its parts by name, and the device's and the usable size, all in GiB."""

    label: str
    parts: Mapping[str, float]
    device: float
    usable: float


def memory_chart(title: str, bars: Sequence[Bar]) -> str:
    """The chart. The line is what training may fill, the right end of the scale the device or the longest bar."""
    scale = (_WIDTH - _LEFT - _RIGHT) / max([1e-9, *(max(bar.device, sum(bar.parts.values())) for bar in bars)])
    names = [name for name in COLOURS if any(bar.parts.get(name, 0) > 0 for bar in bars)]
    height = _TOP + len(bars) * (_BAR + _GAP) + 34
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif" '
        'font-size="13" role="img">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="12" y="26" font-size="16">{escape(title)}</text>',
        *_legend(names),
    ]
    for number, bar in enumerate(bars):
        lines += _bar(bar, _TOP + number * (_BAR + _GAP), scale, names)
    lines += _axis(bars, height, scale)
    return "\n".join([*lines, "</svg>"]) + "\n"


def _legend(names: Sequence[str]) -> list[str]:
    lines = []
    for number, name in enumerate(names):
        x = 12 + number * 118
        lines.append(f'<rect x="{x}" y="44" width="12" height="12" fill="{COLOURS[name]}"/>')
        lines.append(f'<text x="{x + 18}" y="55">{escape(name)}</text>')
    return lines


def _bar(bar: Bar, y: float, scale: float, names: Sequence[str]) -> list[str]:
    x = float(_LEFT)
    lines = [f'<text x="{_LEFT - 8}" y="{y + 18}" text-anchor="end">{escape(bar.label)}</text>']
    for name in names:
        width = bar.parts.get(name, 0.0) * scale
        if width > 0:
            told = f"{name} {bar.parts[name]:.2f} GiB"
            lines.append(
                f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{_BAR}" fill="{COLOURS[name]}">'
                f"<title>{escape(told)}</title></rect>"
            )
            x += width
    lines.append(f'<text x="{x + 6:.1f}" y="{y + 18}">{sum(bar.parts.values()):.1f}</text>')
    if bar.usable:
        limit = _LEFT + bar.usable * scale
        lines.append(f'<path d="M{limit:.1f} {y - 4}v{_BAR + 8}" stroke="#000000" stroke-width="2"/>')
    return lines


def _axis(bars: Sequence[Bar], height: int, scale: float) -> list[str]:
    if not bars or not bars[0].device:
        return []
    device, usable = bars[0].device, bars[0].usable
    told = f"GiB of one worker; the line is the {usable:.1f} of {device:.0f} GiB that training may fill; modelled"
    return [f'<text x="{_LEFT}" y="{height - 12}" fill="#555555">{escape(told)}</text>']
