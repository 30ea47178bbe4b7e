//! Making connections.

use std::future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use madsim::net::TcpStream;
use madsim::time::{TimeHandle, sleep, sleep_until};
use retrial::time::{Mono, Nanos};

use super::Net;
use super::conn::Conn;
use super::network::Obstacle;
use super::plan::Direction;
use super::stream::ShimStream;
use crate::clock::true_now;
use crate::incarnation::Incarnation;
use crate::trace::Kind;

/// Opens connections for one incarnation of a node.
#[derive(Clone, Debug)]
pub struct SimConnector {
    net: Net,
    incarnation: Incarnation,
}

impl SimConnector {
    pub(super) fn new(net: Net, incarnation: Incarnation) -> Self {
        Self { net, incarnation }
    }

    /// Opens a connection to `port` of `host`; to be called on its own node.
    ///
    /// # Errors
    /// `NotFound` for an unknown host, as a failed look-up; `ConnectionRefused` when the
    /// plan says so or there is no listener.
    pub async fn connect_to(&self, host: &str, port: u16) -> io::Result<ShimStream> {
        self.alive().await;
        let from = self.incarnation.node();
        let unknown = || io::Error::new(io::ErrorKind::NotFound, format!("no host `{host}`"));
        let target = self.net.host(host).ok_or_else(unknown)?;
        let number = self.net.count_link(from, &target.node);
        let link = format!("{from}>{}#{number}", target.node);
        self.net.record(from, Kind::Message, &format!("{link} connects"), &[]);
        sleep(self.latency(&link).into()).await;
        self.overcome(from, &target.node, number).await?;
        let addr = SocketAddr::new(target.ip, port);
        let inner = TcpStream::connect(addr).await;
        self.alive().await;
        let to = self.net.listener(addr);
        let (Ok(inner), Some(to)) = (inner, to) else {
            self.net.record(from, Kind::Message, &format!("{link} finds nobody listening"), &[]);
            return Err(refused(&link));
        };
        let conn = Conn::new(from, to, number);
        let end = self.net.keep(&self.incarnation, Direction::Request, &conn, inner);
        self.net.record(from, Kind::Message, &format!("{link} is made"), &[]);
        Ok(ShimStream::new(self.net.clone(), end))
    }

    /// Waits until no fault is in the way.
    async fn overcome(&self, from: &str, to: &Arc<str>, number: u64) -> io::Result<()> {
        loop {
            // Enlisted before the look, so a heal between the two is not missed.
            let changed = self.net.changed().notified();
            match self.net.obstacle(from, to, number) {
                None => return Ok(()),
                Some(Obstacle::Refused) => return Err(refused(&format!("{from}>{to}#{number}"))),
                Some(Obstacle::Waits { until }) => {
                    tokio::select! {
                        biased;
                        () = changed => {}
                        () = reach(until) => {}
                    }
                }
            }
            self.alive().await;
        }
    }

    /// The time of a handshake, 1 to 9 ms: madsim's takes no time.
    fn latency(&self, link: &str) -> Nanos {
        let drawn = self.net.draw(link.bytes().fold(0, |h, b| h.rotate_left(7) ^ u64::from(b)));
        Nanos::from_millis(1 + drawn % 9)
    }

    /// A dead node opens no connections.
    async fn alive(&self) {
        if self.incarnation.is_over() {
            future::pending::<()>().await;
        }
    }
}

fn refused(link: &str) -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionRefused, format!("{link}: connection refused"))
}

/// Ends at `until`; never when that is the last instant.
async fn reach(until: Mono) {
    if until == Mono::from_nanos(u64::MAX) {
        future::pending::<()>().await;
    }
    let wait = until.since(true_now());
    sleep_until(TimeHandle::current().now_instant() + std::time::Duration::from(wait)).await;
}
