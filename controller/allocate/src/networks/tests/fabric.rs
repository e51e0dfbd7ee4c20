//! Networks on an EVPN fabric.

use patchbay_model::{ClusterSettings, Feature, GatewayMode};
use patchbay_resources::manifests::{Inventory, ObjectKey, Origin, Sourced};
use patchbay_resources::object::{VTEP, VtepSpec};
use serde_json::json;

use super::{NAMESPACES, at, cudn_conditions};
use crate::networks::testing::inventory;
use crate::networks::*;

pub(super) const ANNOUNCED: &str = "
---
apiVersion: k8s.ovn.org/v1
kind: RouteAdvertisements
metadata: {name: all}
spec:
  advertisements: [PodNetwork]
  networkSelectors:
  - {networkSelectionType: ClusterUserDefinedNetworks, clusterUserDefinedNetworkSelector: {networkSelector: {}}}
status:
  conditions: [{type: Accepted, status: 'True', lastTransitionTime: '2026-01-01T00:00:00Z'}]
";

pub(super) fn network(name: &str, evpn: &str) -> String {
    format!(
        "---\napiVersion: k8s.ovn.org/v1\nkind: ClusterUserDefinedNetwork\nmetadata: {{name: {name}}}\n\
         spec:\n  namespaceSelector: {{matchLabels: {{net: {name}}}}}\n  network:\n    topology: Layer2\n    \
         layer2: {{role: Primary, subnets: [10.20.0.0/16]}}\n    transport: EVPN\n    evpn: {evpn}\n"
    )
}

pub(super) fn namespace(name: &str, net: &str) -> String {
    format!(
        "---\n{{apiVersion: v1, kind: Namespace, metadata: {{name: {name}, labels: {{net: {net}, \
         k8s.ovn.org/primary-user-defined-network: ''}}}}}}\n"
    )
}

pub(super) fn put_vtep(inventory: &mut Inventory, name: &str, accepted: &str) {
    let mut vtep = VTEP::new(name, VtepSpec::default());
    let condition = json!({"conditions": [{
        "type": "Accepted", "status": accepted, "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]});
    vtep.status = Some(serde_json::from_value(condition).unwrap());
    inventory.vteps.insert(Sourced { object: vtep, origin: Origin::Cluster, position: 0 });
}

fn manager(features: &[Feature], gateway_mode: GatewayMode) -> NetworkManager {
    NetworkManager::new(ManagerSettings {
        cluster: ClusterSettings {
            features: features.iter().copied().collect(),
            gateway_mode,
            ..ClusterSettings::default()
        },
        ..ManagerSettings::default()
    })
}

pub(super) fn on_fabrics() -> NetworkManager {
    manager(&[Feature::Evpn, Feature::RouteAdvertisements], GatewayMode::Local)
}

/// The conditions of network `one` beside that of its node subnets.
pub(super) fn first_two(inventory: &Inventory) -> Vec<String> {
    let mut conditions = cudn_conditions(inventory, "one");
    conditions.truncate(2);
    conditions
}

/// `evpn` in the configuration of a definition. `None`: there is no definition.
pub(super) fn evpn_of(inventory: &Inventory, namespace: &str, name: &str) -> Option<String> {
    let key = ObjectKey::namespaced(namespace, name);
    let nad = inventory.network_attachment_definitions.get(&key)?;
    let config = nad.object.spec.config.clone()?;
    let start = config.find(r#""evpn":"#)? + r#""evpn":"#.len();
    Some(config[start..config.find(r#","joinSubnet""#)?].to_owned())
}

#[test]
fn a_network_on_a_fabric_waits_for_feature_mode_and_vtep() {
    let evpn = "{vtep: v, macVRF: {vni: 100, routeTarget: '65000:1'}, ipVRF: {vni: 101}}";
    let yaml = NAMESPACES.to_owned() + &namespace("a", "one") + &network("one", evpn) + ANNOUNCED;
    let mut inventory = inventory(&yaml);
    let conditions = |manager: &mut NetworkManager, inventory: &mut Inventory| {
        assert_eq!(manager.reconcile(inventory, &at(0)), []);
        first_two(inventory)
    };
    let disabled = "EVPN transport requested but EVPN feature is not enabled";
    for features in [&[Feature::Evpn][..], &[Feature::RouteAdvertisements][..]] {
        let mut manager = manager(features, GatewayMode::Local);
        assert_eq!(
            conditions(&mut manager, &mut inventory),
            [
                format!("NetworkCreated=False EVPNConfigError: {disabled}"),
                format!("TransportAccepted=False EVPNConfigError: {disabled}"),
            ]
        );
    }
    let both = [Feature::Evpn, Feature::RouteAdvertisements];
    let mut shared = manager(&both, GatewayMode::Shared);
    assert_eq!(
        conditions(&mut shared, &mut inventory)[0],
        "NetworkCreated=False EVPNConfigError: EVPN transport requested but EVPN feature is only \
         supported in local gateway mode"
    );
    let mut manager = on_fabrics();
    assert_eq!(
        conditions(&mut manager, &mut inventory),
        [
            "NetworkCreated=False VTEPNotFound: Cannot create network: VTEP 'v' does not exist. Create \
             the VTEP CR first or update the CUDN to reference an existing VTEP.",
            "TransportAccepted=False VTEPNotFound: VTEP \"v\" referenced by EVPN configuration does not \
             exist.",
        ]
    );
    put_vtep(&mut inventory, "v", "Unknown");
    assert_eq!(
        conditions(&mut manager, &mut inventory),
        [
            "NetworkCreated=False VTEPNotAccepted: Cannot create network: VTEP 'v' exists but is not \
             accepted. The VTEP must be in Accepted status before the network can be created.",
            "TransportAccepted=False VTEPNotAccepted: VTEP \"v\" exists but is not accepted.",
        ]
    );
    assert_eq!(evpn_of(&inventory, "a", "one"), None);
    put_vtep(&mut inventory, "v", "True");
    assert_eq!(
        conditions(&mut manager, &mut inventory),
        [
            "NetworkCreated=True NetworkAttachmentDefinitionCreated: NetworkAttachmentDefinition has been \
             created in following namespaces: [a]",
            "TransportAccepted=True EVPNTransportAccepted: Transport has been configured as 'EVPN'.",
        ]
    );
    let config = r#"{"vtep":"v","macVRF":{"vni":100,"routeTarget":"65000:1","vid":2},"ipVRF":{"vni":101,"vid":3}}"#;
    assert_eq!(evpn_of(&inventory, "a", "one").as_deref(), Some(config));
}

#[test]
fn a_network_whose_vtep_fails_goes_on_as_it_is() {
    let yaml = NAMESPACES.to_owned()
        + &namespace("a", "one")
        + &network("one", "{vtep: v, macVRF: {vni: 100}}")
        + ANNOUNCED;
    let mut inventory = inventory(&yaml);
    put_vtep(&mut inventory, "v", "True");
    let mut manager = on_fabrics();
    manager.reconcile(&mut inventory, &at(0));
    put_vtep(&mut inventory, "v", "False");
    // Neither the namespace that the network leaves nor the one that it enters changes.
    let labelled =
        super::super::testing::inventory(&(namespace("b", "one") + &namespace("a", "other")));
    for (_, namespace) in labelled.namespaces.iter() {
        inventory.namespaces.insert(namespace.clone());
    }
    manager.reconcile(&mut inventory, &at(1));
    assert_eq!(
        first_two(&inventory),
        [
            "NetworkCreated=True NetworkAttachmentDefinitionCreated: NetworkAttachmentDefinition has been \
             created in following namespaces: [a]",
            "TransportAccepted=False VTEPNotAccepted: VTEP \"v\" exists but is not accepted.",
        ]
    );
    assert!(evpn_of(&inventory, "a", "one").is_some());
    assert_eq!(evpn_of(&inventory, "b", "one"), None);
    put_vtep(&mut inventory, "v", "True");
    manager.reconcile(&mut inventory, &at(2));
    assert_eq!(evpn_of(&inventory, "a", "one"), None);
    let config = r#"{"vtep":"v","macVRF":{"vni":100,"vid":2}}"#;
    assert_eq!(evpn_of(&inventory, "b", "one").as_deref(), Some(config));
}

#[test]
fn vlan_ids_are_kept_over_a_restart_and_vnis_are_those_of_one_network() {
    let yaml = NAMESPACES.to_owned()
        + &namespace("a", "one")
        + &namespace("b", "two")
        + &namespace("c", "two")
        + &network("one", "{vtep: v, macVRF: {vni: 100}}")
        + &network("two", "{vtep: v, macVRF: {vni: 200}, ipVRF: {vni: 100}}")
        + ANNOUNCED;
    let mut inventory = inventory(&yaml);
    put_vtep(&mut inventory, "v", "True");
    let mut manager = on_fabrics();
    manager.reconcile(&mut inventory, &at(0));
    let error = "failed to allocate EVPN IDs: failed to reserve VNIs: VNI 100 on VTEP \"v\" is already \
                 reserved by network \"one\"";
    assert_eq!(
        cudn_conditions(&inventory, "two")[0],
        format!("NetworkCreated=False NetworkAttachmentDefinitionSyncError: {error}\n{error}")
    );
    let one = ObjectKey::cluster("one");
    inventory.cluster_user_defined_networks.remove(&one);
    let nad = ObjectKey::namespaced("a", "one");
    inventory.network_attachment_definitions.remove(&nad);
    manager.reconcile(&mut inventory, &at(1));
    let config = r#"{"vtep":"v","macVRF":{"vni":200,"vid":3},"ipVRF":{"vni":100,"vid":4}}"#;
    assert_eq!(evpn_of(&inventory, "b", "two").as_deref(), Some(config));
    assert_eq!(evpn_of(&inventory, "c", "two").as_deref(), Some(config));
    let before = inventory.clone();
    on_fabrics().reconcile(&mut inventory, &at(2));
    assert_eq!(inventory.network_attachment_definitions, before.network_attachment_definitions);
}
