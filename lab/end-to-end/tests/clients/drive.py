"""Uses the Python client as an agent and a site would, through a faulty proxy, and prints the expected number of events per type and
of sessions.

Environment: CLIENT (its folder), PROXY, AGENT_KEY, OWNER_KEY.
"""

import hashlib
import hmac
import json
import os
import re
import sys
import time
from datetime import datetime, timezone

sys.path.insert(0, os.environ["CLIENT"])
sys.dont_write_bytecode = True
from content_telemetry import ApiError, ContentTelemetry, click_of, verify_webhook  # noqa: E402
from content_telemetry.landing_page import ClickReporter  # noqa: E402

PROXY, AGENT_KEY, OWNER_KEY = (os.environ[name] for name in ("PROXY", "AGENT_KEY", "OWNER_KEY"))


def page(name):
    return f"https://www.example.com/client/{name}"


def now():
    return datetime.now(timezone.utc).isoformat()


def fails(kind, call):
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"expected {kind}")


agent = ContentTelemetry(PROXY, AGENT_KEY)
session = agent.start_session(agent_id="client-test")


def retrieved(name):
    return {"type": "content_retrieved", "timestamp": now(), "session_id": session, "source_role": "agent", "content_url": page(name)}


bad = {**retrieved("bad"), "timestamp": "yesterday"}
refused = agent.report([*(retrieved(n) for n in range(700)), bad, *(retrieved(n) for n in range(700, 1200))])
assert [event["content_url"] for event, _ in refused] == [page("bad")], refused
assert any(fault["field"] == "timestamp" for fault in refused[0][1]), refused

cited = {"type": "content_cited", "timestamp": now(), "content_url": page("cited"), "data": {"citation_type": "paraphrase"}}
outcome = {"type": "conversion", "value_amount": 1_999, "currency": "EUR"}
assert agent.upload_session([cited], agent_id="client-test", started_at=now(), outcome=outcome)["outcome_recorded"] is True

# The query stays unchanged byte for byte, except that a previous token is removed.
rest = "q=a%20b&flag&n=%E9&&s=+&e=&q=%c3%a9"
link, part = agent.link_with_token(session, page(f"landing?ctx=ctx_old&{rest}&%63tx=ctx_older#part")).split("#")
assert part == "part"
assert re.fullmatch(re.escape(page(f"landing?{rest}")) + "&ctx=ctx_[0-9A-Za-z]+", link), link
assert click_of(page(f"landing?a=%2F&ctx=ctx_1&{rest}"))["content_url"] == page(f"landing?a=%2F&{rest}")
assert click_of(page("landing?ctx=ctx_1"))["content_url"] == page("landing")
site = ClickReporter(lambda environ, start: [b"the page"], ContentTelemetry(PROXY, OWNER_KEY), "https://www.example.com")
path, query = link.removeprefix("https://www.example.com").split("?")
for visited in ((path, query), ("/client/no-token", ""), ("/client/other", "ctx=unlike")):
    assert site({"REQUEST_METHOD": "GET", "PATH_INFO": visited[0], "QUERY_STRING": visited[1]}, None) == [b"the page"]
assert site({"REQUEST_METHOD": "GET"}, None) == [b"the page"]
site.flush()
assert click_of("https://www.example.com/?ctx=other") is None
assert click_of(link)["content_url"] == page(f"landing?{rest}")
agent.end_session(session, {"type": "browse"})

assert fails(ApiError, ContentTelemetry(PROXY, "svc_pk_unknown").start_session).status == 401

# Events that are repeated after a failure count once, even if it is unknown whether they were accepted.
twice = [retrieved("again-1"), retrieved("again-2")]
fails(OSError, lambda: ContentTelemetry("http://127.0.0.1:1", AGENT_KEY, give_up_after=0.3, batch_size=1).report(twice[:1]))
agent.report(twice)
agent.report(twice)


class Narrow(ContentTelemetry):
    """A client of a service that accepts at most 2,000 bytes."""

    def _post(self, path, data, address=None):
        if len(data) > 2_000:
            raise ApiError(413, {}, None)
        return super()._post(path, data, address)


# A batch that is too large is split. Events that are too large or not valid JSON don't delay others.
values = [float("nan"), datetime.now(), "\ud800", "x" * 2_000]
odd = [{**retrieved(f"odd-{n}"), "data": {"x": value}} for n, value in enumerate(values)]
refused = Narrow(PROXY, AGENT_KEY).report([retrieved("beside-0"), *odd, *(retrieved(f"beside-{n}") for n in range(1, 20))])
assert sorted(event["content_url"] for event, _ in refused) == [page(f"odd-{n}") for n in range(4)], refused
assert "id" in twice[0] and twice[0]["id"] != twice[1]["id"], twice

body = json.dumps({"id": "1", "type": "delegation.created", "data": {"name": "Ünïcode"}}, ensure_ascii=False).encode()


def signed(timestamp):
    signature = hmac.new(b"whsec_test", f"{timestamp}.".encode() + body, hashlib.sha256).hexdigest()
    return {"x-svc-timestamp": str(timestamp), "x-svc-signature": signature}


assert verify_webhook("whsec_test", signed(int(time.time())), body) == json.loads(body)
assert "signature" in str(fails(ValueError, lambda: verify_webhook("whsec_other", signed(int(time.time())), body)))
assert "signature" in str(fails(ValueError, lambda: verify_webhook("whsec_test", {}, body)))
assert "too old" in str(fails(ValueError, lambda: verify_webhook("whsec_test", signed(int(time.time()) - 301), body)))

print(json.dumps({"counted": {"content_retrieved": 1_222, "content_cited": 1, "content_engaged": 1}, "sessions": 2}))
