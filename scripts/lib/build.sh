# shellcheck shell=bash
# Builds the product. Sourced after common.sh.

# Builds only if the inputs changed: daemons and tests can run from the compiled output. build_product LOG
build_product() {
  local inputs
  inputs=$(find agent cli client gateway panel shared proto package.json package-lock.json tsconfig.json buf.gen.yaml \
    scripts/lib/bundle.ts scripts/lib/build-programs.ts scripts/lib/cli-files.ts \
    -path proto/gen -prune -o -type f ! -name '*.test.ts' ! -name '*.gen.ts' -print0 | sort -z | xargs -0 sha256sum | sha256sum)
  [ "$(cat dist/.inputs 2>/dev/null)" = "$inputs" ] && return 0
  say 'Building'
  rm -rf dist
  run_logged 'build' "$1" npm run --silent build || exit 1
  echo "$inputs" >dist/.inputs
}
