"""For any WSGI server: reports what agents fetch from this server to POST /drains/ndjson. Needs only the standard library.

    application = ContentTelemetry(application, url="https://telemetry.example.com/drains/ndjson", key=os.environ["DRAIN_KEY"])

``key`` is the key of an ndjson drain with the role "origin". Behind proxies of your own, also pass:

    trusted_proxies=["10.0.0.0/8", "unix"]    # their addresses and networks; "unix" if they connect through a socket file
    drops_underscores=True                    # if they, or your WSGI server, drop headers with an underscore in the name
    scheme="https"                            # if they terminate TLS
    host="www.example.com"                    # if they change the Host header

Each proxy must append the address it sees to X-Forwarded-For. Without drops_underscores, that header is ignored: in WSGI, it looks
like X_Forwarded_For, which visitors can send through most proxies. X-Forwarded-Host, X-Forwarded-Proto and X-Request-ID are ignored,
because visitors can send them too. A separate thread sends the lines, so visitors never wait. Lines are sent again after a failure;
their request_id makes repeats harmless. Lines that the service can't parse (422) are dropped and logged.
"""

import collections
import datetime
import http.client
import ipaddress
import json
import logging
import re
import threading
import urllib.error
import urllib.parse
import urllib.request
import uuid

# Matches every user agent that may be a bot. The service has its own table and decides.
MAY_BE_A_BOT = re.compile(
    r"bot|crawl|spider|gpt|claude|anthropic|perplexity|gemini|google(-|other|agent)|meta-|novaact|devin|omgili|webzio|cotoyogi|yandexadditional|-user\b|-agent\b|ai\b|kendra|qbusiness|tabstack|fetcher|autorag|-citations|laion|img2d|lightpanda|buyforme|anomura|modelcontextprotocol|twinagent|aiwebindex|copilotchat|cohere-|imagemind|novellum|semantic-visions|turingos|terra ?cotta|prorata",
    re.IGNORECASE,
)
# Visitors choose these values. Longer ones are truncated, so that no line exceeds the service's limit.
MAX_HEADER = 2_048
MAX_TELEMETRY_ID = 64
MAX_URL = 8_192
# Characters that a request target contains without escapes.
PRINTABLE = "".join(map(chr, range(0x21, 0x7F)))

log = logging.getLogger("content_telemetry")


class NoRedirects(urllib.request.HTTPRedirectHandler):
    """Rejects redirects, which would send the key elsewhere, and whose final page could be mistaken for the drain's response."""

    def redirect_request(self, *_):
        return None


class ContentTelemetry:
    def __init__(
        self, application, url, key, every=1.0, at_once=500, most=10_000, timeout=10.0, trusted_proxies=(), scheme=None, host=None,
        drops_underscores=False,
    ):
        self.application, self.url, self.key = application, url, key
        self.every, self.at_once, self.timeout = every, at_once, timeout
        self.site = Site(trusted_proxies, scheme, host, drops_underscores)
        self.opener = urllib.request.build_opener(NoRedirects)
        # When more lines are waiting, the oldest are dropped, so that the site doesn't run out of memory.
        self.waiting = collections.deque(maxlen=most)
        self.closing = threading.Event()
        self.thread = threading.Thread(target=self._run, name="content-telemetry", daemon=True)
        self.thread.start()

    def __call__(self, environ, start_response):
        # Other requests are not reported.
        if not environ.get("HTTP_SIGNATURE_AGENT") and not MAY_BE_A_BOT.search(environ.get("HTTP_USER_AGENT", "")):
            return self.application(environ, start_response)
        # Captured before the application can change it.
        line = self.site.request(environ)

        def started(status, headers, *exc_info):
            write = start_response(status, headers, *exc_info)
            # An application that fails can replace its response until the first part of it is sent.
            line.update(response(status, headers))
            return write

        try:
            return Body(self.application(environ, started), line, self._add)
        except Exception:
            line.update(FAILED)
            self._add(line)
            raise

    def _add(self, line):
        self.waiting.append(json.dumps(line, ensure_ascii=False))

    def close(self):
        """Sends the remaining lines."""
        self.closing.set()
        self.thread.join(self.timeout)

    def _run(self):
        while not self.closing.wait(self.every):
            self._flush()
        self._flush()

    def _flush(self):
        while self.waiting:
            batch = [self.waiting.popleft() for _ in range(min(self.at_once, len(self.waiting)))]
            if self._post(batch):
                continue
            # If the queue is full, `extendleft` would drop the newest lines.
            room = self.waiting.maxlen - len(self.waiting)
            self.waiting.extendleft(reversed(batch[max(len(batch) - room, 0) :]))
            return

    def _post(self, batch):
        """Sends a batch. Returns False if it must be sent again, which is not the case after a direct 2xx or 422."""
        body = ("\n".join(batch) + "\n").encode()
        headers = {"Content-Type": "application/x-ndjson", "X-API-Key": self.key}
        try:
            with self.opener.open(urllib.request.Request(self.url, body, headers), timeout=self.timeout):
                return True
        except urllib.error.HTTPError as error:
            with error:
                log.warning("the drain responded with status %s", error.code)
            # All lines are unreadable. Visitors can cause that, so such lines must not displace others in the queue.
            return error.code == 422
        except (OSError, http.client.HTTPException) as error:
            log.warning("the drain did not respond: %s", error)
            return False


class Body:
    """The body of a response. Adds the line when the server closes it."""

    def __init__(self, parts, line, add):
        self.parts, self.line, self.add = parts, line, add
        self.iterator, self.is_sent = None, False

    def __iter__(self):
        return self

    def __next__(self):
        try:
            self.iterator = self.iterator or iter(self.parts)
            part = next(self.iterator)
        except StopIteration:
            raise
        except Exception:
            if not self.is_sent:
                self.line.update(FAILED)
            raise
        self.is_sent = self.is_sent or bool(part)
        return part

    def close(self):
        try:
            getattr(self.parts, "close", lambda: None)()
        finally:
            if "status" in self.line:
                self.add(self.line)


class Site:
    """The server's proxies, and its scheme and host if a proxy hides them."""

    def __init__(self, trusted_proxies=(), scheme=None, host=None, drops_underscores=False):
        self.scheme, self.host, self.drops_underscores = scheme, host, drops_underscores
        if trusted_proxies and not drops_underscores:
            log.warning("X-Forwarded-For is ignored: drops_underscores is not set")
        self.trusts_socket_files = "unix" in trusted_proxies
        self.networks = [ipaddress.ip_network(proxy, strict=False) for proxy in trusted_proxies if proxy != "unix"]

    def request(self, environ):
        """Returns the fields of a line that are known when the request arrives."""
        return {
            "timestamp": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds"),
            "request_id": str(uuid.uuid4()),
            "client_ip": self.client_address(environ),
            "host": self.host or text(environ, "HTTP_HOST", MAX_HEADER) or environ.get("SERVER_NAME", ""),
            "scheme": self.scheme or environ.get("wsgi.url_scheme", "http"),
            "method": environ.get("REQUEST_METHOD", ""),
            "url": target(environ)[:MAX_URL],
            "user_agent": text(environ, "HTTP_USER_AGENT", MAX_HEADER),
            "content_telemetry_id": text(environ, "HTTP_CONTENT_TELEMETRY_ID", MAX_TELEMETRY_ID),
            "signature_agent": text(environ, "HTTP_SIGNATURE_AGENT", MAX_HEADER),
            "signature_input": text(environ, "HTTP_SIGNATURE_INPUT", MAX_HEADER),
            "signature": text(environ, "HTTP_SIGNATURE", MAX_HEADER),
        }

    def client_address(self, environ):
        """Returns the connection's address or, behind trusted proxies, the rightmost address that isn't theirs. Empty if unknown."""
        forwarded = environ.get("HTTP_X_FORWARDED_FOR", "").split(",") if self.drops_underscores else [""]
        peer = environ.get("REMOTE_ADDR", "")
        address = bare(peer)
        trusted = self.is_proxy(address) if peer else self.trusts_socket_files
        while trusted and forwarded:
            address = bare(forwarded.pop())
            trusted = self.is_proxy(address)
        return str(address) if address else ""

    def is_proxy(self, address):
        return address is not None and any(address in network for network in self.networks)


def bare(written):
    """Returns the address without port, brackets and IPv4-in-IPv6 prefix, or None if it isn't an address."""
    written = written.strip()
    with_port = re.fullmatch(r"\[([^\]]*)\](?::\d+)?|([\d.]+)(?::\d+)?", written)
    try:
        address = ipaddress.ip_address((with_port[1] or with_port[2] or "") if with_port else written)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def text(environ, name, most):
    """Returns a header as text. WSGI decodes each byte of it as one character."""
    return environ.get(name, "").encode("latin-1", "replace").decode("utf-8", "replace")[:most]


def target(environ):
    """Returns the path and the query as sent: ``/a%2Fb`` is another page than ``/a/b``, and agents report the URL they requested."""
    sent = environ.get("RAW_URI") or environ.get("REQUEST_URI") or ""
    if sent.lower().startswith(("/", "http://", "https://")):
        path = urllib.parse.quote(re.sub(r"(?i)^https?://[^/?]*", "", sent).encode("latin-1", "replace"), safe=PRINTABLE)
        return path if path.startswith("/") else "/" + path
    # Other servers provide only the unescaped path, with each byte as one character.
    path = (environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")).encode("latin-1", "replace")
    query = environ.get("QUERY_STRING", "").encode("latin-1", "replace")
    return urllib.parse.quote(path, safe="/:@!$&'()*+,;=~") + ("?" + urllib.parse.quote(query, safe=PRINTABLE) if query else "")


# The response of servers if the application fails before it responds.
FAILED = {"status": 500, "bytes": 0, "content_type": ""}


def response(status, headers):
    """Returns the fields of a line that are known when the response starts."""
    sent = {name.lower(): value for name, value in headers}
    length = sent.get("content-length", "0")
    return {
        "status": int(status.split(" ", 1)[0]),
        "bytes": int(length) if length.isdigit() else 0,
        "content_type": sent.get("content-type", ""),
    }
