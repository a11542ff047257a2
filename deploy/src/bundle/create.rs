//! Making a bundle.

use std::collections::BTreeMap;
use std::env;
use std::fs::File;
use std::io::{self, BufWriter};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use config_text::counted;
use daemon::config::Problems;
use daemon::{clock, errln, outln};

use crate::bundle::args::BundleArgs;
use crate::bundle::keys;
use crate::image::build::mebibytes;
use service_image::digest::Sha256;
use service_image::elf::{self, Linkage};
use site::secrets::Secrets;
use site::service::Service;
use site::{Node, Runtime, Site};
use site_bundle::manifest::{
    BundleFile, BundleImage, BundleNode, BundleRuntime, BundleUnit, COMMAND, Manifest, Member,
    Version,
};
use site_bundle::signature::SigningKey;
use site_bundle::writer::{self, Source};
use site_node::images::archives::{self, Archives};
use site_render::config::{self, NodeFile};
use site_render::target;

use crate::number::NumberFile;
use crate::zone_serial;

/// Makes a bundle.
///
/// # Errors
///
/// When the site, its certificates, an image or the key is not there or not good.
pub(crate) fn run(args: &BundleArgs) -> anyhow::Result<()> {
    let (Some(images), Some(key), Some(output)) = (&args.images, &args.key, &args.output) else {
        bail!("--images, --key and --output are needed");
    };
    let key = keys::secret(key, args.password_file.as_deref())?;
    let mut site = site_file::read(&args.site).map_err(problems)?;
    let home = args.site.parent().unwrap_or_else(|| Path::new(""));
    let serial = zone_serial::settle(home, &mut site, clock::since_1970().as_secs())?;
    let secrets = site_pki::load(home, &site).map_err(problems)?;
    let mut contents = Contents::default();
    contents.command(images)?;
    let bundle_images = contents.images(&site, images)?;
    let nodes = site.nodes.iter().filter(|node| !node.services.is_empty());
    let mut manifest = Manifest {
        version: Version::V1,
        site: site.name.clone(),
        domain: site.domain.clone(),
        generation: 0,
        created: created(contents.newest)?,
        made_by: daemon::args::VERSION.to_owned(),
        nodes: nodes
            .map(|node| contents.node(&site, node, &secrets))
            .collect::<anyhow::Result<_>>()?,
        images: bundle_images,
        members: contents.members,
    };
    let content = manifest.to_json().context("cannot write the manifest")?;
    let generation = GENERATION.settle(home, &content, 1, |last: u64| last.saturating_add(1))?;
    manifest.generation = generation.number;
    // Do not write what the reader refuses.
    let text = manifest.to_json().context("cannot write the manifest")?;
    Manifest::parse(&text).context("the site cannot be put into a bundle")?;
    serial.keep()?;
    if let Some(oddity) = &serial.oddity {
        errln!("warning: {oddity}");
    }
    generation.keep()?;
    if !args.per_node {
        return sign_and_write(output, &manifest, &key, &contents.sources);
    }
    std::fs::create_dir_all(output).with_context(|| format!("cannot make {}", output.display()))?;
    for node in &manifest.nodes {
        let output = output.join(format!("{}.bundle", node.name));
        sign_and_write(
            &output,
            &manifest.of_node(&node.name),
            &key,
            &contents.sources,
        )?;
    }
    Ok(())
}

const GENERATION: NumberFile = NumberFile {
    name: "bundle.generation",
    what: "The generation of the last bundle, and the digest of its content.",
    remedy: "nodes refuse a bundle of a lower generation than they have had",
};

/// Signs a manifest, and writes its bundle.
fn sign_and_write(
    output: &Path,
    manifest: &Manifest,
    key: &SigningKey,
    sources: &BTreeMap<String, Place>,
) -> anyhow::Result<()> {
    let text = manifest.to_json().context("cannot write the manifest")?;
    let comment = format!(
        "outpost bundle of {}, {}",
        manifest.domain, manifest.made_by
    );
    let signature = key.sign(&text, &comment);
    let size = write(output, manifest, &text, &signature, sources)?;
    outln!(
        "{}: {} for {} of {}, generation {}, manifest {}",
        output.display(),
        mebibytes(size),
        counted(manifest.nodes.len(), "node"),
        manifest.domain,
        manifest.generation,
        Sha256::of(&text).short()
    );
    Ok(())
}

/// The command prints each of them on a line of its own.
fn problems(problems: Problems) -> anyhow::Error {
    anyhow::Error::new(problems)
}

/// `SOURCE_DATE_EPOCH`, or else the time of the newest image: never that of the making.
fn created(newest: u64) -> anyhow::Result<u64> {
    match env::var("SOURCE_DATE_EPOCH") {
        Ok(given) => given
            .parse()
            .with_context(|| format!("SOURCE_DATE_EPOCH is {given:?}, not a number of seconds")),
        Err(_) => Ok(newest),
    }
}

fn write(
    output: &Path,
    manifest: &Manifest,
    text: &[u8],
    signature: &str,
    sources: &BTreeMap<String, Place>,
) -> anyhow::Result<u64> {
    let source = |name: &str| match sources.get(name) {
        Some(Place::Here(bytes)) => Ok(Source::Bytes(bytes.clone())),
        Some(Place::There(path)) => File::open(path).map(Source::File),
        None => Err(io::Error::other(format!("{name} is nowhere"))),
    };
    let written = File::options()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(output)
        .and_then(|file| {
            writer::write(manifest, text, signature, source, BufWriter::new(&file))?;
            file.sync_all()?;
            Ok(file.metadata()?.len())
        });
    written.with_context(|| format!("cannot write {}", output.display()))
}

/// The members so far.
#[derive(Default)]
struct Contents {
    members: BTreeMap<String, Member>,
    sources: BTreeMap<String, Place>,
    /// When the newest image was made.
    newest: u64,
}

/// The source of a member's bytes.
enum Place {
    Here(Vec<u8>),
    There(PathBuf),
}

impl Contents {
    /// Puts in the command, which has to run on a node as it is.
    fn command(&mut self, images: &Path) -> anyhow::Result<()> {
        let path = &images.join(COMMAND);
        let bytes = std::fs::read(path).with_context(|| {
            format!(
                "cannot read {}, which `outpost image build` writes",
                path.display()
            )
        })?;
        let found = elf::inspect(&bytes).with_context(|| path.display().to_string())?;
        anyhow::ensure!(
            found.linkage == Linkage::Static,
            "{} is not static, and a node may have other libraries",
            path.display()
        );
        let listed = Archives::new(images).listed(path)?;
        anyhow::ensure!(
            listed.is_none_or(|listed| listed == Sha256::of(&bytes)),
            "{} has not the digest that SHA256SUMS lists; {BUILD_AGAIN}",
            path.display()
        );
        self.put(COMMAND.to_owned(), bytes);
        Ok(())
    }

    /// Puts in the image of every service that a node of the site runs.
    fn images(&mut self, site: &Site, directory: &Path) -> anyhow::Result<Vec<BundleImage>> {
        let mut images = Vec::new();
        for service in Service::ALL
            .into_iter()
            .filter(|service| site.runs(*service))
        {
            let path = directory.join(archives::name(service));
            let image = Archives::new(directory).read(&path).with_context(|| {
                format!("a bundle is not signed over these images; {BUILD_AGAIN}")
            })?;
            anyhow::ensure!(
                image.service == service.name(),
                "{} is an image of {}",
                path.display(),
                image.service
            );
            let member = format!("images/{}", archives::name(service));
            let (size, time) =
                size_and_time(&path).with_context(|| format!("cannot read {}", path.display()))?;
            self.newest = self.newest.max(time);
            let sha256 = archives::digest_of(&path)?;
            self.members.insert(member.clone(), Member { size, sha256 });
            self.sources.insert(member.clone(), Place::There(path));
            images.push(BundleImage {
                service: image.service,
                version: image.version,
                revision: image.revision,
                image_id: image.image_id,
                member,
            });
        }
        Ok(images)
    }

    /// Puts in everything that a node reads.
    fn node(&mut self, site: &Site, node: &Node, secrets: &Secrets) -> anyhow::Result<BundleNode> {
        let mut files = config::node(site, node, secrets);
        files.extend(target::files(site, node));
        let mut files: Vec<BundleFile> = files.into_iter().map(|file| self.file(file)).collect();
        files.push(BundleFile {
            path: COMMAND_PATH.into(),
            mode: 0o755,
            user: 0,
            group: 0,
            member: COMMAND.to_owned(),
        });
        files.sort_by(|one, other| one.path.cmp(&other.path));
        let units = target::units_of(site, node).into_iter();
        Ok(BundleNode {
            name: node.name.clone(),
            addresses: node.addresses.clone(),
            runtime: match site.platform.runtime {
                Runtime::Native => BundleRuntime::Native,
                Runtime::Quadlet(_) | Runtime::NoQuadlet => BundleRuntime::Podman,
            },
            services: node
                .services
                .iter()
                .map(|service| service.name().to_owned())
                .collect(),
            files,
            units: units
                .map(|unit| BundleUnit {
                    name: unit.name,
                    enable: unit.enable,
                })
                .collect(),
        })
    }

    fn file(&mut self, file: NodeFile) -> BundleFile {
        let member = format!("files/{}", Sha256::of(&file.contents));
        self.put(member.clone(), file.contents);
        let (user, group) = file.owner.unwrap_or((0, 0));
        BundleFile {
            path: file.path,
            mode: file.mode,
            user,
            group,
            member,
        }
    }

    fn put(&mut self, name: String, bytes: Vec<u8>) {
        let member = Member {
            size: u64::try_from(bytes.len()).unwrap_or(u64::MAX),
            sha256: Sha256::of(&bytes),
        };
        self.members.insert(name.clone(), member);
        self.sources.insert(name, Place::Here(bytes));
    }
}

/// The size of an image archive, and when it was made, which its members say.
fn size_and_time(path: &Path) -> io::Result<(u64, u64)> {
    let file = File::open(path)?;
    let size = file.metadata()?.len();
    let mut archive = tar::Archive::new(file);
    let first = archive.entries()?.next().transpose()?;
    let time = first.map_or(Ok(0), |entry| entry.header().mtime())?;
    Ok((size, time))
}

/// The remedy of files that are not those that were built.
const BUILD_AGAIN: &str =
    "build them again with `outpost image build`, which writes SHA256SUMS too";

/// The path of the command on a node; the units name it.
pub(crate) const COMMAND_PATH: &str = "/usr/local/bin/outpost";
