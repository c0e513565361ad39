"""Experiment 2: what 1,000 reports per second cost ClickHouse, with two and three tables, and what known keys cost at full speed."""

import argparse
import time

from blocks import PER_SECOND, Source, narrow, one_part_per_slice
from engine import Engine, log, median, sql, table
from writer import Writer

TWO = ("reports", "events")
THREE = ("observations", "reports_narrow", "events")
CORES, KNOWN_CPU = 0.12, 3.0
FULL_SPEED_ROWS = 20_000


def prepare(client, engine, stored, options):
    """Creates and fills the tables, and becomes the writer."""
    client.create("facts", "event_rows", "report_rows", "events", "reports", "reports_narrow", "observations", "writers", "progress",
                  events_settings=options.events_settings)
    writer = Writer(client, engine)
    source = Source(client, writer, stored, options.home)
    begun, cpu = time.monotonic(), engine.cpu()
    source.fill()
    log(f"stored {stored:,} events, {time.monotonic() - begun:.0f} s, {engine.cpu() - cpu:.0f} CPU-s")
    return writer, source


def fill_third(client):
    """Fills the narrow reports and the observations from the wide reports, so that three tables can be measured."""
    begun = time.monotonic()
    for name, columns in (("reports_narrow", narrow(client)), ("observations", "*")):
        client.run(f"INSERT INTO {name} SELECT {columns} FROM reports", settings=one_part_per_slice(4_000_000))
    client.run("DROP TABLE reports SYNC")
    client.wait_for_merges()
    log(f"filled the third table, {time.monotonic() - begun:.0f} s")


def idle(engine, seconds):
    cpu = engine.cpu()
    time.sleep(seconds)
    return (engine.cpu() - cpu) / seconds


class Run:
    """What the server uses while blocks are written, and then until no merge runs."""

    def __init__(self, client, engine):
        self.client, self.engine = client, engine
        self.cpu, self.merged, self.begun = engine.cpu(), client.merged_rows(), time.monotonic()

    def written(self):
        """Notes the time and the cores used until now: all blocks are written."""
        self.seconds = time.monotonic() - self.begun
        self.cores = (self.engine.cpu() - self.cpu) / self.seconds

    def merges_done(self, idle_cores):
        """Waits for merges. What an idle server would use meanwhile is not counted."""
        begun = time.monotonic()
        self.client.wait_for_merges(5)
        self.used = self.engine.cpu() - self.cpu - idle_cores * (time.monotonic() - begun)
        self.merged = self.client.merged_rows() - self.merged


def steady(client, engine, writer, source, tables, seconds):
    """Writes two blocks per second. Returns a line of the table of cases, and a line per kind of statement."""
    blocks = source.steady(seconds * PER_SECOND, tables)
    writer.statements.clear()
    writer.waits = 0
    idle_cores = idle(engine, 5)
    run, taken, late = Run(client, engine), [], 0
    for number, block in enumerate(blocks):
        wait = run.begun + number / PER_SECOND - time.monotonic()
        late += wait < -0.1
        time.sleep(max(wait, 0))
        begun = time.perf_counter()
        writer.write(block)
        taken.append(time.perf_counter() - begun)
    time.sleep(max(run.begun + seconds - time.monotonic(), 0))
    run.written()
    parts = [f"{name} {described(client.parts(name))}" for name in (*tables, "progress")]
    run.merges_done(idle_cores)
    rows = sum(block.rows for block in blocks)
    taken.sort()
    fetch = medians(writer.statements["fetch"])
    fetch_cores = sum(cpu for _, cpu in writer.statements["fetch"]) / run.seconds
    return {
        "tables": len(tables), "stored": f"{source.stored:,}", "reports": f"{rows:,}",
        "cores": f"{run.cores:.3f}", "of these fetches": f"{fetch_cores:.3f}", "idle cores": f"{idle_cores:.3f}", "CPU-s per 1M": f"{run.used * 1e6 / rows:.0f}",
        "ms per block": f"{median(taken) * 1000:.0f}", "p95": f"{taken[len(taken) * 95 // 100] * 1000:.0f}",
        "known keys per fetch": f"{median([block.known for block in blocks]):.0f}",
        "ms per fetch": fetch[0], "CPU ms per fetch": fetch[1],
        "merged rows per row": f"{run.merged / (rows * len(tables)):.1f}",
        "parts, bytes per row": ", ".join(parts),
        "slot waits": writer.waits, "late blocks": late,
    }, [[len(tables), f"{source.stored:,}", kind, len(samples), *medians(samples)] for kind, samples in writer.statements.items()]


def full_speed(client, engine, writer, source, count):
    """Writes blocks of 20,000 reports back-to-back, without and with known keys."""
    lines = []
    for percent in (0, 20, 50):
        blocks = source.full_speed(count, TWO, FULL_SPEED_ROWS, FULL_SPEED_ROWS * percent // 100)
        writer.statements.clear()
        idle_cores = idle(engine, 3)
        run = Run(client, engine)
        for block in blocks:
            writer.write(block)
        run.written()
        run.merges_done(idle_cores)
        rows = sum(block.rows for block in blocks)
        samples = writer.statements.get("fetch", [(0, 0)])
        fetch_cpu = median([cpu for _, cpu in samples]) * count * 1e6 / rows
        lines.append([percent, f"{rows:,}", f"{rows / run.seconds:,.0f}", f"{run.used * 1e6 / rows:.1f}", f"{fetch_cpu:.2f}",
                      *medians(samples), f"{run.merged / (2 * rows):.1f}"])
    return lines


def fetches(client, engine, source, repetitions):
    """Compares ways to fetch known rows: neighbors of an hour ago, and keys spread over everything, which read much more."""
    for name in ("sample", "keys"):
        client.run(f"CREATE TABLE {name} (site String, at DateTime64(3, 'UTC'), key UInt128) ENGINE = Memory")
    lines = []
    for count in (50, 500, 4000):
        near = source.rows("event_rows", source.late, count, 2, (0, 1000))
        spread = f"events WHERE key % {max(source.stored // count, 1)} = 7"
        for where, rows, times in (("neighbors", near, repetitions), ("spread", spread, 3)):
            client.run("TRUNCATE TABLE sample")
            client.run(f"INSERT INTO sample SELECT DISTINCT site, at, key FROM {rows} LIMIT {count}")
            for way, run in ways_to_fetch(client):
                samples = []
                for _ in range(times):
                    cpu, begun = engine.cpu(), time.perf_counter()
                    answer = run()
                    samples.append((time.perf_counter() - begun, engine.cpu() - cpu))
                keys = client.value("SELECT count() FROM sample")
                if answer.result_rows != keys:
                    raise SystemExit(f"{way}: fetched {answer.result_rows} rows of {keys} keys")
                lines.append([keys, where, way, times, *medians(samples), f"{answer.read_rows:,}"])
    client.run("DROP TABLE keys SYNC")
    client.run("DROP TABLE sample SYNC")
    return lines


def ways_to_fetch(client):
    """Returns ways to fetch the rows whose keys are in `sample`, as (name, function)."""
    data = client.run("SELECT * FROM sample FORMAT RowBinary").body
    text = client.run("SELECT toString(tuple(site, toString(at), toString(key))) FROM sample FORMAT TSVRaw").body.decode()
    literals = sql("fetch_tuple").replace("IN keys", f"IN ({', '.join(text.splitlines())})")
    return [
        ("external table", lambda: client.run(sql("fetch"), keys=data)),
        ("external table, FINAL", lambda: client.run(sql("fetch_final"), keys=data)),
        ("external table, tuples only", lambda: client.run(sql("fetch_tuple"), keys=data)),
        ("keys in a table", lambda: through_table(client, data)),
        ("literals", lambda: client.run(literals, settings={"max_query_size": len(literals) + 1024})),
    ]


def medians(samples):
    """Formats the medians of (wall, CPU) in milliseconds."""
    return [f"{median([sample[place] for sample in samples]) * 1000:.1f}" for place in (0, 1)]


def described(parts):
    rows = sum(part[1] for part in parts)
    return f"{len(parts)} ({sum(part[2] for part in parts) / max(rows, 1):.0f} B)"


def through_table(client, body):
    client.run("INSERT INTO keys FORMAT RowBinary\n", body)
    answer = client.run(sql("fetch"))
    client.run("TRUNCATE TABLE keys")
    return answer


def check(client, source, writer):
    """Fails if an event was lost, counted twice or has two live rows, or if a former writer can still write."""
    counted = client.run("SELECT count(), uniqExact(key) FROM events FINAL",
                         settings={"do_not_merge_across_partitions_select_final": 1}).rows()
    if counted != [[str(source.next), str(source.next)]]:
        raise SystemExit(f"expected {source.next} events, each once; found {counted}")
    body = client.run("SELECT * FROM events LIMIT 1 FORMAT RowBinary").body
    writer.assert_fenced("events", body)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=3, help="length of each case")
    parser.add_argument("--stored", default="1000000,30000000", help="events in the tables before a case")
    parser.add_argument("--home", default="month", choices=["month", "bucket"], help="how rows are divided into partitions")
    parser.add_argument("--tables", default="2,3", choices=["2", "2,3"], help="measure two tables, or two and three")
    parser.add_argument("--events-settings", default="", help="further settings of the table events, as in its DDL")
    parser.add_argument("--full-speed-blocks", type=int, default=15)
    parser.add_argument("--small", action="store_true", help="check that the script works; its figures mean nothing")
    options = parser.parse_args()
    repetitions = 10
    if options.small:
        options.minutes, options.stored, options.full_speed_blocks, repetitions = 20 / 60, "300000", 3, 3
    cases, statements = [], []
    for stored in map(int, options.stored.split(",")):
        with Engine("steady") as engine:
            client = engine.client()
            writer, source = prepare(client, engine, stored, options)
            seconds = round(options.minutes * 60)
            add(cases, statements, steady(client, engine, writer, source, TWO, seconds))
            if stored == int(options.stored.split(",")[-1]):
                fetched = fetches(client, engine, source, repetitions)
                fast = full_speed(client, engine, writer, source, options.full_speed_blocks)
            if options.tables == "2,3":
                fill_third(client)
                add(cases, statements, steady(client, engine, writer, source, THREE, seconds))
            check(client, source, writer)
    print("\n### Steady 1,000 reports per second\n")
    print(table(list(cases[0]), [list(case.values()) for case in cases]))
    print("\n### Statements of a block, medians\n")
    print(table(["tables", "stored", "statement", "n", "ms", "CPU ms"], statements))
    print("\n### Ways to fetch known rows, medians\n")
    print(table(["keys", "where", "way", "n", "ms", "CPU ms", "rows read"], fetched))
    print("\n### Blocks of 20,000 reports back-to-back, two tables\n")
    print(table(["% known", "reports", "reports per s", "CPU-s per 1M, merges included", "CPU-s per 1M of fetches", "ms per fetch",
                 "CPU ms per fetch", "merged rows per row"], fast))
    verdict(cases, fast)


def add(cases, statements, result):
    cases.append(result[0])
    statements.extend(result[1])
    log(f"{result[0]['tables']} tables, {result[0]['stored']} stored: {result[0]['cores']} cores")


def verdict(cases, fast):
    print()
    two = [float(case["cores"]) for case in cases if case["tables"] == 2]
    known = float(fast[1][4])
    print(f"two tables: {two[-1] / two[0]:.2f} times the cores of the smallest store; at most {max(two):.3f}, limit {CORES}")
    print(f"20 % known keys at full speed: {known:.2f} CPU-s per 1M for fetches, limit {KNOWN_CPU}")
    print("STOP: a limit is exceeded." if max(two) > CORES or known > KNOWN_CPU else "Go: both limits are met.")


if __name__ == "__main__":
    main()
