//! The network of HTTP actions: certificates from files, and the proxy that the environment names.

use retrial::net::{Proxy, TcpConnect};

use super::Lookup;
use super::error::CliError;

/// The settings that are read here, as they are named in a file.
pub(super) const CA_FILE: &str = "ca_file";
pub(super) const CLIENT_CERT_FILE: &str = "client_cert_file";
pub(super) const CLIENT_KEY_FILE: &str = "client_key_file";
/// The variables that other programs read, too; also in lower case.
const PROXY: &str = "HTTPS_PROXY";
const NO_PROXY: &str = "NO_PROXY";

/// In `ca_file`, what the operating system trusts.
const SYSTEM: &str = "system";

/// A setting that can't be used, and why.
pub(super) struct Unusable {
    pub(super) setting: &'static str,
    pub(super) why: String,
}

/// The network that these settings describe. `setting` gives the value of one.
pub(super) fn network(
    setting: impl Fn(&'static str) -> Option<String>,
    lookup: Lookup,
) -> Result<TcpConnect, Unusable> {
    let mut network = TcpConnect::new();
    let files = setting(CA_FILE).unwrap_or_default();
    for file in files.split(',').map(str::trim).filter(|file| !file.is_empty()) {
        let trusted = match file {
            SYSTEM => network.with_system_roots(),
            path => network.with_ca(&read(CA_FILE, path)?),
        };
        network = trusted.map_err(|e| wrong(CA_FILE, file, &e))?;
    }
    network = match (setting(CLIENT_CERT_FILE), setting(CLIENT_KEY_FILE)) {
        (Some(chain), Some(key)) => {
            let read = (read(CLIENT_CERT_FILE, &chain)?, read(CLIENT_KEY_FILE, &key)?);
            let shown = network.with_client_certificate(&read.0, &read.1);
            shown.map_err(|e| wrong(CLIENT_CERT_FILE, &chain, &e))?
        }
        (None, None) => network,
        (Some(_), None) => return Err(alone(CLIENT_CERT_FILE, CLIENT_KEY_FILE)),
        (None, Some(_)) => return Err(alone(CLIENT_KEY_FILE, CLIENT_CERT_FILE)),
    };
    let variable = |name: &str| lookup(name).or_else(|| lookup(&name.to_lowercase()));
    match variable(PROXY).filter(|url| !url.trim().is_empty()) {
        None => Ok(network),
        Some(url) => match Proxy::new(&url, &variable(NO_PROXY).unwrap_or_default()) {
            Ok(proxy) => Ok(network.through(proxy)),
            Err(error) => Err(Unusable { setting: PROXY, why: error.to_string() }),
        },
    }
}

fn read(setting: &'static str, path: &str) -> Result<Vec<u8>, Unusable> {
    std::fs::read(path)
        .map_err(|e| Unusable { setting, why: format!("`{path}` can't be read: {e}") })
}

fn wrong(setting: &'static str, file: &str, why: &dyn std::fmt::Display) -> Unusable {
    Unusable { setting, why: format!("`{file}`: {why}") }
}

fn alone(setting: &'static str, missing: &str) -> Unusable {
    Unusable { setting, why: format!("this needs {missing} beside it") }
}

/// The network of a command without a file of settings.
pub(super) fn of_environment(lookup: Lookup) -> Result<TcpConnect, CliError> {
    let variable = |setting: &str| format!("RETRIAL_{}", setting.to_uppercase());
    let set = |setting: &str| lookup(&variable(setting)).filter(|value| !value.trim().is_empty());
    network(set, lookup).map_err(|Unusable { setting, why }| {
        let named = if setting == PROXY { PROXY.to_owned() } else { variable(setting) };
        CliError::input(format!("{named}: {why}"))
    })
}
