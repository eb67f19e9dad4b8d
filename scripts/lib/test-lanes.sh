# shellcheck shell=bash
# How scripts/test runs files: lists of jobs (one mocha process each), and lanes that take from them at the same time.
# Sourced, not run. `scratch` is the run's directory: jobs/LIST/RANK-NUMBER is a job that waits (its label, then its files,
# by line), held/GROUP a group of which one runs, ended.* the seconds of a lane, compiled/ what runs in the place of the
# sources, runs/* what was begun: label, pid, code, seconds, output, and what the reporter writes.

# A process that takes longer hangs.
process_limit_seconds=900
# Files whose tests need nothing of the host but loopback, a directory and network namespaces of their own.
beside_folders='test/(api|browser|fleet|network|operations|store)/'
# Those of them that share processes, folder by folder: loading the program is most of what a file takes.
shared_folders=(api fleet operations store)
files_per_process=10
# Each takes from the first of its lists that has a job that may run: `host` has the files that use the host itself, and
# mostly wait for guests and disks; `beside` those that compute. Of these a few at once fill two processors.
lanes=('host beside' 'host beside' 'host beside' 'beside host')
# GROUP=FILES, a regular expression: no two files of a group run at once, as they share names or a lock, or shape the host.
groups=(
  'setup=^test/setup/'
  'addressed=^test/agent/(addresses|ipv6-source)'
  'crowd=^test/host/(hostile-|guest-io)'
)
# Hears of all that others do in its network: has one of its own.
own_network='^test/host/netlink-watch'
# Begin first, the longest before others, so that lanes end at about the same time; those of a group one after another.
# test/times.txt has a run's times.
longest=(
  test/host/images
  test/setup/up-down
  test/setup/fresh-machine
  test/setup/systemd-container
  test/host/guest-backups
  test/faults/agent-kill
  test/faults/guest-disks
  test/host/guest-network
  test/faults/kvm-disks
  test/faults/guest-
  test/faults/kvm-operations
  test/browser/console-host
  test/host/kvm-debian
  test/agent/addresses
  test/network/firewall
  test/host/kvm-backups
  test/network/shaping
  test/faults/gateway-kill
  test/host/kvm-api
  test/browser/pages
  test/host/boot
  test/agent/policy
  test/host/kvm-guest
  test/host/kvm-hostile
  'test/api ('
)

unit_tests() { find agent gateway shared -name '*.test.ts' | sort; }
# The first one leaves the image it builds in a cache for the others.
crossing_tests() {
  echo test/host/images.test.ts
  find test -name '*.test.ts' ! -path test/host/images.test.ts | sort
}

select_files() {
  if [ $# -eq 0 ]; then cat; else
    local patterns=() part
    for part in "$@"; do patterns+=(-e "${part#./}"); done
    grep -F "${patterns[@]}" || true
  fi
}

queue_units() {
  local files
  mapfile -t files < <(unit_tests | select_files "$@")
  [ ${#files[@]} -eq 0 ] || queue beside 'tests beside the code' "${files[@]}"
}

queue_tests() {
  local folder files
  for folder in "${shared_folders[@]}"; do
    mapfile -t files < <(crossing_tests | grep "^test/$folder/" | select_files "$@")
    queue_shared "test/$folder" "${files[@]}"
  done
  mapfile -t files < <(crossing_tests | grep -E "^$beside_folders" |
    grep -vE "^test/($(IFS='|' && echo "${shared_folders[*]}"))/" | select_files "$@")
  queue_each beside "${files[@]}"
  mapfile -t files < <(crossing_tests | grep -vE "^$beside_folders" | select_files "$@")
  queue_each host "${files[@]}"
}

# queue LIST LABEL FILE...
queue() {
  local directory=$scratch/jobs/$1
  mkdir -p "$directory"
  printf '%s\n' "${@:2}" >"$directory/$(rank_of "$2")-$(printf '%04d' "$(find "$directory" -type f | wc -l)")"
}

# Where in `longest` a label is, or after all of them. rank_of LABEL
rank_of() {
  local rank=0 part
  for part in "${longest[@]}"; do
    if [[ $1 == "$part"* ]]; then break; fi
    rank=$((rank + 1))
  done
  printf '%03d' "$rank"
}

# queue_each LIST FILE...
queue_each() {
  local file
  for file in "${@:2}"; do queue "$1" "$file" "$file"; done
}

# queue_shared LABEL FILE...
queue_shared() {
  local label=$1 part=1
  shift
  while [ $# -gt 0 ]; do
    local files=("${@:1:files_per_process}")
    if [ ${#files[@]} -eq 1 ]; then queue_each beside "${files[0]}"; else queue beside "$label ($part)" "${files[@]}"; fi
    shift ${#files[@]}
    part=$((part + 1))
  done
}

queued() { find "$scratch/jobs" -type f 2>/dev/null | wc -l; }

# The only job, its output as it comes.
run_live() {
  local job
  for job in "$scratch"/jobs/*/*; do [ ! -e "$job" ] || run_job live "$job"; done
}

lane_pids=()
run_lanes() {
  local lane lists pid
  keep_forwarding
  for lane in "${lanes[@]}"; do
    read -ra lists <<<"$lane"
    # In mounts of its own: a network namespace that `ip netns exec` enters holds on to all that are there.
    unshare --mount --propagation private ./scripts/test --lane "$scratch" "${lists[@]}" &
    lane_pids+=($!)
  done
  for pid in "${lane_pids[@]}"; do
    while kill -0 "$pid" 2>/dev/null; do
      sleep 0.5
      show_ended
    done
  done
  show_ended
  [ "$(queued)" = 0 ] || blame_lanes
}

# A lane that broke has left jobs.
blame_lanes() {
  local run
  run=$(mktemp -d "$scratch/runs/$(date +%s%N).XXX")
  echo 'lanes' >"$run/label"
  printf 'lanes\n  ended before these files began: %s\n\n' "$(cat "$scratch"/jobs/*/* | grep '\.ts$' | xargs)" >"$run/failures"
  echo '{"passes":0,"failures":1,"pending":0}' >"$run/counts"
}

# Tests of one lane that put it back as it was would take it from another's guests.
keep_forwarding() {
  local settings=(net.ipv4.ip_forward net.ipv6.conf.all.forwarding) before
  before=$(sysctl "${settings[@]}" | tr -d ' ' | xargs)
  # shellcheck disable=SC2064 # as they are now
  trap "sysctl -qw $before; rm -rf '$scratch'" EXIT
  sysctl -qw "${settings[@]/%/=1}"
}

# One lane, in a process of its own; waits while all that is left may not run yet. run_lane SCRATCH LIST...
run_lane() {
  local job
  scratch=$1
  job=$(mktemp "$scratch/lane.XXXXXX")
  shift
  # shellcheck disable=SC2064 # as they are now
  trap "release \"\$(label_of '$job')\"" EXIT # one that broke
  while has_jobs "$@"; do
    if take_job "$job" "$@"; then
      run_job kept "$job"
      release "$(label_of "$job")"
      : >"$job"
    else
      sleep 0.5
    fi
  done
  echo "$SECONDS" >"$scratch/ended.$$"
}

has_jobs() {
  local list
  for list; do
    if compgen -G "$scratch/jobs/$list/*" >/dev/null; then return 0; fi
  done
  return 1
}

# Lanes race for a job: a rename has one winner. take_job TO LIST...
take_job() {
  local list waiting label to=$1
  shift
  for list; do
    for waiting in "$scratch/jobs/$list"/*; do
      label=$(label_of "$waiting") && hold "$label" || continue
      if mv "$waiting" "$to" 2>/dev/null; then return 0; fi
      release "$label"
    done
  done
  return 1
}

label_of() { head -n 1 "$1" 2>/dev/null; }

# Fails while another job of its group runs. hold LABEL
hold() {
  local group
  group=$(group_of "$1")
  [ -z "$group" ] || mkdir "$scratch/held/$group" 2>/dev/null
}

# release LABEL
release() {
  local group
  group=$(group_of "$1")
  [ -z "$group" ] || rmdir "$scratch/held/$group" 2>/dev/null || true
}

group_of() {
  local group
  for group in "${groups[@]}"; do
    if [[ $1 =~ ${group#*=} ]]; then
      echo "${group%%=*}"
      return
    fi
  done
}

# What shared a process that broke has not been heard: each file gets one of its own. run_job live|kept JOB
run_job() {
  local label files file
  mapfile -t files <"$2"
  label=${files[0]}
  files=("${files[@]:1}")
  run_files "$1" "$label" "${files[@]}" && return
  [[ $label == test/*'('* ]] || return 0
  for file in "${files[@]}"; do run_files "$1" "$file" "$file" || true; done
}

# One mocha process; fails where it has not ended by itself. run_files live|kept LABEL FILE...
run_files() {
  local mode=$1 label=$2 run mocha compiled code=0 started=$SECONDS
  shift 2
  compiled=("${@/#/$scratch/compiled/}")
  run=$(mktemp -d "$scratch/runs/$(date +%s%N).XXX")
  echo "$label" >"$run/label"
  [ "$mode" = kept ] || say "$label"
  # Mocha's own program, not the one that starts another node to give it this option.
  mocha=(timeout --kill-after=10 "$process_limit_seconds" node --enable-source-maps node_modules/mocha/lib/cli/cli.js
    --reporter scripts/lib/reporter.cjs --reporter-option "results=$run,root=$scratch/compiled" "${compiled[@]/%.ts/.js}")
  if [[ $label =~ $own_network ]]; then mocha=(unshare --net "${mocha[@]}"); fi
  if [ "$mode" = kept ]; then "${mocha[@]}" </dev/null >"$run/output" 2>&1 & else "${mocha[@]}" </dev/null & fi
  echo $! >"$run/pid"
  wait $! || code=$?
  echo $((SECONDS - started)) >"$run/seconds"
  [ "$mode" = kept ] || note "$((SECONDS - started)) s"
  local has_ended=true
  [ -e "$run/counts" ] || has_ended=false
  judge_end "$run" "$code"
  echo "$code" >"$run/code"
  $has_ended
}

# A process that crashes, hangs or ends otherwise than its tests did is one failure. judge_end RUN CODE
judge_end() {
  local how="ended with code $2"
  if [ "$2" -eq 124 ]; then how="had no end within $process_limit_seconds s"; fi
  if [ ! -e "$1/counts" ]; then
    printf '%s\n  %s in: %s\n\n' "$(cat "$1/label")" "$how" "$(cat "$1/at" 2>/dev/null)" >>"$1/failures"
    echo '{"passes":0,"failures":1,"pending":0}' >"$1/counts"
  elif [ "$2" -ne 0 ] && [ "$(sum_of failures <"$1/counts")" = 0 ]; then
    [ -s "$1/failures" ] || printf '%s\n  %s after its tests\n\n' "$(cat "$1/label")" "$how" >"$1/failures"
    echo '{"passes":0,"failures":1,"pending":0}' >>"$1/counts"
  fi
}

# What ended in the lanes since it was last called.
show_ended() {
  local run
  for run in "$scratch"/runs/*; do
    if [ ! -e "$run/code" ] || [ ! -e "$run/output" ]; then continue; fi
    say "$(cat "$run/label")"
    cat "$run/output"
    note "$(cat "$run/seconds") s"
    rm "$run/output"
  done
}

# `N s FILE` of a run: as the reporter has them, where files share its process. times_of RUN
times_of() {
  if [ "$(wc -l <"$1/files" 2>/dev/null || echo 0)" -gt 1 ] && [[ $(cat "$1/label") == test/* ]]; then
    cat "$1/files"
  elif [ -e "$1/seconds" ]; then
    echo "$(cat "$1/seconds") s $(cat "$1/label")"
  fi
}

sum_of() { sed -E "s/.*\"$1\":([0-9]+).*/\1/" | awk '{ n += $1 } END { print n + 0 }'; }

# Ended from outside, by a limit of time for example: says what it knows.
# shellcheck disable=SC2317,SC2329 # called by a trap
interrupted() {
  trap '' INT TERM HUP
  local run pid
  for pid in "${lane_pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  for run in "$scratch"/runs/*; do
    if [ ! -e "$run/pid" ] || [ -e "$run/code" ]; then continue; fi
    kill -TERM "$(cat "$run/pid")" 2>/dev/null || true
    printf '%s\n  interrupted in: %s\n\n' "$(cat "$run/label")" "$(cat "$run/at" 2>/dev/null)" >>"$run/failures"
    [ -e "$run/counts" ] || echo '{"passes":0,"failures":1,"pending":0}' >"$run/counts"
  done
  show_ended
  finish
}
