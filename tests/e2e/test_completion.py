"""`millrace completion`: what the shells offer at the keyboard."""
import os
import subprocess

import pytest

from lib.server import MILLRACE
from lib.wait import HANG_S

COMMANDS = {"serve", "check", "explain", "fanout", "command", "events", "tenant", "device", "credentials", "import", "completion"}


@pytest.fixture
def folder(tmp_path):
    for name in ("config.yaml", "a file", "passwd"):
        (tmp_path / name).touch()
    (tmp_path / "data").mkdir()
    return tmp_path


def run(shell, script, folder, **options):
    environment = {"PATH": f"{os.path.dirname(os.path.abspath(MILLRACE))}:{os.environ['PATH']}", "HOME": str(folder), "TERM": "dumb"}
    done = subprocess.run([shell, *script], cwd=folder, env=environment, capture_output=True, text=True, timeout=HANG_S, **options)
    assert done.returncode == 0 and not done.stderr, done.stdout + done.stderr
    return done.stdout.splitlines()


def bash(words, folder):
    """What bash offers for the last word; `=` is a word of its own there."""
    quoted = " ".join(f"'{word}'" for word in words)
    return run("bash", ["--norc", "-c", f"source <(millrace completion bash); COMP_WORDS=(millrace {quoted}); "
                        f"COMP_CWORD={len(words)}; _millrace; printf '%s\\n' \"${{COMPREPLY[@]}}\""], folder)


def fish(words, folder):
    line = " ".join(["millrace", *words]).replace(" = ", "=").replace(" =", "=")
    offered = run("fish", ["--no-config", "-c", f"millrace completion fish | source; complete -C '{line}'"], folder)
    return [word.split("\t")[0] for word in offered]


# zsh completes at a terminal only: when it edits a line, that is typed, then Tab, then what ends the shell and keeps the line.
ZSHRC = """
autoload -U compinit; compinit -u -D
source <(millrace completion zsh)
finish() { print -r -- "$BUFFER" >line; exit }; zle -N finish; bindkey '^X' finish
zle-line-init() { print -n edits }; zle -N zle-line-init
"""


@pytest.mark.parametrize("typed, completed", [
    ("cre", "credentials "),
    ("tenant li", "tenant list "),
    ("import mo", "import mosquitto "),
    ("import hono pass", "import hono passwd "),
    ("import hono --dr", "import hono --dry-run "),
    ("import mosquitto --acl pass", "import mosquitto --acl passwd "),
    ("fanout w", "fanout write-config "),
    ("fanout pa", "fanout parked "),
    ("fanout parked --tok", "fanout parked --token "),
    ("fanout write-config --fr", "fanout write-config --from "),
    ("fanout --conf", "fanout --config"),
    ("fanout write-config --conf", "fanout write-config --config-dir "),
    ("serve --log-level w", "serve --log-level warn "),
    ("serve --data d", "serve --data data/"),
    ("serve --tenan", "serve --tenan"),
    ("device list acme -o j", "device list acme -o json "),
])
def test_zsh_completes(folder, typed, completed):
    (folder / ".zshrc").write_text(ZSHRC)
    keys = f"millrace {typed}"
    run("zsh", ["-fc", f"zmodload zsh/zpty; zpty z zsh -i; zpty -r -m z line '*edits*'; zpty -w -n z '{keys}'$'\\t\\030'; "
                "while zpty -r z line; do :; done"], folder)
    assert (folder / "line").read_text() == f"millrace {completed}\n"


@pytest.mark.parametrize("complete", [bash, fish])
@pytest.mark.parametrize("words, offered, kept", [
    ([""], COMMANDS, {"write-config"}),
    (["cre"], {"credentials"}, {"serve"}),
    (["device", ""], {"create", "get", "update", "delete", "list", "import", "export"}, {"mosquitto"}),
    (["tenant", "li"], {"list"}, {"create"}),
    (["import", ""], {"mosquitto", "hono"}, {"create"}),
    (["completion", ""], {"bash", "zsh", "fish"}, {"serve"}),
    (["fanout", "w"], {"write-config"}, {"--listen"}),
    (["explain", ""], {"publish"}, set()),
    (["serve", "--l"], {"--log-level"}, {"--listen", "--limit"}),
    (["serve", "--"], {"--config", "--dev", "--mqtt", "--help"}, {"--tenant", "--print-docs"}),
    (["import", "hono", "--"], {"--tenant", "--dry-run", "--update", "--api"}, {"--body", "--config"}),
    (["fanout", "write-config", "--"], {"--from", "--config-dir"}, {"--kafka"}),
    (["device", "list", "acme", "-o", ""], {"text", "json"}, {"list", "passwd"}),
    (["serve", "--log-level", "w"], {"warn"}, {"error"}),
    (["serve", "-c", "con"], {"config.yaml"}, {"passwd"}),
    (["serve", "--mqtt", ""], set(), {"passwd", "--dev", "serve"}),
    (["import", "hono", "pass"], {"passwd"}, {"config.yaml"}),
    (["import", "mosquitto", "--acl", "pass"], {"passwd"}, {"config.yaml"}),
    (["device", "get", ""], set(), {"create", "passwd"}),
])
def test_shells_offer_what_fits(folder, complete, words, offered, kept):
    found = {word.strip() for word in complete(words, folder)}
    assert offered <= found and not kept & found, found


def test_bash_completes_values_behind_an_equals_sign_and_names_with_spaces(folder):
    assert bash(["device", "list", "--output", "=", ""], folder) == ["text", "json"]
    assert bash(["device", "list", "--output", "=", "j"], folder) == ["json"]
    assert bash(["device", "list", "--output", "="], folder) == ["text", "json"]
    assert bash(["serve", "--config", "=", "a"], folder) == ["a file"]
    assert bash(["serve", "--data", "d"], folder) == ["data"]


def test_other_shells_are_refused(folder):
    done = subprocess.run([MILLRACE, "completion", "csh"], capture_output=True, text=True, timeout=HANG_S)
    assert done.returncode == 2 and "bash, zsh or fish" in done.stderr and not done.stdout
