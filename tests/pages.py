#!/usr/bin/env python3
"""Runs the examples of documentation pages and compares the output with what each page shows.

    tests/pages.py [--accept] PAGE...

Blocks of a page are processed in order, in one shell and one temporary directory for each page:

    ```yaml file=NAME      the block is written to the file NAME; any language will do
    ```console             a line `$ COMMAND` is run, the lines below it are its expected output

A command continues on the next line after a backslash. The expected line `...` matches any number of lines. Run ids,
times, durations, hashes and sizes of results may differ, and so may the number of spaces. A command that fails must print
something. `noetl runs` and `noetl show` are repeated for some seconds until they print what is expected, because runs take
their time. Ports 9000 and 8082 are replaced by free ports; after `COMMAND & sleep N` the next command waits until one of
them is open. `noetl` is found on the PATH. With --accept, output that differs is written to the page.
"""
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

PORTS = ("9000", "8082")
COMMAND_SECONDS_MAX = 120
QUERY_ATTEMPTS_MAX = 20
QUERY = re.compile(r"noetl (runs|show)\b")
# What bash prints about a background process that a page killed, at a moment of its own.
KILLED_JOB = re.compile(r"bash: line \d+: +\d+ (Killed|Terminated) ")
FENCE = re.compile(r"^```(\w+)?(.*)$")
VARIABLE = (
    (re.compile(r"\b\d{18}\b"), "RUN"),
    (re.compile(r"\b\d\d:\d\d:\d\d\b"), "TIME"),
    (re.compile(r"\b\d{4}-\d\d-\d\d\b"), "DATE"),
    (re.compile(r"\b\d+(\.\d+)?(ms|µs|s)\b"), "DURATION"),
    (re.compile(r"\b\d+(s|m) ago\b|\bjust now\b"), "AGO"),
    (re.compile(r"\b[0-9a-f]{16}\b"), "HASH"),
    (re.compile(r"\b\d+ events\b"), "EVENTS"),
    (re.compile(r"\bsuccess +\d+\b"), "success BYTES"),
    (re.compile(r"[─ ]{2,}"), " "),
)


class PageShell:
    """A shell in a directory of its own, with the ports of the page."""

    def __init__(self):
        self.directory = os.path.realpath(tempfile.mkdtemp(prefix="noetl-page-"))
        self.scripts = tempfile.mkdtemp(prefix="noetl-page-scripts-")
        self.ports = dict(zip(PORTS, free_ports(len(PORTS))))
        environment = {**os.environ, "HOME": self.directory, "NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "120"}
        for name in list(environment):
            if name.startswith(("NOETL_", "XDG_")):
                del environment[name]
        self.process = subprocess.Popen(
            ["bash", "--noprofile", "--norc"], cwd=self.directory, env=environment, start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def write(self, name, text):
        path = os.path.join(self.directory, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(self.with_free_ports(text))

    def run(self, command):
        """Runs a command; returns the lines of its output and its exit code."""
        script = os.path.join(self.scripts, "command.sh")
        with open(script, "w") as file:
            file.write(self.with_free_ports(command) + "\n")
        self.process.stdin.write(f". {script} </dev/null\nprintf '\\n=end=%s\\n' $?\n")
        self.process.stdin.flush()
        lines = []
        signal.alarm(COMMAND_SECONDS_MAX)
        for line in self.process.stdout:
            if line.startswith("=end="):
                signal.alarm(0)
                if lines and lines[-1] == "":
                    lines.pop()
                if re.search(r"& sleep \d+$", command):
                    self.wait_for_server()
                return [self.with_page_ports(line) for line in lines], int(line[len("=end="):])
            if not KILLED_JOB.match(line):
                lines.append(line.rstrip("\n"))
        raise RuntimeError(f"the shell exited in `{command}`: {lines}")

    def wait_for_server(self):
        """Waits until a server listens on one of the ports of the page."""
        for _ in range(COMMAND_SECONDS_MAX * 10):
            for port in self.ports.values():
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", int(port))) == 0:
                        return
            time.sleep(0.1)
        raise TimeoutError(f"no server listens on the ports of the page after {COMMAND_SECONDS_MAX} seconds")

    def with_free_ports(self, text):
        for port, free in self.ports.items():
            text = text.replace(port, free)
        return text

    def with_page_ports(self, text):
        for port, free in self.ports.items():
            text = text.replace(free, port)
        return text.replace(self.directory, "/home/you")

    def close(self):
        try:
            os.killpg(self.process.pid, signal.SIGTERM)
            self.process.wait(timeout=20)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            pass
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        shutil.rmtree(self.directory, ignore_errors=True)
        shutil.rmtree(self.scripts, ignore_errors=True)


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [str(each.getsockname()[1]) for each in sockets]
    for each in sockets:
        each.close()
    return ports


def comparable(line):
    for pattern, name in VARIABLE:
        line = pattern.sub(name, line)
    return line.strip()


def is_expected(actual, expected):
    """Whether lines match; `...` stands for any number of them."""
    if not expected:
        return not actual
    if expected[0].strip() == "...":
        return any(is_expected(actual[skipped:], expected[1:]) for skipped in range(len(actual) + 1))
    return bool(actual) and comparable(actual[0]) == comparable(expected[0]) and is_expected(actual[1:], expected[1:])


def commands(block):
    """The commands of a block with their expected lines."""
    found = []
    is_open = False
    for line in block:
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif is_open:
            found[-1] = (found[-1][0] + "\n" + line, [])
        elif found:
            found[-1][1].append(line)
        else:
            raise ValueError(f"output without a command: {line}")
        is_open = (line.startswith("$ ") or is_open) and line.endswith("\\")
    return found


def check_page(page, is_accepting):
    """Runs a page; returns the number of its examples and what is wrong with it."""
    with open(page) as file:
        lines = file.read().split("\n")
    shell, written, problems, count = PageShell(), [], [], 0
    try:
        index = 0
        while index < len(lines):
            fence = FENCE.match(lines[index])
            written.append(lines[index])
            index += 1
            if not fence:
                continue
            start = index
            while lines[index] != "```":
                index += 1
            block = lines[start:index]
            name = re.search(r"file=(\S+)", fence[2] or "")
            if name:
                count += 1
                shell.write(name[1], "\n".join(block) + "\n")
            elif fence[1] == "console":
                count += 1
                block = check_block(page, start, block, shell, problems, is_accepting)
            written.extend(block)
            written.append("```")
            index += 1
    finally:
        shell.close()
    if is_accepting and problems:
        with open(page, "w") as file:
            file.write("\n".join(written))
    return count, problems


def check_block(page, start, block, shell, problems, is_accepting):
    """Runs the commands of a block; returns the block with the output they had where it differs."""
    shown = []
    for command, expected in commands(block):
        actual, code = shell.run(command)
        for _ in range(0 if is_accepting or not QUERY.match(command) else QUERY_ATTEMPTS_MAX):
            if is_expected(actual, expected):
                break
            time.sleep(0.5)
            actual, code = shell.run(command)
        shown.extend(("$ " + command).split("\n"))
        if code != 0 and not actual:
            problems.append(f"{page}:{start}: `{command}` exited with code {code} and printed nothing")
        if is_expected(actual, expected):
            shown.extend(expected)
        else:
            problems.append("\n".join([f"{page}:{start}: `{command}` (exit code {code}) printed:", *actual,
                                       "--- expected:", *expected]))
            shown.extend(actual)
    return shown


def fail_command(*_):
    raise TimeoutError(f"a command takes more than {COMMAND_SECONDS_MAX} seconds")


def main():
    signal.signal(signal.SIGALRM, fail_command)
    is_accepting = "--accept" in sys.argv
    is_correct = True
    for page in [argument for argument in sys.argv[1:] if argument != "--accept"]:
        count, problems = check_page(page, is_accepting)
        if not count:
            problems.append(f"{page} has no block that can be run")
        for problem in problems:
            print(problem, file=sys.stderr)
        is_correct = is_correct and not problems
    sys.exit(0 if is_correct else 1)


main()
