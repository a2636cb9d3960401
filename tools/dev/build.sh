# Builds. Sourced by ./dev.

# Clones at different paths share what ccache holds: paths within the tree are made relative, and the working directory
# is left out of the key (it would matter to debuggers alone).
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1

# build PRESET [TARGET...]
build() {
  local preset=$1
  shift
  [[ -f build/$preset/build.ninja ]] || cmake --preset "$preset" >/dev/null
  cmake --build "build/$preset" --parallel "${UNSPOOL_JOBS:-$(nproc)}" ${1:+--target "$@"}
}

# run_fuzzers [NAME] [SECONDS]
run_fuzzers() {
  local names=() seconds=60 name
  while (($#)); do
    if [[ $1 =~ ^[0-9]+$ ]]; then seconds=$1; else names+=("$1"); fi
    shift
  done
  install_packages "${BUILD_PACKAGES[@]}" "${FUZZ_PACKAGES[@]}"
  if ((${#names[@]} == 0)); then
    for name in fuzz/*_fuzzer.cc; do
      name=${name##*/}
      names+=("${name%_fuzzer.cc}")
    done
  fi
  build fuzz "${names[@]/%/_fuzzer}"
  for name in "${names[@]}"; do
    # Found inputs stay in build/fuzz/corpus, so that the next run starts where this one ended.
    mkdir -p "build/fuzz/corpus/$name"
    echo "==> fuzz $name, $seconds s"
    "build/fuzz/fuzz/${name}_fuzzer" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=4096 -print_final_stats=1 \
      -artifact_prefix="build/fuzz/$name-" "build/fuzz/corpus/$name" $([[ -d fuzz/seeds/$name ]] && echo "fuzz/seeds/$name")
  done
}
