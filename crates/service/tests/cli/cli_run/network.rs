//! Certificates and the proxy that a command is given.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;

use super::workspace::{Workspace, done, one_step};

/// What the proxy is asked, and what the command prints.
#[test]
#[expect(clippy::disallowed_methods, reason = "a proxy of the test's own")]
fn x19_a_run_goes_through_the_proxy_of_the_environment() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let proxy = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut asked = String::new();
        BufReader::new(&stream).read_line(&mut asked).unwrap();
        stream.write_all(b"HTTP/1.1 407 Who\r\n\r\n").unwrap();
        asked
    });
    let workspace = Workspace::new();
    let once = "work_config = { max_retries = 0, backoff = 1 }";
    workspace.write("w.toml", one_step("https://api.example.invalid/x", once));
    let mut command = workspace.command(&["run", "w.toml"]);
    command.env("HTTPS_PROXY", format!("http://u:hunter2@{at}")).env("NO_PROXY", "other.invalid");
    let ran = done(command);
    assert_eq!(proxy.join().unwrap().trim(), "CONNECT api.example.invalid:443 HTTP/1.1");
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let shown = format!("{}{}", ran.out, ran.err);
    assert!(shown.contains("asks for a user and a password"), "{shown}");
    assert!(!shown.contains("hunter2"), "{shown}");
}

#[test]
fn x19_settings_of_the_network_that_mean_nothing_are_refused() {
    let workspace = Workspace::new();
    workspace.write("w.toml", one_step("https://api.example.invalid/x", ""));
    let tls = retrial_testkit::root().join("tests/fixtures/tls");
    let at = |name: &str| tls.join(name).display().to_string();
    let key = at("client.key.pem");
    for (variables, says) in [
        (vec![("RETRIAL_CA_FILE", "nowhere.pem")], "RETRIAL_CA_FILE: `nowhere.pem` can't be read"),
        (vec![("RETRIAL_CA_FILE", &key)], "there is no certificate in PEM"),
        (vec![("RETRIAL_CLIENT_KEY_FILE", &key)], "needs client_cert_file beside it"),
        (vec![("https_proxy", "https://u:hunter2@h:1")], "HTTPS_PROXY: the proxy: write http://"),
        (
            vec![("HTTPS_PROXY", "http://h:1"), ("NO_PROXY", "a b")],
            "HTTPS_PROXY: the hosts without",
        ),
    ] {
        let mut command = workspace.command(&["run", "w.toml"]);
        command.envs(variables);
        let ran = done(command);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.err.contains(says) && !ran.err.contains("hunter2"), "{says}: {}", ran.err);
    }
    // The same settings of the service, with their places.
    let check = |text: &str| {
        workspace.write("c.toml", text);
        workspace.run(&["config", "check", "--config", "c.toml"])
    };
    let bad = check("log = \"warn\"\nca_file = [\"nowhere.pem\"]\n");
    assert_eq!(bad.code, Some(2), "{bad:?}");
    assert!(bad.err.contains("c.toml:2:11") && bad.err.contains("can't be read"), "{}", bad.err);
    let (ca, cert) = (at("root.pem"), at("client.pem"));
    let good = check(&format!(
        "ca_file = [\"{ca}\"]\nclient_cert_file = \"{cert}\"\nclient_key_file = \"{key}\"\n"
    ));
    assert_eq!(good.code, Some(0), "{good:?}");
}
