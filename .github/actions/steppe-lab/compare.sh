#!/usr/bin/env bash
# Compares LAB_HEAD with LAB_BASE by `steppe-lab ab`; action.yml documents each variable.
#
# steppe-lab itself appends its table to GITHUB_STEP_SUMMARY. This script writes the scenario, sets the
# verdict as outputs, and turns it into success or failure.
set -euo pipefail

# Prints the text $1 as an error of the workflow, escaped to one line, and exits with 2.
fail() {
  local text=${1//%/%25}
  text=${text//$'\r'/%0D}
  echo "::error title=steppe-lab::${text//$'\n'/%0A}"
  exit 2
}

# Sets the variable $1 to the text $2 as a TOML string. A text that needs more escapes is refused.
quote() {
  local text=$2
  [[ -n $text ]] || fail "the input $1 is missing"
  [[ $text != *[[:cntrl:]]* ]] || fail "the input $1 has a line break or a control character in it"
  text=${text//\\/\\\\}
  printf -v "$1" '"%s"' "${text//\"/\\\"}"
}

# Sets the variable $1 to a TOML string, the shell command that runs $2.
command_of() {
  local text=$2
  [[ $text != *[\;\&\|\<\>]* ]] ||
    fail "the input $1 is more than one command: put it into a script that ends with exec"
  # The shell becomes the server, so that the server is the target and gets the signal at its end;
  # env takes assignments that stand before it.
  quote "$1" "${text:+exec env $text}"
}

# Sets the variable $1 to the number $2.
number() {
  [[ $2 =~ ^[0-9]+(\.[0-9]+)?$ ]] || fail "$1 is not a number: $2"
  printf -v "$1" '%s' "$2"
}

# This runs outside a subshell, so that a wrong input ends the script.
write_scenario() {
  local base head url connections rate pairs warmup length metric limit
  command_of base "${LAB_BASE:-}"
  command_of head "${LAB_HEAD:-}"
  quote url "${LAB_URL:-}"
  number connections "${LAB_CONNECTIONS:-8}"
  number rate "${LAB_RATE:-200}"
  number pairs "${LAB_PAIRS:-10}"
  quote warmup "${LAB_WARMUP:-2s}"
  quote length "${LAB_LENGTH:-10s}"
  quote metric "${LAB_METRIC:-cpu_us_per_op}"
  number limit "${LAB_LIMIT:-1.05}"
  cat >"$1" <<TOML
name = "base and change"

[target]
cmd = ["sh", "-c", $base]
ready = $url

[[load]]
kind = "http"
url = $url
connections = $connections
rate_per_s = $rate

[[variant]]
name = "base"

[[variant]]
name = "change"
cmd = ["sh", "-c", $head]

[ab]
pairs = $pairs
warmup = $warmup
length = $length
metric = $metric
limit = $limit
TOML
}

fail_on=${LAB_FAIL_ON:-no-go}
case $fail_on in
  no-go | inconclusive | never) ;;
  *) fail "fail-on is no-go, inconclusive or never, not $fail_on" ;;
esac

output=${LAB_OUTPUT:-steppe-lab}
[[ $output != *[[:cntrl:]]* ]] || fail "the input output has a line break or a control character in it"
[[ ! -e $output/verdict.json ]] || fail "$output already contains a run: name another folder"
scenario=${LAB_SCENARIO:-}
if [[ -z $scenario ]]; then
  scenario=$(mktemp "${RUNNER_TEMP:-/tmp}/steppe-lab-XXXXXX")
  trap 'rm -f "$scenario"' EXIT
  write_scenario "$scenario"
fi

code=0
"${STEPPE_LAB:-steppe-lab}" ab "$scenario" -o "$output" || code=$?

word=
if [[ -f $output/verdict.json ]]; then
  # The first one is that of the whole.
  word=$(sed -n 's/^  "word": "\([A-Z-]*\)",$/\1/p' "$output/verdict.json" | head -n 1)
fi
{
  echo "word=$word"
  echo "exit-code=$code"
  echo "report=$output/report.html"
} >>"${GITHUB_OUTPUT:-/dev/null}"

case $fail_on:$code in
  *:0) exit 0 ;;
  *:2) fail "wrong inputs or a wrong scenario; see above" ;;
  never:[1345] | no-go:3)
    echo "::warning title=steppe-lab::$word, exit code $code"
    exit 0
    ;;
  *)
    echo "::error title=steppe-lab::$word, exit code $code"
    exit "$code"
    ;;
esac
