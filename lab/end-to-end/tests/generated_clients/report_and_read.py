"""Uses the client that openapi-python-client generates."""

import os
import time
from datetime import datetime, timezone

from generated.api.reads import list_events
from generated.api.telemetry import report_events, start_session
from generated.client import AuthenticatedClient
from generated.models import (
    Event, EventBatch, EventData, EventPage, EventsCreated, NewSession, PrivacyLevel, SessionStarted, SourceRole,
)

URL = "https://www.example.com/openapi-python-client"


def connect(key: str) -> AuthenticatedClient:
    return AuthenticatedClient(os.environ["BASE_URL"], os.environ[key], prefix="", auth_header_name="X-API-Key")


started = start_session.sync(client=connect("AGENT_KEY"), body=NewSession(privacy_level=PrivacyLevel.FULL))
assert isinstance(started, SessionStarted), started
event = Event(
    type_="content_cited",
    timestamp=datetime.now(timezone.utc),
    content_url=URL,
    session_id=started.session_id,
    source_role=SourceRole.AGENT,
    data=EventData.from_dict({"position": "primary"}),
)
reported = report_events.sync(client=connect("AGENT_KEY"), body=EventBatch(events=[event]))
assert isinstance(reported, EventsCreated) and reported.events_created == 1, reported


def is_found() -> bool:
    page = list_events.sync(client=connect("OWNER_KEY"), limit=10)
    assert isinstance(page, EventPage), page
    return any(item.content_url == URL and item.event_data["position"] == "primary" for item in page.items)


for _ in range(100):
    if is_found():
        break
    time.sleep(0.2)
else:
    raise SystemExit("the event is not in the list")
