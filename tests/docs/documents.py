"""What documents tell their readers to type, and what they say comes of it."""

import glob
import os
import re
from dataclasses import dataclass

# What a reader types begins with one of these, or with a script of the repository.
PROGRAMS = ("salus", "salusd", "make", "sudo", "apt", "dnf", "pip", "tar", "systemctl", "journalctl", "systemd-tmpfiles",
            "docker", "podman", "apptainer", "python", "python3", "source")
SCRIPT = re.compile(r"(bench|examples|packaging|scripts|tests)/[\w/]+|\d\d_\w+\.py")
VARIABLE = re.compile(r"[A-Z_]+=\S+")
COLUMNS = re.compile(r"\S {4,}\S")  # a drawing, in a block that looks like one of commands
MENTIONED = re.compile(r"(?:^|[,;] )(salus [a-z][^,;`]*)")  # in a comment


def is_command(text):
    words = [word for word in text.split() if not VARIABLE.fullmatch(word)]
    return len(words) > 1 and words[1] != "..." and (words[0] in PROGRAMS or SCRIPT.fullmatch(words[0]) is not None)


@dataclass(frozen=True)
class Place:
    """Some text in a document, and the number of its first line."""

    document: str
    number: int
    text: str

    @property
    def last(self):
        return self.number + self.text.count("\n")

    def __str__(self):
        return "%s:%d: %s" % (self.document, self.number, " ".join(self.text.split()))


@dataclass(frozen=True)
class Line(Place):
    """A command line. `comment` is what the document says beside it."""

    comment: str = ""
    source: "Document" = None
    in_prose: bool = False


class Message(Place):
    """Of a table of messages."""

    def pattern(self):
        """Dots stand for names and numbers."""
        return re.compile(".+".join(re.escape(part.strip()) for part in re.split(r"\.\.\.|…", self.text)))


class Document:
    def __init__(self, root, name, text=None):
        self.name = name
        if text is None:
            with open(os.path.join(root, name)) as file:
                text = file.read()
        self.text = text

    def number_at(self, offset):
        """Of the line."""
        return self.text.count("\n", 0, offset) + 1

    def blocks(self):
        """The text of each block of code, with its offset."""
        return [(match.group(1), match.start(1)) for match in re.finditer(r"^```\w*\n(.*?)^```", self.text, re.M | re.S)]

    def command_lines(self):
        """In their order."""
        return sorted([*self._in_blocks(), *self._in_prose()], key=lambda line: line.number)

    def _in_blocks(self):
        for block, offset in self.blocks():
            at = self.number_at(offset)
            joined = re.sub(r"\\\n", lambda _: "\0", block)
            if not any(is_command(line) for line in joined.split("\n")) or COLUMNS.search(re.sub("#.*", "", block)):
                continue
            for text in joined.split("\n"):
                command, _, comment = (part.strip() for part in re.sub(r"(^|\s)#", "\1#", text, count=1).partition("\1#"))
                command = re.sub(r"\s*\0\s*", " ", command)
                if command:
                    yield Line(self.name, at, command, comment, self)
                for mention in MENTIONED.findall(comment):
                    yield Line(self.name, at, mention.strip(), source=self)
                for span in re.findall("`([^`]+)`", comment):
                    if is_command(span):
                        yield Line(self.name, at, span, source=self)
                at += 1 + text.count("\0")

    def _in_prose(self):
        prose = re.sub(r"^```.*?^```", lambda block: re.sub(r"[^\n]", " ", block.group()), self.text, flags=re.M | re.S)
        messages = {message.text for message in self.messages()}
        for match in re.finditer("`([^`]+)`", prose):
            text = " ".join(match.group(1).split())
            if is_command(text) and text not in messages:
                yield Line(self.name, self.number_at(match.start()), text, "", self, in_prose=True)

    def messages(self):
        """The first column of tables of messages and their causes, and the last of those that say what a job says."""
        column = None
        for number, line in enumerate(self.text.split("\n"), 1):
            cells = [cell.strip() for cell in line.strip("|").split(" | ")]
            if not line.startswith("|"):
                column = None
            elif cells[:2] == ["message", "cause"]:
                column = 0
            elif cells[-1] == "what the job says":
                column = -1
            elif column is not None and not line.startswith("| ---"):
                yield Message(self.name, number, cells[column].strip("` "))


def read_documents(root):
    names = ["README.md", *sorted(os.path.relpath(path, root) for path in glob.glob(os.path.join(root, "docs/*.md"))),
             "examples/README.md", "CONTRIBUTING.md"]
    return [Document(root, name) for name in names]
