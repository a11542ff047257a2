#!/bin/sh
# Finds out which node of the site this machine is, by its addresses, and copies the files that are
# this node's alone to their places. A file that is there already stays as it is; one that the node
# has no more goes.
#
# usage: outpost-node [ROOT]     another directory in place of the machine's root, to try it
set -eu

root=${1:-}
nodes=$root@NODES@
# The places of the copies, so that they go with their originals.
list=$root@LIST@

# The name of the first node of which the machine has an address.
which_node() {
  for addresses in "$nodes"/*.addresses; do
    while read -r address; do
      if [ -n "$(ip -o address show to "$address")" ]; then
        basename "$addresses" .addresses
        return 0
      fi
    done <"$addresses"
  done
  return 1
}

# Whether a copy has the content, the rights and the owner of its original.
is_same() {
  [ ! -L "$2" ] && cmp -s "$1" "$2" && [ "$(stat -c %a:%u:%g "$1")" = "$(stat -c %a:%u:%g "$2")" ]
}

# What tells a copy from another file of its name.
copy_of() {
  stat -c %i:%Y "$1" 2>/dev/null || true
}

said=
until node=$(which_node); do
  [ -n "$said" ] || echo "This machine has no address of the site; waiting for one"
  said=yes
  sleep 1
done
echo "This machine is $node"

resolver=
own=$nodes/$node
paths=$([ ! -d "$own" ] || (cd "$own" && find . -type f | sort))
for file in $paths; do
  path=${file#.}
  place=$root$path
  if ! is_same "$own$path" "$place"; then
    mkdir -p "$(dirname "$place")"
    # In one step: whoever reads the file meanwhile finds the old one or the new one. Not with the
    # label of SELinux: a container reads what has the label of its directory.
    cp --preserve=mode,ownership "$own$path" "$place.outpost-new"
    mv -f -T "$place.outpost-new" "$place"
    case $path in
      @NETWORK_MANAGER@/*) resolver=yes ;;
    esac
  fi
done
# A file that the platform has put in the place of a copy is another one, and stays.
if [ -f "$list" ]; then
  while read -r copy path; do
    if [ ! -e "$own$path" ] && [ "$(copy_of "$root$path")" = "$copy" ]; then
      rm -f "$root$path"
    fi
  done <"$list"
fi
mkdir -p "$(dirname "$list")"
for file in $paths; do
  echo "$(copy_of "$root${file#.}") ${file#.}"
done >"$list.outpost-new"
mv -f -T "$list.outpost-new" "$list"
[ -z "$resolver" ] || systemctl --no-block try-reload-or-restart NetworkManager.service
