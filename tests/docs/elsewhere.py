"""Lines of the documents, and messages, that the walk leaves out. A line that no document has any more is an error."""

BY_CI = "run by CI or make test-install"
GPU = "needs a GPU"
SYSTEMD = "needs systemd; make test-install lets it verify the units and runs what they start"
CONTAINERS = "needs a container's image; tests/containers_test.cpp runs jobs in the same namespaces"
INSTALLS = "changes the machine; make test-install does the same in a clean Debian or a new environment"
EXAMPLES = "trains for up to 40 s; its options are looked up in the script"

# With the wildcards of a shell.
LINES = {
    "make package && sudo apt install ./build/packages/salus_[*].deb": INSTALLS,
    "apt install ./build/packages/salus_[*].deb": INSTALLS,
    "apt purge salus": INSTALLS,
    "dnf install ./build/packages/salus-[*].rpm": INSTALLS,
    "dnf remove salus": INSTALLS,
    "pip install build/packages/salus-[*].whl": INSTALLS,
    "pip uninstall salus": INSTALLS,
    "pip install ipykernel": "needs a package index",
    "tar --strip-components=1 -C /usr/local -xf salus-[*].tar.gz": INSTALLS,
    "source .venv/bin/activate": "only where make demo has made .venv",
    "make *": BY_CI,
    "packaging/glibc PREFIX LIMIT": BY_CI,
    "tests/shim/orders *": "takes minutes; make check runs it",
    "systemctl *": SYSTEMD,
    "systemd-tmpfiles --create": SYSTEMD,
    "journalctl *": SYSTEMD,
    "docker *": CONTAINERS,
    "podman *": CONTAINERS,
    "apptainer *": CONTAINERS,
    'eval "$(salus env --shell)"': "changes the reader's own shell; tests/joining_test.cpp looks at what is printed",
    "gcc -shared *": "needs Slurm's headers; tests/cluster/slurm compiles the plugin",
    "salus doctor --cluster": "needs an engine to end well; tests/cluster/slurm has one",
    "salus run -- python jax_or_cupy.py &": GPU,
    "salus run --gpu *": "needs several GPUs; tests/devices_test.cpp has them",
    "salus run -- mpirun ...": "needs a launcher of MPI",
    "bench/gpu *": GPU,
    "bench/shapes/run *": "takes minutes; make bench runs it",
    "python3 bench/gpu_jobs/gate_probe.py": GPU,
    "bench/predict --calibrate": "takes minutes; make bench runs bench/predict",
    "examples/measure SCRIPT ARGUMENT …": "trains for some 20 s",
    "[0-9][0-9]_*.py *": EXAMPLES,
}

MESSAGES = {
    "this Python is older than 3.8": "needs one",
    "internal error": "needs a bug; src/client/helper_test.cpp plays one",
    "the service says: ...": "needs a breach of protocol; src/client/helper_test.cpp plays one",
    "torch ... is not known to this version of Salus": "needs another PyTorch",
    "the tensors of this torch cannot be placed": "needs another PyTorch",
    "there is no C++ compiler (g++ or clang++, or what CXX names) for torch's allocator": "tests/python/test_cuda_allocator.py",
    "torch's headers are not in ...": "tests/python/test_cuda_allocator.py",
    "CUDA's headers (cuda_runtime_api.h) are not found: CUDA_HOME can say where they are": "tests/python/test_cuda_allocator.py",
    "no home directory for the compiled torch allocator; set XDG_CACHE_HOME": "tests/python/test_cuda_allocator.py",
    "the allocator for torch ... cannot be compiled": "tests/python/test_cuda_allocator.py",
    "memory that was paged out cannot be read back": "needs a disk that fails",
    "waits until the GPU has memory again for what was paged out": "needs a GPU",
    "the GPU has no room for what was paged out": "needs a GPU",
    "the service did not start within 20 s; see ...": "takes 20 s",
    "the GPU ... (...) is lost: it has failed or was taken away": "tests/devices_test.cpp loses one",
    "the process uses the GPU ...; the service shares ...": "needs several GPUs; tests/devices_test.cpp has them",
}
