"""A millrace process."""
import os
import re
import signal
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import yaml

from lib.wait import HANG_S, Deadline, is_readable

ROOT = Path(__file__).resolve().parents[3]
MILLRACE = os.environ.get("MILLRACE", str(ROOT / "build" / "millrace"))

READY = re.compile(r"millrace ready(?P<mqtt>( mqtts?=\S+)*)(?P<http>( https?=\S+)*)( fanout=(?P<fanout>\S+))?"
                   r"( admin=(?P<admin>\S+))? kafka=(?P<kafka>\S+)(?P<embedded> \(embedded\))?$")
SAMPLE = re.compile(r"(?P<name>\w+)(\{(?P<labels>.*)\})? (?P<value>\S+)$")


def address(text):
    host, _, port = text.rpartition(":")
    return host, int(port)


def is_sanitized():
    """Whether the program is built with a sanitizer, which needs memory of its own."""
    listing = subprocess.run(["ldd", MILLRACE], capture_output=True, text=True).stdout
    return "libasan" in listing or "libtsan" in listing


class Metrics:
    """One scrape of /metrics."""

    def __init__(self, text):
        self.samples = []
        for line in text.splitlines():
            if line and not line.startswith("#"):
                sample = SAMPLE.match(line)
                labels = dict(re.findall(r'(\w+)="([^"]*)"', sample["labels"] or ""))
                self.samples.append((sample["name"], labels, float(sample["value"])))

    def sum(self, name, **labels):
        """Of all samples of that name with at least these labels. The name has to exist."""
        assert any(n == name for n, _, _ in self.samples), f"no metric {name}"
        return sum(v for n, have, v in self.samples if n == name and labels.items() <= have.items())

    def routes(self):
        return sorted({have["route"] for n, have, _ in self.samples if n == "millrace_messages_in_total"})

    def ledger(self, route):
        parts = {"in": "in_total", "acknowledged": "acknowledged_total", "rejected": "rejected_total",
                 "dropped": "dropped_total", "waiting": "waiting"}
        return {part: self.sum(f"millrace_messages_{name}", route=route) for part, name in parts.items()}

    def check_ledger(self):
        """Whatever clients published was acknowledged, rejected or dropped, or still waits; deliveries likewise."""
        for route in self.routes():
            ledger = self.ledger(route)
            came = ledger.pop("in")
            assert came == sum(ledger.values()), f"{route}: {came} messages came, but {ledger}"
            assert all(part >= 0 for part in ledger.values()), f"{route}: {ledger}"
        matched = self.sum("millrace_deliveries_total")
        ends = {end: self.sum(f"millrace_deliveries_{end}") for end in ("completed_total", "dropped_total", "waiting")}
        assert matched == sum(ends.values()), f"{matched} deliveries, but {ends}"
        if any(name == "millrace_to_mqtt_records_total" for name, _, _ in self.samples):
            came = self.sum("millrace_to_mqtt_records_total")
            ends = {end: self.sum(f"millrace_to_mqtt_{end}") for end in ("delivered_total", "dropped_total", "waiting")}
            assert came == sum(ends.values()), f"{came} records from Kafka, but {ends}"
            assert all(part >= 0 for part in ends.values()), f"records from Kafka: {ends}"
        if any(name == "millrace_commands_received_total" for name, _, _ in self.samples):
            names = {name for name, _, _ in self.samples}
            came = sum(self.sum(f"millrace_commands_{start}_total") for start in ("received", "resumed")
                       if f"millrace_commands_{start}_total" in names)
            ends = {end: self.sum(f"millrace_commands_{end}") for end in ("delivered_total", "refused_total", "dropped_total", "elsewhere_total",
                                                                           "queued_total", "waiting") if f"millrace_commands_{end}" in names}
            assert came == sum(ends.values()), f"{came} commands came, but {ends}"
            assert all(part >= 0 for part in ends.values()), f"commands: {ends}"

    def check_fanout(self):
        """Every event that came was acknowledged, rejected or dropped, or still waits; deliveries likewise."""
        came = self.sum("millrace_fanout_events_received_total")
        ends = {end: self.sum(f"millrace_fanout_events_{end}")
                for end in ("acknowledged_total", "rejected_total", "dropped_total", "waiting")}
        assert came == sum(ends.values()), f"{came} events came, but {ends}"
        begun = self.sum("millrace_fanout_deliveries_begun_total")
        ends = {end: self.sum(f"millrace_fanout_deliveries_{end}") for end in ("ended_total", "running")}
        assert begun == sum(ends.values()), f"{begun} deliveries began, but {ends}"
        timed = self.sum("millrace_fanout_delivery_seconds_count")
        assert timed == ends["ended_total"], f"{timed} deliveries took their time, but {ends}"


class Server:
    """Started with command-line arguments; `ready()` waits for the line that says so."""

    command = "serve"

    def __init__(self, arguments, folder, name="server"):
        self.log_path = folder / f"{name}.log"
        self.is_killed = False
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen([MILLRACE, self.command, *map(str, arguments)], stdin=subprocess.DEVNULL,
                                            stdout=subprocess.PIPE, stderr=log, cwd=folder)
        self.pid = self.process.pid
        self.output = b""
        self.mqtt_all = []
        self.http_all = []
        self.mqtt = self.http = self.fanout = self.admin = self.kafka = None

    def log(self):
        return self.log_path.read_text(errors="replace")

    def is_running(self):
        return self.process.poll() is None

    def ready_line(self):
        """The first line of its output, once it is there."""
        deadline = Deadline(lambda: f"the ready line; the log:\n{self.log()}")
        while b"\n" not in self.output:
            if is_readable(self.process.stdout, deadline.left()):
                chunk = os.read(self.process.stdout.fileno(), 4096)
                assert chunk, f"it ended with status {self.process.wait()}:\n{self.log()}"
                self.output += chunk
        return self.output.decode().partition("\n")[0]

    def ready(self):
        line = self.ready_line()
        match = READY.match(line)
        assert match, f"not a ready line: {line}"
        self.mqtt_all = [address(word.partition("=")[2]) for word in match["mqtt"].split()]
        self.mqtt = self.mqtt_all[0] if self.mqtt_all else None
        self.http_all = [address(word.partition("=")[2]) for word in match["http"].split()]
        self.http = self.http_all[0] if self.http_all else None
        self.fanout = match["fanout"] and address(match["fanout"])
        self.admin = match["admin"]
        self.kafka = match["kafka"]
        self.is_embedded = bool(match["embedded"])
        return self

    def get(self, path, admin=None):
        """(status, body) of the administration port; (None, "") while nothing listens there."""
        try:
            with urllib.request.urlopen(f"http://{admin or self.admin}{path}", timeout=HANG_S) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except urllib.error.URLError:
            return None, ""

    def metrics(self):
        status, text = self.get("/metrics")
        assert status == 200
        return Metrics(text)

    def check_ledger(self):
        metrics = self.metrics()
        metrics.check_ledger()
        if self.fanout:
            metrics.check_fanout()

    def anonymous_memory(self):
        """Bytes of memory of its own that are resident."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(re.search(r"RssAnon:\s+(\d+) kB", status)[1]) * 1024

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self):
        return self.process.wait(HANG_S)

    def kill(self):
        self.is_killed = True
        self.process.kill()
        self.wait()

    def stop(self):
        """SIGTERM; the exit status."""
        if self.is_running():
            self.signal(signal.SIGTERM)
        return self.wait()

    def close(self):
        if self.is_running():
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


def write_config(config, path):
    path.write_text(yaml.safe_dump(config, sort_keys=False))
    return path


def run_command(*arguments, **options):
    """Runs millrace to its end."""
    return subprocess.run([MILLRACE, *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=HANG_S, **options)
