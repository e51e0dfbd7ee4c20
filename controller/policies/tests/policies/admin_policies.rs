//! Policies of administrators: manifests to rows.

use std::collections::BTreeMap;

use patchbay_engine::txn::TxnBuilder;
use patchbay_model::{ClusterSettings, Feature, IpFamily};
use patchbay_reconcile::Cluster;
use patchbay_reconcile::northbound::{Embedded, Northbound as _};
use patchbay_reconcile::zone::{ZoneOutcome, ZoneReconciler};
use patchbay_resources::manifests::read_manifests;
use patchbay_resources::object::Time;
use patchbay_schemas::nb::{Acl, AddressSet, LogicalSwitch, LogicalSwitchPort, PortGroup};
use patchbay_schemas::typed::TableRow;
use patchbay_schemas::uuids::UuidSource;

const CLUSTER: &str = r#"
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {tenant: shop}}}
- {apiVersion: v1, kind: Namespace, metadata: {name: dns}}
- apiVersion: v1
  kind: Node
  metadata: {name: n1, labels: {rack: a}, annotations: {k8s.ovn.org/host-cidrs: '["172.18.0.2/16"]'}}
- apiVersion: v1
  kind: Node
  metadata: {name: n2, annotations: {k8s.ovn.org/host-cidrs: '["172.18.0.3/16"]'}}
- apiVersion: v1
  kind: Pod
  metadata: {name: web, namespace: shop, labels: {app: web}}
  spec: {nodeName: n1, containers: [{name: c, image: i, ports: [{name: http, containerPort: 8080}]}]}
  status: {phase: Running, podIPs: [{ip: 10.244.0.3}]}
- apiVersion: v1
  kind: Pod
  metadata: {name: db, namespace: shop, labels: {app: db}}
  spec: {nodeName: n2, containers: [{name: c, image: i, ports: [{name: sql, containerPort: 5432}]}]}
  status: {phase: Running, podIPs: [{ip: 10.244.1.3}]}
- apiVersion: v1
  kind: Pod
  metadata:
    name: dns
    namespace: dns
    annotations: {k8s.ovn.org/pod-networks: '{"default":{"ip_addresses":["10.244.1.4/24"],"mac_address":"0a:58:0a:f4:01:04"}}'}
  spec: {nodeName: n2, containers: [{name: c, image: i}]}
- apiVersion: v1
  kind: Pod
  metadata: {name: host, namespace: shop}
  spec: {nodeName: n1, hostNetwork: true, containers: [{name: c, image: i}]}
  status: {phase: Running, podIPs: [{ip: 172.18.0.2}]}
"#;

const POLICIES: &str = r#"
- apiVersion: policy.networking.k8s.io/v1alpha1
  kind: AdminNetworkPolicy
  metadata: {name: tenants, annotations: {k8s.ovn.org/acl-logging: '{"deny":"alert","pass":"info"}'}}
  spec:
    priority: 34
    subject: {namespaces: {matchLabels: {tenant: shop}}}
    ingress:
    - {action: Pass, from: [{namespaces: {matchLabels: {kubernetes.io/metadata.name: dns}}}], ports: [{namedPort: http}]}
    egress:
    - {action: Allow, to: [{pods: {namespaceSelector: {}, podSelector: {matchLabels: {app: db}}}}], ports: [{portNumber: {protocol: TCP, port: 5432}}, {namedPort: sql}]}
    - {action: Deny, to: [{networks: [10.1.2.3/8]}, {nodes: {matchLabels: {rack: a}}}]}
- apiVersion: policy.networking.k8s.io/v1alpha1
  kind: BaselineAdminNetworkPolicy
  metadata: {name: default}
  spec:
    subject: {pods: {namespaceSelector: {}, podSelector: {matchLabels: {app: web}}}}
    ingress:
    - {action: Deny, from: [{namespaces: {}}], ports: [{portRange: {protocol: UDP, start: 5, end: 9}}]}
"#;

struct World {
    zone: ZoneReconciler<Embedded>,
    settings: ClusterSettings,
}

impl World {
    async fn new() -> Self {
        let mut northbound = Embedded::new(0).unwrap();
        // The ports on the default network are another controller's. That of `db` is left over from
        // this node.
        let snapshot = northbound.snapshot();
        let mut txn = TxnBuilder::new(&snapshot);
        let ports = ["shop_web", "shop_host", "shop_db"].map(|name| {
            let port = LogicalSwitchPort { name: name.to_owned(), ..LogicalSwitchPort::default() };
            txn.insert(&port).unwrap()
        });
        let switch = LogicalSwitch {
            name: "n1".to_owned(),
            ports: ports.into_iter().collect(),
            ..LogicalSwitch::default()
        };
        txn.insert(&switch).unwrap();
        northbound.commit(txn.finish()).await.unwrap();
        Self {
            zone: ZoneReconciler::new("n1", northbound, UuidSource::seeded(1)),
            settings: ClusterSettings {
                families: vec![IpFamily::V4],
                features: [Feature::AdminNetworkPolicy].into(),
                ..ClusterSettings::default()
            },
        }
    }

    async fn apply(&mut self, policies: &str) -> ZoneOutcome {
        self.apply_text(&format!("{CLUSTER}{policies}")).await
    }

    async fn apply_text(&mut self, yaml: &str) -> ZoneOutcome {
        let inventory = read_manifests(&["-".into()], &mut { yaml.as_bytes() }).unwrap();
        let now = Time(jiff::Timestamp::from_second(0).unwrap());
        let cluster = Cluster::from_inventory(inventory, self.settings.clone(), now).unwrap();
        let outcome = self.zone.reconcile(&cluster).await.unwrap();
        assert!(self.zone.is_reconciled(&cluster));
        outcome
    }

    fn rows<T: TableRow>(&self) -> Vec<T> {
        let snapshot = self.zone.northbound().snapshot();
        let rows = snapshot.typed::<T>();
        rows.iter().map(|row| row.unwrap().1).collect()
    }

    /// Lines with what matters of the ACLs, sorted. Address sets and groups are shown by their ids.
    fn acls(&self) -> Vec<String> {
        let sets = self.rows::<AddressSet>().into_iter();
        let sets = sets.map(|set| (set.name, set.external_ids["k8s.ovn.org/id"].clone()));
        let groups = self.rows::<PortGroup>().into_iter();
        let groups = groups.map(|group| (group.name, group.external_ids["k8s.ovn.org/id"].clone()));
        let names: BTreeMap<String, String> = sets.chain(groups).collect();
        let mut lines: Vec<String> = self
            .rows::<Acl>()
            .into_iter()
            .filter(|acl| acl.external_ids["k8s.ovn.org/owner-type"].contains("Admin"))
            .map(|acl| {
                let mut text = acl.r#match.clone();
                for (name, id) in &names {
                    let short = id.trim_start_matches("default-network-controller:");
                    text = text.replace(name, short);
                }
                let severity = acl.severity.map(|severity| format!("{severity:?}"));
                format!(
                    "{} {} {} {:?} {} {text}",
                    acl.tier,
                    acl.priority,
                    acl.name.unwrap_or_default(),
                    acl.action,
                    severity.unwrap_or_default(),
                )
            })
            .collect();
        lines.sort();
        lines
    }

    /// Addresses by the end of the sets' ids.
    fn addresses(&self) -> BTreeMap<String, Vec<String>> {
        let sets = self.rows::<AddressSet>().into_iter();
        let sets = sets.filter_map(|set| {
            let id = set.external_ids["k8s.ovn.org/id"].clone();
            let (_, id) = id.split_once("AdminNetworkPolicy:")?;
            Some((id.to_owned(), set.addresses.into_iter().collect()))
        });
        sets.collect()
    }

    /// Numbers of ports by the ids of the groups.
    fn ports(&self) -> BTreeMap<String, usize> {
        let groups = self.rows::<PortGroup>().into_iter();
        let groups = groups.map(|group| {
            let id = group.external_ids["k8s.ovn.org/id"].clone();
            (id, group.ports.len())
        });
        groups.collect()
    }
}

#[tokio::test]
async fn rows_follow_what_policies_select() {
    let all = format!("{CLUSTER}{POLICIES}");
    let changes = [
        ("labels: {app: web}", "labels: {app: db}"),
        ("containerPort: 5432", "containerPort: 5433"),
        ("labels: {tenant: shop}", "labels: {tenant: other}"),
        ("labels: {rack: a}", "labels: {rack: b}"),
        ("172.18.0.2/16", "172.18.0.7/16"),
        ("podIPs: [{ip: 10.244.1.3}]", "podIPs: [{ip: 10.244.1.9}]"),
        ("phase: Running, podIPs: [{ip: 10.244.0.3}]", "phase: Failed"),
        ("metadata: {name: dns}", "metadata: {name: other}"),
        ("hostNetwork: true", "hostNetwork: false"),
        ("matchLabels: {app: web}}}}", "matchLabels: {app: none}}}}"),
        ("{namedPort: sql}", "{namedPort: http}"),
    ];
    let mut world = World::new().await;
    world.apply_text(&all).await;
    let first = (world.acls(), world.addresses(), world.ports());
    for (before, after) in changes {
        let changed = all.replacen(before, after, 1);
        world.apply_text(&changed).await;
        let mut fresh = World::new().await;
        fresh.apply_text(&changed).await;
        let followed = (world.acls(), world.addresses(), world.ports());
        assert_ne!(followed, first, "{after}");
        let read = (fresh.acls(), fresh.addresses(), fresh.ports());
        assert_eq!(followed, read, "{after}");
        world.apply_text(&all).await;
        let again = (world.acls(), world.addresses(), world.ports());
        assert_eq!(again, first, "{after}");
    }
}

#[tokio::test]
async fn rules_become_acls_about_the_default_network() {
    let mut world = World::new().await;
    let outcome = world.apply(POLICIES).await;
    assert_eq!(outcome.problems, []);
    assert_eq!(
        world.acls(),
        [
            "1 26599 ANP:tenants:Egress:1 Drop Alert inport == @AdminNetworkPolicy:tenants && \
             ((ip4.dst == $AdminNetworkPolicy:tenants:Egress:1:v4))",
            "1 26600 ANP:tenants:Egress:0 AllowRelated  inport == @AdminNetworkPolicy:tenants && \
             ((ip4.dst == $AdminNetworkPolicy:tenants:Egress:0:v4)) && tcp && tcp.dst==5432",
            "1 26600 ANP:tenants:Egress:0 AllowRelated  inport == @AdminNetworkPolicy:tenants && \
             tcp && ((ip4.dst == 10.244.1.3 && tcp.dst == 5432))",
            "1 26600 ANP:tenants:Ingress:0 Pass Info \
             ((ip4.src == $AdminNetworkPolicy:tenants:Ingress:0:v4)) && \
             tcp && ((ip4.dst == 10.244.0.3 && tcp.dst == 8080))",
            "3 1750 BANP:default:Ingress:0 Drop  outport == @BaselineAdminNetworkPolicy:default && \
             ((ip4.src == $BaselineAdminNetworkPolicy:default:Ingress:0:v4)) && \
             udp && 5<=udp.dst<=9",
        ]
    );
    let addresses = world.addresses();
    assert_eq!(addresses["tenants:Ingress:0:v4"], ["10.244.1.4"]);
    assert_eq!(addresses["tenants:Egress:0:v4"], ["10.244.1.3"]);
    assert_eq!(addresses["tenants:Egress:1:v4"], ["10.0.0.0/8", "172.18.0.2"]);
    assert_eq!(addresses["default:Ingress:0:v4"], ["10.244.0.3", "10.244.1.3", "10.244.1.4"]);
    // A pod on the host's network has no port, and one on another node is not the zone's.
    let groups = world.rows::<PortGroup>().into_iter();
    let groups = groups.filter(|group| !group.acls.is_empty());
    let sizes: Vec<usize> = groups.map(|group| group.ports.len()).collect();
    assert_eq!(sizes, [1, 1]);
    let mut egress = world
        .rows::<Acl>()
        .into_iter()
        .filter(|acl| acl.name.as_deref() == Some("ANP:tenants:Egress:1"));
    let acl = egress.next().unwrap();
    assert_eq!(acl.external_ids["port-policy-protocol"], "None");
    assert_eq!(acl.options["apply-after-lb"], "true");

    // Peers give numbers to the named ports of packets that leave; pods of the subject do not.
    let named = POLICIES.replace("{namedPort: sql}", "{namedPort: http}");
    world.apply(&named).await;
    let numbered = world.acls().into_iter().filter(|acl| acl.contains(":Egress:0 "));
    assert_eq!(numbered.count(), 1);

    world.apply("").await;
    assert_eq!((world.acls(), world.addresses().len()), (Vec::new(), 0));
}

#[tokio::test]
async fn a_policy_that_cannot_be_used_keeps_its_rows_and_is_named() {
    let mut world = World::new().await;
    world.apply(POLICIES).await;
    let rows = |world: &World| {
        let (groups, sets) = (world.rows::<PortGroup>(), world.rows::<AddressSet>());
        (world.acls(), groups, sets)
    };
    let before = rows(&world);
    for (usable, unusable, problem) in [
        (
            "priority: 34",
            "priority: 101",
            "spec.priority: 101 is not in 0..=99, for which there are priorities of ACLs",
        ),
        (
            r#""pass":"info""#,
            r#""pass":"loud""#,
            "metadata.annotations[k8s.ovn.org/acl-logging]: pass: \"loud\" is none of alert, warning, \
             notice, info and debug",
        ),
    ] {
        let changed = POLICIES.replace(usable, unusable).replace("action: Deny", "action: Allow");
        assert_ne!(changed, POLICIES);
        let outcome = world.apply(&changed).await;
        let (acls, groups, sets) = rows(&world);
        let of_admin = |acls: &[String]| -> Vec<String> {
            let acls = acls.iter().filter(|acl| acl.contains(" ANP:"));
            acls.cloned().collect()
        };
        assert_eq!(of_admin(&acls), of_admin(&before.0));
        assert_eq!((&groups, &sets), (&before.1, &before.2));
        let problems = outcome.problems.iter().map(ToString::to_string);
        assert_eq!(
            problems.collect::<Vec<_>>(),
            [format!("AdminNetworkPolicy tenants: {problem}; rows of the policy stay as they are")]
        );
    }
    let mut new = World::new().await;
    new.apply(&POLICIES.replace(r#""pass":"info""#, r#""pass":"loud""#)).await;
    let (acls, groups, _) = rows(&new);
    assert!(!acls.iter().any(|acl| acl.contains(" ANP:")), "{acls:?}");
    assert_eq!(groups.len(), before.1.len() - 1);
}

#[tokio::test]
async fn equal_priorities_and_a_feature_that_is_off_are_named() {
    let mut world = World::new().await;
    let second = POLICIES.replace("name: tenants", "name: again");
    let (second, _) = second
        .split_once("- apiVersion: policy.networking.k8s.io/v1alpha1\n  kind: Baseline")
        .unwrap();
    let both = format!("{POLICIES}{}", second.trim_start_matches('\n'));
    let outcome = world.apply(&both).await;
    let texts = |outcome: &ZoneOutcome| -> Vec<String> {
        let problems = outcome.problems.iter();
        problems.map(ToString::to_string).collect()
    };
    assert_eq!(
        texts(&outcome),
        ["AdminNetworkPolicy tenants: spec.priority: 34 is that of AdminNetworkPolicy again, \
          too, so it is undefined whose rule decides where both match"]
    );
    world.settings.features.clear();
    let outcome = world.apply(POLICIES).await;
    assert_eq!(world.acls(), [""; 0]);
    assert_eq!(
        texts(&outcome),
        [
            "AdminNetworkPolicy tenants: feature admin-network-policy is off, so the object has no \
          effect; see --enable",
            "BaselineAdminNetworkPolicy default: feature admin-network-policy is off, so the object \
          has no effect; see --enable",
        ]
    );
}
