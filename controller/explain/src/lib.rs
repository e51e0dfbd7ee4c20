//! Explanation of a ClusterNetworkConnect: the connected networks, the reasons why others are not
//! connected, and the object and field to change.
//!
//! ```text
//! connect, networks, namespaces -> selection  networks that each selector selects, and problems of
//!                                             selected objects
//! networks' status              -> refusals   reasons why a network has no attachment definition
//!                                             in a namespace
//! zones' rows                   -> rows       rows that are not as the connect wants them
//! zones' reports, nodes         -> network    connection state of each network and node
//!                                  reasons    reasons with the object and field to change
//!                               -> Explanation
//! ```
//!
//! [`explain_object`] explains a network, pod, service, policy or EgressIP, and [`explain_vpc`] an
//! object of a VPC, in the same way: see their modules.
//!
//! It is a pure function of objects and zone reports. The caller chooses if the reports come from
//! databases or are computed from the objects alone.

mod explanation;
mod line;
mod network;
mod object;
mod reasons;
mod refusals;
mod rows;
mod selection;
mod text;
mod vpc;

pub use explanation::{
    Explanation, NetworkExplanation, NetworkState, NodeExplanation, NodeIds, RangeCapacity,
    RowWriter, ZoneView, explain,
};
pub use object::{
    ObjectExplanation, ObjectKind, ObjectRow, ObjectState, ObjectView, RowState, explain_object,
};
pub use reasons::Reason;
pub use vpc::{VpcKind, VpcView, explain_vpc};
