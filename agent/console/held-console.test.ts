import { expect } from 'chai'
import { waitFor } from '../../test/support/wait.js'
import type { Terminal, TerminalListener } from '../host/process/pty.js'
import type { ConsoleResponse } from '../../shared/console-frames.js'
import { HeldConsole } from './held-console.js'

/** Returns a console whose terminal is controlled by the test. Like a serial port, the terminal ignores pauses. */
function makeConsole(keepMs = 60_000) {
  let listener: TerminalListener | undefined
  let typed = 0
  let isPaused = false
  const terminal: Terminal = {
    write: (bytes) => void (typed += bytes.length),
    resize: () => undefined,
    pause: () => (isPaused = true),
    resume: () => undefined,
    close: () => undefined,
  }
  const held = new HeldConsole({
    id: 'c',
    guestUuid: 'g',
    principal: 'key:1',
    share: 'key:1',
    unlimited: false,
    keepMs,
    size: { columns: 80, rows: 24 },
    open: (given) => {
      listener = given
      return terminal
    },
    onGone: () => undefined,
  })
  return {
    held,
    show: (text: string) => listener!.onData(Buffer.from(text)),
    take: (bytes: number) => listener!.onTaken(bytes),
    typed: () => typed,
    isPaused: () => isPaused,
  }
}

/** A user that acknowledges output when the test requests it. */
class User {
  text = ''
  taken = 0
  opened: Extract<ConsoleResponse, { $case: 'opened' }>['value'] | undefined
  readonly #open

  constructor(held: HeldConsole, received?: number | null) {
    const joining = received === undefined ? undefined : { received, size: { columns: 80, rows: 24 } }
    const send = (response: ConsoleResponse): void => {
      if (response.$case === 'opened') this.opened = response.value
      if (response.$case === 'taken') this.taken = response.value
      if (response.$case === 'data') this.text += response.value.toString()
    }
    this.#open = held.join({ send, end: () => undefined }, joining)
  }

  get offset(): number {
    return this.opened!.offset + this.text.length
  }

  acknowledge(): void {
    this.#open.receive({ $case: 'received', value: this.offset })
  }

  type(bytes: number): void {
    this.#open.receive({ $case: 'data', value: Buffer.alloc(bytes) })
  }

  leave(): void {
    this.#open.leave()
  }
}

describe('a resumable console', () => {
  const kib = 1024

  it('buffers at most 512 KiB of input for a program that reads nothing, even if users reconnect', () => {
    const { held, take, typed } = makeConsole()
    for (let round = 0; round < 10; round++) {
      const user = new User(held, round === 0 ? undefined : 0)
      user.type(256 * kib)
      user.leave()
    }
    expect(typed()).to.equal(512 * kib)
    const user = new User(held, 0)
    take(512 * kib)
    expect(user.taken, 'what others typed').to.equal(0)
    user.type(64 * kib)
    take(64 * kib)
    expect(user.taken).to.equal(64 * kib)
    held.close()
  })

  it('sends short output immediately, but delays long output that comes soon after other output', () => {
    const { held, show } = makeConsole()
    const user = new User(held)
    show('x'.repeat(kib))
    show('y')
    expect(user.text).to.have.length(kib + 1)
    show('z'.repeat(kib))
    expect(user.text).to.have.length(kib + 1)
    held.close()
  })

  it('loses no output if the terminal can be paused, even if the user acknowledges nothing', () => {
    const { held, show, isPaused } = makeConsole()
    const user = new User(held)
    const chunks = ['a'.repeat(16), 'b'.repeat(30 * kib), ...Array<string>(8).fill('c'.repeat(64 * kib))]
    const shown = chunks.filter((chunk) => {
      if (isPaused()) return false
      show(chunk)
      return true
    })
    for (let times = 0; times < 4; times++) user.acknowledge()
    expect(user.text === shown.join(''), `${user.text.length} bytes`).to.equal(true)
    held.close()
  })

  it('continues to send new output after output was lost several times', () => {
    const { held, show } = makeConsole()
    const user = new User(held)
    for (let round = 0; round < 5; round++) {
      for (let n = 0; n < 100; n++) show('x'.repeat(32 * kib)) // 3.2 MB, more than the window of 512 KiB
      user.acknowledge()
      show(`round ${round}`)
      user.acknowledge()
      user.acknowledge()
      expect(user.text.endsWith(`round ${round}`), `round ${round}`).to.equal(true)
    }
    held.close()
  })

  it('does not wait until the user acknowledges output that was lost', async () => {
    const { held, show } = makeConsole()
    const user = new User(held)
    show('x'.repeat(100 * kib)) // too little output for the user to acknowledge
    show('y'.repeat(1024 * kib))
    await waitFor(() => user.text.length > 400 * kib, { what: 'a window of output' })
    held.close()
  })

  it('resumes at the position where its user stopped receiving, even if output was lost', () => {
    const { held, show } = makeConsole()
    const user = new User(held)
    for (let n = 0; n < 100; n++) show('x'.repeat(32 * kib))
    user.acknowledge()
    show('seen')
    user.acknowledge()
    user.acknowledge()
    user.leave()
    show('missed')
    const again = new User(held, user.offset)
    expect([again.opened?.resumed, again.opened?.replay, again.text]).to.deep.equal([true, 0, 'missed'])
    held.close()
  })

  it('replays all stored output if the user’s screen is empty, and reports how many bytes the user has received', () => {
    const { held, show } = makeConsole()
    const user = new User(held)
    show('one\n')
    show('two\n')
    user.leave()
    show('three\n')
    const again = new User(held, null)
    // The console delays output that closely follows other output, so the first user got only "one\n".
    expect([again.text, again.opened?.replay]).to.deep.equal(['one\ntwo\nthree\n', user.text.length])
    held.close()
  })

  it('ends as soon as its user disconnects if the time limit for a reconnection is 0', () => {
    const { held } = makeConsole(0)
    new User(held).leave()
    expect(held.belongsTo({ guestUuid: 'g', principal: 'key:1' })).to.equal(false)
  })
})
