"""A server for tests: rows, faults, snapshots."""

import contextlib
import os
import pathlib
import time

from ovsdb_sim import program
from ovsdb_sim.control import Control

# Snapshot with the rows that the server had at its start.
START = "start"
SYNC_TIMEOUT = 60
SYNC_INTERVAL = 0.005


class Fault:
    """A fault that is set, inside of ``with server.fault(...)``."""

    def __init__(self, server, status):
        self._server = server
        self.id = status["id"]
        self.rule = status["rule"]

    @property
    def is_set(self):
        """True until the fault has struck as often as it should."""
        return any(status["id"] == self.id for status in self._server.faults())


class Server:
    """A running server. ``remote`` is for OVSDB clients, ``control`` the address of the control API."""

    def __init__(self, process):
        self._process = process
        self.remote = process.remote
        self.control = process.control
        self._control = Control(process.control)

    @classmethod
    def start(cls, schemas=(), rows=(), options=(), program_path=None):
        """Starts a server with empty databases.

        ``schemas`` are names (northbound, southbound, vswitch, ic-northbound, ic-southbound, vtep) or
        paths; without any, OVN_Northbound is served. ``rows`` are paths of files of rows, ``options``
        further options of the program.
        """
        arguments = [f"--schema={schema}" for schema in schemas]
        arguments += [f"--rows={path}" for path in rows]
        return cls(program.Process([*arguments, *options], program_path))

    def stop(self):
        """Ends the server."""
        self._control.close()
        self._process.stop()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def log(self):
        """Returns the server's log."""
        return self._process.log()

    def call(self, method, *params):
        """Calls any method of the control API: ``server.call("sim_stats")``."""
        return self._control.call(method, list(params))

    def reset(self, snapshot=START):
        """Returns to the rows of a snapshot, by default those at the start, and clears faults.
        Connections stay. ``None``: no rows."""
        self.call("sim_reset", snapshot)

    def insert_rows(self, rows, database=None):
        """Inserts rows by table and name. ``rows`` is a dict, a text of YAML or JSON, or the path of
        such a file. Returns the UUIDs by table and name."""
        if isinstance(rows, os.PathLike):
            rows = pathlib.Path(rows).read_text(encoding="utf-8")
        return self.call("sim_insert_rows", rows, database)

    def transact(self, operations, database=None):
        """Executes operations in RFC 7047 notation, and returns their results."""
        return self.call("sim_transact", operations, database)

    def dump(self, database=None):
        """Returns all rows by table and UUID, in RFC 7047 notation."""
        return self.call("sim_dump", database)

    def snapshot(self, database=None):
        """Returns the text of all rows, with names in place of UUIDs: equal for equal content."""
        return self.call("sim_text", database)

    def assert_snapshot(self, path, database=None, update=False):
        """Compares the text of all rows with a file, or writes the file."""
        path, text = pathlib.Path(path), self.snapshot(database)
        if update:
            path.write_text(text, encoding="utf-8")
            return
        wanted = path.read_text(encoding="utf-8") if path.exists() else ""
        # Two variables, of which pytest shows the difference.
        assert text == wanted, f"{path} differs from the rows; --ovsdb-sim-update writes it"

    def keep(self, name):
        """Keeps the present rows under a name, for ``restore`` and ``reset``."""
        self.call("sim_snapshot", name)

    def restore(self, name):
        """Returns to the rows of a snapshot."""
        self.call("sim_restore", name)

    @contextlib.contextmanager
    def fault(self, fault, times=1, connections="all"):
        """Sets a fault, and clears it at the end of the block.

            with server.fault({"lose_reply": "disconnected"}):
                ...

        ``times`` is a number or ``"always"``. The README of ovsdb-sim lists the faults.
        """
        rule = {"fault": fault, "times": times, "connections": connections}
        status = Fault(self, self.call("sim_set_fault", rule))
        try:
            yield status
        finally:
            if status.is_set:
                self.call("sim_clear_faults", status.id)

    def faults(self):
        """Returns the faults that are set."""
        return self.call("sim_faults")

    @contextlib.contextmanager
    def outage(self):
        """Closes all listeners and connections, until the end of the block."""
        self.call("sim_go_down")
        try:
            yield
        finally:
            self.call("sim_come_back")

    def sync(self, idl, run=None, timeout=SYNC_TIMEOUT):
        """Waits until an IDL of python-ovs has the rows of the server: those after a reset, for
        example. ``run`` makes the IDL read, such as ``idl.run``, if no thread does."""
        database = idl._db.name
        end = time.monotonic() + timeout
        while True:
            if run:
                run()
            if _has_rows(idl, self.dump(database)):
                return
            if time.monotonic() > end:
                raise TimeoutError(f"the IDL does not have the rows of {database} after {timeout} s")
            time.sleep(SYNC_INTERVAL)


def _has_rows(idl, wanted):
    try:
        return all(_has_table(table, wanted[name]) for name, table in list(idl.tables.items()))
    except RuntimeError:
        # A thread has changed the rows meanwhile.
        return False


def _has_table(table, wanted):
    rows = dict(table.rows.items())
    if {str(uuid) for uuid in rows} != set(wanted):
        return False
    return all(_has_values(row, wanted[str(uuid)]) for uuid, row in rows.items())


def _has_values(row, wanted):
    values = (row._data or {}).items()
    return all(_normal(datum.to_json()) == _normal(wanted[column]) for column, datum in values)


def _normal(value):
    """Sets and maps, whose order is arbitrary."""
    if isinstance(value, list) and value and value[0] in ("set", "map"):
        elements = sorted(repr(element) for element in value[1])
        return elements if value[0] == "map" or len(elements) != 1 else elements[0]
    return repr(value)
