# Sourced by tests/run and the benchmarks: commands as root, and the Debian packages whose commands are missing.

# Runs a command as root, directly or by sudo.
as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

# Reads lines of a command (or a file, by its whole path) and the package that has it; installs the packages of those missing.
# Says what it could not install, and fails.
install_missing() {
  local missing=() wanted package made=0 result=0 policy=/usr/sbin/policy-rc.d
  while read -r wanted package; do
    case $wanted in
    /*) [ -e "$wanted" ] || missing+=("$package") ;;
    *) command -v "$wanted" >/dev/null || missing+=("$package") ;;
    esac
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  printf '==> installing %s\n' "${missing[*]}" >&2
  # What the packages bring must not start its daemons on this machine.
  if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
    as_root chmod +x "$policy"
    made=1
  fi
  # The package lists may be fresh enough; if not, fetch them.
  packages install --yes --no-install-recommends "${missing[@]}" 2>/dev/null ||
    { packages update && packages install --yes --no-install-recommends "${missing[@]}"; } || result=1
  [ "$made" = 0 ] || as_root rm -f "$policy"
  [ "$result" = 0 ] || printf '==> could not install %s\n' "${missing[*]}" >&2
  return "$result"
}

packages() {
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq "$@" >/dev/null
}
