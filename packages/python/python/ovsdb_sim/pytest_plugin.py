"""Fixtures: one server for a run, reset for each test."""

import pathlib

import pytest

from ovsdb_sim.server import Server

UPDATE_OPTION = "--ovsdb-sim-update"


def pytest_addoption(parser):
    parser.addini("ovsdb_sim_schemas", "schemas that the server has, by name or path", "args")
    parser.addini("ovsdb_sim_rows", "files of rows that are there at the start of each test", "args")
    parser.addini("ovsdb_sim_options", "further options of the program", "args")
    parser.getgroup("ovsdb-sim").addoption(
        UPDATE_OPTION, action="store_true", help="write the files of snapshots instead of comparing them"
    )


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "ovsdb_sim(rows, database=None): rows that the test begins with; a path is relative to its file"
    )


@pytest.fixture(scope="session")
def ovsdb_sim_server(pytestconfig):
    """The server of the run. Override it for other schemas or options."""
    rows = [pathlib.Path(pytestconfig.rootpath, path) for path in pytestconfig.getini("ovsdb_sim_rows")]
    schemas, options = (pytestconfig.getini(f"ovsdb_sim_{name}") for name in ("schemas", "options"))
    with Server.start(schemas, rows, options) as server:
        yield server


class TestServer:
    """The server of the run for one test, which begins with the rows of its marker."""

    __test__ = False

    def __init__(self, server, request):
        self._server = server
        self._folder = request.path.parent
        self._update = request.config.getoption(UPDATE_OPTION)

    def __getattr__(self, name):
        return getattr(self._server, name)

    def insert_rows(self, rows, database=None):
        """As of Server. A path is relative to the file of the test."""
        if isinstance(rows, pathlib.PurePath):
            rows = self._folder / rows
        return self._server.insert_rows(rows, database)

    def assert_snapshot(self, path, database=None):
        """Compares all rows with a file beside that of the test; --ovsdb-sim-update writes it."""
        self._server.assert_snapshot(self._folder / path, database, self._update)


@pytest.fixture
def ovsdb_sim(ovsdb_sim_server, request):
    """A server with the rows of its start, no faults, and the connections of earlier tests."""
    ovsdb_sim_server.reset()
    server = TestServer(ovsdb_sim_server, request)
    for marker in request.node.iter_markers("ovsdb_sim"):
        _insert(server, **marker.kwargs)
    return server


def _insert(server, rows, database=None):
    # In a marker, a text is the name of a file.
    server.insert_rows(pathlib.PurePath(rows) if isinstance(rows, str) else rows, database)
