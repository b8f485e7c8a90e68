"""`millrace import`: what Mosquitto and Hono have comes over with its passwords (docs/REGISTRY.md, Moving from Mosquitto)."""
import json
import re
import shutil
import subprocess

import pytest
import requests

from lib.mqtt import V5, V311, Client
from lib.server import MILLRACE, run_command
from lib.wait import HANG_S, until

SUMS = re.compile(r"^(\w+): (\d+) read = (\d+) created \+ (\d+) updated \+ (\d+) unchanged \+ (\d+) skipped \+ (\d+) failed$", re.M)
CA = {"subject-dn": "CN=ca,O=acme", "algorithm": "EC",
      "public-key": "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEaxfR8uEsQkf4vOblY6RA8ncDfYEt6zOg9KE5RdiYwpZP40Li/hp/"
                    "m47n60p8D54WK84zV2sxXs7LtkBoN79R9Q=="}


@pytest.fixture
def server(serve, tmp_path):
    return serve({
        "kafka": {"embedded": True},
        "listeners": [{"mqtt": "127.0.0.1:0", "tenant": "acme"}, {"http": "127.0.0.1:0"}],
        "admin": {"listen": "127.0.0.1:0"},
        "registry": {"bcrypt_cost": 6},
        "data_dir": str(tmp_path / "data"),
        "tenants": {"acme": {}},  # so that a listener may have it
    })


@pytest.fixture
def ask(server):
    """ask(method, path, body): of the management interface."""
    return lambda method, path, body=None: requests.request(method, f"http://{server.admin}/v1{path}", json=body, timeout=HANG_S)


@pytest.fixture
def run(server):
    """run(arguments, status): `millrace import`, with what it counts as {"devices": (read, created, updated, unchanged, skipped, failed)}."""
    def run(*arguments, status=0):
        done = run_command("import", *arguments, "--api", f"http://{server.admin}")
        assert done.returncode == status, done.stdout + done.stderr
        done.sums = {what: tuple(map(int, numbers)) for what, *numbers in SUMS.findall(done.stdout)}
        for read, *others in done.sums.values():
            assert read == sum(others), done.stdout
        return done
    return run


def mosquitto_passwd(*arguments):
    subprocess.run(["mosquitto_passwd", *map(str, arguments)], check=True, timeout=HANG_S, capture_output=True)


@pytest.fixture
def passwords(tmp_path):
    """A file as mosquitto_passwd makes it, with both of its hashes, and some lines that somebody wrote by hand."""
    assert shutil.which("mosquitto_passwd"), "mosquitto_passwd is not installed"
    file = tmp_path / "passwd"
    mosquitto_passwd("-b", "-c", file, "alice", "alice's secret")
    mosquitto_passwd("-b", "-H", "sha512", file, "bob", "b\u00f6b")
    mosquitto_passwd("-b", file, "gw", "gateway")
    with file.open("a") as more:
        more.write("# by hand\nold:$argon2id$v=19$m=47104,t=1,p=1$c2FsdA$aGFzaA\nspace man:$7$101$nHVjZWwZFTVxC3oL$EKl5KNx5Ta+VpQL0oVdUinhw"
                   "QJm62zwE9mXmc/h3mYY0mitE2xoKdiVMHc8FsC5co5bEcyvG8Q7xEJ6qTfod+g==\n")
    return file


def connects(server, user, password, version=V5):
    refused = 0x86 if version == V5 else 4
    with Client(server.mqtt, version) as c:
        try:
            c.connect(f"c-{user}", user=user, password=password)
            return True
        except AssertionError:
            pass
    with Client(server.mqtt, version) as c:
        c.connect(f"c-{user}", user=user, password=password, expect=refused)
    return False


@pytest.mark.parametrize("version", [V311, V5])
def test_users_of_mosquitto_log_in_as_before(server, ask, run, passwords, version):
    nowhere = run("mosquitto", passwords, "--tenant", "none", status=1)
    assert "there is no tenant none" in nowhere.stderr and nowhere.sums == {"devices": (5, 0, 0, 0, 0, 5)}
    dry = run("mosquitto", passwords, "--tenant", "acme", "--dry-run", status=1)
    assert dry.sums == {"devices": (5, 3, 0, 0, 0, 2)} and "nothing was changed" in dry.stdout
    assert ask("GET", "/devices/acme").status_code == 404
    done = run("mosquitto", passwords, "--tenant", "acme", status=1)
    assert done.sums == dry.sums and done.stderr == dry.stderr
    assert f"{passwords}:5: old has an argon2id hash" in done.stderr
    assert f"{passwords}:6: acme/space man: the id of a device must be" in done.stderr
    for user, password in (("alice", "alice's secret"), ("bob", "b\u00f6b"), ("gw", "gateway"), ("alice@acme", "alice's secret")):
        assert connects(server, user, password, version)
        assert not connects(server, user, password + "x", version)
    assert not connects(server, "old", "x", version)
    assert run("mosquitto", passwords, "--tenant", "acme", status=1).sums == {"devices": (5, 0, 0, 3, 0, 2)}


def test_access_of_mosquitto_becomes_via_or_is_told(server, ask, run, passwords, tmp_path):
    acl = tmp_path / "acl"
    acl.write_text("topic read news/#\n"
                   "pattern write telemetry/acme/%u\n"
                   "user gw\n"
                   "topic write telemetry/acme/behind\n"
                   "topic write telemetry/acme/alice\n"
                   "topic deny plant/secret\n"
                   "user nobody\n"
                   "topic readwrite #\n")
    done = run("mosquitto", passwords, "--tenant", "acme", "--acl", acl, status=1)
    assert done.sums == {"devices": (6, 4, 0, 0, 0, 2)}
    assert "access: 6 lines = 2 hold for every device + 2 became via + 2 not carried over" in done.stdout
    told = [line for line in done.stderr.splitlines() if line.startswith(str(acl))]
    assert [line.split(":")[1] for line in told] == ["1", "6", "7"], told
    assert ask("GET", "/devices/acme/behind").json()["via"] == ["gw"]
    with Client(server.mqtt, V5) as c:
        c.connect("gw", user="gw", password="gateway")
        assert until(lambda: c.publish_and_wait("telemetry//behind", "x") == 0, "the tenant's topics")
        assert c.publish_and_wait("telemetry//bob", "x") == 0x87
    summary = json.loads(run("mosquitto", passwords, "--tenant", "acme", "--acl", acl, "-o", "json", status=1).stdout)
    assert summary["devices"]["unchanged"] == 4 and summary["acl"] == {"lines": 6, "held": 2, "via": 2, "lost": 2}


def write(folder, **files):
    for name, content in files.items():
        text = content if isinstance(content, str) else json.dumps(content)
        (folder / f"{name}.json").write_text(text)
    return [folder / f"{name}.json" for name in files]


SALTED = {"hash-function": "sha-512", "salt": "aG9ubw==", "not-before": "2017-05-01T14:00:00+01:00", "not-after": "2037-06-01T14:00:00+01:00",
          "pwd-hash": "C9/T62m1tT4ZxxqyIiyN9fvoEqmL0qnM4/+M+GHHDzr0QzzkAUdGYyJBfxRSe4upDzb6TSC4k5cpZG17p4QCvA=="}  # hono-secret


def password_of(device, auth_id, secret):
    return {"device-id": device, "type": "hashed-password", "auth-id": auth_id, "enabled": True, "secrets": [secret]}


@pytest.fixture
def files(tmp_path):
    """The three files of Hono's file-based registry."""
    return write(
        tmp_path,
        tenants=[{"tenant-id": "DEFAULT_TENANT", "enabled": True, "trusted-ca": [CA]}, {"tenant-id": "HTTP_TENANT", "adapters": [
            {"type": "hono-http", "enabled": True, "device-authentication-required": True}]}],
        devices=[{"tenant": "DEFAULT_TENANT", "devices": [
            {"device-id": "4711", "data": {"enabled": True, "comment": ["x"], "defaults": {"importance": "high"}}},
            {"device-id": "4712", "data": {"enabled": True, "via": "gw-1"}}, {"device-id": "gw-1", "data": {"enabled": True}}]}],
        credentials=[{"tenant": "DEFAULT_TENANT", "credentials": [
            password_of("4711", "sensor1", SALTED),
            password_of("gw-1", "gw", {"hash-function": "bcrypt", "pwd-hash":
                                       "$2a$10$GMcN0iV9gJV7L1sH6J82Xebc1C7CGJ..Rbs./vcTuTuxPEgS9DOa6"}),
            {"device-id": "4711", "type": "psk", "auth-id": "sensor1", "secrets": [{"key": "Y29hcC1zZWNyZXQ="}]}]}])


def test_files_of_hono_come_over(server, ask, run, files):
    dry = run("hono", *files, "--dry-run")
    assert dry.sums == {"tenants": (2, 2, 0, 0, 0, 0), "devices": (3, 3, 0, 0, 0, 0)}
    assert ask("GET", "/tenants/DEFAULT_TENANT").status_code == 404
    done = run("hono", *files)
    assert done.sums == dry.sums and "DEFAULT_TENANT/4711: Device.comment is in ext now" in done.stderr
    assert ask("GET", "/devices/DEFAULT_TENANT/4711").json()["ext"] == {"comment": ["x"]}
    assert len(ask("GET", "/credentials/DEFAULT_TENANT/4711").json()) == 2
    assert connects(server, "sensor1@DEFAULT_TENANT", "hono-secret") and connects(server, "gw@DEFAULT_TENANT", "gw-secret")
    assert not connects(server, "sensor1@DEFAULT_TENANT", "gw-secret")
    assert run("hono", *files, "--update").sums == {"tenants": (2, 0, 0, 2, 0, 0), "devices": (3, 0, 0, 3, 0, 0)}


def test_what_is_there_and_different_is_left_or_replaced(ask, run, files):
    run("hono", *files)
    ask("PUT", "/tenants/HTTP_TENANT", {"enabled": False}).raise_for_status()
    ask("PUT", "/devices/DEFAULT_TENANT/4712", {"enabled": False}).raise_for_status()
    ask("PUT", "/credentials/DEFAULT_TENANT/gw-1", []).raise_for_status()
    kept = run("hono", *files)
    assert kept.sums == {"tenants": (2, 0, 0, 1, 1, 0), "devices": (3, 0, 0, 1, 2, 0)}
    assert "tenant HTTP_TENANT is there and not the same" in kept.stderr
    assert "DEFAULT_TENANT/4712 is there and not the same" in kept.stderr
    assert ask("GET", "/devices/DEFAULT_TENANT/4712").json()["enabled"] is False
    assert run("hono", *files, "--update", "--tenant", "HTTP_TENANT").sums == {
        "tenants": (2, 0, 1, 0, 1, 0), "devices": (3, 0, 0, 0, 3, 0)}
    assert run("hono", *files, "--update").sums == {"tenants": (2, 0, 0, 2, 0, 0), "devices": (3, 0, 2, 1, 0, 0)}
    assert ask("GET", "/devices/DEFAULT_TENANT/4712").json()["via"] == ["gw-1"]
    assert len(ask("GET", "/credentials/DEFAULT_TENANT/gw-1").json()) == 1


def test_exports_of_mongodb_come_over_page_by_page(server, ask, run, tmp_path):
    devices = "".join(json.dumps({"_id": {"$oid": f"{i:024x}"}, "tenant-id": "t1", "device-id": f"d{i}", "device": {"enabled": True},
                                  "version": "v", "auto-provisioned": False}) + "\n" for i in range(2500))
    credentials = "".join(json.dumps({"tenant-id": "t1", "device-id": f"d{i}", "credentials": [
        {"type": "hashed-password", "auth-id": f"a{i % 2499}", "secrets": [SALTED | {"id": f"s{i}"}]}]}) + "\n" for i in range(2500))
    exported = write(tmp_path, devices=devices, credentials=credentials,
                     tenants=json.dumps({"tenant-id": "t1", "tenant": {"enabled": True}}))
    done = run("hono", *exported, status=1)
    assert done.sums == {"tenants": (1, 1, 0, 0, 0, 0), "devices": (2500, 2499, 0, 0, 0, 1)}
    assert f"{exported[0]}:2500: t1/d2499: is used by another device" in done.stderr
    assert connects(server, "a7@t1", "hono-secret")
    assert run("hono", *exported, status=1).sums["devices"] == (2500, 0, 0, 2499, 0, 1)


def test_an_import_that_was_cut_short_is_given_again(serve, tmp_path):
    count = 15000
    config = {"kafka": {"embedded": True}, "listeners": [{"mqtt": "127.0.0.1:0"}], "admin": {"listen": "127.0.0.1:0"},
              "data_dir": str(tmp_path / "data"), "tenants": {"t1": {}}}
    exported, = write(tmp_path, devices="".join(json.dumps({"id": f"d{i}", "device": {}}) + "\n" for i in range(count)))
    first = serve(config)
    command = [MILLRACE, "import", "hono", exported, "--tenant", "t1", "--api", f"http://{first.admin}"]
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert running.stderr.readline() == f"5000 of {count} devices\n"
    first.kill()
    _, told = running.communicate(timeout=HANG_S)
    assert running.returncode == 2 and "begun again, it goes on" in told
    second = serve(config)
    done = run_command("import", "hono", exported, "--tenant", "t1", "--api", f"http://{second.admin}")
    (read, created, _, unchanged, _, failed), = [tuple(map(int, numbers)) for _, *numbers in SUMS.findall(done.stdout)]
    assert done.returncode == 0 and (read, failed) == (count, 0) and unchanged >= 5000 and created + unchanged == count
    assert requests.get(f"http://{second.admin}/v1/devices/t1", timeout=HANG_S).json()["total"] == count


def test_an_export_of_the_command_line_comes_back(ask, run, server, files, tmp_path):
    run("hono", *files)
    line = run_command("device", "export", "DEFAULT_TENANT", "--secrets", "--api", f"http://{server.admin}").stdout
    exported = write(tmp_path, lines=line)
    assert run("hono", *exported, "--tenant", "DEFAULT_TENANT").sums == {"devices": (3, 0, 0, 3, 0, 0)}
    ask("DELETE", "/devices/DEFAULT_TENANT").raise_for_status()
    assert run("hono", *exported, "--tenant", "DEFAULT_TENANT").sums == {"devices": (3, 3, 0, 0, 0, 0)}
    assert connects(server, "gw@DEFAULT_TENANT", "gw-secret")
    ask("DELETE", "/devices/DEFAULT_TENANT").raise_for_status()
    for arguments in (["device", "import", "DEFAULT_TENANT", "--from", "-"], ["import", "hono", "-", "--tenant", "DEFAULT_TENANT"]):
        done = subprocess.run([MILLRACE, *arguments, "--api", f"http://{server.admin}"], input=line, text=True, capture_output=True,
                              timeout=HANG_S, check=True)
        assert "3 created" in done.stdout + done.stderr or "3 unchanged" in done.stdout, "stdin is read"
    assert ask("GET", "/devices/DEFAULT_TENANT").json()["total"] == 3


def test_what_cannot_be_read_or_asked_is_told(run, files, tmp_path):
    bad, = write(tmp_path, bad='[{"tenant-id": "t1"},\n{"x"')
    assert f"{bad}:2: " in run("hono", bad, status=2).stderr
    assert "cannot be read" in run("hono", tmp_path / "none", status=2).stderr
    assert "into which tenant" in run("mosquitto", bad, status=2).stderr
    assert "mosquitto or hono" in run("emqx", bad, status=2).stderr
    assert "which files" in run("hono", status=2).stderr
    alone = run("hono", files[2], "--tenant", "DEFAULT_TENANT", status=1)
    assert alone.sums == {"devices": (2, 0, 0, 0, 0, 2)} and "in none of the files" in alone.stderr
    done = run_command("import", "hono", files[0], "--api", "http://127.0.0.1:1")
    assert done.returncode == 2 and "nobody listens" in done.stderr
