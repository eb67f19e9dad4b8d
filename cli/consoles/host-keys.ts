import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { BerthClient } from '../../client/index.js'
import { writeFileAtomic } from '../../shared/files.js'
import { configFile } from '../contexts/config-file.js'
import type { Session } from '../session.js'
import type { Surroundings } from '../surroundings.js'
import { noInput, runProgram } from './program.js'

/* This module reads the SSH host keys of containers through the gateway's console, and stores them for ssh. */

const maxBytes = 64 * 1024
const timeoutMs = 15_000
const keyForm = /^((?:ssh|ecdsa)-[\w-]+ [A-Za-z0-9+/]+=*)(?: |$)/

/** The file with known host keys. It names a guest by its UUID, because ports and addresses change. */
export class HostKeys {
  readonly path: string
  readonly alias: string

  constructor(
    { env, home }: Surroundings,
    private readonly uuid: string,
  ) {
    this.path = join(dirname(configFile(env, home)), 'known_hosts')
    this.alias = `berth-${uuid}`
  }

  get areKnown(): boolean {
    return this.known.length > 0
  }

  /** The stored lines with the keys of the guest. */
  get known(): string[] {
    return this.#lines().filter((line) => this.#isOwn(line))
  }

  /** Reads the keys from the guest, and stores them. */
  async refresh(session: Session): Promise<void> {
    const keys = parseHostKeys(await readKeyFiles(session, this.uuid).catch(() => '')) // no keys: ssh asks its user
    const lines = keys.map((key) => `${this.alias} ${key}`)
    if (lines.length === 0 || lines.join() === this.known.join()) return
    const others = this.#lines().filter((line) => !this.#isOwn(line))
    await writeFileAtomic(this.path, [...others, ...lines, ''].join('\n'), 0o600)
  }

  #isOwn(line: string): boolean {
    return line.startsWith(`${this.alias} `)
  }

  #lines(): string[] {
    try {
      return readFileSync(this.path, 'utf8').split('\n').filter(Boolean)
    } catch {
      return []
    }
  }
}

/** True if the guest had keys and now has only others. Then ssh, which knew only the former keys, did not connect. */
export const areReplaced = (before: readonly string[], after: readonly string[]): boolean =>
  before.length > 0 && after.length > 0 && !after.some((key) => before.includes(key))

/** Parses public keys, one in each line. Ignores everything else, because the guest controls the text. */
export const parseHostKeys = (text: string): string[] =>
  text.split('\n').flatMap((line) => keyForm.exec(line)?.[1] ?? [])

/** Returns the public host keys in a guest's files. Makes only one attempt, even if the gateway is overloaded. */
async function readKeyFiles({ client, names }: Session, guest: string): Promise<string> {
  const once = new BerthClient({ ...client.connection, attempts: 1, connectAttempts: 1 })
  const parts: Buffer[] = []
  let size = 0
  await runProgram(
    { client: once, names },
    {
      guest,
      command: ['sh', '-c', 'cat /etc/ssh/ssh_host_*_key.pub'],
      input: noInput(),
      output: (bytes) => {
        size += bytes.length
        if (size > maxBytes) return Promise.reject(new Error('the host keys of the guest are too long'))
        parts.push(bytes)
        return Promise.resolve()
      },
      errors: () => Promise.resolve(),
      signal: AbortSignal.timeout(timeoutMs),
    },
  )
  return Buffer.concat(parts).toString()
}
