//! Rows of Open vSwitch's database on a node: bridges, and the devices of pods.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use patchbay_engine::db::Snapshot;
use patchbay_engine::txn::{BuildError, TxnBuilder};
use patchbay_schemas::datum::Datum;
use patchbay_schemas::typed::Column as _;
use patchbay_schemas::wire::Mutator;
use uuid::Uuid;

use super::databases::{DatabaseError, Lookup, NodeDatabase, SOCKET, rows, text, texts, value_of};
use super::node::{NodeId, NodeRole, TRIM_TIMEOUT_MS};
use super::{outside, underlay};

/// Socket of the wire between the nodes, in the folder of a node.
pub(crate) const CABLE_SOCKET: &str = "eth0.sock";
/// Setting of ovn-controller: the bridge of each physical network.
pub(crate) const MAPPINGS: &str = "ovn-bridge-mappings";
/// MTU in bytes of the wire between the nodes, so that tunnel packets fit.
const CABLE_MTU: i64 = 9000;

/// Device of a pod on a node's switch.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Device {
    /// Name of the device and of its socket in the folder of the node.
    pub(crate) name: String,
    /// Name of the logical switch port.
    pub(crate) port: String,
    /// UID of the pod, which ovn-controller compares with `iface-id-ver` of the logical switch
    /// port. Empty: the pod has none.
    pub(crate) pod_uid: String,
}

impl Device {
    /// Socket of the device in the folder of its node.
    pub(crate) fn socket(&self, folder: &Path) -> PathBuf {
        folder.join(format!("{}.sock", self.name))
    }

    /// `external_ids` of the interface, as a CNI plugin writes them.
    fn external_ids(&self) -> Datum {
        let port = ("iface-id", &*self.port);
        match &*self.pod_uid {
            "" => texts([port]),
            uid => texts([port, ("iface-id-ver", uid)]),
        }
    }
}

/// Ports of the devices on the integration bridge of a node.
#[derive(Debug)]
pub(crate) struct SwitchPorts {
    /// UUID of the bridge.
    bridge: Uuid,
    /// UUIDs of the ports by the names of their devices.
    devices: BTreeMap<String, Uuid>,
}

impl SwitchPorts {
    /// Writes the configuration of a switch, which has no devices of pods yet.
    pub(crate) async fn create(
        switch: &NodeDatabase,
        id: &NodeId,
        role: &NodeRole,
        folder: &Path,
    ) -> Result<Self, DatabaseError> {
        let bridge = write_switch(switch, id, role, folder).await?;
        Ok(Self { bridge, devices: BTreeMap::new() })
    }

    /// Names of the devices.
    pub(crate) fn names(&self) -> Vec<String> {
        self.devices.keys().cloned().collect()
    }

    /// Makes these devices those of the switch, beside the device of the wire between the nodes.
    pub(crate) async fn write(
        &mut self,
        switch: &NodeDatabase,
        folder: &Path,
        wanted: &[Device],
    ) -> Result<(), DatabaseError> {
        let Self { devices, bridge } = self;
        let mut added = Vec::new();
        let changed = switch.change(|txn| {
            for device in wanted.iter().filter(|d| !devices.contains_key(&d.name)) {
                let socket = format!("punix:{}", device.socket(folder).display());
                let interface = txn.insert_row(
                    "Interface",
                    [
                        ("name", text(&device.name)),
                        ("external_ids", device.external_ids()),
                        ("options", texts([("pstream", &socket)])),
                    ],
                )?;
                let port = txn.insert_row(
                    "Port",
                    [("name", text(&device.name)), ("interfaces", rows([interface]))],
                )?;
                txn.mutate_row("Bridge", *bridge, "ports", Mutator::Insert, rows([port]))?;
                added.push((device.name.clone(), port));
            }
            let removed: Vec<Uuid> = devices
                .iter()
                .filter(|(name, _)| wanted.iter().all(|device| device.name != **name))
                .map(|(_, port)| *port)
                .collect();
            if !removed.is_empty() {
                let removed = rows(removed);
                txn.mutate_row("Bridge", *bridge, "ports", Mutator::Delete, removed)?;
            }
            Ok(())
        });
        let inserted = changed.await?;
        devices.retain(|name, _| wanted.iter().any(|device| device.name == *name));
        let added = added.into_iter();
        devices.extend(added.map(|(name, port)| (name, inserted.uuid(port))));
        Ok(())
    }
}

/// `true` if ovn-controller has installed the flows of these devices.
pub(crate) fn are_installed(snapshot: &Snapshot, names: &[String]) -> bool {
    names.iter().all(|name| {
        let ids = value_of::<BTreeMap<String, String>>(
            snapshot,
            "Interface",
            "external_ids",
            |row: &Lookup<'_>| row.get::<String>("name").as_ref() == Some(name),
        );
        ids.is_some_and(|ids| ids.get("ovn-installed").is_some_and(|value| value == "true"))
    })
}

/// Requests that the switch reads its configuration, and reports this number then.
pub(crate) fn set_next_configuration(txn: &mut TxnBuilder, number: i64) -> Result<(), BuildError> {
    let snapshot = txn.snapshot().clone();
    let schema = snapshot.schema();
    let Some((table, _)) = schema.table_by_name("Open_vSwitch") else {
        return Ok(());
    };
    for row in snapshot.table(table).iter() {
        txn.set_row("Open_vSwitch", row.uuid, [("next_cfg", number.to_datum())])?;
    }
    Ok(())
}

/// Writes the configuration of a switch: the integration bridge, the bridge of the wire between the
/// nodes, in a zone that to the world outside, and the settings of ovn-controller. Returns the UUID
/// of the integration bridge.
async fn write_switch(
    switch: &NodeDatabase,
    id: &NodeId,
    role: &NodeRole,
    folder: &Path,
) -> Result<Uuid, DatabaseError> {
    let socket = |name: &str| format!("punix:{}", folder.join(name).display());
    let mac = underlay::format_mac(underlay::mac(id.number));
    let settings = controller_settings(id, role, folder);
    let mut integration = Uuid::nil();
    let written = switch.change(|txn| {
        let own = port(txn, "br-int", internal())?;
        integration = txn.insert_row(
            "Bridge",
            [
                ("name", text("br-int")),
                ("ports", rows([own])),
                ("fail_mode", text("secure")),
                ("other_config", texts([("disable-in-band", "true")])),
            ],
        )?;
        let own_physical = port(txn, "br-phys", internal())?;
        let cable = vec![
            ("options", texts([("pstream", &socket(CABLE_SOCKET))])),
            ("mtu_request", CABLE_MTU.to_datum()),
        ];
        let cable = port(txn, "eth0", cable)?;
        let physical = txn.insert_row(
            "Bridge",
            [
                ("name", text("br-phys")),
                ("ports", rows([own_physical, cable])),
                ("other_config", texts([("hwaddr", &mac)])),
            ],
        )?;
        let mut bridges = vec![integration, physical];
        if *role == NodeRole::Zone {
            let own_external = port(txn, outside::BRIDGE, internal())?;
            let options = texts([("pstream", &socket(outside::DEVICE_SOCKET))]);
            let device = port(txn, outside::DEVICE, vec![("options", options)])?;
            let external = txn.insert_row(
                "Bridge",
                [
                    ("name", text(outside::BRIDGE)),
                    ("ports", rows([own_external, device])),
                    ("fail_mode", text("secure")),
                    ("other_config", texts([("disable-in-band", "true")])),
                ],
            )?;
            bridges.push(external);
        }
        txn.insert_row(
            "Open_vSwitch",
            [
                ("bridges", rows(bridges)),
                // By default more for each core, which is hundreds of threads in a large lab.
                ("other_config", texts([("n-revalidator-threads", "1")])),
                ("external_ids", settings.to_datum()),
            ],
        )?;
        Ok(())
    });
    Ok(written.await?.uuid(integration))
}

/// Settings of ovn-controller.
fn controller_settings(id: &NodeId, role: &NodeRole, folder: &Path) -> BTreeMap<String, String> {
    let remote = match role {
        NodeRole::Host { southbound } => southbound.clone(),
        NodeRole::Zone | NodeRole::Central => format!("unix:{}", folder.join(SOCKET).display()),
    };
    let address = underlay::address(id.number).to_string();
    let common = [
        ("system-id", &*id.chassis),
        ("hostname", &*id.name),
        ("ovn-remote", &*remote),
        ("ovn-encap-type", "geneve"),
        ("ovn-encap-ip", &*address),
        ("ovn-monitor-all", "true"),
        // The cache is as large as everything else in ovn-controller, and labs of 40 nodes
        // recompute as quickly without it.
        ("ovn-enable-lflow-cache", "false"),
        ("ovn-trim-timeout-ms", TRIM_TIMEOUT_MS),
    ];
    let of_zones = [
        // Without it ovn-controller makes no tunnels to chassis of other zones.
        ("ovn-is-interconn", "true"),
        (MAPPINGS, outside::BRIDGE_MAPPINGS),
    ];
    let of_zones = of_zones.into_iter().filter(|_| *role == NodeRole::Zone);
    let all = common.into_iter().chain(of_zones);
    all.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Interface of a bridge itself.
pub(crate) fn internal() -> Vec<(&'static str, Datum)> {
    vec![("type", text("internal"))]
}

/// Inserts a port with its interface, which has these columns beside its name.
pub(crate) fn port(
    txn: &mut TxnBuilder,
    name: &str,
    interface: Vec<(&str, Datum)>,
) -> Result<Uuid, BuildError> {
    let columns = interface.into_iter().chain([("name", text(name))]);
    let interface = txn.insert_row("Interface", columns.collect::<Vec<_>>())?;
    txn.insert_row("Port", [("name", text(name)), ("interfaces", rows([interface]))])
}
