//! How nodes run the services, by the release of OpenShift or of podman.

use config::at;
use config::site as file;

use super::builder::Builder;
use site::{Platform, Podman, Runtime};

/// The release that is assumed where a wrong one is written, so that the rest of the file is checked.
const ASSUMED: file::Openshift = file::Openshift { minor: 18 };

impl Builder<'_, '_> {
    pub(super) fn platform(&self, spec: file::Platform) -> Platform {
        let is_lost = self.report.is_lost(&at!["platform", "openshift"]);
        let openshift = spec.openshift.or_else(|| is_lost.then_some(ASSUMED));
        let podman = spec.podman.map(|podman| match podman {
            file::Podman::None => Runtime::Native,
            file::Podman::Release(major, minor) => of_podman((major, minor)),
        });
        let shipped = openshift.map(|release| match release.minor {
            ..=12 => Runtime::NoQuadlet,
            13..=15 => Runtime::Quadlet(Podman::V4_4),
            16 => Runtime::Quadlet(Podman::V4_9),
            17.. => Runtime::Quadlet(Podman::V5_2),
        });
        Platform {
            openshift: openshift.map(|release| (4, release.minor)),
            // Every podman that knows quadlets understands those of the first.
            runtime: podman.or(shipped).unwrap_or(Runtime::Quadlet(Podman::V4_4)),
        }
    }
}

fn of_podman(version: (u8, u8)) -> Runtime {
    match version {
        (..=3, _) | (4, ..=3) => Runtime::NoQuadlet,
        (4, 4..=8) => Runtime::Quadlet(Podman::V4_4),
        (4, 9..) | (5, ..=1) => Runtime::Quadlet(Podman::V4_9),
        (5, 2..=3) => Runtime::Quadlet(Podman::V5_2),
        (5, 4..) | (6.., _) => Runtime::Quadlet(Podman::V5_4),
    }
}
