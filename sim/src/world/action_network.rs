//! The network as actions see it: a user's services answer at their hosts, at every port.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use retrial::failure::NetworkFault;
use retrial::net::{Authority, Connect, ConnectError};

use crate::net::{ShimStream, SimConnector};
use crate::user::UserCode;

/// The endpoints' port: that of plain HTTP.
pub(super) const HTTP: u16 = 80;

/// Opens connections for an engine's actions.
#[derive(Clone, Debug)]
pub struct ActionNetwork {
    connector: SimConnector,
    /// The hosts of the user's services.
    services: Arc<BTreeSet<String>>,
}

impl ActionNetwork {
    pub(super) fn new(connector: SimConnector, own: Option<&UserCode>) -> Self {
        let services = own.map(|own| own.services.keys().cloned().collect());
        Self { connector, services: Arc::new(services.unwrap_or_default()) }
    }

    /// The network's name of a service's host. No URL and no node can have this name, even if the
    /// user's host is `store`.
    pub(super) fn name_of(host: &str) -> String {
        format!("service {host}")
    }

    /// Opens a connection to `port` of `host`, or to a user's service of that name.
    ///
    /// # Errors
    /// `NotFound` where there is no such host.
    pub async fn open(&self, host: &str, port: u16) -> io::Result<ShimStream> {
        match self.services.contains(host) {
            // No TLS is spoken in the simulated world, so one port is as good as another.
            true => self.connector.connect_to(&Self::name_of(host), HTTP).await,
            false => self.connector.connect_to(host, port).await,
        }
    }
}

impl Connect for ActionNetwork {
    type Stream = ShimStream;

    async fn connect(&self, to: &Authority) -> Result<ShimStream, ConnectError> {
        self.open(&to.host, to.port).await.map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => ConnectError::new(NetworkFault::Dns, e.to_string()),
            _ => ConnectError::from_io("connecting", &e),
        })
    }
}
