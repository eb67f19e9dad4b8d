import { readFileSync } from 'node:fs'

/**
 * Reads perl code from agent/host/perl, for `runPerl` and its like, once at import. perl-base is on every Debian and
 * can make kernel requests that neither Node nor a tool can.
 * @param name of the file, without `.pl`
 */
export function readPerlProgram(name: string): string {
  return readFileSync(new URL(`perl/${name}.pl`, import.meta.url), 'utf8')
}

/** The same for a program that uses `isolate.pl`. */
export function readIsolatedProgram(name: string): string {
  return `${readPerlProgram('isolate')}\n${readPerlProgram(name)}`
}

/** The same for a program whose memory depends on what a guest has: `bound-memory.pl` limits it. */
export function readBoundedProgram(name: string): string {
  return `${readPerlProgram('bound-memory')}\n${readPerlProgram(name)}`
}
