//! `clusternodes`.

use super::*;

/// `api` has 192.168.7.13 and `2001:db8::13` of m0, .14 of m1, which is cordoned, and .16 of m3, which was learned; all are up.
struct Nodes;

impl LivenessView for Nodes {
    fn liveness(&self, _: &Watched) -> Liveness {
        Liveness::Up
    }

    fn nodes(&self, list: &str) -> Option<Vec<ListedNode>> {
        let node = |name: &str, address: &str, number| ListedNode {
            name: name.to_owned(),
            address: address.parse().unwrap(),
            number,
            is_learned: name == "m3",
            is_cordoned: name == "m1",
        };
        (list == "api").then(|| {
            vec![
                node("m0", "192.168.7.13", 0),
                node("m0", "2001:db8::13", 0),
                node("m1", "192.168.7.14", 1),
                node("m3", "192.168.7.16", 3),
            ]
        })
    }
}

fn evaluate(rtype: Type, code: &str) -> Evaluation {
    let view: Arc<dyn LivenessView> = Arc::new(Nodes);
    evaluator().evaluate(&snippet("api", rtype, code), &view)
}

fn fixed(rtype: Type, code: &str) -> Vec<String> {
    match evaluate(rtype, code).outcome.unwrap() {
        Outcome::Fixed(values) => values,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_list_has_the_addresses_of_the_family_without_cordoned_nodes() {
    let code = "clusternodes('api')";
    assert_eq!(fixed(Type::A, code), ["192.168.7.13", "192.168.7.16"]);
    assert_eq!(fixed(Type::AAAA, code), ["2001:db8::13"]);
    let all = fixed(Type::TXT, code);
    assert_eq!(all, ["192.168.7.13", "2001:db8::13", "192.168.7.16"]);
}

#[test]
fn a_number_has_its_node_alone_cordoned_or_not() {
    let of = |number: u32| fixed(Type::A, &format!("clusternodes('api', {number})"));
    assert_eq!(of(1), ["192.168.7.14"]);
    assert_eq!(of(3), ["192.168.7.16"]);
    assert!(of(2).is_empty());
}

#[test]
fn the_nodes_are_probed_and_those_that_were_learned_are_named() {
    let evaluation = evaluate(Type::A, "ifportup(6443, clusternodes('api'))");
    let targets: Vec<String> = evaluation
        .targets
        .iter()
        .map(|watched| watched.target.address.to_string())
        .collect();
    assert_eq!(targets, ["192.168.7.13:6443", "192.168.7.16:6443"]);
    let notes: Vec<&str> = evaluation.notes.iter().map(|it| &*it.message).collect();
    assert_eq!(
        notes,
        [
            "192.168.7.14 of m1 is cordoned and left out",
            "192.168.7.16 of m3 is learned from the cluster"
        ]
    );
}

#[test]
fn a_program_that_branches_has_the_nodes_of_the_list_probed_and_no_others() {
    let code = ";if continent('EU') then return ifportup(443, clusternodes('api')) end return {'192.0.2.9'}";
    let targets = evaluate(Type::A, code).targets;
    let mut addresses = targets.iter().map(|watched| watched.target.address);
    assert!(addresses.all(|address| address.ip().to_string().starts_with("192.168.7.")));
}

#[test]
fn mistakes_are_named() {
    let error = |code: &str| evaluate(Type::A, code).outcome.unwrap_err().to_string();
    let unknown = error("clusternodes('apps')");
    assert!(unknown.contains("has no list `apps`"), "{unknown}");
    assert!(error("clusternodes()").contains("clusternodes: the list"));
    assert!(error("clusternodes('api', 'x')").contains("clusternodes: the number"));
}

#[test]
fn a_program_says_whether_it_may_name_nodes() {
    let names = |code: &str| snippet("api", Type::A, code).may_name_nodes();
    assert!(names("clusternodes('api')"));
    assert!(names(";include('lib') return f()"));
    assert!(!names("ifportup(443, {'192.0.2.1'})"));
}
