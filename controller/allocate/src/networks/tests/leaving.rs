//! Networks that leave namespaces, and networks that are deleted.

use patchbay_model::{ClusterSettings, NODE_SUBNETS};
use patchbay_resources::manifests::{Inventory, ObjectKey};

use super::{NAMESPACES, SHARED, at, cudn_conditions, networks, resolved, udn, udn_conditions};
use crate::networks::testing::inventory;
use crate::networks::{ManagerSettings, NetworkManager, resolve};

/// Puts a label on a namespace.
fn label(inventory: &mut Inventory, namespace: &str, color: &str) {
    let namespace = inventory.namespaces.get_mut(&ObjectKey::cluster(namespace)).unwrap();
    let labels = namespace.object.metadata.labels.as_mut().unwrap();
    labels.insert("color".into(), color.into());
}

#[test]
fn definitions_leave_namespaces_that_are_not_selected_any_more() {
    let mut inventory = resolved(&(NAMESPACES.to_owned() + SHARED));
    label(&mut inventory, "cyan", "cyan");
    resolve(&mut inventory, &ClusterSettings::default(), &at(1)).unwrap();
    assert_eq!(networks(&inventory), ["blue/shared cluster_udn_shared 1 [16711684,16715779]"]);
}

#[test]
fn nodes_lose_the_subnets_of_a_network_that_left_all_namespaces() {
    let layer3 = SHARED
        .replace("Layer2", "Layer3")
        .replace("layer2", "layer3")
        .replace("[10.20.0.0/16]", "[{cidr: 10.20.0.0/16}]");
    let node = "---\n{apiVersion: v1, kind: Node, metadata: {name: n1}}\n";
    let mut inventory = resolved(&(NAMESPACES.to_owned() + &layer3 + node));
    let subnets = |inventory: &Inventory| {
        let node = inventory.nodes.get(&ObjectKey::cluster("n1")).unwrap();
        let annotations = node.object.metadata.annotations.clone();
        annotations.unwrap_or_default().remove(NODE_SUBNETS)
    };
    assert_eq!(subnets(&inventory).as_deref(), Some(r#"{"cluster_udn_shared":["10.20.0.0/24"]}"#));
    let mut failing = inventory.clone();
    for namespace in ["blue", "cyan"] {
        label(&mut inventory, namespace, "none");
        label(&mut failing, namespace, "none");
    }
    resolve(&mut inventory, &ClusterSettings::default(), &at(1)).unwrap();
    assert_eq!(subnets(&inventory), None);

    // The namespace that it joins may have no primary network.
    label(&mut failing, "plain", "blue");
    resolve(&mut failing, &ClusterSettings::default(), &at(1)).unwrap();
    assert!(cudn_conditions(&failing, "shared")[0].starts_with("NetworkCreated=False"));
    assert_eq!(subnets(&failing), None);
}

#[test]
fn networks_that_leave_all_namespaces_are_new_ones_elsewhere() {
    let other = SHARED
        .replace("name: shared", "name: other")
        .replace("color: blue", "color: cyan")
        .replace("10.20.0.0", "10.30.0.0");
    for (labels, expected) in [
        (
            ["cyan", "blue"],
            &[
                "blue/other cluster_udn_other 4 [16711687,16715782]",
                "cyan/shared cluster_udn_shared 3 [16711686,16715781]",
            ][..],
        ),
        (["none", "blue"], &["cyan/shared cluster_udn_shared 3 [16711686,16715781]"]),
        (
            ["blue", "blue"],
            &[
                "blue/shared cluster_udn_shared 1 [16711684,16715779]",
                "cyan/shared cluster_udn_shared 1 [16711684,16715779]",
            ],
        ),
    ] {
        let mut inventory = inventory(&(NAMESPACES.to_owned() + SHARED + &other));
        label(&mut inventory, "cyan", "cyan");
        let mut manager = NetworkManager::new(ManagerSettings::default());
        assert!(manager.reconcile(&mut inventory, &at(0)).is_empty());
        assert_eq!(
            networks(&inventory),
            [
                "blue/shared cluster_udn_shared 1 [16711684,16715779]",
                "cyan/other cluster_udn_other 2 [16711685,16715780]",
            ]
        );
        label(&mut inventory, "blue", labels[0]);
        label(&mut inventory, "cyan", labels[1]);
        assert!(manager.reconcile(&mut inventory, &at(1)).is_empty());
        assert_eq!(networks(&inventory), expected);
        assert!(cudn_conditions(&inventory, "shared")[0].starts_with("NetworkCreated=True"));
        let first = inventory.clone();
        assert!(manager.reconcile(&mut inventory, &at(2)).is_empty());
        assert_eq!(inventory.network_attachment_definitions, first.network_attachment_definitions);
    }
}

#[test]
fn a_network_stays_itself_while_another_program_keeps_its_definition() {
    let mut inventory = inventory(&(NAMESPACES.to_owned() + SHARED));
    label(&mut inventory, "cyan", "none");
    let mut manager = NetworkManager::new(ManagerSettings::default());
    assert!(manager.reconcile(&mut inventory, &at(0)).is_empty());
    let key = ObjectKey::namespaced("blue", "shared");
    let nads = &mut inventory.network_attachment_definitions;
    let finalizers = &mut nads.get_mut(&key).unwrap().object.metadata.finalizers;
    let other = "example.com/other".to_owned();
    finalizers.as_mut().unwrap().push(other);
    label(&mut inventory, "blue", "none");
    label(&mut inventory, "cyan", "blue");
    assert!(manager.reconcile(&mut inventory, &at(1)).is_empty());
    assert_eq!(networks(&inventory), ["cyan/shared cluster_udn_shared 1 [16711684,16715779]"]);
}

/// Requests the deletion of the UserDefinedNetwork `plain/z`.
fn delete_udn(inventory: &mut Inventory) {
    let key = ObjectKey::namespaced("plain", "z");
    let udn = inventory.user_defined_networks.get_mut(&key).unwrap();
    udn.object.metadata.deletion_timestamp = Some(at(1));
}

/// The UserDefinedNetwork `plain/z`, whose deletion is requested, and a pod with this annotation.
fn deleted_beside_pod(pod_networks: &str) -> Inventory {
    let pod = format!(
        "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: a, namespace: plain, annotations: \
         {{k8s.ovn.org/pod-networks: '{pod_networks}'}}}}, spec: {{nodeName: n1, containers: []}}}}\n"
    );
    let udn = udn("plain", "z", "Secondary", "10.1.0.0/16");
    let mut inventory = resolved(&(NAMESPACES.to_owned() + &udn + &pod));
    delete_udn(&mut inventory);
    inventory
}

/// `true` if the UserDefinedNetwork `plain/z` is kept from deletion.
fn is_kept(inventory: &Inventory) -> bool {
    let key = ObjectKey::namespaced("plain", "z");
    let udn = inventory.user_defined_networks.get(&key).unwrap();
    udn.object.metadata.finalizers.is_some()
}

#[test]
fn a_definition_stays_while_it_is_unknown_whether_a_pod_uses_it() {
    let mut inventory = deleted_beside_pod("{");
    resolve(&mut inventory, &ClusterSettings::default(), &at(1)).unwrap();
    let stays = "NetworkCreated=False SyncError: failed to delete NetworkAttachmentDefinition [plain/z]: \
                 failed to verify NAD not in use [plain/z]: failed to unmarshal pod annotation [plain/a]: \
                 failed to unmarshal ovn pod annotation \"{\": ";
    let conditions = udn_conditions(&inventory, "plain", "z");
    assert!(conditions[0].starts_with(stays), "{conditions:?}");
    assert!(is_kept(&inventory));
    inventory.pods.remove(&ObjectKey::namespaced("plain", "a"));
    resolve(&mut inventory, &ClusterSettings::default(), &at(2)).unwrap();
    assert!(!is_kept(&inventory));
    assert!(inventory.network_attachment_definitions.is_empty());
}

#[test]
fn a_network_is_deleted_when_no_definition_of_others_defines_it() {
    let other = |network: &str| {
        format!(
            "---\napiVersion: k8s.cni.cncf.io/v1\nkind: NetworkAttachmentDefinition\nmetadata: {{name: x, namespace: \
             cyan}}\nspec: {{config: '{{\"name\":\"{network}\",\"netAttachDefName\":\"cyan/x\",\"type\":\
             \"ovn-k8s-cni-overlay\",\"topology\":\"layer3\",\"subnets\":\"10.1.0.0/16\"}}'}}\n"
        )
    };
    let key = ObjectKey::namespaced("cyan", "x");
    let udn = udn("plain", "z", "Secondary", "10.1.0.0/16");
    let mut inventory = resolved(&(NAMESPACES.to_owned() + &udn + &other("plain_z")));
    delete_udn(&mut inventory);
    resolve(&mut inventory, &ClusterSettings::default(), &at(1)).unwrap();
    assert_eq!(
        udn_conditions(&inventory, "plain", "z")[0],
        "NetworkCreated=False SyncError: cannot remove UDN, controller for network plain_z is still running"
    );
    assert_eq!(networks(&inventory), ["cyan/x plain_z 1 []"]);
    inventory.network_attachment_definitions.remove(&key);
    resolve(&mut inventory, &ClusterSettings::default(), &at(2)).unwrap();
    assert!(!is_kept(&inventory));

    let cluster = NAMESPACES.to_owned() + &SHARED.replace("color: blue", "color: red");
    let mut inventory = resolved(&(cluster + &other("cluster_udn_shared")));
    let cudns = &mut inventory.cluster_user_defined_networks;
    let cudn = cudns.get_mut(&ObjectKey::cluster("shared")).unwrap();
    cudn.object.metadata.deletion_timestamp = Some(at(1));
    resolve(&mut inventory, &ClusterSettings::default(), &at(1)).unwrap();
    assert_eq!(
        cudn_conditions(&inventory, "shared")[0],
        "NetworkCreated=False NetworkAttachmentDefinitionSyncError: cannot remove cluster UDN, controller for network \
         cluster_udn_shared is still running"
    );
}

#[test]
fn a_deleted_network_that_somebody_else_keeps_has_no_problem_any_more() {
    let mut inventory = deleted_beside_pod(r#"{"plain/z":{}}"#);
    let key = ObjectKey::namespaced("plain", "z");
    let udn = inventory.user_defined_networks.get_mut(&key).unwrap();
    let finalizers = udn.object.metadata.finalizers.as_mut().unwrap();
    finalizers.push("example.com/other".to_owned());
    resolve(&mut inventory, &ClusterSettings::default(), &at(1)).unwrap();
    assert_eq!(
        udn_conditions(&inventory, "plain", "z")[0],
        "NetworkCreated=False SyncError: failed to delete NetworkAttachmentDefinition [plain/z]: network in use by \
         the following pods: [plain/a]"
    );
    inventory.pods.remove(&ObjectKey::namespaced("plain", "a"));
    resolve(&mut inventory, &ClusterSettings::default(), &at(2)).unwrap();
    assert!(is_kept(&inventory));
    assert_eq!(
        udn_conditions(&inventory, "plain", "z")[0],
        "NetworkCreated=True NetworkAttachmentDefinitionCreated: NetworkAttachmentDefinition has been created"
    );

    let transport = "topology: Layer3\n    layer3: {role: Primary, subnets: [{cidr: 10.20.0.0/16}]}\n    \
                     transport: NoOverlay\n    noOverlay: {outboundSNAT: Enabled, routing: Managed}";
    let flat = SHARED.replace(
        "topology: Layer2\n    layer2: {role: Primary, subnets: [10.20.0.0/16]}",
        transport,
    );
    let mut inventory = resolved(&(NAMESPACES.to_owned() + &flat));
    let cudns = &mut inventory.cluster_user_defined_networks;
    let cudn = cudns.get_mut(&ObjectKey::cluster("shared")).unwrap();
    let meta = &mut cudn.object.metadata;
    meta.deletion_timestamp = Some(at(1));
    let finalizers = meta.finalizers.as_mut().unwrap();
    finalizers.push("example.com/other".to_owned());
    let settings = ClusterSettings {
        features: [patchbay_model::Feature::RouteAdvertisements].into(),
        ..ClusterSettings::default()
    };
    resolve(&mut inventory, &settings, &at(2)).unwrap();
    let conditions = cudn_conditions(&inventory, "shared");
    assert!(conditions[0].ends_with("in following namespaces: []"), "{conditions:?}");
    assert!(
        conditions[1].starts_with("TransportAccepted=False NoOverlayRouteAdvertisementsIsMissing"),
        "{conditions:?}"
    );
}

#[test]
fn a_physical_network_without_addresses_waits_for_no_definition() {
    let deleted = |localnet: &str| {
        let lan = SHARED.replace(
            "topology: Layer2\n    layer2: {role: Primary, subnets: [10.20.0.0/16]}",
            &format!("topology: Localnet\n    localnet: {{role: Secondary, physicalNetworkName: lan, {localnet}}}"),
        );
        let mut inventory = resolved(&(NAMESPACES.to_owned() + &lan));
        let key = ObjectKey::namespaced("blue", "shared");
        let nads = &mut inventory.network_attachment_definitions;
        let finalizers = &mut nads.get_mut(&key).unwrap().object.metadata.finalizers;
        let other = "example.com/other".to_owned();
        finalizers.as_mut().unwrap().push(other);
        let key = ObjectKey::cluster("shared");
        let cudns = &mut inventory.cluster_user_defined_networks;
        let cudn = &mut cudns.get_mut(&key).unwrap().object;
        cudn.metadata.deletion_timestamp = Some(at(1));
        resolve(&mut inventory, &ClusterSettings::default(), &at(1)).unwrap();
        let cudn = inventory.cluster_user_defined_networks.get(&key).unwrap();
        cudn.object.metadata.finalizers.is_none()
    };
    assert!(deleted("ipam: {mode: Disabled}"));
    assert!(!deleted("subnets: [10.20.0.0/16]"));
}
