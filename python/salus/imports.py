"""Runs code right after a module is imported, whenever that happens."""

import importlib.abc
import importlib.util
import sys


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self):
        self.awaited = {}

    def find_spec(self, name, path, target=None):
        then = self.awaited.pop(name, None)
        if then is None:
            return None
        # No longer awaited, so that this lookup finds what other finders find.
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            self.awaited[name] = then
            return spec
        spec.loader = _Loader(spec.loader, then)
        return spec


class _Loader(importlib.abc.Loader):
    """Wraps another loader, and runs code afterwards."""

    def __init__(self, loader, then):
        self._loader = loader
        self._then = then

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        # The module must look as if it had been imported without us.
        module.__loader__ = module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._then(module)

    def __getattr__(self, name):
        return getattr(self._loader, name)


_finder = _Finder()


def when_imported(name, then):
    """Calls then(module): now if the module is already imported, otherwise right after its import."""
    if name in sys.modules:
        then(sys.modules[name])
        return
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    _finder.awaited[name] = then
