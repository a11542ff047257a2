#![allow(warnings, clippy::all, clippy::pedantic, clippy::restriction)]
use std::sync::Arc; use std::time::Duration; use std::net::SocketAddr;
use lb_proxy::{table::*, pool::*, relay, access_log};
use lb_proxy::limits::{Limits, Rules, Rate};
fn dur(v: Option<&toml::Value>) -> Option<Duration> { let s=v?.as_str()?; if let Some(x)=s.strip_suffix("ms"){return Some(Duration::from_millis(x.parse().unwrap()))}; if let Some(x)=s.strip_suffix("s"){return Some(Duration::from_secs(x.parse().unwrap()))}; panic!("{s}") }
fn main() {
  let path = std::env::args().nth(3).unwrap();
  let doc: toml::Table = std::fs::read_to_string(path).unwrap().parse().unwrap();
  relay::raise_descriptor_limit();
  let s = |v:&toml::Value,k:&str| v.get(k).and_then(|x|x.as_str()).map(str::to_owned);
  let i = |v:&toml::Value,k:&str| v.get(k).and_then(|x|x.as_integer());
  let mut reg = Registry::new();
  let mut backends = vec![]; let mut names = vec![];
  for b in doc["backend"].as_array().unwrap() {
    let name = s(b,"name").unwrap(); names.push(name.clone());
    let mut st = Settings::new(name.as_str());
    st.algorithm = match s(b,"balance").as_deref() { Some("round-robin")=>Algorithm::RoundRobin, Some("random-of-two")=>Algorithm::RandomOfTwo, Some("source")=>Algorithm::Source, _=>Algorithm::LeastConnections };
    if let Some(q)=i(b,"queue") { st.queue = q as u32; }
    for v in b["server"].as_array().unwrap() {
      let mut x = ServerSettings::new(s(v,"name").unwrap(), s(v,"address").unwrap().parse().unwrap());
      if let Some(w)=i(v,"weight") { x.weight=w as u16 } ; x.max_connections = i(v,"max-connections").map(|x|x as u32);
      x.backup = v.get("backup").is_some();
      st.servers.push(x);
    }
    let mut p = Policy::default();
    if let Some(r)=i(b,"retries") { p.retries=r as u8 } if let Some(d)=dur(b.get("connect-timeout")) { p.connect_timeout=d } if let Some(d)=dur(b.get("queue-timeout")) { p.queue_timeout=d }
    p.send_proxy = match s(b,"send-proxy").as_deref() { Some("v1")=>SendProxy::V1, Some("v2")=>SendProxy::V2, _=>SendProxy::No };
    backends.push(Arc::new(Backend{ pool: reg.pool(st), policy: p }));
  }
  let mut frontends = vec![]; let mut listeners = vec![];
  let n = i(&toml::Value::Table(doc.clone()),"workers").unwrap_or(2) as usize;
  for f in doc["frontend"].as_array().unwrap() {
    let idx = |n:&str| names.iter().position(|x|x==n).unwrap();
    let mut r = Route::to(idx(&s(f,"backend").unwrap()));
    if let Some(d)=dur(f.get("inspect-timeout")) { r.inspect_timeout=d }
    for rt in f.get("route").and_then(|x|x.as_array()).into_iter().flatten() { for nm in rt["names"].as_array().unwrap() { r.names.add(nm.as_str().unwrap(), idx(&s(rt,"backend").unwrap())); } }
    let listen: Vec<SocketAddr> = f["listen"].as_array().unwrap().iter().map(|x|x.as_str().unwrap().parse().unwrap()).collect();
    let mut fr = Frontend::new(s(f,"name").unwrap(), listen.clone(), r);
    fr.log = true; fr.max_connections = i(f,"max-connections").map(|x|x as u32);
    fr.accept_proxy = match s(f,"accept-proxy").as_deref() { Some("required")=>AcceptProxy::Required, Some("optional")=>AcceptProxy::Optional, _=>AcceptProxy::No };
    let cidrs = |k:&str| f.get(k).and_then(|x|x.as_array()).map(|a| a.iter().map(|x|x.as_str().unwrap().to_owned()).collect::<Vec<_>>().join(",").parse().unwrap());
    fr.sources.allow = cidrs("allow-from"); if let Some(d)=cidrs("deny-from") { fr.sources.deny = d; }
    if let Some(l)=f.get("limits") { let rate = s(l,"rate").map(|r| Rate{count:r.trim_end_matches("/s").parse().unwrap(), period: Duration::from_secs(1)}); fr.limits = Some(Limits::new(Rules{connections:i(l,"connections").map(|x|x as u32), rate}, lb_proxy::limits::CAPACITY, 12345, std::time::Instant::now())); }
    let fr = Arc::new(fr);
    for a in listen { listeners.push(relay::bind(&fr.name, a, relay::BindOptions{per_address:n, freebind:false}).unwrap()); }
    frontends.push(fr);
  }
  let mut al = access_log::Settings::default();
  if let Some(a)=doc.get("access-log") { al.target = access_log::Target::File(s(a,"to").unwrap().into()); }
  let w = access_log::Writer::start(&al).unwrap();
  let cell = daemon_base::snapshot::Cell::new(Table{frontends, backends});
  let e = relay::Engine::start(listeners, cell, w.log(), Arc::new(relay::NoReport), relay::Options{workers:n, max_connections:None}).unwrap();
  if let Ok(p)=std::env::var("NOTIFY_SOCKET") { std::os::unix::net::UnixDatagram::unbound().unwrap().send_to(b"READY=1\n", p).unwrap(); }
  let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
  rt.block_on(async { let mut t = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).unwrap(); t.recv().await; });
  e.drain(Duration::from_millis(100)); e.stop(); w.close();
}
