import { resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

const directory = fileURLToPath(new URL('../perl', import.meta.url))

/**
 * Returns the path of a Perl program. Perl can make system calls that neither Node nor a tool can make, and every
 * Debian host has perl-base. Each program lists its system calls at its beginning.
 * @param name name of a file in agent/host/perl, or an absolute path, without `.pl`
 */
export function perlProgram(name: string): string {
  return resolve(directory, `${name}.pl`)
}
