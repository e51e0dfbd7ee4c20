//! Labs with one database of all nodes: rows of VPCs, and wires of provider networks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use futures_util::future::try_join_all;
use ipnet::IpNet;
use patchbay_engine::db::Snapshot;
use patchbay_model::Databases;
use patchbay_reconcile::Cluster;
use patchbay_reconcile::northbound::Northbound as _;
use patchbay_resources::conversion::vpc_scene;
use patchbay_schemas::nb::{LogicalRouterPort, LogicalSwitch};

use super::{Central, Lab, LabError, LabWire, Zone};
use crate::node::{NodeId, NodeRole, ProviderBridge};
use crate::pods::{placed_in_networks, placed_in_vpcs};
use crate::provider_networks::{self, PlannedNetwork, host_mac};
use crate::wire::endpoint::{EndpointConfig, EndpointRole};
use crate::wire::physical::PhysicalWire;

/// Maximum number of transactions after each other until all rows of a VPC are there.
const MAX_PASSES: usize = 8;

impl Lab {
    /// Makes the databases those of this topology. Nodes of the other one go.
    pub(super) async fn set_databases(&mut self, databases: Databases) -> Result<(), LabError> {
        let is_central = databases == Databases::Central;
        if is_central == self.central.is_some() {
            return Ok(());
        }
        self.remove_nodes(|_| true);
        self.pods.clear();
        self.wires.clear();
        self.central = None;
        if is_central {
            let id = NodeId {
                name: Databases::CENTRAL.to_owned(),
                number: self.take_node_number(),
                chassis: String::new(),
            };
            let mut node = self.create_node(id, NodeRole::Central).await?;
            node.start(&self.release, &self.spawner).await?;
            let zone = Zone::new(Databases::CENTRAL, &node, self.uuids.fork());
            self.central = Some(Central { node, zone });
        }
        Ok(())
    }

    /// Writes the rows of all nodes, connects the pods, and makes the wires those of the cluster.
    pub(super) async fn write_central_rows(&mut self, cluster: &Cluster) -> Result<(), LabError> {
        let Some(central) = &mut self.central else {
            return Ok(());
        };
        // Rows that refer to new rows of other objects follow in the next pass.
        let mut warnings = Vec::new();
        for _ in 0..MAX_PASSES {
            warnings = central.zone.reconcile(Databases::CENTRAL, cluster).await?;
            if central.zone.reconciler.is_reconciled(cluster) {
                break;
            }
        }
        self.warnings.extend(warnings);
        let scene = vpc_scene(&cluster.inventory);
        let (mut pods, others) = placed_in_vpcs(&scene);
        self.warnings.extend(others);
        pods.extend(placed_in_networks(cluster));
        self.place_pods(pods);
        let (networks, without_wire) = provider_networks::planned(cluster, &scene);
        self.warnings.extend(without_wire);
        self.plug_wires(networks);
        self.write_devices().await?;
        for (name, one) in &self.nodes {
            let wires = self.wires.values();
            let of_node = wires.filter(|wire| wire.network.interfaces.contains_key(name));
            let bridges: Vec<_> = of_node.map(LabWire::bridge).collect();
            one.node.write_provider_bridges(&bridges).await?;
        }
        Ok(())
    }

    /// Makes the wires and their ends those of these provider networks.
    fn plug_wires(&mut self, networks: Vec<PlannedNetwork>) {
        // Hosts of one subnet are not behind the gateway of another one.
        let subnets = networks.iter().flat_map(|network| &network.subnets);
        let beside: Vec<IpNet> = subnets.flat_map(|subnet| subnet.ranges.clone()).collect();
        let mut kept = std::mem::take(&mut self.wires);
        for network in networks {
            let known = kept.remove(&network.name);
            // A wire with other ends is a new one.
            let wire = known.filter(|wire| wire.network == network).unwrap_or_else(|| {
                let wire = PhysicalWire::new(&network.name, self.questions.clone());
                LabWire {
                    gateways: self.add_gateways(&wire, &network, &beside),
                    wire,
                    network,
                    connected: BTreeSet::default(),
                    hosts: Mutex::default(),
                }
            });
            self.wires.insert(wire.network.name.clone(), wire);
        }
        for wire in self.wires.values_mut() {
            let bridge = wire.bridge();
            for (node, device_tag) in &wire.network.interfaces {
                if let Some(one) = self.nodes.get(node)
                    && wire.connected.insert(node.clone())
                {
                    wire.wire.connect(node, *device_tag, one.node.provider_socket(&bridge));
                }
            }
        }
    }

    /// Connects the gateways of a provider network's subnets. Returns their ports by subnet.
    fn add_gateways(
        &self,
        wire: &PhysicalWire,
        network: &PlannedNetwork,
        beside: &[IpNet],
    ) -> BTreeMap<String, usize> {
        let subnets = network.subnets.iter().filter(|subnet| subnet.has_gateway_host);
        let ports = subnets.map(|subnet| {
            let number = self.take_number();
            let config = EndpointConfig {
                number,
                role: EndpointRole::SubnetGateway { beside: beside.to_vec() },
                mac: host_mac(number),
                addresses: subnet.gateways.clone(),
                gateways: Vec::new(),
            };
            (subnet.name.clone(), wire.add_host(subnet.vlan, config))
        });
        ports.collect()
    }

    /// Waits until all switches forward packets as the database of all nodes requires.
    pub(super) async fn sync_central(&mut self) -> Result<(), LabError> {
        let Some(central) = &mut self.central else {
            return Ok(());
        };
        if !central.node.is_running() {
            return Ok(());
        }
        let mut running: Vec<_> = self
            .nodes
            .values_mut()
            .map(|one| &mut one.node)
            .filter(|node| node.is_running())
            .collect();
        try_join_all(running.iter_mut().map(|node| node.wait_for_ports())).await?;
        let chassis: Vec<String> = running.iter().map(|node| node.id.chassis.clone()).collect();
        central.node.wait_for_chassis(&chassis).await?;
        let places = LocalnetPlaces::read(&central.zone.reconciler.northbound().snapshot());
        for node in &mut running {
            let wires = self.wires.values();
            let of_node = wires.filter(|wire| wire.network.interfaces.contains_key(&node.id.name));
            let networks: Vec<&str> = of_node.map(|wire| &*wire.network.name).collect();
            let localnets = places.on(&node.id.chassis, &networks);
            node.wait_for_patches(&localnets).await?;
        }
        central.node.wait_for_claims(&places.hosted_by(&chassis)).await;
        // Flows of the patch ports and of the claimed ports.
        central.node.wait_for_chassis(&chassis).await?;
        try_join_all(running.iter().map(|node| node.purge())).await?;
        Ok(())
    }
}

impl LabWire {
    /// The bridge of each node of the wire.
    fn bridge(&self) -> ProviderBridge {
        ProviderBridge {
            network: self.network.name.clone(),
            bridge: self.network.bridge.clone(),
            device: format!("w-{}", self.network.name),
        }
    }
}

/// `localnet` ports of external subnets, with the chassis that may host ports of routers there.
struct LocalnetPlaces {
    localnets: Vec<LocalnetPlace>,
    /// Ports of routers that one chassis hosts, with the chassis that may.
    ports: Vec<(String, Vec<String>)>,
}

struct LocalnetPlace {
    localnet: String,
    network: String,
    chassis: Vec<String>,
}

impl LocalnetPlaces {
    fn read(northbound: &Snapshot) -> Self {
        let mut localnets = Vec::new();
        for (_, switch) in northbound.typed::<LogicalSwitch>().iter().flatten() {
            let ports: Vec<_> =
                switch.ports.iter().filter_map(|port| northbound.get(*port).ok()?).collect();
            let routers = ports.iter().filter_map(|port| port.options.get("router-port"));
            let chassis: Vec<String> =
                routers.flat_map(|name| chassis_of(northbound, name)).collect();
            for port in ports.iter().filter(|port| port.r#type == "localnet") {
                let network = port.options.get("network_name").cloned().unwrap_or_default();
                let localnet = port.name.clone();
                localnets.push(LocalnetPlace { localnet, network, chassis: chassis.clone() });
            }
        }
        let ports = northbound.typed::<LogicalRouterPort>();
        let ports = ports.iter().flatten().map(|(_, port)| {
            let chassis = chassis_of(northbound, &port.name);
            (port.name, chassis)
        });
        Self { localnets, ports: ports.collect() }
    }

    /// Names of the ports that one of these chassis may host.
    fn hosted_by(&self, chassis: &[String]) -> Vec<String> {
        let is_running = |one: &&(String, Vec<String>)| one.1.iter().any(|c| chassis.contains(c));
        self.ports.iter().filter(is_running).map(|(port, _)| port.clone()).collect()
    }

    /// Names of the `localnet` ports of these provider networks that a chassis has.
    fn on(&self, chassis: &str, networks: &[&str]) -> Vec<String> {
        let places = self.localnets.iter().filter(|place| {
            networks.contains(&&*place.network) && place.chassis.iter().any(|one| one == chassis)
        });
        places.map(|place| place.localnet.clone()).collect()
    }
}

/// Chassis that may host the port of a router.
fn chassis_of(northbound: &Snapshot, port: &str) -> Vec<String> {
    let ports = northbound.typed::<LogicalRouterPort>();
    let found = ports.iter().flatten().find(|(_, row)| row.name == port);
    let rows = found.map(|(_, row)| row.gateway_chassis).unwrap_or_default();
    let rows = rows.iter().filter_map(|row| northbound.get(*row).ok()?);
    rows.map(|row| row.chassis_name).collect()
}
