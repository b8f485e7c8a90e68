"""Instances with nothing but a table on Kafka: tests/peer/table_peer.c as a process."""
import os
import queue
import signal
import subprocess
import threading
from pathlib import Path

from lib.server import MILLRACE
from lib.wait import Deadline

PROGRAM = Path(MILLRACE).parent / "tests" / "peer" / "table_peer"


def build():
    """The program is no part of what is installed, so nobody has built it yet."""
    done = subprocess.run(["ninja", "-C", Path(MILLRACE).parent, "tests/peer/table_peer"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


class Peer:
    def __init__(self, bootstrap, prefix, folder, partitions=3):
        self.log_path = Path(f"{folder}.log")
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen([PROGRAM, bootstrap, prefix, folder, str(partitions)], stdin=subprocess.PIPE,
                                            stdout=subprocess.PIPE, stderr=log, text=True, bufsize=1)
        self.lines = queue.Queue()
        self.answers = {}
        self.n_asked = 0
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line.rstrip("\n"))
        self.lines.put(None)

    def _next(self, what):
        deadline = Deadline(what)
        while True:
            try:
                return self.lines.get(timeout=deadline.left())
            except queue.Empty:
                continue

    def line(self, first):
        """The rest of the next line that begins with the word; answers to requests are kept on the way."""
        while True:
            line = self._next(f"'{first}' from a table: {self.log()[-2000:]}")
            assert line is not None, f"a table ended: {self.log()[-2000:]}"
            word, _, rest = line.partition(" ")
            if word.isdigit():
                result, _, reply = rest.partition(" ")
                self.answers[int(word)] = (result, reply)
            if word == first:
                return rest

    def opened(self):
        self.line("opened")
        return self

    def say(self, text):
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def ask(self, request):
        self.n_asked += 1
        self.say(f"{self.n_asked} {request}")
        return self.n_asked

    def answer(self, number):
        """(result, reply) of a request."""
        if number not in self.answers:
            self.line(str(number))
        return self.answers[number]

    def do(self, request):
        return self.answer(self.ask(request))[0]

    def get(self, key):
        self.say(f"get {key}")
        return self.line("got")

    def catch_up(self, key):
        self.say(f"catch {key}")
        return self.line("caught")

    def dump(self):
        """What the view has: {key: value}, without offsets."""
        self.say("dump")
        found = {}
        while True:
            line = self._next("a dump")
            assert line is not None
            if line == "end":
                return found
            word, _, rest = line.partition(" ")
            if "=" not in rest:
                result, _, reply = rest.partition(" ")
                self.answers[int(word)] = (result, reply)
                continue
            key, _, value = rest.partition("=")
            found[key] = value.rpartition(" @")[0]

    def rebuilt(self):
        self.say("counts")
        return int(self.line("applied").split()[2])

    def owns(self):
        """The partitions that it decides for, as its log has it."""
        owned = set()
        for line in self.log().splitlines():
            if " table.owner " in line:
                fields = dict(word.split("=", 1) for word in line.split() if "=" in word)
                (owned.add if fields["is_owner"] == "1" else owned.discard)(int(fields["partition"]))
        return owned

    def log(self):
        return self.log_path.read_text(errors="replace")

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    def kill(self):
        """What it had answered before is in self.answers."""
        self.process.kill()
        self.process.wait()
        while (line := self._next("the end of a table")) is not None:
            word, _, rest = line.partition(" ")
            if word.isdigit():
                result, _, reply = rest.partition(" ")
                self.answers[int(word)] = (result, reply)

    def close(self):
        if self.process.poll() is None:
            os.kill(self.process.pid, signal.SIGCONT)
            self.process.stdin.close()
            self.line("closed")
            assert self.process.wait() == 0, self.log()[-2000:]
        log = self.log()
        assert "Sanitizer" not in log and "runtime error" not in log, log[-4000:]
