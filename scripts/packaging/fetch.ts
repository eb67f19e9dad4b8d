import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'

/** A published npm package. It can be for another architecture than that of this machine. */
export interface PublishedPackage {
  readonly package: string
  readonly version: string
  /** Digest in the form of package-lock.json: the algorithm and the value in Base64. */
  readonly integrity: string
}

/**
 * Downloads a package and unpacks it into `target`, unless an earlier call has already done so.
 * @throws if the archive does not have the expected digest
 */
export function unpackPackage({ package: name, version, integrity }: PublishedPackage, target: string): void {
  if (existsSync(target)) return
  const unpacked = `${target}.new`
  rmSync(unpacked, { recursive: true, force: true })
  mkdirSync(unpacked, { recursive: true })
  const pack = ['pack', '--silent', '--pack-destination', dirname(target), `${name}@${version}`]
  const archive = join(dirname(target), execFileSync('npm', pack, { encoding: 'utf8' }).trim())
  checkIntegrity(archive, integrity)
  execFileSync('tar', ['-xzf', archive, '-C', unpacked, '--strip-components=1', '--no-same-owner'])
  renameSync(unpacked, target)
}

function checkIntegrity(archive: string, integrity: string): void {
  const [algorithm = '', expected] = integrity.split('-')
  const digest = createHash(algorithm).update(readFileSync(archive)).digest('base64')
  if (digest !== expected) throw new Error(`${archive}: ${algorithm} is ${digest}, expected ${expected}`)
}
