//! The zones that are served, as one value: a reload replaces all of them at once, or none.

use crate::keys::{Algorithm, Key};
use crate::name::{Name, suffixes, text};
use crate::query::{Query, rtype};
use crate::sign::Signer;
use crate::zone::{LoadError, Zone, load};
use anyhow::{Context, anyhow, bail};
use hashbrown::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Zones by name.
#[derive(Debug, Default)]
pub struct Zones(HashMap<Box<[u8]>, Zone>);

/// A zone to serve.
#[derive(Clone, Debug)]
pub struct Source {
    /// Its name.
    pub apex: Name,
    /// Its master file.
    pub file: PathBuf,
    /// What signs it.
    pub signer: Option<Arc<Signer>>,
}

impl Source {
    /// Parses `origin=file`.
    ///
    /// # Errors
    /// No such pair, or no name.
    pub fn parse(argument: &str) -> anyhow::Result<Source> {
        let (origin, file) = argument.split_once('=').ok_or_else(|| anyhow!("allowed: origin=file"))?;
        let name: domain::base::Name<Vec<u8>> = origin.parse().with_context(|| format!("{origin:?} is not a name"))?;
        let apex = Name::parse(name.as_slice()).ok_or_else(|| anyhow!("{origin:?} is not a name"))?;
        Ok(Source { apex, file: file.into(), signer: None })
    }

    /// Has the zone signed, with the key in `keys` or a new one.
    ///
    /// # Errors
    /// No key can be read, made or written.
    pub fn signed(mut self, algorithm: Algorithm, keys: Option<&Path>, signatures: usize) -> anyhow::Result<Source> {
        let key = Key::of_zone(&self.apex, algorithm, keys)?;
        self.signer = Some(Arc::new(Signer::new(self.apex, key, signatures)?));
        Ok(self)
    }
}

impl Zones {
    /// Loads all zones.
    ///
    /// # Errors
    /// The first file that cannot be served, and a name given twice.
    pub fn load(sources: &[Source]) -> anyhow::Result<Zones> {
        let mut zones = HashMap::new();
        for Source { apex, file, signer } in sources {
            let zone: Result<Zone, LoadError> = load(apex, file, signer.clone());
            if zones.insert(apex.as_bytes().into(), zone?).is_some() {
                bail!("--zone {}: given twice", text(apex.as_bytes()));
            }
        }
        Ok(Zones(zones))
    }

    /// The zone that has the answer: the one with the longest name that the name asked for lies within; for DS records
    /// of a zone itself its parent, if that is served, too (RFC 4035, 3.1.4.1).
    pub fn select(&self, query: &Query<'_>) -> Option<&Zone> {
        let name = query.name.as_bytes();
        let mut zones = suffixes(name).filter_map(|suffix| self.0.get(suffix));
        let nearest = zones.next()?;
        if query.rtype == rtype::DS && nearest.apex.len() == name.len() {
            return zones.next().or(Some(nearest));
        }
        Some(nearest)
    }

    /// The zones, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &Zone> {
        self.0.values()
    }
}
