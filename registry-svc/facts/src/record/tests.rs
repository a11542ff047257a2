use oci::digest::Algorithm;

use super::*;

fn record() -> Record {
    let repository: RepositoryName = "ocp4/release".parse().unwrap();
    let digest = Digest::of(Algorithm::Sha256, b"a");
    let manifest = Digest::of(Algorithm::Sha512, b"b");
    Record {
        origin: NodeId {
            name: "master-0".parse().unwrap(),
            incarnation: u64::MAX,
        },
        sequence: 7,
        stamp: Hlc::at(1_700_000_000_000).next(),
        facts: vec![
            Fact::Blob {
                repository: repository.clone(),
                digest,
                size: Some(0),
            },
            Fact::Blob {
                repository: repository.clone(),
                digest,
                size: None,
            },
            Fact::Manifest {
                repository: repository.clone(),
                digest: manifest,
                link: Some(Link {
                    media_type: "application/vnd.oci.image.manifest.v1+json".into(),
                    size: 1,
                    subject: Some(digest),
                }),
            },
            Fact::Manifest {
                repository: repository.clone(),
                digest: manifest,
                link: None,
            },
            Fact::Tag {
                repository: repository.clone(),
                tag: "4.17".parse().unwrap(),
                target: Some(manifest),
            },
            Fact::Tag {
                repository,
                tag: "4.16".parse().unwrap(),
                target: None,
            },
            Fact::Node {
                name: "master-1".parse().unwrap(),
                membership: Membership {
                    is_member: true,
                    address: Some("[fd00::1]:5444".into()),
                    forgotten: 2,
                },
            },
            Fact::Node {
                name: "master-2".parse().unwrap(),
                membership: Membership::default(),
            },
        ],
    }
}

#[test]
fn a_record_reads_and_writes_the_same() {
    let record = record();
    assert_eq!(Record::decode(&record.encode()), Ok(record.clone()));
    let empty = Record {
        facts: Vec::new(),
        ..record
    };
    assert_eq!(Record::decode(&empty.encode()), Ok(empty));
}

#[test]
fn a_record_with_one_fact_that_is_wrong_is_refused_as_a_whole() {
    use wire::fact::Kind;
    type Breaks = fn(&mut wire::Record);
    let broken: [(&str, Breaks); 6] = [
        ("origin", |record| record.origin = None),
        ("node", |record| {
            record.origin.as_mut().unwrap().name = "A B".to_owned();
        }),
        ("repository", |record| {
            if let Some(Kind::Blob(blob)) = &mut record.facts[0].kind {
                blob.repository = "../../etc".to_owned();
            }
        }),
        ("digest", |record| {
            if let Some(Kind::Blob(blob)) = &mut record.facts[1].kind {
                blob.digest.push('0');
            }
        }),
        ("media type", |record| {
            if let Some(Kind::Manifest(manifest)) = &mut record.facts[2].kind {
                manifest.media_type = "a/b\r\nX: y".to_owned();
            }
        }),
        ("target", |record| {
            if let Some(Kind::Tag(tag)) = &mut record.facts[4].kind {
                tag.target = "latest".to_owned();
            }
        }),
    ];
    for (what, broken) in broken {
        let mut wire = wire::Record::from(&record());
        broken(&mut wire);
        assert_eq!(Record::try_from(wire), Err(RecordError::Field(what)));
    }
    let mut wire = wire::Record::from(&record());
    wire.facts[3].kind = None;
    assert_eq!(Record::try_from(wire), Err(RecordError::Unknown));
    assert_eq!(Record::decode(b"\xff"), Err(RecordError::Malformed));
}

#[test]
fn a_vector_only_moves_forward() {
    let origin = record().origin;
    let mut vector = Vector::default();
    assert!(vector.advance(&origin, 3));
    assert!(!vector.advance(&origin, 2) && !vector.advance(&origin, 3));
    assert_eq!(vector.of(&origin), 3);
    let at = |sequence| Position {
        origin: origin.clone(),
        sequence,
    };
    assert!(vector.covers(&at(3)) && !vector.covers(&at(4)));
}
