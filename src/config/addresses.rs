//! Parses the text of addresses, ports, networks and paths, and shows them as text again.

use super::value::{LISTEN_MAX, REJECTED_PORTS_MAX, Refusal, TRUSTED_NETWORKS_MAX, list, number, option_text};
use crate::net::{Network, SourcePrefix};
use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// Parses an IP address with a port.
pub(super) fn address(text: &str) -> Result<SocketAddr, Refusal> {
    text.parse().map_err(|_| "not an IP address and a port".to_owned())
}

/// The value that `parse` reads, `None` for `off`, or an error in a program without feature
/// `admin`, where only `off` works.
fn unless_off<T>(text: &str, parse: impl FnOnce(&str) -> Result<T, Refusal>) -> Result<Option<T>, Refusal> {
    match text {
        "off" => Ok(None),
        _ if cfg!(feature = "admin") => parse(text).map(Some),
        _ => Err(NO_ADMIN.to_owned()),
    }
}

const NO_ADMIN: &str =
    "more than this program has: it was built without forebay's feature admin, so that only off works";

/// Parses the address of the admin endpoint; `None` = `off`.
pub(super) fn admin(text: &str) -> Result<Option<SocketAddr>, Refusal> {
    unless_off(text, address)
}

/// Parses listening addresses separated by commas. No two may receive the same datagrams.
pub(super) fn listen(text: &str) -> Result<Vec<SocketAddr>, Refusal> {
    let is_list = text.contains(',');
    let parse = |part: &str| {
        let named = |refusal| if is_list { format!("{part:?} is refused: {refusal}") } else { refusal };
        listen_address(part).map_err(named)
    };
    let clash = |other: &SocketAddr, address: &SocketAddr| match (same(*other, *address), collide(*other, *address)) {
        (true, _) => Some(format!("{address} is named twice")),
        (false, true) => Some(format!("one of {other} and {address} takes all datagrams of the other")),
        (false, false) => None,
    };
    list(text, LISTEN_MAX, "addresses", parse, clash)
}

fn same(one: SocketAddr, other: SocketAddr) -> bool {
    one.port() == other.port() && one.ip().to_canonical() == other.ip().to_canonical()
}

/// Whether one address is the wildcard of the other's family and port, so that both would receive
/// the same datagrams. `[::]` and an IPv4 address do not collide.
fn collide(one: SocketAddr, other: SocketAddr) -> bool {
    let (ip, other_ip) = (one.ip().to_canonical(), other.ip().to_canonical());
    let overlap = ip.is_ipv4() == other_ip.is_ipv4() && (ip.is_unspecified() || other_ip.is_unspecified());
    overlap && one.port() == other.port() && one.port() != 0
}

/// Parses a unicast or wildcard address with a port. A network's own broadcast address passes here,
/// because only the host that binds the address knows it.
fn listen_address(text: &str) -> Result<SocketAddr, Refusal> {
    let address = address(text)?;
    match address.ip().to_canonical() {
        ip if ip.is_multicast() => Err("a multicast address is not one host's".to_owned()),
        IpAddr::V4(ip) if ip.is_broadcast() => Err("the broadcast address is not one host's".to_owned()),
        _ => Ok(address),
    }
}

/// Parses ports separated by commas; `none` = no port.
pub(super) fn ports(text: &str) -> Result<Vec<u16>, Refusal> {
    let parse = |part: &str| number(part, 1..=u16::MAX.into()).map_err(|refusal| format!("port {part:?} is {refusal}"));
    different(text, REJECTED_PORTS_MAX, "ports", parse, "port")
}

/// Parses networks separated by commas; `none` = no network.
pub(super) fn networks(text: &str) -> Result<Vec<Network>, Refusal> {
    let parse = |part: &str| part.parse().map_err(|refusal| format!("{part:?} is {refusal}"));
    different(text, TRUSTED_NETWORKS_MAX, "networks", parse, "network")
}

/// Parses a list separated by commas without repeated values; `none` = an empty list.
fn different<T: PartialEq + Display>(
    text: &str,
    most: usize,
    things: &str,
    parse: impl Fn(&str) -> Result<T, Refusal>,
    name: &str,
) -> Result<Vec<T>, Refusal> {
    if text == "none" {
        return Ok(Vec::new());
    }
    list(text, most, things, parse, |one, other| (one == other).then(|| format!("{name} {other} is named twice")))
}

/// Parses two prefix lengths in bits: IPv4, then IPv6.
pub(super) fn source_prefix(text: &str) -> Result<SourcePrefix, Refusal> {
    let (v4, v6) = text.split_once(',').ok_or_else(|| "not two numbers separated by a comma".to_owned())?;
    let bits = |of, text: &str, most| number(text.trim(), 1..=most).map_err(|refusal| format!("{of} is {refusal}"));
    Ok(SourcePrefix { v4: bits("IPv4", v4, 32)?, v6: bits("IPv6", v6, 64)? })
}

/// The longest path of a Unix socket, in bytes: the kernel has 108, the final zero byte included.
const SOCKET_PATH_BYTES_MAX: usize = 107;

/// Parses the path of a Unix socket; `None` = `off`.
pub(super) fn socket_path(text: &str) -> Result<Option<PathBuf>, Refusal> {
    if text.len() > SOCKET_PATH_BYTES_MAX {
        return Err(format!("{} bytes long", text.len()));
    }
    unless_off(text, |text| match text {
        "" => Err("no path".to_owned()),
        _ if text.contains(['"', '\\']) || text.contains(char::is_control) => Err("not a plain path".to_owned()),
        _ => Ok(PathBuf::from(text)),
    })
}

/// The text of a path; `off` for none.
pub(super) fn path_text(path: &Option<PathBuf>) -> String {
    option_text(path.as_ref().map(|path| path.display()), "off")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::value::{list_or_none, list_text, option_text};

    /// Asserts that `parse` refuses each text with the reason beside it.
    fn assert_refused<T: std::fmt::Debug>(parse: fn(&str) -> Result<T, String>, rows: &[(&str, &str)]) {
        for (text, reason) in rows {
            let refusal = parse(text).unwrap_err();
            assert!(refusal.contains(reason), "{text:?}: {refusal}");
        }
    }

    // Does `off` mean no endpoint? Is any other value an address, or refused without feature
    // `admin`?
    #[test]
    fn the_endpoint_may_be_off() {
        assert_eq!(admin("off").map(|address| option_text(address, "off")).as_deref(), Ok("off"));
        let with_admin = |answer| if cfg!(feature = "admin") { answer } else { Err(NO_ADMIN.to_owned()) };
        for text in ["127.0.0.1:9001", "[::1]:0"] {
            assert_eq!(admin(text).map(|address| option_text(address, "off")), with_admin(Ok(text.to_owned())));
        }
        assert_eq!(
            admin("none").map(|address| option_text(address, "off")),
            with_admin(Err("not an IP address and a port".to_owned()))
        );
    }

    // Which addresses may a server be bound to?
    #[test]
    fn a_server_listens_on_addresses_of_one_host() {
        for text in ["0.0.0.0:9000", "[::]:0", "127.0.0.1:1", "10.0.0.255:9000", "[::ffff:10.0.0.1]:9000"] {
            assert!(listen(text).is_ok(), "{text}");
        }
        let refused = [
            ("224.0.0.1:9000", "a multicast address"),
            ("239.255.255.250:1900", "a multicast address"),
            ("[ff02::1]:9000", "a multicast address"),
            ("[::ffff:224.0.0.1]:9000", "a multicast address"),
            ("255.255.255.255:9000", "the broadcast address"),
            ("[::ffff:255.255.255.255]:9000", "the broadcast address"),
            ("localhost:9000", "not an IP address"),
        ];
        assert_refused(listen, &refused);
    }

    // Which lists of addresses are refused? Is an accepted list shown as it was written?
    #[test]
    fn a_server_listens_on_several_addresses() {
        let many: Vec<String> = (1..=17).map(|last| format!("127.0.0.{last}:0")).collect();
        for text in [
            "127.0.0.1:1",
            "0.0.0.0:53,[::]:53",
            "10.0.0.1:53,[::]:53",
            "0.0.0.0:53,10.0.0.1:54",
            "0.0.0.0:0,10.0.0.1:0",
            &many[..16].join(","),
        ] {
            assert_eq!(listen(text).map(|addresses| list_text(&addresses)).as_deref(), Ok(text));
        }
        assert_eq!(listen("10.0.0.1:1, 10.0.0.2:1").map(|addresses| addresses.len()), Ok(2));
        let refused = [
            ("10.0.0.1:53,10.0.0.2:53,10.0.0.1:53", "10.0.0.1:53 is named twice"),
            ("127.0.0.1:0,127.0.0.1:0", "127.0.0.1:0 is named twice"),
            ("10.0.0.1:53,[::ffff:10.0.0.1]:53", "is named twice"),
            ("0.0.0.0:53,10.0.0.1:53", "one of 0.0.0.0:53 and 10.0.0.1:53 takes all datagrams of the other"),
            ("[fd00::1]:53,[::]:53", "takes all datagrams"),
            ("127.0.0.1:1,", "\"\" is refused: not an IP address"),
            ("127.0.0.1:1,224.0.0.1:1", "\"224.0.0.1:1\" is refused: a multicast address"),
            (&many.join(","), "more than 16 addresses"),
        ];
        assert_refused(listen, &refused);
    }

    // Which lists of ports are refused? Is an accepted list shown as it was written?
    #[test]
    fn ports_are_different_and_few() {
        for (text, ports_of_it) in [("none", vec![]), ("7", vec![7]), ("65535,1", vec![65_535, 1])] {
            assert_eq!(ports(text), Ok(ports_of_it.clone()), "{text}");
            assert_eq!(list_or_none(&ports_of_it), text);
        }
        assert_eq!(ports("7, 19"), Ok(vec![7, 19]));
        let many: Vec<String> = (1..=65).map(|port| port.to_string()).collect();
        assert!(ports(&many[..64].join(",")).is_ok());
        let refused = [
            ("", "port \"\" is not a whole number"),
            ("7,", "port \"\" is not a whole number"),
            ("0", "port \"0\" is out of range"),
            ("65536", "out of range"),
            ("7,none", "not a whole number"),
            ("7-19", "not a whole number"),
            ("7,19,7", "port 7 is named twice"),
            (&many.join(","), "more than 64 ports"),
        ];
        assert_refused(ports, &refused);
    }

    // Which prefix lengths are refused, and with which reason?
    #[test]
    fn prefixes_have_bits_of_both_families() {
        for (text, bits) in [("24,56", SourcePrefix::NETWORK), ("32, 64", SourcePrefix { v4: 32, v6: 64 })] {
            assert_eq!(source_prefix(text), Ok(bits));
        }
        let refused = [
            ("24", "not two numbers separated by a comma"),
            ("24,56,64", "IPv6 is not a whole number"),
            ("33,56", "IPv4 is out of range"),
            ("0,56", "IPv4 is out of range"),
            ("24,65", "IPv6 is out of range"),
            ("/24,/56", "IPv4 is not a whole number"),
        ];
        assert_refused(source_prefix, &refused);
    }
}
