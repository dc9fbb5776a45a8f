"""Words in file names and band descriptions that mean a layer."""

from __future__ import annotations

import re
from collections.abc import Iterator

#: For each layer, full names and the usual abbreviations of LANDFIRE, FARSITE and FlamMap; LANDFIRE's own is last.
WORDS = {
    "elevation": ("elevation", "dem", "elev"),
    "slope": ("slope", "slp", "slpp", "slpd"),
    "aspect": ("aspect", "asp", "aspd"),
    "canopy_cover": ("canopycover", "canopycov", "cc"),
    "canopy_height": ("canopyheight", "canopyht", "ch"),
    "canopy_base_height": ("canopybaseheight", "cbh"),
    "canopy_bulk_density": ("canopybulkdensity", "cbd"),
    "fuel_model": ("fuelmodel", "fuelmodels", "fuel", "fbfm", "fbfm13", "f40", "f13", "fbfm40"),
}

#: The order of the bands in FARSITE's and FlamMap's files.
FARSITE_ORDER = (
    "elevation",
    "slope",
    "aspect",
    "fuel_model",
    "canopy_cover",
    "canopy_height",
    "canopy_base_height",
    "canopy_bulk_density",
)

#: Names that say nothing.
NAMELESS = re.compile(r"(?:band[ _]*[0-9]*|layer[ _]*[0-9]*)?", re.IGNORECASE)


def match_layer_name(text: str) -> str | None:
    """The layer that a file name or a description names."""
    words = split_words(text)
    pairs = ["".join(words[k : k + n]) for n in (3, 2, 1) for k in range(len(words) - n + 1)]
    for pair in pairs:  # three words before one: canopy_base_height is not a height
        for word in list_spellings(pair):
            for layer, names in WORDS.items():
                if word in names:
                    return layer
    return None


def imply_unit(text: str) -> str:
    """The unit that a name tells: LANDFIRE's SlpP is a slope in percent. Empty for all others."""
    percent = any("slpp" in list_spellings(word) for word in split_words(text))
    return "percent" if percent else ""


def split_words(text: str) -> list[str]:
    """The words of a name, in lower case."""
    return [word for word in re.split(r"[^a-z0-9]+", text.lower()) if word]


def list_spellings(word: str) -> Iterator[str]:
    """A word; and without LANDFIRE's version before it (240CBH) and the year after it (ELEV2020)."""
    yield word
    yield re.sub(r"^[0-9]{3}(?=[a-z])", "", word)
    yield re.sub(r"(?<=[a-z])(?:19|20)[0-9]{2}$", "", word)


def is_nameless(text: str | None) -> bool:
    """Whether a band's description says nothing about its layer, as `Band 1`."""
    return NAMELESS.fullmatch((text or "").strip()) is not None
