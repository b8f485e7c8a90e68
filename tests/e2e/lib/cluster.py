"""Several instances of Millrace that share the commands of their tenants (docs/COMMANDS.md), in a corner of a Kafka of their own."""
import signal
import socket
import uuid

from lib.certs import Authority
from lib.server import Server, write_config
from lib.wait import until

ROUTINGS = ("direct", "router", "shared", "link")
PASSWORD = "pw"
DEVICES = {"d1": [], "d2": ["g1"], "d3": ["g1", "g2"], "g1": [], "g2": []}  # and the gateways of each


def devices_of(names):
    return {name: {"password": PASSWORD} | ({"via": list(via)} if via else {}) for name, via in names.items()}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Cluster:
    """start(name) starts an instance, or starts it again; all topics and groups begin with `prefix`."""

    def __init__(self, folder, kafka, routing, tenants, devices=None, **command):
        self.folder, self.kafka, self.routing = folder, kafka, routing
        self.prefix = f"c{uuid.uuid4().hex[:8]}."
        self.tenants = {tenant: devices_of(devices or DEVICES) for tenant in tenants}
        self.command = {"routing": routing, "lease": "5s", "ack_timeout": "1m"} | command
        self.authority = Authority(folder, "ca") if routing == "link" else None
        self.servers = {}
        self.starts = 0
        self.ports = {}

    def link_of(self, name):
        if name not in self.ports:
            self.ports[name] = free_port()
            self.authority.issue(name, f"DNS:{name}")
        address = f"127.0.0.1:{self.ports[name]}"
        return {"link": {"listen": address, "advertise": address, "tls": {
            "cert": str(self.folder / f"{name}.pem"), "key": str(self.folder / f"{name}.key"), "client_ca": str(self.authority.cert)}}}

    def config_of(self, name, **command):
        return {
            "kafka": {"bootstrap": self.kafka.bootstrap, "topic_prefix": self.prefix, "group": f"{self.prefix}millrace"},
            "instance": name,
            "listeners": [{"mqtt": "127.0.0.1:0"}, {"http": "127.0.0.1:0"}],
            "admin": {"listen": "127.0.0.1:0"},
            "data_dir": str(self.folder / f"data-{name}"),
            "log": {"level": "info"},
            "command": self.command | (self.link_of(name) if self.authority else {}) | command,
            "tenants": {tenant: {"devices": devices} for tenant, devices in self.tenants.items()},
        }

    def begin(self, name, **command):
        self.starts += 1
        path = write_config(self.config_of(name, **command), self.folder / f"{name}.yaml")
        self.servers[name] = Server(["-c", path], self.folder, f"{name}-{self.starts}")
        return self.servers[name]

    def start(self, *names, **command):
        """All of them at a time. Returns the last one, or the only one."""
        for name in names:
            self.begin(name, **command)
        for name in names:
            self.servers[name].ready()
        return self.servers[names[-1]] if names else None

    def living(self):
        return [server for server in self.servers.values() if server.is_running() and not getattr(server, "is_paused", False)]

    def kill(self, name):
        self.servers[name].kill()

    def stop(self, name):
        server = self.servers[name]
        assert server.stop() == 0, server.log()
        server.is_killed = True  # there is nothing to stop any more

    def pause(self, name):
        self.servers[name].is_paused = True
        self.servers[name].signal(signal.SIGSTOP)

    def resume(self, name):
        self.servers[name].signal(signal.SIGCONT)
        self.servers[name].is_paused = False

    def reload(self, tenants):
        """More tenants, for all instances."""
        self.tenants |= {tenant: devices_of(DEVICES) for tenant in tenants}
        for name, server in self.servers.items():
            applied = server.metrics().sum("millrace_config_reload_total", result="applied")
            write_config(self.config_of(name), self.folder / f"{name}.yaml")
            server.signal(signal.SIGHUP)
            until(lambda s=server, n=applied: s.metrics().sum("millrace_config_reload_total", result="applied") > n, "the reload")

    def sum(self, name, **labels):
        return sum(server.metrics().sum(name, **labels) for server in self.living())

    def wait_done(self, names=None):
        """Until no instance has a command that is not done."""
        until(lambda: self.sum("millrace_commands_waiting") == 0, "all commands to be done")

    def internal_topics(self):
        return sorted(t for t in self.kafka.topics() if t.startswith(f"{self.prefix}hono.command_internal."))

    def end(self):
        """What has to hold when a test is over: the ledgers balance, and every instance ends in good order."""
        for server in self.servers.values():
            if getattr(server, "is_paused", False):
                self.resume(next(n for n, s in self.servers.items() if s is server))
        for server in self.living():
            server.check_ledger()
        for server in self.living():
            server.signal(signal.SIGTERM)
        for server in self.servers.values():
            if not server.is_killed:
                status = server.wait()
                assert status == 0, f"ended with {status}: {server.log()[-6000:]}"
            log = server.log()
            assert "Sanitizer" not in log and "runtime error" not in log, log

    def close(self):
        for server in self.servers.values():
            if getattr(server, "is_paused", False):
                server.signal(signal.SIGCONT)
            server.close()
