//! timesync-agent beside chronyd and chronyc, from the outside. No test touches a clock.

mod alike;
mod calls;
mod chronyc;
mod clients;
mod clknetsim;
mod cluster;
mod files;
mod island;
mod manual;
mod operate;
mod ptp;
mod releases;
mod runtime;
mod sandbox;
mod site;
mod sources;
