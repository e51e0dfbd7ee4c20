//! DHCP options of virtual machines in primary layer2 networks.

use std::net::IpAddr;

use ipnet::IpNet;
use patchbay_model::external_ids::key;
use patchbay_model::{AttachedTopology, IpFamily, PodPlace, Role};
use patchbay_schemas::nb::DhcpOptions;
use patchbay_zone::{MachineKey, ZoneObjects};

/// End of the name of a network's controller.
pub(super) const CONTROLLER: &str = "-network-controller";
/// Owner type of the rows.
pub(super) const OWNER_TYPE: &str = "VirtualMachine";
/// Time after which a machine renews its address, in seconds.
const LEASE_TIME: &str = "3500";
/// Address of the DHCP server that OVN plays.
const SERVER_ADDRESS: &str = "169.254.1.1";
/// MAC address of the server, made from its address.
const SERVER_MAC: &str = "0a:58:a9:fe:01:01";
/// Id of the server for IPv6: the MAC address made from `fe80::1`.
const SERVER_ID_V6: &str = "0a:58:6d:6d:c1:50";

/// Returns `true` if virtual machines get their addresses by DHCP in the network of this place.
pub(super) fn is_used(place: &PodPlace) -> bool {
    (place.network.topology, place.network.role) == (AttachedTopology::Layer2, Role::Primary)
}

/// Identity of a row: the machine in a subnet of its network.
pub(super) fn id(network: &str, machine: &MachineKey, subnet: IpNet) -> String {
    let (namespace, name) = (&machine.namespace, &machine.name);
    format!("{network}{CONTROLLER}:{OWNER_TYPE}:{namespace}/{name}:{}", cidr_key(subnet))
}

/// A subnet as a value of external ids.
fn cidr_key(subnet: IpNet) -> String {
    subnet.to_string().replace(':', ".")
}

/// The options of a virtual machine, one row for each subnet of its network.
pub(super) fn options(
    machine: &MachineKey,
    place: &PodPlace,
    inputs: &ZoneObjects,
    name_servers: &[IpAddr],
) -> Vec<DhcpOptions> {
    let network = &place.network;
    let rows = network.subnets.iter().map(|subnet| {
        let family = IpFamily::of_net(*subnet);
        let first = |addresses: &[IpAddr]| {
            let mut addresses = addresses.iter().copied();
            let found = addresses.find(|address| IpFamily::of(*address) == family);
            found.map(|address| address.to_string())
        };
        let name_server = first(name_servers);
        let host = Some(format!("\"{}\"", machine.name));
        let text = |text: &str| Some(text.to_owned());
        let options = match family {
            IpFamily::V4 => vec![
                ("lease_time", text(LEASE_TIME)),
                ("server_id", text(SERVER_ADDRESS)),
                ("server_mac", text(SERVER_MAC)),
                ("hostname", host),
                ("router", first(&place.addresses.gateways)),
                ("dns_server", name_server),
                ("mtu", Some(network.mtu.unwrap_or(inputs.settings().mtu).to_string())),
            ],
            IpFamily::V6 => {
                vec![("server_id", text(SERVER_ID_V6)), ("fqdn", host), ("dns_server", name_server)]
            }
        };
        let options = options.into_iter();
        let external_ids = [
            (key::OWNER_CONTROLLER, format!("{}{CONTROLLER}", network.name)),
            (key::OWNER_TYPE, OWNER_TYPE.to_owned()),
            (key::NAME, format!("{}/{}", machine.namespace, machine.name)),
            (key::CIDR, cidr_key(*subnet)),
            (key::ID, id(&network.name, machine, *subnet)),
            ("k8s.ovn.org/zone", "local".to_owned()),
        ];
        DhcpOptions {
            cidr: subnet.to_string(),
            options: options.filter_map(|(key, value)| Some((key.to_owned(), value?))).collect(),
            external_ids: external_ids.map(|(key, value)| (key.to_owned(), value)).into(),
        }
    });
    rows.collect()
}
