"""A WSGI server with two visitors: the agent's fetches are reported to the drain, the person's are not."""

import http.client
import os
import sys
import threading
import wsgiref.simple_server

sys.path.insert(0, os.environ["EDGE"])
from middleware import ContentTelemetry, Site  # noqa: E402

# Also fetched from the Node.js server. Counts as one retrieval.
SHARED = [("/caf%C3%A9", "0195f3a0-0000-7000-8000-00000000cafe"), ("/c%23", "0195f3a0-0000-7000-8000-0000000000c5")]


def page(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/html"), ("Content-Length", "4")])
    return [b"page"]


class Quiet(wsgiref.simple_server.WSGIRequestHandler):
    def log_message(self, *_):
        pass


telemetry = ContentTelemetry(page, os.environ["DRAIN_URL"], os.environ["DRAIN_KEY"], every=0.05)
server = wsgiref.simple_server.make_server("127.0.0.1", 0, telemetry, handler_class=Quiet)
threading.Thread(target=server.serve_forever, daemon=True).start()
AGENT, PERSON = "ClaudeBot/1.0", "Mozilla/5.0 (X11; Linux x86_64) Firefox/130.0"
SIGNED = {"Signature-Agent": '"https://chatgpt.com"'}
for path, agent, more in [
    *((path, AGENT, {"Content-Telemetry-ID": shared}) for path, shared in SHARED),
    ("/python/2", PERSON, {}),
    ("/python/3", PERSON, SIGNED),
    ("/python/1", AGENT, {}),
]:
    headers = {"Host": "www.example.com", "User-Agent": agent, **more}
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port)
    connection.request("GET", path, headers=headers)
    assert connection.getresponse().read() == b"page"
telemetry.close()
server.shutdown()

# A request line from the server is reported unchanged; WSGI's decoded path is escaped again.
for environ, url in [
    ({"RAW_URI": "/a%2Fb?c=%23", "PATH_INFO": "/a/b", "QUERY_STRING": "c=%23"}, "/a%2Fb?c=%23"),
    ({"REQUEST_URI": "/shop/%7Eme", "SCRIPT_NAME": "/shop", "PATH_INFO": "/~me"}, "/shop/%7Eme"),
    ({"SCRIPT_NAME": "/shop", "PATH_INFO": "/caf\u00c3\u00a9", "QUERY_STRING": "q=%C3%A9"}, "/shop/caf%C3%A9?q=%C3%A9"),
    ({"PATH_INFO": "/what?now#100%;a=1,2:@!$&'()*+~"}, "/what%3Fnow%23100%25;a=1,2:@!$&'()*+~"),
]:
    assert Site().request(environ)["url"] == url, (environ, url)

# If the queue is full, the oldest lines are dropped, including those that could not be sent.
full = ContentTelemetry(page, "", "", every=3_600, at_once=2, most=3)
full.waiting.extend(["1", "2", "3"])
full._post = lambda batch: full.waiting.append("4")
full._flush()
assert list(full.waiting) == ["2", "3", "4"], full.waiting
