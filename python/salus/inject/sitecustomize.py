# Imported by every Python that `salus run` starts, at its start. Then it gets out of the way.
#
# An error here must not reach the script, so no exception may escape.


def _start_salus():
    import os
    import sys

    here = os.path.dirname(os.path.abspath(__file__))
    # The script must not see this folder; its children must, through PYTHONPATH.
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or os.curdir) != here or entry == ""]
    if sys.version_info < (3, 8):
        sys.stderr.write("salus: this Python is older than 3.8; the job runs without sharing\n")
        return
    import importlib.util

    package = os.path.dirname(here)
    # Loaded by path and under its own name, so that another package called salus does not matter.
    spec = importlib.util.spec_from_file_location(
        "_salus", os.path.join(package, "__init__.py"), submodule_search_locations=[package])
    sys.modules["_salus"] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    from _salus import adaptor

    adaptor.watch()


def _chain():
    """Runs the sitecustomize that this one shadows, if there is one."""
    import importlib.machinery
    import importlib.util
    import sys

    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


try:
    _start_salus()
except Exception as error:  # pragma: no cover
    import sys

    sys.stderr.write("salus: the adaptor cannot start (%s); the job runs without sharing\n" % error)
_chain()
