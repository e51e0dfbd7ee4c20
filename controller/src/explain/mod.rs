//! Why a connect joins what it joins, and not what it does not: in words, with the object and the field to mend.
//!
//! ```text
//! connect, networks, namespaces -> choices   what each selector chooses, and what keeps choices from being networks
//! zones' reports                -> reasons   why a network, or a network on a node, is not connected
//!                               -> Explanation
//! ```
//!
//! It is a function of objects and of what zones report. Whether those were asked, or made up from the objects alone, is a
//! matter of the caller.

mod choices;
mod explanation;
mod reasons;
mod text;

pub use explanation::{
    Explanation, NetworkExplanation, NetworkState, NodeExplanation, Room, explain,
};
pub use reasons::Reason;
