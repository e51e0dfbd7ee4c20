//! Releases of OVN whose texts are rendered.

/// Release of `ovn-nbctl`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Release {
    /// 23.03, that of Debian 12.
    #[default]
    V23_03,
    /// 26.03, the newest one that the tests compare with.
    V26_03,
}
