//! Figures of rounds: medians, spreads, and ratios within a round.

use serde::{Deserialize, Serialize, Serializer};
use std::collections::BTreeMap;

/// What one round measured of one peer, by name; `None` is infinity.
pub(crate) type Round = BTreeMap<String, Option<f64>>;

/// Everything measured that one table shows.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(transparent)]
pub(crate) struct Figures {
    /// In the order in which they were measured first.
    pub(crate) peers: Vec<PeerFigures>,
}

/// Everything measured, by the name of its table.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(transparent)]
pub(crate) struct Tables(BTreeMap<String, Figures>);

impl Tables {
    /// The figures of table `name`, if anything was measured.
    pub(crate) fn of(&self, name: &str) -> Option<&Figures> {
        self.0.get(name)
    }

    /// The figures of table `name`, to add to.
    pub(crate) fn entry(&mut self, name: &str) -> &mut Figures {
        self.0.entry(name.to_owned()).or_default()
    }
}

/// Everything measured of one peer.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct PeerFigures {
    /// Its name.
    pub(crate) peer: String,
    /// The techniques that it uses.
    pub(crate) uses: String,
    /// One for each round.
    pub(crate) rounds: Vec<Round>,
}

impl Figures {
    /// Adds a round of the peer of this name, which uses those techniques.
    pub(crate) fn add<N: Into<String>>(
        &mut self,
        peer: &str,
        uses: &str,
        round: impl IntoIterator<Item = (N, Option<f64>)>,
    ) {
        let round = round.into_iter().map(|(name, value)| (name.into(), value)).collect();
        match self.peers.iter_mut().find(|figures| figures.peer == peer) {
            Some(figures) => figures.rounds.push(round),
            None => {
                let (peer, uses) = (peer.to_owned(), uses.to_owned());
                self.peers.push(PeerFigures { peer, uses, rounds: vec![round] });
            }
        }
    }

    /// The figures of `peer`.
    pub(crate) fn of(&self, peer: &str) -> Option<&PeerFigures> {
        self.peers.iter().find(|figures| figures.peer == peer)
    }

    /// The peer with the least median of `name`, of those whose names are `among` the ones that count.
    pub(crate) fn least(&self, name: &str, among: impl Fn(&str) -> bool) -> Option<&PeerFigures> {
        let median = |peer: &PeerFigures| peer.median(name).unwrap_or(f64::INFINITY);
        let peers = self.peers.iter().filter(|peer| among(&peer.peer));
        peers.min_by(|one, other| median(one).total_cmp(&median(other)))
    }
}

impl PeerFigures {
    /// What each round says of `name`; infinity where nothing finite was measured.
    pub(crate) fn values(&self, name: &str) -> Vec<f64> {
        self.rounds.iter().filter_map(|round| round.get(name)).map(|value| value.unwrap_or(f64::INFINITY)).collect()
    }

    /// The median over rounds.
    pub(crate) fn median(&self, name: &str) -> Option<f64> {
        median(self.values(name))
    }

    /// The median of the ratios of each round to the same round of `other`.
    pub(crate) fn ratio(&self, other: &PeerFigures, name: &str) -> Option<f64> {
        let pairs = self.values(name).into_iter().zip(other.values(name));
        median(pairs.map(|(value, other)| value / other).filter(|ratio| !ratio.is_nan()).collect())
    }

    /// The smallest and the largest.
    pub(crate) fn spread(&self, name: &str) -> Option<(f64, f64)> {
        let values = self.values(name);
        let smallest = values.iter().copied().reduce(f64::min)?;
        Some((smallest, values.into_iter().fold(smallest, f64::max)))
    }

    fn names(&self) -> Vec<&String> {
        self.rounds.first().map(|round| round.keys().collect()).unwrap_or_default()
    }
}

/// Each peer as an object: the medians by name, then spreads, ratios to the first peer, and rounds.
impl Serialize for Figures {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Row<'a> {
            peer: &'a str,
            uses: &'a str,
            #[serde(flatten)]
            medians: BTreeMap<&'a str, Option<f64>>,
            spread: BTreeMap<&'a str, Option<(f64, f64)>>,
            to_bare: BTreeMap<&'a str, Option<f64>>,
            rounds: &'a [Round],
        }
        let bare = self.of(crate::peer::BARE);
        serializer.collect_seq(self.peers.iter().map(|figures| {
            let names = figures.names();
            let by_name = |value: &dyn Fn(&str) -> Option<f64>| -> BTreeMap<&str, Option<f64>> {
                names.iter().map(|name| (name.as_str(), value(name))).collect()
            };
            Row {
                peer: &figures.peer,
                uses: &figures.uses,
                medians: by_name(&|name| figures.median(name)),
                spread: names.iter().map(|name| (name.as_str(), figures.spread(name))).collect(),
                to_bare: by_name(&|name| figures.ratio(bare?, name)),
                rounds: &figures.rounds,
            }
        }))
    }
}

/// The middle of `values`, the lower of two; infinity counts.
pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len().checked_sub(1)? / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_spreads_and_ratios_are_over_rounds() {
        let mut figures = Figures::default();
        for (bare, other) in [(10.0, Some(30.0)), (20.0, Some(40.0)), (40.0, None)] {
            figures.add("bare", "batches", [("pps", Some(bare))]);
            figures.add("other", "", [("pps", other)]);
        }
        let (bare, other) = (figures.of("bare").expect("added"), figures.of("other").expect("added"));
        assert_eq!((bare.median("pps"), bare.spread("pps")), (Some(20.0), Some((10.0, 40.0))));
        assert_eq!((other.median("pps"), other.ratio(bare, "pps")), (Some(40.0), Some(3.0)));
        assert_eq!(other.median("nothing"), None);
    }

    #[test]
    fn what_is_written_can_be_read_and_added_to() {
        let mut figures = Figures::default();
        figures.add("bare", "batches", [("pps", Some(1.0)), ("p99_us", None)]);
        let text = serde_json::to_string(&figures).expect("JSON");
        let mut read: Figures = serde_json::from_str(&text).expect("the same figures");
        read.add("bare", "batches", [("pps", Some(3.0)), ("p99_us", Some(2.0))]);
        assert_eq!(read.of("bare").expect("kept").values("pps"), [1.0, 3.0]);
        assert_eq!(read.of("bare").expect("kept").values("p99_us"), [f64::INFINITY, 2.0]);
    }
}
