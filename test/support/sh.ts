import { execFileSync } from 'node:child_process'

/** Standard output of a program. @throws its standard error when it fails */
export function sh(program: string, ...args: string[]): string {
  return execFileSync(program, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })
}
