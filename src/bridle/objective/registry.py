"""Registries: a name for each thing of a kind, loaded when it is asked for.

Names alone load nothing: the command line lists them, and NumPy takes its time.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any


class Registry(dict[str, Any]):
    """name -> a class, or where it is: "module:Class". Names are known without loading anything."""

    def __init__(self, what: str, entries: Mapping[str, Any]) -> None:
        super().__init__(entries)
        self.what = what

    @property
    def group(self) -> str:
        """Of the entry points by which installed packages add to it."""
        return f"bridle.{self.what.replace(' ', '_')}{'es' if self.what.endswith('s') else 's'}"

    def load(self, name: str) -> Any:
        """The class of that name; ValueError says which there are."""
        if not self.knows(name):
            raise ValueError(f"unknown {self.what} {name!r}; known: {', '.join(self)}")
        entry = self[name]
        return at(entry) if isinstance(entry, str) else entry

    def knows(self, name: str) -> bool:
        """Whether there is one of that name, here or in an installed package."""
        if name not in self:
            add_installed(self.group, self)
        return name in self

    def holds(self, thing: Any) -> bool:
        """Whether its name stands for its class here."""
        return thing.name in self and self.load(thing.name) is type(thing)


def add_installed(group: str, names: dict[str, Any], made: Callable[[str], Any] = str) -> None:
    """What installed packages add to a registry, by their entry points of this group.

    Looked for where a name is not known yet, since it takes a while. made: the registry's entry for
    "module:Class". Names that are known stay what they are.
    """
    from importlib.metadata import entry_points

    for entry in entry_points(group=group):
        names.setdefault(entry.name, made(entry.value))


def lazy_names(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """A package's `__getattr__`: its names, each with the "module:name" that it stands for."""

    def get(name: str) -> Any:
        if name in homes:
            return at(homes[name])
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return get


def at(place: str) -> Any:
    """What stands at "module:name"."""
    module, _, attribute = place.partition(":")
    return getattr(importlib.import_module(module), attribute)
