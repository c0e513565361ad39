"""Visitors who forge every header of a request to a WSGI server, and drains that redirect: lines contain what the server saw, and only
a direct 2xx delivers them."""

import base64
import http.server
import json
import os
import socket
import sys
import threading
import wsgiref.simple_server

sys.path.insert(0, os.environ["EDGE"])
from middleware import ContentTelemetry, Site  # noqa: E402

BOT = "Mozilla/5.0 (compatible; GPTBot/1.2; +https://openai.com/gptbot)"
HOST, ADDRESS, FORGED_ADDRESS = "www.example.com", "203.0.113.9", "132.196.86.7"
OTHER_ID = "0195f3a0-0000-7000-8000-0000000000ff"
SECRET = "private-7f1c"
FORGED = {
    "X-Forwarded-For": FORGED_ADDRESS,
    "X-Real-IP": FORGED_ADDRESS,
    "Forwarded": f"for={FORGED_ADDRESS};host=victim.example;proto=gopher",
    "X-Forwarded-Host": "victim.example",
    "X-Forwarded-Proto": "gopher",
    "X-Request-ID": OTHER_ID,
    "Content-Telemetry-ID": OTHER_ID,
    "Signature-Agent": '"https://chatgpt.com"',
    "Signature-Input": 'sig=("@authority");tag="web-bot-auth"',
    "Signature": "sig=:AA==:",
    "Referer": f"https://{SECRET}.example/",
    "Cookie": f"session={SECRET}",
    "Authorization": "Basic " + base64.b64encode(f'a [b] "c" {SECRET}'.encode()).decode(),
    "X-API-Key": SECRET,
}
# One character per byte, as in HTTP.
HOSTILE = [
    "",
    "-",
    '"',
    "\\",
    '"}',
    f'","client_ip":"{FORGED_ADDRESS}","request_id":"{OTHER_ID}","x":"',
    "a\tb",
    "%22%0A%5C",
    OTHER_ID,
    f"{FORGED_ADDRESS}, 10.0.0.1",
    f" {FORGED_ADDRESS} , unix",
    "caf\u00c3\u00a9",
    "\u00ff\u00fe\u0080",
    '"' * 10_000,
    "\u00ff" * 10_000,
    "\u00f0\u009f\u0098\u0080" * 2_500,
]
PATHS = ['/"', "/\\", "/%22%0A%5C", "/x?a=%22&b={}", "/caf\u00c3\u00a9", "/\u00ff\u00fe", "/" + "a" * 10_000, "/" + '"' * 10_000]


def visitors(proxy=""):
    headers = {"User-Agent": BOT, **FORGED}
    found = [("/page?a=b", {**headers, name: f"{BOT} {value}" if name == "User-Agent" else value}) for value in HOSTILE for name in headers]
    found += [(PATHS[-1], {name: f"{BOT} {value}" if name == "User-Agent" else value for name in headers}) for value in HOSTILE]
    found += [(path, headers) for path in PATHS]
    return [(path, {**headers, "X-Forwarded-For": headers["X-Forwarded-For"] + proxy}) for path, headers in found]


class Quiet(wsgiref.simple_server.WSGIRequestHandler):
    def log_message(self, *_):
        pass


def page(environ, start_response):
    # Applications can change the environment.
    environ.update({"HTTP_HOST": "changed.example", "REMOTE_ADDR": "192.0.2.1", "HTTP_USER_AGENT": "changed"})
    start_response("200 OK", [("Content-Type", "text/html"), ("Content-Length", "4")])
    return [b"page"]


def ask(port, path, headers):
    """Sends a request unchanged."""
    fields = "".join(f"{name}: {value}\r\n" for name, value in {"Host": HOST, **headers, "Connection": "close"}.items())
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\n{fields}\r\n".encode("latin-1"))
        response = b""
        while part := connection.recv(65_536):
            response += part
    return int(response.split(b" ")[1])


def is_utf8(binary):
    return binary.encode("latin-1").decode("utf-8", "replace").encode("utf-8").decode("latin-1") == binary


def check(lines, sent, address):
    assert len(lines) == len(sent), (len(lines), len(sent))
    ids = set()
    for line, (path, headers) in zip(lines, sent):
        about = (path[:40], {name: value[:40] for name, value in headers.items()}, line[:400])
        assert len(line.encode()) < 64 * 1024 and "\n" not in line and SECRET not in line, about
        fields = json.loads(line)
        assert fields["request_id"] != OTHER_ID and fields["request_id"] not in ids, about
        ids.add(fields["request_id"])
        expected = {"host": HOST, "scheme": "http", "method": "GET", "status": 200, "bytes": 4, "content_type": "text/html", "client_ip": address}
        assert {name: fields.pop(name) for name in expected} == expected, about
        assert fields.pop("url").startswith("/" if path != "/page?a=b" else "/page?a=b"), about
        user_agent = fields.pop("user_agent")
        seen = headers["User-Agent"].strip()
        assert user_agent.startswith(BOT), about
        assert len(seen) > 512 or not is_utf8(seen) or user_agent == seen.encode("latin-1").decode(), about
        assert (fields.pop("content_telemetry_id") == OTHER_ID) == (headers["Content-Telemetry-ID"] == OTHER_ID), about
        agent = headers["Signature-Agent"].strip()
        assert fields.pop("signature_agent") == agent or len(agent) > 512 or not agent.isascii(), about
        for name in ("Signature-Input", "Signature"):
            signed = headers[name].strip()
            assert fields.pop(name.lower().replace("-", "_")) == signed or len(signed) > 512 or not signed.isascii(), about
        assert set(fields) == {"timestamp", "request_id"}, about


def served(sent, address, **options):
    """Checks the lines of the requests that the server accepts, which must be nearly all."""
    telemetry = ContentTelemetry(page, "", "", every=3_600, **options)
    telemetry._post = lambda batch: lines.extend(batch) or True
    lines = []
    server = wsgiref.simple_server.make_server("127.0.0.1", 0, telemetry, handler_class=Quiet)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    taken = [visitor for visitor in sent if ask(server.server_port, *visitor) == 200]
    telemetry.close()
    server.shutdown()
    server.server_close()
    assert len(taken) >= len(sent) - 6, (len(taken), len(sent))
    check(lines, taken, address)


served(visitors(), "127.0.0.1")
served(visitors(f", {ADDRESS}"), ADDRESS, trusted_proxies=["127.0.0.0/8", "10.0.0.0/8"], drops_underscores=True)
served(visitors(f", {ADDRESS}"), "127.0.0.1", trusted_proxies=["10.0.0.0/8"], drops_underscores=True)
# Proxies forward X_Forwarded_For, and the standard library's server accepts it.
underscored = [(path, {**headers, "X_Forwarded_For": FORGED_ADDRESS}) for path, headers in visitors(f", {ADDRESS}")[:20]]
served(underscored, "", trusted_proxies=["127.0.0.0/8"])

for trusted, peer, forwarded, address in [
    (["127.0.0.1", "10.0.0.0/8"], "127.0.0.1", f"132.196.86.7, {ADDRESS}, 10.1.2.3", ADDRESS),
    (["127.0.0.1"], "::ffff:127.0.0.1", f"132.196.86.7, {ADDRESS}:4711", ADDRESS),
    (["127.0.0.1"], "127.0.0.1", "132.196.86.7, [2001:db8::1]:443", "2001:db8::1"),
    (["127.0.0.1", "2001:db8::/32"], "127.0.0.1", f"{ADDRESS}, 2001:db8::5", ADDRESS),
    (["127.0.0.1"], "127.0.0.1", "132.196.86.7, unknown", ""),
    (["127.0.0.1", "unix"], "127.0.0.1", "132.196.86.7, unix", ""),
    (["127.0.0.1", "unix"], "127.0.0.1", "132.196.86.7, ", ""),
    (["unix"], "", f"132.196.86.7, {ADDRESS}", ADDRESS),
    (["127.0.0.1"], "", "132.196.86.7", ""),
    ([], "127.0.0.1", "132.196.86.7", "127.0.0.1"),
]:
    environ = {"REMOTE_ADDR": peer, "HTTP_X_FORWARDED_FOR": forwarded}
    found = Site(trusted, drops_underscores=True).client_address(environ)
    assert found == address, (trusted, peer, forwarded, found)



def replaced(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/html")])
    try:
        raise ValueError
    except ValueError:
        start_response("503 Service Unavailable", [("Content-Type", "text/plain")], sys.exc_info())
    return [b"error"]


def failing(environ, start_response):
    raise ValueError


def failing_later(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/html")])
    if environ["PATH_INFO"] == "/sent":
        yield b"page"
    raise ValueError


# A line contains the status of the sent response, once.
for application, path, status in [
    (page, "/", 200), (replaced, "/", 503), (failing, "/", 500), (failing_later, "/", 500), (failing_later, "/sent", 200)
]:
    telemetry = ContentTelemetry(application, "", "", every=3_600)
    telemetry._post = lambda batch: told.extend(map(json.loads, batch)) or True
    told, sent = [], []
    environ = {"HTTP_USER_AGENT": BOT, "PATH_INFO": path}
    try:
        body = telemetry(environ, lambda status, headers, exc_info=None: sent.append)
        try:
            b"".join(body)
        finally:
            getattr(body, "close", lambda: None)()
    except ValueError:
        pass
    telemetry.close()
    assert [line["status"] for line in told] == [status], (application, path, told)

environ = {"RAW_URI": "http://victim.example/page?a=b", "HTTP_HOST": "victim.example", "wsgi.url_scheme": "http"}
fields = Site(scheme="https", host="own.example").request(environ)
assert [fields[name] for name in ("scheme", "host", "url")] == ["https", "own.example", "/page?a=b"], fields
assert Site().request({"RAW_URI": "/caf\u00c3\u00a9 \u00ff?q=\u00e9"})["url"] == "/caf%C3%A9%20%FF?q=%E9"


class Drain(http.server.BaseHTTPRequestHandler):
    """Responds with these statuses in order, and records the requests."""

    statuses, received, elsewhere = [], [], ""

    def do_POST(self):
        self.received.append(self.rfile.read(int(self.headers["Content-Length"])).decode().splitlines())
        self.send_response(self.statuses.pop(0) if self.statuses else 200)
        self.send_header("Location", self.elsewhere)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self):
        self.received.append("GET")
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


class Elsewhere(Drain):
    received = []


def listen(handler):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/"


Drain.elsewhere = listen(Elsewhere)
drain = listen(Drain)
for status in [300, 301, 302, 303, 304, 307, 308, 400, 401, 403, 404, 409, 413, 415, 429, 500, 502, 503, 504]:
    Drain.received, Drain.statuses = [], [status]
    telemetry = ContentTelemetry(page, drain, "key-1", every=3_600)
    telemetry.waiting.extend(["1", "2"])
    telemetry._flush()
    assert list(telemetry.waiting) == ["1", "2"], f"status {status} lost the lines"
    telemetry._flush()
    assert not telemetry.waiting and Drain.received == [["1", "2"], ["1", "2"]], (status, Drain.received)
assert Elsewhere.received == [], "a redirect was followed"

# Lines that the service can't parse are not sent again, but later ones are sent.
Drain.received, Drain.statuses = [], [422]
telemetry = ContentTelemetry(page, drain, "key-1", every=3_600, at_once=2)
telemetry.waiting.extend(["bad", "bad", "good"])
telemetry._flush()
assert not telemetry.waiting and Drain.received == [["bad", "bad"], ["good"]], (telemetry.waiting, Drain.received)
