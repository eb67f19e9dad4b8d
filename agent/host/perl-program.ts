import { readFileSync } from 'node:fs'

/**
 * Perl code from agent/host/perl, for `runPerl` and its like: perl-base is on every Debian, and reaches requests to the
 * kernel that neither Node nor a tool can make. Read once, when the module that needs it is loaded.
 * @param name of the file, without `.pl`
 */
export function readPerlProgram(name: string): string {
  return readFileSync(new URL(`perl/${name}.pl`, import.meta.url), 'utf8')
}
