//! Random manifests: nodes, networks, pods, services, policies and connects.

use patchbay_model::{ClusterSettings, Feature, GatewayMode, IpFamily};
use serde_json::{Value, json};

use crate::random::Random;

/// Label that requests a primary network.
const PRIMARY_LABEL: &str = "k8s.ovn.org/primary-user-defined-network";
/// Values of the label `reconcile` of pods.
const APPS: [&str; 3] = ["web", "db", "cache"];

/// Manifests of a random cluster.
#[derive(Debug)]
pub struct ClusterText {
    /// JSON text of one list.
    pub manifests: String,
    /// Settings of the cluster.
    pub settings: ClusterSettings,
    /// Names of the nodes.
    pub nodes: Vec<String>,
    /// Addresses that questions ask for, beside those of the rows.
    pub addresses: Vec<String>,
}

/// Objects as they are made.
struct Builder<'a> {
    random: &'a mut Random,
    families: Vec<IpFamily>,
    nodes: Vec<String>,
    namespaces: Vec<Namespace>,
    items: Vec<Value>,
    addresses: Vec<String>,
    services: usize,
}

/// Namespace with its primary network.
struct Namespace {
    name: String,
    /// Networks that a pod may request by annotation.
    secondary: Vec<String>,
}

impl ClusterText {
    /// A random cluster.
    ///
    /// # Panics
    /// Never: all ranges are constant.
    pub fn new(random: &mut Random) -> Self {
        let families = match random.below(4) {
            0 => vec![IpFamily::V6],
            1 => IpFamily::BOTH.to_vec(),
            _ => vec![IpFamily::V4],
        };
        let gateway_mode = match random.below(2) {
            0 => GatewayMode::Shared,
            _ => GatewayMode::Local,
        };
        let features = [Feature::Multicast, Feature::EgressFirewall, Feature::EgressIp]
            .into_iter()
            .filter(|_| random.chance(40))
            .collect();
        let nodes = (1..=1 + random.below(3)).map(|number| format!("n{number}")).collect();
        let mut builder = Builder {
            random,
            families,
            nodes,
            namespaces: Vec::new(),
            items: Vec::new(),
            addresses: Vec::new(),
            services: 0,
        };
        builder.build();
        let service_cidrs = builder.per_family("10.96.0.0/16", "fd00:10:96::/112");
        let list = json!({"apiVersion": "v1", "kind": "List", "items": builder.items});
        Self {
            manifests: list.to_string(),
            settings: ClusterSettings {
                service_cidrs: service_cidrs
                    .iter()
                    .map(|range| range.parse().expect("a constant range"))
                    .collect(),
                families: builder.families,
                gateway_mode,
                features,
                ..ClusterSettings::default()
            },
            nodes: builder.nodes,
            addresses: builder.addresses,
        }
    }
}

impl Builder<'_> {
    fn build(&mut self) {
        for node in self.nodes.clone() {
            let labels = json!({"k8s.ovn.org/egress-assignable": ""});
            self.add("v1", "Node", &json!({"name": node, "labels": labels}), &json!({}));
        }
        self.add_default_services();
        let is_overlapping = self.random.chance(15);
        let count = 2 + self.random.below(3);
        for number in 0..count {
            self.add_namespace(number, if is_overlapping { 0 } else { number });
        }
        if self.random.chance(20) {
            self.add_localnet();
        }
        for number in 0..count {
            self.add_content(number);
        }
        if self.random.chance(70) {
            let connect = self.per_family("192.168.0.0/16", "fd01::/112");
            self.add_connect("first", &connect);
        }
        if self.random.chance(25) {
            let connect = self.per_family("10.200.0.0/16", "fd02::/112");
            self.add_connect("second", &connect);
        }
    }

    fn add(&mut self, version: &str, kind: &str, metadata: &Value, spec: &Value) {
        self.items
            .push(json!({"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}));
    }

    /// The texts of the cluster's families.
    fn per_family(&self, ipv4: &str, ipv6: &str) -> Vec<String> {
        let families = self.families.iter().map(|family| match family {
            IpFamily::V4 => ipv4.to_owned(),
            IpFamily::V6 => ipv6.to_owned(),
        });
        families.collect()
    }

    /// Name server and API server.
    fn add_default_services(&mut self) {
        for name in ["default", "kube-system"] {
            self.items
                .push(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}));
        }
        let addresses = self.per_family("10.96.0.1", "fd00:10:96::1");
        let ports = json!([{"name": "https", "port": 443, "targetPort": 6443}]);
        self.add_service("default", "kubernetes", &addresses, json!({"ports": ports}));
        let addresses = self.per_family("10.96.0.10", "fd00:10:96::a");
        let ports = json!([{"name": "dns", "protocol": "UDP", "port": 53}]);
        self.add_service("kube-system", "kube-dns", &addresses, json!({"ports": ports}));
    }

    fn add_service(&mut self, namespace: &str, name: &str, addresses: &[String], mut spec: Value) {
        let families: Vec<_> = self.families.iter().map(|one| format!("IP{one}")).collect();
        spec["clusterIP"] = json!(addresses[0]);
        spec["clusterIPs"] = json!(addresses);
        spec["ipFamilies"] = json!(families);
        self.addresses.extend(addresses.iter().cloned());
        let metadata = json!({"name": name, "namespace": namespace});
        self.add("v1", "Service", &metadata, &spec);
    }

    /// Labels by which connects select, each with some chance.
    fn labels(&mut self) -> Value {
        let mut labels = json!({});
        for connect in ["first", "second"] {
            if self.random.chance(60) {
                labels[connect] = json!("yes");
            }
        }
        labels
    }

    fn add_namespace(&mut self, number: usize, range: usize) {
        let name = format!("ns{number}");
        let mut labels = self.labels();
        labels[PRIMARY_LABEL] = json!("");
        labels["team"] = json!(format!("t{number}"));
        self.items.push(json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": name, "labels": labels}}));
        let network = self.network(range, "Primary");
        let labels = self.labels();
        let is_cluster_wide = self.random.chance(40);
        if is_cluster_wide {
            let metadata = json!({"name": format!("net{number}"), "labels": labels});
            let selector = json!({"matchLabels": {"team": format!("t{number}")}});
            let spec = json!({"namespaceSelector": selector, "network": network});
            self.add("k8s.ovn.org/v1", "ClusterUserDefinedNetwork", &metadata, &spec);
        } else {
            let metadata = json!({"name": "net", "namespace": name, "labels": labels});
            self.add("k8s.ovn.org/v1", "UserDefinedNetwork", &metadata, &network);
        }
        let mut secondary = Vec::new();
        if self.random.chance(25) {
            let network = self.network(60 + number, "Secondary");
            let metadata = json!({"name": "extra", "namespace": name});
            self.add("k8s.ovn.org/v1", "UserDefinedNetwork", &metadata, &network);
            secondary.push("extra".to_owned());
        }
        self.namespaces.push(Namespace { name, secondary });
    }

    fn network(&mut self, range: usize, role: &str) -> Value {
        let second = 10 + range;
        let ranges = |ipv6_length: u8| {
            (format!("10.{second}.0.0/16"), format!("fd{second}::/{ipv6_length}"))
        };
        if self.random.chance(50) {
            let (ipv4, ipv6) = ranges(48);
            let subnets: Vec<_> =
                self.per_family(&ipv4, &ipv6).iter().map(|cidr| json!({"cidr": cidr})).collect();
            json!({"topology": "Layer3", "layer3": {"role": role, "subnets": subnets}})
        } else {
            let (ipv4, ipv6) = ranges(64);
            let subnets = self.per_family(&ipv4, &ipv6);
            json!({"topology": "Layer2", "layer2": {"role": role, "subnets": subnets}})
        }
    }

    fn add_localnet(&mut self) {
        let subnets = self.per_family("192.0.2.0/24", "fd64::/64");
        let localnet =
            json!({"role": "Secondary", "physicalNetworkName": "lan", "subnets": subnets});
        let spec = json!({"namespaceSelector": {"matchLabels": {"team": "t0"}},
            "network": {"topology": "Localnet", "localnet": localnet}});
        let metadata = json!({"name": "lan"});
        self.add("k8s.ovn.org/v1", "ClusterUserDefinedNetwork", &metadata, &spec);
        self.namespaces[0].secondary.push("lan".to_owned());
    }

    /// Pods, services, policies and firewalls of a namespace.
    fn add_content(&mut self, number: usize) {
        let namespace = self.namespaces[number].name.clone();
        for pod in 0..2 + self.random.below(4) {
            self.add_pod(&namespace, number, pod);
        }
        for _ in 0..self.random.below(3) {
            self.add_own_service(&namespace);
        }
        for policy in 0..self.random.below(3) {
            let metadata = json!({"name": format!("policy{policy}"), "namespace": namespace});
            let spec = self.policy();
            self.add("networking.k8s.io/v1", "NetworkPolicy", &metadata, &spec);
        }
        let secondary = self.namespaces[number].secondary.clone();
        if !secondary.is_empty() && self.random.chance(60) {
            let networks = secondary.iter().map(|name| format!("{namespace}/{name}"));
            let networks = networks.collect::<Vec<_>>().join(",");
            let metadata = json!({"name": "secondary", "namespace": namespace,
                "annotations": {"k8s.v1.cni.cncf.io/policy-for": networks}});
            let spec = self.policy();
            self.add("k8s.cni.cncf.io/v1beta1", "MultiNetworkPolicy", &metadata, &spec);
        }
        if self.random.chance(20) {
            let rules: Vec<_> = (0..=self.random.below(3)).map(|_| self.firewall_rule()).collect();
            let metadata = json!({"name": "default", "namespace": namespace});
            self.add("k8s.ovn.org/v1", "EgressFirewall", &metadata, &json!({"egress": rules}));
        }
        if self.random.chance(20) {
            self.add_egress_ip(number);
        }
    }

    fn add_pod(&mut self, namespace: &str, number: usize, pod: usize) {
        let secondary = self.namespaces[number].secondary.clone();
        let requested = secondary.into_iter().filter(|_| self.random.chance(60));
        let requested = requested.collect::<Vec<_>>().join(",");
        let mut metadata = json!({"name": format!("pod{pod}"), "namespace": namespace,
            "labels": {"app": self.random.pick(&APPS)}});
        if !requested.is_empty() {
            metadata["annotations"] = json!({"k8s.v1.cni.cncf.io/networks": requested});
        }
        let node = self.random.pick(&self.nodes).clone();
        let ports = json!([{"name": "http", "containerPort": 8080}]);
        let spec = json!({"nodeName": node, "containers": [{"name": "c", "ports": ports}]});
        self.add("v1", "Pod", &metadata, &spec);
    }

    fn add_own_service(&mut self, namespace: &str) {
        self.services += 1;
        let host = 20 + self.services;
        let addresses = self.per_family(&format!("10.96.0.{host}"), &format!("fd00:10:96::{host}"));
        let mut spec = json!({"selector": {"app": self.random.pick(&APPS)},
            "ports": [{"port": 80, "targetPort": "http"}]});
        if self.random.chance(30) {
            spec["type"] = json!("NodePort");
            spec["ports"][0]["nodePort"] = json!(30_000 + host);
        }
        if self.random.chance(25) {
            let external = self.per_family(&format!("203.0.113.{host}"), &format!("fd77::{host}"));
            self.addresses.extend(external.iter().cloned());
            spec["externalIPs"] = json!(external);
        }
        if self.random.chance(20) {
            spec["internalTrafficPolicy"] = json!("Local");
        }
        let name = format!("svc{host}");
        self.add_service(namespace, &name, &addresses, spec);
    }

    fn selector(&mut self) -> Value {
        match self.random.below(3) {
            0 => json!({}),
            _ => json!({"matchLabels": {"app": self.random.pick(&APPS)}}),
        }
    }

    fn policy(&mut self) -> Value {
        let mut spec = json!({"podSelector": self.selector()});
        let mut types = Vec::new();
        for (direction, field, peers) in
            [("Ingress", "ingress", "from"), ("Egress", "egress", "to")]
        {
            if !self.random.chance(60) {
                continue;
            }
            types.push(direction);
            let rules: Vec<_> =
                (0..self.random.below(3)).map(|_| self.policy_rule(peers)).collect();
            spec[field] = json!(rules);
        }
        spec["policyTypes"] = json!(types);
        spec
    }

    fn policy_rule(&mut self, field: &str) -> Value {
        let mut rule = json!({});
        if self.random.chance(80) {
            let peers: Vec<_> = (0..=self.random.below(2)).map(|_| self.peer()).collect();
            rule[field] = json!(peers);
        }
        if self.random.chance(40) {
            let ports = [
                json!({"protocol": "TCP", "port": 8080}),
                json!({"protocol": "TCP", "port": "http"}),
                json!({"protocol": "UDP", "port": 53}),
                json!({"protocol": "TCP", "port": 80, "endPort": 90}),
                json!({"protocol": "TCP"}),
            ];
            rule["ports"] = json!([self.random.pick(&ports)]);
        }
        rule
    }

    fn peer(&mut self) -> Value {
        match self.random.below(4) {
            0 => json!({"namespaceSelector": {}}),
            1 => {
                let team = format!("t{}", self.random.below(3));
                json!({"namespaceSelector": {"matchLabels": {"team": team}}, "podSelector": {}})
            }
            2 => {
                let blocks = self.per_family("10.0.0.0/8", "fd00::/8");
                let except = self.per_family("10.11.0.0/16", "fd11::/48");
                let index = self.random.below(blocks.len());
                json!({"ipBlock": {"cidr": blocks[index], "except": [except[index]]}})
            }
            _ => json!({"podSelector": self.selector()}),
        }
    }

    fn firewall_rule(&mut self) -> Value {
        let ranges = [
            self.per_family("0.0.0.0/0", "::/0"),
            self.per_family("10.11.0.0/16", "fd11::/48"),
            self.per_family("8.8.8.8/32", "2001:db8::8/128"),
        ];
        let range = self.random.pick(&ranges)[0].clone();
        let kind = *self.random.pick(&["Allow", "Deny"]);
        let mut rule = json!({"type": kind, "to": {"cidrSelector": range}});
        if self.random.chance(30) {
            rule["ports"] = json!([{"protocol": "TCP", "port": 8080}]);
        }
        rule
    }

    fn add_egress_ip(&mut self, number: usize) {
        let address =
            self.per_family(&format!("172.18.0.{}", 200 + number), &format!("fd18::{number}"));
        let node = self.random.pick(&self.nodes).clone();
        let mark = (50_000 + number).to_string();
        let selector = self.selector();
        self.items.push(json!({"apiVersion": "k8s.ovn.org/v1", "kind": "EgressIP",
            "metadata": {"name": format!("eip{number}"),
                "annotations": {"k8s.ovn.org/egressip-mark": mark}},
            "spec": {"egressIPs": [address[0]], "podSelector": selector,
                "namespaceSelector": {"matchLabels": {"team": format!("t{number}")}}},
            "status": {"items": [{"node": node, "egressIP": address[0]}]}}));
    }

    fn add_connect(&mut self, name: &str, ranges: &[String]) {
        let subnets: Vec<_> = ranges
            .iter()
            .map(|range| {
                let prefix = if range.contains(':') { 120 } else { 24 };
                json!({"cidr": range, "networkPrefix": prefix})
            })
            .collect();
        let selector = json!({"matchLabels": {name: "yes"}});
        let connectivity = [
            json!(["PodNetwork"]),
            json!(["ServiceNetwork"]),
            json!(["PodNetwork", "ServiceNetwork"]),
        ];
        let spec = json!({"connectSubnets": subnets, "connectivity": self.random.pick(&connectivity),
            "networkSelectors": [
                {"networkSelectionType": "ClusterUserDefinedNetworks",
                    "clusterUserDefinedNetworkSelector": {"networkSelector": selector}},
                {"networkSelectionType": "PrimaryUserDefinedNetworks",
                    "primaryUserDefinedNetworkSelector": {"namespaceSelector": selector}}]});
        self.add("k8s.ovn.org/v1", "ClusterNetworkConnect", &json!({"name": name}), &spec);
    }
}
