"""Subscribers of the fan-out that misbehave, byte by byte, and senders that do."""
import json
import socket
import threading
import time

import pytest

from lib.sidecar import channel, event
from lib.wait import HANG_S, until

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
ONCE = {"retry": 0}


def read_request(connection):
    """A whole request, or what came before the end."""
    data = b""
    while b"\r\n\r\n" not in data:
        chunk = connection.recv(65536)
        if not chunk:
            return data
        data += chunk
    head, _, body = data.partition(b"\r\n\r\n")
    length = next((int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0)
    while len(body) < length:
        chunk = connection.recv(65536)
        if not chunk:
            break
        body += chunk
    return head + b"\r\n\r\n" + body


@pytest.fixture
def raw():
    """raw(handle): the URL of a server that gives every connection, in a thread of its own, to handle(connection, number)."""
    servers = []

    def start(handle):
        server = socket.create_server(("127.0.0.1", 0), backlog=64)
        servers.append(server)

        def serve(connection, number):
            with connection:
                connection.settimeout(HANG_S)
                try:
                    handle(connection, number)
                except OSError:
                    pass  # the other side has gone

        def accept():
            number = 0
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                threading.Thread(target=serve, args=(connection, number), daemon=True).start()
                number += 1

        threading.Thread(target=accept, daemon=True).start()
        return "http://127.0.0.1:%d/" % server.getsockname()[1]

    yield start
    for server in servers:
        server.shutdown(socket.SHUT_RDWR)
        server.close()


def answering(*pieces, pause_s=0):
    def handle(connection, number):
        while read_request(connection):
            for piece in pieces:
                connection.sendall(piece)
                time.sleep(pause_s)  # the pieces are to come apart
    return handle


@pytest.mark.parametrize("pieces", [
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"3\r\nabc\r\n", b"0\r\n\r\n"),
    (b"HTTP/1.1 100 Continue\r\n\r\n", OK),
    (b"HTTP/1.1 204 No Content\r\n\r\n",),
    tuple(OK[i:i + 1] for i in range(len(OK))),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", b"ab", b"cde"),
])
def test_an_answer_is_understood_in_whatever_pieces_it_comes(fan, raw, pieces):
    sidecar = fan({"subscriber": raw(answering(*pieces, pause_s=0.001))}, delivery=ONCE)
    for _ in range(3):
        assert sidecar.send().status == 202


def test_an_answer_may_end_with_its_connection(fan, raw):
    def handle(connection, number):
        read_request(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nto the end")

    sidecar = fan({"subscriber": raw(handle)}, delivery=ONCE)
    for _ in range(3):
        assert sidecar.send().status == 202


def closing(connection, number):
    read_request(connection)


def closing_inside(connection, number):
    read_request(connection)
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc")


@pytest.mark.parametrize("handle, reason", [
    (closing, "closed"),
    (closing_inside, "closed"),
    (answering(b"SSH-2.0-OpenSSH_9.2\r\n\r\n"), "protocol"),
    (answering(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"), "protocol"),
    (answering(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n"), "too_large"),
    (answering(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000 + b"\r\n\r\n"), None),
])
def test_what_is_no_answer_is_a_failure_with_its_reason(fan, raw, handle, reason):
    sidecar = fan({"subscriber": raw(handle)}, delivery=ONCE)
    answer = sidecar.send()
    assert answer.status == 500
    failed, = json.loads(answer.body)["failed"]
    assert reason in (None, failed["reason"])
    assert failed["attempts"] == 1


@pytest.mark.parametrize("greeting", [b"SSH-2.0-OpenSSH_9.2", b"220", b"\x00\x00\x12\x04", b"\x15"])
def test_who_speaks_something_else_is_given_up_at_once(fan, raw, greeting):
    """Without a line's end, and with the connection open: not at the attempt's timeout, which is an hour here."""
    ended = threading.Event()

    def handle(connection, number):
        read_request(connection)
        connection.sendall(greeting)
        assert connection.recv(1) == b""
        ended.set()

    sidecar = fan({"subscriber": raw(handle)}, timeout="1h", delivery=ONCE | {"timeout": "1h"})
    answer = sidecar.send()
    assert (answer.status, json.loads(answer.body)["failed"][0]["reason"]) == (500, "protocol")
    assert ended.wait(HANG_S), "the connection was left open"


def test_a_subscriber_that_never_answers_is_given_up_and_asked_again(fan, raw):
    came = []

    def handle(connection, number):
        came.append(read_request(connection))
        if number == 0:
            connection.recv(1)  # until the other side gives up
        else:
            connection.sendall(OK)

    sidecar = fan({"subscriber": raw(handle), "delivery": {"retry": 1, "backoff_delay": "1ms", "timeout": "200ms"}})
    assert sidecar.send().status == 202
    assert len(came) == 2 and came[0] == came[1]


def test_a_name_that_does_not_exist_is_a_failure_with_its_reason(fan):
    answer = fan({"subscriber": "http://subscriber.invalid/", "delivery": ONCE}).send()
    assert answer.status == 500
    assert json.loads(answer.body)["failed"][0]["reason"] == "name"


def test_a_connection_that_was_closed_while_it_rested_fails_no_event(fan, raw):
    """The other side may close a kept connection at any time: no attempt is lost by that."""
    ended = []

    def handle(connection, number):
        read_request(connection)
        connection.sendall(OK)
        connection.shutdown(socket.SHUT_WR)
        connection.recv(1)
        ended.append(number)

    sidecar = fan({"subscriber": raw(handle)}, delivery=ONCE)
    for n in range(1, 20):
        assert sidecar.send().status == 202
    until(lambda: len(ended) == 19, "the connections to be closed from here as well")


def test_a_connection_closed_at_the_next_request_fails_no_event(fan, raw):
    """It closes when the next request has come: whether that was read nobody knows, so this attempt has failed; a retry makes it good."""
    def handle(connection, number):
        read_request(connection)
        connection.sendall(OK)
        read_request(connection)

    sidecar = fan({"subscriber": raw(handle), "delivery": {"retry": 2, "backoff_delay": "1ms"}})
    for _ in range(10):
        assert sidecar.send().status == 202


def test_an_answer_that_comes_before_the_request_is_whole_counts(fan, raw):
    def handle(connection, number):
        connection.recv(1000)
        connection.sendall(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        while connection.recv(65536):
            pass

    answer = fan({"subscriber": raw(handle)}, delivery=ONCE, max_body="8MiB").send(event(), b"x" * 4_000_000)
    assert answer.status == 500
    assert json.loads(answer.body)["failed"][0].get("status") in (413, None)


def test_a_sender_that_goes_away_ends_its_event(fanout, subscriber, raw):
    from lib.subscriber import Answer, Gate
    gate = Gate()
    s = subscriber(gate.hold(Answer(503)))
    sidecar = fanout(channel({"subscriber": s.url, "delivery": {"retry": 100, "backoff_delay": "1ms", "backoff_max": "1ms"}}))
    headers = "".join(f"{name}: {value}\r\n" for name, value in event().items())
    with socket.create_connection(sidecar.fanout) as sender:
        sender.sendall(f"POST /default/c1 HTTP/1.1\r\nHost: x\r\n{headers}Content-Length: 2\r\n\r\n{{}}".encode())
        s.wait(1)
    until(lambda: sidecar.metrics().sum("millrace_fanout_events_dropped_total") == 1 or gate.open(), "the event to be dropped")
    until(lambda: sidecar.metrics().sum("millrace_fanout_deliveries_running") == 0, "the delivery to end")
    assert len(s.requests) < 50, "nobody waits for the retries"


@pytest.mark.parametrize("request_text, status", [
    ("POST /default/c1 HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nContent-Length: 3\r\n", 400),
    ("POST /default/c1 HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n", 400),
    ("POST /default/c1 HTTP/1.1\r\nHost: x\r\nHost: y\r\nContent-Length: 2\r\n", 400),
    ("POST /default/c1 HTTP/1.1\r\nContent-Length: 2\r\n", 400),
    ("POST /default/c1 HTTP/1.1\r\nHost: x\r\nX: a\r\n b\r\nContent-Length: 2\r\n", 400),
])
def test_a_request_that_could_be_read_in_two_ways_is_refused(fan, subscriber, request_text, status):
    s = subscriber()
    sidecar = fan(s.url)
    headers = "".join(f"{name}: {value}\r\n" for name, value in event().items())
    with socket.create_connection(sidecar.fanout, timeout=HANG_S) as sender:
        sender.sendall(f"{request_text}{headers}\r\n{{}}".encode())
        assert sender.recv(65536).startswith(b"HTTP/1.1 %d " % status)
    assert s.requests == []


def test_requests_may_follow_each_other_without_waiting(fan, subscriber):
    s = subscriber()
    sidecar = fan(s.url)
    text = b""
    for n in range(20):
        headers = "".join(f"{name}: {value}\r\n" for name, value in event(id=f"p{n}").items())
        text += f"POST /default/c1 HTTP/1.1\r\nHost: x\r\n{headers}Content-Length: 2\r\n\r\n{{}}".encode()
    with socket.create_connection(sidecar.fanout, timeout=HANG_S) as sender:
        sender.sendall(text)
        answers = b""
        while answers.count(b"HTTP/1.1 202 ") < 20:
            chunk = sender.recv(65536)
            assert chunk, answers
            answers += chunk
    assert sorted(s.ids()) == sorted(f"p{n}" for n in range(20))
