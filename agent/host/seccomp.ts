import { readPerlProgram } from './perl-program.js'

const program = readPerlProgram('confine')

/**
 * Perl code that defines `confine()`: it gives the process and all its children a seccomp filter that cannot be
 * removed.
 * @param filter bytes of struct sock_filter
 */
export function confinement(filter: Buffer): string {
  return `our $seccomp_filter = '${filter.toString('hex')}';\n${program}`
}
