"""The part `registry` of bench/run: a table of very many devices, and a storm of log-ins beside a connected device."""
import concurrent.futures
import http.client
import json
import os
import random
import shutil
import time

import measure
from measure import PASSWORD, Failure, Server, free_port, median, note

DEVICES, DEVICES_QUICK = 1_000_000, 2_000
PAGE_LINES = 10_000  # of an import; a page has at most 4 MiB
IMPORT_LIMIT_S = 600  # for a page
FEW = 10_000  # of the devices, whom a worker's cache holds
MANY, STORM, CONNECTED = "many", "storm", "steady"  # tenants
STORM_DEVICES, STORM_DEVICES_QUICK = 1_000, 20
STORM_ROUNDS = 3
PUBLISH_RATE, PUBLISH_SECONDS, PUBLISH_SECONDS_QUICK = 500, 10, 2

# Hashes of PASSWORD. That of the many is quick to check, so that look-ups are measured and not hashing.
SALTED = {"hash-function": "sha-256", "salt": "YmVuY2gtc2FsdC0xNmJ5dA==", "pwd-hash": "LnZ6+Lr/0F3aWjy4EAKXmdnzJKOmt0XdbilVpxx5NnA="}
BCRYPT = {"hash-function": "bcrypt", "pwd-hash": "$2a$10$BenchSaltBenchSaltBen.ZhkhVJ3TEZSAhDhk/4TINBdQmJsjrNu"}


class Api:
    """The management interface of a server, by one connection."""

    def __init__(self, port):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=IMPORT_LIMIT_S)

    def post(self, path, body=b""):
        self.connection.request("POST", f"/v1/{path}", body, {"Content-Type": "application/json"})
        answer = self.connection.getresponse()
        text = answer.read()
        if answer.status not in (200, 201):
            raise Failure(f"POST /v1/{path}: {answer.status} {text[:500]!r}")
        return json.loads(text)

    def import_devices(self, tenant, names, secret):
        """Page by page. Returns how many were created."""
        tail = json.dumps([secret], separators=(",", ":"))
        created = 0
        for at in range(0, len(names), PAGE_LINES):
            lines = "".join(f'{{"id":"{name}","device":{{}},"credentials":[{{"type":"hashed-password","auth-id":"{name}",'
                            f'"secrets":{tail}}}]}}\n' for name in names[at:at + PAGE_LINES])
            created += self.post(f"import/{tenant}", lines.encode())["created"]
        return created


def configure(bench, kafka):
    """A server with a data directory of its own. Returns its ports and what starts it."""
    mqtt, admin = free_port(), free_port()
    config = bench.work / "registry.yaml"
    config.write_text(f"kafka: {kafka}\nlisteners:\n  - {{mqtt: \"127.0.0.1:{mqtt}\"}}\nadmin: {{listen: \"127.0.0.1:{admin}\"}}\n"
                      f"data_dir: {bench.work / 'registry-data'}\nlog: {{level: warn}}\n"
                      f"tenants:\n  {CONNECTED}:\n    devices:\n      device-0: {{password: {PASSWORD}}}\n")
    return mqtt, admin, [bench.build / "millrace", "serve", "-c", config]


def start(bench, command):
    return Server(command, bench.work / "registry.log", ready=r"^millrace ready")


def disk_mb(folder):
    return sum(os.stat(os.path.join(at, name)).st_blocks * 512 for at, _, names in os.walk(folder) for name in names) / 1e6


def measure_table(bench):
    """Imported, started again, looked up."""
    count = bench.options.devices or (DEVICES_QUICK if bench.options.quick else DEVICES)
    note(f"registry: {count:,} devices")
    _, admin, command = configure(bench, "{embedded: true}")
    names = [f"device-{i}" for i in range(count)]
    random.Random(count).shuffle(names)  # as with ids that mean nothing, neighbours do not come together
    with start(bench, command) as server:
        empty, cpu, began = server.memory(), server.cpu_s(), time.monotonic()
        api = Api(admin)
        api.post(f"tenants/{MANY}")
        bench.expect("imported", count, api.import_devices(MANY, names, SALTED))
        took = time.monotonic() - began
        found = {"devices": count, "import_per_s": count / took, "import_cpu_us": (server.cpu_s() - cpu) / count * 1e6,
                 "empty_mb": empty["anonymous_mb"], **server.memory()}
    found["disk_mb"] = disk_mb(bench.work / "registry-data")
    times = [measure.time_start_up(command) for _ in range(3 if bench.options.quick else 9)]
    found |= {"ready_ms": median([t[0] for t in times]), "ready_ms_slowest": max(t[0] for t in times)}
    with start(bench, command) as server:
        found |= {"started_anonymous_mb": server.memory()["anonymous_mb"], "started_resident_mb": server.memory()["resident_mb"]}
        server.process.kill()
        server.process.wait()
    found["ready_ms_killed"] = measure.time_start_up(command)[0]
    looked = bench.tool("registry_look", bench.work / "registry-data", MANY, count, min(FEW, count), os.cpu_count(),
                        200 if bench.options.quick else 3000, PASSWORD)
    bench.expect("found in the registry", count, count - looked["missed"])
    bench.results["registry"] = {"table": found, "look": looked}
    shutil.rmtree(bench.work / "registry-data")


def storm_round(bench, port, number, devices):
    """One device publishes, first alone, then while others log in."""
    seconds = PUBLISH_SECONDS_QUICK if bench.options.quick else PUBLISH_SECONDS

    def publish(seconds, once_ready=None):
        got = bench.tool("mqtt_load", "publish", once_ready=once_ready, announce=1, port=port, connections=1, qos=1, size=100,
                         count=PUBLISH_RATE * seconds, rate=PUBLISH_RATE, topic="telemetry", user=f"device-%d@{CONNECTED}",
                         password=PASSWORD)
        bench.expect("acknowledged beside a storm of log-ins", got["sent"], got["acknowledged"])
        return got

    publish(1)  # to warm up
    quiet, storm = publish(seconds), []
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        loud = publish(seconds, lambda: storm.append(pool.submit(
            bench.tool, "mqtt_load", "idle", port=port, connections=devices, dialing=devices,
            user=f"device-{number}-%d@{STORM}", password=PASSWORD)))
        logged_in = storm[0].result()
    bench.expect("logged in by a storm", devices, logged_in["connections"])
    return {"quiet_p50_us": quiet["p50_us"], "quiet_p99_us": quiet["p99_us"], "p50_us": loud["p50_us"], "p99_us": loud["p99_us"],
            "logins_per_s": logged_in["connects_per_s"]}


def measure_storm(bench):
    """Everybody's password takes a bcrypt of its own; a round has devices of its own, since right passwords are remembered."""
    devices = bench.options.storm or (STORM_DEVICES_QUICK if bench.options.quick else STORM_DEVICES)
    rounds = 1 if bench.options.quick else min(STORM_ROUNDS, bench.options.rounds)
    note(f"registry: {devices:,} devices log in at once")
    port, admin, command = configure(bench, f'{{bootstrap: "{bench.kafka.bootstrap}"}}')
    with start(bench, command):
        api = Api(admin)
        api.post(f"tenants/{STORM}")
        names = [f"device-{r}-{i}" for r in range(rounds) for i in range(devices)]
        bench.expect("imported", len(names), api.import_devices(STORM, names, BCRYPT))
        rows = [storm_round(bench, port, number, devices) for number in range(rounds)]
    bench.results["registry"]["storm"] = {"devices": devices, "rate": PUBLISH_RATE,
                                          **{field: median([row[field] for row in rows]) for field in rows[0]}}
    shutil.rmtree(bench.work / "registry-data")


def measure_registry(bench):
    measure_table(bench)
    measure_storm(bench)
