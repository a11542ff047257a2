mod corefile;
mod dnsmasq;
mod operator;
mod resolv_conf;
