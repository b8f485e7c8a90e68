"""A fresh `millrace serve` for one run."""
import contextlib
import os
import re
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
READY = re.compile(r"mqtt=(\S+):(\d+)")

# What the packet sequences expect of a CONNACK, plain topics only, and everybody is let in. User name and password `p` are
# those of the sequences.
SETTINGS = (
    "listeners[0].hono=false",
    "limits.topic_alias_maximum=10",
    "limits.max_packet_bytes=2000000",
    "limits.receive_maximum=20",
    "tenants.demo.devices.p.password=p",
    "log.level=warn",
)


def binary():
    """The program under test: $MILLRACE, else the one in build/."""
    return os.environ.get("MILLRACE", str(ROOT / "build" / "millrace"))


@contextlib.contextmanager
def serve(*settings):
    """Runs the server and gives its (host, port). At the end it must stop by SIGTERM with status 0."""
    with tempfile.TemporaryDirectory(prefix="millrace-") as data:
        command = [binary(), "serve", "--dev", "--mqtt", "127.0.0.1:0",
                   "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--data", data]
        for setting in (*SETTINGS, *settings):
            command += ["--set", setting]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            ready = READY.search(process.stdout.readline())
            if not ready:
                raise RuntimeError(f"the server did not start: {' '.join(command)}")
            yield ready[1], int(ready[2])
            process.terminate()
            status = process.wait(timeout=60)
            if status != 0:
                raise RuntimeError(f"the server ended with status {status}")
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
