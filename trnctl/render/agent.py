"""The program that travels to the head node with each call: its script, and before it the modules that it imports."""

from __future__ import annotations

from trnctl.render import templates

# In the order in which they import each other.
_MODULES = (
    "s3", "objects", "cache", "tend", "folder", "slurm", "needs", "preparing", "submit", "resume", "follow", "watch",
    "check",
)  # fmt: skip
# Each becomes a module of its own under its own name, so that the same text can be a file beside a run's scripts.
_INSTALL = """\
import sys, types
for name, text in {modules!r}:
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(text, name + '.py', 'exec'), module.__dict__)
"""


def agent() -> str:
    """The whole program, as one text."""
    return _program("queue", _MODULES)


def exporter() -> str:
    """The program that copies runs to a bucket."""
    return _program("export", ("s3",))


def _program(main: str, imports: tuple[str, ...]) -> str:
    modules = [(name, templates.read(f"node/{name}.py")) for name in imports]
    return _INSTALL.format(modules=modules) + templates.read(f"node/{main}.py")


def node_monitor() -> str:
    """The program that the head node hands to `srun` to look at the nodes of a run."""
    return templates.read("node/monitor.py")
