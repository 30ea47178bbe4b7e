//! Accepting connections.

use std::future;
use std::io;
use std::net::SocketAddr;

use madsim::net::TcpListener;

use super::Net;
use super::plan::Direction;
use super::stream::ShimStream;
use crate::incarnation::Incarnation;
use crate::trace::Kind;

/// Accepts connections for one incarnation of a node.
#[derive(Debug)]
pub struct SimListener {
    net: Net,
    incarnation: Incarnation,
    addr: SocketAddr,
    inner: TcpListener,
}

impl SimListener {
    pub(super) async fn bind(net: Net, incarnation: Incarnation, port: u16) -> io::Result<Self> {
        let unknown = || {
            let text = format!("node `{}` was not added to the network", incarnation.node());
            io::Error::new(io::ErrorKind::NotFound, text)
        };
        let addr = SocketAddr::new(net.host(incarnation.node()).ok_or_else(unknown)?.ip, port);
        let inner = TcpListener::bind(addr).await?;
        net.note_listener(addr, incarnation.clone());
        Ok(Self { net, incarnation, addr, inner })
    }

    /// Its incarnation.
    #[must_use]
    pub fn incarnation(&self) -> &Incarnation {
        &self.incarnation
    }

    /// The next connection.
    ///
    /// # Errors
    /// What madsim says when the listener is gone.
    pub async fn accept(&self) -> io::Result<ShimStream> {
        loop {
            let (inner, peer) = self.inner.accept().await?;
            if self.incarnation.is_over() {
                future::pending::<()>().await;
            }
            // Without a record it was not made through the network, so its other end does not
            // exist.
            let Some(conn) = self.net.accepted(peer, self.addr) else { continue };
            let node = self.incarnation.node();
            self.net.record(node, Kind::Message, &format!("{} is accepted", conn.name), &[]);
            let end = self.net.keep(&self.incarnation, Direction::Response, &conn, inner);
            return Ok(ShimStream::new(self.net.clone(), end));
        }
    }
}
