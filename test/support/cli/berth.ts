import { spawn, type ChildProcess } from 'node:child_process'
import { resolve } from 'node:path'
import { spawn as spawnInTerminal } from 'node-pty'
import { waitFor } from '../wait.js'

/* Runs the built command line like a user. */

const program = resolve('dist/cli/main.js')

export interface ExitResult {
  readonly code: number | null
  readonly out: string
  readonly err: string
}

export interface RunningCommand {
  readonly child: ChildProcess
  readonly ended: Promise<ExitResult>
  readonly out: () => string
  readonly err: () => string
}

export type Environment = Readonly<Record<string, string>>

const environmentOf = (env: Environment): Record<string, string> => ({ PATH: process.env['PATH'] ?? '', ...env })

/** Starts the command line without a terminal. @param input what it reads from its standard input */
export function startBerth(args: readonly string[], env: Environment, input = ''): RunningCommand {
  const child = spawn(process.execPath, [program, ...args], { env: environmentOf(env), stdio: 'pipe' })
  child.stdin.end(input)
  const text = { out: '', err: '' }
  child.stdout.setEncoding('utf8').on('data', (part: string) => (text.out += part))
  child.stderr.setEncoding('utf8').on('data', (part: string) => (text.err += part))
  const ended = new Promise<ExitResult>((done) => child.once('close', (code) => done({ code, ...text })))
  return { child, ended, out: () => text.out, err: () => text.err }
}

/** The command line in a terminal of its own. */
export class BerthTerminal {
  text = ''
  readonly ended: Promise<number>
  readonly #terminal

  constructor(args: readonly string[], env: Environment) {
    const size = { name: 'xterm-256color', cols: 100, rows: 20 }
    this.#terminal = spawnInTerminal(process.execPath, [program, ...args], { ...size, env: environmentOf(env) })
    this.#terminal.onData((part) => (this.text += part))
    this.ended = new Promise((done) => this.#terminal.onExit(({ exitCode }) => done(exitCode)))
  }

  type(keys: string): void {
    this.#terminal.write(keys)
  }

  /** Resolves when the terminal has shown the text. */
  async shows(text: string | RegExp): Promise<void> {
    const isShown = (): boolean => (typeof text === 'string' ? this.text.includes(text) : text.test(this.text))
    await waitFor(isShown, { what: () => `${String(text)} in the terminal: ${this.text}` })
  }
}
