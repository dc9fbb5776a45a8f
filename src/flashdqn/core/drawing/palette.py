"""The colors of games by name, on a light page and on a dark one."""

from __future__ import annotations

LIGHT = {
    "board": "#f4f1ea",
    "grid": "#e4dfd3",
    "ink": "#222233",
    "soft": "#5d6778",
    "faint": "#d9dee5",
    "card": "#f5f7f9",
    "accent": "#1f6f8b",
    "warm": "#c8553d",
    "good": "#3f8a5c",
    "gold": "#c9922e",
    "body-near": "#1f6f8b",
    "body-far": "#9cc5d0",
    "heat": "#5b3fa8",
    "head": "#143d4d",
    "eye": "#f4f1ea",
}

DARK = {
    "board": "#18212a",
    "grid": "#232f3a",
    "ink": "#dfe5ec",
    "soft": "#98a4b3",
    "faint": "#323d4a",
    "card": "#1b232c",
    "accent": "#6fb7c9",
    "warm": "#e5806a",
    "good": "#6dbb8b",
    "gold": "#dcae4a",
    "body-near": "#4fa9c4",
    "body-far": "#24505f",
    "heat": "#c9b3ff",
    "head": "#a6dcea",
    "eye": "#18212a",
}


def resolve_color(name: str, palette: dict[str, str] = LIGHT) -> str:
    """The `#rrggbb` that a name stands for; a `#rrggbb` stands for itself."""
    return palette.get(name, name)


def color_to_rgb(name: str, palette: dict[str, str] = LIGHT) -> tuple[int, int, int]:
    """A color as three numbers, 0 to 255."""
    text = resolve_color(name, palette).lstrip("#")
    red, green, blue = (int(text[k : k + 2], 16) for k in (0, 2, 4))
    return red, green, blue


def blend_colors(near: tuple[int, int, int], far: tuple[int, int, int], share: float) -> tuple[int, int, int]:
    """The color at `share` of the way from `near` to `far`."""
    red, green, blue = (round(a + (b - a) * share) for a, b in zip(near, far, strict=True))
    return red, green, blue
