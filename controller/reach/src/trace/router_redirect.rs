//! Rules without state that name addresses on the other side (`lr_in_gw_redirect`).

use std::net::IpAddr;

use super::{End, Trace};
use crate::address::bits;
use crate::northbound::{Limit, Router, RouterKind, RouterPortId};

/// Condition of the flows for the addresses that rules without state name: what ovn-northd has
/// written before them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Condition {
    /// The packet is for the address of the router's last rule.
    LastRule,
    /// The packet is that of a new connection and goes out by the last gateway port. OVN has
    /// several of them in no defined order.
    New,
    /// No first packet of a connection.
    Never,
}

impl Trace<'_> {
    /// Stage `lr_in_gw_redirect`. Returns `true` if the packet comes in again by the port `output`.
    ///
    /// # Errors
    /// The router drops the packet.
    pub(super) fn redirect(&mut self, router: &Router, output: RouterPortId) -> Result<bool, End> {
        const STAGE: &str = "lr_in_gw_redirect";
        let RouterKind::Distributed { gateways } = &router.kind else {
            return Ok(false);
        };
        let limits = || {
            let nats = router.nats.iter();
            nats.filter_map(|nat| Some((nat, nat.stateless_limit()?)))
        };
        if gateways.is_empty() || limits().next().is_none() {
            return Ok(false);
        }
        let ip = self.ip()?;
        let (source, destination) = (ip.source, ip.destination);
        let is_gateway = router.kind.is_gateway_port(output);
        let balancers = &self.northbound.load_balancers;
        let is_answer = || balancers.of_sender(&router.load_balancers, ip).is_some();
        let mut distributed = router.nats.iter().filter(|nat| {
            nat.distributed_mac().is_some()
                && nat.is_resident()
                && nat.gateway == Some(output)
                && nat.logical.contains(source)
        });
        if distributed.next().is_some() || is_gateway && is_answer() {
            return Ok(false);
        }
        let condition = if self.northbound.has_common_zone {
            Condition::Never
        } else if router.commits() {
            Condition::New
        } else {
            Condition::LastRule
        };
        let holds = match condition {
            Condition::LastRule => router.nats.last().is_some_and(|nat| {
                nat.external == destination && nat.gateway == Some(output) && nat.is_resident()
            }),
            Condition::New => self.packet.is_tracked && is_gateway,
            Condition::Never => false,
        };
        let names_source = |limit: Limit| {
            limits().any(|(nat, (own, set))| {
                own == limit && is_family(nat.external, source) && set.contains(bits(source))
            })
        };
        if holds {
            let is_allowed = names_source(Limit::Allowed);
            let is_exempted = names_source(Limit::Exempted);
            if is_allowed && is_exempted {
                self.path.leave_open(format!(
                    "rules of {} without state allow and exempt {source}",
                    router.name
                ));
            }
            let is_choice = condition == Condition::New && gateways.len() > 1;
            if is_choice && (is_allowed || is_exempted) {
                self.path.leave_open(format!(
                    "rules of {} without state hold at one of its gateway ports",
                    router.name
                ));
            }
            if is_allowed {
                let decision = format!("allowed source {source}: the packet comes in again");
                self.path.router(&router.name, STAGE, None, decision);
                return Ok(true);
            }
            if is_exempted {
                let reason = format!("source {source} is exempted from NAT without state");
                return Err(self.refuse(router, STAGE, reason));
            }
        }
        let mut allowing = limits().filter(|(_, (own, _))| *own == Limit::Allowed);
        let first = allowing.next().map(|(nat, _)| nat.external);
        if first == Some(destination) {
            let reason = format!("{destination} of NAT without state was not translated");
            return Err(self.refuse(router, STAGE, reason));
        }
        Ok(false)
    }
}

fn is_family(address: IpAddr, other: IpAddr) -> bool {
    address.is_ipv4() == other.is_ipv4()
}
