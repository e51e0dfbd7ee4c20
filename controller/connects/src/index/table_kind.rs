//! Tables that the index reads.

use patchbay_schemas::nb::{
    Acl, AddressSet, Copp, LoadBalancer, LoadBalancerGroup, LogicalRouter, LogicalRouterPolicy,
    LogicalRouterPort, LogicalRouterStaticRoute, LogicalSwitch,
};
use patchbay_schemas::schema::DatabaseSchema;
use patchbay_schemas::typed::TableRow;

use super::IdentityColumns;

/// Table that the index reads.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum TableKind {
    Router,
    Port,
    Policy,
    Route,
    Acl,
    AddressSet,
    Group,
    Switch,
    LoadBalancer,
    Copp,
}

impl TableKind {
    /// All tables. Tables with references come after the tables that they reference.
    pub(super) const ALL: [Self; 10] = [
        Self::Port,
        Self::Policy,
        Self::Route,
        Self::Acl,
        Self::AddressSet,
        Self::Group,
        Self::LoadBalancer,
        Self::Copp,
        Self::Router,
        Self::Switch,
    ];

    pub(super) const fn table(self) -> &'static str {
        match self {
            Self::Router => LogicalRouter::TABLE,
            Self::Port => LogicalRouterPort::TABLE,
            Self::Policy => LogicalRouterPolicy::TABLE,
            Self::Route => LogicalRouterStaticRoute::TABLE,
            Self::Acl => Acl::TABLE,
            Self::AddressSet => AddressSet::TABLE,
            Self::Group => LoadBalancerGroup::TABLE,
            Self::Switch => LogicalSwitch::TABLE,
            Self::LoadBalancer => LoadBalancer::TABLE,
            Self::Copp => Copp::TABLE,
        }
    }

    pub(super) fn identity(self, schema: &DatabaseSchema) -> IdentityColumns {
        match self {
            Self::Router => IdentityColumns::of::<LogicalRouter>(schema),
            Self::Port => IdentityColumns::of::<LogicalRouterPort>(schema),
            Self::Policy => IdentityColumns::of::<LogicalRouterPolicy>(schema),
            Self::Route => IdentityColumns::of::<LogicalRouterStaticRoute>(schema),
            Self::Acl => IdentityColumns::of::<Acl>(schema),
            Self::AddressSet => IdentityColumns::of::<AddressSet>(schema),
            Self::Group => IdentityColumns::of::<LoadBalancerGroup>(schema),
            Self::Switch => IdentityColumns::of::<LogicalSwitch>(schema),
            Self::LoadBalancer => IdentityColumns::of::<LoadBalancer>(schema),
            Self::Copp => IdentityColumns::of::<Copp>(schema),
        }
    }
}
