"""The player under pytest: one test for each of the project's own cases and one for each mode of the packet sequences.

    .cache/venv/bin/python -m pytest tests/conformance

`meson test conformance` runs player.py itself, which counts every packet sequence.
"""
import pytest

import case
import player


@pytest.fixture(scope="session")
def case_results():
    return {result.name: result for result in player.play_cases()}


@pytest.fixture(scope="session")
def verdicts():
    played = player.play_sequences()
    if played is None:
        pytest.skip("not run: $MILLRACE_TEST_DATA has no packet sequences")
    return played


@pytest.mark.parametrize("name", [case.title(which) for which in case.ALL])
def test_case(name, case_results):
    assert case_results[name].failure is None


@pytest.mark.parametrize("mode", ["relaxed", "strict"])
def test_packet_sequences_fail_only_as_expected(mode, verdicts):
    results = getattr(player.Expected(), f"judge_{mode}")(verdicts)
    assert [result for result in results if not result.is_expected] == []
