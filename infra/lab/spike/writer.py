"""The writer's statements: fenced by an epoch and a slot, each sent as one body that the server reads before it starts."""

import secrets
import string
import time

from engine import ServerError, sql

FENCED, SLOT_IN_USE = 395, 216

# One part per partition, written when the statement returns, with no other thread of the server involved.
ONE_PART = {"async_insert": 0, "max_insert_threads": 1, "input_format_parallel_parsing": 0, "insert_deduplicate": 0}


class Writer:
    """Writes as the holder of one epoch."""

    def __init__(self, client, engine):
        self.client, self.engine = client, engine
        self.structures = {}
        self.statements = {}
        self.waits = 0
        self.epoch, self.slot, self.seq = self.take_over()

    def take_over(self):
        """Takes the next epoch by a compare-and-set, then waits until no statement of the previous one runs."""
        client = self.client
        if not client.value("SELECT count() FROM writers"):
            client.run(f"INSERT INTO writers VALUES (0, '', '{secrets.token_hex(16)}', now64(3))")
        slots = {int(epoch): slot for epoch, slot in client.run("SELECT epoch, slot FROM writers").rows()}
        epoch, slot, name = max(slots), secrets.token_hex(16), secrets.token_hex(4)
        self.send(fill_in("take_over", epoch=epoch, writer=name, slot=slot), b"", slots[0])
        if client.run(f"SELECT writer FROM writers WHERE epoch = {epoch + 1}").rows() != [[name]]:
            raise SystemExit("another writer took the epoch")
        self.send("SELECT 1", b"", slots[epoch])
        return epoch + 1, slot, 0

    def send(self, statement, body, slot):
        """Sends a statement under a slot, again as long as the slot is in use."""
        settings = {"query_id": slot, "max_query_size": len(statement) + len(body) + 1024, **ONE_PART}
        while True:
            try:
                return self.client.run(statement, body, settings)
            except ServerError as error:
                if error.code != SLOT_IN_USE:
                    raise
                self.waits += 1
                time.sleep(0.001)

    def measured(self, kind, run):
        """Runs a statement and notes its wall time and the CPU time that the server used meanwhile."""
        cpu, begun = self.engine.cpu(), time.perf_counter()
        answer = run()
        self.statements.setdefault(kind, []).append((time.perf_counter() - begun, self.engine.cpu() - cpu))
        return answer

    def insert(self, table, body):
        statement = fill_in("insert", table=table, structure=self.structure(table), epoch=self.epoch) + "\n"
        self.measured(table, lambda: self.send(statement, body, self.slot))

    def progress(self, next_offset):
        statement = fill_in("insert_progress", epoch=self.epoch, seq=self.seq, next_offset=next_offset)
        self.measured("progress", lambda: self.send(statement, b"", self.slot))
        self.seq += 1

    def fetch(self, keys):
        """Fetches the current rows of known keys, which are sent as data. Returns the number of rows."""
        return self.measured("fetch", lambda: self.client.run(sql("fetch"), keys=keys)).result_rows

    def structure(self, table):
        """Returns the columns of a table for `input()`, to be put between quotes."""
        if table not in self.structures:
            columns = self.client.run("SELECT name, type FROM system.columns WHERE database = 'spike' "
                                      f"AND table = '{table}' ORDER BY position FORMAT TSVRaw").rows()
            self.structures[table] = ", ".join(f"`{name}` {kind}" for name, kind in columns).replace("'", "\\'")
        return self.structures[table]

    def write(self, block):
        """Writes one block: known keys are fetched first, and `events` is inserted last but for the offsets."""
        if block.keys:
            fetched = self.fetch(block.keys)
            if fetched != block.known:
                raise SystemExit(f"fetched {fetched} rows of {block.known} known keys")
        for table, body in block.bodies.items():
            self.insert(table, body)
        self.progress(self.seq)

    def assert_fenced(self, table, body):
        """Takes the next epoch and checks that a statement of the old one fails."""
        old = self.epoch, self.slot
        taken = self.take_over()
        try:
            self.insert(table, body)
        except ServerError as error:
            if error.code == FENCED:
                self.epoch, self.slot, self.seq = taken
                return
            raise
        raise SystemExit(f"epoch {old[0]} still writes after epoch {taken[0]} took over")


def fill_in(name, **values):
    return string.Template(sql(name)).substitute(values)
