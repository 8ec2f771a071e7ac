"""Every public method says what it does, itself or by the class that it inherits from."""

import importlib
import inspect
import pkgutil

import pytest

import coupledgp

MODULES = [m.name for m in pkgutil.walk_packages(coupledgp.__path__, "coupledgp.")]


def undocumented(cls: type) -> list[str]:
    """Public methods and properties of a class without a docstring, inherited ones counted."""
    found = []
    for name, member in vars(cls).items():
        body = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
        if name.startswith("_") or not inspect.isfunction(body) or body.__name__ == "<lambda>":
            continue
        if not inspect.getdoc(getattr(cls, name)):
            found.append(f"{cls.__module__}.{cls.__qualname__}.{name}")
    return found


@pytest.mark.parametrize("package", sorted({".".join(m.split(".")[:2]) for m in MODULES}))
def test_public_methods_have_docstrings(package):
    missing = []
    for name in MODULES:
        if name == package or name.startswith(f"{package}."):
            for cls in vars(importlib.import_module(name)).values():
                if inspect.isclass(cls) and cls.__module__ == name and cls.__name__[0] != "_":
                    missing += undocumented(cls)
    assert not missing


class Base:
    def told(self):
        """Return nothing."""


class Own(Base):
    def told(self):
        return 1

    def untold(self):
        return 2


def test_a_method_without_a_docstring_is_found():
    assert [name.rsplit(".", 1)[1] for name in undocumented(Own)] == ["untold"]
