"""A database in an object store (an S3 server on this machine): exclusive entries, leases, engine writes, sweeping."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

SERVER = """
    import sys, time
    import boto3
    from moto.server import ThreadedMotoServer
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    client = boto3.client("s3", endpoint_url=url, aws_access_key_id="k", aws_secret_access_key="s",
                          region_name="us-east-1")
    client.create_bucket(Bucket="lake")
    print(url, flush=True)
    sys.stdin.read()
"""

WORK = """
    import sys
    import pyarrow as pa
    import viewkeeper as vk
    from viewkeeper.catalog.data_files import place_of
    from viewkeeper.catalog.settings import Settings
    from viewkeeper.log.object_storage import ObjectStorage
    from viewkeeper.log.turns import sweep_turns, turn
    import viewkeeper.engine.engine as engine_module
    import viewkeeper.transaction.row_changes as rowwise

    options = {"aws_access_key_id": "k", "aws_secret_access_key": "s", "aws_region": "us-east-1",
               "aws_endpoint": sys.argv[1], "aws_allow_http": "true"}
    few = vk.Tuning(flushed_batches=3)
    storage = ObjectStorage("s3://lake/plain", options)
    assert storage.create("x/1", b"one", "entry") is True
    assert storage.create("x/1", b"two", "entry") is False
    assert storage.read("x/1") == b"one" and storage.read("x/2") is None
    assert storage.head("x/1", 2) == b"on" and storage.head("x/1", 9) == b"one" and storage.head("x/2", 9) is None
    assert [item.path for item in storage.list("x")] == ["x/1"]
    storage.delete(["x/1", "x/2"])
    assert storage.read("x/1") is None

    with vk.connect("s3://lake/db", engine="sail", storage_options=options) as db:
        db.sql("CREATE TABLE t (a BIGINT PRIMARY KEY, b STRING); INSERT INTO t VALUES (1, 'x'), (2, 'y')")
        with vk.connect("s3://lake/db", engine="sail", storage_options=options) as other:
            other.sql("UPDATE t SET b = 'z' WHERE a = 1")
        assert db.sql("SELECT * FROM t ORDER BY a").rows() == [(1, "z"), (2, "y")]
        assert db.sql("SELECT b FROM t ORDER BY a AS OF EPOCH 2").rows() == [("x",), ("y",)]
        one, two = db.transaction(), db.transaction()
        one.insert("t", [(5, "one")])
        two.insert("t", [(5, "two")])
        one.commit()
        try:
            two.commit()
            raise SystemExit("two writers got the same key")
        except vk.errors.Conflict:
            pass
        with db.transaction() as tx:
            tx.insert("t", pa.table({"a": range(100, 150_100), "b": ["k"] * 150_000}))
        assert db.sql("SELECT count(*), max(a) FROM t").rows() == [(150_003, 150_099)]
        db.sql("DELETE FROM t WHERE a >= 1000")
        db.compact()
        del tx, one, two  # their changes can still be asked for, which keeps the files
        swept = db.vacuum(grace=0)
        assert swept.files > 0
        assert db.sql("SELECT count(*) FROM t").rows() == [(903,)]
        assert db.sql("SELECT count(*) FROM t AS OF EPOCH 5").rows() == [(150_003,)]
    with vk.connect("s3://lake/db", engine="sail", storage_options=options) as db:
        assert db.sql("SELECT count(*) FROM t").rows() == [(903,)]

    with vk.connect("s3://lake/small", engine="sail", storage_options=options, tuning=few) as db:
        db.sql("CREATE TABLE t (a BIGINT PRIMARY KEY, b STRING)")
        for number in range(7):
            db.sql(f"INSERT INTO t VALUES ({number}, 'x')")
        db._store.housekeeping.wait()
        assert sum(file.is_inlined for file in db._store.state.find("t").files) < 7
        assert db.vacuum(grace=0).bytes > 0
        with vk.connect("s3://lake/small", engine="sail", storage_options=options) as other:
            assert other.sql("SELECT count(*), sum(a) FROM t").rows() == [(7, 21)]
            assert other.sql("SELECT count(*) FROM t AS OF EPOCH 4").rows() == [(3,)]
            other.compact()
            assert other.sql("SELECT count(*) FROM t AS OF EPOCH 7").rows() == [(6,)]

    with vk.connect("s3://lake/keys", engine="sail", storage_options=options) as db:
        db.sql("CREATE TABLE t (a BIGINT PRIMARY KEY, b STRING)")
        with db.transaction() as tx:
            tx.insert("t", pa.table({"a": range(250_000), "b": [f"b{n}" for n in range(250_000)]}))
    with vk.connect("s3://lake/keys", engine="sail", storage_options=options) as db:
        spans = []
        ranges = db._store.storage.ranges
        db._store.storage.ranges = lambda path, wanted: spans.extend(wanted) or ranges(path, wanted)
        with db.transaction() as tx:
            assert tx.delete_by_key("t", [(7,), (170_000,), (249_999,)]) == 3
            assert set(tx.preview()["t"].weights()) == {(7, "b7"), (170_000, "b170000"), (249_999, "b249999")}
        size = sum(file.size for file in db._store.state.find("t").files)
        assert 0 < sum(stop - start for start, stop in spans) < size / 2, "pages of the files, not all of them"
        assert db.sql("SELECT count(*) FROM t").rows() == [(249_997,)]

    with turn(storage, "r", "me") as mine, turn(storage, "r", "you") as yours, turn(storage, "s", "you") as other:
        assert (mine, yours, other) == (True, False, True)
    with turn(storage, "r", "you") as yours:
        assert yours
    storage.write("turns/old.json", b'{"holder": "dead", "until": 1.0}', "turn")
    sweep_turns(storage)
    assert storage.list("turns") == []
    with vk.connect("s3://lake/rules", engine="sail", storage_options=options) as db:
        db.sql("CREATE TABLE t (a BIGINT); CREATE TABLE log (a BIGINT)")
        db.sql("CREATE RULE r DETACHED ON t DO INSERT INTO log SELECT a FROM inserted")
        with vk.connect("s3://lake/rules", engine="sail", storage_options=options) as other:
            for number in range(4):
                (db, other)[number % 2].sql(f"INSERT INTO t VALUES ({number})")
        while db._store.refresh().waiting:
            db.wait_for_rules()
        assert sorted(db.sql("SELECT a FROM log").rows()) == [(0,), (1,), (2,), (3,)]

    def refused(action, message):
        try:
            action()
        except vk.errors.StorageError as problem:
            assert message in problem.message, problem
        else:
            raise SystemExit(f"no error: {message}")

    def insert(db, key):
        with db.transaction() as tx:
            tx.insert("t", [(key, "late")])

    storage = ObjectStorage("s3://lake/db", options)
    with vk.connect("s3://lake/db", engine="sail", storage_options=options) as db:
        number = db._store.state.number + 1
        with vk.connect("s3://lake/db", engine="sail", storage_options=options) as other:
            for key in (-1, -2, -3):
                insert(other, key)
        lost = f"ledger/{number:012d}.json"
        good = storage.read(lost)
        storage.delete([lost])
        refused(lambda: insert(db, -4), f"{lost} is missing, but the ledger goes on to entry {number + 2}")
        refused(lambda: vk.connect("s3://lake/db", engine="sail", storage_options=options), f"{lost} is missing")
        assert storage.read(lost) is None
        storage.write(lost, good, "test")
        insert(db, -4)
        file = max((file for file in db._store.state.find("t").files if file.rows == 1), key=lambda f: f.first_epoch)
        assert file.is_inlined
        entry, _ = place_of(file.path)
        data = bytearray(storage.read(entry))
        data[-20] ^= 1
        storage.write(entry, bytes(data), "test")
    with vk.connect("s3://lake/db", engine="sail", storage_options=options) as db:
        refused(lambda: db.compact("t"), f"the data file {file.path} is damaged")
        by_engine = f"SELECT count(*) FROM t AS OF EPOCH {db.epoch}"
        refused(lambda: db.sql(by_engine).rows(), f"the data file {file.path} is damaged")
    print("done")
"""


@pytest.fixture
def server() -> Iterator[str]:
    """An S3 server, in a process of its own."""
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(SERVER)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        lines = (line for line in process.stdout if line.startswith("http"))
        try:
            yield next(lines).strip()
        finally:
            process.kill()


def test_a_database_in_an_object_store(server: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(WORK), server],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.stdout == "done\n", done.stderr[-3000:]
