//! Every key of every configuration file.
