"""Write the pages of the API reference: one per public module, with every name in ``__all__``."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import cobandits

if TYPE_CHECKING:
    from sphinx.application import Sphinx

# What users import, in the order of the reference; a module that is not named comes last.
GROUPS = {
    "Policies and decisions": (
        "cobandits.policies",
        "cobandits.policies.schedules",
        "cobandits.decisions",
        "cobandits.ragged",
        "cobandits.schema",
    ),
    "Environments and simulation": (
        "cobandits.environments",
        "cobandits.environments.pairs",
        "cobandits.environments.choices",
        "cobandits.environments.replay",
        "cobandits.datasets",
        "cobandits.simulate",
        "cobandits.traces",
    ),
    "Logs and evaluation": (
        "cobandits.logs",
        "cobandits.log_tables",
        "cobandits.evaluation",
    ),
    "Estimators": (
        "cobandits.estimators",
        "cobandits.estimate",
        "cobandits.tasks",
        "cobandits.diagnostics",
        "cobandits.theory",
        "cobandits.metrics",
        "cobandits.sklearn",
    ),
    "Engine and service": ("cobandits.engine", "cobandits.client"),
    "Many machines": (
        "cobandits.cluster.local",
        "cobandits.cluster.dask",
        "cobandits.tasks.sources",
        "cobandits.tasks.scratch",
        "cobandits.tasks.columns",
        "cobandits.tasks.driver",
        "cobandits.spread_estimate",
    ),
    "Experiments and pictures": (
        "cobandits.lab",
        "cobandits.plots",
        "cobandits.progress",
    ),
    "Small things": (
        "cobandits.errors",
        "cobandits.intervals",
        "cobandits.randomness",
        "cobandits.threads",
    ),
}
# What the package uses inside: no promise is made about it.
INTERNAL = (
    "cobandits.__main__",
    "cobandits.archives",
    "cobandits.cli",
    "cobandits.compiled",
    "cobandits.discovery",
    "cobandits.fast_checks",
    "cobandits.files",
    "cobandits.frames",
    "cobandits.kernels",
    "cobandits.labels",
    "cobandits.linalg",
    "cobandits.schedules",
    "cobandits.service",
    "cobandits.wire",
)


def groups() -> dict[str, list[str]]:
    """Return the modules that have a page, by group."""
    found = {group: [name for name in names if _is_there(name)] for group, names in GROUPS.items()}
    named = {".".join(name.split(".")[:2]) for names in found.values() for name in names}
    every = {f"cobandits.{one.name}" for one in pkgutil.iter_modules(cobandits.__path__)}
    more = sorted(every - named - set(INTERNAL))
    found["More"] = [name for name in more if hasattr(importlib.import_module(name), "__all__")]
    return {group: names for group, names in found.items() if names}


def _is_there(name: str) -> bool:
    parent = name.rpartition(".")[0]
    return find_spec(parent) is not None and find_spec(name) is not None


def public_modules() -> tuple[str, ...]:
    """Return the modules that have a page."""
    return tuple(name for group in groups().values() for name in group)


def documented(module: ModuleType) -> list[str]:
    """Return the names of a module that have a docstring of their own: classes and functions."""
    return [
        name
        for name in module.__all__
        if inspect.isclass(value := getattr(module, name)) or inspect.isroutine(value)
    ]


def _is_of(module: ModuleType, name: str) -> bool:
    """Tell whether a name is of this package, and not taken over from another one with a page."""
    home, own = (
        text.split(".")[:2] for text in (getattr(module, name).__module__, module.__name__)
    )
    return home == own or ".".join(home) not in public_modules()


def page(name: str) -> str:
    """Return the page of a module, as reStructuredText."""
    module = importlib.import_module(name)
    names = [one for one in documented(module) if _is_of(module, one)]
    others = sorted(set(module.__all__) - set(documented(module)))
    lines = [name, "=" * len(name), "", f".. automodule:: {name}", f".. currentmodule:: {name}"]
    lines += ["", ".. autosummary::", "   :toctree: names", "   :nosignatures:", ""]
    lines += [f"   {one}" for one in names]
    for one in others:
        lines += ["", f".. py:data:: {one}", "   :no-index:"]
    if taken := [one for one in documented(module) if one not in names]:
        lines += ["", f"From other modules, and documented there: {' '.join(taken)}"]
    return "\n".join([*lines, ""])


def front() -> str:
    """Return the first page of the reference: the modules by group, and what is at the top."""
    lines = ["Python API", "==========", ""]
    lines += ["What most programs need is in ``cobandits`` itself:", "", _top(), ""]
    for group, names in groups().items():
        lines += [group, "-" * len(group), "", ".. toctree::", "   :maxdepth: 1", ""]
        lines += [*(f"   {name}" for name in names), ""]
    return "\n".join(lines)


def _top() -> str:
    """Return links to the names of the package itself, where their modules document them."""
    homes = {
        getattr(module, name): f"{module.__name__}.{name}"
        for module in map(importlib.import_module, reversed(public_modules()))
        for name in documented(module)
    }
    links = (f":py:obj:`{one} <{homes[getattr(cobandits, one)]}>`" for one in documented(cobandits))
    return ", ".join(links) + "."


def write_pages(app: Sphinx, _config: object) -> None:
    """Write all pages; a file that would not change is left alone."""
    folder = Path(app.srcdir) / "reference" / "api"
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in {"index": front(), **{one: page(one) for one in public_modules()}}.items():
        path = folder / f"{name}.rst"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def forget_builtins(_app: Sphinx, env: object) -> None:
    """Take builtins, which has no page, out of the list of sources."""
    getattr(env, "_viewcode_modules", {}).pop("builtins", None)


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the pages before Sphinx looks for pages."""
    app.connect("config-inited", write_pages)
    app.connect("env-updated", forget_builtins)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
