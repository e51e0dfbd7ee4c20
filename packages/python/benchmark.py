"""Figures of docs/testing.md: start, reset and 1,000 tests, beside ovsdb-server.

    PYTHONPATH=packages/python/python python3 packages/python/benchmark.py

ovsdb-server has no reset, so a test with it begins with a new server, or deletes all rows itself.
"""

import json
import os
import pathlib
import socket
import statistics
import subprocess
import tempfile
import time

from ovsdb_sim import Server

SCHEMA = pathlib.Path(__file__).parent / "../../schemas/ovn-nb.ovsschema"
STARTS = 20
TESTS = 1_000
ROWS = {
    "Logical_Switch": {f"sw{n}": {"ports": [f"p{n}"]} for n in range(10)},
    "Logical_Switch_Port": {f"p{n}": {"addresses": "dynamic"} for n in range(10)},
}
ADD = [
    {"op": "insert", "table": "Logical_Switch_Port", "uuid-name": "p", "row": {"name": "p"}},
    {"op": "insert", "table": "Logical_Switch", "row": {"name": "sw", "ports": ["named-uuid", "p"]}},
]
CLEAR = [{"op": "delete", "table": table, "where": []} for table in ("Logical_Switch", "Logical_Router")]


class Client:
    """A connection with one request at a time."""

    def __init__(self, path):
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(path)
        self._decoder = json.JSONDecoder()
        self._text = ""

    def transact(self, operations):
        request = {"id": 1, "method": "transact", "params": ["OVN_Northbound", *operations]}
        self._socket.sendall(json.dumps(request).encode())
        while True:
            try:
                reply, end = self._decoder.raw_decode(self._text)
            except ValueError:
                self._text += self._socket.recv(1 << 16).decode()
                continue
            self._text = self._text[end:].lstrip()
            assert all(result and "error" not in result for result in reply["result"]), reply
            return

    def close(self):
        self._socket.close()


class RealServer:
    """ovsdb-server with an empty database."""

    def __init__(self):
        self._folder = tempfile.TemporaryDirectory()
        database, self.socket = (os.path.join(self._folder.name, name) for name in ("nb.db", "db.sock"))
        subprocess.run(["ovsdb-tool", "create", database, SCHEMA], check=True)
        command = ["ovsdb-server", "-vconsole:off", f"--remote=punix:{self.socket}", "--unixctl=none", database]
        self._child = subprocess.Popen(command, env={**os.environ, "OVS_RUNDIR": self._folder.name})
        while not is_open(self.socket):
            time.sleep(0.001)

    def stop(self):
        self._child.terminate()
        self._child.wait()
        self._folder.cleanup()


def is_open(path):
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(path) == 0


def seconds(work):
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def median_start(start):
    times = []
    for _ in range(STARTS):
        time, server = seconds(start)
        times.append(time)
        server.stop()
    return statistics.median(times)


def tests_with_deletion(client):
    def tests():
        for _ in range(TESTS):
            client.transact(CLEAR)
            client.transact(ADD)

    return seconds(tests)[0]


def show(text, time):
    print(f"{text:60} {time * 1000:10.2f} ms", flush=True)


def main():
    show("start, until a client can connect: ovsdb-sim", median_start(Server.start))
    show("start, until a client can connect: ovsdb-server", median_start(RealServer))

    with Server.start() as server:
        def reset():
            server.insert_rows(ROWS)
            return seconds(server.reset)[0]

        show("reset of 20 rows: ovsdb-sim", statistics.median(reset() for _ in range(STARTS)))
        client = Client(server.remote.removeprefix("unix:"))

        def tests():
            for _ in range(TESTS):
                server.reset()
                client.transact(ADD)

        show(f"{TESTS} tests of one transaction, with a reset: ovsdb-sim", seconds(tests)[0])
        show(f"{TESTS} tests that delete all rows themselves: ovsdb-sim", tests_with_deletion(client))

    real = RealServer()
    client = Client(real.socket)
    show(f"{TESTS} tests that delete all rows themselves: ovsdb-server", tests_with_deletion(client))
    real.stop()

    def tests_with_restart():
        for _ in range(STARTS):
            server = RealServer()
            client = Client(server.socket)
            client.transact(ADD)
            client.close()
            server.stop()

    show(f"{TESTS} tests with a server each: ovsdb-server", seconds(tests_with_restart)[0] * TESTS / STARTS)


if __name__ == "__main__":
    main()
