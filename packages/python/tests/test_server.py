"""The server by itself: rows, snapshots, faults."""

import pathlib
import socket

import pytest

from ovsdb_sim import ControlError, ProgramError, Server

ROWS = {"Logical_Switch": {"sw0": {"ports": ["sw0-p1"]}}, "Logical_Switch_Port": {"sw0-p1": {}}}


def test_rows_are_a_dict_a_text_or_a_file(ovsdb_sim):
    uuids = ovsdb_sim.insert_rows(ROWS)
    assert uuids["Logical_Switch"]["sw0"] in ovsdb_sim.dump()["Logical_Switch"]
    ovsdb_sim.insert_rows("Logical_Router: {lr0: {}}")
    ovsdb_sim.insert_rows(pathlib.Path("chassis.yaml"), "OVN_Southbound")
    assert ovsdb_sim.snapshot("OVN_Southbound").startswith("Chassis hv1\n")
    ovsdb_sim.assert_snapshot("rows.txt")
    with pytest.raises(ControlError, match='Logical_Switch sw1, column ports: there is no Logical_Switch_Port "p"'):
        ovsdb_sim.insert_rows({"Logical_Switch": {"sw1": {"ports": ["p"]}}})


def test_each_test_begins_without_the_rows_of_the_one_before(ovsdb_sim):
    assert ovsdb_sim.snapshot() == ovsdb_sim.snapshot("OVN_Southbound") == ""


@pytest.mark.ovsdb_sim(rows=ROWS)
@pytest.mark.ovsdb_sim(rows="chassis.yaml", database="OVN_Southbound")
def test_a_marker_has_the_rows_that_a_test_begins_with(ovsdb_sim):
    assert list(ovsdb_sim.insert_rows({"Port_Group": {"pg0": {"ports": ["sw0-p1"]}}})) == ["Port_Group"]
    assert "hv1" in ovsdb_sim.snapshot("OVN_Southbound")


def test_snapshots_are_kept_and_restored(ovsdb_sim):
    ovsdb_sim.insert_rows(ROWS)
    before = ovsdb_sim.snapshot()
    ovsdb_sim.keep("with a switch")
    results = ovsdb_sim.transact([{"op": "delete", "table": "Logical_Switch", "where": []}])
    assert results == [{"count": 1}]
    assert ovsdb_sim.snapshot() == ""
    ovsdb_sim.restore("with a switch")
    assert ovsdb_sim.snapshot() == before
    ovsdb_sim.reset(None)
    assert ovsdb_sim.snapshot() == ""


def test_a_difference_from_the_file_fails_and_an_update_writes_it(ovsdb_sim_server, tmp_path):
    ovsdb_sim_server.reset()
    ovsdb_sim_server.insert_rows(ROWS)
    path = tmp_path / "rows.txt"
    with pytest.raises(AssertionError, match="--ovsdb-sim-update writes it"):
        ovsdb_sim_server.assert_snapshot(path)
    ovsdb_sim_server.assert_snapshot(path, update=True)
    ovsdb_sim_server.assert_snapshot(path)
    ovsdb_sim_server.insert_rows({"Logical_Router": {"lr0": {}}})
    with pytest.raises(AssertionError):
        ovsdb_sim_server.assert_snapshot(path)


def test_faults_end_with_their_block(ovsdb_sim):
    with ovsdb_sim.fault({"refuse": {"error": {"error": "busy"}}}) as fault:
        assert (fault.is_set, fault.rule["times"]) == (True, 1)
    assert ovsdb_sim.faults() == []
    with ovsdb_sim.fault("stop_reading", times="always"):
        assert ovsdb_sim.faults()[0]["rule"]["times"] == "always"
    with pytest.raises(ControlError, match="explode"):
        with ovsdb_sim.fault("explode"):
            pass


def is_reachable(server):
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(server.remote.removeprefix("unix:")) == 0


def test_an_outage_ends_with_its_block(ovsdb_sim):
    with ovsdb_sim.outage():
        assert not is_reachable(ovsdb_sim)
    assert is_reachable(ovsdb_sim)


def test_a_server_of_ones_own_ends_with_its_block():
    with Server.start(["vswitch"], options=["--seed=1"]) as server:
        assert server.call("sim_stats")["databases"][0]["name"] == "Open_vSwitch"
        assert is_reachable(server)
    assert not is_reachable(server)


def test_a_server_that_does_not_start_says_why():
    with pytest.raises(ProgramError, match="cannot read /nowhere"):
        Server.start(["/nowhere"])
    with pytest.raises(ProgramError, match="/nowhere/ovsdb-sim"):
        Server.start(program_path="/nowhere/ovsdb-sim")
