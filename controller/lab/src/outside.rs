//! The world outside of the cluster: a host behind the gateway of each node, and the bridge to it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::process::Stdio;

use ipnet::IpNet;
use patchbay_engine::db::Snapshot;
use patchbay_reconcile::Cluster;
use patchbay_resources::conversion::egress_ip;
use patchbay_schemas::nb::{LogicalRouterPort, LogicalSwitch};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use super::databases::value_of;

/// Bridge to the world outside.
pub(crate) const BRIDGE: &str = "br-ex";
/// Device of that bridge.
pub(crate) const DEVICE: &str = "out0";
/// Socket of the device in the folder of a node.
pub(crate) const DEVICE_SOCKET: &str = "out0.sock";
/// Value of `ovn-bridge-mappings`: networks lead to this physical network.
pub(crate) const BRIDGE_MAPPINGS: &str = "physnet:br-ex";
/// Name of the physical network.
const PHYSICAL_NETWORK: &str = "physnet";
/// Table of the bridge for answers to EgressIPs, after their destination was translated back.
const ANSWER_TABLE: u8 = 1;
/// Zone of connection tracking in which EgressIPs replace addresses: OVN-Kubernetes' one.
const EGRESS_ZONE: u16 = 64_000;
/// Marks of replies of served pods, and of their packets for nodes.
const COMMON_MARKS: [u32; 2] = [42, 1008];
/// Addresses of the hosts outside: those that RFC 5737 and RFC 3849 reserve for documentation.
const RANGES: [&str; 4] = ["192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32"];

/// `true` if a host outside has this address.
pub(crate) fn has_address(address: IpAddr) -> bool {
    let mut ranges = RANGES.iter().filter_map(|range| range.parse::<IpNet>().ok());
    ranges.any(|range| range.contains(&address))
}

/// `true` if a host of the internet may have this address. Addresses of documentation are among
/// them.
pub(crate) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            let [first, second, ..] = address.octets();
            let is_shared = first == 100 && second & 0xc0 == 64;
            let is_special = address.is_private() || address.is_loopback() || is_shared;
            !is_special && !address.is_link_local() && (1..224).contains(&first)
        }
        // Global unicast (RFC 4291 section 2.4, as far as it is assigned).
        IpAddr::V6(address) => address.segments()[0] & 0xe000 == 0x2000,
    }
}

/// Address that a node gives to packets with a mark on their way outside: that of an EgressIP.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct MarkedSource {
    mark: u32,
    address: IpAddr,
}

/// Addresses of EgressIPs that a node has. Those without a mark are left out.
pub(crate) fn marked_sources(cluster: &Cluster, node: &str) -> Vec<MarkedSource> {
    let objects = cluster.inventory.egress_ips.iter();
    let egress_ips = objects.map(|(_, object)| egress_ip(&object.object));
    let sources = egress_ips.flat_map(|egress_ip| {
        let assignments = egress_ip.assignments.into_iter();
        let own = assignments.filter(|assignment| *assignment.node == *node);
        own.filter_map(move |assignment| {
            Some(MarkedSource { mark: egress_ip.mark?, address: assignment.address })
        })
    });
    sources.collect()
}

/// Marks that rows of EgressIPs give to packets which may cross nodes. Empty: there are none.
pub(crate) fn marks(cluster: &Cluster) -> BTreeSet<u32> {
    let objects = cluster.inventory.egress_ips.iter();
    let own = objects.filter_map(|(_, object)| egress_ip(&object.object).mark);
    let mut marks: BTreeSet<u32> = own.collect();
    if !marks.is_empty() {
        marks.extend(COMMON_MARKS);
    }
    marks
}

/// Way of a network to the bridge: its patch port on the bridge, and the addresses by which its
/// gateway router is reached.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Exit {
    patch: String,
    addresses: Vec<IpAddr>,
}

/// The ways of a node's networks to the bridge.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Exits(Vec<Exit>);

impl Exits {
    /// Reads the switches that lead to the physical network, with the router ports beside.
    pub(crate) fn read(northbound: &Snapshot) -> Self {
        let mut exits = Vec::new();
        for (_, switch) in northbound.typed::<LogicalSwitch>().iter().flatten() {
            let ports: Vec<_> =
                switch.ports.iter().filter_map(|port| northbound.get(*port).ok()?).collect();
            let mut physical = ports.iter().filter(|port| {
                let network = port.options.get("network_name");
                port.r#type == "localnet" && network.is_some_and(|name| name == PHYSICAL_NETWORK)
            });
            let Some(localnet) = physical.next() else {
                continue;
            };
            let routers = ports.iter().filter_map(|port| port.options.get("router-port"));
            exits.push(Exit {
                // ovn-controller's name of the patch port.
                patch: format!("patch-{}-to-br-int", localnet.name),
                addresses: routers.flat_map(|name| addresses_of(northbound, name)).collect(),
            });
        }
        Self(exits)
    }

    /// OpenFlow flows of the bridge. `None`: the switch has not made all patch ports yet.
    ///
    /// Gateway routers of several networks have one Ethernet address and one address of the node,
    /// so packets find their network by its masquerade address. OVN-Kubernetes does the same in
    /// `br-ex`, where it also replaces that address by the node's. Packets with the mark of an
    /// EgressIP get its address, as there; answers to it get the masquerade address back before
    /// they find their network.
    pub(crate) fn flows(&self, switch: &Snapshot, sources: &[MarkedSource]) -> Option<String> {
        let number = |name: &str| {
            let number = value_of::<i64>(switch, "Interface", "ofport", |row| {
                row.get::<String>("name").is_some_and(|found| found == name)
            });
            number.filter(|number| *number > 0)
        };
        let device = number(DEVICE)?;
        let mut owners = BTreeMap::<IpAddr, usize>::new();
        for address in self.0.iter().flat_map(|exit| &exit.addresses) {
            *owners.entry(*address).or_default() += 1;
        }
        let mut flows = format!("priority=10,actions=output:{device}\n");
        let mut all = String::new();
        for exit in &self.0 {
            let patch = number(&exit.patch)?;
            // Strings do not fail.
            let _ = write!(all, ",output:{patch}");
            let own = exit.addresses.iter().filter(|address| owners[address] == 1);
            for address in own {
                let field = destination_field(*address);
                let _ = writeln!(
                    flows,
                    "priority=30,in_port={device},{field}={address},actions=output:{patch}\n\
                     table={ANSWER_TABLE},{field}={address},actions=output:{patch}"
                );
            }
        }
        for MarkedSource { mark, address } in sources {
            let protocol = if address.is_ipv4() { "ip" } else { "ipv6" };
            let field = destination_field(*address);
            let _ = writeln!(
                flows,
                "priority=40,pkt_mark={mark},{protocol},actions=ct(commit,zone={EGRESS_ZONE},\
                 nat(src={address})),output:{device}\n\
                 priority=40,in_port={device},{field}={address},actions=ct(zone={EGRESS_ZONE},nat,\
                 table={ANSWER_TABLE})"
            );
        }
        // ARP and neighbour discovery of the gateway, which all routers may learn.
        let all = all.strip_prefix(',').unwrap_or("drop");
        let _ = writeln!(flows, "priority=20,in_port={device},actions={all}");
        Some(flows)
    }
}

/// Match on a destination address, without the address.
fn destination_field(address: IpAddr) -> &'static str {
    if address.is_ipv4() { "ip,nw_dst" } else { "ipv6,ipv6_dst" }
}

fn addresses_of(northbound: &Snapshot, port: &str) -> Vec<IpAddr> {
    let ports = northbound.typed::<LogicalRouterPort>();
    let found = ports.iter().flatten().find(|(_, row)| row.name == port);
    let networks = found.map(|(_, row)| row.networks).unwrap_or_default();
    let addresses = networks.iter().filter_map(|text| text.parse::<IpNet>().ok());
    addresses.map(|network| network.addr()).collect()
}

/// Makes these flows those of the bridge. `command`: ovs-ofctl. `environment`: that of the node.
///
/// # Errors
/// The program does not run or refuses the flows; its message.
pub(crate) async fn replace_flows(
    command: Vec<OsString>,
    environment: Vec<(&'static str, std::path::PathBuf)>,
    flows: &str,
) -> Result<(), String> {
    let mut words = command.into_iter();
    let program = words.next().unwrap_or_default();
    let mut child = Command::new(program)
        .args(words)
        // The first version with tables and marks of packets.
        .args(["--protocols=OpenFlow13", "replace-flows", BRIDGE, "-"])
        .envs(environment)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        // Ctrl-C is for the lab.
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| error.to_string())?;
    if let Some(mut input) = child.stdin.take() {
        let written = input.write_all(flows.as_bytes()).await;
        written.map_err(|error| error.to_string())?;
    }
    let output = child.wait_with_output().await.map_err(|error| error.to_string())?;
    if output.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
    }
}
