"""Objects of the user's by their name, `module:Object`, and the arguments that they are called with, as command
lines and config.json hold them."""

from __future__ import annotations

import importlib
import json
from typing import Annotated, Any

import tyro

from flashdqn.core.errors import ConfigError


def import_named(name: str, what: str) -> Any:
    """The object; `what` says in messages what it was wanted for: "the torso"."""
    module, _, rest = name.partition(":")
    if not module or not rest:
        raise ConfigError(f"{what} of your own is written module:Name, and '{name}' is not.")
    found: Any = _import_module(module, name, what)
    for part in rest.split("."):
        if not hasattr(found, part):
            raise ConfigError(f"The module {module} has no '{rest}', which {what} '{name}' names.")
        found = getattr(found, part)
    return found


def _import_module(module: str, name: str, what: str) -> Any:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing = error.name or module
        if module == missing or module.startswith(f"{missing}."):
            raise ConfigError(
                f"There is no module '{missing}' to take {what} '{name}' from: run the command in the folder where "
                "it lies, or install it."
            ) from None
        raise ConfigError(f"{module} needs the module '{missing}', which is not installed.") from error
    except Exception as error:  # the user's own code
        raise ConfigError(f"{module} cannot be imported: {type(error).__name__}: {error}") from error


def parse_kwargs(text: str, where: str = "") -> dict[str, Any]:
    """Arguments by name, as a JSON object; `where` says in a message which they are: " for env.kwargs"."""
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise ConfigError(f"""Arguments{where} are written like '{{"width": 64}}', and '{text}' is not.""")
    return value


def make_kwargs_flag(where: str = "") -> Any:
    """How a command line writes arguments by name."""
    return tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar="JSON",
        instance_from_str=lambda words: parse_kwargs(words[0], where),
        is_instance=lambda value: isinstance(value, dict),
        str_from_instance=lambda value: [json.dumps(value)],
    )


Kwargs = Annotated[dict[str, Any], make_kwargs_flag()]


def check_json_serializable(name: str, kwargs: dict[str, Any]) -> None:
    """Refuse arguments that config.json could not hold."""
    try:
        json.dumps(kwargs)
    except TypeError as error:
        raise ConfigError(f"{name} must be plain data that JSON can hold: {error}.") from None
