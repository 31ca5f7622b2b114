//! Reloads the configuration while the server runs, all of it or nothing. `/config` shows the
//! result.

use crate::config::{Claim, Config, Effective, Origin, OwnSettings, Problems, Reloaded, reload};
use crate::runtime::continuation::{guarded, lock};
use crate::time::clock;
use std::sync::{Arc, Mutex};

pub(super) type Load = Box<dyn Fn() -> Result<Effective, Problems> + Send + Sync>;
pub(super) type Apply = Box<dyn Fn(&Config) + Send + Sync>;
/// Lets the service take a configuration, or says why it refuses.
pub(super) type Take = Box<dyn Fn(&OwnSettings) -> Result<(), String> + Send + Sync>;

/// The source of the configuration, and the result of the last reload.
pub(crate) struct Reloads {
    /// Loads the configuration; `None` if code made it.
    load: Option<Load>,
    /// Functions to call with each new configuration.
    pub(super) then: Vec<Apply>,
    /// Asked first: what it refuses changes nothing.
    pub(super) service: Option<Take>,
    state: Mutex<ReloadState>,
}

struct ReloadState {
    /// The current configuration. Settings that need a restart have their values from the start.
    live: Arc<Effective>,
    reloads: u64,
    /// Time of the last reload in seconds since 1970, and its result; `None` before the first.
    last: Option<(f64, Result<Reloaded, Vec<String>>)>,
}

impl Reloads {
    pub(super) fn new(effective: Effective, load: Option<Load>) -> Reloads {
        let state = Mutex::new(ReloadState { live: Arc::new(effective), reloads: 0, last: None });
        Reloads { load, then: Vec::new(), service: None, state }
    }

    /// The reloader of a server whose `config` was made by code.
    pub(crate) fn none(config: &Config) -> Reloads {
        let row = |(key, value)| Claim::new(key, value, Origin::Code);
        let rows = config.to_pairs().into_iter().map(row).collect();
        Reloads::new(Effective { config: config.clone(), rows, own: OwnSettings::default() }, None)
    }

    /// The current configuration. Settings that need a restart have their values from the start.
    pub(crate) fn live(&self) -> Arc<Effective> {
        lock(&self.state).live.clone()
    }

    /// Reloads the configuration, and calls `take` with the live and the new one. Changes nothing
    /// if anything is wrong, or the service refuses. Returns false if code made the configuration
    /// and nothing follows SIGHUP.
    pub(crate) fn read(&self, take: impl FnOnce(&Config, &Config)) -> bool {
        let running = self.live();
        let Some(load) = &self.load else {
            let _ = self.ask(&running.own);
            return self.service.is_some();
        };
        let read = load().and_then(|new| reload(&running, &new, self.service.is_some())).map_err(|problems| {
            let count = problems.iter().count();
            tracing::error!(count, "the configuration is refused, and nothing has changed");
            problems.iter().for_each(|problem| tracing::error!("{problem}"));
            problems.iter().map(ToString::to_string).collect()
        });
        let result = read.and_then(|new| self.ask(&new.effective.own).map(|()| new));
        if let Ok(Reloaded { effective, .. }) = &result {
            lock(&self.state).live = Arc::new(effective.clone());
            take(&running.config, &effective.config);
            self.then.iter().for_each(|then| drop(guarded(|| then(&effective.config))));
        }
        let mut state = lock(&self.state);
        state.reloads += 1;
        if let Ok(Reloaded { changed, restart, .. }) = &result {
            let text = |row: &Claim| format!("{} = {}", row.key, row.value);
            let text = |rows: &[Claim]| rows.iter().map(text).collect::<Vec<_>>().join(", ");
            tracing::info!(changed = text(changed), "the configuration has been read again");
            if !restart.is_empty() {
                tracing::warn!(settings = text(restart), "these settings have other values now, and take a restart");
            }
        }
        state.last = Some((clock::realtime().as_secs_f64(), result));
        true
    }

    /// Lets the service take new settings, and logs why it refuses.
    fn ask(&self, own: &OwnSettings) -> Result<(), Vec<String>> {
        let Some(service) = &self.service else { return Ok(()) };
        let answer = guarded(|| service(own)).unwrap_or_else(|_| Err("it panicked".to_owned()));
        answer.map_err(|reason| {
            tracing::warn!(reason, "the service refuses the new configuration, and nothing has changed");
            vec![format!("the service refuses it: {reason}")]
        })
    }

    /// The settings with their origins, and the last reload.
    #[cfg(feature = "admin")]
    pub(crate) fn to_json(&self) -> String {
        use serde_json::{Value, json};
        let state = lock(&self.state);
        let texts = |rows: &[Claim]| rows.iter().map(|row| row.key.clone()).collect::<Vec<_>>();
        let last = state.last.as_ref().map(|(at, result)| {
            let (changed, restart, problems) = match result {
                Ok(new) => (texts(&new.changed), texts(&new.restart), Vec::new()),
                Err(problems) => (Vec::new(), Vec::new(), problems.clone()),
            };
            let ok = result.is_ok();
            json!({"at": at, "ok": ok, "changed": changed, "restart_needed": restart, "problems": problems})
        });
        let setting = |row: &Claim| (row.key.clone(), json!({"value": row.value, "origin": row.origin.to_string()}));
        let settings: serde_json::Map<String, Value> = state.live.rows.iter().map(setting).collect();
        let own: serde_json::Map<String, Value> = state.live.own.rows.iter().map(|row| setting(&row.claim())).collect();
        let body = json!({
            "schema": "forebay-config/1", "settings": settings, "service": own, "reloads": state.reloads,
            "last_reload": last,
        });
        body.to_string() + "\n"
    }
}
