//! From the file that describes a site to what its nodes run.

mod bundle;
mod fixture;
mod image;
mod install;
mod render;
mod site;
mod validate;
