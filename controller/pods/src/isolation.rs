//! Isolation of pods with a primary network from the default network: ports that stay open.

use patchbay_model::external_ids::key;
use patchbay_model::{OpenPort, Pod, PodKey};
use patchbay_schemas::nb::{Acl, AclAction, AclDirection};

/// Name of the port group with the ports on the default network of pods that have a primary
/// network.
pub(super) const ISOLATED_PORTS: &str = "a8747502060113802905";
/// Owner of the rows: the controller of the default network.
pub(super) const OWNER: &str = "default-network-controller";
/// Owner type of the rows.
pub(super) const OWNER_TYPE: &str = "UDNIsolation";
/// Start of the names of ACLs that open ports, before namespace and name of the pod.
pub(super) const OPEN_PORT: &str = "OpenPort-";
const PRIORITY: i64 = 1001;

/// The ACLs that leave ports of a pod open.
pub(super) fn open_ports(pod: &Pod) -> Vec<Acl> {
    if pod.open_ports.is_empty() {
        return Vec::new();
    }
    let open = pod.open_ports.iter().map(|port| match port {
        OpenPort::Icmp => "icmp".to_owned(),
        OpenPort::Port(protocol, number) => {
            format!("{}.dst == {number}", protocol.as_str().to_ascii_lowercase())
        }
    });
    let open = open.collect::<Vec<_>>().join(" || ");
    let port = pod.key.default_port();
    let ingress = format!("outport == \"{port}\" && (arp || nd || ({open}))");
    let egress = format!("inport == \"{port}\" && (arp || nd)");
    vec![
        acl(&pod.key, AclDirection::ToLport, AclAction::AllowRelated, ingress),
        acl(&pod.key, AclDirection::FromLport, AclAction::Allow, egress),
    ]
}

fn acl(pod: &PodKey, direction: AclDirection, action: AclAction, matched: String) -> Acl {
    let word = match direction {
        AclDirection::FromLport => "Egress",
        AclDirection::ToLport => "Ingress",
    };
    let name = format!("{OPEN_PORT}{pod}");
    let id = format!("{OWNER}:{OWNER_TYPE}:{name}:{word}");
    let external_ids = [
        (key::OWNER_CONTROLLER, OWNER),
        (key::OWNER_TYPE, OWNER_TYPE),
        (key::NAME, &name),
        ("direction", word),
        (key::ID, &id),
    ];
    Acl {
        priority: PRIORITY,
        action,
        direction,
        r#match: matched,
        meter: Some("acl-logging".to_owned()),
        external_ids: external_ids.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
        ..Acl::default()
    }
}
