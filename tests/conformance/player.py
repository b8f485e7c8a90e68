#!/usr/bin/env python3
"""Plays packets against the server and says what it answered wrongly.

  tests/conformance/player.py [--all] [TEXT]

  TEXT    only cases and groups in whose name it occurs; then nothing is compared with expected.yaml
  --all   print every failure, expected or not

The server is $MILLRACE, or build/millrace. Two sets are played, each on a fresh server:

  - the project's own cases (cases/), each named by a statement of the specification;
  - the packet sequences in $MILLRACE_TEST_DATA/mqtt-packet-sequences, if there are any, judged strictly and relaxed
    (sequences.py says what that means).

What is known not to agree stands in expected.yaml with its reason. A failure that is not there fails the run, and so does one
that is there and did not happen. The last line is `N passed, N failed`, where an expected failure counts as passed.
"""
import argparse
import asyncio
import contextlib
import os
import sys
from collections import Counter, namedtuple
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import case  # noqa: E402
import cases  # noqa: E402, F401
import sequences  # noqa: E402
from server import serve  # noqa: E402

FOLDER = Path(__file__).resolve().parent
SERVERS = {"plain": (), "keep-alive": ("limits.keep_alive_maximum=1s",)}

# One row of the report. `failure` is what went wrong, None if nothing; `is_expected` whether expected.yaml agrees with that.
Result = namedtuple("Result", "name failure is_expected")


def play_cases():
    """The results of the project's own cases."""
    with contextlib.ExitStack() as servers:
        addresses = {name: servers.enter_context(serve(*settings)) for name, settings in SERVERS.items()}
        played = asyncio.run(case.play_all(addresses))
    return [Result(case.title(which), failure, failure is None) for which, failure in played]


def sequences_folder():
    """Where the packet sequences are, or None."""
    data = os.environ.get("MILLRACE_TEST_DATA")
    folder = Path(data) / "mqtt-packet-sequences" if data else None
    return folder if folder and folder.is_dir() else None


def play_sequences():
    """The verdicts, see sequences.py; None: not run."""
    folder = sequences_folder()
    if not folder:
        return None
    with serve() as address:
        return asyncio.run(sequences.play_all(folder, address))


def full_name(verdict):
    return f"{verdict.file} / {verdict.group} / {verdict.name}"


class Expected:
    """expected.yaml. Failures in relaxed mode are listed one by one; those that are only strict, by what was wanted and what
    came, with their number in each file."""

    def __init__(self):
        import yaml  # only where there are packet sequences, so that the own cases need nothing but Python

        table = yaml.safe_load((FOLDER / "expected.yaml").read_text())
        self.relaxed = {test for entry in table["relaxed"] for test in entry["tests"]}
        self.strict = table["strict"]

    def rule(self, failure):
        """The strict rule that a failure falls under, or None."""
        for rule in self.strict:
            if failure.startswith(f"wanted {rule['wanted']}") and f", got {rule['got']}" in failure:
                return rule
        return None

    def judge_relaxed(self, verdicts):
        """A result for each test, and one for each listed test that does not exist."""
        names = set()
        for verdict in verdicts:
            name = full_name(verdict)
            names.add(name)
            yield Result(f"{name} (relaxed)", verdict.relaxed, (verdict.relaxed is not None) == (name in self.relaxed))
        for name in sorted(self.relaxed - names):
            yield Result(f"{name} (relaxed)", "is in expected.yaml, but no such test was played", False)

    def judge_strict(self, verdicts):
        """A result for each test that passed relaxed and falls under no rule, and one for each file of each rule."""
        seen = Counter()
        for verdict in verdicts:
            rule = verdict.strict and not verdict.relaxed and self.rule(verdict.strict)
            if rule:
                seen[id(rule), verdict.file] += 1
            elif not verdict.relaxed:
                yield Result(f"{full_name(verdict)} (strict)", verdict.strict, verdict.strict is None)
        for rule in self.strict:
            for file in sorted(set(rule["counts"]) | {file for key, file in seen if key == id(rule)}):
                wanted, got = rule["counts"].get(file, 0), seen[id(rule), file]
                name = f"{file} (strict): {rule['got']} for {rule['wanted']}"
                yield Result(name, f"{got} times, expected {wanted} times", got == wanted)


def print_table(verdicts):
    """Counts by type of packet and version."""
    rows = {}
    for verdict in verdicts:
        row = rows.setdefault((verdict.file, verdict.ver), Counter())
        row["played"] += 1
        row["relaxed"] += verdict.relaxed is None
        row["strict"] += verdict.strict is None
    total = sum(rows.values(), Counter())
    print(f"{'packet':<16} {'version':<8} {'played':>7} {'relaxed':>8} {'failed':>7} {'strict':>7} {'failed':>7}")
    for (file, ver), row in [*rows.items(), (("all", None), total)]:
        print(f"{file:<16} {case.VERSION_NAMES.get(ver, ''):<8} {row['played']:>7} {row['relaxed']:>8} "
              f"{row['played'] - row['relaxed']:>7} {row['strict']:>7} {row['played'] - row['strict']:>7}")


def report(results, shows_all):
    """Prints what did not go as expected; (passed, failed)."""
    for result in results:
        if not result.is_expected:
            print(f"FAILED {result.name}: {result.failure or 'passed, though expected.yaml says that it fails'}")
        elif shows_all and result.failure:
            print(f"as expected: {result.name}: {result.failure}")
    failed = sum(not result.is_expected for result in results)
    return len(results) - failed, failed


def choose(text):
    """Leaves only what has the text in its name."""
    case.ALL[:] = [which for which in case.ALL if text in case.title(which)]
    load_all = sequences.load

    def load_some(folder):
        for file, group, tests in load_all(folder):
            yield file, group, [test for test in tests if text in f"{file} / {group} / {test['name']}"]

    sequences.load = load_some


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("text", nargs="?")
    args = parser.parse_args()

    if args.text:
        choose(args.text)
    results = play_cases()
    verdicts = play_sequences()
    if verdicts is None:
        print("packet sequences: not run ($MILLRACE_TEST_DATA has none)")
    else:
        print_table(verdicts)
        if args.text:
            results += [Result(full_name(v), v.relaxed or v.strict, v.relaxed is None) for v in verdicts]
        else:
            expected = Expected()
            results += [*expected.judge_relaxed(verdicts), *expected.judge_strict(verdicts)]
    passed, failed = report(results, args.all or args.text)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
