//! The audit trail: a line of JSON for each request that may change or reveal something.

use std::fmt;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use axum::http::StatusCode;
use serde_json::json;

use super::caller::Caller;
use super::routes::Route;
use super::service::ServiceState;
use retrial::engine::World;
use retrial::failure::sanitise::clean;
use retrial::run::RunId;
use retrial::runtime::Runtime;

/// Where the audit trail goes. Clones are handles to the same place.
#[derive(Clone)]
pub struct Audit(Arc<Mutex<Box<dyn Write + Send>>>);

impl Audit {
    /// A trail into `out`.
    pub fn new(out: impl Write + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(Box::new(out))))
    }

    /// Goes on in `out`, as after the file was moved away.
    pub fn go_on_in(&self, out: impl Write + Send + 'static) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Box::new(out);
    }

    fn write(&self, line: &str) -> io::Result<()> {
        let mut out = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // At once, so that lines of several processes do not mix.
        out.write_all(line.as_bytes())?;
        out.flush()
    }
}

impl fmt::Debug for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Audit")
    }
}

/// The run that a request created, for the trail.
#[derive(Clone, Copy)]
pub(super) struct CreatedRun(pub(super) RunId);

impl<W: World> ServiceState<W> {
    /// Writes the line of an answered request before its answer is sent, with the run that it
    /// created. `caller` is `None` where the token was missing or wrong.
    pub(super) async fn audit(
        &self,
        route: &Route,
        path: &str,
        caller: Option<&Caller>,
        (status, created): (StatusCode, Option<RunId>),
    ) {
        let Some(audit) = self.settings.audit.clone() else { return };
        let runtime = self.engine.runtime();
        let in_path = path.split('/').find_map(|part| part.parse::<RunId>().ok());
        let line = json!({
            "at": runtime.wall().to_string(),
            "who": caller.map(Caller::name),
            "role": caller.map(|caller| caller.role().to_string()),
            "did": route.id,
            "path": clean(path),
            "run": in_path.map(|run| run.to_string()),
            "created": created.map(|run| run.to_string()),
            "status": status.as_u16(),
        });
        let written = runtime.blocking(move || audit.write(&format!("{line}\n"))).await;
        if !matches!(written, Ok(Ok(()))) {
            tracing::error!(did = route.id, "the audit trail can't be written");
        }
    }
}
