# The test stages. Sourced by ./dev.
#
# A stage prints its name, its output and its seconds. A failed build ends the run; a failed test does not, so that one run
# shows every fault. The last lines repeat each runner's summary and add them up.

readonly LOGS=build/logs
STAGES=()   # "status seconds name", in order
FAILED=0

log_of() { echo "$LOGS/$(tr -c 'a-z0-9\n' - <<<"$1").log"; }

# check NAME COMMAND...: a stage that later ones do not need. Runs a command or function under errexit.
# Never call this (or must) within `if`, `&&` or `||`: bash would switch errexit off inside the command.
check() {
  local name=$1 log status start=$SECONDS
  shift
  mkdir -p "$LOGS"
  log=$(log_of "$name")
  echo "==> $name"
  set +e
  (set -e; "$@") 2>&1 | tee "$log"
  status=${PIPESTATUS[0]}
  set -e
  STAGES+=("$status $((SECONDS - start)) $name")
  echo "<== $name: $((SECONDS - start)) s$( ((status)) && echo ", FAILED")"
  if ((status)); then FAILED=1; fi
}

# must NAME COMMAND...: a stage that later ones need.
must() {
  check "$@"
  if [[ ${STAGES[-1]} != 0\ * ]]; then finish; fi
}

# Prints the table of stages and the total, and exits.
finish() {
  local line status seconds name passed=0 failed=0 n
  echo
  for line in "${STAGES[@]}"; do
    read -r status seconds name <<<"$line"
    printf '%-8s %4d s  %-34s %s\n' "$( ((status)) && echo FAILED || echo ok)" "$seconds" "$name" "$(summary "$name")"
  done
  for n in $(all_summaries | grep -oP '\d+(?= passed)'); do passed=$((passed + n)); done
  for n in $(all_summaries | grep -oP '\d+(?= (failed|errors?)\b)'); do failed=$((failed + n)); done
  echo
  echo "$passed passed, $failed failed"
  exit "$FAILED"
}

# The last line that a test runner closed on, ctest's in pytest's words.
summary() {
  grep -aE '^(=+ )?[0-9]+ .*(passed|failed|error).* in [0-9]|tests passed, .* tests? failed out of' "$(log_of "$1")" | tail -1 |
    sed -E 's/^=+ | =+$//g; s/^[0-9]+% tests passed, ([0-9]+) tests? failed out of ([0-9]+)/\1 \2/' |
    awk '/^[0-9]+ [0-9]+$/ { printf "%d passed, %d failed\n", $2 - $1, $1; next } { print }'
}
all_summaries() {
  local line name
  for line in "${STAGES[@]}"; do
    read -r _ _ name <<<"$line"
    summary "$name"
  done
}

# set_up [MODE]
set_up() {
  install_packages "${BUILD_PACKAGES[@]}"
  case ${1:-} in '' | --nightly) install_packages "${EMULATOR_PACKAGES[@]}" ;; esac
  python_requirements tests/requirements.txt
  grammar_engine
  bring_model
}

run_ctest() {
  local preset=$1
  shift
  ctest --test-dir "build/$preset" --output-on-failure --no-tests=error --parallel "$(nproc)" "$@"
}
run_pytest() { .venv/bin/python -m pytest -q "$@"; }

# Targets and tests of the rooms that start threads.
readonly THREADED=(threading http layers engine server)

# run_tests [--quick | --nightly | --trainers | -- PYTEST_ARGS]
run_tests() {
  local mode=${1:-}
  case $mode in
    '' | --quick | --nightly | --trainers) ;;
    --)
      shift
      set_up
      build release unspool
      run_pytest "$@"
      return
      ;;
    *)
      echo "dev test: unknown option '$mode'" >&2
      return 2
      ;;
  esac
  must "set-up" set_up "$mode"
  if [[ $mode == --trainers ]]; then
    trainer_stages
  else
    release_stages "$mode"
    if [[ $mode != --quick ]]; then sanitizer_stages; fi
    if [[ $mode == --nightly ]]; then nightly_stages; fi
  fi
  finish
}

release_stages() {
  must "release: build" build release
  check "release: units" run_ctest release
  check "release: api" run_pytest tests/api
  if [[ $1 == --quick ]]; then return; fi
  check "release: rules" run_pytest tests/rules
  check "release: contract" run_pytest tests/contract
  check "release: tokenizer parity" tokenizer_parity
  check "release: template parity" template_parity
  check "release: python package" run_pytest tests/package
}

sanitizer_stages() {
  must "asan-ubsan: build" build asan-ubsan
  check "asan-ubsan: units" run_ctest asan-ubsan
  check "asan-ubsan: api" run_pytest tests/api -m short --binary build/asan-ubsan/unspool
  must "tsan: build" build tsan unspool "${THREADED[@]/%/_test}"
  check "tsan: units" run_ctest tsan --tests-regex "^($(IFS='|'; echo "${THREADED[*]}"))$"
  check "tsan: api" run_pytest tests/api -m short --binary build/tsan/unspool
}

nightly_stages() {
  check "nightly: soak" run_pytest tests/api tests/soak -m nightly
  check "nightly: lint" lint_all --tidy
  check "nightly: vllm's templates" vllm_template_parity
  check "nightly: fuzz" run_fuzzers 300
}

# The trainers' clients pin other versions of the same packages: an environment of their own.
trainer_stages() {
  must "release: server" build release unspool
  must "trainers: packages" trainer_packages
  # OpenAI's client twice: as the API tests pin it, and as verifiers does.
  check "trainers: clients" .venv-trainers/bin/python -m pytest -q tests/trainers tests/api/test_openai_client.py
  check "trainers: trl's templates" trl_template_parity
  check "trainers: weights over gloo" .venv-trainers/bin/python -m pytest -q tests/package -m torch
}

trainer_packages() {
  python_requirements tests/trainers/requirements.txt .venv-trainers
  python_requirements tests/trainers/requirements-no-deps.txt .venv-trainers --no-deps
  .venv-trainers/bin/python -c 'import torch' 2>/dev/null || .venv-trainers/bin/python tools/stub_cuda.py
}

tokenizer_parity() {
  local cli files=(tests/data/tokenizers/*/tokenizer.json)
  cli=$(find build/release -name tokenizer_cli -type f -perm -u+x | head -1)
  .venv/bin/python tools/tokenizer_parity.py --binary "$cli" "${files[@]}" "$MODEL/tokenizer.json"
  .venv/bin/python tools/tokenizer_parts.py build/tokenizer_parts
  .venv/bin/python tools/tokenizer_parity.py --binary "$cli" --count 1000 build/tokenizer_parts/*.json
}

trl_template_parity() {
  build release template_cli
  .venv-trainers/bin/python tools/chat_template_parity.py --binary build/release/tests/tools/template_cli \
    "$(.venv-trainers/bin/python -c 'import importlib.util as i; print(*i.find_spec("trl").submodule_search_locations)')"
}

# Of the wheel's 300 MB, the few files that are templates.
vllm_template_parity() {
  local folder=build/vllm_templates
  if [[ ! -d $folder ]]; then
    .venv/bin/pip download --quiet --no-deps --dest build/wheels vllm==0.32.0
    mkdir -p "$folder.part"
    .venv/bin/python - "$folder.part" build/wheels/vllm-0.32.0*.whl <<<'import sys, zipfile
archive = zipfile.ZipFile(sys.argv[2])
archive.extractall(sys.argv[1], [name for name in archive.namelist() if name.endswith(".jinja")])'
    rm -r build/wheels
    mv "$folder.part" "$folder"
  fi
  .venv/bin/python tools/chat_template_parity.py --binary build/release/tests/tools/template_cli "$folder"
}

# Whole conversations against transformers, then random templates against jinja2.
template_parity() {
  local tools=build/release/tests/tools
  .venv/bin/python tools/chat_template_parity.py --binary "$tools/template_cli" "$MODEL" \
    --model "$MODEL" --tokenizer-binary "$tools/tokenizer_cli"
  .venv/bin/python tools/jinja_fuzz.py --binary "$tools/template_cli" --seconds 20
}
