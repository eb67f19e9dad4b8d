import { readFileSync } from 'node:fs'

/**
 * Reads perl code from agent/host/perl, for `runPerl` and its like, once at import. perl-base is on every Debian and
 * can make kernel requests that neither Node nor a tool can.
 * @param name of the file, without `.pl`
 */
export function readPerlProgram(name: string): string {
  return readFileSync(new URL(`perl/${name}.pl`, import.meta.url), 'utf8')
}
