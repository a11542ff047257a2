//! Nodes of a cluster that are asked for the time, as clusterd reports them: fewer than the servers of the file, whatever it says.

use std::collections::BTreeSet;
use std::fs;

use serde_json::{Value, json};
use tests::clusterd;
use tests::daemon::Daemon;
use tests::time::{Agent, PATIENCE, Says, Server};
use tests::wait;

/// The nodes by which sources were learned.
fn learned(status: &Value) -> BTreeSet<String> {
    let sources = status["sources"].as_array().cloned().unwrap_or_default();
    let nodes = sources
        .iter()
        .filter_map(|one| one["learned_from"].as_str());
    nodes.map(str::to_owned).collect()
}

fn put(agent: &Agent, name: &str, address: &str) {
    let node = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"node-role.kubernetes.io/control-plane": ""}},
        "status": {"addresses": [{"type": "InternalIP", "address": address}]},
    });
    let file = format!("manifests/{name}.json");
    agent.files.write(&file, &node.to_string());
}

fn clusterd(agent: &Agent) -> Daemon {
    let directory = agent.files.join("").display().to_string();
    let directory = directory.trim_end_matches('/');
    agent.files.write(
        "clusterd.toml",
        &format!(
            "version = \"v1\"\nsocket = \"{directory}/clusterd.sock\"\nstate = \"{directory}/clusterd\"\n\
             manifests = \"{directory}/manifests\"\nadmin.listen = \"none\"\n"
        ),
    );
    clusterd::start(&agent.files)
}

#[test]
fn nodes_of_a_cluster_are_asked_and_never_are_the_majority() {
    let servers: Vec<Server> = (0..3)
        .map(|_| Server::on_loopback(Says::default()))
        .collect();
    let lines: String = servers
        .iter()
        .map(|server| server.line("iburst minpoll -2 maxpoll -2"))
        .collect();
    let agent = Agent::on_loopback(&lines);
    fs::create_dir_all(agent.files.join("manifests")).unwrap();
    let cluster = format!(
        "node = \"own\"\n[cluster]\nsocket = \"{}\"\nnodes = [\"masters\"]\n\
         networks = [\"127.0.0.0/8\"]\nexcluded = [\"127.77.0.1\"]\n",
        agent.files.join("clusterd.sock").display()
    );
    let serve = agent.serve_by(agent.admin(), &cluster);
    let daemon = Daemon::start("timesync-agent", serve);
    agent.wait_state(&["locked"]);
    // Twenty nodes, of which two may be asked; this one itself is none of them.
    put(&agent, "own", "127.77.0.1");
    for last in 10..30 {
        put(&agent, &format!("n{last}"), &format!("127.77.0.{last}"));
    }
    let following = clusterd(&agent);
    let status = agent.wait_status("two are asked", |status| learned(status).len() == 2);
    assert_eq!(
        status["too_many"].as_array().unwrap().len(),
        18,
        "{status:#}"
    );
    assert_eq!(status["sources"].as_array().unwrap().len(), 5, "{status:#}");
    assert_eq!(
        status["nodes"]["lists"][0]["refused"],
        json!([]),
        "{status:#}"
    );
    assert_eq!(status["state"], "locked");
    let asked = learned(&status);
    // The agent keeps them when its configuration is read again, and while clusterd is away.
    daemon.hang_up();
    following.kill();
    let status = agent.wait_status("clusterd is away", |status| {
        status["nodes"]["connected"] == false
    });
    assert_eq!(learned(&status), asked, "{status:#}");
    assert_eq!(status["sources"].as_array().unwrap().len(), 5, "{status:#}");
    // Nodes that have left are not asked any more; others are, and no more of them.
    for node in &asked {
        fs::remove_file(agent.files.join(&format!("manifests/{node}.json"))).unwrap();
    }
    let following = clusterd(&agent);
    wait::for_it("two others are asked", PATIENCE, || {
        let others = learned(&agent.status());
        others.len() == 2 && others.is_disjoint(&asked)
    });
    // The loss of all of them at once has to last before it counts: a cluster that is empty may be one that was read wrongly.
    let others = learned(&agent.status());
    following.kill();
    for entry in fs::read_dir(agent.files.join("manifests"))
        .unwrap()
        .flatten()
    {
        fs::remove_file(entry.path()).unwrap();
    }
    let following = clusterd(&agent);
    let status = agent.wait_status("the loss waits", |status| {
        status["nodes"]["lists"][0]["held"].is_object()
    });
    assert_eq!(learned(&status), others, "{status:#}");
    assert_eq!(status["sources"].as_array().unwrap().len(), 5, "{status:#}");
    assert_eq!(status["state"], "locked");
    following.kill();
    daemon.stop();
}
