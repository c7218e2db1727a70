"""What the programs beside it share. Imported before the frameworks: it sets what they read as they start."""
import atexit
import contextlib
import importlib.util
import os
import shutil
import sys
import tempfile

SKIPPED = 77
os.environ.update(CUBLAS_WORKSPACE_CONFIG=":4096:8", HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false",
                  XLA_PYTHON_CLIENT_PREALLOCATE="false")


def skip(lacking):
    print("skipped: no " + lacking)
    sys.exit(SKIPPED)


def needs(*modules):
    """Ends the program if there is no GPU, or one of the modules is missing."""
    for module in modules:
        if importlib.util.find_spec(module) is None:
            skip(module)
    if os.environ.get("TEST_DEVICE") == "cpu" or not os.path.exists("/dev/nvidiactl"):
        skip("GPU")


def scratch():
    """A directory that goes with the process; what compilers keep there no other run will find."""
    place = tempfile.mkdtemp(prefix="zoo-")
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    return place


def own_caches():
    """Inductor and Triton compile anew in every run."""
    place = scratch()
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(place, "inductor")
    os.environ["TRITON_CACHE_DIR"] = os.path.join(place, "triton")


def exact(deterministic=True):
    """torch with full precision, seeded, with the same sums in the same order wherever it can."""
    import torch
    if not torch.cuda.is_available():
        skip("CUDA in torch")
    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.deterministic = True
    if deterministic:
        torch.use_deterministic_algorithms(True, warn_only=True)


def quietly():
    """What a framework prints (times, for one) is not compared."""
    return contextlib.redirect_stdout(sys.stderr)


def show(what, *values, digits=3):
    print(what, *("%.*g" % (digits, float(value)) for value in values), flush=True)


def weight_of(model):
    """All weights in a number."""
    return sum(parameter.detach().double().abs().sum().item() for parameter in model.parameters())


def few_kernels():
    """For tools that look at every launch."""
    import torch

    exact(deterministic=False)
    x = torch.linspace(-1, 1, 1 << 20).cuda()
    for _ in range(5):
        x = torch.tanh(x) * 1.5 + 0.1
    show("mean", x.mean().item())
