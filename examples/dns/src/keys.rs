//! Keys of zones. They are read from and written to the files that the tools of BIND, ldns and NSD
//! use (`K<zone>+<algorithm>+<tag>`).

use crate::name::{Name, text};
use anyhow::{Context, anyhow, bail};
use domain::base::iana::{Class, SecurityAlgorithm};
use domain::base::rdata::ComposeRecordData;
use domain::base::{Record, Ttl};
use domain::crypto::common::rsa_exponent_modulus;
use domain::crypto::sign::{GenerateParams, KeyPair, RsaSecretKeyBytes, SecretKeyBytes, generate};
use domain::dnssec::common::display_as_bind;
use domain::rdata::{Dnskey, ZoneRecordData};
use domain::zonefile::inplace::{Entry, Zonefile};
use ring::digest::{SHA256, digest};
use rsa::traits::{PrivateKeyParts, PublicKeyParts};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Flags of a DNSKEY record: a key of a zone and its entry point, because one key signs everything.
const ENTRY_POINT: u16 = 257;

/// Time to live of DNSKEY records.
pub(crate) const DNSKEY_TTL: u32 = 3_600;

/// Algorithms of signatures: those that RFC 8624 demands or recommends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Algorithm {
    /// Ed25519 (15): about 20 us a signature.
    Ed25519,
    /// ECDSA on P-256 (13).
    P256,
    /// RSA with 2,048 bits and SHA-256 (8): about 600 us a signature.
    Rsa2048,
}

/// A key pair, with its DNSKEY record.
#[derive(Debug)]
pub struct Key {
    pub(crate) pair: KeyPair,
    dnskey: Dnskey<Vec<u8>>,
}

impl Algorithm {
    fn number(self) -> SecurityAlgorithm {
        match self {
            Algorithm::Ed25519 => SecurityAlgorithm::ED25519,
            Algorithm::P256 => SecurityAlgorithm::ECDSAP256SHA256,
            Algorithm::Rsa2048 => SecurityAlgorithm::RSASHA256,
        }
    }
}

impl Key {
    /// The key of `zone` in `dir`. If there is none, a new key is made and written there. Without a
    /// directory the new key is lost when the program ends.
    ///
    /// # Errors
    /// If files cannot be read, written or understood, or if there are several keys.
    pub fn of_zone(zone: &Name, algorithm: Algorithm, dir: Option<&Path>) -> anyhow::Result<Key> {
        let Some(dir) = dir else { return make(algorithm).map(|(_, key)| key) };
        let prefix = format!("K{}+{:03}+", text(zone.as_bytes()), algorithm.number().to_int());
        let files = fs::read_dir(dir).with_context(|| format!("--key-dir {}", dir.display()))?;
        let files = files.collect::<Result<Vec<_>, _>>().with_context(|| format!("--key-dir {}", dir.display()))?;
        let named = |file: &PathBuf| {
            let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            name.starts_with(&prefix) && name.ends_with(".private")
        };
        let found: Vec<PathBuf> = files.iter().map(fs::DirEntry::path).filter(named).collect();
        match &found[..] {
            [] => {
                let (secret, key) = make(algorithm)?;
                key.write(zone, &secret, &dir.join(format!("{prefix}{:05}", key.tag())))?;
                Ok(key)
            }
            [file] => Key::read(file).with_context(|| file.display().to_string()),
            [one, other, ..] => {
                bail!(
                    "there is more than one key of {}: {} and {}",
                    text(zone.as_bytes()),
                    one.display(),
                    other.display()
                )
            }
        }
    }

    fn read(private: &Path) -> anyhow::Result<Key> {
        let secret = SecretKeyBytes::parse_from_bind(&fs::read_to_string(private)?)?;
        let public = private.with_extension("key");
        let text = fs::read(&public).with_context(|| public.display().to_string())?;
        // Uses the reader of zone files, because other tools write a TTL, comments, and keys over
        // several lines.
        let entry = Zonefile::from(&text[..]).next_entry();
        match entry.with_context(|| public.display().to_string())? {
            Some(Entry::Record(record)) => match record.into_data() {
                ZoneRecordData::Dnskey(key) => Key::new(&secret, key.convert()),
                _ => bail!("{}: no DNSKEY record", public.display()),
            },
            _ => bail!("{}: no DNSKEY record", public.display()),
        }
    }

    fn new(secret: &SecretKeyBytes, dnskey: Dnskey<Vec<u8>>) -> anyhow::Result<Key> {
        Ok(Key { pair: KeyPair::from_bytes(secret, &dnskey)?, dnskey })
    }

    fn write(&self, zone: &Name, secret: &SecretKeyBytes, path: &Path) -> anyhow::Result<()> {
        // A name with a slash would lead to another folder.
        if text(zone.as_bytes()).contains('/') {
            bail!("--key-dir: the name {} cannot be that of a file", text(zone.as_bytes()));
        }
        let name = domain::base::Name::from_octets(zone.as_bytes().to_vec())?;
        let record = Record::new(name, Class::IN, Ttl::from_secs(DNSKEY_TTL), self.dnskey.clone());
        // The zone's name has dots, so a function for extensions would replace a part of it.
        let file = |extension: &str| PathBuf::from(format!("{}.{extension}", path.display()));
        let context = || format!("--key-dir: {}", path.display());
        let private = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file("private"));
        private
            .and_then(|mut file| file.write_all(secret.display_as_bind().to_string().as_bytes()))
            .with_context(context)?;
        let public = File::create_new(file("key"));
        public.and_then(|mut file| write!(file, "{}", display_as_bind(&record))).with_context(context)
    }

    /// The number of the algorithm.
    pub fn algorithm(&self) -> u8 {
        self.dnskey.algorithm().to_int()
    }

    /// Bytes of a signature.
    pub(crate) fn signature_bytes(&self) -> usize {
        match self.dnskey.algorithm() {
            SecurityAlgorithm::RSASHA256 => {
                rsa_exponent_modulus(&self.dnskey, 0).map_or(0, |(_, modulus)| modulus.len())
            }
            _ => 64,
        }
    }

    /// The key's tag.
    pub fn tag(&self) -> u16 {
        self.dnskey.key_tag()
    }

    /// The data of the DNSKEY record.
    pub(crate) fn dnskey_data(&self) -> Vec<u8> {
        let mut data = Vec::new();
        let Ok(()) = self.dnskey.compose_rdata(&mut data);
        data
    }

    /// The DNSKEY record, as zone files have it: a trust anchor.
    pub fn dnskey_record(&self, zone: &Name) -> String {
        format!("{} {DNSKEY_TTL} IN DNSKEY {}", text(zone.as_bytes()), self.dnskey)
    }

    /// The DS record that the parent's zone needs, with a SHA-256 digest (RFC 4509).
    pub fn ds_record(&self, zone: &Name) -> String {
        let digest = ds_digest(zone, &self.dnskey_data());
        format!("{} IN DS {} {} 2 {digest}", text(zone.as_bytes()), self.tag(), self.algorithm())
    }
}

/// The digest of a DNSKEY record, in hexadecimal digits.
fn ds_digest(zone: &Name, dnskey: &[u8]) -> String {
    let digest = digest(&SHA256, &[zone.as_bytes(), dnskey].concat());
    digest.as_ref().iter().map(|byte| format!("{byte:02X}")).collect()
}

fn make(algorithm: Algorithm) -> anyhow::Result<(SecretKeyBytes, Key)> {
    let (secret, dnskey) = match algorithm {
        Algorithm::Ed25519 => generate(&GenerateParams::Ed25519, ENTRY_POINT)?,
        Algorithm::P256 => generate(&GenerateParams::EcdsaP256Sha256, ENTRY_POINT)?,
        Algorithm::Rsa2048 => make_rsa()?,
    };
    let key = Key::new(&secret, dnskey)?;
    Ok((secret, key))
}

fn make_rsa() -> anyhow::Result<(SecretKeyBytes, Dnskey<Vec<u8>>)> {
    let key = rsa::RsaPrivateKey::new(&mut rsa::rand_core::OsRng, 2_048)?;
    let [p, q] = key.primes() else { bail!("a key of other than two primes") };
    let secret = |bytes: Vec<u8>| bytes.into_boxed_slice().into();
    let part =
        |number: Option<&rsa::BigUint>| number.map(rsa::BigUint::to_bytes_be).ok_or_else(|| anyhow!("not computed"));
    let (n, e) = (key.n().to_bytes_be(), key.e().to_bytes_be());
    let public = domain::crypto::common::rsa_encode(&e, &n);
    let secret = RsaSecretKeyBytes {
        n: n.into(),
        e: e.into(),
        d: secret(key.d().to_bytes_be()),
        p: secret(p.to_bytes_be()),
        q: secret(q.to_bytes_be()),
        d_p: secret(part(key.dp())?),
        d_q: secret(part(key.dq())?),
        q_i: secret(key.crt_coefficient().ok_or_else(|| anyhow!("not computed"))?.to_bytes_be()),
    };
    let dnskey = Dnskey::new(ENTRY_POINT, 3, SecurityAlgorithm::RSASHA256, public)?;
    Ok((SecretKeyBytes::RsaSha256(secret), dnskey))
}

#[cfg(test)]
mod tests;
