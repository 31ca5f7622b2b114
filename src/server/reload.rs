//! Reading the configuration again while the server runs: all of it or nothing, and `/config`, which shows what became of
//! it.

use super::control::Control;
use crate::config::{Config, Effective, Origin, Problems, Reloaded, Row, SETTINGS, reload};
use crate::time::clock;
use serde_json::{Value, json};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

type Load = Box<dyn Fn() -> Result<Effective, Problems> + Send + Sync>;
type Apply = Box<dyn Fn(&Config) + Send + Sync>;

/// What the configuration comes from, and what became of the last attempt to read it again.
pub(super) struct Reloads {
    /// How to read it, and what else follows it; `None` where a program has made it.
    source: Option<(Load, Apply)>,
    state: Mutex<State>,
}

struct State {
    effective: Effective,
    reloads: u64,
    /// Seconds since 1970, and what came of it; `None` before the first attempt.
    last: Option<(f64, Result<Changes, Vec<String>>)>,
}

/// What an attempt changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Changes {
    changed: Vec<Row>,
    /// What differs and takes a restart.
    restart: Vec<Row>,
}

impl fmt::Debug for Reloads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reloads").finish_non_exhaustive()
    }
}

impl Reloads {
    pub(super) fn new(effective: Effective, load: Load, apply: Apply) -> Reloads {
        Reloads { source: Some((load, apply)), state: State::new(effective) }
    }

    /// For a server whose `config` a program has made.
    pub(super) fn none(config: &Config) -> Reloads {
        let row = |(key, value)| Row { key, value, origin: Origin::Code };
        let rows = config.to_pairs().into_iter().map(row).collect();
        Reloads { source: None, state: State::new(Effective { config: config.clone(), rows }) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the configuration again; what it changes, for a server that runs with `live`.
    fn read(&self, load: &Load, live: &Config) -> Result<Reloaded, Problems> {
        let mut running = self.state().effective.clone();
        // Another policy may have been asked for by a program since.
        running.rows = rows(live, &running);
        load().and_then(|new| reload(&running, &new))
    }

    /// The settings of `live`, where each comes from, and the last attempt to read them again.
    pub(super) fn to_json(&self, live: &Config) -> String {
        let state = self.state();
        let texts = |rows: &[Row]| rows.iter().map(|row| row.key).collect::<Vec<_>>();
        let last = state.last.as_ref().map(|(at, result)| match result {
            Ok(Changes { changed, restart }) => {
                json!({"at": at, "ok": true, "changed": texts(changed), "restart_needed": texts(restart), "problems": []})
            }
            Err(problems) => {
                json!({"at": at, "ok": false, "changed": [], "restart_needed": [], "problems": problems})
            }
        });
        let settings: serde_json::Map<String, Value> = rows(live, &state.effective)
            .into_iter()
            .map(|Row { key, value, origin }| (key.to_owned(), json!({"value": value, "origin": origin.to_string()})))
            .collect();
        let body = json!({
            "schema": "forebay-config/1", "settings": settings, "reloads": state.reloads, "last_reload": last,
        });
        body.to_string() + "\n"
    }
}

impl State {
    fn new(effective: Effective) -> Mutex<State> {
        Mutex::new(State { effective, reloads: 0, last: None })
    }
}

/// The settings of `live`, each with its origin in `known`, or from a program where it differs.
fn rows(live: &Config, known: &Effective) -> Vec<Row> {
    let row = |setting: &crate::config::Setting| {
        let value = (setting.show)(live);
        let same = known.rows.iter().find(|row| row.key == setting.key && row.value == value);
        Row { key: setting.key, value, origin: same.map_or(Origin::Code, |row| row.origin.clone()) }
    };
    SETTINGS.iter().map(row).collect()
}

impl<J: Send> Control<'_, J> {
    /// Reads the configuration again, and follows what may change while the server runs; nothing where anything is wrong.
    pub(super) fn reload(&self) {
        let Some((load, apply)) = &self.reloads.source else {
            tracing::warn!("SIGHUP: this server was given its settings by a program, and cannot read them again");
            return;
        };
        self.supervisor.reloading();
        let live = self.live.load_full();
        let result = self.reloads.read(load, &live);
        let at = clock::realtime().as_secs_f64();
        let changes = match result {
            Ok(Reloaded { effective, changed, restart }) => {
                self.take(&live, &effective.config);
                apply(&effective.config);
                log(&changed, &restart);
                self.reloads.state().effective = effective;
                Ok(Changes { changed, restart })
            }
            Err(problems) => {
                let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
                tracing::error!(count = problems.len(), "the configuration is refused, and nothing has changed");
                problems.iter().for_each(|problem| tracing::error!("{problem}"));
                Err(problems)
            }
        };
        let mut state = self.reloads.state();
        state.reloads += 1;
        state.last = Some((at, changes));
        drop(state);
        self.supervisor.ready(&self.live.load());
    }

    /// Follows `new`, which differs from `live` only in what may change.
    fn take(&self, live: &Config, new: &Config) {
        let follows = |config: &Config| (config.policy, config.slice, config.reserved, config.pools.clone());
        self.waiting.set(new.max_wait_scaled());
        if follows(live) != follows(new) {
            self.follow(new);
        }
        self.live.store(new.clone().into());
    }
}

fn log(changed: &[Row], restart: &[Row]) {
    let text =
        |rows: &[Row]| rows.iter().map(|row| format!("{} = {}", row.key, row.value)).collect::<Vec<_>>().join(", ");
    tracing::info!(changed = text(changed), "the configuration has been read again");
    if !restart.is_empty() {
        tracing::warn!(settings = text(restart), "these settings have other values now, and take a restart");
    }
}
