//! Numbers of switches, routers, ports and load balancers in the index.

/// Number of a switch.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct SwitchId(pub(super) u32);

/// Number of a router.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct RouterId(pub(super) u32);

/// Number of a switch port.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct SwitchPortId(pub(super) u32);

/// Number of a router port.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct RouterPortId(pub(super) u32);

/// Number of a load balancer.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct LoadBalancerId(pub(super) u32);

impl RouterPortId {
    /// Port of a router outside of a database.
    pub(crate) fn new(number: u32) -> Self {
        Self(number)
    }
}

#[cfg(test)]
impl SwitchId {
    pub(crate) fn for_test(number: u32) -> Self {
        Self(number)
    }
}

#[cfg(test)]
impl SwitchPortId {
    pub(crate) fn for_test(number: u32) -> Self {
        Self(number)
    }
}

/// Port of a switch or of a router.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) enum PortId {
    Switch(SwitchPortId),
    Router(RouterPortId),
}

impl From<SwitchPortId> for PortId {
    fn from(port: SwitchPortId) -> Self {
        Self::Switch(port)
    }
}

impl From<RouterPortId> for PortId {
    fn from(port: RouterPortId) -> Self {
        Self::Router(port)
    }
}
