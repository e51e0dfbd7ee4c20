//! Random manifests of VPCs: external subnets that tenants share, and the VPCs of each tenant.

mod platform;
mod rules;

use serde_json::{Map, Value, json};

use crate::random::Random;
use platform::{EXTERNAL, kube_ovn, object, platform};

/// First number of addresses that tenants name. Routers get lower ones.
const FIRST_NAMED_ADDRESS: usize = 0x200;
/// Addresses of nobody.
const FOREIGN_ADDRESSES: [&str; 4] = ["8.8.8.8", "203.0.113.7", "198.51.100.9", "2001:db8::8"];

/// Manifests of a platform with tenants.
#[derive(Debug)]
pub struct VpcText {
    /// JSON text of one list.
    pub manifests: String,
    /// The tenants.
    pub tenants: Vec<TenantText>,
}

/// VPCs of a tenant.
#[derive(Debug, Default)]
pub struct TenantText {
    /// Objects of the tenant.
    pub items: Vec<Value>,
    /// Beginning of the names of its VPCs.
    pub prefix: String,
    /// Names of the ports of its machines.
    pub ports: Vec<String>,
    /// Addresses that questions ask for.
    pub addresses: Vec<String>,
    /// Rows that other programs write beside those of the manifests.
    pub foreign: Vec<ForeignRow>,
}

/// Row that another program writes.
#[derive(Debug)]
pub enum ForeignRow {
    /// VIPs of a service in the load balancer for TCP of a VPC: key and backends.
    Vip {
        /// The VPC.
        vpc: String,
        /// Address and port.
        vip: String,
        /// Addresses and ports.
        backends: String,
    },
    /// The load balancer for TCP of a VPC on its router.
    OnRouter {
        /// The VPC.
        vpc: String,
    },
    /// Kube-OVN's route by source to the gateway of a subnet.
    SourceRoute {
        /// The VPC.
        vpc: String,
        /// Range of the subnet.
        cidr: String,
        /// Gateway of the subnet.
        gateway: String,
    },
}

/// Objects of a tenant as they are made.
struct Builder<'a> {
    random: &'a mut Random,
    tenant: TenantText,
    vpcs: Vec<Vpc>,
    /// Number of the next named address of the external subnets.
    next_address: &'a mut usize,
    names: usize,
}

/// A VPC as it is made.
struct Vpc {
    name: String,
    spec: Map<String, Value>,
    subnets: Vec<Subnet>,
    external: Vec<usize>,
}

struct Subnet {
    name: String,
    cidr: String,
    gateway: String,
    /// Addresses of machines, with the names of their ports.
    machines: Vec<(String, String)>,
}

impl VpcText {
    /// A random platform with tenants.
    pub fn new(count: usize, random: &mut Random) -> Self {
        let mut items = platform(random);
        let mut next_address = FIRST_NAMED_ADDRESS;
        let mut tenants = Vec::new();
        for number in 0..count {
            let tenant = TenantText { prefix: format!("t{number}v"), ..TenantText::default() };
            let mut builder = Builder {
                random,
                tenant,
                vpcs: Vec::new(),
                next_address: &mut next_address,
                names: 0,
            };
            builder.build();
            items.extend(builder.tenant.items.iter().cloned());
            tenants.push(builder.tenant);
        }
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
        Self { manifests: list.to_string(), tenants }
    }
}

impl Builder<'_> {
    fn build(&mut self) {
        let count = 1 + self.random.below(3);
        let is_overlapping = self.random.chance(15);
        for number in 0..count {
            self.add_vpc(number, if is_overlapping { 0 } else { number });
        }
        for number in 1..count {
            if self.random.chance(60) {
                self.add_peering(number - 1, number);
            }
        }
        for number in 0..count {
            self.add_external(number);
            self.add_routes(number);
            self.add_policies(number);
            self.add_rules(number);
            self.add_balancers(number);
        }
        for Vpc { name, spec, .. } in std::mem::take(&mut self.vpcs) {
            self.tenant.items.push(kube_ovn("Vpc", &name, &spec.into()));
        }
        self.tenant.addresses.extend(FOREIGN_ADDRESSES.map(str::to_owned));
    }

    fn add_vpc(&mut self, number: usize, range: usize) {
        let name = format!("{}{number}", self.tenant.prefix);
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.tenant.items.push(namespace);
        let is_dual = self.random.chance(15);
        let subnets =
            (0..=self.random.below(3)).map(|place| self.add_subnet(&name, range, place, is_dual));
        let subnets = subnets.collect::<Vec<_>>();
        let mut spec = Map::new();
        spec.insert("namespaces".to_owned(), json!([name]));
        self.vpcs.push(Vpc { name, spec, subnets, external: Vec::new() });
    }

    fn add_subnet(&mut self, vpc: &str, range: usize, place: usize, is_dual: bool) -> Subnet {
        let name = format!("{vpc}-s{place}");
        let provider = format!("n{place}.{vpc}.ovn");
        let base = format!("10.{}.{place}", 100 + range);
        let (cidr, gateway) = (format!("{base}.0/24"), format!("{base}.1"));
        let mut spec = json!({"vpc": vpc, "provider": provider, "namespaces": [vpc],
            "cidrBlock": cidr, "gateway": gateway});
        if is_dual {
            spec["cidrBlock"] = json!(format!("{cidr},fd{}:{place}::/64", 10 + range));
            spec["gateway"] = json!(format!("{gateway},fd{}:{place}::1", 10 + range));
        }
        if self.random.chance(15) {
            spec["routeTable"] = json!("other");
        }
        if self.random.chance(12) {
            spec["private"] = json!(true);
            if self.random.chance(60) {
                spec["allowSubnets"] =
                    json!([format!("10.{}.{}.0/24", 100 + range, (place + 1) % 3)]);
            }
        }
        if self.random.chance(15) {
            spec["acls"] = self.acls(&base);
            spec["allowEWTraffic"] = json!(self.random.chance(30));
        }
        self.tenant.items.push(kube_ovn("Subnet", &name, &spec));
        let config = json!({"cniVersion": "0.3.1", "name": "kube-ovn", "type": "kube-ovn",
            "server_socket": "/run/openvswitch/kube-ovn-daemon.sock", "provider": provider});
        self.tenant.items.push(object(
            "k8s.cni.cncf.io/v1",
            "NetworkAttachmentDefinition",
            &json!({"name": format!("n{place}"), "namespace": vpc}),
            &json!({"config": config.to_string()}),
        ));
        let machines = (0..=self.random.below(3)).map(|machine| {
            let pod = format!("vm{place}{machine}");
            let address = format!("{base}.{}", 10 + machine);
            let mut annotations = json!({"k8s.v1.cni.cncf.io/networks": format!("{vpc}/n{place}")});
            if !is_dual {
                annotations[format!("{provider}.kubernetes.io/ip_address")] = json!(address);
            }
            if self.random.chance(20) {
                annotations[format!("{provider}.kubernetes.io/port_security")] = json!("true");
            }
            let metadata = json!({"name": pod, "namespace": vpc, "annotations": annotations});
            let node = format!("w{}", self.random.below(3));
            let spec = json!({"nodeName": node, "containers": [{"name": "vm"}]});
            self.tenant.items.push(object("v1", "Pod", &metadata, &spec));
            let port = format!("{pod}.{vpc}.{provider}");
            // Without a wish, the machines of a subnet have the lowest addresses.
            let own = if is_dual { format!("{base}.{}", 2 + machine) } else { address };
            self.tenant.ports.push(port.clone());
            self.tenant.addresses.push(own.clone());
            (own, port)
        });
        let machines = machines.collect();
        self.tenant.addresses.push(gateway.clone());
        Subnet { name, cidr, gateway, machines }
    }

    fn acls(&mut self, base: &str) -> Value {
        let rules = (0..=self.random.below(3)).map(|place| {
            let direction = *self.random.pick(&["from-lport", "to-lport"]);
            let action = *self.random.pick(&["allow", "drop", "allow-related", "reject"]);
            let matches = [
                "ip4".to_owned(),
                "tcp.dst == 80".to_owned(),
                format!("ip4.src == {base}.10"),
                format!("ip4.dst == {base}.0/24 && udp"),
                "icmp4".to_owned(),
            ];
            json!({"direction": direction, "priority": 1002 + 10 * self.random.below(8) + place,
                "match": self.random.pick(&matches), "action": action})
        });
        rules.collect()
    }

    fn add_peering(&mut self, first: usize, second: usize) {
        let addresses = [1, 2].map(|host| format!("169.253.{first}.{host}"));
        let is_one_sided = self.random.chance(10);
        for (place, (own, other)) in [(first, second), (second, first)].into_iter().enumerate() {
            if place == 1 && is_one_sided {
                continue;
            }
            let remote = self.vpcs[other].name.clone();
            let peering = json!({"remoteVpc": remote,
                "localConnectIP": format!("{}/30", addresses[place])});
            push(&mut self.vpcs[own].spec, "vpcPeerings", peering);
            let ranges: Vec<_> =
                self.vpcs[other].subnets.iter().map(|subnet| subnet.cidr.clone()).collect();
            for range in ranges {
                if self.random.chance(85) {
                    self.add_route(own, "policyDst", &range, &addresses[1 - place]);
                }
            }
        }
        self.tenant.addresses.extend(addresses);
    }

    fn add_route(&mut self, vpc: usize, policy: &str, cidr: &str, next_hop: &str) {
        let mut route = json!({"policy": policy, "cidr": cidr, "nextHopIP": next_hop});
        if self.random.chance(15) {
            route["routeTable"] = json!("other");
        }
        push(&mut self.vpcs[vpc].spec, "staticRoutes", route);
    }

    fn add_external(&mut self, vpc: usize) {
        if self.random.chance(15) {
            return;
        }
        let own = &mut self.vpcs[vpc];
        own.spec.insert("enableExternal".to_owned(), json!(true));
        if self.random.chance(50) {
            own.external.push(0);
        } else {
            let count = 1 + self.random.below(2);
            let first = self.random.below(EXTERNAL.len());
            own.external.extend((0..count).map(|next| (first + next) % EXTERNAL.len()));
            let names: Vec<_> = own.external.iter().map(|place| EXTERNAL[*place].name).collect();
            own.spec.insert("extraExternalSubnets".to_owned(), json!(names));
        }
    }

    fn add_routes(&mut self, vpc: usize) {
        let external = self.vpcs[vpc].external.clone();
        for (place, number) in external.iter().enumerate() {
            let gateway = EXTERNAL[*number].gateway();
            let prefix = if place == 0 { "0.0.0.0/0" } else { "198.51.100.0/24" };
            if self.random.chance(85) {
                self.add_route(vpc, "policyDst", prefix, &gateway);
            }
        }
        if !self.random.chance(50) {
            return;
        }
        let next_hop = self.next_hop(vpc);
        let prefixes = [
            "0.0.0.0/0",
            "203.0.113.0/24",
            "203.0.113.7",
            "198.51.100.0/25",
            "10.101.0.0/16",
            "172.30.0.0/24",
        ];
        let prefix = *self.random.pick(&prefixes);
        self.add_route(vpc, "policyDst", prefix, &next_hop);
        if self.random.chance(30) {
            let sources = ["10.100.0.0/24", "10.100.0.10", "10.100.0.0/16", "10.101.0.0/24"];
            let source = *self.random.pick(&sources);
            let next_hop = self.next_hop(vpc);
            self.add_route(vpc, "policySrc", source, &next_hop);
        }
    }

    /// A machine, a gateway outside, the other end of a peering, or nobody.
    fn next_hop(&mut self, vpc: usize) -> String {
        let own = &self.vpcs[vpc];
        let machines = own.subnets.iter().flat_map(|subnet| &subnet.machines);
        let mut hops: Vec<_> = machines.map(|(address, _)| address.clone()).collect();
        hops.extend(own.external.iter().map(|number| EXTERNAL[*number].gateway()));
        hops.extend(["169.253.0.2".to_owned(), "169.253.0.1".to_owned()]);
        hops.push(own.subnets[0].cidr.replace(".0/24", ".77"));
        self.random.pick(&hops).clone()
    }

    fn add_policies(&mut self, vpc: usize) {
        let external = self.vpcs[vpc].external.clone();
        // Of equal ones with the same action, OVN takes any.
        for (place, number) in external.into_iter().enumerate() {
            if self.random.chance(70) {
                let policy = json!({"priority": 1500 + place, "action": "drop",
                    "match": format!("ip4.dst == {}", EXTERNAL[number].cidr())});
                push(&mut self.vpcs[vpc].spec, "policyRoutes", policy);
            }
        }
        for place in 0..self.random.below(4) {
            let subnet = &self.vpcs[vpc].subnets[0];
            let matches = [
                format!("ip4.src == {}", subnet.cidr),
                format!("ip4.src == {} && tcp.dst == 80", subnet.machines[0].0),
                format!("inport == \"{}-{}\"", self.vpcs[vpc].name, subnet.name),
                "ip4.dst == 203.0.113.0/24".to_owned(),
                format!("ip4.dst == {} && udp", EXTERNAL[0].cidr()),
                "ip4".to_owned(),
                "ip6".to_owned(),
            ];
            let text = self.random.pick(&matches).clone();
            let priorities = [10, 1000, 1490, 1510, 8000, 30_990, 31_010];
            let mut policy =
                json!({"priority": self.random.pick(&priorities) + place, "match": text});
            match self.random.below(4) {
                0 => policy["action"] = json!("allow"),
                1 => policy["action"] = json!("drop"),
                _ => {
                    policy["action"] = json!("reroute");
                    let mut next_hops = self.next_hop(vpc);
                    if self.random.chance(15) {
                        next_hops = format!("{next_hops},{}", self.next_hop(vpc));
                    }
                    policy["nextHopIP"] = json!(next_hops);
                }
            }
            push(&mut self.vpcs[vpc].spec, "policyRoutes", policy);
        }
    }
}

/// Adds an element to a list of a specification.
fn push(spec: &mut Map<String, Value>, field: &str, element: Value) {
    let list = spec.entry(field).or_insert_with(|| json!([]));
    if let Value::Array(list) = list {
        list.push(element);
    }
}
