"""Client of the Content Telemetry API for Python 3.11 or later. It has no dependencies.

Every event gets an ``id``, so repeats count once. A request is retried after ``Retry-After``, failed connections and lost
responses, for at most ``give_up_after`` seconds.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import json
import random
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from collections.abc import Iterable, Iterator
from datetime import datetime, timezone
from typing import Any, NotRequired, TypedDict

MAX_EVENTS = 1_000
MAX_BYTES = 900_000
REPEATED = {408, 429, 502, 503, 504}
# The response is missing, incomplete or not JSON.
LOST = (OSError, ValueError, http.client.HTTPException)

Json = dict[str, Any]


class Event(TypedDict):
    """An event. It can have further members that the API accepts."""

    type: str
    timestamp: str
    id: NotRequired[str]
    source_role: NotRequired[str]
    content_url: NotRequired[str]
    content_id: NotRequired[str]
    content_telemetry_id: NotRequired[str]
    session_id: NotRequired[str]
    ctx_token: NotRequired[str]
    turn_id: NotRequired[str]
    output_id: NotRequired[str]
    data: NotRequired[Json]


Refused = tuple[Event, list[Json]]
Encoded = tuple[Event, bytes]


class ApiError(Exception):
    """The service rejected a request. ``faults`` lists each broken rule, with the event's ``index``."""

    def __init__(self, status: int, problem: Json, retry_after: float | None) -> None:
        super().__init__(problem.get("detail", f"The service answered {status}."))
        self.status = status
        self.code: str | None = problem.get("code")
        self.faults: list[Json] = problem.get("errors", [])
        self.request_id: str | None = problem.get("request_id")
        self.retry_after = retry_after


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


class ContentTelemetry:
    """``url`` serves everything unless ``ingest_url`` names another address for events and sessions.

    With a ``signing_key`` (key id and private JWK, as for ``sign_request``), every report is signed.
    """

    def __init__(
        self,
        url: str,
        api_key: str,
        ingest_url: str | None = None,
        batch_size: int = 500,
        give_up_after: float = 60,
        signing_key: tuple[str, Json] | None = None,
    ) -> None:
        self._url = url
        self._ingest_url = ingest_url or url
        self._api_key = api_key
        self._batch_size = min(batch_size, MAX_EVENTS)
        self._give_up_after = give_up_after
        self._signing_key = signing_key
        self._opener = urllib.request.build_opener(_NoRedirects)

    def report(self, events: Iterable[Event]) -> list[Refused]:
        """Sends events in batches, and returns invalid ones with their faults. All others are then stored durably.

        Adds an ``id`` to events without one. After an exception, report the same events again; each counts once.
        """
        refused: list[Refused] = []
        for batch in _batches(_encoded(_identified(events), refused), self._batch_size):
            refused += self._deliver(batch)
        return refused

    def start_session(self, **session: Any) -> str:
        """Starts a session and returns its id."""
        return str(self._write("/sessions/start", session)["session_id"])

    def end_session(self, session_id: str, outcome: Json | None = None) -> None:
        """Ends a session with an optional outcome."""
        self._write("/sessions/end", {"session_id": session_id, "outcome": outcome})

    def upload_session(self, events: Iterable[Event] = (), **session: Any) -> Json:
        """Uploads a complete session."""
        return self._write("/sessions/bulk", {"session_id": str(uuid.uuid4()), **session, "events": list(_identified(events))})

    def link_with_token(self, session_id: str, content_url: str) -> str:
        """Creates a click token and returns the link with it."""
        token = self._write("/click-tokens", {"session_id": session_id, "content_url": content_url}, self._url)["token"]
        link = urllib.parse.urlsplit(content_url)
        pairs = [*_without_token(link.query), f"ctx={urllib.parse.quote(token)}"]
        return link._replace(query="&".join(pairs)).geturl()

    def read(self, path: str, **parameters: Any) -> Any:
        """Returns the response of any read, e.g. ``read("/content-owners/summary", since="2026-11-01")``."""
        query = urllib.parse.urlencode({name: value for name, value in parameters.items() if value is not None})
        return self._request(urllib.request.Request(f"{self._url}{path}?{query}"))

    def _deliver(self, batch: list[Encoded]) -> list[Refused]:
        try:
            self._post("/events", b'{"events":[' + b",".join(text for _, text in batch) + b"]}")
            return []
        except ApiError as error:
            if error.status == 413 and len(batch) > 1:
                middle = len(batch) // 2
                return self._deliver(batch[:middle]) + self._deliver(batch[middle:])
            if error.status == 413:
                return [(batch[0][0], [{"field": "event", "code": "too_large", "detail": str(error)}])]
            faults: dict[int, list[Json]] = {}
            for fault in error.faults:
                faults.setdefault(fault.get("index", -1), []).append(fault)
            if error.status != 422 or not any(index in faults for index in range(len(batch))):
                raise
            rest = [encoded for index, encoded in enumerate(batch) if index not in faults]
            refused = [(event, faults[index]) for index, (event, _) in enumerate(batch) if index in faults]
            return refused + (self._deliver(rest) if rest else [])

    def _write(self, path: str, body: Json, address: str | None = None) -> Json:
        return self._post(path, json.dumps(body, ensure_ascii=False).encode(), address)

    def _post(self, path: str, data: bytes, address: str | None = None) -> Json:
        headers = {"content-type": "application/json", "idempotency-key": str(uuid.uuid4())}
        request = urllib.request.Request(f"{address or self._ingest_url}{path}", data=data, headers=headers, method="POST")
        answer: Json = self._request(request)
        return answer

    def _request(self, request: urllib.request.Request) -> Any:
        request.add_header("x-api-key", self._api_key)
        deadline = time.monotonic() + self._give_up_after
        attempt = 0
        while True:
            self._sign(request)
            try:
                with self._opener.open(request, timeout=min(30, max(0.001, deadline - time.monotonic()))) as response:
                    return json.loads(response.read())
            except urllib.error.HTTPError as answer:
                error: Exception = _refusal(answer)
                is_final = answer.code not in REPEATED
            except LOST as lost:
                error, is_final = lost, False
            pause = getattr(error, "retry_after", None) or min(2**attempt / 4, 10)
            pause *= 1 + random.random() / 10
            if is_final or time.monotonic() + pause > deadline:
                raise error
            time.sleep(pause)
            attempt += 1

    def _sign(self, request: urllib.request.Request) -> None:
        """Signs each attempt again, because a nonce is accepted once."""
        if self._signing_key and isinstance(request.data, bytes):
            content = {"content-type": str(request.get_header("Content-type"))}
            signature = sign_request(*self._signing_key, request.get_method(), request.full_url, content, request.data)
            request.headers.update({name.capitalize(): value for name, value in signature.items()})


def _refusal(answer: urllib.error.HTTPError) -> ApiError:
    try:
        problem = json.loads(answer.read())
    except LOST:
        problem = {}
    seconds = answer.headers.get("retry-after", "")
    return ApiError(answer.code, problem if isinstance(problem, dict) else {}, float(seconds) if seconds.isdigit() else None)


def _identified(events: Iterable[Event]) -> Iterator[Event]:
    for event in events:
        event.setdefault("id", str(uuid.uuid4()))
        yield event


def _encoded(events: Iterable[Event], refused: list[Refused]) -> Iterator[Encoded]:
    for event in events:
        try:
            yield event, json.dumps(event, ensure_ascii=False, allow_nan=False).encode()
        except (TypeError, ValueError) as error:
            refused.append((event, [{"field": "event", "code": "not_json", "detail": str(error)}]))


def _batches(events: Iterable[Encoded], size: int) -> Iterator[list[Encoded]]:
    batch: list[Encoded] = []
    length = 0
    for event, text in events:
        if batch and (len(batch) == size or length + len(text) >= MAX_BYTES):
            yield batch
            batch, length = [], 0
        batch.append((event, text))
        length += len(text) + 1
    if batch:
        yield batch


def _without_token(query: str) -> list[str]:
    """Returns the parameters without the token, as written: another spelling can be another page."""
    pairs = query.split("&") if query else []
    return [pair for pair in pairs if urllib.parse.unquote_plus(pair.split("=", 1)[0]) != "ctx"]


def click_of(url: str, now: datetime | None = None) -> Event | None:
    """Returns the event for a visit with a click token, or None. ``url`` is the requested address."""
    page = urllib.parse.urlsplit(url)
    query = urllib.parse.parse_qsl(page.query, keep_blank_values=True)
    token = next((value for name, value in query if name == "ctx"), "")
    if not token.startswith("ctx_"):
        return None
    rest = "&".join(_without_token(page.query))
    timestamp = (now or datetime.now(timezone.utc)).isoformat()
    data = {"engagement_type": "link_click"}
    return {"type": "content_engaged", "timestamp": timestamp, "content_url": page._replace(query=rest).geturl(), "ctx_token": token, "data": data}


def sign_request(key_id: str, jwk: Json, method: str, url: str, headers: dict[str, str], body: bytes, now: float | None = None) -> dict[str, str]:
    """Returns the headers that sign a request (docs/api/signatures.md).

    ``jwk`` is the private key that ``telemetry sign keygen`` writes, and ``key_id`` its id in your manifest. ``headers`` has lower-case
    names, with ``content-type`` and, if the body is encoded, ``content-encoding``.
    """
    digest = f"sha-256=:{base64.b64encode(hashlib.sha256(body).digest()).decode()}:"
    values = {"@method": method, "@target-uri": url, "content-type": headers["content-type"], "content-digest": digest}
    if "content-encoding" in headers:
        values["content-encoding"] = headers["content-encoding"]
    created = int(time.time() if now is None else now)
    components = " ".join(f'"{name}"' for name in values)
    parameters = f'({components});created={created};expires={created + 300};keyid={json.dumps(key_id)};alg="ed25519";nonce="{uuid.uuid4()}";tag="content-telemetry"'
    lines = [f'"{name}": {value}' for name, value in {**values, "@signature-params": parameters}.items()]
    signature = _ed25519(base64.urlsafe_b64decode(jwk["d"] + "="), "\n".join(lines).encode())
    return {"content-digest": digest, "signature-input": f"ct={parameters}", "signature": f"ct=:{base64.b64encode(signature).decode()}:"}


_Point = tuple[int, int, int, int]
_P = 2**255 - 19
_ORDER = 2**252 + 27742317777372353535851937790883648493
_D = -121665 * pow(121666, -1, _P) % _P
_X = 15112221349535400772501151409588531511454012693041857206046113283949847762202
_Y = 4 * pow(5, -1, _P) % _P


def _ed25519(secret: bytes, message: bytes) -> bytes:
    """Signs as in RFC 8032. Takes milliseconds and isn't constant-time: don't run it where untrusted processes can time it."""

    def number(*parts: bytes) -> int:
        return int.from_bytes(hashlib.sha512(b"".join(parts)).digest(), "little")

    expanded = hashlib.sha512(secret).digest()
    scalar = int.from_bytes(expanded[:32], "little") & (2**254 - 8) | 2**254
    nonce = number(expanded[32:], message) % _ORDER
    commitment = _times_base(nonce)
    response = (nonce + number(commitment, _times_base(scalar), message) * scalar) % _ORDER
    return commitment + response.to_bytes(32, "little")


def _times_base(scalar: int) -> bytes:
    total, power = (0, 1, 1, 0), (_X, _Y, 1, _X * _Y % _P)
    while scalar:
        total = _add(total, power) if scalar & 1 else total
        power = _add(power, power)
        scalar >>= 1
    inverse = pow(total[2], -1, _P)
    return (total[1] * inverse % _P | (total[0] * inverse % _P & 1) << 255).to_bytes(32, "little")


def _add(p: _Point, q: _Point) -> _Point:
    a, b = (p[1] - p[0]) * (q[1] - q[0]), (p[1] + p[0]) * (q[1] + q[0])
    c, d = 2 * p[3] * q[3] * _D, 2 * p[2] * q[2]
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % _P, g * h % _P, f * g % _P, e * h % _P


def verify_webhook(secret: str, headers: dict[str, str], body: bytes, now: float | None = None) -> Json:
    """Returns the event in a webhook's raw body. Raises ValueError if it is forged or more than five minutes old.

    Store the ``id`` of handled events, because a delivery can arrive twice.
    """
    timestamp, signature = headers.get("x-svc-timestamp", ""), headers.get("x-svc-signature", "")
    expected = hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()
    if not hmac.compare_digest(expected.encode(), signature.encode()):
        raise ValueError("The signature is invalid.")
    if abs((time.time() if now is None else now) - int(timestamp)) > 300:
        raise ValueError("The delivery is too old.")
    event: Json = json.loads(body)
    return event
