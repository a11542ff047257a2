//! The self-check: clients can connect, and there is a server to choose.

use config_text::counted;

use crate::table_builder::View;

/// Looks at where is listened and at the choices that the table has.
///
/// # Errors
/// What is missing.
pub(crate) fn run(n_listeners: usize, view: &View) -> Result<String, String> {
    let frontends = view
        .abilities
        .iter()
        .filter(|(name, _)| name.starts_with("frontend:"));
    let (n_frontends, n_able) = frontends.fold((0, 0), |(all, able), (_, is_able)| {
        (all + 1, able + usize::from(*is_able))
    });
    if n_frontends > 0 && n_listeners == 0 {
        return Err("nothing is listened on".to_owned());
    }
    if n_frontends > 0 && n_able == 0 {
        return Err("no frontend has a server to choose".to_owned());
    }
    Ok(format!(
        "{}, {n_able} of {} with servers",
        counted(n_listeners, "listener"),
        counted(n_frontends, "frontend")
    ))
}
