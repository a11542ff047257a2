//! Does once what the registry is for: reads its store, and answers a client.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use hyper::Request;
use registry_auth::Peer;
use registry_http::{Api, Body};
use registry_store::Store;

/// Reads a fact of the store, and asks the API as a client without a name would.
///
/// # Errors
/// What does not work.
pub(crate) async fn run(store: Store, api: Arc<Api>) -> Result<String, String> {
    let read = store
        .registers(None, 1)
        .map_err(|error| error.to_string())?;
    let peer = Peer::plain(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0));
    let request = Request::get("/v2/").body(Body::empty());
    let request = request.map_err(|error| error.to_string())?;
    let status = api.handle(request, &peer).await.status().as_u16();
    let holds = if read.is_empty() { "an empty" } else { "its" };
    match status {
        // A registry that does not know the client asks for a name.
        200 | 401 => Ok(format!("reads {holds} store, answers /v2/ with {status}")),
        status => Err(format!("/v2/ is answered with {status}")),
    }
}
