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

/**
 * Version of the protocol between the agent and the console process. The name of the socket contains this version. Each
 * version has its own process, so that consoles of an older version can continue.
 */
const protocolVersion = 5
const startTimeoutMs = 10_000
const retryMs = 20
const errorFile = 'console.log'

/** Connects to the console process, which holds the consoles of a host. */
export interface ConsoleConnections {
  /** Connects to the console process, which it starts first if necessary. @throws {BerthError} `agent_error` */
  connect(): Promise<Socket>
}

/** Starts and connects to the console process. The process outlives the agent, and ends when it is no longer used. */
export class ConsoleProcess implements ConsoleConnections {
  readonly #socket: string
  readonly #starting = new SingleFlight()

  /** @param runDir directory that only root can enter */
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
    throw new BerthError('internal', 'agent_error', 'the console process of the agent did not start')
  }

  async #start(): Promise<void> {
    await mkdir(dirname(this.#socket), { recursive: true })
    const main = fileURLToPath(new URL(`main${extname(import.meta.url)}`, import.meta.url))
    await startDaemonProgram([process.execPath, ...process.execArgv, main, '--socket', this.#socket], {
      errorFile: join(this.runDir, errorFile),
      // These memory settings equal those of the agent.
      env: { NODE_ENV: 'production', NODE_OPTIONS: '--max-semi-space-size=1', MALLOC_ARENA_MAX: '1' },
    })
  }
}

/** @returns undefined if nobody listens on the socket */
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

/** Lists the sockets of console processes. Processes of an earlier version run until their last console has ended. */
function listConsoleSockets(runDir: string): string[] {
  return listDirectory(runDir)
    .filter((file) => /^console-\d+\.sock$/.test(file))
    .map((file) => join(runDir, file))
}

/** Removes the files that console processes have left. */
export async function removeConsoleFiles(runDir: string): Promise<void> {
  for (const path of [join(runDir, errorFile), ...listConsoleSockets(runDir)]) await rm(path, { force: true })
}

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
