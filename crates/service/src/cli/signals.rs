//! The signals that stop the process.

use std::io;
use std::process::ExitCode;

/// A signal to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// SIGINT, as from Ctrl-C.
    Interrupted,
    /// SIGTERM.
    Terminated,
}

impl Stop {
    /// 128 and the signal's number, as shells count.
    pub(super) fn number(self) -> u8 {
        match self {
            Self::Interrupted => 130,
            Self::Terminated => 143,
        }
    }

    pub(super) fn code(self) -> ExitCode {
        ExitCode::from(self.number())
    }
}

/// Receives signals from its creation on.
pub(super) struct Signals {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
}

impl Signals {
    #[cfg(unix)]
    pub(super) fn listen() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let interrupt = signal(SignalKind::interrupt())?;
        Ok(Self { interrupt, terminate: signal(SignalKind::terminate())? })
    }

    #[cfg(not(unix))]
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self {})
    }

    /// The next signal.
    #[cfg(unix)]
    pub(super) async fn next(&mut self) -> Stop {
        tokio::select! {
            biased;
            _ = self.interrupt.recv() => Stop::Interrupted,
            _ = self.terminate.recv() => Stop::Terminated,
        }
    }

    /// The next signal.
    #[cfg(not(unix))]
    pub(super) async fn next(&mut self) -> Stop {
        // Without a handler, Ctrl-C ends the process by itself.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        Stop::Interrupted
    }
}
