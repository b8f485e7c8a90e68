"""A consumer group that instances share: the cases of tests/integration/kafka_group_test.c, on a real Kafka."""
import os
import re
import subprocess
from pathlib import Path

import pytest

from lib.server import MILLRACE

NAME = "tests/integration/kafka_group_test"
SOURCE = Path(__file__).resolve().parents[1] / "integration" / "kafka_group_test.c"
CASES = re.findall(r"cmocka_unit_test\((\w+)\)", SOURCE.read_text())


@pytest.fixture(scope="module")
def program():
    """It is no part of what is installed, so nobody has built it yet."""
    build = Path(MILLRACE).parent
    done = subprocess.run(["ninja", "-C", build, NAME], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    return build / NAME


@pytest.mark.parametrize("case", CASES)
def test_a_shared_group(kafka, program, case):
    # A handle that librdkafka does not end, because a topic was deleted, is left with its threads.
    tsan = f"{os.environ.get('TSAN_OPTIONS', '')} report_thread_leaks=0"
    done = subprocess.run([program, case], env=os.environ | {"MILLRACE_TEST_KAFKA": kafka.bootstrap, "TSAN_OPTIONS": tsan},
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"[       OK ] {case}" in done.stdout + done.stderr
