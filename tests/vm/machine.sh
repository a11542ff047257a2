# Sourced by the scripts beside it: an emulated machine (QEMU without KVM) with the kernel of Debian's cloud images, and a root of
# its own in memory. Needs `install_missing` (tests/packages.sh) and $work, a directory to leave things in.

say() { printf '==> %s\n' "$*"; }

# Fetches the kernel as a file, it is not installed: $kernel, and $modules, the directory of its modules.
fetch_kernel() {
  local package
  package=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/ *Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1)
  (cd "$work" && apt-get -qq download "$package" 2>/dev/null && dpkg-deb -x ./linux-image-*.deb kernel)
  kernel=$(echo "$work"/kernel/boot/vmlinuz-*)
  modules=$(echo "$work"/kernel/lib/modules/*)
}

# The beginnings of a root: $root, with a shell and the given tools of busybox.
make_root() {
  root=$work/root
  mkdir -p "$root"/{bin,dev,etc,lib64,proc,sys,tmp,run}
  cp "$(command -v busybox)" "$root/bin/busybox"
  local tool
  for tool in sh mount cat poweroff "$@"; do ln -s busybox "$root/bin/$tool"; done
}

# Puts programs into the root, with the libraries that they need.
add_programs() {
  local program path
  for program in "$@"; do
    path=$(command -v "$program")
    cp -L "$path" "$root/bin/"
    strip --strip-all "$root/bin/${path##*/}" 2>/dev/null || true
    add_libraries "$path"
  done
}

# Puts the libraries of a program, or of another library, into the root.
add_libraries() {
  { ldd "$1" 2>/dev/null || true; } | { grep -o '/[^ ]*' || true; } | while read -r library; do
    mkdir -p "$root$(dirname "$library")"
    cp -L "$library" "$root$library"
  done
}

# Puts Python and its library into the root.
add_python() {
  local python library
  python=$(readlink -f /usr/bin/python3)
  library=/usr/lib/${python##*/}
  cp "$python" "$root/bin/python3"
  add_libraries "$python"
  mkdir -p "$root$library"
  cp -a "$library/." "$root$library/"
  rm -rf "$root$library"/{test,idlelib,ensurepip,lib2to3,config-*,pydoc_data,distutils,tkinter}
  find "$root$library" -name '*.so' | while read -r library; do add_libraries "$library"; done
}

# Puts modules of the kernel into the root, by their paths, so that modprobe finds them.
add_modules() {
  local version=${modules##*/} path
  for path in "$@"; do
    mkdir -p "$root/lib/modules/$version/${path%/*}"
    cp -r "$modules/$path" "$root/lib/modules/$version/$path"
  done
  cp "$modules"/modules.* "$root/lib/modules/$version/"
  busybox depmod -b "$root" "$version"
}

# Packs the root: $work/initramfs. Not compressed: the machine would take longer to unpack it.
pack_root() {
  (cd "$root" && find . | busybox cpio -o -H newc 2>/dev/null) >"$work/initramfs"
}

# Runs the machine until it ends, at most this many seconds, with these words for its kernel and what else QEMU is to know; what it
# says goes to $work/console. It has to say "vm: " something soon and "vm: end" at last. An emulated machine hangs at its start now
# and then (QEMU 7); then it is started again.
run_machine() {
  local limit=$1 append=$2 try machine end
  shift 2
  for try in 1 2 3; do
    say "machine started ($try)"
    : >"$work/console"
    qemu-system-x86_64 -accel tcg -smp 1 -cpu max -nographic -no-reboot -nodefaults -serial stdio \
      -kernel "$kernel" -initrd "$work/initramfs" \
      -append "console=ttyS0 quiet panic=-1 cryptomgr.notests random.trust_cpu=on nokaslr $append" \
      "$@" </dev/null >"$work/console" 2>&1 &
    machine=$!
    end=$((SECONDS + 180))
    while kill -0 "$machine" 2>/dev/null && [ "$SECONDS" -lt "$end" ]; do
      if [ "$limit" -gt 0 ] && grep -q 'vm: ' "$work/console"; then end=$((end + limit)) limit=0; fi
      sleep 1
    done
    kill "$machine" 2>/dev/null || true
    wait "$machine" || true
    if grep -q 'vm: end' "$work/console"; then return 0; fi
    tail -n 40 "$work/console"
    [ "$limit" -gt 0 ] || break
  done
  return 1
}

# What the machine told in lines that begin with "vm: ". Its firmware begins the line with orders for a terminal.
told() { tr -d '\r' <"$work/console" | sed -n 's/.*vm: \([a-z-]* .*\)/\1/p'; }
