"""`millrace check` and the command line."""
import pytest

from lib.server import run_command

GOOD = """kafka: {bootstrap: "k1:9092,k2:9092"}
listeners:
  - {mqtt: "0.0.0.0:1883"}
tenants:
  demo:
    devices:
      sensor-1: {password: secret}
"""


@pytest.fixture
def check(tmp_path):
    def run(text, *arguments):
        (tmp_path / "millrace.yaml").write_text(text)
        return run_command("check", "-c", "millrace.yaml", *arguments, cwd=tmp_path)
    return run


def test_a_good_file(check):
    done = check(GOOD)
    assert (done.returncode, done.stdout, done.stderr) == (0, "OK\n", "")


@pytest.mark.parametrize("old, new, message", [
    ("mqtt:", "mqttt:", "millrace.yaml:3: "),
    ("bootstrap:", "botstrap:", "millrace.yaml:1: "),
    ("password", "pasword", "millrace.yaml:7: "),
])
def test_a_name_that_does_not_exist_is_told_with_its_line_and_the_nearest(check, old, new, message):
    done = check(GOOD.replace(old, new))
    assert done.returncode == 1 and done.stdout == ""
    line = next(line for line in done.stderr.splitlines() if new.rstrip(":") in line)
    assert line.startswith(message), line
    assert old.rstrip(":") in line.replace(new.rstrip(":"), ""), line


@pytest.mark.parametrize("text", [
    "limits: {receive_maximum: 0}", "limits: {receive_maximum: 70000}", "limits: {max_packet_bytes: 1}",
    "drain_timeout: soon", "workers: -1", "log: {level: loud}", "workers: 1\nworkers: 2", "nonsense", "a: [b",
])
def test_what_is_wrong_is_told_with_its_line(check, text):
    done = check(GOOD + text)
    assert done.returncode == 1
    assert all(line.startswith("millrace.yaml:") for line in done.stderr.splitlines()), done.stderr
    assert ":8: " in done.stderr or ":9: " in done.stderr, done.stderr


def test_every_mistake_is_told_at_once(check):
    done = check(GOOD + "worker: 1\ndrain: 1s\nlog: {levl: info}\n")
    assert [line.split(":")[1] for line in done.stderr.splitlines()] == ["8", "9", "10"]


def test_a_kafka_property_that_does_not_exist(check):
    done = check(GOOD.replace("{bootstrap", "{properties: {sasl.usrname: x}, bootstrap"))
    assert done.returncode == 1 and "sasl.usrname" in done.stderr


@pytest.mark.parametrize("name", ["enable.idempotence", "acks", "partitioner", "message.timeout.ms"])
def test_a_kafka_property_on_which_a_promise_rests(check, name):
    done = check(GOOD.replace("{bootstrap", f"{{properties: {{{name}: 1}}, bootstrap"))
    assert done.returncode == 1 and name in done.stderr


def test_secrets_are_looked_up_unless_told_otherwise(check):
    text = GOOD.replace("password: secret", "password: 'file:/nowhere/at/all'")
    done = check(text)
    assert done.returncode == 1 and "/nowhere/at/all" in done.stderr
    assert check(text, "--no-secrets").returncode == 0


def test_a_file_that_is_not_there(tmp_path):
    done = run_command("check", "-c", tmp_path / "none.yaml")
    assert done.returncode == 1 and "none.yaml" in done.stderr


def test_settings_of_the_command_line_outrank_the_file(check):
    assert check(GOOD.replace("1883", "nonsense"), "--set", "listeners[0].mqtt=0.0.0.0:1884").returncode == 0
    done = check(GOOD, "--set", "limits.receive_maxmum=1")
    assert done.returncode == 1 and "receive_maximum" in done.stderr


@pytest.mark.parametrize("arguments", [[], ["serv"], ["serve"], ["serve", "--bogus"], ["check", "-c"],
                                       ["serve", "--dev", "-c", "x"], ["serve", "--dev", "--mqtt", "nowhere"]])
def test_a_wrong_command_line_is_refused(arguments):
    done = run_command(*arguments)
    assert done.returncode not in (0, None) and done.returncode < 126 and done.stderr and not done.stdout


def test_help_and_version():
    done = run_command("--version")
    assert done.returncode == 0 and done.stdout.startswith("millrace 0.")
    for arguments in (["--help"], ["serve", "--help"], ["check", "--help"]):
        done = run_command(*arguments)
        assert done.returncode == 0 and done.stdout.startswith("Usage: millrace") and not done.stderr
