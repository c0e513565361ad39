"""Experiment 1: what reads of a large domain cost, by how `events` is divided into partitions."""

import argparse
import threading
import time

from engine import EXACT, Engine, SQL, call, log, median, sql, table

SITES = ["com.example", "com.example.news", "com.example.shop", "com.example.video"]
NOON_MS = 1_789_473_600_000
DAYS = 3
LARGE_PERCENT = 83
# Of a live block, the new events; 30 % of them are written again with a second report, half of these an hour later.
BLOCK, NEW, BLOCKS_PER_SECOND = 500, 385, 2
HOUR = 3600

# A name, a file in sql/reads and the seconds up to now, or None for everything.
READS = [
    ("summary", "summary", None),
    ("summary as in the API", "summary_reports", None),
    ("20 URLs with sessions", "urls", None),
    ("series by day and agent", "series", None),
    ("newest 100 and total", "page", None),
    ("summary of a day", "summary", 24 * HOUR),
    ("summary of an hour", "summary", HOUR),
    ("summary of ten minutes", "summary", 600),
]
LIMITS = {"summary": 1.5, "summary of ten minutes": 0.060}


class Data:
    """The generated events: `stored` before the live blocks, at equal distances over three days."""

    def __init__(self, rows, home_by):
        self.stored = rows * 100 // LARGE_PERCENT
        self.step_us = DAYS * 86_400_000_000 // self.stored
        self.fixed = {"base": self.stored, "step_us": self.step_us, "live_step_us": 1_000_000 // (BLOCKS_PER_SECOND * NEW),
                      "large_percent": LARGE_PERCENT, "home_by": home_by}

    def events(self, first, rows, version, reports=2, pick=(0, 1000)):
        return call("event_rows", first=first, rows=rows, **self.fixed, reports=reports, version=version,
                    pick_from=pick[0], pick_to=pick[1])

    def slices(self):
        """In order of time: large slices, then ever smaller ones. Each is inserted as one part."""
        first = 0
        while first < self.stored:
            left = self.stored - first
            rows = min(self.stored // 24, max(left // 2, BLOCK), left)
            yield first, rows
            first += rows


def fill(client, data, events_settings):
    client.create("facts", "event_rows", "events", events_settings=events_settings)
    settings = {"max_insert_threads": 1, "min_insert_block_size_rows": data.stored, "min_insert_block_size_bytes": 0}
    for seq, (first, rows) in enumerate(data.slices()):
        client.run(f"INSERT INTO events SELECT * EXCEPT(number) FROM {data.events(first, rows, (1 << 40) + seq)}",
                   settings=settings)
    client.wait_for_merges()


def live_blocks(client, data, count):
    """Returns `count` blocks in the Native format: new events, events of the last minute and events of an hour ago."""
    late_first = max(data.stored - HOUR * 1_000_000 // data.step_us, 0)
    late_rows = min(count * NEW, data.stored - late_first)
    parts = [
        (data.events(data.stored, count * NEW, 0, 1), f"intDiv(number - {data.stored}, {NEW})"),
        (data.events(data.stored, count * NEW, 0, 2, (700, 850)), f"intDiv(number - {data.stored}, {NEW}) + 2 + number % 117"),
        (data.events(late_first, late_rows, 0, 2, (850, 1000)), f"intDiv((number - {late_first}) * {count}, {late_rows})"),
    ]
    selects = " UNION ALL ".join(f"SELECT toUInt32({block}) AS block, * EXCEPT(number) FROM {rows}" for rows, block in parts)
    client.run("CREATE TABLE live ENGINE = MergeTree ORDER BY block AS SELECT * REPLACE(bitShiftLeft(toUInt64(2), 40) + block AS version)"
               f" FROM ({selects})")
    blocks = [client.run(f"SELECT * EXCEPT(block) FROM live WHERE block = {block} FORMAT Native").body for block in range(count)]
    client.run("DROP TABLE live SYNC")
    return blocks


class Live(threading.Thread):
    """Inserts two blocks per second until it is told to stop or none is left."""

    def __init__(self, engine, blocks):
        super().__init__(daemon=True)
        self.client, self.blocks = engine.client(), blocks
        self.inserted, self.error, self.ended = 0, None, threading.Event()

    def run(self):
        begun = time.monotonic()
        try:
            for number, block in enumerate(self.blocks):
                if self.ended.wait(max(begun + number / BLOCKS_PER_SECOND - time.monotonic(), 0)):
                    return
                self.client.run("INSERT INTO events FORMAT Native\n", block,
                                {"async_insert": 0, "max_insert_threads": 1, "insert_deduplicate": 0})
                self.inserted += 1
        except Exception as error:  # reported by the main thread
            self.error = error

    def now_ms(self):
        return NOON_MS + self.inserted * 1000 // BLOCKS_PER_SECOND

    def is_running(self):
        if self.error:
            raise self.error
        return self.is_alive()


def read(client, live, name, seconds):
    until = live.now_ms() + 1
    since = until - 1000 * seconds if seconds else 0
    sites = "[" + ",".join(f"'{site}'" for site in SITES) + "]"
    return client.run(sql(f"reads/{name}") + "\nFORMAT TabSeparated",
                      settings={**EXACT, "param_sites": sites, "param_since_ms": since, "param_until_ms": until})


def measure(engine, client, live, repetitions):
    """Returns the samples of each read as (wall, CPU with background, answer), and the background's cores."""
    samples = {name: [] for name, _, _ in READS}
    background, quiet = 0.0, 0.0
    for repetition in range(repetitions + 1):
        for name, file, seconds in READS:
            cpu = engine.cpu()
            answer = read(client, live, file, seconds)
            # The first repetition warms up.
            if repetition and live.is_running():
                samples[name].append((answer.seconds, engine.cpu() - cpu, answer))
        cpu, begun = engine.cpu(), time.monotonic()
        time.sleep(2)
        background, quiet = background + engine.cpu() - cpu, quiet + time.monotonic() - begun
        if not live.is_running():
            break
    return samples, background / quiet


def run(home_by, options):
    data = Data(options.rows, home_by)
    with Engine(f"layout-{home_by}") as engine:
        client = engine.client()
        begun, cpu = time.monotonic(), engine.cpu()
        fill(client, data, options.events_settings)
        log(f"{home_by}: stored {data.stored:,} events, {time.monotonic() - begun:.0f} s, {engine.cpu() - cpu:.0f} CPU-s")
        parts = client.parts("events")
        size = sum(part[2] for part in parts)
        columns = client.run("SELECT column, round(sum(column_data_compressed_bytes) / sum(rows), 1) AS size FROM system.parts_columns "
                             "WHERE active AND table = 'events' AND part_type = 'Wide' GROUP BY column HAVING size >= 0.5 ORDER BY size DESC").rows()
        live = Live(engine, live_blocks(client, data, options.live_seconds * BLOCKS_PER_SECOND))
        client.wait_for_merges()
        live.start()
        time.sleep(options.warm_up)
        samples, background = measure(engine, client, live, options.repetitions)
        end = client.parts("events")
        live.ended.set()
        live.join()
        check(client, data, live)
    print(f"\n### home = {home_by}\n")
    print(f"{len(parts)} parts of {', '.join(f'{rows:,}' for _, rows, _ in parts[:8])} … rows before the live blocks, "
          f"{len(end)} after {live.inserted} blocks. {size / data.stored:.0f} bytes per row on disk.")
    print(f"Bytes per row by column: {', '.join(f'{column} {size}' for column, size in columns)}.")
    print(f"Live blocks and merges: {background:.2f} cores, subtracted from the CPU of reads.\n")
    figures = {}
    rows = []
    for name, taken in samples.items():
        wall = median([seconds for seconds, _, _ in taken])
        used = median([max(spent - background * seconds, 0) for seconds, spent, _ in taken])
        figures[name] = wall
        rows.append([name, len(taken), f"{wall * 1000:.0f}", f"{used * 1000:.0f}",
                     f"{median([answer.read_rows for _, _, answer in taken]):,.0f}",
                     f"{max((answer.memory for _, _, answer in taken), default=0) / 2**20:.0f}"])
    print(table(["read", "n", "wall ms", "CPU ms", "rows read", "peak MiB"], rows), flush=True)
    return figures


def check(client, data, live):
    """Fails if reads don't count every event once."""
    counted = client.run("SELECT count(), uniqExact(key) FROM events FINAL", settings=EXACT).rows()
    expected = str(data.stored + live.inserted * NEW)
    if counted != [[expected, expected]]:
        raise SystemExit(f"expected {expected} events, each once; found {counted}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=23_000_000, help="events of the large domain")
    parser.add_argument("--variants", default="month,bucket,week", help="of month, bucket, week, day, host")
    parser.add_argument("--events-settings", default="", help="further settings of the table events, as in its DDL")
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--warm-up", type=int, default=45, help="seconds of live blocks before the first read")
    parser.add_argument("--live-seconds", type=int, default=300, help="seconds of live blocks, the warm-up included")
    parser.add_argument("--small", action="store_true", help="check that the script works; its figures mean nothing")
    options = parser.parse_args()
    if options.small:
        options.rows, options.repetitions, options.warm_up, options.live_seconds = 300_000, 3, 4, 60
    figures = {name: run(name, options) for name in options.variants.split(",")}
    print()
    for name, limit in LIMITS.items():
        best = min(figures, key=lambda variant: figures[variant][name])
        print(f"{name}: best is {best} with {figures[best][name] * 1000:.0f} ms, limit {limit * 1000:.0f} ms")
    if all(any(not of[name] <= limit for name, limit in LIMITS.items()) for of in figures.values()):
        print("STOP: every variant exceeds a limit.")
    else:
        print("Go: at least one variant meets both limits.")


if __name__ == "__main__":
    main()
