//! Cookies, by which a client proves that its address is its own (RFC 7873, 9018).

use anyhow::{Context, anyhow, bail};
use domain::base::Serial;
use domain::base::opt::cookie::Cookie;
use ring::rand::{SecureRandom, SystemRandom};
use std::fs;
use std::net::IpAddr;
use std::path::Path;

/// How long a cookie is valid, how far in the future its time may be, and when it is replaced (RFC
/// 9018, 4.3).
const VALID_SECONDS: i32 = 3_600;
const AHEAD_SECONDS: i32 = 300;
const REPLACED_SECONDS: i32 = 1_800;

/// Makes and checks the server's part of cookies.
pub struct Cookies {
    secret: [u8; 16],
}

impl Cookies {
    /// Cookies with the secret in `file`: 32 hexadecimal digits. All servers behind one address
    /// must share it. Without a file, the secret is random.
    ///
    /// # Errors
    /// If the file has no such secret, or the system gives no random numbers.
    pub fn new(file: Option<&Path>) -> anyhow::Result<Cookies> {
        let mut secret = [0; 16];
        let Some(file) = file else {
            let filled = SystemRandom::new().fill(&mut secret);
            filled.map_err(|_| anyhow!("the system gives no random numbers"))?;
            return Ok(Cookies { secret });
        };
        let context = || format!("--cookie-secret {}", file.display());
        let text = fs::read_to_string(file).with_context(context)?;
        let text = text.trim();
        if text.len() != 32 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            bail!("{}: allowed: 32 hexadecimal digits", context());
        }
        secret = u128::from_str_radix(text, 16).with_context(context)?.to_be_bytes();
        Ok(Cookies { secret })
    }

    /// Whether `cookie` was made here for `client`, not too long before `now`, in seconds
    /// since 1970.
    pub fn is_valid(&self, cookie: &Cookie, client: IpAddr, now: u32) -> bool {
        cookie.check_server_hash(client.to_canonical(), &self.secret, |made| {
            (-AHEAD_SECONDS..=VALID_SECONDS).contains(&age(made, now))
        })
    }

    /// The cookie for the answer: the client's own if it remains valid for some time, otherwise a
    /// new one.
    pub fn renewed(&self, cookie: &Cookie, client: IpAddr, now: u32) -> Cookie {
        let made = cookie.server().and_then(|server| server.try_to_standard()).map(|server| server.timestamp());
        if made.is_some_and(|made| age(made, now) < REPLACED_SECONDS) && self.is_valid(cookie, client, now) {
            return cookie.clone();
        }
        cookie.create_response(Serial(now), client.to_canonical(), &self.secret)
    }
}

/// Seconds since `made`; negative if that is in the future. Both are serial numbers of 32 bits.
fn age(made: Serial, now: u32) -> i32 {
    now.wrapping_sub(made.into_int()).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cookies(secret: &str) -> Cookies {
        let file = tempfile::NamedTempFile::new().expect("a file");
        fs::write(file.path(), secret).expect("written");
        Cookies::new(Some(file.path())).expect("a secret")
    }

    fn parsed(hex: &str) -> Cookie {
        let bytes: Vec<u8> =
            (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex")).collect();
        Cookie::parse(&mut domain::dep::octseq::Parser::from_ref(&bytes[..])).expect("a cookie")
    }

    // Are the test vectors of RFC 9018, appendix A, met?
    #[test]
    fn the_standards_vectors() {
        let client: IpAddr = "198.51.100.100".parse().expect("an address");
        let first =
            cookies("e5e973e5a6b2a43f48e7dc849e37bfcf").renewed(&parsed("2464c4abcf10c957"), client, 1_559_731_985);
        assert_eq!(first, parsed("2464c4abcf10c957010000005cf79f111f8130c3eee29480"));
        // A.2: a new cookie after more than half an hour. A.3: any reserved bits. A.4: IPv6.
        let vectors = [
            ("e5e973e5a6b2a43f48e7dc849e37bfcf", "198.51.100.100", 1_559_734_385),
            ("e5e973e5a6b2a43f48e7dc849e37bfcf", "203.0.113.203", 1_559_734_700),
            ("445536bcd2513298075a5d379663c962", "2001:db8:220:1:59de:d0f4:8769:82b8", 1_559_741_961),
        ];
        let exchanged = [
            ("2464c4abcf10c957010000005cf79f111f8130c3eee29480", "2464c4abcf10c957010000005cf7a871d4a564a1442aca77"),
            ("fc93fc62807ddb8601abcdef5cf78f71a314227b6679ebf5", "fc93fc62807ddb86010000005cf7a9acf73a7810aca2381e"),
            ("22681ab97d52c298010000005cf7c57926556bd0934c72f8", "22681ab97d52c298010000005cf7c609a6bb79d16625507a"),
        ];
        for ((secret, client, now), (old, new)) in vectors.into_iter().zip(exchanged) {
            let client: IpAddr = client.parse().expect("an address");
            assert_eq!(cookies(secret).renewed(&parsed(old), client, now), parsed(new));
        }
    }

    // Is a cookie valid for an hour and only for its address? Also where the seconds begin at zero
    // again, in 2106.
    #[test]
    fn cookies_are_valid_for_an_hour_and_an_address() {
        let cookies = Cookies::new(None).expect("random numbers");
        let [client, other]: [IpAddr; 2] = ["192.0.2.1", "192.0.2.2"].map(|text| text.parse().expect("an address"));
        let bare = parsed("0102030405060708");
        for now in [1_800_000_000, u32::MAX, u32::MAX - 3_600, 0, 300] {
            let cookie = cookies.renewed(&bare, client, now);
            for (age, valid) in [(0, true), (-300, true), (-301, false), (3_600, true), (3_601, false)] {
                assert_eq!(cookies.is_valid(&cookie, client, now.wrapping_add_signed(age)), valid, "{now}: {age}");
            }
        }
        let now = 1_800_000_000;
        let cookie = cookies.renewed(&bare, client, now);
        assert!(!cookies.is_valid(&cookie, other, now) && !cookies.is_valid(&bare, client, now));
        assert!(!Cookies::new(None).expect("random numbers").is_valid(&cookie, client, now), "another server's");
        // The same client at a socket for IPv4 and IPv6.
        assert!(cookies.is_valid(&cookie, "::ffff:192.0.2.1".parse().expect("an address"), now));
        assert_eq!(cookies.renewed(&cookie, client, now + 1_799), cookie);
        assert_ne!(cookies.renewed(&cookie, client, now + 1_800), cookie);
    }

    // Is a file without a valid secret refused?
    #[test]
    fn a_secret_has_32_digits() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        for wrong in ["", "e5e9", "+5e973e5a6b2a43f48e7dc849e37bfcf", "xxe973e5a6b2a43f48e7dc849e37bfcf"] {
            fs::write(file.path(), wrong).expect("written");
            let error = Cookies::new(Some(file.path())).err().expect("refused").to_string();
            assert!(error.contains("--cookie-secret") && error.contains("32 hexadecimal digits"), "{error}");
        }
    }
}
