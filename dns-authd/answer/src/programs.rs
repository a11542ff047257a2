//! Programs that have to run for each query; the caller runs them.

use dns_wire::{ClientSubnet, Query};

use crate::client::Client;
use crate::live::{Failure, LiveSets};

/// Runs programs whose results depend on the query.
pub trait Programs {
    /// The TTL and data of the records that a program makes for this query.
    fn run(&mut self, program: &Call<'_>) -> Result<(u32, Vec<Vec<u8>>), Failure>;
}

/// A program to be run for one query.
#[derive(Debug)]
pub struct Call<'a> {
    /// The live sets of the zone that the program is in.
    pub live: &'a LiveSets,
    /// The live set's number in the zone.
    pub set: u32,
    /// The program's number in the live set.
    pub program: u32,
    /// The query.
    pub query: &'a Query<'a>,
    /// The sender.
    pub client: &'a Client,
    /// The client subnet, if the query carries one and the settings honour it.
    pub subnet: Option<ClientSubnet>,
    /// A random number; no client can guess it.
    pub seed: u64,
}

/// Refuses every program.
#[derive(Debug)]
pub struct NoPrograms;

impl Programs for NoPrograms {
    fn run(&mut self, _program: &Call<'_>) -> Result<(u32, Vec<Vec<u8>>), Failure> {
        Err(Failure::Defect)
    }
}
