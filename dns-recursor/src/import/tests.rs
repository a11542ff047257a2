mod corefile;
mod dnsmasq;
