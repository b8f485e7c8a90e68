"""The part `fan` of bench/run: one CloudEvent in by HTTP, three subscribers out, beside nginx and Benthos."""
import getpass
import json
import os
import shutil
import subprocess
import time
import urllib.request
from pathlib import Path

from measure import CLOCK_TICKS, ROOT, Failure, Server, free_port, median, note

SINKS, SIZE = 3, 1024
CONNECTIONS = (1, 16, 64)
SUBSCRIPTIONS = 10_000  # of a configuration that is built
OPEN_RATE, OPEN_CONNECTIONS = 2_000, 64  # events a second at an even pace
ARRIVAL_LIMIT_S = 20  # for what a server sends on after it has answered
OURS, NGINX, BENTHOS = "millrace", "nginx", "benthos"
FIELDS = ("rate", "p50_us", "p99_us", "cpu_s_per_1000", "resident_mb")
MODULE_LIMIT_S = 900

NGINX_CONFIG = """\
user {user};
worker_processes {workers};
daemon off;
pid nginx.pid;
error_log error.log warn;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    server_tokens off;
    tcp_nodelay on;
    keepalive_timeout 300s;
    keepalive_requests 100000000;
    client_body_buffer_size 64k;
    client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
    proxy_http_version 1.1;
    proxy_set_header Connection "";
    proxy_set_header Host $host;
{upstreams}
    server {{
        listen 127.0.0.1:{port} backlog=4096;
        location = / {{ {mirrors} proxy_pass http://sink0/; }}
{locations}
    }}
}}
"""


def case_name(case):
    return f"{case['connections']} connection{'s' * (case['connections'] > 1)}" + (f" at {case['rate']:,}/s" if case["rate"] else "")


class Family(Server):
    """A process that works through children: theirs counts too."""

    def pids(self):
        found, new = [], [self.pid]
        while new:
            found += new
            new = [int(child) for pid in new for task in Path(f"/proc/{pid}/task").glob("*/children")
                   for child in task.read_text().split()]
        return found

    def cpu_s(self):
        total = 0
        for pid in self.pids():
            fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
            total += int(fields[11]) + int(fields[12])
        return total / CLOCK_TICKS

    def memory(self):
        pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in self.pids())
        return {"resident_mb": pages * os.sysconf("SC_PAGE_SIZE") / 1e6}


class Sinks:
    """The subscribers: one process, a port each."""

    def __init__(self, bench):
        self.ports = [free_port() for _ in range(SINKS)]
        self.process = Server([bench.build / "bench" / "http_sink", *self.ports], bench.work / "http_sink.log", ready=r"^ready")

    def stats(self):
        found = []
        for port in self.ports:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/stats", timeout=ARRIVAL_LIMIT_S) as answer:
                found.append(json.loads(answer.read()))
        return found

    def wait(self, before, sent, first):
        """Until each has got what was sent once. Returns what is wrong, None if nothing."""
        wanted = {"count": sent, "ids": sum(range(first, first + sent)), "bytes": sent * SIZE}
        deadline = time.monotonic() + ARRIVAL_LIMIT_S
        while True:
            got = [{name: after[name] - old[name] for name in wanted} for old, after in zip(before, self.stats())]
            if all(one == wanted for one in got):
                return None
            if time.monotonic() > deadline:
                return f"wanted {wanted}, got {got}"
            time.sleep(0.02)


def start_millrace(bench, sinks):
    folder = bench.work / "fan-config"
    folder.mkdir(exist_ok=True)
    port, admin = free_port(), free_port()
    subscriptions = "".join(f"    - callableDomain: 127.0.0.1:{sink}\n" for sink in sinks.ports)
    (folder / "multiChannelFanoutConfig").write_text(
        f"channelConfigs:\n- namespace: bench\n  name: events\n  fanoutConfig:\n    subscriptions:\n{subscriptions}")
    server = Family([bench.build / "millrace", "fanout", "--config-dir", folder, "--listen", f"127.0.0.1:{port}",
                     "--admin", f"127.0.0.1:{admin}"], bench.work / "fan.log", ready=r"^millrace ready")
    server.port = port
    return server


def start_nginx(bench, sinks):
    folder = bench.work / "nginx"
    folder.mkdir(exist_ok=True)
    port = free_port()
    mirrored = range(1, SINKS)
    (folder / "nginx.conf").write_text(NGINX_CONFIG.format(
        user=getpass.getuser(), workers=os.cpu_count(), port=port,
        upstreams="".join(f"    upstream sink{i} {{ server 127.0.0.1:{sink}; keepalive 256; keepalive_requests 100000000; "
                          f"keepalive_timeout 300s; }}\n" for i, sink in enumerate(sinks.ports)),
        mirrors=" ".join(f"mirror /m{i};" for i in mirrored),
        locations="".join(f"        location = /m{i} {{ internal; proxy_pass http://sink{i}/; }}\n" for i in mirrored)))
    nginx = shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin")
    if not nginx:
        raise Failure("nginx is missing; tools/setup installs it")
    server = Family([nginx, "-p", f"{folder}/", "-c", "nginx.conf"], bench.work / "nginx.log", port=port)
    server.port = port
    return server


def start_benthos(bench, sinks):
    port = free_port()
    outputs = "".join(
        f'      - http_client: {{url: "http://127.0.0.1:{sink}/", verb: POST, max_in_flight: 64, '
        f'headers: {{Content-Type: application/json}}, metadata: {{include_patterns: ["(?i)^ce-"]}}}}\n' for sink in sinks.ports)
    config = bench.work / "benthos.yaml"
    config.write_text(f"http: {{enabled: false}}\nlogger: {{level: WARN}}\ninput:\n  http_server: "
                      f"{{address: '127.0.0.1:{port}', path: /, allowed_verbs: [POST], timeout: 30s}}\n"
                      f"output:\n  broker:\n    pattern: fan_out\n    outputs:\n{outputs}")
    server = Family(["env", "BENTHOS_IDLE=256", ROOT / ".cache" / "peers" / "benthos" / "benthos", "run", config],
                    bench.work / "benthos.log", port=port)
    server.port = port
    return server


def build_benthos():
    """Builds the peer in .cache. Returns why it is not run, None if it is there."""
    folder = ROOT / ".cache" / "peers" / "benthos"
    if (folder / "benthos").exists():
        return None
    if not shutil.which("go"):
        return "Go is missing"
    note("building Benthos")
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("go.mod", "main.go"):
        shutil.copy(ROOT / "bench" / "benthos" / name, folder)
    try:
        for command in (("go", "mod", "tidy"), ("go", "build", "-p", "2", "-o", "benthos", ".")):
            done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  timeout=MODULE_LIMIT_S)
            if done.returncode:
                return f"{' '.join(command[:2])} failed: {done.stderr[-200:]}"
    except subprocess.TimeoutExpired:
        return "its modules did not come in time"
    return None


class Measurement:
    """Servers that run side by side, one of them under load at a time."""

    def __init__(self, bench, sinks, servers):
        self.bench, self.sinks, self.servers = bench, sinks, servers
        self.seconds = 1 if bench.options.quick else 3

    def side(self, name, connections, rate):
        server = self.servers[name]

        def run():
            before, cpu, first = self.sinks.stats(), server.cpu_s(), 1
            pace = {"rate": rate} if rate else {}
            got = self.bench.tool("http_load", port=server.port, host="events.bench", connections=connections, seconds=self.seconds,
                                  size=SIZE, first=first, **pace)
            wrong = self.sinks.wait(before, got["sent"], first)
            if wrong or got["accepted"] != got["sent"]:
                self.bench.lost.append(f"{name}, {connections} connections: {got['accepted']} of {got['sent']} accepted; {wrong}")
            return {"rate": got["rate"], "p50_us": got["p50_us"], "p99_us": got["p99_us"],
                    "cpu_s_per_1000": (server.cpu_s() - cpu) / got["sent"] * 1000, **server.memory()}
        return run

    def case(self, connections, rate=None):
        answers = self.bench.take_turns({name: self.side(name, connections, rate) for name in self.servers})
        sides = {}
        for name, rows in answers.items():
            sides[name] = {field: median([row[field] for row in rows]) for field in FIELDS}
            sides[name]["ratio"] = {field: median([row[field] / beside[field] if beside[field] else 1.0
                                                   for row, beside in zip(rows, answers[NGINX])]) for field in FIELDS}
        return {"connections": connections, "rate": rate, "sides": sides}


def measure_fan(bench):
    """Closed loop on 1, 16 and 64 connections, then at an even pace. nginx neither reads the event nor waits for its mirrors."""
    why = "left out by --quick" if bench.options.quick else build_benthos()
    starts = {OURS: start_millrace, NGINX: start_nginx} | ({} if why else {BENTHOS: start_benthos})
    sinks, servers = Sinks(bench), {}
    try:
        for name, start in starts.items():
            servers[name] = start(bench, sinks)
        idle = {name: server.memory()["resident_mb"] for name, server in servers.items()}
        m = Measurement(bench, sinks, servers)
        cases = []
        for connections, rate in [(c, None) for c in CONNECTIONS] + [(OPEN_CONNECTIONS, OPEN_RATE)]:
            note(f"fan: {connections} connections" + (f", {rate} events a second" if rate else ""))
            cases.append(m.case(connections, rate))
    finally:
        for server in [*servers.values(), sinks.process]:
            server.stop()
    build = bench.tool("fan_build", SUBSCRIPTIONS, 3 if bench.options.quick else 21)
    bench.results["fan"] = {"cases": cases, "build": build, "idle_mb": idle, "benthos_not_run": why}
