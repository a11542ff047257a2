//! One client: what it was told, and whether that is so.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use oci::digest::{Algorithm, Digest};

use crate::connection::Connection;
use crate::{CLIENTS, CONTENTS, Chance, LIMIT, now};

/// One client and what it was told.
pub(super) struct Pusher {
    repository: String,
    chance: Chance,
    content: BTreeMap<Digest, Vec<u8>>,
    /// What was pushed and is not in a manifest yet, for a while: the sweep takes it then.
    blobs: BTreeSet<Digest>,
    /// Each manifest, what it refers to, and whether it may be there: several when it was not
    /// answered.
    manifests: BTreeMap<Digest, (Vec<Digest>, Vec<bool>)>,
    tags: BTreeMap<String, Vec<Option<Digest>>>,
}

pub(super) fn clients(chance: &mut Chance) -> Vec<Pusher> {
    (0..CLIENTS)
        .map(|number| Pusher::new(number, chance.next()))
        .collect()
}

impl Pusher {
    pub(super) fn new(number: u64, seed: u64) -> Self {
        Self {
            repository: format!("crash/r{number}"),
            chance: Chance(seed),
            content: BTreeMap::new(),
            blobs: BTreeSet::new(),
            manifests: BTreeMap::new(),
            tags: BTreeMap::new(),
        }
    }

    /// Works until the connection breaks.
    pub(super) fn work(
        &mut self,
        address: SocketAddr,
        may_fail: bool,
        is_over: &AtomicBool,
        n_acknowledged: &AtomicU64,
    ) {
        let Ok(mut connection) = Connection::open_to(address, may_fail) else {
            return;
        };
        while !is_over.load(Ordering::Relaxed) {
            let step = match self.chance.below(10) {
                0..5 => self.push(&mut connection),
                5..8 => self.tag(&mut connection),
                8 => self.delete_tag(&mut connection),
                _ => self.delete(&mut connection),
            };
            match step {
                Ok(()) => n_acknowledged.fetch_add(1, Ordering::Relaxed),
                Err(_) => return,
            };
        }
    }

    pub(super) fn push(&mut self, connection: &mut Connection) -> io::Result<()> {
        let number = self.chance.below(CONTENTS);
        let length = usize::try_from(number * number * 37 + 1).unwrap();
        let octets: Vec<u8> = number
            .to_le_bytes()
            .into_iter()
            .cycle()
            .take(length)
            .collect();
        let digest = Digest::of(Algorithm::Sha256, &octets);
        self.content.insert(digest, octets.clone());
        let uploads = format!("/v2/{}/blobs/uploads/", self.repository);
        if self.chance.below(2) == 0 {
            let path = format!("{uploads}?digest={digest}");
            connection.expect("POST", &path, "application/octet-stream", &octets, 201)?;
        } else {
            let begun = connection.expect("POST", &uploads, "", b"", 202)?;
            let (first, second) = octets.split_at(octets.len() / 2);
            let patched = connection.expect(
                "PATCH",
                &begun.location(),
                "application/octet-stream",
                first,
                202,
            )?;
            let location = patched.location();
            let mark = if location.contains('?') { '&' } else { '?' };
            let path = format!("{location}{mark}digest={digest}");
            connection.expect("PUT", &path, "application/octet-stream", second, 201)?;
        }
        self.blobs.insert(digest);
        Ok(())
    }

    pub(super) fn tag(&mut self, connection: &mut Connection) -> io::Result<()> {
        let blobs: Vec<Digest> = std::mem::take(&mut self.blobs).into_iter().collect();
        let layers: Vec<String> = blobs
            .iter()
            .map(|digest| {
                let size = self.content[digest].len();
                format!("{{\"mediaType\":\"application/vnd.oci.image.layer.v1.tar\",\"digest\":\"{digest}\",\"size\":{size}}}")
            })
            .collect();
        let Some(config) = layers.first().cloned() else {
            return Ok(());
        };
        let text = format!(
            "{{\"schemaVersion\":2,\"mediaType\":\"{MANIFEST}\",\"config\":{config},\"layers\":[{}],\"annotations\":{{\"n\":\"{}\"}}}}",
            layers.join(","),
            self.chance.below(1000)
        );
        let digest = Digest::of(Algorithm::Sha256, text.as_bytes());
        self.content.insert(digest, text.clone().into_bytes());
        let tag = format!("t{}", self.chance.below(5));
        // Until it is answered both are right.
        let before = (
            self.manifests.get(&digest).cloned(),
            self.tags.get(&tag).cloned(),
        );
        let (_, values) = self
            .manifests
            .entry(digest)
            .or_insert_with(|| (blobs, vec![false]));
        values.push(true);
        let values = self.tags.entry(tag.clone()).or_insert_with(|| vec![None]);
        values.push(Some(digest));
        let path = format!("/v2/{}/manifests/{tag}", self.repository);
        let answer = connection.ask("PUT", &path, MANIFEST, text.as_bytes())?;
        let body = String::from_utf8_lossy(&answer.body);
        match answer.status {
            201 => {
                if let Some((_, values)) = self.manifests.get_mut(&digest) {
                    *values = vec![true];
                }
                self.tags.insert(tag, vec![Some(digest)]);
            }
            // Who takes longer than the grace begins again.
            400 | 404 if body.contains("MANIFEST_BLOB_UNKNOWN") => {
                restore(&mut self.manifests, digest, before.0);
                restore(&mut self.tags, tag, before.1);
            }
            status => panic!("{path}: {status} {body}"),
        }
        Ok(())
    }

    pub(super) fn delete_tag(&mut self, connection: &mut Connection) -> io::Result<()> {
        let sure = |(_, values): &(&String, &Vec<_>)| matches!(values[..], [Some(_)]);
        let Some((tag, _)) = self.tags.iter().find(sure) else {
            return Ok(());
        };
        let tag = tag.clone();
        self.tags.entry(tag.clone()).or_default().push(None);
        let path = format!("/v2/{}/manifests/{tag}", self.repository);
        connection.expect("DELETE", &path, "", b"", 202)?;
        self.tags.insert(tag, vec![None]);
        Ok(())
    }

    /// Deletes a manifest and with it its tags: what it alone referred to is swept.
    pub(super) fn delete(&mut self, connection: &mut Connection) -> io::Result<()> {
        let sure = |(_, (_, values)): &(&Digest, &(_, Vec<bool>))| values[..] == [true];
        let Some((digest, _)) = self.manifests.iter().find(sure) else {
            return Ok(());
        };
        let digest = *digest;
        self.set(&digest, &[true, false]);
        let pointing = |values: &&mut Vec<Option<Digest>>| values.contains(&Some(digest));
        for values in self.tags.values_mut().filter(pointing) {
            values.push(None);
        }
        let path = format!("/v2/{}/manifests/{digest}", self.repository);
        connection.expect("DELETE", &path, "", b"", 202)?;
        self.set(&digest, &[false]);
        for values in self.tags.values_mut() {
            values.retain(|value| *value != Some(digest));
        }
        Ok(())
    }

    pub(super) fn set(&mut self, digest: &Digest, possible: &[bool]) {
        if let Some((_, values)) = self.manifests.get_mut(digest) {
            *values = possible.to_vec();
        }
    }

    /// Compares what is there with what may be; from then on that is what is. Returns how many images were whole.
    pub(super) fn verify(&mut self, address: SocketAddr, round: u64) -> u64 {
        let images = self.look(address, round, true);
        self.manifests.retain(|_, (_, values)| values[..] == [true]);
        images
    }

    /// Compares what is there with what may be; what a disk shows that has failed may not be there after its repair.
    pub(super) fn look(&mut self, address: SocketAddr, round: u64, is_settled: bool) -> u64 {
        let mut connection = Connection::open(address).unwrap();
        let repository = &self.repository;
        let mut whole = BTreeSet::new();
        let mut images = 0;
        for (digest, (blobs, values)) in &mut self.manifests {
            let path = format!("/v2/{repository}/manifests/{digest}");
            let found = connection.ask("GET", &path, "", b"").unwrap();
            let is_there = found.status == 200;
            let status = found.status;
            assert!(
                values.contains(&is_there),
                "round {round}: {path}: {status}"
            );
            if is_settled {
                *values = vec![is_there];
            }
            if !is_there {
                continue;
            }
            images += 1;
            assert_eq!(found.body, self.content[digest], "round {round}: {path}");
            // What is visible is whole.
            for blob in blobs.iter().filter(|blob| whole.insert(**blob)) {
                let path = format!("/v2/{repository}/blobs/{blob}");
                let found = connection.ask("GET", &path, "", b"").unwrap();
                assert_eq!(found.status, 200, "round {round}: {path} of {digest}");
                assert_eq!(found.body, self.content[blob], "round {round}: {path}");
            }
        }
        for (tag, values) in &mut self.tags {
            let path = format!("/v2/{repository}/manifests/{tag}");
            let target = connection.target(&path);
            assert!(
                values.contains(&target),
                "round {round}: {path} is {target:?}, may be {values:?}"
            );
            if is_settled {
                *values = vec![target];
            }
        }
        images
    }

    /// Waits until another node shows the same. Returns how many images were whole there.
    pub(super) fn wait_same(&self, address: SocketAddr, round: u64) -> u64 {
        let mut connection = Connection::open(address).unwrap();
        let begun = now();
        for (tag, values) in &self.tags {
            let path = format!("/v2/{}/manifests/{tag}", self.repository);
            while connection.target(&path) != values[0] {
                assert!(begun.elapsed() < LIMIT, "round {round}: {path} differs");
                thread::sleep(Duration::from_millis(5));
            }
        }
        for (digest, (blobs, _)) in &self.manifests {
            let path = format!("/v2/{}/manifests/{digest}", self.repository);
            assert_eq!(connection.target(&path), Some(*digest), "round {round}");
            for blob in blobs {
                let path = format!("/v2/{}/blobs/{blob}", self.repository);
                let found = connection.ask("GET", &path, "", b"").unwrap();
                assert!(found.body == self.content[blob], "round {round}: {path}");
            }
        }
        self.manifests.len() as u64
    }
}

fn restore<K: Ord, V>(map: &mut BTreeMap<K, V>, key: K, before: Option<V>) {
    match before {
        Some(before) => map.insert(key, before),
        None => map.remove(&key),
    };
}

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
