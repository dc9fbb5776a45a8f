"""For the API page: a setting's type without what it says to the command line."""

from __future__ import annotations

from typing import Any

from griffe import Attribute, Expr, ExprSubscript, ExprTuple, Extension


class PlainTypes(Extension):
    """`Annotated[int | None, …]` and `Suppress[str]` are shown as `int | None` and `str`."""

    def on_attribute_instance(self, *, attr: Attribute, **_: Any) -> None:
        """Every field passes by here."""
        attr.annotation = plain(attr.annotation)


def plain(annotation: str | Expr | None) -> str | Expr | None:
    """The type that is meant."""
    if not isinstance(annotation, ExprSubscript):
        return annotation
    wrapper, inside = str(annotation.left).rpartition(".")[2], annotation.slice
    if wrapper == "Annotated" and isinstance(inside, ExprTuple):
        return plain(inside.elements[0])
    return plain(inside) if wrapper in ("Suppress", "Positional") else annotation
