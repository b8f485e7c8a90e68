"""CloudEvents SDKs as programs of their own, in sdk/. Each understands:

  send URL binary|structured|batch   reads a JSON array of events, sends the first, or all as a batch; prints {"status": .., "body": ..}
  receive                            prints the port it listens on, then every event it gets, as JSON; ends with its input
"""
import fcntl
import json
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

from lib.server import ROOT
from lib.wait import HANG_S, Deadline, is_readable

SOURCES = ROOT / "tests" / "e2e" / "sdk"
CACHE = ROOT / ".cache" / "sdk"
BUILD_LIMIT_S = 300


class Missing(Exception):
    """Why an SDK cannot be run here."""


def build(name, commands, made):
    """The folder in .cache with the sources of an SDK and what the commands make of them; one process makes it, others wait."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return build_alone(name, commands, made)


def build_alone(name, commands, made):
    folder = CACHE / name
    stamp = folder / "made-from"
    wanted = "".join(path.read_text() for path in sorted((SOURCES / name).iterdir()) if path.is_file())
    if (folder / made).exists() and stamp.exists() and stamp.read_text() == wanted:
        return folder
    if not shutil.which(commands[0][0]):
        raise Missing(f"{commands[0][0]} is not installed")
    folder.mkdir(parents=True, exist_ok=True)
    for path in (SOURCES / name).iterdir():
        shutil.copy(path, folder)
    for command in commands:
        try:
            done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  timeout=BUILD_LIMIT_S)
        except subprocess.TimeoutExpired:
            raise Missing(f"{' '.join(command)} does not end") from None
        if done.returncode:
            raise Missing(f"{' '.join(command)} failed: {done.stderr[-300:]}")
    stamp.write_text(wanted)
    return folder


def command_of(name):
    """How the program of an SDK is run; made first if need be."""
    if name == "python":
        return [sys.executable, str(SOURCES / "python_sdk.py")]
    if name == "js":
        folder = build("js", [["npm", "install", "--no-package-lock", "--no-audit", "--no-fund"]], "node_modules/cloudevents")
        return ["node", str(folder / "sdk.js")]
    folder = build("go", [["go", "mod", "tidy"], ["go", "build", "-o", "sdk", "."]], "sdk")
    return [str(folder / "sdk")]


class Sdk:
    def __init__(self, name):
        self.command = command_of(name)

    def send(self, url, mode, events):
        """(status, body) of the answer."""
        done = subprocess.run([*self.command, "send", url, mode], input=json.dumps(events), capture_output=True, text=True,
                              timeout=HANG_S)
        assert done.returncode == 0, done.stderr
        answer = json.loads(done.stdout.splitlines()[-1])
        return answer["status"], answer["body"]

    @contextmanager
    def receiver(self):
        """A running receiver: its URL, and a function that waits for its next event."""
        process = subprocess.Popen([*self.command, "receive"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        deadline = Deadline("what an SDK receives")

        def line():
            assert is_readable(process.stdout, deadline.left()), "nothing came"
            return process.stdout.readline().decode()

        try:
            yield f"http://127.0.0.1:{int(line())}/", lambda: json.loads(line())
        finally:
            process.stdin.close()
            process.wait(HANG_S)
            process.stdout.close()
