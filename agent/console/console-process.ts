import { mkdir, rm } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import { dirname, extname, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { SingleFlight } from '../../shared/async/single-flight.js'
import { BerthError } from '../../shared/errors.js'
import { startDaemonProgram } from '../host/process/daemon.js'
import { listDirectory } from '../host/process/proc.js'
import type { EndRequest } from './contract.js'
import { frameOf } from '../../shared/framing.js'

/** Part of the socket's name: another version of the protocol is another process, beside one that still has users. */
const protocolVersion = 4
const startTimeoutMs = 10_000
const retryMs = 20
const errorFile = 'console.log'

/** Connections to the process that holds a host's consoles. */
export interface ConsoleConnections {
  /** Starts the process if there is none. @throws {BerthError} `agent_error` */
  connect(): Promise<Socket>
}

/** The process, which outlives the agent, and ends by itself when nobody needs it. */
export class ConsoleProcess implements ConsoleConnections {
  readonly #socket: string
  readonly #starting = new SingleFlight()

  /** @param runDir directory of root alone */
  constructor(private readonly runDir: string) {
    this.#socket = join(runDir, `console-${protocolVersion}.sock`)
  }

  async connect(): Promise<Socket> {
    const there = await tryConnect(this.#socket)
    if (there) return there
    await this.#starting.run(() => this.#start())
    for (const until = performance.now() + startTimeoutMs; performance.now() < until; await delay(retryMs)) {
      const connected = await tryConnect(this.#socket)
      if (connected) return connected
    }
    throw new BerthError('internal', 'agent_error', 'the console process did not start')
  }

  async #start(): Promise<void> {
    await mkdir(dirname(this.#socket), { recursive: true })
    const main = fileURLToPath(new URL(`main${extname(import.meta.url)}`, import.meta.url))
    await startDaemonProgram([process.execPath, ...process.execArgv, main, '--socket', this.#socket], {
      errorFile: join(this.runDir, errorFile),
      // As the agent's own: little memory.
      env: { NODE_ENV: 'production', NODE_OPTIONS: '--max-semi-space-size=1', MALLOC_ARENA_MAX: '1' },
    })
  }
}

/** @returns undefined when nobody listens there */
function tryConnect(path: string): Promise<Socket | undefined> {
  return new Promise((resolve) => {
    const socket = connect(path)
    socket.once('connect', () => {
      socket.off('error', failed)
      resolve(socket)
    })
    const failed = (): void => resolve(undefined)
    socket.once('error', failed)
  })
}

/** Of processes of every version: those of an earlier one go on with their consoles until the last has ended. */
function listConsoleSockets(runDir: string): string[] {
  return listDirectory(runDir)
    .filter((file) => /^console-\d+\.sock$/.test(file))
    .map((file) => join(runDir, file))
}

/** What the processes leave. */
export async function removeConsoleFiles(runDir: string): Promise<void> {
  for (const path of [join(runDir, errorFile), ...listConsoleSockets(runDir)]) await rm(path, { force: true })
}

/** Ends the processes that are there, with all their consoles. */
export async function endConsoleProcesses(runDir: string): Promise<void> {
  await Promise.all(listConsoleSockets(runDir).map(endProcess))
}

async function endProcess(path: string): Promise<void> {
  const socket = await tryConnect(path)
  if (!socket) return
  const gone = new Promise((resolve) => socket.once('close', resolve))
  socket.on('error', () => undefined)
  socket.write(frameOf(Buffer.from(JSON.stringify({ end: true } satisfies EndRequest))))
  await gone
}
