#!/bin/sh
# Finds out which node of the site this machine is, by its addresses, and links the files that are
# this node's alone to their places. What is linked already stays as it is.
set -eu

nodes=@NODES@

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
  place=${file#.}
  own=$nodes/$node$place
  if [ "$(readlink "$place" || true)" != "$own" ]; then
    mkdir -p "$(dirname "$place")"
    # In one step: whoever reads the file meanwhile finds the old one or the new one.
    ln -s -f -T "$own" "$place.outpost-new"
    mv -f -T "$place.outpost-new" "$place"
    case $place in
      @NETWORK_MANAGER@/*) resolver=yes ;;
    esac
  fi
done
[ -z "$resolver" ] || systemctl --no-block try-reload-or-restart NetworkManager.service
