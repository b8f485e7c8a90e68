"""The management interface against its own description, by schemathesis: made-up requests, good and bad, for every operation."""
import hypothesis
import pytest
import schemathesis
from schemathesis.checks import (content_type_conformance, not_a_server_error, response_headers_conformance, response_schema_conformance,
                                 status_code_conformance)

from lib.server import Server

CHECKS = (not_a_server_error, status_code_conformance, content_type_conformance, response_headers_conformance,
          response_schema_conformance)


@pytest.fixture(scope="module")
def schema(tmp_path_factory):
    folder = tmp_path_factory.mktemp("schema")
    server = Server(["--dev", "--mqtt", "127.0.0.1:0", "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--data", folder / "data",
                     "--set", "registry.bcrypt_cost=4"], folder)
    try:
        server.ready()
        yield schemathesis.from_uri(f"http://{server.admin}/v1/openapi.json", base_url=f"http://{server.admin}")
        assert server.stop() == 0, server.log()
        assert "Sanitizer" not in server.log() and "runtime error" not in server.log()
    finally:
        server.close()


described = schemathesis.from_pytest_fixture("schema")


@described.parametrize()
@hypothesis.settings(max_examples=25, deadline=None, derandomize=True, database=None,
                     suppress_health_check=list(hypothesis.HealthCheck))
def test_every_answer_is_as_described(case):
    case.call_and_validate(checks=CHECKS)
