#!/bin/sh
# Finds out which node of the site this machine is, by its addresses, and links the files that are
# this node's alone to their places. What is linked already stays as it is.
#
# usage: outpost-node [ROOT]     another directory in place of the machine's root, to try it
set -eu

root=${1:-}
nodes=$root@NODES@

# The name of the first node of which the machine has an address.
which_node() {
  for list in "$nodes"/*.addresses; do
    while read -r address; do
      if [ -n "$(ip -o address show to "$address")" ]; then
        basename "$list" .addresses
        return 0
      fi
    done <"$list"
  done
  return 1
}

said=
until node=$(which_node); do
  [ -n "$said" ] || echo "This machine has no address of the site; waiting for one"
  said=yes
  sleep 1
done
echo "This machine is $node"

resolver=
[ ! -d "$nodes/$node" ] || for file in $(cd "$nodes/$node" && find . -type f | sort); do
  path=${file#.}
  place=$root$path
  own=$nodes/$node$path
  if [ "$(readlink "$place" || true)" != "$own" ]; then
    mkdir -p "$(dirname "$place")"
    # In one step: whoever reads the file meanwhile finds the old one or the new one.
    ln -s -f -T "$own" "$place.outpost-new"
    mv -f -T "$place.outpost-new" "$place"
    case $path in
      @NETWORK_MANAGER@/*) resolver=yes ;;
    esac
  fi
done
[ -z "$resolver" ] || systemctl --no-block try-reload-or-restart NetworkManager.service
