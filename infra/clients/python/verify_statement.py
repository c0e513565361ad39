"""Verifies a monthly statement with Python 3.11 or later (docs/api/statements.md). Copy this file and
signed_json.py; they need the standard library only.

    python3 verify_statement.py STATEMENT EVIDENCE [--manifest FILE] [--previous STATEMENT]...

Recounts every figure from the evidence file, and checks the signature, the chain of statements and the corrections of a revision.
Prints what was checked and what differs. Exits with 1 if anything differs.
"""

import argparse
import re
import sys
from base64 import b64decode
from collections import defaultdict
from datetime import datetime, timezone
from hashlib import sha256
from itertools import chain
from pathlib import Path

from signed_json import FORM, Wrong, canonical, compare, is_signed, manifest_keys, members, order, parse, paths, require, several

NOTE = "Proof of access is not proof of grounding, and a valid signature is not truth."
ROLES = ["agent", "edge", "origin", "index", ""]
MEASURES = {"content_grounded": "grounding", "content_cited": "citation", "content_presented": "presentation", "content_engaged": "engagement"}
METRICS = {"fetch": "AI_Requests", "grounding": "AI_Investigations", "citation": "AI_Investigations"}
COUNTER = ["AI_Responses_Generated", "Total_AI_Investigations", "Total_AI_Requests", "Unique_AI_Investigations", "Unique_AI_Requests"]
TIERS = ["claimed", "corroborated", "observed", "signed", "unknown"]
NAMES = ["host", "content", "license"]

N, S, TRUTH, HASH, D16, D32 = "-?[0-9]+", r'"(?:[^"\\]|\\.)*"', "(?:true|false)", '"[0-9a-f]{64}"', '"[0-9a-f]{16}"', '"[0-9a-f]{32}"'
HOUR = dict(at_ms="[0-9]+", host=S, row='"hour"')
LINE = HOUR | dict(accepted_us="[0-9]+", bot=S, identity=D32, operator=S, place="[0-9]+", row='"line"', status="[0-9]+", url=S)
REPORT = LINE | dict(click=TRUTH, content_id=S, drain=S, group=f"(?:null|{D32})", license=S, organization=S, owner=TRUTH)
REPORT |= dict(response=f"(?:null|{D16})", role='"(?:agent|edge|origin|index|)"', row='"report"', session=f"(?:null|{D16})")
REPORT |= dict(signature='"(?:valid|invalid|none)"', status="(?:null|[0-9]+)", type=S)
ROW = "|".join(members(**row) for row in (HOUR, LINE, REPORT))
EVENTS = several(f"{S}:{members(**dict.fromkeys(TIERS, N))}", r"\{\}")
FIGURES = dict(counter=members(**dict.fromkeys(COUNTER, N)), covered_hours=N, events=EVENTS, sessions=N)
CHANGES = several(members(after=N, before=N, figure=S, **dict.fromkeys(NAMES, S)))
STATEMENT = members(
    by='"(?:url|section)"', closed='"[-0-9]{10}T[0-9:]{8}Z"', counting_rules="1", document_type='"statement"', evidence=members(hours=N, reports=N, sha256=HASH),
    corrections=f"(?:null|{members(changes=CHANGES, late_reports=N, other_reports=N, revises=HASH)})", hosts=several(S), number="[1-9][0-9]*",
    lines=several(members(**FIGURES, **dict.fromkeys(NAMES, S))), operator=f"(?:null|{S})", owner=members(id=S, name=S), period='"[0-9]{4}-[0-9]{2}"',
    previous=f"(?:null|{HASH})", revision="[1-9][0-9]*", service=S, signature=members(keyid=S, value=S), totals=members(**FIGURES, hours=N), version="1")


class Statement:
    """A statement with its times in milliseconds since 1970, and its figures by host, content, license and path."""

    def __init__(self, text):
        self.sha256, self.json = sha256(text).hexdigest(), parse(text, STATEMENT)
        one = self.json
        try:
            year, month = map(int, one["period"].split("-"))
            times = datetime(year, month, 1, tzinfo=timezone.utc), datetime(year + month // 12, month % 12 + 1, 1, tzinfo=timezone.utc)
            self.since, self.until, self.closed = (int(time.timestamp()) * 1000 for time in (*times, datetime.fromisoformat(one["closed"])))
        except ValueError:
            raise Wrong(FORM) from None
        require(0 <= self.since < self.until <= self.closed and one["hosts"] == sorted(set(one["hosts"])))
        require((one["number"] == 1) == (one["previous"] is None) and (one["revision"] == 1) == (one["corrections"] is None))
        self.keys = [tuple(line[name] for name in NAMES) for line in one["lines"]]
        figures = zip(self.keys, ({name: line[name] for name in FIGURES} for line in one["lines"]))
        self.lines = {(*key, path): figure for key, line in figures for path, figure in paths(line)}
        self.scope = {"operator": one["operator"], "owner": one["owner"]["id"]}


def is_within(host, above):
    return f".{host}".endswith(f".{above}")


class Recount:
    """Counts the rows of an evidence file, which have to arrive in its order."""

    def __init__(self, statement, late_from_ms):
        self.statement, self.late_from_ms, self.operator, self.last, self.group = statement, late_from_ms, statement.json["operator"], (), []
        self.reports = self.hours = self.late = self.number = self.first = 0
        self.covered, self.sets = defaultdict(set), defaultdict(lambda: defaultdict(set))
        self.events = defaultdict(lambda: defaultdict(lambda: dict.fromkeys(TIERS, 0)))

    def add(self, number, text):
        self.number = number
        require(text.endswith(b"\n"))
        row = parse(text[:-1], ROW)
        if row["row"] == "hour":
            require(row["host"] and row["at_ms"] % 3_600_000 == 0)
            place = (0, "", row["at_ms"], 0, row["host"])
        else:
            has_url = row["host"] and row["url"].startswith(("http://", "https://"))
            require(has_url or row["url"] == row["host"] == "" != row.get("content_id", ""))
            require(row["row"] == "report" or not 200 <= row["status"] < 300)
            require(row.get("group") is None or row["type"] == "content_retrieved")
            require(row["status"] is not None or not row["bot"])
            place = (1, row.get("group") or row["identity"], row["accepted_us"], row["place"], row["identity"])
        require(place > self.last, "must be sorted after the row before it")
        if place[:2] != self.last[:2]:
            self.finish_group()
        self.last = place
        is_known = not row["host"] or any(is_within(row["host"], above) for above in self.statement.json["hosts"])
        require(is_known, "has a host that the statement does not have")
        if row["row"] == "hour":
            require(self.is_in_period(row["at_ms"]), "is outside the period")
            self.hours += 1
            self.covered[row["host"]].add(row["at_ms"])
            return
        require(row["accepted_us"] < self.statement.closed * 1000, "was accepted after the statement was closed")
        require(not self.group or row["host"] == self.group[0]["host"], "has another host than its group")
        require(all(row["identity"] != other["identity"] for other in self.group), "repeats a report")
        self.reports += 1
        self.late += self.late_from_ms is not None and row["accepted_us"] >= self.late_from_ms * 1000
        self.first = self.first if self.group else number
        self.group.append(row)

    def is_in_period(self, at_ms):
        return self.statement.since <= at_ms < self.statement.until

    def finish_group(self):
        """Joins the reports with the same key, and counts the events."""
        joined, events = {}, []
        for row in self.group:
            observer = (row.get("organization"), row.get("role"), row.get("drain"))
            if row.get("group") is None or observer in joined or len(joined) == 32:
                events.append([row])
            else:
                joined[observer] = row
        counted = [self.count(event) for event in [*events, list(joined.values())] if event]
        if counted and not any(counted):
            self.number = self.first
            raise Wrong("its group has no event of the statement")
        self.group = []

    def count(self, event):
        """Counts an event or a log line. Returns whether it belongs to the statement."""
        if event[0]["row"] == "line":
            report = dict(type="content_retrieved", license="", role="origin", organization="", owner=True, session=None, signature="none")
            event = [event[0] | report | {"status": event[0]["status"] or -1}]
        represents = min(event, key=lambda report: ROLES.index(report["role"]))
        timely = [report for report in event if -3_600_000_000 <= report["accepted_us"] - report["at_ms"] * 1000 <= 86_400_000_000]
        claims = [report for report in event if report["role"] == "agent" or report["role"] == "" and report["session"] is not None]
        details = [report for report in event if report["status"] is not None]
        details.sort(key=lambda one: (not one["owner"], not one["bot"], not one["bot"] and one["status"] == 0, ROLES.index(one["role"])))
        operator = represents["operator"] if represents in claims else ""
        operator = operator or (details[0]["operator"] if details else "")
        if not self.is_in_period((timely or event)[0]["at_ms"]) or self.operator not in (None, operator):
            return False
        status = details[0]["status"] if details else 0
        if any(report["owner"] for report in event) and details and not details[0]["owner"] and not 200 <= status < 300:
            status = 0
        claiming = {report["organization"] for report in claims}
        is_seen = any(report["role"] in ("edge", "origin") and report["organization"] not in claiming for report in event)
        measure = MEASURES.get(represents["type"], represents["type"])
        if measure == "content_retrieved":
            measure = "fetch" if status == 0 or 200 <= status < 300 else "revalidation" if status == 304 else "failed_fetch"
        elif measure == "engagement" and represents["click"]:
            measure = "visit"
        content = represents["url"] or represents["content_id"]
        if represents["url"] and self.statement.json["by"] == "section":
            path = re.split("[?#]", content.split("://", 1)[1])[0].split("/")[1:]
            content = f"https://{represents['host']}/" + (f"{path[0]}/*" if len(path) > 1 else "")
        key = (represents["host"], content, represents["license"])
        tiers, sets = self.events[key][measure], self.sets[key]
        tiers[("corroborated" if is_seen else "claimed") if claims else ("observed" if is_seen else "unknown")] += 1
        tiers["signed"] += any(report["signature"] == "valid" for report in event)
        sets["sessions"] |= {report["session"] for report in event} - {None}
        if metric := METRICS.get(measure):
            sets[f"Total_{metric}"].add(represents["identity"])
            sets[f"Unique_{metric}"].add(represents["session"] or represents["identity"])
            sets["AI_Responses_Generated"] |= {None if measure == "fetch" else represents["response"]} - {None}
        return True

    def finish(self):
        """Returns the figures of the lines and the totals."""
        self.finish_group()
        lines, totals = {}, {f"counter.{metric}": 0 for metric in COUNTER}
        for key, measures in self.events.items():
            line = {f"counter.{metric}": len(self.sets[key][metric]) for metric in COUNTER} | dict(paths({"events": measures}))
            totals |= {path: totals.get(path, 0) + figure for path, figure in line.items()}
            hours = (hours for host, hours in self.covered.items() if is_within(key[0], host))
            line |= {"covered_hours": len(set().union(*hours)), "sessions": len(self.sets[key]["sessions"])}
            lines |= {(*key, path): figure for path, figure in line.items()}
        for path, name in (("counter.AI_Responses_Generated", "AI_Responses_Generated"), ("sessions", "sessions")):
            totals[path] = len(set().union(*(sets[name] for sets in self.sets.values())))
        hours = (self.statement.until - self.statement.since) // 3_600_000
        return lines, totals | {"covered_hours": len(set().union(*self.covered.values())), "hours": hours}


def signature(statement, manifest):
    key_id, value = statement.json["signature"]["keyid"], statement.json["signature"]["value"]
    try:
        keys = manifest_keys(manifest)
    except (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError, Wrong):
        keys = {}
    public, expires = keys.get(key_id, (None, None))
    signed = canonical({name: member for name, member in statement.json.items() if name != "signature"}).encode()
    if public is None:
        yield f"signature: the manifest is invalid or has no key {key_id}"
    elif expires is not None and expires <= statement.closed:
        yield f"signature: key {key_id} expired before the statement was closed"
    elif not re.fullmatch("[A-Za-z0-9+/]{85}[AQgw]==", value) or not is_signed(public, signed, b64decode(value)):
        yield f"signature: key {key_id} did not sign this statement"


def corrections(statement, revised, late):
    stated, other = statement.json["corrections"], statement.json["evidence"]["reports"] - revised.json["evidence"]["reports"] - late
    actual = {"late_reports": late, "other_reports": other}
    yield from compare("corrections", {name: stated[name] for name in actual}, actual)
    changes = [(tuple(change[name] for name in (*NAMES, "figure")), [change["before"], change["after"]]) for change in stated["changes"]]
    yield from order("changes", [key for key, _ in changes])
    pairs = {key: [revised.lines.get(key, 0), statement.lines.get(key, 0)] for key in revised.lines.keys() | statement.lines.keys()}
    yield from compare("change", dict(changes), {key: pair for key, pair in pairs.items() if pair[0] != pair[1]})


def verify(statement, evidence, earlier, manifest, check):
    """Calls `check` with the name of each check and with what it found: None if nothing was checked."""
    one, revised, has_previous = statement.json, None, statement.json["previous"] is None
    if manifest is None:
        check("signature (--manifest)", None)
    else:
        check(f"signature by {one['signature']['keyid']}", signature(statement, manifest))
    revises = one["corrections"] and one["corrections"]["revises"]
    for text in earlier:
        try:
            other = Statement(text)
        except Wrong as wrong:
            check("earlier statement", [f"earlier statement: {wrong}"])
            continue
        if other.sha256 == one["previous"]:
            has_previous, number = True, {"number": one["number"]}
            check("chain", compare("chain", statement.scope | number, other.scope | {"number": other.json["number"] + 1}))
        if other.sha256 == revises:
            revised, names = other, ("by", "period", "revision")
            actual = other.scope | {name: other.json[name] for name in names} | {"revision": other.json["revision"] + 1}
            check("revised statement", compare("revised", statement.scope | {name: one[name] for name in names}, actual))
        if other.sha256 not in (one["previous"], revises):
            check("chain", [f"chain: the statement names no earlier one with SHA-256 {other.sha256}"])
    if not has_previous:
        check("chain (--previous)", None)
    if revises and not revised:
        check("corrections (--previous)", None)
    recount, digest, figures, error = Recount(statement, revised and revised.closed), sha256(), None, []
    for number, line in enumerate(chain(evidence, [None]), 1):
        digest.update(line or b"")
        try:
            if not error:
                figures = recount.finish() if line is None else recount.add(number, line)
        except Wrong as wrong:
            error = [f"evidence row {recount.number}: {wrong}"]
    actual = {"sha256": digest.hexdigest()} | ({} if error else {"reports": recount.reports, "hours": recount.hours})
    found = [*compare("evidence", {name: one["evidence"][name] for name in actual}, actual), *error]
    check(f"evidence (reports: {recount.reports}, hours: {recount.hours})", found)
    if figures:
        found = [*order("lines", statement.keys), *compare("line", statement.lines, figures[0])]
        check(f"totals and lines ({len(recount.events)})", [*found, *compare("total", dict(paths(one["totals"])), figures[1])])
    if figures and revised:
        check("corrections", corrections(statement, revised, recount.late))


def main():
    parser = argparse.ArgumentParser(description="Verifies a monthly statement of Content Telemetry.")
    parser.add_argument("statement", type=Path)
    parser.add_argument("evidence", type=Path)
    parser.add_argument("--manifest", type=Path, help="manifest with the service's keys")
    parser.add_argument("--previous", type=Path, action="append", default=[], help="earlier statement that this one names")
    given, said, differences = parser.parse_args(), [], []

    def check(what, found):
        new = list(found or [])
        differences.extend(new)
        said.extend([] if new else [f"{'not checked' if found is None else 'verified'}: {what}"])

    try:
        statement = Statement(given.statement.read_bytes())
        one = statement.json
        operator = "all operators" if one["operator"] is None else one["operator"]
        said += [f"statement {one['number']} of {one['owner']['name']}: {one['period']}, revision {one['revision']}, {operator}"]
        said += [f"SHA-256: {statement.sha256}"]
        with given.evidence.open("rb") as evidence:
            verify(statement, evidence, [path.read_bytes() for path in given.previous], given.manifest and given.manifest.read_bytes(), check)
    except Wrong as wrong:
        differences.append(f"statement: {wrong}")
    said += [f"different: {difference}" for difference in differences[:20]] or [NOTE]
    said += [f"{len(differences) - 20} more differences"] if len(differences) > 20 else []
    sys.stdout.buffer.write("".join(f"{line}\n" for line in said).encode())
    sys.exit(1 if differences else 0)


if __name__ == "__main__":
    main()
