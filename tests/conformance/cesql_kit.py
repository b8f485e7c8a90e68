#!/usr/bin/env python3
"""Evaluates the cases of the CESQL conformance kit and says which disagree.

  tests/conformance/cesql_kit.py PROGRAM

  PROGRAM   cesql_eval.c, built

The kit is cesql/cesql_tck of cloudevents/spec: $MILLRACE_TEST_DATA/cesql_tck. Without it nothing is run, and the exit status says so
(77, `skipped` to Meson). The last line is `N passed, N failed`.
"""
import os
import re
import subprocess
import sys
from pathlib import Path

SKIPPED = 77
# What the kit leaves open: "any valid event can be passed".
ANY_EVENT = {"specversion": "1.0", "id": "any-id", "source": "http://localhost/source", "type": "any.type"}


def hexadecimal(value):
    return str(value).encode().hex()


def typed(value):
    """A value as cesql_eval.c names it: its type and its text."""
    if isinstance(value, bool):
        return "boolean", str(value).lower()
    if isinstance(value, int):
        return "integer", str(value)
    return "string", str(value)


def loader():
    """YAML as the kit means it: a time is a text."""
    import yaml

    class Loader(yaml.SafeLoader):
        pass

    Loader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    return lambda text: yaml.load(text, Loader)


def cases(folder):
    load = loader()
    for path in sorted(folder.glob("*.yaml")):
        for case in load(path.read_text())["tests"]:
            yield path.stem, case


def question(case):
    """What cesql_eval.c is asked for one case."""
    event = case.get("event") or ANY_EVENT | case.get("eventOverrides", {})
    for name, value in event.items():
        kind, text = typed(value)
        yield f"attribute {hexadecimal(name)} {kind} {hexadecimal(text)}"
    yield f"evaluate {hexadecimal(case['expression'])}"


def wanted(case):
    """The error by its name here, and the result, None if the case does not say."""
    error = re.sub("([A-Z])", lambda letter: "_" + letter[0].lower(), case.get("error", "none"))
    return error, case.get("result")


def got(line):
    kind, text, error = line.split(" ")
    value = bytes.fromhex(text).decode() if kind == "string" else int(text)
    return error, bool(value) if kind == "boolean" else value


def agrees(want, have):
    return want[0] == have[0] and (want[1] is None or typed(want[1]) == typed(have[1]))


def main():
    folder = Path(os.environ.get("MILLRACE_TEST_DATA", "")) / "cesql_tck"
    if not os.environ.get("MILLRACE_TEST_DATA") or not folder.is_dir():
        print("CESQL conformance kit: not run ($MILLRACE_TEST_DATA has no cesql_tck)")
        return SKIPPED
    chosen = list(cases(folder))
    text = "".join(line + "\n" for _, case in chosen for line in question(case))
    answers = subprocess.run([sys.argv[1]], input=text, capture_output=True, text=True, check=True).stdout.splitlines()
    failed = 0
    for (file, case), line in zip(chosen, answers, strict=True):
        want, have = wanted(case), got(line)
        if not agrees(want, have):
            failed += 1
            print(f"{file} / {case['name']}: {case['expression']}: wanted {want}, got {have}")
    print(f"{len(chosen) - failed} passed, {failed} failed")
    return 1 if failed or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
