"""Registries of methods, models and so on: built-in, from entry points, or as `package.module:NAME`."""

import importlib
import os
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from pfedeg.errors import InputError
from pfedeg.text import suggest

HINT = "; install it, put its folder on PYTHONPATH, or run the command in its folder"


class Named(Protocol):
    """An object that a registry can hold."""

    @property
    def name(self) -> str:
        """The name that users choose it by."""

    @property
    def label(self) -> str:
        """The name in tables and figures."""


T = TypeVar("T", bound=Named)


class Registry(Generic[T]):
    """Objects of one kind by identifier: a built-in name, the name of an entry point, or `package.module:NAME`."""

    def __init__(self, kind: str, of: type[T], builtin: Mapping[str, str]) -> None:
        """`builtin` maps names to `package.module:NAME`; entry points are in the group `pfedeg.{kind}s`."""
        self.kind, self._of, self._builtin = kind, of, dict(builtin)
        self._loaded: dict[str, T] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._builtin)

    def __contains__(self, name: object) -> bool:
        return name in self._builtin

    def __getitem__(self, identifier: str) -> T:
        return self.get(identifier)

    def values(self) -> list[T]:
        """The built-in objects, in order."""
        return [self.get(name) for name in self]

    def loaded(self) -> dict[str, T]:
        """The built-in objects and all plug-ins loaded so far, by identifier."""
        return {name: self.get(name) for name in self} | self._loaded

    def position(self, identifier: str) -> tuple[int, str]:
        """A sort key: built-in identifiers in their order, then the others by name."""
        names = list(self)
        return (names.index(identifier), "") if identifier in names else (len(names), identifier)

    def get(self, identifier: str) -> T:
        """The object with this identifier or label, or an error that suggests similar names."""
        if identifier not in self._loaded:
            identifier = self.identify(identifier)
        if identifier not in self._loaded:
            self._loaded[identifier] = self._find(identifier)
        return self._loaded[identifier]

    def identify(self, wanted: Any) -> str:
        """The identifier that belongs to a name or label in any case, or to the object itself."""
        if isinstance(wanted, self._of):
            return self._identify_object(wanted)
        if not isinstance(wanted, str):
            raise InputError(f"{self.kind}: expected a name, package.module:NAME or a {self._of.__name__}")
        if wanted in self._builtin or ":" in wanted:
            return wanted
        added, folded = self._added(), wanted.casefold()
        if wanted in added:
            return wanted
        names: dict[str, str] = {name.casefold(): name for name in (*added, *self)}
        if folded in names:
            return names[folded]
        labels: dict[str, str] = {found.label.casefold(): name for name, found in reversed(self.loaded().items())}
        return labels.get(folded, wanted)

    def _identify_object(self, found: T) -> str:
        for identifier, known in self.loaded().items():
            if known is found:
                return identifier
        for module in list(sys.modules.values()):
            for attribute, value in list(getattr(module, "__dict__", {}).items()):
                if value is found:
                    identifier = f"{_importable_name(module)}:{attribute}"
                    self._loaded[identifier] = found
                    return identifier
        text = f"{self.kind} {found.name!r}: assign it to a name at the top level of a module"
        raise InputError(f"{text}, so that a saved run can find it again")

    def _find(self, identifier: str) -> T:
        path = self._builtin.get(identifier)
        if path is None and ":" not in identifier:
            added = self._added()
            path = added.get(identifier)
            if path is None:
                raise InputError(f"unknown {self.kind} {identifier!r}{suggest(identifier, [*self, *added])}")
        return self._load(path or identifier)

    def _added(self) -> dict[str, str]:
        """The entry points of other packages: names and `package.module:NAME`."""
        return {point.name: point.value for point in entry_points(group=f"pfedeg.{self.kind}s")}

    def _load(self, path: str) -> T:
        name, _, attribute = path.partition(":")
        try:
            module = _import(name)
        except (Exception, SystemExit) as error:  # a user's module may raise anything
            hint = "" if name in sys.modules or not isinstance(error, ModuleNotFoundError) else HINT
            named = isinstance(error, ImportError | InputError)
            why = str(error) if named else f"{type(error).__name__}: {error}"
            raise InputError(f"{self.kind} {path!r}: cannot import {name}: {why}{hint}") from None
        found = getattr(module, attribute, None)
        if not isinstance(found, self._of):
            known = [key for key, value in vars(module).items() if isinstance(value, self._of)]
            hint = suggest(attribute, known) if known else f"; it defines no {self._of.__name__}"
            raise InputError(f"{self.kind} {path!r}: {name} has no {self._of.__name__} called {attribute!r}{hint}")
        return found


def _importable_name(module: Any) -> str:
    """The name under which another process can import a module; for the main program, the name of its file."""
    file = getattr(module, "__file__", None)
    return Path(file).stem if module.__name__ == "__main__" and file else str(module.__name__)


def _import(name: str) -> Any:
    """Import a module, also from the current folder as `python -m` does."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name.partition(".")[0] or os.getcwd() in sys.path:
            raise
    sys.path.append(os.getcwd())
    try:
        return importlib.import_module(name)
    except BaseException:
        sys.path.remove(os.getcwd())
        raise
