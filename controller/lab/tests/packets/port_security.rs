//! Port security: networks, single addresses, and elements that cannot be read.

use patchbay_lab::{Lab, Protocol};
use patchbay_schemas::nb::LogicalSwitchPort;

use crate::support::{ask_promised, cluster, manifests, release};

#[tokio::test(flavor = "multi_thread")]
async fn port_security_allows_a_network_only_if_its_address_has_no_host_bits() {
    let Some(release) = release() else { return };
    let cluster = cluster(&manifests(&[("red", "Layer2", "10.3.0.0/16")]));
    let mut lab = Lab::start(release, &cluster).await.unwrap();
    let before = lab.northbound("n1").unwrap();
    let ports = before.typed::<LogicalSwitchPort>();
    let mut rows = ports.iter().flatten();
    let (port, row) = rows.find(|(_, row)| row.name.ends_with("_red-1")).unwrap();
    let element = row.addresses.first().unwrap();
    let (mac, address) = element.split_once(' ').unwrap();
    for (security, passes) in [
        (vec![format!("{mac} {address}")], true),
        (vec![format!("{mac} 10.3.0.0/16")], true),
        (vec![format!("{mac} 10.3.99.9/16")], false),
        (vec![format!("{mac} 10.4.0.0/16")], false),
        (vec![mac.to_owned()], true),
        (vec!["nonsense".to_owned()], true),
        (vec![format!("{mac} fd00::1")], false),
        (vec![format!("{mac} fd00::1"), format!("{mac} {address}")], true),
    ] {
        let title = security.join(", ");
        let changed = lab.change_northbound("n1", |txn| {
            txn.set(port, LogicalSwitchPort::PORT_SECURITY, security.into_iter().collect())
        });
        changed.await.unwrap();
        lab.sync().await.unwrap();
        let verdict = ask_promised(&lab, ("red-1", "red-2"), Protocol::Icmp, passes).await;
        assert_eq!(verdict.starts_with("reached"), passes, "{title}: {verdict}");
    }
}
