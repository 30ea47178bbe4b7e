//! The simulated network for HTTP actions of the older release.

use std::io;

use older::failure::NetworkFault;
use older::net::{Authority, Connect, ConnectError};
use retrial_sim::unstable::net::ShimStream;
use retrial_sim::unstable::world::ActionNetwork;

#[derive(Clone)]
pub(crate) struct OfOlder(pub(crate) ActionNetwork);

impl Connect for OfOlder {
    type Stream = ShimStream;

    async fn connect(&self, to: &Authority) -> Result<ShimStream, ConnectError> {
        self.0.open(&to.host, to.port).await.map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => ConnectError::new(NetworkFault::Dns, e.to_string()),
            _ => ConnectError::from_io("connecting", &e),
        })
    }
}
