//! Why a connect joins what it joins, and not what it does not: in words, with the object and the field to mend.
//!
//! ```text
//! connect, networks, namespaces -> choices   what each selector chooses, and what keeps choices from being networks
//! networks' status              -> refusals  why a network is not made, or not in some namespace
//! zones' reports, nodes         -> known     of each network and node, whether it is connected
//!                                  reasons   why not, and what to mend
//!                               -> Explanation
//! ```
//!
//! It is a function of objects and of what zones report. Whether those were asked, or made up from the objects alone, is a
//! matter of the caller.

mod choices;
mod explanation;
mod known;
mod reasons;
mod refusals;
mod text;

pub use explanation::{
    Explanation, NetworkExplanation, NetworkState, NodeExplanation, Room, ZoneView, explain,
};
pub use reasons::Reason;
