"""What documents say in prose of what a command prints or ends with.

A statement is found by its words. What it names, in the groups of the pattern, is compared with what happens.
"""

import json
import os
import re
from dataclasses import dataclass
from typing import Callable

from documents import Place
from own_machine import text_of
from reader import FOREVER, expect

STATEMENTS = []


@dataclass(frozen=True)
class Statement:
    document: str
    pattern: str  # of the text; a blank stands for any
    check: Callable

    def found_in(self, document):
        """Its place, and what its groups name; None if the document does not say so any more."""
        found = re.search(self.pattern.replace(" ", r"\s+"), document.text, re.S)
        if not found:
            return Place(document.name, 1, self.pattern), None
        return Place(document.name, document.number_at(found.start()), found.group()), found.groups()


def states(document, pattern):
    def put(function):
        STATEMENTS.append(Statement("docs/" + document, pattern, function))
        return function

    return put


def expect_keys(wanted, there, what):
    expect(set(wanted) == set(there), "%s has the keys %s, not %s" % (what, sorted(there), sorted(wanted)))


def names_in(text):
    return re.findall("`([a-z_]+)`", text)


@states("service.md", r"the exit status is (\d+) if there is none, and (\d+) if it is not executable")
def status_of_what_cannot_run(reader, missing, not_executable):
    for options in ("", "--detach "):
        reader.types("salus run %s-- ./nothing" % options, int(missing))
        reader.types("salus run %s-- ./data.txt" % options, int(not_executable))


@states("service.md", r"With `--require` it does not start, and the exit status is (\d+):")
def status_of_what_cannot_share(reader, status):
    said = reader.types("salus run --require -- ./train", int(status), variables={"SALUS_DISABLE": "1"})
    expect("trained" not in said.text, "it has started")


@states("service.md", r"An error is one line, with the nearest name if (a command, an option, a policy or a job) was mistyped. "
                      r"The exit status is (\d) if the command line is wrong, and (\d) if the command failed")
def errors(reader, _what, wrong, failed):
    reader.is_at_work()
    for line, nearest, status in (("salus hstory", "history", wrong), ("salus run --clas batch -- ./train", "--class", wrong),
                                  ("salus policy srft", "srtf", wrong), ("salus pause nigth", "night", failed)):
        said = reader.types(line, int(status))
        expect(said.text.count("\n") == 1 and nearest in said.text, "'%s' prints: %s" % (line, said.text))


@states("service.md", r"(`ps`.*) have `--json`")
def json_of_each(reader, names):
    reader.is_at_work()
    for name in names_in(names):
        reader.types("salus %s --json" % name, variables=reader.without_python()).json()


@states("service.md", r"`salus ps --json` prints `({[^`]*})`, with `-a` also `(\"ended\"): \[...\]`. `salus status --json` "
                      r"prints all of it, and `(\"service\")`")
def json_of_jobs(reader, shown, ended, service):
    shown, ended, service = json.loads(shown.replace("...", "")), ended.strip('"'), service.strip('"')
    for line, more in (("salus ps --json", []), ("salus ps -a --json", [ended]), ("salus status --json", [ended, service])):
        printed = reader.types(line).json()
        expect_keys([*shown, *more], printed, line)
        expect(printed["schema_version"] == shown["schema_version"], "the version of the schema is another one")


@states("service.md", r"`--json` prints `({\"schema_version\": 1, \"since[^`]*})`. A user has (.*?), and the same for each of "
                      r"its `commands`")
def json_of_use(reader, shown, keys):
    reader.has_run()
    printed = reader.types("salus usage --json").json()
    expect_keys(re.findall(r'"(\w+)":', shown), printed, "salus usage --json")
    expect_keys([*names_in(keys), "commands"], printed["users"][0], "a user")


@states("service.md", r"writes to `logs/NUMBER-NAME(\.\w+)` beside the trace")
def name_of_the_log(reader, ending):
    reader.is_at_work()
    row = reader.job("night")
    name = re.escape("%s/logs/%d-night%s" % (reader.state, row["job"], ending))
    expect(re.fullmatch(name + r"(\.\d+)?", row["log"]), "the log is " + row["log"])


@states("service.md", r"The exit status is (\d) if there is no such job, and 1, with one line, if nobody saw")
def status_of_waiting_for_nobody(reader, status):
    reader.is_idle()
    reader.types("salus wait nobody", int(status))


@states("service.md", r"```toml\n(.*?)```")
def the_configuration(reader, block):
    file = reader.home + "/.config/salus/salusd.toml"
    before = text_of(file)
    reader.write(file, block)
    reader.types("salusd --check")
    reader.write(file, before)


@states("service.md", r"A broken file changes nothing; one line says why, and the exit status is (\d)")
def broken_configuration(reader, status):
    reader.is_at_work()
    file = reader.home + "/.config/salus/salusd.toml"
    before = text_of(file)
    reader.write(file, before + 'policy = "fair')
    said = reader.types("salus reload", int(status))
    reader.write(file, before)
    expect(said.text.count("\n") == 1 and reader.status()["service"]["policy"] == "fair", "it prints " + said.text)


@states("service.md", r"A job's name \(`(--name)`, otherwise the name of the command or of the Python script\)")
def name_of_a_job(reader, option):
    reader.is_idle()
    reader.write(reader.work + "/sleep.py", "import time; time.sleep(60)")
    reader.types("salus run -d -- python sleep.py")
    reader.types("salus run -d -- ./train", variables=FOREVER)
    reader.types("salus run -d %s mine -- ./train" % option, variables=FOREVER)
    expect({"sleep.py", "train", "mine"} == (names := {row["name"] for row in reader.jobs()}), "the names are %s" % names)


@states("simulator.md", r"\(`(--policy[^`]*--timeline (gates.svg))`\): ```\n(.*?)```")
def picture_of_gates(reader, options, picture, jobs):
    reader.write(reader.work + "/jobs.csv", jobs)
    reader.types("salus sim --jobs jobs.csv " + options)
    expect(text_of(os.path.join(reader.work, picture)) == text_of(os.path.join(reader.root, "docs", picture)),
           "docs/%s is not what it draws" % picture)


@states("simulator.md", r"under Salus \(`(--policy[^`]*--json)`\): ```\n(.*?)```")
def requests_beside_a_training(reader, options, jobs):
    reader.write(reader.work + "/jobs.csv", jobs)
    printed = reader.types("salus sim --jobs jobs.csv " + options).json()
    expect("request_p99_ms" in json.dumps(printed), "it has no latencies of requests")


@states("simulator.md", r"Figures that only `--json` has:\n\n\| figure \| meaning \|\n(.*?)\n\n")
def figures_of_json(reader, rows):
    printed = reader.types("salus sim --workload inference-42:4 --seconds 5 --policy fair --json").text
    missing = [name for name in names_in(rows) if '"%s"' % name not in printed]
    expect(not missing, "it lacks %s" % missing)
