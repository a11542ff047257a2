//! The registry under the clients that people use.

mod clients;
