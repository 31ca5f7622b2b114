//! Do groups of workers serve and count as one server? Method: four workers in two groups. Floods
//! come from many ports, and handlers hold all workers of one group. The server stops, or its
//! policy changes, during a flood.

use support::prelude::*;

const GROUPS: [(&str, &str); 2] = [("workers", "4"), ("groups", "2")];

/// The policies under which workers may form groups.
fn grouped() -> impl Iterator<Item = &'static str> {
    policies().filter(|policy| policy.parse::<PolicyName>().expect("a policy").entry().may_group())
}

/// The policies under which one worker serves the socket of another.
fn sharing() -> impl Iterator<Item = &'static str> {
    grouped().filter(|policy| *policy != "isolated")
}

fn of(policy: &'static str) -> Vec<(&'static str, &'static str)> {
    [&GROUPS[..], &[("policy", policy), ("wait", "park")]].concat()
}

// If all workers of one group are held, does the other group serve datagrams that come to sockets
// of the first group?
#[test]
fn an_idle_group_serves_what_comes_to_a_full_one() {
    at_once(sharing(), |policy| {
        let (server, script) = run_scripted(&of(policy));
        let clients: Vec<Client> = (0..24).map(|_| Client::new(server.udp)).collect();
        let owners: Vec<usize> = clients.iter().map(Client::owner).collect();
        let before = fates(&latency(server.admin)).received;
        // Of three held workers, two are of one group.
        let full = |held: &[usize]| (0..2).find(|group| held.iter().filter(|id| **id / 2 == *group).count() == 2);
        for held in 1.. {
            clients[0].request(0, Nanos::ZERO, &[Act::Hold as u8]);
            await_until(|| script.blockers().len() == held, &format!("{policy}: a request does not begin"));
            if full(&script.blockers()).is_some() {
                break;
            }
        }
        let group = full(&script.blockers()).expect("one is full");
        let behind = clients.iter().zip(&owners).filter(|(_, owner)| **owner / 2 == group);
        let behind: Vec<&Client> = behind.map(|(client, _)| client).collect();
        assert!(!behind.is_empty(), "24 ports at 4 sockets");
        for client in &behind {
            client.request(7, Nanos::ZERO, b"x");
            // The first client may also get the answers of released requests.
            let mut answers = std::iter::repeat_with(|| client.receive().header);
            let header = answers.find(|header| header.id == 7).expect("it comes");
            assert_eq!((header.status, usize::from(header.served.worker) / 2), (Status::Ok, 1 - group));
        }
        script.release();
        let sent = before + (behind.len() + script.blockers().len()) as u64;
        assert_eq!(server.quiescent(sent).answered, sent, "{policy}");
        assert_eq!(server.stop().packets_away, 0);
    });
}

/// Sends this many datagrams from many ports. One in eight takes 2 ms, with checkpoints.
fn flood(server: std::net::SocketAddr, requests: u64) -> Vec<Client> {
    let clients: Vec<Client> = (0..32).map(|_| Client::new(server)).collect();
    for id in 0..requests {
        let (cost, act) = if id % 8 == 0 { (Nanos::from_millis(2), Act::Step as u8) } else { (Nanos::ZERO, b'x') };
        clients[(id * 7 % 32) as usize].request(id, cost, &[act]);
    }
    clients
}

// Is every datagram of a flood counted once, while the policy changes from each to each, and at a
// stop during the flood?
#[test]
fn every_fate_is_counted_over_all_groups() {
    const REQUESTS: u64 = 1_600;
    at_once(["adaptive", "park"], |wait| {
        let file = |policy| format!("policy = \"{policy}\"\nclassify = \"header\"\nmax-wait = \"off\"\n");
        let running = Configured::start_with(&["--workers", "4", "--groups", "2", "--wait", wait], &file("auto"));
        let mut sent = 0;
        for policy in grouped() {
            let _clients = flood(running.server.udp, REQUESTS / 8);
            assert_eq!(running.reload(&file(policy))["ok"], true, "{policy}");
            sent += REQUESTS / 8;
        }
        let fates = quiescent(running.server.admin, sent);
        assert_eq!(fates.answered + fates.kernel_dropped.unwrap_or(0), sent, "{fates:?}");
        running.server.stop();
    });
    at_once(grouped(), |policy| {
        let (server, _) = run_scripted(&[&of(policy)[..], &[("drain-timeout", "0s")]].concat());
        let _clients = flood(server.udp, REQUESTS);
        await_until(|| latency(server.admin)["fates"]["received"] != 0, "nothing comes");
        let report = server.stop();
        let fates = report.totals.fates;
        assert_adds_up(&fates);
        let ended = (fates.arrived(), fates.in_flight, report.packets_away);
        assert_eq!(ended, (Some(REQUESTS), 0, 0), "{policy} {fates:?}");
    });
}

// Do log, `/latency` and `/metrics` show groups to an operator?
#[test]
fn groups_are_shown() {
    let (server, _) = run_scripted(&of("steal"));
    assert_eq!(latency(server.admin)["groups"], 2);
    assert_eq!(config(server.admin)["settings"]["groups"]["value"], "2");
}
