//! The zones that are served, as one value: a reload replaces all of them at once, or none.

use crate::keys::{Algorithm, Key};
use crate::name::{Name, suffixes, text};
use crate::query::{CLASS_CH, Query};
use crate::sign::Signer;
use crate::zone::{LoadError, Zone, load};
use anyhow::{Context, anyhow, bail};
use domain::base::iana::Rtype;
use forebay::server::Counter;
use hashbrown::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The names in questions for the version. RFC 4892 has others for the server's identity, for which
/// NSID is better.
const VERSION_NAMES: [&[u8]; 2] = [b"\x07version\x04bind\0", b"\x07version\x06server\0"];

/// Zones by name.
#[derive(Debug, Default)]
pub struct Zones {
    zones: HashMap<Box<[u8]>, Zone>,
    /// The data of the TXT record that says this server's version.
    version: Option<Box<[u8]>>,
}

/// A zone to serve.
#[derive(Clone, Debug)]
pub struct Source {
    /// Its name.
    pub apex: Name,
    /// The master file.
    pub file: PathBuf,
    /// Signs the zone.
    pub signer: Option<Arc<Signer>>,
}

impl Source {
    /// Parses `origin=file`.
    ///
    /// # Errors
    /// If the argument is not such a pair, or has no valid name.
    pub fn parse(argument: &str) -> anyhow::Result<Source> {
        let (origin, file) = argument.split_once('=').ok_or_else(|| anyhow!("allowed: origin=file"))?;
        let name: domain::base::Name<Vec<u8>> = origin.parse().with_context(|| format!("{origin:?} is not a name"))?;
        let apex = Name::parse(name.as_slice()).ok_or_else(|| anyhow!("{origin:?} is not a name"))?;
        Ok(Source { apex, file: file.into(), signer: None })
    }

    /// Lets the zone be signed, with the key in `keys` or a new one. Counts signatures in `made`.
    ///
    /// # Errors
    /// If no key can be read, made or written.
    pub fn signed(
        mut self,
        algorithm: Algorithm,
        keys: Option<&Path>,
        signatures: usize,
        made: &Counter,
    ) -> anyhow::Result<Source> {
        let key = Key::of_zone(&self.apex, algorithm, keys)?;
        self.signer = Some(Arc::new(Signer::new(self.apex, key, signatures, made.clone())?));
        Ok(self)
    }
}

impl Zones {
    /// Loads all zones.
    ///
    /// # Errors
    /// If a file cannot be served (the first such file), or a name is given twice.
    pub fn load(sources: &[Source]) -> anyhow::Result<Zones> {
        let mut zones = HashMap::new();
        for Source { apex, file, signer } in sources {
            let zone: Result<Zone, LoadError> = load(apex, file, signer.clone());
            if zones.insert(apex.as_bytes().into(), zone?).is_some() {
                bail!("--zone {}: given twice", text(apex.as_bytes()));
            }
        }
        Ok(Zones { zones, version: None })
    }

    /// Sets the version of the server, a text of at most 255 bytes.
    pub fn with_version(self, version: Option<&str>) -> Zones {
        let data = |text: &str| [&[text.len() as u8], text.as_bytes()].concat().into();
        Zones { version: version.map(data), ..self }
    }

    /// The data of the answer to a question for the version, if that is to be said.
    pub(crate) fn version_for(&self, query: &Query) -> Option<&[u8]> {
        let is_asked =
            query.class == CLASS_CH && query.rtype == Rtype::TXT && VERSION_NAMES.contains(&query.name.as_bytes());
        self.version.as_deref().filter(|_| is_asked)
    }

    /// The zone that has the answer: of those that contain the asked name, the one with the longest
    /// name. DS records of a zone stand in its parent, if that is served, too (RFC 4035, 3.1.4.1).
    pub fn select(&self, query: &Query) -> Option<&Zone> {
        let name = query.name.as_bytes();
        let mut zones = suffixes(name).filter_map(|suffix| self.zones.get(suffix));
        let nearest = zones.next()?;
        if query.rtype == Rtype::DS && nearest.apex.len() == name.len() {
            return zones.next().or(Some(nearest));
        }
        Some(nearest)
    }

    /// The zones, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &Zone> {
        self.zones.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Does the nearest zone answer each question, except that its parent answers for DS records, if
    // the parent is served?
    #[test]
    fn the_nearest_zone_answers_and_its_parent_for_ds() {
        let dir = tempfile::tempdir().expect("a directory");
        let source = |origin: &str| {
            let file = dir.path().join(origin);
            std::fs::write(&file, "@ 60 SOA ns host 1 1 1 1 30\n@ 60 NS ns\n").expect("written");
            Source::parse(&format!("{origin}={}", file.display())).expect("a zone")
        };
        let sources = ["test", "b.test", "c.b.test"].map(source);
        let selected = |zones: &[Source], name: &str, rtype: Rtype| {
            let zones = Zones::load(zones).expect("zones");
            let message = crate::answer::tests::question(name, rtype, None);
            let query = Query::parse(&message).expect("a question");
            zones.select(&query).map_or("none".to_owned(), |zone| text(&zone.apex))
        };
        for (name, rtype, zone) in [
            ("test", Rtype::A, "test."),
            ("x.test", Rtype::A, "test."),
            ("b.test", Rtype::A, "b.test."),
            ("x.c.b.test", Rtype::A, "c.b.test."),
            ("b.test", Rtype::DS, "test."),
            ("c.b.test", Rtype::DS, "b.test."),
            ("x.c.b.test", Rtype::DS, "c.b.test."),
            ("test", Rtype::DS, "test."),
            ("xb.test", Rtype::A, "test."),
            ("example", Rtype::A, "none"),
        ] {
            assert_eq!(selected(&sources, name, rtype), zone, "{name} {rtype}");
        }
        assert_eq!(selected(&sources[1..2], "b.test", Rtype::DS), "b.test.");
    }
}
