//! Paths of the distribution API (distribution-spec, Endpoints), and which methods each has.
//!
//! A repository's name may have any number of components, and components called `blobs` or
//! `manifests` too, so a path is read from its end.

use std::borrow::Cow;

use config_text::web::decoded;
use hyper::Method;

use crate::counts::Handler;

/// The target of a path. Names and references are as the client wrote them, unescaped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route<'a> {
    /// `/v2/`
    Base,
    /// `/v2/_catalog`
    Catalog,
    /// `/v2/_oci/ext/discover`
    Extensions,
    /// The token endpoint.
    Token,
    /// `/v2/<name>/blobs/<digest>`
    Blob {
        /// The repository.
        name: Cow<'a, str>,
        /// The digest.
        digest: Cow<'a, str>,
    },
    /// `/v2/<name>/blobs/uploads/`
    Uploads {
        /// The repository.
        name: Cow<'a, str>,
    },
    /// `/v2/<name>/blobs/uploads/<id>`
    Upload {
        /// The repository.
        name: Cow<'a, str>,
        /// The session.
        id: Cow<'a, str>,
    },
    /// `/v2/<name>/manifests/<reference>`
    Manifest {
        /// The repository.
        name: Cow<'a, str>,
        /// A tag or a digest.
        reference: Cow<'a, str>,
    },
    /// `/v2/<name>/tags/list`
    Tags {
        /// The repository.
        name: Cow<'a, str>,
    },
    /// `/v2/<name>/referrers/<digest>`
    Referrers {
        /// The repository.
        name: Cow<'a, str>,
        /// The subject's digest.
        digest: Cow<'a, str>,
    },
}

impl<'a> Route<'a> {
    /// The route of `path`; none, if it is not one of the API's.
    #[must_use]
    pub fn of(path: &'a str, token: &str) -> Option<Self> {
        if path == token {
            return Some(Self::Token);
        }
        let rest = match path.strip_prefix("/v2")? {
            "" | "/" => return Some(Self::Base),
            rest => rest.strip_prefix('/')?,
        };
        match rest {
            "_catalog" => return Some(Self::Catalog),
            "_oci/ext/discover" => return Some(Self::Extensions),
            _ => {}
        }
        let (front, last) = rest.rsplit_once('/')?;
        let (front, before) = front.rsplit_once('/')?;
        let name = || unescape(front);
        match (before, last) {
            ("manifests", reference) if !reference.is_empty() => Some(Self::Manifest {
                name: name()?,
                reference: unescape(reference)?,
            }),
            ("referrers", digest) if !digest.is_empty() => Some(Self::Referrers {
                name: name()?,
                digest: unescape(digest)?,
            }),
            ("tags", "list") => Some(Self::Tags { name: name()? }),
            ("blobs", "uploads") => Some(Self::Uploads { name: name()? }),
            ("blobs", digest) if !digest.is_empty() => Some(Self::Blob {
                name: name()?,
                digest: unescape(digest)?,
            }),
            ("uploads", id) => {
                let name = unescape(front.strip_suffix("/blobs")?)?;
                match id {
                    "" => Some(Self::Uploads { name }),
                    id => Some(Self::Upload {
                        name,
                        id: unescape(id)?,
                    }),
                }
            }
            _ => None,
        }
    }

    /// The methods that it has, as `Allow` lists them.
    #[must_use]
    pub fn allow(&self) -> &'static str {
        match self {
            Self::Base
            | Self::Catalog
            | Self::Extensions
            | Self::Tags { .. }
            | Self::Referrers { .. } => "GET, HEAD",
            Self::Token => "GET, POST",
            Self::Blob { .. } => "GET, HEAD, DELETE",
            Self::Uploads { .. } => "POST",
            Self::Upload { .. } => "GET, HEAD, PATCH, PUT, DELETE",
            Self::Manifest { .. } => "GET, HEAD, PUT, DELETE",
        }
    }

    /// Whether it has `method`.
    #[must_use]
    pub fn has(&self, method: &Method) -> bool {
        self.allow().split(", ").any(|name| name == method.as_str())
    }

    /// The handler that its requests are counted under.
    #[must_use]
    pub fn handler(&self) -> Handler {
        match self {
            Self::Base => Handler::Base,
            Self::Catalog => Handler::Catalog,
            Self::Extensions => Handler::Other,
            Self::Token => Handler::Token,
            Self::Blob { .. } => Handler::Blob,
            Self::Uploads { .. } => Handler::BlobUpload,
            Self::Upload { .. } => Handler::BlobUploadChunk,
            Self::Manifest { .. } => Handler::Manifest,
            Self::Tags { .. } => Handler::Tags,
            Self::Referrers { .. } => Handler::Referrers,
        }
    }

    /// The repository, if it has one.
    #[must_use]
    pub fn repository(&self) -> Option<&str> {
        match self {
            Self::Base | Self::Catalog | Self::Extensions | Self::Token => None,
            Self::Blob { name, .. }
            | Self::Uploads { name }
            | Self::Upload { name, .. }
            | Self::Manifest { name, .. }
            | Self::Tags { name }
            | Self::Referrers { name, .. } => Some(name),
        }
    }
}

/// Takes percent-encoding away (RFC 3986 §2.1); none when it is not UTF-8.
#[must_use]
pub fn unescape(text: &str) -> Option<Cow<'_, str>> {
    match decoded(text) {
        Cow::Borrowed(_) => Some(Cow::Borrowed(text)),
        Cow::Owned(octets) => String::from_utf8(octets).ok().map(Cow::Owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, expected: &Option<Route<'_>>) {
        assert_eq!(Route::of(path, "/token"), *expected, "{path}");
    }

    fn name(text: &str) -> Cow<'_, str> {
        Cow::Borrowed(text)
    }

    #[test]
    fn every_endpoint_of_the_spec_is_found() {
        check("/v2", &Some(Route::Base));
        check("/v2/", &Some(Route::Base));
        check("/v2/_catalog", &Some(Route::Catalog));
        check("/v2/_oci/ext/discover", &Some(Route::Extensions));
        check("/token", &Some(Route::Token));
        let (blob, digest) = (name("a/b"), name("sha256:0"));
        check(
            "/v2/a/b/blobs/sha256:0",
            &Some(Route::Blob { name: blob, digest }),
        );
        check(
            "/v2/a/blobs/uploads/",
            &Some(Route::Uploads { name: name("a") }),
        );
        check(
            "/v2/a/blobs/uploads",
            &Some(Route::Uploads { name: name("a") }),
        );
        let (name_, id) = (name("a"), name("node-1"));
        check(
            "/v2/a/blobs/uploads/node-1",
            &Some(Route::Upload { name: name_, id }),
        );
        let (name_, reference) = (name("a/b/c"), name("latest"));
        check(
            "/v2/a/b/c/manifests/latest",
            &Some(Route::Manifest {
                name: name_,
                reference,
            }),
        );
        check("/v2/a/tags/list", &Some(Route::Tags { name: name("a") }));
        let (name_, digest) = (name("a"), name("sha256:0"));
        check(
            "/v2/a/referrers/sha256:0",
            &Some(Route::Referrers {
                name: name_,
                digest,
            }),
        );
    }

    #[test]
    fn names_may_look_like_paths() {
        let (name_, reference) = (name("blobs/uploads"), name("list"));
        check(
            "/v2/blobs/uploads/manifests/list",
            &Some(Route::Manifest {
                name: name_,
                reference,
            }),
        );
        check(
            "/v2/tags/list/tags/list",
            &Some(Route::Tags {
                name: name("tags/list"),
            }),
        );
        let manifests = name("manifests");
        check(
            "/v2/manifests/blobs/uploads/",
            &Some(Route::Uploads { name: manifests }),
        );
        let (name_, id) = (name("blobs"), name("uploads"));
        check(
            "/v2/blobs/blobs/uploads/uploads",
            &Some(Route::Upload { name: name_, id }),
        );
    }

    #[test]
    fn other_paths_lead_nowhere() {
        let paths = [
            "",
            "/",
            "/v1/",
            "/v2x",
            "/v2x/",
            "/v3/a/tags/list",
            "v2/",
            "/v2//",
            "/v2/a",
            "/v2/a/b",
            "/v2/tags/list",
            "/v2/manifests/latest",
            "/v2/a/tags/lists",
            "/v2/a/tags/",
            "/v2/a/blobs/",
            "/v2/a/manifests/",
            "/v2/a/referrers/",
            "/v2/a/uploads/x",
            "/v2/a/tags/list/",
            "/token/",
            "/v2/_catalog/",
            "/v2/a/manifests/%ff",
        ];
        for path in paths {
            check(path, &None);
        }
    }

    #[test]
    fn escapes_are_taken_away_from_segments() {
        let (name_, digest) = (name("a"), name("sha256:0"));
        let expected = Route::Blob {
            name: name_,
            digest,
        };
        check("/v2/a/blobs/sha256%3A0", &Some(expected.clone()));
        check("/v2/%61/blobs/sha256%3a0", &Some(expected));
        assert_eq!(unescape("100%").as_deref(), Some("100%"));
        assert_eq!(unescape("%2").as_deref(), Some("%2"));
        assert_eq!(unescape("%zz%41").as_deref(), Some("%zzA"));
        assert_eq!(unescape("%c3%a4").as_deref(), Some("ä"));
        assert_eq!(unescape("%ff"), None);
    }

    #[test]
    fn methods_are_those_of_the_spec() {
        for (path, methods) in [
            ("/v2/", "GET, HEAD"),
            ("/v2/a/blobs/d", "GET, HEAD, DELETE"),
            ("/v2/a/blobs/uploads/", "POST"),
            ("/v2/a/blobs/uploads/x", "GET, HEAD, PATCH, PUT, DELETE"),
            ("/v2/a/manifests/t", "GET, HEAD, PUT, DELETE"),
            ("/v2/a/tags/list", "GET, HEAD"),
            ("/v2/a/referrers/d", "GET, HEAD"),
            ("/token", "GET, POST"),
        ] {
            let route = Route::of(path, "/token").unwrap();
            assert_eq!(route.allow(), methods, "{path}");
            for method in [
                "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE",
            ] {
                let is_listed = methods.split(", ").any(|listed| listed == method);
                assert_eq!(
                    route.has(&method.parse().unwrap()),
                    is_listed,
                    "{path} {method}"
                );
            }
        }
    }
}
