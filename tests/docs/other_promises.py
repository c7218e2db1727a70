"""Promises of lines about the service, notebooks, shells and the simulator."""

import os
import re
import xml.etree.ElementTree

from own_machine import text_of
from promises import columns, promise
from reader import PLACE, Skipped, as_ada, can_be_others, expect

QUICK = "name,arrival_s,iterations,iteration_ms,persistent_mib,ephemeral_mib\na,0,20,5,1,2\nb,0,20,5,1,2\n"


# ----------------------------------------------------------------------------------------------------------- service


@promise("salus start", "salus start -- --policy las")
def a_service_starts(reader, line):
    reader.has_no_service()
    yield {}
    expect(reader.status()["service"]["policy"] == ("las" if "las" in line.text else "fair"), "its policy is another one")


@promise("salus stop", "SALUS_SOCKET=$XDG_RUNTIME_DIR/salus/socket salus stop", "salus stop --force")
def the_service_stops(reader, line):
    force = "--force" in line.text
    (reader.is_at_work if force else reader.is_idle)()
    before = reader.status()["service"]["pid"]
    yield {}
    if force:  # its jobs start the next
        reader.eventually(lambda: reader.works("night", "serve"), "the jobs do not go on")
        expect(reader.status()["service"]["pid"] != before, "it still runs")
    else:
        expect("no service runs at" in reader.types("salus status", 1).text, "one still runs")


@promise("salus reload")
def the_configuration_is_read(reader, _line):
    reader.is_at_work()
    file = reader.home + "/.config/salus/salusd.toml"
    before = text_of(file)
    reader.write(file, before + 'policy = "las"\n')
    said = yield {}
    expect(reader.status()["service"]["policy"] == "las" and "policy" in said.text, "it was not: " + said.text)
    reader.write(file, before)


@promise("salusd --socket /run/salus/socket --users all")
def the_machines_service(reader, _line):
    reader.has_no_service()
    service = yield {"background": True}
    reader.eventually(lambda: reader.status()["service"].get("socket") == "/run/salus/socket", "it does not listen there")
    if can_be_others():
        hers = reader.types("salus status --json", **as_ada()).json()["service"]["socket"]
        expect(hers == "/run/salus/socket", "ada uses " + hers)
    service.terminate()
    expect(service.wait() == 0, "it ends with status %d: %s" % (service.returncode, service.said()))


# ------------------------------------------------------------------------------------------------------------- others


@promise("source <(salus completion bash)")
def commands_are_completed(reader, line):
    yield {}
    expect("salus" in reader.types("source <(salus completion bash); complete -p salus").text, "bash completes nothing")
    for shell in re.findall(r"\w+", line.comment.replace("or ", "")):
        expect("salus" in reader.types("salus completion " + shell).text, "nothing for " + shell)


@promise("salus version")
def the_version(reader, _line):
    expect((yield {}).text == "salus " + text_of(reader.root + "/VERSION"), "not that of the file VERSION")


@promise("salus kernel install", 'salus kernel install --python .venv/bin/python --name torch --display-name "Torch (Salus)"',
         "salus kernel install --prefix .venv", "salus kernel remove")
def a_kernel_for_jupyter(reader, line):
    os.makedirs(reader.work + "/.venv/bin", exist_ok=True)
    has_ipykernel = {"PYTHONPATH": reader.work + "/jupyter"}
    os.makedirs(reader.work + "/jupyter/ipykernel", exist_ok=True)
    reader.write(reader.work + "/jupyter/ipykernel/__init__.py", "")
    reader.write(reader.work + "/.venv/bin/python", text_of(PLACE + "/python/python"), 0o755)
    reader.types("salus kernel install", variables=has_ipykernel)
    yield {"variables": has_ipykernel}
    place = reader.work + "/.venv/share/jupyter" if "--prefix" in line.text else reader.home + "/.local/share/jupyter"
    spec = text_of("%s/kernels/%s/kernel.json" % (place, "torch" if "torch" in line.text else "salus"))
    if "remove" in line.text:
        expect(not spec, "it is still there")
    else:
        expect(("Torch (Salus)" in spec) == ("Torch" in line.text) and '"run"' in spec, "the kernel is another one: " + spec)


@promise("salus sim fuzz --seeds 1..30 --canary forgets-memory")
def a_canary_is_caught(_reader, _line):
    said = yield {"status": 1}
    expect("--canary forgets-memory" in said.text, "it does not say how to repeat what it has caught: " + said.text)


@promise("salus sim replay bug.trace")
def a_replay(reader, _line):
    reader.types("salus sim fuzz --seeds 7 --record bug.trace")
    yield {}


@promise("salus sim --workload uniform:4 --json")
def figures(_reader, _line):
    expect("memory_fairness" in (yield {}).text, "it lacks memory_fairness")


@promise("salus sim --jobs jobs.csv --policy srtf,fair --timeline out.svg")
def a_simulated_timeline(reader, _line):
    reader.write(reader.work + "/jobs.csv", QUICK)
    said = yield {}
    expect("srtf" in said.text and "fair" in said.text, "a policy is missing: " + said.text)
    xml.etree.ElementTree.parse(os.path.join(reader.work, "out.svg"))


@promise("salus bench quick.csv", "salus bench quick.csv --policy fifo,fair --simulate --lanes 1")
def a_real_mix(reader, _line):
    if not can_be_others():
        raise Skipped("/dev/null belongs to nobody in a user namespace, and salus bench takes no such configuration")
    reader.write(reader.work + "/quick.csv", QUICK)
    expect("completion" in columns((yield {}).text), "it does not print the simulator's table")


@promise("salus sim --workload salus-100 --policy fifo,srtf --capacity 16GiB --seed 1..20")
def the_evaluation(reader, line):
    """The figures of the document are those that are printed."""
    printed = [row.split() for row in re.sub(r"(?<=\d) (?=min|s |GiB|MiB|%)", "", (yield {}).text).split("\n")]
    rows = {row[0]: row[1:] for row in printed if row}
    for name in ("fifo", "srtf"):
        makespan, queueing, completion, _, against = rows[name][:5]
        wanted = "| %s | %s | %s | %s | %s |" % (name, completion, against, makespan, queueing)
        shown = re.search(r"^\| %s \|.*" % name, line.source.text, re.M).group()
        expect(shown.replace(" ", "") == wanted.replace(" ", ""), "shown is %s, printed is %s" % (shown, wanted))


@promise("packaging/glibc /run/walk")
def what_programs_need(reader, _line):
    said = yield {"directory": reader.root}
    expect("GLIBC" in said.text.upper(), "it says nothing of glibc: " + said.text)
