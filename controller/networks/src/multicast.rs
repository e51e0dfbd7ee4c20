//! Multicast of primary networks: it is dropped, except between switch and router, and where a
//! namespace allows it.

use ipnet::IpNet;
use patchbay_model::{Feature, link_local_address};
use patchbay_schemas::nb::{Acl, AclAction, AclDirection};

use super::rows::{TextMap, gateway_mac, texts};
use super::site::Site;

/// Owner type of the ACLs that drop multicast, and of those for routers.
pub(super) const OWNER_TYPE: &str = "MulticastCluster";
/// Priority of the ACLs that drop multicast.
const DROP_PRIORITY: i64 = 1011;
/// Priority of the ACLs that let multicast pass.
const ALLOW_PRIORITY: i64 = 1012;
/// Match of multicast packets and reports of group members, whatever families the cluster runs. Of
/// IPv6 groups it has those that are not assigned permanently (RFC 3307, section 4.3).
const MULTICAST: &str =
    "(ip4.mcast || mldv1 || mldv2 || (ip6.dst[120..127] == 0xff && ip6.dst[116] == 1))";

/// Columns of a node's switch with these addresses of its router port: it follows who listens, and
/// asks itself.
pub(super) fn multicast_config(gateways: &[IpNet]) -> TextMap {
    let mut config = texts([("mcast_snoop", "true")]);
    if gateways.is_empty() {
        config.extend(texts([("mcast_querier", "false")]));
        return config;
    }
    let mac = gateway_mac(gateways);
    config.extend(texts([("mcast_querier", "true"), ("mcast_eth_src", &mac)]));
    for gateway in gateways {
        let (key, source) = match gateway {
            IpNet::V4(gateway) => ("mcast_ip4_src", Some(gateway.addr().to_string())),
            IpNet::V6(_) => {
                let source = link_local_address(&mac);
                ("mcast_ip6_src", source.map(|address| address.to_string()))
            }
        };
        config.extend(source.map(|source| (key.to_owned(), source)));
    }
    config
}

impl Site<'_> {
    /// `true` if the network's rows are about multicast.
    pub(super) fn has_multicast(&self) -> bool {
        self.is_primary() && self.settings.has_feature(Feature::Multicast)
    }

    /// Drops multicast from and to all ports.
    pub(super) fn multicast_drop_acls(&self) -> Vec<Acl> {
        self.multicast_acls("DefaultDeny", |_| Acl {
            action: AclAction::Drop,
            priority: DROP_PRIORITY,
            r#match: MULTICAST.to_owned(),
            ..Acl::default()
        })
    }

    /// Lets multicast pass from and to the ports of routers, which are in this group.
    pub(super) fn multicast_router_acls(&self, group: &str) -> Vec<Acl> {
        self.multicast_acls("AllowInterNode", |port| Acl {
            action: AclAction::Allow,
            priority: ALLOW_PRIORITY,
            r#match: format!("{port} == @{group} && {MULTICAST}"),
            ..Acl::default()
        })
    }

    /// An ACL for each direction. `acl` gets the field of the port that is the pods'.
    fn multicast_acls(&self, kind: &str, acl: impl Fn(&str) -> Acl) -> Vec<Acl> {
        let after = texts([("apply-after-lb", "true")]);
        let directions = [
            ("Egress", AclDirection::FromLport, "inport", after),
            ("Ingress", AclDirection::ToLport, "outport", TextMap::new()),
        ];
        let acls = directions.map(|(name, direction, port, options)| {
            let mut external_ids = self.owned(OWNER_TYPE, &[kind, name]);
            external_ids.extend(texts([("direction", name), ("type", kind)]));
            Acl {
                direction,
                options,
                external_ids,
                tier: 2,
                meter: Some("acl-logging".to_owned()),
                ..acl(port)
            }
        });
        acls.into()
    }
}
