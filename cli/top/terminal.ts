/* The full screen of a terminal. Sequences: https://invisible-island.net/xterm/ctlseqs/ctlseqs.html */

const enter = '\u001b[?1049h\u001b[?25l'
const leave = '\u001b[?25h\u001b[?1049l'
const home = '\u001b[H'
const clearToEndOfLine = '\u001b[K'
const clearBelow = '\u001b[J'
const interrupt = '\u0003'

export interface FullScreen {
  /** Width and height at present. */
  size(): { readonly width: number; readonly height: number }
  draw(lines: readonly string[]): void
  /** Resolves when the user presses q or Ctrl-C, or when the process is asked to end. */
  readonly closed: Promise<void>
}

/** Runs `run` with the full screen, and then restores the terminal, even after an error. */
export async function withFullScreen(run: (screen: FullScreen) => Promise<void>): Promise<void> {
  const { stdin, stdout } = process
  let close = (): void => undefined
  const closed = new Promise<void>((resolve) => (close = resolve))
  const press = (keys: Buffer): void => {
    if (/q/i.test(keys.toString()) || keys.includes(interrupt)) close()
  }
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const
  for (const signal of signals) process.once(signal, close)
  stdin.setRawMode(true)
  stdin.on('data', press)
  stdout.write(enter)
  try {
    await run({ closed, draw, size: () => ({ width: stdout.columns, height: stdout.rows }) })
  } finally {
    stdout.write(leave)
    stdin.off('data', press)
    stdin.setRawMode(false)
    stdin.pause()
    for (const signal of signals) process.off(signal, close)
  }
}

/** Overwrites the screen without clearing it first, so that it does not flicker. */
function draw(lines: readonly string[]): void {
  const text = lines.map((line) => `${line}${clearToEndOfLine}`).join('\r\n')
  process.stdout.write(`${home}${text}${clearBelow}`)
}
