"""A WSGI server with two visitors: what an agent fetches is told to the drain, what a person fetches is not."""

import http.client
import os
import sys
import threading
import wsgiref.simple_server

sys.path.insert(0, os.environ["EDGE"])
from middleware import ContentTelemetry  # noqa: E402


def page(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/html"), ("Content-Length", "4")])
    return [b"page"]


class Quiet(wsgiref.simple_server.WSGIRequestHandler):
    def log_message(self, *_):
        pass


telemetry = ContentTelemetry(page, os.environ["DRAIN_URL"], os.environ["DRAIN_KEY"], every=0.05)
server = wsgiref.simple_server.make_server("127.0.0.1", 0, telemetry, handler_class=Quiet)
threading.Thread(target=server.serve_forever, daemon=True).start()
for path, agent in [("/python/1", "ClaudeBot/1.0"), ("/python/2", "Mozilla/5.0 (X11; Linux x86_64) Firefox/130.0")]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port)
    connection.request("GET", path, headers={"Host": "www.example.com", "User-Agent": agent})
    assert connection.getresponse().read() == b"page"
telemetry.close()
server.shutdown()
