"""The part `command` of bench/run: round trips of commands, application to device to application, by each design with one and two instances
that have devices, beside raw librdkafka that does the same hops; and what idle instances take."""
import sys
import time

from measure import DEVICES, PASSWORD, ROOT, Server, free_port, median, note

sys.path.insert(0, str(ROOT / "tests" / "e2e"))
from lib.certs import Authority  # noqa: E402

ROUTINGS = ("direct", "router", "shared", "link")
HOPS = {"direct": 2, "router": 3, "shared": 3, "link": 2}  # records on the way there and back
RATES = (300, 600)
SECONDS, SECONDS_QUICK = 10, 1
WINDOW = 64
IDLE_S, IDLE_S_QUICK = 10, 1
FIELDS = ("p50_us", "p99_us", "rate")


def link_options(bench, instance):
    """Its certificate names the instance."""
    folder = bench.work / "link"
    if not folder.exists():
        folder.mkdir()
        bench.authority = Authority(folder, "ca")
    bench.authority.issue(instance, f"DNS:{instance}")
    address = f"127.0.0.1:{free_port()}"
    return (f', link: {{listen: "{address}", advertise: "{address}", tls: {{cert: {folder}/{instance}.pem, key: {folder}/{instance}.key, '
            f"client_ca: {folder}/ca.pem}}}}")


def start(bench, tenant, routing, name, role):
    """An instance for the devices of a tenant."""
    port = free_port()
    config = bench.work / f"{tenant}-{name}.yaml"
    devices = "".join(f"      device-{i}: {{password: {PASSWORD}}}\n" for i in range(DEVICES))
    link = link_options(bench, f"{tenant}-{name}") if routing == "link" else ""
    config.write_text(f'kafka: {{bootstrap: "{bench.kafka.bootstrap}", group: {tenant}}}\ninstance: {tenant}-{name}\n'
                      f'listeners:\n  - {{mqtt: "127.0.0.1:{port}"}}\nadmin: {{listen: ""}}\ndata_dir: {bench.work / f"data-{tenant}-{name}"}\n'
                      f"log: {{level: warn}}\ncommand: {{routing: {routing}, role: {role}{link}}}\n"
                      f"tenants:\n  {tenant}:\n    devices:\n{devices}")
    server = Server([bench.build / "millrace", "serve", "-c", config], bench.work / f"{tenant}-{name}.log", ready=r"^millrace ready")
    server.port, server.role = port, role
    return server


def load(bench, what, name, count, *args):
    got = bench.tool("command_load", bench.kafka.bootstrap, name, count, f"devices={DEVICES}", *args)
    bench.expect(f"answered by {what}", got["sent"], got["answered"])
    return got


def idle_cpu(bench, servers):
    """Hundredths of a core that each of them takes while nothing happens."""
    seconds = IDLE_S_QUICK if bench.options.quick else IDLE_S
    before = [server.cpu_s() for server in servers]
    time.sleep(seconds)
    return [100 * (server.cpu_s() - was) / seconds for server, was in zip(servers, before)]


def medians(rows):
    return {field: median([row[field] for row in rows]) for field in FIELDS}


def measure_case(bench, routing, n):
    note(f"command: {routing}, {n} instance{'s' * (n > 1)}")
    seconds = SECONDS_QUICK if bench.options.quick else SECONDS
    tenant, hops, raw = f"{routing}{n}", HOPS[routing], f"bench.command.{routing}{n}"
    for hop in range(hops):
        bench.kafka.create(f"{raw}.{hop}")
    servers = [start(bench, tenant, routing, "r", "router")] if routing == "router" else []
    try:
        role = "adapter" if routing == "router" else "all"
        servers += [start(bench, tenant, routing, f"a{i}", role) for i in range(n)]
        ports = [f"port={server.port}" for server in servers if server.role != "router"]
        load(bench, routing, tenant, RATES[0], f"rate={RATES[0]}", *ports)  # to warm up
        case = {"routing": routing, "instances": n, "processes": len(servers), "hops": hops, "rates": []}
        for rate in RATES:
            sides = {"millrace": lambda r=rate: load(bench, routing, tenant, r * seconds, f"rate={r}", *ports),
                     "raw": lambda r=rate: load(bench, "raw librdkafka", raw, r * seconds, f"rate={r}", f"hops={hops}")}
            answers = bench.take_turns(sides)
            case["rates"].append({"rate": rate, **{side: medians(rows) for side, rows in answers.items()},
                                  "p50_ratio": median([m["p50_us"] / r["p50_us"] for m, r in zip(answers["millrace"], answers["raw"])])})
        cpu = sum(server.cpu_s() for server in servers)
        count = 2_000 if bench.options.quick else 30_000
        full = load(bench, routing, tenant, count, f"window={WINDOW}", *ports)
        case["full"] = {"rate": full["rate"], "p50_us": full["p50_us"], "p99_us": full["p99_us"],
                        "cpu_us_per_command": (sum(server.cpu_s() for server in servers) - cpu) / count * 1e6}
        case["idle_percent"] = idle_cpu(bench, servers)
        case["resident_mb"] = [server.memory()["resident_mb"] for server in servers]
    finally:
        for server in servers:
            server.stop()
    return case


def measure_command(bench):
    cases = [(routing, n) for routing in ROUTINGS for n in (1, 2)]
    if bench.options.quick:
        cases = [("direct", 1), ("router", 1)]  # one without and one with other processes in between
    bench.results["command"] = [measure_case(bench, *case) for case in cases]


def case_name(case):
    return f"{case['routing']}, {case['instances']}"
