//! The flag `--manifest-limit`.

use std::num::NonZeroU32;

use clap::Args;
use patchbay_resources::manifests::DEFAULT_MAX_MANIFEST_BYTES;

/// Maximum length of the manifests of a command.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct ManifestLimit {
    /// Maximum length of all manifests together, in MiB. Reading takes about forty times as much
    /// memory.
    #[arg(long, value_name = "MIB", default_value_t = DEFAULT_LIMIT_MIB)]
    manifest_limit: NonZeroU32,
}

/// Default of `--manifest-limit`.
const DEFAULT_LIMIT_MIB: NonZeroU32 =
    NonZeroU32::new((DEFAULT_MAX_MANIFEST_BYTES >> 20) as u32).expect("not zero");

impl ManifestLimit {
    /// The limit in bytes.
    pub(super) fn bytes(self) -> u64 {
        u64::from(self.manifest_limit.get()) << 20
    }
}
