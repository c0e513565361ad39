"""For any WSGI server: what agents fetch from this server is told to POST /drains/ndjson. The standard library is all it needs.

    application = ContentTelemetry(application, url="https://telemetry.example.com/drains/ndjson", key=os.environ["DRAIN_KEY"])

``key`` is that of a drain of the provider ndjson, made with the role "origin". Lines are sent by a thread of their own, so that no
visitor waits; one that could not be sent is sent again, and its request_id makes a repeat of it nothing new.
"""

import collections
import datetime
import http.client
import json
import logging
import re
import threading
import urllib.error
import urllib.parse
import urllib.request
import uuid

# What may be an agent of a machine. Everybody else's requests never leave the server; the service judges by its own table.
MAY_BE_A_BOT = re.compile(
    r"bot|crawl|spider|gpt|claude|anthropic|perplexity|gemini|google(-|other|agent)|meta-|novaact|devin|omgili|webzio|cotoyogi|yandexadditional|-user\b|-agent\b|ai\b",
    re.IGNORECASE,
)

log = logging.getLogger("content_telemetry")


class NoRedirects(urllib.request.HTTPRedirectHandler):
    """Makes a redirect an error: it would send the key to another address, and its final page could pass for the drain's response."""

    def redirect_request(self, *_):
        return None


class ContentTelemetry:
    def __init__(self, application, url, key, every=1.0, at_once=500, most=10_000, timeout=10.0, trust_proxy=False):
        self.application, self.url, self.key = application, url, key
        self.every, self.at_once, self.timeout = every, at_once, timeout
        # What tells a repeat from a new request is not the visitor's to choose, but a proxy's.
        self.trust_proxy = trust_proxy
        self.opener = urllib.request.build_opener(NoRedirects)
        # When more wait, the oldest go: a site must not run out of memory for its log.
        self.waiting = collections.deque(maxlen=most)
        self.closing = threading.Event()
        self.thread = threading.Thread(target=self._run, name="content-telemetry", daemon=True)
        self.thread.start()

    def __call__(self, environ, start_response):
        agent = environ.get("HTTP_USER_AGENT", "")
        if not MAY_BE_A_BOT.search(agent):
            return self.application(environ, start_response)

        def started(status, headers, *rest):
            self.waiting.append(json.dumps(line(environ, status, headers, self.trust_proxy)))
            return start_response(status, headers, *rest)

        return self.application(environ, started)

    def close(self):
        """Sends what is left."""
        self.closing.set()
        self.thread.join(self.timeout)

    def _run(self):
        while not self.closing.wait(self.every):
            self._flush()
        self._flush()

    def _flush(self):
        while self.waiting:
            batch = [self.waiting.popleft() for _ in range(min(self.at_once, len(self.waiting)))]
            outcome = self._post(batch)
            if outcome == "delivered":
                continue
            # A full queue would make room at its other end.
            room = self.waiting.maxlen - len(self.waiting)
            kept = batch[max(len(batch) - room, 0) :]
            if outcome == "unreadable":
                # Lines that the service can't read wait behind the others, or they would hold up every later line.
                self.waiting.extend(kept)
            else:
                self.waiting.extendleft(reversed(kept))
            return

    def _post(self, batch):
        """Sends a batch: "delivered" after a direct 2xx, "unreadable" after 422, "failed" after anything else."""
        body = ("\n".join(batch) + "\n").encode()
        headers = {"Content-Type": "application/x-ndjson", "X-API-Key": self.key}
        try:
            with self.opener.open(urllib.request.Request(self.url, body, headers), timeout=self.timeout):
                return "delivered"
        except urllib.error.HTTPError as error:
            with error:
                log.warning("the drain responded with status %s", error.code)
            return "unreadable" if error.code == 422 else "failed"
        except (OSError, http.client.HTTPException) as error:
            log.warning("the drain did not respond: %s", error)
            return "failed"


def target(environ):
    """The path and the query as they were sent: ``/a%2Fb`` is not the page ``/a/b``, and an agent reports it as it asked for it."""
    sent = environ.get("RAW_URI") or environ.get("REQUEST_URI") or ""
    if sent.startswith(("/", "http://", "https://")):
        return sent
    # Of other servers WSGI has the path without its escapes, each byte as a character.
    path = (environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")).encode("latin-1", "replace")
    query = environ.get("QUERY_STRING", "")
    return urllib.parse.quote(path, safe="/:@!$&'()*+,;=~") + ("?" + query if query else "")


def line(environ, status, headers, trust_proxy=False):
    sent = {name.lower(): value for name, value in headers}
    length = sent.get("content-length", "0")
    return {
        "timestamp": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds"),
        "host": environ.get("HTTP_HOST", environ.get("SERVER_NAME", "")),
        "scheme": environ.get("wsgi.url_scheme", "http"),
        "url": target(environ),
        "method": environ.get("REQUEST_METHOD", ""),
        "user_agent": environ.get("HTTP_USER_AGENT", ""),
        "status": int(status.split(" ", 1)[0]),
        "bytes": int(length) if length.isdigit() else 0,
        "content_type": sent.get("content-type", ""),
        "request_id": (trust_proxy and environ.get("HTTP_X_REQUEST_ID")) or str(uuid.uuid4()),
        "client_ip": environ.get("REMOTE_ADDR", ""),
        "content_telemetry_id": environ.get("HTTP_CONTENT_TELEMETRY_ID", ""),
        "signature_agent": environ.get("HTTP_SIGNATURE_AGENT", ""),
    }
