# What the scripts share: where the tree is, how they speak, how root is reached, where OPA is. Sourced, never run:
#   . "$(dirname "$0")/common.sh"
# Plain POSIX sh. Sets `root` and changes to it.

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd) || exit 1
cd "$root" || exit 1

OPA_VERSION=v1.6.0
VEGETA_VERSION=v12.12.0

say() { printf '== %s\n' "$*"; }
fail() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }
has() { command -v "$1" >/dev/null 2>&1; }

jobs_n() { nproc 2>/dev/null || echo 2; }

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif has sudo; then
        sudo -- "$@"
    else
        fail "root is needed to run: $* (run this as root, or install sudo)"
    fi
}

# The go command: on PATH, or one that scripts/deps has put in the tree. Prints its path; false when there is none that
# can fetch the toolchain OPA asks for (1.21 and later can).
go_find() {
    for go in "$(command -v go)" build/tools/go/bin/go /usr/lib/go-*/bin/go /usr/local/go/bin/go; do
        [ -n "$go" ] && [ -x "$go" ] || continue
        case $("$go" env GOVERSION 2>/dev/null) in
        go1.2[1-9]* | go1.[3-9][0-9]* | go[2-9]*) echo "$go" && return 0 ;;
        esac
    done
    return 1
}

# A cargo that is new enough for rego/: on PATH, or where rustup puts it. Prints its path. cmake/rego.cmake looks alike.
cargo_find() {
    wanted=$(sed -n 's/^rust-version = "\([0-9.]*\)".*/\1/p' rego/Cargo.toml)
    for cargo in "${CARGO_HOME:-$HOME/.cargo}/bin/cargo" "$(command -v cargo)"; do
        [ -n "$cargo" ] && [ -x "$cargo" ] || continue
        found=$("$cargo" --version 2>/dev/null | cut -d' ' -f2)
        [ "$(printf '%s\n%s\n' "$wanted" "$found" | sort -V | head -n 1)" = "$wanted" ] && echo "$cargo" && return 0
    done
    return 1
}

# OPA 1.x (our policies are Rego v1): on PATH, where `go install` puts it, or in the tree. Prints its path.
opa_find() {
    for opa in "$(command -v opa)" "${GOBIN:-/nonexistent}/opa" "${GOPATH:-$HOME/go}/bin/opa" "$root/build/tools/opa"; do
        [ -n "$opa" ] && [ -x "$opa" ] || continue
        case $("$opa" version 2>/dev/null | sed -n 's/^Version: //p') in
        1.*) echo "$opa" && return 0 ;;
        esac
    done
    return 1
}

# Where this machine's own sources say that a release of Debian comes from.
debian_mirror() {
    cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources 2>/dev/null | awk -v c="$1" '
        $1 == "deb" { for (i = 2; i < NF; i++) if ($i ~ /:\/\//) { if ($(i + 1) == c) { print $i; exit } } }
        tolower($1) == "uris:" { uri = $2 }
        tolower($1) == "suites:" { for (i = 2; i <= NF; i++) if ($i == c && uri != "") { print uri; exit } }'
}

# Package lists apart from the system's, in a folder: of these suites, from the mirror the machine already uses. Sets
# `options` for apt-get and apt-cache; its own sources stay as they are.
apt_apart() { # folder, suites…
    apart=$1
    shift
    mirror=$(debian_mirror "$(. /etc/os-release && echo "${VERSION_CODENAME:-none}")")
    [ -n "$mirror" ] || return 1
    mkdir -p "$apart/sources" "$apart/lists/partial" "$apart/cache/archives/partial"
    keyring=/usr/share/keyrings/debian-archive-keyring.gpg
    [ -e $keyring ] && signed="[signed-by=$keyring] " || signed=
    for suite in "$@"; do echo "deb $signed$mirror $suite main"; done >"$apart/sources/apart.list"
    options="-o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts=$apart/sources"
    options="$options -o Dir::State::lists=$apart/lists -o Dir::Cache=$apart/cache"
    options="$options -o Acquire::Languages=none -o APT::Sandbox::User=root"
    # shellcheck disable=SC2086 # options
    apt-get $options update -q >>build/deps.log 2>&1
}

# A Python that sees Debian's python3-* packages, which one from pyenv or a venv does not.
PYTHON=/usr/bin/python3
