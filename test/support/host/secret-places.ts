import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, existsSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { Store } from '../../../gateway/store/store.js'
import { waitFor } from '../wait.js'

/* This file searches all places where a secret may have been left. */

/** Returns all forms in which a secret may have been written. PEM data is split into lines, each with its own forms. */
export function formsOf(secret: string): string[] {
  const lines = secret.includes('-----BEGIN')
    ? secret.split('\n').filter((line) => line.length > 40 && !line.startsWith('-'))
    : [secret]
  return lines.flatMap((line) => {
    const bytes = Buffer.from(line)
    const forms = [line, encodeURIComponent(line), line.replaceAll('-', ''), JSON.stringify(line).slice(1, -1)]
    return [...new Set([...forms, bytes.toString('base64').replace(/=+$/, ''), bytes.toString('hex')])]
  })
}

/** Collects arguments and environments of all processes, including processes that have ended by now. */
export class ProcessTexts {
  readonly #texts = new Set<string>()
  readonly #timer = setInterval(() => this.look(), 100)

  look(): void {
    for (const pid of readdirSync('/proc').filter((entry) => /^\d+$/.test(entry)))
      for (const file of ['cmdline', 'environ']) {
        const text = readIfThere(`/proc/${pid}/${file}`)
        if (text !== '') this.#texts.add(text)
      }
  }

  end(): string {
    clearInterval(this.#timer)
    this.look()
    return [...this.#texts].join('\n')
  }
}

function readIfThere(path: string): string {
  try {
    return readFileSync(path, 'latin1')
  } catch {
    return '' // the process has ended
  }
}

/** Returns the content of all files below a directory, except files whose path ends with a text of `except`. */
export function readFiles(directory: string, except: readonly string[] = []): string {
  const entries = readdirSync(directory, { recursive: true, encoding: 'utf8' })
  const files = entries.filter((entry) => !except.some((end) => entry.endsWith(end)))
  return files
    .map((file) => join(directory, file))
    .filter((path) => existsSync(path) && statSync(path).isFile())
    .map((path) => readFileSync(path, 'latin1'))
    .join('\n')
}

type Client = Store['client']

const readers: Readonly<Record<string, (client: Client, key: string) => Promise<unknown>>> = {
  string: (client, key) => client.get(key),
  hash: (client, key) => client.hGetAll(key),
  set: (client, key) => client.sMembers(key),
  zset: (client, key) => client.zRange(key, 0, -1),
  list: (client, key) => client.lRange(key, 0, -1),
  stream: (client, key) => client.xRange(key, '-', '+'),
}

/** Returns all keys of the store with their values. */
export async function readStore({ client }: Store): Promise<string> {
  const texts: string[] = []
  for await (const keys of client.scanIterator())
    for (const key of keys) {
      const type = await client.type(key)
      const read = readers[type]
      if (read === undefined && type !== 'none') throw new Error(`${key} is a ${type}`)
      texts.push(`${key} ${JSON.stringify(await read?.(client, key))}`)
    }
  return texts.join('\n')
}

/**
 * Returns an uncompressed dump (RDB) of a Redis server's data. A second server writes the dump.
 * @param directory data of the first server; it is copied, so that the first server is not affected
 */
export async function readDump(directory: string, copy: string): Promise<string> {
  cpSync(directory, copy, { recursive: true })
  const socket = join(copy, 'copy.sock')
  const options = ['--dir', copy, '--port', '0', '--unixsocket', socket, '--appendonly', 'yes', '--save', '']
  const server = spawn('redis-server', [...options, '--rdbcompression', 'no', '--daemonize', 'no'], {
    stdio: 'ignore',
  })
  try {
    const ask = (...command: string[]) => {
      try {
        return execFileSync('redis-cli', ['-s', socket, ...command], { stdio: 'pipe' })
          .toString()
          .trim()
      } catch {
        return ''
      }
    }
    await waitFor(() => ask('PING') === 'PONG', { what: 'a copy of the store' })
    if (ask('SAVE') !== 'OK') throw new Error('no dump')
    return readFileSync(join(copy, 'dump.rdb'), 'latin1')
  } finally {
    const ended = once(server, 'exit')
    server.kill('SIGKILL')
    await ended
    rmSync(copy, { recursive: true, force: true })
  }
}
