#!/bin/sh
# A real kube-apiserver with etcd, for the tests of clusterd that a double cannot replace. Debian 12 has both: etcd as a package,
# and the API server in the source of its package `kubernetes`, with everything it needs. They are built and kept once per
# machine, outside the tree; nothing is installed. Ten minutes on two cores, 3 GB while it builds, 150 MB after.
#
#   . tests/kube-apiserver.sh
#   cargo test -p clusterd --test daemon real::
#
# The tests take OUTPOST_KUBE_APISERVER and OUTPOST_ETCD; any other version of both will do as well.

OUTPOST_KUBERNETES=${OUTPOST_KUBERNETES:-${XDG_CACHE_HOME:-$HOME/.cache}/outpost/kubernetes}

outpost_kubernetes_sources() {
    # `apt-get source` takes its own list: that of the system need not name sources.
    mkdir -p apt/lists/partial apt/parts debs source
    cat > apt/parts/outpost.sources <<'SOURCES'
Types: deb deb-src
URIs: http://deb.debian.org/debian
Suites: bookworm
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
SOURCES
    own="-o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts=$PWD/apt/parts -o Dir::State::Lists=$PWD/apt/lists"
    # shellcheck disable=SC2086 # several arguments
    apt-get $own update &&
        (cd source && apt-get $own source --download-only kubernetes) &&
        (cd debs && apt-get $own download etcd-server etcd-client golang-1.19-go golang-1.19-src rsync jq libjq1 libonig5 \
            golang-github-modern-go-reflect2-dev)
}

outpost_kubernetes_build() {
    mkdir -p root tree path/src/k8s.io bin
    for package in debs/*.deb; do
        dpkg -x "$package" root || return
    done
    tar xf source/kubernetes_*.orig.tar.gz -C tree --strip-components=1 &&
        tar xf source/kubernetes_*.debian.tar.xz -C tree || return
    # The copy in the source crashes on maps with Go 1.18 and later.
    reflect=tree/vendor/github.com/modern-go/reflect2
    rm -f "$reflect"/*.go "$reflect"/*.s
    cp root/usr/share/gocode/src/github.com/modern-go/reflect2/*.go root/usr/share/gocode/src/github.com/modern-go/reflect2/*.s "$reflect"/ || return
    ln -sfn "$PWD/tree" path/src/k8s.io/kubernetes
    (
        root=$PWD/root
        export GOROOT="$root/usr/lib/go-1.19" GOPATH="$PWD/path" GOCACHE="$PWD/cache" GO111MODULE=off
        export PATH="$GOROOT/bin:$root/usr/bin:$PATH" LD_LIBRARY_PATH="$root/usr/lib/x86_64-linux-gnu"
        cd tree || exit
        while read -r patch; do
            case $patch in '' | '#'*) continue ;; esac
            patch -p1 < "debian/patches/$patch" || exit
        done < debian/patches/series
        cd "$GOPATH/src/k8s.io/kubernetes" && nice -n 19 make WHAT=cmd/kube-apiserver
    ) || return
    cp tree/_output/local/bin/linux/*/kube-apiserver root/usr/bin/etcd root/usr/bin/etcdctl bin/ &&
        rm -rf apt cache debs path root source tree
}

if [ ! -x "$OUTPOST_KUBERNETES/bin/kube-apiserver" ]; then
    mkdir -p "$OUTPOST_KUBERNETES"
    (cd "$OUTPOST_KUBERNETES" && outpost_kubernetes_sources && outpost_kubernetes_build) ||
        echo "The API server is not built; what is there is in $OUTPOST_KUBERNETES" >&2
fi
export OUTPOST_KUBE_APISERVER="$OUTPOST_KUBERNETES/bin/kube-apiserver" OUTPOST_ETCD="$OUTPOST_KUBERNETES/bin/etcd"
