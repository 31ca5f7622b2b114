//! The settings in the environment.

use super::flags::CHECK_CONFIG;
use super::layers::RawConfig;
use super::problem::{Claim, Origin, Problem, suggestion};
use super::setting::{SETTINGS, environment_name};
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

const PREFIX: &str = "FOREBAY_";

/// Offers `raw` every `FOREBAY_` variable of `variables`. One that is no setting is a problem: it would be a typo that
/// silently leaves a server on its default.
pub(super) fn read(variables: impl IntoIterator<Item = (OsString, OsString)>, raw: &mut RawConfig) {
    let mut ours: Vec<(String, OsString)> = variables
        .into_iter()
        .map(|(name, value)| (name.to_string_lossy().into_owned(), value))
        .filter(|(name, value)| name.starts_with(PREFIX) && !is_service_link(name, value))
        .collect();
    // The environment has no order of its own; problems should have one.
    ours.sort();
    for (name, value) in ours {
        read_one(&name, value, raw);
    }
}

fn read_one(name: &str, value: OsString, raw: &mut RawConfig) {
    if name == environment_name("config") {
        raw.config_file.get_or_insert((PathBuf::from(value), Origin::Environment));
        return;
    }
    let claim = |key: &str, value: &OsStr| Claim {
        key: key.to_owned(),
        value: value.to_string_lossy().into_owned(),
        origin: Origin::Environment,
    };
    let Some(setting) = SETTINGS.iter().find(|setting| setting.environment_name() == name) else {
        let key = name[PREFIX.len()..].to_lowercase().replace('_', "-");
        let message = if key == CHECK_CONFIG {
            "only a flag, never a variable".to_owned()
        } else {
            let names: Vec<String> = SETTINGS.iter().map(|setting| setting.environment_name()).collect();
            format!(
                "no setting is called {name}{}; allowed: FOREBAY_CONFIG, {}",
                suggestion(name, names.iter().map(String::as_str)),
                names.join(", ")
            )
        };
        raw.problems.push(Problem { claims: vec![claim(&key, &value)], message });
        return;
    };
    match value.into_string() {
        Ok(text) => raw.offer(setting.key, text, Origin::Environment),
        Err(value) => {
            let message = format!("not text (UTF-8); allowed: {}", setting.allowed);
            raw.problems.push(Problem { claims: vec![claim(setting.key, &value)], message });
        }
    }
}

/// Whether Kubernetes made this variable: for a service called `forebay` (or `forebay-admin`, ...) it puts
/// `FOREBAY_SERVICE_HOST`, `FOREBAY_PORT=udp://..`, `FOREBAY_PORT_9000_UDP_ADDR` and their like into every container of
/// the namespace (its documentation: "Accessing the Service", environment variables).
fn is_service_link(name: &str, value: &OsStr) -> bool {
    let numbered_port =
        name.split_once("_PORT_").is_some_and(|(_, number)| number.starts_with(|first: char| first.is_ascii_digit()));
    let port_address = name.ends_with("_PORT") && value.to_string_lossy().contains("://");
    name.contains("_SERVICE_HOST") || name.contains("_SERVICE_PORT") || numbered_port || port_address
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(variables: &[(&str, &str)]) -> RawConfig {
        let mut raw = RawConfig::default();
        read(variables.iter().map(|(name, value)| (name.into(), value.into())), &mut raw);
        raw
    }

    // Are typos reported, and the variables that Kubernetes makes for a service called forebay left alone?
    #[test]
    fn typos_are_problems_and_service_links_are_not() {
        let raw = read_all(&[
            ("FOREBAY_SERVICE_HOST", "10.0.0.11"),
            ("FOREBAY_SERVICE_PORT_REQUESTS", "9000"),
            ("FOREBAY_PORT", "udp://10.0.0.11:9000"),
            ("FOREBAY_PORT_9000_UDP_ADDR", "10.0.0.11"),
            ("FOREBAY_ADMIN_PORT", "tcp://10.0.0.12:9001"),
            ("PATH", "/bin"),
        ]);
        assert_eq!(raw.problems, []);

        let raw = read_all(&[("FOREBAY_WORKRES", "3"), ("FOREBAY_LISTEN_PORT", "9000")]);
        let messages: Vec<&str> = raw.problems.iter().map(|problem| problem.message.as_str()).collect();
        assert_eq!(messages.len(), 2, "{messages:?}");
        assert!(messages[0].starts_with("no setting is called FOREBAY_LISTEN_PORT"), "{messages:?}");
        assert!(messages[1].contains("did you mean FOREBAY_WORKERS?"), "{messages:?}");
    }

    // Is a value that is not text a problem of its setting, and not a crash?
    #[test]
    fn values_must_be_text() {
        use std::os::unix::ffi::OsStringExt;
        let mut raw = RawConfig::default();
        read([("FOREBAY_POLICY".into(), OsString::from_vec(vec![0xff]))], &mut raw);
        assert_eq!(raw.problems.len(), 1);
        assert_eq!(raw.problems[0].claims[0].key, "policy");
    }
}
