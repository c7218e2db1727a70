"""Promises of lines that run jobs, look at them and control them."""

import json
import os
import re
import urllib.request
import xml.etree.ElementTree

from own_machine import text_of
from promises import columns, promise
from reader import FOREVER, Skipped, as_ada, expect


# ------------------------------------------------------------------------------------------------------------ running


@promise("salus run -- python examples/03_resnet.py &", "salus run -- python examples/05_gpt.py &")
def an_example_runs(reader, line):
    if not reader.has_torch:
        raise Skipped("no PyTorch: build/pythons names none")
    yield {}
    names = ["03_resnet.py", "05_gpt.py"] if "two take turns" in line.comment else ["03_resnet.py"]

    def share_a_lane():
        lanes = [row.get("lane") for row in reader.jobs() if row["name"] in names and row.get("iterations", 0) > 2]
        return len(lanes) == len(names) and len({None, *lanes}) == 2

    reader.eventually(share_a_lane, "these do not share a lane: %s" % names)
    if len(names) == 2:
        reader.types("salus kill --all --now")


@promise("salus run --class interactive -- ./serve &", "salus run --class interactive -- ./serve")
def somebody_is_answered(reader, line):
    reader.is_idle()
    reader.types("salus run -d --name night -- ./train", variables=FOREVER)
    yield {"background": not line.text.endswith("&")}
    reader.eventually(lambda: reader.works("night", "serve"), "they do not run")
    reader.eventually(lambda: reader.job("serve").get("beside"), "serve is not beside night")
    row = reader.job("serve")
    expect(row["class"] == "interactive", "serve is not interactive: %s" % row)


@promise("salus run -- ./train --epochs 3")
def its_status_is_the_jobs(reader, _line):
    expect("trained" in (yield {}).text, "its output is not that of the command")
    reader.types("salus run -- ./train --epochs 3", 5, variables={"STATUS": "5"})


@promise("salus run -d --name night -- ./train")
def it_runs_in_the_background(reader, _line):
    reader.is_idle()
    said = yield {"variables": FOREVER}
    row = reader.job("night")
    expect(row.get("log") and row["log"] in said.text, "it does not say where the log is: " + said.text)


@promise("salus wait night")
def its_end_is_waited_for(reader, _line):
    reader.is_idle()
    reader.types("salus run -d --name night -- ./train", variables={"STATUS": "3"})
    yield {"status": 3}
    expect(not reader.job("night"), "it has not ended")


@promise("salus logs night")
def its_output_is_in_the_log(reader, _line):
    reader.has_run()
    expect((yield {}).text == "trained\n", "the log has not what the job printed")


@promise("salus logs -f -n 20 night")
def the_log_is_followed(reader, _line):
    reader.is_idle()
    reader.types("salus run -d --name night -- ./train")
    said = yield {}
    expect("trained" in said.text, "the end of the log is missing: " + said.text)


@promise("salus wait first night")
def waiting_for_several(reader, _line):
    reader.is_idle()
    reader.types("salus run -d --name first -- ./train", variables={"STATUS": "3"})
    reader.types("salus run -d --name night -- ./train", variables={"STATUS": "4"})
    yield {"status": 4}


@promise("salus run -- python train.py")
def a_script_trains(reader, line):
    on_gpu = "GPU" in line.comment
    if "any interpreter" in line.comment:
        reader.types("salus run -- sh -c 'python -m this >/dev/null'")
    if on_gpu:
        reader.write(reader.work + "/torch.py", "raise ImportError")  # the stand-in runs no kernels
    said = yield {"variables": {"PYTHONPATH": reader.work}} if on_gpu else {}
    expect("trained" in said.text, "the script prints nothing")
    if on_gpu:
        expect(reader.status()["service"]["device"] == "cuda", "the service does not use the GPU")
    elif reader.has_torch and line.comment:
        expect(reader.types("salus history --json").json()[0]["iterations"] > 0, "its iterations were not seen")


# ----------------------------------------------------------------------------------------------------------- looking


@promise("salus ps")
def jobs_are_shown(reader, line):
    reader.is_at_work()
    reader.types("salus run -- ./train --epochs 3")
    said = yield {}
    expect({"NAME", "STATE", "WAITED", "WHY"} <= set(columns(said.text)), "columns are missing: " + said.text)
    expect(re.search(r"^ *3  serve .*interactive", said.text, re.M), "job 3 is missing: " + said.text)
    if "-a" in line.comment:
        expect(re.search(r"train .*ended .*status 0, .* ago +\./train --epochs 3", reader.types("salus ps -a").text), "no ended jobs")


@promise("salus top")
def jobs_are_shown_live(reader, _line):
    reader.is_at_work()
    said = yield {"keys": "q", "until": "night"}
    expect("serve" in said.text, "a job is missing: " + said.text)


@promise("salus web", "salus web --port 8321 --no-open", "salus web --read-only")
def the_page_is_served(reader, line):
    reader.is_at_work()
    said = yield {"background": True}
    reader.eventually(lambda: said.said().endswith("/\n"), "it prints no address: " + said.said())
    address = said.said().strip()
    expect(("--port" not in line.text) or ":8321/" in address, "it listens elsewhere: " + address)
    with urllib.request.urlopen(address) as answer:
        expect(b"<title>Salus</title>" in answer.read(), "there is no page")
    said.kill()


@promise("salus forecast", "salus forecast --policy srtf,fair")
def ends_are_forecast(reader, _line):
    reader.is_at_work()
    said = yield {}
    expect(re.search(r"^JOB +NAME +LENGTH .*fair", said.text, re.M), "it has no column for fair: " + said.text)
    expect("serve" in said.text and "\n     mean" in said.text, "a job or the mean is missing: " + said.text)
    jobs = reader.types("salus forecast --json").json()["jobs"]
    expect({"night", "serve"} <= {job["name"] for job in jobs}, "jobs are missing: %s" % jobs)


@promise("salus report night")
def a_job_is_accounted_for(reader, line):
    reader.is_at_work()
    said = yield {}
    expect(said.text.startswith("night (job ") and "\nwaits " in said.text and "\nmemory time " in said.text, "it prints: " + said.text)
    expect("waits_s" in reader.types("salus report night --json").json(), "it has no waits by reason")
    if "after its end" in line.comment:
        reader.has_run()
        said = reader.types("salus report night").text
        expect("ended with status 0" in said, "of a job that has ended it prints: " + said)


@promise("salus trace now.svg --last 60s --by lane")
def a_timeline_of_the_last_minute(reader, _line):
    reader.is_at_work()
    yield {}
    by_lane = text_of(os.path.join(reader.work, "now.svg"))
    expect(">lane 1<" in by_lane, "it has no rows by lane")
    reader.types("salus trace now.svg --last 60s")
    expect(">night<" in text_of(os.path.join(reader.work, "now.svg")), "it has no row for night")


@promise("salus history")
def the_history_is_shown(reader, line):
    reader.has_run()
    said = yield {}
    expect(re.search(r"^\./train +\d+ +40 ", said.text, re.M), "there is no row of ./train: " + said.text)
    named = re.findall(r"\b[A-Z]+\b", line.comment)
    expect(not named or named == columns(said.text), "its columns are %s" % columns(said.text))


@promise("salus history clear train.py")
def some_history_is_forgotten(reader, _line):
    reader.has_run()
    reader.types("salus run -- true train.py")
    yield {}
    expect("train.py" not in (left := reader.types("salus history").text) and "./train" in left, "left: " + left)


@promise("salus history clear --all")
def all_history_is_forgotten(reader, _line):
    reader.has_run()
    yield {}
    expect(reader.types("salus history").text == "no history\n", "some is left")


@promise("salus usage", "salus usage --since 7d")
def use_is_shown(reader, _line):
    reader.has_run()
    said = yield {}
    named = {"USER", "DEVICE TIME", "MEMORY TIME", "TOOK", "COMMAND"}
    expect(named <= set(columns(said.text)), "columns are missing: " + said.text)
    expect(re.search(r"^root .*\n.* \./train", said.text, re.M), "it has no users and commands: " + said.text)


@promise("salus usage --user ada --since 12h", "salus usage --user ada")
def use_of_one_user(reader, _line):
    """At the machine's service, where root sees everybody's."""
    ada = as_ada()
    reader.has_no_service()
    service = reader.start("salusd --socket /run/salus/socket --users all")
    reader.eventually(lambda: reader.status()["service"], "the machine's service does not start: " + service.said())
    reader.types("salus run -- ./train")
    reader.types("salus run -- salus-job --quiet --persistent 1MiB --ephemeral 1MiB --iterations 5 --work 10", **ada)
    said = yield {}
    service.terminate()
    service.wait()
    expect("\nada " in said.text and "salus-job" in said.text and "root" not in said.text, "not ada's alone: " + said.text)


@promise("salus trace week.json", "salus trace now.json")
def a_timeline(reader, line):
    reader.has_run()
    yield {}
    name = line.text.split()[-1]
    expect("night" in json.dumps(json.loads(text_of(os.path.join(reader.work, name)))), "night is not in it")
    reader.types("salus trace week.svg")
    xml.etree.ElementTree.parse(os.path.join(reader.work, "week.svg"))


@promise("salus trace --replay")
def decisions_are_checked(reader, _line):
    reader.has_run()
    expect(re.fullmatch(r"[1-9]\d* events, \d+ actions: identical\n", (yield {}).text), "they are not identical")


@promise("salus trace old.json --from trace.1")
def an_older_timeline(reader, _line):
    reader.has_run()
    reader.has_no_service()
    reader.types("salus start")
    yield {}
    expect("night" in text_of(os.path.join(reader.work, "old.json")), "night is not in it")
    expect("identical" in reader.types("salus trace --replay --from trace.1").text, "they are not identical")


@promise("salus doctor")
def the_machine_is_checked(reader, line):
    reader.is_idle()
    thoroughly = "torch" in line.comment
    said = yield {} if thoroughly else {"variables": reader.without_python()}
    expect(not re.search(r"^(?!ok )", said.text.strip(), re.M), "not all is well: " + said.text)
    for part in ("GPU", "driver", "MPS", "torch") if thoroughly else ("GPU",):
        expect(re.search(part, said.text, re.I), "it does not tell of '%s': %s" % (part, said.text))


# ----------------------------------------------------------------------------------------------------------- control


@promise("salus policy srtf", "salus policy rr", "salus policy pack")
def the_policy_changes(reader, line):
    reader.is_at_work()
    yield {}
    expect(reader.status()["service"]["policy"] == line.text.split()[-1], "the policy is another one")


@promise("salus pause 3", "salus resume 3", "salus pause night")
def jobs_pause(reader, line):
    _, verb, which = line.text.split()
    reader.is_at_work()
    if verb == "resume":
        reader.types("salus pause 3")
    yield {}
    which = int(which) if which.isdigit() else which
    reader.eventually(lambda: (reader.job(which)["state"] == "paused") == (verb == "pause"), "its state is wrong")
    reader.types("salus resume %s" % which)


@promise("salus suspend night", "salus resume night")
def jobs_are_suspended(reader, line):
    verb = line.text.split()[1]
    reader.is_at_work()
    if verb == "resume":
        reader.types("salus suspend night")
        reader.eventually(lambda: reader.job("night")["state"] == "suspended", "it is not suspended")
    yield {}
    if verb == "resume":
        reader.eventually(lambda: reader.works("night"), "it does not go on")
        return
    def has_gone():
        night = reader.job("night")
        stays = not night["pageable"]  # then it is only paused
        return night["state"] == "suspended" and not night["suspending"] and (stays or night["on_device_bytes"] == 0)

    reader.eventually(has_gone, "its memory stays")
    reader.types("salus resume night")


@promise("salus page-out --idle")
def idle_jobs_go(reader, line):
    reader.is_at_work()
    said = yield {}
    expect("night (job " in said.text and " idle" in said.text, "it prints: " + said.text)


@promise("salus set 3 priority=5 class=batch", "salus set 3 class=batch", "salus set 3 weight=2")
def jobs_are_set(reader, line):
    reader.is_at_work()
    yield {}
    for setting in line.text.split()[3:]:
        key, value = setting.split("=")
        reader.eventually(lambda: str(reader.job(3)[key]) in (value, value + ".0"), "%s is not set" % key)
    reader.types("salus set 3 class=interactive")


@promise("salus kill 3 night", "salus kill night", "salus kill --now night", "salus kill --all")
def jobs_are_ended(reader, line):
    reader.is_at_work()
    yield {}
    which = [3 if word == "3" else word for word in line.text.split()[2:] if not word.startswith("-")]
    reader.eventually(lambda: not (any(map(reader.job, which)) if which else reader.jobs()), "they do not end")
