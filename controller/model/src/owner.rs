//! Objects for which rows of a Northbound database exist, as those who wrote the rows name them.
//!
//! Known are OVN-Kubernetes, Kube-OVN and `OpenStack` Neutron. They leave the names in
//! `external_ids`.

use std::fmt;

use super::external_ids::key;

/// Object for which a row exists.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Owner {
    /// Kind in the words of its system, such as `pod`, `NetworkPolicy` or `network`.
    pub kind: String,
    /// Name, with the namespace before a `/` where there is one.
    pub name: String,
}

/// Keys of external ids that name an object, with the kind of the object. The first one that a row
/// has counts.
const NAMED: [(&str, &str); 9] = [
    ("neutron:port_name", "port"),
    ("neutron:network_name", "network"),
    ("neutron:router_name", "router"),
    ("neutron:security_group_id", "security group"),
    ("neutron:security_group_rule_id", "security group rule"),
    ("neutron:fip_id", "floating IP"),
    ("neutron:qos_policy_id", "QoS policy"),
    ("vpc", "Vpc"),
    (key::NETWORK, "network"),
];

impl Owner {
    /// The object of a row. `name`: column `name` of the row, empty if there is none. `id`: value of
    /// a key of `external_ids`.
    ///
    /// ```
    /// use patchbay_model::owner::Owner;
    ///
    /// let ids = [("pod", "true"), ("namespace", "shop")];
    /// let id = |key: &str| ids.iter().find(|(own, _)| *own == key).map(|(_, value)| *value);
    /// assert_eq!(Owner::of("shop_web-1", id).unwrap().to_string(), "pod shop/web-1");
    /// ```
    pub fn of<'a>(name: &str, id: impl Fn(&str) -> Option<&'a str>) -> Option<Self> {
        let id = |key: &str| id(key).filter(|value| !value.is_empty());
        if let Some(pod) = id("pod") {
            if pod.contains('/') {
                return Some(Self::new("pod", pod));
            }
            // Names of pods have no underscore.
            if let (Some(namespace), Some((_, pod))) = (id("namespace"), name.rsplit_once('_')) {
                return Some(Self::new("pod", format!("{namespace}/{pod}")));
            }
        }
        if let (Some(kind), Some(owner)) = (id(key::KIND), id(key::OWNER)) {
            return Some(Self::new(kind, owner));
        }
        if let (Some(kind), Some(owner)) = (id(key::OWNER_TYPE), id(key::NAME)) {
            return Some(Self::new(kind, owner.replacen(':', "/", 1)));
        }
        // OVN-Kubernetes before its rows named their owners' types.
        if let (Some(namespace), Some(policy)) = (id("namespace"), id("policy")) {
            return Some(Self::new("NetworkPolicy", format!("{namespace}/{policy}")));
        }
        // Rows of VPCs name their object as `KIND/NAME`.
        let of_vpc = id("vendor").and_then(|_| id("owner")?.split_once('/'));
        if let Some((kind, name)) = of_vpc {
            return Some(Self::new(kind, name));
        }
        NAMED.iter().find_map(|(key, kind)| Some(Self::new(*kind, id(key)?)))
    }

    fn new(kind: impl Into<String>, name: impl Into<String>) -> Self {
        Self { kind: kind.into(), name: name.into() }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(name: &str, ids: &[(&str, &'static str)]) -> Option<String> {
        let id = |key: &str| ids.iter().find(|(own, _)| *own == key).map(|(_, value)| *value);
        Owner::of(name, id).map(|owner| owner.to_string())
    }

    #[test]
    fn owners_have_the_names_of_their_systems() {
        let expected = |text: &str| Some(text.to_owned());
        let pod = [("pod", "true"), ("namespace", "a-b"), (key::NETWORK, "blue")];
        assert_eq!(owner("blue_a-b_web", &pod), expected("pod a-b/web"));
        assert_eq!(owner("web.a", &[("pod", "a/web"), ("ls", "s")]), expected("pod a/web"));
        let port = [("neutron:port_name", ""), ("neutron:network_name", "neutron-1")];
        assert_eq!(owner("1f2e", &port), expected("network neutron-1"));
        let policy = [(key::OWNER_TYPE, "NetworkPolicy"), (key::NAME, "shop:deny")];
        assert_eq!(owner("", &policy), expected("NetworkPolicy shop/deny"));
        let former = [("namespace", "shop"), ("policy", "deny"), ("policy_type", "Ingress")];
        assert_eq!(owner("", &former), expected("NetworkPolicy shop/deny"));
        let service = [(key::KIND, "Service"), (key::OWNER, "shop/api"), (key::NETWORK, "n")];
        assert_eq!(owner("Service_shop/api", &service), expected("Service shop/api"));
        assert_eq!(owner("s", &[("vendor", "kube-ovn")]), None);
        let of_vpc = [("owner", "Subnet/alpha"), ("vendor", "kube-ovn")];
        assert_eq!(owner("alpha", &of_vpc), expected("Subnet alpha"));
    }
}
