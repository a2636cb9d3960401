# Formatting and linting, with the versions of tools/requirements-lint.txt. Sourced by ./dev.

# Files that git knows or would add, so that nothing below build/ or .venv/ is touched.
project_files() { git ls-files --cached --others --exclude-standard -- "$@" | while read -r f; do [[ -f $f ]] && echo "$f"; done; }
cxx_files() { project_files '*.cc' '*.h' '*.inl'; }
cmake_files() { project_files 'CMakeLists.txt' '*/CMakeLists.txt' '*.cmake'; }

format_all() {
  python_requirements tools/requirements-lint.txt
  cxx_files | xargs -r .venv/bin/clang-format -i
  cmake_files | xargs -r .venv/bin/gersemi --in-place --quiet
  .venv/bin/ruff check --quiet --fix .
  .venv/bin/ruff format --quiet .
}

# lint_all [--tidy]
lint_all() {
  python_requirements tools/requirements-lint.txt
  cxx_files | xargs -r .venv/bin/clang-format --dry-run -Werror
  cmake_files | xargs -r .venv/bin/gersemi --check --quiet
  .venv/bin/ruff check --quiet .
  .venv/bin/ruff format --check --quiet .
  if [[ ${1:-} == --tidy ]]; then run_clang_tidy; fi
}

# Minutes, since it parses every header anew for every file.
run_clang_tidy() {
  [[ -f build/release/compile_commands.json ]] || build release
  project_files 'src/*.cc' 'apps/*.cc' |
    xargs -r -P "$(nproc)" -n 4 .venv/bin/clang-tidy --quiet -p build/release --warnings-as-errors='*'
}
