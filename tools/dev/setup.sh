# Brings what the other commands need. Sourced by ./dev.
#
# A machine that has everything pays one dpkg-query and one checksum.

# What a build of every preset but fuzz needs. Boost 1.81, since Debian's default 1.74 lacks parts of Beast and Asio that
# src/http uses; the two -dev packages conflict, and apt replaces the older one.
readonly BUILD_PACKAGES=(
  g++ cmake ninja-build ccache git pkg-config python3 python3-venv
  libboost1.81-dev libsimdjson-dev libcli11-dev libspdlog-dev libfmt-dev prometheus-cpp-dev libpcre2-dev
  libutf8proc-dev libxxhash-dev libyaml-cpp-dev libgtest-dev libgmock-dev libbenchmark-dev
)
readonly MODEL_PACKAGES=(python3 python3-venv)
readonly FUZZ_PACKAGES=(clang-16 libclang-rt-16-dev)
# A processor with AVX2 and nothing more, for tests/api/test_emulated.py.
readonly EMULATOR_PACKAGES=(qemu-user)

# Debian's own Python, whatever `python3` is on PATH: another one may lack venv, or vanish.
readonly SYSTEM_PYTHON=/usr/bin/python3

as_root() {
  if [[ $(id -u) == 0 ]]; then "$@"; else sudo "$@"; fi
}

# install_packages NAME...: those that are not installed, by apt.
install_packages() {
  local installed missing=() name
  installed=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' "$@" 2>/dev/null || true)
  for name in "$@"; do
    grep -qx "installed $name" <<<"$installed" || missing+=("$name")
  done
  ((${#missing[@]})) || return 0
  echo "installing ${missing[*]}"
  as_root apt-get update -qq
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# What structured outputs need: a server finds it in .venv.
grammar_engine() { python_requirements tools/requirements-structured-outputs.txt .venv --no-deps; }

# python_requirements FILE [VENV [PIP_OPTION...]]: the pinned packages of FILE, in .venv or VENV.
python_requirements() {
  local file=$1 venv=${2:-.venv} stamp sum
  stamp=$venv/installed-$(tr / - <<<"$file")
  # Files that FILE includes lie beside it, so a change in any of them counts.
  sum=$(cat "$(dirname "$file")"/requirements*.txt | sha256sum)
  [[ -f $stamp && $(<"$stamp") == "$sum" ]] && return
  if [[ ! -x $venv/bin/python ]]; then
    install_packages python3 python3-venv
    "$SYSTEM_PYTHON" -m venv "$venv"
  fi
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "${@:3}" -r "$file"
  echo "$sum" >"$stamp"
}
