"""`millrace fanout` as a process, and events sent to it with Python's own HTTP client."""
import http.client
import itertools
import json
import os
import re
from collections import namedtuple

import yaml

from lib.server import Server, address
from lib.wait import HANG_S, until

READY = re.compile(r"millrace ready fanout=(?P<fanout>\S+)( admin=(?P<admin>\S+))?")

Response = namedtuple("Response", "status headers body")

numbers = itertools.count(1)


def event(but=(), **attributes):
    """Headers of an event in binary mode; `but` names those to leave out. An id nobody else has, unless given."""
    have = {"specversion": "1.0", "type": "com.example.opened", "source": "/tests", "id": f"event-{next(numbers)}"} | attributes
    return {"Content-Type": "application/json"} | {f"ce-{name}": value for name, value in have.items() if name not in but}


def document(**fields):
    """An event as its JSON document."""
    return {"specversion": "1.0", "type": "com.example.opened", "source": "/tests", "id": f"event-{next(numbers)}"} | fields


class Sender:
    """What answers at `self.fanout`, the address of a fan-out."""

    def request(self, method, path, headers=(), body=b"", host=None):
        connection = http.client.HTTPConnection(*self.fanout, timeout=HANG_S)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            connection.putheader("Host", host or "%s:%d" % self.fanout)
            for name, value in dict(headers).items():
                connection.putheader(name, value)
            connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            answer = connection.getresponse()
            return Response(answer.status, answer.headers, answer.read())
        finally:
            connection.close()

    def send(self, headers=None, body=b'{"x":1}', to="/default/c1", host=None):
        """POSTs an event; with a host the channel is its."""
        return self.request("POST", "/" if host else to, event() if headers is None else headers, body, host)


class Sidecar(Sender, Server):
    """Reads its configuration from `folder`, where write() puts it."""

    command = "fanout"

    def __init__(self, folder, work, *arguments, name="sidecar", admin="127.0.0.1:0"):
        self.folder = folder
        super().__init__(["--config-dir", folder, "--listen", "127.0.0.1:0", *(["--admin", admin] if admin else []),
                          "--set", "fanout.grace=0", *arguments], work, name)

    def ready(self):
        line = self.ready_line()
        match = READY.match(line)
        assert match, f"not a ready line: {line}"
        self.fanout = address(match["fanout"])
        self.admin = match["admin"]
        return self

    def config(self):
        """What the administration port says of the configuration."""
        status, text = self.get("/config")
        assert status == 200, text
        return json.loads(text)

    def check_ledger(self):
        self.metrics().check_fanout()


class Beside(Sender):
    """The fan-out of a process that serves more, from lib/server.py."""

    def __init__(self, server):
        self.fanout = server.fanout


def channel(*subscriptions, name="c1", **fields):
    """One channel in our own form. A subscription is a subscriber's URL, or a dictionary."""
    return {"namespace": "default", "name": name, **fields,
            "subscriptions": [s if isinstance(s, dict) else {"subscriber": s} for s in subscriptions]}


def write(folder, config, name="channels.yaml"):
    """Replaces the configuration as a whole: a new file takes the old one's name."""
    folder.mkdir(exist_ok=True)
    text = config if isinstance(config, str) else yaml.safe_dump(config, sort_keys=False)
    new = folder / f".{name}.new"
    new.write_text(text)
    os.replace(new, folder / name)


def holds(sidecar, condition):
    """Waits until the configuration the port tells of is the wanted one."""
    return until(lambda: condition(sidecar.config()) and sidecar.config(), "the configuration")
