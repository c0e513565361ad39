"""Starts a private ClickHouse server and sends it statements over HTTP."""

import ctypes
import http.client
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import time
import urllib.parse
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
SQL = HERE / "sql"

# What reads must set so that FINAL is exact, whatever the version's defaults are.
EXACT = {
    "do_not_merge_across_partitions_select_final": 1,
    "optimize_move_to_prewhere_if_final": 0,
    "use_query_condition_cache": 0,
    "use_skip_indexes_if_final": 0,
    "enable_shared_storage_snapshot_in_query": 1,
}


class ServerError(Exception):
    """An error response of ClickHouse, with its code."""

    def __init__(self, code, text):
        super().__init__(text.strip()[:2000])
        self.code = code


class Answer:
    """The body of a response, the seconds it took and the counters of the server."""

    def __init__(self, body, seconds, summary):
        self.body, self.seconds = body, seconds
        self.read_rows = int(summary.get("read_rows", 0))
        self.result_rows = int(summary.get("result_rows", 0))
        self.memory = int(summary.get("memory_usage", 0))

    def rows(self):
        """Returns the fields of a TabSeparated response."""
        return [line.split("\t") for line in self.body.decode().splitlines()]


class Client:
    """One connection. Not for use by several threads."""

    def __init__(self, port):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=900)
        self.used = time.monotonic()

    def run(self, statement, body=b"", settings=None, keys=None):
        """Sends a statement, followed by the data in `body` if it is an INSERT.

        `keys` are rows of the external table `keys` in RowBinary.
        """
        parameters = {"database": "spike", "wait_end_of_query": 1, **(settings or {})}
        headers = {}
        content = statement.encode() + body
        if keys is not None:
            parameters |= {"query": statement, "keys_format": "RowBinary", "keys_structure": KEYS}
            headers["Content-Type"] = "multipart/form-data; boundary=spike"
            head = b'--spike\r\nContent-Disposition: form-data; name="keys"; filename="keys"\r\n\r\n'
            content = head + keys + b"\r\n--spike--\r\n"
        # The server closes connections that were idle for 30 s.
        if time.monotonic() - self.used > 10:
            self.connection.close()
        begun = time.perf_counter()
        self.connection.request("POST", "/?" + urllib.parse.urlencode(parameters), content, headers)
        response = self.connection.getresponse()
        answer = response.read()
        seconds, self.used = time.perf_counter() - begun, time.monotonic()
        if response.status != 200:
            raise ServerError(int(response.headers.get("X-ClickHouse-Exception-Code", 0)), answer.decode(errors="replace"))
        return Answer(answer, seconds, json.loads(response.headers.get("X-ClickHouse-Summary", "{}")))

    def value(self, statement):
        """Returns the only value of a statement as an integer."""
        return int(self.run(statement).body)

    def create(self, *names, events_settings=""):
        """Creates tables and views from their files. `events_settings` are further settings of the table `events`."""
        for name in names:
            self.run(sql(name) + (f", {events_settings}" if name == "events" and events_settings else ""))

    def merges(self):
        return self.value("SELECT count() FROM system.merges")

    def wait_for_merges(self, quiet=3):
        """Waits until no merge has run for `quiet` seconds."""
        since = time.monotonic()
        while time.monotonic() - since < quiet:
            time.sleep(0.2)
            if self.merges():
                since = time.monotonic()

    def parts(self, table):
        """Returns the parts of a table, largest first, as (partition, rows, bytes)."""
        statement = ("SELECT partition, rows, bytes_on_disk FROM system.parts "
                     f"WHERE active AND database = 'spike' AND table = '{table}' ORDER BY rows DESC")
        return [(partition, int(rows), int(size)) for partition, rows, size in self.run(statement).rows()]

    def merged_rows(self):
        return self.value("SELECT sum(value) FROM system.events WHERE event = 'MergedRows'")


KEYS = "site String, at DateTime64(3, 'UTC'), key UInt128"


class Engine:
    """A ClickHouse of our own in `.local/spike`, with a free port and new data. Ends with this process."""

    def __init__(self, name):
        self.folder = ROOT / ".local" / "spike" / name
        shutil.rmtree(self.folder, ignore_errors=True)
        (self.folder / "data").mkdir(parents=True)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        arguments = [launcher(), "clickhouse-server", "--library", library(), "--data", self.folder / "data",
                     "--http-port", str(self.port)]
        with open(self.folder / "server.log", "wb") as log:
            self.process = subprocess.Popen(arguments, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            start_new_session=True, preexec_fn=end_with_parent)
        try:
            self.wait_until_ready()
        except BaseException:
            self.stop()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def wait_until_ready(self):
        for _ in range(600):
            if self.process.poll() is not None:
                raise SystemExit(f"ClickHouse didn't start, see {self.folder / 'server.log'}")
            try:
                Client(self.port).run("CREATE DATABASE IF NOT EXISTS spike ENGINE = Atomic", settings={"database": "default"})
                return
            except (OSError, http.client.HTTPException):
                time.sleep(0.1)
        raise SystemExit("ClickHouse didn't respond within 60 s")

    def client(self):
        return Client(self.port)

    def cpu(self):
        """Returns the CPU seconds of the server process: utime + stime of /proc/PID/stat, in nanoseconds instead of ticks."""
        # The id of another process's CPU clock, as clock_getcpuclockid(3) makes it.
        return time.clock_gettime((~self.process.pid << 3) | 2)

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder / "data", ignore_errors=True)


def end_with_parent():
    # PR_SET_PDEATHSIG: no server is left behind if this process is killed.
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def launcher():
    path = ROOT / ".local" / "bin" / "local"
    if not path.exists():
        raise SystemExit("run `cargo local start` once: it installs .local/bin/local and downloads ClickHouse")
    return path


def library():
    caches = [Path("/var/cache"), Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))]
    found = [path for cache in caches for path in cache.glob("content-telemetry/clickhouse-*/libchdb.so")]
    if not found:
        raise SystemExit("run `cargo local start` once: it downloads ClickHouse")
    return max(found, key=lambda path: path.stat().st_mtime)


def sql(name):
    return (SQL / f"{name}.sql").read_text().strip()


def call(view, **parameters):
    """Returns a FROM clause for one of the parameterized views."""
    return f"{view}({', '.join(f'{name} = {value!r}' for name, value in parameters.items())})"


def table(head, rows):
    """Formats a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(str(cell) for cell in line)} |" for line in lines)


def median(values):
    return statistics.median(values) if values else float("nan")


def log(text):
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)
