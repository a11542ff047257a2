//! `recover`: lists manifests that have lost their names with a damaged journal, and gives them names.

use std::process::ExitCode;

use api::registry_svc::Unnamed;
use config_text::web::encoded;
use daemon::admin::{self, Place};
use daemon::{exit, outln, print, run};
use oci::digest::Digest;
use oci::reference::{Reference, RepositoryName, Tag};
use registry_store::recover;

use super::inspect::{InspectError, Opened, Reached, reach};
use crate::args::RecoverArgs;
use crate::{routes, status};

/// A manifest and the name that it gets.
type Naming = (Digest, RepositoryName, Option<Tag>);

/// Does what the arguments say.
pub(super) fn run(args: &RecoverArgs) -> ExitCode {
    run::verb(async {
        match recovered(args).await {
            Ok(()) => exit::code(exit::OK),
            Err(error) => {
                daemon::errln!("{}", exit::chain(&error));
                exit::code(error.code())
            }
        }
    })
}

async fn recovered(args: &RecoverArgs) -> Result<(), InspectError> {
    let held = match reach(&args.look).await? {
        Reached::Daemon(place) => Held::Daemon(place),
        Reached::Disk(opened) => Held::Disk(opened),
    };
    let done = act(args, &held).await;
    if let Held::Disk(opened) = &held {
        opened.store.close().await;
    }
    done
}

async fn act(args: &RecoverArgs, held: &Held) -> Result<(), InspectError> {
    if args.done {
        return held.finish().await;
    }
    if let (Some(digest), Some(image)) = (&args.digest, &args.image) {
        let tag = match &image.reference {
            Reference::Tag(tag) => Some(tag.clone()),
            Reference::Digest(_) => None,
        };
        return held.name(&(*digest, image.repository.clone(), tag)).await;
    }
    let unnamed = held.unnamed().await?;
    if args.all {
        for naming in proposed(&unnamed) {
            held.name(&naming).await?;
            let (digest, repository, tag) = &naming;
            match tag {
                Some(tag) => outln!("{repository}:{tag} is {digest}"),
                None => outln!("{repository} has {digest}"),
            }
        }
        return Ok(());
    }
    match args.look.status.json {
        true => {
            let value = serde_json::to_value(&unnamed).map_err(InspectError::Answer)?;
            outln!("{value:#}");
        }
        false => print::out(format_args!("{}", status::unnamed(&unnamed))),
    }
    Ok(())
}

/// The names that the damaged journal may have had. An image whose content is not whole gets none.
fn proposed(unnamed: &Unnamed) -> Vec<Naming> {
    let whole = unnamed.manifests.iter().filter(|it| it.missing.is_empty());
    let all = whole.flat_map(|manifest| {
        manifest.proposals.iter().filter_map(|text| {
            let digest = manifest.digest.parse().ok()?;
            let (repository, tag) = match text.rsplit_once(':') {
                Some((repository, tag)) => (repository, Some(tag.parse().ok()?)),
                None => (text.as_str(), None),
            };
            Some((digest, repository.parse().ok()?, tag))
        })
    });
    all.collect()
}

/// The holder of the store.
enum Held {
    Daemon(Place),
    Disk(Box<Opened>),
}

impl Held {
    async fn unnamed(&self) -> Result<Unnamed, InspectError> {
        match self {
            Self::Daemon(place) => {
                let answer = admin::get(place.clone(), routes::RECOVER).await;
                let answer = answer.map_err(|error| InspectError::Refused(exit::chain(&error)))?;
                match answer.is_success() {
                    true => serde_json::from_str(&answer.text()).map_err(InspectError::Answer),
                    false => Err(InspectError::Refused(answer.text().trim_end().to_owned())),
                }
            }
            Self::Disk(opened) => {
                let found = recover::find(&opened.store)
                    .await
                    .map_err(InspectError::Store)?;
                Ok(status::unnamed_manifests(&found))
            }
        }
    }

    async fn name(&self, (digest, repository, tag): &Naming) -> Result<(), InspectError> {
        match self {
            Self::Daemon(place) => {
                let tag = tag.as_ref().map(|tag| format!("&tag={tag}"));
                let query = format!(
                    "?digest={}&repository={}{}",
                    encoded(&digest.to_string()),
                    encoded(repository.as_str()),
                    tag.unwrap_or_default()
                );
                post(place, &query).await
            }
            Self::Disk(opened) => {
                let named = recover::name(&opened.store, digest, repository, tag.clone());
                named.await.map_err(InspectError::Store)
            }
        }
    }

    async fn finish(&self) -> Result<(), InspectError> {
        match self {
            Self::Daemon(place) => post(place, "?done=1").await,
            Self::Disk(opened) => recover::finish(&opened.store)
                .await
                .map_err(InspectError::Store),
        }
    }
}

async fn post(place: &Place, query: &str) -> Result<(), InspectError> {
    let refused = |error: admin::ClientError| InspectError::Refused(exit::chain(&error));
    let place = match place {
        Place::Address(address) => admin::control(*address).await.map_err(refused)?,
        Place::Socket(_) => place.clone(),
    };
    let path = format!("{}{query}", routes::RECOVER);
    let answer = admin::post(place, &path, Vec::new())
        .await
        .map_err(refused)?;
    match answer.is_success() {
        true => Ok(()),
        false => Err(InspectError::Refused(answer.text().trim_end().to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use api::registry_svc::UnnamedManifest;

    use super::*;

    #[test]
    fn an_image_that_is_whole_gets_the_names_it_may_have_had() {
        let digest = format!("sha256:{}", "a".repeat(64));
        let manifest = |missing: &[&str]| UnnamedManifest {
            digest: digest.clone(),
            missing: missing.iter().map(ToString::to_string).collect(),
            proposals: vec!["a/b:v1".to_owned(), "a/b".to_owned(), "A:v".to_owned()],
            ..UnnamedManifest::default()
        };
        let unnamed = Unnamed {
            manifests: vec![manifest(&[]), manifest(&["sha256:b"])],
            ..Unnamed::default()
        };
        let repository: RepositoryName = "a/b".parse().unwrap();
        let digest: Digest = digest.parse().unwrap();
        assert_eq!(
            proposed(&unnamed),
            [
                (digest, repository.clone(), Some("v1".parse().unwrap())),
                (digest, repository, None),
            ]
        );
    }
}
