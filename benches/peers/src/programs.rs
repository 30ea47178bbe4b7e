//! The programs: how they are built and run.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use retrial_testkit::root;
use tokio::process::Command;

use crate::cases::{Case, Kind};

/// The folder of the one that is no Rust.
const NODE: &str = "node";

/// What a program is asked to do.
#[derive(Clone, Debug)]
pub(crate) struct Work {
    /// The database.
    pub(crate) url: String,
    /// How many jobs.
    pub(crate) jobs: u64,
    /// How many at once.
    pub(crate) at_once: usize,
}

/// The built programs.
#[derive(Debug)]
pub(crate) struct Programs {
    folder: PathBuf,
    target: PathBuf,
}

impl Programs {
    /// Builds those that these cases need.
    pub(crate) fn build(cases: &[&Case]) -> Result<Self> {
        let folder = root().join("benches/peers/programs");
        let built = Self { target: root().join("target/peers"), folder };
        if cases.iter().any(|case| case.program == NODE) {
            let npm = ["ci", "--no-audit", "--no-fund", "--loglevel=error"];
            built.make("npm", &npm, &built.folder.join(NODE))?;
        }
        // All of them: the features of what they share would change with those that are asked for.
        built.make(env!("CARGO"), &["build", "--release"], &built.folder)?;
        Ok(built)
    }

    fn make(&self, program: &str, arguments: &[&str], folder: &Path) -> Result<()> {
        let mut command = std::process::Command::new(program);
        command.args(arguments).current_dir(folder);
        // The flags of the simulation are not for the peers, and with a database sqlx would look for its
        // tables in that.
        command.env("RUSTFLAGS", "").env("CARGO_TARGET_DIR", &self.target);
        command.env_remove("DATABASE_URL");
        let made = command.status().with_context(|| {
            format!("{program} does not start: install it, or name the cases without it")
        })?;
        ensure!(made.success(), "{program} {} failed", arguments.join(" "));
        Ok(())
    }

    /// Runs a phase of a case. The seconds that it took, by its own word; the longest of two nodes.
    pub(crate) async fn run(&self, case: &Case, work: &Work, phase: &str) -> Result<f64> {
        let two = case.kind == Kind::TwoNodes && phase == "work";
        let (one, other) = tokio::join!(self.one(case, work, phase), async {
            if two { self.one(case, work, phase).await } else { Ok(0.0) }
        });
        Ok(one?.max(other?))
    }

    async fn one(&self, case: &Case, work: &Work, phase: &str) -> Result<f64> {
        let mut command = match case.program {
            NODE => {
                let mut node = Command::new("node");
                node.arg("run.mjs").current_dir(self.folder.join(NODE));
                node
            }
            name => Command::new(self.target.join(format!("release/bench-{name}"))),
        };
        command.args([phase, &work.jobs.to_string(), &work.at_once.to_string()]);
        match case.kind {
            Kind::Fail => drop(command.arg("fail")),
            Kind::TwoNodes => drop(command.arg("shared")),
            _ => {}
        }
        command.env("DATABASE_URL", &work.url).stderr(Stdio::piped()).kill_on_drop(true);
        let ran = command.output().await?;
        let said = String::from_utf8_lossy(&ran.stderr);
        ensure!(ran.status.success(), "{phase} ended with {}:\n{said}", ran.status);
        if phase == "setup" {
            return Ok(0.0);
        }
        let out = String::from_utf8_lossy(&ran.stdout);
        let last = out.lines().last().unwrap_or_default();
        last.trim().parse().with_context(|| format!("{phase} said no time, but `{last}`"))
    }
}
