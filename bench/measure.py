"""Processes under measurement: starting, asking, counting and stopping them. Used by bench/run."""
import json
import os
import random
import re
import select
import signal
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DEVICES = 50
PASSWORD = "bench-secret"
READY_LIMIT_S = 60
STOP_LIMIT_S = 30
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


class Failure(Exception):
    """Something broke: the run ends with exit status 1."""


def note(text):
    print(text, file=sys.stderr, flush=True)


def free_port():
    """Below the ephemeral range, where no outgoing connection can take it."""
    while True:
        port = random.randrange(15000, 32000)
        with socket.socket() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                s.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def run_json(command, accepted=(0,), once_ready=None):
    """Runs a generator that prints one line of JSON. `once_ready` is called when it has printed "ready" before that."""
    process = subprocess.Popen([str(c) for c in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    try:
        if once_ready and process.stdout.readline() == "ready\n":
            once_ready()
        out, errors = process.communicate()
    finally:
        process.kill()  # it has ended, unless something failed meanwhile
        process.wait()
    if process.returncode not in accepted or not out.strip():
        raise Failure(f"{Path(command[0]).name} ended with {process.returncode}: {out}{errors}")
    return json.loads(out.splitlines()[-1])


class Server:
    """A process that is measured: its processor time and memory as the kernel counts them."""

    def __init__(self, command, log, ready=None, port=None):
        """Returns when a line of its output matches `ready`, or `port` accepts."""
        self.log = Path(log)
        began = time.monotonic()
        with open(self.log, "wb") as out:
            self.process = subprocess.Popen([str(c) for c in command], stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        self.pid = self.process.pid
        while not self.is_ready(ready, port):
            if self.process.poll() is not None or time.monotonic() - began > READY_LIMIT_S:
                self.stop()
                raise Failure(f"{Path(command[0]).name} does not start:\n{self.log.read_text()[-2000:]}")
            time.sleep(0.02)

    def is_ready(self, pattern, port):
        if pattern:
            return re.search(pattern, self.log.read_text(errors="replace"), re.M) is not None
        with socket.socket() as s:
            return s.connect_ex(("127.0.0.1", port)) == 0

    def cpu_s(self):
        fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / CLOCK_TICKS

    def memory(self):
        """Megabytes (10^6 bytes): anonymous resident now, resident now, most ever resident."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        kib = {name: int(value) for name, value in re.findall(r"^(\w+):\s+(\d+) kB", status, re.M)}
        return {"anonymous_mb": kib["RssAnon"] * 1024 / 1e6, "resident_mb": kib["VmRSS"] * 1024 / 1e6,
                "peak_mb": kib["VmHWM"] * 1024 / 1e6}

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(STOP_LIMIT_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


class Kafka:
    """A real one in a folder of its own, which forgets records after 128 MB a partition."""

    def __init__(self, folder):
        self.folder = folder
        settings = ["log.segment.bytes=67108864", "log.retention.bytes=134217728", "log.retention.check.interval.ms=10000"]
        self.tool("start", *[arg for s in settings for arg in ("--set", s)])
        self.bootstrap = (folder / "bootstrap").read_text().strip()

    def tool(self, command, *args):
        done = subprocess.run([ROOT / "tools/kafka", command, self.folder, *args], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True)
        if done.returncode:
            raise Failure(f"tools/kafka {command}: {done.stdout}{done.stderr}")

    def create(self, topic, partitions=4):
        self.tool("topic", "--create", "--if-not-exists", "--topic", topic, "--partitions", str(partitions))

    def count(self, topic, partitions=4):
        """Records ever stored in a topic."""
        command = ["kcat", "-b", self.bootstrap, "-Q", *[arg for p in range(partitions) for arg in ("-t", f"{topic}:{p}:-1")]]
        deadline = time.monotonic() + READY_LIMIT_S
        while True:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
            found = re.findall(r"\[\d+\] offset (-?\d+)", done.stdout)
            if done.returncode == 0 and len(found) == partitions:
                return sum(max(0, int(offset)) for offset in found)
            # A topic just made has no leader yet for a moment.
            if time.monotonic() > deadline:
                raise Failure(f"kcat cannot count {topic}: {done.stdout}{done.stderr}")
            time.sleep(0.1)

    def stop(self):
        self.tool("stop")


def millrace(build, work, kafka, rules=""):
    """A fresh server: devices device-0 to device-49 of tenant demo, anonymous clients on plain topics; rules as YAML."""
    port = free_port()
    config = work / "millrace.yaml"
    devices = "".join(f"      device-{i}: {{password: {PASSWORD}}}\n" for i in range(DEVICES))
    config.write_text(f'kafka: {{bootstrap: "{kafka.bootstrap}"}}\n'
                      f'listeners:\n  - {{mqtt: "127.0.0.1:{port}", tenant: demo, anonymous: true}}\n'
                      f'admin: {{listen: ""}}\ndata_dir: {work / "data"}\nlog: {{level: warn}}\n'
                      f"tenants:\n  demo:\n    devices:\n{devices}{rules}")
    server = Server([build / "millrace", "serve", "-c", config], work / "millrace.log", ready=r"^millrace ready")
    server.port = port
    return server


def mosquitto(work):
    """Debian's, told to drop nothing."""
    port = free_port()
    config = work / "mosquitto.conf"
    config.write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\npersistence false\n"
                      "max_queued_messages 0\nmax_inflight_messages 100\n")
    server = Server(["mosquitto", "-c", config], work / "mosquitto.log", port=port)
    server.port = port
    return server


def vertx(folder, work, kafka, topic):
    """The vert.x peer, made by build_vertx()."""
    port = free_port()
    server = Server(["bash", folder / "start.sh", port, topic, "2", f"bootstrap.servers={kafka.bootstrap}"],
                    work / "vertx.log", ready="ready")
    server.port = port
    return server


def build_vertx(peers):
    """Builds the peer in .cache. Returns its folder, or None and why it is not run."""
    if not peers:
        return None, "MILLRACE_PEERS names no folder"
    source = Path(peers) / "vertx"
    folder = ROOT / ".cache" / "peers" / "vertx"
    if not (source / "pom.xml").exists():
        return None, "MILLRACE_PEERS has no folder vertx"
    if not (folder / "lib").is_dir():
        note("building the vert.x peer")
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cp", "-r", f"{source}/.", folder], check=True)
        try:
            done = subprocess.run(["mvn", "-B", "-q", "package", "dependency:copy-dependencies", "-DoutputDirectory=lib"],
                                  cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        except FileNotFoundError:
            return None, "maven is missing"
        if done.returncode:
            subprocess.run(["rm", "-rf", folder / "lib"], check=True)
            return None, f"maven failed: {done.stdout[-300:]}"
    return folder, None


def start_up_ms(build, work):
    """As time_start_up(), of `serve --dev`."""
    return time_start_up([build / "millrace", "serve", "--dev", "--mqtt", f"127.0.0.1:{free_port()}",
                          "--http", "127.0.0.1:0", "--admin", f"127.0.0.1:{free_port()}",
                          "--data", work / "dev-data"])


def time_start_up(command):
    """Milliseconds from exec to the ready line, and from SIGTERM to the end."""
    began = time.monotonic()
    process = subprocess.Popen([str(c) for c in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL)
    try:
        if not select.select([process.stdout], [], [], READY_LIMIT_S)[0] or b"ready" not in process.stdout.readline():
            raise Failure("millrace does not get ready")
        ready = time.monotonic()
    finally:
        process.send_signal(signal.SIGTERM)
        status = process.wait()
        process.stdout.close()
    if status:
        raise Failure(f"millrace ended with {status}")
    return (ready - began) * 1000, (time.monotonic() - ready) * 1000


def median(values):
    return statistics.median(values) if values else None
