//! Kinds that cannot be listed, and what depends on them.

use patchbay_model::{ClusterSettings, Feature, NODE_SUBNETS};
use patchbay_resources::ipam_claim::IPAMClaim;
use patchbay_resources::manifests::{Inventory, ObjectKey};
use patchbay_resources::object::{EgressIP, Object as _, RouteAdvertisements, VTEP};

use super::fabric::{self, ANNOUNCED, evpn_of, first_two, on_fabrics, put_vtep};
use super::pods::{self, entry, warnings};
use super::{NAMESPACES, annotation, at, node, udn};
use crate::networks::testing::inventory;
use crate::networks::*;

fn unlist(inventory: &mut Inventory, kind: &'static str) {
    inventory.unlisted.insert(kind);
}

#[test]
fn pods_wait_for_claims_in_networks_that_keep_addresses() {
    let config = |keeps: bool| {
        format!(
            r#""topology":"layer2","subnets":"10.{}.0.0/24","allowPersistentIPs":{keeps}"#,
            u8::from(keeps)
        )
    };
    let yaml = NAMESPACES.to_owned()
        + &pods::network("keeping", &config(true))
        + &pods::network("other", &config(false))
        + &pods::pod("plain", "a", &pods::selects("'keeping,other'"));
    let mut inventory = inventory(&yaml);
    unlist(&mut inventory, IPAMClaim::KIND);
    let mut manager = pods::manager();
    assert_eq!(manager.reconcile(&mut inventory, &at(0)), []);
    assert_eq!(entry(&inventory, "plain/a", "plain/keeping"), None);
    assert!(entry(&inventory, "plain/a", "plain/other").is_some());
    assert_eq!(
        warnings(&mut inventory),
        [
            "failed to update pod plain/a: IPAMClaims cannot be listed, and one may keep addresses of \
             network keeping"
        ]
    );

    // A claim without a pod keeps its address.
    inventory.unlisted.clear();
    let claim = "{apiVersion: k8s.cni.cncf.io/v1alpha1, kind: IPAMClaim, metadata: {name: c, namespace: \
                 plain}, spec: {network: keeping, interface: net1}, status: {ips: [10.1.0.1/24]}}";
    let claims = super::super::testing::inventory(claim);
    for (_, claim) in claims.ipam_claims.iter() {
        inventory.ipam_claims.insert(claim.clone());
    }
    assert_eq!(manager.reconcile(&mut inventory, &at(1)), []);
    let given = entry(&inventory, "plain/a", "plain/keeping").unwrap();
    assert!(given.contains("10.1.0.2/24"), "{given}");
    assert_eq!(warnings(&mut inventory), [""; 0]);
}

#[test]
fn nodes_keep_their_subnets_while_egress_ips_are_not_known() {
    let mut manager = NetworkManager::new(ManagerSettings {
        cluster: ClusterSettings {
            features: [Feature::DynamicUdnAllocation, Feature::EgressIp].into(),
            ..ClusterSettings::default()
        },
        ..ManagerSettings::default()
    });
    let egress_ip = "---
{apiVersion: k8s.ovn.org/v1, kind: EgressIP, metadata: {name: e}, spec: {egressIPs: [172.18.0.100], \
                     namespaceSelector: {}}, status: {items: [{node: n1, egressIP: 172.18.0.100}]}}
";
    let yaml = udn("blue", "l3", "Primary", "10.1.0.0/16") + &node("n1") + egress_ip;
    let mut inventory = inventory(&(NAMESPACES.to_owned() + &yaml));
    let mut subnets = |inventory: &mut Inventory, second: i64| {
        manager.reconcile(inventory, &at(second));
        let node = inventory.nodes.named("n1").unwrap();
        annotation(&node.metadata, NODE_SUBNETS).map(str::to_owned)
    };
    let annotated = Some(r#"{"blue_l3":["10.1.0.0/24"]}"#.to_owned());
    assert_eq!(subnets(&mut inventory, 0), annotated);
    inventory.egress_ips.remove(&ObjectKey::cluster("e"));
    unlist(&mut inventory, EgressIP::KIND);
    assert_eq!(subnets(&mut inventory, 10), annotated);
    assert_eq!(subnets(&mut inventory, 1000), annotated);
    inventory.unlisted.clear();
    assert_eq!(subnets(&mut inventory, 1001), annotated);
    assert_eq!(subnets(&mut inventory, 2000), None);
}

#[test]
fn networks_on_a_fabric_stay_as_they_are_while_vteps_are_not_known() {
    let evpn = |vni: u32| format!("{{vtep: v, macVRF: {{vni: {vni}}}}}");
    let yaml = NAMESPACES.to_owned()
        + &fabric::namespace("a", "one")
        + &fabric::network("one", &evpn(100))
        + ANNOUNCED;
    let mut inventory = inventory(&yaml);
    put_vtep(&mut inventory, "v", "True");
    let mut manager = on_fabrics();
    manager.reconcile(&mut inventory, &at(0));
    let accepted = first_two(&inventory);
    assert!(accepted.iter().all(|one| one.contains("=True")), "{accepted:?}");

    inventory.vteps.remove(&ObjectKey::cluster("v"));
    unlist(&mut inventory, VTEP::KIND);
    let announced = ObjectKey::cluster("all");
    inventory.route_advertisements.remove(&announced);
    unlist(&mut inventory, RouteAdvertisements::KIND);
    let new = fabric::namespace("b", "two") + &fabric::network("two", &evpn(200));
    let new = super::super::testing::inventory(&new);
    for (_, namespace) in new.namespaces.iter() {
        inventory.namespaces.insert(namespace.clone());
    }
    for (_, network) in new.cluster_user_defined_networks.iter() {
        inventory.cluster_user_defined_networks.insert(network.clone());
    }
    manager.reconcile(&mut inventory, &at(1));
    assert_eq!(first_two(&inventory), accepted);
    assert!(evpn_of(&inventory, "a", "one").is_some());
    assert_eq!(
        super::cudn_conditions(&inventory, "two")[..2],
        [
            "NetworkCreated=False VTEPUnknown: Cannot create network: VTEPs cannot be listed, so VTEP 'v' \
             is not known.",
            "TransportAccepted=False VTEPUnknown: VTEPs cannot be listed, so VTEP \"v\" is not known.",
        ]
    );

    inventory.unlisted.remove(VTEP::KIND);
    put_vtep(&mut inventory, "v", "True");
    manager.reconcile(&mut inventory, &at(2));
    assert_eq!(first_two(&inventory), accepted);
    assert_eq!(
        super::cudn_conditions(&inventory, "two")[1],
        "TransportAccepted=False EVPNRouteAdvertisementsUnknown: RouteAdvertisements cannot be listed."
    );
}
