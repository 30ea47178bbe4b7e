//! A PostgreSQL server for tests: its programs must be installed. Each test binary starts a server
//! in a temporary folder, and creates its databases on it.
//!
//! A shell beside the server waits for commands on a pipe. When the test's process ends, for any
//! reason, the pipe closes and the shell stops the server and removes its folder.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use tempfile::TempDir;
use tokio_postgres::{Client, NoTls};

/// Starts the server and says so; then waits for one order. Without one, everything goes.
const STAND_BY: &str = r#"
"$1/pg_ctl" start -s -w -t 60 -D "$2/data" -l "$2/log" -o "$3" </dev/null >/dev/null 2>&1 || exit 1
echo ready
read -r order || order=
"$1/pg_ctl" stop -s -w -m "${order:-immediate}" -D "$2/data" </dev/null >/dev/null 2>&1
[ -n "$order" ] || rm -rf "$2"
"#;

/// The user without rights as whom the server runs where the test runs as root, which it refuses.
const NOBODY: u32 = 65_534;

/// How a server stops.
#[derive(Clone, Copy, Debug)]
pub enum Stop {
    /// Stops it as an operator does: transactions in progress are cut off, committed ones are
    /// written.
    Fast,
    /// As a crash does: it recovers from its log when it starts again.
    Crash,
}

/// How a server is to be.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// Whether it waits for the disk, as one must that is to lose nothing with the machine.
    pub fsync: bool,
    /// Settings as in `postgresql.conf`.
    pub settings: Vec<(String, String)>,
    /// Certificate and key, PEM, of a server that speaks TLS.
    pub tls: Option<(String, String)>,
}

/// A server. Stops and leaves nothing behind when it is dropped or the process ends.
#[derive(Debug)]
pub struct Server {
    programs: PathBuf,
    folder: TempDir,
    setup: Setup,
    port: u16,
    made: AtomicU32,
    standby: Option<Child>,
}

impl Server {
    /// A server that does not wait for the disk.
    pub fn start() -> Self {
        Self::start_as(Setup::default())
    }

    pub fn start_as(setup: Setup) -> Self {
        let folder = tempfile::Builder::new().prefix("retrial-postgres-").tempdir().unwrap();
        let mut server = Self {
            programs: programs(),
            folder,
            setup,
            port: 0,
            made: AtomicU32::new(0),
            standby: None,
        };
        server.prepare();
        // Another process may take the port between its choice and its use.
        for _ in 0..5 {
            server.port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            if server.stand_by() {
                return server;
            }
        }
        panic!("the server did not start: {}", server.log());
    }

    /// Stops it and keeps what it stored.
    pub fn stop(&mut self, how: Stop) {
        let Some(mut standby) = self.standby.take() else { return };
        let order: &[u8] = match how {
            Stop::Fast => b"fast\n",
            Stop::Crash => b"immediate\n",
        };
        standby.stdin.take().unwrap().write_all(order).unwrap();
        standby.wait().unwrap();
    }

    /// Starts it on the same port after [`Server::stop`].
    pub fn start_again(&mut self) {
        assert!(self.standby.is_some() || self.stand_by(), "{}", self.log());
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The address of a database on it. The user `retrial` needs no password.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://retrial@127.0.0.1:{}/{database}", self.port)
    }

    /// A connection to a database.
    pub async fn client(&self, database: &str) -> Client {
        let (client, connection) =
            tokio_postgres::connect(&self.url(database), NoTls).await.unwrap();
        tokio::runtime::Handle::current().spawn(connection);
        client
    }

    /// Makes a new, empty database and gives its name.
    pub async fn database(&self) -> String {
        let name = format!("test_{}", self.made.fetch_add(1, Ordering::Relaxed));
        let client = self.client("postgres").await;
        client.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
        name
    }

    /// Where it keeps everything.
    pub fn folder(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    /// The log of the server.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    fn prepare(&self) {
        let folder = self.folder.path();
        if is_root(folder) {
            chown(folder, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let data = folder.join("data");
        let mut initdb = self.command(self.programs.join("initdb"));
        initdb.args(["--username=retrial", "--auth=trust", "--encoding=UTF8", "--no-locale"]);
        let made = initdb.arg("--no-sync").arg("--pgdata").arg(&data).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        // One user has to give a password.
        let access = "host all guarded all scram-sha-256\nhost all all all trust\n";
        std::fs::write(data.join("pg_hba.conf"), access).unwrap();
        if let Some((certificate, key)) = &self.setup.tls {
            self.write_secret(&data.join("server.crt"), certificate);
            self.write_secret(&data.join("server.key"), key);
        }
    }

    /// The server reads no key that others may read.
    fn write_secret(&self, path: &Path, text: &str) {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::write(path, text).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let owner = std::fs::metadata(self.folder.path()).unwrap();
        chown(path, Some(owner.uid()), Some(owner.gid())).unwrap();
    }

    fn stand_by(&mut self) -> bool {
        let mut options = format!(
            "-c listen_addresses=127.0.0.1 -c port={} -c unix_socket_directories= \
             -c max_connections=200 -c ssl={}",
            self.port,
            if self.setup.tls.is_some() { "on" } else { "off" }
        );
        if !self.setup.fsync {
            options += " -c fsync=off -c synchronous_commit=off -c full_page_writes=off";
        }
        for (name, value) in &self.setup.settings {
            options += &format!(" -c {name}={value}");
        }
        let mut shell = self.command("sh".into());
        shell.args(["-c", STAND_BY, "sh"]).arg(&self.programs).arg(self.folder.path());
        shell.arg(options).stdin(Stdio::piped()).stdout(Stdio::piped());
        // A Ctrl-C is for the test; the shell has work to do then.
        let mut standby = shell.process_group(0).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(standby.stdout.take().unwrap()).read_line(&mut said).unwrap();
        let is_ready = said == "ready\n";
        if is_ready {
            self.standby = Some(standby);
        } else {
            standby.wait().unwrap();
        }
        is_ready
    }

    fn command(&self, program: PathBuf) -> Command {
        let folder = self.folder.path();
        let mut command = Command::new(program);
        command.current_dir(folder);
        let owner = std::fs::metadata(folder).unwrap();
        if owner.uid() == NOBODY {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let Some(mut standby) = self.standby.take() else { return };
        drop(standby.stdin.take());
        let _ = standby.wait();
    }
}

fn is_root(own: &Path) -> bool {
    std::fs::metadata(own).unwrap().uid() == 0
}

/// The folder of `initdb` and `pg_ctl`: where `pg_config` says, else Debian's newest.
fn programs() -> PathBuf {
    let asked = Command::new("pg_config").arg("--bindir").output();
    let said = asked.map(|asked| String::from_utf8_lossy(&asked.stdout).trim().to_owned());
    let mut found: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .filter_map(|version| Some(version.ok()?.path().join("bin")))
        .collect();
    found.sort();
    found.extend(said.ok().map(PathBuf::from));
    let has_server = |folder: &PathBuf| folder.join("initdb").exists();
    found.into_iter().rfind(has_server).expect("PostgreSQL's server programs are not installed")
}
