//! How nodes run the services, by the release of OpenShift or of podman.

use super::builder::Builder;
use super::spec::PlatformSpec;
use site::{Platform, Podman, Runtime};

impl Builder<'_> {
    pub(super) fn platform(&mut self, spec: &PlatformSpec) -> Platform {
        let openshift = spec.openshift.as_ref().and_then(|text| {
            let release = release(text.get_ref());
            match release {
                // Ignition 3.2, which MachineConfigs have here, came with 4.7.
                Some((4, minor)) if minor >= 7 => {}
                _ => self.report.wrong(
                    text.span(),
                    format!(
                        "`{}` is no release of OpenShift from 4.7 on, as in \"4.18\"",
                        text.get_ref()
                    ),
                ),
            }
            release
        });
        let podman = spec.podman.as_ref().map(|text| {
            let known = match text.get_ref().as_str() {
                "none" => Some(Runtime::Native),
                version => release(version).map(of_podman),
            };
            if known.is_none() {
                self.report.wrong(
                    text.span(),
                    format!(
                        "`{}` is no release of podman, as in \"4.9\", nor \"none\"",
                        text.get_ref()
                    ),
                );
            }
            known.unwrap_or(Runtime::Native)
        });
        let shipped = openshift.map(|(_, minor)| match minor {
            ..=12 => Runtime::NoQuadlet,
            13..=15 => Runtime::Quadlet(Podman::V4_4),
            16 => Runtime::Quadlet(Podman::V4_9),
            17.. => Runtime::Quadlet(Podman::V5_2),
        });
        Platform {
            openshift,
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

/// `4.18`, or `5.2.2`, whose last part says nothing here.
fn release(text: &str) -> Option<(u8, u8)> {
    let mut parts = text.split('.');
    let release = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let rest_is_numbers = parts.all(|part| part.parse::<u16>().is_ok());
    rest_is_numbers.then_some(release)
}
