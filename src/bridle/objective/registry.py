"""Registries: a name for each thing of a kind, loaded when it is asked for."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any


class Registry(dict[str, Any]):
    """name -> a class, or where it is: "module:Class". Names are known without loading anything."""

    def __init__(self, what: str, entries: Mapping[str, Any]) -> None:
        super().__init__(entries)
        self.what = what

    def load(self, name: str) -> Any:
        """The class of that name; ValueError says which there are."""
        if name not in self:
            raise ValueError(f"unknown {self.what} {name!r}; known: {', '.join(self)}")
        entry = self[name]
        if not isinstance(entry, str):
            return entry
        module, _, attribute = entry.partition(":")
        return getattr(importlib.import_module(module), attribute)

    def holds(self, thing: Any) -> bool:
        """Whether its name stands for its class here."""
        return thing.name in self and self.load(thing.name) is type(thing)
