"""Whatever is sent: the right status, a message, and a service that goes on; all against one process, one after the
other, with an ordinary request after each."""

import contextlib
import json
import socket
import threading
import time

import pytest

from .conftest import Served, wait_until

POST = b"POST /v1/predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
GOOD = b'{"texts":["good film"]}'


@pytest.fixture(scope="module")
def service(runs):
    served = Served(runs["single"], "--timeout", "20")
    yield served
    assert served.end() == 0
    assert [line for line in served.errors if "Traceback" in line or "rror" in line] == []


@pytest.fixture(autouse=True)
def _still_alive(service):
    yield
    assert service.predict("good film")[0] == 200
    counts = service.counts()
    assert not [name for name, value in counts.items() if 'status="5' in name and value]


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1]) if answer else 0


def sized(body: bytes, headers: bytes = POST) -> bytes:
    return headers + b"Content-Length: %d\r\nConnection: close\r\n\r\n" % len(body) + body


def test_a_body_of_50_megabytes_is_refused_before_it_is_read(service):
    before = service.counts()["pocketbert_memory_bytes"]
    answer = service.raw(POST + b"Content-Length: 50000000\r\n\r\n" + b"x" * 100_000)
    assert status_of(answer) == 413
    assert b"at most 2,000,000 bytes" in answer
    assert service.counts()["pocketbert_memory_bytes"] < before + 20_000_000


def test_a_body_of_50_megabytes_that_does_not_say_so_is_refused_on_the_way(service):
    part = b"%x\r\n" % 1_000_000 + b" " * 1_000_000 + b"\r\n"
    with socket.create_connection(("127.0.0.1", service.port), timeout=15) as connection:
        connection.sendall(POST + b"Transfer-Encoding: chunked\r\n\r\n")
        sent = 0
        try:
            for _ in range(50):
                connection.sendall(part)
                sent += 1
        except (ConnectionResetError, BrokenPipeError):
            pass
        assert sent < 50


def test_a_hundred_thousand_texts_are_refused(service):
    status, body = service.predict(*["a"] * 100_000)
    assert status == 422
    assert "at most 1,000" in body["error"]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b'{"texts":["\xff\xfe"]}', "invalid UTF-8"),
        (b'{"texts":["\\ud800"]}', "half a character"),
        (b'{"texts":["\\udc00 film"]}', "the other half"),
        (b"[" * 100_000, "nested and unfinished"),
        (b'{"texts":' + b"[" * 50_000 + b"]" * 50_000 + b"}", "nested"),
        (b'{"texts":' + b'{"a":' * 50_000 + b"1" + b"}" * 50_001, "nested objects"),
        (b"", "nothing"),
        (b"null", "null"),
        (b'{"texts":"one text"}', "no list"),
        (b'{"texts":[1]}', "a number"),
        (b'{"texts":[null]}', "null in it"),
        (b'{"texts":[["a"]]}', "half a pair"),
        (b'{"texts":[["a","b","c"]]}', "three"),
        (b'{"texts":["a"],"modle":"x"}', "an unknown field"),
        (b'{"texts":["a"],"model":7}', "a name that is none"),
        (b'{"texts":["a"]' + b" " * 1_000_000, "unfinished"),
        (b'{"texts":[' + b"9" * 100_000 + b"]}", "a number without end"),
        (b'{"texts":[NaN]}', "not JSON"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_no_request_is_422_with_a_message(service, body, why):
    answer = service.raw(sized(body))
    assert status_of(answer) == 422, answer[:300]
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]


@pytest.mark.parametrize(
    "text",
    [
        "a\0b good\0",
        "\u202eسلام عليكم\u202c good",
        "שלום עולם",
        "x" * 10_000,
        "x" * 10_000 + " good " + "y" * 10_000,
        "\U0001f600 good \U0001f468\u200d\U0001f469\u200d\U0001f467",
        "\ufffe\uffff good",
        "good " * 50_000,
        "e" + "\u0301" * 5_000,
        "<script>alert(1)</script>",
    ],
    ids=["nul", "arabic", "hebrew", "long word", "long words", "emoji", "noncharacters", "long", "accents", "html"],
)
def test_every_text_that_is_one_has_a_prediction(service, text):
    status, body = service.predict(text)
    assert status == 200
    assert body["predictions"][0]["label"] in ("no", "yes")


def test_headers_that_never_end_and_bodies_that_trickle_are_ended_while_others_are_answered(runs):
    served = Served(runs["words"])
    connections = []
    try:
        for number in range(150):
            connection = socket.create_connection(("127.0.0.1", served.port), timeout=30)
            connection.sendall(POST if number % 2 else POST + b"Content-Length: 100\r\n\r\n{")
            connections.append(connection)
        until, asked = time.monotonic() + 14, 0
        while time.monotonic() < until:
            assert served.predict("good")[0] == 200
            asked += 1
            for connection in connections[:20]:
                with contextlib.suppress(OSError):
                    connection.sendall(b"X" if asked % 5 == 0 else b"")
            time.sleep(0.2)
        statuses = []
        for connection in connections:
            connection.settimeout(5)
            try:
                statuses.append(status_of(connection.recv(65_536)))
            except ConnectionResetError:
                statuses.append(0)
        assert set(statuses) <= {408, 0, 400}
        assert statuses.count(408) > 100
        assert served.counts()["pocketbert_requests_in_progress"] == 1
    finally:
        for connection in connections:
            connection.close()
        assert served.end() == 0


def test_a_half_closed_connection_gets_its_answer(service):
    answer = service.raw(POST + b"Content-Length: %d\r\n\r\n" % len(GOOD) + GOOD, half_close=True)
    assert status_of(answer) == 200
    assert b'"label"' in answer


def test_half_a_body_and_then_nothing_is_no_request(service):
    assert service.raw(POST + b"Content-Length: 1000\r\n\r\n{", half_close=True) == b""
    for _ in range(30):  # gone without a word
        connection = socket.create_connection(("127.0.0.1", service.port))
        connection.sendall(POST + b"Content-Length: 1000\r\n\r\n{")
        connection.close()
    wait_until(lambda: service.counts()["pocketbert_requests_in_progress"] == 1)


def test_headers_without_end_are_431_and_what_is_no_http_is_400(service):
    assert status_of(service.raw(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n" + b"X-A: " + b"a" * 200_000)) in (400, 431)
    assert status_of(service.raw(b"\x16\x03\x01\x02\x00 hello\r\n\r\n")) == 400
    assert status_of(service.raw(b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n")) in (400, 421)


def test_two_requests_at_once_on_a_connection_are_answered_in_order(service):
    one = POST + b"Content-Length: %d\r\n\r\n" % len(GOOD) + GOOD
    answer = service.raw(one + sized(b'{"texts":["bad film","x"]}'))
    assert answer.count(b"HTTP/1.1 200 OK") == 2
    first, second = (json.loads(part.partition(b"\r\n\r\n")[2]) for part in answer.split(b"HTTP/1.1 200 OK")[1:])
    assert (len(first["predictions"]), len(second["predictions"])) == (1, 2)


def test_wrong_methods_and_paths(service):
    assert service.ask("GET", "/v1/predict")[0] == 405
    assert service.ask("PUT", "/v1/predict", {})[0] == 405
    assert service.ask("GET", "/nosuch")[:2] == (404, {"error": "nothing of that name here"})
    assert service.ask("HEAD", "/healthz")[0] in (200, 405)
    assert service.ask("POST", "/v1/predict", b"texts=a", Content_Type="application/x-www-form-urlencoded")[0] == 415


def test_what_is_not_done_in_time_is_504_and_does_not_keep_others_waiting(runs):
    served = Served(runs["single"], "--timeout", "0.1", "--batch-tokens", "128", "--queue-seconds", "100")
    try:
        status, body = served.predict(*["good film " * 100] * 1_000)
        assert status == 504
        assert "within 0.1 s" in body["error"]
        wait_until(lambda: served.counts()["pocketbert_queue_tokens"] == 0 and served.predict("good")[0] == 200)
    finally:
        served.end()


def test_more_than_can_be_done_is_refused_at_once_with_when_to_return(runs):
    served = Served(runs["single"], "--queue-seconds", "0.01", "--batch-tokens", "128")
    texts = ["good film " * 60] * 60
    seen: list[tuple[int, dict]] = []

    def client() -> None:
        for _ in range(4):
            status, _, headers = served.ask("POST", "/v1/predict", {"texts": texts}, timeout=60)
            seen.append((status, headers))

    try:
        clients = [threading.Thread(target=client) for _ in range(8)]
        for one in clients:
            one.start()
        for one in clients:
            one.join()
        assert {status for status, _ in seen} == {200, 429}
        refused = [headers for status, headers in seen if status == 429]
        assert all(int(headers["retry-after"]) >= 1 for headers in refused)
        assert served.predict("good")[0] == 200
    finally:
        assert served.end() == 0


def test_no_text_is_logged(runs):
    served = Served(runs["single"])
    secret = "zebra-in-the-attic"
    try:
        served.predict(secret)
        served.predict([secret, secret])
        served.raw(sized(b'{"texts":["%s\\ud800"]}' % secret.encode()))
        served.raw(sized(b"{%s" % secret.encode()))
        served.ask("GET", f"/{secret}")
        served.ask("POST", "/v1/explain", {"text": secret})
    finally:
        served.end()
    assert secret not in "".join(served.errors)
