//! The stream of liveness from healthd.
