//! Routes of tunnels, which ovs-vswitchd drops when the machine gets or loses a network device.
//!
//! It reads the routes of the machine anew then, and drops those that come from the address of a
//! dummy device. Without them it neither sends nor accepts tunnel packets.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::appctl::{self, AppctlError};

/// Device with the tunnel address of the node.
pub(super) const DEVICE: &str = "br-phys";
/// Interval between two looks at the routes. Three packets of a question take longer.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// Task that writes the tunnel address again whenever its routes are gone. It ends when it is
/// dropped.
#[derive(Debug)]
pub(super) struct TunnelRoutes(JoinHandle<()>);

impl Drop for TunnelRoutes {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl TunnelRoutes {
    /// Writes the tunnel address, with the length of its prefix, and keeps its routes. `control`:
    /// socket of ovs-vswitchd.
    pub(super) async fn write(control: PathBuf, address: String) -> Result<Self, AppctlError> {
        write_address(&control, &address).await?;
        let task = tokio::spawn(async move {
            loop {
                sleep(LOOK_INTERVAL).await;
                // A switch that was killed does not answer.
                if let Ok(false) = has_routes(&control).await {
                    tracing::debug!(%address, "the routes of tunnels are written again");
                    let _ = write_address(&control, &address).await;
                }
            }
        });
        Ok(Self(task))
    }
}

async fn write_address(control: &Path, address: &str) -> Result<(), AppctlError> {
    let arguments = [DEVICE, address];
    appctl::call(control, "netdev-dummy/ip4addr", &arguments).await?;
    Ok(())
}

/// `true` if the switch has routes that come from the address of the device.
async fn has_routes(control: &Path) -> Result<bool, AppctlError> {
    let shown = appctl::call(control, "ovs/route/show", &[]).await?;
    let device = format!(" dev {DEVICE} ");
    let mut routes = shown.lines().filter(|line| line.starts_with("Cached:"));
    Ok(routes.any(|route| route.contains(&device)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use serde_json::{Value, json};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::UnixListener;

    use super::*;

    const USER: &str = "User: 10.255.0.0/16 dev br-phys SRC 10.255.0.1\n";
    const CACHED: &str = "Cached: 10.255.0.1/32 dev br-phys SRC 10.255.0.1 local\n";

    /// Switch that has routes from its address until they are taken away.
    #[derive(Default)]
    struct Switch {
        has_routes: AtomicBool,
        written: AtomicUsize,
    }

    impl Switch {
        fn answer(&self, request: &Value) -> String {
            if request["method"] == "netdev-dummy/ip4addr" {
                assert_eq!(request["params"], json!(["br-phys", "10.255.0.1/16"]));
                self.has_routes.store(true, Ordering::Relaxed);
                self.written.fetch_add(1, Ordering::Relaxed);
                return "OK".to_owned();
            }
            let cached = self.has_routes.load(Ordering::Relaxed);
            format!("Route Table:\n{USER}{}", if cached { CACHED } else { "" })
        }

        async fn serve(&self, listener: UnixListener) {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut bytes = [0; 1024];
                let length = stream.read(&mut bytes).await.unwrap();
                let request = serde_json::from_slice(&bytes[..length]).unwrap();
                let reply = json!({"id": 0, "result": self.answer(&request), "error": null});
                let written = stream.write_all(reply.to_string().as_bytes()).await;
                written.unwrap();
            }
        }
    }

    #[tokio::test]
    async fn routes_that_a_switch_drops_come_back() {
        let folder = tempfile::tempdir().unwrap();
        let control = folder.path().join("ctl");
        let switch = Arc::<Switch>::default();
        let listener = UnixListener::bind(&control).unwrap();
        let server = switch.clone();
        let server = tokio::spawn(async move { server.serve(listener).await });
        let address = "10.255.0.1/16".to_owned();
        let routes = TunnelRoutes::write(control, address).await.unwrap();
        for written in 1..4 {
            // Several looks do not write what is there.
            sleep(3 * LOOK_INTERVAL).await;
            assert_eq!(switch.written.load(Ordering::Relaxed), written);
            switch.has_routes.store(false, Ordering::Relaxed);
            while !switch.has_routes.load(Ordering::Relaxed) {
                sleep(LOOK_INTERVAL).await;
            }
        }
        drop(routes);
        server.abort();
    }
}
