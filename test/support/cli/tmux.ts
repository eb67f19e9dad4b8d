import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { waitFor } from '../wait.js'
import type { Environment } from './berth.js'

const pictures = resolve('test/browser/out')
const berth = `${process.execPath} ${resolve('dist/cli/main.js')}`

/** A terminal of tmux with a shell, in which `berth` is the built command line. */
export class Tmux {
  /**
   * @param name name of the tmux server, which no other test uses
   * @param record path of a new file for everything that programs print
   */
  constructor(
    private readonly name: string,
    env: Environment,
    private readonly record: string,
  ) {
    const variables = Object.entries({ ...env, HISTFILE: '' }).flatMap(([key, value]) => ['-e', `${key}=${value}`])
    const size = ['-x', '100', '-y', '30']
    this.#run('-f', '/dev/null', 'new-session', '-d', ...size, ...variables, 'bash --norc --noprofile')
    this.#run('pipe-pane', `cat >'${record}'`)
    this.enter(`PS1='$ '; berth() { ${berth} "$@"; }; clear`)
  }

  /** Types a line. */
  enter(line: string): void {
    this.#run('send-keys', '-l', line)
    this.keys('Enter')
  }

  /** Presses keys by their names, such as `C-c` or `Escape`. */
  keys(...names: string[]): void {
    this.#run('send-keys', ...names)
  }

  /** Pastes a text, with Enter after each line. Adds bracketed-paste markers if the program requested them. */
  paste(text: string): void {
    const file = `${this.record}.pasted`
    writeFileSync(file, text)
    this.#run('load-buffer', file)
    this.#run('paste-buffer', '-p', '-d')
  }

  resize(columns: number, rows: number): void {
    this.#run('resize-window', '-x', String(columns), '-y', String(rows))
  }

  /** Returns the text on the screen, with colors if requested. */
  screen(hasColors = false): string {
    return this.#run('capture-pane', '-p', ...(hasColors ? ['-e'] : []))
  }

  /** Returns everything that programs have printed, also what the screen no longer shows. */
  printed(): string {
    return readFileSync(this.record, 'utf8')
  }

  /** Resolves when the screen shows the text. */
  async shows(text: string | RegExp): Promise<void> {
    const isShown = (): boolean => (typeof text === 'string' ? this.screen().includes(text) : text.test(this.screen()))
    await waitFor(isShown, {
      timeoutMs: 60_000,
      intervalMs: 200,
      what: () => `${String(text)} on the screen:\n${this.screen()}`,
    })
  }

  /** Writes the screen to a file for scripts/terminal-picture.ts, if the environment requests pictures. */
  picture(name: string): void {
    if (!process.env['BERTH_TEST_PICTURES']) return
    mkdirSync(pictures, { recursive: true })
    writeFileSync(join(pictures, `${name}.ansi`), this.screen(true))
  }

  close(): void {
    this.#run('kill-server')
  }

  #run(...args: string[]): string {
    return execFileSync('tmux', ['-L', this.name, ...args], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] })
  }
}
