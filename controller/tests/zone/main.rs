//! The zone half through its public interface: a database, the objects of a cluster, and passes of the controller.

mod connecting;
mod convergence;
mod limits;
mod ownership;
mod service_only;
mod world;
