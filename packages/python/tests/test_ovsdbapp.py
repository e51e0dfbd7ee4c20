"""ovsdbapp, whose tests keep one connection per class."""

import pathlib

import pytest

pytest.importorskip("ovsdbapp", reason="ovsdbapp is not installed")
from ovsdbapp.backend.ovs_idl import connection  # noqa: E402
from ovsdbapp.schema.ovn_northbound import impl_idl as northbound  # noqa: E402
from ovsdbapp.schema.ovn_southbound import impl_idl as southbound  # noqa: E402

TIMEOUT = 60


def connect(server, database, api):
    idl = connection.OvsdbIdl.from_server(server.remote, database)
    return api(connection.Connection(idl, timeout=TIMEOUT))


@pytest.fixture(scope="class")
def connected(ovsdb_sim_server):
    api = connect(ovsdb_sim_server, "OVN_Northbound", northbound.OvnNbApiIdlImpl)
    yield api
    api.ovsdb_connection.stop(TIMEOUT)


@pytest.fixture
def api(connected, ovsdb_sim):
    ovsdb_sim.sync(connected.idl)
    return connected


class TestNorthbound:
    @pytest.mark.parametrize("number", range(3))
    def test_a_switch_with_ports(self, api, ovsdb_sim, number):
        # Without the reset, the second one would exist.
        switch = api.ls_add("sw0").execute(check_error=True)
        with api.transaction(check_error=True) as transaction:
            transaction.add(api.lsp_add("sw0", "sw0-p1", addresses=["dynamic"]))
            transaction.add(api.db_set("Logical_Switch", "sw0", ("other_config", {"subnet": "10.0.0.0/24"})))
        assert [port.name for port in api.lsp_list("sw0").execute(check_error=True)] == ["sw0-p1"]
        assert switch.name == "sw0"
        ovsdb_sim.assert_snapshot("switch.txt")

    @pytest.mark.ovsdb_sim(rows={"Logical_Router": {"lr0": {}}})
    def test_rows_that_are_there(self, api):
        api.lr_nat_add("lr0", "snat", "192.0.2.1", "10.0.0.0/24").execute(check_error=True)
        (nat,) = api.lr_nat_list("lr0").execute(check_error=True)
        assert nat.external_ip == "192.0.2.1"

    def test_an_error_of_the_server(self, api, ovsdb_sim):
        full = {"fail_commit": {"error": "I/O error", "details": "No space left on device"}}
        with ovsdb_sim.fault(full) as fault:
            with pytest.raises(RuntimeError, match="No space left on device"):
                api.ls_add("sw0").execute(check_error=True)
            assert not fault.is_set
        assert ovsdb_sim.snapshot() == ""


class TestSouthbound:
    def test_a_chassis(self, ovsdb_sim):
        ovsdb_sim.insert_rows(pathlib.Path("chassis.yaml"), "OVN_Southbound")
        api = connect(ovsdb_sim, "OVN_Southbound", southbound.OvnSbApiIdlImpl)
        (chassis,) = api.chassis_list().execute(check_error=True)
        assert (chassis.name, chassis.hostname) == ("hv1", "hv1.example")
        api.ovsdb_connection.stop(TIMEOUT)
