"""Generates the rows of blocks inside ClickHouse and returns them as RowBinary bodies."""

from engine import call

HOUR_US = 3_600_000_000
STEP_US = 1250  # 800 new events per second and 200 second reports
PER_SECOND = 2
LARGE_PERCENT = 50
# Draws of the events that get a second report within a minute and an hour later: 125 of 1,000 each.
HOT, LATE, ALL = (700, 825), (825, 950), (0, 1000)


class Block:
    """What is sent for one block: bodies by table in the order of insertion, the number of reports and the keys to fetch."""

    def __init__(self, bodies, rows, keys, known):
        self.bodies, self.rows, self.keys, self.known = bodies, rows, keys, known


class Source:
    """Generates events in order of time. The first `stored` numbers fill the tables, blocks continue from there."""

    def __init__(self, client, writer, stored, home_by):
        self.client, self.writer, self.stored, self.next = client, writer, stored, stored
        self.late = max(stored - HOUR_US // STEP_US, 0)
        self.fixed = {"base": stored, "step_us": STEP_US, "live_step_us": STEP_US, "large_percent": LARGE_PERCENT,
                      "home_by": home_by}

    def rows(self, view, first, rows, reports, pick):
        return call(view, first=first, rows=rows, **self.fixed, reports=reports, version=1 << 40, pick_from=pick[0], pick_to=pick[1])

    def fill(self, slice_rows=2_000_000):
        """Fills `events` and `reports` in slices, each of which becomes one part."""
        settings = one_part_per_slice(2 * slice_rows)
        for first in range(0, self.stored, slice_rows):
            rows = min(slice_rows, self.stored - first)
            for table, view, reports in (("reports", "report_rows", 3), ("events", "event_rows", 2)):
                self.client.run(f"INSERT INTO {table} SELECT * EXCEPT(number) FROM {self.rows(view, first, rows, reports, ALL)}",
                                settings=settings)
        self.client.wait_for_merges()

    def steady(self, count, tables, new=400):
        """Returns blocks of new events and second reports: half within a minute, half an hour later, which are fetched."""
        first, late = self.next, self.take_late(count * new)
        before = min(120 * new, first)
        return self.staged(count, tables, [
            (first, count * new, ALL, 1, f"intDiv(number - {first}, {new})", "new"),
            (first - before, before + count * new, HOT, 2, f"intDiv(number + 120 * {new} - {first}, {new}) - 118 + number % 117", "hot"),
            (late, count * new, LATE, 2, f"intDiv(number - {late}, {new})", "late"),
        ], count * new)

    def full_speed(self, count, tables, rows, known):
        """Returns blocks of `rows` reports, of which `known` are second reports of events of an hour ago."""
        first, late, new = self.next, self.take_late(count * known), rows - known
        parts = [(first, count * new, ALL, 1, f"intDiv(number - {first}, {new})", "new")]
        if known:
            parts.append((late, count * known, ALL, 2, f"intDiv(number - {late}, {known})", "late"))
        return self.staged(count, tables, parts, count * new)

    def take_late(self, numbers):
        taken = self.late
        self.late += numbers
        if self.late > self.stored:
            raise SystemExit("too few stored events for so many second reports")
        return taken

    def staged(self, count, tables, parts, used):
        """Generates all rows with one statement per table and reads them back block by block."""
        client, writer = self.client, self.writer
        for view in ("event_rows", "report_rows"):
            selects = " UNION ALL ".join(
                f"SELECT toInt64({block}) AS block, '{kind}' AS kind, * EXCEPT(number) FROM "
                + self.rows(view, first, rows, reports, pick)
                for first, rows, pick, reports, block, kind in parts)
            version = f"toUInt64({(writer.epoch << 40) + writer.seq} + block) AS version"
            client.run(f"CREATE TABLE staged_{view} ENGINE = MergeTree ORDER BY block AS SELECT * REPLACE({version}) FROM ({selects}) "
                       f"WHERE block >= 0 AND block < {count}")
        blocks = [self.block(number, tables) for number in range(count)]
        for view in ("event_rows", "report_rows"):
            client.run(f"DROP TABLE staged_{view} SYNC")
        self.next += used
        client.wait_for_merges()
        return blocks

    def block(self, number, tables):
        client = self.client
        wide = client.run(f"SELECT * EXCEPT(block, kind) FROM staged_report_rows WHERE block = {number} FORMAT RowBinary")
        bodies = {}
        for table in tables:
            if table == "events":
                statement = f"SELECT * EXCEPT(block, kind) FROM staged_event_rows WHERE block = {number} FORMAT RowBinary"
                bodies[table] = client.run(statement).body
            elif table == "reports_narrow":
                statement = f"SELECT {narrow(client)} FROM staged_report_rows WHERE block = {number} FORMAT RowBinary"
                bodies[table] = client.run(statement).body
            else:
                bodies[table] = wide.body
        keys = client.run(f"SELECT site, at, key FROM staged_event_rows WHERE block = {number} AND kind = 'late' FORMAT RowBinary")
        return Block(bodies, wide.result_rows, keys.body, keys.result_rows)


def narrow(client):
    """Returns the columns of `reports_narrow`."""
    return client.run("SELECT arrayStringConcat(groupArray(name), ', ') FROM "
                      "(SELECT name FROM system.columns WHERE table = 'reports_narrow' ORDER BY position)").rows()[0][0]


def one_part_per_slice(rows):
    return {"max_insert_threads": 1, "min_insert_block_size_rows": rows, "min_insert_block_size_bytes": 0}
