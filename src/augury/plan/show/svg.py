"""Pieces of SVG: elements, text, colours. A drawing is dark on light, needs no font of its own and no script."""

import math
import unicodedata
from collections.abc import Iterable
from xml.sax.saxutils import escape, quoteattr

from augury.drawing import Drawing
from augury.wording import plain

INK, GREY, PALE = "#1a1a1a", "#767676", "#e4e4e4"
# Okabe and Ito's palette: told apart with every kind of colour blindness.
ORANGE, SKY, GREEN, YELLOW, BLUE, RED, PURPLE = (
    *("#e69f00", "#56b4e9", "#009e73", "#f0e442", "#0072b2", "#d55e00", "#cc79a7"),
)
PALETTE = (BLUE, ORANGE, GREEN, PURPLE, SKY, RED, YELLOW)
_FONT = "ui-monospace, Menlo, 'DejaVu Sans Mono', Consolas, monospace"
_LETTER = 0.61
"""How wide a letter is, as a part of the size of the font; all are equally wide."""


def element(tag: str, /, *children: str, **attributes: object) -> str:
    """An element; underscores in names of attributes stand for dashes."""
    written = "".join(f" {name.replace('_', '-')}={quoteattr(_value(value))}" for name, value in attributes.items())
    return f"<{tag}{written}>{''.join(children)}</{tag}>" if children else f"<{tag}{written}/>"


def _value(value: object) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def text(x: float, y: float, content: str, *, size: float = 11, **attributes: object) -> str:
    """A line of text; `y` is that of its base line."""
    return element("text", escape(plain(content)), x=float(x), y=float(y), font_size=size, **attributes)


def tooltip(*lines: str) -> str:
    """What shows when the pointer rests on the element that this is a child of."""
    return element("title", "\n".join(escape(plain(line)) for line in lines))


def text_width(content: str, size: float = 11) -> float:
    """About how wide a text is, in pixels."""
    cells = sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in content)
    return cells * size * _LETTER


def shortened(content: str, most: int) -> str:
    """A text of at most so many letters, with its middle left out."""
    if len(content) <= most:
        return content
    head = (most - 1) // 2
    return f"{content[:head]}…{content[len(content) - (most - 1 - head) :]}"


def tint(colour: str, strength: float) -> str:
    """A colour mixed with white; 1 is the colour itself."""
    parts = (int(colour[index : index + 2], 16) for index in (1, 3, 5))
    return "#" + "".join(f"{round(255 - (255 - part) * strength):02x}" for part in parts)


def curve(points: Iterable[tuple[float, float]]) -> str:
    """A path through points that leaves and enters each of them level."""
    (x, y), *others = points
    path = [f"M{x:.1f} {y:.1f}"]
    for to_x, to_y in others:
        if to_y == y:
            path.append(f"H{to_x:.1f}")
        else:
            half = (x + to_x) / 2
            path.append(f"C{half:.1f} {y:.1f} {half:.1f} {to_y:.1f} {to_x:.1f} {to_y:.1f}")
        x, y = to_x, to_y
    return "".join(path)


def drawing(width: float, height: float, *parts: str) -> Drawing:
    """A whole drawing on white."""
    width, height = float(math.ceil(width)), float(math.ceil(height))
    svg = element(
        "svg",
        element("rect", width="100%", height="100%", fill="#ffffff"),
        *parts,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width:.0f} {height:.0f}",
        width=width,
        height=height,
        font_family=_FONT,
        fill=INK,
    )
    return Drawing(svg, width, height)
