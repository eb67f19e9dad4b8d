import { resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

const directory = fileURLToPath(new URL('../perl', import.meta.url))

/**
 * Path of a Perl program. perl-base is on every Debian and makes system calls that neither Node nor a tool can make.
 * Each program lists them at its head.
 * @param name name of a file in agent/host/perl, or an absolute path; without `.pl`
 */
export function perlProgram(name: string): string {
  return resolve(directory, `${name}.pl`)
}
