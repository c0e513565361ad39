"""Reports visits that follow an agent's link: a page view with ``?ctx=`` creates one ``content_engaged`` event.

WSGI middleware: ``application = ClickReporter(application, client, "https://www.example.com")``. It never delays or breaks the page.
"""

from __future__ import annotations

import logging
import queue
import threading
import urllib.parse
from collections.abc import Callable, Iterable
from typing import Any

from . import ContentTelemetry, Event, click_of

LOG = logging.getLogger(__name__)


def _target(environ: dict[str, Any]) -> str:
    """Returns path and query as they were sent. Without ``RAW_URI`` or ``REQUEST_URI``, WSGI provides only the unescaped path."""
    sent = environ.get("RAW_URI") or environ.get("REQUEST_URI") or ""
    if sent.startswith("/"):
        return str(sent)
    path = (environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")).encode("latin-1", "replace")
    query = str(environ.get("QUERY_STRING", ""))
    return urllib.parse.quote(path, safe="/:@!$&'()*+,;=~") + "?" + query


class ClickReporter:
    """``origin`` is the site's public address; the Host header of a request is not trusted."""

    def __init__(self, application: Callable[..., Iterable[bytes]], client: ContentTelemetry, origin: str) -> None:
        self._application = application
        self._client = client
        self._origin = origin
        self._clicks: queue.Queue[Event] = queue.Queue(maxsize=10_000)
        threading.Thread(target=self._send, daemon=True).start()

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] == "GET":
            event = click_of(f"{self._origin}{_target(environ)}")
            if event:
                self._queue(event)
        return self._application(environ, start_response)

    def flush(self) -> None:
        """Waits until every queued visit has been sent or rejected. Call it before the process ends."""
        self._clicks.join()

    def _queue(self, event: Event) -> None:
        try:
            self._clicks.put_nowait(event)
        except queue.Full:
            LOG.error("failed to report a visit: 10,000 visits are queued")

    def _send(self) -> None:
        while True:
            event = self._clicks.get()
            try:
                for _, faults in self._client.report([event]):
                    LOG.error("failed to report a visit: %s", faults)
            except Exception:  # a failed click must not end the thread
                LOG.exception("failed to report a visit")
            finally:
                self._clicks.task_done()
