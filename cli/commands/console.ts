import { TerminalLink } from '../consoles/terminal-link.js'
import { usageError } from '../errors.js'
import { readGuest } from '../names/guest.js'
import { openSession, type GlobalOptions } from '../session.js'
import type { Surroundings } from '../surroundings.js'

export interface ConsoleRun {
  readonly guest: string
  readonly isSerial: boolean
  readonly options: GlobalOptions
  readonly surroundings: Surroundings
}

/** Byte of Ctrl-], which ends the console, as in telnet. */
const escapeByte = 0x1d

/** Connects the terminal of the user with a terminal of a guest. */
export async function runConsole({ guest, isSerial, options, surroundings }: ConsoleRun): Promise<void> {
  const { stdin, stdout } = process
  if (!stdin.isTTY) throw usageError('a console needs a terminal', 'use berth ssh GUEST -- COMMAND in scripts')
  const session = await openSession(surroundings, options)
  const { uuid, name } = await readGuest(session, guest)
  const link = new TerminalLink(session, {
    guest: uuid,
    isSerial,
    size: () => ({ cols: stdout.columns || 80, rows: stdout.rows || 24 }),
    show: (bytes) => void stdout.write(bytes),
    onOpen: () => {
      surroundings.endWithReader()
      surroundings.writeError(`Connected to ${name}. Ctrl-] ends the console.\r\n`)
      stdin.setRawMode(true).on('data', type)
    },
    onLost: () => surroundings.writeError('\r\nThe connection was lost. Connecting again; Ctrl-] gives up.\r\n'),
  })
  const type = (bytes: Buffer): void => {
    const at = bytes.indexOf(escapeByte)
    if (at !== 0) link.type(at < 0 ? bytes : bytes.subarray(0, at))
    if (at >= 0) link.end()
  }
  const resize = (): void => link.resize()
  stdout.on('resize', resize)
  try {
    await link.run()
  } finally {
    stdin.off('data', type)
    stdin.setRawMode(false)
    stdin.pause()
    stdout.off('resize', resize)
  }
}
