"""How to get into the troubles of docs/troubleshooting.md. Each function brings one about and returns what was printed; one that
takes seconds returns the process that will print it."""

import os
import re
import signal
import socket

from reader import FOREVER, PLACE, as_ada

TROUBLES = {}  # on the host device
GPU_TROUBLES = {}  # on the stand-in for a GPU


def trouble(*messages, on=TROUBLES):
    def put(function):
        on.update(dict.fromkeys(messages, function))
        return function

    return put


def said(reader, line, status, **how):
    return reader.types(line, status, **how).text


def ps(reader, service, option=""):
    return said(reader, "salus ps " + option, None, variables=service.variables)


def works(reader, service):
    """Whether a job of this service has had an iteration, and so all of its memory."""
    return re.search('"iterations": [1-9]', ps(reader, service, "--json"))


def start_service(reader, options, around=""):
    """One of its own, whose socket every user can reach."""
    number = len(reader.pids)
    place = "/run/other-%d" % number
    os.mkdir(place, 0o755)
    service = reader.start("exec %s salusd --socket %s/socket --state %s/state %s" % (around, place, place, options))
    service.variables = {"SALUS_SOCKET": place + "/socket", "SALUS_ORPHAN_WAIT": "0"}
    reader.eventually(lambda: "listening" in service.said(), "the service does not start")
    return service


AWAY = {"SALUS_SOCKET": "/run/away/socket"}


# ------------------------------------------------------------------------------------- a job runs without sharing


@trouble("python -... keeps the adaptor out")
def isolated(reader):
    return said(reader, "salus run -- python -I -c pass", 0)


@trouble("the adaptor cannot start")
def odd_torch(reader):
    return said(reader, 'salus run -- python -c "import torch"', 0, variables=fake_torch(reader))


def fake_torch(reader):
    """Enough for what is looked at first."""
    os.makedirs(reader.work + "/fake", exist_ok=True)
    reader.write(reader.work + "/fake/torch.py", "__version__ = '2.13.0'\nclass version:\n    cuda = None\n")
    return {"PYTHONPATH": reader.work + "/fake"}


@trouble("torch.distributed with several processes is not shared yet")
def several_ranks(reader):
    return said(reader, 'salus run -- python -c "import torch"', 0, variables={**fake_torch(reader), "WORLD_SIZE": "2"})


@trouble("the service shares a GPU, and this torch was built without CUDA", on=GPU_TROUBLES)
def torch_for_the_cpu(reader):
    return said(reader, 'salus run -- python -c "import torch"', 0, variables=fake_torch(reader))


@trouble("its processes wait for others on the GPU, which take no turns with them", on=GPU_TROUBLES)
def ranks_elsewhere(reader):
    reader.types("salus run -d --name rank -- salus-shim-program linked --seconds 60",
                 variables={"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1"})
    reader.eventually(lambda: reader.job("rank").get("why_unshared"), "it shares")
    text = said(reader, "salus ps", 0)
    reader.types("salus kill --now rank")
    return text


@trouble("--gpu: there is no GPU '...'; the service shares ...")
def no_such_gpu(reader):
    return said(reader, "salus run --gpu 9 -- ./train", 2)


@trouble("CUDA_VISIBLE_DEVICES is '...', which names no GPU that the service shares", on=GPU_TROUBLES)
def another_gpu(reader):
    return said(reader, "salus run -- ./train", 0, variables={"CUDA_VISIBLE_DEVICES": "9"})


@trouble("--shim off leaves the shim out", on=GPU_TROUBLES)
def without_shim(reader):
    return said(reader, "salus run --require --shim off -- ./train", 125)


@trouble("... cannot be preloaded here", on=GPU_TROUBLES)
def broken_shim(reader):
    shim = reader.lib + "/libsalus-cuda.so"
    os.rename(shim, shim + ".good")
    try:
        reader.write(shim, "no library")
        return said(reader, "salus run -- ./train", 0)
    finally:
        os.rename(shim + ".good", shim)


@trouble("... is missing")
def incomplete_installation(reader):
    os.rename(reader.lib + "/salus/python", reader.lib + "/salus/lost")
    try:
        return said(reader, "salus run -- python -c pass", 0)
    finally:
        os.rename(reader.lib + "/salus/lost", reader.lib + "/salus/python")


@trouble("...; the job starts without sharing", "...; the job waits for it for up to ... s, then it ...")
def service_is_away(reader):
    return reader.start("salus run -- ./train", variables={**AWAY, "SALUS_ORPHAN_WAIT": "3"})


@trouble("...; the job waits for the next service for up to ... s",
         "the service is gone (...); this job continues without sharing")
def service_is_killed(reader):
    service = start_service(reader, "")
    job = reader.start("salus run -- ./train", variables={**service.variables, "SALUS_ORPHAN_WAIT": "3", "ITERATIONS": "500"})
    reader.eventually(lambda: works(reader, service), "the job does not work")
    service.kill()
    service.wait()
    return job


@trouble("...; the job cannot share and is not started")
def required(reader):
    return said(reader, "salus run --require -- ./train", 125, variables={**AWAY, "SALUS_ORPHAN_WAIT": "0"})


@trouble("the service runs in another PID namespace and cannot see this process")
def service_in_a_container(reader):
    service = start_service(reader, "", around="unshare --pid --fork --kill-child")
    try:
        return said(reader, "salus run -- ./train", 0, variables=service.variables)
    finally:
        service.kill()


@trouble("this service belongs to another user",
         "this service belongs to another user (uid …); this process has uid …")
def anothers_service(reader):
    service = start_service(reader, "")
    os.chmod(service.variables["SALUS_SOCKET"], 0o666)
    return said(reader, "salus run -- " + reader.work + "/train", 0, **as_ada(), variables=service.variables)


@trouble("this job closed the descriptors of Salus; it continues without sharing")
def closed_descriptors(reader):
    reader.write(reader.work + "/careless.py", """
import ctypes, os
salus = ctypes.CDLL(os.environ["SALUS_LIBRARY"])
client = ctypes.c_void_p()
salus.salus_attach(None, ctypes.byref(client))
os.closerange(3, 1000)
for _ in range(3):
    salus.salus_begin(client), salus.salus_end(client)
salus.salus_detach(client)
""")
    return said(reader, "salus run -- python careless.py", 0)


# -------------------------------------------------------------------------------------------------------------- memory


@trouble("... more do not fit: job ... holds ... of ...", "... more do not fit: jobs have ..., and no other job holds any of it")
def grows_beyond_what_is_left(reader):
    service = start_service(reader, "--capacity 300MiB --lanes 1 --paging off --policy rr")
    grows = "salus run -- salus-job --quiet --persistent 16MiB --ephemeral 8MiB --block 8MiB --touch pages --work 200 " \
            "--iterations 60 --grow-at 20 --grow-persistent "
    text = said(reader, grows + "400MiB", 1, variables=service.variables)
    reader.types("salus run -d --name holder -- salus-job --quiet --persistent 160MiB --ephemeral 8MiB --block 8MiB "
                 "--touch pages --work 200 --think-ms 5 --iterations 1000000", variables=service.variables)
    reader.eventually(lambda: works(reader, service), "the holder does not work")
    text += said(reader, grows + "200MiB", 1, variables=service.variables)
    reader.types("salus kill --all --now", variables=service.variables)
    service.kill()
    return text


@trouble("... more do not fit: this process holds ... of the ... that --memory allows", on=GPU_TROUBLES)
def more_than_allowed(reader):
    return said(reader, "salus run --memory 32MiB -- salus-shim-program resolver --mib 48", None)


@trouble("this job needs ... and the device has ...")
def larger_than_the_device(reader):
    service = start_service(reader, "--capacity 100MiB")
    return said(reader, "salus run -- salus-job --persistent 80MiB --ephemeral 80MiB --profile-known --iterations 5", 1,
                variables=service.variables)


@trouble("waits for memory on the GPU, to start", on=GPU_TROUBLES)
def no_room_to_start(reader):
    reader.types("salus run -d --name holder -- salus-shim-program resolver --mib 2800 --launches 100000 --pause-us 100000")
    reader.eventually(lambda: reader.job("holder").get("persistent_bytes", 0) > 2700 << 20, "the job takes no memory")
    job = reader.start("salus run -- salus-shim-program resolver --launches 3")
    reader.eventually(job.said, "it says nothing")
    reader.types("salus kill --now holder")
    return job


def second_job_of_ada(reader, limit, command):
    """What ps says of it."""
    service = start_service(reader, "--users all " + limit)
    for name in ("one", "two"):
        reader.start("salus run --name %s -- %s" % (name, command), **as_ada(), variables={**service.variables, **FOREVER})
        reader.eventually(lambda: works(reader, service), "the first job does not work")
    reader.eventually(lambda: "user may have" in ps(reader, service), "the second job does not wait")
    text = ps(reader, service)
    reader.types("salus kill --all --now", **as_ada(), variables=service.variables)
    service.kill()
    return text


@trouble("as many jobs of its user run as that user may have")
def many_jobs(reader):
    return second_job_of_ada(reader, "--user-jobs-max 1", reader.work + "/train")


@trouble("the jobs of its user have as much memory as that user may have")
def much_memory(reader):
    return second_job_of_ada(reader, "--user-memory-max 60MiB", "salus-job --quiet --persistent 32MiB --ephemeral 8MiB "
                             "--block 8MiB --work 200 --profile-known --iterations 1000000")


# --------------------------------------------------------------------------------------------------------- the service


@trouble("no service runs at ...")
def no_service(reader):
    reader.has_no_service()
    return said(reader, "salus ps", 1)


@trouble("another service runs at ...")
def second_service(reader):
    reader.is_idle()
    return said(reader, "salusd", None)


@trouble("... is in use by another service, at ...", "… is in use by another service, at …")
def same_state(reader):
    reader.is_idle()
    return said(reader, "salusd --socket /run/second", None)


@trouble("the service at ... belongs to ...", "the service at … belongs to another user")
def anothers_socket(reader):
    os.makedirs("/run/shared", exist_ok=True)
    uid = as_ada()["uid"]
    listener = os.fork()
    if listener == 0:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
            sock.bind("/run/shared/socket")
            os.setuid(uid)  # who listens counts
            sock.listen()
            signal.pause()
    reader.eventually(lambda: os.path.exists("/run/shared/socket"), "nobody listens")
    text = said(reader, "salus ps", 1, variables={"SALUS_SOCKET": "/run/shared/socket"})
    os.kill(listener, signal.SIGKILL)
    os.remove("/run/shared/socket")
    return text


@trouble("… belongs to a user whom this user namespace does not map")
def user_namespace(reader):
    service = start_service(reader, "--users all")
    return said(reader, "unshare --user --map-root-user %s/salus ps" % reader.bin, 1, **as_ada(), variables=service.variables)


@trouble("the service did not start", "... has no unit and would be bytes")
def wrong_configuration(reader):
    reader.has_no_service()
    return said(reader, "salus start -- --capacity 5", None)


@trouble("the path of the socket is too long")
def long_path(reader):
    return said(reader, "salus ps", None, variables={"SALUS_SOCKET": "/run/" + "x" * 120})


@trouble("... exists and is not a socket")
def no_socket(reader):
    return said(reader, "salusd --socket %s/train" % reader.work, None)


@trouble("... belongs to another user")
def anothers_directory(reader):
    os.makedirs(PLACE + "/theirs", 0o755, exist_ok=True)
    os.chown(PLACE + "/theirs", as_ada()["uid"], -1)
    return said(reader, "salusd --socket /run/second --state %s/theirs" % PLACE, None)


@trouble("... can be written by other users; chmod go-w helps")
def open_to_all(reader):
    os.makedirs(PLACE + "/open", exist_ok=True)
    os.chmod(PLACE + "/open", 0o777)
    return said(reader, "salusd --socket /run/second --state %s/open/state" % PLACE, None)


@trouble("user ... has ... connections, and --connections-per-user allows no more")
def many_connections(reader):
    service = start_service(reader, "--connections-per-user 2")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as one, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as other:
        for held in (one, other):
            held.connect(service.variables["SALUS_SOCKET"])
        return ps(reader, service)


@trouble("user ... has ... jobs, and --user-jobs-max allows no more")
def many_processes(reader):
    service = start_service(reader, "--users all --user-jobs-max 1")
    job = "salus-job --persistent 1MiB --ephemeral 1MiB --block 1MiB --work 200 --think-ms 1 --iterations "
    reader.start(job + "1000000", **as_ada(), variables=service.variables)
    reader.eventually(lambda: works(reader, service), "the first process does not work")
    text = said(reader, job + "3", None, **as_ada(), variables=service.variables)
    service.kill()
    return text


def checked(reader, table):
    reader.write(PLACE + "/limits.toml", table)
    return said(reader, "salusd --check --config %s/limits.toml" % PLACE, 2)


@trouble("there is no user '...'")
def unknown_user(reader):
    return checked(reader, "[user.nobody-of-that-name]\njobs-max = 1\n")


@trouble("there is no limit '...'")
def unknown_limit(reader):
    return checked(reader, "[user.ada]\njob-max = 1\n")


@trouble("must be a loopback address, which other machines cannot reach")
def metrics_for_the_network(reader):
    return said(reader, "salusd --check --metrics 0.0.0.0:9464", 2)


@trouble("no metrics, ...; trying again")
def taken_port(reader):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        return start_service(reader, "--metrics 127.0.0.1:%d" % other.getsockname()[1]).said()


@trouble("no list of a GPU's jobs: ...", on=GPU_TROUBLES)
def no_folder_for_the_jobs(reader):
    os.makedirs("/run/salus-jobs", exist_ok=True)
    service = start_service(reader, "--job-mapping-dir /run/salus-jobs")
    os.rmdir("/run/salus-jobs")
    said(reader, "salus-job --persistent 1MiB --ephemeral 1MiB --block 1MiB --iterations 3", 0, variables=service.variables)
    return service.said()


@trouble("the history will lack this run: ...")
def end_without_service_or_state(reader):
    service = start_service(reader, "")
    job = reader.start("salus run -- ./train",
                       variables={**service.variables, "SALUS_STATE": "/proc/nowhere", "ITERATIONS": "500"})
    reader.eventually(lambda: works(reader, service), "the job does not work")
    service.kill()
    service.wait()
    return job


@trouble("--capacity: the ... has ...")
def more_than_the_machine_has(reader):
    return said(reader, "salusd --socket /run/second --state %s/second --capacity 900TiB" % PLACE, None)


@trouble("MPS cannot be started: there is no ...", on=GPU_TROUBLES)
def no_mps(reader):
    return start_service(reader, "--mps on").said()


# ------------------------------------------------------------------------------------------------------------ commands


@trouble("there is no job '...'")
def unknown_job(reader):
    reader.is_idle()
    return said(reader, "salus pause nobody", 1)


@trouble("there are ... jobs named '...'; give a number")
def same_names(reader):
    reader.is_at_work()
    reader.types("salus run -d --name night -- ./train", variables=FOREVER)
    reader.eventually(lambda: sum(row["name"] == "night" for row in reader.jobs()) == 2, "no second job")
    return said(reader, "salus kill night", 1)


@trouble("job ... is another user's", "only the service's owner may stop it", "only root sees what other users have used")
def for_its_owner_only(reader):
    service = start_service(reader, "--users all")
    reader.types("salus run -d --name night -- ./train", variables={**service.variables, **FOREVER})
    how = {**as_ada(), "variables": service.variables}
    text = said(reader, "salus kill 1", 1, **how) + said(reader, "salus stop", 1, **how)
    return text + said(reader, "salus usage --user root", None, **how)


@trouble("port ... is in use by another program")
def port_in_use(reader):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return said(reader, "salus web --no-open --port %d" % listener.getsockname()[1], 1)


@trouble("no command '...' in PATH")
def mistyped_command(reader):
    return said(reader, "salus run -- pyhton train.py", 127)


@trouble("... is not executable")
def not_executable(reader):
    return said(reader, "salus run -- ./data.txt", 126)


@trouble("... has no ipykernel")
def no_ipykernel(reader):
    reader.write(reader.work + "/bare", "#!/bin/sh\n[ -z \"$2\" ]\n", 0o755)  # knows no module
    return said(reader, "salus kernel install --python ./bare", 1)
