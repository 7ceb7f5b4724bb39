"""No way in: tokens, origins, host names, paths; and texts that are HTML stay texts."""

import subprocess
import sys

import pytest

from .conftest import Served

TOKEN = "a-token-of-enough-length"
PREDICT = {"texts": ["good film"]}


@pytest.fixture(scope="module")
def guarded(runs, tmp_path_factory):
    path = tmp_path_factory.mktemp("token") / "token"
    path.write_text(TOKEN + "\n", encoding="utf-8")
    served = Served(runs["words"], "--token-file", path)
    yield served
    assert served.end() == 0
    assert TOKEN not in "".join(served.errors)


@pytest.mark.parametrize(
    "shown",
    ["", "Bearer", "Bearer ", TOKEN, f"Basic {TOKEN}", f"Bearer {TOKEN[:-1]}", f"Bearer {TOKEN}x", "Bearer \xff\xfe"],
)
@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/v1/predict"), ("GET", "/v1/models"), ("GET", "/metrics"), ("GET", "/openapi.json")]
)
def test_a_wrong_or_missing_token_is_401(guarded, method, path, shown):
    headers = {"Authorization": shown} if shown else {}
    status, body, answered = guarded.ask(method, path, PREDICT if method == "POST" else None, **headers)
    assert status == 401
    assert "Bearer" in body["error"]
    assert answered["www-authenticate"] == "Bearer"


def test_the_right_token_opens_and_the_page_and_health_need_none(guarded):
    assert guarded.ask("POST", "/v1/predict", PREDICT, Authorization=f"Bearer {TOKEN}")[0] == 200
    assert guarded.ask("POST", "/v1/predict", PREDICT, Authorization=f"bearer  {TOKEN} ")[0] == 200
    for path in ("/", "/healthz", "/readyz", "/page/page.js"):
        assert guarded.ask("GET", path)[0] == 200


@pytest.mark.parametrize(
    "path", ["/v1/predict/", "//v1/models", "/v1//models", "/page/../v1/models", "/page/..%2fv1/models"]
)
def test_no_spelling_of_a_path_goes_around_the_token(guarded, path):
    status, body, _ = guarded.ask("GET", path)
    assert status in (401, 404)
    assert "models" not in body


def test_a_token_that_is_short_or_missing_from_its_file_is_refused_at_the_start(runs, tmp_path):
    short = tmp_path / "short"
    short.write_text("abc")
    for path, expected in ((short, "too short"), (tmp_path / "nosuch", "cannot be read")):
        command = [
            sys.executable,
            "-m",
            "pocketbert",
            "serve",
            str(runs["words"]),
            "--port",
            "0",
            "--token-file",
            str(path),
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == 2
        assert expected in done.stderr


@pytest.mark.parametrize(
    "path",
    [
        "/page/../../../../etc/passwd",
        "/page/..%2f..%2f..%2f..%2fetc%2fpasswd",
        "/page/%2e%2e/app.py",
        "/page/app.py",
        "/page/%00",
        "/page//etc/passwd",
        "/reports/..%2f..%2fstudy.json",
        "/reports/../../../../etc/passwd",
        "/reports/%2fetc%2fpasswd",
        "/reports/single",
        "/etc/passwd",
        "/..%5c..%5cetc",
    ],
)
def test_no_path_leads_out_of_the_page(service, path):
    status, body, _ = service.ask("GET", path)
    assert status == 404
    assert set(body) == {"error"}


@pytest.mark.parametrize(
    "name", ["../single", "/etc/passwd", "single/../words", "..", "", "single\0", "/", "SINGLE", "a" * 10_000]
)
def test_a_model_is_one_of_the_names_and_never_a_path(service, name):
    for path, asked in (("/v1/predict", PREDICT), ("/v1/swap", {"text": "she"}), ("/v1/explain", {"text": "she"})):
        status, body, _ = service.ask("POST", path, {**asked, "model": name})
        assert status == 404
        assert body["error"] == "no model of that name; there are: single, words, pairs, frozen"


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://elsewhere.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "http://127.0.0.1.elsewhere.example"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ],
)
def test_a_page_of_another_origin_may_not_post(service, headers):
    status, body, answered = service.ask("POST", "/v1/predict", PREDICT, **headers)
    assert status == 403
    assert "origin" in body["error"]
    assert not any(name.lower().startswith("access-control") for name in answered)


def test_the_own_page_may_post_and_no_preflight_is_granted(service):
    assert service.ask("POST", "/v1/predict", PREDICT, Origin=service.url, Sec_Fetch_Site="same-origin")[0] == 200
    asked = {"Origin": "http://elsewhere.example", "Access_Control_Request_Method": "POST"}
    status, _, answered = service.ask("OPTIONS", "/v1/predict", **asked)
    assert status == 405
    assert not any(name.lower().startswith("access-control") for name in answered)
    # What a form or a script can send without a preflight is no JSON by its type.
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        assert service.ask("POST", "/v1/predict", PREDICT, Content_Type=kind)[0] == 415


@pytest.mark.parametrize(
    "host", ["elsewhere.example", "127.0.0.1.elsewhere.example", "elsewhere.example:80", "[::2]", ""]
)
def test_a_name_that_a_stranger_gave_our_address_is_421(service, host):
    assert service.ask("GET", "/v1/models", Host=host)[0] == 421
    assert service.ask("GET", "/v1/models", Host="localhost:99")[0] == 200


def test_html_in_a_text_comes_back_as_json_that_no_browser_takes_for_a_page(service):
    text = "<img src=x onerror=alert(1)> she </script><script>alert(1)</script>"
    status, body, headers = service.ask("POST", "/v1/swap", {"text": text})
    assert status == 200
    assert body["original"]["text"] == text
    assert headers["content-type"] == "application/json"
    assert headers["x-content-type-options"] == "nosniff"
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    for path in ("/<script>alert(1)</script>", "/page/<b>", "/reports/<b>"):
        status, body, headers = service.ask("GET", path.replace("<", "%3C").replace(">", "%3E"))
        assert (status, headers["content-type"]) == (404, "application/json")
        assert "<" not in str(body)


def test_it_listens_on_loopback_alone_unless_told_and_then_says_who_can_reach_it(service, runs):
    assert service.url.startswith("http://127.0.0.1:")
    open_to_all = Served(runs["words"], "--host", "0.0.0.0")
    try:
        assert open_to_all.ask("GET", "/healthz", Host="any.example")[0] == 200
    finally:
        assert open_to_all.end() == 0
    assert any("set a token" in line for line in open_to_all.errors)
