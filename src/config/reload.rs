//! Reload: which settings of a new configuration a running server takes.

use super::effective::{Effective, OwnRow, resolve};
use super::layers::Layers;
use super::problem::{Claim, Origin, Problems};
use super::table::find;

/// The result of applying a new configuration to a running server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reloaded {
    /// The configuration to run with: new values where a setting may change, the running ones
    /// elsewhere.
    pub(crate) effective: Effective,
    /// The settings that change, with their new values.
    pub(crate) changed: Vec<Claim>,
    /// Settings that differ in the new configuration but need a restart, with their new values.
    pub(crate) restart: Vec<Claim>,
}

/// Merges `new` into the configuration `running` of a running server. `takes_own` says whether the
/// program takes new values of the settings that it adds.
///
/// # Errors
/// All problems, if the new values do not fit the values that cannot change.
pub(crate) fn reload(running: &Effective, new: &Effective, takes_own: bool) -> Result<Reloaded, Problems> {
    let differs = |row: &&Claim| running.rows.iter().any(|old| old.key == row.key && old.value != row.value);
    let is_live = |row: &Claim| find(&row.key).is_some_and(|setting| setting.live);
    let mut layers = Layers::default();
    for row in &new.rows {
        // A value computed from others is computed again.
        let follows = matches!(row.origin, Origin::Default | Origin::Implied(_));
        if is_live(row) && !(follows && find(&row.key).is_some_and(|setting| setting.computed)) {
            layers.given.insert(row.key.clone(), row.clone());
        }
    }
    for row in running.rows.iter().filter(|row| !is_live(row)) {
        layers.given.insert(row.key.clone(), Claim { origin: Origin::Running, ..row.clone() });
    }
    let mut effective = resolve(layers)?;
    effective.rows.retain(|row| new.rows.iter().any(|known| known.key == row.key));
    for row in &mut effective.rows {
        // Each value keeps its origin from the configuration that it was taken from.
        let source = if is_live(row) { new } else { running };
        row.origin =
            source.rows.iter().find(|known| known.key == row.key).map_or(Origin::Default, |known| known.origin.clone());
    }
    let mut changed: Vec<Claim> = effective.rows.iter().filter(differs).cloned().collect();
    let mut restart: Vec<Claim> = new.rows.iter().filter(|row| !is_live(row)).filter(differs).cloned().collect();
    effective.own = if takes_own { &new.own } else { &running.own }.clone();
    let own_differs = |row: &&OwnRow| running.own.rows.iter().any(|old| old.key == row.key && old.values != row.values);
    let own = new.own.rows.iter().filter(own_differs).map(OwnRow::claim);
    if takes_own { &mut changed } else { &mut restart }.extend(own);
    Ok(Reloaded { effective, changed, restart })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::effective::from_pairs;
    use crate::config::table::{SETTINGS, Setting};

    fn effective(pairs: &[(&str, &str)]) -> Effective {
        from_pairs(pairs.iter().copied()).expect("a configuration")
    }

    fn keys(rows: &[Claim]) -> Vec<&str> {
        rows.iter().map(|row| &*row.key).collect()
    }

    // Are settings that may change taken? Are the others kept and named?
    #[test]
    fn what_is_live_changes_and_the_rest_is_named() {
        let running = effective(&[("workers", "4"), ("slice", "10us")]);
        let new = effective(&[("workers", "8"), ("policy", "levels"), ("cost-cap", "2s"), ("pin", "true")]);
        let Reloaded { effective: taken, changed, restart } = reload(&running, &new, false).expect("they fit");
        assert_eq!(keys(&changed), ["policy", "slice", "cost-cap"]);
        assert_eq!(keys(&restart), ["workers", "pin"]);
        assert_eq!(taken.config, effective(&[("workers", "4"), ("policy", "levels"), ("cost-cap", "2s")]).config);
        let again = reload(&taken, &new, false).expect("they fit");
        assert_eq!((again.effective, again.changed, keys(&again.restart)), (taken, vec![], vec!["workers", "pin"]));
    }

    // Is a configuration refused as a whole if its changes do not fit the running values? Does a
    // claim name the running value?
    #[test]
    fn what_does_not_fit_is_refused_whole() {
        let running = effective(&[("workers", "4")]);
        let new = effective(&[("policy", "pools"), ("pools", "front=2,heavy=6"), ("cost-cap", "2s")]);
        let problems = reload(&running, &new, false).expect_err("eight are not four").to_string();
        let expected = "workers = \"4\" (running) with pools = \"front=2,heavy=6\" (code): the pools have 8 workers";
        assert!(problems.contains(expected), "{problems}");
        let grouped = effective(&[("workers", "4"), ("groups", "2")]);
        let problems =
            reload(&grouped, &effective(&[("policy", "pools"), ("workers", "4")]), false).expect_err("they have sizes");
        assert!(problems.to_string().contains("groups = \"2\" (running) with policy = \"pools\""), "{problems}");
    }

    // Is every setting that differs in exactly one of the two lists?
    #[test]
    fn every_setting_is_live_or_named() {
        let others = "listen=127.0.0.1:1 admin=127.0.0.1:2 \
            policy=global workers=3 groups=2 pools=front=2 slice=1us optimise=latency classify=header handler=echo \
            burn=sleep time-scale=2 overheads=lab wait=spin notices=looks io=gro reject-source-ports=none datagram-max=600 room=64 \
            amplification=2 amplification-allowance=9 stack-bytes=300000 cost-cap=2s max-wait=off gate=off source-prefix=32,64 trusted-networks=10.0.0.0/8 \
            shed-answers=silence drain-timeout=1s lame-duck=1s unhealthy-after=1s \
            handover=/tmp/socket pin=true log-level=warn log-format=json";
        let others: Vec<_> = others.split(' ').map(|pair| pair.split_once('=').expect("a setting")).collect();
        let is_tried = |setting: &&Setting| others.iter().any(|(key, _)| *key == setting.key);
        assert!(SETTINGS.iter().all(|setting| is_tried(&setting)), "a setting has no other value here");
        // Without feature `admin` their value is `off`.
        let settable = |key| cfg!(feature = "admin") || !["admin", "handover"].contains(&key);
        for other in others.into_iter().filter(|(key, _)| settable(key)) {
            let key = other.0;
            let Setting { live, .. } = SETTINGS.iter().find(|setting| setting.key == key).expect("a setting");
            let beside = if key == "overheads" { ("burn", "sleep") } else { ("workers", "2") };
            let running = effective(&[beside]);
            let pairs: Vec<_> = [beside].into_iter().filter(|(known, _)| *known != key).chain([other]).collect();
            let Reloaded { changed, restart, .. } = reload(&running, &effective(&pairs), false).expect("they fit");
            let named = if *live { keys(&changed) } else { keys(&restart) };
            assert!(named.contains(&key), "{key}: {changed:?} {restart:?}");
        }
    }
}
