//! From the file that describes a site to what its nodes run.

mod render;
mod site;
