//! Headings, letter by letter those of chronyc.

pub(super) const SOURCES: &str =
    "MS Name/IP address         Stratum Poll Reach LastRx Last sample               ";
pub(super) const SOURCESTATS: &str =
    "Name/IP Address            NP  NR  Span  Frequency  Freq Skew  Offset  Std Dev";
pub(super) const SELECTDATA: &str =
    "S Name/IP Address        Auth COpts EOpts Last Score     Interval  Leap";
pub(super) const CLIENTS: &str =
    "Hostname                      NTP   Drop Int IntL Last     Cmd   Drop Int  Last";

pub(super) const SOURCES_LEGEND: &str = r"
  .-- Source mode  '^' = server, '=' = peer, '#' = local clock.
 / .- Source state '*' = current best, '+' = combined, '-' = not combined,
| /             'x' = may be in error, '~' = too variable, '?' = unusable.
||                                                 .- xxxx [ yyyy ] +/- zzzz
||      Reachability register (octal) -.           |  xxxx = adjusted offset,
||      Log2(Polling interval) --.      |          |  yyyy = measured offset,
||                                \     |          |  zzzz = estimated error.
||                                 |    |           \
";

pub(super) const SOURCESTATS_LEGEND: &str = r"                             .- Number of sample points in measurement set.
                            /    .- Number of residual runs with same sign.
                           |    /    .- Length of measurement set (time).
                           |   |    /      .- Est. clock freq error (ppm).
                           |   |   |      /           .- Est. error in freq.
                           |   |   |     |           /         .- Est. offset.
                           |   |   |     |          |          |   On the -.
                           |   |   |     |          |          |   samples. \
                           |   |   |     |          |          |             |
";

pub(super) const SELECTDATA_LEGEND: &str = r"  . State: N - noselect, s - unsynchronised, M - missing samples,
 /         d/D - large distance, ~ - jittery, w/W - waits for others,
|          S - stale, O - orphan, T - not trusted, P - not preferred,
|          U - waits for update,, x - falseticker, + - combined, * - best.
|   Effective options   ---------.  (N - noselect, P - prefer
|   Configured options  ----.     \  T - trust, R - require)
|   Auth. enabled (Y/N) -.   \     \     Offset interval --.
|                        |    |     |                       |
";
